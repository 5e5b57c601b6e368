"""Row patterns and the expressions that only SQL has, as trees of small frozen values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cepkit.language.expressions.summaries import SUMMARIES
from cepkit.language.expressions.trees import Expression, Literal, parts_of, text_of
from cepkit.limits import REPEATS, refuse_beyond

Span = tuple[int, int]

AGGREGATES_OF_ROWS = (
    "count", "count_if", "sum", "avg", "min", "max", "array_agg", "bool_and", "every", "bool_or",
    "arbitrary", "any_value", "max_by", "min_by", "map_agg", "stddev", "stddev_pop", "stddev_samp",
    "variance", "var_pop", "var_samp", *(summary.sql for summary in SUMMARIES.values() if summary.sql),
)  # fmt: skip
OF_TWO_ARGUMENTS = ("max_by", "min_by", "map_agg")
NAVIGATIONS = ("first", "last", "prev", "next")


# --- row patterns ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowPattern:
    """Base of all nodes of row patterns."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    def children(self) -> Iterator[RowPattern]:
        """Yield the direct parts, in reading order."""
        return parts_of(self, RowPattern)

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True, slots=True)
class RowVariable(RowPattern):
    """One row that satisfies the definition of this variable; any row if it has no definition."""

    name: str


@dataclass(frozen=True, slots=True)
class NoRow(RowPattern):
    """The empty pattern, ``()``."""


@dataclass(frozen=True, slots=True)
class Anchor(RowPattern):
    """The start of the partition, ``^``, or its end, ``$``."""

    at_start: bool


@dataclass(frozen=True, slots=True)
class Concatenation(RowPattern):
    """Two or more parts, one after the other."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Alternation(RowPattern):
    """Two or more options. An earlier one is preferred."""

    options: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Permutation(RowPattern):
    """``PERMUTE``: two or more parts in any order. Orders are preferred as a dictionary sorts them."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Exclusion(RowPattern):
    """``{- body -}``: ALL ROWS PER MATCH does not show the rows of the body."""

    body: RowPattern


@dataclass(frozen=True, slots=True)
class Quantified(RowPattern):
    """``body`` at least ``low`` and at most ``high`` times (None: no limit).

    A greedy quantifier prefers many repetitions, a reluctant one prefers few.

    """

    body: RowPattern
    low: int
    high: int | None
    greedy: bool = True

    def __post_init__(self) -> None:
        if self.low < 0 or (self.high is not None and self.high < max(1, self.low)):
            raise ValueError(f"quantifier {{{self.low},{self.high}}}: need 0 <= low <= high and high >= 1")
        refuse_beyond(
            REPEATS, max(self.low, self.high or 0), "rounds of a quantifier",
            "Write * or + for a repetition without an upper bound",
        )  # fmt: skip


def row_variables(pattern: RowPattern) -> Iterator[RowVariable]:
    """Yield the variables of a pattern in reading order; one that occurs twice is yielded twice."""
    if isinstance(pattern, RowVariable):
        yield pattern
    for part in pattern.children():
        yield from row_variables(part)


# --- expressions of SQL ------------------------------------------------------------------------------------
# A column alone is an Attribute, and a column of a variable, ``A.price``, is a Reference without an index.


@dataclass(frozen=True, slots=True)
class TimeLiteral(Literal):
    """A time, ``TIMESTAMP '…'`` or ``DATE '…'``; ``value`` is its text. A date is a time at midnight."""


@dataclass(frozen=True, slots=True)
class IntervalLiteral(Literal):
    """A length of time, ``INTERVAL '5' MINUTE``; ``value`` is the duration as text, such as ``5 min``."""


class SqlExpression(Expression):
    """Base of the nodes that only SQL spells. `printing` gives them the method ``in_sql``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Navigation(SqlExpression):
    """FIRST, LAST, PREV or NEXT: ``operand`` at another row.

    ``offset`` is None if the text does not give one. ``final`` is True for FINAL, False for RUNNING, and None
    if the text says neither.

    """

    function: str
    operand: Expression
    offset: int | None = None
    final: bool | None = None


@dataclass(frozen=True, slots=True)
class RowAggregate(SqlExpression):
    """One of ``AGGREGATES_OF_ROWS`` over the rows of a match.

    ``count`` without arguments is COUNT(*), or COUNT(A.*) with ``variable``. ``final`` is as in `Navigation`.

    """

    function: str
    arguments: tuple[Expression, ...] = ()
    variable: str | None = None
    distinct: bool = False
    final: bool | None = None


@dataclass(frozen=True, slots=True)
class Classifier(SqlExpression):
    """CLASSIFIER(): the variable of a row; with ``variable`` the last row among this variable's rows."""

    variable: str | None = None


@dataclass(frozen=True, slots=True)
class MatchNumber(SqlExpression):
    """MATCH_NUMBER(): the number of the match in its partition, from 1."""


@dataclass(frozen=True, slots=True)
class MatchRowtime(SqlExpression):
    """Flink's MATCH_ROWTIME(): the time of the last row of the match.

    ``operand`` is the column of the time. The parser takes the first column of ORDER BY if there is none.

    """

    operand: Expression | None = None


@dataclass(frozen=True, slots=True)
class TimedOut(SqlExpression):
    """TIMED_OUT(): whether the row is a partial match that ran out of time, and no match."""


@dataclass(frozen=True, slots=True)
class OverWindow(SqlExpression):
    """``operand OVER window``: a measure of the window, or a function of the rows of the match."""

    operand: Expression
    window: str


@dataclass(frozen=True, slots=True)
class EveryColumn(SqlExpression):
    """``*`` among other columns in the list after SELECT: all columns of the result of the clause."""


@dataclass(frozen=True, slots=True)
class Joined(SqlExpression):
    """``left || right``: two texts, one after the other. Null if a side is null."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class IsTruth(SqlExpression):
    """``operand IS TRUE`` or ``operand IS FALSE``. Never null."""

    operand: Expression
    truth: bool


@dataclass(frozen=True, slots=True)
class IsDistinct(SqlExpression):
    """``left IS DISTINCT FROM right``: two nulls are not distinct. Never null."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class LikeWithEscape(SqlExpression):
    """``operand LIKE pattern ESCAPE escape``: the character after ``escape`` stands for itself."""

    operand: Expression
    pattern: str
    escape: str


@dataclass(frozen=True, slots=True)
class Cast(SqlExpression):
    """``CAST(operand AS type)``; ``kind`` is the type in lower case, such as ``varchar(7)``."""

    operand: Expression
    kind: str


@dataclass(frozen=True, slots=True)
class ArrayOf(SqlExpression):
    """``ARRAY[…]``: a list of values."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class CaseWhen(SqlExpression):
    """``CASE WHEN … THEN … ELSE … END``. Conditions and values alternate in ``branches``."""

    branches: tuple[Expression, ...]
    default: Expression | None = None
