"""The server of a live stream: its clock, its queue, and the latencies of its matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from time import perf_counter
from typing import Any

import numpy as np

from cepkit.shedding.simulation.server import Server


class WallClock:
    """The clock of the machine, in seconds. Priced work takes no more time than it really takes."""

    def __init__(self, start: float = 0.0):
        self._origin = perf_counter() - start

    @property
    def now(self) -> float:
        """The time now."""
        return perf_counter() - self._origin

    def continue_from(self, time: float) -> None:
        """Set the time now."""
        self._origin = perf_counter() - time

    def spend(self, seconds: float) -> None:
        """Do nothing, because the work itself takes time."""

    def time_within(self, start: float, priced: np.ndarray) -> np.ndarray:
        """Return the time now for each part, because a match is known when its event is done."""
        return np.full(len(priced), self.now)


class LiveServer(Server):
    """A server of an endless stream. It forgets the events that left."""

    def _count_drop(self, position: int, number: int) -> None:
        super()._count_drop(position, number)
        self.dropped.clear()
        self.forget(position)

    def forget(self, position: int) -> None:
        """Forget the type and the arrival of an event."""
        self._type.pop(position, None)
        self._arrival.pop(position, None)

    def save(self) -> dict[str, Any]:
        """Return the numbers of the server."""
        return {
            "waiting": self.waiting,
            "types": [self._type[position] for position in self._waiting],
            "arrivals": [self._arrival[position] for position in self._waiting],
            "dropped_of_type": self.dropped_of_type,
            "processed_of_type": self.processed_of_type,
            "counts": [self.n_processed, self.n_dropped, self.most_waiting],
            "averages": [self.service, self.latency, self._gap, self._last_arrival, self.shedding_seconds],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        for position, number, arrival in zip(
            saved["waiting"], saved["types"], saved["arrivals"], strict=True
        ):
            self._type[position], self._arrival[position] = number, arrival
            self._waiting[position] = None
            self.waiting_of_type[number] += 1
        self.dropped_of_type = list(saved["dropped_of_type"])
        self.processed_of_type = list(saved["processed_of_type"])
        self.n_processed, self.n_dropped, self.most_waiting = saved["counts"]
        (
            self.service, self.latency, self._gap, self._last_arrival, self.shedding_seconds,
        ) = saved["averages"]  # fmt: skip


@dataclass
class Latencies:
    """Number, sum and maximum of latencies, and how many were within a bound."""

    bound: float
    n: int = 0
    sum: float = 0.0
    most: float = nan
    n_within: int = 0

    def add(self, latencies: np.ndarray) -> None:
        """Add the latencies of some matches."""
        if len(latencies):
            self.n += len(latencies)
            self.sum += float(latencies.sum())
            self.most = float(np.fmax(self.most, latencies.max()))
            self.n_within += int((latencies <= self.bound).sum())

    def add_all(self, other: Latencies) -> None:
        """Add the latencies that ``other`` has counted."""
        self.n, self.sum = self.n + other.n, self.sum + other.sum
        self.most, self.n_within = float(np.fmax(self.most, other.most)), self.n_within + other.n_within
