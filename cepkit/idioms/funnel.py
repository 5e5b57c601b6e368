"""Funnels: how many users reach each of several steps, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex.program import compile_regex
from cepkit.engines.measures.regex_measures import Measured
from cepkit.engines.regex.matching import match_regex
from cepkit.errors import CepError, UnsupportedQueryError, nearest, warn
from cepkit.events import TEXT, Events, Frame, Source
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
from cepkit.idioms.sessions import clock_ticks, gap_ticks
from cepkit.language.expressions import trees as ex
from cepkit.language.query_parts import Duration
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery

if TYPE_CHECKING:
    from cepkit.frames.spark import TaskMatches

ANY, STRICT = "any", "strict"
MODES = (ANY, STRICT)


@dataclass(frozen=True, slots=True)
class Funnel:
    """Steps, one query of a single row for each, and the rules between them."""

    names: tuple[str, ...]
    queries: tuple[RegexQuery, ...]
    mode: str
    within: Duration | None
    within_closed: bool


def count_steps(
    frame: Frame,
    steps: Sequence[Any],
    *,
    mode: str = ANY,
    event_type: str | None = None,
    partition_by: str | Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    within: Duration | None = None,
    within_closed: bool = True,
    params: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Count the users who reach each of several steps, one step after the other.

    A user is a partition. It reaches a step if it has rows for this step and for all steps before it, in
    this order, and the last of these rows comes at most ``within`` after the first.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    steps : list
        Two or more values of the column ``event_type``. Without ``event_type``, conditions on a row, such as
        ``["page == 'home'", "amount > 0"]``.
    mode : str
        What a user may do between two steps. ``"any"``: anything. ``"strict"``: nothing; the rows of the
        steps follow each other directly in the partition. To ignore rows of some kinds under ``"strict"``,
        filter the frame first.
    event_type : str, optional
        Column of event types.
    partition_by : str or list of str
        Columns, such as the user.
    order_by : str or list of str, optional
        Columns; the first is the clock. Default in memory: a DatetimeIndex, or else the order of the rows.
        Spark needs a total order.
    within : str, timedelta or int, optional
        Longest time from the first step to a later one.
    within_closed : bool
        Whether a step that comes exactly ``within`` after the first one counts.
    params : mapping of str to value, optional
        Values of ``:name`` in conditions.

    Returns
    -------
    pandas.DataFrame
        One row per step: ``step``; ``reached`` (the number of partitions that reach it); ``lost`` (the
        partitions that reach the step before it and not this one; for the first step, those without it);
        ``share`` (of the partitions that reach the first step) and ``share_of_previous``.

    Raises
    ------
    CepError
        Without ``partition_by``, for fewer than two steps, unknown modes and columns, and a window without
        a clock.
    UnsupportedQueryError
        For steps that are neither values nor conditions.

    Warns
    -----
    CepWarning
        For event types that no row has.

    Notes
    -----
    A user may begin again: the best of all attempts counts, so a repeated first step never hides a later
    success. In ClickHouse, whose ``windowFunnel`` has the modes ``strict_order`` and
    ``strict_deduplication``, an attempt that fails can hide another one (ClickHouse/ClickHouse 21833 and
    27469). Time O(rows x steps), and the time to sort the rows and the partitions. A step needs a row of its
    own, also when two steps are equal.

    Examples
    --------
    >>> import pandas as pd
    >>> clicks = pd.DataFrame({"user": list("aaabbb"), "kind": ["view", "help", "cart", "view", "cart", "buy"]})
    >>> count_steps(clicks, ["view", "cart", "buy"], event_type="kind", partition_by="user")
       step  reached  lost  share  share_of_previous
    0  view        2     0    1.0                1.0
    1  cart        2     0    1.0                1.0
    2   buy        1     1    0.5                0.5
    """
    if mode not in MODES:
        raise CepError(
            f"mode={mode!r}.{nearest(str(mode), MODES)} 'any' lets a user do anything between two steps, "
            "'strict' nothing"
        )
    if partition_by is None or partition_by == []:
        raise CepError("a funnel counts users; name their column, as in partition_by='user'")
    value = _funnel_of(
        frame, steps, event_type, mode, within, within_closed,
        {"partition_by": partition_by, "order_by": order_by}, params,
    )  # fmt: skip
    if is_spark(frame):
        reached, n_users = _count_on_spark(frame, value)
    else:
        source, _ = source_and_native(frame)
        source = with_types(source, replace(value.queries[0], within=within))
        if event_type is not None:
            _warn_of_unknown_types(source, event_type, steps)
        found = [find_hits(source, query) for query in value.queries]
        reached, n_users = _count(value, found[0][0], source, [hits.events for _, hits in found],
                                  [mask_of(hits) for _, hits in found])  # fmt: skip
    return _frame_of(value.names, reached, n_users)


