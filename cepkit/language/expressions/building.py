"""Build the trees of predicates and measures from the rules of ``expr.lark`` during parsing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cepkit.language.expressions import functions
from cepkit.language.expressions import trees as ex
from cepkit.limits import ROWS_BACK

if TYPE_CHECKING:
    from lark import Token

_OPERATORS = {"=": "==", "<>": "!="}

LONGEST_NUMBER = 4000  # digits; Python refuses to convert longer ones
TOO_LONG = "the number is too long"

# The parts of a REFERENCE of expr.lark.
_REFERENCE = re.compile(
    r"(?P<variable>\w+)\s*(?:\[(?P<index>[^\]]*)\]\s*)?(?:\.\s*(?P<name>\w+|`.*`))?", re.DOTALL
)


class Refusal(Exception):
    """A fault that a builder found; the caller adds the text that contains it."""

    def __init__(self, message: str, span: tuple[int, int]):
        self.message, self.span = message, span


def span_of(children: list) -> tuple[int, int]:
    """Return the span of a rule from its first to its last child (a token or a finished node)."""
    first, last = children[0], children[-1]
    start = first.span[0] if hasattr(first, "span") else first.start_pos
    return start, last.span[1] if hasattr(last, "span") else last.end_pos


def unquoted(token: str) -> str:
    """Return the text between the quotes of ``token``."""
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


def whole_number(token: Token, digits: str | None = None) -> int:
    """Return the number that ``token`` spells; ``digits`` are its digits if it has a suffix."""
    if len(token) > LONGEST_NUMBER:
        raise Refusal(TOO_LONG, (token.start_pos, token.end_pos))
    return int(token if digits is None else digits)


def _negate_if(expression: ex.Expression, negation: Token | None) -> ex.Expression:
    return expression if negation is None else ex.Not(expression, span=expression.span)


class ExpressionBuilder:
    """The parser's callbacks, one for each alias of ``expr.lark``; punctuation is not passed to them.

    SQL has most of them, too.

    """

    def any_of(self, children):
        return ex.Or(tuple(children), span=span_of(children))

    def all_of(self, children):
        return ex.And(tuple(children), span=span_of(children))

    def opposite(self, children):
        return ex.Not(children[1], span=span_of(children))

    def comparison(self, children):
        links = []
        for left, operator, right in zip(children[::2], children[1::2], children[2::2], strict=False):
            links.append(
                ex.Comparison(
                    _OPERATORS.get(operator, str(operator)), left, right, span=span_of([left, right])
                )
            )
        return links[0] if len(links) == 1 else ex.And(tuple(links), span=span_of(children))

    def membership(self, children):
        operand, negation, *options = children
        options = tuple(option for option in options if isinstance(option, ex.Expression))
        return _negate_if(ex.In(operand, options, span=span_of(children)), negation)

    def between(self, children):
        operand, negation, low, high = children
        span = span_of(children)
        bounds = (ex.Comparison(">=", operand, low, span=span), ex.Comparison("<=", operand, high, span=span))
        return _negate_if(ex.And(bounds, span=span), negation)

    def is_null(self, children):
        operand, negation, _ = children
        return _negate_if(ex.IsNull(operand, span=span_of(children)), negation)

    def like(self, children):
        operand, negation, pattern = children
        return _negate_if(ex.Like(operand, unquoted(pattern), span=span_of(children)), negation)

    def arithmetic(self, children):
        left, operator, right = children
        return ex.Arithmetic(str(operator), left, right, span=span_of(children))

    def negative(self, children):
        return ex.Negative(children[1], span=span_of(children))

    def subscript(self, children):
        operand, minus, index, _ = children
        position = whole_number(index)
        return ex.Subscript(operand, position if minus is None else -position, span=span_of(children))

    def attribute(self, children):
        return ex.Attribute(str(children[0]), span=span_of(children))

    def quoted_attribute(self, children):
        return ex.Attribute(unquoted(children[0]), span=span_of(children))

    def reference(self, children):
        return _reference(children[0], span_of(children))

    def parameter(self, children):
        return ex.Parameter(str(children[0][1:]), span=span_of(children))

    def integer(self, children):
        return ex.Literal(whole_number(children[0]), span=span_of(children))

    def decimal(self, children):
        value = float(children[0])
        if value == float("inf"):
            raise Refusal("the number is too large for a float", span_of(children))
        return ex.Literal(value, span=span_of(children))

    def text(self, children):
        return ex.Literal(unquoted(children[0]), span=span_of(children))

    def true(self, children):
        return ex.Literal(True, span=span_of(children))

    def false(self, children):
        return ex.Literal(False, span=span_of(children))

    def null(self, children):
        return ex.Literal(None, span=span_of(children))

    def group(self, children):
        return replace(children[1], span=span_of(children))

    def call(self, children):
        name, _, *arguments, _ = children
        span, lower = span_of(children), name.lower()
        if lower in functions.AGGREGATE_SPELLINGS:
            return _aggregate(functions.AGGREGATE_SPELLINGS[lower], arguments, span)
        if lower == "prev":
            return _previous(arguments, span)
        if lower in functions.FUNCTIONS:
            arity = functions.FUNCTIONS[lower]
            if not arity.accepts(len(arguments)):
                raise Refusal(f"{lower} takes {arity}, {len(arguments)} given", span)
            return ex.Call(lower, tuple(arguments), span=span)
        if lower in functions.FOREIGN_FUNCTIONS and not functions.is_registered(name):
            message = f"no function {str(name)!r}; {functions.FOREIGN_FUNCTIONS[lower]}"
            raise Refusal(message, span_of([name]))
        meant = functions.misspelt_built_in(name)
        if meant and not functions.is_registered(name):
            hint = "register your own function first, with @cep.pure"
            raise Refusal(f"no function {str(name)!r}. Did you mean {meant!r}? ({hint})", span_of([name]))
        return ex.Call(str(name), tuple(arguments), span=span)


def _reference(token: Token, span: tuple[int, int]) -> ex.Reference:
    parts = _REFERENCE.fullmatch(token)
    variable, name, index = parts["variable"], parts["name"], parts["index"]
    if name is not None and name[0] == "`":
        name = unquoted(name)
    if index is None:
        return ex.Reference(variable, name, span=span)
    index = "".join(index.split()).lower()
    if index.isdecimal():
        if len(index) > 9 or int(index) < 1:
            raise Refusal(f"the events of {variable!r} count from 1: {variable}[1]", span)
        return ex.Reference(variable, name, int(index), span=span)
    owner, _, last = index.rpartition(".")
    if last == "len" and owner not in ("", variable.lower()):
        raise Refusal(f"write {variable}[LEN], the last event of {variable!r} itself", span)
    kinds = {"i": ex.CURRENT, "i-1": ex.BEFORE, "..i-1": ex.ALL_BEFORE}
    return ex.Reference(variable, name, kinds.get(index, ex.LAST), span=span)


def _aggregate(function: str, arguments: list[ex.Expression], span: tuple[int, int]) -> ex.Aggregate:
    if function == "count" and not arguments:
        return ex.Aggregate("count", span=span)
    if len(arguments) != 1:
        several = {
            "max": "; the largest of several values is greatest(x, y)",
            "min": "; the smallest of several values is least(x, y)",
        }
        wanted = "no argument or one" if function == "count" else "exactly one argument"
        raise Refusal(f"{function} takes {wanted}, {len(arguments)} given{several.get(function, '')}", span)
    for node in arguments[0].walk():
        if isinstance(node, ex.Aggregate | ex.Previous):
            inner = node.function if isinstance(node, ex.Aggregate) else "prev"
            raise Refusal(f"{inner} inside {function}: an aggregate takes values of single events", node.span)
    return ex.Aggregate(function, arguments[0], span=span)


def _previous(arguments: list[ex.Expression], span: tuple[int, int]) -> ex.Previous:
    if len(arguments) not in (1, 2):
        raise Refusal(
            f"prev takes a value and, optionally, how many rows back; {len(arguments)} arguments given", span
        )
    operand, offset = arguments[0], arguments[1] if len(arguments) == 2 else ex.Literal(1)
    if not (isinstance(offset, ex.Literal) and type(offset.value) is int and offset.value >= 1):
        raise Refusal("prev counts rows back with a whole number from 1", offset.span)
    if offset.value > ROWS_BACK:
        raise Refusal(f"prev counts at most {ROWS_BACK:,} rows back", offset.span)
    for node in operand.walk():
        if isinstance(node, ex.Aggregate):
            raise Refusal(
                f"{node.function} inside prev: only values of single events have a previous row", node.span
            )
    return ex.Previous(operand, offset.value, span=span)


EXPRESSION_BUILDER = ExpressionBuilder()
