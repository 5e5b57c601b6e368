"""Queries in one plain sentence: a pair of text and sentence for every construct, and random queries."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from cepkit.language import row_patterns as pt
from cepkit.language.cheat_sheet import say_query
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import say_condition
from cepkit.language.regex import regex_query
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.parsing import is_sase
from cepkit.language.sequences.patterns import event_patterns
from tests.oracle import generate
from tests.oracle import generate_sequences as gs
from tests.support.sizes import seeds

FIXTURES = Path(__file__).parents[1] / "fixtures"
KEYWORDS = ("partition_by", "strict_time", "after_match")


def pairs():
    text = (FIXTURES / "sentences.txt").read_text(encoding="utf-8")
    return [line.split(" ; ") for line in text.splitlines() if line and not line.startswith("#")]


def query_of(text):
    """Return the query of a text; its lines are separated by ¶, and some are keywords."""
    pattern, *lines = text.split(" ¶ ")
    entries = dict(line.split(": ", 1) for line in lines)
    keywords = {name: entries.pop(name) for name in KEYWORDS if name in entries}
    if "partition_by" in keywords:
        keywords["partition_by"] = keywords["partition_by"].split(", ")
    if "strict_time" in keywords:
        keywords["strict_time"] = keywords["strict_time"] == "True"
    if is_sase(pattern):
        return sequence_query(pattern, event_type="kind", order_by="ts", **keywords)
    within, exclusive, _ = entries.pop("within", "").partition(", exclusive")
    if within:
        keywords |= {"within": int(within) if within.isdecimal() else within, "within_closed": not exclusive}
    if ":step" in text:
        keywords["params"] = {"step": 1}
    return regex_query(pattern, define=entries, order_by="ts", **keywords)


@pytest.mark.parametrize("case", pairs(), ids=lambda case: case[0])
def test_a_query_is_said_in_one_sentence(case):
    text, sentence = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert say_query(query_of(text)) == sentence


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_the_sentence_of_a_regex_names_every_variable(seed):
    case = generate.case(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        query = regex_query(case.pattern, define=case.define, **case.keywords())
    sentence = say_query(query)
    assert "\n" not in sentence
    for variable in pt.variables(query.pattern):
        assert re.search(rf"\b{variable.name} rows?\b", sentence), (variable.name, sentence)
        assert f"; {variable.name} means that " in sentence


@pytest.mark.parametrize("family", list(gs.FAMILIES))
@pytest.mark.parametrize("seed", seeds(6, 20))
def test_the_sentence_of_a_sequence_names_every_variable(seed, family):
    query = gs.case(seed, None, family).query
    sentence = say_query(query)
    assert "\n" not in sentence
    for event in event_patterns(query.pattern):
        kind = "" if event.event_type is None else f"{event.event_type} "
        assert re.search(rf"\b{kind}events? {event.variable}\b", sentence), (event, sentence)


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_every_condition_has_words(seed):
    for name, tree in generate.case(seed).define.items():
        assert say_condition(tree), name


def test_a_number_without_a_text_has_words():
    assert (
        say_condition(ex.Comparison(">", ex.Attribute("x"), ex.Literal(float("inf")))) == "x is above a value"
    )
