"""Turn expressions of MATCH_RECOGNIZE into Python functions of a place in a match."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from cepkit.compile.match_recognize.arithmetic import (
    CONDITIONS,
    EXACT,
    TIMED,
    as_float,
    as_text,
    compute,
    condition_of,
    converted,
    literal,
    ticks_of,
    unified,
)
from cepkit.compile.match_recognize.compiled import (
    Compiled,
    Place,
    RowTotal,
    constant,
    constant_of,
    refuse_cast,
    refuse_function_of_ticks,
    refuse_non_boolean,
    refuse_opposite,
    refuse_unlike,
    row_read_by,
    strict,
)
from cepkit.compile.shared.computing import is_null, plain_result, typed_call
from cepkit.compile.shared.functions import (
    VARIES,
    bound_call,
    common_type,
    fault_of_argument,
    places_of_values,
    word_of_kind,
)
from cepkit.errors import (
    CepError,
    ColumnNotFoundError,
    PredicateError,
    column_not_found,
    nearest,
    short_text,
    underline,
)
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import LIST_OF_FUNCTIONS, RegisteredFunction
from cepkit.language.expressions.vocabulary import OF_SQL, VOCABULARY, Signature, rounded
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.clauses import OF_MATCH_RECOGNIZE
from cepkit.language.match_recognize.printing import print_sql
from cepkit.values import dataclass, field, replace

# Calls of functions, casts and choices in MATCH_RECOGNIZE, from arguments that are functions of a place.

_TIME_OF_TEXT = ColumnType(TIME, "us")  # the type of constant texts that are times


def _as_decimal(precision: int = 38, scale: int = 0) -> Callable[[Any], float]:
    """Return a function that rounds a value to a DECIMAL with these digits, as CAST does."""
    # It rounds to ``scale`` digits, and halves away from zero. Numbers that need more than ``precision``
    # digits have no value.

    def cast(item: Any) -> float:
        number = rounded(float(item), scale)
        if not abs(number) < 10 ** (precision - scale):
            raise ValueError(f"{item!r} does not fit into DECIMAL({precision},{scale})")
        return number

    return cast


def _as_truth(item: Any) -> bool:
    """Return a value of any type as a truth, as CAST does."""
    if not isinstance(item, str):
        return bool(item)
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if item.strip().lower() not in words:
        raise ValueError(f"{item!r} is no truth value")
    return words[item.strip().lower()]


def cast_of(tree: rp.Cast, part: Compiled, kind: str) -> Compiled:
    """Return a value cast to another type; null where the value has no form in that type."""
    name, _, length = kind.rstrip(")").partition("(")
    if name in ("varchar", "char", "string", "text", "character", "character varying", "char varying"):
        end = int(length) if length else 1 if name in ("char", "character") else None
        if part.type.kind in (LIST, MAP):
            return strict(lambda item: str(item)[:end], [part], ColumnType(TEXT))
        return strict(lambda text: text[:end], [as_text(part)], ColumnType(TEXT))
    if name in ("boolean", "bool"):
        return strict(_as_truth, [part], ColumnType(BOOLEAN))
    refuse_cast(tree, part.type)
    if name in ("bigint", "integer", "int", "smallint", "tinyint"):
        return strict(int, [part], ColumnType(INTEGER))
    if name in ("double", "double precision", "float", "real"):
        return strict(float, [part], ColumnType(FLOAT))
    if name in ("decimal", "dec", "numeric"):
        digits = map(int, length.split(",")) if length else ()
        return strict(_as_decimal(*digits), [part], ColumnType(FLOAT))
    raise PredicateError(f"CAST: no type {kind.upper()}; types: VARCHAR, BOOLEAN, BIGINT, DOUBLE, DECIMAL")


def case_of(conditions: list[Compiled], values: list[Compiled]) -> Compiled:
    """Return the value of the first condition that holds. A value without a condition is that of ELSE."""
    default = values[len(conditions)] if len(values) > len(conditions) else None

    def call(place: Place, row: int) -> Any:
        for condition, value in zip(conditions, values, strict=False):
            if condition.call(place, row) is True:
                return value.call(place, row)
        return None if default is None else default.call(place, row)

    kind, parts = common_type([value.type for value in values]), [*conditions, *values]
    return Compiled(call, kind, op="case", parts=parts, data=len(conditions))


_KEEPING_DECIMALS = (
    "coalesce", "nvl", "ifnull", "if", "mod", "least", "greatest", "nullif", "concat", "concat_ws",
)  # fmt: skip


def call_of(tree: ex.Call, function: str, parts: list[Compiled]) -> Compiled:
    """Return the call of a function of SQL with its arguments."""
    if function == "abs" and parts and parts[0].type.scale is not None:
        return strict(Decimal.copy_abs, parts, parts[0].type)
    if function not in _KEEPING_DECIMALS:
        parts = list(map(as_float, parts))
    refuse_function_of_ticks(tree, function, [part.type for part in parts])
    if function in _OF_LISTS:
        return _of_lists(tree, function, parts)
    if function not in VOCABULARY:
        names = [*VOCABULARY, *_OF_LISTS, *rp.AGGREGATES_OF_ROWS, *_OTHER_FUNCTIONS]
        hint = nearest(function, map(str.upper, names))
        text = f"no function {function.upper()!r} in {print_sql(tree)}.{hint}"
        raise PredicateError(text + LIST_OF_FUNCTIONS)
    signature, name = VOCABULARY[function].takes, VOCABULARY[function].name
    if name in ("if", "case"):
        for i in range(0, len(parts) - 1, 2):
            refuse_non_boolean(tree.arguments[i], parts[i].type)
    _check_arguments(tree, signature, [part.type for part in parts])
    if name == "mod":
        return compute(tree, "%", parts)
    parts = _with_times(signature, parts)
    places = places_of_values(name, len(parts))
    if VOCABULARY[name].gives is None and len(places) > 1:
        for place, part in zip(places, unified(tree, [parts[place] for place in places]), strict=True):
            parts[place] = part
        if name in ("least", "greatest"):
            refuse_unlike(tree, [part.type for part in parts], "compares")
    if name in ("concat", "concat_ws") or (name == "to_char" and parts[0].type.kind != TIME):
        parts = [as_text(part) for part in parts]
    constants = [part.call(None, -1) if part.is_constant else VARIES for part in parts]
    bound = bound_call(function, [part.type for part in parts], constants)
    if not bound.is_lenient:
        return strict(bound.call, parts, bound.type, tree, "call", (function, bound))
    calls = [part.call for part in parts]

    def call(place: Place, row: int) -> Any:
        return bound.call(*(call(place, row) for call in calls))

    return Compiled(call, bound.type, op="call", parts=parts, data=(function, bound))


def _check_arguments(tree: ex.Call, signature: Signature, types: Sequence[ColumnType]) -> None:
    """Raise for a wrong number of arguments, and for a type that the function does not take."""
    if not signature.accepts(len(types)):
        raise PredicateError(f"{tree.function.upper()}() takes {signature}; {len(types)} given")
    for place, (argument, column_type) in enumerate(zip(tree.arguments, types, strict=True)):
        fault = fault_of_argument(
            signature, place, len(types), column_type,
            is_column=isinstance(argument, ex.Attribute | ex.Reference),
            is_constant=isinstance(argument, ex.Literal | ex.Parameter),
        )  # fmt: skip
        if fault is not None:
            raise PredicateError(
                f"{tree.function.upper()}() takes {fault}, but {short_text(print_sql(argument))} is "
                f"{word_of_kind(column_type.kind)}"
            )


def _with_times(signature: Signature, parts: list[Compiled]) -> list[Compiled]:
    """Return the arguments, with those that must be times in one unit, and texts among them as times."""
    types = [signature.types_of(place) for place in range(len(parts))] if parts else []
    places = [place for place, kinds in enumerate(types) if TIME in kinds and TEXT not in kinds]
    timed = [parts[place] for place in places]
    if not any(part.type.kind in TIMED for part in timed):  # texts alone
        timed = [
            strict(lambda text: ticks_of(text, _TIME_OF_TEXT), [part], _TIME_OF_TEXT)
            if part.type.kind == TEXT
            else part
            for part in timed
        ]
    parts = [*parts]
    for place, part in zip(places, converted(timed), strict=True):
        parts[place] = part
    return parts


# --- lists, which only SQL has


def _element_at(items: Sequence[Any] | Mapping[Any, Any], key: Any) -> Any:
    """Return the value of a key, or the item of a list, counted from 1, or from its end below 0."""
    if isinstance(items, Mapping):
        return items.get(key)
    if key == 0:
        raise ValueError("lists begin at 1")
    place = key - 1 if key > 0 else len(items) + key
    return items[place] if 0 <= place < len(items) else None


def _joined(items: Sequence[Any], separator: str, instead_of_null: str | None = None) -> str:
    """Return the texts of a list with a separator between them; nulls are left out, or replaced."""
    texts = (instead_of_null if item is None else str(item) for item in items)
    return separator.join(text for text in texts if text is not None)


_OF_LISTS: dict[str, tuple[Callable[..., Any], str]] = {
    "cardinality": (len, INTEGER), "array_size": (len, INTEGER), "element_at": (_element_at, OTHER),
    "array_join": (_joined, TEXT), "array_to_string": (_joined, TEXT),
}  # fmt: skip


def _of_lists(tree: ex.Call, function: str, parts: list[Compiled]) -> Compiled:
    """Return the call of a function that takes a list."""
    compute_value, kind = _OF_LISTS[function]
    if kind == TEXT:
        parts = [as_text(part) for part in parts]
    result_type = ColumnType(kind)
    if function == "element_at" and parts:
        result_type = parts[0].type.item or ColumnType(OTHER)
    return strict(compute_value, parts, result_type, tree)


_OTHER_FUNCTIONS = (
    "extract", "position", "prev", "next", "first", "last", "classifier", "match_number", "match_rowtime",
)  # fmt: skip


# The aggregates of MATCH_RECOGNIZE, each with a start, a step that adds one value, and a result.


@dataclass(frozen=True)
class Steps:
    """How an aggregate is computed value by value. Its state is an immutable value, and has no nulls."""

    start: Any
    add: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]


def _unchanged(state: Any) -> Any:
    return state


def _with_moments(state: tuple, item: Any) -> tuple:
    """Return the number of values, their sum and the sum of their squares. Both sums are exact."""
    n, total, squares = state
    exact = Fraction(item) if math.isfinite(item) else item
    return n + 1, total + exact, squares + exact * exact


def _variance(state: tuple, n_less: int) -> float | None:
    """Return the variance from `_with_moments`; ``n_less`` is 1 for a sample and 0 for a population."""
    n, total, squares = state
    if n <= n_less:
        return None
    return float((squares - total * total / n) / (n - n_less))


def _deviation(state: tuple, n_less: int) -> float | None:
    """Return the standard deviation from `_with_moments`; see `_variance`."""
    variance = _variance(state, n_less)
    return None if variance is None else math.sqrt(variance)


def _plus(total: Any, item: Any) -> Any:
    """Return a sum; decimals are added exactly."""
    return EXACT.add(total, item) if isinstance(item, Decimal) else total + item


def _mean(total: Any, n: int) -> float | None:
    """Return the mean of ``n`` values from their sum; None for no values."""
    if isinstance(total, Decimal):
        return float(Fraction(total) / n)
    return total / n if n else None


def _with_entry(state: tuple, pair: tuple) -> tuple:
    """Return the entries with one more; the first entry of a key stays."""
    return state if pair[0] is None or any(pair[0] == key for key, _ in state) else (*state, pair)


_EXTREME = {
    "min": lambda state, item: item if state is None or item < state else state,
    "max": lambda state, item: item if state is None or item > state else state,
}
_NO_VALUES = (0, 0, 0)
_ALL = Steps(None, lambda state, item: item and state is not False, _unchanged)
_FIRST = Steps(None, lambda state, item: item if state is None else state, _unchanged)
AGGREGATES: dict[str, Steps] = {
    "count": Steps(0, lambda state, item: state + 1, _unchanged),
    "count_if": Steps(0, lambda state, item: state + (item is True), _unchanged),
    "sum": Steps(None, lambda state, item: item if state is None else _plus(state, item), _unchanged),
    "avg": Steps((0, 0), lambda s, item: (_plus(s[0], item), s[1] + 1), lambda s: _mean(*s)),
    "avg_of_times": Steps(
        (0, 0), lambda s, item: (s[0] + item, s[1] + 1), lambda s: round(Fraction(*s)) if s[1] else None
    ),  # a float has too few digits for nanoseconds
    "min": Steps(None, _EXTREME["min"], _unchanged),
    "max": Steps(None, _EXTREME["max"], _unchanged),
    "stddev": Steps(_NO_VALUES, _with_moments, lambda state: _deviation(state, 1)),
    "stddev_samp": Steps(_NO_VALUES, _with_moments, lambda state: _deviation(state, 1)),
    "stddev_pop": Steps(_NO_VALUES, _with_moments, lambda state: _deviation(state, 0)),
    "variance": Steps(_NO_VALUES, _with_moments, lambda state: _variance(state, 1)),
    "var_samp": Steps(_NO_VALUES, _with_moments, lambda state: _variance(state, 1)),
    "var_pop": Steps(_NO_VALUES, _with_moments, lambda state: _variance(state, 0)),
    "bool_and": _ALL,
    "every": _ALL,
    "bool_or": Steps(None, lambda state, item: item or state is True, _unchanged),
    "arbitrary": _FIRST,
    "any_value": _FIRST,
    "array_agg": Steps((), lambda state, item: (*state, item), lambda state: list(state) or None),
    "map_agg": Steps((), _with_entry, lambda state: dict(state) or None),
    "max_by": Steps(
        None, lambda s, p: p if p[1] is not None and (s is None or p[1] > s[1]) else s, lambda s: s and s[0]
    ),
    "min_by": Steps(
        None, lambda s, p: p if p[1] is not None and (s is None or p[1] < s[1]) else s, lambda s: s and s[0]
    ),
}


AGGREGATES |= {
    name: Steps(None, lambda chain, item: (chain, item), summary.of_chain) for name, summary in OF_SQL.items()
}
# Aggregates whose result has the type of the first argument.
OF_FIRST_ARGUMENT = ("sum", "min", "max", "max_by", "min_by", "any_value", "arbitrary")


# Turn expressions of MATCH_RECOGNIZE into Python functions of a place in a match.

_FLOATS = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", *OF_SQL)
_OF_NUMBERS = ("sum", "avg", *_FLOATS)


def compile_condition(
    tree: ex.Expression, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None = None, *,
    inside: bool = False,
) -> Compiled:  # fmt: skip
    """Return a condition as a function of a place in a match."""
    compiled = compile_value(tree, schema, params, inside=inside)
    refuse_non_boolean(tree, compiled.type)
    return compiled


def compile_value(
    tree: ex.Expression, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None = None, *,
    inside: bool = False,
) -> Compiled:  # fmt: skip
    """Return an expression as a function of a place in a match."""
    return replace(_compile(tree, schema, params, inside), tree=tree)


def _compile(
    tree: ex.Expression, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None, inside: bool
) -> Compiled:
    """Return the function of an expression. ``inside`` an aggregate or a navigation, it reads a given row."""

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
            return constant_of(None if is_null(params[name]) else params[name])
        case ex.Attribute() | ex.Reference():
            return _column(tree, schema, inside)
        case rp.Navigation():
            return _navigation(tree, schema, params)
        case rp.RowAggregate():
            return _aggregate(tree, schema, params)
        case rp.Classifier(variable=variable):
            label = lambda place, row: place.label(row) if inside else _label_of_last(place, variable)  # noqa: E731
            return Compiled(label, ColumnType(TEXT), op="label", data=variable)
        case rp.MatchNumber():
            return Compiled(lambda place, row: place.number, ColumnType(INTEGER), op="number")
        case rp.MatchRowtime(operand=ex.Expression() as operand):
            return part(rp.Navigation("last", operand, final=True))
        case rp.TimedOut():  # only matches have numbers
            return Compiled(lambda place, row: place.number is None, ColumnType(BOOLEAN), op="timed out")
        case ex.Arithmetic(operator=sign, left=left, right=right):
            return compute(tree, sign, [part(left), part(right)])
        case ex.Negative(operand=operand):
            compiled = part(operand)
            refuse_opposite(tree, compiled.type)
            negate = operator.neg if compiled.type.scale is None else Decimal.copy_negate
            if compiled.is_constant and (value := compiled.call(None, -1)) is not None:
                return constant(negate(value), compiled.type)
            return strict(negate, [compiled], compiled.type, tree, "negative")
        case rp.Joined(left=left, right=right):
            return strict(
                lambda text, more: f"{text}{more}",
                [as_text(part(left)), as_text(part(right))],
                ColumnType(TEXT),
            )
        case rp.Cast(operand=operand, kind=kind):
            return cast_of(tree, part(operand), kind)
        case rp.ArrayOf(items=items):
            unified_items = unified(tree, [part(item) for item in items])
            calls = [item.call for item in unified_items]
            kind = ColumnType(LIST, item=common_type([item.type for item in unified_items]))
            return Compiled(
                lambda place, row: [call(place, row) for call in calls], kind, parts=unified_items
            )
        case rp.CaseWhen(branches=branches, default=default):
            conditions = [condition(node) for node in branches[::2]]
            values = [*branches[1::2], *([] if default is None else [default])]
            return case_of(conditions, unified(tree, [part(node) for node in values]))
        case rp.UserCall(registered=registered, arguments=arguments):
            return _user_call(registered, [as_float(part(node)) for node in arguments])
        case ex.Call(function=function, arguments=arguments):
            return call_of(tree, function, [part(node) for node in arguments])
    raise PredicateError(f"MATCH_RECOGNIZE cannot compute {type(tree).__name__}")


def _user_call(registered: RegisteredFunction, parts: list[Compiled]) -> Compiled:
    """Return a call of a registered function, null if an argument is null; its errors are the user's."""
    function, calls = typed_call(registered, [part.type for part in parts]), [part.call for part in parts]

    def call(place: Place, row: int) -> Any:
        arguments = [argument(place, row) for argument in calls]
        return None if any(item is None for item in arguments) else plain_result(function(*arguments))

    return Compiled(call, ColumnType(OTHER), parts=parts)


