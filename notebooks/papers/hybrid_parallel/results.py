"""Tables of results for the HYPERSONIC paper's figures, for many seeds and recorded data.

`keep_results` computes them in virtual time and keeps them as CSV. `kept_results` reads them for claims.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from cepkit.errors import CepError, nearest
from papers.hybrid_parallel.details import ceilings, evaluations
from papers.hybrid_parallel.figures import (
    COMPARED,
    CORES,
    COSTS,
    COUNTED,
    FULL,
    ONE,
    OPEN_RIP,
    RIP_NAME,
    Runs,
    fusion,
    never_pruned,
    paced,
    speedup,
)
from papers.hybrid_parallel.workloads import (
    CHANGE,
    CORRELATION,
    PATTERNS,
    SENSORS,
    Workload,
    correlated,
    poisson,
    recorded_workloads,
    sensors,
    stocks,
)
from papers.tables import keep_table, kept_table

SEEDS = tuple(range(10))
LEAST_CORES = 10  # two threads for each of five agents
MORE_HOMES = (10, 11)  # homes without matches have no latency, so figure 7 needs further ones
FEWER_CORES = (LEAST_CORES, 16)
UNPRUNED = (2_500, 5_000, 10_000, 20_000, 40_000, 130_000)
# The paper's regime: windows with many matches, and threads divided by counts. The third window is usual.
REGIME = {CHANGE: (20.0, 30.0, 40.0), CORRELATION: (15.0, 20.0, 30.0)}
LEAST_MATCHES = 1_000  # points with fewer are not judged
JUDGED = (FULL, COUNTED, RIP_NAME, OPEN_RIP)
_UNPRUNED_DAYS = 32  # at every seed at least 130,000 events
_POINT = ["stream", "pattern", "window_min", "threads", "length", "system"]


def generated(seed: int) -> list[Workload]:
    """Return the workloads of one seed: stocks with both conditions, and sensors."""
    own = stocks(seed=seed)
    return [own, correlated(own), sensors(seed=seed)]


def speeds(workloads: Sequence[Workload], *, systems: Sequence[str] = COMPARED) -> pd.DataFrame:
    """Return the points of figures 6 and 9: speed by window, by cores and by the length of the pattern."""
    rows = []
    for own in workloads:
        for pattern in PATTERNS[:1] if own.condition == "corr" else PATTERNS:
            given = {"patterns": (pattern,), "systems": systems}
            windows = own.windows_min if pattern == "SEQ" else own.windows_min[:3]
            rows.append(speedup([own], "window", windows, **given))
            rows.append(speedup([own], "threads", FEWER_CORES, **given))
        rows.append(speedup([own], "length", (4, 5), patterns=("SEQ",), systems=systems))
    return pd.concat(rows, ignore_index=True)


def paces(workloads: Sequence[Workload], *, systems: Sequence[str] = (*COMPARED, ONE)) -> pd.DataFrame:
    """Return the points of figures 7 and 8: latency and memory at two rates."""
    rows = []
    for own in workloads:
        rows.append(paced([own], "window", own.windows_min[:3], systems=systems))
        rows.append(paced([own], "threads", FEWER_CORES, systems=systems, loads=(8.0,)))
    return pd.concat(rows, ignore_index=True)


def regime(workloads: Sequence[Workload]) -> pd.DataFrame:
    """Return the points of figures 6 to 8 in the paper's regime: speed, and latency and memory at load 8."""
    rows = []
    for short in (of for of in workloads if of.name in REGIME):
        own = replace(short, windows_min=REGIME[short.name])
        given = {"systems": JUDGED, "runs": Runs([own], COSTS)}
        for by, values in (("window", None), ("threads", FEWER_CORES), ("length", (4, 5))):
            rows.append(speedup([own], by, values, patterns=PATTERNS[:1], scoped_only=True, **given))
        given["systems"] = (*JUDGED, ONE)
        for by, values in (("window", None), ("threads", FEWER_CORES)):
            rows.append(paced([own], by, values, loads=(8.0,), **given))
    return pd.concat(rows, ignore_index=True)


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the regime that have enough matches, and all rows of other tables."""
    return rows[(rows["table"] != "regime") | (rows["matches"] >= LEAST_MATCHES)]


def gains(speeds: pd.DataFrame, system: str) -> pd.DataFrame:
    """Return how much faster fully dynamic threads are than a system, at each point: figure 9."""
    point = [name for name in ("data", "table", *_POINT[:-1]) if name in speeds]
    wide = speeds.pivot_table(index=[*point, "matches"], columns="system", values="speedup", sort=False)
    return (100 * (wide[FULL] / wide[system] - 1)).rename("percent").reset_index()


def fusions(
    workloads: Sequence[Workload], *, cost_models: Sequence[str] = ("paper", "measured")
) -> pd.DataFrame:
    """Return the points of figure 10: the gain of fusion on stocks by window, and by cores."""
    own = [workload for workload in workloads if workload.name != SENSORS]
    rows = []
    for model in cost_models if own else ():
        given = {"allocations": ("state_dynamic",), "cost_model": model}
        rows.append(fusion(own, "window", **given).assign(cost_model=model))
        rows.append(fusion(own, "threads", (12, 16, CORES), **given).assign(cost_model=model))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def limits(workloads: Sequence[Workload]) -> pd.DataFrame:
    """Return how close fully dynamic threads come to 24 times one thread, on price changes."""
    rows = [ceilings(own, window_min=own.windows_min[-1]) for own in workloads if own.name == CHANGE]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def along(table: pd.DataFrame, x: str) -> pd.DataFrame:
    """Return the rows on lines along ``x``, in order; other parameters keep their usual values."""
    # The usual values are the third window of a stream, six components, and 24 cores; ten cores for fusion.
    kept = []
    for _, rows in table.groupby("stream", sort=False):
        is_fusion = "fused" in rows and rows["fused"].notna().all()
        cores = LEAST_CORES if is_fusion else CORES
        usual = {"threads": cores, "length": 6, "window_min": sorted(rows["window_min"].unique())[2]}
        for name, value in usual.items():
            if name != x and name in rows and rows[name].notna().any():
                rows = rows[rows[name] == value]
        kept.append(rows)
    found = pd.concat(kept) if kept else table
    return found.sort_values(x, kind="stable")


def _by_data(
    of_workloads: Callable[[Sequence[Workload]], pd.DataFrame], seeds: Iterable[int], progress: Callable
) -> pd.DataFrame:
    """Return a table for every seed and for the recorded data that this machine has."""
    rows = []
    for seed in seeds:
        rows.append(of_workloads(generated(seed)).assign(data=f"seed {seed}"))
        progress(f"seed {seed}")
    for data, workloads in recorded_workloads().items():
        made = of_workloads(workloads)
        if len(made):
            rows.append(made.assign(data=data))
        progress(data)
    return pd.concat(rows, ignore_index=True)


def _speed(seeds, progress) -> pd.DataFrame:
    columns = ["data", *_POINT, "speedup", "speedup_not_scoped", "events_per_ms", "busiest_share", "matches"]
    return _by_data(speeds, seeds, progress)[columns]


def _pace(seeds, progress) -> pd.DataFrame:
    more = [
        paces([sensors(seed=seed)]).assign(data=f"seed {seed}")
        for seed in (MORE_HOMES if len(seeds) == len(SEEDS) else ())
    ]
    made = pd.concat([_by_data(paces, seeds, progress), *more])
    return made[["data", *_POINT, "load", "mean_latency_us", "most_kb"]]


def _regime(seeds, progress) -> pd.DataFrame:
    columns = ["data", *_POINT, "load", "matches", "speedup", "makespan_us", "mean_latency_us", "most_kb"]
    rows = []
    for seed in seeds:
        rows.append(regime(generated(seed)).assign(data=f"seed {seed}"))
        progress(f"seed {seed}")
    return pd.concat(rows, ignore_index=True)[columns]


def _fusion(seeds, progress) -> pd.DataFrame:
    columns = ["data", "stream", "cost_model", "window_min", "threads", "fused", "events_per_ms"]
    return _by_data(fusions, seeds, progress)[[*columns, "events_per_ms_fused", "gain"]]


def _never_pruned(seeds, progress) -> pd.DataFrame:
    rows = []
    for seed in seeds:
        made = never_pruned(stocks(n_days=_UNPRUNED_DAYS, seed=seed), UNPRUNED)
        rows.append(made.assign(data=f"seed {seed}"))
        progress(f"seed {seed}")
    for data, workloads in recorded_workloads(stock_days=_UNPRUNED_DAYS).items():
        if workloads[0].name != SENSORS:
            own = [n for n in UNPRUNED if n <= len(workloads[0].frame)]
            rows.append(never_pruned(workloads[0], own).assign(data=data))
            progress(data)
    return pd.concat(rows)[["data", "events", "baseline", "pairs_seen", "speedup"]]


def _model(seeds, progress) -> pd.DataFrame:
    made = [evaluations(poisson(seed=seed)).assign(data=f"seed {seed}") for seed in seeds]
    return pd.concat(made)[["data", "stream", "agent", "source", "per_second"]]


def _limits(seeds, progress) -> pd.DataFrame:
    return _by_data(limits, seeds, progress)[["data", "comparison_ns", "locks", "baseline", "speedup"]]


TABLES: Mapping[str, Callable] = {
    "speed": _speed,
    "pace": _pace,
    "regime": _regime,
    "fusion": _fusion,
    "never_pruned": _never_pruned,
    "model": _model,
    "limits": _limits,
}


def compute_results(
    name: str, seeds: Sequence[int] = SEEDS, progress: Callable[[str], object] = str
) -> pd.DataFrame:
    """Return one table of results, a row per measurement; column ``data`` names the seed or recorded data."""
    if name not in TABLES:
        raise CepError(f"results {name!r} do not exist.{nearest(name, TABLES)} There are {list(TABLES)}")
    return TABLES[name](seeds, progress)


def file_of(folder: str | os.PathLike, name: str) -> Path:
    """Return the file of a kept table."""
    return Path(folder, f"hybrid_{name}.csv")


def keep_results(folder: str | os.PathLike, names: Sequence[str] = tuple(TABLES)) -> None:
    """Compute tables of results and keep them; all take about half an hour on one core."""
    for name in names:
        call = f'papers.hybrid_parallel.results.keep_results("results", ["{name}"])'
        keep_table(compute_results(name), file_of(folder, name), call)


def kept_results(folder: str | os.PathLike) -> pd.DataFrame:
    """Return all kept tables in one frame for `papers.claims.examine`."""
    return join_results({name: kept_table(file_of(folder, name)) for name in TABLES})


def join_results(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return tables of `compute_results` in one frame; column ``table`` has the name of each row's table."""
    return pd.concat([table.assign(table=name) for name, table in tables.items()], ignore_index=True)
