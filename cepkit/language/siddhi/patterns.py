"""Patterns and sequences of SiddhiQL as trees of small frozen values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cepkit.language.expressions.rebuilding import parts_of
from cepkit.language.expressions.trees import Expression
from cepkit.language.spelling import text_of

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FilterHandler:
    """``[condition]`` after a stream: only events for which the condition is true pass."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class WindowHandler:
    """``#window.name(…)`` after a stream. Durations are literals in milliseconds."""

    name: str
    arguments: tuple[Expression, ...] = ()
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A stream with its filters and its window; the name of an inner stream begins with ``#``."""

    stream: str
    handlers: tuple[FilterHandler | WindowHandler, ...] = ()
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions of the filters, in order."""
        return tuple(one.condition for one in self.handlers if isinstance(one, FilterHandler))


@dataclass(frozen=True, slots=True)
class StatePattern:
    """Base of all nodes of patterns and sequences."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    def children(self) -> Iterator[StatePattern]:
        """Yield the direct parts, in reading order."""
        return parts_of(self, StatePattern)

    def walk(self) -> Iterator[StatePattern]:
        """Yield this node and all nodes below it, parents first."""
        yield self
        for part in self.children():
            yield from part.walk()

    def __str__(self) -> str:
        return text_of(self)


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
