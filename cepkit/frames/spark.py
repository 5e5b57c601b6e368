"""Arrow tasks of Spark: their rows and types on the driver, what they do, and slices of time for them."""

from __future__ import annotations

import json
import math
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.cache import cache_folder
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.regex_measures import Measured, Picked
from cepkit.errors import CepError, OrderError
from cepkit.events import Events, sums_before
from cepkit.frames.arrow import ArrowSource, FieldTypes, path_of, type_of_arrow
from cepkit.frames.building import key_column
from cepkit.language.expressions.functions import error_of_call
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


SLICE_COLUMNS = ("slice", "low", "high")  # columns of a copy of an event, after its own
_ROWS_PER_BATCH = 1 << 16
_NESTED = ("struct", "map", "array", "variant")  # names of types that cannot be partition keys


# --- on the driver


class EmptySource(ArrowSource):
    """The columns of a Spark frame without rows, to check a query before any job."""

    # Spark's schema says whether a column is nullable, so that kernels do not depend on the data.

    def __init__(self, frame: DataFrame):
        self.fields = tuple(frame.schema)
        types = [_arrow_type(field.dataType) for field in self.fields]
        self.not_in_arrow = {
            f.name: f.dataType for f, arrow_type in zip(self.fields, types, strict=True) if not arrow_type
        }
        arrow = [
            (field.name, arrow_type or pa.null())
            for field, arrow_type in zip(self.fields, types, strict=True)
        ]
        super().__init__(pa.schema(arrow).empty_table())
        nullable = (field.nullable for field in self.fields)
        types_by_name = {
            name: type_of_arrow(arrow_type, nullable=may)
            for (name, arrow_type), may in zip(arrow, nullable, strict=True)
        }
        self.schema = FieldTypes(types_by_name, pa.schema(arrow))

    def is_untyped(self, name: str) -> bool:
        """Return False: the tasks read a column with the type that Spark says."""
        return False

    def spark_type(self, name: str) -> DataType:
        """Return Spark's type of a column, or of a field of structs."""
        column, fields = self.path(name)
        of: Any = self.fields[self.names.index(column)].dataType
        for field in fields:
            of = of[field].dataType
        return of

    def path(self, name: str) -> tuple[str, list[str]]:
        """Return the column of a name, and the fields of structs after it."""
        path = None if name in self.names else path_of(name, self.names)
        return (name, []) if path is None else path

    @property
    def names(self) -> list[str]:
        """Names of all columns, in the frame's order."""
        return [field.name for field in self.fields]


def _arrow_type(of: DataType) -> pa.DataType | None:
    """Return the Arrow type in which a task reads values of a Spark type, or None."""
    # Spark's timestamps are moments without a zone. They are read in UTC, so that the zone of the session,
    # which Spark's Arrow arrays have, decides no answer.
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(of, timezone="UTC")
    except PySparkException:
        return None


def needed_columns(program: BoundQuery, source: EmptySource) -> list[str]:
    """Return the columns that matching and measuring look at, in the frame's order."""
    names = {source.path(name)[0] for name in program.names_to_read()}
    check_convertible(source, names)
    check_keys(source, program.query.partition_by)
    return [name for name in source.names if name in names]


def check_keys(source: EmptySource, names: Iterable[str], what: str = "partition_by") -> None:
    """Raise an error for a column whose values cannot be keys."""
    for name in names:
        key_type = source.spark_type(name)
        if key_type.typeName() in _NESTED:
            raise CepError(
                f"{what}: column {name!r} is of type {key_type.simpleString()}; a key is a simple value. "
                "Make a column of one of its fields or items"
            )


def check_ordered(order_by: Sequence[Any], argument: str = "order_by") -> None:
    """Raise `OrderError` for a query that names no columns that sort the rows."""
    if not order_by:
        raise OrderError(
            f"{argument} is missing: the rows of a Spark frame have no order; name the columns that sort "
            "them: a time, and further columns if times repeat"
        )


def check_convertible(source: EmptySource, names: Iterable[str]) -> None:
    """Raise an error for a column whose values Spark cannot hand to Python."""
    for name in names:
        if name in source.not_in_arrow:
            raise CepError(
                f"column {name!r} is of type {source.not_in_arrow[name].simpleString()}, which Spark cannot "
                "hand to Python; drop or cast it"
            )


