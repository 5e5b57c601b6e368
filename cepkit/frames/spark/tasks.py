"""Regex queries as Arrow tasks of Spark: the schema on the driver, and the work of a task."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.cache import cache_folder
from cepkit.compile.regex.program import Program, compile_regex
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.aggregates import aggregate_regex
from cepkit.engines.measures.regex_measures import Measured, Picked, measure
from cepkit.engines.regex import label_rows, match_regex
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError, OrderError, ResultTooLargeError
from cepkit.events import LIST, ColumnType, Events
from cepkit.frames.arrow import ArrowSource, type_of_arrow
from cepkit.frames.building import build_events
from cepkit.language.expressions.trees import Attribute, Reference
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_ROWS_PER_BATCH = 1 << 16
_NESTED = ("struct", "map", "array", "variant")  # names of types that cannot be partition keys


# --- on the driver


class EmptySource(ArrowSource):
    """The columns of a Spark frame without rows, to check a query before any job.

    Spark's schema says whether a column is nullable, so that kernels do not depend on the data.

    """

    def __init__(self, frame: DataFrame):
        self.timezone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
        self.fields = tuple(frame.schema)
        types = [_arrow_type(field.dataType, self.timezone) for field in self.fields]
        self.not_in_arrow = {
            f.name: f.dataType for f, arrow_type in zip(self.fields, types, strict=True) if not arrow_type
        }
        arrow = [
            (field.name, arrow_type or pa.null())
            for field, arrow_type in zip(self.fields, types, strict=True)
        ]
        super().__init__(pa.schema(arrow).empty_table())
        nullable = (field.nullable for field in self.fields)
        self.schema = {
            name: type_of_arrow(arrow_type, nullable=may)
            for (name, arrow_type), may in zip(arrow, nullable, strict=True)
        }

    def is_untyped(self, name: str) -> bool:
        """Return False: the tasks read a column with the type that Spark says."""
        return False

    @property
    def names(self) -> list[str]:
        """Names of all columns, in the frame's order."""
        return [field.name for field in self.fields]


def _arrow_type(of: DataType, timezone: str) -> pa.DataType | None:
    """Return the Arrow type in which a task gets values of a Spark type, or None."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(of, timezone=timezone)
    except PySparkException:
        return None


def needed_columns(program: BoundQuery, source: EmptySource) -> list[str]:
    """Return the columns that matching and measuring look at, in the frame's order."""
    query = program.query
    derived = program.derived
    names = {*query.partition_by, *query.order_by}
    names |= {derived[name].column if name in derived else name for name in program.columns_to_read}
    nodes = [node for _, tree in query.measures or () for node in tree.walk()]
    names |= {node.name for node in nodes if isinstance(node, Attribute | Reference)} - {None}
    check_convertible(source, names)
    for name in query.partition_by:
        key_type = source.fields[source.names.index(name)].dataType
        if source.schema[name].kind == LIST or key_type.typeName() in _NESTED:
            raise CepError(
                f"partition_by: column {name!r} is of type {key_type.simpleString()}; a key is a simple "
                "value. Make a column of one of its fields or items"
            )
    return [name for name in source.names if name in names]


def check_convertible(source: EmptySource, names: Iterable[str]) -> None:
    """Raise an error for a column whose values Spark cannot hand to Python."""
    for name in names:
        if name in source.not_in_arrow:
            raise CepError(
                f"column {name!r} is of type {source.not_in_arrow[name].simpleString()}, which Spark cannot "
                "hand to Python; drop or cast it"
            )


def run_tasks(
    frame: DataFrame, source: EmptySource, program: Program, columns: list[str], emit: Emit, *,
    limit: int | None = None,
) -> DataFrame:  # fmt: skip
    """Return the output of ``emit`` for the matches of every task, lazily, with columns ``c0``, ``c1``, ….

    One task gets all rows of a partition of the query, which must fit into its memory, and it gets many
    partitions. Without ``partition_by`` there is one task, otherwise Spark's setting
    ``spark.sql.shuffle.partitions`` gives their number.

    Spark does not sort; a task puts its own rows into stream order. On 2 M shuffled rows and two order
    columns this took half the time of ``sortWithinPartitions``; rows that arrive in order need no sort.
    """
    plain = numbered_columns(frame, source, columns)
    keys = key_columns(source, columns, program.query.partition_by)
    shuffled = plain.repartition(*keys) if keys else plain.repartition(1)

    # The same work on no rows gives the types of the result.
    none = np.empty(0, np.int64)
    nothing = TaskMatches(program, source, MatchSet(build_events(source, program), none, none), columns)
    types, output = result_types(emit(nothing), source)
    task = Task(
        program.query, program.schema, tuple(columns), emit, output=output, limit=limit,
        kernel_cache=os.environ.get("CEPKIT_CACHE"),
    )  # fmt: skip
    return shuffled.mapInArrow(task.run, types)


