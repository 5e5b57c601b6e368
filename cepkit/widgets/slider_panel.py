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
        ``step``, or None for any value; ``unit``; ``text``: the value in Python's notation; ``stops``: all
        values of a logarithmic slider, rising, or an empty list.
    locked : str
        Why no slider can be moved now. Empty if they can.
    moved : dict
        Written by the browser, at most once per frame of the screen: ``id``, ``value`` and ``n``, which
        counts the movements of this panel. Empty before the first movement.
    gesture : int
        Written by the browser: the number of the drag that ``moved`` belongs to; 0 outside of drags.
    wanted_step : dict
        Written by the browser: ``what`` is ``"undo"`` or ``"redo"``, and ``n`` counts the wishes.
    """

    _esm, _css = browser_half("slider_panel")

    # Python -> browser
    sliders = traitlets.List(traitlets.Dict()).tag(sync=True)
    locked = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    moved = traitlets.Dict().tag(sync=True)
    gesture = traitlets.Int().tag(sync=True)
    wanted_step = traitlets.Dict().tag(sync=True)

    def __init__(
        self, *, sliders: Sequence[dict] = (), moved: dict | None = None, gesture: int = 0,
        wanted_step: dict | None = None, locked: str = "",
    ) -> None:  # fmt: skip
        super().__init__(
            sliders=list(sliders), moved=moved or {}, gesture=gesture, wanted_step=wanted_step or {},
            locked=locked,
        )  # fmt: skip

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
