"""The experiments of the HYPERSONIC paper in virtual time: figures 6 to 10, buffers, bursts, real threads.

Everything returns tidy frames; nothing is drawn here. What follows from them is in `hybrid_claims`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from cepkit.checked import compile_checked
from cepkit.compile.sequence import SequenceProgram
from cepkit.datasets.minute_bars import BarParameters, minute_bars
from cepkit.datasets.smart_home import HomeParameters, smart_home
from cepkit.errors import CepError, nearest
from cepkit.events import Events
from cepkit.experiments.sweeps import sweep
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.given import Given, as_query
from cepkit.parallel.agent_statistics import agent_statistics
from cepkit.parallel.agents import Agents, Costs, Crew, Terms
from cepkit.parallel.engines import RIP, Hybrid, ParallelEngine, Sequential
from cepkit.parallel.outcome import ParallelRun
from cepkit.parallel.simulation import simulate_agents

__all__ = [
    "COSTS",
    "CORES",
    "SYSTEMS",
    "Workload",
    "buffers",
    "by_cost_model",
    "bursts",
    "fusion",
    "measured",
    "never_pruned",
    "paced",
    "prepared",
    "real_workloads",
    "sensors",
    "speedup",
    "stocks",
]

CORES = 24  # of the paper's machine
PATTERNS = ("SEQ", "Kleene")
VARIABLES = "abcdefgh"
REPEATED = 3  # the component that is a loop in "Kleene"
COSTS = Costs()
_NS_PER_S = 1e9
SYSTEMS: dict[str, Callable[[int], ParallelEngine]] = {
    "hybrid, fully dynamic": lambda threads: Hybrid(threads=threads),
    "hybrid, state-dynamic": lambda threads: Hybrid(
        threads=threads, allocation="state_dynamic", cost_model="measured"
    ),
    "hybrid, static": lambda threads: Hybrid(threads=threads, allocation="static", cost_model="measured"),
    "RIP": lambda threads: RIP(threads=threads),
    "sequential": lambda threads: Sequential(),
    "sequential, not scoped": lambda threads: Sequential(scoped=False),
}
COMPARED = ("hybrid, fully dynamic", "hybrid, state-dynamic", "RIP")


# --- data and queries -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Workload:
    """Events and the family of patterns that is searched in them.

    Parameters
    ----------
    name : str
        ``"stocks"``, ``"sensors"``.
    frame : pandas.DataFrame
        With ``ts``, and the columns below.
    event_type : str
        Column of types.
    types : tuple of str
        Of the longest pattern, in order; at most 8.
    value : str
        Column that conditions compare.
    slack : float
        ``a.value - b.value < slack`` for neighbours a and b.
    windows_min : tuple of float
        Minutes; the third is that of sweeps over something else.
    """

    name: str
    frame: pd.DataFrame
    event_type: str
    types: tuple[str, ...]
    value: str
    slack: float
    windows_min: tuple[float, ...]

    def query(
        self, window_min: float, *, length: int = 6, pattern: str = "SEQ", condition: str = "difference"
    ) -> str:
        """Return the text of a query.

        Parameters
        ----------
        window_min : float
            Minutes.
        length : int
            Components, from 2 to the number of types.
        pattern : str
            ``"SEQ"``; ``"Kleene"``: the fourth component is a loop.
        condition : str
            ``"difference"`` of the values of neighbours, or ``"corr"``: of their histories, above 0.5.

        Raises
        ------
        CepError
            When there is no such pattern.
        """
        least = REPEATED + 1 if pattern == "Kleene" else 2
        if pattern not in PATTERNS or not least <= length <= len(self.types):
            raise CepError(
                f"workload {self.name!r}: no pattern {pattern!r} of {length} components. There are "
                f"{list(PATTERNS)} of {least} to {len(self.types)}"
            )
        loop = REPEATED if pattern == "Kleene" else -1
        parts = [
            f"'{kind}'{'+' * (c == loop)} {VARIABLES[c]}{'[]' * (c == loop)}"
            for c, kind in enumerate(self.types[:length])
        ]
        conditions = []
        for c in range(length - 1):
            one, other = (VARIABLES[c], VARIABLES[c + 1])
            one, other = one + "[LEN]" * (c == loop), other + "[1]" * (c + 1 == loop)
            conditions.append(self._condition(one, other, condition))
        if loop >= 0:
            conditions.append(self._condition(VARIABLES[loop] + "[i-1]", VARIABLES[loop] + "[i]", condition))
        where = " AND ".join(conditions)
        return f"PATTERN SEQ({', '.join(parts)}) WHERE {where} WITHIN {window_min * 60:g} s"

    def _condition(self, one: str, other: str, condition: str) -> str:
        if condition == "corr":
            return f"corr({one}.history, {other}.history) > 0.5"
        return f"{one}.{self.value} - {other}.{self.value} < {self.slack}"


def stocks(*, n_symbols: int = 40, n_days: int = 2, n_types: int = 6, seed: int = 7) -> Workload:
    """Return minute bars; types are the shares with most bars, whose changes are compared.

    Notes
    -----
    Source: HYPERSONIC, section VII: change since the last price, compared with that of the other share.
    Differs: fewer shares and days; bars of a minute are spread over it.
    """
    bars = minute_bars(BarParameters(n_symbols=n_symbols, n_days=n_days, distinct_times=True), seed=seed)
    return _of_stocks("stocks", bars, n_types)


def _of_stocks(name: str, bars: pd.DataFrame, n_types: int = 6) -> Workload:
    counts = bars["symbol"].value_counts()
    types = tuple(sorted(counts.index, key=lambda symbol: (-counts[symbol], symbol))[:n_types])
    return Workload(name, bars, "symbol", types, "log_return", 0.0, (5.0, 10.0, 15.0, 20.0))


EVENING = ("Enter_Home", "Toilet", "Other_Activity", "Relax", "Cook_Dinner", "Eat_Dinner")


def sensors(
    *, n_days: int = 10, seed: int = 7, burst_share: float = 0.0, n_bursts: int = 3, burst_gap_s: float = 2.0
) -> Workload:
    """Return the sensors of a home; types are the activities of an evening.

    Parameters
    ----------
    n_days, seed
        As of `smart_home`.
    burst_share : float
        Share of the runs of these activities that are moved into ``n_bursts`` bursts.
    n_bursts, burst_gap_s
        As of `smart_home`.

    Notes
    -----
    Source: HYPERSONIC, section VII: change of the activity level, compared.
    """
    burst = {"burst_activities": EVENING, "burst_share": burst_share} if burst_share else {}
    parameters = HomeParameters(n_days=n_days, n_bursts=n_bursts, burst_gap_s=burst_gap_s, **burst)
    return _of_sensors("sensors", smart_home(parameters, seed=seed))


def _of_sensors(name: str, events: pd.DataFrame) -> Workload:
    return Workload(name, events, "activity", EVENING, "activity_change", 0.1, (20.0, 30.0, 45.0, 60.0))


def real_workloads(folder: str | os.PathLike | None) -> list[Workload]:
    """Return the workloads of recorded data, as far as their files are there.

    Parameters
    ----------
    folder : str or path, optional
        With ``nasdaq100_minute_close.parquet`` (``ts, symbol, close``) or ``casas_activity.parquet`` (``ts,
        activity, activity_change``); None: there are none.

    Notes
    -----
    Prices of one minute are spread over it, in the order of the rows, as in `minute_bars`.
    """
    if folder is None:
        return []
    made, folder = [], Path(folder)
    if (file := folder / "nasdaq100_minute_close.parquet").is_file():
        made.append(_of_stocks("recorded stocks", _with_returns(pd.read_parquet(file))))
    if (file := folder / "casas_activity.parquet").is_file():
        columns = ["ts", "activity", "activity_change"]
        made.append(_of_sensors("recorded sensors", pd.read_parquet(file, columns=columns)))
    return made


def _with_returns(prices: pd.DataFrame) -> pd.DataFrame:
    prices = prices.sort_values(["ts", "symbol"], kind="stable").reset_index(drop=True)
    close = np.log(prices["close"].astype(float))
    of_minute = prices.groupby("ts", observed=True)["symbol"]
    place = of_minute.cumcount() / of_minute.transform("size")
    return prices.assign(
        log_return=close - close.groupby(prices["symbol"], observed=True).shift(),
        ts=prices["ts"].astype("datetime64[us]") + pd.to_timedelta((place * 60e6).astype(int), unit="us"),
    )


def prepared(workload: Workload, window_min: float, **of_query: object) -> tuple[SequenceProgram, Events]:
    """Return the program of `Workload.query` and the events."""
    given = Given(event_type=workload.event_type, order_by="ts")
    source = PandasSource(workload.frame)
    program = compile_checked(as_query(workload.query(window_min, **of_query), given), source)
    return program, build_events(source, program)


# --- figures 6 and 9: speed -------------------------------------------------------------------------------


class _Runs:
    """Points of sweeps: a run of a system each, beside the sequential one of the same query."""

    def __init__(self, workloads: Iterable[Workload], costs: Costs):
        self.workloads = {workload.name: workload for workload in workloads}
        self.costs = costs
        self._prepared: dict[tuple, tuple[SequenceProgram, Events]] = {}
        self._sequential: dict[tuple, ParallelRun] = {}

    def prepared(self, data: str, pattern: str, window_min: float, length: int):
        key = (data, pattern, window_min, length)
        if key not in self._prepared:
            workload = self.workloads[data]
            self._prepared[key] = prepared(workload, window_min, length=length, pattern=pattern)
        return self._prepared[key]

    def simulated(self, system: str, threads: int, *query, load: float | None = None) -> ParallelRun:
        """Return a run; with ``load`` events arrive evenly, at that multiple of the sequential rate."""
        program, events = self.prepared(*query)
        arrival = None
        if load is not None:
            gap = self.sequential(*query).makespan / events.n_events / load
            arrival = np.arange(events.n_events) * gap
        engine = _system(system)(threads)
        costs = _costs_of(engine, self.costs)
        return engine.simulate(program, events, costs=costs, arrival=arrival)

    def sequential(self, *query, scoped: bool = True) -> ParallelRun:
        key = (*query, scoped)
        if key not in self._sequential:
            name = "sequential" if scoped else "sequential, not scoped"
            self._sequential[key] = self.simulated(name, 1, *query)
        return self._sequential[key]


def _system(name: str) -> Callable[[int], ParallelEngine]:
    if name not in SYSTEMS:
        raise CepError(f"system {name!r} not known.{nearest(name, SYSTEMS)} There are {list(SYSTEMS)}")
    return SYSTEMS[name]


def _costs_of(engine: ParallelEngine, costs: Costs) -> Costs:
    """Return what an engine pays: who shares nothing with other threads locks nothing."""
    return costs if isinstance(engine, Hybrid) else replace(costs, lock=0.0)


def _points(workloads, by, values, patterns, systems, threads, length, **more) -> list[dict]:
    if by not in ("window", "threads", "length"):
        raise CepError(f"by={by!r}: a sweep goes over 'window', 'threads' or 'length'")
    points = []
    for workload in workloads:
        given = values[workload.name] if isinstance(values, Mapping) else values
        windows = workload.windows_min
        for pattern in patterns:
            for value in windows if given is None else given:
                at = {"window_min": windows[min(2, len(windows) - 1)], "threads": threads, "length": length}
                at["window_min" if by == "window" else by] = value
                for system in systems:
                    points.append({"data": workload.name, "pattern": pattern, **at, "system": system, **more})
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
    path: str | os.PathLike | None = None,
) -> pd.DataFrame:
    """Return how much faster than one thread systems are: figures 6 and 9, simulated.

    Parameters
    ----------
    workloads : sequence of Workload
    by : str
        ``"window"``, ``"threads"`` or ``"length"`` of the pattern.
    values : sequence, or mapping of workload names to them, optional
        Of ``by``; None: the workload's windows.
    patterns : sequence of str
        ``"SEQ"``, ``"Kleene"``.
    systems : sequence of str
        Names of `SYSTEMS`.
    threads, length
        Where ``by`` does not say otherwise.
    costs : Costs
        Of a thread's steps. Systems whose threads share nothing pay no locks.
    path : str or path, optional
        A folder that keeps the points; see `cepkit.experiments.sweeps.sweep`.

    Returns
    -------
    pandas.DataFrame
        A row per point and system: ``data, pattern, window_min, threads, length, system``; ``makespan_us``;
        ``speedup`` over the sequential run that looks only at what is in a window, ``speedup_not_scoped``
        over the one that looks at all its buffers hold; ``matches``; ``same_matches`` (bool: as many as the
        sequential run); ``events_per_ms``; ``idle_share``; ``most_kb`` of all buffers and queues;
        ``busiest_share`` of the work, of one thread.

    Notes
    -----
    Source: HYPERSONIC, section VII, figures 6 and 9.
    """
    runs = _Runs(workloads, costs)

    def point(data, pattern, window_min, threads, length, system) -> dict:
        query = (data, pattern, window_min, length)
        run, one = runs.simulated(system, threads, *query), runs.sequential(*query)
        wide = runs.sequential(*query, scoped=False)
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
    return sweep(point, points, path, name=f"speedup by {by}", progress=False)


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
    path: str | os.PathLike | None = None,
) -> pd.DataFrame:
    """Return latency and memory where events arrive at a fixed rate: figures 7 and 8, simulated.

    Parameters
    ----------
    workloads, by, values, systems, threads, length, costs, path
        As of `speedup`; the pattern is a sequence.
    loads : sequence of float
        Rates, as multiples of what the sequential run can do on the same query.

    Returns
    -------
    pandas.DataFrame
        A row per point, load and system: ``data, pattern, window_min, threads, length, system, load``;
        ``mean_latency_us`` and ``greatest_latency_us`` from the arrival of a match's newest event, NaN
        without matches; ``most_kb`` of all buffers and queues; ``matches``.

    Notes
    -----
    Source: HYPERSONIC, section VII, figures 7 and 8.
    Differs: the paper does not say at which rate events arrive.
    """
    runs = _Runs(workloads, costs)

    def point(data, pattern, window_min, threads, length, system, load) -> dict:
        run = runs.simulated(system, threads, data, pattern, window_min, length, load=load)
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
    return sweep(point, points, path, name=f"paced by {by}", progress=False)


def never_pruned(
    workload: Workload,
    n_events: Sequence[int],
    *,
    window_min: float | None = None,
    threads: int = CORES,
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return what the sequential baseline costs by how it keeps its buffers: where large speed-ups come from.

    Parameters
    ----------
    workload : Workload
    n_events : sequence of int
        First events of the stream that are searched.
    window_min : float, optional
        None: the workload's first.
    threads, costs
        Of the hybrid.

    Returns
    -------
    pandas.DataFrame
        A row per number of events and baseline (``scoped``; ``not scoped``: all that the buffers hold is
        looked at; ``never pruned``: and they hold everything): ``events``, ``baseline``, ``makespan_us``,
        ``pairs_seen``, ``speedup`` of the fully dynamic hybrid over it.
    """
    rows = []
    for n in n_events:
        part = replace(workload, frame=workload.frame.iloc[:n])
        program, events = prepared(part, window_min or workload.windows_min[0])
        fast = Hybrid(threads=threads).simulate(program, events, costs=costs)
        for name, terms in (
            ("scoped", Terms(keep=False)),
            ("not scoped", Terms(keep=False, scoped=False, removal="window")),
            ("never pruned", Terms(keep=False, scoped=False, removal="never")),
        ):
            crew, own = Crew("sequential", 1), replace(costs, lock=0.0)
            run = simulate_agents(Agents(program, events), crew, terms, costs=own)
            rows.append(
                {
                    "events": events.n_events,
                    "baseline": name,
                    "makespan_us": run.makespan / 1e3,
                    "pairs_seen": int(run.looked.sum()),
                    "speedup": run.makespan / fast.makespan,
                }
            )
    return pd.DataFrame(rows)


