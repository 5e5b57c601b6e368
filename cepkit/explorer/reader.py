"""The reader of an explorer's query, the changes that a user makes, with steps back and forth, and clicks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from typing import Any

from cepkit.errors import CepError, is_number, nearest, short_text
from cepkit.events import NUMBERS, TEXT, Frame, Source
from cepkit.explorer.board import (
    CHOSEN,
    DRAWN,
    Board,
    Data,
    choose_measures,
    fields_of,
    lacks_event_type,
    language_of,
)
from cepkit.explorer.constants import Slider, layout_of, move_slider, shape_of, sliders_of, with_ranges_of
from cepkit.explorer.examples import Example, examples_of, head_of
from cepkit.explorer.history import BoardState, History, QueryLog
from cepkit.explorer.presenter import OLD_RESULT, Asked, Presenter
from cepkit.explorer.running.data import BY_NAME, AnyProgram, SearchedFrame
from cepkit.explorer.running.result import (
    NO_AUTOMATON,
    NOTHING_DRAWN,
    Automaton,
    automaton_of,
    draw_automaton,
)
from cepkit.explorer.running.series import drawable, first_drawn
from cepkit.explorer.taking import code_of
from cepkit.explorer.text import TextReading, applicable, collect_warnings, is_rows, mistake_of, read_text
from cepkit.language.cheat_sheet import say_query
from cepkit.language.expressions.functions import BUILT_IN_NAMES
from cepkit.language.expressions.trees import Expression
from cepkit.planning.plans import check_columns
from cepkit.planning.queries import check_keywords
from cepkit.results.spark_tasks import part_of
from cepkit.widgets.panels import KEYWORDS, KEYWORDS_OF_SQL

LOCKED = "The query has mistakes. Its sliders can be moved after they are corrected."


class QueryReader:
    """Reads the text in the editor with the chosen keywords."""

    def __init__(
        self, data: SearchedFrame, board: Board, present: Presenter, call: dict[str, Any], frame_name: str
    ):
        self._data, self._board, self._present, self.call = data, board, present, call
        self._frame_name = frame_name
        self.reading: TextReading | None = None
        self.sliders: tuple[Slider, ...] = ()
        self.has_examples = False  # whether the editor offers them
        self.bound: Any = None  # the newest query without mistakes
        self.will_read: list[Callable[[], object]] = []  # they hear of every text before it is read
        self.will_run: Callable[[Any], object] = lambda program: None  # gets the program before it runs
        self.has_read: list[Callable[[], object]] = []
        self._shape: tuple = ()
        self._layout: tuple = ()  # of the shown sliders
        self._ranged_by: tuple = ()  # keys and order of the ranges of the sliders
        self.automaton: Automaton = NO_AUTOMATON

    @property
    def text(self) -> str:
        return self._board.editor.text

    @property
    def state(self) -> BoardState:
        """Everything that the user chose."""
        shown, keys = self._present.shown, self._present.keys
        return BoardState(self.text, dict(self.call), shown.value, keys.kept)

    @property
    def call_of_text(self) -> dict[str, Any]:
        return applicable(self.text, self.call)

    @property
    def right_reading(self) -> TextReading | None:
        """What the text says if it is a query without mistakes, else None."""
        reading = self.reading
        return None if reading is None or reading.query is None else reading

    def set_call(self, call: dict[str, Any]) -> None:
        """Set the keywords, and show what depends on them."""
        before, self.call = self.call, call
        if call.get("event_type") != before.get("event_type"):
            self._board.set(self._board.editor, {"names": self.names()})
        if self._present.shown.result is None:
            self._present.shown.unmatched = None

    def names(self) -> list[str]:
        """Return the types of events and the functions, for completion."""
        name = self.call.get("event_type")
        dtype = None if name is None else self._data.schema.get(name)
        texts = self._data.texts(name) if dtype is not None and dtype.kind == TEXT else []
        return [*texts[:200], *sorted(BUILT_IN_NAMES)]

    def needed_columns(self) -> list[str]:
        """Return the columns that the query and the choices read."""
        program, names = self.bound, []
        for role in ("partition_by", "order_by", "event_type"):
            chosen = self.call.get(role)
            names += [chosen] if isinstance(chosen, str) else list(chosen or ())
        if program is not None:
            names += [*program.query.partition_by, *program.query.order_by, *program.columns]
        names.append(self._present.shown.value)
        return [name for name in dict.fromkeys(names) if name in self._data.schema]

    # --- the text

    def read(self) -> None:
        """Read the text, then show its mistakes or run it, and show the choices that fit it."""
        for hear in self.will_read:
            hear()
        if self.text.strip():
            self._read_text(self.text)
        else:
            self._read_nothing()
        self.show_bar()
        for hear in self.has_read:
            hear()

    def _read_nothing(self) -> None:
        """Show the events and examples, as without a query."""
        board = self._board
        self._present.stop()
        self.reading, self._shape, self._layout, self.sliders = None, (), (), ()
        board.set(board.sliders, {"sliders": [], "locked": ""})
        board.say("idle", "", version=board.editor.edited, errors=[])
        self._say_outdated()
        self._preview()
        if not self.has_examples:
            self.offer_examples()

    def offer_examples(self) -> list[Example]:
        """Show examples for the frame and the chosen columns, once, and return them."""
        examples, self.has_examples = examples_of(head_of(self._data), self.call), True
        self._board.set(self._board.editor, {"examples": [example.trait() for example in examples]})
        return examples

    def _read_text(self, text: str) -> None:
        """Read the text of the editor: run its query, or show its mistakes."""
        board, present, version = self._board, self._present, self._board.editor.edited
        self.reading, program, notes = self._compile(text)
        board.set(board.sliders, {"locked": LOCKED if program is None else ""})
        if program is None:
            present.stop()
            mistakes = self.reading.mistakes
            errors = [
                {"start": m.start, "end": m.end, "line": m.line(text), "message": m.message} for m in mistakes
            ]
            head = mistakes[0].message.split("\n")[0]
            kept = "" if present.shown.matches is None else f"; {OLD_RESULT}"
            board.say("failed", f"{head}{kept}", version=version, errors=errors)
            self._say_outdated()
            self._preview()
            return
        self.bound = program
        self._show_shape(self.reading, program)
        engine = present.runs.engine
        call = applicable(text, self.call) | ({} if engine == "auto" else {"engine": engine})
        code = code_of(self.reading, call, self._frame_name)
        board.code = code
        board.set(board.editor, {"sentence": say_query(program.query)})
        board.set(board.table, {"outdated": ""})
        self.will_run(program)
        present.runs.run(Asked(program, self.automaton, tuple(notes), version))

    def _say_outdated(self) -> None:
        """Say which query the table and the timeline belong to, while the text is not a query."""
        result = self._present.shown.result
        words = (
            "" if result is None else f"Showing the last query that ran: {say_query(result.program.query)}"
        )
        self._board.set(self._board.table, {"outdated": words})

    def _compile(self, text: str) -> tuple[TextReading, Any, list[str]]:
        """Return a text as it was read, its program or None, and notes."""
        reading = read_text(text, applicable(text, self.call))
        if reading.query is None:
            return reading, None, []
        try:
            with collect_warnings() as heard:
                program = self._data.compile(reading.query)
        except CepError as error:
            mistake = mistake_of(error, text, reading.pieces)
            return TextReading(text, None, (mistake,), reading.pieces), None, []
        return reading, program, [*reading.notes, *heard]

    def _preview(self) -> None:
        """Show the events before the first query."""
        shown = self._present.shown
        if shown.result is None and shown.unmatched is None:
            call = {**applicable(".", self.call), "measures": None, "params": None}
            query = read_text(".", {name: value for name, value in call.items() if value is not None}).query
            if query is not None:
                with suppress(CepError):  # the editor shows mistakes of the query itself
                    program = self._data.compile(query)
                    self.bound = self.bound or program
                    self._present.timeline.preview(program)

    def _show_shape(self, reading: TextReading, program: AnyProgram) -> None:
        """Show the sliders, and the automaton if its shape is new."""
        board, schema = self._board, self._data.schema
        sliders = sliders_of(reading, schema)
        shape, layout = shape_of(reading.text, sliders), layout_of(reading.text, sliders)
        ranged_by = program.query.partition_by, program.query.order_by
        if layout != self._layout or ranged_by != self._ranged_by:
            rows = self._data.sample_for(program.query) if sliders else None
            self.sliders = sliders_of(reading, schema, rows)
        else:
            self.sliders = with_ranges_of(sliders, self.sliders)
        self._layout, self._ranged_by = layout, ranged_by
        board.set(board.sliders, {"sliders": [slider.trait() for slider in self.sliders]})
        if shape == self._shape:
            return
        before, selected = self.automaton.labels, board.nfa.selected
        self._shape, self.automaton, drawn = shape, NO_AUTOMATON, NOTHING_DRAWN
        try:
            self.automaton = automaton_of(program)
            drawn, note = draw_automaton(self.automaton), self.automaton.note
        except CepError as error:  # too many states
            note = str(error)
        if self.automaton.labels != before:  # state numbers have changed their meaning
            selected = None
        seen = {"lit": [], "live": [], "selected": selected, "tooltip": note}
        board.set(board.nfa, {**drawn, **seen})

    # --- the selectors

    def show_bar(self, note: str = "") -> None:
        """Show the selectors with their choices, and a note on them."""
        source, bound, text, shown = self._data.source, self.bound, self.text, self._present.shown
        mistakes = [] if self.reading is None else [mistake.message for mistake in self.reading.mistakes]
        is_needed = lacks_event_type(text, self.call, mistakes)
        if is_needed:
            note = "This query names types of events. Choose the column that has them."
        columns = [] if bound is None else drawable(bound, source)
        drawn = shown.value if shown.value in columns else (bound and first_drawn(bound, columns)) or ""
        query = None if bound is None else bound.query
        fields = fields_of(self._of_data(), self.call, text, query, (columns, drawn), is_needed)
        words = KEYWORDS_OF_SQL if is_rows(text) else KEYWORDS
        self._board.set(self._board.editor, {"keywords": list(words)})
        self._board.set(self._board.bar, {"fields": fields, "language": language_of(text), "note": note})

    def choose_measures(self, names: Sequence[str]) -> dict[str, Any] | None:
        """Return the measures with these names, see `cepkit.explorer.board.choose_measures`."""
        query = None if self.bound is None else self.bound.query
        return choose_measures(self._of_data(), self.call, query, names)

    def _of_data(self) -> Data:
        return Data(self._data.schema, self._data.source.duplicates)


# Checks of the arguments of an explorer, and the explored part of a Spark frame.


def check_call(source: Source, call: Mapping[str, Any]) -> None:
    """Raise `CepError` if a keyword names a column that the frame lacks, or has a wrong type."""
    for role in ("partition_by", "order_by", "event_type"):
        check_columns(source, role, _names(role, call.get(role)))
    for role, wanted_type in (("event_type", str), ("strategy", str), ("measures", Mapping)):
        value = call.get(role)
        if value is not None and not isinstance(value, wanted_type):
            expected = "a text" if wanted_type is str else "a dict of names and expressions"
            raise CepError(f"{role}={short_text(repr(value))}: expected {expected}")
    for name, measure in (call.get("measures") or {}).items():
        if not isinstance(name, str) or not isinstance(measure, str | Expression):
            raise CepError(f"measures: {name!r}: expected a text, got {short_text(repr(measure))}")


def check_value(source: Source, value: str | None, event_type: str | None) -> None:
    """Raise `CepError` for a column that a timeline cannot show."""
    if value is None or (isinstance(value, str) and value == event_type):
        return
    check_columns(source, "value", (value,))
    numbers = [name for name, column_type in source.schema.items() if column_type.kind in NUMBERS]
    if value not in numbers:
        raise CepError(
            f"value: column {value!r} cannot be drawn, its type is {source.schema[value]}. "
            f"Columns of numbers: {numbers}"
        )


def explored_part(frame: Frame, text: str, call: Mapping[str, Any]) -> tuple[Frame, str]:
    """Return the explored part of a Spark frame, by the keys and the order of the query, and its words."""
    query = read_text(text, call).query if text.strip() else None

    def columns(role: str) -> tuple[str, ...]:
        return _names(role, call.get(role)) or (getattr(query, role) if query is not None else ())

    return part_of(frame, columns("partition_by"), columns("order_by"))


def _names(role: str, given: Any) -> tuple[str, ...]:
    """Return the names of columns that a keyword was given."""
    if given is None:
        return ()
    names = (given,) if isinstance(given, str) or not _is_iterable(given) else tuple(given)
    if not all(isinstance(name, str) for name in names):
        raise CepError(f"{role}={short_text(repr(given))}: give the names of columns")
    return names


def _is_iterable(given: Any) -> bool:
    return isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0  # `iter` refuses an array of no axis


def check_texts(what: str, given: Any) -> list[str]:
    """Return a text or texts as a list without repetitions; raise `CepError` for anything else."""
    if isinstance(given, str):
        return [given]
    texts = list(given) if _is_iterable(given) and not isinstance(given, Mapping) else [given]
    if not all(isinstance(name, str) for name in texts):
        raise CepError(f"{what}={short_text(repr(given))}: give the names of columns")
    return list(dict.fromkeys(texts))


def check_extent(window: Any) -> list[float]:
    """Return the two bounds of a window, or nothing for an empty one; raise `CepError` for anything else."""
    is_list = isinstance(window, Sequence) and not isinstance(window, str | bytes)
    bounds = list(window) if is_list else [None]
    if (
        len(bounds) not in (0, 2)
        or not all(is_number(bound) and isfinite(bound) for bound in bounds)
        or (bounds and bounds[0] > bounds[1])
    ):
        raise CepError(f"zoom: window={short_text(repr(window))}: give [first, last], or [] for all")
    return bounds


# The names of choices on the buttons that take them back.
LABELS = {
    "partition_by": "key columns", "order_by": "clock", "event_type": "event type", "strategy": "strategy",
    "measures": "measures", DRAWN: "drawn column",
}  # fmt: skip


class Changes:
    """Changes the text and the choices of an explorer; every change is a step that can be taken back."""

    def __init__(self, data: SearchedFrame, board: Board, present: Presenter, reader: QueryReader):
        self._data, self._board, self._present, self._reader = data, board, present, reader
        self._history, self.log = History(reader.state), QueryLog()
        self._ran: tuple[Any, BoardState] = (None, reader.state)  # the newest run: its program and choices
        present.keys.chosen, present.runs.ended = self._record_key, self._log_run
        present.matches.key_changed = self._record_match
        reader.will_run = self._note_run

    # --- changes

    def edit_text(self, burst: Hashable = None) -> None:
        self._record("text", burst)
        self._reader.read()

    def choose(self, choices: Mapping[str, Any]) -> None:
        """Choose keywords, see `Explorer.choose`."""
        check_keywords("choose", choices, CHOSEN)
        check_call(self._data.source, choices)
        before = self._reader.call
        call = {name: value for name, value in {**before, **choices}.items() if not _is_nothing(value)}
        if call == before:
            return
        self._reader.set_call(call)
        self._record(" and ".join(LABELS[name] for name in choices))
        self._reader.read()

    def choose_field(self, name: str, values: list[str]) -> None:
        """Do what a selector wishes; the head of the board shows a mistake."""
        try:
            if name == DRAWN:
                self.draw_column(values[0])
            elif name == "measures":
                self.choose({"measures": self._reader.choose_measures(values)})
            elif name in ("partition_by", "order_by"):
                self.choose({name: values})
            else:
                self.choose({name: values[0] if values else None})
        except CepError as error:
            self._reader.show_bar(str(error).split("\n")[0])

    def draw_column(self, name: str) -> None:
        """Show another column on the timeline."""
        check_value(self._data.source, name, self._reader.call.get("event_type"))
        self._present.timeline.show_value(name)
        self._record(LABELS[DRAWN])
        self._reader.show_bar()

    def move(self, id: str, value: float, burst: Hashable = None, *, is_held: bool = False) -> None:
        """Set the constant of a slider."""
        reader, board = self._reader, self._board
        slider = next((candidate for candidate in reader.sliders if candidate.id == id), None)
        if slider is None:
            ids = [candidate.id for candidate in reader.sliders]
            raise CepError(f"move: no slider {id!r}.{nearest(id, ids)} Sliders: {ids}")
        if board.sliders.locked:
            raise CepError(f"move: {LOCKED[0].lower()}{LOCKED[1:]}")
        if slider.start < 0:
            params = {**reader.call["params"], slider.id[1:]: slider.round_value(value)}
            reader.call = {**reader.call, "params": params}
        else:
            board.set(board.editor, {"text": move_slider(reader.text, slider, value)})
        self._record(slider.label, burst, is_held=is_held)
        reader.read()

    def bring_back(self, number: int) -> None:
        """Write an earlier query into the editor, with its choices."""
        run = self.log.find(number)
        if run is None:
            numbers = [past_run.number for past_run in self.log.runs]
            raise CepError(f"bring_back: there is no run {number}. Runs: {numbers}")
        state = replace(self._reader.state, text=run.text, call=dict(run.call))
        self._history.record(state, "earlier query")
        self._restore(state)

    # --- steps back and forth

    def undo(self) -> None:
        """Take back the newest change."""
        self._note_unrecorded()
        self._restore(self._history.undo())

    def redo(self) -> None:
        """Make the change again that was taken back last."""
        self._note_unrecorded()
        self._restore(self._history.redo())

    def _record(self, label: str, burst: Hashable = None, *, is_held: bool = False) -> None:
        """Add what the user chose now as a step."""
        self._history.record(self._reader.state, label, burst, is_held=is_held)
        self.show_steps()

    def _record_key(self, before: tuple | None) -> None:
        """Add the key that the user chose as a step; `undo` returns to the key that was shown before."""
        now = self._history.now.state
        if now.key is None:
            self._history.amend(replace(now, key=before))
        self._record("key")

    def _record_match(self, key: tuple | None, number: int | None) -> None:
        """Add a selection that changed the key as a step; `undo` returns to the key and the match before."""
        now, chosen = self._history.now.state, self._present.shown.chosen
        self._history.amend(replace(now, key=key, match=number))
        state = replace(self._reader.state, match=chosen and chosen.number)
        self._history.record(state, "match", "match")
        self.show_steps()

    def _note_unrecorded(self) -> None:
        """Record an edit whose message is still on its way through the observers."""
        now = self._history.now.state
        state = replace(self._reader.state, match=now.match)
        if replace(state, key=now.key) != now:
            self._history.record(state, "text")
        elif state != now:
            self._history.amend(state)

    def _restore(self, state: BoardState | None) -> None:
        """Show a state of the history; None for no change."""
        reader, present = self._reader, self._present
        before = reader.state
        if state is None or state == before:
            return self.show_steps()
        if state.call != before.call:
            reader.set_call(dict(state.call))
        present.shown.value = state.drawn
        if state.key != before.key:
            present.keys.keep(state.key)
        self.show_steps()
        if (state.text, state.call) != (before.text, before.call):
            self._board.set(self._board.editor, {"text": state.text})
            reader.read()
            return None
        if state.drawn != before.drawn:
            present.timeline.show_value(state.drawn)
        if state.match is not None and present.shown.result is not None:
            present.matches.select(state.match, is_change=False)  # it shows the key, too
        elif state.key != before.key:
            present.timeline.show_kept_key()
        return reader.show_bar()

    def show_steps(self) -> None:
        """Show which changes can be taken back or made again, and the past queries."""
        steps = {"undo": self._history.undo_label, "redo": self._history.redo_label}
        runs = [run.trait() for run in self.log.runs]
        self._board.set(self._board.bar, {"steps": steps, "runs": runs})

    # --- past queries

    def _note_run(self, program: Any) -> None:
        self._ran = program, self._reader.state

    def _log_run(self, program: Any, n: int, took: float) -> None:
        """Add a run that ended to the history of queries; the thread of runs calls it."""
        if program is self._ran[0]:
            state = self._ran[1]
            self.log.add(self._history.now.number, state.text, state.call, n, took)
            self.show_steps()


def _is_nothing(choice: Any) -> bool:
    return choice is None or (isinstance(choice, str | list) and not choice)


# The wishes of the browser: what a click, a key or a slider of a board calls.


def listen(board: Board, present: Presenter, changes: Changes) -> None:
    """Fulfil the wishes of the browser."""
    bar, table, timeline = board.bar, board.table, board.timeline

    def selected(number: Any) -> None:
        present.matches.select(None if number in (None, "") else int(number))

    def wanted(page: str, order: str | None = None) -> None:
        if present.shown.result is not None:
            present.table.show_page(int(page or 1), order)

    def shown(wish: dict[str, Any]) -> None:
        present.timeline.show_key(wish.get("id"), wish.get("step", 0))

    def found(wish: dict[str, Any]) -> None:
        present.keys.find(wish.get("search", ""), wish.get("order", BY_NAME), wish.get("page", 1))

    def slid(wish: dict[str, Any]) -> None:
        # The number of a drag; 0 while keys move the slider.
        drag = board.sliders.gesture
        changes.move(wish["id"], wish["value"], ("slider", wish["id"], drag), is_held=drag > 0)

    steps = {"undo": changes.undo, "redo": changes.redo}
    for widget in (board.editor, board.sliders, bar):
        board.observe(widget, "wanted_step", lambda wish: wish and steps[wish["what"]]())
    board.observe(bar, "wanted_run", lambda wish: wish and changes.bring_back(wish["number"]))
    board.observe(board.editor, "text", lambda text: changes.edit_text("typing"))
    board.observe(board.editor, "cancel", lambda n: present.cancel())
    board.observe(board.sliders, "moved", lambda wish: wish and slid(wish))
    board.observe(bar, "chosen", lambda wish: wish and changes.choose_field(wish["name"], wish["values"]))
    board.observe(bar, "wanted_keys", lambda wish: wish and found(wish))
    board.observe(bar, "wanted_key", lambda wish: wish and shown(wish))
    board.observe(bar, "asked", lambda n: board.set(bar, {"answered": n}))
    board.observe(table, "selected", selected)
    board.observe(table, "wanted_page", wanted)
    board.observe(table, "wanted_order", lambda order: wanted("1", order))
    board.observe(table, "wanted_filters", present.table.filter)
    board.observe(timeline, "window", present.timeline.zoom)
    board.observe(timeline, "selected", selected)
    board.observe(timeline, "value", changes.draw_column)
    board.observe(board.nfa, "selected", present.timeline.select_state)
    board.observe(timeline, "clicked", lambda x: x is None or present.answers.click(x))
    board.observe(board.stepper, "wanted", lambda wish: wish and present.answers.step_to(int(wish["to"])))
