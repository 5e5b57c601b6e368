"""SiddhiQL on Spark frames: lazy jobs. Tasks share the keys of partitions; other apps are one task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cepkit.errors import CepError, OrderError, warn
from cepkit.events import FLOAT, INTEGER, plain_values
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.spark import (
    EmptySource,
    PartTask,
    Results,
    check_convertible,
    key_columns,
    numbered_columns,
    run_tasks,
)
from cepkit.language.expressions.functions import RegisteredFunction, keep_registered, registered_functions
from cepkit.language.expressions.trees import Attribute
from cepkit.language.siddhi.printing import parse_siddhi
from cepkit.language.siddhi.query import SiddhiApp, SiddhiPartition
from cepkit.pipelines.spark_session import worker_python
from cepkit.results.spark_binding import check_functions
from cepkit.results.spark_tasks import run_job
from cepkit.siddhiql.binding import (
    BoundApp,
    OrderBy,
    StreamRows,
    arrow_of_type,
    bind_app,
    check_time_column,
    events_of,
    nanoseconds,
    times_of_ticks,
    written_stream,
)
from cepkit.siddhiql.functions import INT, LONG, OBJECT, type_of_column
from cepkit.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_STREAM, _KEY = "stream", "key"  # names of the tasks' rows, whose own columns are e0, e1, …


class SparkSiddhiResult:
    """The rows of each stream that SiddhiQL queries write, as lazy Spark frames."""

    def __init__(
        self, text: str, app: SiddhiApp, frames: Mapping[str, DataFrame], order_by: OrderBy, start: Any,
        complete_until: Any,
    ):  # fmt: skip
        self._frames = frames
        self._sources = {name: EmptySource(frame) for name, frame in frames.items()}
        for name, frame in frames.items():
            if frame.isStreaming:
                raise CepError(f"{name}: SiddhiQL runs on whole tables, and this frame is a stream")
        self._bound = bind_app(app, self._sources, order_by, has_rows=False)
        if unordered := [stream.name for stream in self._bound.streams if not stream.order_by]:
            raise OrderError(
                f"order_by is missing: the rows of the Spark frame {unordered[0]} have no order; name the "
                "columns that order the events, with the clock first"
            )
        self._keys = _attribute_of_stream(self._bound)
        columns = tuple((stream.name, self._columns(stream)) for stream in self._bound.streams)
        functions = tuple(function for function in registered_functions() if function.name in text)
        check_functions({function.name: function for function in functions})
        self._task = _AppTask(text, columns, order_by, start, complete_until, self._keys, functions)
        if self._keys is None:
            warn(
                "a single Spark task must hold and run all events; if all queries are in partitions by "
                "attributes, as in 'partition with (symbol of Trades) begin … end', the tasks share the work"
            )
        worker_python(next(iter(frames.values())).sparkSession)  # workers found elsewhere run this Python

    def _columns(self, stream: StreamRows) -> tuple[str, ...]:
        """Return the columns of a stream that tasks get: its clock, its attributes, further order columns."""
        names = dict.fromkeys([*stream.order_by, *(name for name, _ in stream.schema)])
        source = self._sources[stream.name]
        check_convertible(source, names)
        if twice := sorted(source.duplicates & set(names)):
            raise CepError(f"{stream.name}: column {twice[0]!r} occurs more than once; rename one of them")
        return tuple(names)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the queries write, in the order of the text."""
        return self._bound.plan.outputs

    def count(self, stream: str | None = None) -> int:
        """Return the number of rows of a stream; it runs a job."""
        return run_job(self.to_frame(stream).count)

    def to_frame(self, stream: str | None = None, *, time: str | None = None) -> DataFrame:
        """Return the rows of a stream as a lazy frame, in no particular order."""
        name = written_stream(stream, self.streams)
        schema = self._bound.plan.schemas[name]
        if time is not None:
            check_time_column(name, time, schema)
        columns = [] if time is None else [(time, pa.array([], _type_of_clock(self._bound)))]
        for column, kind in schema:
            item = self._bound.plan.item_types.get((name, column))
            if (item or kind) == OBJECT:
                raise CepError(f"{name}: the column {column!r} has no type before it runs; Spark needs one")
            empty = arrow_of_type([], kind if item is None else item)
            columns.append((column, empty if item is None else pa.array([], pa.list_(empty.type))))
        sent = self._sent()
        results = run_tasks(
            sent, next(iter(self._sources.values())), columns, _Writing,
            columns=tuple(f"r{i}" for i in range(len(sent.columns))), app=self._task, stream=name,
            has_time=time is not None,
        )  # fmt: skip
        return results.toDF(*(column for column, _ in columns))

    def _sent(self) -> DataFrame:
        """Return the rows of all streams as one frame, with all rows of a key in one task."""
        # Each row has the number of its stream, and null in the columns of the others. If there are keys, it
        # also has the least and the greatest clock of each stream, since timers need the times of all events.
        from pyspark.sql import functions as F

        parts, n_before = [], 0
        width = sum(len(names) for _, names in self._task.columns)
        types = [
            self._field(name, column).dataType for name, columns in self._task.columns for column in columns
        ]
        for i, (name, columns) in enumerate(self._task.columns):
            source = self._sources[name]
            plain = numbered_columns(self._frames[name], source, columns)
            shown = [F.lit(i).alias(_STREAM)]
            if self._keys is not None:
                key = key_columns(source, columns, [self._keys[name]])[0]
                whole = source.schema[self._keys[name]].kind == INTEGER
                shown.append((key.cast("bigint") if whole else key).alias(_KEY))
            for place in range(width):
                is_own = n_before <= place < n_before + len(columns)
                cell = F.col(f"e{place - n_before}") if is_own else F.lit(None).cast(types[place])
                shown.append(cell.alias(f"c{place}"))
            parts.append(plain.select(*shown))
            n_before += len(columns)
        rows = parts[0]
        for part in parts[1:]:
            rows = rows.unionAll(part)
        if self._keys is None:
            return rows.repartition(1)
        clocks = [f"c{place}" for place in self._task.places_of_clocks]
        limits = rows.agg(
            *(end(name).alias(f"{name}{i}") for name in clocks for i, end in enumerate((F.min, F.max)))
        )
        return rows.crossJoin(F.broadcast(limits)).repartition(_KEY).drop(_KEY)

    def _field(self, stream: str, column: str) -> Any:
        source = self._sources[stream]
        return source.fields[source.names.index(column)]

    def __repr__(self) -> str:
        shown = "; ".join(
            f"{name}: {', '.join(column for column, _ in self._bound.plan.schemas[name])}"
            for name in self.streams
        )
        return f"{shown}\nlazy Spark frames: to_frame({self.streams[-1]!r}) has the rows"


