"""Queries as SQL's MATCH_RECOGNIZE, loops included, and proofs that two conditions hold for no common row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cepkit.engines.regex_measures import measure_expressions
from cepkit.engines.sequence_measures import default_measures
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.trees import rebuilt, with_parts
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.printing import print_row_pattern
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey
from cepkit.language.query_parts import Duration
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.translation.chains import (
    RowChain,
    check_portable,
    joined_with_and,
    map_measures,
    map_values,
    refuse,
    with_values,
    with_window_as_condition,
)
from cepkit.translation.to_chains import (
    check_clauses,
    conditions_of_events,
    match_value,
    single_events,
    steps_of,
    without_open_end,
)

# The outcomes of a comparison (less, equal, greater) under which it is true.
_TRUE_FOR = {"<": "l", "<=": "le", ">": "g", ">=": "ge", "==": "e", "!=": "lg"}


def are_disjoint(one: ex.Expression, other: ex.Expression) -> bool:
    """Return whether two conditions can be proved never to hold together. Without a proof it is False."""
    # Both must be conditions of the same row. A proof is a pair of their parts: a condition and its ``not``,
    # two comparisons of the same values, or comparisons of a value with constants.
    if isinstance(one, ex.Or):
        return all(are_disjoint(option, other) for option in one.operands)
    if isinstance(other, ex.Or):
        return all(are_disjoint(one, option) for option in other.operands)
    return any(_contradict(a, b) for a in ex.conjuncts(one) for b in ex.conjuncts(other))


def _contradict(one: ex.Expression, other: ex.Expression) -> bool:
    """Return whether two conditions can never hold together."""
    if one == ex.Literal(False) or other == ex.Literal(False):
        return True
    if (isinstance(one, ex.Not) and one.operand == other) or (
        isinstance(other, ex.Not) and other.operand == one
    ):
        return True
    return any(
        value == other_value and not _can_both(outcomes, constant, other_outcomes, other_constant)
        for value, outcomes, constant in _comparisons(one)
        for other_value, other_outcomes, other_constant in _comparisons(other)
    )


def _comparisons(tree: ex.Expression) -> Iterator[tuple[ex.Expression, str, object]]:
    """Yield (value, outcomes, constant) of a comparison and of its mirror; IN has a tuple of constants.

    ``outcomes`` are the letters of `_TRUE_FOR` for which the comparison is true, such as "le" for <=.
    """
    if isinstance(tree, ex.Comparison):
        yield tree.left, _TRUE_FOR[tree.operator], tree.right
        yield tree.right, _TRUE_FOR[ex.MIRRORED[tree.operator]], tree.left
    if isinstance(tree, ex.In) and all(isinstance(option, ex.Literal) for option in tree.options):
        yield tree.operand, "e", tuple(tree.options)


def _can_both(outcomes: str, constant: object, other_outcomes: str, other_constant: object) -> bool:
    """Return whether a value can compare in both ways with the right sides; True without a proof."""
    if constant == other_constant and not isinstance(constant, tuple):
        return bool(set(outcomes) & set(other_outcomes))
    limits, other_limits = _values(constant), _values(other_constant)
    if limits is None or other_limits is None:
        return True
    return any(_overlap(outcomes, limit, other_outcomes, other) for limit in limits for other in other_limits)


def _values(constant: object) -> list | None:
    """Return the constants if they are all numbers or all texts, else None."""
    items = constant if isinstance(constant, tuple) else (constant,)
    values = []
    for item in items:
        if isinstance(item, ex.Negative) and isinstance(item.operand, ex.Literal):
            item = ex.Literal(-item.operand.value)  # type: ignore[operator]  # only numbers have a sign
        if not isinstance(item, ex.Literal) or item.value is None:
            return None
        values.append(item.value)
    return values


def _overlap(outcomes: str, limit: object, other_outcomes: str, other: object) -> bool:
    """Return whether some value compares with ``limit`` and with ``other`` as the outcomes of each say."""
    if isinstance(limit, bool) or isinstance(other, bool):
        return True
    if isinstance(limit, str) and isinstance(other, str):
        # The order of texts may be that of categories, so only equality is a proof; times may have
        # several spellings of one value, so their texts prove nothing.
        are_words = not any(sign.isdigit() for sign in limit + other)
        return not (outcomes == other_outcomes == "e" and limit != other and are_words)
    if isinstance(limit, str) or isinstance(other, str):
        return True
    low, high = sorted((float(limit), float(other)))  # type: ignore[arg-type]  # both are numbers here
    for x in (-math.inf, low, (low + high) / 2, high, math.inf):
        if _compare(x, limit) in outcomes and _compare(x, other) in other_outcomes:
            return True
    return False


def _compare(x: float, constant: object) -> str:
    limit = float(constant)  # type: ignore[arg-type]  # a number
    return "l" if x < limit else "g" if x > limit else "e"


# Regexes and row patterns with loops that end at their first possible last row.
#
# A pattern ``X z`` has unique ends if its conditions read only the row itself and rows before it, and ``z``,
# a single row, can never be one of the rows of ``X``. Its match ends at the first row after its start that is
# a ``z``, since no row between them can be one. Hence a start has at most one end. Two matches that overlap
# end at the same ``z``. The earliest end with the earliest start (regex) and the leftmost start with any
# preference (SQL) are then the same match. Both continue after ``z``, so all matches are the same.


def check_unique_ends(
    target: str, clause: str, parts: tuple, define: dict[str, ex.Expression | None]
) -> None:
    """Raise unless the last part is a single row that no other part can be."""
    last = parts[-1]
    if not isinstance(last, pt.Variable):
        refuse(
            target, clause,
            "regexes prefer the earliest end and SQL the leftmost start; they agree for patterns of a fixed "
            "number of rows, and for patterns whose last part is a single row that ends all loops",
        )  # fmt: skip
    before = [name for part in parts[:-1] for name in _names(part)]
    end = define.get(last.name)
    for name in dict.fromkeys(before):
        condition = define.get(name)
        if end is None or condition is None or not are_disjoint(condition, end):
            refuse(
                target, clause,
                "regexes prefer the earliest end and SQL the leftmost start. They agree if no row can be "
                f"both {last.name} and {name}; write conditions that exclude each other",
            )  # fmt: skip


def _names(part: pt.Pattern) -> list[str]:
    """Return the names of the variables in a pattern, in the order of the text, with "." for any event."""
    if isinstance(part, pt.Variable):
        return [part.name]
    if isinstance(part, pt.AnyEvent):
        return ["."]
    return [name for child in part.children() for name in _names(child)]


def row_pattern_of_regex(target: str, query: RegexQuery) -> pt.Pattern:
    """Return the pattern of a regex whose ends are unique as a row pattern; names are as in the regex."""
    pattern = without_open_end(query.pattern)
    parts = pattern.parts if isinstance(pattern, pt.Sequence) else (pattern,)
    define: dict[str, ex.Expression | None] = {
        name: tree for name, tree in query.define
    } | {name: ex.Attribute(name) for name in query.undefined_variables()}  # fmt: skip
    for name, tree in query.define:
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate):
                refuse(
                    target, f"define {name!r}: {node}",
                    "in a pattern with loops a condition may read the row and rows before it only",
                )  # fmt: skip
    check_unique_ends(target, f"pattern: {query.pattern}", parts, define)
    return as_row_pattern(pattern)


def as_row_pattern(pattern: pt.Pattern) -> pt.Pattern:
    """Return a regex pattern as a row pattern with greedy loops; any event is the variable ``.``."""

    def change(node: pt.Pattern) -> pt.Pattern:
        return pt.Variable(".") if isinstance(node, pt.AnyEvent) else node

    return rebuilt(pattern, pt.Pattern, change)


def regex_pattern_of_rows(
    target: str, query: RowPatternQuery, define: dict[str, ex.Expression | None]
) -> pt.Pattern:
    """Return the pattern of a clause whose ends are unique as a regex pattern; names are as in the clause."""
    check_clauses(target, query)
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, pt.Sequence) else (pattern,)
    check_unique_ends(target, f"PATTERN: {print_row_pattern(pattern)}", parts, define)
    if query.after_match != "past_last_row":
        refuse(
            target, f"AFTER MATCH SKIP {query.after_match.replace('_', ' ').upper()}",
            "a regex continues after the last row of a match",
        )  # fmt: skip
    return _as_regex(target, pattern, {name for name, tree in define.items() if tree is not None})


def _as_regex(target: str, pattern: pt.Pattern, defined: set[str]) -> pt.Pattern:
    """Return a row pattern as a regex pattern, where undefined variables are any event."""

    def change(node: pt.Pattern) -> pt.Pattern:
        match node:
            case pt.Variable(name=name):
                return node if name in defined else pt.AnyEvent()
            case pt.Exclusion(body=body):
                return body
            case pt.Repeat():
                return replace(node, greedy=True)
            case pt.Anchor() | pt.Permutation():
                what = "anchors" if isinstance(node, pt.Anchor) else "permutations"
                refuse(target, f"PATTERN: {print_row_pattern(node)}", f"a regex has no {what}")
        return node

    return rebuilt(pattern, pt.Pattern, change)


# Queries as SQL's MATCH_RECOGNIZE.

TARGET = "match_recognize"
_UNITS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "ms": 1000}


def rows_of_chain(chain: RowChain) -> RowPatternQuery:
    """Return a chain as a clause of MATCH_RECOGNIZE."""
    name_of = dict(zip(chain.names, sql_names(chain.names), strict=True))
    is_ticks = isinstance(chain.within, int)
    conditions = with_window_as_condition(chain) if is_ticks else chain.conditions
    define = []
    for name, condition in zip(chain.names, conditions, strict=True):
        if condition is not None:
            check_portable(TARGET, f"condition of {name}", condition)
            define.append((name_of[name], in_define(condition, name_of[name])))
    advance, last = chain.advance, chain.length
    skip = "past_last_row" if advance == last else "to_next_row" if advance == 1 else "to_first"
    variables = tuple(pt.Variable(name_of[name]) for name in chain.names)

    def leaf(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Reference):
            return ex.Reference(name_of[node.variable], node.name)
        assert isinstance(node, ex.Aggregate)
        return rp.RowAggregate(node.function, () if node.operand is None else (node.operand,))

    for name, tree in chain.measures or ():
        check_portable(TARGET, f"measure {name!r}", tree)
    first, *others = variables
    return RowPatternQuery(
        pt.Sequence(variables) if others else first,
        define=tuple(define) or ((first.name, ex.Literal(True)),),
        measures=tuple(map_measures(TARGET, chain, leaf)), partition_by=chain.partition_by,
        order_by=order_of(chain.order_by), after_match=skip,
        after_match_variable=variables[advance].name if skip == "to_first" else None,
        within=None if is_ticks else within_of(chain.within, chain.within_closed),
    )  # fmt: skip


def sql_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names in upper case, which SQL writes without quotes; names that then clash stay as they are."""
    upper = [name.upper() for name in names]
    return tuple(other if upper.count(other) == 1 else name for name, other in zip(names, upper, strict=True))


