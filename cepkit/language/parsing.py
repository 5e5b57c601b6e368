"""Text to trees: predicates and measures by ``expr.lark``, regex patterns by ``regex.lark``.

Text is read, never evaluated: what no rule of a grammar covers is an error with its place.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.cache import cache_folder
from cepkit.errors import CepError, PatternSyntaxError
from cepkit.language import expressions as ex
from cepkit.language import functions
from cepkit.language import patterns as pt
from cepkit.language.mistakes import EXPRESSION_WORDS, PATTERN_WORDS, Vocabulary, located, syntax_error

if TYPE_CHECKING:
    from lark import Lark, Token

# Deeper trees would exhaust the stack of the passes that walk them; a long `a or b or c` is not deep.
DEEPEST = 200

_OPERATORS = {"=": "==", "<>": "!="}


def parse_expression(text: str, *, role: str = "predicate") -> ex.Expression:
    """Return the tree of a predicate or measure.

    Python and SQL spellings are read alike: ``and or not && || & | ! ~``, ``== = != <>``, ``in``,
    ``between``, ``is null``, ``like``; ``a < b < c`` is ``a < b and b < c``. ``&`` and ``|`` bind like
    ``and`` and ``or``, so ``a > 1 & b > 2`` means what it seems to. Text stands in single or double
    quotes (doubled inside), odd column names in backticks, parameters are ``:name``.

    Parameters
    ----------
    text : str
        The expression.
    role : str
        What the text is, for error messages: ``"predicate 'rise'"``.

    Returns
    -------
    Expression
        Each node with its ``span`` in ``text``.

    Raises
    ------
    PatternSyntaxError
        With place and caret, when the text is no expression, a built-in function has a wrong number of
        arguments, or an aggregate contains another aggregate or ``prev``.

    Notes
    -----
    Time is linear in the length of the text. The first call builds the parser (about 30 ms).

    Examples
    --------
    >>> parse_expression("price > 5 AND NOT last(size) = 2")
    And(operands=(Comparison(operator='>', left=Attribute(name='price'), right=Literal(value=5)), \
Not(operand=Comparison(operator='==', left=Aggregate(function='last', operand=Attribute(name='size')), \
right=Literal(value=2)))))
    >>> parse_expression("price > > 5")
    Traceback (most recent call last):
    cepkit.errors.PatternSyntaxError: predicate: expected a value, a column or '(', found '>' (position 8)
      price > > 5
              ^
    """
    tree = _parse(text, _expression_parser, EXPRESSION_WORDS, role)
    _check_depth(tree, ex.Expression.children, text, role)
    return tree


def parse_pattern(text: str) -> pt.Pattern:
    """Return the tree of a regex pattern over predicate names.

    ``a b`` a, then b on the next event; ``a | b``; ``a*``, ``a+``, ``a?``, ``a{2}``, ``a{2,}``,
    ``a{2,5}``, ``a{,5}``; ``.`` any event; ``(a b)+`` groups; ``()`` no event.

    Parameters
    ----------
    text : str
        The pattern; blanks and line ends separate names, and nothing stands between a repetition and
        what it repeats.

    Returns
    -------
    Pattern
        Each node with its ``span`` in ``text``; sequences directly in sequences and alternatives
        directly in alternatives are flattened.

    Raises
    ------
    PatternSyntaxError
        With place and caret, when the text is no pattern.

    Notes
    -----
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, table 1.
    Differs: bounded repetitions are added; a repetition after a blank is an error.

    Examples
    --------
    >>> str(parse_pattern("large (rise+ (gap)) | (fall{2,})"))
    'large rise+ gap | fall{2,}'
    >>> parse_pattern("large + rise")
    Traceback (most recent call last):
    cepkit.errors.PatternSyntaxError: '+' stands directly behind what it repeats: large+ (position 6)
      large + rise
            ^
    """
    tree = _parse(text, _pattern_parser, PATTERN_WORDS, None)
    if not text.strip():
        raise PatternSyntaxError("expected a predicate name, '.' or '(', found an empty pattern", text, 0)
    _check_depth(tree, _pattern_children, text, None)
    return tree


class _Refusal(Exception):
    """What a builder finds wrong, before it is known in which text."""

    def __init__(self, message: str, span: tuple[int, int]):
        self.message, self.span = message, span


def _parse(text: str, parser: Callable[[], Lark], words: Vocabulary, role: str | None) -> Any:
    from lark.exceptions import UnexpectedInput

    if not isinstance(text, str):
        raise TypeError(f"{role or 'pattern'}: expected text, got {type(text).__name__}")
    try:
        return parser().parse(text)
    except UnexpectedInput as error:
        raise syntax_error(error, text, words, role) from None
    except _Refusal as refusal:
        raise located(refusal.message, text, refusal.span, role) from None


@cache
def _expression_parser() -> Lark:
    return _lark("expr.lark", _ExpressionBuilder())


@cache
def _pattern_parser() -> Lark:
    return _lark("regex.lark", _PatternBuilder())


def _lark(grammar: str, builder: object) -> Lark:
    import lark

    text = Path(__file__).with_name(grammar).read_text(encoding="utf-8")
    # The builder works while the parser reads: no second, recursive pass over the text's tree.
    made = partial(lark.Lark, text, parser="lalr", lexer="basic", transformer=builder)
    try:
        folder = cache_folder()
    except CepError:  # nowhere to keep the tables: the parser is made anew, 30 ms each
        return made()
    versions = f"{lark.__version__} {sys.version}"
    key = hashlib.sha256(f"{versions}\n{text}".encode()).hexdigest()[:24]
    path = folder / f"cepkit_grammar_{key}.tables"
    if path.exists():
        return made(cache=str(path))
    # Several processes may write at once: each moves a whole file into place.
    part = path.with_suffix(f".{os.getpid()}.part")
    parser = made(cache=str(part))
    if part.exists():  # a full disk is no reason to stop
        os.replace(part, path)
    return parser


def _span(children: list) -> tuple[int, int]:
    """Return the place of a rule from its first to its last child (a token or a finished node)."""
    first, last = children[0], children[-1]
    start = first.span[0] if hasattr(first, "span") else first.start_pos
    return start, last.span[1] if hasattr(last, "span") else last.end_pos


def _unquoted(token: Token) -> str:
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


def _whole_number(token: Token) -> int:
    if len(token) > 4000:  # Python refuses to read longer ones
        raise _Refusal("the number is too long", (token.start_pos, token.end_pos))
    return int(token)


def _negated(expression: ex.Expression, negation: Token | None) -> ex.Expression:
    return expression if negation is None else ex.Not(expression, span=expression.span)


class _ExpressionBuilder:
    """One method for each alias of ``expr.lark``; gets the children of the rule, without punctuation."""

    def any_of(self, children):
        return ex.Or(tuple(children), span=_span(children))

    def all_of(self, children):
        return ex.And(tuple(children), span=_span(children))

    def opposite(self, children):
        return ex.Not(children[1], span=_span(children))

    def comparison(self, children):
        links = []
        for left, operator, right in zip(children[::2], children[1::2], children[2::2], strict=False):
            links.append(
                ex.Comparison(_OPERATORS.get(operator, str(operator)), left, right, span=_span([left, right]))
            )
        return links[0] if len(links) == 1 else ex.And(tuple(links), span=_span(children))

    def membership(self, children):
        operand, negation, *options = children
        options = tuple(option for option in options if isinstance(option, ex.Expression))
        return _negated(ex.In(operand, options, span=_span(children)), negation)

    def between(self, children):
        operand, negation, low, high = children
        span = _span(children)
        bounds = (ex.Comparison(">=", operand, low, span=span), ex.Comparison("<=", operand, high, span=span))
        return _negated(ex.And(bounds, span=span), negation)

    def is_null(self, children):
        operand, negation, _ = children
        return _negated(ex.IsNull(operand, span=_span(children)), negation)

    def like(self, children):
        operand, negation, pattern = children
        return _negated(ex.Like(operand, _unquoted(pattern), span=_span(children)), negation)

    def arithmetic(self, children):
        left, operator, right = children
        return ex.Arithmetic(str(operator), left, right, span=_span(children))

    def negative(self, children):
        return ex.Negative(children[1], span=_span(children))

    def subscript(self, children):
        operand, minus, index, _ = children
        position = _whole_number(index)
        return ex.Subscript(operand, position if minus is None else -position, span=_span(children))

    def attribute(self, children):
        return ex.Attribute(str(children[0]), span=_span(children))

    def quoted_attribute(self, children):
        return ex.Attribute(_unquoted(children[0]), span=_span(children))

    def parameter(self, children):
        return ex.Parameter(str(children[0][1:]), span=_span(children))

    def integer(self, children):
        return ex.Literal(_whole_number(children[0]), span=_span(children))

    def decimal(self, children):
        value = float(children[0])
        if value == float("inf"):
            raise _Refusal("the number is too large for a float", _span(children))
        return ex.Literal(value, span=_span(children))

    def text(self, children):
        return ex.Literal(_unquoted(children[0]), span=_span(children))

    def true(self, children):
        return ex.Literal(True, span=_span(children))

    def false(self, children):
        return ex.Literal(False, span=_span(children))

    def null(self, children):
        return ex.Literal(None, span=_span(children))

    def group(self, children):
        return replace(children[1], span=_span(children))

    def call(self, children):
        name, _, *arguments, _ = children
        span, lower = _span(children), name.lower()
        if lower in functions.AGGREGATE_SPELLINGS:
            return _aggregate(functions.AGGREGATE_SPELLINGS[lower], arguments, span)
        if lower == "prev":
            return _previous(arguments, span)
        if lower in functions.FUNCTIONS:
            arity = functions.FUNCTIONS[lower]
            if not arity.accepts(len(arguments)):
                raise _Refusal(f"{lower} takes {arity}, {len(arguments)} given", span)
            return ex.Call(lower, tuple(arguments), span=span)
        meant = functions.misspelt_built_in(name)
        if meant and not functions.is_registered(name):
            own = "a function of your own is registered first, with @cep.pure"
            raise _Refusal(f"no function {str(name)!r}. Did you mean {meant!r}? ({own})", _span([name]))
        return ex.Call(str(name), tuple(arguments), span=span)


def _aggregate(function: str, arguments: list[ex.Expression], span: tuple[int, int]) -> ex.Aggregate:
    if function == "count" and not arguments:
        return ex.Aggregate("count", span=span)
    if len(arguments) != 1:
        several = {
            "max": "; the largest of several values is greatest(x, y)",
            "min": "; the smallest of several values is least(x, y)",
        }
        wanted = "no argument or one" if function == "count" else "exactly one argument"
        raise _Refusal(f"{function} takes {wanted}, {len(arguments)} given{several.get(function, '')}", span)
    for node in arguments[0].walk():
        if isinstance(node, ex.Aggregate | ex.Previous):
            inner = node.function if isinstance(node, ex.Aggregate) else "prev"
            raise _Refusal(
                f"{inner} inside {function}: an aggregate takes values of single events", node.span
            )
    return ex.Aggregate(function, arguments[0], span=span)


def _previous(arguments: list[ex.Expression], span: tuple[int, int]) -> ex.Previous:
    if len(arguments) not in (1, 2):
        raise _Refusal(
            f"prev takes a value and, optionally, how many rows back; {len(arguments)} arguments given", span
        )
    operand, offset = arguments[0], arguments[1] if len(arguments) == 2 else ex.Literal(1)
    if not (isinstance(offset, ex.Literal) and type(offset.value) is int and offset.value >= 1):
        raise _Refusal("prev counts rows back with a whole number from 1", offset.span)
    for node in operand.walk():
        if isinstance(node, ex.Aggregate):
            raise _Refusal(
                f"{node.function} inside prev: only values of single events have a previous row", node.span
            )
    return ex.Previous(operand, offset.value, span=span)


class _PatternBuilder:
    """One method for each rule and alias of ``regex.lark``."""

    def start(self, children):
        return children[0]

    def alternative(self, children):
        if len(children) == 1:
            return children[0]
        places = [child for child in children if child.span is not None]
        return replace(pt.any_of_patterns(*children), span=_span(places) if places else None)

    def sequence(self, children):
        if len(children) == 1:
            return children[0]
        return replace(pt.seq(*children), span=_span(children)) if children else pt.Empty()

    def variable(self, children):
        return pt.Variable(str(children[0]), span=_span(children))

    def any_event(self, children):
        return pt.AnyEvent(span=_span(children))

    def group(self, children):
        return replace(children[1], span=_span(children))

    def star(self, children):
        return self._repeat(children, 0, None)

    def plus(self, children):
        return self._repeat(children, 1, None)

    def optional(self, children):
        return self._repeat(children, 0, 1)

    def exactly(self, children):
        times = _whole_number(children[1])
        return self._repeat(children, times, times)

    def at_least(self, children):
        return self._repeat(children, _whole_number(children[1]), None)

    def from_to(self, children):
        return self._repeat(children, _whole_number(children[1]), _whole_number(children[2]))

    def at_most(self, children):
        return self._repeat(children, 0, _whole_number(children[1]))

    def _repeat(self, children, low: int, high: int | None):
        if high is not None and high < max(1, low):
            place = (children[1].start_pos, children[-2].end_pos)
            if high == 0:
                raise _Refusal("a repetition allows at least one event; no event is written ()", place)
            raise _Refusal(f"the lower bound {low} is above the upper bound {high}", place)
        return pt.Repeat(children[0], low, high, span=_span(children))


def _pattern_children(pattern: pt.Pattern) -> tuple[pt.Pattern, ...]:
    match pattern:
        case pt.Sequence(parts=inner) | pt.Alternative(options=inner):
            return inner
        case pt.Repeat(body=body):
            return (body,)
    return ()


def _check_depth(tree: Any, children: Callable, text: str, role: str | None) -> None:
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in children(node)], depth + 1
        if depth > DEEPEST:
            raise located(
                f"more than {DEEPEST} levels stand inside one another; simplify", text, (0, 1), role
            )
