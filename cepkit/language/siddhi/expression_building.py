"""Build the expressions, names and durations of SiddhiQL from the rules of ``siddhi.lark``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cepkit.errors import nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.building import ExpressionBuilder, Refusal, span_of, whole_number

if TYPE_CHECKING:
    from lark import Token

# Milliseconds of a unit. Siddhi's month has 30 days and its year 365.
_UNITS = {
    "millisecond": 1, "milliseconds": 1, "millisec": 1, "ms": 1,
    "sec": 1_000, "second": 1_000, "seconds": 1_000,
    "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "hour": 3_600_000, "hours": 3_600_000,
    "day": 86_400_000, "days": 86_400_000,
    "week": 604_800_000, "weeks": 604_800_000,
    "month": 2_592_000_000, "months": 2_592_000_000,
    "year": 31_536_000_000, "years": 31_536_000_000,
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class NamePart(NamedTuple):
    """A name and where it is."""

    text: str
    span: tuple[int, int]


class Milliseconds(int):
    """A duration, with its place in the text."""

    span: tuple[int, int]

    def __new__(cls, value: int, span: tuple[int, int] = (0, 0)):
        made = super().__new__(cls, value)
        made.span = span
        return made


def text_of_token(token: Token) -> str:
    """Return the text that a string spells."""
    size = 3 if token.startswith('"""') else 1
    inside = str(token)[size:-size]
    if size == 3:
        return inside
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inside)


class SiddhiExpressionBuilder(ExpressionBuilder):
    """The parser's callbacks for expressions. Most of them are those of predicates."""

    def time(self, children):
        total, start = 0, children[0].start_pos
        for number, unit in zip(children[::2], children[1::2], strict=True):
            if unit.lower() not in _UNITS:
                hint = nearest(unit, _UNITS)
                raise Refusal(
                    f"no unit of time {str(unit)!r}; write milliseconds, sec, min, hours or days"
                    f"{hint and '.' + hint}",
                    (unit.start_pos, unit.end_pos),
                )
            total += whole_number(number) * _UNITS[unit.lower()]
        return Milliseconds(total, (start, children[-1].end_pos))

    def name(self, children):
        token = children[0]
        text = str(token)[1:-1] if token.startswith("`") else str(token)
        return NamePart(text, (token.start_pos, token.end_pos))

    def is_missing(self, children):
        return ex.IsNull(children[0], span=span_of([children[0], children[-1]]))

    def in_table(self, children):
        word = children[1]
        raise Refusal("'in' looks into a table, and tables do not run", (word.start_pos, word.end_pos))

    def attribute(self, children):
        name, span = children[0]
        return ex.Attribute(name, span=span)

    def reference(self, children):
        variable, _, name = children
        return ex.Reference(variable.text, name.text, span=(variable.span[0], name.span[1]))

    def indexed_reference(self, children):
        variable, _, index, _, _, name = children
        return ex.Reference(variable.text, name.text, index, span=(variable.span[0], name.span[1]))

    def indexed_event(self, children):
        variable, _, index, last = children
        return ex.Reference(variable.text, None, index, span=(variable.span[0], last.end_pos))

    def index(self, children):
        first, minus, *rest = [*children, None, None][:3]
        if first.isdecimal():
            return whole_number(first) + 1
        if first.lower() != "last":
            raise Refusal(
                f"an index is a number from 0, last, or last-1; found {str(first)!r}",
                (first.start_pos, first.end_pos),
            )
        return ex.LAST if minus is None else f"{ex.LAST}-{whole_number(rest[0])}"

    def call(self, children):
        name, _, *arguments, _ = children
        return ex.Call(str(name), _values(arguments), span=span_of(children))

    def call_of_all(self, children):
        name, _, sign, _ = children
        if sign != "*" or name.lower() != "count":
            raise Refusal(f"write {name}(attribute)", span_of(children))
        return ex.Call(str(name), (), span=span_of(children))

    def call_of_namespace(self, children):
        space, name, _, *arguments, _ = children
        return ex.Call(f"{space}:{name}", _values(arguments), span=span_of(children))

    def long(self, children):
        return ex.Literal(whole_number(children[0], children[0][:-1]), span=span_of(children))

    def decimal(self, children):
        value = float(children[0].rstrip("fFdD"))
        if value == float("inf"):
            raise Refusal("the number is too large for a double", span_of(children))
        return ex.Literal(value, span=span_of(children))

    def text(self, children):
        return ex.Literal(text_of_token(children[0]), span=span_of(children))

    def duration(self, children):
        return ex.Literal(children[0], span=children[0].span)


def _values(arguments: list) -> tuple[ex.Expression, ...]:
    return tuple(one for one in arguments if one is not None)
