"""Measures of matches: of all at once from the places of their rows, or match by match in Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.compiled import Compiled, ReadRow, RowTotal, fixed_position, is_run
from cepkit.compile.match_recognize.values import AGGREGATES
from cepkit.compile.match_recognize.vectors import (
    EXACT,
    NotVectorizedError,
    Vector,
    VectorReader,
    column_parts,
    vector_of_column,
)
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.match_recognize.found_rows import FINDING, FoundRows, RowInput
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, next_total
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, ColumnType, sums_before
from cepkit.kernels.row_codes import COUNT, MAX, MIN, SUM, SUM_FROM_ZERO
from cepkit.language.match_recognize import query as rp
from cepkit.values import dataclass, replace

# The places at which the measures of a query are computed: one for each row of its result.


@dataclass(frozen=True)
class Points:
    """The rows of a result that belong to matches, match by match."""

    match_of_point: np.ndarray  # int64, (n_points,)
    # int64, (n_points,): the last row that RUNNING measures see; the place before the match if they see none
    last_of_point: np.ndarray
    place_of_point: np.ndarray  # int64, (n_points,): the row of the input that the result shows
    see_whole_matches: bool = False  # whether every match has one point, which sees all of its rows

    def __len__(self) -> int:
        return len(self.match_of_point)

    def first_point_of_match(self, n_matches: int) -> np.ndarray:
        """Return the first point of each match, int64, (n_matches + 1,)."""
        if self.see_whole_matches:
            return np.arange(n_matches + 1)
        return sums_before(np.bincount(self.match_of_point, minlength=n_matches))


def points_of(found: FoundRows, rows_per_match: str, excluded: np.ndarray) -> Points:
    """Return the points of a result: the rows of matches where measures are computed."""
    if rows_per_match == "one":
        return Points(np.arange(found.n_matches), found.end_of_match - 1, found.start_of_match, True)
    every = rows_of_matches(found)
    kept = ~excluded[found.states]
    match, last = every.match_of_point[kept], every.last_of_point[kept]
    shown = Points(match, last, last)
    is_empty = found.start_of_match == found.end_of_match
    if rows_per_match == "all_omit_empty" or not is_empty.any():
        return shown
    empty = np.flatnonzero(is_empty)
    at = np.searchsorted(shown.match_of_point, empty)
    place = found.start_of_match[empty]
    return Points(
        np.insert(shown.match_of_point, at, empty),
        np.insert(shown.last_of_point, at, place - 1),
        np.insert(shown.place_of_point, at, place),
    )


def rows_of_matches(found: FoundRows) -> Points:
    """Return a point for each row of each match."""
    sizes = found.end_of_match - found.start_of_match
    match = np.repeat(np.arange(found.n_matches), sizes)  # the match of each row
    place = np.arange(len(match)) + (found.start_of_match - found.first_state_of_match[:-1])[match]
    return Points(match, place, place)


def unmatched_places(found: FoundRows, n_places: int) -> np.ndarray:
    """Return the places that belong to no match. An empty match has its first place."""
    if found.n_matches == 0:
        return np.arange(n_places)
    change = np.zeros(n_places + 1, np.int64)
    np.add.at(change, found.start_of_match, 1)
    np.add.at(change, np.maximum(found.end_of_match, found.start_of_match + 1), -1)
    return np.flatnonzero(np.cumsum(change[:-1]) == 0)


# Measures of all matches at once, from the places of their rows.

_FUNCTIONS = {"count": COUNT, "sum": SUM, "avg": SUM_FROM_ZERO, "min": MIN, "max": MAX}
_NO_NULLS, _NO_VALUES = np.empty(0, np.uint8), np.empty(0, np.int64)


class MeasureReader(VectorReader):
    """Reads measures at points of matches. ``at`` is an array of places, -1 where there is no row."""

    def __init__(self, program: RowProgram, found: FoundRows, points: Points, given: RowInput):
        super().__init__(len(points))
        self.program, self.found, self.points = program, found, points
        self.given, self.order = given, given.order
        self._names = program.automaton.variable_of_state
        self._places: dict[tuple, np.ndarray] = {}
        self._columns: dict[tuple[str, int], tuple[np.ndarray, Vector]] = {}
        self._rows: MeasureReader | None = None

    @cached_property
    def _first_point(self) -> np.ndarray:
        """Where the points of each match begin."""
        return self.points.first_point_of_match(self.found.n_matches)

    def column(self, name: str, at: Any) -> Vector:
        """Return a column at places; -1 gives null."""
        key = (name, id(at))
        if key not in self._columns:
            # The array of places lives as long as the entry, so no other one takes its number.
            self._columns[key] = at, self._taken(name, at)
        return self._columns[key][1]

    def _taken(self, name: str, at: np.ndarray) -> Vector:
        """Return a column at places; -1 gives null."""
        outside: tuple[np.ndarray, ...] = ()
        if len(at) and at.min() < 0:
            outside = (at < 0,)
            at = np.maximum(at, 0)
        if self.given.is_placed(name):
            placed = self.given.placed(name)
            whole, here = placed.vector, slice(placed.n_before, None)
            values = whole.values[here].take(at, mode="clip")  # no place is outside, so none is checked
            missing = tuple(places[here][at] for places in whole.missing)
            return Vector(values, whole.type, (*missing, *outside), whole.texts)
        kind, values, texts = column_parts(self.given.column_of(name))
        taken = values.take(self.order.rows(at), mode="clip")
        return vector_of_column(kind, taken, texts).with_missing(*outside)

    def rows_of(self, variable: str | None) -> np.ndarray:
        """Return the place of the last row of a variable at each point; -1 if there is none."""
        return self.nth(variable, from_first=False, offset=0, final=False)

    def nth(self, variable: str | None, *, from_first: bool, offset: int, final: bool) -> np.ndarray:
        """Return a row of a variable from its first or last one at each point; -1 if there is none."""
        key = (variable, from_first, offset, final)
        if key in self._places:
            return self._places[key]
        rows, last = self.found, self._last(final)
        if variable is None:
            start = self._at_points(rows.start_of_match)
            places = start + offset if from_first else last - offset
            places[(places < start) | (places > last)] = -1
        elif (places := self._fixed(variable, from_first, offset, final)) is None:
            places = np.empty(self.n, np.int64)
            longest = int((rows.end_of_match - rows.start_of_match).max(initial=0))
            arguments = self._first_point, last, rows.start_of_match, rows.first_state_of_match, rows.states
            find_rows = load_kernels(FINDING).find_rows
            scratch = np.empty(longest, np.int64)
            find_rows(*arguments, self._is_member(variable), int(from_first), offset, scratch, places)
        self._places[key] = places
        return places

    def _fixed(self, variable: str, from_first: bool, offset: int, final: bool) -> np.ndarray | None:
        """Return the places of `nth` if they have the same distance from an end of every match."""
        if not (final or self.points.see_whole_matches):
            return None
        members = self.program.members[variable]
        fixed = fixed_position(self.program.automaton, members, from_first=from_first, offset=offset)
        if fixed is None:
            return None
        is_from_start, distance = fixed
        ends = self._at_points(self.found.start_of_match) if is_from_start else self._last(True)
        return ends + (distance if is_from_start else -distance) if distance else ends

    def _fixed_count(self, tree: rp.RowAggregate, variable: str | None) -> np.ndarray | None:
        """Return the rows of a variable in each match if they are all rows between two fixed places."""
        if not (tree.final or self.points.see_whole_matches):
            return None
        if variable is None:
            return self._last(True) + 1 - self._at_points(self.found.start_of_match)
        if not is_run(self.program.automaton, self.program.members[variable]):
            return None
        first = self._fixed(variable, True, 0, bool(tree.final))
        last = self._fixed(variable, False, 0, bool(tree.final))
        return None if first is None or last is None else last - first + 1

    def of_match(self, term: Compiled, at: Any) -> Vector:
        """Return an expression that depends on the rows of the match at each point."""
        match term.op:
            case "number":
                return Vector(self._at_points(self.found.number_of_match), ColumnType(INTEGER))
            case "label":
                return self._labels(self.rows_of(term.data) if at is None else at)
            case "total":
                return self._aggregated(term.data, term.parts)
            case "navigation":
                return self._navigated(term.parts[0], *term.data)
        raise NotVectorizedError

    def _navigated(self, inner: Compiled, read: ReadRow, variable: str | None) -> Vector:
        """Return an expression at the row that FIRST, LAST, PREV or NEXT reads."""
        at = self.nth(variable, from_first=read.from_first, offset=read.offset, final=read.final)
        if read.distance:
            partition = self._at_points(self.found.partition_of_match)
            bounds, moved = self.order.first_place_of_partition, at + read.distance
            is_inside = (at >= 0) & (moved >= bounds[partition]) & (moved < bounds[partition + 1])
            at = np.where(is_inside, moved, -1)
        vector, outside = self.value(inner, at), at < 0
        return vector.with_missing(outside) if outside.any() else vector

    def _labels(self, at: np.ndarray) -> Vector:
        """Return the variable that each of some places is of in its match; null outside the match."""
        rows, match = self.found, self.points.match_of_point
        start, end = rows.start_of_match[match], rows.end_of_match[match]
        is_inside = (at >= start) & (at < end)
        names = list(dict.fromkeys(self._names))
        code_of_state = np.array([names.index(name) for name in self._names] or [0], np.int64)
        codes = np.full(self.n, -1, np.int64)
        items = (rows.first_state_of_match[match] + at - start)[is_inside]
        codes[is_inside] = code_of_state[rows.states[items]]
        return Vector(
            codes, ColumnType(TEXT), () if is_inside.all() else (~is_inside,), np.array(names, object)
        )

    def _aggregated(self, total: RowTotal, arguments: Sequence[Compiled]) -> Vector:
        """Return an aggregate over the rows of a variable at each point."""
        tree, variable = total.tree, total.variable
        if tree.function not in _FUNCTIONS or tree.distinct or len(arguments) > 1:
            raise NotVectorizedError
        vector = first_value = None
        if arguments:
            vector, first_value = self._argument(*arguments)
        values, is_null, kind = _NO_VALUES, _NO_NULLS, ColumnType(INTEGER)
        if vector is not None and vector.missing:
            is_null = vector.is_null(len(vector.values)).view(np.uint8)
        if vector is not None and tree.function != "count":
            values, kind = self._summands(tree.function, vector)
        if tree.function == "count" and not len(is_null):
            counts = self._fixed_count(tree, variable)
            if counts is not None:
                return Vector(counts, kind)
        totals, counts = np.empty(self.n, values.dtype), np.empty(self.n, np.int64)
        rows, kernels = self.found, load_kernels(FINDING)
        find_totals = kernels.total_floats if values.dtype == np.float64 else kernels.total_integers
        given = self._first_point, self._last(bool(tree.final)), rows.start_of_match
        given = *given, rows.first_state_of_match, rows.states, self._is_member(variable)
        first_value = rows.first_state_of_match if first_value is None else first_value
        find_totals(*given, _FUNCTIONS[tree.function], first_value, values, is_null, totals, counts)
        if tree.function == "count":
            return Vector(counts, kind)
        nothing = counts == 0
        if tree.function == "avg":
            totals = totals / np.maximum(counts, 1)
        return Vector(totals, kind, (nothing,) if nothing.any() else ())

    def _argument(self, term: Compiled) -> tuple[Vector, np.ndarray]:
        """Return the argument of an aggregate at many rows, and where the rows of each match begin."""
        if any(node.op in ("navigation", "total") for node in term.walk()):
            raise NotVectorizedError
        rows = self.found
        if term.op == "column":
            name, _ = term.data
            if self.given.is_placed(name) or 4 * len(rows.states) > self.order.n_places:
                return self.given.placed(name).inner, rows.start_of_match
        if self._rows is None:
            self._rows = MeasureReader(self.program, rows, rows_of_matches(rows), self.given)
        vector = self._rows.value(term, self._rows.points.place_of_point)
        values = np.broadcast_to(vector.values, (self._rows.n,))
        return replace(vector, values=values), rows.first_state_of_match

    def _summands(self, function: str, vector: Vector) -> tuple[np.ndarray, ColumnType]:
        """Return the values to aggregate and the type of the result, unless integers may be too large."""
        if not vector.is_number or (function == "avg" and vector.type.kind in (TIME, DURATION)):
            raise NotVectorizedError
        if function in ("sum", "avg") and vector.is_whole:
            sizes = self.found.end_of_match - self.found.start_of_match
            longest = int(sizes.max(initial=0))
            if vector.bound() * longest > (EXACT if function == "avg" else 2**63 - 1):
                raise NotVectorizedError
        values = np.ascontiguousarray(vector.values)
        return values, ColumnType(FLOAT) if function == "avg" else vector.type

    def _last(self, final: bool) -> np.ndarray:
        """Return the place of the last row that each point sees; if ``final``, the last row of its match."""
        if not final or self.points.see_whole_matches:
            return self.points.last_of_point
        return self._at_points(self.found.end_of_match) - 1

    def _at_points(self, of_match: np.ndarray) -> np.ndarray:
        """Return what each point has of values by match."""
        return of_match if self.points.see_whole_matches else of_match[self.points.match_of_point]

    def _is_member(self, variable: str | None) -> np.ndarray:
        """Return whether rows of each state belong to a variable, uint8."""
        members = None if variable is None else self.program.members[variable]
        return np.array([members is None or name in members for name in self._names], np.uint8)


def arrow_of_vector(vector: Vector, kind: ColumnType, n: int) -> pa.Array:
    """Return a vector as an Arrow array of a type."""
    if (vector.type.kind, vector.type.unit) != (kind.kind, kind.unit):
        raise NotVectorizedError
    missing = vector.is_null(n) if vector.missing else None
    if kind.kind == TEXT:
        texts = [vector.values] if vector.texts is None else vector.texts
        codes = np.zeros(n, np.int32) if vector.texts is None else vector.values.astype(np.int32)
        taken = pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), pa.array(texts, pa.string()))
        return taken.cast(pa.string())
    if kind.kind not in _ARROW:
        raise NotVectorizedError
    dtype, arrow_type = _ARROW[kind.kind]
    values = vector.values
    if vector.is_one or values.dtype != dtype or not values.flags.c_contiguous:
        values = np.ascontiguousarray(np.broadcast_to(values, (n,)), dtype)
    array = pa.array(values, mask=missing)
    return array if arrow_type is None else array.cast(arrow_type(kind.unit, kind.timezone))


_ARROW: dict[str, tuple[type, Callable[..., pa.DataType] | None]] = {
    BOOLEAN: (np.bool_, None), INTEGER: (np.int64, None), FLOAT: (np.float64, None),
    TIME: (np.int64, pa.timestamp), DURATION: (np.int64, lambda unit, timezone: pa.duration(unit)),
}  # fmt: skip


# Measures match by match in Python, and the rows of the input to show.


class MatchPlace:
    """A match as measures see it at one of its rows. It keeps running totals."""

    def __init__(
        self, program: RowProgram, columns: Mapping[str, Sequence[Any]], n_rows: int, match: RowMatch
    ):
        self.columns, self.n_rows, self.number = columns, n_rows, match.number or None
        self.low = 0
        self.labels = [program.automaton.variable_of_state[state] for state in match.states]
        self.members, self.start, self.end = program.members, match.start, match.rows().stop
        self.row = self.end - 1
        self._rows_of: dict[str, list[int]] = {}
        self._totals: dict[RowTotal, tuple[list[Any], set]] = {}

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        """Return a row of a variable from its first or last one, up to the current row unless final."""
        last = self.end - 1 if final else self.row
        if variable is None:
            row = self.start + offset if from_first else last - offset
            return row if self.start <= row <= last else -1
        rows = self._rows(variable)
        n = bisect_right(rows, last)
        if offset >= n:
            return -1
        return rows[offset] if from_first else rows[n - 1 - offset]

    def label(self, row: int) -> str | None:
        """Return the variable that a row of the match is of; None for other rows."""
        return self.labels[row - self.start] if self.start <= row < self.end else None

    def total(self, aggregate: RowTotal) -> Any:
        """Return an aggregate over the rows of the match up to the current one."""
        last = self.end - 1 if aggregate.tree.final else self.row
        rows: Sequence[int] = range(self.start, self.end)
        if aggregate.variable is not None:
            rows = self._rows(aggregate.variable)
        n = bisect_right(rows, last)
        steps = AGGREGATES[aggregate.function]
        states, seen = self._totals.setdefault(aggregate, ([steps.start], set()))
        while len(states) <= n:
            states.append(next_total(aggregate, self, rows[len(states) - 1], states[-1], seen))
        return steps.result(states[n])

    def _rows(self, variable: str) -> list[int]:
        """Return the rows of a variable in the match."""
        if variable not in self._rows_of:
            members = self.members[variable]
            self._rows_of[variable] = [
                row for row, label in enumerate(self.labels, self.start) if label in members
            ]
        return self._rows_of[variable]


def output_rows(
    program: RowProgram, measures: Sequence[Compiled], rows_per_match: str,
    columns: Mapping[str, Sequence[Any]], n_rows: int, matches: Sequence[RowMatch],
) -> Iterator[tuple[int, list[Any]]]:  # fmt: skip
    """Yield the output rows of one partition: the position of a row of the input, and the measures."""
    # For one row per match, the position is the first row of the match.
    unmatched = rows_per_match == "all_with_unmatched"
    rows: list[tuple[int, int, list[Any]]] = []
    for match in matches:
        place = MatchPlace(program, columns, n_rows, match)
        if rows_per_match == "one":
            yield match.start, [measure.call(place, -1) for measure in measures]
            continue
        if not match.states and rows_per_match != "all_omit_empty":
            rows.append((match.start, match.number, [measure.call(place, -1) for measure in measures]))
        for state, row in zip(match.states, match.rows(), strict=True):
            if not program.automaton.excluded[state]:
                place.row = row
                rows.append((row, match.number, [measure.call(place, -1) for measure in measures]))
        if not unmatched:
            yield from ((row, values) for row, _, values in rows)
            rows = []
    if unmatched:
        matched = {row for match in matches for row in (match.start, *match.rows())}
        nothing = [None] * len(measures)
        rows += [(row, 0, nothing) for row in range(n_rows) if row not in matched]
        rows.sort(key=lambda item: item[:2])
        yield from ((row, values) for row, _, values in rows)


def window_values(
    program: RowProgram, measures: Sequence[Compiled], columns: Mapping[str, Sequence[Any]],
    ends: Sequence[int], found: Sequence[RowMatch | None], empty: Sequence[Any],
) -> list[list[Any]]:  # fmt: skip
    """Return the measures of each row of a partition, at the last row of its match."""
    # ``empty`` has their values for a row without a match.
    values = []
    for current, (end, match) in enumerate(zip(ends, found, strict=True)):
        if match is None:
            values.append(list(empty))
            continue
        place = MatchPlace(program, columns, end, match)
        place.low = current
        values.append([measure.call(place, -1) for measure in measures])
    return values
