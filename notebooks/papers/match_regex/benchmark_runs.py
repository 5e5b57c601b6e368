"""Selectivity and speed of the nine benchmarks of "Partition and Compose" (DEBS 2012), tables 5 and 6.

Further experiments are in `aggregates` (incremental and recomputed aggregates), `topologies` and `scaling`
(split and merge, figures 7 to 10).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pandas as pd

from cepkit.compile.regex_plan import SLOTS
from cepkit.compile.regex_program import Program
from cepkit.engines.regex import Run, match_regex
from cepkit.errors import CepError, nearest
from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.planning.plans import compile_checked
from papers.match_regex.benchmarks import BENCHMARKS, VARIANTS, Benchmark, data_named
from papers.match_regex.benchmarks import PAPER_REPETITIONS as PAPER_REPETITIONS
from papers.match_regex.benchmarks import benchmark_data as benchmark_data

_EVENTS_TO_COMPILE = 10_000
Prepared = tuple[Benchmark, pd.DataFrame, pd.DataFrame]  # with its data before and after all stages


def compile_benchmark(benchmark: Benchmark, frame: pd.DataFrame) -> tuple[Program, Events]:
    """Return the program of a benchmark, and the frame, which is the output of its stages, as events."""
    source = PandasSource(frame)
    program = compile_checked(benchmark.query(), source)
    return program, build_events(source, program)


def count_matches(benchmark: Benchmark, frame: pd.DataFrame, *, as_in_paper: bool = False) -> int:
    """Return the number of matches that one thread finds in the output of all stages (twitter0: of rows)."""
    if benchmark.pattern is None:
        return len(frame)
    program, events = compile_benchmark(benchmark, frame)
    program = one_record_per_start(program) if as_in_paper else program
    return len(match_regex(program, events, threads=1, tier="compiled"))


def calibrate(
    benchmark: Benchmark, data: pd.DataFrame, *, tolerance: float = 0.02, steps: int = 40
) -> Benchmark:
    """Return the benchmark with the free parameter that brings its selectivity nearest to the paper's."""
    # The selectivity must be monotonic in the parameter.
    value, _ = fit(benchmark, data, benchmark.prepared(data), tolerance=tolerance, steps=steps)
    return with_constant(benchmark, value)


def with_constant(benchmark: Benchmark, value: float) -> Benchmark:
    """Return the benchmark with another value of its free parameter."""
    if benchmark.free is None:
        raise CepError(f"benchmark {benchmark.name!r} has no free parameter")
    return replace(benchmark, params={**benchmark.params, **benchmark.free.params(value)})


def fit(
    benchmark: Benchmark, data: pd.DataFrame, frame: pd.DataFrame, *, tolerance: float = 0.02, steps: int = 40
) -> tuple[float, int]:
    """Return the value of the free parameter that `calibrate` chooses, and its number of matches."""
    # ``frame`` is the data after the stages of the benchmark.
    if benchmark.free is None:
        raise CepError(f"benchmark {benchmark.name!r} has no free parameter")
    target = benchmark.paper_selectivity * len(data)
    low, high = benchmark.free.low, benchmark.free.high
    tried = [(value, count_matches(with_constant(benchmark, value), frame)) for value in (low, high)]
    rising = tried[1][1] > tried[0][1]
    for _ in range(steps):
        middle = (low + high) / 2
        tried.append((middle, count_matches(with_constant(benchmark, middle), frame)))
        if abs(tried[-1][1] / target - 1) <= tolerance:
            break
        low, high = (middle, high) if (tried[-1][1] < target) == rising else (low, middle)
    return min(tried, key=lambda one: abs(one[1] - target))


def table5(prepared: Iterable[Prepared]) -> pd.DataFrame:
    """Return the selectivity of each benchmark, with the paper's."""
    # The selectivity is matches per trade or tweet, also when a stage combines several of them (finance4).
    # Source: Hirzel, "Partition and Compose", DEBS 2012, table 5.
    rows = []
    for benchmark, data, frame in prepared:
        matches = count_matches(benchmark, frame)
        rows.append(
            {
                "benchmark": benchmark.name,
                "pattern": benchmark.pattern or "",
                "looks_for": benchmark.looks_for,
                "events": len(data),
                "matches": matches,
                "selectivity_pct": 100 * matches / len(data),
                "paper_pct": 100 * benchmark.paper_selectivity,
                "ratio": matches / len(data) / benchmark.paper_selectivity,
            }
        )
    return pd.DataFrame(rows).set_index("benchmark")


