"""The search of MATCH_RECOGNIZE in a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.values import Compiled, column_of
from cepkit.engines.match_recognize.found_rows import FoundRows, RowOrder, collect_matches
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, find_row_matches
from cepkit.engines.match_recognize.output import output_rows
from cepkit.engines.match_recognize.time_outs import latest_time, with_timed_out
from cepkit.events import Source
from cepkit.frames.row_order import partitions_in_order, plain_values
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey
from cepkit.progress import checkpoint

# The rows of the frame, the columns as Python values, and the matches of a partition.
PartitionMatches = tuple[np.ndarray, Mapping[str, list], list[RowMatch]]
Values = list[Any] | pa.Array


class RowPatternSearch:
    """The matches of a query in a frame, and their measures.

    Parameters
    ----------
    source : Source
    query : RowPatternQuery
    program, measures
        As `prepare_rows` makes them.
    partition_by, order_by
        The columns of the clauses, by the names that the frame has.
    params : mapping, optional
        Values of the query's parameters.
    """

    def __init__(
        self,
        source: Source,
        query: RowPatternQuery,
        program: RowProgram,
        measures: Sequence[Compiled],
        partition_by: Sequence[str],
        order_by: Sequence[SortKey],
        params: Mapping[str, Any] | None = None,
    ):
        self._source, self._query, self._program, self._measures = source, query, program, measures
        parts = partitions_in_order(source, partition_by, order_by)
        bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        self.order = RowOrder(np.concatenate(parts) if parts else np.empty(0, np.int64), bounds)
        self.partitions  # noqa: B018  an error is raised now

    @property
    def n_matches(self) -> int:
        """The number of matches, with empty ones."""
        return self.found.n_matches

    @cached_property
    def found(self) -> FoundRows:
        """The matches as arrays."""
        return collect_matches(self.order, [matches for _, _, matches in self.partitions])

    @cached_property
    def partitions(self) -> list[PartitionMatches]:
        """The matches by partition, as single values."""
        schema, program = self._source.schema, self._program
        trees = [tree for _, tree in (*self._query.define, *self._query.measures)]
        used = {
            column_of(node.name or "", schema)
            for tree in trees
            for node in tree.walk(literals=False)
            if isinstance(node, ex.Attribute | ex.Reference)
        }
        used |= {program.within[0]} if program.within else set()
        values = {name: plain_values(self._source.column(name)) for name in sorted(used)}
        made = []
        for rows in self.order.partitions():
            checkpoint()
            columns = {name: column[rows].tolist() for name, column in values.items()}
            made.append((rows, columns, find_row_matches(program, columns, len(rows))))
        return made

    @cached_property
    def _with_timed_out(self) -> list[list[RowMatch]]:
        """The matches by partition, with the partial matches that ran out of time."""
        program, parts = self._program, self.partitions
        assert program.within is not None
        clock = program.within[0]
        now = latest_time(latest_time(columns[clock]) for _, columns, _ in parts)
        return [with_timed_out(program, columns, len(rows), found, now) for rows, columns, found in parts]

    def measured(self, shown: str | None = None) -> tuple[np.ndarray, list[Values]]:
        """Return a row of the frame for each row of the result, and the values of each measure.

        ``shown`` is a key of ``ROWS_PER_MATCH``, and shows matches only. None shows the rows of the query.
        For one row per match, the row of the frame is some row of the partition.
        """
        late = shown is None and self._program.timed_out
        shown = self._query.rows_per_match if shown is None else shown
        every = self._with_timed_out if late else [matches for _, _, matches in self.partitions]
        rows: list[np.ndarray] = []
        values: list[list[Any]] = []
        for (order, columns, _), matches in zip(self.partitions, every, strict=True):
            checkpoint()
            for row, made in output_rows(self._program, self._measures, shown, columns, len(order), matches):
                rows.append(order[row])
                values.append(made)
        return np.array(rows, np.int64), [[row[i] for row in values] for i in range(len(self._measures))]
