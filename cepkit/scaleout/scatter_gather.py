"""The engine `ScatterGather`, which runs a query over n nodes; and `plan`, which derives its plan."""

from __future__ import annotations

import os
from collections import Counter
from functools import cached_property, partial, singledispatch
from typing import Any, Unpack

from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.sequence_set import FoundLater, KnownMatches, MatchBlock
from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.events import Events, Source
from cepkit.language.expressions import trees as ex
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.branches import Branch, branches, referenced_variables
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import Engine, EngineValue
from cepkit.planning.queries import Query, QueryKeywords, as_query, read_arguments, takes_query_keywords
from cepkit.scaleout.plans import (
    LAYOUTS,
    MOST_NODES,
    SYMBOLS,
    ByKey,
    Feed,
    PatternState,
    ScatterPlan,
    Stage,
    check_layout,
    check_window_aggregates,
    grid_of,
    join_plan,
    load_lines,
    pattern_plan,
    window_plan,
)
from cepkit.scaleout.query_nodes import ScatterRun, WindowNodes, find_scattered, pairs_of_nodes
from cepkit.values import dataclass
from cepkit.windows.joining import JoinRows, PlannedJoin, Sources, run_join
from cepkit.windows.running import WindowRows, run_window
from cepkit.windows.values import Join, Window

# The function `plan`: the scaled-out plan of a query that was written for a single node.

_ONE_LAYOUT = "a window has one layout, events in turn. Leave out layout and groups"


@takes_query_keywords
def plan(
    query: Query, *, nodes: int, layout: str | None = None, groups: int | None = None,
    **keywords: Unpack[QueryKeywords],
) -> ScatterPlan:  # fmt: skip
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
        Groups under ``"grouped"``. Default: the grid is as square as possible, with more members than groups.
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
        raise CepError(f"plan: {_ONE_LAYOUT}")
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


# The engine `ScatterGather`: a query over n nodes by a routing plan, with the result of a single node.

_SHOWN = 3  # branches in `explain`


