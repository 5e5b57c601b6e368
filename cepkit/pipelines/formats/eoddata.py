"""EODData minute bars: ``symbol,yyyymmddhhmm,open,high,low,close,volume``, several symbols in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.pipelines.formats.format import EMPTY, Format, integer, number, parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MINUTE = r"^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})$"
_PRICES = ("open", "high", "low", "close")


def parse_eoddata(records: DataFrame) -> DataFrame:
    """Return the bars of EODData lines.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        Of `read_records`.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns of the format. ``ts`` is the start of the minute as the file gives it: the wall clock of New
        York, a time without a zone.

    Notes
    -----
    The integer ``200802010959`` is read as a time. As numbers, consecutive minutes differ by 1 only within an
    hour: 09:59 to 10:00 is a step of 41.

    The zone is not applied: bars of two sessions are as far apart as their wall clocks, also where a change
    to or from daylight saving time lies between them. In pandas ``ts.dt.tz_localize("America/New_York")``
    makes instants.
    """
    from pyspark.sql import functions as F

    # A column of its own is computed once; inside of other expressions it would be for each use.
    fields = F.transform(F.split(F.col("text"), ",", -1), lambda field: F.trim(field))
    divided = records.withColumn("fields", fields)
    minute = F.get("fields", 1)
    parts = [F.regexp_extract(minute, _MINUTE, group).try_cast("int") for group in range(1, 6)]
    values = {
        "ts": F.try_make_timestamp_ntz(*parts, F.lit(0).cast("decimal(16,6)")),
        "symbol": F.get("fields", 0),
        **{name: number(F.get("fields", i + 2)) for i, name in enumerate(_PRICES)},
        "volume": integer(F.get("fields", 6)),
    }
    return parsed(
        divided,
        values,
        [
            (F.trim("text") != "", EMPTY),
            (F.size("fields") == 7, "expected 7 fields: symbol, time, open, high, low, close, volume"),
            (F.col("symbol") != "", "the symbol is empty"),
            (F.col("ts").isNotNull(), "the time is not yyyymmddhhmm"),
            *((F.col(name) > 0, f"{name} is not a positive number") for name in _PRICES),
            (F.col("high") >= F.col("low"), "high is below low"),
            (F.col("volume") >= 0, "the volume is not a whole number"),
        ],
    ).drop("fields")


FORMAT = Format(
    name="eoddata",
    description="EODData minute bars as CSV: symbol, yyyymmddhhmm, open, high, low, close, volume",
    columns={
        "ts": "timestamp_ntz",
        "symbol": "string",
        "open": "double",
        "high": "double",
        "low": "double",
        "close": "double",
        "volume": "bigint",
    },
    partition_by="symbol",
    order_by=("ts",),
    parse=parse_eoddata,
)
