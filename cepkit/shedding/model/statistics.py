"""What DARLING knows of a stream: events per window, selectivities, and samples of events by type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cepkit.compile.interpreted.columns import ColumnReader, constants_of
from cepkit.shedding.model.shares import (
    EMPIRICAL,
    SAMPLE,
    Columns,
    Known,
    LeafCondition,
    condition_selectivity,
    sampled_columns,
)
from cepkit.shedding.model.tree_costs import CostedCondition, CostTree, Leaf

if TYPE_CHECKING:
    from cepkit.compile.sequences.program import BoundBranch
    from cepkit.events import Events
    from cepkit.shedding.tree.program import TreeProgram

_FEWEST = 20  # evaluations from which a measured selectivity is better than one of the samples
_MOST_PROBES = 2000  # events whose windows are counted


@dataclass(frozen=True)
class PatternCondition:
    """A condition of a tree and how it is bound."""

    bound: LeafCondition
    leaves: tuple[int, ...]  # numbers of the leaves that it reads
    node: int  # where the tree evaluates it
    is_between: bool  # whether it compares the events of one Kleene closure with one another
    is_closing: bool  # whether it is evaluated for complete sets of a Kleene closure


def pattern_conditions(program: TreeProgram) -> tuple[PatternCondition, ...]:
    """Return the conditions of a program with their terms, in the order of ``program.conditions``."""
    conditions = []
    for tree, bound in enumerate(_branches(program)):
        leaf_of = _leaves_of_parts(program, tree)
        for condition, term, of_variable in _terms(bound, leaf_of):
            at = program.conditions[len(conditions)]
            bound_condition = LeafCondition(term, of_variable)
            is_alone = len(at.leaves) == 1 and program.leaves[at.leaves[0]].is_group
            is_between = is_alone and any(is_previous for _, is_previous in bound_condition.roles)
            is_closing = is_alone and not condition.each
            conditions.append(PatternCondition(bound_condition, at.leaves, at.node, is_between, is_closing))
    return tuple(conditions)


def _branches(program: TreeProgram) -> Iterator[BoundBranch]:
    """Yield one branch of each tree; all branches of a tree have the same conditions."""
    for branch_of_order in program.code.branch_of_order:
        yield program.program.branches[next(iter(branch_of_order.values()))]


def _leaves_of_parts(program: TreeProgram, tree: int) -> list[int]:
    """Return the leaves of the components of a tree, then those of its absences."""
    absent = [i for i, leaf in enumerate(program.leaves) if leaf.tree == tree and leaf.is_absent]
    return [*program.code.leaf_of_component[tree], *absent]


def _terms(bound: BoundBranch, leaf_of: list[int]) -> Iterator[tuple]:
    """Yield each condition of a branch with its term and the leaf of each of its variables."""
    branch, n = bound.branch, len(bound.branch.components)
    alone = {}
    for first, every, parts in (
        (0, bound.accepts, branch.components),
        (n, bound.absent_accepts, branch.absences),
    ):
        for i, (terms, part) in enumerate(zip(every, parts, strict=True)):
            alone[first + i] = iter(terms[int(part.event_type is not None) :])
    joint = {id(bound_condition.condition): bound_condition for bound_condition in bound.conditions}
    for condition in branch.conditions:
        at = condition.decided_at if condition.absence is None else n + condition.absence
        part = branch.components[at] if at < n else branch.absences[at - n]
        bound_condition = joint.get(id(condition))
        if bound_condition is None:
            yield condition, next(alone[at]), {part.variable: leaf_of[at]}
        else:
            of_variable = {name: leaf_of[c] for name, c in bound_condition.component_of_variable.items()}
            if condition.absence is not None:
                of_variable[part.variable] = leaf_of[at]
            yield condition, bound_condition.term, of_variable


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

    @property
    def kinds(self) -> dict[str, str]:
        """Kind of each column. Columns that the query prepares have no kind of their own."""
        columns = self.events.columns
        return {name: columns[name].type.kind if name in columns else "other" for name in self.columns}

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
        parts = (part for test in pattern_conditions(self.program) for part in test.bound.term.walk())
        return frozenset(part.data[-1] for part in parts if part.op == "element")

    def take(self, positions: np.ndarray | slice) -> dict[str, np.ndarray]:
        """Return the columns of some events that conditions read."""
        columns = self.columns
        return {name: columns[name][positions] for name in columns if name in self.read}


@dataclass(frozen=True, eq=False)
class PatternStatistics:
    """What the cost model and the utilities need of a stream."""

    # float64, (n_types,): mean number of events of each type in the window before an event
    in_window: np.ndarray
    # SEL: for each condition of the program, the share of evaluations that hold.
    selectivity: tuple[float, ...]
    # For each condition, evaluations per event of its leaf, or per combination at its node. It is below 1
    # when a condition before it fails often.
    evaluations: tuple[float, ...]
    samples: Mapping[int, Columns]  # events that were seen, by type


def statistics_of_warm_up(
    stream: StreamColumns,
    n_events: int,
    evaluated: np.ndarray,
    passed: np.ndarray,
    *,
    size: int = SAMPLE,
    seed: int = 0,
) -> PatternStatistics:
    """Return the statistics of the first events of a stream.

    Each type keeps a uniform sample without replacement, as a reservoir would. A condition that was
    evaluated seldom has the selectivity of the samples.
    """
    program, kinds = stream.program, stream.type_of_event[:n_events]
    draw = np.random.default_rng(seed)
    samples = {}
    for number in range(len(program.types)):
        positions = np.flatnonzero(kinds == number)
        if len(positions) > size:
            positions = np.sort(draw.choice(positions, size, replace=False))
        samples[number] = stream.take(positions)
    conditions = pattern_conditions(program)
    estimated = _sampled_selectivities(program, conditions, samples, stream.known)
    selectivity = []
    for c, estimate in enumerate(estimated):
        n = int(evaluated[c])
        if n >= _FEWEST or (n and estimate is None):
            selectivity.append(float(passed[c]) / n)
        else:
            selectivity.append(1.0 if estimate is None else estimate)
    n_of_type = np.bincount(kinds[kinds >= 0], minlength=len(program.types))
    evaluations = _evaluations(program, conditions, np.asarray(evaluated), n_of_type)
    return PatternStatistics(events_in_window(stream, 0, n_events), tuple(selectivity), evaluations, samples)


def renew_statistics(
    stream: StreamColumns,
    samples: Mapping[int, Columns],
    positions: Sequence[np.ndarray],
    before: PatternStatistics,
) -> PatternStatistics:
    """Return the statistics of the newest events, after a drift.

    Selectivities come from the samples. The number of evaluations stays.
    """
    program, samples = stream.program, {**before.samples, **samples}
    estimated = _sampled_selectivities(program, pattern_conditions(program), samples, stream.known)
    selectivity = tuple(
        old if new is None else new for new, old in zip(estimated, before.selectivity, strict=True)
    )
    newest = [at for at in positions if len(at)]
    in_window = before.in_window
    if sum(map(len, newest)) >= SAMPLE:
        in_window = events_in_window(stream, min(at[0] for at in newest), 1 + max(at[-1] for at in newest))
    return PatternStatistics(in_window, selectivity, before.evaluations, samples)


def _sampled_selectivities(
    program: TreeProgram,
    conditions: tuple[PatternCondition, ...],
    samples: Mapping[int, Columns],
    known: Known,
) -> list[float | None]:
    of_leaf = {
        at: sampled_columns(samples[leaf.type], {}, EMPIRICAL, SAMPLE, seed=at)
        for at, leaf in enumerate(program.leaves)
    }
    return [condition_selectivity(condition.bound, of_leaf, known) for condition in conditions]


def _evaluations(
    program: TreeProgram,
    conditions: tuple[PatternCondition, ...],
    evaluated: np.ndarray,
    n_of_type: np.ndarray,
) -> tuple[float, ...]:
    """Return evaluations per event at leaves, and per combination at inner nodes."""
    most: dict[int, int] = {}
    for number, condition in enumerate(conditions):
        most[condition.node] = max(most.get(condition.node, 0), int(evaluated[number]))
    shares = []
    for number, condition in enumerate(conditions):
        first = program.leaves[condition.leaves[0]]
        base = int(n_of_type[first.type]) if len(condition.leaves) == 1 else most[condition.node]
        shares.append(float(evaluated[number]) / base if base and evaluated[number] else 1.0)
    return tuple(shares)


def events_in_window(stream: StreamColumns, start: int, stop: int) -> np.ndarray:
    """Return the mean number of events of each type in the window before an event, float64, (n_types,).

    The events of the second half are counted, whose windows are full, within their partitions.

    Source: DARLING, R(T) w. Differs: counted in the time of the events and by the clock of the window,
    because arrivals may be faster or slower. So bursts and partitions count as events meet them.
    """
    program, events = stream.program, stream.events
    kinds = stream.type_of_event[start:stop]
    n_types = len(program.types)
    used = np.flatnonzero(kinds >= 0)
    if not len(used):
        return np.zeros(n_types)
    probes = used[len(used) // 2 :]
    probes = probes[:: max(1, len(probes) // _MOST_PROBES)]
    rank_in, limits = _clocks(stream, start, stop)
    counts = np.full((len(rank_in), len(probes), n_types), np.inf)
    partition = events.partition_of_event[start:stop].astype(np.int64)
    for i, (place, within) in enumerate(zip(rank_in, limits, strict=True)):
        span = int(place.max() - place.min()) + within + 1
        key = partition * span + (place - place.min())
        lowest = np.maximum(key[probes] - within, partition[probes] * span)
        for number in range(n_types):
            keys = np.sort(key[kinds == number])
            counts[i, :, number] = np.searchsorted(keys, key[probes], side="left") - np.searchsorted(
                keys, lowest, side="left"
            )
    return counts.min(axis=0).mean(axis=0)


def _clocks(stream: StreamColumns, start: int, stop: int) -> tuple[list[np.ndarray], list[int]]:
    """Return the clocks of the window, int64 per event, and its length in each."""
    program, events = stream.program.program, stream.events
    window = program.window
    partition = events.partition_of_event[start:stop]
    order = np.argsort(partition, kind="stable")
    rank = np.empty(len(partition), np.int64)
    size = np.bincount(partition, minlength=1)
    rank[order] = np.arange(len(partition)) - np.repeat(np.cumsum(size) - size, size)
    clocks, limits = [], []
    within = window.within
    if within is None and window.gap_within is not None:
        longest = max(len(bound.branch.components) for bound in program.branches)
        within = window.gap_within * max(1, longest - 1)
    if within is not None:
        clocks.append(np.asarray(events.columns[program.clock].values[start:stop], np.int64))
        limits.append(max(0, int(within)))
    if window.within_events is not None or within is None:
        clocks.append(rank)
        limits.append(len(partition) if window.within_events is None else window.within_events - 1)
    return clocks, limits


def cost_trees(
    program: TreeProgram,
    statistics: PatternStatistics,
    prices: Mapping[str, float],
    *,
    order_aware: bool = True,
) -> tuple[tuple[CostTree, tuple[int, ...]], ...]:
    """Return the trees of a program with their costs, and the leaves of the program that each of them has.

    The window is 1, and rates count events per window. So rates need not be those of the arrivals.
    """
    conditions = pattern_conditions(program)
    trees = []
    for tree, branch_of_order in enumerate(program.code.branch_of_order):
        of_components = program.code.leaf_of_component[tree]
        own_leaves = sorted(i for i, leaf in enumerate(program.leaves) if leaf.tree == tree)
        local = {leaf: i for i, leaf in enumerate(own_leaves)}
        place = {leaf: c for c, leaf in enumerate(of_components)}
        costed, extending = [], dict.fromkeys(own_leaves, 1.0)
        for number, condition in enumerate(conditions):
            if condition.leaves[0] not in local:
                continue
            share = statistics.selectivity[number]
            if condition.is_between:
                extending[condition.leaves[0]] *= share
            if condition.is_between or condition.is_closing:
                share = 1.0
            costed.append(
                CostedCondition(
                    frozenset(local[leaf] for leaf in condition.leaves),
                    prices["condition"] * statistics.evaluations[number],
                    share,
                )
            )
        leaves = tuple(
            Leaf(
                program.types[program.leaves[leaf].type],
                float(statistics.in_window[program.leaves[leaf].type]),
                is_kleene=program.leaves[leaf].is_group,
                is_negated=program.leaves[leaf].is_absent,
                most=None if program.leaves[leaf].high < 0 else program.leaves[leaf].high,
                extending=extending[leaf],
            )
            for leaf in own_leaves
        )
        is_sequence = order_aware and len(branch_of_order) == 1
        places = tuple(place.get(leaf, len(own_leaves)) for leaf in own_leaves)
        cost_tree = CostTree(
            leaves, tuple(costed), 1.0, prices["create"], prices["remove"], is_sequence, places
        )
        trees.append((cost_tree, tuple(own_leaves)))
    return tuple(trees)
