"""The figure of a result: matches over the events of their first partitions, with totals in the title."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.errors import column_not_found, whole_number
from cepkit.events import BOOLEAN, NUMBERS, Events, Source
from cepkit.plots.timeline.selection import Totals
from cepkit.plots.timeline.timeline import timeline

if TYPE_CHECKING:
    import plotly.graph_objects as go


def plot_matches(
    query: Any, source: Source, events: Events, columns: Sequence[str], partition_of_match: np.ndarray,
    marks: Callable[[np.ndarray], pd.DataFrame], totals: Callable[[int], Totals], *, value: str | None,
    partitions: int, max_events: int,
) -> go.Figure:  # fmt: skip
    """Draw the first matches over the events of their partitions."""
    partitions = whole_number("partitions", partitions, 1)
    max_events = whole_number("max_events", max_events)
    if value is not None and (not isinstance(value, str) or value not in source.schema):
        raise column_not_found("value", value, source.schema)
    if value is None:
        value = next((name for name in columns if _is_value(name, query, source)), None)
    shown = pd.unique(partition_of_match)[:partitions]
    if not len(shown):
        shown = pd.unique(events.partition_of_event[:1000])[:partitions]
    positions = np.flatnonzero(np.isin(events.partition_of_event, shown))
    rows = events.rows(positions)
    time = query.order_by[0] if query.order_by else None
    drawn = {name: source.arrow(name, rows).to_pandas() for name in dict.fromkeys([time, value]) if name}
    key = None
    if query.partition_by:
        key = ", ".join(query.partition_by)
        parts = [source.arrow(name, rows).to_pandas().astype(str) for name in query.partition_by]
        drawn[key] = parts[0] if len(parts) == 1 else parts[0].str.cat(parts[1:], sep=", ")
    tidy = marks(np.flatnonzero(np.isin(partition_of_match, shown)))
    tidy = tidy.assign(row=np.searchsorted(positions, tidy["position"].to_numpy(np.int64)))
    # A category without rows has a code, but it is no partition.
    n_partitions = int(np.count_nonzero(np.bincount(events.partition_of_event)))
    return timeline(
        pd.DataFrame(drawn) if drawn else pd.DataFrame(index=range(len(rows))),
        tidy, time=time, value=value, partition=key, title=str(query.pattern), max_events=max_events,
        totals=totals(n_partitions),
    )  # fmt: skip


def _is_value(name: str, query: Any, source: Source) -> bool:
    of = source.schema.get(name)
    return of is not None and of.kind in NUMBERS and name not in query.order_by and of.kind != BOOLEAN
