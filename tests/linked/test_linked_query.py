"""Queries run by LinkedCEP and the run engines by name, against the definition; what they refuse and tell."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, ResultTooLargeError, UnsupportedQueryError
from cepkit.language.sequences.construction import sequence_query
from cepkit.linked import engine as linked_matches
from cepkit.linked import kernel_machine as plain_machine
from cepkit.linked.engine import PartialMatchEngine, PlainlyMatched
from cepkit.linked.query import linked_query_unsupported
from cepkit.planning.planner import choose_engine, engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import as_matches, bound
from tests.support.sizes import JIT, seeds

NAMES = ["linked", "sase_runs", "siddhi_like_runs"]
# Machine code costs a fraction of a second per shape: few shapes with many streams. Interpreted, one each.
SHAPES, STREAMS, FULL_SHAPES, FULL_STREAMS = (3, 10, 12, 60) if JIT else (260, 1, 1500, 1)
OTHER_SHAPES, FULL_OTHER_SHAPES = (1, 3) if JIT else (45, 600)


def pytest_generate_tests(metafunc):
    if "shape_seed" in metafunc.fixturenames:
        of_comparisons = "comparisons" in metafunc.function.__name__
        shapes, full_shapes = (SHAPES, FULL_SHAPES) if of_comparisons else (OTHER_SHAPES, FULL_OTHER_SHAPES)
        metafunc.parametrize("shape_seed", seeds(shapes, full_shapes))
        metafunc.parametrize("seed", seeds(STREAMS, FULL_STREAMS))


# --- the definition ---------------------------------------------------------------------------------------


def check(case: gs.Case, name: str, **how) -> None:
    program, events = bound(case)
    assert linked_query_unsupported(program) is None
    wanted = sequence_matches(case.query, case.rows)
    found = PlainlyMatched(program, events, name, **how)
    assert found.count() == len(wanted)
    assert as_matches(program, found.ending(0, events.n_events)) == wanted
    positions, counts = found.ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, dtype=np.int64)).tolist() == lasts
    assert found.run.partial_matches == found.run.intermediate + found.run.complete


# Conditions that are comparisons of two events, on the columns that streams have.
NUMBERS = ("{}.x", "{}.x", "{}.y", "{}.g", "{}.y * :factor", "{}.x + 1", "-{}.y", "{}.x * {}.g", "abs({}.x)")
SIDES = 4 * (NUMBERS,) + (("{}.s",), ("{}.f",))
SIGNS = ("<", "<=", ">", ">=", "==", "!=")


def comparing_case(shape_seed: int, seed: int) -> gs.Case:
    """Return a sequence of 1 to 4 events, some of them loops, with comparisons and absent events between."""
    shape, values = Random(f"linked shape {shape_seed}"), Random(f"linked values {shape_seed} {seed}")
    names = "abcd"[: shape.choice([1, 2, 2, 3, 3, 3, 4])]
    loops = {name for name in names if shape.random() < 0.25}
    kind_of = {name: shape.choice("AB" if shape.random() < 0.3 else name.upper()) for name in names}
    parts, absent = [], {}
    for i, name in enumerate(names):
        if i and shape.random() < 0.25:
            absent[f"n{i}"] = i
            parts.append(f"!{shape.choice('NAB')} n{i}")
        parts.append(f"{kind_of[name]}+ {name}[]" if name in loops else f"{kind_of[name]} {name}")

    def compared(one: str, other: str) -> str:
        forms = shape.choice(SIDES)
        sides = [shape.choice(forms).replace("{}", text) for text in shape.sample([one, other], 2)]
        sign = shape.choice(SIGNS[4:] if forms == ("{}.f",) else SIGNS[:4] * 3 + SIGNS)
        text = f"{sides[0]} {sign} {sides[1]}"
        return f"NOT ({text})" if shape.random() < 0.15 else text

    where = ["skip_till_any_match"]
    for _ in range(shape.choice([0, 1, 1, 1, 2])):
        i, j = sorted((shape.randrange(len(names)), shape.randrange(len(names))))
        one, other = names[i], names[j]
        if i < j:
            last, each = f"{one}[LEN]" if one in loops else one, f"{other}[i]" if other in loops else other
            where.append(compared(last, each))
        elif one in loops:
            where.append(compared(f"{one}[i-1]", f"{one}[i]"))
        else:
            where.append(f"{one}.x > 0")
    for name, i in absent.items():
        singles = [other for other in names if other not in loops]
        if singles and shape.random() < 0.6:
            where.append(compared(name, shape.choice(singles)))
        elif i and shape.random() < 0.5:
            where.append(f"{name}.x > 0")
    text = f"PATTERN SEQ({', '.join(parts)}) WHERE {' AND '.join(where)}"
    within = values.choice([0, 3, 5, 8, 12, 20]) if shape.random() < 0.6 else None
    query = sequence_query(
        text,
        event_type="kind",
        order_by=["t"],
        partition_by=shape.choice([None, ["k"], ["k"], ["k", "f"]]),
        params={"factor": values.choice([1, 2, 0.5, -1])} if ":factor" in text else None,
        strict_time=shape.random() < 0.25,
        **({} if within is None else {"within": within, "within_closed": shape.random() < 0.5}),
    )
    n_keys = values.randint(1, 3) if query.partition_by else 1
    n_events = values.choice([0, 5, 8, 10, 10 if loops else 16]) + 2 * (n_keys - 1)
    return gs.Case(query, gs.stream(values, query, n_events, n_keys, extra_types=shape.choice([0, 1])))


def test_comparisons_as_defined(shape_seed, seed):
    case = comparing_case(shape_seed, seed)
    check(case, "linked")
    if (shape_seed + seed) % 5 == 0:
        check(case, "sase_runs")
        check(case, "siddhi_like_runs")


def test_that_the_cases_compare_something():
    drawn = [comparing_case(shape, 0) for shape in range(60)]
    programs = [bound(case)[0] for case in drawn]
    n_matches = [len(sequence_matches(case.query, case.rows)) for case in drawn]
    assert np.mean([n > 0 for n in n_matches]) > 0.3
    assert sum(bool(program.branches[0].conditions) for program in programs) > 30
    assert sum(program.query.strict_time for program in programs) > 5
    assert sum(not program.window.closed for program in programs) > 10
    assert sum(bool(program.branches[0].branch.absences) for program in programs) > 10


def any_case(shape_seed: int, seed: int) -> gs.Case:
    """Return a case of any conditions, without what these engines do not run."""
    for attempt in range(200):
        number = 1000 * shape_seed + attempt
        family = ("any", "window", "negation", "kleene")[number % 4]
        drawn = gs.case(1000 * number + seed, number, family)
        query = replace(drawn.query, within_events=None, gap_within=None, strategy="any")
        case = replace(drawn, query=query)
        if linked_query_unsupported(bound(case)[0]) is None and gs.n_candidates(case) <= gs.MOST_CANDIDATES:
            return case
    raise RuntimeError(f"no case for shape {shape_seed}")


def test_any_conditions_as_defined(shape_seed, seed):
    check(any_case(shape_seed, seed), "linked")


# --- more matches than are kept ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(12))
def test_matches_that_are_not_kept_are_made_again(number, monkeypatch):
    name = NAMES[number % 3]
    monkeypatch.setattr(linked_matches, "_EVENTS_PER_PUSH", 3)
    case = comparing_case(number % 3, number) if JIT else comparing_case(number, 0)
    check(case, name, most_known=0)
    program, events = bound(case)
    found, whole = PlainlyMatched(program, events, name, 0), PlainlyMatched(program, events, name)
    every = whole.ending(0, events.n_events)
    for low in range(0, events.n_events, 3):
        part = found.ending(low, low + 3)
        own = every.take(np.flatnonzero((every.last >= low) & (every.last < low + 3)))
        assert as_matches(program, part) == as_matches(program, own)
    numbers = list(range(0, len(every), 2))
    assert as_matches(program, found.take(numbers)) == as_matches(program, every.take(np.array(numbers, int)))
    assert sum(map(len, found.blocks(2))) == len(every)


def abc(n: int) -> pd.DataFrame:
    """Return n events of each of the types a, b, c, one type after the other."""
    return pd.DataFrame({"kind": np.repeat(list("abc"), n), "ts": np.arange(3 * n)})


ABC = "PATTERN SEQ(a a, b b, c c)"
KEYED = {"event_type": "kind", "order_by": "ts"}


def test_an_explosion_is_counted_and_looked_at():
    n = 3000 if JIT else 110
    found = cep.match(abc(n), ABC, engine="linked", **KEYED)
    assert found.count() == n**3 > linked_matches.MOST_KNOWN
    if not JIT:  # with the JIT an event alone ends too many, see below
        assert found.head(3).to_numpy().tolist() == [[i, n, 2 * n] for i in range(3)]
    assert found.run.partial_matches == 3 * n and found.run.chains == 3
    assert found.run.coverages().tolist() == [[n - 1, 2 * n - 1, 3 * n - 1]]
    with pytest.raises(ResultTooLargeError, match=f"there are {n**3:,} matches"):
        found.to_frame()


@pytest.mark.skipif(not JIT, reason="too many matches without compiled kernels")
def test_one_event_with_too_many_matches_is_refused():
    found = cep.match(abc(3000), ABC, engine="linked", **KEYED)
    with pytest.raises(ResultTooLargeError, match=r"9,000,000 matches end .* at most 8,388,608; count\(\)"):
        found[0]


def test_too_many_live_partial_matches_are_refused(monkeypatch):
    monkeypatch.setattr(plain_machine, "_MOST_SLOTS", 2000)
    query = "PATTERN SEQ(a a, b b, c c) WHERE b.ts > a.ts AND c.ts > b.ts"
    with pytest.raises(ResultTooLargeError, match="more than 2,000 partial matches or chains are live"):
        cep.match(abc(60), query, engine="linked", **KEYED).count()


# --- what users see ---------------------------------------------------------------------------------------


def example() -> pd.DataFrame:
    """Return the stream of the paper's example."""
    return pd.DataFrame({"kind": list("aabbabcc"), "ts": range(8), "x": [1, 5, 2, 7, 3, 4, 9, 1]})


