"""Queries as event sequences in SASE's language: the call of ``df.cep.match`` with the text."""

from __future__ import annotations

from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.expressions.rebuilding import rebuilt
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.printing import sase_text
from cepkit.language.sequences.query import SequenceQuery
from cepkit.translation.calls import call_text, long_text
from cepkit.translation.chains import RowChain, map_measures, map_values
from cepkit.translation.refusing import refuse, with_values

TARGET = "sase"


def print_sase(query: SequenceQuery) -> str:
    """Return a sequence query as a call with its text in SASE's language."""
    query = _with_values(query)
    return call_text(long_text(sase_text(query)), sequence_keywords(query))


def sequence_keywords(query: SequenceQuery) -> dict[str, Any]:
    """Return the keywords that the text of SASE lacks."""
    for name, _ in query.functions:
        refuse(TARGET, f"WHERE: {name}()", "a function of Python has no text")
    kind, variable = query.after_match
    return {
        "event_type": query.event_type, "order_by": query.order_by,
        "scope": None if query.scope == "run" else query.scope,
        "strict_time": query.strict_time or None,
        "after_match": None if kind == "none" else kind + (f"({variable})" if variable else ""),
        "evaluation_order": query.evaluation_order,
        "measures": {name: print_expression(tree) for name, tree in query.measures or ()},
        "params": dict(query.params),
    }  # fmt: skip


def _with_values(query: SequenceQuery) -> SequenceQuery:
    """Return the query with the values of its parameters in the text, where text can spell them."""
    from dataclasses import replace

    params = dict(query.params)

    def put(node: sq.SequencePattern) -> sq.SequencePattern:
        if isinstance(node, sq.Loop) and node.until is not None:
            return replace(node, until=with_values(node.until, params))
        return node

    measures = query.measures
    made = replace(
        query,
        pattern=rebuilt(query.pattern, sq.SequencePattern, put),
        where=tuple(with_values(tree, params) for tree in query.where),
        measures=None if measures is None else tuple((n, with_values(t, params)) for n, t in measures),
    )
    left = made.parameters()
    return replace(made, params=tuple((name, value) for name, value in params.items() if name in left))


def sequence_of_chain(target: str, chain: RowChain) -> SequenceQuery:
    """Return a chain as a sequence of neighbouring events."""
    where = []
    for place, condition in enumerate(chain.conditions):
        if condition is None:
            continue

        def of_row(name: str, distance: int, place: int = place) -> ex.Expression:
            if distance > place:
                refuse(
                    target,
                    f"prev({name}) of {chain.names[place]}",
                    "it looks before the first event of a match",
                )
            return ex.Reference(chain.names[place - distance], name)

        where += [print_expression(part) for part in ex.conjuncts(map_values(condition, of_row))]

    measures = dict(map_measures(target, chain, lambda node: node))
    if chain.measures is not None and not measures:
        refuse(target, "a result without measures", "the default of a sequence has some")
    after = "none"
    if chain.advance > 1:
        is_whole = chain.advance == chain.length
        after = "past_last" if is_whole else f"to_first({chain.names[chain.advance]})"
    events = tuple(sq.EventPattern(name) for name in chain.names)
    pattern = sq.SequenceOf(events, (None,) * len(events))
    return sequence_query(
        pattern, where=where or None, strategy="partition", partition_by=chain.partition_by or None,
        order_by=chain.order_by or None, within=chain.within, within_closed=chain.within_closed,
        after_match=None if after == "none" else after,
        measures={name: print_expression(tree) for name, tree in measures.items()} or None,
    )  # fmt: skip
