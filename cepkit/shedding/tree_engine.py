"""The engine ``tree``: all matches by left-deep evaluation trees, in the cheapest order of the components."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.ordered import OrderedEvents
from cepkit.engines.search import MOST_KNOWN, Found, FoundPart, SearchedMatches, gather_calls
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.sequence_set import FoundLater, KnownMatches, MatchBlock, SequenceSet, joined
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.kernels.wings import tree_layout as kernel
from cepkit.planning.evaluation_order import (
    Selectivity,
    cheapest_order,
    measure_statistics,
    partial_matches,
)
from cepkit.planning.planner import Engine, EngineValue
from cepkit.shedding.tree_machine import TreeMachine
from cepkit.shedding.tree_program import TreeProgram, tree_unsupported
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.plots.graphs import Graph


@dataclass(frozen=True, slots=True)
class TreeRun:
    """What the trees did, in ``matches.run``."""

    evaluated: int  # conditions that were evaluated
    created: int  # partial matches that were created, matches among them
    removed: int  # partial matches that left the window
    peak_alive: int  # the most partial matches at a time
    trees: tuple[tuple[str, ...], ...] = ()  # the variables of each tree in the order in which it joins them

    @property
    def order(self) -> tuple[str, ...]:
        """The variables of all trees, one tree after the other."""
        return tuple(name for tree in self.trees for name in tree)

    def graph(self) -> Graph:
        """Return the trees as a ``graphviz.Digraph``, which a notebook draws."""
        from cepkit.plots.graphs import tree_graph

        return tree_graph(self.trees)


class TreeSearch:
    """The search for the matches of all branches of a program, range by range."""

    tier = "tree"

    def __init__(self, program: TreeProgram, events: Events):
        self.program, self.events = program, events
        self.places = Places(program.program, events)
        self.last_run: TreeRun | None = None

    def _parts(self, low: int, high: int) -> Iterator[tuple[FoundPart, bool]]:
        """Yield the matches that end from ``low`` to ``high``, in the order in which the trees find them."""
        n = self.events.n_events
        begin, stop = 0, n
        if low < high and self.events.n_partitions < 2:
            begin = int(self.places.window_start[min(low, n - 1)])
        waits = bool(self.program.code.trees[:, kernel.WAITS].any())
        stop = n if waits else high
        machine = TreeMachine(self.program, self.events)
        evaluated = created = removed = 0
        for counts, matches in machine.run(begin, stop):
            created += int(counts[:, kernel.CREATED].sum())
            removed += int(counts[:, kernel.REMOVED].sum())
            end = kernel.N_COUNTS + len(self.program.conditions)
            evaluated += int(counts[:, kernel.N_COUNTS : end].sum())
            yield self._part(_between(machine.block(matches), low, high)), False
        last = machine.finish() if waits else None
        self.last_run = TreeRun(evaluated, created, removed, machine.most_alive, _joined(self.program))
        block = _between(machine.block(last), low, high) if last else joined([])
        yield self._part(block), True

    def _part(self, block: MatchBlock) -> FoundPart:
        return FoundPart(len(block), lambda k: block.take(slice(0, k)), block.n_items)

    def matches(self, low: int, high: int, most: int | None = None, most_calls: int | None = None) -> Found:
        """Return matches that end from ``low`` to ``high``."""
        high = min(high, self.events.n_events)
        return gather_calls(self._parts(max(0, low), high), most, most_calls)

    def count_by_last(self) -> np.ndarray:
        """Return how many matches end at each position."""
        count = np.zeros(self.events.n_events, np.int64)
        for part, _ in self._parts(0, self.events.n_events):
            count += np.bincount(part.block(part.n).last, minlength=len(count))
        return count


def _between(block: MatchBlock, low: int, high: int) -> MatchBlock:
    if not len(block):
        return block
    last = block.last
    inside = (last >= low) & (last < high)
    return block if inside.all() else block.take(np.flatnonzero(inside))


def _joined(program: TreeProgram) -> tuple[tuple[str, ...], ...]:
    """Return the variables of each tree in the order in which it joins them."""
    trees = program.code.leaf_of_component
    return tuple(tuple(program.leaves[leaf].variable for leaf in sorted(leaves)) for leaves in trees)


def match_by_tree(
    program: SequenceProgram, events: Events, order: tuple[str, ...] | None = None
) -> SequenceSet:
    """Return all matches of a program; `tree_unsupported` must return None for it."""
    tree = TreeProgram.of(program, order=order)
    if isinstance(tree, str):
        raise TypeError(f"the tree cannot run this query: {tree}")
    return FoundLater(events, partial(_find, tree), is_final=not program.can_be_forbidden_later)


def _find(program: TreeProgram, events: Events, most_calls: int | None = None) -> SequenceSet:
    search = TreeSearch(program, events)
    part = search.matches(0, events.n_events, MOST_KNOWN, most_calls)
    if part.is_whole:
        return KnownMatches(events, part.block.sorted(), search.last_run)
    return SearchedMatches(events, [search], part.block, part.n)


def describe_tree(program: SequenceProgram) -> list[tuple[str, str]]:
    """Return the labels and texts of the engine for `explain`."""
    tree_program = TreeProgram.of(program)
    if isinstance(tree_program, str):
        return []
    lines = []
    for tree, names in enumerate(_joined(tree_program)):
        text = names[0]
        for name in names[1:]:
            text = f"({text}, {name})"
        absent = [leaf.variable for leaf in tree_program.leaves if leaf.tree == tree and leaf.is_absent]
        lines.append(("tree", text + (f", then no {', '.join(absent)}" if absent else "")))
    if len(lines) > 3:
        lines = [*lines[:3], ("tree", f"and {len(lines) - 3} more")]
    return lines


SUMMARY = "left-deep evaluation tree, event by event, as in ZStream and DARLING"
ENGINE = Engine(
    "tree", SUMMARY, tree_unsupported, match_by_tree, automatic=False, takes_order=True, details=describe_tree
)


# The cheapest order in which a tree joins the components of a pattern.

_MEASURED = 20_000  # first events whose rates and selectivities count


def order_of_least_cost(program: SequenceProgram, events: Events) -> tuple[str, ...]:
    """Return the variables of a query in the order in which its trees should join them."""
    # The first 20,000 events give the rates and selectivities. Alternatives share one order: that of the
    # longest comes first.
    # Source: ZStream (Mei and Madden, SIGMOD 2009) reorders a plan by its cost. The search is that of
    # Kolchinsky and Schuster, PVLDB 11(11), 2018. Differs: ZStream also builds bushy trees; here all trees
    # are left-deep.
    measured = OrderedEvents(program, events.between(0, min(events.n_events, _MEASURED)))
    names: dict[str, None] = {}
    for bound in sorted(program.branches, key=lambda bound: -len(bound.branch.components)):
        variables = [component.variable for component in bound.branch.components]
        if names.keys() >= set(variables):
            continue
        statistics = measure_statistics(measured, bound, not_worth=0.0)
        order = cheapest_order(statistics.n_events, statistics.in_window, statistics.selectivities, _work)
        names |= dict.fromkeys(variables[c] for c in order)
    return tuple(names | dict.fromkeys(program.query.variables))


def _work(
    order: Sequence[int], n_events: Sequence[float], in_window: Sequence[float], shares: Sequence[Selectivity]
) -> float:
    """Return the expected combinations that a tree tests, and half of the partial matches that it makes."""
    made = partial_matches(order, n_events, in_window, shares)
    tested = sum(made[k - 1] * in_window[order[k]] / k for k in range(1, len(order)))
    return tested + sum(made) / 2.0


# The engine ``tree`` as a value: it can choose the order in which its trees join the components.

PATTERN, COST = "pattern", "cost"
ORDERS = (PATTERN, COST)


@dataclass(frozen=True)
class Tree(EngineValue):
    """The engine ``"tree"`` with settings. All orders find the same matches."""

    # The order in which a tree joins the components. ``"pattern"``: that of the pattern, or the query's
    # ``evaluation_order``. ``"cost"``: the order that costs least by the rates and selectivities of the first
    # events, as ZStream orders its plans. ``matches.run.order`` has the chosen order.
    order: str = PATTERN

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise CepError(
                f"Tree: order={self.order!r}: expected {' or '.join(map(repr, ORDERS))}. For another order, "
                "give evaluation_order=[…]"
            )

    def planned(self, *, trace: bool) -> Engine:
        """Return the planner's engine that runs this value."""
        if trace:
            raise UnsupportedQueryError(f"trace=True: engine {self} writes no trace")
        run = match_by_tree if self.order == PATTERN else match_in_cheapest_order
        return Engine(
            str(self), SUMMARY, self._reason, run,
            automatic=False, takes_order=True, details=self._describe,
        )  # fmt: skip

    def _reason(self, program: BoundQuery) -> str | None:
        is_given = isinstance(program, SequenceProgram) and program.query.evaluation_order
        if self.order == COST and is_given:
            return "evaluation_order is given, and order='cost' chooses one. Leave one of the two out"
        return tree_unsupported(program)

    def _describe(self, program: SequenceProgram) -> list[tuple[str, str]]:
        if self.order == PATTERN:
            return describe_tree(program)
        return [("tree", "joins the components in the order of least cost, measured on the first events")]


def match_in_cheapest_order(program: SequenceProgram, events: Events) -> SequenceSet:
    """Return all matches of a program, by trees that join its components in the order of least cost."""
    return match_by_tree(program, events, order_of_least_cost(program, events))
