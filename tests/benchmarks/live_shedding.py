"""A real stream under overload, in wall-clock time: latency, recall, drops between peaks, and overhead.

``python tests/benchmarks/run.py shedding`` runs about 5 minutes. A producer offers events for 60 seconds, in
4 peaks at 3 times the capacity and otherwise at half of it, once for each of three strategies. An event is
offered at its scheduled time. The stream takes all offered events with its next `push`.
``--seconds 10`` makes shorter runs. Then two streams get the same events with room for all of them: one with
DARLING and one without a strategy. Their times give the overhead.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import inf
from statistics import median
from time import perf_counter, sleep

import numpy as np
import pandas as pd

import cepkit as cep

QUERY = "PATTERN SEQ(a x, b y, c z) WHERE y.v > x.v + 0.5 AND z.v > y.v + 0.4 WITHIN 15000"
SETTINGS = {"event_type": "kind", "order_by": "ts"}
MEASURES = {"last": "first(z.id)", "n": "count(x)"}
PEAKS = ((0.15, 0.25), (0.35, 0.45), (0.55, 0.65), (0.80, 0.90))  # shares of the time
IN_PEAK, BETWEEN = 3.0, 0.5  # times the capacity
BOUND = 0.5  # seconds
N_WARM = 3000
BATCH = 200  # events per push where time does not matter


def events(n: int, seed: int = 0) -> pd.DataFrame:
    """Return events of four types; the query names three of them."""
    generator = np.random.default_rng(seed)
    return pd.DataFrame({
        "id": np.arange(n), "ts": np.cumsum(generator.integers(5, 16, n)),
        "kind": generator.choice(list("abcd"), n, p=[0.3, 0.3, 0.3, 0.1]), "v": generator.random(n),
    })  # fmt: skip


def opened(frame: pd.DataFrame, shedding: object, **given) -> cep.Stream:
    given = {"latency_bound": BOUND, "warm_up": N_WARM, **given}
    return cep.stream(QUERY, frame.iloc[:0], measures=MEASURES, shedding=shedding, **SETTINGS, **given)


def warmed(frame: pd.DataFrame, shedding: object, open_stream=opened, **given) -> tuple[cep.Stream, int]:
    """Return a stream after its warm-up, and the number of events that it took."""
    stream, at = open_stream(frame, shedding, **given), 0
    while stream.shedding.warm_up_left:
        stream.push(frame.iloc[at : at + BATCH])
        stream.flush()
        at += BATCH
    return stream, at


def capacity(frame: pd.DataFrame, n: int = 8000) -> float:
    """Return the events per second of a stream that drops nothing: the median over batches."""
    stream, at = warmed(frame, "none", latency_bound=1000.0)
    rates = []
    for first in range(at, at + n, BATCH):
        start = perf_counter()
        stream.push(frame.iloc[first : first + BATCH])
        rates.append(BATCH / (perf_counter() - start))
    return median(rates)


def schedule(per_second: float, seconds: float) -> np.ndarray:
    """Return when each event is offered, in seconds."""
    step = 0.001
    time = np.arange(0.0, seconds, step)
    in_peak = np.zeros(len(time), bool)
    for start, stop in PEAKS:
        in_peak |= (time >= start * seconds) & (time < stop * seconds)
    total = np.cumsum(np.where(in_peak, IN_PEAK, BETWEEN) * per_second * step)
    return np.interp(np.arange(1, int(total[-1])), total, time + step)


def driven(
    stream: cep.Stream, frame: pd.DataFrame, first: int, offered: np.ndarray, until: float = inf
) -> Iterator[tuple[float, np.ndarray]]:
    """Push each event when it is due, from row ``first`` on; yield the time and the latencies of each call.

    Latencies count from the offer of the last event of a match.
    """
    begin, at, n = perf_counter(), 0, len(offered)
    while at < n or stream.shedding.waiting:
        now = perf_counter() - begin
        if now > until:
            return
        due = int(np.searchsorted(offered, now, side="right"))
        if due > at:
            found = stream.push(frame.iloc[first + at : first + due])
            at = due
        elif stream.shedding.waiting:
            found = stream.pump()
        else:
            sleep(0.001)
            continue
        done = perf_counter() - begin
        last = found["last"].to_numpy() - first if len(found) else np.empty(0, np.int64)
        yield now, done - offered[last[last >= 0]]


def run(frame: pd.DataFrame, shedding: object, offered: np.ndarray, seconds: float) -> dict[str, float]:
    """Offer the events by the schedule, and return what came out."""
    stream, first = warmed(frame, shedding)
    latencies, n_dropped, outside, most = [], 0, 0, 0
    for now, found in driven(stream, frame, first, offered):
        latencies.append(found)
        report = stream.shedding
        most = max(most, report.waiting)
        if report.n_dropped > n_dropped:
            near = any(a * seconds <= now <= b * seconds + 2 * BOUND for a, b in PEAKS)
            outside += 0 if near else report.n_dropped - n_dropped
            n_dropped = report.n_dropped
    report, every = stream.shedding, np.concatenate(latencies)
    return {
        "events": len(offered), "dropped": n_dropped, "dropped between peaks": outside, "matches": len(every),
        "within the bound": float((every <= BOUND).mean()), "within by the stream": report.within_bound,
        "greatest latency": float(every.max()), "estimated recall": report.recall, "most waiting": most,
        "first": first,
    }  # fmt: skip


def overhead(frame: pd.DataFrame, n: int, repeats: int = 5) -> float:
    """Return the share of time that an armed strategy adds when it drops nothing.

    The streams take turns batch by batch, and the least time of each batch counts: other programs disturb.
    """
    strategies = ("none", cep.Darling())
    seconds = np.zeros((repeats, -(-n // BATCH), len(strategies)))
    for repeat in range(repeats):
        streams = [warmed(frame, own, latency_bound=1000.0) for own in strategies]
        for batch in range(seconds.shape[1]):
            for i, (stream, at) in enumerate(streams):
                rows = frame.iloc[at + batch * BATCH : at + (batch + 1) * BATCH]
                start = perf_counter()
                stream.push(rows)
                seconds[repeat, batch, i] = perf_counter() - start
        assert not any(stream.shedding.n_dropped for stream, _ in streams)
    without, armed = seconds.min(axis=0).sum(axis=0)
    return armed / without - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    per_second = capacity(events(20_000))
    offered = schedule(per_second, seconds)
    frame = events(len(offered) + 4 * N_WARM)
    print(
        f"capacity {per_second:,.0f} events per second; {len(offered):,} events in {seconds:g} s", flush=True
    )
    results = {}
    for name, own in (("cohesive", None), ("darling", cep.Darling()), ("random_input", "random_input")):
        results[name] = run(frame, own, offered, seconds)
        print(name, {key: round(value, 4) for key, value in results[name].items()}, flush=True)
    first = results["cohesive"]["first"]
    whole = cep.match(frame.iloc[: first + len(offered)], QUERY, measures=MEASURES, **SETTINGS)
    whole = whole.to_frame(limit=10**8)
    n = int((whole["last"] >= first).sum())
    for name, own in results.items():
        print(f"{name}: recall {own['matches'] / n:.3f} of {n:,} matches", flush=True)
    print(f"overhead of an armed strategy that drops nothing: {overhead(frame, 4000):.1%}")


if __name__ == "__main__":
    main()
