"""Build calls of functions, casts and tests that only SQL has, from the rules of its grammar."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cepkit.errors import nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.building import ExpressionBuilder, Refusal, span_of, unquoted
from cepkit.language.expressions.sql_functions import (
    FIELDS,
    FOREIGN_FUNCTIONS,
    SIGNATURES,
    UNITS_OF_TIME,
    WITH_UNIT,
)
from cepkit.language.match_recognize import patterns as rp

if TYPE_CHECKING:
    from lark import Token

_TRIMS = {"leading": "ltrim", "trailing": "rtrim", "both": "trim"}
_TYPES_OF_TWO_WORDS = ("double precision", "character varying", "char varying")


class CallBuilder(ExpressionBuilder):
    """The callbacks for tests and calls with words inside, such as ``EXTRACT(DAY FROM ts)``."""

    def positive(self, children):
        return replace(children[1], span=span_of(children))

    def is_truth(self, children):
        operand, negation, word = children
        span, lower = span_of(children), word.lower()
        if lower not in ("true", "false", "unknown"):
            message = f"expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM, found {str(word)!r}"
            raise Refusal(message, span_of([word]))
        unknown = ex.IsNull(operand, span=span)
        return _negated_if(
            unknown if lower == "unknown" else rp.IsTruth(operand, lower == "true", span=span), negation
        )

    def is_distinct(self, children):
        left, negation, _, right = children
        return _negated_if(rp.IsDistinct(left, right, span=span_of(children)), negation)

    def like(self, children):
        operand, negation, pattern, escape = children
        span, written = span_of([operand, pattern if escape is None else escape]), unquoted(pattern)
        sign = None if escape is None else unquoted(escape)
        if sign is not None:
            _check_escapes(written, sign, span_of([pattern]), span_of([escape]))
        if sign is None or sign not in written:
            return _negated_if(ex.Like(operand, written, span=span), negation)
        return _negated_if(rp.LikeWithEscape(operand, written, sign, span=span), negation)

    def between_symmetric(self, children):
        operand, negation, one, other = children
        span = span_of(children)
        for node in (node for part in (operand, one, other) for node in part.walk()):
            if isinstance(node, ex.Comparison | ex.Or):  # the text would grow with each level
                raise Refusal("BETWEEN SYMMETRIC takes values without conditions inside", node.span)
        ways = tuple(
            ex.And(
                (ex.Comparison(">=", operand, low, span=span), ex.Comparison("<=", operand, high, span=span)),
                span=span,
            )
            for low, high in ((one, other), (other, one))
        )
        return _negated_if(ex.Or(ways, span=span), negation)

    def call_from(self, children):
        name, _, item, start, length, _ = children
        span, lower = span_of([name, children[-1]]), name.lower()
        if lower in ("substring", "substr"):
            return checked_call(name, (item, start) if length is None else (item, start, length), span)
        if length is None and lower == "trim":
            return checked_call(name, (start, item), span)
        if length is None and lower == "extract":
            field = item.name.lower() if isinstance(item, ex.Attribute) else ""
            if field not in FIELDS:
                known = ", ".join(word.upper() for word in FIELDS if not word.startswith("day_"))
                hint = nearest(field, FIELDS)
                raise Refusal(f"EXTRACT takes one of {known}{hint and '.' + hint}", item.span)
            return ex.Call(FIELDS[field], (start,), span=span)
        raise Refusal(f"{name.upper()}() takes no FROM; write commas between its arguments", span)

    def trim(self, children):
        name, _, side, signs, text, _ = children
        span = span_of([name, children[-1]])
        if name.lower() != "trim":
            raise Refusal(f"{side.upper()} belongs to TRIM, as in TRIM({side.upper()} '0' FROM x)", span)
        return ex.Call(_TRIMS[side.lower()], (text,) if signs is None else (text, signs), span=span)

    def position(self, children):
        part, whole = [child for child in children if isinstance(child, ex.Expression)]
        return ex.Call("strpos", (whole, part), span=span_of([children[0], children[-1]]))

    def cast(self, children):
        _, _, operand, kind, second, *length, _ = children
        lower, present = kind.lower(), [item for item in length if item is not None]
        if second is not None:
            lower = f"{lower} {second.lower()}"
            if lower not in _TYPES_OF_TWO_WORDS:
                raise Refusal(f"CAST: no type {lower.upper()}", span_of([kind, second]))
        numbers = [str(item) for item in present if item.isdecimal()]
        if any(len(number) > 18 for number in numbers):
            raise Refusal("the length of the type has too many digits; it has 18 at most", span_of(present))
        kind = f"{lower}({','.join(numbers)})" if numbers else lower
        return rp.Cast(operand, kind, span=span_of([children[0], children[-1]]))


def checked_call(name: Token, arguments: tuple[Any, ...], span: tuple[int, int]) -> ex.Call:
    """Return a call of a function. Raise for a wrong number, and for functions of other engines."""
    lower, upper = name.lower(), name.upper()
    if lower in FOREIGN_FUNCTIONS:
        raise Refusal(f"{upper}() does not run here; {FOREIGN_FUNCTIONS[lower]}", span)
    if lower in WITH_UNIT and arguments:
        arguments = (_unit(upper, lower, arguments[0]), *arguments[1:])
    signature = SIGNATURES.get(lower)
    if signature is not None and not signature.accepts(len(arguments)):
        form = f", as in {upper}('hour', {', '.join(WITH_UNIT[lower])})" if lower in WITH_UNIT else ""
        raise Refusal(f"{upper}() takes {signature}{form}; {len(arguments)} given", span)
    return ex.Call(lower, arguments, span=span)


def _unit(upper: str, lower: str, given: ex.Expression) -> ex.Literal:
    """Return the unit of time in the first argument: a name, or a text."""
    word = given.name if isinstance(given, ex.Attribute) else getattr(given, "value", None)
    if isinstance(word, str):
        unit = word.lower()
        unit = unit if unit in UNITS_OF_TIME else unit.removesuffix("s")
        if unit in UNITS_OF_TIME:
            return ex.Literal(unit, span=given.span)
    form = f"{upper}('hour', {', '.join(WITH_UNIT[lower])})"
    known = ", ".join(UNITS_OF_TIME)
    hint = nearest(word, UNITS_OF_TIME) if isinstance(word, str) else ""
    raise Refusal(
        f"{upper}() takes a unit of time first, as in {form}: {known}{hint and '.' + hint}", given.span
    )


def _check_escapes(pattern: str, sign: str, at: tuple[int, int], sign_at: tuple[int, int]) -> None:
    """Raise unless ESCAPE has one character, and it is only before characters that it may escape."""
    if len(sign) != 1:
        raise Refusal("ESCAPE takes one character", sign_at)
    place = pattern.find(sign)
    while place >= 0:
        if pattern[place + 1 : place + 2] not in ("%", "_", sign):
            raise Refusal(f"{sign!r} must be before %, _ or {sign!r}, because it is the escape character", at)
        place = pattern.find(sign, place + 2)


def _negated_if(test: ex.Expression, negation: Token | None) -> ex.Expression:
    return test if negation is None else ex.Not(test, span=test.span)
