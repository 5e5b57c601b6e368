"""Parse MATCH_RECOGNIZE, alone or in a SELECT, by ``row_pattern.lark`` and ``sql_expression.lark``."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from cepkit.errors import WrongTypeError, nearest
from cepkit.language.expressions.parsing import check_text
from cepkit.language.match_recognize.checks import check_query
from cepkit.language.match_recognize.clauses import OF_MATCH_RECOGNIZE, TextPart, check_brackets
from cepkit.language.match_recognize.mistakes import TOO_LARGE
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows
from cepkit.language.match_recognize.reading import read_clauses, split_and_check
from cepkit.language.match_recognize.selecting import read_select
from cepkit.language.match_recognize.windows import is_window_select, read_window_select


def parse_match_recognize(text: str) -> RowPatternQuery | SelectedRows | WindowedRows:
    """Return the tree of a MATCH_RECOGNIZE clause, or of a SELECT around one, or with a WINDOW.

    Names without quotes are variables in upper case. ``PATTERN`` and ``DEFINE`` are required, and the clauses
    have SQL's order. Flink's ``WITHIN`` follows the pattern.
    """
    if not isinstance(text, str):
        raise WrongTypeError(f"MATCH_RECOGNIZE: expected text, got {type(text).__name__}")
    return _parse_once(text)


@lru_cache(maxsize=16)
def _parse_once(text: str) -> RowPatternQuery | SelectedRows | WindowedRows:
    check_text(text)
    check_brackets(text)
    tokens = [token for token, _ in TextPart(text, 0, len(text)).tokens()]
    is_ended = bool(tokens) and tokens[-1][0] == ";"  # comments may follow it
    whole = TextPart(text, 0, tokens[-1].start() if is_ended else len(text.rstrip()))
    if is_window_select(whole):
        return read_window_select(whole)
    before, inside, after = _around_clause(whole)
    query = read_clauses(inside, split_and_check(inside, OF_MATCH_RECOGNIZE))
    check_query(query)
    if before is not None:
        return read_select(before, query, after)
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
        _check_spelling(whole)
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


def _check_spelling(whole: TextPart) -> None:
    """Raise for a word before a bracket that is nearly MATCH_RECOGNIZE."""
    tokens = whole.outer()
    is_select = bool(tokens) and tokens[0][0].upper() == "SELECT"
    for i, (word, after) in enumerate(pairwise(tokens)):
        if after[0] != "(" or word.lastgroup != "word" or not (is_select or i < 2):
            continue
        first = tokens[i - 1] if i and tokens[i - 1][0].upper() == "MATCH" else word
        text = word[0] if first is word else f"{first[0]}_{word[0]}"
        if hint := nearest(text, ["MATCH_RECOGNIZE"]):
            place = TextPart(whole.whole, first.start(), word.end())
            raise place.error(f"{place.text} is no clause of SQL.{hint}")


def _or_none(part: TextPart) -> TextPart | None:
    return None if part.is_blank() else part
