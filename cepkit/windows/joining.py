"""Joins of two sources through windows: their pairs, running aggregates over pairs, and the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.shared import decimals
from cepkit.engines.reducing import (
    as_codes,
    as_numbers,
    one_chunk,
    plain_numbers,
    present_values,
    reduce_items,
)
from cepkit.engines.regex_measures import Picked, plain_values, repeat_scalar
from cepkit.errors import CepError, OrderError
from cepkit.events import DURATION, FLOAT, INTEGER, NUMBERS, TIME, ColumnType, Frame, Source, sums_before
from cepkit.frames.arrow import check_free
from cepkit.frames.pandas import series_of_arrow
from cepkit.frames.sources import Wishes, type_like, with_types
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS, duration_ticks, unit_missing
from cepkit.planning.clocks import CLOCKS, no_clock
from cepkit.planning.plans import check_columns
from cepkit.values import dataclass
from cepkit.windows import aggregating as exact
from cepkit.windows.aggregating import RowEvaluator
from cepkit.windows.ranges import Meeting, Pairs, Size, ends_of, meet, pairs_of
from cepkit.windows.running import check_names, kept_rows
from cepkit.windows.values import EMITTED, SIDES, Join, Window

Sources = tuple[Source, ...]  # the left and the right one


@dataclass(frozen=True)
class PlannedJoin:
    """A join with the clocks, sizes and result columns that fit its sources."""

    join: Join
    clocks: tuple[str, str]
    unit: str | None  # of both clocks
    is_float: bool  # whether one of the clocks is a floating-point number
    sizes: tuple[Size | None, ...]
    columns: tuple[tuple[str, int, str], ...]  # result name, side, column; a shared key has side 0

    @property
    def shared(self) -> frozenset[str]:
        """Key columns that have one name on both sides, and one column in the result."""
        return frozenset(left_key for left_key, right_key in self.join.on if left_key == right_key)


def plan_join(join: Join, sources: Sources) -> PlannedJoin:
    """Return the plan of a join, after every check that needs no rows."""
    windows = (join.left, join.right)
    clocks = _clocks(join, sources)
    for which, (side, source) in enumerate(zip(SIDES, sources, strict=True)):
        check_columns(source, f"{side}: on", tuple(pair[which] for pair in join.on))
        window = windows[which]
        if window is not None:
            check_names(window, source)
    unit = _common_unit(clocks, sources)
    for left_key, right_key in join.on:
        _check_keys(left_key, sources[0].schema[left_key], right_key, sources[1].schema[right_key])
    sizes = tuple(
        _size(window, side, source, clock, unit)
        for window, side, source, clock in zip(windows, SIDES, sources, clocks, strict=True)
    )
    is_float = any(source.schema[clock].kind == FLOAT for source, clock in zip(sources, clocks, strict=True))
    return PlannedJoin(join, clocks, unit, is_float, sizes, _result_columns(join, sources))


def with_types_of_join(join: Join, sources: Sources) -> Sources:
    """Return the sources; columns without values have the types that a join gives them."""
    typed_sources = []
    for which, source in enumerate(sources):
        other, window = sources[1 - which], (join.left, join.right)[which]
        trees = [tree for _, tree in join.trees()]
        conditions = [join.where] if join.where is not None else []
        conditions += [window.where] if window is not None and window.where is not None else []
        keys = {pair[which]: _type_in(other, pair[1 - which]) for pair in join.on}
        clocks = join.order_by[which : which + 1] if join.order_by else ()
        if clocks:
            clock_of_other = _type_in(other, join.order_by[1 - which])
            is_timed = window is not None and isinstance(window.time, str | timedelta)
            keys[clocks[0]] = clock_of_other or (pa.timestamp("ns") if is_timed else None)
        types = {name: arrow_type for name, arrow_type in keys.items() if arrow_type is not None}
        on, params = [pair[which] for pair in join.on], dict(join.params)
        wishes = Wishes(on, clocks, [*trees, *conditions], conditions, params, types)
        typed_sources.append(with_types(source, wishes))
    return tuple(typed_sources)


def _type_in(source: Source, name: str) -> pa.DataType | None:
    """Return the type of a column that has one, for a column that is compared with it."""
    has_type = name in source.schema and not source.is_untyped(name)
    return type_like(source.schema[name]) if has_type else None


def _clocks(join: Join, sources: Sources) -> tuple[str, str]:
    """Return the clock of each side."""
    clocks = []
    for which, (side, source) in enumerate(zip(SIDES, sources, strict=True)):
        window: Window | None = getattr(join, side)
        name = join.order_by[which] if join.order_by else None
        if name is None and window is not None and window.order_by:
            name = window.order_by[0]
        name = name or source.clock
        if name is None:
            raise CepError(
                f"{side}: a join needs a clock that orders the rows of both sides; name it, as in "
                "order_by='ts' or order_by=['ts', 'time']"
            )
        check_columns(source, f"{side}: order_by", (name,))
        clock_type = source.schema[name]
        if clock_type.kind not in CLOCKS:
            raise no_clock(f"{side}: a join", source, name)
        clocks.append(name)
    return clocks[0], clocks[1]


def _common_unit(clocks: tuple[str, str], sources: Sources) -> str | None:
    """Return the finer unit of both clocks; None for numbers. Raise if their types differ."""
    left, right = (source.schema[clock] for source, clock in zip(sources, clocks, strict=True))
    alike = left.kind == right.kind or {left.kind, right.kind} <= set(NUMBERS)
    if not alike or (left.timezone is None) != (right.timezone is None):
        zones = " (one has a time zone)" if left.kind == right.kind else ""
        raise CepError(
            f"the clocks of a join must have one type: left {clocks[0]!r} is {left}, right {clocks[1]!r} is "
            f"{right}{zones}; convert one of them"
        )
    if left.kind not in (TIME, DURATION):
        return None
    return min((left.unit or "ns", right.unit or "ns"), key=lambda unit: NANOSECONDS[unit])


def _check_keys(one: str, of: ColumnType, other: str, to: ColumnType) -> None:
    """Raise if two columns of a key can never be equal."""
    if of.kind == to.kind or {of.kind, to.kind} <= set(NUMBERS):
        return
    raise CepError(
        f"on: left column {one!r} is of type {of}, right column {other!r} of type {to}; they are never "
        "equal. Convert one of them"
    )


def _size(window: Window | None, side: str, source: Source, clock: str, unit: str | None) -> Size | None:
    """Return the size of the window of a side in rows or in ticks; None without a window."""
    if window is None:
        return None
    if window.time is None:
        return Size(False, int(window.length or 0), window.tumbling)
    clock_type = source.schema[clock]
    if clock_type.kind in (INTEGER, FLOAT) and not isinstance(window.time, int):
        raise unit_missing(f"{side}: time", window.time, clock)
    return Size(True, duration_ticks(window.time, unit), window.tumbling)


def _result_columns(join: Join, sources: Sources) -> tuple[tuple[str, int, str], ...]:
    """Return the columns of the result: name, side, and name on this side."""
    shared = {left_key for left_key, right_key in join.on if left_key == right_key}
    names = [list(_own_columns(source)) for source in sources]
    both = (set(names[0]) & set(names[1])) - shared
    columns = []
    for which, side in enumerate(SIDES):
        for name in names[which]:
            if name in shared and which == 1:
                continue
            columns.append((f"{name}_{side}" if name in both else name, which, name))
    column_names = [name for name, _, _ in columns]
    if twice := sorted(name for name, n in Counter(column_names).items() if n > 1):
        raise CepError(f"the result of the join would have the columns {twice} twice; rename them first")
    check_free((*(name for name, _ in join.measures), EMITTED), column_names)
    return tuple(columns)


def _own_columns(source: Source) -> list[str]:
    frame = source.frame
    if isinstance(frame, pd.DataFrame):
        return [name for name in frame.columns if isinstance(name, str)]
    return list(frame.schema.names) if isinstance(frame, pa.Table) else list(source.schema)


# --- running


class PairSource:
    """The rows of pairs as a source of values, with columns such as ``left.price``."""

    def __init__(self, sources: Sources, rows: tuple[np.ndarray, ...]):
        self.sources, self.rows = sources, rows

    @cached_property
    def schema(self) -> Mapping[str, ColumnType]:
        """The types of the columns by side, and without a side where only one side has the name."""
        named = {
            f"{side}.{name}": column_type
            for side, source in zip(SIDES, self.sources, strict=True)
            for name, column_type in source.schema.items()
        }
        left, right = (source.schema for source in self.sources)
        alone = {
            name: column_type
            for name, column_type in {**left, **right}.items()
            if (name in left) != (name in right)
        }
        return {**named, **alone}

    def _place(self, name: str) -> tuple[int, str]:
        side, _, column = name.partition(".")
        if side in SIDES and name in self.schema:
            return SIDES.index(side), column
        return (0 if name in self.sources[0].schema else 1), name

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of a column at these pairs; null for a row without a partner."""
        which, column = self._place(name)
        return values_at(self.sources[which], column, self.rows[which][rows])

    def vectors(self, name: str) -> np.ndarray:
        """Return an array column as a matrix."""
        which, column = self._place(name)
        return self.sources[which].vectors(column)[self.rows[which]]


