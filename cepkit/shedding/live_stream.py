"""The stream with a latency bound, which drops events when it must; and the same in buckets of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.language.expressions.durations import seconds_text
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import engines
from cepkit.results.views import Explanation
from cepkit.shedding.live_learning import Latencies, WallClock
from cepkit.shedding.live_report import SheddingReport
from cepkit.shedding.live_search import OF_EARLIER_VERSION, LiveSearch, LiveSettings
from cepkit.shedding.scene import WARM_UP, check_settings, check_types, seconds_of
from cepkit.shedding.server import ServerClock
from cepkit.shedding.strategies.cohesive import Cohesive
from cepkit.shedding.strategies.darling import Darling
from cepkit.shedding.strategies.strategy import Strategy, as_strategy, class_of_strategy, strategy_names
from cepkit.streaming.batches import Kind, StreamSchema
from cepkit.streaming.search import Options, Ready, StreamStatus
from cepkit.streaming.spark_tasks import MOST_LATENCY
from cepkit.streaming.stream import SHED, Stream
from cepkit.values import asdict, dataclass, fields, is_dataclass, replace

# The stream with a latency bound: it measures its own service times and drops events when it must.

_SLICES = 10  # time slices in a latency bound


class LiveStream(Stream):
    """An open stream with a latency bound; call `cepkit.stream` with ``latency_bound`` to open one.

    `push` admits the events of a batch; they arrive at the time of the call. The strategy may drop some of
    them, or others that wait. Then `push` processes waiting events, the oldest first, until none waits or
    its time slice is over, and returns the matches that it found. The other events wait for the next
    `push`, `pump` or `flush`. So call `push` or `pump` at least as often as the time slice. In the warm-up
    nothing is dropped.

    A producer that calls `push` at once after the call before has waited for it. So the events of its batch
    count as offered one by one since that call began. After a pause they count as offered now. Sorting,
    converting and restoring take their time, too, and the stream measures all of it: the limits follow the
    time that events take now. The fixed part of a call does not count as time of its events.
    """

    _search: LiveSearch

    def __init__(
        self, query: SequenceQuery, schema: StreamSchema, options: Options, kind: Kind,
        settings: LiveSettings, clock: ServerClock | None = None,
    ):  # fmt: skip
        self._settings, self._clock = settings, WallClock() if clock is None else clock
        super().__init__(query, schema, options, kind)
        try:
            check_types(settings.weights, self._search.tree.types)
        except CepError:
            self._end()
            raise

    def _open_search(self) -> LiveSearch:
        assert isinstance(self.query, SequenceQuery)
        return LiveSearch(self.query, self._read, self.options, self._settings, self._clock)

    # --- events in, matches out

    def push(self, batch: Any) -> Any:
        """Admit the next events, process waiting ones for a time slice, and return the complete matches."""
        with self._search.measured():
            return super().push(batch)

    def status(self) -> StreamStatus:
        return replace(super().status(), shed=self.shedding.n_dropped)

    def pump(self, seconds: Any = None) -> Any:
        """Process waiting events for a while, and return the complete matches."""
        self._check_open()
        slice_of = self._settings.time_slice if seconds is None else seconds_of("seconds", seconds)
        with self._search.measured():
            return self._results(self._search.pump(slice_of))

    def flush(self) -> Any:
        """Process all waiting events, and return the complete matches."""
        with self._search.measured():
            return super().flush()

    def _results(self, ready: Ready) -> Any:
        results = super()._results(ready)
        if losses := self._search.losses:
            if isinstance(results, pd.DataFrame):
                results.attrs[SHED] = losses
            elif isinstance(results, pa.Table):
                results = results.replace_schema_metadata({**(results.schema.metadata or {}), SHED: losses})
        return results

    # --- what it says

    @property
    def shedding(self) -> SheddingReport:
        """What was kept and dropped, estimated recall, latency, backlog and drift."""
        return self._search.report()

    def explain(self) -> Explanation:
        """Return how the query was read and is run, and what was dropped."""
        losses = self._search.losses or "nothing was dropped"
        note = (SHED, f"{self._settings.strategy.name}: {losses}")
        return Explanation(self._search.program, engines()["tree"], (), (note,))

    def __repr__(self) -> str:
        return f"{super().__repr__()}; {self._search.losses or 'nothing was dropped'}"

    # --- saving

    def _more_settings(self) -> dict[str, Any]:
        return {SHED: _settings_as_json(self._settings)}


def open_live_stream(
    query: Any, schema: StreamSchema, options: Options, kind: Kind, given: Mapping[str, Any]
) -> LiveStream:
    """Open a stream with a latency bound from the keywords of `cepkit.stream`."""
    settings = live_settings(query, options, given)
    return LiveStream(query, schema, options, kind, settings, check_clock(given["clock"]))


def live_settings(query: Any, options: Options, given: Mapping[str, Any]) -> LiveSettings:
    """Return the settings of a stream with a latency bound. Raises as `open_live_stream`."""
    if not isinstance(query, SequenceQuery):
        raise UnsupportedQueryError(
            "latency_bound: load shedding works on event sequences only, and this is a regex query. Write it "
            "as PATTERN SEQ(…), or leave latency_bound out"
        )
    if query.selects:
        raise UnsupportedQueryError(
            "latency_bound: after_match removes matches by other matches, so nobody can say which ones were "
            "lost. Leave one of the two out"
        )
    options.refuse("a stream with a latency bound", "rows")
    weights = given["weights"]
    if weights is not None and not isinstance(weights, Mapping):
        raise CepError(f"weights={weights!r}: a stream has one query; give weights by event type")
    shedding = Cohesive() if given["shedding"] is None else given["shedding"]
    checked = check_settings(
        [query], latency_bound=given["latency_bound"], shedding=shedding, weights=weights,
        warm_up=given["warm_up"], seed=given["seed"] or 0,
    )  # fmt: skip
    bound = checked.latency_bound
    time_slice = given["time_slice"]
    settings = LiveSettings(
        bound, bound / _SLICES if time_slice is None else seconds_of("time_slice", time_slice),
        checked.strategy, WARM_UP if checked.warm_up is None else checked.warm_up, checked.weight_of_type,
        checked.seed,
    )  # fmt: skip
    if settings.time_slice > bound:
        raise CepError(f"time_slice={time_slice!r} is longer than the latency bound")
    return settings


def check_clock(clock: Any) -> Any:
    """Check a clock and return it."""
    if clock is not None and not all(hasattr(clock, name) for name in ("now", "spend", "time_within")):
        raise CepError(f"clock={clock!r}: give cepkit.shedding.VirtualClock(), or leave it out")
    return clock


def open_saved_stream(
    query: SequenceQuery, schema: StreamSchema, options: Options, kind: Kind, saved: Mapping[str, Any],
    shedding: Any, clock: Any,
) -> LiveStream:  # fmt: skip
    """Open a stream with the settings that a file holds."""
    strategy = _strategy_of_json(saved["strategy"], shedding)
    warm_up = whole_number("warm_up", saved["warm_up"], 1)
    settings = LiveSettings(**{**saved, "strategy": strategy, "warm_up": warm_up})
    return LiveStream(query, schema, options, kind, settings, check_clock(clock))


def _classes() -> dict[str, Any]:
    """Return the classes of cepkit's strategies by name."""
    classes = [Darling, *(class_of_strategy(name) for name in strategy_names())]
    return {strategy_class.__name__: strategy_class for strategy_class in classes}


