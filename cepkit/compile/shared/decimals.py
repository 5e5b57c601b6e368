"""Exact decimals: integers of one scale in conditions, Arrow's decimals in results, and between the two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.shared.terms import Constant, Term
from cepkit.errors import CepError
from cepkit.events import FLOAT, INTEGER, NULL_INTEGER, NUMBERS, Column
from cepkit.language.expressions import trees as ex

# A decimal is a term of integers whose unit is its degree, as text: a number of degree 1 counts 10^-scale,
# and the product of two such numbers, of degree 2, counts 10^-(2 * scale). Plain integers have degree 0. All
# columns of a query share the scale, which is known when the rows are.

_CURE = "cast the column to float64, or to fewer digits after the point, first"


def degree_of(term: Term) -> int:
    """Return how many scales a decimal is multiplied by: 1 for a column, 2 for a product of two; else 0."""
    return int(term.unit) if term.kind == INTEGER and (term.unit or "").isdigit() else 0


def digits_of(constants: Iterable[Constant]) -> int:
    """Return how many digits after the point the scale needs for the constants of sums and products."""
    exact = [
        c for c in constants if c.exact is not None and c.degree and c.kind == INTEGER and not c.rounding
    ]
    return max((-(-_digits(c.exact) // c.degree) for c in exact), default=0)


def _digits(value: Decimal) -> int:
    """Return how many digits a number has after its point."""
    return max(0, -int(value.normalize().as_tuple().exponent))


def scaled(constant: Constant, scale: int) -> int | float:
    """Return a constant as a number of its degree; see `compared` for the rounding."""
    sign, digits, exponent = constant.exact.as_tuple()
    shift = int(exponent) + scale * constant.degree
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    number, rest = (whole * 10**shift, 0) if shift >= 0 else divmod(whole, 10**-shift)
    if constant.kind == FLOAT:
        return float(number)
    if constant.rounding == "equal" and (rest or not NULL_INTEGER < number < 2**63):
        return NULL_INTEGER  # equals no value
    if constant.rounding == "up":
        number = number - (not rest)
    if constant.rounding:
        return max(NULL_INTEGER, min(number, 2**63 - 1))
    if not NULL_INTEGER < number < 2**63:
        raise CepError(f"the decimals of the query need more than 64 bits with {constant.exact}; {_CURE}")
    return number


def with_scale(columns: Mapping[str, Column], least: int = 0) -> dict[str, Column]:
    """Return columns of decimals with one scale, at least ``least``. Other columns stay as they are."""
    exact = {name: int(column.type.unit or 0) for name, column in columns.items() if is_exact(column)}
    scale, changed = max([least, *exact.values()]), dict(columns)
    for name, scale_of_column in exact.items():
        column = columns[name]
        factor = 10 ** (scale - scale_of_column)
        if factor > 1:
            present = column.values != NULL_INTEGER
            if _largest(column.values) * factor >= 2**63:
                raise CepError(
                    f"the decimals of the query need more than 64 bits with {scale} digits after the point; "
                    f"{_CURE}"
                )
            values = np.where(present, column.values * np.where(present, factor, 1), NULL_INTEGER)
            changed[name] = Column(replace(column.type, unit=str(scale)), values)
    return changed


def is_exact(column: Column) -> bool:
    """Return whether the values of a column are decimals as integers."""
    return column.type.kind == INTEGER and (column.type.unit or "").isdigit()


def scale_of(columns: Mapping[str, Column]) -> int:
    """Return the scale that all columns of decimals share."""
    return next((int(column.type.unit or 0) for column in columns.values() if is_exact(column)), 0)


def check_sizes(
    terms: Iterable[Term],
    columns: Mapping[str, Column],
    constants: Mapping[int, float],
    n_rows: int | None = None,
) -> None:
    """Raise if a decimal of a query may not fit 64 bits; kernels do not look."""
    # A sum may have ``n_rows`` rows, by default those of the columns.
    largest = {
        name: _largest(column.values) for name, column in columns.items() if column.type.kind == INTEGER
    }
    if n_rows is None:
        n_rows = max((len(column.values) for column in columns.values()), default=0)
    known: dict[Term, int] = {}

    def size(term: Term) -> int:
        """Return the largest absolute value of a term, in its smallest digit. Raise beyond 64 bits."""
        if term not in known:
            known[term] = bound(term)
            if degree_of(term) and known[term] >= 2**63:
                raise CepError(
                    f"the decimals of the query may need more than 64 bits, up to {known[term]:.3g} of its "
                    f"smallest digit; {_CURE}"
                )
        return known[term]

    def bound(term: Term) -> int:
        """Return the largest absolute value that a term can have, by its parts."""
        sizes = [size(arg) for arg in term.args]
        match term.op:
            case "column" | "element":
                return largest.get(term.column, 0)
            case "constant":
                value = constants.get(term.data, 0)
                return abs(int(value)) if math.isfinite(value) else 0
            case "high":
                return sizes[0] >> 32
            case "low":
                return 2**32
            case "+" | "-":
                return sum(sizes)
            case "*":
                return math.prod(sizes)
            case "count" | "count_of":
                return n_rows
            case "sum":
                return sizes[0] * n_rows
            case "group":
                name = term.data[0]
                return n_rows if name.startswith("count") else sizes[0] * (n_rows if name == "sum" else 1)
        return max(sizes, default=0)

    for root in terms:
        for term in root.walk():
            size(term)


def _largest(values: np.ndarray) -> int:
    """Return the largest absolute value of a column without its nulls."""
    present = values[values != NULL_INTEGER] if values.dtype == np.int64 else values
    return max(abs(int(present.min())), abs(int(present.max()))) if len(present) else 0


# --- terms of conditions

Binding = Any  # that of `compile/shared/operations.py`, which imports this module

_SIGNS = {">=": ">", "<": "<="}


def have_decimals(*terms: Term) -> bool:
    """Return whether all terms are numbers and one is a decimal."""
    return any(map(degree_of, terms)) and all(term.kind in NUMBERS for term in terms)


def as_float(binder: Binding, term: Term) -> Term:
    """Return a decimal as the nearest float, and any other term as it is."""
    return unscaled(binder, term, degree_of(term))


def unscaled(binder: Binding, term: Term, degree: int) -> Term:
    """Return a decimal of a degree as a float; a number of degree 0 as it is."""
    if not degree:
        return term
    scale = binder.constant(Constant(FLOAT, 1.0, exact=Decimal(1), degree=degree))
    return Term("/", (term, scale), FLOAT, None, True, None, term.level)


def compared(binder: Binding, left: Term, sign: str, right: Term) -> tuple[Term, str, Term]:
    """Return both sides of a comparison as integers of one degree, or as floats, and the sign."""
    left, right = _with_digits(binder, left), _with_digits(binder, right)
    if left.op == "constant":
        left, sign, right = right, ex.MIRRORED[sign], left
    exact = exact_value(binder, right)
    if exact is not None:
        # Each constant is rounded in the direction that its sign allows, so it may have any digits.
        rounding = "equal" if sign in ("==", "!=") else "up" if sign in _SIGNS else "down"
        constant = Constant(INTEGER, exact=exact, degree=degree_of(left), rounding=rounding)
        return left, _SIGNS.get(sign, sign), binder.constant(constant)
    left, right = _aligned(binder, left, right)
    return left, sign, right


def combined(binder: Binding, op: str, left: Term, right: Term, level: int) -> Term:
    """Return the term of a sum, a difference, a product, or a quotient of decimals."""
    left, right = _with_digits(binder, left), _with_digits(binder, right)
    nullable = left.nullable or right.nullable
    is_exact = all(side.kind == INTEGER or exact_value(binder, side) is not None for side in (left, right))
    if op == "/" or not is_exact:
        sides = tuple(as_float(binder, side) for side in (left, right))
        return Term(op, sides, FLOAT, None, True, None, level)
    if op == "*":
        left, right = (
            side if side.kind == INTEGER and side.op != "constant" else _constant_term(binder, side, 1)
            for side in (left, right)
        )
        degree = degree_of(left) + degree_of(right)
        return Term(op, (left, right), INTEGER, str(degree), nullable, None, level)
    left, right = _aligned(binder, left, right)
    unit = None if op == "//" else left.unit
    return Term(op, (left, right), INTEGER, unit, nullable or op in ("//", "%"), None, level)


def called(binder: Binding, e: ex.Call, args: tuple[Term, ...], level: int) -> Term | None:
    """Return the term of a function of decimals whose result is a decimal; None for other functions."""
    name, nullable = e.function, any(arg.nullable for arg in args)
    if name not in ("abs", "least", "greatest"):
        return None
    args = tuple(_with_digits(binder, arg) for arg in args)
    degree = max(map(degree_of, args))
    if any(arg.kind == FLOAT and exact_value(binder, arg) is None for arg in args):
        return None
    args = tuple(_raised(binder, arg, degree) for arg in args)
    return Term(name, args, INTEGER, str(degree), nullable, name, level)


def _with_digits(binder: Binding, term: Term) -> Term:
    """Return a sum, difference or product of integers and constants as a decimal; other terms as they are."""
    # ``n - 0.9`` alone is a float. Beside a decimal it is exact, as ``x + 0.9`` is.
    if term.kind != FLOAT or term.op not in ("+", "-", "*"):
        return term
    args = [_with_digits(binder, arg) for arg in term.args]
    if any(arg.kind == FLOAT and exact_value(binder, arg) is None for arg in args):
        return term
    if term.op != "*":
        args = [_raised(binder, arg, max(1, degree_of(arg))) for arg in args]
    return combined(binder, term.op, args[0], args[1], term.level)


def _aligned(binder: Binding, left: Term, right: Term) -> tuple[Term, Term]:
    """Return two numbers of one degree; floats if one is a float that is no constant."""
    if any(side.kind == FLOAT and exact_value(binder, side) is None for side in (left, right)):
        return as_float(binder, left), as_float(binder, right)
    degree = max(degree_of(left), degree_of(right))
    return _raised(binder, left, degree), _raised(binder, right, degree)


def _raised(binder: Binding, term: Term, degree: int) -> Term:
    """Return a term of integers or a constant as a decimal of a higher degree."""
    if term.op == "constant":
        return _constant_term(binder, term, degree)
    missing = degree - degree_of(term)
    if not missing:
        return term
    factor = binder.constant(Constant(INTEGER, exact=Decimal(1), degree=missing))
    return Term("*", (term, factor), INTEGER, str(degree), term.nullable, None, term.level)


def _constant_term(binder: Binding, term: Term, degree: int) -> Term:
    """Return the term of a constant as a decimal of a degree."""
    exact = exact_value(binder, term)
    assert exact is not None
    constant = binder.constant(Constant(INTEGER, exact=exact, degree=degree))
    return replace(constant, unit=str(degree))


def exact_value(binder: Binding, term: Term) -> Decimal | None:
    """Return the value of a constant with the digits of its text; None for infinity and other terms."""
    if term.op != "constant" or term.kind not in NUMBERS:
        return None
    constant = binder.constants[term.data]
    if constant.exact is not None:
        return constant.exact
    return Decimal(repr(constant.value)) if math.isfinite(constant.value) else None


# --- columns of results

DIGITS = 38  # of the decimals in results: the most that Spark and Parquet hold
TOO_LONG = f"a decimal of the result has more than {DIGITS} digits; cast the column to float64 first"


def is_decimal(of: pa.DataType) -> bool:
    return pa.types.is_decimal(of)


def wide(values: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Return decimals with room for further digits, so that sums and products do not overflow."""
    of = values.type
    return values.cast(pa.decimal256(of.precision, of.scale)) if is_decimal(of) else values