def numbered_columns(frame: DataFrame, source: EmptySource, columns: Sequence[str]) -> DataFrame:
    """Return these columns as ``e0``, ``e1``, …, since names may contain dots or differ only in case."""
    place = {name: i for i, name in enumerate(source.names)}
    plain = frame.toDF(*(f"c{i}" for i in range(len(source.names)))).select(
        *(f"c{place[name]}" for name in columns)
    )
    return plain.toDF(*(f"e{i}" for i in range(len(columns))))


def key_columns(source: EmptySource, columns: Sequence[str], partition_by: Iterable[str]) -> list[Column]:
    """Return the expressions that send a partition's rows to one task, for `numbered_columns`."""
    types = {field.name: field.dataType for field in source.fields}
    return [_hashed(f"e{columns.index(name)}", types[name]) for name in partition_by]


def result_types(
    results: Iterable[tuple[str, Measured]], source: EmptySource
) -> tuple[StructType, pa.Schema]:
    """Return Spark's and Arrow's types of these result columns, as columns ``c0``, ``c1``, …."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields, types = [], []
    for i, (name, values) in enumerate(results):
        if isinstance(values, Picked):
            spark_type = source.fields[source.names.index(values.column)].dataType
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
        types.append(pa.field(f"c{i}", _arrow_type(spark_type, source.timezone)))
    return StructType(fields), pa.schema(types)


def _hashed(name: str, of: DataType) -> Column:
    """Return a key column that Spark hashes alike for all rows of one partition.

    Spark hashes -0.0 and 0.0 differently, and NaN and null; here each pair is one key.

    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, DoubleType, FloatType

    column = F.col(name)
    if isinstance(of, FloatType | DoubleType):
        return F.when(~F.isnan(column), column + F.lit(0.0))
    return column.cast("double") if isinstance(of, DecimalType) else column


# --- in the workers


@dataclass(frozen=True, slots=True)
class TaskMatches:
    """The matches of one task, with the program and the source that results need."""

    program: Program
    source: ArrowSource
    matches: MatchSet
    columns: Sequence[str]  # the frame's columns that the task got

    @property
    def last_rows(self) -> np.ndarray:
        """Row of the last event of every match, int64, (n_matches,)."""
        return self.matches.events.rows(self.matches.last)

    @property
    def item_rows(self) -> np.ndarray:
        """Row of every item of the matches' lineage, int64, (n_items,)."""
        return self.matches.events.rows(self.matches.lineage.event_of_item.astype(np.int64))

    @property
    def variables(self) -> np.ndarray:
        """Name in the pattern of every item, objects, (n_items,)."""
        return np.array(self.program.automaton.names, dtype=object)[label_rows(self.program, self.matches)]


Emit = Callable[[TaskMatches], list[tuple[str, Measured]]]


