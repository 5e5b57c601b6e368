"""Runs of single queries: a stream, a join or a pattern, then the selection of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cepkit.siddhiql.calls import Value
from cepkit.siddhiql.runs.patterns import PatternPlan, PatternRun
from cepkit.siddhiql.runs.states import Event, PartialState, RunClock, Slots
from cepkit.siddhiql.runs.windows import Passed, WindowPlan, make_window
from cepkit.siddhiql.selecting import CURRENT, RESET, Row, RowSelection, RowSelector

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
    """A query of one stream."""

    side: SidePlan
    selection: RowSelection

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads."""
        return (self.side.stream,)

    def start(self, clock: RunClock, deliver: Deliver) -> StreamRun:
        """Return a new run of the query."""
        return StreamRun(self, clock, deliver)


class StreamRun:
    """A run of a query of one stream."""

    def __init__(self, plan: StreamPlan, clock: RunClock, deliver: Deliver):
        self._side, self._deliver = plan.side, deliver
        self._selector = RowSelector(plan.selection)
        self._window = make_window(plan.side.window, clock, self._emit)

    def receive(self, stream: str, event: Event) -> None:
        """Take an event in."""
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

    def start(self, clock: RunClock, deliver: Deliver) -> JoinRun:
        """Return a new run of the query."""
        return JoinRun(self, clock, deliver)


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
        """The streams that the query reads."""
        return tuple(dict.fromkeys(self.pattern.streams))

    def start(self, clock: RunClock, deliver: Deliver) -> PatternQueryRun:
        """Return a new run of the query."""
        return PatternQueryRun(self, clock, deliver)


class PatternQueryRun:
    """A run of a pattern with its selection."""

    def __init__(self, plan: PatternQueryPlan, clock: RunClock, deliver: Deliver):
        self._deliver = deliver
        self._selector = RowSelector(plan.selection)
        self._run = PatternRun(plan.pattern, clock, self._report)

    def receive(self, stream: str, event: Event) -> None:
        """Take an event in."""
        rows = [row for partial in self._run.take(stream, event) for row in self._rows(partial)]
        self._deliver(rows)

    def _report(self, partial: PartialState) -> None:
        self._deliver(self._rows(partial))

    def _rows(self, partial: PartialState) -> list[Row]:
        return self._selector.select([(CURRENT, partial.slots, partial.time)])


QueryPlan = StreamPlan | JoinedPlan | PatternQueryPlan
QueryRun = StreamRun | JoinRun | PatternQueryRun
