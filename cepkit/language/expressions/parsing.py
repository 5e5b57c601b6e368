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
from cepkit.errors import CepError, NoEventVariableError, PatternSyntaxError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.building import EXPRESSION_BUILDER, Refusal, span_of, whole_number
from cepkit.language.expressions.mistakes import (
    EVENT_EXPRESSION_WORDS,
    EXPRESSION_WORDS,
    PATTERN_WORDS,
    Vocabulary,
    located,
    syntax_error,
)
from cepkit.language.expressions.printing import quoted_name
from cepkit.language.regex import patterns as pt

if TYPE_CHECKING:
    from lark import Lark

# Deeper trees would exhaust the stack of the passes that walk them; a long `a or b or c` is not deep.
DEEPEST = 200


def parse_expression(
    text: str, *, role: str = "predicate", references: bool = False, whole: str | None = None
) -> ex.Expression:
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
    references : bool
        Whether events have names, as in sequence queries: then ``b.price``, ``b[i].price``,
        ``b[i-1].price``, ``b[1].price``, ``b[LEN].price`` and, in an aggregate, ``b[..i-1].price`` and
        ``b[..i-1]`` are values of event ``b``.
    whole : str, optional
        The text to show in errors, where ``text`` is a part of it with blanks in place of the rest.

    Returns
    -------
    Expression
        Each node with its ``span`` in ``text``.

    Raises
    ------
    PatternSyntaxError
        With place and caret, when the text is no expression, a built-in function has a wrong number of
        arguments, or an aggregate contains another aggregate or ``prev``.
    NoEventVariableError
        A kind of both PatternSyntaxError and PredicateError: for ``b.price`` without ``references``.

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
    words = EVENT_EXPRESSION_WORDS if references else EXPRESSION_WORDS
    tree = parse(text, _expression_parser, words, role, whole)
    check_depth(tree, ex.Expression.children, text if whole is None else whole, role)
    if not references:
        _refuse_references(tree, text, role)
    return tree


def _refuse_references(tree: ex.Expression, text: str, role: str) -> None:
    for node in tree.walk():
        if isinstance(node, ex.Reference):
            if node.index is None:
                column = quoted_name(f"{node.variable}.{node.name}")
                message = (
                    f"there are no attributes of values; a column with a dot in its name is written {column}"
                )
            else:
                message = (
                    f"{node} names an event of a sequence (PATTERN SEQ…); in a regex query first(x), last(x) "
                    "and prev(x) look back"
                )
            raise NoEventVariableError(f"{role}: {message}", text, node.span[0], node.span[1] - node.span[0])


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
    tree = parse(text, _pattern_parser, PATTERN_WORDS, None)
    if not text.strip():
        raise PatternSyntaxError("expected a predicate name, '.' or '(', found an empty pattern", text, 0)
    check_depth(tree, _pattern_children, text, None)
    return tree


def parse(
    text: str, parser: Callable[[], Lark], words: Vocabulary, role: str | None, whole: str | None = None
) -> Any:
    """Return the tree that ``parser()`` makes of ``text``; errors speak in ``words`` and show ``whole``."""
    from lark.exceptions import UnexpectedInput

    if not isinstance(text, str):
        raise TypeError(f"{role or 'pattern'}: expected text, got {type(text).__name__}")
    try:
        return parser().parse(text)
    except UnexpectedInput as error:
        found = syntax_error(error, text, words, role, whole)
    except Refusal as refusal:
        found = located(refusal.message, text, refusal.span, role)
    if whole is not None:
        found = PatternSyntaxError(found.message, whole, found.position, found.length)
    raise found from None


@cache
def _expression_parser() -> Lark:
    return make_parser("expr.lark", EXPRESSION_BUILDER)


@cache
def _pattern_parser() -> Lark:
    return make_parser("regex.lark", _PatternBuilder())


def make_parser(grammar: str, builder: object) -> Lark:
    """Return the parser of a grammar file of this folder; its tables are kept between processes."""
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


class _PatternBuilder:
    """One method for each rule and alias of ``regex.lark``."""

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
        if high is not None and high < max(1, low):
            place = (children[1].start_pos, children[-2].end_pos)
            if high == 0:
                raise Refusal("a repetition allows at least one event; no event is written ()", place)
            raise Refusal(f"the lower bound {low} is above the upper bound {high}", place)
        return pt.Repeat(children[0], low, high, span=span_of(children))


def _pattern_children(pattern: pt.Pattern) -> tuple[pt.Pattern, ...]:
    match pattern:
        case pt.Sequence(parts=inner) | pt.Alternative(options=inner):
            return inner
        case pt.Repeat(body=body):
            return (body,)
    return ()


def check_depth(tree: Any, children: Callable, text: str, role: str | None) -> None:
    """Refuse a tree that is too deep for the passes that walk it."""
    level, depth = [tree], 0
    while level:
        level, depth = [child for node in level for child in children(node)], depth + 1
        if depth > DEEPEST:
            raise located(
                f"more than {DEEPEST} levels stand inside one another; simplify", text, (0, 1), role
            )
