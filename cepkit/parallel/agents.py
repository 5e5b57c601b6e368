"""The agents of a program: stages, the events that each stage takes, and the code and arrays of the joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.sequence_source import test_of
from cepkit.compile.shared.images import address_of
from cepkit.compile.shared.loading import compile_if_it_pays, is_ready, load, load_kernels, reason_to_compile
from cepkit.engines.interpreted_walk import data_of
from cepkit.engines.shared.places import Places, accepted, dtypes_of
from cepkit.errors import CepError, UnsupportedQueryError, is_number
from cepkit.events import Events
from cepkit.kernels.wings.agent_layout import Joins
from cepkit.language.expressions.durations import counted
from cepkit.parallel.join_source import columns_by_kind, write_joins
from cepkit.parallel.joins import JoinCode, JoinPlan, join_code_of, joins_unsupported, plan_joins
from cepkit.planning.planner import Engine
from cepkit.values import dataclass, fields, replace

# The settings of a run of agents: its threads, their way of working, and the costs of simulated steps.

ALLOCATIONS = ("static", "state_dynamic", "fully_dynamic", "sequential")
REMOVALS = ("watermark", "window", "never")


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a thread's steps, in nanoseconds of virtual time.

    Parameters
    ----------
    item : float
        Taking an event or a partial match.
    look : float
        Rejecting a pair that is not in order or not in one window, or finding its result in the memo.
    comparison : float or sequence of float
        Testing the conditions of a pair; one cost, or one per agent. Costly conditions are tested once
        for two events.
    lock : float
        Starting to read the buffer of another worker.
    send : float
        Sending a partial match.
    delivery : float
        Delivering an event from the source.
    match : float, optional
        Reporting a match; None: the same as ``send``.

    Raises
    ------
    CepError
        When a cost is not a number, is negative, or is not finite.

    Examples
    --------
    >>> import cepkit as cep
    >>> cep.Costs(comparison=10.0)
    Costs(item=100.0, look=2.0, comparison=10.0, lock=50.0, send=50.0, delivery=0.0, match=None)
    """

    item: float = 100.0
    look: float = 2.0
    comparison: float | tuple[float, ...] = 5.0
    lock: float = 50.0
    send: float = 50.0
    delivery: float = 0.0
    match: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.comparison, Sequence) and not isinstance(self.comparison, str):
            object.__setattr__(self, "comparison", tuple(self.comparison))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "match" and value is None:
                continue
            for cost in value if field.name == "comparison" and isinstance(value, tuple) else (value,):
                if not is_number(cost) or not 0 <= float(cost) < inf:
                    raise CepError(f"Costs: {field.name}={value!r}. Give nanoseconds, 0 or more")


@dataclass(frozen=True, slots=True)
class Crew:
    """The threads of a run, and the agents that they work for."""

    # ``static``: a thread takes either the events or the partial matches of its agent. ``state_dynamic``: a
    # thread takes both. ``fully_dynamic``: a thread takes work of all agents, that of its own agent first. A
    # real thread takes its own partial matches even before that. ``sequential``: one thread, which takes
    # partial matches of the latest agent first.
    allocation: str
    n_threads: int  # number of threads
    of_agent: tuple[int, ...] | None = None  # threads by agent; None: as equal as possible
    # Threads by agent that take events before partial matches; None: half of the agent's threads.
    of_events: tuple[int, ...] | None = None
    fused: tuple[tuple[int, ...], ...] = ()  # fused agents: groups of consecutive numbers

    def __str__(self) -> str:
        return f"{self.allocation}, {counted(self.n_threads, 'thread')}"


