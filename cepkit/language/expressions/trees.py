"""Predicate and measure expressions as a tree of small frozen values; it knows no frame and no engine.

A node's ``span`` is its place in the text it was read from, for error messages; it takes no part in
comparison. Passes over the tree (printing, binding, code) live in the files of their stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

AGGREGATES = ("first", "last", "count", "max", "min", "sum", "avg", "delta", "collect")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Expression:
    """Base of all expression nodes."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    def children(self) -> Iterator[Expression]:
        """Yield the direct sub-expressions, in reading order."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Expression):
                yield value
            elif isinstance(value, tuple):
                yield from (part for part in value if isinstance(part, Expression))

    def walk(self) -> Iterator[Expression]:
        """Yield this node and all below it, parents first."""
        waiting: list[Expression] = [self]  # no recursion: the parser walks before it knows the depth
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(tuple(node.children())))

    def __bool__(self) -> bool:
        raise TypeError(
            "a predicate has no truth value before it meets an event; combine with & | ~, not and/or/not"
        )

    def __str__(self) -> str:
        from cepkit.language.expressions.printing import print_expression

        return print_expression(self)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant: None, bool, int, float or str (a str beside a time or a duration is read as one)."""

    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal to Python but are different texts and different types.
        return type(other) is Literal and type(other.value) is type(self.value) and other.value == self.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Attribute(Expression):
    """The value of a column at the current event."""

    name: str


# Which event of a variable that stands for several: the one being taken, the one before it, the last one, all
# before the one being taken (in an aggregate). A whole number k is the k-th, from 1; None is each, or, in an
# aggregate, all.
CURRENT, BEFORE, LAST, ALL_BEFORE = "i", "i-1", "LEN", "..i-1"


@dataclass(frozen=True, slots=True)
class Reference(Expression):
    """The value of column ``name`` at the event ``index`` of a pattern's variable; ``b[i-1].price`` in text.

    ``name`` is None for the variable as a whole, as in ``count(b)``.
    """

    variable: str
    name: str | None = None
    index: str | int | None = None


@dataclass(frozen=True, slots=True)
class Parameter(Expression):
    """A named constant, ``:name`` in text; its value comes with ``params``."""

    name: str


@dataclass(frozen=True, slots=True)
class Previous(Expression):
    """``operand`` at the row ``offset`` rows earlier in the partition; null when there is none."""

    operand: Expression
    offset: int = 1


@dataclass(frozen=True, slots=True)
class Aggregate(Expression):
    """One of ``AGGREGATES`` over the match (in a predicate: over its rows before the current one).

    ``operand`` is None for ``count()``; ``count(x)`` counts the rows where x is not null.
    """

    function: str
    operand: Expression | None = None


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A listed math or text function, or a registered user function, of its arguments."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Subscript(Expression):
    """Item ``index`` of an array column (from 0; negative from the end); null when out of range."""

    operand: Expression
    index: int


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """Arithmetic minus of one operand."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """``left operator right`` with operator one of ``+ - * / // %``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """``left operator right`` with operator one of ``== != < <= > >=``; null when a side is null."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class And(Expression):
    """True when all operands (two or more) are, false when one is false, else null."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """True when one of the operands (two or more) is, false when all are false, else null."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The opposite truth value; null stays null."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class In(Expression):
    """``operand`` equals one of ``options`` (one or more).

    As in SQL, null when unequal to all and one is null.
    """

    operand: Expression
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """``operand`` is null (missing); never null itself."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """Text ``operand`` equals the SQL pattern ``pattern`` (``%`` any run, ``_`` any one character)."""

    operand: Expression
    pattern: str


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of ``expression`` where it is an And, and theirs where they are; else itself."""
    if not isinstance(expression, And):
        return (expression,)
    return tuple(part for operand in expression.operands for part in conjuncts(operand))
