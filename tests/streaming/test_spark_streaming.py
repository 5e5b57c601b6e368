"""Queries on streaming Spark frames: any micro-batches, any crash, and the matches of all rows at once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, OrderError, UnsupportedQueryError
from cepkit.streaming import saved as saved_files
from cepkit.streaming.batches import schema_of
from cepkit.streaming.spark_bucket import Bucket, BucketPlan
from cepkit.streaming.spark_tasks import draw_progress, progress_frame
from tests.support.killed_streams import DAMAGES
from tests.support.killing import WORKER, kill_one
from tests.support.sizes import seeds
from tests.support.spark_cases import plain, rows_of
from tests.support.stream_cases import (
    END,
    MS,
    REGEX,
    SEQUENCE,
    orders,
    received_in_buckets,
    regex_case,
    run_stream,
    sequence_case,
    stream_of_files,
    with_clock,
    write_files,
)  # fmt: skip

N_CUTS = 3
QUIET = pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")


# --- buckets, without Spark ---------------------------------------------------------------------------------


def is_strict(query) -> bool:
    return getattr(query, "strategy", "") == "strict" or "strict" in str(query)


@QUIET
@pytest.mark.parametrize("make", [regex_case, sequence_case], ids=["regex", "sequence"])
@pytest.mark.parametrize("seed", seeds(4, 165))
def test_micro_batches_do_not_matter(seed, make):
    """165 queries of each kind, some refused; each with three cuts, late rows and saved buckets."""
    try:
        query, frame = with_clock(*make(seed))
        BucketPlan(query, schema_of(frame)).open_search()
    except CepError as refused:
        pytest.skip(str(refused))
    for cut in range(N_CUTS):
        n_buckets = 1 if is_strict(query) or not query.partition_by else 3
        found, accepted, _ = received_in_buckets(query, frame, 1000 * seed + cut, n_buckets)
        _, wanted = rows_of(cep.match(accepted, query).to_frame())
        assert Counter(tuple(map(plain, row)) for row in found) == Counter(wanted)


@QUIET
def test_the_cases_have_matches_late_rows_and_loads():
    n_found, n_late, n_loads = 0, 0, 0
    for seed in range(12):
        for make in (regex_case, sequence_case):
            try:
                query, frame = with_clock(*make(seed))
                found, accepted, loads = received_in_buckets(query, frame, seed, 1)
            except CepError:
                continue
            n_found, n_late, n_loads = (
                n_found + bool(found),
                n_late + len(frame) - len(accepted),
                n_loads + loads,
            )
    assert n_found >= 6 and n_late >= 10 and n_loads >= 50


KINDS = "PATTERN SEQ(A a, B b, !C c) WITHIN 3 milliseconds"
TICKS = {"t": "timestamp[us]", "kind": "string", "k": "int64"}


def plan(text=KINDS, schema=TICKS, identity=None, **more):
    given = {"order_by": "t", "event_type": "kind", **more}
    query = cep.sequence_query(text, **given)
    return BucketPlan(query, schema_of(schema), 1, identity or {"query": text})


def events(text: str, start: int = 0, k: int = 0) -> pa.Table:
    """Return an event per letter, one per millisecond."""
    columns = {"t": [(start + i) * MS for i in range(len(text))], "kind": list(text), "k": [k] * len(text)}
    return pa.table(columns, schema=schema_of(TICKS).arrow)


def test_a_row_waits_for_the_watermark():
    bucket = Bucket(plan("PATTERN SEQ(A a, B b) WITHIN 3 milliseconds"))
    got = bucket.receive(events("AB", 1), None)
    assert (got.matches.num_rows, got.changed, bucket.next_timer) == (0, True, 2)
    assert bucket.receive(events("", 0), 2 * MS).matches.num_rows == 0
    got = bucket.receive(events("", 0), 3 * MS)
    assert got.matches.num_rows == 1 and bucket.counts()["held"] == 0


def test_time_alone_completes_a_match_that_an_absent_event_could_forbid():
    bucket = Bucket(plan())
    bucket.receive(events("AB", 1), None)
    assert bucket.receive(events("", 0), 3 * MS).matches.num_rows == 0
    assert bucket.next_timer == 5  # the first millisecond after the window
    assert not bucket.receive(events("", 0), 4 * MS).changed
    assert bucket.receive(events("", 0), 5 * MS).matches.num_rows == 1
    assert bucket.receive(events("", 0), END).matches.num_rows == 0
    assert bucket.counts() == {"held": 0, "kept": 0, "live": 0} and bucket.next_timer is None


def test_a_late_row_is_returned_and_not_searched():
    bucket = Bucket(plan("PATTERN SEQ(A a, B b) WITHIN 9 milliseconds"))
    bucket.receive(events("A", 1), 2 * MS)
    got = bucket.receive(events("BB", 1), 4 * MS)
    assert got.late.column("t").to_pylist() == events("B", 1).column("t").to_pylist()
    assert got.matches.num_rows == 1


def test_ties_and_missing_times_are_errors():
    bucket = Bucket(plan())
    bucket.receive(events("A", 1), None)
    bucket.receive(events("B", 1), None)
    with pytest.raises(OrderError, match="ties"):
        bucket.receive(events("", 0), END)
    rows = events("A").set_column(0, "t", pa.array([None], pa.timestamp("us")))
    with pytest.raises(OrderError, match="null in 1 of 1 rows"):
        Bucket(plan()).receive(rows, None)


def test_the_state_of_another_query_is_refused(monkeypatch):
    bucket = Bucket(plan())
    bucket.receive(events("AB", 1), None)
    saved = bucket.pack()
    assert Bucket.unpack(plan(), saved).pack() == saved
    with pytest.raises(CepError, match=r"the state of another query: query was .*, and is 'other'"):
        Bucket.unpack(plan(identity={"query": "other"}), saved)
    monkeypatch.setattr(saved_files, "FORMAT_VERSION", 9)
    with pytest.raises(CepError, match="another version of cepkit wrote the checkpoint of the stream"):
        Bucket.unpack(plan(), saved)
    monkeypatch.undo()
    with pytest.raises(CepError, match="not a state file of cepkit, or it is damaged"):
        Bucket.unpack(plan(), saved[:100])


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_damage_of_the_state_is_said(seed, tmp_path):
    """Damage that changes the state is a `CepError`, also where a part vanishes without a trace."""
    bucket, random = Bucket(plan()), Random(seed)
    bucket.receive(events("ABABAB", 1), None)
    bucket.receive(events("", 0), 4 * MS)
    saved, n_said = bucket.pack(), 0
    for number in range(200):
        content = DAMAGES[random.choice([*DAMAGES])](saved, random)
        try:
            assert Bucket.unpack(plan(), content).pack() == saved
        except CepError:
            n_said += 1
        if number % 10 == 0:
            path = tmp_path / "state"
            path.write_bytes(content)
            try:
                saved_files.load_file(path, "bucket of a Spark stream")
            except CepError as error:
                assert str(path) in str(error)
    assert n_said > 180
    with pytest.raises(FileNotFoundError):
        saved_files.load_file(tmp_path / "other", "bucket of a Spark stream")


def test_the_state_does_not_grow_with_the_stream():
    bucket, sizes = Bucket(plan("PATTERN SEQ(A a, B b) WITHIN 20 milliseconds")), []
    for start in range(0, 10_000, 100):
        bucket.receive(events("AXBX" * 25, start), start * MS)
        sizes.append(len(bucket.pack()))
    assert max(sizes[10:]) <= 1.1 * sizes[10]


class OneBatch:
    """A query that reports its first micro-batch, which has no watermark yet."""

    class Observed:
        def asDict(self):
            return dict.fromkeys(("late", "found", "kept", "live", "state_bytes"), 0) | {
                "rows": 3, "held": 3, "n_buckets": 1
            }  # fmt: skip

    recentProgress = [  # noqa: RUF012
        {"batchId": 0, "timestamp": "2026-01-01T00:00:00.000Z", "durationMs": {},
         "observedMetrics": {"me": Observed()},
         "eventTime": {"max": "2026-01-01T00:00:09.000Z", "watermark": "1970-01-01T00:00:00.000Z"}}
    ]  # fmt: skip


def test_the_progress_of_a_first_micro_batch_has_no_watermark():
    progress = progress_frame([OneBatch()], "me", 1)
    assert progress["rows"].tolist() == [3] and progress["held"].tolist() == [3]
    assert progress["watermark"].isna().all() and progress["watermark_lag"].isna().all()
    assert progress["watermark_lag"].dtype == "timedelta64[ms]"


def test_the_progress_over_connect_lacks_what_is_null(monkeypatch):
    """Spark Connect reads a report as JSON, which has no entries for nulls."""
    monkeypatch.setattr(OneBatch.Observed, "asDict", lambda _: {"rows": 3})
    progress = progress_frame([OneBatch()], "me", 1)
    assert progress[["rows", "late_rows", "matches"]].to_numpy().tolist() == [[3, 0, 0]]
    assert progress["held"].isna().all()
    assert len(draw_progress(progress, "a stream").data) > 0
    shed = progress_frame([OneBatch()], "me", 1, ["A"])
    assert shed["dropped_rows"].tolist() == shed["dropped A"].tolist() == [0]


def test_spark_spreads_buckets_evenly():
    pytest.importorskip("pyspark")
    from cepkit.streaming.spark_tasks import _spark_hash, labels_of_buckets

    assert [_spark_hash(value) for value in (0, 1, 42)] == [933211791, -559580957, 29417773]
    labels = labels_of_buckets(8, 4)
    assert sorted(_spark_hash(label) % 4 for label in labels) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(labels_of_buckets(n, m)[0] == 0 for n in (1, 5) for m in (1, 2, 7))


def operator(of_plan):
    """Return Spark's operator on buckets with state and timers in memory."""
    tester = pytest.importorskip("pyspark.sql.streaming.tws_tester")
    from cepkit.streaming.spark_tasks import BucketProcessor, Sending

    processor = BucketProcessor(of_plan, Sending(of_plan.open_search().empty.schema))
    return tester.TwsTester(processor, timeMode="EventTime", eventTimeExtractor=lambda row: 2**62)


