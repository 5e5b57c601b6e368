"""Figures 5.1 to 5.20 and tables 5.1 and 5.2 of the thesis as one tidy frame, from simulated nodes.

A row has ``figure``, ``measure``, ``series``, ``x`` and ``value``. The thesis counts the gather as a node.
So does ``x`` where it is a number of nodes: 3 nodes are two window nodes and a gather.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd

from cepkit.datasets.constant_rate import stock_ticks
from cepkit.scaleout.k_slack import order_metrics
from papers.recorded import recorded
from papers.scatter_gather.nodes import ClusterSetting, NodeKind, NodeLink, ServiceCosts, capacity_for
from papers.scatter_gather.simulated import (
    ArrivingPartials,
    accuracy,
    card_stream,
    join_partials,
    longest_join,
    longest_pattern,
    longest_window,
    simulate_join,
    simulate_pattern,
    simulate_window,
    slack_order,
    window_partials,
)

SINGLE, SCALED, SLACK = "1 node", "5 nodes", "5 nodes, K-Slack"
MEASURES = {
    "out_of_order": ("out of order, %", 100.0),
    "most_delay_ms": ("greatest delay, ms", 1.0),
    "latency_ms": ("mean latency, ms", 1.0),
    "latency_p50_ms": ("median latency, ms", 1.0),
    "latency_p99_ms": ("99 % of latencies below, ms", 1.0),
    "error": ("error, %", 100.0),
}


def paper_numbers() -> pd.DataFrame:
    """Return the numbers in the text of the thesis (sections 5.3 and 5.4) on its figures and tables."""
    return pd.read_csv(Path(__file__).with_name("printed.csv"), dtype={"figure": str})


def beside_paper(simulated: pd.DataFrame, real: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return table 5.1 or 5.2 as printed, from real nodes, and simulated: medians of runs and of seeds."""
    seeds = simulated[simulated["data"].str.startswith("seed")]
    sources = {"thesis": paper_numbers(), "real": real, "simulated": seeds}
    rows = pd.concat(sources, names=["source", None]).reset_index()
    rows[["measure", "kind"]] = rows["measure"].str.split(", ", expand=True)
    is_error = rows["measure"].eq("error") & rows["kind"].notna()
    # Order and latency do not depend on the weights, so one row says them.
    is_shown = is_error | rows["kind"].isna() | rows["kind"].eq(EQUAL)
    rows.loc[is_error, "source"] += ", " + rows["kind"]
    rows = rows[is_shown & rows["figure"].eq(name) & rows["measure"].isin(list(MEASURES))]
    rows = rows.sort_values("measure", key=lambda column: column.map(list(MEASURES).index), kind="stable")
    words, factors = zip(*rows["measure"].map(MEASURES), strict=True)
    table = rows.assign(measure=words, value=rows["value"] * np.array(factors)).pivot_table(
        index=["measure", "source"], columns="series", values="value", aggfunc="median", sort=False
    )
    return table[[SINGLE, SCALED, SLACK]].map(lambda value: float(f"{value:.3g}"))


COLUMNS = ("figure", "measure", "series", "x", "value")
USABLE = 32_500.0  # events that a busy single node holds: it runs 30 s windows and is killed at 35 s
PATTERN_CAPACITY = 3_500.0  # partial matches: a single node runs patterns of 3 s
LARGE_CAPACITY, SMALL_LENGTH = 12_000.0, 20
JOIN_CAPACITY = 200.0  # events of both windows: a single node joins two windows of 100 events
GARBAGE = 0.5
LATENCY_WINDOW_S = 15.0005  # no multiple of the distance of events: expiries do not meet arrivals
NO_GARBAGE, WITH_GARBAGE = "no garbage", "with garbage"
MEMORY_BOUND, WORK_BOUND = "limited by memory", "limited by work"
LAYOUTS = {"single": ("1 node", 1), "states": ("by state", 3), "replicated": ("replicated", 6)}
EVENTS_ONLY, WITH_MATCHES = "events", "events and partial matches"
EQUAL, RANDOM, GROUPED = "equal weights", "random weights", "50 symbols"
Row = tuple[str, str, str, float, float]


