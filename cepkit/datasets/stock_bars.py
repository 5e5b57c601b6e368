"""Seeded minute bars of eight large stocks, with published means of prices and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check_count, start_ticks, steady
from cepkit.errors import CepError, nearest


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
    "GOOG": Stock(512.91, 12.01, 18_054, 20_434),
    "AAPL": Stock(126.44, 4.367, 91_379, 94_531),
    "MSFT": Stock(28.770, 0.8344, 269_729, 391_419),
    "NFLX": Stock(25.797, 0.5743, 4_789, 8_343),
    "INTC": Stock(20.491, 0.5183, 170_595, 266_109),
    "YHOO": Stock(28.850, 0.4360, 323_889, 612_182),
    "EBAY": Stock(28.278, 0.4298, 47_032, 81_420),
    "SIRI": Stock(3.2415, 0.06886, 80_292, 140_958),
}

# A day from 04:00 to 19:59 has 650 bars per stock: 409.6 million bars of 2,500 stocks in a year.
MINUTES_OF_DAY, OPENS, SESSION_MINUTES = 960, 330, 390
BARS_OF_DAY = 650
CORRELATION = 0.14  # of the returns of two stocks in a minute
RANK_CORRELATION = 0.46  # of the volumes of two stocks in a minute
_OUTSIDE = 0.05  # volume outside the session, relative to the session's mean
_SESSIONS = 4.0  # time in which a price returns to its mean
_PERSISTENCE = 0.93  # of volumes, from minute to minute
_DEGREES_OF_FREEDOM = 3.3
_GAP_SD = 0.25  # of the step from a close to the next open, relative to a minute's return
# Share of the variance of log volumes that all stocks have in common. The day's profile does the rest.
_COMMON = 0.40


def stock_bars(
    n_events: int,
    *,
    stocks: Sequence[str] = tuple(STOCKS),
    seed: int = 0,
    first_day: str = "2008-02-01",
    distinct_times: bool = False,
) -> pd.DataFrame:
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
                 + (240 + np.arange(MINUTES_OF_DAY)) * 60_000_000).ravel()  # fmt: skip

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
        first = np.flatnonzero(np.diff(m, prepend=-1))
        number = np.arange(len(m)) - np.repeat(first, np.diff(first, append=len(m)))
        ts_us = ts_us + number * (60_000_000 // len(stocks))
    return pd.DataFrame(
        {
            "ts": ts_us.view("datetime64[us]"),
            "symbol": pd.Categorical.from_codes(s, list(names)),
            **{name: values[m, chosen[s]] for name, values in prices.items()},
            "volume": volume[m, chosen[s]],
        }
    )


def _is_session() -> np.ndarray:
    minute = np.arange(MINUTES_OF_DAY)
    return (minute >= OPENS) & (minute < OPENS + SESSION_MINUTES)


def _chance_of_bar() -> np.ndarray:
    """Return the chance of a bar in each minute: certain in the session, rarer far from it."""
    minute = np.arange(MINUTES_OF_DAY)
    far = np.maximum(OPENS - minute, minute - OPENS - SESSION_MINUTES + 1) / OPENS
    outside = np.maximum(0.0, 1 - far)
    outside[_is_session()] = 0.0
    outside *= (BARS_OF_DAY - SESSION_MINUTES) / outside.sum()
    return np.where(_is_session(), 1.0, np.minimum(outside, 1.0))


def _day_of_volume() -> np.ndarray:
    """Return the mean volume of each minute, relative to the session's mean: high at both ends of it."""
    x = (np.arange(MINUTES_OF_DAY) - OPENS) / SESSION_MINUTES
    session = 0.7 + 1.6 * np.exp(-x / 0.06) + 0.8 * np.exp((x - 1) / 0.05)
    session /= session[_is_session()].mean()
    return np.where(_is_session(), session, _OUTSIDE)


def _prices(rng: np.random.Generator, n_days: int) -> dict[str, np.ndarray]:
    """Return the prices of every minute and stock; they also move in minutes without bars."""
    n_stocks = len(STOCKS)
    shape = (n_days * MINUTES_OF_DAY, n_stocks)
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
    # Highest and lowest point of a Brownian path from the first to the last price.
    move = (close - opening) ** 2
    up, down = (np.sqrt(move - 2 * sd**2 * np.log(1 - rng.random(shape))) / 2 for _ in range(2))
    middle = (opening + close) / 2
    logarithms = {"open": opening, "high": middle + up, "low": middle - down, "close": close}
    prices = {name: np.maximum(1, np.rint(100 * np.exp(value))) / 100 for name, value in logarithms.items()}
    prices["high"] = np.maximum(prices["high"], np.maximum(prices["open"], prices["close"]))
    prices["low"] = np.minimum(prices["low"], np.minimum(prices["open"], prices["close"]))
    return prices


def _volumes(rng: np.random.Generator, n_days: int) -> np.ndarray:
    """Return the volume of every minute and stock, with the published moments over minutes with bars."""
    day, weight = _day_of_volume(), _chance_of_bar() / _chance_of_bar().sum()
    mean, square = (weight * day).sum(), (weight * day**2).sum()
    # Var log X of X = profile * noise, so that X has the published ratio of deviation to mean.
    ratio = np.array([stock.volume_sd / stock.volume_mean for stock in STOCKS.values()])
    variance = np.log((1 + ratio**2) * mean**2 / square)
    level = np.log([stock.volume_mean for stock in STOCKS.values()]) - variance / 2 - np.log(mean)
    n_minutes = n_days * MINUTES_OF_DAY
    common = steady(rng, (n_minutes, 1), _PERSISTENCE)
    stock_noise = steady(rng, (n_minutes, len(STOCKS)), _PERSISTENCE)
    noise = np.sqrt(_COMMON) * common + np.sqrt(1 - _COMMON) * stock_noise
    log_volume = level + np.sqrt(variance) * noise + np.tile(np.log(day), n_days)[:, None]
    return np.maximum(1, np.rint(np.exp(log_volume))).astype(np.int64)
