"""The tree engine against the definition, and its machine against a tree in plain Python."""

from __future__ import annotations

from itertools import product

import numba
import numpy as np
import pytest

from cepkit.engines.after_match import report_matches
from cepkit.planning.planner import engines
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import cases
from tests.support.tree_cases import FAMILIES, tree_case

JIT = not numba.config.DISABLE_JIT
SHAPES, FULL_SHAPES = (24, 840) if JIT else (12, 840)


def pytest_generate_tests(metafunc):
    if "shape_seed" in metafunc.fixturenames:
        usual, full = product(range(SHAPES), range(1)), product(range(FULL_SHAPES), range(1))
        metafunc.parametrize("shape_seed,seed", cases(metafunc.config, usual, full))


@pytest.mark.parametrize("family", FAMILIES)
def test_tree_is_the_definition(shape_seed, seed, family):
    case = tree_case(shape_seed, seed, family)
    wanted = sequence_matches(case.query, case.rows)
    program, events = bound(case)
    found = report_matches(program, engines()["tree"].run(program, events))
    assert as_matches(program, all_of(found)) == wanted
    assert found.count() == len(wanted)
    positions, counts = found.ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, dtype=np.int64)).tolist() == lasts
