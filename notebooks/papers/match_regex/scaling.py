"""Speed-up by the number of replicas, figures 9 and 10, measured and simulated from costs.

`topologies` runs the topologies themselves.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise, repeat

import numpy as np
import pandas as pd

from cepkit.engines.regex import advance, match_regex
from papers.match_regex.benchmark_runs import (
    BENCHMARKS,
    VARIANTS,
    Benchmark,
    benchmarks_with_data,
    compile_benchmark,
    one_record_per_start,
)
from papers.match_regex.benchmarks import EVENTS_OF_BLOCK, parse_tweets
from papers.match_regex.topologies import replica_of_key, twitter1_hashed

_TWEETS = ("twitter0", "twitter1", "twitter2")
WIDTHS = (1, 2, 4, 8, 16, 32)
LONG_S = 1.0
LEAST_CONTROL = 1.6  # with a smaller speed-up of the control, the second core is busy
# Two parsers cannot share running numbers of sets, so twitter1 has hashes. twitter2 reads texts, as in the
# paper.
SCALED: Mapping[str, Benchmark] = BENCHMARKS | {
    "twitter1": twitter1_hashed(),
    "twitter2": VARIANTS["twitter2_texts"],
}
REPETITIONS: Mapping[str, int] = {"trades": 100, "tweets": 4}

# Speed-ups that the text of the paper prints for figures 9 (one machine) and 10 (four machines). It gives
# those of the tweets and of finance2 without a width; here they are at the largest. It gives those of the
# tweets without names, from the largest to the smallest; the names are those of table 6, in the same order.
PAPER_FIGURES = pd.DataFrame(
    [
        *(("figure 9", name, 8, gain) for name, gain in zip(_TWEETS, (6.5, 4.2, 3.8), strict=True)),
        ("figure 9", "finance5", 8, 2.9),
        ("figure 9", "finance3", 4, 2.1),
        ("figure 9", "finance2", 8, 0.9),
        *(("figure 10", name, 32, gain) for name, gain in zip(_TWEETS, (14.3, 11.0, 7.5), strict=True)),
        ("figure 10", "finance4", 32, 0.6),
    ],
    columns=["figure", "benchmark", "width", "speedup"],
)


# --- measured ---------------------------------------------------------------------------------------------


def speedup_measured(
    widths: Iterable[int] = (1, 2),
    *,
    repetitions: Mapping[str, int] = REPETITIONS,
    repeats: int = 5,
    names: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Measure the speed-up of each benchmark with several replicas on this machine."""
    # Replicas of MatchRegex are threads over blocks of keys. The time includes the split. Replicas of
    # ParseTweet, which is Python, are running processes. The time includes sending them the texts. VWAP and
    # MinMax run on one thread.
    rows = []
    benchmarks = list(benchmarks_with_data(names, repetitions))
    with ExitStack() as pools:
        parsers = {width: pools.enter_context(_parsers(width)) for width in widths}
        for benchmark, data in benchmarks:
            times = [
                [_seconds(benchmark, data, width, parse) for width, parse in parsers.items()]
                for _ in range(repeats + 1)  # in turn, so that other work on the machine slows all widths
            ]
            rows += zip(repeat(benchmark.name), parsers, np.min(times, axis=0), strict=False)
    table = pd.DataFrame(rows, columns=["benchmark", "width", "seconds"]).set_index(["benchmark", "width"])
    one = table["seconds"].xs(1, level="width")
    return table.assign(speedup=one.reindex(table.index.get_level_values(0)).to_numpy() / table["seconds"])


def _seconds(benchmark: Benchmark, data: pd.DataFrame, width: int, parse: Callable) -> float:
    started = time.perf_counter()
    frame = data
    for stage in benchmark.stages:
        frame = parse(frame) if stage is parse_tweets else stage(frame)
    if benchmark.pattern is not None:
        match_regex(*compile_benchmark(benchmark, frame), threads=width, tier="compiled")
    return time.perf_counter() - started


