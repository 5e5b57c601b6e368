"""Seeded stock trades that resemble a real trade tape; independent of patterns and engines."""

from __future__ import annotations

from itertools import islice, product
from string import ascii_uppercase

import numpy as np
import pandas as pd

from cepkit.errors import CepError

# Measured on one day of an electronic exchange (10 symbols, 224,473 trades).
FLAT = 0.775  # share of trades at the price of the symbol's trade before
REVERSAL = 0.62  # share of moves against the symbol's move before
FLAT_IN_ORDER = 0.93  # like FLAT, for trades of the same order as the trade before
CLUSTERING = 0.25  # correlation of "moves" between consecutive orders of a symbol
SHARE_IN_ORDER = 0.472  # share of trades in the same order, hence at the same time, as the trade before
ONE_TICK = 0.683  # share of moves by one cent
MORE_TICKS = (0.1573, 0.0784, 0.0367, 0.0191, 0.0097, 0.0055, 0.0030, 0.0025, 0.0046)  # by 2 .. 10 cents

# Trades of one order: P(more than k) = (1 + k / ORDER_SCALE) ** -ORDER_SHAPE, mean 1.89, 65 % single.
ORDER_SCALE, ORDER_SHAPE = 2.0, 2.58

# Distribution function of the gaps between orders. The unit is the mean gap between trades, 208.2 ms in the
# source, which has gaps of 1, 2, 98, 612 and 1,829 ms. The longest one is chosen so that the mean fits.
GAP_PROBABILITY = (SHARE_IN_ORDER, 0.50, 0.75, 0.95, 0.99, 1.0)
GAP_MEANS = (1 / 208.2, 2 / 208.2, 98 / 208.2, 612 / 208.2, 1829 / 208.2, 143.0)

# Distribution function of the sizes; a share SHARE_100 of the trades has exactly 100 shares.
SIZE_PROBABILITY = (0.275, 0.50, 0.75, 0.796, 0.95, 0.99, 1.0)
SIZE_SHARES = (101, 300, 800, 1000, 2000, 4500, 20_000)
SHARE_BELOW_100, SHARE_100, SHARE_ODD_ABOVE_100 = 0.04, 0.235, 0.165

# Price levels are log-normal (5, 50, 95 %: 3.8, 17.6, 81 USD) and never fall below one dollar.
MEDIAN_PRICE_CENTS, SIGMA_LOG_PRICE, LOWEST_PRICE_CENTS = 1760.0, 0.93, 100

# Keywords of `trades` for which finance1 selects the share in the paper (0.31 %) and finance0 can (1.71 %, if
# a large size is above 100). Found by trial: the paper does not describe how its prices move.
PAPER_TRADES = {"flat": 0.80, "one_tick": 0.92}


