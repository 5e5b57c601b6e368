"""The matched rows as a frame, as lineage, as a table for a file, and as tags of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError
from cepkit.events import Frame, Source
from cepkit.frames.arrow import check_free
from cepkit.limits import check_memory
from cepkit.results.arguments import PER_CELL
from cepkit.results.found import FoundMatches, Part


def lineage_frame(found: FoundMatches[Any], part: Part, first_number: int, source: Source) -> pd.DataFrame:
    """Return ``match``, ``variable``, ``position`` and ``index`` of every row of a part.

    The matches of the part are numbered from ``first_number``; ``source`` is the searched frame.

    """
    items = found.items(part)
    check_memory(PER_CELL * 4 * len(items.event_of_item), f"the rows of {len(part):,} matches")
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


def matched_rows(found: FoundMatches[Any], part: Part, source: Source) -> Frame:
    """Return the matched rows of the frame, after ``match`` and ``variable``."""
    items = found.items(part)
    cells = len(items.event_of_item) * (2 + len(source.schema))
    check_memory(PER_CELL * cells, f"the rows of {len(part):,} matches")
    numbers = {"match": items.match_of_item, "variable": found.variables(part)}
    events = items.event_of_item.astype(np.int64, copy=False)
    return source.rows(found.events.rows(events), numbers)


def table_of_part(
    found: FoundMatches[Any], part: Part, first_number: int, source: Source, rows: str
) -> pa.Table:
    """Return a part as an Arrow table with the columns of `Matches.to_frame`, without an index."""
    data: dict[str, Any] = {}
    if rows == "one":
        for name, values in found.measure(part, source).items():
            data[name] = source.arrow(values.column, values.rows) if isinstance(values, Picked) else values
        return pa.table(data)
    items = found.items(part)
    data["match"] = pa.array(items.match_of_item + first_number, pa.int64())
    data["variable"] = pa.array(found.variables(part), pa.string())
    row_of_item = found.events.rows(items.event_of_item.astype(np.int64, copy=False))
    check_free(data, source.schema)
    data |= {name: source.arrow(name, row_of_item) for name in source.schema if name not in source.duplicates}
    return pa.table(data)


def tag_columns(found: FoundMatches[Any], part: Part) -> dict[str, Any]:
    """Return the columns ``match`` and ``variable`` for every row of the frame; null for unmatched rows."""
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
