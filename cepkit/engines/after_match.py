"""After-match policies: the later matches that a reported match removes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from copy import copy

import numpy as np

from cepkit.compile.sequence_program import MatchWindow, SequenceProgram
from cepkit.compile.sequence_source import test_of
from cepkit.engines.sequence_measures import variables_of_items
from cepkit.engines.shared.by_key import keyed_events, keyed_program
from cepkit.engines.shared.places import InStreamOrder, accepted
from cepkit.engines.shared.sequence_set import (
    EMPTY,
    KnownMatches,
    LineBlock,
    MatchBlock,
    SequenceSet,
    collect,
)
from cepkit.errors import ResultTooLargeError
from cepkit.events import Events
from cepkit.language.expressions.durations import count_text
from cepkit.language.sequences.checks import ONCE
from cepkit.progress import checkpoint

MOST_LOOKED_AT = 50_000_000
_NONE = -1


def report_matches(program: SequenceProgram, found: SequenceSet) -> SequenceSet:
    """Return the matches that GREEDY at the end of the pattern and the query's after-match policy report."""
    # In order of detection (last event, then first event, then canonical order), a reported match discards
    # all others of its partition that start: ``past_last`` at or before its last event, ``to_next`` at its
    # first event, ``to_first`` and ``to_last`` before the first or last event of a variable. ``once``
    # discards those that share an event with it. Under ``once_newest``, the later first event comes first.
    # Source: FlinkCEP, after-match skip strategies.
    policy = program.query.after_match[0]
    if not program.query.selects:
        return found
    if policy in ONCE and (pairs := pairs_once(program, found.events)) is not None:
        return KnownMatches(found.events, pairs)
    if (count := found.count()) > MOST_LOOKED_AT:
        raise ResultTooLargeError(
            f"{'GREEDY' if policy == 'none' else f'after_match={policy!r}'} must look at each of "
            f"{count_text(count)} matches, more than {MOST_LOOKED_AT:,}; narrow the window or the conditions"
        )
    if program.query.ends_greedily:
        found = KnownMatches(found.events, _longest(program, collect(found.whole_blocks())))
    if policy == "none":
        return found
    reporter = Reporter(program)
    partition = found.events.partition_of_event
    blocks = found.whole_blocks()
    return KnownMatches(found.events, collect(_reported(blocks, reporter, partition)))


def _longest(program: SequenceProgram, block: MatchBlock) -> MatchBlock:
    """Return the matches without those that another one continues: its greedy last loop takes more events."""
    # Where a loop may not skip what fits, its first event decides all others, so the longest one remains.
    ends = [bound.branch.components for bound in program.branches]
    last = np.array([len(components) - 1 for components in ends])
    is_greedy = np.array([components[-1].preference == "greedy" for components in ends])
    branch, item = block.branch_of_match, block.first_item_of_match.tolist()
    is_before = block.component_of_item < np.repeat(last[branch], np.diff(block.first_item_of_match))
    n_before = np.add.reduceat(is_before, block.first_item_of_match[:-1]) if len(block) else np.empty(0)
    events, components = block.event_of_item, block.component_of_item
    longest: dict[tuple, int] = {}
    for m in np.flatnonzero(is_greedy[branch]).tolist():
        head = slice(item[m], item[m] + int(n_before[m]) + 1)  # up to the first event of the last loop
        key = int(branch[m]), events[head].tobytes(), components[head].tobytes()
        other = longest.get(key, m)
        longest[key] = m if item[m + 1] - item[m] >= item[other + 1] - item[other] else other
    is_kept = ~is_greedy[branch]
    is_kept[list(longest.values())] = True
    return block.take(np.flatnonzero(is_kept))


def _reported(
    blocks: Iterable[MatchBlock], reporter: Reporter, partition: np.ndarray
) -> Iterator[MatchBlock]:
    """Yield the reported matches of each block."""
    for block in blocks:
        checkpoint()
        yield reporter.reported(block, partition[block.last])


