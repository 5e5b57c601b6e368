"""Events that no condition accepts have no place. The matches stay those of the definition."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.counting.engine import CountedMatches
from cepkit.engines.shared import places
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import seeds

FAMILIES = ("any", "window", "negation", "kleene", "optional", "alternatives")


def compared(seed: int, family: str, monkeypatch) -> int:
    """Compare all that matches say with the definition; return how many events were left out."""
    monkeypatch.setattr(places, "_FEWEST_TO_LEAVE_OUT", 0)
    monkeypatch.setattr(places, "_LEFT_OUT", 0)  # whatever the share is
    draw = Random(seed)
    case = gs.case(seed, None, family)
    program, events = bound(case)
    is_counted = not engines()["chain"].unsupported(program) and not program.query.selects
    if not is_counted or program.window.is_empty or not events.n_events:
        return 0
    matches, wanted = CountedMatches(program, events), sequence_matches(case.query, case.rows)
    assert matches.count() == len(wanted)
    positions, numbers = matches.ends()
    lasts = np.repeat(positions, np.asarray(numbers, np.int64)).tolist()
    assert lasts == [match.rows[-1] for match in wanted]
    for n in {0, 1, 3, len(wanted)}:
        assert as_matches(program, CountedMatches(program, events).glance(n)) == wanted[:n]
        asked = sorted(draw.sample(range(len(wanted)), min(n, len(wanted))))
        block = CountedMatches(program, events).take(asked)
        assert as_matches(program, block) == [wanted[number] for number in asked]
    assert as_matches(program, all_of(matches)) == wanted
    low, high = sorted(draw.choices(range(events.n_events + 1), k=2))
    ending = [match for match in wanted if low <= match.rows[-1] < high]
    assert as_matches(program, matches.ending(low, high)) == ending
    return events.n_events - matches._places.n


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(3, 200))
def test_matches_are_those_of_the_definition(seed, family, monkeypatch):
    compared(seed, family, monkeypatch)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_random_cases_leave_events_out(monkeypatch):
    assert sum(compared(seed, family, monkeypatch) > 0 for seed in range(20) for family in FAMILIES) >= 10


@pytest.mark.parametrize("share", [0.001, 0.01, 0.9])
def test_events_have_no_place_where_few_are_accepted(share):
    rng, n = np.random.default_rng(2), 40_000
    kind = np.where(rng.random(n) < share, rng.choice(list("ABC"), n), "D")
    frame = pd.DataFrame({"kind": kind, "k": rng.integers(0, 3, n), "t": np.cumsum(rng.integers(0, 3, n))})
    frame["x"] = rng.integers(0, 50, n)
    text = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.x > a.x AND c.x < b.x WITHIN 20"
    few = frame[frame["kind"] != "D"].reset_index(names="row")
    found, wanted = (
        cep.match(own, text, event_type="kind", order_by="t")._found.whole for own in (frame, few)
    )
    assert found.count() == wanted.count()
    rows = few["row"].to_numpy()[all_of(wanted).event_of_item]
    np.testing.assert_array_equal(all_of(found).event_of_item, rows)
    assert found._places.n == (len(few) if share < 0.5 else n)


@pytest.mark.parametrize("text", ["SEQ(A a, B b) WHERE [k] AND b.x > a.x", "SEQ(A a, !B b, C c)", "SEQ(A a)"])
def test_no_event_is_accepted(text):
    n = 40_000
    frame = pd.DataFrame({"kind": ["D"] * n, "k": np.arange(n) % 3, "t": range(n), "x": range(n)})
    with pytest.warns(cep.CepWarning, match="never has"):
        found = cep.match(frame, f"PATTERN {text} WITHIN 20", event_type="kind", order_by="t")
    assert found.count() == len(found.to_frame()) == len(found.head(3)) == len(found.sample(3)) == 0