def table6(
    repetitions: int | Mapping[str, int] = 20,
    repeats: int = 5,
    names: Iterable[str] | None = None,
    data: str = "seed 0",
    *,
    as_in_paper: bool = False,
) -> pd.DataFrame:
    """Return the speed of each benchmark on one thread, with the paper's; by the paper's engine if told."""
    # Source: Hirzel, "Partition and Compose", DEBS 2012, table 6, column non-parallel.
    # Differs: the paper receives the events over a network; here they are in memory.
    rows = []
    for benchmark, events in benchmarks_with_data(names, repetitions, data):
        few = events.iloc[:_EVENTS_TO_COMPILE]
        count_matches(benchmark, benchmark.prepared(few), as_in_paper=as_in_paper)
        timed = [_time_run(benchmark, events, as_in_paper) for _ in range(repeats)]
        stage_s, match_s, cpu_s = (min(column) for column in zip(*timed, strict=True))
        rows.append(
            {
                "benchmark": benchmark.name,
                "events": len(events),
                "stage_s": stage_s,
                "match_s": match_s,
                "cpu_s": cpu_s,
                "events_per_s": len(events) / (stage_s + match_s),
                "paper_events_per_s": benchmark.paper_events_per_s,
            }
        )
    table = pd.DataFrame(rows).set_index("benchmark")
    if "finance0" in table.index:
        per_cpu_s = table["events"] / table["cpu_s"]
        table["relative"] = per_cpu_s / per_cpu_s["finance0"]
        table["paper_relative"] = table["paper_events_per_s"] / table.loc["finance0", "paper_events_per_s"]
    return table


def live_starts(prepared: Iterable[Prepared]) -> pd.DataFrame:
    """Return the number of live partial matches per event, with and without cepkit's short cuts."""
    # Source: Hirzel, "Partition and Compose", DEBS 2012, section 5.2. It explains twitter2's speed by its
    # live starts, one per 47 events.
    rows = []
    for benchmark, _, frame in prepared:
        if benchmark.pattern is None:
            continue
        program, events = compile_benchmark(benchmark, frame)
        plain, ours = Run(), Run()
        n_matches = len(
            match_regex(one_record_per_start(program), events, threads=1, tier="compiled", run=plain)
        )
        if n_matches != len(match_regex(program, events, threads=1, tier="compiled", run=ours)):
            raise AssertionError(f"{benchmark.name}: the short cuts change the matches")
        rows.append(
            {
                "benchmark": benchmark.name,
                "mean_live": plain.work / events.n_events,
                "most_live": plain.most_live,
                "looked_at": ours.work / events.n_events,
            }
        )
    return pd.DataFrame(rows).set_index("benchmark")


def one_record_per_start(program: Program) -> Program:
    """Return the program without queues and without merging equivalent starts."""
    conditions = [conjunct.term for conjunct in program.plan.start_conjuncts]
    slots = dict.fromkeys(part for term in conditions for part in term.walk() if part.op in SLOTS)
    return replace(program, plan=replace(program.plan, queues=(), dominated=0, slots=tuple(slots)))


def _time_run(benchmark: Benchmark, data: pd.DataFrame, as_in_paper: bool) -> tuple[float, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    frame = benchmark.prepared(data)
    staged = time.perf_counter()
    count_matches(benchmark, frame, as_in_paper=as_in_paper)
    return staged - wall, time.perf_counter() - staged, time.process_time() - cpu


def benchmarks_with_data(
    names: Iterable[str] | None, repetitions: int | Mapping[str, int], data: str = "seed 0"
) -> Iterator[tuple[Benchmark, pd.DataFrame]]:
    """Yield the named benchmarks (None: the nine of the paper) with their data, shared by benchmarks."""
    known = BENCHMARKS | VARIANTS
    made: dict[str, pd.DataFrame] = {}
    for name in names if names is not None else BENCHMARKS:
        if name not in known:
            raise CepError(f"benchmark {name!r} not found.{nearest(name, known)} Benchmarks: {list(known)}")
        benchmark = known[name]
        if benchmark.data not in made:
            n = repetitions if isinstance(repetitions, int) else repetitions[benchmark.data]
            made[benchmark.data] = data_named(benchmark, n, data)
        yield benchmark, made[benchmark.data]


def benchmarks_prepared(
    repetitions: int | Mapping[str, int] = 20, names: Iterable[str] | None = None, data: str = "seed 0"
) -> Iterator[Prepared]:
    """Yield each benchmark with its data before and after all stages. Benchmarks share the output of stages.

    The parameters are those of `table6`.

    """
    frame_after: dict[tuple, pd.DataFrame] = {}
    for benchmark, events in benchmarks_with_data(names, repetitions, data):
        frame = events
        for n in range(1, len(benchmark.stages) + 1):
            stages = benchmark.stages[:n]
            if (benchmark.data, stages) not in frame_after:
                frame_after[benchmark.data, stages] = stages[-1](frame)
            frame = frame_after[benchmark.data, stages]
        yield benchmark, events, frame
