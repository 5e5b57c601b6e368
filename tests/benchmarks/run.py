"""Print how fast matching is beside its peers; ``python tests/benchmarks/run.py --help``.

All figures of a table come from one run of one process on one thread; quote their ratios, not the times.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import peers

import cepkit as cep
from cepkit.compile.regex.program import compile_regex
from cepkit.datasets import PAPER_TRADES, trades
from cepkit.engines.regex.matching import advance, match_regex
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource

os.environ.setdefault("CEPKIT_TIER", "compiled")  # the figures are those of compiled kernels

FINANCE1 = {
    "rise": "price > first(price) and price >= prev(price)",
    "drop": "price >= first(price) and price < prev(price)",
    "deep": "price < first(price) and price < prev(price)",
}
LEAST, RISE_S, FLAT_S, SHARE, GAIN, AGE_S = 100, 1, 2, 0.0005, 1.015, 0.5
QUERIES = {
    "finance0": (
        "large rise+ drop",
        {"large": f"size > {LEAST}", "rise": "price > prev(price)", "drop": "price < prev(price)"},
    ),
    "finance1": (". rise+ drop+ rise+ drop* deep", FINANCE1),
    "finance2": (
        ". rise* riseEnd flat* flatEnd",
        {
            "rise": f"price >= prev(price) and delta(ts) < '{RISE_S} s'",
            "riseEnd": f"price >= prev(price) and delta(ts) >= '{RISE_S} s'",
            "flat": f"abs(price - prev(price)) <= {SHARE} * prev(price) and delta(ts) < '{FLAT_S} s'",
            "flatEnd": f"abs(price - prev(price)) <= {SHARE} * prev(price) and delta(ts) >= '{FLAT_S} s'",
        },
    ),
    "finance5": (
        ". notTooLong* largeIncrease",
        {
            "notTooLong": f"delta(ts) < '{AGE_S} s'",
            "largeIncrease": f"price > {GAIN} * first(price) and delta(ts) < '{AGE_S} s'",
        },
    ),
}


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, object]:
    """Return the median thread-CPU time of ``work`` after one warm-up, and its result."""
    result = work()
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        result = work()
        times.append(time.thread_time() - began)
    return statistics.median(times), result


class Table:
    """Rows of (what, events, seconds, matches), printed as they come."""

    def __init__(self) -> None:
        self.rows: list[dict] = []

    def add(self, what: str, n_events: int, cost_s: float, n_matches: int) -> float:
        rate = n_events / cost_s
        self.rows.append(
            {"what": what, "events": n_events, "seconds": cost_s, "events_per_s": rate, "matches": n_matches}
        )
        print(
            f"{what:<52} {n_events:>11,} {cost_s:>9.4f} s {rate / 1e6:>9.2f} M/s {n_matches:>9,}", flush=True
        )
        return rate


def prepared(frame: pd.DataFrame, name: str):
    """Return program and events of a benchmark, so that the kernel can be timed alone."""
    pattern, define = QUERIES[name]
    query = cep.regex_query(pattern, define=define, partition_by="symbol", order_by="ts")
    source = PandasSource(frame)
    program = compile_regex(query, source.schema)
    return program, build_events(source, program)


def same(found, first, last) -> None:
    """Stop when a peer found other matches."""
    assert np.array_equal(found[0], first) and np.array_equal(found[1], last), "the peer found other matches"


def kernels(frame: pd.DataFrame, repeats: int, table: Table, ratios: dict) -> None:
    twin = peers.c_twin()
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[np.datetime_data(frame["ts"].dtype)[0]]
    rates = {}
    for name in QUERIES:
        program, events = prepared(frame, name)
        cost, matches = seconds(
            lambda p=program, e=events: match_regex(p, e, threads=1, tier="compiled"), repeats
        )
        rates[name] = table.add(f"{name}: kernel", len(frame), cost, len(matches))
        if twin is not None and name in peers.TWINS:
            price, ticks = frame["price"].to_numpy(), frame["ts"].to_numpy().view(np.int64)
            own = {
                "finance0": (price, frame["size"].to_numpy(), LEAST),
                "finance1": (price,),
                "finance2": (price, ticks, RISE_S * per_s, FLAT_S * per_s, SHARE),
            }[name]
            arguments = (events.partition_of_event, events.n_partitions, *own)
            cost, found = seconds(lambda n=name, a=arguments: peers.call_twin(getattr(twin, n), *a), repeats)
            same(found, matches.first, matches.last)
            ratios[f"{name}: kernel / C twin"] = rates[name] / table.add(
                f"{name}: C twin", len(frame), cost, len(found[0])
            )
    ratios["finance5 / finance1"] = rates["finance5"] / rates["finance1"]
    program, events = prepared(frame, "finance1")
    inputs, kernel = program.inputs(events.columns), program.matching(program.inputs(events.columns))

    def in_chunks(size: int = 1000) -> int:
        state = kernel.new_state(events.n_partitions)
        first, _ = advance(kernel, state, events.partition_of_event, inputs, 0, events_per_call=size)
        return len(first)

    cost, found = seconds(in_chunks, repeats)
    ratios["finance1: chunks of 1,000 / whole"] = (
        table.add("finance1: chunks of 1,000", len(frame), cost, found) / rates["finance1"]
    )


def frames(frame: pd.DataFrame, repeats: int, table: Table, ratios: dict) -> None:
    pattern, define = QUERIES["finance1"]

    def whole(of: pd.DataFrame):
        return cep.match(of, pattern, define=define, partition_by="symbol", order_by="ts").to_frame()

    began = time.thread_time()
    found = peers.finance1_loop(frame)
    loop = table.add("finance1: loop in CPython", len(frame), time.thread_time() - began, len(found[0]))
    text = frame.assign(symbol=frame["symbol"].astype("str"))
    for kind, of in (("categorical", frame), ("string", text)):
        cost, result = seconds(lambda of=of: whole(of), repeats)
        assert len(result) == len(found[0])
        rate = table.add(f"finance1: frame to frame, {kind} key", len(frame), cost, len(result))
        ratios[f"finance1: frame, {kind} key / CPython loop"] = rate / loop
    cost, found = seconds(lambda: peers.finance0_numpy_re(frame, LEAST), 1)
    table.add("finance0: numpy and re (matches differ)", len(frame), cost, len(found[0]))


def many_keys(n_events: int, repeats: int, table: Table, ratios: dict, few: float) -> None:
    frame = trades(n_events, n_symbols=1_000_000, zipf=0, **PAPER_TRADES)
    program, events = prepared(frame, "finance1")
    cost, matches = seconds(lambda: match_regex(program, events, threads=1, tier="compiled"), repeats)
    name = f"finance1: {events.n_partitions:,} keys"
    ratios["finance1: 1 M keys / 390 keys"] = table.add(name, n_events, cost, len(matches)) / few


def duckdb_peer(frame: pd.DataFrame, table: Table, ratios: dict) -> None:
    pattern, define = QUERIES["finance1"]
    began = time.perf_counter()
    found = peers.finance1_duckdb(frame)
    theirs = table.add(
        "finance1: DuckDB, recursive query (wall)", len(frame), time.perf_counter() - began, len(found[0])
    )
    began = time.perf_counter()
    ours = cep.match(
        frame, pattern, define=define, partition_by="symbol", order_by="ts", measures={"n": "count()"}
    )
    rate = table.add(
        "finance1: cepkit, same frame (wall)", len(frame), time.perf_counter() - began, ours.count()
    )
    same(found, ours._found.whole.first, ours._found.whole.last)
    ratios["finance1: cepkit / DuckDB"] = rate / theirs


def threads(frame: pd.DataFrame, repeats: int, table: Table, ratios: dict) -> None:
    program, events = prepared(frame, "finance1")
    rates = []
    for n in (1, 2):
        times = []
        for _ in range(repeats + 1):
            began = time.perf_counter()
            matches = match_regex(program, events, threads=n, tier="compiled")
            times.append(time.perf_counter() - began)
        rates.append(
            table.add(
                f"finance1: kernel, {n} thread{'s' * (n > 1)} (wall)", len(frame), min(times), len(matches)
            )
        )
    ratios["finance1: 2 threads / 1 (wall, best)"] = rates[1] / rates[0]


MEMORY = """
import gc, os, sys, threading, time
os.environ["CEPKIT_THREADS"] = "1"
sys.path.insert(0, {folder!r})
import run
frame = run.trades(10_000, repetitions={repetitions}, **run.PAPER_TRADES)
pattern, define = run.QUERIES["finance1"]
search = lambda of: run.cep.match(of, pattern, define=define, partition_by="symbol", order_by="ts").count()
search(frame.head(100_000))
gc.collect()
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before, most, done = resident(), [0], threading.Event()

