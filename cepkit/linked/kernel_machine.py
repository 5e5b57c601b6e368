"""Drive the kernels of LinkedCEP and the run engines: store events and slots, and collect matches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.errors import CepError, ResultTooLargeError, truth
from cepkit.events import sums_before
from cepkit.kernels.wings import linked_layout as kernel
from cepkit.kernels.wings.linked_layout import (
    ChainStore,
    EventArrays,
    Output,
    PartitionArrays,
    PatternTables,
    Scratch,
)  # fmt: skip
from cepkit.linked.patterns import (
    POINTER,
    SIGNS,
    Copying,
    Counters,
    EventComparison,
    PlainEvents,
    PlainMatches,
    PlainPattern,
    join_matches,
    sorted_matches,
)
from cepkit.progress import checkpoint

KERNELS = "cepkit.kernels.wings.linked"
# Initial sizes; all of them grow.
_FIRST_SLOTS = 1024
_FIRST_MATCHES = 1 << 14
_FIRST_CANDIDATES, _FIRST_LEVELS = 256, 64
_MOST_ITEMS_AT_ONCE = 1 << 23  # items collected before matches leave the output
_FEWEST_PER_CALL = 1 << 8  # events of the first call of a kernel
_LONG_CALL_S = 0.04
_STEPS_PER_CALL = 1 << 25  # events times partial matches; Ctrl-C waits for them
_SLOT_BYTES = 72  # of a chain or run, without what copies take along
_MOST_SLOTS = 1 << 26  # chains or runs in memory without copies; 5 GB
_MOST_ITEMS = 1 << 31  # in the matches of one event; 16 GB


class KernelMachine:
    """An engine for one pattern over a stream. A kernel advances its state."""

    # Every event pushed stays in memory (8 bytes per value), because partial matches and later events read
    # its values. The slot of a partial match is used again after the match has left the window.
    # ``kernel_seconds`` is the CPU time of the search: without storing events, without making room, without
    # ordering that Python does.

    def __init__(
        self, pattern: PlainPattern, coverable: tuple[bool, ...], output: str, advance: Callable[..., None],
        copying: Copying = POINTER, *, ordered: bool = True,
    ):  # fmt: skip
        self.pattern = pattern
        self._advance = advance
        self.output = output
        self.copying, self._is_ordered = copying, truth("ordered", ordered)
        n = pattern.n_components
        self._coverable = coverable
        self._is_float: dict[str, bool] | None = None  # per column; known after the first events
        self.n_events = 0
        self._n_partitions = 0
        self._events_per_call = _FEWEST_PER_CALL
        self.kernel_seconds = 0.0
        zero = np.zeros
        self._store = ChainStore(
            zero((0, kernel.N_FIELDS), np.int64), zero(0, np.int64), *_copy_room(copying, 0, n)
        )
        self._parts = PartitionArrays(*(zero(0, np.int64) for _ in range(7)))
        self._report = zero(kernel.REPORT_LENGTH, np.int64)
        candidates, levels = _FIRST_CANDIDATES, _FIRST_LEVELS
        self._scratch = Scratch(
            zero((candidates, 5), np.int64), zero(candidates + 1, np.int64), zero((levels, 4), np.int64),
            zero(n, np.int64), zero(n, np.int64), zero(8, np.int64),
        )  # fmt: skip
        self._out = Output(
            *self._item_room(_FIRST_MATCHES * n if output == "all" else 1),
            zero((_FIRST_SLOTS if output == "latest" else 0, n), np.int64),
            zero(8, np.int64),
            zero(n, np.int64),
        )
        self._grow_slots(_FIRST_SLOTS)

    def _take_types(self, events: PlainEvents) -> None:
        """Make the arrays for the column types of the first events; raise when later types differ."""
        is_float = {name: np.asarray(values).dtype.kind == "f" for name, values in events.columns.items()}
        if self._is_float is not None:
            changed = [name for name in self._is_float if self._is_float[name] != is_float.get(name)]
            if changed:
                raise CepError(f"column {changed[0]!r} has changed between integers and floats")
            return
        self._tables, self._integers, self._floats = _tables(
            self.pattern, self._coverable, is_float, self.copying, self._is_ordered
        )
        used = {*self._integers, *self._floats}
        self._is_float = {name: kind for name, kind in is_float.items() if name in used}
        zero = np.zeros
        self._events = EventArrays(
            *(zero(0, np.int64) for _ in range(3)), zero((len(self._integers), 0), np.int64),
            zero((len(self._floats), 0), np.float64), *(zero(0, np.int64) for _ in range(3)),
            zero((len(self.pattern.absences), 0), np.int64), zero((0, self.copying.n_attributes), np.int64),
        )  # fmt: skip

    # --- arrays that grow ---------------------------------------------------------------------------------

    def _item_room(self, n_items: int) -> tuple[np.ndarray, ...]:
        """Return new arrays ``items``, ``component``, ``length`` and ``spare``."""
        # They are filled, so that the system gives them memory now. Otherwise the search would pay for it.
        n_matches = max(1, n_items // self.pattern.n_components)
        return (
            np.full(n_items, 0, np.int64), np.full(n_items if self.pattern.kleene else 1, 0, np.int64),
            np.full(n_matches, 0, np.int64), np.empty(n_items, np.int64),
        )  # fmt: skip

    def _grow_slots(self, at_least: int) -> None:
        """Make room for at least this many further chains or runs."""
        n = len(self._store.free)
        wanted = max(2 * n, n + at_least)
        most = _MOST_SLOTS * _SLOT_BYTES // self._slot_bytes
        if wanted > most:
            raise ResultTooLargeError(
                f"more than {most:,} partial matches or chains are live at event "
                f"{self._report[kernel.CONSUMED]}. Use a shorter window or more conditions"
            )
        n_free = self._report[kernel.N_FREE]
        fills = ChainStore(-1, 0, 0, 0)
        self._store = ChainStore(
            *(_lengthen(array, wanted, axis=0, fill=f) for array, f in zip(self._store, fills, strict=True))
        )
        # The lowest numbers are used first, so that used slots lie together.
        self._store.free[n_free : n_free + wanted - n] = np.arange(wanted - 1, n - 1, -1)
        self._report[kernel.N_FREE] += wanted - n

    def _widen_slots(self, at_least: int) -> None:
        """Make room for copies of at least this many events in each slot."""
        longest = 2 * (at_least - 1)
        wider = _copy_room(self.copying, len(self._store.free), longest)
        for old, new in zip(self._store[2:], wider, strict=True):
            new[:, : old.shape[1]] = old
        self._store = self._store._replace(positions=wider[0], payload=wider[1])

    @property
    def _slot_bytes(self) -> int:
        """The memory of a chain or run, with what copies take along."""
        return _SLOT_BYTES + 8 * (self._store.positions.shape[1] + self._store.payload.shape[1])

    def _append_events(self, events: PlainEvents) -> None:
        """Add events to those in memory, and their partitions."""
        n, n_absences = self.n_events, len(self.pattern.absences)
        stop = n + events.n_events
        room = len(self._events.time)
        if stop > room:
            # The first push is often the only one, so it gets no spare room.
            wanted = stop if room == 0 else max(stop, 2 * room)
            self._events = EventArrays(
                *(_lengthen(array, wanted, axis=array.ndim - 1) for array in self._events[:-1]),
                payload=_lengthen(self._events.payload, wanted, axis=0),
            )
        table, new = self._events, slice(n, stop)
        table.time[new] = events.time
        partition = events.partition_of_event
        table.partition[new] = 0 if partition is None else partition
        table.accepted[new] = events.accepted(self.pattern)
        for row, name in zip(table.integers, self._integers, strict=True):
            row[new] = events.columns[name]
        for row, name in zip(table.floats, self._floats, strict=True):
            row[new] = _as_floats(events.columns[name])
        columns = [table.time, table.partition, *table.integers, *table.floats.view(np.int64), table.accepted]
        for a in range(self.copying.n_attributes):
            table.payload[new, a] = columns[a % len(columns)][new]
        n_partitions = int(table.partition[new].max(initial=-1)) + 1
        if n_partitions > self._n_partitions:
            wanted = n_partitions if self._n_partitions == 0 else max(n_partitions, 2 * self._n_partitions)
            per = self.pattern.n_components
            room_of = (per, per, per, 1, 1, 1, n_absences)
            fill_of = (-1, -1, -1, -1, -1, 0, -1)
            self._parts = PartitionArrays(
                *(
                    _lengthen(array, wanted * room, axis=0, fill=fill)
                    for array, room, fill in zip(self._parts, room_of, fill_of, strict=True)
                )
            )
            self._n_partitions = wanted
        self.n_events = stop

    def _make_room(self, reason: int, need: int) -> PlainMatches | None:
        """Enlarge the array that is full; return the matches that left the output to make room."""
        report = self._report
        match reason:
            case kernel.MORE_CANDIDATES:
                self._scratch = self._scratch._replace(
                    candidate=_lengthen(self._scratch.candidate, need, axis=0),
                    run_start=_lengthen(self._scratch.run_start, need + 1, axis=0),
                )
            case kernel.MORE_LEVELS:
                self._scratch = self._scratch._replace(level=_lengthen(self._scratch.level, need, axis=0))
            case kernel.MORE_ROWS:
                n = len(self._out.rows)
                rows = _lengthen(self._out.rows, max(2 * n, n + need), axis=0)
                self._out = self._out._replace(rows=rows)
            case kernel.MORE_SLOTS:
                window = self.pattern.window_ticks
                if window is not None:
                    limit = self._events.time[report[kernel.CONSUMED]] - window
                    load_kernels(KERNELS, quick=False).sweep(
                        self._events, self._store, self._parts, limit, report
                    )
                if report[kernel.N_FREE] < max(need, len(self._store.free) // 2):
                    self._grow_slots(need)
            case kernel.MORE_WIDTH:
                self._widen_slots(need)
            case kernel.MORE_MATCHES | kernel.MORE_ITEMS:
                matches = self._take_matches()
                items = need * (self.pattern.n_components if reason == kernel.MORE_MATCHES else 1)
                if items > _MOST_ITEMS:
                    raise ResultTooLargeError(
                        f"event {report[kernel.CONSUMED]} alone ends more than {need - 1} matches or items. "
                        "Use output='count' or a shorter window"
                    )
                room = min(4 * len(self._out.items), _MOST_ITEMS_AT_ONCE)
                if max(items, room) > len(self._out.items) or need > len(self._out.length):
                    room = self._item_room(max(items, room))
                    names = ("items", "component", "length", "spare")
                    self._out = self._out._replace(**dict(zip(names, room, strict=True)))
                return matches
        return None

    def _take_matches(self) -> PlainMatches:
        """Return the matches of the output, and empty the output."""
        report, out = self._report, self._out
        n, n_matches, n_items = self.pattern.n_components, *report[[kernel.N_FOUND, kernel.N_ITEMS]].tolist()
        report[kernel.N_FOUND] = report[kernel.N_ITEMS] = 0
        items = out.items[:n_items].copy()
        if self.pattern.kleene and not self._is_ordered:
            first = sums_before(out.length[:n_matches])
            return PlainMatches(n_matches, n, items, first, out.component[:n_items].copy())
        if self.pattern.kleene:
            return sorted_matches(items, out.length[:n_matches].copy(), out.component[:n_items].copy(), n)
        return PlainMatches(n_matches, n, items, np.arange(n_matches + 1, dtype=np.int64) * n)

    # --- searching ----------------------------------------------------------------------------------------

    def push(self, events: PlainEvents) -> PlainMatches:
        """Advance over more events, none older than the last; return the matches that end in them."""
        # With output ``count`` the engine only counts the matches, with ``latest`` it keeps only coverages.
        # Pushes of any size give the same matches in the same order and the same counters except
        # ``peak_live``.
        start = self.n_events
        self._check_and_append(events)
        before = self.total if self.output != "all" else 0
        parts = self._advance_over(start, self.n_events)
        if self.output == "all":
            last = self._take_matches()
            return join_matches([*parts, last], self.pattern.n_components) if parts else last
        return replace(join_matches([], self.pattern.n_components), n_matches=self.total - before)

    def count_at(self, events: PlainEvents, positions: Sequence[int]) -> list[int]:
        """Advance over more events as `push` does; return how many matches end at each position."""
        # Only with output ``count``. ``positions`` rise, count from the first of ``events``, and include all
        # events at which matches may end.
        self._check_and_append(events)
        begin = start = self.n_events - events.n_events
        counts, before = [], self.total
        for position in positions:
            self._advance_over(start, begin + int(position) + 1)
            start, total = begin + int(position) + 1, self.total
            counts.append(total - before)
            before = total
        self._advance_over(start, self.n_events)
        return counts

    def _check_and_append(self, events: PlainEvents) -> None:
        """Check events, and add them to those in memory."""
        events.check(self.pattern, int(self._events.time[self.n_events - 1]) if self.n_events else None)
        self._take_types(events)
        self._append_events(events)

    def _advance_over(self, start: int, stop: int) -> list[PlainMatches]:
        """Run the kernel over the events ``start`` to ``stop``; return the matches that left to make room."""
        report, parts = self._report, []
        with np.errstate(over="ignore"):  # only kernels that run as Python warn
            size = self._events_per_call
            begin = start
            while start < stop:
                checkpoint((start - begin) / (stop - begin))
                # Calls that were short so far say nothing of a next one with many partial matches.
                size = min(size, max(1, _STEPS_PER_CALL // (int(report[kernel.PEAK_LIVE]) + size)))
                began, is_full = time.thread_time(), start + size <= stop
                self._advance(
                    self._tables, self._events, self._store, self._parts, self._scratch, self._out,
                    start, min(start + size, stop), report,
                )  # fmt: skip
                took = time.thread_time() - began
                self.kernel_seconds += took
                start = int(report[kernel.CONSUMED])
                if report[kernel.REASON]:
                    matches = self._make_room(int(report[kernel.REASON]), int(report[kernel.NEED]))
                    parts += [] if matches is None else [matches]
                # The work per event grows with the live partial matches, so calls get shorter.
                if took > _LONG_CALL_S:
                    size = max(1, size // 2)
                elif took < _LONG_CALL_S / 4 and is_full:
                    size *= 2
            self._events_per_call = size  # so that the next push need not find it again
        return parts

    @property
    def total(self) -> int:
        """Matches counted so far, with output ``count``."""
        limbs = sum(digit << (31 * i) for i, digit in enumerate(self._out.total.tolist()))
        return limbs + int(self._report[kernel.N_FOUND])

    @property
    def slots(self) -> np.ndarray:
        """The chains or runs in memory, see `ChainStore`. The last event of a free slot is -1."""
        return self._store.field

    @property
    def rows(self) -> np.ndarray:
        """The coverages so far in canonical order, int64, (n_coverages, n_components)."""
        rows = self._out.rows[: self._report[kernel.N_ROWS]]
        return rows[np.lexsort(rows.T)]

    @property
    def counters(self) -> Counters:
        """The number of partial matches, copies and chains so far."""
        report = self._report
        numbers = report[[kernel.N_COPIES, kernel.CHAINS, kernel.PEAK_LIVE]].tolist()
        return Counters(self._out.nodes.copy(), *numbers, 8 * int(report[kernel.COPIED]), self._slot_bytes)


def _copy_room(copying: Copying, n_slots: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays ``positions`` and ``payload`` for copies of up to ``longest`` events."""
    width = 1 + longest if copying.number else 0
    return (
        np.zeros((n_slots, width), np.int64),
        np.zeros((n_slots, longest * copying.n_attributes), np.int64),
    )