def speedup_of_control(repeats: int = 5, *, seconds: float = 0.2) -> float:
    """Return how much faster two threads are than one at work that needs nothing but a core."""
    # Both threads run a kernel that adds numbers and touches no memory, so nothing but a free second core
    # decides the result: 2 when there is one, and 1 when there is none. A measurement with two replicas says
    # nothing unless this control gains.
    from papers.match_regex.aggregates import count_up

    n = 1 << 20
    count_up(1)
    n = max(n, int(n * seconds / max(_wall(lambda: count_up(n)), 1e-9)))
    one, two = [], []
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(count_up, (1, 1)))
        for _ in range(repeats):
            one.append(_wall(lambda: [count_up(n), count_up(n)]))
            two.append(_wall(lambda: list(pool.map(count_up, (n, n)))))
    return min(one) / min(two)


def conclude(control: float, measured: pd.DataFrame) -> str:
    """Return what the speed-ups with two replicas say, given the speed-up of the control."""
    gain = f"The control gains a factor of {control:.2f} from the second core"
    if control < LEAST_CONTROL:
        return f"{gain}: nothing can be concluded on this machine."
    at_2 = measured["speedup"].xs(2, level="width")
    return f"{gain}; {', '.join(at_2.index[at_2 >= 1.2]) or 'no benchmark'} gains 1.2 or more."


