"""A query of MATCH_RECOGNIZE with the values of its parameters, as calls and boards hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.patterns import RowPattern
from cepkit.language.match_recognize.query import (
    RowPatternQuery,
    SelectedRows,
    SortKey,
    WindowedRows,
)
from cepkit.language.spelling import text_of


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
