"""Measures: expressions over whole matches, computed from the matched rows after matching."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.shared import decimals
from cepkit.compile.shared.computing import plain_result, typed_call
from cepkit.compile.shared.operations import moment_of, time_limit
from cepkit.engines.reducing import (
    call_function,
    compare_rows,
    in_words,
    is_list,
    is_number,
    is_text,
    reduce_items,
    type_of_plain,
    vectors_of_arrow,
)
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError, PredicateError, column_not_found
from cepkit.events import NULL_INTEGER, sums_before
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.functions import FUNCTIONS, VECTOR_FUNCTIONS
from cepkit.language.expressions.vocabulary import COUNTING, VOCABULARY
from cepkit.progress import checkpoint
from cepkit.values import dataclass

if TYPE_CHECKING:
    from cepkit.language.regex import RegexQuery

_SIGNS = {
    ex.Negative: "-", ex.Not: "not", ex.And: "and", ex.Or: "or", ex.In: "in", ex.Like: "like",
    ex.IsDistinct: "is distinct from",
}  # fmt: skip
_COMPARE = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip


def _power(base, exponent):
    undefined = pc.and_(pc.equal(base, 0.0), pc.less(exponent, 0.0))
    return pc.if_else(undefined, pa.scalar(None, pa.float64()), pc.power(base, exponent))


def _of_positive(logarithm: Callable) -> Callable:
    """Return the logarithm as a function that is null for numbers that are not positive."""
    return lambda x: logarithm(pc.if_else(pc.greater(x, 0.0), x, pa.scalar(None, pa.float64())))


_MATH = {
    "sqrt": pc.sqrt, "exp": pc.exp, "log": _of_positive(pc.ln), "log2": _of_positive(pc.log2),
    "log10": _of_positive(pc.log10), "power": _power,
}  # fmt: skip
_ROUNDED = {"floor": pc.floor, "ceil": pc.ceil, "round": partial(pc.round, round_mode="half_to_even")}
_BITS = {"bit_and": pc.bit_wise_and, "bit_or": pc.bit_wise_or, "bit_xor": pc.bit_wise_xor}
_TEXT = {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}


class Rows(Protocol):
    """A source of the values of rows, such as the sources of frames."""

    @property
    def schema(self) -> Mapping[str, Any]: ...

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array: ...

    def vectors(self, name: str) -> np.ndarray:
        """Return an array column as a matrix, with a row for each array."""
        ...


@dataclass(frozen=True, slots=True)
class Picked:
    """A measure that takes a column's value at one row per match. The frame can return it in its own type."""

    column: str
    rows: np.ndarray  # int64, (n_matches,): row numbers of the frame


Measured = Picked | pa.Array


def measure_expressions(query: RegexQuery) -> tuple[tuple[str, ex.Expression], ...]:
    """Return the query's measures, or the default: first and last of every order column, and the count."""
    # A default name that a partition column has gets an underscore at its end.
    if query.measures is not None:
        return query.measures
    ends = [
        (f"{end}_{name}", ex.Aggregate(end, ex.Attribute(name)))
        for name in query.order_by
        for end in ("first", "last")
    ]
    defaults = [*ends, ("count", ex.Aggregate("count"))]
    names = unused_names([name for name, _ in defaults], query.partition_by)
    return tuple((name, tree) for name, (_, tree) in zip(names, defaults, strict=True))


