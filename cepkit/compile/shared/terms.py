"""Typed terms: what a predicate means once columns are known, and how every back end reads them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    NULL_INTEGER,
    OTHER,
    TEXT,
    TIME,
    WHOLE,
    ColumnType,
)
from cepkit.language.expressions.trees import NEGATED
from cepkit.values import dataclass, replace

# What a term depends on: nothing, the event and its past, or the start of the match.
CONSTANT, EVENT, START = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Term:
    """One operation on typed arguments."""

    # ``data`` holds its details: the column's name, the constant's number, the comparison's sign, the
    # function's name, or an element's (variable, which of its events, column). Equal terms are computed once.

    op: str
    args: tuple[Term, ...] = ()
    kind: str = "float"
    unit: str | None = None
    nullable: bool = False
    data: str | int | tuple | None = None
    level: int = CONSTANT

    @property
    def column(self) -> Any:
        """The name of the column that a leaf reads."""
        return self.data[-1] if isinstance(self.data, tuple) else self.data

    def walk(self) -> Iterator[Term]:
        """Yield all terms below this one, then this one, arguments first."""
        for arg in self.args:
            yield from arg.walk()
        yield self


@dataclass(frozen=True, slots=True)
class Constant:
    """A number passed to the kernel as an argument; a new value compiles nothing."""

    # Either ``value`` is final, or it depends on column ``column`` of the events: ``text`` is looked up in
    # its categories, or ``is_start`` asks for the last start of a wait of ``value`` ticks that ends in time.

    kind: str  # "integer" or "float"
    value: int | float = 0
    text: str | None = None
    column: str | None = None
    is_start: bool = False
    # A number next to decimals, which is scaled when the rows are known; see `compile/shared/decimals.py`.
    exact: Decimal | None = None
    degree: int = 0
    rounding: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One truth value per category of a text column, at index code + 1; index 0 is for null (false)."""

    column: str
    test: str  # "like", "starts_with", "ends_with", "contains", "in", or a comparison sign
    text: str | frozenset[str]


@dataclass(frozen=True, slots=True)
class Members:
    """A list of numbers, passed to the kernel as a sorted array; other numbers compile nothing."""

    values: tuple[int | float, ...]
    dtype: str  # "int64" or "float64"


@dataclass(frozen=True, slots=True)
class _OfColumn:
    """A column computed before matching from ``column``."""

    column: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        return (self.column,)


@dataclass(frozen=True, slots=True)
class Derived(_OfColumn):
    """A column computed before matching: item ``index`` of the list column ``column``."""

    index: int

    def type_in(self, types: Mapping[str, ColumnType]) -> ColumnType:
        """Return the type of its values; ``types`` are those of the columns that it reads."""
        return replace(types[self.column].item or ColumnType(OTHER), nullable=True)


@dataclass(frozen=True, slots=True)
class Computed:
    """A column computed before matching: a function of values of the same row, and of constants."""

    function: str  # of `VOCABULARY`
    arguments: tuple[Term, ...]
    types: tuple[ColumnType, ...]  # of the arguments
    type: ColumnType
    reads: tuple[str, ...]
    # What the arguments refer to by number.
    constants: tuple[Constant, ...]
    tables: tuple[Table | Members, ...]
    text_groups: tuple[frozenset[str], ...]

    def type_in(self, types: Mapping[str, ColumnType]) -> ColumnType:
        """Return the type of its values."""
        return self.type


@dataclass(frozen=True, slots=True)
class Later(_OfColumn):
    """A column computed before matching: ``column``, ``offset`` rows later in the partition."""

    offset: int

    def type_in(self, types: Mapping[str, ColumnType]) -> ColumnType:
        """Return the type of its values; ``types`` are those of the columns that it reads."""
        return replace(types[self.column], nullable=True)


@dataclass(frozen=True, slots=True)
class Exact(_OfColumn):
    """A column computed before matching: the decimals of ``column`` as integers."""

    def type_in(self, types: Mapping[str, ColumnType]) -> ColumnType:
        """Return the type of its values; ``types`` are those of the columns that it reads."""
        return ColumnType(INTEGER, str(types[self.column].scale), nullable=True)


@dataclass(frozen=True, slots=True)
class Prepared(_OfColumn):
    """A column computed before matching: the array column ``column``, prepared for ``function``."""

    # ``function`` is one of ``VECTOR_FUNCTIONS``.

    function: str


Derivation = Derived | Prepared | Computed | Later | Exact


def type_of_column(
    name: str, schema: Mapping[str, ColumnType], derived: Mapping[str, Derivation]
) -> ColumnType:
    """Return the type of a column of a frame, or of one that is computed before matching."""
    derivation = derived.get(name)
    if derivation is None or isinstance(derivation, Prepared):
        return schema[name]
    types = {column: type_of_column(column, schema, derived) for column in derivation.reads}
    return derivation.type_in(types)


ANY_KIND = "any"  # of a user function's result, until its context decides
NEVER, ALWAYS = Term("never", kind=BOOLEAN, nullable=True), Term("always", kind=BOOLEAN)


