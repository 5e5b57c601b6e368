"""Types for columns without values: the query says what such a column would hold."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Measured
from cepkit.errors import CepError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, Column, ColumnType, Source
from cepkit.frames.arrow import column_of_arrow, type_of_arrow
from cepkit.frames.wrapped import WrappedSource
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.sql_functions import SIGNATURES
from cepkit.language.match_recognize.patterns import IsTruth, LikeWithEscape, Navigation, RowAggregate
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows
from cepkit.language.regex.patterns import variables
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.patterns import event_patterns
from cepkit.language.sequences.query import SequenceQuery

_TEXT, _TIME, _DURATION, _NUMBER, _TRUTH = (
    pa.string(), pa.timestamp("ns"), pa.duration("ns"), pa.float64(), pa.bool_()
)  # fmt: skip
AnyQuery = RegexQuery | SequenceQuery | RowPatternQuery | SelectedRows | WindowedRows
_TEXT_TESTS = {"starts_with", "ends_with", "contains"}


class TypedSource(WrappedSource):
    """A source whose columns without values have types. The frame and its rows stay as they are."""

    def __init__(self, source: Source, types: Mapping[str, pa.DataType]):
        super().__init__(source)
        self._types = types
        own = {name: type_of_arrow(of) for name, of in types.items()}
        self._schema = ChainMap(own, cast(dict, source.schema))

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """The type of every column by name."""
        return self._schema

    def is_untyped(self, name: str) -> bool:
        """Return whether a column that the query does not name has neither values nor a type."""
        return name not in self._types and self._source.is_untyped(name)

    def storage(self, name: str) -> Hashable | None:
        """Return what decides, beside its type, how a column becomes an Arrow array; None for the values."""
        return self._types[name] if name in self._types else self._source.storage(name)

    def column(self, name: str) -> Column:
        """Return a column by name."""
        if name not in self._types:
            return self._source.column(name)
        return column_of_arrow(pa.nulls(self.n_rows, self._types[name]), name)

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of a column at these row numbers."""
        if name not in self._types:
            return self._source.arrow(name, rows)
        return pa.nulls(len(rows), self._types[name])

    def result(self, columns: Mapping[str, Measured]) -> Any:
        """Return result columns as a frame of the same kind."""
        return self._source.result(columns)


@dataclass(frozen=True)
class Wishes:
    """What a query says about the types of its columns, the surest last.

    Parameters
    ----------
    keys, clocks : sequence of str
        Columns of keys, and columns that order the rows.
    trees : sequence of Expression
        All expressions.
    conditions : sequence of Expression
        Those that are true or false.
    params : mapping
        Values of parameters.
    types : mapping of str to pyarrow.DataType
        Types that the query gives by other means.
    is_case_free : bool
        Whether names may differ from those of the columns in case.
    """

    keys: Sequence[str] = ()
    clocks: Sequence[str] = ()
    trees: Sequence[ex.Expression] = ()
    conditions: Sequence[ex.Expression] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    is_case_free: bool = False


def with_types(source: Source, query: AnyQuery | Wishes, params: Mapping[str, Any] | None = None) -> Source:
    """Return the source, or one with types for the columns that have neither values nor a type.

    pandas gives columns without values the dtype ``object``, or ``float64`` if they come from empty lists.
    Arrow has a type null. Such a column gets the type that the query compares it with, so that the query has
    an answer and no error of types. ``params`` are those of MATCH_RECOGNIZE; other queries have their own.
    """
    wishes = query if isinstance(query, Wishes) else _wishes_of(query, params or {})
    named = {
        *wishes.keys,
        *wishes.clocks,
        *wishes.types,
        *(n for tree in wishes.trees for n in _columns(tree)),
    }
    if wishes.is_case_free:
        lower = {name.lower() for name in named}
        named = {name for name in source.schema if name.lower() in lower}
    untyped = [name for name in source.schema if name in named and source.is_untyped(name)]
    if not untyped:
        return source
    known = {name: source.schema[name] for name in source.schema if name in named and name not in untyped}
    wanted = _types(wishes, known, source.schema)
    return TypedSource(source, {name: wanted.get(name, _NUMBER) for name in untyped})


def _wishes_of(query: AnyQuery, params: Mapping[str, Any]) -> Wishes:
    if isinstance(query, RowPatternQuery | SelectedRows | WindowedRows):
        rows = query if isinstance(query, RowPatternQuery) else query.rows
        order = [key.column for key in rows.order_by]
        conditions = [tree for _, tree in rows.define]
        if isinstance(query, WindowedRows) and query.where is not None:
            conditions.append(query.where)
        timed = {order[0]: _TIME} if rows.within and order else {}
        trees = [*conditions, *(tree for _, tree in rows.measures)]
        return Wishes(rows.partition_by, order, trees, conditions, params, timed, is_case_free=True)
    types: dict[str, pa.DataType] = {}
    measured = [tree for _, tree in query.measures or ()]
    if isinstance(query, RegexQuery):
        conditions = [tree for _, tree in query.define]
        defined = {name for name, _ in query.define}
        types |= {of.name: _TRUTH for of in variables(query.pattern) if of.name not in defined}
    else:
        conditions = list(query.where)
        if query.event_type is not None:
            kinds = {type(event.event_type) for event in event_patterns(query.pattern)}
            types[query.event_type] = _TEXT if str in kinds else _TRUTH if bool in kinds else _NUMBER
    if query.order_by:
        limits = (query.within, getattr(query, "gap_within", None))
        if any(isinstance(limit, str | timedelta) for limit in limits):
            types[query.order_by[0]] = _TIME
    return Wishes(
        query.partition_by, query.order_by, [*conditions, *measured], conditions, dict(query.params), types
    )


