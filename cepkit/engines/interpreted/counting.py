"""Count sequences by interpretation: the state graph becomes tables for kernels that serve every graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from cepkit.compile.counting.state_graph import LinkAbsence, StateGraph
from cepkit.compile.interpreted.columns import ColumnReader, constants_of
from cepkit.compile.interpreted.pairs import PairTest, numbers_of, pair_tests_of
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.interpreted.buffers import Buffer, PickedColumns
from cepkit.engines.shared.kernels import COUNTING
from cepkit.progress import checkpoint

_WORK_PER_CALL = 1 << 24
_SHARE_TO_BEGIN_AGAIN = 2  # a kernel takes a small part of the time, but loading it takes time, too


def counting_tests_of(graph: StateGraph) -> list[tuple[PairTest, ...]] | str:
    """Return the tests of every link, or why the graph cannot be interpreted, to complete "it …"."""
    made = []
    for link in graph.links:
        tests = pair_tests_of(link.terms, link.earlier.__contains__)
        if isinstance(tests, str):
            return tests
        made.append(tests)
    return made


def absence_tests_of(absence: LinkAbsence) -> tuple[PairTest, ...] | str:
    """Return the tests between an absent event and its neighbour, or why there are none."""
    return pair_tests_of(absence.terms, lambda leaf: leaf.data[0] == absence.variable)


class PoolReaders:
    """Readers of the columns at the members of each pool."""

    def __init__(self, layout):
        self.layout, self._readers = layout, {}

    def reader(self, pool: int) -> ColumnReader:
        """Return the reader of a pool."""
        if pool not in self._readers:
            layout = self.layout
            columns = PickedColumns(layout.inputs.columns, layout.array("members", pool))
            self._readers[pool] = ColumnReader(columns, *constants_of(layout.program, layout.inputs))
        return self._readers[pool]


def count_interpreted(
    layout,
    tests: list[tuple[PairTest, ...]],
    last: np.ndarray,
    since: np.ndarray,
    is_compiled: Callable[[], bool],
) -> np.ndarray | None:
    """Return how many matches end at each member of the last pool, modulo 2^64, uint64.

    Returns None if a kernel of its own is compiled in the meantime: it begins again and ends earlier.
    """
    graph = layout.graph
    readers = PoolReaders(layout)
    places, numbers = Buffer(np.int64), Buffer(np.uint64)
    sizes = []
    for pool in range(len(graph.tests)):
        members = layout.array("members", pool)
        places.add(members)
        sizes.append(len(members))
    first_member = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    test_rows: list[list[int]] = []
    first_test, alive_at = [0], []
    for k, link in enumerate(graph.links):
        source, target = graph.pool_of_component(link.source), graph.pool_of_component(link.target)
        shape = sizes[source], sizes[target]
        with np.errstate(all="ignore"):
            made = numbers_of(tests[k], readers.reader(source), readers.reader(target), shape)
        test_rows += numbers.add_tests(made)
        if link.has_far:
            limit = layout.array("limit", k).view(np.uint64)
            own = layout.array("members", target).view(np.uint64)
            width = np.uint64(np.iinfo(np.int64).max) - own
            test_rows.append([numbers.add(limit), numbers.add(own), numbers.add(width)])
        first_test.append(len(test_rows))
        alive_at.append(-1 if made.alive is None else places.add(made.alive))
    edges, first_edge = [], [0]
    found: dict[tuple, int] = {}

    def place_of(*key: str | int) -> int:
        if key not in found:
            found[key] = places.add(layout.array(*key))
        return found[key]

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
    arguments = [
        at, since, first_member, _table(states, 5), _table(edges, 6), np.array(first_edge, np.int64),
        _table(test_rows, 3), np.array(first_test, np.int64), places.whole(), numbers.whole(),
        np.zeros(n_cells, np.uint64), np.zeros(n_cells, np.uint64),
    ]  # fmt: skip
    out, done = np.zeros(len(last), np.uint64), 0
    run = load_kernels(COUNTING).count
    with np.errstate(all="ignore"):
        while done < len(last):
            checkpoint(done / len(last))
            done = run(done, len(last), _WORK_PER_CALL, *arguments, out)
            if _SHARE_TO_BEGIN_AGAIN * done < len(last) and is_compiled():
                return None
    return out


def nearest_interpreted(
    layout,
    tests: tuple[PairTest, ...],
    pools: tuple[int, int],
    first: np.ndarray,
    stop: np.ndarray,
    *,
    ahead: bool,
) -> np.ndarray:
    """Return the place of the nearest absent event for each neighbour, int64.

    ``pools`` are those of the absent event and of its neighbour. Each neighbour looks from ``first`` to
    ``stop``.

    """
    readers, numbers = PoolReaders(layout), Buffer(np.uint64)
    members = layout.array("members", pools[0])
    with np.errstate(all="ignore"):
        made = numbers_of(tests, *map(readers.reader, pools), (len(members), len(first)))
    rows = _table(numbers.add_tests(made), 3)
    first = first if made.alive is None else np.where(made.alive, first, stop)
    out, done = np.empty(len(first), np.int64), 0
    run = load_kernels(COUNTING).nearest
    with np.errstate(all="ignore"):
        while done < len(out):
            checkpoint()
            done = run(done, _WORK_PER_CALL, int(ahead), members, first, stop, rows, numbers.whole(), out)
    return out


def _table(rows: Iterable[Iterable[int]], width: int) -> np.ndarray:
    return np.array(list(rows), np.int64).reshape(-1, width)
