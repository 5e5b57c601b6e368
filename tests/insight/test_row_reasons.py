"""Why a row of a regex query is in no match: the conditions that fail, against the definitions."""

from __future__ import annotations

import warnings
from random import Random

import numpy as np
import pandas as pd
import pytest

from cepkit.compile.shared.row_automaton import ANY
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.result import automaton_of
from cepkit.insight.moments import Stepping
from cepkit.insight.why_not import cell
from cepkit.insight.why_not_regex import failing_conditions
from cepkit.language.expressions import trees as ex
from cepkit.planning.queries import Arguments, as_query
from tests.oracle import generate, naive
from tests.support.sizes import seeds

DEFINE = {"up": "x > first(x) and x > prev(x)", "top": "x >= first(x) + 3", "low": "x < first(x)"}


def is_simple(tree):
    """Whether a value is told of it: a column, its value before, an aggregate of it."""
    return isinstance(tree, ex.Attribute | ex.Previous | ex.Aggregate)


@pytest.mark.parametrize("seed", seeds(6, 150))
def test_the_conditions_that_fail_are_those_of_the_definition(seed):
    case = generate.case(seed, n_events=24)
    data = SearchedFrame(generate.to_frame(case.rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = data.compile(as_query(case.pattern, Arguments(define=case.define, **case.keywords())))
    events = data.events(program)
    automaton, rng = automaton_of(program), Random(f"places {seed}")
    for _ in range(4):
        partition = rng.randrange(max(1, events.n_partitions))
        stepping = Stepping(program, events, partition, automaton)
        rows = [case.rows[stepping.position_of(i)] for i in range(stepping.n)]
        start = rng.randrange(stepping.n)
        k = rng.randrange(start, min(stepping.n, start + 9))
        wanted, names = set(), []
        for name in set(program.automaton.names) - {ANY}:  # others stand behind an end
            if name not in case.define:
                continue  # a boolean column
            tree = case.define[name]
            if k == start and any(isinstance(node, ex.Aggregate) for node in tree.walk()):
                continue  # cannot be the first of a match
            names.append(name)
            wanted |= {
                (name, str(condition))
                for condition in ex.conjuncts(tree)
                if naive.evaluate(condition, rows, k, start, case.params) is not True
            }
        told = failing_conditions(program, data.source, stepping, tuple(names), start, k)
        texts = {(name, text) for name, text in told}
        assert len(texts) == len(wanted)
        for name, condition in wanted:
            assert any(own == name and text.startswith(condition) for own, text in texts)
        for name, text in texts:
            for term in {node for node in case.define[name].walk() if is_simple(node)}:
                if f"{term} = " in text.partition(" (")[2]:
                    value = cell(naive.evaluate(term, rows, k, start, case.params)) or "null"
                    assert f"{term} = {value}" in text


def asked(values, row, pattern=". up* top low"):
    frame = pd.DataFrame({"x": values}, index=np.arange(len(values)) + 100)
    explorer = frame.cep.explore(pattern, define=DEFINE).wait(60)
    explorer.why_not([row])
    return explorer.wait(60).board.reasons


def test_what_becomes_of_the_partial_match_that_takes_a_row_is_told():
    reasons = asked([10, 11, 12, 12, 9], 2)
    assert reasons.title == "in no match: row 102"
    assert [(line["text"], line["is_met"]) for line in reasons.lines][:4] == [
        (
            "2 partial matches (from rows 100 and 101) take this row as up. "
            "They end at row 103: that row is not up or top.",
            None,
        ),
        ("up fails there: x > prev(x) (x = 12, prev(x) = 12)", False),
        ("top fails there: x >= first(x) + 3 (x = 12, first(x) = 10)", False),
    ]


def test_a_partial_match_that_ends_at_the_row_says_why():
    reasons = asked([10, 11, 5], 2)
    texts = [line["text"] for line in reasons.lines]
    assert texts[:3] == [
        "2 partial matches (from rows 100 and 101) end here: this row is not up or top.",
        "up fails: x > first(x) (x = 5, first(x) = 10)",
        "up fails: x > prev(x) (x = 5, prev(x) = 11)",
    ]
    assert not any("holds" in text for text in texts), "nothing is said of first(x) without a match"


def test_a_row_of_a_match_names_it_and_where_it_is_complete():
    reasons = asked([10, 11, 14, 9, 20], 1)
    assert reasons.title == "in match 0, as up: row 101"
    assert reasons.lines[0] == {
        "text": "The match from row 100 takes this row as up and is completed at row 103.",
        "is_met": True,
    }


def test_a_row_at_which_the_window_is_over_says_so():
    frame = pd.DataFrame({"t": [0, 1, 9], "x": [1, 2, 3]})
    define = {"up": "x > prev(x)"}
    explorer = frame.cep.explore(". up up", define=define, order_by="t", within=5).wait(60)
    explorer.why_not([2])
    texts = [line["text"] for line in explorer.wait(60).board.reasons.lines]
    assert any("the window of 5 is over" in text for text in texts)


def test_a_partial_match_that_goes_on_to_the_end_of_its_partition():
    frame = pd.DataFrame({"t": range(4), "k": list("ppqq"), "x": [1, 2, 1, 2]})
    define = {"up": "x > prev(x)"}
    explorer = frame.cep.explore(". up up", define=define, order_by="t", partition_by="k").wait(60)
    explorer.why_not([1])
    texts = [line["text"] for line in explorer.wait(60).board.reasons.lines]
    assert "The partial match from row 0 (0) takes this row as up and stays open." in texts
