"""Build event sequences in Python: ``event``, ``seq``, ``all_of``, ``any_of``, and queries made from them."""

# Example: ``a, b = event("a", "GOOG"), event("b", "AAPL")`` and
# ``seq(a, b.plus()).where(b["volume"] > a["volume"]).within("5 min")``.

from __future__ import annotations

from typing import Any, overload

from cepkit.errors import CepError
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.operands import Operand
from cepkit.language.sequences.checks import check_name
from cepkit.language.sequences.construction import READERS, make_query
from cepkit.language.sequences.patterns import (
    AllOf,
    AnyOf,
    EventPattern,
    QueryMethods,
    SequenceOf,
    SequencePattern,
    SequenceQuery,
    WholeQuery,
    as_part,
    extend_query,
)
from cepkit.values import dataclass, replace


def event(variable: str, event_type: str | int | bool | None = None) -> EventPattern:
    """Return the pattern of one event.

    Parameters
    ----------
    variable : str
        Name of the event in conditions, measures and results; an identifier.
    event_type : str or int or bool, optional
        Type of the event, a value of the query's ``event_type`` column; None for any type.

    Returns
    -------
    EventPattern
        ``b["volume"]`` is the value of a column. ``b.where("volume > 100")`` puts a condition on the event.
        ``b.plus()``, ``star``, ``optional``, ``times`` and ``at_least`` repeat it; ``b.not_()`` forbids it.
        A repeated event has single values ``b.current["x"]``, ``b.previous["x"]``, ``b.first["x"]``,
        ``b.last["x"]`` and ``b[2]["x"]``. ``b.count()``, ``b.avg("x")`` and so on aggregate all its events,
        and ``b.before.avg("x")`` all events before the current one.

    Raises
    ------
    CepError
        If the name or the type is not valid.

    Examples
    --------
    >>> a, b = event("a", "GOOG"), event("b", "AAPL")
    >>> print(seq(a, b.plus()).where(b["volume"] > a["volume"] * 1.05).within("5 min"))
    PATTERN SEQ(GOOG a, AAPL+ b[])
    WHERE skip_till_any_match AND b.volume > a.volume * 1.05
    WITHIN 5 min
    """
    is_of_numpy = getattr(event_type, "shape", None) == ()
    pattern = EventPattern(
        variable, getattr(event_type, "item", lambda: event_type)() if is_of_numpy else event_type
    )
    check_name(pattern)
    return pattern


@overload
def seq(*parts: SequencePattern) -> SequencePattern: ...
@overload
def seq(*parts: pt.Pattern | str) -> pt.Pattern: ...
def seq(*parts: SequencePattern | pt.Pattern | str) -> SequencePattern | pt.Pattern:
    """Return the parts one after the other: events as a sequence, predicate names as a regex pattern.

    Examples
    --------
    >>> str(seq(event("a", "A"), event("b", "B").not_(), event("c", "C")))
    'SEQ(A a, !B b, C c)'
    >>> str(seq("large", pt.var("rise").plus()))
    'large rise+'
    """
    if (of_regex := _parts_of_regex("seq", parts)) is not None:
        return pt.seq(*of_regex)
    return SequenceOf(tuple(map(as_part, parts)), (None,) * len(parts))


@overload
def any_of(*options: SequencePattern) -> SequencePattern: ...
@overload
def any_of(*options: pt.Pattern | str) -> pt.Pattern: ...
def any_of(*options: SequencePattern | pt.Pattern | str) -> SequencePattern | pt.Pattern:
    """Return the alternative of two or more options, events or predicate names.

    Examples
    --------
    >>> str(any_of(event("a", "A"), event("b", "B"))), str(any_of("rise", "fall"))
    ('OR(A a, B b)', 'rise | fall')
    """
    if (of_regex := _parts_of_regex("any_of", options)) is not None:
        return pt.any_of_patterns(*of_regex)
    return AnyOf(_several("any_of", options))


def all_of(*parts: SequencePattern) -> AllOf:
    """Return two or more parts in any order; the parts are events.

    Examples
    --------
    >>> str(all_of(event("a", "A"), event("b", "B")))
    'AND(A a, B b)'
    """
    if _parts_of_regex("all_of", parts) is not None:
        raise CepError("all_of: its parts must be events, as in all_of(event('a', 'A'), event('b', 'B'))")
    return AllOf(_several("all_of", parts))


def param(name: str) -> Operand:
    """Return the parameter ``:name``, a constant whose value ``params`` gives.

    Examples
    --------
    >>> print(event("a")["price"] > param("least"))
    a.price > :least
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise CepError(f"param: the name of a parameter must be an identifier, got {name!r}")
    return Operand(ex.Parameter(name))


@dataclass(frozen=True, slots=True)
class QueryBuilder(WholeQuery, QueryMethods):
    """A sequence query under construction. Each method returns a new one; functions accept it as a query.

    Some checks need the complete query: greedy loops under the strategy, absent events at an edge without a
    window, parameters. They run when the query is used, by `sequence_query` or ``match``.
    """

    query: SequenceQuery  # the query so far

    def __bool__(self) -> bool:
        raise TypeError("a query has no truth value; pass it to match")

    def __str__(self) -> str:
        return str(self.query)

    def __repr__(self) -> str:
        return f"<query {self.query}>"


@extend_query.register
def _(query: SequencePattern, **said: Any) -> QueryMethods:
    return extend_query(QueryBuilder(make_query(SequenceQuery(query))), **said)


@extend_query.register
def _(query: QueryBuilder, *, where: tuple[Any, ...] = (), **said: Any) -> QueryBuilder:
    if where:
        return QueryBuilder(make_query(query.query, where))
    read = {name: READERS[name](value) for name, value in said.items() if value is not None}
    return QueryBuilder(make_query(replace(query.query, **read)))


def _parts_of_regex(function: str, parts: tuple[object, ...]) -> tuple[pt.Pattern | str, ...] | None:
    """Return the parts of a regex, None when they are events; raise if only some are, or one is neither."""
    kinds = [isinstance(part, SequencePattern | QueryBuilder | SequenceQuery) for part in parts]
    for part, is_event in zip(parts, kinds, strict=True):
        if not is_event and not isinstance(part, str | pt.Pattern):
            raise CepError(
                f"{function}: expected events or predicate names, got {type(part).__name__} {part!r}"
            )
    if any(kinds) and not all(kinds):
        odd = parts[kinds.index(False)]
        raise CepError(
            f"{function}: events and names of predicates cannot be mixed; {str(odd)!r} is a name of a regex "
            f"pattern; write an event of that type as event('x', {str(odd)!r})"
        )
    return None if any(kinds) else tuple(part for part in parts if isinstance(part, str | pt.Pattern))


def _several(function: str, parts: tuple[object, ...]) -> tuple[SequencePattern, ...]:
    if len(parts) < 2:
        raise CepError(f"{function}: expected at least two parts, got {len(parts)}")
    return tuple(map(as_part, parts))
