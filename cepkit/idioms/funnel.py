"""Funnels: how many users reach each of several steps, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex_program import compile_regex
from cepkit.engines.regex import match_regex
from cepkit.errors import CepError, UnsupportedQueryError, column_not_found, nearest, warn
from cepkit.events import DURATION, FLOAT, INTEGER, TEXT, TIME, ColumnType, Events, Frame, Source
from cepkit.frames.building import build_events
from cepkit.frames.sources import is_on_spark, source_of_frame, with_types
from cepkit.idioms.asking import (
    bind_on_spark,
    column_names,
    find_hits,
    free_name,
    gap_ticks,
    mask_of,
    parameters_of,
    run_on_spark,
)
from cepkit.insight.funnel import COLUMNS, TIMES, FunnelResult, UserCounts, UserSteps
from cepkit.language.expressions import trees as ex
from cepkit.language.query_parts import Duration
from cepkit.language.regex import RegexQuery, regex_query
from cepkit.planning.clocks import clock_values
from cepkit.planning.plans import check_columns
from cepkit.planning.queries import Arguments
from cepkit.values import dataclass, fields, replace

if TYPE_CHECKING:
    from cepkit.frames.spark import Results
    from cepkit.results.spark_tasks import Searched

ANY, STRICT, UNORDERED = "any", "strict", "any order"
MODES = (ANY, STRICT, UNORDERED)
_OWN = ("event_type", "partition_by", "order_by", "within", "within_closed", "params")


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """A step of a funnel: its text, the query of its rows, and what leads to it."""

    text: str
    is_optional: bool = False
    excluded: tuple[int, ...] = ()  # queries of rows that may not lie between the step before and this one
    within: Duration | None = None  # longest time from the step before


@dataclass(frozen=True, slots=True)
class Funnel:
    """Steps, queries of a single row for them and for what is excluded, and the rules between them."""

    steps: tuple[FunnelStep, ...]
    values: tuple[Any, ...]  # for each query: an event type, or a condition
    event_type: str | None
    queries: tuple[RegexQuery, ...]  # those of the steps come first, in their order
    mode: str
    within: Duration | None
    within_closed: bool
    by: str | None = None  # column of the groups of users

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps in the result."""
        n = len(self.steps)
        if self.mode == UNORDERED:
            return tuple(f"{i} of {n} steps" for i in range(1, n + 1))
        return tuple(step.text for step in self.steps)

    @property
    def optional(self) -> tuple[bool, ...]:
        """Which steps a user may leave out."""
        return tuple(step.is_optional for step in self.steps)

    @property
    def any_limit(self) -> Duration | None:
        """A longest time of the rules, from which the type of an empty clock follows."""
        limits = (self.within, *(step.within for step in self.steps))
        return next((limit for limit in limits if limit is not None), None)


def funnel_of_steps(
    frame: Frame, steps: Sequence[Any], mode: str, by: str | None, given: Arguments
) -> FunnelResult:
    """Count the users who reach each of several steps; see `cepkit.funnel`."""
    if not isinstance(mode, str) or mode not in MODES:
        raise CepError(
            f"mode={mode!r}.{nearest(str(mode), MODES)} 'any' lets a user do anything between two steps, "
            "'strict' nothing, and 'any order' counts how many of the steps a user does"
        )
    foreign = [
        item.name for item in fields(given)
        if item.name not in _OWN and getattr(given, item.name) != item.default
    ]  # fmt: skip
    if foreign:
        raise CepError(f"{foreign}: a funnel of steps takes {list(_OWN)}, mode and by")
    if not given.partition_by:
        raise CepError("a funnel counts users; name their column, as in partition_by='user'")
    if by is not None and (not isinstance(by, str) or by in COLUMNS):
        raise CepError(f"by={by!r}: expected a column whose name is none of {list(COLUMNS)}")
    value = _funnel_of(frame, steps, mode, by, given)
    if is_on_spark(frame):
        found: UserSteps = _count_on_spark(frame, value)
    else:
        source, _ = source_of_frame(frame)
        source = with_types(source, replace(value.queries[0], within=value.any_limit))
        if by is not None:
            check_columns(source, "by", (by,))
        if given.event_type is not None:
            _warn_of_unknown_types(source, given.event_type, value.values)
        query, hits = find_hits(source, value.queries[0])
        masks, events = [mask_of(hits)], hits.events
        del hits  # as large as the columns
        for i, other in enumerate(value.queries[1:], 1):
            mask = _typed_mask(value, i, source, events)
            masks.append(mask_of(find_hits(source, other)[1]) if mask is None else mask)
        reached, n_users = _reach(value, query, source, events, masks)
        rows = {name: values for name, values in reached.items() if name != "row"}
        if by is not None:
            rows["group"] = source.arrow(by, reached["row"]).to_pandas()
        clock = clock_of(source, query.order_by) if "from_first" in rows else None
        found = StepsInMemory(pd.DataFrame(rows), n_users, clock)
    return FunnelResult(" → ".join(value.names), (), UserCounts(value.names, value.optional, by, found))


