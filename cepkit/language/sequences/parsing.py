"""Split SASE text into parts: the pattern by ``sase.lark``, conditions by ``expr.lark``, windows by hand.

The text has these clauses:

* ``PATTERN`` with the events. It comes first.
* ``WHERE`` with conditions joined by AND. Two of them are special: the selection strategy
  (``skip_till_any_match``, ``skip_till_next_match``, ``partition_contiguity`` or ``strict_contiguity``, with
  ``-`` or ``_``) and the partition key (``[item]`` or ``[item, site]``).
* ``WITHIN 5 min``, or ticks, ``WITHIN 500``, or ``WITHIN 20 EVENTS``.
* ``GAP 10 s``, the longest time between two events of a match. ``EXCLUSIVE`` after WITHIN or GAP excludes
  a time of exactly this length, for both.

Case does not matter. ``sase.lark`` describes the pattern.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cepkit.errors import PatternSyntaxError, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import parse_duration
from cepkit.language.expressions.mistakes import SEQUENCE_WORDS, bracket_fault, located
from cepkit.language.expressions.parsing import (
    check_text,
    check_tree,
    make_parser,
    parse,
    parse_expression,
    unquoted,
)
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.sequences.building import SASE_BUILDER
from cepkit.language.sequences.patterns import (
    EventPattern,
    Loop,
    SequencePattern,
    check_size,
    event_patterns,
    group_variables,
)
from cepkit.language.sequences.printing import SASE_STRATEGIES
from cepkit.limits import TICKS
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from lark import Lark

Span = tuple[int, int]

_STRATEGY = (
    r"(?ai:skip[-_ ]till[-_ ](?P<skipped>any|next)(?:[-_ ]match)?"
    r"|(?P<contiguous>partition|strict)[-_ ]contiguity)\b"
)
_NEARLY_STRATEGY = r"(?ai:skip|partition|strict)[-_]\w+(?:-\w+)*(?![\w-]|\s*\.|\[)"
_SETTINGS = ("strategy", "key")  # tokens of WHERE that belong to the whole query
_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`"""

# A word after a dot or a colon is a column or a parameter.
_TOKEN = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?P<stray>['\"`])|(?P<open>[(\[{{])|(?P<close>[)\]}}])"
    r"|[.:]\s*[^\W\d]\w*|(?P<word>[^\W\d]\w*)"
)
_CLAUSE = re.compile(r"(?ai:PATTERN|WHERE|WITHIN)\b(?!\s*\.)|(?ai:GAP)\b(?=\s+['\"0-9+-])")
_FOREIGN_CLAUSE = re.compile(
    r"(?P<order>(?ai:ORDER\s+BY))|(?P<partition>(?ai:(?:PARTITION|GROUP)\s+BY))"
    r"|(?P<measures>(?ai:RETURN|SELECT|MEASURES|HAVING|(?<!(?ai:distinct)\s)FROM|DEFINE))\b(?!\s*[.\[=<>(])"
    r"|(?P<skip>(?ai:AFTER\s+MATCH))"
)
_FOREIGN = {
    "order": "give the order of events as order_by='column'",
    "partition": "write the partition key in WHERE as [column], or give partition_by='column'",
    "measures": "this clause does not exist; the text is PATTERN … WHERE … WITHIN …; give output columns "
    "as measures={'name': 'expression'}",
    "skip": "say what happens after a match with after_match='past_last'",
}

