"""Replicas of a stream's matcher: each has some partitions, and a merge releases outputs in order."""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex_program import Kernel, Program, State, new_state
from cepkit.compile.regex_source import OVERFLOWED
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.term_writing import StateArray
from cepkit.compile.shared.terms import Term
from cepkit.engines.regex import advance, advance_by_one, label_rows
from cepkit.engines.regex_measures import measure
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError, OrderError
from cepkit.events import Column, Events
from cepkit.frames.arrow import ArrowSource, rows_of
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import plain_values, table_of_rows
from cepkit.values import dataclass, field, replace

# The state of a regex kernel: rows of single partitions, and the whole state as arrays for a file.

_NONE = np.empty(0, np.int64)
# Ends of the names of arrays that hold no values of columns
_NO_VALUES = "_start", "_mask", "_head", "_tail"
_COUNTERS = "live", "ordinal", OVERFLOWED


def live_starts(state: State, partitions: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Return the number of live partial matches of each of these partitions, int64."""
    n_live = state.arrays["live"][partitions].copy()
    for name, head in state.arrays.items():
        if name.endswith("_head"):
            n_live += state.arrays[f"{name.removesuffix('_head')}_tail"][partitions] - head[partitions]
    return n_live


def _cells(first: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the numbers of n[i] cells from first[i] on, for each i."""
    return np.repeat(first - (np.cumsum(n) - n), n) + np.arange(n.sum())


def _cells_of(state: State, partitions: np.ndarray, rooms: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the cells of these partitions by kind of array, as many as their slabs had."""
    cells: dict[str, Any] = {}
    for per, room in rooms.items():
        if len(partitions) == 1:
            first = state.place(per)[partitions[0], 0]
            cells[per] = slice(first, first + room[0])
        else:
            cells[per] = _cells(state.place(per)[partitions, 0], room)
    return cells | {"slots": cells["list"]}


def copy_partitions(state: State, partitions: np.ndarray) -> dict[str, Any]:
    """Return the state of these partitions, for `put_back`. O(cells of the partitions)."""
    groups = ("list", "queue") if "queue_place" in state.arrays else ("list",)
    places = slice(partitions[0], partitions[0] + 1) if len(partitions) == 1 else partitions
    rooms = {per: state.place(per)[places, 1].copy() for per in groups}
    copies: dict[str, Any] = {"": rooms}
    cells = _cells_of(state, partitions, rooms)
    for array in state.layout:
        if array.per in ("partition", "ring"):
            copies[array.name] = state.arrays[array.name][places].copy()
        elif array.per != "place":
            copies[array.name] = state.arrays[array.name][..., cells[array.per]].copy()
    return copies


def put_back(state: State, partitions: np.ndarray, copies: Mapping[str, Any]) -> None:
    """Restore the state that `copy_partitions` returned; slabs may have moved in the meantime."""
    cells = _cells_of(state, partitions, copies[""])
    for array in state.layout:
        values = state.arrays[array.name]
        if array.per in ("partition", "ring"):
            values[partitions] = copies[array.name]
        elif array.per != "place":
            values[..., cells[array.per]] = copies[array.name]


def values_in_use(state: State) -> list[np.ndarray]:
    """Return the integers of a state that may be codes of texts: all but counters, positions and masks."""
    packed = pack_state(state)
    return [
        values
        for name, values in packed.items()
        if values.dtype.kind == "i" and not name.endswith(_NO_VALUES) and name not in _COUNTERS
    ]


def pack_state(state: State) -> dict[str, np.ndarray]:
    """Return the arrays of a state for a file, with no cells but those in use."""
    packed = {}
    for array in state.layout:
        values = state.arrays[array.name]
        if array.per in ("list", "queue"):
            first, stop = _cells_in_use(state.arrays, array)
            values = values[_cells(state.place(array.per)[:, 0] + first, stop - first)]
        if array.per != "place":
            packed[array.name] = values
    return packed


def _cells_in_use(arrays: Mapping[str, np.ndarray], array: StateArray) -> tuple[np.ndarray, np.ndarray]:
    if array.per == "list":
        return np.zeros_like(arrays["live"]), arrays["live"]
    queue = array.name.split("_")[0]
    return arrays[f"{queue}_head"], arrays[f"{queue}_tail"]


def unpack_state(layout: tuple[StateArray, ...], arrays: Mapping[str, np.ndarray]) -> State:
    """Return the state that `pack_state` stored in ``arrays``."""
    wanted = {array.name: array.dtype for array in layout if array.per != "place"}
    stored = {name: values.dtype.name for name, values in arrays.items()}
    if wanted != stored:
        raise CepError(
            f"the saved state does not fit this query's kernel: it has {stored}, the kernel needs {wanted}"
        )
    state = new_state(layout, len(arrays["live"]))
    for array in layout:
        if array.per in ("list", "queue"):
            first, stop = _cells_in_use(arrays, array)
            while (small := np.flatnonzero(state.place(array.per)[:, 1] < stop)).size:
                state.grow(array.per, int(small[0]))
            cells = _cells(state.place(array.per)[:, 0] + first, stop - first)
            values = arrays[array.name]
            if values.ndim == 2:  # a file of the time when all partitions had slabs of one size
                cell = np.arange(values.shape[1])
                values = values[(cell >= first[:, None]) & (cell < stop[:, None])]
            state.arrays[array.name][cells] = values
        elif array.per != "place":
            state.arrays[array.name] = np.array(arrays[array.name])
    return state


# The ordered merge: releases outputs of several replicas in the order of the completing events.

T = TypeVar("T")


class OrderedMerge(Generic[T]):
    """Holds outputs back until no replica can offer an earlier one."""

    # Every replica reads its events in stream order and reports its position with outputs and pulses. The
    # merge releases an output after every replica has reached its position. No two events share a position,
    # so the order of the outputs equals that of a single replica, for any timing of the threads. Not
    # thread-safe: threads that share it need a lock. A replica with rare events would delay all others;
    # pulses bound that delay. If all replicas receive a pulse after every P events, an output waits for at
    # most P + L further events, where L is the number of events since the oldest one that still waits in a
    # replica's queue.
    # Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012 (ordered merge,
    # pulses).
    # Differs: an output also reports the position of its replica, as a pulse does.

    def __init__(self, n_replicas: int):
        self.position_of_replica = [-1] * n_replicas
        self._waiting: list[tuple[int, int, T]] = []
        self._number = itertools.count()  # items themselves are never compared

    def offer(self, replica: int, position: int, item: T) -> None:
        """Add an output that the event at ``position`` completed."""
        reached = self.position_of_replica[replica]
        if position <= reached:
            raise OrderError(
                f"replica {replica} offers an output of position {position} after it has reached {reached}"
            )
        self.position_of_replica[replica] = position
        heapq.heappush(self._waiting, (position, next(self._number), item))

    def pulse(self, replica: int, position: int) -> None:
        """Note that ``replica`` has finished its events up to and including ``position``."""
        self.position_of_replica[replica] = max(position, self.position_of_replica[replica])

    def release(self) -> list[T]:
        """Remove and return the outputs that no later output can precede, in the order of their positions."""
        reached = min(self.position_of_replica)
        released = []
        while self._waiting and self._waiting[0][0] <= reached:
            released.append(heapq.heappop(self._waiting)[2])
        return released

    def __len__(self) -> int:
        return len(self._waiting)


# Replicas of a stream's matcher: each owns some partitions, and may run on a thread of its own.
#
# They know arrays and Arrow tables, but no other frames.

_FEWEST_ROWS = 256  # among which rows that came one by one are dropped if nothing needs them
_MOST_PARTS = 4  # to copy a quarter of the partitions takes as long as to copy all
_MESSAGES = 8  # may wait for a replica; the sender of more blocks


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a batch that belongs to one replica, in stream order."""

    partition: np.ndarray  # int32, (n_events,): the replica's own numbers
    position: np.ndarray  # int64, (n_events,): positions in the whole stream
    columns: Mapping[str, Column]  # for predicates
    inputs: Inputs  # the same columns for the kernel
    rows: pa.Table  # columns for results
    n_partitions: int  # partition numbers are below it

    @property
    def stop(self) -> int:
        """The position after the last event."""
        return int(self.position[-1]) + 1

    def take(self, events: slice | np.ndarray) -> Share:
        """Return the share of these events."""
        if isinstance(events, slice):
            rows = self.rows.slice(events.start, events.stop - events.start)
        else:
            rows = self.rows.take(pa.array(events))
        return replace(
            self,
            partition=self.partition[events],
            position=self.position[events],
            columns={name: column.take(events) for name, column in self.columns.items()},
            inputs=self.inputs.with_columns({n: array[events] for n, array in self.inputs.columns.items()}),
            rows=rows,
        )

    def deal(self, n_replicas: int) -> list[Share | None]:
        """Return each replica's part, None without events: partition p is number p // n of replica p % n."""
        n_partitions = -(-self.n_partitions // n_replicas)
        parts: list[Share | None] = []
        for r in range(n_replicas):
            rows = np.flatnonzero(self.partition % n_replicas == r)
            part = self.take(rows) if len(rows) else None
            partition = part and part.partition // n_replicas
            parts.append(part and replace(part, partition=partition, n_partitions=n_partitions))
        return parts


@dataclass(frozen=True, slots=True)
class ReplicaMatches:
    """Results of matches, sorted by last event; match m has ``table[first_row[m]:first_row[m + 1]]``."""

    last: np.ndarray  # int64, (n_matches,): position of the last event
    table: pa.Table
    first_row: np.ndarray  # int64, (n_matches + 1,)


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows that a partial match may still need, in stream order."""

    number: np.ndarray  # int64, (n_rows,): number among the replica's events
    position: np.ndarray  # int64, (n_rows,)
    partition: np.ndarray  # int32, (n_rows,)
    table: pa.Table
    columns: Mapping[str, np.ndarray]  # for predicates; only if rows get labels

    def __len__(self) -> int:
        return len(self.number)

    def followed_by(self, share: Share, first_number: int) -> Kept:
        """Return these rows followed by the rows of a share."""
        number = np.arange(first_number, first_number + len(share.position))
        new = share.inputs.columns
        return Kept(
            np.concatenate([self.number, number]),
            np.concatenate([self.position, share.position]),
            np.concatenate([self.partition, share.partition]),
            pa.concat_tables([self.table, share.rows]).combine_chunks(),
            {name: np.concatenate([values, new[name]]) for name, values in self.columns.items()},
        )

    def where(self, wanted: np.ndarray) -> Kept:
        """Return the rows that a mask selects."""
        rows = np.flatnonzero(wanted)
        columns = {name: values[rows] for name, values in self.columns.items()}
        table = rows_of(self.table, rows)
        return Kept(self.number[rows], self.position[rows], self.partition[rows], table, columns)


@dataclass(frozen=True)
class Matcher:
    """The immutable part of a matcher, which all replicas of a stream share."""

    program: Program  # without text groups, because the columns are already coded
    inputs: Inputs  # inputs without events, which fix the dtypes
    rows: str  # ``"one"``: a result row per match. ``"all"``: the matched rows with their variables.
    result_columns: pa.Schema  # the columns that results read
    max_live: int | None = None  # more live partial matches of a partition after a share are an error
    kernel: Kernel = field(init=False)
    lookback: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", self.program.matching(self.inputs))
        # Labels need a second pass over a match's rows, with the rows that prev() read before them.
        terms = (*self.program.plan.terms(), *self.program.plan.slots)
        lookback = max((_rows_before(term) for term in terms), default=0) if self.rows == "all" else 0
        object.__setattr__(self, "lookback", lookback)

    def nothing_kept(self) -> Kept:
        none = np.empty(0, np.int64)
        columns = self.inputs.columns if self.rows == "all" else {}
        return Kept(none, none, np.empty(0, np.int32), self.result_columns.empty_table(), dict(columns))

    def results(self, rows: Kept, matches: MatchSet, columns: Mapping[str, Column]) -> ReplicaMatches:
        last = rows.position[matches.events.rows(matches.last)]
        if self.rows == "one":
            source = ArrowSource(rows.table, schema=self.program.schema)
            measured = measure(self.program.query, matches, source)
            if self.program.query.measures is None and not self.program.query.order_by:
                measured["first_position"] = pa.array(rows.position[matches.events.rows(matches.first)])
                measured["last_position"] = pa.array(last)
            return ReplicaMatches(last, source.result(measured), np.arange(len(last) + 1))
        names = np.array(self.program.automaton.names, dtype=object)
        variables = pa.array(names[label_rows(self.program, matches)], pa.string())
        lineage = matches.lineage
        table = rows.table.take(pa.array(matches.events.rows(lineage.event_of_item.astype(np.int64))))
        return ReplicaMatches(last, table.add_column(0, "variable", variables), lineage.first_item_of_match)


def _rows_before(term: Term) -> int:
    below = max((_rows_before(arg) for arg in term.args), default=0)
    return below + (term.data if term.op == "previous" else 0)


class Replica:
    """The state of a matcher for some partitions, which have numbers of their own."""

    def __init__(self, matcher: Matcher, key_text: Callable[[int], str]):
        self.matcher, self.key_text = matcher, key_text
        self.state = matcher.kernel.new_state(1)
        self.n_partitions = 1
        self.n_events = 0
        self.n_ended = 0  # partial matches that ended because their key was forgotten
        self._n_overflowed = 0  # partial matches of forgotten keys that were too many
        self._kept = matcher.nothing_kept()
        # The newest rows, which came one by one: their partitions, positions and values
        self._new: tuple[list[int], list[int], list[list]] = [], [], []
        self._out = np.empty(1, np.int64), np.empty(1, np.int64), np.zeros(5, np.int64)
        self._drop_at = 0

    @property
    def kept(self) -> Kept:
        """The rows that a later match may need, and some more."""
        partition, position, rows = self._new
        if rows:
            kept = self._kept
            self._kept = Kept(
                np.concatenate([kept.number, np.arange(self.n_events - len(rows), self.n_events)]),
                np.concatenate([kept.position, np.array(position, np.int64)]),
                np.concatenate([kept.partition, np.array(partition, np.int32)]),
                pa.concat_tables([kept.table, table_of_rows(rows, kept.table.schema)]).combine_chunks(),
                kept.columns,
            )
            self._new = [], [], []
        return self._kept

    def _keep(self, rows: Kept) -> None:
        """Keep these rows. From time to time, drop those that nothing needs."""
        if len(rows) >= self._drop_at:
            rows = self._needed(rows)
            self._drop_at = self._next_drop(rows)
        self._kept = rows

    @property
    def n_kept(self) -> int:
        """Number of rows that are kept."""
        if self._new[0]:
            self._keep(self.kept)
        return len(self._kept)

    def remember(self) -> Callable[[], None]:
        """Return what takes back all later changes. O(cells)."""
        assert self.kept is self._kept  # so no list changes in place
        before = dict(vars(self))
        self.state = self.state.copy()
        return lambda: vars(self).update(before)

    @property
    def n_live(self) -> int:
        """Number of live partial matches of all partitions."""
        return int(live_starts(self.state).sum())

    @property
    def n_overflowed(self) -> int:
        """Number of partial matches that were too many."""
        return self._n_overflowed + self._overflowed_of(slice(None))

    def _overflowed_of(self, partitions: np.ndarray | slice) -> int:
        counts = self.state.arrays.get(OVERFLOWED)
        return 0 if counts is None else int(counts[partitions].sum())

    def work(self, share: Share, ended: np.ndarray = _NONE) -> ReplicaMatches | None:
        """Advance over a share and return the matches that end in it, or None; an error changes no state."""
        # Then forget the partitions that are ``ended``.
        if not len(share.position):
            return None
        self._make_room(share.n_partitions)
        touched = np.sort(np.concatenate([share.partition, ended]) if len(ended) else share.partition)
        touched = touched[np.concatenate([[True], touched[1:] != touched[:-1]])]
        undo, kept = self._remember(touched), self.kept
        counters = self.n_ended, self._n_overflowed
        try:
            first, last = advance(
                self.matcher.kernel, self.state, share.partition, share.inputs, self.n_events
            )
            self._check_live(touched)
            rows = self.kept.followed_by(share, self.n_events)
            matches = self._results(rows, first, last, share.columns) if len(first) else None
            self._keep(rows)
            if len(ended):
                self.forget(ended)
        except BaseException:
            undo()
            self._kept, (self.n_ended, self._n_overflowed) = kept, counters
            raise
        self.n_events += len(share.position)
        return matches

    def work_on_row(
        self, partition: int, position: int, values: list, arguments: list, columns: Mapping[str, Column],
        ends: tuple[tuple[str, int], ...] | None,
    ) -> ReplicaMatches | list | None:  # fmt: skip
        """Advance over one event, as `work` does; ``values`` are those of the columns of results."""
        # A match gives plain values if ``ends`` names each: the ``first`` or ``last`` row and a place in it,
        # or the ``count`` of its rows.
        touched, state, (first, last, _) = np.array([partition], np.int32), self.state, self._out
        if len(self._kept) + len(self._new[0]) >= max(_FEWEST_ROWS, self._drop_at):
            self._keep(self.kept)
        undo, n_events = self._remember(touched), self.n_events
        try:
            n_found = advance_by_one(self.matcher.kernel, state, touched, arguments, n_events, self._out)
            self._check_live(touched)
            self._new[0].append(partition)
            self._new[1].append(position)
            self._new[2].append(values)
            self.n_events += 1
            if n_found and ends is not None:
                return self._plain_result(partition, int(first[0]), ends)
            return self._results(self.kept, first.copy(), last.copy(), columns) if n_found else None
        except BaseException:
            undo()
            if self.n_events > n_events:
                kept = self.kept
                self._kept = kept.where(kept.number < n_events)
                self.n_events = n_events
            raise

    def _plain_result(self, partition: int, number: int, ends: tuple[tuple[str, int], ...]) -> list:
        """Return the values that ``ends`` names for a match from row ``number`` to the newest one."""
        (partitions, _, rows), kept = self._new, self._kept
        place = number - (self.n_events - len(rows))  # among the newest rows
        at = len(kept) if place >= 0 else int(np.searchsorted(kept.number, number))
        values = []
        for end, column in ends:
            if end == "count":
                n_kept = int(np.count_nonzero(kept.partition[at:] == partition))
                values.append(n_kept + partitions[max(place, 0) :].count(partition))
            elif end == "last" or place >= 0:
                values.append(rows[-1 if end == "last" else place][column])
            else:
                values += plain_values(kept.table.column(column).slice(at, 1))
        return values

    def _remember(self, partitions: np.ndarray) -> Callable[[], None]:
        """Return what restores the state of these partitions."""
        if _MOST_PARTS * len(partitions) < self.n_partitions:
            return partial(put_back, self.state, partitions, copy_partitions(self.state, partitions))
        return partial(setattr, self, "state", self.state.copy())

    def _make_room(self, n_partitions: int) -> None:
        if n_partitions > self.n_partitions:
            n_partitions = max(n_partitions, self.n_partitions * 3 // 2 + 8)
            self.state.add_partitions(n_partitions)
            self.n_partitions = n_partitions

    def _check_live(self, touched: np.ndarray) -> None:
        limit = self.matcher.max_live
        if limit is None:
            return
        n_live = live_starts(self.state, touched)
        if n_live.max() > limit:
            key = self.key_text(int(touched[n_live.argmax()]))
            raise CepError(
                f"{key} has {int(n_live.max()):,} live partial matches, more than max_live={limit:,}; the "
                "batch is not applied. Bound them with within=… or with a predicate that eventually fails; "
                "idle_after=… ends those of idle keys"
            )

    def _results(
        self, rows: Kept, first: np.ndarray, last: np.ndarray, columns: Mapping[str, Column]
    ) -> ReplicaMatches:
        row, number, partition, n_partitions = None, rows.number, rows.partition, self.n_partitions
        if len(last) == 1:  # such as of an event that came alone
            row = np.flatnonzero(partition == partition[np.searchsorted(number, last[0])])
            number, partition, n_partitions = number[row], np.zeros(len(row), np.int32), 1
        kept_columns = {
            name: replace(columns[name], values=values if row is None else values[row])
            for name, values in rows.columns.items()
        }
        events = Events(len(number), kept_columns, partition, n_partitions, row)
        matches = MatchSet(events, *(np.searchsorted(number, numbers) for numbers in (first, last)))
        return self.matcher.results(rows, matches, columns)

    def _needed(self, kept: Kept) -> Kept:
        """Return the rows that a live partial match or a later label needs, as another value."""
        wanted = kept.number >= self.state.earliest_starts()[kept.partition]
        if self.matcher.lookback:
            others = np.flatnonzero(~wanted)
            partition = pd.Series(kept.partition[others])
            rows_after = partition.groupby(partition).cumcount(ascending=False).to_numpy()
            wanted[others[rows_after < self.matcher.lookback]] = True
        return replace(kept) if wanted.all() else kept.where(wanted)

    def _next_drop(self, kept: Kept) -> int:
        """Return how many rows are dropped next, which amortizes the cost of that pass."""
        return 2 * len(kept) + self.n_partitions // 4

    def forget(self, partitions: np.ndarray) -> None:
        """End these partitions, so that other keys can use their numbers."""
        self._make_room(int(partitions.max(initial=-1)) + 1)
        n_live, kept = int(live_starts(self.state, partitions).sum()), self.kept
        if len(kept):
            kept = kept.where(~np.isin(kept.partition, partitions))
        n_overflowed = self._n_overflowed + self._overflowed_of(partitions)
        self.state.forget(partitions)  # last, since it cannot be taken back
        self._kept, self.n_ended, self._n_overflowed = kept, self.n_ended + n_live, n_overflowed

    # --- saving

    def pack(self) -> Saved:
        self._kept = self._needed(self.kept)
        self._drop_at = self._next_drop(self._kept)
        arrays = {f"column/{name}": values for name, values in self.kept.columns.items()}
        arrays |= {name: getattr(self.kept, name) for name in ("number", "position", "partition")}
        counters = {
            "n_events": self.n_events, "n_ended": self.n_ended, "n_overflowed": self._n_overflowed
        }  # fmt: skip
        state = Saved({}, pack_state(self.state), {})
        return Saved(counters, arrays, {"kept": self.kept.table}).with_part("state", state)

    def unpack(self, saved: Saved) -> None:
        arrays = saved.arrays
        columns = {n.removeprefix("column/"): a for n, a in arrays.items() if n.startswith("column/")}
        self.state = unpack_state(self.matcher.kernel.source.state, saved.part("state").arrays)
        self.n_partitions = len(self.state.arrays["live"])
        rows = (arrays["number"], arrays["position"], arrays["partition"])
        table = saved.tables["kept"]
        for item in self._kept.table.schema:
            if item.name not in table.column_names:  # a file of the time when the clock was not kept
                table = table.append_column(item, pa.nulls(table.num_rows, item.type))
        self._kept = Kept(*rows, table.select(self._kept.table.column_names), columns)
        self.n_events, self.n_ended = saved.counter("n_events"), saved.counter("n_ended")
        self._n_overflowed = saved.counter("n_overflowed", absent=0)


# --- threads


@dataclass
class _Outlet:
    """The shared output of the threads, under one lock."""

    merge: OrderedMerge
    lock: threading.Lock = field(default_factory=threading.Lock)
    failure: BaseException | None = None


class ReplicaThreads:
    """A thread per replica; the results are merged in the order of the last event."""

    # The threads are daemons; they end with `close`, or when the object is garbage-collected.

    def __init__(self, replicas: list[Replica], pulse_every: int):
        self.replicas, self.pulse_every = replicas, pulse_every
        self._outlet = _Outlet(OrderedMerge(len(replicas)))
        self._inboxes = [queue.Queue(_MESSAGES) for _ in replicas]
        self._pulsed = 0
        self._threads = [
            threading.Thread(target=_serve, args=(r, inbox, self._outlet, replica), daemon=True)
            for r, (replica, inbox) in enumerate(zip(replicas, self._inboxes, strict=True))
        ]
        for thread in self._threads:
            thread.name = f"cepkit-replica-{thread.name}"
            thread.start()
        self._stop = weakref.finalize(self, _stop, self._inboxes)

    def give(self, share: Share) -> None:
        """Deal out the next events; wait if a replica has too many messages."""
        # A replica that has finished its part has finished all its events before ``share.stop``.
        self.check()
        stop = share.stop
        is_due = stop - self._pulsed >= self.pulse_every
        try:
            for inbox, part in zip(self._inboxes, share.deal(len(self.replicas)), strict=True):
                if part is not None:
                    inbox.put((part, stop))
                elif is_due:
                    inbox.put((None, stop))
        except BaseException as error:  # Ctrl-C: only some replicas have their part of these events
            self._outlet.failure = error
            raise
        if is_due:
            self._pulsed = stop

    def forget(self, replica: int, partitions: np.ndarray) -> None:
        """End partitions of a replica after the events dealt so far."""
        self._inboxes[replica].put(partitions)

    def settle(self, stop: int) -> None:
        """Wait until the replicas have finished all events before position ``stop``."""
        for inbox in self._inboxes:
            inbox.put((None, stop))
        for inbox in self._inboxes:
            inbox.join()
        self._pulsed = stop
        self.check()

    def release(self) -> list[tuple[ReplicaMatches, int]]:
        """Return the results that no later result can precede, each with its number in a `ReplicaMatches`."""
        with self._outlet.lock:
            return self._outlet.merge.release()

    def check(self) -> None:
        """Raise the error that ended a replica."""
        if self._outlet.failure is not None:
            raise CepError(
                f"a thread of the stream failed, so the stream cannot continue: {self._outlet.failure}"
            ) from self._outlet.failure

    def close(self) -> None:
        self._stop()
        for thread in self._threads:
            thread.join()


def _stop(inboxes: list[queue.Queue]) -> None:
    for inbox in inboxes:
        inbox.put(None)


def _serve(number: int, inbox: queue.Queue, outlet: _Outlet, replica: Replica) -> None:
    """Handle messages until None arrives; the first error stops all replicas."""
    while (message := inbox.get()) is not None:
        try:
            if outlet.failure is None:
                _handle(number, message, outlet, replica)
        except BaseException as error:  # the thread that calls `give` raises it
            outlet.failure = error
        finally:
            inbox.task_done()
    inbox.task_done()


def _handle(number: int, message: tuple | np.ndarray, outlet: _Outlet, replica: Replica) -> None:
    """Forget partitions, or work on a share and report its position; a pulse has no share."""
    if isinstance(message, np.ndarray):
        replica.forget(message)
        return
    share, stop = message
    matches = None if share is None else replica.work(share)
    with outlet.lock:
        if matches is not None:
            for m, position in enumerate(matches.last.tolist()):
                outlet.merge.offer(number, position, (matches, m))
        outlet.merge.pulse(number, stop - 1)


def gather(released: list[tuple[ReplicaMatches, int]], empty: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """Return the results of released matches as one table, and the number of rows of each match."""
    if not released:
        return empty, np.empty(0, np.int64)
    tables, first_row_of_matches, n_rows = [empty], {}, 0
    for matches, _ in released:
        if id(matches) not in first_row_of_matches:
            first_row_of_matches[id(matches)] = n_rows
            tables.append(matches.table)
            n_rows += matches.table.num_rows
    begin = np.array([first_row_of_matches[id(f)] + f.first_row[m] for f, m in released], np.int64)
    counts = np.array([f.first_row[m + 1] - f.first_row[m] for f, m in released], np.int64)
    table = pa.concat_tables(tables, promote_options="permissive")
    shift = np.repeat(begin - (np.cumsum(counts) - counts), counts)
    return table.take(pa.array(shift + np.arange(len(shift)))), counts
