"""After-match policies: the later matches that a reported match removes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.measures.sequence_measures import variables_of_items
from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock, SequenceSet, collect
from cepkit.errors import ResultTooLargeError
from cepkit.language.expressions.durations import count_text
from cepkit.progress import checkpoint

MOST_LOOKED_AT = 50_000_000
_NONE = -1


def report_matches(program: SequenceProgram, found: SequenceSet) -> SequenceSet:
    """Return the matches that the query's after-match policy reports.

    In order of detection (last event, then first event, then canonical order), a reported match discards
    all others of its partition that start: ``past_last`` at or before its last event, ``to_next`` at its
    first event, ``to_first`` and ``to_last`` before the first or last event of a variable.

    Source: FlinkCEP, after-match skip strategies.
    """
    policy = program.query.after_match[0]
    if policy == "none":
        return found
    if (count := found.count()) > MOST_LOOKED_AT:
        raise ResultTooLargeError(
            f"after_match={policy!r} must look at each of {count_text(count)} matches, "
            f"more than {MOST_LOOKED_AT:,}; narrow the window or the conditions"
        )
    reporter = Reporter(program)
    partition = found.events.partition_of_event
    blocks = found.whole_blocks()
    return KnownMatches(found.events, collect(_reported(blocks, reporter, partition)))


def _reported(
    blocks: Iterable[MatchBlock], reporter: Reporter, partition: np.ndarray
) -> Iterator[MatchBlock]:
    for block in blocks:
        checkpoint()
        yield reporter.reported(block, partition[block.last])


class Reporter:
    """Selects the reported matches in order, and remembers per partition which later ones they discard."""

    def __init__(self, program: SequenceProgram):
        self.program = program
        self.policy, self.variable = program.query.after_match
        self.horizon: dict[int, int] = {}  # matches of the partition that start before this are discarded
        self.taken: set[int] = set()  # first events of reported matches

    def reported(
        self, block: MatchBlock, partition_of_match: np.ndarray, position: np.ndarray | None = None
    ) -> MatchBlock:
        """Return the reported matches of ``block``."""
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