def order_of(columns: tuple[str, ...]) -> tuple[SortKey, ...]:
    """Return the entries of ORDER BY, which SQL requires."""
    if not columns:
        refuse(TARGET, "an order of rows without order_by", "ORDER BY needs columns; give order_by=")
    return tuple(SortKey(name) for name in columns)


def within_of(within: Duration | None, closed: bool) -> str | None:
    """Return a duration as Flink's WITHIN takes it: an amount and a unit."""
    if within is None:
        return None
    if closed:
        refuse(
            TARGET, f"WITHIN {within} with its end included",
            "WITHIN of SQL excludes it; within_closed=False says the same, and whole ticks work in both ways",
        )  # fmt: skip
    microseconds = duration_ticks(within, "us")
    for unit, size in _UNITS.items():
        if microseconds % size == 0:
            return f"{microseconds // size} {unit}"
    refuse(TARGET, f"WITHIN {within}", "it has no whole milliseconds")


def in_define(condition: ex.Expression, variable: str) -> ex.Expression:
    """Return a condition of rows as SQL's DEFINE writes it for a variable."""

    def of_row(name: str, distance: int) -> ex.Expression:
        reference = ex.Reference(variable, name)
        if not distance:
            return reference
        return rp.Navigation("prev", reference, None if distance == 1 else distance)

    return map_values(condition, of_row)