_WHERE_TOKEN = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?P<open>[(\[{{])|(?P<close>[)\]}}])|[.:]\s*[^\W\d]\w*"
    rf"|(?P<strategy>(?<![\w.]){_STRATEGY}(?!\s*\.|\[))|(?P<nearly>(?<![\w.]){_NEARLY_STRATEGY})"
    r"|(?P<and>(?ai:and)\b|&&?)|(?P<or>(?ai:or)\b|\|\|?)|(?P<not>(?ai:not)\b|!(?!=)|~)"
    r"|(?P<other>\w+|[^\w\s])"
)
_BRACED = re.compile(rf"\s*{_STRATEGY}(?P<braces>\s*+(?:\([^()]*\)\s*+)?\{{)")
_KEY_COLUMN = re.compile(
    r"\s*(?:(?P<plain>[^\W\d]\w*(?:\.[^\W\d]\w*)*)|`(?P<quoted>(?:[^`]|``)*)`)\s*(?:,|$)"
)
_TAKES_CONDITION = re.compile(rf"{_QUOTED}|\b(?P<word>(?ai:UNTIL|IF))\b\s*(?P<open>\()")
_WINDOW = re.compile(
    r"\s*(?P<quote>['\"]?)(?P<amount>.*?)(?P=quote)\s*(?P<exclusive>(?ai:\bEXCLUSIVE))?\s*", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class SaseParts:
    """The parts of a text; None or empty if the text does not have them. Spans are positions in the text."""

    pattern: SequencePattern
    where: ex.Expression | None = None
    strategy: str | None = None
    partition_by: tuple[str, ...] = ()
    within: str | int | None = None
    within_closed: bool | None = None
    within_events: int | None = None
    gap_within: str | int | None = None


def is_sase(text: str) -> bool:
    """Return whether ``text`` begins with the word PATTERN, as the text of a sequence query does."""
    return re.match(r"\s*PATTERN\b", text, re.IGNORECASE) is not None


@lru_cache(maxsize=16)  # the explorer looks at a text several times
def parse_sase(text: str) -> SaseParts:
    """Return the parts of the text of a sequence query."""
    # Source: Wu, Diao, Rizvi, "High-Performance Complex Event Processing over Streams", SIGMOD 2006, section
    # 2; Agrawal et al., "Efficient Pattern Matching over Event Streams", SIGMOD 2008, section 2.
    # Differs: no RETURN and HAVING; alternatives, any order, repeated groups and contiguity of single steps
    # are added. Time is linear in the length of the text.
    check_text(text)
    parts: dict[str, object] = {}
    for word, start, stop in clauses(text):
        match word:
            case "PATTERN":
                parts["pattern"] = _read_pattern(text, start, stop)
            case "WHERE":
                parts |= _read_where(text, start, stop, parts.get("pattern"))
            case "WITHIN" | "GAP":
                for name, value in _read_window(word, text, start, stop).items():
                    if parts.setdefault(name, value) is not value and name != "within_closed":
                        raise located(f"{word} occurs twice", text, (start - len(word), start), None)
    return SaseParts(**parts)


def parse_sequence(text: str) -> SequencePattern:
    """Return the pattern in ``text``, which has no word PATTERN and no other clauses."""
    _refuse_open_quotes_and_brackets(text)
    return _read_pattern(text, 0, len(text))


# --- clauses ---------------------------------------------------------------------------------------------


def _refuse_open_quotes_and_brackets(text: str) -> None:
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "stray":
            raise located("this quote is never closed", text, token.span(), None)
    fault = bracket_fault(text, len(text), at_end=True)
    if fault is not None:
        raise located(fault[0], text, (fault[1], fault[1] + fault[2]), None)


def clauses(text: str) -> list[tuple[str, int, int]]:
    """Return (word, start, stop) of the clauses; words inside quotes and brackets do not count."""
    _refuse_open_quotes_and_brackets(text)
    clause_places: list[tuple[str, int, int]] = []
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup != "word" or depth:
            continue
        foreign = _FOREIGN_CLAUSE.match(text, token.start())
        if foreign is not None and clause_places:
            raise located(_FOREIGN[foreign.lastgroup], text, foreign.span(), None)
        clause = _CLAUSE.match(text, token.start())
        if clause is not None:
            clause_places.append((clause[0].upper(), token.start(), token.end()))
    if not clause_places or clause_places[0][0] != "PATTERN" or text[: clause_places[0][1]].strip():
        raise located("the text of a sequence query begins with PATTERN", text, (0, 1), None)
    for i, (word, start, stop) in enumerate(clause_places):
        if word in ("PATTERN", "WHERE") and word in [other for other, _, _ in clause_places[:i]]:
            cure = "; join the conditions with AND" if word == "WHERE" else ""
            raise located(f"{word} occurs twice{cure}", text, (start, stop), None)
    stops = [*(start for _, start, _ in clause_places[1:]), len(text)]
    return [(word, start, stop) for (word, _, start), stop in zip(clause_places, stops, strict=True)]


def _part(text: str, start: int, stop: int) -> str:
    """Return ``text`` up to ``stop`` with blanks before ``start``, so that positions stay the same."""
    return " " * start + text[start:stop]


def _blank(text: str, span: Span) -> str:
    return text[: span[0]] + " " * (span[1] - span[0]) + text[span[1] :]


# --- the pattern -----------------------------------------------------------------------------------------


@cache
def _sequence_parser() -> Lark:
    return make_parser(Path(__file__).with_name("sase.lark"), SASE_BUILDER)


def _read_pattern(text: str, start: int, stop: int) -> SequencePattern:
    bare, condition_at = _part(text, start, stop), {}
    while (condition_place := _next_condition(bare, condition_at)) is not None:
        word, first, last = condition_place
        content = _part(text, first + 1, last)
        if not content.strip():
            raise located(f"{word}: expected a condition in the brackets", text, (first, last + 1), None)
        condition_at[first] = parse_expression(content, role=word, references=True, whole=text)
        bare = _blank(bare, (first + 1, last))
    if not bare.strip():
        raise located(
            "expected an event, as in 'Order o', or SEQ(…)", text, (min(start, len(text)), stop), None
        )
    pattern = parse(bare, _sequence_parser, SEQUENCE_WORDS, None, text)
    check_tree(pattern, SequencePattern.children, text, None)
    check_size(pattern)
    pattern = rebuilt(pattern, SequencePattern, lambda node: _with_conditions(node, condition_at))
    _refuse_nameless(pattern, text)
    _refuse_brackets_of_one(pattern, text, bare)
    return pattern


def _next_condition(bare: str, done: dict[int, ex.Expression]) -> tuple[str, int, int] | None:
    """Return the next UNTIL or IF with the positions of the brackets around its condition."""
    for token in _TAKES_CONDITION.finditer(bare):
        if token["open"] is None or token.start("open") in done:
            continue
        depth = 0
        for inner in _TOKEN.finditer(bare, token.start("open")):
            depth += (inner.lastgroup == "open") - (inner.lastgroup == "close")
            if inner.lastgroup == "close" and not depth:
                return token["word"].upper(), token.start("open"), inner.start()
    return None


def _with_conditions(node: SequencePattern, condition_at: dict[int, ex.Expression]) -> SequencePattern:
    """Return ``node`` with each placeholder literal replaced by its condition."""
    if isinstance(node, EventPattern) and node.conditions:
        return replace(node, conditions=ex.conjuncts(condition_at[node.conditions[0].value]))
    if isinstance(node, Loop) and node.until is not None:
        return replace(node, until=condition_at[node.until.value])
    return node


def _refuse_nameless(pattern: SequencePattern, text: str) -> None:
    for node in event_patterns(pattern):
        if not node.variable:
            event_text = text[node.span[0] : node.span[1]]
            message = (
                f"an event is a type and a name for it, as in '{event_text} x'; for any type write '_ x'"
            )
            raise located(message, text, node.span, None)


def _refuse_brackets_of_one(pattern: SequencePattern, text: str, bare: str) -> None:
    several = group_variables(pattern)
    for node in event_patterns(pattern):
        if node.variable not in several:
            event_text = re.sub(
                _QUOTED, lambda quoted: " " * len(quoted[0]), bare[node.span[0] : node.span[1]]
            )
            if brackets := re.search(r"\[\s*\]", event_text):
                at = node.span[0] + brackets.start(), node.span[0] + brackets.end()
                message = f"{node.variable!r} is one event; write several with + or {{2,5}} after the type"
                raise located(message, text, at, None)


# --- conditions ------------------------------------------------------------------------------------------


def _read_where(text: str, start: int, stop: int, pattern: object) -> dict[str, object]:
    part = _without_braces(_part(text, start, stop), start)
    tokens = _top_tokens(part, start)
    events = event_patterns(pattern) if isinstance(pattern, SequencePattern) else ()
    settings = _read_settings(text, tokens, frozenset(event.variable for event in events))
    conditions = _without_settings(tokens)
    alternatives = [span for kind, span in conditions if kind == "or"]
    if alternatives and settings:
        what = "the partition key" if "partition_by" in settings else "the selection strategy"
        message = f"where: put parentheses around what 'or' joins; {what} belongs to the whole query"
        raise located(message, text, alternatives[0], None)
    kept = {span for _, span in conditions}
    for _, span in tokens:
        part = part if span in kept else _blank(part, span)
    if not part.strip():
        if not settings:
            message = "where: expected a condition, a selection strategy or a partition key [column]"
            raise located(message, text, (min(start, len(text)), start + 1), None)
        return settings
    return settings | {"where": parse_expression(part, role="where", references=True, whole=text)}


def _without_braces(part: str, start: int) -> str:
    """Return the conditions in ``skip_till_any_match(a, b[]) { … }``, after the name of the strategy."""
    braced = _BRACED.match(part, start)
    if braced is None or not part.rstrip().endswith("}"):
        return part
    return _blank(part, braced.span("braces")).rstrip()[:-1]


def _read_settings(text: str, tokens: list[tuple[str, Span]], events: frozenset[str]) -> dict[str, object]:
    """Return the selection strategy and the partition key among the conditions."""
    settings: dict[str, object] = {}
    columns: tuple[str, ...] = ()
    for (before, _), (kind, span) in pairwise([(None, None), *tokens]):
        if kind == "nearly" and before in (None, "and", "key"):
            raise _unknown_strategy(text, span)
        if kind not in _SETTINGS:
            continue
        if before not in (None, "and", *_SETTINGS):
            what = "the partition key" if kind == "key" else "the selection strategy"
            raise located(f"where: {what} belongs to the whole query; join it with AND", text, span, None)
        if kind == "key":
            columns += _key_columns(text, span, events)
            settings["partition_by"] = columns
        elif "strategy" in settings:
            raise located("where: a second selection strategy; only one is allowed", text, span, None)
        else:
            settings["strategy"] = strategy_of(text[span[0] : span[1]])
    return settings


def _without_settings(tokens: list[tuple[str, Span]]) -> list[tuple[str, Span]]:
    """Return the tokens of the conditions, without each AND that joins a strategy or a key to them."""
    kept = [
        token
        for (before, _), token in pairwise([(None, None), *tokens])
        if token[0] not in _SETTINGS
        and not (token[0] == "and" and before in _SETTINGS and token is not tokens[-1])
    ]
    if tokens and tokens[-1][0] in _SETTINGS and len(kept) > 1 and kept[-1][0] == "and":
        kept.pop()
    return kept


def _top_tokens(part: str, start: int) -> list[tuple[str, Span]]:
    """Return (kind, span) of the tokens outside all brackets; a bracket with its content is one token."""
    tokens: list[tuple[str, Span]] = []
    depth = opened = 0
    for token in _WHERE_TOKEN.finditer(part, start):
        kind = token.lastgroup if token.lastgroup not in ("skipped", "contiguous") else "strategy"
        if kind == "open":
            opened = opened if depth else token.start()
            depth += 1
        elif kind == "close":
            depth -= 1
            if not depth:
                before = tokens[-1][0] if tokens else None
                is_key = part[opened] == "[" and before in (None, "and", "or", "not", "strategy", "key")
                tokens.append(("key" if is_key else "other", (opened, token.end())))
        elif not depth:
            kinds = ("strategy", "nearly", "and", "or", "not")
            tokens.append((kind if kind in kinds else "other", token.span()))
    return tokens


def strategy_of(name: str) -> str | None:
    """Return the strategy that a SASE ``name`` means, or None."""
    match = re.fullmatch(_STRATEGY, name.strip())
    return (match["skipped"] or match["contiguous"]).lower() if match else None


def _unknown_strategy(text: str, span: Span) -> PatternSyntaxError:
    word = text[span[0] : span[1]]
    strategies = list(SASE_STRATEGIES.values())
    hint = nearest(word.replace("-", "_"), strategies)
    return located(
        f"where: unknown strategy {word!r}; there are {', '.join(strategies)}.{hint}", text, span, None
    )


def _key_columns(text: str, span: Span, events: frozenset[str]) -> tuple[str, ...]:
    columns, at, stop = [], span[0] + 1, span[1] - 1
    while at < stop or not columns:
        column = _KEY_COLUMN.match(text[:stop], at)
        if column is None or (column["plain"] or "").rpartition(".")[0] in events:
            message = (
                "where: the brackets hold columns that are equal in all events, as in [item] or [item, site]"
            )
            name = text[span[0] + 1 : stop]
            if re.fullmatch(r"[^\W\d]\w*(?: +\w+)+", name):
                message += f"; a name with blanks has backticks: [`{name}`]"
            raise located(message, text, span, None)
        columns.append(column["plain"] or unquoted(f"`{column['quoted']}`"))
        at = column.end()
    return tuple(columns)


# --- windows ---------------------------------------------------------------------------------------------


def _read_window(word: str, text: str, start: int, stop: int) -> dict[str, object]:
    window = _WINDOW.fullmatch(text, start, stop)
    amount, at = window["amount"], window.start("amount")
    name = "within" if word == "WITHIN" else "gap_within"
    settings: dict[str, object] = {"within_closed": False} if window["exclusive"] else {}
    digits = re.match("[0-9]*", amount)[0].lstrip("0")
    if len(digits) > len(str(TICKS)) or (digits and int(digits) > TICKS):
        message = f"{name}: the number does not fit into 64 bits. The largest window is {TICKS}"
        raise located(message, text, window.span("amount"), None)
    if word == "WITHIN" and (count := re.fullmatch(r"([0-9]+)\s*(?ai:events?|rows?)", amount)):
        if int(count[1]) < 1:
            raise located("within: a window must hold at least one event", text, window.span("amount"), None)
        return settings | {"within_events": int(count[1])}
    if re.fullmatch("[0-9]+", amount):
        return settings | {name: int(amount)}
    try:
        parse_duration(amount)
    except PatternSyntaxError as error:
        place = at + error.position, at + error.position + error.length
        raise located(f"{name}: {error.message}", text, place, None) from None
    return settings | {name: amount}