class Reporter:
    """Selects the reported matches in order, and remembers per partition which later ones they discard."""

    def __init__(self, program: SequenceProgram):
        self.program = program
        self.policy, self.variable = program.query.after_match
        self.horizon: dict[int, int] = {}  # matches of the partition that start before this are discarded
        self.taken: set[int] = set()  # first events of reported matches; for ``once`` all of their events

    def copy(self) -> Reporter:
        """Return a reporter that remembers the same."""
        copied = copy(self)
        copied.horizon, copied.taken = dict(self.horizon), set(self.taken)
        return copied

    def reported(
        self, block: MatchBlock, partition_of_match: np.ndarray, position: np.ndarray | None = None
    ) -> MatchBlock:
        """Return the reported matches of a block, in the order of detection."""
        if self.policy in ONCE:
            return self._once(block, position)
        first, last = block.first, block.last
        horizons = self._horizons(block)
        if position is not None:
            first = position[first]
            horizons = None if horizons is None else np.where(horizons < 0, _NONE, position[horizons])
        if horizons is not None and self.policy == "past_last":
            horizons = horizons + 1
        partition = partition_of_match.tolist()
        order = np.lexsort([np.arange(len(block)), first, last]).tolist()
        starts = first.tolist()
        keep = np.zeros(len(block), bool)
        for m in order:
            start, p = starts[m], partition[m]
            if start < self.horizon.get(p, _NONE) or start in self.taken:
                continue
            keep[m] = True
            if horizons is None:
                self.taken.add(start)
            else:
                self.horizon[p] = max(self.horizon.get(p, _NONE), int(horizons[m]))
        return block.take(np.flatnonzero(keep))

    def _once(self, block: MatchBlock, position: np.ndarray | None) -> MatchBlock:
        events = block.event_of_item if position is None else position[block.event_of_item]
        items, first = events.tolist(), block.first if self.policy == "once" else -block.first
        begin = block.first_item_of_match.tolist()
        keep = []
        for m in np.lexsort([np.arange(len(block)), first, block.last]).tolist():
            match = items[begin[m] : begin[m + 1]]
            if self.taken.isdisjoint(match):
                self.taken.update(match)
                keep.append(m)
        return block.take(np.sort(np.array(keep, np.int64)))

    def _horizons(self, block: MatchBlock) -> np.ndarray | None:
        """Return, for each match, the event before which no other may start; None for ``to_next``."""
        if self.policy == "past_last":
            return block.last
        if self.policy == "to_next":
            return None
        is_target = variables_of_items(self.program, block) == self.program.query.variables.index(
            self.variable
        )
        horizon = np.full(len(block), _NONE, np.int64)
        matches, events = block.match_of_item[is_target], block.event_of_item[is_target]
        if self.policy == "to_first":
            matches, events = matches[::-1], events[::-1]
        horizon[matches] = events  # if a match has several, the last assignment wins
        return horizon


# Pairs that use each event once. A queue for each key replaces a list of all matches.

_EVENTS_PER_CHECKPOINT = 1 << 16


def pairs_once(program: SequenceProgram, events: Events) -> MatchBlock | None:
    """Return the reported matches of two single events, or None if conditions compare them otherwise."""
    keyed = keyed_program(program)
    searched = program if keyed is None else keyed.program
    if len(searched.branches) > 1 or searched.window.within_events is not None:
        return None
    [bound] = searched.branches
    components = bound.branch.components
    is_pair = len(components) == 2 and all((c.low, c.high) == (1, 1) for c in components)
    if not is_pair or bound.branch.absences or bound.conditions or components[1].step != "any":
        return None
    if not events.n_events or searched.window.is_empty:
        return EMPTY
    position = None
    if keyed is not None:
        events, position = keyed_events(keyed, program, events)
    accept = accepted(InStreamOrder(searched, searched.inputs(events.columns), events.n_events))
    begins, ends = (accept[test_of(searched, terms)].view(np.bool_) for terms in bound.accepts)
    able = np.flatnonzero(begins | ends)
    place = able if position is None else position[able]
    time = np.zeros(len(able), np.int64)
    if searched.clock and searched.clock in searched.columns_to_read:
        time = events.columns[searched.clock].values[able]
    pairs = _paired(
        zip(*(of_event.tolist() for of_event in (
            begins[able], ends[able], events.partition_of_event[able], time, place
        )), strict=True),
        _fits_in(searched.window), is_strict=searched.window.strict_time,
        is_newest=program.query.after_match[0] == "once_newest",
    )  # fmt: skip
    return LineBlock(np.array(pairs, np.int64).reshape(-1, 2).T, 0)


def _fits_in(window: MatchWindow) -> Callable[[int | float], bool]:
    """Return a function that tells whether the time between first and last event fits in the windows."""
    limits = [limit for limit in (window.within, window.gap_within) if limit is not None]
    if not limits:
        return lambda lasted: True
    limit = min(limits)
    return (lambda lasted: lasted <= limit) if window.closed else (lambda lasted: lasted < limit)


def _paired(
    events: Iterable[tuple], fits: Callable[[int | float], bool], *, is_strict: bool, is_newest: bool
) -> list[tuple[int, int]]:
    """Return the pairs of events, each with its partition, its time and its number."""
    waiting: defaultdict[int, deque[tuple]] = defaultdict(deque)
    used: set[int] = set()
    pairs = []
    for n, (begins, ends, partition, time, number) in enumerate(events):
        if n % _EVENTS_PER_CHECKPOINT == 0:
            checkpoint()
        queue, passed = waiting[partition], []
        while ends and queue:
            begun, first = queue.pop() if is_newest else queue.popleft()
            if first in used:
                continue  # in the queue of another key
            if is_strict and begun == time:
                passed.append((begun, first))
                continue
            if fits(time - begun):
                used |= {first, number}
                pairs.append((first, number))
                break
            if is_newest:
                queue.clear()  # the others began before
        if passed:
            queue.extend(passed[::-1] if is_newest else passed)
        if begins and number not in used:
            queue.append((time, number))
    return pairs
