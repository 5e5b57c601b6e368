"""One trace of partial matches for every language: what each event begins, advances, ends and completes.

The generated kernels run as Python, so partial matches mean the same here as in the engines. For a regex the
whole kernel runs without its shortcuts, for a sequence only the conditions in it. Rows of MATCH_RECOGNIZE are
read in every way at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from cepkit.compile.regex_plan import of_every_start
from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram, compile_sequence
from cepkit.compile.shared.row_automaton import ANY
from cepkit.engines.after_match import Reporter
from cepkit.engines.match_recognize.bound import RowPartition, SearchedRows
from cepkit.engines.match_recognize.matching import next_start
from cepkit.engines.regex import advance
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import plain_kernel
from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.events import Events
from cepkit.insight.partial_matches import Extender, Partial
from cepkit.insight.row_pattern_why_not import RowReader, Way
from cepkit.language.expressions import trees as ex
from cepkit.language.query_parts import END
from cepkit.language.regex import RegexQuery


class DrawnStates(Protocol):
    """The states of an automaton that group the live partial matches."""

    @property
    def masks(self) -> tuple[int, ...]:
        """Only for a regex: the positions of each state; 0 for the start."""

    @property
    def state_of_component(self) -> tuple[tuple[int, ...], ...]:
        """Only for a sequence: the state of every component of the first branches."""


@dataclass(slots=True)
class Change:
    """How an event changes the partial matches of a query, each in the form of its trace."""

    # began, advanced: the partial matches that begin with the event, and the older ones that take it
    began: list[Any] = field(default_factory=list)
    advanced: list[Any] = field(default_factory=list)
    # The partial matches that were live, do not take the event, and are no longer live.
    ended: list[Any] = field(default_factory=list)
    completed: list[Any] = field(default_factory=list)  # the matches that end with the event
    n_unreported: int = 0  # other matches that end with it, which the after-match policy leaves out


class MatchTrace(ABC):
    """The live partial matches of a query, event by event in the order of a stream."""

    # A partial match is live while its pattern, window and strategy allow a later event to extend it.

    most_live: int  # partial matches that are followed at once; a regex has no limit
    n_left_out = 0  # partial matches that were live, and too many to follow
    left_out = "oldest"  # which ones these are

    @abstractmethod
    def read(self, k: int) -> Change:
        """Read event ``k``, the next one."""

    @abstractmethod
    def live(self, k: int | None = None) -> list[Any]:
        """Return the live partial matches in the partition of event ``k``; None for all partitions."""

    @property
    @abstractmethod
    def n_live(self) -> int:
        """Return the number of live partial matches in all partitions."""

    @abstractmethod
    def events(self, partial_match: Any) -> tuple[int, ...]:
        """Return the positions of its events; only the first and the newest of contiguous events."""

    @abstractmethod
    def names(self, partial_match: Any) -> tuple[str, ...]:
        """Return the variable of each event; only of the newest one of contiguous events."""

    @abstractmethod
    def n_events(self, partial_match: Any) -> int:
        """Return the number of its events."""

    @abstractmethod
    def states(self, partial_match: Any, drawn: Any) -> Iterable[int]:
        """Return the drawn states that it is in."""


# --- regex


def rows_looked_back(query: RegexQuery) -> int:
    """Return how many rows back the predicates of a regex read."""
    return max((_looked_back(tree) for _, tree in query.define), default=0)


def _looked_back(tree: ex.Expression) -> int:
    """Return how many rows an expression looks back, with prev() inside prev()."""
    offset = tree.offset if isinstance(tree, ex.Previous) else 0
    return offset + max(map(_looked_back, tree.children()), default=0)


def names_of_mask(names: tuple[str, ...], mask: int) -> str:
    """Return the predicates at some positions of a regex in words: ``up or top``."""
    predicates = dict.fromkeys(
        "any" if name == ANY else name for p, name in enumerate(names) if mask >> p & 1
    )
    return " or ".join(predicates) or "nothing"


class Span(NamedTuple):
    """A partial match of contiguous events; the first event identifies it."""

    first: int
    newest: int
    where: Any  # the mask of positions in the automaton of a regex, or the ways to read rows


def _change(k: int, before: list[Span], after: list[Span], completed: list[Span]) -> Change:
    """Return how event ``k`` changes partial matches of contiguous events."""
    taking = {span.first: span for span in (*after, *completed)}
    was_live = {span.first for span in before}
    return Change(
        began=[taking[k]] if k in taking else [],
        advanced=[span for span in taking.values() if span.first in was_live],
        ended=[span for span in before if span.first not in taking],
        completed=completed,
    )


class RegexTrace(MatchTrace):
    """The partial matches of a regex; those that are live before event ``first`` are left out."""

    def __init__(self, program: Program, events: Events, first: int = 0, *, reports: bool = True):
        if reports:
            program.query.refuse_skips("step")
        columns = {name: events.columns[name] for name in program.columns}
        self._inputs = program.inputs(columns)
        plan = of_every_start(program.plan)  # one list of all partial matches
        if not reports:
            plan = replace(plan, automaton=replace(plan.automaton, accepting=0))
        self._kernel = plain_kernel(program, plan, self._inputs.columns)
        self._state = self._kernel.new_state(max(1, events.n_partitions))
        self._partition, self._rank = events.partition_of_event, events.rank_by_partition
        self._newest = [-1] * max(1, events.n_partitions)
        self._accepting = program.automaton.accepting
        self._name_of_mask = cache(lambda mask: names_of_mask(program.automaton.names, mask))
        self.advance(0, first)
        self._state.arrays["live"][:] = 0

    def advance(self, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Read the events from ``low`` to before ``high``; return the ends of the matches among them."""
        columns = {name: values[low:high] for name, values in self._inputs.columns.items()}
        inputs = self._inputs.with_columns(columns)
        return advance(self._kernel, self._state, self._partition[low:high], inputs, low)

    def read(self, k: int) -> Change:
        before = self.live(k)
        starts = self.advance(k, k + 1)[0].tolist()
        self._newest[self._partition[k]] = k
        return _change(k, before, self.live(k), [Span(start, k, self._accepting) for start in starts])

    def live(self, k: int | None = None) -> list[Span]:
        """Return the partial matches in all partitions, or in the partition of event ``k``."""
        arrays, spans = self._state.arrays, []
        for p in range(len(self._newest)) if k is None else [self._partition[k]]:
            at = int(arrays["list_place"][p, 0])
            cells = slice(at, at + int(arrays["live"][p]))
            masks = arrays["list_mask"][cells].astype(np.int64).tolist()
            starts = arrays["list_start"][cells].tolist()
            spans += [Span(start, self._newest[p], mask) for start, mask in zip(starts, masks, strict=True)]
        return spans

    @property
    def n_live(self) -> int:
        return int(self._state.arrays["live"].sum())

    def events(self, partial_match: Span) -> tuple[int, ...]:
        return partial_match[:2]

    def names(self, partial_match: Span) -> tuple[str, ...]:
        """Return the predicates that its newest event may stand for, in words."""
        return (self._name_of_mask(partial_match.where),)

    def n_events(self, partial_match: Span) -> int:
        return int(self._rank[partial_match.newest] - self._rank[partial_match.first]) + 1

    def states(self, partial_match: Span, drawn: DrawnStates) -> Iterable[int]:
        return (state for state, mask in enumerate(drawn.masks) if state and partial_match.where & mask)


