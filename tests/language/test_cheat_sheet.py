"""The cheat sheet: every entry parses, and every construct and built-in function has an entry."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from lark import Lark

import cepkit.language
from cepkit.explorer.text import read_text
from cepkit.language import cheat_sheet as cs
from cepkit.language.expressions.functions import BUILT_IN_NAMES
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.vocabulary import VOCABULARY
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.regex import parse_pattern
from cepkit.language.sequences.parsing import parse_sase, parse_sequence
from cepkit.language.sequences.patterns import PREFERENCES, STRATEGIES
from cepkit.language.sequences.printing import SASE_STRATEGIES

LANGUAGE = Path(cepkit.language.__file__).parent
GRAMMARS = {
    "regex": (LANGUAGE / "regex.lark", {cs.REGEX}),
    "sase": (LANGUAGE / "sequences" / "sase.lark", {cs.EVENTS}),
    "expr": (LANGUAGE / "expressions" / "expr.lark", {cs.CONDITION, cs.MEASURE}),
}
ENTRIES = list(chain.from_iterable(cs.CHEAT_SHEET.values()))
FOR_ERRORS = {"misplaced_times", "without_name"}  # rules of the grammar that the builder refuses


def grammar_and_texts(name):
    """Return a grammar without its builder, and the texts of all entries that it reads."""
    path, kinds = GRAMMARS[name]
    parser = Lark(path.read_text(encoding="utf-8"), parser="lalr", lexer="basic", maybe_placeholders=True)
    texts = [entry.text for entry in ENTRIES if entry.kind in kinds]
    if name == "sase":  # the parser removes conditions from the text first
        texts = [re.sub(r"(IF|UNTIL) [(].*?[)]", r"\1 ()", f"SEQ(A first, {text})") for text in texts]
    return parser, texts


def with_clause(text):
    """Return a query of MATCH_RECOGNIZE with one more clause, or with another one."""
    if text.startswith("SELECT"):
        return f"{text} MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > 1)"
    clauses = {"PATTERN": "PATTERN (A B)", "DEFINE": "DEFINE A AS x > 1"}
    word = text.split()[0]
    kept = [clause for name, clause in clauses.items() if name != word]
    order = ["PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "WITHIN", "SUBSET", "DEFINE"]
    return " ".join(sorted([*kept, text], key=lambda clause: order.index(clause.split()[0])))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.text)
def test_an_entry_parses(entry):
    match entry.kind:
        case cs.REGEX:
            assert parse_pattern(entry.text)
        case cs.LINE:
            reading = read_text(f"a b\n{entry.text}", {"order_by": "ts"} if "within" in entry.text else {})
            assert not [one for one in reading.mistakes if "define" not in one.message]
        case cs.EVENTS:
            assert parse_sequence(f"SEQ(Z z, {entry.text})")
        case cs.CLAUSE:
            head = "" if entry.text.startswith("PATTERN") else "PATTERN SEQ(A a, B b)\n"
            assert parse_sase(f"{head}{entry.text}")
        case cs.ROWS:
            assert parse_match_recognize(f"PATTERN ({entry.text}) DEFINE A AS x > 1")
        case cs.SQL_CLAUSE:
            assert parse_match_recognize(with_clause(entry.text))
        case cs.SQL_VALUE:
            text = f"MEASURES {entry.text} AS m PATTERN (A B) DEFINE B AS {entry.text.removeprefix('FINAL ')}"
            assert parse_match_recognize(text)
        case _:
            assert parse_expression(entry.text, references=True) is not None


def test_an_entry_is_one_line_with_a_meaning():
    assert len({entry.text for entry in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        assert "\n" not in entry.text and 0 < len(entry.text) <= 42, entry
        assert 0 < len(entry.meaning) <= 76 and not entry.meaning.endswith("."), entry


@pytest.mark.parametrize("name", GRAMMARS)
def test_every_rule_of_a_grammar_has_an_entry(name):
    parser, texts = grammar_and_texts(name)
    used = {node.data for text in texts for node in parser.parse(text).iter_subtrees()}
    named = {rule.alias or rule.origin.name for rule in parser.rules}
    inlined = {rule.origin.name for rule in parser.rules if rule.options.expand1 and not rule.alias}
    hidden = {rule for rule in named if str(rule).startswith("_")}
    assert {str(rule) for rule in named - inlined - hidden} - set(map(str, used)) - FOR_ERRORS == set()


@pytest.mark.parametrize("name", GRAMMARS)
def test_every_terminal_of_a_grammar_has_an_entry(name):
    parser, texts = grammar_and_texts(name)
    used = {token.type for text in texts for token in parser.lex(text)}
    ignored = set(parser.ignore_tokens)
    assert {terminal.name for terminal in parser.terminals} - used - ignored == set()


def words_of(kinds):
    return " ".join(f"{entry.text} {entry.meaning}" for entry in ENTRIES if entry.kind in kinds).split()


def test_every_spelling_of_an_operator_is_there():
    said = " ".join(words_of({cs.CONDITION}))
    for sign in ("<=", ">=", "<>", "!=", "==", "=", "<", ">", "*", "/", "//", "%", "+", "-", "&", "&&", "|"):
        assert re.search(rf"(?<!\S){re.escape(sign)}(?![^\s,;])", said), sign
    for word in ("||", "!", "~", "not in", "not like", "not between", "is not null"):
        assert word in said, word


def test_every_word_of_sequences_is_there():
    events = words_of({cs.EVENTS})
    assert {name.upper() for name in (*STRATEGIES, *PREFERENCES[1:])} <= set(events)
    clauses = words_of({cs.CLAUSE})
    assert {"PATTERN", "WHERE", "WITHIN", "GAP", "EVENTS", "EXCLUSIVE", "[name]"} <= set(clauses)
    assert set(SASE_STRATEGIES.values()) <= set(clauses)


def test_every_form_of_a_value_of_an_event_is_there():
    said = [entry.text for entry in ENTRIES if entry.kind == cs.CONDITION]
    found = {str(node) for text in said for node in parse_expression(text, references=True).walk()}
    assert {"b.x", "b[i].x", "b[i-1].x", "b[1].x", "b[LEN].x", "b[..i-1].x", "count(b)"} <= found


def test_every_built_in_function_has_an_entry():
    called = set()
    for entry in ENTRIES:
        if entry.kind in (cs.CONDITION, cs.MEASURE):
            called |= set(re.findall(r"(\w+)\(", entry.text))
    aliases = {name for name, function in VOCABULARY.items() if name != function.name}
    assert BUILT_IN_NAMES - aliases - called == set()
