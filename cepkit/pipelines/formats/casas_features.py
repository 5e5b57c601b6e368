"""The UCI set of CASAS homes: window attributes per sensor event as CSV, with days but without dates."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.casas import HOME, home_of
from cepkit.pipelines.formats.format import Format, HeaderError, Option, day_of, delimited, number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AREAS = (
    *("Bathroom", "Bedroom", "Chair", "DiningRoom", "Hall", "Ignore", "Kitchen", "LivingRoom", "Office"),
    *("OutsideDoor", "WorkArea"),
)
# Name in the file -> column.
ATTRIBUTES = {
    "lastSensorEventHours": "last_event_hour", "lastSensorEventSeconds": "last_event_seconds",
    "lastSensorDayOfWeek": "day_of_week", "windowDuration": "window_duration",
    "timeSinceLastSensorEvent": "since_last_event", "prevDominantSensor1": "prev_dominant1",
    "prevDominantSensor2": "prev_dominant2", "lastSensorID": "last_sensor_id",
    "lastSensorLocation": "last_sensor_location", "lastMotionLocation": "last_motion_location",
    "complexity": "complexity", "activityChange": "activity_change",
    "areaTransitions": "area_transitions", "numDistinctSensors": "num_distinct_sensors",
    **{f"sensorCount-{area}": f"count_{area}" for area in AREAS},
    **{f"sensorElTime-{area}": f"elapsed_{area}" for area in AREAS},
}  # fmt: skip
NAMES = (*ATTRIBUTES, "activity")
HEADER = ",".join(NAMES)
FIRST_DAY = "2011-01-03"


def parse_casas_features(
    records: DataFrame, *, start: str | datetime.date = FIRST_DAY, home: str | None = None
) -> DataFrame:
    """Return the events of ``*.features.csv`` files.

    The files have the day of the week and the second of the day, but no dates. The first event of a file is
    on the day ``start``. From then on the days of the week give the number of days that passed, fewer than
    seven. So longer gaps become shorter by whole weeks.

    An event is late when its second is before that of the event before it on the same day of the week. An
    event that steps back to the day before shifts all later ones by a week.
    """
    from pyspark.sql.window import Window

    first_day = day_of(start, "start")
    _check_headers(records)
    columns = list(ATTRIBUTES.values())
    values = {
        "home": home_of(home),
        "row": F.col("source_line") - 1,
        **{column: number(F.get("fields", i)) for i, column in enumerate(columns)},
        "activity": F.get("fields", len(columns)),
    }
    checks = [
        (F.size("fields") == len(NAMES), f"expected {len(NAMES)} fields as in the first line"),
        (F.col("last_event_seconds").between(0, 86_399.999999), "the second is not one of a day"),
        (F.col("day_of_week").isin(*range(7)), "the day of the week is not one of 0 to 6"),
        *((F.col(column).isNotNull(), f"{name} is not a number") for name, column in ATTRIBUTES.items()),
        (F.col("activity") != "", "the activity is empty"),
    ]
    checked = delimited(records, values, checks, header=F.col("source_line") == 1)
    of_file = Window.partitionBy("source_file").orderBy("source_line")
    weekday = F.when(F.col("reason").isNull(), F.col("day_of_week"))
    before = F.last(weekday, ignorenulls=True).over(of_file.rowsBetween(Window.unboundedPreceding, -1))
    steps = F.coalesce(F.pmod(weekday - before, F.lit(7)), F.lit(0)).cast("int")
    day = F.sum("steps").over(of_file.rowsBetween(Window.unboundedPreceding, Window.currentRow)).cast("int")
    seconds = F.col("last_event_seconds").cast("decimal(18,6)")
    midnight = F.lit(f"{first_day} 00:00:00").cast("timestamp_ntz")
    time = midnight + F.make_dt_interval(day, F.lit(0), F.lit(0), seconds)
    ts = F.when(F.col("reason").isNull(), time)
    return checked.withColumn("steps", steps).withColumn("ts", ts).drop("steps")


def _check_headers(records: DataFrame) -> None:
    """Raise HeaderError unless the first line of every file is `HEADER`."""
    for file, text in records.where("source_line = 1").select("source_file", "text").collect():
        names = [name.strip() for name in text.split(",")]
        for i, wanted in enumerate(NAMES):
            actual = names[i] if i < len(names) else "nothing"
            if actual != wanted:
                raise HeaderError(f"{file}, line 1, column {i + 1}: expected {wanted!r}, found {actual!r}")
        if len(names) > len(NAMES):
            raise HeaderError(f"{file}, line 1: expected {len(NAMES)} columns, found {len(names)}")


FORMAT = Format(
    name="casas_features",
    description="CASAS window attributes as CSV (UCI set): a sensor event per line, days counted",
    columns={
        "ts": "timestamp_ntz", "home": "string", "row": "bigint", "activity": "string",
        **dict.fromkeys(ATTRIBUTES.values(), "double"),
    },
    partition_by="home", order_by=("ts", "row"), parse=parse_casas_features,
    options={
        "start": Option(
            f"day of the first event of each file, yyyy-mm-dd; {FIRST_DAY}", lambda day: day_of(day, "start")
        ),
        "home": HOME,
    },
)  # fmt: skip
