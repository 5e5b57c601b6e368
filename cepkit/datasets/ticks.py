"""Seeded stock ticks at a constant rate, with equal or with random weights."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cepkit.datasets.cards import constant_times
from cepkit.datasets.trades import check_count, symbol_names

LOWEST_CENTS, HIGHEST_CENTS = 100, 100_000
MOST_VOLUME = 10_000
EQUAL_PRICE, EQUAL_VOLUME = 100.0, 1


def stock_ticks(
    n_events: int,
    *,
    n_symbols: int = 1,
    rate_hz: float = 1_000.0,
    equal_weights: bool = False,
    seed: int = 0,
    start: str = "2019-02-01 00:00:00",
) -> pd.DataFrame:
    """Return stock ticks whose times have equal distances.

    Parameters
    ----------
    n_events : int
        Number of ticks, at least 0.
    n_symbols : int
        Number of symbols, at least 1. Every symbol is equally likely.
    rate_hz : float
        Ticks per second, above 0.
    equal_weights : bool
        Whether all ticks have one price and one volume, as in the thesis. Errors of sums can then cancel.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    start : str
        Time of the first tick.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. Columns ``ts`` (datetime64[us], no zone), ``symbol`` (categorical), ``price``
        (float64, dollars, whole cents) and ``volume`` (int64, shares). Prices and volumes are uniform.

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    section 5.1. Differs: the thesis gives all ticks the same weight, which is ``equal_weights=True``.

    Examples
    --------
    >>> stock_ticks(3, n_symbols=2, seed=1)["symbol"].tolist()
    ['AAA', 'AAB', 'AAB']
    """
    check_count("stock_ticks: n_events", n_events, 0)
    check_count("stock_ticks: n_symbols", n_symbols, 1)
    check_count("stock_ticks: seed", seed, 0)
    ts = constant_times("stock_ticks", n_events, rate_hz, start)
    rng_symbol, rng_price, rng_volume = np.random.default_rng(seed).spawn(3)
    symbol = rng_symbol.integers(0, n_symbols, n_events)
    cents = rng_price.integers(LOWEST_CENTS, HIGHEST_CENTS, n_events)
    volume = rng_volume.integers(1, MOST_VOLUME, n_events, endpoint=True)
    if equal_weights:
        cents, volume = np.full(n_events, EQUAL_PRICE * 100), np.full(n_events, EQUAL_VOLUME)
    return pd.DataFrame(
        {
            "ts": ts,
            "symbol": pd.Categorical.from_codes(symbol, list(symbol_names(n_symbols))),
            "price": cents / 100,
            "volume": volume.astype(np.int64),
        }
    )
