"""The outcome of a parallel run, on real threads or in virtual time: matches, times, counts, trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock, joined
from cepkit.errors import CepError, nearest
from cepkit.language.expressions.durations import counted
from cepkit.parallel.agent_run import AgentRun
from cepkit.parallel.model import AgentRates, agent_statistics
from cepkit.parallel.trace import SOURCE_THREAD, Actions, Lengths, Trace
from cepkit.values import dataclass, field

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.widgets.scene_view import View

VIEWS = ("threads", "buffers")


@dataclass(frozen=True, repr=False)
class ParallelRun:
    """The work of a parallel engine to find the matches of a query: ``matches.run``.

    Parameters
    ----------
    engine : str
        Repr of the engine.
    measured : bool
        True: on real threads; False: in virtual time.
    n_matches : int
        Exact number of matches, before any after-match policy.
    makespan : float
        Time from the start to the end of the last thread, in ns, at least until the source is done.
    busy : ndarray of float64, shape (n_threads,)
        Time that each thread worked, in ns.
    agents : tuple of str
        Labels of the agents: the variables of the events that they add.
    looked, compared, taken : ndarray of int64, shape (n_agents, 2)
        Pairs looked at, pairs with tested conditions (in order and in one window), and items taken. The
        columns are event workers and match workers.
    sent, looped : ndarray of int64, shape (n_agents,)
        Partial matches sent to the next agent, and those sent back to the same agent.
    n_locks : int
        Synchronisation actions: how often a worker read another worker's buffer.
    n_units : int
        Number of independent runs in this sum; more than 1 only for divided streams.
    most_bytes : float
        Greatest total size of buffers and queues; NaN when measured. For several units, the sum of their
        greatest sizes.
    mean_latency, greatest_latency : float
        Time from the arrival of a match's newest event to its detection, in ns; NaN when measured or without
        matches.
    left : int
        Items in buffers at the end: 0 unless removal is ``"never"``.
    trace : Trace, optional
        The trace, if the run was started with ``trace=True``.
    block : MatchBlock
        The matches in no particular order; empty if they were only counted.
    found_at : ndarray of float64
        Time of detection of each match in ``block``, in ns.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32)})
    >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
    >>> run = cep.simulate(events, query, event_type="kind", engine=cep.Hybrid(threads=4), trace=True)
    >>> run
    Hybrid(threads=4), simulated: 22 matches in 0.0 ms, 4 threads idle 66%
    55 items taken, 45 pairs compared, 23 partial matches sent
    >>> run.n_threads, run.n_items, round(run.idle_share, 2)
    (4, 55, 0.66)
    >>> run.rates[0].rates
    (0.375, 0.375, 0.25)
    >>> len(run.plot("busy").data), type(run.view("threads")).__name__
    (7, 'ThreadView')
    """

    engine: str
    measured: bool
    n_matches: int
    makespan: float
    busy: np.ndarray
    agents: tuple[str, ...]
    looked: np.ndarray
    compared: np.ndarray
    taken: np.ndarray
    sent: np.ndarray
    looped: np.ndarray
    n_locks: int
    n_units: int = 1
    most_bytes: float = float("nan")
    mean_latency: float = float("nan")
    greatest_latency: float = float("nan")
    left: int = 0
    trace: Trace | None = None
    block: MatchBlock = EMPTY
    found_at: np.ndarray | None = None
    _measure: Callable[[], tuple[AgentRates, ...]] | None = field(default=None, compare=False)

    @cached_property
    def rates(self) -> tuple[AgentRates, ...] | None:
        """Input of the cost model by branch, measured on a sample at first use; None without a trace."""
        return None if self._measure is None else self._measure()

    @property
    def n_threads(self) -> int:
        """Number of threads."""
        return len(self.busy)

    @property
    def n_items(self) -> int:
        """Number of events and partial matches taken by all threads."""
        return int(self.taken.sum())

    @property
    def idle_share(self) -> float:
        """Share of time in which threads did nothing."""
        whole = self.makespan * self.n_threads
        return 1 - float(self.busy.sum()) / whole if whole else 0.0

    def plot(self, what: str = "threads") -> go.Figure:
        """Draw the trace.

        Parameters
        ----------
        what : str
            ``"threads"``: work of each thread over time; ``"busy"``: busy share of each thread;
            ``"lengths"``: lengths of the agents' queues and buffers over time.

        Returns
        -------
        plotly.graph_objects.Figure

        Raises
        ------
        CepError
            When ``what`` is unknown, or the run has no trace.
        """
        from cepkit.parallel.plots import busy_scene, lengths_scene, threads_scene
        from cepkit.plots.scene import scene_figure

        draw = {"threads": threads_scene, "busy": busy_scene, "lengths": lengths_scene}
        trace = self._shown("plot", what, list(draw))
        return scene_figure(draw[what](trace, title=self.engine))

    def view(self, what: str = "threads", **settings: Any) -> View:
        """Return an interactive view of the trace, with the values of the cost model.

        Parameters
        ----------
        what : str
            ``"threads"``: work of each thread over time, and the threads of each agent; ``"buffers"``:
            lengths of the agents' queues and buffers over time.
        **settings
            ``title``, and ``rates`` to replace the run's own; ``rates=None`` hides the models.

        Returns
        -------
        ThreadView or BufferView

        Raises
        ------
        CepError
            When ``what`` is unknown, or the run has no trace.
        """
        trace = self._shown("view", what, list(VIEWS))
        return view_of_trace(trace, what, **{"rates": self.rates} | settings)

    def _shown(self, method: str, what: str, names: list[str]) -> Trace:
        if what not in names:
            raise CepError(f"{method}: {what!r} is not known.{nearest(str(what), names)} There are {names}")
        if self.trace is None:
            raise CepError(f"{method}: this run has no trace. Give trace=True to match or simulate")
        return self.trace

    def __repr__(self) -> str:
        how = "measured" if self.measured else "simulated"
        return (
            f"{self.engine}, {how}: {self.n_matches:,} matches in {self.makespan / 1e6:,.1f} ms, "
            f"{counted(self.n_threads, 'thread')} idle {self.idle_share:.0%}\n"
            f"{self.n_items:,} items taken, {int(self.compared.sum()):,} pairs compared, "
            f"{int(self.sent.sum() + self.looped.sum()):,} partial matches sent"
        )


def view_of_trace(trace: Trace, what: str, **settings: Any) -> View:
    """Return the view of a trace by name; see `ParallelRun.view`."""
    if what == "threads":
        from cepkit.parallel.views import ThreadView

        return ThreadView(trace, **settings)
    from cepkit.parallel.views import BufferView

    return BufferView(trace, **settings)


def outcome(
    run: AgentRun, engine: str, makespan: float, busy: np.ndarray, most_bytes: float = float("nan"),
    start: float | None = None,
) -> ParallelRun:  # fmt: skip
    """Return the outcome of a run of agents; for ``start`` see `trace_of`."""
    k, by_thread, stages = run.k, run.own, list(run.agents.stage_of_agent)
    counts = by_thread.counts.sum(axis=0)[stages]
    of_model = partial(agent_statistics, run.agents.program, run.agents.events, run.agents.orders)
    n, n_kept = run.n_matches(), int(run.shared[k.N_FOUND])
    has_latency = n and not run.is_real
    return ParallelRun(
        engine=engine, measured=run.is_real, n_matches=n, makespan=makespan, busy=busy,
        agents=run.agents.labels, looked=counts[:, k.LOOKED : k.LOOKED + 2],
        compared=counts[:, k.COMPARED : k.COMPARED + 2], taken=counts[:, k.N_ITEMS : k.N_ITEMS + 2],
        sent=counts[:, k.N_SENT], looped=counts[:, k.N_LOOPED], n_locks=int(counts[:, k.N_LOCKS].sum()),
        most_bytes=most_bytes,
        mean_latency=float(by_thread.time[:, k.LATENCY].sum() / n) if has_latency else float("nan"),
        greatest_latency=float(by_thread.time[:, k.MOST_LATENCY].max()) if has_latency else float("nan"),
        left=run.left(), trace=trace_of(run, start) if run.settings.trace else None, block=run.block(),
        found_at=run.found.time[:n_kept][np.argsort(run.found.branch[:n_kept], kind="stable")],
        _measure=of_model if run.settings.trace else None,
    )  # fmt: skip


def sum_runs(
    engine: str, runs: list[ParallelRun], makespan: float, busy: np.ndarray, unit: list[int]
) -> ParallelRun:
    """Return the runs of a stream's parts as one run; ``unit`` has the thread of each part."""
    by_agent = ("looked", "compared", "taken", "sent", "looped")
    n = sum(run.n_matches for run in runs)
    matching_runs = [run for run in runs if run.n_matches]
    of_unit = np.zeros(len(busy))
    for run, thread in zip(runs, unit, strict=True):
        of_unit[thread] = max(of_unit[thread], run.most_bytes)

    return ParallelRun(
        engine=engine, measured=runs[0].measured, n_matches=n, makespan=makespan, busy=busy,
        agents=runs[0].agents,
        **{name: np.sum([getattr(run, name) for run in runs], axis=0) for name in by_agent},
        n_locks=sum(run.n_locks for run in runs), n_units=len(runs), most_bytes=float(of_unit.sum()),
        mean_latency=sum(r.mean_latency * r.n_matches for r in matching_runs) / n if n else float("nan"),
        greatest_latency=max((r.greatest_latency for r in matching_runs), default=float("nan")),
        left=sum(run.left for run in runs),
        trace=_join_traces([run.trace for run in runs if run.trace is not None], len(busy), unit),
        block=joined([run.block for run in runs]),
        found_at=np.concatenate([run.found_at for run in runs if run.found_at is not None]),
    )  # fmt: skip


