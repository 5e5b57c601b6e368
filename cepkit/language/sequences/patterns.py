"""Event sequence patterns as a tree of small frozen values: events in order, some repeated, some absent.

Their methods are the Python way to write a pattern; `cepkit.language.builder` does the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cepkit.errors import CepError
from cepkit.language.expressions.operands import Aggregates, EarlierEvents, EventValues, Operand, value_of
from cepkit.language.expressions.trees import BEFORE, CURRENT, LAST, Expression, Reference

if TYPE_CHECKING:
    from cepkit.language.builder import QueryBuilder

Span = tuple[int, int]

# How much may be skipped between two events of a match, from the least to the most; the names of the
# selection strategies. ``partition``: nothing of the partition; ``next``: nothing relevant.
STRATEGIES = ("strict", "partition", "next", "any")
PREFERENCES = ("all", "greedy", "reluctant")


@dataclass(frozen=True, slots=True)
class SequencePattern:
    """Base of all nodes of a sequence pattern."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the direct parts, in reading order."""
        return ()

    def walk(self) -> Iterator[SequencePattern]:
        """Yield this node and all below it, parents first, in reading order."""
        yield self
        for child in self.children():
            yield from child.walk()

    def plus(self, **options: Any) -> Loop:
        """Return the pattern one or more times; for the options see `times`."""
        return self._repeated(1, None, **options)

    def star(self, **options: Any) -> Loop:
        """Return the pattern any number of times, also none; for the options see `times`."""
        return self._repeated(0, None, **options)

    def optional(self) -> Loop:
        """Return the pattern once or not at all."""
        return self._repeated(0, 1)

    def at_least(self, low: int, **options: Any) -> Loop:
        """Return the pattern ``low`` or more times; for the options see `times`."""
        return self._repeated(low, None, **options)

    def times(self, low: int, high: int | None = None, **options: Any) -> Loop:
        """Return the pattern exactly ``low`` times, or from ``low`` to ``high`` times.

        Parameters
        ----------
        low, high : int
            How often.
        inner : str, optional
            What may be skipped between two rounds, one of ``STRATEGIES``.
        greedy, reluctant : bool
            Where an event both continues the loop and begins what follows: only continue, or only begin.
        until : str or Operand, optional
            The loop ends before the first event behind its first round that fulfils this; bare columns are
            that event's.
        """
        return self._repeated(low, low if high is None else high, **options)

    def _repeated(self, low: int, high: int | None, **options: Any) -> Loop:
        from cepkit.language.sequences.patterns import repeated

        return repeated(self, low, high, **options)

    def not_(self) -> AbsentPattern:
        """Return that no such event occurs here; for single events."""
        raise CepError(f"'{self}' cannot be absent; not_() is for one event, as in event('b', 'B').not_()")

    def then(self, part: SequencePattern, *, strict: bool = False) -> SequenceOf:
        """Return this and then ``part``, nothing of the partition (``strict``: nothing at all) between."""
        return self._followed(part, "strict" if strict else "partition")

    def followed_by(self, part: SequencePattern) -> SequenceOf:
        """Return this and then ``part``, with nothing relevant between: skip till next match."""
        return self._followed(part, "next")

    def followed_by_any(self, part: SequencePattern) -> SequenceOf:
        """Return this and then ``part``, with anything between: skip till any match."""
        return self._followed(part, "any")

    def _followed(self, part: SequencePattern, step: str) -> SequenceOf:
        from cepkit.language.sequences.patterns import as_part

        return SequenceOf((self, as_part(part)), (None, step))

    def where(self, *conditions: Any) -> Any:
        """Return the query of this pattern with conditions, as `QueryBuilder.where`."""
        return self._query().where(*conditions)

    def within(self, duration: Any, *, closed: bool = True) -> QueryBuilder:
        """Return the query of this pattern in a time window, as `QueryBuilder.within`."""
        return self._query().within(duration, closed=closed)

    def within_events(self, n_events: int) -> QueryBuilder:
        """Return the query of this pattern in a window of events, as `QueryBuilder.within_events`."""
        return self._query().within_events(n_events)

    def gap_within(self, duration: Any, *, closed: bool | None = None) -> QueryBuilder:
        """Return the query of this pattern with a longest gap, as `QueryBuilder.gap_within`."""
        return self._query().gap_within(duration, closed=closed)

    def strategy(self, name: str, *, scope: str = "run") -> QueryBuilder:
        """Return the query of this pattern under a selection strategy, as `QueryBuilder.strategy`."""
        return self._query().strategy(name, scope=scope)

    def partition_by(self, *columns: str) -> QueryBuilder:
        """Return the query of this pattern over partitions, as `QueryBuilder.partition_by`."""
        return self._query().partition_by(*columns)

    def _query(self) -> QueryBuilder:
        from cepkit.language.builder import QueryBuilder

        return QueryBuilder.of(self)

    def __str__(self) -> str:
        from cepkit.language.sequences.printing import print_sequence

        return print_sequence(self)

    def __repr__(self) -> str:
        return f"<pattern {self}>"


