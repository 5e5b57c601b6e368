"""Kept cases: rows that must match or must not match, their check, and their text as a `pytest` module."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.api.matching import match
from cepkit.errors import CepError
from cepkit.events import sums_before
from cepkit.explorer.running.series import clock_of
from cepkit.explorer.taking import code_of
from cepkit.explorer.text import TextReading, applicable, collect_warnings
from cepkit.frames.pandas import as_pandas
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from cepkit.compile.shared.bound_query import BoundQuery
    from cepkit.explorer.running.result import Result


MATCH, RANGE, ROWS = "match", "range", "rows"
KINDS = (MATCH, RANGE, ROWS)
MOST_ROWS = 100_000  # rows of a case
MOST_TESTED = 200_000  # matches that are tested for a case; with more, its verdict is not known
_TOGETHER = 20_000  # matches that are built at once


@dataclass(frozen=True, slots=True)
class Case:
    """Rows that must match or must not match."""

    # How the rows and the matches are compared. - ``"match"``: a must-match case holds if a match has exactly
    # these rows. A must-not-match case holds if no match has exactly these rows. - ``"range"``: the rows are
    # all rows of a time range of a key. A must-match case holds if a match lies in the range: all its rows
    # are rows of the range. A must-not-match case holds if no match takes a row of the range, so a match that
    # begins before the range counts as well. - ``"rows"``: a must-match case holds if a match has all of
    # these rows, perhaps among others. A must-not-match case holds if no match has all of them.
    kind: str
    must: bool  # whether the rows must match
    rows: tuple[int, ...]  # numbers of the rows in the frame, from 0, rising
    label: str = ""  # the case in words, as the board shows it

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CepError(f"case: unknown kind {self.kind!r}; write one of {list(KINDS)}")
        rows = tuple(sorted({int(row) for row in self.rows}))
        if not rows:
            raise CepError("case: it has no rows")
        if rows[0] < 0:
            raise CepError(f"case: row {rows[0]} is negative; rows are numbered from 0")
        if len(rows) > MOST_ROWS:
            raise CepError(
                f"case: {len(rows):,} rows are too many, a case has at most {MOST_ROWS:,}. "
                "Zoom in to a shorter time"
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "must", bool(self.must))

    def to_dict(self) -> dict[str, Any]:
        """Return the case as a value for JSON. Its ``rows`` are pairs of a first and a last row."""
        runs: list[list[int]] = [[self.rows[0], self.rows[0]]]
        for before, row in pairwise(self.rows):
            if row == before + 1:
                runs[-1][1] = row
            else:
                runs.append([row, row])
        return {"kind": self.kind, "must": self.must, "rows": runs, "label": self.label}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Case:
        """Return a case from the result of `to_dict`."""
        try:
            runs = [(int(first), int(last)) for first, last in given["rows"]]
            kind, must, label = given["kind"], given["must"], given.get("label", "")
        except (KeyError, TypeError, ValueError) as error:
            raise CepError(f"case: cannot read {given!r}") from error
        if sum(max(0, last - first + 1) for first, last in runs) > MOST_ROWS:
            raise CepError(f"case: it has more than {MOST_ROWS:,} rows")
        return cls(kind, must, tuple(row for first, last in runs for row in range(first, last + 1)), label)

    @property
    def relation(self) -> str:
        """The name of the comparison with each match: see `RELATIONS`."""
        return "touches" if self.kind == RANGE and not self.must else self.kind


class Relation(NamedTuple):
    """How the rows of a case and of a match are compared."""

    # Takes the number of rows of the match that are rows of the case, the rows of the match, and those of the
    # case: three integers, or the first two as arrays.
    holds: Callable[[Any, Any, int], Any]
    words: str  # what a match does
    test: str  # the same in Python, for the sets of rows ``own`` and ``rows``


RELATIONS = {
    MATCH: Relation(
        lambda n_common, n_match, n_case: (n_common == n_match) & (n_common == n_case),
        "has exactly these rows", "own == rows",
    ),
    RANGE: Relation(
        lambda n_common, n_match, n_case: n_common == n_match, "lies within these rows", "own <= rows"
    ),
    "touches": Relation(
        lambda n_common, n_match, n_case: n_common > 0, "takes one of these rows", "own & rows"
    ),
    ROWS: Relation(
        lambda n_common, n_match, n_case: n_common == n_case, "has all of these rows", "rows <= own"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a case holds: True, False, or None if it is not known; and the reason in words."""

    holds: bool | None
    text: str


