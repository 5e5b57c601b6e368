"""Run experiments on single agents: models and counts, buffers, real threads and virtual time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from time import perf_counter

import numpy as np
import pandas as pd

import cepkit as cep
from cepkit.errors import CepError
from cepkit.parallel.agents import Costs, Crew
from cepkit.parallel.engines import Hybrid, Sequential
from cepkit.parallel.model import AgentRates, agent_statistics, evaluation_rates, event_loads
from cepkit.parallel.outcome import ParallelRun
from cepkit.parallel.running import calibrate_costs
from papers.hybrid_parallel.figures import COMPARED, CORES, COSTS, Runs, simulated, speedup, system_of
from papers.hybrid_parallel.workloads import Workload, prepared, sensors


def evaluations(workload: Workload, *, window_min: float | None = None, costs: Costs = COSTS) -> pd.DataFrame:
    """Return how many pairs each agent evaluates, counted and by the models."""
    program, events = prepared(workload, window_min or workload.windows_min[2])
    (rates,) = agent_statistics(program, events)
    run = simulated(Sequential(), program, events, costs)
    seconds = (workload.frame["ts"].iloc[-1] - workload.frame["ts"].iloc[0]).total_seconds()
    table = evaluations_per_agent(rates, run.compared.tolist(), seconds)
    table.insert(0, "stream", workload.name)
    return table


def evaluations_per_agent(
    rates: AgentRates, compared: Sequence[Sequence[float]], duration_s: float
) -> pd.DataFrame:
    """Return how many pairs each agent evaluates, counted and expected by the models."""
    # Source: HYPERSONIC, section IV. On Poisson streams, the paper counts 2 (i - 1)! times too many pairs.
    if len(compared) != len(rates.agents):
        raise CepError(f"compared: {len(compared)} counts. There must be {len(rates.agents)}, one per agent")
    if not duration_s > 0:
        raise CepError(f"duration_s={duration_s}: events that span no time have no rates")
    measured = [float(sum(counts)) / duration_s for counts in compared]
    sources = {
        "measured": measured,
        "simplex": evaluation_rates(rates),
        "paper": evaluation_rates(rates, "paper"),
        "paper, one side": event_loads(rates, "paper"),
    }
    rows = [
        (component + 1, source, values[a], values[a] / measured[a] - 1 if measured[a] else float("nan"))
        for a, component in enumerate(rates.agents)
        for source, values in sources.items()
    ]
    return pd.DataFrame(rows, columns=["agent", "source", "per_second", "error"])


def ceilings(
    workload: Workload,
    comparisons_ns: Sequence[float] = (5.0, 50.0, 500.0),
    *,
    window_min: float | None = None,
    threads: int = CORES,
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return how close speed-ups come to the number of threads, by the cost of a condition and of locks."""
    window_min = window_min or workload.windows_min[2]
    rows = []
    for comparison in comparisons_ns:
        for locks, lock in (("locks", costs.lock), ("locks are free", 0.0)):
            own = replace(costs, comparison=comparison, lock=lock)
            given = {"patterns": ("SEQ",), "systems": COMPARED[:1], "length": len(workload.types)}
            made = speedup([workload], "window", [window_min], threads=threads, costs=own, **given)
            (found,) = made.to_dict("records")
            rows.append((comparison, locks, "equal work", found["speedup"]))
            rows.append((comparison, locks, "looks at all", found["speedup_not_scoped"]))
    return pd.DataFrame(rows, columns=["comparison_ns", "locks", "baseline", "speedup"])


