"""Funnels: how many users reach each of several steps, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex.program import compile_regex
from cepkit.engines.regex import match_regex
from cepkit.errors import CepError, UnsupportedQueryError, nearest, warn
from cepkit.events import INTEGER, TEXT, Events, Frame, Source
from cepkit.frames.building import build_events
from cepkit.frames.empty import with_types
from cepkit.idioms.asking import (
    bind_on_spark,
    find_hits,
    free_name,
    is_spark,
    mask_of,
    run_on_spark,
    source_and_native,
)
from cepkit.idioms.runs import clock_ticks, gap_ticks
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.query_parts import Duration
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.queries import Arguments

if TYPE_CHECKING:
    from cepkit.frames.spark.tasks import Results
    from cepkit.results.spark.tasks import Searched

ANY, STRICT = "any", "strict"
MODES = (ANY, STRICT)
_OWN = ("event_type", "partition_by", "order_by", "within", "within_closed", "params")


@dataclass(frozen=True, slots=True)
class Funnel:
    """Steps, one query of a single row for each, and the rules between them."""

    steps: tuple[Any, ...]
    event_type: str | None
    queries: tuple[RegexQuery, ...]
    mode: str
    within: Duration | None
    within_closed: bool


def funnel_of_steps(frame: Frame, steps: Sequence[Any], mode: str, given: Arguments) -> pd.DataFrame:
    """Count the users who reach each of several steps; see `cepkit.funnel`."""
    if not isinstance(mode, str) or mode not in MODES:
        raise CepError(
            f"mode={mode!r}.{nearest(str(mode), MODES)} 'any' lets a user do anything between two steps, "
            "'strict' nothing"
        )
    foreign = [
        item.name for item in fields(given)
        if item.name not in _OWN and getattr(given, item.name) != item.default
    ]  # fmt: skip
    if foreign:
        raise CepError(f"{foreign}: a funnel of steps takes {list(_OWN)} and mode")
    if not given.partition_by:
        raise CepError("a funnel counts users; name their column, as in partition_by='user'")
    value = _funnel_of(frame, steps, mode, given)
    if is_spark(frame):
        reached, n_users = _count_on_spark(frame, value)
    else:
        source, _ = source_and_native(frame)
        source = with_types(source, replace(value.queries[0], within=given.within))
        if given.event_type is not None:
            _warn_of_unknown_types(source, given.event_type, steps)
        query, hits = find_hits(source, value.queries[0])
        masks = [mask_of(hits)]
        for i, other in enumerate(value.queries[1:], 1):
            mask = _typed_mask(value, i, source, hits.events)
            masks.append(mask_of(find_hits(source, other)[1]) if mask is None else mask)
        reached, n_users = _count(value, query, source, hits.events, masks)
    return _frame_of(tuple(map(str, value.steps)), reached, n_users)


def _funnel_of(frame: Frame, steps: Sequence[Any], mode: str, given: Arguments) -> Funnel:
    if len(steps) < 2:
        raise CepError(f"a funnel has two or more steps, got {len(steps)}")
    name, event_type = free_name("step", frame), given.event_type
    partition_by, order_by = given.partition_by, given.order_by
    queries, used = [], set()
    for step in steps:
        condition = step
        if event_type is not None:
            if not isinstance(step, str | int):
                raise UnsupportedQueryError(
                    f"step {step!r}: a step is a value of the column {event_type!r}, a text or a whole number"
                )
            condition = ex.Comparison("==", ex.Attribute(event_type), ex.Literal(step))
        elif not isinstance(step, str):
            raise UnsupportedQueryError(
                f"step {step!r}: without event_type a step is a condition on a row, such as "
                "\"page == 'home'\""
            )
        named = _parameters(condition)
        used |= named
        params = {key: value for key, value in (given.params or {}).items() if key in named}
        query = regex_query(
            name, define={name: condition}, params=params, partition_by=partition_by, order_by=order_by
        )
        queries.append(query)
    if unused := sorted(set(given.params or ()) - used):
        raise CepError(f"params: {unused[0]!r} is used by no step")
    return Funnel(tuple(steps), event_type, tuple(queries), mode, given.within, given.within_closed)


def _typed_mask(value: Funnel, i: int, source: Source, events: Events) -> np.ndarray | None:
    """Return which rows, by stream position, are of the type of a step; None if its query must say it."""
    if value.event_type is None:
        return None
    column, step = source.column(value.event_type), value.steps[i]
    if column.type.kind == TEXT and isinstance(step, str):
        codes = np.flatnonzero(column.texts == step)
        mask = np.isin(column.values, codes) if len(codes) != 1 else column.values == codes[0]
    elif column.type.kind == INTEGER and isinstance(step, int):
        mask = column.values == step
    else:
        return None
    return mask if events.row_of_event is None else mask[events.row_of_event]


def _parameters(condition: str | ex.Expression) -> set[str]:
    tree = parse_expression(condition, role="step") if isinstance(condition, str) else condition
    return {node.name for node in tree.walk(literals=False) if isinstance(node, ex.Parameter)}


def reach_steps(
    events: Events,
    is_step: Sequence[np.ndarray],
    mode: str,
    ticks: np.ndarray | None = None,
    longest: int | None = None,
    closed: bool = True,
) -> list[int]:
    """Return for each step the number of partitions that reach it.

    For every row the latest possible first row is kept: it is the best one, as only the time since then
    limits the later steps.
    """
    order, partition = events.by_partition, events.partition_of_event
    size = np.bincount(partition, minlength=max(1, events.n_partitions))
    begin_of_partition = np.cumsum(size) - size
    # The rows that reach a step, as places in this order, and the first row of the latest attempt of each.
    rows = np.flatnonzero(is_step[0][order])
    started = rows
    counts = [_n_partitions(partition, order, rows, len(size))]
    for mask in is_step[1:]:
        can = np.flatnonzero(mask[order])
        before = np.searchsorted(rows, can) - 1
        fits = before >= 0
        if mode == STRICT:
            fits &= rows[before] == can - 1 if len(rows) else False
        can, before = can[fits], started[before[fits]]  # ascending, as the rows are
        fits = before >= begin_of_partition[partition[order[can]]]
        can, before = can[fits], before[fits]
        if ticks is not None and longest is not None:
            lasted = ticks[order[can]] - ticks[order[before]]
            if lasted.dtype == np.int64:
                lasted = lasted.view(np.uint64)  # never negative, so 64 bits without a sign hold it
            fits = (lasted <= longest) if closed else (lasted < longest)
            can, before = can[fits], before[fits]
        rows, started = can, before
        counts.append(_n_partitions(partition, order, rows, len(size)))
    return counts


def _n_partitions(partition: np.ndarray, order: np.ndarray, rows: np.ndarray, n: int) -> int:
    has_row = np.zeros(n, bool)
    has_row[partition[order[rows]]] = True
    return int(np.count_nonzero(has_row))


def _count(
    value: Funnel, query: RegexQuery, source: Source, own: Events, masks: list[np.ndarray]
) -> tuple[list[int], int]:
    """Return the number of partitions that reach each step, and the number of partitions."""
    ticks = longest = None
    if value.within is not None:
        longest = gap_ticks(value.within, query.order_by, source, "within")
        ticks = clock_ticks(source, query.order_by[0])[own.rows(np.arange(own.n_events))]
    reached = reach_steps(own, masks, value.mode, ticks, longest, value.within_closed)
    n_users = int(np.count_nonzero(np.bincount(own.partition_of_event)))
    return reached, n_users


def _frame_of(names: tuple[str, ...], reached: Sequence[int], n_users: int) -> pd.DataFrame:
    counts = np.array(reached, dtype=np.int64)
    before = np.array([n_users, *counts[:-1]])
    previous = np.array([counts[0], *counts[:-1]])
    with np.errstate(invalid="ignore"):
        return pd.DataFrame(
            {
                "step": list(names),
                "reached": counts,
                "lost": before - counts,
                "share": counts / counts[0],
                "share_of_previous": counts / previous,
            }
        )


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
    """Counts the partitions of one Spark task that reach each step."""

    value: Funnel

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield the counts, and the number of partitions last, in one row."""
        queries, source, found = self.value.queries, searched.source, searched.found
        masks = [mask_of(found.whole)]
        for i, query in enumerate(queries[1:], 1):  # all have the same order and the same partitions
            if (mask := _typed_mask(self.value, i, source, searched.events)) is not None:
                masks.append(mask)
                continue
            program = compile_regex(query, found.program.schema)
            events = build_events(source, program)
            masks.append(mask_of(match_regex(program, events, threads=1, tier="compiled")))
        counts, n_users = _count(self.value, queries[0], source, searched.events, masks)
        yield [(f"n{i}", pa.array([n], pa.int64())) for i, n in enumerate([*counts, n_users])]


def _count_on_spark(frame: Frame, value: Funnel) -> tuple[list[int], int]:
    program, source, needed = bind_on_spark(frame, value.queries[0])
    columns = set(needed)
    for query in value.queries[1:]:
        columns |= set(bind_on_spark(frame, query)[2])
    _, counts = run_on_spark(
        frame, source, program, [name for name in source.names if name in columns], FunnelOfTask(value)
    )
    total = counts.groupBy().sum().collect()[0]
    *reached, n_users = (int(n or 0) for n in total)
    return reached, n_users
