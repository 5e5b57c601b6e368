"""The counting engine's matches, against all paths one by one: order, numbers, samples, memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from random import Random

import numba
import numpy as np
import pandas as pd
import pytest

from cepkit.engines.counting import ranking, walking
from cepkit.engines.counting.walking import PathWalk
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import Arity, RegisteredFunction
from tests.oracle.generate_paths import Case, as_frame, drawn_case, drawn_rows
from tests.support.counting_cases import check, counts_of, in_row, plain, tighten, walk_of
from tests.support.sizes import JIT, seeds

# Machine code costs seconds per shape: few shapes, many streams. Interpreted kernels: the reverse.
SHAPES, STREAMS = (1, 40) if JIT else (8, 5)
FULL_SHAPES, FULL_STREAMS = (20, 100) if JIT else (800, 4)


# --- against the definition --------------------------------------------------------------------------------


@pytest.fixture(params=["as it is", "tight"])
def limits(request, monkeypatch):
    """Once more with every array too small, every call cut short, and the arithmetic of large counts."""
    if request.param == "tight":
        tighten(monkeypatch)


@pytest.mark.parametrize("shape_seed", seeds(SHAPES, FULL_SHAPES))
def test_agrees_with_the_definition(shape_seed, limits, full):
    for seed in range(FULL_STREAMS if full else STREAMS):
        values = Random(f"values {shape_seed} {seed}")
        case = drawn_case(Random(f"shape {shape_seed}"), values)
        rows = drawn_rows(values, values.choice([0, 6, 9, 12, 12]))
        if len(in_row(case, rows)) > 2000:
            rows = rows[:8]
        check(case, rows, values, searched=seed % 5 == 0)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_cases_have_matches_of_every_kind():
    kinds = dict.fromkeys(["line", "graph", "several ways", "absence", "none"], 0)
    for seed in range(400):
        values = Random(f"values {seed} 0")
        case = drawn_case(Random(f"shape {seed}"), values)
        matches = in_row(case, drawn_rows(values, 11))
        is_line = all(low == high for _, low, high in case.components) and len(case.components) > 1
        kinds["none"] += not matches
        kinds["line" if is_line else "graph"] += len(matches) > 2
        kinds["several ways"] += len({positions for positions, _ in matches}) < len(matches)
        kinds["absence"] += bool(case.absences) and len(matches) > 2
    assert min(kinds.values()) >= 20, kinds
    assert kinds["none"] < 240, kinds


def test_every_event_in_every_state():
    """Rows of events with many ways through the states: those whose components end earlier come first."""
    case = Case([(None, 1, None), (None, 1, 3), (None, 1, None)], [(1, "x", "<=")], [], [], {})
    rows = drawn_rows(Random(3), 9)
    assert check(case, rows, Random(1), searched=True) > 1000


# --- large numbers -----------------------------------------------------------------------------------------


def subsets(n: int) -> tuple[PathWalk, list[int]]:
    """Return the walk of a, b+, c on an a, n b and a c, and counts; match k has the bits of k + 1 as b."""
    case = Case([("A", 1, 1), ("B", 1, None), ("C", 1, 1)], [], [], [], {})
    row = {"t": 0, "k": "p", "x": 0, "y": 0.0, "s": "u"}
    walk = walk_of(case.query(), as_frame([row | {"kind": kind} for kind in "A" + "B" * n + "C"]))
    return walk, [0] * (n + 1) + [2**n - 1]


def bits(block: MatchBlock) -> list[int]:
    return [sum(1 << p - 1 for p in positions[1:-1]) for positions, _ in plain(block)]


@pytest.mark.parametrize("n", [5, 30, 61, 62, 63, 64, 65, 100])
def test_matches_of_large_numbers(n):
    walk, counts = subsets(n)
    rng = Random(n)
    numbers = sorted({0, 1, 2**n - 2, 2**n // 2, *(rng.randrange(2**n - 1) for _ in range(20))})
    assert bits(walk.take(numbers, counts)) == [number + 1 for number in numbers]
    first = min(2**n - 1, 2**70) // 3
    run = list(range(first, min(first + 300, 2**n - 1)))
    assert bits(walk.take(run, counts)) == [number + 1 for number in run]
    with pytest.raises(IndexError, match=f"{2**n - 1} matches"):
        walk.take([2**n - 1], counts)


def test_sample_of_more_matches_than_fit_64_bits():
    walk, counts = subsets(90)
    n = 200 if JIT else 40
    sample = bits(walk.sample(n, 4, counts))
    assert sample == sorted(sample) and len(set(sample)) == n
    ones = [sum(number >> bit & 1 for number in sample) for bit in range(90)]
    # Each b is in every second match: the standard deviation is half the root of n.
    assert n / 2 - 2.25 * n**0.5 < min(ones) <= max(ones) < n / 2 + 2.25 * n**0.5


def test_ways_that_are_many_too():
    """Beside 40 events, the ways through the states make numbers that need digits of their own."""
    n = 40
    case = Case([(None, 1, None)] * 4, [], [], [], {})
    row = {"t": 0, "kind": "A", "k": "p", "x": 0, "y": 0.0, "s": "u"}
    walk = walk_of(case.query(), as_frame([row] * n))
    # A match that ends at event p: q events of the p before it, and 3 ends of components among them.
    ways = [[0] * (n + 1) for _ in range(n + 1)]
    for q in range(n + 1):
        ways[q][0] = 1
        for r in range(1, q + 1):
            ways[q][r] = ways[q - 1][r - 1] + ways[q - 1][r]
    counts = [sum(ways[p][q] * ways[q][3] for q in range(3, p + 1)) for p in range(n)]
    total = sum(counts)
    assert total > 2**40
    rng = Random(5)
    numbers = sorted({0, total - 1, *(rng.randrange(total) for _ in range(30))})
    found = plain(walk.take(numbers, counts))
    keys = [(positions[::-1], [-c for c in components]) for positions, components in found]
    assert keys == sorted(keys) and len(found) == len(numbers)
    first = numbers[7]
    successive = plain(walk.take(list(range(first, first + 100)), counts))
    one_by_one = [plain(walk.take([number], counts))[0] for number in range(first, first + 100, 9)]
    assert successive[::9] == one_by_one


# --- samples -----------------------------------------------------------------------------------------------


def uniform(walk: PathWalk, counts, n: int, n_seeds: int) -> None:
    """Assert that matches occur equally often in samples, and so do pairs of successive ones."""
    matches = plain(joined(list(walk.blocks())))
    number = {match: m for m, match in enumerate(matches)}
    total = len(matches)
    times, pairs = np.zeros(total), 0
    for seed in range(n_seeds):
        drawn = [number[match] for match in plain(walk.sample(n, seed, counts))]
        assert len(set(drawn)) == n
        times[drawn] += 1
        pairs += sum(drawn[i + 1] - drawn[i] == 1 for i in range(n - 1))
    expected = n_seeds * n / total
    # Drawn without replacement: each cell's variance is expected * (1 - n / total).
    chi = ((times - expected) ** 2).sum() / (expected * (1 - n / total)) * (total - 1) / total
    assert abs(chi - (total - 1)) < 4 * (2 * (total - 1)) ** 0.5, (chi, total)
    expected_pairs = n_seeds * (total - 1) * n * (n - 1) / (total * (total - 1))
    assert abs(pairs - expected_pairs) < 5 * expected_pairs**0.5, (pairs, expected_pairs)


@pytest.mark.parametrize(
    "kind", ["line listed", "line", "line by counting", "line with digits", "graph", "several ways"]
)
def test_samples_are_uniform(kind, monkeypatch):
    n_seeds = 1000 if JIT else 300
    link = [(0, "x", "<="), (1, "x", "<=")]
    components = {
        "graph": [("A", 1, 1), ("B", 1, None), ("C", 1, 1)],
        "several ways": [(None, 1, None), (None, 1, 2), ("C", 1, 1)],
    }.get(kind, [("A", 1, 1), ("B", 1, 1), ("C", 1, 1)])
    monkeypatch.setattr(walking, "_TUPLES_EACH", 1 << 60 if kind == "line listed" else 0)
    monkeypatch.setattr(ranking, "_FEW_PAIRS", 1 << 60 if kind == "line by counting" else 0)
    if kind == "line with digits":
        monkeypatch.setattr(ranking, "SMALL", 1)
        monkeypatch.setattr(walking, "SMALL", 1)
    case = Case(components, link if "line" in kind else link[:1], [], [], {"within": 20})
    rows = drawn_rows(Random(8), {"graph": 30, "several ways": 11}.get(kind, 44))
    walk = walk_of(case.query(), as_frame(rows))
    matches = plain(joined(list(walk.blocks())))
    assert 30 < len(matches) < 3000, len(matches)
    uniform(walk, counts_of(walk, matches, "array"), 12, n_seeds)


def test_last_events_share_counted_windows(monkeypatch):
    n_windows, n_drawn = [], []
    monkeypatch.setattr(walking, "_TUPLES_EACH", 0)
    monkeypatch.setattr(ranking, "_FEW_PAIRS", 1 << 60)
    window, drawn = ranking.PathFinder.window, ranking.LineSample._draw_in_window
    monkeypatch.setattr(
        ranking.PathFinder, "window",
        lambda self, *args, **bounds: n_windows.append(1) or window(self, *args, **bounds),
    )  # fmt: skip
    monkeypatch.setattr(
        ranking.LineSample,
        "_draw_in_window",
        lambda self, *args: n_drawn.append(len(args[1])) or drawn(self, *args),
    )
    rng = np.random.default_rng(2)
    n = 600
    frame = as_frame([])
    frame = pd.DataFrame({
        "t": np.arange(n), "kind": rng.choice(list("ABC"), n), "k": "p", "x": rng.integers(0, 9, n),
        "y": 0.0, "s": "u",
    }).astype(frame.dtypes.to_dict())  # fmt: skip
    case = Case([(kind, 1, 1) for kind in "ABC"], [(0, "x", "<"), (1, "x", "<")], [], [], {"within": 200})
    walk = walk_of(case.query(), frame)
    matches = plain(joined(list(walk.blocks())))
    sample = plain(walk.sample(300, 1, counts_of(walk, matches, "array")))
    assert len(set(sample)) == 300 and set(sample) <= set(matches)
    assert sample == [match for match in matches if match in set(sample)]
    assert sum(n_drawn) > max(60, 2 * len(n_windows)), (
        sum(n_drawn),
        len(n_windows),
    )  # last events and windows


def test_numbers_of_matches_beyond_53_bits_are_exact():
    counts = np.array([2**60 + 1, 0, 3, 2**54 + 1], np.uint64)
    numbering = ranking.Numbering.of(counts, np.arange(4))
    assert [int(n) for n in numbering.first_of_end] == [0, 2**60 + 1, 2**60 + 1, 2**60 + 4, 2**60 + 2**54 + 5]


# --- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["line", "graph"])
@pytest.mark.parametrize("n_matches", [10**5 if JIT else 10**4, pytest.param(10**8, marks=pytest.mark.slow)])
def test_memory_stays_flat_while_one_event_ends_all_matches(kind, n_matches):
    if not JIT and n_matches > 10**5:
        pytest.skip("plain Python takes hours for so many")
    n = round(n_matches**0.5) + 1
    kinds = "A" * n + "B" * n + "C" if kind == "line" else "A" * 30 + "B" * 30 + "C"
    components = [("A", 1, 1), ("B", 1, 1 if kind == "line" else None), ("C", 1, 1)]
    case = Case(components, [], [], [], {})
    row = {"t": 0, "k": "p", "x": 0, "y": 0.0, "s": "u"}
    walk = walk_of(case.query(), as_frame([row | {"kind": kind} for kind in kinds]))
    next(walk.blocks(1 << 12))
    tracemalloc.start()
    try:
        n_found, last = 0, None
        for block in walk.blocks(1 << 12):
            n_found += len(block)
            ends = block.event_of_item[block.first_item_of_match[1:] - 1]
            assert ends[0] == ends[-1] == len(kinds) - 1
            last = block
            if n_found >= n_matches:
                break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_found >= n_matches and len(last) > 0
    assert peak < 8 << 20


# --- functions of the user ---------------------------------------------------------------------------------


def is_below(left, right):
    return left < right


@pytest.mark.parametrize("high", [1, None])
@pytest.mark.parametrize("compiled", [True, False])
def test_conditions_may_call_functions(compiled, high):
    function = numba.njit(is_below) if compiled else is_below
    registered = RegisteredFunction("is_below", function, True, compiled and JIT, Arity(2, 2))
    case = Case([("A", 1, 1), ("B", 1, high), ("C", 1, 1)], [(1, "x", "<")], [], [], {"within": 20})
    query = case.query()
    (link,) = query.where
    called = ex.Call("is_below", (link.left, link.right))
    query = replace(query, where=(called,), functions=(("is_below", registered),))
    rows = drawn_rows(Random(8), 20)
    expected = in_row(case, rows)
    assert len(expected) > 3
    walk = walk_of(query, as_frame(rows))
    assert plain(joined(list(walk.blocks(3)))) == expected
    counts = counts_of(walk, expected, "array")
    assert plain(walk.take([1, 3], counts)) == [expected[1], expected[3]]
    assert set(plain(walk.sample(3, 0, counts))) <= set(expected)
