"""Graphs of Graphviz: automata, trees of joins, plans over nodes, and the events of a match."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import graphviz
import pandas as pd

from cepkit.compile.shared.row_automaton import States
from cepkit.errors import CepError
from cepkit.language.expressions.durations import counted, format_duration
from cepkit.plots import theme
from cepkit.plots.automata import edges, state_tooltip
from cepkit.plots.theme import cut

MOST_WITHOUT_GRAPHVIZ = 200  # nodes that a picture has without Graphviz; its DOT text has all of them
_FONT = {"fontcolor": theme.INK, "fontname": "Courier", "fontsize": "10"}
_NAME = r'(?:"(?:[^"\\]|\\.)*"|[\w.\-]+)'
_STATEMENT = re.compile(
    rf"\s*(?P<source>{_NAME})(?:\s*->\s*(?P<target>{_NAME}))?\s*(?:\[(?P<more>.*)\])?\s*;?\s*", re.S
)
_ATTRIBUTE = re.compile(rf"(\w+)=({_NAME})", re.S)


class Graph(graphviz.Digraph):
    """A ``graphviz.Digraph`` that a notebook draws on every machine."""

    # It is drawn by ``dot`` on the PATH, otherwise by pygraphviz (``pip install "cepkit[viz]"``), otherwise
    # by cepkit itself. Everything that ``graphviz.Digraph`` has works: ``graph.node("x")``, ``graph.source``,
    # ``graph.save("graph.dot")``. ``graph.render("graph", format="pdf")`` needs ``dot``.

    def svg(self) -> str:
        """Return the picture as SVG text."""
        for draw in (_by_dot, _by_pygraphviz, _by_cepkit):
            if (picture := draw(self)) is not None:
                return picture
        raise CepError(
            f"graph: without Graphviz a picture has at most {MOST_WITHOUT_GRAPHVIZ} nodes. Install Graphviz, "
            'or pip install "cepkit[viz]"; graph.source is the DOT text'
        )

    def __repr__(self) -> str:
        nodes, arrows = _parts(self)
        shown = {name for name, look in nodes.items() if not _is_hidden(look)}
        n_edges = sum(source in shown for source, _, _ in arrows)
        sizes = (counted(n, word) for n, word in ((len(shown), "node"), (n_edges, "edge")))
        return f"<graph {self.name}: {', '.join(sizes)}>"

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None, **_: Any
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the picture as a PNG, which pages without Graphviz show, too."""
        from cepkit.plots.drawing import still_bundle

        try:
            return still_bundle(self.svg(), repr(self))
        except CepError as error:
            return {"text/plain": f"{self!r}\n{error}"}, {}


def new_graph(name: str, *, title: str = "", direction: str = "LR") -> Graph:
    """Return a graph without nodes, in the colours of all pictures; ``direction`` is ``rankdir``."""
    above = {"label": plain(title), "labelloc": "t"} if title else {}
    line = {"color": theme.INK, **_FONT}
    return Graph(
        name,
        graph_attr={"bgcolor": theme.PAPER, **_FONT, **above, "nodesep": "0.25", "pad": "0.1"}
        | {"rankdir": direction},
        node_attr={**line, "penwidth": "1.5", "shape": "box", "style": "rounded,filled"}
        | _fill(theme.STATE_BLUE),
        edge_attr={"arrowsize": "0.7", **line, "penwidth": "1.2"},
    )


def _fill(hue: str) -> dict[str, str]:
    return {"color": hue, "fillcolor": hue + theme.TINT_ALPHA}


def automaton_graph(states: States, *, define: Mapping[str, str] | None = None, title: str = "") -> Graph:
    """Return the graph of ``states``, from left to right."""
    # The start state has an arrow that comes from no state; accepting states have a double circle.
    # Transitions between the same two states are one edge. The same automaton gives the same text.
    # Source: Hirzel, "Partition and Compose", DEBS 2012, figure 4.
    graph = new_graph("automaton", title=title)
    graph.attr("node", fixedsize="true", style="filled", width="0.36")
    graph.node("start", label="", style="invis", tooltip="start", width="0.05")
    for state in range(states.n_states):
        accepts = state in states.accepting
        hue = theme.ACCEPT_GREEN if accepts else theme.STATE_BLUE
        look = {"shape": "doublecircle" if accepts else "circle", **_fill(hue)}
        graph.node(str(state), label=str(state), tooltip=plain(state_tooltip(states, state)), **look)
    graph.edge("start", "0", tooltip="start")
    for edge in edges(states):
        tooltip = plain(edge.tooltip(define or {}))
        label = plain("\n".join(edge.label_lines()))
        graph.edge(str(edge.source), str(edge.target), label=label, labeltooltip=tooltip, tooltip=tooltip)
    return graph


def match_graph(rows: pd.DataFrame, time: str | None) -> Graph:
    """Return the events of a match in their order; ``rows`` has the column ``variable``."""
    graph = new_graph("match")
    moments = [None] * len(rows) if time is None else rows[time].tolist()
    for k, values in enumerate(rows.to_dict("records")):
        variable = values.pop("variable")
        lines = [str(variable), *(f"{name} {cut(str(value))}" for name, value in values.items())]
        graph.node(str(k), label=plain("\n".join(lines)))
        if k:
            graph.edge(str(k - 1), str(k), label=_passed(moments[k - 1], moments[k]))
    return graph


