"""The engine against the definition of ``naive.py``: matches, labels, measures; threads, blocks, chunks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from random import Random

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.regex_program import compile_regex
from cepkit.engines import regex as engine
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.regex import parse_pattern, regex_query
from tests.oracle import generate, naive
from tests.support.regex_runs import check, plain
from tests.support.sizes import JIT, seeds
from tests.support.tiers import seeds_of_tiers

SHAPES, FULL_SHAPES = (2, 40) if JIT else (6, 200)
STREAMS, FULL_STREAMS = 15, 130

MEASURES = (
    "count()", "count(g)", "first(x)", "last(y)", "last(s)", "max(y)", "min(x)", "max(s)", "min(s)", "sum(g)",
    "sum(x + g)", "avg(y)", "delta(t)", "collect(x)", "collect(s)", "collect(y)", "max(x) - min(x) >= 2",
    "last(x) // first(y)", "last(g) % 3", "first(x) / last(x)", "first(f) and not last(f)",
    "first(y) is null", "last(s) in ('ab', 'b')", "abs(first(y)) + count()",
    "min(t) == first(t)", "sum(x * 2) > sum(g)", "median(x + g)", "std(y)", "var(g)", "distinct(s)",
)  # fmt: skip


# --- random queries --------------------------------------------------------------------------------------


@seeds_of_tiers(SHAPES, FULL_SHAPES, "shape_seed")
def test_random_queries(shape_seed, tier, full):
    """Compiled queries have one shape and many streams, since machine code costs a second; others many.

    ``generate.case(seed, shape)`` replays a case; the seeds of shape n begin at 10,000 n.
    """
    n = FULL_STREAMS if full else STREAMS
    for seed in range(10_000 * shape_seed, 10_000 * shape_seed + n):
        shape = shape_seed if tier == "compiled" else seed
        case = generate.case(seed, shape)
        keywords = {**case.keywords(), "partition_by": case.partition_by}
        measures = Random(seed).sample(MEASURES, 4)
        try:
            check(case.pattern, case.define, case.rows, measures=measures, **keywords)
        except BaseException as error:
            error.add_note(f"generate.case({seed}, {shape})")
            raise


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_every_measure(seed):
    rows = generate.stream(Random(seed), 30, n_keys=2)
    pattern, define = (
        parse_pattern(". a* b"),
        {"a": parse_expression("x > prev(x)"), "b": parse_expression("x < 3")},
    )
    check(pattern, define, rows, partition_by=("k",), order_by="t", measures=MEASURES)


# --- shapes that random ones seldom have ------------------------------------------------------------------

# name: (pattern, define, keywords)
SHAPED = {
    "window queue": (". fits* up", {"fits": "delta(t) < 9", "up": "x > first(x) + 2 and delta(t) < 9"}, {}),
    "queue of floats with nulls": (". any* up", {"any": "true", "up": "y >= first(y) * 1.5"}, {}),
    "queue without a bound": (".+ apart", {"apart": "bit_and(x, first(x)) == 0 and x > 0"}, {}),
    "queue from the first row": ("e+ up", {"e": "x > 1", "up": "x > first(x) + 1"}, {}),
    "queue that looks at the start": (". e* low", {
        "e": "y >= first(y) - 1", "low": "y < first(y) - 1 and x < first(x) + 4",
    }, {}),
    "two queues": (". e* up | d d e* low", {
        "d": "f", "e": "delta(t) <= 12", "up": "x > first(x) + 3", "low": "y < first(y) - 1",
    }, {}),
    "two targets of a queue": (". e* (up | low)", {
        "e": "x != 4", "up": "x >= first(x) + 3", "low": "y < first(y) and g == first(g)",
    }, {}),
    "downward bound": (". e* low", {"e": "f or x > 0", "low": "first(x) - 2 > x"}, {}),
    "queue that leaves anywhere": (". . e* up", {
        "e": "delta(t) < 20", "up": "count() > 4 and x > first(x)",
    }, {}),
    "sums": (". e* full", {"e": "sum(x) < 12", "full": "sum(g) + count(g) > 8 or avg(y) > 3"}, {}),
    "extremes": (". e* f_", {"e": "x <= max(x) + 1", "f_": "max(y) - min(y) > 2 and x < avg(x)"}, {}),
    "texts": (". e* f_", {"e": "s >= min(s)", "f_": "s > max(s) or s == first(s) and k != s"}, {}),
    "texts against texts": (". e* f_", {
        "e": "s <= k or k is null", "f_": "s != prev(s, 2) and s < first(k)",
    }, {}),
    "rings": (". e+ f_", {"e": "x != prev(x, 3)", "f_": "x < prev(x, 7) or prev(prev(x), 2) < prev(y) "}, {}),
    "earlier rows of earlier rows": (". a", {"a": "prev(prev(x)) < 5 or prev(x + prev(g)) == 4"}, {}),
    "dominance": ("a b* c (d | e)+ f_", {
        "a": "x > 0", "b": "x < 5", "c": "f", "d": "x > 2", "e": "y > 1", "f_": "x < 2",
    }, {}),
    "dominance behind a start": (". rise+ a* low", {
        "rise": "x >= first(x) and count() < 6", "a": "x < 5", "low": "x < prev(x)",
    }, {}),
    "nested loops": ("(a (b | c d)* e)+ f_ | a a b{2,}", {
        "a": "x > 1", "b": "f", "c": "x < 4", "d": "x > prev(x)", "e": "y > 1 or f", "f_": "x == 0",
    }, {}),
    "window": (". (up | low)+ top", {
        "up": "x >= prev(x)", "low": "x < prev(x)", "top": "x > 4",
    }, {"within": 8}),
    "open window": (". e* top", {
        "e": "true", "top": "x > first(x) + 3",
    }, {"within": 8, "within_closed": False}),
    "boolean columns": ("f (. f)* .", {}, {}),
    "booleans in aggregates": (". e* b", {
        "e": "f == prev(f) or f is null", "b": "first(f) != f and count(f) > 1",
    }, {}),
    "tags": (". same+ fifth", {"same": "x == first(x) or f", "fifth": "count() == 5 and x == first(x)"}, {}),
    **{f"{n} positions": (f"e{{{n - 3}}} (d | c) b", {
        "b": "x > 1", "c": "f", "d": "y > 2", "e": "x > 0 or f",
    }, {}) for n in (8, 9, 16, 17, 32, 33, 62)},
    "33 positions in a loop": ("((a b? c){3,5} d?){1,2} e", {
        "a": "x > 0", "b": "f", "c": "x < 5", "d": "f", "e": "x == 0",
    }, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPED)
def test_shaped_queries(name):
    pattern, texts, keywords = SHAPED[name]
    pattern, define = parse_pattern(pattern), {role: parse_expression(text) for role, text in texts.items()}
    n_matches = 0
    for seed in range(4 if JIT else 3):
        rows = generate.stream(Random(f"{name} {seed}"), 80, n_keys=1 + seed % 3, nulls=seed % 2 == 0)
        if name.endswith("positions"):  # words are long there
            rows = [
                {**row, "x": max(1, row["x"]), "f": True} if i % 71 else row for i, row in enumerate(rows)
            ]
        n_matches += len(
            check(pattern, define, rows, partition_by=("k",), order_by="t", measures=MEASURES[:3], **keywords)
        )
    assert n_matches > 0


def earliest(n: int, spells: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Return the matches of one partition, given which start..end spell a word: for long streams."""
    found, clean = [], 0
    for end in range(n):
        start = next((start for start in range(clean, end + 1) if spells(start, end)), None)
        if start is not None:
            found.append((start, end))
            clean = end + 1
    return found


