"""Ingestion of CityBench traffic, against plain Python that reads the same lines."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cepkit.pipelines import ingest, read_report
from cepkit.pipelines.tables import CITYBENCH, CITYBENCH_HEADER
from tests.support.raw_formats import citybench_lines

pytest.importorskip("pyspark")

NINE_FIELDS = (
    "expected 9 fields: status, avgMeasuredTime, avgSpeed, extID, medianMeasuredTime, TIMESTAMP, "
    "vehicleCount, _id, REPORT_ID"
)
BAD_LINES = {
    "": "the line is empty",
    "OK,141,52,616,141,2014-08-01T07:50:00,1,20746168": NINE_FIELDS,
    "ERROR,141,52,616,141,2014-08-01T07:50:00,1,20746168,158505": "the status is not OK",
    "OK,141,52,616,141,2014-02-30T07:50:00,1,20746168,158505": "the time is not yyyy-mm-ddThh:mm:ss",
    "OK,141,52,616,141,2014-08-01 07:50,1,20746168,158505": "the time is not yyyy-mm-ddThh:mm:ss",
    "OK,141,52,616,141,2014-08-01T07:50:00,1,20746168,": "REPORT_ID is not a positive whole number",
    "OK,141,fast,616,141,2014-08-01T07:50:00,1,20746168,158505": "avgSpeed is not a whole number",
    "OK,141,52,616,141,2014-08-01T07:50:00,-1,20746168,158505": "vehicleCount is not a whole number",
    "OK,141,52,616,141,2014-08-01T07:50:00,1.5,20746168,158505": "vehicleCount is not a whole number",
    "OK,141,52,616,141,2014-08-01T07:50:00,1,x,158505": "_id is not a whole number",
}
COLUMNS = ("ts", "sensor", "avg_speed", "vehicle_count", "arrival")


def read_line(line: str) -> tuple:
    """Return the values of a good line in the order of ``COLUMNS``."""
    _, _, speed, _, _, time, count, number, sensor = line.split(",")
    return datetime.datetime.fromisoformat(time), int(sensor), int(speed), int(count), int(number)


def rows_of(folder: Path) -> list[tuple]:
    """Return the events of a result by plain pyarrow; files and rows in the order on disk."""
    files = sorted((folder / "events").rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return [tuple(row[name] for name in COLUMNS) for row in rows]


@pytest.mark.parametrize("seed", [0])
def test_citybench_agrees_with_a_plain_reading(spark, tmp_path, seed):
    rng = random.Random(seed)
    source = tmp_path / "streams"
    source.mkdir()
    good, bad, late, n_lines = set(), [], 0, 0
    for sensor in (158505, 210013):
        lines = citybench_lines(300, sensor=sensor, seed=sensor)
        # As in the original files, a few reports come again later.
        lines[150:150] = lines[100:110]
        for text in rng.choices(list(BAD_LINES), k=25):
            lines.insert(rng.randrange(1, len(lines)), text)
        name = f"AarhusTrafficData{sensor}.stream.csv"
        (source / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        newest = datetime.datetime.min
        for number, line in enumerate(lines[1:], start=2):
            n_lines += 1
            if line in BAD_LINES:
                bad.append((name, number, line, BAD_LINES[line]))
                continue
            row = read_line(line)
            late += row[0] < newest
            newest = max(newest, row[0])
            good.add(row)
    out = tmp_path / "out"

    report = ingest("citybench", source, out, spark=spark)

    assert rows_of(out) == sorted(good, key=lambda row: (row[0], row[4], row[1]))
    quarantine = pq.read_table(out / "quarantine").to_pylist()
    found = [(Path(r["source_file"]).name, r["source_line"], r["text"], r["reason"]) for r in quarantine]
    assert sorted(found) == sorted(bad)
    assert report.reasons == Counter(reason for *_, reason in bad)
    assert (report.n_files, report.n_structure, report.n_keys, report.n_ties) == (2, 2, 2, 0)
    assert late > 0 and report.n_late == late
    assert report.n_duplicates == 20
    assert report.n_rows == n_lines == report.n_events + report.n_quarantined + report.n_duplicates
    assert (report.first, report.last) == (
        str(min(good)[0]),
        str(max(good)[0]),
    )
    assert read_report(out) == report


def test_the_format_tells_what_it_is():
    chosen = CITYBENCH
    assert chosen.name == "citybench" and "\n" not in chosen.description
    assert {chosen.partition_by, *chosen.order_by} <= set(chosen.columns)
    assert chosen.columns[chosen.clock] == "timestamp_ntz"


def test_generated_lines_are_written_as_the_portal_writes_them():
    lines = citybench_lines(400, sensor=7, seed=2)
    assert lines[0] == CITYBENCH_HEADER
    rows = [read_line(line) for line in lines[1:]]
    assert {sensor for _, sensor, *_ in rows} == {7}
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert 300 < len(rows) < 400 and all(row[0].second == 0 and row[0].minute % 5 == 0 for row in rows)


def test_the_original_file(spark, tmp_path, reference):
    file = reference / "data" / "raw" / "citybench_AarhusTrafficData158505.stream.csv"
    lines = file.read_text().splitlines()
    assert lines[0] == CITYBENCH_HEADER
    report = ingest("citybench", file, tmp_path / "out", spark=spark)
    rows = rows_of(tmp_path / "out")
    assert rows == sorted({read_line(line) for line in lines[1:]})
    assert (report.n_quarantined, report.n_structure, report.n_keys) == (0, 1, 1)
    known = pq.read_table(
        reference / "data" / "aarhus_traffic.parquet", filters=[("sensor", "=", 158505)]
    ).to_pylist()
    known = {row["ts"]: (row["avg_speed"], row["vehicle_count"]) for row in known}
    assert all(known[ts] == (speed, count) for ts, _, speed, count, _ in rows)
