"""Parse MATCH_RECOGNIZE, alone or in a SELECT, by ``row_pattern.lark`` and ``sql_expression.lark``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.errors import PatternSyntaxError, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import parse_duration
from cepkit.language.expressions.mistakes import Vocabulary
from cepkit.language.expressions.parsers import make_parser
from cepkit.language.expressions.parsing import check_depth, check_length, parse
from cepkit.language.expressions.rebuilding import rebuilt
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.building import (
    ROW_PATTERN_BUILDER,
    SQL_EXPRESSION_BUILDER,
    column_name,
    variable_name,
)
from cepkit.language.match_recognize.checks import check_query
from cepkit.language.match_recognize.clauses import (
    OF_MATCH_RECOGNIZE,
    OF_SELECT,
    TextPart,
    check_brackets,
    entries,
    split_clauses,
)
from cepkit.language.match_recognize.mistakes import ROW_PATTERN_WORDS, SQL_EXPRESSION_WORDS, TOO_LARGE
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, SortKey
from cepkit.language.match_recognize.tables import NAME, check_qualifier, read_table, refuse_larger

if TYPE_CHECKING:
    from lark import Lark

_ROWS = {
    "ONE ROW PER MATCH": "one",
    "ALL ROWS PER MATCH": "all",
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES": "all",
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES": "all_omit_empty",
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS": "all_with_unmatched",
}
_SKIPS = {"SKIP PAST LAST ROW": "past_last_row", "SKIP TO NEXT ROW": "to_next_row"}
_SKIP_TO = re.compile(r"SKIP TO (?P<end>FIRST |LAST )?(?P<variable>\w+|[\"`].+[\"`])", re.IGNORECASE)
_WITHIN = re.compile(
    r"(?:INTERVAL )?(?P<quote>['\"]?)(?P<amount>[0-9.]+) ?(?P<unit>[a-z]*)(?P=quote) ?(?P<after>[a-z]*)",
    re.IGNORECASE,
)
_SORT = re.compile(
    rf"(?:(?P<table>{NAME}) \. )?(?P<column>{NAME})(?: (?P<direction>ASC|DESC))?"
    r"(?: NULLS (?P<nulls>FIRST|LAST))?",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"(?P<limit>[0-9]+)|FETCH (?:FIRST|NEXT) (?P<fetch>[0-9]+) ROWS? ONLY", re.IGNORECASE)


@lru_cache(maxsize=16)
def parse_match_recognize(text: str) -> RowPatternQuery | SelectedRows:
    """Return the tree of a MATCH_RECOGNIZE clause, or of a SELECT around one.

    Names without quotes are variables in upper case. ``PATTERN`` and ``DEFINE`` are required, and the clauses
    have SQL's order. Flink's ``WITHIN`` follows the pattern.

    Parameters
    ----------
    text : str
        ``MATCH_RECOGNIZE ( … )``, its clauses alone, or ``SELECT … FROM t MATCH_RECOGNIZE ( … ) AS m WHERE …
        ORDER BY … LIMIT …``.

    Returns
    -------
    RowPatternQuery or SelectedRows
        Trees with their spans in ``text``.

    Raises
    ------
    PatternSyntaxError
        If the text is not MATCH_RECOGNIZE, or is a larger query. The message shows the position.

    Examples
    --------
    >>> query = parse_match_recognize('''MATCH_RECOGNIZE (
    ...     ORDER BY ts MEASURES last(fall.price) AS bottom
    ...     PATTERN (start_ fall+) DEFINE fall AS price < PREV(price))''')
    >>> print(query.pattern, query.order_by, query.after_match)
    START_ FALL+ (SortKey(column='ts', descending=False, nulls_first=False),) past_last_row
    """
    if not isinstance(text, str):
        raise TypeError(f"MATCH_RECOGNIZE: expected text, got {type(text).__name__}")
    check_length(text)
    check_brackets(text)
    tokens = [token for token, _ in TextPart(text, 0, len(text)).tokens()]
    is_ended = bool(tokens) and tokens[-1][0] == ";"  # comments may follow it
    whole = TextPart(text, 0, tokens[-1].start() if is_ended else len(text.rstrip()))
    before, inside, after = _around_clause(whole)
    query = _clause(inside)
    check_query(query)
    if before is not None:
        return _select(before, query, after)
    if after is not None:
        raise after.error("expected nothing after MATCH_RECOGNIZE ( … ); write SELECT * FROM t before it")
    return query


def _around_clause(whole: TextPart) -> tuple[TextPart | None, TextPart, TextPart | None]:
    """Return the parts before, inside and after the brackets of MATCH_RECOGNIZE; None for an empty one."""
    tokens = whole.outer()
    at = [i for i, token in enumerate(tokens) if token[0].upper() == "MATCH_RECOGNIZE"]
    if not at:
        inner = [token for token, _ in whole.tokens() if token[0].upper() == "MATCH_RECOGNIZE"]
        if inner:
            place = TextPart(whole.whole, inner[0].start(), inner[0].end())
            raise place.error(f"MATCH_RECOGNIZE in a sub-query does not run{TOO_LARGE}")
        if tokens and tokens[0][0].upper() == "SELECT":
            raise whole.error("a SELECT without MATCH_RECOGNIZE has no row pattern")
        return None, whole, None
    if len(at) > 1:
        second = tokens[at[1]]
        place = TextPart(whole.whole, second.start(), second.end())
        raise place.error(f"one query has one MATCH_RECOGNIZE{TOO_LARGE}")
    word, *rest = tokens[at[0] :]
    if not rest or rest[0][0] != "(":
        raise TextPart(whole.whole, word.start(), word.end()).error("expected '(' after MATCH_RECOGNIZE")
    before = TextPart(whole.whole, whole.start, word.start())
    inside = TextPart(whole.whole, rest[0].end(), rest[1].start())
    after = TextPart(whole.whole, rest[1].end(), whole.stop)
    return _or_none(before), inside, _or_none(after)


def _or_none(part: TextPart) -> TextPart | None:
    return None if part.is_blank() else part


# --- the clauses of MATCH_RECOGNIZE ------------------------------------------------------------------------


def _clause(inside: TextPart) -> RowPatternQuery:
    head, clauses = split_clauses(inside, OF_MATCH_RECOGNIZE)
    names = [keyword.name for keyword in OF_MATCH_RECOGNIZE]
    if not head.is_blank():
        words = head.without_comments().split()
        hint = nearest(" ".join(words[:2]), names) or nearest(words[0], names)
        raise head.error(
            f"expected a clause of MATCH_RECOGNIZE, such as PATTERN or DEFINE{hint and '.' + hint}"
        )
    for name in ("PATTERN", "DEFINE"):
        if name not in clauses:
            raise _missing(name, inside, clauses)
    pattern = _pattern(clauses["PATTERN"])
    skip, variable = _after_match(clauses.get("AFTER MATCH"))
    return RowPatternQuery(
        pattern=pattern,
        define=tuple(_named(clauses, "DEFINE")),
        measures=tuple(_named(clauses, "MEASURES")),
        subset=tuple(_subset(clauses.get("SUBSET"))),
        partition_by=tuple(_column(part, "PARTITION BY") for part in _listed(clauses.get("PARTITION BY"))),
        order_by=_sort_keys(clauses.get("ORDER BY")),
        rows_per_match=_rows_per_match(clauses.get("ROWS PER MATCH")),
        after_match=skip,
        after_match_variable=variable,
        within=_within(clauses.get("WITHIN")),
        source=inside.whole,
    )


def _missing(name: str, inside: TextPart, clauses: dict[str, TextPart]) -> PatternSyntaxError:
    """Return the error for a missing clause, with the nearest word in its place."""
    known = {word for keyword in OF_MATCH_RECOGNIZE for word in keyword.name.split()}
    for token in inside.outer():
        is_free = token.lastgroup == "word" and token[0].upper() not in known
        hint = nearest(token[0], [name]) if is_free else ""
        if hint:
            place = TextPart(inside.whole, token.start(), token.end())
            return place.error(f"{name} is missing.{hint}")
    written = "PATTERN (A B+)" if name == "PATTERN" else "DEFINE B AS B.price > 5, after PATTERN"
    return PatternSyntaxError(f"{name} is missing; write {written}", inside.whole, inside.stop)


def _pattern(part: TextPart) -> rp.RowPattern:
    tokens = part.outer()
    if len(tokens) > 2:
        more = TextPart(part.whole, tokens[2].start(), part.stop)
        known = [keyword.name for keyword in OF_MATCH_RECOGNIZE[5:]]
        hint = nearest(tokens[2][0], known)
        raise more.error(f"expected WITHIN, SUBSET or DEFINE after the pattern{hint and '.' + hint}")
    inside = TextPart(part.whole, tokens[0].end(), tokens[1].start())
    tree = _parsed(inside, _row_pattern_parser, ROW_PATTERN_WORDS, "PATTERN")
    check_depth(tree, rp.RowPattern.children, part.whole, "PATTERN")
    return tree


def _named(clauses: dict[str, TextPart], clause: str) -> Iterator[tuple[str, ex.Expression]]:
    part = clauses.get(clause)
    if part is None:
        return
    spelled = variable_name if clause == "DEFINE" else column_name
    seen: set[str] = set()
    for name, expression in entries(part, clause, clause == "DEFINE", clauses):
        meant = spelled(name.text)
        if meant in seen:
            raise name.error(f"{clause}: {meant!r} is defined twice")
        seen.add(meant)
        yield meant, _expression(expression, f"{clause} {meant}")


def _expression(part: TextPart, role: str) -> ex.Expression:
    tokens = [token for token, _ in part.tokens()]
    for token, after in pairwise(tokens):
        place, words = TextPart(part.whole, token.start(), after.end()), (token[0] + after[0]).upper()
        if words in ("(SELECT", "EXISTS("):
            raise place.error(f"{role}: a sub-query does not run here; compute its value first")
        if words == "OVER(":
            raise place.error(f"{role}: a window function does not run here{TOO_LARGE}")
    tree = _parsed(part, _sql_expression_parser, SQL_EXPRESSION_WORDS, role)
    check_depth(tree, ex.Expression.children, part.whole, role)
    return tree


def _parsed(part: TextPart, parser: Any, words: Vocabulary, role: str) -> Any:
    padded = re.sub(r"\S", " ", part.whole[: part.start]) + part.text
    return parse(padded, parser, words, role, part.whole)


def _subset(part: TextPart | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    for entry in _listed(part):
        found = re.fullmatch(r"(\w+|[\"`].+?[\"`]) = \( (.+) \)", entry.without_comments())
        if found is None:
            raise entry.error("SUBSET: write an entry as in U = (A, B)")
        names = re.findall(r"\w+|\"(?:[^\"]|\"\")*\"|`[^`]*`", found[2])
        yield variable_name(found[1]), tuple(map(variable_name, names))


def _rows_per_match(part: TextPart | None) -> str:
    if part is None:
        return "one"
    text = part.without_comments()
    if text.upper() not in _ROWS:
        hint = nearest(text, _ROWS)
        raise part.error(f"expected ONE ROW PER MATCH or ALL ROWS PER MATCH{hint and '.' + hint}")
    return _ROWS[text.upper()]


def _after_match(part: TextPart | None) -> tuple[str, str | None]:
    if part is None:
        return "past_last_row", None
    text = part.without_comments()
    if text.upper() in _SKIPS:
        return _SKIPS[text.upper()], None
    found = _SKIP_TO.fullmatch(text)
    if found is None or found["variable"].upper() in ("NEXT", "PAST"):
        hint = nearest(text, _SKIPS)
        raise part.error(
            "AFTER MATCH: expected SKIP PAST LAST ROW, SKIP TO NEXT ROW, SKIP TO FIRST A or SKIP TO LAST A"
            f"{hint and '.' + hint}"
        )
    is_first = (found["end"] or "").strip().upper() == "FIRST"
    return "to_first" if is_first else "to_last", variable_name(found["variable"])


def _within(part: TextPart | None) -> str | None:
    if part is None:
        return None
    found = _WITHIN.fullmatch(part.without_comments())
    if found is None or not (found["unit"] or found["after"]):
        raise part.error("WITHIN: expected a duration, as in WITHIN INTERVAL '1' HOUR")
    duration = f"{found['amount']} {(found['unit'] or found['after']).lower()}"
    try:
        parse_duration(duration)
    except PatternSyntaxError as error:
        raise part.error(f"WITHIN: {error.message}") from None
    return duration


def _listed(part: TextPart | None) -> list[TextPart]:
    return [] if part is None else part.split()


def _column(part: TextPart, clause: str) -> str:
    name = part.without_comments()
    if not re.fullmatch(r"[^\W\d]\w*|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`", name):
        raise part.error(f"{clause}: expected the name of a column")
    return column_name(name)


def _sort_keys(part: TextPart | None, qualifiers: Collection[str] = ()) -> tuple[SortKey, ...]:
    """Return the keys of ORDER BY; a qualifier is a table or an alias."""
    keys = []
    for entry in _listed(part):
        found = _SORT.fullmatch(entry.without_comments())
        if found is None:
            raise entry.error("ORDER BY: write an entry as in ts, or ts DESC NULLS LAST")
        if found["table"] is not None:
            check_qualifier(entry, "ORDER BY", found["table"], qualifiers)
        keys.append(
            SortKey(
                column_name(found["column"]),
                (found["direction"] or "").upper() == "DESC",
                (found["nulls"] or "").upper() == "FIRST",
            )
        )
    return tuple(keys)


# --- the SELECT around it ----------------------------------------------------------------------------------


def _select(before: TextPart, query: RowPatternQuery, after: TextPart | None) -> SelectedRows:
    words = before.outer()
    if words[0][0].upper() != "SELECT":
        is_with = words[0][0].upper() == "WITH"
        message = "WITH does not run here" if is_with else "expected SELECT or MATCH_RECOGNIZE"
        raise TextPart(before.whole, words[0].start(), words[0].end()).error(message + TOO_LARGE)
    if len(words) > 1 and words[1][0].upper() in ("DISTINCT", "ALL"):
        raise TextPart(before.whole, words[1].start(), words[1].end()).error(
            f"SELECT {words[1][0]} does not run here{TOO_LARGE}"
        )
    at = [i for i, word in enumerate(words) if word[0].upper() == "FROM"]
    if len(at) != 1:
        raise before.error("expected one FROM with a table before MATCH_RECOGNIZE")
    table, qualifiers = read_table(TextPart(before.whole, words[at[0]].end(), before.stop))
    head, clauses = split_clauses(after, OF_SELECT) if after else (None, {})
    alias = _alias(head)
    qualifiers |= {alias} if alias else set()
    listed = TextPart(before.whole, words[0].end(), words[at[0]].start())
    where = clauses.get("WHERE")
    return SelectedRows(
        table=table,
        rows=query,
        columns=_columns(listed, qualifiers),
        alias=alias,
        where=None if where is None else _outer_expression(where, "WHERE", qualifiers),
        order_by=_sort_keys(clauses.get("ORDER BY"), qualifiers),
        limit=_limit(clauses.get("LIMIT")),
    )


def _alias(head: TextPart | None) -> str | None:
    if head is None or head.is_blank():
        return None
    words = [token for token in head.outer() if token[0].upper() != "AS"]
    if len(words) != 1 or words[0].lastgroup not in ("word", "quoted"):
        refuse_larger(head, words)
        at = words[1] if len(words) > 1 else head.outer()[0]
        known = [keyword.name for keyword in OF_SELECT]
        hint = nearest(at[0], known)
        place = TextPart(head.whole, at.start(), at.end())
        raise place.error(f"expected WHERE, ORDER BY or LIMIT{hint and '.' + hint}{TOO_LARGE}")
    return variable_name(words[0][0])


def _columns(part: TextPart, qualifiers: set[str]) -> tuple[tuple[str, ex.Expression], ...] | None:
    if part.without_comments() == "*":
        return None
    columns = []
    for entry in part.split():
        tokens = entry.outer()
        if len(tokens) == 3 and tokens[1][0] == "." and tokens[2][0] == "*":
            check_qualifier(entry, "SELECT", tokens[0][0], qualifiers)
            if len(part.split()) == 1:
                return None
            raise entry.error("SELECT: write * alone, or name the columns")
        named = len(tokens) > 2 and tokens[-2][0].upper() == "AS"
        stop = tokens[-2].start() if named else entry.stop
        tree = _outer_expression(TextPart(entry.whole, entry.start, stop), "SELECT", qualifiers)
        if named:
            name = column_name(tokens[-1][0])
        elif isinstance(tree, ex.Attribute):
            name = tree.name
        else:
            raise entry.error("SELECT: a computed column needs a name; write it as in price * 2 AS twice")
        columns.append((name, tree))
    return tuple(columns)


def _outer_expression(part: TextPart, role: str, qualifiers: set[str]) -> ex.Expression:
    """Return an expression over the result, in which the alias or the table may qualify a column."""
    tree = _expression(part, role)

    def unqualified(node: ex.Expression) -> ex.Expression:
        if isinstance(node, rp.Navigation | rp.RowAggregate | rp.Classifier | rp.MatchNumber):
            message = f"{role}: {type(node).__name__} belongs inside MATCH_RECOGNIZE"
            if isinstance(node, rp.RowAggregate):
                message = f"{role}: an aggregate of the result does not run here{TOO_LARGE}"
            raise _node_part(part, node).error(message)
        if not isinstance(node, ex.Reference) or node.name is None:
            return node
        if node.variable not in qualifiers:
            hint = nearest(node.variable, qualifiers)
            raise _node_part(part, node).error(f"{role}: no table {node.variable!r}{hint and '.' + hint}")
        return ex.Attribute(node.name, span=node.span)

    return rebuilt(tree, ex.Expression, unqualified)


def _node_part(part: TextPart, node: ex.Expression) -> TextPart:
    start, stop = node.span or (part.start, part.stop)
    return TextPart(part.whole, start, stop)


def _limit(part: TextPart | None) -> int | None:
    if part is None:
        return None
    found = _LIMIT.fullmatch(part.without_comments())
    if found is None:
        raise part.error("LIMIT: expected a number of rows")
    return int(found["limit"] or found["fetch"])


@cache
def _row_pattern_parser() -> Lark:
    return make_parser(Path(__file__).with_name("row_pattern.lark"), ROW_PATTERN_BUILDER)


@cache
def _sql_expression_parser() -> Lark:
    return make_parser(Path(__file__).with_name("sql_expression.lark"), SQL_EXPRESSION_BUILDER)
