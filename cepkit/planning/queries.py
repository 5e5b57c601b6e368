"""The keywords of a query, defined once for all calls that take them, and queries made from them."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, cast

from cepkit.errors import CepError, PatternSyntaxError, UnsupportedQueryError, in_short, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import registered_functions
from cepkit.language.query_parts import call_of_match_recognize, is_match_recognize, other_language
from cepkit.language.regex import RegexQuery, regex_query
from cepkit.language.row_patterns import Pattern
from cepkit.planning.plans import Recent, key_or_none, remembered
from cepkit.values import dataclass, fields, replace

if TYPE_CHECKING:
    from cepkit.language.query_parts import Duration
    from cepkit.language.sequences.patterns import QueryMethods, SequenceQuery


PARAMETERS = """\
    define : mapping of str to (str, callable or boolean Series), optional
        Predicates by name, for regex queries. Aggregates in them range over the rows of the match before the
        current one. A callable gets the values of the columns that its arguments name. With one other
        argument it gets the frame: ``lambda df: df.ts.dt.hour == 5``. Frames in memory take a boolean Series
        or array with a value for each row.
    params : mapping of str to value, optional
        Values of ``:name`` in predicates and measures. A new value compiles nothing.
    partition_by : str or list of str, optional
        Columns. Rows with equal values form a partition; matches never cross partitions. A missing value is a
        key like any other. A named level of a pandas index is a column, too.
    order_by : str or list of str, optional
        Columns; the first is the clock. Rows that are equal in them keep their order in the frame, and
        `TieWarning` says when the matches may depend on it. Default in memory: a DatetimeIndex, or else the
        order of the rows. Spark needs a total order.
    within : str, timedelta or int, optional
        Longest time from the first to the last row of a match, on the clock, such as ``"5 min"``. A number
        has the unit of the clock.
    within_closed : bool
        Whether a match that lasts exactly ``within`` counts.
    measures : mapping of str to str, optional
        Result columns. Aggregates in them range over all rows of the match, or over the rows of a name of the
        pattern, as ``last(drop.price)`` and ``count(drop)``.
        Default of a regex: first and last value of every order column, and the count. Default of a sequence:
        the order columns at the event of every variable.
    event_type : str, optional
        Column of event types. A name of a regex that ``define`` does not define is one of its values.
    strategy : str, optional
        What may be skipped between two events of a sequence: ``"any"`` (default), ``"next"``,
        ``"partition"`` or ``"strict"``.
    scope : str
        Under ``"next"``: ``"run"`` skips no event that could continue the match in any way, ``"edge"`` skips
        none that could continue it in the same way.
    strict_time : bool
        Whether successive events of a sequence must differ in time.
    after_match : str, optional
        Where the next match of a regex may begin: after the last row of a match (``"past_last"``, default),
        on it (``"to_last"``), after the first one, so that matches overlap (``"to_next_row"``), or on the
        first or last row of a name (``"to_first(x)"``, ``"to_last(x)"``). With all but the default, each
        match begins as early as it can. For a sequence it says which other matches a match removes:
        ``"none"`` (default), ``"past_last"``, ``"to_next"``, ``"to_first(b)"``, ``"to_last(b)"``. With
        ``"once"`` no event is in two matches: of the matches that an event completes, the one that began
        first takes it (FIFO), or with ``"once_newest"`` the one that began last (LIFO).
    keep : str, optional
        Which of the matches of a regex with one first row counts, ``"shortest"`` (default) or ``"longest"``.
    evaluation_order : list of str, optional
        All variables of a sequence of single events, in search order. The order changes how long the search
        takes, never its matches. Default: the cheapest order for a sample of the events, see `explain`.
    complete_until : time, number or "end", optional
        The data have all events up to this time. An absence that ends later, as that of ``!b`` in
        ``SEQ(a x, !b y) WITHIN 5 min``, is undecided and gives no match; ``matches.undecided()`` has these.
        Default: the last time in the data, of all partitions. ``"end"`` says that no event follows, which
        decides every absence, and needs no window.
