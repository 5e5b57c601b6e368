"""The rows of a live stream with lasting codes, and what the stream says about its load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan, prod
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.errors import CepError
from cepkit.events import Events
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.language.expressions.durations import seconds_text
from cepkit.streaming.batches import StreamSchema, stable_column
from cepkit.streaming.coding import check_text_orders, keys_of_batch, text_codes_of_columns, type_of_column
from cepkit.streaming.saved import Saved

# What a live stream says about its load: events kept and dropped, recall, latency, backlog and drift.

_FEWEST = 500  # events that an estimate of recall looks at together


@dataclass(frozen=True, repr=False)
class SheddingReport:
    """The state of a stream with a latency bound, in ``stream.shedding``. It does not change later.

    A match needs an event of each type. So the share of the matches that were found is estimated by the
    product of the shares of events that were kept, over all types, in a window before the matches. Events
    count by their utility, if the strategy has utilities. The estimate takes drops as independent, so it is
    often too low. It is NaN when the strategy drops partial matches or skips pairs.
    """

    strategy: str  # name of the strategy
    latency_bound: float  # in seconds
    warm_up_left: int  # number of events that the strategy still learns from before it may drop any
    # kept, dropped, waiting_of_type: number of events that were processed, that were dropped, and that wait,
    # by type
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    waiting_of_type: Mapping[str, int]
    other_events: int  # number of events of types that the query does not name. Nothing was done for them.
    # dropped_partial_matches, skipped_pairs: partial matches that the strategy dropped, and pairs that the
    # tree did not combine for it
    dropped_partial_matches: int
    skipped_pairs: int
    recall: float  # estimated share of the matches that were found; see Notes
    matches: int  # number of matches after the warm-up
    # mean_latency, max_latency: seconds from the arrival of the last event of a match until it was found. NaN
    # without matches.
    mean_latency: float
    max_latency: float
    within_bound: float  # share of the matches that came within the bound. NaN without matches.
    service: float  # seconds to process an event, as a moving average
    arrival_rate: float  # events per second, as a moving average
    shedding_seconds: float  # priced time of the strategy's own work
    # Alarms, tests and computations of the drift detector; None when the strategy has none.
    drift: Mapping[str, Any] | None
    details: Mapping[str, Any] = field(default_factory=dict)  # what the strategy says about itself

    @property
    def n_dropped(self) -> int:
        """Number of dropped events."""
        return sum(self.dropped.values())

    @property
    def waiting(self) -> int:
        """The backlog: number of events that wait."""
        return sum(self.waiting_of_type.values())

    @property
    def backlog_seconds(self) -> float:
        """Time to process all events that wait, in seconds."""
        return self.waiting * self.service

    @property
    def losses(self) -> str:
        """What was dropped, in words; empty if nothing."""
        n = sum(self.kept.values()) + self.n_dropped + self.waiting
        parts = []
        if self.n_dropped:
            parts.append(f"{self.n_dropped:,} of {n:,} events were dropped")
        if self.dropped_partial_matches:
            parts.append(f"{self.dropped_partial_matches:,} partial matches were dropped")
        if self.skipped_pairs:
            parts.append(f"{self.skipped_pairs:,} pairs were skipped")
        return ", ".join(parts)

    def to_frame(self) -> pd.DataFrame:
        """Return the kept, dropped and waiting events of each type, and the share that was dropped."""
        table = pd.DataFrame({
            "type": list(self.kept), "kept": self.kept.values(), "dropped": self.dropped.values(),
            "waiting": self.waiting_of_type.values(),
        })  # fmt: skip
        total = table["kept"] + table["dropped"]
        table["share_dropped"] = (table["dropped"] / total.where(total > 0)).fillna(0.0)
        return table

    def __repr__(self) -> str:
        lines = [f"{self.strategy}: {self.losses or 'nothing was dropped'}"]
        if self.warm_up_left:
            lines.append(f"warm-up: {self.warm_up_left:,} more events; nothing is dropped before its end")
        if self.matches:
            recall = f", estimated recall {_percent(self.recall)}" if self.losses else ""
            lines.append(f"{self.matches:,} match{'' if self.matches == 1 else 'es'}{recall}")
            lines.append(
                f"latency {_time(self.mean_latency)} on average, {_time(self.max_latency)} at most, "
                f"{_percent(self.within_bound)} within {_time(self.latency_bound)}"
            )
        lines.append(
            f"{self.waiting:,} events wait, about {_time(self.backlog_seconds)} of work; "
            f"{self.arrival_rate:,.0f} events arrive per second, and each takes {_time(self.service)}"
        )
        if self.drift is not None:
            alarms = list(self.drift["alarms"])
            drift = f"drift in {', '.join(alarms)}" if alarms else "no drift"
            lines.append(f"{drift}; computed again {self.drift['recomputed']:,} times")
        return "\n".join(lines)


def _percent(share: float) -> str:
    return "unknown" if share != share else f"{100 * share:.3g} %"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if 0 < seconds < 0.001 else seconds_text(seconds)


@dataclass
class RecallEstimate:
    """Estimates the share of matches that were found, from the events that were kept and dropped."""

    n_types: int
    n_window: int = _FEWEST
    found: float = 0.0
    wanted: float = 0.0
    kept: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    lost_utility: list[float] = field(default_factory=list)
    n_pending: int = 0
    steps: list[list[list[float]]] = field(default_factory=list)  # kept and lost by type, over a window

    def __post_init__(self) -> None:
        for name in ("kept", "dropped", "lost_utility"):
            if not getattr(self, name):
                setattr(self, name, [0] * self.n_types)

    def add(
        self,
        kept: Sequence[int],
        dropped: Sequence[int],
        n_matches: int,
        seen: Sequence[tuple[Sequence[int], Sequence[int]]] | None,
    ) -> None:
        """Take in the state of the stream."""
        self.n_pending += n_matches
        newly_kept = [now - before for now, before in zip(kept, self.kept, strict=True)]
        lost = [now - before for now, before in zip(dropped, self.dropped, strict=True)]
        if sum(newly_kept) + sum(lost) < max(1, min(_FEWEST, self.n_window // 4)):
            return
        step = [[0.0] * self.n_types, [0.0] * self.n_types]
        for i, (n, m) in enumerate(zip(newly_kept, lost, strict=True)):
            weight = self._relative_utility(i, m, *seen[i]) if m and seen is not None else 1.0
            step[0][i], step[1][i] = n + (1.0 - weight) * m, weight * m
        self.steps.append(step)
        while (
            len(self.steps) > 1
            and sum(sum(counts[0]) + sum(counts[1]) for counts in self.steps[1:]) >= self.n_window
        ):
            del self.steps[0]
        shares = [1.0] * self.n_types
        for i in range(self.n_types):
            n, m = (sum(counts[side][i] for counts in self.steps) for side in (0, 1))
            shares[i] = n / (n + m) if m else 1.0
        share = prod(shares)
        if share > 0:
            self.found += self.n_pending
            self.wanted += self.n_pending / share
        self.kept, self.dropped, self.n_pending = list(kept), list(dropped), 0

    def _relative_utility(self, i: int, m: int, seen: Sequence[int], dropped: Sequence[int]) -> float:
        """Return the mean utility of the dropped events of a type, as a share of that of all; at most 1."""
        before, self.lost_utility[i] = self.lost_utility[i], _utility(dropped)
        mean = _utility(seen) / max(1, sum(seen))
        return min(1.0, (self.lost_utility[i] - before) / m / mean) if mean else 1.0

    @property
    def value(self) -> float:
        """The estimate; NaN without matches."""
        wanted = self.wanted + self.n_pending
        return (self.found + self.n_pending) / wanted if wanted else nan


def _utility(counts: Sequence[int]) -> float:
    """Return the sum of utilities of events by step of utility."""
    n = max(1, len(counts) - 1)
    return sum(count * min(1.0, (step + 0.5) / n) for step, count in enumerate(counts) if count)


# The rows of a live stream: batches as events with lasting codes; state as values for saved files.

# The rows of a live stream: batches as events with lasting codes, and the rows that are kept for matches.


class EventReader:
    """Reads batches as events with texts and keys that have the same codes in every batch."""

    def __init__(self, program: SequenceProgram, schema: StreamSchema):
        check_text_orders(program)
        self._program, self._schema = program, schema
        self._codes = text_codes_of_columns(program)
        self._code_of_key: dict[tuple, int] = {}

    @property
    def n_keys(self) -> int:
        """Number of partition keys so far."""
        return len(self._code_of_key)

    def source(self, table: pa.Table) -> ArrowSource:
        """Return a table of the stream as a source with the types of the stream."""
        source = ArrowSource(table)
        source.schema = self._schema.columns
        return source

    def read(self, table: pa.Table) -> Events:
        """Return a batch in stream order as events."""
        source = self.source(table)
        events = build_events(source, self._program)
        columns = {}
        for name, column in events.columns.items():
            codes = self._codes.get(name)
            column_type = type_of_column(self._program, name)
            columns[name] = column if codes is None else stable_column(column, column_type, name, codes)
        for name, codes in self._codes.items():  # a later column may have added texts
            if name in columns:
                columns[name] = replace(columns[name], categories=codes.texts)
        by = self._program.query.partition_by
        if not by:
            return Events(events.n_events, columns, events.partition_of_event, 1)
        key_of_row, keys = keys_of_batch(source, by)
        code_of_key = self._code_of_key
        codes_of_keys = np.array([code_of_key.setdefault(key, len(code_of_key)) for key in keys], np.int32)
        return Events(events.n_events, columns, codes_of_keys[key_of_row], max(1, len(code_of_key)))

    def pack(self) -> dict[str, pa.Table]:
        """Return the texts and the keys by code."""
        packed = {f"texts/{name}": codes.pack() for name, codes in self._codes.items()}
        by = self._program.query.partition_by
        keys = {f"key{i}": [key[i] for key in self._code_of_key] for i in range(len(by))}
        types = [(f"key{i}", self._schema.arrow.field(name).type) for i, name in enumerate(by)]
        return {**packed, "keys": pa.table(keys, schema=pa.schema(types))}

    def unpack(self, packed: Mapping[str, pa.Table]) -> None:
        """Take back what `pack` returned."""
        for name, codes in self._codes.items():
            codes.unpack(packed[f"texts/{name}"])
        rows = [tuple(row.values()) for row in packed["keys"].to_pylist()]
        self._code_of_key = {key: code for code, key in enumerate(rows)}


@dataclass
class KeptRows:
    """The rows that matches may still need, batch by batch, with the arrival of each batch."""

    tables: list[pa.Table] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)

    def add(self, start: int, arrival: float, table: pa.Table) -> None:
        """Add a batch whose first event has the position ``start``."""
        self.tables.append(table)
        self.starts.append(start)
        self.arrivals.append(arrival)

    def forget(self, before: int) -> None:
        """Forget the batches that end before a position."""
        n = 0
        while n + 1 < len(self.starts) and self.starts[n + 1] <= before:
            n += 1
        if n:
            del self.tables[:n], self.starts[:n], self.arrivals[:n]

    def arrival_of(self, positions: np.ndarray) -> np.ndarray:
        """Return when events arrived, in seconds."""
        return np.array(self.arrivals)[np.searchsorted(self.starts, positions, side="right") - 1]

    def take(self, positions: np.ndarray) -> pa.Table:
        """Return the rows of events at ascending positions, at least one."""
        of_batch = np.searchsorted(self.starts, positions, side="right") - 1
        batches = np.unique(of_batch).tolist()
        parts = [self.tables[i].take(pa.array(positions[of_batch == i] - self.starts[i])) for i in batches]
        return pa.concat_tables(parts).combine_chunks()

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(len(table) for table in self.tables)


# State of strategies and machines as JSON and arrays for files of saved streams, and back.

_ARRAY, _ITEMS = "array", "items"


def pack_values(value: Any) -> Saved:
    """Return numbers, texts, lists, mappings and arrays as the content of a file."""
    arrays: dict[str, np.ndarray] = {}
    return Saved({"value": _as_json(value, arrays)}, arrays, {})


def _as_json(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {_ITEMS: _as_json(value.tolist(), arrays)}
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value) or value.keys() in ({_ARRAY}, {_ITEMS}):
            raise CepError(f"saved state has the keys {list(value)[:3]}; expected texts other than 'array'")
        return {key: _as_json(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item, arrays) for item in value]
    raise CepError(f"saved state holds a {type(value).__name__}, which a file of a stream cannot hold")


def unpack_values(saved: Saved) -> Any:
    """Return what `pack_values` took; tuples are lists then."""
    return _of_json(saved.header["value"], saved.arrays)


def _of_json(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        if value.keys() == {_ITEMS}:
            items = np.empty(len(value[_ITEMS]), object)
            items[:] = value[_ITEMS]
            return items
        return {key: _of_json(item, arrays) for key, item in value.items()}
    return [_of_json(item, arrays) for item in value] if isinstance(value, list) else value
