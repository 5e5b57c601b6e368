"""A small share of the campaigns: each family of random queries on some streams in one frame."""

from __future__ import annotations

import pytest

from tests.campaigns.families import FAMILIES, Counts, compare
from tests.support.sizes import seeds


@pytest.mark.parametrize("seed", seeds(1, 60))
@pytest.mark.parametrize("name", FAMILIES)
def test_queries_on_many_streams_give_the_answers_of_the_definition(name, seed):
    for number in range(3 * seed, 3 * seed + 3):
        assert compare(name, number, Counts(), 12) is None