# --- regexes with loops


def rows_of_regex(query: RegexQuery) -> RowPatternQuery:
    """Return a regex whose matches have unique ends as a clause of MATCH_RECOGNIZE."""
    pattern = row_pattern_of_regex(TARGET, query)
    used = [node.name for node in pt.variables(pattern)]
    names = tuple(dict.fromkeys(used))
    plain = tuple("any_row" if name == "." else name for name in names)
    name_of = dict(zip(names, sql_names(plain), strict=True))

    def rename(node: pt.Pattern) -> pt.Pattern:
        return pt.Variable(name_of[node.name]) if isinstance(node, pt.Variable) else node

    params, define = dict(query.params), dict(query.define)
    if isinstance(query.within, int):
        refuse(TARGET, f"within={query.within}", "in a pattern with loops WITHIN needs a unit, as in '5 s'")
    conditions = []
    for name in names:
        if name == ".":
            continue
        tree = with_values(define.get(name, ex.Attribute(name)), params)
        check_portable(TARGET, f"define {name!r}", tree)
        _check_prev(name, tree)
        conditions.append((name_of[name], in_define(tree, name_of[name])))
    measures = measure_expressions(query)
    return RowPatternQuery(
        rebuilt(pattern, pt.Pattern, rename), define=tuple(conditions),
        measures=tuple((name, _measure(name, with_values(tree, params))) for name, tree in measures),
        partition_by=query.partition_by, order_by=order_of(query.order_by),
        within=within_of(query.within, query.within_closed),
    )  # fmt: skip


