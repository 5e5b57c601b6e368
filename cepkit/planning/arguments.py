"""The keywords of a query, defined once for every call that takes them. This module knows no queries."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from cepkit.errors import nearest

if TYPE_CHECKING:
    from cepkit.language.query_parts import Duration

PARAMETERS = """\
    define : mapping of str to (str or callable), optional
        Predicates by name, for regex queries. Aggregates in them range over the rows of the match before the
        current one.
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
        Longest time from the first to the last row of a match, on the clock.
    within_closed : bool
        Whether a match that lasts exactly ``within`` counts.
    measures : mapping of str to str, optional
        Result columns. Aggregates in them range over all rows of the match, or over the events of a variable.
        Default of a regex: first and last value of every order column, and the count. Default of a sequence:
        the order columns at the event of every variable.
    event_type : str, optional
        Column of event types, for sequence queries.
    strategy : str, optional
        What may be skipped between two events of a sequence: ``"any"`` (default), ``"next"``,
        ``"partition"`` or ``"strict"``.
    scope : str
        Under ``"next"``: ``"run"`` skips no event that could continue the match in any way, ``"edge"`` skips
        none that could continue it in the same way.
    strict_time : bool
        Whether successive events of a sequence must differ in time.
    after_match : str, optional
        Which other matches a match of a sequence removes: ``"none"`` (default), ``"past_last"``,
        ``"to_next"``, ``"to_first(b)"``, ``"to_last(b)"``.
    evaluation_order : list of str, optional
        All variables of a sequence of single events, in search order. The order changes how long the search
        takes, never its matches. Default: the cheapest order for a sample of the events, see `explain`.
"""


class QueryKeywords(TypedDict, total=False):
    """The keywords of `Arguments`, for type checkers."""

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
    evaluation_order: list[str] | None = None


NAMES = tuple(field.name for field in fields(Arguments))
_NAMES = frozenset(NAMES)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def read_arguments(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Arguments:
    """Return the keywords of a call as a value."""
    if not keywords.keys() <= _NAMES:
        check_keywords(function.__name__, keywords, NAMES, _own_keywords(function))
    return Arguments(**keywords)


def check_keywords(call: str, keywords: Mapping[str, Any], *known: tuple[str, ...]) -> None:
    """Raise TypeError for an unknown keyword, with the same message for every call."""
    names = [name for group in known for name in group]
    if wrong := next((name for name in keywords if name not in names), None):
        raise TypeError(
            f"{call}() got an unexpected keyword argument {wrong!r}.{nearest(wrong, names)} Keywords: {names}"
        )


def names_keywords(function: _Function) -> _Function:
    """Return a function whose error for a misspelt keyword proposes the nearest one."""
    names = tuple(p.name for p in inspect.signature(function).parameters.values())

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        check_keywords(function.__name__, keywords, names)
        return function(*args, **keywords)

    return cast(_Function, call)


def _own_keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in NAMES)


def takes_query_keywords(function: _Function) -> _Function:
    """Show the keywords of a query in the signature and the docstring of a function with ``**keywords``.

    Their descriptions replace the line ``**keywords`` of the docstring.

    """
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    queries = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
        )
        for field in fields(Arguments)
    ]
    head = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    function.__dict__["__signature__"] = signature.replace(parameters=[*head, *queries, *keyword_only])
    if function.__doc__:
        # Since Python 3.13 the compiler removes the indentation of docstrings.
        text = textwrap.dedent(PARAMETERS)
        documented = [
            textwrap.indent(text, line[: line.index("*")]) if line.strip() == "**keywords" else line
            for line in function.__doc__.splitlines(keepends=True)
        ]
        function.__doc__ = "".join(documented)
    return function
