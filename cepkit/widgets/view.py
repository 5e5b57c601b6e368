"""Base class of the views of results, and short marks for names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.widgets.base import View

if TYPE_CHECKING:
    import plotly.graph_objects as go


class ResultView(View):
    """A view of a result. A page without a kernel shows its static picture."""

    def svg(self) -> str:
        """Return the view as SVG text."""
        raise NotImplementedError

    def figure(self) -> go.Figure:
        """Return the view as a plotly figure."""
        raise NotImplementedError

    def _still(self) -> str:
        return self.svg()


def marks_of(names: list[str]) -> list[str]:
    """Return a short, unique mark for each name, for places without room for names.

    Examples
    --------
    >>> marks_of(["b", "c+", "delivery"]), marks_of(["item_a", "item_b"])
    (['b', 'c+', 'de'], ['1', '2'])
    """
    short = [name[:2] for name in names]
    return short if len(set(short)) == len(short) else [str(n) for n in range(1, len(names) + 1)]
