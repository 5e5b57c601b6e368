"""Queries as SQL's MATCH_RECOGNIZE."""

from __future__ import annotations

from cepkit.engines.measures.regex_measures import measure_expressions
from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.trees import rebuilt, with_parts
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey
from cepkit.language.query_parts import Duration
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
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
from cepkit.translation.loops import row_pattern_of_regex
from cepkit.translation.to_chains import match_value, own_conditions, single_events, steps_of

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
    variables = tuple(rp.RowVariable(name_of[name]) for name in chain.names)

    def leaf(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Reference):
            return ex.Reference(name_of[node.variable], node.name)
        assert isinstance(node, ex.Aggregate)
        return rp.RowAggregate(node.function, () if node.operand is None else (node.operand,))

    for name, tree in chain.measures or ():
        check_portable(TARGET, f"measure {name!r}", tree)
    first, *others = variables
    return RowPatternQuery(
        rp.Concatenation(variables) if others else first,
        define=tuple(define) or ((first.name, ex.Literal(True)),),
        measures=tuple(map_measures(TARGET, chain, leaf)),
        partition_by=chain.partition_by,
        order_by=order_of(chain.order_by),
        after_match=skip,
        after_match_variable=variables[advance].name if skip == "to_first" else None,
        within=None if is_ticks else within_of(chain.within, chain.within_closed),
    )


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
    used = [node.name for node in rp.row_variables(pattern)]
    names = tuple(dict.fromkeys(used))
    plain = tuple("any_row" if name == "." else name for name in names)
    name_of = dict(zip(names, sql_names(plain), strict=True))

    def rename(node: rp.RowPattern) -> rp.RowPattern:
        return rp.RowVariable(name_of[node.name]) if isinstance(node, rp.RowVariable) else node

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
        rebuilt(pattern, rp.RowPattern, rename),
        define=tuple(conditions),
        measures=tuple((name, _measure(name, with_values(tree, params))) for name, tree in measures),
        partition_by=query.partition_by,
        order_by=order_of(query.order_by),
        within=within_of(query.within, query.within_closed),
    )


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
    """Return a sequence under skip_till_next_match as a clause whose further variables take skipped rows.

    From each first event at most one match begins, because the next event that can continue it is taken. A
    row may be skipped only if it cannot continue the match. Hence a start has one match in SQL, too, and
    AFTER MATCH SKIP TO NEXT ROW finds those of all starts.

    """
    events = single_events(TARGET, query)
    steps = steps_of(query)
    for step in steps[1:]:
        if step not in ("next", "partition") and not (step == "strict" and not query.partition_by):
            what = "skip_till_any_match" if step == "any" else "strict_contiguity with a key"
            refuse(TARGET, what, "SQL reports one match for each start, and its rows are neighbours")
    for name, value in (("GAP", query.gap_within), ("strict_time", query.strict_time)):
        if value:
            refuse(TARGET, name, "it has no limit between two rows")
    if query.within_events is not None:
        refuse(TARGET, f"WITHIN {query.within_events} EVENTS", "it does not count skipped rows")
    if query.after_match[0] not in ("none", "to_next"):
        refuse(
            TARGET, f"after_match={query.after_match[0]}",
            "sequences that skip rows end in another order than they begin",
        )  # fmt: skip
    variables = tuple(event.variable for event in events)
    name_of = dict(zip(variables, sql_names(variables), strict=True))
    params, pattern, define = dict(query.params), [], []
    for place, conditions in enumerate(own_conditions(TARGET, query, events)):
        variable = name_of[variables[place]]
        conditions = [with_values(tree, params) for tree in conditions]
        if isinstance(query.within, int) and place:
            conditions.append(_in_window(query, variables[0], variables[place]))
        condition = joined_with_and(conditions)
        if condition is not None:
            check_portable(TARGET, f"WHERE of {variables[place]}", condition)
            define.append((variable, _named(condition, name_of)))
            if steps[place] == "next" and place:
                skipped = _free(f"SKIPPED_{place}", name_of)
                test = _named(condition, {**name_of, variables[place]: skipped})
                define.append((skipped, rp.CaseWhen((test, ex.Literal(False)), ex.Literal(True))))
                pattern.append(rp.Quantified(rp.RowVariable(skipped), 0, None))
        pattern.append(rp.RowVariable(variable))
    measures = query.measures if query.measures is not None else default_measures(query)
    for name, tree in measures:
        check_portable(TARGET, f"measure {name!r}", tree)
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate) or (isinstance(node, ex.Reference) and node.index is not None):
                refuse(TARGET, f"measure {name!r}: {node}", "aggregates there would include skipped rows")
    return RowPatternQuery(
        rp.Concatenation(tuple(pattern)) if len(pattern) > 1 else pattern[0],
        define=tuple(define) or ((name_of[variables[0]], ex.Literal(True)),),
        measures=tuple((name, _named(with_values(tree, params), name_of)) for name, tree in measures),
        partition_by=query.partition_by,
        order_by=order_of(query.order_by),
        after_match="to_next_row",
        within=None if isinstance(query.within, int) else within_of(query.within, query.within_closed),
    )


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
    def rename(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Reference):
            return ex.Reference(name_of[node.variable], node.name)
        return node

    return rebuilt(tree, ex.Expression, rename)
