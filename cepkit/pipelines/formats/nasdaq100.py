"""The NASDAQ-100 table: a line per minute and a column per symbol. The missing times are reconstructed."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.format import (
    EMPTY,
    PLACE,
    STRUCTURE,
    Format,
    HeaderError,
    Option,
    day_of,
    first_reason,
    number,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MINUTES_PER_SESSION = 390
EXCHANGE_HOLIDAYS = ("2016-09-05", "2016-11-24")  # Labor Day and Thanksgiving, the two in the published set
_LONGEST_CALENDAR = 2600  # sessions, ten years
_NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?")
_WRONG_WIDTH = "the number of cells is not the number of symbols in the first line"


def parse_nasdaq100(
    records: DataFrame,
    *,
    start: str | datetime.date = "2016-07-26",
    holidays: str | Iterable[str | datetime.date] = EXCHANGE_HOLIDAYS,
) -> DataFrame:
    """Return the prices of NASDAQ-100 tables in long form.

    The table has no times. Its first row is 09:30 of the first session; after it every session has 390 rows,
    09:31 to 16:00. Sessions are all weekdays except holidays. Each file is a table with its symbols in the
    first line, and begins at ``start``. An unreadable line still takes its minute.

    This rule does not know shortened sessions. After one, compare the overnight jumps before you trust the
    times.
    """
    days = _session_days(day_of(start, "start"), _holidays(holidays))
    symbols = _symbols_of_file(records)
    cells = F.transform(F.split(F.col("text"), ",", -1), lambda field: F.trim(field))
    whole = F.size(cells) == F.size("symbols")
    header = F.col("source_line") == 1
    row = F.col("source_line") - 2
    session = F.when(row == 0, 0).otherwise(F.floor((row - 1) / MINUTES_PER_SESSION)).cast("int")
    minute = F.when(row == 0, 0).otherwise(F.pmod(row - 1, F.lit(MINUTES_PER_SESSION)) + 1).cast("int")
    # Spark folds the split text into one constant, but would compile 2600 literals into every task.
    day = F.get(F.split(F.lit(",".join(map(str, days))), ",").cast("array<int>"), session)
    opening = F.lit(f"{day_of(start, 'start')} 09:30:00").cast("timestamp_ntz")
    one_row = F.array(F.struct(F.lit("").alias("symbol"), F.lit("").alias("cell")))
    named_cells = F.zip_with(
        "symbols", cells, lambda symbol, cell: F.struct(symbol.alias("symbol"), cell.alias("cell"))
    )
    lines = (
        records.join(symbols, "source_file", "left")
        .withColumn("reason", F.coalesce("reason", F.when(header, STRUCTURE)))
        .withColumn("reason", first_reason([(F.trim("text") != "", EMPTY), (whole, _WRONG_WIDTH)]))
        .withColumn("ts", opening + F.make_dt_interval(day, F.lit(0), minute))
    )
    cells_of_line = F.when(F.col("reason").isNull(), named_cells).otherwise(one_row)
    exploded = lines.select(
        *(c for c in lines.columns if c != "symbols"), F.posexplode(cells_of_line).alias("piece", "named")
    )
    whole_line = F.col("reason").isNotNull()
    price = number(F.col("named.cell"))
    checks = [
        (F.col("ts").isNotNull(), f"the row lies beyond {_LONGEST_CALENDAR} sessions"),
        (price > 0, "the price is not a positive number"),
    ]
    return exploded.select(
        *PLACE, "piece", F.when(whole_line, F.col("text")).otherwise(F.col("named.cell")).alias("text"),
        first_reason(checks).alias("reason"), "ts", F.col("named.symbol").alias("symbol"),
        price.alias("close"),
    )  # fmt: skip


def _symbols_of_file(records: DataFrame) -> DataFrame:
    """Return ``source_file`` and ``symbols``, the cells of the file's first line."""
    names = F.transform(F.split(F.col("text"), ",", -1), lambda field: F.trim(field))
    headers = records.where("source_line = 1").select("source_file", names.alias("symbols")).collect()
    for file, symbols in headers:
        numbers = [symbol for symbol in symbols if _NUMBER.fullmatch(symbol)]
        if numbers:
            raise HeaderError(
                f"{file}, line 1: expected the names of the columns, found the number {numbers[0]}"
            )
        twice = [symbol for i, symbol in enumerate(symbols) if not symbol or symbol in symbols[:i]]
        if twice:
            raise HeaderError(
                f"{file}, line 1: expected each symbol once, found {twice[0]!r} twice or without a name"
            )
    rows = [tuple(header) for header in headers]
    schema = "source_file string, symbols array<string>"
    return F.broadcast(records.sparkSession.createDataFrame(rows, schema))


def _holidays(holidays: str | Iterable[str | datetime.date]) -> set[datetime.date]:
    days = [day for day in holidays.split(",") if day.strip()] if isinstance(holidays, str) else holidays
    return {day_of(day.strip() if isinstance(day, str) else day, "holidays") for day in days}


def _session_days(start: datetime.date, holidays: set[datetime.date]) -> list[int]:
    """Return the days from ``start`` to each session: 0, 1, 2, 3, 6, … without weekends and holidays."""
    offsets, day = [], 0
    while len(offsets) < _LONGEST_CALENDAR:
        date = start + datetime.timedelta(days=day)
        if date.weekday() < 5 and date not in holidays:
            offsets.append(day)
        day += 1
    return offsets


FORMAT = Format(
    name="nasdaq100",
    description="NASDAQ-100 prices as wide CSV: a line per minute, a column per symbol, times reconstructed",
    columns={"ts": "timestamp_ntz", "symbol": "string", "close": "double"},
    partition_by="symbol",
    order_by=("ts",),
    parse=parse_nasdaq100,
    options={
        "start": Option(
            "the first session, yyyy-mm-dd; by default 2016-07-26", lambda day: day_of(day, "start")
        ),
        "holidays": Option(
            f"weekdays without a session, separated by commas; {','.join(EXCHANGE_HOLIDAYS)}", _holidays
        ),
    },
)
