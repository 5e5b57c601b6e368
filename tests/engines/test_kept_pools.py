"""Arrays of accepted events stay with the events, for the next query with other conditions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cepkit.compile.sequence_program import compile_sequence
from cepkit.engines.counting import layout
from cepkit.engines.counting.engine import match_by_counting
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences.construction import sequence_query

LINE = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.x > a.x + {0} AND c.x < b.x WITHIN {1}"
UNARY = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x > {0} AND c.x < b.x WITHIN {1}"
LOOP = "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].x > a.x + {0} WITHIN {1}"


def stream(seed: int, n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "kind": rng.choice(list("ABCD"), n), "k": rng.integers(0, 3, n),
        "t": np.cumsum(rng.integers(0, 3, n)), "x": rng.integers(0, 50, n),
    })  # fmt: skip


def program_of(text: str, source: PandasSource):
    return compile_sequence(sequence_query(text, event_type="kind", order_by="t"), source.schema)


@pytest.mark.parametrize("seed", range(5))
def test_queries_over_the_same_events_count_as_over_their_own(seed):
    source, rng = PandasSource(stream(seed)), np.random.default_rng(seed)
    events = build_events(source, program_of(LINE.format(0, 20), source))
    for _ in range(12):
        text = rng.choice([LINE, UNARY, LOOP]).format(rng.integers(-5, 20), rng.choice([10, 20]))
        program = program_of(text, source)
        shared, own = (
            match_by_counting(program, events),
            match_by_counting(program, build_events(source, program)),
        )
        assert shared.count() == own.count(), text
        for one, other in zip(shared.ends(), own.ends(), strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(events.pools) <= layout._KEPT_POOLS
        assert not own.count() or np.array_equal(
            shared.take([0, own.count() - 1]).event_of_item, own.take([0, own.count() - 1]).event_of_item
        )


def test_only_conditions_on_several_events_keep_the_arrays(monkeypatch):
    made = []
    members = layout.Layout._members
    monkeypatch.setattr(
        layout.Layout, "_members", lambda self, pool: made.append(pool) or members(self, pool)
    )
    source = PandasSource(stream(1))
    events = build_events(source, program_of(LINE.format(0, 20), source))

    def n_made(text: str) -> int:
        before = len(made)
        match_by_counting(program_of(text, source), events).count()
        return len(made) - before

    assert n_made(LINE.format(0, 20)) > 0
    assert n_made(LINE.format(7, 20)) == 0
    assert n_made(LINE.format(7, 10)) > 0  # another window
    assert n_made(UNARY.format(7, 10)) > 0  # other events
    assert n_made(UNARY.format(9, 10)) > 0
    assert n_made(UNARY.format(9, 10)) == 0


def test_ends_of_more_matches_than_int64_holds_have_python_integers():
    """Each event has fewer than 2^63 matches that end there, and all together have more."""
    n = 68
    source = PandasSource(pd.DataFrame({"kind": ["A"] + ["B"] * n + ["C"] * 40, "t": range(n + 41)}))
    program = program_of("PATTERN SEQ(A a, B+ b[], C c) WITHIN 1000", source)
    matches = match_by_counting(program, build_events(source, program))
    positions, counts = matches.ends()
    assert matches.count() == 40 * (2**n - 1) and positions.tolist() == list(range(n + 1, n + 41))
    assert sum(counts.tolist()) == matches.count()
    small = PandasSource(pd.DataFrame({"kind": ["A"] + ["B"] * 60 + ["C"] * 40, "t": range(101)}))
    matches = match_by_counting(program, build_events(small, program))
    assert matches.count() == 40 * (2**60 - 1) >= 2**63
    assert matches.ends()[1].dtype == object and sum(matches.ends()[1].tolist()) == matches.count()
