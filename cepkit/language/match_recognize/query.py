"""The clauses of MATCH_RECOGNIZE, and of the SELECT around it, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import Attribute, Expression, text_of
from cepkit.language.match_recognize.patterns import EveryColumn, RowPattern

ROWS_PER_MATCH = {
    "one": "ONE ROW PER MATCH",
    "all": "ALL ROWS PER MATCH",
    "all_omit_empty": "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    "all_with_unmatched": "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
}
WITH_TIMED_OUT = "ONE ROW PER MATCH WITH TIMED OUT MATCHES"
AFTER_MATCH = {
    "past_last_row": "AFTER MATCH SKIP PAST LAST ROW",
    "to_next_row": "AFTER MATCH SKIP TO NEXT ROW",
    "to_first": "AFTER MATCH SKIP TO FIRST",
    "to_last": "AFTER MATCH SKIP TO LAST",
}


@dataclass(frozen=True, slots=True)
class SortKey:
    """One entry of ORDER BY. Nulls are last unless the text says otherwise.

    The ORDER BY of a SELECT also takes a ``value``, an expression over the columns of the result. ``column``
    is then its text. A number is the place of a column in the result, from 1.

    """

    column: str
    descending: bool = False
    nulls_first: bool = False
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class RowPatternQuery:
    """The clauses of one ``MATCH_RECOGNIZE ( … )``."""

    pattern: RowPattern  # the row pattern
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

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """``SELECT … FROM table MATCH_RECOGNIZE ( … ) AS alias WHERE … ORDER BY … LIMIT … OFFSET …``.

    ``columns`` has names and expressions over the result of the clause; None is ``SELECT *``. ``offset`` is
    the number of rows before the first one that LIMIT counts.

    """

    table: str
    rows: RowPatternQuery
    columns: tuple[tuple[str, Expression], ...] | None = None
    alias: str | None = None
    where: Expression | None = None
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True, slots=True)
class WindowedRows:
    """``SELECT … FROM table WHERE … WINDOW name AS ( … ) ORDER BY … LIMIT …``, with a row pattern.

    The result has one row for each row of the table. A match is searched in the frame of the row: the row and
    those after it. A row that a match before it skips has none.
    """

    # table, alias: the table, and another name for it
    table: str
    name: str  # the clauses of the window. Measures have the values at the last row of the match.
    rows: RowPatternQuery  # expressions over columns and over `OverWindow`; None is ``SELECT *``
    # How many rows after the current one belong to the frame, or the column that says it. None: all.
    columns: tuple[tuple[str, Expression], ...] | None = None
    # Whether the first match in the frame counts (SEEK), or only one that begins at the row (INITIAL).
    frame_end: int | str | None = None
    seek: bool = False
    alias: str | None = None
    where: Expression | None = None  # which rows of the table the window sees
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0  # number of rows before the first one that LIMIT counts

    def __str__(self) -> str:
        return text_of(self)


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
    def pattern(self) -> RowPattern:
        """The row pattern."""
        return self.rows.pattern

    @property
    def define(self) -> tuple[tuple[str, ex.Expression], ...]:
        """The conditions of the variables."""
        return self.rows.define

    @property
    def within(self) -> str | None:
        """The window of Flink's WITHIN."""
        return self.rows.within

    @property
    def order_by(self) -> tuple[str, ...]:
        """The columns whose values never fall along the stream; the first is a clock.

        They are the keys before the first descending one, or one that has nulls first.

        """
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
