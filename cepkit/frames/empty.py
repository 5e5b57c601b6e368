"""Types for columns without values: the query says what such a column would hold."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Measured
from cepkit.errors import CepError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, Column, ColumnType, Source
from cepkit.frames.arrow import column_of_arrow, type_of_arrow
from cepkit.frames.sources import WrappedSource
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.functions import SIGNATURES
from cepkit.language.expressions.summaries import SUMMED
from cepkit.language.match_recognize.patterns import (
    IsDistinct,
    IsTruth,
    LikeWithEscape,
    Navigation,
    RowAggregate,
)
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows
from cepkit.language.regex.patterns import variables
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.plans import Recent, Same, remembered

if TYPE_CHECKING:
    from cepkit.language.sequences.query import SequenceQuery


TEXTS, TIMES, _DURATION, _NUMBER, TRUTHS = (
    pa.string(), pa.timestamp("ns"), pa.duration("ns"), pa.float64(), pa.bool_()
)  # fmt: skip
_TEXT_TESTS = {"starts_with", "ends_with", "contains"}
_OF_ONE_TYPE = {"least", "greatest", "coalesce", "nvl", "ifnull", "nullif"}  # functions of values of one type


class TypedSource(WrappedSource):
    """A source whose columns without values have types. The frame and its rows stay as they are."""

    def __init__(self, source: Source, types: Mapping[str, pa.DataType]):
        super().__init__(source)
        self._types = types
        column_types = {name: type_of_arrow(arrow_type) for name, arrow_type in types.items()}
        self._schema = ChainMap(column_types, cast(dict, source.schema))

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
    """What a query says about the types of its columns, the surest last."""

    # keys, clocks: columns of keys, and columns that order the rows
    keys: Sequence[str] = ()
    clocks: Sequence[str] = ()
    trees: Sequence[ex.Expression] = ()  # all expressions
    conditions: Sequence[ex.Expression] = ()  # those that are true or false
    params: Mapping[str, Any] = field(default_factory=dict)  # values of parameters
    # Types that the query gives by other means.
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    # What SQL adds. With it, names may differ from those of the columns in case.
    dialect: Dialect | None = None

    @cached_property
    def named(self) -> frozenset[str]:
        """The names of all columns."""
        in_trees = (name for tree in self.trees for name in columns_in(tree))
        return frozenset((*self.keys, *self.clocks, *self.types, *in_trees))


class Dialect(NamedTuple):
    """What a language adds to the nodes of all languages."""

    types_of: Callable[
        [ex.Expression, Mapping[str, Any], Mapping[str, ColumnType]], Mapping[str, pa.DataType]
    ]
    summed_in: Callable[[ex.Expression], Iterable[str]]


_wishes = Recent(128)


def with_types(source: Source, query: RegexQuery | SequenceQuery | Wishes) -> Source:
    """Return the source, or one with types for the columns that have neither values nor a type.

    pandas gives columns without values the dtype ``object``, or ``float64`` if they come from empty lists.
    Arrow has a type null. Such a column gets the type that the query compares it with, so that the query has
    an answer and no error of types.

    """
    wishes = query if isinstance(query, Wishes) else _wishes_of(query)
    named: Collection[str] = wishes.named
    if wishes.dialect is not None:
        lower = {name.lower() for name in named}
        named = {name for name in source.schema if name.lower() in lower}
    untyped = [name for name in named if name in source.schema and source.is_untyped(name)]
    if not untyped:
        return source
    column_types = {
        name: source.schema[name] for name in source.schema if name in named and name not in untyped
    }
    wanted = _types(wishes, column_types, source.schema)
    return TypedSource(source, {name: wanted.get(name, _NUMBER) for name in untyped})


def _wishes_of(query: RegexQuery | SequenceQuery) -> Wishes:
    return remembered(_wishes, Same(query), partial(_read_wishes, query))


def _read_wishes(query: RegexQuery | SequenceQuery) -> Wishes:
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
            types[query.event_type] = TEXTS if str in kinds else TRUTHS if bool in kinds else _NUMBER
    if query.order_by:
        limits = (query.within, getattr(query, "gap_within", None))
        if any(isinstance(limit, str | timedelta) for limit in limits):
            types[query.order_by[0]] = TIMES
    return Wishes(
        query.partition_by, query.order_by, [*conditions, *measured], conditions, dict(query.params), types
    )


def _types(wishes: Wishes, known: Mapping[str, ColumnType], names: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the types that a query gives to columns, by name; ``known`` has the types that columns have."""
    types: dict[str, pa.DataType] = {}
    for tree in wishes.conditions:
        types |= {name: TRUTHS for name in _truths_of(tree)}
    compared: dict[str, pa.DataType] = {}
    for tree in wishes.trees:
        for node in tree.walk():
            types_of_node = types_in(node, wishes.params, known)
            if wishes.dialect is not None:
                types_of_node |= wishes.dialect.types_of(node, wishes.params, known)
            for name, arrow_type in types_of_node.items():
                # Any text can be compared with a text, also one that looks like a time.
                if not (pa.types.is_temporal(arrow_type) and compared.get(name) == TEXTS):
                    compared[name] = arrow_type
    types |= compared
    for tree in wishes.trees:
        summed = {name for node in tree.walk() for name in _summed(node, wishes.dialect)}
        types |= {name: _NUMBER for name in summed if types.get(name) != _DURATION}
    types |= wishes.types
    if wishes.dialect is None:
        return types
    of_name = {name.lower(): arrow_type for name, arrow_type in types.items()}
    return {name: of_name[name.lower()] for name in names if name.lower() in of_name}


