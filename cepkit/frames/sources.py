"""Frames in memory as sources of columns, from all libraries, with types for columns without values."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from itertools import permutations
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.typing import DataFrameGroupBy, SeriesGroupBy

from cepkit.engines.reducing import arrow_type
from cepkit.errors import CepError, PredicateError, warn
from cepkit.events import BOOLEAN, NUMBERS, TIME, Column, ColumnType, Frame, Source
from cepkit.frames.arrow import ArrowSource, column_of_arrow, type_of_arrow
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.vocabulary import SUMMED, VOCABULARY
from cepkit.language.match_recognize.query import (
    IsTruth,
    LikeWithEscape,
    Navigation,
    RowAggregate,
    RowPatternQuery,
    SelectedRows,
    WindowedRows,
)
from cepkit.language.regex import Mask, RegexQuery
from cepkit.language.row_patterns import variables
from cepkit.planning.plans import Recent, Same, remembered
from cepkit.values import dataclass, field

if TYPE_CHECKING:
    from cepkit.language.sequences.patterns import SequenceQuery


# Objects that are no frames, and how to make a frame of them.


def no_frame(given: Any) -> str:
    """Return the error message for an object that is no frame: what to write instead."""
    if isinstance(given, pd.Series):
        return "a pandas Series has no columns; call to_frame('value') first"
    if isinstance(given, DataFrameGroupBy | SeriesGroupBy):
        by = repr(given.keys) if isinstance(given.keys, str | list) else "…"
        return f"search the frame itself and name the groups: df.cep.match(…, partition_by={by})"
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        read = "read_csv" if ".csv" in path.lower() or ".tsv" in path.lower() else "read_parquet"
        return f"{path!r} is the path of a file; read it first: pd.{read}({path!r}).cep.match(…)"
    if isinstance(given, Mapping):
        return "a mapping of columns is not a frame yet; make one first: pd.DataFrame(columns).cep.match(…)"
    if isinstance(given, list | tuple):
        return (
            f"a {type(given).__name__} of events is not a frame yet; make one first: "
            "pd.DataFrame(events).cep.match(…)"
        )
    return (
        f"cannot search a {type(given).__module__}.{type(given).__name__}; "
        "a frame is a pandas, polars or Spark DataFrame or an Arrow table"
    )


_ROW_NUMBERS = {b"cepkit": b"row numbers"}
_WITHOUT_ARROW = ("Object", "Int128", "UInt128")  # polars types that Arrow cannot hold


def is_on_spark(frame: Frame) -> bool:
    """Return whether a frame is one of Spark. It never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and isinstance(frame, sql.DataFrame)


def source_of_frame(frame: Any) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return a frame as a source of columns, and a function that converts results to the frame's kind."""
    if isinstance(frame, pd.DataFrame):
        return PandasSource(frame), _unchanged
    if isinstance(frame, pa.Table):
        return ArrowSource(frame, frame), _unchanged
    frame = collected(frame)
    if isinstance(frame, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([frame]), frame), _unchanged
    if mistake := no_rows(frame):
        raise CepError(mistake)
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.DataFrame):
        return _source_of_polars(frame)
    table = table_of_export(frame)
    if not any(hasattr(frame, name) for name in ("__len__", "num_rows", "shape")):
        _check_rows_again(frame, table)
    return ArrowSource(table, frame), _unchanged


def collected(frame: Any) -> Any:
    """Return the rows of a polars LazyFrame, with a warning, and other objects as they are."""
    polars = sys.modules.get("polars")
    if polars is None or not isinstance(frame, polars.LazyFrame):
        return frame
    warn("a polars LazyFrame is collected for this call; to search it again, call collect() once before")
    return frame.collect()


def no_rows(given: Any) -> str | None:
    """Return the error message for an object whose rows cannot be read, or not twice; else None."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(given, polars.LazyFrame):
        return "a polars LazyFrame has no rows yet; call collect() first"
    if polars is not None and isinstance(given, polars.Series):
        return "a polars Series has no columns; call to_frame() first"
    if isinstance(given, pa.RecordBatchReader):
        return _only_once(given)
    if isinstance(given, pd.Series) or not hasattr(given, "__arrow_c_stream__"):
        return no_frame(given)
    return None


def table_of_export(frame: Any, needed: Container[str] = ()) -> pa.Table:
    """Return the rows of an object that exports Arrow's stream."""
    # Columns of polars that Arrow cannot hold are left out.
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.DataFrame):
        without = _columns_without_arrow(frame)
        for name in without:
            if name in needed:
                raise CepError(_refusal(name, frame.schema[name]))
        frame = frame.drop(without) if without else frame
    try:
        return pa.table(frame)
    except Exception as error:  # the object runs its own code
        raise _failed_export(frame, error) from error


