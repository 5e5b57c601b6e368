"""Streams with a latency bound for tests: their events, their arrivals, and what drives them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import cepkit as cep

QUERY = "PATTERN SEQ(a x, b y, c z) WHERE y.v > x.v + 0.4 AND z.v < y.v WITHIN 100"
SETTINGS = {"event_type": "kind", "order_by": "ts"}
PEAKS = ((0.2, 0.35), (0.45, 0.6), (0.65, 0.8), (0.85, 1.0))  # shares of the events
N, N_WARM = 4000, 800


def frame_of(n: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    ts = np.cumsum(generator.integers(0, 5, n))
    kinds = generator.choice(list("abcd"), n)
    return pd.DataFrame({"kind": kinds, "ts": ts, "v": generator.random(n), "k": generator.choice([1, 2], n)})


def opened(frame, query=QUERY, **given):
    given = {"latency_bound": 10.0, "warm_up": N_WARM, "clock": cep.shedding.VirtualClock(), **given}
    return cep.stream(query, frame.iloc[:0], **SETTINGS, **given)


def arrivals_of(n: int, gap: float, factor: float) -> np.ndarray:
    """Return arrivals with a regular gap, which is ``factor`` times smaller inside the peaks."""
    gaps = np.full(n, gap)
    for start, stop in PEAKS:
        gaps[int(start * n) : int(stop * n)] /= factor
    return np.cumsum(gaps)


@dataclass
class Driven:
    """What a driven stream returned, and when it dropped: its last position before each drop."""

    results: list
    drops: list[tuple[float, int]]


def drive(stream, frame, arrivals, first: int = 0, stop: int | None = None) -> Driven:
    """Push each event when it is due by the stream's own virtual clock, and pump while none is due."""
    clock, at, stop = stream._clock, first, len(frame) if stop is None else stop
    results, drops, n_dropped = [], [], stream.shedding.n_dropped
    while at < stop:
        due = min(int(np.searchsorted(arrivals, clock.now, side="right")), stop)
        if due > at:
            results.append(stream.push(frame.iloc[at:due]))
            at = due
            if (n := stream.shedding.n_dropped) > n_dropped:
                drops.append((clock.now, n - n_dropped))
                n_dropped = n
        elif stream.shedding.waiting:
            results.append(stream.pump())
        else:
            clock.wait_until(arrivals[at])
    return Driven(results, drops)


def capacity(frame, **given) -> float:
    """Return the seconds per event of a stream that drops nothing."""
    stream = opened(frame, shedding="none", **given)
    stream.push(frame)
    stream.flush()
    return stream._clock.now / len(frame)


def overloaded(frame, shedding, factor: float = 6.0, room: int = 300, **given):
    """Drive a stream at half its capacity, and in the peaks at 3 times its capacity."""
    z = capacity(frame)
    stream = opened(frame, shedding=shedding, latency_bound=room * z, **given)
    arrivals = arrivals_of(len(frame), 2 * z, factor)
    return stream, drive(stream, frame, arrivals), arrivals


def joined(results) -> pd.DataFrame:
    return pd.concat(results, ignore_index=True)


# --- the same matches while nothing is dropped
