"""Anchored sequences, as their engine takes them, and the comparison of its answers with the definition."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from cepkit.compile.counting.state_graph import anchored_graph_of
from cepkit.compile.sequences.program import compile_sequence
from cepkit.engines.counting.anchored import AnchoredCounter, AnchoredLayout, AnchoredWalk
from cepkit.engines.shared.kernels import accepted
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from tests.oracle.generate_anchored import AnchoredCase, drawn_anchored
from tests.oracle.generate_paths import as_frame, drawn_rows


def in_row(case: AnchoredCase, rows: list[dict]) -> list[tuple[tuple, tuple]]:
    """Return (positions, components) of all matches in canonical order."""
    found = case.matches(rows)
    components = [[(c,) * len(own) for c, (_, own) in enumerate(match.events)] for match in found]
    return [(match.rows, sum(own, ())) for match, own in zip(found, components, strict=True)]


def plain(block: MatchBlock) -> list[tuple[tuple, tuple]]:
    bounds = block.first_item_of_match.tolist()
    events, components = block.event_of_item.tolist(), block.component_of_item.tolist()
    return [(tuple(events[i:j]), tuple(components[i:j])) for i, j in pairwise(bounds)]


def layout_of(case: AnchoredCase, rows: list[dict]) -> AnchoredLayout:
    source = PandasSource(as_frame(rows))
    program = compile_sequence(case.query(), source.schema)
    graph = anchored_graph_of(program, program.branches[0])
    assert not isinstance(graph, str), graph
    places = Places(program, build_events(source, program))
    return AnchoredLayout(graph, places, accepted(places))


def case_of(shape: int, seed: int) -> tuple[AnchoredCase, list[dict], Random]:
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


def check(case: AnchoredCase, rows: list[dict], values: Random) -> int:
    expected = in_row(case, rows)
    layout = layout_of(case, rows)
    counter, walk = AnchoredCounter(layout), AnchoredWalk(layout)
    of_end = Counter(positions[-1] for positions, _ in expected)
    wanted = [of_end[position] for position in layout.places.position_of_place.tolist()]
    counts = counter.by_place()
    assert [int(n) for n in counts] == wanted
    assert counter.total() == len(expected)
    for size in (
        (1, 3, values.randint(4, 40), 10**9) if len(expected) < 200 else (values.randint(4, 40), 10**9)
    ):
        blocks = list(walk.blocks(size))
        assert plain(joined(blocks)) == expected
        assert all(0 < len(block) <= size for block in blocks)
    low, high = sorted(values.randint(0, len(rows)) for _ in range(2))
    assert plain(walk.ending(low, high)) == [match for match in expected if low <= match[0][-1] < high]
    numbers = list(range(len(expected)))
    drawn = sorted(values.sample(numbers, min(6, len(numbers))))
    for chosen in (drawn, drawn[::-1], values.choices(numbers, k=3) if numbers else []):
        assert plain(walk.take(chosen, counts)) == [expected[number] for number in chosen]
    for n in (0, 1, 4, len(expected) + 1):
        sample = plain(walk.sample(min(n, 30), values.randint(0, 99), counts))
        assert len(sample) == min(n, 30, len(expected)) == len(set(sample))
    with pytest.raises(IndexError, match="no match has the number"):
        walk.take([len(expected)], counts)
    return len(expected)
