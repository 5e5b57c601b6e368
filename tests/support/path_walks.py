"""Walks over the paths of a graph, compared with all paths by the definition."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pandas as pd
import pytest

from cepkit.compile.counting.state_graph import state_graph_of
from cepkit.compile.sequences.program import compile_sequence
from cepkit.engines.counting import layout, ranking, walking
from cepkit.engines.counting.layout import Layout
from cepkit.engines.counting.walking import PathWalk
from cepkit.engines.search import search_sequence
from cepkit.engines.shared import places
from cepkit.engines.shared.kernels import accepted
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences.query import SequenceQuery
from tests.oracle.generate_paths import Case, as_frame


def in_row(case: Case, rows: list[dict]) -> list[tuple[tuple, tuple]]:
    """Return (positions, components) of all matches in canonical order."""
    found = case.matches(rows)
    components = [[(c,) * len(own) for c, (_, own) in enumerate(match.events)] for match in found]
    return [(match.rows, sum(own, ())) for match, own in zip(found, components, strict=True)]


def walk_of(query: SequenceQuery, frame: pd.DataFrame):
    source = PandasSource(frame)
    program = compile_sequence(query, source.schema)
    events = build_events(source, program)
    places = Places(program, events)
    graph = state_graph_of(program, program.branches[0])
    assert not isinstance(graph, str), graph
    return PathWalk(Layout(graph, places, accepted(places))), program, events


def plain(block: MatchBlock) -> list[tuple[tuple, tuple]]:
    bounds = block.first_item_of_match.tolist()
    events, components = block.event_of_item.tolist(), block.component_of_item.tolist()
    return [(tuple(events[i:j]), tuple(components[i:j])) for i, j in pairwise(bounds)]


def counts_of(walk: PathWalk, matches: list, kind: str):
    counts = [0] * walk.places.n
    for positions, _ in matches:
        counts[int(walk.places.place_of_position[positions[-1]])] += 1
    return counts if kind == "list" else np.array(counts, np.uint64)


def check(case: Case, rows: list[dict], values: Random, *, searched: bool = False) -> int:
    expected = in_row(case, rows)
    walk, program, events = walk_of(case.query(), as_frame(rows))
    sizes = [1, 2, 3, values.randint(4, 40), 10**9]
    for size in sizes if len(expected) < 200 else sizes[3:]:
        blocks = list(walk.blocks(size))
        assert plain(joined(blocks)) == expected
        assert all(0 < len(block) <= size for block in blocks)
    low, high = sorted(values.randint(0, len(rows)) for _ in range(2))
    assert plain(walk.ending(low, high)) == [match for match in expected if low <= match[0][-1] < high]
    counts = counts_of(walk, expected, values.choice(["list", "array"]))
    numbers = list(range(len(expected)))
    assert plain(walk.take(numbers, counts)) == expected
    for number in values.sample(numbers, min(8, len(numbers))):
        assert plain(walk.take([number], counts)) == [expected[number]]
    mixed = values.choices(numbers, k=10) if numbers else []
    assert plain(walk.take(mixed, counts)) == [expected[number] for number in mixed]
    cut = numbers[values.randint(0, 5) : values.randint(5, 60)]
    assert plain(walk.take(cut, counts)) == [expected[number] for number in cut]
    for n in (0, 1, 4, len(expected) + 1):
        sample = plain(walk.sample(n, values.randint(0, 99), counts))
        assert len(sample) == min(n, len(expected)) == len(set(sample))
        assert sample == [match for match in expected if match in set(sample)]
    with pytest.raises(IndexError, match="no match has the number"):
        walk.take([len(expected)], counts)
    if searched:
        assert plain(joined([search_sequence(program, events).ending(0, len(rows))])) == expected
    return len(expected)


def tighten(monkeypatch) -> None:
    """Let every array be too small, and every call end early, and compute as for large counts."""
    for module in (layout, ranking, walking):
        monkeypatch.setattr(module, "WORK_PER_CALL", 3)
    monkeypatch.setattr(walking, "_FEW_EVENTS", 1)
    monkeypatch.setattr(walking, "_ITEMS_PER_BLOCK", 2)
    monkeypatch.setattr(walking, "_RUN", 2)
    monkeypatch.setattr(ranking, "_FEW_EVENTS", 1)
    monkeypatch.setattr(ranking, "SMALL", 1)
    monkeypatch.setattr(walking, "_STRETCH", 2)
    monkeypatch.setattr(layout, "_FEW", 0)
    monkeypatch.setattr(places, "_FEW", 0)
    monkeypatch.setattr(walking, "FEW", 2)
    monkeypatch.setattr(ranking, "FEW", 2)
