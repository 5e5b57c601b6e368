"""Ingestion of DEBS 2013 soccer sensors and of Dublin's buses, against plain Python."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from cepkit.datasets.city import distance_m
from cepkit.pipelines import ingest, read_report
from cepkit.pipelines.tables import DEBS_FIELDS, SIRI_FIELDS
from tests.support.raw_formats import debs2013_lines, siri_lines

pytest.importorskip("pyspark")

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
NOT_13 = f"expected 13 fields: {', '.join(DEBS_FIELDS)}"
NOT_15 = f"expected 15 fields: {', '.join(SIRI_FIELDS)}"
BAD_SENSORS = {
    "": "the line is empty",
    "61,10634757171903878,27058,-130,-110,178392,2700132,3054,-9332,-1892,4149,-8999": NOT_13,
    "ball,10634757171903878,27058,-130,-110,178392,2700132,3054,-9332,-1892,4149,-8999,1": (
        "the sensor is not a positive whole number"
    ),
    "61,1.0634757171903878e16,27058,-130,-110,178392,2700132,3054,-9332,-1892,4149,-8999,1": (
        "the time is not in picoseconds"
    ),
    "61,10634757171903878,27.5,-130,-110,178392,2700132,3054,-9332,-1892,4149,-8999,1": (
        "x is not a whole number"
    ),
    "61,10634757171903878,27058,-130,-110,-178392,2700132,3054,-9332,-1892,4149,-8999,1": (
        "v is not a whole number"
    ),
    "61,10634757171903878,27058,-130,-110,178392,2700132,30540,-9332,-1892,4149,-8999,1": (
        "vx is not a direction from -10000 to 10000"
    ),
}
BUS = "1359590401000000,13,0,00131005,2013-01-30,3406,CD,0,-6.273923,53.343307,-235,13003,33608,1998,0"
BAD_BUSES = {
    "": "the line is empty",
    BUS + ",7": NOT_15,
    BUS.replace("1359590401000000", "1359590401"): "the time is not in microseconds since 1970",
    BUS.replace(",13,", ",null,", 1): "the report has no bus line",
    BUS.replace("-6.273923", "-186.27"): "lon is not a longitude",
    BUS.replace("53.343307", "null"): "lat is not a latitude",
    BUS.replace("-235", "late"): "the delay is not a whole number",
    BUS.replace("33608", "null"): "the vehicle is not a whole number",
    BUS.removesuffix("0") + "2": "at_stop is neither 0 nor 1",
    BUS.replace(",CD,0,", ",CD,null,"): "congestion is neither 0 nor 1",
}


def read_sensor_line(line: str) -> tuple:
    """Return (ts, sid, ts_ps, ...) of a good line."""
    numbers = [int(text) for text in line.split(",")]
    return EPOCH + datetime.timedelta(microseconds=numbers[1] // 10**6), *numbers


def read_bus_line(line: str) -> tuple:
    """Return the values of a good line, without the distance."""
    texts = [None if text == "null" else text for text in line.split(",")]
    read = {"line": str, "journey_pattern": str, "time_frame": str, "operator": str, "stop": str}
    read |= {"lon": float, "lat": float}
    values = [
        None if text is None else read.get(name, int)(text)
        for name, text in zip(SIRI_FIELDS[1:], texts[1:], strict=True)
    ]
    return EPOCH + datetime.timedelta(microseconds=int(texts[0])), *values


def rows_of(folder: Path, names: list[str]) -> list[tuple]:
    """Return the events of a result by plain pyarrow; files and rows in the order on disk."""
    files = sorted((folder / "events").rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return [tuple(row[name] for name in names) for row in rows]


def with_bad_lines(lines: list[str], bad: dict[str, str], seed: int) -> list[str]:
    rng = random.Random(seed)
    mixed = list(lines)
    for text in [*bad, *rng.choices(list(bad), k=20)]:
        mixed.insert(rng.randrange(len(mixed)), text)
    return mixed


def check_quarantine(folder: Path, lines: list[str], bad: dict[str, str]) -> None:
    rows = pq.read_table(folder / "quarantine").to_pylist()
    found = [(row["source_line"], row["text"], row["reason"]) for row in rows]
    assert sorted(found) == [(i, text, bad[text]) for i, text in enumerate(lines, 1) if text in bad]


@pytest.mark.parametrize("seed", [0])
def test_sensors_agree_with_a_plain_reading(spark, tmp_path, seed):
    good = debs2013_lines(1500, seed=seed)
    lines = with_bad_lines([*good, good[7]], BAD_SENSORS, seed)
    (tmp_path / "game.txt").write_text("\n".join(lines) + "\n")
    report = ingest("debs2013", tmp_path / "game.txt", tmp_path / "out", spark=spark)
    rows = rows_of(tmp_path / "out", ["ts", *DEBS_FIELDS])
    assert rows == [read_sensor_line(line) for line in good]
    assert max(row[2] for row in rows) > 2**53, "the test says nothing about large times"
    check_quarantine(tmp_path / "out", lines, BAD_SENSORS)
    assert (report.n_events, report.n_duplicates, report.n_ties, report.n_late) == (1500, 1, 0, 1)
    assert report.reasons == Counter(BAD_SENSORS[line] for line in lines if line in BAD_SENSORS)
    assert report.first.startswith("1970-01-01 02:57:14")
    assert read_report(tmp_path / "out") == report


@pytest.mark.parametrize("seed", [0])
def test_buses_agree_with_a_plain_reading(spark, tmp_path, seed):
    good = siri_lines(1200, seed=seed)
    lines = with_bad_lines(good, BAD_BUSES, seed)
    (tmp_path / "siri.20130131.csv").write_text("\n".join(lines) + "\n")
    report = ingest("siri", tmp_path, tmp_path / "out", spark=spark)
    names = ["ts", *SIRI_FIELDS[1:]]
    rows = rows_of(tmp_path / "out", names)
    assert sorted(rows, key=str) == sorted(map(read_bus_line, good), key=str)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert any(row[names.index("stop")] is None for row in rows)
    check_quarantine(tmp_path / "out", lines, BAD_BUSES)
    lon, lat, dist = np.array(rows_of(tmp_path / "out", ["lon", "lat", "dist"])).T
    assert dist == pytest.approx(distance_m(lon, lat), abs=1e-6)
    assert (report.n_events, report.n_duplicates, report.n_ties) == (1200, 0, 0)


def test_the_time_zone_of_the_session_does_not_matter(spark, tmp_path):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        (tmp_path / "siri.csv").write_text(BUS + "\n")
        report = ingest("siri", tmp_path / "siri.csv", tmp_path / "out", spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert report.first == "2013-01-31 00:00:01Z"
    assert rows_of(tmp_path / "out", ["dist"])[0][0] == pytest.approx(919.75, abs=0.5)


def test_lines_are_written_as_the_owners_write_them(reference):
    """Generated lines have the fields of the originals: their number, their form, and the text null."""
    raw = reference / "data" / "raw"
    for file, made in (
        ("debs2013_mini_soccer.txt", debs2013_lines(2000, seed=1)),
        ("dublinbus_siri.20130131.csv", siri_lines(2000, seed=1)),
    ):
        original = [line.split(",") for line in (raw / file).read_text().splitlines()]
        ours = [line.split(",") for line in made]
        for theirs, own in zip(zip(*original, strict=True), zip(*ours, strict=True), strict=True):
            # The stop is null in a tenth of all reports, but in none of the first 2,000.
            assert "null" in own or "null" not in theirs
            assert {"." in text for text in theirs} == {"." in text for text in own}


def test_the_original_sensor_file(spark, tmp_path, reference):
    file = reference / "data" / "raw" / "debs2013_mini_soccer.txt"
    lines = file.read_text().splitlines()
    report = ingest("debs2013", file, tmp_path / "out", spark=spark)
    rows = rows_of(tmp_path / "out", ["ts", *DEBS_FIELDS])
    assert rows == [read_sensor_line(line) for line in lines]
    assert (report.n_quarantined, report.n_duplicates, report.n_keys) == (0, 0, 3)
    known = pd.read_parquet(reference / "data" / "debs2013_mini.parquet").head(len(lines))
    assert [row[1:] for row in rows] == list(known.itertuples(index=False, name=None))


def test_the_original_bus_file(spark, tmp_path, reference):
    file = reference / "data" / "raw" / "dublinbus_siri.20130131.csv"
    lines = file.read_text().splitlines()
    report = ingest("siri", file, tmp_path / "out", spark=spark)
    names = ["ts", *SIRI_FIELDS[1:]]
    rows = rows_of(tmp_path / "out", names)
    assert sorted(rows, key=str) == sorted(set(map(read_bus_line, lines)), key=str)
    assert report.n_quarantined == 0 and report.n_duplicates == len(lines) - len(set(lines))
    known = pd.read_parquet(reference / "data" / "dublin_bus_20130131.parquet").head(len(lines))
    of_place = dict(zip(zip(known["lon"], known["lat"], strict=True), known["dist"], strict=True))
    for lon, lat, dist in rows_of(tmp_path / "out", ["lon", "lat", "dist"]):
        assert dist == pytest.approx(float(of_place[lon, lat]), abs=1.0)
