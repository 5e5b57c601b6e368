"""The automaton of a query with its layout: for a widget, as SVG text, and as a plotly figure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from cepkit.compile.regex.automaton import States
from cepkit.language.sequences.branches import Branch
from cepkit.plots import theme
from cepkit.plots.automata.automaton import state_tooltip
from cepkit.plots.automata.layered import (
    ARROW,
    LINE_HEIGHT,
    RADIUS,
    RING,
    START_ARROW,
    DrawnEdge,
    StatePlaces,
    automaton_svg,
    draw_edges,
    extent,
    live_words,
    places,
)
from cepkit.plots.stills.png import still_bundle
from cepkit.plots.theme import escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True, repr=False)
class NfaPicture:
    """An automaton with the places of its states and edges; shows itself in notebooks."""

    automaton: States  # the automaton; pictures are readable up to about 30 states
    # Text of each predicate, for the tooltips of edges.
    define: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] | None = None  # texts in the states; None: their numbers
    title: str = ""  # A line above the picture

    @cached_property
    def _placed(self) -> StatePlaces:
        """The places, moved so that the picture begins at (0, 0)."""
        state_places = places(self.automaton)
        left, top, *_ = extent(state_places)
        return replace(
            state_places,
            y_of_stop=tuple(y - top for y in state_places.y_of_stop),
            left_of_column=tuple(x - left for x in state_places.left_of_column),
            right_of_column=tuple(x - left for x in state_places.right_of_column),
        )

    @cached_property
    def _edges(self) -> list[DrawnEdge]:
        return draw_edges(self._placed)

    def traits(self) -> dict:
        """Return the values of the widget's traits."""
        placed, automaton = self._placed, self.automaton
        states = []
        for state in range(automaton.n_states):
            x, y = placed.centre(state)
            states.append(
                {
                    "id": state,
                    "label": str(state) if self.labels is None else self.labels[state],
                    "x": round(x, 1),
                    "y": round(y, 1),
                    "is_start": state == 0,
                    "is_final": state in automaton.accepting,
                    "tooltip": state_tooltip(automaton, state),
                }
            )
        transitions = [
            {
                "source": drawn.edge.source,
                "target": drawn.edge.target,
                "label": "\n".join(drawn.edge.label_lines()),
                "path": drawn.path,
                "x": round(drawn.label_at[0], 1),
                "y": round(drawn.label_at[1], 1),
                "tooltip": drawn.edge.tooltip(self.define),
            }
            for drawn in self._edges
        ]
        _, _, right, bottom = extent(placed)
        return {
            "states": states,
            "transitions": transitions,
            "width": round(right, 1),
            # with room for the number of live partial matches
            "height": round(bottom + LINE_HEIGHT, 1),
        }

    def svg(self, live: Mapping[int, int] | None = None, lit: Collection[int] = ()) -> str:
        """Return the picture as SVG text."""
        return automaton_svg(self.automaton, self.define, title=self.title or None, live=live, lit=lit)

    def figure(self, live: Mapping[int, int] | None = None, lit: Collection[int] = ()) -> go.Figure:
        """Return the picture as a plotly figure; the arguments are those of `svg`."""
        return nfa_figure(**self.traits(), live=live, lit=lit, title=self.title)

    def __repr__(self) -> str:
        return f"NfaPicture({self.automaton.n_states} states, {len(self._edges)} transitions)"

    def _repr_mimebundle_(self, **keywords):
        return still_bundle(self.svg(), repr(self))


