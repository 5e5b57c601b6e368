"""Predicate and measure expressions as trees of small frozen values: their parts, and their text by type."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, singledispatch
from typing import Any, ClassVar, TypeVar, cast

from cepkit.values import dataclass, field, fields, replace

# Read the parts of trees, and rebuild trees with some of their parts replaced.

Tree = TypeVar("Tree")


def parts_of(tree: object, kind: type[Tree]) -> Iterator[Tree]:
    """Yield the direct parts of a tree that are of class ``kind``, in reading order."""
    for name in _names_of_fields(type(tree)):
        value = getattr(tree, name)
        if isinstance(value, tuple):
            for part in value:
                if isinstance(part, kind):
                    yield part
        elif isinstance(value, kind):
            yield value


@cache
def _names_of_fields(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def with_parts(tree: Tree, kind: type[Tree], change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with ``change`` applied to its direct parts of class ``kind``."""
    changed = {}
    for name in _names_of_fields(type(tree)):
        value = getattr(tree, name)
        if isinstance(value, kind):
            changed[name] = change(value)
        elif isinstance(value, tuple) and any(isinstance(part, kind) for part in value):
            changed[name] = tuple(change(part) if isinstance(part, kind) else part for part in value)
    return replace(cast(Any, tree), **changed) if changed else tree


def rebuilt(tree: Tree, kind: type[Tree], change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with ``change`` applied to every node of class ``kind``, children before parents."""
    return change(with_parts(tree, kind, lambda part: rebuilt(part, kind, change)))


Span = tuple[int, int]


class Printed:
    """Base of what `text_of` prints."""

    __slots__ = ()

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True, slots=True)
class Spanned(Printed):
    """A part of a text; ``span`` is its place there, for error messages. Comparison ignores it."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Node(Spanned):
    """Base of the nodes of trees. A class that extends it directly is the base of one family of nodes."""

    family: ClassVar[type]

    def __init_subclass__(cls) -> None:
        if Node in cls.__bases__:
            cls.family = cls

    def children(self) -> Iterator[Any]:
        """Yield the direct parts, in reading order."""
        return parts_of(self, self.family)

    def walk(self) -> Iterator[Any]:
        """Yield this node and all nodes below it, parents first, in reading order."""
        yield self
        for part in self.children():
            yield from part.walk()


# The text of trees. The modules named ``printing`` register the spelling of each type.


@singledispatch
def text_of(tree: object) -> str:
    """Return the text of a tree or a query, in one canonical spelling."""
    raise TypeError(f"no text is defined for {type(tree).__name__}")


# Predicate and measure expressions as trees of small frozen values, independent of frames and engines.
#
# Passes over the tree (printing, binding, code) are defined in the modules of their stages.

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}  # for sides that swap places
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
AGGREGATES = ("first", "last", "count", "max", "min", "sum", "avg", "delta", "collect")


