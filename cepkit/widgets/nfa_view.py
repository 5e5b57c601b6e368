"""The automaton of a query, with its live partial matches and the path of the selected match."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traitlets

from cepkit.plots.automata.layered import automaton_picture
from cepkit.plots.stills.tables import lines_svg
from cepkit.widgets.base import View, browser_half, counted

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


class NfaView(View):
    """An automaton, drawn at the places that Python computed.

    Parameters
    ----------
    states : list of dict
        ``id`` (int or str), ``label``, ``x`` and ``y`` of the centre in pixels, ``is_start``, ``is_final``,
        optionally ``tooltip``. A circle has a radius of 17 pixels; the outer circle of a final state has 21.
        An arrow of 26 pixels points at the start from the left.
    transitions : list of dict
        ``source``, ``target``: ids; ``label``, which may have several lines; ``path``: an SVG path that ends
        7 pixels before the circle, where the widget draws the head of the arrow; ``x``, ``y``: centre of the
        last line of the label; optionally ``tooltip``.
    width, height : float
        Size of the drawing; its upper left corner is (0, 0).
    live : list of dict
        ``state``: id, ``n``: number of live partial matches there, an int or a text.
    lit : list
        Ids of the states that the selected match passes.
    told : str
        Text about the selected state, shown below the picture.
    selected : int, str or None
        Written by both sides: id of the selected state.
    conditions : list of dict
        ``name`` and ``text``: what the names on the arrows mean, shown below the picture.
    is_alone : bool
        Whether there is no editor, timeline or stepper that reacts to the view.
    """

    _esm, _css = browser_half("nfa_view")

    # Python -> browser
    states = traitlets.List(traitlets.Dict()).tag(sync=True)
    transitions = traitlets.List(traitlets.Dict()).tag(sync=True)
    width = traitlets.Float().tag(sync=True)
    height = traitlets.Float().tag(sync=True)
    live = traitlets.List(traitlets.Dict()).tag(sync=True)
    lit = traitlets.List().tag(sync=True)
    told = traitlets.Unicode().tag(sync=True)
    conditions = traitlets.List(traitlets.Dict()).tag(sync=True)
    is_alone = traitlets.Bool(False).tag(sync=True)
    # browser -> Python
    selected = traitlets.Union(
        [traitlets.Int(), traitlets.Unicode()], default_value=None, allow_none=True
    ).tag(sync=True)

    def figure(self) -> go.Figure:
        """Return the picture, with the current live and lit states, as a plotly figure."""
        from cepkit.plots.automata.nfa import nfa_figure

        live = {live_state["state"]: live_state["n"] for live_state in self.live}
        return nfa_figure(self.states, self.transitions, self.width, self.height, live=live, lit=self.lit)

    def svg(self) -> str:
        """Return the picture as SVG text."""
        return self._still()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per transition: ``source``, ``target``, ``label``."""
        import pandas as pd

        return pd.DataFrame(self.transitions, columns=["source", "target", "label"])

    def _summary(self) -> str:
        transitions = counted(len(self.transitions), "transition")
        return f"{counted(len(self.states), 'state')}, {transitions}"

    def _still(self) -> str:
        if not self.states:
            return lines_svg(["No automaton yet."])
        live = {state["state"]: state["n"] for state in self.live}
        return automaton_picture(
            self.states, self.transitions, self.width, self.height, live=live, lit=self.lit,
            conditions=self.conditions,
        )  # fmt: skip
