"""Seeded card transactions and stock ticks at a constant rate."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check, check_count, start_ticks, symbol_names
from cepkit.errors import CepError, nearest

WORST, AVERAGE, FRAUD = "worst", "average", "fraud"
WORKLOADS = (WORST, AVERAGE, FRAUD)
SMALL_BELOW, LARGE_ABOVE = 100, 10_000  # dollars: the limits of the pattern
LOCATIONS = ("airport", "fuel station", "grocery", "jeweller", "online", "restaurant")

LOWEST_CENTS, HIGHEST_CENTS = 100, 100_000
MOST_VOLUME = 10_000
EQUAL_PRICE, EQUAL_VOLUME = 100.0, 1


def card_transactions(
    n_events: int,
    *,
    workload: str = WORST,
    n_cards: int = 100,
    rate_hz: float = 1_000.0,
    again_after_s: float = 0.5,
    seed: int = 0,
    start: str = "2019-02-01 00:00:00",
) -> pd.DataFrame:
    """Return card transactions for the pattern "small purchase, small purchase, large purchase".

    Parameters
    ----------
    n_events : int
        Number of transactions, at least 0.
    workload : str
        * ``"worst"``: all purchases are small, and every card of ``n_cards`` buys again and again. Nearly
          every purchase waits for a large one that never comes.
        * ``"average"``: all purchases are small. Half of the cards buy twice, the others once.
        * ``"fraud"``: as ``"average"``, and each card that buys twice makes a large purchase afterwards.
    n_cards : int
        Number of cards of the worst case, at least 1. The other workloads use a card once.
    rate_hz : float
        Transactions per second, above 0. Their times have equal distances.
    again_after_s : float
        Mean time to the next purchase of a card, except in the worst case; above 0.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    start : str
        Time of the first transaction.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. Columns ``ts`` (datetime64[us], no zone), ``card`` (int64), ``amount`` (float64,
        dollars, whole cents) and ``location`` (categorical).

    Raises
    ------
    CepError
        If an argument is out of range, or the workload is unknown.

    Notes
    -----
    O(n_events log n_events) time.

    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    sections 5.1 and 5.3.2. Differs: cards are numbers. The thesis has no workload with matches.

    Examples
    --------
    >>> card_transactions(3, n_cards=2, seed=2)["card"].tolist()
    [0, 1, 0]
    """
    check_count("card_transactions: n_events", n_events, 0)
    check_count("card_transactions: n_cards", n_cards, 1)
    check_count("card_transactions: seed", seed, 0)
    check("card_transactions: again_after_s", again_after_s, 1e-6)
    if workload not in WORKLOADS:
        names = ", ".join(map(repr, WORKLOADS))
        hint = nearest(str(workload), WORKLOADS)
        raise CepError(f"card_transactions: no workload {workload!r}.{hint} Workloads: {names}")
    ts = constant_times("card_transactions", n_events, rate_hz, start)
    rng_card, rng_amount, rng_place = np.random.default_rng(seed).spawn(3)
    if workload == WORST:
        card, is_large = rng_card.integers(0, n_cards, n_events), np.zeros(n_events, bool)
    else:
        card, is_large = _single_use(rng_card, n_events, again_after_s * rate_hz, workload == FRAUD)
    cents = np.where(
        is_large,
        rng_amount.integers(LARGE_ABOVE * 100 + 1, LARGE_ABOVE * 300, n_events),
        rng_amount.integers(100, SMALL_BELOW * 100, n_events),
    )
    places = rng_place.integers(0, len(LOCATIONS), n_events)
    return pd.DataFrame(
        {
            "ts": ts,
            "card": card,
            "amount": cents / 100,
            "location": pd.Categorical.from_codes(places, list(LOCATIONS)),
        }
    )


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


def constant_times(function: str, n_events: int, rate_hz: float, start: str) -> np.ndarray:
    """Return times of equal distance as datetime64[us]; raise CepError if the rate or the start is wrong."""
    check(f"{function}: rate_hz", rate_hz, 1e-3, 1e6)
    first = start_ticks(function, start)
    return (first + np.rint(np.arange(n_events) * (1e6 / rate_hz)).astype(np.int64)).view("datetime64[us]")


def _single_use(
    rng: np.random.Generator, n_events: int, again_after: float, with_large: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the card of each event, and whether its purchase is large. Gaps are in events."""
    n_cards = n_events + 1
    buys_twice = np.zeros(n_cards, bool)
    buys_twice[rng.permutation(n_cards)[: n_cards // 2]] = True
    per_card = np.where(buys_twice, 3 if with_large else 2, 1)
    first = np.cumsum(rng.exponential(per_card.mean(), n_cards))
    gaps = rng.exponential(again_after, (2, n_cards))
    twice = np.flatnonzero(buys_twice)
    wish = [first, (first + gaps[0])[twice]]
    cards = [np.arange(n_cards), twice]
    if with_large:
        wish.append((first + gaps[0] + gaps[1])[twice])
        cards.append(twice)
    is_large = np.repeat([False, False, True][: len(wish)], [len(times) for times in wish])
    order = np.argsort(np.concatenate(wish), kind="stable")[:n_events]
    return np.concatenate(cards)[order].astype(np.int64), is_large[order]