@dataclass(frozen=True, slots=True)
class FigureSizes:
    """How large the experiments are."""

    nodes: tuple[int, ...] = (1, 2, 4, 8, 16)  # window and join nodes, without the gather; 1 means no gather
    # Simulated minutes of the longest windows. Joins have a third of it and patterns a tenth, because they
    # are in their steady state sooner.
    minutes: float = 20.0
    # Windows of figures 5.1 to 5.3.
    intervals_s: tuple[int, ...] = (5, 15, 30, 35, 60, 70, 120, 140, 240, 270)
    squares: tuple[int, ...] = (1, 4, 9)  # join nodes of figures 5.16, 5.17 and 5.20
    accuracy_s: float = 120.0  # simulated seconds of tables 5.1 and 5.2 after windows are full


FULL = FigureSizes()


def with_gather(n_nodes: int) -> int:
    """Return the number of nodes as the thesis counts them."""
    return n_nodes + 1 if n_nodes > 1 else 1


def window_setting(
    seed: int, garbage: float = GARBAGE, *, by: str = "time", duration_s: float = 1_200.0
) -> ClusterSetting:
    """Return the setting of windows: half a CPU, and a memory that is full between 30 and 35 seconds."""
    setting = ClusterSetting(seed=seed, duration_s=duration_s)
    costs = setting.costs
    expiry = costs.expiry_us if by == "time" else costs.expiry_us / 3
    busy = setting.rate_hz * (costs.arrival_us + costs.emit_us + expiry) / 1e6 / setting.node.cpu
    return setting.with_node(capacity_events=capacity_for(USABLE, garbage, busy), garbage_share=garbage)


def join_setting(seed: int, capacity: float, probe_us: float, duration_s: float) -> ClusterSetting:
    """Return the setting of joins: a whole CPU."""
    link = NodeLink(pause_share=0.016, pause_mean_ms=4.0)
    return ClusterSetting(
        NodeKind(1.0, capacity), ServiceCosts(probe_us=probe_us), gather_link=link,
        duration_s=duration_s, seed=seed,
    )  # fmt: skip


# --- windows ------------------------------------------------------------------------------------------------


def by_interval(seed: int, sizes: FigureSizes = FULL) -> Iterator[Row]:
    """Yield the points of figures 5.1 to 5.3: throughput, memory and work by the window. Dead nodes: 0."""
    for n in sizes.nodes:
        for interval in sizes.intervals_s:
            setting = window_setting(seed, duration_s=max(60.0, 10.0 * ceil(0.13 * interval)))
            run = simulate_window(n, setting, interval_s=interval)
            series = f"{with_gather(n)} nodes" if n > 1 else "1 node"
            yield "5.1", "throughput_hz", series, interval, run.throughput_hz
            if run.works:
                own = run.stages().iloc[0]
                yield "5.2", "held", series, interval, own["held"]
                yield "5.3", "utilisation", series, interval, own["utilisation"]


def longest_windows(seed: int, sizes: FigureSizes = FULL) -> Iterator[Row]:
    """Yield the points of figures 5.4 to 5.9: the longest windows, and the nodes at these windows."""
    for series, garbage in ((NO_GARBAGE, 0.0), (WITH_GARBAGE, GARBAGE)):
        for n in sizes.nodes:
            x, duration_s = with_gather(n), 60 * sizes.minutes
            setting = window_setting(seed, garbage, duration_s=duration_s)
            longest = longest_window(n, setting, by="time")
            run = simulate_window(n, setting, interval_s=longest)
            own = run.stages().iloc[0]
            yield "5.4", "interval_s", series, x, longest
            yield "5.5", "throughput_hz", series, x, run.throughput_hz
            yield "5.6", "held", series, x, own["held"]
            yield "5.7", "bandwidth_hz", series, x, own["in_hz"] + own["out_hz"]
            yield "5.8", "utilisation", series, x, own["utilisation"]
            setting = window_setting(seed, garbage, by="length", duration_s=duration_s)
            yield "5.9", "length", series, x, longest_window(n, setting, by="length", step=100)


# --- patterns -----------------------------------------------------------------------------------------------


