"""The result of a simulated run: its nodes, the latency of its results, and when it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.scaleout.simulation.nodes import NodeRun


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """One node of a run: its stage, and its messages per second."""

    stage: str
    run: NodeRun
    # in_hz, out_hz: messages per second that reach it and that it sends
    in_hz: float
    out_hz: float


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A simulated deployment."""

    nodes: tuple[SimulatedNode, ...]
    # sent, received: float64, (n_results,): when the publisher sent the event of each result, and when the
    # consumer received the result
    sent: np.ndarray
    received: np.ndarray
    duration_s: float  # simulated time

    @property
    def failed_at_s(self) -> float:
        """When the first node fails; infinite if none does."""
        return min(node.run.failed_at_s for node in self.nodes)

    @property
    def works(self) -> bool:
        """Whether no node fails."""
        return np.isinf(self.failed_at_s)

    @property
    def mean_latency_ms(self) -> float:
        """Mean time from publisher to consumer; NaN without results."""
        return float((self.received - self.sent).mean() * 1e3) if len(self.sent) else float("nan")

    @property
    def throughput_hz(self) -> float:
        """Results per second in the last tenth of the run; 0 after a failure."""
        if not self.works:
            return 0.0
        last = self.sent >= 0.9 * self.duration_s
        return float(last.sum() / (0.1 * self.duration_s))

    def input_hz(self, stage: str) -> float:
        """Return the messages per second that reach a node of a stage, on average."""
        return float(np.mean([node.in_hz for node in self.nodes if node.stage == stage]))

    def stages(self) -> pd.DataFrame:
        """Return means over the nodes of each stage."""
        rows = []
        for stage in dict.fromkeys(node.stage for node in self.nodes):
            own = [node for node in self.nodes if node.stage == stage]
            last = len(own[0].run.held) * 4 // 5
            rows.append(
                {
                    "stage": stage,
                    "nodes": len(own),
                    "in_hz": np.mean([node.in_hz for node in own]),
                    "out_hz": np.mean([node.out_hz for node in own]),
                    "utilisation": np.mean([node.run.utilisation[last:].mean() for node in own]),
                    "held": np.mean([node.run.held[last:].mean() for node in own]),
                    "most_held": max(int(node.run.held.max()) for node in own),
                }
            )
        return pd.DataFrame(rows)

    def summary(self) -> Mapping[str, float]:
        """Return throughput, latency and moment of failure, by name."""
        return {
            "throughput_hz": self.throughput_hz,
            "latency_ms": self.mean_latency_ms,
            "failed_at_s": self.failed_at_s,
        }


def greatest_that_works(works: Callable[[int], bool], guess: int, most: int = 1_000_000) -> int:
    """Return the greatest whole number that works, by bisection; 0 if 1 does not work."""
    low, high = 0, most + 1  # low works, high does not
    at, step = min(max(1, guess), most), 1
    while high - low > 1:
        if works(at):
            low = at
            at = min(at + step, high - 1) if high > most else (low + high) // 2
        else:
            high = at
            at = max(at - step, low + 1) if low == 0 else (low + high) // 2
        step *= 2
        at = min(max(at, low + 1), high - 1)
    return low
