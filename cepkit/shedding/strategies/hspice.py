"""hSPICE: skip pairs of an event and a partial match, by type, position and state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cepkit.shedding.strategies.lineage import completed, read_lineage
from cepkit.shedding.strategies.overload import SAFETY
from cepkit.shedding.strategies.skipping import INTERVAL, SkippingShedder, UtilityTable, check_skipping
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training
from cepkit.shedding.strategies.utility_tables import to_utilities
from cepkit.shedding.strategies.windows import opening_types, read_windows

if TYPE_CHECKING:
    from cepkit.shedding.tree.machine import Outcome


@dataclass(frozen=True)
class HSpice:
    """Skip pairs of an event and a partial match that rarely lead to a match.

    Parameters
    ----------
    safety : float
        f: share of the queue limit from which the shedder skips.
    bins : int
        Number of bins for the positions in a window.
    interval : int
        Number of events after which the threshold is computed again during an overload.
    always : bool
        Whether to pay for lookups also without an overload. This shows the overhead alone.

    Notes
    -----
    Source: Slo, Bhowmik, Rothermel, "hSPICE: State-Aware Event Shedding in Complex Event Processing",
    DEBS 2020. Written from knowledge of the published algorithm only.
    Differs: the table has the probability that the pair makes a partial match that completes, divided by the
    greatest one. An event that opens a window counts as a pair with state 0. One mean size of windows scales
    the position bins.

    Examples
    --------
    >>> HSpice().name
    'hspice'
    """

    safety: float = SAFETY
    bins: int = 100
    interval: int = INTERVAL
    always: bool = False
    name: ClassVar[str] = "hspice"

    def __post_init__(self) -> None:
        check_skipping(self.safety, self.bins, self.interval)

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows utilities and numbers of pairs by type, position and state."""
        table = pair_utilities(training, self.bins)
        return _SkippedPairs(training, table, self.safety, self.interval, always=self.always)


def pair_utilities(training: Training, bins: int) -> UtilityTable:
    """Return UT(T, P, s) of a warm-up, and the expected number of pairs of a window in each cell.

    Notes
    -----
    The bins need the mean size of windows, which the warm-up itself did not know. So a second machine
    processes its events again and counts the pairs.
    """
    windows = read_windows(training)[0]
    bin_size = max(1, int(np.ceil(windows.mean_size / bins)))
    machine = type(training.machine)(
        training.program,
        training.events,
        max_partial_matches=training.machine.max_partial_matches,
        n_bins=bins,
        bin_size=bin_size,
    )
    machine.learning = True
    machine.feed_many(0, training.n_events)
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
        np.zeros(bins, np.int64),
        bin_size,
        windows.mean_size,
    )


class _SkippedPairs(SkippingShedder):
    def _look_up(self, n_windows: int) -> None:
        """Pay after the event, when the number of its pairs is known."""

    def after(self, event: Event, load: Load, outcome: Outcome) -> None:
        """Pay for one lookup per pair."""
        if self._is_shedding or self._always:
            self.charged["lookup"] += outcome.pairs
            self._n_lookups += outcome.pairs
