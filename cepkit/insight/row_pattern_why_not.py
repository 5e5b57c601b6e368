"""Why rows are not a match of MATCH_RECOGNIZE: where they stop, or which match has them instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.registers import is_nearby
from cepkit.compile.match_recognize.values import column_of, compile_value
from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.compile.shared.row_automaton import build_row_automaton
from cepkit.engines.match_recognize.bound import (
    BoundRowQuery,
    RowPartition,
    SearchedRows,
    all_row_matches,
    scope_of_result,
)
from cepkit.engines.match_recognize.matching import (
    MatchHistory,
    RowMatch,
    Trial,
    find_row_matches,
    next_start,
)
from cepkit.engines.match_recognize.measuring import output_rows
from cepkit.errors import UnsupportedQueryError
from cepkit.events import DURATION, TIME, ColumnType, Source
from cepkit.insight.funnel import BranchFunnel, ConditionCount, beginnings, funnel_of_rows
from cepkit.insight.why_not import RowsExplainer, RowsRead, WhyNot, cell, named_positions
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import format_duration
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.printing import print_row_pattern, print_sql, sql_variable
from cepkit.language.match_recognize.query import AFTER_MATCH, SelectedRows
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
        """Set the row, its variable and the rows before it that conditions see next."""
        trial = self._trial
        trial.state, trial.row, trial.variable = history, row, variable

    def _holds(self, variable: str) -> bool:
        """Return whether the condition of a variable holds at the row that was set."""
        condition = self.program.conditions.get(variable)
        return condition is None or condition.call(self._trial, -1) is True

    def _is_in_time(self, row: int) -> bool:
        """Return whether a row is within the time of the match."""
        if self.program.within is None:
            return True
        name, ticks = self.program.within
        clock = self.part.columns[name]
        return clock[row] - clock[self.start] < ticks

    def _failing(self, variable: str) -> list[str]:
        """Return the conditions of a variable that the current row fails, with their values."""
        tree = dict(self.bound.query.define).get(variable)
        return [] if tree is None else _failing(tree, partial(_compiled, self.bound), self._trial, -1)


@lru_cache(maxsize=512)
def _compiled(bound: BoundRowQuery, tree: ex.Expression):
    return compile_value(tree, bound.schema, dict(bound.query.params))


def _failing(
    tree: ex.Expression, compiled: Callable[[ex.Expression], Compiled], place: Any, row: int
) -> list[str]:
    """Return the conditions that are not true at a row of a place, with the values that they read."""
    texts = []
    for condition in ex.conjuncts(tree):
        if compiled(condition).call(place, row) is not True:
            looks = ((look, compiled(look)) for look in _looks(condition))
            values = ", ".join(f"{print_sql(look)} = {_value(read, place, row)}" for look, read in looks)
            texts.append(f"{print_sql(condition)}{f' ({values})' if values else ''}")
    return texts


def _value(read: Compiled, place: Any, row: int) -> str:
    value = read.call(place, row)
    return "null" if value is None else value_text(value, read.type)


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
        searched.bound.program, automaton=build_row_automaton(pattern), after_match="to_next_row",
        after_match_variable=None,
    )  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A row of the result that WHERE drops."""

    row: int  # the row of its partition; the first one of the match for one row per match
    conditions: tuple[str, ...]  # the conditions that are not true, with the values that they read


@dataclass(frozen=True)
class _ResultRow:
    columns: Mapping[str, Sequence[Any]]


