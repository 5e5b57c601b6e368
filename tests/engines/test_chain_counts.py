"""The counting engine's numbers, against walking all partial matches in plain Python."""

from __future__ import annotations

import operator
import random
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import gcd, prod

import numba
import numpy as np
import pandas as pd
import pytest

from cepkit.compile.counting.counting import AT_LEAST, MODULAR, WRAPPING, write_counting
from cepkit.compile.counting.state_graph import state_graph_of
from cepkit.compile.sequences.program import compile_sequence
from cepkit.engines.counting import aggregates, entries, layout
from cepkit.engines.counting import counts as path_counts
from cepkit.engines.counting.counts import PathCounter, count, count_by_last
from cepkit.engines.counting.layout import Layout
from cepkit.engines.counting.residues import moduli, number_of
from cepkit.engines.search.search import search_sequence
from cepkit.engines.shared import places as places_of_events
from cepkit.engines.shared.kernels import accepted, dtypes_of
from cepkit.engines.shared.places import Places
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import AbsentPattern, EventPattern, Loop, SequenceOf
from cepkit.language.sequences.query import SequenceQuery

SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
SIGNS["!="] = operator.ne
COLUMNS = ("x", "y", "s")


# --- queries and streams from one seed -------------------------------------------------------------------


@dataclass
class Spec:
    """A query in words of this test: components (type, low, high), links, absences, windows."""

    components: list[tuple[str | None, int, int | None]]
    links: dict[tuple[int, int], list[tuple[str, str, int]]] = field(default_factory=dict)
    single: dict[int, tuple[str, int]] = field(default_factory=dict)
    absences: dict[int, list[tuple[str, str, str, str]]] = field(default_factory=dict)
    within: int | None = None
    closed: bool = True
    within_events: int | None = None
    gap: int | None = None
    strict: bool = False
    keyed: bool = False


def random_spec(rng: random.Random) -> Spec:
    n = rng.choice([1, 2, 2, 3, 3, 3, 4])
    quantities = [(1, 1)] * 6 + [(1, None), (1, None), (2, None), (1, 2), (2, 3), (2, 2)]
    spec = Spec([(rng.choice([*"AABBBC", None]), *rng.choice(quantities)) for _ in range(n)])
    for i in range(n):
        if i and rng.random() < 0.5:
            for _ in range(rng.choice([1, 1, 1, 2])):
                spec.links.setdefault((i - 1, i), []).append(random_link(rng))
        if spec.components[i][2] != 1 and rng.random() < 0.5:
            spec.links.setdefault((i, i), []).append(random_link(rng))
        if rng.random() < 0.1:
            spec.single[i] = (rng.choice(["<", ">="]), rng.randrange(4))
        if i and rng.random() < 0.2:
            for _ in range(rng.choice([1, 1, 2])):
                side = rng.choice(["none", "earlier", "later"])
                spec.absences.setdefault(i, []).append(
                    (rng.choice("ABC"), side, rng.choice(COLUMNS), rng.choice(list(SIGNS)))
                )
    spec.within = rng.choice([None, 4, 7, 12])
    spec.closed = rng.random() < 0.7
    spec.within_events = rng.choice([None] * 3 + [5, 9])
    spec.gap = rng.choice([None] * 5 + [2, 5])
    spec.strict = rng.random() < 0.15
    spec.keyed = rng.random() < 0.3
    return spec


def random_link(rng: random.Random) -> tuple[str, str, int]:
    column = rng.choice(COLUMNS)
    sign = rng.choice(["==", "!="]) if column == "s" else rng.choice(list(SIGNS))
    return column, sign, 0 if column == "s" else rng.choice([0, 0, 1, -1])


def random_frame(rng: random.Random, n: int | None = None) -> pd.DataFrame:
    n = rng.choice([0, 1, 5, *range(10, 26)]) if n is None else n
    step = rng.choice([[0, 1], [1], [0, 0, 1], [0, 3]])
    t = np.cumsum([rng.choice(step) for _ in range(n)]).astype(np.int64)
    x = np.array([rng.choice([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, np.nan]) for _ in range(n)], np.float64)
    y = pd.array([rng.choice([0, 1, 2, 3, 4, None]) for _ in range(n)], dtype="Int64")
    s = pd.array([rng.choice(["u", "u", "v", "v", None]) for _ in range(n)], dtype="str")
    kind = pd.array([rng.choice("ABBC") for _ in range(n)], dtype="str")
    return pd.DataFrame(
        {"t": t, "kind": kind, "x": x, "y": y, "s": s, "k": [rng.randrange(3) for _ in range(n)]}
    )


