"""Histograms in the heads of the table: bars of numbers, times and durations, most frequent texts.

Every bar has the filter that keeps its matches, so a click on a bar needs no further question.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cepkit.explorer.table.filters import DAY_NS, quote_text
from cepkit.explorer.table.listing import ListedColumn
from cepkit.explorer.table.texts import NUMBER, TEXT, TIME, duration_text, number_text
from cepkit.widgets.base import counted

BARS = 14  # about this many bars
TEXTS = 3  # texts that have a bar of their own, if more than one is left
_TAIL = 0.01  # share of values at each end that may be far away
_S = 10**9
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def head_of(column: ListedColumn) -> Head:
    """Return the histogram of a column."""
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
            {**bar, "n": n, "kept": own}
            for bar, n, own in zip(self.bars, self._n.tolist(), kept.tolist(), strict=True)
        ]
        return {"kind": self.kind, "between": self.between, "says": self.says, "bars": bars}


def _head_of_values(column: ListedColumn) -> Head:
    values = column.local
    is_there = None if column.is_missing is None else ~column.is_missing
    own = values if is_there is None else values[is_there]
    finite = own[np.isfinite(own)] if own.dtype.kind == "f" else own
    bars, places, between = _bars_of(column, own, finite)
    if is_there is not None:
        of_match = np.full(len(values), len(bars), np.int64)
        of_match[is_there] = places
        places, bars = of_match, [*bars, _missing_bar()]
    least, most = (_label(column, one) for one in (finite.min(), finite.max())) if len(finite) else ("", "")
    says = f"{least} to {most}" if least != most else least
    return Head(column.kind, places, bars, between, says)


def _missing_bar() -> dict[str, str]:
    return {"label": "no value", "low": "empty", "high": "empty"}


def _bars_of(column: ListedColumn, own: np.ndarray, finite: np.ndarray) -> tuple[list[dict], np.ndarray, str]:
    """Return the bars of values, the bar of every value, and the word between the ends of a range."""
    if not len(finite):
        return (
            ([{"label": "not finite", "low": "", "high": ""}] if len(own) else []),
            np.zeros(len(own), np.int64),
            "..",
        )
    least, most = finite.min(), finite.max()
    is_whole = column.kind == NUMBER and own.dtype.kind in "iu"
    if (is_whole and int(most) - int(least) < BARS + 2) or (least == most and column.kind == NUMBER):
        known = range(int(least), int(most) + 1) if is_whole else [float(least)]
        bars = [{"label": number_text(one), "low": _typed(one), "high": _typed(one)} for one in known]
        places = (own - own.dtype.type(least)).astype(np.int64) if is_whole else np.zeros(len(own), np.int64)
        return bars, places, ".."
    edges, texts = _edges_of(column, finite, least, most)
    is_of_day = _has_one_date(column, least, most)
    labels = [_label(column, edge, is_of_day) for edge in edges]
    first, last = _label(column, least, is_of_day), _label(column, most, is_of_day)
    if len(edges) < 2:
        return [{"label": f"{first} to {last}", "low": "", "high": ""}], np.zeros(len(own), np.int64), "..<"
    inner = edges[1:-1]
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
    per_tick = column.ns_per_tick
    return column.kind == TIME and int(least) * per_tick // DAY_NS == int(most) * per_tick // DAY_NS


def _label(column: ListedColumn, value: Any, is_of_day: bool = False) -> str:
    if column.kind == NUMBER:
        return number_text(value.item() if isinstance(value, np.generic) else value)
    ns = int(value) * column.ns_per_tick
    return time_typed(ns, is_of_day) if column.kind == TIME else duration_text(ns)


def _head_of_texts(column: ListedColumn) -> Head:
    n_texts = len(column.texts)
    count = np.bincount(column.values + 1, minlength=n_texts + 1)
    own = count[1:]
    n_used = int(np.count_nonzero(own))
    most = np.argsort(-own, kind="stable")[: TEXTS if n_used > TEXTS + 1 else n_used]
    is_each = n_used > TEXTS + 1 and int(own.max(initial=0)) == 1  # no text is more frequent than another one
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
        bars.append({"label": _others(n_others, not len(most)), "low": "", "high": ""})
    if count[0]:
        bar_of_code[0] = len(bars)
        bars.append({**_missing_bar(), "high": ""})
    return Head(TEXT, bar_of_code[column.values + 1], bars, ",", counted(n_used, "value"))


def _others(n: int, is_all: bool) -> str:
    return f"{counted(n, 'different value')}" if is_all else f"{n:,} more"
