"""Exact numbers of matches of any size, without enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from math import gcd

import numpy as np

from cepkit.compile.counting import AT_LEAST, MODULAR, WRAPPING, CountingKernel, write_counting
from cepkit.compile.shared.loading import interpreting, is_ready, load_kernels
from cepkit.engines.counting.layout import Layout
from cepkit.engines.interpreted_counting import count_interpreted
from cepkit.engines.shared.places import PLACES, in_slices
from cepkit.limits import check_memory
from cepkit.progress import checkpoint
from cepkit.values import dataclass

# Counts without conditions between events, in constant time per event for any window.

_SAFE = 1 << 63
_TOGETHER = 256  # events with long numbers between two checkpoints
_PER_NUMBER = 40  # bytes of a Python integer besides its digits
_WIDTH = 8  # columns in a row of paths, as in the kernels


def count_unary(layout: Layout, bound: int | None) -> np.ndarray | list[int]:
    """Return how many matches end at each member of the last pool: uint64, or ints if one is 2^63 or more."""
    # None of the numbers exceeds ``bound``. A graph with a loop needs no bound.
    # Differs: CORE (Bucchi et al., VLDB 2022) has the same complexity, with a structure that also enumerates.
    graph, last, since = layout.graph, layout.members(layout.last_pool), layout.places.window_start
    n = len(graph.states)
    if (graph.is_line or n == 1) and not graph.has_loop and n <= 8 and bound < _SAFE:
        return _count_row(layout, last, since)
    paths = _Paths.of(layout)
    # With a loop, the kernel halves numbers, so they must not be residues modulo 2^64.
    bound = _bound_of_paths(layout, paths.states, since) if graph.has_loop else bound
    if bound < _SAFE:
        out = np.zeros(len(paths.states), np.uint64)
        with np.errstate(over="ignore"):
            kernel_arguments = np.uint64(1), np.eye(n + 1, dtype=np.uint64), out
            load_kernels(PLACES).count_graph(paths.states, since, *paths.edges, *kernel_arguments)
        return out[last]
    numbers, n_bytes = [], 0
    for number in _long_numbers(paths, since, last):
        numbers.append(number)
        n_bytes += (number.bit_length() >> 3) + _PER_NUMBER
        if not len(numbers) % _TOGETHER:
            check_memory(n_bytes, "the exact numbers of matches by their last events", is_held=True)
    return np.array(numbers, np.uint64) if max(numbers, default=0) < _SAFE else numbers


def total_unary(layout: Layout) -> int:
    """Return the number of matches, of any size."""
    last, since = layout.members(layout.last_pool), layout.places.window_start
    return sum(_long_numbers(_Paths.of(layout), since, last))


@dataclass(frozen=True, slots=True)
class _Paths:
    """A graph without conditions between events: the states of each event, and the edges into each state."""

    states: np.ndarray
    source: list[int]
    first_edge: list[int]
    final: list[int]

    @classmethod
    def of(cls, layout: Layout) -> _Paths:
        """Return the paths through a graph without conditions between events."""
        graph = layout.graph
        source, first_edge = [], [0]
        for t, state in enumerate(graph.states):
            source += [0] if state.is_first else []
            source += [graph.edges[e].source + 1 for e in graph.into(t)]
            first_edge.append(len(source))
        return cls(
            _sets_of_states(layout), source, first_edge, [int(state.is_final) for state in graph.states]
        )

    @property
    def edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The edges as arrays: the sources by target, where each target begins, and the final states."""
        return np.array(self.source), np.array(self.first_edge), np.array(self.final, np.uint8)


