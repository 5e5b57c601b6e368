"""Matches of an anchored graph in canonical order: exact numbers, blocks, samples, matches by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import groupby

import numpy as np

from cepkit.compile.counting import AT_LEAST, MODULAR, WRAPPING, CountingKernel
from cepkit.compile.counting_anchored import (
    AT_ANCHOR,
    AT_ENTRY,
    AnchoredCountWriter,
    AnchoredWalkWriter,
    AnchoredWriter,
    write_anchored_count,
    write_reach,
)
from cepkit.compile.counting_paths import DEPTH, END
from cepkit.compile.shared.loading import compile_if_it_pays, is_ready, load_kernels, reason_to_compile
from cepkit.compile.state_graph import AnchoredGraph
from cepkit.engines.counting.counts import WORD, PathCounter, moduli, number_of
from cepkit.engines.counting.layout import WORK_PER_CALL, Layout, n_below
from cepkit.engines.counting.ranking import Numbering
from cepkit.engines.counting.walking import MOST_PER_BLOCK, MatchWalk
from cepkit.engines.interpreted_counting import AnchoredTables, AnchoredTests, anchored_tests_of
from cepkit.engines.shared.places import accepted_places
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.events import sums_before
from cepkit.progress import checkpoint

# Matches of an anchored graph: arrays of its anchors and entries, and exact numbers of matches.

KERNELS = "cepkit.kernels.interpreted_anchored"
_BITS_PER_PASS = 60
_WORK_PER_CALL = 1 << 23  # entries that an interpreting kernel looks at between two checkpoints
_MOST_TO_INTERPRET = 1 << 28  # about as many as are looked at while a kernel compiles
_FEW_OF = 16  # a search for one place in 16 is faster than a pass over all


class AnchoredLayout(Layout):
    """The events of an anchored graph as kernels read them; see `CountingKernel` for the arrays."""

    graph: AnchoredGraph

    @cached_property
    def writer(self) -> AnchoredWriter:
        """The writer of kernels. It knows the columns and constants of all kernels of the graph."""
        return self.write_once(
            "anchored", write=partial(AnchoredWriter, self.program, self.graph, self.dtypes)
        )

    @property
    def walk_kernel(self) -> CountingKernel:
        """The source of the kernel that walks over matches."""
        return self.write_once(
            "walk", write=lambda: AnchoredWalkWriter(self.program, self.graph, self.dtypes).walk()
        )

    @property
    def texts_to_list(self) -> list[str]:
        return [self.walk_kernel.text]

    @cached_property
    def anchors(self) -> np.ndarray:
        """The places where a match may begin, int64."""
        return self.members(self.graph.pool(0))

    @cached_property
    def entries(self) -> np.ndarray:
        """The places that any other state accepts, int64."""
        return accepted_places((self._states != 0).view(np.uint8))

    @cached_property
    def _states(self) -> np.ndarray:
        """The states that accept each place, as a mask."""
        states = np.zeros(self.places.n, self.writer.mask_dtype)
        for s in self.writer.states:
            states |= self.accept[self.graph.states[s].test].astype(states.dtype) << states.dtype.type(s)
        return states

    @cached_property
    def widest(self) -> int:
        """The largest number of entries in the window of an anchor."""
        return int((self.array("until") - self.array("first")).max(initial=0))

    @cached_property
    def component(self) -> np.ndarray:
        """The lowest component that accepts each entry, int16."""
        mask, component_of_entry = self.array("mask"), np.zeros(len(self.entries), np.int16)
        for s in reversed(self.writer.states):
            component_of_entry[mask >> s & 1 == 1] = self.graph.states[s].component
        return component_of_entry

    def most_in_window(self, pool: int) -> int:
        """Return the largest number of members of a pool in a window, the anchor included."""
        members = self.members(pool)
        inside = n_below(members, self.places.window_end[self.anchors]) - n_below(members, self.anchors)
        return int(inside.max(initial=0)) + 1

    # --- arrays by their keys

    def _first(self) -> np.ndarray:
        """Return the first entry in the window of each anchor."""
        strict = self.program.window.strict_time
        return self._n_entries_before(self.places.later[self.anchors] if strict else self.anchors + 1)

    def _until(self) -> np.ndarray:
        """Return the end of the entries in the window of each anchor."""
        return self._n_entries_before(self.places.window_end[self.anchors])

    def _near(self) -> np.ndarray:
        """Return, for each anchor, the first entry that the gap does not allow next."""
        return self._n_entries_before(self.places.gap_end[self.anchors])

    def _n_entries_before(self, places: np.ndarray) -> np.ndarray:
        """Return how many entries are before each of these places, which ascend."""
        if len(places) * _FEW_OF <= self.places.n:
            return n_below(self.entries, places)
        return self._rank[places]

    @cached_property
    def _rank(self) -> np.ndarray:
        """The number of entries before each place, and of all."""
        return sums_before(self._states != 0)

    def _mask(self) -> np.ndarray:
        """Return the states that accept each entry."""
        return self._states[self.entries]

    def _later(self) -> np.ndarray:
        """Return, for each entry, the first one that may follow it."""
        return n_below(self.entries, self.places.later[self.entries])

    def _gap(self) -> np.ndarray:
        """Return, for each entry, the first one that the gap does not allow next."""
        return n_below(self.entries, self.places.gap_end[self.entries])

    def _anchor(self, number: int) -> np.ndarray:
        return self.columns[number][self.anchors]

    def _entry(self, number: int) -> np.ndarray:
        return self.columns[number][self.entries]

    def _reach(self) -> np.ndarray:
        """Return, for each anchor and state, the first entry that is in this state on a path."""
        source = self.write_once("reach", write=partial(write_reach, self.program, self.graph, self.dtypes))
        out, done = np.full(len(self.anchors) * len(self.graph.states), -1), 0
        run, arrays = self.function(source), self.arrays_of(source)
        while done < len(self.anchors):
            checkpoint()
            done = run(done, len(self.anchors), WORK_PER_CALL, *arrays, *self.constants, out)
        return out


class AnchoredCounter(PathCounter):
    """Counts the matches in an anchored layout, by their last entry."""

    layout: AnchoredLayout

    @cached_property
    def last(self) -> np.ndarray:
        """The places of the entries, int64."""
        return self.layout.entries

    def _most_in_window(self, pool: int) -> int:
        return self.layout.most_in_window(pool)

    @cached_property
    def work(self) -> float:
        """About how many pairs of events a count looks at."""
        layout, window = self.layout, self.layout.program.window
        widths = (layout.array("until") - layout.array("first")).astype(np.float64)
        links = (self.graph.link(e) for e, edge in enumerate(self.graph.edges) if edge.source > 0)
        is_linked = window.strict_time or self.graph.has_gap or any(link.terms for link in links)
        n_passes = 1 + len(self.graph.loops) * (1 + layout.widest // _BITS_PER_PASS)
        return float((widths**2 if is_linked else widths).sum()) * n_passes

    def _most_in_any_window(self, pool: int) -> int:
        return len(self.layout.anchors) if pool == self.graph.pool(0) else self.layout.widest + 1

    def _is_interpreted(self, arithmetic: str, bound: int) -> bool:
        return False  # not by the kernels of other layouts; those of this one know floats, too

    def pass_over(
        self, arithmetic: str, modulus: int = 0, *, component: int | None = None,
        weight: np.ndarray | None = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """Return arrays with the numbers of matches, and the sums of weights, after one pass over events."""
        layout = self.layout
        source = layout.write_once(
            "anchored",
            arithmetic,
            component,
            write=partial(
                write_anchored_count, layout.program, self.graph, layout.dtypes, arithmetic,
                weighted=component,
            ),
        )  # fmt: skip
        dtype = np.float64 if arithmetic == AT_LEAST else np.uint64
        n, n_anchors = len(layout.entries), len(layout.anchors)
        outputs, done = [np.zeros(n, dtype) for _ in range(1 if component is None else 2)], 0
        if component is None and self.work <= _MOST_TO_INTERPRET:
            tests = reason_to_compile(source.text, KERNELS) or anchored_tests_of(self.graph)
            if not isinstance(tests, str):
                done = self._interpret(source, tests, modulus, *outputs)
            if done == n_anchors:
                return outputs
        arrays = layout.arrays_of(
            source, **scratch_of(layout, dtype), weight=lambda: self._weights(component, weight)
        )
        at = fresh_at(layout)
        at[AT_ANCHOR] = done
        run = layout.function(source)
        while done < n_anchors:
            checkpoint()
            done = run(
                n_anchors, WORK_PER_CALL, np.uint64(modulus % WORD), at, *arrays, *layout.constants, *outputs
            )
        return outputs

    def _interpret(self, made: CountingKernel, tests: AnchoredTests, modulus: int, out: np.ndarray) -> int:
        """Count until the kernel is compiled, and return the first anchor that is not counted yet."""
        layout, is_float = self.layout, out.dtype.kind == "f"
        kernels = load_kernels(KERNELS)
        run = kernels.count_as_floats if is_float else kernels.count
        arguments = AnchoredTables(layout, tests).arguments(layout, out.dtype.type)
        at = arguments[0]
        # The types of arguments are fixed, also without the JIT.
        of_modulus = 0.0 if is_float else np.uint64(modulus % WORD)
        layout.tier, done, n_anchors = "interpreted", 0, len(layout.anchors)
        compile_if_it_pays(made.text, self.places.n)
        with np.errstate(all="ignore"):
            while done < n_anchors:
                checkpoint(done / n_anchors)
                done = run(n_anchors, _WORK_PER_CALL, of_modulus, *arguments, out)
                if done < n_anchors and at[AT_ENTRY] < 0 and is_ready(made.text):
                    layout.tier = "interpreted, then compiled"
                    break
        return done

    def _weights(self, component: int, weight: np.ndarray) -> np.ndarray:
        """Return the weights of a component's pool by anchor, or by entry."""
        if component == 0:
            return weight
        out = np.zeros(len(self.layout.entries), np.uint64)
        out[n_below(self.layout.entries, self.layout.members(self.graph.pool_of_component(component)))] = (
            weight
        )
        return out


