"""The list of conformance is whole: every case is equal, or has a named reason. With ``-s`` it is shown."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cases import FOLDER
from tests.conformance.listing import SUITES, entries, open_cases, table
from tests.conformance.verdicts import EQUAL

NOT_READ = {"eql"}  # suites of languages that cepkit does not read
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout")


def test_the_list_has_every_case_and_none_is_open(capsys):
    listed = entries()
    with capsys.disabled():
        print(f"\n{table(listed)}")
    assert not open_cases(listed)
    assert {path.stem for path in FOLDER.glob("*.json")} - NOT_READ == {*SUITES}
    assert {*SUITES} == {entry.suite for entry in listed}
    for suite in SUITES:
        known = {case["id"] for case in json.loads((FOLDER / f"{suite}.json").read_text())["cases"]}
        for entry in listed:
            if entry.suite == suite:
                assert {name.partition("#")[0] for name in entry.verdicts} >= {
                    name.partition("#")[0] for name in known
                }
    assert sum(entry.count(EQUAL) for entry in listed) >= 728
