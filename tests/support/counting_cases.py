"""Queries that are counted, as engines take them; their counts and walks compared with the definition."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pandas as pd
import pytest

from cepkit.compile.state_graph import anchored_graph_of, state_graph_of
from cepkit.engines.counting import layout, ranking, walking
from cepkit.engines.counting.anchored import AnchoredCounter, AnchoredLayout, AnchoredWalk
from cepkit.engines.counting.engine import counter_of
from cepkit.engines.counting.layout import Layout
from cepkit.engines.counting.walking import PathWalk
from cepkit.engines.search import search_sequence
from cepkit.engines.shared import places
from cepkit.engines.shared.places import Places, accepted
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle.generate_anchored import AnchoredCase, drawn_anchored
from tests.oracle.generate_paths import Case, as_frame, drawn_case, drawn_rows
from tests.oracle.naive_sequences import SequenceMatch
from tests.support.sequence_runs import prepared

Walk = PathWalk | AnchoredWalk
InRow = list[tuple[tuple, tuple]]  # (positions, components) of matches in canonical order


def in_row(case: Case, rows: list[dict]) -> InRow:
    """Return all matches by the definition."""
    found = case.matches(rows)
    components = [[(c,) * len(own) for c, (_, own) in enumerate(match.events)] for match in found]
    return [(match.rows, sum(own, ())) for match, own in zip(found, components, strict=True)]


def plain(block: MatchBlock) -> InRow:
    bounds = block.first_item_of_match.tolist()
    events, components = block.event_of_item.tolist(), block.component_of_item.tolist()
    return [(tuple(events[i:j]), tuple(components[i:j])) for i, j in pairwise(bounds)]


def graph_and(query: SequenceQuery, frame: pd.DataFrame, graph_of=state_graph_of):
    """Return the graph of a query, the places of its events, and which places are accepted."""
    program, events = prepared(query, frame)
    graph, own = graph_of(program, program.branches[0]), Places(program, events)
    assert not isinstance(graph, str), graph
    return graph, own, accepted(own)


# --- counts ----------------------------------------------------------------------------------------------


def as_list(numbers) -> list[int]:
    return [int(number) for number in numbers]


def counts_by_row(matches: list[SequenceMatch], n: int) -> list[int]:
    """Return the numbers of matches by the position of their last event."""
    of = Counter(match.rows[-1] for match in matches)
    return [of[position] for position in range(n)]


def check_counts(drawn: Case, rows: list[dict]) -> int:
    graph, own, accept = graph_and(drawn.query(), as_frame(rows))
    counter = counter_of(graph, own, accept)
    expected = counts_by_row(_matches(drawn, rows), len(rows))
    assert as_list(counter.by_place()) == [expected[p] for p in own.position_of_place.tolist()]
    assert counter.total() == sum(expected)
    return sum(expected)


_last: list[tuple[Case, list[dict], list[SequenceMatch]]] = []  # the case that was looked at last


def _matches(drawn: Case, rows: list[dict]) -> list[SequenceMatch]:
    """Return the matches by definition. Those of the last case are kept: a few cases take seconds."""
    if not (_last and _last[0][0] is drawn and _last[0][1] is rows):
        _last[:] = [(drawn, rows, drawn.matches(rows))]
    return _last[0][2]


def case_of_shape(shape: int, seed: int) -> tuple[Case, list[dict]]:
    """Return a query and a stream; most have matches, none has very many."""
    for attempt in range(12):
        values = random.Random(f"values {seed} {attempt}")
        drawn = drawn_case(random.Random(f"shape {shape}"), values)
        rows = drawn_rows(values, values.choice([0, 5, *range(11, 17)]))
        while (n_matches := len(_matches(drawn, rows))) > 2000:
            rows = rows[:-2]
        if n_matches or seed % 10 == 0:
            break
    return drawn, rows


# --- walks over paths ------------------------------------------------------------------------------------


def walk_of(query: SequenceQuery, frame: pd.DataFrame) -> PathWalk:
    return PathWalk(Layout(*graph_and(query, frame)))


def counts_of(walk: Walk, matches: InRow, kind: str = "array"):
    counts = [0] * walk.places.n
    for positions, _ in matches:
        counts[int(walk.places.place_of_position[positions[-1]])] += 1
    return counts if kind == "list" else np.array(counts, np.uint64)


def check_walk(walk: Walk, counts, expected: InRow, n_rows: int, values: Random) -> None:
    """Compare blocks, ranges, numbers and samples with all matches."""
    sizes = [1, 2, 3, values.randint(4, 40), 10**9]
    for size in sizes if len(expected) < 200 else sizes[3:]:
        blocks = list(walk.blocks(size))
        assert plain(joined(blocks)) == expected
        assert all(0 < len(block) <= size for block in blocks)
    low, high = sorted(values.randint(0, n_rows) for _ in range(2))
    assert plain(walk.ending(low, high)) == [match for match in expected if low <= match[0][-1] < high]
    numbers = list(range(len(expected)))
    single = [[number] for number in values.sample(numbers, min(4, len(numbers)))]
    mixed = values.choices(numbers, k=10) if numbers else []
    cut = numbers[values.randint(0, 5) : values.randint(5, 60)]
    for chosen in (numbers[:300], *single, mixed, cut, cut[::-1]):
        assert plain(walk.take(chosen, counts)) == [expected[number] for number in chosen]
    for n in (0, 1, 4, len(expected) + 1):
        sample = plain(walk.sample(n, values.randint(0, 99), counts))
        assert len(sample) == min(n, len(expected)) == len(set(sample))
        assert sample == [match for match in expected if match in set(sample)]
    with pytest.raises(IndexError, match="no match has the number"):
        walk.take([len(expected)], counts)


def check(case: Case, rows: list[dict], values: Random, *, searched: bool = False) -> int:
    expected, frame = in_row(case, rows), as_frame(rows)
    walk = walk_of(case.query(), frame)
    counts = counts_of(walk, expected, values.choice(["list", "array"]))
    check_walk(walk, counts, expected, len(rows), values)
    if searched:
        found = search_sequence(*prepared(case.query(), frame))
        assert plain(joined([found.ending(0, len(rows))])) == expected
    return len(expected)


def tighten(monkeypatch) -> None:
    """Let every array be too small, and every call end early, and compute as for large counts."""
    for module in (layout, ranking, walking):
        monkeypatch.setattr(module, "WORK_PER_CALL", 3)
    for module, name, value in (
        (walking, "_FEW_EVENTS", 1), (walking, "_ITEMS_PER_BLOCK", 2), (walking, "_RUN", 2),
        (walking, "_STRETCH", 2), (walking, "FEW", 2), (ranking, "_FEW_EVENTS", 1), (ranking, "SMALL", 1),
        (ranking, "FEW", 2), (layout, "_FEW", 0), (places, "_FEW", 0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


# --- anchored sequences ----------------------------------------------------------------------------------


def layout_of(case: AnchoredCase, rows: list[dict]) -> AnchoredLayout:
    return AnchoredLayout(*graph_and(case.query(), as_frame(rows), anchored_graph_of))


def anchored_case(shape: int, seed: int) -> tuple[AnchoredCase, list[dict], Random]:
    """Return a query, a stream and further random values; most cases have matches, none has very many."""
    for attempt in range(10):
        values = Random(f"values {shape} {seed} {attempt}")
        case = drawn_anchored(Random(f"shape {shape}"), values)
        rows = drawn_rows(values, values.choice([5, *range(11, 17)]))
        while (n_matches := len(case.matches(rows))) > 1000:
            rows = rows[:-2]
        if n_matches > 1 or seed % 10 == 3:
            break
    return case, rows, values


def check_anchored(case: AnchoredCase, rows: list[dict], values: Random) -> int:
    expected, own = in_row(case, rows), layout_of(case, rows)
    of_end = Counter(positions[-1] for positions, _ in expected)
    counter, counts = AnchoredCounter(own), AnchoredCounter(own).by_place()
    assert as_list(counts) == [of_end[position] for position in own.places.position_of_place.tolist()]
    assert counter.total() == len(expected)
    check_walk(AnchoredWalk(own), counts, expected, len(rows), values)
    return len(expected)
