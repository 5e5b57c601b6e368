"""Count the rows from which each beginning of a row pattern matches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cepkit.compile.match_recognize.automaton import build_row_automaton
from cepkit.engines.match_recognize.matching import find_row_matches
from cepkit.engines.match_recognize.row_match_set import SearchedRows, all_row_matches
from cepkit.insight.funnel import BranchFunnel, ConditionCount, Count, StepCount
from cepkit.insight.match_recognize.reading import RowReader, is_row_local
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.printing import print_row_pattern, print_sql, sql_variable
from cepkit.progress import checkpoint


@dataclass(frozen=True, slots=True)
class RowBeginning:
    """The pattern cut off after a step: ``whole`` with all parts, and ``step`` with the newest ones."""

    whole: rp.RowPattern
    step: rp.RowPattern


def row_beginnings(pattern: rp.RowPattern, most: int | None = None) -> list[RowBeginning]:
    """Return the beginnings of a row pattern, the shortest first.

    A beginning that may match no row has no step of its own; the next step has its parts, too. ``most``
    limits the number of beginnings; the shortest ones and the whole pattern remain.
    """
    parts = pattern.parts if isinstance(pattern, rp.Concatenation) else (pattern,)
    ends = [i for i in range(1, len(parts)) if not all(map(may_match_no_row, parts[:i]))]
    ends = [*(ends if most is None else ends[: most - 1]), len(parts)]
    return [
        RowBeginning(_together(parts[:end]), _together(parts[begin:end]))
        for begin, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


def _together(parts: tuple[rp.RowPattern, ...]) -> rp.RowPattern:
    return parts[0] if len(parts) == 1 else rp.Concatenation(parts)


def may_match_no_row(pattern: rp.RowPattern) -> bool:
    """Return whether a pattern has an empty match."""
    match pattern:
        case rp.RowVariable():
            return False
        case rp.NoRow() | rp.Anchor():
            return True
        case rp.Alternation(options=options):
            return any(map(may_match_no_row, options))
        case rp.Quantified(body=body, low=low):
            return low == 0 or may_match_no_row(body)
    return all(map(may_match_no_row, pattern.children()))


def count_row_funnel(
    searched: SearchedRows,
    n_matches: int | None = None,
    most_steps: int | None = None,
    *,
    with_conditions: bool = True,
) -> tuple[BranchFunnel, ...]:
    """Count the rows from which each beginning of the pattern matches, at most ``most_steps`` beginnings."""
    bound, n_rows = searched.bound, searched.events.n_events
    steps: list[StepCount] = []
    n_before = n_rows
    for beginning in row_beginnings(bound.query.pattern, most_steps):
        n = _count(searched, beginning.whole)
        n_alone, conditions = _conditions(searched, beginning.step) if with_conditions else (None, ())
        text = print_row_pattern(beginning.step)
        steps.append(StepCount(text, None, n_rows, n_alone, Count(n), None, n_before, n, conditions))
        n_before = n
    reported = all_row_matches(searched)[1] if n_matches is None else n_matches
    return (BranchFunnel(tuple(steps), Count(n_before), Count(reported), 1.0),)


def _count(searched: SearchedRows, pattern: rp.RowPattern) -> int:
    """Return the number of rows from which a pattern matches."""
    program = replace(
        searched.bound.program,
        automaton=build_row_automaton(pattern),
        after_match="to_next_row",
        after_match_variable=None,
    )
    found = searched.search(program)
    if found is not None:
        return found.n_matches
    total = 0
    for part in searched.partitions():
        checkpoint()
        total += len(find_row_matches(program, part.columns, part.n_rows))
    return total


def _conditions(searched: SearchedRows, step: rp.RowPattern) -> tuple[int | None, tuple[ConditionCount, ...]]:
    """Return how many rows satisfy the only variable of a step, and the counts of its conditions."""
    define = dict(searched.bound.query.define)
    names = list(dict.fromkeys(variable.name for variable in rp.row_variables(step)))
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
    if not is_row_local(searched.bound, variable, condition):
        return None
    counted = searched.count_rows(condition)
    if counted is not None:
        return counted
    total = 0
    for part in searched.partitions():
        checkpoint()
        reader = RowReader(searched.bound, part, 0)
        total += sum(reader.holds(condition, row, variable) for row in range(part.n_rows))
    return total
