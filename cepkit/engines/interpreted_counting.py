"""Count sequences by interpretation: graphs become tables for kernels that serve every graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from cepkit.compile.counting_ranking import values_of
from cepkit.compile.interpreted_columns import (
    ColumnReader,
    PairTest,
    Tests,
    constants_of,
    numbers_of,
    pair_tests_of,
    tests_by_side,
)
from cepkit.compile.shared.loading import load_kernels
from cepkit.compile.shared.terms import Term
from cepkit.compile.state_graph import AnchoredGraph, GraphEdge, LinkAbsence, StateGraph
from cepkit.engines.shared.places import COUNTING
from cepkit.events import sums_before
from cepkit.kernels.records import EntryGraph, EntryLists, PoolGraph
from cepkit.progress import checkpoint
from cepkit.values import dataclass, field

# What interpreting kernels read: columns at chosen rows, and arrays one after the other.


class PickedColumns(Mapping):
    """Columns at some rows, picked when they are read."""

    def __init__(self, columns: Mapping[str, np.ndarray], rows: np.ndarray):
        self._columns, self._rows = columns, rows

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name][self._rows]

    def __iter__(self):
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


@dataclass
class Buffer:
    """Arrays one after the other."""

    dtype: type
    parts: list[np.ndarray] = field(default_factory=list)
    size: int = 0

    def add(self, values: np.ndarray) -> int:
        """Add an array and return where it begins."""
        at = self.size
        self.parts.append(np.ascontiguousarray(values).astype(self.dtype, copy=False))
        self.size += len(values)
        return at

    def add_tests(self, made: Tests) -> list[list[int]]:
        """Add the numbers of tests and return a row for each: where its numbers, lows and widths begin."""
        rows = zip(made.numbers, made.low, made.width, strict=True)
        return [[self.add(values) for values in row] for row in rows]

    def whole(self) -> np.ndarray:
        """Return all parts as one array."""
        return np.concatenate(self.parts) if self.parts else np.empty(0, self.dtype)


# Count sequences by interpretation: the state graph becomes tables for kernels that serve every graph.

_WORK_PER_CALL = 1 << 24
_SHARE_TO_BEGIN_AGAIN = 2  # a kernel takes a small part of the time, but loading it takes time, too


def counting_tests_of(graph: StateGraph) -> list[tuple[PairTest, ...]] | str:
    """Return the tests of every link, or why the graph cannot be interpreted, to complete "it …"."""
    tests_of_links = []
    for link in graph.links:
        tests = pair_tests_of(link.terms, link.earlier.__contains__)
        if isinstance(tests, str):
            return tests
        tests_of_links.append(tests)
    return tests_of_links


def absence_tests_of(absence: LinkAbsence) -> tuple[PairTest, ...] | str:
    """Return the tests between an absent event and its neighbour, or why there are none."""
    return pair_tests_of(absence.terms, lambda leaf: leaf.data[0] == absence.variable)


class PoolReaders:
    """Readers of the columns at the members of each pool."""

    def __init__(self, layout):
        self.layout, self._readers = layout, {}

    def reader(self, pool: int) -> ColumnReader:
        """Return the reader of the columns at the members of a pool."""
        if pool not in self._readers:
            layout = self.layout
            columns = PickedColumns(layout.inputs.columns, layout.array("members", pool))
            self._readers[pool] = ColumnReader(columns, *constants_of(layout.program, layout.inputs))
        return self._readers[pool]


def count_interpreted(
    layout, tests: list[tuple[PairTest, ...]], last: np.ndarray, since: np.ndarray, modulus: int,
    is_compiled: Callable[[], bool],
) -> np.ndarray | None:  # fmt: skip
    """Return how many matches end at each member of the last pool, uint64, modulo ``modulus`` (0: 2^64)."""
    # Returns None if a kernel of its own is compiled in the meantime: it begins again and ends earlier.
    graph = layout.graph
    readers = PoolReaders(layout)
    places, numbers = Buffer(np.int64), Buffer(np.uint64)
    sizes = []
    for pool in range(len(graph.tests)):
        members = layout.array("members", pool)
        places.add(members)
        sizes.append(len(members))
    first_member = sums_before(sizes)
    test_rows: list[list[int]] = []
    first_test, alive_at = [0], []
    for k, link in enumerate(graph.links):
        source, target = graph.pool_of_component(link.source), graph.pool_of_component(link.target)
        shape = sizes[source], sizes[target]
        with np.errstate(all="ignore"):
            compared = numbers_of(tests[k], readers.reader(source), readers.reader(target), shape)
        test_rows += numbers.add_tests(compared)
        if link.has_far:
            limit = layout.array("limit", k).view(np.uint64)
            target_places = layout.array("members", target).view(np.uint64)
            width = np.uint64(np.iinfo(np.int64).max) - target_places
            test_rows.append([numbers.add(limit), numbers.add(target_places), numbers.add(width)])
        first_test.append(len(test_rows))
        alive_at.append(-1 if compared.alive is None else places.add(compared.alive))
    edges, first_edge = [], [0]
    place_of_key: dict[tuple, int] = {}

    def place_of(*key: str | int) -> int:
        if key not in place_of_key:
            place_of_key[key] = places.add(layout.array(*key))
        return place_of_key[key]

    for t in range(len(graph.states)):
        for e in graph.into(t):
            edge, link = graph.edges[e], graph.link(e)
            ends = place_of("ends", graph.pool(edge.source), graph.pool(t))
            begins = place_of("begins", edge.link) if graph.has_gap or link.has_near else -1
            edges.append([edge.source, t, edge.link, ends, begins, alive_at[edge.link]])
        first_edge.append(len(edges))
    states, n_cells = [], 0
    for s, state in enumerate(graph.states):
        is_stored = bool(graph.out_of(s))
        states.append([graph.pool(s), int(state.is_first), int(state.is_final), int(is_stored), n_cells])
        n_cells += sizes[graph.pool(s)] if is_stored else 0
    at = np.zeros(1 + len(sizes) + 3 * len(states), np.int64)
    at[0] = -1
    tables = PoolGraph(
        _table(states, 5), _table(edges, 6), np.array(first_edge, np.int64), _table(test_rows, 3),
        np.array(first_test, np.int64), first_member, places.whole(), numbers.whole(),
    )  # fmt: skip
    scratch = [np.zeros(n_cells, np.uint64) for _ in range(2)]
    out, done = np.zeros(len(last), np.uint64), 0
    run = load_kernels(COUNTING).count
    with np.errstate(all="ignore"):
        while done < len(last):
            checkpoint(done / len(last))
            done = run(done, len(last), _WORK_PER_CALL, np.uint64(modulus), at, since, tables, *scratch, out)
            if _SHARE_TO_BEGIN_AGAIN * done < len(last) and is_compiled():
                return None
    return out


def nearest_interpreted(
    layout, tests: tuple[PairTest, ...], pools: tuple[int, int], first: np.ndarray, stop: np.ndarray, *,
    ahead: bool,
) -> np.ndarray:  # fmt: skip
    """Return the place of the nearest absent event for each neighbour, int64."""
    # ``pools`` are those of the absent event and of its neighbour. Each neighbour looks from ``first`` to
    # ``stop``.
    readers, numbers = PoolReaders(layout), Buffer(np.uint64)
    members = layout.array("members", pools[0])
    with np.errstate(all="ignore"):
        compared = numbers_of(tests, *map(readers.reader, pools), (len(members), len(first)))
    rows = _table(numbers.add_tests(compared), 3)
    first = first if compared.alive is None else np.where(compared.alive, first, stop)
    out, done = np.empty(len(first), np.int64), 0
    run = load_kernels(COUNTING).nearest
    with np.errstate(all="ignore"):
        while done < len(out):
            checkpoint()
            done = run(done, _WORK_PER_CALL, int(ahead), members, first, stop, rows, numbers.whole(), out)
    return out


def _table(rows: Iterable[Iterable[int]], width: int) -> np.ndarray:
    """Return rows as an int64 array with this number of columns."""
    return np.array(list(rows), np.int64).reshape(-1, width)


# Count sequences with conditions on their first event by interpretation: the graph becomes tables.

ANCHOR, LATER, EARLIER = range(3)  # the sides of tests
_MOST_BITS = 62

Sided = dict[tuple[int, int], tuple[PairTest, ...]]


@dataclass(frozen=True, slots=True)
class AnchoredTests:
    """The tests of an anchored graph: for each state, on its entries and the anchor; and for each link."""

    of_state: tuple[Sided, ...]
    of_link: tuple[Sided, ...]


def anchored_tests_of(graph: AnchoredGraph) -> AnchoredTests | str:
    """Return the tests of a graph, or why it cannot be interpreted, to complete "it …"."""

    def side_of(leaf: Term, earlier: frozenset[Term] = frozenset()) -> int:
        return ANCHOR if leaf.data[0] == graph.anchor else EARLIER if leaf in earlier else LATER

    of_component = [tests_by_side(terms, side_of) for terms in graph.given]
    of_link = [tests_by_side(link.terms, partial(side_of, earlier=link.earlier)) for link in graph.links]
    if reason := next(
        (part_tests for part_tests in (*of_component, *of_link) if isinstance(part_tests, str)), None
    ):
        return reason
    n_bits = len(graph.states) + sum(_most_bits(graph, edge, of_link[edge.link]) for edge in graph.edges)
    if n_bits > _MOST_BITS:
        return "repeats events so often that it has many states"
    return AnchoredTests(tuple(of_component[state.component] for state in graph.states), tuple(of_link))


def _most_bits(graph: AnchoredGraph, edge: GraphEdge, sided: Sided) -> int:
    """Return how many bits of entries an edge needs at most; see `AnchoredTables`."""
    leaving = {(EARLIER, ANCHOR), (EARLIER, EARLIER)}
    enters = (edge.source == 0 and graph.has_gap) or bool(sided.keys() - leaving)
    return enters + bool(sided.keys() & leaving)


class AnchoredTables:
    """The arguments of the counting kernels for a layout; see `cepkit.kernels.interpreted_anchored`."""

    def __init__(self, layout, tests: AnchoredTests):
        graph, entries, anchors = layout.graph, layout.entries, layout.anchors
        constants = constants_of(layout.program, layout.inputs)
        readers = {
            ANCHOR: ColumnReader(PickedColumns(layout.inputs.columns, anchors), *constants),
            LATER: ColumnReader(PickedColumns(layout.inputs.columns, entries), *constants),
        }
        readers[EARLIER] = readers[LATER]
        self._readers, self._sizes = (
            readers,
            {ANCHOR: len(anchors), LATER: len(entries), EARLIER: len(entries)},
        )
        self._numbers, self._tests, self._links = Buffer(np.uint64), [], []
        self.n_states = len(graph.states)
        self._n_bits = self.n_states
        self._of_anchor = np.full(len(anchors), -1, np.int64)
        self._of_entry = layout.array("mask").astype(np.int64) | (-1 << self.n_states)
        with np.errstate(all="ignore"):
            for s, sided in enumerate(tests.of_state):
                self._require(sided, {ANCHOR: 1 << s, LATER: 1 << s})
            self._edges = []
            for t in range(self.n_states):
                for e in graph.into(t):
                    self._add_edge(layout, e, tests.of_link[graph.edges[e].link])
        self.finals = sum(1 << s for s in graph.finals)

    def _add_edge(self, layout, e: int, sided: Sided) -> None:
        """Add the row of an edge, with the tests of the two entries that it links (`sided`, by side)."""
        source, target = layout.graph.edges[e].source, layout.graph.edges[e].target
        near = source == 0 and layout.graph.has_gap
        enters = self._bit() if near or any(EARLIER not in key for key in sided) else 0
        leaves = self._bit() if (EARLIER, ANCHOR) in sided or (EARLIER, EARLIER) in sided else 0
        self._require(sided, {ANCHOR: enters, LATER: enters, EARLIER: leaves})
        if near:  # the entry e is below the limit of the anchor
            entry_numbers = np.arange(1, len(layout.entries) + 1).view(np.uint64)
            limit = layout.array("near").astype(np.int64).view(np.uint64)
            self._tests.append(
                [*map(self._numbers.add, (entry_numbers, np.zeros_like(limit), limit)), enters]
            )
        links = []
        if source > 0:
            compared = numbers_of(
                sided.get((EARLIER, LATER), ()), *(self._readers[side] for side in (EARLIER, LATER)),
                (len(layout.entries),) * 2,
            )  # fmt: skip
            if compared.alive is not None:
                enters = enters or self._bit()  # a bit says that the entry can be the later one
                self._of_entry[~compared.alive] &= ~enters
            links += self._numbers.add_tests(compared)
            links += self._limits(layout)
        number = sum(row[4] >= 0 for row in self._edges) if links else -1  # among edges with tests
        begin = len(self._links)
        self._links += [[*row, 0] for row in links]
        self._edges.append([source, target, enters | 1 << target, leaves, number, begin, len(self._links)])

    def _limits(self, layout) -> list[list[int]]:
        """Return the tests of strict time and of the gap between the earlier and the later entry."""
        later = np.arange(len(layout.entries)).view(np.uint64)
        rows = []
        if layout.program.window.strict_time:
            limits = layout.array("later").view(np.uint64)
            rows.append([*map(self._numbers.add, (limits, np.zeros_like(later), later))])
        if layout.graph.has_gap:
            limits, low = layout.array("gap").view(np.uint64), later + np.uint64(1)
            rows.append([*map(self._numbers.add, (limits, low, np.uint64(1 << 63) - low))])
        return rows

    def _bit(self) -> int:
        """Return a bit that no state and no test has yet."""
        self._n_bits += 1
        return 1 << (self._n_bits - 1)

    def _require(self, sided: Sided, bits_of_side: dict[int, int]) -> None:
        """Let the bits of a test's vector side fail where the test does."""
        for (vector, scalar), tests in sided.items():
            if (vector, scalar) == (EARLIER, LATER):
                continue
            bits = bits_of_side[vector]
            compared = numbers_of(
                tests, self._readers[vector], self._readers[scalar],
                (self._sizes[vector], self._sizes[scalar]),
            )  # fmt: skip
            if vector == scalar:
                self._fail(vector, compared, bits)
                continue
            if compared.alive is not None:
                self._of_anchor[~compared.alive] &= ~bits
            self._tests += [[*row, bits] for row in self._numbers.add_tests(compared)]

    def _fail(self, side: int, made, bits: int) -> None:
        """Let the bits of events fail that do not pass tests on themselves."""
        event_bits = self._of_anchor if side == ANCHOR else self._of_entry
        for numbers, low, width in zip(made.numbers, made.low, made.width, strict=True):
            event_bits[numbers - low > width] &= ~bits  # unsigned: numbers below low wrap, and fail too
        if made.alive is not None:
            event_bits[~made.alive] &= ~bits

    def arguments(self, layout, dtype: type) -> tuple[np.ndarray, EntryGraph, EntryLists]:
        """Return the arguments of the kernel that counts: its state, the graph, and lists of entries."""
        room, n_edges = layout.widest + 1, len(self._edges)
        n_lists = sum(row[4] >= 0 for row in self._edges)
        at = np.zeros(2 + n_edges, np.int64)
        at[1] = -1
        tables = (self._edges, 7), (self._tests, 4), (self._links, 4)
        graph = EntryGraph(
            layout.array("first"), layout.array("until"), self._of_anchor, self._of_entry, self.n_states,
            self.finals, *(_table(rows, width) for rows, width in tables), self._numbers.whole(),
        )  # fmt: skip
        scratch = EntryLists(
            np.zeros(room, np.int64), np.zeros(self.n_states + n_edges, dtype),
            np.zeros(n_lists * room, np.int64), np.zeros(n_lists * room, dtype),
        )  # fmt: skip
        return at, graph, scratch


