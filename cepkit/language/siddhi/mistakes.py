"""The words for syntax errors in SiddhiQL, and statements of Siddhi that do not run here."""

from __future__ import annotations

import re

from cepkit.language.expressions.mistakes import Vocabulary

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
        (r"===", "write '=='"),
        (r"!==", "write '!='"),
        (r"<>", "write '!='"),
        (r"=>", "write '>='"),
        (r"=<", "write '<='"),
        (r"&&?", "write 'and'"),
        (r"\|\|?", "write 'or'"),
        (r"\{\s*[0-9]*\s*,?\s*[0-9]*\s*\}", "write a count as <2:5>"),
        (r"(?<![=!<>])=(?!=)", "write '==' in a condition; '=' names the event of a state: e1=Stream"),
        (r"\u2192", "write '->'"),
    ),
    reserved="; write a name like this as `{}`",
)

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
    found = _WITHIN.search(text)
    if found is None:
        return None
    message = (
        "'within' limits a whole pattern in Siddhi 5, so it comes once, after the last state; to limit a "
        "part of the pattern, compare attributes of times in a filter"
    )
    return message, found.start(), len(found[0].rstrip())


_OUTPUT_OF_TABLE = re.compile(r"\s+(?:or\s+insert\s+)?(?:into\s+)?\w+\s+(?:on|set|for)\b")


def refused_statement(text: str) -> tuple[str, tuple[int, int]] | None:
    """Return why a statement of Siddhi does not run here, and where it is; None if all can be parsed."""
    words: list[re.Match[str]] = []
    signs = ""  # since the last word
    for found in _WORD.finditer(text):
        if found[1] is None:
            words.clear() if found[0] == ";" else None
            signs += found[0] if found[0] in "(!" else ""
            continue
        word, before = found[1].lower(), words[-1] if words else None
        opened, signs = signs, ""
        after = before[1].lower() if before is not None else ""
        if before is not None and after == word == "from" and opened.startswith("("):
            return _INNER_QUERY, (before.start(), found.end())
        if before is not None and after in ("from", "into", "join") and opened == "!":
            return _FAULT_STREAM.format(f"!{found[1]}"), (before.end() + 1, found.end())
        if before is not None and before[1].lower() == "define" and word in _DEFINED:
            return f"'define {word}': {_DEFINED[word]}", (before.start(), found.end())
        if word in _OUTPUTS and len(words) > 2 and _OUTPUT_OF_TABLE.match(text, found.end()):
            return _OUTPUTS[word], found.span()
        words.append(found)
    return None