def spans(matches: cep.matches.Matches) -> list[tuple[int, int]]:
    return list(zip(matches.to_frame()["first_position"], matches.to_frame()["last_position"], strict=True))


@pytest.mark.parametrize("seed", seeds(3, 20))
@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_queues_of_hundreds_of_starts(kind, seed):
    """Queues grow, move down and are emptied by a match; a window lets starts go from the front."""
    rng = np.random.default_rng(seed)
    n = 1500
    t = np.sort(rng.integers(0, 3 * n, n))
    window, jump = int(rng.choice([60, 600, 10**6])), int(rng.choice([600, 950, 990]))
    x = rng.integers(0, 1000 + 40 * seed, n).astype(kind)
    if seed % 2:  # a few starts can match at all, so that each that got lost would be missed
        rare = rng.choice([0.03, 0.08, 0.15])
        x = rng.choice([0, 500, 1500], n, p=[rare, 0.98 - rare, 0.02]).astype(kind)
        window = int(rng.choice([60, 200, 600]))
    found = cep.match(
        pd.DataFrame({"t": t, "x": x}), ". e* up", order_by="t",
        define={"e": "delta(t) < :window", "up": "x > first(x) + :jump and delta(t) < :window"},
        params={"window": window, "jump": jump}, measures={},
    )  # fmt: skip
    found = found.lineage().groupby("match")["position"].agg(["first", "last"])
    in_window = t[None, :] - t[:, None] < window
    jumps = (x[None, :] > x[:, None] + jump) & in_window
    expected = earliest(n, lambda s, e: e > s and bool(jumps[s, e]))
    assert list(found.itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_lists_of_hundreds_of_starts(seed):
    """``.+ apart`` with a condition that no queue can hold, so that the list of live starts grows."""
    rng = np.random.default_rng(seed)
    n, least = 700, int(rng.choice([30, 200, 650]))
    x = rng.integers(0, 3, n)
    define = {"e": "sum(x) < :n", "full": "sum(x) >= :n"}
    found = cep.match(pd.DataFrame({"x": x}), ". e* full", define=define, params={"n": least})
    total = np.concatenate([[0], np.cumsum(x)])

    def spells(s, e):
        # Before row e: x[s..e-1]; before every row in between the sum is still below.
        return e > s and total[e] - total[s] >= least and (e == s + 1 or total[e - 1] - total[s] < least)

    assert spans(found) == earliest(n, spells)


# --- values at the edges ----------------------------------------------------------------------------------

BIG = 2**53
EDGES = [0, 1, -1, 5, 6, BIG, BIG + 1, BIG + 2, -BIG - 1, 2**62, 2**63 - 1, -(2**63) + 1]
LIMITS = [5, 5.5, -0.5, float(BIG), BIG + 1, 2.0**62, 1e19, -1e19, float("inf"), float("-inf"), 2**63 - 1]


def one_of(texts):
    """Return a predicate that is ``texts[n]`` on rows with this n: one kernel tests them all."""
    return " or ".join(f"n == {n} and ({text})" for n, text in enumerate(texts))


def holding(rows, texts, frame=None, **keywords):
    """Return for every text the numbers of the rows on which the engine finds it true."""
    frame = pd.DataFrame(rows) if frame is None else frame
    frame = pd.concat([frame.assign(n=n) for n in range(len(texts))], ignore_index=True)
    found = cep.match(frame, "a", define={"a": one_of(texts)}, measures={}, **keywords).lineage()["position"]
    return [found[found // len(rows) == n].mod(len(rows)).tolist() for n in range(len(texts))]


def defined(rows, texts):
    """Return the same by the definition."""
    trees = map(parse_expression, texts)
    return [[i for i in range(len(rows)) if naive.evaluate(tree, rows, i, i) is True] for tree in trees]


@pytest.mark.parametrize("limit", LIMITS)
def test_integers_beyond_floats_compare_exactly(limit):
    signs = naive.COMPARISONS
    texts = [f"x {sign} :limit" for sign in signs] + [f":limit {sign} x" for sign in signs]
    expected = [[i for i, x in enumerate(EDGES) if signs[sign](x, limit)] for sign in signs]
    expected += [[i for i, x in enumerate(EDGES) if signs[sign](limit, x)] for sign in signs]
    rows = [{"x": x} for x in EDGES]
    assert holding(rows, texts, params={"limit": limit}) == expected


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64"])
def test_nan_as_a_parameter_is_null(dtype):
    x = pd.DataFrame({"x": pd.Series([0, 5, 7], dtype=dtype)})
    texts = [f"x {sign} :p" for sign in naive.COMPARISONS] + [":p is null", "x is null"]
    expected = [[]] * len(naive.COMPARISONS) + [[0, 1, 2], []]
    assert holding([0, 1, 2], texts, frame=x, params={"p": float("nan")}) == expected


FLOATS = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 1e308, 5e-324]
VALUES = (
    "y / z > 0", "y // z >= 0", "y % z == 0", "y / z is null", "y % z is null", "y - z is null",
    "y * z is null", "y == z", "y != z", "not (y < z)", "not (y != z)", "sqrt(y) >= z",
    "log(y) < z", "power(y, 2) > z",
    "power(z, -1) > y", "power(z, 3) < y", "least(y, z) == y", "greatest(y, z) > 1", "-y > z",
    "abs(y) == abs(z)", "sign(y) == sign(z)", "round(y) <= z", "floor(y) + 1 > ceil(z)", "y is null or z > y",
)  # fmt: skip


def test_a_float_without_a_value_is_not_unequal(tier):
    frame = pd.DataFrame({"x": [1.0, np.nan, 2.0, 2.0, 3.0]})
    assert cep.match(frame, "u", define={"u": "x != prev(x)"}).lineage()["position"].tolist() == [4]


def test_floats_at_the_edges():
    """Infinities, both zeros, NaN, overflow and division by zero."""
    rows = [{"y": y, "z": z} for y in FLOATS for z in FLOATS]
    found = dict(zip(VALUES, holding(rows, VALUES), strict=True))
    assert found == dict(zip(VALUES, defined(rows, VALUES), strict=True))


@pytest.mark.parametrize("text", VALUES)
def test_floats_at_the_edges_in_measures(text):
    rows = [{"y": y, "z": z} for y in FLOATS for z in FLOATS]
    measure = text.replace("y", "last(y)").replace("z", "last(z)")
    table = cep.match(pd.DataFrame(rows), ".", measures={"m": measure}).to_frame()
    expected = [naive.evaluate(parse_expression(text), rows, i, i) for i in range(len(rows))]
    assert [plain(value) for value in table["m"]] == expected


QUOTIENTS = (
    "i / j > 1", "i // j == 0", "i % j == 1", "i // j is null", "not (i // j is null)", "i / j is null",
    "i % j != 0", "-i // j < i % j", "i % j is null or i // j > 1",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int64", "Int64", "int8", "uint16"])
def test_division_of_integers(dtype):
    values = [0, 1, 2, 7] if dtype == "uint16" else [0, 1, 2, 7, -1, -2, -7]
    rows = [{"i": i, "j": j} for i in values for j in values]
    if dtype == "Int64":
        rows += [{"i": None, "j": 1}, {"i": 1, "j": None}]
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=dtype) for name in "ij"})
    expected = defined(rows, QUOTIENTS)
    assert holding(rows, QUOTIENTS, frame=frame) == expected
    named = {text: re.sub(r"\b([ij])\b", r"last(\1)", text) for text in QUOTIENTS}
    table = cep.match(frame, ".", measures=named).to_frame()
    assert [[i for i, v in enumerate(table[text]) if plain(v) is True] for text in QUOTIENTS] == expected