def query_of(spec: Spec) -> SequenceQuery:
    parts, where = [], []
    for i, (of, low, high) in enumerate(spec.components):
        for j, (absent, side, column, sign) in enumerate(spec.absences.get(i, [])):
            parts.append(AbsentPattern(EventPattern(f"n{i}_{j}", absent)))
            if side != "none":
                other = (
                    reference(spec, i - 1, column, ex.LAST)
                    if side == "earlier"
                    else reference(spec, i, column, 1)
                )
                sign = sign if column != "s" else "=="
                where.append(ex.Comparison(sign, ex.Reference(f"n{i}_{j}", column), other))
        event = EventPattern(f"e{i}", of)
        parts.append(event if (low, high) == (1, 1) else Loop(event, low, high))
        if i in spec.single:
            sign, value = spec.single[i]
            where.append(ex.Comparison(sign, ex.Reference(f"e{i}", "y"), ex.Literal(value)))
    for (i, j), links in spec.links.items():
        for column, sign, shift in links:
            if i == j:
                left, right = ex.Reference(f"e{i}", column, "i-1"), ex.Reference(f"e{i}", column, "i")
            else:
                left, right = reference(spec, i, column, ex.LAST), reference(spec, j, column, 1)
            if shift:
                left = ex.Arithmetic("+", left, ex.Literal(shift))
            where.append(ex.Comparison(sign, left, right))
    return SequenceQuery(
        SequenceOf(tuple(parts), (None,) * len(parts)), tuple(where), within=spec.within,
        within_closed=spec.closed, within_events=spec.within_events, gap_within=spec.gap,
        strict_time=spec.strict, event_type="kind", order_by=("t",),
        partition_by=("k",) if spec.keyed else (),
    )  # fmt: skip


def reference(spec: Spec, component: int, column: str, index) -> ex.Reference:
    single = spec.components[component][1:] == (1, 1)
    return ex.Reference(f"e{component}", column, None if single else index)


# --- the same by walking all partial matches --------------------------------------------------------------


def missing(value) -> bool:
    return value is None or value is pd.NA or value != value