def as_rows(table: pa.Table | None) -> pd.DataFrame:
    from cepkit.streaming.spark_tasks import as_stream

    return pd.DataFrame({"rows": [None if table is None else as_stream(table)]}, dtype=object)


def test_timers_and_state_of_the_operator():
    found = operator(plan())
    made = found.testInPandas(0, as_rows(events("AB", 1)))
    assert (made["rows"][0], made["held"][0], made["found"][0]) == (2, 2, 0)
    assert found.setWatermark(3)["found"].tolist() == [0]  # both rows are searched, and the match waits
    assert len(found.setWatermark(4)) == 0
    made = found.setWatermark(5)
    assert (made["found"][0], made["kept"][0]) == (1, 2)  # for two windows, as matches of this query wait
    assert found.setWatermark(10)["kept"].tolist() == [0]
    assert len(found.setWatermark(10**9)) == 0, "no timer is left"
    made = found.testInPandas(0, as_rows(events("A", 1)))
    assert (made["rows"][0], made["late"][0]) == (1, 1)


def test_every_bucket_has_state_and_refuses_that_of_another_query():
    found, other = operator(plan()), operator(plan(identity={"query": "other"}))
    found.testInPandas(0, as_rows(None))
    for name in ("token", "content"):
        other.updateValueState(name, 0, found.peekValueState(name, 0))
    with pytest.raises(CepError, match="the state of another query"):
        other.testInPandas(0, as_rows(None))