def test_small_integers_do_not_overflow():
    frame = pd.DataFrame({"i": np.array([100, 100], "int8"), "u": np.array([3, 250], "uint8")})
    found = cep.match(
        frame,
        ". a",
        define={"a": "i + prev(i) == 200 and prev(u) - u == -247"},
        measures={
            "sum": "first(i) + last(i)",
            "fall": "first(u) - last(u)",
            "delta": "delta(u)",
            "total": "sum(i)",
        },
    )
    assert found.to_frame().to_dict("records") == [{"sum": 200, "fall": -247, "delta": 247, "total": 200}]


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_items_of_lists(seed):
    rng = Random(seed)
    lists = [
        None if rng.random() < 0.2 else [rng.randint(0, 4) for _ in range(rng.randint(0, 3))]
        for _ in range(40)
    ]
    rows = [{"l": items} for items in lists]
    define = {
        "a": parse_expression("l[0] > 1"),
        "b": parse_expression("l[-1] == first(l[0]) or l[1] is null"),
    }
    frame = pd.DataFrame({"l": lists})
    check(parse_pattern("a b+ a"), define, rows, frame=frame, measures=("sum(l[0])", "last(l[2])"))


# --- user functions ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["compiled", "plain"])
def functions(request):
    """The kind of the pure functions near_kind and half_kind: compiled by numba or plain Python."""
    kind = request.param

    def near(one, other):
        return abs(one - other) <= 1

    def half(x):
        return x / 2

    if kind == "compiled":
        near, half = numba.njit(near), numba.njit(half)
    cep.pure(near, name=f"near_{kind}")
    cep.pure(half, name=f"half_{kind}")
    return kind


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_user_functions(functions, seed):
    called = {f"near_{functions}": lambda a, b: abs(a - b) <= 1, f"half_{functions}": lambda x: x / 2}
    texts = {
        "a": f"near_{functions}(x, first(x)) or not near_{functions}(g, prev(g))",
        "b": f"half_{functions}(y) > 1",
    }
    define = {name: parse_expression(text) for name, text in texts.items()}
    rows = generate.stream(Random(seed), 60, n_keys=3)
    check(parse_pattern(". a* b"), define, rows, partition_by=("k",), order_by="t", functions=called,
          measures=(f"half_{functions}(first(x))",))  # fmt: skip


