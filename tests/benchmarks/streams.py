"""What an open stream takes: CPU of a push, and memory and time while events pass for ever.

``run.py push`` prints the table of pushes. ``run.py endless`` lets streams of each kind run in virtual time,
each in a process of its own: keys of ten events come and go, and a hot key has a third of all events. A line
is a tenth of the events; the last one says what grew after the first of them.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from rows import Measured, Options, Row

import cepkit as cep

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.endless import KINDS, events_of

SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.x > a.x WITHIN 10 s"
TYPED = {"event_type": "type", "order_by": "ts", "measures": {"n": "c.x"}}
PUSHED = {
    "regex": lambda schema: cep.stream(
        "down up+ fall", schema, define={"down": "x < prev(x)", "up": "x > prev(x)", "fall": "x < prev(x)"},
        partition_by="k", order_by="ts", measures={"n": "count()"},
    ),
    "next": lambda schema: cep.stream(SEQUENCE, schema, strategy="next", **TYPED),
    "any": lambda schema: cep.stream(SEQUENCE, schema, strategy="any", **TYPED),
    "window": lambda schema: cep.stream(
        cep.Window({"m": "avg(x)", "n": "count()"}, time="10 s", group_by="k", order_by="ts"), schema
    ),
}  # fmt: skip
SIZES = {"push_row": (1, 20_000, "mean <= 50 µs"), "push of 1": (1, 2000, "p50 <= 400 µs"),
         "push of 1,000": (1000, 300, "p50 <= 1,000 µs")}  # fmt: skip
FIGURES = "keys", "rows", "kB of state", "MB of process", "µs an event"
WARM = 2000  # events before the first that counts


def push(options: Options) -> list[Measured]:
    """An event as a tuple, in a frame, and 1,000 in a frame: CPU µs with collection of garbage and growth."""
    return [partial(pushes, kind, way) for kind in PUSHED for way in SIZES if options.wants(f"{kind}, {way}")]


def pushes(kind: str, way: str) -> Iterator[Row]:
    """Yield the microseconds of pushes of 400 keys, an event in 10 ms."""
    size, count, asked = SIZES[way]
    n, rng = WARM + size * count, np.random.default_rng(0)
    frame = pd.DataFrame({
        "ts": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) * 10, "ms"),
        "k": rng.integers(0, 400, n), "x": rng.normal(0, 1, n).round(2), "type": rng.choice(list("ABCD"), n),
    })  # fmt: skip
    stream, taken = PUSHED[kind](frame.iloc[:0]), []
    is_plain = way == "push_row"
    batches = frame.itertuples(index=False, name=None) if is_plain else None
    batches = batches or (frame.iloc[at : at + size] for at in range(0, n, size))
    work = stream.push_row if is_plain else stream.push
    gc.collect()
    for batch in batches:
        began = time.thread_time()
        work(batch)
        taken.append(1e6 * (time.thread_time() - began))
    micros = np.array(taken[WARM // size :])
    figures = {f"p{q:g}": float(np.percentile(micros, q)) for q in (50, 99, 99.9)}
    yield Row(f"{kind}, {way}: µs", {"mean": float(micros.mean()), **figures}, asked)


def resident() -> float:
    """Return the memory of this process in MB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1000


def run_for_ever(kind: str, n_events: int, size: int) -> None:
    """Print what a stream holds and takes in each tenth of the events."""
    rng, lines, spent, number = np.random.default_rng(1), [], 0.0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        stream = KINDS[kind]()
    for tenth in range(10):
        until, began = n_events * (tenth + 1) // 10, number
        while number * size < until:
            batches = events_of(kind, number, size, rng)
            before = time.process_time()
            stream.push(*batches)
            spent += time.process_time() - before
            number += 1
        status = stream.status()
        micros, spent = 1e6 * spent / (size * max(1, number - began)), 0.0
        lines.append((status.keys, status.rows, status.state_bytes / 1000, resident(), micros))
        row = dict(zip(FIGURES, lines[-1], strict=True))
        print(Row(f"{kind}, {number * size:,} events", row), flush=True)
    first, last = (np.array(some, float).mean(axis=0) for some in (lines[1:4], lines[-3:]))
    grown = dict(zip(FIGURES, 100 * (last / np.maximum(first, 1e-9) - 1), strict=True))
    shown = ", ".join(f"{name} {grown[name]:+.1f} %" for name in FIGURES[2:])
    counts = f"{status.matches:,} matches, {status.late:,} late"
    print(f"{kind}: from tenths 2-4 to 8-10 {shown}; {counts}\n", flush=True)


def main() -> None:
    """Let streams run for ever."""
    parser = argparse.ArgumentParser(description=__doc__, prog="run.py endless")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{'; '.join(KINDS)} (default: all)")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=2000, help="events of a push")
    asked = parser.parse_args()
    if unknown := [kind for kind in asked.kinds if kind not in KINDS]:
        parser.error(f"no kind {unknown[0]!r}; there are {'; '.join(KINDS)}")
    kinds = asked.kinds or [*KINDS]
    if len(kinds) == 1:
        run_for_ever(kinds[0], asked.events, asked.batch)
        return
    run = [sys.executable, str(Path(__file__).with_name("run.py")), "endless"]
    for kind in kinds:
        subprocess.run([*run, kind, "--events", str(asked.events), "--batch", str(asked.batch)], check=True)