def test_the_three_engines_tell_what_they_made():
    runs = {name: cep.match(example(), ABC, engine=name, **KEYED).run for name in NAMES}
    assert [run.matches for run in runs.values()] == [14, 14, 14]
    assert [run.partial_matches for run in runs.values()] == [13, 24, 24]
    assert [run.copies for run in runs.values()] == [10, 21, 21]
    assert (runs["linked"].intermediate, runs["linked"].complete, runs["linked"].chains) == (7, 6, 8)
    assert runs["linked"].coverable == ("a", "b", "c") and runs["sase_runs"].coverable == ()
    assert runs["linked"].coverages().tolist() == [[1, 3, 7], [1, 5, 7], [4, 5, 7]]
    with pytest.raises(AttributeError, match="has no chains"):
        runs["sase_runs"].coverages()


def test_counting_makes_no_match(monkeypatch):
    found = cep.match(example(), ABC, engine="linked", **KEYED)
    monkeypatch.setattr(PlainlyMatched, "_known", property(lambda self: 1 / 0))
    assert found.count() == 14 and len(found) == 14 and bool(found) and found.run.matches == 14
    with pytest.raises(ZeroDivisionError):
        found.to_frame()


def test_searches_tell_their_tier():
    assert cep.match(example(), ABC, engine="search", **KEYED).run.tier in ("interpreted", "compiled")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("copies", ["pointer", "references", "deep"])