def test_a_bucket_in_memory_serves_only_the_state_that_it_saved():
    """A task that fails after its work is repeated: then Spark's state is older than the bucket."""
    found = operator(plan("PATTERN SEQ(A a, B b) WITHIN 9 milliseconds"))
    found.testInPandas(0, as_rows(events("A", 1)))
    before = {name: found.peekValueState(name, 0) for name in ("token", "content")}
    for _ in range(2):  # the second time, with the state from before
        for name, value in before.items():
            found.updateValueState(name, 0, value)
        made = found.testInPandas(0, as_rows(events("B", 2)))
        assert made["held"][0] == 2
    assert found.setWatermark(100)["found"].dropna().tolist() == [1]


# --- on Spark -----------------------------------------------------------------------------------------------


def rows_written(spark, folder) -> Counter:
    """Return the rows of a Parquet folder, without the number of the batch."""
    frame = spark.read.parquet(str(folder)).drop("batch")
    return Counter(rows_of(frame)[1])


def rows_wanted(frame, query) -> Counter:
    if "PATTERN" in query["query"]:  # the watermark passes the last event in the end
        query = {**query, "complete_until": "end"}
    return Counter(rows_of(frame.cep.match(**query).to_frame())[1])


def test_a_sequence_with_late_rows_and_a_restart(spark, tmp_path):
    frame = orders(600, 1)
    write_files(frame, tmp_path / "in", 2, 1)
    later = [path.name for path in sorted((tmp_path / "in").iterdir())[1:]]
    for name in later:  # these arrive while the stream is down
        (tmp_path / "in" / name).rename(tmp_path / name)

    def opened():
        return (
            stream_of_files(spark, tmp_path / "in", "10 seconds").cep.match(**SEQUENCE).configure(late="rows")
        )

    found = opened()
    assert "in a streaming Spark frame, partitioned by k: k: string, a_ts: timestamp" in repr(found)
    assert repr(found).endswith("nothing has run yet")
    assert "buckets      4 by a hash of k" in str(found.explain())
    sink = found.parquet_by_batch(tmp_path / "out", late=tmp_path / "late")
    run_stream(found, tmp_path, sink)
    before = found.progress
    assert before["rows"].sum() == 300
    for name in later:
        (tmp_path / name).rename(tmp_path / "in" / name)
    again = opened()
    run_stream(again, tmp_path, sink)
    progress = again.progress
    late = spark.read.parquet(str(tmp_path / "late")).toPandas()
    n_late = before["late_rows"].sum() + progress["late_rows"].sum()
    assert 0 < n_late == len(late) < 100
    accepted = frame[~frame["n"].isin(late["n"])]
    wanted = rows_wanted(accepted, SEQUENCE)
    assert rows_written(spark, tmp_path / "out") == wanted and len(wanted) > 20
    assert before["matches"].sum() + progress["matches"].sum() == sum(wanted.values())
    last = progress.iloc[-1]
    assert (last["rows"], last["held"], last["kept"]) == (0, 1, 0)  # time alone ended the last windows
    assert progress["watermark_lag"].iloc[-1] == pd.Timedelta("10s") and (progress["state_bytes"] > 0).all()


