"""The engine `ScatterGather`: a query over n nodes by a routing plan, with the result of a single node."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.sequence_set import FoundLater, KnownMatches, MatchBlock, SequenceSet
from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.events import Events, Source
from cepkit.planning.planner import Engine, EngineValue
from cepkit.scaleout.derive import small_side, states_of
from cepkit.scaleout.pattern_nodes import ScatterRun, find_scattered
from cepkit.scaleout.plans import (
    LAYOUTS,
    MOST_NODES,
    SYMBOLS,
    ScatterPlan,
    check_layout,
    check_window_aggregates,
    grid_of,
    join_plan,
    load_lines,
    pattern_plan,
    window_plan,
)
from cepkit.scaleout.window_nodes import WindowNodes, pairs_of_nodes
from cepkit.windows.joining import JoinRows, PlannedJoin, Sources, run_join
from cepkit.windows.running import WindowRows, run_window
from cepkit.windows.values import Window

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
        Groups under ``"grouped"``. Default: the grid is as square as possible.

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
        """Return the plan of each branch of a program."""
        return [self._plan(program, bound) for bound in program.branches]

    def _plan(self, program: SequenceProgram, bound: BoundBranch) -> ScatterPlan:
        states = states_of(program.query, bound.branch)
        title = ", ".join(state.name for state in states)
        return pattern_plan(states, self.nodes, self.layout, groups=self.groups, title=title)

    # --- windows and joins

    def run_window(self, window: Window, source: Source) -> WindowRows:
        """Return what a checked window emits over a source, computed by nodes; see `cepkit.window`."""
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


class ScatteredMatches(SequenceSet):
    """The matches of a program by `ScatterGather`, found at first use.

    A bounded first look, such as a ``repr``, uses the search engine.

    """

    def __init__(self, program: SequenceProgram, events: Events, engine: ScatterGather):
        self.program, self.events, self.engine = program, events, engine
        self._look = FoundLater(
            events, partial(search_sequence, program), is_final=not program.can_be_forbidden_later
        )

    @cached_property
    def _made(self) -> tuple[KnownMatches, list[ScatterRun]]:
        threads = min(self.engine.nodes, os.cpu_count() or 1)
        block, runs = find_scattered(self.program, self.events, self.engine.plans(self.program), threads)
        return KnownMatches(self.events, block), runs

    @property
    def run(self) -> ScatterRun | list[ScatterRun]:
        """What each node did; a list if the query has several branches."""
        runs = self._made[1]
        return runs[0] if len(runs) == 1 else runs

    def count(self) -> int:
        """Return the exact number of matches."""
        return self._made[0].count()

    def at_least(self) -> tuple[int, bool]:
        """Return a number of matches that is quick to find, and whether it is the exact count."""
        return (self.count(), True) if "_made" in self.__dict__ else self._look.at_least()

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` matches that are quick to find, if possible the first ones."""
        return self._made[0].glance(n) if "_made" in self.__dict__ else self._look.glance(n)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end, and how many end at each."""
        return self._made[0].ends()

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches that end from ``low`` to ``high``."""
        return self._made[0].ending(low, high)

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches of these numbers, in this order."""
        return self._made[0].take(numbers)
