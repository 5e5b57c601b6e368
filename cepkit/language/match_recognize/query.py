"""The clauses of MATCH_RECOGNIZE, and of the SELECT around it, as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import RegisteredFunction
from cepkit.language.expressions.trees import Attribute, Expression, Literal, Printed, text_of
from cepkit.language.expressions.vocabulary import OF_SQL
from cepkit.language.row_patterns import Pattern
from cepkit.values import dataclass, field

# The expressions that only SQL has, as trees of small frozen values.

AGGREGATES_OF_ROWS = (
    "count", "count_if", "sum", "avg", "min", "max", "array_agg", "bool_and", "every", "bool_or",
    "arbitrary", "any_value", "max_by", "min_by", "map_agg", "stddev", "stddev_pop", "stddev_samp",
    "variance", "var_pop", "var_samp", *OF_SQL,
)  # fmt: skip
OF_TWO_ARGUMENTS = ("max_by", "min_by", "map_agg")
NAVIGATIONS = ("first", "last", "prev", "next")


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
    """FIRST, LAST, PREV or NEXT: ``operand`` at another row."""

    # ``offset`` is None if the text does not give one. ``final`` is True for FINAL, False for RUNNING, and
    # None if the text says neither.

    function: str
    operand: Expression
    offset: int | None = None
    final: bool | None = None


@dataclass(frozen=True, slots=True)
class RowAggregate(SqlExpression):
    """One of ``AGGREGATES_OF_ROWS`` over the rows of a match."""

    # ``count`` without arguments is COUNT(*), or COUNT(A.*) with ``variable``. ``final`` is as in
    # `Navigation`.

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
    """Flink's MATCH_ROWTIME(): the time of the last row of the match."""

    # ``operand`` is the column of the time. The parser takes the first column of ORDER BY if there is none.

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
class UserCall(SqlExpression):
    """A call of a function that the user registered."""

    registered: RegisteredFunction
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class CaseWhen(SqlExpression):
    """``CASE WHEN … THEN … ELSE … END``. Conditions and values alternate in ``branches``."""

    branches: tuple[Expression, ...]
    default: Expression | None = None


