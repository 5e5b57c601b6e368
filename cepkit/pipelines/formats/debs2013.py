"""Soccer sensors of the DEBS 2013 grand challenge: one event per line, 13 whole numbers, no header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.format import Format, delimited, fields_as, integer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELDS = ("sid", "ts_ps", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az")
COLUMNS = {"ts": "timestamp", **dict.fromkeys(FIELDS, "bigint")}
_DIRECTIONS = ("vx", "vy", "vz", "ax", "ay", "az")
_UNIT = 10_000  # length of a direction


def parse_debs2013(records: DataFrame) -> DataFrame:
    """Return the events of DEBS 2013 lines: ``sid,ts,x,y,z,|v|,|a|,vx,vy,vz,ax,ay,az``.

    Picoseconds exceed 2^53, so they are never floating-point numbers. Events of different sensors can have
    the same ``ts``; sort by ``ts_ps``. The origin of the clock is arbitrary. Here it is the year 1970.
    """
    values = {
        **fields_as(COLUMNS, {name: place for place, name in enumerate(FIELDS)}),
        "ts": F.timestamp_micros(F.expr("picoseconds div 1000000")),
    }
    checks = [
        (F.size("fields") == len(FIELDS), f"expected 13 fields: {', '.join(FIELDS)}"),
        (F.col("sid") > 0, "the sensor is not a positive whole number"),
        (F.col("ts_ps") >= 0, "the time is not in picoseconds"),
        *((F.col(name).isNotNull(), f"{name} is not a whole number") for name in "xyz"),
        *((F.col(name) >= 0, f"{name} is not a whole number") for name in "va"),
        *((F.abs(name) <= _UNIT, f"{name} is not a direction from -10000 to 10000") for name in _DIRECTIONS),
    ]
    return delimited(records, values, checks, helpers={"picoseconds": integer(F.get("fields", 1))})


FORMAT = Format(
    name="debs2013",
    description="soccer sensors of the DEBS 2013 challenge as CSV: sensor, picoseconds, position, speed",
    columns=COLUMNS,
    partition_by="sid",
    order_by=("ts", "ts_ps"),
    parse=parse_debs2013,
)
