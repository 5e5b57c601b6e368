"""Streams of Spark: buckets that receive random micro-batches without Spark, and files that Spark reads."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import cepkit as cep
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.streaming.batches import schema_of
from cepkit.streaming.saved import query_as_json
from cepkit.streaming.spark_bucket import Bucket, BucketPlan
from cepkit.windows.values import Window
from tests.oracle import generate
from tests.oracle import generate_sequences as gs
from tests.support.sizes import JIT

MS = 1000  # ticks of the clock are microseconds, and Spark's watermarks and timers are milliseconds
END = 10**15  # a watermark after all events


def regex_case(seed: int) -> tuple[RegexQuery, pd.DataFrame]:
    """Return a random regex query and its frame. With machine code, all cases have one of two shapes."""
    case = generate.case(seed, seed % 2 if JIT else None, n_events=40)
    define = {name: str(expression) for name, expression in case.define.items()}
    given = {name: value for name, value in case.keywords().items() if value}
    given |= {"order_by": ["t", "n"], "measures": {"first": "first(n)", "last": "last(n)", "n": "count()"}}
    query = cep.regex_query(str(case.pattern), define=define or None, **given)
    return query, generate.to_frame(case.rows)


def sequence_case(seed: int) -> tuple[SequenceQuery, pd.DataFrame]:
    """Return a random sequence query and its frame, as `regex_case`."""
    family = ["any", "negation"][seed % 2] if JIT else list(gs.FAMILIES)[seed % len(gs.FAMILIES)]
    case = gs.case(seed, seed % 2 if JIT else None, family)
    return cep.sequence_query(case.query), gs.to_frame(case.rows)


def with_clock(query: Any, frame: pd.DataFrame) -> tuple[Any, pd.DataFrame]:
    """Return a random query and its frame with times in milliseconds and a total order.

    The watermark passes the last event in the end, so the data of a sequence are finished.
    """
    within = None if query.within is None else query.within * MS
    query = replace(query, order_by=("t", "n"), within=within)
    if isinstance(query, SequenceQuery):
        is_never = within is None and query.is_finished  # the watermark decides no such wait
        query = replace(query, complete_until="end", within=5 * MS if is_never else within)
    return query, frame.assign(t=(frame["t"] - frame["t"].min()) * MS, n=range(len(frame)))


def received_in_buckets(
    query: RegexQuery | SequenceQuery | Window,
    frame: pd.DataFrame,
    seed: int,
    n_buckets: int = 3,
    shedding: Any = None,
) -> tuple[list[tuple], pd.DataFrame, int]:
    """Return the rows of all results, the rows that were not late, and the number of loads.

    Rows arrive late and shuffled, in random micro-batches. A bucket may be saved and loaded between two of
    them, and no bucket hears of a watermark unless it has rows or a timer.
    """
    rng = Random(f"arrival {seed}")
    plan = BucketPlan(query, schema_of(frame), n_buckets, {"query": query_as_json(query)}, shedding)
    table = pa.Table.from_pandas(frame, schema=plan.schema.arrow, preserve_index=False)
    bucket_of_row = [
        zlib.crc32(repr(tuple(map(str, key))).encode()) % n_buckets
        for key in zip(*(frame[name] for name in plan.partition_by), strict=True)
    ] or [0] * len(frame)
    delay, slack = rng.choice([0, 1, 4]) * MS, rng.choice([2, 6, 12]) * MS
    times = frame["t"].astype("int64")  # times are in microseconds
    arrival = [time + rng.random() * slack for time in times]
    order = sorted(range(len(frame)), key=lambda row: arrival[row])
    buckets = {number: Bucket(plan) for number in range(n_buckets)}
    made, late, n_loads = [plan.open_search().empty], [], 0
    watermark, newest, begin = None, None, 0

    def receive(number: int, rows: list[int], until: int | None) -> None:
        nonlocal n_loads
        got = buckets[number].receive(table.take(pa.array(rows, pa.int64())), until)
        made.append(got.matches)
        late.extend(got.late.column("n").to_pylist())
        if rng.random() < 0.3:
            buckets[number] = Bucket.unpack(plan, buckets[number].pack())
            n_loads += 1

    def fire(until: int) -> None:
        for number, bucket in buckets.items():
            if bucket.next_timer is not None and bucket.next_timer * MS <= until:
                receive(number, [], until)
                assert buckets[number].next_timer is None or buckets[number].next_timer * MS > until

    while begin < len(order):
        rows = order[begin : begin + rng.choice([1, 1, 2, 5, 20])]
        begin += len(rows)
        for number in buckets:
            own = [row for row in rows if bucket_of_row[row] == number]
            if own or rng.random() < 0.5:
                receive(number, own, watermark)
        newest = max(newest or 0, int(times.iloc[rows].max()))
        watermark = max(newest - delay, 0) or None
        if watermark is not None and rng.random() < 0.5:
            fire(watermark)
    fire(END)
    accepted = frame[~frame["n"].isin(late)].sample(frac=1, random_state=seed).reset_index(drop=True)
    return [tuple(row.values()) for row in pa.concat_tables(made).to_pylist()], accepted, n_loads


# --- streams on Spark ---------------------------------------------------------------------------------------


def orders(n_rows: int, seed: int) -> pd.DataFrame:
    """Return events of eight keys in time, each with a number."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "ts": pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.arange(n_rows), unit="s"),
            "n": np.arange(n_rows),
            "kind": rng.choice(list("ABCD"), n_rows),
            "k": rng.choice([*"pqrstuv", None], n_rows),
            "x": rng.integers(0, 100, n_rows),
        }
    ).astype({"ts": "datetime64[us, UTC]"})


