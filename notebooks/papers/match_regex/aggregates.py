"""Compare incremental and recomputed aggregates: time and memory per partial match, by its length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from cepkit.engines.regex import match_regex
from cepkit.errors import CepError
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.kernels.jit import njit
from cepkit.language.regex import regex_query
from cepkit.planning.plans import compile_checked

# --- Kernels that experiments measure: aggregates in two ways, and work that needs no memory.

# Both match `open more* full`. A match begins at an event of ``opens`` and has ``length`` events. No price
# is ``slack`` above the greatest earlier price of the match or ``slack`` below their mean.


@njit(cache=True, nogil=True)
def match_incremental(opens, price, length, slack, first, last):
    """Write the first and last event of every match and return the number of matches; O(1) per event."""
    n_found, count, total, greatest, start = 0, 0, 0.0, 0.0, 0
    for e in range(len(price)):
        x = price[e]
        if count > 0:
            if x > greatest + slack or x < total / count - slack:
                count = 0
            elif count == length - 1:
                first[n_found], last[n_found] = start, e
                n_found += 1
                count = 0
                continue
            else:
                count += 1
                total += x
                greatest = max(greatest, x)
                continue
        if opens[e]:
            start, count, total, greatest = e, 1, x, x
    return n_found


@njit(cache=True, nogil=True)
def match_recomputed(opens, price, length, slack, first, last, collected):
    """Do the same as `match_incremental` from the prices in ``collected``; O(length) time per event."""
    n_found, count, start = 0, 0, 0
    for e in range(len(price)):
        x = price[e]
        if count > 0:
            total, greatest = 0.0, collected[0]
            for i in range(count):
                total += collected[i]
                greatest = max(greatest, collected[i])
            if x > greatest + slack or x < total / count - slack:
                count = 0
            elif count == length - 1:
                first[n_found], last[n_found] = start, e
                n_found += 1
                count = 0
                continue
            else:
                collected[count] = x
                count += 1
                continue
        if opens[e]:
            start, count = e, 1
            collected[0] = x
    return n_found


@njit(cache=True, nogil=True)
def count_up(n):
    """Return a number that takes ``n`` dependent steps, the control of several threads. Time O(n)."""
    state = 1
    for _ in range(n):
        state = (state * 48271) % 2147483647
    return state


LENGTHS = (4, 16, 64, 256, 1024)
SLACK = 20.0  # three standard deviations of the prices, so some long partial matches fail


def incremental_against_recomputed(
    lengths: Iterable[int] = LENGTHS, *, n_events: int = 200_000, repeats: int = 3, seed: int = 0
) -> pd.DataFrame:
    """Compare the costs of incremental aggregates, recomputed aggregates and cepkit by match length."""
    # All three find the same matches.
    # Source: Hirzel, "Partition and Compose", DEBS 2012, sections 1 and 5.2. The paper claims the advantage
    # without a figure.
    pass

    rows = []
    for length in lengths:
        if length < 2:
            raise CepError(f"a match of {length} events has no aggregates to compare; lengths are at least 2")
        stream = _stream(length, n_events, seed)
        opens, price = stream["open"].to_numpy(), stream["price"].to_numpy()
        collected = np.empty(length)
        incremental = _time_kernel(match_incremental, repeats, opens, price, length)
        recomputed = _time_kernel(match_recomputed, repeats, opens, price, length, collected)
        cepkit = _time_cepkit(stream, length, repeats)
        for _, found in (recomputed, cepkit):
            if not np.array_equal(found, incremental[1]):
                raise AssertionError(f"length {length}: the two kinds of aggregates find different matches")
        rows.append(
            {
                "length": length,
                "matches": incremental[1].shape[1],
                "incremental_ns": incremental[0],
                "recomputed_ns": recomputed[0],
                "cepkit_ns": cepkit[0],
                "ratio": recomputed[0] / incremental[0],
                "incremental_bytes": 4 * 8,  # start, count, sum and greatest
                "recomputed_bytes": 2 * 8 + collected.nbytes,  # start, count and the prices
            }
        )
    return pd.DataFrame(rows).set_index("length")


def _stream(length: int, n_events: int, seed: int) -> pd.DataFrame:
    """Return prices around 100; ``open`` is true at every (2 * ``length``)-th event."""
    price = 100 + 50 * np.random.default_rng(seed).beta(8, 8, n_events)
    opens = np.zeros(n_events, dtype=bool)
    opens[:: 2 * length] = True
    return pd.DataFrame({"open": opens, "price": price})


def _time(run: Callable, repeats: int, n_events: int) -> tuple:
    """Return CPU nanoseconds per event of the fastest run, and the result of the last run."""
    times = []
    for _ in range(repeats + 1):  # the first run compiles
        started = time.process_time()
        found = run()
        times.append(time.process_time() - started)
    return min(times[1:]) / n_events * 1e9, found


def _time_kernel(
    kernel: Callable, repeats: int, opens: np.ndarray, price: np.ndarray, length: int, *own: np.ndarray
) -> tuple:
    """Return nanoseconds per event of the fastest run, and the matches, int64, (2, n_matches)."""
    found = np.empty((2, int(opens.sum())), np.int64)
    arguments = (opens, price, length, SLACK, found[0], found[1], *own)
    nanoseconds, n_found = _time(lambda: kernel(*arguments), repeats, len(opens))
    return nanoseconds, found[:, :n_found]


def _time_cepkit(stream: pd.DataFrame, length: int, repeats: int) -> tuple:
    calm = "price <= max(price) + :slack and price >= avg(price) - :slack"
    query = regex_query(
        "open more* full",
        define={"more": f"count() < :length - 1 and {calm}", "full": f"count() == :length - 1 and {calm}"},
        params={"length": length, "slack": SLACK},
    )
    source = PandasSource(stream)
    program = compile_checked(query, source)
    events = build_events(source, program)
    nanoseconds, matches = _time(
        lambda: match_regex(program, events, threads=1, tier="compiled"), repeats, len(stream)
    )
    return nanoseconds, np.stack([matches.first, matches.last])
