"""Values sorted by partition by kernels, on any number of threads, equal numpy's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.shared import places as placing
from cepkit.events import Column, ColumnType, Events


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_values_by_partition_equal_numpys(seed, threads, monkeypatch):
    monkeypatch.setattr(placing, "_FEWEST_EVENTS", 1)
    monkeypatch.setattr(placing, "_FEWEST_PER_THREAD", 1)
    monkeypatch.setenv("CEPKIT_THREADS", str(threads))
    rng = np.random.default_rng(seed)
    n, n_partitions = int(rng.integers(1, 400)), int(rng.choice([2, 7, 500]))
    partition = rng.integers(0, n_partitions, n).astype(np.int32)
    order = np.argsort(partition, kind="stable")
    events = Events(n, {}, partition, n_partitions)
    found = placing.placing_of(events)
    assert found is not None
    assert len(found.cuts) == min(threads, n) + 1
    np.testing.assert_array_equal(found.place(np.arange(n)), order)
    monkeypatch.setattr(placing, "_POSITIONS_AT_ONCE", int(rng.integers(1, 50)))
    np.testing.assert_array_equal(found.positions(), order)
    for dtype in ("int64", "float64", "float32", "int16", "int8", "bool", "uint32"):
        values = rng.integers(-3, 100, 2 * n)[::2].astype(dtype)  # not contiguous
        assert placing.can_place(values)
        placed = found.place(values)
        assert placed.dtype == values.dtype
        np.testing.assert_array_equal(placed, values[order])
    start, end = events.bounds_by_partition
    ends = np.cumsum(np.bincount(partition, minlength=n_partitions))
    np.testing.assert_array_equal(end, ends[partition[order]])
    np.testing.assert_array_equal(start, np.append(0, ends)[partition[order]])


def test_few_events_one_partition_and_many_partitions_stay_with_numpy():
    few = Events(10, {}, np.zeros(10, np.int32), 2)
    many = Events(1 << 18, {}, np.zeros(1 << 18, np.int32), 1 << 15)
    alone = Events(1 << 18, {}, np.zeros(1 << 18, np.int32), 1)
    assert [placing.placing_of(events) for events in (few, many, alone)] == [None] * 3
    for values in (np.zeros((3, 2)), np.array(["a", None], object)):
        assert not placing.can_place(values)


def test_events_keep_what_was_placed():
    partition = np.array([1, 0, 1], np.int32)
    events = Events(3, {"x": Column(ColumnType("integer"), np.array([5, 6, 7]))}, partition, 2)
    calls = []

    def place(values):
        calls.append(values)
        return values[[1, 0, 2]]

    assert events.values_by_partition("x", place).tolist() == [6, 5, 7]
    assert events.values_by_partition("x").tolist() == [6, 5, 7]
    assert len(calls) == 1


@pytest.mark.parametrize("seed", range(4))
def test_sequences_give_the_same_with_and_without_kernels(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n = 3000
    frame = pd.DataFrame(
        {
            "key": rng.choice(["a", "b", "c", None], n),
            "kind": rng.choice(["A", "B", "C"], n),
            "ts": np.cumsum(rng.integers(0, 3, n)),
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
        }
    )
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 60"
    options = {"event_type": "kind", "partition_by": "key", "order_by": "ts"}
    expected = cep.match(frame, text, **options)
    monkeypatch.setattr(placing, "_FEWEST_EVENTS", 1)
    monkeypatch.setattr(placing, "_FEWEST_PER_THREAD", 1000)
    monkeypatch.setenv("CEPKIT_THREADS", "2")
    found = cep.match(frame, text, **options)
    assert found.count() == expected.count() > 1000
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())
