"""The chain engine's counting: exact numbers of matches, of any size, without enumerating them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from cepkit.compile.chain import Chain
from cepkit.compile.chain_edges import ChainKernel, ChainShape, Key, write_killing
from cepkit.compile.chain_source import AT_LEAST, MODULAR, WRAPPING, write_counting
from cepkit.engines.residues import WORD, moduli, number_of
from cepkit.engines.shared.kernels import dtypes_of, kernel
from cepkit.engines.shared.places import Places, accepted_places
from cepkit.progress import checkpoint

_WORK_PER_CALL = 1 << 27  # edges looked at between two checkpoints
_SAFE = 1 << 63  # below this a number modulo 2^64 is the number
_FEW = 1 << 12  # places that numpy lists and counts as fast as kernels, which must be compiled first
_SLACK = 1.01  # more than what floats can round away


def count_by_last(chain: Chain, places: Places, accept: np.ndarray) -> np.ndarray | list[int]:
    """Return how many matches of a chain end at each place.

    Parameters
    ----------
    chain : Chain
        Of a branch of the program of ``places``.
    places : Places
        The events.
    accept : ndarray of uint8, shape (n_tests, n_places)
        Which places fulfil the conditions on single events; see `accepted`.

    Returns
    -------
    ndarray of uint64, shape (n_places,), or list of int
        Exact; a list when a number is 2^63 or more.

    Notes
    -----
    Time O(n_places) for a chain without conditions between events; else see `write_counting`. Memory
    O(n_places); numbers beyond 63 bits are computed modulo several numbers, one pass each.
    """
    return ChainCount(chain, places, accept).by_place()


def count(chain: Chain, places: Places, accept: np.ndarray) -> int:
    """Return the number of matches of a chain; parameters as of `count_by_last`."""
    return ChainCount(chain, places, accept).total()


class ChainEvents:
    """The arrays that kernels of a chain read, made when they are asked for."""

    def __init__(self, chain: Chain, places: Places, accept: np.ndarray):
        self.chain, self.places, self.accept = chain, places, accept
        self.program, self.inputs = places.program, places.inputs
        self.dtypes = dtypes_of(self.inputs)
        self.shape = ChainShape(chain, self.program.window.gap_within is not None)
        self.last_pool = self.shape.pool(self.shape.finals[0])
        self._arrays: dict[Key, np.ndarray] = {}
        self._sizes: dict[int, int] = {}

    @cached_property
    def columns(self) -> list[np.ndarray]:
        """The columns, by number."""
        return list(self.inputs.columns.values())

    @property
    def constants(self) -> list:
        """What kernels get besides arrays."""
        return [*self.inputs.constants, *self.inputs.tables, *self.inputs.texts]

    def function(self, made: ChainKernel) -> Callable:
        """Return the compiled kernel."""
        run = kernel(self.program, made.text, made.name)

        def quietly(*arguments: object) -> int | None:
            # Interpreted, numbers modulo 2^64 would warn, and what is computed of nulls and not used.
            with np.errstate(all="ignore"):
                return run(*arguments)

        return quietly

    def array(self, *key: str | int) -> np.ndarray:
        """Return the array of a key; see `ChainKernel`."""
        if key not in self._arrays:
            self._arrays[key] = getattr(self, f"_{key[0]}")(*key[1:])
        return self._arrays[key]

    def members(self, pool: int) -> np.ndarray:
        """Return the places of a pool, ascending."""
        return self.array("members", pool)

    def _members(self, pool: int) -> np.ndarray:
        return accepted_places(self.accept[self.shape.tests[pool]])

    def n_members(self, pool: int) -> int:
        """Return the number of places of a pool."""
        if not self.chain.is_unary:
            return len(self.members(pool))
        if pool not in self._sizes:
            accept = self.accept[self.shape.tests[pool]]
            self._sizes[pool] = int(np.count_nonzero(accept.view(np.bool_)))
        return self._sizes[pool]

    def _column(self, pool: int, number: int) -> np.ndarray:
        return self.columns[number][self.members(pool)]

    def _since(self, pool: int) -> np.ndarray:
        return self.places.window_start_of(self.members(pool))

    def _until(self, pool: int) -> np.ndarray:
        return self.places.window_end[self.members(pool)]

    def _ends(self, source: int, target: int) -> np.ndarray:
        before, of = self.members(source), self.members(target)
        if self.program.window.strict_time:
            return _n_below(self.places.later[before], of + 1)
        return _n_below(before, of)

    def _begins(self, e: int) -> np.ndarray:
        edge = self.chain.edges[e]
        source, target = self.shape.pool(edge.source), self.shape.pool(edge.target)
        before, of = self.members(source), self.members(target)
        bounds = []
        if self.shape.has_gap:
            bounds.append(_n_below(self.places.gap_end[before], of + 1))
        for absence in edge.absences:
            if absence.side == "earlier":
                continue
            absent = self.members(self.shape.tests.index(absence.test))
            if absence.side == "later":
                since = _n_below(absent, self._since(target))
                nearest = self._kills(e, absence, since, _n_below(absent, of), target)
                bounds.append(np.searchsorted(before, nearest))
            else:
                nearest = np.concatenate([[-1], absent])[_n_below(absent, of)]
                bounds.append(_n_below(before, nearest))
        return np.maximum.reduce(bounds)

    def _limit(self, e: int) -> np.ndarray:
        edge = self.chain.edges[e]
        source = self.shape.pool(edge.source)
        before = self.members(source)
        until = self.places.window_end[before]
        if self.shape.has_gap:
            until = np.minimum(until, self.places.gap_end[before])
        limits = []
        for absence in edge.absences:
            if absence.side == "earlier":
                absent = self.members(self.shape.tests.index(absence.test))
                behind = _n_below(absent, before + 1)
                limits.append(self._kills(e, absence, behind, _n_below(absent, until), source))
        return np.minimum.reduce(limits)

    def _kills(self, e, absence, first: np.ndarray, stop: np.ndarray, pool: int) -> np.ndarray:
        made = write_killing(self.program, self.chain, self.dtypes, e, absence)
        out = np.empty(len(self.members(pool)), np.int64)
        self.function(made)(*self.arrays_of(made), *self.constants, first, stop, out)
        return out

    def arrays_of(self, made: ChainKernel, **scratch: Callable[..., np.ndarray]) -> list[np.ndarray]:
        """Return the arrays of a kernel; ``scratch`` makes those of its own kinds."""
        return [scratch[key[0]](*key[1:]) if key[0] in scratch else self.array(*key) for key in made.arrays]

    def size(self, state: int) -> int:
        """Return the number of members of a state's pool."""
        return self.n_members(self.shape.pool(state))