@dataclass(frozen=True, slots=True, repr=False)
class EventPattern(SequencePattern, Aggregates):
    """One event, named ``variable``; of any type when ``event_type`` is None.

    ``conditions`` were given on the event alone; a query moves them into its ``where``. ``b["x"]`` is the
    value of a column; where the event is repeated, that of each, and ``b[2]["x"]`` that of the second.
    """

    variable: str
    event_type: str | int | bool | None = None
    conditions: tuple[Expression, ...] = ()

    __iter__ = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"an event has no attribute {name!r}; the value of a column is {self.variable}[{name!r}]"
        )

    def __getitem__(self, name: str | int) -> Operand | EventValues:
        if isinstance(name, int) and not isinstance(name, bool):
            if name < 1:
                raise CepError(
                    f"{self.variable}[{name}]: events count from 1; the last is {self.variable}.last"
                )
            return EventValues(self.variable, name)
        return value_of(self.variable, name)

    @property
    def current(self) -> EventValues:
        """The event being taken of a repeated one: ``b.current["x"]`` is ``b[i].x``."""
        return EventValues(self.variable, CURRENT)

    @property
    def previous(self) -> EventValues:
        """The event before it of a repeated one: ``b.previous["x"]`` is ``b[i-1].x``."""
        return EventValues(self.variable, BEFORE)

    @property
    def first(self) -> EventValues:
        """The first event of a repeated one: ``b.first["x"]`` is ``b[1].x``."""
        return EventValues(self.variable, 1)

    @property
    def last(self) -> EventValues:
        """The last event of a repeated one: ``b.last["x"]`` is ``b[LEN].x``."""
        return EventValues(self.variable, LAST)

    @property
    def before(self) -> EarlierEvents:
        """All events before the one being taken: ``b.before.avg("x")`` is ``avg(b[..i-1].x)``."""
        return EarlierEvents(self.variable)

    def _reference(self, name: str | None) -> Reference:
        return Reference(self.variable, name)

    def where(self, *conditions: Any) -> EventPattern:
        """Return the event with conditions of its own, text or operands; bare columns are the event's."""
        from cepkit.language.builder import with_conditions

        return with_conditions(self, conditions)

    def not_(self) -> AbsentPattern:
        """Return that no such event occurs here."""
        return AbsentPattern(self)


@dataclass(frozen=True, slots=True, repr=False)
class SequenceOf(SequencePattern):
    """The parts (one or more) in this order.

    ``steps[i]`` says what may be skipped before part i (one of ``STRATEGIES``; None: what the query's
    strategy says); the first is None.
    """

    parts: tuple[SequencePattern, ...]
    steps: tuple[str | None, ...]

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the parts."""
        return self.parts

    def _followed(self, part: SequencePattern, step: str) -> SequenceOf:
        from cepkit.language.sequences.patterns import as_part

        return SequenceOf((*self.parts, as_part(part)), (*self.steps, step))


@dataclass(frozen=True, slots=True, repr=False)
class AllOf(SequencePattern):
    """All parts (two or more), in any order."""

    parts: tuple[SequencePattern, ...]

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the parts."""
        return self.parts


@dataclass(frozen=True, slots=True, repr=False)
class AnyOf(SequencePattern):
    """One of the options (two or more); a match that two options find is found twice."""

    options: tuple[SequencePattern, ...]

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the options."""
        return self.options


@dataclass(frozen=True, slots=True, repr=False)
class Loop(SequencePattern):
    """``body`` at least ``low`` times and at most ``high`` times (None: no limit); Kleene closure and ``?``.

    Parameters
    ----------
    body : SequencePattern
        An event or a sequence.
    inner : str, optional
        What may be skipped between two rounds; None: what the query's strategy says.
    preference : str
        ``all`` rounds counts an event allows, or where an event both continues the loop and begins what
        follows: ``greedy`` continues only, ``reluctant`` begins only. Not under strategy ``any``.
    until : Expression, optional
        The first event after the first round that fulfils this ends the loop and is not part of it. Columns
        alone are that event's; events that each match has in front of the loop have their names.
    """

    body: SequencePattern
    low: int
    high: int | None
    inner: str | None = None
    preference: str = "all"
    until: Expression | None = None

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the body."""
        return (self.body,)

    def where(self, *conditions: Any) -> Any:
        """Return the repeated event with conditions on each; a group makes a query, `QueryBuilder.where`."""
        if not isinstance(self.body, EventPattern):
            return SequencePattern.where(self, *conditions)
        return replace(self, body=self.body.where(*conditions))

    def __post_init__(self) -> None:
        if self.low < 0 or (self.high is not None and self.high < max(1, self.low)):
            high = "" if self.high is None else self.high
            raise CepError(
                f"repetition {{{self.low},{high}}} of {self.body}: it needs 0 <= low <= high and high >= 1"
            )

    def __getitem__(self, name: object) -> Any:
        events = event_patterns(self.body)
        raise CepError(
            f"{self}: values are taken of the event before it is repeated, as in "
            f"{events[0].variable}[{name!r}] with {events[0].variable} = event(…)"
        )


@dataclass(frozen=True, slots=True, repr=False)
class AbsentPattern(SequencePattern):
    """No such event where it stands: between its neighbours, or within the window before or behind all."""

    body: EventPattern

    def where(self, *conditions: Any) -> AbsentPattern:
        """Return that no such event occurs that fulfils the conditions; bare columns are the event's."""
        return AbsentPattern(self.body.where(*conditions))

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the event that must not occur."""
        return (self.body,)


def event_patterns(pattern: SequencePattern) -> tuple[EventPattern, ...]:
    """Return the events of ``pattern``, absent ones too, in reading order."""
    return tuple(node for node in pattern.walk() if isinstance(node, EventPattern))


def group_variables(pattern: SequencePattern) -> frozenset[str]:
    """Return the variables that stand for several events: those in a loop of more than one round."""
    return frozenset(
        inner.variable
        for node in pattern.walk()
        if isinstance(node, Loop) and node.high != 1
        for inner in event_patterns(node)
    )
