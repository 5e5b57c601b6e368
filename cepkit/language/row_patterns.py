"""Row patterns of regex queries and MATCH_RECOGNIZE: the tree, what follows from it, its text and words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from cepkit.errors import CepError
from cepkit.errors import whole_number as check_whole_number
from cepkit.language.expressions.parsing import Refusal, span_of, whole_number
from cepkit.language.expressions.printing import join_words, say_times, times_text
from cepkit.language.expressions.trees import Node, text_of
from cepkit.limits import REPEATED_PARTS, REPEATS, refuse_beyond
from cepkit.values import dataclass, replace

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pattern(Node):
    """Base of all pattern nodes. ``|`` builds an alternative, methods build repetitions."""

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


@dataclass(frozen=True, slots=True)
class Variable(Pattern):
    """One row that satisfies the definition of this name; any row if SQL has none."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyEvent(Pattern):
    """Any single row; ``.`` in the text of a regex."""


@dataclass(frozen=True, slots=True)
class Empty(Pattern):
    """No row; ``()`` in text, and an empty side of ``|`` in a regex."""


@dataclass(frozen=True, slots=True)
class Sequence(Pattern):
    """Two or more parts, one after the other on consecutive rows of the partition."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternative(Pattern):
    """Any one of two or more options. SQL prefers an earlier one."""

    options: tuple[Pattern, ...]


class OddPatternError(CepError, ValueError):
    """A part of a pattern has a name or bounds that no pattern can have."""


def check_rounds(low: int, high: int | None, body: object = None) -> None:
    """Raise for numbers of rounds that no repetition can have; the error names ``body``."""
    for bound in (low, low if high is None else high):
        if type(bound) is not int:
            check_whole_number("rounds of a repetition", bound)
    if low < 0 or (high is not None and high < max(1, low)):
        whole = f"{{{low},{'' if high is None else high}}}" + (f" of {body}" if body else "")
        raise OddPatternError(f"repetition {whole}: it needs 0 <= low <= high and high >= 1")
    refuse_beyond(REPEATS, max(low, high or 0), "rounds of a repetition", "write + for no limit")


@dataclass(frozen=True, slots=True)
class Repeat(Pattern):
    """``body`` at least ``low`` times and at most ``high`` times (None: no limit)."""

    # SQL prefers many rounds if the repetition is greedy, and few if not. A regex has no such preference.

    body: Pattern
    low: int
    high: int | None
    greedy: bool = True

    def __post_init__(self) -> None:
        check_rounds(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Anchor(Pattern):
    """The start of the partition, ``^``, or its end, ``$``; only SQL has them."""

    at_start: bool


@dataclass(frozen=True, slots=True)
class Permutation(Pattern):
    """``PERMUTE`` of SQL: two or more parts in any order. Orders are preferred as a dictionary sorts them."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Exclusion(Pattern):
    """``{- body -}`` of SQL: ALL ROWS PER MATCH does not show the rows of the body."""

    body: Pattern


def var(name: str) -> Variable:
    """Return the pattern of one event for which predicate ``name`` holds.

    Examples
    --------
    >>> from cepkit.language.row_patterns import seq, var
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
    refuse_beyond(REPEATED_PARTS, n, "parts of the pattern", "Write repetitions, such as a+")


def variables(pattern: Pattern) -> Iterator[Variable]:
    """Yield the variables of ``pattern`` in reading order; a variable that occurs twice is yielded twice."""
    return (part for part in pattern.walk() if isinstance(part, Variable))


# Facts that follow from the tree alone: empty words, first names, shortest words.


def is_nullable(pattern: Pattern) -> bool:
    """Return whether the pattern can match without any row."""
    match pattern:
        case Variable() | AnyEvent():
            return False
        case Alternative(options=options):
            return any(map(is_nullable, options))
        case Repeat(body=body, low=low):
            return low == 0 or is_nullable(body)
    return all(map(is_nullable, pattern.children()))


def first_names(pattern: Pattern) -> tuple[str, ...]:
    """Return the names of predicates that can hold at the first event of a match, in reading order."""
    # Any event (``.``) has no name and is left out.
    # Source: Aho, Lam, Sethi, Ullman, "Compilers", 2nd edition, section 3.9.4, firstpos.
    return tuple(dict.fromkeys(leaf.name for leaf in first_leaves(pattern) if isinstance(leaf, Variable)))


def first_leaves(pattern: Pattern) -> Iterator[Variable | AnyEvent]:
    """Yield the leaves of a regex that can take the first event of a match, in reading order."""
    if isinstance(pattern, Variable | AnyEvent):
        yield pattern
    for part in pattern.children():
        yield from first_leaves(part)
        if isinstance(pattern, Sequence) and not is_nullable(part):
            break


def reported_form(pattern: Pattern) -> Pattern | None:
    """Return the part of a regex that matters if each match is reported at its earliest end."""
    # A match ends with the first event that completes it, so everything after such an event that may be
    # empty is dead. The result matches exactly what the pattern matches.
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


# The callbacks of the parsers: what the grammars of both languages have.


class PatternBuilder:
    """The parser's callbacks, one method for each rule and alias that ``regex.lark`` and SQL share."""

    name = staticmethod(str)  # returns the name of a variable from its token

    def start(self, children):
        return children[0]

    def alternative(self, children):
        if len(children) == 1:
            return children[0]
        places = [child for child in children if child.span is not None]
        return replace(any_of_patterns(*children), span=span_of(places) if places else None)

    def sequence(self, children):
        if len(children) == 1:
            return children[0]
        return replace(seq(*children), span=span_of(children)) if children else Empty()

    def variable(self, children):
        return Variable(self.name(children[0]), span=span_of(children))

    def group(self, children):
        return replace(children[1], span=span_of(children))

    def star(self, children):
        return self.repeat(children, 0, None)

    def plus(self, children):
        return self.repeat(children, 1, None)

    def optional(self, children):
        return self.repeat(children, 0, 1)

    def exactly(self, children):
        [times] = _bounds(children)
        return self.repeat(children, times, times)

    def at_least(self, children):
        [low] = _bounds(children)
        return self.repeat(children, low, None)

    def from_to(self, children):
        return self.repeat(children, *_bounds(children))

    def at_most(self, children):
        [high] = _bounds(children)
        return self.repeat(children, 0, high)

    def repeat(self, children, low: int, high: int | None):
        """Return a repetition. A sign after the one of ``optional``, or after other signs, is reluctant."""
        if high is not None and high < max(1, low):
            place = span_of(_numbers(children))
            if high == 0:
                raise Refusal("a repetition must allow at least one row; write () for no row", place)
            raise Refusal(f"the lower bound {low} is above the upper bound {high}", place)
        greedy = len(children) < 3 or children[-1] != "?"
        return Repeat(children[0], low, high, greedy, span=span_of(children))


