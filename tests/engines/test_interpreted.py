"""Interpreted queries against the definition, and against the same queries compiled."""

from __future__ import annotations

import numba
import pytest

from cepkit.compile.interpreted.regex import regex_code_of
from cepkit.engines.counting import layout
from cepkit.engines.interpreted.counting import absence_tests_of, counting_tests_of
from cepkit.engines.regex import tiers
from cepkit.engines.shared import kernels
from cepkit.frames.pandas import PandasSource
from cepkit.language.regex.construction import regex_query
from tests.engines.test_chain_counts import case_of_shape, graph_and
from tests.engines.test_chain_counts import check as check_counts
from tests.engines.test_engines import check
from tests.oracle import generate
from tests.oracle.generate_paths import as_frame

JIT = not numba.config.DISABLE_JIT
N_CASES = 1000


@pytest.fixture
def interpreted(monkeypatch):
    """Interpret every query that can be interpreted, and collect the reasons of the others."""
    reasons: list[str | None] = []

    def reason(program, source, n_events):
        code = regex_code_of(program)
        reasons.append(code if isinstance(code, str) else None)
        return reasons[-1]

    monkeypatch.setattr(tiers, "reason_to_compile", reason)
    return reasons


@pytest.mark.parametrize("block", range(0, N_CASES, 50))
def test_random_regex_queries(block, interpreted):
    for seed in range(block, block + 50):
        case = generate.case(seed)
        if JIT and isinstance(_code(case), str):
            continue  # a kernel of its own, which takes a second to compile; test_engines.py has those
        try:
            keywords = {**case.keywords(), "partition_by": case.partition_by}
            check(case.pattern, case.define, case.rows, **keywords)
        except BaseException as error:
            error.add_note(f"generate.case({seed})")
            raise
    assert interpreted.count(None) >= 25, interpreted


def _code(case):
    frame = generate.to_frame(case.rows)
    source = PandasSource(frame)
    keywords = {**case.keywords(), "partition_by": case.partition_by}
    from cepkit.compile.regex.program import compile_regex

    query = regex_query(case.pattern, define=case.define, **keywords)
    return regex_code_of(compile_regex(query, source.schema))


# --- sequences -------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Interpret every count that can be interpreted, and collect the reasons of the others."""
    reasons: list[str | None] = []

    def tests_of(graph):
        tests = counting_tests_of(graph)
        reasons.append(tests if isinstance(tests, str) else None)
        return tests

    monkeypatch.setattr(layout, "counting_tests_of", tests_of)
    for module in (layout, kernels):
        monkeypatch.setattr(module, "reason_to_compile", lambda text: None)
    return reasons


@pytest.mark.parametrize("block", range(0, N_CASES, 50))
def test_random_counts(block, counted):
    for seed in range(block, block + 50):
        drawn, rows = case_of_shape(seed, seed)
        if JIT and isinstance(_tests(drawn, rows), str):
            continue
        try:
            check_counts(drawn, rows)
        except BaseException as error:
            error.add_note(f"case_of_shape({seed}, {seed})")
            raise
    assert counted.count(None) >= 15, counted


def _tests(drawn, rows):
    graph, _, _ = graph_and(drawn.query(), as_frame(rows))
    absences = (absence for link in graph.links for absence in link.absences)
    found = [counting_tests_of(graph), *map(absence_tests_of, absences)]
    return next((reason for reason in found if isinstance(reason, str)), None)