# --- sequences

Branched = tuple[int, Partial]  # number of a branch, and a partial match of it
# What a partial match may do: take one more event as its newest component, or begin the next component.
# Ended: the ``until`` of its loop was true.
_TAKE, _BEGIN, _ENDED = 1, 2, 4


class SequenceTrace(MatchTrace):
    """The partial matches of a sequence; ``reports`` says whether the after-match policy selects matches."""

    n_live = 0

    def __init__(self, program: SequenceProgram, events: Events, most_live: int, *, reports: bool = False):
        self.places, self.most_live, self._events = Places(program, events), most_live, events
        self._live: dict[int, list[Branched]] = {}  # by the first place of their partition
        self._ways: dict[int, list[int]] = {}  # what each of them may still do
        # An absence that the data leave undecided keeps no event out of a partial match, only out of a match.
        self._deciders = [Extender(self.places, bound) for bound in program.branches]
        self._extenders = self._deciders
        if program.clock_of_waits is not None and not program.query.undecided:
            endless = compile_sequence(replace(program.query, complete_until=END), program.schema)
            places = Places(endless, events)
            self._extenders = [Extender(places, bound) for bound in endless.branches]
        self._is_strict = looks_between(program)
        self._reports = reports
        self._reporter = Reporter(program) if program.query.after_match[0] != "none" else None

    def live(self, k: int | None = None) -> list[Branched]:
        """Return the partial matches in the partition of event ``k``, or in all partitions."""
        if k is None:
            return [branched for live_partials in self._live.values() for branched in live_partials]
        return self._live.get(int(self.places.start_of_partition[self.places.place_of_position[k]]), [])

    def read(self, k: int) -> Change:
        """Read the next event, and return what it changes."""
        j = int(self.places.place_of_position[k])
        partition, change = int(self.places.start_of_partition[j]), Change()
        before = self._live.get(partition, [])
        kept, ways = self._pass(partition, j, change, self._extend(before, j, change))
        for branched in sorted([*change.began, *change.advanced], key=lambda branched: branched[0]):
            if way := self._ways_at_first(*branched):
                kept.append(branched)
                ways.append(way)
        self._keep(partition, kept, ways)
        if self._is_strict:  # then partial matches of other partitions may not skip the event
            for other in [other for other in self._live if other != partition]:
                self._keep(other, *self._pass(other, j, change))
        if self._reports and change.completed:
            n = len(change.completed)
            change.completed = self._reported(change.completed)
            change.n_unreported = n - len(change.completed)
        return change

    def _reported(self, completed: list[Branched]) -> list[Branched]:
        """Return the matches that ``after_match`` reports, in canonical order."""
        block = self.block_of(completed)
        if self._reporter is not None:
            block = self._reporter.reported(block, self._events.partition_of_event[block.last])
        reported = []
        for m, branch in enumerate(block.branch_of_match.tolist()):
            items = slice(block.first_item_of_match[m], block.first_item_of_match[m + 1])
            path = self.places.place_of_position[block.event_of_item[items]].tolist()
            reported.append((branch, Partial(tuple(path), tuple(block.component_of_item[items].tolist()))))
        return reported

    def block_of(self, completed: list[Branched]) -> MatchBlock:
        """Return matches as a block in canonical order, by the positions of their events."""
        first_item = np.cumsum([0, *(len(partial.path) for _, partial in completed)])
        places = np.array([place for _, partial in completed for place in partial.path], np.int64)
        return MatchBlock(
            self.places.position_of_place[places],
            np.array([c for _, partial in completed for c in partial.components], np.int16),
            first_item.astype(np.int64),
            np.array([b for b, _ in completed], np.int16),
        ).sorted()

    def events(self, partial_match: Branched) -> tuple[int, ...]:
        return tuple(self.places.position_of_place[list(partial_match[1].path)].tolist())

    def names(self, partial_match: Branched) -> tuple[str, ...]:
        components = self._extenders[partial_match[0]].components
        return tuple(components[c].variable for c in partial_match[1].components)

    def n_events(self, partial_match: Branched) -> int:
        return len(partial_match[1].path)

    def states(self, partial_match: Branched, drawn: DrawnStates) -> Iterable[int]:
        """Return the drawn state of its newest component; nothing for a branch that is not drawn."""
        states = drawn.state_of_component[partial_match[0] : partial_match[0] + 1]
        return (of_component[partial_match[1].components[-1]] for of_component in states)

    def first_whole(self) -> int:
        """Return the first event whose window lies within the traced events; their number if unknown."""
        window, n = self.places.program.window, self._events.n_events
        if self.places.is_one_partition and (window.within is not None or window.within_events is not None):
            begun = np.flatnonzero(self.places.window_start > 0)
            return int(begun[0]) if len(begun) else n
        return n

    def _pass(
        self, partition: int, j: int, change: Change, takers: Collection[int] = ()
    ) -> tuple[list[Branched], list[int]]:
        """Return the partial matches that stay live after event ``j``, and what they may do."""
        kept, ways = [], []
        live = zip(self._live.get(partition, ()), self._ways.get(partition, ()), strict=True)
        for i, (branched, way) in enumerate(live):
            if (way := self._ways_after(*branched, way, j)) & (_TAKE | _BEGIN):
                kept.append(branched)
                ways.append(way)
            elif i not in takers:
                change.ended.append(branched)
        return kept, ways

    def _extend(self, before: list[Branched], j: int, change: Change) -> set[int]:
        """Add what event ``j`` begins, advances and completes; return which of ``before`` take it."""
        takers = set()
        for b, extender in enumerate(self._extenders):
            fits = [extender.conditions.failing_alone(c, j) is None for c in range(extender.n)]
            branch_partials = [(i, partial) for i, (branch, partial) in enumerate(before) if branch == b]
            for i, partial in ((-1, Partial()), *branch_partials):
                for c in _next_components(extender, partial):
                    if fits[c] and not extender.obstacles(partial, j, c):
                        branched = b, partial.with_event(j, c)
                        (change.advanced if partial.path else change.began).append(branched)
                        takers.add(i)
                        if not extender.at_end(branched[1]) and self._is_decided(b, partial, j, c):
                            change.completed.append(branched)
        return takers

    def _is_decided(self, b: int, partial: Partial, j: int, c: int) -> bool:
        """Return whether the data decide all absences of a match that event ``j`` completes."""
        decider = self._deciders[b]
        if decider is self._extenders[b]:
            return True
        return not (decider.obstacles(partial, j, c) or decider.at_end(partial.with_event(j, c)))

    def _keep(self, partition: int, kept: list[Branched], ways: list[int]) -> None:
        """Keep the newest partial matches of a partition, and count those left out."""
        self.n_left_out += max(0, len(kept) - self.most_live)
        kept, ways = kept[-self.most_live :], ways[-self.most_live :]
        self.n_live += len(kept) - len(self._live.get(partition, ()))
        if kept:
            self._live[partition], self._ways[partition] = kept, ways
        else:
            self._live.pop(partition, None)
            self._ways.pop(partition, None)

    def _ways_at_first(self, b: int, partial: Partial) -> int:
        """Return what a partial match may do directly after its newest event."""
        extender, places = self._extenders[b], self.places
        s, p, c = partial.path[0], partial.path[-1], partial.components[-1]
        if p + 1 >= min(places.window_end[s], places.gap_end[p]):
            return 0
        return (0 if extender.is_full(partial, c) else _TAKE) | (_BEGIN if c + 1 < extender.n else 0)

    def _ways_after(self, b: int, partial: Partial, ways: int, j: int) -> int:
        """Return which of ``ways`` remain after event ``j``."""
        extender, places = self._extenders[b], self.places
        s, p, c = partial.path[0], partial.path[-1], partial.components[-1]
        how_take = extender.components[c].inner
        how_begin = extender.components[c + 1].step if c + 1 < extender.n else "strict"
        if places.start_of_partition[j] != places.start_of_partition[p]:
            # An event of another partition ends only strict steps, which may not skip it.
            return ways & ~((how_take == "strict") * _TAKE | (how_begin == "strict") * _BEGIN)
        if j + 1 >= min(places.window_end[s], places.gap_end[p]):
            return 0
        if how_take in ("strict", "partition"):
            ways &= ~_TAKE
        if how_begin in ("strict", "partition"):
            ways &= ~_BEGIN
        if not ways & _ENDED and extender.is_ended_at(partial, j):
            ways = (ways | _ENDED) & ~_TAKE
        nexts = (how_take == "next") * _TAKE | (how_begin == "next") * _BEGIN
        if ways & nexts:
            hits = extender.hits(partial, j, ended=bool(ways & _ENDED))
            if extender.query.scope == "run" and any(hits):
                ways &= ~nexts
            ways &= ~(nexts & (hits[0] * _TAKE | hits[1] * _BEGIN))
        return ways


