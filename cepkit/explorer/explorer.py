"""`Explorer`: edit a query and see its matches at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from cepkit.api import spark_module
from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.errors import CepError, CepWarning, nearest
from cepkit.events import NUMBERS, TEXT, Frame, Source
from cepkit.explorer.automaton import (
    NO_AUTOMATON,
    NOTHING_DRAWN,
    Automaton,
    automaton_of,
    draw_automaton,
)
from cepkit.explorer.board import Board
from cepkit.explorer.case_tests import CaseQuery
from cepkit.explorer.cases import Case
from cepkit.explorer.choices import (
    CHOSEN,
    DRAWN,
    Data,
    choose_measures,
    fields_of,
    lacks_event_type,
    language_of,
)
from cepkit.explorer.history.query_log import QueryLog
from cepkit.explorer.history.saved import SavedBoard, SavedText, load_board, save_board
from cepkit.explorer.history.state import BoardState, History
from cepkit.explorer.keeper import CaseKeeper
from cepkit.explorer.marks import count_of_matches
from cepkit.explorer.query.code import code_of, name_of_frame
from cepkit.explorer.query.command import command_of, file_of_frame
from cepkit.explorer.query.constants import Slider, move_slider, shape_of, sliders_of, with_ranges_of
from cepkit.explorer.query.examples import Example, examples_of
from cepkit.explorer.query.sheet import sheet_of
from cepkit.explorer.query.text import (
    TextMistake,
    TextReading,
    applicable,
    collect_warnings,
    mistake_of,
    read_text,
    text_and_call,
)
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.keys import BY_NAME
from cepkit.explorer.running.present import DRAWN_S, OF_MATCHES, Presenter
from cepkit.explorer.running.result import NOT_COUNTED
from cepkit.explorer.running.series import drawable
from cepkit.explorer.taking import Commanded, Taker, write_file
from cepkit.language.expressions.functions import BUILT_IN_NAMES
from cepkit.language.regex.query import RegexQuery
from cepkit.language.saying import say_query
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.arguments import NAMES, check_keywords
from cepkit.planning.planner import check_engine
from cepkit.planning.validation import check_columns
from cepkit.results.matches import Matches
from cepkit.results.spark.matches import SparkMatches
from cepkit.results.spark.part import part_of
from cepkit.widgets.base import show_with_still

_LOCKED = "The query has mistakes. Its sliders can be moved after they are corrected."
_OLD_RESULT = "the last result is still shown"
# The names of choices on the buttons that take them back.
LABELS = {
    "partition_by": "key columns", "order_by": "clock", "event_type": "event type", "strategy": "strategy",
    "measures": "measures", DRAWN: "drawn column",
}  # fmt: skip


class Explorer:
    """An interactive editor of a query with its matches; call ``df.cep.explore`` to open one.

    Parameters
    ----------
    frame : DataFrame or table
        As for `cepkit.match`; do not change it. The explorer reads only a part of a Spark frame, see
        ``sampled``.
    query : str, pattern or query, optional
        The first query.
    value : str, optional
        Column that the timeline shows: a column of numbers, or the column of event types. None for the first
        column that the query reads.
    **call
        Keywords of `cepkit.match`. Predicates and the window of a regex become part of the text.

    Raises
    ------
    CepError
        For unknown keywords or columns. The editor shows mistakes in the query instead.

    Notes
    -----
    Runs happen in a thread of their own. Only the newest edit counts; the last result stays until a new one
    is ready. `cepkit.explorer.query.text` describes the text of a query.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> define = {"rise": "price > prev(price)", "drop": "price < prev(price) - 1"}
    >>> explorer = cep.explore(walk, ". rise+ drop", define=define)
    >>> explorer.wait()
    Explorer(7 rows, done, 1 match)
    >>> [slider.label for slider in explorer.sliders]
    ['drop: price < prev(price) - 1']
    >>> explorer.move("c0", 2)
    >>> explorer.wait().matches.count(), explorer.text.splitlines()[2]
    (0, 'drop: price < prev(price) - 2')
    """

    def __init__(self, frame: Frame, query: Any = None, *, value: str | None = None, **call: Any):
        check_keywords("explore", call, (*NAMES, "value", "engine"))
        engine = call.pop("engine", "auto")
        check_engine(engine)
        if query is None or isinstance(query, SavedText):
            text, self._call = "" if query is None else query.text, dict(call)
        else:
            text, self._call = text_and_call(query, call)
        self._name, self._spark, self._sampled = name_of_frame(frame), None, ""
        self._file = file_of_frame(frame, self._name)
        if spark_module(frame):
            self._spark, (frame, self._sampled) = frame, _part(frame, text, self._call)
        self._data = SearchedFrame(frame)
        _check_columns(self._data.source, self._call)
        _check_value(self._data.source, value, self._call.get("event_type"))
        self._reading: TextReading | None = None
        self._sliders: tuple[Slider, ...] = ()
        self._shape: tuple = ()
        self._ranged_by: tuple = ()  # keys and order of the ranges of the sliders
        self._automaton: Automaton = NO_AUTOMATON
        self._examples: list[Example] | None = None  # made when the text is empty
        self._bound: Program | SequenceProgram | None = None  # the newest query without mistakes
        self.board = Board(text, self._data.columns(has_notes=False), self._names())
        self._present = Presenter(self._data, self.board, engine, self._sampled)
        self._present.value = value
        if isinstance(query, SavedText):
            self._present.keep_key(query.key)
        self.board.set(self.board.bar, {"rows": f"{self._data.source.n_rows:,} rows"})
        functions, sheet = sorted(BUILT_IN_NAMES), sheet_of(self._data.schema)
        self.board.set(self.board.editor, {"functions": functions, "sheet": sheet})
        self._kept = CaseKeeper(self.board, self._present, self._tested)
        self._taker = Taker(
            self.board, self._present, lambda: self.matches, self._commanded, self._said_cases
        )
        self._history, self._log = History(self._state()), QueryLog()
        self._ran: tuple[Any, BoardState] = (None, self._state())  # the newest run: its program and choices
        self._listen()
        self._read()

    # --- state

    @property
    def text(self) -> str:
        """The text in the editor; assign to it to edit the query."""
        return self.board.editor.text

    @text.setter
    def text(self, text: str) -> None:
        self.board.set(self.board.editor, {"text": text})
        self._edit_text()

    @property
    def query(self) -> RegexQuery | SequenceQuery | None:
        """The query of the last result as a value; None before the first result."""
        return None if self.matches is None else self.matches.query

    @property
    def matches(self) -> Matches | SparkMatches | None:
        """The shown result, as ``df.cep.match`` returns it; None before the first result.

        The explorer shows the first matches before it has counted all of them; `wait` waits for the count.
        """
        own = self._present
        return own.all if own.all is not None else own.result and own.result.matches

    @property
    def code(self) -> str:
        """The Python call that finds these matches, as a cell to copy."""
        return self.board.editor.code

    @property
    def command(self) -> str:
        """The command line that finds these matches, ``cepkit match FILE …``.

        FILE is the file that a cell of the notebook read the frame from. If no cell tells, it is the name of
        the frame with ``.parquet``, a placeholder.

        Raises
        ------
        CepError
            When a command line cannot express the query, for example a Python function as a predicate.
        """
        commanded = self._commanded()
        if not commanded.line:
            raise CepError(f"command: {commanded.reason}")
        return commanded.line

    @property
    def cases(self) -> tuple[Case, ...]:
        """The kept cases; assign other ones to replace them. `verdicts` says which of them hold."""
        return self._kept.cases

    @cases.setter
    def cases(self, cases: Iterable[Case]) -> None:
        self._kept.cases = cases

    @property
    def verdicts(self) -> tuple[bool | None, ...]:
        """Whether each case holds for the last result; None if that is not known (yet)."""
        return self._kept.verdicts

    @property
    def sampled(self) -> str:
        """The shown part of a Spark frame in words; empty for the whole frame."""
        return self._sampled

    @property
    def sliders(self) -> tuple[Slider, ...]:
        """The sliders of the query's constants."""
        return self._sliders

    @property
    def selected(self) -> int | None:
        """The number of the selected match, or None."""
        return self._present.chosen and self._present.chosen.number

    @property
    def filters(self) -> dict[str, str]:
        """The filters of the table as typed, by column; assign to it to change them.

        A filter of a column that the matches lack is kept but does not count. Nor does a mistaken one.

        Raises
        ------
        CepError
            When an assigned filter is mistaken; the message says what to write.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("abb"), "ts": [1, 2, 3]})
        >>> explorer = cep.explore(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts").wait()
        >>> explorer.filters = {"y_ts": "> 2"}
        >>> explorer.filtered
           x_ts  y_ts
        0     1     3
        """
        return dict(self._present.filters)

    @filters.setter
    def filters(self, filters: Mapping[str, str]) -> None:
        filters = {str(name): str(text) for name, text in filters.items()}
        result = self._present.result
        if result is not None and result.is_counted:
            mistakes = result.pages.listing.mistakes_in(filters)
            for name, mistake in mistakes.items():
                raise CepError(f"filters: {name!r}: {mistake}")
        self._present.filter(filters)

    @property
    def filtered(self) -> Frame | None:
        """The matches that pass the filters, as ``matches.to_frame()``; None before the first result.

        Filters look at the first million matches. It waits for the count of the matches.
        """
        result = self._present.result
        return None if result is None else result.filtered(self._present.filters)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The columns of the table that are not shown; assign to it to hide others."""
        return tuple(self.board.table.hidden)

    @hidden.setter
    def hidden(self, names: Sequence[str]) -> None:
        names = [names] if isinstance(names, str) else list(dict.fromkeys(names))
        self.board.set(self.board.table, {"hidden": names})

    @property
    def status(self) -> dict[str, Any]:
        """``state``, ``message`` and ``progress`` of the newest run."""
        return dict(self.board.editor.status)

    @property
    def history(self) -> pd.DataFrame:
        """The queries that ran to the end, the newest first, with the numbers of their matches.

        ``explorer.bring_back(number)`` writes a query back into the editor; its number is in the index.
        """
        return self._log.to_frame()

    def wait(self, timeout: float | None = None, what: str = "all") -> Explorer:
        """Wait until nothing runs.

        Parameters
        ----------
        timeout : float, optional
            Seconds.
        what : str
            ``"all"``, or ``"matches"`` to wait only until the matches are counted, not for the funnel.

        Raises
        ------
        TimeoutError
            When it takes longer than ``timeout`` seconds.
        """
        if what not in ("all", "matches"):
            raise CepError(f"wait: unknown what={what!r}; write 'all' or 'matches'")
        if not self._present.worker.wait(timeout, OF_MATCHES if what == "matches" else None):
            raise TimeoutError(f"the explorer still runs after {timeout:g} s: {self.status['message']}")
        return self

    def cancel(self) -> None:
        """Stop the current run; earlier results stay, even if their matches are not counted."""
        is_running = self.status["state"] == "running"
        self._present.stop()
        if is_running:
            is_opened = self.board.table.total == NOT_COUNTED
            kept = "the first matches are shown, not counted" if is_opened else _OLD_RESULT
            kept = "no match is shown yet" if self._present.result is None else kept
            self.board.say("cancelled", f"cancelled; {kept}")

    # --- actions

    def choose(self, **choices: Any) -> None:
        """Choose the key columns, the clock, the column of event types, the strategy or the measures.

        The query runs again with the choice, and `code` has it.

        Parameters
        ----------
        **choices
            ``partition_by``, ``order_by``, ``event_type``, ``strategy`` or ``measures``, as for
            `cepkit.match`; None for no choice.

        Raises
        ------
        CepError
            For unknown columns.
        TypeError
            For other keywords.
        """
        check_keywords("choose", choices, CHOSEN)
        _check_columns(self._data.source, choices)
        before = self._call
        call = {name: value for name, value in {**before, **choices}.items() if value not in (None, "", [])}
        if call == before:
            return
        self._set_call(call)
        self._record(" and ".join(LABELS[name] for name in choices))
        self._read()

    def show_key(self, name: str) -> None:
        """Show the events of a key on the timeline, with matches or without.

        Parameters
        ----------
        name : str
            The values of the key columns as text, such as ``"AAA"`` or ``"AAA, 3"``.
        """
        self._present.show_key(name=name)

    def move(self, id: str, value: float) -> None:
        """Set a constant of the query to another value, as its slider does.

        Raises
        ------
        CepError
            For an unknown slider.
        """
        self._move(id, value)

    def undo(self) -> None:
        """Take back the newest change of the text, a slider, a selector or the shown key.

        A burst of typing is one change, and so is a dragged slider. Nothing happens if no change is left.
        """
        self._note_unrecorded()
        self._restore(self._history.undo())

    def redo(self) -> None:
        """Make the change again that `undo` took back last; nothing happens if there is none."""
        self._note_unrecorded()
        self._restore(self._history.redo())

    def bring_back(self, number: int) -> None:
        """Write an earlier query into the editor, with its choices; `undo` takes it back.

        Parameters
        ----------
        number : int
            Its number in the index of `history`.

        Raises
        ------
        CepError
            For an unknown number.
        """
        run = self._log.find(number)
        if run is None:
            known = [one.number for one in self._log.runs]
            raise CepError(f"bring_back: there is no run {number}. Runs: {known}")
        state = replace(self._state(), text=run.text, call=dict(run.call))
        self._history.record(state, "earlier query")
        self._restore(state)

    def save(self, path: str | os.PathLike) -> None:
        """Write the query, the choices, the kept cases and the history into one file, without the data.

        ``cepkit.explore.load(path, frame)`` opens it. The file is text in JSON.

        Raises
        ------
        CepError
            When the query calls a Python function that has no registered name.
        """
        state = replace(self._state(), key=self._present.kept_key)
        of = {name: str(self._data.schema[name]) for name in self._needed_columns()}
        engine = self._present.engine if isinstance(self._present.engine, str) else "auto"
        save_board(path, SavedBoard(state, engine, of, self._log.runs, self.cases))

    @classmethod
    def load(cls, path: str | os.PathLike, frame: Frame | None = None) -> Explorer:
        """Open an explorer that `save` wrote; also available as ``cepkit.explore.load``.

        Parameters
        ----------
        path : str or path
        frame : DataFrame or table
            The data, which the file does not contain. It may have other rows than the saved frame.

        Raises
        ------
        FileNotFoundError
            When the file does not exist.
        CepError
            When the file is no saved explorer or is damaged, or the frame lacks columns.
        """
        saved = load_board(path)
        if frame is None:
            raise CepError(
                f"load: {path} does not contain the data. Write cepkit.explore.load(path, frame); the frame "
                f"needs the columns {list(saved.columns)}"
            )
        has = frame.columns if spark_module(frame) else SearchedFrame(frame).schema
        if missing := [name for name in saved.columns if name not in has]:
            raise CepError(
                f"load: the frame lacks the columns {missing}, which the saved explorer uses. "
                f"Its columns: {list(has)}"
            )
        state = saved.state
        text = SavedText(state.text, state.key)
        explorer = cls(frame, text, value=state.drawn, engine=saved.engine, **state.call)
        explorer._log.add_older(saved.runs)
        n_rows = explorer._data.source.n_rows
        explorer.cases = [case for case in saved.cases if case.rows[-1] < n_rows]
        if left_out := len(saved.cases) - len(explorer.cases):
            warnings.warn(
                f"load: {left_out} of {len(saved.cases)} kept cases are left out, because the frame has only "
                f"{n_rows:,} rows",
                CepWarning,
                stacklevel=2,
            )
        explorer._show_steps()
        return explorer

    def select(self, number: int | None) -> None:
        """Select a match in the automaton, on the timeline and in the table; None for no match."""
        self._present.select(None if number is None else int(number))

    def show_page(self, page: int, order: str | None = None) -> None:
        """Show a page of the table, from 1; ``order`` is for example ``"reverse"``."""
        self._present.show_page(int(page), order)

    def show_value(self, name: str) -> None:
        """Show another column on the timeline: a column of numbers, or the column of event types.

        Raises
        ------
        CepError
            For an unknown column, or one that cannot be drawn.
        """
        _check_value(self._data.source, name, self._call.get("event_type"))
        self._present.show_value(name)
        self._record(LABELS[DRAWN])
        self._show_bar()

    def select_state(self, state: int | None) -> None:
        """Mark the events that lead to a state of the automaton, and their names; None to unmark them."""
        self._present.select_state(state)

    def zoom(self, window: Sequence[float]) -> None:
        """Show the time from ``window[0]`` to ``window[1]`` in full detail; an empty window shows all."""
        origin = int(self.board.timeline.origin)
        self._present.zoom([bound - origin for bound in window])

    def step_to(self, position: int) -> None:
        """Go to the moment after ``position`` events; -1 goes to the next event that completes a match."""
        self._present.step_to(int(position))

    def why_not(self, positions: Sequence[int]) -> None:
        """Show why events, given by their positions in the stream, are not a match."""
        self._present.why_not([int(position) for position in positions])

    def run_on_all(self) -> None:
        """Run the query on the whole Spark frame instead of the shown part.

        `cancel` and every edit also cancel Spark's jobs.

        Raises
        ------
        CepError
            When the frame is no Spark frame, or the query has mistakes.
        """
        if self._spark is None:
            raise CepError("run_on_all: the frame is not a Spark frame; the explorer already shows all rows")
        if self._reading is None or self._reading.query is None:
            raise CepError("run_on_all: the query has mistakes; the editor shows them")
        self._present.run_on_all(self._spark, self._reading.query, self.board.editor.edited)

    # --- kept cases

    def keep(
        self, must: bool = True, *, match: int | None = None, rows: Sequence[int] | None = None,
        between: Sequence[Any] | None = None, key: str | None = None,
    ) -> Case:  # fmt: skip
        """Keep rows as a case: they must match, or they must not match.

        Every change of the query checks the cases again. Without further arguments, the case is the selected
        match; without a selected match, the clicked rows; without them, the shown time.

        Parameters
        ----------
        must : bool
            Whether the rows must match; False: they must not match.
        match : int, optional
            The number of a match: a match must have exactly its rows, or no match may have exactly them.
        rows : sequence of int, optional
            Numbers of rows in the frame, from 0: a match must have all of them, perhaps among others, or no
            match may have all of them.
        between : (first time, last time), optional
            A time range: a match must lie in it, or no match may take a row of it.
        key : str, optional
            The key of the range as text, such as ``"AAA"``; None for the shown key.

        Returns
        -------
        Case
            See there for the exact meaning. `Explorer.verdicts` says whether it holds.

        Raises
        ------
        CepError
            Before the first result, without anything to keep, and for unknown rows, keys and times.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
        >>> define = {"rise": "price > prev(price)", "drop": "price < prev(price) - 1"}
        >>> explorer = cep.explore(walk, ". rise+ drop", define=define).wait()
        >>> explorer.keep(match=0).rows
        (0, 1, 2, 3)
        >>> _ = explorer.keep(False, rows=[6])
        >>> explorer.wait().verdicts
        (True, True)
        >>> explorer.text = explorer.text.replace("- 1", "- 2")
        >>> explorer.wait().verdicts
        (False, True)
        """
        return self._kept.keep(must, match=match, rows=rows, between=between, key=key)

    def drop_case(self, number: int) -> None:
        """Remove the case with this number, from 0."""
        self._kept.drop(int(number))

    def show_case(self, number: int) -> None:
        """Zoom the timeline to the case with this number, from 0."""
        self._kept.show(int(number))

    def write_test(self, number: int | None = None) -> str:
        """Return a case as the text of a `pytest` module; all cases for None.

        The test has the rows that it needs and passes if the case holds. A case of many rows reads the file
        of the frame instead, see `command`.
        """
        return self._kept.write_test(None if number is None else int(number))

    def _tested(self) -> CaseQuery:
        result = self._present.result
        if self._reading is None or self._reading.query is None or result is None:
            raise CepError("write_test: the query has mistakes; the editor shows them")
        return CaseQuery(self._reading, applicable(self.text, self._call), result, *self._file)

    def _said_cases(self) -> list[tuple[str, bool | None]]:
        said = (f"must {'match' if one.must else 'not match'}: {one.label}" for one in self.cases)
        return list(zip(said, self.verdicts, strict=True))

    # --- files

    def to_html(self, path: str | Path) -> Path:
        """Write one page that opens without a network: sentence, picture, matches, query and code.

        Returns
        -------
        Path
            The written file.
        """
        return write_file(path, self._taker.page())

    def to_png(self, path: str | Path) -> Path:
        """Write the picture of query, automaton, timeline and table as a PNG file and return its path."""
        return write_file(path, self._taker.png())

    def to_svg(self, path: str | Path) -> Path:
        """Write the picture of query, automaton, timeline and table as an SVG file and return its path."""
        return write_file(path, self._taker.picture())

    def _commanded(self) -> Commanded:
        """Return the command line of the query in the editor, or the reason why it has none."""
        reading = self._reading
        if reading is None or reading.query is None:
            return Commanded("", "write a query without mistakes first")
        file, is_known = self._file
        note = "" if is_known else f"{file} is a placeholder for the file of your data"
        try:
            line = command_of(reading, applicable(self.text, self._call), file, self._data.schema)
        except CepError as error:
            return Commanded("", str(error))
        return Commanded(line + (" --engine spark" if self._spark is not None else ""), "", note)

    # --- steps back and forth

    def _state(self) -> BoardState:
        """Return what the user chose."""
        return BoardState(self.text, dict(self._call), self._present.value, self._present.kept_key)

    def _record(self, label: str, burst: Hashable = None, *, is_held: bool = False) -> None:
        """Add what the user chose now as a step."""
        self._history.record(self._state(), label, burst, is_held=is_held)
        self._show_steps()

    def _record_key(self, before: tuple | None) -> None:
        """Add the key that the user chose as a step; `undo` returns to the key that was shown before."""
        now = self._history.now.state
        if now.key is None:
            self._history.amend(replace(now, key=before))
        self._record("key")

    def _note_unrecorded(self) -> None:
        """Record an edit whose message is still on its way through the observers."""
        state, now = self._state(), self._history.now.state
        if replace(state, key=now.key) != now:
            self._history.record(state, "text")
        elif state != now:  # the selection of a match changed the key
            self._history.amend(state)

    def _restore(self, state: BoardState | None) -> None:
        """Show a state of the history; None for no change."""
        before = self._state()
        if state is None or state == before:
            return self._show_steps()
        if state.call != before.call:
            self._set_call(dict(state.call))
        self._present.value = state.drawn
        if state.key != before.key:
            self._present.keep_key(state.key)
        self._show_steps()
        if (state.text, state.call) != (before.text, before.call):
            self.board.set(self.board.editor, {"text": state.text})
            self._read()
            return None
        if state.drawn != before.drawn:
            self._present.show_value(state.drawn)
        if state.key != before.key:
            self._present.show_kept_key()
        return self._show_bar()

    def _show_steps(self) -> None:
        """Show which changes can be taken back or made again, and the past queries."""
        steps = {"undo": self._history.undo_label, "redo": self._history.redo_label}
        runs = [run.trait() for run in self._log.runs]
        self.board.set(self.board.bar, {"steps": steps, "runs": runs})

    def _log_run(self, program: Any, n: int, took: float) -> None:
        """Add a run that ended to the history of queries; the thread of runs calls it."""
        if program is self._ran[0]:
            state = self._ran[1]
            self._log.add(self._history.now.number, state.text, state.call, n, took)
            self._show_steps()

    def _needed_columns(self) -> list[str]:
        """Return the columns that the query and the choices read."""
        program, names = self._bound, []
        for role in ("partition_by", "order_by", "event_type"):
            given = self._call.get(role)
            names += [given] if isinstance(given, str) else list(given or ())
        if program is not None:
            names += [*program.query.partition_by, *program.query.order_by, *program.columns]
        names.append(self._present.value)
        return [name for name in dict.fromkeys(names) if name in self._data.schema]

    # --- edits

    def _edit_text(self, burst: Hashable = None) -> None:
        """Read the text after an edit."""
        self._take_needs_of(self.text)
        self._record("text", burst)
        self._read()

    def _set_call(self, call: dict[str, Any]) -> None:
        """Set the keywords, and show what depends on them."""
        before, self._call = self._call, call
        if call.get("event_type") != before.get("event_type"):
            self.board.set(self.board.editor, {"names": self._names()})
        if self._present.result is None:
            self._present.unmatched = None

    def _move(self, id: str, value: float, burst: Hashable = None, *, is_held: bool = False) -> None:
        slider = next((one for one in self._sliders if one.id == id), None)
        if slider is None:
            known = [one.id for one in self._sliders]
            raise CepError(f"move: no slider {id!r}.{nearest(id, known)} Sliders: {known}")
        if self.board.sliders.locked:
            raise CepError(f"move: {_LOCKED[0].lower()}{_LOCKED[1:]}")
        if slider.start < 0:
            params = {**self._call["params"], slider.id[1:]: slider.round_value(value)}
            self._call = {**self._call, "params": params}
        else:
            self.board.set(self.board.editor, {"text": move_slider(self.text, slider, value)})
        self._record(slider.label, burst, is_held=is_held)
        self._read()

    def _read(self) -> None:
        """Read the text, then show its mistakes or run it, and show the choices that fit it."""
        self._kept.doubt()
        self._read_text()
        self._show_bar()
        self._taker.offer()

    def _read_text(self) -> None:
        text, version = self.text, self.board.editor.edited
        if not text.strip():
            self._present.stop()
            self._reading, self._shape, self._sliders = None, (), ()
            self.board.set(self.board.sliders, {"sliders": [], "locked": ""})
            self.board.say("idle", "", version=version, errors=[])
            self._preview()
            self._offer_examples()
            return
        reading, program, notes = self._compile(text)
        self._reading = reading
        self.board.set(self.board.sliders, {"locked": _LOCKED if program is None else ""})
        if program is None:
            self._present.stop()
            errors = [_as_trait(one, text) for one in reading.mistakes]
            head = reading.mistakes[0].message.split("\n")[0]
            kept = "" if self.matches is None else f"; {_OLD_RESULT}"
            self.board.say("failed", f"{head}{kept}", version=version, errors=errors)
            self._preview()
            return
        self._bound = program
        is_new = self._show_shape(reading, program)
        engine = self._present.engine
        call = applicable(text, self._call) | ({} if engine == "auto" else {"engine": engine})
        said = {"sentence": say_query(program.query), "code": code_of(reading, call, self._name)}
        self.board.set(self.board.editor, said)
        self._ran = program, self._state()
        self._present.run(program, self._automaton, notes, version, is_new)

    def _offer_examples(self) -> None:
        """Show examples that fit the frame."""
        if self._examples is None:
            self._examples = examples_of(self._data, self._call)
            self.board.set(self.board.editor, {"examples": [one.trait() for one in self._examples]})

    def _take_needs_of(self, text: str) -> None:
        """Add the keywords that an example needs and the call lacks."""
        chosen = next((one for one in self._examples or () if one.text == text), None)
        if chosen is None:
            return
        before, self._call = self._call, {**chosen.call, **self._call}
        if self._call.get("event_type") != before.get("event_type"):
            self.board.set(self.board.editor, {"names": self._names()})

    def _preview(self) -> None:
        """Show the events before the first query."""
        if self._present.result is None and self._present.unmatched is None:
            call = {**applicable(".", self._call), "measures": None, "params": None}
            query = read_text(".", {of: one for of, one in call.items() if one is not None}).query
            if query is not None:
                with suppress(CepError):  # the editor shows mistakes of the query itself
                    program = self._data.compile(query)
                    self._bound = self._bound or program
                    self._present.preview(program)

    def _show_bar(self, note: str = "") -> None:
        """Show the selectors with their choices, and a note on them."""
        source, bound, text = self._data.source, self._bound, self.text
        mistakes = [] if self._reading is None else [one.message for one in self._reading.mistakes]
        is_needed = lacks_event_type(text, self._call, mistakes)
        if is_needed:
            note = "This query names types of events. Choose the column that has them."
        columns = [] if bound is None else drawable(bound, source)
        drawn = self._present.value if self._present.value in columns else next(iter(columns), "")
        query = None if bound is None else bound.query
        self.board.set(
            self.board.bar,
            {
                "fields": fields_of(self._of_data(), self._call, text, query, (columns, drawn), is_needed),
                "language": language_of(text), "note": note,
            },
        )  # fmt: skip

    def _of_data(self) -> Data:
        return Data(self._data.schema, self._data.source.duplicates)

    def _choose(self, name: str, values: list[str]) -> None:
        """Do what a selector wishes; the head shows a mistake."""
        try:
            if name == DRAWN:
                self.show_value(values[0])
            elif name == "measures":
                query = None if self._bound is None else self._bound.query
                self.choose(measures=choose_measures(self._of_data(), self._call, query, values))
            elif name in ("partition_by", "order_by"):
                self.choose(**{name: values})
            else:
                self.choose(**{name: values[0] if values else None})
        except CepError as error:
            self._show_bar(str(error).split("\n")[0])

    def _compile(self, text: str) -> tuple[TextReading, Any, list[str]]:
        reading = read_text(text, applicable(text, self._call))
        if reading.query is None:
            return reading, None, []
        try:
            with collect_warnings() as heard:
                program = self._data.compile(reading.query)
        except CepError as error:
            found = mistake_of(error, text, reading.pieces)
            return TextReading(text, None, (found,), reading.pieces), None, []
        return reading, program, [*reading.notes, *heard]

    def _show_shape(self, reading: TextReading, program: Program | SequenceProgram) -> bool:
        """Show the sliders, and the automaton if its shape is new; return whether it is new."""
        sliders = sliders_of(reading, self._data.schema)
        shape = shape_of(reading.text, sliders)
        is_new = shape != self._shape
        ranged_by = program.query.partition_by, program.query.order_by
        if is_new or ranged_by != self._ranged_by:
            rows = self._data.sample_for(program.query) if sliders else None
            self._sliders = sliders_of(reading, self._data.schema, rows)
        else:
            self._sliders = with_ranges_of(sliders, self._sliders)
        self._ranged_by = ranged_by
        self.board.set(self.board.sliders, {"sliders": [one.trait() for one in self._sliders]})
        if not is_new:
            return False
        before, selected = self._automaton.labels, self.board.nfa.selected
        self._shape, self._automaton, drawn = shape, NO_AUTOMATON, NOTHING_DRAWN
        try:
            self._automaton = automaton_of(program)
            drawn, note = draw_automaton(self._automaton), self._automaton.note
        except CepError as error:  # too many states
            note = str(error)
        if self._automaton.labels != before:  # state numbers have changed their meaning
            selected = None
        seen = {"lit": [], "live": [], "selected": selected, "tooltip": note}
        self.board.set(self.board.nfa, {**drawn, **seen})
        return True

    # --- widgets

    def _names(self) -> list[str]:
        name = self._call.get("event_type")
        of = None if name is None else self._data.schema.get(name)
        texts = self._data.texts(name) if name is not None and of is not None and of.kind == TEXT else []
        return [*texts[:200], *sorted(BUILT_IN_NAMES)]

    def _listen(self) -> None:
        board, present = self.board, self._present
        present.key_chosen, present.run_ended = self._record_key, self._log_run

        def selected(number: Any) -> None:
            self.select(None if number in (None, "") else int(number))

        def wanted(page: str, order: str) -> None:
            if present.result is not None:
                self.show_page(int(page or 1), order)

        def shown(wish: dict[str, Any]) -> None:
            present.show_key(wish.get("id"), wish.get("step", 0))

        def found(wish: dict[str, Any]) -> None:
            present.find_keys(wish.get("search", ""), wish.get("order", BY_NAME), wish.get("page", 1))

        def slid(wish: dict[str, Any]) -> None:
            # The number of a drag; 0 while keys move the slider.
            drag = board.sliders.gesture
            self._move(wish["id"], wish["value"], ("slider", wish["id"], drag), is_held=drag > 0)

        def stepped(wish: dict[str, Any]) -> None:
            self.redo() if wish.get("what") == "redo" else self.undo()

        for widget in (board.editor, board.sliders, board.bar):
            board.observe(widget, "wanted_step", lambda wish: wish and stepped(wish))
        board.observe(board.bar, "wanted_run", lambda wish: wish and self.bring_back(wish["number"]))
        board.observe(board.editor, "text", lambda text: self._edit_text("typing"))
        board.observe(board.editor, "cancel", lambda n: self.cancel())
        board.observe(board.sliders, "moved", lambda wish: wish and slid(wish))
        board.observe(board.bar, "chosen", lambda wish: wish and self._choose(wish["name"], wish["values"]))
        board.observe(board.bar, "wanted_keys", lambda wish: wish and found(wish))
        board.observe(board.bar, "wanted_key", lambda wish: wish and shown(wish))
        board.observe(board.bar, "asked", lambda n: board.set(board.bar, {"answered": n}))
        board.observe(board.table, "selected", selected)
        board.observe(board.table, "wanted_page", lambda page: wanted(page, board.table.order))
        board.observe(board.table, "wanted_order", lambda order: wanted("1", order))
        board.observe(board.table, "wanted_filters", present.filter)
        board.observe(board.timeline, "window", present.zoom)
        board.observe(board.timeline, "selected", selected)
        board.observe(board.timeline, "value", self.show_value)
        board.observe(board.nfa, "selected", self.select_state)
        board.observe(board.timeline, "clicked", lambda x: x is None or present.click(x))
        board.observe(board.stepper, "wanted", lambda wish: wish and self.step_to(wish["to"]))
        if self._spark is not None:
            board.add_button("Run on all rows", self._sampled, self.run_on_all)

    def __repr__(self) -> str:
        result = self._present.result
        found = "no result yet" if result is None else "matches not counted"
        if result is not None and result.is_counted:
            found = count_of_matches(result.count())
        n_rows = self._data.source.n_rows
        rows = f"{n_rows:,} {'row' if n_rows == 1 else 'rows'}"
        return f"Explorer({rows}, {self.status['state']}, {found})"

    def _ipython_display_(self) -> None:
        def still() -> str:
            self._present.is_drawn.wait(DRAWN_S)  # drawing meanwhile would hold up the first picture
            return self.board.still()

        try:
            show_with_still(self.board.box._repr_mimebundle_(), still, self.__repr__)
        finally:
            self._present.is_shown.set()


def _check_columns(source: Source, call: Mapping[str, Any]) -> None:
    for role in ("partition_by", "order_by", "event_type"):
        given = call.get(role)
        check_columns(source, role, (given,) if isinstance(given, str) else tuple(given or ()))


def _check_value(source: Source, value: str | None, event_type: str | None) -> None:
    """Raise `CepError` for a column that a timeline cannot show."""
    if value is None or value == event_type:
        return
    check_columns(source, "value", (value,))
    numbers = [name for name, of in source.schema.items() if of.kind in NUMBERS]
    if value not in numbers:
        raise CepError(
            f"value: column {value!r} cannot be drawn, its type is {source.schema[value]}. "
            f"Columns of numbers: {numbers}"
        )


def _part(frame: Frame, text: str, call: Mapping[str, Any]) -> tuple[Frame, str]:
    """Return the explored part of a Spark frame, by the keys and the order of the query."""
    query = read_text(text, call).query if text.strip() else None

    def columns(role: str) -> tuple[str, ...]:
        given = call.get(role)
        own = (given,) if isinstance(given, str) else tuple(given or ())
        return own or (getattr(query, role) if query is not None else ())

    return part_of(frame, columns("partition_by"), columns("order_by"))


def _as_trait(mistake: TextMistake, text: str) -> dict[str, Any]:
    place = {"start": mistake.start, "end": mistake.end, "line": mistake.line(text)}
    return {**place, "message": mistake.message}
