"""The Python half of views that draw a scene: it makes the scene, zooms, and says what is selected."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cepkit.plots.scene import PlotScene, scene_figure, scene_svg, sent
from cepkit.widgets.base import View, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go


class SceneView(View):
    """A view that draws a scene. ``selected`` is None or a dict that says which mark is selected."""

    _esm, _css = browser_half("scene_view")
    # Python -> browser
    title = traitlets.Unicode("").tag(sync=True)
    scene = traitlets.Dict().tag(sync=True)  # see `cepkit.plots.scene.PlotScene`
    frames = traitlets.List().tag(sync=True)  # panel, x0, x1, y0, y1, kind: around what is selected
    extent = traitlets.List(traitlets.Float()).tag(sync=True)  # what zooming out shows; empty: no zoom
    can_turn = traitlets.List(traitlets.Bool()).tag(sync=True)  # pages before and after; empty: no pages
    # browser -> Python
    window = traitlets.List(traitlets.Float()).tag(sync=True)  # the visible part of the extent
    picked = traitlets.List(traitlets.Int()).tag(sync=True)  # panel, item, mark; or -1, row of the table, 0
    turned = traitlets.Dict().tag(sync=True)  # by, n
    selected = traitlets.Dict(default_value=None, allow_none=True)

    def __init__(self, title: str, extent: Sequence[float] = (), **traits: Any):
        super().__init__(title=title, extent=list(extent), window=list(extent), **traits)
        self._light, self._is_picking = None, False
        self._redraw()
        self.observe(self._redraw, ["window", "title"])
        self.observe(self._select, "picked")
        self.observe(self._mark, "selected")

    @abstractmethod
    def _draw(self, window: Sequence[float], chosen: dict | None, *, is_fine: bool) -> PlotScene:
        """Return the scene of a part of the extent; it has fewer marks if it is not fine."""

    def _frames(self, chosen: dict) -> list[list]:
        """Return the frames around what is selected."""
        return []

    def _lit(self, chosen: dict | None) -> Any:
        """Return the part of the selection that changes the scene."""
        return None

    def _pick_row(self, row: int) -> dict | None:
        """Return what a row of the table selects."""
        return None

    def _redraw(self, change: Any = None) -> None:
        low, high = self.window if len(self.window) == 2 else self.extent or (0.0, 1.0)
        if self.extent:
            low, high = max(low, self.extent[0]), min(high, self.extent[1])
            if change is not None and not high > low:
                return
        chosen = self.selected
        self._light, self._shown = self._lit(chosen), self._draw((low, high), chosen, is_fine=True)
        self.scene = sent(self._shown)

    def _select(self, change: Any) -> None:
        if not self._is_picking:
            self._is_picking = True
            try:
                self.selected = self._picked(*change["new"]) if change["new"] else None
            finally:
                self._is_picking = False

    def _picked(self, panel: int, item: int, mark: int) -> dict | None:
        if panel < 0:
            return self._pick_row(item)
        part = self._shown.panels[panel]
        pick = part.pick_lane if item < 0 else part.items[item].pick
        return pick(mark) if pick is not None else None

    def _mark(self, change: Any) -> None:
        chosen = change["new"]
        with self.hold_sync():
            if self._lit(chosen) != self._light:
                self._redraw()
            self.frames = [] if chosen is None else self._frames(chosen)
            if not self._is_picking:  # Python selects, so the browser picked nothing
                self._is_picking, self.picked = True, []
                self._is_picking = False

    def _still_scene(self) -> PlotScene:
        return self._draw(self.extent or (0.0, 1.0), None, is_fine=False)

    def figure(self) -> go.Figure:
        """Return the picture as a plotly figure."""
        return scene_figure(self._still_scene())

    def svg(self) -> str:
        """Return the picture as SVG text."""
        return scene_svg(self._still_scene())

    def _still(self) -> str:
        return self.svg()
