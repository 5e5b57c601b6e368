"""The automaton of a query as a plotly figure, and the automata of sequences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from cepkit.compile.regex.automaton import States
from cepkit.language.sequences.branches import Branch
from cepkit.plots import theme
from cepkit.plots.automata.layered import RADIUS, RING, START_ARROW, arrow_of, live_words
from cepkit.plots.theme import escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go


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
        x, y, tip_x, tip_y = arrow_of(transition["path"])
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
