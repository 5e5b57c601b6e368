"""The picture of a result: its first matches, and the totals that the title says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.events import Source
from cepkit.plots.timeline.found import plot_matches
from cepkit.plots.timeline.selection import Totals
from cepkit.results.found import FoundMatches, Part
from cepkit.results.in_memory.counting import at_least

if TYPE_CHECKING:
    import plotly.graph_objects as go


def draw_matches(
    found: FoundMatches[Any], source: Source, *, value: str | None, partitions: int, max_events: int
) -> go.Figure:
    """Draw the first matches over the events of their partitions; see `Matches.plot`."""
    part = found.for_picture()

    def marks(numbers: np.ndarray) -> pd.DataFrame:
        chosen = part.take(numbers)
        items = found.items(chosen)
        return pd.DataFrame(
            {
                "match": numbers[items.match_of_item],
                "variable": found.variables(chosen),
                "position": items.event_of_item,
            }
        )

    return plot_matches(
        found.program.query, source, found.events, found.program.columns,
        found.events.partition_of_event[part.last], marks, partial(_totals, found, part),
        value=value, partitions=partitions, max_events=max_events,
    )  # fmt: skip


def _totals(found: FoundMatches[Any], part: Part, n_partitions: int) -> Totals:
    """Return the totals for a picture of ``part`` without building more matches."""
    events = found.events
    n, is_exact = at_least(found, len(part))
    n_partitions_matched = n_events_matched = None
    if is_exact:
        is_whole = n == len(part)
        ends = part.last if is_whole else np.asarray(found.ends()[0], np.int64)
        n_partitions_matched = len(np.unique(events.partition_of_event[ends]))
        if is_whole:
            n_events_matched = len(np.unique(found.items(part).event_of_item))
    return Totals(events.n_events, n_partitions, n, is_exact, n_partitions_matched, n_events_matched)
