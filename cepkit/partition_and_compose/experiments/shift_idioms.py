"""Count what the usual ``shift`` and ``cumsum`` idioms of pandas get wrong, compared with cepkit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.errors import require_columns
from cepkit.partition_and_compose.experiments.benchmarks import BENCHMARKS

_M_SHAPE = BENCHMARKS["finance1"]
_RISE = {"rise": "price > prev(price)"}
_TURN = _RISE | {"drop": "price < prev(price)"}


@dataclass(frozen=True, slots=True)
class IdiomMistake:
    """A question, an idiom that almost answers it, and the query that answers it.

    ``found`` (by the idiom) and ``right`` (by cepkit) return the labels of the rows where a match ends in a
    frame of trades.
    """

    question: str
    idiom: str
    why: str
    found: Callable[[pd.DataFrame], pd.Index]
    right: Callable[[pd.DataFrame], pd.Index]
    spoil: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame


def shift_idiom_mistakes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return for five questions about trades what an idiom finds in excess and what it misses.

    Parameters
    ----------
    frame : pandas.DataFrame
        Trades of several symbols with ``ts``, ``symbol``, ``price`` and ``seq``, in the order of ``seq``. The
        index must be unique.

    Returns
    -------
    pandas.DataFrame
        One row per question: ``question``, ``idiom``, ``found`` (by the idiom), ``right`` (by cepkit),
        ``extra``, ``missed``, ``why``.

    Raises
    ------
    ColumnNotFoundError
        When one of the four columns is missing.

    Examples
    --------
    >>> from cepkit.datasets import load_sample
    >>> shift_idiom_mistakes(load_sample("trades"))[["found", "right", "extra", "missed"]].iloc[0].tolist()
    [4658, 12, 4652, 6]
    """
    require_columns("shift_idiom_mistakes", ("ts", "symbol", "price", "seq"), frame.columns)
    rows = []
    for mistake in MISTAKES:
        spoilt = mistake.spoil(frame)
        found, right = mistake.found(spoilt), mistake.right(spoilt)
        rows.append(
            {
                "question": mistake.question,
                "idiom": mistake.idiom,
                "found": len(found),
                "right": len(right),
                "extra": len(found.difference(right)),
                "missed": len(right.difference(found)),
                "why": mistake.why,
            }
        )
    return pd.DataFrame(rows)


# --- the right answers


def last_rows(frame: pd.DataFrame, pattern: str, define: Mapping[str, str]) -> pd.Index:
    """Return the labels of the rows where the matches of a pattern per symbol end."""
    found = frame.cep.match(pattern, define=define, partition_by="symbol", order_by=["ts", "seq"])
    lineage = found.lineage()
    return pd.Index(lineage.groupby("match")["index"].last())


def _legs_with_m_shape(frame: pd.DataFrame) -> pd.Index:
    ends = last_rows(frame, _M_SHAPE.pattern, _M_SHAPE.define)
    return pd.Index(_legs(frame).loc[ends, "leg"].unique())


# --- the idioms


def _jumps_over_symbols(frame: pd.DataFrame) -> pd.Index:
    return frame.index[frame["price"] > 1.01 * frame["price"].shift()]


def _every_window(frame: pd.DataFrame) -> pd.Index:
    up = frame["price"] > frame.groupby("symbol", observed=True)["price"].shift()
    by_symbol = up.groupby(frame["symbol"], observed=True)
    return frame.index[up & by_symbol.shift(1, fill_value=False) & by_symbol.shift(2, fill_value=False)]


def _turns(frame: pd.DataFrame) -> pd.Index:
    before = frame.groupby("symbol", observed=True)["price"].shift()
    up, not_lower = frame["price"] > before, frame["price"] >= before
    up_before = up.groupby(frame["symbol"], observed=True).shift(fill_value=False)
    return frame.index[up_before & ~not_lower]


def _legs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with ``way`` (1 up, -1 down; a flat row continues its leg) and ``leg``, its label."""
    way = np.sign(frame.groupby("symbol", observed=True)["price"].diff()).replace(0, np.nan)
    way = way.groupby(frame["symbol"], observed=True).ffill()
    turned = way != way.groupby(frame["symbol"], observed=True).shift()
    leg = turned.groupby(frame["symbol"], observed=True).cumsum()
    number = frame["symbol"].astype(str) + "/" + leg.astype(str)
    return frame.assign(way=way, leg=number)


def _four_legs(frame: pd.DataFrame) -> pd.Index:
    legs = _legs(frame).dropna(subset=["way"])
    legs = legs.groupby("leg", sort=False, observed=True).agg(
        symbol=("symbol", "first"), way=("way", "first"), end=("price", "last")
    )
    end = legs.groupby("symbol", observed=True)["end"]
    return legs.index[(legs["way"] == -1) & (legs["end"] < end.shift(4)) & (end.shift(2) >= end.shift(4))]


# --- changes of the data


def _with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with every 50th price missing."""
    missing = np.arange(len(frame)) % 50 == 49
    return frame.assign(price=frame["price"].astype(float).mask(missing))


def _ties_in_any_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame shuffled, then sorted by time alone."""
    return frame.sample(frac=1, random_state=0).sort_values("ts", kind="stable")


MISTAKES = (
    IdiomMistake(
        "a price 1 % above the symbol's last one",
        "price > 1.01 * price.shift()",
        "shift takes the row above, which belongs to another symbol",
        _jumps_over_symbols,
        lambda frame: last_rows(frame, "jump", {"jump": "price > 1.01 * prev(price)"}),
    ),
    IdiomMistake(
        "three rises in a row, each trade used once",
        "up & up.shift(1) & up.shift(2), per symbol",
        "a run of four rises holds two windows of three, which overlap",
        _every_window,
        lambda frame: last_rows(frame, "rise{3}", _RISE),
    ),
    IdiomMistake(
        "a rise, then a drop; every 50th price missing",
        "up.shift() & ~(price >= price.shift()), per symbol",
        "no comparison with a missing price is true, so its negation is",
        _turns,
        lambda frame: last_rows(frame, "rise drop", _TURN),
        _with_gaps,
    ),
    IdiomMistake(
        "a rise, then a drop; rows sorted by time",
        "sort_values('ts'), then the same",
        "trades with the same time are in any order",
        _turns,
        lambda frame: last_rows(frame, "rise drop", _TURN),
        _ties_in_any_order,
    ),
    IdiomMistake(
        "an M: up, down, up, down below its start",
        "cumsum of changes of direction, then shift(4) over legs",
        "an M may begin within a leg; its low must not pass the start; two M's would share a leg",
        _four_legs,
        _legs_with_m_shape,
    ),
)
