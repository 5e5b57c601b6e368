"""Aggregates over windows, and joins of two frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cepkit.api.searching import check_spread, spark_module
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import Frame
from cepkit.frames.sources import source_of_frame
from cepkit.frames.united import takes_frames
from cepkit.limits import MemoryLimit, bound_memory, refuse_limit_on_spark
from cepkit.planning.planner import EngineValue
from cepkit.planning.queries import names_keywords

# The modules of one function load when it is called: the first `match` of a process must not wait for them.
if TYPE_CHECKING:
    from cepkit.language.expressions.trees import Expression
    from cepkit.language.query_parts import Duration
    from cepkit.scaleout.scatter_gather import ScatterGather
    from cepkit.streaming.spark_results import SparkStream
    from cepkit.windows.values import Join, Window


@takes_frames
@names_keywords
def window(
    frame: Frame, aggregates: Mapping[str, str | Expression] | Window | None = None, *,
    time: Duration | None = None, length: int | None = None, tumbling: Duration | bool = False,
    group_by: str | Sequence[str] | None = None, where: str | Expression | None = None,
    order_by: str | Sequence[str] | None = None, emit: str = "arrival",
    params: Mapping[str, Any] | None = None, engine: EngineValue | None = None,
    spread_by: str | None = None,
) -> Frame:  # fmt: skip
    """Compute running aggregates over a window that moves with the rows.

    A row that leaves the window does so before the next row arrives. The result has a row for each row that
    arrives, in stream order, with the aggregates over the window that then includes it.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    aggregates : mapping of str to str, or Window
        Columns by name: ``{"total": "sum(price)", "above": "price - avg(price)"}``. The aggregates are sum,
        count, avg, min, max, median, std, var, distinct, first, last and delta. A column outside of them is
        the value of the row itself. A `cepkit.Window` is the whole call as a value.
    time : str, timedelta or int, optional
        A row stays for this time, by the first column of ``order_by``: the window holds the rows with
        ``ts > now - time``. A row that is exactly ``time`` old has left.
    length : int, optional
        The window holds the last ``length`` rows, of all groups together.
    tumbling : str, timedelta, int or bool
        Batches instead of a sliding window: a duration, or a number of rows. The aggregates begin again with
        each batch. ``tumbling=True`` makes batches of ``time`` or ``length``. Batches of time begin at
        multiples of their duration.
    group_by : str or list of str, optional
        Columns. The aggregates of a row range over the rows of its group in the window.
    where : str, optional
        Only rows for which this is true enter the window and the result.
    order_by : str or list of str, optional
        Columns; the first is the clock. Rows with equal values keep their order in the frame. Default in
        memory: a DatetimeIndex, or else the order of the rows.
    emit : str
        ``"arrival"``: a row for each row that arrives. ``"all"``: also a row for each row that leaves, with
        the aggregates after it has left. The column ``status`` says ``"current"`` or ``"expired"``, and
        ``emitted`` says when, if there is a clock. Time passes after the last row, so all rows of a time
        window leave.
    params : mapping of str to value, optional
        Values of ``:name`` in the expressions.
    engine : engine, optional
        ``cepkit.ScatterGather(nodes=4)`` runs on several nodes, with the same result. See `cepkit.plan`.
    spread_by : str, optional
        Only for finite Spark frames and windows of time: with ``"time"`` the tasks share slices of time, not
        groups, as for `match`.

    Returns
    -------
    DataFrame or table
        The same kind as the frame: its columns and its index, and the aggregates. A streaming Spark frame
        gives `SparkStream`, which ``writeStream`` writes.

    Raises
    ------
    CepError
        A subclass, raised before any work starts: for unknown columns (with the nearest name), a window
        without a size or with two, a window of time without a clock, and types that do not fit.

    Notes
    -----
    Missing values and NaN do not count; an aggregate of nothing is null, and ``count`` is 0. Sums of floats
    are exact and are rounded once, so neither the order of the rows nor the engine changes them. ``avg`` is
    the rounded sum divided by the count. ``std`` is that of the whole population.
    Time O(rows), and the time to sort the rows and the groups. Memory O(rows).
    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    section 3.1.1, queries 3.1 and 3.2.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> trades = pd.DataFrame({"ts": [0, 10, 15, 16], "price": [1.0, 2.0, 4.0, 8.0]})
    >>> cep.window(trades, {"total": "sum(price)", "n": "count()"}, time=15, order_by="ts")
       ts  price  total  n
    0   0    1.0    1.0  1
    1  10    2.0    3.0  2
    2  15    4.0    6.0  2
    3  16    8.0   14.0  3
    """
    from cepkit.windows.running import check_window, frame_with, run_window, with_types_of_window
    from cepkit.windows.values import window_of

    value = window_of(
        aggregates, time=time, length=length, tumbling=tumbling, group_by=group_by, where=where,
        order_by=order_by, emit=emit, params=params,
    )  # fmt: skip
    nodes = _nodes_of(engine)
    check_spread(frame, spread_by)
    if spark_module(frame):
        if frame.isStreaming:
            return _window_stream(frame, value, engine)
        from cepkit.windows.spark import window_spark

        return window_spark(
            frame, value, spread_by=spread_by, run=run_window if nodes is None else nodes.run_window
        )
    source, native = source_of_frame(frame)
    source = with_types_of_window(value, source)
    checked = check_window(value, source)
    rows = run_window(checked, source) if nodes is None else nodes.run_window(checked, source)
    return frame_with(source, rows, native)


def _window_stream(frame: Frame, value: Window, engine: EngineValue | None) -> SparkStream:
    from cepkit.pipelines.spark_session import worker_python
    from cepkit.streaming.spark_binding import window_stream

    _refuse_engine_of_stream(engine)
    rows = window_stream(frame, value)
    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    return rows


def _join_stream(frame: Frame, other: Frame, value: Join, engine: EngineValue | None) -> SparkStream:
    from cepkit.pipelines.spark_session import worker_python
    from cepkit.streaming.spark_binding import join_stream

    _refuse_engine_of_stream(engine)
    if not (frame.isStreaming and other.isStreaming):
        raise UnsupportedQueryError(
            "one side of the join is a stream and the other one is finite; cepkit joins two streams or two "
            "finite frames. Read the finite side with spark.readStream, and give it a watermark"
        )
    rows = join_stream(frame, other, value)
    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    return rows


def _refuse_engine_of_stream(engine: EngineValue | None) -> None:
    if engine is not None:
        raise UnsupportedQueryError(
            f"engine={engine!r}: the tasks of Spark are the nodes of a stream. Leave engine out"
        )


@names_keywords
def join(
    frame: Frame, other: Frame, *, left: Window | None = None, right: Window | None = None,
    on: str | Sequence[str] | Mapping[str, str] | None = None, where: str | Expression | None = None,
    how: str = "inner", trigger: str = "both", measures: Mapping[str, str | Expression] | None = None,
    order_by: str | Sequence[str] | None = None, params: Mapping[str, Any] | None = None,
    engine: EngineValue | None = None, memory_limit: MemoryLimit = "auto", spread_by: str | None = None,
) -> Frame:  # fmt: skip
    """Join two frames as streams: each arrival meets the rows in the window of the other side.

    Parameters
    ----------
    frame : DataFrame or table
        The left side, as for `match`.
    other : DataFrame or table
        The right side. Both sides may be the same frame.
    left, right : Window, optional
        How long a row of this side waits for partners, as ``cep.Window(length=20)`` or
        ``cep.Window(time="1 min")``. Their ``where`` says which rows take part. None: rows do not wait, they
        only meet rows that wait on the other side.
    on : str, list of str or mapping of str to str, optional
        Columns that are equal on both sides; a mapping has names of the left and of the right side. A missing
        value is equal to nothing.
    where : str, optional
        A condition on a pair, as in ``"left.price < right.price"``.
    how : str
        ``"inner"``, ``"left"``, ``"right"`` or ``"outer"``: the sides whose rows are in the result when they
        find no partner on arrival.
    trigger : str
        ``"both"``, ``"left"`` or ``"right"``: the sides whose arrivals create pairs.
    measures : mapping of str to str, optional
        Running aggregates over the pairs that are alive after the arrival, as
        ``{"n": "count()", "x": "sum(left.price)"}``: sum, count and avg. A pair is alive while both of its
        rows are in their windows.
    order_by : str or list of two str, optional
        The clock of both sides, or of the left and of the right side. A row of the left side comes before a
        row of the right side with the same time. Default in memory: DatetimeIndexes.
    params : mapping of str to value, optional
        Values of ``:name`` in the expressions.
    engine : engine, optional
        ``cepkit.ScatterGather(nodes=4)`` runs on several nodes, with the same result. See `cepkit.plan`.
    memory_limit : str, int or None
        The most memory that the pairs of two frames in memory may take, as for `match`.
    spread_by : str, optional
        Only for finite Spark frames and windows of time: with ``"time"`` the tasks share slices of time, not
        keys, as for `match`.

    Returns
    -------
    DataFrame or table
        The same kind as ``frame``, in the order of the arrivals. A name that both sides have gets the suffix
        ``_left`` or ``_right``, except for a key. ``emitted`` is the time of the arrival. Two streaming Spark
        frames give `SparkStream`, which ``writeStream`` writes.

    Raises
    ------
    CepError
        A subclass, raised before any work starts: for unknown columns (with the nearest name), sides without
        a common clock, keys of different types, and names that clash.
    ResultTooLargeError
        When the pairs take more than ``memory_limit``; the message has the figure.

    Notes
    -----
    Time O(rows + pairs), and the time to sort the rows and the keys. Memory O(rows + pairs).
    Source: Suhothayan, "Scatter-Gather Based Approach in Scaling CEP Systems for Stateful Operators", 2019,
    section 3.1.3, query 3.4.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> trades = pd.DataFrame({"ts": [1, 4], "symbol": ["X", "X"], "price": [10.0, 12.0]})
    >>> news = pd.DataFrame({"ts": [2, 3], "symbol": ["X", "Y"], "text": ["up", "down"]})
    >>> cep.join(trades, news, left=cep.Window(time=5), right=cep.Window(length=1), on="symbol",
    ...          order_by="ts", measures={"n": "count()"})
       ts_left symbol  price  ts_right text  n  emitted
    0        1      X   10.0         2   up  1        2
    """
    from cepkit.windows.joining import frame_of_join, plan_join, run_join, with_types_of_join
    from cepkit.windows.values import Join

    value = Join(
        left, right, on=() if on is None else on, where=where, how=how, trigger=trigger,
        measures=() if measures is None else measures, order_by=() if order_by is None else order_by,
        params=() if params is None else params,
    )  # fmt: skip
    nodes = _nodes_of(engine)
    check_spread(frame, spread_by)
    is_spark = [bool(spark_module(side)) for side in (frame, other)]
    if any(is_spark):
        if not all(is_spark):
            raise CepError("a join needs two Spark frames or none; convert one side, as in other.toPandas()")
        refuse_limit_on_spark(memory_limit)
        if frame.isStreaming or other.isStreaming:
            return _join_stream(frame, other, value, engine)
        from cepkit.windows.spark import join_spark

        run = run_join if nodes is None else nodes.run_join
        return join_spark(frame, other, value, spread_by=spread_by, run=run)
    (source, native), (other_source, _) = source_of_frame(frame), source_of_frame(other)
    sources = with_types_of_join(value, (source, other_source))
    plan = plan_join(value, sources)
    with bound_memory(memory_limit, "Make the windows shorter, or join on more columns"):
        joined = run_join(plan, sources) if nodes is None else nodes.run_join(plan, sources)
        return frame_of_join(plan, sources, joined, native)


def _nodes_of(engine: EngineValue | None) -> ScatterGather | None:
    """Return the engine of a window or a join; raise the error for any other."""
    if engine is None:
        return None
    from cepkit.scaleout.scatter_gather import ScatterGather

    if not isinstance(engine, ScatterGather):
        raise CepError(
            f"engine={engine!r}: windows and joins run without an engine, or on cep.ScatterGather(nodes=4)"
        )
    return engine
