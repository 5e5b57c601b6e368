"""Runs of patterns, sequences and single queries: what they do with each event, and the rows they select."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

from cepkit.language.siddhi import query as sp
from cepkit.language.siddhi.printing import print_states
from cepkit.language.siddhi.query import PatternInput
from cepkit.limits import PARTIAL_MATCHES, refuse_beyond
from cepkit.siddhiql.absent import AbsentHalf, AbsentWait
from cepkit.siddhiql.calls import Value
from cepkit.siddhiql.selecting import CURRENT, RESET, Row, RowSelection, RowSelector
from cepkit.siddhiql.states import CountState, Event, LogicalHalf, PartialState, RunClock, Slots, WaitingState
from cepkit.siddhiql.windows import Passed, WindowPlan, make_window
from cepkit.values import dataclass

# States of patterns that ask only partial matches with the key of an event: ``e2=B[k == e1.k]`` is one.


@dataclass(frozen=True, slots=True)
class Equality:
    """A filter compares a value of its event, at ``place``, with one of an earlier event, in ``slot``."""

    place: int
    slot: int
    other_place: int


class KeyedState(WaitingState):
    """A state of a pattern that takes one event whose key is that of the partial match."""

    # An event with another key changes nothing here, so the state does not offer it. The key of a partial
    # match stays the same: its events come from states that it has passed, and that take one event.

    def __init__(self, slot: int, n_slots: int, equalities: tuple[Equality, ...], **keywords: bool):
        super().__init__(slot, n_slots, **keywords)
        self._equalities, self._numbers = equalities, count()
        self._waiting: dict[int, PartialState] = {}  # by number, in the order of arrival
        self._of_key: defaultdict[tuple, dict[int, PartialState]] = defaultdict(dict)

    @property
    def n_waiting(self) -> int:
        return len(self._waiting) + len(self.fresh)

    def keep(self, arrived: list[PartialState]) -> None:
        """Let partial matches wait, each under a new number and under its key."""
        for number, partial in zip(self._numbers, arrived, strict=False):
            self._waiting[number] = partial
            if (key := self._key(partial)) is not None:
                self._of_key[key][number] = partial

    def oldest(self) -> Iterator[PartialState]:
        yield from self._waiting.values()

    def forget_oldest(self, n: int) -> None:
        """Drop the `n` partial matches that wait longest, also from the lists of their keys."""
        for number in [*islice(self._waiting, n)]:
            key = self._key(self._waiting.pop(number))
            if key is not None:
                self._forget(key, number)

    def take(self, event: Event) -> list[PartialState]:
        """Return the partial matches that an event completes, among those that wait for its key."""
        complete: list[PartialState] = []
        key = tuple(event[equality.place] for equality in self._equalities)
        for number, partial in [*self._of_key.get(key, {}).items()]:
            partial.slots[self.slot] = [event]
            self.check(partial)
            if self.completed.is_complete:
                self.completed.is_complete = False
                complete.append(partial)
            if self.is_changed:
                del self._waiting[number]
                self._forget(key, number)
            else:
                partial.slots[self.slot] = None
        return complete

    def _forget(self, key: tuple, number: int) -> None:
        """Drop a partial match from the list of its key, and the list if it is empty."""
        del self._of_key[key][number]
        if not self._of_key[key]:
            del self._of_key[key]

    def _key(self, partial: PartialState) -> tuple[Any, ...] | None:
        """Return the values that an event must have; None if one is missing, which equals nothing."""
        key = []
        for equality in self._equalities:
            taken = partial.slots[equality.slot]
            if taken is None or taken[-1][equality.other_place] is None:
                return None
            key.append(taken[-1][equality.other_place])
        return tuple(key)


@dataclass(frozen=True)
class PatternPlan:
    """A pattern whose states have slots: slot ``i`` reads stream ``streams[i]`` under ``tests[i]``."""

    # ``keys[i]`` has what the test needs to be equal, for states that take one event, and the rest of it.

    pattern: sp.StatePattern
    is_sequence: bool
    within: int | None  # in ticks
    streams: tuple[str, ...]
    tests: tuple[Value | None, ...]
    keys: tuple[tuple[tuple[Equality, ...], Value | None], ...]
    widths: tuple[int, ...]  # attributes of each stream
    ticks_per_ms: int


def slots_in_order(pattern: sp.StatePattern) -> list[sp.EventState | sp.AbsentState]:
    """Return the single states in the order of their slots: the right half of a logical state comes first."""
    match pattern:
        case sp.EventState() | sp.AbsentState():
            return [pattern]
        case sp.LogicalState():
            left, right = halves(pattern)
            return [right, left]
    return [slot for part in pattern.children() for slot in slots_in_order(part)]


def halves(state: sp.LogicalState) -> tuple[sp.EventState | sp.AbsentState, sp.EventState | sp.AbsentState]:
    """Return the halves; the absent event of ``and`` comes first."""
    left_is_absent = isinstance(state.left, sp.AbsentState)
    if state.operator == "and" and isinstance(state.right, sp.AbsentState) and not left_is_absent:
        return state.right, state.left
    return state.left, state.right


def fault_of_start(pattern: sp.StatePattern) -> tuple[sp.StatePattern, str] | None:
    """Return why Siddhi cannot begin a pattern whose first states may be empty, and the state; else None."""
    parts = pattern.parts if isinstance(pattern, sp.StateChain) else (pattern,)
    starts = [_first_state(part) for part in parts]
    leading = [isinstance(start, sp.CountedState) and start.low == 0 for start in starts]
    if all(leading):
        return pattern, "each state may be empty, so Siddhi matches nothing at all; one state needs an event"
    after = starts[leading.index(False)]
    waits = [node for node in after.walk() if isinstance(node, sp.AbsentState) and node.wait_ms is not None]
    if not (leading[0] and waits):
        return None
    return waits[0], (
        "the states before this wait may be empty, and Siddhi then begins the wait at no time; write a state "
        "with an event before it"
    )


def _first_state(part: sp.StatePattern) -> sp.StatePattern:
    """Return the first state of a pattern, below its chains and `every`."""
    while isinstance(part, sp.EveryState | sp.StateChain):
        part = part.body if isinstance(part, sp.EveryState) else part.parts[0]
    return part


def endless_states(given: PatternInput) -> Iterator[str]:
    """Yield warnings about the states of a sequence that Siddhi never completes."""
    if not given.is_sequence:
        return
    parts = given.pattern.parts if isinstance(given.pattern, sp.StateChain) else (given.pattern,)
    if isinstance(parts[-1], sp.CountedState):
        shown = print_states(parts[-1])
        yield f"Siddhi completes no sequence that ends in a count, as {shown} is; write another state last"
    for node in given.pattern.walk():
        if isinstance(node, sp.EveryState) and isinstance(node.body, sp.StateChain):
            late = [part for part in node.body.parts[1:] if not isinstance(part, sp.AbsentState)]
            if late:
                shown = print_states(node, is_sequence=True)
                yield f"Siddhi never passes the first state of '{shown}'; write 'every' before one state"


Report = Callable[[PartialState], None]


class PatternRun:
    """The states of one pattern and their partial matches."""

    def __init__(self, plan: PatternPlan, clock: RunClock, report: Report):
        self._plan, self._clock, self._report = plan, clock, report
        self._states: list[WaitingState] = []
        first, last, self._units = self._build(plan.pattern, is_start=True)
        for state in (last, getattr(last, "partner", last)):
            state.is_last = True
        first.completed = last
        starts = tuple(state.slot for state in self._states if state.is_start)
        for state in self._states:
            state.within, state.start_slots = plan.within, starts
        self._of_stream: Mapping[str, list[WaitingState]] = {
            name: [self._states[i] for i, stream in enumerate(plan.streams) if stream == name]
            for name in plan.streams
        }
        for state in filter(lambda state: state.is_start, self._states):
            state.begin()
        for state in self._states:
            state.start()

    # --- states from the tree

    def _build(
        self, tree: sp.StatePattern, *, is_start: bool
    ) -> tuple[WaitingState, WaitingState, list[WaitingState]]:
        """Return the first and the last state of a tree, and the states that a sequence resets."""
        slot, n_slots = len(self._states), len(self._plan.streams)
        common = {"is_start": is_start, "is_sequence": self._plan.is_sequence}
        waiting: WaitingState
        match tree:
            case sp.EventState() if self._plan.keys[slot][0] and not self._plan.is_sequence:
                waiting = KeyedState(slot, n_slots, self._plan.keys[slot][0], **common)
            case sp.EventState():
                waiting = WaitingState(slot, n_slots, **common)
            case sp.CountedState(low=low, high=high):
                waiting = CountState(slot, n_slots, low, high, **common)
            case sp.AbsentState(wait_ms=wait):
                waiting = AbsentWait(
                    slot, n_slots, self._ticks(wait) or 0, self._clock, self._report, **common
                )
            case sp.LogicalState(operator=operator):
                left, right = halves(tree)
                # The timer of the left half is the older one; its slot is the later one.
                first = self._half(left, slot + 1, operator, common)
                second = self._half(right, slot, operator, common)
                self._add(second)
                self._add(first)
                first.partner, second.partner = second, first
                return first, second, [second]
            case sp.EveryState(body=body):
                start, end, _ = self._build(body, is_start=is_start)
                for state in (end, getattr(end, "partner", end)):
                    state.every = start
                for state in self._states[slot:]:
                    state.restart = start
                return start, end, [start]
            case sp.StateChain(parts=parts):
                return self._chain(parts, is_start=is_start)
            case _:
                raise TypeError(f"no state for {type(tree).__name__}")
        self._add(waiting)
        return waiting, waiting, [waiting]

    def _chain(
        self, parts: Sequence[sp.StatePattern], *, is_start: bool
    ) -> tuple[WaitingState, WaitingState, list[WaitingState]]:
        """Build the states of parts that follow each other; return the first, the last, and all."""
        first, end, units = self._build(parts[0], is_start=is_start)
        for part in parts[1:]:
            start, after, more = self._build(part, is_start=False)
            for state in (end, getattr(end, "partner", end)):
                state.next = start
            if isinstance(end, CountState) and end.is_start and end.is_sequence and end.low == 0:
                start.resets = end
            end = after
            units = units + more
        return first, end, units

    def _half(
        self, tree: sp.EventState | sp.AbsentState, slot: int, operator: str, common: dict[str, bool]
    ) -> LogicalHalf:
        """Build one half of a logical state."""
        n_slots = len(self._plan.streams)
        if isinstance(tree, sp.AbsentState):
            nothing: Event = (-1, *[None] * self._plan.widths[slot])
            wait = self._ticks(tree.wait_ms)
            return AbsentHalf(slot, n_slots, operator, wait, self._clock, self._report, nothing, **common)
        return LogicalHalf(slot, n_slots, operator, **common)

    def _add(self, state: WaitingState) -> None:
        is_keyed, plan = isinstance(state, KeyedState), self._plan
        state.test = plan.keys[state.slot][1] if is_keyed else plan.tests[state.slot]
        self._states.append(state)

    def _ticks(self, milliseconds: int | None) -> int | None:
        return None if milliseconds is None else milliseconds * self._plan.ticks_per_ms

    # --- events

    def take(self, stream: str, event: Event) -> Iterator[PartialState]:
        """Offer an event to the states of its stream, the last state first, and yield complete matches."""
        # Read the values of a match before the next one: earlier states may still add events to it.
        time = event[0]
        if self._plan.within is not None:
            for state in self._states:
                state.expire(time)
        states = self._of_stream[stream]
        if self._plan.is_sequence:
            for state in reversed(self._units):
                state.reset()
            for state in self._units:
                state.update()
        else:
            for state in states:
                state.update()
        # siddhi-core drops a match that an optional last state completed without an event of its stream, if
        # the stream has several states and the last of them is not the last of the pattern.
        is_reported = len(states) < 2 or states[-1].is_last
        for state in reversed(states):
            complete = state.take(event)
            if is_reported:
                yield from complete
        n_waiting = sum(state.n_waiting for state in self._states)
        refuse_beyond(
            PARTIAL_MATCHES, n_waiting, "partial matches that wait at the same time",
            "Write 'within' after the pattern, or use 'every' once",
        )  # fmt: skip


# Runs of single queries: a stream, a join or a pattern, then the selection of rows.

Deliver = Callable[[list[Row]], None]


@dataclass(frozen=True)
class SidePlan:
    """A stream with its filters before and after its window."""

    stream: str
    before: tuple[Value, ...]
    window: WindowPlan | None
    after: tuple[Value, ...]

    def passes(self, event: Event) -> bool:
        """Return whether an event passes the filters before the window."""
        return not self.before or all(call([[event]]) for call in self.before)

    def filtered(self, chunk: list[Passed]) -> list[Passed]:
        """Return what passes the filters after the window."""
        if not self.after:
            return chunk
        return [
            passed
            for passed in chunk
            if passed[0] == RESET or all(call([[passed[1]]]) for call in self.after)
        ]


@dataclass(frozen=True)
class StreamPlan:
    side: SidePlan
    selection: RowSelection

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads."""
        return (self.side.stream,)


