"""Plans as values: stages, which node gets which items, and the plans of windows, joins and patterns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.errors import CepError, UnsupportedQueryError, column_not_found, nearest, whole_number
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import counted
from cepkit.values import dataclass
from cepkit.windows.values import Window

if TYPE_CHECKING:
    from cepkit.plots.graphs import Graph

# Routings: which nodes of a stage get each item of a stream. Items are events or partial matches.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The items of one stream, in the global order of events."""

    n: int  # number of items
    key: np.ndarray | None = None  # int64, (n,): the number of each item's key. Only `ByKey` needs it.


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What a routing sends: item ``item[i]`` goes to node ``node[i]``."""

    # item, node: int64, (n_deliveries,): sorted by item, then by node
    item: np.ndarray
    node: np.ndarray

    def to(self, node: int) -> np.ndarray:
        """Return the items of a node, rising; int64."""
        return self.item[self.node == node]


@dataclass(frozen=True, slots=True)
class Routing(ABC):
    """A rule that says which nodes of a stage get an item."""

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Number of nodes."""

    @property
    @abstractmethod
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""

    @abstractmethod
    def sends(self, traffic: Traffic) -> Deliveries:
        """Return the nodes of every item."""

    @abstractmethod
    def words(self) -> str:
        """Return the rule in words, to complete "items go …"."""


@dataclass(frozen=True, slots=True)
class ByKey(Routing):
    """All items of a key go to one node."""

    nodes: int

    def __post_init__(self) -> None:
        whole_number("ByKey: nodes", self.nodes, 1)

    @property
    def n_nodes(self) -> int:
        return self.nodes

    @property
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""
        return 1 / self.nodes

    def sends(self, traffic: Traffic) -> Deliveries:
        """Return to which node each item goes, by its key."""
        if traffic.key is None:
            raise CepError("ByKey: the items have no key")
        mixed = np.asarray(traffic.key).astype(np.uint64) * _GOLDEN >> np.uint64(33)
        node = (mixed % np.uint64(self.nodes)).astype(np.int64)
        return Deliveries(np.arange(traffic.n, dtype=np.int64), node)

    def words(self) -> str:
        return f"by key to {self.nodes} nodes" if self.nodes > 1 else "to 1 node"


@dataclass(frozen=True, slots=True)
class _Grid(Routing):
    """Nodes in groups of equal size. Node ``g * members + m`` is member m of group g, a row of the grid."""

    groups: int
    members: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        whole_number(f"{name}: groups", self.groups, 1)
        whole_number(f"{name}: members", self.members, 1)

    @property
    def n_nodes(self) -> int:
        return self.groups * self.members

    @property
    def _nodes_of_turn(self) -> np.ndarray:
        """The nodes that get the items of each turn, (n_turns, n_nodes of a turn)."""
        return np.arange(self.n_nodes).reshape(self.groups, self.members)

    @property
    def share(self) -> float:
        return 1 / len(self._nodes_of_turn)

    def sends(self, traffic: Traffic) -> Deliveries:
        turns, width = self._nodes_of_turn.shape
        numbers = np.arange(traffic.n, dtype=np.int64)
        node = self._nodes_of_turn[numbers % turns].reshape(-1).astype(np.int64)
        return Deliveries(np.repeat(numbers, width), node)

    def words(self) -> str:
        turns, width = self._nodes_of_turn.shape
        if self.n_nodes == 1:
            return "to 1 node"
        return f"in turn to {turns} nodes" if width == 1 else f"to all {width} nodes" if turns == 1 else ""


@dataclass(frozen=True, slots=True)
class ToGroup(_Grid):
    """Items go to the groups of a grid in turn, each to all members of its group."""

    def words(self) -> str:
        several = f"in turn to one of {self.groups} groups, to all its {self.members} members"
        return _Grid.words(self) or several


@dataclass(frozen=True, slots=True)
class ToMember(_Grid):
    """Items go to the members of a grid in turn, each to the same member of every group.

    Together with `ToGroup` every pair of items meets at exactly one node.
    """

    @property
    def _nodes_of_turn(self) -> np.ndarray:
        return _Grid._nodes_of_turn.fget(self).T

    def words(self) -> str:
        several = f"in turn to one of {self.members} members in each of {self.groups} groups"
        return _Grid.words(self) or several


def in_turn(nodes: int) -> ToGroup:
    """Return the routing of item i to node ``i % nodes``."""
    return ToGroup(nodes, 1)


