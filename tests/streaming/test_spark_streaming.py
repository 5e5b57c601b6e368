"""Queries on streaming Spark frames: any micro-batches, any crash, and the matches of all rows at once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import numba
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, OrderError, UnsupportedQueryError
from cepkit.streaming import saved as saved_files
from cepkit.streaming.batches import schema_of
from cepkit.streaming.spark.bucket import Bucket, BucketPlan
from tests.oracle import generate
from tests.oracle import generate_sequences as gs
from tests.support.spark_cases import plain, rows_of
from tests.support.stream_cases import END, MS, received_in_buckets, with_clock

JIT = not numba.config.DISABLE_JIT
N_CUTS = 3
QUIET = pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")


def rarely(n_every: int, n_slow: int, seed: int):
    """Return a seed as a case of every run, of a tenth of the runs, or of ``--full``."""
    if seed < n_every:
        return seed
    return pytest.param(seed, marks=pytest.mark.slow if seed < n_slow else pytest.mark.long)


# --- buckets, without Spark ---------------------------------------------------------------------------------


def regex_case(seed: int):
    case = generate.case(seed, seed % 2 if JIT else None, n_events=40)
    define = {name: str(expression) for name, expression in case.define.items()}
    given = {name: value for name, value in case.keywords().items() if value}
    given |= {"order_by": ["t", "n"], "measures": {"first": "first(n)", "last": "last(n)", "n": "count()"}}
    query = cep.regex_query(str(case.pattern), define=define or None, **given)
    return query, generate.to_frame(case.rows)


def sequence_case(seed: int):
    family = "any" if JIT else list(gs.FAMILIES)[seed % len(gs.FAMILIES)]
    case = gs.case(seed, seed % 2 if JIT else None, ["any", "negation"][seed % 2] if JIT else family)
    return cep.sequence_query(case.query), gs.to_frame(case.rows)


def is_strict(query) -> bool:
    return getattr(query, "strategy", "") == "strict" or "strict" in str(query)


@QUIET
@pytest.mark.parametrize("make", [regex_case, sequence_case], ids=["regex", "sequence"])
@pytest.mark.parametrize("seed", [rarely(8, 40, seed) for seed in range(150)])
def test_micro_batches_do_not_matter(seed, make):
    """150 queries of each kind, each with three ways of cutting, late rows, and saved buckets."""
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
@pytest.mark.slow
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


def test_the_state_does_not_grow_with_the_stream():
    bucket, sizes = Bucket(plan("PATTERN SEQ(A a, B b) WITHIN 20 milliseconds")), []
    for start in range(0, 10_000, 100):
        bucket.receive(events("AXBX" * 25, start), start * MS)
        sizes.append(len(bucket.pack()))
    assert max(sizes[10:]) <= 1.1 * sizes[10]


def test_spark_spreads_buckets_evenly():
    pytest.importorskip("pyspark")
    from cepkit.streaming.spark.tasks import _spark_hash, labels_of_buckets

    assert [_spark_hash(value) for value in (0, 1, 42)] == [933211791, -559580957, 29417773]
    labels = labels_of_buckets(8, 4)
    assert sorted(_spark_hash(label) % 4 for label in labels) == [0, 0, 1, 1, 2, 2, 3, 3]
