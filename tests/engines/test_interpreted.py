"""Interpreted queries against the definition, and against the same queries compiled."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import partial
from math import comb

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.counting import AT_LEAST, MODULAR, WRAPPING
from cepkit.compile.instructions import ELEMENTARY, regex_code_of
from cepkit.compile.regex_program import compile_regex
from cepkit.compile.shared import loading
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines import regex, search
from cepkit.engines.counting import anchored
from cepkit.engines.counting.anchored import AnchoredCounter
from cepkit.engines.interpreted_counting import anchored_tests_of
from cepkit.engines.regex import Run, match_regex
from cepkit.engines.shared import places as kernels
from cepkit.errors import CepError
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.regex import regex_query
from cepkit.planning import evaluation_order
from tests.oracle import generate
from tests.support.counting_cases import anchored_case, in_row, layout_of
from tests.support.sizes import JIT, seeds
from tests.support.tiers import check_tiers, interpret, sequence_stream

SIZE = 25  # cases of a block


def prepared(pattern, define, frame, **keywords):
    source = PandasSource(frame)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=cep.CepWarning)  # of dead suffixes
        program = compile_regex(regex_query(pattern, define=define, **keywords), source.schema)
    return program, build_events(source, program)


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
    # The last digits decide these; each turn has one of them.
    last_digits = [f"{function} % 1e-9 < 5e-10", f"{function} != prev({function})", f"not {function} > y"]
    bounds.append(last_digits[seed])
    for bound in bounds:
        program, events = prepared("a b", {"a": bound, "b": f"{function} is not null"}, frame)
        found = match_regex(program, events, tier="interpreted")
        expected = match_regex(program, events, tier="compiled")
        np.testing.assert_array_equal(found.first, expected.first, bound)


# --- sequences -------------------------------------------------------------------------------------------


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret every sequence that can be interpreted."""
    interpret(monkeypatch)


COUNTED = {"n_shown": 20, "n_rows": 50_000}
TEXTS = {
    "SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x > b.x WITHIN 60": COUNTED,
    "SEQ(A a, B b, C c) WHERE b.x > a.x AND b.k < a.k AND c.x > b.x AND c.k < b.k WITHIN 60": COUNTED,
    "SEQ(A a, B b, C c) WHERE [k] AND b.y >= a.y * 0.5 AND c.x != b.x WITHIN 60": COUNTED,
    "SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 60": COUNTED,
    "SEQ(A a, !B b, C c) WHERE b.x > a.x WITHIN 60": COUNTED,
    "SEQ(A a, B b, C c) WHERE b.x IN (1, 2, 3, 5, 7, 11, 13, 17, 19, 23) AND c.x > b.x WITHIN 60": COUNTED,
    # conditions on the first event
    "SEQ(A a, B+ b, C c) WHERE b[i].x > a.x WITHIN 24": COUNTED,
    "SEQ(A a, B+ b, C c) WHERE [k] AND b[i].y >= a.y * 0.5 AND c.x < a.x WITHIN 24": COUNTED,
    "SEQ(A a, B+ b, C c) WHERE b[i].x > a.x AND b[i].y > b[i-1].y WITHIN 24": COUNTED,
}


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize("text", TEXTS)
def test_the_tiers_agree_on_sequences(text, monkeypatch):
    keywords = dict(TEXTS[text])
    frame, begin = sequence_stream(keywords.pop("n_rows")), partial(interpret, monkeypatch)
    check_tiers(monkeypatch, frame, f"PATTERN {text}", begin, **keywords)


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b, C c) WHERE c.x > a.x WITHIN 24",
        "SEQ(A a, B b, C c, D d) WHERE [k] AND c.y >= a.y * 0.5 AND d.k = a.k WITHIN 24",
        "SEQ(A a, B b, !D d, C c) WHERE c.x > a.x AND d.y > a.y AND d.x != c.x WITHIN 24",
        "SEQ(A a, B b, !D d, C c) WHERE [k] AND c.x > a.x AND d.y > a.y AND d.x != c.x WITHIN 24",
        "SEQ(A a, OR(B b, C c), D d) WHERE [k] AND d.x > a.x AND NOT d.y < a.y WITHIN 24",
        "SEQ(A a, B b, C c) WHERE c.x > a.x + b.x - 25 AND c.y * a.y < b.y WITHIN 24",
        "SEQ(A a, B b, C c, D d) WHERE [k] AND a.x - b.x <= c.x - d.x AND NOT b.y >= c.y + a.y WITHIN 9",
    ],
)  # with a key and without
def test_a_search_in_any_order_finds_what_the_walk_finds(text):
    found, wanted = (
        cep.match(sequence_stream(30_000), f"PATTERN {text}", event_type="kind", order_by="t", engine=engine)
        for engine in ("ordered", "search")
    )
    assert found.run.tier == "interpreted"
    assert found.count() == wanted.count() >= 30
    pd.testing.assert_frame_equal(found.to_frame("all"), wanted.to_frame("all"))


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


