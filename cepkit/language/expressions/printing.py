"""Convert expressions to text, in one canonical spelling with no more parentheses than needed."""

from __future__ import annotations

import math
import re

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
    """
    return _expression(expression)[0]


def quoted_name(name: str) -> str:
    """Return a column name as predicate text spells it."""
    plain = _NAME.fullmatch(name) and name.lower() not in RESERVED
    return name if plain else "`" + name.replace("`", "``") + "`"


def at_least_not(expression: ex.Expression) -> str:
    """Return the text of an operand of ``and``, in parentheses if it binds less tightly than ``not``."""
    return _at_least(_NOT, expression)


def _expression(expression: ex.Expression) -> tuple[str, int]:
    """Return the text of a node and its binding strength."""
    match expression:
        case ex.Literal(value=value):
            return _literal(value)
        case ex.Attribute(name=name):
            return quoted_name(name), _ITEM
        case ex.Reference(variable=variable, name=name, index=index):
            brackets = "" if index is None else f"[{index}]"
            column = "" if name is None else f".{quoted_name(name)}"
            return f"{variable}{brackets}{column}", _ITEM
        case ex.Parameter(name=name):
            return f":{name}", _ITEM
        case ex.Previous(operand=operand, offset=offset):
            rows = f", {offset}" if offset != 1 else ""
            return f"prev({print_expression(operand)}{rows})", _ITEM
        case ex.Aggregate(function=function, operand=operand):
            return f"{function}({'' if operand is None else print_expression(operand)})", _ITEM
        case ex.Call(function=function, arguments=arguments):
            return f"{function}({_join(arguments)})", _ITEM
        case ex.Subscript(operand=operand, index=index):
            return f"{_at_least(_ITEM, operand)}[{index}]", _ITEM
        case ex.Negative(operand=operand):
            return f"-{_at_least(_UNARY, operand)}", _UNARY
        case ex.Arithmetic(operator=sign, left=left, right=right):
            own = _SUM if sign in "+-" else _PRODUCT
            return f"{_at_least(own, left)} {sign} {_at_least(own + 1, right)}", own
        case ex.Comparison(operator=sign, left=left, right=right):
            return f"{_at_least(_SUM, left)} {sign} {_at_least(_SUM, right)}", _TEST
        case ex.And(operands=operands):
            return " and ".join(map(at_least_not, operands)), _AND
        case ex.Or(operands=operands):
            return " or ".join(_at_least(_AND, operand) for operand in operands), _OR
        case ex.Not(operand=ex.In() | ex.IsNull() | ex.Like() as test):
            return _test(test, "not "), _TEST
        case ex.Not(operand=operand):
            return f"not {_at_least(_NOT, operand)}", _NOT
        case ex.In() | ex.IsNull() | ex.Like():
            return _test(expression, ""), _TEST
    if hasattr(expression, "in_sql"):  # a node of MATCH_RECOGNIZE, whose room is above this one
        return expression.in_sql(), _ITEM
    raise TypeError(f"no text for {type(expression).__name__}")


def _literal(value: bool | int | float | str | None) -> tuple[str, int]:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value], _ITEM
    if isinstance(value, str):
        return quoted_text(value), _ITEM
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"text cannot spell the number {value}; use a parameter, written :name")
        return float.__repr__(value), _ITEM if math.copysign(1, value) > 0 else _UNARY
    return str(value), _ITEM if value >= 0 else _UNARY


def _test(expression: ex.In | ex.IsNull | ex.Like, negation: str) -> str:
    operand = _at_least(_SUM, expression.operand)
    match expression:
        case ex.In(options=options):
            return f"{operand} {negation}in ({_join(options)})"
        case ex.IsNull():
            return f"{operand} is {negation}null"
        case ex.Like(pattern=pattern):
            return f"{operand} {negation}like {quoted_text(pattern)}"


def _at_least(tightness: int, expression: ex.Expression) -> str:
    text, own = _expression(expression)
    return text if own >= tightness else f"({text})"


def _join(expressions: tuple[ex.Expression, ...]) -> str:
    return ", ".join(map(print_expression, expressions))


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
