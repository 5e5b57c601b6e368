"""Load shedding in streaming Spark frames: each bucket keeps a latency bound for its own work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.shedding.live_stream import BucketShedding, bucket_shedding
from cepkit.streaming.batches import schema_of
from cepkit.streaming.spark_bucket import Bucket, BucketPlan
from tests.oracle import generate_sequences as gs
from tests.support.sizes import seeds
from tests.support.spark_cases import plain, rows_of
from tests.support.stream_cases import (
    END,
    MS,
    SEQUENCE,
    orders,
    received_in_buckets,
    run_stream,
    stream_of_files,
    with_clock,
    write_files,
)

QUERY = "PATTERN SEQ(a x, b y, c z) WHERE y.v > x.v + 0.4 AND z.v < y.v WITHIN 100000"  # microseconds


def shedding(query, strategy="none", bound=1.0, **given) -> BucketShedding:
    """Return load shedding in virtual time."""
    keywords = {"latency_bound": bound, "shedding": strategy, "warm_up": 200, "weights": None, "seed": 0}
    made = bucket_shedding(query, {**keywords, **given})
    return BucketShedding(made.settings, cep.shedding.VirtualClock)


def ticks_of(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "t": np.cumsum(rng.integers(0, 5, n)) * MS, "n": np.arange(n),
            "kind": rng.choice(list("abcd"), n), "v": rng.random(n), "k": rng.choice([1, 2], n),
        }
    )  # fmt: skip


def opened(frame, strategy, bound, **given) -> Bucket:
    query = cep.sequence_query(QUERY, event_type="kind", order_by=["t", "n"])
    shed = shedding(query, strategy, bound, **given)
    return Bucket(BucketPlan(query, schema_of(frame), 1, shed.identity, shed))


def received(bucket, frame, n_batch, load_every=0) -> tuple[list[tuple], dict[str, float], Bucket]:
    """Return the matches of micro-batches of ``n_batch`` rows, and the sums of what load shedding reports."""
    table, matches, sums = pa.Table.from_pandas(frame, schema=bucket.plan.schema.arrow), [], Counter()
    ends = [*frame["t"].iloc[n_batch::n_batch].tolist(), END]
    for number, end in enumerate(ends):
        got = bucket.receive(table.slice(number * n_batch, n_batch), end)
        matches += [tuple(row.values()) for row in got.matches.to_pylist()]
        named = ("processed", "dropped", "latenc")
        sums.update({name: value for name, value in got.shed.items() if name.startswith(named)})
        sums["most"] = max(sums["most"], got.shed["most_latency"])
        if load_every and number % load_every == 0:
            bucket = Bucket.unpack(bucket.plan, bucket.pack())
    return (
        matches,
        {**sums, **{name: got.shed[name] for name in ("recall_found", "recall_wanted", "learns")}},
        bucket,
    )


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 30))
def test_a_bound_that_nothing_threatens_changes_no_match(seed):
    case = gs.case(seed, seed, ["any", "negation"][seed % 2])
    query = replace(case.query, strategy="any")
    query, frame = with_clock(cep.sequence_query(query), gs.to_frame(case.rows))
    try:
        shed = shedding(query, cep.Darling(), 1000.0, warm_up=5)
        BucketPlan(query, schema_of(frame), 1, {}, shed).open_search()
    except CepError as refused:
        pytest.skip(str(refused))
    n_buckets = 3 if query.partition_by else 1
    for cut in range(2):
        found, accepted, _ = received_in_buckets(query, frame, 100 * seed + cut, n_buckets, shed)
        _, wanted = rows_of(cep.match(accepted, query).to_frame())
        assert Counter(tuple(map(plain, row)) for row in found) == Counter(wanted)


def test_time_alone_completes_a_match_and_ends_partial_matches():
    query = cep.sequence_query(
        "PATTERN SEQ(A a, B b, !C c) WITHIN 3 milliseconds", event_type="kind", order_by="t"
    )
    schema = schema_of({"t": "timestamp[us]", "kind": "string"})
    bucket = Bucket(BucketPlan(query, schema, 1, {}, shedding(query)))
    rows = pa.table({"t": [MS, 2 * MS], "kind": ["A", "B"]}, schema=schema.arrow)
    assert bucket.receive(rows, 3 * MS).matches.num_rows == 0
    assert bucket.counts()["live"] > 0 and bucket.next_timer == 5
    bucket = Bucket.unpack(bucket.plan, bucket.pack())
    assert not bucket.receive(rows.slice(0, 0), 4 * MS).changed
    assert bucket.receive(rows.slice(0, 0), 5 * MS).matches.num_rows == 1
    bucket.receive(rows.slice(0, 0), 9 * MS)
    assert bucket.counts()["live"] == 0 and bucket.next_timer is None
    again = pa.table({"t": [10 * MS, 11 * MS], "kind": ["A", "B"]}, schema=schema.arrow)
    assert bucket.receive(again, 14 * MS).matches.num_rows == 1


@pytest.mark.parametrize("strategy", ["random_input", cep.Darling()], ids=["random", "darling"])
def test_a_bucket_drops_rows_when_a_micro_batch_takes_too_long(strategy):
    frame = ticks_of(2400, 3)
    every, calm, _ = received(opened(frame, "none", 1000.0), frame, 200)
    bound = 80 * calm["most"] / 200  # a micro-batch has 200 rows
    found, shed, _ = received(opened(frame, strategy, bound), frame, 200)
    n_dropped = sum(value for name, value in shed.items() if name.startswith("dropped"))
    n_named = int(frame["kind"].isin(list("abc")).sum())
    assert shed["processed"] + n_dropped == n_named and n_dropped > 100
    assert Counter(found) <= Counter(every) and 0 < len(found) < len(every)
    assert shed["learns"] == 0 and 0 < shed["recall_found"] / shed["recall_wanted"] < 1
    # The first micro-batches teach the strategy; the matches after them keep the bound.
    late = received(opened(frame, "none", bound), frame, 200)[1]
    assert shed["most"] <= 1.2 * bound < late["most"]


@pytest.mark.parametrize("strategy", ["random_input", cep.Darling()], ids=["random", "darling"])
def test_a_saved_bucket_continues_to_shed_as_before(strategy):
    frame = ticks_of(1600, 5)
    bound = 0.4 * received(opened(frame, "none", 1000.0), frame, 160)[1]["most"]
    runs = [received(opened(frame, strategy, bound), frame, 160, load_every=n) for n in (0, 1, 3)]
    assert runs[0][1]["learns"] == 0
    assert any(runs[0][1][f"dropped_{i}"] for i in range(3))
    for matches, shed, _ in runs[1:]:
        assert (matches, shed) == runs[0][:2]


def test_the_state_of_other_settings_is_refused():
    frame = ticks_of(10, 1)
    saved = opened(frame, "random_input", 1.0).pack()
    with pytest.raises(CepError, match=r"another query: latency_bound was 1\.0, and is 2\.0"):
        Bucket.unpack(opened(frame, "random_input", 2.0).plan, saved)


# --- on Spark -----------------------------------------------------------------------------------------------


def test_a_stream_reports_what_it_dropped(spark, tmp_path):
    frame = orders(900, 1)
    write_files(frame, tmp_path / "in", 4, 1, most_late=1)
    stream = stream_of_files(spark, tmp_path / "in", "10 seconds")
    given = {**SEQUENCE, "latency_bound": "1 us", "shedding": "random_input", "warm_up": 20}
    found = stream.cep.match(**given).configure(buckets=2)
    run_stream(found, tmp_path, found.parquet_by_batch(tmp_path / "out"))
    progress = found.progress
    assert progress["dropped_rows"].sum() > 50 and progress["processed_rows"].sum() >= 40
    of_types = [name for name in progress if name.startswith("dropped ")]
    assert of_types == ["dropped A", "dropped B", "dropped C"]
    assert (progress[of_types].sum(axis=1) == progress["dropped_rows"]).all()
    assert progress["buckets_that_learn"].iloc[-1] == 0
    wanted = Counter(rows_of(frame.cep.match(**SEQUENCE).to_frame())[1])
    written = Counter(rows_of(spark.read.parquet(str(tmp_path / "out")).drop("batch"))[1])
    assert sum(written.values()) < sum(wanted.values())
    assert progress["matches"].sum() == sum(written.values())
    assert "shedding     random_input: each bucket finds a match at most 1 ms after" in str(found.explain())
    assert found.plot().data


def test_mistakes_are_errors_before_anything_runs(spark, tmp_path):
    write_files(orders(3, 1), tmp_path / "in", 1, 1)
    stream = stream_of_files(spark, tmp_path / "in", "10 seconds")
    with pytest.raises(CepError, match="shedding='random' needs a latency bound"):
        stream.cep.match(**SEQUENCE, shedding="random")
    with pytest.raises(UnsupportedQueryError, match="event sequences only, and this is a regex query"):
        stream.cep.match(
            ". up", define={"up": "x > 1"}, partition_by="k", order_by=["ts", "n"], within="1 s",
            latency_bound="1 s",
        )  # fmt: skip
    with pytest.raises(CepError, match="latency_bound='0 s': expected a duration above 0"):
        stream.cep.match(**SEQUENCE, latency_bound="0 s")
    with pytest.raises(UnsupportedQueryError, match=r"latency_bound: match drops no event.*cep\.stream\("):
        orders(3, 1).cep.match(**SEQUENCE, latency_bound="1 s")
