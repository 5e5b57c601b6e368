"""The timeline of a result: its events, the bands of its matches, their numbers over time, and marks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.explorer.running.result import as_traits, state_of_events
from cepkit.explorer.running.series import MOST_BANDS, Ends, bin_bounds, clock_of, describe, drawable
from cepkit.language.expressions.durations import count_text, counted

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result


def timeline_traits(
    result: Result, partition: int | None, window: list[float] | None = None
) -> dict[str, Any]:
    """Return all that the timeline of a result draws."""
    series = result.series(partition)
    spans, ids, note = spans_of(result, partition, window)
    drawn = describe(series, window)
    choices = drawable(result.program, result.data.source)
    bands = {"spans": spans, "span_ids": ids, "span_note": note}
    counts = {**strip_of(result, partition), **crowd_of(result, partition, window)}
    value = series.y_label if choices else ""
    return {**drawn, **bands, **counts, "choices": choices, "value": value}


def strip_of(result: Result, partition: int | None) -> dict[str, Any]:
    """Return the numbers of the matches of all keys and of a key over time; each counts at its last event."""
    n = result.events.n_events
    if not n:
        return {"strip_view": [], "strip_all": [], "strip_key": []}
    whole = clock_of(result.program, result.data.source, result.events, np.array([0, n - 1]))
    low, high = whole.time.tolist()

    def counts(ends: Ends) -> np.ndarray:
        return ends.counts(bin_bounds(ends.time, low, high, is_whole=True))

    is_one = partition is None or result.n_partitions < 2
    return {
        "strip_view": [low * whole.per_tick, high * whole.per_tick],
        "strip_all": counts(result.all_ends),
        "strip_key": [] if is_one else counts(result.ends_of(partition)),
    }


def crowd_of(result: Result, partition: int | None, window: Sequence[float] | None) -> dict[str, Any]:
    """Return the traits that replace the bands of a key in a window if there are too many, else empty."""
    series, ends = result.series(partition), result.ends_of(partition)
    view = list(window or series.extent)
    if view:
        low, high = (bound / series.clock.per_tick for bound in view)
        bounds = bin_bounds(ends.time, low, high, is_whole=not window)
        if ends.count(int(bounds[0]), int(bounds[-1])) > MOST_BANDS:
            return {"crowd": ends.counts(bounds), "crowd_view": view}
    return {"crowd": [], "crowd_view": []}


def spans_of(
    result: Result, partition: int | None, window: list[float] | None = None
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return (first and last time, number) of the first matches in a window, and a note on the others."""
    series = result.series(partition)
    low, high = series.events_in(window)
    if not len(series) or high < low:
        return np.empty((0, 2)), np.empty(0), ""
    low = min(low, len(series) - 1)
    stop = series.position_of(max(low, high - 1))
    first, last, ids, n_there = _bands(result, series.position_of(low), stop, partition)
    total = result.matches.count()
    where = " here" if window else ""
    key = " of this key" if partition is not None and result.n_partitions > 1 else ""
    note = counted(n_there, "match")
    if n_there > len(first):
        note = f"{count_text(n_there)} matches{key}{where}: zoom in to see each of them"
    elif n_there < total:
        note = f"{counted(n_there, 'match')}{key}{where}, {count_text(total)} in all"
    x = series.x(series.index_of(np.concatenate([first, last])))
    return np.column_stack([x[: len(first)], x[len(first) :]]), ids, note