def nfa_figure(
    states: Sequence[Mapping], transitions: Sequence[Mapping], width: float, height: float, *,
    live: Mapping[int, int] | None = None, lit: Collection[int] = (), title: str = "",
) -> go.Figure:  # fmt: skip
    """Return a plotly figure of an automaton with its layout."""
    from cepkit.plots.lean import LeanFigure

    live = live or {}
    figure = LeanFigure()
    line = {"color": theme.INK, "width": 1.2}
    shapes = [{"type": "path", "path": transition["path"], "line": line} for transition in transitions]
    arrow = {"showarrow": True, "axref": "x", "ayref": "y", "arrowhead": 2, "arrowsize": 1.2}
    arrow |= {"arrowwidth": 1.2, "arrowcolor": theme.INK, "text": "", "standoff": 0}
    notes = []
    for state in states:
        if state["is_start"]:
            tip = state["x"] - RADIUS - RING
            notes.append(arrow | {"x": tip, "y": state["y"], "ax": tip - START_ARROW, "ay": state["y"]})
    for transition in transitions:
        x, y, tip_x, tip_y = _find_arrow(transition["path"])
        notes.append(arrow | {"x": tip_x, "y": tip_y, "ax": x, "ay": y})
        words = "<br>".join(escaped(part) for part in transition["label"].split("\n"))
        label = {"x": transition["x"], "y": transition["y"] + 4, "text": words}
        notes.append({**label, "yanchor": "bottom", "showarrow": False})
    for is_final, hue in ((False, theme.STATE_BLUE), (True, theme.ACCEPT_GREEN)):
        drawn = [state for state in states if state["is_final"] == is_final]
        for radius in (RADIUS + RING, RADIUS) if is_final else (RADIUS,):
            shapes += [
                {
                    "type": "circle",
                    "x0": state["x"] - radius, "x1": state["x"] + radius,
                    "y0": state["y"] - radius, "y1": state["y"] + radius,
                    "line": {"color": hue, "width": 4 if state["id"] in lit else 1.5},
                    "fillcolor": hue + ("66" if live.get(state["id"]) else theme.TINT_ALPHA),
                }
                for state in drawn
            ]  # fmt: skip
        tooltips = [
            state.get("tooltip", "") + live_words(live.get(state["id"], 0), state["id"] in lit)
            for state in drawn
        ]
        figure.add_scatter(
            x=[state["x"] for state in drawn], y=[state["y"] for state in drawn], mode="text",
            text=[escaped(state["label"]) for state in drawn], hoverinfo="text",
            hovertext=[escaped(words) for words in tooltips], showlegend=False,
        )  # fmt: skip
        for state in drawn:
            if live.get(state["id"]):
                below = {"x": state["x"], "y": state["y"] + RADIUS + 14, "text": f"{live[state['id']]:,}"}
                notes.append({**below, "showarrow": False})
    top = 44 if title else 10
    figure.update_layout(
        title=theme.title_at_left([escaped(title)]) if title else None,
        shapes=shapes,
        annotations=notes,
        width=width + 20,
        margin={"l": 10, "r": 10, "t": top, "b": 10},
        **theme.layout(height + top + 10),
    )
    hidden = {"visible": False, "fixedrange": True}
    figure.update_xaxes(range=[0, width], **hidden)
    figure.update_yaxes(range=[height, 0], scaleanchor="x", **hidden)
    return figure


def _find_arrow(path: str) -> tuple[float, float, float, float]:
    """Return the end of a path, and the tip of the arrow head after it."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    before_x, before_y, x, y = numbers[-4:]
    length = math.hypot(x - before_x, y - before_y) or 1.0
    return x, y, x + ARROW * (x - before_x) / length, y + ARROW * (y - before_y) / length


def sequence_states(branches: Sequence[Branch]) -> tuple[States, tuple[tuple[int, ...], ...]]:
    """Return the automaton of a sequence query, and the state after each component of each branch.

    Branches share the states of their common beginning. A component of more than one event has a loop.
    The edge after an absence names it, as in ``"c, no x before"``. The edge to the last component also names
    the absences after it.
    """
    transitions: list[tuple[int, str, int]] = []
    state_after: dict[tuple[int, str, bool], int] = {}
    n_states, accepting, of_branch = 1, set(), []
    for branch in branches:
        state, state_of_component, last = 0, [], len(branch.components) - 1
        for c, component in enumerate(branch.components):
            before = [a.variable for a in branch.absences if a.before == c]
            after = [a.variable for a in branch.absences if c == last and a.before > last]
            name = component.variable
            name += f", no {' or '.join(before)} before" if before else ""
            name += f", no {' or '.join(after)} after" if after else ""
            loops = component.high != 1
            key = (state, name, loops)
            if key not in state_after:
                state_after[key] = n_states
                transitions.append((state, name, n_states))
                if loops:
                    transitions.append((n_states, component.variable, n_states))
                n_states += 1
            state = state_after[key]
            state_of_component.append(state)
        accepting.add(state)
        of_branch.append(tuple(state_of_component))
    states = States(n_states, tuple(transitions), tuple(sorted(accepting)), (0,) * n_states)
    return states, tuple(of_branch)
