"""How fast the kernels of regex queries are, beside the same search by hand in C; ``run.py kernels``.

The events are prepared, and one thread runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import peers
from cases import BY_SYMBOL, LARGE, LEAST_SIZE, M_SHAPE, M_SHAPE_DEFINE, paper_trades
from rows import Measured, Options, Row, beside, in_turns

import cepkit as cep
from cepkit.compile.regex.program import compile_regex
from cepkit.engines.regex import advance, match_regex
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource

RISE_S, FLAT_S, SHARE, GAIN, AGE_S = 1, 2, 0.0005, 1.015, 0.5
QUERIES = {
    "finance0": ("large rise+ drop", LARGE),
    "finance1": (M_SHAPE, M_SHAPE_DEFINE),
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


def _beside_twin(name: str, frame: pd.DataFrame, repeats: int) -> Iterator[Row]:
    query = cep.regex_query(QUERIES[name][0], define=QUERIES[name][1], **BY_SYMBOL)
    source = PandasSource(frame)
    program = compile_regex(query, source.schema)
    events = build_events(source, program)
    works = [lambda: match_regex(program, events, threads=1, tier="compiled")]
    twin = peers.c_twin() if name in peers.TWINS else None
    if twin is not None:
        per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[np.datetime_data(frame["ts"].dtype)[0]]
        price, ticks = frame["price"].to_numpy(), frame["ts"].to_numpy().view(np.int64)
        columns = {
            "finance0": (price, frame["size"].to_numpy(), LEAST_SIZE),
            "finance1": (price,),
            "finance2": (price, ticks, RISE_S * per_s, FLAT_S * per_s, SHARE),
        }[name]
        arguments = (events.partition_of_event, events.n_partitions, *columns)
        works.append(lambda: peers.call_twin(getattr(twin, name), *arguments))
    (cost, matches), *theirs = in_turns(repeats, *works)
    for _, (first, last) in theirs:
        assert np.array_equal(matches.first, first) and np.array_equal(matches.last, last), "the twin differs"
    what = f"{name}: {len(frame):,} events, {len(matches):,} matches"
    yield beside(what, cost, "", *(("C twin", theirs[0][0]) if theirs else ()))
    if name == "finance1":
        inputs = program.inputs(events.columns)
        kernel = program.matching(inputs)

        def in_chunks(size: int = 1000) -> int:
            state = kernel.new_state(events.n_partitions)
            first, _ = advance(kernel, state, events.partition_of_event, inputs, 0, events_per_call=size)
            return len(first)

        (chunks, _), (whole, _) = in_turns(repeats, in_chunks, works[0])
        yield beside(f"{what}, in chunks of 1,000", chunks, "", "whole", whole)


_MEMORY = """
import gc, os, sys, threading, time
os.environ["CEPKIT_THREADS"] = "1"
sys.path.insert(0, {folder!r})
import cepkit as cep
from cases import BY_SYMBOL, M_SHAPE, M_SHAPE_DEFINE, paper_trades
frame = paper_trades({rows})
search = lambda of: cep.match(of, M_SHAPE, define=M_SHAPE_DEFINE, **BY_SYMBOL).count()
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


def _memory(n_rows: int) -> Iterator[Row]:
    """Yield the greatest memory beyond the frame as a multiple of the columns used; Linux only."""
    if sys.platform.startswith("linux"):
        code = _MEMORY.format(folder=str(Path(__file__).parent), rows=n_rows)
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        yield Row(f"memory: {n_rows:,} events", {"of the columns used": float(run.stdout)})


def table(options: Options) -> Iterator[Measured]:
    """Kernels of regex queries beside C, a kernel in chunks, and the memory of a query."""
    for n_rows in options.rows or (1_000_000,):
        for name in QUERIES:
            if options.wants(f"kernels {name}"):
                yield lambda name=name, n=n_rows: _beside_twin(name, paper_trades(n), options.rounds)
        if options.wants("kernels memory"):
            yield partial(_memory, n_rows)
