"""The moments of a stream: all of them one after the other, and the live partial matches after any event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.engines.match_recognize.bound import SearchedRows
from cepkit.errors import ResultTooLargeError, UnsupportedQueryError
from cepkit.events import Events, Source
from cepkit.insight.trace import (
    DrawnStates,
    MatchTrace,
    RegexTrace,
    RowTrace,
    SequenceTrace,
    looks_between,
    rows_looked_back,
)
from cepkit.insight.why_not import row_text
from cepkit.progress import checkpoint
from cepkit.values import dataclass, field

MOST_LISTED = 20  # partial matches of a kind that a moment lists; it only counts the others
MOST_LIVE = 10_000  # live partial matches of a sequence
_SHOWN = 3  # partial matches and matches that a moment prints
_SHOWN_EVENTS = 6  # events that it prints of each


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """The beginning of a match, or a whole match, after some events.

    Parameters
    ----------
    state : str
        The variable of its newest event. A regex may have several candidates: ``"up or top"``.
    first, last : label
        Index labels of its first and its newest event.
    n_events : int
        Number of its events. A regex has all events of the partition from the first to the newest.
    positions : tuple of int
        Positions of its events in the stream, from 0; for a regex, of the first and the newest event.
    events : tuple of (str, label)
        Only for sequences: the variable and the index label of every event.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
    >>> define = {"up": "price > 12", "down": "price <= 12"}
    >>> moments = list(cep.step(walk, "up+ down", define=define))
    >>> print(moments[2].began[0])
    row 2, at up
    >>> moments[3].completed[0].positions
    (2, 3)
    """

    state: str
    first: Any
    last: Any
    n_events: int
    positions: tuple[int, ...]
    events: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        if self.events:
            more = f", … {self.n_events:,} events" if self.n_events > _SHOWN_EVENTS else ""
            return (
                ", ".join(f"{name} = {row_text(label)}" for name, label in self.events[:_SHOWN_EVENTS]) + more
            )
        return f"{self.span}, at {self.state}"

    @property
    def span(self) -> str:
        """Its first and its newest event in words: ``rows 3 to 7``.

        Examples
        --------
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
        >>> moments = list(walk.cep.step("up+ down", define={"up": "price > 12", "down": "price <= 12"}))
        >>> moments[3].completed[0].span
        'rows 2 to 3'
        """
        first, last = row_text(self.first), row_text(self.last)
        return first if self.n_events == 1 else f"rows {first[4:]} to {last[4:]}"


@dataclass(frozen=True)
class Moment:
    """How one event changes the partial matches of a query; prints as text.

    Parameters
    ----------
    position : int
        Position of the event in the stream, from 0.
    label : label
        Index label of its row; the row number for a table.
    began, advanced, ended : tuple of PartialMatch
        The partial matches that begin with the event, that take it, and that end because they can neither
        take it nor continue without it. At most ``MOST_LISTED`` of each are listed.
    live : tuple of PartialMatch
        The partial matches of the event's partition that a later event may advance. At most ``MOST_LISTED``
        are listed, the oldest first.
    completed : tuple of PartialMatch
        All matches that end with this event.
    n_began, n_advanced, n_ended, n_live : int
        Number of partial matches of each kind, listed or not.
    n_elsewhere : int
        Number of live partial matches in other partitions.
    n_left_out : int
        Number of complete matches that ``after_match`` does not report.
    states : tuple of (str, int)
        Number of live partial matches in each state.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
    >>> define = {"up": "price > 12", "down": "price <= 12"}
    >>> moments = list(cep.step(walk, "up+ down", define=define))
    >>> print(moments[2])
    row 2: 1 partial match begins; 1 is live (1 at up)
    """

    position: int
    label: Any
    began: tuple[PartialMatch, ...] = ()
    advanced: tuple[PartialMatch, ...] = ()
    ended: tuple[PartialMatch, ...] = ()
    live: tuple[PartialMatch, ...] = ()
    completed: tuple[PartialMatch, ...] = ()
    n_began: int = 0
    n_advanced: int = 0
    n_ended: int = 0
    n_live: int = 0
    n_elsewhere: int = 0
    n_left_out: int = 0
    states: tuple[tuple[str, int], ...] = ()
    _values: Callable[[], dict[str, Any]] = field(default=dict, repr=False, compare=False)

    @cached_property
    def event(self) -> dict[str, Any]:
        """The values of the event's row by column, read on demand.

        Examples
        --------
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
        >>> moments = list(walk.cep.step("up+ down", define={"up": "price > 12", "down": "price <= 12"}))
        >>> moments[2].event
        {'price': 13}
        """
        return self._values()

    @property
    def text(self) -> str:
        """The moment in one line.

        Examples
        --------
        >>> import pandas as pd
        >>> walk = pd.DataFrame({"price": [10, 12, 13, 11]})
        >>> moments = list(walk.cep.step("up+ down", define={"up": "price > 12", "down": "price <= 12"}))
        >>> moments[3].text
        'row 3: 1 partial match advances; 0 are live; match: rows 2 to 3'
        """
        counts = (("begin", self.n_began), ("advance", self.n_advanced), ("end", self.n_ended))
        did = [f"{n:,} {verb}{'s' if n == 1 else ''}" for verb, n in counts if n]
        if did:
            n, verb = did[0].split(" ")
            did[0] = f"{n} partial {'match' if n == '1' else 'matches'} {verb}"
        happened = ", ".join(did) or "no partial match changes"
        states = f" ({', '.join(f'{n:,} at {state}' for state, n in self.states)})" if self.states else ""
        live = f"{self.n_live:,} {'is' if self.n_live == 1 else 'are'} live{states}"
        matches = [f"match: {match if match.events else match.span}" for match in self.completed[:_SHOWN]]
        if len(self.completed) > _SHOWN:
            matches.append(f"{len(self.completed) - _SHOWN:,} more matches")
        if self.n_left_out:
            matches.append(f"after_match leaves out {self.n_left_out:,}")
        return "; ".join([f"{row_text(self.label)}: {happened}", live, *matches])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        lines = [self.text]
        for name in ("began", "advanced", "ended", "live"):
            listed, n = getattr(self, name), getattr(self, f"n_{name}")
            lines += [f"  {name}: {partial_match}" for partial_match in listed[:_SHOWN]]
            if n > min(len(listed), _SHOWN):
                lines.append(f"  {name}: {n - min(len(listed), _SHOWN):,} more")
        return "\n".join(lines)


def moments_of(
    program: Program | SequenceProgram, source: Source, events: Events, most_live: int = MOST_LIVE
) -> Iterator[Moment]:
    """Iterate over the moments of all events of a frame, in stream order."""
    if isinstance(program, Program):
        trace: MatchTrace = RegexTrace(program, events)
    else:
        if program.query.ends_greedily:
            raise UnsupportedQueryError("step: GREEDY at the end of the pattern waits for later events")
        trace = SequenceTrace(program, events, most_live, reports=True)
    return (_moment(trace, source, events, k) for k in range(events.n_events))


def _moment(trace: MatchTrace, source: Source, events: Events, k: int) -> Moment:
    """Read event ``k``, the next one, and return its moment."""
    change, live = trace.read(k), trace.live(k)
    if trace.n_left_out:
        raise ResultTooLargeError(
            f"step: at {row_text(_labels(source, events, [k])[k])}, more than most_live={trace.most_live:,} "
            "partial matches are live. Narrow the window, use strategy='next', step through fewer rows, "
            "or give a larger most_live"
        )
    kinds = {"began": change.began, "advanced": change.advanced, "ended": change.ended, "live": live}
    shown = {name: some[:MOST_LISTED] for name, some in kinds.items()}
    shown["completed"] = change.completed
    counts: dict[str, Any] = {f"n_{name}": len(some) for name, some in kinds.items()}
    partials = (partial_match for some in shown.values() for partial_match in some)
    label = _labels(
        source, events, [k, *(at for partial_match in partials for at in trace.events(partial_match))]
    )

    def listed(partial_match: Any) -> PartialMatch:
        positions, names = trace.events(partial_match), trace.names(partial_match)
        labels = [label[position] for position in positions]
        events_of_sequence = tuple(zip(names, labels, strict=True)) if len(names) == len(labels) else ()
        n = trace.n_events(partial_match)
        return PartialMatch(names[-1], labels[0], labels[-1], n, positions, events_of_sequence)

    return Moment(
        k, label[k],
        **{name: tuple(map(listed, some)) for name, some in shown.items()},
        **counts,
        n_elsewhere=trace.n_live - len(live), n_left_out=change.n_unreported,
        states=tuple(sorted(Counter(trace.names(partial_match)[-1] for partial_match in live).items())),
        _values=partial(_values, source, events, k),
    )  # fmt: skip


def _labels(source: Source, events: Events, positions: Iterable[int]) -> dict[int, Any]:
    positions = sorted(set(positions))
    row_labels = source.index_labels(events.rows(np.array(positions, np.int64)))
    labels = (label.item() if isinstance(label, np.generic) else label for label in row_labels)
    return dict(zip(positions, labels, strict=True))


def _values(source: Source, events: Events, position: int) -> dict[str, Any]:
    rows = events.rows(np.array([position]))
    names = (name for name in source.schema if name not in source.duplicates)
    return {name: source.arrow(name, rows).to_pylist()[0] for name in names}


# Random access to the moments of a stream: the live partial matches after any event. The explorer jumps back
# and forth. So a walk reads a bounded neighbourhood and remembers its snapshots.

LOOK_BACK = 120  # events read before the wanted one, unless a point without partial matches is nearer
LOOK_AHEAD = 300  # most events that a walk reads for one jump
MOST_FOLLOWED = 300  # partial matches of a sequence or of a row pattern
EXAMPLES = 3


@dataclass(frozen=True)
class Snapshot:
    """The partial matches and matches after an event."""

    # State, number of its partial matches, and some of them in words; empty states are left out.
    live: tuple[tuple[int, int, tuple[str, ...]], ...] = ()
    # The events of each match that the event completes, numbered as in `Stepping`. Contiguous events have
    # only the first and the last one.
    completed: tuple[tuple[int, ...], ...] = ()
    is_whole: bool = True  # whether no partial match began before the neighbourhood
    note: str = ""  # what is left out


class Walk:
    """Reads events one at a time and keeps the snapshots, which are whole from event ``whole_from`` on."""

    def __init__(
        self, stepping: Stepping, trace: MatchTrace, begin: int, stop: int, low: int, whole_from: int
    ):
        self._stepping, self.trace, self.begin, self.stop, self._low = stepping, trace, begin, stop, low
        self._whole_from = whole_from
        self._snapshots: list[Snapshot] = []
        self._is_broken = False

    @property
    def is_whole(self) -> bool:
        """Whether no partial match began before the walk."""
        return self._whole_from <= self.begin

    def reaches(self, k: int) -> bool:
        """Return whether the walk has the snapshot after event ``k``, or can read on to it."""
        most = min(self.stop, self.begin + len(self._snapshots) + LOOK_AHEAD)
        return not self._is_broken and self.begin <= k < most

    def after(self, k: int) -> Snapshot:
        """Return the moment after event ``k``."""
        while len(self._snapshots) <= k - self.begin:
            checkpoint()
            self._is_broken = True  # cancellation may stop the work in the middle of an event
            self._snapshots.append(self._read(self.begin + len(self._snapshots)))
            self._is_broken = False
        return self._snapshots[k - self.begin]

    def partials(self) -> list[tuple[int, ...]]:
        """Return the events of each live partial match."""
        return [self._events(partial_match) for partial_match in self.trace.live()]

    def _events(self, partial_match: Any) -> tuple[int, ...]:
        return tuple(self._low + at for at in self.trace.events(partial_match))

    def _read(self, k: int) -> Snapshot:
        """Return the moment after the next event, which the walk reads."""
        trace, drawn = self.trace, self._stepping.states
        matches = {self._events(match) for match in trace.read(k - self._low).completed}
        partials_of_state: dict[int, list[Any]] = {}
        for partial_match in () if drawn is None else trace.live():
            for state in trace.states(partial_match, drawn):
                partials_of_state.setdefault(state, []).append(partial_match)
        live = tuple(
            (state, len(partials), tuple(map(self._words, partials[:EXAMPLES])))
            for state, partials in sorted(partials_of_state.items())
        )
        n = trace.n_left_out
        note = f"{n:,} of the {trace.left_out} partial matches are left out" if n else ""
        is_whole = not n and k >= self._whole_from
        return Snapshot(live, tuple(sorted(matches, key=lambda match: match[::-1])), is_whole, note)

    def _words(self, partial_match: Any) -> str:
        """Return a partial match as a text."""
        names, events = self.trace.names(partial_match), self._events(partial_match)
        name_of, n = self._stepping.name_of, self.trace.n_events(partial_match)
        if len(names) < len(events):  # contiguous events
            return f"from {name_of(events[0])}, {n:,} {self._stepping.noun}{'s' * (n != 1)}"
        return ", ".join(f"{name} = {name_of(event)}" for name, event in zip(names, events, strict=True))


class Stepping:
    """Steps through the events of a partition, or of the whole stream."""

    def __init__(
        self, program: Program | SequenceProgram | SearchedRows, events: Events, partition: int | None,
        states: DrawnStates | Sequence[int] | None = None, ends: np.ndarray | None = None,
        name: Callable[[int], str] | None = None,
    ):  # fmt: skip
        self.program, self.events, self.states = program, events, states
        self._name, self.noun = name, "row" if isinstance(program, SearchedRows) else "event"
        self.positions: np.ndarray | None = None
        is_alone = not isinstance(program, SequenceProgram)  # its partitions are independent
        if isinstance(program, SearchedRows):
            self._part = program.partition(partition or 0)
            self.positions = self._part.positions
        elif events.n_partitions > 1 and (is_alone or (partition is not None and not looks_between(program))):
            self.positions = np.flatnonzero(events.partition_of_event == (partition or 0))
        self.n = events.n_events if self.positions is None else len(self.positions)
        self.ends = None if ends is None else self._numbers(np.asarray(ends, np.int64))
        self.walk: Walk | None = None

    def _numbers(self, ends: np.ndarray) -> np.ndarray:
        """Return the numbers of the events at these positions, without those of other partitions."""
        if self.positions is None:
            return ends
        at = np.searchsorted(self.positions, ends)
        at = np.minimum(at, max(0, self.n - 1))
        return np.unique(at[self.positions[at] == ends]) if self.n else at[:0]

    def position_of(self, k: int) -> int:
        """Return the position of event ``k`` in the stream of the frame."""
        return k if self.positions is None else int(self.positions[k])

    def name_of(self, k: int) -> str:
        return f"{self.noun} {k + 1:,}" if self._name is None else self._name(self.position_of(k))

    def index_of(self, position: int) -> int:
        """Return the first event at or after a position in the stream of the frame."""
        return position if self.positions is None else int(np.searchsorted(self.positions, position))

    def after(self, n_read: int) -> Snapshot:
        """Return the moment after the first ``n_read`` events."""
        if n_read < 1:
            return Snapshot()
        k = min(n_read, self.n) - 1
        if self.walk is None or not self.walk.reaches(k):
            self.walk = self.walk_to(k)
        return self.walk.after(k)

    def next_match(self, n_read: int) -> int:
        """Return how many events to read to complete the next match, or the number of all events."""
        if self.ends is None:
            return self.n
        at = int(np.searchsorted(self.ends, n_read))
        return int(self.ends[at]) + 1 if at < len(self.ends) else self.n

    def walk_to(self, k: int) -> Walk:
        """Return a new walk that begins before event ``k``, if possible where no partial match is live."""
        begin, program = max(0, k - LOOK_BACK), self.program
        if isinstance(program, SearchedRows):
            begin = begin if k >= LOOK_AHEAD else 0
            rows = RowTrace(program, self._part, begin, MOST_FOLLOWED)
            return Walk(self, rows, begin, self.n, 0, 0 if begin == 0 else self.n)
        whole_from = 0 if begin == 0 else self.n
        if isinstance(program, SequenceProgram):
            stop = min(self.n, begin + LOOK_AHEAD)
            # An absence at the end of a match may read later events.
            sequence = SequenceTrace(program, self.part(begin, min(self.n, stop + LOOK_BACK)), MOST_FOLLOWED)
            return Walk(self, sequence, begin, stop, begin, min(whole_from, begin + sequence.first_whole()))
        if self.ends is not None:
            n_before = int(np.searchsorted(self.ends, k))  # a match that ends at k began before
            if n_before and self.ends[n_before - 1] + 1 >= begin:
                begin = whole_from = int(self.ends[n_before - 1]) + 1
        low, stop = max(0, begin - rows_looked_back(program.query)), min(self.n, begin + LOOK_AHEAD)
        return Walk(
            self, RegexTrace(program, self.part(low, stop), begin - low), begin, stop, low, whole_from
        )

    def part(self, low: int, high: int) -> Events:
        """Return the events from ``low`` to before ``high`` as a stream of their own."""
        events = self.events
        rows = slice(low, high) if self.positions is None else self.positions[low:high]
        partition = events.partition_of_event[rows]
        codes, new_codes = np.unique(partition, return_inverse=True)
        columns = {name: column.take(rows) for name, column in events.columns.items()}
        return Events(len(partition), columns, new_codes.astype(np.int32), len(codes))
