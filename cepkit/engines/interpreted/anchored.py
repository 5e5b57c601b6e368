"""Count sequences with conditions on their first event by interpretation: the graph becomes tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cepkit.compile.counting.anchored_graph import AnchoredGraph
from cepkit.compile.interpreted.columns import ColumnReader, constants_of
from cepkit.compile.interpreted.pairs import PairTest, numbers_of, tests_by_side
from cepkit.compile.shared.terms import Term
from cepkit.engines.interpreted.buffers import Buffer, PickedColumns

KERNELS = "cepkit.kernels.interpreted_anchored"
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
    if len(graph.states) + 2 * len(graph.edges) > _MOST_BITS:
        return "repeats events so often that it has many states"

    def side_of(leaf: Term, earlier: frozenset[Term] = frozenset()) -> int:
        return ANCHOR if leaf.data[0] == graph.anchor else EARLIER if leaf in earlier else LATER

    of_component = [tests_by_side(terms, side_of) for terms in graph.given]
    of_link = [tests_by_side(link.terms, partial(side_of, earlier=link.earlier)) for link in graph.links]
    if reason := next((own for own in (*of_component, *of_link) if isinstance(own, str)), None):
        return reason
    return AnchoredTests(tuple(of_component[state.component] for state in graph.states), tuple(of_link))


class AnchoredTables:
    """The arguments of the counting kernels for a layout; see `cepkit.kernels.interpreted_anchored`."""

    def __init__(self, layout, tests: AnchoredTests):
        graph, entries, anchors = layout.graph, layout.entries, layout.anchors
        constants = constants_of(layout.program, layout.inputs)
        of = {
            ANCHOR: ColumnReader(PickedColumns(layout.inputs.columns, anchors), *constants),
            LATER: ColumnReader(PickedColumns(layout.inputs.columns, entries), *constants),
        }
        of[EARLIER] = of[LATER]
        self._readers, self._sizes = of, {ANCHOR: len(anchors), LATER: len(entries), EARLIER: len(entries)}
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
        source, target = layout.graph.edges[e].source, layout.graph.edges[e].target
        near = source == 0 and layout.graph.has_gap
        enters = self._bit() if near or any(EARLIER not in key for key in sided) else 0
        leaves = self._bit() if (EARLIER, ANCHOR) in sided or (EARLIER, EARLIER) in sided else 0
        self._require(sided, {ANCHOR: enters, LATER: enters, EARLIER: leaves})
        if near:  # the entry e is below the limit of the anchor
            own = np.arange(1, len(layout.entries) + 1).view(np.uint64)
            limit = layout.array("near").astype(np.int64).view(np.uint64)
            self._tests.append([*map(self._numbers.add, (own, np.zeros_like(limit), limit)), enters])
        links = []
        if source > 0:
            made = numbers_of(
                sided.get((EARLIER, LATER), ()), *(self._readers[side] for side in (EARLIER, LATER)),
                (len(layout.entries),) * 2,
            )  # fmt: skip
            if made.alive is not None:
                enters = enters or self._bit()
                self._of_entry[~made.alive] &= ~enters
            links += self._numbers.add_tests(made)
            links += self._limits(layout)
        number = sum(row[4] >= 0 for row in self._edges) if links else -1
        begin = len(self._links)
        self._links += [[*row, 0] for row in links]
        self._edges.append([source, target, enters | 1 << target, leaves, number, begin, len(self._links)])

    def _limits(self, layout) -> list[list[int]]:
        """Return the tests of strict time and of the gap between the earlier and the later entry."""
        later = np.arange(len(layout.entries)).view(np.uint64)
        rows = []
        if layout.program.window.strict_time:
            own = layout.array("later").view(np.uint64)
            rows.append([*map(self._numbers.add, (own, np.zeros_like(later), later))])
        if layout.graph.has_gap:
            own, low = layout.array("gap").view(np.uint64), later + np.uint64(1)
            rows.append([*map(self._numbers.add, (own, low, np.uint64(1 << 63) - low))])
        return rows

    def _bit(self) -> int:
        self._n_bits += 1
        return 1 << (self._n_bits - 1)

    def _require(self, sided: Sided, bits_of_side: dict[int, int]) -> None:
        """Let the bits of a test's vector side fail where the test does."""
        for (vector, scalar), tests in sided.items():
            if (vector, scalar) == (EARLIER, LATER):
                continue
            bits = bits_of_side[vector]
            made = numbers_of(
                tests,
                self._readers[vector],
                self._readers[scalar],
                (self._sizes[vector], self._sizes[scalar]),
            )
            if vector == scalar:
                self._fail(vector, made, bits)
                continue
            if made.alive is not None:
                self._of_anchor[~made.alive] &= ~bits
            self._tests += [[*row, bits] for row in self._numbers.add_tests(made)]

    def _fail(self, side: int, made, bits: int) -> None:
        """Let the bits of events fail that do not pass tests on themselves."""
        own = self._of_anchor if side == ANCHOR else self._of_entry
        for numbers, low, width in zip(made.numbers, made.low, made.width, strict=True):
            own[numbers - low > width] &= ~bits
        if made.alive is not None:
            own[~made.alive] &= ~bits

    def arguments(self, layout, dtype: type) -> list:
        """Return the arguments of a kernel from ``at`` to ``listed_number``."""
        room, n_edges = layout.widest + 1, len(self._edges)
        n_lists = sum(row[4] >= 0 for row in self._edges)
        at = np.zeros(2 + n_edges, np.int64)
        at[1] = -1
        tables = (self._edges, 7), (self._tests, 4), (self._links, 4)
        return [
            at, layout.array("first"), layout.array("until"), self._of_anchor, self._of_entry, self.n_states,
            self.finals, *(np.array(rows, np.int64).reshape(-1, width) for rows, width in tables),
            self._numbers.whole(), np.zeros(room, np.int64), np.zeros(self.n_states + n_edges, dtype),
            np.zeros(n_lists * room, np.int64), np.zeros(n_lists * room, dtype),
        ]  # fmt: skip