def _attribute_of_stream(bound: BoundApp) -> dict[str, str] | None:
    """Return the attribute of each stream that is its key, if the runs of the keys share nothing."""
    streams_by_name = {stream_rows.name: stream_rows for stream_rows in bound.streams}
    key_of_stream: dict[str, str] = {}
    for element in bound.plan.app.elements:
        if not isinstance(element, SiddhiPartition):
            return None
        partition_keys = {key.stream: key.value for key in element.keys}
        for query in element.queries:
            for stream in (source.stream for source in query.sources()):
                if stream.startswith("#"):
                    continue
                value = partition_keys.get(stream)
                if stream not in streams_by_name or not isinstance(value, Attribute):
                    return None
                if key_of_stream.setdefault(stream, value.name) != value.name:
                    return None
    kinds = set()
    for stream, name in key_of_stream.items():
        own_type, kind = (
            streams_by_name[stream].source.schema[name],
            dict(streams_by_name[stream].schema)[name],
        )
        seen = type_of_column(own_type)
        if kind != seen and {kind, seen} != {INT, LONG}:  # 1.2 and 1.7 are one key if they become integers
            return None
        kinds.add(own_type.kind)
    return key_of_stream if set(key_of_stream) == set(streams_by_name) and len(kinds) == 1 else None


