"""CityBench traffic: a file per road sensor, a report per line, the names of the fields in the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.pipelines.formats.format import Format, delimited, fields_as, wall_clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADER = "status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"
_TIME = r"^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})$"
_PLACES = {"sensor": 8, "avg_speed": 2, "vehicle_count": 6, "arrival": 7}
COLUMNS = {"ts": "timestamp_ntz", **dict.fromkeys(_PLACES, "bigint")}


def parse_citybench(records: DataFrame) -> DataFrame:
    """Return the reports of CityBench traffic files.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        Of `read_records`.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns of the format. ``ts`` is the time that the file gives, a time without a zone (by the daily
        profile of the traffic it is UTC); ``avg_speed`` in km/h; ``vehicle_count`` in five minutes;
        ``arrival`` the number that the portal's database gave the report.

    Notes
    -----
    Left out: the measured times, which follow from the speed and the length of the road, and the other
    number of the sensor. A report is late when its round came to the database after a newer one: within a
    file that shows only where the file steps back; sort by ``arrival`` to see it over all sensors.
    """
    from pyspark.sql import functions as F

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
