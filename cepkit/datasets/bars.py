"""Synthetic minute bars: many stocks with their earlier closing prices, and eight large stocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cepkit.datasets.trades import (
    bar_prices,
    check,
    check_count,
    place_in_run,
    start_ticks,
    steady,
    symbol_names,
)
from cepkit.errors import CepError, nearest
from cepkit.values import dataclass

# Seeded minute bars of many stocks, each with its earlier closing prices; independent of patterns.

# Measured on minute bars of 1,512 symbols around one opening, and on 81 stocks over eleven days.
MINUTES_OF_DAY = 480  # 09:00 to 16:59
OPENS, SESSION_MINUTES = 30, 390  # the session is 09:30 to 15:59
AT_THE_OPENING = 0.98  # symbols with a bar in the first minute of the session
# Distribution function of the opening prices, in dollars.
PRICE_PROBABILITY = (0.0, 0.01, 0.05, 0.25, 0.50, 0.75, 0.95, 0.99, 1.0)
PRICE = (0.8, 1.17, 2.79, 9.16, 17.55, 29.24, 57.2, 109.8, 520.0)
TICKS = 10_000  # per dollar
ROUND_LOTS = 0.614  # share of volumes that are multiples of 100

# Found by trial, so that the figures in tests/datasets/test_datasets_parallel.py hold.
# Distribution function of a symbol's trades per minute just after the opening.
_TRADES_PROBABILITY = (0.0, 0.05, 0.25, 0.50, 0.75, 0.95, 0.99, 1.0)
_TRADES = (0.012, 0.03, 0.16, 0.98, 5.0, 30.0, 120.0, 600.0)
_FURTHER_TRADES = 0.3  # mean number of further trades triggered by a trade
_OUTSIDE = 0.0024  # trades before and after the session, relative to the trades after the opening
_NOON, _FADES_MINUTES, _CLOSING, _CLOSES_MINUTES = 0.14, 33.0, 0.35, 20.0
# Standard deviation of a minute's return by liquidity: for the 5 % most traded and for the least traded.
_SD_LIQUID, _SD_ILLIQUID, _LIQUID = 6.2e-4, 9.0e-3, 0.95
_SD_SPREAD, _SD_SPREAD_ILLIQUID = 0.30, 0.80  # of its logarithm
_OPENING_UNREST = 4.0  # factor of the first minute, relative to the minutes after it
_DEGREES_OF_FREEDOM = 3.3
_LOADING_SPREAD = 0.26  # of a symbol's share of the market's returns
_DRIFT, _DRIFT_PERSISTENCE = 0.15, 0.95  # of the market's returns: lasting part, and persistence
_OVERNIGHT_SD = 0.012
_PRICE_FOLLOWS_LIQUIDITY = 0.2
_TRADE_SHARES, _SHARES_SPREAD, _SHARES_NOISE = 5.60, 0.75, 1.05  # logarithms


@dataclass(frozen=True, slots=True)
class BarParameters:
    """Parameters of `minute_bars`.

    Parameters
    ----------
    n_symbols : int
        Number of symbols, from 2 to 10,000.
    n_days : int
        Days of trading, at least 0; weekends are skipped.
    first_day : str
        First day, such as ``"2008-02-01"``.
    n_history : int
        Number of closing prices in ``history``, from 1 to 390.
    correlation : float
        Mean correlation of the returns of two symbols in a minute, from 0 to 0.9.
    flat : float
        Share of the minutes in which a price does not change, from 0 to 1.
    distinct_times : bool
        Whether the bars of a minute are spread over the minute in row order: bar k of n is 60 s * k / n
        later than the start of the minute. If False, all have the time of that start, so no two bars of a
        minute follow each other in time.
    """

    n_symbols: int = 2100
    n_days: int = 1
    first_day: str = "2008-02-01"
    n_history: int = 20
    correlation: float = 0.14
    flat: float = 0.125
    distinct_times: bool = False


def minute_bars(parameters: BarParameters | None = None, *, seed: int = 0) -> pd.DataFrame:
    """Return minute bars of many stocks; a symbol has a bar only in minutes with trades.

    Parameters
    ----------
    parameters : BarParameters, optional
        The parameters; None means one day with 2,100 symbols.
    seed : int
        Seed, at least 0. The same arguments give the same frame.

    Returns
    -------
    pandas.DataFrame
        Sorted by time, then by symbol. Columns ``ts`` (datetime64[us], no zone, the wall clock of New
        York, 09:00 to 16:59), ``symbol`` (categorical, all ``n_symbols`` categories, in alphabetical
        order), ``open``, ``high``, ``low``, ``close`` (float64, dollars, four decimals), ``volume`` (int64,
        shares), ``log_return`` (float64, logarithm of ``close`` divided by the symbol's previous close; NaN
        for a symbol's first bar) and ``history`` (object: float64 arrays of shape (n_history,), the
        symbol's earlier closes, oldest first, so ``history[-1]`` is the latest; None for the first
        ``n_history`` bars of a symbol). The arrays are read-only and share memory. Parquet and Spark store
        the column as a list of doubles.

    Raises
    ------
    CepError
        If a parameter is out of range.

    Notes
    -----
    O(n_days x 480 x n_symbols) time; about 180 bytes per bar, and up to 450 during generation.

    Source: Yankovitch, Kolchinsky, Schuster, "HYPERSONIC", SIGMOD 2022, section 7: a month of 2,100 NASDAQ
    stocks, 6,239,997 events, each with the 20 previous prices of its stock. That is 141 per stock and day;
    the defaults give about 139.
    Differs: the prices are generated. Bars per minute, volumes, price ranges, returns and their
    correlation follow figures of public extracts.

    Examples
    --------
    >>> bars = minute_bars(BarParameters(n_symbols=50), seed=1)
    >>> bars["history"].iloc[0] is None, bars["history"].iloc[-1].shape
    (True, (20,))
    """
    parameters = BarParameters() if parameters is None else parameters
    _check(parameters, seed)
    rng_symbol, rng_trade, rng_market, rng_own, rng_volume = np.random.default_rng(seed).spawn(5)
    n_symbols = parameters.n_symbols
    symbols = _Symbols.drawn(rng_symbol, parameters)
    start_us = start_ticks("minute_bars", parameters.first_day)
    weekdays = pd.bdate_range(np.datetime64(start_us, "us"), periods=parameters.n_days).normalize()

    level = np.log(symbols.price)
    days = []
    for day_us in weekdays.to_numpy().astype("datetime64[us]").astype(np.int64):
        n_trades = _trades(rng_trade, symbols.trades)
        walk = level + np.cumsum(_returns(rng_market, rng_own, symbols), axis=0)
        # An unchanged price repeats that of the minute before; the underlying walk continues.
        stays = rng_own.random(walk.shape) < parameters.flat
        stays[0] = False
        minute = np.where(stays, 0, np.arange(MINUTES_OF_DAY)[:, None])
        shown = np.take_along_axis(walk, np.maximum.accumulate(minute, axis=0), axis=0)
        m, s = np.nonzero(n_trades)
        columns = _bar_columns(rng_own, rng_volume, shown, n_trades, m, s, symbols)
        days.append({"ts": day_us + (9 * 60 + m) * 60_000_000, "symbol": s, **columns})
        level = walk[-1] + rng_own.standard_normal(n_symbols) * _OVERNIGHT_SD
    return _frame(days, parameters)


@dataclass(frozen=True, slots=True)
class _Symbols:
    """Properties of the symbols; arrays of shape (n_symbols,)."""

    price: np.ndarray
    trades: np.ndarray  # per minute, just after the opening
    sd: np.ndarray  # of a minute's return
    loading: np.ndarray  # on the market
    log_shares: np.ndarray  # of one trade

    @staticmethod
    def drawn(rng: np.random.Generator, parameters: BarParameters) -> _Symbols:
        n_symbols = parameters.n_symbols
        # Every quantile of the trades per minute occurs once; the order of names is random.
        place = rng.permutation((np.arange(n_symbols) + 0.5) / n_symbols)
        liquidity = np.argsort(np.argsort(place)) / n_symbols - 0.5
        mixed = _PRICE_FOLLOWS_LIQUIDITY * liquidity * np.sqrt(12) + rng.standard_normal(n_symbols)
        price_place = (np.argsort(np.argsort(mixed)) + 0.5) / n_symbols
        down = np.sqrt(np.clip((_LIQUID - place) / _LIQUID, 0.0, 1.0))
        sd = np.exp(np.log(_SD_LIQUID) + down * np.log(_SD_ILLIQUID / _SD_LIQUID))
        spread = _SD_SPREAD + (_SD_SPREAD_ILLIQUID - _SD_SPREAD) * down
        loading = 1 + _LOADING_SPREAD * rng.standard_normal(n_symbols)
        return _Symbols(
            price=np.exp(np.interp(price_place, PRICE_PROBABILITY, np.log(PRICE))),
            trades=np.exp(np.interp(place, _TRADES_PROBABILITY, np.log(_TRADES))),
            sd=sd * np.exp(spread * rng.standard_normal(n_symbols)),
            # An unchanged price, of either symbol, hides their correlation.
            loading=np.clip(loading * np.sqrt(1.25 * parameters.correlation), 0.0, 0.95),
            log_shares=_TRADE_SHARES + _SHARES_SPREAD * rng.standard_normal(n_symbols),
        )


def day_profile() -> np.ndarray:
    """Return the trades of each minute from 09:00, relative to those just after the opening at 09:30."""
    minute = np.arange(SESSION_MINUTES)
    profile = np.full(MINUTES_OF_DAY, _OUTSIDE)
    profile[OPENS : OPENS + SESSION_MINUTES] = np.minimum(
        1.0,
        _NOON
        + (1.08 - _NOON) * np.exp(-np.maximum(0, minute - 6) / _FADES_MINUTES)
        + _CLOSING * np.exp((minute - SESSION_MINUTES) / _CLOSES_MINUTES),
    )
    return profile


def _trades(rng: np.random.Generator, trades_of_symbol: np.ndarray) -> np.ndarray:
    """Return the number of trades of each minute and symbol of a day."""
    n_trades = rng.poisson(day_profile()[:, None] * trades_of_symbol)
    n_trades += rng.poisson(_FURTHER_TRADES * n_trades)
    in_auction = rng.random(len(trades_of_symbol)) < AT_THE_OPENING
    n_trades[OPENS] = np.maximum(n_trades[OPENS], in_auction)
    return n_trades


def _returns(rng_market: np.random.Generator, rng_own: np.random.Generator, symbols: _Symbols) -> np.ndarray:
    """Return the logarithmic returns of each minute and symbol of a day, including minutes without trades."""
    shape = (MINUTES_OF_DAY, len(symbols.sd))
    drift = rng_market.standard_normal(MINUTES_OF_DAY)
    for m in range(1, MINUTES_OF_DAY):
        drift[m] = _DRIFT_PERSISTENCE * drift[m - 1] + np.sqrt(1 - _DRIFT_PERSISTENCE**2) * drift[m]
    noise = rng_market.standard_normal(MINUTES_OF_DAY)
    market = _DRIFT * drift + np.sqrt(1 - _DRIFT**2) * noise
    sd_of_t = np.sqrt(_DEGREES_OF_FREEDOM / (_DEGREES_OF_FREEDOM - 2))
    symbol_noise = rng_own.standard_t(_DEGREES_OF_FREEDOM, shape) / sd_of_t
    mixed = symbols.loading * market[:, None] + np.sqrt(1 - symbols.loading**2) * symbol_noise
    return mixed * symbols.sd * _unrest()[:, None]


def _unrest() -> np.ndarray:
    """Return the volatility of each minute; its mean square over the session is 1."""
    unrest = np.sqrt(day_profile())
    unrest[OPENS] *= _OPENING_UNREST
    return unrest / np.sqrt(np.mean(unrest[OPENS : OPENS + SESSION_MINUTES] ** 2))


def _bar_columns(
    rng: np.random.Generator, rng_volume: np.random.Generator, walk: np.ndarray, n_trades: np.ndarray,
    m: np.ndarray, s: np.ndarray, symbols: _Symbols,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return prices and volumes of the bars of minutes ``m`` and symbols ``s``."""
    n = n_trades[m, s]
    closing = walk[m, s]
    # A bar with one trade has one price. Otherwise the first trade is near the price of the minute before.
    moved = np.where(n > 1, closing - walk[np.maximum(m - 1, 0), s], 0.0)
    seen = np.where(n > 1, (n - 1) / n, 0.0)
    opening = closing - moved * seen
    variance = (symbols.sd[s] * _unrest()[m]) ** 2 * seen
    prices = bar_prices(rng, opening, closing, variance, TICKS)
    log_shares = symbols.log_shares[s] + _SHARES_NOISE * rng_volume.standard_normal(len(m))
    volume = np.maximum(1, np.rint(np.exp(log_shares) * n)).astype(np.int64)
    lots = np.maximum(100, 100 * np.rint(volume / 100).astype(np.int64))
    return {**prices, "volume": np.where(rng_volume.random(len(m)) < ROUND_LOTS, lots, volume)}


