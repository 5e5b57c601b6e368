"""Windows and joins on Spark frames, as lazy Spark jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cepkit.engines.regex_measures import Measured, Picked
from cepkit.errors import UnsupportedQueryError, warn
from cepkit.events import Events, Source
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import partition_codes, stream_order
from cepkit.frames.spark import (
    EmptySource,
    Order,
    PartTask,
    Results,
    Slices,
    check_convertible,
    check_keys,
    check_ordered,
    check_total_order,
    key_columns,
    numbered_columns,
    rows_by_key,
    run_tasks,
    send_slices,
    spread_slices,
    ticks,
)
from cepkit.planning.clocks import clock_values
from cepkit.results.spark_binding import check_functions, n_tasks
from cepkit.values import dataclass
from cepkit.windows.joining import JoinRows, PlannedJoin, frame_of_join, plan_join, run_join
from cepkit.windows.running import WindowRows, check_window, keys_of_window, run_window, size_of
from cepkit.windows.values import Join, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Boundaries = tuple[int | float, ...] | None
_BY_KEY, _IN_SLICES, _IN_ONE_TASK = "by key", "in slices of time", "in one task"
_SAID = {
    _BY_KEY: "on Spark; the tasks share the {noun} of {columns}",
    _IN_SLICES: "on Spark in slices of time; each task also reads the rows of one window before its slice",
    _IN_ONE_TASK: "on Spark in one task, which holds all rows; windows of time share the work among tasks",
}


def window_spark(
    frame: DataFrame, window: Window, *, spread_by: str | None = None, boundaries: Boundaries = None,
    run: Callable[[Window, Source], WindowRows] = run_window,
) -> DataFrame:  # fmt: skip
    """Return the rows that a window emits on a Spark frame, lazily."""
    # A window of time runs by group, or in slices of time without groups or if the user says so. Each slice
    # gets the rows of one window before it. A window of rows counts the rows of all groups together, so one
    # task reads all of them.
    _check_frame(frame)
    check_ordered(window.order_by)
    check_functions(dict(window.functions))
    source = EmptySource(frame)
    window = check_window(window, source)
    columns = source.names
    check_convertible(source, columns)
    check_keys(source, window.group_by, "group_by")
    events, size = numbered_columns(frame, source, columns), size_of(window, source)
    in_slices, way = False, _way_of_window(window, source, spread_by)
    if way == _BY_KEY:
        shuffled = rows_by_key(frame, source, columns, window.group_by)
    elif way == _IN_SLICES:
        slices = Slices(window.order_by[0], size.width, False, n_tasks(frame), boundaries)
        shuffled, in_slices = send_slices(events, source, columns, slices), True
    else:
        warn(
            "a window of rows counts the rows of all groups together, so a single Spark task must hold all "
            "of them; with a window of time the tasks share the work"
        )
        shuffled = events.repartition(1)
    nothing = _window_results(source, columns, run(window, source))
    results = run_tasks(
        shuffled, source, nothing, WindowTask, columns=tuple(columns), in_slices=in_slices, window=window,
        of_window=run, place=(*window.group_by, *window.order_by),
    )  # fmt: skip
    return results.toDF(*(name for name, _ in nothing))


def _way_of_window(window: Window, source: EmptySource, spread_by: str | None = None) -> str:
    """Return how the tasks share the rows of a checked window."""
    is_time = size_of(window, source).is_time
    if is_time and window.group_by and not spread_by:
        return _BY_KEY
    way = _IN_SLICES if is_time and _has_ticks(source, window.order_by[0]) else _IN_ONE_TASK
    return _checked(way, spread_by)


def _checked(way: str, spread_by: str | None) -> str:
    """Return the way of the tasks; raise if it is not in slices of time, as the user says."""
    if spread_by and way != _IN_SLICES:
        raise UnsupportedQueryError(
            f"spread_by={spread_by!r}: slices of time need windows of time, and clocks of numbers, dates or "
            "timestamps, of one type on both sides of a join"
        )
    return way


def how_window_runs(window: Window, source: EmptySource) -> str:
    """Return in words how a checked window runs on a finite Spark frame."""
    return _SAID[_way_of_window(window, source)].format(noun="groups", columns=", ".join(window.group_by))


def how_join_runs(join: Join, sources: tuple[EmptySource, EmptySource]) -> str:
    """Return in words how a join runs on finite Spark frames."""
    keys = ", ".join(left_key for left_key, _ in join.on)
    return _SAID[_way_of_join(plan_join(join, sources), sources)].format(noun="keys", columns=keys)


def _check_frame(frame: DataFrame) -> None:
    """Raise for a frame without an end."""
    if frame.isStreaming:
        raise UnsupportedQueryError(
            "a streaming DataFrame has no end, but windows and joins on Spark need finite frames here; write "
            "the stream to a table, or use cep.stream"
        )


def _has_ticks(source: EmptySource, clock: str) -> bool:
    from pyspark.sql import functions as F

    return ticks(F.lit(None), source.fields[source.names.index(clock)].dataType) is not None


def _window_results(source: Source, columns: list[str], found: WindowRows) -> list[tuple[str, Measured]]:
    picked_columns: list[tuple[str, Measured]] = [(name, Picked(name, found.rows)) for name in columns]
    return [*picked_columns, *found.columns.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTask(PartTask):
    """A task that runs a window."""

    window: Window
    of_window: Callable[[Window, Source], WindowRows] = run_window

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Yield the rows of a task and what is computed over their windows."""
        source = ArrowSource(table)
        check_order(source, Order(keys_of_window(self.window), self.window.order_by))
        window_rows = self.of_window(self.window, source)
        if self.in_slices:
            moment, clock = window_rows.moment, self.window.order_by[0]
            moment = clock_values(source, clock, window_rows.rows) if moment is None else moment
            is_in_slice = is_between(moment, low, high)
            kept = {
                name: values.filter(pa.array(is_in_slice)) for name, values in window_rows.columns.items()
            }
            window_rows = WindowRows(window_rows.rows[is_in_slice], kept)
        yield source, _window_results(source, list(self.columns), window_rows)