def buffers(
    workload: Workload,
    *,
    window_min: float | None = None,
    threads: int = CORES,
    load: float = 8.0,
    allocation: str = "state_dynamic",
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return how full event and match buffers are, beside the models.

    Parameters
    ----------
    workload, window_min, threads, load, costs
        As of `paced`; None: the workload's third window.
    allocation : str
        Of the hybrid.

    Returns
    -------
    pandas.DataFrame
        A row per removal rule (``watermark``, ``window``), agent and ``buffer`` (``events``, ``partial
        matches``): ``mean`` and ``most`` items over the run; ``e·W`` and ``m·W/(i-1)``, what a window holds,
        in the column ``by_window``; ``by_delay``: events that arrive within the mean delay of a match (NaN
        for partial matches).

    Notes
    -----
    Source: HYPERSONIC, section IV-A: items stay for W + d and W - d, d being the delay of partial matches.
    """
    window_min = window_min or workload.windows_min[2]
    runs = _Runs([workload], costs)
    query = (workload.name, "SEQ", window_min, len(workload.types))
    program, events = runs.prepared(*query)
    (rates,) = agent_statistics(program, events)
    one = runs.sequential(*query)
    arrival = np.arange(events.n_events) * (one.makespan / events.n_events / load)
    rows = []
    for removal in ("watermark", "window"):
        engine = Hybrid(threads=threads, allocation=allocation, cost_model="measured", removal=removal)
        run = engine.simulate(program, events, costs=costs, arrival=arrival, trace=True)
        for a, of in enumerate(run.trace.agents_frame().to_dict("records")):
            c = rates.agents[a]
            n_own, n_partials = int(run.taken[a, 0]), int(run.taken[a, 1])
            share = rates.in_window[c] / max(1, n_own)  # of its events, in one window
            for name, short, n_items, left in (
                ("events", "event", n_own, 1),
                ("partial matches", "partial", n_partials, c),
            ):
                delay = run.mean_latency / run.makespan * n_own if short == "event" else np.nan
                rows.append(
                    {
                        "removal": removal,
                        "agent": of["agent"],
                        "buffer": name,
                        "mean": of[f"mean_{short}_buffer"],
                        "most": of[f"most_{short}_buffer"],
                        "by_window": n_items * share / left,
                        "by_delay": delay,
                    }
                )
    return pd.DataFrame(rows)


# --- allocation, fusion, bursts ---------------------------------------------------------------------------


def by_cost_model(
    workload: Workload,
    threads: Sequence[int],
    *,
    window_min: float | None = None,
    allocation: str = "state_dynamic",
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return how well each cost model divides threads among agents.

    Returns
    -------
    pandas.DataFrame
        A row per number of threads and model: ``threads``, ``cost_model``, ``threads_of_agents`` (text),
        ``speedup`` over the sequential run, ``idle_share``.
    """
    runs, rows = _Runs([workload], costs), []
    query = (workload.name, "SEQ", window_min or workload.windows_min[2], len(workload.types))
    program, events = runs.prepared(*query)
    for n in threads:
        for model in ("paper", "simplex", "measured"):
            engine = Hybrid(threads=n, allocation=allocation, cost_model=model)
            run = engine.simulate(program, events, costs=costs)
            rows.append(
                {
                    "threads": n,
                    "cost_model": model,
                    "threads_of_agents": " ".join(map(str, engine.crew(program, events).of_agent)),
                    "speedup": runs.sequential(*query).makespan / run.makespan,
                    "idle_share": run.idle_share,
                }
            )
    return pd.DataFrame(rows)


def fusion(
    workloads: Sequence[Workload],
    by: str,
    values: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    *,
    allocations: Sequence[str] = ("static", "state_dynamic"),
    threads: int = 10,
    costs: Costs = COSTS,
) -> pd.DataFrame:
    """Return what it brings to let two neighbouring agents share their threads: figure 10, simulated.

    The pair is the one with the least work, as counted.

    Parameters
    ----------
    workloads, values, costs
        As of `speedup`.
    by : str
        ``"window"`` or ``"threads"``.
    allocations : sequence of str
        Of the hybrid; with fully dynamic threads fusion saves queues only.
    threads : int
        Where ``by`` does not say otherwise.

    Returns
    -------
    pandas.DataFrame
        A row per point and allocation: ``data, window_min, threads, allocation``, ``fused`` (text),
        ``events_per_ms``, ``events_per_ms_fused``, ``gain`` (their ratio - 1).

    Notes
    -----
    Source: HYPERSONIC, sections VI-B and VII, figure 10: two of five agents.
    """
    runs = _Runs(workloads, costs)

    def point(data, pattern, window_min, threads, length, system) -> dict:
        query = (data, pattern, window_min, length)
        program, events = runs.prepared(*query)
        work = runs.sequential(*query).looked.sum(axis=1) + 1
        least = int(np.argmin(work[1:] + work[:-1]))
        pair = (VARIABLES[least + 1], VARIABLES[least + 2])
        apart = Hybrid(threads=threads, allocation=system, cost_model="measured")
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
    return sweep(point, points, progress=False).rename(columns={"system": "allocation"})


def bursts(
    shuffled: Sequence[float] = (0.0, 0.1, 0.3, 1.0),
    *,
    window_min: float = 45.0,
    threads: int = CORES,
    costs: Costs = COSTS,
    workload: Workload | None = None,
    seed: int = 7,
) -> pd.DataFrame:
    """Return how systems fare when the events of a pattern come close together, and when they do not.

    Parameters
    ----------
    shuffled : sequence of float
        Shares of the events whose activities, and what goes with them, change places at random: 0 leaves
        them in runs, 1 spreads them evenly.
    window_min, threads, costs
        As of `speedup`.
    workload : Workload, optional
        None: `sensors`.
    seed : int
        Of the shuffling.

    Returns
    -------
    pandas.DataFrame
        A row per share and system: ``shuffled, system, speedup, busiest_share`` (of the work, of one thread),
        ``sequential_us``, ``matches``.
    """
    workload = sensors() if workload is None else workload
    rows = []
    for share in shuffled:
        rng = np.random.default_rng(seed)
        frame = workload.frame.copy()
        moved = np.flatnonzero(rng.random(len(frame)) < share)
        columns = [workload.event_type, workload.value]
        frame.loc[moved, columns] = frame.loc[rng.permutation(moved), columns].to_numpy()
        frame[workload.event_type] = frame[workload.event_type].astype(workload.frame[columns[0]].dtype)
        made = speedup(
            [replace(workload, frame=frame)], "window", [window_min],
            patterns=("SEQ",), threads=threads, costs=costs,
        )  # fmt: skip
        made["sequential_us"] = made["speedup"] * made["makespan_us"]
        rows.append(made.assign(shuffled=share))
    columns = ["shuffled", "system", "speedup", "busiest_share", "sequential_us", "matches"]
    return pd.concat(rows, ignore_index=True)[columns]


# --- real threads -----------------------------------------------------------------------------------------


def measured(
    workload: Workload,
    threads: Sequence[int] = (1, 2),
    *,
    window_min: float | None = None,
    systems: Sequence[str] = (*COMPARED[:1], "RIP"),
    costs: Costs = COSTS,
    repetitions: int = 3,
) -> pd.DataFrame:
    """Return speed-ups on real threads beside those of virtual time.

    Parameters
    ----------
    workload, window_min, costs
        As of `by_cost_model`.
    threads : sequence of int
        No more than the machine has cores, to say something.
    systems : sequence of str
        Names of `SYSTEMS`.
    repetitions : int
        The fastest counts.

    Returns
    -------
    pandas.DataFrame
        A row per system and number of threads: ``system, threads, matches, same_matches, measured_ms,
        simulated_ms, measured_speedup, simulated_speedup``, over the sequential run of the same kind.
    """
    program, events = prepared(workload, window_min or workload.windows_min[2])

    def both(name: str, n: int) -> tuple[ParallelRun, float, float]:
        engine = _system(name)(n)
        found = [engine.run(program, events, keep=False) for _ in range(repetitions)]
        virtual = engine.simulate(program, events, costs=_costs_of(engine, costs))
        return found[0], min(run.makespan for run in found), virtual.makespan

    one, *sequential = both("sequential", 1)
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
                    "measured_ms": real / 1e6,
                    "simulated_ms": virtual / 1e6,
                    "measured_speedup": sequential[0] / real,
                    "simulated_speedup": sequential[1] / virtual,
                }
            )
    return pd.DataFrame(rows)
