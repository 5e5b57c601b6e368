"""Numbers at the border of 64 bits: means, differences of times, windows, and the least integer."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from tests.oracle import naive_sequences
from tests.support.regex_runs import check as check_query
from tests.support.tiers import seeds_of_tiers

LEAST, LARGEST = -(2**63), 2**63 - 1
EPOCH = 1_760_000_000_000_000_000  # nanoseconds, in 2025
BORDERS = (LEAST, LEAST + 1, -(2**62), -1, 0, 1, 2**32 - 1, 2**53 + 1, 2**62, LARGEST - 1, LARGEST)


def rows_of(**columns) -> list[dict]:
    """Return the rows of columns of equal length."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def check(pattern, define, rows, *, params=None, frame=None, **keywords):
    """Compare a regex query over integers with the definition, and return the matches."""
    query = cep.regex_query(pattern, define=define, params=params)
    if frame is None:
        frame = pd.DataFrame({name: np.array([row[name] for row in rows], np.int64) for name in rows[0]})
    return check_query(query.pattern, dict(query.define), rows, params=params, frame=frame, **keywords)


# --- means


@pytest.mark.parametrize(
    "values",
    [
        [2**62] * 6, [EPOCH + 10**9 * i for i in range(6)], [LEAST] * 6, [LARGEST, LEAST] * 3,
        [LARGEST, 1, 2, 0, 0, 0],
    ],
    ids=["quarters", "nanoseconds", "least", "both ends", "just too large"],
)  # fmt: skip
def test_means_do_not_wrap(tier, values):
    rows = rows_of(x=values)  # equally many, since a query is compiled for each number
    assert len(check(" ".join("." * len(values)), {}, rows, measures=["avg(x)"])) == 1
    mean = sum(values) / len(values)
    rows = rows_of(x=[*values, 0])
    for sign in (">", "<"):  # the mean is that of the rows before the last one
        define = {"last": f"avg(x) {sign} :at and count() == {len(values)}"}
        for at in (mean + 1e4, mean - 1e4):
            found = check(". .* last", define, rows, params={"at": at})
            assert len(found) == (at < mean if sign == ">" else at > mean)


@pytest.mark.parametrize(
    "values",
    [[2**62, 2**62, 0, 0, 0], [EPOCH + i for i in range(5)], [LEAST, LEAST, -1, 0, 0]],
    ids=["quarters", "nanoseconds", "least"],
)
def test_means_of_sequences_do_not_wrap(tier, values):
    n = len(values)  # the same for all values, since a query is compiled for each number
    frame = pd.DataFrame(
        {"t": range(n + 1), "kind": ["A"] * n + ["B"], "x": np.array([*values, 0], np.int64)}
    )
    mean = sum(values) / n
    call = {"event_type": "kind", "order_by": "t"}
    for at, count in ((mean - 1e4, 1), (mean + 1e4, 0)):
        query = f"PATTERN SEQ(A{{{n}}} a, B b) WHERE avg(a.x) > :at WITHIN 100"
        assert cep.match(frame, query, params={"at": at}, **call).count() == count
        query = f"PATTERN SEQ(A+ a, B b) WHERE a[i].t >= 0 and avg(a.x) > :at and count(a) == {n} WITHIN 100"
        assert len(cep.match(frame, query, params={"at": at}, **call)) == count
    query = f"PATTERN SEQ(A{{{n}}} a, B b) WITHIN 100"
    found = cep.match(frame, query, measures={"m": "avg(a.x)", "some": "avg(a.x) + 0.5"}, **call)
    assert found.to_frame()["m"].tolist() == pytest.approx([mean], rel=1e-15)
    assert found.aggregate(m="avg(a.x)")["m"] == mean


def test_a_mean_ignores_missing_integers(tier):
    rows = rows_of(x=[None, 2**62, None, 2**62, 0, None])
    frame = pd.DataFrame({"x": pd.array([row["x"] for row in rows], "Int64")})
    for at, count in ((1e17, 1), (5e18, 0)):
        define = {"last": "avg(x) > :at and x == 0"}
        assert len(check(". .* last", define, rows, params={"at": at}, frame=frame)) == count
    check(". . . . . .", {}, rows, measures=["avg(x)"], frame=frame)
    check(". x_ .", {"x_": "avg(x) is null"}, rows, measures=["avg(x)"], frame=frame)