def fresh_at(layout: AnchoredLayout) -> np.ndarray:
    """Return the state of a counting kernel that begins."""
    at = np.zeros(2 + len(layout.graph.states), np.int64)
    at[AT_ANCHOR], at[AT_ENTRY] = 0, -1
    return at


def scratch_of(layout: AnchoredLayout, dtype: type) -> dict:
    """Return functions that make the scratch arrays of a counting kernel."""
    n = layout.widest + 1  # as many entries as an anchor reaches, and one more
    limits = {name: lambda s: np.empty(n, np.int64) for name in ("listlater", "listgap")}
    return {
        "totals": lambda: np.zeros(2 * len(layout.graph.states), dtype),
        "listcount": lambda s: np.empty(n, dtype), "listsum": lambda s: np.empty(n, dtype),
        "listcolumn": lambda s, i: np.empty(n, layout.columns[i].dtype), **limits,
    }  # fmt: skip


# Matches of an anchored graph in canonical order: listed in blocks, drawn at random, or found by numbers.

_FEW_CELLS = 1 << 10  # room for the anchors and entries of a path at first
_FEW = 1 << 12  # up to this many matches with the same last event are listed to find some of them


class AnchoredWalk(MatchWalk):
    """Walks over the matches of an anchored graph."""

    layout: AnchoredLayout
    graph: AnchoredGraph

    def __init__(self, layout: AnchoredLayout, number: int = 0):
        super().__init__(layout, number)

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Entries where matches may end, in stream order; their positions; their first and last anchors."""
        layout = self.layout
        final = sum(1 << s for s in self.graph.finals)  # the states that end a match, as bits
        mask = layout.array("mask")
        ends = accepted_places(((mask & mask.dtype.type(final)) != 0).view(np.uint8))
        lowest, highest = (_n_up_to(layout.array(name), ends, len(mask)) for name in ("until", "first"))
        position = self._position[0][ends]
        if self.places.is_one_partition:
            return ends, position, lowest, highest
        order = np.argsort(position, kind="stable")
        return ends[order], position[order], lowest[order], highest[order]

    @cached_property
    def _position(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions of the entries and of the anchors, int64."""
        layout, position = self.layout, self.places.position_of_place
        return position[layout.entries], position[layout.anchors]

    @property
    def _positions(self) -> np.ndarray:
        return self._ends[1]

    @property
    def _place_of_end(self) -> np.ndarray:
        return self.layout.entries[self._ends[0]]

    def _walk(self, begin: int, stop: int, size: int) -> Iterator[MatchBlock]:
        """Yield the matches that end from `begin` to `stop`, in blocks of about `size`."""
        if begin >= stop:
            return iter(())
        layout = self.layout
        source = layout.walk_kernel
        kernel, arrays = layout.function(source), layout.arrays_of(source)
        component = layout.component if len(self.graph.loops) > 1 else np.empty(0, np.int16)
        ends, _, lowest, highest = self._ends
        report = np.zeros(9, np.int64)
        report[END], report[DEPTH] = begin - 1, -1

        def run(scratch: list[np.ndarray], outputs: tuple) -> None:
            kernel(
                stop, WORK_PER_CALL, ends, lowest, highest, *self._position, layout.entries, layout.anchors,
                component, *scratch, *arrays, *layout.constants, *outputs, report,
            )  # fmt: skip

        def deepen(scratch: list[np.ndarray]) -> list[np.ndarray]:
            return [np.concatenate([array, np.zeros_like(array)]) for array in scratch]

        scratch = [np.zeros(_FEW_CELLS, np.int64) for _ in range(6)]
        size = min(max(1, size), MOST_PER_BLOCK)
        return self._filled(run, scratch, deepen, (begin, stop), size, report)

    def _numbered(self, numbers: Sequence[int], numbering: Numbering) -> Iterator[MatchBlock]:
        """Yield the matches with these numbers, which say the end of a match and its rank there."""
        for end, pairs in groupby(numbering.locate(numbers), key=lambda pair: pair[0]):
            checkpoint()
            ranks = [rank for _, rank in pairs]
            n_matches = numbering.count(end)
            if n_matches <= _FEW:
                yield joined(list(self._walk(end, end + 1, n_matches))).take(np.array(ranks, np.int64))
            else:
                paths = _Descent(self, end, n_matches)
                yield joined([paths.find(rank) for rank in ranks])