def rows_by_key(
    frame: DataFrame, source: EmptySource, columns: Sequence[str], partition_by: Sequence[str]
) -> DataFrame:
    """Return these columns by number, with all rows of a partition in one task, which must hold them."""
    # Without ``partition_by`` there is one task, otherwise Spark's setting ``spark.sql.shuffle.partitions``
    # gives their number. Spark does not sort; a task puts its own rows into stream order. On 2 M shuffled
    # rows and two order columns this took half the time of ``sortWithinPartitions``.
    plain = numbered_columns(frame, source, columns)
    keys = key_columns(source, columns, partition_by)
    return plain.repartition(*keys) if keys else plain.repartition(1)


def run_tasks(
    rows: DataFrame, source: EmptySource, nothing: Results, kind: Callable[..., PartTask], **fields: Any
) -> DataFrame:
    """Return what tasks of a kind send for their rows, lazily, with columns ``c0``, ``c1``, …."""
    # ``nothing`` are the results of no rows, which give the types. ``fields`` are those of the task.
    types, output = result_types(nothing, source)
    task = kind(output=output, kernel_cache=os.environ.get("CEPKIT_CACHE"), **fields)
    return rows.mapInArrow(task.run, types)


def numbered_columns(frame: DataFrame, source: EmptySource, columns: Sequence[str]) -> DataFrame:
    """Return these columns as ``e0``, ``e1``, …, since names may contain dots or differ only in case."""
    place = {name: i for i, name in enumerate(source.names)}
    plain = frame.toDF(*(f"c{i}" for i in range(len(source.names)))).select(
        *(f"c{place[name]}" for name in columns)
    )
    return plain.toDF(*(f"e{i}" for i in range(len(columns))))


def key_columns(source: EmptySource, columns: Sequence[str], partition_by: Iterable[str]) -> list[Column]:
    """Return the expressions that send a partition's rows to one task, for `numbered_columns`."""
    from pyspark.sql import functions as F

    keys = []
    for name in partition_by:
        column, fields = source.path(name)
        key = F.col(f"e{columns.index(column)}")
        for field in fields:
            key = key.getField(field)
        keys.append(_hashed(key, source.spark_type(name)))
    return keys


