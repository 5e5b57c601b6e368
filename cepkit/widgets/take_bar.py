"""Buttons that take matches, pictures and code out of an explorer."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from cepkit.plots.stills.tables import lines_svg
from cepkit.widgets.base import View, browser_half


class TakeBar(View):
    """Buttons that download matches and pictures, and copy code.

    Parameters
    ----------
    items : list of dict
        One button each. ``id``; ``title``: its text; ``note``: what it takes; ``copies``: the text that it
        copies, or an empty text for a download; ``locked``: why it cannot be used, or an empty text.
    told : str
        The size of the result in words.
    wanted : dict
        Written by the browser: ``id`` of a download, ``by`` (a name of the page) and ``n``, which counts the
        wishes.

    Notes
    -----
    Python answers a wish by a message with its ``by`` and ``n``: ``file`` and ``mime`` of the buffer that
    comes with it, and a ``note``; or ``error``, a sentence on what is wrong.
    """

    _esm, _css = browser_half("take_bar", "copying.js")

    # Python -> browser
    items = traitlets.List(traitlets.Dict()).tag(sync=True)
    told = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    wanted = traitlets.Dict().tag(sync=True)

    def __init__(self, *, items: Sequence[dict] = (), told: str = "", wanted: dict | None = None) -> None:
        super().__init__(items=list(items), told=told, wanted=wanted or {})

    def _summary(self) -> str:
        return ", ".join([*(one["title"] for one in self.items), *([self.told] if self.told else [])])

    def _still(self) -> str:
        return lines_svg([f"Take away: {self._summary()}"])
