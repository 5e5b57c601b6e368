"""Explain syntax errors in the user's words: what was expected, or which known mistake was made."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from cepkit.errors import PatternSyntaxError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import UNITS
from cepkit.language.expressions.functions import AGGREGATE_SPELLINGS
from cepkit.values import dataclass

if TYPE_CHECKING:
    from lark import Token
    from lark.exceptions import UnexpectedInput

# Characters that look like one of the language, or that word processors insert for it.
LOOK_ALIKES = {
    **dict.fromkeys("\u2212\u2013\u2014\u2010\u2011", "-"),
    **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u2032\u00b4", "'"),
    **dict.fromkeys("\u00d7\u2217\u22c5\u00b7", "*"),
    **dict.fromkeys("\u00f7\u2215\u2044", "/"),
    **{"\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u2227": "and", "\u2228": "or", "\u00ac": "not"},
    **{"\u2208": "in", "\u2223": "|", "\u00a6": "|", "\u2024": ".", "\u2026": ". . ."},
    # The full-width forms U+FF01 … U+FF5E repeat ASCII; their letters are valid in names.
    **{chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F) if not chr(code).isalpha()},
}

# Quoted parts are skipped, so that a bracket inside quotes does not count.
BRACKETS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|[()\[\]{}]""")
CLOSING = {"(": ")", "[": "]", "{": "}"}


def forgotten_brackets(part: ex.Expression) -> str:
    """Return what to write for the name of an aggregate without brackets, such as ``count``, or no text."""
    name = part.name.lower() if isinstance(part, ex.Attribute) else ""
    if name not in AGGREGATE_SPELLINGS:
        return ""
    return f"write {name}({'' if name == 'count' else 'x'}) for the aggregate"


def compared_with(part: ex.Expression, trees: Iterable[ex.Expression]) -> list[ex.Expression]:
    """Return the other sides of the comparisons with ``part``, which may be a text without its quotes."""
    tests = (node for tree in trees for node in tree.walk() if isinstance(node, ex.Comparison | ex.In))
    sides = (list(test.children()) for test in tests)
    return [side for both in sides if part in both for side in both if side != part]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words for the errors of one grammar."""

    # ``expected``: (terminal, terminals that it covers, words); the first fitting entry wins. ``mistakes``:
    # (regular expression around the position of the error, message with its groups as in ``re.sub``). The
    # group ``at``, if it exists, is underlined instead of the whole. ``reserved`` is the hint for a reserved
    # word used as a name; the word is its group.

    expected: tuple[tuple[str, frozenset[str], tuple[str, ...]], ...]
    mistakes: tuple[tuple[str, str], ...]
    reserved: str = ""


def syntax_error(
    error: UnexpectedInput, text: str, words: Vocabulary, role: str | None, whole: str | None = None
) -> PatternSyntaxError:
    """Return the most helpful error for lark's ``error`` in ``text``."""
    # ``whole`` is the complete text; ``text`` is a part of it, with blanks in place of the rest.
    token = getattr(error, "token", None)
    at_end = token is not None and token.type == "$END"
    position = len(text.rstrip()) if at_end else error.pos_in_stream
    length = len(token) if token is not None and not at_end else 1

    explained = (
        _known_mistake(text, position, words)
        or bracket_fault(text, position, at_end=at_end)
        or (_odd_character(text, position) if token is None else None)
    )
    if explained is None:
        behind = re.match(r"\s*(\w+|\S)", (whole or "")[len(text) :])
        end = repr(behind[1]) if behind else "the end of the text"
        unexpected = end if at_end else repr(text[position : position + min(length, 40)])
        expected = _list(_expected(_acceptable(error), words))
        meant = "NAME" in _acceptable(error)
        explained = (
            f"expected {expected}, found {unexpected}{_reserved_word_hint(token, words) if meant else ''}",
            position,
            length,
        )
    return located(explained[0], text, (explained[1], explained[1] + explained[2]), role)


def located(message: str, text: str, span: tuple[int, int], role: str | None) -> PatternSyntaxError:
    """Return the error ``message`` at ``span`` of ``text``; ``role`` names the origin of the text."""
    return PatternSyntaxError(f"{role}: {message}" if role else message, text, span[0], span[1] - span[0])