def comparison(sign: str, left: Term, right: Term) -> Term:
    """Return the term ``left sign right``."""
    nullable = left.nullable or right.nullable
    return Term("compare", (left, right), BOOLEAN, None, nullable, sign, level_of(left, right))


def conjuncts_of(truth: Term) -> Iterator[Term]:
    """Yield the parts of a truth that ``and`` connects."""
    if truth.op == "and":
        for arg in truth.args:
            yield from conjuncts_of(arg)
    else:
        yield truth


def level_of(*args: Term) -> int:
    """Return the highest level among ``args``."""
    return max((arg.level for arg in args), default=CONSTANT)


def described(term: Term) -> str:
    """Return the user's word for values of this kind."""
    return {
        INTEGER: "number", FLOAT: "number", BOOLEAN: "truth value", TEXT: "text", TIME: "time",
        DURATION: "duration", OTHER: "value of a type that conditions cannot use",
    }.get(term.kind, term.kind)  # fmt: skip


def clipped(value: int) -> int:
    """Return the 64-bit integer that is nearest to an integer of any size."""
    return min(max(value, NULL_INTEGER), -NULL_INTEGER - 1)


# SQL's LIKE on texts, without backtracking.


def like_test(pattern: str, escape: str | None = None) -> Callable[[str], bool]:
    """Return a function that tests texts by a pattern of LIKE: ``%`` is any text, ``_`` any character."""
    # The character after ``escape`` stands for itself.
    pieces, characters = [""], iter(pattern)
    for character in characters:
        if character == "%" and character != escape:
            pieces.append("")
        elif character == "_" and character != escape:
            pieces[-1] += "."
        else:
            pieces[-1] += re.escape(next(characters, character) if character == escape else character)
    match = re.compile(pattern_of_pieces(pieces), re.DOTALL).fullmatch
    return lambda text: match(text) is not None


def pattern_of_pieces(pieces: Sequence[str]) -> str:
    """Return the regular expression of pieces with any text between them. It never tries a piece again."""
    first, *rest = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    return first + middle + "".join(f".*{piece}" for piece in rest[-1:])


def text_tests(text: str) -> dict[str, Callable[[str], bool]]:
    """Return the tests of a text by their names."""
    return {
        "starts_with": lambda x: x.startswith(text), "ends_with": lambda x: x.endswith(text),
        "contains": lambda x: text in x, "like": like_test(text),
    }  # fmt: skip


# A `Reader` asks its subclass for every operation. Terms become the text of kernels (`term_writing.py`),
# instructions on registers, or numpy columns (`interpreted_columns.py`).

LEAVES = (
    "column", "previous", "first", "count_of", "sum", "max", "min", "values", "element", "group"
)  # fmt: skip


def may_precede_all(term: Term) -> bool:
    """Return whether a value of an earlier row is null only where that row does not exist."""
    if term.op != "previous" or not term.nullable or term.args[0].nullable:
        return False
    return term.kind in WHOLE


