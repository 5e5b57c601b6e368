"""Pages of the table of matches: only the rows of one page are computed, for results of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cepkit.explorer.table.listing import LISTED, Head, KeptMatches, Listing, head_of
from cepkit.explorer.table.texts import columns_and_rows
from cepkit.frames.pandas import as_pandas
from cepkit.language.expressions.durations import count_text
from cepkit.progress import checkpoint

PAGE = 15  # matches
FEW = 20_000  # matches that are listed in a few hundredths of a second
CANONICAL, REVERSE = "canonical", "reverse"
NO_FILTERS: Mapping[str, str] = MappingProxyType({})


class Pages:
    """The pages of a result, ``size`` matches each; counting ``matches`` should be cheap.

    Filters are texts by the name of their column, see `cepkit.explorer.table.texts`.

    """

    def __init__(self, matches: Any, size: int = PAGE):
        self.matches, self.size = matches, size
        self.n = matches.count()
        self.listing = Listing(matches, self.n)
        self._heads: dict[str, Head] | None = None

    @property
    def n_pages(self) -> int:
        """Number of pages without filters, at least 1."""
        return self._n_pages(self.n)

    def _n_pages(self, n: int) -> int:
        return max(1, -(-n // self.size))

    @property
    def is_sortable(self) -> bool:
        """Whether the matches are few enough to be sorted by a column."""
        return self.listing.is_whole

    @property
    def limit_note(self) -> str:
        """A note on the available orders and filters."""
        if self.is_sortable:
            return ""
        return f"filters and bars are of the first {LISTED:,} matches; sorting by columns needs a filter"

    def numbers(
        self, page: int, order: str = CANONICAL, filters: Mapping[str, str] = NO_FILTERS
    ) -> list[int]:
        """Return the numbers of the matches on a page."""
        kept = self.listing.keep(filters)
        n = self.n if kept.numbers is None else len(kept.numbers)
        page = min(max(page, 1), self._n_pages(n))
        low, high = (page - 1) * self.size, min(page * self.size, n)
        if (ordered := self._ordered(order, kept)) is not None:
            return ordered[low:high].tolist()
        return list(range(n - 1 - low, n - 1 - high, -1)) if order == REVERSE else list(range(low, high))

    def _ordered(self, order: str, kept: KeptMatches) -> np.ndarray | None:
        """Return the numbers of the matches in their order; None for all matches in their own order."""
        numbers = kept.numbers
        if order in (CANONICAL, REVERSE):
            return numbers if numbers is None or order == CANONICAL else numbers[::-1]
        if numbers is None and not self.is_sortable:
            return None
        column, _, direction = order.rpartition(" ")
        ordered = self.listing.order(column, direction)
        return ordered if kept.mask is None else ordered[kept.mask[ordered]]

    def order_or_canonical(self, order: str) -> str:
        """Return ``order`` if these matches have its column, otherwise the canonical order."""
        column, _, _ = order.rpartition(" ")
        return order if not column or column in self.frame([]).columns else CANONICAL

    def page_of(
        self, number: int, order: str = CANONICAL, filters: Mapping[str, str] = NO_FILTERS
    ) -> int | None:
        """Return the page that shows a match; None if it does not pass the filters."""
        ordered = self._ordered(order, self.listing.keep(filters))
        if ordered is None:
            place = self.n - 1 - number if order == REVERSE else number
        else:
            places = np.flatnonzero(ordered == number)
            if not len(places):
                return None
            place = int(places[0])
        return place // self.size + 1

    def frame(self, numbers: Sequence[int]) -> pd.DataFrame:
        """Return the measures of these matches, one row each."""
        place = {number: i for i, number in enumerate(sorted(numbers))}
        measures = as_pandas(self.matches.take(sorted(numbers)))
        return measures.iloc[[place[number] for number in numbers]]

    def traits(
        self, page: int, order: str = CANONICAL, filters: Mapping[str, str] = NO_FILTERS
    ) -> dict[str, Any]:
        """Return the traits of the table widget for a page."""
        numbers = self.numbers(page, order, filters)
        return self.describe(self.frame(numbers), numbers, page, order, filters)

    def is_quick(self, order: str, filters: Mapping[str, str]) -> bool:
        """Return whether a page takes little time: a few matches are listed, or none."""
        is_listed = bool(self.listing.valid(filters)) or order not in (CANONICAL, REVERSE)
        return not is_listed or self.listing.is_built or self.listing.n <= FEW

    def quick_traits(self, filters: Mapping[str, str] = NO_FILTERS) -> dict[str, Any]:
        """Return the traits of the first page in canonical order, without a list of the matches.

        With filters, the page has only matches that pass, perhaps fewer than there are.

        """
        numbers = self.listing.keep_first(filters, self.size)
        mistakes, is_filtered = self.listing.mistakes_in(filters), bool(self.listing.valid(filters))
        traits = self.describe(self.frame(numbers), numbers, 1, CANONICAL)
        more = {"n_pages": "…"} if is_filtered else {}
        note = "the first matches; other matches and the chosen order follow"
        return {**traits, **more, "busy": True, "limit_note": note, "mistakes": mistakes}

    def describe(
        self,
        frame: pd.DataFrame,
        numbers: Sequence[int],
        page: int,
        order: str,
        filters: Mapping[str, str] = NO_FILTERS,
    ) -> dict[str, Any]:
        """Return the traits for a page with these rows."""
        kept = self.listing.keep(filters)
        n = self.n if kept.numbers is None else len(kept.numbers)
        can_sort = n > 1 and (self.is_sortable or kept.numbers is not None)
        heads = {} if self._heads is None else self.heads(filters)
        return {
            **columns_and_rows(frame),
            "numbers": [str(number) for number in numbers],
            "page": min(max(page, 1), self._n_pages(n)),
            "n_pages": str(self._n_pages(n)),
            "total": f"{self.n:,}",
            "order": order if can_sort or n < 2 or order in (CANONICAL, REVERSE) else CANONICAL,
            "sortable": [str(name) for name in frame.columns] if can_sort else [],
            "limit_note": self.limit_note,
            "busy": False,
            "mistakes": kept.mistakes,
            "filtered": self._filtered(kept),
            "can_filter": True,
            **heads,
        }

    def _filtered(self, kept: KeptMatches) -> str:
        """Return how many matches pass the filters, in words; empty without filters."""
        if kept.numbers is None:
            return ""
        if self.listing.is_whole:
            return f"{len(kept.numbers):,} of {self.n:,} {'match' if self.n == 1 else 'matches'}"
        return f"{len(kept.numbers):,} of the first {self.listing.n:,} matches, {count_text(self.n)} in all"

    def heads(self, filters: Mapping[str, str] = NO_FILTERS) -> dict[str, Any]:
        """Return the traits of the histograms; this lists the matches."""
        if self._heads is None:
            heads = {}
            for name in map(str, self.listing.empty.columns):
                checkpoint()
                heads[name] = head_of(self.listing.column(name))
            self._heads = heads
        mask = self.listing.keep(filters).mask
        return {"heads": {name: head.trait(mask) for name, head in self._heads.items()}, "heads_busy": False}