def _type_of_clock(bound: BoundApp) -> pa.DataType:
    """Return the Arrow type of the times of an app."""
    if bound.clock is not None:
        return arrow_of_type([], bound.clock).type
    kinds = {stream.source.schema[stream.order_by[0]].kind for stream in bound.streams}
    return pa.float64() if FLOAT in kinds else pa.int64()


# --- in the workers


@dataclass(frozen=True, slots=True)
class _AppTask:
    """What a task needs to run an app on the rows that it gets."""

    text: str
    columns: tuple[tuple[str, tuple[str, ...]], ...]  # streams with their columns, the clock first
    order_by: OrderBy
    start: Any
    complete_until: Any
    keys: Mapping[str, str] | None
    functions: tuple[RegisteredFunction, ...]  # the registered functions whose names are in the text

    @property
    def places_of_clocks(self) -> list[int]:
        """The column of each stream's clock among the columns of all streams."""
        sizes = [len(names) for _, names in self.columns]
        return np.cumsum([0, *sizes[:-1]]).tolist()

    def bind(self, table: pa.Table) -> tuple[BoundApp, list[Any]]:
        """Return the app with its rows, and the ticks of the first and the last event of all tasks."""
        stream, n_before = table.column(0).to_numpy(), 1
        sources: dict[str, ArrowSource] = {}
        limits: list[tuple[str, pa.Array]] = []
        first_limit = 1 + sum(len(names) for _, names in self.columns)
        for i, (name, columns) in enumerate(self.columns):
            rows = table.filter(pa.array(stream == i))
            part = rows.select(list(range(n_before, n_before + len(columns)))).rename_columns(list(columns))
            sources[name] = ArrowSource(part)
            n_before += len(columns)
            if self.keys is not None:
                ends = table.slice(0, 1).select([first_limit + 2 * i, first_limit + 2 * i + 1])
                limits.append(
                    (columns[0], pa.chunked_array([*ends.column(0).chunks, *ends.column(1).chunks]))
                )
        keep_registered(self.functions)
        bound = bind_app(parse_siddhi(self.text), sources, self.order_by)
        times: list[Any] = []
        for column, ends in limits:
            if ends.null_count == 0:
                source = ArrowSource(pa.table({column: ends}))
                ticks = plain_values(source.column(column)).tolist()
                times += ticks if bound.clock is None else nanoseconds(source, column, ticks)
        return bound, times

    def check_order(self, bound: BoundApp) -> None:
        """Raise `OrderError` for events of a stream and a key that are equal in ``order_by``."""
        for stream in bound.streams:
            place = None
            if self.keys is not None:
                place = 1 + [name for name, _ in stream.schema].index(self.keys[stream.name])
            seen: set[tuple] = set()
            for order, event in zip(*events_of(stream, bound.clock is not None), strict=True):
                tie_key = order if place is None else (*order, str(event[place]))
                if tie_key in seen:
                    shown = ", ".join(map(str, order))
                    raise OrderError(
                        f"two events of {stream.name} are equal in order_by ({shown}). Spark keeps no order "
                        "of rows that could decide; add a column to order_by that tells them apart"
                    )
                seen.add(tie_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing(PartTask):
    """A task that runs an app and sends the rows of one stream."""

    app: _AppTask
    stream: str
    has_time: bool

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Yield the rows of the stream that the app makes of a table, with their times if it has a clock."""
        bound, times = self.app.bind(table)
        self.app.check_order(bound)
        rows = bound.run(self.app.start, self.app.complete_until, times)[self.stream]
        columns = []
        if self.has_time:
            columns.append(("time", times_of_ticks([row[1] for row in rows], bound.clock)))
        for i, (column, kind) in enumerate(bound.plan.schemas[self.stream]):
            columns.append((column, arrow_of_type([row[2][i] for row in rows], kind, column)))
        yield ArrowSource(table), columns
