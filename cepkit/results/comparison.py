"""`compare`: the matches of several queries over the same events, in one picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.errors import CepError
from cepkit.results.match_recognize.memory import RowsInMemory
from cepkit.results.matches import Matches
from cepkit.results.row_pattern_matches import RowPatternMatches

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

MOST_EVENTS = 120  # more do not fit beside each other


def compare(found: Mapping[str, Matches | RowPatternMatches], *, title: str | None = None) -> go.Figure:
    """Draw the matches of several queries over the same events, with a panel for each query.

    A line is a match, and a mark is one of its events. Use it on a small part of your data, to see what a
    strategy, a window or an operator changes.
    """
    from cepkit.plots.timeline.match_rows import MAX_MATCHES, match_rows

    _check(found)
    shown = {name: _first(matches, MAX_MATCHES) for name, matches in found.items()}
    first = min((int(rows["position"].to_numpy().min()) for rows in shown.values() if len(rows)), default=0)
    n_events = _size(next(iter(found.values())))
    stop = min(first + MOST_EVENTS, n_events)
    if n_events <= MOST_EVENTS:
        first, stop = 0, n_events
    return match_rows(
        _labels(next(iter(found.values())), first, stop),
        {name: _between(rows, first, stop) for name, rows in shown.items()},
        totals={name: matches.count() for name, matches in found.items()},
        title=title,
    )


def _check(found: Any) -> None:
    if not isinstance(found, Mapping) or not found:
        raise CepError("compare: give a dict of results by name, as in {'next': matches, 'any': others}")
    for name, matches in found.items():
        in_memory = isinstance(matches, RowPatternMatches) and isinstance(matches._found, RowsInMemory)
        if not isinstance(matches, Matches) and not in_memory:
            raise CepError(
                f"compare: {name!r} is a {type(matches).__name__}, not the result of match() on a frame "
                "in memory"
            )
    sizes = {name: _size(matches) for name, matches in found.items()}
    if len(set(sizes.values())) > 1:
        raise CepError(f"compare: the results are of different frames; their numbers of events are {sizes}")


def _size(matches: Any) -> int:
    """Return the number of rows that were searched."""
    return matches._found.events.n_events if isinstance(matches, Matches) else matches._found.source.n_rows


def _first(matches: Any, n: int) -> pd.DataFrame:
    """Return the lineage of the first matches."""
    if isinstance(matches, Matches):
        return matches[:n].lineage()
    rows = matches.lineage()
    return rows[rows["match"] < n]


def _between(rows: pd.DataFrame, first: int, stop: int) -> pd.DataFrame:
    """Return the matches that end before ``stop``, with positions from ``first``."""
    last = rows.groupby("match")["position"].transform("max").to_numpy()
    inside = rows[last < stop]
    return inside.assign(position=inside["position"] - first)


def _labels(matches: Any, first: int, stop: int) -> list[str]:
    """Return a text for each event: its label in the frame, with its type unless the label is a text."""
    rows = np.arange(first, stop)
    if not isinstance(matches, Matches):
        return list(map(str, matches._found.source.index_labels(rows)))
    rows = matches._found.events.rows(rows)
    labels = list(matches._source.index_labels(rows))
    kind = getattr(matches.query, "event_type", None)
    if kind is None or any(isinstance(label, str) for label in labels):
        return [str(label) for label in labels]
    types = matches._source.arrow(kind, rows).to_pylist()
    return [f"{own} {label}" for own, label in zip(types, labels, strict=True)]
