"""EQL: its tree of small frozen values, and its parser by ``eql.lark``, with errors in the user's words."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cepkit.errors import PatternSyntaxError, WrongTypeError, did_you_mean
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import parse_duration
from cepkit.language.expressions.mistakes import Vocabulary, located
from cepkit.language.expressions.parsing import (
    ExpressionBuilder,
    Refusal,
    check_tree,
    make_parser,
    parse,
    span_of,
    whole_number,
)
from cepkit.language.expressions.trees import Expression, Span
from cepkit.limits import STATES, refuse_beyond
from cepkit.values import dataclass, field, replace

if TYPE_CHECKING:
    from lark import Lark


# EQL queries as trees of small frozen values: events, sequences, samples, joins and pipes.

EVENT, SEQUENCE, SAMPLE, JOIN = "event", "sequence", "sample", "join"
ANY = "any"  # the category of every event


@dataclass(frozen=True, slots=True)
class EqlField(Expression):
    """A field: its name in parts, with the numbers of items in lists. Optional ones may have no column."""

    parts: tuple[str | int, ...]
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class EqlLookup(Expression):
    """A value and the texts or patterns that it may be: ``in``, ``like``, ``regex``, with ``~``, or ``:``."""

    operand: Expression
    word: str
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class EqlEvent:
    """The events of a category, or of ``any``, for which a condition is true."""

    category: str
    condition: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EqlRelation(Expression):
    """``child of [event]``, ``descendant of`` and ``event of``: relations of processes, of Endgame's EQL."""

    relation: str
    event: EqlEvent


@dataclass(frozen=True, slots=True)
class EqlItem:
    """An item of a sequence; ``![…]`` is missing: no such event may be there."""

    # With ``fork``, of Endgame's EQL, the sequence that an event continues also waits for further ones.

    event: EqlEvent
    by: tuple[Expression, ...] = ()
    is_missing: bool = False
    runs: int = 1
    forks: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EqlPipe:
    """A step after the search, such as ``| head 5``."""

    name: str
    arguments: tuple[Expression, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EqlQuery:
    """A query of EQL; that of single events has one item. ``maxspan`` without a unit is in ticks."""

    kind: str
    items: tuple[EqlItem, ...]
    by: tuple[Expression, ...] = ()
    maxspan: str | int | None = None
    until: EqlItem | None = None
    pipes: tuple[EqlPipe, ...] = ()
    text: str = field(default="", compare=False, repr=False)


# EQL from text, by ``eql.lark``, with errors in the user's words.

MOST_RUNS = 100
PIPES = ("head", "tail", "count", "unique", "unique_count", "filter", "sort")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u\{+([0-9a-fA-F]{1,8})\}+|(.))", re.DOTALL)
_PART = re.compile(r"`((?:[^`]|``)*)`|\[([0-9]+)\]|([\w@]+)")
_SPANS = {"micros": "us", "nanos": "ns"}


def _text_of(token: str) -> str:
    """Return the text that a string spells: raw between three quotes and after ``?``."""
    if token.startswith('"""'):
        return token[3:-3]
    if token[0] == "?":
        return token[2:-1]
    return _ESCAPE.sub(lambda escape: _unescaped(escape[1], escape[2]), token[1:-1])


def _unescaped(digits: str | None, letter: str) -> str:
    if digits is None:
        return _ESCAPES.get(letter, letter)
    return chr(int(digits, 16)) if int(digits, 16) < 0x110000 else "\ufffd"