def unused_names(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return names that differ from each other, and from the taken ones also in lower case."""
    used = {name.lower() for name in taken}
    names: list[str] = []
    for name in wanted:
        while name.lower() in used or name in names:
            name += "_"
        names.append(name)
    return names


Labels = Callable[[MatchSet], np.ndarray]


def measure(
    query: RegexQuery, matches: MatchSet, source: Rows, labels: Labels | None = None
) -> dict[str, Measured]:
    """Compute the result columns of every match."""
    # Aggregates in measures range over all rows of the match, or over those of a name of the pattern;
    # ``labels`` returns the name of each row of each match.
    # Source: Hirzel, "Partition and Compose", DEBS 2012, section 2.2.
    last_rows = matches.events.rows(matches.last)
    columns: dict[str, Measured] = {name: Picked(name, last_rows) for name in query.partition_by}
    if query.measures is None and not query.order_by:
        first, last = unused_names(["first_position", "last_position"], query.partition_by)
        columns |= {first: pa.array(matches.first), last: pa.array(matches.last)}
    evaluator = Evaluator(query, matches, source, labels)
    for name, expression in measure_expressions(query):
        checkpoint()
        columns[name] = evaluator.measure(f"measure {name!r}", expression)
    return columns


class Evaluator:
    """Computes measures, one value per match. Subclasses add leaves of expressions."""

    def __init__(self, query: RegexQuery, matches: MatchSet, source: Rows, labels: Labels | None = None):
        self.query, self.matches, self.source, self._labels = query, matches, source, labels
        self.role = "measure"
        self._events_of: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def measure(self, role: str, expression: ex.Expression) -> Measured:
        """Return the values of a measure, one per match; ``role`` names it in errors."""
        self.role = role
        if (
            isinstance(expression, ex.Aggregate)
            and expression.function in ("first", "last")
            and isinstance(expression.operand, ex.Attribute)
        ):
            name = expression.operand.name
            self._check(expression.operand)
            return Picked(name, self._rows_of(expression.function))
        return decimals.narrow(repeat_scalar(self.value(expression), len(self.matches)))

    def done(self, e: ex.Expression, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns; what it refuses is an error at a part of the measure."""
        try:
            return function(*arguments)
        except (TypeError, CepError) as error:
            if str(error).startswith(f"{self.role}: "):  # it is from a part, and names it
                raise
            raise self.wrong(e, str(error)) from None

    def wrong(self, e: ex.Expression, problem: str) -> PredicateError:
        """Return the error for a part of a measure."""
        return PredicateError(f"{self.role}: {problem}\n{self.query.underlined(self.role, e)}")

    def name_of(self, e: ex.Attribute | ex.Reference) -> str:
        """Return the name of a column; a variable before it only says which rows count."""
        return e.name or ""

    def _check(self, e: ex.Attribute | ex.Reference) -> None:
        """Raise if a column does not exist."""
        if self.name_of(e) not in self.source.schema:
            error = column_not_found(self.role, self.name_of(e), self.source.schema)
            raise type(error)(f"{error}\n{self.query.underlined(self.role, e)}")

    def _rows_of(self, end: str) -> np.ndarray:
        """Return the row numbers of the first or last row of each match."""
        return self.rows_at(self.matches.first if end == "first" else self.matches.last)

    def rows_at(self, positions: np.ndarray) -> np.ndarray:
        """Return the row numbers of the frame of events."""
        return self.matches.events.rows(positions)

    def event_of_item(self) -> np.ndarray:
        """Return the events of all matches, one match after the other."""
        return self.matches.lineage.event_of_item

    # The leaves of a value per match are aggregates, those of a value per row are columns.

    def value(self, e: ex.Expression) -> pa.Array | pa.Scalar:
        """Return the values of an expression, one per match, or a constant."""
        if isinstance(e, ex.Aggregate):
            return self._aggregate(e)
        if isinstance(e, ex.Previous):
            return self._earlier(e)
        return self._combine(e, self.value)

    def _earlier(self, e: ex.Previous) -> pa.Array:
        """Return the value some rows before the last one of each match; null before the partition begins."""
        if self._labels is None:
            raise self.wrong(
                e, f"{e} may be a row before those that are kept; use values of the match, such as first(x)"
            )
        events, last = self.matches.events, self.matches.last
        place = events.rank_by_partition[last] - e.offset
        position = events.by_partition[np.maximum(place, 0)]
        partition = events.partition_of_event
        is_there = (place >= 0) & (partition[position] == partition[last])
        values = repeat_scalar(self._row_value(e.operand, self.rows_at(position)), len(last))
        return pc.if_else(pa.array(is_there), values, pa.scalar(None, values.type))

    def _row_value(self, e: ex.Expression, rows: np.ndarray) -> pa.Array | pa.Scalar:
        """Return the values of an expression at rows of the frame, or a constant."""
        if _is_column(e):
            self._check(e)
            return plain_values(self.source.arrow(self.name_of(e), rows))
        if isinstance(e, ex.Subscript):
            return self._item(e, rows)
        return self._combine(e, lambda part: self._row_value(part, rows))

    def _item(self, e: ex.Subscript, rows: np.ndarray) -> pa.Array:
        """Return an item of the list of each row, or null; a negative index counts from the end."""
        if not _is_column(e.operand):
            raise self.wrong(e, "only a column can be subscripted, as in prices[0]")
        self._check(e.operand)
        name, index = self.name_of(e.operand), e.index
        lists = self.source.arrow(name, rows)
        if not is_list(lists.type):
            column_words = f"column {name!r} is of type {self.source.schema[name]}"
            raise self.wrong(e, f"{column_words}, not a list: it has no item [{index}]")
        least = index + 1 if index >= 0 else -index
        items = [None if x is None or len(x) < least else x[index] for x in lists.to_pylist()]
        return plain_values(pa.array(items, type=lists.type.value_type))

    def _aggregate(self, e: ex.Aggregate) -> pa.Array:
        """Return an aggregate over the rows of each match."""
        function, operand = e.function, e.operand
        for node in e.walk():
            if isinstance(node, ex.Reference):
                return self._aggregate_of_variable(e, node.variable)
        if operand is None:
            return pa.array(np.diff(self.matches.first_item_of_match))
        if function in ("first", "last"):
            return self._row_value(operand, self._rows_of(function))
        if function == "delta":
            return self._difference(
                e, *(self._row_value(operand, self._rows_of(end)) for end in ("last", "first"))
            )
        rows = self.rows_at(self.event_of_item())
        return self._reduced(e, rows, self.matches.first_item_of_match)

    def _reduced(self, e: ex.Aggregate, rows: np.ndarray, first_item: np.ndarray) -> pa.Array:
        """Return an aggregate over each part of some rows."""
        values = repeat_scalar(self._row_value(e.operand, rows), len(rows))
        by = None if e.by is None else self._row_value(e.by, rows)
        if by is not None and not isinstance(e.by, ex.Literal):
            by = repeat_scalar(by, len(rows))
        order = self._order(e.operand if e.by is None else e.by)
        return self.done(e, reduce_items, e.function, values, first_item, order, by)

    def _aggregate_of_variable(self, e: ex.Aggregate, variable: str) -> pa.Array:
        """Return an aggregate over the events of a variable, null for matches without such an event."""
        events, first_item, having = self.bound(variable)
        if isinstance(e.operand, ex.Reference) and e.operand.name is None:
            n_of_match = np.zeros(len(self.matches), np.int64)
            n_of_match[having] = np.diff(first_item)
            return pa.array(n_of_match)
        if e.function in ("first", "last", "delta"):
            ends = {"first": [1], "last": [ex.LAST], "delta": [ex.LAST, 1]}[e.function]
            values = []
            for index in ends:
                rows = self.rows_at(self.event_of(variable, index)[0])
                values.append(repeat_scalar(self._row_value(e.operand, rows), len(rows)))
            of_variable = values[0] if len(values) == 1 else self._difference(e, *values)
        else:
            of_variable = self._reduced(e, self.rows_at(events), first_item)
        spread = self.spread(of_variable, having)
        return pc.fill_null(spread, 0) if e.function in COUNTING else spread

    def bound(self, variable: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the events of a variable, their offsets per match that has some, and these matches."""
        # A cache of a method would keep the matches until garbage is collected.
        if variable not in self._events_of:
            self._events_of[variable] = self._find(variable)
        return self._events_of[variable]

    def _find(self, variable: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        items = np.flatnonzero(self._label_of_item == variable)
        counts = np.diff(np.searchsorted(items, self.matches.first_item_of_match))
        having = np.flatnonzero(counts)
        return self.event_of_item()[items], sums_before(counts[having]), having

    def event_of(self, variable: str, index: int | str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the events that ``variable[index]`` stands for, and the matches that have one."""
        events, first_item, having = self.bound(variable)
        if len(first_item) == len(events) + 1 and index in (None, 1, ex.LAST):
            return events, having
        if index == ex.LAST:
            return events[first_item[1:] - 1], having
        place = first_item[:-1] + ((index if isinstance(index, int) else 1) - 1)
        there = place < first_item[1:]
        return events[place[there]], having[there]

    def spread(self, values: pa.Array, having: np.ndarray) -> pa.Array:
        """Return a value per match from values of the matches in ``having``; null for the others."""
        if len(having) == len(self.matches):
            return values
        place = np.full(len(self.matches), -1, np.int64)
        place[having] = np.arange(len(having))
        return values.take(pa.array(place, mask=place < 0))

    @cached_property
    def _label_of_item(self) -> np.ndarray:
        """The name of the pattern that each row of each match has."""
        if self._labels is None:
            raise PredicateError(
                f"{self.role}: which name a row of a match has is known in finished data only. Collect the "
                "rows and call match, or use measures over all rows, such as last(x)"
            )
        return self._labels(self.matches)

    def _difference(self, e: ex.Expression, last, first) -> pa.Array:
        """Return what ``delta`` is: the last value minus the first."""
        try:
            return self._arithmetic(e, "-", last, first)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise self.wrong(e, f"delta() needs numbers or times, not {in_words(last.type)}") from None

    def _combine(self, e: ex.Expression, of) -> pa.Array | pa.Scalar:
        """Return the value of an expression from its parts, which ``of`` computes. Errors name the place."""
        try:
            return self._evaluate(e, of)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise self.wrong(e, self._undefined(e, [of(part).type for part in e.children()])) from None
        except pa.ArrowInvalid as error:
            raise self.wrong(e, f"cannot combine these values ({str(error).splitlines()[0]})") from None
        except OverflowError:
            raise self.wrong(e, "the number does not fit into 64 bits") from None

    def _undefined(self, e: ex.Expression, types: Sequence[pa.DataType]) -> str:
        """Return that an operator or a function is not defined for the types of its parts, with a hint."""
        if isinstance(e, ex.Arithmetic) and e.operator == "+" and all(map(is_text, types)):
            return f"'+' adds numbers; write concat({e.left}, {e.right}) to join texts"
        sign = f"{e.function}()" if isinstance(e, ex.Call) else repr(_SIGNS.get(type(e)) or e.operator)
        words = " and ".join(dict.fromkeys(in_words(of) for of in types if not pa.types.is_null(of)))
        hint = ""
        if any(map(pa.types.is_duration, types)):
            hint = "; a constant duration has quotes and a unit, as in '10 s'"
            if isinstance(e, ex.Arithmetic):
                hint = "; date_diff('minute', earlier, later) is the number of minutes between two times"
        elif any(map(pa.types.is_timestamp, types)):
            hint = "; a constant time has quotes, as in '2024-01-31 09:30'"
        return f"{sign} is not defined for {words}{hint}"

    def _parameter(self, e: ex.Expression, value: Any) -> pa.Scalar:
        """Return the value of a parameter."""
        try:
            return pa.scalar(value)
        except (
            pa.ArrowException,
            ValueError,
            TypeError,
            OverflowError,
        ):  # also of objects, and half characters
            kind = type(value).__name__
            raise self.wrong(e, f"params: the value of {e} cannot be used; it is of type {kind}") from None

    def _evaluate(self, e: ex.Expression, of) -> pa.Array | pa.Scalar:
        """Return the value of an expression from its parts, which ``of`` computes."""
        match e:
            case ex.Literal(value=value):
                return pa.scalar(value)
            case ex.Parameter(name=name):
                return self._parameter(e, dict(self.query.params)[name])
            case ex.Negative(operand=operand):
                return pc.negate(of(operand))
            case ex.Arithmetic(operator=operator, left=left, right=right):
                return self._arithmetic(e, operator, *self._pair(left, right, of))
            case ex.Comparison(operator=operator, left=left, right=right):
                return self._compare(e, operator, *self._pair(left, right, of))
            case ex.And(operands=operands) | ex.Or(operands=operands):
                join = pc.and_kleene if isinstance(e, ex.And) else pc.or_kleene
                whole = _truth(of(operands[0]))
                for operand in operands[1:]:
                    whole = join(whole, _truth(of(operand)))
                return whole
            case ex.Not(operand=operand):
                return pc.invert(_truth(of(operand)))
            case ex.In(operand=operand, options=options):
                whole = None
                for option in options:
                    equal = self._compare(e, "==", *self._pair(operand, option, of))
                    whole = equal if whole is None else pc.or_kleene(whole, equal)
                return whole
            case ex.IsNull(operand=operand):
                return pc.is_null(of(operand))
            case ex.IsDistinct(left=left, right=right):
                differ = self._compare(e, "!=", *self._pair(left, right, of))
                is_null = pc.xor(pc.is_null(of(left)), pc.is_null(of(right)))
                return pc.coalesce(differ, is_null)
            case ex.Like(operand=operand, pattern=pattern):
                # Arrow reads a backslash as an escape; the language has none.
                return pc.match_like(of(operand), pattern.replace("\\", "\\\\"))
            case ex.Call():
                return self._call(e, of)
        raise self.wrong(e, f"{e} has a value per row; name the row, as in first({e}) or last({e})")

    def _pair(self, left: ex.Expression, right: ex.Expression, of) -> tuple:
        """Return the values of two expressions. Beside a decimal, the other is exact where it can be."""
        values = of(left), of(right)
        if not _is_with_decimals(*values):
            return values
        return tuple(self._with_digits(*side, of) for side in zip((left, right), values, strict=True))

    def _with_digits(self, e: ex.Expression, value, of):
        """Return a sum, difference or product of integers as decimals, else `value`; `of` computes parts."""
        match e:  # numbers with more digits than floats keep
            case ex.Literal(value=ex.LongNumber(text=text)):
                return pa.scalar(Decimal(text))
            case ex.Negative(operand=operand) if isinstance(value, pa.Scalar):
                exact = self._with_digits(operand, of(operand), of)
                return pc.negate(exact) if decimals.is_decimal(exact.type) else value
        if not (isinstance(e, ex.Arithmetic) and e.operator in "+-*" and pa.types.is_floating(value.type)):
            return value
        sides = [decimals.as_decimals(self._with_digits(part, of(part), of)) for part in (e.left, e.right)]
        return value if any(side is None for side in sides) else self._arithmetic(e, e.operator, *sides)

    def _compare(self, e: ex.Expression, sign: str, left, right):
        """Return whether a comparison holds."""
        left, right = _as_plain_time(left), _as_plain_time(right)
        if _is_literal_text(left) and pa.types.is_timestamp(right.type):
            left, right, sign = right, left, ex.MIRRORED[sign]
        if _is_literal_text(right) and pa.types.is_timestamp(left.type) and right.is_valid:
            try:
                sign, ticks = time_limit(right.as_py(), left.type.unit, left.type.tz, sign)
            except ValueError as error:
                raise self.wrong(e, str(error)) from None
            numbers = left.cast(pa.int64())
            if ticks is None:  # no time is equal, but nothing is known about a missing one
                return pc.xor(pc.equal(numbers, numbers), pa.scalar(sign == "=="))
            return _COMPARE[sign](numbers, pa.scalar(ticks, pa.int64()))
        left, right = self._unify(e, left, right)
        if pa.types.is_null(left.type) and pa.types.is_null(right.type):  # Arrow compares no two of them
            left = left.cast(pa.bool_())
        if _is_with_decimals(left, right):
            left, right = decimals.aligned(left, right)
        if isinstance(e, ex.Comparison):
            left, right = self._rank_texts(e, left, right)
        if {pa.types.is_integer(left.type), pa.types.is_integer(right.type)} == {True, False} and (
            pa.types.is_floating(left.type) or pa.types.is_floating(right.type)
        ):
            return _compare_exactly(sign, left, right)
        return _COMPARE[sign](left, right)

    def _unify(self, e: ex.Expression, left, right):
        """Read a text that meets a time or a duration as such."""
        # A date becomes its midnight, and a time of a day the duration since midnight.
        left, right = _as_plain_time(left), _as_plain_time(right)
        return self._read(e, left, right.type), self._read(e, right, left.type)

    def _read(self, e: ex.Expression, side, of: pa.DataType):
        """Return a constant text as a time or a duration if it meets values of type ``of``."""
        if not (isinstance(side, pa.Scalar) and pa.types.is_string(side.type)):
            return side
        try:
            if pa.types.is_duration(of) or (pa.types.is_timestamp(of) and isinstance(e, ex.Arithmetic)):
                return pa.scalar(duration_ticks(side.as_py(), of.unit), type=pa.duration(of.unit))
            if pa.types.is_timestamp(of):
                moment = moment_of(side.as_py(), of.tz, "'2024-01-31 09:30:00'")
                return pa.scalar(moment, type=pa.timestamp(moment.unit, of.tz))
        except (ValueError, CepError) as error:
            raise self.wrong(e, str(error)) from None
        return side

    def _rank_texts(self, e: ex.Comparison, left, right):
        """Return the ranks of texts with an order of their own, and other values unchanged."""
        # Two columns have ranks if they share their order, as in conditions; else their texts are compared.
        if e.operator in ("==", "!=") or not (is_text(left.type) and is_text(right.type)):
            return left, right
        orders = [None if isinstance(side, pa.Scalar) else self._order(part)
                  for side, part in ((left, e.left), (right, e.right))]  # fmt: skip
        order = orders[0] or orders[1]
        for side, known in zip((left, right), orders, strict=True):
            is_constant = isinstance(side, pa.Scalar)
            if order is None or (known != order and not is_constant):
                return left, right
            if is_constant and side.is_valid and side.as_py() not in order:
                raise self.wrong(e, f"{side.as_py()!r} is not one of the ordered categories {list(order)}")
        return tuple(pc.index_in(side, value_set=pa.array(order, side.type)) for side in (left, right))

    def _order(self, e: ex.Expression) -> tuple[str, ...] | None:
        """Return the order of the categories of a column, or None."""
        while isinstance(e, ex.Aggregate | ex.Previous) and e.operand is not None:
            e = e.operand
        return self.source.schema[self.name_of(e)].ordered if _is_column(e) else None

    def _arithmetic(self, e: ex.Expression, operator: str, left, right):
        """Return a sum, difference, product, quotient or remainder."""
        left, right = self._unify(e, left, right)
        if operator == "*":  # Arrow takes the type of the other side, and multiplies no two times
            left, right = (s.cast(pa.int64()) if pa.types.is_null(s.type) else s for s in (left, right))
        if _is_with_decimals(left, right) and operator != "/":
            if operator in ("//", "%"):
                if (exact := decimals.divided(operator, left, right)) is not None:
                    return exact
            else:
                left, right = decimals.aligned(left, right)
        if operator in "+-" and (pa.types.is_temporal(left.type) or pa.types.is_temporal(right.type)):
            return _combine_times(operator, left, right)
        if operator in "+-":
            return _clean((pc.add if operator == "+" else pc.subtract)(left, right))
        if operator == "*" and _is_with_decimals(left, right):
            return decimals.product(left, right)
        if operator == "*":
            return _clean(pc.multiply(left, right))
        if operator == "/":
            left, right = left.cast(pa.float64()), right.cast(pa.float64())
            right = pc.if_else(pc.equal(right, 0.0), pa.scalar(None, pa.float64()), right)
            return _clean(pc.divide(left, right))
        if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
            return _divide_floor(operator, left, right)
        return _clean(_divide_floor(operator, left.cast(pa.float64()), right.cast(pa.float64())))

    def _call(self, e: ex.Call, of):
        """Return the values of a function."""
        name, arguments = e.function, [of(argument) for argument in e.arguments]
        if name in VECTOR_FUNCTIONS:
            return self._similarity(e, arguments)
        if name == "next":
            raise self.wrong(e, "next() belongs to conditions; a match has its rows: first(x), last(x)")
        if self._is_of_vocabulary(e, arguments):
            plain = list(map(_plain_argument, arguments))
            return self.done(e, call_function, name, plain, partial(self._read, e))
        if name in _TEXT:
            return _TEXT[name](arguments[0], arguments[1].as_py())
        if name in _MATH:
            floats = [argument.cast(pa.float64()) for argument in arguments]
            return _clean(_MATH[name](*floats))
        if name in ("abs", "sign"):
            return _clean((pc.abs if name == "abs" else pc.sign)(arguments[0]))
        if name in _ROUNDED:
            return arguments[0] if pa.types.is_integer(arguments[0].type) else _ROUNDED[name](arguments[0])
        if name in ("least", "greatest"):
            if any(is_text(argument.type) for argument in arguments):
                raise self.wrong(e, f"{name}() needs numbers or times, not texts")
            if (known := next((a.type for a in arguments if not pa.types.is_null(a.type)), None)) is None:
                return arguments[0]
            arguments = [a.cast(known) if pa.types.is_null(a.type) else a for a in arguments]
            extreme = pc.min_element_wise if name == "least" else pc.max_element_wise
            if any(decimals.is_decimal(argument.type) for argument in arguments):
                arguments = [
                    self._with_digits(part, value, of)
                    for part, value in zip(e.arguments, arguments, strict=True)
                ]
                arguments = decimals.all_aligned(arguments)
            return _clean(extreme(*arguments, skip_nulls=False))
        if name in _BITS:
            return _BITS[name](*arguments)
        return self._user_function(e, arguments)

    def _is_of_vocabulary(self, e: ex.Call, arguments: list) -> bool:
        """Return whether a function is one of the vocabulary, and Arrow does not compute it here."""
        if e.function not in VOCABULARY or e.function in dict(self.query.functions):
            return False
        if e.function in _TEXT:
            return not (is_text(arguments[0].type) and _is_literal_text(arguments[1]))
        return e.function not in FUNCTIONS or not FUNCTIONS[e.function].accepts(len(arguments))

    def _similarity(self, e: ex.Call, arguments) -> pa.Array:
        """Return a function of two columns of arrays."""
        names = tuple(map(str, e.arguments))
        for name, side in zip(names, arguments, strict=True):
            side_type = side.type
            if not is_list(side_type) or not is_number(side_type.value_type):
                raise self.wrong(e, f"{e.function}() needs arrays of numbers, {name} is of type {side_type}")
        if len(self.matches):
            pairs = zip(arguments, names, strict=True)
            sides = [self.done(e, vectors_of_arrow, side, name) for side, name in pairs]
        else:  # a check before matching: look at all rows
            columns = map(_column_of, e.arguments)
            sides = [self.done(e, self.source.vectors, column)[:0] for column in columns]
        similarities = self.done(e, compare_rows, e.function, *sides, names)
        return pa.array(similarities, mask=np.isnan(similarities))

    def _user_function(self, e: ex.Call, arguments):
        """Return the values of a function of the user, called row by row."""
        call, rows = self.calls(e, arguments)
        if not any(isinstance(argument, pa.Array) for argument in arguments):
            [row] = rows
            return pa.scalar(None if None in row else plain_result(call(*row)))
        return pa.array([None if None in row else plain_result(call(*row)) for row in rows])

    def calls(self, e: ex.Call, arguments: list) -> tuple[Callable[..., Any], Iterable[tuple]]:
        """Return a function of the user, and its arguments for each row; one row if all are constants."""
        from cepkit.language.expressions.functions import registered_function

        function = dict(self.query.functions).get(e.function) or registered_function(e.function)
        if not function.arity.accepts(len(arguments)):
            raise self.wrong(e, f"{e.function}() takes {function.arity}, {len(arguments)} given")
        arguments = list(map(_plain_argument, arguments))
        call = typed_call(function, [type_of_plain(argument.type) for argument in arguments])
        arguments = [
            argument.cast(pa.int64()) if pa.types.is_temporal(argument.type) else argument
            for argument in arguments
        ]
        n = next((len(a) for a in arguments if isinstance(a, pa.Array)), 1)
        columns = [repeat_scalar(argument, n).to_pylist() for argument in arguments]
        return call, zip(*columns, strict=True) if columns else [()]


def repeat_scalar(value: pa.Array | pa.Scalar, n: int) -> pa.Array:
    """Return a scalar as an array of length ``n``, and an array unchanged."""
    return pa.array([value.as_py()] * n, type=value.type) if isinstance(value, pa.Scalar) else value


def _truth(value: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Return values of a condition; a function that gave nothing but nulls has a type of none."""
    return value.cast(pa.bool_()) if pa.types.is_null(value.type) else value


def _is_with_decimals(left: Any, right: Any) -> bool:
    """Return whether two values are numbers and one of them is a decimal."""
    kinds = left.type, right.type
    return any(map(decimals.is_decimal, kinds)) and all(map(is_number, kinds))


def _plain_argument(side: Any) -> Any:
    """Return what functions take: decimals as floats, dates and times of a day as times and durations."""
    return side.cast(pa.float64()) if decimals.is_decimal(side.type) else _as_plain_time(side)


def _is_column(e: ex.Expression) -> bool:
    return isinstance(e, ex.Attribute) or (isinstance(e, ex.Reference) and e.name is not None)


def _column_of(e: ex.Expression) -> str:
    """Return the first column that an expression names."""
    return next(ex.columns_in(e))


def plain_values(array: pa.Array) -> pa.Array:
    """Return values as int64, float, text or time, without a dictionary and with NaN as null."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    arrow_type = array.type
    if arrow_type == pa.float16():
        array = array.cast(pa.float64())
    elif pa.types.is_integer(arrow_type) and arrow_type != pa.int64():
        try:  # 100 + 100 does not fit 8 bits, and 3 - 5 no unsigned type
            array = array.cast(pa.int64())
        except pa.ArrowInvalid:
            raise CepError(
                f"{pc.max(array).as_py()} does not fit a signed 64-bit integer; cast the column first"
            ) from None
    return _clean(array)


def _compare_exactly(sign: str, left, right):
    """Compare integers with floats. Arrow refuses integers that are no floats."""
    if pa.types.is_floating(left.type):
        left, right, sign = right, left, ex.MIRRORED[sign]
    floats, as_floats = right.cast(pa.float64()), left.cast(pa.float64(), safe=False)
    unequal = _COMPARE[sign](as_floats, floats)
    # Where both are equal as floats, the float is a whole number and decides exactly. Only 2^63 is too large.
    fits = pc.and_(pc.greater_equal(floats, -(2.0**63)), pc.less(floats, 2.0**63))
    is_tie = pc.and_(pc.equal(as_floats, floats), fits)
    whole = pc.if_else(is_tie, floats, pa.scalar(0.0)).cast(pa.int64(), safe=False)
    too_large = pc.equal(floats, 2.0**63)
    below = sign in ("<", "<=", "!=")
    result = pc.if_else(is_tie, _COMPARE[sign](left, whole), unequal)
    return pc.if_else(pc.and_(pc.equal(as_floats, floats), too_large), pa.scalar(below), result)


def _combine_times(sign: str, left, right):
    """Return a sum or difference of times; one that does not fit is the nearest that does."""
    try:
        result = (pc.add_checked if sign == "+" else pc.subtract_checked)(left, right)
        numbers = result.cast(pa.int64())
        if pc.min(numbers).as_py() != NULL_INTEGER:
            return result
        return pc.max_element_wise(numbers, NULL_INTEGER + 1, skip_nulls=False).cast(result.type)
    except pa.ArrowInvalid as error:
        if "overflow" not in str(error):
            raise
    wrapped = (pc.add if sign == "+" else pc.subtract)(left, right)  # modulo 2^64
    left_ticks, right_ticks, wrapped_ticks = (
        np.asarray(side.cast(pa.int64()).fill_null(0) if isinstance(side, pa.Array) else side.value)
        for side in (left, right, wrapped)
    )
    overflows = (  # the sign of the result differs from those of both operands
        (left_ticks ^ wrapped_ticks) & ((right_ticks if sign == "+" else ~right_ticks) ^ wrapped_ticks)
    ) < 0
    nearest = pa.array(np.where(overflows, np.where(left_ticks >= 0, 2**63 - 1, 1 - 2**63), wrapped_ticks))
    return pc.if_else(wrapped.is_valid(), nearest, pa.scalar(None, pa.int64())).cast(wrapped.type)


def _is_literal_text(side) -> bool:
    """Return whether a value is one text for all rows."""
    return isinstance(side, pa.Scalar) and is_text(side.type)


def _as_plain_time(side):
    """Return dates as times, and times of a day as durations since midnight."""
    if pa.types.is_date(side.type):
        return side.cast(pa.timestamp("s" if pa.types.is_date32(side.type) else "ms"))
    if pa.types.is_time(side.type):
        wide = pa.int32() if pa.types.is_time32(side.type) else pa.int64()
        return side.cast(wide).cast(pa.int64()).cast(pa.duration(side.type.unit))
    return side


def _clean(array):
    """Return floats with NaN as null."""
    if not pa.types.is_floating(array.type):
        return array
    if isinstance(array, pa.Array) and not np.isnan(array.to_numpy(zero_copy_only=False)).any():
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def _divide_floor(operator: str, left, right):
    """Return ``left // right`` or ``left % right``; null for a null, and for a divisor of 0."""
    dividend, divisor = (
        np.asarray(side.fill_null(0) if isinstance(side, pa.Array) else side.as_py() or 0)
        for side in (left, right)
    )
    mask = np.broadcast_to(divisor == 0, np.broadcast(dividend, divisor).shape).copy()
    for side in (left, right):
        mask |= (
            side.is_null().to_numpy(zero_copy_only=False) if isinstance(side, pa.Array) else not side.is_valid
        )
    divisor = np.where(divisor == 0, 1, divisor)
    with np.errstate(all="ignore"):
        result = np.floor_divide(dividend, divisor) if operator == "//" else np.mod(dividend, divisor)
    if mask.ndim:
        return pa.array(result, mask=mask)
    return pa.scalar(None if mask else result.item(), left.type)
