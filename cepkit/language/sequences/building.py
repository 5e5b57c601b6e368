"""Build sequence patterns from the rules of ``sase.lark`` during parsing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import Refusal, span_of, unquoted, whole_number
from cepkit.language.expressions.printing import times_text
from cepkit.language.sequences.patterns import (
    AbsentPattern,
    AllOf,
    AnyOf,
    EventPattern,
    Loop,
    SequenceOf,
    SequencePattern,
)
from cepkit.language.sequences.printing import type_text


class _Type(NamedTuple):
    name: str | int | bool | None
    span: tuple[int, int]


class _Times(NamedTuple):
    low: int
    high: int | None
    span: tuple[int, int]


class _Entered(NamedTuple):
    """A part with the word before it that says what may be skipped before the part."""

    step: str
    part: SequencePattern
    span: tuple[int, int]


class _Option(NamedTuple):
    name: str
    value: object
    span: tuple[int, int]


def _type_of(value: bool | None) -> Callable[[Any, Any], _Type]:
    return lambda builder, children: _Type(value, span_of(children))


class _SequenceBuilder:
    """The parser's callbacks, one for each rule and alias of ``sase.lark``."""

    # Conditions are still missing; a literal marks the position of their bracket. An event without a name has
    # the name ''. Both are resolved once the pattern is complete.

    def start(self, children):
        return children[0]

    def type_name(self, children):
        return _Type(str(children[0]), span_of(children))

    def type_text(self, children):
        return _Type(unquoted(children[0]), span_of(children))

    def type_number(self, children):
        minus, number = children
        value = whole_number(number)
        span = (number.start_pos if minus is None else minus.start_pos, number.end_pos)
        return _Type(value if minus is None else -value, span)

    type_true, type_false, type_any = _type_of(True), _type_of(False), _type_of(None)

    def event(self, children):
        type_, variable, _, condition = children
        return _event(type_, variable, condition, _places(children))

    def repeated_event(self, children):
        type_, times, variable, _, condition = children
        span = _places(children)
        return Loop(_event(type_, variable, condition, span), times.low, times.high, span=span)

    def misplaced_times(self, children):
        type_, variable, _, times = children
        brackets = "" if times.high == 1 else "[]"
        meant = f"{type_text(type_.name)}{times_text(times.low, times.high)} {variable}{brackets}"
        raise Refusal(f"write the repetition after the type: {meant}", times.span)

    def without_name(self, children):
        return EventPattern("", children[0].name, span=children[0].span)

    def absent(self, children):
        body = children[1]
        if not isinstance(body, EventPattern):
            kinds = {Loop: "a repeated event", AbsentPattern: "an event that is absent already"}
            what = kinds.get(type(body), "a group")
            raise Refusal(
                f"{what} cannot be absent; write '!' before one event, as in !B b", span_of(children)
            )
        return AbsentPattern(body, span=span_of(children))

    def group(self, children):
        return replace(children[1], span=span_of(children))

    def repeated_group(self, children):
        body, times = children
        return Loop(body, times.low, times.high, span=span_of(children))

    def sequence(self, children):
        items = _items(children)
        parts = tuple(item.part if isinstance(item, _Entered) else item for item in items)
        steps = tuple(item.step if isinstance(item, _Entered) else None for item in items)
        first = items[0]
        if isinstance(first, _Entered):
            raise Refusal(
                f"{first.step.upper()} says what may be skipped before a part, but this part is the first"
                f"{_quoting(first)}",
                first.span,
            )
        return SequenceOf(parts, steps, span=_places(children))

    def all_of(self, children):
        return AllOf(_unordered_parts("AND", children), span=_places(children))

    def any_of(self, children):
        return AnyOf(_unordered_parts("OR", children), span=_places(children))

    def entered(self, children):
        word, part = children
        if isinstance(part, EventPattern) and not part.variable:
            type_name = type_text(part.event_type)
            raise Refusal(
                f"{word.upper()} is a reserved word; write an event of type {str(word)!r} as "
                f"'{word}' {type_name}, or of any type as _ {type_name}",
                span_of(children),
            )
        return _Entered(word.lower(), part, span_of(children))

    def with_option(self, children):
        part, option = children
        span = part.span[0], option.span[1]
        if not isinstance(part, Loop):
            raise Refusal(f"{option.name.upper()} belongs after a repeated part, as in B+ b[]", option.span)
        field = "preference" if option.name in ("greedy", "reluctant") else option.name
        if getattr(part, field) not in (None, "all"):
            raise Refusal(f"{option.name.upper()}: this option is already set", option.span)
        return replace(part, **{field: option.value}, span=span)

    def inner(self, children):
        return _Option("inner", children[1].lower(), span_of(children))

    def preference(self, children):
        return _Option(children[0].lower(), children[0].lower(), span_of(children))

    def until(self, children):
        return _Option("until", _at(children), span_of(children))

    def condition(self, children):
        return _at(children)

    def star(self, children):
        return _Times(0, None, span_of(children))

    def plus(self, children):
        return _Times(1, None, span_of(children))

    def optional(self, children):
        return _Times(0, 1, span_of(children))

    def exactly(self, children):
        times = whole_number(children[1])
        return _make_times(times, times, span_of(children))

    def at_least(self, children):
        return _make_times(whole_number(children[1]), None, span_of(children))

    def from_to(self, children):
        return _make_times(whole_number(children[1]), whole_number(children[3]), span_of(children))

    def at_most(self, children):
        return _make_times(0, whole_number(children[2]), span_of(children))


def _at(children) -> ex.Literal:
    """Return a placeholder for the condition in the brackets; its value is the position of the first one."""
    return ex.Literal(children[1].start_pos, span=span_of(children))


def _event(type_: _Type, variable, condition: ex.Literal | None, span: tuple[int, int]) -> EventPattern:
    conditions = () if condition is None else (condition,)
    return EventPattern(str(variable), type_.name, conditions, span=span)


def _items(children: list) -> list:
    """Return the parts without the brackets and commas."""
    return [child for child in children if isinstance(child, SequencePattern | _Entered)]


def _places(children: list) -> tuple[int, int]:
    return span_of([child for child in children if child is not None])


def _unordered_parts(word: str, children: list) -> tuple[SequencePattern, ...]:
    items = _items(children)
    for item in items:
        if isinstance(item, _Entered):
            raise Refusal(
                f"{item.step.upper()} is allowed in SEQ only: the parts of {word} have no order", item.span
            )
    if len(items) < 2:
        raise Refusal(f"{word} needs at least two parts", _places(children))
    return tuple(items)


def _make_times(low: int, high: int | None, span: tuple[int, int]) -> _Times:
    if high == 0:
        raise Refusal("a repetition must allow at least one event; write an absent one as !B b", span)
    if high is not None and high < low:
        raise Refusal(f"the lower bound {low} is above the upper bound {high}", span)
    return _Times(low, high, span)


def _quoting(item: _Entered) -> str:
    return (
        f"; put a type of this name in quotes, '{item.step}'" if isinstance(item.part, EventPattern) else ""
    )


SASE_BUILDER = _SequenceBuilder()
