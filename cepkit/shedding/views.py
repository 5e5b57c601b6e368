"""Interactive views of replays (latency, backlog, drops) and of utilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import traitlets

from cepkit.errors import CepError
from cepkit.plots.scene import PlotScene
from cepkit.shedding.plots import (
    ARRIVALS,
    TIME,
    LoadHistory,
    load_scene,
    share_up_to,
    utilities,
    utility_scene,
)
from cepkit.shedding.replay import ReplayResult
from cepkit.widgets.scene_view import SceneView

# The Python half of the load view: latency and backlog over time, and the drops of each event type.


class LoadView(SceneView):
    """Latency, waiting events and partial matches over a replay, and below them the drops of each type.

    Peaks of the arrivals are shaded. A solid line shows the mean of each bin, and a dotted line the greatest
    value. The dashed line is the latency bound. In the strip of a type, a darker cell means that a larger
    share of the events that arrived then was dropped. Drag over a part of the time to see it in finer bins,
    and double-click to see the whole run. The left and right keys move the time, up and down change the row,
    ``+``, ``-`` and ``0`` zoom, and Escape clears the selection.

    ``selected`` is None or a dict with ``row``, ``start`` and ``end`` of the bin. Row ``"latency"``,
    ``"waiting"`` or ``"partial_matches"`` has ``mean`` and ``greatest``, and a type has ``arrived`` and
    ``dropped``.
    """

    def __init__(self, result: ReplayResult, *, by: str = TIME, title: str | None = None):
        if not isinstance(result, ReplayResult):
            raise CepError(f"LoadView: expected the result of replay, got {type(result).__name__}")
        self._result, self._history = result, history_of(result, by)
        title = repr(result).partition("\n")[0] if title is None else title
        super().__init__(title, self._history.extent)

    def _draw(self, window: Sequence[float], chosen: dict | None, *, is_fine: bool) -> PlotScene:
        return load_scene(self._history, window, title=self.title)

    def _frames(self, chosen: dict) -> list[list]:
        middle = (chosen["start"] + chosen["end"]) / 2
        panels = enumerate(self._shown.panels)
        return [[p, middle, middle, panel.y.low, panel.y.high, "cursor"] for p, panel in panels]

    def to_frame(self) -> pd.DataFrame:
        """Return the state after each event that left the buffers; see `ReplayResult.series`."""
        return self._result.series()

    def _summary(self) -> str:
        n = sum(len(at) for at in self._history.arrived.values())
        return f"{n:,} events, {self._result.n_dropped:,} dropped, {len(self._history.peaks)} peaks"


def history_of(result: ReplayResult, by: str = TIME) -> LoadHistory:
    """Return what happened in a replay after its warm-up, for plots."""
    if by not in (TIME, ARRIVALS):
        raise CepError(f"by={by!r} is not known. There are {TIME!r} and {ARRIVALS!r}")
    run, scene = result.run, result.run.scene
    positions = scene.positions[scene.n_warm :]
    arrivals = run.arrival_of_event
    times = np.sort(arrivals[positions])

    def place(seconds: np.ndarray) -> np.ndarray:
        if by == ARRIVALS:
            return np.searchsorted(times, seconds, side="right").astype(np.float64)
        return seconds * 1e9

    at_event = np.full(len(arrivals), np.nan)
    at_event[positions] = np.arange(1, len(positions) + 1) if by == ARRIVALS else arrivals[positions] * 1e9
    times_found, latency = [], []
    for found_matches in run.found:
        is_counted = found_matches.block.last >= scene.end_of_warm_up
        latency.append(found_matches.latency[is_counted])
        times_found.append(arrivals[found_matches.block.last[is_counted]] + latency[-1])
    found_at, latencies = np.concatenate(times_found), np.concatenate(latency)
    order = np.argsort(found_at, kind="stable")
    state = place(run.series["time"])
    rows = {
        "latency": (place(found_at[order]), latencies[order]),
        "waiting": (state, np.asarray(run.series["waiting"], np.float64)),
        "partial_matches": (state, np.asarray(run.series["partial_matches"], np.float64)),
    }
    first = 0.0 if by == ARRIVALS else float(times[0]) * 1e9
    last = float(len(positions)) if by == ARRIVALS else max(run.seconds, float(times[-1])) * 1e9
    bounds = scene.arrivals.peaks(len(positions))
    peaks = [tuple(at_event[positions[[start, stop - 1]]].tolist()) for start, stop in bounds if start < stop]
    number, dropped = scene.type_of_event, np.sort(run.dropped)
    return LoadHistory(
        by, (first, last),
        {name: at for name, (at, _) in rows.items()}, {name: values for name, (_, values) in rows.items()},
        {name: at_event[positions[number[positions] == k]] for k, name in enumerate(scene.types)},
        {name: at_event[dropped[number[dropped] == k]] for k, name in enumerate(scene.types)},
        peaks, scene.latency_bound,
    )  # fmt: skip


# The Python half of the utility view: utilities as a shaded table and a distribution.


class UtilityView(SceneView):
    """The utility of events by type and position in the window, or of partial matches by state.

    The table has a row per type or state and a cell per position. A higher utility is darker, and the cell
    shows its number if there is room. The bars below the table count the events or partial matches with each
    utility. The line shows the share of events with this utility or a lower one. Click a cell, the name of a
    row or a bar to select it. The bars then count the selected row only, and a frame marks the cells in the
    range of the selected bar. Orange parts of bars were dropped. The arrow keys move between cells, and
    Escape clears the selection.

    ``selected`` is None or a dict with these keys: * row: ``row`` (its label), and ``state``,
    ``event_type`` or both; * cell: those of its row, ``position`` ([from, to]), ``utility`` and ``n``; *
    bar: ``utility`` ([from, to]) and ``n``.
    """

    threshold = traitlets.Float(None, allow_none=True)

    def __init__(self, frame: pd.DataFrame, *, threshold: float | None = None, title: str = "Utilities"):
        self._table, self._frame = utilities(frame), frame
        super().__init__(title, threshold=None if threshold is None else float(threshold))
        self.observe(self._redraw, "threshold")

    @property
    def share(self) -> float:
        """The share of events or partial matches with a utility up to the threshold."""
        return 0.0 if self.threshold is None else share_up_to(self._table, self.threshold)

    def _lit(self, chosen: dict | None) -> int | None:
        labels = [entry["label"] for entry in self._table.rows]
        return labels.index(chosen["row"]) if chosen is not None and "row" in chosen else None

    def _draw(self, window: Sequence[float], chosen: dict | None, *, is_fine: bool) -> PlotScene:
        row = self._lit(chosen)
        return utility_scene(self._table, threshold=self.threshold, title=self.title, row=row)

    def _frames(self, chosen: dict) -> list[list]:
        row, table = self._lit(chosen), self._table
        if "position" in chosen:
            return [[0, *chosen["position"], row + 0.46, row - 0.46, "on"]]
        if row is not None:
            return []
        low, high = chosen["utility"]
        inside = (table.mean >= low) & ((table.mean < high) | (high >= table.utility_edges[-1]))
        cells = [
            [0, *table.edges[c : c + 2].tolist(), r + 0.46, r - 0.46, "on"]
            for r, c in zip(*(places.tolist() for places in np.nonzero(inside)), strict=True)
        ]
        return [[1, low, high, 0.0, chosen["n"], "on"], *cells]

    def to_frame(self) -> pd.DataFrame:
        """Return the frame that the view shows."""
        return self._frame

    def _summary(self) -> str:
        table = self._table
        positions = f"{len(table.edges) - 1} positions" if table.has_position else "no positions"
        return f"{len(table.rows)} rows, {positions}, {table.n_total:,g} seen"


def utility_view_of(result: ReplayResult, *, title: str | None = None, pattern: int = 0) -> UtilityView:
    """Return the utilities that the shedder of a replay has used, with what it dropped."""
    run = result.run
    if not 0 <= pattern < len(run.report):
        raise CepError(f"pattern={pattern!r}: the replay has {len(run.report)} patterns, from 0")
    frame, threshold = reported_utilities(run.report[pattern], run.scene.trees[pattern].types)
    if frame is None:
        raise CepError(
            f"view: strategy {run.strategy.name!r} reports no utilities. DARLING, eSPICE and hSPICE do"
        )
    return UtilityView(frame, threshold=threshold, title=run.strategy.name if title is None else title)


def _utilities_of_types(counts_of_type: Mapping[str, Any]) -> tuple[pd.DataFrame, float | None]:
    """Return the utilities of event types as a frame, and the greatest one of a dropped event."""
    parts = []
    for name, counts in counts_of_type.items():
        seen = counts["seen"]
        utility = np.arange(len(seen)) / max(1, len(seen) - 1)
        parts.append({"event_type": name, "utility": utility, "n": seen, "dropped": counts["dropped"]})
    frame = pd.concat(map(pd.DataFrame, parts), ignore_index=True)
    # Events that are dropped at a recomputation may have been counted with another utility.
    frame["n"] = np.maximum(frame["n"], frame["dropped"])
    frame = frame[frame["n"] > 0].reset_index(drop=True)
    dropped = frame.loc[frame["dropped"] > 0, "utility"]
    return frame, float(dropped.max()) if len(dropped) else None


def reported_utilities(
    report: Mapping[str, Any], types: Sequence[str]
) -> tuple[pd.DataFrame | None, float | None]:
    """Return the utilities in a report of a shedder as a frame for views, and its threshold."""
    counts_of_type, table = report.get("types"), report.get("table")
    if isinstance(counts_of_type, Mapping):
        return _utilities_of_types(counts_of_type)
    if table is None:
        return None, None
    utility, expected = np.asarray(table["utility"]), np.asarray(table["expected"])
    kinds, bins, states = np.nonzero(expected > 0)
    frame = pd.DataFrame(
        {
            "event_type": np.array(types, object)[kinds],
            "position": bins * float(table.get("bin_size", 1.0)),
            "utility": utility[kinds, bins, states], "n": expected[kinds, bins, states],
        }
    )  # fmt: skip
    if utility.shape[2] > 1:
        frame["state"] = states
    limits = [counts for counts in report.get("last_thresholds", ()) if counts >= 0]
    return frame, float(max(limits)) if limits else None