def column_of(name: str, schema: Iterable[str]) -> str:
    """Return the column that a name means: the same name, or the only one that differs in case alone."""
    if isinstance(schema, Container) and name in schema:  # also a field of structs, which is not listed
        return name
    schema = list(schema)
    if name in schema:
        return name
    alike = [column for column in schema if column.lower() == name.lower()]
    if len(alike) != 1:
        raise column_not_found("MATCH_RECOGNIZE", name, schema)
    return alike[0]


def _column(tree: ex.Attribute | ex.Reference, schema: Mapping[str, ColumnType], inside: bool) -> Compiled:
    """Return a column: of the given row inside an aggregate, else of the last row of its variable."""
    name = column_of(tree.name or "", schema)
    variable = tree.variable if isinstance(tree, ex.Reference) else None

    def last(place: Place, row: int) -> Any:
        at = place.nth(variable, False, 0, False)
        return None if at < 0 else place.columns[name][at]

    call = (lambda place, row: place.columns[name][row]) if inside else last
    return Compiled(call, schema[name], op="column", data=(name, variable))


def _label_of_last(place: Place, variable: str | None) -> str | None:
    """Return the variable that the last row of ``variable`` is of; None without such a row."""
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
    """Return the value of an expression at the row that FIRST, LAST, PREV or NEXT reads."""
    operand, read = row_read_by(tree)
    from_first, offset, final, distance = read.from_first, read.offset, read.final, read.distance
    variable = variable_of([operand])
    inner = compile_value(operand, schema, params, inside=True)

    def call(place: Place, row: int) -> Any:
        at = place.nth(variable, from_first, offset, final)
        if at < 0 or not place.low <= at + distance < place.n_rows:
            return None
        return inner.call(place, at + distance)

    return Compiled(call, inner.type, op="navigation", parts=[inner], data=(read, variable))


