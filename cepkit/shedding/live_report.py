"""The rows of a live stream with lasting codes, and what the stream says about its load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.errors import CepError
from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.shedding.replay import latency_text, losses_text, percent, table_of_types, time_text
from cepkit.streaming.batches import StreamSchema, stable_column
from cepkit.streaming.coding import check_text_orders, keys_of_batch, text_codes_of_columns
from cepkit.streaming.saved import Saved
from cepkit.values import dataclass, field, replace

# What a live stream says about its load: events kept and dropped, recall, latency, backlog and drift.


@dataclass(frozen=True, repr=False)
class SheddingReport:
    """The state of a stream with a latency bound, in ``stream.shedding``. It does not change later.

    The share of the matches that were found is estimated from the combinations of events that processed and
    dropped events make in a window. Dropped events count by their utility, if the strategy has utilities. The
    estimate is NaN when the strategy drops partial matches or skips pairs.
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
    # mean_latency, max_latency: seconds from the offer of the last event of a match until the stream returned
    # it. NaN without matches.
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
        return losses_text(self.n_dropped, n, self.dropped_partial_matches, self.skipped_pairs)

    def to_frame(self) -> pd.DataFrame:
        """Return the kept, dropped and waiting events of each type, and the share that was dropped."""
        return table_of_types(self.kept, self.dropped, waiting=self.waiting_of_type.values())

    def __repr__(self) -> str:
        lines = [f"{self.strategy}: {self.losses or 'nothing was dropped'}"]
        if self.warm_up_left:
            lines.append(f"warm-up: {self.warm_up_left:,} more events; nothing is dropped before its end")
        if self.matches:
            recall = f", estimated recall {percent(self.recall)}" if self.losses else ""
            lines.append(f"{self.matches:,} match{'' if self.matches == 1 else 'es'}{recall}")
            times = self.mean_latency, self.max_latency, self.within_bound, self.latency_bound
            lines.append(latency_text(*times))
        lines.append(
            f"{self.waiting:,} events wait, about {time_text(self.backlog_seconds)} of work; "
            f"{self.arrival_rate:,.0f} events arrive per second, and each takes {time_text(self.service)}"
        )
        if self.drift is not None:
            alarms = list(self.drift["alarms"])
            drift = f"drift in {', '.join(alarms)}" if alarms else "no drift"
            lines.append(f"{drift}; computed again {self.drift['recomputed']:,} times")
        return "\n".join(lines)


BINS = 8  # of a window
_TOGETHER = 256  # bins that are counted together
_FADE = 0.5  # share of the bins before that counts


