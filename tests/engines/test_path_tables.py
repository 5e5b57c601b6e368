"""Kernels along paths that serve every graph, against the definition and against compiled kernels."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.counting.layout import Layout
from tests.oracle.generate_paths import drawn_case, drawn_rows
from tests.support.counting_cases import check, in_row, tighten
from tests.support.sizes import JIT, seeds
from tests.support.tiers import sequence_stream

SHAPES_OF_A_BLOCK = 10


@pytest.fixture
def tables(monkeypatch):
    """Let kernels for every graph take the place of all that they can."""
    monkeypatch.setenv("CEPKIT_TIER", "auto")
    monkeypatch.setattr(Layout, "can_interpret", lambda self, write: isinstance(self.tests_of_links, list))


@pytest.mark.filterwarnings("ignore:overflow encountered")  # plain Python warns where machine words wrap
@pytest.mark.parametrize("limits", ["as it is", "tight"])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_tables_agree_with_the_definition(seed, limits, tables, monkeypatch):
    if limits == "tight":
        tighten(monkeypatch)
    n_matches = 0
    for shape in range(seed * SHAPES_OF_A_BLOCK, (seed + 1) * SHAPES_OF_A_BLOCK):
        for stream in range(3):
            values = Random(f"values {shape} {stream}")
            case = drawn_case(Random(f"shape {shape}"), values)
            rows = drawn_rows(values, values.choice([6, 9, 12, 12]))
            if len(in_row(case, rows)) > 1000:
                rows = rows[:8]
            try:
                with np.errstate(over="ignore"):  # a kernel that runs as Python warns of overflows
                    n_matches += check(case, rows, values)
            except BaseException as error:
                error.add_note(f"shape {shape}, stream {stream}")
                raise
    assert n_matches > SHAPES_OF_A_BLOCK


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize(("text", "partition_by"), [
    ("SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x != b.x WITHIN 60", "k"),
    ("SEQ(A a, !D d, B b, C c) WHERE b.y > a.y AND d.x = b.x WITHIN 40", None),
    ("SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 20", "k"),
])  # fmt: skip
def test_the_kernel_changes_in_the_middle(text, partition_by, monkeypatch):
    """Whatever kernel a call takes, the matches are the same."""
    frame = sequence_stream(6_000)

    def answers() -> list[pd.DataFrame]:
        found = cep.match(
            frame, f"PATTERN {text}", event_type="kind", order_by="t", partition_by=partition_by,
            engine="chain",
        )  # fmt: skip
        n = found.count()
        shown = [found.to_frame("all", limit=None), found.head(7), found.take([n - 1, n // 2, 3])]
        return [*shown, found.sample(20, seed=4), found[n // 3].rows, *found.chunks(999)]

    compiled = answers()
    turns, took = Random(text), set()

    def in_turn(self, write):
        took.add(turns.random() < 0.5)
        return turns.random() < 0.5

    monkeypatch.setattr(Layout, "has_path_kernel", lambda self, write, name: False)
    monkeypatch.setattr(Layout, "can_interpret", in_turn)
    for found, wanted in zip(answers(), compiled, strict=True):
        pd.testing.assert_frame_equal(found, wanted)
    assert took == {False, True} and len(compiled[0]) > 1000
