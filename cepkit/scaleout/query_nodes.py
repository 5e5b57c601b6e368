"""The nodes of scaled-out patterns, windows and joins: they get items by the plan's routings."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.compile.sequence_source import test_of
from cepkit.engines.shared.places import Places, accepted
from cepkit.engines.shared.python_kernels import holding
from cepkit.engines.shared.sequence_set import MatchBlock, joined
from cepkit.errors import ResultTooLargeError
from cepkit.events import Events, sums_before
from cepkit.progress import checkpoint, run_on_threads
from cepkit.scaleout.plans import Deliveries, Routing, ScatterPlan, Traffic
from cepkit.values import dataclass, field
from cepkit.windows import aggregating as exact
from cepkit.windows.aggregating import WindowEvaluator, extreme_places
from cepkit.windows.ranges import Emitted, Meeting, Pairs, pairs_of
from cepkit.windows.values import Window

# Partial matches of one branch, and their growth by one event at the nodes of a state.

_PAIRS_AT_ONCE = 1 << 19


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial matches of a branch."""

    place: np.ndarray  # int64, (n, width): the places of each one's events, rising; -1 after the last
    size: np.ndarray  # int64, (n, n_components): number of events of each component

    def __len__(self) -> int:
        return len(self.place)

    @property
    def length(self) -> np.ndarray:
        """Number of events of each, int64, (n,)."""
        return self.size.sum(axis=1)

    @property
    def first(self) -> np.ndarray:
        """Place of the first event of each, int64, (n,)."""
        return self.place[:, 0]

    @property
    def last(self) -> np.ndarray:
        """Place of the last event of each, int64, (n,)."""
        return self.place[np.arange(len(self)), self.length - 1]

    @property
    def items(self) -> np.ndarray:
        """Places of all events, one partial match after the other, int64."""
        return self.place[np.arange(self.place.shape[1]) < self.length[:, None]]

    def take(self, rows: np.ndarray | slice) -> Partials:
        """Return these partial matches, in this order."""
        return Partials(self.place[rows], self.size[rows])

    def grown(self, parent: np.ndarray, event: np.ndarray, component: int) -> Partials:
        """Return partial matches ``parent``, each with one event more for a component."""
        size = self.size[parent]
        length = size.sum(axis=1)
        width = int(length.max(initial=0)) + 1
        place = np.full((len(parent), width), -1, np.int64)
        old_width = min(width, self.place.shape[1])
        place[:, :old_width] = self.place[parent, :old_width]
        place[np.arange(len(parent)), length] = event
        size[:, component] += 1
        return Partials(place, size)

    def block(self, places: Places, branch: int) -> MatchBlock:
        """Return complete matches as a block, not yet in canonical order."""
        n, n_components = self.size.shape
        first_item = sums_before(self.length)
        component = np.repeat(np.tile(np.arange(n_components, dtype=np.int16), n), self.size.reshape(-1))
        return MatchBlock(
            places.position_of_place[self.items].astype(np.int64, copy=False), component, first_item,
            np.full(n, branch, np.int16),
        )  # fmt: skip


def begun(places: np.ndarray, n_components: int) -> Partials:
    """Return the partial matches that begin at some places."""
    size = np.zeros((len(places), n_components), np.int64)
    size[:, :1] = 1
    return Partials(np.asarray(places, np.int64)[:, None], size)


def together(parts: list[Partials], n_components: int) -> Partials:
    """Return the partial matches of several parts, one part after the other."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return begun(np.empty(0, np.int64), n_components)
    width = max(part.place.shape[1] for part in parts)
    place = np.full((sum(map(len, parts)), width), -1, np.int64)
    at = 0
    for part in parts:
        place[at : at + len(part), : part.place.shape[1]] = part.place
        at += len(part)
    return Partials(place, np.concatenate([part.size for part in parts]))


def pairs_in_reach(
    places: Places, partials: Partials, events: np.ndarray, step: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the pairs of a partial match and a later event that clock, windows and contiguity allow."""
    first, last = partials.first, partials.last
    low, high = places.later[last], np.minimum(places.window_end[first], places.gap_end[last])
    if step in ("partition", "strict"):
        high = np.minimum(high, last + 2)  # only the next place
    begin, stop = np.searchsorted(events, low), np.searchsorted(events, high)
    n_pairs = np.maximum(stop - begin, 0)
    total = np.cumsum(n_pairs)
    row = 0
    while row < len(partials):
        checkpoint()
        before = int(total[row - 1]) if row else 0
        end = max(row + 1, int(np.searchsorted(total, before + _PAIRS_AT_ONCE, "right")))
        n = n_pairs[row:end]
        parent = np.repeat(np.arange(row, end), n)
        within = np.arange(len(parent)) - np.repeat(np.cumsum(n) - n, n)  # 0, 1, … among a parent's pairs
        event = events[begin[parent] + within]
        if step == "strict":
            position = places.position_of_place
            near = position[event] == position[last[parent]] + 1
            parent, event = parent[near], event[near]
        yield parent, event
        row = end


