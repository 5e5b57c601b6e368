"""Parse SiddhiQL by ``siddhi.lark``."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cepkit.errors import PatternSyntaxError, WrongTypeError, nearest
from cepkit.language.expressions.mistakes import located
from cepkit.language.expressions.parsers import make_parser
from cepkit.language.expressions.parsing import check_text, check_tree, parse
from cepkit.language.siddhi.building import MIXED_SIGNS, SIDDHI_BUILDER
from cepkit.language.siddhi.mistakes import KEYWORDS, SIDDHI_WORDS, early_within, refused_statement
from cepkit.language.siddhi.patterns import AbsentState, EventState, StatePattern
from cepkit.language.siddhi.query import PatternInput, SiddhiApp
from cepkit.limits import QUERIES, STATES, refuse_beyond

if TYPE_CHECKING:
    from lark import Lark


def parse_siddhi(text: str) -> SiddhiApp:
    """Return the tree of a SiddhiQL app: definitions of streams, queries and partitions.

    Keywords ignore case, and names do not. Annotations are read and have no effect, but ``@info(name='…')``
    names a query.
    """
    if not isinstance(text, str):
        raise WrongTypeError(f"SiddhiQL: expected text, got {type(text).__name__}")
    return _parse_once(text)


@lru_cache(maxsize=32)
def _parse_once(text: str) -> SiddhiApp:
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
    if (early := early_within(text[:start])) is not None and text[start:end] in (",", "->"):
        return PatternSyntaxError(early[0], text, early[1], early[2])
    if text[start:end] in (",", "->") and "'->'" in error.message:
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
    same = [one for one in KEYWORDS if sorted(one) == sorted(word.lower())]
    return nearest(word, same or KEYWORDS)


def _check_size(app: SiddhiApp, text: str) -> None:
    """Raise if an app has too many queries or states, or trees too deep for the passes that walk them."""
    refuse_beyond(QUERIES, sum(1 for _ in app.queries()), "queries of the app", "Run it in several apps")
    for query in app.queries():
        if isinstance(query.input, PatternInput):
            pattern = query.input.pattern
            check_tree(pattern, StatePattern.children, text, None)
            n_states = sum(isinstance(state, EventState | AbsentState) for state in pattern.walk())
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
