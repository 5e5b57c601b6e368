"""Terms on single events as whole columns, and conditions between two events as tests of intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cepkit.compile.instructions import ELEMENTARY, ROUNDED, reading_unsupported
from cepkit.compile.shared.bound_query import BoundQuery, Inputs, number_of_constant, values_of_table
from cepkit.compile.shared.computing import constant_of
from cepkit.compile.shared.functions import VARIES, apply, bound_call, null_of
from cepkit.compile.shared.loading import load_kernels
from cepkit.compile.shared.terms import Computed, Derivation, Derived, Reader, Term, conjuncts_of
from cepkit.events import FLOAT, LIST, NULL_INTEGER, TEXT, Column, Source, shared_categories
from cepkit.language.expressions.trees import MIRRORED, NEGATED
from cepkit.values import dataclass, replace

# Terms on single events as whole columns, computed by numpy.

Values = np.ndarray | np.generic | bool
_WIDEST_LOOK_UP = 1 << 17  # a list of integers with this range is looked up in an array of truths


class ColumnReader(Reader):
    """Reads terms over a run of events. Values are arrays with an item per event, or single values."""

    def __init__(
        self, columns: Mapping[str, np.ndarray], constants: Mapping[int, int | float],
        tables: Mapping[int, np.ndarray], earlier: Callable[[Term, int], np.ndarray] | None = None,
        number_of_row: np.ndarray | None = None,
    ):  # fmt: skip
        super().__init__()
        self.columns, self.constants, self.tables = columns, constants, tables
        self.earlier, self._number_of_row = earlier, number_of_row

    def leaf(self, term: Term) -> Values:
        if term.op == "previous":
            return self.earlier(term.args[0], term.data)
        values = self.columns[term.column]
        return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)

    def constant(self, term: Term) -> Values:
        value = self.constants[term.data]
        return np.float64(value) if term.kind == FLOAT else np.int64(value)

    def number(self, value: int) -> Values:
        return np.int64(value)

    def table(self, number: int, code: Values, wanted: bool) -> Values:
        return self.tables[number][code + 1] == int(wanted)

    def member(self, number: int, value: Values, wanted: bool) -> Values:
        """Return where values are in a table of constants, or, if not ``wanted``, where they are not."""
        held = _is_member(self.tables[number], np.asarray(value))
        return held if wanted else ~held & (value == value)

    def apply(self, operation: str, *values: Values) -> Values:
        return OPERATIONS[operation](*values)

    def number_of_row(self) -> Values:
        return self._number_of_row

    def masks(self, terms: Sequence[tuple[Term, int]], every: int, n_events: int) -> np.ndarray:
        """Return for each event the positions that remain: a term that is not true removes its mask."""
        kept = np.full(n_events, every, np.int64)
        for term, mask in terms:
            held = self.true(term)
            kept &= np.where(held.astype(np.bool_), np.int64(every), np.int64(every & ~mask))
        return kept


def _is_member(table: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return which values are in a sorted table without NaN."""
    if not len(table):
        return np.zeros(values.shape, np.bool_)
    if table.dtype.kind == "f" or int(table[-1]) - int(table[0]) >= _WIDEST_LOOK_UP:
        return table[np.minimum(np.searchsorted(table, values), len(table) - 1)] == values
    place = (values - table[0]).view(np.uint64)  # of a value below the first one it is above all others
    is_listed = np.zeros(int(table[-1] - table[0]) + 2, np.bool_)
    is_listed[table - table[0]] = True
    return is_listed[np.minimum(place, np.uint64(len(is_listed) - 1)).view(np.int64)]


def constants_of(bound: BoundQuery, inputs: Inputs) -> tuple[dict[int, int | float], dict[int, np.ndarray]]:
    """Return the values of the constants and of the tables that a query uses, by their numbers."""
    constants, tables = bound.used
    return (
        dict(zip(constants, inputs.constants, strict=True)),
        dict(zip(tables, inputs.tables, strict=True)),
    )


def _whole(function: Callable) -> Callable:
    """Return a division of integers, with null where the divisor is 0, from a function of numpy."""

    def of_integers(left: Values, right: Values) -> Values:
        return np.where(right != 0, function(left, np.where(right != 0, right, 1)), NULL_INTEGER)

    return of_integers


