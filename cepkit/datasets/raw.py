"""Seeded lines of text in the formats of exchanges and vendors; independent of the loaders.

Prices and volumes are random, even if the symbols are names of real companies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cepkit.datasets.trades import SHARE_IN_ORDER, check_count, order_gaps, order_lengths, prices, sizes

# Share of the day's trades by hour, from 7:00 to 20:00.
HOURS = np.arange(7, 21)
SHARE_OF_HOUR = (6, 20, 1330, 2251, 1389, 824, 761, 1318, 1830, 237, 22, 9, 3)
SAME_SIDE = 0.85  # trades on the same side as the symbol's trade before
DAY_OF_INET = 1_260_000  # trades of all symbols in a day, which is the range of the numbers

MINUTES_OF_DAY = 390  # 09:30 to 16:00
BAR_SHARE = (0.22, 1.0)  # share of minutes with a bar, for the least and the most liquid symbol
LOG_VOLUME_MEAN, LOG_VOLUME_SD, LOG_VOLUME_SD_IN_SYMBOL = 6.5, 1.92, 1.2
VOLUME_ROUND = 0.61
# Rounding to cents adds bars with open = close and minutes without a change.
OPEN_SET_TO_CLOSE, UNCHANGED = 0.04, 0.10
RETURN_SD, MARKET_SD = 6.3e-4, 2.5e-4

BAR_SYMBOLS = ("AAPL", "AMZN", "CSCO", "DRIV", "EBAY", "GOOG", "INTC", "MSFT", "ORLY", "YHOO")
CLOSE_SYMBOLS = ("AAPL", "ADBE", "AMZN", "CSCO", "EBAY", "GOOGL", "INTC", "MSFT", "NVDA", "YHOO")


def inet_lines(n_events: int, *, symbol: str = "MSFT", seed: int = 0) -> list[str]:
    """Return the trades of one symbol and day in INET's format, the newest first.

    A line is ``symbol number shares price hour:minute:second.ms side``. **The milliseconds are not padded
    with zeros**: ``14.69`` is 14 s and 69 ms. Numbers are unique, increase with time and have gaps, because
    they count the trades of all symbols.

    Parameters
    ----------
    n_events : int
        Number of lines, from 0 to 100,000.
    symbol : str
        The symbol of all lines.
    seed : int
        Seed, at least 0. The same arguments give the same lines.

    Returns
    -------
    list of str
        Text lines without line breaks.

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    O(n_events). Orders, sizes and moves are those of :func:`cepkit.datasets.trades`. The trades are spread
    over the hours of the day, with many at 10 and at 15 o'clock and few before and after the session.

    Examples
    --------
    >>> inet_lines(3, seed=1)[0].split()[0]
    'MSFT'
    """
    check_count("inet_lines: n_events", n_events, 0, 100_000)
    check_count("inet_lines: seed", seed, 0)
    rng_order, rng_time, rng_price, rng_size, rng_side, rng_number = np.random.default_rng(seed).spawn(6)
    trades_of_order = order_lengths(rng_order, n_events)
    order = np.repeat(np.arange(len(trades_of_order)), trades_of_order)

    gaps = order_gaps(rng_time, len(trades_of_order), n_events, rate_hz=1.0)
    moment = (np.cumsum(gaps) - gaps + 0.5) / max(1, gaps.sum())  # in (0, 1): fraction of the day's trades
    share_until = np.concatenate([[0], np.cumsum(SHARE_OF_HOUR)]) / sum(SHARE_OF_HOUR)
    ms_of_trade = (np.interp(moment, share_until, HOURS) * 3_600_000).astype(np.int64)[order]
    in_order = np.zeros(n_events, dtype=bool)
    in_order[1:] = order[1:] == order[:-1]

    price = prices(rng_price, np.zeros(n_events, dtype=np.int16), in_order, 1)
    size = sizes(rng_size, n_events)
    # All trades of an order are on one side, so the side changes only between orders.
    p_change = (1 - SAME_SIDE) / (1 - SHARE_IN_ORDER)
    side_of_order = np.cumsum(rng_side.random(len(trades_of_order)) < p_change) & 1
    number = 1 + np.sort(rng_number.choice(DAY_OF_INET, size=n_events, replace=False))
    return [
        f"{symbol} {n} {shares} {cents // 100}.{cents % 100:02d}00 {_clock(ms)} {'BS'[side]}"
        for n, shares, cents, ms, side in zip(
            number.tolist(),
            size.tolist(),
            price.tolist(),
            ms_of_trade.tolist(),
            side_of_order[order].tolist(),
            strict=True,
        )
    ][::-1]


def eoddata_lines(n_minutes: int, symbols: Sequence[str] = BAR_SYMBOLS, *, seed: int = 0) -> list[str]:
    """Return minute bars in EODData's format, by minute and then by symbol.

    A line is ``symbol,yyyymmddhhmm,open,high,low,close,volume``, without a header. Prices have no trailing
    zeros (``136``). The time is the start of the minute. Minutes without trades have no bar.

    Parameters
    ----------
    n_minutes : int
        Minutes of trading, at least 0: from 2008-02-01 09:30, 390 a day, without weekends.
    symbols : sequence of str
        Different names; the most liquid ones first.
    seed : int
        Seed, at least 0. The same arguments give the same lines.

    Returns
    -------
    list of str
        Text lines without line breaks.

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    O(n_minutes * len(symbols)). Calibrated to a public extract of one morning: volume log-normal (mean 7.15,
    standard deviation 1.92 of the logarithm), 61 % in hundreds, 34 % of bars with open = close.

    Examples
    --------
    >>> eoddata_lines(1, ["AAPL"], seed=0)[0].split(",")[:2]
    ['AAPL', '200802010930']
    """
    check_count("eoddata_lines: n_minutes", n_minutes, 0)
    check_count("eoddata_lines: seed", seed, 0)
    rng_bar, rng_price, rng_volume = np.random.default_rng(seed).spawn(3)
    shape = (n_minutes, len(symbols))
    rank = np.linspace(1, 0, len(symbols))
    has_bar = rng_bar.random(shape) < BAR_SHARE[0] + (BAR_SHARE[1] - BAR_SHARE[0]) * rank

    price = _minute_prices(rng_price, (n_minutes + 1, len(symbols))).round(2)
    before, close = price[:-1], price[1:]
    opened = np.where(rng_price.random(shape) < OPEN_SET_TO_CLOSE, close, before)
    spread = np.abs(rng_price.standard_normal((2, *shape))) * 0.001 * close
    high = np.maximum(opened, close) + spread[0].round(2)
    low = np.maximum(np.minimum(opened, close) - spread[1].round(2), 0.01)

    between = np.sqrt(LOG_VOLUME_SD**2 - LOG_VOLUME_SD_IN_SYMBOL**2)
    level = LOG_VOLUME_MEAN + between * 2 * (rank - 0.5) * np.sqrt(3)
    log_volume = level + LOG_VOLUME_SD_IN_SYMBOL * rng_volume.standard_normal(shape)
    volume = np.maximum(1, np.exp(log_volume).astype(np.int64))
    hundreds = np.maximum(100, volume // 100 * 100)
    volume = np.where(rng_volume.random(shape) < VOLUME_ROUND, hundreds, volume)

    minutes = _minutes(n_minutes)
    return [
        f"{symbols[s]},{minutes[m]},{opened[m, s]:.10g},{high[m, s]:.10g},{low[m, s]:.10g},"
        f"{close[m, s]:.10g},{volume[m, s]}"
        for m, s in np.argwhere(has_bar).tolist()
    ]


def nasdaq100_lines(n_minutes: int, symbols: Sequence[str] = CLOSE_SYMBOLS, *, seed: int = 0) -> list[str]:
    """Return closing prices per minute as a wide CSV like the NASDAQ-100 data set: one column per symbol.

    The first line is the header. It has **no time column**: row 0 is 09:30 of the first day, and row r is the
    minute 09:31 + (r - 1) % 390 of day (r - 1) // 390.

    Parameters
    ----------
    n_minutes : int
        Number of rows below the header, at least 0.
    symbols : sequence of str
        Different names.
    seed : int
        Seed, at least 0. The same arguments give the same lines.

    Returns
    -------
    list of str
        ``n_minutes + 1`` lines without line breaks.

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    O(n_minutes * len(symbols)). Returns per minute: standard deviation 6e-4 with fat tails, 14 % zero, and
    one common factor that correlates any two symbols by about 0.14.

    Examples
    --------
    >>> nasdaq100_lines(0, ["AAPL", "MSFT"])
    ['AAPL,MSFT']
    """
    check_count("nasdaq100_lines: n_minutes", n_minutes, 0)
    check_count("nasdaq100_lines: seed", seed, 0)
    rng = np.random.default_rng(seed)
    rows = _minute_prices(rng, (n_minutes, len(symbols))).round(3).tolist()
    return [",".join(symbols)] + [",".join(map(repr, row)) for row in rows]


def _clock(ms: int) -> str:
    seconds, ms = divmod(ms, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{ms}"


def _minutes(n_minutes: int) -> list[str]:
    """Return the first minutes of trading as yyyymmddhhmm."""
    days = pd.date_range("2008-02-01 09:30", periods=-(-n_minutes // MINUTES_OF_DAY), freq="B")
    minutes = [day + pd.Timedelta(minutes=m) for day in days for m in range(MINUTES_OF_DAY)]
    return [f"{minute:%Y%m%d%H%M}" for minute in minutes[:n_minutes]]


def _minute_prices(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return prices in dollars, one row per minute: walks with fat tails and one common factor."""
    own_sd = np.sqrt(RETURN_SD**2 - MARKET_SD**2)
    own = rng.standard_t(4, shape) / np.sqrt(2) * own_sd  # standard deviation of t with 4 d.f.: sqrt(2)
    market = rng.standard_normal((shape[0], 1)) * MARKET_SD
    returns = np.where(rng.random(shape) < UNCHANGED, 0.0, own + market)
    level = np.exp(np.log(40) + 0.9 * rng.standard_normal(shape[1]))
    return level * np.exp(np.cumsum(returns, axis=0))
