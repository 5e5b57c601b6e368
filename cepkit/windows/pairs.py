"""The pairs that the arrivals of a join create; arrays in, arrays out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.shared.places import WINDOWS
from cepkit.limits import check_memory
from cepkit.windows.ranges import Size, batches_of

PARTNERS = "cepkit.kernels.window.partners"
_PER_PAIR = 64  # bytes: eight numbers while they are made, and their rows later


class Meeting(NamedTuple):
    """The events of both sides in one order: by time, then the left side before the right one."""

    side: np.ndarray  # int8, (n_events,): 0 left, 1 right
    row: np.ndarray  # int64, (n_events,): number of the row on its side, in stream order
    time: np.ndarray  # (n_events,)
    position: tuple[np.ndarray, ...]  # int64, by side: the event of every row
    gone: tuple[np.ndarray, ...]  # int64, by side: the event before which a row leaves; or n_events


class Pairs(NamedTuple):
    """Pairs in the order of the arrivals that create them, and of their partners."""

    event: np.ndarray  # int64, (n_pairs,): the arrival
    left: np.ndarray  # int64, (n_pairs,): row of the left side
    right: np.ndarray


def meet(
    times: tuple[np.ndarray, ...],
    sizes: tuple[Size | None, ...],
    first_numbers: tuple[int, ...] = (0, 0),
) -> Meeting:
    """Return the events of both sides in one order, and when each leaves its window."""
    n_left = len(times[0])
    time = np.concatenate(times)
    order = np.argsort(time, kind="stable")  # left rows come first
    side = (order >= n_left).astype(np.int8)
    row = np.where(side == 1, order - n_left, order).astype(np.int64)
    time = np.ascontiguousarray(time[order])
    position = (np.flatnonzero(side == 0), np.flatnonzero(side == 1))
    gone = tuple(
        _leaves(size, time, own, number)
        for size, own, number in zip(sizes, position, first_numbers, strict=True)
    )
    return Meeting(side, row, time, position, gone)


def _leaves(size: Size | None, time: np.ndarray, position: np.ndarray, first_number: int) -> np.ndarray:
    n_events, n = len(time), len(position)
    if size is None:
        return position + 1
    if size.is_time:
        if size.tumbling:
            batch = batches_of(size, time, n_events)
            return np.searchsorted(batch, batch[position], side="right").astype(np.int64)
        gone = np.empty(n_events, np.int64)
        load_kernels(WINDOWS).window_ends(time, np.full(n_events, n_events, np.int64), size.width, 0, gone)
        return gone[position]
    number = np.arange(n, dtype=np.int64)
    if size.tumbling:
        removes = ((number + first_number) // size.width + 1) * size.width - first_number
    else:
        removes = number + size.width
    return np.append(position, n_events)[np.minimum(removes, n)]


def pairs_of(
    meeting: Meeting, keys: tuple[np.ndarray, np.ndarray], n_keys: int, triggers: tuple[int, ...] = (0, 1)
) -> Pairs:
    """Return all pairs of rows with equal keys that arrivals create."""
    n_events = len(meeting.side)
    start, n_partners = np.zeros(n_events, np.int64), np.zeros(n_events, np.int64)
    rows, first = zip(*(_by_key(own, n_keys) for own in keys), strict=True)
    for which in triggers:
        other = 1 - which
        arrival = meeting.position[which][rows[which]]
        out_start, out_stop = np.empty(len(arrival), np.int64), np.empty(len(arrival), np.int64)
        load_kernels(PARTNERS).partner_ranges(
            arrival, first[which], meeting.position[other][rows[other]], meeting.gone[other][rows[other]],
            first[other], out_start, out_stop,
        )  # fmt: skip
        start[arrival], n_partners[arrival] = out_start, out_stop - out_start
    n_pairs = int(n_partners.sum())
    check_memory(_PER_PAIR * n_pairs, f"{n_pairs:,} pairs")
    event = np.repeat(np.arange(n_events), n_partners)
    begin = np.cumsum(n_partners) - n_partners
    place = np.arange(len(event)) - begin[event] + start[event]
    own, from_left = meeting.row[event], meeting.side[event] == 0
    left, right = own.copy(), own.copy()
    right[from_left] = rows[1][place[from_left]]
    left[~from_left] = rows[0][place[~from_left]]
    return Pairs(event, left, right)


def _by_key(keys: np.ndarray, n_keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with a key, by key and in order, and the first of each key."""
    order = np.argsort(keys, kind="stable").astype(np.int64)
    known = order[np.searchsorted(keys[order], 0) :]
    first = np.zeros(n_keys + 1, np.int64)
    np.cumsum(np.bincount(keys[known], minlength=n_keys)[:n_keys], out=first[1:])
    return known, first


def ends_of(meeting: Meeting, pairs: Pairs) -> np.ndarray:
    """Return the event before which a pair ends, since one of its rows leaves; int64, (n_pairs,)."""
    return np.minimum(meeting.gone[0][pairs.left], meeting.gone[1][pairs.right])
