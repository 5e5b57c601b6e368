"""Parse predicates and measures into trees, by the grammar ``expr.lark``; parsers of all grammar files."""

from __future__ import annotations

import hashlib
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.cache import UnsafeFolderError, keep, kept_path, read_kept
from cepkit.errors import NoEventVariableError, PatternSyntaxError, UnsupportedQueryError, WrongTypeError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.building import EXPRESSION_BUILDER, Refusal
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
from cepkit.limits import CONDITIONS, DEPTH, REPEATED_PARTS, TEXT, refuse_beyond

if TYPE_CHECKING:
    from lark import Lark


# Parsers of grammar files. Their tables come with the package, or are kept in the cache.

_LANGUAGE = Path(__file__).resolve().parents[1]
_FILES = (
    "expressions/expr.lark",
    "regex/regex.lark",
    "sequences/sase.lark",
    "match_recognize/row_pattern.lark",
    "match_recognize/sql_expression.lark",
    "siddhi/siddhi.lark",
)
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
    path = _kept_path(f"cepkit_grammar_{key}.tables")
    if path is None:  # without a cache folder the parser is built again each time (30 ms)
        return lark.Lark(text, **_OPTIONS, transformer=builder)
    content = read_kept(path)
    if content is None:
        content = _tables(text)
        keep(path, content)
    return _parser_of(content, builder)


def _kept_path(name: str) -> Path | None:
    try:
        return kept_path(name)
    except UnsafeFolderError:
        return None


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

Items = tuple[ex.Expression, ...]


def shortened(text: str) -> tuple[str, dict[int, Items]]:
    """Return the text with only the first item of each long list of constants, and all items of these lists.

    The key of the items is the place where the first item begins.
    """
    items_at: dict[int, Items] = {}
    parts, done, place = [], 0, 0
    while (beginning := _BEGINNING.search(text, place)) is not None:
        place = beginning.end()
        if beginning["bracket"] is None:
            continue
        items, end = _read(text, place, _CLOSING[beginning["bracket"]])
        if len(items) >= _FEWEST_ITEMS:
            first = items[0].span
            items_at[first[0]] = items
            parts += [text[done : first[1]], " " * (end - first[1])]
            done = place = end
    return "".join([*parts, text[done:]]) if items_at else text, items_at


def _read(text: str, place: int, closing: str) -> tuple[Items, int]:
    """Return the constants from ``place`` to a closing bracket, and its place; none for anything else."""
    items: list[ex.Expression] = []
    for item in _ITEM.finditer(text, place):
        if item.start() != place:
            break
        items.append(_constant(item))
        place = item.end()
        if item.lastgroup != "comma":
            break
    return (tuple(items) if text.startswith(closing, place) else ()), place


def _constant(item: re.Match) -> ex.Expression:
    if (token := item["text"]) is not None:
        quote, value = token[0], token[1:-1]
        value = value.replace(quote * 2, quote) if quote in value else value
        return ex.Literal(value, span=item.span("text"))
    kind = "decimal" if item["integer"] is None else "integer"
    span = item.span(kind)
    number = ex.Literal(int(item[kind]) if kind == "integer" else float(item[kind]), span=span)
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
    """Return the tree of a predicate or measure.

    Python and SQL spellings are read alike: ``and or not && || & | ! ~``, ``== = != <>``, ``in``,
    ``between``, ``is null``, ``like``. ``a < b < c`` means ``a < b and b < c``. ``&`` and ``|`` bind like
    ``and`` and ``or``, so ``a > 1 & b > 2`` means what it seems to mean. Write strings in single or double
    quotes (doubled inside), odd column names in backticks, and parameters as ``:name``.

    The first call builds the parser (about 30 ms). A short text that was parsed before gives the same tree
    again.
    """
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
    tree = None
    if isinstance(text, str):
        tree = parse_with_lists(*shortened(text), _expression_parser)
    if tree is None:
        words = EVENT_EXPRESSION_WORDS if references else EXPRESSION_WORDS
        tree = parse(text, _expression_parser, words, role, whole)
    check_tree(tree, ex.Expression.children, text if whole is None else whole, role)
    if not references:
        _refuse_references(tree, text, role)
    return tree


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
    text: str, parser: Callable[[], Lark], words: Vocabulary, role: str | None, whole: str | None = None
) -> Any:
    """Return the tree that ``parser()`` makes from ``text``; errors use ``words`` and show ``whole``."""
    from lark.exceptions import UnexpectedInput

    if not isinstance(text, str):
        raise WrongTypeError(f"{role or 'pattern'}: expected text, got {type(text).__name__}")
    check_text(text, role)
    try:
        return parser().parse(text)
    except UnexpectedInput as error:
        mistake = syntax_error(error, text, words, role, whole)
    except Refusal as refusal:
        mistake = located(refusal.message, text, refusal.span, role)
    if whole is not None:
        mistake = PatternSyntaxError(mistake.message, whole, mistake.position, mistake.length)
    raise mistake from None


def check_text(text: str, role: str | None = None) -> None:
    """Raise if a text is too long to parse, has too many conditions, or nests too many brackets.

    Blanks and the items of long lists of constants do not count.

    """
    if len(text) > TEXT:
        n = len(shortened(text)[0].replace(" ", ""))
        refuse_beyond(TEXT, n, "characters of the query", _CURE)
    if len(text) > 2 * CONDITIONS:
        words = Counter(kind.lower() for kind in _JOINTS.findall(_QUOTED.sub("", text)))
        n_parts = 1 + sum(words.pop(word, 0) for word in ("and", "or"))
        refuse_beyond(CONDITIONS, max(n_parts, sum(words.values())), "conditions of the query", _CURE)
    depth = 0
    for bracket in BRACKETS.finditer(text):
        depth += 1 if bracket[0] in CLOSING else -1 if bracket[0] in CLOSING.values() else 0
        if depth > DEPTH:
            raise located(_TOO_DEEP, text, (bracket.start(), bracket.end()), role)


_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
_JOINTS = re.compile(r"\b(?:and|or)\b|!=|<>|[<>=]=?", re.IGNORECASE)
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
    """Raise if a tree is too deep for the passes that walk it, or if its parts repeat too often.

    BETWEEN and chains such as ``1 < x < 3`` have an operand twice. Where they are inside each other, the
    number of parts doubles at each level.

    """
    for depth, n_repeated in _levels(tree, children):
        if depth > DEPTH:
            raise located(_TOO_DEEP, text, (0, 1), role)
        if n_repeated > REPEATED_PARTS:
            raise located(_TOO_OFTEN, text, (0, 1), role)


def check_built(tree: Any, children: Callable, role: str) -> None:
    """Raise if parts of a tree that Python built repeat too often, or if a condition is too deep.

    A variable that occurs twice, as in ``e = e & e``, doubles the text of the tree each time.
    """
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
        for node, times in level.values():
            n_repeated += 0 if type(node) is ex.Literal else times - 1
            for child in children(node):
                below[id(child)] = child, below.get(id(child), (child, 0))[1] + times
        level, depth = below, depth + 1
        yield depth, n_repeated