def _check_prev(name: str, tree: ex.Expression) -> None:
    for node in tree.walk(literals=False):
        if isinstance(node, ex.Previous) and not isinstance(node.operand, ex.Attribute):
            refuse(TARGET, f"define {name!r}: {node}", "prev() of an expression; take prev() of each column")


def _measure(name: str, tree: ex.Expression) -> ex.Expression:
    """Return a measure over the whole match in SQL."""
    check_portable(TARGET, f"measure {name!r}", tree)
    match tree:
        case ex.Aggregate(function="first" | "last" as end, operand=ex.Attribute() as column):
            return rp.Navigation(end, column)
        case ex.Previous(operand=ex.Attribute() as column, offset=offset):
            return rp.Navigation("prev", column, offset)
        case ex.Aggregate(function="delta", operand=ex.Attribute() as column):
            return ex.Arithmetic("-", rp.Navigation("last", column), rp.Navigation("first", column))
        case ex.Aggregate():
            aggregate = match_value(TARGET, name, tree, ("",))
            assert isinstance(aggregate, ex.Aggregate)
            return rp.RowAggregate(
                aggregate.function, () if aggregate.operand is None else (aggregate.operand,)
            )
    return with_parts(tree, ex.Expression, lambda part: _measure(name, part))


# --- sequences that skip irrelevant events