def _settings_as_json(settings: LiveSettings) -> dict[str, Any]:
    plain = {"strategy": strategy_as_json(settings.strategy), "weights": dict(settings.weights)}
    return {**vars(settings), **plain}


def strategy_as_json(strategy: Strategy) -> dict[str, Any]:
    """Return a strategy as plain values; of a class of the user only its name."""
    name = type(strategy).__name__
    if _classes().get(name) is type(strategy) and is_dataclass(strategy):
        return {"class": name, "settings": asdict(strategy)}
    return {"class": name, "settings": None}


def _strategy_of_json(saved: Mapping[str, Any], given: Any) -> Strategy:
    if given is not None:
        return as_strategy(given)
    name, settings = saved["class"], saved["settings"]
    if settings is None or name not in _classes():
        raise CepError(
            f"the stream was saved with the strategy {name}, which is not one of cepkit's; give it: "
            f"cepkit.stream.load(path, shedding={name}(…))"
        )
    strategy = _classes()[name]
    if unknown := set(settings) - {item.name for item in fields(strategy)}:
        raise CepError(f"{name} has no settings {sorted(unknown)}: {OF_EARLIER_VERSION}")
    return strategy(**settings)


# Load shedding in the buckets of a Spark stream: each bucket keeps the latency bound for itself.


@dataclass(frozen=True)
class BucketShedding:
    """How the buckets of a Spark stream shed load; it travels to Spark's workers."""

    settings: LiveSettings
    open_clock: Callable[[], ServerClock] = WallClock  # returns the clock of a bucket

    def open_search(self, query: SequenceQuery, schema: StreamSchema) -> BucketSearch:
        """Return the search of a bucket that has seen no event."""
        clock = check_clock(self.open_clock())
        settings = replace(self.settings, time_slice=inf)
        return BucketSearch(query, schema, Options(), settings, clock)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings as plain values."""
        settings = _settings_as_json(self.settings)
        del settings["time_slice"]  # a bucket takes all the time that it needs
        return settings

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

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        with self.measured():
            return super().advance(table, keys, n_before)

    def pass_time(self, now: int) -> Ready:
        """Return the matches that no later event can forbid, and end windows that are over."""
        with self.measured():
            self._find(self.machine.pass_time(now))
            self._server.alive = self.machine.n_alive
            return self._ready()

    @property
    def wakes_at(self) -> int | None:
        """When the next waiting match is complete; without any, when all windows are over."""
        return self.machine.wakes_at

    @property
    def n_live(self) -> int:
        return self.machine.n_alive

    def _offers(self, n: int) -> np.ndarray:
        """Return when the bucket began with the rows of this micro-batch, for each."""
        return np.full(n, self._called_at)

    def _offer_of(self, block: MatchBlock) -> float:
        return self._called_at

    def _returned_at(self, found_at: np.ndarray) -> np.ndarray:
        return found_at

    # --- what it says

    @property
    def types(self) -> tuple[str, ...]:
        """The event types, in the order of ``dropped_0``, ``dropped_1``, … of `counts`."""
        return tuple(self.tree.types)

    @property
    def count_names(self) -> tuple[str, ...]:
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
        """Return what happened since `begin_counts`, and the estimate of recall since the stream began."""
        # Recall is ``recall_found / recall_wanted``; NaN when nobody knows what drops have lost. While the
        # strategy learns, ``learns`` is 1.
        latencies = self._latencies
        self._earlier.add_all(latencies)
        self._latencies = self._earlier
        found, wanted = self.found_and_wanted
        return {
            **{name: total - before[name] for name, total in self._totals().items()},
            "latencies": float(latencies.n),
            "latency_seconds": latencies.sum,
            MOST_LATENCY: latencies.most if latencies.n else 0.0,
            "recall_found": nan if isnan(wanted) else found,
            "recall_wanted": 0.0 if isnan(wanted) else wanted,
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