def is_between(moment: Any, low: Any, high: Any) -> np.ndarray:
    """Return which moments are in a slice; None is no limit."""
    is_inside = np.ones(len(moment), bool)
    if low is not None:
        is_inside &= moment >= low
    if high is not None:
        is_inside &= moment < high
    return is_inside


def check_order(source: ArrowSource, order: Order) -> None:
    """Raise for rows of one group that are equal in ``order_by``."""
    codes, n_codes = partition_codes(source, order.partition_by)
    rows = stream_order(source, order.order_by)
    codes = codes if rows is None else codes[rows]
    check_total_order(source, Events(source.n_rows, {}, codes, n_codes, rows), order)


# --- joins


def join_spark(
    frame: DataFrame, other: DataFrame, join: Join, *, spread_by: str | None = None,
    boundaries: Boundaries = None,
    run: Callable[[PlannedJoin, tuple[Source, Source]], JoinRows] = run_join,
) -> DataFrame:  # fmt: skip
    """Return the pairs of a join on Spark frames, lazily."""
    # Windows of time without measures run by key. Other windows of time run in slices of time, as all do if
    # the user says so. Each slice gets the rows of one window before it. A window of rows needs one task that
    # reads all rows. Each task calls ``run``, which takes what `run_join` takes.
    from pyspark.sql import functions as F

    _check_frame(frame)
    _check_frame(other)
    check_functions(dict(join.functions))
    sources = EmptySource(frame), EmptySource(other)
    plan = plan_join(join, sources)
    for which, source in enumerate(sources):
        check_convertible(source, source.names)
        check_keys(source, [pair[which] for pair in join.on], "on")
    sides = [
        numbered_columns(side_frame, source, source.names)
        for side_frame, source in zip((frame, other), sources, strict=True)
    ]
    n_left = len(sources[0].names)
    sides[1] = sides[1].toDF(*(f"e{n_left + i}" for i in range(len(sources[1].names))))
    events = (
        sides[0]
        .withColumn("side", F.lit(0))
        .unionByName(sides[1].withColumn("side", F.lit(1)), allowMissingColumns=True)
    )
    columns = [f"e{i}" for i in range(n_left + len(sources[1].names))]
    events = events.select("side", *columns)
    clocks = [_clock_column(plan, sources, which, n_left) for which in (0, 1)]
    in_slices, way = False, _way_of_join(plan, sources, spread_by)
    if way == _BY_KEY:
        shuffled = events.repartition(*_join_keys(join, sources, n_left))
    elif way == _IN_SLICES:
        reach = max(size.width for size in plan.sizes if size is not None)
        slices = Slices(plan.clocks[0], reach, False, n_tasks(frame), boundaries)
        copies = slices.copies(events, F.when(F.col("side") == 0, clocks[0]).otherwise(clocks[1]))
        shuffled, in_slices = spread_slices(copies, slices), True
    else:
        warn(
            "a single Spark task must hold all rows of this join; with windows of time on both sides, and "
            "clocks of one type, the tasks share the work"
        )
        shuffled = events.repartition(1)
    empty = _join_table(plan, sources, run(plan, sources))
    results = run_tasks(
        shuffled, sources[0], [(name, empty.column(name)) for name in empty.column_names], JoinTask,
        columns=("side", *columns), in_slices=in_slices, join=join,
        names=tuple(tuple(source.names) for source in sources),
        schemas=tuple(source.table.schema for source in sources), of_join=run,
    )  # fmt: skip
    return results.toDF(*empty.column_names)