def _aggregate(
    tree: rp.RowAggregate, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None
) -> Compiled:
    """Return an aggregate over rows of the match. Raise if no engine computes it."""
    arguments = [compile_value(node, schema, params, inside=True) for node in tree.arguments]
    if tree.function not in AGGREGATES:
        raise PredicateError(f"MATCH_RECOGNIZE does not compute {tree.function.upper()}")
    if tree.function in ("count_if", "share", "bool_and", "bool_or", "every"):
        for node, argument in zip(tree.arguments, arguments, strict=True):
            refuse_non_boolean(node, argument.type, f"the argument of {tree.function.upper()}")
    kinds = {TEXT: "texts", BOOLEAN: "truth values", LIST: "lists"}
    kinds |= {} if tree.function == "avg" else {TIME: "times"}
    kinds |= {} if tree.function in ("sum", "avg") else {DURATION: "intervals"}
    if tree.function in _OF_NUMBERS and arguments and arguments[0].type.kind in kinds:
        name, refused = tree.function.upper(), kinds[arguments[0].type.kind]
        raise PredicateError(f"{name}() needs numbers, not {refused}, in {print_sql(tree)}")
    variable = variable_of(tree.arguments) if arguments else tree.variable
    is_of_times = bool(arguments) and arguments[0].type.kind in TIMED
    total = RowTotal(tree, tuple(argument.call for argument in arguments), variable, is_of_times)
    kind = ColumnType(OTHER)
    if tree.function in ("count", "count_if"):
        kind = ColumnType(INTEGER)
    elif tree.function in OF_FIRST_ARGUMENT:
        kind = arguments[0].type
    elif tree.function == "avg":
        kind = arguments[0].type if is_of_times else ColumnType(FLOAT)
    elif tree.function in ("bool_and", "bool_or", "every"):
        kind = ColumnType(BOOLEAN)
    elif tree.function in _FLOATS:
        kind = ColumnType(FLOAT)
    elif tree.function == "array_agg":
        kind = ColumnType(LIST, item=arguments[0].type)
    elif tree.function == "map_agg":
        kind = ColumnType(MAP, key=arguments[0].type, item=arguments[1].type)
    return Compiled(lambda place, row: place.total(total), kind, op="total", parts=arguments, data=total)


