"""Shares of events for which conditions hold, against conditions evaluated one pair at a time."""

from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from cepkit.compile.interpreted_columns import constants_of
from cepkit.language.sequences.construction import sequence_query
from cepkit.shedding.model import (
    Known,
    condition_share,
    sampled_columns,
)
from cepkit.shedding.tree_program import LeafCondition
from tests.support.sequence_runs import prepared

LEAF = {"a": 0, "b": 1, "c": 2}


def shares_of(condition: str, leaf: int, frame: pd.DataFrame, own: slice, others: slice, pattern="A a, B b"):
    """Return the shares of a condition for rows of a frame, as other rows are the samples of all leaves."""
    text = f"PATTERN SEQ({pattern}) WHERE skip_till_any_match AND {condition} WITHIN 5"
    query = sequence_query(text, order_by="t", event_type="kind")
    program, events = prepared(query, frame)
    inputs = program.inputs(events.columns)
    known = Known(*constants_of(program, inputs))
    (branch,) = program.branches
    terms = [bound.term for bound in branch.conditions] or [branch.accepts[leaf][-1]]
    (term,) = terms
    columns = inputs.columns
    samples = {at: {name: values[others] for name, values in columns.items()} for at in range(3)}
    made = LeafCondition(term, LEAF)
    share = condition_share(made, leaf, samples, known)
    found = None if share is None else share.of({name: values[own] for name, values in columns.items()})
    return share, found


def frame_of(seed: int, n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(0, 3, n), 0)
    return pd.DataFrame(
        {
            "t": np.arange(n),
            "kind": rng.choice(["A", "B", "C"], n),
            "x": np.where(rng.uniform(size=n) < 0.1, np.nan, x),
            "y": rng.integers(-4, 5, n),
            "z": rng.choice(["p", "q", "r"], n),
        }
    )


# A condition, the same in Python, and whether binary searches are enough.
CONDITIONS = [
    ("a.x < b.x", lambda a, b: a.x < b.x, True),
    ("b.x > a.x * 1.05", lambda a, b: b.x > a.x * 1.05, True),
    ("b.x * 2.0 + 1.0 >= a.x - a.y / 2.0", lambda a, b: b.x * 2 + 1 >= a.x - a.y / 2, True),
    ("not a.y <= b.y", lambda a, b: a.y > b.y, True),
    ("a.y = b.y", lambda a, b: a.y == b.y, True),
    ("a.y != b.y", lambda a, b: a.y != b.y, True),
    ("a.z = b.z", lambda a, b: a.z == b.z, True),
    ("abs(a.x - b.x) <= 2", lambda a, b: abs(a.x - b.x) <= 2, True),
    ("abs(a.x - b.x) < 2", lambda a, b: abs(a.x - b.x) < 2, True),
    ("2 < abs(b.x - a.x)", lambda a, b: abs(a.x - b.x) > 2, True),
    ("abs(a.y - b.y) >= 3", lambda a, b: abs(a.y - b.y) >= 3, True),
    ("abs(a.y - b.y) > -1", lambda a, b: True, True),
    ("a.y * a.y < b.y * b.y", lambda a, b: a.y**2 < b.y**2, True),
    ("a.y * b.y > 2", lambda a, b: a.y * b.y > 2, False),
    ("abs(a.x - b.x) + abs(a.y - b.y) <= 4", lambda a, b: abs(a.x - b.x) + abs(a.y - b.y) <= 4, False),
    ("(a.z = b.z or a.x < b.x)", lambda a, b: a.z == b.z or a.x < b.x, False),
]


@pytest.mark.parametrize(("condition", "holds", "is_ranked"), CONDITIONS)
@pytest.mark.parametrize("seed", range(3))
def test_share_equals_its_definition(condition, holds, is_ranked, seed):
    frame = frame_of(seed)
    own, others = slice(0, 30), slice(30, 60)
    rows = list(frame.itertuples())
    for leaf in (0, 1):
        share, found = shares_of(condition, leaf, frame, own, others)
        pairs = [[(e, o) if leaf == 0 else (o, e) for o in rows[others]] for e in rows[own]]
        expected = [np.mean([bool(holds(a, b)) for a, b in of_event]) for of_event in pairs]
        assert (share.is_ranked, share.is_own) == (is_ranked, False)
        assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_conditions_of_one_event_are_0_or_1(seed):
    frame = frame_of(seed)
    share, found = shares_of("(a.x < a.y + 1 or a.z = 'p')", 0, frame, slice(0, 60), slice(0, 0))
    assert share.is_own
    assert found.tolist() == [float(r.x < r.y + 1 or r.z == "p") for r in frame.itertuples()]


def test_condition_says_nothing_about_events_that_it_does_not_read():
    frame = frame_of(0)
    share, _ = shares_of("a.x < b.x", 2, frame, slice(0, 30), slice(30, 60), "A a, B b, C c")
    assert share is None


def test_condition_says_nothing_without_a_sample():
    share, _ = shares_of("a.x < b.x", 0, frame_of(0), slice(0, 30), slice(30, 30))
    assert share is None


def test_condition_on_three_events_takes_the_others_as_independent():
    rng = np.random.default_rng(3)
    frame = frame_of(3, 2010).assign(x=rng.normal(size=2010))
    share, found = shares_of("a.x + b.x < c.x", 1, frame, slice(0, 10), slice(10, 2010), "A a, B b, C c")
    rest = np.random.default_rng(5).permutation(frame.x[10:].to_numpy())
    expected = [(frame.x[10:].to_numpy() + x < rest).mean() for x in frame.x[:10]]
    assert share.is_ranked
    assert found == pytest.approx(expected, abs=0.05)


def test_neighbours_in_a_closure_have_the_mean_of_both_roles():
    frame = pd.DataFrame({"t": range(5), "kind": list("AABBC"), "x": [1.0, 2.0, 1.0, 2.0, 4.0]})
    _, found = shares_of("b[i].x > b[i-1].x", 1, frame, slice(4, 5), slice(0, 4), "A a, B+ b[]")
    assert found.tolist() == [0.5]  # above all events, so never before one
    _, found = shares_of("b[i].x > b[i-1].x", 1, frame, slice(0, 1), slice(0, 4), "A a, B+ b[]")
    assert found.tolist() == [0.25]  # below two of four


def test_aggregate_of_a_closure_is_that_of_one_event():
    frame = frame_of(1)
    for name in ("max", "avg", "sum", "first"):
        own, others = slice(0, 30), slice(30, 60)
        _, plain = shares_of("a.x < b.x", 0, frame, own, others)
        _, found = shares_of(f"a.x < {name}(b.x)", 0, frame, own, others, "A a, B+ b[], C c")
        assert found.tolist() == pytest.approx(plain.tolist())
    share, _ = shares_of("count(b) > a.x", 0, frame, own, others, "A a, B+ b[], C c")
    assert share is None


def test_example_of_the_paper():
    """A price is below the next price, which has a mean of 400 and a deviation of 200."""
    prices = [NormalDist(400, 200).inv_cdf((k + 0.5) / 1000) for k in range(1000)]
    seen = sampled_columns({"price": np.array(prices)}, 1000, seed=0)["price"]
    assert [(seen > price).mean() for price in (200, 700)] == pytest.approx([0.8413, 0.0668], abs=0.001)