def values_at(source: Source, name: str, rows: np.ndarray) -> pa.Array:
    """Return the values of a column at these rows; null at row -1."""
    missing = rows < 0
    if not missing.any():
        return source.arrow(name, rows)
    picked_values = one_chunk(source.arrow(name, rows[~missing]))
    place = np.cumsum(~missing) - 1  # the place among the rows that are not -1
    return picked_values.take(pa.array(place, mask=missing))


class PairEvaluator(RowEvaluator):
    """Computes expressions of pairs, and running aggregates over the pairs that are alive."""

    def __init__(self, join: Join, source: PairSource, moments: np.ndarray | None = None, alive: Any = None):
        super().__init__(join, source, np.arange(len(source.rows[0])))  # type: ignore[arg-type]
        self.moments, self.alive = moments, alive

    def name_of(self, e: ex.Attribute | ex.Reference) -> str:
        """Return the name of a column, with its side if it is given."""
        return f"{e.variable}.{e.name}" if isinstance(e, ex.Reference) else e.name

    def _check(self, e: ex.Attribute | ex.Reference) -> None:
        """Raise if a column does not exist, or exists on both sides."""
        schema, (left, right) = self.source.schema, (f"{side}.{e.name}" for side in SIDES)
        if isinstance(e, ex.Attribute) and e.name not in schema and left in schema and right in schema:
            raise self.wrong(e, f"both sides have a column {e.name!r}; write {left} or {right}")
        super()._check(e)

    def _aggregate(self, e: ex.Aggregate) -> pa.Array:
        """Return an aggregate over the pairs that are alive after the arrival of every output row."""
        pairs, births, ends = self.alive
        assert self.moments is not None
        name, operand = e.function, e.operand
        n = len(births)
        moments = np.concatenate((births, ends))  # a pair adds its value, and later removes it
        order = np.argsort(moments, kind="stable")
        sign = np.repeat(np.array((1, -1)), n)[order]
        stop = np.searchsorted(moments[order], self.moments, side="right").astype(np.int64)
        if operand is None:
            return pa.array(_totals(sign, stop))
        inner = PairEvaluator(self.query, pairs)  # type: ignore[arg-type]
        inner.role = self.role
        values = one_chunk(repeat_scalar(inner._row_value(operand, inner.rows), n))
        name, values = self.done(e, as_numbers, name, values)
        present = present_values(values)
        count = _totals(sign * np.concatenate((present, present))[order], stop)
        if name == "count":
            return pa.array(count)
        self.done(e, reduce_items, name, values[:0], np.zeros(1, np.int64), None)
        if (scale := getattr(values.type, "scale", None)) is not None:
            numbers = decimals.whole_numbers(values, scale)
            if numbers is None:
                raise self.wrong(e, "the decimals exceed 64 bits; cast the column to float64 first")
            total = _running_sums(numbers, present, order, sign, stop)
            if name == "sum":
                return decimals.decimals_of(total, count == 0, scale)
            return exact.total_or_mean(name, total / 10.0**scale, count, values.type)
        total = _running_sums(plain_numbers(values), present, order, sign, stop)
        return exact.total_or_mean(name, total, count, values.type)


