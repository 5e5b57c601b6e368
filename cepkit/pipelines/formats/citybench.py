"""CityBench traffic: a file per road sensor, with a report per line after a header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.format import Format, delimited, fields_as, wall_clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADER = "status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"
_TIME = r"^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})$"
_PLACES = {"sensor": 8, "avg_speed": 2, "vehicle_count": 6, "arrival": 7}
COLUMNS = {"ts": "timestamp_ntz", **dict.fromkeys(_PLACES, "bigint")}


def parse_citybench(records: DataFrame) -> DataFrame:
    """Return the reports of CityBench traffic files.

    The result leaves out the measured times, which follow from the speed and the length of the road, and
    the sensor's other number. A report is late when the database got it after one of a newer round. Within
    a file this shows only when the time steps back; sort by ``arrival`` to see it over all sensors.
    """
    values = {"ts": wall_clock([(F.get("fields", 5), _TIME)]), **fields_as(COLUMNS, _PLACES)}
    checks = [
        (F.size("fields") == 9, f"expected 9 fields: {HEADER.replace(',', ', ')}"),
        (F.get("fields", 0) == "OK", "the status is not OK"),
        (F.col("ts").isNotNull(), "the time is not yyyy-mm-ddThh:mm:ss"),
        (F.col("sensor") > 0, "REPORT_ID is not a positive whole number"),
        (F.col("avg_speed") >= 0, "avgSpeed is not a whole number"),
        (F.col("vehicle_count") >= 0, "vehicleCount is not a whole number"),
        (F.col("arrival") >= 0, "_id is not a whole number"),
    ]
    return delimited(records, values, checks, header=F.trim("text") == HEADER)


FORMAT = Format(
    name="citybench",
    description="CityBench road traffic as CSV: a file per sensor, a report every five minutes",
    columns=COLUMNS,
    partition_by="sensor",
    order_by=("ts", "arrival"),
    parse=parse_citybench,
)
