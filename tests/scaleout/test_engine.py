"""`ScatterGather` finds what the oracle finds, over any number of nodes and under every layout."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.shared.places import Places, accepted
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.scaleout.plans import LAYOUTS, pattern_plan
from cepkit.scaleout.query_nodes import PatternNodes
from cepkit.scaleout.scatter_gather import states_of
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import seeds

CASES_PER_SEED = 10


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", gs.FAMILIES)
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_nodes_find_what_the_oracle_finds(seed, family, layout):
    n_run = 0
    for number in range(CASES_PER_SEED):
        case = gs.case(1000 * seed + number, family=family)
        query = replace(case.query, after_match=("none", None))
        if layout == "keys" and not query.partition_by:
            continue
        case = replace(case, query=query)
        program, events = bound(case)
        engine = cep.ScatterGather(nodes=Random(f"{seed} {number}").randint(1, 8), layout=layout)
        if engine.reason_against(program) is not None:
            continue
        found = all_of(engine.planned(trace=False).run(program, events))
        assert as_matches(program, found) == sequence_matches(query, case.rows)
        n_run += 1
    assert n_run or family in ("preference", "kleene", "all")


FRAME = pd.DataFrame({"kind": list("abacbbcabc") * 3, "ts": range(30), "x": np.arange(30) % 7})
QUERY = "PATTERN SEQ(a p, b q, c r) WHERE q.x > p.x WITHIN 12"


@pytest.mark.parametrize("strategy", ["any", "next"])
@pytest.mark.parametrize("layout", ["states", "replicated", "grouped"])
@pytest.mark.parametrize("nodes", range(1, 9))
def test_a_frame_has_the_matches_of_the_usual_engine(nodes, layout, strategy):
    keywords = {"event_type": "kind", "order_by": "ts", "strategy": strategy}
    engine = cep.ScatterGather(nodes=nodes, layout=layout)
    found, wanted = FRAME.cep.match(QUERY, engine=engine, **keywords), FRAME.cep.match(QUERY, **keywords)
    pd.testing.assert_frame_equal(found.to_frame(), wanted.to_frame())
    assert found.count() == wanted.count() and len(repr(found)) > 0
    work = found.run.to_frame()
    if layout == "states":
        assert len(work) == 3
    else:
        assert set(work["node"]) == set(range(nodes))


def test_the_first_next_event_of_all_groups_counts_once():
    frame = pd.DataFrame({"kind": list("abb"), "ts": [1, 2, 3]})
    keywords = {"event_type": "kind", "order_by": "ts", "strategy": "next"}
    engine = cep.ScatterGather(nodes=2, groups=2)
    found = frame.cep.match("PATTERN SEQ(a x, b y) WITHIN 5", engine=engine, **keywords)
    assert found.count() == 1 and found.run.to_frame()["sent"].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_the_printed_routing_loses_matches_and_doubles_others(seed):
    r = np.random.default_rng(seed)
    frame = pd.DataFrame({"kind": r.choice(list("ab"), 60), "ts": range(60)})
    query = "PATTERN SEQ(a x, b y) WITHIN 20"
    found = frame.cep.match(query, event_type="kind", order_by="ts")
    program = found._found.program
    places = Places(program, found._found.whole.events)
    states = states_of(program.query, program.branches[0].branch)

    def times(*, printed: bool) -> Counter:
        plan = pattern_plan(states, 4, "grouped", groups=2, printed=printed)
        block = PatternNodes(places, accepted(places), 0, plan, 1).find()
        return Counter(map(tuple, block.event_of_item.reshape(-1, 2).tolist()))

    right, wrong = times(printed=False), times(printed=True)
    assert set(right.values()) == {1} and len(right) == found.count()
    assert set(wrong.values()) == {2} and set(wrong) < set(right)


@pytest.mark.parametrize("engine", [cep.ScatterGather(nodes=3), cep.ScatterGather(nodes=2, layout="states")])
def test_explain_shows_who_gets_which_events(engine):
    text = str(cep.explain(FRAME, QUERY, event_type="kind", order_by="ts", engine=engine))
    printed = "printed 2λ/3" if engine.layout == "grouped" else "printed e/(s-1)"
    for line in ("scatter–gather over nodes", "a events", "matches of p", "gather", "per node", printed):
        assert line in text


WINDOWS = {
    "total": "sum(y)", "n": "count(y)", "mean": "avg(y)", "low": "min(y)", "top": "max(s)",
    "spread": "std(y)", "whole": "sum(x)", "first": "first(y)", "mixed": "x - avg(x)",
}  # fmt: skip


@pytest.mark.parametrize("nodes", range(1, 10))
def test_no_node_holds_more_partial_matches_than_its_member_gets(nodes):
    frame = pd.DataFrame({"kind": list("abc") * 60, "ts": range(180)})
    found = cep.match(frame, "PATTERN SEQ(a p, b q, c r) WITHIN 9", event_type="kind", order_by="ts",
                      engine=cep.ScatterGather(nodes=nodes))  # fmt: skip
    work = found.run.to_frame()
    greatest = work[work.stage == "r"].matches.max()
    everything = work[work.stage == "q"].sent.sum()
    assert (
        greatest
        <= everything / (nodes // max(g for g in range(1, 4) if not nodes % g and g * g <= nodes)) + 1
    )


def events_of(seed: int) -> pd.DataFrame:
    """Return events with ties in time, missing values, and values of very different sizes."""
    r = np.random.default_rng(seed)
    n = int(r.integers(0, 70))
    y = np.where(r.random(n) < 0.2, np.nan, r.normal(size=n) * 10.0 ** r.integers(-6, 9, n))
    return pd.DataFrame(
        {"ts": r.integers(0, 40, n), "k": r.choice(list("abc"), n), "x": r.integers(-9, 9, n), "y": y,
         "s": r.choice(["one", "two", "three"], n)}
    )  # fmt: skip


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_windows_over_nodes_are_those_of_one_node_bit_for_bit(seed):
    frame, case = events_of(seed), Random(seed)
    for size in ({"time": 7}, {"length": 5}, {"tumbling": 6}, {"time": 5, "tumbling": True}):
        keywords = {**size, "order_by": "ts", "emit": case.choice(["arrival", "all"])}
        keywords["group_by"] = case.choice([None, "k"])
        engine = cep.ScatterGather(nodes=case.randint(1, 8))
        found = frame.cep.window(WINDOWS, engine=engine, **keywords)
        pd.testing.assert_frame_equal(found, frame.cep.window(WINDOWS, **keywords), check_exact=True)


@pytest.mark.parametrize("layout", ["replicated", "grouped", "keys"])
@pytest.mark.parametrize("seed", seeds(3, 20))
def test_joins_over_nodes_are_those_of_one_node(seed, layout):
    case = Random(seed)
    left, right = events_of(seed), events_of(seed + 100).rename(columns={"y": "z"})
    sizes = [cep.Window(length=5), cep.Window(length=40), cep.Window(time=6)]
    keywords = {
        "left": case.choice(sizes), "right": case.choice(sizes), "on": case.choice(["k", None]),
        "order_by": "ts", "how": case.choice(["inner", "outer"]),
        "measures": {"n": "count()", "total": "sum(y)", "mean": "avg(z)"},
    }  # fmt: skip
    engine = cep.ScatterGather(nodes=case.randint(1, 8), layout=layout)
    found = cep.join(left, right, engine=engine, **keywords)
    pd.testing.assert_frame_equal(found, cep.join(left, right, **keywords), check_exact=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cep.ScatterGather(nodes=0), "ScatterGather: nodes=0: expected a whole number, 1 or more"),
        (lambda: cep.ScatterGather(layout="group"), "layout 'group' is not known. Did you mean 'grouped'"),
        (lambda: cep.ScatterGather(nodes=4, groups=3), "groups=3 does not divide nodes=4"),
        (lambda: cep.ScatterGather(nodes=4, layout="states", groups=2), "groups=2 needs layout='grouped'"),
        (lambda: FRAME.cep.match("p", define={"p": "x > 1"}, engine=cep.ScatterGather()),
         "event sequences only: contiguous rows need all rows"),
        (lambda: FRAME.cep.match(QUERY, event_type="kind", order_by="ts",
                                 engine=cep.ScatterGather(layout="keys")), "'keys' needs partition_by"),
        (lambda: FRAME.cep.match(QUERY, event_type="kind", order_by="ts", trace=True,
                                 engine=cep.ScatterGather()), "writes no trace. matches.run says what"),
        (lambda: FRAME.cep.match(QUERY, event_type="kind", order_by="ts", engine=cep.ScatterGather),
         r"is a class. Give a value: cep.ScatterGather\(nodes=4\)"),
        (lambda: FRAME.cep.match(QUERY, event_type="kind", order_by="ts", engine="ScatterGather"),
         r"engine=cep.ScatterGather\(nodes=4\)"),
        (lambda: FRAME.cep.window({"m": "distinct(x)"}, length=3, engine=cep.ScatterGather()),
         "aggregate 'm': distinct.*: distinct cannot run over several nodes: parts can share values"),
        (lambda: FRAME.cep.window({"m": "sum(x)"}, length=3, engine=cep.RIP()), "joins run without"),
        (lambda: FRAME.cep.window({"m": "sum(x)"}, length=3, engine=cep.ScatterGather(layout="keys")),
         "layout='keys'.: a window has one layout, events in turn"),
        (lambda: cep.join(FRAME, FRAME, left=cep.Window(length=2), order_by="ts",
                          engine=cep.ScatterGather(layout="states")), "layout 'states' is for patterns"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_error(call, message):
    with pytest.raises((CepError, UnsupportedQueryError), match=message):
        call()
