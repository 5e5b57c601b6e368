"""Cases of other engines' test suites and of the paper, as far as they ask what a regex query can answer."""

from __future__ import annotations

import pytest

from tests.conformance.cases import FOLDER, cases
from tests.conformance.regexes import NOT_RUN, check_esper, check_paper, name_of, reason_against

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout")
ESPER = cases("esper_rowrecog.json")


@pytest.mark.parametrize("case", cases("seed_matchregex.json"), ids=lambda case: case["id"])
def test_rules_of_the_paper(case):
    check_paper(case)


@pytest.mark.parametrize("case", ESPER, ids=name_of)
def test_cases_not_run_are_named_with_their_reason(case):
    assert NOT_RUN.get(name_of(case)) == reason_against(case)


@pytest.mark.parametrize("case", [case for case in ESPER if name_of(case) not in NOT_RUN], ids=name_of)
def test_esper(case):
    """The same rows, delivered after the same event."""
    check_esper(case)
