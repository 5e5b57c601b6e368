"""A query of MATCH_RECOGNIZE bound to the columns of a frame, for explanations and the explorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.engines.match_recognize.matching import RowProgram
from cepkit.engines.match_recognize.preparing import bind_clause, prepare_rows
from cepkit.engines.match_recognize.selected import check_select, result_schema
from cepkit.events import ColumnType
from cepkit.language.match_recognize.asked import RowsQuery
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, SortKey


@dataclass(frozen=True, eq=False)
class BoundRowQuery:
    """A query of MATCH_RECOGNIZE with its program for a frame."""

    query: RowsQuery  # the query, with names of columns as the frame has them
    program: RowProgram  # its automaton and its conditions
    measures: tuple[Compiled, ...]  # its measures as functions
    schema: Mapping[str, ColumnType]  # the columns of the frame
    derived: Mapping[str, Any] = field(default_factory=dict)  # as in `BoundQuery`: always empty
    functions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that conditions, measures and the window read, those of conditions first."""
        return self.program.columns

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """The same columns, as in `BoundQuery`."""
        return self.program.columns

    @property
    def members(self) -> Mapping[str, frozenset[str]]:
        """The variables that each name of a variable stands for."""
        return self.program.members


def bind_row_query(
    whole: RowPatternQuery | SelectedRows,
    schema: Mapping[str, ColumnType],
    params: Mapping[str, Any] | None = None,
    clock: str | None = None,
) -> BoundRowQuery:
    """Return a query bound to columns; ``clock`` orders the rows of a query without ORDER BY."""
    rows = whole.rows if isinstance(whole, SelectedRows) else whole
    partition_by, keys = bind_clause(rows, schema)
    program, measures = prepare_rows(rows, schema, params)
    if isinstance(whole, SelectedRows):
        result = result_schema(rows, schema, measures, partition_by, [key.column for key in keys])
        check_select(whole, result, params, list(schema))
    query = RowsQuery(
        whole,
        tuple((params or {}).items()),
        partition_by,
        keys or ((SortKey(clock),) if clock is not None else ()),
    )
    return BoundRowQuery(query, program, tuple(measures), schema)