def _lengthen(array: np.ndarray, n: int, *, axis: int, fill: int = 0) -> np.ndarray:
    """Return a longer array with the same beginning."""
    shape = list(array.shape)
    shape[axis] = n
    longer = np.full(shape, fill, array.dtype)
    longer[tuple(slice(0, size) for size in array.shape)] = array
    return longer


def _tables(
    pattern: PlainPattern, coverable: tuple[bool, ...], is_float: dict[str, bool], copying: Copying,
    is_ordered: bool,
) -> tuple:  # fmt: skip
    """Return the pattern as arrays, and the names of the integer and float columns that it needs."""
    n = pattern.n_components
    by_decision: list[list[EventComparison]] = [[] for _ in range(n + len(pattern.absences))]
    for condition in pattern.conditions:
        by_decision[max(condition.components)].append(condition)
    absences = []
    for a, absence in enumerate(pattern.absences):
        by_decision[n + a] += absence.conditions
        named = max((j for c in absence.conditions for j in c.components), default=-1)
        # A later event decides the absence, or the Kleene closure may still take events.
        looks_back = named > absence.after or absence.after in pattern.kleene
        mode = kernel.DROP_TESTED if absence.conditions else kernel.DROP_ALL
        decided_at = max(absence.after + 1, named)
        absences.append((absence.after, decided_at, kernel.LOOK_BACK if looks_back else mode))
    integers: dict[str, int] = {}
    floats: dict[str, int] = {}
    rows, factors = [], []
    for condition in (condition for conditions in by_decision for condition in conditions):
        names = condition.left_column, condition.right_column
        as_float = condition.factor != 1 or any(is_float[name] for name in names)
        numbers = floats if as_float else integers
        left, right = (numbers.setdefault(name, len(numbers)) for name in names)
        sign = SIGNS.index(condition.sign)
        rows.append((condition.left, sign, condition.right, left, right, as_float))
        factors.append(condition.factor)
    first = sums_before([len(conditions) for conditions in by_decision])
    window = -1 if pattern.window_ticks is None else pattern.window_ticks
    tables = PatternTables(
        np.array(coverable, np.uint8),
        np.array([j in pattern.kleene for j in range(n)], np.uint8),
        first,
        np.array(rows, np.int64).reshape(-1, 6),
        np.array(factors, np.float64),
        np.array(absences, np.int64).reshape(-1, 3),
        np.array([any(a[1] == j and a[2] == kernel.LOOK_BACK for a in absences) for j in range(n)], np.uint8),
        np.array(
            [
                window, pattern.strict_time, bool(pattern.kleene), copying.number, copying.n_attributes,
                is_ordered,
            ],
            np.int64,
        ),
    )  # fmt: skip
    return tables, list(integers), list(floats)


def _as_floats(values: np.ndarray) -> np.ndarray:
    """Return numbers as float64, a missing integer as NaN."""
    values = np.asarray(values)
    is_float = values.dtype.kind == "f"
    return values if is_float else np.where(values == np.iinfo(np.int64).min, np.nan, values)
