"""Why panels of the DARLING paper come out as they do here: DARLING with one part exchanged.

Every function returns a tidy frame of replays. The streams, prices and loads are those of the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pandas as pd

from cepkit.frames.pandas import PandasSource
from cepkit.shedding.scene import check_settings, make_scene
from cepkit.shedding.strategies.darling import Darling, DarlingShedder
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
from cepkit.shedding.tree_program import READINGS, TreeProgram
from papers.load_shedding.figures import (
    AXES,
    LATENCY_BOUND,
    PEAKS,
    SHORT,
    WINDOW,
    Scale,
    Setting,
    setting_of,
)
from papers.load_shedding.queries import find_query, generated_stream

OWN, EQUAL, FIRST = "darling", "equal utilities", "first come"


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
class EqualUtilities:
    """DARLING whose events of a type have equal utilities, so that chance decides among them."""

    settings: Darling = field(default_factory=Darling)
    name: ClassVar[str] = EQUAL

    def begin(self, training: Training) -> Shedder:
        """Return the shedder."""
        return _Equal(self.settings, training)


class _Equal(DarlingShedder):
    def _utility_of(self, number: int, position: int) -> float:
        return 0.5


VARIANTS: tuple[tuple[str, Strategy], ...] = (
    (OWN, Darling()), (EQUAL, EqualUtilities()), (FIRST, FirstCome()),
)  # fmt: skip


def explain_point(setting: Setting, seed: int) -> list[dict]:
    """Return what DARLING and its variants do in one setting."""
    n = len(setting.scene.positions) - setting.scene.n_warm
    rows = []
    for name, strategy in VARIANTS:
        result = setting.replay(strategy, seed)
        rows.append(
            {
                "variant": name, "recall": result.recall, "kept": 1 - result.n_dropped / n,
                "mean_latency": result.mean_latency, "within_bound": result.within_bound,
            }
        )  # fmt: skip
    return rows


def explanations(seed: int = 0, scale: Scale = SHORT) -> pd.DataFrame:
    """Return `explain_point` for the three queries of the window axes, under peaks."""
    rows = [
        {"stream": axis.data, **row}
        for axis in AXES.values()
        if axis.by == WINDOW
        for row in explain_point(setting_of(axis, axis.reference, PEAKS, seed, scale), seed)
    ]
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
            # Time is linear in the prices, so the bound can move instead of them.
            bound = LATENCY_BOUND / SHORT.work_s * n_events * Setting(source, scene).service
            setting = Setting(source, replace(scene, latency_bound=bound))
            for strategy in strategies:
                (one,) = setting.replay(as_strategy(strategy), seed).patterns
                rows.append(
                    {
                        "query": name, "reading": negation, "matches": one.compared[2], "strategy": strategy,
                        "recall": one.recall, "precision": one.precision,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)
