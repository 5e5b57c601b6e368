"""The ordered merge: releases outputs of several replicas in the order of the completing events."""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, TypeVar

from cepkit.errors import OrderError

T = TypeVar("T")


class OrderedMerge(Generic[T]):
    """Holds outputs back until no replica can offer an earlier one.

    Every replica reads its events in stream order and reports its position with outputs and pulses. The merge
    releases an output after every replica has reached its position. No two events share a position, so the
    order of the outputs equals that of a single replica, for any timing of the threads.

    Not thread-safe: threads that share it need a lock. A replica with rare events would delay all others;
    pulses bound that delay. If all replicas receive a pulse after every P events, an output waits for at
    most P + L further events, where L is the number of events since the oldest one that still waits in a
    replica's queue.


    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012 (ordered merge,
    pulses).
    Differs: an output also reports the position of its replica, as a pulse does.
    """

    def __init__(self, n_replicas: int):
        self.position_of_replica = [-1] * n_replicas
        self._waiting: list[tuple[int, int, T]] = []
        self._number = itertools.count()  # items themselves are never compared

    def offer(self, replica: int, position: int, item: T) -> None:
        """Add an output that the event at ``position`` completed."""
        reached = self.position_of_replica[replica]
        if position <= reached:
            raise OrderError(
                f"replica {replica} offers an output of position {position} after it has reached {reached}"
            )
        self.position_of_replica[replica] = position
        heapq.heappush(self._waiting, (position, next(self._number), item))

    def pulse(self, replica: int, position: int) -> None:
        """Note that ``replica`` has finished its events up to and including ``position``."""
        self.position_of_replica[replica] = max(position, self.position_of_replica[replica])

    def release(self) -> list[T]:
        """Remove and return the outputs that no later output can precede, in the order of their positions."""
        reached = min(self.position_of_replica)
        released = []
        while self._waiting and self._waiting[0][0] <= reached:
            released.append(heapq.heappop(self._waiting)[2])
        return released

    def __len__(self) -> int:
        return len(self._waiting)