def _totals(steps: np.ndarray, stop: np.ndarray) -> np.ndarray:
    before = sums_before(steps)
    return before[stop]


def _running_sums(
    values: np.ndarray, present: np.ndarray, order: np.ndarray, sign: np.ndarray, stop: np.ndarray
) -> np.ndarray:
    """Return the sums of values that enter and leave; ``stop`` is the number of such steps, nondecreasing."""
    twice, counts = (np.concatenate((array, array))[order] for array in (values, present))
    if values.dtype.kind == "i":
        return _totals(np.where(counts, twice, 0) * sign, stop)
    numbers = exact.numbers_of(twice, counts)
    numbers = numbers._replace(mantissa=numbers.mantissa * sign)
    total = exact.sums(numbers, np.zeros(len(stop), np.int64), stop)
    return exact.with_infinities(total, twice, counts, lambda part: _totals(part * sign, stop))


@dataclass(frozen=True)
class JoinRows:
    """The result of a join: the rows of both sides, -1 for none, and the columns that the join adds."""

    rows: tuple[np.ndarray, ...]  # int64: row numbers of the sources
    columns: dict[str, pa.Array]
    event: np.ndarray  # int64, (n_results,): the arrival among the events of both sides
    meeting: Meeting


def run_join(
    plan: PlannedJoin, sources: Sources, first_numbers: tuple[int, ...] = (0, 0),
    find_pairs: Callable[..., Pairs] = pairs_of,
) -> JoinRows:  # fmt: skip
    """Return the result of a join over two sources; ``find_pairs`` takes what `pairs_of` takes."""
    join = plan.join
    windows = (join.left, join.right)
    kept = tuple(
        kept_rows(window, source, (clock,))
        for window, source, clock in zip(windows, sources, plan.clocks, strict=True)
    )
    times = tuple(ticks_of_clock(plan, which, sources[which], kept[which]) for which in (0, 1))
    meeting = meet(times, plan.sizes, first_numbers)
    keys, n_keys = _keys(join, sources, kept)
    triggers = {"both": (0, 1), "left": (0,), "right": (1,)}[join.trigger]
    pairs = find_pairs(meeting, keys, n_keys, triggers)
    if join.where is not None:
        source = PairSource(sources, (kept[0][pairs.left], kept[1][pairs.right]))
        held = PairEvaluator(join, source).truths("where", join.where)
        pairs = Pairs(*(part[held] for part in pairs))
    event, left, right = _with_lonely(join, meeting, pairs, triggers)
    # A side without a partner has row -1: the last row of what is indexed.
    rows = tuple(np.append(side_rows, -1)[side] for side_rows, side in zip(kept, (left, right), strict=True))
    columns: dict[str, pa.Array] = {}
    if join.measures:
        source = PairSource(sources, (kept[0][pairs.left], kept[1][pairs.right]))
        alive = source, pairs.event, ends_of(meeting, pairs)
        evaluator = PairEvaluator(join, PairSource(sources, rows), event, alive)
        columns |= {name: evaluator.values(f"measure {name!r}", tree) for name, tree in join.measures}
    columns[EMITTED] = _moments(plan, sources, kept, meeting).take(pa.array(event))
    return JoinRows(rows, columns, event, meeting)


