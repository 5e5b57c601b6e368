"""Joins give the rows of brute force, bit for bit."""

from __future__ import annotations

import pytest

import cepkit as cep
from tests.support.window_cases import found_by_join, join_result, random_join_case

FEW = 60  # cases of each number below


def check(seed: int) -> None:
    case = random_join_case(seed)
    join = case.join
    on = dict(join.on) or None
    found = cep.join(
        case.left, case.right, left=join.left, right=join.right, on=on, where=join.where, how=join.how,
        trigger=join.trigger, measures=dict(join.measures), order_by="ts",
    )  # fmt: skip
    assert found_by_join(found, join) == join_result(case)


@pytest.mark.parametrize("block", range(5))
def test_joins_equal_brute_force(block):
    for seed in range(block * FEW, (block + 1) * FEW):
        check(seed)
