"""LinkedCEP and runs in plain Python, for any conditions: what kernels must equal."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cepkit.linked.patterns import (
    ABSENT,
    BoundEvents,
    Counters,
    EventComparison,
    PlainAbsence,
    PlainEvents,
    PlainMatches,
    PlainPattern,
    join_matches,
)
from cepkit.progress import checkpoint

_RELATION = dict(
    zip(
        ("<", "<=", ">", ">=", "==", "!="),
        (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
        strict=True,
    )
)
_NULL = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Predicate:
    """Any condition between components, as a plain function.

    Parameters
    ----------
    components : tuple of int
        The components it looks at.
    holds : callable
        ``holds(bound)`` with the positions bound so far, a tuple for each component;
        ``holds(bound, position)`` in a condition of a `PlainAbsence`.
    each : bool
        Whether it is asked with every event that the last of ``components`` takes; False: when that component
        is complete. It matters for a Kleene closure only.
    """

    components: tuple[int, ...]
    holds: Callable[..., bool]
    each: bool = True


@dataclass(frozen=True)
class AnyPattern(PlainPattern):
    """A pattern that may have conditions that are Python functions; `PythonMachine` alone runs it."""

    def _check(self, condition: EventComparison | Predicate, is_absence: bool) -> None:
        if isinstance(condition, Predicate):
            for j in condition.components:
                self._check_component(j)
        else:
            super()._check(condition, is_absence)

    @cached_property
    def coverable(self) -> tuple[bool, ...]:
        """As of comparisons; what a function names is not coverable."""
        named = {
            j
            for condition, _ in self._all_conditions()
            if isinstance(condition, Predicate)
            for j in condition.components
        }
        compared = self.compared.coverable
        return tuple(compared[j] and j not in named for j in range(self.n_components))

    @cached_property
    def compared(self) -> PlainPattern:
        """The pattern with comparisons only."""

        def comparisons(conditions):
            return tuple(condition for condition in conditions if isinstance(condition, EventComparison))

        return PlainPattern(
            self.n_components,
            self.window_ticks,
            comparisons(self.conditions),
            self.kleene,
            tuple(PlainAbsence(absence.after, comparisons(absence.conditions)) for absence in self.absences),
            self.strict_time,
        )


@dataclass(eq=False)
class _Chain:
    component: int
    pred: _Chain | None
    pred_length: int
    events: list[int]


@dataclass
class _Partition:
    chains: list[list[_Chain]]  # of each component
    recent: list[list[_Chain]]  # those that end in the latest event
    absent: list[list[int]]  # positions of the events of each absence
    accepted: int = 0
    latest: int = -1


@dataclass
class PythonMachine:
    """The same as `KernelMachine`, with any conditions. O(chains x length of a match) per event."""

    pattern: PlainPattern
    coverable: tuple[bool, ...]
    output: str
    time: list[int] = field(default_factory=list)
    columns: dict[str, list] = field(default_factory=dict)
    total: int = 0

    def __post_init__(self) -> None:
        self.counters = Counters(np.zeros(self.pattern.n_components, np.int64))
        self._partitions: dict[int, _Partition] = {}
        self._coverages: dict[_Chain, tuple[int, ...]] = {}

    def push(self, events: PlainEvents) -> PlainMatches:
        """Advance over more events; return the matches that end in them."""
        pattern = self.pattern.compared if isinstance(self.pattern, AnyPattern) else self.pattern
        events.check(pattern, self.time[-1] if self.time else None)
        accepted = events.accepted(self.pattern).tolist()
        partition = events.partition_of_event
        partition = [0] * events.n_events if partition is None else np.asarray(partition).tolist()
        start, before = len(self.time), self.total
        self.time += np.asarray(events.time).tolist()
        for name, values in events.columns.items():
            self.columns.setdefault(name, []).extend(np.asarray(values).tolist())
        found: list[BoundEvents] = []
        for i, bits in enumerate(accepted):
            checkpoint()
            if bits:
                matches = sorted(self._advance(start + i, partition[i], bits), key=_canonical)
                self.total += len(matches)
                found += matches
        return self._as_matches(found if self.output == "all" else [], self.total - before)

    def count_at(self, events: PlainEvents, positions: Sequence[int]) -> list[int]:
        """Advance over more events; return how many matches end in each of some."""
        stops = [position + 1 for position in positions]
        pieces = zip([0, *stops], [*stops, None], strict=True)
        return [self.push(events.take(slice(*piece))).n_matches for piece in pieces][:-1]

    @property
    def rows(self) -> np.ndarray:
        """Coverages so far, in canonical order."""
        rows = np.array([*self._coverages.values()], np.int64).reshape(-1, self.pattern.n_components)
        return rows[np.lexsort(rows.T)]

    def _as_matches(self, found: list[BoundEvents], n_matches: int) -> PlainMatches:
        n = self.pattern.n_components
        if not found:
            nothing = join_matches([], n)
            component = np.empty(0, np.int64) if self.pattern.kleene else None
            return PlainMatches(n_matches, n, nothing.event_of_item, nothing.first_item_of_match, component)
        lengths = [sum(map(len, bound)) for bound in found]
        items = [x for bound in found for events in bound for x in events]
        component = [j for bound in found for j, events in enumerate(bound) for _ in events]
        return PlainMatches(
            n_matches,
            n,
            np.array(items, np.int64),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.array(component, np.int64) if self.pattern.kleene else None,
        )

    # --- one event ----------------------------------------------------------------------------------------

    def _advance(self, e: int, partition: int, accepted: int) -> Iterator[BoundEvents]:
        n, absences = self.pattern.n_components, self.pattern.absences
        if partition not in self._partitions:
            lists = [[[] for _ in range(n)] for _ in range(2)]
            self._partitions[partition] = _Partition(*lists, [[] for _ in absences])
        own = self._partitions[partition]
        same = own.accepted == accepted and not accepted >> n and not self._expired(own.latest, e)
        candidates = [c for j in range(n) if accepted >> j & 1 for c in self._candidates(own, e, j)]
        for j, pred, length in candidates:
            if j == n - 1:
                yield from self._combined(own, e, pred, length)
        for a in range(len(absences)):
            if accepted >> (n + a) & 1:
                own.absent[a].append(e)
        recent: list[list[_Chain]] = [[] for _ in range(n)]
        for j, pred, length in candidates:
            self.counters.nodes_of_component[j] += 1
            self.counters.copies += pred is not None
            joins = same and self.coverable[j]
            chain = next(
                (c for c in own.recent[j] if joins and c.pred is pred and c.pred_length == length), None
            )
            if chain is None:
                self.counters.chains += 1
                chain = _Chain(j, pred, length, [e])
                own.chains[j].append(chain)
            else:
                chain.events.append(e)
            recent[j].append(chain)
            if j == n - 1:
                tails = self._latest(chain, len(chain.events))
                if self._closes(tails, j):
                    self._coverages[chain] = tuple(events[-1] for events in tails)
        own.recent, own.accepted, own.latest = recent, accepted, e
        live = sum(len(chains) for p in self._partitions.values() for chains in p.chains)
        self.counters.peak_live = max(self.counters.peak_live, live)

    def _candidates(self, own: _Partition, e: int, j: int) -> Iterator[tuple[int, _Chain | None, int]]:
        if j == 0 and self._may_join(own, ((),) * self.pattern.n_components, e, 0, takes=False):
            yield 0, None, 0
        for i in (j - 1, j):
            if i < 0 or (i == j and j not in self.pattern.kleene):
                continue
            for chain in own.chains[i]:
                length = len(chain.events)
                while (
                    self.pattern.strict_time
                    and length
                    and self.time[chain.events[length - 1]] == self.time[e]
                ):
                    length -= 1
                if not length:
                    continue
                tails = self._latest(chain, length)
                if self._expired(tails[0][0], e):
                    continue
                if self._may_join(own, tails, e, j, takes=i == j):
                    yield j, chain, length

    def _expired(self, first: int, e: int) -> bool:
        window = self.pattern.window_ticks
        return window is not None and self.time[e] - self.time[first] > window

    def _latest(self, chain: _Chain | None, length: int) -> BoundEvents:
        """Return the newest partial match of a chain: positions by component, () where none is bound yet."""
        of: list[list[int]] = [[] for _ in range(self.pattern.n_components)]
        while chain is not None:
            of[chain.component].insert(0, chain.events[length - 1])
            chain, length = chain.pred, chain.pred_length
        return tuple(map(tuple, of))

    def _combined(self, own: _Partition, e: int, chain: _Chain | None, length: int) -> Iterator[BoundEvents]:
        levels: list[tuple[int, list[int]]] = [(self.pattern.n_components - 1, [e])]
        while chain is not None:
            levels.insert(0, (chain.component, chain.events[:length]))
            chain, length = chain.pred, chain.pred_length
        component, events = levels[0]
        levels[0] = component, [x for x in events if not self._expired(x, e)]
        for chosen in itertools.product(*(events for _, events in levels)):
            bound: list[list[int]] = [[] for _ in range(self.pattern.n_components)]
            for (component, _), x in zip(levels, chosen, strict=True):
                bound[component].append(x)
            made = tuple(map(tuple, bound))
            if self._closes(made, self.pattern.n_components - 1):
                yield made

    # --- conditions ---------------------------------------------------------------------------------------

    def _may_join(self, own: _Partition, bound: BoundEvents, e: int, j: int, *, takes: bool) -> bool:
        joined_with_e = (*bound[:j], (*bound[j], e), *bound[j + 1 :])
        if not takes and j and not self._closes(bound, j - 1):
            return False
        for condition in self.pattern.conditions:
            if max(condition.components) != j:
                continue
            if isinstance(condition, Predicate):
                # One of a single component is first asked with its first event.
                if condition.each and not condition.holds(joined_with_e):
                    return False
            elif condition.left == condition.right:
                if takes and not self._compares(condition, e, bound[j][-1]):
                    return False
            elif not self._compares(
                condition, *(joined_with_e[i][-1] for i in (condition.left, condition.right))
            ):
                return False
        return takes or not any(
            self._decided_at(absence) == j and self._is_violated(absence, own.absent[a], joined_with_e)
            for a, absence in enumerate(self.pattern.absences)
        )

    def _closes(self, bound: BoundEvents, j: int) -> bool:
        """Whether what is asked of the complete component j holds."""
        return all(
            condition.holds(bound)
            for condition in self.pattern.conditions
            if isinstance(condition, Predicate) and not condition.each and max(condition.components) == j
        )

    def _decided_at(self, absence: PlainAbsence) -> int:
        named = (j for condition in absence.conditions for j in condition.components)
        return max([absence.after + 1, *named])

    def _is_violated(self, absence: PlainAbsence, positions: list[int], bound: BoundEvents) -> bool:
        start, stop = bound[absence.after][-1], bound[absence.after + 1][0]
        return any(
            start < y < stop and all(self._of_absent(condition, bound, y) for condition in absence.conditions)
            for y in positions
        )

    def _of_absent(self, condition: EventComparison | Predicate, bound: BoundEvents, y: int) -> bool:
        if isinstance(condition, Predicate):
            return condition.holds(bound, y)
        left, right = (y if j == ABSENT else bound[j][-1] for j in (condition.left, condition.right))
        return self._compares(condition, left, right)

    def _compares(self, condition: EventComparison, left: int, right: int) -> bool:
        x = self.columns[condition.left_column][left]
        y = self.columns[condition.right_column][right]
        if x != x or y != y or _NULL in (x, y):
            return False
        return _RELATION[condition.sign](x, y if condition.factor == 1 else condition.factor * y)


def _canonical(bound: BoundEvents) -> tuple:
    items = [(x, j) for j, events in enumerate(bound) for x in events]
    return [x for x, _ in reversed(items)], [j for _, j in reversed(items)]


class PythonLinked(PythonMachine):
    """As `LinkedCEP`."""

    def __init__(self, pattern: PlainPattern, *, output: str = "all"):
        super().__init__(pattern, pattern.coverable, output)

    @property
    def coverages(self) -> np.ndarray:
        """As of `LinkedCEP`."""
        return self.rows

    def chains(self) -> list[tuple[int, int, int, int, int]]:
        """Return the rows of `chains_of`."""
        made = [chain for own in self._partitions.values() for chains in own.chains for chain in chains]
        made.sort(key=lambda chain: (chain.events[0], chain.component))
        number = {id(chain): c for c, chain in enumerate(made)}
        return [
            (
                c,
                chain.component,
                position,
                number.get(id(chain.pred), -1),
                chain.pred_length if chain.pred else 0,
            )
            for c, chain in enumerate(made)
            for position in chain.events
        ]


class PythonRuns(PythonMachine):
    """As `SaseRuns` and `SiddhiLikeRuns`: how runs are kept makes no difference."""

    def __init__(self, pattern: PlainPattern, *, output: str = "all"):
        super().__init__(pattern, (False,) * pattern.n_components, output)
