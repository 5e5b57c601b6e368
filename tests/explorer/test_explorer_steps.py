"""The stepper of the explorer against the definitions: what an event completes, and what lives until then."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from cepkit.explorer.running.result import automaton_of, draw_automaton, state_of_events
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.insight import moments
from cepkit.insight.moments import Stepping
from cepkit.planning.plans import compile_checked
from cepkit.planning.queries import Arguments, as_query
from tests.oracle import generate, naive
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import bound
from tests.support.sizes import seeds

FAMILIES = list(gs.FAMILIES)


@pytest.fixture(autouse=True)
def _nothing_left_out(monkeypatch):
    monkeypatch.setattr(moments, "MOST_FOLLOWED", 10**9)


def opened_sequence(seed: int, family: str):
    case = gs.case(seed, None, family)
    case = replace(case, query=replace(case.query, after_match=("none", None)))
    program, events = bound(case)
    return case, program, events


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(3, 20))
def test_a_sequence_completes_the_matches_of_the_definition(seed, family):
    case, program, events = opened_sequence(seed, family)
    wanted = {tuple(sorted(match.rows)) for match in sequence_matches(case.query, case.rows)}
    made = set()
    for partition in range(max(1, events.n_partitions)):
        steps = Stepping(program, events, partition, automaton_of(program))
        for k in range(1, steps.n + 1):
            moment = steps.after(k)
            assert all(match[-1] == k - 1 for match in moment.completed)
            made |= {tuple(steps.position_of(i) for i in match) for match in moment.completed}
    assert made == wanted


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_what_becomes_a_match_lives_until_then(seed, family):
    case, program, events = opened_sequence(seed, family)
    matches = sequence_matches(case.query, case.rows)[:40]
    for partition in range(max(1, events.n_partitions)):
        steps = Stepping(program, events, partition, automaton_of(program))
        live = {}
        for k in range(1, steps.n + 1):
            assert steps.after(k).is_whole
            live[k] = set(steps.walk.partials())
        for match in matches:
            own = [steps.index_of(row) for row in sorted(match.rows)]
            if [steps.position_of(i) for i in own if i < steps.n] != sorted(match.rows):
                continue  # of another partition
            for k in range(own[0] + 1, own[-1] + 1):
                assert tuple(i for i in own if i < k) in live[k]


def opened_regex(seed: int):
    case = generate.case(seed, n_events=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        query = as_query(case.pattern, Arguments(define=case.define, **case.keywords()))
        source = PandasSource(generate.to_frame(case.rows))
        program = compile_checked(query, source)
    return case, program, build_events(source, program)


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_a_regex_completes_the_matches_of_the_definition(seed):
    case, program, events = opened_regex(seed)
    keywords = case.keywords()
    wanted = {
        (match[0], match[-1]) for match in naive.matches(case.pattern, case.define, case.rows, **keywords)
    }
    made = set()
    for partition in range(max(1, events.n_partitions)):
        steps = Stepping(program, events, partition, automaton_of(program))
        starts_after = {}
        for k in range(1, steps.n + 1):
            completed = {tuple(map(steps.position_of, match)) for match in steps.after(k).completed}
            made |= completed
            starts_after[k] = {steps.position_of(events[0]) for events in steps.walk.partials()}
            for first, _ in completed:
                for before in range(steps.index_of(first) + 1, k):
                    assert first in starts_after[before]
    assert made == wanted


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_a_walk_may_begin_anywhere_behind_a_match(seed, monkeypatch):
    """With the ends of the matches known, a neighbourhood shows what a walk over all events shows."""
    _, program, events = opened_regex(seed)
    automaton = automaton_of(program)
    for partition in range(max(1, events.n_partitions)):
        whole = Stepping(program, events, partition, automaton)
        snapshots = {k: whole.after(k) for k in range(1, whole.n + 1)}
        ends = np.array(
            sorted(whole.position_of(m[-1]) for k in snapshots for m in snapshots[k].completed), np.int64
        )
        monkeypatch.setattr(moments, "LOOK_BACK", 6)
        for k in range(whole.n, 0, -1):
            near = Stepping(program, events, partition, automaton, ends)
            moment = near.after(k)
            if moment.is_whole:
                assert moment == snapshots[k]
            assert near.next_match(k) >= k
        monkeypatch.setattr(moments, "LOOK_BACK", 120)


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_a_match_passes_states_from_the_start_to_an_end(seed):
    _, program, _ = opened_regex(seed)
    automaton = automaton_of(program)
    drawn = draw_automaton(automaton)
    follow = {(source, name): target for source, name, target in automaton.states.transitions}
    word, state = [], 0
    while state not in automaton.states.accepting:
        ways = sorted(name for source, name in follow if source == state)
        name = (
            ways[(seed + len(word)) % len(ways)]
            if len(word) < 8
            else min(ways, key=lambda n: -follow[state, n])
        )
        word.append(name)
        state = follow[state, name]
        if len(word) > 60:
            return  # a loop without an end in sight
    passed = state_of_events(automaton, word)
    assert passed[-1] in automaton.states.accepting
    assert set(passed) <= {circle["id"] for circle in drawn["states"]}
    assert all(line["source"] in range(len(drawn["states"])) for line in drawn["transitions"])