def result_types(
    results: Iterable[tuple[str, Measured]], source: EmptySource
) -> tuple[StructType, pa.Schema]:
    """Return Spark's and Arrow's types of these result columns, as columns ``c0``, ``c1``, …."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields, types = [], []
    for i, (name, values) in enumerate(results):
        if isinstance(values, Picked):
            spark_type = source.spark_type(values.column)
        elif pa.types.is_null(values.type):
            raise CepError(
                f"measure {name!r} has no type before it runs, and Spark needs one; "
                "name it by adding a number, as in 'f(last(x)) + 0.0'"
            )
        else:
            spark_type = from_arrow_type(
                values.type, prefer_timestamp_ntz=True
            )  # a time without a zone has none
        fields.append(StructField(f"c{i}", spark_type))
        types.append(pa.field(f"c{i}", _in_utc(_arrow_type(spark_type))))
    return StructType(fields), pa.schema(types)


def _hashed(column: Column, of: DataType) -> Column:
    """Return a key column that Spark hashes alike for all rows of one partition."""
    # Spark hashes -0.0 and 0.0 differently, and NaN and null; here each pair is one key.
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, DoubleType, FloatType

    if isinstance(of, FloatType | DoubleType):
        return F.when(~F.isnan(column), column + F.lit(0.0))
    return column.cast("double") if isinstance(of, DecimalType) else column


# --- in the workers


Results = Sequence[tuple[str, Measured]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask(ABC):
    """The work on the rows of one Spark partition: receive, check the order, search, and send the results."""

    # With ``in_slices`` the rows have ``SLICE_COLUMNS`` after their own, and each slice is searched by
    # itself.

    columns: tuple[str, ...]  # names of the columns that the task receives
    output: pa.Schema  # of the results
    in_slices: bool = False
    kernel_cache: str | None = None  # the folder of compiled kernels
    place: tuple[str, ...] = ()  # the columns that say which row an error is about

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Search the rows, one slice after the other, and yield the results."""
        table = received_table(batches, (*self.columns, *(SLICE_COLUMNS if self.in_slices else ())))
        if table is None:
            return
        use_kernel_cache(self.kernel_cache)
        prepared = self.prepare()
        for part, low, high in self._parts(table):
            try:
                yield from self._found(prepared, part, low, high)
            except Exception as error:
                where = "" if isinstance(error, OrderError) else self._where(error, prepared, part, low, high)
                raise clear_error(error, where) from None

    def _found(self, prepared: Any, part: pa.Table, low: Any, high: Any) -> Iterator[pa.RecordBatch]:
        for source, results in self.search(prepared, part, low, high):
            yield from sent_batches(results, source, self.output)

    def _where(self, error: Exception, prepared: Any, part: pa.Table, low: Any, high: Any) -> str:
        """Return the key and the order of the last of the few rows that fail by themselves."""
        # Halves of rows are searched as long as one of them fails, which takes twice the time of all rows.
        places = [self.columns.index(name) for name in self.place if name in self.columns]
        if not places or isinstance(error, MemoryError):  # also for more matches than the limit
            return ""
        keys = part.select(places).rename_columns([str(i) for i in range(len(places))])
        rows = part.take(pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]))

        def fails(half: pa.Table) -> bool:
            """Return whether half of the rows raises the same kind of error."""
            try:
                return not all(True for _ in self._found(prepared, half.combine_chunks(), low, high))
            except Exception as other:
                return type(other) is type(error)

        while rows.num_rows > 1:
            halves = rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)
            failing = next(filter(fails, halves), None)
            if failing is None:
                break
            rows = failing
        last = rows.slice(rows.num_rows - 1).to_pydict()
        return ", ".join(f"{self.columns[i]}={last[self.columns[i]][0]}" for i in places)

    def prepare(self) -> Any:
        """Return what the search of every slice needs."""
        return None

    @abstractmethod
    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Yield the results of some rows, and the rows as a source."""
        # ``low`` and ``high`` are the first tick of the slice and the first after it; None is no limit.

    def _parts(self, table: pa.Table) -> Iterator[tuple[pa.Table, Any, Any]]:
        """Yield the rows of every slice, with its limits."""
        if not self.in_slices:
            yield table, None, None
            return
        n = len(self.columns)
        rows_of_all = table.select(range(n))
        slice_of_row, low, high = (table.column(n + i) for i in range(len(SLICE_COLUMNS)))
        slice_of_row = slice_of_row.to_numpy()
        del table
        for number in np.unique(slice_of_row):
            rows = np.flatnonzero(slice_of_row == number)
            is_all = len(rows) == len(slice_of_row)
            part = rows_of_all if is_all else rows_of_all.take(pa.array(rows)).combine_chunks()
            yield part, *(limit[int(rows[0])].as_py() for limit in (low, high))


def clear_error(error: Exception, where: str = "") -> Exception:
    """Return an error of a task in one line, for Spark to show without the lines of Python that it passed."""
    # An error that is neither cepkit's nor of a user's function is a fault, and keeps its lines.
    notes = getattr(error, "__notes__", [])
    if not isinstance(error, CepError) and not notes:
        if where:
            error.add_note(f"at {where}")
        return error
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # Spark ends this process after an error
    if not isinstance(error, CepError):
        error = CepError(error_of_call(error))
    first, *others = str(error).split("\n")
    return type(error)("\n".join([f"{first} (at {where})" if where else first, *others]))


def received_table(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> pa.Table | None:
    """Return the rows of a task as a table with the names ``columns``; None without rows."""
    received = list(batches)
    if not received:
        return None
    return in_utc(pa.Table.from_batches(received).rename_columns(list(columns))).combine_chunks()


def in_utc(table: pa.Table) -> pa.Table:
    """Return a table with its moments in UTC, instead of the zone of Spark's session."""
    return table.cast(pa.schema([field.with_type(_in_utc(field.type)) for field in table.schema]))