def test_a_value_says_how_the_engine_copies(name, copies):
    plain = cep.match(example(), ABC, engine=name, **KEYED)
    value = PartialMatchEngine(name, copies)
    found = cep.match(example(), ABC, engine=value, **KEYED)
    assert found.to_frame().equals(plain.to_frame())
    assert (found.run.partial_matches, found.run.copies) == (plain.run.partial_matches, plain.run.copies)
    assert found.run.copying.copies == copies and (found.run.copied_bytes > 0) == (copies != "pointer")
    text = str(cep.explain(example(), ABC, engine=value, **KEYED))
    assert f"copies       {copies}: a new partial match gets a " in text
    assert "copies" not in str(cep.explain(example(), ABC, engine=name, **KEYED))


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: PartialMatchEngine("linkd"),
            "engine 'linkd' makes no partial matches. Did you mean 'linked'",
        ),
        (lambda: PartialMatchEngine("linked", "depe"), "copies='depe' is not known. Did you mean 'deep'"),
        (lambda: PartialMatchEngine("linked", "deep", -1), "payload=-1: expected a whole number, 0 or more"),
        (lambda: PartialMatchEngine("linked", payload=4), "only deep copies take attributes"),
        (
            lambda: cep.match(example(), ABC, engine=PartialMatchEngine("linked"), trace=True, **KEYED),
            "writes no trace",
        ),
        (
            lambda: cep.match(example(), ABC, engine=PartialMatchEngine, **KEYED),
            r"Give a value: PartialMatchEngine\('linked', copies='deep'\)",
        ),
    ],
)
def test_mistakes_in_a_value_are_told(make, message):
    with pytest.raises(CepError, match=message):
        make()