def narrow(values: Any) -> Any:
    """Return decimals with as many digits as results hold; other values as they are."""
    if not is_decimal(values.type) or pa.types.is_decimal128(values.type):
        return values
    try:
        return values.cast(pa.decimal128(min(values.type.precision, DIGITS), values.type.scale))
    except pa.ArrowInvalid:
        raise CepError(TOO_LONG) from None


def aligned(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two columns or constants of numbers as decimals of one type, or as floats; see `all_aligned`."""
    left, right = all_aligned([left, right])
    return left, right


def all_aligned(values: list[Any]) -> list[Any]:
    """Return numbers as decimals of one type; as floats if a column is of floats."""
    sides = [as_decimals(side) for side in values]
    if any(side is None for side in sides):
        return [side.cast(pa.float64()) for side in values]
    scale = max(side.type.scale for side in sides)
    whole = max(side.type.precision - side.type.scale for side in sides)
    common = pa.decimal256(min(76, whole + scale), scale)
    return [side.cast(common) for side in sides]


def as_decimals(side: Any) -> Any:
    """Return decimals, integers and constants as decimals; None for other floats."""
    if is_decimal(side.type):
        return wide(side)
    if pa.types.is_integer(side.type):
        return side.cast(pa.decimal256(19, 0)) if isinstance(side, pa.Array) else _constant(side)
    return _constant(side) if isinstance(side, pa.Scalar) and pa.types.is_floating(side.type) else None


def _constant(side: pa.Scalar) -> pa.Scalar | None:
    """Return a number as a decimal; None if decimals cannot hold it."""
    value = side.as_py()
    if value is None:
        return pa.scalar(None, pa.decimal256(1, 0))
    exact = Decimal(repr(value)) if math.isfinite(value) else None
    if exact is None or abs(exact.adjusted()) > DIGITS:
        return None
    return wide(pa.scalar(exact))


def product(left: Any, right: Any) -> Any:
    """Return the product of two decimals."""
    scale = left.type.scale + right.type.scale
    if left.type.precision + right.type.precision < 76:
        return pc.multiply(left, right)
    left, right = _with_few_digits(left), _with_few_digits(right)
    return pc.multiply(left, right).cast(pa.decimal256(76, scale))


def _with_few_digits(side: Any) -> Any:
    """Return decimals with no more digits than the largest one needs, so that a product has room."""
    largest = pc.max(pc.abs(side)).as_py() if isinstance(side, pa.Array) else side.as_py()
    digits = 1 if largest is None else max(1, Decimal(largest).adjusted() + 1)
    return side.cast(pa.decimal256(min(76, digits + side.type.scale), side.type.scale))


def divided(operator: str, left: Any, right: Any) -> Any:
    """Return the quotients (``//``) or remainders of two columns; null for a null, and for a divisor of 0."""
    left, right = aligned(left, right)
    if not is_decimal(left.type):
        return None
    n = max((len(side) for side in (left, right) if isinstance(side, pa.Array)), default=None)
    columns = (
        side.to_pylist() if isinstance(side, pa.Array) else [side.as_py()] * (1 if n is None else n)
        for side in (left, right)
    )
    rows = [
        None
        if None in (dividend, divisor) or not divisor
        else _floor_divided(Fraction(dividend), Fraction(divisor), operator)
        for dividend, divisor in zip(*columns, strict=True)
    ]
    results = pa.array(rows, pa.decimal256(left.type.precision, left.type.scale if operator == "%" else 0))
    return results if n is not None else results[0]


def _floor_divided(dividend: Fraction, divisor: Fraction, operator: str) -> Decimal:
    """Return the quotient or the remainder of a division that rounds down, with all digits."""
    exact = dividend % divisor if operator == "%" else Fraction(dividend // divisor)
    with localcontext(prec=2 * DIGITS):  # 28 by default
        return Decimal(exact.numerator) / Decimal(exact.denominator)


def whole_numbers(values: pa.Array, scale: int) -> np.ndarray | None:
    """Return decimals as int64 that count 10^-scale, with `NULL_INTEGER`; None if digits are lost."""
    try:
        values = values.cast(pa.decimal128(DIGITS, scale))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    words = np.frombuffer(values.buffers()[1], np.int64)[
        2 * values.offset : 2 * (values.offset + len(values))
    ]
    low, high = words[::2], words[1::2]
    present = values.is_valid().to_numpy(zero_copy_only=False)
    if ((high != low >> 63) & present).any():
        return None
    return np.where(present, low, NULL_INTEGER)


def decimals_of(numbers: np.ndarray, missing: np.ndarray, scale: int) -> pa.Array:
    """Return int64 that count 10^-scale as decimals, and null where ``missing`` holds."""
    words = np.empty((len(numbers), 2), np.int64)
    words[:, 0], words[:, 1] = numbers, numbers >> 63
    validity = pa.array(~missing).buffers()[1]
    buffers = [validity, pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.decimal128(DIGITS, scale), len(numbers), buffers)