def ticks_of_clock(
    plan: PlannedJoin, which: int, source: Source, rows: np.ndarray | None = None
) -> np.ndarray:
    """Return the clock of a side in the common unit, int64 or float64; ``rows`` limits the rows."""
    clock = plan.clocks[which]
    column = source.column(clock)
    values = column.values if rows is None else column.values[rows]
    if plan.is_float:
        return values.astype(np.float64)
    values = values.astype(np.int64)
    if plan.unit is None or column.type.unit is None:
        return values
    factor = NANOSECONDS[column.type.unit] // NANOSECONDS[plan.unit]
    limit = (1 << 63) // factor
    if len(values) and (abs(int(values.max())) >= limit or abs(int(values.min())) >= limit):
        raise OrderError(f"order_by: times of {clock!r} do not fit the unit {plan.unit} of the join")
    return values * factor


def _keys(join: Join, sources: Sources, kept: tuple) -> tuple[tuple[np.ndarray, np.ndarray], int]:
    """Return the code of the key of every row of each side, -1 for a missing key, and the number of codes."""
    n_left = len(kept[0])
    codes = np.zeros(n_left + len(kept[1]), np.int64)
    has_key, n_codes = np.ones(len(codes), bool), 1
    for left_key, right_key in join.on:
        left_values = _plain_key(sources[0].arrow(left_key, kept[0]))
        right_values = _plain_key(sources[1].arrow(right_key, kept[1]))
        try:
            both = pa.chunked_array(_one_type([left_values, right_values]))
            encoded = as_codes(one_chunk(both))
        except pa.ArrowNotImplementedError:
            raise CepError(
                f"on: column {left_key!r} is of type {sources[0].schema[left_key]}, whose values "
                "cannot be keys"
            ) from None
        key_codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        has_key &= key_codes >= 0
        codes = codes * len(encoded.dictionary) + np.maximum(key_codes, 0)
        _, codes = np.unique(codes, return_inverse=True)
        n_codes = int(codes.max(initial=-1)) + 1
    codes = np.where(has_key, codes, -1)
    return (codes[:n_left], codes[n_left:]), max(n_codes, 1)


def _plain_key(values: pa.Array) -> pa.Array:
    return one_chunk(plain_values(values))


