"""States of a row pattern that behave alike share a number."""

from __future__ import annotations

from random import Random

import pytest

from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.compile.shared.row_automaton import RowAutomaton, build_row_automaton
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery
from cepkit.plots.automata import shown_states
from tests.oracle.generate_match_recognize import random_query
from tests.support.hostile_runs import in_time
from tests.support.sizes import seeds


def numbers_by_rounds(automaton: RowAutomaton) -> tuple[int, ...]:
    """Divide all states by their choices, again and again, until nothing changes."""
    states = range(automaton.start)
    number: list = list(zip(automaton.variable_of_state, automaton.excluded, strict=True))
    while True:
        made = [
            (
                number[state],
                *(
                    tuple(dict.fromkeys(one if one == MATCH else number[one] for one in targets))
                    for targets in automaton.follow[state]
                ),
            )
            for state in states
        ]
        first = list(dict.fromkeys(made))
        if len(first) == len(set(number)):
            return tuple(first.index(one) + 1 for one in made)
        number = [first.index(one) for one in made]


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_the_numbers_are_those_of_rounds_over_all_states(seed):
    random = Random(seed)
    automaton = build_row_automaton(random_query(random, depth=random.choice([2, 3, 4])).pattern)
    assert shown_states(automaton) == numbers_by_rounds(automaton)


def test_a_long_repetition_is_explained_in_time():
    text = "MATCH_RECOGNIZE (PATTERN (A {- B*? -} C{2,600}) DEFINE A AS x > 1, C AS x < 5)"
    query = parse_match_recognize(text)
    assert isinstance(query, RowPatternQuery)
    with in_time():
        assert max(shown_states(build_row_automaton(query.pattern))) == 602