# Follow the paths of a state graph by interpretation: its links become tests on numbers of entries.

_WIDE = 1 << 62  # no place or entry is as far away


def path_values(layout, place: np.ndarray, limits: list[np.ndarray]) -> tuple[np.ndarray | int, ...]:
    """Return the values of kernels for every graph; the arguments are those of `Entries`."""
    graph, n, numbers, rows_of_link = layout.graph, len(place), Buffer(np.uint64), []
    columns = PickedColumns(layout.inputs.columns, place)
    reader = ColumnReader(columns, *constants_of(layout.program, layout.inputs))
    nears, fars = layout.writer.nears, layout.writer.fars
    near_of, far_of = (
        dict(zip(nears, limits, strict=False)),
        dict(zip(fars, limits[len(nears) :], strict=True)),
    )

    def row(*parts: np.ndarray | int) -> list[int]:
        return [numbers.add(np.broadcast_to(np.asarray(part, np.int64).view(np.uint64), n)) for part in parts]

    for k, tests in enumerate(counting_tests_of(graph)):
        with np.errstate(all="ignore"):
            compared = numbers_of(tests, reader, reader, (n, n))
        rows = [] if compared.alive is None else [row(0, np.where(compared.alive, 0, 1), 0)]
        rows += [row(np.arange(n), near_of[k], _WIDE)] if k in near_of else []
        rows += [row(far_of[k], place, _WIDE)] if k in far_of else []
        rows_of_link.append(rows + numbers.add_tests(compared))
    return place, *values_of(graph, rows_of_link, numbers.whole())
