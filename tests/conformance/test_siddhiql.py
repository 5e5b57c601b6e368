"""Siddhi's tests of patterns, sequences, windows and joins, through whole SiddhiQL texts."""

from __future__ import annotations

import pytest

import cepkit as cep
from tests.conformance import cases as reference
from tests.conformance.siddhiql import RACES, check_pattern, check_window, name_of, pattern_app, run

pytestmark = pytest.mark.skipif(
    not reference.FOLDER.is_dir(), reason="no reference cases beside the checkout"
)


def cases(file):
    return [pytest.param(case, id=name_of(case)) for case in reference.cases(file)]


@pytest.mark.parametrize("case", cases("siddhi_pattern_sequence.json"))
def test_patterns_and_sequences(case):
    if name_of(case) in RACES:
        with pytest.raises(cep.UnsupportedQueryError, match="depends on the order of its threads"):
            run(case, pattern_app(case))
        return
    check_pattern(case)


@pytest.mark.parametrize("case", cases("siddhi_windows_joins.json"))
def test_windows_and_joins(case):
    check_window(case)


def test_all_cases_are_there():
    assert len(cases("siddhi_pattern_sequence.json")) == 196
    assert len(cases("siddhi_windows_joins.json")) == 49