def _frame(days: list[dict[str, np.ndarray]], parameters: BarParameters) -> pd.DataFrame:
    """Return the bars of all days with the columns that depend on earlier bars."""
    names = ("ts", "symbol", "open", "high", "low", "close", "volume")
    columns = {name: np.concatenate([day[name] for day in days] or [np.empty(0)]) for name in names}
    ts_us, symbol = columns["ts"].astype(np.int64), columns["symbol"].astype(np.int64)
    n_bars = len(ts_us)
    if parameters.distinct_times and n_bars:
        number, n_of_minute = place_in_run(ts_us)
        ts_us = ts_us + number * 60_000_000 // n_of_minute

    # After sorting by symbol, earlier bars are in the rows above.
    by_symbol = np.argsort(symbol, kind="stable")
    n_of_symbol = np.bincount(symbol, minlength=parameters.n_symbols)
    rank = np.arange(n_bars) - np.repeat(np.cumsum(n_of_symbol) - n_of_symbol, n_of_symbol)
    close = columns["close"][by_symbol].astype(np.float64)
    log_return = np.full(n_bars, np.nan)
    log_return[by_symbol[1:]] = np.where(rank[1:] > 0, np.diff(np.log(close)), np.nan)
    history = np.full(n_bars, None, dtype=object)
    if n_bars > parameters.n_history:
        windows = np.lib.stride_tricks.sliding_window_view(close, parameters.n_history)
        for i in np.flatnonzero(rank >= parameters.n_history):
            history[by_symbol[i]] = windows[i - parameters.n_history]
    names_of_symbols = symbol_names(parameters.n_symbols)
    return pd.DataFrame(
        {
            "ts": ts_us.view("datetime64[us]"), "symbol": pd.Categorical.from_codes(symbol, names_of_symbols),
            **{name: columns[name].astype(np.float64) for name in ("open", "high", "low", "close")},
            "volume": columns["volume"].astype(np.int64), "log_return": log_return, "history": history,
        }
    )  # fmt: skip