def n_rising_chains(frame: pd.DataFrame, kinds: str, window: int) -> int:
    """Return how many sequences of events of these kinds rise in x within a window, by its definition."""
    t, x = frame["t"].to_numpy(), frame["x"].to_numpy()
    follows = ((t[:, None] < t) & (x[:, None] < x)).astype(object)
    is_kind = {kind: (frame["kind"] == kind).to_numpy() for kind in set(kinds)}
    total = 0
    for first in np.flatnonzero(is_kind[kinds[0]]):
        numbers = (np.arange(len(t)) == first).astype(object)
        for kind in kinds[1:]:
            numbers = numbers @ follows * (is_kind[kind] & (t <= t[first] + window))
        total += sum(numbers)
    return total


@pytest.mark.skipif(not JIT, reason="needs kernels that serve every query")
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_numbers_beyond_64_bits_compile_nothing(seed, monkeypatch, tmp_path):
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path))  # an earlier run may have compiled one of the kernels
    rng, n_variables = np.random.default_rng(seed), 24 + seed % 3
    n = 200
    events = {"t": np.arange(n), "kind": rng.choice(["A", "B"], n), "x": np.arange(n) + rng.integers(0, 4, n)}
    frame, kinds = pd.DataFrame(events), "".join(rng.choice(["A", "B"], n_variables))
    events = ", ".join(f"{kind} v{i}" for i, kind in enumerate(kinds))
    rises = " AND ".join(f"v{i}.x < v{i + 1}.x" for i in range(n_variables - 1))
    monkeypatch.setattr(loading, "_run_text", lambda name, *_: pytest.fail(f"{name} is compiled"))
    window = int(rng.choice([170, 300]))
    query = f"PATTERN SEQ({events}) WHERE {rises} WITHIN {window}"
    number = cep.match(frame, query, event_type="kind", order_by="t").count()
    assert number == n_rising_chains(frame, kinds, window)


@pytest.mark.skipif(not JIT, reason="needs kernels that serve every query")
@pytest.mark.parametrize("most", [8, 20, 50])
def test_events_that_repeat_often_compile_nothing(most, monkeypatch, tmp_path):
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path))
    frame = pd.DataFrame({"t": range(60), "kind": ["A"] * 59 + ["B"], "x": 1})
    monkeypatch.setattr(loading, "_run_text", lambda name, *_: pytest.fail(f"{name} is compiled"))
    query = f"PATTERN SEQ(A{{1,{most}}} a, B b) WHERE a[i].x > 0 WITHIN 90"
    number = cep.match(frame, query, event_type="kind", order_by="t").count()
    assert number == sum(comb(59, k) for k in range(1, most + 1))


