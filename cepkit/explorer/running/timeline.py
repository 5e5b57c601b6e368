"""The timeline of a result: its events, the bands of its matches, their numbers over time, and marks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.explorer.automaton import state_of_events
from cepkit.explorer.bars import as_traits
from cepkit.explorer.running.series import (
    MOST_BANDS,
    Series,
    clock_of,
    crowd_traits,
    describe,
    drawable,
    strip_traits,
)
from cepkit.language.expressions.durations import count_text
from cepkit.widgets.base import counted

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result


def timeline_traits(
    result: Result, partition: int | None, window: list[float] | None = None
) -> dict[str, Any]:
    """Return the traits of the timeline widget for a partition and a window of time."""
    series = result.series(partition)
    spans, ids, note = spans_of(result, partition, window)
    drawn = describe(series, window)
    choices = drawable(result.program, result.data.source)
    bands = {"spans": spans, "span_ids": ids, "span_note": note}
    counts = {**strip_of(result, partition), **crowd_of(result, partition, window)}
    value = series.y_label if choices else ""
    return {**drawn, **bands, **counts, "choices": choices, "value": value}


def strip_of(result: Result, partition: int | None) -> dict[str, Any]:
    """Return the traits of the strip: the numbers of the matches of all keys and of a key over time."""
    ends = np.array([0, -1] if result.events.n_events else [], np.int64) % max(1, result.events.n_events)
    whole = clock_of(result.program, result.data.source, result.events, ends)
    is_one = partition is None or result.n_partitions < 2
    key_ends = None if is_one or not result.is_counted else result.ends_of(partition)
    return strip_traits(whole, result.all_ends if result.is_counted else None, key_ends)


def crowd_of(result: Result, partition: int | None, window: Sequence[float] | None) -> dict[str, Any]:
    """Return the traits that replace the bands of a key in a window, if there are too many."""
    ends = result.ends_of(partition) if result.is_counted else None
    return crowd_traits(ends, result.series(partition), window)


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
    if not result.is_counted:
        return _opened_spans(result, series, low, stop, partition, bool(window))
    first, last, ids, n_there = _bands(result, series.position_of(low), stop, partition)
    total = result.matches.count()
    where = " here" if window else ""
    key = " of this key" if partition is not None and result.n_partitions > 1 else ""
    note = counted(n_there, "match")
    if n_there > len(first):
        note = f"{count_text(n_there)} matches{key}{where}: zoom in to see each of them"
    elif n_there < total:
        note = f"{counted(n_there, 'match')}{key}{where}, {count_text(total)} in all"
    return _drawn_bands(series, first, last), ids, note


def _drawn_bands(series: Series, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    x = series.x(series.index_of(np.concatenate([first, last])))
    return np.column_stack([x[: len(first)], x[len(first) :]])


def _opened_spans(
    result: Result, series: Series, low: int, stop: int, partition: int | None, is_window: bool
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return `spans_of` before the matches are counted; unknown numbers are NaN.

    The look may continue after ``stop``, the last event of the window. Matches that begin later are left out.

    """
    is_one = partition is None or result.n_partitions < 2
    if is_one and not low:
        opening, ids = result.opening, np.arange(len(result.opening.block), dtype=np.float64)
    else:
        positions = np.arange(result.events.n_events) if series.positions is None else series.positions
        opening = result.opener.first_of(positions, low, MOST_BANDS)
        ids = np.full(0 if opening is None else len(opening.block), np.nan)
    if opening is None or not (len(opening.block) or opening.is_all):
        return np.empty((0, 2)), np.empty(0), "the matches appear when all are counted"
    first, last = opening.block.first, opening.block.last
    here = first <= stop
    where = " here" if is_window else ""
    key = "" if is_one else " of this key"
    note = "" if opening.is_all else f"first {np.count_nonzero(here):,} matches{key}{where}"
    return _drawn_bands(series, first[here], last[here]), ids[here], note


def _bands(
    result: Result, begin: int, stop: int, partition: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return first, last and number of the matches from ``begin`` to ``stop``, and their total.

    A match may begin before or end after them. At most ``MOST_BANDS`` are returned. If a sequence has
    more, its total leaves out those that end after ``stop``.

    """
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
    events = f"{n:,} {'event' if n == 1 else 'events'} of {count_of_matches(n_matches)}"
    words = f"{events} on the timeline marked as {' or '.join(names)}" if state else ""
    return {"marks": result.places(positions, partition), "names": names, "told": words}


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
    """Return the clicked events on the timeline of a partition: ``x``, ``y`` and ``partials``.

    ``partials`` are the bars of the partial matches at the event that was explained last.

    """
    of_event = result.events.partition_of_event
    shown_events = [event for event in positions if partition is None or of_event[event] == partition]
    explained, bars = result.bars

    def partials(position: int) -> list[dict[str, Any]]:
        return as_traits(bars, lambda at: result.places(at, partition)) if position == explained else []

    at = zip(shown_events, result.places(shown_events, partition).tolist(), strict=True)
    return [{"x": x, "y": y, "partials": partials(position)} for position, (x, y) in at]


def count_of_matches(n: int) -> str:
    """Return a number of matches in words: ``1 match``, ``1,200 matches``."""
    return f"{n:,} {'match' if n == 1 else 'matches'}"