def _funnel_of(frame: Frame, texts: Sequence[Any], mode: str, by: str | None, given: Arguments) -> Funnel:
    steps, values, excluded = _read_steps(texts)
    if len(steps) < 2:
        raise CepError(f"a funnel has two or more steps, got {len(steps)}")
    within = given.within
    if isinstance(within, list | tuple):
        if len(within) != len(steps) - 1:
            raise CepError(
                f"within={within!r}: a list has the longest time from each step to the next, "
                f"{len(steps) - 1} for {len(steps)} steps; None is no limit"
            )
        steps[1:] = [replace(step, within=limit) for step, limit in zip(steps[1:], within, strict=True)]
        within = None
    if mode == UNORDERED and any(step != FunnelStep(step.text) for step in steps):
        raise CepError(
            "mode='any order': nothing lies between two steps; within is one duration, and ! and ? have no "
            "meaning"
        )
    name, queries, used = free_name("step", frame), [], set()
    for value in (*values, *excluded):
        condition = _condition_of_step(frame, value, given.event_type)
        names = parameters_of(condition) or set()
        used |= names
        params = {key: value for key, value in (given.params or {}).items() if key in names}
        query = regex_query(
            name, define={name: condition}, params=params, partition_by=given.partition_by,
            order_by=given.order_by,
        )  # fmt: skip
        queries.append(query)
    if unused := sorted(set(given.params or ()) - used):
        raise CepError(f"params: {unused[0]!r} is used by no step")
    every = (*values, *excluded)
    return Funnel(
        tuple(steps), every, given.event_type, tuple(queries), mode, within, given.within_closed, by
    )


def _read_steps(texts: Sequence[Any]) -> tuple[list[FunnelStep], list[Any], list[Any]]:
    """Return the steps, their values, and the values that are excluded before some of them."""
    steps: list[FunnelStep] = []
    values: list[Any] = []
    excluded: list[Any] = []
    waiting: list[int] = []  # numbers of excluded values that the next step takes
    n_steps = sum(not (isinstance(text, str) and text.startswith("!")) for text in texts)
    for text in texts:
        if isinstance(text, str) and text.startswith("!"):
            if not steps:
                raise CepError(
                    f"step {text!r}: an exclusion lies between two steps, and no step is before it"
                )
            waiting.append(n_steps + len(excluded))
            excluded.append(text[1:].strip())
            continue
        is_optional = isinstance(text, str) and text.endswith("?")
        if is_optional and (not steps or len(steps) == n_steps - 1):
            raise CepError(f"step {text!r}: the first and the last step of a funnel are not optional")
        if waiting and (is_optional or steps[-1].is_optional):
            raise CepError(f"step {text!r}: an exclusion beside an optional step has no clear meaning")
        steps.append(FunnelStep(str(text), is_optional, tuple(waiting)))
        values.append(text[:-1].strip() if is_optional else text)
        waiting = []
    if waiting:
        raise CepError(f"step {texts[-1]!r}: an exclusion lies between two steps, and no step is after it")
    return steps, values, excluded


