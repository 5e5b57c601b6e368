"""Where the matches of a result are in time: their numbers in equal parts of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.events import Events, Source
from cepkit.explorer.running.series import Clock, Series, clock_of

BINS = 300  # of an axis; each is a few pixels wide
MOST_BANDS = 2000  # more matches than these are not drawn as bands


@dataclass(frozen=True)
class Ends:
    """The ends of counted matches, in stream order."""

    index: np.ndarray  # int64, (n,): their places in `Result.ends`
    position: np.ndarray  # int64, (n,): their positions in the stream, rising
    time: np.ndarray  # (n,): their times on the clock, which never fall, after the origin of the axis
    # Number of matches that end before each of them, and the total. None: one match ends at each.
    before: Any = None

    def count(self, low: int, high: int) -> int:
        """Return the number of matches of the ends ``low`` to ``high`` (exclusive)."""
        return high - low if self.before is None else int(self.before[high]) - int(self.before[low])

    def counts(self, bounds: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the number of matches between each two neighbours of ``bounds``, as float64."""
        if self.before is None:
            return np.diff(bounds).astype(np.float64)
        if isinstance(self.before, list):  # numbers beyond int64
            own = [self.before[bound] for bound in bounds]
            return np.array([float(b - a) for a, b in pairwise(own)])
        return np.diff(np.asarray(self.before)[bounds]).astype(np.float64)

    def of(self, own: np.ndarray) -> Ends:
        """Return the ends with these indices."""
        before = self.before
        if isinstance(before, list):
            counts = (before[i + 1] - before[i] for i in own.tolist())
            before = [0, *accumulate(counts)]
        elif before is not None:
            before = np.concatenate([[0], np.cumsum(np.diff(before)[own])])
        return Ends(self.index[own], self.position[own], self.time[own], before)


def ends_of_matches(
    program: BoundQuery, source: Source, events: Events, positions: np.ndarray, before: Any
) -> Ends:
    """Return the ends of all matches, at these positions of the stream. Time O(ends)."""
    time = clock_of(program, source, events, positions).time
    return Ends(np.arange(len(positions)), positions, time, before)


def ends_of_partition(ends: Ends, events: Events, partition: int | None) -> Ends:
    """Return the ends in a partition; all of them for None. Time O(ends)."""
    if partition is None or events.n_partitions < 2:
        return ends
    return ends.of(np.flatnonzero(events.partition_of_event[ends.position] == partition))


def bin_bounds(time: np.ndarray, low: float, high: float, *, is_whole: bool) -> np.ndarray:
    """Return the bounds of the bins of an axis from ``low`` to ``high``, as indices into rising times."""
    if not high > low:
        return np.array([0, len(time)])
    inner = np.searchsorted(time, np.linspace(low, high, BINS + 1)[1:-1], "left")
    first = 0 if is_whole else int(np.searchsorted(time, low, "left"))
    last = len(time) if is_whole else int(np.searchsorted(time, high, "right"))
    return np.concatenate([[first], np.clip(inner, first, last), [last]])


def strip_traits(whole: Clock, every: Ends | None, own: Ends | None) -> dict[str, Any]:
    """Return the traits of the strip: the numbers of all matches over the time of all events.

    Every match counts at its last event. No match is enumerated.
    """
    if every is None or not len(whole.time):
        return {"strip_view": [], "strip_all": [], "strip_key": []}
    low, high = whole.time.tolist()
    view = [low * whole.per_tick, high * whole.per_tick]

    def counts(ends: Ends | None) -> np.ndarray:
        none = np.empty(0)
        return none if ends is None else ends.counts(bin_bounds(ends.time, low, high, is_whole=True))

    return {"strip_view": view, "strip_all": counts(every), "strip_key": counts(own)}


def crowd_traits(own: Ends | None, series: Series, window: Sequence[float] | None) -> dict[str, Any]:
    """Return the traits that replace the bands of a key in a window, if there are too many; otherwise empty.

    They are the numbers of matches that end in equal parts of the window. ``own`` has the matches of the key;
    None if they are not counted.

    """
    nothing = {"crowd": [], "crowd_view": []}
    if own is None or not len(series):
        return nothing
    view = list(window or series.extent)
    low, high = (bound / series.per_tick for bound in view)
    bounds = bin_bounds(own.time, low, high, is_whole=not window)
    if own.count(int(bounds[0]), int(bounds[-1])) <= MOST_BANDS:
        return nothing
    return {"crowd": own.counts(bounds), "crowd_view": view}
