"""Parse texts of expressions, build their trees from the rules of the grammar, and say what is wrong."""

from __future__ import annotations

import hashlib
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.cache import UnsafeFolderError, keep, kept_path, read_kept
from cepkit.errors import NoEventVariableError, PatternSyntaxError, UnsupportedQueryError, WrongTypeError
from cepkit.language.expressions import functions
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import registered_names
from cepkit.language.expressions.mistakes import (
    BRACKETS,
    CLOSING,
    EVENT_EXPRESSION_WORDS,
    EXPRESSION_WORDS,
    Vocabulary,
    located,
    syntax_error,
)
from cepkit.language.expressions.printing import quoted_name
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.expressions.vocabulary import SUMMARIES, VOCABULARY, WITH_UNIT, unit_fault, unit_of_time
from cepkit.limits import CONDITIONS, DEPTH, REPEATED_PARTS, ROWS_BACK, TEXT, WORDS, refuse_beyond

if TYPE_CHECKING:
    from lark import Lark, Token


# Build the trees of predicates and measures from the rules of ``expr.lark`` during parsing.

_OPERATORS = {"=": "==", "<>": "!="}

LONGEST_NUMBER = 4000  # digits; Python refuses to convert longer ones
TOO_LONG = "the number is too long"

# The parts of a REFERENCE of expr.lark.
_REFERENCE = re.compile(
    r"(?P<variable>\w+)\s*(?:\[(?P<index>[^\]]*)\]\s*)?(?:\.\s*(?P<name>[\w.]+|`.*`))?", re.DOTALL
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


def _check_chain(left: ex.Expression, right: ex.Expression) -> None:
    """Raise once a chain such as a + b + c + … has too many levels, before the rest of it is read."""
    if left.span[1] - left.span[0] < 2 * DEPTH:  # a level takes two characters at least
        return
    n_levels, node = 2, left
    while isinstance(node, ex.Arithmetic):
        n_levels, node = n_levels + 1, node.left
    if n_levels > DEPTH:
        raise Refusal(_TOO_DEEP, right.span)


def like_of(operand: ex.Expression, word: Token, pattern: str, span: tuple[int, int]) -> ex.Like:
    """Return the test of a pattern; ``ilike`` compares lower case with lower case."""
    if word.lower() == "ilike":
        return ex.Like(ex.Call("lower", (operand,), span=operand.span), pattern.lower(), span=span)
    return ex.Like(operand, pattern, span=span)


def _constant_of(value: bool | None) -> Callable[[Any, Any], ex.Literal]:
    return lambda builder, children: ex.Literal(value, span=span_of(children))


class ExpressionBuilder:
    """The parser's callbacks, one for each alias of ``expr.lark``; punctuation is not passed to them."""

    # SQL has most of them, too.

    def any_of(self, children):
        return ex.Or(tuple(children), span=span_of(children))

    def all_of(self, children):
        return ex.And(tuple(children), span=span_of(children))

    def opposite(self, children):
        return ex.Not(children[1], span=span_of(children))

    def comparison(self, children):
        """Return a comparison; of a chain such as a < b < c, the comparisons of neighbours joined by And."""
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

    def is_distinct(self, children):
        left, words, right = children
        same = ex.IsDistinct(left, right, span=span_of(children))
        return _negate_if(same, words if "not" in words.lower() else None)

    def like(self, children):
        operand, negation, word, pattern = children
        return _negate_if(like_of(operand, word, unquoted(pattern), span_of(children)), negation)

    def arithmetic(self, children):
        left, operator, right = children
        _check_chain(left, right)
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
        value = ex.number_of_text(children[0])
        if value == float("inf"):
            raise Refusal("the number is too large for a float", span_of(children))
        return ex.Literal(value, span=span_of(children))

    def text(self, children):
        return ex.Literal(unquoted(children[0]), span=span_of(children))

    true, false, null = _constant_of(True), _constant_of(False), _constant_of(None)

    def group(self, children):
        return replace(children[1], span=span_of(children))

    def call(self, children):
        """Return the node of a call: of an aggregate, of prev, or of a function."""
        name, _, *arguments, _ = children
        span, lower = span_of(children), name.lower()
        if lower in functions.AGGREGATE_SPELLINGS:
            return _aggregate(functions.AGGREGATE_SPELLINGS[lower], arguments, span)
        if lower == "prev":
            return _previous(arguments, span)
        if lower in functions.FUNCTIONS and (lower, len(arguments)) != ("round", 2):
            arity = functions.FUNCTIONS[lower]
            if not arity.accepts(len(arguments)):
                raise Refusal(f"{lower} takes {arity}, {len(arguments)} given", span)
            return ex.Call(lower, tuple(arguments), span=span)
        if lower == "next":
            return _next(arguments, span)
        if lower in VOCABULARY and not functions.is_registered(name):
            return call_of_value(lower, lower, arguments, span)
        if lower in functions.FOREIGN_FUNCTIONS and not functions.is_registered(name):
            message = f"no function {str(name)!r}; {functions.FOREIGN_FUNCTIONS[lower]}"
            raise Refusal(message, span_of([name]))
        meant = functions.misspelt_built_in(name)
        if meant and not functions.is_registered(name):
            hint = "register your own function first, with @cep.pure"
            raise Refusal(f"no function {str(name)!r}. Did you mean {meant!r}? ({hint})", span_of([name]))
        return ex.Call(str(name), tuple(arguments), span=span)


def call_of_value(
    name: str, shown: str, arguments: Sequence[ex.Expression], span: tuple[int, int]
) -> ex.Call:
    """Return a call of a function of `VOCABULARY`; ``shown`` is its name in errors."""
    function, arguments = VOCABULARY[name], tuple(arguments)
    if (
        function.name in ("datediff", "date_add") and len(arguments) == 2
    ):  # as in Spark: of days, the last time first
        arguments = (ex.Literal("day"), *arguments[::-1])
    elif function.name in WITH_UNIT and arguments:
        arguments = (_unit(function.name, shown, arguments[0]), *arguments[1:])
    if not function.takes.accepts(len(arguments)):
        form = f", as in {shown}('hour', {', '.join(WITH_UNIT[name])})" if name in WITH_UNIT else ""
        rows = "; the number of rows of the match is count()" if function.name == "length" else ""
        raise Refusal(f"{shown}() takes {function.takes}{form}; {len(arguments)} given{rows}", span)
    return ex.Call(name, arguments, span=span)


def _unit(name: str, shown: str, word: ex.Expression) -> ex.Literal:
    """Return the unit of time in the first argument: a name, or a text."""
    written = word.name if isinstance(word, ex.Attribute) else getattr(word, "value", None)
    unit = unit_of_time(written)
    if unit is None:
        raise Refusal(unit_fault(name, shown, written), word.span)
    return ex.Literal(unit, span=word.span)


def _next(arguments: list[ex.Expression], span: tuple[int, int]) -> ex.Call:
    """Return the value of a later row: ``next(x)``, or ``next(x, 2)``."""
    previous = _previous(arguments, span, "next")
    for node in previous.operand.walk():
        if isinstance(node, ex.Previous) or (isinstance(node, ex.Call) and node.function == "next"):
            raise Refusal("prev and next do not go inside next; count the rows, as in next(x, 2)", node.span)
    return ex.Call("next", (previous.operand, ex.Literal(previous.offset)), span=span)


def _reference(token: Token, span: tuple[int, int]) -> ex.Reference:
    """Return the reference to an event of a sequence, such as `a.x`, `a[1].x` or `a[i-1].x`."""
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
    """Return the node of an aggregate such as sum(x). Raise if the number of its arguments is wrong."""
    if function == "count" and not arguments:
        return ex.Aggregate("count", span=span)
    summary = SUMMARIES.get(function)
    if summary is not None and summary.by is not None:
        return _aggregate_by(function, summary.by, arguments, span)
    if len(arguments) != 1:
        several = {
            "max": "; the largest of several values is greatest(x, y)",
            "min": "; the smallest of several values is least(x, y)",
        }
        wanted = "no argument or one" if function == "count" else "exactly one argument"
        raise Refusal(f"{function} takes {wanted}, {len(arguments)} given{several.get(function, '')}", span)
    _refuse_inner(function, arguments)
    return ex.Aggregate(function, arguments[0], span=span)


def _aggregate_by(
    function: str, second: str, arguments: list[ex.Expression], span: tuple[int, int]
) -> ex.Aggregate:
    """Return the node of an aggregate of two arguments, such as quantile(x, 0.9)."""
    if len(arguments) != 2:
        raise Refusal(f"{function} takes a value and {second}, {len(arguments)} given", span)
    _refuse_inner(function, arguments)
    by = arguments[1]
    if function == "quantile" and not (
        isinstance(by, ex.Literal) and type(by.value) in (int, float) and 0 <= by.value <= 1
    ):
        raise Refusal("quantile takes a share between 0 and 1, as in quantile(x, 0.9)", by.span)
    return ex.Aggregate(function, arguments[0], by, span=span)


def _refuse_inner(function: str, arguments: list[ex.Expression]) -> None:
    for node in (node for argument in arguments for node in argument.walk()):
        if isinstance(node, ex.Aggregate | ex.Previous):
            inner = node.function if isinstance(node, ex.Aggregate) else "prev"
            raise Refusal(f"{inner} inside {function}: an aggregate takes values of single events", node.span)


def _previous(arguments: list[ex.Expression], span: tuple[int, int], name: str = "prev") -> ex.Previous:
    """Return the node of prev(x, n) or next(x, n): the value of x that is n rows back or ahead."""
    way = "back" if name == "prev" else "ahead"
    if len(arguments) not in (1, 2):
        raise Refusal(
            f"{name} takes a value and, optionally, how many rows {way}; {len(arguments)} arguments given",
            span,
        )
    operand, offset = arguments[0], arguments[1] if len(arguments) == 2 else ex.Literal(1)
    if not (isinstance(offset, ex.Literal) and type(offset.value) is int and offset.value >= 1):
        raise Refusal(f"{name} counts rows {way} with a whole number from 1", offset.span)
    if offset.value > ROWS_BACK:
        raise Refusal(f"{name} counts at most {ROWS_BACK:,} rows {way}", offset.span)
    for node in operand.walk():
        if isinstance(node, ex.Aggregate):
            row = "previous" if name == "prev" else "next"
            raise Refusal(
                f"{node.function} inside {name}: only values of single events have a {row} row", node.span
            )
    return ex.Previous(operand, offset.value, span=span)


EXPRESSION_BUILDER = ExpressionBuilder()


# Parse predicates and measures into trees, by the grammar ``expr.lark``; parsers of all grammar files.

# Parsers of grammar files. Their tables come with the package, or are kept in the cache.

_LANGUAGE = Path(__file__).resolve().parents[1]
_FILES = (
    "expressions/expr.lark", "regex.lark", "sequences/sase.lark", "match_recognize/row_pattern.lark",
    "match_recognize/sql_expression.lark", "siddhi/siddhi.lark", "eql.lark",
)  # fmt: skip
GRAMMARS = tuple(_LANGUAGE / path for path in _FILES)
FOLDER = _LANGUAGE / "tables"
_OPTIONS: dict[str, Any] = {"parser": "lalr", "lexer": "basic"}


def make_parser(grammar: Path, builder: object) -> Lark:
    """Return the parser of a grammar file. It builds trees with ``builder`` while it parses."""
    import lark

    text = grammar.read_text(encoding="utf-8")
    tables = tables_path(grammar.stem, text, lark.__version__)
    if tables.exists():
        return _parser_of(tables.read_bytes(), builder)
    key = hashlib.sha256(f"{lark.__version__} {sys.version}\n{text}".encode()).hexdigest()[:24]
    try:
        path = kept_path(f"cepkit_grammar_{key}.tables")
    except UnsafeFolderError:
        path = None
    if path is None:  # without a cache folder the parser is built again each time (30 ms)
        return lark.Lark(text, **_OPTIONS, transformer=builder)
    content = read_kept(path)
    if content is None:
        content = _tables(text)
        keep(path, content)
    return _parser_of(content, builder)


def _parser_of(tables: bytes, builder: object) -> Lark:
    """Return a parser from its tables. The builder works during parsing, so no pass over the tree follows."""
    import lark

    parser = lark.Lark.__new__(lark.Lark)
    return parser._load(io.BytesIO(tables), transformer=builder)  # `Lark.load` takes no transformer


def _tables(text: str) -> bytes:
    import lark

    file = io.BytesIO()
    lark.Lark(text, **_OPTIONS).save(file)
    return file.getvalue()


def tables_path(name: str, text: str, version: str, folder: Path | None = None) -> Path:
    """Return where the tables of a grammar lie if they come with the package, for one version of lark."""
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return (folder or FOLDER) / f"{name}_{key}_lark_{version}.tables"


def write_tables(folder: Path, grammar: Path) -> Path:
    """Write the tables of a grammar file for this version of lark unless they exist; return their path."""
    import lark

    text = grammar.read_text(encoding="utf-8")
    path = tables_path(grammar.stem, text, lark.__version__, folder)
    if not path.exists():
        path.write_bytes(_tables(text))
    return path


# Read long lists of constants, as in ``symbol in ['AAPL', …]``, without steps of the parser for each item.
#
# The parser sees a text of the same length, with blanks instead of all items but the first. Its tree then
# gets the other items. If anything is unusual, the parser reads the whole text. So errors and their places do
# not change.

_FEWEST_ITEMS = 8
# As in expr.lark: texts and quoted names, as the word `in` may occur in them; or the beginning of a list.
_BEGINNING = re.compile(
    r"""'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`|(?<![\w.:])(?ai:in)\s*(?P<bracket>[\[(])\s*"""
)
_ITEM = re.compile(
    r"""(?:(?P<text>'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*")"""
    r"""|(?P<minus>-\s*)?(?:(?P<decimal>(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,2})?)|"""
    r"""(?P<integer>[0-9]{1,18}))(?![\w.]))\s*(?P<comma>,\s*)?"""
)
_CLOSING = {"[": "]", "(": ")"}
_UNNAMED = re.sub(r"\?P<\w+>", "?:", _ITEM.pattern.removesuffix(r"(?P<comma>,\s*)?"))
_LONG_LIST = re.compile(rf"{_UNNAMED}(?:,\s*{_UNNAMED}){{{_FEWEST_ITEMS - 1},}}(?:,\s*)?")

_BLANKS = re.compile(r"\s*")

Items = tuple[ex.Expression, ...]


def shortened(text: str, start: int = 0) -> tuple[str, dict[int, Items]]:
    """Return the text with only the first item of each long list of constants, and all their items."""
    # The key of the items is the place where the first item begins. Blanks are before ``start``.
    items_at: dict[int, Items] = {}
    parts, done = [], 0
    for place, end in _long_lists(text, start):
        items = tuple(map(_constant, _ITEM.finditer(text, place, end)))
        first = items[0].span
        items_at[first[0]] = items
        parts += [text[done : first[1]], " " * (end - first[1])]
        done = end
    return "".join([*parts, text[done:]]) if items_at else text, items_at


def _long_lists(text: str, place: int) -> Iterator[tuple[int, int]]:
    """Yield the place of the first item of each long list of constants, and of its closing bracket."""
    while (beginning := _BEGINNING.search(text, place)) is not None:
        place = beginning.end()
        items = _LONG_LIST.match(text, place) if beginning["bracket"] else None
        if items is not None and text.startswith(_CLOSING[beginning["bracket"]], items.end()):
            yield place, items.end()
            place = items.end()


def end_of_constants(text: str, place: int) -> int:
    """Return the place of the bracket that closes a long list of constants, or ``place`` if there is none."""
    # The list is the whole inside of the bracket that opens before ``place``.
    items = _LONG_LIST.match(text, _BLANKS.match(text, place).end())
    closes = items is not None and text.startswith(_CLOSING[text[place - 1]], items.end())
    return items.end() if closes else place


def _constant(item: re.Match) -> ex.Expression:
    """Return the literal that a match of the regex of constants has read."""
    if (token := item["text"]) is not None:
        quote, value = token[0], token[1:-1]
        value = value.replace(quote * 2, quote) if quote in value else value
        return ex.Literal(value, span=item.span("text"))
    kind = "decimal" if item["integer"] is None else "integer"
    span = item.span(kind)
    number = ex.Literal(int(item[kind]) if kind == "integer" else ex.number_of_text(item[kind]), span=span)
    return number if item["minus"] is None else ex.Negative(number, span=(item.start(), span[1]))


def with_all_items(tree: ex.Expression, items_at: dict[int, Items]) -> ex.Expression | None:
    """Return the tree with all items of its lists, or None if a list is not where it seemed to be."""
    waiting = dict(items_at)

    def fill(node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.In) or len(node.options) != 1:
            return node
        items = waiting.pop(node.options[0].span[0], None)
        return node if items is None else ex.In(node.operand, items, span=node.span)

    filled = rebuilt(tree, ex.Expression, fill)
    return None if waiting else filled


# Parse predicates and measures into trees, by the grammar ``expr.lark``.
#
# Text is parsed, never evaluated. Text that the grammar does not cover raises an error with its position.

LONGEST_KEPT = 2_000  # characters; the trees of the last texts up to this length are kept


def parse_expression(
    text: str, *, role: str = "predicate", references: bool = False, whole: str | None = None
) -> ex.Expression:
    """Return the tree of a predicate or measure."""
    # Python and SQL spellings are read alike: ``and or not && || & | ! ~``, ``== = != <>``, ``in``,
    # ``between``, ``is null``, ``like``. ``a < b < c`` means ``a < b and b < c``. ``&`` and ``|`` bind like
    # ``and`` and ``or``, so ``a > 1 & b > 2`` means what it seems to mean. Write strings in single or double
    # quotes (doubled inside), odd column names in backticks, and parameters as ``:name``.
    #
    # The first call builds the parser (about 30 ms). A short text that was parsed before gives the same tree
    # again.
    if not isinstance(text, str) or len(text) > LONGEST_KEPT:
        return _parse_expression(text, role, references, whole)
    return _parse_once(text, role, references, whole, registered_names())


@lru_cache(maxsize=256)
def _parse_once(
    text: str, role: str, references: bool, whole: str | None, registered: frozenset[str]
) -> ex.Expression:
    """Parse a text; ``registered`` is part of the key because calls of unknown functions can be errors."""
    return _parse_expression(text, role, references, whole)


def _parse_expression(text: str, role: str, references: bool, whole: str | None) -> ex.Expression:
    """Return the tree of an expression. Errors underline its place in `whole`, the text around it."""
    tree = None
    if isinstance(text, str):
        tree = parse_with_lists(*shortened(text), _expression_parser)
    if tree is None:
        words = EVENT_EXPRESSION_WORDS if references else EXPRESSION_WORDS
        tree = parse(text, _expression_parser, words, role, whole)
    check_tree(tree, ex.Expression.children, text if whole is None else whole, role)
    if not references:
        tree = fields_of_structs(tree)
        _refuse_references(tree, text, role)
    return tree


_FIELD = re.compile(r"(?!_)\w+(?:\.(?!_)\w+)*")


def fields_of_structs(
    tree: ex.Expression, is_name: Callable[[str], bool] = lambda owner: False
) -> ex.Expression:
    """Return a tree in which ``user.id`` is a field of a column, unless ``user`` is a name of the pattern."""

    def change(node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.Reference) or node.index is not None or is_name(node.variable):
            return node
        is_field = node.name is not None and _FIELD.fullmatch(node.name)
        return ex.Attribute(f"{node.variable}.{node.name}", span=node.span) if is_field else node

    has_fields = any(isinstance(node, ex.Reference) for node in tree.walk(literals=False))
    return rebuilt(tree, ex.Expression, change) if has_fields else tree


def parse_with_lists(
    short: str, items_at: dict[int, Items], parser: Callable[[], Lark]
) -> ex.Expression | None:
    """Return the tree of a text that `shortened` made; None for a text without long lists, and for errors."""
    from lark.exceptions import UnexpectedInput

    if not items_at:
        return None
    try:
        return with_all_items(parser().parse(short), items_at)
    except (UnexpectedInput, Refusal):
        return None


def _refuse_references(tree: ex.Expression, text: str, role: str) -> None:
    """Raise if an expression of a regex query names an event, as only sequences can."""
    for node in tree.walk(literals=False):
        if isinstance(node, ex.Reference):
            if node.index is None:
                column, name = quoted_name(f"{node.variable}.{node.name}"), quoted_name(node.name)
                message = (
                    f"rows of a regex query have no names; write {name}, prev({name}), first({name}) or "
                    f"last({name}). Named events belong to a sequence, PATTERN SEQ(…). A column with a dot "
                    f"in its name is {column}"
                )
            else:
                message = (
                    f"{node} names an event of a sequence (PATTERN SEQ…); in a regex query first(x), last(x) "
                    "and prev(x) look back"
                )
            raise NoEventVariableError(f"{role}: {message}", text, node.span[0], node.span[1] - node.span[0])


def parse(
    text: str, parser: Callable[[], Lark], words: Vocabulary, role: str | None, whole: str | None = None,
    start: int = 0,
) -> Any:  # fmt: skip
    """Return the tree that ``parser()`` makes from ``text``; errors use ``words`` and show ``whole``."""
    # Blanks are before ``start``.
    from lark.exceptions import UnexpectedInput

    if not isinstance(text, str):
        raise WrongTypeError(f"{role or 'pattern'}: expected text, got {type(text).__name__}")
    check_text(text, role, start)
    try:
        return parser().parse(text)
    except UnexpectedInput as error:
        mistake = syntax_error(error, text, words, role, whole)
    except Refusal as refusal:
        mistake = located(refusal.message, text, refusal.span, role)
    if whole is not None:
        mistake = PatternSyntaxError(mistake.message, whole, mistake.position, mistake.length)
    raise mistake from None


def check_text(text: str, role: str | None = None, start: int = 0) -> None:
    """Raise if a text is too long to parse, has too many conditions, or nests too many brackets."""
    # Blanks, such as those before ``start``, and the items of long lists of constants do not count.
    short = without_items(text, start) if len(text) - start > 2 * CONDITIONS else ""
    refuse_beyond(TEXT, len(short) - short.count(" "), "characters of the query", _CURE)
    unquoted_text = _QUOTED.sub("", short)
    words = Counter(kind.lower() for kind in _JOINTS.findall(unquoted_text))
    n_parts = 1 + sum(words.pop(word, 0) for word in ("and", "or"))
    refuse_beyond(CONDITIONS, max(n_parts, sum(words.values())), "conditions of the query", _CURE)
    check_depth(text, role, start)
    n_words = sum(1 for _ in _WORD.finditer(unquoted_text))
    refuse_beyond(WORDS, n_words, "names, numbers and signs of the query", _CURE)


def without_items(text: str, start: int = 0) -> str:
    """Return the text from ``start`` on without the items of long lists of constants but their first."""
    parts, done = [], start
    for place, end in _long_lists(text, start):
        parts.append(text[done : _ITEM.match(text, place).end()])
        done = end
    return "".join([*parts, text[done:]])


def check_depth(text: str, role: str | None = None, start: int = 0) -> None:
    """Raise if a text nests too many brackets."""
    depth = 0
    for bracket in BRACKETS.finditer(text, start):
        depth += 1 if bracket[0] in CLOSING else -1 if bracket[0] in CLOSING.values() else 0
        if depth > DEPTH:
            raise located(_TOO_DEEP, text, (bracket.start(), bracket.end()), role)


_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
_JOINTS = re.compile(r"\b(?:and|or)\b|!=|<>|[<>=]=?", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:\.\d+)?|[^\w\s]")
_TOO_DEEP = f"more than {DEPTH} levels are nested; simplify"
_TOO_OFTEN = (
    f"BETWEEN or comparisons inside each other repeat more than {REPEATED_PARTS:,} parts; compute the inner "
    "ones as columns"
)
_CURE = "Give long lists of constants in IN (…), and compute long conditions as columns"


@cache
def _expression_parser() -> Lark:
    return make_parser(Path(__file__).with_name("expr.lark"), EXPRESSION_BUILDER)


def check_tree(tree: Any, children: Callable, text: str, role: str | None) -> None:
    """Raise if a tree is too deep for the passes that walk it, or if its parts repeat too often."""
    # BETWEEN and chains such as ``1 < x < 3`` have an operand twice. Where they are inside each other, the
    # number of parts doubles at each level.
    for depth, n_repeated in _levels(tree, children):
        if depth > DEPTH or n_repeated > REPEATED_PARTS:
            start, _ = getattr(tree, "span", None) or (0, 1)
            raise located(_TOO_DEEP if depth > DEPTH else _TOO_OFTEN, text, (start, start + 1), role)


def check_built(tree: Any, children: Callable, role: str) -> None:
    """Raise if parts of a tree that Python built repeat too often, or if a condition is too deep."""
    # A variable that occurs twice, as in ``e = e & e``, doubles the text of the tree each time.
    is_condition = isinstance(tree, ex.Expression)
    for depth, n_repeated in _levels(tree, children):
        if is_condition and depth > DEPTH:
            raise UnsupportedQueryError(f"{role}: {_TOO_DEEP}")
        if n_repeated > REPEATED_PARTS:
            cure = "compute them as columns" if is_condition else "write repetitions, such as p.plus()"
            raise UnsupportedQueryError(
                f"{role}: equal parts repeat more than {REPEATED_PARTS:,} times; {cure}"
            )


def _levels(tree: Any, children: Callable) -> Iterator[tuple[int, int]]:
    """Yield, level by level, the number of levels and how many parts above are repetitions of others."""
    level, depth, n_repeated = {id(tree): (tree, 1)}, 0, 0
    while level:
        below: dict[int, tuple[Any, int]] = {}
        has_literals = False
        for node, times in level.values():
            n_repeated += 0 if type(node) is ex.Literal else times - 1
            for child in children(node):
                if type(child) is ex.Literal:  # lists have many
                    has_literals = True
                else:
                    below[id(child)] = child, below.get(id(child), (child, 0))[1] + times
        level, depth = below, depth + 1
        yield depth + (has_literals and not level), n_repeated
