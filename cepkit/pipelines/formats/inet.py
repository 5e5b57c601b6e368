"""INET time-and-sales: ``symbol number size price time side``, a file per day, newest trade first."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.format import Format, Option, day_of, delimited, fields_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The milliseconds are a number, not a decimal fraction: 14.69 is 14 s and 69 ms.
_TIME = r"^(\d{1,2}):(\d{2}):(\d{2})\.(\d{1,3})$"
_PLACES = {"symbol": 0, "price": 3, "size": 2, "side": 5, "seq": 1}
COLUMNS = {
    "ts": "timestamp_ntz", "symbol": "string", "price": "double", "size": "bigint", "side": "string",
    "seq": "bigint",
}  # fmt: skip


def parse_inet(records: DataFrame, *, date: str | datetime.date = "2000-01-03") -> DataFrame:
    """Return the trades of time-and-sales lines."""
    day = day_of(date)
    hour, minute, second, millisecond = (F.get("clock", i).try_cast("int") for i in range(4))
    seconds = second.cast("decimal(16,6)") + millisecond.cast("decimal(16,6)") / 1000
    values = {
        "ts": F.try_make_timestamp_ntz(
            F.lit(day.year), F.lit(day.month), F.lit(day.day), hour, minute, seconds.cast("decimal(16,6)")
        ),
        **fields_as(COLUMNS, _PLACES),
    }
    checks = [
        (F.size("fields") == 6, "expected 6 fields: symbol, number, size, price, time, side"),
        (F.col("seq") >= 0, "the trade number is not a whole number"),
        (F.col("size") > 0, "the size is not a positive whole number"),
        (F.col("price") > 0, "the price is not a positive number"),
        (F.col("ts").isNotNull(), "the time is not hours:minutes:seconds.milliseconds"),
        (F.col("side").isin("B", "S"), "the side is neither B nor S"),
    ]
    clock = F.when(F.get("fields", 4).rlike(_TIME), F.split(F.get("fields", 4), "[:.]"))
    divided = F.split(F.trim("text"), r"\s+")
    return delimited(records, values, checks, divided=divided, helpers={"clock": clock})


FORMAT = Format(
    name="inet",
    description="INET time-and-sales text: one trade per line, newest first, milliseconds not padded",
    columns=COLUMNS,
    partition_by="symbol",
    order_by=("ts", "seq"),
    parse=parse_inet,
    options={
        "date": Option(
            "the day of the trades, yyyy-mm-dd (the lines have only times); by default 2000-01-03", day_of
        )
    },
    newest_first=True,
)
