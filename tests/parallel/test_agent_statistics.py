"""What is measured of a sample for the cost model of agents, against plain counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

import pytest

from cepkit.datasets.constant_rate import poisson_types
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.parallel.model import agent_statistics, evaluation_rates, flows_of
from tests.support import agent_cases as ac


def measured(frame, text: str, orders=None, seed: int = 0, **keywords):
    return agent_statistics(*ac.sequences(frame, text, **keywords), orders, seed)


def rows_of(frame) -> list[dict]:
    first = frame["ts"].iloc[0]
    return [
        {"t": (row.ts - first).total_seconds(), "type": row.type, "x": row.x, "key": row.key}
        for row in frame.itertuples()
    ]


def pairs(rows, types: str, within: float, key: bool = False) -> list[tuple[dict, ...]]:
    """Return all rows of these types in order and within one window."""
    made = [(row,) for row in rows if row["type"] == types[0]]
    place = {id(row): i for i, row in enumerate(rows)}
    for of in types[1:]:
        made = [
            (*chosen, row)
            for chosen in made
            for row in rows[place[id(chosen[-1])] + 1 :]
            if row["type"] == of
            and row["t"] - chosen[0]["t"] <= within
            and (not key or row["key"] == chosen[0]["key"])
        ]
    return made


def share(found: list[tuple[dict, ...]], holds: Callable[..., bool]) -> float:
    """Return the share that holds, by the rule of succession."""
    assert 20 < len(found) <= 2000  # all are tested, none drawn
    return (sum(holds(*one) for one in found) + 1) / (len(found) + 2)


def n_in_window(rows, of: str, types: str, within: float, key: bool = False) -> float:
    """Return how many rows of a type follow a row of the types, on average."""
    anchors = [(i, row) for i, row in enumerate(rows) if row["type"] in types]
    found = [
        sum(
            other["type"] == of and other["t"] - row["t"] <= within
            and (not key or other["key"] == row["key"])
            for other in rows[i + 1 :]
        )
        for i, row in anchors
    ]  # fmt: skip
    return sum(found) / len(found)


def sample(seed: int, **keywords):
    rates = {"A": 1.0, "B": 1.5, "C": 0.8, "D": 0.3}
    return poisson_types(rates, 80.0, seed, **keywords)


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("order", [None, (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_rates_and_selectivities_are_plain_counts(seed, order, key):
    frame = sample(seed, n_keys=2)
    rows = rows_of(frame)
    text = "PATTERN SEQ(A a, B b, C c) WHERE (a.x + b.x) % 1000 < 400 AND c.x > a.x AND b.x < 900 WITHIN 4 s"
    text = text.replace("WHERE", "WHERE [key] AND") if key else text
    (found,) = measured(frame, text, None if order is None else [order], seed)
    order = order or (0, 1, 2)
    for row in rows:
        if row["type"] == "B" and row["x"] >= 900:
            row["type"] = "-"  # a condition on single events is one on rates
    duration = rows[-1]["t"]
    assert found.window == 4.0
    for rank, c in enumerate(order):
        of = "ABC"[c]
        n = sum(row["type"] == of for row in rows)
        assert found.rates[rank] == pytest.approx(n / duration)
        assert found.in_window[rank] == pytest.approx(n_in_window(rows, of, "ABC", 4.0, key))
    of_ab = share(pairs(rows, "AB", 4.0, key), lambda a, b: (a["x"] + b["x"]) % 1000 < 400)
    of_ac = share(pairs(rows, "AC", 4.0, key), lambda a, c: c["x"] > a["x"])
    # Each counts at the join that binds the second of its components.
    wanted = {
        (0, 1, 2): (1.0, of_ab, of_ac), (2, 0, 1): (1.0, of_ac, of_ab), (1, 2, 0): (1.0, 1.0, of_ab * of_ac),
    }  # fmt: skip
    assert found.selectivities == pytest.approx(wanted[order])
    assert found.loop_selectivities == found.selectivities
    assert set(found.in_gap) == {float("inf")}


@pytest.mark.parametrize("seed", range(3))
def test_loops(seed):
    """Of a loop every event, further events, and complete components are measured apart."""
    frame = sample(seed)
    rows = rows_of(frame)
    (found,) = measured(
        frame,
        "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > b[i-1].x AND b.x > a.x AND count(b) < a.x "
        "AND last(b.x) < c.x WITHIN 4 s",
    )  # fmt: skip
    rising = share(pairs(rows, "BB", 4.0), lambda one, other: other["x"] > one["x"])
    higher = share(pairs(rows, "AB", 4.0), lambda a, b: b["x"] > a["x"])
    few = share(pairs(rows, "AB", 4.0), lambda a, b: a["x"] > 1)
    below = share(pairs(rows, "BC", 4.0), lambda b, c: c["x"] > b["x"])
    assert found.repeats == ((1, 1), (1, None), (1, 1))
    assert found.selectivities == pytest.approx((1.0, higher, below))
    assert found.loop_selectivities == pytest.approx((1.0, rising * higher, below))
    assert found.passing == pytest.approx((1.0, few, 1.0))


@pytest.mark.parametrize("seed", range(2))
def test_loop_that_begins_and_needs_two(seed):
    frame = sample(seed)
    rows = rows_of(frame)
    (found,) = measured(frame, "PATTERN SEQ(B{2,3} b, C c) WHERE b[i].x > b[i-1].x AND b.x > c.x WITHIN 4 s")
    rising = share(pairs(rows, "BB", 4.0), lambda one, other: other["x"] > one["x"])
    both = [one for one in pairs(rows, "BBC", 4.0)]
    assert found.agents == (0, 1) and found.repeats == ((2, 3), (1, 1))
    assert found.loop_selectivities[0] == pytest.approx(rising)
    exact = sum(one["x"] > c["x"] and two["x"] > c["x"] for one, two, c in both) / len(both)
    assert found.selectivities[1] == pytest.approx(exact, abs=0.06)  # of three components some are drawn


@pytest.mark.parametrize("seed", range(2))
def test_absence_is_a_condition_of_the_join_that_decides_it(seed):
    frame = sample(seed)
    rows = rows_of(frame)
    (found,) = measured(frame, "PATTERN SEQ(A a, !D n, B b, C c) WHERE n.x > a.x WITHIN 4 s")

    def free(a, b):
        return not any(
            row["type"] == "D" and row["x"] > a["x"] for row in rows[rows.index(a) + 1 : rows.index(b)]
        )

    assert found.selectivities == pytest.approx((1.0, share(pairs(rows, "AB", 4.0), free), 1.0))


@pytest.mark.parametrize("seed", range(2))
def test_other_windows(seed):
    frame = sample(seed)
    rows = rows_of(frame)
    (events,) = measured(frame, "PATTERN SEQ(A a, B b)", within_events=20)
    # No limit asks for the clock: seconds are events.
    assert events.window == pytest.approx(20.0)
    assert events.rates == pytest.approx([sum(row["type"] == of for row in rows) / len(rows) for of in "AB"])
    for row, place in zip(rows, itertools.count()):
        row["t"] = place
    assert events.in_window[1] == pytest.approx(n_in_window(rows, "B", "AB", 19))
    (endless,) = measured(frame, "PATTERN SEQ(A a, B b)")
    assert endless.window == len(rows)
    (gaps,) = measured(frame, "PATTERN SEQ(A a, B b, C c) WITHIN 4 s", gap_within="1s", orders=[(0, 2, 1)])
    rows = rows_of(frame)
    b = n_in_window(rows, "B", "ABC", 1.0)
    assert gaps.in_gap == pytest.approx((float("inf"), float("inf"), b))


def test_a_value_for_every_branch():
    found = measured(sample(1), "PATTERN SEQ(A a, AND(B b, C c)) WITHIN 4 s")
    assert len(found) == 2
    assert found[0].rates[1:] == found[1].rates[:0:-1]


def test_events_that_span_no_time_have_rates():
    assert measured(sample(1).head(0), "PATTERN SEQ(A a, B b) WITHIN 4 s")[0].rates == (0.0, 0.0)
    events = sample(1).head(50)
    at_once = events.assign(ts=events["ts"].iloc[0])
    (rates,) = measured(at_once, "PATTERN SEQ(A a, B b) WITHIN 4 s")
    assert sum(rates.rates) <= 1 and max(rates.rates) > 0


def test_what_cannot_be_measured():
    with pytest.raises(UnsupportedQueryError, match="agent statistics: this query may not skip everything"):
        measured(sample(1), "PATTERN SEQ(A a, B b) WITHIN 4 s", strategy="next")
    with pytest.raises(CepError, match="does not name each of the 2 components once"):
        measured(sample(1), "PATTERN SEQ(A a, B b) WITHIN 4 s", orders=[(0, 0)])


def compared(rows, types: str, within: float, holds) -> tuple[list[int], int]:
    """Return the pairs in order and window that each agent of a sequence looks at, and the matches."""
    made = [(row,) for row in rows if row["type"] == types[0]]
    of_type = {of: [row for row in rows if row["type"] == of] for of in types}
    counts = []
    for of in types[1:]:
        looked_at = [
            (*chosen, row)
            for chosen in made
            for row in of_type[of]
            if chosen[-1]["t"] < row["t"] <= chosen[0]["t"] + within
        ]
        counts.append(len(looked_at))
        made = [one for one in looked_at if holds(*one[-2:])]
    return counts, len(made)


@pytest.mark.parametrize("seed", range(2))
def test_the_model_predicts_the_pairs_of_poisson_streams(seed):
    frame = poisson_types({"A": 1.0, "B": 2.0, "C": 1.0, "D": 1.5}, 400.0, seed)
    rows = rows_of(frame)
    text = (
        "PATTERN SEQ(A a, B b, C c, D d) WHERE (a.x + b.x) % 1000 < 300 AND (b.x + c.x) % 1000 < 500 AND "
        "(c.x + d.x) % 1000 < 500 WITHIN 6 s"
    )
    (found,) = measured(frame, text, seed=seed)
    limit = {"B": 300, "C": 500, "D": 500}
    counts, n_matches = compared(
        rows, "ABCD", 6.0, lambda one, other: (one["x"] + other["x"]) % 1000 < limit[other["type"]]
    )
    duration = rows[-1]["t"]
    predicted = [rate * duration for rate in evaluation_rates(found)]
    assert predicted == pytest.approx(counts, rel=0.15)
    match_rate = sum(flows_of(found, "simplex")[-1].sent_on.values())
    assert match_rate * duration == pytest.approx(n_matches, rel=0.2)
    # As printed: both workers of an agent look at every pair, in whatever order their events are.
    paper = [rate * duration / n for rate, n in zip(evaluation_rates(found, "paper"), counts, strict=True)]
    assert paper == pytest.approx([2, 4, 12], rel=0.2)


def test_a_seed_draws_the_same():
    frame = poisson_types({"A": 3.0, "B": 3.0}, 200.0, 5)
    text = "PATTERN SEQ(A a, B b) WHERE (a.x + b.x) % 1000 < 300 WITHIN 9 s"
    seeds = [3, 3, *(Random(1).randrange(99) for _ in range(2))]
    values = [measured(frame, text, seed=seed)[0].selectivities[1] for seed in seeds]
    assert values[0] == values[1] and len(set(values)) > 1