def numbers_of_truths(
    trees: tuple[tuple[str, ex.Expression], ...],
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
) -> tuple[tuple[str, ex.Expression], ...]:
    """Return trees with 1 for true and 0 for false where an aggregate needs numbers; ``SHARE`` is ``AVG``."""

    def change(node: ex.Expression) -> ex.Expression:
        if not isinstance(node, rp.RowAggregate) or node.function not in _OF_NUMBERS or not node.arguments:
            return node
        try:
            kind = compile_value(node.arguments[0], schema, params, inside=True).type.kind
        except CepError:  # it is raised again, with its place in the text
            return node
        if kind != BOOLEAN:
            return node
        argument, one, zero = node.arguments[0], ex.Literal(1), ex.Literal(0)
        number = rp.CaseWhen((argument, one, ex.Not(argument), zero), span=argument.span)
        function = {"share": "avg"}.get(node.function, node.function)
        return replace(node, function=function, arguments=(number, *node.arguments[1:]))

    return tuple((name, ex.rebuilt(tree, ex.Expression, change)) for name, tree in trees)


# Compile expressions of MATCH_RECOGNIZE with errors that name the clause and underline the place.

_Span = tuple[int, int]


@dataclass(frozen=True)
class ColumnScope:
    """The columns, parameters and text that the expressions of a clause refer to."""

    source: str  # the text that the spans of trees belong to; empty for a tree that comes from no text
    schema: Mapping[str, ColumnType]  # the columns that the expressions may name
    params: Mapping[str, Any] | None = None  # values of parameters
    inside: bool = False  # as for `compile_value`
    # The variables of the pattern, where an expression may name one in place of a column.
    variables: Collection[str] = ()
    # Advice for names that are no columns here. The keys are in lower case.
    more: Mapping[str, str] = field(default_factory=dict)

    def compiled(self, tree: ex.Expression, role: str, *, is_condition: bool = False) -> Compiled:
        """Return an expression as a function; ``role`` names the clause in errors, as in ``"DEFINE B"``."""
        # The values of a condition must be true or false.
        compiles = compile_condition if is_condition else compile_value
        try:
            return compiles(tree, self.schema, self.params, inside=self.inside)
        except (ColumnNotFoundError, PredicateError) as error:
            raise self._placed(error, tree, role) from None

    def column(self, name: str, role: str, *, is_last: bool = False) -> str:
        """Return the column that a name in a list means; ``is_last`` looks at the last such clause."""
        try:
            return column_of(name, self.schema)
        except ColumnNotFoundError as error:
            span = span_of_name(self.source, role, name, is_last=is_last)
            raise _with_caret(error, self._told(error, role, name, span), self.source, span) from None

    def _placed(self, error: CepError, tree: ex.Expression, role: str) -> CepError:
        """Return the error with its clause, at the smallest expression that raises it."""
        node, inner = tree, tree
        if isinstance(error, PredicateError) and error.span is not None:
            return _with_caret(error, self._told(error, role, None, error.span), self.source, error.span)
        while inner is not None:
            node = inner
            inner = next((child for child in node.children() if self._raises(child, error)), None)
        name = node.name if isinstance(node, ex.Attribute | ex.Reference) else None
        return _with_caret(error, self._told(error, role, name, node.span, node), self.source, node.span)

    def _raises(self, tree: ex.Expression, error: CepError) -> bool:
        """Return whether an expression alone raises the same error."""
        try:
            compile_value(tree, self.schema, self.params, inside=self.inside)
        except CepError as own:
            return str(own) == str(error)
        return False

    def _told(
        self, error: CepError, role: str, name: str | None, span: _Span | None,
        node: ex.Expression | None = None,
    ) -> str:  # fmt: skip
        """Return the message with its clause, and with advice for a name that is no column."""
        message = str(error).removeprefix("MATCH_RECOGNIZE: ")
        if not isinstance(error, ColumnNotFoundError) or name is None:
            return f"{role}: {message}"
        if isinstance(node, ex.Attribute) and name.upper() in self.variables:
            column = next(iter(self.schema), "price")
            return (
                f"{role}: {name} is a variable of the pattern, and not a value. "
                f"Write a column of its row, such as {name}.{column}"
            )
        text = "" if span is None else self.source[span[0] : span[1]]
        if isinstance(node, ex.Attribute) and text.startswith('"'):
            quoted = name.replace("'", "''")
            message = message.replace(" Columns:", f" A text has single quotes: '{quoted}'. Columns:")
        more = self.more.get(name.lower(), "")
        return f"{role}: {message}{more and '. ' + more}"


def _with_caret(error: CepError, message: str, source: str, span: _Span | None) -> CepError:
    """Return an error of the same class with a message, and with the place in the text if it is known."""
    if span is None or not source[span[0] : span[1]]:
        return type(error)(message)
    start, stop = span
    return type(error)(f"{message} (position {start})\n{underline(source, start, stop - start)}")


def span_of_name(source: str, clause: str, name: str, *, is_last: bool = False) -> _Span | None:
    """Return where a name is after the words of a clause; None if it is nowhere."""
    words = r"\s+".join(clause.split())
    begins = [match.end() for match in re.finditer(rf"\b{words}\b", source, re.IGNORECASE)]
    if not begins:
        return None
    begin = begins[-1 if is_last else 0]
    ends = "|".join(keyword.words for keyword in OF_MATCH_RECOGNIZE)
    end = re.compile(rf"\b(?:{ends})", re.IGNORECASE).search(source, begin)
    stop = end.start() if end else len(source)
    match = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)").search(source, begin, stop)
    return None if match is None else match.span()