def test_plain_functions_see_texts():
    @cep.pure(name="vowels_of_")
    def vowels(text):
        return sum(map(text.count, "aeiou"))

    frame = pd.DataFrame({"s": ["banana", None, "sky", "tea"]})
    found = cep.match(frame, "a", define={"a": "vowels_of_(s) >= 2"}, measures={"s": "first(s)"})
    assert found.to_frame()["s"].tolist() == ["banana", "tea"]


def test_callables_in_define():
    frame = pd.DataFrame({"price": [3, 4, 5, 2, 6]})
    found = cep.match(frame, ". up+ low", define={
        "up": cep.pure(lambda price, prev_price: price > prev_price, name="up_"),
        "low": cep.pure(lambda price, first_price: price < first_price, name="low_"),
    })  # fmt: skip
    assert spans(found) == [(0, 3)]


@pytest.mark.parametrize("compiled", [True, False])
def test_impure_functions_see_every_event_in_order(compiled, monkeypatch):
    seen = []

    def look(x):
        seen.append(x)
        return x > 2

    @numba.njit
    def look_compiled(x):
        return x > 2

    cep.function(look_compiled if compiled else look, name="look_")
    monkeypatch.setattr(engine, "_FEWEST_EVENTS_PER_THREAD", 1)
    frame = pd.DataFrame({"k": [1, 2, 1, 2, 1], "x": [0, 1, 2, 3, 4]})
    with pytest.warns(cep.CepWarning, match="not declared pure"):
        found = cep.match(frame, "a", define={"a": "look_(x)"}, partition_by="k")
    assert found.count() == 2
    assert found.run.threads == 1
    if not compiled:
        assert seen == [0, 1, 2, 3, 4]


