"""Queries that are counted, as engines take them, and the comparison of their counts with the definition."""

from __future__ import annotations

import random
from collections import Counter

import pandas as pd

from cepkit.compile.counting.state_graph import state_graph_of
from cepkit.compile.sequences.program import compile_sequence
from cepkit.engines.counting.engine import counter_of
from cepkit.engines.shared.kernels import accepted
from cepkit.engines.shared.places import Places
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences.query import SequenceQuery
from tests.oracle.generate_paths import Case, as_frame, drawn_case, drawn_rows
from tests.oracle.naive_sequences import SequenceMatch


def prepared(query: SequenceQuery, frame: pd.DataFrame):
    """Return program, events, places and which places are accepted."""
    source = PandasSource(frame)
    program = compile_sequence(query, source.schema)
    events = build_events(source, program)
    places = Places(program, events)
    return program, events, places, accepted(places)


def graph_and(query: SequenceQuery, frame: pd.DataFrame):
    program, _, places, accept = prepared(query, frame)
    graph = state_graph_of(program, program.branches[0])
    assert not isinstance(graph, str), graph
    return graph, places, accept


def as_list(numbers) -> list[int]:
    return [int(number) for number in numbers]


def counts_of(matches: list[SequenceMatch], n: int) -> list[int]:
    """Return the numbers of matches by the position of their last event."""
    of = Counter(match.rows[-1] for match in matches)
    return [of[position] for position in range(n)]


def check_counts(drawn: Case, rows: list[dict]) -> int:
    graph, places, accept = graph_and(drawn.query(), as_frame(rows))
    counter = counter_of(graph, places, accept)
    expected = counts_of(_matches(drawn, rows), len(rows))
    assert as_list(counter.by_place()) == [expected[p] for p in places.position_of_place.tolist()]
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
