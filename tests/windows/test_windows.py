"""Windows give the rows of the oracle, bit for bit, on every kind of frame."""

from __future__ import annotations

import pytest

import cepkit as cep
from tests.support.window_cases import plain, random_window_case, rows_of

FEW = 60  # cases of each number below


def check(seed: int) -> None:
    case = random_window_case(seed)
    found = cep.window(case.frame, case.window)
    names = [name for name in found.columns if name != "emitted"]
    assert plain(rows_of(found), names) == plain(case.expected, names)
    assert found.index.isin(case.frame.index).all()


@pytest.mark.parametrize("block", range(5))
def test_windows_equal_the_oracle(block):
    for seed in range(block * FEW, (block + 1) * FEW):
        check(seed)
