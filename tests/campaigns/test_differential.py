"""A share of the differential campaign: every language, engine and tier against the oracles."""

from __future__ import annotations

import numba
import pytest

from tests.campaigns.differential import PARTS, check_one
from tests.campaigns.tally import Tally

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the tiers need the compiler of numba")


def check(part: str, seeds: range, **settings) -> Tally:
    tally = Tally()
    for seed in seeds:
        check_one(part, seed, tally, **settings)
    assert not tally.differences, "\n\n".join(tally.differences)
    assert sum(tally.compared.values()) > 0
    return tally


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("seed", range(2))
def test_few_queries_on_few_streams(part, seed):
    tally = check(part, range(10**7 + 4 * seed, 10**7 + 4 * seed + 4), n_streams=12)
    assert sum(tally.found.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("seed", range(10))
def test_more_queries(part, seed):
    check(part, range(2 * 10**7 + 10 * seed, 2 * 10**7 + 10 * seed + 10), n_streams=30)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["regex", "sequences", "idioms"])
@pytest.mark.parametrize("seed", range(3))
def test_compiled_queries(part, seed):
    check(part, range(3 * 10**7 + seed, 3 * 10**7 + seed + 1), compiled=True)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("seed", range(20))
def test_the_campaign(part, seed):
    n = 150
    check(part, range(n * seed, n * seed + n))