class Walk:
    """Numbers of partial matches by first event, component, size of its group, and last event."""

    def __init__(self, spec: Spec, frame: pd.DataFrame):
        self.spec = spec
        self.rows = frame.to_dict("records")
        self.n = len(self.rows)
        key = [row["k"] if spec.keyed else 0 for row in self.rows]
        self.rank = [sum(key[i] == key[p] for i in range(p)) for p in range(self.n)]
        self.key = key

    def is_in(self, component: int, p: int) -> bool:
        of, row = self.spec.components[component][0], self.rows[p]
        if of is not None and row["kind"] != of:
            return False
        if component not in self.spec.single:
            return True
        sign, value = self.spec.single[component]
        return not missing(row["y"]) and SIGNS[sign](row["y"], value)

    def linked(self, i: int, p: int, j: int, q: int) -> bool:
        for column, sign, shift in self.spec.links.get((i, j), []):
            left, right = self.rows[p][column], self.rows[q][column]
            if missing(left) or missing(right) or not SIGNS[sign](left + shift if shift else left, right):
                return False
        if i == j:
            return True
        for of, side, column, sign in self.spec.absences.get(j, []):
            sign = sign if column != "s" else "=="
            for y in range(p + 1, q):
                if self.key[y] != self.key[p] or self.rows[y]["kind"] != of:
                    continue
                if side == "none":
                    return False
                own, other = self.rows[y][column], self.rows[p if side == "earlier" else q][column]
                if not missing(own) and not missing(other) and SIGNS[sign](own, other):
                    return False
        return True

    def near(self, p: int, q: int) -> bool:
        """Whether the event at q may be the next one after p, as far as time and key go."""
        apart = self.rows[q]["t"] - self.rows[p]["t"]
        if self.key[p] != self.key[q] or (self.spec.strict and apart == 0):
            return False
        gap = self.spec.gap
        return gap is None or (apart <= gap if self.spec.closed else apart < gap)

    def in_window(self, first: int, q: int) -> bool:
        apart, within = self.rows[q]["t"] - self.rows[first]["t"], self.spec.within
        if within is not None and not (apart <= within if self.spec.closed else apart < within):
            return False
        most = self.spec.within_events
        return most is None or self.rank[q] - self.rank[first] + 1 <= most

    def table(self, first: int, weights=None) -> dict[tuple[int, int, int], tuple[int, int]]:
        """Return (matches, sum of weights) of partial matches from ``first`` by (component, size, last)."""
        spec = self.spec
        weigh = weights or (lambda component, p: 0)
        found: dict[tuple[int, int, int], tuple[int, int]] = {}
        if self.is_in(0, first):
            found[0, 1, first] = (1, weigh(0, first))
        for p in range(first, self.n):
            for c, (_, low, high) in enumerate(spec.components):
                for size in range(1, self.n + 1):
                    if (c, size, p) not in found:
                        continue
                    n, total = found[c, size, p]
                    for q in range(p + 1, self.n):
                        if not self.near(p, q) or not self.in_window(first, q):
                            continue
                        steps = []
                        if high is None or size < high:
                            steps.append((c, size + 1))
                        if size >= low and c + 1 < len(spec.components):
                            steps.append((c + 1, 1))
                        for d, new in steps:
                            if self.is_in(d, q) and self.linked(c, p, d, q):
                                old, sums = found.get((d, new, q), (0, 0))
                                found[d, new, q] = (old + n, sums + total + n * weigh(d, q))
        return found

    def finals(self, weights=None):
        """Yield (last, matches, sum of weights)."""
        c = len(self.spec.components) - 1
        for first in range(self.n):
            for (d, size, p), (n, total) in self.table(first, weights).items():
                if d == c and size >= self.spec.components[c][1]:
                    yield p, n, total

    def counts(self) -> list[int]:
        out = [0] * self.n
        for p, n, _ in self.finals():
            out[p] += n
        return out


# --- the package ------------------------------------------------------------------------------------------


def prepared(query: SequenceQuery, frame: pd.DataFrame):
    """Return program, events, places and which places are accepted."""
    source = PandasSource(frame)
    program = compile_sequence(query, source.schema)
    events = build_events(source, program)
    places = Places(program, events)
    return program, events, places, accepted(places)


def graph_and(query: SequenceQuery, frame: pd.DataFrame):
    program, _, places, accept = prepared(query, frame)
    graph = state_graph_of(program, program.branches[0])
    assert not isinstance(graph, str), graph
    return graph, places, accept


def aggregate(graph, places, accept, component, values, function):
    counter = PathCounter(Layout(graph, places, accept))
    return aggregates.aggregate(counter, component, values, function)


def as_list(numbers) -> list[int]:
    return [int(number) for number in numbers]


def check(spec: Spec, frame: pd.DataFrame) -> int:
    graph, places, accept = graph_and(query_of(spec), frame)
    counts = count_by_last(graph, places, accept)
    expected = Walk(spec, frame).counts()
    assert as_list(counts) == [expected[p] for p in places.position_of_place.tolist()]
    assert count(graph, places, accept) == sum(expected)
    return sum(expected)


JIT = not numba.config.DISABLE_JIT
# tests/test_sequences.py compares the compiled engine with the definition in every run.
pytestmark = [pytest.mark.slow] if JIT else []
# Without the JIT every case has a shape of its own; with it a few shapes have many streams each.
SEEDS = range(400) if JIT else range(800)
N_SHAPES = 10


def case(seed: int, n_shapes: int = N_SHAPES) -> tuple[Spec, pd.DataFrame]:
    spec = random_spec(random.Random(seed % n_shapes if JIT else seed))
    return spec, random_frame(random.Random(seed))