def test_a_regex_with_a_sink_that_fails_once_another_query_and_damage(spark, tmp_path):
    frame = orders(600, 2)
    write_files(frame, tmp_path / "in", 2, 2, most_late=8)
    stream = stream_of_files(spark, tmp_path / "in", "10 seconds")
    found = stream.cep.match(**REGEX)
    write, calls = found.parquet_by_batch(tmp_path / "out"), []

    def fails_once(batch, number):
        calls.append(number)
        if calls == [0, 1]:
            write(batch.limit(3), number)  # a half-written batch
            raise OSError("the disk is full")
        write(batch, number)

    with pytest.raises(Exception, match="the disk is full"):
        run_stream(found, tmp_path, fails_once)
    run_stream(stream.cep.match(**REGEX), tmp_path, fails_once)
    assert calls[:3] == [0, 1, 1]
    assert rows_written(spark, tmp_path / "out") == rows_wanted(frame, REGEX)

    write_files(orders(50, 3), tmp_path / "more", 1, 3)
    for path in (tmp_path / "more").iterdir():
        path.rename(tmp_path / "in" / f"9{path.name}")
    other = stream.cep.match(**{**REGEX, "query": ". up{1,2} down"})
    with pytest.raises(CepError, match=r"^the checkpoint holds the state of another query: query was .*1,3"):
        run_stream(other, tmp_path, write)
    changed = stream.withColumn("x", stream["x"].cast("double")).cep.match(**REGEX)
    with pytest.raises(CepError, match=r"of another query: columns was .*x: int64.* and is .*x: double"):
        run_stream(changed, tmp_path, write)
    state, said = tmp_path / "state", "^the checkpoint of the stream is damaged: .*Restore the folder"
    parts = [path for path in state.glob("state/0/*/*.zip") if not path.name.startswith(".")]
    newest = max(state.glob("commits/*[0-9]"), key=lambda path: int(path.name))
    for paths in (parts, [newest], [state / "metadata"]):
        for path in paths:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        with pytest.raises(CepError, match=said):
            run_stream(stream.cep.match(**REGEX), tmp_path, write)


