"""Windows and gaps into which nothing fits: engines and explanations find what the definition does."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from cepkit.engines.shared.places import Places
from cepkit.insight.funnels import MOST_BRANCHES, count_funnel
from cepkit.insight.trace import SequenceTrace
from cepkit.insight.why_not_sequences import read_events
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import seeds

LIMITS = {"window": ("within", False), "gap": ("gap_within", False), "closed gap": ("gap_within", True)}
FAMILIES = ("any", "next", "negation", "kleene", "optional", "rounds")


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(3, 40))
def test_what_does_not_fit_is_found_nowhere(seed, family, limit):
    case = gs.case(seed, None, family)
    name, closed = LIMITS[limit]
    within = None if name == "gap_within" and case.query.within is None else 0
    limits = {"within": within, "gap_within": None, "within_closed": closed, name: 0}
    query = replace(case.query, order_by=("t",), after_match=("none", None), **limits)
    case = replace(case, query=query)
    expected = sequence_matches(case.query, case.rows)
    program, events = bound(case)
    for engine in engines().values():
        if engine.unsupported(program) is None:
            assert as_matches(program, all_of(engine.run(program, events))) == expected, engine.name
    places, rows_of_matches = Places(program, events), {match.rows for match in expected}
    for row in range(min(6, len(case.rows))):
        reading = read_events(places, [int(places.place_of_position[row])])
        assert (reading.obstacles == ()) == ((row,) in rows_of_matches)
    trace = SequenceTrace(program, events, 10**6)
    assert sum(len(trace.read(k).completed) for k in range(events.n_events)) == len(expected)
    if len(program.branches) <= MOST_BRANCHES:  # a funnel refuses more
        funnel = count_funnel(program, events, engines()["search"].run)
        assert sum(branch.complete.n for branch in funnel) == len(expected)


def test_rows_of_a_match_are_one_in_any_division():
    """The reading that is looked at first gives both rows to ``a``; the match that is reported does not."""
    frame = pd.DataFrame({"kind": [1, 2, 1, 2, 2, 1, 2], "ts": range(7)})
    settings = {"event_type": "kind", "order_by": "ts", "strategy": "next", "after_match": "to_first(b)"}
    query = "PATTERN SEQ(2+ a, 2? b)"
    found = frame.cep.match(query, **settings).lineage()
    of_match = found.groupby("match")
    both = {tuple(rows["index"]) for _, rows in of_match if rows["variable"].nunique() == 2}
    assert both
    for rows in both:
        why = frame.cep.why_not(query, rows=list(rows), **settings)
        assert why.matches
        assert [*why.to_frame()["variable"]] == ["a", "b"]
        named = frame.cep.why_not(query, rows={"a": list(rows)}, **settings)
        assert not named.matches
