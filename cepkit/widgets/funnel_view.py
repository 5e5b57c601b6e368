"""The number of partial matches that reach each step of a query."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from cepkit.plots.stills.tables import lines_svg, table_svg
from cepkit.widgets.base import View, browser_half, counted


class FunnelView(View):
    """The steps of a query with the number of partial matches that reach each.

    Parameters
    ----------
    stages : list of dict
        ``label``; ``n``: the count as text; ``share``: length of the bar, from 0 to 1; ``selectivity``: the
        share of the step before that this step keeps, or None; ``note``: shown for the selected step.
    busy : bool
        Whether new counts are being computed; the old ones stay visible.
    selected : int or None
        Written by both sides: the selected step, from 0.
    """

    _esm, _css = browser_half("funnel_view")

    # Python -> browser
    stages = traitlets.List(traitlets.Dict()).tag(sync=True)
    busy = traitlets.Bool().tag(sync=True)
    # browser -> Python
    selected = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(
        self, *, stages: Sequence[dict] = (), busy: bool = False, selected: int | None = None
    ) -> None:
        super().__init__(stages=list(stages), busy=busy, selected=selected)

    def _summary(self) -> str:
        return counted(len(self.stages), "step")

    def _still(self) -> str:
        if not self.stages:
            return lines_svg(["No steps yet."])
        rows = [
            (
                stage.get("label", ""),
                stage.get("n", ""),
                f"{100 * stage.get('share', 0.0):.3g} %",
                "" if stage.get("selectivity") is None else f"{stage['selectivity']:.3g}",
                stage.get("note", ""),
            )
            for stage in self.stages
        ]
        header = ("step", "partial matches", "share", "selectivity", "note")
        return table_svg(header, rows, right=(1, 2, 3))
