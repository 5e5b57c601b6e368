"""Event sequence patterns as trees of small frozen values: events in order, some repeated, some absent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from cepkit.errors import CepError, nearest
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.operands import Aggregates, EarlierEvents, EventValues, Operand, value_of
from cepkit.language.expressions.trees import (
    BEFORE,
    CURRENT,
    LAST,
    Expression,
    Node,
    Reference,
    conjuncts,
    text_of,
)
from cepkit.language.query_parts import END, Duration, Query
from cepkit.language.row_patterns import check_rounds
from cepkit.limits import EVENTS, refuse_beyond
from cepkit.values import dataclass, field, replace

# Use their methods to write a pattern in Python; `cepkit.language.builder` implements them.


Span = tuple[int, int]

# How much may be skipped between two events of a match, from least to most; the names of the
# selection strategies. ``partition``: nothing of the partition; ``next``: nothing relevant.
STRATEGIES = ("strict", "partition", "next", "any")
PREFERENCES = ("all", "greedy", "reluctant")
_LOOP_OPTIONS = ("inner", "greedy", "reluctant", "until")


class WholeQuery:
    """Base of queries: a query cannot be a part of a pattern."""

    __slots__ = ()


@singledispatch
def extend_query(query: Any, **said: Any) -> QueryMethods:
    """Return a query extended by a method of `QueryMethods`; `cepkit.language.builder` registers it."""
    raise TypeError(f"{type(query).__name__} cannot be extended to a query")


@singledispatch
def read_condition(given: Any, role: str) -> Expression:
    """Return a condition as a tree; `cepkit.language.sequences.construction` registers the converters."""
    raise TypeError(f"{role}: {type(given).__name__} cannot be read")


class QueryMethods:
    """Methods that turn a pattern into a query or extend a query; each returns a new query."""

    __slots__ = ()

    def where(self, *conditions: Any) -> Any:
        """Return the query with further conditions, as text or operands. All must hold."""
        return extend_query(self, where=conditions)

    def within(self, duration: Duration, *, closed: bool = True) -> QueryMethods:
        """Return the query with a longest time from the first to the last event; less if not ``closed``."""
        return extend_query(self, within=duration, within_closed=closed)

    def within_events(self, n_events: int) -> QueryMethods:
        """Return the query with a largest number of events from the first to the last, both included."""
        return extend_query(self, within_events=n_events)

    def gap_within(self, duration: Duration, *, closed: bool | None = None) -> QueryMethods:
        """Return the query with a longest time between two successive events of a match."""
        # ``closed`` also applies to `within`; None keeps the setting.
        return extend_query(self, gap_within=duration, within_closed=closed)

    def strategy(self, name: str, *, scope: str = "run") -> QueryMethods:
        """Return the query with a selection strategy, one of ``STRATEGIES``."""
        return extend_query(self, strategy=name, scope=scope)

    def partition_by(self, *columns: str) -> QueryMethods:
        """Return the query with partitions: events with equal values in the columns."""
        return extend_query(self, partition_by=columns)

    def evaluation_order(self, *variables: str) -> QueryMethods:
        """Return the query with a search order for its events; the matches stay the same."""
        return extend_query(self, evaluation_order=variables)


@dataclass(frozen=True, slots=True)
class SequencePattern(QueryMethods, Node):
    """Base of all nodes of a sequence pattern."""

    def plus(self, **options: Any) -> Loop:
        """Return the pattern repeated one or more times; for the options see `times`."""
        return self._repeat(1, None, **options)

    def star(self, **options: Any) -> Loop:
        """Return the pattern repeated any number of times, including none; for the options see `times`."""
        return self._repeat(0, None, **options)

    def optional(self) -> Loop:
        """Return the pattern repeated once or not at all."""
        return self._repeat(0, 1)

    def at_least(self, low: int, **options: Any) -> Loop:
        """Return the pattern repeated ``low`` or more times; for the options see `times`."""
        return self._repeat(low, None, **options)

    def times(self, low: int, high: int | None = None, **options: Any) -> Loop:
        """Return the pattern repeated exactly ``low`` times, or from ``low`` to ``high`` times."""
        return self._repeat(low, low if high is None else high, **options)

    def _repeat(
        self, low: int, high: int | None, *, inner: str | None = None, greedy: bool = False,
        reluctant: bool = False, until: str | Operand | Expression | None = None, **unknown: Any,
    ) -> Loop:  # fmt: skip
        """Return the loop of this pattern, repeated from `low` to `high` times (None: without end)."""
        for name in unknown:
            raise TypeError(
                f"a loop has no option {name!r}.{nearest(name, _LOOP_OPTIONS)} Options: {list(_LOOP_OPTIONS)}"
            )
        if greedy and reluctant:
            raise CepError("a loop is either greedy or reluctant; omit both to try both")
        if inner is not None and inner not in STRATEGIES:
            raise CepError(f"inner: unknown strategy {inner!r}; there are {', '.join(STRATEGIES)}")
        for bound in (low, high):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
                raise CepError(f"number of rounds: expected whole numbers, got {bound!r}")
        preference = "greedy" if greedy else "reluctant" if reluctant else "all"
        condition = None if until is None else read_condition(until, "until")
        return Loop(self, low, high, inner=inner, preference=preference, until=condition)

    def not_(self) -> AbsentPattern:
        """Return a pattern that requires no such event here; only for single events."""
        raise CepError(f"'{self}' cannot be absent; not_() works on one event, as in event('b', 'B').not_()")

    def then(self, part: SequencePattern, *, strict: bool = False) -> SequenceOf:
        """Return this, then ``part``, with nothing of the partition between (``strict``: nothing at all)."""
        return self._follow_with(part, "strict" if strict else "partition")

    def followed_by(self, part: SequencePattern) -> SequenceOf:
        """Return this, then ``part``, with nothing relevant between them: skip till next match."""
        return self._follow_with(part, "next")

    def followed_by_any(self, part: SequencePattern) -> SequenceOf:
        """Return this, then ``part``, with anything between them: skip till any match."""
        return self._follow_with(part, "any")

    def _follow_with(self, part: SequencePattern, step: str) -> SequenceOf:
        return SequenceOf((self, as_part(part)), (None, step))

    def __repr__(self) -> str:
        return f"<pattern {self}>"


@dataclass(frozen=True, slots=True, repr=False)
class EventPattern(SequencePattern, Aggregates):
    """One event, named ``variable``; of any type if ``event_type`` is None."""

    # ``conditions`` apply to the event alone; a query moves them into its ``where``. ``b["x"]`` is the
    # value of a column; if the event is repeated, of each event, and ``b[2]["x"]`` that of the second.

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
        """The current event of a repeated variable: ``b.current["x"]`` is ``b[i].x``."""
        return EventValues(self.variable, CURRENT)

    @property
    def previous(self) -> EventValues:
        """The event before the current one: ``b.previous["x"]`` is ``b[i-1].x``."""
        return EventValues(self.variable, BEFORE)

    @property
    def first(self) -> EventValues:
        """The first event of a repeated variable: ``b.first["x"]`` is ``b[1].x``."""
        return EventValues(self.variable, 1)

    @property
    def last(self) -> EventValues:
        """The last event of a repeated variable: ``b.last["x"]`` is ``b[LEN].x``."""
        return EventValues(self.variable, LAST)

    @property
    def before(self) -> EarlierEvents:
        """All events before the current one: ``b.before.avg("x")`` is ``avg(b[..i-1].x)``."""
        return EarlierEvents(self.variable)

    def _reference(self, name: str | None) -> Reference:
        return Reference(self.variable, name)

    def where(self, *conditions: Any) -> EventPattern:
        """Return the event with its own conditions, text or operands; plain columns are the event's."""
        role = f"where of {self.variable!r}"
        more = (part for condition in conditions for part in conjuncts(read_condition(condition, role)))
        return replace(self, conditions=(*self.conditions, *more))

    def not_(self) -> AbsentPattern:
        return AbsentPattern(self)


