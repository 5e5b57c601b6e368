"""The run of an app: events go through its queries in the order of the text, and rows to the next queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cepkit.limits import check_memory
from cepkit.progress import checkpoint
from cepkit.siddhiql.planning import AppPlan, PlannedPartition, PlannedQuery
from cepkit.siddhiql.runs.queries import QueryRun
from cepkit.siddhiql.runs.states import Event, Slots
from cepkit.siddhiql.runs.timers import RunClock
from cepkit.siddhiql.selecting import Row

_EVENTS_PER_CHECKPOINT = 4096
_PER_ROW, _PER_VALUE = 192, 40  # about how many bytes a row of a result takes, and each of its values
Send = Callable[[str, list[Row]], None]


def run_app(
    plan: AppPlan, events: Iterable[tuple[str, Event]], n_events: int, start: int, end: int | None
) -> dict[str, list[Row]]:
    """Run an app over events in order, and return the rows of each stream that it writes."""
    return _AppRun(plan, start).run(events, n_events, end)


class _AppRun:
    def __init__(self, plan: AppPlan, start: int):
        self._clock = RunClock(start)
        self._rows: dict[str, list[Row]] = {name: [] for name in plan.outputs}
        self._n_bytes = 0  # of all rows
        self._readers: dict[str, list[QueryRun | _PartitionRun]] = {}
        for element in plan.elements:
            if isinstance(element, PlannedPartition):
                run: QueryRun | _PartitionRun = _PartitionRun(element, self._clock, self._send)
                streams = run.streams
            else:
                run = _start(element, self._clock, self._send)
                streams = element.plan.streams
            for stream in streams:
                self._readers.setdefault(stream, []).append(run)

    def run(
        self, events: Iterable[tuple[str, Event]], n_events: int, end: int | None
    ) -> dict[str, list[Row]]:
        """Take all events in, and return the rows."""
        clock, readers = self._clock, self._readers
        for i, (stream, event) in enumerate(events):
            if i % _EVENTS_PER_CHECKPOINT == 0:
                checkpoint(i / max(1, n_events))
            clock.advance(event[0])
            for reader in readers.get(stream, ()):
                reader.receive(stream, event)
        if end is not None:
            clock.advance(end)
        return self._rows

    def _send(self, target: str, rows: list[Row]) -> None:
        self._rows[target] += rows
        self._n_bytes += len(rows) * (_PER_ROW + _PER_VALUE * len(rows[0][2]))
        check_memory(self._n_bytes, "the rows of the results", is_held=True)
        for reader in self._readers.get(target, ()):
            for _, time, values in rows:
                reader.receive(target, (time, *values))


def _start(query: PlannedQuery, clock: RunClock, send: Send) -> QueryRun:
    target = query.target

    def deliver(rows: list[Row]) -> None:
        if rows:
            send(target, rows)

    return query.plan.start(clock, deliver)


class _PartitionRun:
    """A partition: each key has runs of the queries, which begin with its first event."""

    def __init__(self, plan: PlannedPartition, clock: RunClock, send: Send):
        self._plan, self._clock, self._send = plan, clock, send
        self._of_key: dict[str, _KeyRun] = {}
        read = [stream for query in plan.queries for stream in query.plan.streams]
        self.streams = tuple(dict.fromkeys(stream for stream in read if not stream.startswith("#")))

    def receive(self, stream: str, event: Event) -> None:
        """Hand an event to the run of its key; an event without a key goes to all runs."""
        key = self._plan.keys.get(stream)
        if key is None:
            for run in list(self._of_key.values()):
                run.receive(stream, event)
            return
        slots: Slots = [[event]]
        if key.value is not None:
            value = key.value(slots)
            names = [] if value is None else [str(value)]
        else:
            names = [name for condition, name in key.ranges if condition(slots)]
        for name in names:
            run = self._of_key.get(name)
            if run is None:
                run = self._of_key[name] = _KeyRun(self._plan, self._clock, self._send)
            run.receive(stream, event)


class _KeyRun:
    """The queries of a partition for one key, with their inner streams."""

    def __init__(self, plan: PlannedPartition, clock: RunClock, send: Send):
        self._outer = send
        self._readers: dict[str, list[QueryRun]] = {}
        for query in plan.queries:
            run = _start(query, clock, self._send)
            for stream in query.plan.streams:
                self._readers.setdefault(stream, []).append(run)

    def receive(self, stream: str, event: Event) -> None:
        """Take an event in."""
        for reader in self._readers.get(stream, ()):
            reader.receive(stream, event)

    def _send(self, target: str, rows: list[Row]) -> None:
        if not target.startswith("#"):
            self._outer(target, rows)
            return
        for _, time, values in rows:
            self.receive(target, (time, *values))