# --- shapes of kernels ------------------------------------------------------------------------------------


def kernel_modules():
    return {name for name in sys.modules if name.startswith("cepkit_kernel_")}


def test_values_do_not_change_the_kernel():
    """Parameters, literals, windows and numbers of rows are arguments; texts too."""
    frame = generate.to_frame(generate.stream(Random(1), 50, n_keys=2))

    def run(rows, limit, literal, text, within, like):
        define = {"a": f"x > :limit or y < {literal} or s == '{text}'", "b": f"s like '{like}'"}
        keywords = {"order_by": "t", "partition_by": "k", "within": within, "params": {"limit": limit}}
        found = cep.match(frame.head(rows), ". a* b", define=define, **keywords)
        found.lineage()

    run(50, 1, 2.5, "ab", 10, "a%")
    known = kernel_modules()
    run(50, 2, 3.5, "b", 20, "%b")
    run(0, 7.5, -1.0, "never seen", 1, "")
    run(1, float("inf"), 0.0, "", 10**12, "_")
    run(20, -(2**40), 1e300, "ab", 3, "a%")
    assert kernel_modules() == known


# --- threads, blocks, chunks ------------------------------------------------------------------------------

ENGINE_QUERIES = {
    "list": (". up* full", {"up": "x >= prev(x)", "full": "sum(x) > 9"}, {}),
    "queue": (". e* up", {"e": "delta(t) < 9", "up": "x > first(x) + 2 and delta(t) < 9"}, {}),
    "dominance": ("a b* c", {"a": "x > 1", "b": "f", "c": "y < 2"}, {}),
    "rings and texts": (". e* f_", {"e": "x != prev(x, 3)", "f_": "s > first(s) or s like 'a%'"}, {}),
    "window": (". e* top", {"e": "f or x > 2", "top": "x > first(x)"}, {"within": 6}),
}


def program_and_events(name: str, seed: int, n_events: int = 400, n_keys: int = 40):
    pattern, define, keywords = ENGINE_QUERIES[name]
    rng = Random(f"{name} {seed}")
    rows = generate.stream(rng, n_events, n_keys=1)
    for row in rows:
        row["k"] = str(int(n_keys * rng.random() ** 2))  # some keys are frequent, most are not
    source = PandasSource(generate.to_frame(rows))
    query = regex_query(pattern, define=define, partition_by="k", order_by="t", **keywords)
    program = compile_regex(query, source.schema)
    return program, build_events(source, program)


