"""Generated texts in the raw formats that the pipelines read, and the samples that come with cepkit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cepkit.datasets.city import N_SENSORS, ROUND_S, bus_positions, traffic
from cepkit.datasets.smart_home import HomeParameters, smart_home
from cepkit.datasets.soccer import soccer_sensors
from cepkit.datasets.trades import (
    SHARE_IN_ORDER,
    check_count,
    order_gaps,
    order_lengths,
    prices,
    sizes,
    trades,
)
from cepkit.datasets.tweets import PAPER_TWEETS, tweets, tweets_as_atom_xml

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
    """Return the trades of one symbol and day in INET's format, the newest first."""
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
    """Return minute bars in EODData's format, by minute and then by symbol."""
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
    """Return closing prices per minute as a wide CSV like the NASDAQ-100 data set: one column per symbol."""
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
    symbol_noise = (
        rng.standard_t(4, shape) / np.sqrt(2) * own_sd
    )  # standard deviation of t with 4 d.f.: sqrt(2)
    market = rng.standard_normal((shape[0], 1)) * MARKET_SD
    returns = np.where(rng.random(shape) < UNCHANGED, 0.0, symbol_noise + market)
    level = np.exp(np.log(40) + 0.9 * rng.standard_normal(shape[1]))
    return level * np.exp(np.cumsum(returns, axis=0))


