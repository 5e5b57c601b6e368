"""Contiguous runs of rows for which a condition holds, and sessions: rows without a long pause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from cepkit.errors import CepError, UnsupportedQueryError, underline
from cepkit.events import DURATION, FLOAT, INTEGER, TIME, Events, Frame, Source
from cepkit.idioms.asking import Groups, answer, as_measures, free_name, group_rows, kept_query
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.expressions.parsing import check_built, parse_expression
from cepkit.language.query_parts import Duration
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.clocks import CLOCKS, order_advice
from cepkit.planning.queries import names_keywords

# Contiguous runs of rows for which a condition holds.


@dataclass(frozen=True, slots=True)
class ConditionRuns:
    """The longest runs of rows that a query of one row finds."""

    query: RegexQuery
    noun: str = "run"
    gap: None = None
    takes_all: bool = False

    def group(
        self, query: RegexQuery, source: Source, events: Events, is_member: np.ndarray | None, of_events: bool
    ) -> Groups:
        """Return the runs."""
        return group_rows(events, is_member, of_events=of_events)


@names_keywords
def runs(
    frame: Frame,
    condition: str | ex.Expression | Callable[..., Any],
    *,
    partition_by: str | Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    rows: str = "one",
    measures: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Frame:
    """Find the contiguous runs of rows for which a condition holds.

    A run is as long as possible: the row before it and the row after it, in its partition, do not fulfil the
    condition. A missing value does not fulfil it.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    condition : str
        A condition on a row, which may look back with ``prev(x)`` and ``prev(x, 2)``. A predicate of `match`
        in any form; aggregates over the run are not possible in it.
    partition_by : str or list of str, optional
        Columns. Rows with equal values form a partition; runs never cross partitions.
    order_by : str or list of str, optional
        Columns that sort the rows, as for `match`. Default in memory: a DatetimeIndex, or else the order of
        the rows. Spark needs a total order.
    rows : str
        ``"one"``: one row per run. ``"all"``: the rows of the frame with the further column ``run``, the
        number of the run that a row belongs to.
    measures : mapping of str to str, optional
        Further columns for ``rows="one"``, such as ``{"gain": "last(price) - first(price)"}``.
    params : mapping of str to value, optional
        Values of ``:name`` in the condition and the measures.

    Returns
    -------
    DataFrame or table
        The same kind as the frame; lazy on Spark. One row per run, ordered by the last row of the runs:
        the columns of ``partition_by``, ``run`` (its number in the partition, from 1), ``start`` and ``end``
        (the first column of ``order_by`` at the first and last row; without one, the positions of these
        rows), ``length`` (its number of rows), and the measures. With ``rows="all"``, ``run`` is null for
        rows outside of runs.

    Raises
    ------
    UnsupportedQueryError
        For aggregates in the condition.
    CepError
        As `match`: for text that cannot be read, unknown columns, and types that do not fit.

    Notes
    -----
    Time O(rows), and the time to sort the rows and the partitions. pandas has no such call: its idiom is a
    comparison with ``shift``, a ``cumsum`` of the changes and a ``groupby``, which needs care at the borders
    of the groups (pandas-dev/pandas 5494 and 10540).

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 15, 16]})
    >>> cep.runs(walk, "price > prev(price)", measures={"top": "max(price)"})
       run  start  end  length  top
    0    1      1    2       2   13
    1    2      4    6       3   16
    >>> cep.runs(walk, "price > prev(price)", rows="all")["run"].tolist()
    [<NA>, 1, 1, <NA>, 2, 2, 2]
    """
    query = kept_query(
        _query_of_row, free_name("condition", frame), condition, partition_by=partition_by, order_by=order_by,
        params=params, **as_measures(measures),
    )  # fmt: skip
    return answer(frame, ConditionRuns(query), rows)


def _query_of_row(name: str, condition: Any, **keywords: Any) -> RegexQuery:
    _refuse_aggregates(condition)
    return regex_query(name, define={name: condition}, **keywords)


def _refuse_aggregates(condition: object) -> None:
    tree = condition
    if isinstance(condition, str):
        tree = parse_expression(condition, role="condition")
    if not isinstance(tree, ex.Expression):
        return
    check_built(tree, ex.Expression.children, "condition")
    for node in tree.walk(literals=False):
        if isinstance(node, ex.Aggregate):
            text = condition if isinstance(condition, str) and node.span else str(node)
            place = node.span if isinstance(condition, str) and node.span else (0, len(text))
            raise UnsupportedQueryError(
                f"condition: {node} ranges over the rows of a match, and a run is found row by row; look "
                "back with prev(x), or use match with a pattern\n"
                f"{underline(text, place[0], place[1] - place[0])}"
            )


# Sessions: rows of a partition without a long pause between them.


@dataclass(frozen=True, slots=True)
class PausedSessions:
    """Groups of rows whose pauses are at most ``gap`` long."""

    query: RegexQuery
    gap: Duration
    noun: str = "session"
    takes_all: bool = True

    def group(
        self, query: RegexQuery, source: Source, events: Events, is_member: np.ndarray | None, of_events: bool
    ) -> Groups:
        """Return the sessions."""
        longest = gap_ticks(self.gap, query.order_by, source)
        ticks = clock_ticks(source, query.order_by[0])
        if events.row_of_event is not None:
            ticks = ticks[events.row_of_event]
        return group_rows(events, is_member, ticks, longest, of_events=of_events)


def gap_ticks(gap: Duration, order_by: tuple[str, ...], source: Source, role: str = "gap") -> int:
    """Return a duration in ticks of the clock, the first column of ``order_by``."""
    if not order_by:
        raise CepError(
            f"{role}={gap!r} needs a clock: name a column of times or numbers, as in order_by='ts'"
        )
    name = order_by[0]
    clock_type = source.schema[name]
    if clock_type.kind not in CLOCKS:
        raise CepError(
            f"{role}={gap!r} needs a clock, a column of times or numbers; column {name!r} is of type "
            f"{clock_type}{order_advice(source, name)}"
        )
    if clock_type.kind in (INTEGER, FLOAT) and isinstance(gap, str | timedelta):
        raise unit_missing(role, gap, name)
    return duration_ticks(gap, clock_type.unit if clock_type.kind in (TIME, DURATION) else None)


def clock_ticks(source: Source, name: str) -> np.ndarray:
    """Return the ticks of a clock for all rows, int64 or float64."""
    values = source.column(name).values
    return np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)


@names_keywords
def sessions(
    frame: Frame,
    *,
    gap: Duration,
    partition_by: str | Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    rows: str = "one",
    measures: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Frame:
    """Divide the rows of each partition into sessions, at pauses longer than ``gap``.

    A row begins a new session if it comes more than ``gap`` after the row before it in its partition. A pause
    of exactly ``gap`` does not.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    gap : str, timedelta or int
        Longest pause within a session, such as ``"30 min"``, or ticks of the clock.
    partition_by : str or list of str, optional
        Columns, such as the user.
    order_by : str or list of str, optional
        Columns; the first is the clock. Default in memory: a DatetimeIndex. Spark needs a total order.
    rows : str
        ``"one"``: one row per session. ``"all"``: the rows of the frame with the further column ``session``.
    measures : mapping of str to str, optional
        Further columns for ``rows="one"``, such as ``{"pages": "count()", "last_page": "last(page)"}``.
    params : mapping of str to value, optional
        Values of ``:name`` in the measures.

    Returns
    -------
    DataFrame or table
        The same kind as the frame; lazy on Spark. One row per session, ordered by the last row of the
        sessions: the columns of ``partition_by``, ``session`` (its number in the partition, from 1),
        ``start`` and ``end`` (the times of the first and last row), ``length`` (its number of rows), and the
        measures.

    Raises
    ------
    CepError
        Without a clock, for unknown columns, missing times, and a gap that does not fit the clock.

    Notes
    -----
    Time O(rows), and the time to sort the rows and the partitions.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> clicks = pd.DataFrame({"user": list("aabaa"), "ts": pd.to_datetime(
    ...     ["2024-01-31 09:00", "2024-01-31 09:30", "2024-01-31 09:40", "2024-01-31 10:01",
    ...      "2024-01-31 10:02"])})
    >>> cep.sessions(clicks, gap="30 min", partition_by="user", order_by="ts")
      user  session               start                 end  length
    0    a        1 2024-01-31 09:00:00 2024-01-31 09:30:00       2
    1    b        1 2024-01-31 09:40:00 2024-01-31 09:40:00       1
    2    a        2 2024-01-31 10:01:00 2024-01-31 10:02:00       2
    >>> cep.sessions(clicks, gap="30 min", partition_by="user", order_by="ts", rows="all")["session"].tolist()
    [1, 1, 1, 2, 2]
    """
    query = kept_query(
        regex_query, ".", partition_by=partition_by, order_by=order_by, params=params, **as_measures(measures)
    )
    return answer(frame, PausedSessions(query, gap), rows)