def check_anchored(seed: int) -> bool:
    """Compare all numbers with the definition; return whether the query can be interpreted."""
    case, rows, _ = anchored_case(seed, seed)
    own = layout_of(case, rows)
    if isinstance(anchored_tests_of(own.graph), str):
        return False  # test_anchored.py has these
    counter, of_end = AnchoredCounter(own), Counter(positions[-1] for positions, _ in in_row(case, rows))
    wanted = [of_end[p] for p in own.places.position_of_place[counter.last].tolist()]
    counts = counter.by_place()
    assert [int(counts[p]) for p in counter.last.tolist()] == wanted
    assert counter.pass_over(WRAPPING)[0].tolist() == wanted
    assert counter.pass_over(MODULAR, 3)[0].tolist() == [n % 3 for n in wanted]
    assert counter.pass_over(AT_LEAST)[0].tolist() == wanted
    assert own.tier == "interpreted"
    return True


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_a_compiled_kernel_takes_over_counts(seed, interpreted, monkeypatch):
    case, rows, _ = anchored_case(seed, seed)
    own = layout_of(case, rows)
    if isinstance(anchored_tests_of(own.graph), str):
        pytest.skip("cannot be interpreted")
    wanted = AnchoredCounter(own).pass_over(WRAPPING)[0].tolist()
    looks = iter([False, False, True])
    monkeypatch.setattr(anchored, "is_ready", lambda _: next(looks, True))
    monkeypatch.setattr(anchored, "_WORK_PER_CALL", 1)
    assert AnchoredCounter(own).pass_over(WRAPPING)[0].tolist() == wanted
    assert own.tier.startswith("interpreted")


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_random_counts_after_conditions_on_the_first_event(seed, interpreted, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(anchored, "_WORK_PER_CALL", 1)  # the kernel pauses after every entry
    n_interpreted = 0
    for own in range(SIZE * seed, SIZE * (seed + 1)):
        try:
            n_interpreted += check_anchored(own)
        except BaseException as error:
            error.add_note(f"anchored_case({own}, {own})")
            raise
    assert n_interpreted >= SIZE // 2


@pytest.mark.parametrize("n", [62, 65, 130])
def test_numbers_of_any_size_are_exact(n, interpreted):
    frame = pd.DataFrame({"t": np.arange(n + 2), "kind": list("A" + "B" * n + "C"), "x": np.arange(n + 2.0)})
    text = "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > a.x WITHIN 1000"
    found = cep.match(frame, text, event_type="kind", order_by="t")
    assert found.count() == 2**n - 1
    assert found.run.tier == "interpreted"


@pytest.mark.skipif(not JIT, reason="needs compiled kernels")
@pytest.mark.parametrize(("text", "strategy"), [
    ("SEQ(A a, B+ b[], C c) WHERE avg(b.y) > a.y AND c.x > b[i-1].x", "any"),
    ("SEQ(A a, B+ b[], !D d, C c) WHERE b[i].x >= max(b[..i-1].x) AND d.x = a.x", "next"),
    ("SEQ(A a, B+ b[], D d) WHERE b[2].x > a.x * 0.5 + d.y", "next"),
])  # fmt: skip
@pytest.mark.parametrize("partition_by", [None, "k"])
def test_walks_agree_on_long_streams(text, strategy, partition_by, monkeypatch):
    def begin():
        interpret(monkeypatch)
        looks = iter([False, True])
        monkeypatch.setattr(search, "is_ready", lambda _: next(looks, True))
        monkeypatch.setattr(search, "_WORK_PER_CALL", 500)

    check_tiers(
        monkeypatch, sequence_stream(20_000), f"PATTERN {text} WITHIN 12", begin, least=100,
        tier="interpreted, then compiled", strategy=strategy, partition_by=partition_by, engine="search",
    )  # fmt: skip


def test_a_search_says_how_it_runs(interpreted):
    frame = pd.DataFrame({"t": range(60), "kind": list("ABC") * 20, "x": [3.0, 1.0, 4.0] * 20})
    keywords = {"event_type": "kind", "order_by": "t"}
    text = "PATTERN SEQ(A a, B b, C c) WHERE {} WITHIN 30"
    pairwise = cep.match(frame, text.format("c.x > a.x"), **keywords)
    assert pairwise.run.tier == "interpreted"
    load_kernels(ELEMENTARY)
    for condition in ("c.x > a.x", "c.x > a.x + b.x", "log(c.x) > a.x"):
        assert "new query" not in str(cep.explain(frame, text.format(condition), **keywords))
    mixed = str(cep.explain(frame, text.format("log(c.x + a.x) > 1"), **keywords))
    assert "is compiled first, since it computes 'log' with values of several events" in mixed


@pytest.mark.parametrize("most_known", [evaluation_order.MOST_KNOWN, 0])
def test_a_walk_tests_conditions_without_intervals(most_known, interpreted, monkeypatch):
    """Absent events are compared with two others."""
    monkeypatch.setattr(search, "_WORK_PER_CALL_OF_A_LOOK", 100)
    monkeypatch.setattr(evaluation_order, "MOST_KNOWN", most_known)
    frame, text = sequence_stream(400), "PATTERN SEQ(A a, !B b, C c) WHERE b.x > a.x + c.x - 9 WITHIN 20"
    found, wanted = (
        cep.match(frame, text, event_type="kind", order_by="t", engine=engine)
        for engine in ("ordered", "search")
    )
    if most_known:
        pd.testing.assert_frame_equal(found.to_frame("all"), wanted.to_frame("all"))
    assert found.count() == wanted.count() > 10
    assert found.run.tier == "interpreted"