def _in_utc(of: Any) -> pa.DataType:
    """Return an Arrow type with its times in UTC."""
    # Spark calls fields not nullable that are null where their struct is; Arrow refuses to cast these.
    if pa.types.is_timestamp(of) and of.tz is not None:
        return pa.timestamp(of.unit, "UTC")
    fields = [of.field(i) for i in range(of.num_fields)]
    fields = [field.with_type(_in_utc(field.type)).with_nullable(True) for field in fields]
    if pa.types.is_struct(of):
        return pa.struct(fields)
    if pa.types.is_map(of):
        return pa.map_(_in_utc(of.key_type), _in_utc(of.item_type))
    return pa.list_(fields[0]) if pa.types.is_list(of) else of


def sent_batches(
    results: Iterable[tuple[str, Measured]], source: ArrowSource, output: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the result columns as batches of bounded size, in the types of ``output``."""
    arrays = []
    for (_, values), field in zip(results, output, strict=True):
        array = source.arrow(values.column, values.rows) if isinstance(values, Picked) else values
        arrays.append(array if array.type == field.type else array.cast(field.type))
    yield from pa.Table.from_arrays(arrays, schema=output).to_batches(max_chunksize=_ROWS_PER_BATCH)


def too_many(limit: int) -> str:
    """Return the error message for more than ``limit`` matches."""
    return f"there are more than limit={limit:,} matches; take a part with head or sample, or count() them"


def use_kernel_cache(named: str | None) -> None:
    """Choose a worker's folder of compiled kernels: the driver's, the user's, or one of its own."""
    # A worker on a cluster may run without a home folder.
    if named:
        os.environ["CEPKIT_CACHE"] = named
    try:
        cache_folder()
    except CepError:
        user = getattr(os, "getuid", int)()
        os.environ["CEPKIT_CACHE"] = str(Path(tempfile.gettempdir()) / f"cepkit-kernels-{user}")
        try:
            cache_folder()
        except CepError:  # another user took the name
            os.environ["CEPKIT_CACHE"] = tempfile.mkdtemp(prefix="cepkit-kernels-")


class Order(NamedTuple):
    """What decides the order of events."""

    partition_by: tuple[str, ...]
    order_by: tuple[str, ...]


def check_total_order(source: ArrowSource, events: Events, query: RegexQuery | SequenceQuery | Order) -> None:
    """Raise an error for events of one partition that are equal in ``order_by``. Time O(n_events)."""
    # Spark keeps no order of rows that could decide between them.
    n_ties, row = _ties(source, events, query.order_by)
    if n_ties:
        names = (*query.partition_by, *query.order_by)
        first = ", ".join(f"{name}={source.arrow(name, np.array([row]))[0]}" for name in names)
        raise OrderError(
            f"order_by={list(query.order_by)}: {n_ties:,} of the {source.n_rows:,} events of one task are "
            f"ties, equal to an earlier event of their partition (the first at {first}). Spark keeps no "
            "order of rows that could decide; add a column to order_by that tells them apart, such as a "
            "sequence number"
        )


def _ties(source: ArrowSource, events: Events, order_by: tuple[str, ...]) -> tuple[int, int]:
    """Return the number of events equal to an earlier one of their partition, and the row of the first."""
    if events.n_events < 2:
        return 0, -1
    equal = np.ones(events.n_events - 1, bool)  # to the next event in the stream
    for name in order_by:
        values = key_column(source, name).values
        values = values if events.row_of_event is None else values[events.row_of_event]
        same = values[1:] == values[:-1]
        if values.dtype.kind == "f":  # NaN is null, and nulls are ties
            same |= np.isnan(values[1:]) & np.isnan(values[:-1])
        equal &= same
    if not equal.any():
        return 0, -1
    group = sums_before(~equal)  # a number for the events of one time
    shared = np.flatnonzero(np.concatenate([equal, [False]]) | np.concatenate([[False], equal]))
    pair = group[shared] * events.n_partitions + events.partition_of_event[shared]
    repeated = pd.Series(pair).duplicated().to_numpy()
    first = int(events.rows(shared[[int(repeated.argmax())]])[0])
    return int(repeated.sum()), first


# --- numbers of any size, texts and lists of them, sent as text


def as_text(values: Iterable[Any]) -> str:
    """Return numbers of any size, texts, and lists of both as one text, without loss."""
    return json.dumps([_one_as_text(value) for value in values])


def _one_as_text(value: Any) -> Any:
    """Return a value as one that JSON holds with all digits."""
    if value is None:
        return None
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, list):
        return [_one_as_text(item) for item in value]
    return hex(value) if isinstance(value, int | np.integer) else float(value).hex()


