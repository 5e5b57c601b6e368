"""Conditions that are proved to exclude each other never hold for the same row."""

from __future__ import annotations

from random import Random

import pytest

from cepkit.language.expressions.parsing import parse_expression
from cepkit.translation.match_recognize import are_disjoint
from tests.oracle import naive

PARTS = (
    "x < 3", "x <= 2.5", "x > 3", "x >= 3", "x == 2", "x != 2", "3 > x", "2 == x", "x > prev(x)",
    "x <= prev(x)",
    "prev(x) >= x", "prev(x) < x", "x in (1, 2)", "x in (3, 4)", "k == 'a'", "k == 'b'", "k in ('b', 'c')",
    "k != 'a'", "not (x > 3)", "not (k == 'a')", "x < -1", "x > -2", "k is null", "x + 1 > 2", "x + 1 <= 2",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_proof_is_never_wrong(seed):
    random, n_proved = Random(seed), 0
    for _ in range(400):
        texts = [
            random.choice([" and ", " or "]).join(random.sample(PARTS, random.choice([1, 1, 2])))
            for _ in "ab"
        ]
        one, other = map(parse_expression, texts)
        if not are_disjoint(one, other):
            continue
        n_proved += 1
        assert are_disjoint(other, one), texts
        rows = [
            {
                "x": random.choice([None, -3, -1, 0, 1, 2, 3, 4, 2.5]),
                "k": random.choice([None, "a", "b", "c"]),
            }
            for _ in range(12)
        ]
        for row in range(1, len(rows)):
            holds = [naive.evaluate(tree, rows, row, row) is True for tree in (one, other)]
            assert not all(holds), (texts, rows[row - 1 : row + 1])
    assert n_proved > 30


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x < 3", "x >= 3"), ("x > prev(x)", "x <= prev(x)"), ("k == 'a'", "k in ('b', 'c')"), ("y", "not y"),
        ("x > 1 and y", "x < 0 or not y"), ("x == 1", "x in (2, 3)"), ("2 < x", "x <= 2"),
    ],
)  # fmt: skip
def test_these_are_proved(one, other):
    assert are_disjoint(parse_expression(one), parse_expression(other))


def test_texts_that_may_be_times_prove_nothing():
    one, other = parse_expression("ts == '2024-01-31'"), parse_expression("ts == '2024-01-31 00:00'")
    assert not are_disjoint(one, other)