def test_why_not_tells_the_mean_of_integers():
    frame = pd.DataFrame({"t": range(3), "kind": list("AAB"), "x": [2**62, 2**62, 0]})
    query = "PATTERN SEQ(A{2} a, B b) WHERE avg(a.x) < sum(b.x) WITHIN 10"
    told = cep.why_not(frame, query, rows=[0, 1, 2], event_type="kind", order_by="t")
    assert "4611686018427387904" in str(told).replace(",", "").replace("_", "") or "4.6" in str(told)


def test_steps_and_streams_know_the_mean():
    frame = pd.DataFrame({"t": range(3), "x": [2**62, 2**62, 0]})
    define = {"last": "avg(x) > 0 and x == 0"}
    assert "match" in str(list(cep.step(frame, ". . last", define=define))[-1])
    stream = cep.stream(". . last", define=define, order_by="t", schema=frame)
    found = [len(stream.push(frame.iloc[i : i + 1])) for i in range(3)]
    assert sum(found) + len(stream.close()) == 1


# --- the least integer


@pytest.mark.parametrize(
    "condition", ["prev(x) < 0", "prev(x, 2) < 0", "prev(prev(x)) < 0", "prev(x) is null"]
)
def test_the_least_integer_is_a_value(tier, condition):
    rows = rows_of(x=[LEAST, 5, 6, LEAST, 7])
    check("p", {"p": condition}, rows)
    check(". p", {"p": condition}, rows)
    check("p .* q", {"p": condition, "q": f"not ({condition})"}, rows)


def test_the_least_integer_is_a_value_of_each_partition(tier):
    rows = rows_of(k=[0, 1, 0, 1, 1, 0], x=[LEAST, LEAST, 5, 6, LEAST, 7])
    check("p", {"p": "prev(x) < 0"}, rows, partition_by=["k"])
    check("p", {"p": "prev(x, 2) < prev(x)"}, rows, partition_by=["k"])


@pytest.mark.parametrize("of", ["min(a.x)", "first(a.x)", "sum(a.x)", "a[1].x", "a[2].x"])
def test_the_least_integer_is_a_value_in_sequences(tier, of):
    frame = pd.DataFrame({"t": range(3), "kind": list("AAB"), "x": [LEAST, 0, 1]})
    if of == "a[2].x":
        frame["x"] = [0, LEAST, 1]
    query = f"PATTERN SEQ(A+ a, B b) WHERE {of} < 0 and count(a) == 2 WITHIN 10"
    assert len(cep.match(frame, query, event_type="kind", order_by="t")) == 1


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("x < 0", [1, 3]), ("x IS NULL", []), (f"x = {LEAST}", [1, 3]), ("x + 0 < 5", [1, 3, 5]),
        ("MIN(B.x) < 0", [1, 3]), ("LAST(B.x) < 0", [1, 3]), ("COUNT(B.x) = 1", [0, 1, 2, 3, 4, 5]),
    ],
)  # fmt: skip
def test_the_least_integer_is_a_value_in_sql(condition, rows):
    frame = pd.DataFrame({"t": range(6), "x": [5, LEAST, 7, LEAST, 9, 3]})
    clauses = f"MEASURES B.x AS v, COUNT(B.x) AS n PATTERN (B) DEFINE B AS {condition}"
    found = cep.match(frame, f"MATCH_RECOGNIZE (ORDER BY t {clauses})").to_frame()
    assert found["v"].tolist() == frame["x"][rows].tolist() and (found["n"] == 1).all()


def test_the_least_integer_comes_first_and_nulls_where_the_order_says():
    frame = pd.DataFrame({"x": [5, LEAST, 7, LEAST], "t": range(4)})
    for order, last in (("x", [1, 3, 0, 2]), ("x DESC", [2, 0, 1, 3])):
        text = f"MATCH_RECOGNIZE (ORDER BY {order} NULLS LAST MEASURES A.t AS t PATTERN (A) DEFINE A AS TRUE)"
        assert cep.match(frame, text).to_frame()["t"].tolist() == last


