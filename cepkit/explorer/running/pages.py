"""Pages of the table of matches: only the rows of one page are computed, for results of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from cepkit.insight.value_text import cell
from cepkit.results.matches import as_pandas

PAGE = 15  # matches
SORTED = 100_000  # matches that can be sorted by a column; more have only match order and its reverse
CANONICAL, REVERSE = "canonical", "reverse"


class Pages:
    """The pages of a result, ``size`` matches each; counting ``matches`` should be cheap."""

    def __init__(self, matches: Any, size: int = PAGE):
        self.matches, self.size = matches, size
        self.n = matches.count()
        self._sorted: dict[str, np.ndarray] = {}
        self._whole: pd.DataFrame | None = None

    @property
    def n_pages(self) -> int:
        """Number of pages, at least 1."""
        return max(1, -(-self.n // self.size))

    @property
    def is_sortable(self) -> bool:
        """Whether the matches are few enough to be sorted by a column."""
        return self.n <= SORTED

    @property
    def limit_note(self) -> str:
        """A note on the available orders."""
        return "" if self.is_sortable else f"sorted by columns up to {SORTED:,} matches"

    def numbers(self, page: int, order: str = CANONICAL) -> list[int]:
        """Return the numbers of the matches on a page.

        Parameters
        ----------
        page : int
            From 1; a number outside the range means the first or the last page.
        order : str
            ``canonical``, ``reverse``, or a column and ``up`` or ``down``; ties stay in canonical order.
        """
        page = min(max(page, 1), self.n_pages)
        low, high = (page - 1) * self.size, min(page * self.size, self.n)
        if order == REVERSE:
            return list(range(self.n - 1 - low, self.n - 1 - high, -1))
        if order != CANONICAL and self.is_sortable:
            column, _, direction = order.rpartition(" ")
            return self._order(column, direction)[low:high].tolist()
        return list(range(low, high))

    def order_or_canonical(self, order: str) -> str:
        """Return ``order`` if these matches have its column, otherwise the canonical order."""
        column, _, _ = order.rpartition(" ")
        return order if not column or column in self.frame([]).columns else CANONICAL

    def page_of(self, number: int, order: str = CANONICAL) -> int:
        """Return the page that shows a match."""
        if order == REVERSE:
            place = self.n - 1 - number
        elif order != CANONICAL and self.is_sortable:
            column, _, direction = order.rpartition(" ")
            place = int(np.flatnonzero(self._order(column, direction) == number)[0])
        else:
            place = number
        return place // self.size + 1

    def _order(self, column: str, direction: str) -> np.ndarray:
        key = f"{column} {direction}"
        if key not in self._sorted:
            if self._whole is None:
                self._whole = as_pandas(self.matches.to_frame())
            values = self._whole[column].reset_index(drop=True)
            try:
                ranked = values.sort_values(kind="stable", ascending=direction != "down", na_position="last")
            except TypeError:  # values without an order, such as lists
                ranked = values.astype(str).sort_values(kind="stable", ascending=direction != "down")
            self._sorted[key] = ranked.index.to_numpy()
        return self._sorted[key]

    def frame(self, numbers: Sequence[int]) -> pd.DataFrame:
        """Return the measures of these matches, one row each."""
        place = {number: i for i, number in enumerate(sorted(numbers))}
        made = as_pandas(self.matches.take(sorted(numbers)))
        return made.iloc[[place[number] for number in numbers]]

    def traits(self, page: int, order: str = CANONICAL) -> dict[str, Any]:
        """Return the traits of the table widget for a page."""
        numbers = self.numbers(page, order)
        return self.describe(self.frame(numbers), numbers, page, order)

    def describe(self, frame: pd.DataFrame, numbers: Sequence[int], page: int, order: str) -> dict[str, Any]:
        """Return the traits for a page with these rows."""
        return {
            **columns_and_rows(frame),
            "numbers": [str(number) for number in numbers],
            "page": min(max(page, 1), self.n_pages),
            "n_pages": str(self.n_pages),
            "total": f"{self.n:,}",
            "order": order,
            "sortable": [str(name) for name in frame.columns] if self.is_sortable and self.n > 1 else [],
            "limit_note": self.limit_note,
            "busy": False,
        }


def is_number(dtype: Any) -> bool:
    """Return whether values of a dtype are numbers, which a table aligns to the right."""
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def columns_and_rows(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as traits of the table widget."""
    sides = [(str(name), "right" if is_number(of) else "left") for name, of in frame.dtypes.items()]
    return {"columns": [{"name": name, "align": side} for name, side in sides], "rows": cells(frame)}


def cells(frame: pd.DataFrame) -> list[list[str]]:
    """Return the values of a frame as texts; missing values are empty.

    Examples
    --------
    >>> cells(pd.DataFrame({"x": [1, 2], "y": [0.25, None], "z": [None, "a"]}))
    [['1', '0.25', ''], ['2', '', 'a']]
    """
    columns = [[cell(value) for value in frame[name]] for name in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)]
