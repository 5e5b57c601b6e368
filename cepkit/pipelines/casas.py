"""CASAS smart homes: sensor events in several layouts with activities, and window attributes as CSV."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cepkit.pipelines.format import (
    F,
    Format,
    HeaderError,
    Option,
    UnknownFormatError,
    day_of,
    delimited,
    number,
    wall_clock,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# CASAS smart homes in several layouts: a sensor event per line, with begins and ends of activities.

BEGIN, END = "begin", "end"

_DATE = r"^(\d{4})-(\d{2})-(\d{2})$"
_TIME = r"^(\d{1,2}):(\d{2}):(\d{2}(?:\.\d{1,6}0*)?)$"
_ASSIGNED = r'^([^=]+)="?(begin|end)"?$'
_MARKER = "^(.+) (begin|end)$"
_STATES = ("ON", "OFF", "OPEN", "CLOSE")
_LAYOUTS = (
    "expected 4 to 8 fields: date, time, sensor, value, or date, time, place, sensor, value, or date, time, "
    "sensor, place, detail, value, kind, and possibly an activity"
)


class Marker(NamedTuple):
    """An event that marks the begin or the end of an activity."""

    activity: str
    begins: bool


class Spans(NamedTuple):
    """The activities that follow from the markers of a file (see `resolve_markers`)."""

    at: list[str | None]  # activity of each marker's own event
    after: list[str | None]  # activity of the events between the marker and the next one
    n_spans: int
    n_inside_others: int
    n_never_ended: int
    n_never_begun: int


def resolve_markers(markers: Iterable[Marker]) -> Spans:
    """Return the activity at each marker and after it."""
    # A span is a begin and the next end of the same activity, without another marker of that activity between
    # them. Both events belong to it. Spans may overlap or contain each other. An event has the activity of
    # the span that began last among the spans around it; when that span ends, the one before it continues. A
    # begin without an end, a begin before the same begin, and an end without a begin give their activity only
    # to their own event.
    markers = list(markers)
    is_paired = [False] * len(markers)
    latest: dict[str, int] = {}
    for i, marker in enumerate(markers):
        before = latest.get(marker.activity)
        if not marker.begins and before is not None and markers[before].begins:
            is_paired[before] = is_paired[i] = True
        latest[marker.activity] = i

    at: list[str | None] = []
    after: list[str | None] = []
    current: list[str] = []  # in the order in which they began; an activity has at most one span at a time
    n_inside_others = 0
    for marker, paired in zip(markers, is_paired, strict=True):
        if paired and marker.begins:
            n_inside_others += bool(current)
            current.append(marker.activity)
        at.append(current[-1] if paired else marker.activity)
        if paired and not marker.begins:
            current.remove(marker.activity)
        after.append(current[-1] if current else None)
    loose = [marker for marker, paired in zip(markers, is_paired, strict=True) if not paired]
    n_never_ended = sum(marker.begins for marker in loose)
    return Spans(at, after, sum(is_paired) // 2, n_inside_others, n_never_ended, len(loose) - n_never_ended)


def parse_casas(records: DataFrame, *, home: str | None = None) -> DataFrame:
    """Return the sensor events of CASAS files."""
    # A line has the fields of one of three layouts, separated by blanks, tabs or commas:
    # - plain, ``date time sensor value [annotation]``: Aruba, Milan, Cairo, and the CSV files of many homes;
    # - labelled, ``date time location sensor value activity``: continuously labelled files;
    # - uci, ``date time sensor location detail value kind [annotation]``: the UCI set, without the detail.
    # An annotation is ``Activity begin``, ``Activity="begin"``, the same with ``end``, or ``Activity`` for
    # one event. ``Bed to toilet begin`` is about Bed_to_toilet. A line of six fields that ends with ``begin``
    # or ``end`` is plain; other lines of six fields are labelled.
    text = F.regexp_replace("text", r"^\s+|[\s,]+$", "")
    n = F.size("fields")
    is_spelled = (n >= 6) & F.lower(F.get("fields", n - 1)).isin(BEGIN, END)
    layout = F.when(is_spelled | n.isin(4, 5), "plain").when(n == 6, "labelled").when(n.isin(7, 8), "uci")

    def place(**index_of_layout: int) -> Column:
        named = F.col("layout")
        return F.coalesce(*(F.when(named == kind, F.get("fields", i)) for kind, i in index_of_layout.items()))

    first_word = F.when(F.col("layout") == "plain", 5).when(F.col("layout") == "uci", 8).otherwise(6)
    words = F.slice("fields", first_word, F.greatest(F.lit(0), n - first_word + 1))
    written = F.array_join(words, "_")
    marked = F.when(is_spelled, F.regexp_replace(written, "(?i)_(begin|end)$", " $1")).otherwise(
        F.regexp_replace(written, f"(?i){_ASSIGNED}", "$1 $2")
    )
    marker = F.lower(F.regexp_extract(marked, "(?i) (begin|end)$", 1))
    annotation = F.when(
        marker != "", F.concat_ws(" ", F.regexp_extract(marked, r"^(\S*) ", 1), marker)
    ).otherwise(F.when(marked != "", marked))

    values = {
        "ts": wall_clock([(F.get("fields", 0), _DATE), (F.get("fields", 1), _TIME)]), "home": home_of(home),
        "sensor": place(plain=2, labelled=3, uci=2), "location": place(labelled=2, uci=3),
        "kind": place(uci=6), "value": place(plain=3, labelled=4, uci=5),
        "level": number(place(plain=3, labelled=4, uci=5)), "annotation": annotation,
    }  # fmt: skip
    checks = [
        (F.col("layout").isNotNull(), _LAYOUTS),
        (F.col("ts").isNotNull(), "the time is not yyyy-mm-dd hh:mm:ss with at most 6 decimals"),
        (F.col("sensor") != "", "the sensor is empty"),
        (F.col("value") != "", "the value is empty"),
        (
            ~F.coalesce("annotation", F.lit("")).rlike("(?i)^ |=|^(begin|end)$"),
            "the annotation is not an activity, or an activity and begin or end",
        ),
    ]
    divided = F.split(text, r"\s*,\s*|\s+", -1)
    return delimited(records, values, checks, divided=divided, helpers={"layout": layout})


def finish_casas(events: DataFrame, *, other: str | None = None) -> tuple[DataFrame, dict]:
    """Return the events with their ``activity``, and notes on the spans for the report."""
    # An event whose annotation is an activity without begin or end has that activity. Other events have the
    # activity of the spans of their file (see `resolve_markers`), in the order of time, then of lines.
    # Only the markers, not the events, come to the driver.
    from pyspark.sql.window import Window

    is_marker = F.coalesce(F.col("annotation").rlike(_MARKER), F.lit(False))
    annotated = events.where(is_marker).select("source_file", "ts", "source_line", "annotation").collect()
    markers_of_file: dict[str, list] = {}
    for row in sorted(annotated):
        markers_of_file.setdefault(row.source_file, []).append(row)
    rows, totals = [], [0] * 4
    for file, markers in markers_of_file.items():
        spans = resolve_markers(_marker(row.annotation) for row in markers)
        totals = [total + n for total, n in zip(totals, spans[2:], strict=True)]
        rows += [
            (file, row.source_line, at, after or "")
            for row, at, after in zip(markers, spans.at, spans.after, strict=True)
        ]
    schema = "source_file string, source_line bigint, at string, after string"
    resolved = events.sparkSession.createDataFrame(rows, schema)
    in_order = Window.partitionBy("source_file").orderBy("ts", "source_line")
    until_here = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    current = F.nullif(F.last("after", ignorenulls=True).over(until_here), F.lit(""))
    named = F.when(~is_marker, F.col("annotation"))
    finished = (
        events.join(F.broadcast(resolved), ["source_file", "source_line"], "left")
        .withColumn("activity", F.coalesce(named, "at", current, F.lit(other).cast("string")))
        .drop("at", "after")
    )
    is_state = F.col("value").isin(*_STATES) | F.col("level").isNotNull()
    counts = finished.agg(
        F.count_if(F.col("activity").isNull() | (F.col("activity") == (other or ""))).alias("none"),
        F.count_if(~is_state).alias("strange"),
        F.count_distinct("activity").alias("activities"),
    ).first()
    notes = {
        "activities": counts.activities, "spans of activities": totals[0],
        "spans that begin in another": totals[1], "begins without an end": totals[2],
        "ends without a begin": totals[3], "events of no activity": counts.none,
        f"values that are no number, {', '.join(_STATES[:-1])} or {_STATES[-1]}": counts.strange,
    }  # fmt: skip
    return finished, notes


def home_of(home: str | None) -> Column:
    """Return the name of the home: ``home``, or each file's name up to its first dot."""
    file_name = F.element_at(F.split("source_file", "/"), -1)
    return F.lit(home) if home else F.regexp_extract(file_name, r"^[^.]+", 0)


