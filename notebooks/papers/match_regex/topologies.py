"""The parallel topologies of "Partition and Compose", figures 7 and 8, with real threads over open streams.

Split, replicas and merge run at the same time and pass batches on, as they would between machines. The module
shows order and liveness; `scaling` measures and simulates speed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import blake2b
from queue import Queue

import numpy as np
import pandas as pd

from cepkit.compile.regex_program import Program
from cepkit.compile.shared.bound_query import Inputs
from cepkit.engines.regex import advance, match_regex
from cepkit.streaming.replicas import OrderedMerge
from papers.match_regex.benchmark_runs import BENCHMARKS, Benchmark, compile_benchmark
from papers.match_regex.benchmarks import data_named, parse_tweets
from papers.match_regex.operators import tag_sets

PULSE_EVERY = 2_000  # events
_BATCHES_IN_QUEUE = 4  # per replica, at most
Match = tuple[int, int]  # positions of the first and last event in the stream


@dataclass(frozen=True, slots=True)
class Merged:
    """The output of a merge."""

    matches: list[Match]  # in the order of their release
    longest_wait: int  # most events that the split sent between the last event of a match and its release


def topologies(
    widths: Iterable[int] = (1, 2, 4), *, repetitions: int = 4, data: str = "seed 0"
) -> pd.DataFrame:
    """Run the topologies of figures 7 and 8, and compare their matches with those of one replica."""
    # Source: Hirzel, "Partition and Compose", DEBS 2012, section 3.3, figures 7 and 8, and section 4.
    # Differs: the split sends pulses in batches with the events.
    rows = []
    finance, twitter = BENCHMARKS["finance1"], twitter1_hashed()
    trades = finance.prepared(data_named(finance, repetitions, data))
    tweets = data_named(twitter, repetitions, data)
    expected = {
        "figure 7": _match_alone(finance, trades),
        "figure 8": _match_alone(twitter, twitter.prepared(tweets)),
    }
    for width in widths:
        runs = {
            "figure 7": (finance, split_and_merge(finance, trades, width)),
            "figure 8": (twitter, shuffle_and_merge(twitter, tweets, width)),
        }
        for figure, (benchmark, merged) in runs.items():
            rows.append(
                {
                    "figure": figure,
                    "benchmark": benchmark.name,
                    "width": width,
                    "matches": len(merged.matches),
                    "same_matches": sorted(merged.matches) == sorted(expected[figure]),
                    "same_order": merged.matches == expected[figure],
                    "longest_wait": merged.longest_wait,
                    "bound": longest_wait_bound(figure, width),
                }
            )
    return pd.DataFrame(rows).set_index(["figure", "width"]).sort_index()


def longest_wait_bound(figure: str, width: int) -> int:
    """Return the most events by which the split can be ahead of the merge."""
    # These are the events of one pulse, of the batches in queues and in replicas, and of the batch that the
    # split is about to send.
    to_match = _BATCHES_IN_QUEUE + 1
    batches = to_match + 1 if figure == "figure 7" else width * (_BATCHES_IN_QUEUE + to_match) + 2
    return PULSE_EVERY * (batches + 1)


def twitter1_hashed() -> Benchmark:
    """Return twitter1 on a hash of the tags, because parallel parsers cannot share running numbers."""
    define = {
        "same": "tag_hash == first(tag_hash)",
        "same_5th": "count() == :n and tag_hash == first(tag_hash)",
    }
    stages = (parse_tweets, with_tag_hash)
    return replace(BENCHMARKS["twitter1"], name="twitter1", define=define, measures=None, stages=stages)


def with_tag_hash(frame: pd.DataFrame) -> pd.DataFrame:
    """Return tweets with ``tag_hash``, a hash of 63 bits, equal for equal sets of tags on every machine."""
    return frame.assign(tag_hash=[_hash(" ".join(tags)) for tags in tag_sets(frame["content"])])


def replica_of_key(keys: Iterable[str], width: int) -> np.ndarray:
    """Return the replica of each key by its hash, int64, the same on every machine."""
    return np.array([_hash(key) % width for key in keys], dtype=np.int64)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def _match_alone(benchmark: Benchmark, frame: pd.DataFrame) -> list[Match]:
    found = match_regex(*compile_benchmark(benchmark, frame), threads=1, tier="compiled")
    return list(zip(found.first.tolist(), found.last.tolist(), strict=True))


class TopologyReplica:
    """A MatchRegex operator over part of an open stream."""

    def __init__(self, program: Program, inputs: Inputs):
        self.kernel = program.matching(inputs)
        self.state = self.kernel.new_state(1)
        self.positions = np.empty(0, np.int64)  # in the stream, for all events so far

    def matches(self, partition: np.ndarray, inputs: Inputs, positions: np.ndarray) -> list[Match]:
        """Advance over a batch and return the matches that end in it, ordered by their last event."""
        if not len(positions):
            return []
        self.state.add_partitions(int(partition.max()) + 1)
        seen = len(self.positions)
        self.positions = np.concatenate([self.positions, positions])
        first, last = advance(self.kernel, self.state, partition, inputs, seen)
        return list(zip(self.positions[first].tolist(), self.positions[last].tolist(), strict=True))


class _TweetReplica:
    """A MatchRegex operator that numbers the authors in the order of their first tweet."""

    def __init__(self, benchmark: Benchmark):
        self.benchmark = benchmark
        self.replica: TopologyReplica | None = None
        self.number_of_author: dict[str, int] = {}

    def matches(self, tweets: pd.DataFrame, positions: np.ndarray) -> list[Match]:
        if tweets.empty:
            return []
        program, events = compile_benchmark(self.benchmark, tweets)
        inputs = program.inputs(events.columns)
        self.replica = self.replica or TopologyReplica(program, inputs)
        number = self.number_of_author
        partition = [number.setdefault(author, len(number)) for author in tweets["author"]]
        return self.replica.matches(np.array(partition, dtype=np.int32), inputs, positions)


class _Merge:
    """The ordered merge after replicas on threads. It records the longest wait of a match."""

    def __init__(self, n_replicas: int):
        self._merge: OrderedMerge[Match] = OrderedMerge(n_replicas)
        self._lock = threading.Lock()
        self.sent = 0  # events that the split has sent so far
        self.released: list[Match] = []
        self.longest_wait = 0

    def take(self, replica: int, matches: list[Match], pulse: int) -> None:
        with self._lock:
            for match in matches:
                self._merge.offer(replica, match[1], match)
            self._merge.pulse(replica, pulse)
            for match in self._merge.release():
                self.longest_wait = max(self.longest_wait, self.sent - match[1])
                self.released.append(match)


def _batches(queue: Queue) -> Iterator[tuple]:
    """Yield the batches of a queue until None. When closed early, drop the rest so that no sender blocks."""
    batch: tuple | None = ()
    try:
        while (batch := queue.get()) is not None:
            yield batch
    finally:
        while batch is not None:
            batch = queue.get()


def split_and_merge(benchmark: Benchmark, frame: pd.DataFrame, width: int) -> Merged:
    """Run figure 7: split by the hash of the key, ``width`` replicas, ordered merge with pulses."""
    program, events = compile_benchmark(benchmark, frame)
    inputs = program.inputs(events.columns)
    codes, keys = pd.factorize(frame[benchmark.partition_by])
    replica_of_event = replica_of_key(map(str, keys), width)[codes]
    queues = [Queue(_BATCHES_IN_QUEUE) for _ in range(width)]
    merge = _Merge(width)

    def replicate(r: int) -> None:
        replica = TopologyReplica(program, inputs)
        with closing(_batches(queues[r])) as incoming:
            for positions, pulse in incoming:
                columns = {name: values[positions] for name, values in inputs.columns.items()}
                partition = events.partition_of_event[positions]
                merge.take(r, replica.matches(partition, inputs.with_columns(columns), positions), pulse)

    with ThreadPoolExecutor(width) as pool:
        running = [pool.submit(replicate, r) for r in range(width)]
        for start in range(0, events.n_events, PULSE_EVERY):
            stop = min(start + PULSE_EVERY, events.n_events)
            merge.sent = stop
            for r in range(width):
                positions = start + np.flatnonzero(replica_of_event[start:stop] == r)
                queues[r].put((positions, stop - 1))
        for queue in queues:
            queue.put(None)
        for future in running:
            future.result()
    return Merged(merge.released, merge.longest_wait)


def shuffle_and_merge(benchmark: Benchmark, frame: pd.DataFrame, width: int) -> Merged:
    """Run figure 8: parse batches in turn, shuffle the tweets by author, match, merge."""
    # ``width`` replicas parse and ``width`` others match. A matching replica sorts the batches of all parsers
    # by number, with the same ordered merge.
    to_parse = [Queue(_BATCHES_IN_QUEUE) for _ in range(width)]
    to_match = [Queue(_BATCHES_IN_QUEUE * width) for _ in range(width)]
    merge = _Merge(width)

    parsing, lock = set(range(width)), threading.Lock()

    def parse(r: int) -> None:
        try:
            with closing(_batches(to_parse[r])) as incoming:
                for number, start, part in incoming:
                    parsed = benchmark.prepared(part)
                    replica_of_event = replica_of_key(parsed["author"].astype(str), width)
                    for m in range(width):
                        rows = np.flatnonzero(replica_of_event == m)
                        batch = (start + rows, start + len(part) - 1, parsed.take(rows))
                        to_match[m].put((r, number, batch))
        finally:
            with lock:
                parsing.discard(r)
                is_last = not parsing
            for queue in to_match if is_last else ():
                queue.put(None)

    def replicate(m: int) -> None:
        operator = _TweetReplica(benchmark)
        in_order: OrderedMerge[tuple] = OrderedMerge(width)
        with closing(_batches(to_match[m])) as incoming:
            for parser, number, batch in incoming:
                in_order.offer(parser, number, batch)
                for positions, pulse, tweets in in_order.release():
                    merge.take(m, operator.matches(tweets, positions), pulse)
        for parser in range(width):  # no parser sends any more
            in_order.pulse(parser, len(frame))
        for positions, pulse, tweets in in_order.release():
            merge.take(m, operator.matches(tweets, positions), pulse)

    with ThreadPoolExecutor(2 * width) as pool:
        running = [pool.submit(work, r) for work in (parse, replicate) for r in range(width)]
        for number, start in enumerate(range(0, len(frame), PULSE_EVERY)):
            part = frame.iloc[start : start + PULSE_EVERY]
            merge.sent = start + len(part)
            to_parse[number % width].put((number, start, part))
        for queue in to_parse:
            queue.put(None)
        for future in running:
            future.result()
    return Merged(merge.released, merge.longest_wait)
