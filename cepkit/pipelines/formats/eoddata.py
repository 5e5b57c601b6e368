"""EODData minute bars: ``symbol,yyyymmddhhmm,open,high,low,close,volume``, several symbols in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.format import Format, delimited, fields_as, wall_clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MINUTE = r"^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})$"
_PRICES = ("open", "high", "low", "close")
_PLACES = {"symbol": 0, "open": 2, "high": 3, "low": 4, "close": 5, "volume": 6}
COLUMNS = {
    "ts": "timestamp_ntz",
    "symbol": "string",
    **dict.fromkeys(_PRICES, "double"),
    "volume": "bigint",
}


def parse_eoddata(records: DataFrame) -> DataFrame:
    """Return the bars of EODData lines.

    The integer ``200802010959`` is a time. As numbers, consecutive minutes differ by 1 only within an hour:
    09:59 to 10:00 is a step of 41. The zone is not applied: bars of two sessions are as far apart as their
    wall clocks, even across a change of daylight saving time. In pandas
    ``ts.dt.tz_localize("America/New_York")`` makes instants.
    """
    values = {"ts": wall_clock([(F.get("fields", 1), _MINUTE)]), **fields_as(COLUMNS, _PLACES)}
    checks = [
        (F.size("fields") == 7, "expected 7 fields: symbol, time, open, high, low, close, volume"),
        (F.col("symbol") != "", "the symbol is empty"),
        (F.col("ts").isNotNull(), "the time is not yyyymmddhhmm"),
        *((F.col(name) > 0, f"{name} is not a positive number") for name in _PRICES),
        (F.col("high") >= F.col("low"), "high is below low"),
        (F.col("volume") >= 0, "the volume is not a whole number"),
    ]
    return delimited(records, values, checks)


FORMAT = Format(
    name="eoddata",
    description="EODData minute bars as CSV: symbol, yyyymmddhhmm, open, high, low, close, volume",
    columns=COLUMNS,
    partition_by="symbol",
    order_by=("ts",),
    parse=parse_eoddata,
)