@pytest.mark.parametrize("block", range(0, len(SEEDS), 20))
def test_counts_are_those_of_all_paths(block, monkeypatch):
    if block % 40:  # as with many events, of which few match
        monkeypatch.setattr(layout, "_FEW", 0)
        monkeypatch.setattr(places_of_events, "_FEW", 0)
        monkeypatch.setattr(places_of_events, "_FEW_OF", 0)
    for seed in SEEDS[block : block + 20]:
        check(*case(seed))


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="about compiled kernels")
@pytest.mark.parametrize("shape", range(N_SHAPES, 40))
def test_more_compiled_shapes(shape):
    spec = random_spec(random.Random(shape))
    for seed in range(50):
        check(spec, random_frame(random.Random(seed)))


@pytest.mark.parametrize("seed", range(30 if JIT else 300))
def test_every_arithmetic_counts_the_same(seed):
    spec, frame = case(seed, 2)
    graph, places, accept = graph_and(query_of(spec), frame)
    counting = PathCounter(Layout(graph, places, accept))
    expected = Walk(spec, frame).counts()
    last = places.position_of_place[counting.last]
    expected = [expected[p] for p in last.tolist()]
    assert as_list(counting.pass_over(WRAPPING)[0]) == expected
    assert as_list(counting.pass_over(MODULAR, 3)[0]) == [n % 3 for n in expected]
    assert as_list(counting.pass_over(MODULAR, (1 << 61) - 1)[0]) == expected
    assert all(counting.pass_over(AT_LEAST)[0] >= np.array(expected, np.float64))
    assert counting.bound >= max(expected, default=0)


@pytest.mark.parametrize("seed", range(30))
def test_a_kernel_goes_on_where_it_was_stopped(seed, monkeypatch):
    spec, frame = case(seed)
    arguments, values = graph_and(query_of(spec), frame), np.arange(len(frame))
    extremes = [aggregate(*arguments, 0, values, function) for function in ("min", "max")]
    monkeypatch.setattr(path_counts, "_WORK_PER_CALL", 1)
    monkeypatch.setattr(layout, "WORK_PER_CALL", 1)
    monkeypatch.setattr(entries, "WORK_PER_CALL", 1)
    check(spec, frame)
    assert [aggregate(*arguments, 0, values, function) for function in ("min", "max")] == extremes


@pytest.mark.parametrize("seed", range(30 if JIT else 100))
def test_aggregates_are_those_of_all_paths(seed):
    spec, frame = case(seed, 2)
    graph, places, accept = graph_and(query_of(spec), frame)
    component = random.Random(seed).randrange(len(spec.components))
    rng = np.random.default_rng(seed)
    numbers = rng.choice([-(2**62), -5, 0, 3, 2**62, 2**63 - 1], len(frame))
    floats = rng.choice([0.1, -0.3, 1e10, 12.37, 0.0, np.nan], len(frame))
    for column in (numbers, floats):
        walk = Walk(spec, frame)
        is_null = [missing(v) for v in column.tolist()]

        def value_of(c, p, is_null=is_null, column=column):
            return Fraction(column[p].item()) if c == component and not is_null[p] else 0

        def known(c, p, is_null=is_null):
            return int(c == component and not is_null[p])

        n = sum(total for _, _, total in walk.finals(known))
        total = sum(total for _, _, total in walk.finals(value_of))
        of = [
            p
            for p in range(len(frame))
            if sum(t for *_, t in walk.finals(lambda c, q, p=p: int(c == component and q == p)))
        ]
        used = [column[p].item() for p in of if not is_null[p]]
        by_place = column[places.position_of_place]
        arguments = (graph, places, accept, component)
        assert aggregate(*arguments, by_place, "count") == n
        assert aggregate(*arguments, by_place, "min") == min(used, default=None)
        assert aggregate(*arguments, by_place, "max") == max(used, default=None)
        if not n:
            assert aggregate(*arguments, by_place, "sum") is None
            assert aggregate(*arguments, by_place, "avg") is None
            continue
        assert aggregate(*arguments, by_place, "sum") == (total if column is numbers else float(total))
        assert aggregate(*arguments, by_place, "avg") == float(total / n)
    pairs = sum(total for *_, total in Walk(spec, frame).finals(lambda c, p: int(c == component)))
    assert aggregate(*arguments, None, "count") == pairs


# --- examples ---------------------------------------------------------------------------------------------


