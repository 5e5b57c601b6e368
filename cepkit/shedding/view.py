"""The Python half of the utility view: utilities as a shaded table and a distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import traitlets

from cepkit.shedding.plots import ONE_COLUMN, share_up_to, utilities, utility_figure, utility_svg
from cepkit.widgets.base import Floats, View, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go


class UtilityView(View):
    """The utility of events by type and position in the window, or of partial matches by state.

    The table has a row per type or state and a cell per position. A higher utility is darker, and the cell
    shows its number if there is room. The bars below the table count the events or partial matches with each
    utility. The line shows the share of events with this utility or a lower one. Click a cell, the name of a
    row or a bar to select it. The bars then count the selected row only, and a frame marks the cells in the
    range of the selected bar. The arrow keys move between cells, and Escape clears the selection.

    Parameters
    ----------
    frame : pandas.DataFrame
        A row per cell with ``utility``, at least one of ``event_type`` and ``state``, and optionally
        ``position`` and ``n``. `cepkit.shedding.plots.utilities` describes the columns and the errors.
    threshold : float, optional
        Load shedding would drop events with this utility or a lower one. The line shows the threshold, and
        you can assign it later.
    title : str
        Heading of the view.

    Notes
    -----
    ``selected`` is None or a dict with these keys:

    * row: ``row`` (its label), and ``state``, ``event_type`` or both;
    * cell: those of its row, ``position`` ([from, to]), ``utility`` and ``n``;
    * bar: ``utility`` ([from, to]) and ``n``.

    Examples
    --------
    >>> frame = pd.DataFrame({"event_type": ["A", "A", "B"], "position": [0, 1, 0], "utility": [90, 10, 40]})
    >>> UtilityView(frame, threshold=40)
    UtilityView(2 rows, 2 positions, 3 seen)
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
            n=made.n, n_of_utility=made.n_of_utility,
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
