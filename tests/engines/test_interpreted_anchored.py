"""Interpreted counts of sequences with conditions on their first event, against the definition."""

from __future__ import annotations

from collections import Counter

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.counting.counting import AT_LEAST, MODULAR, WRAPPING
from cepkit.engines.counting import anchored, layout
from cepkit.engines.counting.anchored import AnchoredCounter
from cepkit.engines.interpreted.anchored import anchored_tests_of
from cepkit.engines.shared import kernels, python_kernels
from tests.support.anchored_cases import case_of, in_row, layout_of
from tests.support.sizes import cases

JIT = not numba.config.DISABLE_JIT
SIZE = 25  # cases of a block


def pytest_generate_tests(metafunc):
    if "block" in metafunc.fixturenames:
        blocks = cases(metafunc.config, range(0, 8 * SIZE, SIZE), range(0, 40 * SIZE, SIZE))
        metafunc.parametrize("block", blocks)


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret every count that can be interpreted."""
    for module in (anchored, layout, kernels, python_kernels):
        monkeypatch.setattr(module, "reason_to_compile", lambda *_: None)
    monkeypatch.setattr(anchored, "compile_if_it_pays", lambda *_: None)
    monkeypatch.setattr(anchored, "is_ready", lambda _: False)


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


@pytest.mark.parametrize("seed", range(4 if JIT else 40))
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


def test_random_counts(block, interpreted, monkeypatch):
    if block // SIZE % 2:
        monkeypatch.setattr(anchored, "_WORK_PER_CALL", 1)  # the kernel pauses after every entry
    n_interpreted = 0
    for seed in range(block, block + SIZE):
        try:
            n_interpreted += check(seed)
        except BaseException as error:
            error.add_note(f"case_of({seed}, {seed})")
            raise
    assert n_interpreted >= SIZE // 2


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize("text", [
    "SEQ(A a, B+ b, C c) WHERE b[i].x > a.x",
    "SEQ(A a, B+ b, C c) WHERE [k] AND b[i].y >= a.y * 0.5 AND c.x < a.x",
    "SEQ(A a, B+ b, C c) WHERE b[i].x > a.x AND b[i].y > b[i-1].y",
])  # fmt: skip
def test_the_tiers_agree_on_long_streams(text, monkeypatch):
    rng, n = np.random.default_rng(8), 50_000
    frame = pd.DataFrame({
        "kind": rng.choice(list("ABCD"), n), "k": rng.integers(0, 4, n), "t": np.arange(n),
        "x": rng.integers(0, 50, n), "y": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
    })  # fmt: skip

    def answers():
        matches = cep.match(frame, f"PATTERN {text} WITHIN 24", event_type="kind", order_by="t")
        return matches.count(), matches.head(20), matches.run.tier

    monkeypatch.setenv("CEPKIT_TIER", "compiled")
    compiled = answers()
    for module in (anchored, layout, kernels, python_kernels):
        monkeypatch.setattr(module, "reason_to_compile", lambda *_: None)
    found = answers()
    assert (compiled[2], found[2]) == ("compiled", "interpreted")
    assert found[0] == compiled[0] > 1000
    pd.testing.assert_frame_equal(found[1], compiled[1])


@pytest.mark.parametrize("n", [62, 65, 130])
def test_numbers_of_any_size_are_exact(n, interpreted):
    frame = pd.DataFrame({"t": np.arange(n + 2), "kind": list("A" + "B" * n + "C"), "x": np.arange(n + 2.0)})
    text = "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > a.x WITHIN 1000"
    found = cep.match(frame, text, event_type="kind", order_by="t")
    assert found.count() == 2**n - 1
    assert found.run.tier == "interpreted"