ONE_BY_ONE = Crew("sequential", 1)  # one thread, event by event


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a run, on real threads or in virtual time."""

    batch: int = 32  # events, or partial matches, that a thread takes at once
    chunk: int = 64  # events that the source delivers at once
    scoped: bool = True  # whether threads look only at events in a partial match's window, found by bisection
    # ``watermark``: remove items that cannot be part of a future match. ``window``: keep events as long as a
    # partial match in their window may come. ``never``: keep everything.
    removal: str = "watermark"
    keep: bool = True  # whether to keep matches; False only counts them
    backlog: int = 4096  # number of waiting items at which the source pauses
    trace: bool = False  # whether to record every step


INTERPRETED = "cepkit.kernels.wings.agent_joins"
_MOST_TO_INTERPRET = 1 << 22  # pairs of events in a window
_SECONDS_TO_COMPILE = 2.0  # one interpreted run takes less, several take more


def agents_unsupported(program: SequenceProgram) -> str | None:
    """Return why agents cannot run a program, to complete "it …"; None if they can."""
    if not program.compiled:
        return f"cannot call {', '.join(program.reasons_for_python)}, a plain Python function"
    return next((reason for bound in program.branches if (reason := joins_unsupported(bound))), None)


def parallel_note(program: SequenceProgram, engine: Engine) -> str:
    """Return the remark of `explain` on the parallel engines."""
    if reason := agents_unsupported(program):
        return f"not by agents (cep.Hybrid and others): the query {reason}"
    hint = "cep.Hybrid(threads=4) and others when given as engine"
    if engine.name == "chain":
        return f"{hint}; they make every partial match, which counting does without"
    return f"{hint}; they make the same partial matches on several threads"


@dataclass(frozen=True)
class Agents:
    """The agents of a program over some events: one per join after the first of each branch."""

    program: SequenceProgram  # A program that passes `agents_unsupported`
    events: Events  # events with the program's columns
    # Components of every branch in join order; default: the query's ``evaluation_order``, or first to last.
    orders: Sequence[Sequence[int]] | None = None
    # Whether joins are compiled even where they could be interpreted, as measurements need it.
    compiled: bool = False

    def __post_init__(self) -> None:
        if reason := agents_unsupported(self.program):
            raise UnsupportedQueryError(f"agents cannot run this query: it {reason}")

    @cached_property
    def plans(self) -> tuple[JoinPlan, ...]:
        """The joins of each branch."""
        branches = self.program.branches
        orders = self.orders if self.orders is not None else map(self.program.given_order, branches)
        return tuple(plan_joins(bound, order) for bound, order in zip(branches, orders, strict=True))

    @cached_property
    def stages(self) -> tuple[tuple[int, JoinPlan, int], ...]:
        """Branch, plan and number of every join. The first join of a branch starts its partial matches."""
        return tuple((b, plan, rank) for b, plan in enumerate(self.plans) for rank in range(len(plan.joins)))

    @cached_property
    def stage_of_agent(self) -> tuple[int, ...]:
        """The stages that have an agent: all but the first of a branch, unless the first is a loop."""
        return tuple(s for s, (_, plan, rank) in enumerate(self.stages) if rank or plan.joins[0].is_loop)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the agents: the variables of the events that they add, numbered if one repeats."""
        names, times = [], Counter()
        for s in self.stage_of_agent:
            b, plan, rank = self.stages[s]
            component = plan.bound.branch.components[plan.joins[rank].component]
            name = component.variable if len(self.plans) == 1 else f"{b}:{component.variable}"
            times[name] += 1
            number = f" ({times[name]})" if times[name] > 1 else ""
            names.append(name + number + ("+" if plan.joins[rank].is_loop else ""))
        return tuple(names)

    @cached_property
    def followed(self) -> tuple[int, ...]:
        """The agents that send partial matches to the next agent."""
        stages = self.stage_of_agent
        ranks = [self.stages[s][2] for s in stages]
        return tuple(a for a in range(len(stages) - 1) if stages[a + 1] == stages[a] + 1 and ranks[a + 1])

    def check_fused(self, groups: Sequence[Sequence[int]]) -> None:
        """Raise CepError when fused agents are not neighbours, or an agent is in two groups."""
        names = [label.rstrip("+") for label in self.labels]
        for k, group in enumerate(groups):
            shown = tuple(names[a] if 0 <= a < len(names) else a for a in group)
            if any(b != a + 1 or a not in self.followed for a, b in pairwise(group)):
                raise CepError(f"fuse={shown}: not neighbours. The agents are {names}")
            if any({*group} & {*other} for other in groups[:k]):
                raise CepError(f"fuse={shown}: an agent is in another pair already")

    @cached_property
    def places(self) -> Places:
        """The events by partition."""
        return Places(self.program, self.events)

    @cached_property
    def events_of_stage(self) -> tuple[np.ndarray, ...]:
        """Places of the events that every stage takes, in stream order."""
        position, accept = self.places.position_of_place, self._accept
        taken = []
        for _, plan, rank in self.stages:
            test = test_of(self.program, plan.bound.accepts[plan.joins[rank].component])
            events = np.flatnonzero(accept[test])
            taken.append(events if self.places.is_one_partition else events[np.argsort(position[events])])
        return tuple(taken)

    @cached_property
    def _accept(self) -> np.ndarray:
        """Which events fulfil which conditions on single events, uint8, (n_tests, n_places)."""
        return accepted(self.places)

    @cached_property
    def first_event(self) -> np.ndarray:
        """Start of every stage in the concatenated events of all stages, (n_stages + 1,)."""
        return np.cumsum([0, *map(len, self.events_of_stage)]).astype(np.int64)

    @cached_property
    def last_position(self) -> np.ndarray:
        """Last position in the windows of each place and of all places before it in the stream."""
        position = self.places.position_of_place
        last = position[np.maximum(self.places.window_end - 1, 0)]
        if self.places.is_one_partition:
            return np.maximum.accumulate(last)
        by_position = np.empty_like(last)
        by_position[position] = last  # places of a partition are not in the order of positions
        return np.maximum.accumulate(by_position)[position]

    @cached_property
    def arrays_of_events(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Deliveries of the source, events of the stages, and positions by place; see `agent_steps`."""
        position = self.places.position_of_place
        by_place = np.stack([np.arange(self.places.n), position, self.last_position])
        events = by_place[:, np.concatenate(self.events_of_stage)]
        stage = np.repeat(np.arange(len(self.stages)), np.diff(self.first_event))
        order = np.lexsort((stage, events[1]))
        deliveries = np.stack([stage[order], events[1][order]])
        return deliveries[:, : 0 if self.program.window.is_empty else None], events, by_place

    @cached_property
    def join(self) -> Any:
        """The address of the generated function that joins blocks of partial matches with events."""
        return address_of(self._module.join)

    @cached_property
    def completes(self) -> Any:
        """The address of the generated function that runs the tests of a complete component."""
        return address_of(self._module.completes)

    def functions(self) -> Joins:
        """Return `join`, `completes` and `world`: those of compiled joins as soon as they are ready."""
        agents = self._compiled if self.has_better else self
        return Joins(agents.join, agents.completes, agents.world)

    @property
    def has_better(self) -> bool:
        """Whether joins that are interpreted have been compiled in the meantime."""
        return self.code is not None and is_ready(self._text)

    @cached_property
    def _compiled(self) -> Agents:
        """The same agents with compiled joins."""
        agents = replace(self, compiled=True)
        vars(agents).update(places=self.places, _accept=self._accept)
        return agents

    @cached_property
    def _module(self):
        """The module with the functions that join: compiled for this query, or one that interprets it."""
        if self.code is not None:
            return load_kernels(INTERPRETED)
        user = {f"u{i}": function.in_kernel for i, function in enumerate(self.program.functions.values())}
        return load(self._text, user)

    @cached_property
    def _text(self) -> str:
        """The text of the module of compiled joins."""
        return write_joins(self.program, self.plans, dtypes_of(self.places.inputs)).text

    @cached_property
    def code(self) -> JoinCode | None:
        """The joins as data for interpretation; None if compiled joins exist, or pay at once."""
        n_pairs = int((self.places.window_end - np.arange(self.places.n)).sum())
        is_long = self.compiled or n_pairs > _MOST_TO_INTERPRET
        if is_long or reason_to_compile(self._text, INTERPRETED):
            return None
        code = join_code_of(self.program, self.plans)
        if isinstance(code, str):
            return None
        compile_if_it_pays(self._text, self.places.n, _SECONDS_TO_COMPILE)
        return code

    @cached_property
    def world(self) -> tuple[np.ndarray, ...]:
        """The arrays that conditions read, see `WORLD` in `cepkit.parallel.join_source`."""
        places, inputs = self.places, self.places.inputs
        if self.code is not None:
            *values, floats, integers = data_of(places, self.code)
            tables, no_texts = self.code.tables.view(np.float64), np.zeros(0, np.uint8)
            return self._arrays(*values, tables, floats, self.code.numbers(integers), no_texts)
        kinds = columns_by_kind(dtypes_of(inputs))
        floats, integers, vectors = ([inputs.columns[name] for name in names] for names in kinds)
        # Truth tables are in one array, and lists of numbers follow the constants of their kind.
        whole = [constant for constant in inputs.constants if not isinstance(constant, float)]
        lists: dict[str, list] = {
            "f": [constant for constant in inputs.constants if isinstance(constant, float)],
            "i": [*whole, *[0] * 2 * len(inputs.tables)],
            "u": [],
        }
        starts, stops = [], []
        for table in inputs.tables:
            numbers = lists[table.dtype.kind]
            starts.append(len(numbers))
            numbers.extend(table.tolist())
            stops.append(len(numbers))
        lists["i"][len(whole) : len(whole) + 2 * len(starts)] = [*starts, *stops]
        return self._arrays(
            np.array(floats, np.float64).reshape(len(floats), places.n),
            np.array(integers, np.int64).reshape(len(integers), places.n), _stack(vectors, places.n),
            np.array(lists["f"], np.float64), np.array(lists["i"], np.int64), np.array(lists["u"], np.uint8),
        )  # fmt: skip

    def _arrays(self, *of_conditions: np.ndarray) -> tuple[np.ndarray, ...]:
        places = self.places
        limits = [places.later, places.gap_end, places.window_end, places.time_start, places.time_end]
        arrays = np.stack(limits).astype(np.int64, copy=False), np.ascontiguousarray(self._accept)
        return tuple(map(read_only, (*arrays, *of_conditions)))


def _stack(matrices: Sequence[np.ndarray], n: int) -> np.ndarray:
    """Return matrices as one array, padded with zeros, which change no sum."""
    if len(matrices) == 1:
        return np.ascontiguousarray(matrices[0], np.float64)[None]
    stack = np.zeros((len(matrices), n, max((m.shape[1] for m in matrices), default=0)))
    for i, matrix in enumerate(matrices):
        stack[i, :, : matrix.shape[1]] = matrix
    return stack


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view, the type that kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
