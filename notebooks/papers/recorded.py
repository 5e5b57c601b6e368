"""Recorded data for experiments. ``CEPKIT_DATA`` names the folder; cepkit does not contain these data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cepkit.errors import CepError, nearest


class RecordedDataError(CepError, FileNotFoundError):
    """Recorded data are not on this machine, or their file has other columns."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded data set: its file, what it contains, and the columns that experiments read."""

    file: str
    about: str
    columns: tuple[str, ...]


RECORDED = {
    "trades": Recorded(
        "inet_trades.parquet", "INET trades of ten shares on one day",
        ("ts", "symbol", "price", "size", "seq"),
    ),
    "crypto trades": Recorded(
        "coinbase_trades.parquet", "trades of 245 Coinbase products in four minutes, in the order of arrival",
        ("ts", "symbol", "price", "size"),
    ),
    "minute bars": Recorded(
        "nasdaq_minute_20080201.parquet", "NASDAQ minute bars of one day",
        ("ts", "symbol", "open", "high", "low", "close", "volume"),
    ),
    "minute closes": Recorded(
        "nasdaq100_minute_close.parquet", "closing prices of the NASDAQ 100, by minute",
        ("ts", "symbol", "close"),
    ),
    "activities": Recorded(
        "casas_activity.parquet", "sensor events of a CASAS home in 30 days",
        ("ts", "activity", "activity_change"),
    ),
    "traffic": Recorded(
        "aarhus_traffic.parquet", "reports of 449 traffic sensors in Aarhus",
        ("ts", "sensor", "avg_speed", "vehicle_count"),
    ),
    "soccer": Recorded(
        "debs2013_mini.parquet", "events of three sensors of the DEBS 2013 match, before the kick-off",
        ("sid", "ts_ps", "x_mm", "y_mm", "z_mm", "v", "a"),
    ),
    "buses": Recorded(
        "dublin_bus_20130131.parquet", "GPS reports of Dublin's buses in one night",
        ("ts", "line", "delay", "vehicle", "at_stop", "dist"),
    ),
    "tweets": Recorded(
        "tweets_vaccine.parquet", "tweets about a vaccine, with masked texts",
        ("ts", "id", "author", "content", "tags"),
    ),
}  # fmt: skip


def recorded(name: str) -> pd.DataFrame:
    """Return a recorded data set in the order of its file."""
    # The owners of these data reserve their rights, so cepkit does not contain them. Experiments keep the
    # tables of their results, and readers without the data see these.
    own = _find(name)
    folder = os.environ.get("CEPKIT_DATA")
    if not folder:
        raise RecordedDataError(
            f"recorded data {name!r} ({own.about}) does not come with cepkit; "
            f"set CEPKIT_DATA to a folder that has {own.file}"
        )
    path = Path(folder, own.file)
    if not path.is_file():
        raise RecordedDataError(f"CEPKIT_DATA names {folder}, and there is no {own.file} with {own.about}")
    frame = pd.read_parquet(path)
    if missing := [column for column in own.columns if column not in frame]:
        raise RecordedDataError(
            f"{own.file} has no column {', '.join(missing)}; there are {', '.join(map(str, frame.columns))}"
        )
    return frame


def has_recorded(name: str) -> bool:
    """Return whether this machine has a recorded data set."""
    own = _find(name)
    folder = os.environ.get("CEPKIT_DATA")
    return bool(folder) and Path(folder, own.file).is_file()


def _find(name: str) -> Recorded:
    if name not in RECORDED:
        names = ", ".join(map(repr, RECORDED))
        raise CepError(f"there is no recorded data {name!r}; there is {names}.{nearest(name, RECORDED)}")
    return RECORDED[name]
