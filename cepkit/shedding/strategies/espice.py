"""eSPICE: skip events in windows, by the utility of their type at their position in the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cepkit.shedding.strategies.skipping import (
    INTERVAL,
    SkippingShedder,
    UtilityTable,
    check_skipping,
    parts_of_bins,
    to_utilities,
)
from cepkit.shedding.strategies.strategy import SAFETY, Shedder, Training, queue_room
from cepkit.shedding.strategies.warm_up import (
    events_by_cell,
    events_of_matches,
    present_types,
    read_lineage,
    read_windows,
)


@dataclass(frozen=True)
class ESpice:
    """Skip an event in the windows where its type at its position rarely belongs to a match.

    Source: Slo, Bhowmik, Flaig, Rothermel, "eSPICE: Probabilistic Load Shedding from Input Event Streams in
    Complex Event Processing", Middleware 2019. Written from knowledge of the published algorithm only.
    Differs: the published amount to skip does not know the queue, so nothing is skipped after a short peak,
    however many events wait; ``backlog=False`` keeps that. The amount to drop is a share of the expected
    events of the pattern's types in each part of a window. Events of other types never wait here. Position
    bins are the same for all windows, so one mean size of windows scales them. An event whose type must be
    absent is never skipped.
    """

    safety: float = SAFETY  # f: share of the queue limit from which the shedder skips
    interval: int = INTERVAL  # number of events after which thresholds are computed again during an overload
    # Whether the events that wait beyond the safe share add to the arrival rate, as if they arrived within
    # one latency bound. False: the arrival rate alone decides how much to skip, as published.
    backlog: bool = True
    # Whether to pay for lookups also without an overload. This shows the overhead alone.
    always: bool = False
    name: ClassVar[str] = "espice"

    def __post_init__(self) -> None:
        check_skipping(self.safety, self.interval)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities and numbers of events by type and position."""
        table = event_utilities(training, self.safety)
        return _SkippedEvents(training, table, self)


def event_utilities(training: Training, safety: float) -> UtilityTable:
    """Return UT(T, P) and S(T, P) of a warm-up, with the parts of a window.

    A part has (1 - f) q_max events: what the queue can take in until it is full. The bins of positions are
    those of the machine.
    """
    machine, n_types = training.machine, len(training.program.types)
    windows, types, partition = read_windows(training)
    bins, bin_size = machine.considered.shape[1], machine.bin_size
    share = events_by_cell(windows, types, partition, n_types, bins, bin_size)
    for number in set(range(n_types)) - present_types(training.program):
        share[number] = 0.0
    lineage = read_lineage(machine)
    events = events_of_matches(lineage)
    count = np.zeros((n_types, bins))
    np.add.at(count, (lineage.type[events.row], np.minimum(events.place // bin_size, bins - 1)), 1.0)
    n_own = max(1, int((types >= 0).sum()))
    part = (1.0 - safety) * queue_room(training, 1.0) * len(types) / n_own
    return UtilityTable(
        to_utilities(count)[:, :, None],
        share[:, :, None],
        parts_of_bins(bins, bin_size, part),
        bin_size,
        windows.mean_size,
    )


class _SkippedEvents(SkippingShedder):
    def _look_up(self, n_windows: int) -> None:
        """Pay for one lookup per window that contains the event."""
        if self._is_shedding or self._settings.always:
            self.charged["lookup"] += n_windows
            self._n_lookups += n_windows

    def _refuses(self, number: int) -> bool:
        """Return whether events of a type are skipped at every position of all windows."""
        return bool(self._is_useless[number])