def holds(case: Case, matches: Iterable[Iterable[int]]) -> bool:
    """Return whether a case holds for matches that are few enough to list."""
    rows, is_found = set(case.rows), RELATIONS[case.relation].holds
    return case.must == any(is_found(len(rows & set(items)), len(set(items)), len(rows)) for items in matches)


def judge(case: Case, result: Result, position_of_row: np.ndarray) -> Verdict:
    """Return whether a case holds for the counted matches of a result."""
    if case.rows[-1] >= len(position_of_row):
        return Verdict(None, "The frame does not have all rows of this case.")
    positions = np.sort(position_of_row[np.array(case.rows, np.int64)])
    if positions[0] < 0:
        return Verdict(None, "Some rows of this case are no events of this query.")
    relation = RELATIONS[case.relation]
    n_tested = 0
    for numbers in _candidates(case, result, positions):
        if n_tested + len(numbers) > MOST_TESTED:
            return Verdict(None, f"It is not known: more than {MOST_TESTED:,} matches may decide it.")
        n_tested += len(numbers)
        first_item, event_of_item = _items(result, numbers)
        place = np.minimum(np.searchsorted(positions, event_of_item), len(positions) - 1)
        n_before = sums_before(positions[place] == event_of_item)
        n_common = n_before[first_item[1:]] - n_before[first_item[:-1]]
        if relation.holds(n_common, np.diff(first_item), len(positions)).any():
            return Verdict(case.must, f"A match {relation.words}.")
    return Verdict(not case.must, f"No match {relation.words}.")