def schema_of_export(frame: Any) -> pa.Schema:
    """Return the columns and types of an object that exports Arrow's stream, without its rows if it can."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(frame, polars.DataFrame):
        frame = frame.clear()
        if refused_columns := _columns_without_arrow(frame):
            raise CepError(_refusal(refused_columns[0], frame.schema[refused_columns[0]]))
    try:
        if isinstance(frame, pa.RecordBatchReader):
            return frame.schema
        return pa.RecordBatchReader.from_stream(frame).schema
    except Exception as error:
        raise _failed_export(frame, error) from error


def _failed_export(frame: Any, error: Exception) -> CepError:
    kind = f"{type(frame).__module__}.{type(frame).__name__}"
    return CepError(f"cannot read the {kind}: its export to Arrow fails with {type(error).__name__}: {error}")


def _only_once(frame: Any) -> str:
    """Return the error text for a reader that gives its rows only once."""
    return f"a {type(frame).__name__} gives its rows only once, and a query may need them again; " + (
        "call read_all() first: reader.read_all()"
        if hasattr(frame, "read_all")
        else "make a table of it first: pyarrow.table(rows)"
    )


def _check_rows_again(frame: Any, table: pa.Table) -> None:
    """Raise if an object gave its rows and does not give them again."""
    if not table.num_rows:
        return
    try:
        has_rows = any(batch.num_rows for batch in _batches(frame))
    except Exception:  # a consumed stream may also fail
        has_rows = False
    if not has_rows:
        raise CepError(_only_once(frame))


def _batches(frame: Any) -> Iterator[pa.RecordBatch]:
    yield from pa.RecordBatchReader.from_stream(frame)


def _unchanged(frame: Frame) -> Frame:
    return frame


# --- polars


def _source_of_polars(frame: Any) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return a polars frame as a source. Columns that Arrow cannot hold are carried as row numbers."""
    import polars

    carried = _columns_without_arrow(frame)
    if not carried:
        return ArrowSource(table_of_export(frame), frame), polars.from_arrow
    numbers = polars.Series(range(len(frame)), dtype=polars.Int64)
    table = table_of_export(frame.with_columns(numbers.alias(name) for name in carried))
    for name in carried:
        i = table.schema.get_field_index(name)
        table = table.set_column(i, table.schema.field(i).with_metadata(_ROW_NUMBERS), table.column(i))
    refused = {name: _refusal(name, frame.schema[name]) for name in carried}
    return ArrowSource(table, frame, refused), partial(_with_carried, frame)


def _columns_without_arrow(frame: Any) -> list[str]:
    return [name for name, dtype in frame.schema.items() if _is_without_arrow(dtype)]


def _is_without_arrow(dtype: Any) -> bool:
    if str(dtype) in _WITHOUT_ARROW:
        return True
    if hasattr(dtype, "inner"):
        return _is_without_arrow(dtype.inner)
    return any(_is_without_arrow(field.dtype) for field in getattr(dtype, "fields", ()))


def _refusal(name: str, of: Any) -> str:
    cast = f"df.with_columns(pl.col({name!r}).cast(pl.Int64))"
    if "Object" in str(of):
        cast = f"df.with_columns(pl.col({name!r}).map_elements(str, return_dtype=pl.String))"
    return f"column {name!r} is of polars type {of}, which Arrow cannot hold; cast it first: {cast}"


def _with_carried(frame: Any, table: pa.Table) -> Any:
    """Return a result as a polars frame, with the values of ``frame`` instead of row numbers."""
    import polars

    result = polars.from_arrow(table)
    for column in table.schema:
        if column.metadata == _ROW_NUMBERS:
            values = frame[column.name].gather(result[column.name])
            result = result.with_columns(values.alias(column.name))
    return result


# A source of columns that asks another one.


class WrappedSource(Source if TYPE_CHECKING else object):
    """A source that asks another one; subclasses change some of the answers."""

    def __init__(self, source: Source):
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while a copy has no source yet
            raise AttributeError(name)
        return getattr(self._source, name)


# Types for columns without values: the query says what such a column would hold.

