"""The function `plan`: the scaled-out plan of a query that was written for a single node."""

from __future__ import annotations

from collections import Counter
from functools import singledispatch
from typing import Unpack

from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.branches import Branch, branches, referenced_variables
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.arguments import QueryKeywords, read_arguments, takes_query_keywords
from cepkit.planning.queries import Query, as_query
from cepkit.scaleout.plans import (
    MOST_NODES,
    Feed,
    PatternState,
    ScatterPlan,
    Stage,
    check_layout,
    check_window_aggregates,
    join_plan,
    pattern_plan,
    window_plan,
)
from cepkit.scaleout.routing import ByKey
from cepkit.windows.values import Join, Window


@takes_query_keywords
def plan(
    query: Query,
    *,
    nodes: int,
    layout: str | None = None,
    groups: int | None = None,
    **keywords: Unpack[QueryKeywords],
) -> ScatterPlan:
    """Return how a query of a single node runs on several nodes: which node gets which events.

    Parameters
    ----------
    query : str, pattern, query, Window or Join
        As for `cepkit.match`, or a window or join value.
    nodes : int
        Nodes of each state of a pattern, or nodes of a window or a join.
    layout : str, optional
        ``"grouped"``, ``"replicated"``, ``"states"`` or ``"keys"``, see `cepkit.ScatterGather`. Default: by
        key if the query has ``partition_by``, else ``"grouped"``.
    groups : int, optional
        Groups under ``"grouped"``. Default: the grid is as square as possible.
    **keywords

    Returns
    -------
    ScatterPlan
        Prints as text. ``stages`` has the routing of every stream. ``bandwidth(rates)`` has items per node.

    Raises
    ------
    CepError
        For unknown layouts (with the nearest name) and numbers of nodes below 1.
    UnsupportedQueryError
        For a regex without partitions, and for aggregates that need all events in one place.

    Notes
    -----
    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    6.3: deriving such plans is future work.

    Examples
    --------
    >>> import cepkit as cep
    >>> cep.plan("PATTERN SEQ(Small a, Large b) WHERE b.amount > 100 WITHIN 1 day", nodes=4,
    ...          event_type="kind", order_by="ts")
    SEQ(Small a, Large b): 8 nodes and a gather
      a       Small events in turn to 4 nodes
              begins a partial match with every event
      b       Large events with b.amount > 100 in turn to one of 2 groups, to all its 2 members
              matches of a in turn to one of 2 members in each of 2 groups
              joins partial matches with later events
      gather  all matches, in canonical order
    """
    whole_number("plan: nodes", nodes, 1, MOST_NODES)
    if layout is not None:
        check_layout(layout)
    arguments = read_arguments(plan, keywords)
    value = query if type(query) in plan_of.registry else as_query(query, arguments)
    return plan_of(value, nodes, layout, groups)


@singledispatch
def plan_of(value: object, nodes: int, layout: str | None, groups: int | None) -> ScatterPlan:
    """Return the plan of a query, a window or a join as a value."""
    raise CepError(f"plan: {type(value).__name__} is no query")


@plan_of.register
def _(value: SequenceQuery, nodes: int, layout: str | None, groups: int | None) -> ScatterPlan:
    chosen = layout or ("keys" if value.partition_by else "grouped")
    if chosen == "keys" and not value.partition_by:
        raise CepError("layout='keys' needs partition_by. Leave out layout, or give 'grouped'")
    plans = []
    for branch in branches(value):
        states = states_of(value, branch)
        plans.append(pattern_plan(states, nodes, chosen, groups=groups, title=str(value.pattern)))
    first, *others = plans
    if not others:
        return first
    stages = tuple(
        Stage(f"{b}: {stage.name}", stage.work, stage.feeds)
        for b, branch_plan in enumerate(plans, start=1)
        for stage in branch_plan.stages
    )
    note = f"the pattern has {len(plans)} branches without alternatives, each with its own nodes"
    return ScatterPlan(first.title, stages, first.gather, "pattern", chosen, note=note)


@plan_of.register
def _(value: RegexQuery, nodes: int, layout: str | None, groups: int | None) -> ScatterPlan:
    if not value.partition_by:
        raise UnsupportedQueryError(
            "plan: a regex matches contiguous rows, and without partition_by one node must see all of them"
        )
    if layout not in (None, "keys"):
        raise UnsupportedQueryError(f"plan: a regex scales by its keys only, layout='keys', not {layout!r}")
    feed = Feed("rows", ByKey(nodes))
    stage = Stage("regex", "matches the rows of its keys", (feed,))
    return ScatterPlan(str(value.pattern), (stage,), "all matches, in canonical order", "pattern", "keys")


@plan_of.register
def _(value: Window, nodes: int, layout: str | None, groups: int | None) -> ScatterPlan:
    if layout is not None or groups is not None:
        raise CepError("plan: a window has one layout, events in turn. Leave out layout and groups")
    check_window_aggregates(value)
    return window_plan(nodes, title=repr(value))


@plan_of.register
def _(value: Join, nodes: int, layout: str | None, groups: int | None) -> ScatterPlan:
    small = small_side(value, nodes)
    chosen = layout or ("replicated" if small else "grouped")
    return join_plan(nodes, chosen, groups=groups, small=small or "right", title=repr(value))


def small_side(join: Join, nodes: int) -> str | None:
    """Return the side whose window is small enough for a copy at every node, as far as lengths show it."""
    left, right = (0 if side is None else side.length for side in (join.left, join.right))
    if right is not None and (left is None or right * nodes <= left):
        return "right"
    if left is not None and (right is None or left * nodes <= right):
        return "left"
    return None


def states_of(query: SequenceQuery, branch: Branch) -> list[PatternState]:
    """Return the states of a branch, with the streams of their events in words."""
    states = []
    rounds: Counter[str] = Counter()
    times = Counter(component.variable for component in branch.components)
    for k, component in enumerate(branch.components):
        rounds[component.variable] += 1
        number = f" {rounds[component.variable]}" if times[component.variable] > 1 else ""
        is_last = k == len(branch.components) - 1
        absent = tuple(_stream(query, a.variable, a.event_type) for a in branch.absences) if is_last else ()
        states.append(
            PatternState(
                component.variable + number,
                _stream(query, component.variable, component.event_type),
                component.high != 1,
                "next" in (component.step if k else "", component.inner if component.high != 1 else ""),
                tuple(dict.fromkeys(absent)),
            )
        )
    return states


def _stream(query: SequenceQuery, variable: str, event_type: str | int | bool | None) -> str:
    """Return the logical stream of a variable: its type, and its conditions on single events."""
    single = [
        str(conjunct)
        for conjunct in query.where
        if referenced_variables(conjunct) == (variable,) and not _looks_back(conjunct)
    ]
    kind = "all events" if event_type is None else f"{event_type} events"
    return f"{kind} with {' and '.join(single)}" if single else kind


def _looks_back(tree: ex.Expression) -> bool:
    return any(isinstance(node, ex.Aggregate) for node in tree.walk()) or any(
        isinstance(node, ex.Reference) and node.index is not None for node in tree.walk()
    )
