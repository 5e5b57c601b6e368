"""A share of the differential campaign: every language, engine and tier against the oracles."""

from __future__ import annotations

from random import Random

import numba
import pytest

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.query import SequenceQuery
from tests.campaigns.differential import PARTS, check_one
from tests.campaigns.sequences import check_sequences
from tests.campaigns.tally import Tally
from tests.oracle.generate_conditions import Conditions, Role
from tests.support.sizes import seeds

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the tiers need the compiler of numba")


def check(part: str, numbers: range, **settings) -> Tally:
    tally = Tally()
    for seed in numbers:
        check_one(part, seed, tally, **settings)
    assert not tally.differences, "\n\n".join(tally.differences)
    assert sum(tally.compared.values()) > 0
    return tally


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("seed", range(2))
def test_few_queries_on_few_streams(part, seed):
    n_streams = 3 if part in ("windows", "joins") else 12
    tally = check(part, range(10**7 + 4 * seed, 10**7 + 4 * seed + 4), n_streams=n_streams)
    assert sum(tally.found.values()) > 0


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_the_campaign(part, seed, full):
    n_streams = {} if full else {"n_streams": 3 if part in ("windows", "joins") else 12}
    check(part, range(150 * seed, 150 * seed + (150 if full else 10)), **n_streams)


@pytest.mark.parametrize("part", ["regex", "sequences", "idioms"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_compiled_queries(part, seed):
    check(part, range(3 * 10**7 + seed, 3 * 10**7 + seed + 1), compiled=True)


def absent_in_front(seed: int) -> SequenceQuery:
    """Return ``SEQ(!B b, _ a)`` with two keys, a window and a gap, and with random conditions."""
    random, roles = Random(seed), [Role("b", absent=True), Role("a", sure=True)]
    pattern = sq.SequenceOf(
        (sq.AbsentPattern(sq.EventPattern("b", "B")), sq.EventPattern("a", None)), (None, None)
    )
    conditions = Conditions(random, Random(seed + 1))
    where = [conditions.conjunct([roles[1]], absent=roles[0]) for _ in range(random.choice([0, 1, 1, 2]))]
    where += [conditions.conjunct([roles[1]], loose=True) for _ in range(random.choice([0, 0, 1]))]
    used = {node.name for tree in where for node in tree.walk() if isinstance(node, ex.Parameter)}
    windows = {"within": 12, "gap_within": 1, "within_closed": random.random() < 0.7}
    return SequenceQuery(
        pattern,
        strategy="next",
        scope=random.choice(["run", "edge"]),
        partition_by=("k", "f"),
        order_by=("t",),
        event_type="kind",
        where=tuple(where),
        params=tuple((name, value) for name, value in conditions.params.items() if name in used),
        after_match=random.choice([("none", None), ("past_last", None), ("to_next", None)]),
        **windows,
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_match_is_kept_when_the_event_that_forbids_another_is_forgotten(seed):
    tally = Tally()
    check_sequences(seed, 60, tally, compiled=False, drawn=absent_in_front(seed))
    assert not tally.differences, "\n\n".join(tally.differences)
    assert tally.compared["sequences", "stream", "interpreted"] > 0