def a_bs_c(*where: ex.Expression, **options) -> SequenceQuery:
    parts = (EventPattern("a", "A"), Loop(EventPattern("b", "B"), 1, None), EventPattern("c", "C"))
    return SequenceQuery(SequenceOf(parts, (None,) * 3), where, event_type="kind", order_by=("t",), **options)


RISING = ex.Comparison("<", ex.Reference("b", "x", "i-1"), ex.Reference("b", "x", "i"))


def stream(kinds: str, x=None) -> pd.DataFrame:
    n = len(kinds)
    x = np.arange(n, dtype=np.float64) if x is None else x
    return pd.DataFrame({"t": np.arange(n), "kind": list(kinds), "x": x})


@pytest.mark.parametrize("where", [(), (RISING,)])
@pytest.mark.parametrize("n", [1, 62, 63, 64, 100, 700])
def test_numbers_of_any_size_are_exact(n, where):
    arguments = graph_and(a_bs_c(*where), stream("A" + "B" * n + "C"))
    counts = count_by_last(*arguments)
    assert count(*arguments) == int(counts[-1]) == 2**n - 1
    assert isinstance(counts, list) == (2**n - 1 >= 2**63)


@pytest.mark.parametrize("within", [40, 90, 200])
@pytest.mark.parametrize("seed", [1, 2])
def test_conditions_that_always_hold_change_no_number(seed, within):
    rng = random.Random(seed)
    kinds = "".join(rng.choice("ABBBC") for _ in range(300))
    plain = graph_and(a_bs_c(within=within), stream(kinds))
    linked = graph_and(a_bs_c(RISING, within=within), stream(kinds))
    assert plain[0].is_unary and not linked[0].is_unary
    assert as_list(count_by_last(*plain)) == as_list(count_by_last(*linked))
    assert count(*plain) > 2**20


def test_sums_beyond_all_machine_numbers_are_exact():
    n = 200
    arguments = graph_and(a_bs_c(RISING), stream("A" + "B" * n + "C"))
    values = np.arange(n + 2) * 10**15 - 10**17
    # Every B is part of half of all groups.
    expected = sum(int(v) for v in values[1:-1]) * 2 ** (n - 1)
    assert aggregate(*arguments, 1, values, "sum") == expected
    assert aggregate(*arguments, 1, None, "count") == n * 2 ** (n - 1)
    assert aggregate(*arguments, 0, values, "sum") == int(values[0]) * (2**n - 1)
    mean = Fraction(sum(int(v) for v in values[1:-1]), n)
    assert aggregate(*arguments, 1, values, "avg") == float(mean)
    assert aggregate(*arguments, 1, values.astype(np.float64), "avg") == float(mean)


def test_floats_of_any_size_and_infinity():
    arguments = graph_and(a_bs_c(RISING), stream("AABBC"))
    values = np.array([1e308, 1e308, 1e-300, 1.0, 0.0])
    assert aggregate(*arguments, 0, values, "sum") == np.inf  # six times
    assert aggregate(*arguments, 0, values, "avg") == 1e308
    assert aggregate(*arguments, 1, values, "sum") == 4.0
    values = np.array([1.0, np.inf, 2.0, -np.inf, np.nan])
    assert aggregate(*arguments, 0, values, "sum") == np.inf
    assert aggregate(*arguments, 1, values, "avg") == -np.inf
    assert aggregate(*arguments, 2, values, "sum") is None
    both = np.array([0.0, 0.0, np.inf, -np.inf, 0.0])
    assert np.isnan(aggregate(*arguments, 1, both, "sum"))
    apart = graph_and(a_bs_c(RISING), stream("BABC"))  # the infinite B is part of no match
    assert aggregate(*apart, 1, np.array([np.inf, 0.0, 7.0, 0.0]), "sum") == 7.0


