"""The utility of an event: the probability that it satisfies every condition that reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np

from cepkit.errors import CepError
from cepkit.shedding.model.distributions import Distribution

SAMPLE = 1000  # values that stand for the distribution of another attribute


@dataclass(frozen=True, slots=True)
class AttributeComparison:
    """The condition ``one op factor * other + offset`` between attributes of two components."""

    # one, other: A component's number and its attribute
    one: tuple[int, str]
    op: str
    other: tuple[int, str]
    factor: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.op not in _MIRRORED:
            raise CepError(f"op={self.op!r}: expected one of {', '.join(map(repr, _MIRRORED))}")


@dataclass(frozen=True, slots=True)
class SampledCondition:
    """Any condition: a function of arrays, one per attribute."""

    attributes: tuple[tuple[int, str], ...]  # component numbers and their attributes
    # Takes one float64 array per attribute, all of one shape, and returns booleans of this shape.
    holds: Callable[..., np.ndarray]


def pass_probability(
    condition: AttributeComparison | SampledCondition,
    component: int,
    event: Mapping[str, float],
    distributions: Mapping[tuple[int, str], Distribution],
    sample: int = SAMPLE,
) -> float:
    """Return phi: the probability that a condition holds for an event, by the distributions of other events.

    Attributes of other components are independent of one another.

    Source: DARLING, section 4.3. Differs: any condition, not only comparisons of normal attributes.
    """
    if isinstance(condition, AttributeComparison):
        return _compare(condition, component, event, distributions)
    if all(own != component for own, _ in condition.attributes):
        return 1.0
    order = np.random.default_rng(0)
    arrays = []
    for own, name in condition.attributes:
        if own == component:
            arrays.append(np.full(sample, float(event[name])))
        else:  # in an order of its own, so that two other attributes are independent
            arrays.append(order.permutation(distributions[own, name].spread(sample)))
    return float(np.mean(condition.holds(*arrays)))


def event_utility(
    conditions: Sequence[AttributeComparison | SampledCondition],
    component: int,
    event: Mapping[str, float],
    distributions: Mapping[tuple[int, str], Distribution],
    sample: int = SAMPLE,
) -> float:
    """Return U_T: the product of `pass_probability` over all conditions, from 0 to 1.

    Conditions count as independent.

    Source: DARLING, equation 11.
    """
    return prod(pass_probability(c, component, event, distributions, sample) for c in conditions)


def utility_slot(utility: float, n_slots: int) -> int:
    """Return the number of the utility array of an event, from 0 to ``n_slots``.

    There are ``n_slots`` + 1 arrays, because a utility of exactly 1 has its own.

    Source: DARLING, section 4.4.
    """
    return int(utility * n_slots)


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compare(
    condition: AttributeComparison, component: int, event: Mapping[str, float], distributions
) -> float:
    (one, one_name), (other, other_name) = condition.one, condition.other
    factor, offset, op = condition.factor, condition.offset, condition.op
    if one == other == component:
        return float(_HOLDS[op](event[one_name], factor * event[other_name] + offset))
    if one == component:
        limit, other_at = event[one_name], distributions[other, other_name]
        if factor == 0:
            return float(_HOLDS[op](limit, offset))
        # limit op factor * x + offset, so x (mirrored op) (limit - offset) / factor, or op if factor < 0
        return _share(_MIRRORED[op] if factor > 0 else op, (limit - offset) / factor, other_at)
    if other == component:
        return _share(op, factor * event[other_name] + offset, distributions[one, one_name])
    return 1.0


def _share(op: str, limit: float, of: Distribution) -> float:
    """Return the probability of ``x op limit``."""
    if limit != limit:
        return 0.0
    if abs(limit) == inf:
        return float((limit > 0) == (op in ("<", "<=")))
    below = of.share_below(limit) if op in ("<", ">=") else of.share_up_to(limit)
    return below if op in ("<", "<=") else 1 - below


_HOLDS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
