"""Calls of functions, casts and choices in MATCH_RECOGNIZE, from arguments that are functions of a place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cepkit.compile.match_recognize.arithmetic import compute, unified
from cepkit.compile.match_recognize.compiled import Compiled, Place, strict
from cepkit.compile.match_recognize.functions.arguments import check_arguments, whole
from cepkit.compile.match_recognize.functions.numbers import as_decimal, as_truth
from cepkit.compile.match_recognize.functions.table import LENIENT_FUNCTIONS, STRICT_FUNCTIONS
from cepkit.compile.match_recognize.functions.times import TIME_FUNCTIONS, function_of_times
from cepkit.compile.match_recognize.refusals import (
    refuse_cast,
    refuse_function_of_ticks,
    refuse_non_boolean,
    refuse_unlike,
)
from cepkit.compile.match_recognize.times import TIMED, as_text, converted, ticks_of
from cepkit.errors import PredicateError, nearest
from cepkit.events import BOOLEAN, FLOAT, INTEGER, LIST, MAP, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.sql_functions import SIGNATURES, WITH_UNIT
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.printing import print_sql

_TIME_OF_TEXT = ColumnType(TIME, "us")  # the type of constant texts that are times


def cast_of(tree: rp.Cast, part: Compiled, kind: str) -> Compiled:
    """Return a value cast to another type; null where the value has no form in that type."""
    name, _, length = kind.rstrip(")").partition("(")
    if name in ("varchar", "char", "string", "text", "character", "character varying", "char varying"):
        end = int(length) if length else 1 if name in ("char", "character") else None
        if part.type.kind in (LIST, MAP):
            return strict(lambda item: str(item)[:end], [part], ColumnType(TEXT))
        return strict(lambda text: text[:end], [as_text(part)], ColumnType(TEXT))
    if name in ("boolean", "bool"):
        return strict(as_truth, [part], ColumnType(BOOLEAN))
    refuse_cast(tree, part.type)
    if name in ("bigint", "integer", "int", "smallint", "tinyint"):
        return strict(int, [part], ColumnType(INTEGER))
    if name in ("double", "double precision", "float", "real"):
        return strict(float, [part], ColumnType(FLOAT))
    if name in ("decimal", "dec", "numeric"):
        digits = map(int, length.split(",")) if length else ()
        return strict(as_decimal(*digits), [part], ColumnType(FLOAT))
    raise PredicateError(f"CAST: no type {kind.upper()}; types: VARCHAR, BOOLEAN, BIGINT, DOUBLE, DECIMAL")


def common_type(parts: Iterable[Compiled]) -> ColumnType:
    """Return one type for the values of several expressions: the first type, or float for mixed numbers."""
    types = [part.type for part in parts if part.type.kind != OTHER]
    if {one.kind for one in types} == {INTEGER, FLOAT}:
        return ColumnType(FLOAT)
    return types[0] if types else ColumnType(OTHER)


def case_of(conditions: list[Compiled], values: list[Compiled]) -> Compiled:
    """Return the value of the first condition that holds. A value without a condition is that of ELSE."""
    default = values[len(conditions)] if len(values) > len(conditions) else None

    def call(place: Place, row: int) -> Any:
        for condition, value in zip(conditions, values, strict=False):
            if condition.call(place, row) is True:
                return value.call(place, row)
        return None if default is None else default.call(place, row)

    return Compiled(call, common_type(values))


def call_of(tree: ex.Call, function: str, parts: list[Compiled]) -> Compiled:
    """Return a call of a function."""
    refuse_function_of_ticks(tree, function, [part.type for part in parts])
    check_arguments(tree, [part.type for part in parts])
    if function in TIME_FUNCTIONS:
        return _of_times(tree, function, parts)
    parts = _as_integers(function, parts)
    if function in ("coalesce", "nvl", "ifnull"):
        parts = unified(tree, parts)
        calls = [part.call for part in parts]
        kind = common_type(parts)
        return Compiled(
            lambda place, row: next((v for call in calls if (v := call(place, row)) is not None), None), kind
        )
    if function == "if" and len(parts) in (2, 3):
        refuse_non_boolean(tree.arguments[0], parts[0].type)
        return case_of(parts[:1], unified(tree, parts[1:]))
    if function == "mod" and len(parts) == 2:
        return compute(tree, "%", parts)
    if function in ("least", "greatest", "nullif"):
        parts = unified(tree, parts)
    if function in ("least", "greatest"):
        refuse_unlike(tree, [part.type for part in parts], "compares")
    if function in ("concat", "concat_ws", "array_join"):
        parts = [as_text(part) for part in parts]
    if function in LENIENT_FUNCTIONS:
        made, kind = LENIENT_FUNCTIONS[function]
        calls = [part.call for part in parts]
        type_of = parts[0].type if kind is None and parts else ColumnType(kind or OTHER)
        return Compiled(lambda place, row: made(*(call(place, row) for call in calls)), type_of)
    if function not in STRICT_FUNCTIONS:
        known = [*STRICT_FUNCTIONS, *LENIENT_FUNCTIONS, *rp.AGGREGATES_OF_ROWS, *_OTHER_FUNCTIONS]
        hint = nearest(function, map(str.upper, known))
        raise PredicateError(f"no function {function.upper()!r} in {print_sql(tree)}{hint and '.' + hint}")
    made, kind = STRICT_FUNCTIONS[function]
    of = common_type(parts) if kind is None else ColumnType(kind)
    if function == "element_at" and parts:
        of = parts[0].type.item or ColumnType(OTHER)
    return strict(made, parts, of, tree)


def _of_times(tree: ex.Call, function: str, parts: list[Compiled]) -> Compiled:
    unit = getattr(tree.arguments[0], "value", None) if function in WITH_UNIT else None
    timed = parts[1:] if function in WITH_UNIT else parts
    if not any(part.type.kind in TIMED for part in timed):  # texts alone
        timed = [
            strict(lambda text: ticks_of(text, _TIME_OF_TEXT), [part], _TIME_OF_TEXT)
            if part.type.kind == TEXT
            else part
            for part in timed
        ]
    timed = converted(timed)
    of = next((part.type for part in timed if part.type.kind in TIMED), _TIME_OF_TEXT)
    made, kind = function_of_times(function, unit, of)
    return strict(made, timed, kind, tree)


def _as_integers(function: str, parts: list[Compiled]) -> list[Compiled]:
    """Return the arguments, with whole floats as integers where the function needs integers.

    Integer columns with missing values are often floats.

    """
    if (signature := SIGNATURES.get(function)) is None:
        return parts
    return [
        strict(whole, [part], ColumnType(INTEGER))
        if part.type.kind == FLOAT and signature.types_of(place) == (INTEGER,)
        else part
        for place, part in enumerate(parts)
    ]


_OTHER_FUNCTIONS = (
    *sorted(TIME_FUNCTIONS), "extract", "position",
    "coalesce", "if", "prev", "next", "first", "last", "classifier", "match_number", "match_rowtime",
)  # fmt: skip