class _Descent:
    """Finds matches with the same last event by their numbers, event by event from the last to the first."""

    def __init__(self, walk: AnchoredWalk, end: int, n_matches: int):
        self.walk, layout = walk, walk.layout
        self.layout = layout
        self.moduli = moduli(n_matches, len(walk.graph.states) * (walk.places.n + 2))
        writer_arguments = layout.program, walk.graph, layout.dtypes
        source = layout.write_once("narrow", write=lambda: AnchoredWalkWriter(*writer_arguments).narrowing())
        self._narrow, self._narrow_arrays = layout.function(source), layout.arrays_of(source)
        self._options = []
        for arithmetic in (WRAPPING, MODULAR):
            writer = AnchoredCountWriter(*writer_arguments, arithmetic)
            source = layout.write_once("options", arithmetic, write=partial(writer.write, "options"))
            self._options.append(
                (layout.function(source), layout.arrays_of(source, **scratch_of(layout, np.uint64)))
            )
        ends, _, lowest, highest = walk._ends
        self.end, low, high = int(ends[end]), int(lowest[end]), int(highest[end])
        room = np.zeros(high - low, np.int64)
        n = self._call(-1, self.end, low, high, room, room, out := (room.copy(), room.copy()), room.copy())
        self.first = out[0][:n], out[1][:n]

    @cached_property
    def _last(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """What can come before the last event."""
        return self._steps(self.end, *self.first)

    def _call(self, x, e, low, high, alive, states, out, leaves) -> int:
        return int(
            self._narrow(
                x, e, low, high, alive, states, *self._narrow_arrays, *self.layout.constants, *out, leaves
            )
        )

    def find(self, rank: int) -> MatchBlock:
        """Return the match of a rank: step by step backwards, by the numbers of matches of each option."""
        layout = self.layout
        place, anchors = layout.entries, layout.anchors
        x, (alive, states) = self.end, self.first
        path = [x]
        while True:
            checkpoint()
            entries, leaves, counts = self._last if len(path) == 1 else self._steps(x, alive, states)
            # Entries and anchors by their places. At the same place the anchor comes first: it is shorter.
            which = np.concatenate([anchors[leaves], place[entries]])
            order = np.lexsort([np.repeat([0, 1], [len(leaves), len(entries)]), which])
            for i in order.tolist():
                n = 1 if i < len(leaves) else counts[i - len(leaves)]
                if rank < n:
                    break
                rank -= n
            else:
                raise ValueError(f"wrong counts: fewer matches end at place {place[self.end]} than they say")
            if i < len(leaves):
                return self._block(int(leaves[i]), path)
            e = int(entries[i - len(leaves)])
            room = (np.zeros(len(alive), np.int64), np.zeros(len(alive), np.int64))
            n = self._call(x, e, 0, len(alive), alive, states, room, np.zeros(len(alive), np.int64))
            x, alive, states = e, room[0][:n], room[1][:n]
            path.append(e)

    def _steps(self, x: int, alive: np.ndarray, states: np.ndarray) -> tuple:
        """Return the entries and anchors that can come before entry x, and the counts of the entries."""
        layout = self.layout
        begin = int(layout.array("first")[alive[0]])
        n = len(alive)
        leaves, spare = np.zeros(n, np.int64), (np.zeros(n, np.int64), np.zeros(n, np.int64))
        self._call(x, begin, 0, n, alive, states, spare, leaves)
        residues = []
        for modulus in self.moduli:
            run, arrays = self._options[modulus != WORD]
            out, at, done = np.zeros(len(layout.entries), np.uint64), fresh_at(layout), 0
            while done < n:
                done = run(
                    n, WORK_PER_CALL, np.uint64(modulus % WORD), at, x, alive, states, *arrays,
                    *layout.constants, out,
                )  # fmt: skip
            residues.append(out[begin:x])
        counts = number_of(residues, self.moduli)
        counts = [int(count) for count in counts]
        some = [i for i, count in enumerate(counts) if count]
        return np.array(some, np.int64) + begin, alive[leaves == 1], [counts[i] for i in some]

    def _block(self, anchor: int, path: list[int]) -> MatchBlock:
        """Return one match as a block; `path` has its entries, from the last one on."""
        walk, graph = self.walk, self.walk.graph
        positions = walk._position[0][path[::-1]]
        if len(graph.loops) > 1:
            components = self.layout.component[path[::-1]]
        else:
            components = _components(graph, len(path) + 1)[1:]
        return MatchBlock(
            np.concatenate([walk._position[1][[anchor]], positions]),
            np.concatenate([[0], components]).astype(np.int16),
            np.array([0, len(path) + 1], np.int64),
            np.array([walk.number], np.int16),
        )


def _n_up_to(values: np.ndarray, bounds: np.ndarray, n: int) -> np.ndarray:
    """Return how many of the values, from 0 to n, are at most each bound, below n."""
    if _FEW_OF * len(values) <= n:  # sorted values; a table of all n takes longer
        return np.searchsorted(values, bounds, side="right")
    return np.cumsum(np.bincount(values, minlength=n + 1))[bounds]


def _components(graph, n_events: int) -> list[int]:
    """Return the components of a match with this many events; at most one of them is a loop."""
    components = graph.branch.branch.components
    loop = (*graph.loops, len(components))[0]  # the loop, or the end if there is none
    before = [c for c in range(loop) for _ in range(components[c].low)]
    after = [c for c in range(loop + 1, len(components)) for _ in range(components[c].low)]
    return [*before, *[loop] * (n_events - len(before) - len(after)), *after]