@dataclass
class RecallEstimate:
    """Estimates the share of matches that were found, from the events that were processed and dropped.

    The stream is cut into bins, 8 in a window. From the events of each bin by type follows how many
    combinations of events in the order of the pattern end in it, with and without the dropped events. A
    dropped event counts by its utility. As many combinations are matches as among those of processed events.
    """

    types: list[int]  # the type of each component of the pattern, in order
    is_sequence: bool
    width: float  # of a bin, by the clock of the window or in events
    trust: list[float] = field(default_factory=list)  # how far the worth of events of each type tells
    found: float = 0.0
    lost: float = 0.0
    # known, matches: combinations of processed events, and their matches, lately
    known: float = 0.0
    matches: float = 0.0
    # Bins that are open or not far from it, in order: their numbers, their processed and dropped events by
    # type, (n, 2, n_types), and their matches.
    bins: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    events: np.ndarray = field(default_factory=lambda: np.empty((0, 2, 0)))
    found_in: np.ndarray = field(default_factory=lambda: np.empty(0))
    counted: int | None = None  # the last bin that is counted
    # Bin and type of single events that were processed, and how many matches each completed, until `_take`
    single: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trust = self.trust or [1.0] * (max(self.types) + 1)
        self.events = self.events.reshape(len(self.bins), 2, len(self.trust))

    def bins_of(self, at: np.ndarray) -> np.ndarray:
        """Return the bins of events, by their times or numbers."""
        return np.floor_divide(at, self.width).astype(np.int64)

    def _rows(self, bins: np.ndarray) -> np.ndarray:
        """Return the rows of some bins, and begin new ones."""
        if len(new := np.setdiff1d(bins, self.bins)):
            place = np.searchsorted(self.bins, new)
            self.bins = np.insert(self.bins, place, new)
            self.events = np.insert(self.events, place, 0.0, axis=0)
            self.found_in = np.insert(self.found_in, place, 0.0)
        return np.searchsorted(self.bins, bins)

    def process(self, bins: np.ndarray, types: np.ndarray, n_found: np.ndarray) -> None:
        """Take in events that were processed, and how many matches each completed."""
        rows, counts = self._rows(bins), types < len(self.trust)
        np.add.at(self.events, (rows[counts], 0, types[counts]), 1.0)
        np.add.at(self.found_in, rows, n_found)
        self.found += float(n_found.sum())

    def process_one(self, own_bin: int, number: int, n_found: int) -> None:
        """Take in an event as `process` does, which then counts many such events together."""
        self.single.append([own_bin, number, n_found])
        if len(self.single) >= _TOGETHER:
            self._take()

    def _take(self) -> None:
        if self.single:
            columns, self.single = np.array(self.single, np.int64).T, []
            self.process(*columns)

    def find(self, n_found: int) -> None:
        """Take in matches that waited until now."""
        self.found += n_found
        if len(self.bins):
            self.found_in[-1] += n_found

    def learn(self, number: int, worth: np.ndarray, n_matches: np.ndarray) -> None:
        """Learn from events of a type how far their worth tells of how many matches they are part."""
        if n_matches.any() and worth.sum() > 0.0:
            worth, share = worth / worth.mean() - 1.0, n_matches / n_matches.mean() - 1.0
            if worth.any():
                self.trust[number] = min(1.5, max(0.0, float(worth @ share) / float(worth @ worth)))

    def drop(self, bins: np.ndarray, types: np.ndarray, worth: np.ndarray) -> None:
        """Take in events that were dropped, and their worth as a share of a mean event of their type."""
        rows, counts = self._rows(bins), types < len(self.trust)
        rows, types = rows[counts], types[counts]
        weight = np.maximum(0.0, 1.0 + np.array(self.trust)[types] * (worth[counts] - 1.0))
        np.add.at(self.events, (rows, 0, types), 1.0 - weight)
        np.add.at(self.events, (rows, 1, types), weight)

    def settle(self, open_bin: int | None) -> None:
        """Count the bins before the one of the oldest event that waits, when there are enough."""
        self._take()
        if len(self.bins) < _TOGETHER:
            return
        n_done = int(np.searchsorted(self.bins, self.bins[-1] if open_bin is None else open_bin))
        if n_done < _TOGETHER:
            return
        known, matches, lost = self._settled(n_done)
        self.known, self.matches = _FADE * self.known + known, _FADE * self.matches + matches
        self.lost += lost
        self.counted = int(self.bins[n_done - 1])
        n_old = int(np.searchsorted(self.bins[:n_done], self.counted - BINS, side="right"))
        self.bins, self.events, self.found_in = (
            of_bins[n_old:] for of_bins in (self.bins, self.events, self.found_in)
        )

    def _settled(self, n: int) -> tuple[float, float, float]:
        """Return combinations of processed events, their matches, and lost ones, of the first bins."""
        known, lost, matches = self._combinations(n)
        if not len(known):
            return 0.0, 0.0, 0.0
        total = _FADE * self.known + float(known.sum())
        mean = (_FADE * self.matches + float(matches.sum())) / total if total else 0.0
        # Bins nearby tell more about the share of combinations that are matches; the mean counts as 4 bins.
        near, prior = np.ones(min(4 * BINS + 1, len(known))), 4.0 * float(known.mean())
        known_near, matches_near = (np.convolve(of, near, "same") for of in (known, matches))
        share = (matches_near + mean * prior) / (known_near + prior) if prior else np.full(len(lost), mean)
        return float(known.sum()), float(matches.sum()), float(share @ lost)

    def _combinations(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the combinations of processed events, lost ones, and matches that end in new bins."""
        if not n:
            return np.empty(0), np.empty(0), np.empty(0)
        bins = self.bins[:n]
        place = np.cumsum(np.minimum(np.diff(bins, prepend=bins[0] - BINS), BINS)) - 1  # long pauses are cut
        counts = np.zeros((int(place[-1]) + 1, 2, len(self.trust)))
        counts[place] = self.events[:n]
        is_new = np.full(n, True) if self.counted is None else bins > self.counted
        matches = self.found_in[:n][is_new]
        sides = np.maximum(0.0, np.stack([counts[:, 0], counts.sum(axis=1)]))[:, :, self.types]
        if not counts[:, 1].any():
            sides = sides[:1]
        ends = place[is_new]
        so_far = np.zeros((len(self.types) + 1, len(sides), len(ends)))
        so_far[0], newest = 1.0, np.zeros((len(sides), len(ends)))
        for back in range(BINS - 1, -1, -1):  # windows of 8 bins
            here = sides[:, ends - back].transpose(2, 0, 1)
            added = np.zeros_like(so_far)
            if self.is_sequence:
                for c in range(1, len(so_far)):  # half of the pairs in a bin are in order
                    added[c] = (so_far[c - 1] + added[c - 1] / 2.0) * here[c - 1]
            else:
                added[1:] = here
            so_far, newest = so_far + added, added[-1]
        if not self.is_sequence:
            newest = so_far[1:].prod(axis=0) - (so_far - added)[1:].prod(axis=0)
        return newest[0], np.maximum(0.0, newest[-1] - newest[0]), matches

    def save(self) -> dict[str, Any]:
        """Return the state as numbers, lists and arrays."""
        return {name: value for name, value in vars(self).items() if name != "types"}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        for name in vars(self).keys() - {"types"}:
            setattr(self, name, saved[name])

    @property
    def wanted(self) -> float:
        """The estimated number of matches without drops."""
        self._take()
        return self.found + self.lost + self._settled(len(self.bins))[2]


# The rows of a live stream: batches as events with lasting codes, and the rows that are kept for matches.


class EventReader:
    """Reads batches as events with texts and keys that have the same codes in every batch."""

    def __init__(self, program: SequenceProgram, schema: StreamSchema):
        check_text_orders(program)
        self._program, self._schema, self.source = program, schema, schema.source
        self._codes = text_codes_of_columns(program)
        self._code_of_key: dict[tuple, int] = {}

    @property
    def n_keys(self) -> int:
        """Number of partition keys so far."""
        return len(self._code_of_key)

    def read(self, table: pa.Table) -> Events:
        """Return a batch in stream order as events."""
        source = self.source(table)
        events = build_events(source, self._program)
        columns = {}
        for name, column in events.columns.items():
            codes = self._codes.get(name)
            column_type = self._program.type_of(name)
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
    """The rows that matches may still need, batch by batch, with the offer of each row."""

    tables: list[pa.Table] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    offers: list[np.ndarray] = field(default_factory=list)

    def add(self, start: int, offers: np.ndarray, table: pa.Table) -> None:
        """Add a batch whose first event has the position ``start``."""
        self.tables.append(table)
        self.starts.append(start)
        self.offers.append(offers)

    def forget(self, before: int) -> None:
        """Forget the batches that end before a position."""
        n = 0
        while n + 1 < len(self.starts) and self.starts[n + 1] <= before:
            n += 1
        if n:
            del self.tables[:n], self.starts[:n], self.offers[:n]

    def offer_of(self, positions: np.ndarray) -> np.ndarray:
        """Return when events were offered, in seconds."""
        return np.concatenate([np.empty(0), *self.offers])[positions - (self.starts or [0])[0]]

    def take(self, positions: np.ndarray) -> pa.Table:
        """Return the rows of events at ascending positions, at least one."""
        of_batch = np.searchsorted(self.starts, positions, side="right") - 1
        batches = np.unique(of_batch).tolist()
        parts = [self.tables[i].take(pa.array(positions[of_batch == i] - self.starts[i])) for i in batches]
        return pa.concat_tables(parts).combine_chunks()

    @property
    def n(self) -> int:
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
