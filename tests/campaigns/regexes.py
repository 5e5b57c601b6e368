"""Regex queries on many streams: the engine in both tiers, and streams in batches with several threads."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

import cepkit as cep
from tests.campaigns.streams import Answer, Streams, streams_of
from tests.campaigns.tally import NeedsCompilationError, Tally, cuts_of, tier_of
from tests.oracle import generate, naive

LANGUAGE = "regex"
# The order of texts is unknown while a stream is open, so their columns are categories in the usual order.
TEXTS = pd.CategoricalDtype(
    sorted({*generate.TEXTS, *filter(None, generate.KEYS), "a", "z", ""}), ordered=True
)


def check_regex(seed: int, n_streams: int, tally: Tally, *, compiled: bool) -> None:
    """Compare one random query on random streams."""
    case, source = generate.case(seed, n_events=0), Random(f"regex {seed}")
    nulls = source.random() < 0.75
    rows_of = {}
    for number in range(n_streams):
        own = Random(f"regex {seed} {number}")
        n_keys = own.randint(1, 2) if case.partition_by else 1
        rows_of[number] = generate.stream(own, own.choice([1, 2, 3, 3, 4, 4, 5, 6, 7, 9]), n_keys, nulls)
    streams = streams_of(rows_of, generate.DTYPE_OF_COLUMN, source, in_blocks=False)
    options = {"params": dict(case.params), "within": case.within, "within_closed": case.within_closed}
    with_labels = source.random() < 0.25
    expected = {}
    for number, rows in rows_of.items():
        expected[number] = _defined(case, rows, options, with_labels=with_labels)
    keywords = {**options, "params": dict(case.params) or None, "partition_by": ["p", *case.partition_by]}
    keywords["order_by"] = ["t", "n"] if source.random() < 0.3 else "t"
    tally.add(LANGUAGE, [*expected.values()])
    tier, inside = tier_of(compiled)

    def say(number: int) -> str:
        asked = f"{case.pattern}\n{dict(case.define)}\n{keywords}"
        return f"check_regex({seed}, {n_streams}), stream {number}\n{asked}\n{rows_of[number]}"

    with warnings.catch_warnings(), inside:
        warnings.simplefilter("ignore", cep.CepWarning)
        query = cep.regex_query(case.pattern, define=dict(case.define), **keywords)
        ways = ["frame", "table in another order"]
        if compiled:  # a stream has no interpreter
            ways += ["stream", "stream", "stream, saved", "stream, threads", "stream, threads"]
        for way in ways:
            n_divided = None
            try:
                if way == "frame":
                    matches = cep.match(streams.frame, query)
                    found, n_counted = matches.to_frame("all"), matches.count()
                    if n_counted != sum(map(len, expected.values())):
                        tally.fail(LANGUAGE, "count", tier, f"{n_counted} matches\n{say(0)}")
                elif way == "table in another order":
                    query_of_rows = replace(query, order_by=("t", "n"))
                    found = cep.match(streams.shuffled(), query_of_rows).to_frame("all").to_pandas()
                else:
                    found, n_divided = _streamed(query, streams, source, way)
            except (NeedsCompilationError, cep.UnsupportedQueryError):
                tally.not_run[LANGUAGE, way, tier] += 1
                continue
            made = streams.split(found["match"], found["variable"], found["n"])
            if not with_labels:
                made = {number: [((), rows) for _, rows in own] for number, own in made.items()}
            tally.compare(LANGUAGE, way, tier, expected, made, say, n_divided)


def _defined(case: generate.Case, rows: Any, options: Any, *, with_labels: bool) -> list[Answer]:
    """Return the matches of a stream by definition."""
    found = naive.matches(
        case.pattern, case.define, rows, partition_by=case.partition_by, order_by="t", **options
    )
    if not with_labels:
        return [((), match) for match in found]
    made = []
    for match in found:
        key = [naive.without_nan(rows[match[0]][name]) for name in case.partition_by]
        own = [
            i for i, row in enumerate(rows)
            if [naive.without_nan(row[name]) for name in case.partition_by] == key
        ]  # fmt: skip
        partition, first, last = [rows[i] for i in own], own.index(match[0]), own.index(match[-1])
        labels = naive.labels(case.pattern, case.define, partition, first, last, params=options["params"])
        made.append((tuple(labels), match))
    return made


def _streamed(query: Any, streams: Streams, source: Random, way: str) -> tuple[pd.DataFrame, int]:
    """Return what a stream gives for random batches, and how many streams the batches divide."""
    threads = source.choice([2, 3]) if way == "stream, threads" else 1
    frame = streams.frame.astype({"s": TEXTS, "k": TEXTS})
    pulse_every = source.choice([1, 50])
    stream = cep.stream(query, frame.head(0), rows="all", threads=threads, pulse_every=pulse_every)
    bounds = cuts_of(source, streams.n_rows, 12)
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for begin, end in bounds:
            made.append(stream.push(frame.iloc[begin:end]))
            if way == "stream, saved" and source.random() < 0.4:
                made.append(stream.flush())
                stream.save(Path(folder) / "state")
                stream = cep.stream.load(Path(folder) / "state")
        made.append(stream.close())
    return pd.concat([part for part in made if len(part)] or made[-1:]), streams.n_divided(bounds)
