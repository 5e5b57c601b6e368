"""`translate`: the same query in another language."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from cepkit.errors import CepError, UnsupportedQueryError, nearest
from cepkit.language.match_recognize.printing import print_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows
from cepkit.language.recognizing import is_match_recognize
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.queries import QueryKeywords, read_arguments, takes_query_keywords
from cepkit.translation.chains import RowChain, refuse, with_values
from cepkit.translation.to_chains import (
    CONTIGUOUS,
    chain_of_regex,
    chain_of_rows,
    chain_of_sequence,
    steps_of,
)

if TYPE_CHECKING:
    from cepkit.planning.queries import Query

TARGETS = ("sase", "regex", "match_recognize", "siddhi", "flink_cep_java", "python")
_SIDDHI = re.compile(r"\s*(?ai:from\s|partition\s+with\b|define\s+stream\b|@)")
AnyQuery = RegexQuery | SequenceQuery | RowPatternQuery


@takes_query_keywords
def translate(query: Query, to: str, **keywords: Unpack[QueryKeywords]) -> str:
    """Print a query in another language, if it has the same meaning there.

    Parameters
    ----------
    query : str, pattern or query
        As for `match`: SASE's sequences, a regex with ``define``, SQL's MATCH_RECOGNIZE, or a query of the
        Python builder.
    to : str
        ``"sase"``, ``"regex"`` and ``"python"`` give Python text that calls ``df.cep.match``.
        ``"match_recognize"`` gives the clause of SQL. ``"siddhi"`` gives a query of SiddhiQL over streams
        that have the names of the event types. ``"flink_cep_java"`` gives a pattern of FlinkCEP over events
        with getters.
    **keywords

    Returns
    -------
    str
        The text. It finds the same matches, row for row. Values of ``params`` are in the text.

    Raises
    ------
    UnsupportedQueryError
        For a clause that has no equal in the target language. The message names the clause and the reason.
    CepError
        For an unknown target, and for queries that `match` refuses.

    Notes
    -----
    The languages choose among matches in different ways. A regex reports the earliest end, SQL the leftmost
    start with a preference, a sequence all matches under its strategy, SiddhiQL the next event that fits.
    These are the pairs in which some queries have an equal:

    =================  ====================================================================================
    to                 from
    =================  ====================================================================================
    sase, python       sequences: all. Regexes and SQL: chains.
    regex              regexes: all. SQL: chains and unique ends. Sequences: chains whose matches do not
                       overlap (``after_match="past_last"``).
    match_recognize    SQL: all. Regexes: chains and unique ends. Sequences: chains, and single events under
                       ``skip_till_next_match``.
    siddhi             sequences of single events with types under ``skip_till_next_match``; chains without
                       types and keys, whose matches may overlap.
    flink_cep_java     sequences with loops, options and absent events, at ``scope="edge"`` for loops. Regexes
                       and SQL: chains.
    =================  ====================================================================================

    A *chain* is a pattern of a fixed number of neighbouring rows, whose conditions read these rows and rows
    before them at fixed distances. A pattern has *unique ends* if its last part is a single row that ends all
    loops: its condition excludes those of all other rows, and no condition reads the match so far. A loop at
    the end of a regex counts with its fewest rounds, since a regex reports the earliest end.

    SiddhiQL and Java have other rules for missing values, so their texts are for columns without them. Whole
    numbers divide differently, so ``/`` and ``%`` are refused between families of languages, and so are sums
    and averages.

    Examples
    --------
    >>> import cepkit as cep
    >>> print(cep.translate("low high{2}", "match_recognize", order_by="ts", measures={"top": "last(price)"},
    ...                     define={"low": "price < 3", "high": "price > prev(price)"}))
    MATCH_RECOGNIZE (
      ORDER BY ts
      MEASURES HIGH2.price AS top
      ONE ROW PER MATCH
      AFTER MATCH SKIP PAST LAST ROW
      PATTERN (LOW HIGH1 HIGH2)
      DEFINE LOW AS LOW.price < 3, HIGH1 AS HIGH1.price > PREV(HIGH1.price), HIGH2 AS HIGH2.price > \
PREV(HIGH2.price)
    )
    >>> cep.translate("PATTERN SEQ(A a, B b)", "regex", event_type="kind", order_by="ts")
    Traceback (most recent call last):
    cepkit.errors.UnsupportedQueryError: skip_till_any_match has no equal in 'regex': it reports every \
