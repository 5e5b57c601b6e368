"""Sliders for the constants of a query."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from cepkit.plots.stills.tables import lines_svg, table_svg
from cepkit.widgets.base import View, browser_half, counted


class SliderPanel(View):
    """Sliders for the constants of a query.

    Parameters
    ----------
    sliders : list of dict
        ``id``; ``label``: the place of the constant, such as ``"price >"``; ``value``, ``low``, ``high``;
        ``step``, or None for any value; ``unit``; ``text``: the value in Python's notation.
    moved : dict
        Written by the browser, at most once per frame of the screen: ``id``, ``value`` and ``n``, which
        counts the movements of this panel. Empty before the first movement.
    """

    _esm, _css = browser_half("slider_panel")

    # Python -> browser
    sliders = traitlets.List(traitlets.Dict()).tag(sync=True)
    # browser -> Python
    moved = traitlets.Dict().tag(sync=True)

    def __init__(self, *, sliders: Sequence[dict] = (), moved: dict | None = None) -> None:
        super().__init__(sliders=list(sliders), moved=moved or {})

    def _summary(self) -> str:
        return counted(len(self.sliders), "slider")

    def _still(self) -> str:
        if not self.sliders:
            return lines_svg(["No constants to move."])
        rows = [
            (
                slider.get("label", slider["id"]),
                slider.get("text") or f"{slider['value']:g}",
                slider.get("unit") or "",
                f"{slider['low']:g} … {slider['high']:g}",
            )
            for slider in self.sliders
        ]
        return table_svg(("constant", "value", "unit", "range"), rows, right=(1, 3))
