"""hSPICE: skip pairs of an event and a partial match, by type, position and state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cepkit.shedding.strategies.skipping import (
    INTERVAL,
    SkippingShedder,
    UtilityTable,
    check_skipping,
    to_utilities,
)
from cepkit.shedding.strategies.strategy import SAFETY, Event, Load, Shedder, Training
from cepkit.shedding.strategies.warm_up import completed, opening_types, read_lineage, read_windows

if TYPE_CHECKING:
    from cepkit.shedding.tree.machine import EventOutcome


@dataclass(frozen=True)
class HSpice:
    """Skip pairs of an event and a partial match that rarely lead to a match.

    Source: Slo, Bhowmik, Rothermel, "hSPICE: State-Aware Event Shedding in Complex Event Processing",
    DEBS 2020. Written from knowledge of the published algorithm only.
    Differs: the published amount to skip does not know the queue; see `ESpice`. The table has the probability
    that the pair makes a partial match that completes, divided by the greatest one. An event that opens a
    window counts as a pair with state 0. One mean size of windows scales the position bins.
    """

    safety: float = SAFETY  # f: share of the queue limit from which the shedder skips
    # Number of events after which the threshold is computed again during an overload.
    interval: int = INTERVAL
    # Whether the events that wait beyond the safe share add to the arrival rate, as if they arrived within
    # one latency bound. False: the arrival rate alone decides how much to skip, as published.
    backlog: bool = True
    # Whether to pay for lookups also without an overload. This shows the overhead alone.
    always: bool = False
    name: ClassVar[str] = "hspice"

    def __post_init__(self) -> None:
        check_skipping(self.safety, self.interval)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities and numbers of pairs by type, position and state."""
        table = pair_utilities(training)
        return _SkippedPairs(training, table, self)


def pair_utilities(training: Training) -> UtilityTable:
    """Return UT(T, P, s) of a warm-up, and the expected number of pairs of a window in each cell.

    The bins of positions are those of the machine.

    """
    machine, windows = training.machine, read_windows(training)[0]
    lineage = read_lineage(machine)
    useful = completed(lineage)
    good = np.zeros(machine.considered.shape)
    np.add.at(good, (lineage.type[useful], lineage.bin[useful], lineage.state[useful]), 1.0)
    considered = machine.considered.astype(np.float64)
    opening = opening_types(training.program)
    for number in set(range(len(considered))) - opening:
        considered[number, :, 0] = good[number, :, 0] = 0.0
    chance = np.divide(good, considered, out=np.zeros(good.shape), where=considered > 0)
    n_windows = max(1, int(np.isin(machine.types_of_events()[: training.n_events], list(opening)).sum()))
    return UtilityTable(
        to_utilities(chance),
        considered / n_windows,
        np.zeros(considered.shape[1], np.int64),
        machine.bin_size,
        windows.mean_size,
    )


class _SkippedPairs(SkippingShedder):
    def _look_up(self, n_windows: int) -> None:
        """Pay after the event, when the number of its pairs is known."""

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Pay for one lookup per pair."""
        if self._is_shedding or self._settings.always:
            self.charged["lookup"] += outcome.pairs
            self._n_lookups += outcome.pairs