class EqlBuilder(ExpressionBuilder):
    """The parser's callbacks, one for each rule and alias of ``eql.lark``."""

    def start(self, children):
        query, *pipes = children
        if isinstance(query, EqlEvent):
            query = EqlQuery(EVENT, (EqlItem(query),))
        return replace(query, pipes=tuple(pipes))

    def series(self, children):
        """Return the query of a sequence, join or sample. Raise if its items do not fit together."""
        kind = str(children[0]).lower()
        by: tuple[ex.Expression, ...] = ()
        maxspan, until, items = None, None, []
        for child in children[1:]:
            if isinstance(child, EqlItem):
                items.append(child)
            elif isinstance(child, tuple):
                by = child
            elif isinstance(child, list):
                until = child[0]
            elif child is not None:
                maxspan = child
        if kind != SEQUENCE:
            for item in items:
                if item.is_missing or item.runs > 1 or maxspan is not None or (until and kind == SAMPLE):
                    raise Refusal(
                        f"{kind}: maxspan, runs, missing events and until belong to sequences",
                        span_of(children[:1]),
                    )
        if all(item.is_missing for item in items):
            raise Refusal("a sequence needs an event that is there, and all items are missing", items[0].span)
        missing = next((item for item in items if item.is_missing), None)
        if missing is not None and maxspan is None:
            raise Refusal("a missing event needs a time: write sequence with maxspan=5m", missing.span)
        if len({len(item.by) for item in (*items, *([until] if until else []))}) > 1:
            n = len(items[0].by)
            wrong = next(item for item in (*items, until) if item is not None and len(item.by) != n)
            raise Refusal(f"this item has {len(wrong.by)} keys after 'by', and the first has {n}", wrong.span)
        if kind == SAMPLE and not by and not items[0].by:
            raise Refusal("a sample needs a key: write sample by host", span_of(children[:1]))
        return EqlQuery(kind, tuple(items), by, maxspan, until)

    def header(self, children):
        """Return the keys of `by`, or the span of `with maxspan=…`: a duration, or a number without unit."""
        if isinstance(children[0], tuple):
            return children[0]
        token = children[0]
        written = token.rpartition("=")[2].strip()
        span = (token.end_pos - len(written), token.end_pos)
        if written.isdecimal():
            return whole_number(token, written)
        unit = written.lstrip("0123456789")
        duration = written.removesuffix(unit) + _SPANS.get(unit, unit)
        try:
            parse_duration(duration)
        except PatternSyntaxError as error:
            raise Refusal(f"maxspan: {error.message}", span) from None
        return duration

    def by(self, children):
        return tuple(children)

    def until(self, children):
        return children

    def item(self, children):
        """Return one item of a sequence: an event in brackets with its keys, runs and `fork`."""
        opening, event, closing, *rest = children
        span = (opening.start_pos, closing.end_pos)
        by, runs, forks = (), 1, False
        for part in rest:
            if isinstance(part, tuple):
                by = part
                continue
            digits = part.rpartition("=")[2].strip()
            if part.type == "FORK":
                forks = digits.lower() in ("true", "1")
                continue
            if not digits.isdecimal() or not 1 <= int(digits[:9]) <= MOST_RUNS:
                raise Refusal(f"runs is a whole number from 1 to {MOST_RUNS}", (part.start_pos, part.end_pos))
            runs = int(digits)
        return EqlItem(event, by, opening[0] == "!", runs, forks, span)

    def event(self, children):
        name, condition = children
        category = _text_of(name) if name.type == "STRING" else ".".join(map(str, self.field([name]).parts))
        return EqlEvent(category, condition, (name.start_pos, condition.span[1]))

    def pipe(self, children):
        """Return a pipe with its arguments. Raise if it is unknown or takes other arguments."""
        name, *arguments = children
        span = (name.start_pos, arguments[-1].span[1] if arguments else name.end_pos)
        if name not in PIPES:
            hint = did_you_mean(name, PIPES)
            raise Refusal(f"no pipe {str(name)!r}; pipes are {', '.join(PIPES)}{hint}", span_of([name]))
        if name in ("head", "tail"):
            count = arguments[0].value if arguments and isinstance(arguments[0], ex.Literal) else None
            if len(arguments) != 1 or type(count) is not int:
                raise Refusal(f"{name} takes a number, as in | {name} 10", span)
        elif (name != "count" and not arguments) or (name == "filter" and len(arguments) > 1):
            raise Refusal(f"{name} takes {'a condition' if name == 'filter' else 'fields'}", span)
        return EqlPipe(str(name), tuple(arguments), span)

    def comparison(self, children):
        left, operator, right = children
        return ex.Comparison(str(operator), left, right, span=span_of(children))

    def lookup(self, children):
        operand, negation, word, *options = children
        options = tuple(option for option in options if isinstance(option, ex.Expression))
        lookup = EqlLookup(operand, str(word).lower(), options, span=span_of([operand, options[-1]]))
        return lookup if negation is None else ex.Not(lookup, span=lookup.span)

    def field(self, children):
        """Return a field with its path, such as user.names[0]: names, and numbers of list items."""
        token = children[0]
        parts: list[str | int] = []
        for quoted, index, plain in (part.groups() for part in _PART.finditer(token)):
            parts.append(quoted.replace("``", "`") if quoted is not None else int(index) if index else plain)
        return EqlField(tuple(parts), token[0] == "?", span=span_of(children))

    def text(self, children):
        return ex.Literal(_text_of(children[0]), span=span_of(children))

    def call(self, children):
        name, _, *arguments, _ = children
        return ex.Call(str(name), tuple(arguments), span=span_of(children))

    def relation(self, children):
        word, _, event, _ = children
        return EqlRelation(str(word).lower().split()[0], event, span=span_of(children))


