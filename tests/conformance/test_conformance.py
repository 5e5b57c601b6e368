"""Every case of other engines' test suites and of the paper, in each language that can ask it."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cases import FOLDER
from tests.conformance.listing import SUITES, questions
from tests.conformance.verdicts import EQUAL, OPEN

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout"),
    pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning"),
]
QUESTIONS, OUTCOMES = questions(), []


@pytest.mark.parametrize(("suite", "language", "name"), QUESTIONS)
def test_case_is_equal_or_has_a_named_reason(suite, language, name):
    """A case that has become equal is no longer to be listed. `tests.conformance.listing` shows the list."""
    verdict = QUESTIONS[suite, language, name]()
    OUTCOMES.append(verdict.outcome)
    assert verdict.outcome != OPEN, verdict.reason


def test_every_case_is_asked():
    assert {path.stem for path in FOLDER.glob("*.json")} == {*SUITES}
    assert {*SUITES} == {suite for suite, _, _ in QUESTIONS}
    for suite in SUITES:
        known = {case["id"] for case in json.loads((FOLDER / f"{suite}.json").read_text())["cases"]}
        for language in {language for of, language, _ in QUESTIONS if of == suite}:
            asked = {name.partition("#")[0] for of, by, name in QUESTIONS if (of, by) == (suite, language)}
            assert asked >= {name.partition("#")[0] for name in known}


def test_enough_cases_are_equal():
    if len(OUTCOMES) < len(QUESTIONS):
        pytest.skip("some cases were not run")
    assert OUTCOMES.count(EQUAL) >= 818
