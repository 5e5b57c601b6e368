"""Interpreted counts of sequences with conditions on their first event, against the definition."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.counting.counting import AT_LEAST, MODULAR, WRAPPING
from cepkit.engines.counting import anchored
from cepkit.engines.counting.anchored import AnchoredCounter
from cepkit.engines.interpreted.counting import anchored_tests_of
from tests.support.anchored_cases import case_of, in_row, layout_of
from tests.support.sizes import seeds
from tests.support.tiers import check_tiers, interpret, sequence_stream

JIT = not numba.config.DISABLE_JIT
SIZE = 25  # cases of a block


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret every count that can be interpreted."""
    interpret(monkeypatch)


def check(seed: int) -> bool:
    """Compare all numbers with the definition; return whether the query can be interpreted."""
    case, rows, _ = case_of(seed, seed)
    own = layout_of(case, rows)
    if isinstance(anchored_tests_of(own.graph), str):
        return False  # test_anchored.py has these
    counter, of_end = AnchoredCounter(own), Counter(positions[-1] for positions, _ in in_row(case, rows))
    wanted = [of_end[p] for p in own.places.position_of_place[counter.last].tolist()]
    counts = counter.by_place()
    assert [int(counts[p]) for p in counter.last.tolist()] == wanted
    assert counter.pass_over(WRAPPING)[0].tolist() == wanted
    assert counter.pass_over(MODULAR, 3)[0].tolist() == [n % 3 for n in wanted]
    assert counter.pass_over(AT_LEAST)[0].tolist() == wanted
    assert own.tier == "interpreted"
    return True


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_a_compiled_kernel_takes_over(seed, interpreted, monkeypatch):
    case, rows, _ = case_of(seed, seed)
    own = layout_of(case, rows)
    if isinstance(anchored_tests_of(own.graph), str):
        pytest.skip("cannot be interpreted")
    wanted = AnchoredCounter(own).pass_over(WRAPPING)[0].tolist()
    looks = iter([False, False, True])
    monkeypatch.setattr(anchored, "is_ready", lambda _: next(looks, True))
    monkeypatch.setattr(anchored, "_WORK_PER_CALL", 1)
    assert AnchoredCounter(own).pass_over(WRAPPING)[0].tolist() == wanted
    assert own.tier.startswith("interpreted")


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_random_counts(seed, interpreted, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(anchored, "_WORK_PER_CALL", 1)  # the kernel pauses after every entry
    n_interpreted = 0
    for own in range(SIZE * seed, SIZE * (seed + 1)):
        try:
            n_interpreted += check(own)
        except BaseException as error:
            error.add_note(f"case_of({own}, {own})")
            raise
    assert n_interpreted >= SIZE // 2


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize("text", [
    "SEQ(A a, B+ b, C c) WHERE b[i].x > a.x",
    "SEQ(A a, B+ b, C c) WHERE [k] AND b[i].y >= a.y * 0.5 AND c.x < a.x",
    "SEQ(A a, B+ b, C c) WHERE b[i].x > a.x AND b[i].y > b[i-1].y",
])  # fmt: skip
def test_the_tiers_agree_on_long_streams(text, monkeypatch):
    query = f"PATTERN {text} WITHIN 24"
    begin = partial(interpret, monkeypatch)
    check_tiers(monkeypatch, sequence_stream(50_000), query, begin, n_shown=20)


@pytest.mark.parametrize("n", [62, 65, 130])
def test_numbers_of_any_size_are_exact(n, interpreted):
    frame = pd.DataFrame({"t": np.arange(n + 2), "kind": list("A" + "B" * n + "C"), "x": np.arange(n + 2.0)})
    text = "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > a.x WITHIN 1000"
    found = cep.match(frame, text, event_type="kind", order_by="t")
    assert found.count() == 2**n - 1
    assert found.run.tier == "interpreted"