@dataclass(frozen=True, slots=True)
class Task:
    """The work on the batches of one Spark partition."""

    query: RegexQuery
    schema: Mapping[str, ColumnType]
    columns: tuple[str, ...]  # names of the batches' columns
    emit: Emit
    output: pa.Schema
    limit: int | None
    kernel_cache: str | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Match the rows and yield the output of ``emit``."""
        table = received_table(batches, self.columns)
        if table is None:
            return
        source = ArrowSource(table)
        use_kernel_cache(self.kernel_cache)
        program = compile_regex(self.query, self.schema)
        events = build_events(source, program)
        check_total_order(source, events, self.query)
        # Spark already runs one task per core, and a kernel serves all of them.
        matches = match_regex(program, events, threads=1, tier="compiled")
        if self.limit is not None and len(matches) > self.limit:
            raise ResultTooLargeError(too_many(self.limit))
        task_matches = TaskMatches(program, source, matches, self.columns)
        yield from sent_batches(self.emit(task_matches), source, self.output)


def received_table(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> pa.Table | None:
    """Return the rows of a task as a table with the names ``columns``; None without rows."""
    received = list(batches)
    if not received:
        return None
    return pa.Table.from_batches(received).rename_columns(list(columns)).combine_chunks()


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
    """Choose a worker's folder of compiled kernels: the driver's, the user's, or one of its own.

    A worker on a cluster may run without a home folder.

    """
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
    """Raise an error for events of one partition that are equal in ``order_by``. Time O(n_events).

    Spark keeps no order of rows that could decide between them.

    """
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
        values = source.column(name).values
        values = values if events.row_of_event is None else values[events.row_of_event]
        same = values[1:] == values[:-1]
        if values.dtype.kind == "f":  # NaN is null, and nulls are ties
            same |= np.isnan(values[1:]) & np.isnan(values[:-1])
        equal &= same
    if not equal.any():
        return 0, -1
    group = np.concatenate([[0], np.cumsum(~equal)])
    shared = np.flatnonzero(np.concatenate([equal, [False]]) | np.concatenate([[False], equal]))
    pair = group[shared] * events.n_partitions + events.partition_of_event[shared]
    repeated = pd.Series(pair).duplicated().to_numpy()
    first = int(events.rows(shared[[int(repeated.argmax())]])[0])
    return int(repeated.sum()), first


# --- the results of a task


def counted(found: TaskMatches) -> list[tuple[str, Measured]]:
    """Return the number of matches, one row per task."""
    return [("count", pa.array([len(found.matches)]))]


def placed(found: TaskMatches) -> list[tuple[str, Measured]]:
    """Return the order and partition columns at the last event of every match."""
    query = found.program.query
    return [(name, Picked(name, found.last_rows)) for name in (*query.order_by, *query.partition_by)]


def measured(found: TaskMatches) -> list[tuple[str, Measured]]:
    """Return the result columns of every match, then `placed`."""
    return [*measure(found.program.query, found.matches, found.source).items(), *placed(found)]


def matched_rows(found: TaskMatches) -> list[tuple[str, Measured]]:
    """Return the rows of the matches: their variable, their columns, and `placed` of their match."""
    lineage, rows = found.matches.lineage, found.item_rows
    last_rows = found.last_rows[lineage.match_of_item]
    place = [(name, Picked(values.column, last_rows)) for name, values in placed(found)]
    columns = [(name, Picked(name, rows)) for name in found.columns]
    return [("variable", pa.array(found.variables, pa.string())), *columns, *place]


def tagged(found: TaskMatches) -> list[tuple[str, Measured]]:
    """Return all rows as `matched_rows` does, with nulls for unmatched rows."""
    n_rows = found.source.n_rows
    match, variable = np.full(n_rows, -1, np.int64), np.full(n_rows, None, dtype=object)
    match[found.item_rows] = found.matches.lineage.match_of_item
    variable[found.item_rows] = found.variables
    match_of_row = pa.array(match, mask=match < 0)
    place = [(n, found.source.arrow(v.column, v.rows).take(match_of_row)) for n, v in placed(found)]
    columns = [(name, Picked(name, np.arange(n_rows))) for name in found.columns]
    return [("variable", pa.array(variable, pa.string())), *columns, *place]


@dataclass(frozen=True, slots=True)
class RegexTaskAggregates:
    """Aggregates over the rows of all matches; ``texts`` are texts for `aggregate_regex`."""

    texts: tuple[str, ...]

    def __call__(self, found: TaskMatches) -> list[tuple[str, Measured]]:
        """Return the values of a task as one text (see `from_text`)."""
        texts = {str(i): text for i, text in enumerate(self.texts)}
        values = aggregate_regex(found.program, found.matches, found.source, texts)
        return [("values", pa.array([as_text(values)]))]


# --- numbers of any size, sent as text


def as_text(values: Iterable[int | float | None]) -> str:
    """Return numbers of any size as one text, without loss."""
    return json.dumps([_one_as_text(value) for value in values])


def _one_as_text(value: Any) -> str | None:
    if value is None:
        return None
    return hex(value) if isinstance(value, int | np.integer) else float(value).hex()


def from_text(text: str) -> list[int | float | None]:
    """Return the numbers that `as_text` wrote."""
    return [_number(value) for value in json.loads(text)]


def _number(text: str | None) -> int | float | None:
    if text is None:
        return None
    is_float = any(letter in text for letter in ".pn")  # inf and nan have no point
    return float.fromhex(text) if is_float else int(text, 16)