def from_text(text: str) -> list[Any]:
    """Return the values that `as_text` wrote."""
    return [_from_text(value) for value in json.loads(text)]


def _from_text(text: Any) -> Any:
    """Return the value that `_one_as_text` was given."""
    if text is None:
        return None
    if isinstance(text, dict):
        return text["text"]
    if isinstance(text, list):
        return [_from_text(item) for item in text]
    is_float = any(letter in text for letter in ".pn")  # inf and nan have no point
    return float.fromhex(text) if is_float else int(text, 16)


# Slices of time of a stream without partitions, so that several Spark tasks can match it.

_WINDOWS_PER_SLICE = 4  # least length of a slice, so that few of its events are copies
_DAY_US = 86_400_000_000
_MOST_TICKS = 2**63 - 1
_ROUNDING = 1e-12  # more than the rounding error of a floating-point time plus a window


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices of a stream by its clock."""

    # A slice owns the matches whose last event has a time from its ``low`` up to, but without, its ``high``.
    # It gets the events of this time and of one window before. When later events can rule out a match, it
    # also gets the events of one window after.
    # Source: Balkesen, Dindar, Wetter, Tatbul, "RIP: Run-based Intra-query Parallelism for Scalable Complex
    # Event Processing", DEBS 2013.
    # Differs: there a slice owns the matches that start in it and gets the events of a window after it; here
    # it owns the matches that end in it. Both find every match once. The end decides a match's place in the
    # order, so one slice here knows all matches with the same last event, and their ranks.

    clock: str  # column of times
    within: int | float  # the window, in ticks of the clock
    looks_ahead: bool  # whether an event must be absent after the last one of a match
    n_tasks: int  # number of tasks that share the slices
    # Ticks at which slices begin, strictly rising. None: Spark chooses them when it runs, at most one slice
    # per task. The slices then have about the same number of events, and none is shorter than four windows.
    boundaries: tuple[int | float, ...] | None = None

    def copies(self, events: DataFrame, clock: Column) -> DataFrame:
        """Return every event once per slice that needs it, with ``SLICE_COLUMNS`` after its columns."""
        # Lazy. Spark reads the events twice when it chooses the boundaries.
        from pyspark.sql import functions as F

        timed = events.withColumn("tick", clock)
        whole = timed.schema["tick"].dataType.typeName() == "long"
        reach = min(math.ceil(min(self.within, _MOST_TICKS)), _MOST_TICKS) if whole else float(self.within)
        begin = _move(F.col("low"), -reach)
        end = _move(F.col("high"), reach) if self.looks_ahead else F.col("high")
        # A limit is null at the ends of time, and when adding a window overflows.
        limits = [F.col("tick") >= begin, F.col("tick") < end]
        needed = [F.coalesce(limit, F.lit(True)) for limit in limits]
        copies = timed.join(F.broadcast(self._table(timed)), needed)
        return copies.select(*events.columns, *SLICE_COLUMNS)

    def _table(self, timed: DataFrame) -> DataFrame:
        """Return the slices: number, first tick, and first tick after it; null at the ends of time."""
        from pyspark.sql import functions as F

        tick_type = timed.schema["tick"].dataType.simpleString()
        if self.boundaries is None:
            table = self._choose_begins(timed, tick_type)
        else:
            begins = F.array(*(F.lit(tick).cast(tick_type) for tick in self.boundaries))
            table = timed.sparkSession.range(1).select(begins.cast(f"array<{tick_type}>").alias("begins"))
        end = F.array(F.lit(None).cast(tick_type))
        lows, highs = F.concat(end, "begins").alias("low"), F.concat("begins", end).alias("high")
        table = table.select(F.posexplode(F.arrays_zip(lows, highs)).alias("slice", "limits"))
        return table.select("slice", "limits.low", "limits.high")

    def _choose_begins(self, timed: DataFrame, of: str) -> DataFrame:
        """Return the ticks ``begins`` at which slices begin."""
        from pyspark.sql import functions as F

        none = F.array().cast(f"array<{of}>")
        timed = timed.where("not isnan(tick)") if of == "double" else timed
        if self.n_tasks < 2:
            return timed.sparkSession.range(1).select(none.alias("begins"))
        shares = [i / self.n_tasks for i in range(1, self.n_tasks)]
        quantiles = timed.agg(
            F.percentile_approx("tick", shares).alias("quantiles"), F.min("tick").alias("least")
        )
        shortest = float(_WINDOWS_PER_SLICE * self.within)

        def with_next(begins: Column, tick: Column) -> Column:
            """Return the beginnings with the next one, if it is far enough from the last."""
            last = F.element_at(begins, -1)
            is_far = F.coalesce(F.try_subtract(tick, last) >= shortest, F.lit(True))
            return F.when((tick > last) & is_far, F.concat(begins, F.array(tick))).otherwise(begins)

        begins = F.aggregate(F.coalesce("quantiles", none), F.array("least"), with_next)
        return quantiles.select(F.slice(begins, 2, self.n_tasks).alias("begins"))


def _move(limit: Column, by: int | float) -> Column:
    """Return a limit moved by ``by``, and a little further when floating point rounds."""
    from pyspark.sql import functions as F

    if isinstance(by, float):
        by = F.lit(by) + F.lit(math.copysign(_ROUNDING, by)) * (F.abs(limit) + F.lit(abs(by)))
    return F.try_add(limit, by if not isinstance(by, int) else F.lit(by).cast("bigint"))


def ticks(clock: Column, of: DataType) -> Column | None:
    """Return a clock of Spark type ``of`` as bigint or double, in a task's ticks; None for other types."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    match of:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return clock.cast("bigint")
        case T.FloatType() | T.DoubleType() | T.DecimalType():
            return clock.cast("double")
        case T.DateType():
            return F.unix_date(clock).cast("bigint") * 86_400
        case T.TimestampType():
            return F.unix_micros(clock)
        case T.TimestampNTZType():  # from its parts, which no time zone shifts
            seconds = F.hour(clock) * 3600 + F.minute(clock) * 60 + F.extract(F.lit("SECOND"), clock)
            days = F.unix_date(clock.cast("date")).cast("bigint")
            return days * _DAY_US + (seconds * 1_000_000).cast("bigint")
    return None