def to_all(nodes: int) -> ToGroup:
    """Return the routing of every item to all nodes."""
    return ToGroup(1, nodes)


# Plans as values: the stages of a scaled-out query, and which node of each gets which items.


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream that goes to the nodes of a stage."""

    stream: str  # its name. Partial matches of an earlier stage have the name ``"matches of <stage>"``.
    routing: Routing  # which nodes get which items
    heartbeat: bool = False  # whether all nodes also learn number and time of every event, without its values

    def words(self) -> str:
        return f"{self.stream} {self.routing.words()}"


@dataclass(frozen=True, slots=True)
class Stage:
    """Nodes that do the same work on different items."""

    # name, work: the name of the stage, and the work of its nodes in words
    name: str
    work: str
    feeds: tuple[Feed, ...]  # all routings have the same number of nodes

    @property
    def n_nodes(self) -> int:
        return self.feeds[0].routing.n_nodes

    def feed(self, stream: str) -> Feed:
        return next(feed for feed in self.feeds if feed.stream == stream)


@dataclass(frozen=True, slots=True, repr=False)
class ScatterPlan:
    """A scaled-out query: its stages from the source to the gather."""

    title: str  # the query or method in words
    stages: tuple[Stage, ...]  # in the order in which items pass them, without the gather
    gather: str  # how the results of the last stage become one result
    kind: str  # ``"window"``, ``"pattern"`` or ``"join"``
    layout: str  # the name of the layout
    is_exact: bool = True  # whether the result equals that of a single node
    note: str = ""  # A remark, such as a limit of the method

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all stages, without the gather."""
        return sum(stage.n_nodes for stage in self.stages)

    def bandwidth(self, rates: Mapping[str, float]) -> pd.DataFrame:
        """Return the items per second that reach each node of a stage, and the heartbeats of all events."""
        rows = []
        for stage in self.stages:
            for feed in stage.feeds:
                if feed.stream not in rates:
                    raise column_not_found("rates", feed.stream, rates)
                rate = float(rates[feed.stream])
                rows.append((stage.name, stage.n_nodes, feed.stream, rate, rate * feed.routing.share))
                if feed.heartbeat:
                    rows.append((stage.name, stage.n_nodes, f"number and time of {feed.stream}", rate, rate))
        return pd.DataFrame(rows, columns=["stage", "nodes", "stream", "rate", "per_node"])

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        width = max(len("gather"), *(len(stage.name) for stage in self.stages))
        many = f"{self.n_nodes} nodes" if self.n_nodes > 1 else "1 node"
        lines = [f"{self.title}: {many} and a gather"]
        for stage in self.stages:
            pad = " " * (width + 4)
            first, *rest = [feed.words() for feed in stage.feeds]
            lines += [f"  {stage.name:<{width}}  {first}"]
            lines += [f"{pad}{text}" for text in rest]
            if any(feed.heartbeat for feed in stage.feeds):
                lines.append(f"{pad}number and time of every event to all nodes")
            lines += [f"{pad}{text}" for text in stage.work.split("; ")]
        lines.append(f"  {'gather':<{width}}  {self.gather}")
        lines += [f"  note: {self.note}"] if self.note else []
        lines += [] if self.is_exact else ["  not exact: the result can differ from that of a single node"]
        return lines

    def graph(self) -> Graph:
        """Return the streams, the stages and the gather as a ``graphviz.Digraph``, which a notebook draws."""
        from cepkit.plots.graphs import new_graph, plain

        graph = new_graph("plan")
        place: dict[str, str] = {}  # of each stream, and of the results of each stage
        for k, stage in enumerate(self.stages):
            number = f"stage{k}"
            nodes = f"{counted(stage.n_nodes, 'node')}"
            graph.node(number, label=plain("\n".join([stage.name, nodes, *stage.work.split("; ")])))
            for feed in stage.feeds:
                if feed.stream not in place:
                    place[feed.stream] = f"stream{len(place)}"
                    graph.node(place[feed.stream], label=plain(feed.stream), shape="plaintext", style="")
                graph.edge(place[feed.stream], number, label=plain(feed.routing.words()))
            place[f"matches of {stage.name}"] = number
        graph.node("gather", label=plain(f"gather\n{self.gather}"))
        graph.edge(number, "gather")
        return graph

    def __repr__(self) -> str:
        return "\n".join(self.lines())


# The load of one node of each stage as a formula: as the thesis prints it, and as it is.

