"""Sequences whose events are joined by equal values of different columns, against the definition."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.after_match import report_matches
from cepkit.engines.shared import by_key
from cepkit.engines.shared.by_key import MatchesByKey, keyed_program
from cepkit.errors import CepError
from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import event_patterns
from cepkit.planning.planner import choose_engine
from cepkit.streaming import sequence_stream
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import seeds
from tests.support.tiers import run_as_python

FAMILIES = [name for name in gs.FAMILIES if name not in ("strict", "partition")]
SIZE = 4  # cases of each family for a seed
VALUES = {
    "x": (0, 1, 2), "g": (0, 1, 2, None), "y": (0.0, -0.0, 1.0, 2.0, float("nan")), "s": ("ab", "b", None),
}  # fmt: skip
COLUMNS = (("x", "g"), ("x", "g"), ("x", "y", "g"), ("x",), ("s", "k"), ("y",))  # that may be equal


def joined_case(seed: int, family: str) -> gs.Case | None:
    """Return a case whose variables are joined by equalities, or None if the language refuses them."""
    case, draw = gs.case(seed, seed, family), Random(f"joins {seed} {family}")
    names = [event.variable for event in event_patterns(case.query.pattern)]
    absent, columns = case.query.absent_variables, draw.choice(COLUMNS)
    column_of = {name: draw.choice(columns) for name in names}
    present = [name for name in names if name not in absent]
    joins = []
    for i, name in enumerate(names):
        others = [other for other in present if other != name and (name in absent or other in names[:i])]
        if others and draw.random() < 0.95:
            other = draw.choice(others)
            sides = [ex.Reference(variable, column_of[variable]) for variable in (name, other)]
            joins.append(ex.Comparison("==", *(sides if draw.random() < 0.5 else sides[::-1])))
    rows = [{**row, **{name: draw.choice(of) for name, of in VALUES.items()}} for row in case.rows]
    query = replace(case.query, within_events=None) if draw.random() < 0.9 else case.query
    joined = gs.Case(replace(query, where=(*query.where, *joins)), rows)
    try:
        bound(joined)
    except CepError:
        return None
    return joined if gs.n_candidates(joined) <= gs.MOST_CANDIDATES else None


@pytest.mark.parametrize("seed", seeds(1, 150))
@pytest.mark.parametrize("family", FAMILIES)
def test_random_joins_are_the_definition(seed, family, monkeypatch):
    monkeypatch.setattr(by_key, "_WIDEST", Random(seed).choice([0, 4]))
    for number in range(seed * SIZE, (seed + 1) * SIZE):
        if number == seed * SIZE + 1:
            run_as_python(monkeypatch)  # only the first case is compiled
        if (case := joined_case(number, family)) is None:
            continue
        program, events = bound(case)
        if keyed_program(program) is None:
            continue
        engine, note = choose_engine(program), f"joined_case({number}, {family!r})"
        assert engine.by_key, note
        wanted = sequence_matches(case.query, case.rows)
        found = engine.of_sequences(program, events)
        assert isinstance(found, MatchesByKey) or not case.rows
        assert as_matches(program, all_of(report_matches(program, found))) == wanted, note
        if not case.query.selects:
            check_parts(program, events, engine.of_sequences, wanted, note)


def check_parts(program, events, search, wanted, note: str) -> None:
    """Check what does not list all matches, each with matches that nothing is known of."""
    found = search(program, events)
    assert (found.at_most() >= len(wanted), found.count(), found.any()) == (
        True,
        len(wanted),
        bool(wanted),
    ), note
    positions, counts = search(program, events).ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, np.int64)).tolist() == lasts, note
    assert as_matches(program, search(program, events).first(2)) == wanted[:2], note
    sample = as_matches(program, search(program, events).sample(3, seed=1))
    assert sample == [match for match in wanted if match in sample] and len(sample) == min(3, len(wanted)), (
        note
    )
    blocks = [match for block in search(program, events).blocks(2) for match in as_matches(program, block)]
    assert blocks == wanted, note


def test_enough_random_joins_run_by_key():
    cases = [
        joined_case(number, family) for number in range(8) for family in ("any", "next", "negation", "all")
    ]
    programs = [bound(case)[0] for case in cases if case is not None]
    assert sum(keyed_program(program) is not None for program in programs) >= 8


@pytest.mark.parametrize("dtype", ["int64", "int16", "float64", "Int64", "string"])
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_parents_and_children_are_those_of_a_loop(seed, dtype):
    draw, n = np.random.default_rng(seed), 300
    frame = pd.DataFrame(
        {"t": np.sort(draw.integers(0, 200, n)), "kind": draw.choice(["create", "term", "net"], n)}
    )
    frame["pid"] = pd.Series(draw.integers(0, 9, n)).astype("int64").astype(dtype)
    frame["ppid"] = pd.Series(draw.integers(0, 9, n)).astype("int64" if dtype == "int16" else dtype)
    if dtype in ("Int64", "string"):
        frame.loc[draw.random(n) < 0.2, ["pid", "ppid"]] = None
    query = "PATTERN SEQ(create a, !term x, net b) WHERE a.pid = x.pid AND a.pid = b.ppid WITHIN 20"
    found = frame.cep.match(query, event_type="kind", order_by="t")
    assert found.engine.by_key
    rows = list(frame.itertuples(index=False))
    equal = lambda one, other: not pd.isna(one) and not pd.isna(other) and one == other  # noqa: E731
    wanted = [
        (a, b)
        for b, last in enumerate(rows)
        for a, first in enumerate(rows[:b])
        if (first.kind, last.kind) == ("create", "net")
        and (last.t - first.t <= 20 and equal(first.pid, last.ppid))
        and not any(row.kind == "term" and equal(row.pid, first.pid) for row in rows[a + 1 : b])
    ]  # fmt: skip
    pairs = found.lineage().pivot(index="match", columns="variable", values="position")
    assert list(pairs[["a", "b"]].itertuples(index=False, name=None)) == wanted if wanted else not len(pairs)


def test_a_start_without_a_key_is_followed_by_nothing_equal():
    frame = pd.DataFrame(
        {"t": [0, 1, 2, 8, 9], "kind": list("AAXAX"), "p": [None, 1, None, 7, None], "q": [0, 0, 1.0, 0, 9]}
    )
    query = "PATTERN SEQ(A a, !X x) WHERE a.p = x.q WITHIN 5"
    found = frame.cep.match(query, event_type="kind", order_by="t")
    assert (found.engine.by_key, found.to_frame()["a_t"].tolist()) == (True, [0])
    assert found.undecided()["a_t"].tolist() == [8]  # the data end before its window


def test_an_event_with_two_keys_has_a_place_for_each():
    frame = pd.DataFrame({"t": range(4), "pid": [1, 2, 3, 2], "ppid": [0, 1, 2, 2], "v": [5, 6, 7, 8]})
    found = frame.cep.match("PATTERN SEQ(_ a, _ b) WHERE a.pid = b.ppid", order_by="t")
    assert found.to_frame().values.tolist() == [[0, 1], [1, 2], [1, 3]]
    assert found.aggregate(s="sum(b.v)", last="max(a.v)").tolist() == [21, 6]
    explained = str(frame.cep.explain("PATTERN SEQ(_ a, _ b) WHERE a.pid = b.ppid", order_by="t"))
    assert "the values of a.pid == b.ppid, as if they were partitions" in explained


def test_spark_joins_the_same_events(spark):
    draw, n = np.random.default_rng(5), 120
    frame = pd.DataFrame({
        "u": draw.choice(list("pq"), n), "t": range(n), "kind": draw.choice(["create", "term", "net"], n),
        "pid": draw.integers(0, 6, n), "ppid": draw.integers(0, 6, n),
    })  # fmt: skip
    query = "PATTERN SEQ(create a, !term x, net b) WHERE a.pid = x.pid AND a.pid = b.ppid WITHIN 30"
    keywords = {"event_type": "kind", "order_by": "t", "partition_by": "u", "strategy": "next"}
    wanted = frame.cep.match(query, **keywords).to_frame().sort_values(["b_t", "a_t"])
    found = (
        spark.createDataFrame(frame)
        .cep.match(query, **keywords)
        .to_frame()
        .toPandas()
        .sort_values(["b_t", "a_t"])
    )
    assert len(wanted) > 5 and found.values.tolist() == wanted.values.tolist()


@pytest.mark.parametrize("least", [0, 1 << 10])
def test_a_stream_joins_the_same_events(least, monkeypatch):
    monkeypatch.setattr(sequence_stream, "_FEW", least)
    draw, n = np.random.default_rng(4), 200
    frame = pd.DataFrame({
        "t": np.sort(draw.integers(0, 150, n)), "kind": draw.choice(["create", "term", "net"], n),
        "pid": draw.integers(0, 6, n), "ppid": draw.integers(0, 6, n),
    })  # fmt: skip
    query = "PATTERN SEQ(create a, !term x, net b) WHERE a.pid = x.pid AND a.pid = b.ppid WITHIN 20"
    stream = cep.stream(query, frame.head(0), event_type="kind", order_by="t")
    parts = [stream.push(frame[begin : begin + 7]) for begin in range(0, n, 7)]
    rows = pd.concat([*parts, stream.close()], ignore_index=True)
    wanted = frame.cep.match(query, event_type="kind", order_by="t").to_frame()
    assert len(wanted) > 10 and rows[["a_t", "b_t"]].values.tolist() == wanted[["a_t", "b_t"]].values.tolist()