def _reserved_word_hint(token: Token | None, words: Vocabulary) -> str:
    """Return a hint if a reserved word is used where a column may be meant."""
    is_word = words.reserved and token is not None and token.isidentifier() and token.type != "NAME"
    meant = is_word and token.lower() not in ("and", "or", "not")
    return words.reserved.format(token) if meant else ""


_NEAR = 500  # characters around the place of a fault; searches of a long text would take quadratic time


def _known_mistake(text: str, position: int, words: Vocabulary) -> tuple[str, int, int] | None:
    """Return message, place and length of a mistake that `words` lists, if it is at the position."""
    low, high = max(0, position - _NEAR), min(len(text), position + _NEAR)
    for mistake, message in words.mistakes:
        for match in re.compile(mistake, re.IGNORECASE).finditer(text, low, high):
            if match.start() <= position < match.end():
                at = match.re.groupindex.get("at", 0)
                return match.expand(message), match.start(at), len(match[at].rstrip())
    return None


def bracket_fault(text: str, position: int, *, at_end: bool) -> tuple[str, int, int] | None:
    """Return message, position and length for the first bracket up to ``position`` without a partner."""
    opened: list[re.Match[str]] = []
    for bracket in BRACKETS.finditer(text):
        if bracket.start() > position:
            break
        if bracket[0] in CLOSING:
            opened.append(bracket)
        elif bracket[0] in CLOSING.values():
            if not opened:
                return f"{bracket[0]!r} closes nothing", bracket.start(), 1
            opening = opened.pop()
            if CLOSING[opening[0]] != bracket[0]:
                return (
                    f"{bracket[0]!r} does not close {opening[0]!r} of position {opening.start()}",
                    bracket.start(),
                    1,
                )
    return (f"{opened[-1][0]!r} is never closed", opened[-1].start(), 1) if at_end and opened else None


def _odd_character(text: str, position: int) -> tuple[str, int, int] | None:
    """Return the message, the place and the length for a character that no query has, or None."""
    char = text[position]
    if char in LOOK_ALIKES:
        return f"{char!r} is {_unicode_name(char)}; write {LOOK_ALIKES[char]}", position, 1
    if char in "'\"`":
        return "this quote is never closed", position, 1
    if not char.isascii() or not char.isprintable():
        before = text[max(0, position - _NEAR) : position]
        in_name = char.isprintable() and re.search(r"[^\W\d]\w*$", before)
        hint = "; write a name with such characters in backticks" if in_name else ""
        return f"unexpected character {char!a}, {_unicode_name(char)}{hint}", position, 1
    return None


def _unicode_name(char: str) -> str:
    return unicodedata.name(char, f"U+{ord(char):04X}")


def _acceptable(error: UnexpectedInput) -> Set[str]:
    """Return the terminals that can really follow (the LALR table alone names too many)."""
    parser = getattr(error, "interactive_parser", None)
    return set(parser.accepts()) if parser is not None else set()


def _expected(terminals: Set[str], words: Vocabulary) -> list[str]:
    """Return how a message names the terminals that the grammar would accept."""
    rest, expected_names = set(terminals), []
    for terminal, covered, names in words.expected:
        if terminal in rest:
            expected_names += names
            rest -= covered | {terminal}
    return expected_names or ["something else"]