@pytest.mark.parametrize("name", NAMES)
def test_auto_never_chooses_them(name):
    assert not engines()[name].automatic
    program, _ = bound(comparing_case(0, 0))
    assert choose_engine(program).automatic and choose_engine(program, name).name == name


def test_explain_tells_which_events_share_chains():
    query = f"{ABC} WHERE a.x < c.x WITHIN 5"
    text = str(cep.explain(example(), query, engine="linked", **KEYED))
    assert "engine       linked: LinkedCEP: chains of partial matches, combined at the end" in text
    assert "chains       for b; single partial matches for a, c" in text
    assert "counting     by combining chains, without making matches" in text
    alone = str(cep.explain(example(), f"{ABC} WHERE a.x < b.x AND b.x < c.x", engine="linked", **KEYED))
    assert (
        "chains       none: every component is tied to other events; single partial matches for a, b, c"
        in alone
    )
    assert "chains" not in str(cep.explain(example(), query, engine="sase_runs", **KEYED))
    assert "linked" not in str(cep.explain(example(), query, **KEYED))


@pytest.mark.parametrize(
    "query, keywords, reason",
    [
        ("PATTERN SEQ(a a, b b, c c) WHERE skip_till_next_match", {}, "'a' has strategy 'next'"),
        ("PATTERN SEQ(a a, b? b, c c)", {}, "optional parts make 2"),
        ("PATTERN SEQ(a a, b{2} b[], c c)", {}, "'b' is repeated a certain number of times"),
        (ABC, {"after_match": "past_last"}, "after_match"),
        ("PATTERN SEQ(a a, !b n, c+ c[]) WHERE n.x < c[i].x", {}, "ties an absent event to a later Kleene"),
        (f"{ABC} WHERE a.x < c.x AND a.x + b.x < c.x", {}, "condition 2 is no comparison of two events"),
        (". rise", {"define": {"rise": "x > 1"}, "event_type": None}, "it runs event sequences only"),
        ("PATTERN SEQ(a a, OR(b b, c c))", {}, "make 2"),
        ("PATTERN SEQ(a a, b+ b[] INNER STRICT, c c)", {}, "'b' has strategy 'strict'; it runs 'any' only"),
        ("PATTERN SEQ(a a, b b, !c n) WITHIN 5", {}, "'n' must be absent at an edge of the window"),
        ("PATTERN SEQ(!c n, a a, b b) WITHIN 5", {}, "'n' must be absent at an edge of the window"),
        (f"{ABC} WITHIN 4 EVENTS", {}, "within_events"),
        (f"{ABC} WITHIN 4 GAP 2", {}, "gap_within"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_what_they_do_not_run_is_told(query, keywords, reason, name):
    with pytest.raises(UnsupportedQueryError, match=f"engine '{name}' cannot run this query.*{reason}"):
        cep.match(example(), query, engine=name, **{**KEYED, **keywords})


def test_a_clock_of_floating_point_is_refused_where_it_counts():
    frame = example().assign(ts=np.arange(8) / 2)
    with pytest.raises(UnsupportedQueryError, match="the clock 'ts' is of floating point"):
        cep.match(frame, f"{ABC} WITHIN 2", engine="linked", **KEYED)
    assert cep.match(frame, ABC, engine="linked", **KEYED).count() == 14


def test_too_many_events_for_bits():
    query = f"PATTERN SEQ({', '.join(f'a a{i}' for i in range(63))})"
    with pytest.raises(UnsupportedQueryError, match="at most 62 events"):
        cep.match(example(), query, engine="linked", **KEYED)


def test_streams_choose_their_engine_themselves():
    with pytest.raises(UnsupportedQueryError, match="engine='linked': a stream chooses its engine itself"):
        cep.stream(ABC, example(), engine="linked", **KEYED)
    with pytest.raises(CepError, match="engine 'linkd' is not known"):
        cep.stream(ABC, example(), engine="linkd", **KEYED)


def test_exclusive_windows_partitions_ties_and_nulls():
    rows = [
        ("p", "a", 0, 1), ("p", "a", 2, None), (None, "a", 2, 1), ("p", "b", 2, 2), (None, "b", 5, 3),
        ("p", "b", 5, 3), ("p", "b", 5, None),
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["key", "kind", "ts", "x"]).astype({"x": "Int64"})
    keywords = {**KEYED, "partition_by": "key", "engine": "linked"}

    def positions(query: str, **more) -> list:
        lineage = cep.match(frame, query, **keywords, **more).lineage()
        return [match["position"].tolist() for _, match in lineage.groupby("match")]

    assert positions("PATTERN SEQ(a a, b b)") == [[0, 3], [1, 3], [2, 4], [0, 5], [1, 5], [0, 6], [1, 6]]
    assert positions("PATTERN SEQ(a a, b b)", strict_time=True)[:2] == [[0, 3], [2, 4]]
    assert positions("PATTERN SEQ(a a, b b) WHERE a.x < b.x") == [[0, 3], [2, 4], [0, 5]]
    assert positions("PATTERN SEQ(a a, b b) WITHIN 3") == [[0, 3], [1, 3], [2, 4], [1, 5], [1, 6]]
    assert positions("PATTERN SEQ(a a, b b)", within=3, within_closed=False) == [[0, 3], [1, 3]]
    assert positions("PATTERN SEQ(a a, b b)", within=0) == [[1, 3]]
    assert positions("PATTERN SEQ(a a, b b)", within=0, within_closed=False) == []


def test_every_frame_has_the_same_answer():
    query = "PATTERN SEQ(a a, b+ b[], c c) WHERE b[i].x > b[i-1].x * 0.5 AND c.x > a.x WITHIN '5 s'"
    frame = example().assign(ts=pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(8), "s"))
    expected = cep.match(frame, query, engine="sase_runs", **KEYED)
    assert expected.count() > 3
    for given in (frame, pa.Table.from_pandas(frame), frame.set_index(frame.index * 3 + 1)):
        found = cep.match(given, query, engine="linked", **KEYED)
        made = found.to_frame()
        made = made if isinstance(made, pd.DataFrame) else made.to_pandas()
        pd.testing.assert_frame_equal(made, expected.to_frame())
    every, shown = found.lineage(), expected.lineage()
    assert every["index"].tolist() == [3 * i + 1 for i in shown["index"]]
    assert found.sample(2, seed=1).equals(expected.sample(2, seed=1))


def test_python_functions_run():
    @cep.pure(name="linked_half")
    def half(x: float) -> float:
        return float(str(x)) / 2

    query = f"{ABC} WHERE a.x < linked_half(c.x)"
    found = cep.match(example(), query, engine="linked", **KEYED)
    assert found.count() == cep.match(example(), query, engine="search", **KEYED).count() > 0
    with pytest.raises(UnsupportedQueryError, match="condition 1 is no comparison of two events"):
        cep.match(example(), f"{ABC} WHERE linked_half(b.x + a.x) > 1", engine="linked", **KEYED)


@pytest.mark.skipif(not JIT, reason="Spark's tasks compile")
def test_spark_with_partitions(spark):
    frame = pd.concat([example().assign(key=key, ts=range(k, 8 + k)) for k, key in enumerate("pq")])
    keywords = {**KEYED, "partition_by": "key", "engine": "linked"}
    query = f"{ABC} WHERE a.x < c.x"
    found = spark.createDataFrame(frame).cep.match(query, **keywords)
    expected = cep.match(frame, query, **keywords)
    assert found.count() == expected.count() > 5
    columns = ["key", "a_ts", "b_ts", "c_ts"]
    made = found.to_frame().toPandas().sort_values(columns).reset_index(drop=True)
    pd.testing.assert_frame_equal(
        made, expected.to_frame().sort_values(columns).reset_index(drop=True), check_dtype=False
    )
