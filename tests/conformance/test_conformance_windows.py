"""Siddhi's tests of windows and joins, as far as the meaning of cepkit's windows covers them."""

from __future__ import annotations

import pytest

from tests.conformance import cases as reference
from tests.conformance.windows import NOT_RUN, check_join, check_window, name_of

pytestmark = pytest.mark.skipif(
    not reference.FOLDER.is_dir(), reason="no reference cases beside the checkout"
)
CASES = reference.cases("siddhi_windows_joins.json")


def cases(kind: str) -> list:
    return [case for case in CASES if case["kind"] == kind and name_of(case) not in NOT_RUN]


@pytest.mark.parametrize("case", cases("window"), ids=name_of)
def test_windows_of_siddhi(case):
    check_window(case)


@pytest.mark.parametrize("case", cases("join"), ids=name_of)
def test_joins_of_siddhi(case):
    check_join(case)


def test_every_case_is_run_or_has_a_reason():
    known = {name_of(case) for case in CASES}
    assert set(NOT_RUN) <= known
    assert len(known) == len(cases("window")) + len(cases("join")) + len(NOT_RUN)