def test_a_stream_keeps_the_least_integer():
    frame = pd.DataFrame({"t": range(4), "x": [LEAST, 5, LEAST, 6]})
    stream = cep.stream("p", define={"p": "prev(x) < 0"}, order_by="t", schema=frame)
    assert sum(len(stream.push(frame.iloc[i : i + 1])) for i in range(4)) + len(stream.close()) == 2


# --- windows and differences of times


@pytest.mark.parametrize(
    ("times", "count"),
    [((LEAST + 1, LARGEST), 0), ((-(2**62) - 10, 2**62), 0), ((LARGEST - 10, LARGEST), 1)],
)
@pytest.mark.parametrize("closed", [True, False])
def test_windows_do_not_wrap(tier, times, count, closed):
    rows = rows_of(t=list(times))
    frame = pd.DataFrame({"t": np.array(times, np.int64), "kind": ["A", "B"]})
    check(". .", {}, rows, order_by="t", within=10, within_closed=closed)
    check(". any* .", {"any": "true"}, rows, order_by="t", within=10, within_closed=closed)
    call = {"event_type": "kind", "order_by": "t"}
    for strategy in ("any", "next", "strict"):
        found = cep.match(frame, "PATTERN SEQ(A a, B b) WITHIN 20", strategy=strategy, **call)
        assert len(found) == count


@pytest.mark.parametrize("engine", ["auto", "search", "ordered", "tree", "linked", "siddhi_like_runs"])
@pytest.mark.parametrize("count", [0, 1])
def test_every_engine_knows_the_distance_of_far_times(engine, count):
    times = [LEAST + 1, LARGEST] if count == 0 else [LEAST + 1, LEAST + 6]
    frame = pd.DataFrame({"t": np.array(times, np.int64), "kind": ["A", "B"]})
    query = "PATTERN SEQ(A a, B b) WITHIN 10"
    assert cep.match(frame, query, event_type="kind", order_by="t", engine=engine).count() == count


def far_times(unit: str) -> pd.DataFrame:
    """Return two times whose distance has no int64 in nanoseconds."""
    ticks = np.array(["1677-09-22", "2262-04-11"], f"M8[{unit}]")
    return pd.DataFrame({"t": ticks, "kind": ["A", "B"]})


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
@pytest.mark.parametrize(
    "condition",
    ["t - prev(t) > '1 s'", "prev(t) - t < t - t", "'1 s' < t - prev(t)", "t > prev(t) + '1 day'"],
)
def test_differences_of_times_do_not_wrap(tier, unit, condition):
    frame = far_times(unit)
    assert len(cep.match(frame, "p", define={"p": condition})) == 1
    assert len(cep.match(frame, ". p", define={"p": condition})) == 1
    assert len(cep.match(frame, ". p", define={"p": f"not ({condition})"})) == 0


@pytest.mark.parametrize("condition", ["delta(t) > '1 s'", "t - first(t) >= '90000 days'"])
def test_differences_from_the_start_do_not_wrap(tier, condition):
    frame = far_times("ns")
    assert len(cep.match(frame, ". p", define={"p": condition})) == 1
    assert len(cep.match(frame, ". .* p", define={"p": condition})) == 1
    assert len(cep.match(frame, ". p", define={"p": f"not ({condition})"})) == 0


def test_differences_of_sequences_do_not_wrap(tier):
    frame = far_times("ns")
    call = {"event_type": "kind", "order_by": "kind"}
    for sign, count in ((">", 1), ("<=", 0)):
        query = f"PATTERN SEQ(A a, B b) WHERE b.t - a.t {sign} '1 s'"
        assert len(cep.match(frame, query, **call)) == count
        query = f"PATTERN SEQ(A+ a, B b) WHERE a[i].t - b.t {'<' if sign == '>' else '>='} a[i].t - a[i].t"
        assert len(cep.match(frame, query, **call)) == count


def test_a_measure_of_far_times_is_the_longest_duration():
    frame = far_times("ns")
    measures = {"long": "delta(t)", "back": "first(t) - last(t)", "is_long": "last(t) - first(t) > '1 s'"}
    row = frame.cep.match(". .", measures=measures).to_frame().iloc[0]
    assert row["long"] == pd.Timedelta.max
    assert row["back"] == -pd.Timedelta.max
    assert bool(row["is_long"])


