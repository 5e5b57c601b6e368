"""The open state of evaluation trees: events go in one by one, matches and the counted work come out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import is_
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock, joined
from cepkit.errors import CepError, ResultTooLargeError
from cepkit.events import INTEGER, Column, ColumnType, Events
from cepkit.kernels.records import Conditions
from cepkit.kernels.wings import tree_layout as kernel
from cepkit.kernels.wings.tree_layout import Learned, TreeEvents, Trees, TreeState
from cepkit.progress import checkpoint
from cepkit.shedding.tree_program import TreeProgram
from cepkit.shedding.tree_stream import TreeStream
from cepkit.values import dataclass, field, replace

KERNELS = "cepkit.kernels.wings.tree"
MOST_PARTIAL_MATCHES = 1 << 20
_EVENTS_PER_CALL = 1 << 12
_MATCHES_PER_CALL = 1 << 16
_WORK_PER_CALL = 1 << 20  # partial matches looked at between two checkpoints
# Arrays of the state, and of what a machine learns.
_STATE = ("info", "pool", "cells", "stack", "complete", "path", "heads", "sizes", "limits")
_LEARNED = ("considered", "contributed", "skipped")

Match = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class TreeMatches:
    """Complete matches as arrays."""

    # The matches with the components of their trees. The number of the tree takes the place of the branch.
    by_tree: MatchBlock
    ids: np.ndarray  # int64, (n_matches,): number of each match among all partial matches
    # int64, (n_matches, 2): conditions that the event evaluated, and partial matches that it created, until
    # the match was found
    before: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def positions(self) -> np.ndarray:
        """Positions of the events of all matches."""
        return self.by_tree.event_of_item

    @property
    def trees(self) -> np.ndarray:
        """The tree of each match."""
        return self.by_tree.branch_of_match

    def take(self, numbers: np.ndarray) -> TreeMatches:
        """Return the matches with these numbers."""
        return TreeMatches(self.by_tree.take(numbers), self.ids[numbers], self.before[numbers])


NO_MATCHES = TreeMatches(EMPTY, np.zeros(0, np.int64), np.zeros((0, 2), np.int64))


@dataclass(frozen=True)
class EventOutcome:
    """What one event did. The matches become tuples when they are first read."""

    # evaluated, passed: int64, (n_conditions,): how often each condition was evaluated, and how often it held
    evaluated: np.ndarray
    passed: np.ndarray
    # created, removed: partial matches that were created, matches among them, and that expired
    created: int
    removed: int
    found: TreeMatches  # the matches as arrays
    # Stored partial matches that the event met in the right order and within the window: those that it was
    # combined with, and those that it skipped.
    pairs: int
    _as_matches: Callable[[TreeMatches], list[Match]] = field(repr=False, compare=False)

    @cached_property
    def matches(self) -> list[Match]:
        """Each match as a tuple over the variables of the query, with the positions of their events."""
        return self._as_matches(self.found) if len(self.found) else []


@dataclass(frozen=True, slots=True)
class PartialMatches:
    """The partial matches that are alive, by their numbers."""

    id: np.ndarray  # int64, (n,): rising in the order of creation
    node: np.ndarray  # int64, (n,): the leaf or the inner node
    state: np.ndarray  # int64, (n,): number of components that have events; 0 at leaves of absent events
    # first_position, last_position: int64, (n,)
    first_position: np.ndarray
    last_position: np.ndarray
    first_time: np.ndarray  # int64, (n,): ticks of the first event
    length: np.ndarray  # int64, (n,): number of events
    # int64, (n, n_leaves): position of the event of each leaf, the last one of a set; -1: none
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.id)


class Ancestry(NamedTuple):
    """The partial matches that a learning machine created, in this order; row i has the id ``base + i``."""

    base: int  # number of the first partial match
    # left, right: int64, (n,): the rows of the partial matches that it came from; -1: none
    left: np.ndarray
    right: np.ndarray
    # node, position: int64, (n,): where it belongs, and the event that created it
    node: np.ndarray
    position: np.ndarray
    # float64, (n,): conditions that were evaluated to build it, and in vain with it as the stored side of a
    # pair
    cost: np.ndarray
    # type, bin, state: int64, (n,): the cell of ``considered`` and ``contributed`` of the pair that made it
    type: np.ndarray
    bin: np.ndarray
    state: np.ndarray
    is_match: np.ndarray  # bool, (n,): whether it is a reported match

    @property
    def takes_event(self) -> np.ndarray:
        """Whether it only took its event, alone or into a set; others join two partial matches."""
        return self.right < 0


class TreeMachine:
    """The open state of one evaluation.

    An event pays for the conditions that it evaluates and for the partial matches that it creates. Pairs
    that the order of the pattern or the window excludes cost nothing. A partial match is kept only if later
    events can extend it.
    """

    def __init__(self, program: TreeProgram, events: Events, *, n_bins: int = 1, bin_size: int = 1):
        self.program = program
        code, n_nodes = program.code, len(program.code.nodes)
        self._n_partitions = 0
        self._info = np.zeros(kernel.N_INFO, np.int64)
        self._info[[kernel.FREE_SLOT, kernel.FREE_CELL]] = -1
        width = kernel.MEMBERS + code.groups.shape[1]
        self._pool = np.zeros((0, width), np.int64)
        self._cells = np.zeros((0, 5), np.int64)
        self._stack = self._complete = np.zeros(0, np.int64)
        self._path = np.zeros(64, np.int64)
        self._first = np.zeros(code.groups.shape[1] + 1, np.int64)
        self._heads = self._sizes = np.zeros(0, np.int64)
        self._log = np.zeros((0, kernel.N_LOG_COLUMNS), np.int64)
        self._n_conditions = len(program.conditions)
        self._counts = np.zeros((1, kernel.N_COUNTS + 2 * self._n_conditions), np.int64)
        self._limits = np.zeros(kernel.N_LIMITS, np.int64)
        self._set_limits(n_nodes)
        self._stream = TreeStream(program)
        self._stream.extend(events, 0)
        self._match_ids: list[np.ndarray] = []
        # The kernel with the arrays of now, and some of them; None when others must replace them.
        self._bound: Callable[[], int] | None = None
        self._bound_to: tuple[np.ndarray, ...] = ()
        self._learning, self._skip, self._n_logged = False, None, 0
        self.set_bins(n_bins, bin_size)
        self._room()
        self._grow_slots(64)
        self._grow_cells(64)

    def _set_limits(self, n_nodes: int) -> None:
        window, limits = self.program.program.window, self._limits
        limits[kernel.WITHIN] = limits[kernel.GAP] = -1
        if window.within is not None:
            limits[kernel.WITHIN] = _whole_ticks(window.within, window.closed)
        if window.gap_within is not None:
            limits[kernel.GAP] = max(0, _whole_ticks(window.gap_within, window.closed))
        limits[kernel.WITHIN_EVENTS] = window.within_events or 0
        absences = self.program.code.absences
        # An absence at an edge reaches as far as the window of time, so the number of events ends no window.
        at_edge = (absences[:, [kernel.FROM, kernel.TO]] < 0).any()
        limits[kernel.ENDS_BY_EVENTS] = window.within_events is not None and not at_edge
        limits[kernel.IS_STRICT] = window.strict_time or window.gap_is_empty  # later, but not by a tick
        limits[kernel.N_NODES], limits[kernel.N_LEAVES] = n_nodes, self.program.n_leaves
        limits[kernel.MOST_ALIVE], limits[kernel.MOST_COMPLETE] = MOST_PARTIAL_MATCHES, _MATCHES_PER_CALL
        limits[kernel.MOST_WORK] = _WORK_PER_CALL

    # --- room

    def _room(self) -> None:
        """Make room for the partitions of the stream."""
        self._bound = None
        n_nodes, n = int(self._limits[kernel.N_NODES]), self._stream.n_partitions
        if n > self._n_partitions:
            heads, sizes = np.full(n * n_nodes, -1, np.int64), np.zeros(n * n_nodes, np.int64)
            heads[: len(self._heads)], sizes[: len(self._sizes)] = self._heads, self._sizes
            self._heads, self._sizes, self._n_partitions = heads, sizes, n

    def _grow_slots(self, wanted: int) -> None:
        old = len(self._pool)
        self._pool = self._with_free(self._pool, wanted, kernel.AFTER, kernel.FREE_SLOT, kernel.N_FREE)
        self._pool[old:, kernel.STATUS] = kernel.FREE
        self._stack = _longer(self._stack, len(self._pool) + self.program.n_leaves + 4)
        self._complete = _longer(self._complete, len(self._pool))

    def _grow_cells(self, wanted: int) -> None:
        links = kernel.CELL_BEFORE, kernel.FREE_CELL, kernel.N_FREE_CELLS
        self._cells = self._with_free(self._cells, wanted, *links)

    def _with_free(self, rows: np.ndarray, wanted: int, link: int, first: int, count: int) -> np.ndarray:
        """Return a table with more rows, and put them before the others that are free."""
        # The column ``link`` names the next free row; the info has the first one and their number.
        old, new = len(rows), max(2 * len(rows), len(rows) + wanted)
        longer = _longer(rows, new)
        longer[old:, link] = np.arange(old + 1, new + 1)
        longer[-1, link] = self._info[first]
        self._info[first] = old
        self._info[count] += new - old
        return longer

    def _make_room(self, why: int) -> None:
        """Make the room that the kernel asks for."""
        self._bound = None
        if why == kernel.NEEDS_SLOTS:
            self._grow_slots(len(self._pool))
        elif why == kernel.NEEDS_CELLS:
            self._grow_cells(len(self._cells))
        elif why == kernel.NEEDS_PATH:
            self._path = np.zeros(
                max(2 * len(self._path), 2 * int(self._info[kernel.LONGEST]) + 64), np.int64
            )
        elif why == kernel.NEEDS_LOG:
            self._log = _longer(self._log, max(1 << 10, 2 * len(self._log)))
        else:
            raise ResultTooLargeError(
                f"the tree has more than {MOST_PARTIAL_MATCHES:,} partial matches. Use a shorter window or "
                "more conditions"
            )

    # --- learning and skipping

    def set_bins(self, n_bins: int, bin_size: int) -> None:
        """Set the bins of positions, and empty the tables of what the machine learned."""
        if n_bins < 1 or bin_size < 1:
            raise CepError(f"n_bins={n_bins}, bin_size={bin_size}: expected at least 1")
        shape = max(1, len(self.program.types)), n_bins, self.program.n_states + 1
        self._limits[kernel.BIN_SIZE] = bin_size
        self.considered, self.contributed, self.skipped = (np.zeros(shape, np.int64) for _ in range(3))
        self._skip_table = np.zeros(shape, np.uint8)
        self._skip = self._bound = None
        self._limits[kernel.HAS_SKIP] = 0

    @property
    def bin_size(self) -> int:
        """Events per bin of positions."""
        return int(self._limits[kernel.BIN_SIZE])

    @property
    def skip(self) -> np.ndarray | None:
        """Pairs to leave out, or None."""
        return self._skip

    @skip.setter
    def skip(self, table: np.ndarray | None) -> None:
        if table is not None and np.shape(table) != self.considered.shape:
            raise CepError(
                f"skip has the shape {np.shape(table)}; expected {self.considered.shape} for types, bins and "
                "states + 1"
            )
        self._skip, self._bound = table, None
        self._skip_table = np.zeros(self.considered.shape, np.uint8)
        if table is not None:
            self._skip_table[:] = table
        self._limits[kernel.HAS_SKIP] = table is not None

    @property
    def learning(self) -> bool:
        """Whether the machine writes down what it combines and creates."""
        return self._learning

    @learning.setter
    def learning(self, wanted: bool) -> None:
        if not wanted:
            self._n_logged = self._n_logged_now()
        elif not self._learning:
            self._limits[kernel.LOG_BASE] = self._info[kernel.NEXT_ID]
            self._log, self._bound = np.zeros((1 << 10, kernel.N_LOG_COLUMNS), np.int64), None
            self._match_ids = []
        self._learning = bool(wanted)
        self._limits[kernel.IS_LEARNING] = self._learning

    def _n_logged_now(self) -> int:
        if not self._learning:
            return self._n_logged
        return int(self._info[kernel.NEXT_ID] - self._limits[kernel.LOG_BASE])

    @property
    def ancestry(self) -> Ancestry:
        """The partial matches since the machine began to learn, with those that they came from."""
        base = int(self._limits[kernel.LOG_BASE])
        log = self._log[: self._n_logged_now()].T.copy()
        parents = [log[column] - base for column in (kernel.LOG_LEFT, kernel.LOG_RIGHT)]
        is_match = np.zeros(log.shape[1], bool)
        for ids in self._match_ids:
            is_match[ids - base] = True
        names = ("node", "position", "cost", "type", "bin", "state")
        named = {name: log[getattr(kernel, f"LOG_{name.upper()}")] for name in names}
        named["cost"] = named["cost"].astype(np.float64)
        left, right = (np.maximum(rows, -1) for rows in parents)
        return Ancestry(base, left, right, is_match=is_match, **named)

    # --- work

    @property
    def n_alive(self) -> int:
        """Number of partial matches that are kept."""
        return int(self._info[kernel.N_ALIVE])

    @property
    def most_alive(self) -> int:
        """The highest number of partial matches so far."""
        return int(self._info[kernel.MOST_SEEN])

    @property
    def size_bytes(self) -> int:
        """Size of the partial matches: 64 bytes each, and 8 per event."""
        info = self._info
        return int(8 * info[kernel.TOTAL_LENGTH] + 64 * info[kernel.N_ALIVE])

    @property
    def n_events(self) -> int:
        """Number of events of the stream so far."""
        return self._stream.end

    @property
    def oldest_position(self) -> int:
        """Position of the oldest event that the machine keeps."""
        return self._stream.base

    def extend(self, events: Events, *, keep_all: bool = False) -> None:
        """Add later events of the stream; their positions continue. It takes O(new events) on average."""
        # Old events may leave, unless ``keep_all`` is true.
        info = self._info
        self._stream.extend(events, 0 if keep_all else int(min(info[kernel.SWEEP], info[kernel.AT])))
        self._room()

    def leave_out(self, positions: np.ndarray) -> None:
        """Let `run` pass over events that were dropped."""
        self._stream.kind[positions - self._stream.base] = -1

    def types_of_events(self) -> np.ndarray:
        """Return the number of each event's type in ``program.types``; -1: none of them."""
        stream = self._stream
        return stream.kind[: stream.end - stream.base]

    def times_of(self, positions: np.ndarray | int) -> np.ndarray:
        """Return the ticks of the clock at positions of the stream; 0 when the query needs no clock."""
        return self._stream.time[positions - self._stream.base]

    def partitions_of(self, positions: np.ndarray | int) -> np.ndarray:
        """Return the partitions of the events at positions of the stream."""
        return self._stream.partition[positions - self._stream.base]

    def values_of(self, positions: np.ndarray) -> np.ndarray:
        """Return the values that conditions compare at positions of the stream, float64, (n, n_values)."""
        # Tests of single events are not among them.
        at = positions - self._stream.base
        return np.concatenate([self._stream.floats[:, at], self._stream.integers[:, at]]).T

    def feed(self, position: int) -> EventOutcome:
        """Process one event; positions must ascend."""
        counts = self._counts
        counts[:] = 0
        parts = []
        while self._call(position, position + 1, position, counts):
            parts.append(self._take())  # more matches than one call may have
        n = kernel.N_COUNTS + self._n_conditions
        row = counts[0]
        if self._info[kernel.N_COMPLETE] or parts:
            parts.append(self._take())
        matches = NO_MATCHES if not parts else parts[0] if len(parts) == 1 else join_matches(parts)
        return EventOutcome(
            row[kernel.N_COUNTS : n].copy(), row[n:].copy(), int(row[kernel.CREATED]),
            int(row[kernel.REMOVED]), matches, int(row[kernel.PAIRS]), self._as_matches,
        )  # fmt: skip

    def pass_time(self, now: int) -> TreeMatches:
        """Report the matches whose windows end before the tick ``now``, since no later event comes before it.

        Partial matches whose windows are over are removed. Without a window of time, nothing happens.
        """
        if self._limits[kernel.WITHIN] < 0:
            return NO_MATCHES
        stream, end = self._stream, self._stream.end
        stream.set_place_after(now)
        self._bound = None
        stream.end += 1  # the kernel ends windows before it looks at the type of an event
        try:
            return self.feed(end).found
        finally:
            stream.end = end
            self._info[kernel.AT] = end

    @property
    def wakes_at(self) -> int | None:
        """The first tick at which a waiting match is complete; without any, the first after all windows."""
        within, rows = int(self._limits[kernel.WITHIN]), self._pool[self._alive()]
        if within < 0 or not len(rows):
            return None
        time = self._stream.time[rows[:, kernel.FIRST] - self._stream.base]
        waits = self.program.code.nodes[rows[:, kernel.NODE], kernel.IS_ROOT] != 0
        return int(time[waits].min() if waits.any() else time.max()) + within + 1

    def _call(self, first: int, stop: int, row: int, counts: np.ndarray) -> bool:
        """Process the events from ``first`` to before ``stop``; return whether the matches must be taken."""
        info, limits, stream = self._info, self._limits, self._stream
        if not info[kernel.IS_BEGUN]:
            if first < info[kernel.AT] or stop > stream.end:
                raise CepError(
                    f"position {first}: expected positions from {info[kernel.AT]} to {stream.end - 1}, "
                    "ascending"
                )
            info[kernel.AT] = first
        limits[kernel.STOP], limits[kernel.FIRST_ROW], limits[kernel.BASE] = stop, row, stream.base
        while True:
            arrays = counts, self.considered, self.contributed, self.skipped  # users may replace some of them
            if self._bound is None or not all(map(is_, arrays, self._bound_to)):
                self._bound, self._bound_to = self._bind(counts), arrays
            why = self._bound()
            if why == kernel.DONE:
                return False
            if why == kernel.IS_FULL:
                return True
            self._make_room(why)

    def _bind(self, counts: np.ndarray) -> Callable[[], int]:
        """Return the kernel for calls with the arrays of now."""
        advance = _kernels().advance
        learned = Learned(self._skip_table, self.considered, self.contributed, self.skipped, self._log)
        arguments = self._limits, *self._searched(), counts, learned
        return advance.bind(*arguments) if hasattr(advance, "bind") else partial(advance, *arguments)

    def _searched(self) -> tuple[TreeEvents, Trees, Conditions, TreeState]:
        """Return what kernels read and write, as of now."""
        code, stream = self.program.code, self._stream
        return (
            TreeEvents(stream.kind, stream.partition, stream.time, stream.rank, stream.accept),
            Trees(*(getattr(code, name) for name in Trees._fields)),
            Conditions(
                *code.walk, stream.floats, stream.integers, stream.float_registers, stream.integer_registers
            ),
            TreeState(
                self._info, self._pool, self._cells, self._heads, self._sizes, stream.chain, self._stack,
                self._complete, self._path, self._first,
            ),
        )  # fmt: skip

    def run(
        self, first: int, stop: int, *, only_typed: bool = False, is_shown: bool = True
    ) -> Iterator[tuple[np.ndarray, TreeMatches]]:
        """Process the events from ``first`` to before ``stop``."""
        at = first
        while at < stop:
            checkpoint((at - first) / (stop - first) if is_shown else None)
            end = min(at + _EVENTS_PER_CALL, stop)
            counts = np.zeros((end - at, self._counts.shape[1]), np.int64)
            self._limits[kernel.ONLY_TYPED] = only_typed
            is_full = self._call(at, end, at, counts)
            self._limits[kernel.ONLY_TYPED] = False
            done = int(self._info[kernel.AT]) if is_full else end
            yield counts[: done - at], self._take()
            at = done

    # --- keeping

    def save(self) -> dict[str, object]:
        """Return the whole state as numbers, texts, lists, mappings and arrays; `load` takes it."""
        n_logged = self._n_logged_now()
        return {
            "query": [condition.text for condition in self.program.conditions],
            "stream": self._stream.save(),
            "n_bins": self.considered.shape[1],
            "skip": None if self._skip is None else np.array(self._skip),
            "learning": self._learning,
            "log": self._log[:n_logged].copy(),
            "match_ids": np.concatenate([np.zeros(0, np.int64), *self._match_ids]),
            **{name: getattr(self, f"_{name}").copy() for name in _STATE},
            **{name: getattr(self, name).copy() for name in _LEARNED},
        }

    @classmethod
    def load(cls, program: TreeProgram, saved: Mapping[str, object]) -> TreeMachine:
        """Return a machine in the state that `save` returned."""
        if list(saved["query"]) != [condition.text for condition in program.conditions]:
            raise CepError("the saved state belongs to another query: its conditions differ")
        machine = cls(program, _no_events(program), n_bins=int(saved["n_bins"]))
        machine._stream.restore(saved["stream"])
        machine.skip = saved["skip"]
        for name in _STATE:
            setattr(machine, f"_{name}", np.array(saved[name], order="C"))
        machine._limits = _longer(machine._limits, kernel.N_LIMITS)  # an earlier version had fewer
        for name in _LEARNED:
            setattr(machine, name, np.array(saved[name], order="C"))
        machine._n_partitions = len(machine._heads) // int(machine._limits[kernel.N_NODES])
        machine._learning, machine._log = bool(saved["learning"]), np.array(saved["log"], order="C")
        machine._n_logged = len(machine._log)
        machine._match_ids, machine._bound = [np.array(saved["match_ids"])], None
        return machine

    def finish(self, complete_until: float | None = np.inf) -> TreeMatches:
        """Report the matches that wait for the end of a window that ends until a time, as no event follows.

        None means the time of the last event. By default all of them are reported.
        """
        self._counts[:] = 0
        self._limits[kernel.BASE] = self._stream.base
        if (2 * int(self._info[kernel.LONGEST]) + 4) > len(self._path):
            self._make_room(kernel.NEEDS_PATH)
        _kernels().finish_waiting(self._limits, *self._searched(), self._counts)
        waited, within = self._take(), self.program.program.window.within
        if complete_until == np.inf or within is None or not len(waited):
            return waited
        time, base = self._stream.time, self._stream.base
        until = time[self._stream.end - base - 1] if complete_until is None else complete_until
        first = np.minimum.reduceat(waited.positions, waited.by_tree.first_item_of_match[:-1])
        return waited.take(np.flatnonzero(time[first - base] <= until - within))

    def _take(self) -> TreeMatches:
        info, pool = self._info, self._pool
        n = int(info[kernel.N_COMPLETE])
        n_items = int(pool[self._complete[:n], kernel.LENGTH].sum())
        positions, components = np.empty(n_items, np.int64), np.empty(n_items, np.int64)
        first_item, of_match = np.zeros(n + 1, np.int64), np.empty((n, 4), np.int64)
        if n:
            _, trees, _, state = self._searched()
            _kernels().take_matches(trees, state, positions, components, first_item, of_match)
            if self._learning:
                self._match_ids.append(of_match[:, 1].copy())
        trees, ids = of_match[:, 0].astype(np.int16), of_match[:, 1]
        by_tree = MatchBlock(positions, components.astype(np.int16), first_item, trees)
        return TreeMatches(by_tree, ids, of_match[:, 2:])

    def _as_matches(self, found: TreeMatches) -> list[Match]:
        """Return matches as tuples over the variables of the query."""
        matches, leaves = [], self.program.leaves
        variables = self.program.program.query.variables
        place = {name: i for i, name in enumerate(variables)}
        places = [
            [place[leaves[leaf].variable] for leaf in order] for order in self.program.code.leaf_of_component
        ]
        positions, components = found.positions.tolist(), found.by_tree.component_of_item.tolist()
        first, trees = found.by_tree.first_item_of_match.tolist(), found.trees.tolist()
        for m, tree in enumerate(trees):
            events_of_variable: list[list[int]] = [[] for _ in variables]
            for x in range(first[m], first[m + 1]):
                events_of_variable[places[tree][components[x]]].append(positions[x])
            matches.append(tuple(map(tuple, events_of_variable)))
        return matches

    def block(self, found: TreeMatches) -> MatchBlock:
        """Return matches as a block of the engines, in the order in which they were found."""
        if not len(found):
            return EMPTY
        parts, code = [], self.program.code
        for tree, branch_of_order in enumerate(code.branch_of_order):
            numbers = np.flatnonzero(found.trees == tree)
            if not len(numbers):
                continue
            block = found.by_tree.take(numbers)
            if len(branch_of_order) > 1:
                n = int(code.trees[tree, kernel.N_COMPONENTS])
                positions = block.event_of_item.reshape(-1, n)
                order = np.argsort(positions, axis=1)  # components by time
                branches = np.array([branch_of_order[tuple(row)] for row in order.tolist()], np.int16)
                block = MatchBlock(
                    np.take_along_axis(positions, order, axis=1).ravel(),
                    np.tile(np.arange(n, dtype=np.int16), len(block)), block.first_item_of_match, branches,
                )  # fmt: skip
            else:
                (branch,) = branch_of_order.values()
                block = replace(block, branch_of_match=np.full(len(block), branch, np.int16))
            parts.append(block)
        return joined(parts)

    # --- partial matches

    def _alive(self) -> np.ndarray:
        """Return the rows of the partial matches that are kept, by their numbers."""
        slots = np.flatnonzero(self._pool[:, kernel.STATUS] == kernel.ALIVE)
        return slots[np.argsort(self._pool[slots, kernel.ID], kind="stable")]

    def numbers(self) -> np.ndarray:
        """Return the numbers of the partial matches that are kept."""
        return self._pool[self._alive(), kernel.ID]

    def partial(self) -> PartialMatches:
        slots, code, base = self._alive(), self.program.code, self._stream.base
        rows = self._pool[slots]
        node = rows[:, kernel.NODE]
        members = np.full((len(slots), self.program.n_leaves), -1, np.int64)
        trees = code.nodes[node, kernel.TREE]
        for tree, leaves in enumerate(code.leaf_of_component):
            in_tree = trees == tree
            for c, leaf in enumerate(leaves):
                member = rows[in_tree, kernel.MEMBERS + c]
                if code.groups[tree, c]:
                    member = np.where(member >= 0, self._cells[np.maximum(member, 0), kernel.CELL_LAST], -1)
                members[in_tree, leaf] = member
        is_absent = code.nodes[node, kernel.IS_ABSENT] > kernel.NOT_ABSENT
        at = np.flatnonzero(is_absent)
        members[at, node[at]] = rows[at, kernel.FIRST]
        first = rows[:, kernel.FIRST]
        return PartialMatches(
            rows[:, kernel.ID], node, code.nodes[node, kernel.STATE], first, rows[:, kernel.LAST],
            self._stream.time[first - base], rows[:, kernel.LENGTH], members,
        )  # fmt: skip

    def drop(self, ids: np.ndarray) -> int:
        """Drop partial matches by their numbers, but nothing that came from them; return how many."""
        slots = self._alive()
        slots = np.ascontiguousarray(slots[np.isin(self._pool[slots, kernel.ID], ids)], np.int64)
        self._limits[kernel.BASE] = self._stream.base
        _, trees, _, state = self._searched()
        _kernels().remove(slots, self._limits, trees, state)
        return len(slots)