def _one_type(parts: list[pa.Array]) -> list[pa.Array]:
    """Return the keys of both sides in one type."""
    types = [part.type for part in parts]
    if types[0] == types[1]:
        return parts
    if pa.types.is_temporal(types[0]):
        return [_as_nanoseconds(part) for part in parts]
    wide = pa.float64() if any(map(pa.types.is_floating, types)) else types[0]
    if any(map(pa.types.is_large_string, types)):
        wide = pa.large_string()
    return [part.cast(wide) for part in parts]


def _as_nanoseconds(values: pa.Array) -> pa.Array:
    arrow_type = values.type
    if pa.types.is_duration(arrow_type):
        return values.cast(pa.duration("ns"))
    return values.cast(pa.timestamp("ns", getattr(arrow_type, "tz", None)))


def _with_lonely(join: Join, meeting: Meeting, pairs: Pairs, triggers: tuple[int, ...]) -> Pairs:
    """Return the pairs, with a row for each arrival without a partner that the result includes."""
    padded = {"inner": (), "left": (0,), "right": (1,), "outer": (0, 1)}[join.how]
    if not padded:
        return pairs
    is_lonely = np.isin(meeting.side, [which for which in triggers if which in padded])
    is_lonely[pairs.event] = False
    lonely = np.flatnonzero(is_lonely)
    event = np.concatenate((pairs.event, lonely))
    lonely_rows, none = meeting.row[lonely], np.full(len(lonely), -1, np.int64)
    from_left = meeting.side[lonely] == 0
    left = np.concatenate((pairs.left, np.where(from_left, lonely_rows, none)))
    right = np.concatenate((pairs.right, np.where(from_left, none, lonely_rows)))
    order = np.argsort(event, kind="stable")
    return Pairs(event[order], left[order], right[order])


def _moments(plan: PlannedJoin, sources: Sources, kept: tuple, meeting: Meeting) -> pa.Array:
    """Return the time of every event of both sides, in the type of the finer clock."""
    parts = [
        one_chunk(source.arrow(clock, np.arange(source.n_rows)))
        for source, clock in zip(sources, plan.clocks, strict=True)
    ]
    if parts[0].type != parts[1].type:
        if plan.unit is not None:
            zone = getattr(parts[0].type, "tz", None)
            is_time = not pa.types.is_duration(parts[0].type)
            clock_type = pa.timestamp(plan.unit, zone) if is_time else pa.duration(plan.unit)
        else:
            kinds = {pa.types.is_floating(part.type) for part in parts}
            clock_type = pa.float64() if True in kinds else pa.int64()
        parts = [part.cast(clock_type) for part in parts]
    every = one_chunk(pa.chunked_array(parts))
    rows = np.concatenate((kept[0], kept[1] + len(parts[0])))
    return every.take(pa.array(rows[np.where(meeting.side == 0, meeting.row, meeting.row + len(kept[0]))]))


def frame_of_join(
    plan: PlannedJoin, sources: Sources, found: JoinRows, native: Callable[[Frame], Frame]
) -> Frame:
    """Return the result of a join as a frame of the kind of its left side."""
    arrays: dict[str, Any] = {}
    is_pandas = isinstance(sources[0].frame, pd.DataFrame)
    picked: tuple[dict[str, Picked], ...] = ({}, {})
    for name, which, column in plan.columns:
        source, rows = sources[which], found.rows[which]
        if column in plan.shared and (rows < 0).any():
            other = next(pair[1] for pair in plan.join.on if pair[0] == column)
            sides = [values_at(sources[0], column, rows), values_at(sources[1], other, found.rows[1])]
            values = pc.coalesce(plain_of(sides[0]), plain_of(sides[1]).cast(plain_of(sides[0]).type))  # type: ignore[attr-defined]
            arrays[name] = series_of_arrow(one_chunk(values)) if is_pandas else one_chunk(values)
        elif is_pandas and isinstance(source.frame, pd.DataFrame) and not (rows < 0).any():
            arrays[name] = picked[which][name] = Picked(column, rows)
        else:
            values = values_at(source, column, rows)
            arrays[name] = series_of_arrow(values) if is_pandas else values
    for source, picks in zip(sources, picked, strict=True):  # one frame for all columns of a side
        arrays |= dict(source.result(picks).items()) if picks else {}
    for name, values in found.columns.items():
        arrays[name] = series_of_arrow(values) if is_pandas else values
    if is_pandas:
        return pd.DataFrame(arrays, copy=False)
    return native(pa.table(arrays))


def plain_of(values: pa.Array) -> pa.Array:
    """Return an array without a dictionary."""
    values = one_chunk(values)
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