def _join_traces(traces: list[Trace], n_threads: int, unit: list[int]) -> Trace | None:
    """Return the traces of a stream's parts as one, with the summed lengths of queues and buffers."""
    if not traces:
        return None
    done = [
        trace.done._replace(thread=np.where(trace.done.thread < 0, SOURCE_THREAD, thread_number))
        for trace, thread_number in zip(traces, unit, strict=True)
    ]
    read = [trace.lengths_read for trace in traces]
    part = np.repeat(np.arange(len(traces)), [len(readings.time) for readings in read])
    time, agent, *lengths = (np.concatenate(column) for column in zip(*read, strict=True))
    # First the change of each reading by part and agent, then the sum of all changes by agent.
    order = np.lexsort((time, agent, part))
    is_first = np.diff(part[order] * (agent.max(initial=0) + 1) + agent[order], prepend=-1) != 0
    in_time = np.lexsort((time[order], agent[order]))
    is_first_of_agent = np.diff(agent[order][in_time], prepend=-1) != 0
    group = np.cumsum(is_first_of_agent) - 1
    summed_lengths = []
    for length in lengths:
        change = np.where(is_first, length[order], np.diff(length[order], prepend=0))[in_time]
        running = np.cumsum(change)
        before = (running - change)[is_first_of_agent]
        summed_lengths.append(running - before[group] if len(group) else running)
    return Trace(
        traces[0].measured, n_threads, traces[0].agents,
        Actions(*(np.concatenate(column) for column in zip(*done, strict=True))),
        Lengths(time[order][in_time], agent[order][in_time], *summed_lengths),
    )  # fmt: skip


