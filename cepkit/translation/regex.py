"""Queries as regexes over predicates: the call of ``df.cep.match`` with its ``define``."""

from __future__ import annotations

from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.expressions.rebuilding import rebuilt, with_parts
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import RowPatternQuery
from cepkit.language.regex import patterns as pt
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.printing import print_pattern
from cepkit.language.regex.query import RegexQuery
from cepkit.translation.calls import call_text
from cepkit.translation.chains import AGGREGATES, RowChain, map_measures, unique_names
from cepkit.translation.from_match_recognize import row_value
from cepkit.translation.loops import regex_pattern_of_rows
from cepkit.translation.refusing import refuse, with_values

TARGET = "regex"


def print_regex(query: RegexQuery) -> str:
    """Return a regex query as a call."""
    return call_text(repr(print_pattern(query.pattern)), regex_keywords(query))


def regex_keywords(query: RegexQuery) -> dict[str, Any]:
    """Return the keywords of a regex query for a call, with the values of its parameters in the text."""
    for name, _ in query.functions:
        refuse(TARGET, f"define: {name}()", "a function of Python has no text")
    params = dict(query.params)
    left = {name: value for name, value in params.items() if not _is_plain(value)}
    trees = {
        role: {name: print_expression(with_values(tree, params)) for name, tree in of}
        for role, of in (("define", query.define), ("measures", query.measures or ()))
    }
    return {
        "define": trees["define"], "partition_by": query.partition_by, "order_by": query.order_by,
        "within": query.within, "within_closed": None if query.within_closed else False,
        "measures": trees["measures"], "params": left,
    }  # fmt: skip


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def regex_of_chain(target: str, chain: RowChain) -> RegexQuery:
    """Return a chain as a regex query."""
    if chain.advance != chain.length:
        refuse(
            target,
            "a search that continues inside a match (after_match or AFTER MATCH SKIP)",
            "a regex continues after the last row of a match",
        )
    # A row that may be any needs no name, and equal conditions need one name.
    define = {
        name: print_expression(tree)
        for name, tree in zip(chain.names, chain.conditions, strict=True)
        if tree is not None
    }
    pattern = " ".join(name if name in define else "." for name in chain.names)

    def leaf(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Aggregate):
            return node
        assert isinstance(node, ex.Reference) and node.name is not None
        place = chain.names.index(node.variable)
        if place not in (0, chain.length - 1):
            refuse(target, f"measure of {node}", "measures of a regex see its first and its last row")
        return ex.Aggregate("last" if place else "first", ex.Attribute(node.name))

    measures = dict(map_measures(target, chain, leaf))
    if chain.measures is not None and not measures:
        refuse(target, "a result without measures", "the default of a regex has some")
    return regex_query(
        pattern, define=define or None, partition_by=chain.partition_by or None,
        order_by=chain.order_by or None, within=chain.within, within_closed=chain.within_closed,
        measures={name: print_expression(tree) for name, tree in measures.items()} or None,
    )  # fmt: skip


# --- clauses of MATCH_RECOGNIZE with loops and unique ends


def regex_of_rows(target: str, query: RowPatternQuery) -> RegexQuery:
    """Return a clause with unique ends as a regex."""
    used = tuple(dict.fromkeys(node.name for node in rp.row_variables(query.pattern)))
    define: dict[str, ex.Expression | None] = dict.fromkeys(used)
    for name, tree in query.define:
        if name in define:
            define[name] = None if tree == ex.Literal(True) else _row_local(target, name, tree)
    pattern = regex_pattern_of_rows(target, query, define)
    order_by = tuple(key.column for key in query.order_by)
    read = RowChain(
        used, tuple(define.values()), 1, query.partition_by, order_by,
    ).columns()  # fmt: skip
    names = unique_names([name.lower() if name == name.upper() else name for name in used], read)
    name_of = dict(zip(used, names, strict=True))

    def rename(node: pt.Pattern) -> pt.Pattern:
        return pt.Variable(name_of[node.name]) if isinstance(node, pt.Variable) else node

    measures = {name: print_expression(_measure(target, name, tree)) for name, tree in query.measures}
    if not measures:
        refuse(target, "a result without MEASURES", "the default of a regex has some")
    return regex_query(
        rebuilt(pattern, pt.Pattern, rename),
        define={name_of[name]: print_expression(tree) for name, tree in define.items() if tree is not None},
        partition_by=query.partition_by or None, order_by=order_by or None, within=query.within,
        within_closed=query.within is None, measures=measures,
    )  # fmt: skip


def _row_local(target: str, name: str, tree: ex.Expression) -> ex.Expression:
    """Return a condition as one of the row and rows before it; raise if it reads the match so far."""
    for node in tree.walk(literals=False):
        is_other = isinstance(node, ex.Reference) and node.variable != name
        inner = node.operand if isinstance(node, rp.Navigation) else None
        is_logical = isinstance(node, rp.Navigation) and (
            node.function in ("first", "last") or isinstance(inner, rp.Navigation)
        )
        if is_other or is_logical or isinstance(node, rp.RowAggregate):
            refuse(
                target, f"DEFINE {name}: {node}",
                "in a pattern with loops a condition may read the row and rows before it only",
            )  # fmt: skip
    return row_value(target, f"DEFINE {name}", tree, _Rows(name))


class _Rows(list):
    """The labels of a match up to a row of a variable. Only the last one is known."""

    def __init__(self, name: str):
        super().__init__([""] * 1000 + [name])


def _measure(target: str, name: str, tree: ex.Expression) -> ex.Expression:
    match tree:
        case rp.TimeLiteral(value=text) | rp.IntervalLiteral(value=text):
            return ex.Literal(text)
        case ex.Attribute():
            return ex.Aggregate("last", tree)
        case rp.Navigation(
            function="first" | "last" as end, operand=ex.Attribute() as column, offset=None | 0
        ):
            return ex.Aggregate(end, column)
        case rp.RowAggregate(function=function, arguments=arguments, variable=None, distinct=False) if (
            function in AGGREGATES and all(isinstance(one, ex.Attribute) for one in arguments)
        ):
            return ex.Aggregate(function, arguments[0] if arguments else None)
    if isinstance(tree, ex.Reference) or type(tree).__module__ == rp.__name__:
        refuse(target, f"MEASURES {name}: {tree}", "measures of a regex range over the whole match")
    return with_parts(tree, ex.Expression, lambda part: _measure(target, name, part))
