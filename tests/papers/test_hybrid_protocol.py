"""The protocol of hybrid agents: every interleaving gives each match once, and the printed rules do not."""

import random
from collections import Counter

import pytest

from cepkit.errors import CepError
from cepkit.language.sequences.construction import sequence_query
from papers.hybrid_parallel.protocol import (
    PRINTED,
    PROTOCOL_COUNTEREXAMPLES,
    ProtocolEvent,
    Rules,
    read_stream,
    run_protocol,
)
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sizes import seeds


def defined(stream: list[ProtocolEvent], types: str, within: int, loops: str) -> Counter:
    """Return the matches by the definition."""
    parts = ", ".join(f"{of}{'+' if of in loops else ''} {of.lower()}" for of in types)
    query = sequence_query(f"PATTERN SEQ({parts})", event_type="type", order_by="ts", within=within)
    rows = [{"type": event.type, "ts": event.ts} for event in stream]
    return Counter(
        " ".join(stream[row].name for row in match.rows) for match in sequence_matches(query, rows)
    )


def drawn(seed: int):
    """Return a stream, types, a window, the loops and what a run takes."""
    draw = random.Random(seed)
    types = "ABCD"[: draw.choice([2, 3, 3, 4])]
    loops = draw.choice(["", "", types[1], types[-1]])
    ts, stream = 0, []
    for place in range(draw.randint(6, 14)):
        ts += draw.randint(0, 3)
        of = draw.choice(types)
        stream.append(ProtocolEvent(f"{of.lower()}{place}", of, ts, place))
    within = draw.choice([4, 8, 12])
    return (
        stream,
        types,
        within,
        loops,
        {"workers": draw.choice([1, 2, 3]), "eagerness": draw.choice([1, 3, 6])},
    )


def run(seed: int, rules: Rules) -> tuple[Counter, Counter]:
    """Return what a random interleaving finds, and what is right."""
    stream, types, within, loops, how = drawn(seed)
    found = run_protocol(stream, types, within, loops=loops, rules=rules, seed=seed, **how).matches
    return Counter(found), defined(stream, types, within, loops)


@pytest.mark.parametrize("reading", ["atomic", "upstream"])
@pytest.mark.parametrize("seed", seeds(12, 50))
def test_corrected_rules_find_each_match_once(seed, reading):
    found, right = run(seed, Rules(reading=reading))
    assert found == right


@pytest.mark.parametrize("reading", ["atomic", "upstream"])
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_corrected_rules_find_each_match_once_in_many_interleavings(seed, reading):
    for own in range(1000 * (seed + 1), 1000 * (seed + 1) + 150):
        found, right = run(own, Rules(reading=reading))
        assert found == right, own


@pytest.mark.parametrize(
    ("rules", "fails_by"),
    [
        (Rules(tickets=False), "doubled"),
        (Rules(removal="printed"), "lost"),
        (Rules(reading="downstream"), "lost"),
    ],
    ids=["no tickets", "printed removal", "watermark read downstream first"],
)
def test_rule_that_is_not_safe_fails_somewhere(rules, fails_by):
    for seed in range(1500):
        found, right = run(seed, rules)
        assert not set(found) - set(right)
        doubled, lost = any(n > 1 for n in found.values()), bool(right - found)
        assert not (lost if fails_by == "doubled" else doubled)
        if doubled or lost:
            return
    pytest.fail("no interleaving shows it")


@pytest.mark.parametrize("example", PROTOCOL_COUNTEREXAMPLES, ids=lambda example: example.name)
def test_counterexample(example):
    stream = read_stream(example.stream)
    right = defined(stream, example.types, example.within, example.loops)
    assert Counter(example.right) == right
    assert Counter(example.run(example.rules).matches) != right
    assert Counter(example.run().matches) == right


def test_steps_tell_what_happened():
    steps = PROTOCOL_COUNTEREXAMPLES[1].run(PRINTED).steps
    assert list(steps.columns) == ["step", "who", "what"]
    assert steps.query("who == 'E3.0' and what == 'removes c3'").shape[0] == 1


def test_buffers_are_emptied_by_later_events():
    """An event far behind the last lets everything be removed but what has just been taken."""
    stream = read_stream("a1@1 b2@2 c3@3 a4@4 b5@5 c6@6 a100@100 b101@101 c102@102")
    run_ = run_protocol(stream, "ABC", 10, seed=1)
    assert sorted(run_.matches) == sorted(defined(stream, "ABC", 10, "").elements())
    assert run_.left < 6


def test_schedule_that_names_an_idle_worker():
    with pytest.raises(CepError, match=r"step 1: 'M2.0' has nothing to do. These have: \['source'\]"):
        run_protocol(read_stream("a1@1 b2@2"), "AB", 5, schedule=["M2.0"])
