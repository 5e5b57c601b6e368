"""Plans for joins of two windows: a replicated small side, a grid, and nodes by key."""

from __future__ import annotations

from cepkit.errors import CepError, whole_number
from cepkit.scaleout.plan.patterns import check_layout, grid_of
from cepkit.scaleout.plan.plans import Feed, ScatterPlan, Stage
from cepkit.scaleout.plan.routing import ByKey, RoundRobin, ToAll, ToGroup, ToMember

JOIN_LAYOUTS = ("replicated", "grouped", "keys")
_GATHER = "adds up the aggregates of all nodes as of each event, and lists pairs in the order of events"
_WORK = "joins the events of its two windows"


def join_plan(
    nodes: int, layout: str = "replicated", *, groups: int | None = None, small: str = "right",
    left: str = "left", right: str = "right", title: str = "join",
) -> ScatterPlan:  # fmt: skip
    """Return the plan of a join of two windows.

    Source: Suhothayan, 2019, 3.1.3, figures 3.6 and 3.7.
    Differs: any number of nodes forms a grid, and heartbeats say which events are in the windows.
    """
    whole_number("nodes", nodes, 1)
    if layout == "states":
        raise CepError("layout 'states' is for patterns. Give 'replicated' or 'grouped' for a join")
    check_layout(layout, JOIN_LAYOUTS)
    if groups is not None and layout != "grouped":
        raise CepError(f"groups={groups} needs layout='grouped', and the layout is {layout!r}")
    if layout == "replicated":
        routings = RoundRobin(nodes), ToAll(nodes)
        if small == "left":
            routings = routings[::-1]
    elif layout == "keys":
        routings = ByKey(nodes), ByKey(nodes)
    else:
        grid = grid_of(nodes, groups)
        routings = ToGroup(*grid), ToMember(*grid)
    feeds = tuple(
        Feed(name, routing, heartbeat=nodes > 1)
        for name, routing in zip((left, right), routings, strict=True)
    )
    return ScatterPlan(title, (Stage("join", _WORK, feeds),), _GATHER, "join", layout)