def _condition_of_step(frame: Frame, value: Any, event_type: str | None) -> str | ex.Expression:
    """Return the condition of a step: that a row has this event type, or the text of the step."""
    if event_type is not None:
        if not isinstance(value, str | int):
            raise UnsupportedQueryError(
                f"step {value!r}: a step is a value of the column {event_type!r}, a text or a whole number"
            )
        return ex.Comparison("==", ex.Attribute(event_type), ex.Literal(value))
    if not isinstance(value, str):
        raise UnsupportedQueryError(
            f"step {value!r}: without event_type a step is a condition on a row, such as \"page == 'home'\""
        )
    columns = column_names(frame)
    if value.isidentifier() and value not in columns:
        error = column_not_found("step", value, [str(column) for column in columns])
        raise type(error)(f"{error}. Event types need their column, as in event_type='kind'")
    return value


def _typed_mask(value: Funnel, i: int, source: Source, events: Events) -> np.ndarray | None:
    """Return which rows, by stream position, have the type of query ``i``; None if the query must say it."""
    if value.event_type is None:
        return None
    column, step = source.column(value.event_type), value.values[i]
    if column.type.kind == TEXT and isinstance(step, str):
        codes = np.flatnonzero(column.texts == step)
        mask = np.isin(column.values, codes) if len(codes) != 1 else column.values == codes[0]
    elif column.type.kind == INTEGER and isinstance(step, int):
        mask = column.values == step
    else:
        return None
    return mask if events.row_of_event is None else mask[events.row_of_event]


class Reached(NamedTuple):
    """Where each user reaches a step for the first time, as numbers of rows by partition."""

    at: np.ndarray
    start: np.ndarray  # the first step of the attempt
    before: np.ndarray  # the step before


def reach_steps(
    value: Funnel, events: Events, masks: Sequence[np.ndarray], ticks: np.ndarray | None, longest: int | None,
    pauses: Sequence[int | None],
) -> list[Reached]:  # fmt: skip
    """Return where users reach each step."""
    # For every row that reaches a step, the latest possible first row is kept. It is the best one: the row
    # before it is the latest that reaches the step before, so that nothing excluded and the least time lie
    # between, and only the time since the first row limits later steps.
    order, partition = events.by_partition, events.partition_of_event
    size = np.bincount(partition, minlength=max(1, events.n_partitions))
    begin_of_partition = np.cumsum(size) - size

    def fits_in(later: np.ndarray, earlier: np.ndarray, limit: int | None) -> np.ndarray:
        return _lasts_at_most(value, ticks, order, later, earlier, limit)

    # The rows that reach a step, as places in this order, and the first row of the latest attempt of each.
    rows = np.flatnonzero(masks[0][order])
    started = rows
    steps = [_first_of_users(partition[order[rows]], rows, rows, rows)]
    for i, step in enumerate(value.steps[1:], 1):
        places = np.flatnonzero(masks[i][order])
        before = np.searchsorted(rows, places) - 1
        fits = before >= 0
        if value.mode == STRICT and len(rows):
            fits &= rows[before] == places - 1
        places, before = places[fits], before[fits]
        start, last = started[before], rows[before]  # ascending, as the rows are
        del before  # it takes as much memory as they do
        fits = start >= begin_of_partition[partition[order[places]]]
        fits &= fits_in(places, start, longest) & fits_in(places, last, pauses[i])
        for number in step.excluded:
            excluded = np.r_[-1, np.flatnonzero(masks[number][order])]
            fits &= excluded[np.searchsorted(excluded, places) - 1] <= last
        places, start, last = places[fits], start[fits], last[fits]
        steps.append(_first_of_users(partition[order[places]], places, start, last))
        if step.is_optional:  # the next step may follow this one or the one before
            places, start = np.r_[rows, places], np.r_[started, start]
            by_place = np.lexsort((start, places))
            places, start = places[by_place], start[by_place]
        rows, started = places, start
    return steps


def _lasts_at_most(
    value: Funnel, ticks: np.ndarray | None, order: np.ndarray, later: np.ndarray, earlier: np.ndarray,
    limit: int | None,
) -> np.ndarray:  # fmt: skip
    """Return for which places the time since the earlier ones is within a limit; None is no limit."""
    if ticks is None or limit is None:
        return np.ones(len(later), bool)
    lasted = ticks[order[later]]
    lasted -= ticks[order[earlier]]  # in place, since they may be as many as the rows
    if lasted.dtype == np.int64:
        lasted = lasted.view(np.uint64)  # never negative, so 64 bits without a sign hold it
    return (lasted <= limit) if value.within_closed else (lasted < limit)


