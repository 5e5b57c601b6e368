"""Frames of matched rows: the lineage, and the columns that tag the searched frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.events import Source
from cepkit.results.found import FoundMatches, Part


def lineage_frame(found: FoundMatches[Any], part: Part, first_number: int, source: Source) -> pd.DataFrame:
    """Return ``match``, ``variable``, ``position`` and ``index`` of every row of a part.

    The matches of the part are numbered from ``first_number``; ``source`` is the searched frame.
    """
    items = found.items(part)
    match = items.match_of_item
    positions = items.event_of_item.astype(np.int64, copy=False)
    if first_number:
        match = (match if first_number < 2**62 else match.astype(object)) + first_number
    return pd.DataFrame(
        {
            "match": match,
            "variable": found.variables(part),
            "position": positions,
            "index": source.index_labels(found.events.rows(positions)),
        }
    )


def tag_columns(found: FoundMatches[Any], part: Part) -> dict[str, Any]:
    """Return the columns ``match`` and ``variable`` for every row of the frame; null for unmatched rows.

    Raises
    ------
    CepError
        When a row belongs to more than one match.
    """
    items, events = found.items(part), found.events
    rows = events.rows(items.event_of_item.astype(np.int64, copy=False))
    match, variable = np.full(events.n_events, -1, np.int64), np.full(events.n_events, None, dtype=object)
    match[rows] = items.match_of_item
    shared = len(rows) - int(np.count_nonzero(match >= 0))
    if shared:
        raise CepError(
            f"{shared:,} matched rows belong to several matches, and a tagged row has one; "
            "use after_match='past_last', or to_frame(rows='all')"
        )
    variable[rows] = found.variables(part)
    return {"match": pd.arrays.IntegerArray(match, match < 0), "variable": pd.array(variable, dtype="string")}
