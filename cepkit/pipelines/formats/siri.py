"""Bus positions of Dublin's SIRI files: one report per line, 15 columns, no header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.datasets.city import CENTER
from cepkit.pipelines import spark_functions as F
from cepkit.pipelines.formats.format import Format, delimited, fields_as, integer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FIELDS = (
    "time", "line", "direction", "journey_pattern", "time_frame", "vehicle_journey", "operator", "congestion",
    "lon", "lat", "delay", "block", "vehicle", "stop", "at_stop",
)  # fmt: skip
_TEXTS = ("line", "journey_pattern", "time_frame", "operator", "stop")
COLUMNS = {
    "ts": "timestamp",
    **{name: "string" if name in _TEXTS else "bigint" for name in FIELDS[1:]},
    "lon": "double",
    "lat": "double",
    "dist": "double",
}


def parse_siri(records: DataFrame) -> DataFrame:
    """Return the reports of SIRI lines.

    A missing value is the text ``null`` in the file and NULL here. It occurs in ``journey_pattern``,
    ``stop`` and ``block``. Reports without a line are no events, because the line is their event type.
    """
    places = {name: place for place, name in enumerate(FIELDS)}
    del places["time"]
    missing = F.transform(
        F.transform(F.split(F.col("text"), ",", -1), lambda text: F.trim(text)),
        lambda text: F.when(~F.lower(text).isin("null", ""), text),
    )
    read = fields_as(COLUMNS, places)
    values = {
        **read,
        "ts": F.timestamp_micros(integer(F.get("fields", 0))),
        "dist": _distance(read["lon"], read["lat"]),
    }
    checks = [
        (F.size("fields") == len(FIELDS), f"expected 15 fields: {', '.join(FIELDS)}"),
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


def _distance(lon: Column, lat: Column) -> Column:
    """Return what `cepkit.datasets.city.distance_m` returns, as a column."""
    middle = F.radians((lat + CENTER[1]) / 2)
    km_lat = 111.13209 - 0.56605 * F.cos(2 * middle) + 0.00120 * F.cos(4 * middle)
    km_lon = 111.41513 * F.cos(middle) - 0.09455 * F.cos(3 * middle) + 0.00012 * F.cos(5 * middle)
    return 1000 * F.hypot(km_lat * (lat - CENTER[1]), km_lon * (lon - CENTER[0]))


FORMAT = Format(
    name="siri",
    description="GPS reports of Dublin's buses as CSV (SIRI): a report per bus every 20 seconds",
    columns=COLUMNS,
    partition_by="vehicle",
    order_by=("ts",),
    parse=parse_siri,
)
