"""Interpreted searches against the definition, and against the same queries compiled."""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.interpreted.ordered import ordered_tests_of
from cepkit.engines.ordered import ordered
from cepkit.engines.shared import kernels
from tests.engines.test_ordered import FAMILIES, bound, check, drawn
from tests.support.sizes import cases

JIT = not numba.config.DISABLE_JIT
SIZE = 20  # seeds of a block; each has a case of every family


def pytest_generate_tests(metafunc):
    if "block" in metafunc.fixturenames:
        blocks = cases(metafunc.config, range(0, 6 * SIZE, SIZE), range(0, 40 * SIZE, SIZE))
        metafunc.parametrize("block", blocks)


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret every search that can be interpreted."""
    for module in (ordered, kernels):
        monkeypatch.setattr(module, "reason_to_compile", lambda *_: None)
    monkeypatch.setattr(ordered, "compile_if_it_pays", lambda *_: None)


def is_interpreted(program) -> bool:
    tests = (ordered_tests_of(own, tuple(range(len(own.accepts)))) for own in program.branches)
    return not any(isinstance(own, str) for own in tests)


def test_random_orders(block, interpreted, monkeypatch):
    if block // SIZE % 2:
        monkeypatch.setattr(ordered, "_WORK_PER_CALL", 3)  # the kernel pauses after a few events
    n_interpreted = 0
    for seed in range(block, block + SIZE):
        for family in FAMILIES:
            case, reason = drawn(seed, family)
            if reason or not is_interpreted(bound(case.query, case.rows)[0]):
                continue  # test_ordered.py has these
            n_interpreted += 1
            try:
                check(case.query, case.rows, 3)
            except BaseException as error:
                error.add_note(f"drawn({seed}, {family!r})")
                raise
    assert n_interpreted >= SIZE // 2


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize("text", [
    "SEQ(A a, B b, C c) WHERE c.x > a.x",
    "SEQ(A a, B b, C c, D d) WHERE [k] AND c.y >= a.y * 0.5 AND d.x = a.x",
    "SEQ(A a, B b, !D d, C c) WHERE c.x > a.x AND d.y > a.y AND d.x != c.x",
    "SEQ(A a, (B b OR C b), D d) WHERE d.x > a.x AND NOT d.y < a.y",
])  # fmt: skip
@pytest.mark.parametrize("partition_by", [None, "k"])
def test_the_tiers_agree_on_long_streams(text, partition_by, monkeypatch):
    rng, n = np.random.default_rng(8), 30_000
    frame = pd.DataFrame({
        "kind": rng.choice(list("ABCD"), n), "k": rng.integers(0, 4, n), "t": np.arange(n),
        "x": rng.integers(0, 50, n), "y": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
    })  # fmt: skip

    def answers():
        keywords = {"event_type": "kind", "order_by": "t", "partition_by": partition_by}
        matches = cep.match(frame, f"PATTERN {text} WITHIN 24", engine="ordered", **keywords)
        return matches.count(), matches.to_frame("all"), matches.run.tier

    monkeypatch.setenv("CEPKIT_TIER", "compiled")
    compiled = answers()
    for module in (ordered, kernels):
        monkeypatch.setattr(module, "reason_to_compile", lambda *_: None)
    found = answers()
    assert (compiled[2], found[2]) == ("compiled", "interpreted")
    assert found[0] == compiled[0] > 1000
    pd.testing.assert_frame_equal(found[1], compiled[1])


def test_a_search_says_how_it_runs(interpreted):
    frame = pd.DataFrame({"t": range(60), "kind": list("ABC") * 20, "x": [3.0, 1.0, 4.0] * 20})
    keywords = {"event_type": "kind", "order_by": "t"}
    text = "PATTERN SEQ(A a, B b, C c) WHERE {} WITHIN 30"
    pairwise = cep.match(frame, text.format("c.x > a.x"), **keywords)
    assert pairwise.run.tier == "interpreted"
    assert "is interpreted until its kernel is compiled" in str(
        cep.explain(frame, text.format("c.x > a.x"), **keywords)
    )
    joint = cep.explain(frame, text.format("c.x > a.x + b.x"), **keywords)
    assert "is compiled first, since it compares values of more than two events" in str(joint)