@QUIET
def test_mistakes_are_errors_before_anything_runs(spark, tmp_path):
    write_files(orders(3, 1), tmp_path / "in", 1, 1)
    schema = "ts timestamp, n bigint, kind string, k string, x bigint, other timestamp"
    plain_stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    stream = plain_stream.withWatermark("ts", "1 minute")
    with pytest.raises(OrderError, match=r"the stream has no watermark.*withWatermark\('ts'"):
        plain_stream.cep.match(**REGEX)
    with pytest.raises(OrderError, match="order_by begins with 'other', but the watermark is on 'ts'"):
        stream.cep.match(**{**REGEX, "order_by": "other"})
    with pytest.raises(OrderError, match="order_by is missing"):
        stream.cep.match(". up", define={"up": "x > 1"})
    with pytest.raises(UnsupportedQueryError, match=r"the query has no window.*WITHIN 1 hour"):
        stream.cep.match("PATTERN SEQ(A a, B+ b[])", event_type="kind", order_by="ts")
    loops = stream.cep.match(**{**REGEX, "query": ". up+ down"})
    with pytest.raises(UnsupportedQueryError, match=r"have no greatest length.*within='1 hour'"):
        loops.to_frame()
    assert loops.configure(unbounded=True).to_frame().isStreaming
    bounded = stream.cep.match(**REGEX, within="1 hour")
    assert bounded.to_frame().columns == ["k", "begin", "end", "rows", "top"]
    with pytest.raises(UnsupportedQueryError, match="'strict' before 'b'"):
        strict = "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1 hour"
        stream.cep.match(strict, strategy="strict", event_type="kind", order_by="ts")
    with pytest.raises(UnsupportedQueryError, match="engine='chain': a stream chooses its engine itself"):
        stream.cep.match(**REGEX, engine="chain")
    with pytest.raises(CepError, match="late='yes': write 'count' or 'rows'"):
        loops.configure(late="yes")
    with pytest.raises(UnsupportedQueryError, match="count: a stream has no end"):
        loops.count()
    with pytest.raises(UnsupportedQueryError, match="tag: a stream has no end"):
        stream.cep.tag(**REGEX)
    with pytest.warns(CepWarning, match="without partition_by all events are one stream"):
        one = stream.cep.match("PATTERN SEQ(A a, B b) WITHIN 1 hour", event_type="kind", order_by="ts")
    assert one.n_buckets == 1 and "1: without partition_by" in str(one.explain())
    with pytest.raises(CepError, match="which is one bucket"):
        one.configure(buckets=3)


