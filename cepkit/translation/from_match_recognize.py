"""MATCH_RECOGNIZE as chains."""

from __future__ import annotations

from collections.abc import Sequence

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import FUNCTIONS
from cepkit.language.expressions.rebuilding import with_parts
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import AFTER_MATCH, ROWS_PER_MATCH, WITH_TIMED_OUT, RowPatternQuery
from cepkit.translation.chains import AGGREGATES, RowChain, at_distance, unique_names
from cepkit.translation.refusing import refuse

MOST_STEPS = 64


def check_clauses(target: str, query: RowPatternQuery) -> None:
    """Raise for the clauses that only SQL has."""
    for key in query.order_by:
        if key.descending or key.nulls_first:
            words = f"ORDER BY {key.column}{' DESC' if key.descending else ' NULLS FIRST'}"
            refuse(target, words, "it sorts in ascending order, without nulls")
    if query.rows_per_match != "one":
        refuse(target, ROWS_PER_MATCH[query.rows_per_match], "its result has one row per match")
    if query.timed_out:
        refuse(target, WITH_TIMED_OUT, "its result has matches only")
    if query.subset:
        refuse(target, f"SUBSET {query.subset[0][0]}", "a name there is one variable")


def chain_of_rows(target: str, query: RowPatternQuery) -> RowChain:
    """Return a clause of MATCH_RECOGNIZE as a chain."""
    check_clauses(target, query)
    labels = _labels(target, query.pattern)
    if not labels:
        refuse(target, f"PATTERN ({query.pattern})", "a match needs at least one row")
    define = dict(query.define)
    conditions = [
        None if label not in define
        else row_value(target, f"DEFINE {label}", define[label], labels[: place + 1])
        for place, label in enumerate(labels)
    ]  # fmt: skip
    conditions = [None if tree == ex.Literal(True) else tree for tree in conditions]
    columns = RowChain(
        tuple(labels), tuple(conditions), 1, query.partition_by, tuple(key.column for key in query.order_by)
    ).columns()
    names = unique_names([label.lower() if label == label.upper() else label for label in labels], columns)
    measures = tuple((name, _measured(target, name, tree, labels, names)) for name, tree in query.measures)
    return RowChain(
        names, tuple(conditions), advance_of(target, query, labels), query.partition_by,
        tuple(key.column for key in query.order_by), query.within, False, measures,
    )  # fmt: skip


def advance_of(target: str, query: RowPatternQuery, labels: Sequence[str]) -> int:
    """Return how many rows after its first row the search continues after a match."""
    variable = query.after_match_variable
    if query.after_match == "past_last_row":
        return len(labels)
    if query.after_match == "to_next_row":
        return 1
    places = [i for i, label in enumerate(labels) if label == variable]
    if not places or places[0 if query.after_match == "to_first" else -1] == 0:
        words = f"{AFTER_MATCH[query.after_match]} {variable}"
        refuse(target, words, "SQL stops with an error there, as it would find the same match again")
    return places[0 if query.after_match == "to_first" else -1]


def _labels(target: str, pattern: rp.RowPattern) -> list[str]:
    match pattern:
        case rp.RowVariable(name=name):
            return [name]
        case rp.NoRow():
            return []
        case rp.Concatenation(parts=parts):
            return [label for part in parts for label in _labels(target, part)]
        case rp.Exclusion(body=body):  # it shows all rows or one row, and here one
            return _labels(target, body)
        case rp.Quantified(body=body, low=low, high=high) if low == high:
            own = _labels(target, body)
            if len(own) * low > MOST_STEPS:
                refuse(target, f"PATTERN: {pattern}", f"it would need {len(own) * low} single rows")
            return own * low
        case rp.Anchor():
            refuse(target, f"PATTERN: {pattern}", "it has no anchors")
        case rp.Permutation():
            refuse(target, f"PATTERN: {pattern}", "SQL prefers one order and reports only that one")
        case rp.Alternation():
            refuse(target, f"PATTERN: {pattern}", "SQL prefers the first option and reports only that one")
    refuse(
        target,
        f"PATTERN: {pattern}",
        "SQL prefers one number of rounds and reports only that match of a row",
    )