def siri_lines(n_events: int, *, seed: int = 0) -> list[str]:
    """Return reports in the format of Dublin's SIRI files: 15 columns, no header, microseconds from 1970."""
    frame = bus_positions(n_events, seed=seed)
    time_us = frame["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    frame = frame.drop(columns="dist").assign(ts=time_us).astype(object)
    frame = frame.assign(**{name: frame[name].map("{:.6f}".format) for name in ("lon", "lat")})
    return [",".join(map(str, row)) for row in frame.where(frame.notna(), "null").to_numpy()]


def citybench_lines(n_rounds: int, *, sensor: int = 158505, seed: int = 0) -> list[str]:
    """Return the reports of one sensor in CityBench's format, with the header line."""
    frame = traffic(n_rounds, n_sensors=1, seed=seed).sort_values("ts")
    rng = np.random.default_rng(seed)
    metres = int(rng.integers(200, 6000))
    first = int(rng.integers(10_000_000, 20_000_000))
    lines = ["status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"]
    for row in frame.itertuples():
        seconds = round(3.6 * metres / row.avg_speed) if row.avg_speed else 0
        number = first + N_SENSORS * int((row.ts - frame["ts"].iloc[0]).total_seconds() // ROUND_S)
        time = row.ts.isoformat(timespec="seconds")
        lines.append(
            f"OK,{seconds},{row.avg_speed},616,{seconds},{time},{row.vehicle_count},{number},{sensor}"
        )
    return lines


def casas_lines(parameters: HomeParameters | None = None, *, seed: int = 0) -> list[str]:
    """Return the events of `smart_home` in CASAS format, with runs marked at their first and last event."""
    events = smart_home(parameters, seed=seed)
    activity = events["activity"].astype(str).to_numpy()
    is_first = np.append(True, activity[1:] != activity[:-1])[: len(events)]
    is_last = np.append(is_first[1:], True)[: len(events)]
    marked = (activity != "Other_Activity") & ~(is_first & is_last)
    lines = []
    for row, first, last in zip(events.itertuples(), marked & is_first, marked & is_last, strict=True):
        mark = f" {row.activity} begin" if first else f" {row.activity} end" if last else ""
        lines.append(f"{row.ts:%Y-%m-%d %H:%M:%S.%f} {row.sensor} {row.value}{mark}")
    return lines


def debs2013_lines(n_events: int, *, seed: int = 0) -> list[str]:
    """Return events in the format of the DEBS 2013 stream: 13 whole numbers, no header."""
    frame = soccer_sensors(n_events, seed=seed).drop(columns="ts")
    columns = [frame[name].tolist() for name in frame]
    return [",".join(map(str, row)) for row in zip(*columns, strict=True)]


# --- the bundled samples


def write_samples(folder: str | Path) -> list[Path]:
    """Write all bundled files into ``folder``, which must exist, and return their paths."""
    return [_write(Path(folder) / file, make()) for file, make in SAMPLES.items()]


def peaks() -> pd.DataFrame:
    """Return 60 prices of two alternating symbols: two M shapes in ACME, one M and a climb in BOLT."""
    turns = {
        "ACME": (
            [0, 4, 7, 11, 14, 15, 16, 19, 22, 26, 28, 29],
            [100, 112, 104, 115, 105, 96, 100, 110, 101, 108, 102, 92],
        ),
        "BOLT": ([0, 3, 6, 9, 12, 13, 20, 23, 29], [50, 58, 52, 60, 51, 45, 62, 55, 70]),
    }
    step = np.arange(30)
    price = np.column_stack([np.rint(np.interp(step, at, to)) for at, to in turns.values()])
    return pd.DataFrame(
        {
            "ts": np.datetime64("2012-01-03T09:30:00", "us") + np.arange(60).astype("timedelta64[s]"),
            "symbol": pd.Categorical(list(turns) * 30),
            "price": price.ravel().astype(np.int64),
        }
    )


def _inet() -> list[str]:
    lines = inet_lines(400, symbol="MSFT", seed=7)
    symbol, number, size, price, time, side = lines[60].split()
    return _with_faults(
        lines,
        {
            20: lines[20],
            60: f"{symbol} {int(number) - 1} {size} n/a {time} {side}",
            150: f"{symbol} {size} {price}",
            240: f"{symbol} 17 {size} {price} 25:61:00.7 {side}",
            300: "",
        },
    )


def _eoddata() -> list[str]:
    lines = eoddata_lines(60, seed=7)
    return _with_faults(
        lines,
        {
            30: lines[30],
            90: "MSFT,200802010945,32.6,32.62,32.58,32.6,-400",
            150: "MSFT,200813010950,32.6,32.62,32.58,32.6,400",
            210: "MSFT,200802011000,32.6,32.62,32.58,400",
            270: "MSFT,200802011005,32.6,32.62,?,32.6,400",
        },
    )


def _nasdaq100() -> list[str]:
    lines = nasdaq100_lines(120, seed=7)
    cells = [line.split(",") for line in lines]
    cells[40][2] = ""
    cells[80][5] = "n/a"
    cells[100].pop()
    return [",".join(row) for row in cells]


def _atom() -> list[str]:
    entries = tweets_as_atom_xml(tweets(48, n_authors=30, seed=7))
    faults = {
        10: entries[10],
        20: entries[20].replace("<id>21<", "<id>1021<").split("<author>")[0] + "</entry>",
        30: entries[30]
        .replace("<id>31<", "<id>1031<")
        .replace("<published>2011-11-01T", "<published>2011-11-31T"),
    }
    head = ['<?xml version="1.0" encoding="UTF-8"?>', '<feed xmlns="http://www.w3.org/2005/Atom">']
    return [*head, *_with_faults(entries, faults), "</feed>"]


def _with_faults(lines: Iterable[str], faults: dict[int, str]) -> list[str]:
    """Return the lines with each bad line inserted after the line with its number, counted from 0."""
    return [text for i, line in enumerate(lines) for text in ([line, faults[i]] if i in faults else [line])]


def _write(path: Path, content: pd.DataFrame | list[str]) -> Path:
    if isinstance(content, list):
        path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8", newline="\n")
    elif path.suffix == ".parquet":
        content.to_parquet(path, engine="pyarrow", compression="zstd", index=False)
    else:
        content.to_csv(path, index=False, lineterminator="\n")
    return path


SAMPLES: dict[str, Callable[[], pd.DataFrame | list[str]]] = {
    "trades.parquet": lambda: trades(20_000, n_symbols=40, seed=7, rate_hz=4.8),
    "tweets.parquet": lambda: tweets(1_000, n_authors=614, seed=7, repetitions=6, **PAPER_TWEETS),
    "peaks.csv": peaks,
    "inet_MSFT.txt": _inet,
    "eoddata_minute.txt": _eoddata,
    "nasdaq100_minute_close.csv": _nasdaq100,
    "tweets_atom.xml": _atom,
}
