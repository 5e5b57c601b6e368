"""A soak test: a stream with shedding for an hour, with events at 10 times real time and a peak each minute.

``python tests/benchmarks/run.py soak --minutes 60`` runs an hour and prints a line for each minute. A
peak of a second offers 3 times the capacity (``--peak``), and the rest of the minute little. At the end, the
script compares the matches of all seconds without drops with the batch answer. It fails if memory grew, if
the bound was not held, or if an event or a match was lost. Where other programs delay this one, take a longer
``--bound`` and a higher ``--peak``: the peak must take longer than the bound to work off, or nothing is shed.
An event takes longer in the peak than on average, so ``--beta`` is below the default of 0.8.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep

import numpy as np
import pandas as pd

import cepkit as cep

SPEED = 10  # seconds of data in a second of the clock
SECOND = 1_000_000  # ticks of ``ts``
QUERY = f"PATTERN SEQ(a x, b y, c z) WHERE y.v > x.v + 0.5 AND z.v > y.v + 0.4 WITHIN {SECOND}"
SETTINGS = {"event_type": "kind", "order_by": "ts"}
MEASURES = {"last": "first(z.id)"}
PEAK = (20, 21)  # seconds of each minute
BETWEEN = 0.15  # times the capacity; the warm-up, which sheds nothing, must end before the first peak
TICK = 0.2  # seconds between two batches
BATCH = 200
AROUND = 2  # seconds before and after drops whose matches may be incomplete
GROWN = 1.05  # largest growth of memory after the first fifth of the time
HELD = 0.99  # least share of matches within the bound


def events(times: np.ndarray, first: int, seed: object) -> pd.DataFrame:
    """Return events of four types, offered at these times in seconds; the query names three of them."""
    generator, n = np.random.default_rng(seed), len(times)
    return pd.DataFrame(
        {
            "id": np.arange(first, first + n),
            "ts": (times * SPEED * SECOND).astype(np.int64),
            "kind": generator.choice(list("abcd"), n, p=[0.3, 0.3, 0.3, 0.1]),
            "v": generator.random(n),
        }
    )


@dataclass(frozen=True)
class Offer:
    """How many events a second the stream is offered: ``peak`` times its capacity once a minute, else few."""

    capacity: float  # events per second
    peak: float
    minutes: int
    seed: int

    def times(self, minute: int) -> np.ndarray:
        """Return when the events of a minute are offered, in seconds from the start."""
        second = np.arange(60)
        rate = np.where((second >= PEAK[0]) & (second < PEAK[1]), self.peak, BETWEEN) * self.capacity
        total = np.concatenate([[0.0], np.cumsum(rate)])
        return minute * 60 + np.interp(np.arange(0.5, total[-1]), total, np.arange(61.0))


def open_stream(bound: float, shedding: object) -> cep.Stream:
    given = {"measures": MEASURES, "latency_bound": bound, "shedding": shedding, **SETTINGS}
    return cep.stream(QUERY, events(np.zeros(0), 0, 0), **given)


def measure_capacity(per_second: float = 5000.0, n: int = 12_000) -> float:
    """Return the events per second of a stream that drops nothing: the median over batches."""
    frame = events(np.arange(n) / per_second, 0, 0)
    stream, rates = open_stream(1000.0, "none"), []
    for first in range(0, n, BATCH):
        start = perf_counter()
        stream.push(frame.iloc[first : first + BATCH])
        stream.flush()
        rates.append(BATCH / (perf_counter() - start))
    return median(rates[len(rates) // 2 :])


def resident() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@dataclass
class Log:
    """What a minute shows."""

    rss: list[float]
    matches_of_second: np.ndarray
    disturbed: np.ndarray  # seconds whose matches may be incomplete
    n_within: int = 0
    most: float = 0.0

    @property
    def n_matches(self) -> int:
        return int(self.matches_of_second.sum())


def run(minutes: int, bound: float, beta: float, peak: float, seed: int) -> bool:
    """Run the soak, print a line for each minute, and return whether all of it held."""
    capacity = measure_capacity()
    print(
        f"capacity {capacity:,.0f} events/s, bound {bound:g} s, beta {beta:g}, peak {peak:g}, "
        f"{minutes} minutes",
        flush=True,
    )
    offer = Offer(capacity, peak, minutes, seed)
    stream, first = open_stream(bound, cep.Darling(split="rate", tie="position", beta=beta)), 0
    log = Log([], np.zeros(60 * minutes + 1, np.int64), np.zeros(60 * minutes + 1, bool))
    firsts, n_in, n_dropped, is_whole = [], 0, 0, True
    before, begin, pushed_at = np.zeros(0), perf_counter(), 0.0
    pushed_now = 0.0
    for minute in range(minutes):
        times, cpu = offer.times(minute), process_time()
        frame = events(times, first, [seed, minute])
        offered, first_known = np.concatenate([before, times]), first - len(before)
        firsts.append(first)
        at, most, n_before = 0, 0.0, log.n_matches
        while at < len(times) or stream.shedding.waiting:
            now = perf_counter() - begin
            due = int(np.searchsorted(times, now, side="right"))
            if due > at and now - pushed_now >= TICK:
                pushed_now = now
                found, pushed_at = stream.push(frame.iloc[at:due]), times[at]
                n_in, at = n_in + due - at, due
            elif stream.shedding.waiting:
                found = stream.pump()
            else:
                sleep(TICK / 4)
                continue
            done = perf_counter() - begin
            if len(found):
                time = offered[found["last"].to_numpy() - first_known]
                most = max(most, float(done - time.min()))
                log.n_within += int((done - time <= bound).sum())
                np.add.at(log.matches_of_second, time.astype(np.int64), 1)
            if stream.shedding.n_dropped > n_dropped:
                n_dropped = stream.shedding.n_dropped
                oldest = int(min(pushed_at, done - bound))
                log.disturbed[max(0, oldest - AROUND) : int(done) + AROUND] = True
        before = times
        first += len(times)
        report = stream.shedding
        counted = sum(report.kept.values()) + report.n_dropped + report.other_events + report.waiting
        is_whole &= counted == n_in
        log.rss.append(resident())
        log.most = max(log.most, most)
        kept = sum(report.kept.values())
        print(
            f"minute {minute + 1:3d}: rss {log.rss[-1]:.1f} MB, "
            f"cpu {(process_time() - cpu) / 60:.0%}, in {n_in:,} = kept {kept:,} + "
            f"dropped {report.n_dropped:,} + other {report.other_events:,} + "
            f"waiting {report.waiting:,} ({'equal' if counted == n_in else 'NOT EQUAL'}), matches "
            f"{log.n_matches - n_before:,}, greatest latency {most:.3f} s by the offer, "
            f"{report.max_latency:.3f} s by the stream so far, within {report.within_bound:.4%}, "
            f"service {report.service * 1e6:.0f} us, rows kept {stream.status().rows:,}",
            flush=True,
        )
    return judge(log, firsts, offer, is_whole, stream.shedding.within_bound)


def judge(log: Log, firsts: list[int], offer: Offer, is_whole: bool, within: float) -> bool:
    """Print and return whether memory is flat, the bound was held, and no event or match was lost."""
    expected = np.zeros_like(log.matches_of_second)
    for minute in range(offer.minutes):
        # A minute needs the last window of the minute before it.
        parts = [
            events(offer.times(m), firsts[m], [offer.seed, m]) for m in range(max(0, minute - 1), minute + 1)
        ]
        if minute:
            parts[0] = parts[0].iloc[-int(offer.capacity) :]
        frame = pd.concat(parts, ignore_index=True)
        last = cep.match(frame, QUERY, measures=MEASURES, **SETTINGS).to_frame(limit=None)["last"]
        times = offer.times(minute)
        own = last[last >= firsts[minute]].to_numpy() - firsts[minute]
        np.add.at(expected, times[own].astype(np.int64), 1)
    quiet = ~log.disturbed
    lost = int(np.abs(log.matches_of_second - expected)[quiet].sum())
    early = log.rss[max(0, len(log.rss) // 5 - 1)]
    n_quiet, n_expected, n_all = int(quiet[:-1].sum()), int(expected[quiet].sum()), int(expected.sum())
    by_offer = log.n_within / max(1, log.n_matches)
    checks = {
        f"events in = kept + dropped + other + waiting in every minute: {is_whole}": is_whole,
        f"{n_quiet:,} of {60 * offer.minutes:,} seconds without drops: {n_expected:,} matches expected, "
        f"{lost} lost or too many": lost == 0,
        f"recall in all seconds: {log.n_matches / max(1, n_all):.3f} of {n_all:,} matches": True,
        f"memory: {early:.1f} MB after a fifth of the time, {log.rss[-1]:.1f} MB at the end, "
        f"{max(log.rss):.1f} MB at most": log.rss[-1] <= GROWN * early,
        f"within the bound: {within:.4%} by the stream, {by_offer:.4%} by the offer; greatest {log.most:.3f} "
        "s": within >= HELD,
    }
    for text, holds in checks.items():
        print(f"{'ok  ' if holds else 'FAIL'} {text}", flush=True)
    return all(checks.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--bound", type=float, default=1.5)
    parser.add_argument("--beta", type=float, default=0.6)
    parser.add_argument("--peak", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    raise SystemExit(0 if run(given.minutes, given.bound, given.beta, given.peak, given.seed) else 1)


if __name__ == "__main__":
    main()