def row_value(target: str, clause: str, tree: ex.Expression, labels: Sequence[str]) -> ex.Expression:
    """Return a value of DEFINE at the last of these rows as one of that row and rows before it."""
    here = len(labels) - 1
    match tree:
        case rp.TimeLiteral(value=text) | rp.IntervalLiteral(value=text):
            return ex.Literal(text)
        case ex.Attribute():
            return tree
        case ex.Reference(name=str(name)):
            return at_distance(name, here - _row_of(target, clause, tree, labels, False, 0))
        case rp.Navigation():
            name, row = _navigate(target, clause, tree, labels)
            if row > here:
                refuse(target, f"{clause}: {tree}", "it looks ahead, and there a condition looks back")
            return at_distance(name, here - row)
        case rp.RowAggregate(function="count", arguments=(), variable=None, distinct=False):
            return ex.Literal(here + 1)
    _refuse_function(target, clause, tree)
    if type(tree).__module__ == rp.__name__:
        refuse(target, f"{clause}: {tree}", "it has no such value in conditions")
    return with_parts(tree, ex.Expression, lambda part: row_value(target, clause, part, labels))


def _refuse_function(target: str, clause: str, tree: ex.Expression) -> None:
    """Raise for a function that only SQL has."""
    if isinstance(tree, ex.Call) and tree.function not in FUNCTIONS:
        refuse(target, f"{clause}: {tree.function.upper()}()", "it has no such function")


def _navigate(target: str, clause: str, tree: rp.Navigation, labels: Sequence[str]) -> tuple[str, int]:
    """Return the column and the row, counted from the first of the match, that a navigation reads."""
    physical, logical = 0, tree
    if tree.function in ("prev", "next"):
        distance = 1 if tree.offset is None else tree.offset
        physical = distance if tree.function == "next" else -distance
        logical = tree.operand if isinstance(tree.operand, rp.Navigation) else rp.Navigation(
            "last", tree.operand
        )  # fmt: skip
    column = logical.operand
    if isinstance(column, ex.Attribute):
        column = ex.Reference("", column.name)
    if not isinstance(column, ex.Reference) or column.name is None:
        refuse(target, f"{clause}: {tree}", "it navigates to an expression; navigate to each column")
    row = _row_of(target, clause, column, labels, logical.function == "first", logical.offset or 0)
    return column.name, row + physical


def _row_of(
    target: str, clause: str, tree: ex.Reference, labels: Sequence[str], from_first: bool, offset: int
) -> int:
    """Return a row of a variable, or of all rows for no variable, counted from the first of the match."""
    rows = [i for i, label in enumerate(labels) if not tree.variable or label == tree.variable]
    if offset >= len(rows):
        refuse(target, f"{clause}: {tree}", "it is always null, as no such row comes before")
    return rows[offset] if from_first else rows[-1 - offset]


def _measured(
    target: str, name: str, tree: ex.Expression, labels: Sequence[str], names: tuple[str, ...]
) -> ex.Expression:
    clause = f"MEASURES {name}"
    match tree:
        case rp.TimeLiteral(value=text) | rp.IntervalLiteral(value=text):
            return ex.Literal(text)
        case ex.Attribute(name=column):
            return ex.Reference(names[-1], column)
        case ex.Reference(name=str(column)):
            return ex.Reference(names[_row_of(target, clause, tree, labels, False, 0)], column)
        case rp.Navigation():
            column, row = _navigate(target, clause, tree, labels)
            if not 0 <= row < len(labels):
                refuse(target, f"{clause}: {tree}", "it reads a row outside of the match")
            return ex.Reference(names[row], column)
        case rp.RowAggregate(function=function, arguments=arguments, variable=None, distinct=False) if (
            function in AGGREGATES and all(isinstance(one, ex.Attribute) for one in arguments)
        ):
            return ex.Aggregate(function, arguments[0] if arguments else None)
    _refuse_function(target, clause, tree)
    if type(tree).__module__ == rp.__name__:
        refuse(target, f"{clause}: {tree}", "it has no such value")
    return with_parts(tree, ex.Expression, lambda part: _measured(target, name, part, labels, names))
