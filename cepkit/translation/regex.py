"""Queries as regexes over predicates: the call of ``df.cep.match`` with its ``define``."""

from __future__ import annotations

from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.regex.printing import print_pattern
from cepkit.language.regex.query import RegexQuery
from cepkit.translation.calls import call_text
from cepkit.translation.chains import Chain, map_measures
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


def regex_of_chain(target: str, chain: Chain) -> RegexQuery:
    """Return a chain as a regex query.

    Raises
    ------
    UnsupportedQueryError
        For overlapping matches, and for measures of rows that are neither the first nor the last.
    """
    if chain.advance != chain.length:
        refuse(
            target,
            "a search that continues inside a match (after_match or AFTER MATCH SKIP)",
            "a regex continues after the last row of a match",
        )
    from cepkit.language.regex.construction import regex_query

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
