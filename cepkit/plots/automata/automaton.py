"""The state automaton of a regex pattern as DOT text; knows no events, and draws nothing by itself."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from cepkit.compile.regex.automaton import ANY, States
from cepkit.plots import theme

LABEL_CHARACTERS = 24  # width at which the names of one edge go to a new line


@dataclass(frozen=True, slots=True)
class Edge:
    """All transitions from one state to another."""

    source: int
    target: int
    names: tuple[str, ...]  # predicates, "." for any event; in the order of the transitions

    def label_lines(self) -> list[str]:
        """Return the names as they stand beside the edge, "any" for ``"."``."""
        names = ", ".join(shown_name(name) for name in self.names)
        return textwrap.wrap(names, LABEL_CHARACTERS, break_long_words=False, break_on_hyphens=False)

    def tooltip(self, define: Mapping[str, str]) -> str:
        """Return one line per predicate: its name and, where ``define`` has it, its text."""
        return "\n".join(_explained(name, define) for name in self.names)


def edges(states: States) -> list[Edge]:
    """Return the edges of a picture of ``states``, in the order of their first transitions.

    Examples
    --------
    >>> from cepkit.compile.regex.automaton import positions, states
    >>> from cepkit.language.regex.patterns import seq, var
    >>> for edge in edges(states(positions(seq("a", (var("b") | "c").plus(), "d")))):
    ...     print(edge.source, edge.target, edge.names)
    0 1 ('a',)
    1 2 ('b', 'c')
    2 2 ('b', 'c')
    2 3 ('d',)
    """
    names_of_pair: dict[tuple[int, int], list[str]] = {}
    for source, name, target in states.transitions:
        names_of_pair.setdefault((source, target), []).append(name)
    return [Edge(source, target, tuple(names)) for (source, target), names in names_of_pair.items()]


def automaton_dot(
    states: States, *, define: Mapping[str, str] | None = None, title: str | None = None
) -> str:
    """Return the DOT text of a picture of ``states``, from left to right.

    The start has an arrow from nowhere, accepting states a double circle. Transitions between the same two
    states are one edge. The same automaton gives the same text.

    Parameters
    ----------
    states : cepkit.compile.regex.automaton.States
        The automaton.
    define : mapping of str to str, optional
        Text of each predicate, shown when the pointer rests on an edge. Names without text are allowed.
    title : str, optional
        A line above the picture, such as the pattern's text. It is taken literally.

    Returns
    -------
    str
        DOT source; one node per state, named by its number.

    Notes
    -----
    Time and size O(states + transitions).
    Source: Hirzel, "Partition and Compose", DEBS 2012, figure 4.

    Examples
    --------
    >>> from cepkit.compile.regex.automaton import positions, states
    >>> from cepkit.language.regex.patterns import seq, var
    >>> dot = automaton_dot(states(positions(seq(".", var("up").plus(), "down"))), define={"up": "price > 3"})
    >>> print(dot.splitlines()[-4].strip())
    1 -> 2 [label=up labeltooltip="up: price > 3" tooltip="up: price > 3"]
    """
    import graphviz

    define = define or {}
    shared = {"color": theme.INK, "fontcolor": theme.INK, "fontname": "Courier", "fontsize": "10"}
    graph = graphviz.Digraph(
        "automaton",
        graph_attr={"rankdir": "LR", "bgcolor": "transparent", "nodesep": "0.25", "pad": "0.1"}
        | ({"label": _dot_text(title), "labelloc": "t"} if title else {})
        | {name: shared[name] for name in ("fontcolor", "fontname", "fontsize")},
        node_attr=shared
        | {"shape": "circle", "style": "filled", "penwidth": "1.5", "width": "0.36", "fixedsize": "true"},
        edge_attr=shared | {"arrowsize": "0.7", "penwidth": "1.2"},
    )
    graph.node("start", label="", style="invis", width="0.05", tooltip="start")
    for state in range(states.n_states):
        accepts = state in states.accepting
        hue = theme.ACCEPT_GREEN if accepts else theme.STATE_BLUE
        graph.node(
            str(state),
            label=str(
                state
            ),  # the wheel's Graphviz forgets the default label in the first graph of a process
            shape="doublecircle" if accepts else "circle",
            color=hue,
            fillcolor=hue + theme.TINT_ALPHA,
            tooltip=_dot_text(state_tooltip(states, state)),
        )
    graph.edge("start", "0", tooltip="start")
    for edge in edges(states):
        tooltip = _dot_text(edge.tooltip(define))
        label = "\n".join(edge.label_lines())
        graph.edge(
            str(edge.source), str(edge.target), label=_dot_text(label), tooltip=tooltip, labeltooltip=tooltip
        )
    return graph.source


def shown_name(name: str) -> str:
    """Return the name of a predicate as pictures show it: ``"any"`` for ``"."``."""
    return "any" if name == ANY else name


def state_tooltip(states: States, state: int) -> str:
    """Return what is said of ``state`` when the pointer rests on it.

    Examples
    --------
    >>> from cepkit.compile.regex.automaton import positions, states
    >>> from cepkit.language.regex.patterns import seq
    >>> state_tooltip(states(positions(seq("a", "b"))), 2)
    'state 2, accepting: a match ends here'
    """
    start = ", start: no event matched yet" if state == 0 else ""
    return f"state {state}{start}{', accepting: a match ends here' if state in states.accepting else ''}"


def _explained(name: str, define: Mapping[str, str]) -> str:
    if name == ANY:
        return "any: every event"
    return f"{name}: {' '.join(define[name].splitlines())}" if name in define else name


def _dot_text(text: str) -> str:
    """Escape ``text`` so that Graphviz shows exactly its characters; line ends stay line ends."""
    import graphviz

    # Graphviz decodes entities (&lt;) in all its texts, and `escape` leaves them alone.
    return graphviz.escape(text.replace("&", "&amp;"))