class StreamRun:
    """A run of a query of one stream."""

    def __init__(self, plan: StreamPlan, clock: RunClock, deliver: Deliver):
        self._side, self._deliver = plan.side, deliver
        self._selector = RowSelector(plan.selection)
        self._window = make_window(plan.side.window, clock, self._emit)

    def receive(self, stream: str, event: Event) -> None:
        if self._side.passes(event):
            self._window.push(event)

    def _emit(self, chunk: list[Passed]) -> None:
        handed = [(kind, [[event]], time) for kind, event, time in self._side.filtered(chunk)]
        self._deliver(self._selector.select(handed))  # type: ignore[arg-type]


@dataclass(frozen=True)
class JoinedPlan:
    """A query that joins two streams. ``triggers`` and ``keeps`` say for each side what gives rows."""

    sides: tuple[SidePlan, SidePlan]
    triggers: tuple[bool, bool]
    keeps: tuple[bool, bool]  # whether an event without a partner gives a row
    on: Value | None
    selection: RowSelection

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads."""
        return tuple(dict.fromkeys(side.stream for side in self.sides))


class JoinRun:
    """A run of a join."""

    def __init__(self, plan: JoinedPlan, clock: RunClock, deliver: Deliver):
        self._plan, self._deliver = plan, deliver
        self._selector = RowSelector(plan.selection)
        self._windows = [
            make_window(side.window, clock, lambda chunk, which=which: self._emit(which, chunk))
            for which, side in enumerate(plan.sides)
        ]

    def receive(self, stream: str, event: Event) -> None:
        """Take an event in; in a join of a stream with itself the left side comes first."""
        for side, window in zip(self._plan.sides, self._windows, strict=True):
            if side.stream == stream and side.passes(event):
                window.push(event)

    def _emit(self, which: int, chunk: list[Passed]) -> None:
        """Join events that enter or leave a side with those that wait on the other; deliver the rows."""
        plan, rows = self._plan, list[Row]()
        if not plan.triggers[which]:
            return
        for kind, event, time in plan.sides[which].filtered(chunk):
            if kind == RESET:
                self._selector.select([(RESET, [None, None], time)])
                continue
            joined = [(kind, slots, time) for slots in self._partners(which, event)]
            if not joined and plan.keeps[which]:
                joined = [(kind, self._pair(which, event, None), time)]
            rows += self._selector.select(joined)
        self._deliver(rows)

    def _partners(self, which: int, event: Event) -> Sequence[Slots]:
        """Return the pairs of an event with those in the other window that fulfil the condition."""
        pairs = [self._pair(which, event, other) for other in self._windows[1 - which].content()]
        on = self._plan.on
        return pairs if on is None else [slots for slots in pairs if on(slots)]

    def _pair(self, which: int, event: Event, other: Event | None) -> Slots:
        mine, theirs = [event], None if other is None else [other]
        return [mine, theirs] if which == 0 else [theirs, mine]


@dataclass(frozen=True)
class PatternQueryPlan:
    """A query of a pattern or a sequence."""

    pattern: PatternPlan
    selection: RowSelection

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.pattern.streams))


class PatternQueryRun:
    """A run of a pattern with its selection."""

    def __init__(self, plan: PatternQueryPlan, clock: RunClock, deliver: Deliver):
        self._deliver = deliver
        self._selector = RowSelector(plan.selection)
        self._run = PatternRun(plan.pattern, clock, self._report)

    def receive(self, stream: str, event: Event) -> None:
        rows = [row for partial in self._run.take(stream, event) for row in self._rows(partial)]
        self._deliver(rows)

    def _report(self, partial: PartialState) -> None:
        self._deliver(self._rows(partial))

    def _rows(self, partial: PartialState) -> list[Row]:
        return self._selector.select([(CURRENT, partial.slots, partial.time)])


QueryPlan = StreamPlan | JoinedPlan | PatternQueryPlan
QueryRun = StreamRun | JoinRun | PatternQueryRun
RUNS = {StreamPlan: StreamRun, JoinedPlan: JoinRun, PatternQueryPlan: PatternQueryRun}
