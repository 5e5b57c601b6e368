"""Loops whose conditions look at the start of a match wait in queues, and equal the oracle in every tier."""

from __future__ import annotations

import warnings
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.instructions import regex_code_of
from cepkit.compile.regex_program import compile_regex
from cepkit.engines.regex import Run, match_regex
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.regex import parse_pattern, regex_query
from tests.oracle import generate, naive
from tests.support.sizes import JIT, seeds

# Machine code costs up to a second per shape: few shapes, many streams. Interpreted kernels: the reverse.
SEEDS, SHAPES, STREAMS = (seeds(2, 8), 1, 40) if JIT else (seeds(2, 12), 8, 12)
TIERS = ("auto", "compiled", "interpreted")
# Both sides of a condition: what depends on the event, and what depends on the start. y has nulls.
SIDES = (
    ("x", "first(x) - 1"), ("x", "first(x)"), ("y", "first(y) - 0.5"), ("y", "first(y) * 1.1"),
    ("x", "first(y)"), ("g", "first(x) - 1"), ("x + g", "2 * first(x)"), ("x", "first(g) + 1"),
)  # fmt: skip
PATTERNS = (". e* low", ". e* low", ". e+ low", "d e* low", "d{2} e* low", ". . e* low", ". e* (low | up)")
OPPOSITES = {">=": "<", ">": "<=", "<": ">=", "<=": ">"}


def random_shape(rng: Random) -> tuple[str, dict[str, str], dict]:
    """Return a pattern, its predicates and its window; one loop looks at the start."""
    event, start = rng.choice(SIDES)
    sign = rng.choice(list(OPPOSITES))
    loop = [f"{event} {sign} {start}"]
    if rng.random() < 0.3:
        other, its_start = rng.choice(SIDES)
        loop.append(f"{other} {rng.choice(list(OPPOSITES))} {its_start}")
    kind = rng.choice(["opposite", "opposite", "further", "other", "event"])
    if kind == "opposite":  # a start that leaves the loop is a match
        low = f"{event} {OPPOSITES[sign]} {start}"
    elif kind == "further":
        low = f"{event} {OPPOSITES[sign]} {start} {'-' if sign in ('>', '>=') else '+'} 1"
    elif kind == "other":
        other, its_start = rng.choice(SIDES)
        low = f"{other} {rng.choice(list(OPPOSITES))} {its_start}"
    else:
        low = "g == 0"
    if rng.random() < 0.2:
        loop.append("f")
    define = {"e": " and ".join(loop), "low": low, "d": "x > 1", "up": "s == 'ab'"}
    if rng.random() < 0.3:
        define["low"] += rng.choice([" and f", " and count() > 2", " and bit_and(x, first(x)) == 0"])
    window = {}
    if rng.random() < 0.4:
        window = {"within": rng.choice([3, 8, 30]), "within_closed": rng.random() < 0.5}
    pattern = rng.choice(PATTERNS)
    return pattern, {name: text for name, text in define.items() if name in pattern}, window


def prepared(pattern: str, define: dict[str, str], rows: list[dict], **keywords):
    source = PandasSource(generate.to_frame(rows))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=cep.CepWarning)  # of dead suffixes
        program = compile_regex(regex_query(pattern, define=define, **keywords), source.schema)
    return program, build_events(source, program)


def check_shape(
    rng: Random, pattern: str, texts: dict[str, str], window: dict, nulls: bool
) -> tuple[int, bool]:
    """Compare random streams with the oracle; return the number of matches, and whether a loop is a queue."""
    tree, define = parse_pattern(pattern), {name: parse_expression(text) for name, text in texts.items()}
    options = {"partition_by": ("k",), "order_by": "t", **window}
    n_matches, has_queue = 0, False
    for _ in range(STREAMS):
        rows = generate.stream(rng, rng.randint(2, 40), n_keys=rng.randint(1, 3), nulls=nulls)
        expected = naive.matches(tree, define, rows, **{"within": None, "within_closed": True, **options})
        program, events = prepared(pattern, texts, rows, **options)
        has_queue |= any(queue.loops for queue in program.plan.queues)
        for tier in TIERS:
            if tier == "interpreted" and isinstance(regex_code_of(program), str):
                continue
            found = match_regex(program, events, tier=tier)
            ends = list(zip(events.rows(found.first), events.rows(found.last), strict=True))
            assert ends == [(match[0], match[-1]) for match in expected], (tier, pattern, texts, window, rows)
        n_matches += len(expected)
    return n_matches, has_queue


