"""The first matches of a sequence, found in the first events only, to be shown before all are counted.

Later events do not change whether earlier events are a match. So the matches of the first events are the
first of all matches. Queries with an absence after the last component are the exception.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.after_match import report_matches
from cepkit.engines.counting.engine import CountedMatches, match_by_counting
from cepkit.engines.next.engine import match_next
from cepkit.engines.ordered import OrderedEvents, ordered_sequence
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.engines.shared.sequence_set import EMPTY, KnownMatches, MatchBlock, SequenceSet, joined
from cepkit.events import Events
from cepkit.insight.partial_matches import SequencePartials, block_of, looks_between
from cepkit.planning.evaluation_order import branch_order

# A look is one search in the first events.
_FEWEST = 64  # events of the first look
_GROWTH = 4  # factor of events for the next look if there were too few matches
_MOST_FAILED = 4  # looks that exceed the limits of matches or work
_MOST_MATCHES = 1 << 14  # of a look
_MOST_EVENTS, _MOST_EVENTS_PLAIN = 1 << 18, 1 << 14  # of a look; plain: without a compiler
_PLAIN_WORK = 20_000  # events tested without a compiler
_FEW_EVENTS = 60  # most events in a window, and most matches with one last event, without a compiler
_MOST_LIVE = 300  # partial matches in such a window
_SHORT = 16  # streams of up to this many times the events of the looks are searched at once

Look = Callable[[Events], SequenceSet]


@dataclass(frozen=True)
class FirstMatches:
    """The first matches of a stream, and how many events were searched."""

    block: MatchBlock  # in canonical order, by positions in the whole stream
    is_all: bool  # whether these are all matches
    n_seen: int  # number of events searched


class FirstMatchFinder:
    """Finds first matches of a program in some events."""

    def __init__(
        self,
        program: SequenceProgram,
        events: Events,
        engine: str,
        is_cold: bool,
        orders: list[tuple[int, ...]] | None = None,
    ):
        self.program, self.events, self.is_cold, self.orders = program, events, is_cold, None
        limits = {"most_known": _MOST_MATCHES, "most_calls": 1}
        self._look: Look | None = None
        if _has_absence_at_edge(program, first=False):
            return
        if is_cold:
            plain = {"work_of_a_call": _PLAIN_WORK, "load_as": _plain}
            self._look = partial(search_sequence, program, **limits, **plain)
        elif engine == "search":
            self._look = partial(search_sequence, program, **limits)
        elif engine == "next":
            self._look = partial(match_next, program)
        elif engine == "chain":
            self._look = partial(match_by_counting, program)
        elif engine == "ordered":
            if orders is None:
                ordered_events = OrderedEvents(program, events)
                orders = [branch_order(ordered_events, bound).order for bound in program.branches]
            self.orders = orders
            self._look = lambda part: ordered_sequence(OrderedEvents(program, part), orders, **limits)

    @property
    def is_short(self) -> bool:
        """Whether a search for all matches certainly takes little more time than a look."""
        window = self.program.window
        return not self.is_cold and (window.within is not None or window.within_events is not None)

    @property
    def is_local(self) -> bool:
        """Whether a search in a part of a partition finds the same matches as a search in all events."""
        program = self.program
        is_free = program.query.after_match[0] == "none"
        return is_free and not (looks_between(program) or _has_absence_at_edge(program, last=False))

    def first(self, n: int, enough: int) -> FirstMatches | None:
        """Return the first ``n`` matches, or fewer; None if ``enough`` are not cheap to find."""
        matches = self._opening(None, n, enough)
        if matches is None or not (matches.is_all or len(matches.block) >= enough):
            return None
        return None if self.is_short and self.events.n_events <= _SHORT * matches.n_seen else matches

    def first_of(self, positions: np.ndarray, since: int, n: int) -> FirstMatches | None:
        """Return the first matches of one partition that end at ``positions[since]`` or later.

        ``positions`` are the rising positions of the whole partition. None if a part of it is not enough.

        """
        if not self.is_local or not len(positions):
            return None
        low = 0
        if since:
            places = Places(self.program, self.events.at(positions))
            low = int(places.window_start_of(np.array([since]))[0])
        return self._opening(positions[low:], n, 1, int(positions[min(since, len(positions) - 1)]))

    def _opening(
        self, positions: np.ndarray | None, n: int, enough: int, since: int = 0
    ) -> FirstMatches | None:
        """Search more events until ``n`` matches end at ``since`` or later (``enough`` after a failure)."""
        if self._look is None:
            return None
        n_events = self.events.n_events if positions is None else len(positions)
        most = min(n_events, _MOST_EVENTS_PLAIN if self.is_cold else _MOST_EVENTS)
        n_searched, beyond, n_failed, matches = 0, None, 0, EMPTY
        size = min(_FEWEST, most)
        while size > n_searched:
            selected = slice(0, size) if positions is None else positions[:size]
            block = self._matches(self.events.at(selected))
            if block is None:
                beyond, n_failed = size, n_failed + 1
            else:
                n_searched, matches = size, block
                if positions is not None:
                    matches = block.with_events(positions[block.event_of_item])
                    matches = matches.take(np.flatnonzero(matches.last >= since))
            if len(matches) >= (enough if n_failed else n) or n_failed == _MOST_FAILED:
                break
            size = min(_GROWTH * n_searched, most) if beyond is None else (n_searched + beyond) // 2
        return FirstMatches(
            matches.take(slice(0, n)), n_searched == n_events and len(matches) <= n, n_searched
        )

    def _matches(self, part: Events) -> MatchBlock | None:
        """Return all matches in a few events, or None if there are too many."""
        matches = self._look(part)
        is_counted = isinstance(matches, KnownMatches | CountedMatches)
        if not is_counted or matches.count() > _MOST_MATCHES:
            return None
        return report_matches(self.program, matches).ending(0, part.n_events)


def _plain(program: SequenceProgram, text: str, name: str) -> Any:
    """Return a function of a generated module that runs as Python."""
    return plain_module(program, text)[name]


# --- first matches from known ends


def matches_of_first_ends(
    program: SequenceProgram, events: Events, ends: np.ndarray, counts: Any, n: int
) -> MatchBlock | None:
    """Return the first ``n`` matches, or all if there are fewer, without compiling anything.

    The query has no after-match policy. ``counts`` are the numbers of matches that end at the rising
    positions ``ends``. Only the few events before the end of each match are searched. None if there are too
    many events or matches, or if matches depend on other events.

    """
    if looks_between(program) or _has_absence_at_edge(program):
        return None
    places, blocks = Places(program, events), []
    for end in range(len(ends)):
        if sum(map(len, blocks)) >= n:
            break
        place = places.places_of(ends[end : end + 1])
        start, stop = int(places.window_start_of(place)[0]), int(place[0]) + 1
        if stop - start > _FEW_EVENTS or int(counts[end]) > _FEW_EVENTS:
            return None
        positions = events.by_partition[start:stop]
        columns = {name: column.take(positions) for name, column in events.columns.items()}
        part = Events(len(positions), columns, np.zeros(len(positions), np.int32), 1)
        block = _matches_at_end(program, part)
        if block is None or len(block) != int(counts[end]):
            return None
        blocks.append(block.with_events(positions[block.event_of_item]))
    return joined(blocks).take(slice(0, n))


def _has_absence_at_edge(program: SequenceProgram, *, first: bool = True, last: bool = True) -> bool:
    """Return whether an event must be absent before the first or after the last component of a branch."""
    branches = [bound.branch for bound in program.branches]
    return any(
        (first and absence.after < 0) or (last and absence.before >= len(branch.components))
        for branch in branches
        for absence in branch.absences
    )


def _matches_at_end(program: SequenceProgram, events: Events) -> MatchBlock | None:
    """Return the matches that end with the last event of a partition; None for too many partial matches."""
    partials, completed = SequencePartials(program, events, _MOST_LIVE), []
    for j in range(events.n_events):
        completed = partials.read(j).completed
    return None if partials.n_left_out else block_of(completed, partials.places.position_of_place)
