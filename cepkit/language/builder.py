"""Event sequences in Python: ``event``, ``seq``, ``all_of``, ``any_of``, and queries made of them.

``a, b = event("a", "GOOG"), event("b", "AAPL")`` and
``seq(a, b.plus()).where(b["volume"] > a["volume"]).within("5 min")``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cepkit.errors import CepError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.operands import Operand
from cepkit.language.query_parts import Duration
from cepkit.language.regex import patterns as pt
from cepkit.language.sequences.checks import check_name
from cepkit.language.sequences.patterns import (
    STRATEGIES,
    AllOf,
    AnyOf,
    EventPattern,
    Loop,
    SequenceOf,
    SequencePattern,
)
from cepkit.language.sequences.query import SequenceQuery
from cepkit.language.sequences.reading import READERS, made_query, read_conditions


def event(variable: str, event_type: str | int | bool | None = None) -> EventPattern:
    """Return the pattern of one event.

    Parameters
    ----------
    variable : str
        The name of the event in conditions, measures and results: an identifier.
    event_type : str or int or bool, optional
        Its type, a value of the query's ``event_type`` column; None for any.

    Returns
    -------
    EventPattern
        ``b["volume"]`` is the value of a column; ``b.where("volume > 100")`` puts a condition on the event;
        ``b.plus()``, ``star``, ``optional``, ``times``, ``at_least`` repeat it, ``b.not_()`` forbids it. Of a
        repeated event, ``b.current["x"]``, ``b.previous["x"]``, ``b.first["x"]``, ``b.last["x"]`` and
        ``b[2]["x"]`` are single values, ``b.count()``, ``b.avg("x")`` and so on those of all, and
        ``b.before.avg("x")`` those of all before the current one.

    Raises
    ------
    CepError
        When the name or the type cannot be one.

    Examples
    --------
    >>> a, b = event("a", "GOOG"), event("b", "AAPL")
    >>> print(seq(a, b.plus()).where(b["volume"] > a["volume"] * 1.05).within("5 min"))
    PATTERN SEQ(GOOG a, AAPL+ b[])
    WHERE skip_till_any_match AND b.volume > a.volume * 1.05
    WITHIN 5 min
    """
    if getattr(event_type, "shape", None) == () and hasattr(event_type, "item"):
        event_type = event_type.item()  # numpy's numbers
    made = EventPattern(variable, event_type)
    check_name(made)
    return made


def seq(*parts: SequencePattern | pt.Pattern | str) -> SequencePattern | pt.Pattern:
    """Return the parts one after the other: of events a sequence, of names of predicates a regex pattern.

    Examples
    --------
    >>> str(seq(event("a", "A"), event("b", "B").not_(), event("c", "C")))
    'SEQ(A a, !B b, C c)'
    >>> str(seq("large", pt.var("rise").plus()))
    'large rise+'
    """
    if not _are_events("seq", parts):
        return pt.seq(*parts)
    return SequenceOf(tuple(map(as_part, parts)), (None,) * len(parts))


def any_of(*options: SequencePattern | pt.Pattern | str) -> SequencePattern | pt.Pattern:
    """Return the alternative of the options (two or more), of events or of names of predicates.

    Examples
    --------
    >>> str(any_of(event("a", "A"), event("b", "B"))), str(any_of("rise", "fall"))
    ('OR(A a, B b)', 'rise | fall')
    """
    if not _are_events("any_of", options):
        return pt.any_of_patterns(*options)
    return AnyOf(_several("any_of", options))


def all_of(*parts: SequencePattern) -> AllOf:
    """Return the parts (two or more) in any order; they are events.

    Examples
    --------
    >>> str(all_of(event("a", "A"), event("b", "B")))
    'AND(A a, B b)'
    """
    if not _are_events("all_of", parts):
        raise CepError("all_of: its parts are events, as in all_of(event('a', 'A'), event('b', 'B'))")
    return AllOf(_several("all_of", parts))


def param(name: str) -> Operand:
    """Return the parameter ``:name``, a constant whose value comes with ``params``.

    Examples
    --------
    >>> print(event("a")["price"] > param("least"))
    a.price > :least
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise CepError(f"param: the name of a parameter is an identifier, got {name!r}")
    return Operand(ex.Parameter(name))


