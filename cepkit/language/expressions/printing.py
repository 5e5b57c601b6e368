"""Expressions as text: in a canonical spelling that parses back, and in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, ClassVar

from cepkit.errors import CepError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import UNITS, counted, duration_ticks, format_duration
from cepkit.language.expressions.trees import text_of

# Reserved in expr.lark in any case; a column with such a name is printed in backticks.
RESERVED = frozenset(
    ["and", "or", "not", "in", "between", "is", "like", "ilike", "null", "none", "true", "false"]
)

_NAME = re.compile(r"[^\W\d]\w*")

# Binding strength: an operand is put in parentheses if it binds less tightly than its place requires.
_OR, _AND, _NOT, TEST, SUM, PRODUCT, UNARY, ITEM = range(8)


class ExpressionPrinter:
    """Prints expressions with no more parentheses than needed; a language replaces what differs."""

    and_, or_, not_ = " and ", " or ", "not "
    after_not = _NOT  # how tightly an operand of `not` must bind to need no parentheses
    constants: ClassVar[dict[bool | None, str]] = {None: "null", True: "true", False: "false"}
    word = staticmethod(str)  # how a word of the language is written
    signs: ClassVar[dict[str, str]] = {}  # of comparisons, where they differ
    tests: ClassVar[tuple[type, ...]] = (ex.In, ex.IsNull, ex.Like, ex.IsDistinct)  # they take `not` inside

    def text(self, expression: ex.Expression) -> str:
        """Return the text of an expression."""
        return self.node(expression)[0]

    def at_least(self, tightness: int, expression: ex.Expression) -> str:
        """Return a text, in parentheses if it binds less tightly than its place requires."""
        text, strength = self.node(expression)
        return text if strength >= tightness else f"({text})"

    def listed(self, expressions: Iterable[ex.Expression]) -> str:
        """Return the texts with commas between them."""
        return ", ".join(map(self.text, expressions))

    def node(self, expression: ex.Expression) -> tuple[str, int]:
        """Return the text of a node and its binding strength."""
        match expression:
            case ex.Literal(value=value):
                return self.literal(value)
            case ex.Attribute(name=name):
                return self.name(name), ITEM
            case ex.Reference():
                return self.reference(expression), ITEM
            case ex.Parameter(name=name):
                return f":{name}", ITEM
            case ex.Call(function="next", arguments=(operand, ex.Literal(value=1))):
                return f"next({self.text(operand)})", ITEM
            case ex.Call(function=function, arguments=arguments):
                return f"{function}({self.listed(arguments)})", ITEM
            case ex.Negative(operand=operand):
                return f"-{self.after_sign(self.at_least(UNARY, operand))}", UNARY
            case ex.Arithmetic(operator=sign, left=left, right=right):
                strength = SUM if sign in "+-" else PRODUCT
                right_text = self.after_sign(self.at_least(strength + 1, right))
                return f"{self.at_least(strength, left)} {sign} {right_text}", strength
            case ex.Comparison(operator=sign, left=left, right=right):
                return self.comparison(sign, left, right)
            case ex.And(operands=operands):
                return self.and_.join(self.at_least(_NOT, operand) for operand in operands), _AND
            case ex.Or(operands=operands):
                return self.or_.join(self.at_least(_AND, operand) for operand in operands), _OR
            case ex.Not(operand=operand) if isinstance(operand, self.tests):
                return self.test(operand, self.not_), TEST
            case ex.Not(operand=operand):
                return f"{self.not_}{self.at_least(self.after_not, operand)}", self.after_not
        if isinstance(expression, self.tests):
            return self.test(expression, ""), TEST
        return self.other(expression)

    def name(self, name: str) -> str:
        """Return the name of a column."""
        return quoted_name(name)

    def reference(self, node: ex.Reference) -> str:
        """Return a column at the rows of a variable."""
        brackets = "" if node.index is None else f"[{node.index}]"
        column = "" if node.name is None else f".{self.name(node.name)}"
        return f"{node.variable}{brackets}{column}"

    def literal(self, value: bool | int | float | str | None) -> tuple[str, int]:
        """Return a constant and its binding strength."""
        if value is None or isinstance(value, bool):
            return self.constants[value], ITEM
        if isinstance(value, str):
            return self.quoted(value), ITEM
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ValueError(f"text cannot spell the number {value}; use a parameter, written :name")
            text = value.text if isinstance(value, ex.LongNumber) else float.__repr__(value)
            return text, ITEM if math.copysign(1, value) > 0 else UNARY
        return str(value), ITEM if value >= 0 else UNARY

    def quoted(self, value: str) -> str:
        """Return a text as a constant."""
        return quoted_text(value)

    def after_sign(self, text: str) -> str:
        """Return an operand that follows a sign."""
        return text

    def comparison(self, sign: str, left: ex.Expression, right: ex.Expression) -> tuple[str, int]:
        """Return a comparison and its binding strength."""
        return f"{self.at_least(SUM, left)} {self.signs.get(sign, sign)} {self.at_least(SUM, right)}", TEST

    def test(self, expression: Any, negation: str) -> str:
        """Return a test of ``tests``; ``negation`` is an empty text or ``not_``."""
        is_ = self.word("is")
        if isinstance(expression, ex.IsDistinct):
            left, right = self.at_least(SUM, expression.left), self.at_least(SUM, expression.right)
            return f"{left} {is_} {negation}{self.word('distinct from')} {right}"
        operand = self.at_least(SUM, expression.operand)
        match expression:
            case ex.In(options=options):
                return f"{operand} {negation}{self.word('in')} ({self.listed(options)})"
            case ex.IsNull():
                return f"{operand} {is_} {negation}{self.constants[None]}"
        return f"{operand} {negation}{self.word('like')} {self.quoted(expression.pattern)}"

    def other(self, expression: ex.Expression) -> tuple[str, int]:
        """Return a node that only this language has, and its binding strength."""
        match expression:
            case ex.Previous(operand=operand, offset=offset):
                rows = f", {offset}" if offset != 1 else ""
                return f"prev({self.text(operand)}{rows})", ITEM
            case ex.Aggregate(function=function, operand=operand, by=by):
                arguments = (self.text(part) for part in (operand, by) if part is not None)
                return f"{function}({', '.join(arguments)})", ITEM
            case ex.Subscript(operand=operand, index=index):
                return f"{self.at_least(ITEM, operand)}[{index}]", ITEM
        if hasattr(expression, "in_sql"):  # a node of MATCH_RECOGNIZE, whose room is above this one
            return expression.in_sql(), ITEM
        raise TypeError(f"no text for {type(expression).__name__}")


_PRINTER = ExpressionPrinter()


def print_expression(expression: ex.Expression) -> str:
    """Return text that `parse_expression` reads back as an equal tree."""
    # Text cannot spell a negative number as a Literal; it is printed like the Negative that text gives.
    # Time is linear in the size of the tree times its depth.
    return _PRINTER.text(expression)


def quoted_name(name: str) -> str:
    """Return a column name as predicate text spells it."""
    plain = _NAME.fullmatch(name) and name.lower() not in RESERVED
    return name if plain else "`" + name.replace("`", "``") + "`"


def at_least_not(expression: ex.Expression) -> str:
    """Return the text of an operand of ``and``, in parentheses if it binds less tightly than ``not``."""
    return _PRINTER.at_least(_NOT, expression)


def quoted_text(value: str) -> str:
    """Return a text between single quotes, as predicates and SQL spell it."""
    return "'" + value.replace("'", "''") + "'"


def times_text(low: int, high: int | None) -> str:
    """Return a repetition as the patterns of both languages spell it."""
    match low, high:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{low},}}"
    if low == high:
        return f"{{{low}}}"
    return f"{{{low or ''},{high}}}"


text_of.register(ex.Expression, print_expression)


# Say conditions, repetitions and durations in plain words.

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
        operator, left, right = ex.MIRRORED.get(operator, operator), right, left
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
    """Return a duration in words, such as "5 minutes" for "5 min" and "3 units of the clock" for 3."""
    if isinstance(duration, timedelta):
        try:
            duration = format_duration(duration_ticks(duration, "ns"), "ns")
        except CepError:  # longer than the clock can count
            return str(duration)
    if not isinstance(duration, str):
        return f"{counted(duration, 'unit')} of the clock"

    def word(part: re.Match[str]) -> str:
        number, unit = part[1], _WORD_OF_UNIT[UNITS[part[2].lower() if part[2] not in UNITS else part[2]]]
        return f"{number} {unit}{'' if number == '1' else 's'} "

    try:
        return _PART.sub(word, duration).strip()
    except KeyError:
        return duration
