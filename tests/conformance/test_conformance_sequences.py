"""Cases of other engines' test suites, as sequence queries: the definition and every engine against them."""

from __future__ import annotations

import pytest

import cepkit as cep
from cepkit.errors import UnsupportedQueryError
from cepkit.planning.planner import engines
from tests.conformance.cases import FOLDER, cases
from tests.conformance.flink import processed
from tests.conformance.sequences import (
    ASKED,
    CASES,
    DIFFERENT,
    N_CASES_OF_FILE,
    NOT_ASKED,
    SAID_OTHERWISE,
    asked,
    defined,
)

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout"),
    pytest.mark.filterwarnings("ignore:.*never (has|occur):cepkit.errors.CepWarning"),
]
SEQUENCE_ENGINES = [name for name, engine in engines().items() if engine.run is not None and engine.automatic]


# --- every case is equal, or listed with a reason that holds ---------------------------------------------


@pytest.mark.parametrize("file", N_CASES_OF_FILE)
def test_every_case_is_read(file):
    assert {case.number for case in CASES.values() if case.file == file} == set(range(N_CASES_OF_FILE[file]))


def test_listed_cases_exist_and_stand_in_one_table():
    listed = [name for table in (NOT_ASKED, DIFFERENT) for names in table.values() for name in names]
    assert len(listed) == len(set(listed))
    assert not set(listed) - set(CASES)


@pytest.mark.parametrize("case", cases("flink_cep_event_time.json"), ids=lambda case: case["id"])
def test_late_events_are_left_out(case):
    assert processed(case)[1] == case.get("expected_late", [])


# --- engines ---------------------------------------------------------------------------------------------

RUNS = [(name, False) for name in ASKED] + [(name, True) for name in SAID_OTHERWISE]


@pytest.mark.parametrize(("name", "otherwise"), RUNS)
@pytest.mark.parametrize("engine", SEQUENCE_ENGINES)
def test_engine_is_the_definition(name, otherwise, engine):
    case = asked(name, otherwise)
    try:
        found = cep.match(case.frame(), case.query, engine=engine)
    except UnsupportedQueryError as error:
        assert engine != "search"
        pytest.skip(str(error))
    lineage = found.lineage()
    matches = [
        tuple(zip(match["variable"], match["position"].tolist(), strict=True))
        for _, match in lineage.groupby("match")
    ]
    assert matches == defined(name, otherwise)
    assert found.count() == len(matches)