def dropped_rows(
    searched: SearchedRows, source: Source, part: RowPartition, match: RowMatch, most: int
) -> tuple[list[DroppedRow], int]:
    """Return the rows of a match that WHERE drops, ``most`` with conditions, and the number before WHERE."""
    bound = searched.bound
    query, whole = bound.query, bound.query.whole
    clause = query.rows
    shown = "all" if clause.rows_per_match == "all_with_unmatched" else clause.rows_per_match
    output = list(output_rows(bound.program, bound.measures, shown, part.columns, part.n_rows, [match]))
    if not isinstance(whole, SelectedRows) or whole.where is None:
        return [], len(output)
    schema = bound.result_schema()
    scope = scope_of_result(whole, schema, dict(query.params), list(bound.schema))
    names = [name for name, _ in clause.measures]
    read = {column_of(node.name, schema) for node in whole.where.walk() if isinstance(node, ex.Attribute)}
    rows = searched.events.rows(part.positions[[row for row, _ in output]])
    copied = {name: _plain(source, name, rows) for name in read - set(names)}
    compiled = partial(scope.compiled, role="WHERE")
    keeps = compiled(whole.where)
    dropped = []
    for i, (row, values) in enumerate(output):
        columns = {name: [items[i]] for name, items in copied.items()}
        result = _ResultRow(columns | {name: [value] for name, value in zip(names, values, strict=True)})
        if keeps.call(result, 0) is not True:
            failing = _failing(whole.where, compiled, result, 0) if len(dropped) < most else ()
            dropped.append(DroppedRow(row, tuple(failing)))
    return dropped, len(output)


def _plain(source: Source, name: str, rows: np.ndarray) -> list[Any]:
    """Return values of a column as expressions read them: times as ticks, NaN as null."""
    values = source.arrow(name, rows)
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    return [None if value != value else value for value in values.to_pylist()]


# The kinds of reasons. ``skipped``: a row between the others is not named. ``missing``: the pattern is not
# complete. ``preference``: the pattern prefers another match from the first row, or other variables.
# ``after_match``: the first row is inside an earlier match. ``where``: the WHERE of the SELECT drops the row.
KINDS = (
    "partition", "skipped", "condition", "window", "variable", "complete", "anchor", "missing", "preference",
    "after_match", "where",
)  # fmt: skip
MOST_NAMED = 8  # rows with variables that a line names


def explain_row_match(searched: SearchedRows, source: Source, rows: Any) -> WhyNot:
    """Return why the rows are not a match; ``rows`` and errors are as for `named_positions`."""
    # The rows are read in every way at once, with the functions that the search uses.
    names = list(searched.bound.members)
    if isinstance(rows, Mapping):  # SQL reads names without quotes in upper case
        rows = {name if name in names else str(name).upper(): labels for name, labels in rows.items()}
    named = named_positions(source, searched.events, rows, names)
    return RowExplainer(searched, source, named).explain()


