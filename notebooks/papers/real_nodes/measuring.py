"""Measure the queries of the thesis on real nodes: order, latency, error, memory and speed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from papers.real_nodes.deploying import Deployment, RealRun, run
from papers.tables import keep_table

FILE = "real_nodes.csv"
COLUMNS = ("figure", "measure", "series", "x", "value")
SINGLE, SCALED, SLACK = "1 node", "5 nodes", "5 nodes, K-Slack"
RUNS = 3
RATE_HZ = 1_000.0  # as in the thesis
SKIPPED_S, COUNTED_S = 7.0, 8.0  # compilation and full windows come first; then the results count
WINDOW_S, PATTERN_S = 4, 3
LENGTHS = {SINGLE: 100, SCALED: 500, SLACK: 500}  # events of each window of the join, as in table 5.2
SYMBOLS, CARDS = 50, 100
FULL_MB = 10  # memory limit of nodes that hold events until it is full
ORDER = "#reorder:kslack(sent)"
REPLICATED, LATER = "6 nodes", "6 nodes, later events only"
Errors = Callable[[RealRun, pd.DataFrame, pd.DataFrame], dict[str, float]]


def windows(
    system: str, window: str = f"{WINDOW_S} sec", *, heap_mb: int = 64, n_nodes: int = 4
) -> Deployment:
    """Return query 4.4 on one node, or queries 4.5 and 4.6 on several."""
    nodes = {"time-window": 1} if system == SINGLE else {"aggregation": 1, "time-window-part": n_nodes}
    texts = {"nodes": list(nodes)[-1], "window": window, "slack": ORDER * (system == SLACK)}
    return Deployment("windows.siddhi", nodes, texts, heap_mb=heap_mb)


def joins(system: str) -> Deployment:
    """Return query 4.11 on one node, or on a grid of four nodes with a gather."""
    if system == SINGLE:
        return Deployment("joins.siddhi", {"join": 1}, {"to": "consumer", "window": str(LENGTHS[SINGLE])})
    texts = {"to": "aggregation", "window": str(LENGTHS[system] // 2), "slack": ORDER * (system == SLACK)}
    return Deployment("joins.siddhi", {"aggregation": 1, "join": 4}, texts)


def patterns(system: str) -> Deployment:
    """Return query 4.8 on one node, or queries 4.9 and 4.10 on two nodes for each state."""
    texts = {"window": f"{PATTERN_S} sec", "ms": f"{1000 * PATTERN_S}"}
    if system == SINGLE:
        return Deployment("patterns.siddhi", {"pattern": 1}, texts, "publisher-of-one")
    texts["later"] = " and a.initial < sent" if system == LATER else ""
    return Deployment("patterns.siddhi", {"pattern3": 2, "pattern2": 2, "pattern1": 2}, texts)


def stock_events(n: int, seed: int) -> pd.DataFrame:
    """Return quotes with equal prices and random volumes."""
    volume = np.random.default_rng(seed).integers(1, 1000, n)
    return pd.DataFrame({"stream": "StockEventStream", "symbol": "WSO2", "price": "1.0f", "volume": volume})


def join_events(n: int, seed: int) -> pd.DataFrame:
    """Return quotes of two streams in turn. Each stream goes to its two halves in turn."""
    rng = np.random.default_rng(seed)
    stream = np.array(["StreamA0", "StreamB0", "StreamA1", "StreamB1"])[np.arange(n) % 4]
    symbol, price = rng.integers(0, SYMBOLS, n).astype(str), rng.integers(1, 1000, n).astype(str)
    return pd.DataFrame(
        {"stream": stream, "symbol": np.char.add("S", symbol), "price": np.char.add(price, "f")}
    )


def card_events(n: int, seed: int, system: str) -> pd.DataFrame:
    """Return purchases. A third of them is large."""
    rng = np.random.default_rng(seed)
    large, card = rng.random(n) < 1 / 3, rng.integers(0, CARDS, n).astype(str)
    stream = "CardStream" if system == SINGLE else np.where(large, "LargeStream", "SmallStream")
    amount = np.where(large, "20000f", "50f")
    return pd.DataFrame(
        {"stream": stream, "card": np.char.add("C", card), "amount": amount, "location": "here"}
    )


def window_errors(ran: RealRun, events: pd.DataFrame, results: pd.DataFrame) -> dict[str, float]:
    """Return how far sums of equal weights and means of random ones are from those of an ideal node."""
    at = ran.sent // 1000  # Siddhi has milliseconds
    last = np.searchsorted(ran.sent, results["sent"])
    first = np.searchsorted(at, at[last] - 1000 * WINDOW_S, "right")
    total = np.concatenate([[0], events["volume"].to_numpy().cumsum()])
    count = last + 1 - first
    return {
        "error, equal weights": _error(results["totalPrice"], count),
        "error, random weights": _error(results["avgVolume"], (total[last + 1] - total[first]) / count),
    }


def join_errors(ran: RealRun, events: pd.DataFrame, results: pd.DataFrame, length: int) -> dict[str, float]:
    """Return how far the last count and the last sum of each event are from those of an ideal node."""
    symbol = events["symbol"].str[1:].astype(int).to_numpy()
    weight = np.where(events["stream"].str.startswith("StreamA"), events["price"].str[:-1].astype(float), 1.0)
    n_events, weights = np.zeros((2, SYMBOLS)), np.zeros((2, SYMBOLS))
    count, total = np.zeros(len(ran.sent)), np.zeros(len(ran.sent))
    for i in range(len(ran.sent)):  # even events are of one stream, and odd ones of the other
        for event, step in ((i, 1), (i - 2 * length, -1)):
            if event >= 0:
                n_events[i % 2, symbol[event]] += step
                weights[i % 2, symbol[event]] += step * weight[event]
        count[i], total[i] = n_events[0] @ n_events[1], weights[0] @ weights[1]
    final = results.drop_duplicates("sent", keep="last")
    at = np.searchsorted(ran.sent, final["sent"])
    return {
        "error, equal weights": _error(final["countEvents"], count[at]),
        "error, random weights": _error(final["sumPrice"], total[at]),
    }


def pattern_errors(ran: RealRun, events: pd.DataFrame, results: pd.DataFrame) -> dict[str, float]:
    """Return the shares of lost and of extra matches, beside those of an ideal node."""
    is_large, wanted = events["amount"].eq("20000f").to_numpy(), set()
    for rows in events.iloc[: len(ran.sent)].groupby("card").indices.values():
        small, large = ran.sent[rows[~is_large[rows]]], ran.sent[rows[is_large[rows]]]
        last = np.searchsorted(large, small[1:])
        in_time = (last < len(large)) & (np.append(large, 0)[last] - small[:-1] <= 1_000_000 * PATTERN_S)
        wanted |= set(zip(small[:-1][in_time], large[last[in_time]], strict=True))
    found = set(zip(results["initial"], results["sent"], strict=True))
    wanted = {match for match in wanted if results["sent"].min() <= match[1] <= results["sent"].max()}
    n_extra = len(results) - len(wanted & found)
    return {"lost": len(wanted - found) / len(wanted), "extra": n_extra / len(wanted)}


def _error(values: pd.Series, right: np.ndarray) -> float:
    return float((np.abs(values - right) / np.maximum(right, 1e-12)).mean())


def order_and_latency(results: pd.DataFrame) -> dict[str, float]:
    """Return the order of results at the consumer, and the times from sending to arrival."""
    delay_ms = (results["sent"].cummax() - results["sent"]) / 1e3
    latency_ms = (results["arrival"] - results["sent"]) / 1e3
    return {
        "out_of_order": float((delay_ms > 0).mean()),
        "most_delay_ms": float(delay_ms.max()),
        "latency_ms": float(latency_ms.mean()),
        "latency_p50_ms": float(latency_ms.median()),
        "latency_p99_ms": float(latency_ms.quantile(0.99)),
    }


def experiments(seed: int) -> Iterator[tuple[str, str, Deployment, pd.DataFrame, Errors]]:
    """Yield the table, the system, the deployment, the events and the test of each experiment."""
    n = int(RATE_HZ * (SKIPPED_S + COUNTED_S))
    for system in (SINGLE, SCALED, SLACK):
        yield ("table 5.1", system, windows(system), stock_events(n, seed), window_errors)
    for system, length in LENGTHS.items():
        errors = partial(join_errors, length=length)
        yield ("table 5.2", system, joins(system), join_events(n, seed), errors)
    for system in (SINGLE, REPLICATED, LATER):
        yield ("pattern", system, patterns(system), card_events(n, seed, system), pattern_errors)


def measure(class_path: str, seed: int) -> Iterator[tuple]:
    """Yield the measures of one run of each experiment, and of windows that grow until a node ends."""
    for table, system, deployment, events, errors in experiments(seed):
        ran = run(class_path, deployment, events, RATE_HZ, seconds=SKIPPED_S + COUNTED_S + 1)
        start, end = ran.sent[0] + 1e6 * SKIPPED_S, ran.sent[-1] - 1e6
        results = ran.results[ran.results["sent"].between(start, end)]
        measures = order_and_latency(results) | errors(ran, events, results)
        for name, value in measures.items():
            yield table, name, system, sum(deployment.nodes.values()), value
    for n_nodes in (1, 2, 4):
        system = SINGLE if n_nodes == 1 else SCALED
        deployment = windows(system, "1 hour", heap_mb=FULL_MB, n_nodes=n_nodes)
        ran = run(class_path, deployment, stock_events(400_000, seed), 0.0, seconds=40)
        arrival = ran.results["arrival"].to_numpy()
        yield "memory", "events_held", "window nodes", n_nodes, len(arrival) if ran.ended else float("nan")
        yield (
            "memory",
            "results_per_s",
            "window nodes",
            n_nodes,
            1e6 * len(arrival) / (arrival[-1] - arrival[0]),
        )


def keep_results(class_path: str, folder: str | os.PathLike = "results") -> None:
    """Measure and write the table to a folder."""
    tables = []
    for seed in range(RUNS):
        tables.append(pd.DataFrame(measure(class_path, seed), columns=list(COLUMNS)))
        tables[-1].insert(0, "data", f"run {seed}")
    made_by = 'python -m papers.real_nodes.measuring "$(cd ..; python -m tests.support.peers siddhi4)"'
    keep_table(pd.concat(tables), Path(folder, FILE), made_by)


if __name__ == "__main__":
    keep_results(sys.argv[1])
