"""Plans for patterns: by state, with replicated states, with groups of replicas, and by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cepkit.errors import CepError, nearest, whole_number
from cepkit.scaleout.plan.plans import Feed, ScatterPlan, Stage
from cepkit.scaleout.plan.routing import ByKey, RoundRobin, Routing, ToAll, ToGroup, ToMember

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
    """Return the numbers of groups and of members per group for ``nodes`` nodes, as square as possible."""
    if groups is not None:
        whole_number("groups", groups, 1)
        if nodes % groups:
            fits = [g for g in range(1, nodes + 1) if nodes % g == 0]
            raise CepError(f"groups={groups} does not divide nodes={nodes}. Give one of {fits}")
        return groups, nodes // groups
    members = max(m for m in range(1, nodes + 1) if nodes % m == 0 and m * m <= nodes)
    return nodes // members, members


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
    states: Sequence[PatternState],
    nodes: int,
    layout: str = "grouped",
    *,
    groups: int | None = None,
    printed: bool = False,
    title: str = "pattern",
) -> ScatterPlan:
    """Return the plan of a pattern.

    Source: Suhothayan, 2019, 3.1.2, figures 3.3 to 3.5.
    Differs: a partial match goes to one member of every group, so that every pair meets once.
    """
    whole_number("nodes", nodes, 1, MOST_NODES)
    check_layout(layout)
    if not states:
        raise CepError("pattern_plan: give at least one state")
    if groups is not None and layout != "grouped":
        raise CepError(f"groups={groups} needs layout='grouped', and the layout is {layout!r}")
    of_events, of_matches = state_routings(layout, nodes, groups, printed=printed)
    first = {"states": RoundRobin(1), "keys": ByKey(nodes)}.get(layout, RoundRobin(nodes))
    made = []
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
            everywhere = ByKey(nodes) if layout == "keys" else ToAll(of_events.n_nodes)
            feeds += [Feed(name, everywhere) for name in state.absent]
            work += "; drops matches with an absent event, at the watermark"
        made.append(Stage(state.name, work, tuple(feeds)))
    is_grid = layout == "grouped" and grid_of(nodes, groups)[0] > 1
    wrong = printed and is_grid
    return ScatterPlan(
        title,
        tuple(made),
        "all matches, in canonical order",
        "pattern",
        layout,
        is_exact=not wrong,
        note="printed routing: a partial match meets the events of one group only, at all members" * wrong,
    )