_OPERANDS = frozenset(
    {"FUNCTION", "STRING", "INT", "FLOAT", "TRUE", "FALSE", "NULL", "LPAR", "MINUS", "NOT", "RELATION"}
)
_OPERATORS = frozenset({"_AND", "_OR", "COMPARISON", "LOOKUP", "MULTIPLY", "PLUS", "MINUS", "NOT"})
_BEHIND = frozenset({"_UNTIL", "_BAR", "MISSING", "_BY", "SPAN", "RUNS", "_COMMA"})
EQL_WORDS = Vocabulary(
    expected=(
        ("KIND", frozenset({"NAME", "STRING"}), ("'sequence'", "an event, as in: process where true")),
        ("NAME", _OPERANDS, ("a value", "a field", "'('")), ("_WHERE", frozenset(), ("'where'",)),
        ("COMPARISON", _OPERATORS, ("an operator",)), ("_OR", _OPERATORS, ("an operator",)),
        ("LSQB", _BEHIND, ("'['",)), ("RSQB", frozenset(), ("']'",)),
        ("RPAR", frozenset({"_COMMA"}), ("')'",)), ("LPAR", frozenset(), ("'('",)),
        ("_BAR", _BEHIND, ("'|'",)), ("$END", frozenset(), ("the end of the text",)),
    ),
    mistakes=(
        (r"&&", "write 'and'"), (r"\|\|", "write 'or'"), (r"<>", "write '!='"), (r"=>", "write '>='"),
        (r"=<", "write '<='"), (r"with\s+maxspan\s+\w+", "write with maxspan=5m"),
        (r"-\s*\[", "a missing event is ![…]"),
    ),
    reserved="; a field of this name is written `{}`",
)  # fmt: skip


def parse_eql(text: str) -> EqlQuery:
    if not isinstance(text, str):
        raise WrongTypeError(f"EQL: expected text, got {type(text).__name__}")
    return _parse_once(text)


@lru_cache(maxsize=64)
def _parse_once(text: str) -> EqlQuery:
    """Return the query of an EQL text. Raise where an expression or the sequence is too large."""
    query: EqlQuery = parse(text, _parser, EQL_WORDS, None)
    items = (*query.items, *([query.until] if query.until else []))
    trees = [*query.by, *(tree for pipe in query.pipes for tree in pipe.arguments)]
    trees += [tree for item in items for tree in (item.event.condition, *item.by)]
    for tree in trees:  # those of relations come to the end of the list
        check_tree(tree, ex.Expression.children, text, None)
        trees += [node.event.condition for node in tree.walk() if isinstance(node, EqlRelation)]
    refuse_beyond(STATES, sum(item.runs for item in items), "items of the sequence", "Write a shorter one")
    return replace(query, text=text)


def fault(message: str, text: str, span: tuple[int, int] | None) -> PatternSyntaxError:
    """Return the error of a part of a query that is well-formed and cannot run."""
    return located(message, text, span or (0, len(text)), None)


@cache
def _parser() -> Lark:
    return make_parser(Path(__file__).with_name("eql.lark"), EqlBuilder())