def _long_numbers(graph: _Paths, since: np.ndarray, last: np.ndarray) -> Iterator[int]:
    """Yield the number of paths that end at each place in ``last``, as int of any size."""
    n, n_states = len(graph.states), len(graph.final)
    into = [graph.source[graph.first_edge[t] : graph.first_edge[t + 1]] for t in range(n_states)]
    states_of_mask = {
        mask: [t for t in range(n_states) if mask >> t & 1] for mask in np.unique(graph.states).tolist()
    }
    # Only an event that leaves a window needs more than the first row.
    leaves = bool(((since[1:] > since[:-1]) & (since[1:] < np.arange(1, n))).any())
    rows = list(range(n_states + 1)) if leaves else [0]
    # ``paths[i][j]``: the number of paths in the window from state i to j; 0 is before the first state.
    paths: list[list[int]] = []
    masks, starts, wanted = graph.states.tolist(), since.tolist(), iter([*last.tolist(), n])
    oldest, next_one = 0, next(wanted)
    for e in range(n):
        if not e % _TOGETHER:
            checkpoint(e / n)
        if starts[e] >= e:
            paths = [[int(i == j) for j in range(n_states + 1)] for i in range(n_states + 1)]
            oldest = e
        while oldest < starts[e]:
            _take_back(paths, states_of_mask[masks[oldest]], into)
            oldest += 1
        number = 0
        # From the last state down, so that no state sees what this event adds to an earlier one.
        for t in reversed(states_of_mask[masks[e]]):
            if graph.final[t]:
                number += sum(paths[0][source] for source in into[t])
            for i in rows:
                row = paths[i]
                more = row[t + 1] if t + 1 in into[t] and i < t + 2 else 0
                for source in into[t]:
                    if source != t + 1 and i <= source:
                        more += row[source]
                row[t + 1] += more
        if e == next_one:
            yield number
            next_one = next(wanted)


def _take_back(paths: list[list[int]], states: list[int], into: list[list[int]]) -> None:
    """Take the paths that begin with the oldest event out of ``paths``, in place."""
    n_states = len(into)
    for i in range(n_states, -1, -1):
        is_loop = False
        for t in states:
            for source in into[t]:
                if source == t + 1:
                    is_loop |= t + 1 == i
                elif source == i:
                    for j in range(t + 1, n_states + 1):
                        paths[i][j] -= paths[t + 1][j]
        if is_loop:
            for j in range(i, n_states + 1):
                paths[i][j] >>= 1


def _count_row(layout: Layout, last: np.ndarray, since: np.ndarray) -> np.ndarray:
    """Return how many paths end at each of ``last``, modulo 2^64, if the states form a row without loops."""
    kernels, n = load_kernels(PLACES), len(layout.graph.states)
    tests = [state.test for state in layout.graph.states]
    n_states_of_event = layout.accept[tests[0]].copy()
    for test in tests[1:]:
        n_states_of_event += layout.accept[test]
    out = np.zeros(len(last), np.uint64)
    with np.errstate(over="ignore"):
        if n_states_of_event.max(initial=0) < 2:
            state_of_event = np.full(layout.places.n, n + 1, np.uint8)
            for s, test in enumerate(tests):
                state_of_event -= np.uint8(n + 1 - s) * layout.accept[test]
            scratch = np.zeros((2, _WIDTH * (n + 3)), np.uint64)
            kernels.count_apart(state_of_event, last, since[last], n, *scratch, out)
            return out
        states = _sets_of_states(layout).astype(np.uint8)
        every = np.zeros(layout.places.n, np.uint64)
        highest = np.array([max(0, s.bit_length() - 1) for s in range(256)], np.uint8)
        kernels.count_row(states, since, highest, np.eye(n, dtype=np.uint64), every)
        return every[last]


def _bound_of_paths(layout: Layout, states: np.ndarray, since: np.ndarray) -> int:
    """Return a bound on the number of paths from one state to another within a window."""
    bounds = []
    for t in range(len(layout.graph.states)):
        seen = np.concatenate([[0], np.cumsum(states >> t & 1)])
        n = int((seen[1:] - seen[since]).max(initial=0))
        sources = {layout.graph.edges[e].source for e in layout.graph.into(t)}
        bound = 1 + sum(bounds[s] for s in sources - {t})
        bounds.append(bound << n if t in sources else bound * n)
    return max(bounds)


def _sets_of_states(layout: Layout) -> np.ndarray:
    """Return the mask of the states that each event may be in, int64."""
    out = np.zeros(layout.places.n, np.int64)
    for s, state in enumerate(layout.graph.states):
        out |= layout.accept[state.test].astype(np.int64) << s
    return out


# Numbers of any size from their residues, by the Chinese remainder theorem.

WORD = 1 << 64