def _of_floats(function: Callable) -> Callable:
    """Return a division of floats, with NaN where the divisor is 0, from a function of numpy."""
    return lambda left, right: np.where(right != 0, function(left, right), np.nan)


def _subtract_times(left: Values, right: Values) -> Values:
    """Return the difference of two times or durations, or the nearest one that fits 64 bits."""
    difference = np.subtract(left, right)
    return _nearest(difference, (left ^ right) & (left ^ difference), left)


def _add_times(left: Values, right: Values) -> Values:
    """Return the sum of two times or durations, or the nearest one that fits 64 bits."""
    total = np.add(left, right)
    return _nearest(total, (left ^ total) & (right ^ total), left)


def _nearest(result: Values, wrapped: Values, left: Values) -> Values:
    """Return ``result``, with the nearest integer above null where ``wrapped`` is negative."""
    if not np.any(wrapped < 0):
        return result
    largest = np.int64(2**63 - 1)
    return np.where(wrapped < 0, np.where(left >= 0, largest, -largest), result)


def _sign(x: Values) -> Values:
    """Return 1, 0 or -1 for integers."""
    return (x > 0).astype(np.int64) - (x < 0).astype(np.int64)


def _rounded(function: int) -> Callable:
    """Return one of the functions in ``ROUNDED``, with the same bits as in compiled kernels."""

    def compute(*values: Values) -> Values:
        shape = np.broadcast_shapes(*map(np.shape, values))
        arguments = [
            np.ascontiguousarray(np.broadcast_to(value, shape), np.float64).ravel() for value in values
        ]
        out = np.empty(len(arguments[0]))
        load_kernels(ELEMENTARY).compute(function, arguments[0], arguments[-1], out)
        return out.reshape(shape)

    return compute


_BOTH: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "negative": np.negative, "abs": np.abs,
    "least": np.minimum, "greatest": np.maximum,
    "==": np.equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{f"{name} {kind}": function for name, function in _BOTH.items() for kind in ("floats", "integers")},
    **{f"{name} floats": _rounded(i) for i, name in enumerate(ROUNDED)},
    "- times": _subtract_times, "+ times": _add_times,
    "high integers": lambda x: np.right_shift(x, 32), "low integers": lambda x: np.bitwise_and(x, 2**32 - 1),
    "!= integers": np.not_equal,
    "!= floats": lambda left, right: (left < right) | (left > right),
    "/ floats": _of_floats(np.true_divide),
    "// integers": _whole(np.floor_divide), "% integers": _whole(np.remainder),
    "// floats": _of_floats(np.floor_divide), "% floats": _of_floats(np.remainder),
    "sign floats": np.sign, "sign integers": _sign, "floor floats": np.floor,
    "sqrt floats": lambda x: np.where(x >= 0, np.sqrt(x), np.nan),
    "ceil floats": np.ceil, "round floats": np.rint, "bit_and integers": np.bitwise_and,
    "bit_or integers": np.bitwise_or, "bit_xor integers": np.bitwise_xor,
    "and": np.logical_and, "or": np.logical_or, "to float": np.float64,
    "float or nan": lambda value, known: np.where(known, value, np.nan),
    "integer or null": lambda value, known: np.where(known, value, NULL_INTEGER),
    "truth code": lambda true, false: np.where(true, 1, np.where(false, 0, -1)),
}  # fmt: skip


# Conditions between two events as tests: a number of one event lies in an interval that the other gives.
#
# A test works on 64-bit numbers in the order of the values: integers as they are, and floats as their bits.

_HIGHEST, _ALL = np.iinfo(np.int64).max, np.uint64(2**64 - 1)
EITHER, VECTOR, SCALAR = "either", "vector", "scalar"


@dataclass(frozen=True, slots=True)
class PairTest:
    """``one sign other``, where ``one`` reads the event of the vector side and ``other`` the scalar side."""

    # Without ``other``, the truth ``one`` reads a single event, that of ``side``.

    one: Term
    sign: str = ""
    other: Term | None = None
    side: str = VECTOR
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Tests:
    """Tests between two events: a number x of the one passes test t if ``x - low[t] <= width[t]``."""

    # The numbers are those of events of the vector side; ``low`` and ``width`` belong to events of the scalar
    # side. ``alive`` says for which of these any event can pass; None for all.

    numbers: list[np.ndarray]  # uint64, (n_vector,)
    low: list[np.ndarray]  # uint64, (n_scalar,)
    width: list[np.ndarray]
    alive: np.ndarray | None


