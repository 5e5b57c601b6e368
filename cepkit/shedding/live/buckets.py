"""Load shedding in the buckets of a Spark stream: each bucket keeps the latency bound for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.language.expressions.durations import seconds_text
from cepkit.language.sequences.query import SequenceQuery
from cepkit.shedding.live.learning import Latencies, WallClock
from cepkit.shedding.live.search import LiveSearch, LiveSettings
from cepkit.shedding.live.stream import live_settings, prepare_strategy, strategy_as_json
from cepkit.shedding.simulation.server import ServerClock
from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.search import Options, Ready
from cepkit.streaming.spark.progress import MOST_LATENCY


@dataclass(frozen=True)
class BucketShedding:
    """How the buckets of a Spark stream shed load; it travels to Spark's workers."""

    settings: LiveSettings
    open_clock: Callable[[], ServerClock] = WallClock  # returns the clock of a bucket

    def open_search(self, query: SequenceQuery, schema: StreamSchema) -> BucketSearch:
        """Return the search of a bucket that has seen no event."""
        clock = prepare_strategy(self.settings.strategy, self.open_clock())
        return BucketSearch(query, schema, Options(), self.settings, clock)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings as plain values."""
        settings = self.settings
        return {
            "latency_bound": settings.latency_bound,
            "strategy": strategy_as_json(settings.strategy),
            "warm_up": settings.warm_up,
            "weights": dict(settings.weights),
            "seed": settings.seed,
        }

    def __str__(self) -> str:
        name, bound = self.settings.strategy.name, seconds_text(self.settings.latency_bound)
        return (
            f"{name}: each bucket finds a match at most {bound} after it begins with the match's last row; "
            f"it learns from {self.settings.warm_up:,} rows and drops none of them"
        )


class BucketSearch(LiveSearch):
    """The search of a bucket with a latency bound.

    The rows that the watermark has passed arrive together, when the bucket begins to work on them. The bucket
    processes all of them before it returns, so none waits for the next micro-batch.

    """

    def __init__(
        self,
        query: SequenceQuery,
        schema: StreamSchema,
        options: Options,
        settings: LiveSettings,
        clock: ServerClock,
    ):
        super().__init__(query, schema, options, replace(settings, time_slice=inf), clock)

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Admit the events, process those that are not dropped, and return the complete matches."""
        with self.measured():
            return super().advance(table, keys, n_before)

    def pass_time(self, now: int) -> Ready:
        """Return the matches that no later event can forbid, and end windows that are over."""
        with self.measured():
            waiting, lane = self.machine.pass_time(now), self._server.lanes[0]
            self._server.alive = self.machine.n_alive
            if len(waiting):
                lane.matches.append(waiting)
                lane.found_at.append(np.full(len(waiting), self.clock.now))
            return self._ready()

    @property
    def wakes_at(self) -> int | None:
        """When the next waiting match is complete; without any, when all windows are over."""
        return self.machine.wakes_at

    @property
    def n_live(self) -> int:
        """Number of live partial matches."""
        return self.machine.n_alive

    def _arrival_of(self, block: MatchBlock) -> float:
        """Return when the bucket began with the rows of this micro-batch."""
        return self._called_at

    # --- what it says

    @property
    def types(self) -> tuple[str, ...]:
        """The event types, in the order of ``dropped_0``, ``dropped_1``, … of `counts`."""
        return tuple(self.tree.types)

    @property
    def count_names(self) -> tuple[str, ...]:
        """The names of the numbers that `counts` returns."""
        dropped = (f"dropped_{i}" for i in range(len(self.tree.types)))
        return (
            "processed", *dropped, "partial", "latencies", "latency_seconds", MOST_LATENCY, "recall_found",
            "recall_wanted", "learns",
        )  # fmt: skip

    def begin_counts(self) -> Mapping[str, float]:
        """Begin to count for a micro-batch, and return the totals so far; `counts` takes them."""
        self._earlier, self._latencies = self._latencies, Latencies(self.settings.latency_bound)
        return self._totals()

    def counts(self, before: Mapping[str, float]) -> dict[str, float]:
        """Return what happened since `begin_counts`, and the estimate of recall since the stream began.

        Recall is ``recall_found / recall_wanted``; NaN when the strategy drops partial matches or skips
        pairs. ``learns`` is 1 while the strategy learns.

        """
        latencies = self._latencies
        self._earlier.add_all(latencies)
        self._latencies = self._earlier
        estimate = self._recall
        is_unknown = self._server.lanes[0].n_partial_dropped or self.machine.skipped.any()
        return {
            **{name: total - before[name] for name, total in self._totals().items()},
            "latencies": float(latencies.n),
            "latency_seconds": latencies.sum,
            MOST_LATENCY: latencies.most if latencies.n else 0.0,
            "recall_found": nan if is_unknown else estimate.found + estimate.n_pending,
            "recall_wanted": estimate.wanted + estimate.n_pending,
            "learns": float(self._warm_up is not None),
        }

    def _totals(self) -> dict[str, float]:
        server = self._server
        dropped = {f"dropped_{i}": float(n) for i, n in enumerate(server.dropped_of_type)}
        partial = float(server.lanes[0].n_partial_dropped)
        return {"processed": float(server.n_processed), **dropped, "partial": partial}


def bucket_shedding(query: Any, given: Mapping[str, Any]) -> BucketShedding:
    """Return how the buckets of a Spark stream shed load, from the keywords of `cepkit.match`."""
    return BucketShedding(live_settings(query, Options(), {**given, "time_slice": None}))
