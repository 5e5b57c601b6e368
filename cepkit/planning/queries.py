"""Queries as values, made from text, patterns or builders and the keywords of a call."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from cepkit.errors import CepError, PatternSyntaxError, UnsupportedQueryError, nearest
from cepkit.language.expressions.functions import registered_functions
from cepkit.language.recognizing import call_of_match_recognize, is_match_recognize
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.patterns import Pattern
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.arguments import Arguments
from cepkit.planning.plans import Recent, key_or_none, remembered

if TYPE_CHECKING:
    from cepkit.language.sequences.patterns import QueryMethods
    from cepkit.language.sequences.query import SequenceQuery

Query: TypeAlias = "str | Pattern | RegexQuery | SequenceQuery | QueryMethods"


_queries = Recent(128)


def as_query(query: Query, given: Arguments) -> RegexQuery | SequenceQuery:
    """Return the query as a value. Keywords cannot repeat what the query itself contains.

    Equal arguments return the same value, which is a key of the plan cache.

    """
    key = key_or_none(query, vars(given), registered_functions())
    return remembered(_queries, key, partial(_read_query, query, given))


def _read_query(query: Query, given: Arguments) -> RegexQuery | SequenceQuery:
    if isinstance(query, str) and is_match_recognize(query):
        raise CepError(
            "this is MATCH_RECOGNIZE of SQL, which match, tag, sql, stream, explain, funnel, why_not and "
            "explore run; elsewhere its clauses are arguments:\n"
            f"  {call_of_match_recognize(query)}\n"
            "Names without a definition are '.', and measures={…} takes the MEASURES. The match that ends "
            "first is reported, and the search continues after its last row"
        )
    if _is_sequence(query):
        return _as_sequence(query, given)
    regex = _check_regex(query)
    _only_for_sequences(
        event_type=given.event_type, strategy=given.strategy,
        scope=None if _is("run", given.scope) else given.scope, strict_time=given.strict_time,
        after_match=given.after_match, evaluation_order=given.evaluation_order,
    )  # fmt: skip
    return _as_regex(regex, given)


def _is_sequence(query: Query) -> bool:
    if isinstance(query, str):
        return query.lstrip().upper().startswith("PATTERN")
    if isinstance(query, Pattern | RegexQuery):
        return False
    from cepkit.language.builder import QueryBuilder
    from cepkit.language.sequences.patterns import SequencePattern
    from cepkit.language.sequences.query import SequenceQuery

    return isinstance(query, SequencePattern | SequenceQuery | QueryBuilder)


def _check_regex(query: object) -> str | Pattern | RegexQuery:
    """Return a query that is no sequence; raise the error for what is no query."""
    if not isinstance(query, str):
        if not isinstance(query, Pattern | RegexQuery):
            kind, chain = type(query).__name__, ""
            if isinstance(query, list | tuple):
                chain = (
                    ". For a chain of windows and queries, match the result of df.cep.window(…). Streaming "
                    "Spark frames take the whole chain, and so does cep.stream(chain, schema)"
                )
            raise CepError(f"a query is text, a pattern or a query object; got {kind}{chain}")
        return query
    if not query.strip():
        raise CepError("the query is empty; write a regex, 'a b+', or a sequence, 'PATTERN SEQ(A a, B b)'")
    if re.match(r"\s*(?ai:SEQ|AND|OR)\s*\(", query):
        raise PatternSyntaxError("the text of a sequence query begins with PATTERN", query, 0)
    word = re.match(r"\s*(?P<word>\w+)\s+(?ai:SEQ|AND|OR)\s*\(", query)
    if word is not None and (hint := nearest(word["word"], ["PATTERN"])):
        message = f"the text of a sequence query begins with PATTERN, not {word['word']!r}.{hint}"
        raise PatternSyntaxError(message, query, word.start("word"), len(word["word"]))
    return query


def _as_sequence(query: Query, given: Arguments) -> SequenceQuery:
    from cepkit.language.sequences.construction import sequence_query

    if given.define:
        raise CepError(
            "define belongs to regex patterns; write the conditions of an event sequence in its WHERE"
        )
    options = {
        item.name: getattr(given, item.name)
        for item in fields(given)
        if item.name != "define" and not _is(item.default, getattr(given, item.name))
    }
    return sequence_query(query, **options)


def _as_regex(query: str | Pattern | RegexQuery, given: Arguments) -> RegexQuery:
    if not isinstance(query, RegexQuery):
        return regex_query(
            query,
            define=given.define,
            measures=given.measures,
            partition_by=given.partition_by,
            order_by=given.order_by,
            within=given.within,
            within_closed=given.within_closed,
            params=given.params,
        )
    added = [
        name for name in ("define", "partition_by", "order_by", "within", "measures") if getattr(given, name)
    ]
    if twice := [name for name in added if getattr(query, name)]:
        raise CepError(f"{twice} is given both in the query and as a keyword; give it once")
    params = {**dict(query.params), **(given.params or {})}
    within_closed = given.within_closed and query.within_closed
    if not added:
        return replace(query, params=tuple(params.items()), within_closed=within_closed)
    return regex_query(
        query.pattern,
        define=given.define or dict(query.define) or None,
        measures=given.measures or (dict(query.measures) if query.measures else None),
        partition_by=given.partition_by or query.partition_by or None,
        order_by=given.order_by or query.order_by or None,
        within=given.within or query.within,
        within_closed=within_closed,
        params=params or None,
    )


def _is(expected: object, value: object) -> bool:
    """Return whether a keyword has a value; arrays have none."""
    return value is expected or (type(value) is type(expected) and value == expected)


def _only_for_sequences(**keywords: Any) -> None:
    used = [name for name, value in keywords.items() if value is not None and not _is(False, value)]
    if used:
        raise UnsupportedQueryError(
            f"{used} belong to event sequences; a regex query matches contiguous rows in one way: the "
            "earliest end, then the earliest start, then the same after that match"
        )
