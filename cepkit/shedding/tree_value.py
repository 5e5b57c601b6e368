"""The engine ``tree`` as a value, and the cheapest order in which its trees join the components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.shared.sequence_set import SequenceSet
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.planning.evaluation_order import Selectivity, cheapest_order, partial_matches
from cepkit.planning.planner import Engine, EngineValue
from cepkit.shedding.model.shares import SAMPLE, condition_selectivity, sampled_columns
from cepkit.shedding.model.statistics import StreamColumns, samples_of_warm_up
from cepkit.shedding.tree.engine import SUMMARY, describe_tree, match_by_tree
from cepkit.shedding.tree.program import TreeProgram, tree_unsupported
from cepkit.values import dataclass

# The cheapest order in which a tree joins the components of a pattern.

_MEASURED = 20_000  # first events whose rates and selectivities count


def order_of_least_cost(program: SequenceProgram, events: Events) -> tuple[str, ...]:
    """Return the variables of a query in the order in which its trees should join them."""
    # The first 20,000 events give the rates, and samples of them the selectivities. Alternatives share one
    # order: that of the largest tree comes first.
    # Source: ZStream (Mei and Madden, SIGMOD 2009) reorders a plan by its cost. The search is that of
    # Kolchinsky and Schuster, PVLDB 11(11), 2018. Differs: ZStream also builds bushy trees; here all trees
    # are left-deep.
    tree = TreeProgram.of(program, order=program.query.variables)
    assert isinstance(tree, TreeProgram)
    stream = StreamColumns(tree, events.between(0, min(events.n_events, _MEASURED)))
    n_of_type = [len(rows) for rows in stream.rows_of_type]
    share = _events_in_window(stream) / max(1, stream.events.n_events)
    seen = samples_of_warm_up(stream, stream.events.n_events)
    samples = {at: sampled_columns(seen[leaf.type], SAMPLE, seed=at) for at, leaf in enumerate(tree.leaves)}
    shares = [condition_selectivity(test.bound, samples, stream.known) for test in tree.conditions]
    names: dict[str, None] = {}
    trees = [
        [i for i, leaf in enumerate(tree.leaves) if leaf.tree == number and not leaf.is_absent]
        for number in range(len(tree.code.branch_of_order))
    ]
    for leaves in sorted(trees, key=lambda leaves: -len(leaves)):
        if names.keys() >= {tree.leaves[leaf].variable for leaf in leaves}:
            continue
        place = {leaf: i for i, leaf in enumerate(leaves)}
        selectivities = [
            (frozenset(place[leaf] for leaf in test.leaves), held)
            for test, held in zip(tree.conditions, shares, strict=True)
            if held is not None and all(leaf in place for leaf in test.leaves)
        ]
        n_events = [n_of_type[tree.leaves[leaf].type] for leaf in leaves]
        order = cheapest_order(n_events, [n * share for n in n_events], selectivities, _work)
        names |= dict.fromkeys(tree.leaves[leaves[k]].variable for k in order)
    return tuple(names | dict.fromkeys(program.query.variables))


def _work(
    order: Sequence[int], n_events: Sequence[float], in_window: Sequence[float], shares: Sequence[Selectivity]
) -> float:
    """Return the expected combinations that a tree tests, and half of the partial matches that it makes."""
    made = partial_matches(order, n_events, in_window, shares)
    tested = sum(made[k - 1] * in_window[order[k]] / k for k in range(1, len(order)))
    return tested + sum(made) / 2.0


def _events_in_window(stream: StreamColumns) -> float:
    """Return the mean number of events in a window."""
    window, n = stream.program.program.window, stream.events.n_events
    size = float(n if window.within_events is None else min(n, window.within_events))
    if stream.clock is not None and n:
        last = np.searchsorted(stream.clock, stream.clock + window.within, side="right")
        size = min(size, float((last - np.arange(n)).mean()))
    return size


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