def pair_tests_of(terms: Iterable[Term], is_vector: Callable[[Term], bool]) -> tuple[PairTest, ...] | str:
    """Return the tests of conditions, or why there are none, to complete "it …"."""
    tests = []
    for term in (conjunct for whole in terms for conjunct in conjuncts_of(whole)):
        if reason := reading_unsupported(term):
            return reason
        wanted = True
        while term.op == "not":
            term, wanted = term.args[0], not wanted
        side = _side(term, is_vector)
        if side is not None:
            tests.append(PairTest(term, side=SCALAR if side == EITHER else side, wanted=wanted))
            continue
        sides = [_side(arg, is_vector) for arg in term.args]
        if term.op != "compare" or None in sides:
            return "compares values that mix two events"
        left, right = term.args
        sign = term.data if wanted else NEGATED[term.data]
        if sides[0] == SCALAR:
            left, right, sign = right, left, MIRRORED[sign]
        tests.append(PairTest(left, sign, right))
    return tuple(tests)


def tests_by_side(
    terms: Iterable[Term], side_of: Callable[[Term], int]
) -> dict[tuple[int, int], tuple[PairTest, ...]] | str:
    """Return the tests by the sides of their two events, or why there are none, as in "it compares …"."""
    tests_of_sides: dict[tuple[int, int], tuple[PairTest, ...]] = {}
    for term in (conjunct for whole in terms for conjunct in conjuncts_of(whole)):
        leaves = (leaf for leaf in term.walk() if leaf.op in ("element", "group"))
        sides = sorted({side_of(leaf) for leaf in leaves}) or [0]
        if len(sides) > 2:
            return "compares values of more than two events"
        tests = pair_tests_of([term], lambda leaf, vector=sides[-1]: side_of(leaf) == vector)
        if isinstance(tests, str):
            return tests
        key = sides[-1], sides[0]
        tests_of_sides[key] = tests_of_sides.get(key, ()) + tests
    return tests_of_sides


def _side(term: Term, is_vector: Callable[[Term], bool]) -> str | None:
    """Return the side that a term reads, or None if it reads both."""
    leaves = [leaf for leaf in term.walk() if leaf.op in ("element", "group")]
    if any(leaf.op == "group" or leaf.kind == LIST for leaf in leaves):
        return None
    sides = {VECTOR if is_vector(leaf) else SCALAR for leaf in leaves}
    return None if len(sides) > 1 else sides.pop() if sides else EITHER


def numbers_of(
    tests: Iterable[PairTest], vector: ColumnReader, scalar: ColumnReader, sizes: tuple[int, int]
) -> Tests:
    """Return the numbers that tests compare; ``sizes`` are the numbers of events of the two sides."""
    compared = Tests([], [], [], None)
    alive: list[np.ndarray] = []
    for test in tests:
        if test.other is None:
            reader, size = (vector, sizes[0]) if test.side == VECTOR else (scalar, sizes[1])
            holds = np.broadcast_to(reader.true(test.one) if test.wanted else reader.false(test.one), size)
            if test.side == SCALAR:
                alive.append(holds)
            elif not holds.all():
                _add(compared, holds.astype(np.int64), np.full(sizes[1], 1), np.full(sizes[1], 1))
            continue
        as_floats = FLOAT in (test.one.kind, test.other.kind)
        vector_numbers, vector_valid = ordered_numbers(vector, test.one, as_floats, sizes[0])
        scalar_numbers, scalar_valid = ordered_numbers(scalar, test.other, as_floats, sizes[1])
        if not vector_valid.all():
            _add(compared, vector_valid.astype(np.int64), np.full(sizes[1], 1), np.full(sizes[1], 1))
        low, high, possible = _interval(test.sign, scalar_numbers)
        alive += [part for part in (scalar_valid, possible) if not part.all()]
        _add(compared, vector_numbers, low, high)
    return Tests(
        compared.numbers, compared.low, compared.width, np.logical_and.reduce(alive) if alive else None
    )