def _way_of_join(
    plan: PlannedJoin, sources: tuple[EmptySource, EmptySource], spread_by: str | None = None
) -> str:
    """Return how the tasks share the rows of a join."""
    is_time = all(size is None or size.is_time for size in plan.sizes)
    by_key = plan.join.on and not plan.join.measures and _same_key_types(plan.join, sources)
    if is_time and by_key and not spread_by:
        return _BY_KEY
    has_ticks = all(_clock_column(plan, sources, which, 0) is not None for which in (0, 1))
    in_slices = is_time and has_ticks and _same_clock_types(plan, sources)
    return _checked(_IN_SLICES if in_slices else _IN_ONE_TASK, spread_by)


def _clock_column(
    plan: PlannedJoin, sources: tuple[EmptySource, EmptySource], which: int, n_left: int
) -> Any:
    """Return the Spark column with the ticks of the clock of a side."""
    from pyspark.sql import functions as F

    place = sources[which].names.index(plan.clocks[which])
    return ticks(F.col(f"e{place + n_left * which}"), sources[which].fields[place].dataType)


def _same_clock_types(plan: PlannedJoin, sources: tuple[EmptySource, EmptySource]) -> bool:
    types = [source.schema[clock] for source, clock in zip(sources, plan.clocks, strict=True)]
    return types[0].kind == types[1].kind and types[0].unit == types[1].unit


def _same_key_types(join: Join, sources: tuple[EmptySource, EmptySource]) -> bool:
    """Return whether the keys of both sides have the same Spark types."""
    pairs = [
        [source.fields[source.names.index(name)].dataType for source, name in zip(sources, pair, strict=True)]
        for pair in join.on
    ]
    return all(left_type == right_type for left_type, right_type in pairs)


def _join_keys(join: Join, sources: tuple[EmptySource, EmptySource], n_left: int) -> list[Any]:
    """Return the columns that send rows with equal keys to one task."""
    from pyspark.sql import functions as F

    keys = []
    for left_key, right_key in join.on:
        right = F.col(f"e{n_left + sources[1].names.index(right_key)}")
        keys.append(F.coalesce(key_columns(sources[0], sources[0].names, (left_key,))[0], right))
    return keys


def _join_table(plan: PlannedJoin, sources: tuple[Source, ...], found: JoinRows) -> pa.Table:
    return frame_of_join(plan, sources, found, lambda table: table)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTask(PartTask):
    """A task that runs a join."""

    join: Join
    names: tuple[tuple[str, ...], ...]
    schemas: tuple[pa.Schema, ...]
    of_join: Callable[[PlannedJoin, tuple[Source, Source]], JoinRows] = run_join

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        side = table.column("side").to_numpy()
        sources = tuple(
            ArrowSource(self._side(table.filter(pa.array(side == which)), which)) for which in (0, 1)
        )
        plan = plan_join(self.join, sources)
        if self.join.measures or any(size is not None and not size.is_time for size in plan.sizes):
            for source, clock in zip(sources, plan.clocks, strict=True):
                check_order(source, Order((), (clock,)))
        join_rows = self.of_join(plan, sources)
        if self.in_slices:
            is_in_slice = is_between(join_rows.meeting.time[join_rows.event], low, high)
            join_rows = JoinRows(
                tuple(rows[is_in_slice] for rows in join_rows.rows),
                {name: values.filter(pa.array(is_in_slice)) for name, values in join_rows.columns.items()},
                join_rows.event[is_in_slice],
                join_rows.meeting,
            )
        joined = _join_table(plan, sources, join_rows)
        yield sources[0], [(name, joined.column(name)) for name in joined.column_names]

    def _side(self, table: pa.Table, which: int) -> pa.Table:
        first = 1 + which * len(self.names[0])
        side_table = table.select(range(first, first + len(self.names[which])))
        return side_table.rename_columns(list(self.names[which])).cast(self.schemas[which]).combine_chunks()