def trades(
    n_events: int, *, n_symbols: int = 390, seed: int = 0, repetitions: int = 1,
    start: str = "2012-01-03 09:30:00", rate_hz: float = 1378.0, zipf: float = 1.12, flat: float = FLAT,
    reversal: float = REVERSAL, one_tick: float = ONE_TICK,
) -> pd.DataFrame:  # fmt: skip
    """Return trades of many symbols in the order of a trade tape.

    Trades come in orders. An order has one time, one symbol, mostly one price, and consists of one or more
    trades. The gaps between orders are mostly short, and a few are very long. The price of a symbol is a
    random walk on whole cents that stays unchanged three times out of four.

    Parameters
    ----------
    n_events : int
        Number of trades in one block, at least 0; the frame has ``n_events * repetitions`` rows.
    n_symbols : int
        Number of symbols. Each occurs if the block has at least as many orders (about ``n_events / 1.9``).
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    repetitions : int
        Number of copies of the block, with shifted ``ts`` and ``seq``, as in the paper.
    start : str
        Start of the first block; the first trade has this time.
    rate_hz : float
        Trades per second, above 0 and at most 10,000. A block lasts ``n_events / rate_hz`` seconds.
    zipf : float
        Exponent of the shares of the symbols, at least 0: the k-th symbol has ``k ** -zipf`` of
        the share of the first.
    flat : float
        Share of trades at the price of the symbol's trade before, from 0.4 to 1. Smaller values give more
        matches to every pattern of rises and drops.
    reversal : float
        Share of moves against the symbol's move before, from 0 to 1; 0.5 is a walk without memory.
    one_tick : float
        Share of moves by one cent, from 0 to 1; the others are 2 to 10 cents. Larger values give fewer
        matches to patterns that end below their first price, such as finance1.

    Returns
    -------
    pandas.DataFrame
        Columns ``ts`` (datetime64[us], no zone; ties within an order), ``symbol`` (categorical, all
        ``n_symbols`` categories, ordered by share, the most frequent first), ``price`` (int64, cents, at
        least 100), ``size`` (int64, shares), ``seq`` (int64, 0, 1, 2, …: row order and stream order).

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    Time O(n log n) for a block, O(n) for the repetitions; memory about twice the frame of 34 bytes per row.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, table 4: 10,000
    trades of 390 symbols, repeated 1,000 times to 10 M events in 2 h 01 min.
    Differs: the paper's trades were never published. Shares of symbols, orders, gaps, sizes and moves are
    measured on a public trade tape of one day, with gaps scaled to the paper's rate. A millisecond then
    holds 1.4 trades, so times are in microseconds. finance1 (". rise+ drop+ rise+ drop* deep") finds about
    twice as many matches as in the paper's data (0.31 %), and as many with :data:`PAPER_TRADES`.

    Examples
    --------
    >>> frame = trades(10_000, repetitions=10)
    >>> len(frame), frame["symbol"].nunique()
    (100000, 390)
    >>> (frame["ts"].iloc[10_000] - frame["ts"].iloc[0]) * 1000  # as long as 10 M events last
    Timedelta('0 days 02:00:56.894000')
    >>> trades(3, n_symbols=2, seed=1)["seq"].tolist()
    [0, 1, 2]
    """
    check_count("trades: n_events", n_events, 0)
    check_count("trades: n_symbols", n_symbols, 1)
    check_count("trades: seed", seed, 0)
    check_count("trades: repetitions", repetitions, 1)
    check("trades: rate_hz", rate_hz, 1e-3, 10_000)
    check("trades: zipf", zipf, 0)
    check("trades: flat", flat, 0.4, 1)
    check("trades: reversal", reversal, 0, 1)
    check("trades: one_tick", one_tick, 0, 1)
    start_us = start_ticks("trades", start)

    # One generator per column, so that another `flat` does not change times, symbols and sizes.
    rng_order, rng_time, rng_symbol, rng_price, rng_size = np.random.default_rng(seed).spawn(5)
    trades_of_order = order_lengths(rng_order, n_events)
    gap_us = order_gaps(rng_time, len(trades_of_order), n_events, rate_hz)
    symbol_of_order = _symbols(rng_symbol, len(trades_of_order), n_symbols, zipf)
    order_of_trade = np.repeat(np.arange(len(trades_of_order)), trades_of_order)
    symbol_of_trade = symbol_of_order[order_of_trade]
    in_order = np.zeros(n_events, dtype=bool)
    in_order[1:] = order_of_trade[1:] == order_of_trade[:-1]
    price = prices(
        rng_price, symbol_of_trade, in_order, n_symbols, flat=flat, reversal=reversal, one_tick=one_tick
    )
    size = sizes(rng_size, n_events)

    ts_us = (np.cumsum(gap_us) - gap_us)[order_of_trade] + start_us
    shift_us = np.repeat(np.arange(repetitions) * gap_us.sum(), n_events)
    symbol = pd.Categorical.from_codes(np.tile(symbol_of_trade, repetitions), symbol_names(n_symbols))
    return pd.DataFrame(
        {
            "ts": (np.tile(ts_us, repetitions) + shift_us).view("datetime64[us]"),
            "symbol": symbol,
            "price": np.tile(price, repetitions),
            "size": np.tile(size, repetitions),
            "seq": np.arange(n_events * repetitions, dtype=np.int64),
        },
        copy=False,
    )


def symbol_names(n_symbols: int) -> list[str]:
    """Return ``n_symbols`` different names of at least three letters in alphabetical order."""
    n_letters = 3
    while 26**n_letters < n_symbols:
        n_letters += 1
    return ["".join(name) for name in islice(product(ascii_uppercase, repeat=n_letters), n_symbols)]


