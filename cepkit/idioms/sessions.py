"""Sessions: rows of a partition without a long pause between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from cepkit.errors import CepError
from cepkit.events import DURATION, FLOAT, INTEGER, TIME, Events, Frame, Source
from cepkit.idioms.asking import Groups, answer, as_measures, group_rows, kept_query
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.query_parts import Duration
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.arguments import names_keywords
from cepkit.planning.clocks import CLOCKS, order_advice


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
