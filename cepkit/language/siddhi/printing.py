"""SiddhiQL from text, with errors in the user's words, and as text in one canonical spelling."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.errors import PatternSyntaxError, WrongTypeError, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.mistakes import Vocabulary, located
from cepkit.language.expressions.parsing import check_text, check_tree, make_parser, parse
from cepkit.language.expressions.printing import ITEM, SUM, UNARY, ExpressionPrinter
from cepkit.language.expressions.trees import text_of
from cepkit.language.siddhi import query as sp
from cepkit.language.siddhi.building import MIXED_SIGNS, SIDDHI_BUILDER, Milliseconds
from cepkit.limits import QUERIES, STATES, refuse_beyond

if TYPE_CHECKING:
    from lark import Lark


# The words for syntax errors in SiddhiQL, and statements of Siddhi that do not run here.

# Words that a misspelled one may mean.
KEYWORDS = (
    "define", "stream", "partition", "with", "begin", "end", "from", "select", "every", "not", "for",
    "within", "and", "or", "insert", "into", "group", "by", "having", "order", "limit", "join", "on", "as",
    "return", "unidirectional", "window",
)  # fmt: skip

_OPERATORS = frozenset(
    {"_AND", "_OR", "_IS", "IN", "COMPARISON", "MULTIPLY", "PLUS", "MINUS", "LPAR", "DOT", "LSQB", "COLON"}
)
_OPERANDS = frozenset(
    {"QUOTED", "INT", "LONG", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "LPAR", "MINUS", "NOT"}
)
_CLAUSES = frozenset(
    {"_GROUP_BY", "_HAVING", "_ORDER_BY", "_LIMIT", "_OFFSET", "RATE", "RETURN", "_AS", "DIRECTION"}
)
_OF_STATES = frozenset(
    {"EVERY", "LPAR", "NOT", "QUOTED", "HASH", "WINDOW", "LSQB", "COUNT", "PLUS", "MULTIPLY", "QUESTION"}
    | {"_AND", "_OR", "EQUALS", "JOIN", "_AS", "UNIDIRECTIONAL", "WITHIN", "_COMMA"}
)

SIDDHI_WORDS = Vocabulary(
    expected=(
        (
            "FROM",
            frozenset({"AT", "DEFINE_STREAM", "PARTITION_WITH", "_SEMI"}),
            ("'from'", "'define stream'"),
        ),
        ("EVERY", _OF_STATES | {"NAME"}, ("a stream", "'every'", "'not'")),
        ("ARROW", _OF_STATES | _CLAUSES | {"_SELECT", "INSERT"}, ("'->'", "'select'", "'insert into'")),
        ("NAME", _OPERANDS | {"HASH"}, ("a name",)),
        ("INSERT", _CLAUSES | _OPERATORS | {"_COMMA"}, ("'insert into'",)),
        ("_SELECT", frozenset(), ("'select'",)),
        ("INT", _OPERANDS, ("a number",)),
        ("COMPARISON", _OPERATORS, ("an operator",)),
        ("_OR", _OPERATORS | {"_OF", "_AS"}, ("an operator",)),
        ("STRING", frozenset(), ("a text in quotes",)),
        ("EQUALS", frozenset(), ("'='",)),
        ("END", frozenset({"FROM", "_SEMI", "AT"}), ("'end'", "a query")),
        ("_BEGIN", frozenset(), ("'begin'",)),
        ("_OF", frozenset(), ("'of'",)),
        ("NULL", frozenset(), ("'null'",)),
        ("RSQB", frozenset(), ("']'",)),
        ("RPAR", frozenset(), ("')'",)),
        ("LPAR", frozenset(), ("'('",)),
        ("_COMMA", frozenset(), ("','",)),
        ("_SEMI", frozenset(), ("';'",)),
        ("$END", frozenset(), ("the end of the text",)),
    ),
    mistakes=(
        (r"===", "write '=='"), (r"!==", "write '!='"), (r"<>", "write '!='"), (r"=>", "write '>='"),
        (r"=<", "write '<='"), (r"&&?", "write 'and'"), (r"\|\|?", "write 'or'"),
        (r"\{\s*[0-9]*\s*,?\s*[0-9]*\s*\}", "write a count as <2:5>"),
        (r"(?<![=!<>])=(?!=)", "write '==' in a condition; '=' names the event of a state: e1=Stream"),
        (r"\u2192", "write '->'"),
    ),
    reserved="; write a name like this as `{}`",
)  # fmt: skip

_WORD = re.compile(
    r"--[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|\"\"\"(?:[^\"]|\"(?!\"\"))*+(?:\"\"\")?"
    r"|'[^'\n]*'|\"[^\"\n]*\"|`[^`]*`|(\w+)|[;(!]"
)
_DEFINED = {
    "table": "a table is state that other programs change; pass its rows as a stream",
    "window": "a named window does not run; give each query its own #window",
    "trigger": "a trigger makes events by the clock of the machine; pass a stream of times",
    "function": "a script does not run; compute its values before",
    "aggregation": "an aggregation does not run; write windows, or aggregate the result",
}
_OUTPUTS = {
    "delete": "'delete' changes a table, and tables do not run",
    "update": "'update' changes a table, and tables do not run",
}


_INNER_QUERY = "a query inside 'from' does not run; write it before, with insert into, and read its stream"
_FAULT_STREAM = (
    "{} is a fault stream, of events whose processing failed, and none fails here; leave the query out"
)
_AMOUNT = r"\s++[0-9]++\s*+[^\W\d]\w*+"
_WITHIN = re.compile(rf"\bwithin(?:{_AMOUNT})++\s*+\Z", re.IGNORECASE)


def early_within(text: str) -> tuple[str, int, int] | None:
    """Return the error for ``within`` at the end of a text, its place and its length; None without one."""
    match = _WITHIN.search(text)
    if match is None:
        return None
    message = (
        "'within' limits a whole pattern in Siddhi 5, so it comes once, after the last state; to limit a "
        "part of the pattern, compare attributes of times in a filter"
    )
    return message, match.start(), len(match[0].rstrip())


_OUTPUT_OF_TABLE = re.compile(r"\s+(?:or\s+insert\s+)?(?:into\s+)?\w+\s+(?:on|set|for)\b")


def refused_statement(text: str) -> tuple[str, tuple[int, int]] | None:
    """Return why a statement of Siddhi does not run here, and where it is; None if all can be parsed."""
    words: list[re.Match[str]] = []
    signs = ""  # since the last word
    for token in _WORD.finditer(text):
        if token[1] is None:
            words.clear() if token[0] == ";" else None
            signs += token[0] if token[0] in "(!" else ""
            continue
        word, before = token[1].lower(), words[-1] if words else None
        opened, signs = signs, ""
        after = before[1].lower() if before is not None else ""
        if before is not None and after == word == "from" and opened.startswith("("):
            return _INNER_QUERY, (before.start(), token.end())
        if before is not None and after in ("from", "into", "join") and opened == "!":
            return _FAULT_STREAM.format(f"!{token[1]}"), (before.end() + 1, token.end())
        if before is not None and before[1].lower() == "define" and word in _DEFINED:
            return f"'define {word}': {_DEFINED[word]}", (before.start(), token.end())
        if word in _OUTPUTS and len(words) > 2 and _OUTPUT_OF_TABLE.match(text, token.end()):
            return _OUTPUTS[word], token.span()
        words.append(token)
    return None


def parse_siddhi(text: str) -> sp.SiddhiApp:
    """Return the tree of a SiddhiQL app: definitions of streams, queries and partitions."""
    # Keywords ignore case, and names do not. Annotations are read and have no effect, but ``@info(name='…')``
    # names a query.
    if not isinstance(text, str):
        raise WrongTypeError(f"SiddhiQL: expected text, got {type(text).__name__}")
    return _parse_once(text)


@lru_cache(maxsize=32)
def _parse_once(text: str) -> sp.SiddhiApp:
    """Return the app of a SiddhiQL text. Raise with a hint where a statement is none or is not supported."""
    if not text.strip(" \t\n;"):
        raise PatternSyntaxError("expected a query, as in: from A select x insert into B", text or " ", 0)
    check_text(text)
    refused = refused_statement(text)
    if refused is not None:
        raise located(refused[0], text, refused[1], None)
    try:
        app = parse(text, _parser, SIDDHI_WORDS, None)
    except PatternSyntaxError as error:
        raise _with_hint(error, text) from None
    if not app.elements:
        raise PatternSyntaxError("expected a query: from … select … insert into …", text, len(text.rstrip()))
    _check_size(app, text)
    return replace(app, source=text)


def _with_hint(error: PatternSyntaxError, text: str) -> PatternSyntaxError:
    """Return the error with what the text at its place may mean: a keyword, or another sign."""
    start, end = error.position, error.position + error.length
    if text[start:end] in (",", "->"):
        early = early_within(text[:start])
        if early is not None:
            message, place, length = early
            return PatternSyntaxError(message, text, place, length)
        if "'->'" in error.message:
            return PatternSyntaxError(MIXED_SIGNS, text, start, end - start)
    if not error.message.startswith("expected"):
        return error
    for word in reversed([*re.finditer(r"[^\W\d]\w*", text[:end])][-2:]):
        is_near = word.end() >= start - 1 and len(word[0]) > 2 and word[0].lower() not in KEYWORDS
        hint = _meant_keyword(word[0]) if is_near else ""
        if hint:
            return PatternSyntaxError(f"{error.message}.{hint}", text, word.start(), len(word[0]))
    return error


def _meant_keyword(word: str) -> str:
    """Return the hint at a keyword; one with the same letters comes first."""
    same = [keyword for keyword in KEYWORDS if sorted(keyword) == sorted(word.lower())]
    return nearest(word, same or KEYWORDS)


def _check_size(app: sp.SiddhiApp, text: str) -> None:
    """Raise if an app has too many queries or states, or trees too deep for the passes that walk them."""
    refuse_beyond(QUERIES, sum(1 for _ in app.queries()), "queries of the app", "Run it in several apps")
    for query in app.queries():
        if isinstance(query.input, sp.PatternInput):
            pattern = query.input.pattern
            check_tree(pattern, sp.StatePattern.children, text, None)
            n_states = sum(isinstance(state, sp.EventState | sp.AbsentState) for state in pattern.walk())
            refuse_beyond(STATES, n_states, "states of the pattern", "Write a shorter pattern")
        trees = [column.value for column in query.select]
        trees += [] if query.having is None else [query.having]
        for source in query.sources():
            trees += source.conditions
        for tree in trees:
            check_tree(tree, type(tree).children, text, None)


@cache
def _parser() -> Lark:
    return make_parser(Path(__file__).with_name("siddhi.lark"), SIDDHI_BUILDER)


# Convert the trees of SiddhiQL to text, in one canonical spelling.

# Words that a name without backticks cannot be, or should not be.
_RESERVED = frozenset(
    [
        "stream", "define", "function", "trigger", "table", "app", "from", "partition", "window",
        "select", "group", "by", "order", "limit", "offset", "asc", "desc", "having", "insert", "delete",
        "update", "set", "return", "events", "into", "output", "expired", "current", "snapshot", "for",
        "raw", "of", "as", "at", "or", "and", "in", "on", "is", "not", "within", "with", "begin", "end",
        "null", "every", "last", "all", "first", "join", "inner", "outer", "right", "left", "full",
        "unidirectional", "false", "true", "per"
    ]
)  # fmt: skip
_NAME = re.compile(r"[^\W\d]\w*")
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("sec", 1_000))


def siddhi_name(name: str) -> str:
    """Return a name as SiddhiQL spells it, in backticks where it needs them."""
    if name.startswith("#"):
        return "#" + siddhi_name(name[1:])
    plain = _NAME.fullmatch(name) and name.lower() not in _RESERVED
    return name if plain else f"`{name}`"


def siddhi_time(milliseconds: int) -> str:
    """Return a duration as SiddhiQL spells it."""
    for unit, size in _UNITS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} milliseconds"


# --- apps --------------------------------------------------------------------------------------------------


def print_siddhi(app: sp.SiddhiApp) -> str:
    """Return an app as text that parses to an equal tree."""
    return "\n".join(f"{print_element(element)};" for element in (*app.streams, *app.elements))


def print_element(element: sp.DefinedStream | sp.SiddhiQuery | sp.SiddhiPartition) -> str:
    """Return a statement as text, without the ``;`` after it."""
    match element:
        case sp.DefinedStream(name=name, attributes=attributes):
            listed = ", ".join(f"{siddhi_name(attribute)} {kind}" for attribute, kind in attributes)
            return f"define stream {siddhi_name(name)} ({listed})"
        case sp.SiddhiPartition(keys=keys, queries=queries):
            inside = "\n".join(f"{print_element(query)};" for query in queries)
            return f"partition with ({', '.join(map(_key, keys))})\nbegin\n{inside}\nend"
    return _query(element)


def _key(key: sp.PartitionKey) -> str:
    if key.value is not None:
        return f"{print_condition(key.value)} of {siddhi_name(key.stream)}"
    ranges = " or ".join(f"{print_condition(condition)} as {_text(name)}" for condition, name in key.ranges)
    return f"{ranges} of {siddhi_name(key.stream)}"


def _query(query: sp.SiddhiQuery) -> str:
    """Return the SiddhiQL text of one query."""
    lines = [f"@info(name={_text(query.name)})"] if query.name is not None else []
    lines.append(f"from {_input(query.input)}")
    columns = [
        print_condition(column.value) + (f" as {siddhi_name(column.name)}" if column.name is not None else "")
        for column in query.select
    ]
    lines.append(f"select {', '.join(columns) or '*'}")
    if query.group_by:
        lines.append(f"group by {', '.join(map(print_condition, query.group_by))}")
    if query.having is not None:
        lines.append(f"having {print_condition(query.having)}")
    if query.order_by:
        keys = [print_condition(key.value) + " desc" * key.descending for key in query.order_by]
        lines.append(f"order by {', '.join(keys)}")
    lines += [f"limit {query.limit}"] * (query.limit is not None)
    lines += [f"offset {query.offset}"] * (query.offset is not None)
    if query.target is None:
        lines.append("return")
    else:
        events = "" if query.events == "current" else f"{query.events} events "
        lines.append(f"insert {events}into {siddhi_name(query.target)}")
    return "\n".join(lines)


def _input(given: sp.StreamInput | sp.JoinInput | sp.PatternInput) -> str:
    """Return the text after `from`: a stream, a join, or a pattern."""
    match given:
        case sp.StreamInput(source=source):
            return _source(source)
        case sp.JoinInput(left=left, right=right, how=how, on=on):
            word = "join" if how == "inner" else f"{how} outer join"
            alone = left.is_trigger != right.is_trigger
            condition = "" if on is None else f" on {print_condition(on)}"
            return f"{_side(left, alone)} {word} {_side(right, alone)}{condition}"
        case sp.PatternInput(pattern=pattern, is_sequence=is_sequence, within_ms=within):
            text = print_states(pattern, is_sequence=is_sequence)
            return text if within is None else f"{text} within {siddhi_time(within)}"
    raise TypeError(f"no text for {type(given).__name__}")


def _side(side: sp.JoinSide, alone: bool) -> str:
    name = "" if side.reference is None else f" as {siddhi_name(side.reference)}"
    return f"{_source(side.source)}{name}{' unidirectional' * (alone and side.is_trigger)}"


def _source(source: sp.StreamSource) -> str:
    """Return the text of a stream with its filters and its window."""
    handlers = []
    for handler in source.handlers:
        if isinstance(handler, sp.FilterHandler):
            handlers.append(f"[{print_condition(handler.condition)}]")
        else:
            handlers.append(f"#window.{handler.name}({', '.join(map(print_condition, handler.arguments))})")
    return siddhi_name(source.stream) + "".join(handlers)


# --- patterns ----------------------------------------------------------------------------------------------


def print_states(pattern: sp.StatePattern, *, is_sequence: bool = False) -> str:
    """Return the text of a pattern, or of a sequence, of states."""
    match pattern:
        case sp.StateChain(parts=parts):
            sign = ", " if is_sequence else " -> "
            return sign.join(_grouped(part, sp.StateChain, is_sequence) for part in parts)
        case sp.EveryState(body=body):
            return f"every {_grouped(body, sp.StateChain | sp.LogicalState | sp.EveryState, is_sequence)}"
        case sp.LogicalState(operator=operator, left=left, right=right):
            return f"{print_states(left)} {operator} {print_states(right)}"
        case sp.AbsentState(source=source, wait_ms=wait):
            return f"not {_source(source)}{'' if wait is None else f' for {siddhi_time(wait)}'}"
        case sp.CountedState(body=body, low=low, high=high):
            bounds = f"{low}" if low == high else f"{low}:{'' if high is None else high}"
            return f"{print_states(body)}<{bounds}>"
        case sp.EventState(source=source, reference=reference):
            return f"{'' if reference is None else siddhi_name(reference) + '='}{_source(source)}"
    raise TypeError(f"no text for {type(pattern).__name__}")


def _grouped(part: sp.StatePattern, kinds, is_sequence: bool) -> str:
    text = print_states(part, is_sequence=is_sequence)
    return f"({text})" if isinstance(part, kinds) else text


# --- expressions -------------------------------------------------------------------------------------------


class SiddhiPrinter(ExpressionPrinter):
    """Prints expressions as SiddhiQL."""

    after_not = UNARY  # Siddhi's `not` binds like a sign

    def name(self, name: str) -> str:
        return siddhi_name(name)

    def reference(self, node: ex.Reference) -> str:
        """Return an attribute of an event; Siddhi counts events from 0."""
        if isinstance(node.index, int):
            place = f"[{node.index - 1}]"
        else:
            place = "" if node.index is None else f"[{node.index.replace(ex.LAST, 'last')}]"
        return (
            f"{siddhi_name(node.variable)}{place}{'' if node.name is None else '.' + siddhi_name(node.name)}"
        )

    def literal(self, value: bool | int | float | str | None) -> tuple[str, int]:
        if isinstance(value, Milliseconds):
            return siddhi_time(value), ITEM
        return super().literal(value)

    def quoted(self, value: str) -> str:
        return _text(value)

    def test(self, expression: Any, negation: str) -> str:
        """Return a test of a missing value, the only test that Siddhi spells so."""
        if isinstance(expression, ex.IsNull):
            return f"{negation}{self.at_least(SUM, expression.operand)} is null"
        raise TypeError(f"SiddhiQL has no text for {type(expression).__name__}")


_PRINTER = SiddhiPrinter()
print_condition = _PRINTER.text


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


for _kind in (sp.DefinedStream, sp.SiddhiQuery, sp.SiddhiPartition):
    text_of.register(_kind, print_element)
text_of.register(sp.SiddhiApp, print_siddhi)
text_of.register(sp.StatePattern, print_states)
