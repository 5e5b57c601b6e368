"""Sequences of strategy any, counted and listed on any number of threads, against the definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.counting import counts, layout
from cepkit.engines.counting.engine import CountedMatches
from cepkit.engines.shared import places
from cepkit.engines.shared import places as placing
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches
from tests.support.sizes import seeds

TEXTS = [
    "SEQ(A a, B b) WHERE a.x < b.x WITHIN 7",
    "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 12",
    "SEQ(A a, B b, C c, A d) WHERE a.x < b.x AND b.x <= c.x AND c.x != d.x WITHIN 16",
    "SEQ(A a, !B b, C c) WHERE b.x > a.x WITHIN 12",
    "SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x AND c.x < b[b.LEN].x WITHIN 12 GAP 6",
    "SEQ(A a, OR(B b, C c)) WITHIN 12",
]


@pytest.fixture
def in_small_slices(monkeypatch):
    """Let threads take slices of a few events, and let a call of a kernel end after a few steps."""
    for module, name, value in (
        (placing, "_FEWEST_PER_THREAD", 1), (placing, "_FEWEST_EVENTS", 1), (places, "_FEW", 0),
        (places, "_FEW_OF", 0), (layout, "_FEW", 0), (placing, "PER_SLICE", 5), (counts, "_WORK_PER_CALL", 3),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def stream(seed: int, n: int = 40) -> pd.DataFrame:
    """Return random events of at most five keys with ties in time."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, rng.integers(2, 6), n)
    time = np.cumsum(rng.integers(0, 3, n))
    return pd.DataFrame({"k": key, "t": time, "kind": rng.choice(list("ABC"), n), "x": rng.integers(0, 9, n)})


@pytest.mark.parametrize("seed", seeds(2, 100))
@pytest.mark.parametrize("text", TEXTS)
def test_any_number_of_threads_finds_the_matches_of_the_definition(
    text, seed, in_small_slices, monkeypatch, tier
):
    frame, n_slices = stream(seed), 0
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("CEPKIT_THREADS", threads)
        made = cep.match(frame, f"PATTERN {text}", partition_by="k", event_type="kind", order_by="t")
        found, program = made._found.whole, made._found.program
        assert isinstance(found, CountedMatches)
        if threads == "1":
            wanted = sequence_matches(program.query, frame.to_dict("records"))
        assert found.count() == len(wanted), threads
        assert as_matches(program, all_of(found)) == wanted, threads
        positions, numbers = found.ends()
        lasts = [match.rows[-1] for match in wanted]
        assert np.repeat(positions, np.asarray(numbers, np.int64)).tolist() == lasts, threads
        n_slices = max(n_slices, len(found._places.cuts_between_partitions(np.arange(len(frame)))) - 1)
    assert n_slices > 1


def test_a_slice_has_whole_partitions(in_small_slices, monkeypatch):
    monkeypatch.setenv("CEPKIT_THREADS", "3")
    frame = stream(0, 200)
    found = cep.match(frame, "PATTERN SEQ(A a, B b)", partition_by="k", event_type="kind", order_by="t")
    own = found._found.whole._places
    members = np.arange(1, 200, 3)
    cuts = own.cuts_between_partitions(members)
    assert cuts[0] == 0 and cuts[-1] == len(members) and len(cuts) > 2
    key = frame["k"].to_numpy()[own.position_of_place[members]]
    assert all(key[cut - 1] != key[cut] for cut in cuts[1:-1])
    assert own.cuts_between_partitions(members[:0]) == [0, 0]
