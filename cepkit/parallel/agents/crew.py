"""The settings of a run of agents: its threads, their way of working, and the costs of simulated steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf

from cepkit.errors import CepError, is_number

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
        return f"{self.allocation}, {self.n_threads} thread{'s' if self.n_threads != 1 else ''}"


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
