"""The tree engine against the definition, and its machine against a tree in plain Python."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.after_match import report_matches
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.planning.planner import engines
from cepkit.shedding.tree_engine import Tree, match_in_cheapest_order
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import JIT, seeds
from tests.support.tree_cases import FAMILIES, tree_case

SHAPES, FULL_SHAPES = 12, 840


def pytest_generate_tests(metafunc):
    if "shape_seed" in metafunc.fixturenames:
        metafunc.parametrize("shape_seed", seeds(SHAPES, FULL_SHAPES))


@pytest.mark.parametrize("family", FAMILIES)
def test_tree_is_the_definition(shape_seed, family):
    case = tree_case(shape_seed, 0, family)
    wanted = sequence_matches(case.query, case.rows)
    program, events = bound(case)
    found = report_matches(program, engines()["tree"].run(program, events))
    assert as_matches(program, all_of(found)) == wanted
    assert found.count() == len(wanted)
    positions, counts = found.ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, dtype=np.int64)).tolist() == lasts
    cheapest = report_matches(program, match_in_cheapest_order(program, events))
    assert as_matches(program, all_of(cheapest)) == wanted


# --- the order of least cost


def skewed(seed: int, n: int) -> pd.DataFrame:
    """Return events of four types, very often and very seldom."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list("abcd"), n, p=rng.permutation([0.6, 0.3, 0.07, 0.03]))
    return pd.DataFrame({"kind": kinds, "t": np.arange(n), "x": rng.normal(size=n)})


QUERIES = [
    "PATTERN SEQ(a x, b y, c z) WHERE y.x > x.x WITHIN 25",
    "PATTERN SEQ(a x, b y, c z, d w) WHERE w.x > x.x AND z.x > y.x + 1 WITHIN 40",
    "PATTERN SEQ(a x, b+ y[], c z) WHERE y[i].x > y[i-1].x AND z.x > 0.5 WITHIN 8",
    "PATTERN SEQ(a x, !d n, b y, c z) WHERE n.x > x.x AND z.x > x.x WITHIN 25",
    "PATTERN AND(a x, b y, c z) WHERE y.x > x.x WITHIN 12",
    "PATTERN OR(SEQ(a x, b y), SEQ(c z, d w)) WHERE y.x > x.x AND w.x > z.x WITHIN 25",
]
SETTINGS = {"event_type": "kind", "order_by": "t"}


@pytest.mark.parametrize("seed", seeds(3, 5))
@pytest.mark.parametrize("query", QUERIES)
def test_cheapest_order_finds_the_same_matches(query, seed):
    frame = skewed(seed, 600 if JIT else 300)
    results = [
        cep.match(frame, query, engine=engine, **SETTINGS)
        for engine in ("auto", "tree", Tree(), Tree(order="cost"))
    ]
    frames = [found.to_frame("all") for found in results]
    for one in frames[1:]:
        pd.testing.assert_frame_equal(one, frames[0])
    assert sorted(results[3].run.order) == sorted(results[1].run.order)
    assert results[1].run == results[2].run


def test_cheapest_order_costs_less():
    """The tree that begins with rare events keeps and tests less."""
    saved = []
    for seed in range(5):
        frame = skewed(seed, 1500)
        for query in QUERIES[:2]:
            plain, cheap = (
                cep.match(frame, query, engine=engine, **SETTINGS) for engine in ("tree", Tree(order="cost"))
            )
            assert plain.count() == cheap.count()
            work = [found.run.evaluated + found.run.created / 2 for found in (plain, cheap)]
            saved.append(work[1] / work[0])
    assert np.mean(saved) < 0.9 and max(saved) < 1.2, saved  # the pattern's own order may be the best


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_costs_predict_the_work_of_orders(seed):
    """Among all orders, the chosen one does at most a third more than the one that does least."""
    frame = skewed(seed, 1500)
    query = QUERIES[seed % 2]
    names = "xyz" if seed % 2 == 0 else "xyzw"
    work = {}
    for order in permutations(names):
        run = cep.match(frame, query, engine="tree", evaluation_order=list(order), **SETTINGS)
        run.count()
        work[order] = run.run.evaluated + 0.5 * run.run.created + 0.2 * run.run.removed
    chosen = cep.match(frame, query, engine=Tree(order="cost"), **SETTINGS)
    chosen.count()
    assert work[chosen.run.order] <= 1.34 * min(work.values())


def test_errors_of_orders():
    frame = skewed(0, 50)
    with pytest.raises(CepError, match="expected 'pattern' or 'cost'"):
        Tree(order="cheap")
    with pytest.raises(CepError, match=r"engine=cep.shedding.Tree is a class. Give a value: cep.shedding"):
        cep.match(frame, QUERIES[0], engine=Tree, **SETTINGS)
    with pytest.raises(UnsupportedQueryError, match="Leave one of the two out"):
        cep.match(frame, QUERIES[0], engine=Tree(order="cost"), evaluation_order=["y", "x", "z"], **SETTINGS)
    assert "least cost" in str(cep.explain(frame, QUERIES[0], engine=Tree(order="cost"), **SETTINGS))
