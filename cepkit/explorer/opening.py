"""The first matches of a sequence, found in its first events alone: shown before all are counted.

Whether events are a match depends on no event behind the last of them, so the matches of the first events are
the first of all matches. Absences behind the last component are the exception: they have no opening.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.after_match import report_matches
from cepkit.engines.counting.engine import CountedMatches, match_by_counting
from cepkit.engines.ordered.ordered import OrderedEvents, ordered_sequence
from cepkit.engines.search.search import search_sequence
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.engines.shared.sequence_set import EMPTY, KnownMatches, MatchBlock, SequenceSet
from cepkit.events import Events
from cepkit.planning.evaluation_order import branch_order

_FEWEST = 64  # events of the first look
_GROWTH = 4  # of the next one, where there were not enough matches
_MOST_FAILED = 4  # looks with more matches, or more work, than they may have
_MOST_MATCHES = 1 << 14  # of a look
_MOST_EVENTS, _MOST_EVENTS_PLAIN = 1 << 18, 1 << 14  # of a look
_PLAIN_WORK = 20_000  # events looked at without a compiler
_SHORT = 16  # times the events of the looks: all of them are searched at once

Look = Callable[[Events], SequenceSet]


@dataclass(frozen=True)
class Opening:
    """The first matches of a stream, and how far it was looked at.

    Parameters
    ----------
    block : MatchBlock
        In canonical order, by places in the whole stream.
    is_all : bool
        Whether there are no others.
    n_seen : int
        Events that were looked at.
    """

    block: MatchBlock
    is_all: bool
    n_seen: int


class Opener:
    """Finds first matches of a program in some events.

    Parameters
    ----------
    program : SequenceProgram
    events : Events
        The whole stream.
    engine : str
        Whose kernels are compiled: ``search``, ``ordered`` or ``chain``; another one: none.
    is_cold : bool
        Whether kernels of this shape are not compiled yet: then they run as Python.
    orders : list of tuple of int, optional
        Of ``ordered``: those for which a kernel of this shape was compiled; else they are chosen.
    """

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
        if any(
            absence.before >= len(bound.branch.components)
            for bound in program.branches
            for absence in bound.branch.absences
        ):
            return
        if is_cold:
            plain = {"work_of_a_call": _PLAIN_WORK, "load_as": _plain}
            self._look = partial(search_sequence, program, **limits, **plain)
        elif engine == "search":
            self._look = partial(search_sequence, program, **limits)
        elif engine == "chain":
            self._look = partial(match_by_counting, program)
        elif engine == "ordered":
            if orders is None:
                own = OrderedEvents(program, events)
                orders = [branch_order(own, bound).order for bound in program.branches]
            self.orders = orders
            self._look = lambda part: ordered_sequence(OrderedEvents(program, part), orders, **limits)

    @property
    def is_short(self) -> bool:
        """Whether what is behind the events of a look is sure to take little more."""
        window = self.program.window
        return not self.is_cold and (window.within is not None or window.within_events is not None)

    @property
    def is_local(self) -> bool:
        """Whether the matches in a part of a partition are those of the partition there."""
        branches = [bound.branch for bound in self.program.branches]
        looks_around = any(
            "strict" in (component.step, component.inner)
            for branch in branches
            for component in branch.components
        )
        absent_in_front = any(absence.after < 0 for branch in branches for absence in branch.absences)
        return not looks_around and not absent_in_front and self.program.query.after_match[0] == "none"

    def first(self, n: int, enough: int) -> Opening | None:
        """Return the first ``n`` matches, or fewer; None where ``enough`` are not cheap to find."""
        found = self._opening(None, n, enough)
        if found is None or not (found.is_all or len(found.block) >= enough):
            return None
        return None if self.is_short and self.events.n_events <= _SHORT * found.n_seen else found

    def first_of(self, positions: np.ndarray, since: int, n: int) -> Opening | None:
        """Return the first matches that end at or behind ``positions[since]`` in a part of one partition.

        ``positions`` are all places of the partition, rising. None where they cannot be found alone.
        """
        if not self.is_local or not len(positions):
            return None
        low = 0
        if since:
            places = Places(self.program, _part(self.events, positions))
            low = int(places.window_start_of(np.array([since]))[0])
        return self._opening(positions[low:], n, 1, int(positions[min(since, len(positions) - 1)]))

    def _opening(self, positions: np.ndarray | None, n: int, enough: int, since: int = 0) -> Opening | None:
        """Look at more and more events until there are ``n`` matches that end at ``since`` or later.

        Where the next look fails, ``enough`` will do.
        """
        if self._look is None:
            return None
        n_events = self.events.n_events if positions is None else len(positions)
        most = min(n_events, _MOST_EVENTS_PLAIN if self.is_cold else _MOST_EVENTS)
        known, beyond, n_failed, found = 0, None, 0, EMPTY
        size = min(_FEWEST, most)
        while size > known:
            own = slice(0, size) if positions is None else positions[:size]
            block = self._matches(_part(self.events, own))
            if block is None:
                beyond, n_failed = size, n_failed + 1
            else:
                known, found = size, block
                if positions is not None:
                    found = replace(block, event_of_item=positions[block.event_of_item])
                    found = found.take(np.flatnonzero(found.last >= since))
            if len(found) >= (enough if n_failed else n) or n_failed == _MOST_FAILED:
                break
            size = min(_GROWTH * known, most) if beyond is None else (known + beyond) // 2
        return Opening(found.take(slice(0, n)), known == n_events and len(found) <= n, known)

    def _matches(self, part: Events) -> MatchBlock | None:
        """Return all matches in a few events, None where there are too many."""
        found = self._look(part)
        is_counted = isinstance(found, KnownMatches | CountedMatches)
        if not is_counted or found.count() > _MOST_MATCHES:
            return None
        return report_matches(self.program, found).ending(0, part.n_events)


def _part(events: Events, own: slice | np.ndarray) -> Events:
    """Return some events as a stream of their own, with the codes of their partitions."""
    partition = events.partition_of_event[own]
    columns = {name: column.take(own) for name, column in events.columns.items()}
    return Events(len(partition), columns, partition, events.n_partitions)


def _plain(program: SequenceProgram, text: str, name: str) -> Any:
    """Return a function of a generated module that runs as Python."""
    return plain_module(program, text)[name]
