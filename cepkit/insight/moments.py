"""The moments of a stream, one per event: how the event changes the partial matches of a query.

`cepkit.step` reads all events once and keeps no moment; `cepkit.insight.stepping` jumps to any moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from cepkit.compile.regex.automaton import ANY
from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.after_match import Reporter
from cepkit.errors import ResultTooLargeError
from cepkit.events import Events, Source
from cepkit.insight.partial_matches import Branched, Partial, RegexPartials, SequencePartials, block_of
from cepkit.insight.why_not import row_text

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
    """Iterate over the moments of all events of a frame, in stream order.

    An event costs time O(live partial matches), in plain Python. No moment is kept.
    """
    rows = _RowLabels(source, events)
    if isinstance(program, Program):
        moments = _RegexMoments(program, rows, events)
    else:
        moments = _SequenceMoments(program, rows, events, most_live)
    return (moments.read(k) for k in range(events.n_events))


class _RowLabels:
    """The index labels of events, and the values of their rows."""

    def __init__(self, source: Source, events: Events):
        self.source, self.events = source, events

    def labels(self, positions: Iterable[int]) -> dict[int, Any]:
        """Return the index labels of events by position."""
        positions = sorted(set(positions))
        row_labels = self.source.index_labels(self.events.rows(np.array(positions, np.int64)))
        labels = (label.item() if isinstance(label, np.generic) else label for label in row_labels)
        return dict(zip(positions, labels, strict=True))

    def values(self, position: int) -> dict[str, Any]:
        """Return the values of an event's row by column."""
        source, rows = self.source, self.events.rows(np.array([position]))
        names = (name for name in source.schema if name not in source.duplicates)
        return {name: source.arrow(name, rows).to_pylist()[0] for name in names}


def names_of_mask(names: tuple[str, ...], mask: int) -> str:
    """Return the predicates at some positions of a regex in words: ``up or top``."""
    predicates = dict.fromkeys(
        "any" if name == ANY else name for p, name in enumerate(names) if mask >> p & 1
    )
    return " or ".join(predicates) or "nothing"


def _moment(
    k: int, rows: _RowLabels, kinds: dict[str, list], positions_of: Callable[[Any], Iterable[int]],
    partial_of: Callable[[Any, dict[int, Any]], PartialMatch], **more: Any,
) -> Moment:  # fmt: skip
    """Return the moment of event ``k`` from its partial matches of each kind, in the form of their engine.

    ``positions_of`` returns the events of one of them; ``partial_of`` describes one with labels of events.

    """
    shown = {name: some if name == "completed" else some[:MOST_LISTED] for name, some in kinds.items()}
    label = rows.labels(
        [k, *(at for some in shown.values() for partial_match in some for at in positions_of(partial_match))]
    )
    listed = {
        name: tuple(partial_of(partial_match, label) for partial_match in some)
        for name, some in shown.items()
    }
    counts = {f"n_{name}": len(some) for name, some in kinds.items() if name != "completed"}
    return Moment(k, label[k], **listed, **counts, **more, _values=partial(rows.values, k))


# --- regex