def looks_between(program: Program | SequenceProgram) -> bool:
    """Return whether matches depend on events of other partitions between their own events."""
    if isinstance(program, Program):
        return False
    components = (c for bound in program.branches for c in bound.branch.components)
    return any("strict" in (c.step, c.inner) for c in components)


def _next_components(extender: Extender, partial: Partial) -> list[int]:
    """Return the components that the next event of a partial match may belong to."""
    if not partial.path:
        return [0]
    c = partial.components[-1]
    return [c] if c + 1 == extender.n else [c, c + 1]


# --- rows of MATCH_RECOGNIZE


class RowTrace(MatchTrace):
    """The partial matches of MATCH_RECOGNIZE in a partition that begin at row ``begin`` or later."""

    # Rows that AFTER MATCH skips begin none. A match is completed at its last row, and the partial matches
    # that begin before the search continues end with it. Positions count the rows of the partition.

    left_out = "newest"

    def __init__(self, searched: SearchedRows, part: RowPartition, begin: int, most_live: int):
        self._bound, self._part, self.most_live = searched.bound, part, most_live
        self._live: dict[int, tuple[RowReader, list[Way]]] = {}
        self._newest = begin
        self._begins = np.ones(part.n_rows, bool)
        self._stop_of_start: dict[int, int] = {}
        self._starts_at: dict[int, list[int]] = {}  # the first rows of the matches that end at a row
        self._resumes_at: dict[int, list[int]] = {}
        for match in searched.matches(part.code):
            if match.states:
                resumes, last = next_start(self._bound.program, match), match.rows().stop - 1
                self._begins[match.start + 1 : resumes] = False
                self._stop_of_start[match.start] = last + 1
                self._starts_at.setdefault(last, []).append(match.start)
                self._resumes_at.setdefault(last, []).append(resumes)

    def read(self, k: int) -> Change:
        """Read the next row, and return what it changes."""
        before, self._newest = self.live(), k
        if self._begins[k] and len(self._live) < self.most_live:
            reader = RowReader(self._bound, self._part, k)
            self._live[k] = reader, reader.beginning()
        elif self._begins[k]:
            self.n_left_out += 1
        going = {}
        for start, (reader, ways) in self._live.items():
            in_time = k < self._stop_of_start.get(start, self._part.n_rows)
            if in_time and (advanced := reader.advance(ways, k)).ways:
                going[start] = reader, advanced.ways
        self._live = going
        for resumes in self._resumes_at.get(k, ()):
            self._live = {start: reading for start, reading in self._live.items() if start >= resumes}
        return _change(k, before, self.live(), [Span(start, k, ()) for start in self._starts_at.get(k, ())])

    def live(self, k: int | None = None) -> list[Span]:
        return [Span(start, self._newest, tuple(ways)) for start, (_, ways) in self._live.items()]

    @property
    def n_live(self) -> int:
        return len(self._live)

    def events(self, partial_match: Span) -> tuple[int, ...]:
        return partial_match[:2]

    def names(self, partial_match: Span) -> tuple[str, ...]:
        """Return the variables that the newest row may stand for, in words."""
        variables = self._bound.program.automaton.variable_of_state
        return (" or ".join(dict.fromkeys(variables[way.state] for way in partial_match.where)),)

    def n_events(self, partial_match: Span) -> int:
        return partial_match.newest - partial_match.first + 1

    def states(self, partial_match: Span, drawn: Sequence[int]) -> Iterable[int]:
        """Return the drawn states of its ways; ``drawn`` has that of each state of the automaton."""
        return dict.fromkeys(drawn[way.state] for way in partial_match.where)