def first_start(run: AgentRun) -> float:
    """Return when the first action of a run's trace began, on the machine's clock; 0 in virtual time."""
    n = int(run.shared[run.k.N_TRACED])
    return float(run.trace[:n, run.k.BEGIN].min(initial=np.inf)) if run.is_real and n else 0.0


def trace_of(run: AgentRun, start: float | None = None) -> Trace:
    """Return the trace of a run: the actions of its threads, and the lengths of queues and buffers."""
    # Times count from ``start``; None: from the first action.
    k, agents = run.k, run.agents
    n = int(run.shared[k.N_TRACED])
    rows = run.trace[:n]
    rows = rows[np.argsort(rows[:, k.UNTIL], kind="stable")]
    agent_of_stage = np.full(run.n_stages + 1, -1)
    agent_of_stage[list(agents.stage_of_agent)] = np.arange(len(agents.stage_of_agent))
    stage = rows[:, k.OF_STAGE].astype(np.int64)
    start = first_start(run) if start is None else start
    thread = rows[:, k.BY_THREAD].astype(np.int64)
    thread[thread == run.crew.n_threads] = -1
    whole = {
        name: rows[:, column].astype(np.int64)
        for name, column in (
            ("n_items", k.WITH_ITEMS), ("compared", k.WITH_COMPARED), ("tested", k.WITH_TESTED),
            ("sent", k.WITH_SENT), ("looped", k.WITH_LOOPED), ("n_matches", k.WITH_MATCHES),
            ("removed_events", k.EVENTS_REMOVED), ("removed_partials", k.PARTIALS_REMOVED),
        )
    }  # fmt: skip
    done = Actions(
        thread=thread, agent=agent_of_stage[stage], action=rows[:, k.ACTION].astype(np.int64),
        start=rows[:, k.BEGIN] - start, end=rows[:, k.UNTIL] - start, **whole,
    )  # fmt: skip
    return Trace(run.is_real, run.crew.n_threads, agents.labels, done, _lengths(run, done, stage))


