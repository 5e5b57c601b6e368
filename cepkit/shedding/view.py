"""Utilities by which load is shed, as a table in shades and a distribution: the kernel half."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import traitlets

from cepkit._shipped import shipped
from cepkit.shedding.plots import ONE_COLUMN, share_up_to, utilities, utility_figure, utility_svg
from cepkit.widgets.base import Floats
from cepkit.widgets.view import ResultView

if TYPE_CHECKING:
    import plotly.graph_objects as go


class UtilityView(ResultView):
    """The utility of events by type and position in the window, or of partial matches by state.

    Above, a row per type or state and a cell per position, the darker the higher, its number in it where
    there is room; below, how many events or partial matches have which utility, and the share of them up to
    it. A click on a cell, a row's name or a bar selects it: bars are then those of the row, and cells in the
    bar's range are framed. Keys: arrows go from cell to cell, Escape selects nothing.

    Parameters
    ----------
    frame : pandas.DataFrame
        A row per cell: ``utility``; ``event_type``, ``state`` or both; optional ``position`` and ``n``. See
        `cepkit.shedding.plots.utilities`, which says what they mean and what is refused.
    threshold : float, optional
        Utility up to which load would be shed, drawn as a line; it can be assigned later.
    title : str
        A line above.

    Notes
    -----
    ``selected`` is None or a dict: ``row`` (its label) with ``state`` and ``event_type`` as there are; of a
    cell also ``position`` ([from, to]), ``utility`` and ``n``; of a bar ``utility`` ([from, to]) and ``n``
    alone.

    Examples
    --------
    >>> frame = pd.DataFrame({"event_type": ["A", "A", "B"], "position": [0, 1, 0], "utility": [90, 10, 40]})
    >>> UtilityView(frame, threshold=40)
    UtilityView(2 rows, 2 positions, 3 seen)
    """

    _esm = shipped("widgets", "utility_view.js")
    _css = shipped("widgets", "utility_view.css")
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
    share = traitlets.Float(0.0).tag(sync=True)  # of all that is seen, up to the threshold
    note = traitlets.Unicode("").tag(sync=True)
    version = traitlets.Int(0).tag(sync=True)  # of the columns
    # browser -> Python
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, frame: pd.DataFrame, *, threshold: float | None = None, title: str = ""):
        made = utilities(frame)
        self._made, self._frame = made, frame
        left_out = ""
        if made.n_rows_left_out:
            left_out = f"{made.n_rows_left_out:,} rows with least behind them are left out"
        super().__init__(
            title=title,
            rows=list(made.rows),
            position_edges=made.edges.tolist(),
            position_label="position in the window" if made.has_position else ONE_COLUMN,
            has_position=made.has_position,
            utility_edges=made.utility_edges.tolist(),
            mean=made.mean,
            n=made.n,
            n_of_utility=made.n_of_utility,
            threshold=None if threshold is None else float(threshold),
            share=0.0 if threshold is None else share_up_to(made, threshold),
            note=left_out,
        )
        self.observe(self._shed, "threshold")

    def figure(self) -> go.Figure:
        """Return the table and the distribution as a plotly figure."""
        return utility_figure(self._made, threshold=self.threshold, title=self.title or None)

    def to_frame(self) -> pd.DataFrame:
        """Return the frame that the view was made of."""
        return self._frame

    def svg(self) -> str:
        """Return the table and the distribution of all its utilities as SVG text."""
        return utility_svg(self._made, threshold=self.threshold, title=self.title)

    def _summary(self) -> str:
        positions = f"{len(self.position_edges) - 1} positions" if self.has_position else "no positions"
        return f"{len(self.rows)} rows, {positions}, {self._made.n_total:,g} seen"

    def _shed(self, change) -> None:
        self.share = 0.0 if change["new"] is None else share_up_to(self._made, change["new"])
