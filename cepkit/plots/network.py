"""The agents of a query with their queues and threads as DOT text; knows no queries, and draws nothing by itself."""

from __future__ import annotations

import html

import pandas as pd

from cepkit.errors import CepError, column_not_found, nearest
from cepkit.plots import theme
from cepkit.plots.automaton import _dot_text
from cepkit.plots.text import cut

SOURCE, MATCHES = "source", "matches"
_NEEDED = ("agent", "events", "start", "next", "loops")
_KINDS = (("events", "event_threads", "taken_events"), ("partial matches", "partial_threads", "taken_partials"))


def network_dot(agents: pd.DataFrame, *, title: str | None = None) -> str:
    """Return the DOT text of a picture of agents, from left to right.

    The source sends events to the agents' event queues, and the first component's as partial matches. An agent
    is a box with a part per queue, which says how many threads take from it.

    Parameters
    ----------
    agents : pandas.DataFrame
        A row per agent: ``agent`` (its label), ``events`` (what it takes from the source), ``start`` (events
        that come to it as partial matches; missing: none), ``next`` (the agent it sends to; missing: its
        results are matches), ``loops`` (bool: it also sends to itself). Optional are ``event_threads``,
        ``partial_threads`` (numbers, missing: shared by both queues), ``taken_events``, ``taken_partials``,
        ``sent`` (numbers, as `Trace.agents_frame` has them).
    title : str, optional
        A line above the picture; taken literally.

    Returns
    -------
    str
        DOT source; one node per agent, named by its label.

    Raises
    ------
    ColumnNotFoundError
        When a column is missing.
    CepError
        When two agents have one label, or ``next`` names none.

    Examples
    --------
    >>> agents = pd.DataFrame({"agent": ["b", "c"], "events": ["B", "C"], "start": ["A", None],
    ...                        "next": ["c", None], "loops": [False, False]})
    >>> [line.split(" [")[0].strip() for line in network_dot(agents).splitlines() if "->" in line]
    ['source -> b:events', 'source -> b:partials', 'b -> c:partials', 'source -> c:events', 'c -> matches']
    """
    import graphviz

    _check(agents)
    shared = {"color": theme.INK, "fontcolor": theme.INK, "fontname": "Courier", "fontsize": "10"}
    graph = graphviz.Digraph(
        "agents",
        graph_attr={"rankdir": "LR", "bgcolor": "transparent", "nodesep": "0.3", "ranksep": "0.6", "pad": "0.1"}
        | ({"label": _dot_text(title), "labelloc": "t"} if title else {})
        | {name: shared[name] for name in ("fontcolor", "fontname", "fontsize")},
        node_attr=shared | {"shape": "plain"},
        edge_attr=shared | {"arrowsize": "0.7", "penwidth": "1.2"},
    )
    ends = {"shape": "ellipse", "style": "filled", "penwidth": "1.5"}
    blue, green = theme.STATE_BLUE, theme.ACCEPT_GREEN
    graph.node(_node(SOURCE), label=SOURCE, color=theme.INK, fillcolor=theme.INK + theme.TINT_ALPHA, **ends)
    for row in agents.to_dict("records"):
        name = _node("agent", row["agent"])
        graph.node(name, label=_box(row, blue), tooltip=_dot_text(f"agent {row['agent']}"))
        taken = _dot_text(cut(str(row["events"])))
        graph.edge(_node(SOURCE), f"{name}:events", label=taken, tooltip=taken)
        if not pd.isna(row["start"]):
            start = _dot_text(cut(str(row["start"])))
            graph.edge(_node(SOURCE), f"{name}:partials", label=start, tooltip=start, style="dashed")
        if row["loops"]:
            graph.edge(name, f"{name}:partials", tooltip="loop", label="loop")
        sent = row.get("sent")
        label = {} if sent is None or pd.isna(sent) else {"label": f"{int(sent):,}"}
        target = _node(MATCHES) if pd.isna(row["next"]) else f"{_node('agent', row['next'])}:partials"
        graph.edge(name, target, tooltip="partial matches" if target != _node(MATCHES) else MATCHES, **label)
    graph.node(_node(MATCHES), label=MATCHES, color=green, fillcolor=green + theme.TINT_ALPHA, **ends)
    return graph.source
