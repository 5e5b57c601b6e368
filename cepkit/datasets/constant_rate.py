"""Seeded events at an adjustable rate: types A, B, C, …, card transactions, and stock ticks."""

from __future__ import annotations

import string
from collections.abc import Mapping

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check, check_count, start_ticks, symbol_names
from cepkit.errors import CepError, nearest

# Seeded events of types A, B, C, …: with an adjustable rate of repeated types, or of independent types.

ATTRIBUTES = {"x": (0, 99), "key": (0, 9)}


def abc_stream(
    n_events: int, *, n_types: int = 3, stay: float = 0.0,
    attributes: Mapping[str, tuple[int, int]] | None = None, gap_s: float = 1.0, seed: int = 0,
    start: str = "2024-01-01 00:00:00",
) -> pd.DataFrame:  # fmt: skip
    """Return random events, one every ``gap_s`` seconds.

    Parameters
    ----------
    n_events : int
        Number of events, at least 0.
    n_types : int
        Number of types, from 1 to 26; they are named ``A``, ``B``, ….
    stay : float
        Probability, from 0 to 1, that an event copies the type of the event before. Otherwise all types are
        equally likely, including the same one. So the same type follows with p = stay + (1 - stay) / n_types,
        and a type occurs 1 / (1 - p) times in a row on average.
    attributes : mapping of str to (int, int), optional
        Smallest and largest value of each attribute, drawn as a uniform whole number; None means ``x``
        from 0 to 99 and ``key`` from 0 to 9.
    gap_s : float
        Seconds between two events, at least 1e-6.
    seed : int
        Seed, at least 0. The same arguments give the same frame; ``stay`` does not change the attributes.
    start : str
        Time of the first event.

    Returns
    -------
    pandas.DataFrame
        Columns ``ts`` (datetime64[us], no zone, all different), ``type`` (categorical, all ``n_types``
        categories), and the attributes (int64).

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    O(n_events x attributes).

    Source: Qiu et al., LinkedCEP, section 4.1: 100,000 events of types named by capital letters, with
    attributes and an adjustable number of types and range of values.
    Differs: ``stay`` is new. Chains of partial matches pay off if a type occurs several times in a row. With
    independent types (``stay`` 0) the mean is 1.5 times with three types, and less with more types.

    Examples
    --------
    >>> "".join(abc_stream(20, stay=0.8, seed=3)["type"])
    'BBBBBBBBBBBBBBBBBCBB'
    """
    attributes = ATTRIBUTES if attributes is None else attributes
    check_count("abc_stream: n_events", n_events, 0)
    check_count("abc_stream: n_types", n_types, 1, 26)
    check("abc_stream: stay", stay, 0, 1)
    check("abc_stream: gap_s", gap_s, 1e-6)
    check_count("abc_stream: seed", seed, 0)
    start_us = start_ticks("abc_stream", start)
    for name, (low, high) in attributes.items():
        if low > high or name in ("ts", "type"):
            raise CepError(
                f"abc_stream: attribute {name!r} from {low} to {high}. "
                "Its name must not be ts or type, and its smallest value must come first"
            )

    rng_type, rng_attributes = np.random.default_rng(seed).spawn(2)
    drawn = rng_type.integers(0, n_types, n_events)
    stays = rng_type.random(n_events) < stay
    stays[:1] = False
    latest_drawn = np.maximum.accumulate(np.where(stays, 0, np.arange(n_events)))
    gaps_us = np.rint(np.arange(n_events) * gap_s * 1e6).astype(np.int64)
    return pd.DataFrame(
        {
            "ts": (start_us + gaps_us).view("datetime64[us]"),
            "type": pd.Categorical.from_codes(drawn[latest_drawn], list(string.ascii_uppercase[:n_types])),
            **{
                name: rng_attributes.integers(low, high, n_events, endpoint=True)
                for name, (low, high) in attributes.items()
            },
        }
    )


# Seeded events of several independent types; independent of patterns.

MOST_X = 999  # largest value of x