def _items(result: Result, numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return where the items of each match begin and, last, their number; and the event of each item."""
    if result.is_sequence:
        block = result.block_of(numbers)
        return block.first_item_of_match, block.event_of_item
    part = result.matches._found.whole.take(np.array(numbers, np.int64))
    return part.lineage.first_item_of_match, part.lineage.event_of_item


def _candidates(case: Case, result: Result, positions: np.ndarray) -> Iterator[list[int]]:
    """Yield the numbers of the matches that can decide a case, in groups that fit into memory."""
    events, ends = result.events, result.ends
    keys = np.unique(events.partition_of_event[positions])
    if len(keys) > 1 and case.relation in (MATCH, ROWS):
        return  # no match has rows of several keys
    low = 0 if case.relation in (RANGE, "touches") else len(positions) - 1
    is_last_known = case.relation in (MATCH, RANGE)
    start = int(np.searchsorted(ends, positions[low], "left"))
    stop = int(np.searchsorted(ends, positions[-1], "right")) if is_last_known else len(ends)
    chosen = start + np.flatnonzero(np.isin(events.partition_of_event[ends[start:stop]], keys))
    if not result.is_sequence:  # a match for each end
        chosen = chosen[result.matches._found.whole.first[chosen] <= positions[-1]]
        for i in range(0, len(chosen), _TOGETHER):
            yield chosen[i : i + _TOGETHER].tolist()
        return
    within = result.program.window.within
    if not is_last_known and within is not None:
        latest = _time_of(result, positions).max() + within
        chosen = chosen[_time_of(result, ends[chosen]) <= latest]
    group: list[int] = []
    for end in chosen.tolist():
        first, last = int(result.first_number[end]), int(result.first_number[end + 1])
        for number in range(first, last, _TOGETHER):
            group += range(number, min(number + _TOGETHER, last))
            if len(group) >= _TOGETHER:
                yield group
                group = []
    if group:
        yield group


def _time_of(result: Result, positions: np.ndarray) -> np.ndarray:
    return clock_of(result.program, result.data.source, result.events, positions).time


def positions_of_rows(result: Result) -> np.ndarray:
    """Return the position in the stream of every row of the frame; -1 for rows that are no events."""
    position = np.full(result.data.source.n_rows, -1, np.int64)
    every = np.arange(result.events.n_events)
    position[result.events.rows(every)] = every
    return position


def rows_text(rows: Sequence[int]) -> str:
    """Return row numbers in words."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    if len(rows) <= 3:
        return f"rows {', '.join(map(str, rows))}"
    if rows[-1] - rows[0] == len(rows) - 1:
        return f"rows {rows[0]} to {rows[-1]}"
    return f"{len(rows):,} rows from {rows[0]} to {rows[-1]}"


# Kept cases as the text of a `pytest` module that needs nothing but pandas and cepkit.

MOST_LITERAL = 200  # rows of a frame that is written out; a longer one is read from the file of the data
# Rows before and after the case within its key; None: all. A match shows itself in its own rows. Where no
# match is found, a test needs the rows around, so that it says something about a later query, too.
_MARGINS_OF_FOUND = (0, 20, 100, None)
_MARGINS_OF_MISSING = (20, 0, 100, None)
_MOST_MATCHES = 100_000
_WIDTH = 100


@dataclass(frozen=True)
class CaseQuery:
    """The query that the cases belong to."""

    reading: TextReading  # the text in the editor, without mistakes
    call: Mapping[str, Any]  # further keywords of the call
    result: Result  # the result of this query
    file: str  # the file of the frame, or a placeholder
    is_known: bool  # whether the file is known


def write_tests(cases: Sequence[tuple[Case, bool | None]], tested: CaseQuery) -> str:
    """Return a `pytest` module with a test of each case, which writes out the rows that the case needs."""
    used: set[str] = set()
    tests = [_test(case, is_held, tested, used) for case, is_held in cases]
    call = {name: value for name, value in tested.call.items() if name not in ("measures", "engine")}
    call = applicable(tested.reading.text, call)  # parameters of the measures are not needed
    code = textwrap.indent(code_of(tested.reading, call, "df"), "    ")
    functions = "".join(f"{source}\n\n\n" for source in _sources(call, tested.result.program))
    text = "\n\n".join(tests)
    imports = [f"import {name}\n" for name in ("datetime", "decimal") if f"{name}." in text]
    sample = "from cepkit.datasets import load_sample\n" if " = load_sample(" in text else ""
    return (
        '"""Cases that a query has to keep; run them with pytest."""\n\n'
        f"{''.join(imports)}{chr(10) if imports else ''}"
        f"import pandas as pd\n\nimport cepkit  # noqa: F401  it adds df.cep\n{sample}\n\n"
        f"{functions}"
        'def find_matches(df):\n    """Return the index labels of the rows of every match."""\n'
        f'{code}\n    rows = matches.to_frame("all", limit=None)\n'
        '    return [set(own.index) for _, own in rows.groupby("match")]\n\n\n'
        f"{text}"
    )


def _test(case: Case, is_held: bool | None, tested: CaseQuery, used: set[str]) -> str:
    """Return the text of a test of a case, with the smallest frame that shows it."""
    program = tested.result.program
    names = _columns_to_read(program)
    small = _smallest(case, is_held, tested, names)
    if small is None:
        frame, rows = _reference(tested), case.rows
        labels: Sequence[Any] = rows
        if _is_index_needed(tested, names):
            labels = _labels(tested.result, np.array(rows, np.int64)) or rows
    else:
        shown, text = small
        labels = _labels(tested.result, np.array(shown, np.int64)) or shown
        index = "".join(_wrapped("index=", "[", list(map(_spell, labels)), "]", 8))
        frame = f"    df = pd.DataFrame(\n        {{\n{text}        }},\n{index}    )\n"
        label_of_row = dict(zip(shown, labels, strict=True))
        labels = [label_of_row[row] for row in case.rows]
    relation, name = RELATIONS[case.relation], _name(case, used)
    return (
        f'def {name}():\n    """{"A" if case.must else "No"} match {relation.words}."""\n{frame}'
        f"{_set_text(labels)}    found = find_matches(df)\n"
        f"    assert {'' if case.must else 'not '}any({relation.test} for own in found)\n"
    )


def _name(case: Case, used: set[str]) -> str:
    """Return a name for the test of a case that no other test has."""
    words = re.sub(r"[^a-z0-9]+", "_", case.label.lower()).strip("_")[:60].strip("_")
    name = f"test_{words or 'rows'}_must_{'' if case.must else 'not_'}match"
    while name in used:
        name += "_too"
    used.add(name)
    return name


def _columns_to_read(program: BoundQuery) -> list[str]:
    """Return the columns of the frame that a query reads."""
    query = program.query
    names = [*query.partition_by, *query.order_by]
    names += [getattr(query, "event_type", None)]
    names += program.columns_of_frame(program.columns_to_read)
    return [name for name in dict.fromkeys(names) if name is not None]


# --- the smallest frame


def _smallest(
    case: Case, is_held: bool | None, tested: CaseQuery, names: Sequence[str]
) -> tuple[list[int], str] | None:
    """Return the rows and columns, as text, of the smallest frame that shows the case; None: none does."""
    result, tried = tested.result, set()
    query = replace(result.program.query, measures=None)
    if is_held is None:
        return None
    for rows in _parts(case, result, _MARGINS_OF_FOUND if is_held == case.must else _MARGINS_OF_MISSING):
        if len(rows) > MOST_LITERAL or len(rows) in tried:
            continue
        tried.add(len(rows))
        columns = [_column(result.data.source.arrow(name, rows)) for name in names]
        if any(column is None for column in columns):
            return None
        frame = pd.DataFrame({name: pair[0] for name, pair in zip(names, columns, strict=True)}, index=rows)
        if not names:
            frame = pd.DataFrame(index=rows)
        with collect_warnings():  # the editor shows them
            matches = match(frame, query)
            n = matches.count()
        if n > _MOST_MATCHES:
            return None
        matched = as_pandas(matches.to_frame("all"))
        if holds(case, [match_rows.index.tolist() for _, match_rows in matched.groupby("match")]) == is_held:
            lines = [_entry(name, pair[1]) for name, pair in zip(names, columns, strict=True)]
            return rows.tolist(), "".join(lines)
    return None


def _parts(case: Case, result: Result, margins: Sequence[int | None]) -> Iterator[np.ndarray]:
    """Yield the rows from the first to the last row of a case in its keys, with ``margins`` around them."""
    events = result.events
    positions = np.flatnonzero(np.isin(events.rows(np.arange(events.n_events)), case.rows))
    of_event = events.partition_of_event
    keys = [np.flatnonzero(of_event == key) for key in np.unique(of_event[positions])]
    for margin in margins:
        parts = []
        for key_positions in keys:
            place = np.searchsorted(key_positions, positions[np.isin(positions, key_positions)])
            more = len(key_positions) if margin is None else margin
            parts.append(key_positions[max(0, place[0] - more) : place[-1] + 1 + more])
        yield events.rows(np.sort(np.concatenate(parts)))


def _column(values: pa.Array) -> tuple[Any, tuple[str, list[str], str]] | None:
    """Return a column and its text in three parts: beginning, values, end. None if text cannot have it."""
    kind, types = values.type, pa.types
    if types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    plain, has_null = values.to_pylist(), values.null_count > 0

    def typed(cells: list, dtype: str, spell: Callable[[Any], str] = repr) -> tuple:
        return pd.array(cells, dtype=dtype), ("pd.array([", list(map(spell, cells)), f'], dtype="{dtype}")')

    if types.is_timestamp(kind):
        zone, end = (f", {kind.tz}", "+00:00") if kind.tz else ("", "")
        times = values.cast(pa.timestamp(kind.unit)).to_pandas()
        texts = [None if time is pd.NaT else f"{time}{end}" for time in times]
        return typed(texts, f"datetime64[{kind.unit}{zone}]", _spell)
    if types.is_duration(kind):
        return None if has_null else typed(values.cast(pa.int64()).to_pylist(), f"timedelta64[{kind.unit}]")
    if types.is_integer(kind) or types.is_boolean(kind):
        dtype = "boolean" if types.is_boolean(kind) else "UInt64" if str(kind) == "uint64" else "Int64"
        if has_null:
            return typed(plain, dtype)
        dtype = "bool" if types.is_boolean(kind) else dtype.lower()
        return np.array(plain, dtype=dtype), ("[", list(map(repr, plain)), "]")
    if types.is_floating(kind):
        numbers = [math.nan if cell is None else cell for cell in plain]
        texts = [repr(cell) if math.isfinite(cell) else f'float("{cell}")' for cell in numbers]
        return np.array(numbers, np.float64), ("[", texts, "]")
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        column = typed(plain, "str", _spell)
        return column if all(cell is None for cell in plain) else (column[0], ("[", column[1][1], "]"))
    if (types.is_decimal(kind) or types.is_date(kind)) and not has_null:
        module = "decimal." if types.is_decimal(kind) else ""
        return np.array(plain, object), ("[", [f"{module}{cell!r}" for cell in plain], "]")
    if types.is_list(kind) and types.is_primitive(kind.value_type) and not has_null:
        if any(cell is None or cell != cell or math.isinf(cell) for row in plain for cell in row):
            return None
        return pd.Series(plain, dtype=object).array, ("[", list(map(repr, plain)), "]")
    return None


def _entry(name: str, text: tuple[str, list[str], str]) -> str:
    """Return a column as an entry of the dict that makes a frame."""
    begin, values, end = text
    name = f"{_spell(name)}: "
    if len(values) > 1 and len(set(values)) == 1 and begin == "[":
        return f"            {name}[{values[0]}] * {len(values)},\n"
    return "".join(_wrapped(name, begin, values, end, 12))


def _spell(value: Any) -> str:
    """Return a value as Python text, with double quotes where possible."""
    text = repr(value)
    is_plain = isinstance(value, str) and text.startswith("'") and '"' not in text and "\\'" not in text
    return f'"{text[1:-1]}"' if is_plain else text


def _wrapped(name: str, begin: str, values: Sequence[str], end: str, indent: int) -> Iterator[str]:
    """Yield the lines of a list, in one line if it fits."""
    pad = " " * indent
    line = f"{pad}{name}{begin}{', '.join(values)}{end},\n"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"{pad}{name}{begin}\n"
    row = ""
    for value in values:
        if row and len(pad) + 6 + len(row) + len(value) > _WIDTH:
            yield f"{pad}    {row.rstrip()}\n"
            row = ""
        row += f"{value}, "
    yield f"{pad}    {row.rstrip()}\n"
    yield f"{pad}{end},\n"


# --- the frame from its file


def _reference(tested: CaseQuery) -> str:
    """Return the code that reads the user's file, for a test without a frame of its own."""
    reader = "read_parquet"
    note = "" if tested.is_known else "  # a placeholder: the file of your frame"
    file = tested.file
    if file.startswith("sample:"):
        read = f"load_sample({_spell(file.removeprefix('sample:'))})"
    else:
        reader = "read_csv" if re.search(r"\.(csv|tsv)", file) else reader
        read = f"pd.{reader}({_spell(file)})"
    clock = next(iter(tested.result.program.query.order_by), None)
    times = ""
    if reader == "read_csv" and clock is not None and tested.result.data.schema[clock].kind == "time":
        times = f"    df[{_spell(clock)}] = pd.to_datetime(df[{_spell(clock)}])\n"
    numbered = "    df.index = range(len(df))\n"
    if _is_index_needed(tested, _columns_to_read(tested.result.program)):
        numbered = ""
    return f"    df = {read}{note}\n{times}{numbered}"


def _is_index_needed(tested: CaseQuery, names: Collection[str]) -> bool:
    """Return whether the query reads a level of the frame's index."""
    index = getattr(getattr(tested.result.data.source, "frame", None), "index", None)
    return any(name in names for name in getattr(index, "names", ()))


def _labels(result: Result, rows: np.ndarray) -> list[Any] | None:
    """Return the index labels of rows if text can have them; None: use the numbers of the rows."""
    if not result.names.has_labels:
        return None
    index_labels = result.data.source.index_labels(rows)
    labels = [label.item() if isinstance(label, np.generic) else label for label in index_labels]
    return labels if all(isinstance(label, int | str) for label in labels) else None


def _set_text(labels: Sequence[Any]) -> str:
    """Return the statement that assigns a set of labels to ``rows``."""
    if len(labels) > 1 and all(isinstance(label, int) for label in labels):
        steps = {after - before for before, after in pairwise(labels)}
        if steps == {1}:
            return f"    rows = set(range({labels[0]}, {labels[-1] + 1}))\n"
    text = "".join(_wrapped("rows = ", "{", list(map(_spell, labels)), "}", 4))
    return text.removesuffix(",\n") + "\n"


# --- functions


def _sources(call: Mapping[str, Any], program: BoundQuery) -> Iterator[str]:
    """Yield the sources of the Python functions of a query."""
    predicates = {test.__name__: test for test in (call.get("define") or {}).values() if callable(test)}
    for name, function in predicates.items():
        try:
            source = textwrap.dedent(inspect.getsource(function)).rstrip()
            source = source[source.index("def ") :] if source.startswith("@") else source
        except (OSError, TypeError):
            source = ""
        if not source.startswith("def "):
            raise CepError(f"the test needs the source of predicate {name!r}; define it by `def` in a cell")
        yield source
    for name in program.functions:
        if name not in predicates and not any(name == key for key, _ in (call.get("define") or {}).items()):
            yield f"# Register the function {name!r} here, as your notebook does."
