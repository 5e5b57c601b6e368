"""Interpreted queries against the definition, and against the same queries compiled."""

from __future__ import annotations

import warnings
from functools import partial

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.interpreted.instructions import ELEMENTARY
from cepkit.compile.interpreted.regex import regex_code_of
from cepkit.compile.regex.program import compile_regex
from cepkit.compile.shared import loading
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines import regex
from cepkit.engines.counting import layout
from cepkit.engines.interpreted.counting import absence_tests_of, counting_tests_of
from cepkit.engines.regex import Run, match_regex
from cepkit.engines.shared import kernels
from cepkit.errors import CepError
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.regex.construction import regex_query
from tests.oracle import generate
from tests.oracle.generate_paths import as_frame
from tests.support.count_cases import case_of_shape, check_counts, graph_and
from tests.support.regex_runs import check
from tests.support.sizes import seeds
from tests.support.tiers import check_tiers, interpret, sequence_stream

JIT = not numba.config.DISABLE_JIT
SIZE = 25  # cases of a block


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret every regex query that can be interpreted, and collect the reasons of the others."""
    reasons: list[str | None] = []

    def code_of(program, source, n_events):
        code = regex_code_of(program)
        reasons.append(code if isinstance(code, str) else None)
        return code

    monkeypatch.setattr(regex, "code_if_new", code_of)
    return reasons


def prepared(pattern, define, frame, **keywords):
    source = PandasSource(frame)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=cep.CepWarning)  # of dead suffixes
        program = compile_regex(regex_query(pattern, define=define, **keywords), source.schema)
    return program, build_events(source, program)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_random_regex_queries(seed, interpreted):
    for own in range(SIZE * seed, SIZE * (seed + 1)):
        case = generate.case(own)
        keywords = {**case.keywords(), "partition_by": case.partition_by}
        program, _ = prepared(case.pattern, case.define, generate.to_frame(case.rows), **keywords)
        if isinstance(regex_code_of(program), str):
            continue  # test_engines.py has these
        try:
            check(case.pattern, case.define, case.rows, **keywords)
        except BaseException as error:
            error.add_note(f"generate.case({own})")
            raise
    assert interpreted and not any(interpreted)


def test_most_random_queries_can_be_interpreted():
    n_interpreted = 0
    for seed in range(100):
        case = generate.case(seed)
        keywords = {**case.keywords(), "partition_by": case.partition_by}
        program, _ = prepared(case.pattern, case.define, generate.to_frame(case.rows), **keywords)
        n_interpreted += not isinstance(regex_code_of(program), str)
    assert n_interpreted >= 75


# A state with queues, values that partial matches carry, rows further back, and a window.
QUERIES = {
    "queue": (". calm* spike", {"calm": "delta(t) < 40", "spike": "x > first(x) + 3 and delta(t) < 40"}),
    "carried": ("a b+ c", {"b": "x > avg(x) or y < min(y)", "c": "sum(g) > 3 and count() >= 3"}),
    "earlier": ("a b+", {"a": "x > prev(x, 2)", "b": "x >= prev(x - prev(x)) and x != first(x)"}),
    "merged": (". a+ b", {"a": "x > 1", "b": "x < prev(x)"}),
}


def define_all(pattern: str, define: dict[str, str]) -> dict[str, str]:
    return {"a": "x > 0", **define} if "a" in pattern.split() else define


def stream(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return pd.DataFrame({
        "k": rng.integers(0, 5, n), "t": np.sort(rng.integers(0, 3 * n, n)), "x": rng.integers(0, 10, n),
        "y": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)), "g": rng.integers(0, 3, n) / 2,
    })  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", QUERIES)
def test_the_tiers_agree_on_long_streams(name, threads):
    pattern, define = QUERIES[name]
    frame = stream(100_000 if JIT else 3000)
    program, events = prepared(pattern, define_all(pattern, define), frame, partition_by="k", order_by="t")
    run = Run()
    found = match_regex(program, events, tier="interpreted", threads=threads, run=run)
    expected = match_regex(program, events, tier="compiled", threads=threads)
    assert run.tier == "interpreted"
    assert len(expected) > 10
    np.testing.assert_array_equal(found.first, expected.first)
    np.testing.assert_array_equal(found.last, expected.last)


@pytest.mark.parametrize("name", ["carried", "earlier", "merged"])
def test_a_compiled_kernel_takes_over(name, monkeypatch):
    pattern, define = QUERIES[name]
    program, events = prepared(
        pattern, define_all(pattern, define), stream(4000), partition_by="k", order_by="t"
    )
    expected = match_regex(program, events, tier="compiled", threads=1)
    batches = iter([False, False, True])
    monkeypatch.setattr(regex, "is_ready", lambda text: next(batches))
    monkeypatch.setattr(regex, "compile_if_it_pays", lambda *_: None)
    monkeypatch.setattr(regex, "_EVENTS_PER_BATCH", 700)
    run = Run()
    found = match_regex(program, events, tier="interpreted", threads=1, run=run)
    assert run.tier == "interpreted, then compiled"
    np.testing.assert_array_equal(found.first, expected.first)
    np.testing.assert_array_equal(found.last, expected.last)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_query_with_many_live_starts_is_compiled_after_a_while(threads, monkeypatch):
    """A kernel with a queue looks at few of them. Such a query took minutes on a million rows."""
    pattern, define = QUERIES["queue"]
    program, events = prepared(pattern, define, stream(4000), partition_by="k", order_by="t")
    expected = match_regex(program, events, tier="compiled", threads=threads)
    monkeypatch.setattr(regex, "compile_if_it_pays", lambda *_: None)
    monkeypatch.setattr(regex, "reason_to_compile", lambda *_: None)
    patient, hasty, steps = Run(), Run(), []
    match_regex(program, events, threads=threads, run=patient)
    assert patient.tier == "interpreted" and patient.work > 4000
    monkeypatch.setattr(regex, "MOST_INTERPRETED_WORK", 1000)
    found = match_regex(program, events, threads=threads, run=hasty, progress=steps.append)
    assert hasty.tier == "compiled" and hasty.work < patient.work and hasty.threads == threads
    assert sum(steps) == 4000
    np.testing.assert_array_equal(found.first, expected.first)
    np.testing.assert_array_equal(found.last, expected.last)


NEAR, FAR = [*range(0, 40, 3)], [*range(-(10**12), 10**12, 10**11)]
OTHERS = [0.5 * i for i in range(20)]


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("column", ["n", "nullable", "f", "t"])
@pytest.mark.parametrize("condition", ["{} in {}", "{} not in {}", "not (prev({}) in {})"])
@pytest.mark.parametrize("values", [NEAR, FAR, OTHERS, [*NEAR, None]])
def test_lists_of_numbers_are_interpreted(seed, column, condition, values):
    """They were compiled first, which took half a second."""
    rng, n = np.random.default_rng(seed), 300
    drawn = rng.choice(np.array([*NEAR, *FAR, *range(9), 2**62, -(2**63) + 1, 2**63 - 1], np.int64), n)
    frame = pd.DataFrame({
        "n": drawn, "nullable": pd.array(np.where(rng.random(n) < 0.2, None, drawn), "Int64"),
        "f": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 40, n) / 2),
        "t": pd.to_timedelta(np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 40, n)), "s"),
    })  # fmt: skip
    shown = [f"'{abs(v)} s'" if column == "t" else v for v in values if v is not None]
    listed = ", ".join([*map(str, shown), *(["null"] if None in values else [])])
    program, events = prepared("x .", {"x": condition.format(column, f"[{listed}]")}, frame)
    found = match_regex(program, events, tier="interpreted")
    expected = match_regex(program, events, tier="compiled")
    np.testing.assert_array_equal(found.first, expected.first)


def test_a_query_that_cannot_be_interpreted_says_why():
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    program, events = prepared("up", {"up": lambda x: x > 0}, frame)
    assert "functions of the user" in regex_code_of(program)
    with pytest.raises(CepError, match=r"cannot be interpreted: it calls functions of the user"):
        match_regex(program, events, tier="interpreted")
    assert len(match_regex(program, events)) == 2


@pytest.fixture
def elementary():
    """Have the kernels of logarithms and powers at hand."""
    load_kernels(ELEMENTARY)


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(
    "function", ["exp(x)", "log(x)", "log2(x)", "log10(x)", "power(x, y)", "power(x, n)"]
)
def test_logarithms_and_powers_have_the_bits_of_compiled_kernels(seed, function, elementary):
    """numpy rounds some of them differently, so they were compiled first, which took a second."""
    rng, n = np.random.default_rng(seed), 20_000 if JIT else 500
    special = [0.0, -0.0, 1.0, -1.0, 2.0, 10.0, np.inf, -np.inf, np.nan, 5e-324, 1e308]
    frame = pd.DataFrame({
        "x": rng.permutation([*special, *rng.normal(0, 1, n), *np.exp(rng.normal(0, 30, n))]),
        "y": rng.permutation([*special, *rng.normal(0, 5, 2 * n)]),
        "n": rng.integers(-3, 4, 2 * n + len(special)),
    })  # fmt: skip
    with np.errstate(all="ignore"):
        values = np.log(frame["x"]) if "log" in function else frame["x"]
    bounds = [f"{function} >= {bound!r}" for bound in np.nanquantile(values, [0.1, 0.5, 0.9]).tolist()]
    # The last digits decide these.
    bounds += [f"{function} % 1e-9 < 5e-10", f"{function} != prev({function})", f"not {function} > y"]
    for bound in bounds:
        program, events = prepared("a b", {"a": bound, "b": f"{function} is not null"}, frame)
        found = match_regex(program, events, tier="interpreted")
        expected = match_regex(program, events, tier="compiled")
        np.testing.assert_array_equal(found.first, expected.first, bound)


# --- sequences -------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Interpret every count that can be interpreted, and collect the reasons of the others."""
    reasons: list[str | None] = []

    def tests_of(graph):
        tests = counting_tests_of(graph)
        reasons.append(tests if isinstance(tests, str) else None)
        return tests

    monkeypatch.setattr(layout, "counting_tests_of", tests_of)
    interpret(monkeypatch)
    return reasons


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_random_counts(seed, counted):
    for own in range(SIZE * seed, SIZE * (seed + 1)):
        drawn, rows = case_of_shape(own, own)
        graph, _, _ = graph_and(drawn.query(), as_frame(rows))
        absences = (absence for link in graph.links for absence in link.absences)
        if any(isinstance(t, str) for t in (counting_tests_of(graph), *map(absence_tests_of, absences))):
            continue  # test_chain_counts.py has these
        try:
            check_counts(drawn, rows)
        except BaseException as error:
            error.add_note(f"case_of_shape({own}, {own})")
            raise
    assert counted and not any(counted)


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize("text", [
    "SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x > b.x",
    "SEQ(A a, B b, C c) WHERE b.x > a.x AND b.k < a.k AND c.x > b.x AND c.k < b.k",
    "SEQ(A a, B b, C c) WHERE [k] AND b.y >= a.y * 0.5 AND c.x != b.x",
    "SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x",
    "SEQ(A a, !B b, C c) WHERE b.x > a.x",
    "SEQ(A a, B b, C c) WHERE b.x IN (1, 2, 3, 5, 7, 11, 13, 17, 19, 23) AND c.x > b.x",
])  # fmt: skip
def test_the_tiers_agree_on_sequences(text, monkeypatch):
    query = f"PATTERN {text} WITHIN 60"
    begin = partial(interpret, monkeypatch)
    check_tiers(monkeypatch, sequence_stream(50_000), query, begin, n_shown=20)


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
def test_first_matches_compile_nothing_after_a_listing(tmp_path, monkeypatch):
    """A listing compiles some of the kernels that find a match by its number, but not all."""
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("CEPKIT_TIER", "auto")
    rng, n = np.random.default_rng(8), 50_000
    frame = pd.DataFrame({"kind": rng.choice(list("ABCD"), n), "t": np.arange(n)})
    text = "PATTERN SEQ(A a, B b, C c) WITHIN 6"

    def found():
        return cep.match(frame, text, event_type="kind", order_by="t")

    listed = found().to_frame()

    def load_compiled(text, names):
        assert loading.is_ready(text)
        return loading.load(text, names)

    monkeypatch.setattr(kernels, "load", load_compiled)
    pd.testing.assert_frame_equal(found().head(5), listed.head(5))