choice of events, and there a start has one match
    """
    if not isinstance(to, str) or to not in TARGETS:
        raise CepError(f"to={to!r}.{nearest(str(to), TARGETS)} Targets: {list(TARGETS)}")
    return _PRINTERS[to](read_query(to, query, keywords))


def read_query(to: str, query: Any, keywords: Any) -> AnyQuery:
    """Return a query as a value, with the values of its parameters in its conditions."""
    from cepkit.planning.queries import as_query

    arguments = read_arguments(translate, keywords)
    if isinstance(query, str) and is_match_recognize(query):
        from cepkit.language.match_recognize.parsing import parse_match_recognize

        named = [name for name, value in keywords.items() if value is not None and name != "params"]
        if named:
            raise CepError(f"{named}: MATCH_RECOGNIZE has clauses for its options, and takes params= only")
        query = _clause_of(to, parse_match_recognize(query))
        params = dict(arguments.params or {})
        put = lambda entries: tuple((name, with_values(tree, params)) for name, tree in entries)  # noqa: E731
        return replace(query, define=put(query.define), measures=put(query.measures))
    if isinstance(query, RowPatternQuery | SelectedRows | WindowedRows):
        return _clause_of(to, query)
    if isinstance(query, str) and _SIDDHI.match(query):
        raise UnsupportedQueryError("SiddhiQL is only a target of translations; cep.siddhi runs this text")
    return as_query(query, arguments)


def _clause_of(to: str, query: RowPatternQuery | SelectedRows | WindowedRows) -> RowPatternQuery:
    """Return the clause; a SELECT around it must show its rows as they are."""
    if isinstance(query, RowPatternQuery):
        return query
    if isinstance(query, WindowedRows):
        refuse(
            to,
            f"WINDOW {query.name}",
            "its result has a row for each row of the table, with or without a match",
        )
    for clause, is_present in (
        ("the list of SELECT", query.columns is not None), ("WHERE", query.where is not None),
        ("ORDER BY after the clause", query.order_by), ("LIMIT", query.limit is not None),
    ):  # fmt: skip
        if is_present:
            refuse(to, clause, "the result of the clause is the whole answer there")
    return query.rows


def chain_of(to: str, query: AnyQuery) -> RowChain:
    """Return a query as a chain; raise if it is none."""
    if isinstance(query, RegexQuery):
        params = dict(query.params)
        put = lambda entries: tuple((name, with_values(tree, params)) for name, tree in entries)  # noqa: E731
        for name, _ in query.functions:
            refuse(to, f"define: {name}()", "a function of Python has no text")
        measures = None if query.measures is None else put(query.measures)
        return chain_of_regex(to, replace(query, define=put(query.define), measures=measures))
    if isinstance(query, SequenceQuery):
        params = dict(query.params)
        measures = query.measures
        return chain_of_sequence(
            to,
            replace(
                query,
                where=tuple(with_values(tree, params) for tree in query.where),
                measures=None if measures is None
                else tuple((name, with_values(tree, params)) for name, tree in measures),
            ),
        )  # fmt: skip
    return chain_of_rows(to, query)


# --- targets


def _to_sase(query: AnyQuery) -> str:
    from cepkit.translation.calls import print_sase

    return print_sase(sequence_of("sase", query))


def sequence_of(to: str, query: AnyQuery) -> SequenceQuery:
    """Return a query as an event sequence."""
    from cepkit.translation.calls import sequence_of_chain

    if isinstance(query, SequenceQuery):
        return query
    return sequence_of_chain(to, chain_of(to, query))


def _to_regex(query: AnyQuery) -> str:
    from cepkit.translation.calls import print_regex

    return print_regex(regex_of("regex", query))


def regex_of(to: str, query: AnyQuery) -> RegexQuery:
    """Return a query as a regex."""
    from cepkit.translation.calls import regex_of_chain, regex_of_rows

    if isinstance(query, RegexQuery):
        return query
    if isinstance(query, RowPatternQuery) and has_loops(query):
        return regex_of_rows(to, query)
    return regex_of_chain(to, chain_of(to, query))


def has_loops(query: RegexQuery | RowPatternQuery) -> bool:
    """Return whether matches of a pattern may differ in length, as far as its repetitions say."""
    from cepkit.language.match_recognize.patterns import Alternation, Quantified
    from cepkit.language.regex.patterns import Alternative, Repeat
    from cepkit.translation.to_chains import without_open_end

    def has_some(node: Any) -> bool:
        if isinstance(node, Quantified | Repeat) and node.low != node.high:
            return True
        if isinstance(node, Alternation):
            return True
        if isinstance(node, Alternative) and not all(_is_one_row(option) for option in node.options):
            return True
        return any(map(has_some, node.children()))

    return has_some(without_open_end(query.pattern) if isinstance(query, RegexQuery) else query.pattern)


def _is_one_row(node: Any) -> bool:
    from cepkit.language.regex.patterns import AnyEvent, Variable

    return isinstance(node, Variable | AnyEvent)


def _to_match_recognize(query: AnyQuery) -> str:
    from cepkit.translation.match_recognize import rows_of_chain, rows_of_regex, rows_of_skipping

    to = "match_recognize"
    if isinstance(query, RowPatternQuery):
        return print_match_recognize(query)
    if isinstance(query, RegexQuery) and has_loops(query):
        for name, _ in query.functions:
            refuse(to, f"define: {name}()", "a function of Python has no text")
        return print_match_recognize(rows_of_regex(query))
    if isinstance(query, SequenceQuery) and "next" in steps_of(query)[1:]:
        return print_match_recognize(rows_of_skipping(query))
    return print_match_recognize(rows_of_chain(chain_of(to, query)))


def _to_siddhi(query: AnyQuery) -> str:
    from cepkit.translation.siddhi import print_chain_for_siddhi, print_siddhi

    if isinstance(query, SequenceQuery) and not set(steps_of(query)[1:]) <= set(CONTIGUOUS):
        return print_siddhi(query)
    if isinstance(query, SequenceQuery) and len(steps_of(query)) == 1:
        return print_siddhi(query)
    return print_chain_for_siddhi(chain_of("siddhi", query))


def _to_flink(query: AnyQuery) -> str:
    from cepkit.translation.flink_cep_java import print_flink

    return print_flink(sequence_of("flink_cep_java", query))


def _to_python(query: AnyQuery) -> str:
    from cepkit.translation.calls import print_regex_builder, print_sequence_builder

    if isinstance(query, RegexQuery):
        return print_regex_builder(query)
    if isinstance(query, SequenceQuery):
        return print_sequence_builder(query)
    try:
        return print_sequence_builder(sequence_of("python", query))
    except UnsupportedQueryError:
        return print_regex_builder(regex_of("python", query))


_PRINTERS: dict[str, Callable[[AnyQuery], str]] = {
    "sase": _to_sase,
    "regex": _to_regex,
    "match_recognize": _to_match_recognize,
    "siddhi": _to_siddhi,
    "flink_cep_java": _to_flink,
    "python": _to_python,
}