def _passed(before: Any, after: Any) -> str:
    """Return how much later an event came."""
    if before is None or after is None:
        return ""
    time = after - before
    return f"+{format_duration(pd.Timedelta(time).value, 'ns') if isinstance(time, timedelta) else time}"


def tree_graph(orders: Sequence[Sequence[str]]) -> Graph:
    """Return left-deep trees: each joins its variables in an order, two parts at a time."""
    graph = new_graph("tree", direction="BT")
    for t, order in enumerate(orders):
        joined = f"tree{t}_leaf0"
        graph.node(joined, label=plain(order[0]))
        for k, variable in enumerate(order[1:], start=1):
            leaf, join = f"tree{t}_leaf{k}", f"tree{t}_join{k}"
            graph.node(leaf, label=plain(variable))
            hue = theme.ACCEPT_GREEN if k == len(order) - 1 else theme.STATE_BLUE
            graph.node(join, label=plain(" ".join(order[: k + 1])), **_fill(hue))
            graph.edges([(joined, join), (leaf, join)])
            joined = join
    return graph


def plain(text: str) -> str:
    """Return a text that Graphviz shows as it is: no escapes and no HTML."""
    written = str(graphviz.escape(text.replace("&", "&amp;"))).replace("\n", "\\n")
    return graphviz.nohtml(written) if text else text


# Three ways to lay a graph out.


def _by_dot(graph: Graph) -> str | None:
    """Return the picture that ``dot`` draws, or None without it."""
    try:
        return _inner(graph.pipe(format="svg", encoding="utf-8", quiet=True))
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError, OSError):
        return None


def _by_pygraphviz(graph: Graph) -> str | None:
    """Return the picture that the Graphviz inside pygraphviz draws, or None without it."""
    try:
        with _no_stderr():  # fontconfig writes warnings there, which a notebook would show
            import pygraphviz

            svg = pygraphviz.AGraph(string=graph.source).draw(format="svg", prog="dot")
    except (ImportError, OSError, ValueError):
        return None
    return _inner(svg.decode() if isinstance(svg, bytes) else svg)


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Send what programs write to standard error nowhere."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _inner(svg: str) -> str:
    """Return the ``<svg>`` element of a document, with its size in pixels."""
    return re.sub(
        r'(width|height)="([\d.]+)pt"',
        lambda m: f'{m[1]}="{float(m[2]) * 4 / 3:g}"',
        svg[svg.index("<svg") :],
    )


def _by_cepkit(graph: Graph) -> str | None:
    """Return the picture of the layout for small automata, or None if there are too many nodes."""
    from cepkit.plots.layered import automaton_picture, automaton_traits

    nodes, arrows = _parts(graph)
    shown = [name for name, look in nodes.items() if not _is_hidden(look)]
    if not shown or len(shown) > MOST_WITHOUT_GRAPHVIZ:
        return None
    number = {name: k for k, name in enumerate(shown)}
    finals = tuple(k for k, name in enumerate(shown) if nodes[name].get("color") == theme.ACCEPT_GREEN)
    begun = {target for source, target, _ in arrows if source not in number}
    transitions = [
        (number[source], label, number[target])
        for source, target, label in arrows
        if source in number and target in number
    ]
    labels = [nodes[name].get("label", name) for name in shown]
    states = States(len(shown), tuple(transitions), finals, tuple(range(len(shown))))
    traits = automaton_traits(states, labels=labels, boxed=True)
    for state, name in zip(traits["states"], shown, strict=True):
        state |= {"is_start": name in begun, "tooltip": nodes[name].get("tooltip", labels[number[name]])}
    return automaton_picture(**traits, title=_unquoted(graph.graph_attr.get("label", "")))


def _is_hidden(look: Mapping[str, str]) -> bool:
    return "invis" in look.get("style", "")


def _parts(graph: Graph) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, str]]]:
    """Return the nodes with their attributes, and the edges as (source, target, label), in their order."""
    nodes: dict[str, dict[str, str]] = {}
    arrows: list[tuple[str, str, str]] = []
    for line in graph.body:
        statement = _STATEMENT.fullmatch(line)
        if statement is None or statement["source"] in ("node", "edge", "graph"):
            continue
        look = {name: _unquoted(value) for name, value in _ATTRIBUTE.findall(statement["more"] or "")}
        source = _unquoted(statement["source"])
        if statement["target"] is None:
            nodes[source] = nodes.get(source, {}) | look
            continue
        target = _unquoted(statement["target"])
        for name in (source, target):
            nodes.setdefault(name, {})
        arrows.append((source, target, look.get("label", "")))
    return nodes, arrows


def _unquoted(text: str) -> str:
    """Return the value of a name or a text in DOT."""
    inner = text[1:-1] if text.startswith('"') else text
    return html.unescape(re.sub(r"\\(.)", lambda m: "\n" if m[1] in "nlr" else m[1], inner))
