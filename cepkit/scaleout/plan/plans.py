"""Plans as values: the stages of a scaled-out query, and which node of each gets which items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from cepkit.errors import column_not_found
from cepkit.scaleout.plan.routing import Routing


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream that goes to the nodes of a stage."""

    stream: str  # its name. Partial matches of an earlier stage have the name ``"matches of <stage>"``.
    routing: Routing  # which nodes get which items
    heartbeat: bool = False  # whether all nodes also learn number and time of every event, without its values

    def words(self) -> str:
        """Return the feed in words."""
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
        """Number of nodes."""
        return self.feeds[0].routing.n_nodes

    def feed(self, stream: str) -> Feed:
        """Return the feed of a stream."""
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
        """Return the items per second that reach each node of a stage."""
        rows = []
        for stage in self.stages:
            for feed in stage.feeds:
                if feed.stream not in rates:
                    raise column_not_found("rates", feed.stream, rates)
                rate = float(rates[feed.stream])
                rows.append((stage.name, stage.n_nodes, feed.stream, rate, rate * feed.routing.share))
        return pd.DataFrame(rows, columns=["stage", "nodes", "stream", "rate", "per_node"])

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        width = max(len("gather"), *(len(stage.name) for stage in self.stages))
        many = f"{self.n_nodes} nodes" if self.n_nodes > 1 else "1 node"
        made = [f"{self.title}: {many} and a gather"]
        for stage in self.stages:
            pad = " " * (width + 4)
            first, *rest = [feed.words() for feed in stage.feeds]
            made += [f"  {stage.name:<{width}}  {first}"]
            made += [f"{pad}{text}" for text in rest]
            if any(feed.heartbeat for feed in stage.feeds):
                made.append(f"{pad}number and time of every event to all nodes")
            made += [f"{pad}{text}" for text in stage.work.split("; ")]
        made.append(f"  {'gather':<{width}}  {self.gather}")
        made += [f"  note: {self.note}"] if self.note else []
        made += [] if self.is_exact else ["  not exact: the result can differ from that of a single node"]
        return made

    def __repr__(self) -> str:
        return "\n".join(self.lines())
