"""The joins of a program as data, for the kernels in `cepkit.kernels.agents.interpreted_joins`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cepkit.compile.interpreted.instructions import NotInterpretedError, reading_unsupported
from cepkit.compile.interpreted.walk import BranchWriter, ConditionCode
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.sequences.search_source import NO_LIMIT, test_of
from cepkit.parallel.compile.join_source import memo_partner
from cepkit.parallel.compile.joins import JoinPlan, LevelJoin

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
        """Return the code."""
        stages = []
        for plan in self.plans:
            self.bound, self.of, self.n = plan.bound, plan.bound.branch.components, len(plan.joins)
            stages += [self._stage(plan, join) for join in plan.joins]
        listed = [[number] for number in self.listed]
        tables = (
            stages, listed, self.conditions, self.loops, self.loads, self.groups, self.code, self.absences,
        )  # fmt: skip
        width = max(len(row) for table in tables for row in table)
        padded = np.zeros((len(tables), max(map(len, tables)), width), np.int64)
        for whole, table in zip(padded, tables, strict=True):
            for to, row in zip(whole, table, strict=False):
                to[: len(row)] = row
        return JoinCode(
            tuple(self.floats), tuple(self.integers), tuple(self.constants), max(1, self.n_registers),
            max(len(plan.joins) for plan in self.plans) + 1, padded, len(stages),
        )  # fmt: skip

    def _stage(self, plan: JoinPlan, join: LevelJoin) -> list[int]:
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
        condition, c = plan.bound.conditions[i], join.component
        at = condition.condition.decided_at
        if condition.condition.each and not is_taking and at != c and self.of[at].is_group:
            raise NotInterpretedError("decides a condition on a loop after the loop")
        self.condition(condition.term, condition.component_of_variable, -1, taking=c if is_taking else None)

    def _absence_of(self, plan: JoinPlan, a: int) -> None:
        conditions = [condition for condition in plan.bound.conditions if condition.condition.absence == a]
        row = test_of(self.program, plan.bound.absent_accepts[a])
        self.absences.append([*self._absence(a, conditions, -1), row])
