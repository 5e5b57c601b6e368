"""Matches of an anchored graph: arrays of its anchors and entries, and exact numbers of matches."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from cepkit.compile.counting.anchored_counting import AT_ANCHOR, AT_ENTRY, write_anchored_count
from cepkit.compile.counting.anchored_graph import AnchoredGraph
from cepkit.compile.counting.anchored_source import AnchoredKernel, AnchoredWriter
from cepkit.compile.counting.anchored_walking import write_reach, write_walk
from cepkit.compile.counting.counting import AT_LEAST
from cepkit.compile.shared.loading import compile_if_it_pays, is_ready, load_kernels, reason_to_compile
from cepkit.engines.counting.counts import PathCounter
from cepkit.engines.counting.layout import WORK_PER_CALL, Layout, n_below
from cepkit.engines.counting.residues import WORD
from cepkit.engines.interpreted.anchored import KERNELS, AnchoredTables, AnchoredTests, anchored_tests_of
from cepkit.engines.shared.places import accepted_places
from cepkit.progress import checkpoint

_BITS_PER_PASS = 60
_WORK_PER_CALL = 1 << 23  # entries that an interpreting kernel looks at between two checkpoints
_MOST_TO_INTERPRET = 1 << 28  # about as many as are looked at while a kernel compiles
_FEW_OF = 16  # a search for one place in 16 is faster than a pass over all


class AnchoredLayout(Layout):
    """The events of an anchored graph as kernels read them; see `AnchoredKernel` for the arrays."""

    graph: AnchoredGraph

    @cached_property
    def writer(self) -> AnchoredWriter:
        """The writer of kernels. It knows the columns and constants of all kernels of the graph."""
        return self.write_once(
            "anchored", write=partial(AnchoredWriter, self.program, self.graph, self.dtypes)
        )

    @property
    def walk_kernel(self) -> AnchoredKernel:
        """The source of the kernel that walks over matches."""
        return self.write_once("walk", write=partial(write_walk, self.program, self.graph, self.dtypes))

    @property
    def texts_to_list(self) -> list[str]:
        """The modules of kernels that list matches."""
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
        mask, found = self.array("mask"), np.zeros(len(self.entries), np.int16)
        for s in reversed(self.writer.states):
            found[mask >> s & 1 == 1] = self.graph.states[s].component
        return found

    def most_in_window(self, pool: int) -> int:
        """Return the largest number of members of a pool in a window, the anchor included."""
        members = self.members(pool)
        inside = n_below(members, self.places.window_end[self.anchors]) - n_below(members, self.anchors)
        return int(inside.max(initial=0)) + 1

    # --- arrays by their keys

    def _first(self) -> np.ndarray:
        strict = self.program.window.strict_time
        return self._n_entries_before(self.places.later[self.anchors] if strict else self.anchors + 1)

    def _until(self) -> np.ndarray:
        return self._n_entries_before(self.places.window_end[self.anchors])

    def _near(self) -> np.ndarray:
        return self._n_entries_before(self.places.gap_end[self.anchors])

    def _n_entries_before(self, places: np.ndarray) -> np.ndarray:
        """Return how many entries are before each of these places, which ascend."""
        if len(places) * _FEW_OF <= self.places.n:
            return n_below(self.entries, places)
        return self._rank[places]

    @cached_property
    def _rank(self) -> np.ndarray:
        """The number of entries before each place, and of all."""
        rank = np.zeros(self.places.n + 1, np.int64)
        np.cumsum(self._states != 0, out=rank[1:])
        return rank

    def _mask(self) -> np.ndarray:
        return self._states[self.entries]

    def _later(self) -> np.ndarray:
        return n_below(self.entries, self.places.later[self.entries])

    def _gap(self) -> np.ndarray:
        return n_below(self.entries, self.places.gap_end[self.entries])

    def _anchor(self, number: int) -> np.ndarray:
        return self.columns[number][self.anchors]

    def _entry(self, number: int) -> np.ndarray:
        return self.columns[number][self.entries]

    def _reach(self) -> np.ndarray:
        made = self.write_once("reach", write=partial(write_reach, self.program, self.graph, self.dtypes))
        out, done = np.full(len(self.anchors) * len(self.graph.states), -1), 0
        run, arrays = self.function(made), self.arrays_of(made)
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
        """About how many entries all passes of a count look at."""
        layout, window = self.layout, self.layout.program.window
        widths = (layout.array("until") - layout.array("first")).astype(np.float64)
        links = (self.graph.link(e) for e, edge in enumerate(self.graph.edges) if edge.source > 0)
        is_linked = window.strict_time or self.graph.has_gap or any(link.terms for link in links)
        n_passes = 1 + len(self.graph.loops) * (1 + layout.widest // _BITS_PER_PASS)
        return float((widths**2 if is_linked else widths).sum()) * n_passes

    def _most_in_any_window(self, pool: int) -> int:
        return len(self.layout.anchors) if pool == self.graph.pool(0) else self.layout.widest + 1

    def pass_over(
        self,
        arithmetic: str,
        modulus: int = 0,
        *,
        component: int | None = None,
        weight: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Return the numbers of matches by their last entry, and with ``weight`` the sums of weights."""
        layout = self.layout
        made = layout.write_once(
            "anchored",
            arithmetic,
            component,
            write=partial(
                write_anchored_count,
                layout.program,
                self.graph,
                layout.dtypes,
                arithmetic,
                weighted=component,
            ),
        )
        dtype = np.float64 if arithmetic == AT_LEAST else np.uint64
        n, n_anchors = len(layout.entries), len(layout.anchors)
        outputs, done = [np.zeros(n, dtype) for _ in range(1 if component is None else 2)], 0
        if component is None and self.work <= _MOST_TO_INTERPRET:
            tests = reason_to_compile(made.text, KERNELS) or anchored_tests_of(self.graph)
            if not isinstance(tests, str):
                done = self._interpret(made, tests, modulus, *outputs)
            if done == n_anchors:
                return outputs
        arrays = layout.arrays_of(
            made, **scratch_of(layout, dtype), weight=lambda: self._weights(component, weight)
        )
        at = fresh_at(layout)
        at[AT_ANCHOR] = done
        run = layout.function(made)
        while done < n_anchors:
            checkpoint()
            done = run(
                n_anchors, WORK_PER_CALL, np.uint64(modulus % WORD), at, *arrays, *layout.constants, *outputs
            )
        return outputs

    def _interpret(self, made: AnchoredKernel, tests: AnchoredTests, modulus: int, out: np.ndarray) -> int:
        """Write the numbers of the counting kernel ``made`` until it is compiled, and return the anchor."""
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
    n = layout.widest + 1
    limits = {name: lambda s: np.empty(n, np.int64) for name in ("listlater", "listgap")}
    return {
        "totals": lambda: np.zeros(2 * len(layout.graph.states), dtype),
        "listcount": lambda s: np.empty(n, dtype),
        "listsum": lambda s: np.empty(n, dtype),
        "listcolumn": lambda s, i: np.empty(n, layout.columns[i].dtype),
        **limits,
    }