def _numbers(children: list) -> list:
    return [child for child in children if getattr(child, "type", "") == "INT"]


def _bounds(children: list) -> list[int]:
    return list(map(whole_number, _numbers(children)))


# Patterns as text, in one canonical spelling with no more parentheses than needed.

# Binding strength: a part is put in parentheses if it binds less tightly than its place requires.
_ALTERNATIVE, _SEQUENCE, _REPEAT, _ATOM = range(4)


def _quoted_if_odd(name: str) -> str:
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def print_pattern(pattern: Pattern, spell: Callable[[str], str] = _quoted_if_odd) -> str:
    """Return text that the parser of the language reads back as an equal pattern; ``spell`` writes names."""

    def text(part: Pattern, tightness: int = _ALTERNATIVE) -> str:
        written, strength = text_and_strength(part)
        return written if strength >= tightness else f"({written})"

    def text_and_strength(part: Pattern) -> tuple[str, int]:
        match part:
            case Variable(name=name):
                return spell(name), _ATOM
            case AnyEvent():
                return ".", _ATOM
            case Empty():
                return "()", _ATOM
            case Anchor(at_start=at_start):
                return "^" if at_start else "$", _ATOM
            case Sequence(parts=parts):
                return " ".join(text(inner, _REPEAT) for inner in parts), _SEQUENCE
            case Alternative(options=options):
                return " | ".join(text(option, _SEQUENCE) for option in options), _ALTERNATIVE
            case Permutation(parts=parts):
                return f"PERMUTE({', '.join(map(text, parts))})", _ATOM
            case Exclusion(body=body):
                return f"{{- {text(body)} -}}", _ATOM
            case Repeat(body=body, low=low, high=high, greedy=greedy):
                return f"{text(body, _ATOM)}{times_text(low, high)}{'' if greedy else '?'}", _REPEAT
        raise TypeError(f"no text for {type(part).__name__}")

    return text(pattern)


text_of.register(Pattern, print_pattern)


# Patterns in plain words.


@dataclass(frozen=True, slots=True)
class PatternWords:
    """How a language speaks of the rows of a pattern."""

    row: Callable[[str], str]  # returns one row of a variable, such as "a drop"
    rows: Callable[[str], str]  # returns several, such as "drops in a row"
    options: str = " or "  # between two options
    rounds: str = "times in a row"  # of a group


def say_pattern(pattern: Pattern, words: PatternWords) -> str:
    """Return a pattern in English, where `words` says how rows and rounds are called."""

    def bracketed(part: Pattern) -> str:
        is_single = isinstance(part, Variable | AnyEvent | Empty | Anchor | Exclusion)
        is_row = isinstance(part, Repeat) and isinstance(part.body, Variable | AnyEvent)
        return say(part) if is_single or is_row else f"({say(part)})"

    def say(part: Pattern) -> str:
        match part:
            case Variable(name=name):
                return words.row(name)
            case AnyEvent():
                return "any row"
            case Empty():
                return "nothing"
            case Anchor(at_start=at_start):
                return f"{'from the first' if at_start else 'up to the last'} row of the partition"
            case Sequence(parts=parts):
                return ", then ".join(map(say, parts))
            case Alternative(options=options):
                return "either " + words.options.join(map(bracketed, options))
            case Permutation(parts=parts):
                return f"in any order: {join_words(map(bracketed, parts))}"
            case Exclusion(body=body):
                return f"{bracketed(body)} (not shown)"
            case Repeat(body=body, low=low, high=high, greedy=greedy):
                return repeated(body, low, high) + ("" if greedy else ", as few as possible")
        raise TypeError(f"no words for {type(part).__name__}")

    def repeated(body: Pattern, low: int, high: int | None) -> str:
        match body:
            case Variable(name=name):
                return say_times(low, high, say(body), lambda n: f"{n} {words.rows(name)}")
            case AnyEvent():
                return say_times(low, high, say(body), lambda n: f"{n} rows")
            case Alternative(options=options) if all(isinstance(option, Variable) for option in options):
                each = words.options.join(map(say, options))
                return say_times(low, high, say(body), lambda n: f"{n} rows in a row, each {each}")
        group = f"({say(body)})"
        return say_times(low, high, group, lambda n: f"{group} {n} {words.rounds}")

    return say(pattern)
