"""Read rows as a match of a row pattern: every way at once; and count the rows that reach each beginning."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

import numpy as np

from cepkit.compile.match_recognize.registers import is_nearby
from cepkit.compile.match_recognize.values import compile_value
from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.compile.shared.row_automaton import build_row_automaton
from cepkit.engines.match_recognize.bound import BoundRowQuery, RowPartition, SearchedRows, all_row_matches
from cepkit.engines.match_recognize.matching import (
    MatchHistory,
    Trial,
    find_row_matches,
)
from cepkit.errors import UnsupportedQueryError
from cepkit.events import DURATION, TIME, ColumnType
from cepkit.insight.funnel import BranchFunnel, ConditionCount, beginnings, funnel_of_rows
from cepkit.insight.why_not import cell
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import format_duration
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.printing import print_row_pattern, print_sql, sql_variable
from cepkit.progress import checkpoint
from cepkit.values import dataclass, field, replace

MOST_WAYS = 20_000  # partial matches with different histories at a row
_LOOKS = (rp.Navigation, rp.RowAggregate, rp.Classifier, rp.MatchNumber, ex.Attribute, ex.Reference)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to map rows to states."""

    state: int  # the state after the newest row; the start of the automaton before the first row
    history: tuple  # what later conditions need to know of the rows
    states: tuple[int, ...] = ()  # the state that took each row


@dataclass(frozen=True)
class RefusedRow:
    """A variable that cannot take a row."""

    variable: str  # the variable that comes next in the pattern
    is_late: bool  # whether the row is outside the window
    conditions: tuple[str, ...]  # the conditions that are not true, with the values that they read


@dataclass
class Advance:
    """What happens to some ways at a row."""

    ways: list[Way] = field(default_factory=list)  # the ways that take the row, the preferred ones first
    wanted: tuple[str, ...] = ()  # the variables that the pattern allows there, in the order of preference
    is_complete: bool = False  # whether the rows before are a whole match for some way


class RowReader:
    """Reads partial matches of one partition."""

    def __init__(
        self, bound: BoundRowQuery, part: RowPartition, start: int, number: int = 1, *,
        every_way: bool = False,
    ):  # fmt: skip
        self.bound, self.part, self.start = bound, part, start
        program = bound.program
        if every_way:
            program = replace(program, automaton=build_row_automaton(bound.query.pattern, every_way=True))
        self.program = program
        self._history = MatchHistory(program.needs, program.members)
        self._trial = Trial(self._history, part.columns, part.n_rows)
        self._trial.start, self._trial.number = start, number

    def beginning(self) -> list[Way]:
        return [Way(self.program.automaton.start, self._history.start)]

    def advance(self, ways: list[Way], row: int, allowed: Collection[str] | None = None) -> Advance:
        """Return the ways after a row; ``allowed`` are the variables that it may have, None for all."""
        next_ways: dict[tuple, Way] = {}
        wanted: dict[str, None] = {}
        is_complete = False
        automaton = self.program.automaton
        for way in ways:
            for state in automaton.follow[way.state][self.side(row)]:
                if state == MATCH:
                    is_complete = True
                    continue
                variable = automaton.variable_of_state[state]
                wanted[variable] = None
                if allowed is not None and variable not in allowed:
                    continue
                self._look_at(way.history, variable, row)
                if not self._is_in_time(row) or not self._holds(variable):
                    continue
                history = self._history.step(way.history, self._trial) if way.history else way.history
                next_ways.setdefault((state, history), Way(state, history, (*way.states, state)))
        if len(next_ways) > MOST_WAYS:
            raise UnsupportedQueryError(
                f"more than {MOST_WAYS:,} partial matches begin at the same row. "
                "Name fewer rows, or compare with the row before, by PREV"
            )
        return Advance(list(next_ways.values()), tuple(wanted), is_complete)

    def ending(self, ways: list[Way], row: int) -> Way | None:
        """Return the preferred way that is a whole match before ``row``, or None."""
        follow, side = self.program.automaton.follow, self.side(row)
        return next((way for way in ways if MATCH in follow[way.state][side]), None)

    def side(self, row: int) -> int:
        """Return which anchors hold before a row, as in `RowAutomaton`."""
        return (row == 0) + 2 * (row == self.part.n_rows)

    def refusals(self, ways: list[Way], row: int, allowed: Collection[str] | None = None) -> list[RefusedRow]:
        """Return why no way takes a row: one refusal for each variable that is allowed there."""
        refusal_of_name: dict[str, RefusedRow] = {}
        automaton = self.program.automaton
        for way in ways:
            for state in automaton.follow[way.state][self.side(row)]:
                name = "" if state == MATCH else automaton.variable_of_state[state]
                if not name or name in refusal_of_name or (allowed is not None and name not in allowed):
                    continue
                self._look_at(way.history, name, row)
                refusal_of_name[name] = RefusedRow(
                    name, not self._is_in_time(row), tuple(self._failing(name))
                )
        return list(refusal_of_name.values())

    def could_be(self, row: int) -> list[str]:
        """Return the variables whose conditions hold at a row, with ``?`` if they need the rows before."""
        names = []
        for name in dict.fromkeys(self.program.automaton.variable_of_state):
            if name in self.program.needs.variables:
                names.append(f"{name}?")
                continue
            self._look_at(self._history.start, name, row)
            if self._holds(name):
                names.append(name)
        return names

    # --- conditions

    def holds(self, condition: ex.Expression, row: int, variable: str) -> bool:
        """Return whether a condition of a variable that needs no rows before holds at a row."""
        self._look_at(self._history.start, variable, row)
        return _compiled(self.bound, condition).call(self._trial, -1) is True

    def _look_at(self, history: tuple, variable: str, row: int) -> None:
        trial = self._trial
        trial.state, trial.row, trial.variable = history, row, variable

    def _holds(self, variable: str) -> bool:
        condition = self.program.conditions.get(variable)
        return condition is None or condition.call(self._trial, -1) is True

    def _is_in_time(self, row: int) -> bool:
        if self.program.within is None:
            return True
        name, ticks = self.program.within
        clock = self.part.columns[name]
        return clock[row] - clock[self.start] < ticks

    def _failing(self, variable: str) -> Iterator[str]:
        tree = dict(self.bound.query.define).get(variable)
        for condition in () if tree is None else ex.conjuncts(tree):
            if _compiled(self.bound, condition).call(self._trial, -1) is not True:
                values = ", ".join(f"{print_sql(look)} = {self._value(look)}" for look in _looks(condition))
                yield f"{print_sql(condition)}{f' ({values})' if values else ''}"

    def _value(self, look: ex.Expression) -> str:
        compiled = _compiled(self.bound, look)
        value = compiled.call(self._trial, -1)
        return "null" if value is None else value_text(value, compiled.type)


