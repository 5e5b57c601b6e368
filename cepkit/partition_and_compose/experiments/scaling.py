"""Speed-up by the number of replicas, figures 9 and 10, measured and simulated from costs.

`topologies` runs the topologies themselves.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise, repeat

import numpy as np
import pandas as pd

from cepkit.engines.regex.matching import advance, match_regex
from cepkit.partition_and_compose.experiments.benchmark_runs import (
    BENCHMARKS,
    Benchmark,
    benchmarks_with_data,
    compile_benchmark,
    one_record_per_start,
)
from cepkit.partition_and_compose.experiments.stages import parse_tweets
from cepkit.partition_and_compose.experiments.topologies import replica_of_key

REPETITIONS: Mapping[str, int] = {"trades": 100, "tweets": 4}

# Best speed divided by the speed of one replica, table 6, at the best width of each benchmark.
PAPER_BEST = pd.DataFrame(
    [
        (b.name, b.paper_best_width, b.paper_best_events_per_s / b.paper_events_per_s)
        for b in BENCHMARKS.values()
    ],
    columns=["benchmark", "width", "speedup"],
).set_index("benchmark")


# --- measured ---------------------------------------------------------------------------------------------


def speedup_measured(
    widths: Iterable[int] = (1, 2),
    *,
    repetitions: Mapping[str, int] = REPETITIONS,
    repeats: int = 5,
    names: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Measure the speed-up of each benchmark with several replicas on this machine.

    Parameters
    ----------
    widths : iterable of int
        Numbers of replicas, 1 among them. Numbers above that of the cores show no speed-up.
    repetitions : mapping of str to int
        Blocks of 10,000 events of ``trades`` and of ``tweets``.
    repeats : int
        Number of runs; the fastest counts.
    names : iterable of str, optional
        Names from `BENCHMARKS`; None: all.

    Returns
    -------
    pandas.DataFrame
        One row per benchmark and width: ``seconds`` and ``speedup``.

    Notes
    -----
    Replicas of MatchRegex are threads over blocks of keys. The time includes the split. Replicas of
    ParseTweet, which is Python, are running processes. The time includes sending them the texts.
    VWAP and MinMax run on one thread.
    """
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
    """The costs of a benchmark on one thread, in seconds.

    Parameters
    ----------
    of_key : pandas.Series
        Matching and stages that are split by key, for the events of each key. The index is the key as text.
    anywhere : float
        Parsing, which any replica can do for any event.
    split, merge : float
        Distributing the events to replicas and ordering the matches. Both run once, parallel to the replicas.
    """

    of_key: pd.Series
    anywhere: float
    split: float
    merge: float


def measured_costs(
    benchmark: Benchmark, data: pd.DataFrame, *, as_in_paper: bool = False, repeats: int = 3
) -> ScalingCosts:
    """Measure the costs of a benchmark key by key.

    Parameters
    ----------
    benchmark : Benchmark
    data : pandas.DataFrame
        Result of `benchmark_data`.
    as_in_paper : bool
        Keep one record per start, without cepkit's short cuts.
    repeats : int
        Number of runs per key; the fastest counts.
    """
    started = time.thread_time()
    frame = benchmark.prepared(data)
    staged = time.thread_time() - started
    codes, keys = pd.factorize(frame[benchmark.partition_by])
    share = np.bincount(codes, minlength=len(keys)) / len(frame)
    of_key = pd.Series(0.0, index=pd.Index(keys).astype(str))
    parses = benchmark.data == "tweets"
    if benchmark.stages and not parses:
        of_key += staged * share
    if benchmark.pattern is None:
        return ScalingCosts(of_key, staged, 0.0, 0.0)
    program, events = compile_benchmark(benchmark, frame)
    if as_in_paper:
        program = one_record_per_start(program)
    inputs = program.inputs(events.columns)
    kernel = program.matching(inputs)
    found = match_regex(program, events, threads=1, tier="compiled")
    call = _fastest(repeats, _run_on(kernel, inputs, np.zeros(0, np.int64)))
    for k, rows in enumerate(np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])):
        of_key.iloc[k] += max(0.0, _fastest(repeats, _run_on(kernel, inputs, rows)) - call)
    replicas = replica_of_key(of_key.index, 8)
    split = _fastest(3 * repeats, lambda: _split(replicas, codes, inputs))
    merge = _fastest(repeats, lambda: np.argsort(found.last[np.argsort(found.partition, kind="stable")]))
    return ScalingCosts(of_key, staged if parses else 0.0, split, merge)


def speedup_simulated(
    widths: Iterable[int] = (1, 2, 4, 8, 16, 32),
    *,
    repetitions: Mapping[str, int] = REPETITIONS,
    as_in_paper: bool = False,
    names: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Simulate the speed-up from measured costs when the hash of a key selects its replica.

    Parameters
    ----------
    widths : iterable of int
        Numbers of replicas, each with its own core.
    repetitions, names
        As in `speedup_measured`.
    as_in_paper : bool
        As in `measured_costs`.

    Returns
    -------
    pandas.DataFrame
        One row per benchmark and width: ``speedup``, and ``replicas_alone``, the speed-up if split and merge
        took no time.

    Notes
    -----
    The time of a width is that of the busiest core. Replicas, split and merge work at the same time on a core
    each; one replica needs neither split nor merge. Parsing is distributed evenly. A key is never divided.
    Unlike on the paper's machines, replicas share no memory, cache or network.
    """
    rows = []
    for benchmark, data in benchmarks_with_data(names, repetitions):
        costs = measured_costs(benchmark, data, as_in_paper=as_in_paper)
        total = costs.of_key.sum() + costs.anywhere
        for width in widths:
            replicas = busiest_replica(costs, width)
            makespan = replicas if width == 1 else max(replicas, costs.split, costs.merge)
            rows.append((benchmark.name, width, total / makespan, total / replicas))
    columns = ["benchmark", "width", "speedup", "replicas_alone"]
    return pd.DataFrame(rows, columns=columns).set_index(["benchmark", "width"])


def busiest_replica(costs: ScalingCosts, width: int) -> float:
    """Return the seconds of the replica with the most work.

    Examples
    --------
    >>> costs = ScalingCosts(pd.Series({"a": 3.0, "b": 2.0, "c": 1.0}), anywhere=4.0, split=0.0, merge=0.0)
    >>> busiest_replica(costs, 1), busiest_replica(costs, 2)
    (10.0, 7.0)
    """
    load = np.bincount(replica_of_key(costs.of_key.index, width), costs.of_key.to_numpy(), minlength=width)
    return float(load.max() + costs.anywhere / width)


def _run_on(kernel, inputs, rows: np.ndarray) -> Callable[[], object]:
    columns = inputs.with_columns({name: values[rows] for name, values in inputs.columns.items()})
    partition, state = np.zeros(len(rows), np.int32), kernel.new_state(1)

    def run() -> None:
        state.clear()
        advance(kernel, state, partition, columns, 0)

    return run


def _split(replica_of_key: np.ndarray, codes: np.ndarray, inputs) -> list:
    order = np.argsort(replica_of_key[codes].astype(np.int8), kind="stable")
    return [values[order] for values in inputs.columns.values()]


def _fastest(repeats: int, run: Callable[[], object]) -> float:
    """Return the thread's CPU seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        started = time.thread_time()
        run()
        times.append(time.thread_time() - started)
    return min(times)