class _RegexMoments:
    """The moments of a regex; the first event identifies a partial match."""

    def __init__(self, program: Program, rows: _RowLabels, events: Events):
        self.rows, self.events, self.rank = rows, events, events.rank_by_partition
        self.partials = RegexPartials(program, events)
        self.names = program.automaton.names
        self.done = names_of_mask(self.names, program.automaton.accepting)
        self._state_of_mask: dict[int, str] = {}

    def read(self, k: int) -> Moment:
        """Return the moment of event ``k``, the next one."""
        events = self.events
        before = self._live(k)
        completed = self.partials.read(k)[0].tolist()
        after = self._live(k)
        began = [k] if k in after or completed == [k] else []
        advanced = [start for start in (*after, *completed) if start in before]
        ended = [start for start in before if start not in after and start not in completed]
        newest = int(events.by_partition[self.rank[k] - 1]) if before else k  # before this event
        kinds = {
            "began": [(start, k, after.get(start, self.done)) for start in began],
            "advanced": [(start, k, after.get(start, self.done)) for start in advanced],
            "ended": [(start, newest, before[start]) for start in ended],
            "live": [(start, k, state) for start, state in after.items()],
            "completed": [(start, k, self.done) for start in completed],
        }
        states = tuple(sorted(Counter(after.values()).items()))
        n_elsewhere = self.partials.n_live - len(after)
        return _moment(
            k,
            self.rows,
            kinds,
            lambda partial_match: partial_match[:2],
            self._partial,
            states=states,
            n_elsewhere=n_elsewhere,
        )

    def _live(self, k: int) -> dict[int, str]:
        """Return the states of the live partial matches in the partition of event ``k``, by their starts."""
        starts, masks = self.partials.live(int(self.events.partition_of_event[k]))
        return {start: self._state(mask) for start, mask in zip(starts.tolist(), masks.tolist(), strict=True)}

    def _state(self, mask: int) -> str:
        if mask not in self._state_of_mask:
            self._state_of_mask[mask] = names_of_mask(self.names, mask)
        return self._state_of_mask[mask]

    def _partial(self, one: tuple[int, int, str], label: dict[int, Any]) -> PartialMatch:
        start, newest, state = one
        n = int(self.rank[newest] - self.rank[start]) + 1
        return PartialMatch(state, label[start], label[newest], n, (start, newest))


# --- sequences


class _SequenceMoments:
    """The moments of a sequence."""

    def __init__(self, program: SequenceProgram, rows: _RowLabels, events: Events, most_live: int):
        self.program, self.rows, self.events, self.most_live = program, rows, events, most_live
        self.partials = SequencePartials(program, events, most_live)
        self.reporter = None if program.query.after_match[0] == "none" else Reporter(program)
        self.variables = [
            [component.variable for component in bound.branch.components] for bound in program.branches
        ]

    def read(self, k: int) -> Moment:
        """Return the moment of event ``k``, the next one."""
        places = self.partials.places
        j = int(places.place_of_position[k])
        change = self.partials.read(j)
        if self.partials.n_left_out:
            raise ResultTooLargeError(
                f"step: at {row_text(self.rows.labels([k])[k])}, more than most_live={self.most_live:,} "
                "partial matches are live. Narrow the window, use strategy='next', step through fewer rows, "
                "or give a larger most_live"
            )
        completed = self._report(change.completed)
        live = self.partials.live(j)
        kinds = {"began": change.began, "advanced": change.advanced, "ended": change.ended, "live": live}
        kinds["completed"] = completed
        states = Counter(self.variables[b][partial_match.components[-1]] for b, partial_match in live)
        return _moment(
            k, self.rows, kinds, self._positions, self._partial,
            n_elsewhere=self.partials.n_live - len(live), n_left_out=len(change.completed) - len(completed),
            states=tuple(sorted(states.items())),
        )  # fmt: skip

    def _report(self, completed: list[Branched]) -> list[Branched]:
        """Return the matches that ``after_match`` reports, in canonical order."""
        if not completed:
            return []
        places = self.partials.places
        block = block_of(completed, places.position_of_place)
        if self.reporter is not None:
            block = self.reporter.reported(block, self.events.partition_of_event[block.last])
        reported = []
        for m, branch in enumerate(block.branch_of_match.tolist()):
            items = slice(block.first_item_of_match[m], block.first_item_of_match[m + 1])
            path = places.place_of_position[block.event_of_item[items]].tolist()
            reported.append((branch, Partial(tuple(path), tuple(block.component_of_item[items].tolist()))))
        return reported

    def _positions(self, one: Branched) -> tuple[int, ...]:
        return tuple(self.partials.places.position_of_place[list(one[1].path)].tolist())

    def _partial(self, one: Branched, label: dict[int, Any]) -> PartialMatch:
        names, positions = self.variables[one[0]], self._positions(one)
        events = tuple(
            (names[c], label[position]) for c, position in zip(one[1].components, positions, strict=True)
        )
        return PartialMatch(events[-1][0], events[0][1], events[-1][1], len(positions), positions, events)
