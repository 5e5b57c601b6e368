"""The reader of an explorer's query: it checks arguments, runs right texts, and shows mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any

from cepkit.errors import CepError, is_number, short_text
from cepkit.events import NUMBERS, TEXT, Frame, Source
from cepkit.explorer.automaton import NO_AUTOMATON, NOTHING_DRAWN, Automaton, automaton_of, draw_automaton
from cepkit.explorer.board import Board
from cepkit.explorer.choices import Data, choose_measures, fields_of, lacks_event_type, language_of
from cepkit.explorer.history import BoardState
from cepkit.explorer.presenting.presenter import OLD_RESULT, Presenter
from cepkit.explorer.presenting.run_presenter import Asked
from cepkit.explorer.query.command import code_of
from cepkit.explorer.query.constants import Slider, layout_of, shape_of, sliders_of, with_ranges_of
from cepkit.explorer.query.examples import Example, examples_of
from cepkit.explorer.query.text import (
    TextMistake,
    TextReading,
    applicable,
    collect_warnings,
    is_rows,
    mistake_of,
    read_text,
)
from cepkit.explorer.running.data import AnyProgram, SearchedFrame
from cepkit.explorer.running.series import drawable
from cepkit.language.cheat_sheet import say_query
from cepkit.language.expressions.functions import BUILT_IN_NAMES
from cepkit.language.expressions.trees import Expression
from cepkit.planning.plans import check_columns
from cepkit.results.spark.jobs import part_of
from cepkit.widgets.editor import KEYWORDS, KEYWORDS_OF_SQL

# The reader of an explorer's query: it runs a text without mistakes, and shows the mistakes of others.

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
        self.examples: list[Example] | None = None  # made when the text is empty
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
        """The text in the editor."""
        return self._board.editor.text

    @property
    def state(self) -> BoardState:
        """Everything that the user chose."""
        shown, keys = self._present.shown, self._present.keys
        return BoardState(self.text, dict(self.call), shown.value, keys.kept)

    @property
    def call_of_text(self) -> dict[str, Any]:
        """The keywords that apply to the text."""
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

    def take_needs_of(self, text: str) -> None:
        """Add the keywords that an example needs and the call lacks."""
        chosen = next((example for example in self.examples or () if example.text == text), None)
        if chosen is None:
            return
        before, self.call = self.call, {**chosen.call, **self.call}
        if self.call.get("event_type") != before.get("event_type"):
            self._board.set(self._board.editor, {"names": self.names()})

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
        if self.examples is None:
            self.examples = examples_of(self._data, self.call)
            board.set(board.editor, {"examples": [example.trait() for example in self.examples]})

    def _read_text(self, text: str) -> None:
        board, present, version = self._board, self._present, self._board.editor.edited
        self.reading, program, notes = self._compile(text)
        board.set(board.sliders, {"locked": LOCKED if program is None else ""})
        if program is None:
            present.stop()
            errors = [_as_trait(mistake, text) for mistake in self.reading.mistakes]
            head = self.reading.mistakes[0].message.split("\n")[0]
            kept = "" if present.shown.matches is None else f"; {OLD_RESULT}"
            board.say("failed", f"{head}{kept}", version=version, errors=errors)
            self._say_outdated()
            self._preview()
            return
        self.bound = program
        is_new = self._show_shape(self.reading, program)
        engine = present.runs.engine
        call = applicable(text, self.call) | ({} if engine == "auto" else {"engine": engine})
        code = code_of(self.reading, call, self._frame_name)
        board.set(board.editor, {"sentence": say_query(program.query), "code": code})
        board.set(board.table, {"outdated": ""})
        self.will_run(program)
        present.runs.run(Asked(program, self.automaton, tuple(notes), version, is_new))

    def _say_outdated(self) -> None:
        """Say which query the table and the timeline belong to, while the text is not a query."""
        result = self._present.shown.result
        words = (
            "" if result is None else f"Showing the last query that ran: {say_query(result.program.query)}"
        )
        self._board.set(self._board.table, {"outdated": words})

    def _compile(self, text: str) -> tuple[TextReading, Any, list[str]]:
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

    def _show_shape(self, reading: TextReading, program: AnyProgram) -> bool:
        """Show the sliders, and the automaton if its shape is new; return whether it is new."""
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
            return False
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
        return True

    # --- the selectors

    def show_bar(self, note: str = "") -> None:
        """Show the selectors with their choices, and a note on them."""
        source, bound, text, shown = self._data.source, self.bound, self.text, self._present.shown
        mistakes = [] if self.reading is None else [mistake.message for mistake in self.reading.mistakes]
        is_needed = lacks_event_type(text, self.call, mistakes)
        if is_needed:
            note = "This query names types of events. Choose the column that has them."
        columns = [] if bound is None else drawable(bound, source)
        drawn = shown.value if shown.value in columns else next(iter(columns), "")
        query = None if bound is None else bound.query
        fields = fields_of(self._of_data(), self.call, text, query, (columns, drawn), is_needed)
        words = KEYWORDS_OF_SQL if is_rows(text) else KEYWORDS
        self._board.set(self._board.editor, {"keywords": list(words)})
        self._board.set(self._board.bar, {"fields": fields, "language": language_of(text), "note": note})

    def choose_measures(self, names: Sequence[str]) -> dict[str, Any] | None:
        """Return the measures with these names, see `cepkit.explorer.choices.choose_measures`."""
        query = None if self.bound is None else self.bound.query
        return choose_measures(self._of_data(), self.call, query, names)

    def _of_data(self) -> Data:
        return Data(self._data.schema, self._data.source.duplicates)


def _as_trait(mistake: TextMistake, text: str) -> dict[str, Any]:
    place = {"start": mistake.start, "end": mistake.end, "line": mistake.line(text)}
    return {**place, "message": mistake.message}


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