def watch():
    while not done.is_set():
        most[0] = max(most[0], resident())
        time.sleep(0.0005)

watcher = threading.Thread(target=watch)
watcher.start()
search(frame)
done.set()
watcher.join()
held = sum(frame[name].memory_usage(index=False, deep=False) for name in ("ts", "symbol", "price"))
print((most[0] - before) / held)
"""


def memory(repetitions: int, ratios: dict) -> None:
    """Peak memory beyond the frame as a multiple of the columns used; Linux only, in a process of its own."""
    if not sys.platform.startswith("linux"):
        return
    code = MEMORY.format(folder=str(Path(__file__).parent), repetitions=repetitions)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ratios["finance1: extra memory / columns used"] = float(run.stdout)


START = """
import time
import cepkit as cep, pandas as pd, numpy as np
rng = np.random.default_rng(0)
frame = pd.DataFrame({"ts": pd.date_range("2024", periods=10_000, freq="s"),
                      "symbol": rng.choice(["A", "B"], 10_000),
                      "price": rng.integers(90, 110, 10_000)})
rising = {"rise": "price > first(price)", "drop": "price < first(price) and price < prev(price)"}
low = {"low": "price < 95", "up": "price > prev(price)", "down": "price < prev(price) - 2"}
began = time.perf_counter()
frame.cep.match(". rise+ drop", define=rising, partition_by="symbol", order_by="ts").count()
first = time.perf_counter()
frame.cep.match("low up+ down", define=low, partition_by="symbol", order_by="ts").count()
print(first - began, time.perf_counter() - first)
"""


def start(ratios: dict) -> None:
    """Seconds of the first query of a process with a cold and a warm kernel cache, and of a second shape."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        for cache in ("cold", "warm"):
            environment = {**os.environ, "CEPKIT_CACHE": folder}
            run = subprocess.run(
                [sys.executable, "-c", START], env=environment, capture_output=True, text=True, check=True
            )
            first, second = map(float, run.stdout.split())
            ratios[f"first query, {cache} cache [s]"] = first
            ratios[f"second shape, {cache} cache [s]"] = second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repetitions", type=int, default=1000, help="of 10,000 trades (default: 1000, 10 M events)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed runs; the median counts")
    parser.add_argument("--out", type=Path, help="also write the figures there as JSON")
    parser.add_argument("--sequences", action="store_true", help="the table of event sequences instead")
    parser.add_argument("--parallel", action="store_true", help="the table of parallel engines instead")
    options = parser.parse_args()
    os.environ["CEPKIT_THREADS"] = "1"
    if options.sequences:
        import sequence_table

        sequence_table.run(options.repeats, options.out)
        return
    if options.parallel:
        import parallel_table

        parallel_table.run(options.repeats, options.out)
        return
    table, ratios = Table(), {}
    frame = trades(10_000, repetitions=options.repetitions, **PAPER_TRADES)
    kernels(frame, options.repeats, table, ratios)
    few = next(row["events_per_s"] for row in table.rows if row["what"] == "finance1: kernel")
    many_keys(len(frame), options.repeats, table, ratios, few)
    threads(frame, options.repeats, table, ratios)
    frames(frame, min(3, options.repeats), table, ratios)
    duckdb_peer(frame.head(1_000_000), table, ratios)
    memory(options.repetitions, ratios)
    start(ratios)
    print()
    for what, value in ratios.items():
        print(f"{what:<52} {value:>8.2f}")
    load = Path("/proc/loadavg").read_text().split()[0] if Path("/proc/loadavg").exists() else "?"
    print(f"\n{platform.python_version()}, {platform.machine()}, load {load}")
    if options.out:
        options.out.write_text(json.dumps({"table": table.rows, "ratios": ratios, "load": load}, indent=1))


if __name__ == "__main__":
    main()