INPUT, MEMORY, WORK = "input", "memory", "CPU"
SYMBOLS = (
    "λ: events per second of the stage's stream; μ: partial matches per second that reach it; "
    "e: waiting partial matches, or events in a window; g: groups"
)
Formulas = tuple[tuple[str, str], tuple[str, str], tuple[str, str]]  # printed and corrected, by measure


def node_loads(plan: ScatterPlan) -> pd.DataFrame:
    """Return bandwidth, memory and work of a node of each stage, as printed and as corrected."""
    # Source: Suhothayan, 2019, section 3.1 and table 3.1. `ScatterPlan.bandwidth` has numbers.
    rows = []
    for k, stage in enumerate(plan.stages):
        formulas = _formulas(plan, stage, is_first=k == 0)
        rows += [
            (stage.name, stage.n_nodes, measure, *pair)
            for measure, pair in zip((INPUT, MEMORY, WORK), formulas or (), strict=False)
        ]
    return pd.DataFrame(rows, columns=["stage", "nodes", "measure", "printed", "corrected"])


def load_lines(plan: ScatterPlan) -> list[str]:
    """Return the loads as lines of text, one per stage."""
    lines = []
    for name, loads in node_loads(plan).groupby("stage", sort=False):
        parts = [
            f"{measure} {corrected}" + ("" if corrected == printed else f" (printed {printed})")
            for measure, printed, corrected in loads[["measure", "printed", "corrected"]].values.tolist()
        ]
        lines.append(f"{name}: {', '.join(parts)}")
    return lines


def _formulas(plan: ScatterPlan, stage: Stage, *, is_first: bool) -> Formulas | None:
    """Return the formulas of the paper for a stage, and for the corrected plan; None if it has none."""
    n = stage.n_nodes
    if plan.kind == "window" and plan.layout == "windows":
        return _both(f"λ{_by(n)}"), (f"e{_by(n)}", f"e{_by(n)} + g"), (f"λ{_by(n)}", f"2λ{_by(n)}")
    if plan.kind == "join":
        return _of_join(plan, stage)
    if plan.kind == "pattern" and plan.layout in ("states", "replicated", "grouped", "keys"):
        return _of_state(plan.layout, stage, is_first=is_first)
    return None


def _of_state(layout: str, stage: Stage, *, is_first: bool) -> Formulas:
    """Return the formulas for a state of a pattern."""
    n, routing = stage.n_nodes, stage.feeds[0].routing
    if is_first and len(stage.feeds) == 1:
        return _both(f"λ{_by(n)}"), ("1", "1"), _both(f"λ{_by(n)}")
    if isinstance(routing, ByKey):
        return (f"λ{_by(n)}", f"(λ + μ){_by(n)}"), _both(f"e{_by(n)}"), _both(f"λe{_by(n)}")
    if layout == "states":
        return ("λ", "λ + μ"), ("e/(s-1)", "e"), ("λe/s", "λe")
    groups, members = routing.groups, routing.members
    printed = "λ" if layout == "replicated" else f"2λ{_by(n)}"
    return (
        (printed, f"λ{_by(groups)} + μ{_by(members)}"),
        (f"e{_by(n)}", f"e{_by(members)}"),
        _both(f"λe{_by(n)}"),
    )


def _of_join(plan: ScatterPlan, stage: Stage) -> Formulas | None:
    """Return the formulas for a join."""
    n, left = stage.n_nodes, stage.feeds[0].routing
    work = f"(λ_A e_B + λ_B e_A){_by(n)}"
    if plan.layout == "grouped" and isinstance(left, ToGroup):
        p, q = left.groups, left.members
        return (
            (f"(λ_A + λ_B){_by(n)}", f"λ_A{_by(p)} + λ_B{_by(q)}"),
            (f"(e_A + e_B){_by(n)}", f"e_A{_by(p)} + e_B{_by(q)}"),
            (work, work),
        )
    if plan.layout == "replicated":
        large, small = ("A", "B") if isinstance(left, ToGroup) and left.members == 1 else ("B", "A")
        fewer = _by(n - 1) if n > 1 else ""
        return (
            (f"λ + λ{fewer}", f"λ_{large}{_by(n)} + λ_{small}"),
            (f"e + e{fewer}", f"e_{large}{_by(n)} + e_{small}"),
            (f"λe + λe{fewer}", work),
        )
    return None


def _both(formula: str) -> tuple[str, str]:
    """Return a formula that is right as printed."""
    return formula, formula