def _add(tests: Tests, numbers: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Add a test that passes numbers from ``low`` to ``high``; the interval may go past the highest one."""
    low, high = (
        low.astype(np.int64, copy=False).view(np.uint64),
        high.astype(np.int64, copy=False).view(np.uint64),
    )
    tests.numbers.append(np.ascontiguousarray(numbers, np.int64).view(np.uint64))
    tests.low.append(low)
    tests.width.append(high - low)


def _interval(sign: str, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each y, the lowest and the highest x for which ``x sign y``, and whether any exists."""
    lowest, highest = np.full(len(y), -_HIGHEST - 1), np.full(len(y), _HIGHEST)
    every = np.ones(len(y), np.bool_)
    if sign == "==":
        return y, y, every
    if sign == "!=":
        return y + 1, y - 1, every  # around the highest number
    if sign == "<":
        return lowest, y - 1, y != lowest
    if sign == "<=":
        return lowest, y, every
    if sign == ">":
        return y + 1, highest, y != highest
    return y, highest, every


def ordered_numbers(
    reader: ColumnReader, term: Term, as_floats: bool, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a term as 64-bit integers in the order of the values, and which are not null."""
    value = reader.value(term)
    is_valid = np.broadcast_to(reader.all(reader.valid(term)), size)
    if not as_floats:
        return np.broadcast_to(value, size).astype(np.int64), is_valid.astype(np.bool_)
    value = np.broadcast_to(value, size).astype(np.float64) + 0.0  # -0.0 becomes 0.0
    bits = value.view(np.int64)
    ordered = np.where(bits < 0, bits ^ _HIGHEST, bits)
    return ordered, is_valid.astype(np.bool_) & (value == value)


# Columns that are computed before matching, from columns of a frame or of a batch.


def column_before_matching(
    name: str, derived: Mapping[str, Derivation], source: Source, computed: dict[str, Column]
) -> Column:
    """Return a column of a frame, or compute it from such columns and keep it in ``computed``."""
    derivation = derived.get(name)
    if name in computed:
        return computed[name]
    if derivation is None:
        return source.column(name)
    if isinstance(derivation, Derived):
        return source.item(derivation.column, derivation.index)
    columns = {part: column_before_matching(part, derived, source, computed) for part in derivation.reads}
    computed[name] = compute(derivation, columns, source.n_rows)
    return computed[name]


def moved_rows(column: Column, partition: np.ndarray, by_partition: np.ndarray, offset: int) -> Column:
    """Return a column whose rows hold the value ``offset`` rows later in the partition, or null."""
    values = column.values[by_partition]
    codes = partition[by_partition]
    moved = np.full_like(values, null_of(column.type))
    if offset < len(values):
        is_same = codes[offset:] == codes[:-offset]
        moved[:-offset][is_same] = values[offset:][is_same]
    result = np.empty_like(moved)
    result[by_partition] = moved
    return replace(
        column, type=replace(column.type, nullable=True), values=result, is_rising=None, n_equal=None
    )


def compute(computed: Computed, columns: Mapping[str, Column], n: int) -> Column:
    """Return the column of a function of columns with ``n`` rows."""
    columns = dict(columns)
    for group in computed.text_groups:
        names = sorted(group)
        columns.update(zip(names, shared_categories([columns[name] for name in names], True), strict=True))
    reader = ColumnReader(
        {name: column.values for name, column in columns.items()},
        {i: number_of_constant(constant, columns) for i, constant in enumerate(computed.constants)},
        {i: values_of_table(table, columns) for i, table in enumerate(computed.tables)},
    )
    constants = [constant_of(term, computed.constants) for term in computed.arguments]
    parts = []
    with np.errstate(all="ignore"):  # infinities and NaN are values
        for term, of, constant in zip(computed.arguments, computed.types, constants, strict=True):
            if constant is VARIES:
                values = np.broadcast_to(reader.stored(term), (n,))
                parts.append(Column(of, values, columns[term.data].categories if of.kind == TEXT else None))
            else:
                parts.append(constant)
        column = apply(bound_call(computed.function, computed.types, constants), parts, n)
    return replace(column, type=computed.type)
