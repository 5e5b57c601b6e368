"""Turn expressions of MATCH_RECOGNIZE into Python functions of a place in a match."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from cepkit.compile.match_recognize.aggregates import AGGREGATES, OF_FIRST_ARGUMENT
from cepkit.compile.match_recognize.arithmetic import compute, unified
from cepkit.compile.match_recognize.calls import call_of, case_of, cast_of, common_type
from cepkit.compile.match_recognize.compiled import Compiled, Place, RowTotal, constant, constant_of, strict
from cepkit.compile.match_recognize.conditions import CONDITIONS, condition_of
from cepkit.compile.match_recognize.navigations import row_read_by
from cepkit.compile.match_recognize.refusals import (
    refuse_non_boolean,
    refuse_opposite,
)
from cepkit.compile.match_recognize.times import as_text, literal
from cepkit.errors import PredicateError, column_not_found
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.printing import print_sql

_OF_NUMBERS = ("sum", "avg", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")


def compile_condition(
    tree: ex.Expression,
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
    *,
    inside: bool = False,
) -> Compiled:
    """Return a search condition as a function, as `compile_value` does."""
    made = compile_value(tree, schema, params, inside=inside)
    refuse_non_boolean(tree, made.type)
    return made


def compile_value(
    tree: ex.Expression,
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
    *,
    inside: bool = False,
) -> Compiled:
    """Return an expression as a function."""

    def part(node: ex.Expression) -> Compiled:
        return compile_value(node, schema, params, inside=inside)

    def condition(node: ex.Expression) -> Compiled:
        return compile_condition(node, schema, params, inside=inside)

    if isinstance(tree, CONDITIONS):
        return condition_of(tree, part, condition)
    match tree:
        case rp.TimeLiteral(value=text):
            return literal(text, TIME)
        case rp.IntervalLiteral(value=text):
            return literal(text, DURATION)
        case ex.Literal(value=value):
            return constant_of(value)
        case ex.Parameter(name=name):
            if params is None or name not in params:
                raise PredicateError(f"params gives no value for :{name}; give params={{{name!r}: …}}")
            return constant_of(params[name])
        case ex.Attribute() | ex.Reference():
            return _column(tree, schema, inside)
        case rp.Navigation():
            return _navigation(tree, schema, params)
        case rp.RowAggregate():
            return _aggregate(tree, schema, params)
        case rp.Classifier(variable=variable):
            if inside:
                return Compiled(lambda place, row: place.label(row), ColumnType(TEXT))
            return Compiled(lambda place, row: _label_of_last(place, variable), ColumnType(TEXT))
        case rp.MatchNumber():
            return Compiled(lambda place, row: place.number, ColumnType(INTEGER))
        case rp.MatchRowtime(operand=ex.Expression() as operand):
            return part(rp.Navigation("last", operand, final=True))
        case rp.TimedOut():  # only matches have numbers
            return Compiled(lambda place, row: place.number is None, ColumnType(BOOLEAN))
        case ex.Arithmetic(operator=sign, left=left, right=right):
            return compute(tree, sign, [part(left), part(right)])
        case ex.Negative(operand=operand):
            one = part(operand)
            refuse_opposite(tree, one.type)
            if one.is_constant and one.type.kind == DURATION:
                return constant(-one.call(None, -1), one.type)
            return strict(operator.neg, [one], one.type, tree)
        case rp.Joined(left=left, right=right):
            return strict(
                lambda one, two: f"{one}{two}", [as_text(part(left)), as_text(part(right))], ColumnType(TEXT)
            )
        case rp.Cast(operand=operand, kind=kind):
            return cast_of(tree, part(operand), kind)
        case rp.ArrayOf(items=items):
            made = unified(tree, [part(item) for item in items])
            calls = [one.call for one in made]
            kind = ColumnType(LIST, item=common_type(made))
            return Compiled(lambda place, row: [call(place, row) for call in calls], kind)
        case rp.CaseWhen(branches=branches, default=default):
            conditions = [condition(node) for node in branches[::2]]
            values = [*branches[1::2], *([] if default is None else [default])]
            return case_of(conditions, unified(tree, [part(node) for node in values]))
        case ex.Call(function=function, arguments=arguments):
            return call_of(tree, function, [part(node) for node in arguments])
    raise PredicateError(f"MATCH_RECOGNIZE cannot compute {type(tree).__name__}")


def column_of(name: str, schema: Iterable[str]) -> str:
    """Return the column that a name means: the same name, or the only one that differs in case alone."""
    schema = list(schema)
    if name in schema:
        return name
    alike = [column for column in schema if column.lower() == name.lower()]
    if len(alike) != 1:
        raise column_not_found("MATCH_RECOGNIZE", name, schema)
    return alike[0]


def _column(tree: ex.Attribute | ex.Reference, schema: Mapping[str, ColumnType], inside: bool) -> Compiled:
    name = column_of(tree.name or "", schema)
    if inside:
        return Compiled(lambda place, row: place.columns[name][row], schema[name])
    variable = tree.variable if isinstance(tree, ex.Reference) else None

    def last(place: Place, row: int) -> Any:
        at = place.nth(variable, False, 0, False)
        return None if at < 0 else place.columns[name][at]

    return Compiled(last, schema[name])


def _label_of_last(place: Place, variable: str | None) -> str | None:
    row = place.nth(variable, False, 0, False)
    return None if row < 0 else place.label(row)


def variable_of(trees: Iterable[ex.Expression]) -> str | None:
    """Return the variable whose columns the arguments of a function name; None for all rows."""
    for tree in trees:
        for node in tree.walk():
            if isinstance(node, ex.Reference | rp.Classifier):
                return node.variable
    return None


def _navigation(
    tree: rp.Navigation, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None
) -> Compiled:
    read = row_read_by(tree)
    from_first, offset, final, distance = read.from_first, read.offset, read.final, read.distance
    variable = variable_of([read.operand])
    inner = compile_value(read.operand, schema, params, inside=True)

    def call(place: Place, row: int) -> Any:
        at = place.nth(variable, from_first, offset, final)
        if at < 0 or not place.low <= at + distance < place.n_rows:
            return None
        return inner.call(place, at + distance)

    return Compiled(call, inner.type)


def _aggregate(
    tree: rp.RowAggregate, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None
) -> Compiled:
    arguments = [compile_value(node, schema, params, inside=True) for node in tree.arguments]
    total = compile_total(tree, schema, params)
    kind = ColumnType(OTHER)
    if tree.function in ("count", "count_if"):
        kind = ColumnType(INTEGER)
    elif tree.function in OF_FIRST_ARGUMENT:
        kind = arguments[0].type
    elif tree.function == "avg":
        kind = arguments[0].type if arguments[0].type.kind in (TIME, DURATION) else ColumnType(FLOAT)
    elif tree.function in ("bool_and", "bool_or", "every"):
        kind = ColumnType(BOOLEAN)
    elif tree.function.startswith(("stddev", "var")):
        kind = ColumnType(FLOAT)
    elif tree.function == "array_agg":
        kind = ColumnType(LIST, item=arguments[0].type)
    elif tree.function == "map_agg":
        kind = ColumnType(MAP, key=arguments[0].type, item=arguments[1].type)
    return Compiled(lambda place, row: place.total(total), kind)


def compile_total(
    tree: rp.RowAggregate, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None = None
) -> RowTotal:
    """Return an aggregate with its arguments as functions. Raise if no engine computes it."""
    if tree.function not in AGGREGATES:
        raise PredicateError(f"MATCH_RECOGNIZE does not compute {tree.function.upper()}")
    made = [compile_value(node, schema, params, inside=True) for node in tree.arguments]
    if tree.function in ("count_if", "bool_and", "bool_or", "every"):
        for node, one in zip(tree.arguments, made, strict=True):
            refuse_non_boolean(node, one.type, f"the argument of {tree.function.upper()}")
    kinds = {TEXT: "texts", BOOLEAN: "truth values", LIST: "lists"}
    kinds |= {} if tree.function == "avg" else {TIME: "times"}
    kinds |= {} if tree.function in ("sum", "avg") else {DURATION: "intervals"}
    if tree.function in _OF_NUMBERS and made and made[0].type.kind in kinds:
        name, refused = tree.function.upper(), kinds[made[0].type.kind]
        raise PredicateError(f"{name}() needs numbers, not {refused}, in {print_sql(tree)}")
    arguments = tuple(one.call for one in made)
    variable = variable_of(tree.arguments) if arguments else tree.variable
    return RowTotal(tree, arguments, variable, bool(made) and made[0].type.kind in (TIME, DURATION))