def _types(wishes: Wishes, known: Mapping[str, ColumnType], names: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the types that a query gives to columns, by name; ``known`` has the types that columns have."""
    types: dict[str, pa.DataType] = {}
    for tree in wishes.conditions:
        types |= {name: _TRUTH for name in _truths_of(tree)}
    compared: dict[str, pa.DataType] = {}
    for tree in wishes.trees:
        for node in tree.walk():
            found = _types_of(node, wishes.params, known)
            if wishes.is_case_free:
                found |= _types_of_arguments(node, known)
            for name, of in found.items():
                # Any text can be compared with a text, also one that looks like a time.
                if not (pa.types.is_temporal(of) and compared.get(name) == _TEXT):
                    compared[name] = of
    types |= compared
    for tree in wishes.trees:
        summed = {name for node in tree.walk() for name in _summed(node)}
        types |= {name: _NUMBER for name in summed if types.get(name) != _DURATION}
    types |= wishes.types
    if not wishes.is_case_free:
        return types
    of_name = {name.lower(): of for name, of in types.items()}
    return {name: of_name[name.lower()] for name in names if name.lower() in of_name}


def _summed(node: ex.Expression) -> Iterator[str]:
    """Yield the columns in a sum or a mean."""
    match node:
        case ex.Aggregate(function="sum" | "avg", operand=ex.Expression() as operand):
            yield from _columns(operand)
        case RowAggregate(function="sum" | "avg", arguments=(operand,)):
            yield from _columns(operand)


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


def _types_of(
    node: ex.Expression, params: Mapping[str, Any], known: Mapping[str, ColumnType]
) -> dict[str, pa.DataType]:
    """Return the types of the columns in a comparison or a test of texts."""
    match node:
        case ex.Comparison(left=left, right=right):
            sides = [(left, right), (right, left)]
        case ex.In(operand=operand, options=options):
            sides = [(operand, option) for option in options[:1]]
        case ex.Like(operand=operand) | LikeWithEscape(operand=operand):
            return dict.fromkeys(_columns(operand), _TEXT)
        case ex.Call(function=function, arguments=(operand, *_)) if function in _TEXT_TESTS:
            return dict.fromkeys(_columns(operand), _TEXT)
        case _:
            return {}
    types: dict[str, pa.DataType] = {}
    for operand, other in sides:
        if isinstance(other, ex.Attribute | ex.Reference):
            of = type_like(known.get(other.name or ""))
            if of is not None and isinstance(operand, ex.Attribute | ex.Reference):
                types |= dict.fromkeys(_columns(operand), of)
            continue
        other = other.operand if isinstance(other, ex.Negative) else other
        value = params.get(other.name) if isinstance(other, ex.Parameter) else getattr(other, "value", None)
        if isinstance(value, str):
            types |= dict.fromkeys(_columns(operand), _type_beside(operand, value))
        elif isinstance(value, bool):
            types |= dict.fromkeys(_columns(operand), _TRUTH)
        elif isinstance(value, int | float):
            types |= dict.fromkeys(_columns(operand), _NUMBER)
    return types


def _types_of_arguments(node: ex.Expression, known: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
    """Return the types that a function of MATCH_RECOGNIZE, or IS TRUE, needs in its columns."""
    if isinstance(node, IsTruth):
        return dict(_columns_alone(node.operand, _TRUTH))
    signature = SIGNATURES.get(node.function) if isinstance(node, ex.Call) else None
    if signature is None:
        return {}
    others = (known.get(name) for argument in node.arguments for name in _columns(argument))
    time = next((type_like(of) for of in others if of is not None and of.kind == TIME), None)
    wanted = {"text": _TEXT, "time": _TIME if time is None else time}
    places = enumerate(node.arguments)
    return {
        name: of
        for place, argument in places
        if (kind := wanted.get(signature.types_of(place)[0])) is not None
        for name, of in _columns_alone(argument, kind)
    }


def _columns_alone(tree: ex.Expression, of: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the type for a tree that is one column, also at another row, as in ``PREV(x)``."""
    if isinstance(tree, Navigation):
        yield from _columns_alone(tree.operand, of)
    elif isinstance(tree, ex.Attribute | ex.Reference) and tree.name is not None:
        yield tree.name, of


def type_like(of: ColumnType | None) -> pa.DataType | None:
    """Return an Arrow type for a column that is compared with a column of this type."""
    if of is None:
        return None
    if of.kind == TIME:
        return pa.timestamp(of.unit, of.timezone)
    if of.kind == DURATION:
        return pa.duration(of.unit)
    return {TEXT: _TEXT, BOOLEAN: _TRUTH, INTEGER: _NUMBER, FLOAT: _NUMBER}.get(of.kind)


def _type_beside(operand: ex.Expression, text: str) -> pa.DataType:
    is_difference = any(
        isinstance(node, ex.Arithmetic) or (isinstance(node, ex.Aggregate) and node.function == "delta")
        for node in operand.walk()
    )
    try:
        duration_ticks(text, "ns")
        return _TIME if is_difference else _DURATION
    except CepError:
        pass
    try:
        moment = pd.Timestamp(text)
    except ValueError:
        return _TEXT
    if pd.isna(moment):
        return _TEXT
    return _TIME if moment.tzinfo is None else pa.timestamp("ns", "UTC")


def _columns(operand: ex.Expression) -> Iterator[str]:
    for node in operand.walk(literals=False):
        if isinstance(node, ex.Attribute | ex.Reference) and node.name is not None:
            yield node.name
