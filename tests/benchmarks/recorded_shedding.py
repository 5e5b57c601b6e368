"""Live shedding on recorded streams by the real clock: the matches within the bound of each strategy.

``python tests/benchmarks/run.py recorded soccer 3`` offers recorded events for 4 seconds, at 3 times the rate
that a stream without shedding serves in batches of 2,000. The recording repeats as often as needed. Data:
``soccer``, ``buses`` or ``stocks``, in the folder that ``CEPKIT_DATA`` names.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

import cepkit as cep
from cepkit.language.sequences.construction import sequence_query
from tests.benchmarks.live_shedding import driven, warmed

QUERIES = {"soccer": ("Q1B", 3, "100 ms"), "buses": ("Q1C", None, None), "stocks": ("Q1A", None, None)}
STRATEGIES = ("none", "random_input", cep.Darling(), cep.Cohesive())
BATCH = 2_000
PAUSE = pd.Timedelta("2h")  # between two repetitions: longer than any window


class Recorded:
    """A recording, and the streams of its query."""

    def __init__(self, data: str, window: str | None):
        from papers.load_shedding import queries

        name, length, usual = QUERIES[data]
        template, window = queries.find_query(name), window or usual
        length = length or template.shortest
        query = template.query(length, window=window) if window else template.query(length)
        self.rows = queries.recorded_stream(data, template.first_types(length)).reset_index(drop=True)
        (self.clock,) = query.order_by
        self.query = sequence_query(
            query.pattern, where=query.where, within=query.within, order_by=query.order_by,
            event_type=query.event_type, strategy=query.strategy,
            measures={"last": f"{queries.VARIABLES[length - 1]}.id"},
        )  # fmt: skip
        self.warm_up = min(3_000, max(300, len(self.rows) // 8))

    def events(self, n: int) -> pd.DataFrame:
        """Return the recording again and again, ``n`` events with their numbers."""
        rows, clock = self.rows, self.rows[self.clock]
        span = clock.iloc[-1] - clock.iloc[0] + PAUSE
        parts = [rows.assign(**{self.clock: clock + k * span}) for k in range(-(-n // len(rows)))]
        return pd.concat(parts, ignore_index=True).head(n).assign(id=np.arange(n))

    def opened(self, frame: pd.DataFrame, shedding: object, **given) -> cep.Stream:
        given = {"warm_up": self.warm_up, **given}
        return cep.stream(self.query, frame.iloc[:0], shedding=shedding, **given)

    def capacity(self, seconds: float) -> float:
        """Return the events per second of a stream that drops nothing."""
        frame = self.events(300_000)
        stream, first = warmed(frame, "none", self.opened, latency_bound=1000.0)
        start, at = perf_counter(), first
        while at < len(frame) and perf_counter() - start < seconds:
            stream.push(frame.iloc[at : at + BATCH])
            stream.flush()
            at += BATCH
        return (at - first) / (perf_counter() - start)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=list(QUERIES))
    parser.add_argument("load", type=float, help="times what the stream serves")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--bound", type=float, default=0.1, help="seconds")
    parser.add_argument("--window", help="for example '300 ms'")
    given = parser.parse_args()
    recorded = Recorded(given.data, given.window)
    per_second = recorded.capacity(given.seconds)
    offered = np.arange(1, int(per_second * given.load * given.seconds)) / (per_second * given.load)
    frame = recorded.events(len(offered) + 8 * recorded.warm_up)
    whole = cep.match(frame, recorded.query).to_frame(limit=10**9)["last"].to_numpy()
    print(f"{given.data}: {per_second:,.0f} events per second; {len(offered):,} are offered", flush=True)
    for strategy in STRATEGIES:
        stream, first = warmed(frame, strategy, recorded.opened, latency_bound=given.bound)
        until = 3.0 * given.seconds  # matches that are later help nobody
        latencies = np.concatenate([found for _, found in driven(stream, frame, first, offered, until)])
        n = int(((whole >= first) & (whole < first + len(offered))).sum())
        within, report = int((latencies <= given.bound).sum()), stream.shedding
        print(
            f"{report.strategy}: within the bound {within / n:.3f} of {n:,} matches, and "
            f"{within / max(1, len(latencies)):.4f} of those found; {report.n_dropped / len(offered):.2f} of "
            f"the events dropped; estimated recall {report.recall:.3f}, true {len(latencies) / n:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