def _by(n: int) -> str:
    return f"/{n}" if n > 1 else ""


# Plans for windows: events in turn, with a heartbeat, so that all nodes know every moment of output.

MERGEABLE = ("sum", "count", "avg", "min", "max", "std", "var")
_NEEDS_ALL = {
    "median": "the middle value of all events does not follow from the middle values of parts",
    "percentile": "a percentile of all events does not follow from percentiles of parts",
    "quantile": "a quantile of all events does not follow from quantiles of parts",
    "distinct": "parts can share values, so their numbers of values do not add up",
    "count_distinct": "parts can share values, so their numbers of values do not add up",
    "nunique": "parts can share values, so their numbers of values do not add up",
    "mode": "the most frequent value of all events can be rare in every part",
}


def check_mergeable(functions: Iterable[str]) -> None:
    """Raise UnsupportedQueryError for aggregates that small partial results of nodes do not determine."""
    for name in functions:
        if name in MERGEABLE:
            continue
        if name in _NEEDS_ALL:
            raise UnsupportedQueryError(
                f"{name} cannot run over several nodes: {_NEEDS_ALL[name]}. Use one node, or one of "
                f"{[*MERGEABLE]}"
            )
        raise UnsupportedQueryError(
            f"aggregate {name!r} is not known.{nearest(str(name), MERGEABLE)} Over several nodes run "
            f"{[*MERGEABLE]}"
        )


def check_window_aggregates(window: Window) -> None:
    """Raise UnsupportedQueryError for aggregates that partial results of nodes do not determine."""
    for role, tree in window.trees():
        for node in tree.walk(literals=False):
            if not isinstance(node, ex.Aggregate) or node.function in ("first", "last", "delta"):
                continue  # the gather knows the first and the last event of each window
            try:
                check_mergeable([node.function])
            except UnsupportedQueryError as error:
                raise UnsupportedQueryError(f"{role}: {node}: {error}") from None


def window_plan(nodes: int, *, title: str = "window", functions: Iterable[str] = ()) -> ScatterPlan:
    """Return the plan of a window with running aggregates."""
    # Source: Suhothayan, 2019, 3.1.1. Differs: a heartbeat has number and time of every event, so each
    # partial result is as of the event that the output is for. With the thesis' rules, a node expires events
    # only by its own ones.
    whole_number("nodes", nodes, 1)
    check_mergeable(functions)
    feed = Feed("events", in_turn(nodes), heartbeat=nodes > 1)
    stage = Stage("window", "keeps partial aggregates of its own events in the window", (feed,))
    gather = "merges the partial aggregates as of each event, in the order of nodes"
    return ScatterPlan(title, (stage,), gather, "window", "windows")


# Plans for patterns: by state, with replicated states, with groups of replicas, and by key.

LAYOUTS = ("states", "replicated", "grouped", "keys")
MOST_NODES = 512


@dataclass(frozen=True, slots=True)
class PatternState:
    """A state of a pattern, which adds one event, or several in a loop, to a partial match."""

    name: str  # the variable
    events: str  # its stream of events in words
    is_loop: bool = False  # whether the state takes several events
    takes_next: bool = False  # whether a partial match takes the next event that fits, and no later one
    # Streams of events that must be absent when the match is complete. Only for the last state.
    absent: tuple[str, ...] = ()


def grid_of(nodes: int, groups: int | None = None) -> tuple[int, int]:
    """Return the numbers of groups and of members per group, as square as possible, with more members."""
    # A node holds the partial matches of its member's turns, so more members are less memory per node.
    if groups is not None:
        whole_number("groups", groups, 1)
        if nodes % groups:
            fits = [g for g in range(1, nodes + 1) if nodes % g == 0]
            raise CepError(f"groups={groups} does not divide nodes={nodes}. Give one of {fits}")
        return groups, nodes // groups
    groups = max(g for g in range(1, nodes + 1) if nodes % g == 0 and g * g <= nodes)
    return groups, nodes // groups


def check_layout(layout: object, known: Sequence[str] = LAYOUTS) -> str:
    """Return a layout; raise CepError with the nearest name if it is unknown."""
    if layout not in known:
        hint = nearest(layout, known) if isinstance(layout, str) else ""
        raise CepError(f"layout {layout!r} is not known.{hint} Layouts: {[*known]}")
    return str(layout)


