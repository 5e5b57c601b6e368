"""Matches that the counting engine makes from the windows before their ends, against the definition."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.counting import engine
from cepkit.engines.counting.engine import CountedMatches
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import as_matches, bound
from tests.support.sizes import JIT, seeds

FAMILIES = ("any", "after_match", "window")


def compared(seed: int, family: str, monkeypatch) -> bool:
    """Compare matches by number with the definition; return whether there were any to compare."""
    monkeypatch.setattr(engine, "_PART_OF_ALL", 0)
    draw = Random(seed)
    case = gs.case(seed, None, family)
    program, events = bound(case)
    if engines()["chain"].unsupported(program) or program.window.is_empty or not events.n_events:
        return False
    found = CountedMatches(program, events)
    n = found.count()
    every = CountedMatches(program, events)
    _ = every._walks
    whole = as_matches(program, every.take(list(range(n))))
    if not program.query.selects:
        assert whole == sequence_matches(case.query, case.rows)
    is_compared = False
    for size in (1, 2, 5, n):
        numbers = sorted(draw.sample(range(n), min(size, n)))
        draw.shuffle(numbers)
        made = found._in_their_windows(numbers)
        if made is not None:
            is_compared = True
            assert as_matches(program, made) == [whole[number] for number in numbers]
    return is_compared


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(2 if JIT else 6, 120))
def test_matches_of_windows_are_those_of_the_definition(seed, family, monkeypatch):
    compared(seed, family, monkeypatch)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_many_random_cases_are_compared(monkeypatch):
    drawn = (compared(seed, family, monkeypatch) for seed in range(30) for family in FAMILIES)
    assert len(list(islice(filter(None, drawn), 8))) == 8


def test_few_matches_of_many_events_need_no_walk(monkeypatch):
    rng = np.random.default_rng(3)
    n = 20_000
    frame = pd.DataFrame({"t": np.arange(n), "kind": rng.choice(list("ABC"), n), "x": rng.random(n).round(2)})
    frame["k"] = rng.integers(0, 40, n)
    query = "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x + 0.3 AND c.x > b.x WITHIN 200"
    call = {"order_by": "t", "event_type": "kind", "partition_by": "k"}
    monkeypatch.setattr(CountedMatches, "_first_as_python", lambda *_: None)
    matches = cep.match(frame, query, **call, engine="chain")
    found, n_matches = matches._found.whole, matches.count()
    own = [*range(100), n_matches // 2, n_matches - 1, 7]
    few = matches.take(own)
    assert n_matches > 200 and "_walks" not in vars(found)
    pd.testing.assert_frame_equal(few, matches.to_frame(limit=None).iloc[own].reset_index(drop=True))
