"""Run the experiments of the HYPERSONIC paper in virtual time: figures 6 to 10.

All functions return tidy frames and draw nothing. `details` has experiments on single agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.engines.shared.places import usable_threads
from cepkit.errors import CepError, nearest
from cepkit.events import Events
from cepkit.parallel.agents import ONE_BY_ONE, Agents, Costs, RunSettings
from cepkit.parallel.divided import RIP
from cepkit.parallel.engines import Hybrid, ParallelEngine, Sequential
from cepkit.parallel.outcome import ParallelRun
from cepkit.parallel.running import simulate_agents
from papers.hybrid_parallel.workloads import PATTERNS, VARIABLES, Workload, prepared
from papers.tables import sweep

CORES = 24  # cores of the paper's machine
COSTS = Costs()
CHUNKS = 4  # chunks of RIP per thread
_MOST_WORKERS = 8  # points of a sweep at a time, since each needs memory of its own
# Functions of the number of threads and the number of events.
SYSTEMS: dict[str, Callable[[int, int], ParallelEngine]] = {
    "hybrid, fully dynamic": lambda threads, n: Hybrid(threads=threads),
    "hybrid, state-dynamic": lambda threads, n: Hybrid(
        threads=threads, allocation="state_dynamic", cost_model="paper"
    ),
    "hybrid, static": lambda threads, n: Hybrid(threads=threads, allocation="static", cost_model="paper"),
    "RIP": lambda threads, n: RIP(threads=threads, chunk=max(1, -(-n // (CHUNKS * threads)))),
    "sequential": lambda threads, n: Sequential(),
    "sequential, not scoped": lambda threads, n: Sequential(scoped=False),
    "hybrid, by counts": lambda threads, n: Hybrid(
        threads=threads, allocation="state_dynamic", cost_model="measured"
    ),
    "RIP, as in OpenCEP": lambda threads, n: RIP(threads=threads, multiple=1, start_filter=False),
}
FULL, STATE, STATIC, RIP_NAME, ONE, _, COUNTED, OPEN_RIP = tuple(SYSTEMS)
COMPARED = (FULL, STATE, STATIC, RIP_NAME)


# --- figures 6 and 9: speed -------------------------------------------------------------------------------


class Runs:
    """The runs of a sweep: one per point, and the sequential run of the same query."""

    def __init__(self, workloads: Iterable[Workload], costs: Costs):
        if isinstance(workloads, Workload):
            raise CepError(f"workloads is a single workload, {workloads.name!r}. Give a list of workloads")
        self.workloads = {workload.name: workload for workload in workloads}
        self.costs = costs
        self._made: dict[tuple, Future] = {}
        self._making = Lock()

    def prepared(
        self, stream: str, pattern: str, window_min: float, length: int
    ) -> tuple[SequenceProgram, Events]:
        """Return the program and the events of a query."""
        workload = self.workloads[stream]
        return self._once(
            lambda: prepared(workload, window_min, length=length, pattern=pattern),
            (stream, pattern, window_min, length),
        )

    def simulated(self, system: str, threads: int, *query: Any, load: float | None = None) -> ParallelRun:
        """Return a run; with ``load``, events arrive evenly at this multiple of the sequential rate."""
        program, events = self.prepared(*query)
        arrival = None
        if load is not None:
            gap = self.sequential(*query).makespan / events.n_events / load
            arrival = np.arange(events.n_events) * gap
        engine = system_of(system)(threads, events.n_events)
        return simulated(engine, program, events, self.costs, arrival)

    def sequential(self, *query: Any, scoped: bool = True) -> ParallelRun:
        """Return the run on one thread."""
        name = "sequential" if scoped else "sequential, not scoped"
        return self._once(lambda: self.simulated(name, 1, *query), (name, *query))

    def _once(self, make: Callable[[], Any], key: tuple) -> Any:
        """Return the value of a key; only the first thread that needs it makes it."""
        with self._making:
            is_first = key not in self._made
            made = self._made.setdefault(key, Future())
        if is_first:
            try:
                made.set_result(make())
            except BaseException as error:
                with self._making:
                    del self._made[key]  # the next caller tries again
                made.set_exception(error)
        return made.result()


def system_of(name: str) -> Callable[[int, int], ParallelEngine]:
    """Return the function that makes the engine of a system."""
    if name not in SYSTEMS:
        raise CepError(f"system {name!r} is not known.{nearest(name, SYSTEMS)} There are {list(SYSTEMS)}")
    return SYSTEMS[name]


def _workers() -> int:
    return min(_MOST_WORKERS, usable_threads())


def _check_systems(systems: Sequence[str]) -> None:
    if isinstance(systems, str):
        raise CepError(f"systems={systems!r} is a text. Give a list, [{systems!r}]")
    for name in systems:
        system_of(name)


def simulated(
    engine: ParallelEngine,
    program: SequenceProgram,
    events: Events,
    costs: Costs,
    arrival: np.ndarray | None = None,
    *,
    trace: bool = False,
) -> ParallelRun:
    """Return a run in virtual time; a hybrid delivers events as soon as they arrive."""
    if arrival is None or not isinstance(engine, Hybrid):
        return engine.simulate(program, events, costs=costs_of(engine, costs), arrival=arrival)
    settings = replace(engine.settings(), keep=False, chunk=1, trace=trace)
    agents, crew = Agents(program, events), engine.crew(program, events)
    return simulate_agents(agents, crew, settings, costs=costs, arrival=arrival)


def costs_of(engine: ParallelEngine, costs: Costs) -> Costs:
    """Return the costs of an engine; locks are free if threads share nothing."""
    return costs if isinstance(engine, Hybrid) else replace(costs, lock=0.0)


def _points(workloads, by, values, patterns, systems, threads, length, **more) -> list[dict]:
    if by not in ("window", "threads", "length"):
        raise CepError(f"by={by!r} is not known. There are 'window', 'threads' and 'length'")
    points = []
    for workload in workloads:
        given = values[workload.name] if isinstance(values, Mapping) else values
        windows = workload.windows_min
        for pattern in patterns:
            for value in windows if given is None else given:
                at = {"window_min": windows[min(2, len(windows) - 1)], "threads": threads, "length": length}
                at["window_min" if by == "window" else by] = value
                workload.query(at["window_min"], length=at["length"], pattern=pattern)  # raises here, once
                for system in systems:
                    points.append(
                        {"stream": workload.name, "pattern": pattern, **at, "system": system, **more}
                    )
    return points


def speedup(
    workloads: Sequence[Workload],
    by: str,
    values: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    *,
    patterns: Sequence[str] = PATTERNS,
    systems: Sequence[str] = COMPARED,
    threads: int = CORES,
    length: int = 6,
    costs: Costs = COSTS,
    runs: Runs | None = None,
    scoped_only: bool = False,
) -> pd.DataFrame:
    """Return the speed-up of systems over one thread: figures 6 and 9, simulated."""
    # Source: HYPERSONIC, section VII, figures 6 and 9.
    _check_systems(systems)
    runs = runs or Runs(workloads, costs)

    def point(stream, pattern, window_min, threads, length, system) -> dict:
        query = (stream, pattern, window_min, length)
        run, one = runs.simulated(system, threads, *query), runs.sequential(*query)
        wide = runs.sequential(*query, scoped=scoped_only)
        return {
            "makespan_us": run.makespan / 1e3,
            "speedup": one.makespan / run.makespan,
            "speedup_not_scoped": wide.makespan / run.makespan,
            "matches": run.n_matches,
            "same_matches": run.n_matches == one.n_matches == wide.n_matches,
            "events_per_ms": runs.prepared(*query)[1].n_events / run.makespan * 1e6,
            "idle_share": run.idle_share,
            "most_kb": run.most_bytes / 1e3,
            "busiest_share": float(run.busy.max() / run.busy.sum()),
        }

    points = _points(workloads, by, values, patterns, systems, threads, length)
    return sweep(point, points, workers=_workers())


# --- figures 7 and 8: latency and memory ------------------------------------------------------------------


def paced(
    workloads: Sequence[Workload],
    by: str,
    values: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    *,
    loads: Sequence[float] = (0.8, 8.0),
    systems: Sequence[str] = (*COMPARED, "sequential"),
    threads: int = CORES,
    length: int = 6,
    costs: Costs = COSTS,
    runs: Runs | None = None,
) -> pd.DataFrame:
    """Return latency and memory when events arrive at a fixed rate: figures 7 and 8, simulated."""
    # Source: HYPERSONIC, section VII, figures 7 and 8.
    # Differs: the paper does not give the rate of its events.
    _check_systems(systems)
    runs = runs or Runs(workloads, costs)

    def point(stream, pattern, window_min, threads, length, system, load) -> dict:
        run = runs.simulated(system, threads, stream, pattern, window_min, length, load=load)
        return {
            "mean_latency_us": run.mean_latency / 1e3,
            "greatest_latency_us": run.greatest_latency / 1e3,
            "most_kb": run.most_bytes / 1e3,
            "matches": run.n_matches,
        }

    points = [
        point
        for load in loads
        for point in _points(workloads, by, values, ("SEQ",), systems, threads, length, load=load)
    ]
    return sweep(point, points, workers=_workers())


def never_pruned(
    workload: Workload,
    n_events: Sequence[int],
    *,
    window_min: float | None = None,
    threads: int = CORES,
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return the cost of the sequential baseline by how it prunes its buffers."""
    rows = []
    for n in n_events:
        part = replace(workload, frame=workload.frame.iloc[:n])
        program, events = prepared(part, window_min or workload.windows_min[0])
        fast = Hybrid(threads=threads).simulate(program, events, costs=costs)
        for name, settings in (
            ("scoped", RunSettings(keep=False)),
            ("not scoped", RunSettings(keep=False, scoped=False, removal="window")),
            ("never pruned", RunSettings(keep=False, scoped=False, removal="never")),
        ):
            own = replace(costs, lock=0.0)
            run = simulate_agents(Agents(program, events), ONE_BY_ONE, settings, costs=own)
            pairs, speedup_of_hybrid = int(run.looked.sum()), run.makespan / fast.makespan
            rows.append((events.n_events, name, run.makespan / 1e3, pairs, speedup_of_hybrid))
    return pd.DataFrame(rows, columns=["events", "baseline", "makespan_us", "pairs_seen", "speedup"])


