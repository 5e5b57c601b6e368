"""The pattern explorer as users hold it: widgets, what they ask for, and the runs behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import ipywidgets
import numpy as np

from cepkit.api import match, spark_module
from cepkit.checked import warn_of_unknown_types
from cepkit.errors import CepError, nearest
from cepkit.explorer.automaton import NO_AUTOMATON, NOTHING_DRAWN, Automaton, automaton_of, drawn_automaton
from cepkit.explorer.code import code_of, name_of_frame
from cepkit.explorer.constants import Slider, moved, shape_of, sliders_of, with_ranges_of
from cepkit.explorer.data import SearchedFrame
from cepkit.explorer.pages import CANONICAL, PAGE, cells, is_number
from cepkit.explorer.result import Chosen, Result
from cepkit.explorer.spark_part import part_of
from cepkit.explorer.text import Mistake, Reading, mistake_of, read_text, text_and_call, warnings_heard
from cepkit.explorer.worker import Turn, Worker
from cepkit.frames.building import check_columns
from cepkit.given import Given
from cepkit.language.functions import BUILT_IN_NAMES
from cepkit.planner import check_engine
from cepkit.widgets.funnel_view import FunnelView
from cepkit.widgets.match_table import MatchTable
from cepkit.widgets.nfa_view import NfaView
from cepkit.widgets.query_editor import QueryEditor
from cepkit.widgets.reason_view import ReasonView
from cepkit.widgets.slider_panel import SliderPanel
from cepkit.widgets.stepper import NEXT_MATCH, Stepper
from cepkit.widgets.timeline_view import TimelineView

# Jobs of the thread, the most urgent first; the last one makes room for the others.
RUN, SELECT, PAGE_OF, WINDOW, STEP, REASONS, FUNNEL = KINDS = (
    *("run", "select", "page", "window", "step", "reasons"),
    "funnel",
)
_KEYWORDS = (*(item.name for item in fields(Given)), "engine")
_START = "write a query: names in a row, with a line 'name: condition' each below, or PATTERN SEQ(A a, B b)"
_ROWS_NAMED = 8  # clicked rows that are asked about together


class Explorer:
    """A query that is edited while its matches are looked at; made by ``df.cep.explore``.

    Parameters
    ----------
    frame : DataFrame or table
        As for `cepkit.match`. Of a Spark frame a part is looked at first, see ``sampled``.
    query : str, pattern or query, optional
        What is looked for at first.
    **call
        Keywords of `cepkit.match`. What the text in the editor says of a regex, predicates and window, is
        taken out of them.

    Raises
    ------
    CepError
        For keywords that there are not, and columns that the frame does not have. Mistakes in the query are
        shown in the editor instead.

    Notes
    -----
    Runs take place in a thread of their own; only the newest edit counts, and what was found last stays until
    there is something new. `wait` waits for them.
    """

    def __init__(self, frame: Any, query: Any = None, **call: Any):
        _check_keywords(call)
        self._engine = call.pop("engine", "auto")
        check_engine(self._engine)
        text, self._call = ("", dict(call)) if query is None else text_and_call(query, call)
        self._name, self.sampled, self._spark = name_of_frame(frame), "", None
        if spark_module(frame):
            self._spark, (frame, self.sampled) = frame, _part(frame, text, self._call)
        self._data = SearchedFrame(frame)
        _check_columns(self._data.source, self._call)
        self._worker = Worker(KINDS, self._failed)
        self._result: Result | None = None
        self._all: Any = None  # the matches of a whole Spark frame
        self._reading: Reading | None = None
        self._sliders: tuple[Slider, ...] = ()
        self._shape: tuple = ()
        self._automaton: Automaton | None = None
        self._partition: int | None = None
        self._drawn_events: Any = None  # of the partition's timeline
        self._chosen: Chosen | None = None
        self._asked: list[int] = []  # positions of the rows that are asked about
        self._writing = threading.local()  # traits that Python writes are no wishes
        self._view = self._widgets(text)
        self._read()

    # --- what there is

    @property
    def text(self) -> str:
        """The text in the editor; assigning it is an edit."""
        return self.editor.text

    @text.setter
    def text(self, text: str) -> None:
        self.editor.text = text

    @property
    def query(self):
        """The query of the last result as a value, None before the first."""
        return None if self.matches is None else self.matches.query

    @property
    def matches(self):
        """The last result as ``df.cep.match`` returns it, None before the first."""
        return self._all if self._all is not None else self._result and self._result.matches

    @property
    def sliders(self) -> tuple[Slider, ...]:
        """The constants of the query that can be moved."""
        return self._sliders

    @property
    def selected(self) -> int | None:
        """The number of the match that is looked at."""
        return self._chosen and self._chosen.number

    @property
    def status(self) -> dict[str, Any]:
        """``state``, ``message`` and ``progress`` of the newest run."""
        return dict(self.editor.status)

    def wait(self, timeout: float | None = None) -> Explorer:
        """Wait until nothing runs.

        Raises
        ------
        TimeoutError
            When it takes longer than ``timeout`` seconds.
        """
        if not self._worker.wait(timeout):
            raise TimeoutError(f"the explorer still runs after {timeout:g} s: {self.status['message']}")
        return self

    def cancel(self) -> None:
        """Stop what runs; what was found before stays."""
        is_running = self.editor.status["state"] == "running"
        self._worker.cancel()
        if is_running:
            self._say("cancelled", "cancelled; what is shown was found before")

    # --- what can be asked of it

    def move(self, id: str, value: float) -> None:
        """Give a constant of the query another value, as its slider does.

        Raises
        ------
        CepError
            For a slider that there is not.
        """
        slider = next((one for one in self._sliders if one.id == id), None)
        if slider is None:
            known = [one.id for one in self._sliders]
            raise CepError(f"move: no slider {id!r}.{nearest(id, known)} Sliders: {known}")
        if slider.start < 0:
            name, value = slider.id[1:], float(slider.spelled(value))
            value = int(value) if value.is_integer() and isinstance(slider.value, int) else value
            self._call = {**self._call, "params": {**self._call.get("params", {}), name: value}}
        else:
            with self._ours():
                self.editor.text = moved(self.editor.text, slider, value)
        self._read()

    def select(self, number: int | None) -> None:
        """Look at a match: in the automaton, on the timeline and in the table at once; None: at none."""
        if number is None:
            self._chosen = None
            with self._ours():
                self.table.selected = self.timeline.selected = None
                self.nfa.lit, self.timeline.points = [], []
            return
        result = self._shown("select")
        number = int(number)
        result.chosen(number)  # refused here rather than in the thread
        self._worker.submit(SELECT, lambda turn: self._select(turn, result, number))

    def show_page(self, page: int, order: str | None = None) -> None:
        """Show another page of the table, from 1, or another order."""
        result, order = self._shown("show_page"), order or self.table.order
        self.table.busy = True
        self._worker.submit(PAGE_OF, lambda turn: self._turn_page(turn, result, int(page), order))

    def zoom(self, window: Sequence[float]) -> None:
        """Show the time from ``window[0]`` to ``window[1]`` of the axis, as finely as it can be drawn."""
        result, window = self._shown("zoom"), [float(time) for time in window]
        self._set(self.timeline, {"window": window, "busy": True})
        self._worker.submit(WINDOW, lambda turn: self._zoom(turn, result, window))

    def step_to(self, position: int) -> None:
        """Go to the moment after ``position`` events, -1: to the next event that completes a match."""
        result, position = self._shown("step_to"), int(position)
        self._worker.submit(STEP, lambda turn: self._step(turn, result, position))

    def why_not(self, rows: Sequence[int]) -> None:
        """Say why events, given as places in the stream, are not a match."""
        result, self._asked = self._shown("why_not"), [int(row) for row in rows]
        asked = list(self._asked)
        self._worker.submit(REASONS, lambda turn: self._explain(turn, result, asked))

    def run_on_all(self) -> None:
        """Run the query on the whole Spark frame instead of the part that is shown.

        Raises
        ------
        CepError
            When the frame is no Spark frame, or the query has mistakes.
        """
        if self._spark is None:
            raise CepError("run_on_all: the frame is no Spark frame; what is shown is of all rows")
        if self._reading is None or self._reading.query is None:
            raise CepError("run_on_all: the query has mistakes; the editor shows them")
        value, version = self._reading.query, self.editor.edited
        self._say("running", "on all rows, by Spark", version=version)
        self._worker.submit(RUN, lambda turn: self._run_on_all(turn, value, version))

    # --- edits

    def _read(self) -> None:
        """Read the text, show what is wrong with it, or run it."""
        text, version = self.editor.text, self.editor.edited
        if not text.strip():
            self._worker.cancel()
            self._reading = None
            self._say("idle", _START, version=version, errors=[])
            return
        reading = read_text(text, self._call)
        program, notes = None, list(reading.notes)
        if reading.query is not None:
            try:
                with warnings_heard() as heard:
                    program = self._data.compiled(reading.query)
                notes += heard
            except CepError as error:
                found = mistake_of(error, text, reading.pieces)
                reading = Reading(text, None, (found,), reading.pieces)
        self._reading = reading
        if program is None:
            self._worker.cancel()
            errors = [_as_trait(one, text) for one in reading.mistakes]
            head = reading.mistakes[0].message.split("\n")[0]
            self._say("failed", f"{head}; what is shown was found before", version=version, errors=errors)
            return
        self._set_sliders(reading)
        is_new = self._set_automaton(program, reading)
        self.editor.code = code_of(reading, self._code_call(), self._name)
        shape = "compiling a pattern of a new shape, then running it" if is_new else "running"
        self._say("running", shape, version=version, errors=[])
        automaton = self._automaton
        self._worker.submit(
            RUN,
            lambda turn: self._run(turn, program, notes, version, automaton, is_new),
            lambda done: self._say("running", shape, progress=done),
        )

    def _code_call(self) -> dict[str, Any]:
        return self._call if self._engine == "auto" else {**self._call, "engine": self._engine}

    def _set_sliders(self, reading: Reading) -> None:
        sliders = sliders_of(reading, self._data.schema, self._data.sampled)
        shape = shape_of(reading.text, sliders)
        if shape == self._shape:
            sliders = with_ranges_of(sliders, self._sliders)
        self._sliders = sliders
        self.slider_panel.sliders = [
            {
                "id": one.id, "label": one.label, "value": one.value, "low": one.low, "high": one.high,
                "step": one.step, "unit": one.unit, "text": one.text,
            }
            for one in sliders
        ]  # fmt: skip

    def _set_automaton(self, program: Any, reading: Reading) -> bool:
        """Draw the automaton where the query has a new shape; return whether it has."""
        shape = shape_of(reading.text, self._sliders)
        if shape == self._shape and self._automaton is not None:
            return False
        self._shape = shape
        self._automaton, drawn = NO_AUTOMATON, NOTHING_DRAWN
        try:
            self._automaton = automaton_of(program)
            drawn = drawn_automaton(self._automaton)
            self.nfa.tooltip = self._automaton.note
        except CepError as error:  # too large for a picture, or for its states to be told apart
            self.nfa.tooltip = str(error)
        with self.nfa.hold_sync():
            self.nfa.lit, self.nfa.live, self.nfa.selected = [], [], None
            for name, value in drawn.items():
                setattr(self.nfa, name, value)
        return True

    def _say(
        self,
        state: str,
        message: str,
        *,
        progress: float | None = None,
        version: int | None = None,
        errors: list[dict] | None = None,
    ) -> None:
        with self.editor.hold_sync():
            if version is not None:
                self.editor.version = version
            if errors is not None:
                self.editor.errors = errors
            self.editor.status = {"state": state, "message": message, "progress": progress}

    # --- jobs of the thread

    def _run(
        self, turn: Turn, program: Any, notes: list[str], version: int, automaton: Automaton, is_new: bool
    ) -> None:
        began = time.perf_counter()
        events = self._data.events(program)
        turn.expect(events.n_events)
        matches = self._data.run(program, self._engine, turn.progress)
        result = Result(self._data, program, matches, automaton)
        if result.is_sequence:
            with warnings_heard() as heard:
                warn_of_unknown_types(program, events)
            notes = [*notes, *heard]
        if self._result is not None:
            result.take_series(self._result)
        if (look := result.first_look()) is not None:
            turn.deliver(lambda: self._set(self.table, look))
        result.matches.count()
        took = time.perf_counter() - began
        if is_new and (table := result.first_rows()) is not None:
            turn.deliver(lambda: self._show(result, table, notes, version, took))
            table = result.pages.traits(1, CANONICAL)
            turn.deliver(lambda: self._set(self.table, table))
        else:
            table = result.pages.traits(1, CANONICAL)
            took = time.perf_counter() - began
            turn.deliver(lambda: self._show(result, table, notes, version, took))
        partition = self._partition_for(result)
        timeline = result.timeline(partition, self._kept_window(result, partition))
        turn.deliver(lambda: self._show_bands(result, partition, timeline))

    def _partition_for(self, result: Result) -> int | None:
        """Return the partition to show: the one that is shown, where it still has a match."""
        is_same = self._drawn_events is result.events and self._partition is not None
        if is_same and (result.events.partition_of_event[result.ends] == self._partition).any():
            return self._partition
        return result.partition_of_first()

    def _kept_window(self, result: Result, partition: int | None) -> list[float] | None:
        window, extent = list(self.timeline.window), result.series(partition).extent
        is_same = list(self.timeline.view) == extent
        return window if window and is_same else None

    def _show(self, result: Result, table: dict, notes: list[str], version: int, took: float) -> None:
        self._result, self._all, self._chosen, self._asked = result, None, None, []
        n = result.matches.count()
        found = f"{n:,} {'match' if n == 1 else 'matches'} in {took:.2f} s"
        self._set(self.table, {**table, "selected": None})
        self._set(self.timeline, {"points": [], "selected": None, "busy": True})
        self._set(self.nfa, {"lit": [], "live": []})
        self.funnel.busy = True
        self._set(
            self.reasons, {"title": "", "lines": [], "note": "click an event to ask why it is in no match"}
        )
        self._say("done", "; ".join(part for part in (self.sampled, found, *notes) if part), version=version)

    def _show_bands(self, result: Result, partition: int | None, timeline: dict) -> None:
        self._partition, self._drawn_events = partition, result.events
        kept = {} if list(self.timeline.view) == timeline["view"] else {"window": []}
        self._set(self.timeline, {**timeline, **kept, "busy": False})
        self._worker.submit(FUNNEL, lambda turn: self._count_funnel(turn, result))
        self._worker.submit(STEP, lambda turn: self._step(turn, result, self.stepper.position))

    def _select(self, turn: Turn, result: Result, number: int) -> None:
        chosen = result.chosen(number)
        partition = chosen.partition if result.n_partitions > 1 else None
        page = result.pages.page_of(chosen.number, self.table.order)
        table = (
            None if str(chosen.number) in self.table.numbers else result.pages.traits(page, self.table.order)
        )
        timeline = None if partition == self._partition else result.timeline(partition)
        points = result.points(chosen, partition)
        stepping = result.stepping(partition)
        position = stepping.index_of(chosen.positions[-1]) + 1

        def show() -> None:
            self._chosen, self._partition = chosen, partition
            self._set(self.table, {**(table or {}), "selected": str(chosen.number)})
            more = {} if timeline is None else {**timeline, "window": [], "busy": False}
            self._set(self.timeline, {**more, "points": points, "selected": chosen.number})
            self.nfa.lit = list(chosen.states)
            self._worker.submit(STEP, lambda turn: self._step(turn, result, position))

        turn.deliver(show)

    def _turn_page(self, turn: Turn, result: Result, page: int, order: str) -> None:
        table = result.pages.traits(page, order)
        turn.deliver(lambda: self._set(self.table, table))

    def _zoom(self, turn: Turn, result: Result, window: list[float]) -> None:
        timeline = result.timeline(self._partition, window)
        turn.deliver(lambda: self._set(self.timeline, {**timeline, "busy": False}))

    def _step(self, turn: Turn, result: Result, position: int) -> None:
        stepping = result.stepping(self._partition)
        if position == NEXT_MATCH:
            position = stepping.next_match(self.stepper.position)
        position = min(max(position, 0), stepping.n)
        moment = stepping.after(position)
        labels = result.automaton.labels
        live = [
            {"state": state, "label": labels[state], "n": n, "examples": list(examples)}
            for state, n, examples in moment.live
        ]
        place = stepping.position_of(position - 1) if position else None
        notes = [moment.note] if moment.note else []
        if not moment.is_whole and not moment.note:
            notes.append("partial matches that began long before are left out")
        if self.sampled:
            notes.append(self.sampled)
        traits = {
            "position": position,
            "n_events": stepping.n,
            "event": [] if place is None else result.event(place),
            "live": live,
            "completed": [", ".join(f"event {i + 1:,}" for i in match) for match in moment.completed],
            "note": "; ".join(notes),
        }
        series = result.series(self._partition)
        cursor = None if place is None else float(series.x(int(series.index_of(np.array([place]))[0])))

        def show() -> None:
            self._set(self.stepper, traits)
            self.nfa.live = [{"state": one["state"], "n": one["n"]} for one in live]
            self.timeline.cursor = cursor

        turn.deliver(show)

    def _explain(self, turn: Turn, result: Result, positions: list[int]) -> None:
        traits = result.reasons(positions)
        turn.deliver(lambda: self._set(self.reasons, traits))

    def _count_funnel(self, turn: Turn, result: Result) -> None:
        stages = result.funnel()
        turn.deliver(lambda: self._set(self.funnel, {"stages": stages, "busy": False, "selected": None}))

    def _run_on_all(self, turn: Turn, value: Any, version: int) -> None:
        began = time.perf_counter()
        with warnings_heard() as notes:
            matches = match(self._spark, value, engine=self._engine)
        n = matches.count()
        frame = matches.head(PAGE)
        table = {
            "columns": [
                {"name": str(name), "align": "right" if is_number(of) else "left"}
                for name, of in frame.dtypes.items()
            ],
            "rows": cells(frame),
            "numbers": [str(i) for i in range(len(frame))],
            "page": 1, "n_pages": "1", "total": f"{n:,}", "order": CANONICAL, "sortable": [], "busy": False,
            "limit_note": f"of all rows, the first {len(frame)}; explorer.matches has the others",
            "selected": None,
        }  # fmt: skip
        took = time.perf_counter() - began

        def show() -> None:
            self._all = matches
            self._set(self.table, table)
            found = (
                f"{n:,} matches in all rows, in {took:.1f} s; timeline, funnel and steps are of the sample"
            )
            self._say("done", "; ".join([found, *notes]), version=version)

        turn.deliver(show)

    def _failed(self, turn: Turn, error: BaseException) -> None:
        """Show what ended a job; called in the thread."""
        if turn.is_cancelled or isinstance(error, KeyboardInterrupt):
            return
        self.table.busy = self.timeline.busy = self.funnel.busy = False
        if turn.kind == RUN:
            self._say("failed", f"{type(error).__name__}: {error}"[:2000])
        elif turn.kind == FUNNEL:
            self.funnel.stages = [
                {"label": f"no funnel: {error}", "n": "", "share": 0.0, "selectivity": None, "note": ""}
            ]
        else:
            self._set(
                self.reasons, {"title": str(error).split("\n")[0], "lines": [], "note": type(error).__name__}
            )

    # --- widgets

    def _widgets(self, text: str) -> ipywidgets.VBox:
        types = self._call.get("event_type")
        names = self._data.texts(types)[:200] if types in self._data.schema and self._is_text(types) else []
        functions = sorted(BUILT_IN_NAMES)
        self.editor = QueryEditor(text=text, columns=self._data.columns(), names=[*names, *functions])
        self.slider_panel, self.nfa, self.timeline = SliderPanel(), NfaView(), TimelineView()
        self.table, self.funnel, self.stepper = MatchTable(), FunnelView(), Stepper()
        self.reasons = ReasonView()
        self._observe(self.editor, "text", lambda text: self._read())
        self._observe(self.editor, "cancel", lambda n: self.cancel())
        self._observe(self.slider_panel, "moved", self._on_moved)
        self._observe(self.table, "selected", self._on_selected)
        self._observe(self.table, "wanted_page", lambda page: self._on_page(page, self.table.order))
        self._observe(self.table, "wanted_order", lambda order: self._on_page("1", order))
        self._observe(self.timeline, "window", lambda window: self.zoom(window))
        self._observe(self.timeline, "selected", self._on_selected)
        self._observe(self.timeline, "clicked", self._on_clicked)
        self._observe(self.stepper, "wanted", lambda wish: wish and self.step_to(wish["to"]))
        rows = [
            self.editor,
            ipywidgets.HBox([self.slider_panel, self.nfa]),
            self.timeline,
            ipywidgets.HBox([self.table, self.funnel]),
            ipywidgets.HBox([self.stepper, self.reasons]),
        ]
        if self._spark is not None:
            button = ipywidgets.Button(description="Run on all rows", tooltip=self.sampled)
            button.on_click(lambda _: self.run_on_all())
            rows.insert(1, button)
        return ipywidgets.VBox(rows)

    def _is_text(self, name: str) -> bool:
        return self._data.schema[name].kind == "text"

    def _observe(self, widget: Any, trait: str, wish: Callable[[Any], Any]) -> None:
        """Call ``wish`` with the new value when the browser, or a person's Python, writes a trait."""

        def told(change: Any) -> None:
            if getattr(self._writing, "depth", 0):
                return
            try:
                wish(change["new"])
            except (CepError, IndexError, ValueError) as error:  # a wish that came too late
                self._set(self.reasons, {"title": str(error).split("\n")[0], "lines": [], "note": ""})

        widget.observe(told, trait)

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """Hold off observers in this thread while it writes traits."""
        self._writing.depth = getattr(self._writing, "depth", 0) + 1
        try:
            yield
        finally:
            self._writing.depth -= 1

    def _set(self, widget: Any, traits: Mapping[str, Any]) -> None:
        with self._ours(), widget.hold_sync():
            for name, value in traits.items():
                setattr(widget, name, value)

    def _on_moved(self, moved: dict) -> None:
        if moved:
            self.move(moved["id"], moved["value"])

    def _on_selected(self, number: Any) -> None:
        self.select(None if number is None else int(number))

    def _on_page(self, page: str, order: str) -> None:
        if self._result is not None:
            self.show_page(int(page or 1), order)

    def _on_clicked(self, x: float | None) -> None:
        """Ask about an event that is clicked, together with those clicked before; again: not about it."""
        if x is None or self._result is None or not len(self._result.series(self._partition)):
            return
        series = self._result.series(self._partition)
        position = series.position_of(series.nearest(x))
        kept = [one for one in self._asked if one != position]
        is_new = len(kept) == len(self._asked)
        asked = [*kept, position][-_ROWS_NAMED:] if is_new else kept
        if asked:
            self.why_not(asked if self._result.is_sequence else asked[-1:])
        else:
            self._asked = []
            self._set(self.reasons, {"title": "", "lines": [], "note": ""})

    def _shown(self, what: str) -> Result:
        if self._result is None:
            raise CepError(f"{what}: there is no result yet; write a query and wait() for it")
        return self._result

    # --- how it is shown

    def __repr__(self) -> str:
        n_rows = self._data.source.n_rows
        found = "no result yet" if self._result is None else f"{self._result.matches.count():,} matches"
        return f"Explorer({n_rows:,} rows, {self.editor.status['state']}, {found})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self._view._repr_mimebundle_(**kwargs)


def _check_keywords(call: Mapping[str, Any]) -> None:
    unknown = [name for name in call if name not in _KEYWORDS]
    if unknown:
        raise CepError(
            f"explore: {unknown} are no keywords.{nearest(unknown[0], _KEYWORDS)} Keywords: {list(_KEYWORDS)}"
        )


def _check_columns(source: Any, call: Mapping[str, Any]) -> None:
    for role in ("partition_by", "order_by", "event_type"):
        given = call.get(role)
        check_columns(source, role, (given,) if isinstance(given, str) else tuple(given or ()))


def _part(frame: Any, text: str, call: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the part of a Spark frame that is looked at, by the keys and the order of the query."""
    reading = read_text(text, call) if text.strip() else None
    said = reading.query if reading is not None and reading.query is not None else None

    def named(role: str) -> tuple[str, ...]:
        given = call.get(role)
        own = (given,) if isinstance(given, str) else tuple(given or ())
        return own or (getattr(said, role) if said is not None else ())

    return part_of(frame, named("partition_by"), named("order_by"))


def _as_trait(mistake: Mistake, text: str) -> dict[str, Any]:
    return {
        "start": mistake.start, "end": mistake.end, "line": mistake.line(text), "message": mistake.message
    }  # fmt: skip