def write_files(frame: pd.DataFrame, folder: Path, n_files: int, seed: int, most_late: float = 20) -> None:
    """Write rows in the order of their random arrival into files; the last file has a row after all."""
    rng = np.random.default_rng(seed)
    order = np.argsort(np.arange(len(frame)) + rng.uniform(0, most_late, len(frame)))
    end = frame.tail(1).assign(ts=frame["ts"].max() + pd.Timedelta("1D"), kind="Z", k="end", n=-1)
    folder.mkdir(exist_ok=True)
    for number, part in enumerate([*(frame.iloc[rows] for rows in np.array_split(order, n_files)), end]):
        table = pa.Table.from_pandas(part, preserve_index=False)
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads the oldest file first


def stream_of_files(spark: Any, folder: Path, delay: str) -> Any:
    """Return a streaming frame of the files, one file per micro-batch."""
    schema = "ts timestamp, n bigint, kind string, k string, x bigint"
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withWatermark("ts", delay)


def run_stream(found: Any, folder: Path, sink: Any = None, attempts: int = 4) -> None:
    """Run a stream over all files that are there; Spark gives a worker ten seconds to start."""
    writer = found.writeStream.option("checkpointLocation", str(folder / "state")).trigger(availableNow=True)
    try:
        query = writer.foreachBatch(sink).start() if sink else writer.start(str(folder / "out"))
        query.awaitTermination()
    except Exception as error:
        if "failed to connect back" not in str(error) or attempts == 1:
            raise
        run_stream(found, folder, sink, attempts - 1)


SEQUENCE = {
    "query": "PATTERN SEQ(A a, B b, !C c) WHERE [k] AND b.x > a.x WITHIN 30 seconds",
    "event_type": "kind",
    "order_by": ["ts", "n"],
}
REGEX = {
    "query": ". up{1,3} down",
    "define": {"up": "x > prev(x)", "down": "x < prev(x)"},
    "partition_by": "k",
    "order_by": ["ts", "n"],
    "measures": {"begin": "first(ts)", "end": "last(n)", "rows": "count()", "top": "max(x)"},
}
