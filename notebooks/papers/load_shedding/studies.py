"""Why panels of the DARLING paper come out as they do here, and what other settings change.

Every function returns a tidy frame of replays. The streams, prices and loads are those of the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pandas as pd

from cepkit.frames.pandas import PandasSource
from cepkit.shedding.simulation.replay import ReplayResult
from cepkit.shedding.simulation.scene import check_settings, make_scene
from cepkit.shedding.strategies.darling import Darling, DarlingShedder
from cepkit.shedding.strategies.spice import ESpice, HSpice
from cepkit.shedding.strategies.strategy import (
    SAFETY,
    Event,
    Load,
    Shedder,
    Strategy,
    Training,
    as_strategy,
    queue_room,
)
from cepkit.shedding.tree.machine import EventOutcome
from cepkit.shedding.tree.program import READINGS, TreeProgram
from papers.load_shedding.figures import (
    AXES,
    CONTINUOUS,
    DRAWN,
    OVERLOAD,
    PEAKS,
    ROOM,
    PaperAxis,
    Setting,
    setting_of,
    strategy_of,
)
from papers.load_shedding.queries import find_query, generated_stream

OWN, EQUAL, BY_RATE, SERVICE, FIRST = (
    "darling", "equal utilities", "split by rate", "room by own service time", "first come",
)  # fmt: skip


@dataclass
class _Served:
    """What events that had company in the buffer cost, in seconds."""

    n: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        return self.seconds / self.n if self.n else float("nan")


@dataclass(frozen=True)
class FirstCome:
    """Drop every new event while the buffer is full, and no other event."""

    # So the events that were first in a peak stay, all of them. The room is DARLING's: ``safety`` times N_in.

    safety: float = SAFETY
    name: ClassVar[str] = FIRST

    def begin(self, training: Training) -> Shedder:
        """Return a shedder that knows how many events may wait."""
        return _FirstCome(queue_room(training, self.safety))


class _FirstCome(Shedder):
    def __init__(self, room: float):
        super().__init__()
        self._room = room

    def admit(self, event: Event, load: Load) -> Sequence[int]:
        self.charged["lookup"] += 1
        return (event.position,) if load.waiting > self._room else ()


@dataclass(frozen=True)
class ProbedDarling:
    """DARLING with one part exchanged, which notes what events cost while others wait."""

    settings: Darling = field(default_factory=Darling)
    service: float | None = None  # mean seconds of an event, for N_in; None: that of the warm-up
    # False: all events of a type have equal utilities, so chance decides among them.
    has_utilities: bool = True
    served: _Served = field(default_factory=_Served)  # filled by the run
    warm_up: list[float] = field(default_factory=list)
    name: ClassVar[str] = OWN

    def begin(self, training: Training) -> Shedder:
        """Return the shedder."""
        self.warm_up.append(training.service)
        known = training if self.service is None else replace(training, service=self.service)
        return _Probed(self, known)


class _Probed(DarlingShedder):
    def __init__(self, probe: ProbedDarling, training: Training):
        self._probe, self._prices = probe, training.prices
        super().__init__(probe.settings, training)

    def _utility_of(self, number: int, position: int) -> float:
        return super()._utility_of(number, position) if self._probe.has_utilities else 0.5

    def after(self, event: Event, load: Load, outcome: EventOutcome) -> None:
        """Note the price of the event."""
        if load.waiting > 1:
            price, served = self._prices, self._probe.served
            served.n += 1
            served.seconds += (
                price["event"]
                + price["condition"] * int(outcome.evaluated.sum())
                + price["create"] * outcome.created
                + price["remove"] * outcome.removed
            )


def explain_point(setting: Setting, seed: int) -> list[dict]:
    """Return what DARLING and its variants do in one setting."""
    own = ProbedDarling()
    rows = [_explained(setting, OWN, own, seed, own)]
    others: dict[str, Strategy] = {
        EQUAL: ProbedDarling(has_utilities=False),
        BY_RATE: ProbedDarling(Darling(split="rate")),
        FIRST: FirstCome(),
    }
    if own.served.n:
        others[SERVICE] = ProbedDarling(service=own.served.mean)
    return [*rows, *(_explained(setting, name, one, seed, one) for name, one in others.items())]


def _explained(setting: Setting, name: str, strategy: Strategy, seed: int, probe: Strategy) -> dict:
    result = setting.replay(strategy, seed)
    n = len(setting.scene.positions) - setting.scene.n_warm
    service = probe.served.mean / probe.warm_up[0] if isinstance(probe, ProbedDarling) else float("nan")
    return {
        "variant": name, "recall": result.recall, "kept": 1 - result.n_dropped / n,
        "mean_latency": result.mean_latency, "max_latency": result.max_latency,
        "within_bound": result.within_bound, "service": service,
    }  # fmt: skip


def points_of(axis: PaperAxis) -> list[str | int | float]:
    """Return the points that studies run: every second one, or the second and the last rate of overload."""
    return [axis.points[1], axis.points[-1]] if axis.by == OVERLOAD else list(axis.points[1::2])


def load_of(axis: PaperAxis) -> str:
    """Return the load of an axis: peaks, or continuous overload."""
    return CONTINUOUS if axis.by == OVERLOAD else PEAKS


def explanations(seeds: Iterable[int], n_events: int) -> pd.DataFrame:
    """Return `explain_point` for all axes: columns ``data``, ``stream``, ``by``, ``x``, and its own."""
    rows = [
        {"data": f"seed {seed}", "stream": axis.data, "by": axis.by, "x": str(x), **row}
        for seed in seeds
        for axis in AXES.values()
        for x in points_of(axis)
        for row in explain_point(setting_of(axis, x, load_of(axis), seed, n_events), seed)
    ]
    return pd.DataFrame(rows)


ROOMS = (0.02, 0.05, 0.1)
_RATE = 0.6  # the overload rate for the axes that have no window, length or constant to choose


def rooms(seeds: Iterable[int], n_events: int, *, strategies: Sequence[str] = DRAWN) -> pd.DataFrame:
    """Return recall and latency by the room of the server: the share of the stream within the bound."""
    rows = []
    for room in ROOMS:
        for axis in AXES.values():
            x = _RATE if axis.by == OVERLOAD else axis.reference
            for seed in seeds:
                setting = setting_of(axis, x, load_of(axis), seed, n_events, room=room)
                at = {"data": f"seed {seed}", "room": room, "stream": axis.data, "by": axis.by}
                for name in strategies:
                    result = setting.replay(strategy_of(name, load_of(axis)), seed)
                    rows.append(at | {"strategy": name, **_summary(result)})
    return pd.DataFrame(rows)


def _summary(result: ReplayResult) -> dict[str, float]:
    return {
        "recall": result.recall, "mean_latency": result.mean_latency, "within_bound": result.within_bound,
    }  # fmt: skip


def backlogs(seeds: Iterable[int], n_events: int) -> pd.DataFrame:
    """Return eSPICE and hSPICE with and without the waiting events in what they skip."""
    rows = []
    for seed in seeds:
        for axis in AXES.values():
            setting = setting_of(axis, axis.reference, load_of(axis), seed, n_events)
            at = {"data": f"seed {seed}", "stream": axis.data, "by": axis.by}
            for strategy in (of(backlog=waits) for of in (ESpice, HSpice) for waits in (True, False)):
                own = {"strategy": strategy.name, "backlog": strategy.backlog}
                rows.append({**at, **own, **_summary(setting.replay(strategy, seed))})
    return pd.DataFrame(rows)


NEGATED = {"Q3A": "falling", "Q4B": "artefact", "Q3C": "artefact"}  # query: reading that has matches


def negations(
    seed: int = 0, n_events: int = 4_000, *, strategies: Sequence[str] = ("darling", "random_input", "espice")
) -> pd.DataFrame:
    """Return recall and precision of queries with an absent type, in both readings of its conditions."""
    rows = []
    for name, reading in NEGATED.items():
        template = find_query(name)
        types = template.first_types(3)
        source = PandasSource(generated_stream(template.data, types, n_events, seed=seed))
        made = make_scene(check_settings([template.query(3, reading=reading)], latency_bound=1.0), source)
        for negation in READINGS:
            tree = TreeProgram.of(made.programs[0], negation=negation)
            assert isinstance(tree, TreeProgram), tree
            scene = replace(made, trees=(tree,))
            probe = ProbedDarling()
            scene.run(probe)
            # Time is linear in the prices, so the bound can move instead of them.
            setting = Setting(source, replace(scene, latency_bound=ROOM * n_events * probe.warm_up[0]))
            for strategy in strategies:
                (one,) = setting.replay(as_strategy(strategy), seed).patterns
                rows.append(
                    {
                        "query": name, "reading": negation, "matches": one.compared[2], "strategy": strategy,
                        "recall": one.recall, "precision": one.precision,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)
