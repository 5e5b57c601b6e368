"""Print how fast strategy ``next`` is beside C; ``python tests/benchmarks/next.py --keys 390``.

Ours goes from a pandas frame to the number of matches, or to a frame of them, with default settings. The twin
in C goes from the codes and values of the columns to the number, or to the positions of all events of the
matches in canonical order; it groups the events by key and sorts the matches. CPU and elapsed seconds are the
least of several runs in turns.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import cepkit as cep

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN {within}"


def stream(n: int, n_keys: int, seed: int = 0) -> pd.DataFrame:
    """Return ``n`` events of four types with a key, a time and a random attribute."""
    rng = np.random.default_rng(seed)
    key = pd.Categorical.from_codes(rng.integers(0, n_keys, n), [f"k{i}" for i in range(n_keys)])
    kind = pd.Categorical.from_codes(rng.integers(0, 4, n), list("ABCD"))
    return pd.DataFrame({"t": np.arange(n), "key": key, "kind": kind, "x": rng.random(n)})


class Twin:
    """The twin in C on the columns of a frame; None of its methods converts them."""

    def __init__(self, frame: pd.DataFrame, within: int):
        library = Path(tempfile.mkdtemp()) / "next.so"
        source = Path(__file__).with_suffix(".c")
        options = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["gcc", *options, source, "-o", library], check=True)
        self._library, self._n = ctypes.CDLL(str(library)), len(frame)
        key, kind = (np.ascontiguousarray(frame[name].cat.codes) for name in ("key", "kind"))
        time_, x = (np.ascontiguousarray(frame[name].to_numpy()) for name in ("t", "x"))
        columns = key.astype(np.int32), kind, time_, x
        self._columns = columns  # they live as long as the pointers
        key, *rest = (own.ctypes.data_as(ctypes.c_void_p) for own in columns)
        n_keys = len(frame["key"].cat.categories)
        self._arguments = [*map(ctypes.c_int64, [len(frame)]), key, ctypes.c_int64(n_keys), *rest]
        self._arguments.append(ctypes.c_int64(within))

    def count(self) -> int:
        """Return the number of matches."""
        self._library.next_count.restype = ctypes.c_int64
        return self._library.next_count(*self._arguments)

    def listed(self) -> np.ndarray:
        """Return the positions of the events of all matches, int64, (n_matches, 3)."""
        out = np.empty((self._n, 3), np.int64)
        self._library.next_list.restype = ctypes.c_int64
        return out[: self._library.next_list(*self._arguments, out.ctypes.data_as(ctypes.c_void_p))]


def least(repeats: int, *works: Callable[[], object]) -> list[tuple[float, float, object]]:
    """Return for each work the least CPU and elapsed seconds, and its result, after one warm-up."""
    results, costs = [work() for work in works], [[(np.inf, np.inf)] for _ in works]
    for _ in range(repeats):
        for i, work in enumerate(works):
            began = time.process_time(), time.perf_counter()
            results[i] = work()
            costs[i].append((time.process_time() - began[0], time.perf_counter() - began[1]))
    return [(*map(min, zip(*own, strict=True)), found) for own, found in zip(costs, results, strict=True)]


def run(n: int, n_keys: int, within: int, repeats: int) -> dict[str, float]:
    """Print the table, and return CPU seconds of cepkit / those of C for count and list."""
    frame = stream(n, n_keys)

    def matches() -> cep.SequenceMatches:
        keywords = {"event_type": "kind", "order_by": "t", "partition_by": "key", "strategy": "next"}
        return cep.match(frame, QUERY.format(within=within), **keywords)

    def with_threads(work: Callable[[], object], threads: int) -> Callable[[], object]:
        def run() -> object:
            os.environ["CEPKIT_THREADS"] = str(threads)
            return work()

        return run

    works = {"count": lambda: matches().count(), "list": lambda: matches().to_frame(limit=None)}
    ours = [with_threads(work, threads) for work in works.values() for threads in (1, 2)]
    twin = Twin(frame, within) if shutil.which("gcc") else None
    theirs = [] if twin is None else [twin.count, twin.listed]
    found = least(repeats, *ours, *theirs)
    ratios = {}
    for i, name in enumerate(works):
        (cpu, elapsed, result), (_, elapsed_of_two, other) = found[2 * i : 2 * i + 2]
        ratios[f"{name}: two threads / one"] = elapsed_of_two / elapsed
        line = f"{name:<6} {n:,} events, {n_keys} keys: {cpu:.3f} s CPU, {elapsed:.3f} s elapsed"
        assert len(result) == len(other) if name == "list" else result == other
        if theirs:
            c_cpu, c_elapsed, positions = found[4 + i]
            n_found = positions if name == "count" else len(positions)
            assert n_found == (result if name == "count" else len(result)), "the twin finds other matches"
            if name == "list":
                assert np.array_equal(result["a_t"], frame["t"].to_numpy()[positions[:, 0]])
            ratios[f"{name}: cepkit / C"] = cpu / c_cpu
            line += f"; C {c_cpu:.3f} s, {c_elapsed:.3f} s: {cpu / c_cpu:.2f} times"
        print(
            f"{line}; two threads {elapsed_of_two:.3f} s, {elapsed_of_two / elapsed:.2f} of one", flush=True
        )
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10**7)
    parser.add_argument("--keys", type=int, default=390)
    parser.add_argument("--within", type=int, help="length of the window; default 40 events of a key")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    run(given.events, given.keys, given.within or 40 * given.keys, given.repeats)
