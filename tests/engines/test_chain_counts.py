"""The counting engine's numbers against the definition: counts, residues, sums and other aggregates."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from math import gcd, prod

import numba
import numpy as np
import pandas as pd
import pytest

from cepkit.compile.counting import AT_LEAST, MODULAR, WRAPPING, write_counting
from cepkit.compile.state_graph import state_graph_of
from cepkit.engines.counting import counts as path_counts
from cepkit.engines.counting import engine as aggregates
from cepkit.engines.counting import layout
from cepkit.engines.counting.counts import PathCounter, moduli, number_of
from cepkit.engines.counting.engine import counter_of
from cepkit.engines.counting.layout import Layout
from cepkit.engines.shared import places as places_of_events
from cepkit.engines.shared.places import Places, dtypes_of
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import AbsentPattern, EventPattern, Loop, SequenceOf, SequenceQuery
from tests.oracle.generate_paths import Case, as_frame
from tests.support.counting_cases import as_list, case_of_shape, check_counts, counts_by_row, graph_and
from tests.support.sequence_runs import prepared
from tests.support.sizes import JIT, seeds
from tests.support.tiers import seeds_of_tiers

# --- the package ------------------------------------------------------------------------------------------


def aggregate(graph, places, accept, component, values, function):
    return aggregates.aggregate(counter_of(graph, places, accept), component, values, function)


N_SHAPES = 10


def case(seed: int, n_shapes: int = N_SHAPES) -> tuple[Case, list[dict]]:
    return case_of_shape(seed % n_shapes if JIT else seed, seed)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_most_cases_have_matches():
    n_matches = [len(drawn.matches(rows)) for drawn, rows in map(case, range(100))]
    least = 40 if JIT else 70  # with the JIT there are only ten shapes, and some never match
    assert sum(n > 0 for n in n_matches) >= least, n_matches
    assert sum(n > 20 for n in n_matches) >= 15, n_matches


@seeds_of_tiers(2 if JIT else 4, 40)
def test_counts_are_those_of_all_paths(seed, tier, monkeypatch):
    """Compiled queries have one shape and 12 streams, others have 12 shapes."""
    if seed % 4 > 1:  # as with many events when few of them match
        monkeypatch.setattr(layout, "_FEW", 0)
        monkeypatch.setattr(places_of_events, "_FEW", 0)
        monkeypatch.setattr(places_of_events, "_FEW_OF", 0)
    for own in range(20 * seed, 20 * seed + (12 if JIT else 6)):
        check_counts(*case_of_shape(seed if tier == "compiled" else own, own))


@pytest.mark.parametrize("seed", seeds(5 if JIT else 3, 300))
def test_every_arithmetic_counts_the_same(seed):
    drawn, rows = case(seed, 2)
    graph, places, accept = graph_and(drawn.query(), as_frame(rows))
    counting = PathCounter(Layout(graph, places, accept))
    expected = counts_by_row(drawn.matches(rows), len(rows))
    last = places.position_of_place[counting.last]
    expected = [expected[p] for p in last.tolist()]
    assert as_list(counting.pass_over(WRAPPING)[0]) == expected
    assert as_list(counting.pass_over(MODULAR, 3)[0]) == [n % 3 for n in expected]
    assert as_list(counting.pass_over(MODULAR, (1 << 61) - 1)[0]) == expected
    assert all(counting.pass_over(AT_LEAST)[0] >= np.array(expected, np.float64))
    assert counting.bound >= max(expected, default=0)


@pytest.mark.parametrize("seed", seeds(5, 30))
def test_a_kernel_goes_on_where_it_was_stopped(seed, monkeypatch):
    drawn, rows = case(seed)
    arguments, values = graph_and(drawn.query(), as_frame(rows)), np.arange(len(rows))
    extremes = [aggregate(*arguments, 0, values, function) for function in ("min", "max")]
    monkeypatch.setattr(path_counts, "_WORK_PER_CALL", 1)
    monkeypatch.setattr(layout, "WORK_PER_CALL", 1)
    monkeypatch.setattr(layout, "WORK_PER_CALL", 1)
    check_counts(drawn, rows)
    assert [aggregate(*arguments, 0, values, function) for function in ("min", "max")] == extremes


@pytest.mark.parametrize("seed", seeds(5, 100))
def test_aggregates_are_those_of_all_paths(seed):
    drawn, rows = case(seed, 2)
    matches = drawn.matches(rows)
    graph, places, accept = graph_and(drawn.query(), as_frame(rows))
    component = random.Random(seed).randrange(len(drawn.components))
    rng = np.random.default_rng(seed)
    numbers = rng.choice([-(2**62), -5, 0, 3, 2**62, 2**63 - 1], len(rows))
    floats = rng.choice([0.1, -0.3, 1e10, 12.37, 0.0, np.nan], len(rows))
    arguments = (graph, places, accept, component)
    of = [position for match in matches for position in match.events[component][1]]
    for column in (numbers, floats):
        used = [column[p].item() for p in of if not np.isnan(column[p])]
        total = sum(map(Fraction, used))
        by_place = column[places.position_of_place]
        assert aggregate(*arguments, by_place, "count") == len(used)
        assert aggregate(*arguments, by_place, "min") == min(used, default=None)
        assert aggregate(*arguments, by_place, "max") == max(used, default=None)
        if not used:
            assert aggregate(*arguments, by_place, "sum") is None
            assert aggregate(*arguments, by_place, "avg") is None
            continue
        assert aggregate(*arguments, by_place, "sum") == (total if column is numbers else float(total))
        assert aggregate(*arguments, by_place, "avg") == float(total / len(used))
    assert aggregate(*arguments, None, "count") == len(of)


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
    counter = counter_of(*arguments)
    counts = counter.by_place()
    assert counter.total() == int(counts[-1]) == 2**n - 1
    assert isinstance(counts, list) == (2**n - 1 >= 2**63)


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
        found.append(as_list(counter_of(*graph_and(query, frame.rename(columns={"x": name}))).by_place()))
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
    counts = as_list(counter_of(*graph_and(called, frame)).by_place())
    assert counts == as_list(counter_of(*graph_and(plain, frame)).by_place())
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
        program, events = prepared(query, frame)
        graph = state_graph_of(program, program.branches[0])
        texts.add(write_counting(program, graph, dtypes_of(Places(program, events).inputs)).text)
    assert len(texts) == 1


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
