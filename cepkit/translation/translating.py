"""`translate`: the same query in another language."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from cepkit.errors import CepError, UnsupportedQueryError, nearest
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.printing import print_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows
from cepkit.language.query_parts import is_match_recognize
from cepkit.language.regex import RegexQuery
from cepkit.language.row_patterns import Alternative, AnyEvent, Repeat, Variable
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.queries import (
    QueryKeywords,
    as_query,
    read_arguments,
    refuse_options,
    takes_query_keywords,
)
from cepkit.translation.calls import (
    print_regex,
    print_regex_builder,
    print_sase,
    print_sequence_builder,
    regex_of_chain,
    regex_of_rows,
    sequence_of_chain,
)
from cepkit.translation.chains import RowChain, refuse, refuse_functions, with_all_values
from cepkit.translation.match_recognize import rows_of_chain, rows_of_regex, rows_of_skipping
from cepkit.translation.portable import print_chain_for_siddhi, print_flink, print_siddhi
from cepkit.translation.to_chains import (
    CONTIGUOUS,
    chain_of_regex,
    chain_of_rows,
    chain_of_sequence,
    steps_of,
    without_open_end,
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
    arguments = read_arguments(translate, keywords)
    if isinstance(query, str) and is_match_recognize(query):
        refuse_options(arguments)
        return with_all_values(_clause_of(to, parse_match_recognize(query)), dict(arguments.params or {}))
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
        query.refuse_skips(f"to {to}")
        refuse_functions(to, "define", query)
        return chain_of_regex(to, with_all_values(query, dict(query.params)))
    if isinstance(query, SequenceQuery):
        return chain_of_sequence(to, with_all_values(query, dict(query.params)))
    return chain_of_rows(to, query)


# --- targets


def sequence_of(to: str, query: AnyQuery) -> SequenceQuery:
    if isinstance(query, SequenceQuery):
        return query
    return sequence_of_chain(to, chain_of(to, query))


def regex_of(to: str, query: AnyQuery) -> RegexQuery:
    """Return the regex query that has the same matches as a query of another language."""
    if isinstance(query, RegexQuery):
        return query
    if isinstance(query, RowPatternQuery) and has_loops(query):
        return regex_of_rows(to, query)
    return regex_of_chain(to, chain_of(to, query))


def has_loops(query: RegexQuery | RowPatternQuery) -> bool:
    """Return whether matches of a pattern may differ in length, as far as its repetitions say."""

    def has_some(node: Any) -> bool:
        if isinstance(node, Alternative):  # SQL prefers one of the options
            return not is_regex or not all(map(_is_one_row, node.options))
        return isinstance(node, Repeat) and node.low != node.high

    is_regex = isinstance(query, RegexQuery)
    return any(map(has_some, (without_open_end(query.pattern) if is_regex else query.pattern).walk()))


def _is_one_row(node: Any) -> bool:
    return isinstance(node, Variable | AnyEvent)


def _to_match_recognize(query: AnyQuery) -> str:
    """Return the SQL text of a query: with loops where the query has them, otherwise with one row each."""
    to = "match_recognize"
    if isinstance(query, RowPatternQuery):
        return print_match_recognize(query)
    if isinstance(query, RegexQuery) and has_loops(query):
        query.refuse_skips(f"to {to}")
        refuse_functions(to, "define", query)
        return print_match_recognize(rows_of_regex(query))
    if isinstance(query, SequenceQuery) and "next" in steps_of(query)[1:]:
        return print_match_recognize(rows_of_skipping(query))
    return print_match_recognize(rows_of_chain(chain_of(to, query)))


def _to_siddhi(query: AnyQuery) -> str:
    if isinstance(query, SequenceQuery) and not set(steps_of(query)[1:]) <= set(CONTIGUOUS):
        return print_siddhi(query)
    if isinstance(query, SequenceQuery) and len(steps_of(query)) == 1:
        return print_siddhi(query)
    return print_chain_for_siddhi(chain_of("siddhi", query))


def _to_python(query: AnyQuery) -> str:
    """Return the Python text that builds a query."""
    if isinstance(query, RegexQuery):
        return print_regex_builder(query)
    if isinstance(query, SequenceQuery):
        return print_sequence_builder(query)
    try:
        return print_sequence_builder(sequence_of("python", query))
    except UnsupportedQueryError:
        return print_regex_builder(regex_of("python", query))


_PRINTERS: dict[str, Callable[[AnyQuery], str]] = {
    "sase": lambda query: print_sase(sequence_of("sase", query)),
    "regex": lambda query: print_regex(regex_of("regex", query)), "match_recognize": _to_match_recognize,
    "siddhi": _to_siddhi, "flink_cep_java": lambda query: print_flink(sequence_of("flink_cep_java", query)),
    "python": _to_python,
}  # fmt: skip