def slices_of(program: SequenceProgram, source: EmptySource, n_tasks: int) -> tuple[Slices | None, str]:
    """Return the slices for a query without partitions, or what the query lacks for them."""
    from pyspark.sql import functions as F

    needed = []
    if program.window.within is None:
        needed.append("a time window (within)")
    if program.query.selects:
        needed.append("after_match='none'")
    clock_type = source.spark_type(program.clock)
    if ticks(F.lit(None), clock_type) is None:
        needed.append(f"a clock of numbers, dates or timestamps instead of {clock_type.simpleString()}")
    if needed:
        return None, " and ".join(needed)
    looks_ahead = any(
        absence.before >= len(bound.branch.components)
        for bound in program.branches
        for absence in bound.branch.absences
    )
    return Slices(program.clock, program.window.within, looks_ahead, n_tasks), ""


def send_slices(events: DataFrame, source: EmptySource, columns: Sequence[str], slices: Slices) -> DataFrame:
    """Return the events of each slice, with a task for every slice."""
    from pyspark.sql import functions as F

    clock_type = source.spark_type(slices.clock)
    copies = slices.copies(events, ticks(F.col(f"e{columns.index(slices.clock)}"), clock_type))
    return spread_slices(copies, slices)


def spread_slices(copies: DataFrame, slices: Slices) -> DataFrame:
    """Return the copies of `Slices.copies` with the slices spread over the tasks."""
    from pyspark.sql import functions as F

    if hasattr(copies, "repartitionById"):  # since Spark 4.1
        return copies.repartitionById(slices.n_tasks, F.col("slice") % slices.n_tasks)
    return copies.repartition(slices.n_tasks, "slice")