"""


class SequenceKeywords(TypedDict, total=False):
    """The keywords of `Arguments` without those of regexes alone, for type checkers."""

    define: Mapping[str, Any] | None
    params: Mapping[str, Any] | None
    partition_by: str | list[str] | None
    order_by: str | list[str] | None
    within: Duration | None
    within_closed: bool
    measures: Mapping[str, Any] | None
    event_type: str | None
    strategy: str | None
    scope: str
    strict_time: bool
    after_match: str | None
    evaluation_order: list[str] | None
    complete_until: Any


class QueryKeywords(SequenceKeywords, total=False):
    """The keywords of `Arguments`, for type checkers."""

    keep: str | None


@dataclass(frozen=True)
class Arguments:
    """The keywords of a call that belong to its query."""

    define: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    partition_by: str | list[str] | None = None
    order_by: str | list[str] | None = None
    within: Duration | None = None
    within_closed: bool = True
    measures: Mapping[str, Any] | None = None
    event_type: str | None = None
    strategy: str | None = None
    scope: str = "run"
    strict_time: bool = False
    after_match: str | None = None
    keep: str | None = None
    evaluation_order: list[str] | None = None
    complete_until: Any = None


NAMES = tuple(field.name for field in fields(Arguments))
_NAMES = frozenset(NAMES)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def read_arguments(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Arguments:
    """Return the keywords of a call as a value."""
    if not keywords.keys() <= _NAMES:
        check_keywords(function.__name__, keywords, NAMES, _own_keywords(function))
    return Arguments(**keywords)


def refuse_options(given: Arguments, *others: str, takes: tuple[str, ...] = ("params",)) -> None:
    """Raise for keywords beside the text of MATCH_RECOGNIZE; ``others`` are those that are no `Arguments`."""
    named = [item.name for item in fields(given) if getattr(given, item.name) != item.default]
    if refused := [*(name for name in named if name not in takes), *others]:
        shown = " and ".join(f"{name}=" for name in takes)
        raise CepError(f"{refused}: MATCH_RECOGNIZE has clauses for its options, and takes {shown} only")


# What people ask for by another word.
_OTHER_WORDS = {
    "reuse": " Each event is used once with after_match='once'.",
    "end": " The data are complete until complete_until=….",
    "where": " Conditions are in the query: PATTERN SEQ(…) WHERE …, or in define= of a regex.",
}
# What other libraries call it.
_SAME_WORDS = (
    ("partition_by", "group_by", "by", "groupby", "key", "keys", "user", "users", "per", "on"),
    ("order_by", "sort_by", "sort", "time", "timestamp", "clock", "time_column"),
    ("within", "window", "max_span", "maxspan", "time_limit"),
    ("gap", "max_gap", "pause", "max_pause", "timeout", "inactivity"),
    ("event_type", "event", "events", "kind", "type", "types", "event_column"),
    ("measures", "aggregates", "agg", "columns", "select"),
)


def check_keywords(call: str, keywords: Mapping[str, Any], *known: tuple[str, ...]) -> None:
    """Raise TypeError for an unknown keyword, with the same message for every call."""
    names = [name for group in known for name in group]
    if wrong := next((name for name in keywords if name not in names), None):
        hint = _OTHER_WORDS.get(wrong) or nearest(wrong, names)
        same = next((words for words in _SAME_WORDS if wrong in words), ())
        if not hint and (meant := next((name for name in names if name in same), None)):
            hint = f" Did you mean {meant!r}?"
        hint = hint or f" Keywords: {[name for name in names if name != 'frame']}"
        raise in_short(TypeError(f"{call}() got an unexpected keyword argument {wrong!r}.{hint}"))


def names_keywords(function: _Function) -> _Function:
    """Return a function whose error for a misspelt keyword proposes the nearest one."""
    names = tuple(p.name for p in inspect.signature(function).parameters.values())

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        check_keywords(function.__name__, keywords, names)
        return function(*args, **keywords)

    return cast(_Function, call)


def _own_keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the keywords of a function that are not those of every query."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in NAMES)


def takes_query_keywords(function: _Function) -> _Function:
    """Show the keywords of a query in the signature and the docstring of a function with ``**keywords``."""
    # Their descriptions replace the line ``**keywords`` of the docstring.
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in parameters}
    queries = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
        )
        for field in fields(Arguments)
        if field.name not in names
    ]
    head = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    function.__dict__["__signature__"] = signature.replace(parameters=[*head, *queries, *keyword_only])
    if function.__doc__:
        # Since Python 3.13 the compiler removes the indentation of docstrings.
        text = textwrap.dedent(PARAMETERS)
        if "keep" in names:  # of its own
            text = re.sub(r"keep : .*\n(?: .*\n)+", "", text)
        documented = [
            textwrap.indent(text, line[: line.index("*")]) if line.strip() == "**keywords" else line
            for line in function.__doc__.splitlines(keepends=True)
        ]
        function.__doc__ = "".join(documented)
    return function


# Queries as values, made from text, patterns or builders and the keywords of a call.

Query: TypeAlias = "str | Pattern | RegexQuery | SequenceQuery | QueryMethods"


_queries = Recent(128)


def as_query(query: Query, given: Arguments) -> RegexQuery | SequenceQuery:
    """Return the query as a value. Keywords cannot repeat what the query itself contains."""
    # Equal arguments return the same value, which is a key of the plan cache.
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
    if isinstance(query, str) and (problem := other_language(query)):
        raise UnsupportedQueryError(problem)
    regex = _check_regex(query)
    _only_for_sequences(
        strategy=given.strategy,
        scope=None if _is("run", given.scope) else given.scope, strict_time=given.strict_time,
        evaluation_order=given.evaluation_order, complete_until=given.complete_until,
    )  # fmt: skip
    return _as_regex(regex, given)


def _is_sequence(query: Query) -> bool:
    """Return whether a query is a sequence: by its first word, or by its type."""
    if isinstance(query, str):
        return query.lstrip().upper().startswith("PATTERN")
    if isinstance(query, Pattern | RegexQuery):
        return False
    from cepkit.language.builder import QueryBuilder
    from cepkit.language.sequences.patterns import SequencePattern, SequenceQuery

    return isinstance(query, SequencePattern | SequenceQuery | QueryBuilder)


def _check_regex(query: object) -> str | Pattern | RegexQuery:
    """Return a query that is no sequence; raise the error for what is no query."""
    if isinstance(query, Pattern | RegexQuery):
        return query
    if not isinstance(query, str):
        advice = ""
        if isinstance(query, list | tuple):
            advice = (
                ". For a chain of windows and queries, match the result of df.cep.window(…). Streaming "
                "Spark frames take the whole chain, and so does cep.stream(chain, schema)"
            )
        kind = type(query).__name__
        raise CepError(f"a query is text, a pattern or a query object; got {kind}{advice}")
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
    """Return a sequence query with the keywords of a call. Raise for keywords of regex queries."""
    from cepkit.language.sequences.construction import sequence_query

    if given.define:
        raise CepError(
            "define belongs to regex patterns; write the conditions of an event sequence in its WHERE"
        )
    if given.keep is not None:
        raise UnsupportedQueryError(
            "keep belongs to regex patterns; in a sequence, GREEDY after a loop takes as many events as it "
            "can"
        )
    options = {
        item.name: getattr(given, item.name)
        for item in fields(given)
        if item.name != "define" and not _is(item.default, getattr(given, item.name))
    }
    return sequence_query(query, **options)


_OF_REGEX = ("define", "partition_by", "order_by", "within", "measures", "after_match", "keep")


def _as_regex(query: str | Pattern | RegexQuery, given: Arguments) -> RegexQuery:
    """Return a regex query with the keywords of a call, which may not repeat those that it has."""
    keywords: dict[str, Any] = {name: getattr(given, name) for name in _OF_REGEX}
    if not isinstance(query, RegexQuery):
        keywords["keep"] = given.keep or "shortest"
        regex = regex_query(query, **keywords, within_closed=given.within_closed, params=given.params)
        return regex if given.event_type is None else _typed_by_names(regex, given.event_type)
    added = {name: value for name, value in keywords.items() if value}
    if twice := [name for name in added if getattr(query, name) not in ((), None, "shortest")]:
        raise CepError(f"{twice} is given both in the query and as a keyword; give it once")
    params = {**dict(query.params), **(given.params or {})}
    within_closed = given.within_closed and query.within_closed
    if not added:
        return replace(query, params=tuple(params.items()), within_closed=within_closed)
    kept: dict[str, Any] = {name: getattr(query, name) or None for name in _OF_REGEX}
    for name in ("define", "measures"):
        kept[name] = kept[name] and dict(kept[name])
    return regex_query(query.pattern, **kept | added, within_closed=within_closed, params=params or None)


def _typed_by_names(query: RegexQuery, event_type: str) -> RegexQuery:
    """Return a query whose names without a definition are values of the column of event types."""
    column = ex.Attribute(event_type)
    typed = ((name, ex.Comparison("==", column, ex.Literal(name))) for name in query.undefined_variables())
    return replace(query, define=(*query.define, *typed))


def _is(expected: object, value: object) -> bool:
    """Return whether a keyword has a value; arrays have none."""
    return value is expected or (type(value) is type(expected) and value == expected)


def _only_for_sequences(**keywords: Any) -> None:
    used = [name for name, value in keywords.items() if value is not None and not _is(False, value)]
    if used:
        raise UnsupportedQueryError(
            f"{used} belong to event sequences; a regex query matches contiguous rows, and after_match and "
            "keep say which of them"
        )
