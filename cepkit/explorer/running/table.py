"""The table of matches: pages of any result, listed matches with orders and filters, and histograms."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.explorer.running.texts import (
    DAY_NS,
    DURATION,
    NS_OF_UNIT,
    NUMBER,
    TEXT,
    TIME,
    choose_numbers,
    choose_texts,
    choose_times,
    columns_and_rows,
    duration_text,
    full_text,
    is_code,
    kind_of,
    number_text,
    quote_text,
    read_filter,
)
from cepkit.frames.pandas import as_pandas
from cepkit.language.expressions.durations import count_text, counted
from cepkit.progress import checkpoint
from cepkit.results.matches import Matches
from cepkit.values import dataclass

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
    is_code: bool = False  # whether numbers name things, so that their digits are not grouped

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, series: pd.Series, keys: Collection[str] = ()) -> ListedColumn:
        """Return a column of values for comparisons."""
        kind = kind_of(series.dtype)
        is_missing = series.isna().to_numpy(bool)
        missing = is_missing if is_missing.any() else None
        if kind == NUMBER:
            is_whole = pd.api.types.is_integer_dtype(series.dtype) and missing is None
            values = series.to_numpy() if is_whole else series.to_numpy(np.float64, na_value=np.nan)
            return cls(kind, values, values, missing, is_code=is_code(series.name, keys))
        if kind in (TIME, DURATION):
            if not isinstance(series.dtype, np.dtype | pd.DatetimeTZDtype):  # Arrow
                series = series.astype(series.dt.as_unit("ns").array.dtype)
            array = series.array
            local = array.tz_localize(None) if kind == TIME and array.tz is not None else array
            per_tick = NS_OF_UNIT[array.unit]
            return cls(kind, array.asi8, local.asi8, missing, per_tick)
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
        texts = pd.Series([full_text(cell) for cell in series], dtype=object).where(series.notna().to_numpy())
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
        self.keys = frozenset(getattr(matches.query, "partition_by", ()))
        self._parts: list[pd.DataFrame] = []
        self._blocks: Any = None
        self._n_built = 0
        self._columns: dict[str, ListedColumn] = {}
        self._orders: dict[str, np.ndarray] = {}
        self._kept: dict[tuple, KeptMatches] = {}
        self._lock = threading.RLock()  # a cancelled job may still run while another one begins

    @property
    def is_whole(self) -> bool:
        return self.n == self.n_all

    @property
    def is_built(self) -> bool:
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
                self._blocks = self._matches._found.whole.blocks(_BLOCK)
            try:
                block = next(self._blocks)
                part = as_pandas(self._matches._found.frame_of(block))
            except BaseException:
                self._blocks = None  # an iterator that was interrupted has no more blocks
                raise
            part = part.iloc[: self.n - self._n_built]
            self._parts.append(part)
            self._n_built += len(part)
        self._blocks = None

    def column(self, name: str) -> ListedColumn:
        """Return a column of the table, read once."""
        with self._lock:
            if name not in self._columns:
                frame = self.frame
                place = [str(label) for label in frame.columns].index(name)
                checkpoint()
                self._columns[name] = ListedColumn.of(frame.iloc[:, place], self.keys)
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
        mistakes = {}
        for name, dtype in self.empty.dtypes.items() if filters else ():
            try:
                if text := filters.get(str(name), "").strip():
                    read_filter(text, kind_of(dtype))
            except CepError as error:
                mistakes[str(name)] = str(error)
        return mistakes

    def valid(self, filters: Mapping[str, str]) -> dict[str, str]:
        """Return the filters that count: of columns of the table, and without mistakes."""
        names, mistakes = set(map(str, self.empty.columns) if filters else ()), self.mistakes_in(filters)
        good = {name for name, text in filters.items() if text.strip()} & names - mistakes.keys()
        return {name: text for name, text in filters.items() if name in good}

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
            kept = self._kept[key]
        return KeptMatches(kept.numbers, kept.mask, mistakes)


# Histograms in the heads of the table: bars of numbers, times and durations, most frequent texts.
#
# Every bar has the filter that keeps its matches, so a click on a bar needs no further question.

BARS = 14  # about this many bars
TEXTS = 3  # texts that have a bar of their own, if more than one is left
_TAIL = 0.01  # share of values at each end that may be far away
_S = 10**9
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def head_of(column: ListedColumn) -> Head:
    return _head_of_texts(column) if column.kind == TEXT else _head_of_values(column)


class Head:
    """A histogram: the bar of every listed match, and the bars without their heights."""

    def __init__(self, kind: str, bar_of_match: np.ndarray, bars: list[dict], between: str, says: str):
        self.kind, self.bars, self.between, self.says = kind, bars, between, says
        self._bar_of_match = bar_of_match
        self._n = np.bincount(bar_of_match, minlength=len(bars))

    def trait(self, mask: np.ndarray | None) -> dict[str, Any]:
        """Return the histogram with its heights; ``mask`` says which matches pass the filters."""
        kept = self._n if mask is None else np.bincount(self._bar_of_match[mask], minlength=len(self.bars))
        bars = [
            {**bar, "n": n, "kept": n_kept}
            for bar, n, n_kept in zip(self.bars, self._n.tolist(), kept.tolist(), strict=True)
        ]
        return {"kind": self.kind, "between": self.between, "says": self.says, "bars": bars}


def _head_of_values(column: ListedColumn) -> Head:
    """Return the bars over a column of numbers, times or durations."""
    values = column.local
    is_there = None if column.is_missing is None else ~column.is_missing
    present = values if is_there is None else values[is_there]
    finite = present[np.isfinite(present)] if present.dtype.kind == "f" else present
    bars, places, between = _bars_of(column, present, finite)
    if is_there is not None:
        of_match = np.full(len(values), len(bars), np.int64)
        of_match[is_there] = places
        places, bars = of_match, [*bars, _missing_bar()]
    least, most = (_label(column, end) for end in (finite.min(), finite.max())) if len(finite) else ("", "")
    says = f"{least} to {most}" if least != most else least
    return Head(column.kind, places, bars, between, says)


def _missing_bar() -> dict[str, str]:
    return {"label": "no value", "low": "empty", "high": "empty"}


def _bars_of(column: ListedColumn, own: np.ndarray, finite: np.ndarray) -> tuple[list[dict], np.ndarray, str]:
    """Return the bars of values, the bar of each value in `own`, and the word between the ends of a range."""
    if not len(finite):
        bars = [{"label": "not finite", "low": "", "high": ""}] if len(own) else []
        return bars, np.zeros(len(own), np.int64), ".."
    least, most = finite.min(), finite.max()
    is_whole = column.kind == NUMBER and own.dtype.kind in "iu"
    if (is_whole and int(most) - int(least) < BARS + 2) or (least == most and column.kind == NUMBER):
        numbers = range(int(least), int(most) + 1) if is_whole else [float(least)]
        bars = [
            {"label": _label(column, value), "low": _typed(value), "high": _typed(value)} for value in numbers
        ]
        places = (own - own.dtype.type(least)).astype(np.int64) if is_whole else np.zeros(len(own), np.int64)
        return bars, places, ".."
    edges, texts = _edges_of(column, finite, least, most)
    is_of_day = _has_one_date(column, least, most)
    labels = [_label(column, edge, is_of_day) for edge in edges]
    first, last = _label(column, least, is_of_day), _label(column, most, is_of_day)
    if len(edges) < 2:
        return [{"label": f"{first} to {last}", "low": "", "high": ""}], np.zeros(len(own), np.int64), "..<"
    inner = edges[1:-1]  # the first and the last bar are open
    places = np.searchsorted(inner, own, side="right").astype(np.int64)
    lows, highs = ["", *texts[1:-1]], [*texts[1:-1], ""]
    n = len(lows)
    froms = [first, *labels[1:-1]] if n > 1 else [first]
    bars = [
        {
            "label": f"{froms[k]} to {last if k == n - 1 else 'below ' + labels[k + 1]}",
            "low": lows[k], "high": highs[k],
        }
        for k in range(n)
    ]  # fmt: skip
    return bars, places, "..<"


def _typed(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{float(value):.12g}"


def _edges_of(
    column: ListedColumn, finite: np.ndarray, least: Any, most: Any
) -> tuple[np.ndarray, list[str]]:
    """Return round edges of bars that cover most of the values, and the edges as a user types them."""
    low, high = np.quantile(finite, [_TAIL, 1 - _TAIL], method="nearest").tolist()
    low, high = (low, high) if (most - least) > 3 * (high - low) > 0 else (least.item(), most.item())
    if column.kind == NUMBER:
        step = _nice((high - low) / BARS)
        if finite.dtype.kind in "iu":
            step = max(1, round(step))
        begin = math.floor(low / step)
        texts = [f"{(begin + k) * step:.12g}" for k in range(BARS * 3) if (begin + k - 1) * step < high]
        edges = np.array([float(text) for text in texts])
        return edges, texts
    per_tick = column.ns_per_tick
    low_ns, high_ns = low * per_tick, high * per_tick
    step = _time_step((high_ns - low_ns) / BARS)
    begin, end = low_ns // step, high_ns // step + 1
    in_ns = [k * step for k in range(begin, end + 1)]
    is_of_day = _has_one_date(column, least, most)
    texts = [time_typed(ns, is_of_day) if column.kind == TIME else duration_text(ns) for ns in in_ns]
    return np.array([-(-ns // per_tick) for ns in in_ns], np.int64), texts


def _nice(raw: float) -> float:
    """Return 1, 2, 5 or 10 times a power of ten, the least that is not below ``raw``."""
    base = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    return next((factor * base for factor in (1, 2, 5, 10) if factor * base >= raw * 0.9999), base)


def _time_step(raw_ns: float) -> int:
    """Return a round number of nanoseconds that is at least ``raw_ns``."""
    if raw_ns < _S:
        return max(1, round(_nice(raw_ns)))
    steps = [seconds * _S for seconds in _STEPS_S]
    return next((step for step in steps if step >= raw_ns), DAY_NS * max(1, round(_nice(raw_ns / DAY_NS))))


def time_typed(ns: int, is_of_day: bool = False) -> str:
    """Return a time since 1970 as a user types it in a filter."""
    days, rest = divmod(ns, DAY_NS)
    date = str(np.datetime64(days, "D"))
    clock = duration_text(rest)
    clock = clock[:5] if rest % (60 * _S) == 0 else clock
    if is_of_day:
        return clock
    return date if not rest else f"{date} {clock}"


def _has_one_date(column: ListedColumn, least: Any, most: Any) -> bool:
    """Return whether the least and the greatest time are on the same day."""
    per_tick = column.ns_per_tick
    return column.kind == TIME and int(least) * per_tick // DAY_NS == int(most) * per_tick // DAY_NS


def _label(column: ListedColumn, value: Any, is_of_day: bool = False) -> str:
    """Return a value of a column as a text."""
    if column.kind == NUMBER:
        number = value.item() if isinstance(value, np.generic) else value
        return number_text(number, is_grouped=not column.is_code)
    ns = int(value) * column.ns_per_tick
    return time_typed(ns, is_of_day) if column.kind == TIME else duration_text(ns)


def _head_of_texts(column: ListedColumn) -> Head:
    """Return the bars over a column of texts: the most frequent ones."""
    n_texts = len(column.texts)
    count = np.bincount(column.values + 1, minlength=n_texts + 1)
    counts = count[1:]
    n_used = int(np.count_nonzero(counts))
    most = np.argsort(-counts, kind="stable")[: TEXTS if n_used > TEXTS + 1 else n_used]
    is_each = n_used > TEXTS + 1 and int(counts.max(initial=0)) == 1  # no text is more frequent than another
    if is_each:
        most = most[:0]
    bars = [
        {"label": column.texts[code], "low": quote_text(column.texts[code]), "high": ""}
        for code in most.tolist()
    ]
    bar_of_code = np.full(n_texts + 1, len(bars), np.int64)
    bar_of_code[most + 1] = np.arange(len(most))
    n_others = n_used - len(most)
    if n_others:
        label = f"{n_others:,} more" if len(most) else counted(n_others, "different value")
        bars.append({"label": label, "low": "", "high": ""})
    if count[0]:
        bar_of_code[0] = len(bars)
        bars.append({**_missing_bar(), "high": ""})
    return Head(TEXT, bar_of_code[column.values + 1], bars, ",", counted(n_used, "value"))


# Pages of the table of matches: only the rows of one page are computed, for results of any size.

PAGE = 15  # matches
FEW = 20_000  # matches that are listed in a few hundredths of a second
CANONICAL, REVERSE = "canonical", "reverse"
NO_FILTERS: Mapping[str, str] = MappingProxyType({})
_COMPARED = 8  # matches that say which columns differ
_PART_NOTE = "filters and bars are of the first {:,} matches; sorting by columns needs a filter"


class Pages:
    """The pages of a result, ``size`` matches each; counting ``matches`` should be cheap."""

    # ``known`` has the places of the columns of earlier results: no column jumps while a slider moves.
    def __init__(self, matches: Any, size: int = PAGE, known: dict[tuple, list[int]] | None = None):
        self.matches, self.size, self._known = matches, size, {} if known is None else known
        self.n = matches.count()
        self.listing = Listing(matches, self.n)
        self._heads: dict[str, Head] | None = None

    def n_pages(self, n: int | None = None) -> int:
        """Return the number of pages of ``n`` matches, by default of all, at least 1."""
        return max(1, -(-(self.n if n is None else n) // self.size))

    @cached_property
    def places(self) -> list[int]:
        """The places of the columns: those that differ come first, unless the user chose the measures."""
        names = tuple(self.listing.empty.columns)
        if names in self._known:
            return self._known[names]
        some = min(self.n, _COMPARED) if getattr(self.matches.query, "measures", ()) is None else 0
        frame = as_pandas(self.matches.take([k * (self.n - 1) // max(1, some - 1) for k in range(some)]))
        n_values = [len(set(map(full_text, frame.iloc[:, k]))) for k in range(frame.shape[1])]
        places = sorted(range(len(n_values)), key=lambda k: n_values[k] == 1)  # equal ones stay in order
        return self._known.setdefault(names, places) if some > 1 else places

    def numbers(
        self, page: int, order: str = CANONICAL, filters: Mapping[str, str] = NO_FILTERS
    ) -> list[int]:
        """Return the numbers of the matches on a page."""
        kept = self.listing.keep(filters)
        n = self.n if kept.numbers is None else len(kept.numbers)
        page = min(max(page, 1), self.n_pages(n))
        low, high = (page - 1) * self.size, min(page * self.size, n)
        if (ordered := self._ordered(order, kept)) is not None:
            return ordered[low:high].tolist()
        return list(range(n - 1 - low, n - 1 - high, -1)) if order == REVERSE else list(range(low, high))

    def _ordered(self, order: str, kept: KeptMatches) -> np.ndarray | None:
        """Return the numbers of the matches in their order; None for all matches in their own order."""
        numbers = kept.numbers
        if order in (CANONICAL, REVERSE):
            return numbers if numbers is None or order == CANONICAL else numbers[::-1]
        if numbers is None and not self.listing.is_whole:
            return None
        column, _, direction = order.rpartition(" ")
        ordered = self.listing.order(column, direction)
        return ordered if kept.mask is None else ordered[kept.mask[ordered]]

    def order_or_canonical(self, order: str) -> str:
        """Return ``order`` if these matches have its column, otherwise the canonical order."""
        column, _, _ = order.rpartition(" ")
        return order if not column or column in self.listing.empty.columns else CANONICAL

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
        return measures.iloc[[place[number] for number in numbers], self.places]

    def traits(
        self, page: int, order: str = CANONICAL, filters: Mapping[str, str] = NO_FILTERS
    ) -> dict[str, Any]:
        numbers = self.numbers(page, order, filters)
        return self.describe(self.frame(numbers), numbers, page, order, filters)

    def is_quick(self, order: str, filters: Mapping[str, str]) -> bool:
        """Return whether a page takes little time: a few matches are listed, or none."""
        is_listed = bool(self.listing.valid(filters)) or order not in (CANONICAL, REVERSE)
        return not is_listed or self.listing.is_built or self.listing.n <= FEW

    def quick_traits(self, filters: Mapping[str, str] = NO_FILTERS) -> dict[str, Any]:
        """Return the first page in canonical order, without a list of the matches."""
        numbers = self.listing.keep_first(filters, self.size)
        mistakes, is_filtered = self.listing.mistakes_in(filters), bool(self.listing.valid(filters))
        traits = self.describe(self.frame(numbers), numbers, 1, CANONICAL)
        more = {"n_pages": "…"} if is_filtered else {}
        note = "the first matches; other matches and the chosen order follow"
        return {**traits, **more, "busy": True, "limit_note": note, "mistakes": mistakes}

    def describe(
        self, frame: pd.DataFrame, numbers: Sequence[int], page: int, order: str,
        filters: Mapping[str, str] = NO_FILTERS,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the traits for a page with these rows."""
        kept = self.listing.keep(filters)
        n = self.n if kept.numbers is None else len(kept.numbers)
        can_sort = n > 1 and (self.listing.is_whole or kept.numbers is not None)
        heads = {} if self._heads is None else self.heads(filters)
        return {
            **columns_and_rows(frame, self.listing.keys), "numbers": [str(number) for number in numbers],
            "page": min(max(page, 1), self.n_pages(n)), "n_pages": str(self.n_pages(n)),
            "total": f"{self.n:,}",
            "order": order if can_sort or n < 2 or order in (CANONICAL, REVERSE) else CANONICAL,
            "sortable": [str(name) for name in frame.columns] if can_sort else [],
            "limit_note": "" if self.listing.is_whole else _PART_NOTE.format(LISTED), "busy": False,
            "mistakes": kept.mistakes, "filtered": self._filtered(kept), "can_filter": True, **heads,
        }  # fmt: skip

    def _filtered(self, kept: KeptMatches) -> str:
        """Return how many matches pass the filters, in words; empty without filters."""
        if kept.numbers is None:
            return ""
        if self.listing.is_whole:
            return f"{len(kept.numbers):,} of {counted(self.n, 'match')}"
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