def _funnel_of(
    frame: Frame,
    steps: Sequence[Any],
    event_type: str | None,
    mode: str,
    within: Duration | None,
    within_closed: bool,
    columns: Mapping[str, Any],
    params: Mapping[str, Any] | None,
) -> Funnel:
    if len(steps) < 2:
        raise CepError(f"a funnel has two or more steps, got {len(steps)}")
    name = free_name("step", frame)
    queries = []
    for one in steps:
        condition = one
        if event_type is not None:
            if not isinstance(one, str | int):
                raise UnsupportedQueryError(
                    f"step {one!r}: a step is a value of the column {event_type!r}, a text or a whole number"
                )
            condition = ex.Comparison("==", ex.Attribute(event_type), ex.Literal(one))
        elif not isinstance(one, str):
            raise UnsupportedQueryError(
                f"step {one!r}: without event_type a step is a condition on a row, such as \"page == 'home'\""
            )
        query = regex_query(name, define={name: condition}, **columns)
        own = {key: value for key, value in (params or {}).items() if key in query.parameters()}
        queries.append(regex_query(name, define={name: condition}, params=own, **columns))
    return Funnel(tuple(map(str, steps)), tuple(queries), mode, within, within_closed)


def reach_steps(
    events: Events,
    is_step: Sequence[np.ndarray],
    mode: str,
    ticks: np.ndarray | None = None,
    longest: int | None = None,
    closed: bool = True,
) -> list[np.ndarray]:
    """Return for each step the partition codes that reach it.

    Parameters
    ----------
    events : Events
        In stream order.
    is_step : sequence of ndarray of bool, shape (n_events,)
        For each step, by stream position, whether a row can be it.
    mode : str
        ``"any"`` or ``"strict"``.
    ticks : ndarray, optional
        The clock by stream position, with ``longest``, the ticks from the first step to the last, and
        ``closed``, whether exactly that many are allowed.

    Notes
    -----
    For every row the latest possible first row is kept: it is the best one, as only the time since then
    limits the later steps. Time O(n_events x steps).
    """
    order = events.by_partition
    begin, _ = events.bounds_by_partition
    time = None if ticks is None or longest is None else ticks[order]
    place = np.arange(len(order))
    started = np.where(is_step[0][order], place, -1)
    reached = [started]
    for mask in is_step[1:]:
        before = np.full(len(order), -1, np.int64)
        earlier = np.maximum.accumulate(started) if mode == ANY else started
        before[1:] = earlier[:-1]
        can = mask[order] & (before >= begin)
        if time is not None:
            lasted = time - time[np.maximum(before, 0)]
            can &= (lasted <= longest) if closed else (lasted < longest)
        started = np.where(can, before, -1)
        reached.append(started)
    partition = events.partition_of_event[order]
    return [np.unique(partition[one >= 0]) for one in reached]


def _count(
    value: Funnel, query: RegexQuery, source: Source, events: list[Events], masks: list[np.ndarray]
) -> tuple[list[int], int]:
    """Return the number of partitions that reach each step, and the number of partitions."""
    own = events[0]  # all queries have the same order and the same partitions
    ticks = longest = None
    if value.within is not None:
        longest = gap_ticks(value.within, query.order_by, source, "within")
        ticks = clock_ticks(source, query.order_by[0])[own.rows(np.arange(own.n_events))]
    reached = reach_steps(own, masks, value.mode, ticks, longest, value.within_closed)
    return [len(one) for one in reached], len(np.unique(own.partition_of_event))


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
    of = source.schema.get(event_type)
    if of is None or of.kind != TEXT or not source.n_rows:
        return
    known = [str(text) for text in source.column(event_type).texts]
    for one in dict.fromkeys(steps):
        if one not in known:
            warn(f"no row has the event type {one!r} in column {event_type!r}.{nearest(str(one), known)}")


# --- Spark


@dataclass(frozen=True, slots=True)
class FunnelOfTask:
    """Counts the partitions of one Spark task that reach each step."""

    value: Funnel

    def __call__(self, found: TaskMatches) -> list[tuple[str, Measured]]:
        """Return the counts, and the number of partitions last, in one row."""
        queries, schema = self.value.queries, found.program.schema
        programs = [found.program, *(compile_regex(query, schema) for query in queries[1:])]
        events = [found.matches.events, *(build_events(found.source, one) for one in programs[1:])]
        hits = [
            found.matches,
            *(
                match_regex(program, own, threads=1, tier="compiled")
                for program, own in zip(programs[1:], events[1:], strict=True)
            ),
        ]
        counts, n_users = _count(self.value, queries[0], found.source, events, [mask_of(one) for one in hits])
        return [(f"n{i}", pa.array([n], pa.int64())) for i, n in enumerate([*counts, n_users])]


def _count_on_spark(frame: Frame, value: Funnel) -> tuple[list[int], int]:
    from pyspark.sql import functions as F

    program, source, needed = bind_on_spark(frame, value.queries[0])
    columns = set(needed)
    for query in value.queries[1:]:
        columns |= set(bind_on_spark(frame, query)[2])
    made = run_on_spark(
        frame, source, program, [name for name in source.names if name in columns], FunnelOfTask(value)
    )
    total = made.agg(*(F.sum(name).alias(name) for name in made.columns)).collect()[0]
    *reached, n_users = (int(n or 0) for n in total)
    return reached, n_users
