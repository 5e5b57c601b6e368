"""Counted matches whose walk is new: a short search by interpretation lists them, without compiling."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines import search
from cepkit.engines.counting import engine, layout
from cepkit.engines.counting.engine import match_by_counting
from cepkit.engines.shared.sequence_set import KnownMatches
from tests.oracle.generate_paths import as_frame
from tests.support.counting_cases import case_of_shape
from tests.support.sequence_runs import prepared
from tests.support.sizes import seeds

pytestmark = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="without numba's compiler nothing is interpreted"
)
PATTERNS = [
    "SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 20",
    "SEQ(A a, !B b, C c) WHERE b.x > a.x WITHIN 20",
    "SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x WITHIN 8",
    "SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].x > b[i-1].x WITHIN 15",
]


@pytest.fixture
def new_walk(monkeypatch):
    """Let every walk be new, and collect the lists that a search made in its place."""
    made: list = []
    find = engine.find_without_compiling

    def kept(*arguments):
        made.append(find(*arguments))
        return made[-1]

    monkeypatch.setattr(engine, "find_without_compiling", kept)
    monkeypatch.setattr(layout.Layout, "can_interpret", lambda self, write: False)
    monkeypatch.setattr(engine, "reason_to_compile", lambda *_: None)
    monkeypatch.setattr(search, "reason_to_compile", lambda *_: None)
    monkeypatch.setattr(search, "is_ready", lambda text: False)
    return made


def items_of(block) -> list[tuple]:
    bounds = block.first_item_of_match.tolist()
    own = list(zip(block.event_of_item.tolist(), block.component_of_item.tolist(), strict=True))
    return [tuple(own[a:b]) for a, b in pairwise(bounds)]


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_a_list_by_search_is_that_of_the_definition(seed, new_walk):
    drawn, rows = case_of_shape(seed % 20, seed)
    program, events = prepared(drawn.query(), as_frame(rows))
    found = [
        tuple((row, c) for c, (_, own) in enumerate(match.events) for row in own)
        for match in drawn.matches(rows)
    ]
    matches = match_by_counting(program, events)
    assert [one for block in matches.blocks(7) for one in items_of(block)] == found
    assert matches.count() == len(found)
    assert all(isinstance(one, KnownMatches) for one in new_walk) and len(new_walk) <= 1
    low, high = sorted(np.random.default_rng(seed).integers(0, len(rows) + 1, 2).tolist())
    assert items_of(matches.ending(low, high)) == [one for one in found if low <= one[-1][0] < high]
    numbers = np.random.default_rng(seed).integers(0, max(1, len(found)), min(4, len(found))).tolist()
    assert items_of(matches.take(numbers)) == [found[number] for number in numbers]
    assert items_of(matches.glance(3)) == found[:3]


@pytest.mark.parametrize("text", PATTERNS)
def test_the_list_equals_that_of_the_walk(text, new_walk, monkeypatch):
    rng = np.random.default_rng(5)
    n = 3000
    frame = pd.DataFrame(
        {
            "kind": rng.choice(list("ABC"), n),
            "k": rng.integers(0, 3, n),
            "t": range(n),
            "x": rng.integers(0, 50, n),
        }
    )
    keywords = {"event_type": "kind", "order_by": "t", "engine": "chain"}
    listed = cep.match(frame, f"PATTERN {text}", **keywords).lineage()
    assert [type(one) for one in new_walk] == [KnownMatches] and len(listed)
    monkeypatch.setattr(engine, "_MOST_TO_LIST", -1)
    walked = cep.match(frame, f"PATTERN {text}", **keywords).lineage()
    assert len(new_walk) == 1
    pd.testing.assert_frame_equal(listed, walked)


def test_a_long_search_ends_and_the_walk_is_compiled(new_walk, monkeypatch):
    monkeypatch.setattr(engine, "_CALLS_TO_LIST", 1)
    monkeypatch.setattr(search, "_WORK_PER_CALL_OF_A_LOOK", 50)
    frame = pd.DataFrame({"kind": list("ABC") * 100, "t": range(300), "x": range(300)})
    matches = cep.match(frame, f"PATTERN {PATTERNS[0]}", event_type="kind", order_by="t", engine="chain")
    assert len(matches.to_frame(limit=None)) == matches.count() > 0
    assert new_walk == [None]
