"""The lines of ``explain`` for MATCH_RECOGNIZE: its clauses, its automaton and its costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.engines.match_recognize.bound import BoundRowQuery, SearchedRows
from cepkit.engines.match_recognize.finding import MOST_WORK, reason_for_python
from cepkit.engines.match_recognize.matching import BUDGET, BUDGET_WITH_LABELS, LABELS, find_row_matches
from cepkit.errors import CepError
from cepkit.language.cheat_sheet import say_query
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.printing import print_sql, sql_column, sql_key, sql_variable
from cepkit.language.match_recognize.query import AFTER_MATCH, ROWS_PER_MATCH, SelectedRows, SortKey
from cepkit.results.explained_queries import say_threads

MEASURED = 2_000  # rows of the sample, about
MOST_STATES = 24  # whose choices are listed


@dataclass(frozen=True)
class MeasuredRows:
    """What the search did on some partitions."""

    # n_rows, n_partitions: the rows and the partitions of the sample
    n_rows: int
    n_partitions: int
    n_tests: int  # how often the search tested whether a variable can take a row
    n_matches: int  # the number of matches
    n_all: int  # the number of rows of the frame
    problem: str = ""  # why the search stopped; empty if it did not


def measure_rows(searched: SearchedRows, most: int = MEASURED) -> MeasuredRows:
    """Search the first partitions, about ``most`` rows, and count the tests."""
    n_tests = 0

    def counting(condition: Callable[[Any, int], Any] | None) -> Callable[[Any, int], Any]:
        def call(place: Any, row: int) -> Any:
            nonlocal n_tests
            n_tests += 1
            return True if condition is None else condition(place, row)

        return call

    program = searched.bound.program
    names = program.automaton.variable_of_state
    conditions = {name: counting(program.conditions.get(name)) for name in names}
    counted = replace(program, conditions=conditions)
    n_rows = n_partitions = n_matches = 0
    for part in searched.partitions():
        if n_rows >= most:
            break
        n = min(part.n_rows, most - n_rows)
        columns = {name: values[:n] for name, values in part.columns.items()}
        n_rows, n_partitions = n_rows + n, n_partitions + 1
        try:
            n_matches += len(find_row_matches(counted, columns, n))
        except CepError as error:
            problem = str(error)
            return MeasuredRows(n_rows, n_partitions, n_tests, n_matches, searched.events.n_events, problem)
    return MeasuredRows(n_rows, n_partitions, n_tests, n_matches, searched.events.n_events)


def row_pattern_lines(bound: BoundRowQuery, measured: MeasuredRows | None) -> list[str]:
    query, rows = bound.query, bound.query.rows
    keys = ", ".join(map(_key_text, query.keys))
    skip = " ".join(filter(None, [AFTER_MATCH[rows.after_match], _name(rows.after_match_variable)]))
    lines = [
        f"pattern      {rows.pattern}",
        f"in words     {say_query(rows)}",
        f"partitions   {'by ' + ', '.join(query.partition_by) if query.partition_by else 'none: one stream'}",
        f"order        {'by ' + keys if keys else 'of the rows'}",
        f"rows         {ROWS_PER_MATCH[rows.rows_per_match]}",
        f"after match  {skip.removeprefix('AFTER MATCH ')}",
    ]
    if rows.within is not None:
        lines.append(f"window       the last row is less than {rows.within} after the first")
    lines += [
        f"subset       {_name(name)} = {', '.join(map(sql_variable, members))}"
        for name, members in rows.subset
    ]
    lines += list(_variable_lines(bound))
    lines += [f"measure      {sql_column(name)}: {print_sql(tree)}" for name, tree in rows.measures]
    if isinstance(query.whole, SelectedRows):
        lines += list(_select_lines(query.whole))
    lines += list(_automaton_lines(bound))
    lines += list(_cost_lines(bound, measured))
    if measured is not None:  # otherwise tasks of Spark search partitions side by side
        lines.append(f"threads      {say_threads('rows', is_one_stream=not query.partition_by)}")
    return lines


def _name(name: str | None) -> str:
    return "" if name is None else sql_variable(name)


def _key_text(key: SortKey) -> str:
    descending = " descending" if key.descending else ""
    return f"{sql_key(key)}{descending}{', nulls first' if key.nulls_first else ''}"


def _variable_lines(bound: BoundRowQuery) -> Iterator[str]:
    defined, needs = dict(bound.query.define), bound.program.needs
    for name in dict.fromkeys(bound.program.automaton.variable_of_state):
        if name not in defined:
            yield f"variable     {sql_variable(name)}: any row"
            continue
        looks = "the match so far" if name in needs.variables else "the row and rows a fixed distance away"
        yield f"variable     {sql_variable(name)}: {print_sql(defined[name])}  [looks at {looks}]"


def _select_lines(query: SelectedRows) -> Iterator[str]:
    columns = query.columns
    shown = "*"
    if columns is not None:
        every = rp.EveryColumn
        shown = ", ".join("*" if isinstance(tree, every) else sql_column(name) for name, tree in columns)
    yield f"select       {shown} from {sql_column(query.table)}"
    if query.where is not None:
        yield f"where        {print_sql(query.where)}"
    if query.order_by:
        yield f"result       ordered by {', '.join(map(_key_text, query.order_by))}"
    if query.offset:
        yield f"offset       {query.offset:,} rows"
    if query.limit is not None:
        yield f"limit        {query.limit:,} rows"


def _automaton_lines(bound: BoundRowQuery) -> Iterator[str]:
    from cepkit.plots.automata import choices_of, shown_states

    automaton = bound.program.automaton
    states = choices_of(automaton)
    n = len(states) - 1
    plural = "" if n == 1 else "s"
    yield (
        f"automaton    {n} state{plural}; a state takes a row, and its choices are in the order of preference"
    )
    hidden = {shown for shown, out in zip(shown_states(automaton), automaton.excluded, strict=True) if out}
    for state, (name, choices) in enumerate(states[: MOST_STATES + 1]):
        words = [
            "the match is complete" if choice == MATCH else f"{choice} {sql_variable(states[choice][0])}"
            for choice in choices
        ]
        label = f"{state} {sql_variable(name)}" if state else "start"
        label += " (not shown)" * (state in hidden)
        yield f"             {label}: {', else '.join(words) or 'nothing'}"
    if n > MOST_STATES:
        yield f"             … {n - MOST_STATES:,} more states"
    if any(follow[0] != side for follow in automaton.follow for side in follow[1:]):
        yield "             anchors remove choices that do not fit at a side of the partition"


def _cost_lines(bound: BoundRowQuery, measured: MeasuredRows | None) -> Iterator[str]:
    needs, n_states = bound.program.needs, len(bound.program.automaton.variable_of_state)
    is_shared = not needs.needs_start and bound.program.within is None
    is_local = is_shared and not needs.parts
    if is_local:
        yield "history      none: each condition depends on the row and on rows a fixed distance away"
        yield (
            f"cost         linear: at most {n_states:,} tests for each row, since what failed once "
            "is not tried again"
        )
    else:
        kept = list(_kept(bound))
        yield f"history      per partial match: {', '.join(kept)}"
        reason = reason_for_python(bound.program)
        budget = BUDGET_WITH_LABELS if LABELS in needs.parts else BUDGET
        budget = MOST_WORK if reason is None else budget
        yield f"search       {'by kernels' if reason is None else f'in Python: {reason}'}"
        yield (
            f"cost         a partition may try {budget:,} partial matches, or 50 for each row; "
            "partial matches with equal history are tried once"
        )
    if measured is not None and measured.n_rows:
        yield f"             {_measured_text(measured)}"


def _kept(bound: BoundRowQuery) -> Iterator[str]:
    """Yield what a partial match keeps of its rows, in words."""
    needs = bound.program.needs
    if needs.needs_start or bound.program.within is not None:
        yield "the first row"
    for part in needs.parts:
        if part == LABELS:
            yield "the variable of each row"
        elif part[0] == "total":
            yield f"{print_sql(part[1])} so far"
        else:
            end, variable, n_rows = part
            rows = f"the {end} {'row' if n_rows == 1 else f'{n_rows} rows'} of {sql_variable(variable)}"
            yield rows


def _measured_text(measured: MeasuredRows) -> str:
    n, parts = measured.n_rows, measured.n_partitions
    each = measured.n_tests / n
    where = f"{n:,} row{'s' * (n != 1)} of {parts:,} partition{'s' * (parts != 1)}"
    if measured.problem:
        return f"measured on {where}: the search stopped after {measured.n_tests:,} tests: {measured.problem}"
    text = f"measured on {where}: {each:.3g} tests for each row, {measured.n_matches:,} match"
    text += "es" * (measured.n_matches != 1)
    if measured.n_all > n:
        text += f"; estimated {each * measured.n_all:,.0f} tests for {measured.n_all:,} rows"
    return text