def _first_of_users(users: np.ndarray, *places: np.ndarray) -> Reached:
    """Return the first row of each user, from rows in order of users."""
    first = np.flatnonzero(np.diff(users, prepend=-1))  # where a user differs from the one before
    return Reached(*(of_row[first] for of_row in places))


def _reach_in_any_order(
    value: Funnel, events: Events, masks: Sequence[np.ndarray], ticks: np.ndarray | None, longest: int | None
) -> list[Reached]:
    """Return the first places of users with at least one, two, … of the steps within the window."""
    order, partition = events.by_partition, events.partition_of_event
    partition_of_place = partition[order]
    ends = np.cumsum(np.bincount(partition, minlength=max(1, events.n_partitions)))
    starts = np.flatnonzero(np.logical_or.reduce([mask[order] for mask in masks]))
    n_steps = np.zeros(len(starts), np.int64)
    for mask in masks:
        places = np.r_[np.flatnonzero(mask[order]), len(order)]  # the end stands for no later one
        next_place = places[np.searchsorted(places, starts)]
        fits = next_place < ends[partition_of_place[starts]]
        later = np.where(fits, next_place, starts)
        fits &= _lasts_at_most(value, ticks, order, later, starts, longest)
        n_steps += fits
    enough = (starts[n_steps >= n] for n in range(1, len(masks) + 1))
    return [_first_of_users(partition_of_place[rows], rows, rows, rows) for rows in enough]


def clock_of(source: Source, order_by: Sequence[str]) -> ColumnType | None:
    """Return the type of the clock whose differences are times; None without one."""
    clock = source.schema[order_by[0]] if order_by else None
    return clock if clock is not None and clock.kind in (INTEGER, FLOAT, TIME, DURATION) else None


def _reach(
    value: Funnel, query: RegexQuery, source: Source, events: Events, masks: list[np.ndarray]
) -> tuple[dict[str, np.ndarray], int]:
    """Return a row for each user and step, and the number of users."""
    # ``step`` is the number of the step, and ``row`` the user's first row that is the first step. The other
    # two are ticks since the first and since the previous step of the attempt.
    limits = [
        None if limit is None else gap_ticks(limit, query.order_by, source, "within")
        for limit in (value.within, *(step.within for step in value.steps))
    ]
    ticks, clock = None, clock_of(source, query.order_by)
    if clock is not None:
        rows_in_order = slice(None) if events.row_of_event is None else events.row_of_event
        ticks = clock_values(source, query.order_by[0], rows_in_order)
    if value.mode == UNORDERED:
        reached = _reach_in_any_order(value, events, masks, ticks, limits[0])
    else:
        reached = reach_steps(value, events, masks, ticks, limits[0], limits[1:])
    order, partition = events.by_partition, events.partition_of_event
    places = [np.concatenate([getattr(step, name) for step in reached]) for name in Reached._fields]
    at, start, before = (order[of_rows] for of_rows in places)
    step = np.repeat(np.arange(len(reached)), [len(of_step.at) for of_step in reached])
    first_row = np.zeros(max(1, events.n_partitions), np.int64)
    first_row[partition[order[reached[0].at]]] = events.rows(order[reached[0].at])
    rows = {"step": step, "row": first_row[partition[at]]}
    if ticks is not None and value.mode != UNORDERED:
        for name, earlier in (("from_first", start), ("from_previous", before)):
            rows[name] = np.where(step > 0, ticks[at].astype(np.float64) - ticks[earlier], np.nan)
    return rows, int(np.count_nonzero(np.bincount(partition)))


