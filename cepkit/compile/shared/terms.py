"""Typed terms: the meaning of a predicate once columns and parameters are known; no text, no code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, NULL_INTEGER, OTHER, TEXT, TIME, ColumnType

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
class Derived:
    """A column computed before matching: item ``index`` of the list column ``column``."""

    column: str
    index: int

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        return (self.column,)

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
class Later:
    """A column computed before matching: ``column``, ``offset`` rows later in the partition."""

    column: str
    offset: int

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        return (self.column,)

    def type_in(self, types: Mapping[str, ColumnType]) -> ColumnType:
        """Return the type of its values; ``types`` are those of the columns that it reads."""
        return replace(types[self.column], nullable=True)


@dataclass(frozen=True, slots=True)
class Exact:
    """A column computed before matching: the decimals of ``column`` as integers."""

    column: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        return (self.column,)

    def type_in(self, types: Mapping[str, ColumnType]) -> ColumnType:
        """Return the type of its values; ``types`` are those of the columns that it reads."""
        return ColumnType(INTEGER, str(types[self.column].scale), nullable=True)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A column computed before matching: the array column ``column``, prepared for ``function``."""

    # ``function`` is one of ``VECTOR_FUNCTIONS``.

    column: str
    function: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        return (self.column,)


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
NEVER, ALWAYS = Term("never", kind=BOOLEAN), Term("always", kind=BOOLEAN)


def comparison(sign: str, left: Term, right: Term) -> Term:
    """Return the truth term of ``left sign right``."""
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
        INTEGER: "number",
        FLOAT: "number",
        BOOLEAN: "truth value",
        TEXT: "text",
        TIME: "time",
        DURATION: "duration",
        OTHER: "value of a type that conditions cannot use",
    }.get(term.kind, term.kind)


def clipped(value: int) -> int:
    """Return the nearest 64-bit integer."""
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
