"""Streams on Spark: the rate source, clocks without a zone, and values of all types."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cepkit.errors import OrderError
from cepkit.pipelines.spark_session import setting
from tests.support.spark_cases import rows_of
from tests.support.stream_cases import REGEX, orders, run_stream, stream_of_files, write_files

pytest.importorskip("pyspark")

N_ROWS = 40
START = pd.Timestamp("2026-01-01", tz="UTC")
NAN = math.nan


def test_the_rate_source(spark, tmp_path):
    """Its values have no gaps, and each match has the next value of its key."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    stream = rows.selectExpr("timestamp", "value", "value % 4 AS k").withWatermark("timestamp", "1 second")
    found = stream.cep.match(
        "low high", define={"low": "value % 8 < 4", "high": "value == prev(value) + 4"},
        partition_by="k", order_by="timestamp", measures={"first": "first(value)", "last": "last(value)"},
    )  # fmt: skip
    written: list[tuple] = []
    writer = found.writeStream.option("checkpointLocation", str(tmp_path / "state"))
    query = writer.foreachBatch(lambda batch, number: written.extend(rows_of(batch)[1])).start()
    end = time.monotonic() + 120
    while len(written) < 40 and time.monotonic() < end and query.isActive:
        time.sleep(0.2)
    query.stop()
    assert query.exception() is None
    made = sorted((first, last) for _, first, last in written)
    assert len(made) >= 40
    firsts = [first for first, _ in made]
    assert made == [(first, first + 4) for first in firsts]
    # The keys end at different times, so only the last few matches may be missing.
    for key in range(4):
        own = [first for first in firsts if first % 4 == key]
        assert own == list(range(key, own[-1] + 1, 8))


def test_a_clock_without_a_zone(spark, tmp_path):
    """Spark has no watermarks for such times. After a cast they are times in the zone of the session."""
    zone = "America/New_York"
    frame = orders(200, 4)
    frame["ts"] = frame["ts"].dt.tz_localize(None)
    write_files(frame, tmp_path / "in", 3, 4, most_late=8)
    schema = "ts timestamp_ntz, n bigint, kind string, k string, x bigint"
    with setting(spark, "spark.sql.session.timeZone", zone):
        files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        with pytest.raises(OrderError, match=r"'ts' is timestamp_ntz.*cast\('timestamp'\)"):
            files.cep.match(**REGEX)
        stream = files.withColumn("ts", files["ts"].cast("timestamp")).withWatermark("ts", "10 seconds")
        found = stream.cep.match(**REGEX)
        run_stream(found, tmp_path)
        written = rows_of(spark.read.parquet(str(tmp_path / "out")))[1]
    frame["ts"] = frame["ts"].dt.tz_localize(zone)
    assert Counter(written) == Counter(rows_of(frame.cep.match(**REGEX).to_frame())[1])
    assert found.progress["late_rows"].sum() == 0 and found.progress["matches"].sum() > 10


def test_a_checkpoint_goes_on_in_a_session_of_any_zone(spark, tmp_path):
    frame, files, arrived = orders(200, 5), tmp_path / "in", tmp_path / "arrived"
    write_files(frame, arrived, 3, 5, most_late=8)
    files.mkdir()
    paths = sorted(arrived.iterdir())
    for zone, some in (("America/New_York", paths[:1]), ("America/New_York", paths[1:2]), ("UTC", paths[2:])):
        for path in some:
            path.rename(files / path.name)
        with setting(spark, "spark.sql.session.timeZone", zone):
            run_stream(stream_of_files(spark, files, "10 seconds").cep.match(**REGEX), tmp_path)
    written = rows_of(spark.read.parquet(str(tmp_path / "out")))[1]
    assert Counter(written) == Counter(rows_of(frame.cep.match(**REGEX).to_frame())[1])
    assert len(written) > 10


def all_types() -> pa.Table:
    """Return rows of one key, with nulls and extreme values of every plain type."""

    def column(values: list, of: pa.DataType) -> pa.Array:
        return pa.array([values[i % len(values)] for i in range(N_ROWS)], of)

    times = [START + pd.Timedelta(seconds=i) for i in range(N_ROWS)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "n": column([2**62 + 1, -1, None], pa.int64()),
            "small": column([1, None, -128], pa.int8()),
            "real": column([NAN, None, 0.1, -math.inf], pa.float64()),
            "single": column([0.5, NAN, None], pa.float32()),
            "text": column(["é", None, ""], pa.string()),
            "content": column([b"\0", None, b""], pa.binary()),
            "flag": column([True, None, False], pa.bool_()),
            "price": column([Decimal("12345678901234567890.01"), None], pa.decimal128(30, 2)),
            "day": column([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
            "local": column([pd.Timestamp("2026-03-29 02:30"), None], pa.timestamp("us")),
            "pause": column([timedelta(microseconds=1), None, timedelta(days=-9)], pa.duration("us")),
        }
    )  # fmt: skip


def nested_types() -> pa.Table:
    """Return `all_types` with nested columns too."""
    table = all_types()
    lists = pa.array([[[1.5, NAN, None], None, []][i % 3] for i in range(N_ROWS)], pa.list_(pa.float64()))
    structs = pa.array([[{"a": 2**62 + 1}, None, {"a": None}][i % 3] for i in range(N_ROWS)])
    return table.append_column("items", lists).append_column("pair", structs)


@pytest.mark.parametrize("make", [all_types, nested_types])
def test_values_of_every_type_come_back_unchanged(make, spark, tmp_path):
    """Rows of the result and late rows have the values of the stream, without a further Python worker."""
    table = make()
    (tmp_path / "in").mkdir()
    # The third file moves all buckets to the time of the last row. So the rows of the fourth file are late.
    order = {0: range(0, 20), 1: range(25, N_ROWS), 2: [24], 3: range(20, 24)}
    for number, rows in order.items():
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(table.take(pa.array(list(rows), pa.int64())), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    types = spark.createDataFrame(table.slice(0, 0)).schema
    files = spark.readStream.schema(types).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    stream = files.withWatermark("ts", "0 seconds")
    found = stream.cep.window({"rows": "count()"}, time="5 s", group_by="flag", order_by="ts")
    found = found.configure(late="rows", buckets=2)
    written: list[pa.Table] = []
    writer = found.writeStream.option("checkpointLocation", str(tmp_path / "state")).trigger(
        availableNow=True
    )
    writer.foreachBatch(lambda batch, number: written.append(batch.toArrow())).start().awaitTermination()
    plan = found.to_frame()._jdf.queryExecution().analyzed().toString()
    assert plan.count("MapInArrow") == (1 if make is all_types else 2)
    made = pa.concat_tables(written)
    late = pa.chunked_array([made.column("late").drop_null().combine_chunks()])
    results = made.filter(pa.compute.is_valid(made.column("ts")))
    assert results.num_rows + len(late) == N_ROWS - 1 and len(late) == 4
    late_rows = pa.Table.from_struct_array(late)
    both = pa.concat_tables([results.select(table.column_names), late_rows.select(table.column_names)])
    wanted = table.slice(0, N_ROWS - 1).cast(both.schema)
    assert repr(both.sort_by("ts").to_pylist()) == repr(wanted.to_pylist())