@pytest.mark.parametrize("seed", SEEDS)
def test_loops_that_look_at_the_start_equal_the_oracle(seed):
    rng = Random(seed)
    n_matches = n_queues = n_shapes = 0
    while n_queues < SHAPES:
        n, has_queue = check_shape(rng, *random_shape(rng), nulls=rng.random() < 0.7)
        n_matches, n_queues, n_shapes = n_matches + n, n_queues + has_queue, n_shapes + 1
    assert n_matches > 0
    assert n_shapes < 12 * SHAPES


@pytest.mark.parametrize("seed", range(2))
def test_a_loop_that_starts_enter_at_different_ages_has_no_queue(seed):
    """A later start may enter before an earlier one, so no order of the queue fits."""
    define = {"e": "x >= first(x)", "low": "x < first(x)", "d": "x > 1"}
    for pattern in (". d? . e* low", ". (d | . d) e* low"):
        n_matches, has_queue = check_shape(Random(seed), pattern, define, {}, nulls=True)
        assert n_matches > 0 and not has_queue
    assert check_shape(Random(seed), ". d . e* low", define, {}, nulls=True)[1]


def test_alternatives_that_repeat_often_are_planned_at_once():
    """There are 2^28 ways to the last repetition."""
    frame = pd.DataFrame({"x": [*range(40)]})
    define = {"a": "x % 2 = 0", "b": "x % 3 > 0", "c": "x >= 35"}
    assert cep.match(frame, "(a | b){28} (a | b)* c", define=define).count() == 0  # 3 is neither
    define["b"] = "x % 2 = 1"
    assert cep.match(frame, "(a | b){28} (a | b)* c", define=define).count() == 1


@pytest.mark.parametrize("seed", seeds(4, 8))
@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_queues_of_hundreds_of_starts_that_leave_anywhere(kind, seed):
    """Starts leave the loop from any place of the queue, in groups and one by one."""
    rng = np.random.default_rng(seed)
    n = 1500
    t = np.sort(rng.integers(0, 3 * n, n))
    window, least = int(rng.choice([300, 1000, 10**6])), int(rng.choice([5, 40, 200]))
    x = (np.cumsum(rng.integers(-9, 10, n)) if seed % 2 else rng.integers(0, 1000, n)).astype(kind)
    further = int(rng.choice([0, 0, 7, 60]))  # 0: a start that leaves the loop is a match
    if kind == "float64":
        x[rng.random(n) < 0.002] = np.nan
    found = cep.match(
        pd.DataFrame({"t": t, "x": x}), ". e* low", order_by="t", within=window,
        define={"e": "x >= first(x) - :least", "low": "x < first(x) - :least - :further"},
        params={"least": least, "further": further}, measures={},
    ).lineage().groupby("match")["position"].agg(["first", "last"])  # fmt: skip
    stays = x[None, :] >= x[:, None] - least
    low = (x[None, :] < x[:, None] - least - further) & (t[None, :] - t[:, None] <= window)
    expected, clean = [], 0
    for end in range(n):
        for start in range(clean, end):
            if low[start, end] and stays[start, start + 1 : end].all():
                expected.append((start, end))
                clean = end + 1
                break
    assert list(found.itertuples(index=False, name=None)) == expected


def test_the_work_of_opposite_conditions_grows_with_the_events():
    """A list would visit each live start at each event: some thousand visits for each event."""
    rng = np.random.default_rng(1)
    define = {"e": "x >= first(x) - 1000", "low": "x < first(x) - 1000"}
    visits = []
    for n in (2000, 8000):
        rows = pd.DataFrame({"t": np.arange(n), "x": 10_000 + np.cumsum(rng.integers(-5, 6, n))})
        source = PandasSource(rows)
        program = compile_regex(regex_query(". e* low", define=define, order_by="t"), source.schema)
        run = Run()
        match_regex(program, build_events(source, program), tier="compiled", run=run)
        visits.append(run.work / n)
    assert max(visits) < 20