def _lengths(run: AgentRun, done: Actions, stage: np.ndarray) -> Lengths:
    """Return the lengths of queues and buffers after every action that changes them."""
    # An item moves from queue to buffer at the start of an action. The results of an action arrive at its
    # end.
    k, agents = run.k, run.agents
    stage_of_delivery = run.net.deliveries[0]
    is_start = run.net.stages[:, k.IS_START].astype(bool)
    cursor = np.cumsum(np.where(done.action == k.BY_SOURCE, done.n_items, 0))
    parts = []
    for a, s in enumerate(agents.stage_of_agent):
        is_here = stage == s
        delivered = np.diff(np.concatenate([[0], np.cumsum(stage_of_delivery == s)])[cursor], prepend=0)
        arrived = np.where(is_here, done.looped, 0)
        if not is_start[s]:
            arrived += np.where(stage == s - 1, done.sent, 0)
        came = np.flatnonzero((delivered != 0) | (arrived != 0))
        taken = [np.flatnonzero(is_here & (done.action == kind)) for kind in (k.BY_EVENTS, k.BY_PARTIALS)]
        left = np.flatnonzero(is_here & ((done.removed_events != 0) | (done.removed_partials != 0)))
        ends = np.cumsum([0, len(came), *map(len, taken), len(left)])
        # Order at one moment: arrivals, then taken items, then removals.
        time = np.concatenate([done.end[came], *(done.start[rows] for rows in taken), done.end[left]])
        change = np.zeros((4, ends[-1]), np.int64)  # event and partial queue, event and partial buffer
        change[:2, : ends[1]] = delivered[came], arrived[came]
        for kind, rows in enumerate(taken):
            change[kind, ends[kind + 1] : ends[kind + 2]] = -done.n_items[rows]
            change[2 + kind, ends[kind + 1] : ends[kind + 2]] = done.n_items[rows]
        change[2:, ends[3] :] = -done.removed_events[left], -done.removed_partials[left]
        order = np.argsort(time, kind="stable")
        parts.append((time[order], np.full(len(order), a), *np.cumsum(change[:, order], axis=1)))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0)] * 6
    # Real threads send results during an action, so others may take them before they have arrived.
    return Lengths(columns[0], *(np.maximum(column, 0).astype(np.int64) for column in columns[1:]))
