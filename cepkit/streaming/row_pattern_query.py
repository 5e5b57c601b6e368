"""MATCH_RECOGNIZE as the query of a stream, and why a stream cannot run some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cepkit.engines.match_recognize.bound import BoundRowQuery, bind_clause, bind_row_query
from cepkit.errors import UnsupportedQueryError
from cepkit.language import row_patterns as pt
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows
from cepkit.values import dataclass


@dataclass(frozen=True)
class RowPatternStream:
    """The text of MATCH_RECOGNIZE for a stream, with the names that the columns of the stream have."""

    text: str  # as for `parse_match_recognize`
    params: tuple[tuple[str, Any], ...] = ()
    # partition_by, order_by: the columns of the clauses, spelled as in the stream
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()

    @property
    def whole(self) -> RowPatternQuery | SelectedRows:
        """The clause, or the SELECT around it."""
        query = parse_match_recognize(self.text)
        assert not isinstance(query, WindowedRows)  # `row_pattern_stream` refuses it
        return query

    def bind(self, schema: Mapping[str, Any]) -> BoundRowQuery:
        """Return the query bound to the columns of a stream."""
        return bind_row_query(self.whole, schema, dict(self.params))

    @property
    def pattern(self) -> pt.Pattern:
        """The row pattern."""
        return self.whole.rows.pattern if isinstance(self.whole, SelectedRows) else self.whole.pattern

    def trees(self) -> Iterator[tuple[str, Any]]:
        """Yield nothing: the functions of SQL are built in."""
        return iter(())


def row_pattern_stream(
    text: str, schema: Mapping[str, Any], params: Mapping[str, Any] | None = None
) -> RowPatternStream:
    """Return the text of MATCH_RECOGNIZE as the query of a stream with these columns."""
    query = parse_match_recognize(text)
    if isinstance(query, WindowedRows):
        raise UnsupportedQueryError(
            f"WINDOW {query.name}: the measures of a row depend on all rows of its frame, so a stream "
            "does not run it; cep.match runs it on a frame, and a MATCH_RECOGNIZE clause runs in a stream"
        )
    clause = query.rows if isinstance(query, SelectedRows) else query
    if reason := _reason_against(clause, query if isinstance(query, SelectedRows) else None):
        raise UnsupportedQueryError(f"{reason}; cep.match runs the query on a finished frame")
    partition_by, keys = bind_clause(clause, schema)
    columns = tuple(key.column for key in keys)
    return RowPatternStream(text, tuple((params or {}).items()), partition_by, columns)


def _reason_against(clause: RowPatternQuery, selected: SelectedRows | None) -> str | None:
    """Return the reason why a stream cannot run a query; None if it can."""
    for key in clause.order_by:
        if key.descending:
            return f"ORDER BY {key.column} DESC: the rows of a stream come in ascending order"
        if key.nulls_first:
            return f"ORDER BY {key.column} NULLS FIRST: the order columns of a stream have no nulls"
    if any(isinstance(node, pt.Anchor) and not node.at_start for node in clause.pattern.walk()):
        return "PATTERN: $ is the end of the partition, and an open stream has none"
    if selected is not None and selected.order_by:
        return "ORDER BY of the result: it needs all matches"
    if selected is not None and (selected.limit is not None or selected.offset):
        return f"{'OFFSET' if selected.limit is None else 'LIMIT'}: it needs all matches"
    return None