def _bands(
    result: Result, begin: int, stop: int, partition: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return first, last and number of the first matches from ``begin`` to ``stop``, and their total."""
    ends = result.ends_of(partition)
    low, high = np.searchsorted(ends.position, [begin, stop + 1]).tolist()
    if result.is_rows:  # they may overlap
        whole = result.matches._found.whole
        here = ends.index[(whole.last[ends.index] >= begin) & (whole.first[ends.index] <= stop)]
        kept = here[:MOST_BANDS]
        return whole.first[kept], whole.last[kept], kept.astype(np.float64), len(here)
    if not result.is_sequence:
        whole = result.matches._found.whole
        high += int(np.searchsorted(whole.first[ends.index[high:]], stop, "right"))  # they do not overlap
        kept = ends.index[low : min(high, low + MOST_BANDS)]
        return whole.first[kept], whole.last[kept], kept.astype(np.float64), high - low
    if ends.count(0, len(ends.index)) <= MOST_BANDS:
        first, last, numbers = _bands_of_key(result, partition)
        here = (last >= begin) & (first <= stop)
        return first[here], last[here], numbers[here], int(np.count_nonzero(here))
    first, last, numbers = _bands_from(result, ends.index[low : low + MOST_BANDS])
    here = first <= stop
    n_there = max(ends.count(low, high), int(np.count_nonzero(here)))
    return first[here], last[here], numbers[here], n_there


def _bands_of_key(result: Result, partition: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return first, last and number of all matches of a key that are few; the last key is kept."""
    if partition not in result.kept_bands:
        result.kept_bands = {partition: _bands_from(result, result.ends_of(partition).index)}
    return result.kept_bands[partition]


def _bands_from(result: Result, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return first, last and number of the first matches of a sequence that end at these `ends`."""
    numbers: list[int] = []
    for end in ends.tolist():
        room = MOST_BANDS - len(numbers)
        if room <= 0:
            break
        number = int(result.first_number[end])
        numbers += range(number, min(number + room, int(result.first_number[end + 1])))
    if not numbers:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    block = result.block_of(numbers)
    return block.first, block.last, np.array(numbers, np.float64)


# The marks of a timeline: the events of a state of the automaton, and the clicked events.


def marks_of(
    result: Result, state: int | None, partition: int | None, window: list[float] | None
) -> dict[str, Any]:
    """Return the marks of a state: ``marks`` on the timeline, ``names`` in the text, ``told`` in words."""
    if state is None or state >= len(result.automaton.labels):
        return {"marks": np.empty((0, 2)), "names": [], "told": ""}
    positions, n_matches = events_in_state(result, state, partition, window)
    names, n = result.automaton.names_of(state), len(positions)
    events = f"{counted(n, 'event')} of {counted(n_matches, 'match')}"
    words = f"{events} on the timeline marked as {' or '.join(names)}" if state else ""
    return {"marks": result.places(positions, partition), "names": names, "told": words}


def events_in_state(
    result: Result, state: int, partition: int | None, window: list[float] | None = None
) -> tuple[np.ndarray, int]:
    """Return the events that lead drawn matches (`spans_of`) to a state, and the number of matches."""
    numbers = spans_of(result, partition, window)[1]
    numbers = numbers.astype(np.int64)
    if not len(numbers):
        return np.empty(0, np.int64), 0
    part: Any = None
    if result.is_sequence:
        block = result.block_of(numbers.tolist())
        first_item, event_of_item = block.first_item_of_match, block.event_of_item
        variables, components = [], block.component_of_item.tolist()
        branch_of_match = block.branch_of_match.tolist()
    else:
        part = result.matches._found.whole.take(numbers)
        first_item, event_of_item = part.lineage.first_item_of_match, part.lineage.event_of_item
        variables, components = result.matches._found.variables(part).tolist(), None
        branch_of_match = [0] * len(numbers)
    states_of_rows = result.drawn_states(part.state_of_item) if result.is_rows else None
    here, n_matches = [], 0
    for (low, high), branch in zip(itertools.pairwise(first_item.tolist()), branch_of_match, strict=True):
        match_components = None if components is None else components[low:high]
        if states_of_rows is None:
            reached = state_of_events(result.automaton, variables[low:high], match_components, branch)
        else:
            reached = states_of_rows[low:high]
        kept = [low + i for i, reached_state in enumerate(reached) if reached_state == state]
        here += kept
        n_matches += bool(kept)
    return np.unique(event_of_item[np.array(here, np.int64)].astype(np.int64)), n_matches


def places_of_events(result: Result, positions: Sequence[int], partition: int | None) -> list[dict[str, Any]]:
    """Return the clicked events on the timeline of a partition: ``x``, ``y`` and ``partials``."""
    of_event = result.events.partition_of_event
    shown_events = [event for event in positions if partition is None or of_event[event] == partition]
    explained, bars = result.bars

    def partials(position: int) -> list[dict[str, Any]]:
        return as_traits(bars, lambda at: result.places(at, partition)) if position == explained else []

    at = zip(shown_events, result.places(shown_events, partition).tolist(), strict=True)
    return [{"x": x, "y": y, "partials": partials(position)} for position, (x, y) in at]
