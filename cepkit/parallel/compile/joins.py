"""Plan a branch as a series of joins: the order that binds its components, and the tests of each join.

The first join starts partial matches. Every other join adds the events of one component to partial matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cepkit.compile.sequences.program import BoundBranch, BoundCondition
from cepkit.errors import CepError
from cepkit.language.sequences.branches import Absence


@dataclass(frozen=True, slots=True)
class LevelJoin:
    """The join that adds the events of one component to partial matches."""

    component: int  # number of the component
    low: int  # least number of its events
    high: int | None  # greatest number of its events; None: no limit
    # after, before: nearest earlier and nearest later component that is bound already
    after: int | None
    before: int | None
    taking: tuple[int, ...]  # conditions of the branch that every new event is tested with
    completing: tuple[int, ...]  # conditions tested when the component is complete
    absences: tuple[int, ...]  # absences decided when the component is complete

    @property
    def is_loop(self) -> bool:
        """Whether the component may have several events."""
        return self.high != 1

    @property
    def is_in_front(self) -> bool:
        """Whether it is a loop and the next component is bound already."""
        return self.is_loop and self.before == self.component + 1


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """The joins of a branch in execution order."""

    bound: BoundBranch
    joins: tuple[LevelJoin, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """Components in binding order."""
        return tuple(join.component for join in self.joins)

    def is_appending(self, join: LevelJoin) -> bool:
        """Return whether a join adds events after all that are bound."""
        rank = self.joins.index(join)
        return self.order[: rank + 1] == tuple(range(rank + 1))


def joins_unsupported(bound: BoundBranch) -> str | None:
    """Return why a branch cannot be made of joins, to complete "it …"; None if it can."""
    for number, component in enumerate(bound.branch.components):
        name = component.variable
        if number and component.step != "any":
            return f"may not skip everything before {name!r} (strategy {component.step!r})"
        if component.high != 1 and component.inner != "any":
            return f"may not skip everything between two {name!r} (strategy {component.inner!r})"
        if component.preference != "all":
            return f"wants the {component.preference} choice of {name!r}, but joins find all choices"
        if component.until is not None:
            return f"ends the loop of {name!r} by 'until'"
    return None


def plan_joins(bound: BoundBranch, order: Sequence[int] | None = None) -> JoinPlan:
    """Return the joins of a branch."""
    n = len(bound.branch.components)
    order = tuple(range(n)) if order is None else tuple(order)
    if sorted(order) != list(range(n)):
        raise CepError(f"evaluation order {list(order)} does not name each of the {n} components once")
    joins = []
    for rank, c in enumerate(order):
        component = bound.branch.components[c]
        bound_before = order[:rank]
        numbers = [i for i, test in enumerate(bound.conditions) if _rank_of_condition(test, order) == rank]
        conditions = [i for i in numbers if bound.conditions[i].condition.absence is None]
        taking = tuple(i for i in conditions if _is_taking(bound.conditions[i], c))
        joins.append(
            LevelJoin(
                component=c,
                low=component.low,
                high=component.high,
                after=max((other for other in bound_before if other < c), default=None),
                before=min((other for other in bound_before if other > c), default=None),
                taking=taking,
                completing=tuple(i for i in conditions if i not in taking),
                absences=tuple(
                    a
                    for a, absence in enumerate(bound.branch.absences)
                    if _rank_of_absence(bound, a, absence, order) == rank
                ),
            )
        )
    return JoinPlan(bound, tuple(joins))


def _rank_of_condition(condition: BoundCondition, order: tuple[int, ...]) -> int:
    """Return the rank of the join that binds the last component of a condition."""
    return max((order.index(c) for c in condition.component_of_variable.values()), default=0)


def _is_taking(condition: BoundCondition, component: int) -> bool:
    """Return whether a condition can be tested with every new event of ``component``."""
    return condition.condition.each and condition.condition.decided_at == component


def _rank_of_absence(bound: BoundBranch, number: int, absence: Absence, order: tuple[int, ...]) -> int:
    """Return the rank of the join that decides an absence."""
    n = len(order)
    if absence.spanning or absence.after < 0 or absence.before >= n:
        return n - 1  # it depends on both ends of the match
    needed = {absence.after, absence.before}
    for condition in bound.conditions:
        if condition.condition.absence == number:
            needed |= set(condition.component_of_variable.values())
    return max(order.index(c) for c in needed)
