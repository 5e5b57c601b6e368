"""The engine ``tree`` as a value: it can choose the order in which its trees join the components."""

from __future__ import annotations

from dataclasses import dataclass

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.shared.sequence_set import SequenceSet
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.planning.planner import Engine, EngineValue
from cepkit.shedding.model.tree_order import order_of_least_cost
from cepkit.shedding.tree.engine import SUMMARY, describe_tree, match_by_tree
from cepkit.shedding.tree.program import tree_unsupported

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
