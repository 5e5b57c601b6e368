"""Event sequence patterns as a tree of small frozen values: events in order, some repeated, some absent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cepkit.language.expressions import Expression

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

    def __str__(self) -> str:
        from cepkit.language.printing import print_sequence

        return print_sequence(self)


@dataclass(frozen=True, slots=True)
class EventPattern(SequencePattern):
    """One event, named ``variable``; of any type when ``event_type`` is None.

    ``conditions`` were given on the event alone; a query moves them into its ``where``.
    """

    variable: str
    event_type: str | int | bool | None = None
    conditions: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class AllOf(SequencePattern):
    """All parts (two or more), in any order."""

    parts: tuple[SequencePattern, ...]

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the parts."""
        return self.parts


@dataclass(frozen=True, slots=True)
class AnyOf(SequencePattern):
    """One of the options (two or more); a match that two options find is found twice."""

    options: tuple[SequencePattern, ...]

    def children(self) -> tuple[SequencePattern, ...]:
        """Return the options."""
        return self.options


@dataclass(frozen=True, slots=True)
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
        The first event after the first round that fulfils this ends the loop and is not part of it.
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

    def __post_init__(self) -> None:
        if self.low < 0 or (self.high is not None and self.high < max(1, self.low)):
            raise ValueError(f"repetition {{{self.low},{self.high}}}: need 0 <= low <= high and high >= 1")


@dataclass(frozen=True, slots=True)
class AbsentPattern(SequencePattern):
    """No such event where it stands: between its neighbours, or within the window before or behind all."""

    body: EventPattern

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