@dataclass(frozen=True, slots=True)
class ScatterGather(EngineValue):
    """Scatter–gather over several nodes, with the result of a single node.

    Parameters
    ----------
    nodes : int
        Nodes of each state of a pattern, or nodes of a window or a join. The gather is one node more.
    layout : str
        ``"grouped"``: nodes are groups of replicas. An event goes to one group, and a partial match to one
        member of every group. ``"replicated"``: later events go to all replicas, partial matches to one.
        ``"states"``: one node per state. ``"keys"``: by partition key. See `cepkit.plan`.
    groups : int, optional
        Groups under ``"grouped"``. Default: the grid is as square as possible, with more members than groups.

    Raises
    ------
    CepError
        For unknown layouts (with the nearest name), numbers of nodes below 1, and groups that do not divide
        them.

    Notes
    -----
    Nodes are threads here; on Spark each task runs all nodes for its events. A gather keeps the first next
    event of each partial match under the strategy ``next``, so that several groups do not find several.
    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    chapter 3.
    Differs: partial matches go to one member of every group, so that every pair meets exactly once.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32)})
    >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
    >>> found = cep.match(events, query, event_type="kind", engine=cep.ScatterGather(nodes=4))
    >>> found.count()
    22
    """

    nodes: int = 4
    layout: str = "grouped"
    groups: int | None = None

    def __post_init__(self) -> None:
        whole_number("ScatterGather: nodes", self.nodes, 1, MOST_NODES)
        check_layout(self.layout)
        if self.groups is not None:
            if self.layout != "grouped":
                raise CepError(f"groups={self.groups} needs layout='grouped', not {self.layout!r}")
            grid_of(self.nodes, self.groups)

    def __repr__(self) -> str:
        arguments = [f"nodes={self.nodes}"]
        arguments += [f"layout={self.layout!r}"] if self.layout != LAYOUTS[2] else []
        arguments += [f"groups={self.groups}"] if self.groups is not None else []
        return f"ScatterGather({', '.join(arguments)})"

    def planned(self, *, trace: bool) -> Engine:
        """Return the planner's engine for this value; see `EngineValue.planned`."""
        if trace:
            raise UnsupportedQueryError(
                f"trace=True: {self} writes no trace. matches.run says what each node did"
            )
        return Engine(
            str(self), "scatter–gather over nodes, as in the thesis of Suhothayan, corrected",
            self.reason_against, partial(ScatteredMatches, engine=self), automatic=False,
            details=self.details, on_spark=self._on_spark,
        )  # fmt: skip

    def _on_spark(self, frame: Any, source: Source, program: SequenceProgram, engine: Engine) -> Any:
        """Return the matches of a Spark frame by stages; None if stages cannot find them."""
        from cepkit.scaleout.spark_stages import ScatteredOnSpark, tasks_unsupported

        if tasks_unsupported(program) is not None:
            return None
        return ScatteredOnSpark(frame, source, program, engine, self.plans(program))

    def reason_against(self, program: SequenceProgram | Program) -> str | None:
        """Return why the engine cannot run a program; None if it can."""
        if not isinstance(program, SequenceProgram):
            return (
                "it runs event sequences only: contiguous rows need all rows of a partition in one place. "
                "cep.DataParallel(…) divides keys"
            )
        if self.layout == "keys" and not program.query.partition_by:
            return "layout 'keys' needs partition_by"
        for bound in program.branches:
            for component in bound.branch.components:
                if component.until is not None:
                    return f"an event that ends the loop {component.variable!r} must reach all nodes at once"
                if component.preference != "all":
                    return f"{component.variable!r} is {component.preference}, and no node knows all choices"
        return None

    def plans(self, program: SequenceProgram) -> list[ScatterPlan]:
        return [self._plan(program, bound) for bound in program.branches]

    def _plan(self, program: SequenceProgram, bound: BoundBranch) -> ScatterPlan:
        states = states_of(program.query, bound.branch)
        title = ", ".join(state.name for state in states)
        return pattern_plan(states, self.nodes, self.layout, groups=self.groups, title=title)

    # --- windows and joins

    def run_window(self, window: Window, source: Source) -> WindowRows:
        """Return what a checked window emits over a source, computed by nodes; see `cepkit.window`."""
        if self.layout != "grouped" or self.groups is not None:
            raise CepError(f"{self}: {_ONE_LAYOUT}")
        check_window_aggregates(window)
        evaluator = partial(WindowNodes, plan=window_plan(self.nodes))
        return run_window(window, source, evaluator)

    def run_join(self, plan: PlannedJoin, sources: Sources) -> JoinRows:
        """Return the result of a join over two sources, computed by nodes; see `cepkit.join`."""
        small = small_side(plan.join, self.nodes) or "right"
        scatter_plan = join_plan(self.nodes, self.layout, groups=self.groups, small=small)
        return run_join(plan, sources, find_pairs=partial(pairs_of_nodes, plan=scatter_plan))

    # --- patterns

    def details(self, program: SequenceProgram) -> list[tuple[str, str]]:
        """Return the plan for `explain`, as labels and texts."""
        lines = []
        plans = self.plans(program)
        for plan in plans[:_SHOWN]:
            first, *rest = plan.lines()
            lines += [("plan", first), *(("", line) for line in rest)]
            label = "per node"
            for line in load_lines(plan):
                lines.append((label, line))
                label = ""
        lines.append(("", SYMBOLS))
        if len(plans) > _SHOWN:
            lines.append(("plan", f"and {len(plans) - _SHOWN} more branches"))
        return lines


class ScatteredMatches(FoundLater):
    """The matches of a program by `ScatterGather`, found at first use.

    A bounded first look, such as a ``repr``, uses the search engine.
    """

    def __init__(self, program: SequenceProgram, events: Events, engine: ScatterGather):
        is_final = not program.can_be_forbidden_later
        super().__init__(events, partial(search_sequence, program), is_final=is_final)
        self.program, self.engine = program, engine

    @cached_property
    def _of_nodes(self) -> tuple[MatchBlock, list[ScatterRun]]:
        threads = min(self.engine.nodes, os.cpu_count() or 1)
        return find_scattered(self.program, self.events, self.engine.plans(self.program), threads)

    @cached_property
    def _found(self) -> KnownMatches:
        return KnownMatches(self.events, self._of_nodes[0])

    @property
    def run(self) -> ScatterRun | list[ScatterRun]:
        """What each node did; a list if the query has several branches."""
        runs = self._of_nodes[1]
        return runs[0] if len(runs) == 1 else runs
