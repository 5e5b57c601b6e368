"""One match: its number, its measures and its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.errors import column_not_found
from cepkit.events import Frame


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


def plain_value(value: Any) -> Any:
    """Return a numpy number as a Python value; other values stay unchanged."""
    return value.item() if isinstance(value, np.integer | np.floating | np.bool_) else value
