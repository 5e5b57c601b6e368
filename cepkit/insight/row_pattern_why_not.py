"""Why rows are not a match of MATCH_RECOGNIZE: where they stop, or which match has them instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.match_recognize.values import ColumnScope, column_of
from cepkit.engines.match_recognize.bound import RowPartition, SearchedRows, scope_of_result
from cepkit.engines.match_recognize.matching import RowMatch, next_start
from cepkit.engines.match_recognize.measuring import output_rows
from cepkit.events import Source
from cepkit.insight.row_pattern_reading import Advance, RowReader, Way, value_text
from cepkit.insight.why_not import RowsExplainer, RowsRead, WhyNot, named_positions
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.printing import print_sql, sql_variable
from cepkit.language.match_recognize.query import AFTER_MATCH, SelectedRows
from cepkit.values import dataclass


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
    keeps = scope.compiled(whole.where, "WHERE")
    dropped = []
    for i, (row, values) in enumerate(output):
        columns = {name: [items[i]] for name, items in copied.items()}
        result = _ResultRow(columns | {name: [value] for name, value in zip(names, values, strict=True)})
        if keeps.call(result, 0) is not True:
            failing = _failing(whole.where, scope, result) if len(dropped) < most else ()
            dropped.append(DroppedRow(row, tuple(failing)))
    return dropped, len(output)


def _plain(source: Source, name: str, rows: np.ndarray) -> list[Any]:
    """Return values of a column as expressions read them: times as ticks, NaN as null."""
    values = source.arrow(name, rows)
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    return [None if value != value else value for value in values.to_pylist()]


def _failing(where: ex.Expression, scope: ColumnScope, result: _ResultRow) -> list[str]:
    texts = []
    for condition in ex.conjuncts(where):
        if scope.compiled(condition, "WHERE").call(result, 0) is True:
            continue
        looks = dict.fromkeys(node for node in condition.walk() if isinstance(node, ex.Attribute))
        values = ", ".join(f"{print_sql(look)} = {_value(look, scope, result)}" for look in looks)
        texts.append(f"{print_sql(condition)}{f' ({values})' if values else ''}")
    return texts


def _value(look: ex.Attribute, scope: ColumnScope, result: _ResultRow) -> str:
    compiled = scope.compiled(look, "WHERE")
    value = compiled.call(result, 0)
    return "null" if value is None else value_text(value, compiled.type)


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
