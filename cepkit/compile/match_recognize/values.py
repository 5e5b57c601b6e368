"""Turn expressions of MATCH_RECOGNIZE into Python functions of a place in a match."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from cepkit.compile.match_recognize.aggregates import AGGREGATES, OF_FIRST_ARGUMENT
from cepkit.compile.match_recognize.arguments import check_arguments, whole
from cepkit.compile.match_recognize.functions import LENIENT_FUNCTIONS, STRICT_FUNCTIONS
from cepkit.compile.match_recognize.numbers import as_decimal, as_truth
from cepkit.compile.match_recognize.times import TIME_FUNCTIONS, function_of_times
from cepkit.compile.shared.like import like_test
from cepkit.errors import CepError, PredicateError, column_not_found, nearest, short_text
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS, duration_ticks
from cepkit.language.expressions.sql_functions import SIGNATURES, WITH_UNIT
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.printing import print_sql


class Place(Protocol):
    """What an expression can ask about a match, or a partial one, at its current row.

    PREV and NEXT see the rows from ``low`` to ``n_rows``. A partial match that ran out of time has no number.
    """

    columns: Mapping[str, Sequence[Any]]
    n_rows: int
    number: int | None
    low: int

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        """Return a row of a variable, or of all for None, from the first or the last one; -1 if none."""
        ...

    def label(self, row: int) -> str | None:
        """Return the variable of a row; None outside the match."""
        ...

    def total(self, aggregate: RowTotal) -> Any:
        """Return the value of an aggregate."""
        ...


# A function of a place. The row counts inside FIRST, LAST, PREV, NEXT and aggregates; elsewhere it is -1.
Value = Callable[[Any, int], Any]


@dataclass(frozen=True, eq=False)
class RowTotal:
    """An aggregate whose arguments are functions of single rows; ``tree`` is where it comes from."""

    tree: rp.RowAggregate
    arguments: tuple[Value, ...]
    variable: str | None
    is_of_times: bool = False

    @property
    def function(self) -> str:
        """The name of the aggregate."""
        is_mean = self.is_of_times and self.tree.function == "avg"
        return "avg_of_times" if is_mean else self.tree.function


@dataclass(frozen=True)
class Compiled:
    """An expression as a function, with the type of its values."""

    call: Value
    type: ColumnType


def compile_value(
    tree: ex.Expression,
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
    *,
    inside: bool = False,
) -> Compiled:
    """Return an expression as a function.

    Parameters
    ----------
    tree : Expression
        A condition or a measure.
    schema : mapping
        The types of the columns, by name. Names that differ in case only are found as well.
    params : mapping, optional
        Values of parameters.
    inside : bool
        Whether columns are those of a given row, as in the argument of FIRST.

    Raises
    ------
    ColumnNotFoundError
        For a column that does not exist.
    PredicateError
        For a function that does not exist.
    """

    def part(node: ex.Expression) -> Compiled:
        return compile_value(node, schema, params, inside=inside)

    match tree:
        case ex.Literal(value=value):
            return Compiled(lambda place, row: value, _type_of(value))
        case ex.Parameter(name=name):
            if params is None or name not in params:
                raise PredicateError(f"params gives no value for :{name}; give params={{{name!r}: …}}")
            value = params[name]
            return Compiled(lambda place, row: value, _type_of(value))
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
        case ex.And(operands=operands):
            calls = [part(operand).call for operand in operands]
            return Compiled(lambda place, row: _all(call(place, row) for call in calls), ColumnType(BOOLEAN))
        case ex.Or(operands=operands):
            calls = [part(operand).call for operand in operands]
            return Compiled(lambda place, row: _any(call(place, row) for call in calls), ColumnType(BOOLEAN))
        case ex.IsNull(operand=operand):
            call = part(operand).call
            return Compiled(lambda place, row: call(place, row) is None, ColumnType(BOOLEAN))
        case ex.In(operand=operand, options=options):
            one, given = part(operand), constants_of(options)
            if given is not None and one.type.kind in _WORDS:
                _refuse_unlike(tree, one.type, *map(_type_of, given))
                return _strict(frozenset(given).__contains__, [one], ColumnType(BOOLEAN))
            return _membership(tree, one, [part(node) for node in options])
        case ex.Like(operand=operand, pattern=pattern):
            return _strict(like_test(pattern), [part(operand)], ColumnType(BOOLEAN))
        case rp.LikeWithEscape(operand=operand, pattern=pattern, escape=escape):
            return _strict(like_test(pattern, escape), [part(operand)], ColumnType(BOOLEAN))
        case rp.IsTruth(operand=operand):
            return _is_truth(tree, part(operand))
        case rp.IsDistinct(left=left, right=right):
            _refuse_objects((left, right), schema)
            return _is_distinct(tree, _converted([part(left), part(right)]))
        case ex.Comparison(operator=sign, left=left, right=right):
            sides = _converted([part(left), part(right)])
            _refuse_objects((left, right), schema)
            _refuse_unlike(tree, *(side.type for side in sides))
            return _strict(_COMPARISONS[sign], sides, ColumnType(BOOLEAN), tree)
        case ex.Arithmetic(operator=sign, left=left, right=right):
            return _arithmetic(tree, sign, [part(left), part(right)])
        case ex.Negative(operand=operand):
            one = part(operand)
            return _strict(operator.neg, [one], one.type, tree)
        case ex.Not(operand=operand):
            return _strict(operator.not_, [part(operand)], ColumnType(BOOLEAN))
        case rp.Joined(left=left, right=right):
            return _strict(lambda one, two: f"{one}{two}", [part(left), part(right)], ColumnType(TEXT))
        case rp.Cast(operand=operand, kind=kind):
            return _cast(part(operand), kind)
        case rp.ArrayOf(items=items):
            calls = [part(item).call for item in items]
            kind = ColumnType(LIST, item=_common_type(map(part, items)))
            return Compiled(lambda place, row: [call(place, row) for call in calls], kind)
        case rp.CaseWhen(branches=branches, default=default):
            return _case([part(node) for node in branches], None if default is None else part(default))
        case ex.Call(function=function, arguments=arguments):
            return _call(tree, function, [part(node) for node in arguments])
    raise PredicateError(f"MATCH_RECOGNIZE cannot compute {type(tree).__name__}")


def _refuse_objects(sides: Iterable[ex.Expression], schema: Mapping[str, ColumnType]) -> None:
    """Raise for a column that no comparison can use, as in all languages."""
    for side in sides:
        if isinstance(side, ex.Attribute | ex.Reference):
            name = column_of(side.name or "", schema)
            if schema[name].kind == OTHER:
                raise PredicateError(
                    f"the values of {name} are of several types, or of one that conditions cannot use; make "
                    "the column all numbers, text, times or truth values"
                )


_WORDS = {INTEGER: "numbers", FLOAT: "numbers", TEXT: "texts", BOOLEAN: "truth values"}


def _refuse_unlike(tree: ex.Expression, of: ColumnType, *others: ColumnType) -> None:
    """Raise for a test of numbers, texts and truth values against each other, which never holds."""
    first = _WORDS.get(of.kind)
    for kind in {other.kind: None for other in others}:
        other = _WORDS.get(kind)
        if first and other and first != other:
            said = short_text(print_sql(tree))
            raise PredicateError(f"{said} compares {first} with {other}; convert one side by CAST")


def _type_of(value: object) -> ColumnType:
    kinds = {bool: BOOLEAN, int: INTEGER, float: FLOAT, str: TEXT}
    return ColumnType(kinds.get(type(value), OTHER))


def column_of(name: str, schema: Iterable[str]) -> str:
    """Return the column that a name means: the same name, or the only one that differs in case alone.

    Examples
    --------
    >>> column_of("PRICE", ["price", "size"])
    'price'
    """
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
    physical, logical = 0, tree
    if tree.function in ("prev", "next"):
        distance = 1 if tree.offset is None else tree.offset
        physical = distance if tree.function == "next" else -distance
        logical = tree.operand if isinstance(tree.operand, rp.Navigation) else None
    operand = tree.operand if logical is None else logical.operand
    variable = variable_of([operand])
    from_first = logical is not None and logical.function == "first"
    offset = (logical.offset or 0) if logical is not None else 0
    final = bool(logical is not None and logical.final)
    inner = compile_value(operand, schema, params, inside=True)

    def call(place: Place, row: int) -> Any:
        at = place.nth(variable, from_first, offset, final)
        if at < 0 or not place.low <= at + physical < place.n_rows:
            return None
        return inner.call(place, at + physical)

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
    kinds = {TEXT: "texts", BOOLEAN: "truth values", LIST: "lists"} | (
        {} if tree.function == "avg" else {TIME: "times"}
    )
    if tree.function in _OF_NUMBERS and made and made[0].type.kind in kinds:
        name, refused = tree.function.upper(), kinds[made[0].type.kind]
        raise PredicateError(f"{name}() needs numbers, not {refused}, in {print_sql(tree)}")
    arguments = tuple(one.call for one in made)
    variable = variable_of(tree.arguments) if arguments else tree.variable
    return RowTotal(tree, arguments, variable, bool(made) and made[0].type.kind in (TIME, DURATION))


_OF_NUMBERS = ("sum", "avg", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")


def _all(values: Iterable[Any]) -> bool | None:
    found: bool | None = True
    for value in values:
        if value is False:
            return False
        found = None if value is None else found
    return found


def _any(values: Iterable[Any]) -> bool | None:
    found: bool | None = False
    for value in values:
        if value is True:
            return True
        found = None if value is None else found
    return found


def _strict(
    function: Callable[..., Any],
    parts: Sequence[Compiled],
    kind: ColumnType,
    tree: ex.Expression | None = None,
) -> Compiled:
    """Return a function that is null if an argument is null, or where it is not defined."""
    calls = [part.call for part in parts]

    def call(place: Place, row: int) -> Any:
        values = [call(place, row) for call in calls]
        if any(value is None for value in values):
            return None
        try:
            return function(*values)
        except CepError:
            raise
        except (ArithmeticError, ValueError):
            return None
        except TypeError:
            text = "" if tree is None else f" in {print_sql(tree)}"
            kinds = " and ".join(type(value).__name__ for value in values)
            raise PredicateError(f"values of types {kinds} do not go together{text}") from None

    return Compiled(call, kind)


def constants_of(options: Sequence[ex.Expression]) -> list[Any] | None:
    """Return the values of numbers, texts and truth values; None if anything else is among them."""
    found: list[Any] = []
    for option in options:
        tree = option.operand if isinstance(option, ex.Negative) else option
        if not isinstance(tree, ex.Literal) or type(tree.value) not in (bool, int, float, str):
            return None
        if tree is not option and type(tree.value) not in (int, float):
            return None
        found.append(tree.value if tree is option else -tree.value)
    return found


def _is_truth(tree: rp.IsTruth, operand: Compiled) -> Compiled:
    if operand.type.kind not in (BOOLEAN, OTHER):
        said = short_text(print_sql(tree))
        raise PredicateError(f"{said} tests no truth value; write a comparison, as in x = 1")
    call, wanted = operand.call, tree.truth
    return Compiled(lambda place, row: call(place, row) is wanted, ColumnType(BOOLEAN))


def _is_distinct(tree: rp.IsDistinct, sides: list[Compiled]) -> Compiled:
    _refuse_unlike(tree, *(side.type for side in sides))
    left, right = (side.call for side in sides)

    def call(place: Place, row: int) -> bool:
        one, other = left(place, row), right(place, row)
        if one is None or other is None:
            return one is not other
        return one != other

    return Compiled(call, ColumnType(BOOLEAN))


def _membership(tree: ex.In, operand: Compiled, choices: list[Compiled]) -> Compiled:
    converted = _converted([operand, *choices])
    _refuse_unlike(tree, *(part.type for part in converted))
    item, *options = [part.call for part in converted]

    def call(place: Place, row: int) -> bool | None:
        one = item(place, row)
        if one is None:
            return None
        others = [option(place, row) for option in options]
        if any(one == other for other in others if other is not None):
            return True
        return None if None in others else False

    return Compiled(call, ColumnType(BOOLEAN))


def _converted(parts: list[Compiled]) -> list[Compiled]:
    """Return operands in ticks of the finest unit, with texts in ticks next to a time or a duration."""
    timed = [part.type for part in parts if part.type.kind in (TIME, DURATION)]
    if not timed:
        return parts
    if len({(of.kind, of.timezone is None) for of in timed if of.kind == TIME}) > 1:
        raise PredicateError("one side has a time zone and the other has none; convert one of the columns")
    finest = min(timed, key=lambda of: NANOSECONDS[of.unit or "ns"])
    return [
        _in_ticks(part, finest) if part.type.kind == TEXT else _in_unit(part, finest.unit) for part in parts
    ]


def _in_unit(part: Compiled, unit: str | None) -> Compiled:
    """Return a time or a duration in a finer unit, and any other value unchanged."""
    if part.type.kind not in (TIME, DURATION) or part.type.unit == unit:
        return part
    factor = NANOSECONDS[part.type.unit or "ns"] // NANOSECONDS[unit or "ns"]
    return _strict(lambda ticks: ticks * factor, [part], replace(part.type, unit=unit))


def _in_ticks(part: Compiled, timed: ColumnType) -> Compiled:
    return _strict(lambda text: ticks_of(text, timed), [part], timed)


def ticks_of(text: str, timed: ColumnType) -> int | Fraction:
    """Return a text next to a time or a duration as ticks; a fraction for a time between two ticks."""
    if timed.kind == DURATION:
        return duration_ticks(text, timed.unit)
    return _time_ticks(text, timed.unit or "ns", timed.timezone)


@lru_cache(maxsize=256)
def _time_ticks(text: str, unit: str, zone: str | None) -> int | Fraction:
    """Return a time in ticks; without a zone of its own it is in the zone of the column."""
    import pandas as pd

    try:
        moment = pd.Timestamp(text)
    except ValueError:
        moment = pd.NaT
    if moment is pd.NaT:
        raise PredicateError(
            f"{text!r} is compared with a time but is not one; write it as TIMESTAMP '2024-01-31 09:30:00'"
        )
    if moment.tzinfo is None and zone is not None:
        try:
            moment = moment.tz_localize(zone)
        except ValueError:  # the clocks change
            raise PredicateError(
                f"{text!r} does not exist in {zone}, or exists twice; write its offset, as in '{text}+01:00'"
            ) from None
    if moment.tzinfo is not None:
        if zone is None:
            raise PredicateError(
                f"{text!r} has a time zone, but the times it is compared with have none; leave it out"
            )
        moment = moment.tz_convert("UTC").tz_localize(None)
    exact = Fraction(int(moment.asm8.astype(np.int64)) * NANOSECONDS[moment.unit], NANOSECONDS[unit])
    return int(exact) if exact.denominator == 1 else exact


def _arithmetic(tree: ex.Expression, sign: str, parts: list[Compiled]) -> Compiled:
    left, right = parts
    if left.type.kind == TIME and right.type.kind == TEXT:
        right = _in_ticks(right, ColumnType(DURATION, left.type.unit))
    elif {left.type.kind, right.type.kind} <= {TIME, DURATION} and sign in "+-":
        left, right = _converted([left, right])
    kinds = (left.type.kind, right.type.kind)
    if kinds == (TIME, TIME) and sign == "-":
        kind = ColumnType(DURATION, left.type.unit)
    elif TIME in kinds or DURATION in kinds:
        kind = left.type if left.type.kind in (TIME, DURATION) else right.type
    else:
        kind = ColumnType(INTEGER if kinds == (INTEGER, INTEGER) and sign != "/" else FLOAT)
    return _strict(_ARITHMETIC[sign], [left, right], kind, tree)


def _cast(part: Compiled, kind: str) -> Compiled:
    name, _, length = kind.rstrip(")").partition("(")
    if name in ("varchar", "char", "string", "text", "character", "character varying", "char varying"):
        end = int(length) if length else 1 if name in ("char", "character") else None
        return _strict(lambda item: str(item)[:end], [part], ColumnType(TEXT))
    if name in ("bigint", "integer", "int", "smallint", "tinyint"):
        return _strict(int, [part], ColumnType(INTEGER))
    if name in ("double", "double precision", "float", "real"):
        return _strict(float, [part], ColumnType(FLOAT))
    if name in ("decimal", "dec", "numeric"):
        digits = map(int, length.split(",")) if length else ()
        return _strict(as_decimal(*digits), [part], ColumnType(FLOAT))
    if name in ("boolean", "bool"):
        return _strict(as_truth, [part], ColumnType(BOOLEAN))
    raise PredicateError(f"CAST to {kind} does not run here")


def _common_type(parts: Iterable[Compiled]) -> ColumnType:
    """Return the type of values that come from several expressions: the first, or float among numbers."""
    types = [part.type for part in parts if part.type.kind != OTHER]
    if {one.kind for one in types} == {INTEGER, FLOAT}:
        return ColumnType(FLOAT)
    return types[0] if types else ColumnType(OTHER)


def _case(branches: list[Compiled], default: Compiled | None) -> Compiled:
    conditions, values = branches[::2], branches[1::2]

    def call(place: Place, row: int) -> Any:
        for condition, value in zip(conditions, values, strict=True):
            if condition.call(place, row) is True:
                return value.call(place, row)
        return None if default is None else default.call(place, row)

    return Compiled(call, _common_type(values if default is None else [*values, default]))


def _of_times(tree: ex.Call, function: str, parts: list[Compiled]) -> Compiled:
    unit = getattr(tree.arguments[0], "value", None) if function in WITH_UNIT else None
    timed = parts[1:] if function in WITH_UNIT else parts
    if not any(part.type.kind in (TIME, DURATION) for part in timed):  # constants alone
        timed = [
            _in_ticks(part, ColumnType(TIME, "us")) if part.type.kind == TEXT else part for part in timed
        ]
    timed = _converted(timed)
    of = next((part.type for part in timed if part.type.kind in (TIME, DURATION)), ColumnType(TIME, "us"))
    made, kind = function_of_times(function, unit, of)
    return _strict(made, timed, kind, tree)


def _as_integers(function: str, parts: list[Compiled]) -> list[Compiled]:
    """Return arguments with those as integers that must be; columns with missing values are often floats."""
    if (signature := SIGNATURES.get(function)) is None:
        return parts
    return [
        _strict(whole, [part], ColumnType(INTEGER))
        if part.type.kind == FLOAT and signature.types_of(place) == (INTEGER,)
        else part
        for place, part in enumerate(parts)
    ]


def _call(tree: ex.Call, function: str, parts: list[Compiled]) -> Compiled:
    check_arguments(tree, [part.type for part in parts])
    if function in TIME_FUNCTIONS:
        return _of_times(tree, function, parts)
    parts = _as_integers(function, parts)
    if function in ("least", "greatest"):
        parts = _converted(parts)
        _refuse_unlike(tree, *(part.type for part in parts))
    if function in ("coalesce", "nvl", "ifnull"):
        calls = [part.call for part in parts]
        kind = _common_type(parts)
        return Compiled(
            lambda place, row: next((v for call in calls if (v := call(place, row)) is not None), None), kind
        )
    if function == "if" and len(parts) in (2, 3):
        return _case(parts[:2], parts[2] if len(parts) == 3 else None)
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
    of = _common_type(parts) if kind is None else ColumnType(kind)
    if function == "element_at" and parts:
        of = parts[0].type.item or ColumnType(OTHER)
    return _strict(made, parts, of, tree)


_OTHER_FUNCTIONS = (
    *sorted(TIME_FUNCTIONS), "extract", "position",
    "coalesce", "if", "prev", "next", "first", "last", "classifier", "match_number", "match_rowtime",
)  # fmt: skip
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod,
    "//": operator.floordiv,
}  # fmt: skip
