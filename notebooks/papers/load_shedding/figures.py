"""The panels of figures 6 to 10 of the DARLING paper as values, and the replays that they need.

All functions return tidy frames and draw nothing. One replay serves several panels: figures 6, 7 and 8 show
the same runs, and so do both halves of figure 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import nan
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from cepkit.errors import CepError, nearest
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.shedding.arrivals import ConstantArrivals, OverloadArrivals, PeakArrivals, Prices
from cepkit.shedding.replay import ReplayResult
from cepkit.shedding.scene import Scene, check_settings, make_scene
from cepkit.shedding.strategies.darling import Darling
from cepkit.shedding.strategies.strategy import (
    Shedder,
    Strategy,
    Training,
    as_strategy,
    class_of_strategy,
)
from cepkit.shedding.tree_machine import TreeMachine
from papers.load_shedding.queries import find_query, generated_stream, recorded_stream
from papers.tables import sweep as run_sweep

STOCKS, SOCCER, BUSES = "stocks", "soccer", "buses"
WINDOW, LENGTH, PARTIAL_MATCHES, OVERLOAD = "window", "length", "partial matches", "overload"
PEAKS, CONTINUOUS, NO_DROPS = "peaks", "continuous", "no drops"
# The strategies of the paper, "none" not among them; other names of strategies work as well.
COMPARED = ("darling", "random", "espice", "hspice", "zhao")
# Dropping arriving events at random is not among the paper's strategies. It is drawn, and no claim counts it.
DRAWN = (*COMPARED, "random_input")
OURS = "cohesive"  # beside the others on short streams
LATENCY_BOUND = 1.5  # seconds; L_max of the paper
FEWEST = 500  # recorded events of a stream
SEEDS = tuple(range(10))
RATES = (0.2, 0.8, 1.4)  # overload rates of figure 9


@dataclass(frozen=True, slots=True)
class Scale:
    """How many events a stream has, and how many seconds a server needs for all of them."""

    n_events: int
    work_s: float  # at the reference of an axis


# The paper drops matches that come 1,800 s late, and it says that others lose most matches so. This needs a
# stream with many hours of work. A stream of half a minute is the opposite: no match comes so late.
LONG, SHORT = Scale(50_000, 25_000.0), Scale(5_000, 30.0)
# "No drops" needs a bound that nothing reaches.
_FAR = 1e9


@dataclass(frozen=True, slots=True)
class PaperAxis:
    """The x axis of some panels: a query of the paper with one free parameter."""

    data: str  # ``"stocks"``, ``"soccer"`` or ``"buses"``
    by: str  # ``"window"``, ``"length"``, ``"partial matches"`` or ``"overload"``: what the points change
    query: str  # name in `papers.load_shedding.queries.QUERIES`
    points: tuple[str | int | float, ...]  # windows, lengths, constants of a condition, or overload rates
    # Microseconds that a server with the default prices needs for an event at the reference: the middle of
    # the points. Measured once in the warm-up of seed 0, and kept here so that all runs have equal prices.
    service_us: float
    length: int | None = None  # number of event types of all points; None: the longest
    window: str | None = None  # window of all points
    constant: float | None = None  # constant of the conditions of all points; None: that of the query

    def query_at(self, point: str | int | float) -> SequenceQuery:
        """Return the query of a point."""
        own: dict[str, Any] = {"length": self.length, "window": self.window, "constant": self.constant}
        if self.by in _PARAMETER:
            own[_PARAMETER[self.by]] = point
        return find_query(self.query).query(own.pop("length"), **own)

    def length_at(self, point: str | int | float) -> int | None:
        """Return the number of event types of a point; None means the longest."""
        return int(point) if self.by == LENGTH else self.length

    @property
    def reference(self) -> str | int | float:
        """The middle of the points."""
        return self.points[len(self.points) // 2]

    def points_at(self, load: str) -> tuple[str | int | float, ...]:
        """Return the points of the kept results: the reference, without drops the first one, too."""
        if self.by == OVERLOAD:
            return self.points
        return (self.points[0], self.reference) if load == NO_DROPS else (self.reference,)

    def prices(self, scale: Scale, service_us: float | None = None) -> Prices:
        """Return the default prices, all times one factor, so that the reference has the work of a scale."""
        factor = scale.work_s / (scale.n_events * (service_us or self.service_us) * 1e-6)
        return Prices(**{name: factor * seconds for name, seconds in Prices().table().items()})


_PARAMETER = {WINDOW: "window", LENGTH: "length", PARTIAL_MATCHES: "constant"}
AXES = {
    (axis.data, axis.by): axis
    for axis in (
        PaperAxis(STOCKS, WINDOW, "Q1A", ("5 min", "15 min", "30 min", "60 min", "90 min"), 114.0, length=3),
        # The conditions of the paper have no match from 5 stocks on. Those of this constant have some.
        PaperAxis(STOCKS, LENGTH, "Q1A", (2, 3, 4, 5, 6, 7), 35.0, window="10 min", constant=10.0),
        PaperAxis(
            STOCKS, PARTIAL_MATCHES, "partial matches A", (100_000, 75_000, 50_000, 25_000, 0), 75.0,
            window="30 min",
        ),
        PaperAxis(STOCKS, OVERLOAD, "Q1A", RATES, 114.0, length=3, window="30 min"),
        PaperAxis(SOCCER, WINDOW, "Q1B", ("7 ms", "15 ms", "50 ms", "100 ms"), 23.0),
        PaperAxis(SOCCER, LENGTH, "Q2B", (2, 3, 4, 5, 6, 7), 35.0, window="30 ms"),
        PaperAxis(
            SOCCER, PARTIAL_MATCHES, "partial matches B", (100_000, 86_259, 71_560, 53_705, 0), 33.0,
            window="50 ms",
        ),
        PaperAxis(SOCCER, OVERLOAD, "Q1B", RATES, 23.0, window="50 ms"),
        PaperAxis(BUSES, WINDOW, "Q1C", ("5 s", "10 s", "15 s", "30 s", "60 s", "100 s"), 74.0, length=3),
        PaperAxis(BUSES, LENGTH, "Q1C", (2, 3, 4, 5, 6, 7, 8), 12.7, window="10 s"),
        PaperAxis(
            BUSES, PARTIAL_MATCHES, "partial matches C", (5356, 3675, 2105, 1309, 0), 23.0, window="30 s",
        ),
        PaperAxis(BUSES, OVERLOAD, "Q1C", RATES, 74.0, length=3, window="30 s"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PaperPanel:
    """A panel of a figure of the paper."""

    figure: int  # 6 to 10
    letter: str  # letter of the panel. The paper does not say which data set some letters show; see `PANELS`.
    axis: PaperAxis
    load: str  # ``"peaks"``, ``"continuous"`` or ``"no drops"``
    measure: str  # column of the results

    @property
    def name(self) -> str:
        """Name of the panel, such as ``"6a"``."""
        return f"{self.figure}{self.letter}"

    @property
    def title(self) -> str:
        """Name, data set and x axis of the panel."""
        return f"{self.name} {self.axis.data}, {self.axis.by}"


RECALL, LATENCY, MEMORY, OVERHEAD = "recall", "mean_latency", "peak_bytes", "latency_overhead"
# The text says that b is about buses, g about stocks, and d, e and i about soccer. The other letters are
# those in the order of the paper's data sets: stocks, buses, soccer.
_LETTERS = {
    "a": (STOCKS, WINDOW), "b": (BUSES, LENGTH), "c": (STOCKS, PARTIAL_MATCHES),
    "d": (SOCCER, WINDOW), "e": (SOCCER, LENGTH), "f": (BUSES, WINDOW),
    "g": (STOCKS, LENGTH), "h": (BUSES, PARTIAL_MATCHES), "i": (SOCCER, PARTIAL_MATCHES),
}  # fmt: skip
_NINE = {
    "a": (STOCKS, RECALL), "b": (STOCKS, LATENCY), "c": (BUSES, RECALL), "d": (BUSES, LATENCY),
    "e": (SOCCER, RECALL), "f": (SOCCER, LATENCY),
}  # fmt: skip
PANELS: tuple[PaperPanel, ...] = (
    *(
        PaperPanel(figure, letter, AXES[of], load, measure)
        for figure, load, measure in ((6, PEAKS, RECALL), (7, PEAKS, LATENCY), (8, PEAKS, MEMORY))
        for letter, of in _LETTERS.items()
    ),
    *(
        PaperPanel(9, letter, AXES[data, OVERLOAD], CONTINUOUS, measure)
        for letter, (data, measure) in _NINE.items()
    ),
    *(PaperPanel(10, letter, AXES[of], NO_DROPS, OVERHEAD) for letter, of in _LETTERS.items()),
)


def find_panels(names: str | Iterable[str] | None = None) -> tuple[PaperPanel, ...]:
    """Return the panels with some names; a number of a figure stands for all its panels."""
    if names is None:
        return PANELS
    wanted = {names} if isinstance(names, str) else {str(name) for name in names}
    known = {panel.name for panel in PANELS} | {str(panel.figure) for panel in PANELS}
    if unknown := sorted(wanted - known):
        raise CepError(
            f"there is no panel {unknown[0]!r}. Figures: 6, 7, 8, 9, 10; panels: a to i, of 9 a to f"
        )
    return tuple(panel for panel in PANELS if {panel.name, str(panel.figure)} & wanted)


# --- replays ----------------------------------------------------------------------------------------------


WITH_DRIFT = "darling with drift"


def strategy_of(name: str, load: str) -> Strategy:
    """Return a strategy as its authors published it; without drops, one that works for every event."""
    if load == NO_DROPS and name in ("darling", WITH_DRIFT):  # the authors' program does not look for drift
        return Darling(drift=name == WITH_DRIFT)
    if name in ("espice", "hspice"):  # they count arrivals only; ours may count waiting events as well
        return class_of_strategy(name)(backlog=False, always=load == NO_DROPS)
    return class_of_strategy(name)(always=True) if name == "zhao" and load == NO_DROPS else as_strategy(name)


@dataclass(frozen=True, eq=False)
class Setting:
    """The stream and the query of one point, for one seed; all strategies share it."""

    source: PandasSource
    scene: Scene

    @cached_property
    def facts(self) -> dict[str, float]:
        """Average window size in events, and average number of partial matches, in the warm-up."""
        scene = self.scene
        (tree,), (events,) = scene.trees, scene.events
        machine, n = TreeMachine(tree, events), scene.n_warm
        alive = []
        for position in scene.positions[:n].tolist():
            machine.feed(position)
            alive.append(machine.n_alive)
        clock, within = tree.program.clock, tree.program.window.within
        at = events.columns[clock].values[scene.positions[:n]]
        size = np.searchsorted(at, at + within, side="right") - np.arange(n)
        return {
            "window_events": float(size[: max(1, n // 2)].mean()),
            "partial_matches_per_window": float(np.mean(alive)),
        }

    def replay(self, strategy: Strategy | None = None, seed: int = 0) -> ReplayResult:
        """Replay the stream with a strategy."""
        return ReplayResult(self.scene.run(strategy, seed), self.source, _same)

    @cached_property
    def service(self) -> float:
        """Mean seconds of an event in the warm-up."""
        probe = Probe()
        self.scene.run(probe)
        return probe.service[0]

    @cached_property
    def latency_without(self) -> float:
        """Mean latency without any shedder, in seconds."""
        return self.replay().mean_latency


def _same(frame: Any) -> Any:
    return frame


@lru_cache(maxsize=2)
def setting_of(axis: PaperAxis, point: str | int | float, load: str, seed: int, scale: Scale) -> Setting:
    """Return the setting of a point on a generated stream; the newest two are kept."""
    types = find_query(axis.query).first_types(axis.length_at(point))
    frame = generated_stream(axis.data, types, scale.n_events, seed=seed)
    return _setting(axis, point, load, frame, axis.prices(scale))


@lru_cache(maxsize=2)
def recorded_setting_of(axis: PaperAxis, point: str | int | float, load: str, scale: Scale) -> Setting:
    """Return the setting of a point on the first recorded events."""
    types = find_query(axis.query).first_types(axis.length_at(point))
    frame = recorded_stream(axis.data, types, scale.n_events)
    if len(frame) < FEWEST:
        raise CepError(f"{axis.data}, {axis.by}: {len(frame)} recorded events; at least {FEWEST} are needed")
    prices = axis.prices(Scale(len(frame), scale.work_s), recorded_service_us(axis, scale.n_events))
    return _setting(axis, point, load, frame, prices)


@lru_cache(maxsize=16)
def recorded_service_us(axis: PaperAxis, n_events: int) -> float:
    """Return the mean microseconds of an event in the warm-up on recorded data, at the reference."""
    types = find_query(axis.query).first_types(axis.length_at(axis.reference))
    frame = recorded_stream(axis.data, types, n_events)
    return 1e6 * _setting(axis, axis.reference, NO_DROPS, frame, Prices()).service


@dataclass(frozen=True)
class Probe:
    """Drops nothing, and keeps the mean service time of the warm-up."""

    service: list[float] = field(default_factory=list)
    name: ClassVar[str] = "probe"

    def begin(self, training: Training) -> Shedder:
        self.service.append(training.service)
        return Shedder()


def _setting(
    axis: PaperAxis, point: str | int | float, load: str, frame: pd.DataFrame, prices: Prices
) -> Setting:
    source = PandasSource(frame)
    arrivals = {
        PEAKS: PeakArrivals(),
        CONTINUOUS: OverloadArrivals(float(point)) if axis.by == OVERLOAD else None,
        NO_DROPS: ConstantArrivals(),
    }[load]
    settings = check_settings(
        [axis.query_at(point)], arrivals=arrivals, costs=prices,
        latency_bound=_FAR if load == NO_DROPS else LATENCY_BOUND,
    )  # fmt: skip
    return Setting(source, make_scene(settings, source))


def measure(
    axis: PaperAxis, point: str | int | float, load: str, strategy: str, seed: int, scale: Scale,
    *, recorded: bool = False,
) -> dict:  # fmt: skip
    """Return what one replay measures."""
    if recorded:
        setting = recorded_setting_of(axis, point, load, scale)
    else:
        setting = setting_of(axis, point, load, seed, scale)
    # The numbers on the axis of x are counted in the warm-up, event by event. A long stream has one point.
    facts = dict.fromkeys(_FACTS, nan) if scale == LONG else setting.facts
    row = setting.replay(strategy_of(strategy, load), seed).patterns[0].summary()
    n, kept = row["matches_without_shedding"], {name: row[name] for name in _KEPT}
    # No query of the figures has false matches.
    in_time = (row["within_bound"] * row["matches"] / n if row["matches"] else 0.0) if n else nan
    overhead = row[LATENCY] - setting.latency_without if load == NO_DROPS else nan
    return {**facts, "matches": n, **kept, IN_TIME: in_time, OVERHEAD: overhead}


IN_TIME = "recall_in_time"
_FACTS = ("window_events", "partial_matches_per_window")
_KEPT = (RECALL, LATENCY, "within_bound", MEMORY)
_POINT = ("seed", "scale", "stream", "by", "load", "x", "strategy")


def runs_of(
    panels: Iterable[PaperPanel], strategies: Sequence[str], seeds: Iterable[int], scale: Scale
) -> list[dict]:
    """Return the replays that panels need, each once, as points of a sweep."""
    # Strategies of one setting follow each other, so that they share the stream and the run without shedding.
    pairs = dict.fromkeys((panel.axis, panel.load) for panel in panels)
    return [
        dict(zip(_POINT, (seed, scale, axis.data, axis.by, load, str(x), name), strict=True))
        for seed in seeds
        for axis, load in pairs
        for x in axis.points_at(load)
        for name in strategies
    ]


def sweep(
    panels: str | Iterable[str] | None = None,
    *,
    strategies: Sequence[str] = COMPARED,
    seeds: Iterable[int] = SEEDS,
    scale: Scale = SHORT,
    progress: bool = True,
) -> pd.DataFrame:
    """Run the replays of panels, and return what they measured. Each replay runs on one core."""
    chosen = find_panels(panels)
    for name in strategies:
        strategy_of(name, chosen[0].load)

    def point(seed, scale, stream, by, load, x, strategy) -> Mapping[str, Any]:
        axis = AXES[stream, by]
        return measure(axis, point_of(axis, x), load, strategy, seed, scale)

    made = run_sweep(point, runs_of(chosen, strategies, seeds, scale), progress=progress)
    return _with_scale(made, [f"seed {seed}" for seed in made.pop("seed")], scale)


def _with_scale(made: pd.DataFrame, data: Sequence[str], scale: Scale) -> pd.DataFrame:
    """Return results whose first columns say the data and the scale."""
    made = made.drop(columns="scale", errors="ignore")
    for place, (name, value) in enumerate(
        {"data": data, "n_events": scale.n_events, "work_s": scale.work_s}.items()
    ):
        made.insert(place, name, value)
    return made


RECORDED = {STOCKS: "NASDAQ bars", SOCCER: "DEBS 2013", BUSES: "Dublin buses"}


def recorded_sweep(
    panels: str | Iterable[str] | None = None,
    *,
    strategies: Sequence[str] = COMPARED,
    scale: Scale = SHORT,
    seed: int = 0,
) -> pd.DataFrame:
    """Run the replays of panels on the recorded data of this machine."""
    # The prices make the server as slow, by its own warm-up at the reference, as those of `sweep` do.
    rows, data = [], []
    for axis, load in dict.fromkeys((panel.axis, panel.load) for panel in find_panels(panels)):
        points = axis.points_at(load)
        try:
            for x in points:
                recorded_setting_of(axis, x, load, scale)
        except CepError:
            continue
        for x in points:
            at = {"stream": axis.data, "by": axis.by, "load": load, "x": str(x)}
            for name in strategies:
                found = measure(axis, x, load, name, seed, scale, recorded=True)
                rows.append({**at, "strategy": name, **found})
                data.append(RECORDED[axis.data])
    return _with_scale(pd.DataFrame(rows), data, scale)


def point_of(axis: PaperAxis, text: str) -> str | int | float:
    """Return the point of an axis that has this text."""
    texts = {str(point): point for point in axis.points}
    if text not in texts:
        raise CepError(f"{axis.data}, {axis.by}: no point {text!r}.{nearest(text, texts)}")
    return texts[text]


# --- tables -----------------------------------------------------------------------------------------------


def panel_table(results: pd.DataFrame, panel: PaperPanel) -> pd.DataFrame:
    """Return the rows of a panel: ``data``, ``strategy``, ``x`` (a number), ``point``, and ``value``."""
    # The number on the x axis is the one of the paper: the average window size in events, the number of event
    # types, the average number of partial matches, or the overload rate in percent. It is a mean over seeds,
    # in three digits. ``attrs`` has the title, the measure and the kind of the axis, for a plot.
    axis = panel.axis
    is_own = (results["stream"] == axis.data) & (results["by"] == axis.by) & (results["load"] == panel.load)
    own = results[is_own]
    x = _numbers(own, axis)
    place = {str(point): number for number, point in enumerate(axis.points)}
    made = pd.DataFrame(
        {
            "data": own["data"], "strategy": own["strategy"], "x": own["x"].astype(str).map(x),
            "point": own["x"].astype(str), "value": own[panel.measure].astype(float),
        }
    )  # fmt: skip
    made = made.iloc[np.argsort(made["point"].map(place).to_numpy(), kind="stable")].reset_index(drop=True)
    made.attrs.update(title=panel.title, measure=panel.measure, by=axis.by)
    return made


def _numbers(own: pd.DataFrame, axis: PaperAxis) -> dict[str, float]:
    """Return the number on the x axis of each point."""
    points = own["x"].astype(str)
    if axis.by == LENGTH:
        return {str(point): float(point) for point in axis.points}
    if axis.by == OVERLOAD:
        return {str(point): round(100 * float(point), 9) for point in axis.points}
    column = "window_events" if axis.by == WINDOW else "partial_matches_per_window"
    means = own[column].astype(float).groupby(points).mean()
    return {str(point): float(f"{value:.3g}") for point, value in means.items()}