@dataclass(frozen=True, slots=True)
class QueryBuilder:
    """A sequence query in the making; each method returns a new one, and all functions take it as a query.

    What cannot be judged before all is said (greedy loops under the strategy, events absent at an end without
    a window, parameters) is checked when it is used: by `sequence_query`, or ``match``.

    Parameters
    ----------
    query : SequenceQuery
        What has been said so far.
    """

    query: SequenceQuery

    @classmethod
    def of(cls, pattern: SequencePattern) -> QueryBuilder:
        """Return the query of a pattern alone."""
        return cls(made_query(SequenceQuery(pattern)))

    def where(self, *conditions: str | Operand | ex.Expression) -> QueryBuilder:
        """Return the query with further conditions, text or operands: all must hold.

        Examples
        --------
        >>> a, b = event("a", "A"), event("b", "B")
        >>> print(seq(a, b).where("b.x > a.x", b["y"].isin([1, 2])))
        PATTERN SEQ(A a, B b)
        WHERE skip_till_any_match AND b.x > a.x AND b.y in (1, 2)
        """
        return QueryBuilder(made_query(self.query, conditions))

    def within(self, duration: Duration, *, closed: bool = True) -> QueryBuilder:
        """Return the query with a longest time from the first to the last event; not ``closed``: less."""
        return self._with(within=duration, within_closed=closed)

    def within_events(self, n_events: int) -> QueryBuilder:
        """Return the query with most events of the partition from the first to the last, both counted."""
        return self._with(within_events=n_events)

    def gap_within(self, duration: Duration, *, closed: bool | None = None) -> QueryBuilder:
        """Return the query with a longest time between two successive events of a match.

        ``closed`` counts for `within` too; None leaves it as it is.
        """
        within_closed = self.query.within_closed if closed is None else closed
        return self._with(gap_within=duration, within_closed=within_closed)

    def strategy(self, name: str, *, scope: str = "run") -> QueryBuilder:
        """Return the query under a selection strategy, one of ``STRATEGIES``."""
        return self._with(strategy=name, scope=scope)

    def partition_by(self, *columns: str) -> QueryBuilder:
        """Return the query over partitions: events with equal values in the columns."""
        return self._with(partition_by=columns)

    def evaluation_order(self, *variables: str) -> QueryBuilder:
        """Return the query with the order in which its events are looked for, all named; no match changes."""
        return self._with(evaluation_order=variables)

    def _with(self, **values: Any) -> QueryBuilder:
        read = {name: READERS[name](value) for name, value in values.items()}
        return QueryBuilder(made_query(replace(self.query, **read)))

    def __bool__(self) -> bool:
        raise TypeError("a query has no truth value; it is given to match")

    def __str__(self) -> str:
        return str(self.query)

    def __repr__(self) -> str:
        return f"<query {self.query}>"


# --- what the methods of patterns do ---------------------------------------------------------------------


def as_part(part: object) -> SequencePattern:
    """Return ``part`` when it can stand in a sequence pattern."""
    if isinstance(part, SequencePattern):
        return part
    if isinstance(part, QueryBuilder | SequenceQuery):
        raise CepError(
            "a query cannot be part of a pattern: conditions and windows belong to the whole; "
            "put where() and within() behind the outermost seq(…)"
        )
    raise CepError(f"expected an event or a pattern of events, got {type(part).__name__} {part!r}")


def repeated(
    body: SequencePattern,
    low: int,
    high: int | None,
    *,
    inner: str | None = None,
    greedy: bool = False,
    reluctant: bool = False,
    until: str | Operand | ex.Expression | None = None,
) -> Loop:
    """Return the loop of ``body``; see `SequencePattern.times`."""
    if greedy and reluctant:
        raise CepError("a loop is either greedy or reluctant; without both, it tries both")
    if inner is not None and inner not in STRATEGIES:
        raise CepError(f"inner: unknown strategy {inner!r}; there are {', '.join(STRATEGIES)}")
    for bound in (low, high):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise CepError(f"how often: expected whole numbers, got {bound!r}")
    preference = "greedy" if greedy else "reluctant" if reluctant else "all"
    condition = None if until is None else _condition(until, "until")
    return Loop(body, low, high, inner=inner, preference=preference, until=condition)


def with_conditions(one: EventPattern, conditions: tuple[Any, ...]) -> EventPattern:
    """Return the event with further conditions of its own."""
    role = f"where of {one.variable!r}"
    more = (part for given in conditions for part in ex.conjuncts(_condition(given, role)))
    return replace(one, conditions=(*one.conditions, *more))


def _condition(given: Any, role: str) -> ex.Expression:
    (condition,) = read_conditions([given], role)
    return condition


def _are_events(function: str, parts: tuple[object, ...]) -> bool:
    """Whether the parts are events; raises when only some are, or one is neither."""
    kinds = [isinstance(part, SequencePattern | QueryBuilder | SequenceQuery) for part in parts]
    for part, is_event in zip(parts, kinds, strict=True):
        if not is_event and not isinstance(part, str | pt.Pattern):
            raise CepError(
                f"{function}: expected events, or names of predicates, got {type(part).__name__} {part!r}"
            )
    if any(kinds) and not all(kinds):
        odd = parts[kinds.index(False)]
        raise CepError(
            f"{function}: events and names of predicates cannot be mixed; {str(odd)!r} is a name of a regex "
            f"pattern, an event of that type is event('x', {str(odd)!r})"
        )
    return any(kinds)


def _several(function: str, parts: tuple[object, ...]) -> tuple[SequencePattern, ...]:
    if len(parts) < 2:
        raise CepError(f"{function}: expected two parts or more, got {len(parts)}")
    return tuple(map(as_part, parts))
