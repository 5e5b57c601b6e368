"""The state automaton of a regex pattern as DOT text. This module knows no events and draws nothing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from cepkit.compile.regex.automaton import ANY, States
from cepkit.plots import theme

LABEL_CHARACTERS = 24  # width of a label's line
_DOT_WORDS = {"digraph", "edge", "graph", "node", "strict", "subgraph"}


@dataclass(frozen=True, slots=True)
class Edge:
    """All transitions from one state to another."""

    source: int
    target: int
    names: tuple[str, ...]  # predicates, "." for any event; in the order of the transitions

    def label_lines(self) -> list[str]:
        """Return the lines of the edge's label, with "any" for ``"."``."""
        names = ", ".join(shown_name(name) for name in self.names)
        return textwrap.wrap(names, LABEL_CHARACTERS, break_long_words=False, break_on_hyphens=False)

    def tooltip(self, define: Mapping[str, str]) -> str:
        """Return one line per predicate: its name, and its text when ``define`` has one."""
        return "\n".join(_explain(name, define) for name in self.names)


def edges(states: States) -> list[Edge]:
    """Return one edge per pair of connected states, in the order of their first transitions."""
    names_of_pair: dict[tuple[int, int], list[str]] = {}
    for source, name, target in states.transitions:
        names_of_pair.setdefault((source, target), []).append(name)
    return [Edge(source, target, tuple(names)) for (source, target), names in names_of_pair.items()]


def automaton_dot(
    states: States, *, define: Mapping[str, str] | None = None, title: str | None = None
) -> str:
    """Return a picture of ``states``, from left to right, as DOT text.

    The start state has an arrow that comes from no state; accepting states have a double circle.
    Transitions between the same two states are one edge. The same automaton gives the same text.

    Source: Hirzel, "Partition and Compose", DEBS 2012, figure 4.
    """
    define = define or {}
    font = {"fontcolor": theme.INK, "fontname": "Courier", "fontsize": "10"}
    shared = {"color": theme.INK, **font}
    above = {"label": title, "labelloc": "t"} if title else {}
    circle = {"fixedsize": "true", "penwidth": "1.5", "shape": "circle", "style": "filled", "width": "0.36"}
    graph = {"bgcolor": "transparent", **font, **above, "nodesep": "0.25", "pad": "0.1", "rankdir": "LR"}
    lines = [
        _statement("graph", graph),
        _statement("node", shared | circle),
        _statement("edge", {"arrowsize": "0.7", **shared, "penwidth": "1.2"}),
        _statement("start", {"label": "", "style": "invis", "tooltip": "start", "width": "0.05"}),
    ]
    for state in range(states.n_states):
        accepts = state in states.accepting
        hue = theme.ACCEPT_GREEN if accepts else theme.STATE_BLUE
        shown = {"label": str(state), "color": hue, "fillcolor": hue + theme.TINT_ALPHA}
        shown["shape"] = "doublecircle" if accepts else "circle"
        lines.append(_statement(str(state), shown | {"tooltip": state_tooltip(states, state)}))
    lines.append(_statement("start -> 0", {"tooltip": "start"}))
    for edge in edges(states):
        tooltip = edge.tooltip(define)
        said = {"label": "\n".join(edge.label_lines()), "labeltooltip": tooltip, "tooltip": tooltip}
        lines.append(_statement(f"{edge.source} -> {edge.target}", said))
    return "\n".join(["digraph automaton {", *lines, "}", ""])


def shown_name(name: str) -> str:
    """Return the name of a predicate in pictures: ``"any"`` for ``"."``."""
    return "any" if name == ANY else name


def state_tooltip(states: States, state: int) -> str:
    """Return the tooltip of ``state``."""
    start = ", start: no event matched yet" if state == 0 else ""
    return f"state {state}{start}{', accepting: a match ends here' if state in states.accepting else ''}"


def _explain(name: str, define: Mapping[str, str]) -> str:
    if name == ANY:
        return "any: every event"
    return f"{name}: {' '.join(define[name].splitlines())}" if name in define else name


def _statement(what: str, attributes: Mapping[str, str]) -> str:
    """Return a DOT statement that gives attributes to a node, an edge, or all of a kind."""
    written = " ".join(f"{name}={_dot_text(value)}" for name, value in attributes.items())
    return f"\t{what} [{written}]"


def _dot_text(text: str) -> str:
    r"""Return ``text`` quoted for Graphviz, which decodes entities such as ``&lt;``."""
    if re.fullmatch(r"[A-Za-z_]\w*|-?\d+(\.\d+)?", text, re.ASCII) and text.lower() not in _DOT_WORDS:
        return text
    escaped = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
