"""The stream with a latency bound: it measures its own service times and drops events when it must."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import engines
from cepkit.results.explanation import Explanation
from cepkit.shedding.live.learning import WallClock
from cepkit.shedding.live.report import SheddingReport
from cepkit.shedding.live.search import LiveSearch, LiveSettings
from cepkit.shedding.simulation.inputs import WARM_UP, check_settings, check_types, seconds_of
from cepkit.shedding.simulation.server import ServerClock
from cepkit.shedding.strategies.darling import Darling
from cepkit.shedding.strategies.names import as_strategy, class_of_strategy, strategy_names
from cepkit.shedding.strategies.strategy import Strategy
from cepkit.streaming.batches import Kind, StreamSchema
from cepkit.streaming.search import Options, Ready
from cepkit.streaming.stream import SHED, Stream

_SLICES = 10  # time slices in a latency bound


class LiveStream(Stream):
    """An open stream with a latency bound; call `cepkit.stream` with ``latency_bound`` to open one.

    `push` admits the events of a batch; they arrive at the time of the call. The strategy may drop some of
    them, or others that wait. Then `push` processes waiting events, the oldest first, until none waits or
    its time slice is over, and returns the matches that it found. The other events wait for the next
    `push`, `pump` or `flush`. So call `push` or `pump` at least as often as the time slice. The time that
    events wait before `push` is not known to the stream. In the warm-up nothing is dropped. Sorting,
    converting and restoring take their time, too, and the stream measures all of it: the limits follow the
    time that events take now.
    """

    _search: LiveSearch

    def __init__(
        self,
        query: SequenceQuery,
        schema: StreamSchema,
        options: Options,
        kind: Kind,
        settings: LiveSettings,
        clock: ServerClock | None = None,
    ):
        self._settings, self._clock = settings, WallClock() if clock is None else clock
        super().__init__(query, schema, options, kind)
        try:
            check_types(settings.weights, self._search.tree.types)
        except CepError:
            self._end()
            raise

    def _open_search(self) -> LiveSearch:
        assert isinstance(self.query, SequenceQuery)
        return LiveSearch(self.query, self.schema, self.options, self._settings, self._clock)

    # --- events in, matches out

    def push(self, batch: Any) -> Any:
        """Admit the next events, process waiting ones for a time slice, and return the complete matches."""
        with self._search.measured():
            return super().push(batch)

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
        if losses := self._search.report().losses:
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
        losses = self._search.report().losses or "nothing was dropped"
        note = (SHED, f"{self._settings.strategy.name}: {losses}")
        return Explanation(self._search.program, engines()["tree"], (), (note,))

    def __repr__(self) -> str:
        return f"{super().__repr__()}; {self._search.report().losses or 'nothing was dropped'}"

    # --- saving

    def _more_settings(self) -> dict[str, Any]:
        settings = self._settings
        return {
            SHED: {
                "latency_bound": settings.latency_bound,
                "time_slice": settings.time_slice,
                "strategy": strategy_as_json(settings.strategy),
                "warm_up": settings.warm_up,
                "weights": dict(settings.weights),
                "seed": settings.seed,
            }
        }


def open_live_stream(
    query: Any, schema: StreamSchema, options: Options, kind: Kind, given: Mapping[str, Any]
) -> LiveStream:
    """Open a stream with a latency bound from the keywords of `cepkit.stream`."""
    settings = live_settings(query, options, given)
    return LiveStream(
        query, schema, options, kind, settings, prepare_strategy(settings.strategy, given["clock"])
    )


def live_settings(query: Any, options: Options, given: Mapping[str, Any]) -> LiveSettings:
    """Return the settings of a stream with a latency bound. Raises as `open_live_stream`."""
    if not isinstance(query, SequenceQuery):
        raise UnsupportedQueryError(
            "latency_bound: load shedding works on event sequences only, and this is a regex query. Write it "
            "as PATTERN SEQ(…), or leave latency_bound out"
        )
    if query.after_match[0] != "none":
        raise UnsupportedQueryError(
            "latency_bound: after_match removes matches by other matches, so nobody can say which ones were "
            "lost. Leave one of the two out"
        )
    stray = {"threads": options.threads > 1, "idle_after": options.idle_after, "max_live": options.max_live}
    if names := [name for name, value in stray.items() if value]:
        raise UnsupportedQueryError(f"{names} are options of regex streams; leave them out")
    weights = given["weights"]
    if weights is not None and not isinstance(weights, Mapping):
        raise CepError(f"weights={weights!r}: a stream has one query; give weights by event type")
    shedding = Darling(split="darling_scaled") if given["shedding"] is None else given["shedding"]
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


def prepare_strategy(strategy: Strategy, clock: Any) -> Any:
    """Import what the strategy needs, check the clock and return it."""
    prepare: Callable[[], None] | None = getattr(strategy, "prepare", None)
    if prepare is not None:
        prepare()
    if clock is not None and not all(hasattr(clock, name) for name in ("now", "spend", "time_within")):
        raise CepError(f"clock={clock!r}: give cepkit.shedding.VirtualClock(), or leave it out")
    return clock


def open_saved_stream(
    query: SequenceQuery,
    schema: StreamSchema,
    options: Options,
    kind: Kind,
    saved: Mapping[str, Any],
    shedding: Any,
    clock: Any,
) -> LiveStream:
    """Open a stream with the settings that a file holds."""
    strategy = _strategy_of_json(saved["strategy"], shedding)
    settings = LiveSettings(
        saved["latency_bound"], saved["time_slice"], strategy, whole_number("warm_up", saved["warm_up"], 1),
        saved["weights"], saved["seed"],
    )  # fmt: skip
    return LiveStream(query, schema, options, kind, settings, prepare_strategy(strategy, clock))


def _classes() -> dict[str, Any]:
    """Return the classes of cepkit's strategies by name."""
    classes = [Darling, *(class_of_strategy(name) for name in strategy_names())]
    return {strategy_class.__name__: strategy_class for strategy_class in classes}


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
    return _classes()[name](**settings)