@dataclass(frozen=True, slots=True, repr=False)
class SequenceOf(SequencePattern):
    """One or more parts in this order."""

    # ``steps[i]`` says what may be skipped before part i: one of ``STRATEGIES``, or None for the
    # query's strategy. The first is None.

    parts: tuple[SequencePattern, ...]
    steps: tuple[str | None, ...]

    def _follow_with(self, part: SequencePattern, step: str) -> SequenceOf:
        return SequenceOf((*self.parts, as_part(part)), (*self.steps, step))


@dataclass(frozen=True, slots=True, repr=False)
class AllOf(SequencePattern):
    """Two or more parts in any order."""

    parts: tuple[SequencePattern, ...]


@dataclass(frozen=True, slots=True, repr=False)
class AnyOf(SequencePattern):
    """One of two or more options; a match that two options find is found twice."""

    options: tuple[SequencePattern, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Loop(SequencePattern):
    """``body`` at least ``low`` and at most ``high`` times (None: no limit); Kleene closure and ``?``."""

    body: SequencePattern  # an event or a sequence
    low: int
    high: int | None
    inner: str | None = None  # events that may be skipped between two rounds; None means the query's strategy
    # What an event does if it could both continue the loop and begin the next part: ``all`` tries both,
    # ``greedy`` only continues, ``reluctant`` only begins. Not allowed under strategy ``any``.
    preference: str = "all"
    # The first event after the first round that fulfils this ends the loop and is not part of it. Plain
    # columns are columns of that event; other events have their names and must come before the loop.
    until: Expression | None = None

    def where(self, *conditions: Any) -> Any:
        """Return the repeated event with conditions on each event; for a group, return a query."""
        if not isinstance(self.body, EventPattern):
            return SequencePattern.where(self, *conditions)
        return replace(self, body=self.body.where(*conditions))

    def __post_init__(self) -> None:
        check_rounds(self.low, self.high, self.body)

    def __getitem__(self, name: object) -> Any:
        events = event_patterns(self.body)
        raise CepError(
            f"{self}: take values of the event before you repeat it, as in "
            f"{events[0].variable}[{name!r}] with {events[0].variable} = event(…)"
        )


def last_loops(pattern: SequencePattern) -> Iterator[Loop]:
    """Yield the loops over single events that may end a match."""
    match pattern:
        case Loop(body=EventPattern()):
            yield pattern
        case SequenceOf(parts=parts):
            for part in reversed(parts):
                yield from last_loops(part)
                if not isinstance(part, AbsentPattern) and not (isinstance(part, Loop) and part.low == 0):
                    break
        case Loop() | AllOf() | AnyOf():
            for part in pattern.children():
                yield from last_loops(part)


@dataclass(frozen=True, slots=True, repr=False)
class AbsentPattern(SequencePattern):
    """No such event at this place: between its neighbours, or in the window before or after all of them."""

    body: EventPattern

    def where(self, *conditions: Any) -> AbsentPattern:
        """Return the absent event with conditions; plain columns are the event's."""
        return AbsentPattern(self.body.where(*conditions))


def event_patterns(pattern: SequencePattern) -> tuple[EventPattern, ...]:
    """Return the events of ``pattern``, including absent ones, in reading order."""
    return tuple(node for node in pattern.walk() if isinstance(node, EventPattern))


def group_variables(pattern: SequencePattern) -> frozenset[str]:
    """Return the variables that stand for several events: those in a loop of more than one round."""
    return frozenset(
        inner.variable
        for node in pattern.walk()
        if isinstance(node, Loop) and node.high != 1
        for inner in event_patterns(node)
    )


def as_part(part: object) -> SequencePattern:
    """Return ``part`` if it can be a part of a sequence pattern, else raise."""
    if isinstance(part, SequencePattern):
        return part
    if isinstance(part, WholeQuery):
        raise CepError(
            "a query cannot be part of a pattern: conditions and windows belong to the whole; "
            "put where() and within() after the outermost seq(…)"
        )
    raise CepError(f"expected an event or a pattern of events, got {type(part).__name__} {part!r}")


def check_size(pattern: SequencePattern) -> None:
    """Raise if a pattern has too many events once its repeated groups are written out."""
    cure = "Use a shorter pattern, or a loop over one event, A+ a[]"
    refuse_beyond(EVENTS, _n_events(pattern), "events of the pattern", cure)


def _n_events(pattern: SequencePattern) -> int:
    """Return how many events a pattern names at most, where a loop without end counts as one round."""
    if isinstance(pattern, EventPattern | AbsentPattern):
        return 1
    if isinstance(pattern, Loop):
        rounds = 1 if isinstance(pattern.body, EventPattern) else pattern.high or 1
        return rounds * _n_events(pattern.body)
    return sum(map(_n_events, pattern.children()))


# A sequence query as a value: a pattern of events, the conditions on them, and how events are selected.


@dataclass(frozen=True, slots=True)
class SequenceQuery(Query, WholeQuery):
    """A sequence of events with its conditions, windows and columns; made by `sequence_query`.

    Parameters
    ----------
    pattern : SequencePattern
        Its events have no ``conditions``; these are moved into ``where``.
    where : tuple of Expression
        Conditions that must all hold. Columns belong to variables (`Reference`); a plain column is an error.
    strategy : str
        One of ``STRATEGIES``: what may be skipped between two events, unless the pattern says so itself.
    scope : str
        Applies under ``next``. ``run`` skips no event that could continue the partial match in any way;
        ``edge`` skips no event that could continue it in the same way.
    within : str or timedelta or int, optional
        Longest time from the first to the last event.
    within_closed : bool
        Whether a match may last exactly ``within``; also applies to ``gap_within``.
    within_events : int, optional
        Largest number of events of the partition from the first to the last, both included.
    gap_within : str or timedelta or int, optional
        Longest time between two successive events of the match.
    strict_time : bool
        Whether successive events must differ in time.
    partition_by, order_by : tuple of str
        Columns.
    event_type : str, optional
        The column of event types. Required if an event of the pattern has a type.
    after_match : tuple of (str, str or None)
        How a match excludes others: ``("none", None)``, ``("past_last", None)``, ``("to_next", None)``,
        ``("to_first", variable)``, ``("to_last", variable)``, ``("once", None)``, ``("once_newest", None)``.
    evaluation_order : tuple of str
        The variables in the order in which an engine searches for their events; if empty, the engine
        chooses. It does not change the matches.
    complete_until : optional
        The time up to which the data are complete, or ``END``. None means the last time in the data.
    undecided : bool
        Whether the matches are those whose last absence ends after ``complete_until``, and no others.
    measures : tuple of (str, Expression), optional
        Output columns by name; None means the default ones.
    params, functions, sources
        As in `RegexQuery`.

    Examples
    --------
    >>> import cepkit as cep
    >>> print(cep.sequence_query("PATTERN SEQ(A a, B b) WITHIN 6 EVENTS"))
    PATTERN SEQ(A a, B b)
    WHERE skip_till_any_match
    WITHIN 6 EVENTS
    """

    pattern: SequencePattern
    where: tuple[ex.Expression, ...] = ()
    strategy: str = "any"
    scope: str = "run"
    within: Duration | None = None
    within_closed: bool = True
    within_events: int | None = None
    gap_within: Duration | None = None
    strict_time: bool = False
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    event_type: str | None = None
    after_match: tuple[str, str | None] = ("none", None)
    evaluation_order: tuple[str, ...] = ()
    complete_until: Any = None
    undecided: bool = False
    measures: tuple[tuple[str, ex.Expression], ...] | None = None
    params: tuple[tuple[str, Any], ...] = ()
    functions: tuple[tuple[str, fn.RegisteredFunction], ...] = ()
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables of the events that a match contains, in reading order."""
        absent = self.absent_variables
        names = (event.variable for event in event_patterns(self.pattern))
        return tuple(dict.fromkeys(name for name in names if name not in absent))

    @property
    def ends_greedily(self) -> bool:
        """Whether the last loop is greedy: of matches that continue each other, the longest remains."""
        return any(loop.preference == "greedy" for loop in last_loops(self.pattern))

    @property
    def selects(self) -> bool:
        """Whether matches remove other ones."""
        return self.after_match[0] != "none" or self.ends_greedily

    @property
    def absent_variables(self) -> frozenset[str]:
        """Variables of the events that must not occur."""
        return frozenset(
            node.body.variable for node in self.pattern.walk() if isinstance(node, AbsentPattern)
        )

    @property
    def is_finished(self) -> bool:
        """Whether no event follows the data."""
        return isinstance(self.complete_until, str) and self.complete_until == END

    @property
    def group_variables(self) -> frozenset[str]:
        """Variables that can name several events."""
        return group_variables(self.pattern)

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        """Yield (role, tree) of every condition (``where``), loop end (``pattern``) and measure."""
        yield from (("where", tree) for tree in self.where)
        for node in self.pattern.walk():
            if isinstance(node, Loop) and node.until is not None:
                yield "pattern", node.until
        yield from ((f"measure {name!r}", tree) for name, tree in self.measures or ())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"<query {self}>")

    def __str__(self) -> str:
        return text_of(self)
