"""Random sequence queries, each on many streams in one frame."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pandas as pd

import cepkit as cep
from cepkit.language.sequences import patterns as sq
from tests.campaigns.streams import Answer, Mixed, lineage_of, mixed, pushed, same
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import canonical, sequence_matches

MOST_CANDIDATES = 300  # of a stream


def answer(seed: int, n_streams: int) -> Answer:
    """Compare a query of one of the families."""
    family = [*gs.FAMILIES][seed % len(gs.FAMILIES)]
    case, random = gs.case(seed, seed, family), Random(f"streams {seed}")
    query = case.query
    nulls, extra_types = random.random() < 0.75, random.choice([0, 1, 1])
    streams = [_stream(random, query, nulls, extra_types) for _ in range(n_streams)]
    together = mixed(random, streams, in_turn=_looks_between(query))
    if isinstance(query.complete_until, int):
        query = replace(query, complete_until=together.last_time + random.randint(-6, 12))
    asked = replace(query, partition_by=("u", *query.partition_by))
    found = cep.match(_frame(together), asked)

    # The data of all streams are complete until the last of their times.
    until = together.last_time if query.complete_until is None else query.complete_until
    query = replace(query, complete_until=until)
    expected, n_with_match = [], 0
    for stream, places in zip(together.streams, together.places, strict=True):
        matches = sequence_matches(query, stream)
        n_with_match += bool(matches)
        for match in matches:
            events = tuple((name, tuple(places[row] for row in rows)) for name, rows in match.events)
            expected.append(replace(match, events=events))
    expected.sort(key=lambda match: canonical(match, query.variables))
    same(found.count(), len(expected), "count")
    wanted = [sorted((row, name) for name, rows in match.events for row in rows) for match in expected]
    same(lineage_of(found), wanted, "matches")
    same(len(found.to_frame(limit=None)), len(expected), "rows")
    if seed // len(gs.FAMILIES) % 4 == 0 and not query.ends_greedily:
        if isinstance(query.complete_until, int):  # a stream knows the last time that it has seen
            asked = replace(asked, complete_until=max(query.complete_until, together.last_time))
        frame = _frame(together).sort_values("t", kind="stable", ignore_index=True)
        pushed(random, frame, asked, cep.match(frame, asked))
    return Answer(n_streams, n_with_match)


def _frame(together: Mixed) -> pd.DataFrame:
    return gs.to_frame(together.rows).assign(u=[row["u"] for row in together.rows])


def _stream(random: Random, query: sq.SequenceQuery, nulls: bool, extra_types: int) -> list:
    """Return a stream without an explosion of matches."""
    most = 10
    while True:
        size = random.choice([0, 2, *range(3, most + 1)]) + 2 * bool(query.partition_by)
        stream = gs.stream(
            random, query, size, 1 + bool(query.partition_by), nulls=nulls, extra_types=extra_types
        )
        if gs.n_candidates(gs.Case(query, stream)) <= MOST_CANDIDATES:
            return stream
        most -= most > 3


def _looks_between(query: sq.SequenceQuery) -> bool:
    """Return whether rows of other partitions between two events matter."""
    nodes = [*query.pattern.walk()]
    steps = [step for node in nodes if isinstance(node, sq.SequenceOf) for step in node.steps]
    steps += [node.inner for node in nodes if isinstance(node, sq.Loop)]
    return "strict" in (query.strategy, *steps)
