"""Streams of Spark without Spark: buckets that receive random micro-batches."""

from __future__ import annotations

import zlib
from dataclasses import replace
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa

from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.streaming.batches import schema_of
from cepkit.streaming.saved_queries import query_as_json
from cepkit.streaming.spark.bucket import Bucket, BucketPlan

MS = 1000  # ticks of the clock are microseconds, and Spark's watermarks and timers are milliseconds
END = 10**15  # a watermark after all events


def with_clock(query: Any, frame: pd.DataFrame) -> tuple[Any, pd.DataFrame]:
    """Return a random query and its frame with times in milliseconds and a total order."""
    within = None if query.within is None else query.within * MS
    query = replace(query, order_by=("t", "n"), within=within)
    return query, frame.assign(t=(frame["t"] - frame["t"].min()) * MS, n=range(len(frame)))


def received_in_buckets(
    query: RegexQuery | SequenceQuery, frame: pd.DataFrame, seed: int, n_buckets: int = 3
) -> tuple[list[tuple], pd.DataFrame, int]:
    """Return the rows of all results, the rows that were not late, and the number of loads.

    Rows arrive late and shuffled, in random micro-batches. A bucket may be saved and loaded between two of
    them, and no bucket hears of a watermark unless it has rows or a timer.
    """
    rng = Random(f"arrival {seed}")
    plan = BucketPlan(query, schema_of(frame), n_buckets, {"query": query_as_json(query)})
    table = pa.Table.from_pandas(frame, schema=plan.schema.arrow, preserve_index=False)
    bucket_of_row = [
        zlib.crc32(repr(tuple(map(str, key))).encode()) % n_buckets
        for key in zip(*(frame[name] for name in query.partition_by), strict=True)
    ] or [0] * len(frame)
    delay, slack = rng.choice([0, 2, 5]) * MS, rng.choice([0, 3, 8]) * MS
    arrival = [time + rng.random() * slack for time in frame["t"]]
    order = sorted(range(len(frame)), key=lambda row: arrival[row])
    buckets = {number: Bucket(plan) for number in range(n_buckets)}
    made, late, n_loads = [], [], 0
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
        newest = max(newest or 0, int(frame["t"].iloc[rows].max()))
        watermark = max(newest - delay, 0) or None
        if watermark is not None and rng.random() < 0.5:
            fire(watermark)
    fire(END)
    accepted = frame[~frame["n"].isin(late)].sample(frac=1, random_state=seed).reset_index(drop=True)
    return [tuple(row.values()) for row in pa.concat_tables(made).to_pylist()], accepted, n_loads