TEXTS, TIMES, _DURATION, _NUMBER, TRUTHS = (
    pa.string(), pa.timestamp("ns"), pa.duration("ns"), pa.float64(), pa.bool_()
)  # fmt: skip
_OF_ONE_TYPE = {"least", "greatest", "coalesce", "nvl", "ifnull", "nullif"}  # functions of values of one type


class SourceWith(WrappedSource, ABC):
    """A source in which some columns have values of the query. Subclasses say which values."""

    def __init__(
        self, source: Source, arrow_types: Mapping[str, pa.DataType], types: Mapping[str, ColumnType]
    ):
        super().__init__(source)
        self._types = arrow_types
        self.schema = ChainMap(dict(types), cast(dict, source.schema))

    def is_untyped(self, name: str) -> bool:
        return name not in self._types and self._source.is_untyped(name)

    def storage(self, name: str) -> Hashable | None:
        return self._types[name] if name in self._types else self._source.storage(name)

    def column(self, name: str) -> Column:
        return self._column(name) if name in self._types else self._source.column(name)

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        return self._arrow(name, rows) if name in self._types else self._source.arrow(name, rows)

    @abstractmethod
    def _column(self, name: str) -> Column:
        """Return a column that has values of the query."""

    @abstractmethod
    def _arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of such a column in these rows."""


class TypedSource(SourceWith):
    """A source whose columns without values have types. The frame and its rows stay as they are."""

    def __init__(self, source: Source, types: Mapping[str, pa.DataType]):
        super().__init__(source, types, {name: type_of_arrow(arrow) for name, arrow in types.items()})

    def _column(self, name: str) -> Column:
        return column_of_arrow(pa.nulls(self.n_rows, self._types[name]), name)

    def _arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        return pa.nulls(len(rows), self._types[name])


class MaskedSource(SourceWith):
    """A source with columns for the conditions that are known for each row."""

    def __init__(self, source: Source, masks: Mapping[str, Mask]):
        super().__init__(source, dict.fromkeys(masks, TRUTHS), dict.fromkeys(masks, ColumnType(BOOLEAN)))
        self._masks = masks
        for name, mask in masks.items():
            if name in source.schema:
                raise PredicateError(f"{name!r} is both a predicate of define and a column; rename one")
            if len(mask.truths) != source.n_rows:
                n = len(mask.truths)
                raise CepError(f"predicate {name!r}: {n:,} truth values, and {source.n_rows:,} rows")

    def _column(self, name: str) -> Column:
        return Column(ColumnType(BOOLEAN), self._masks[name].truths.view(np.int8))

    def _arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        return pa.array(self._masks[name].truths[rows])


@dataclass(frozen=True)
class Wishes:
    """What a query says about the types of its columns, the surest last."""

    # keys, clocks: columns of keys, and columns that order the rows
    keys: Sequence[str] = ()
    clocks: Sequence[str] = ()
    trees: Sequence[ex.Expression] = ()  # all expressions
    conditions: Sequence[ex.Expression] = ()  # those that are true or false
    params: Mapping[str, Any] = field(default_factory=dict)  # values of parameters
    # Types that the query gives by other means.
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    ignores_case: bool = False  # names may differ from those of the columns in case, as in SQL

    @cached_property
    def named(self) -> frozenset[str]:
        in_trees = (name for tree in self.trees for name in ex.columns_in(tree))
        return frozenset((*self.keys, *self.clocks, *self.types, *in_trees))


_wishes = Recent(128)


def wishes_of(query: RegexQuery | SequenceQuery) -> Wishes:
    """Return what a query says about the types of its columns."""
    return remembered(_wishes, Same(query), partial(_read_wishes, query))


def with_types(source: Source, query: RegexQuery | SequenceQuery | Wishes) -> Source:
    """Return the source, or one with types for the columns that have neither values nor a type."""
    # pandas gives columns without values the dtype ``object``, or ``float64`` if they come from empty lists.
    # Arrow has a type null. Such a column gets the type that the query compares it with, so that the query
    # has an answer and no error of types.
    if isinstance(query, RegexQuery) and query.masks:
        source = MaskedSource(source, dict(query.masks))
    wishes = query if isinstance(query, Wishes) else wishes_of(query)
    names = list(wishes.named)
    if wishes.ignores_case:
        lower = {name.lower() for name in names}
        names = [name for name in source.schema if name.lower() in lower]
    untyped = [name for name in names if name in source.schema and source.is_untyped(name)]
    if not untyped:
        return source
    columns = {name.lower(): name for name in reversed(names)} if wishes.ignores_case else {}
    columns = {name: name if name in names else columns.get(name.lower(), "") for name in wishes.named}
    known = {
        name: source.schema[column]
        for name, column in columns.items()
        if column in source.schema and column not in untyped
    }
    wanted = {columns[name]: needed for name, needed in _types(wishes, known).items() if name in columns}
    return TypedSource(source, {name: wanted.get(name, _NUMBER) for name in untyped})


def _read_wishes(query: RegexQuery | SequenceQuery) -> Wishes:
    """Return the types that a query expects of columns that hold no values."""
    types: dict[str, pa.DataType] = {}
    measured = [tree for _, tree in query.measures or ()]
    if isinstance(query, RegexQuery):
        conditions = [tree for _, tree in query.define]
        defined = {name for name, _ in query.define}
        types |= {
            variable.name: TRUTHS for variable in variables(query.pattern) if variable.name not in defined
        }
    else:
        conditions = list(query.where)
        if query.event_type is not None:
            from cepkit.language.sequences.patterns import event_patterns

            kinds = {type(event.event_type) for event in event_patterns(query.pattern)}
            if str in kinds:
                types[query.event_type] = TEXTS
            elif kinds - {NoneType}:
                types[query.event_type] = TRUTHS if bool in kinds else _NUMBER
    if query.order_by:
        limits = (query.within, getattr(query, "gap_within", None))
        if any(isinstance(limit, str | timedelta) for limit in limits):
            types[query.order_by[0]] = TIMES
    return Wishes(
        query.partition_by, query.order_by, [*conditions, *measured], conditions, dict(query.params), types
    )


def _types(wishes: Wishes, known: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
    """Return the types that a query gives to columns, by name; ``known`` has the types that columns have."""
    types: dict[str, pa.DataType] = {}
    for tree in wishes.conditions:
        types |= {name: TRUTHS for name in _truths_of(tree)}
    types |= _compared(wishes, known)
    for tree in wishes.trees:
        for node in tree.walk():
            types |= {name: _NUMBER for name in _summed(node, types)}
    types |= wishes.types
    further = types
    while further:  # a column is like the column that it is compared with
        known = {**known, **{name: type_of_arrow(needed) for name, needed in further.items()}}
        further = {name: needed for name, needed in _compared(wishes, known).items() if name not in types}
        types |= further
    return types


def _compared(wishes: Wishes, known: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
    """Return the types of what a query compares columns with."""
    types: dict[str, pa.DataType] = {}
    for tree in wishes.trees:
        for node in tree.walk():
            for name, needed in types_in(node, wishes.params, known).items():
                # Any text can be compared with a text, also one that looks like a time.
                if not (pa.types.is_temporal(needed) and types.get(name) == TEXTS):
                    types[name] = needed
    return types


def _summed(node: ex.Expression, types: Mapping[str, pa.DataType]) -> Iterator[str]:
    """Yield the columns in a sum or a mean that must be numbers; a mean of times is a time."""
    match node:
        case (
            ex.Aggregate(function=function, operand=ex.Expression() as operand)
            | RowAggregate(function=function, arguments=(operand,))
        ) if function in SUMMED:
            may_be = {
                _DURATION,
                TRUTHS,
                *(of for of in types.values() if of.id == TIMES.id and function == "avg"),
            }
            yield from (name for name in ex.columns_in(operand) if types.get(name) not in may_be)


def _truths_of(tree: ex.Expression) -> Iterator[str]:
    """Yield the columns that a condition uses as truth values."""
    match tree:
        case ex.And(operands=operands) | ex.Or(operands=operands):
            for operand in operands:
                yield from _truths_of(operand)
        case ex.Not(operand=operand):
            yield from _truths_of(operand)
        case ex.Attribute(name=name) | ex.Reference(name=str(name)):
            yield name


def types_in(
    node: ex.Expression, params: Mapping[str, Any], known: Mapping[str, ColumnType]
) -> dict[str, pa.DataType]:
    """Return the types of columns in a comparison, a test of texts or a function of values of one type."""
    match node:
        case ex.Comparison(left=left, right=right):
            sides = [(left, right), (right, left)]
        case ex.In(operand=operand, options=options):
            sides = [(operand, option) for option in options[:1]]
        case ex.Like(operand=operand) | LikeWithEscape(operand=operand):
            return dict.fromkeys(ex.columns_in(operand), TEXTS)
        case IsTruth(operand=operand):
            return dict(_columns_alone(operand, TRUTHS))
        case ex.IsDistinct(left=left, right=right):
            sides = [(left, right), (right, left)]
        case ex.Call(function=function, arguments=arguments) if function in _OF_ONE_TYPE:
            sides = list(permutations(arguments, 2))
        case ex.Call(function=function) if function in VOCABULARY:
            return _types_of_call(node, known)
        case _:
            return {}
    types: dict[str, pa.DataType] = {}
    for operand, other in sides:
        if isinstance(other, ex.Attribute | ex.Reference):
            same = type_like(known.get(other.name or ""))
            if same is not None and isinstance(operand, ex.Attribute | ex.Reference):
                types |= dict.fromkeys(ex.columns_in(operand), same)
            continue
        other = other.operand if isinstance(other, ex.Negative) else other
        value = params.get(other.name) if isinstance(other, ex.Parameter) else getattr(other, "value", None)
        if isinstance(value, str):
            types |= dict.fromkeys(ex.columns_in(operand), _type_beside(operand, value))
        elif isinstance(value, bool):
            types |= dict.fromkeys(ex.columns_in(operand), TRUTHS)
        elif isinstance(value, int | float):
            types |= dict.fromkeys(ex.columns_in(operand), _NUMBER)
    return types


def _types_of_call(node: ex.Call, known: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
    """Return the types that a function of texts or times needs in columns that are its arguments."""
    signature = VOCABULARY[node.function].takes
    others = (known.get(name) for argument in node.arguments for name in ex.columns_in(argument))
    time = next(
        (
            type_like(column_type)
            for column_type in others
            if column_type is not None and column_type.kind == TIME
        ),
        None,
    )
    wanted = {"text": TEXTS, "time": TIMES if time is None else time, "boolean": TRUTHS}
    places = enumerate(node.arguments)
    return {
        name: column_type
        for place, argument in places
        if (kind := wanted.get(signature.types_of(place)[0])) is not None
        for name, column_type in _columns_alone(argument, kind)
    }


def type_like(of: ColumnType | None) -> pa.DataType | None:
    """Return an Arrow type for a column that is compared with a column of this type."""
    if of is None or of.kind in NUMBERS:
        return None if of is None else _NUMBER
    return arrow_type(ColumnType(of.kind, of.unit, of.timezone))


def _type_beside(operand: ex.Expression, text: str) -> pa.DataType:
    """Return the type of a column without values that a query compares with a text."""
    is_difference = any(
        isinstance(node, ex.Arithmetic) or (isinstance(node, ex.Aggregate) and node.function == "delta")
        for node in operand.walk()
    )
    try:
        duration_ticks(text, "ns")
        return TIMES if is_difference else _DURATION
    except CepError:
        pass
    try:
        moment = pd.Timestamp(text)
    except ValueError:
        return TEXTS
    if pd.isna(moment):
        return TEXTS
    return TIMES if moment.tzinfo is None else pa.timestamp("ns", "UTC")


# Types for columns without values, from the text of MATCH_RECOGNIZE.


def wishes_of_rows(query: RowPatternQuery | SelectedRows | WindowedRows, params: Mapping[str, Any]) -> Wishes:
    """Return what a query says about the types of its columns; ``params`` has values of parameters."""
    read = partial(_read_wishes_of_rows, query, params)
    return read() if params else remembered(_wishes, Same(query), read)


def _read_wishes_of_rows(
    query: RowPatternQuery | SelectedRows | WindowedRows, params: Mapping[str, Any]
) -> Wishes:
    """Return the types that a MATCH_RECOGNIZE expects of columns that hold no values."""
    rows = query if isinstance(query, RowPatternQuery) else query.rows
    order = [key.column for key in rows.order_by]
    conditions = [tree for _, tree in rows.define]
    if isinstance(query, WindowedRows) and query.where is not None:
        conditions.append(query.where)
    timed = {order[0]: TIMES} if rows.within and order else {}
    trees = [*conditions, *(tree for _, tree in rows.measures)]
    return Wishes(rows.partition_by, order, trees, conditions, params, timed, ignores_case=True)


def _columns_alone(tree: ex.Expression, of: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the type for a tree that is one column, also at another row, as in ``PREV(x)``."""
    if isinstance(tree, Navigation | ex.Previous | ex.Aggregate) and tree.operand is not None:
        yield from _columns_alone(tree.operand, of)
    elif isinstance(tree, ex.Attribute | ex.Reference) and tree.name is not None:
        yield tree.name, of
