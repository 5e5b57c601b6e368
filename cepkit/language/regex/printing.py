"""Convert regex patterns to text, in one canonical spelling with no more parentheses than needed."""

from __future__ import annotations

from cepkit.language.expressions.printing import times_text
from cepkit.language.regex import patterns as pt
from cepkit.language.spelling import text_of

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
    text, own = _pattern(pattern)
    return text if own >= tightness else f"({text})"


text_of.register(pt.Pattern, print_pattern)