ROWS_PER_MATCH = {
    "one": "ONE ROW PER MATCH",
    "all": "ALL ROWS PER MATCH",
    "all_omit_empty": "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    "all_with_unmatched": "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
}
WITH_TIMED_OUT = "ONE ROW PER MATCH WITH TIMED OUT MATCHES"
AFTER_MATCH = {
    "past_last_row": "AFTER MATCH SKIP PAST LAST ROW", "to_next_row": "AFTER MATCH SKIP TO NEXT ROW",
    "to_first": "AFTER MATCH SKIP TO FIRST", "to_last": "AFTER MATCH SKIP TO LAST",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SortKey:
    """One entry of ORDER BY. Nulls are last unless the text says otherwise."""

    # The ORDER BY of a SELECT also takes a ``value``, an expression over the columns of the result.
    # ``column`` is then its text. A number is the place of a column in the result, from 1.

    column: str
    descending: bool = False
    nulls_first: bool = False
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class RowPatternQuery(Printed):
    """The clauses of one ``MATCH_RECOGNIZE ( … )``."""

    pattern: Pattern  # the row pattern
    # define, measures: conditions of variables, and output columns
    define: tuple[tuple[str, Expression], ...] = ()
    measures: tuple[tuple[str, Expression], ...] = ()
    subset: tuple[tuple[str, tuple[str, ...]], ...] = ()  # names for several variables together
    partition_by: tuple[str, ...] = ()  # columns
    order_by: tuple[SortKey, ...] = ()  # the order of the rows in a partition
    rows_per_match: str = "one"  # A key of ``ROWS_PER_MATCH``
    after_match: str = "past_last_row"  # A key of ``AFTER_MATCH``
    after_match_variable: str | None = None  # the variable to skip to
    # A duration; the last row is earlier than the first row plus the duration (Flink's WITHIN).
    within: str | None = None
    # Whether the result also has a row for each partial match that ran out of time. The match of its first
    # row is missing because no row in time continues it. Needs ``within`` and one row per match.
    timed_out: bool = False
    # The text that the spans of the trees belong to, for error messages.
    source: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _Select(Printed):
    """``SELECT … FROM table … AS alias WHERE … ORDER BY … LIMIT … OFFSET …`` around row patterns."""

    table: str
    rows: RowPatternQuery
    # Names and expressions over the result, or over the table and its WINDOW; None is ``SELECT *``.
    columns: tuple[tuple[str, Expression], ...] | None = None
    alias: str | None = None
    where: Expression | None = None  # which rows remain of the result, or of the table before a WINDOW
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0  # number of rows before the first one that LIMIT counts


@dataclass(frozen=True, slots=True)
class SelectedRows(_Select):
    """``SELECT … FROM table MATCH_RECOGNIZE ( … ) AS alias WHERE … ORDER BY … LIMIT … OFFSET …``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedRows(_Select):
    """``SELECT … FROM table WHERE … WINDOW name AS ( … ) ORDER BY … LIMIT …``, with a row pattern."""

    # The result has one row for each row of the table. A match is searched in the frame of the row: the row
    # and those after it. A row that a match before it skips has none. Measures have the values at the last
    # row of the match.

    name: str
    # How many rows after the current one belong to the frame, or the column that says it. None: all.
    frame_end: int | str | None = None
    # Whether the first match in the frame counts (SEEK), or only one that begins at the row (INITIAL).
    seek: bool = False


def clauses_that_drop(query: SelectedRows) -> str:
    """Return the clauses of a SELECT that drop rows of the result: ``WHERE, OFFSET, LIMIT``, or fewer."""
    present = {"WHERE": query.where is not None, "OFFSET": query.offset > 0, "LIMIT": query.limit is not None}
    return ", ".join(name for name, is_there in present.items() if is_there)


def listed_columns(
    columns: tuple[tuple[str, Expression], ...] | None, names: Iterable[str]
) -> tuple[tuple[str, Expression], ...]:
    """Return the columns of a SELECT, with all columns of the result in place of ``*``."""
    every = tuple((name, Attribute(name)) for name in names)
    if columns is None:
        return every
    return tuple(
        column
        for name, tree in columns
        for column in (every if isinstance(tree, EveryColumn) else ((name, tree),))
    )


# A query of MATCH_RECOGNIZE with the values of its parameters, as calls and boards hold it.


@dataclass(frozen=True)
class RowsQuery:
    """The query of a call: its text as a tree, and the values of its parameters."""

    whole: RowPatternQuery | SelectedRows  # the clause, or the SELECT around it
    params: tuple[tuple[str, Any], ...] = ()  # the values of its parameters
    partition_by: tuple[str, ...] = ()  # the columns of PARTITION BY, by the names that the frame has
    # The keys of ORDER BY, by the names that the frame has. Without ORDER BY, the clock of the frame.
    keys: tuple[SortKey, ...] = ()
    measures: ClassVar[None] = None  # the clause has them
    functions: ClassVar[tuple] = ()

    @property
    def rows(self) -> RowPatternQuery:
        """The clause without the SELECT around it."""
        return self.whole.rows if isinstance(self.whole, SelectedRows) else self.whole

    @property
    def pattern(self) -> Pattern:
        return self.rows.pattern

    @property
    def define(self) -> tuple[tuple[str, ex.Expression], ...]:
        return self.rows.define

    @property
    def within(self) -> str | None:
        return self.rows.within

    @property
    def order_by(self) -> tuple[str, ...]:
        """The columns whose values never fall along the stream; the first is a clock."""
        # They are the keys before the first descending one, or one that has nulls first.
        names: list[str] = []
        for key in self.keys:
            if key.descending or key.nulls_first:
                break
            names.append(key.column)
        return tuple(names)

    def __str__(self) -> str:
        return text_of(self.whole)


def refuse_windows(
    whole: RowPatternQuery | SelectedRows | WindowedRows, who: str
) -> RowPatternQuery | SelectedRows:
    """Return a query of MATCH_RECOGNIZE; raise the error of ``who`` for a pattern in a WINDOW clause."""
    if isinstance(whole, WindowedRows):
        raise UnsupportedQueryError(
            f"{who}: the pattern is in a WINDOW clause, whose result has a row for each row of the table. "
            "Write it as SELECT * FROM t MATCH_RECOGNIZE ( … ), or run the text by cep.sql"
        )
    return whole
