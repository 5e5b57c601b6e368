"""Regex patterns from text, by the grammar ``regex.lark``, and as text in one canonical spelling."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cepkit.errors import PatternSyntaxError
from cepkit.language.expressions.building import Refusal, span_of, whole_number
from cepkit.language.expressions.mistakes import PATTERN_WORDS
from cepkit.language.expressions.parsing import check_tree, make_parser, parse
from cepkit.language.expressions.printing import times_text
from cepkit.language.expressions.trees import text_of
from cepkit.language.regex import patterns as pt

if TYPE_CHECKING:
    from lark import Lark


# Parse text into regex patterns over predicate names, by the grammar ``regex.lark``.


def parse_pattern(text: str) -> pt.Pattern:
    """Return the tree of a regex pattern over predicate names.

    ``a b`` is a, then b on the next event; ``a | b`` is an alternative. ``a*``, ``a+``, ``a?``, ``a{2}``,
    ``a{2,}``, ``a{2,5}`` and ``a{,5}`` repeat. ``.`` is any event, ``(a b)+`` a group, ``()`` no event.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, table 1.
    Differs: bounded repetitions are added; a repetition after a blank is an error.
    """
    tree = parse(text, _pattern_parser, PATTERN_WORDS, None)
    if not text.strip():
        raise PatternSyntaxError("expected a predicate name, '.' or '(', found an empty pattern", text, 0)
    check_tree(tree, pt.Pattern.children, text, None)
    return tree


@cache
def _pattern_parser() -> Lark:
    return make_parser(Path(__file__).with_name("regex.lark"), _PatternBuilder())


class _PatternBuilder:
    """The parser's callbacks, one method for each rule and alias of ``regex.lark``."""

    def start(self, children):
        return children[0]

    def alternative(self, children):
        if len(children) == 1:
            return children[0]
        places = [child for child in children if child.span is not None]
        return replace(pt.any_of_patterns(*children), span=span_of(places) if places else None)

    def sequence(self, children):
        if len(children) == 1:
            return children[0]
        return replace(pt.seq(*children), span=span_of(children)) if children else pt.Empty()

    def variable(self, children):
        return pt.Variable(str(children[0]), span=span_of(children))

    def any_event(self, children):
        return pt.AnyEvent(span=span_of(children))

    def group(self, children):
        return replace(children[1], span=span_of(children))

    def star(self, children):
        return self._repeat(children, 0, None)

    def plus(self, children):
        return self._repeat(children, 1, None)

    def optional(self, children):
        return self._repeat(children, 0, 1)

    def exactly(self, children):
        times = whole_number(children[1])
        return self._repeat(children, times, times)

    def at_least(self, children):
        return self._repeat(children, whole_number(children[1]), None)

    def from_to(self, children):
        return self._repeat(children, whole_number(children[1]), whole_number(children[2]))

    def at_most(self, children):
        return self._repeat(children, 0, whole_number(children[1]))

    def _repeat(self, children, low: int, high: int | None):
        body = children[0]
        # The span of a group begins at its bracket, before its body.
        if isinstance(body, pt.Repeat) and body.span[0] == body.body.span[0]:
            raise Refusal(_TWO_REPETITIONS, (body.body.span[1], children[-1].end_pos))
        if high is not None and high < max(1, low):
            place = (children[1].start_pos, children[-2].end_pos)
            if high == 0:
                raise Refusal("a repetition must allow at least one event; write () for no event", place)
            raise Refusal(f"the lower bound {low} is above the upper bound {high}", place)
        return pt.Repeat(children[0], low, high, span=span_of(children))


_TWO_REPETITIONS = (
    "repetitions have no reluctant or possessive form, and need none: a match ends as early as it can; write "
    "a+, or a group, as in (a b+)?"
)


# Convert regex patterns to text, in one canonical spelling with no more parentheses than needed.

# Binding strength: a part is put in parentheses if it binds less tightly than its place requires.
_ALTERNATIVE, _SEQUENCE, _REPEAT, _ATOM = range(4)


def print_pattern(pattern: pt.Pattern) -> str:
    """Return text that `parse_pattern` reads back as an equal pattern."""
    return _pattern(pattern)[0]


def _pattern(pattern: pt.Pattern) -> tuple[str, int]:
    """Return the text of a pattern and its binding strength."""
    match pattern:
        case pt.Variable(name=name):
            return name, _ATOM
        case pt.AnyEvent():
            return ".", _ATOM
        case pt.Empty():
            return "()", _ATOM
        case pt.Sequence(parts=parts):
            return " ".join(_pattern_at_least(_REPEAT, part) for part in parts), _SEQUENCE
        case pt.Alternative(options=options):
            return " | ".join(_pattern_at_least(_SEQUENCE, option) for option in options), _ALTERNATIVE
        case pt.Repeat(body=body, low=low, high=high):
            return _pattern_at_least(_ATOM, body) + times_text(low, high), _REPEAT
    raise TypeError(f"no text for {type(pattern).__name__}")


def _pattern_at_least(tightness: int, pattern: pt.Pattern) -> str:
    text, strength = _pattern(pattern)
    return text if strength >= tightness else f"({text})"


text_of.register(pt.Pattern, print_pattern)