def _check(parameters: BarParameters, seed: int) -> None:
    if not isinstance(parameters, BarParameters):
        raise CepError(f"minute_bars: parameters is a {type(parameters).__name__}. Pass BarParameters(…)")
    check_count("minute_bars: n_symbols", parameters.n_symbols, 2, 10_000)
    check_count("minute_bars: n_days", parameters.n_days, 0)
    check_count("minute_bars: n_history", parameters.n_history, 1, SESSION_MINUTES)
    check("minute_bars: correlation", parameters.correlation, 0, 0.9)
    check("minute_bars: flat", parameters.flat, 0, 1)
    check_count("minute_bars: seed", seed, 0)


# Seeded minute bars of eight large stocks, with published means of prices and volumes.


@dataclass(frozen=True, slots=True)
class Stock:
    """Mean and standard deviation of a stock's bars: opening price in dollars, and volume in shares."""

    open_mean: float
    open_sd: float
    volume_mean: float
    volume_sd: float


# Source: data_distributions.json of github.com/koralchapnik/darling at 27510c8. The authors bought bars of
# EODData. These are the statistics of their warm-up.
STOCKS = {
    "GOOG": Stock(512.91, 12.01, 18_054, 20_434), "AAPL": Stock(126.44, 4.367, 91_379, 94_531),
    "MSFT": Stock(28.770, 0.8344, 269_729, 391_419), "NFLX": Stock(25.797, 0.5743, 4_789, 8_343),
    "INTC": Stock(20.491, 0.5183, 170_595, 266_109), "YHOO": Stock(28.850, 0.4360, 323_889, 612_182),
    "EBAY": Stock(28.278, 0.4298, 47_032, 81_420), "SIRI": Stock(3.2415, 0.06886, 80_292, 140_958),
}  # fmt: skip

