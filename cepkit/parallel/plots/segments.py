"""Compute rectangles for the work of threads in a part of a run: one per action, or in bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cepkit.errors import whole_number
from cepkit.parallel.trace.trace import ACTIONS, Trace, _time_until

MOST_ACTIONS = 3000  # return more actions in bins
MOST_SEGMENTS = 25_000  # most segments in bins
BINS, FEWEST_BINS = 240, 10
_DUST = 1e-9  # rounding error of a share of a bin


class Segments(NamedTuple):
    """Rectangles of work; the lane of a thread is its index in ``threads``.

    Rows are sorted by lane, then by ``start``. A segment fills the height of its lane from ``low`` to
    ``high``, with 0 at the bottom. A single action fills the whole height, and in a bin the height is the
    share of the time.

    """

    threads: np.ndarray  # int64, (n_lanes,)
    lane: np.ndarray  # int32, (n_segments,)
    agent: np.ndarray  # int32, (n_segments,): index into the trace's agents; -1: the source
    action: np.ndarray  # int32, (n_segments,): index into ACTIONS
    start: np.ndarray  # float64, (n_segments,): ns since the start of the run
    end: np.ndarray  # float64, (n_segments,)
    low: np.ndarray  # float32, (n_segments,)
    high: np.ndarray  # float32, (n_segments,)
    items: np.ndarray  # float64, (n_segments,): taken by the action; NaN in bins
    n_bins: int  # 0: every segment is one action

    @property
    def busy(self) -> float:
        """Time in all segments, in ns; actions at the ends of the part count in full."""
        return float(((self.end - self.start) * (self.high.astype(float) - self.low)).sum())


def thread_segments(
    trace: Trace,
    begin: float = 0.0,
    until: float | None = None,
    *,
    most: int = MOST_ACTIONS,
    n_bins: int = BINS,
) -> Segments:
    """Return the work of every thread from ``begin`` to ``until``."""
    whole_number("thread_segments: n_bins", n_bins, 1)
    until = trace.makespan if until is None else until
    done, threads = trace.done, trace.threads()["thread"].to_numpy()
    rows = np.flatnonzero((done.end > begin) & (done.start < until))
    lane = np.searchsorted(threads, done.thread[rows])
    order = np.lexsort((done.end[rows], done.start[rows], lane))
    rows, lane = rows[order], lane[order]
    kind = (done.agent[rows] + 1) * len(ACTIONS) + done.action[rows]
    start, end = done.start[rows], done.end[rows]
    if len(rows) <= most:
        n = len(rows)
        items = done.n_items[rows].astype(np.float64)
        return _segments(threads, lane, kind, start, end, np.zeros(n), np.ones(n), items, 0)
    rows_of_lane = np.split(np.arange(len(lane)), np.searchsorted(lane, np.arange(1, len(threads))))
    groups = [
        (t, code, own[kind[own] == code])
        for t, own in enumerate(rows_of_lane)
        for code in np.unique(kind[own])
    ]
    while True:
        edges = np.linspace(begin, until, n_bins + 1)
        spent = [np.diff(_time_until(edges, start[own], end[own])) for _, _, own in groups]
        share = np.array(spent) * (n_bins / (until - begin))
        group, number = np.nonzero(share > _DUST)
        if len(group) <= MOST_SEGMENTS or n_bins <= FEWEST_BINS:
            break
        n_bins = max(FEWEST_BINS, min(n_bins - 1, n_bins * MOST_SEGMENTS // len(group)))
    lane_of_group = np.array([t for t, _, _ in groups])
    kind_of_group = np.array([code for _, code, _ in groups])
    order = np.lexsort((group, number, lane_of_group[group]))
    group, number = group[order], number[order]
    lane, high = lane_of_group[group], np.minimum(share[group, number], 1.0)
    # Stack the segments within a lane and bin.
    is_first = np.ones(len(group), bool)
    is_first[1:] = (np.diff(lane) != 0) | (np.diff(number) != 0)
    total = np.cumsum(high)
    base = (total - high)[is_first]
    top = total - np.repeat(base, np.diff(np.append(np.flatnonzero(is_first), len(group))))
    items = np.full(len(group), np.nan)
    return _segments(
        threads, lane, kind_of_group[group], edges[number], edges[number + 1], top - high, top, items, n_bins
    )


def _segments(threads, lane, kind, start, end, low, high, items, n_bins: int) -> Segments:
    narrow = (np.asarray(of, np.int32) for of in (lane, kind // len(ACTIONS) - 1, kind % len(ACTIONS)))
    low, high = (np.asarray(np.clip(of, 0.0, 1.0), np.float32) for of in (low, high))
    return Segments(threads, *narrow, start, end, low, high, items, n_bins)


def agent_marks(
    segments: Segments, begin: float, until: float, n_blocks: int = 36
) -> list[tuple[int, float, int]]:
    """Return the places of the agents' marks in the lanes, which make lanes readable without colours.

    The part from ``begin`` to ``until`` is divided into blocks. A block can have a mark in its middle if one
    agent took at least a quarter of the block and half of the work in it. A mark is placed where the agent
    changes, and in every fifth block of the same agent.
    """
    if not until > begin or not len(segments.lane):
        return []
    size = (until - begin) / n_blocks
    start, end = (np.clip((of - begin) / size, 0.0, n_blocks) for of in (segments.start, segments.end))
    first = np.minimum(start.astype(np.int64), n_blocks - 1)
    last = np.maximum(np.minimum(np.ceil(end).astype(np.int64) - 1, n_blocks - 1), first)
    times = last - first + 1
    row = np.repeat(np.arange(len(start)), times)
    block = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times) + first[row]
    part = np.minimum(end[row], block + 1) - np.maximum(start[row], block)
    n_agents = int(segments.agent.max()) + 2
    spent = np.zeros((len(segments.threads), n_blocks, n_agents))
    share = (segments.high - segments.low)[row] * np.maximum(part, 0.0)
    np.add.at(spent, (segments.lane[row], block, segments.agent[row] + 1), share)
    agent, most = spent.argmax(axis=2) - 1, spent.max(axis=2)
    made = []
    for lane in range(len(segments.threads)):
        before, at = -1, -n_blocks
        for b in range(n_blocks):
            own = int(agent[lane, b])
            is_clear = most[lane, b] >= max(0.25, 0.5 * spent[lane, b].sum())
            if own >= 0 and is_clear and (own != before or b - at >= 5):
                made.append((lane, begin + (b + 0.5) * size, own))
                before, at = own, b
    return made