def _no_events(program: TreeProgram) -> Events:
    """Return a stream without events."""
    bound, nothing = program.program, np.zeros(0, np.int64)
    columns = {
        name: Column(bound.schema.get(name, ColumnType(INTEGER)), nothing, np.zeros(0, object))
        for name in bound.columns_to_read
    }
    return Events(0, columns, np.zeros(0, np.int32), 1)


def _kernels() -> SimpleNamespace:
    """Return the kernels of now: better machine code takes the place of the first one."""
    kernels = load_kernels(KERNELS)
    return kernels if hasattr(kernels.advance, "py_func") else _quiet(kernels)


@cache
def _quiet(kernels: SimpleNamespace) -> SimpleNamespace:
    """Return kernels that are plain Python functions. They must not warn of overflows."""
    quiet, names = np.errstate(all="ignore"), ("advance", "take_matches", "finish_waiting", "remove")
    return SimpleNamespace(**{name: quiet(getattr(kernels, name)) for name in names})


def join_matches(parts: Sequence[TreeMatches]) -> TreeMatches:
    """Return the matches of several parts in one, at least one part."""
    ids, before = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "before"))
    return TreeMatches(joined([part.by_tree for part in parts]), ids, before)


def _whole_ticks(width: float, closed: bool) -> int:
    return math.floor(width) if closed else math.ceil(width) - 1


def _longer(array: np.ndarray, n: int) -> np.ndarray:
    longer = np.zeros((n, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