def patterns(seed: int, sizes: FigureSizes = FULL) -> Iterator[Row]:
    """Yield the points of figures 5.10 to 5.13: the longest patterns, and the nodes at these patterns."""
    setting = ClusterSetting(NodeKind(1.0, PATTERN_CAPACITY), duration_s=6 * sizes.minutes, seed=seed)
    for figure, workload in (("5.10", "worst"), ("5.11", "average")):
        stream = card_stream(setting, workload)
        for layout, (series, x) in LAYOUTS.items():
            longest = longest_pattern(layout, setting, stream)
            yield figure, "interval_s", series, x, longest
            if workload == "average":
                yield from _pattern_nodes(simulate_pattern(layout, setting, stream, longest).stages(), x)


def _pattern_nodes(stages: pd.DataFrame, x: int) -> Iterator[Row]:
    weight, comes, goes = (stages[name].to_numpy(np.float64) for name in ("nodes", "in_hz", "out_hz"))
    matches = np.concatenate([[0.0], goes[:-1] * weight[:-1] / weight[1:]])
    for series, values in ((EVENTS_ONLY, comes - matches), (WITH_MATCHES, comes)):
        yield "5.12", "bandwidth_hz", series, x, float(np.average(values, weights=weight))
    works, held = stages["utilisation"].tolist(), stages["held"].tolist()
    for stage, of_stage, in_memory in zip(stages["stage"].tolist(), works, held, strict=True):
        yield "5.13", "utilisation", stage, x, of_stage
        yield "5.11, memory", "held", stage, x, in_memory
    if len(stages) > 1:
        yield ("5.13", "utilisation", "all states", x, float(np.average(works, weights=weight)))


# --- joins --------------------------------------------------------------------------------------------------


def joins(seed: int, sizes: FigureSizes = FULL) -> Iterator[Row]:
    """Yield the points of figures 5.14 to 5.17: the longest windows of joins, and their bandwidth."""
    setting = join_setting(seed, LARGE_CAPACITY, 0.005, 20 * sizes.minutes)
    for n in [of for of in sizes.nodes if of <= 8]:
        longest = longest_join(n, setting, small=SMALL_LENGTH, step=100)
        yield "5.14", "length", "20 events beside it", with_gather(n), longest
        short = replace(setting, duration_s=30.0)
        rate = simulate_join(n, short, (longest, SMALL_LENGTH)).input_hz("join")
        yield "5.15", "bandwidth_hz", "20 events beside it", with_gather(n), rate
    for series, capacity, probe_us in ((MEMORY_BOUND, JOIN_CAPACITY, 0.005), (WORK_BOUND, 1e9, 4.0)):
        setting = join_setting(seed, capacity, probe_us, 60.0)
        for n in sizes.squares:
            longest = longest_join(n, setting, layout="grouped")
            run = simulate_join(n, setting, (longest, longest), layout="grouped")
            yield "5.16", "length", series, with_gather(n), longest
            yield "5.17", "bandwidth_hz", series, with_gather(n), run.input_hz("join")


# --- latency and accuracy -----------------------------------------------------------------------------------


def latencies(seed: int, sizes: FigureSizes = FULL) -> Iterator[Row]:
    """Yield the points of figures 5.18 to 5.20: the mean latency by the number of nodes."""
    for n in sizes.nodes:
        setting = window_setting(seed, duration_s=24 * sizes.minutes)
        timed = simulate_window(n, setting, interval_s=LATENCY_WINDOW_S)
        yield "5.18", "latency_ms", "time window", with_gather(n), timed.mean_latency_ms
        counted = simulate_window(n, setting, length=15_000)
        yield "5.18", "latency_ms", "length window", with_gather(n), counted.mean_latency_ms
    setting = ClusterSetting(NodeKind(1.0, PATTERN_CAPACITY), duration_s=120.0, seed=seed)
    stream = card_stream(setting, "fraud")
    layouts = [("single", 1, 1), ("states", 1, 3), *(("replicated", k, 3 * k) for k in (2, 3))]
    for layout, replicas, x in layouts:
        run = simulate_pattern(layout, setting, stream, 3.0, replicas=replicas)
        yield "5.19", "latency_ms", "pattern", x, run.mean_latency_ms
    setting = join_setting(seed, 1e9, 0.005, 60.0)
    for n in [of for of in sizes.nodes if of <= 8]:
        run = simulate_join(n, setting, (10_000 * n, SMALL_LENGTH))
        yield "5.20", "latency_ms", "small and large window", with_gather(n), run.mean_latency_ms
    setting = join_setting(seed, 1e9, 0.5, 60.0)
    for n in sizes.squares:
        run = simulate_join(n, setting, (100 * n, 100 * n), layout="grouped")
        yield "5.20", "latency_ms", "two large windows", with_gather(n), run.mean_latency_ms