def fusion(
    workloads: Sequence[Workload],
    by: str,
    values: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    *,
    allocations: Sequence[str] = ("static", "state_dynamic"),
    cost_model: str = "paper",
    threads: int = 10,
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return the gain of fusing two neighbouring agents: figure 10, simulated."""
    # The fused pair is the one with the least counted work.
    # Source: HYPERSONIC, sections VI-B and VII, figure 10: two of five agents.
    runs = Runs(workloads, costs)

    def point(stream, pattern, window_min, threads, length, system) -> dict:
        query = (stream, pattern, window_min, length)
        program, events = runs.prepared(*query)
        work = runs.sequential(*query).looked.sum(axis=1) + 1
        least = int(np.argmin(work[1:] + work[:-1]))
        pair = (VARIABLES[least + 1], VARIABLES[least + 2])
        apart = Hybrid(threads=threads, allocation=system, cost_model=cost_model)
        rates = [
            events.n_events / engine.simulate(program, events, costs=costs).makespan * 1e6
            for engine in (apart, replace(apart, fuse=[pair]))
        ]
        return {
            "fused": "+".join(pair),
            "events_per_ms": rates[0],
            "events_per_ms_fused": rates[1],
            "gain": rates[1] / rates[0] - 1,
        }

    points = _points(workloads, by, values, ("SEQ",), allocations, threads, 6)
    made = sweep(point, points, workers=_workers())
    return made.rename(columns={"system": "allocation"})