def moduli(bound: int, most_terms: int, *, largest: int = 1 << 62) -> list[int]:
    """Return 2^64 and odd moduli without common factors, with a product greater than ``bound``."""
    used, product = [WORD], WORD
    limit = min(largest, WORD // most_terms)
    candidates = range(limit - 1 - limit % 2, 1, -2)
    for modulus in candidates:
        if product > bound:
            break
        if gcd(modulus, product) == 1:
            used.append(modulus)
            product *= modulus
    if product <= bound:
        raise ValueError("there are not enough moduli")
    return used


def number_of(residues: list[np.ndarray], used: list[int]) -> np.ndarray | list[int]:
    """Return the least numbers with these residues: uint64 if all are below 2^63, otherwise a list of int."""
    numbers, product = residues[0].astype(object), used[0]  # the Chinese remainder theorem
    for residue, modulus in zip(residues[1:], used[1:], strict=True):
        step = (residue.astype(object) - numbers) * pow(product, -1, modulus) % modulus
        numbers, product = numbers + product * step, product * modulus
    values = numbers.tolist()
    if max(values, default=0) < 1 << 63:
        return np.array(values, np.uint64)
    return values


_WORK_PER_CALL = 1 << 27  # edges that one call of the kernel looks at, between two checkpoints
_PAIRS_TO_INTERPRET = 1 << 31  # with more, a kernel is compiled at once
_PAIRS_OF_PASSES = 1 << 29  # of several passes, where a kernel counts in fewer
_FEW_PAIRS = 1 << 26
_FEW_ENDS, _FEW_MATCHES = 1 << 12, 1 << 16
_SLACK = 1.01  # rounding of floats loses less than this factor
_MUCH = 1 << 26  # bytes of exact numbers; only their sum is computed when they could take more
_NUMBERS = "the exact numbers of matches by their last events"


class PathCounter:
    """Counts the matches in a layout."""

    # Numbers beyond 63 bits are computed modulo several numbers, one pass each.

    def __init__(self, layout: Layout):
        self.layout, self.graph, self.places = layout, layout.graph, layout.places

    @cached_property
    def work(self) -> float:
        """About how many pairs of events a count looks at."""
        if self._is_free_of_conditions:
            return 0.0
        layout, pools = self.layout, [self.graph.pool(edge.source) for edge in self.graph.edges]
        most = len(self.last) * sum(map(layout.n_members, pools))
        if most <= _FEW_PAIRS:
            return float(most)
        inside = {
            pool: (layout.n_before(pool, self.last) - layout.n_before(pool, self.since)).sum()
            for pool in set(pools)
        }
        return float(sum(inside[pool] for pool in pools))

    @property
    def last(self) -> np.ndarray:
        """The places where a match may end, int64."""
        return self.layout.members(self.layout.last_pool)

    @property
    def since(self) -> np.ndarray:
        """The first places in their windows, int64."""
        return self.layout.array("since", self.layout.last_pool)

    def by_place(self) -> np.ndarray | list[int]:
        """Return how many matches end at each place: uint64, or a list if a number is 2^63 or more."""
        numbers = self.by_member
        if isinstance(numbers, list):
            out = [0] * self.places.n
            for place, number in zip(self.last.tolist(), numbers, strict=True):
                out[place] = number
            return out
        counts = np.zeros(self.places.n, np.uint64)
        counts[self.last] = numbers
        return counts

    def total(self) -> int:
        """Return the number of matches, of any size."""
        if "by_member" in self.__dict__ or not self.are_long:
            return total_of(self.by_member)
        if self._is_free_of_conditions:
            return total_unary(self.layout)
        used = moduli(len(self.last) * self.bound, self.most_terms)
        residues = [_sum_modulo(self.pass_over(WRAPPING)[0], WORD)]
        for n_done, modulus in enumerate(used[1:], 1):
            checkpoint(n_done / len(used))
            residues.append(_sum_modulo(self.pass_over(MODULAR, modulus)[0], modulus))
        [total] = number_of([np.array([residue], object) for residue in residues], used)
        return int(total)

    @cached_property
    def are_long(self) -> bool:
        """Whether the numbers of matches by their last event could take very much memory."""
        return self._bytes_of_numbers > _MUCH

    @cached_property
    def _bytes_of_numbers(self) -> int:
        """A bound on the memory of the numbers by last event."""
        n = len(self.last)
        if not n or not self.layout.size(0):
            return 0
        bound = self.quick_bound(exact_windows=False)
        if n * ((bound.bit_length() >> 3) + _PER_NUMBER) > _MUCH:
            if self._is_free_of_conditions:
                return n * _PER_NUMBER + self._bits_of_numbers // 8
            bound = self.bound  # it takes a pass over the events, and a compiled kernel
        return n * ((bound.bit_length() >> 3) + _PER_NUMBER) if bound >= _SAFE else 8 * n

    @property
    def _bits_of_numbers(self) -> int:
        """A bound on the digits of all numbers by last event, from the events in the window of each."""
        graph, layout = self.graph, self.layout
        bits = np.full(len(self.last), len(graph.states), np.float64)
        for t in range(len(graph.states)):
            pool = graph.pool(t)
            inside = layout.n_before(pool, self.last) - layout.n_before(pool, self.since) + 1
            is_loop = any(graph.edges[e].source == t for e in graph.into(t))
            bits += inside if is_loop else np.log2(inside + 1)
        return int(bits.sum())

    @property
    def _is_free_of_conditions(self) -> bool:
        """Whether only the window says which events may follow each other."""
        window = self.layout.program.window
        return self.graph.is_unary and window.gap_within is None and not window.strict_time

    @cached_property
    def by_member(self) -> np.ndarray | list[int]:
        """How many matches end at each place of the last pool: uint64, or int where one is 2^63 or more."""
        n = len(self.last)
        if not n or not self.layout.size(0):
            return np.zeros(n, np.uint64)
        if self._is_free_of_conditions:
            if self.are_long:  # the bound may be too large, but hardly by a factor of two
                check_memory(self._bytes_of_numbers // 2, _NUMBERS)
            return count_unary(self.layout, None if self.graph.has_loop else self.bound)
        bound = self.bound
        numbers = self.pass_over(WRAPPING)[0]
        if bound < _SAFE:
            return numbers
        # The residues, and about twice the numbers that they make.
        check_memory(3 * self._bytes_of_numbers, _NUMBERS)
        residues, used = [numbers], moduli(bound, self.most_terms)
        residues += [self.pass_over(MODULAR, modulus)[0] for modulus in used[1:]]
        return number_of(residues, used)

    # --- how large the numbers can get

    @cached_property
    def bound(self) -> int:
        """A number that the number of matches with the same last event does not exceed."""
        bound = self.quick_bound(exact_windows=False)
        if bound >= _SAFE:
            bound = self.quick_bound(exact_windows=True)
        if bound >= _SAFE and not self._is_interpreted(AT_LEAST, bound):
            most = float(self.pass_over(AT_LEAST)[0].max(initial=0.0)) * _SLACK
            if math.isfinite(most):
                bound = min(bound, math.ceil(most))
        return bound

    @property
    def at_most(self) -> int:
        """An upper bound of the number of matches. It is close to the number if that takes no time."""
        n = len(self.last)
        most = n * self.quick_bound(exact_windows=False) if n else 0
        return most if most <= _FEW_MATCHES or n > _FEW_ENDS else n * self.quick_bound(exact_windows=True)

    def quick_bound(self, *, exact_windows: bool) -> int:
        """Return a bound that depends only on the number of members within a window."""
        graph = self.graph
        most = self._most_in_window if exact_windows else self._most_in_any_window
        n_of_pool = [most(pool) for pool in range(len(graph.tests))]
        bounds = []
        for t, state in enumerate(graph.states):
            bound, loop = int(state.is_first), False
            for e in graph.into(t):
                source = graph.edges[e].source
                if source == t:
                    loop = True
                else:
                    bound += bounds[source] * n_of_pool[graph.pool(source)]
            bounds.append(bound << n_of_pool[graph.pool(t)] if loop else bound)
        return sum(bounds[t] for t in graph.finals)

    def _most_in_any_window(self, pool: int) -> int:
        """Return a bound on the members of a pool in a window that is quick to find."""
        return self.layout.n_members(pool)

    def _most_in_window(self, pool: int) -> int:
        """Return the largest number of members of a pool in the window before an end."""
        inside = self.layout.n_before(pool, self.last) - self.layout.n_before(pool, self.since)
        return int(inside.max(initial=0))

    @property
    def most_terms(self) -> int:
        """More than the number of terms of any sum that a kernel computes."""
        edges = len(self.graph.edges) + len(self.graph.states)
        return edges * (self.places.n + 2)

    # --- passes

    def _source(self, arithmetic: str, component: int | None = None) -> CountingKernel:
        """Return the text of the kernel that counts in an arithmetic."""
        layout = self.layout
        return layout.write_once(
            arithmetic,
            component,
            write=lambda: write_counting(
                layout.program, layout.graph, layout.dtypes, arithmetic, weighted=component
            ),
        )

    def _is_interpreted(self, arithmetic: str, bound: int) -> bool:
        """Return whether no kernel is ready, and all passes of interpretation look at few pairs."""
        if isinstance(self.layout.tests_if_new(self._source(arithmetic).text), str):
            return False
        graph = self.graph
        widest = max(self._most_in_window(pool) for pool in range(len(graph.tests)))
        # Taking back looks at all pairs in a window if states follow each other more than twice.
        per_event = widest**2 if graph.has_loop or len(graph.states) > 3 else widest
        most = _PAIRS_TO_INTERPRET if bound < _SAFE else _PAIRS_OF_PASSES // (bound.bit_length() // 32 + 1)
        return len(self.last) * per_event <= most

    def pass_over(
        self, arithmetic: str, modulus: int = 0, *, component: int | None = None,
        weight: np.ndarray | None = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """Return the numbers that the counting kernel writes, and with ``weight`` the sums of weights."""
        # ``weight`` has the residues of the weights of the members of the component's pool, uint64.
        layout, source = self.layout, self._source(arithmetic, component)
        if arithmetic != AT_LEAST and component is None and self._is_interpreted(arithmetic, self.bound):
            layout.tier = "interpreted"
            count = interpreting(source.text, count_interpreted, self.places.n)
            interpreted_counts = count(
                layout, layout.tests_of_links, self.last, self.since, modulus % WORD,
                lambda: is_ready(source.text),
            )  # fmt: skip
            if interpreted_counts is not None:
                return [interpreted_counts]
            layout.tier = "interpreted, then compiled"
        dtype = np.float64 if arithmetic == AT_LEAST else np.uint64

        def numbers(state: int) -> np.ndarray:
            return np.empty(layout.size(state), dtype)

        kinds = ("count", "count_sum", "change", "change_sum", "value", "value_sum")
        scratch = {
            **dict.fromkeys(kinds, numbers),
            "where": lambda state: np.empty(layout.size(state), np.int64),
            "changed": lambda state, i: np.empty(layout.size(state), layout.columns[i].dtype),
            "changed_limit": lambda e: np.empty(layout.size(self.graph.edges[e].source), np.int64),
            "weight": lambda pool: weight,
        }
        n, cuts = len(self.last), self.places.cuts_between_partitions(self.last)
        outputs = [np.zeros(n, dtype) for _ in range(1 if component is None else 2)]
        layout.make_on_threads(source)
        arrays_of_cut = {begin: layout.arrays_of(source, **scratch) for begin in cuts[:-1]}
        run, since, constants = layout.function(source), self.since, layout.constants

        def count(begin: int, stop: int) -> None:
            at = np.zeros(2 + len(self.graph.tests) + len(self.graph.states), np.int64)
            at[1], done = -1, begin
            while done < stop:
                checkpoint(done / n)
                done = run(
                    done, stop, _WORK_PER_CALL, np.uint64(modulus % WORD), at, since,
                    *arrays_of_cut[begin], *constants, *outputs,
                )  # fmt: skip

        in_slices(count, cuts, threads=self.places.threads)  # a partition begins without partial matches
        return outputs


def total_of(numbers: np.ndarray | list[int]) -> int:
    """Return the sum of numbers, as an int of any size."""
    if isinstance(numbers, list):
        return sum(numbers)
    if numbers.sum(dtype=np.float64) < _SAFE:
        return int(numbers.sum(dtype=np.uint64))
    low = int((numbers & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    return (int((numbers >> np.uint64(32)).sum(dtype=np.uint64)) << 32) + low


def _sum_modulo(residues: np.ndarray, modulus: int) -> int:
    """Return the sum of uint64 numbers modulo ``modulus``."""
    return total_of(residues) % modulus