def test_columns_may_have_any_name():
    frame = stream("ABCABBCAABCBC" * 3, np.random.default_rng(3).permutation(39).astype(np.float64))
    found = []
    for name in ("x", "value", "sum", "where", "member"):
        links = [
            ex.Comparison("<", ex.Reference(a, name), ex.Reference(b, name)) for a, b in ("ab", "bc", "cd")
        ]
        parts = (*(EventPattern(v, v.upper()) for v in "abc"), EventPattern("d", "B"))
        query = SequenceQuery(
            SequenceOf(parts, (None,) * 4), tuple(links), within=20, event_type="kind", order_by=("t",)
        )
        found.append(as_list(count_by_last(*graph_and(query, frame.rename(columns={"x": name})))))
    assert sum(found[0]) > 10
    assert all(counts == found[0] for counts in found)


@pytest.mark.parametrize("compiled", [False, True])
def test_user_functions_link_events(compiled):
    def rises(low, high):
        return low < high

    call = numba.njit(rises) if compiled else rises
    rising = ex.Call("rises_", (ex.Reference("b", "x", "i-1"), ex.Reference("b", "x", "i")))
    after = ex.Call("rises_", (ex.Reference("n", "x"), ex.Reference("c", "x")))
    parts = (
        EventPattern("a", "A"), Loop(EventPattern("b", "B"), 1, None), AbsentPattern(EventPattern("n", "D")),
        EventPattern("c", "C"),
    )  # fmt: skip
    options = {"within": 12, "event_type": "kind", "order_by": ("t",)}
    functions = (("rises_", fn.RegisteredFunction("rises_", call, True, compiled and JIT, fn.Arity(2, 2))),)
    frame = stream("ABBDCABCBBDDCAABCBC" * 2, np.random.default_rng(7).permutation(38).astype(np.float64))
    pattern = SequenceOf(parts, (None,) * 4)
    called = SequenceQuery(pattern, (rising, after), functions=functions, **options)
    compared = ex.Comparison("<", ex.Reference("n", "x"), ex.Reference("c", "x"))
    plain = SequenceQuery(pattern, (RISING, compared), **options)
    counts = as_list(count_by_last(*graph_and(called, frame)))
    assert counts == as_list(count_by_last(*graph_and(plain, frame)))
    assert sum(counts) > 10


def test_one_shape_is_compiled_once():
    texts = set()
    frame = stream("ABBC")
    for i in range(250):
        shifted = ex.Arithmetic("+", ex.Reference("a", "x"), ex.Literal(float(i)))
        link = ex.Comparison("<", shifted, ex.Reference("c", "x"))
        parts = (EventPattern("a", f"A{i}"), EventPattern("c", "C"))
        query = SequenceQuery(
            SequenceOf(parts, (None, None)), (link,), within=i + 1, event_type="kind", order_by=("t",)
        )
        program, _, places, _ = prepared(query, frame)
        graph = state_graph_of(program, program.branches[0])
        texts.add(write_counting(program, graph, dtypes_of(places.inputs)).text)
    assert len(texts) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_search_finds_as_many(seed):
    spec, frame = random_spec(random.Random(seed)), random_frame(random.Random(seed + 1000), 60)
    spec.within = spec.within or 12
    program, events, places, accept = prepared(query_of(spec), frame)
    found = search_sequence(program, events)
    counts = count_by_last(state_graph_of(program, program.branches[0]), places, accept)
    ends, n = found.ends()
    expected = np.zeros(len(frame), np.int64)
    expected[ends] = n
    assert as_list(counts) == expected[places.position_of_place].tolist()


def test_residues_make_the_number():
    rng = random.Random(5)
    for bits in (1, 63, 64, 65, 200, 1000):
        numbers = [rng.getrandbits(bits) for _ in range(20)]
        used = moduli(1 << bits, 1 << 20)
        residues = [np.array([n % m for n in numbers], np.uint64) for m in used]
        assert as_list(number_of(residues, used)) == numbers
        assert all(m * (1 << 20) <= 1 << 64 for m in used[1:])


def test_moduli_have_no_common_factors():
    for bits, limit in ((40, 1 << 31), (3000, 1 << 31), (3000, 1 << 16), (200, 500)):
        used = moduli(1 << bits, 1 << 20, largest=limit)
        assert prod(used) > 1 << bits and used[0] == 1 << 64
        assert all(2 < m < limit for m in used[1:])
        assert all(gcd(one, other) == 1 for one, other in combinations(used, 2))
    with pytest.raises(ValueError, match="not enough"):
        moduli(1 << 200, 1, largest=20)