def _summed(node: ex.Expression, dialect: Dialect | None) -> Iterator[str]:
    """Yield the columns in a sum or a mean."""
    match node:
        case ex.Aggregate(function=function, operand=ex.Expression() as operand) if function in SUMMED:
            yield from columns_in(operand)
    if dialect is not None:
        yield from dialect.summed_in(node)


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
        case ex.Like(operand=operand):
            return dict.fromkeys(columns_in(operand), TEXTS)
        case ex.Call(function=function, arguments=(operand, *_)) if function in _TEXT_TESTS:
            return dict.fromkeys(columns_in(operand), TEXTS)
        case ex.Call(function=function, arguments=arguments) if function in _OF_ONE_TYPE:
            sides = list(permutations(arguments, 2))
        case _:
            return {}
    types: dict[str, pa.DataType] = {}
    for operand, other in sides:
        if isinstance(other, ex.Attribute | ex.Reference):
            arrow_type = type_like(known.get(other.name or ""))
            if arrow_type is not None and isinstance(operand, ex.Attribute | ex.Reference):
                types |= dict.fromkeys(columns_in(operand), arrow_type)
            continue
        other = other.operand if isinstance(other, ex.Negative) else other
        value = params.get(other.name) if isinstance(other, ex.Parameter) else getattr(other, "value", None)
        if isinstance(value, str):
            types |= dict.fromkeys(columns_in(operand), _type_beside(operand, value))
        elif isinstance(value, bool):
            types |= dict.fromkeys(columns_in(operand), TRUTHS)
        elif isinstance(value, int | float):
            types |= dict.fromkeys(columns_in(operand), _NUMBER)
    return types


def type_like(of: ColumnType | None) -> pa.DataType | None:
    """Return an Arrow type for a column that is compared with a column of this type."""
    if of is None:
        return None
    if of.kind == TIME:
        return pa.timestamp(of.unit, of.timezone)
    if of.kind == DURATION:
        return pa.duration(of.unit)
    return {TEXT: TEXTS, BOOLEAN: TRUTHS, INTEGER: _NUMBER, FLOAT: _NUMBER}.get(of.kind)


def _type_beside(operand: ex.Expression, text: str) -> pa.DataType:
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


def columns_in(operand: ex.Expression) -> Iterator[str]:
    """Yield the names of the columns in an expression."""
    for node in operand.walk(literals=False):
        if isinstance(node, ex.Attribute | ex.Reference) and node.name is not None:
            yield node.name


# Types for columns without values, from the text of MATCH_RECOGNIZE.


def wishes_of_rows(query: RowPatternQuery | SelectedRows | WindowedRows, params: Mapping[str, Any]) -> Wishes:
    """Return what a query says about the types of its columns; ``params`` has values of parameters."""
    rows = query if isinstance(query, RowPatternQuery) else query.rows
    order = [key.column for key in rows.order_by]
    conditions = [tree for _, tree in rows.define]
    if isinstance(query, WindowedRows) and query.where is not None:
        conditions.append(query.where)
    timed = {order[0]: TIMES} if rows.within and order else {}
    trees = [*conditions, *(tree for _, tree in rows.measures)]
    return Wishes(rows.partition_by, order, trees, conditions, params, timed, Dialect(_types_of, _summed_in))


def _types_of(
    node: ex.Expression, params: Mapping[str, Any], known: Mapping[str, ColumnType]
) -> dict[str, pa.DataType]:
    """Return the types that a function or a test of SQL needs in its columns."""
    if isinstance(node, IsDistinct):
        return types_in(ex.Comparison("==", node.left, node.right), params, known)
    if isinstance(node, LikeWithEscape):
        return dict.fromkeys(columns_in(node.operand), TEXTS)
    if isinstance(node, IsTruth):
        return dict(_columns_alone(node.operand, TRUTHS))
    signature = SIGNATURES.get(node.function) if isinstance(node, ex.Call) else None
    if signature is None:
        return {}
    others = (known.get(name) for argument in node.arguments for name in columns_in(argument))
    time = next(
        (
            type_like(column_type)
            for column_type in others
            if column_type is not None and column_type.kind == TIME
        ),
        None,
    )
    wanted = {"text": TEXTS, "time": TIMES if time is None else time}
    places = enumerate(node.arguments)
    return {
        name: column_type
        for place, argument in places
        if (kind := wanted.get(signature.types_of(place)[0])) is not None
        for name, column_type in _columns_alone(argument, kind)
    }


def _columns_alone(tree: ex.Expression, of: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the type for a tree that is one column, also at another row, as in ``PREV(x)``."""
    if isinstance(tree, Navigation):
        yield from _columns_alone(tree.operand, of)
    elif isinstance(tree, ex.Attribute | ex.Reference) and tree.name is not None:
        yield tree.name, of


def _summed_in(node: ex.Expression) -> Iterator[str]:
    """Yield the columns in a sum or a mean."""
    match node:
        case RowAggregate(function=function, arguments=(operand,)) if function in SUMMED:
            yield from columns_in(operand)
