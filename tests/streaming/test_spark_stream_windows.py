"""Windows on streaming Spark frames: any micro-batches, and the rows of the window over all rows at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, OrderError, UnsupportedQueryError
from cepkit.streaming.batches import schema_of
from cepkit.streaming.spark_bucket import Bucket, BucketPlan
from tests.support.sizes import seeds
from tests.support.spark_cases import plain, rows_of
from tests.support.stream_cases import (
    END,
    MS,
    orders,
    received_in_buckets,
    run_stream,
    stream_of_files,
    write_files,
)
from tests.support.window_cases import AGGREGATES, random_frame

N_CUTS = 3
TICKS = {"t": "timestamp[us]", "g": "string", "x": "int64"}


def window_case(seed: int) -> tuple[cep.Window, pd.DataFrame]:
    """Return a random window, and rows in time with numbers that tell ties apart."""
    rng = np.random.default_rng(seed)
    frame = random_frame(rng, int(rng.integers(1, 50)))
    frame["t"] = (frame.pop("ts") + 10) * MS
    frame = frame.sort_values("t", kind="stable").reset_index(drop=True)
    frame["n"] = np.arange(len(frame))
    size = int(rng.integers(1, 9))
    settings = [
        {"time": size * MS}, {"time": size * MS, "tumbling": True}, {"length": size}, {"tumbling": size},
    ][int(rng.integers(4))]  # fmt: skip
    names = rng.choice(list(AGGREGATES), int(rng.integers(1, 6)), replace=False)
    window = cep.Window(
        {f"the_{name}": AGGREGATES[name][2] for name in names}, **settings, order_by=["t", "n"],
        group_by=[None, "g"][int(rng.integers(2))], where=[None, "k > -50"][int(rng.integers(2))],
        emit=["arrival", "all"][int(rng.integers(2))],
    )  # fmt: skip
    return window, frame


def compared(seed: int) -> tuple[int, int, int]:
    """Compare three cuts with the whole; return how many rows expired, were late, and of loads."""
    window, frame = window_case(seed)
    n_expired = n_late = n_loads = 0
    plan = BucketPlan(window, schema_of(frame))
    for cut in range(N_CUTS):
        n_buckets = 3 if plan.partition_by else 1
        found, accepted, loads = received_in_buckets(window, frame, 1000 * seed + cut, n_buckets)
        _, wanted = rows_of(cep.window(accepted, window))
        assert Counter(tuple(map(plain, row)) for row in found) == Counter(wanted)
        n_expired += sum("expired" in row for row in found)
        n_late += len(frame) - len(accepted)
        n_loads += loads
    return n_expired, n_late, n_loads


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_micro_batches_do_not_matter(seed):
    compared(seed)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_the_cases_have_expired_rows_late_rows_and_loads():
    n_expired, n_late, n_loads = map(sum, zip(*map(compared, range(12)), strict=True))
    assert n_expired > 50 and n_late > 10 and n_loads > 50


def plan(**settings) -> BucketPlan:
    window = cep.Window({"n": "count()"}, order_by="t", **settings)
    return BucketPlan(window, schema_of(TICKS), 1, {"query": repr(window)})


def events(text: str, start: int = 0) -> pa.Table:
    """Return a row per letter, one per millisecond; the letter is the group."""
    columns = {"t": [(start + i) * MS for i in range(len(text))], "g": list(text), "x": [1] * len(text)}
    return pa.table(columns, schema=schema_of(TICKS).arrow)


def shown(table: pa.Table) -> list[tuple]:
    return [(row["g"], row["n"], row.get("status")) for row in table.to_pylist()]


def test_rows_expire_when_the_watermark_passes_their_time():
    bucket = Bucket(plan(time="2 ms", group_by="g", emit="all"))
    assert shown(bucket.receive(events("ABA", 1), 2 * MS).matches) == [("A", 1, "current")]
    got = bucket.receive(events(""), 4 * MS).matches  # the first A leaves before the second one arrives
    assert shown(got) == [("B", 1, "current"), ("A", 0, "expired"), ("A", 1, "current"), ("B", 0, "expired")]
    assert bucket.next_timer == 5
    assert shown(bucket.receive(events(""), 5 * MS).matches) == [("A", 0, "expired")]
    assert bucket.next_timer is None and bucket.counts()["kept"] == 0


def test_an_idle_group_keeps_no_row():
    bucket = Bucket(plan(time="2 ms", group_by="g"))
    bucket.receive(events("AB", 1), 3 * MS)
    assert (bucket.counts()["kept"], bucket.next_timer) == (2, 4)
    got = bucket.receive(events(""), 4 * MS)
    assert got.changed and got.matches.num_rows == 0
    assert bucket.next_timer is None and bucket.counts()["kept"] == 0


def test_the_state_holds_one_window():
    bucket, sizes = Bucket(plan(time="20 ms", group_by="g")), []
    for start in range(0, 5000, 100):
        bucket.receive(events("ABCD" * 25, start), start * MS)
        sizes.append(len(bucket.pack()))
    assert max(sizes[10:]) <= 1.1 * sizes[10]
    bucket.receive(events(""), END)
    assert bucket.counts()["kept"] == 0


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"time": "1 s", "group_by": "g"}, ("g",)),
        ({"tumbling": "1 s", "group_by": "g"}, ("g",)),
        ({"time": "1 s"}, ()),
        ({"length": 3, "group_by": "g"}, ()),
    ],
)
def test_only_windows_of_time_with_groups_have_several_buckets(settings, keys):
    assert plan(**settings).partition_by == keys


def test_ties_of_other_groups_matter_when_rows_count():
    tied = pa.concat_tables([events("A", 1), events("B", 1)])
    by_time, by_rows = Bucket(plan(time="2 ms", group_by="g")), Bucket(plan(length=2, group_by="g"))
    assert by_time.receive(tied, END).matches.num_rows == 2
    with pytest.raises(OrderError, match="ties"):
        by_rows.receive(tied, END)


# --- on Spark -----------------------------------------------------------------------------------------------


def test_a_window_with_late_rows(spark, tmp_path):
    """Expired rows appear, and late rows have a table; streams of sequences, chains and joins start again."""
    frame = orders(300, 1)
    write_files(frame, tmp_path / "in", 4, 1, most_late=300)
    window = cep.Window(
        {"rows": "count()", "total": "sum(x)"}, time="20 s", group_by="k", order_by=["ts", "n"], emit="all"
    )
    found = stream_of_files(spark, tmp_path / "in", "10 seconds").cep.window(window)
    found = found.configure(late="rows", buckets=3)
    run_stream(found, tmp_path, found.parquet_by_batch(tmp_path / "out", late=tmp_path / "late"))
    late = spark.read.parquet(str(tmp_path / "late")).toPandas()
    accepted = frame[~frame["n"].isin(late["n"])]
    wanted = Counter(rows_of(cep.window(accepted, window))[1])
    written = spark.read.parquet(str(tmp_path / "out")).drop("batch")
    assert Counter(rows_of(written)[1]) == wanted
    assert len(late) > 0 and len(wanted) == 2 * len(accepted)
    assert "live_partial_matches" not in found.progress and found.progress["kept"].iloc[-1] == 0
    assert found.plot().data


def test_mistakes_are_errors_before_anything_runs(spark, tmp_path):
    write_files(orders(3, 1), tmp_path / "in", 1, 1)
    schema = "ts timestamp, n bigint, kind string, k string, x bigint, other timestamp"
    plain_stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    stream = plain_stream.withWatermark("ts", "1 minute")
    total = {"total": "sum(x)"}
    with pytest.raises(OrderError, match=r"the stream has no watermark.*withWatermark\('ts'"):
        plain_stream.cep.window(total, time="5 s", group_by="k", order_by="ts")
    with pytest.raises(OrderError, match="order_by begins with 'other', but the watermark is on 'ts'"):
        stream.cep.window(total, time="5 s", group_by="k", order_by="other")
    with pytest.raises(OrderError, match="order_by is missing"):
        stream.cep.window(total, length=5)
    with pytest.raises(UnsupportedQueryError, match="the tasks of Spark are the nodes of a stream"):
        stream.cep.window(total, time="5 s", order_by="ts", engine=cep.ScatterGather(nodes=2))
    rows = stream.cep.window(total, time="5 s", group_by="k", order_by="ts")
    assert "buckets      4 by a hash of k" in str(rows.explain())
    assert repr(rows).startswith(
        "rows of Window({'total': 'sum(x)'}, time='5 s', group_by='k', order_by='ts')"
    )
    assert rows.to_frame().columns == [*stream.columns, "total"]
    for frame in (rows.to_frame(), rows.to_frame().withWatermark("ts", "1 minute")):
        with pytest.raises(UnsupportedQueryError, match=r"has rows of Window.*Give match a chain"):
            frame.cep.match("PATTERN SEQ(A a, B b) WITHIN 9 s", event_type="kind", order_by="ts")
        with pytest.raises(UnsupportedQueryError, match=r"stream\.cep\.window\(…\)\.cep\.match\("):
            frame.cep.window({"more": "count()"}, time="5 s", order_by="ts")
    with pytest.raises(CepError, match="late='yes': write 'count' or 'rows'"):
        rows.configure(late="yes")
    with pytest.raises(UnsupportedQueryError, match="count: a stream has no end"):
        rows.count()
    with pytest.warns(CepWarning, match="counts the rows of all groups together, so a single Spark task"):
        one = stream.cep.window(total, length=5, group_by="k", order_by="ts", emit="all")
    assert "buckets      1: a window of rows counts the rows of all groups" in str(one.explain())
    with pytest.raises(CepError, match="which is one bucket"):
        one.configure(buckets=3)
