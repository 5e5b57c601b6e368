"""Say conditions, repetitions and durations in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta

from cepkit.errors import CepError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import UNITS, duration_ticks, format_duration
from cepkit.language.expressions.printing import print_expression

_WORD_OF_UNIT = {
    "w": "week", "d": "day", "h": "hour", "min": "minute", "s": "second", "ms": "millisecond",
    "us": "microsecond", "ns": "nanosecond",
}  # fmt: skip
_PART = re.compile(r"\s*([0-9.]+)\s*([^\W\d_]+)\s*")
_SIDES = {">": "above", "<": "below", ">=": "at least", "<=": "at most", "==": "", "!=": "not"}
_STEPS = {
    ">": "rises", "<": "falls", ">=": "does not fall", "<=": "does not rise", "==": "stays the same",
    "!=": "changes",
}  # fmt: skip
_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_PLACES = {
    "first": "its first value", "last": "its previous value",
    "max": "its maximum so far", "min": "its minimum so far",
    "avg": "its mean so far",
}  # fmt: skip
# Words that begin with a vowel sound: single letters by their names, other words by their spelling.
_AN = re.compile(r"[aefhilmnorsx](?![^\W\d_])|(?!uni|us[aeiu]|eu|one)[aeiou]", re.IGNORECASE)


def say_condition(expression: ex.Expression) -> str:
    """Return a condition in words; its text if it is not simple."""
    match expression:
        case ex.And(operands=operands):
            return _span(expression) or join_words(map(_say_operand, operands))
        case ex.Or(operands=operands):
            return "either " + " or ".join(map(_say_operand, operands))
        case ex.Comparison(operator=operator, left=left, right=right):
            return _say_change(operator, left, right) or _say_comparison(operator, left, right)
        case ex.In(operand=operand, options=options):
            return f"{_text(operand)} is one of {', '.join(map(_text, options))}"
        case ex.IsNull(operand=operand):
            return f"{_text(operand)} is missing"
        case ex.Like(operand=operand, pattern=pattern):
            return f"{_text(operand)} is like {_text(ex.Literal(pattern))}"
        case ex.Not(operand=ex.In(operand=operand, options=options)):
            return f"{_text(operand)} is none of {', '.join(map(_text, options))}"
        case ex.Not(operand=ex.IsNull(operand=operand)):
            return f"{_text(operand)} is not missing"
        case ex.Not(operand=ex.Like(operand=operand, pattern=pattern)):
            return f"{_text(operand)} is not like {_text(ex.Literal(pattern))}"
        case ex.Attribute() | ex.Reference():
            return f"{_text(expression)} is true"
        case ex.Not(operand=ex.Attribute() | ex.Reference() as operand):
            return f"{_text(operand)} is false"
    return _text(expression)


def _say_operand(expression: ex.Expression) -> str:
    """Return an operand of ``and`` or ``or`` in words, in brackets if it joins conditions itself."""
    is_joined = isinstance(expression, ex.Or) or (isinstance(expression, ex.And) and not _span(expression))
    return f"({say_condition(expression)})" if is_joined else say_condition(expression)


def _span(expression: ex.And) -> str:
    """Return ``x >= 1 and x <= 5`` in words; an empty text for any other condition."""
    match expression.operands:
        case (
            ex.Comparison(operator=">=", left=left, right=low),
            ex.Comparison(operator="<=", left=same, right=high),
        ) if left == same:
            return f"{_text(left)} is between {_text(low)} and {_text(high)}"
    return ""


def _say_change(operator: str, left: ex.Expression, right: ex.Expression) -> str:
    """Return a comparison with the previous value in words; an empty text for any other comparison."""
    name, earlier = _text(left), ex.Previous(left)
    if isinstance(left, ex.Reference) and left.index == ex.CURRENT:
        earlier = ex.Reference(left.variable, left.name, ex.BEFORE)
        name = _text(ex.Reference(left.variable, left.name))
    elif not isinstance(left, ex.Attribute):
        return ""
    if right == earlier:
        return f"{name} {_STEPS[operator]}"
    match right:
        case ex.Arithmetic(operator="+" | "-" as sign, left=base, right=amount) if base == earlier:
            is_rise = operator in (">", ">=") and sign == "+"
            is_fall = operator in ("<", "<=") and sign == "-"
            if (is_rise or is_fall) and _is_positive(amount):
                limit = "at least" if "=" in operator else "more than"
                return f"{name} {'rises' if is_rise else 'falls'} by {limit} {_text(amount)}"
    return ""


def _is_positive(amount: ex.Expression) -> bool:
    return isinstance(amount, ex.Parameter) or (
        isinstance(amount, ex.Literal) and not isinstance(amount.value, str | None) and amount.value > 0
    )


def _say_comparison(operator: str, left: ex.Expression, right: ex.Expression) -> str:
    if isinstance(left, ex.Literal) and not isinstance(right, ex.Literal):
        operator, left, right = _TURNED.get(operator, operator), right, left
    return " ".join(filter(None, (_text(left), "is", _SIDES[operator], _say_value(right, left))))


def _say_value(value: ex.Expression, own: ex.Expression) -> str:
    """Return a value that ``own`` is compared with; in words if it is an earlier value of the same kind."""
    match value:
        case ex.Aggregate(function=function, operand=operand) if operand == own and function in _PLACES:
            return _PLACES[function]
        case ex.Previous(operand=operand, offset=offset) if operand == own:
            return "its previous value" if offset == 1 else f"its value {offset:,} rows earlier"
        case ex.Arithmetic(operator="*" | "+" | "-" as sign, left=left, right=right):
            earlier = _say_value(left, own)
            if left != own and earlier != _text(left) and isinstance(right, ex.Literal | ex.Parameter):
                amount = _text(right)
                return (
                    f"{amount} times {earlier}"
                    if sign == "*"
                    else f"{earlier} {'plus' if sign == '+' else 'minus'} {amount}"
                )
    return _text(value)


def _text(expression: ex.Expression) -> str:
    try:
        return print_expression(expression)
    except ValueError:  # an infinite number has no text
        return "a value"


def join_words(parts: Iterable[str]) -> str:
    """Return texts as a list in words."""
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def with_article(noun: str) -> str:
    """Return a noun after "a" or "an"."""
    return f"{'an' if _AN.match(noun) else 'a'} {noun}"


def say_times(low: int, high: int | None, one: str, many: Callable[[str], str]) -> str:
    """Return a repetition in words."""
    match low, high:
        case 1, 1:
            return one
        case 0, 1:
            return f"optionally {one}"
        case 0, None:
            return f"{many('any number of')} (or none)"
        case 1, None:
            return many("one or more")
        case _, None:
            return many(f"at least {low:,}")
        case 0, _:
            return f"{many(f'up to {high:,}')} (or none)"
    return many(f"{low:,}" if low == high else f"{low:,} to {high:,}")


def say_duration(duration: str | timedelta | int) -> str:
    """Return a duration in words."""
    if isinstance(duration, timedelta):
        try:
            duration = format_duration(duration_ticks(duration, "ns"), "ns")
        except CepError:  # longer than the clock can count
            return str(duration)
    if not isinstance(duration, str):
        return f"{duration:,} {'unit' if duration == 1 else 'units'} of the clock"

    def word(part: re.Match[str]) -> str:
        number, unit = part[1], _WORD_OF_UNIT[UNITS[part[2].lower() if part[2] not in UNITS else part[2]]]
        return f"{number} {unit}{'' if number == '1' else 's'} "

    try:
        return _PART.sub(word, duration).strip()
    except KeyError:
        return duration
