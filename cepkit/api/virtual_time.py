"""Run a query in virtual time: on parallel threads, or under overload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from cepkit.api.searching import program_for, query_of, spark_module
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.errors import CepError, truth
from cepkit.events import Events, Frame
from cepkit.frames.building import build_events
from cepkit.frames.sources import source_of_frame, with_types
from cepkit.frames.united import takes_frames
from cepkit.planning.planner import EngineValue, check_engine
from cepkit.planning.queries import Query, QueryKeywords, SequenceKeywords, takes_query_keywords
from cepkit.progress import show_progress

# The modules of one function load when it is called: the first `match` of a process must not wait for them.
if TYPE_CHECKING:
    from cepkit.language.query_parts import Duration
    from cepkit.parallel.agents import Costs
    from cepkit.parallel.outcome import ParallelRun
    from cepkit.shedding.arrivals import Arrivals, Prices
    from cepkit.shedding.strategies.strategy import Strategy


@takes_frames
@takes_query_keywords
@show_progress("simulating")
def simulate(
    frame: Frame, query: Query, *, engine: EngineValue | None = None, costs: Costs | str | None = None,
    arrival: ArrayLike | None = None, keep: bool = False, trace: bool = False,
    **keywords: Unpack[SequenceKeywords],
) -> ParallelRun:  # fmt: skip
    """Run a parallel engine in virtual time: reproducible, with exact matches, on any number of threads.

    Parameters
    ----------
    frame, query
        As for `match`; the query is an event sequence, and Spark frames are refused.
    **keywords
    engine : ParallelEngine, optional
        `cepkit.Hybrid`, `cepkit.RIP`, `cepkit.DataParallel`, `cepkit.StateParallel` or `cepkit.Sequential`;
        default: ``Hybrid()``.
    costs : Costs or "measured", optional
        Costs of a thread's steps; default: those of `cepkit.Costs`. ``"measured"`` measures them for this
        query on this machine, in a run of a part of the events.
    arrival : array of float, shape (n_rows,), optional
        When each row reaches the engine, in ns, nondecreasing in stream order. None: all at once.
    keep : bool
        Whether the run keeps the matches; otherwise it counts them.
    trace : bool
        Whether the run records every step.

    Returns
    -------
    ParallelRun
        Number of matches, makespan, busy time of every thread, latencies, bytes, comparisons, trace.

    Raises
    ------
    CepError
        As `match`; when there are too few threads, or when the arrivals do not fit the rows.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> events = pd.DataFrame({"kind": list("abcabcab") * 4, "ts": range(32)})
    >>> query = "PATTERN SEQ(a x, b y, c z) WITHIN 6 events"
    >>> run = cep.simulate(events, query, event_type="kind", engine=cep.Hybrid(threads=8))
    >>> run.n_matches == cep.match(events, query, event_type="kind").count(), run.n_threads
    (True, 8)
    """
    from cepkit.parallel.agents import Costs
    from cepkit.parallel.engines import Hybrid, ParallelEngine
    from cepkit.parallel.running import calibrate_costs

    engine = Hybrid() if engine is None else engine
    program, source, _ = program_for(simulate, frame, query, engine, keywords, sequences_only=True)
    assert isinstance(program, SequenceProgram)
    check_engine(engine, trace=truth("simulate: trace", trace))
    if not isinstance(engine, ParallelEngine):
        raise CepError(
            f"simulate: engine={engine!r} has no threads. Give cep.Hybrid(threads=4), or another value"
        )
    events = build_events(source, program)
    if arrival is not None:
        arrival = _arrivals(arrival, events)
    if isinstance(costs, str) and costs == "measured":
        costs = calibrate_costs(program, events, crew=engine.crew(program, events))
    elif costs is not None and not isinstance(costs, Costs):
        raise CepError(f"costs={costs!r}: give cep.Costs(…), or 'measured'")
    return engine.simulate(program, events, costs=costs or Costs(), arrival=arrival, keep=keep, trace=trace)


def _arrivals(arrival: ArrayLike, events: Events) -> np.ndarray:
    """Check arrivals by row and return them by position in the stream."""
    try:
        arrival = np.asarray(arrival, np.float64)
    except (TypeError, ValueError):
        raise CepError("arrival: expected numbers, the nanoseconds of each row") from None
    if arrival.shape != (events.n_events,):
        raise CepError(f"arrival: shape {arrival.shape} for {events.n_events} rows; give one number per row")
    arrival = arrival[events.rows(np.arange(events.n_events))]
    if not (np.all(np.diff(arrival, prepend=0.0) >= 0) and np.all(np.isfinite(arrival))):
        raise CepError("arrival: times must be finite, at least 0, and must not fall in stream order")
    return arrival


@takes_frames
@takes_query_keywords
def replay(
    frame: Frame, query: Query | Sequence[Query], *, arrivals: Arrivals | ArrayLike | str | None = None,
    latency_bound: Duration | float | None = None, shedding: Strategy | str = "none",
    costs: Prices | str | None = None, weights: Sequence[float] | Mapping[str, float] | None = None,
    warm_up: int | None = None, seed: int = 0, negation: str = "kills_if", **keywords: Unpack[QueryKeywords],
) -> Any:  # fmt: skip
    """Replay a frame as a stream under overload, in virtual time, and say what load shedding costs.

    One server processes the events one by one with the engine ``"tree"``. Its clock advances by the price of
    every unit of work. A strategy decides which events and partial matches to drop, so that matches are found
    within the bound. The first events are a warm-up without drops, from which the strategy learns.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`. A Spark frame needs ``partition_by``; each key is a replay of its own, in a task.
    query : query, or list of queries
        Event sequences, as for `match`. Several queries share one buffer.
    **keywords
    arrivals : Arrivals, array or str, optional
        When events arrive: ``"constant"``, ``"poisson"``, ``"peaks"`` (default), ``"overload"``, a value such
        as ``cepkit.shedding.PeakArrivals(factor=100)`` or ``cepkit.shedding.ColumnArrivals("ts")``, or the
        seconds of each row.
    latency_bound : str, timedelta or float, optional
        Longest time from the arrival of a match's last event until the match is found, such as ``"1.5 s"``.
        A number is in seconds. None: nothing is dropped.
    shedding : Strategy or str
        What to drop under overload: a value such as ``cepkit.shedding.Random()``, or a name. The error for a
        wrong name lists all names.
    costs : Prices or "measured", optional
        Seconds per unit of work; default: ``cepkit.shedding.Prices()``. ``"measured"`` measures them for this
        query on this machine.
    weights : list of float, or mapping of str to float, optional
        Weight of each query for recall; default: 1 each. A mapping has weights of event types instead.
    warm_up : int, optional
        Events of the warm-up, among those whose type a query names. Default: 5,000, or a fifth of a shorter
        stream.
    seed : int
        Seed of random decisions. The same seed gives the same result, bit by bit.
    negation : str
        How to read conditions on absent events. ``"kills_if"``: an event that fulfils them forbids a match,
        as in `match`. ``"allowed_if"``: an event forbids a match unless it fulfils them, as DARLING's paper
        says.

    Returns
    -------
    ReplayResult
        Matches, drops by type, latencies, memory, recall and precision; see `cepkit.shedding.ReplayResult`.
        For a Spark frame: a Spark DataFrame with the rows of ``to_frame()`` for each key. Keys that cannot be
        replayed have the reason in the column ``problem``.

    Raises
    ------
    CepError
        As `match`. Before any work: when the bound, weights, arrivals or the warm-up do not fit.
    UnsupportedQueryError
        For regex queries, for ``after_match``, and when the tree cannot run a query.

    Notes
    -----
    Arrivals do not depend on the strategy. Source: DARLING, PVLDB 15(3), 2022.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("ab") * 400, "ts": range(800)})
    >>> query = "PATTERN SEQ(a x, b y) WITHIN 20"
    >>> late = cep.replay(frame, query, latency_bound="100 us", event_type="kind", order_by="ts")
    >>> late.n_dropped, late.recall, late.within_bound < 0.9
    (0, 1.0, True)
    >>> kept = cep.replay(
    ...     frame, query, latency_bound="100 us", shedding="random_input", event_type="kind", order_by="ts")
    >>> kept.n_dropped > 0, kept.recall < 1, kept.within_bound > late.within_bound
    (True, True, True)
    """
    from cepkit.shedding.replay import ReplayResult
    from cepkit.shedding.scene import check_settings, make_scene

    queries = query if isinstance(query, list | tuple) else [cast("Query", query)]
    settings = check_settings(
        [query_of(replay, frame, entry, keywords) for entry in queries],
        arrivals=arrivals, latency_bound=latency_bound, shedding=shedding, costs=costs, weights=weights,
        warm_up=warm_up, seed=seed, negation=negation,
    )  # fmt: skip
    if spark_module(frame):
        from cepkit.results.spark_binding import run_per_key
        from cepkit.shedding.replay import ReplayTask, types_of_columns

        return run_per_key(frame, settings.queries, ReplayTask(settings), types_of_columns())
    source, native = source_of_frame(frame)
    for value in settings.queries:
        source = with_types(source, value)
    with show_progress("replaying"):
        scene = make_scene(settings, source)
        run = scene.run(settings.strategy, settings.seed)
    return ReplayResult(run, source, native)