# A day from 04:00 to 19:59 has 650 bars per stock: 409.6 million bars of 2,500 stocks in a year.
LONG_DAY, LONG_DAY_OPENS = 960, 330
BARS_OF_DAY = 650
CORRELATION = 0.14  # of the returns of two stocks in a minute
_VOLUME_OUTSIDE = 0.05  # volume outside the session, relative to the session's mean
_SESSIONS = 4.0  # time in which a price returns to its mean
_PERSISTENCE = 0.93  # of volumes, from minute to minute
_GAP_SD = 0.25  # of the step from a close to the next open, relative to a minute's return
# Share of the variance of log volumes that all stocks have in common. The day's profile does the rest.
_COMMON = 0.40


def stock_bars(
    n_events: int, *, stocks: Sequence[str] = tuple(STOCKS), seed: int = 0, first_day: str = "2008-02-01",
    distinct_times: bool = False,
) -> pd.DataFrame:  # fmt: skip
    """Return the minute bars of large stocks, which trade in almost every minute.

    Parameters
    ----------
    n_events : int
        Number of bars, at least 0. A stock has about 650 per day.
    stocks : sequence of str
        Names in `STOCKS`. The bars of a stock do not depend on which others are named.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    first_day : str
        First day, such as ``"2008-02-01"``. Weekends are skipped.
    distinct_times : bool
        Whether the bars of a minute are spread over the minute in row order, as in `minute_bars`.

    Returns
    -------
    pandas.DataFrame
        Sorted by time, then by symbol. Columns ``ts`` (datetime64[us], no zone, the wall clock of New York,
        04:00 to 19:59), ``symbol`` (categorical), ``open``, ``high``, ``low``, ``close`` (float64, dollars,
        whole cents) and ``volume`` (int64, shares).

    Raises
    ------
    CepError
        If an argument is out of range, or a stock is unknown.

    Notes
    -----
    O(minutes x 8) time and memory.

    Source: Chapnik, Kolchinsky, Schuster, "DARLING", PVLDB 15(3), 2022, section 5.1: a year of 2,500 NASDAQ
    stocks, 409,622,891 bars.
    Differs: the bars are generated. Prices return to their published mean, so both published moments hold
    over weeks. Volumes are log-normal around the profile of a day.

    Examples
    --------
    >>> stock_bars(3, stocks=["AAPL", "MSFT"], seed=1)["symbol"].tolist()
    ['AAPL', 'MSFT', 'MSFT']
    """
    check_count("stock_bars: n_events", n_events, 0)
    check_count("stock_bars: seed", seed, 0)
    for name in stocks:
        if name not in STOCKS:
            listed = ", ".join(STOCKS)
            raise CepError(f"stock_bars: no stock {name!r}.{nearest(str(name), STOCKS)} Stocks: {listed}")
    if not stocks or len(set(stocks)) < len(stocks):
        raise CepError("stock_bars: stocks must name at least one stock, and each once")
    start_us = start_ticks("stock_bars", first_day)
    # Nine tenths of the mean are fewer bars than any long stream has.
    n_days = 2 + int(n_events / (0.9 * BARS_OF_DAY * len(stocks)))
    days = pd.bdate_range(np.datetime64(start_us, "us"), periods=n_days).normalize()
    minute_us = (days.to_numpy().astype("datetime64[us]").astype(np.int64)[:, None]
                 + (240 + np.arange(LONG_DAY)) * 60_000_000).ravel()  # fmt: skip

    rng_bar, rng_price, rng_volume = np.random.default_rng(seed).spawn(3)
    shape = (len(minute_us), len(STOCKS))
    has_bar = rng_bar.random(shape) < np.tile(_chance_of_bar(), n_days)[:, None]
    prices = _prices(rng_price, n_days)
    volume = _volumes(rng_volume, n_days)
    names = np.sort(np.array(stocks, dtype=object))
    chosen = np.array([list(STOCKS).index(name) for name in names])
    m, s = np.nonzero(has_bar[:, chosen])
    m, s = m[:n_events], s[:n_events]
    ts_us = minute_us[m]
    if distinct_times and len(m):
        ts_us = ts_us + place_in_run(m)[0] * (60_000_000 // len(stocks))
    return pd.DataFrame(
        {
            "ts": ts_us.view("datetime64[us]"),
            "symbol": pd.Categorical.from_codes(s, list(names)),
            **{name: values[m, chosen[s]] for name, values in prices.items()},
            "volume": volume[m, chosen[s]],
        }
    )


def _is_session() -> np.ndarray:
    minute = np.arange(LONG_DAY)
    return (minute >= LONG_DAY_OPENS) & (minute < LONG_DAY_OPENS + SESSION_MINUTES)


def _chance_of_bar() -> np.ndarray:
    """Return the chance of a bar in each minute: certain in the session, rarer far from it."""
    minute = np.arange(LONG_DAY)
    far = np.maximum(LONG_DAY_OPENS - minute, minute - LONG_DAY_OPENS - SESSION_MINUTES + 1) / LONG_DAY_OPENS
    outside = np.maximum(0.0, 1 - far)
    outside[_is_session()] = 0.0
    outside *= (BARS_OF_DAY - SESSION_MINUTES) / outside.sum()
    return np.where(_is_session(), 1.0, np.minimum(outside, 1.0))


def _day_of_volume() -> np.ndarray:
    """Return the mean volume of each minute, relative to the session's mean: high at both ends of it."""
    x = (np.arange(LONG_DAY) - LONG_DAY_OPENS) / SESSION_MINUTES
    session = 0.7 + 1.6 * np.exp(-x / 0.06) + 0.8 * np.exp((x - 1) / 0.05)
    session /= session[_is_session()].mean()
    return np.where(_is_session(), session, _VOLUME_OUTSIDE)


def _prices(rng: np.random.Generator, n_days: int) -> dict[str, np.ndarray]:
    """Return the prices of every minute and stock; they also move in minutes without bars."""
    n_stocks = len(STOCKS)
    shape = (n_days * LONG_DAY, n_stocks)
    spread = np.array([stock.open_sd / stock.open_mean for stock in STOCKS.values()])
    center = np.array([np.log(stock.open_mean) for stock in STOCKS.values()]) - spread**2 / 2
    pull = 1 / (_SESSIONS * SESSION_MINUTES)
    # Outside the session a minute moves prices as much as a seventh of a minute in it.
    pull_of_minute = np.tile(np.where(_is_session(), pull, pull / 50), n_days)
    sd_of_minute = np.sqrt(2 * pull_of_minute)
    common = rng.standard_normal((shape[0], 1))
    stock_noise = rng.standard_t(_DEGREES_OF_FREEDOM, shape)
    stock_noise /= np.sqrt(_DEGREES_OF_FREEDOM / (_DEGREES_OF_FREEDOM - 2))
    loading = np.sqrt(CORRELATION)
    step = (loading * common + np.sqrt(1 - loading**2) * stock_noise) * sd_of_minute[:, None]
    away = np.empty(shape)
    now = rng.standard_normal(n_stocks)
    for m in range(shape[0]):
        now = now * (1 - pull_of_minute[m]) + step[m]
        away[m] = now
    close = center + away * spread
    before = np.concatenate([close[:1], close[:-1]])
    sd = sd_of_minute[:, None] * spread
    opening = before + _GAP_SD * sd * rng.standard_normal(shape)
    return bar_prices(rng, opening, close, sd**2, 100)


def _volumes(rng: np.random.Generator, n_days: int) -> np.ndarray:
    """Return the volume of every minute and stock, with the published moments over minutes with bars."""
    day, weight = _day_of_volume(), _chance_of_bar() / _chance_of_bar().sum()
    mean, square = (weight * day).sum(), (weight * day**2).sum()
    # Var log X of X = profile * noise, so that X has the published ratio of deviation to mean.
    ratio = np.array([stock.volume_sd / stock.volume_mean for stock in STOCKS.values()])
    variance = np.log((1 + ratio**2) * mean**2 / square)
    level = np.log([stock.volume_mean for stock in STOCKS.values()]) - variance / 2 - np.log(mean)
    n_minutes = n_days * LONG_DAY
    common = steady(rng, (n_minutes, 1), _PERSISTENCE)
    stock_noise = steady(rng, (n_minutes, len(STOCKS)), _PERSISTENCE)
    noise = np.sqrt(_COMMON) * common + np.sqrt(1 - _COMMON) * stock_noise
    log_volume = level + np.sqrt(variance) * noise + np.tile(np.log(day), n_days)[:, None]
    return np.maximum(1, np.rint(np.exp(log_volume))).astype(np.int64)
