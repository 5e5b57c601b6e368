"""What a live stream says about its load: events kept and dropped, recall, latency, backlog and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan, prod
from typing import Any

import pandas as pd

from cepkit.language.expressions.durations import seconds_text

_FEWEST = 500  # events that an estimate of recall looks at together


@dataclass(frozen=True, repr=False)
class SheddingReport:
    """The state of a stream with a latency bound, in ``stream.shedding``. It does not change later.

    A match needs an event of each type. So the share of the matches that were found is estimated by the
    product of the shares of events that were kept, over all types, in a window before the matches. Events
    count by their utility, if the strategy has utilities. The estimate takes drops as independent, so it is
    often too low. It is NaN when the strategy drops partial matches or skips pairs.
    """

    strategy: str  # name of the strategy
    latency_bound: float  # in seconds
    warm_up_left: int  # number of events that the strategy still learns from before it may drop any
    # kept, dropped, waiting_of_type: number of events that were processed, that were dropped, and that wait,
    # by type
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    waiting_of_type: Mapping[str, int]
    other_events: int  # number of events of types that the query does not name. Nothing was done for them.
    # dropped_partial_matches, skipped_pairs: partial matches that the strategy dropped, and pairs that the
    # tree did not combine for it
    dropped_partial_matches: int
    skipped_pairs: int
    recall: float  # estimated share of the matches that were found; see Notes
    matches: int  # number of matches after the warm-up
    # mean_latency, max_latency: seconds from the arrival of the last event of a match until it was found. NaN
    # without matches.
    mean_latency: float
    max_latency: float
    within_bound: float  # share of the matches that came within the bound. NaN without matches.
    service: float  # seconds to process an event, as a moving average
    arrival_rate: float  # events per second, as a moving average
    shedding_seconds: float  # priced time of the strategy's own work
    # Alarms, tests and computations of the drift detector; None when the strategy has none.
    drift: Mapping[str, Any] | None
    details: Mapping[str, Any] = field(default_factory=dict)  # what the strategy says about itself

    @property
    def n_dropped(self) -> int:
        """Number of dropped events."""
        return sum(self.dropped.values())

    @property
    def waiting(self) -> int:
        """The backlog: number of events that wait."""
        return sum(self.waiting_of_type.values())

    @property
    def backlog_seconds(self) -> float:
        """Time to process all events that wait, in seconds."""
        return self.waiting * self.service

    @property
    def losses(self) -> str:
        """What was dropped, in words; empty if nothing."""
        n = sum(self.kept.values()) + self.n_dropped + self.waiting
        parts = []
        if self.n_dropped:
            parts.append(f"{self.n_dropped:,} of {n:,} events were dropped")
        if self.dropped_partial_matches:
            parts.append(f"{self.dropped_partial_matches:,} partial matches were dropped")
        if self.skipped_pairs:
            parts.append(f"{self.skipped_pairs:,} pairs were skipped")
        return ", ".join(parts)

    def to_frame(self) -> pd.DataFrame:
        """Return the kept, dropped and waiting events of each type, and the share that was dropped."""
        table = pd.DataFrame({
            "type": list(self.kept), "kept": self.kept.values(), "dropped": self.dropped.values(),
            "waiting": self.waiting_of_type.values(),
        })  # fmt: skip
        total = table["kept"] + table["dropped"]
        table["share_dropped"] = (table["dropped"] / total.where(total > 0)).fillna(0.0)
        return table

    def __repr__(self) -> str:
        lines = [f"{self.strategy}: {self.losses or 'nothing was dropped'}"]
        if self.warm_up_left:
            lines.append(f"warm-up: {self.warm_up_left:,} more events; nothing is dropped before its end")
        if self.matches:
            recall = f", estimated recall {_percent(self.recall)}" if self.losses else ""
            lines.append(f"{self.matches:,} match{'' if self.matches == 1 else 'es'}{recall}")
            lines.append(
                f"latency {_time(self.mean_latency)} on average, {_time(self.max_latency)} at most, "
                f"{_percent(self.within_bound)} within {_time(self.latency_bound)}"
            )
        lines.append(
            f"{self.waiting:,} events wait, about {_time(self.backlog_seconds)} of work; "
            f"{self.arrival_rate:,.0f} events arrive per second, and each takes {_time(self.service)}"
        )
        if self.drift is not None:
            alarms = list(self.drift["alarms"])
            drift = f"drift in {', '.join(alarms)}" if alarms else "no drift"
            lines.append(f"{drift}; computed again {self.drift['recomputed']:,} times")
        return "\n".join(lines)


def _percent(share: float) -> str:
    return "unknown" if share != share else f"{100 * share:.3g} %"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if 0 < seconds < 0.001 else seconds_text(seconds)


@dataclass
class RecallEstimate:
    """Estimates the share of matches that were found, from the events that were kept and dropped."""

    n_types: int
    n_window: int = _FEWEST
    found: float = 0.0
    wanted: float = 0.0
    kept: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    lost_utility: list[float] = field(default_factory=list)
    n_pending: int = 0
    steps: list[list[list[float]]] = field(default_factory=list)  # kept and lost by type, over a window

    def __post_init__(self) -> None:
        for name in ("kept", "dropped", "lost_utility"):
            if not getattr(self, name):
                setattr(self, name, [0] * self.n_types)

    def add(
        self,
        kept: Sequence[int],
        dropped: Sequence[int],
        n_matches: int,
        seen: Sequence[tuple[Sequence[int], Sequence[int]]] | None,
    ) -> None:
        """Take in the state of the stream."""
        self.n_pending += n_matches
        newly_kept = [now - before for now, before in zip(kept, self.kept, strict=True)]
        lost = [now - before for now, before in zip(dropped, self.dropped, strict=True)]
        if sum(newly_kept) + sum(lost) < max(1, min(_FEWEST, self.n_window // 4)):
            return
        step = [[0.0] * self.n_types, [0.0] * self.n_types]
        for i, (n, m) in enumerate(zip(newly_kept, lost, strict=True)):
            weight = self._relative_utility(i, m, *seen[i]) if m and seen is not None else 1.0
            step[0][i], step[1][i] = n + (1.0 - weight) * m, weight * m
        self.steps.append(step)
        while (
            len(self.steps) > 1
            and sum(sum(counts[0]) + sum(counts[1]) for counts in self.steps[1:]) >= self.n_window
        ):
            del self.steps[0]
        shares = [1.0] * self.n_types
        for i in range(self.n_types):
            n, m = (sum(counts[side][i] for counts in self.steps) for side in (0, 1))
            shares[i] = n / (n + m) if m else 1.0
        share = prod(shares)
        if share > 0:
            self.found += self.n_pending
            self.wanted += self.n_pending / share
        self.kept, self.dropped, self.n_pending = list(kept), list(dropped), 0

    def _relative_utility(self, i: int, m: int, seen: Sequence[int], dropped: Sequence[int]) -> float:
        """Return the mean utility of the dropped events of a type, as a share of that of all; at most 1."""
        before, self.lost_utility[i] = self.lost_utility[i], _utility(dropped)
        mean = _utility(seen) / max(1, sum(seen))
        return min(1.0, (self.lost_utility[i] - before) / m / mean) if mean else 1.0

    @property
    def value(self) -> float:
        """The estimate; NaN without matches."""
        wanted = self.wanted + self.n_pending
        return (self.found + self.n_pending) / wanted if wanted else nan


def _utility(counts: Sequence[int]) -> float:
    """Return the sum of utilities of events by step of utility."""
    n = max(1, len(counts) - 1)
    return sum(count * min(1.0, (step + 0.5) / n) for step, count in enumerate(counts) if count)