def poisson_types(
    rates: Mapping[str, float], duration_s: float, seed: int = 0, *, n_keys: int = 1,
    start: str = "2024-01-01 00:00:00",
) -> pd.DataFrame:  # fmt: skip
    """Return events of several types, each from its own Poisson process.

    Parameters
    ----------
    rates : mapping of str to float
        Events per second of each type, at least 0.
    duration_s : float
        Length of the stream, at least 0.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    n_keys : int
        Number of keys, at least 1.
    start : str
        Time at which the stream begins.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. Columns ``ts`` (datetime64[us], no zone), ``type`` (categorical, the types of
        ``rates`` in their order), ``x`` (int64, uniform from 0 to 999) and ``key`` (int64, uniform below
        ``n_keys``).

    Raises
    ------
    CepError
        If an argument is out of range, or no type is given.

    Notes
    -----
    Time and memory O(n_events log n_events). ``(a.x + b.x) % 1000 < 1000 * s`` holds for a share s of all
    pairs, independently for each pair of a sequence, like a selectivity in cost models.

    Examples
    --------
    >>> poisson_types({"A": 1.0, "B": 0.2}, 4.0, seed=1)["type"].tolist()
    ['B', 'A', 'A', 'A', 'A']
    """
    if not rates:
        raise CepError("poisson_types: rates names no type. It must give at least one, as in {'A': 1.0}")
    for name, rate in rates.items():
        check(f"poisson_types: rate of {name!r}", rate, 0)
    check("poisson_types: duration_s", duration_s, 0)
    check_count("poisson_types: seed", seed, 0)
    check_count("poisson_types: n_keys", n_keys, 1)
    start_us = start_ticks("poisson_types", start)
    rng_time, rng_x, rng_key = np.random.default_rng(seed).spawn(3)
    counts = rng_time.poisson([rate * duration_s for rate in rates.values()])
    n_events = int(counts.sum())
    # For a fixed number of events, the times of a Poisson process are uniform.
    time_us = (rng_time.random(n_events) * duration_s * 1e6).astype(np.int64)
    order = np.argsort(time_us, kind="stable")
    codes = np.repeat(np.arange(len(rates)), counts)
    return pd.DataFrame(
        {
            "ts": (start_us + time_us[order]).view("datetime64[us]"),
            "type": pd.Categorical.from_codes(codes[order], list(rates)),
            "x": rng_x.integers(0, MOST_X, n_events, endpoint=True),
            "key": rng_key.integers(0, n_keys, n_events),
        }
    )


# Seeded card transactions and stock ticks at a constant rate.

WORST, AVERAGE, FRAUD = "worst", "average", "fraud"
WORKLOADS = (WORST, AVERAGE, FRAUD)
SMALL_BELOW, LARGE_ABOVE = 100, 10_000  # dollars: the limits of the pattern
LOCATIONS = ("airport", "fuel station", "grocery", "jeweller", "online", "restaurant")

LOWEST_CENTS, HIGHEST_CENTS = 100, 100_000
MOST_VOLUME = 10_000
EQUAL_PRICE, EQUAL_VOLUME = 100.0, 1


def card_transactions(
    n_events: int, *, workload: str = WORST, n_cards: int = 100, rate_hz: float = 1_000.0,
    again_after_s: float = 0.5, seed: int = 0, start: str = "2019-02-01 00:00:00",
) -> pd.DataFrame:  # fmt: skip
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
    n_events: int, *, n_symbols: int = 1, rate_hz: float = 1_000.0, equal_weights: bool = False,
    seed: int = 0, start: str = "2019-02-01 00:00:00",
) -> pd.DataFrame:  # fmt: skip
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
    wish = [first, (first + gaps[0])[twice]]  # when each card buys, and when some buy again
    cards = [np.arange(n_cards), twice]
    if with_large:
        wish.append((first + gaps[0] + gaps[1])[twice])
        cards.append(twice)
    is_large = np.repeat([False, False, True][: len(wish)], [len(times) for times in wish])
    order = np.argsort(np.concatenate(wish), kind="stable")[:n_events]
    return np.concatenate(cards)[order].astype(np.int64), is_large[order]
