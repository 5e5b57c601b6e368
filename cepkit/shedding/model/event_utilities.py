"""Utilities of events of a pattern: how likely they fulfil all conditions that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cepkit.shedding.model.shares import Columns, Known, PassShare, condition_share, sampled_columns
from cepkit.shedding.model.statistics import PatternStatistics, pattern_conditions

if TYPE_CHECKING:
    from cepkit.shedding.tree.program import TreeProgram

AS_PRINTED, AS_KILLER = "printed", "kills"
NEGATIONS = (AS_PRINTED, AS_KILLER)
LARGEST, MEAN = "max", "mean"
COMBINATIONS = (LARGEST, MEAN)


@dataclass(frozen=True, eq=False)
class LeafUtility:
    """The utility of an event as one component: the product of its shares, or 1 minus the product.

    A component without conditions makes every event a sure one.

    """

    shares: tuple[PassShare, ...]
    is_inverted: bool = False

    def of(self, columns: Columns, n: int) -> np.ndarray:
        """Return the utility of each event, float64, (n,)."""
        product = np.ones(n)
        for share in self.shares:
            product = product * share.of(columns)
        return 1.0 - product if self.is_inverted else product


class PatternUtilities:
    """The utility of events for one pattern.

    Source: DARLING, equation 11. The paper does not say what dropping a negated event does. It makes false
    matches, and with both meanings an event that kills for sure goes last in the reading ``"kills_if"``.
    An event that fits several components has the utility of the best one.
    """

    def __init__(
        self,
        program: TreeProgram,
        statistics: PatternStatistics,
        known: Known,
        kinds: Mapping[str, str],
        *,
        pdf: str,
        negation: str = AS_PRINTED,
        size: int,
    ):
        samples = {
            at: sampled_columns(statistics.samples[leaf.type], kinds, pdf, size, seed=at)
            for at, leaf in enumerate(program.leaves)
        }
        conditions = pattern_conditions(program)
        self._of_type: dict[int, list[LeafUtility]] = {}
        self.unknown: tuple[str, ...] = tuple(
            program.conditions[i].text
            for i, test in enumerate(conditions)
            if test.bound.reason_unknown is not None
        )
        for at, leaf in enumerate(program.leaves):
            shares = [
                condition_share(test.bound, at, samples, known) for test in conditions if at in test.leaves
            ]
            known_shares = tuple(share for share in shares if share is not None)
            is_allowed = leaf.is_absent and program.negation == "allowed_if"
            utility = LeafUtility(known_shares, is_allowed and negation == AS_KILLER and bool(known_shares))
            self._of_type.setdefault(leaf.type, []).append(utility)

    def n_conditions(self, event_type: int) -> int:
        """Return |C_type(T)|: how many conditions are evaluated for the utility of an event."""
        return sum(len(leaf.shares) for leaf in self._of_type.get(event_type, ()))

    def n_ranked(self) -> int:
        """Return how many pairs of a condition and a component have a sorted sample."""
        return sum(
            share.is_ranked and not share.is_own
            for leaves in self._of_type.values()
            for leaf in leaves
            for share in leaf.shares
        )

    def of(self, event_type: int, columns: Columns, n: int) -> np.ndarray:
        """Return the utilities of ``n`` events of a type from 0 to 1, float64, (n,)."""
        with np.errstate(all="ignore"):
            leaves = [leaf.of(columns, n) for leaf in self._of_type.get(event_type, ())]
        return np.clip(np.max(leaves, axis=0), 0.0, 1.0) if leaves else np.ones(n)


def combine_utilities(utilities: list[np.ndarray], weights: list[float], how: str = LARGEST) -> np.ndarray:
    """Return the utility of events for several patterns.

    Source: DARLING, section 4.5, which names both and leaves them open.
    """
    if len(utilities) == 1:
        return utilities[0]
    if how == LARGEST or not sum(weights):
        return np.max(utilities, axis=0)
    return np.average(utilities, axis=0, weights=weights)
