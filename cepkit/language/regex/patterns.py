"""Regex patterns over predicate names, as trees of small frozen values. They do not know the predicates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from cepkit.errors import CepError, whole_number
from cepkit.language.expressions.trees import parts_of, text_of
from cepkit.limits import REPEATED_PARTS, REPEATS, refuse_beyond

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Base of all pattern nodes. ``|`` builds an alternative, methods build repetitions."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    def children(self) -> Iterator[Pattern]:
        """Yield the direct parts, in reading order."""
        return parts_of(self, Pattern)

    def __or__(self, other: Pattern | str) -> Alternative:
        return any_of_patterns(self, other)

    def __ror__(self, other: str) -> Alternative:
        return any_of_patterns(other, self)

    def plus(self) -> Repeat:
        """Return the pattern repeated one or more times."""
        return Repeat(self, 1, None)

    def star(self) -> Repeat:
        """Return the pattern repeated any number of times, including none."""
        return Repeat(self, 0, None)

    def optional(self) -> Repeat:
        """Return the pattern repeated once or not at all."""
        return Repeat(self, 0, 1)

    def times(self, low: int, high: int | None = None) -> Repeat:
        """Return the pattern repeated exactly ``low`` times, or from ``low`` to ``high`` times."""
        return Repeat(self, low, low if high is None else high)

    def at_least(self, low: int) -> Repeat:
        """Return the pattern repeated ``low`` or more times."""
        return Repeat(self, low, None)

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True, slots=True)
class Variable(Pattern):
    """One event for which the predicate of this name holds."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyEvent(Pattern):
    """Any single event; ``.`` in text."""


@dataclass(frozen=True, slots=True)
class Empty(Pattern):
    """No event; ``()`` in text, and an empty side of ``|``."""


@dataclass(frozen=True, slots=True)
class Sequence(Pattern):
    """Two or more parts, one after the other on consecutive events of the partition."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternative(Pattern):
    """Any one of two or more options."""

    options: tuple[Pattern, ...]


class OddPatternError(CepError, ValueError):
    """A part of a pattern has a name or bounds that no pattern can have."""


@dataclass(frozen=True, slots=True)
class Repeat(Pattern):
    """``body`` at least ``low`` times and at most ``high`` times (None: no limit)."""

    body: Pattern
    low: int
    high: int | None

    def __post_init__(self) -> None:
        for bound in (self.low, self.low if self.high is None else self.high):
            if type(bound) is not int:
                whole_number("rounds of a repetition", bound)
        if self.low < 0 or (self.high is not None and self.high < max(1, self.low)):
            raise OddPatternError(
                f"repetition {{{self.low},{self.high}}}: need 0 <= low <= high and high >= 1"
            )
        refuse_beyond(
            REPEATS, max(self.low, self.high or 0), "rounds of a repetition", "write + for no limit"
        )


def var(name: str) -> Variable:
    """Return the pattern of one event for which predicate ``name`` holds.

    Examples
    --------
    >>> from cepkit.language.regex.patterns import seq, var
    >>> str(seq("large", var("rise").plus(), var("fall") | "gap"))
    'large rise+ (fall | gap)'
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise OddPatternError(f"predicate name {name!r} is not an identifier")
    return Variable(name)


def as_pattern(part: Pattern | str) -> Pattern:
    """Return ``part`` as a pattern; a name becomes a variable, ``"."`` any event."""
    if isinstance(part, Pattern):
        return part
    return AnyEvent() if part == "." else var(part)


def seq(*parts: Pattern | str) -> Pattern:
    """Return the sequence of the parts; nested sequences are flattened."""
    flat = [
        inner
        for part in map(as_pattern, parts)
        for inner in (part.parts if isinstance(part, Sequence) else (part,))
    ]
    _check_parts(len(flat))
    return Empty() if not flat else flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def any_of_patterns(*options: Pattern | str) -> Alternative:
    """Return the alternative of two or more options; nested alternatives are flattened."""
    flat = [
        inner
        for option in map(as_pattern, options)
        for inner in (option.options if isinstance(option, Alternative) else (option,))
    ]
    _check_parts(len(flat))
    return Alternative(tuple(flat))


def _check_parts(n: int) -> None:
    refuse_beyond(REPEATED_PARTS, n, "parts of the pattern", "Write repetitions, such as p.plus()")


def variables(pattern: Pattern) -> Iterator[Variable]:
    """Yield the variables of ``pattern`` in reading order; a variable that occurs twice is yielded twice."""
    if isinstance(pattern, Variable):
        yield pattern
    for part in pattern.children():
        yield from variables(part)


# Facts that follow from the tree of a regex pattern alone: empty words, first names, shortest words.


def is_nullable(pattern: Pattern) -> bool:
    """Return whether the pattern can match without any event."""
    match pattern:
        case Variable() | AnyEvent():
            return False
        case Empty():
            return True
        case Sequence(parts=parts):
            return all(map(is_nullable, parts))
        case Alternative(options=options):
            return any(map(is_nullable, options))
        case Repeat(body=body, low=low):
            return low == 0 or is_nullable(body)
    raise TypeError(f"no pattern: {type(pattern).__name__}")


def first_names(pattern: Pattern) -> tuple[str, ...]:
    """Return the names of predicates that can hold at the first event of a match, in reading order.

    Any event (``.``) has no name and is left out.

    Source: Aho, Lam, Sethi, Ullman, "Compilers", 2nd edition, section 3.9.4, firstpos.
    """
    return tuple(dict.fromkeys(leaf.name for leaf in first_leaves(pattern) if isinstance(leaf, Variable)))


def first_leaves(pattern: Pattern) -> Iterator[Variable | AnyEvent]:
    """Yield the leaves of the pattern that can take the first event of a match, in reading order."""
    match pattern:
        case Variable() | AnyEvent():
            yield pattern
        case Sequence(parts=parts):
            for part in parts:
                yield from first_leaves(part)
                if not is_nullable(part):
                    break
        case Alternative(options=options):
            for option in options:
                yield from first_leaves(option)
        case Repeat(body=body):
            yield from first_leaves(body)


def reported_form(pattern: Pattern) -> Pattern | None:
    """Return the part of the pattern that matters if each match is reported at its earliest end.

    A match ends with the first event that completes it, so everything after such an event that may be
    empty is dead. The result matches exactly what the pattern matches.
    """
    match pattern:
        case Empty():
            return None
        case Alternative(options=options):
            return _one_of(options)
        case Sequence(parts=parts) if is_nullable(pattern):
            return _one_of(parts)
        case Sequence(parts=parts):
            last = max(i for i, part in enumerate(parts) if not is_nullable(part))
            return seq(*parts[:last], cast(Pattern, reported_form(parts[last])))
        case Repeat(body=body, low=low):
            end = cast(Pattern, reported_form(body))
            if low <= 1 or is_nullable(body):
                return end
            return Repeat(body, low, low) if end == body else seq(_times(body, low - 1), end)
    return pattern


def _one_of(options: tuple[Pattern, ...]) -> Pattern | None:
    forms = [form for form in map(reported_form, options) if form is not None]
    if len(forms) > 1:
        # Flatten first, so that nested options are not repeated either.
        forms = list(dict.fromkeys(any_of_patterns(*forms).options))
    return any_of_patterns(*forms) if len(forms) > 1 else forms[0] if forms else None


def _times(body: Pattern, times: int) -> Pattern:
    return body if times == 1 else Repeat(body, times, times)