@dataclass(frozen=True, slots=True)
class Expression(Node):
    """Base of all expression nodes."""

    def children(self) -> Iterator[Expression]:
        """Yield the direct sub-expressions, in reading order."""
        return iter(()) if type(self) in _LEAVES else parts_of(self, Expression)

    def walk(self, *, literals: bool = True) -> Iterator[Expression]:
        """Yield this node and all nodes below it, parents first; without literals this is quick for lists."""
        waiting: list[Expression] = [self]  # no recursion: the depth is not yet known here
        while waiting:
            node = waiting.pop()
            if literals or type(node) is not Literal:
                yield node
            if type(node) not in _LEAVES:  # without a call
                inner = [part for part in node.children() if literals or type(part) is not Literal]
                waiting.extend(reversed(inner))

    def __bool__(self) -> bool:
        raise TypeError("a predicate has no truth value without an event; combine with & | ~, not and/or/not")


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant: None, bool, int, float or str. A str next to a time or a duration is parsed as one."""

    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python but have different texts and types.
        return type(other) is Literal and type(other.value) is type(self.value) and other.value == self.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


class LongNumber(float):
    """A number of a query with more digits than floats keep. Exact decimals are compared with all of them."""

    text: str

    def __new__(cls, text: str) -> LongNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # of copies and pickles
        return (self.text,)

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LongNumber):
            return Decimal(self.text) == Decimal(other.text)
        return float(self) == other

    __hash__ = float.__hash__

    def __neg__(self) -> LongNumber:
        return LongNumber(self.text[1:] if self.text.startswith("-") else f"-{self.text}")


def number_of_text(text: str) -> float:
    """Return a number with a point or an exponent."""
    value = float(text)
    if len(text) < 17 or not math.isfinite(value):  # floats keep 15 digits
        return value
    exact = Decimal(text)
    digits, exponent = exact.as_tuple()[1:]
    fits = len(digits) <= 38 and int(exponent) >= -38 and exact.adjusted() < 38
    return LongNumber(text) if fits and exact != Decimal(repr(value)) else value


@dataclass(frozen=True, slots=True)
class Attribute(Expression):
    """The value of a column at the current event."""

    name: str


# Which event a reference to a repeated variable means: the one being taken, the one before it, the last one,
# or (in an aggregate) all before the one being taken. A whole number k means the k-th, from 1. None means
# each event, or, in an aggregate, all.
CURRENT, BEFORE, LAST, ALL_BEFORE = "i", "i-1", "LEN", "..i-1"


@dataclass(frozen=True, slots=True)
class Reference(Expression):
    """Value of column ``name`` at the event ``index`` of a pattern variable; ``b[i-1].price`` in text."""

    # ``name`` is None for the variable as a whole, as in ``count(b)``.

    variable: str
    name: str | None = None
    index: str | int | None = None


@dataclass(frozen=True, slots=True)
class Parameter(Expression):
    """A named constant, ``:name`` in text; ``params`` gives its value."""

    name: str


@dataclass(frozen=True, slots=True)
class Previous(Expression):
    """``operand`` at the row ``offset`` rows earlier in the partition; null if no such row exists."""

    operand: Expression
    offset: int = 1


@dataclass(frozen=True, slots=True)
class Aggregate(Expression):
    """One of ``AGGREGATES`` over the match; in a predicate, over the match's rows before the current one."""

    # ``operand`` is None for ``count()``; ``count(x)`` counts the rows where x is not null. ``by`` is the
    # second argument, as in ``min_by(x, y)``.

    function: str
    operand: Expression | None = None
    by: Expression | None = None


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """Call of a built-in function or a registered user function."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Subscript(Expression):
    """Item ``index`` of an array column, from 0 or negative from the end; null if out of range."""

    operand: Expression
    index: int


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """Arithmetic negation of one operand."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """``left operator right``; the operator is one of ``+ - * / // %``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """``left operator right``; the operator is one of ``== != < <= > >=``. Null if a side is null."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class And(Expression):
    """Conjunction of two or more operands: true if all are true, false if one is false, else null."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """Disjunction of two or more operands: true if one is true, false if all are false, else null."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The opposite truth value; null stays null."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class In(Expression):
    """True if ``operand`` equals one of the ``options`` (one or more)."""

    # As in SQL, it is null if ``operand`` equals none of them and one is null.

    operand: Expression
    options: tuple[Expression, ...]

    def children(self) -> Iterator[Expression]:
        return iter((self.operand, *self.options))

    def __hash__(self) -> int:
        # Lists have thousands of options, and those with equal ends are mostly equal.
        return hash((self.operand, len(self.options), self.options[0], self.options[-1]))


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """True if ``operand`` is null (missing); never null itself."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """True if text ``operand`` matches the SQL pattern ``pattern`` (``%`` any text, ``_`` one character)."""

    operand: Expression
    pattern: str


@dataclass(frozen=True, slots=True)
class IsDistinct(Expression):
    """True if both operands differ, or one is null; two nulls are not distinct. Never null itself."""

    left: Expression
    right: Expression


_LEAVES = frozenset({Literal, Attribute, Reference, Parameter})  # lists have thousands of them


def columns_in(tree: Expression) -> Iterator[str]:
    """Yield the names of the columns in an expression, each time that it reads one."""
    for node in tree.walk(literals=False):
        if isinstance(node, Attribute | Reference) and node.name is not None:
            yield node.name


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of an And, with nested Ands flattened; else the expression as the only one."""
    if not isinstance(expression, And):
        return (expression,)
    return tuple(part for operand in expression.operands for part in conjuncts(operand))
