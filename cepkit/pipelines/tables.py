"""Tables of text with an event per line or cell: INET, EODData, NASDAQ-100, CityBench, DEBS 2013, SIRI."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from cepkit.datasets.city import distance_m
from cepkit.pipelines.format import (
    EMPTY,
    PLACE,
    STRUCTURE,
    F,
    Format,
    HeaderError,
    Option,
    day_of,
    delimited,
    fields_as,
    first_reason,
    integer,
    number,
    trimmed_cells,
    wall_clock,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# CityBench traffic: a file per road sensor, with a report per line after a header.

CITYBENCH_HEADER = (
    "status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"
)
_CITYBENCH_TIME = r"^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})$"
_CITYBENCH_PLACES = {"sensor": 8, "avg_speed": 2, "vehicle_count": 6, "arrival": 7}
_CITYBENCH_COLUMNS = {"ts": "timestamp_ntz", **dict.fromkeys(_CITYBENCH_PLACES, "bigint")}


def parse_citybench(records: DataFrame) -> DataFrame:
    """Return the reports of CityBench traffic files."""
    # The result leaves out the measured times, which follow from the speed and the length of the road, and
    # the sensor's other number. A report is late when the database got it after one of a newer round. Within
    # a file this shows only when the time steps back; sort by ``arrival`` to see it over all sensors.
    values = {
        "ts": wall_clock([(F.get("fields", 5), _CITYBENCH_TIME)]),
        **fields_as(_CITYBENCH_COLUMNS, _CITYBENCH_PLACES),
    }
    checks = [
        (F.size("fields") == 9, f"expected 9 fields: {CITYBENCH_HEADER.replace(',', ', ')}"),
        (F.get("fields", 0) == "OK", "the status is not OK"),
        (F.col("ts").isNotNull(), "the time is not yyyy-mm-ddThh:mm:ss"),
        (F.col("sensor") > 0, "REPORT_ID is not a positive whole number"),
        (F.col("avg_speed") >= 0, "avgSpeed is not a whole number"),
        (F.col("vehicle_count") >= 0, "vehicleCount is not a whole number"),
        (F.col("arrival") >= 0, "_id is not a whole number"),
    ]
    return delimited(records, values, checks, header=F.trim("text") == CITYBENCH_HEADER)


CITYBENCH = Format(
    name="citybench",
    description="CityBench road traffic as CSV: a file per sensor, a report every five minutes",
    columns=_CITYBENCH_COLUMNS,
    partition_by="sensor", order_by=("ts", "arrival"), parse=parse_citybench,
)  # fmt: skip


# Soccer sensors of the DEBS 2013 grand challenge: one event per line, 13 whole numbers, no header.

DEBS_FIELDS = ("sid", "ts_ps", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az")
_DEBS_COLUMNS = {"ts": "timestamp", **dict.fromkeys(DEBS_FIELDS, "bigint")}
_DIRECTIONS = ("vx", "vy", "vz", "ax", "ay", "az")
_UNIT = 10_000  # length of a direction


def parse_debs2013(records: DataFrame) -> DataFrame:
    """Return the events of DEBS 2013 lines: ``sid,ts,x,y,z,|v|,|a|,vx,vy,vz,ax,ay,az``."""
    # Picoseconds exceed 2^53, so they are never floating-point numbers. Events of different sensors can have
    # the same ``ts``; sort by ``ts_ps``. The origin of the clock is arbitrary. Here it is the year 1970.
    values = {
        **fields_as(_DEBS_COLUMNS, {name: place for place, name in enumerate(DEBS_FIELDS)}),
        "ts": F.timestamp_micros(F.expr("picoseconds div 1000000")),
    }
    checks = [
        (F.size("fields") == len(DEBS_FIELDS), f"expected 13 fields: {', '.join(DEBS_FIELDS)}"),
        (F.col("sid") > 0, "the sensor is not a positive whole number"),
        (F.col("ts_ps") >= 0, "the time is not in picoseconds"),
        *((F.col(name).isNotNull(), f"{name} is not a whole number") for name in "xyz"),
        *((F.col(name) >= 0, f"{name} is not a whole number") for name in "va"),
        *((F.abs(name) <= _UNIT, f"{name} is not a direction from -10000 to 10000") for name in _DIRECTIONS),
    ]
    return delimited(records, values, checks, helpers={"picoseconds": integer(F.get("fields", 1))})


DEBS2013 = Format(
    name="debs2013",
    description="soccer sensors of the DEBS 2013 challenge as CSV: sensor, picoseconds, position, speed",
    columns=_DEBS_COLUMNS,
    partition_by="sid", order_by=("ts", "ts_ps"), parse=parse_debs2013,
)  # fmt: skip


# EODData minute bars: ``symbol,yyyymmddhhmm,open,high,low,close,volume``, several symbols in a file.

_MINUTE = r"^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})$"
_PRICES = ("open", "high", "low", "close")
_EODDATA_PLACES = {"symbol": 0, "open": 2, "high": 3, "low": 4, "close": 5, "volume": 6}
_EODDATA_COLUMNS = {
    "ts": "timestamp_ntz", "symbol": "string", **dict.fromkeys(_PRICES, "double"), "volume": "bigint",
}  # fmt: skip


def parse_eoddata(records: DataFrame) -> DataFrame:
    """Return the bars of EODData lines."""
    # The integer ``200802010959`` is a time. As numbers, consecutive minutes differ by 1 only within an hour:
    # 09:59 to 10:00 is a step of 41. The zone is not applied: bars of two sessions are as far apart as their
    # wall clocks, even across a change of daylight saving time. In pandas
    # ``ts.dt.tz_localize("America/New_York")`` makes instants.
    values = {
        "ts": wall_clock([(F.get("fields", 1), _MINUTE)]),
        **fields_as(_EODDATA_COLUMNS, _EODDATA_PLACES),
    }
    checks = [
        (F.size("fields") == 7, "expected 7 fields: symbol, time, open, high, low, close, volume"),
        (F.col("symbol") != "", "the symbol is empty"),
        (F.col("ts").isNotNull(), "the time is not yyyymmddhhmm"),
        *((F.col(name) > 0, f"{name} is not a positive number") for name in _PRICES),
        (F.col("high") >= F.col("low"), "high is below low"),
        (F.col("volume") >= 0, "the volume is not a whole number"),
    ]
    return delimited(records, values, checks)


EODDATA = Format(
    name="eoddata",
    description="EODData minute bars as CSV: symbol, yyyymmddhhmm, open, high, low, close, volume",
    columns=_EODDATA_COLUMNS,
    partition_by="symbol", order_by=("ts",), parse=parse_eoddata,
)  # fmt: skip


# INET time-and-sales: ``symbol number size price time side``, a file per day, newest trade first.

# The milliseconds are a number, not a decimal fraction: 14.69 is 14 s and 69 ms.
_INET_TIME = r"^(\d{1,2}):(\d{2}):(\d{2})\.(\d{1,3})$"
_INET_PLACES = {"symbol": 0, "price": 3, "size": 2, "side": 5, "seq": 1}
_INET_COLUMNS = {
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
        **fields_as(_INET_COLUMNS, _INET_PLACES),
    }
    checks = [
        (F.size("fields") == 6, "expected 6 fields: symbol, number, size, price, time, side"),
        (F.col("seq") >= 0, "the trade number is not a whole number"),
        (F.col("size") > 0, "the size is not a positive whole number"),
        (F.col("price") > 0, "the price is not a positive number"),
        (F.col("ts").isNotNull(), "the time is not hours:minutes:seconds.milliseconds"),
        (F.col("side").isin("B", "S"), "the side is neither B nor S"),
    ]
    clock = F.when(F.get("fields", 4).rlike(_INET_TIME), F.split(F.get("fields", 4), "[:.]"))
    divided = F.split(F.trim("text"), r"\s+")
    return delimited(records, values, checks, divided=divided, helpers={"clock": clock})


INET = Format(
    name="inet",
    description="INET time-and-sales text: one trade per line, newest first, milliseconds not padded",
    columns=_INET_COLUMNS,
    partition_by="symbol", order_by=("ts", "seq"), parse=parse_inet,
    options={
        "date": Option(
            "the day of the trades, yyyy-mm-dd (the lines have only times); by default 2000-01-03", day_of
        )
    },
    newest_first=True,
)  # fmt: skip


# The NASDAQ-100 table: a line per minute and a column per symbol. The missing times are reconstructed.

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
    """Return the prices of NASDAQ-100 tables in long form."""
    # The table has no times. Its first row is 09:30 of the first session; after it every session has 390
    # rows, 09:31 to 16:00. Sessions are all weekdays except holidays. Each file is a table with its symbols
    # in the first line, and begins at ``start``. An unreadable line still takes its minute.
    # This rule does not know shortened sessions. After one, compare the overnight jumps before you trust the
    # times.
    days = _session_days(day_of(start, "start"), _holidays(holidays))
    symbols = _symbols_of_file(records)
    cells = trimmed_cells()
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
    names = trimmed_cells()
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
    numbers = np.arange(_LONGEST_CALENDAR)
    sessions = np.busday_offset(start, numbers, roll="forward", holidays=sorted(holidays))
    return (sessions - np.datetime64(start)).astype(int).tolist()


NASDAQ100 = Format(
    name="nasdaq100",
    description="NASDAQ-100 prices as wide CSV: a line per minute, a column per symbol, times reconstructed",
    columns={"ts": "timestamp_ntz", "symbol": "string", "close": "double"},
    partition_by="symbol", order_by=("ts",), parse=parse_nasdaq100,
    options={
        "start": Option(
            "the first session, yyyy-mm-dd; by default 2016-07-26", lambda day: day_of(day, "start")
        ),
        "holidays": Option(
            f"weekdays without a session, separated by commas; {','.join(EXCHANGE_HOLIDAYS)}", _holidays
        ),
    },
)  # fmt: skip


# Bus positions of Dublin's SIRI files: one report per line, 15 columns, no header.

SIRI_FIELDS = (
    "time", "line", "direction", "journey_pattern", "time_frame", "vehicle_journey", "operator", "congestion",
    "lon", "lat", "delay", "block", "vehicle", "stop", "at_stop",
)  # fmt: skip
_TEXTS = ("line", "journey_pattern", "time_frame", "operator", "stop")
_SIRI_COLUMNS = {
    "ts": "timestamp", **{name: "string" if name in _TEXTS else "bigint" for name in SIRI_FIELDS[1:]},
    "lon": "double", "lat": "double", "dist": "double",
}  # fmt: skip


def parse_siri(records: DataFrame) -> DataFrame:
    """Return the reports of SIRI lines."""
    # A missing value is the text ``null`` in the file and NULL here. It occurs in ``journey_pattern``,
    # ``stop`` and ``block``. Reports without a line are no events, because the line is their event type.
    places = {name: place for place, name in enumerate(SIRI_FIELDS)}
    del places["time"]
    missing = F.transform(trimmed_cells(), lambda text: F.when(~F.lower(text).isin("null", ""), text))
    read = fields_as(_SIRI_COLUMNS, places)
    values = {
        **read,
        "ts": F.timestamp_micros(integer(F.get("fields", 0))),
        "dist": distance_m(read["lon"], read["lat"], F),
    }
    checks = [
        (F.size("fields") == len(SIRI_FIELDS), f"expected 15 fields: {', '.join(SIRI_FIELDS)}"),
        (F.col("ts") > F.timestamp_seconds(F.lit(_YEAR_2000)), "the time is not in microseconds since 1970"),
        (F.col("line").isNotNull(), "the report has no bus line"),
        (F.col("lon").between(-180, 180), "lon is not a longitude"),
        (F.col("lat").between(-90, 90), "lat is not a latitude"),
        (F.col("delay").isNotNull(), "the delay is not a whole number"),
        (F.col("vehicle") >= 0, "the vehicle is not a whole number"),
        (F.col("at_stop").isin(0, 1), "at_stop is neither 0 nor 1"),
        (F.col("congestion").isin(0, 1), "congestion is neither 0 nor 1"),
    ]
    return delimited(records, values, checks, divided=missing)


_YEAR_2000 = 946_684_800


SIRI = Format(
    name="siri",
    description="GPS reports of Dublin's buses as CSV (SIRI): a report per bus every 20 seconds",
    columns=_SIRI_COLUMNS,
    partition_by="vehicle", order_by=("ts",), parse=parse_siri,
)  # fmt: skip