def _n_below(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    if len(bounds) <= _FEW:
        return np.searchsorted(values, bounds)
    from cepkit.kernels.chain_counts import count_below

    out = np.empty(len(bounds), np.int64)
    count_below(values, bounds, out)
    return out


class ChainCount(ChainEvents):
    """The numbers of the matches of a chain."""

    def by_place(self) -> np.ndarray | list[int]:
        """Return how many matches end at each place."""
        numbers = self.by_member
        if isinstance(numbers, list):
            out = [0] * self.places.n
            for place, number in zip(self.members(self.last_pool).tolist(), numbers, strict=True):
                out[place] = number
            return out
        counts = np.zeros(self.places.n, np.uint64)
        counts[self.members(self.last_pool)] = numbers
        return counts

    def total(self) -> int:
        """Return the number of matches."""
        return total_of(self.by_member)

    @cached_property
    def by_member(self) -> np.ndarray | list[int]:
        """How many matches end at each place of the last pool: uint64, or int where one is 2^63 or more."""
        window = self.program.window
        n = len(self.members(self.last_pool))
        if not n or not self.size(0):
            return np.zeros(n, np.uint64)
        if self.chain.is_unary and window.gap_within is None and not window.strict_time:
            from cepkit.engines.chain_unary import count_unary

            return count_unary(self)
        bound = self.bound
        numbers = self.pass_over(WRAPPING)[0]
        if bound < _SAFE:
            return numbers
        residues, used = [numbers], moduli(bound, self.most_terms)
        residues += [self.pass_over(MODULAR, modulus)[0] for modulus in used[1:]]
        return number_of(residues, used)

    # --- how large the numbers can get

    @cached_property
    def bound(self) -> int:
        """A number that no number of matches with the same last event exceeds."""
        bound = self.quick_bound(exact_windows=False)
        if bound >= _SAFE:
            bound = self.quick_bound(exact_windows=True)
        if bound >= _SAFE:
            most = float(self.pass_over(AT_LEAST)[0].max(initial=0.0)) * _SLACK
            if math.isfinite(most):
                bound = min(bound, math.ceil(most))
        return bound

    def quick_bound(self, *, exact_windows: bool) -> int:
        """Return a bound from the numbers of members within a window alone."""
        chain, shape = self.chain, self.shape
        n_of_pool = [
            self._most_in_window(pool) if exact_windows else self.n_members(pool)
            for pool in range(len(shape.tests))
        ]
        bounds = []
        for t, state in enumerate(chain.states):
            bound, loop = int(state.is_first), False
            for e in shape.into(t):
                source = chain.edges[e].source
                if source == t:
                    loop = True
                else:
                    bound += bounds[source] * n_of_pool[shape.pool(source)]
            bounds.append(bound << n_of_pool[shape.pool(t)] if loop else bound)
        return sum(bounds[t] for t in shape.finals)

    def _most_in_window(self, pool: int) -> int:
        last = self.members(self.last_pool)
        inside = _n_below(self.members(pool), last) - _n_below(
            self.members(pool), self.array("since", self.last_pool)
        )
        return int(inside.max(initial=0))

    @property
    def most_terms(self) -> int:
        """More than the number of terms of any sum that a kernel computes."""
        edges = len(self.chain.edges) + len(self.chain.states)
        return edges * (self.places.n + 2)

    # --- passes

    def _counting(self, arithmetic: str, component: int | None) -> ChainKernel:
        """Return the counting kernel, written once per program."""
        key = ("counting", arithmetic, component, *self.dtypes.items())
        known = self.program.written.setdefault(key, [])
        made = next((made for chain, made in known if chain == self.chain), None)
        if made is None:
            made = write_counting(self.program, self.chain, self.dtypes, arithmetic, weighted=component)
            known.append((self.chain, made))
        return made

    def pass_over(
        self, arithmetic: str, modulus: int = 0, *, component: int | None = None, weight=None
    ) -> list[np.ndarray]:
        """Return what the counting kernel writes: the numbers, and with ``weight`` the sums of the weights.

        ``weight`` are the residues of the weights of the members of the component's pool, uint64.
        """
        made = self._counting(arithmetic, component)
        dtype = np.float64 if arithmetic == AT_LEAST else np.uint64

        def numbers(state: int) -> np.ndarray:
            return np.empty(self.size(state), dtype)

        kinds = ("count", "count_sum", "change", "change_sum", "value", "value_sum")
        arrays = self.arrays_of(
            made,
            **dict.fromkeys(kinds, numbers),
            where=lambda state: np.empty(self.size(state), np.int64),
            changed=lambda state, i: np.empty(self.size(state), self.columns[i].dtype),
            changed_limit=lambda e: np.empty(self.size(self.chain.edges[e].source), np.int64),
            weight=lambda pool: weight,
        )
        n = len(self.members(self.last_pool))
        outputs = [np.zeros(n, dtype) for _ in range(1 if component is None else 2)]
        at = np.zeros(2 + len(self.shape.tests) + len(self.chain.states), np.int64)
        at[1] = -1
        run, since = self.function(made), self.array("since", self.last_pool)
        done = 0
        while done < n:
            checkpoint()
            done = run(
                done, n, _WORK_PER_CALL, np.uint64(modulus % WORD), at, since,
                *arrays, *self.constants, *outputs,
            )  # fmt: skip
        return outputs


def total_of(numbers: np.ndarray | list[int]) -> int:
    """Return the sum, of any size."""
    if isinstance(numbers, list):
        return sum(numbers)
    low = int((numbers & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    return (int((numbers >> np.uint64(32)).sum(dtype=np.uint64)) << 32) + low