def _marker(annotation: str) -> Marker:
    activity, what = annotation.rsplit(" ", 1)
    return Marker(activity, what == BEGIN)


def _name(option: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UnknownFormatError(f"option {option}: {value!r} is not a name")
    return value.strip()


HOME = Option("name of the home; by default the file's name up to its first dot", partial(_name, "home"))
CASAS = Format(
    name="casas",
    description="CASAS smart homes: a sensor event per line, with activities that begin and end",
    columns={
        "ts": "timestamp_ntz", "home": "string", "sensor": "string", "location": "string",
        "kind": "string", "value": "string", "level": "double", "annotation": "string",
        "activity": "string",
    },
    partition_by="home", order_by=("ts",), parse=parse_casas,
    options={
        "home": HOME,
        "other": Option("activity of events outside all spans; by default none", partial(_name, "other")),
    },
    finish=finish_casas,
)  # fmt: skip


# The UCI set of CASAS homes: window attributes per sensor event as CSV, with days but without dates.

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
    """Return the events of ``*.features.csv`` files."""
    # The files have the day of the week and the second of the day, but no dates. The first event of a file is
    # on the day ``start``. From then on the days of the week give the number of days that passed, fewer than
    # seven. So longer gaps become shorter by whole weeks.
    # An event is late when its second is before that of the event before it on the same day of the week. An
    # event that steps back to the day before shifts all later ones by a week.
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


CASAS_FEATURES = Format(
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