# The nodes of a scaled-out pattern: they get items by the plan's routings and join them, on threads.

MOST_PARTIALS = 1 << 24  # nodes keep all partial matches of a state at once


@dataclass(frozen=True, slots=True)
class ScatterRun:
    """What each node did, in ``matches.run``."""

    plan: ScatterPlan  # which nodes got which items
    work: dict[tuple[str, int], np.ndarray] = field(repr=False)  # counts by stage and node

    def to_frame(self) -> pd.DataFrame:
        """Return the work of each node."""
        rows = [(*key, *counts.tolist()) for key, counts in self.work.items()]
        return pd.DataFrame(rows, columns=["stage", "node", "events", "matches", "pairs", "sent"])


class PatternNodes:
    """All nodes of one branch of a pattern."""

    def __init__(self, places: Places, accept: np.ndarray, branch: int, plan: ScatterPlan, threads: int):
        self.places, self.accept, self.plan, self.threads = places, accept, plan, threads
        self.number = branch
        self.work: dict[tuple[str, int], np.ndarray] = defaultdict(lambda: np.zeros(4, np.int64))

    @property
    def program(self) -> SequenceProgram:
        return self.places.program

    @cached_property
    def bound(self) -> BoundBranch:
        return self.program.branches[self.number]

    @property
    def n_components(self) -> int:
        return len(self.bound.branch.components)

    def find(self) -> MatchBlock:
        """Return the matches, computed node by node and stage by stage."""
        complete = []
        current = self._begin()
        for c, component in enumerate(self.bound.branch.components):
            following, frontier = [], current
            is_last = c == self.n_components - 1
            while len(frontier):
                ready = self._closed(frontier, c, component.low)
                begins = None if is_last else self._extend(frontier, c + 1, ready, begins=True)
                takes = self._extend(frontier, c, self._may_take(frontier, c), begins=False)
                begins, takes = self._first_only(c, begins, takes)
                if is_last:
                    complete.append(frontier.take(ready))
                elif begins is not None:
                    following.append(frontier.grown(begins[0], begins[1], c + 1))
                frontier = frontier.grown(takes[0], takes[1], c)
                self._check_size(sum(map(len, following)) + sum(map(len, complete)) + len(frontier))
            current = together(following, self.n_components)
        matches = together(complete, self.n_components)
        return self.without_absent(matches).block(self.places, self.number)

    # --- states

    def _begin(self) -> Partials:
        """Return the partial matches of one event that the nodes of the first state begin."""
        events = self._events_of(0)
        stage = self.plan.stages[0]
        sent = self._send(stage.feeds[0].routing, events)
        owners = np.full(len(events), -1, np.int64)
        owners[sent.item[::-1]] = sent.node[::-1]  # the first node that gets an event begins with it
        parts = []
        for node in range(stage.n_nodes):
            partials = begun(np.sort(events[owners == node]), self.n_components)
            parts.append(partials.take(self.holds(partials, 0, each=True)))
            self.work[stage.name, node] += np.array([len(sent.to(node)), 0, 0, len(parts[-1])])
        return together(parts, self.n_components)

    def _may_take(self, frontier: Partials, c: int) -> np.ndarray:
        high = self.bound.branch.components[c].high
        return np.flatnonzero(frontier.size[:, c] < high) if high is not None else np.arange(len(frontier))

    def _closed(self, frontier: Partials, c: int, low: int) -> np.ndarray:
        """Return the partial matches whose newest component is complete."""
        enough = np.flatnonzero(frontier.size[:, c] >= low)
        return enough[self.holds(frontier.take(enough), c, each=False)]

    def _extend(
        self, frontier: Partials, c: int, rows: np.ndarray, *, begins: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a partial match and an event of component c that meet at a node and fit."""
        # The first array has rows of ``frontier``, the second has places. Pairs are sorted by both.
        if not len(rows):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        component, stage = self.bound.branch.components[c], self.plan.stages[c]
        step = component.step if begins else component.inner
        events = self._events_of(c)
        sent_events = self._sent_events(c)
        partials = frontier.take(rows)
        of_matches = stage.feeds[1].routing
        key = self._key_of_place[partials.first] if len(partials) else None
        sent = of_matches.sends(Traffic(len(partials), key))

        def join(node: int) -> tuple[np.ndarray, np.ndarray]:
            here = sent.to(node)  # the partial matches at this node
            its_events = np.sort(events[sent_events.to(node)])
            mine, pairs = partials.take(here), []
            counts = np.array([0, len(here), 0, 0], np.int64)
            for parent, event in pairs_in_reach(self.places, mine, its_events, step):
                longer = mine.grown(parent, event, c)
                fits = self.holds(longer, c, each=True)
                counts += np.array([0, 0, len(parent), int(fits.sum())])
                pairs.append((here[parent[fits]], event[fits]))
            self.work[stage.name, node] += counts
            parents, new_events = zip(*pairs, strict=True) if pairs else ((), ())
            return _concatenated(parents), _concatenated(new_events)

        parts = run_on_threads(join, stage.n_nodes, self.threads)
        parent, event = (_concatenated([part[i] for part in parts]) for i in (0, 1))
        order = np.lexsort([event, parent])
        return rows[parent[order]], event[order]

    def _first_only(self, c: int, begins, takes) -> tuple:
        """Keep the first next event of each partial match, of all groups, where the strategy says so."""
        components = self.bound.branch.components
        is_run = self.program.query.scope == "run"
        both = [pairs for pairs in (begins, takes) if pairs is not None]

        def kept(pairs, how: str):
            if pairs is None or how != "next":
                return pairs
            n = max((int(parent.max(initial=-1)) for parent, _ in both), default=-1) + 1
            least = np.full(n, np.iinfo(np.int64).max)
            for parent, event in both if is_run else [pairs]:
                np.minimum.at(least, parent, event)
            parent, event = pairs
            first = event == least[parent]
            return parent[first], event[first]

        after = components[c + 1].step if c + 1 < len(components) else "any"
        return kept(begins, after), kept(takes, components[c].inner)

    # --- what nodes test

    def holds(self, partials: Partials, c: int, *, each: bool) -> np.ndarray:
        """Return which partial matches fulfil the conditions that component c decides."""
        numbers = [
            i
            for i, bound in enumerate(self.bound.conditions)
            if (bound.condition.absence, bound.condition.decided_at, bound.condition.each) == (None, c, each)
        ]
        if not numbers or not len(partials):
            return np.ones(len(partials), bool)
        fulfilled = holding(self.places, None, self.bound, partials.items, partials.size, numbers)
        return np.asarray(fulfilled.all(axis=1))

    def joined(self, partials: Partials, events: np.ndarray, c: int) -> Partials:
        """Return what a node makes of partial matches and its events, at rising places, for component c."""
        parts = []
        closed = partials.take(self.holds(partials, c - 1, each=False))
        for parent, event in pairs_in_reach(
            self.places, closed, events, self.bound.branch.components[c].step
        ):
            longer = closed.grown(parent, event, c)
            longer = longer.take(self.holds(longer, c, each=True))
            is_last = c == self.n_components - 1
            parts.append(longer.take(self.holds(longer, c, each=False)) if is_last else longer)
        return together(parts, self.n_components)

    def without_absent(self, found: Partials) -> Partials:
        """Return the matches that no absent event rules out."""
        absences = range(len(self.bound.branch.absences))
        if not absences or not len(found):
            return found
        free = holding(self.places, self.accept, self.bound, found.items, found.size, (), absences)
        return found.take(np.asarray(free.all(axis=1)))

    # --- routes

    @cached_property
    def _key_of_place(self) -> np.ndarray:
        return self.places.events.partition_of_event[self.places.position_of_place].astype(np.int64)

    def _events_of(self, c: int) -> np.ndarray:
        """Return the places of the events of component c, in stream order."""
        row = self.accept[test_of(self.program, self.bound.accepts[c])]
        events = np.flatnonzero(row)
        return events[np.argsort(self.places.position_of_place[events], kind="stable")]

    def _send(self, routing: Routing, events: np.ndarray) -> Deliveries:
        return routing.sends(Traffic(len(events), self._key_of_place[events]))

    @cached_property
    def _sent(self) -> dict[int, Deliveries]:
        return {}

    def _sent_events(self, c: int) -> Deliveries:
        """Return to which nodes the events of a component are sent, once."""
        if c not in self._sent:
            stage = self.plan.stages[c]
            self._sent[c] = sent = self._send(stage.feeds[0].routing, self._events_of(c))
            if c:  # the first state counted its own
                for node in range(stage.n_nodes):
                    self.work[stage.name, node][0] += int((sent.node == node).sum())
        return self._sent[c]

    def _check_size(self, n: int) -> None:
        """Raise if the nodes hold too many partial matches."""
        if n > MOST_PARTIALS:
            raise ResultTooLargeError(
                f"the nodes hold {n:,} partial matches at once, more than {MOST_PARTIALS:,}. A window "
                "(WITHIN) limits them; engine='auto' makes only the matches you look at"
            )


def _concatenated(parts) -> np.ndarray:
    return np.concatenate(parts) if len(parts) else np.empty(0, np.int64)


def find_scattered(
    program: SequenceProgram, events: Events, plans: list[ScatterPlan], threads: int
) -> tuple[MatchBlock, list[ScatterRun]]:
    """Return all matches of a program in canonical order, and what the nodes of each branch did."""
    places = Places(program, events)
    if program.window.is_empty or not events.n_events:
        return joined([]), [ScatterRun(plan, {}) for plan in plans]
    accept = accepted(places)
    nodes_of_branch = [PatternNodes(places, accept, b, plan, threads) for b, plan in enumerate(plans)]
    block = joined([nodes.find() for nodes in nodes_of_branch]).sorted()
    return block, [ScatterRun(nodes.plan, dict(nodes.work)) for nodes in nodes_of_branch]


# The aligned gather: each output merges the partial results of all nodes as of the same event.
#
# Source: Suhothayan, 2019, 3.1.1. Differs: there a gather merges the newest partial result of every node,
# whatever event it is for.


@dataclass(frozen=True, slots=True)
class NodeShare:
    """The events of one node, and the range of them that belongs to each output."""

    place: np.ndarray  # int64, (n_own,): places of its events in the whole stream, rising
    # start, stop: int64, (n_outputs,): the range of its own events that are in the window of each output
    start: np.ndarray
    stop: np.ndarray


def share_of(node: int, node_of_place: np.ndarray, start: np.ndarray, stop: np.ndarray) -> NodeShare:
    """Return the share of a node of the windows ``start`` to ``stop``, from the heartbeats that it gets."""
    place = np.flatnonzero(node_of_place == node)
    return NodeShare(place, np.searchsorted(place, start), np.searchsorted(place, stop))


def merge_counts(present: np.ndarray, shares: Sequence[NodeShare]) -> np.ndarray:
    """Return the number of present values in each window, int64, (n_outputs,)."""
    return merge_integers(present.astype(np.int64), shares)


def merge_integers(values: np.ndarray, shares: Sequence[NodeShare]) -> np.ndarray:
    """Return the sums of integers in each window, int64, (n_outputs,)."""
    total = np.zeros(len(shares[0].start), np.int64)
    for share in shares:
        total += _sum_of_integers(values[share.place], share)
    return total


def _sum_of_integers(values: np.ndarray, share: NodeShare) -> np.ndarray:
    """Return the sums of a node's events in each window, from its prefix sums."""
    before = sums_before(values)
    return before[share.stop] - before[share.start]


def merge_sums(
    values: np.ndarray, present: np.ndarray, shares: Sequence[NodeShare], count: np.ndarray | None = None
) -> np.ndarray:
    """Return the exact sums of numbers in each window, rounded once, float64, (n_outputs,)."""
    # With ``count``, the number of present values in each window, return the variances. Nodes send
    # the digits of their sums, and the gather adds up the digits.
    infinite = np.zeros(len(shares[0].start))
    if values.dtype.kind == "f":
        infinite = exact.with_infinities(infinite, values, present, lambda part: merge_counts(part, shares))
    scale = exact.common_scale(*(exact.scale_of(values[s.place], present[s.place]) for s in shares))
    digits = np.zeros((len(infinite), scale.n_digits), np.int64)
    squares = np.zeros((len(infinite), 2 * scale.n_digits), np.int64)
    for share in shares:
        numbers = exact.numbers_of(values[share.place], present[share.place], scale)
        digits += exact.partial_sums(numbers, share.start, share.stop)
        if count is not None:
            squares += exact.partial_squares(numbers, share.start, share.stop)
    if count is not None:
        variance = exact.round_variances(digits, squares, count, scale)
        return np.where((count > 0) & (infinite == 0), variance, np.nan)
    with np.errstate(invalid="ignore"):
        return exact.round_sums(digits, scale) + infinite


# Windows over nodes: each node computes partial aggregates of its own rows, and the gather merges them.


class WindowNodes(WindowEvaluator):
    """Computes what a window emits, each aggregate from the partial aggregates of all nodes."""

    def __init__(
        self, query: Window, source: object, row_of_event: np.ndarray, emitted: Emitted, *, plan: ScatterPlan
    ):
        super().__init__(query, source, row_of_event, emitted)  # type: ignore[arg-type]
        routing = plan.stages[0].feeds[0].routing
        node_of_event = routing.sends(Traffic(len(row_of_event))).node
        node_of_place = node_of_event[emitted.row_of_place]
        self._shares = [
            [
                share_of(node, node_of_place, self.emitted.start[family], self.emitted.stop[family])
                for family in self._families
            ]
            for node in range(routing.n_nodes)
        ]

    def _gathered(self, merge, dtype: type) -> np.ndarray:
        """Return what ``merge`` makes of the nodes' shares, for rows that arrive and for those that leave."""
        out = np.empty(len(self.emitted.start), dtype)
        for k, family in enumerate(self._families):
            if family.stop > family.start:
                out[family] = merge([shares[k] for shares in self._shares], family)
        return out

    def _count(self, present: np.ndarray) -> np.ndarray:
        return self._gathered(lambda shares, family: merge_counts(present, shares), np.int64)

    def _extreme_places(self, ranks: np.ndarray, present: np.ndarray, is_max: bool) -> np.ndarray:
        """Return the place of the least or greatest value of each window, merged from the nodes."""

        def merge(shares: list[NodeShare], family: slice) -> np.ndarray:
            best = np.full(family.stop - family.start, -1, np.int64)
            for share in shares:
                mine, is_present = ranks[share.place], present[share.place]
                extremes = extreme_places(mine, is_present, is_max, share.start, share.stop)
                place = np.where(extremes < 0, -1, share.place[extremes] if len(share.place) else -1)
                better = ranks[place] > ranks[best] if is_max else ranks[place] < ranks[best]
                best = np.where((place >= 0) & ((best < 0) | better), place, best)
            return best

        return self._gathered(merge, np.int64) if len(ranks) else np.empty(0, np.int64)

    def _integer_sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        """Return the sum of each window, merged from the nodes."""
        kept = np.where(present, values, 0)
        largest = max(abs(int(kept.max(initial=0))), abs(int(kept.min(initial=0))))
        if largest * len(kept) >= 1 << 63:  # the single node says what is too large
            return super()._integer_sums(values, present, name)
        return self._gathered(lambda shares, family: merge_integers(kept, shares), np.int64)

    def _sums(self, values: np.ndarray, present: np.ndarray, name: str) -> np.ndarray:
        if values.dtype.kind == "i":
            return self._integer_sums(values, present, name)
        return self._gathered(lambda shares, family: merge_sums(values, present, shares), np.float64)

    def _variances(self, values: np.ndarray, present: np.ndarray, count: np.ndarray) -> np.ndarray:
        def merge(shares: list[NodeShare], own: slice) -> np.ndarray:
            return merge_sums(values, present, shares, count[own])

        return self._gathered(merge, np.float64)


# Joins over nodes: each node finds the pairs of the rows that it gets, and the gather puts them in order.


def pairs_of_nodes(
    meeting: Meeting, keys: tuple[np.ndarray, np.ndarray], n_keys: int, triggers: tuple[int, ...] = (0, 1), *,
    plan: ScatterPlan,
) -> Pairs:  # fmt: skip
    """Return the pairs of all nodes in the order of a single node."""
    feeds = plan.stages[0].feeds
    sent = [
        feed.routing.sends(Traffic(len(key_codes), np.maximum(key_codes, 0)))
        for feed, key_codes in zip(feeds, keys, strict=True)
    ]

    def find(node: int) -> Pairs:
        visible_codes = []
        for deliveries, codes in zip(sent, keys, strict=True):
            mine = np.full(len(codes), -1, np.int64)  # the node does not have the other rows
            rows = deliveries.to(node)
            mine[rows] = codes[rows]
            visible_codes.append(mine)
        return pairs_of(meeting, (visible_codes[0], visible_codes[1]), n_keys, triggers)

    n_nodes = plan.stages[0].n_nodes
    parts = run_on_threads(find, n_nodes, min(n_nodes, os.cpu_count() or 1))
    event, left, right = (np.concatenate([getattr(part, name) for part in parts]) for name in Pairs._fields)
    partner = np.where(meeting.side[event] == 0, right, left)
    order = np.lexsort([partner, event])
    return Pairs(event[order], left[order], right[order])
