"""`Explorer`: edit a query and see its matches at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import traitlets

from cepkit.api.searching import spark_module
from cepkit.errors import CepError, CepWarning, short_text, whole_number
from cepkit.events import Frame
from cepkit.explorer.board import Board
from cepkit.explorer.cases import Case, CaseQuery
from cepkit.explorer.constants import Slider
from cepkit.explorer.examples import head_of, sheet_of
from cepkit.explorer.history import SavedBoard, SavedText, check_columns_of, load_board, save_board
from cepkit.explorer.keeper import CaseKeeper
from cepkit.explorer.presented import OF_MATCHES
from cepkit.explorer.presenter import Presenter
from cepkit.explorer.reader import (
    Changes,
    QueryReader,
    check_call,
    check_extent,
    check_texts,
    check_value,
    explored_part,
    listen,
)
from cepkit.explorer.running.data import SearchedFrame, guess_roles
from cepkit.explorer.taking import (
    Commanded,
    Taker,
    command_or_reason,
    file_of_frame,
    name_of_frame,
    write_file,
)
from cepkit.explorer.text import text_and_call
from cepkit.language.expressions.durations import counted
from cepkit.language.expressions.functions import BUILT_IN_NAMES
from cepkit.language.match_recognize.query import RowPatternQuery, RowsQuery, SelectedRows
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import check_engine
from cepkit.planning.queries import NAMES, check_keywords
from cepkit.results.matches import Matches
from cepkit.widgets.scene_view import show_with_still

RUN_S = 0.5  # how long the still of a board waits for the first run


class _BoardTrait(traitlets.TraitType):
    """A trait whose value the board has; the explorer says when it changes."""

    def __init__(self, read: Callable[[Any], Any], write: Callable[[Any, Any], object] | None, help: str):
        super().__init__(help=help, read_only=write is None)
        self._read, self._write = read, write

    def get(self, obj: Any, cls: Any = None) -> Any:
        """Return the value that the board shows now."""
        return self._read(obj)

    def set(self, obj: Any, value: Any) -> None:
        """Show another value; observers hear of it when the board shows it."""
        if self._write is not None:
            self._write(obj, value)


class Explorer(traitlets.HasTraits):
    """An interactive editor of a query with its matches; call ``df.cep.explore`` to open one.

    Parameters
    ----------
    frame : DataFrame or table
        As for `cepkit.match`; do not change it. The explorer reads only a part of a Spark frame, see
        ``sampled``.
    query : str, pattern or query, optional
        The first query; an empty text for an empty editor. Without one, the explorer guesses the key, the
        clock and the event type from names and values, and opens with an example that has matches.
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
    is ready. `cepkit.explorer.text` describes the text of a query.

    ``text``, ``selected`` and ``key`` are traits to observe and to set, ``matches`` is one to observe, as in
    ``explorer.observe(draw, "selected")``. ``draw(change)`` runs in the thread of the runs.

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
        super().__init__()
        check_keywords("explore", call, (*NAMES, "value", "engine"))
        engine = call.pop("engine", "auto")
        check_engine(engine)
        text = ""
        if isinstance(query, SavedText):
            text = query.text
        elif query is not None:
            text, call = text_and_call(query, call)
        name = name_of_frame(frame)
        self._file = file_of_frame(frame, name)
        self._spark, self._sampled = None, ""
        if spark_module(frame):
            self._spark = frame
            frame, self._sampled = explored_part(frame, text, call)
        self._data = data = SearchedFrame(frame)
        check_call(data.source, call)
        if query is None:
            call = {**guess_roles(head_of(data).source, data.source, call).call(), **call}
        check_value(data.source, value, call.get("event_type"))
        self.board = board = Board(text, data.columns(has_notes=False), [])
        self._present = present = Presenter(data, board, engine, self._sampled)
        present.shown.value = value
        if isinstance(query, SavedText):
            present.keys.keep(query.key)
        self._reader = QueryReader(data, board, present, call, name)
        if query is None:
            examples = self._reader.offer_examples()
            board.set(board.editor, {"text": next((example.text for example in examples), "")})
        board.set(board.bar, {"rows": counted(data.source.n_rows, "row")})
        functions, sheet = sorted(BUILT_IN_NAMES), sheet_of(data.schema)
        board.set(board.editor, {"functions": functions, "sheet": sheet, "names": self._reader.names()})
        self._kept = CaseKeeper(board, present, self._tested)
        self._taker = Taker(board, present, self._commanded, self._kept.said)
        self._changes = Changes(data, board, present, self._reader)
        self._reader.will_read.append(self._kept.doubt)
        self._reader.has_read.append(self._taker.offer)
        listen(board, present, self._changes)
        if self._spark is not None:
            board.add_button("Run on all rows", self._sampled, self.run_on_all)
        self._tell_changes()
        self._reader.read()

    # --- state

    def _set_text(self, text: str) -> None:
        if not isinstance(text, str):
            raise CepError(f"text={short_text(repr(text))}: expected the text of a query")
        self.board.set(self.board.editor, {"text": text})
        self._changes.edit_text()

    @property
    def query(self) -> RegexQuery | SequenceQuery | RowPatternQuery | SelectedRows | None:
        """The query of the last result as a value; None before the first result."""
        matches = self._present.shown.matches
        query = None if matches is None else matches.query
        return query.whole if isinstance(query, RowsQuery) else query

    def _matches(self) -> Matches | None:
        shown = self._present.shown
        return shown.matches if shown.all is not None or shown.result is None else shown.result.user_matches

    @property
    def code(self) -> str:
        """The Python call that finds these matches, as a cell to copy."""
        return self.board.code

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
        return self._reader.sliders

    def _selected(self) -> int | None:
        chosen = self._present.shown.chosen
        return chosen and chosen.number

    def _key(self) -> str | None:
        named = self._present.keys.name_of_shown()
        return named and named[1]

    @property
    def filters(self) -> dict[str, str]:
        """The filters of the table as typed, by column; assign to it to change them.

        A filter of a column that the matches lack is kept but does not count. Nor does a mistaken one.

        Raises
        ------
        CepError
            When an assigned filter is mistaken, or after `run_on_all`; the message says what to write.

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
        return dict(self._present.table.filters)

    @filters.setter
    def filters(self, filters: Mapping[str, str]) -> None:
        if not isinstance(filters, Mapping):
            raise CepError(f"filters={short_text(repr(filters))}: give a dict, such as {{'price': '> 5'}}")
        filters = {str(name): str(text) for name, text in filters.items()}
        result = self._present.shown.result
        if result is not None:
            mistakes = result.pages.listing.mistakes_in(filters)
            for name, mistake in mistakes.items():
                raise CepError(f"filters: {name!r}: {mistake}")
        self._present.table.filter(filters)

    @property
    def filtered(self) -> Frame | None:
        """The matches that pass the filters, as ``matches.to_frame()``; None before the first result.

        Filters look at the first million matches. It waits for the count of the matches.
        """
        result = self._present.shown.result
        return None if result is None else result.filtered(self._present.table.filters)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The columns of the table that are not shown; assign to it to hide others."""
        return tuple(self.board.table.hidden)

    @hidden.setter
    def hidden(self, names: Sequence[str]) -> None:
        self.board.set(self.board.table, {"hidden": check_texts("hidden", names)})

    @property
    def status(self) -> dict[str, Any]:
        """``state``, ``message`` and ``progress`` of the newest run."""
        return dict(self.board.editor.status)

    @property
    def history(self) -> pd.DataFrame:
        """The queries that ran to the end, the newest first, with the numbers of their matches.

        ``explorer.bring_back(number)`` writes a query back into the editor; its number is in the index.
        """
        return self._changes.log.to_frame()

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
        if not isinstance(what, str) or what not in ("all", "matches"):
            raise CepError(f"wait: unknown what={what!r}; write 'all' or 'matches'")
        shown = self._present.shown
        if what == "all":
            shown.is_awaited.set()
        is_done = shown.worker.wait(timeout, OF_MATCHES if what == "matches" else None)
        shown.is_awaited.clear()
        if not is_done:
            raise TimeoutError(f"the explorer still runs after {timeout:g} s: {self.status['message']}")
        return self

    def cancel(self) -> None:
        """Stop the current run; the last result stays."""
        self._present.cancel()

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
        self._changes.choose(choices)

    def show_key(self, name: str) -> None:
        """Show the events of a key on the timeline, with matches or without.

        Parameters
        ----------
        name : str
            The values of the key columns as text, such as ``"AAA"`` or ``"AAA, 3"``.
        """
        self._present.timeline.show_key(name=name)

    def move(self, id: str, value: float) -> None:
        """Set a constant of the query to another value, as its slider does.

        Raises
        ------
        CepError
            For an unknown slider.
        """
        self._changes.move(id, value)

    def undo(self) -> None:
        """Take back the newest change of the text, a slider, a selector or the shown key.

        A burst of typing is one change, and so is a dragged slider. Nothing happens if no change is left.
        """
        self._changes.undo()

    def redo(self) -> None:
        """Make the change again that `undo` took back last; nothing happens if there is none."""
        self._changes.redo()

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
        self._changes.bring_back(number)

    def save(self, path: str | os.PathLike) -> None:
        """Write the query, the choices, the kept cases and the history into one file, without the data.

        ``cepkit.explore.load(path, frame)`` opens it. The file is text in JSON.

        Raises
        ------
        CepError
            When the query calls a Python function that has no registered name.
        """
        types = {name: str(self._data.schema[name]) for name in self._reader.needed_columns()}
        chosen_engine = self._present.runs.engine
        engine = chosen_engine if isinstance(chosen_engine, str) else "auto"
        runs, key_order = self._changes.log.runs, self._present.keys.order
        save_board(path, SavedBoard(self._reader.state, engine, types, runs, self.cases, key_order))

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
        check_columns_of(path, saved, _columns_of(frame))
        state = saved.state
        text = SavedText(state.text, state.key)
        explorer = cls(frame, text, value=state.drawn, engine=saved.engine, **state.call)
        explorer._changes.log.add_older(saved.runs)
        explorer._present.keys.keep_order(saved.key_order)
        n_rows = explorer._data.source.n_rows
        explorer.cases = [case for case in saved.cases if case.rows[-1] < n_rows]
        if left_out := len(saved.cases) - len(explorer.cases):
            warnings.warn(
                f"load: {left_out} of {len(saved.cases)} kept cases are left out, because the frame has only "
                f"{n_rows:,} rows",
                CepWarning,
                stacklevel=2,
            )
        explorer._changes.show_steps()
        return explorer

    def select(self, number: int | None) -> None:
        """Select a match in the automaton, on the timeline and in the table; None for no match."""
        self._present.matches.select(None if number is None else _integer("select: number", number))

    def show_page(self, page: int, order: str | None = None) -> None:
        """Show a page of the table, from 1; ``order`` is for example ``"reverse"``."""
        if order is not None and not isinstance(order, str):
            raise CepError(f"show_page: order={short_text(repr(order))}: give a text, such as 'reverse'")
        self._present.table.show_page(_integer("show_page: page", page), order)

    def show_value(self, name: str) -> None:
        """Show another column on the timeline: a column of numbers, or the column of event types.

        Raises
        ------
        CepError
            For an unknown column, or one that cannot be drawn.
        """
        self._changes.draw_column(name)

    def select_state(self, state: int | None) -> None:
        """Mark the events that lead to a state of the automaton, and their names; None to unmark them."""
        self._present.timeline.select_state(None if state is None else _integer("select_state: state", state))

    def zoom(self, window: Sequence[float]) -> None:
        """Show the time from ``window[0]`` to ``window[1]`` in full detail; an empty window shows all."""
        origin = int(self.board.timeline.origin)
        self._present.timeline.zoom([bound - origin for bound in check_extent(window)])

    def step_to(self, position: int) -> None:
        """Go to the moment after ``position`` events; -1 goes to the next event that completes a match."""
        self._present.answers.step_to(_integer("step_to: position", position))

    def why_not(self, positions: Sequence[int]) -> None:
        """Show why events, given by their positions in the stream, are not a match."""
        is_list = isinstance(positions, Iterable) and not isinstance(positions, str | bytes | Mapping)
        if not is_list or not getattr(positions, "ndim", 1):
            raise CepError(f"why_not: positions={short_text(repr(positions))}: give a list, such as [3, 4]")
        self._present.answers.why_not([_integer("why_not: position", at) for at in positions])

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
        reading = self._reader.right_reading
        if reading is None:
            raise CepError("run_on_all: the query has mistakes; the editor shows them")
        self._present.runs.run_on_all(self._spark, reading.query, self.board.editor.edited)

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
        self._kept.drop(_integer("drop_case: number", number))

    def show_case(self, number: int) -> None:
        """Zoom the timeline to the case with this number, from 0."""
        self._kept.show(_integer("show_case: number", number))

    def write_test(self, number: int | None = None) -> str:
        """Return a case as the text of a `pytest` module; all cases for None.

        The test has the rows that it needs and passes if the case holds. A case of many rows reads the file
        of the frame instead, see `command`.
        """
        return self._kept.write_test(None if number is None else _integer("write_test: number", number))

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
        reading, call = self._reader.reading, self._reader.call_of_text
        is_spark = self._spark is not None
        return command_or_reason(reading, call, self._file, self._data.schema, is_spark=is_spark)

    def _tested(self) -> CaseQuery:
        """Return what a test of a case needs. Raise if the query has mistakes."""
        reading, result = self._reader.right_reading, self._present.shown.result
        if reading is None or result is None:
            raise CepError("write_test: the query has mistakes; the editor shows them")
        if result.is_rows:
            raise CepError(
                "write_test: tests of cases are for regexes and sequences, not for MATCH_RECOGNIZE"
            )
        return CaseQuery(reading, self._reader.call_of_text, result, *self._file)

    # --- traits

    text: Any = _BoardTrait(
        lambda explorer: explorer.board.editor.text,
        _set_text,
        "The text in the editor; assign to it to edit the query.",
    )
    matches: Any = _BoardTrait(
        _matches, None, "The shown result, as ``df.cep.match`` returns it; None before the first result."
    )
    selected: Any = _BoardTrait(_selected, select, "The number of the selected match, or None.")
    key: Any = _BoardTrait(_key, show_key, "The values of the shown key as text; None without keys.")

    def _tell_changes(self) -> None:
        """Tell observers of a trait when the board shows another value."""
        board, old_values = self.board, {"text": self.text, "selected": None, "key": None, "matches": None}

        def tell(name: str) -> None:
            if not self._trait_notifiers.get(name) and not self._trait_notifiers.get(traitlets.All):
                return
            old, new = old_values[name], getattr(self, name)
            old_values[name] = new
            if new is not old and (name == "matches" or new != old):
                change = {"name": name, "old": old, "new": new, "owner": self, "type": "change"}
                self.notify_change(traitlets.Bunch(change))

        board.editor.observe(lambda _: tell("text"), "text")
        board.table.observe(lambda _: tell("selected"), "selected")
        board.bar.observe(lambda _: tell("key"), "key")
        self._present.shown.when_counted.append(lambda _: tell("matches"))

    # --- display

    def __repr__(self) -> str:
        result = self._present.shown.result
        summary = "no result yet" if result is None else counted(result.count(), "match")
        return f"Explorer({counted(self._data.source.n_rows, 'row')}, {self.status['state']}, {summary})"

    def _ipython_display_(self) -> None:
        """Show the explorer, with a picture for pages without a kernel."""

        def still() -> str:
            self._present.shown.worker.wait(RUN_S, OF_MATCHES)  # a picture of no matches says little
            return self.board.still()

        renew = show_with_still(self.board.box._repr_mimebundle_(), still, self.__repr__)
        self._present.shown.stills.append(renew)


def _integer(what: str, number: Any) -> int:
    return whole_number(what, number, -(2**63))  # numbers that mean nothing are refused where they are read


def _columns_of(frame: Frame | None) -> list[str] | None:
    if frame is None:
        return None
    return list(frame.columns if spark_module(frame) else SearchedFrame(frame).schema)
