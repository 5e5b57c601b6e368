"""The marks of a timeline: the events of a state of the automaton, and the clicked events."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.explorer.automaton import state_of_events
from cepkit.explorer.partial_bars import as_traits
from cepkit.explorer.running.timeline import spans_of

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result


def marks_of(
    result: Result, state: int | None, partition: int | None, window: list[float] | None
) -> dict[str, Any]:
    """Return the marks of a state: ``marks`` on the timeline, ``names`` in the text, ``told`` in words."""
    if state is None or state >= len(result.automaton.labels):
        return {"marks": np.empty((0, 2)), "names": [], "told": ""}
    positions, n_matches = events_in_state(result, state, partition, window)
    names, n = result.automaton.names_of(state), len(positions)
    events = f"{n:,} {'event' if n == 1 else 'events'} of {count_of_matches(n_matches)}"
    told = f"{events} on the timeline marked as {' or '.join(names)}" if state else ""
    return {"marks": result.places(positions, partition), "names": names, "told": told}


def events_in_state(
    result: Result, state: int, partition: int | None, window: list[float] | None = None
) -> tuple[np.ndarray, int]:
    """Return the events that lead drawn matches (`spans_of`) to a state, and the number of matches."""
    numbers = spans_of(result, partition, window)[1]
    numbers = numbers[~np.isnan(numbers)].astype(np.int64)  # NaN: the number is unknown
    if not len(numbers):
        return np.empty(0, np.int64), 0
    part: Any = None
    if result.is_sequence:
        block = result.block_of(numbers.tolist())
        first_item, event_of_item = block.first_item_of_match, block.event_of_item
        told, components = [], block.component_of_item.tolist()
        branch_of_match = block.branch_of_match.tolist()
    else:
        part = result.matches._found.whole.take(numbers)
        first_item, event_of_item = part.lineage.first_item_of_match, part.lineage.event_of_item
        told, components = result.matches._found.variables(part).tolist(), None
        branch_of_match = [0] * len(numbers)
    states_of_rows = result.drawn_states(part.state_of_item) if result.is_rows else None
    here, n_matches = [], 0
    for (low, high), branch in zip(itertools.pairwise(first_item.tolist()), branch_of_match, strict=True):
        own = None if components is None else components[low:high]
        if states_of_rows is None:
            reached = state_of_events(result.automaton, told[low:high], own, branch)
        else:
            reached = states_of_rows[low:high]
        kept = [low + i for i, one in enumerate(reached) if one == state]
        here += kept
        n_matches += bool(kept)
    return np.unique(event_of_item[np.array(here, np.int64)].astype(np.int64)), n_matches


def places_of_events(result: Result, positions: Sequence[int], partition: int | None) -> list[dict[str, Any]]:
    """Return the clicked events on the timeline of a partition: ``x``, ``y`` and ``partials``.

    ``partials`` are the bars of the partial matches at the event that was explained last.

    """
    of_event = result.events.partition_of_event
    own = [one for one in positions if partition is None or of_event[one] == partition]
    explained, bars = result.bars

    def partials(position: int) -> list[dict[str, Any]]:
        return as_traits(bars, lambda at: result.places(at, partition)) if position == explained else []

    at = zip(own, result.places(own, partition).tolist(), strict=True)
    return [{"x": x, "y": y, "partials": partials(position)} for position, (x, y) in at]


def count_of_matches(n: int) -> str:
    """Return a number of matches in words: ``1 match``, ``1,200 matches``."""
    return f"{n:,} {'match' if n == 1 else 'matches'}"