def rows_of_skipping(query: SequenceQuery) -> RowPatternQuery:
    """Return a sequence under skip_till_next_match as a clause whose further variables take skipped rows."""
    # From each first event at most one match begins, because the next event that can continue it is taken. A
    # row may be skipped only if it cannot continue the match. Hence a start has one match in SQL, too, and
    # AFTER MATCH SKIP TO NEXT ROW finds those of all starts.
    events = single_events(TARGET, query)
    steps = steps_of(query)
    _check_skipping(query, steps)
    variables = tuple(event.variable for event in events)
    name_of = dict(zip(variables, sql_names(variables), strict=True))
    params, pattern, define = dict(query.params), [], []
    for place, trees in enumerate(conditions_of_events(TARGET, query, events)):
        variable, sql_name = variables[place], name_of[variables[place]]
        conditions = [with_values(tree, params) for tree in trees]
        if isinstance(query.within, int) and place:
            conditions.append(_in_window(query, variables[0], variable))
        condition = joined_with_and(conditions)
        if condition is not None:
            check_portable(TARGET, f"WHERE of {variable}", condition)
            define.append((sql_name, _named(condition, name_of)))
            if steps[place] == "next" and place:  # rows that do not fit may come before the event
                skipped = _free(f"SKIPPED_{place}", name_of)
                test = _named(condition, {**name_of, variable: skipped})
                define.append((skipped, rp.CaseWhen((test, ex.Literal(False)), ex.Literal(True))))
                pattern.append(pt.Repeat(pt.Variable(skipped), 0, None))
        pattern.append(pt.Variable(sql_name))
    measures = query.measures if query.measures is not None else default_measures(query)
    for name, tree in measures:
        check_portable(TARGET, f"measure {name!r}", tree)
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate) or (isinstance(node, ex.Reference) and node.index is not None):
                refuse(TARGET, f"measure {name!r}: {node}", "aggregates there would include skipped rows")
    return RowPatternQuery(
        pt.Sequence(tuple(pattern)) if len(pattern) > 1 else pattern[0],
        define=tuple(define) or ((name_of[variables[0]], ex.Literal(True)),),
        measures=tuple((name, _named(with_values(tree, params), name_of)) for name, tree in measures),
        partition_by=query.partition_by, order_by=order_of(query.order_by), after_match="to_next_row",
        within=None if isinstance(query.within, int) else within_of(query.within, query.within_closed),
    )  # fmt: skip


def _check_skipping(query: SequenceQuery, steps: Sequence[str]) -> None:
    """Raise for the clauses of a sequence that skips events which SQL cannot say."""
    for step in steps[1:]:
        if step == "any" or (step == "strict" and query.partition_by):
            what = "skip_till_any_match" if step == "any" else "strict_contiguity with a key"
            refuse(TARGET, what, "SQL reports one match for each start, and its rows are neighbours")
    for name, value in (("GAP", query.gap_within), ("strict_time", query.strict_time)):
        if value:
            refuse(TARGET, name, "it has no limit between two rows")
    if query.within_events is not None:
        refuse(TARGET, f"WITHIN {query.within_events} EVENTS", "it does not count skipped rows")
    if query.after_match[0] not in ("none", "to_next"):
        reason = "sequences that skip rows end in another order than they begin"
        refuse(TARGET, f"after_match={query.after_match[0]}", reason)


def _in_window(query: SequenceQuery, first: str, last: str) -> ex.Expression:
    clock = query.order_by[0]
    lasted = ex.Arithmetic("-", ex.Reference(last, clock), ex.Reference(first, clock))
    assert isinstance(query.within, int)
    return ex.Comparison("<=" if query.within_closed else "<", lasted, ex.Literal(query.within))


def _free(name: str, name_of: dict[str, str]) -> str:
    while name in name_of.values():
        name += "_"
    return name


def _named(tree: ex.Expression, name_of: dict[str, str]) -> ex.Expression:
    """Return an expression whose variables have the names that `name_of` gives them."""

    def rename(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Reference):
            return ex.Reference(name_of[node.variable], node.name)
        return node

    return rebuilt(tree, ex.Expression, rename)
