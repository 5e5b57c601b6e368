"""The joins of an engine: what a match needs of its neighbours, and the joins without compiling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from cepkit.compile.instructions import NotInterpretedError, reading_unsupported
from cepkit.compile.interpreted_walk import BranchWriter, ConditionCode
from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.compile.sequence_source import NO_LIMIT, test_of
from cepkit.errors import CepError
from cepkit.language.sequences.branches import Absence
from cepkit.values import dataclass

# Plan a branch as a series of joins: the order that binds its components, and the tests of each join.
#
# The first join starts partial matches. Every other join adds the events of one component to partial matches.


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
    """Return the joins of a branch in an order of its components, by default from first to last."""
    n = len(bound.branch.components)
    order = tuple(range(n)) if order is None else tuple(order)
    if sorted(order) != list(range(n)):
        raise CepError(f"evaluation order {list(order)} does not name each of the {n} components once")
    joins = []
    for rank, c in enumerate(order):
        component = bound.branch.components[c]
        bound_before = order[:rank]
        conditions = [
            i
            for i, test in enumerate(bound.conditions)
            if test.condition.absence is None
            and max((order.index(o) for o in test.component_of_variable.values()), default=0) == rank
        ]
        decided = {i: bound.conditions[i].condition for i in conditions}
        taking = tuple(i for i, test in decided.items() if test.each and test.decided_at == c)
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


def _rank_of_absence(bound: BoundBranch, number: int, absence: Absence, order: tuple[int, ...]) -> int:
    """Return the number of the join after which an absence can be tested."""
    n = len(order)
    if absence.spanning or absence.after < 0 or absence.before >= n:
        return n - 1  # it depends on both ends of the match
    needed = {absence.after, absence.before}
    for condition in bound.conditions:
        if condition.condition.absence == number:
            needed |= set(condition.component_of_variable.values())
    return max(order.index(c) for c in needed)


def memo_partner(plan: JoinPlan, join: LevelJoin) -> int | None:
    """Return the only component that the conditions of a join compare with; None without a memo."""
    # Many partial matches share the event of this component. A memo pays if the conditions are costly.
    rank = plan.joins.index(join)
    if rank < 2 or any(level.is_loop for level in plan.joins):
        return None  # with one bound event, every pair occurs once
    tests = [plan.bound.conditions[i] for i in join.taking]
    partners = {c for test in tests for c in test.component_of_variable.values()} - {join.component}
    is_costly = any(part.op in ("call", "similarity") for test in tests for part in test.term.walk())
    return partners.pop() if is_costly and len(partners) == 1 else None


# The joins of a program as data, for the kernels in `cepkit.kernels.wings.agent_joins`.

ALWAYS, IN_LOOP = 1, 2  # when a gap ends before the event


@dataclass(frozen=True)
class JoinCode(ConditionCode):
    """Joins to interpret."""

    begin: int  # where the registers begin in the scratch array ``first`` of a thread
    # int64, (n_tables, n_rows, n_columns): the tables of the kernel, in their order, filled up with zeros
    tables: np.ndarray
    n_stages: int  # number of joins

    def numbers(self, registers: np.ndarray) -> np.ndarray:
        """Return the sizes before the registers of integers."""
        return np.concatenate([[self.n_stages, self.n_registers, self.begin], registers]).astype(np.int64)


def join_code_of(program: SequenceProgram, plans: Sequence[JoinPlan]) -> JoinCode | str:
    """Return the joins for interpretation, or why they cannot be interpreted, to complete "it …"."""
    orders = tuple(plan.order for plan in plans)
    return program.once(("joins", orders), partial(_join_code, program, plans))


def _join_code(program: SequenceProgram, plans: Sequence[JoinPlan]) -> JoinCode | str:
    """Return the joins as data for interpretation, or why they cannot be interpreted."""
    terms = [condition.term for plan in plans for condition in plan.bound.conditions]
    if reason := next(filter(None, map(reading_unsupported, terms)), None):
        return reason
    if any(memo_partner(plan, join) is not None for plan in plans for join in plan.joins):
        return "keeps results of costly conditions"
    try:
        return _JoinsWriter(program, plans).written()
    except NotInterpretedError as error:
        return str(error)


class _JoinsWriter(BranchWriter):
    """Writes the stages of all branches, and their conditions into common tables."""

    def __init__(self, program: SequenceProgram, plans: Sequence[JoinPlan]):
        super().__init__(program, plans[0].bound)
        self.plans = plans
        self.listed: list[int] = []
        self.absences: list[list[int]] = []

    def written(self) -> JoinCode:
        """Return the joins as data."""
        stages = []
        for plan in self.plans:
            self.bound, self.of, self.n = plan.bound, plan.bound.branch.components, len(plan.joins)
            stages += [self._stage(plan, join) for join in plan.joins]
        listed = [[number] for number in self.listed]
        tables = (
            stages, listed, self.conditions, self.loops, self.loads, self.groups, self.code, self.absences,
        )  # fmt: skip
        width = max(len(row) for table in tables for row in table)
        padded = np.zeros((len(tables), max(map(len, tables)), width), np.int64)  # one array with all tables
        for whole, table in zip(padded, tables, strict=True):
            for to, row in zip(whole, table, strict=False):
                to[: len(row)] = row
        return JoinCode(
            tuple(self.floats), tuple(self.integers), tuple(self.constants), max(1, self.n_registers),
            max(len(plan.joins) for plan in self.plans) + 1, padded, len(stages),
        )  # fmt: skip

    def _stage(self, plan: JoinPlan, join: LevelJoin) -> list[int]:
        """Write the conditions of a join, and return the row that describes the join."""
        c, is_follower = join.component, join.after is not None or join.is_loop
        gap = ALWAYS if join.after == join.component - 1 else IN_LOOP if join.is_loop else 0
        limits = [is_follower, gap, join.before is not None, join.before == c + 1 and not join.is_loop]
        spans = [len(self.listed)]
        for numbers, is_taking in ((join.taking, True), (join.completing, False)):
            for i in numbers:
                self._condition_of(plan, join, i, is_taking=is_taking)
                self.listed.append(len(self.conditions) - 1)
            spans.append(len(self.listed))
        for a in join.absences:
            self._absence_of(plan, a)
            self.listed.append(len(self.absences) - 1)
        spans.append(len(self.listed))
        is_first = join is plan.joins[0]
        row = [
            self.n, c, NO_LIMIT if join.high is None else join.high, plan.is_appending(join),
            any(level.is_loop for level in plan.joins), join is plan.joins[-1], join.low, *limits,
            join.is_in_front, *spans, is_first and bool(join.taking),
        ]  # fmt: skip
        return [int(value) for value in row]

    def _condition_of(self, plan: JoinPlan, join: LevelJoin, i: int, *, is_taking: bool) -> None:
        """Write a condition that a join tests for each event, or once its component is complete."""
        condition, c = plan.bound.conditions[i], join.component
        at = condition.condition.decided_at
        if condition.condition.each and not is_taking and at != c and self.of[at].is_group:
            raise NotInterpretedError("decides a condition on a loop after the loop")
        self.condition(condition.term, condition.component_of_variable, -1, taking=c if is_taking else None)

    def _absence_of(self, plan: JoinPlan, a: int) -> None:
        """Write an absence that a join tests."""
        conditions = [condition for condition in plan.bound.conditions if condition.condition.absence == a]
        row = test_of(self.program, plan.bound.absent_accepts[a])
        self.absences.append([*self._absence(a, conditions, -1), row])