class RowExplainer(RowsExplainer):
    """Explains some rows as a match of MATCH_RECOGNIZE."""

    def __init__(self, searched: SearchedRows, source: Source, named: Mapping[int, str | None]):
        super().__init__(source, searched.events, searched.bound.query.partition_by, named)
        self.searched, self.bound = searched, searched.bound

    def again(self, named: Mapping[int, str | None]) -> RowExplainer:
        return RowExplainer(self.searched, self.source, named)

    def enter(self, partition: int) -> np.ndarray:
        self.part = self.searched.partition(partition)
        return self.part.positions

    def answer(self, read: RowsRead) -> WhyNot:
        """Return why some rows are no match, or which match they are."""
        self.found = self.searched.matches(self.part.code)
        n_before = sum(match.start < read.low for match in self.found)
        self.reader = RowReader(self.bound, self.part, read.low, n_before + 1, every_way=True)
        way = self._read(read)
        return self.stopped(read, self._around(read)) if way is None else self._compared(read, way)

    # --- words

    def told(self, low: int, variables: Sequence[str]) -> str:
        """Return the rows of each variable in words: ``A = 3, B = 4, 5``."""
        shown = [
            f"{sql_variable(name)} = {self.row(low + i).removeprefix('row ')}"
            for i, name in enumerate(variables[:MOST_NAMED])
        ]
        return ", ".join([*shown, *(["…"] if len(variables) > MOST_NAMED else [])])

    def _variables(self, match: RowMatch) -> list[str]:
        return [self.bound.program.automaton.variable_of_state[state] for state in match.states]

    def _match_text(self, match: RowMatch) -> str:
        """Return how a match is called in the answer."""
        if not match.states:
            return f"match {match.number:,} by MATCH_NUMBER(), which has no row,"
        rows = match.rows()
        return (
            f"match {match.number:,} by MATCH_NUMBER() ({self.told(match.start, self._variables(match))}: "
            + (f"{self.rows(rows.start, rows.stop - 1)})")
        )

    def table(self, variables: Sequence[str], reached: int, reasons: Iterable[str]) -> pd.DataFrame:
        """Return the table of the explanation, with the variables that each row alone could be."""
        table = super().table(variables, reached, reasons)
        if len(set(self.events.partition_of_event[self.positions].tolist())) > 1:
            return table
        places = np.searchsorted(self.part.positions, self.positions).tolist()
        reader = RowReader(self.bound, self.part, places[0])
        fitting = [", ".join(reader.could_be(k)) for k in places]
        return table.assign(could_be=pd.array(fitting, dtype="string"))

    # --- reading the rows

    def _read(self, read: RowsRead) -> Way | None:
        """Read the rows as a match; return the preferred way, or None with reasons."""
        reader, ways = self.reader, self.reader.beginning()
        for k in range(read.low, read.high + 1):
            name = self.named[int(self.part.positions[k])]
            allowed = None if name is None else self.bound.members[name]
            advance = reader.advance(ways, k, allowed)
            if not advance.ways:
                self._name_rows(read, ways[0])
                self._stop_at(read, k, ways, advance, name)
                return None
            ways = advance.ways
        way = reader.ending(ways, read.high + 1)
        if way is None:
            self._name_rows(read, ways[0])
            self._stop_after(read, ways)
            return None
        self._name_rows(read, way)
        return way

    def _name_rows(self, read: RowsRead, way: Way) -> None:
        read.taken = [self.bound.program.automaton.variable_of_state[state] for state in way.states]

    def _stop_at(self, read: RowsRead, k: int, ways: list[Way], made: Advance, name: str | None) -> None:
        """Add the reasons why row ``k`` continues no way."""
        row, needed = self.row(k), _either(made.wanted)
        if not made.wanted:
            if made.is_complete and k > read.low:
                done = self.rows(read.low, k - 1)
                is_one = k - 1 == read.low
                text = f"{done} {'is' if is_one else 'are'} a match already, and the pattern prefers it"
                read.stop("complete", f"{text} to a longer one")
            elif made.is_complete:
                read.stop("complete", f"at {row} the pattern prefers the empty match")
            else:
                read.stop("anchor", f"at {row} the pattern cannot continue: its anchor ^ or $ does not hold")
            return
        allowed = None if name is None else self.bound.members[name]
        if allowed is not None and not allowed & set(made.wanted):
            where = "the first row" if k == read.low else f"after {self.row(k - 1)} the next row"
            read.stop(
                "variable", f"{row} is given as {sql_variable(str(name))}, and {where} must be {needed}"
            )
            return
        for refusal in self.reader.refusals(ways, k, allowed):
            variable = sql_variable(refusal.variable)
            if refusal.is_late:
                window = self.bound.query.within
                text = f"{row} is not within {window} of {self.row(read.low)}"
                if text not in read.reasons:
                    read.stop("window", text)
                continue
            for condition in refusal.conditions:
                read.stop("condition", f"{row}: {variable} fails: {condition}")

    def _stop_after(self, read: RowsRead, ways: list[Way]) -> None:
        """Add the reason why the pattern is not complete after the last row."""
        after = self.row(read.high)
        follow, side = self.bound.program.automaton.follow, self.reader.side(read.high + 1)
        wanted = dict.fromkeys(
            self.bound.program.automaton.variable_of_state[state]
            for way in ways
            for state in follow[way.state][side]
        )
        if wanted:
            read.stop("missing", f"after {after} the pattern still needs {_either(tuple(wanted))}")
        elif read.high + 1 == self.part.n_rows:
            read.stop("missing", f"after {after} the pattern needs more rows, and the partition ends there")
        else:
            read.stop("anchor", f"after {after} the pattern needs the end of the partition, $")

    # --- rows that are a match of the pattern

    def _compared(self, read: RowsRead, way: Way) -> WhyNot:
        """Return the explanation for rows that match: their match, or the one that is preferred."""
        span = self.rows(read.low, read.high)
        verb = "matches" if read.low == read.high else "match"
        starting_match = next((match for match in self.found if match.start == read.low), None)
        if starting_match is not None and starting_match.rows() == range(read.low, read.high + 1):
            variables = self._variables(starting_match)
            wrong = [
                f"{self.row(read.low + i)} is {sql_variable(variables[i])}, not {sql_variable(name)}"
                for i, name in enumerate(self.named[position] for position in self.positions)
                if name is not None and variables[i] not in self.bound.members[name]
            ]
            if not wrong:
                return self._after_where(read, starting_match)
            for text in wrong:
                read.stop("preference", f"{text}: the pattern prefers these variables")
            return self.refusal(f"no match: {span} {verb}, but with other variables", read)
        if starting_match is not None:
            read.stop(
                "preference", f"{self._match_text(starting_match)} begins with the same row, and is preferred"
            )
            return self.refusal(f"no match: {span} {verb}, but another match is preferred", read)
        before = next((match for match in self.found if match.start < read.low < self._next(match)), None)
        if before is None:
            read.stop("condition", "a condition depends on the number of the match")
            return self.refusal(f"no match: {span}", read)
        query = self.bound.query.rows
        policy = " ".join(filter(None, [AFTER_MATCH[query.after_match], query.after_match_variable]))
        resumes = self._next(before)
        there = self.row(resumes) if resumes < self.part.n_rows else "the end of the partition"
        text = f"{self.row(read.low)} is inside {self._match_text(before)}"
        if not before.rows().start <= read.low < before.rows().stop:
            text = f"{self.row(read.low)} comes after {self._match_text(before)}"
        read.stop("after_match", f"{text}, and {policy} continues at {there}")
        head = f"no match: {span} {verb}, but the search does not begin there"
        return self.refusal(head, read)

    def _after_where(self, read: RowsRead, own: RowMatch) -> WhyNot:
        """Return the explanation for rows that are a match, whose rows of the result WHERE may drop."""
        span, variables = self.rows(read.low, read.high), self._variables(own)
        head = f"{span} {'is' if read.low == read.high else 'are'} match {own.number:,} by MATCH_NUMBER() "
        head += f"({self.told(read.low, variables)})"
        dropped, n_rows = dropped_rows(self.searched, self.source, self.part, own, MOST_NAMED)
        is_one_row = self.bound.query.rows.rows_per_match == "one"
        lines = [
            f"{'' if is_one_row else self.row(lost.row) + ': '}WHERE fails: {condition}"
            for lost in dropped[:MOST_NAMED]
            for condition in lost.conditions
        ]
        if len(dropped) > MOST_NAMED:
            lines.append(f"… and WHERE drops {len(dropped) - MOST_NAMED:,} more rows")
        if n_rows and len(dropped) == n_rows:
            for line in lines:
                read.stop("where", line)
            lost = "its row" if n_rows == 1 else f"all of its {n_rows:,} rows"
            table = self.table(variables, len(variables), lines)
            kinds = tuple(read.kinds)
            return WhyNot(
                f"no row in the result: {head}, but WHERE drops {lost}", tuple(lines), kinds, (), False,
                own.number, table,
            )  # fmt: skip
        if dropped:
            lines.insert(0, f"WHERE drops {len(dropped):,} of the {n_rows:,} rows of the match")
        whole = self.bound.query.whole
        if isinstance(whole, SelectedRows) and (whole.limit is not None or whole.offset):
            clause = " and ".join(["OFFSET"] * bool(whole.offset) + ["LIMIT"] * (whole.limit is not None))
            lines.append(f"{clause} may drop rows of the match; this answer does not look at them")
        table = self.table(variables, len(variables), ())
        return WhyNot(f"they match: {head}", more=tuple(lines), matches=True, number=own.number, table=table)

    def _next(self, match: RowMatch) -> int:
        return next_start(self.bound.program, match)

    def _around(self, read: RowsRead) -> list[str]:
        """Return the variables that a single row could be, and the match that has it."""
        if read.low != read.high:
            return []
        fitting = self.reader.could_be(read.low)
        lines = [f"{self.row(read.low)} alone could be {' or '.join(fitting)}" if fitting else ""]
        inside = next((match for match in self.found if read.low in match.rows()), None)
        if inside is not None:
            variable = self._variables(inside)[read.low - inside.start]
            lines.append(
                f"{self.row(read.low)} is in {self._match_text(inside)}, as {sql_variable(variable)}"
            )
        return [line for line in lines if line]


def _either(names: Sequence[str]) -> str:
    return " or ".join(map(sql_variable, names))
