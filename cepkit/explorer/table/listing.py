"""The listed matches of a result: their values by column, their orders, and those that pass filters."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.explorer.table.filters import (
    NS_OF_UNIT,
    choose_numbers,
    choose_texts,
    choose_times,
    read_filter,
)
from cepkit.explorer.table.texts import DURATION, NUMBER, TEXT, TIME, full_text, kind_of
from cepkit.frames.pandas import as_pandas
from cepkit.progress import checkpoint
from cepkit.results.matches import Matches

LISTED = 1_000_000  # matches that are listed; filters and histograms leave out the others
_BLOCK = 65_536  # matches that are built at once
_FIRST = 2000  # matches that are filtered before all are listed
_KEPT = 8  # filters whose result is kept


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """The values of a column of all listed matches."""

    kind: str
    # Numbers as they are; times and durations as int64 ticks; texts as numbers of ``texts``.
    values: np.ndarray
    local: np.ndarray  # as ``values``; times by the clocks of their zone
    is_missing: np.ndarray | None  # which values are missing; None if none is
    ns_per_tick: int = 1  # length of a tick of times and durations
    texts: tuple[str, ...] = ()  # the different texts in their order; numbers from 0 refer to them

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, series: pd.Series) -> ListedColumn:
        """Return a column of values for comparisons."""
        kind = kind_of(series.dtype)
        is_missing = series.isna().to_numpy(bool)
        missing = is_missing if is_missing.any() else None
        if kind == NUMBER:
            is_whole = pd.api.types.is_integer_dtype(series.dtype) and missing is None
            values = series.to_numpy() if is_whole else series.to_numpy(np.float64, na_value=np.nan)
            return cls(kind, values, values, missing)
        if kind in (TIME, DURATION):
            if not isinstance(series.dtype, np.dtype | pd.DatetimeTZDtype):  # Arrow
                series = series.astype(series.dt.as_unit("ns").array.dtype)
            own = series.array
            local = own.tz_localize(None) if kind == TIME and own.tz is not None else own
            per_tick = NS_OF_UNIT[own.unit]
            return cls(kind, own.asi8, local.asi8, missing, per_tick)
        codes, texts = _codes_of(series)
        return cls(TEXT, codes, codes, missing, 1, texts)

    def order(self, is_rising: bool) -> np.ndarray:
        """Return the places of the values, sorted; equal values stay in order, missing ones come last."""
        values = self.values
        if not is_rising:
            values = ~values if values.dtype.kind in "iu" else -values
        order = np.argsort(values, kind="stable")
        if self.is_missing is None:
            return order
        return np.concatenate([order[~self.is_missing[order]], np.flatnonzero(self.is_missing)])

    def choose(self, text: str) -> np.ndarray:
        """Return which values pass the filter ``text``; raise `CepError` if it is no filter."""
        filter = read_filter(text, self.kind)
        if self.kind == NUMBER:
            return choose_numbers(filter, self.values, self.is_missing)
        if self.kind == TEXT:
            return choose_texts(filter, self.texts)[self.values]  # a missing value has the number -1
        return choose_times(filter, self.local, self.ns_per_tick, self.is_missing)


def _codes_of(series: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the texts of a column as numbers of its different texts; -1 for missing values."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return series.cat.codes.to_numpy(np.int64), tuple(map(full_text, series.cat.categories))
    try:
        codes, values = pd.factorize(series, sort=True)
    except TypeError:  # values without an order, or lists
        texts = pd.Series([full_text(one) for one in series], dtype=object).where(series.notna().to_numpy())
        codes, values = pd.factorize(texts, sort=True)
    return np.asarray(codes, np.int64), tuple(map(full_text, values))


@dataclass(frozen=True, slots=True)
class KeptMatches:
    """The matches that pass some filters."""

    numbers: np.ndarray | None  # their numbers, rising; None if nothing is filtered
    mask: np.ndarray | None  # which of the listed matches they are
    # What is wrong with a filter, by the name of its column. Such a filter does not count.
    mistakes: dict[str, str]


class Listing:
    """The first ``LISTED`` of ``n`` counted matches; they are built when they are needed."""

    def __init__(self, matches: Matches, n: int):
        self._matches, self.n_all, self.n = matches, n, min(n, LISTED)
        self._parts: list[pd.DataFrame] = []
        self._blocks: Any = None
        self._n_built = 0
        self._columns: dict[str, ListedColumn] = {}
        self._orders: dict[str, np.ndarray] = {}
        self._kept: dict[tuple, KeptMatches] = {}
        self._lock = threading.RLock()  # a cancelled job may still run while another one begins

    @property
    def is_whole(self) -> bool:
        """Whether all matches are listed."""
        return self.n == self.n_all

    @property
    def is_built(self) -> bool:
        """Whether the listed matches are built."""
        return self._n_built == self.n

    @cached_property
    def empty(self) -> pd.DataFrame:
        """The columns of the table, without rows."""
        return as_pandas(self._matches.take([]))

    @property
    def frame(self) -> pd.DataFrame:
        """The listed matches, one row each."""
        with self._lock:
            self._build()
            if len(self._parts) > 1:
                self._parts = [pd.concat(self._parts, ignore_index=True)]
            return self._parts[0] if self._parts else self.empty

    def _build(self) -> None:
        """Build the matches that are missing; a job that is cancelled leaves what it has built."""
        while not self.is_built:
            checkpoint()
            if self._blocks is None:
                self._parts, self._n_built = [], 0
                self._blocks = self._matches._found.blocks(_BLOCK)
            try:
                block = next(self._blocks)
                part = as_pandas(self._matches._frame(block))
            except BaseException:
                self._blocks = None  # an iterator that was interrupted has no more blocks
                raise
            part = part.iloc[: self.n - self._n_built]
            self._parts.append(part)
            self._n_built += len(part)
        self._blocks = None

    def column(self, name: str) -> ListedColumn:
        """Return a column of the listed matches."""
        with self._lock:
            if name not in self._columns:
                frame = self.frame
                place = [str(one) for one in frame.columns].index(name)
                checkpoint()
                self._columns[name] = ListedColumn.of(frame.iloc[:, place])
            return self._columns[name]

    def order(self, column: str, direction: str) -> np.ndarray:
        """Return the numbers of the listed matches, sorted by a column, ``up`` or ``down``."""
        with self._lock:
            key = f"{column} {direction}"
            if key not in self._orders:
                self._orders[key] = self.column(column).order(direction != "down")
            return self._orders[key]

    def mistakes_in(self, filters: Mapping[str, str]) -> dict[str, str]:
        """Return what is wrong with filters, by column."""
        found = {}
        for name, dtype in self.empty.dtypes.items():
            try:
                if text := filters.get(str(name), "").strip():
                    read_filter(text, kind_of(dtype))
            except CepError as error:
                found[str(name)] = str(error)
        return found

    def valid(self, filters: Mapping[str, str]) -> dict[str, str]:
        """Return the filters that count: of columns of the table, and without mistakes."""
        names, mistakes = set(map(str, self.empty.columns)), self.mistakes_in(filters)
        return {
            name: text
            for name, text in filters.items()
            if name in names and text.strip() and name not in mistakes
        }

    def keep_first(self, filters: Mapping[str, str], n: int) -> list[int]:
        """Return the numbers of the first matches that pass all filters, among the first few thousand."""
        valid = self.valid(filters)
        if not valid:
            return list(range(min(n, self.n)))
        frame = as_pandas(self._matches.take(list(range(min(_FIRST, self.n)))))
        names, mask = list(map(str, frame.columns)), np.ones(len(frame), bool)
        for name, text in valid.items():
            mask &= ListedColumn.of(frame.iloc[:, names.index(name)]).choose(text)
        return np.flatnonzero(mask)[:n].tolist()

    def keep(self, filters: Mapping[str, str]) -> KeptMatches:
        """Return the matches that pass all filters; filters of other columns do not count."""
        if not filters:
            return KeptMatches(None, None, {})
        mistakes = self.mistakes_in(filters)
        valid = self.valid(filters)
        if not valid:
            return KeptMatches(None, None, mistakes)
        with self._lock:
            key = tuple(sorted(valid.items()))
            if key not in self._kept:
                mask = np.ones(self.n, bool)
                for name, text in valid.items():
                    checkpoint()
                    mask &= self.column(name).choose(text)
                self._kept[key] = KeptMatches(np.flatnonzero(mask), mask, {})
                while len(self._kept) > _KEPT:
                    self._kept.pop(next(iter(self._kept)))
            found = self._kept[key]
        return KeptMatches(found.numbers, found.mask, mistakes)
