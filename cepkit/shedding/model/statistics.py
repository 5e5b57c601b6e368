"""What DARLING knows of a stream: samples of events by type, and the utilities that they give to events."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cepkit.compile.interpreted.columns import ColumnReader, constants_of
from cepkit.shedding.model.shares import (
    SAMPLE,
    Columns,
    Known,
    PassShare,
    condition_share,
    sampled_columns,
)
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree.program import TreeProgram


Samples = Mapping[int, Columns]  # events that were seen, by type


@dataclass(frozen=True, eq=False)
class StreamColumns:
    """The columns of a stream as the conditions of a program read them."""

    program: TreeProgram
    events: Events

    @cached_property
    def known(self) -> Known:
        """Constants and tables of the query."""
        return Known(*constants_of(self.program.program, self._inputs))

    @cached_property
    def _inputs(self):
        return self.program.program.inputs(self.events.columns)

    @property
    def columns(self) -> Columns:
        """All columns that conditions read."""
        return self._inputs.columns

    @cached_property
    def type_of_event(self) -> np.ndarray:
        """Number of the type of each event in ``program.types``, -1 for other types; int64, (n_events,)."""
        reader = ColumnReader(self.columns, self.known.constants, self.known.tables)
        kinds = np.full(self.events.n_events, -1, np.int64)
        code = self.program.code
        for number, test in reversed(list(enumerate(code.type_tests))):
            if test is not None:
                kinds[np.asarray(reader.true(code.tests[test]), np.bool_)] = number
        for number, test in enumerate(code.type_tests):
            if test is None:
                kinds[kinds < 0] = number
        return kinds

    @cached_property
    def clock(self) -> np.ndarray | None:
        """The times of the events by the clock of the window; None for a window that counts events."""
        bound = self.program.program
        if bound.clock not in self.events.columns or bound.window.within is None:
            return None
        return self.events.columns[bound.clock].values

    @cached_property
    def rows_of_type(self) -> tuple[np.ndarray, ...]:
        """The events of each type, int64."""
        return tuple(np.flatnonzero(self.type_of_event == i) for i in range(len(self.program.types)))

    @cached_property
    def read(self) -> frozenset[str]:
        """Names of the columns that conditions read, without that of the types."""
        parts = (part for test in self.program.conditions for part in test.bound.term.walk())
        return frozenset(part.data[-1] for part in parts if part.op == "element")

    def take(self, positions: np.ndarray | slice) -> dict[str, np.ndarray]:
        """Return the columns of some events that conditions read."""
        columns = self.columns
        return {name: columns[name][positions] for name in columns if name in self.read}


def samples_of_warm_up(stream: StreamColumns, n_events: int, size: int = SAMPLE, seed: int = 0) -> Samples:
    """Return a uniform sample of the first events of each type, without replacement, as a reservoir would."""
    kinds, draw = stream.type_of_event[:n_events], np.random.default_rng(seed)
    samples = {}
    for number in range(len(stream.program.types)):
        positions = np.flatnonzero(kinds == number)
        if len(positions) > size:
            positions = np.sort(draw.choice(positions, size, replace=False))
        samples[number] = stream.take(positions)
    return samples


# Utilities of events of a pattern: how likely they fulfil all conditions that read them.

AS_PRINTED, AS_KILLER = "printed", "kills"
NEGATIONS = (AS_PRINTED, AS_KILLER)


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
        seen: Samples,
        known: Known,
        *,
        negation: str = AS_PRINTED,
        size: int,
    ):
        samples = {
            at: sampled_columns(seen[leaf.type], size, seed=at) for at, leaf in enumerate(program.leaves)
        }
        self._of_type: dict[int, list[LeafUtility]] = {}
        self.unknown: tuple[str, ...] = tuple(
            test.text for test in program.conditions if test.bound.reason_unknown is not None
        )
        for at, leaf in enumerate(program.leaves):
            shares = [
                condition_share(test.bound, at, samples, known)
                for test in program.conditions
                if at in test.leaves
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
