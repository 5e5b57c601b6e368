"""SiddhiQL apps as trees: streams, queries, partitions, and their patterns and sequences."""

from __future__ import annotations

from collections.abc import Iterator

from cepkit.language.expressions.trees import Expression, Node, Printed, Spanned
from cepkit.values import dataclass, field

# Patterns and sequences of SiddhiQL as trees of small frozen values.

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FilterHandler:
    """``[condition]`` after a stream: only events for which the condition is true pass."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class WindowHandler(Spanned):
    """``#window.name(…)`` after a stream. Durations are literals in milliseconds."""

    name: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamSource(Spanned):
    """A stream with its filters and its window; the name of an inner stream begins with ``#``."""

    stream: str
    handlers: tuple[FilterHandler | WindowHandler, ...] = ()

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions of the filters, in order."""
        return tuple(handler.condition for handler in self.handlers if isinstance(handler, FilterHandler))


@dataclass(frozen=True, slots=True)
class StatePattern(Node):
    """Base of all nodes of patterns and sequences."""


@dataclass(frozen=True, slots=True)
class EventState(StatePattern):
    """One event of a stream, ``e1=Stream[condition]``; ``reference`` is its name in other conditions."""

    source: StreamSource
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class CountedState(StatePattern):
    """``low`` to ``high`` events, ``e1=Stream<2:5>``; ``high`` is None for no limit."""

    body: EventState
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class AbsentState(StatePattern):
    """No event of a stream: during ``wait_ms``, or until the other event of a logical state."""

    source: StreamSource
    wait_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalState(StatePattern):
    """Both states in any order (``and``), or one of them (``or``)."""

    operator: str
    left: EventState | AbsentState
    right: EventState | AbsentState


@dataclass(frozen=True, slots=True)
class EveryState(StatePattern):
    """``every``: the body starts again each time it is complete."""

    body: StatePattern


@dataclass(frozen=True, slots=True)
class StateChain(StatePattern):
    """Two or more states, one after the other."""

    parts: tuple[StatePattern, ...]


# SiddhiQL apps as trees: definitions of streams, queries and partitions.

TYPES = ("string", "int", "long", "float", "double", "bool", "object")
EVENTS = ("current", "expired", "all")


@dataclass(frozen=True, slots=True)
class DefinedStream(Spanned):
    """``define stream Name (attribute type, …)``."""

    name: str
    attributes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StreamInput:
    """``from Stream[filter]#window.length(5)``: one stream."""

    source: StreamSource


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join: a stream with a window, and its name in conditions."""

    source: StreamSource
    reference: str | None = None
    is_trigger: bool = True


@dataclass(frozen=True, slots=True)
class JoinInput:
    """``from A#window.length(5) as a join B#window.time(1 min) as b on condition``."""

    left: JoinSide
    right: JoinSide
    how: str = "inner"
    on: Expression | None = None


@dataclass(frozen=True, slots=True)
class PatternInput:
    """A pattern (``->``), or a sequence (``,``), with the time in which it must be complete."""

    pattern: StatePattern
    is_sequence: bool = False
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of ``select``; ``name`` is None if the text names none."""

    value: Expression
    name: str | None = None


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column of ``order by``."""

    value: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class SiddhiQuery(Spanned):
    """``from … select … group by … having … insert into …``."""

    # ``select`` is empty for ``select *``. ``target`` is None for a query that ends in ``return``.

    input: StreamInput | JoinInput | PatternInput
    select: tuple[OutputColumn, ...] = ()
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[SortColumn, ...] = ()
    limit: int | None = None
    offset: int | None = None
    target: str | None = None
    events: str = "current"
    name: str | None = None

    def sources(self) -> Iterator[StreamSource]:
        """Yield the streams that the query reads, in reading order."""
        match self.input:
            case StreamInput(source=source):
                yield source
            case JoinInput(left=left, right=right):
                yield left.source
                yield right.source
            case PatternInput(pattern=pattern):
                for node in pattern.walk():
                    source = getattr(node, "source", None)
                    if source is not None:
                        yield source


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """The key of a stream: a value, or names of ranges with their conditions."""

    stream: str
    value: Expression | None
    ranges: tuple[tuple[Expression, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SiddhiPartition(Printed):
    """``partition with (key of Stream) begin … end``: each key has its own instance of the queries."""

    keys: tuple[PartitionKey, ...]
    queries: tuple[SiddhiQuery, ...]


@dataclass(frozen=True, slots=True)
class SiddhiApp(Printed):
    """A whole text: definitions, and queries and partitions in their order."""

    streams: tuple[DefinedStream, ...]
    elements: tuple[SiddhiQuery | SiddhiPartition, ...]
    source: str = field(default="", compare=False, repr=False)

    def queries(self) -> Iterator[SiddhiQuery]:
        """Yield all queries, also those of partitions, in reading order."""
        for element in self.elements:
            if isinstance(element, SiddhiPartition):
                yield from element.queries
            else:
                yield element
