"""MATCH_RECOGNIZE as the query of a stream, and why a stream cannot run some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cepkit.engines.match_recognize.bound import bind_clause
from cepkit.errors import UnsupportedQueryError
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, WindowedRows


@dataclass(frozen=True)
class RowPatternStream:
    """The text of MATCH_RECOGNIZE for a stream, with the names that the columns of the stream have."""

    text: str  # as for `parse_match_recognize`
    params: tuple[tuple[str, Any], ...] = ()
    # partition_by, order_by: the columns of the clauses, spelled as in the stream
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()

    @property
    def selected(self) -> SelectedRows | None:
        """The SELECT around the clause, if there is one."""
        query = parse_match_recognize(self.text)
        return query if isinstance(query, SelectedRows) else None

    @property
    def clause(self) -> RowPatternQuery:
        """The clause."""
        query = parse_match_recognize(self.text)
        assert not isinstance(query, WindowedRows)  # `row_pattern_stream` refuses it
        return query.rows if isinstance(query, SelectedRows) else query

    @property
    def pattern(self) -> rp.RowPattern:
        """The row pattern."""
        return self.clause.pattern

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
    waiting: list[rp.RowPattern] = [clause.pattern]
    while waiting:
        node = waiting.pop()
        if isinstance(node, rp.Anchor) and not node.at_start:
            return "PATTERN: $ is the end of the partition, and an open stream has none"
        waiting.extend(node.children())
    if selected is not None and selected.order_by:
        return "ORDER BY of the result: it needs all matches"
    if selected is not None and (selected.limit is not None or selected.offset):
        return f"{'OFFSET' if selected.limit is None else 'LIMIT'}: it needs all matches"
    return None