def order_lengths(rng: np.random.Generator, n_trades: int) -> np.ndarray:
    """Return the number of trades of each order; the sum is ``n_trades``, the last order is cut to fit."""
    lengths = np.empty(0, dtype=np.int64)
    while lengths.sum() < n_trades:
        uniform = 1.0 - rng.random(n_trades * 9 // 16 + 16)
        more = 1 + np.floor(ORDER_SCALE * (uniform ** (-1 / ORDER_SHAPE) - 1)).astype(np.int64)
        lengths = np.concatenate([lengths, more])
    ends = np.minimum(np.cumsum(lengths), n_trades)
    lengths = np.diff(ends, prepend=0)  # orders after the cut have length 0
    return lengths[lengths > 0]


def order_gaps(rng: np.random.Generator, n_orders: int, n_trades: int, rate_hz: float) -> np.ndarray:
    """Return the microseconds from each order to the next, at least 1; their sum is the block's length."""
    uniform = SHARE_IN_ORDER + (1 - SHARE_IN_ORDER) * rng.random(n_orders)
    gaps = np.exp(np.interp(uniform, GAP_PROBABILITY, np.log(GAP_MEANS)))
    block_us = round(n_trades / rate_hz * 1e6)
    gap_us = np.maximum(1, np.rint(gaps * (block_us / gaps.sum() if n_orders else 1.0))).astype(np.int64)
    if n_orders:
        # The rounding error goes to the longest gap, where it is negligible.
        longest = gap_us.argmax()
        gap_us[longest] = max(1, gap_us[longest] + block_us - gap_us.sum())
    return gap_us


def _symbols(rng: np.random.Generator, n_orders: int, n_symbols: int, zipf: float) -> np.ndarray:
    """Draw the symbol of each order with Zipf shares; each at least once if orders suffice."""
    weights = np.arange(1, n_symbols + 1, dtype=np.float64) ** -zipf
    expected = weights / weights.sum() * n_orders
    once = np.arange(n_symbols if n_orders >= n_symbols else 0)
    # A symbol with an expected count below one is not drawn again.
    weights = np.maximum(expected - 1, 0) if len(once) else weights
    cumulative = np.cumsum(weights) / max(weights.sum(), np.finfo(float).tiny)
    drawn = np.searchsorted(cumulative, rng.random(n_orders - len(once)), side="right")
    symbols = np.concatenate([once, np.minimum(drawn, n_symbols - 1)])
    return symbols[np.argsort(rng.random(n_orders))].astype(np.int16 if n_symbols <= 2**15 else np.int32)


def prices(
    rng: np.random.Generator, symbol_of_trade: np.ndarray, in_order: np.ndarray, n_symbols: int, *,
    flat: float = FLAT, reversal: float = REVERSAL, one_tick: float = ONE_TICK,
) -> np.ndarray:  # fmt: skip
    """Return the price in cents of each trade; ``in_order`` marks the trades that continue an order."""
    level = rng.standard_normal(n_symbols) * SIGMA_LOG_PRICE + np.log(MEDIAN_PRICE_CENTS)
    start_of_symbol = np.maximum(2 * LOWEST_PRICE_CENTS, np.rint(np.exp(level))).astype(np.int64)

    # A share 1 - flat of all trades moves; the ratio of the two shares below stays as at the default.
    p_move_in_order = (1 - flat) * (1 - FLAT_IN_ORDER) / (1 - FLAT)
    p_move = (1 - flat - SHARE_IN_ORDER * p_move_in_order) / (1 - SHARE_IN_ORDER)
    by_symbol = np.argsort(symbol_of_trade, kind="stable")
    continues = in_order[by_symbol]
    moves = rng.random(len(by_symbol)) < p_move_in_order
    moves[~continues] = _draw_clustered(rng, np.count_nonzero(~continues), p_move)

    moved = np.flatnonzero(moves)
    more = (1 - one_tick) / sum(MORE_TICKS) * np.array(MORE_TICKS)
    ticks = 1 + np.searchsorted(np.cumsum([one_tick, *more[:-1]]), rng.random(len(moved)), side="right")
    downwards = np.cumsum(rng.random(len(moved)) < reversal) & 1  # an odd number of reversals: down
    steps = np.zeros(len(by_symbol), dtype=np.int64)
    steps[moved] = np.where(downwards == 1, -ticks, ticks)

    walk = np.cumsum(steps)
    symbol = symbol_of_trade[by_symbol]
    is_first = np.diff(symbol, prepend=-1) != 0
    base_of_symbol = np.zeros(n_symbols, dtype=np.int64)
    base_of_symbol[symbol[is_first]] = walk[is_first]  # one walk serves all symbols, each from its start
    walk += (start_of_symbol - base_of_symbol)[symbol]
    price = np.empty_like(walk)
    price[by_symbol] = LOWEST_PRICE_CENTS + np.abs(walk - LOWEST_PRICE_CENTS)  # reflected at the lowest price
    return price


def _draw_clustered(rng: np.random.Generator, n: int, p: float) -> np.ndarray:
    """Draw ``n`` booleans, True with probability ``p``, each correlated with the one before by CLUSTERING."""
    drawn = rng.random(n) < p
    latest_drawn = np.where(rng.random(n) < CLUSTERING, 0, np.arange(n))
    return drawn[np.maximum.accumulate(latest_drawn)]


def sizes(rng: np.random.Generator, n_trades: int) -> np.ndarray:
    """Return the number of shares of each trade: mostly round lots, a quarter of them of 100."""
    uniform = rng.random(n_trades)
    odd = rng.random(n_trades)
    above = np.exp(np.interp(uniform, SIZE_PROBABILITY, np.log(SIZE_SHARES)))
    lots = 100 * np.rint(above / 100).astype(np.int64)
    size = np.where(odd < SHARE_ODD_ABOVE_100, above.astype(np.int64), np.maximum(lots, 200))
    size[uniform < SHARE_BELOW_100 + SHARE_100] = 100
    below = uniform < SHARE_BELOW_100
    size[below] = 1 + np.floor(99 * odd[below]).astype(np.int64)
    return size


def steady(rng: np.random.Generator, shape: tuple[int, int], persistence: float) -> np.ndarray:
    """Return standard normal autoregressive series, one per column."""
    noise = rng.standard_normal(shape)
    for r in range(1, shape[0]):
        noise[r] = persistence * noise[r - 1] + np.sqrt(1 - persistence**2) * noise[r]
    return noise


def bar_prices(
    rng: np.random.Generator, opening: np.ndarray, closing: np.ndarray, variance: np.ndarray, ticks: int
) -> dict[str, np.ndarray]:
    """Return open, high, low and close in dollars of paths between logarithms of prices."""
    # The paths are Brownian, with a variance for each; a dollar has ``ticks``.
    moved = (closing - opening) ** 2
    up, down = (np.sqrt(moved - 2 * variance * np.log(1 - rng.random(moved.shape))) / 2 for _ in range(2))
    middle = (opening + closing) / 2
    logarithms = {"open": opening, "high": middle + up, "low": middle - down, "close": closing}
    prices = {
        name: np.maximum(1, np.rint(ticks * np.exp(value))) / ticks for name, value in logarithms.items()
    }
    prices["high"] = np.maximum(prices["high"], np.maximum(prices["open"], prices["close"]))
    prices["low"] = np.minimum(prices["low"], np.minimum(prices["open"], prices["close"]))
    return prices


def place_in_run(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each value, at least 0, among equal ones in a row, and how many these are."""
    first = np.flatnonzero(np.diff(values, prepend=-1))  # where a value differs from the one before
    n_of_run = np.diff(first, append=len(values))
    return np.arange(len(values)) - np.repeat(first, n_of_run), np.repeat(n_of_run, n_of_run)


def check_count(name: str, value: int, low: int, high: int | None = None) -> None:
    """Raise CepError unless ``value`` is a whole number from ``low`` to ``high`` (None: no upper limit)."""
    if not isinstance(value, int | np.integer):
        raise CepError(f"{name} is {value!r}. It must be a whole number")
    check(name, value, low, high)


def check(name: str, value: float, low: float, high: float | None = None) -> None:
    """Raise CepError unless ``value`` is from ``low`` to ``high`` (None: no upper limit)."""
    if not low <= value or (high is not None and value > high):
        limit = f"at least {low:g}" if high is None else f"from {low:g} to {high:g}"
        raise CepError(f"{name} is {value!r}. It must be {limit}")


def start_ticks(function: str, start: str) -> int:
    """Return the microseconds from 1970 to ``start``; raise CepError if it is not a time."""
    try:
        return int(pd.Timestamp(start).to_datetime64().astype("datetime64[us]").astype(np.int64))
    except (TypeError, ValueError) as error:
        raise CepError(
            f"{function}: start is {start!r}. It must be a time such as '2012-01-03 09:30'"
        ) from error
