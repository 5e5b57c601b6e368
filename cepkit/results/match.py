"""Matches one by one, each with its number, its measures and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.errors import column_not_found
from cepkit.events import Frame, Source
from cepkit.frames.pandas import as_pandas
from cepkit.results.found import FoundMatches, Part


@dataclass(frozen=True)
class Match:
    """One match: its number, its measures by name, and its rows in stream order.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("abb"), "price": [5, 7, 9]})
    >>> match = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind",
    ...                   measures={"top": "y.price"})[0]
    >>> match
    Match(0: top=7; 2 rows)
    >>> match["top"]
    7
    """

    number: int
    measures: dict[str, Any]
    rows: Frame  # a frame of the kind that was searched, with the column ``variable``

    def __getitem__(self, name: str) -> Any:
        """Return the measure of this name."""
        if name not in self.measures:
            raise column_not_found(f"match {self.number}", name, self.measures)
        return self.measures[name]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.measures.items())
        return f"Match({self.number}: {shown}; {len(self.rows)} rows)"


def matches_of_part(
    found: FoundMatches[Any], part: Part, first_number: int, source: Source, native: Callable[[Frame], Frame]
) -> Iterator[Match]:
    """Yield the matches of a part, numbered from ``first_number``, with rows of the kind of ``native``."""
    table = as_pandas(source.result(found.measure(part, source)))
    variables, items = found.variables(part), found.items(part)
    row_of_item = found.events.rows(items.event_of_item.astype(np.int64, copy=False))
    for i in range(len(part)):
        own = slice(items.first_item_of_match[i], items.first_item_of_match[i + 1])
        rows = source.rows(row_of_item[own], {"variable": variables[own]})
        # A row taken as one Series would have a single type.
        measures = {name: plain_value(table[name].iloc[i]) for name in table.columns}
        yield Match(first_number + i, measures, native(rows))


def plain_value(value: Any) -> Any:
    """Return a numpy number as a Python value; other values stay unchanged."""
    return value.item() if isinstance(value, np.integer | np.floating | np.bool_) else value
