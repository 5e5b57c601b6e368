"""How a run of agents is set: its threads, the way they work, and what a simulated step takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf
from numbers import Real

from cepkit.errors import CepError

ALLOCATIONS = ("static", "state_dynamic", "fully_dynamic", "sequential")
REMOVALS = ("watermark", "window", "never")
MOST_THREADS = 512  # each has buffers of its own for every agent, and looks into all others'


@dataclass(frozen=True, slots=True)
class Costs:
    """What a thread's steps take, in nanoseconds of virtual time.

    Parameters
    ----------
    item : float
        To take an event or a partial match.
    look : float
        To see that a pair is not in order or not in one window, or what its conditions came to before.
    comparison : float or sequence of float
        To test the conditions of a pair; by agent, if there are several. Costly conditions are tested once
        for two events.
    lock : float
        To begin with another worker's buffer.
    send : float
        To pass a partial match on.
    delivery : float
        For the source to pass an event on.
    match : float, optional
        To report a match; None: as ``send``.

    Raises
    ------
    CepError
        For what is no number, or is negative or not finite.

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
                if not isinstance(cost, Real) or not 0 <= float(cost) < inf:
                    raise CepError(f"Costs: {field.name}={value!r}: nanoseconds are meant, 0 or more")


@dataclass(frozen=True, slots=True)
class Crew:
    """Which thread works for which agent.

    Parameters
    ----------
    allocation : str
        ``static``: a thread takes the events or the partial matches of its agent; ``state_dynamic``: both;
        ``fully_dynamic``: those of all agents, its own first, and on real threads before them what it made
        itself; ``sequential``: one thread, partial matches of the latest agent first.
    n_threads : int
        How many.
    of_agent : tuple of int, optional
        Threads by agent; None: as equal as can be.
    of_events : tuple of int, optional
        Of these, those that take events before partial matches; None: half.
    fused : tuple of tuple of int
        Agents that are one: groups of numbers that follow each other.
    """

    allocation: str
    n_threads: int
    of_agent: tuple[int, ...] | None = None
    of_events: tuple[int, ...] | None = None
    fused: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self.allocation}, {self.n_threads} thread{'s' if self.n_threads != 1 else ''}"


ONE_BY_ONE = Crew("sequential", 1)  # one thread, event by event


@dataclass(frozen=True, slots=True)
class Terms:
    """How a run goes on, whoever runs it.

    Parameters
    ----------
    batch : int
        Events, or partial matches, that a thread takes at once.
    chunk : int
        Events that the source passes on at once.
    scoped : bool
        Whether only events in a partial match's window are looked at, found by bisection.
    removal : str
        ``watermark``: what can take part in no match to come; ``window``: events as long as a partial match
        in their window may come; ``never``.
    keep : bool
        Whether matches are kept; else they are counted.
    backlog : int
        Items that wait when the source stops passing events on.
    trace : bool
        Whether every step is written down.
    """

    batch: int = 32
    chunk: int = 64
    scoped: bool = True
    removal: str = "watermark"
    keep: bool = True
    backlog: int = 4096
    trace: bool = False
