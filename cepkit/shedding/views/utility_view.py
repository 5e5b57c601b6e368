"""The Python half of the utility view: utilities as a shaded table and a distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import traitlets

from cepkit.errors import CepError
from cepkit.shedding.plots.utility import ONE_COLUMN, share_up_to, utilities, utility_figure, utility_svg
from cepkit.shedding.simulation.replay import ReplayResult
from cepkit.widgets.base import Floats, View, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go


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
        made = utilities(frame)
        self._made, self._frame = made, frame
        left_out = ""
        if made.n_rows_left_out:
            left_out = f"{made.n_rows_left_out:,} rows with the smallest counts are left out"
        super().__init__(
            title=title, rows=list(made.rows), position_edges=made.edges.tolist(),
            position_label="position in the window" if made.has_position else ONE_COLUMN,
            has_position=made.has_position, utility_edges=made.utility_edges.tolist(), mean=made.mean,
            n=made.n, n_of_utility=made.n_of_utility, n_dropped=made.n_dropped,
            threshold=None if threshold is None else float(threshold),
            share=0.0 if threshold is None else share_up_to(made, threshold), note=left_out,
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
                    "event_type": name, "utility": np.arange(len(one["seen"])) / max(1, len(one["seen"]) - 1),
                    "n": one["seen"], "dropped": one["dropped"],
                }
            )
            for name, one in of_type.items()
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
    limits = [one for one in report.get("last_thresholds", ()) if one >= 0]
    return frame, float(max(limits)) if limits else None
