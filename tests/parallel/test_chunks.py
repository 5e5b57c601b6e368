"""The baselines' division of work: naive matching of the pieces is naive matching of the whole stream."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from cepkit.engines.shared.places import Places
from cepkit.errors import CepError
from cepkit.language.sequences.construction import sequence_query
from cepkit.parallel.running import (
    Chunk,
    interval_chunks,
    key_blocks,
    keys_unsupported,
    looked_at,
    rip_chunks,
)
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_lines import lines
from tests.oracle.naive_sequences import Search, SequenceMatch, canonical, key_of, reported, sequence_matches
from tests.support.sequence_runs import bound
from tests.support.sizes import seeds

FAMILIES = [*gs.FAMILIES]
TIMED = ["any", "next", "strict", "partition", "window", "negation", "after_match", "all"]
SEEDS = range(4)


def shifted(match: SequenceMatch, places) -> SequenceMatch:
    """Return the match of some rows as one of the whole stream; places: where these rows are in it."""
    events = tuple((name, tuple(places[row] for row in rows)) for name, rows in match.events)
    return SequenceMatch(events, match.options)


def end_of_data(query, rows):
    """Return until when a whole stream is complete; pieces of it say nothing about this."""
    last = max((row["t"] for row in rows), default=None)
    return last if query.complete_until is None else query.complete_until


def of_rows(query, rows, places) -> list[SequenceMatch]:
    """Return the matches in some rows of a stream, before any after-match policy.

    The data end with the whole stream, not with these rows.
    """
    query = replace(query, after_match=("none", None), complete_until=end_of_data(query, rows))
    return [shifted(match, places) for match in sequence_matches(query, [rows[place] for place in places])]


def of_chunk(query, rows, chunk: Chunk) -> list[SequenceMatch]:
    """Return what a unit finds in a chunk, as it is defined.

    Events that must be absent before a match are read from the whole stream.
    """
    in_front = any(absent.after is None for line in lines(query.pattern) for absent in line.absences)
    found = of_rows(query, rows, range(0 if in_front else chunk.own[0], chunk.end))
    begun = [match for match in found if chunk.starts[0] <= match.rows[0] < chunk.starts[1]]
    return [match for match in begun if chunk.own[0] <= match.rows[0] < chunk.own[1]]


def put_together(query, rows, found: list[SequenceMatch]) -> list[SequenceMatch]:
    """Return the matches of all pieces in canonical order, after the after-match policy."""
    ordered = sorted(found, key=lambda match: canonical(match, query.variables))
    if not query.selects:
        return ordered
    of_key: dict[tuple, list[SequenceMatch]] = {}
    for match in ordered:
        of_key.setdefault(key_of(query, rows[match.rows[0]]), []).append(match)
    kept = Counter(match for matches in of_key.values() for match in reported(matches, *query.after_match))
    return [match for match in ordered if kept[match]]


def check(chunks: list[Chunk], n_events: int, threads: int) -> None:
    """Assert that chunks divide a stream."""
    own = [position for chunk in chunks for position in range(*chunk.own)]
    assert own == list(range(n_events))
    for chunk in chunks:
        assert chunk.own[0] < chunk.own[1] <= chunk.end <= n_events
        assert 0 <= chunk.unit < threads


# --- RIP ---


def check_chunks(seed: int, family: str) -> None:
    case, draw = gs.case(seed, seed, family), Random(seed)
    program, events = bound(case)
    n, threads = draw.randint(1, 4), draw.randint(1, 3)
    chunks = rip_chunks(looked_at(Places(program, events)), n, threads)
    check(chunks, events.n_events, threads)
    assert [chunk.unit for chunk in chunks] == [k % threads for k in range(len(chunks))]
    found = [match for chunk in chunks for match in of_chunk(case.query, case.rows, chunk)]
    assert put_together(case.query, case.rows, found) == sequence_matches(case.query, case.rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_chunks_find_each_match_of_the_stream_once(seed, family):
    check_chunks(seed, family)


@pytest.mark.parametrize("family", ["window", "negation", "all"])
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_what_matches_depend_on_by_the_definition(seed, family):
    case = gs.case(seed, seed, family)
    program, events = bound(case)
    end = looked_at(Places(program, events))
    query, rows = case.query, case.rows
    search = Search(query, lines(query.pattern)[0], rows)
    at_end = any(a.before is None for line in lines(query.pattern) if line.slots for a in line.absences)
    for i in range(len(rows)):
        own = [j for j in range(len(rows)) if search.key_of_row[j] == search.key_of_row[i]]
        behind = [j for j in own if j >= i and search.in_window(i, j)]
        if query.within_events is not None and not at_end:
            behind = behind[: query.within_events]
        assert end[i] == max([*behind, i]) + 1


def test_loads_of_a_burst():
    """Where all runs begin within one chunk, one unit does all the work."""
    types = ["x"] * 40 + ["A", "B"] * 5 + ["x"] * 40
    end = np.minimum(np.arange(len(types)) + 10, len(types))
    runs = Counter()
    for chunk in rip_chunks(end, 20, 4):
        runs[chunk.unit] += sum(of == "A" for of in types[slice(*chunk.own)])
    assert runs == {0: 0, 1: 0, 2: 5, 3: 0}


# --- intervals of time ---


def check_intervals(seed: int, family: str, start_filter: bool) -> None:
    case, draw = gs.case(seed, seed, family), Random(seed)
    query, rows = case.query, case.rows
    if not query.within:
        query = replace(query, within=draw.choice([1, 3, 6]))
    time = np.array([row["t"] for row in rows], np.int64)
    multiple, threads = draw.choice([1, 1.5, 2, 3]), draw.randint(1, 3)
    chunks = interval_chunks(time, query.within, multiple, threads, start_filter=start_filter)
    check(chunks, len(rows), threads)
    found = [match for chunk in chunks for match in of_chunk(query, rows, chunk)]
    assert put_together(query, rows, found) == sequence_matches(query, rows)
    for chunk in chunks:
        assert chunk.starts == (chunk.own if start_filter else (chunk.own[0], chunk.end))
        # An event is an interval's by its own time, or by its time less a window.
        k = (rows[chunk.own[0]]["t"] - rows[0]["t"]) // (multiple * query.within)
        units = [
            {(t - rows[0]["t"] - shift) // (multiple * query.within) for shift in (0, query.within)}
            for t in time.tolist()
        ]
        seen = [position for position, of in enumerate(units) if k in of]
        assert seen == list(range(chunk.own[0], chunk.end))
        assert chunk.unit == k % threads


@pytest.mark.parametrize("start_filter", [True, False])
@pytest.mark.parametrize("family", TIMED)
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_intervals_find_each_match_of_the_stream_once(seed, family, start_filter):
    check_intervals(seed, family, start_filter)


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_intervals_of_rounded_times(seed):
    """Whatever the rounding, a chunk sees every event at most a window after one of its own."""
    draw = Random(seed)
    window = draw.choice([0.1, 0.3, 1 / 3])
    time = np.sort(np.array([draw.randrange(60) * window / draw.choice([1, 3]) + draw.choice([0, 1e9])
                             for _ in range(60)]))  # fmt: skip
    for chunk in interval_chunks(time, window, draw.choice([1, 1.1, 2]), 2):
        for position in range(*chunk.own):
            near = np.flatnonzero(np.abs(time - time[position]) <= window)
            assert near[-1] < chunk.end


def test_match_that_ends_a_rounding_behind_its_interval():
    """Twelve windows of 0.165 s: the last events are a window apart, and yet two intervals of one window."""
    time = np.array([0.0016629621318610122, 1.983157286008663, 2.1482818129983965])
    window = 0.1651245269897335
    assert time[2] - time[1] <= window
    _, chunk, last = interval_chunks(time, window, 1, 2)
    assert chunk.own == (1, 2) and chunk.end == 3 and last.own == (2, 3)


def test_overlap_costs_a_window_per_interval():
    time = np.arange(100_000)
    for multiple in (1, 2, 5, 10):
        chunks = interval_chunks(time, 100, multiple, 4)
        looked_at = sum(chunk.end - chunk.own[0] for chunk in chunks)
        assert looked_at / len(time) == pytest.approx(1 + 1 / multiple, rel=0.01)


# --- keys ---


def check_keys(seed: int, family: str, how: str) -> str | None:
    """Compare with the definition; return the reason where the keys divide no stream."""
    case = gs.case(seed, seed, family)
    query, rows = case.query, case.rows
    program, events = bound(case)
    if reason := keys_unsupported(program):
        neighbours = any(
            component.step == "strict" or component.inner == "strict"
            for one in program.branches
            for component in one.branch.components
        )
        assert not query.partition_by or (neighbours and "skip no event" in reason)
        return reason
    threads = Random(seed).randint(1, 3)
    unit = key_blocks(events.partition_of_event, threads, how)[events.partition_of_event]
    found = [
        match for r in range(threads) for match in of_rows(query, rows, np.flatnonzero(unit == r).tolist())
    ]
    assert put_together(query, rows, found) == sequence_matches(query, rows)
    return None


@pytest.mark.parametrize("family", TIMED)
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_keys_find_each_match_of_the_stream_once(seed, family):
    if reason := check_keys(seed, family, ("least_loaded", "hash")[seed % 2]):
        pytest.skip(reason)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_every_division_finds_each_match_once_in_many_streams(seed, family):
    for own in range(100 * (seed + 1), 100 * (seed + 1) + 12):
        check_chunks(own, family)
        check_intervals(own, family, own % 2 == 0)
        check_keys(own, family, ("least_loaded", "hash")[own % 2])


def test_what_keys_cannot_divide():
    def reason(pattern, **keywords):
        query = sequence_query(pattern, event_type="kind", order_by="t", **keywords)
        return keys_unsupported(bound(gs.Case(query, gs.stream(Random(1), query, 4)))[0])

    assert reason("PATTERN SEQ(A a, B+ b)") == "has no key that all events of a match share"
    keyed = "PATTERN SEQ(A a, B+ b) WHERE [k]"
    assert all(reason(keyed, strategy=how) is None for how in ("any", "next", "partition"))
    assert reason(keyed, strategy="strict") == "may skip no event before 'b', whichever its key"
    loop = "PATTERN SEQ(B+ b) WHERE [k]"
    assert reason(loop, strategy="strict") == "may skip no event before 'b', whichever its key"
    assert reason("PATTERN SEQ(B b) WHERE [k]", strategy="strict") is None


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_least_loaded_is_within_a_third_of_the_best(seed):
    """Largest first is at most 4/3 of the best division, which is at least the mean and the largest."""
    draw = Random(seed)
    sizes, threads = [draw.randint(1, 30) for _ in range(draw.randint(1, 7))], draw.randint(1, 3)
    keys = np.repeat(np.arange(len(sizes)), sizes)
    unit = key_blocks(keys, threads)
    best = min(
        max(sum(s for s, u in zip(sizes, of, strict=True) if u == r) for r in range(threads))
        for of in itertools.product(range(threads), repeat=len(sizes))
    )
    assert np.bincount(unit[keys], minlength=threads).max() <= 4 / 3 * best


def test_hashing_spreads_keys_by_themselves():
    keys = np.arange(8000)
    unit = key_blocks(keys, 4, "hash")
    assert (unit[:50] == key_blocks(keys[:50], 4, "hash")).all()
    assert np.bincount(unit, minlength=4) == pytest.approx([2000] * 4, rel=0.1)


# --- what is refused, and nothing ---


def test_arguments_out_of_range():
    with pytest.raises(CepError, match="threads=0: there must be at least 1"):
        rip_chunks(np.array([1]), 1, 0)
    with pytest.raises(CepError, match="n_events_per_chunk=0"):
        rip_chunks(np.array([1]), 0, 1)
    with pytest.raises(CepError, match=r"multiple=0.5: intervals are at least one window long"):
        interval_chunks(np.array([1]), 4, 0.5, 1)
    with pytest.raises(CepError, match="window=0: intervals need a window in time"):
        interval_chunks(np.array([1]), 0, 2, 1)
    with pytest.raises(CepError, match=r"how='modulo' is not known. There are \['least_loaded', 'hash'\]"):
        key_blocks(np.array([0]), 1, "modulo")


def test_no_events():
    none = np.array([], np.int64)
    assert rip_chunks(none, 3, 2) == [] and interval_chunks(none, 1, 2, 2) == []
    assert len(key_blocks(none, 2)) == 0
