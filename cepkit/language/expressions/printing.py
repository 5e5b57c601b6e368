"""Convert expressions to text, in one canonical spelling with no more parentheses than needed."""

from __future__ import annotations

import math
import re
from functools import singledispatch

from cepkit.language.expressions import trees as ex
from cepkit.language.spelling import text_of

# Reserved in expr.lark in any case; a column with such a name is printed in backticks.
RESERVED = frozenset(["and", "or", "not", "in", "between", "is", "like", "null", "none", "true", "false"])

_NAME = re.compile(r"[^\W\d]\w*")

# Binding strength: an operand is put in parentheses if it binds less tightly than its place requires.
_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _UNARY, _ITEM = range(8)


def print_expression(expression: ex.Expression) -> str:
    """Return text that `parse_expression` reads back as an equal tree.

    Text cannot spell a negative number as a Literal; it is printed like the Negative that text gives.
    Time is linear in the size of the tree times its depth.

    Parameters
    ----------
    expression : Expression
        Any tree.

    Returns
    -------
    str
        Words in lower case, ``==`` and ``!=``, single quotes, backticks where a name needs them.

    Raises
    ------
    ValueError
        If a literal is infinite or not a number. Text cannot spell it; use a parameter.

    Examples
    --------
    >>> from cepkit.language.expressions.parsing import parse_expression
    >>> print_expression(parse_expression('((A + 1)) * 2 = -x AND (NOT `in` IN ("it", 1.50))'))
    "(A + 1) * 2 == -x and `in` not in ('it', 1.5)"
    """
    return _expression(expression)[0]


def quoted_name(name: str) -> str:
    """Return a column name as predicate text spells it.

    Examples
    --------
    >>> quoted_name("price"), quoted_name("unit price"), quoted_name("Like")
    ('price', '`unit price`', '`Like`')
    """
    plain = _NAME.fullmatch(name) and name.lower() not in RESERVED
    return name if plain else "`" + name.replace("`", "``") + "`"


def at_least_not(expression: ex.Expression) -> str:
    """Return the text of an operand of ``and``, in parentheses if it binds less tightly than ``not``."""
    return _at_least(_NOT, expression)


@singledispatch
def _expression(expression: ex.Expression) -> tuple[str, int]:
    """Return the text of a node and its binding strength."""
    raise TypeError(f"no text for {type(expression).__name__}")


def _at_least(tightness: int, expression: ex.Expression) -> str:
    text, own = _expression(expression)
    return text if own >= tightness else f"({text})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@_expression.register
def _(expression: ex.Literal):
    value = expression.value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value], _ITEM
    if isinstance(value, str):
        return _text(value), _ITEM
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"text cannot spell the number {value}; use a parameter, written :name")
        return float.__repr__(value), _ITEM if math.copysign(1, value) > 0 else _UNARY
    return str(value), _ITEM if value >= 0 else _UNARY


@_expression.register
def _(expression: ex.Attribute):
    return quoted_name(expression.name), _ITEM


@_expression.register
def _(expression: ex.Reference):
    index = "" if expression.index is None else f"[{expression.index}]"
    name = "" if expression.name is None else f".{quoted_name(expression.name)}"
    return f"{expression.variable}{index}{name}", _ITEM


@_expression.register
def _(expression: ex.Parameter):
    return f":{expression.name}", _ITEM


@_expression.register
def _(expression: ex.Previous):
    offset = f", {expression.offset}" if expression.offset != 1 else ""
    return f"prev({print_expression(expression.operand)}{offset})", _ITEM


@_expression.register
def _(expression: ex.Aggregate):
    operand = "" if expression.operand is None else print_expression(expression.operand)
    return f"{expression.function}({operand})", _ITEM


@_expression.register
def _(expression: ex.Call):
    return f"{expression.function}({_join(expression.arguments)})", _ITEM


def _join(expressions: tuple[ex.Expression, ...]) -> str:
    return ", ".join(map(print_expression, expressions))


@_expression.register
def _(expression: ex.Subscript):
    return f"{_at_least(_ITEM, expression.operand)}[{expression.index}]", _ITEM


@_expression.register
def _(expression: ex.Negative):
    return f"-{_at_least(_UNARY, expression.operand)}", _UNARY


@_expression.register
def _(expression: ex.Arithmetic):
    own = _SUM if expression.operator in "+-" else _PRODUCT
    left, right = _at_least(own, expression.left), _at_least(own + 1, expression.right)
    return f"{left} {expression.operator} {right}", own


@_expression.register
def _(expression: ex.Comparison):
    left, right = _at_least(_SUM, expression.left), _at_least(_SUM, expression.right)
    return f"{left} {expression.operator} {right}", _TEST


@_expression.register
def _(expression: ex.And):
    return " and ".join(map(at_least_not, expression.operands)), _AND


@_expression.register
def _(expression: ex.Or):
    return " or ".join(_at_least(_AND, operand) for operand in expression.operands), _OR


@_expression.register
def _(expression: ex.Not):
    if isinstance(expression.operand, ex.In | ex.IsNull | ex.Like):
        return _test(expression.operand, "not "), _TEST
    return f"not {_at_least(_NOT, expression.operand)}", _NOT


@_expression.register(ex.In)
@_expression.register(ex.IsNull)
@_expression.register(ex.Like)
def _(expression):
    return _test(expression, ""), _TEST


def _test(expression: ex.In | ex.IsNull | ex.Like, negation: str) -> str:
    operand = _at_least(_SUM, expression.operand)
    match expression:
        case ex.In(options=options):
            return f"{operand} {negation}in ({_join(options)})"
        case ex.IsNull():
            return f"{operand} is {negation}null"
        case ex.Like(pattern=pattern):
            return f"{operand} {negation}like {_text(pattern)}"


def times_text(low: int, high: int | None) -> str:
    """Return a repetition as the patterns of both languages spell it.

    Examples
    --------
    >>> times_text(1, None), times_text(0, 3), times_text(2, 2)
    ('+', '{,3}', '{2}')
    """
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