def start_job(kind: str, folder: Path, sink: str) -> subprocess.Popen:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "tests.support.stream_job", kind, str(folder), sink]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            command, cwd=root, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def kill(process: subprocess.Popen) -> None:
    """Kill a program and its JVM as a crash of the machine does."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_start(process: subprocess.Popen, folder: Path, n_before: int) -> None:
    """Wait until the job of this folder has opened its stream after ``n_before`` crashes, or has ended."""
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end:
        if (folder / "log").read_text(errors="replace").count("the stream has started") > n_before:
            return
        time.sleep(0.1)


def n_batches(folder: Path) -> int:
    """Return the number of micro-batches that a stream has finished."""
    return len([path for path in (folder / "state" / "commits").glob("*") if path.name.isdigit()])


def wait_for_batch(process: subprocess.Popen, folder: Path, n_wanted: int) -> None:
    """Wait until the stream has finished this number of micro-batches, or the job has ended."""
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end and n_batches(folder) < n_wanted:
        time.sleep(0.05)


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_a_killed_driver_loses_and_doubles_nothing(seed, spark, tmp_path, full):
    """Five kills in each of ten streams with ``--full``, one kill without.

    A kill comes at a random moment of one of the next two micro-batches, or while the stream opens. What is
    left at the end runs in the session of the tests, from the same checkpoint.
    """
    kind, sink = [("sequence", "file"), ("regex", "by batch")][seed % 2]
    query = {"sequence": SEQUENCE, "regex": REGEX}[kind]
    rng, frame = Random(seed), orders(1000 if full else 300, seed)
    write_files(frame, tmp_path / "in", 9 if full else 3, seed, most_late=5)
    n_kills, places = 0, []
    while n_kills < (5 if full else 1):
        forget_unfinished_start(tmp_path)
        process, n_before = start_job(kind, tmp_path, sink), n_batches(tmp_path)
        wait_for_start(process, tmp_path, len(places))
        wait_for_batch(process, tmp_path, n_before + rng.choice([0, 0, 1]))
        try:
            process.wait(rng.uniform(0, 4 if full else 1))
        except subprocess.TimeoutExpired:
            kill(process)
            n_kills += 1
            places.append(n_batches(tmp_path))
            continue
        break  # it read all files, or Spark gave a worker no time to start
    forget_unfinished_start(tmp_path)
    found = stream_of_files(spark, tmp_path / "in", "10 seconds").cep.match(**query)
    run_stream(found, tmp_path, found.parquet_by_batch(tmp_path / "out") if sink == "by batch" else None)
    wanted = rows_wanted(frame, query)
    print(f"{n_kills} kills, after {places} micro-batches; {sum(wanted.values())} matches")
    assert wanted and rows_written(spark, tmp_path / "out") == wanted
    if not n_kills:
        pytest.skip("the query ended before it was killed")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_drivers_on_one_checkpoint_lose_and_double_nothing(seed, spark, tmp_path):
    """Both read the same files into the same folder. Spark ends one of them, and it says why."""
    kind, sink = [("sequence", "file"), ("regex", "by batch")][seed % 2]
    query = {"sequence": SEQUENCE, "regex": REGEX}[kind]
    frame = orders(400, seed)
    write_files(frame, tmp_path / "in", 6, seed, most_late=5)
    drivers = [start_job(kind, tmp_path, sink)]
    wait_for_start(drivers[0], tmp_path, 0)
    drivers.append(start_job(kind, tmp_path, sink))
    for driver in drivers:
        driver.wait(300)
    forget_unfinished_start(tmp_path)
    found = stream_of_files(spark, tmp_path / "in", "10 seconds").cep.match(**query)
    run_stream(found, tmp_path, found.parquet_by_batch(tmp_path / "out") if sink == "by batch" else None)
    assert rows_written(spark, tmp_path / "out") == rows_wanted(frame, query)
    assert 0 in [driver.returncode for driver in drivers], (tmp_path / "log").read_text(errors="replace")


def forget_unfinished_start(folder: Path) -> None:
    """Remove a checkpoint from which Spark refuses to start, as its message says. Nothing was written yet.

    The driver died while it noted its first micro-batch.
    """
    offsets = folder / "state" / "offsets"
    if offsets.is_dir() and not any(path.name.isdigit() for path in offsets.iterdir()):
        shutil.rmtree(folder / "state")


def forget_last_commit(folder: Path) -> None:
    """Leave a checkpoint as a crash does that comes after the sink has written, and before Spark says so."""
    commits = folder / "state" / "commits"
    numbers = [int(path.name) for path in commits.glob("*") if path.name.isdigit()]
    if numbers:
        (commits / str(max(numbers))).unlink()
        (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)


class WorkersDie(threading.Thread):
    """Kills Python workers of this process, from a random moment on, until it is stopped."""

    def __init__(self, random: Random, folder: Path, n_wanted: int):
        super().__init__(daemon=True)
        self.random, self.folder, self.n_wanted = random, folder, n_wanted
        self.stopped, self.n_kills = threading.Event(), 0

    def run(self) -> None:
        """Wait for a number of micro-batches, and kill a worker after each random pause."""
        while n_batches(self.folder) < self.n_wanted and not self.stopped.wait(0.05):
            pass
        while not self.stopped.wait(self.random.uniform(0, 0.7)):
            self.n_kills += kill_one(self.random, (WORKER,)) is not None


@QUIET
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_a_killed_worker_loses_and_doubles_nothing(seed, spark, tmp_path, full):
    """A query dies with its workers five times in each of ten streams with ``--full``, once without.

    In local mode Spark does not repeat a task. So each death ends the query, which starts again from its
    checkpoint. Half of the time the checkpoint also lacks the last commit.
    """
    kind, sink = [("sequence", "file"), ("regex", "by batch"), ("window", "by batch")][seed % 3]
    rng, frame = Random(seed), orders(300, seed)
    write_files(frame, tmp_path / "in", 4 if full else 2, seed, most_late=5)
    window = {"total": "sum(x)"}, {"time": "9 s", "group_by": "k", "order_by": ["ts", "n"], "emit": "all"}

    def opened():
        stream = stream_of_files(spark, tmp_path / "in", "10 seconds")
        if kind == "window":
            return stream.cep.window(window[0], **window[1])
        return stream.cep.match(**{"sequence": SEQUENCE, "regex": REGEX}[kind])

    def run():
        found = opened()
        run_stream(found, tmp_path, found.parquet_by_batch(tmp_path / "out") if sink == "by batch" else None)

    places: list[int] = []
    for _ in range(5 if full else 1):
        killer = WorkersDie(rng, tmp_path, n_batches(tmp_path) + rng.choice([0, 0, 0, 1]))
        killer.start()
        try:
            run()
        except Exception as error:
            assert "cepkit.errors" not in str(error), str(error)
            places.append(n_batches(tmp_path))
        finally:
            killer.stopped.set()
            killer.join()
        print(f"{killer.n_kills} workers are dead, {len(places)} queries")
        if rng.random() < 0.5:
            forget_last_commit(tmp_path)
    run()
    wanted = (
        Counter(rows_of(cep.window(frame, window[0], **window[1]))[1])
        if kind == "window"
        else rows_wanted(frame, {"sequence": SEQUENCE, "regex": REGEX}[kind])
    )
    print(f"{kind}: {len(places)} deaths, after {places} micro-batches; {sum(wanted.values())} results")
    assert wanted and rows_written(spark, tmp_path / "out") == wanted
    if not places:
        pytest.skip("the stream was done before a busy worker died")
