"""Sequence queries on many streams: every engine that runs them, in both tiers, and streams in batches."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

import cepkit as cep
from cepkit.compile.sequences.program import compile_sequence
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import engines
from tests.campaigns.streams import Answer, Streams, streams_of
from tests.campaigns.tally import NeedsCompilationError, Tally, cuts_of, tier_of
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches

LANGUAGE = "sequences"
NAMED = ("linked", "sase_runs", "siddhi_like_runs", "tree")  # engines that run only when they are named
MOST_CANDIDATES = 200  # matches that types, keys and windows of a stream allow


def check_sequences(
    seed: int,
    n_streams: int,
    tally: Tally,
    *,
    compiled: bool,
    family: str | None = None,
    drawn: SequenceQuery | None = None,
) -> None:
    """Compare one random query, or the one that is given, on random streams."""
    source = Random(f"sequences {seed}")
    family = family or source.choice([*gs.FAMILIES])
    drawn = drawn or gs.case(seed, seed, family, n_events=0).query
    streams, query = _streams_of_query(seed, drawn, n_streams, source)
    expected = {
        number: [_plain(match) for match in sequence_matches(drawn, rows)]
        for number, rows in streams.rows_of.items()
    }
    tier, inside = tier_of(compiled)

    def say(number: int) -> str:
        return (
            f"check_sequences({seed}, {n_streams}, family={family!r}), stream {number}\n{query!r}\n"
            f"{streams.rows_of[number]}"
        )

    with warnings.catch_warnings(), inside:
        warnings.simplefilter("ignore", cep.CepWarning)
        try:
            query = cep.sequence_query(query)
        except CepError:
            tally.not_run[LANGUAGE, "refused by the language", tier] += 1
            return
        tally.add(LANGUAGE, [*expected.values()])
        for way, run, in_order in _ways(query, streams, source):
            try:
                found, n_counted = run()
            except (NeedsCompilationError, UnsupportedQueryError):
                tally.not_run[LANGUAGE, way, tier] += 1
                continue
            except Exception as error:
                tally.fail(LANGUAGE, way, tier, f"{error!r}\n{say(0)}")
                continue
            made = streams.split(found["match"], found["variable"], found["n"])
            wanted = expected
            if not in_order:
                made, wanted = ({n: sorted(own) for n, own in of.items()} for of in (made, expected))
            tally.compare(LANGUAGE, way, tier, wanted, made, say, n_counted)


def _streams_of_query(
    seed: int, query: SequenceQuery, n_streams: int, source: Random
) -> tuple[Streams, SequenceQuery]:
    """Return random streams for a query, and the query with the stream as a key."""
    nulls, extra_types = source.random() < 0.75, source.choice([0, 1, 1])
    rows_of = {}
    for number in range(n_streams):
        own = Random(f"sequences {seed} {number}")
        n_keys = own.randint(1, 2) if query.partition_by else 1
        n_events = own.choice([1, 2, 3, 3, 4, 4, 5, 5, 6, 8])
        rows = gs.stream(own, query, n_events, n_keys, nulls=nulls, extra_types=extra_types)
        while gs.n_candidates(gs.Case(query, rows)) > MOST_CANDIDATES:
            rows.pop()
        rows_of[number] = rows
    strict = query.strategy == "strict" or _is_strict(query.pattern)
    streams = streams_of(rows_of, gs.DTYPE_OF_COLUMN, source, in_blocks=strict)
    return streams, replace(query, partition_by=("p", *query.partition_by))


def _is_strict(pattern: sq.SequencePattern) -> bool:
    return any(
        (isinstance(node, sq.Loop) and node.inner == "strict")
        or (isinstance(node, sq.SequenceOf) and "strict" in node.steps)
        for node in pattern.walk()
    )


def _plain(match: Any) -> Answer:
    items = [(variable, row) for variable, rows in match.events for row in rows]
    return tuple(variable for variable, _ in items), tuple(row for _, row in items)


Run = Callable[[], tuple[pd.DataFrame, int | None]]


def _ways(query: SequenceQuery, streams: Streams, source: Random) -> Iterator[tuple[str, Run, bool]]:
    """Yield the ways to run a query: a name, a function, and whether the matches are in order.

    The function returns the matched rows, and the number of streams that it compares if it is not all.
    """
    program = compile_sequence(query, PandasSource(streams.frame).schema)
    automatic = [name for name, engine in engines().items() if engine.run is not None and engine.automatic]
    for name in automatic:
        if engines()[name].unsupported(program) is None:
            yield name, _matched(query, streams, name), True
    yield "table in another order", _in_another_order(query, streams), True
    yield "stream", _streamed(query, streams, source, saved=False), True
    if source.random() < 0.5:
        yield "stream, saved", _streamed(query, streams, source, saved=True), True
    for name in NAMED:
        if source.random() < 0.5 and engines()[name].unsupported(program) is None:
            yield name, _matched(query, streams, name), True
    if query.strategy == "any" and source.random() < 0.25:
        values = (
            ("Hybrid", cep.Hybrid(threads=source.choice([8, 12]))),
            ("DataParallel", cep.DataParallel(threads=source.choice([1, 3]))),
            ("RIP", cep.RIP(threads=source.choice([1, 3]))),
            ("Sequential", cep.Sequential()),
        )
        for name, value in source.sample(values, 2):
            yield name, _matched(query, streams, value), True
    if source.random() < 0.25:
        nodes = cep.ScatterGather(
            nodes=source.randint(1, 6), layout=source.choice(["states", "keys", "replicated", "grouped"])
        )
        yield "ScatterGather", _matched(query, streams, nodes), True
    if source.random() < 0.25:
        yield "stream, shedding, no load", _bounded(query, streams, source), False
    if source.random() < 0.25:
        yield "stream after K-Slack", _slackened(query, streams, source), True


def _matched(query: SequenceQuery, streams: Streams, engine: Any) -> Run:
    def run() -> tuple[pd.DataFrame, None]:
        matches = cep.match(streams.frame, query, engine=engine)
        n_matches = matches.count()
        found = matches.to_frame("all")
        n_listed = found["match"].nunique()
        if n_matches != n_listed:
            raise AssertionError(f"count() is {n_matches}, and the list has {n_listed} matches")
        return found, None

    return run


def _in_another_order(query: SequenceQuery, streams: Streams) -> Run:
    def run() -> tuple[pd.DataFrame, None]:
        ordered = replace(query, order_by=("t", "n"))
        return cep.match(streams.shuffled(), ordered).to_frame("all").to_pandas(), None

    return run


def _streamed(query: SequenceQuery, streams: Streams, source: Random, *, saved: bool) -> Run:
    seed = source.random()

    def run() -> tuple[pd.DataFrame, int]:
        own = Random(seed)
        stream = cep.stream(query, streams.frame.head(0), rows="all")
        bounds = cuts_of(own, streams.n_rows, own.choice([4, 4, 4, 15]))
        made = []
        with tempfile.TemporaryDirectory() as folder:
            for begin, end in bounds:
                made.append(stream.push(streams.frame.iloc[begin:end]))
                if saved and own.random() < 0.5:
                    stream.save(Path(folder) / "state")
                    stream = cep.stream.load(Path(folder) / "state")
            made.append(stream.close())
        return _joined(made), streams.n_divided(bounds)

    return run


def _bounded(query: SequenceQuery, streams: Streams, source: Random) -> Run:
    """Return a run as a stream with a latency bound that is never in danger, so it drops nothing."""
    seed, strategy = source.random(), source.choice(["none", "random", "darling"])

    def run() -> tuple[pd.DataFrame, int]:
        own = Random(seed)
        stream = cep.stream(
            query, streams.frame.head(0), rows="all", latency_bound=1e6, warm_up=own.choice([1, 20]),
            shedding=cep.Darling() if strategy == "darling" else strategy,
            clock=cep.shedding.VirtualClock(),
        )  # fmt: skip
        bounds = cuts_of(own, streams.n_rows, 4)
        made = [stream.push(streams.frame.iloc[begin:end]) for begin, end in bounds]
        made += [stream.flush(), stream.close()]
        assert stream.shedding.n_dropped == 0, "the stream dropped events"
        return _joined(made), streams.n_divided(bounds)

    return run


def _slackened(query: SequenceQuery, streams: Streams, source: Random) -> Run:
    """Return a run as a stream after a buffer. Rows come late by at most the slack of the buffer."""
    seed = source.random()

    def run() -> tuple[pd.DataFrame, int]:
        own, frame = Random(seed), streams.frame
        times = frame["t"].tolist()
        first = times[0]
        arrival = sorted(range(len(times)), key=lambda row: times[row] - first + own.random() * 5)
        late = frame.iloc[arrival]
        ordered = replace(query, order_by=("t", "n"))
        stream = cep.stream([cep.KSlack(6, order_by="t"), ordered], frame.head(0), rows="all")
        bounds = cuts_of(own, len(late), 4)
        made = [stream.push(late.iloc[begin:end]) for begin, end in bounds]
        made += [stream.finish(), stream.close()]
        return _joined(made), streams.n_divided(bounds)

    return run


def _joined(made: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([part for part in made if len(part)] or made[-1:])
