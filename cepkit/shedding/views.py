"""Interactive views of replays (latency, backlog, drops) and of utilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import traitlets

from cepkit.errors import CepError
from cepkit.shedding.plots.load import (
    ARRIVALS,
    BINS,
    ROWS,
    TIME,
    LoadHistory,
    load_figure,
    load_in_bins,
    load_svg,
)
from cepkit.shedding.plots.utility import ONE_COLUMN, share_up_to, utilities, utility_figure, utility_svg
from cepkit.shedding.simulation.replay import ReplayResult
from cepkit.widgets.base import Floats, View, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go


# The Python half of the load view: latency and backlog over time, and the drops of each event type.


class LoadView(View):
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

    _esm, _css = browser_half("load_view", "time_window.js")
    # Python -> browser
    title = traitlets.Unicode("").tag(sync=True)
    x_label = traitlets.Unicode("").tag(sync=True)
    unit = traitlets.Unicode("ns").tag(sync=True)
    unit_ns = traitlets.Float(1.0).tag(sync=True)  # size of the unit
    extent = traitlets.List(traitlets.Float()).tag(sync=True)  # start and end of the run
    shown = traitlets.List(traitlets.Float()).tag(sync=True)  # the part of the time in the columns
    lines = traitlets.List(traitlets.Dict()).tag(sync=True)  # row, label, most, bound
    types = traitlets.List(traitlets.Dict()).tag(sync=True)  # row, arrived, dropped
    peaks = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)  # start and end of each
    n_bins = traitlets.Int(BINS).tag(sync=True)
    mean = Floats().tag(sync=True)  # (lines, n_bins); NaN: nothing to show
    greatest = Floats().tag(sync=True)  # (lines, n_bins)
    arrived = Floats().tag(sync=True)  # (types, n_bins)
    dropped = Floats().tag(sync=True)  # (types, n_bins)
    version = traitlets.Int(0).tag(sync=True)  # counts changes of the columns
    # browser -> Python
    window = traitlets.List(traitlets.Float()).tag(sync=True)
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, result: ReplayResult, *, by: str = TIME, title: str | None = None):
        if not isinstance(result, ReplayResult):
            raise CepError(f"LoadView: expected the result of replay, got {type(result).__name__}")
        self._result, self._history = result, history_of(result, by)
        history = self._history
        unit, size = history.unit
        bound = history.latency_bound if isfinite(history.latency_bound) else None
        super().__init__(
            title=repr(result).partition("\n")[0] if title is None else title, x_label=history.label,
            unit=unit, unit_ns=size, extent=list(history.extent), window=list(history.extent),
            lines=[
                {
                    "row": name, "label": label, "most": float(np.max(history.values[name], initial=0.0)),
                    "bound": bound if name == "latency" else None,
                }
                for name, label in ROWS.items()
            ],
            types=[
                {"row": name, "arrived": len(at), "dropped": len(history.dropped[name])}
                for name, at in history.arrived.items()
            ],
            peaks=[list(map(float, peak)) for peak in history.peaks],
            **self._columns(*history.extent),
        )  # fmt: skip
        self.observe(self._look_closer, "window")

    def _columns(self, low: float, high: float) -> dict[str, Any]:
        bins = load_in_bins(self._history, low, high)
        columns = {name: getattr(bins, name) for name in ("mean", "greatest", "arrived", "dropped")}
        return {**columns, "shown": [low, high], "n_bins": bins.mean.shape[-1]}

    def _look_closer(self, change) -> None:
        low, high = change["new"] if len(change["new"]) == 2 else self.extent
        low, high = max(low, self.extent[0]), min(high, self.extent[1])
        if not high > low:
            return
        with self.hold_sync():
            for name, value in self._columns(low, high).items():
                setattr(self, name, value)
            self.version += 1

    def figure(self) -> go.Figure:
        """Return the whole run as a plotly figure."""
        return load_figure(self._history, title=self.title)

    def to_frame(self) -> pd.DataFrame:
        """Return the state after each event that left the buffers; see `ReplayResult.series`."""
        return self._result.series()

    def svg(self) -> str:
        """Return the whole run as SVG text."""
        return load_svg(self._history, title=self.title)

    def _still(self) -> str:
        return self.svg()

    def _summary(self) -> str:
        n = sum(len(at) for at in self._history.arrived.values())
        return f"{n:,} events, {self._result.n_dropped:,} dropped, {len(self.peaks)} peaks"


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


class UtilityView(View):
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

    _esm, _css = browser_half("utility_view")
    # Python -> browser
    title = traitlets.Unicode("").tag(sync=True)
    rows = traitlets.List(traitlets.Dict()).tag(sync=True)  # label, state, event_type
    position_edges = traitlets.List(traitlets.Float()).tag(sync=True)
    position_label = traitlets.Unicode("").tag(sync=True)
    has_position = traitlets.Bool(True).tag(sync=True)
    utility_edges = traitlets.List(traitlets.Float()).tag(sync=True)
    mean = Floats().tag(sync=True)  # (rows, positions); NaN: no such cell
    n = Floats().tag(sync=True)  # (rows, positions)
    n_of_utility = Floats().tag(sync=True)  # (rows, utilities)
    n_dropped = Floats().tag(sync=True)  # (rows, utilities); all 0: nothing was dropped
    threshold = traitlets.Float(None, allow_none=True).tag(sync=True)
    share = traitlets.Float(0.0).tag(sync=True)  # events with a utility up to the threshold, 0 to 1
    note = traitlets.Unicode("").tag(sync=True)
    version = traitlets.Int(0).tag(sync=True)  # counts changes of the columns
    # browser -> Python
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, frame: pd.DataFrame, *, threshold: float | None = None, title: str = "Utilities"):
        table = utilities(frame)
        self._made, self._frame = table, frame
        left_out = ""
        if table.n_rows_left_out:
            left_out = f"{table.n_rows_left_out:,} rows with the smallest counts are left out"
        super().__init__(
            title=title, rows=list(table.rows), position_edges=table.edges.tolist(),
            position_label="position in the window" if table.has_position else ONE_COLUMN,
            has_position=table.has_position, utility_edges=table.utility_edges.tolist(), mean=table.mean,
            n=table.n, n_of_utility=table.n_of_utility, n_dropped=table.n_dropped,
            threshold=None if threshold is None else float(threshold),
            share=0.0 if threshold is None else share_up_to(table, threshold), note=left_out,
        )  # fmt: skip
        self.observe(self._shed, "threshold")

    def figure(self) -> go.Figure:
        """Return the table and the distribution as a plotly figure."""
        return utility_figure(self._made, threshold=self.threshold, title=self.title)

    def to_frame(self) -> pd.DataFrame:
        """Return the frame that the view shows."""
        return self._frame

    def _still(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """Return the table and the distribution of all utilities as SVG text."""
        return utility_svg(self._made, threshold=self.threshold, title=self.title)

    def _summary(self) -> str:
        positions = f"{len(self.position_edges) - 1} positions" if self.has_position else "no positions"
        return f"{len(self.rows)} rows, {positions}, {self._made.n_total:,g} seen"

    def _shed(self, change) -> None:
        self.share = 0.0 if change["new"] is None else share_up_to(self._made, change["new"])


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


def reported_utilities(
    report: Mapping[str, Any], types: Sequence[str]
) -> tuple[pd.DataFrame | None, float | None]:
    """Return the utilities in a report of a shedder as a frame for views, and its threshold."""
    if isinstance(of_type := report.get("types"), Mapping):
        parts = [
            pd.DataFrame(
                {
                    "event_type": name,
                    "utility": np.arange(len(counts["seen"])) / max(1, len(counts["seen"]) - 1),
                    "n": counts["seen"], "dropped": counts["dropped"],
                }
            )
            for name, counts in of_type.items()
        ]  # fmt: skip
        frame = pd.concat(parts, ignore_index=True)
        # Events that are dropped at a recomputation may have been counted with another utility.
        frame["n"] = np.maximum(frame["n"], frame["dropped"])
        frame = frame[frame["n"] > 0].reset_index(drop=True)
        gone = frame.loc[frame["dropped"] > 0, "utility"]
        return frame, float(gone.max()) if len(gone) else None
    if (table := report.get("table")) is None:
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
