"""Types for the columns of an empty frame: without values, the query says what a column would hold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pandas as pd

from cepkit.errors import CepError
from cepkit.events import Source
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.patterns import event_patterns
from cepkit.language.sequences.query import SequenceQuery

_TEXT, _TIME, _DURATION, _NUMBER = "string", "datetime64[ns]", "timedelta64[ns]", "float64"
_TEXT_TESTS = {"starts_with", "ends_with", "contains"}


def with_types(source: Source, query: RegexQuery | SequenceQuery) -> Source:
    """Return the source, or for an empty frame one with types for the columns that have none.

    pandas gives columns without values the dtype ``object``, or ``float64``. Such a column gets the type that
    the query compares it with, so that the query has an empty result and no error of types.
    """
    if not isinstance(source, PandasSource) or source.n_rows:
        return source
    frame = source.frame
    types = {
        name: dtype
        for name, dtype in _types(query).items()
        if name in source.schema
        and name not in source.duplicates
        # Columns without any type are objects, or floats if they come from empty lists.
        and (frame[name].dtype == object or (frame[name].dtype == float and dtype != _NUMBER))
    }
    untyped = (
        name for name in source.schema if name not in source.duplicates and frame[name].dtype == object
    )
    types = dict.fromkeys(untyped, _NUMBER) | types
    return PandasSource(frame.astype(types)) if types else source


def _types(query: RegexQuery | SequenceQuery) -> dict[str, str]:
    """Return the dtypes of the columns by the query, the surest last."""
    types: dict[str, str] = dict.fromkeys(query.partition_by, _TEXT)
    for tree in _trees(query):
        for node in tree.walk():
            types |= _types_of(node, dict(query.params))
    if isinstance(query, SequenceQuery) and query.event_type is not None:
        kinds = {type(event.event_type) for event in event_patterns(query.pattern)}
        types[query.event_type] = _TEXT if str in kinds else _NUMBER
    if query.order_by:
        limits = (query.within, getattr(query, "gap_within", None))
        if any(isinstance(limit, str | timedelta) for limit in limits):
            types[query.order_by[0]] = _TIME
        else:
            types.setdefault(query.order_by[0], _NUMBER)
    return types


def _trees(query: RegexQuery | SequenceQuery) -> Iterator[ex.Expression]:
    if isinstance(query, RegexQuery):
        yield from (tree for _, tree in query.define)
    else:
        yield from query.where
    yield from (tree for _, tree in query.measures or ())


def _types_of(node: ex.Expression, params: dict) -> dict[str, str]:
    """Return the dtypes of the columns in a test of texts."""
    match node:
        case ex.Comparison(left=left, right=right):
            sides = [(left, right), (right, left)]
        case ex.In(operand=operand, options=options):
            sides = [(operand, option) for option in options]
        case ex.Like(operand=operand):
            return dict.fromkeys(_columns(operand), _TEXT)
        case ex.Call(function=function, arguments=(operand, *_)) if function in _TEXT_TESTS:
            return dict.fromkeys(_columns(operand), _TEXT)
        case _:
            return {}
    types: dict[str, str] = {}
    for operand, other in sides:
        value = params.get(other.name) if isinstance(other, ex.Parameter) else getattr(other, "value", None)
        if isinstance(value, str):
            types |= dict.fromkeys(_columns(operand), _type_beside(operand, value))
    return types


def _type_beside(operand: ex.Expression, text: str) -> str:
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
        return _TEXT if pd.isna(pd.Timestamp(text)) else _TIME
    except ValueError:
        return _TEXT


def _columns(operand: ex.Expression) -> Iterator[str]:
    for node in operand.walk():
        if isinstance(node, ex.Attribute | ex.Reference) and node.name is not None:
            yield node.name