class Reader(ABC):
    """Reads values and truths of terms. What a value is, depends on the subclass."""

    def __init__(self) -> None:
        self._known: dict[tuple, Any] = {}

    @abstractmethod
    def leaf(self, term: Term) -> Any:
        """Return the value of a leaf; null is its special value."""

    @abstractmethod
    def constant(self, term: Term) -> Any:
        """Return the value of a constant of the query."""

    @abstractmethod
    def number(self, value: int) -> Any:
        """Return an integer of the reader, or a truth as 0 or 1."""

    def truth(self, value: bool) -> Any:
        """Return the constant true or false."""
        return self.number(int(value))

    @abstractmethod
    def table(self, number: int, code: Any, wanted: bool) -> Any:
        """Return whether the truth that a table has for a code is ``wanted``."""

    @abstractmethod
    def member(self, number: int, value: Any, wanted: bool) -> Any:
        """Return whether a value is in a sorted table; not ``wanted``: whether it is not. NaN is neither."""

    @abstractmethod
    def apply(self, operation: str, *values: Any) -> Any:
        """Return the result of an operation, such as ``+ floats``, ``< integers`` or ``and``."""

    # --- values

    def value(self, term: Term) -> Any:
        """Return the value of a term; it means nothing where `valid` does not hold."""
        return self._once(("value", term), lambda: self._value(term))

    def as_float(self, term: Term) -> Any:
        """Return the value as a float; null is NaN."""
        if term.kind == FLOAT:
            return self.value(term)
        value, truths = self.apply("to float", self.value(term)), self.valid(term)
        return self.apply("float or nan", value, self.all(truths)) if truths else value

    def stored(self, term: Term) -> Any:
        """Return the value; null is its special value."""
        value, truths = self.value(term), self.valid(term)
        if term.kind == FLOAT or term.op in ("column", "previous", "first", "min", "max") or not truths:
            return value
        if term.kind in (TEXT, BOOLEAN):
            return value  # a code below zero is null already
        return self.apply("integer or null", value, self.all(truths))

    def _once(self, key: tuple, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``, which is called once for each key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _value(self, term: Term) -> Any:
        """Return the value of a term, computed from the values of its arguments."""
        op, args, kind = term.op, term.args, "floats" if term.kind == FLOAT else "integers"
        if op in LEAVES:
            return self.leaf(term)
        if op == "constant":
            return self.constant(term)
        if op == "truth":
            return self.number(term.data)
        if op == "count":
            return self.apply("- integers", self.number_of_row(), self.leaf(term))
        if op == "as_number":
            return self.value(args[0])
        if op == "if_true":
            return self.number(1)
        if term.kind == BOOLEAN:
            return self.apply("truth code", self.true(term), self.false(term))
        parts = [self.as_float(arg) if term.kind == FLOAT else self.value(arg) for arg in args]
        if op == "joined":
            high = self.apply("* floats", parts[0], self.apply("to float", self.number(2**32)))
            return self.apply("+ floats", high, parts[1])
        if op in ("+", "-", "elapsed") and term.kind in (TIME, DURATION):
            op, kind = "+" if op == "+" else "-", "times"
        whole = parts[0]
        if len(parts) == 1:
            return self.apply(f"{op} {kind}", whole)
        for part in parts[1:]:
            whole = self.apply(f"{op} {kind}", whole, part)
        return whole

    def number_of_row(self) -> Any:
        """Return the number of the event in its partition."""
        raise TypeError("this reader has no numbers of rows")

    # --- null

    def valid(self, term: Term) -> list[Any]:
        """Return the truths that must hold for a value not to be null; none for floats."""
        if term.kind == FLOAT or not term.nullable or term.op in ("constant", "truth", "count", "count_of"):
            return []
        if term.kind in (TEXT, BOOLEAN, OTHER):
            return [self.apply(">= integers", self.value(term), self.number(0))]
        if term.op == "if_true":
            return [self.true(term.args[0])]
        if may_precede_all(term):
            return [self.apply(">= integers", self.number_of_row(), self.number(term.data))]
        if term.op in LEAVES:
            return [self.apply("!= integers", self.value(term), self.number(NULL_INTEGER))]
        truths = [truth for arg in term.args for truth in self.valid(arg)]
        if term.op in ("//", "%"):
            truths.append(self.apply("!= integers", self.value(term.args[1]), self.number(0)))
        return truths

    def present(self, term: Term) -> list[Any]:
        """Return the truths that must hold for a value not to be missing; NaN is missing, too."""
        x = self.value(term)
        return [*self.valid(term), *([self.apply("== floats", x, x)] if term.kind == FLOAT else [])]

    def all(self, truths: Iterable[Any]) -> Any:
        """Return whether all truths hold."""
        whole = None
        for truth in truths:
            whole = truth if whole is None else self.apply("and", whole, truth)
        return self.truth(True) if whole is None else whole

    # --- truth

    def true(self, term: Term) -> Any:
        """Return where a term is true."""
        return self._once(("true", term), lambda: self.holds(term, True))

    def false(self, term: Term) -> Any:
        """Return where a term is false, and not null."""
        return self._once(("false", term), lambda: self.holds(term, False))

    def holds(self, term: Term, wanted: bool) -> Any:
        """Return where a term is true, or where it is false."""
        op, args = term.op, term.args
        if op == "not":
            return self.holds(args[0], not wanted)
        if op in ("and", "or"):
            # By De Morgan's laws, true and false of a junction need only true and false of its parts.
            parts = [self.true(arg) if wanted else self.false(arg) for arg in args]
            return self.join("and" if (op == "and") == wanted else "or", parts, term)
        if op in ("never", "always"):
            return self.truth((op == "always") == wanted and op != "never")
        if op == "truth":
            return self.truth(bool(term.data) == wanted)
        if op == "is_null":
            return self.is_null(args[0], wanted)
        if op == "compare":
            return self.join("and", self.compared(term, wanted), term)
        if op in ("table", "member"):
            test = self.table if op == "table" else self.member
            held = test(term.data, self.value(args[0]), wanted)
            return self.join("and", [*self.valid(args[0]), held], term)
        return self.apply("== integers", self.value(term), self.number(int(wanted)))

    def join(self, sign: str, truths: Sequence[Any], term: Term) -> Any:
        """Return the truths of the parts of a term, joined by ``and`` or by ``or``."""
        whole = truths[0]
        for truth in truths[1:]:
            whole = self.apply(sign, whole, truth)
        return whole

    def is_null(self, term: Term, wanted: bool) -> Any:
        """Return where a term is null, or where it is not."""
        present = self.all(self.present(term))
        return self.apply("== integers", present, self.number(int(not wanted)))

    def compared(self, term: Term, wanted: bool) -> list[Any]:
        """Return the truths that must hold for a comparison to be true, or to be false."""
        left, right = term.args
        sign = term.data if wanted else NEGATED[term.data]
        left_value, right_value = self.value(left), self.value(right)
        kinds = {left.kind, right.kind}
        if FLOAT in kinds and len(kinds) == 2:
            left_value = self.apply("to float", left_value) if left.kind != FLOAT else left_value
            right_value = self.apply("to float", right_value) if right.kind != FLOAT else right_value
        held = self.apply(f"{sign} {'floats' if FLOAT in kinds else 'integers'}", left_value, right_value)
        return [*self.valid(left), *self.valid(right), held]