def state_routings(
    layout: str, nodes: int, groups: int | None = None, *, printed: bool = False
) -> tuple[Routing, Routing]:
    """Return how events and partial matches go to the nodes of a state after the first."""
    if check_layout(layout) == "keys":
        return ByKey(nodes), ByKey(nodes)
    if layout == "states":
        return ToGroup(1, 1), ToMember(1, 1)
    grid = (1, nodes) if layout == "replicated" else grid_of(nodes, groups)
    return ToGroup(*grid), ToGroup(*grid) if printed else ToMember(*grid)


def pattern_plan(
    states: Sequence[PatternState], nodes: int, layout: str = "grouped", *, groups: int | None = None,
    printed: bool = False, title: str = "pattern",
) -> ScatterPlan:  # fmt: skip
    """Return the plan of a pattern."""
    # Source: Suhothayan, 2019, 3.1.2, figures 3.3 to 3.5. Differs: a partial match goes to one member of
    # every group, so that every pair meets once.
    whole_number("nodes", nodes, 1, MOST_NODES)
    check_layout(layout)
    if not states:
        raise CepError("pattern_plan: give at least one state")
    if groups is not None and layout != "grouped":
        raise CepError(f"groups={groups} needs layout='grouped', and the layout is {layout!r}")
    of_events, of_matches = state_routings(layout, nodes, groups, printed=printed)
    first = {"states": in_turn(1), "keys": ByKey(nodes)}.get(layout, in_turn(nodes))
    stages = []
    for k, state in enumerate(states):
        feeds = [Feed(state.events, of_events if k else first)]
        if k:
            feeds.append(Feed(f"matches of {states[k - 1].name}", of_matches))
            work = "joins partial matches with later events"
        else:
            work = "begins a partial match with every event"
        if state.is_loop:
            if not k:
                feeds = [Feed(state.events, of_events)]
                work = "begins a partial match with every event, at one of the nodes that get it"
            feeds.append(Feed(f"matches of {state.name}", of_matches))
            work += "; sends longer ones to this state again"
        if state.takes_next and k:
            work += "; keeps the first event for each partial match"
            work += " of all groups, at the watermark" if of_matches.share * nodes > 1 else ""
        if state.absent:
            everywhere = ByKey(nodes) if layout == "keys" else to_all(of_events.n_nodes)
            feeds += [Feed(name, everywhere) for name in state.absent]
            work += "; drops matches with an absent event, at the watermark"
        stages.append(Stage(state.name, work, tuple(feeds)))
    is_grid = layout == "grouped" and grid_of(nodes, groups)[0] > 1
    wrong = printed and is_grid
    return ScatterPlan(
        title, tuple(stages), "all matches, in canonical order", "pattern", layout, is_exact=not wrong,
        note="printed routing: a partial match meets the events of one group only, at all members" * wrong,
    )  # fmt: skip


# Plans for joins of two windows: a replicated small side, a grid, and nodes by key.

JOIN_LAYOUTS = ("replicated", "grouped", "keys")
_GATHER = "adds up the aggregates of all nodes as of each event, and lists pairs in the order of events"
_WORK = "joins the events of its two windows"


def join_plan(
    nodes: int, layout: str = "replicated", *, groups: int | None = None, small: str = "right",
    title: str = "join",
) -> ScatterPlan:  # fmt: skip
    """Return the plan of a join of two windows."""
    # Source: Suhothayan, 2019, 3.1.3, figures 3.6 and 3.7. Differs: any number of nodes forms a grid, and
    # heartbeats say which events are in the windows.
    whole_number("nodes", nodes, 1)
    if layout == "states":
        raise CepError("layout 'states' is for patterns. Give 'replicated' or 'grouped' for a join")
    check_layout(layout, JOIN_LAYOUTS)
    if groups is not None and layout != "grouped":
        raise CepError(f"groups={groups} needs layout='grouped', and the layout is {layout!r}")
    if layout == "replicated":
        routings = in_turn(nodes), to_all(nodes)
        if small == "left":
            routings = routings[::-1]
    elif layout == "keys":
        routings = ByKey(nodes), ByKey(nodes)
    else:
        grid = grid_of(nodes, groups)
        routings = ToGroup(*grid), ToMember(*grid)
    feeds = tuple(
        Feed(name, routing, heartbeat=nodes > 1)
        for name, routing in zip(("left", "right"), routings, strict=True)
    )
    return ScatterPlan(title, (Stage("join", _WORK, feeds),), _GATHER, "join", layout)