@dataclass(frozen=True, eq=False)
class StepsInMemory:
    """The steps that users reach; see `cepkit.insight.funnel.UserSteps`."""

    rows: pd.DataFrame  # step, from_first, from_previous, group; the last three may be missing
    n_users: int
    clock: ColumnType | None

    def counts(self) -> pd.DataFrame:
        """Return ``n``, the number of users, for each ``step`` and ``group``."""
        keys = [name for name in ("group", "step") if name in self.rows]
        return self.rows.groupby(keys, dropna=False, observed=True).size().rename("n").reset_index()

    def quantiles(self, shares: Sequence[float]) -> pd.DataFrame:
        """Return ticks for each ``step``, ``group`` and ``quantile``."""
        keys = [name for name in ("group", "step") if name in self.rows]
        grouped = self.rows.groupby(keys, dropna=False, observed=True)[list(TIMES)]
        return grouped.quantile(list(shares)).rename_axis([*keys, "quantile"]).reset_index()


def _warn_of_unknown_types(source: Source, event_type: str, steps: Sequence[Any]) -> None:
    column_type = source.schema.get(event_type)
    if column_type is None or column_type.kind != TEXT or not source.n_rows:
        return
    types = [str(text) for text in source.column(event_type).texts]
    for step in dict.fromkeys(steps):
        if step not in types:
            warn(f"no row has the event type {step!r} in column {event_type!r}.{nearest(str(step), types)}")


# --- Spark


@dataclass(frozen=True, slots=True)
class FunnelOfTask:
    """Tells the steps that the users of one Spark task reach."""

    value: Funnel

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield a row for each user and step, and one of step -1 with the number of users."""
        value, source, found = self.value, searched.source, searched.found
        masks = [mask_of(found.whole)]
        for i, query in enumerate(value.queries[1:], 1):  # all have the same order and the same partitions
            if (mask := _typed_mask(value, i, source, searched.events)) is not None:
                masks.append(mask)
                continue
            program = compile_regex(query, found.program.schema)
            events = build_events(source, program)
            masks.append(mask_of(match_regex(program, events, threads=1, tier="compiled")))
        reached, n_users = _reach(value, value.queries[0], source, searched.events, masks)
        n = len(reached["step"])
        rows = [
            ("step", pa.array(np.r_[reached["step"], -1], pa.int64())),
            ("n", pa.array(np.r_[np.ones(n, np.int64), n_users], pa.int64())),
        ]
        for name in TIMES:
            values = reached.get(name, np.full(n, np.nan))
            rows.append((name, pa.array(np.r_[values, np.nan], pa.float64(), from_pandas=True)))
        if value.by is not None:
            group = source.arrow(value.by, reached["row"])
            rows.append(("group", pa.concat_arrays([group, pa.nulls(1, group.type)])))
        yield rows


@dataclass(frozen=True, eq=False)
class StepsOnSpark:
    """The same as `StepsInMemory` in a lazy Spark frame."""

    rows: Any
    clock: ColumnType | None
    by: str | None

    @property
    def _keys(self) -> list[str]:
        return ["step", *(["group"] if self.by else [])]

    @cached_property
    def _counts(self) -> pd.DataFrame:
        from cepkit.results.spark_tasks import count_by

        return count_by(self.rows, self._keys)

    @property
    def n_users(self) -> int:
        """The number of partitions."""
        return int(self._counts.loc[self._counts["step"] < 0, "n"].sum())

    def counts(self) -> pd.DataFrame:
        """Return ``n``, the number of users, for each ``step`` and ``group``."""
        return self._counts[self._counts["step"] >= 0]

    def quantiles(self, shares: Sequence[float]) -> pd.DataFrame:
        """Return ticks for each ``step``, ``group`` and ``quantile``."""
        from cepkit.results.spark_tasks import quantiles_by

        return quantiles_by(self.rows.where("step >= 0"), self._keys, TIMES, shares)


def _count_on_spark(frame: Frame, value: Funnel) -> StepsOnSpark:
    program, source, needed = bind_on_spark(frame, value.queries[0])
    columns = {*needed, *([value.by] if value.by else [])}
    for query in value.queries[1:]:
        columns |= set(bind_on_spark(frame, query)[2])
    if value.by is not None:
        check_columns(source, "by", (value.by,))
    names, rows = run_on_spark(
        frame, source, program, [name for name in source.names if name in columns], FunnelOfTask(value)
    )
    clock = None if value.mode == UNORDERED else clock_of(source, value.queries[0].order_by)
    return StepsOnSpark(rows.toDF(*names), clock, value.by)
