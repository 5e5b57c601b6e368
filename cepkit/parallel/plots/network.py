"""The agents of a query with their queues and threads as DOT text; draws nothing by itself."""

from __future__ import annotations

import html

import pandas as pd

from cepkit.errors import CepError, column_not_found, nearest
from cepkit.plots import theme
from cepkit.plots.automata.automaton import _dot_text
from cepkit.plots.text import cut

_COLUMNS = ("agent", "events", "start", "next", "loops")
_QUEUES = (("events", "event_threads", "taken_events"), ("partials", "partial_threads", "taken_partials"))
_WORDS = {"events": "events", "partials": "partial matches"}


def network_dot(agents: pd.DataFrame, *, title: str | None = None) -> str:
    """Return the DOT text of a picture of agents, from left to right.

    The source sends events to the event queues, and those of a first component as partial matches (dashed).
    An agent is a box with a part per queue, which says how many threads take from it.

    Parameters
    ----------
    agents : pandas.DataFrame
        A row per agent: ``agent`` (its label), ``events`` (what it takes from the source), ``start`` (the
        events that reach it as partial matches; missing: none), ``next`` (the agent it sends to; missing: its
        results are matches), ``loops`` (bool: it sends to itself as well). Optional are ``event_threads``,
        ``partial_threads``, ``taken_events``, ``taken_partials``, ``sent`` (numbers; missing: not said), and
        the last three are columns of `Trace.agents_frame`.
    title : str, optional
        A line above the picture; taken literally.

    Returns
    -------
    str
        DOT source; the nodes are ``source``, ``matches``, and ``agent0`` and so on in the order of the rows.

    Raises
    ------
    ColumnNotFoundError
        When a column is missing.
    CepError
        When two agents have one label, or ``next`` is none of them.

    Examples
    --------
    >>> agents = pd.DataFrame({"agent": ["b", "c"], "events": ["B", "C"], "start": ["A", None]})
    >>> agents = agents.assign(next=["c", None], loops=False)
    >>> [line.split(" [")[0].strip() for line in network_dot(agents).splitlines() if "->" in line]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['source -> agent0:events', 'source -> agent0:partials', 'agent0 -> agent1:partials',
     'source -> agent1:events', 'agent1 -> matches']
    """
    import graphviz

    node = _nodes(agents)
    shared = {"color": theme.INK, "fontcolor": theme.INK, "fontname": "Courier", "fontsize": "10"}
    graph = graphviz.Digraph(
        "agents",
        graph_attr={
            "rankdir": "LR",
            "bgcolor": "transparent",
            "nodesep": "0.3",
            "ranksep": "0.25",
            "pad": "0.1",
        }
        | ({"label": _dot_text(title), "labelloc": "t"} if title else {})
        | {name: shared[name] for name in ("fontcolor", "fontname", "fontsize")},
        node_attr=shared | {"shape": "ellipse", "style": "filled", "penwidth": "1.5"},
        edge_attr=shared | {"arrowsize": "0.7", "penwidth": "1.2"},
    )
    for name, colour in (("source", theme.INK), ("matches", theme.ACCEPT_GREEN)):
        graph.node(name, label=name, tooltip=name, color=colour, fillcolor=colour + theme.TINT_ALPHA)
    for row in agents.to_dict("records"):
        own = node[row["agent"]]
        graph.node(own, label=_box(row), shape="plain", style="", tooltip=_dot_text(f"agent {row['agent']}"))
        _connect(graph, "source", f"{own}:events", row["events"])
        if not pd.isna(row["start"]):
            _connect(graph, "source", f"{own}:partials", row["start"], style="dashed")
        if row["loops"]:
            _connect(graph, f"{own}:partials:e", f"{own}:partials:s", "loop")
        target = "matches" if pd.isna(row["next"]) else f"{node[row['next']]}:partials"
        _connect(graph, own, target, _number(row, "sent"))
    return graph.source


def _nodes(agents: pd.DataFrame) -> dict[str, str]:
    """Return the name of each agent's node."""
    for name in _COLUMNS:
        if name not in agents.columns:
            raise column_not_found("network_dot", name, agents.columns)
    labels = agents["agent"].tolist()
    if len(set(labels)) < len(labels):
        raise CepError(f"network_dot: agents {labels}: each needs a label of its own")
    unknown = [name for name in agents["next"].dropna() if name not in labels]
    if unknown:
        near = nearest(str(unknown[0]), map(str, labels))
        raise CepError(f"network_dot: next agent {unknown[0]!r} not known.{near} There are {labels}")
    return {label: f"agent{a}" for a, label in enumerate(labels)}


def _connect(graph, source: str, target: str, label: object, **attributes: str) -> None:
    text = _dot_text(cut(str(label)))
    tooltip = text or f"{source} to {target.partition(':')[0]}"
    graph.edge(source, target, label=text, tooltip=tooltip, labeltooltip=tooltip, **attributes)


def _box(row: dict) -> str:
    """Return a table for Graphviz: the agent's label above its queues."""
    tint = theme.STATE_BLUE + theme.TINT_ALPHA
    cells = [f'<TD BGCOLOR="{tint}"><B>{html.escape(cut(str(row["agent"])))}</B></TD>']
    for port, threads, taken in _QUEUES:
        lines = [_WORDS[port]]
        n_threads, n_taken = _number(row, threads), _number(row, taken)
        lines += [f"{n_threads} thread{'' if n_threads == '1' else 's'}"] if n_threads else []
        lines += [f"{n_taken} taken"] if n_taken else []
        cells.append(f'<TD PORT="{port}">{"<BR/>".join(lines)}</TD>')
    rows = "".join(f"<TR>{cell}</TR>" for cell in cells)
    table = f'BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="5" COLOR="{theme.STATE_BLUE}"'
    return f"<<TABLE {table}>{rows}</TABLE>>"


def _number(row: dict, name: str) -> str:
    value = row.get(name)
    return "" if value is None or pd.isna(value) else f"{int(value):,}"