@lru_cache(maxsize=512)
def _compiled(bound: BoundRowQuery, tree: ex.Expression):
    return compile_value(tree, bound.schema, dict(bound.query.params))


def _looks(tree: ex.Expression) -> list[ex.Expression]:
    """Return the parts of a condition that read rows, each once."""
    if isinstance(tree, _LOOKS):
        return [tree]
    return list(dict.fromkeys(look for part in tree.children() for look in _looks(part)))


def value_text(value: object, kind: ColumnType) -> str:
    """Return a value as readers know it; times and durations are ticks here."""
    if isinstance(value, int) and kind.unit is not None:
        if kind.kind == TIME:
            return str(np.array(value, f"datetime64[{kind.unit}]")).replace("T", " ")
        if kind.kind == DURATION:
            return format_duration(value, kind.unit)
    return repr(value) if isinstance(value, str) else cell(value)


# Count the rows from which each beginning of a row pattern matches.


def count_row_funnel(
    searched: SearchedRows, n_matches: int | None = None, most_steps: int | None = None, *,
    with_conditions: bool = True,
) -> tuple[BranchFunnel, ...]:  # fmt: skip
    """Count the rows from which each beginning of the pattern matches, at most ``most_steps`` beginnings."""
    steps = []
    for beginning, step in beginnings(searched.bound.query.pattern, most_steps):
        alone = _conditions(searched, step) if with_conditions else (None, ())
        steps.append((print_row_pattern(step), _count(searched, beginning), *alone))
    reported = all_row_matches(searched)[1] if n_matches is None else n_matches
    return funnel_of_rows(searched.events.n_events, steps, reported)


def _count(searched: SearchedRows, pattern: pt.Pattern) -> int:
    """Return the number of rows from which a pattern matches."""
    program = replace(
        searched.bound.program,
        automaton=build_row_automaton(pattern),
        after_match="to_next_row",
        after_match_variable=None,
    )
    matches = searched.search(program)
    if matches is not None:
        return matches.n_matches
    total = 0
    for part in searched.partitions():
        checkpoint()
        total += len(find_row_matches(program, part.columns, part.n_rows))
    return total


def _conditions(searched: SearchedRows, step: pt.Pattern) -> tuple[int | None, tuple[ConditionCount, ...]]:
    """Return how many rows satisfy the only variable of a step, and the counts of its conditions."""
    define = dict(searched.bound.query.define)
    names = list(dict.fromkeys(variable.name for variable in pt.variables(step)))
    counts: list[ConditionCount] = []
    n_alone: int | None = None
    for name in names:
        if name not in define:
            n_alone = searched.events.n_events
            continue
        n_alone = _rows_with(searched, name, define[name])
        for number, condition in enumerate(ex.conjuncts(define[name])):
            n = _rows_with(searched, name, condition)
            n_tried = None if n is None else searched.events.n_events
            text = f"{sql_variable(name)}: {print_sql(condition)}"
            counts.append(ConditionCount(number, text, n is not None, n_tried, n))
    return (n_alone if len(names) == 1 else None), tuple(counts)


def _rows_with(searched: SearchedRows, variable: str, condition: ex.Expression) -> int | None:
    """Return the number of rows that satisfy a condition of a variable; None if it needs rows before."""
    compiled = _compiled(searched.bound, condition)
    if not is_nearby(compiled, variable, searched.bound.members):
        return None
    counted = searched.count_rows(compiled)
    if counted is not None:
        return counted
    total = 0
    for part in searched.partitions():
        checkpoint()
        reader = RowReader(searched.bound, part, 0)
        total += sum(reader.holds(condition, row, variable) for row in range(part.n_rows))
    return total