def _list(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " or " + items[-1]


_OPERATORS = frozenset(
    {"_AND", "_OR", "NOT", "_IN", "_BETWEEN", "_IS", "LIKE", "IS_DISTINCT", "_LSQB", "LPAR"}
    | {"COMPARISON", "MULTIPLY", "PLUS", "MINUS"}
)
_OPERANDS = frozenset(
    {"QUOTED", "PARAMETER", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL", "LPAR", "MINUS", "NOT"}
)

_UNIT = "|".join(sorted(UNITS, key=len, reverse=True))


# A whole word: a search of a long word takes linear time, because it starts there once and takes all of it.
_NAME = r"(?<!\w)[^\W\d]\w*+"

# Methods of a pandas Series; group 1 is the value: a column, or a column of an event such as b.x or b[i].x.
_METHOD = rf"({_NAME}(?:\s*\[[^\]]*\])?(?:\s*\.\s*{_NAME})??)\s*\.\s*"
_OF_THE_ROW_BEFORE = (
    (r"shift\s*\(\s*(?:periods\s*=\s*)?-[^)]*\)?", r"write the value of the row after as next(\1)"),
    (r"shift\s*\(\s*(?:1\s*)?\)", r"write the value of the row before as prev(\1)"),
    (
        r"shift\s*\(\s*(?:periods\s*=\s*)?([0-9]+)[^)]*\)?",
        r"write the value of \2 rows before as prev(\1, \2)",
    ),
    (r"diff\s*\([^)]*\)?", r"write \1 - prev(\1)"),
    (r"pct_change\s*\([^)]*\)?", r"write \1 / prev(\1) - 1"),
)
_OF_THE_EVENT_BEFORE = (
    (
        r"(?:shift|diff|pct_change)\s*\([^)]*\)?",
        "name the earlier event in the pattern, as in b.x - a.x; in a loop the event before is b[i-1].x",
    ),
)
_OF_VALUES = (
    (r"(?:isna|isnull)\s*\([^)]*\)?", r"write \1 is null"),
    (r"(?:notna|notnull)\s*\([^)]*\)?", r"write \1 is not null"),
    (r"isin\s*\([^)]*\)?", r"write \1 in (…)"),
    (r"between\s*\([^)]*\)?", r"write \1 between … and …"),
    (r"str\s*\.\s*(?:startswith|starts_with)\s*\(", r"write starts_with(\1, '…')"),
    (r"str\s*\.\s*(?:endswith|ends_with)\s*\(", r"write ends_with(\1, '…')"),
    (r"str\s*\.\s*contains\s*\(", r"write contains(\1, '…')"),
    (r"(abs|round|max|min|sum|mean|first|last|count)\s*\(\s*\)", r"write \2(\1)"),
    (
        r"(?:rolling|expanding|cummax|cummin|cumsum)\s*\(",
        r"aggregates range over the match; write max(\1), avg(\1) or sum(\1)",
    ),
)


def _methods(*methods: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((_METHOD + method, message) for method, message in methods)


_EXPECTED_IN_EXPRESSIONS = (
    ("NAME", _OPERANDS, ("a value", "a column", "'('")), ("COMPARISON", _OPERATORS, ("an operator",)),
    ("_OR", _OPERATORS, ("an operator",)), ("MULTIPLY", _OPERATORS - {"_AND"}, ("an arithmetic operator",)),
    ("_AND", frozenset(), ("'and' with the upper bound",)),
    ("_IN", _OPERATORS, ("'in'", "'between'", "'like'")),
    ("NULL", frozenset({"NOT"}), ("'null'", "'not null'", "'distinct from'")),
    ("STRING", frozenset(), ("a text in quotes",)), ("INT", frozenset({"MINUS"}), ("a whole number",)),
    ("LPAR", frozenset({"_LSQB"}), ("'(' with the list of values",)), ("COMMA", frozenset(), ("','",)),
    ("RPAR", frozenset(), ("')'",)), ("RSQB", frozenset(), ("']'",)),
)  # fmt: skip
_MISTAKES_IN_EXPRESSIONS = (
    (r"===", "write '==' (or '=')"),
    (r"!==", "write '!='"),
    (r"=>", "write '>='"),
    (r"=<", "write '<='"),
    (r"><", "write '!='"),
    (r"\*\*|\^", "this operator does not exist; write power(x, y)"),
    (r"<<|>>", "bit shifts do not exist; write x * power(2, n) or x // power(2, n)"),
    (r"\+=|-=|:=", "a predicate cannot assign a value"),
    (r"\bcount\s*\(\s*\*\s*\)", "write count()"),
    (
        rf"(?<![\w.])([0-9]++\.?[0-9]*+|\.[0-9]++)\s*({_UNIT})\b(?!\s*\()",
        r"write durations in quotes: '\1 \2'",
    ),
    (r"(?<![\w.])[0-9]{1,3}(?:[,_][0-9]{3})+\b", "write numbers without thousands separators"),
    (r"\blambda\b[^:]*:?", "a predicate is the condition alone, without 'lambda'"),
    (r"\bif\b|\belse\b", "'if … else' does not exist; write if(condition, value, other), or join conditions"),
    (r"\bcase\b\s+when\b|\bwhen\b", "CASE WHEN does not exist here; write if(condition, value, other)"),
    (r"\bfor\b", "loops do not exist; aggregates such as max(x) range over the match"),
    *_methods(*_OF_VALUES),
    (
        rf"{_NAME}(?:\s*\.\s*{_NAME})++\s*\(",
        "values have no methods; write a function as f(x), and register your own with @cep.pure",
    ),
    (r"[$@]([^\W\d]\w*)|\{\s*([^\W\d]\w*)\s*\}|%\((\w+)\)s", r"write a parameter as :\1\2\3"),
    (r"\?", "write a parameter as :name"),
)
_RESERVED_IN_EXPRESSIONS = "; a column of this name is written `{}`"

EXPRESSION_WORDS = Vocabulary(
    expected=(*_EXPECTED_IN_EXPRESSIONS, ("$END", frozenset(), ("the end of the text",))),
    mistakes=(
        *_methods(*_OF_THE_ROW_BEFORE),
        *_MISTAKES_IN_EXPRESSIONS,
        (
            rf"({_NAME})\s*\.\s*({_NAME})",
            r"values have no attributes; write a column with a dot in its name as `\1.\2`",
        ),
        (rf"\.\s*{_NAME}", "values have no methods and no attributes"),
    ),
    reserved=_RESERVED_IN_EXPRESSIONS,
)

_EVENT = rf"(?<![.`])((?!in\b){_NAME})\s*"  # an event name before a bracket or a dot

# Predicates of sequence queries, where events have names: b.x, b[i].x.
EVENT_EXPRESSION_WORDS = Vocabulary(
    expected=(*_EXPECTED_IN_EXPRESSIONS, ("$END", frozenset(), ("the end of the expression",))),
    mistakes=(
        *_methods(*_OF_THE_EVENT_BEFORE),
        (
            _EVENT + r"\[\s*i\s*\+[^\]]*\]?",
            r"the events after the one being taken are not known yet; compare \1[i] with \1[i-1]",
        ),
        (
            _EVENT + r"\[\s*i\s*-(?!\s*1\s*\])[^\]]*\]?",
            r"only the event just before has a name, \1[i-1]; all before are \1[..i-1], in an aggregate",
        ),
        (_EVENT + r"\[\s*-\s*1\s*\]\s*\.", r"the last event is \1[LEN]"),
        (_EVENT + r"\[\s*-[^\]]*\]\s*\.", r"events count from 1, as in \1[1].x; the last one is \1[LEN]"),
        (_EVENT + r"\[\s*\]", r"write \1[] in the pattern only; here each event is \1[i]"),
        (_EVENT + r"\[\s*(i|i\s*-\s*1|LEN)\s*\](?!\s*\.)", r"say which column: \1[\2].x"),
        (
            _EVENT + r"\[[^\]]*\.\.[^\]]*\]?",
            r"all events before the one being taken are \1[..i-1], all of them are \1, in an aggregate",
        ),
        (
            _EVENT + r"\[\s*[^\W\d][^\]]*\]?",
            r"the brackets hold i, i-1, LEN or a number from 1, as in \1[i].x",
        ),
        (
            _EVENT + r"(\[[^\]]*\])?\s*\.\s*(\w+(?:\s*\.\s*\w+)+)(?!\w|\s*\()",
            r"write a column with a dot in its name as \1\2.`\3`",
        ),
        (r"(?<![\w.])(['\"`])(\w+)\1\s*\.", r"write names of events without quotes: \2"),
        *_MISTAKES_IN_EXPRESSIONS,
    ),
    reserved=_RESERVED_IN_EXPRESSIONS,
)

_TYPES = frozenset({"NAME", "STRING", "INT", "MINUS", "TRUE", "FALSE", "ANYTHING", "NOT", "LPAR"})
_TIMES = frozenset({"STAR", "PLUS", "QUESTION", "LBRACE"})
_OPTIONS = frozenset({"INNER", "PREFERENCE", "UNTIL", "IF", "BRACKETS"})
_BEHIND = _TIMES | _OPTIONS | {"COMMA", "RPAR", "$END"}

# The pattern of a sequence query, from sase.lark.
SEQUENCE_WORDS = Vocabulary(
    expected=(
        ("SEQ", _TYPES | {"AND", "OR", "STEP", "RPAR"}, ("an event, as in 'Order o'", "SEQ(…)", "'('")),
        ("STEP", frozenset(), ("STRICT", "PARTITION", "NEXT", "ANY")),
        ("NAME", _TYPES | _BEHIND, ("a name for the event",)), ("STRING", _TYPES, ("a type",)),
        ("INT", frozenset({"COMMA"}), ("a number",)), ("COMMA", _TIMES | _OPTIONS, ("','",)),
        ("RPAR", _TIMES | _OPTIONS, ("')'",)), ("RBRACE", frozenset(), ("'}'",)),
        ("LPAR", frozenset(), ("'('",)), ("$END", frozenset(), ("the end of the pattern",)),
    ),
    mistakes=(
        (r"\b(where|within)\b", r"write \1 after the closing bracket of the pattern"),
        (r"\b(until|if)\b\s*(?!\()\S+", r"put the condition after \1 in parentheses: \1 (x > 5)"),
        (r"(?<=[\w\]])\s+(?P<at>and|or)\b(?!\s*\()", "write AND and OR first: AND(A a, B b)"),
        (r"\bSEQ\s+\w+", "put the parts of a sequence in parentheses: SEQ(A a, B b)"),
        (r"^\s*[^(),\s][^(),]*,", "write events in order as SEQ(A a, B b)"),
        (r"-+>|=>|\u2192|\u21d2|;|>>", "write ',' between the parts of SEQ(…)"),
        (r"\|\|?", "write alternatives as OR(A a, B b)"),
        (r"&&?", "write events in any order as AND(A a, B b)"),
        (r"[<>=]=?", "write conditions in WHERE, or in IF (…) after an event"),
        (rf"({_NAME})\s*:\s*({_NAME})", "write the type of an event and then its name: 'Order o'"),
        (rf"({_NAME})\s+as\s+({_NAME})", r"write the type and the name, without AS: \1 \2"),
        (r"\bevery\s+\w+(?:\s+\w+)?", "leave 'every' out: matches begin at every event"),
        (r"\b(\w++)\s*\[[^\]]+\]", r"write \1[]; put conditions on its events in WHERE"),
        (
            rf"({_NAME}-{_NAME})\s+{_NAME}|(?<=[(,])\s*({_NAME} {_NAME}) {_NAME}(?=\s*[,)])",
            r"an event is a type and a name for it; put a type that is not a name in single quotes: '\1\2'",
        ),
        (r"`([^`]*)`", r"put a type that is not a name in single quotes: '\1'"),
        (r"\b(\w++)\s*\.\s*(\w+)", "a pattern names events and no columns; put conditions in WHERE"),
        (r"[\^$]", "a pattern has no anchors: it is searched for everywhere"),
    ),
    reserved="; a word of the language: as a type, put it in quotes, '{}'; it cannot name an event",
)  # fmt: skip

PATTERN_WORDS = Vocabulary(
    expected=(
        (
            "NAME",
            frozenset({"DOT", "LPAR", "RPAR", "_BAR", "STAR", "PLUS", "QUESTION", "_LBRACE", "$END"}),
            ("a predicate name", "'.'", "'('"),
        ),
        ("INT", frozenset(), ("a number",)),
        ("_COMMA", frozenset(), ("','",)),
        ("RBRACE", frozenset(), ("'}'",)),
    ),
    mistakes=(
        (r"-+>|=>|\u2192|\u21d2|,|;|>>", "write the parts one after the other, with blanks: a b"),
        (r"\|\|", "write one '|' between alternatives"),
        (r"&&?", "one event has one name: define one predicate with both conditions"),
        (r"[<>=]=?", "a pattern holds names of predicates; put their conditions in define"),
        (r"[!~\u00ac]", "a pattern has no negation: define a predicate with the opposite condition"),
        (r"[\^$]", "a pattern has no anchors: it is searched for everywhere"),
        (r"(['\"`])(\w*)\1?", r"write names without quotes: \2"),
        (r"\(\?", "write a group with plain parentheses: (a b)"),
        (r"\[", "write alternatives with '|': (a | b)"),
        (
            r"(\b\w++|[.)}])\s+(?P<at>[*+?]|\{[^{}]*\}?)",
            r"'\g<at>' must directly follow what it repeats: \1\g<at>",
        ),
        (r"\b[0-9]+\w+", "a name begins with a letter or '_'"),
    ),
)