def buffers(
    workload: Workload,
    *,
    window_min: float | None = None,
    threads: int = 8,
    load: float = 0.8,
    allocation: str = "state_dynamic",
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return the lengths of event and match buffers, and those of the models."""
    # Most of the delay comes from removal in passes, which become rarer with longer buffers. Threads take one
    # item at a time here, because a batch is removed only when none of its items is needed.
    # Source: HYPERSONIC, section IV-A: events stay for W + d, and partial matches for W - d, where d is the
    # delay of partial matches after the events.
    window_min = window_min or workload.windows_min[2]
    runs = Runs([workload], costs)
    query = (workload.name, "SEQ", window_min, len(workload.types))
    program, events = runs.prepared(*query)
    (rates,) = agent_statistics(program, events)
    arrival = np.arange(events.n_events) * (runs.sequential(*query).makespan / events.n_events / load)
    rows, delay_of_agent = [], {}
    for removal in ("watermark", "window"):
        engine = Hybrid(
            threads=threads, allocation=allocation, cost_model="measured", removal=removal, batch=1
        )
        run = simulated(engine, program, events, costs, arrival, trace=True)
        for a, of in enumerate(run.trace.agents_frame().to_dict("records")):
            n_events, n_partials = map(int, run.taken[a])
            left, share = rates.agents[a], rates.in_window[rates.agents[a]] / max(1, n_events)
            delay = delay_of_agent.setdefault(a, of["mean_event_buffer"] / max(1, n_events))
            stay = {"events": share, "partial matches": share / left}
            own = {"events": delay + share * (removal == "window"), "partial matches": delay + share / left}
            for name, short, n in (("events", "event", n_events), ("partial matches", "partial", n_partials)):
                found = of[f"mean_{short}_buffer"], of[f"most_{short}_buffer"]
                rows.append((removal, of["agent"], name, *found, n * stay[name], n * own[name]))
    columns = ["removal", "agent", "buffer", "mean", "most", "by_window", "by_delay"]
    return pd.DataFrame(rows, columns=columns)


def spread(
    shuffled: Sequence[float] = (0.0, 0.1, 0.3, 1.0),
    *,
    workload: Workload | None = None,
    window_min: float | None = None,
    threads: int = CORES,
    costs: Costs = COSTS,
    seed: int = 7,
) -> pd.DataFrame:
    """Compare systems on streams whose event types come in runs or are spread over the stream."""
    workload = sensors() if workload is None else workload
    window_min = window_min or workload.windows_min[2]
    rows = []
    for share, is_even in [*((share, False) for share in shuffled), (1.0, True)]:
        rng = np.random.default_rng(seed)
        frame = workload.frame.copy()
        n = len(frame)
        moved = np.flatnonzero(rng.random(n) < share)
        order = np.arange(n)
        order[moved] = rng.permutation(moved)
        for column in (workload.event_type, workload.value):
            frame[column] = workload.frame[column].take(order).array
        if is_even:
            first, last = frame["ts"].iloc[0], frame["ts"].iloc[-1]
            frame["ts"] = pd.date_range(first, last, periods=n).astype(frame["ts"].dtype)
        made = _at_one_point(replace(workload, frame=frame), window_min, threads, costs)
        what = "as they come" if not share else f"{share:.0%} shuffled"
        rows.append(made.assign(events=what + ", equal distances" * is_even))
    return _concatenate(rows, "events")


def _at_one_point(workload: Workload, window_min: float, threads: int, costs: Costs, length: int = 6):
    made = speedup(
        [workload], "window", [window_min], patterns=("SEQ",), threads=threads, length=length, costs=costs
    )
    return made.assign(sequential_us=made["speedup"] * made["makespan_us"])


def _concatenate(rows: list[pd.DataFrame], first: str) -> pd.DataFrame:
    columns = [first, "system", "speedup", "busiest_share", "sequential_us", "matches"]
    return pd.concat(rows, ignore_index=True)[columns]


def machine_load() -> str:
    """Return the load and the number of cores as text. Only times on an idle machine are reliable."""
    of_a_minute = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return f"load {of_a_minute} on {os.cpu_count()} cores"


def measured(
    workload: Workload,
    threads: Sequence[int] = (1, 2),
    *,
    window_min: float | None = None,
    systems: Sequence[str] = (*COMPARED[:1], "RIP"),
    repetitions: int = 5,
) -> pd.DataFrame:
    """Return times on real threads and in virtual time, and the time of the engine that ``auto`` takes."""
    window_min = window_min or workload.windows_min[2]
    program, events = prepared(workload, window_min)

    @cache
    def costs_of(crew: Crew) -> Costs:
        return calibrate_costs(program, events, crew=crew)

    def both(name: str, n: int) -> tuple[ParallelRun, float, float]:
        engine = system_of(name)(n, events.n_events)
        found = [engine.run(program, events, keep=False) for _ in range(repetitions)]
        virtual = engine.simulate(program, events, costs=costs_of(engine.crew(program, events)))
        return found[0], float(np.median([run.makespan for run in found])), virtual.makespan

    def count_by_auto() -> float:
        begin = perf_counter()
        cep.match(
            workload.frame, workload.query(window_min), event_type=workload.event_type, order_by="ts"
        ).count()
        return 1e3 * (perf_counter() - begin)

    auto_ms = float(np.median([count_by_auto() for _ in range(repetitions + 1)][1:]))  # the first compiles
    one = both("sequential", 1)[0]
    rows = []
    for name in systems:
        for n in threads:
            run, real, virtual = both(name, n)
            rows.append(
                {
                    "system": name,
                    "threads": n,
                    "matches": run.n_matches,
                    "same_matches": run.n_matches == one.n_matches,
                    "auto_ms": auto_ms,
                    "measured_ms": real / 1e6,
                    "simulated_ms": virtual / 1e6,
                }
            )
    return pd.DataFrame(rows)