def _wall(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@contextmanager
def _parsers(width: int) -> Iterator[Callable[[pd.DataFrame], pd.DataFrame]]:
    """Yield ParseTweet on ``width`` processes. Its first call starts them and is slow."""
    if width == 1:
        yield parse_tweets
        return
    with ProcessPoolExecutor(width, mp_context=multiprocessing.get_context("spawn")) as pool:

        def parse(frame: pd.DataFrame) -> pd.DataFrame:
            cuts = np.linspace(0, len(frame), width + 1).astype(int)
            parts = [frame[["xml"]].iloc[start:stop] for start, stop in pairwise(cuts)]
            parsed = list(pool.map(parse_tweets, parts))
            authors = pd.api.types.union_categoricals([part["author"] for part in parsed])
            return pd.concat(parsed, ignore_index=True).assign(author=authors)

        yield parse


# --- simulated --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalingCosts:
    """The measured costs of a benchmark by width, in seconds of CPU time of one thread."""

    # All work of each replica: its part of the parsing and shuffling, and the matching of its keys.
    of_replica: Mapping[int, np.ndarray]
    # The distribution of the events to replicas. It runs once, beside the replicas.
    split: Mapping[int, float]
    merge: float  # the ordering of the matches. It runs once, beside the replicas.


def measured_costs(
    benchmark: Benchmark,
    data: pd.DataFrame,
    widths: Iterable[int] = WIDTHS,
    *,
    as_in_paper: bool = False,
    repeats: int = 3,
) -> ScalingCosts:
    """Measure the work of each replica of a benchmark, alone on one thread."""
    # The stages of trades (VWAP and MinMax) run once, and each key gets its share of the time by its events.
    # A replica of ParseTweet takes every ``width``-th tweet, parses it, and shuffles the tweets by author.
    # Matching that takes more than a second in all is measured once for each key. Shorter matching is
    # measured for each replica, because the call of a kernel costs as much as hundreds of events. Parsing is
    # measured on the first block, because the others are copies of it.
    widths = tuple(widths)
    parses = benchmark.data == "tweets"
    block = data.iloc[:EVENTS_OF_BLOCK]
    blocks = len(data) / len(block)
    split = {w: blocks * _fastest(repeats, _split_texts(block, w)) if parses else 0.0 for w in widths}
    benchmark.prepared(data.iloc[:100])  # compiles
    if parses:
        load = {w: blocks * _parse_in_parts(benchmark, block, w, repeats) for w in widths}
    else:
        load = {w: np.zeros(w) for w in widths}
    started = time.thread_time()
    frame = benchmark.prepared(data)
    staged = time.thread_time() - started
    if benchmark.pattern is None:
        return ScalingCosts(load, split, 0.0)
    codes, keys = pd.factorize(frame[benchmark.partition_by])
    names = pd.Index(keys).astype(str)
    replica_of = {w: replica_of_key(names, w) for w in widths}
    program, events = compile_benchmark(benchmark, frame)
    if as_in_paper:
        program = one_record_per_start(program)
    inputs = program.inputs(events.columns)
    kernel = program.matching(inputs)
    _run_on(kernel, inputs, codes, np.arange(min(len(codes), 100)))()  # compiles
    rows_of_key = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    of_key, found = np.zeros(len(keys)), []
    for k, rows in enumerate(rows_of_key):
        run = _run_on(kernel, inputs, codes, rows)
        started = time.thread_time()
        found.append(run())
        of_key[k] = time.thread_time() - started
    by_key = np.concatenate(found)  # the last rows of all matches
    is_long = of_key.sum() > LONG_S
    for width in widths:
        if is_long:
            load[width] = load[width] + np.bincount(replica_of[width], of_key, minlength=width)
        else:
            parts = [np.flatnonzero(replica_of[width][codes] == r) for r in range(width)]
            runs = [_run_on(kernel, inputs, codes, rows) for rows in parts]
            load[width] = load[width] + [_fastest(repeats, run) for run in runs]
        if not parses:
            events_of_replica = np.bincount(replica_of[width][codes], minlength=width)
            load[width] = load[width] + (staged if benchmark.stages else 0.0) * events_of_replica / len(codes)
            split[width] = _fastest(3 * repeats, _split(replica_of[width], codes, inputs))
    return ScalingCosts(load, split, _fastest(repeats, lambda: np.argsort(by_key, kind="stable")))


def speedup_simulated(
    widths: Iterable[int] = WIDTHS,
    *,
    repetitions: Mapping[str, int] = REPETITIONS,
    as_in_paper: bool = False,
    names: Iterable[str] | None = None,
    data: str = "seed 0",
    repeats: int = 3,
) -> pd.DataFrame:
    """Simulate the speed-up from measured costs when the hash of a key selects its replica."""
    # The time of a width is that of the busiest core. Replicas, split and merge work at the same time on a
    # core each; one replica needs neither split nor merge. A key is never divided. Unlike on the paper's
    # machines, replicas share no memory, cache or network.
    widths = tuple(widths)
    rows = []
    for benchmark, events in benchmarks_with_data(names, repetitions, data):
        name = benchmark.name
        costs = measured_costs(SCALED[name], events, widths, as_in_paper=as_in_paper, repeats=repeats)
        alone = float(costs.of_replica[1].sum())
        for width in widths:
            replicas = float(costs.of_replica[width].max())
            makespan = replicas if width == 1 else max(replicas, costs.split[width], costs.merge)
            rows.append((name, width, alone / makespan, alone / replicas, len(events), alone))
    columns = ["benchmark", "width", "speedup", "replicas_alone", "events", "alone_s"]
    return pd.DataFrame(rows, columns=columns).set_index(["benchmark", "width"])


def _parse_in_parts(benchmark: Benchmark, data: pd.DataFrame, width: int, repeats: int) -> np.ndarray:
    """Return the CPU seconds of each of ``width`` replicas that parse and shuffle."""

    def work(part: pd.DataFrame) -> list[pd.DataFrame]:
        parsed = benchmark.prepared(part)
        if width == 1 or benchmark.pattern is None:
            return [parsed]
        codes, authors = pd.factorize(parsed["author"])
        replica_of_tweet = replica_of_key(authors.astype(str), width)[codes]
        return [parsed.take(np.flatnonzero(replica_of_tweet == r)) for r in range(width)]

    parts = [data[["xml"]].iloc[r::width] for r in range(width)]
    return np.array([_fastest(repeats, lambda part=part: work(part)) for part in parts])


def _split_texts(block: pd.DataFrame, width: int) -> Callable[[], list]:
    return lambda: [block["xml"].iloc[r::width].copy() for r in range(width)]


def _run_on(kernel, inputs, codes: np.ndarray, rows: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a function that matches the events of some rows and returns the last rows of their matches."""
    columns = inputs.with_columns({name: values[rows] for name, values in inputs.columns.items()})
    keys, partition = np.unique(codes[rows], return_inverse=True)
    partition, state = partition.astype(np.int32), kernel.new_state(len(keys))

    def run() -> np.ndarray:
        state.clear()
        return rows[advance(kernel, state, partition, columns, 0)[1]]

    return run


def _split(replica_of_key: np.ndarray, codes: np.ndarray, inputs) -> Callable[[], list]:
    def run() -> list:
        order = np.argsort(replica_of_key[codes].astype(np.int8), kind="stable")
        return [values[order] for values in inputs.columns.values()]

    return run


def _fastest(repeats: int, run: Callable[[], object]) -> float:
    """Return the thread's CPU seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        started = time.thread_time()
        run()
        times.append(time.thread_time() - started)
    return min(times)