@pytest.mark.parametrize("gap", ["1 s", "90000 days"])
def test_sessions_of_far_times(gap):
    frame = far_times("ns")
    assert len(cep.sessions(frame, gap=gap, order_by="t")) == 2


# --- windows of rows


@pytest.mark.parametrize(
    "values",
    [[2**62 + 5, 2**62 + 7, LARGEST], [LEAST, LEAST, 0], [LEAST, LARGEST, 5], [2**62, -(2**62), 3]],
    ids=["large", "least", "both ends", "quarters"],
)
def test_windows_of_rows_aggregate_every_integer(values):
    frame = pd.DataFrame({"t": range(3), "x": np.array(values, np.int64)})
    made = cep.window(frame, {"m": "avg(x)", "s": "std(x)"}, time=10, order_by="t")
    for n in (1, 2, 3):
        own = values[:n]
        mean = sum(own) / n
        square = (n * sum(x * x for x in own) - sum(own) ** 2) / n**2
        assert made["m"].iloc[n - 1] == pytest.approx(mean, rel=1e-15)
        assert made["s"].iloc[n - 1] == pytest.approx(square**0.5, rel=1e-15)
    parts = cep.window(frame, {"s": "std(x)"}, time=10, order_by="t", engine=cep.ScatterGather(2))
    assert parts["s"].tolist() == made["s"].tolist()


# --- at random


def random_times(rng: Random, n: int) -> list[int]:
    """Return rising times, some of them near each other."""
    start = rng.choice((LEAST + 1, -(2**62), 0, LARGEST - 40))
    return sorted(rng.choice((start + rng.randint(0, 30), rng.randint(LEAST + 1, LARGEST))) for _ in range(n))


@seeds_of_tiers(3, 40)
def test_random_values_at_the_border(tier, seed):
    rng = Random(seed)
    times = random_times(rng, rng.randint(2, 8))
    rows = rows_of(t=times, x=[rng.choice(BORDERS) for _ in times], k=[rng.randint(0, 1) for _ in times])
    call = {"order_by": "t", "within": rng.choice((1, 10, 2**40, LARGEST - 1))}
    call["within_closed"] = rng.random() < 0.5
    call["partition_by"] = rng.choice(((), ("k",)))
    at = rng.choice(BORDERS) / 3 + 1e3
    define = {"up": "x > prev(x)", "mean": "avg(x) > :at", "far": "prev(x, 2) <= x", "any": "true"}
    for pattern in ("up", "any .* mean", ". far+ mean", "far up", ". mean"):
        used = {name: text for name, text in define.items() if name in pattern}
        params = {"at": at} if "mean" in pattern else None
        check(pattern, used, rows, measures=["avg(x)", "min(x)"], params=params, **call)


@seeds_of_tiers(3, 40)
def test_random_sequences_at_the_border(tier, seed):
    rng = Random(seed)
    n = rng.randint(3, 8)
    times = random_times(rng, n)
    rows = rows_of(
        t=times, kind=["A", "B", *rng.choices("AAB", k=n - 3), "B"], x=[rng.choice(BORDERS) for _ in times]
    )
    frame = pd.DataFrame({
        "t": np.array(times, np.int64), "kind": [row["kind"] for row in rows],
        "x": np.array([row["x"] for row in rows], np.int64),
    })  # fmt: skip
    within = rng.choice((10, 2**40, LARGEST - 1))
    at = rng.choice(BORDERS) / 3 + 1e3
    for pattern, where in (
        ("A+ a, B b", "avg(a.x) > :at"), ("A a, A b", "a.x < b.x"), ("A+ a, B b", "min(a.x) <= b.x"),
        ("A+ a, B b", "avg(a[..i-1].x) > :at"), ("A+ a, B b", "a[2].x <= b.x"),
    ):  # fmt: skip
        text = f"PATTERN SEQ({pattern}) WHERE {where} WITHIN {within}"
        call = {"event_type": "kind", "order_by": "t", "params": {"at": at} if ":at" in where else None}
        expected = naive_sequences.sequence_matches(cep.sequence_query(text, **call), rows)
        found = cep.match(frame, text, **call)
        lineage = [tuple(part["position"]) for _, part in found.lineage().groupby("match")]
        assert sorted(lineage) == sorted(match.rows for match in expected)
        assert found.count() == len(expected)