LIMITS_OF_ENGINE = [
    {},
    {"PARTITIONS_PER_BLOCK": 4, "_MOST_PARTITIONS_AT_ONCE": 4},
    {"PARTITIONS_PER_BLOCK": 1, "_MOST_PARTITIONS_AT_ONCE": 2, "_EVENTS_PER_CALL": 7},
    {"_EVENTS_PER_CALL": 1},
    {"_WORK_PER_CALL": 0},
    {"PARTITIONS_PER_BLOCK": 16, "_MOST_PARTITIONS_AT_ONCE": 16, "_EVENTS_PER_CALL": 13, "_WORK_PER_CALL": 3},
    {"_FEWEST_EVENTS_PER_THREAD": 1},
]


@pytest.mark.parametrize("limits", LIMITS_OF_ENGINE, ids=str)
@pytest.mark.parametrize("name", ENGINE_QUERIES)
def test_threads_and_blocks_do_not_matter(name, limits, monkeypatch):
    for seed, (n_events, n_keys) in enumerate([(400, 40), (300, 3), (200, 1), (5, 5), (1, 1), (0, 1)]):
        program, events = program_and_events(name, seed, n_events, n_keys)
        expected = engine.match_regex(program, events, threads=1)
        assert n_events < 200 or len(expected) > 3
        with monkeypatch.context() as patch:
            for limit, value in limits.items():
                patch.setattr(engine, limit, value)
            for threads in (1, 2, 8, None):
                run = engine.Run()
                found = engine.match_regex(program, events, threads=threads, run=run)
                assert found.first.tolist() == expected.first.tolist()
                assert found.last.tolist() == expected.last.tolist()
                assert found.first.dtype == found.last.dtype == np.int64
                if threads == 8 and n_keys > 16:
                    assert run.n_blocks > 1


def chunk_sizes(rng: Random, n_events: int) -> Sequence[int]:
    while n_events:
        size = min(n_events, rng.choice([0, 1, 1, 2, 5, 30, 100]))
        n_events -= size
        yield size


@pytest.mark.parametrize("seed", seeds(3, 5))
@pytest.mark.parametrize("name", ENGINE_QUERIES)
def test_chunks_do_not_matter(name, seed):
    program, events = program_and_events(name, seed)
    whole = engine.match_regex(program, events, threads=1)
    inputs = program.inputs(events.columns)
    kernel = program.matching(inputs)
    state = kernel.new_state(events.n_partitions, capacity=1)
    firsts, lasts, done = [], [], 0
    for size in chunk_sizes(Random(seed), events.n_events):
        rows = slice(done, done + size)
        part = inputs.with_columns({column: values[rows] for column, values in inputs.columns.items()})
        first, last = engine.advance(kernel, state, events.partition_of_event[rows], part, done)
        firsts += first.tolist()
        lasts += last.tolist()
        done += size
    assert (firsts, lasts) == (whole.first.tolist(), whole.last.tolist())


def test_run_tells_what_was_done():
    program, events = program_and_events("queue", 1)
    run, seen = engine.Run(), []
    engine.match_regex(program, events, threads=1, run=run, progress=seen.append)
    assert sum(seen) == events.n_events
    assert run.work > 0
    assert run.n_blocks == run.threads == 1
    assert 0 < run.most_live <= events.n_events


def test_query_values_and_keywords_give_the_same():
    frame = generate.to_frame(generate.stream(Random(3), 40))
    define = {"up": "x > prev(x)"}
    query = regex_query(". up+ .", define=define, order_by="t", measures={"n": "count()"})
    by_value = cep.match(frame, query).to_frame()
    by_keyword = cep.match(
        frame, ". up+ .", define=define, order_by="t", measures={"n": "count()"}
    ).to_frame()
    assert len(by_value)
    pd.testing.assert_frame_equal(by_value, by_keyword)
    timed = regex_query(". up", define=define, order_by="t", within=2)
    as_keywords = {"define": define, "order_by": "t", "within": 2}
    n_all = cep.match(frame, ". up", define=define, order_by="t").count()
    assert (
        cep.match(frame, timed, measures={"n": "count()"}).count() == cep.match(frame, timed).count() < n_all
    )
    n_open = cep.match(frame, timed, within_closed=False).count()
    assert n_open == cep.match(frame, ". up", within_closed=False, **as_keywords).count()
    assert n_open < cep.match(frame, timed).count()