def accuracies(seed: int, sizes: FigureSizes = FULL) -> Iterator[Row]:
    """Yield tables 5.1 and 5.2 with equal and with random weights, and windows with groups by symbol."""
    full_s = 120.0
    setting = window_setting(seed, duration_s=full_s + sizes.accuracy_s)
    for variant, symbols, equal in ((EQUAL, 1, True), (RANDOM, 1, False), (GROUPED, 50, True)):
        ticks = stock_ticks(len(setting.times()), n_symbols=symbols, equal_weights=equal, seed=seed)
        weight, group = ticks["price"].to_numpy() * 100, ticks["symbol"].cat.codes.to_numpy(np.int64)
        made = {
            1: window_partials(1, _without_gather(setting), 15.0, weight, group),
            4: window_partials(4, setting, full_s, weight, group),
        }
        yield from _table("table 5.1", variant, setting, made, full_s + 1)
    setting = join_setting(seed, 1e9, 0.5, sizes.accuracy_s)
    for variant, equal in ((EQUAL, True), (RANDOM, False)):
        weight = stock_ticks(len(setting.times()), equal_weights=equal, seed=seed)["price"].to_numpy() * 100
        made = {
            1: join_partials(1, _without_gather(setting), 100, weight),
            4: join_partials(4, setting, 500, weight),
        }
        yield from _table("table 5.2", variant, setting, made, 2.0)


def _without_gather(setting: ClusterSetting) -> ClusterSetting:
    """Return a setting in which results go straight to the consumer."""
    return replace(setting, gather_link=setting.link)


def _table(
    name: str,
    variant: str,
    setting: ClusterSetting,
    made: dict[int, tuple[ArrivingPartials, np.ndarray]],
    from_s: float,
) -> Iterator[Row]:
    for system, n, slack in ((SINGLE, 1, False), (SCALED, 4, False), (SLACK, 4, True)):
        found = accuracy(*made[n], setting, from_s=from_s, slack=slack)
        if n == 1:  # its results go to the consumer, and there is no gather
            found |= {"out_of_order": 0.0, "most_delay_ms": 0.0}
            found["latency_ms"] = float((made[n][0].arrival - made[n][0].sent).mean() * 1e3)
        for measure, value in found.items():
            yield name, f"{measure}, {variant}", system, n, value


# --- all ----------------------------------------------------------------------------------------------------

PARTS = (by_interval, longest_windows, patterns, joins, latencies, accuracies)


def measure(seed: int, sizes: FigureSizes = FULL) -> pd.DataFrame:
    """Return all points of all figures and tables for one seed."""
    rows = [row for part in PARTS for row in part(seed, sizes)]
    made = pd.DataFrame(rows, columns=list(COLUMNS))
    made.insert(0, "data", f"seed {seed}")
    return made


def recorded_order() -> pd.DataFrame:
    """Return the order of recorded trades of a crypto exchange as they arrived, and after K-Slack."""
    # The file has the order of arrival and no moments. An event is taken to arrive at the latest time so far.
    ts = recorded("crypto trades")["ts"].to_numpy().astype("datetime64[us]").astype(np.int64) / 1e6
    ts = ts - ts[0]
    arrival = np.maximum.accumulate(ts)
    order, released = slack_order(ts.tobytes(), arrival.tobytes())
    rows = []
    for system, times, delay in ((SCALED, ts, arrival - ts), (SLACK, ts[order], released - ts)):
        found = {
            "out_of_order": order_metrics(times).out_of_order_share,
            "most_delay_ms": 1e3 * order_metrics(times).max_delay,
            "latency_ms": 1e3 * float(delay.mean()),
        }
        rows += [("table 5.1", f"{of}, recorded", system, 4.0, value) for of, value in found.items()]
    made = pd.DataFrame(rows, columns=list(COLUMNS))
    made.insert(0, "data", "Coinbase trades")
    return made


def measure_seeds(seeds: Iterable[int], sizes: FigureSizes = FULL) -> pd.DataFrame:
    """Return the points of several seeds in one frame."""
    return pd.concat([measure(seed, sizes) for seed in seeds], ignore_index=True)
