"""The search of MATCH_RECOGNIZE in a frame: by kernels where they can, else by Python, with equal results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.navigations import reach_of
from cepkit.compile.match_recognize.vectors.vector import NotVectorizedError
from cepkit.engines.match_recognize.finding import find_in_partitions, reason_for_python
from cepkit.engines.match_recognize.found_rows import FEWEST_ROWS, FoundRows, collect_matches
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, find_row_matches
from cepkit.engines.match_recognize.measuring import MeasureReader, arrow_of_vector
from cepkit.engines.match_recognize.output import output_rows
from cepkit.engines.match_recognize.points import Points, points_of, unmatched_places
from cepkit.engines.match_recognize.row_input import RowInput
from cepkit.engines.match_recognize.time_outs import latest_time, with_timed_out
from cepkit.events import Source
from cepkit.frames.row_order import order_of_rows, placing, plain_columns
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey
from cepkit.limits import check_memory
from cepkit.progress import checkpoint
from cepkit.results.arguments import PER_CELL

# The rows of the frame, the columns as Python values, and the matches of a partition.
PartitionMatches = tuple[np.ndarray, Mapping[str, list], list[RowMatch]]
Values = list[Any] | pa.Array


class RowPatternSearch:
    """The matches of a query in a frame, and their measures."""

    def __init__(
        self,
        source: Source,
        query: RowPatternQuery,
        program: RowProgram,
        measures: Sequence[Compiled],
        partition_by: Sequence[str],
        order_by: Sequence[SortKey],
        params: Mapping[str, Any] | None = None,
        latest: int | None = None,
    ):
        self._latest = latest
        self._source, self._query, self._program, self._measures = source, query, program, measures
        self._plain_column = plain_columns(source)
        self.order = order_of_rows(source, partition_by, order_by)
        reach = reach_of([tree for _, tree in query.define])
        given = source.schema, source.column, self._plain_column, self.order, reach, params
        self._given = RowInput(*given, placing(source, self.order))
        self._by_kernels: FoundRows | None = None
        if self.order.n_places >= FEWEST_ROWS and reason_for_python(program) is None:
            self._by_kernels = find_in_partitions(program, dict(query.define), self._given)
        if self._by_kernels is None:
            self.partitions  # noqa: B018  an error is raised now

    @property
    def n_matches(self) -> int:
        """The number of matches, with empty ones."""
        return self.found.n_matches

    @cached_property
    def found(self) -> FoundRows:
        """The matches as arrays."""
        if self._by_kernels is not None:
            return self._by_kernels
        return collect_matches(self.order, [matches for _, _, matches in self.partitions])

    @cached_property
    def partitions(self) -> list[PartitionMatches]:
        """The matches by partition, as single values."""
        program = self._program
        values = {name: self._plain_column(name) for name in program.columns}
        known = None if self._by_kernels is None else self._by_kernels.by_partition(self.order)
        made, n_bytes = [], 0
        for i, rows in enumerate(self.order.partitions()):
            checkpoint()
            columns = {name: column[rows].tolist() for name, column in values.items()}
            matches = find_row_matches(program, columns, len(rows)) if known is None else known[i]
            n_bytes += sum(match.n_bytes for match in matches)
            check_memory(n_bytes, "the matches", is_held=True)
            made.append((rows, columns, matches))
        return made

    @cached_property
    def _with_timed_out(self) -> list[list[RowMatch]]:
        """The matches by partition, with the partial matches that ran out of time."""
        program, parts = self._program, self.partitions
        assert program.within is not None
        clock, now = program.within[0], self._latest
        if now is None:
            now = latest_time(latest_time(columns[clock]) for _, columns, _ in parts)
        return [with_timed_out(program, columns, len(rows), found, now) for rows, columns, found in parts]

    def measured(self, shown: str | None = None) -> tuple[np.ndarray, list[Values]]:
        """Return a row of the frame for each row of the result, and the values of each measure.

        ``shown`` is a key of ``ROWS_PER_MATCH``, and shows matches only. None shows the rows of the query.
        For one row per match, the row of the frame is some row of the partition.

        """
        late = shown is None and self._program.timed_out
        shown = self._query.rows_per_match if shown is None else shown
        found = self._by_kernels
        if found is None:
            return self._measured_by_python(self._measures, shown, late)
        n_rows = found.n_matches if shown == "one" else found.n_states
        check_memory(PER_CELL * n_rows * (1 + len(self._measures)), f"{n_rows:,} rows of the result")
        states = np.array(self._program.automaton.excluded, bool)
        points = points_of(found, shown, states)
        reader = MeasureReader(self._program, found, points, self._given)
        columns: list[pa.Array | None] = []
        for (_, tree), measure in zip(self._query.measures, self._measures, strict=True):
            checkpoint()
            try:
                columns.append(arrow_of_vector(reader.value(tree), measure.type, len(points)))
            except NotVectorizedError:
                columns.append(None)
        if shown == "one":  # the result has columns of PARTITION BY, which any row of the partition has
            first_row = self.order.rows(self.order.first_place_of_partition[:-1])
            rows = np.repeat(first_row, np.diff(found.first_match_of_partition))
        elif shown == "all_with_unmatched":
            places, columns = self._with_unmatched(found, points, columns)
            rows = self.order.rows(places)
        else:
            rows = self.order.rows(points.place_of_point)
        others = [i for i, column in enumerate(columns) if column is None]
        values: list[Values] = list(columns)
        if others:
            _, made = self._measured_by_python([self._measures[i] for i in others], shown)
            for i, own in zip(others, made, strict=True):
                values[i] = own
        return rows, values

    def _with_unmatched(
        self, found: FoundRows, points: Points, columns: list[pa.Array | None]
    ) -> tuple[np.ndarray, list[pa.Array | None]]:
        """Return places and columns with the rows of the input that belong to no match, in order."""
        unmatched = unmatched_places(found, self.order.n_places)
        places = np.concatenate([points.place_of_point, unmatched])
        numbers = np.concatenate([found.number_of_match[points.match_of_point], np.zeros_like(unmatched)])
        order = np.lexsort([numbers, places])
        taken = [
            column
            if column is None
            else pa.concat_arrays([column, pa.nulls(len(unmatched), column.type)]).take(pa.array(order))
            for column in columns
        ]
        return places[order], taken

    def _measured_by_python(
        self, measures: Sequence[Compiled], shown: str, late: bool = False
    ) -> tuple[np.ndarray, list[Values]]:
        rows: list[np.ndarray] = []
        values: list[list[Any]] = []
        every = self._with_timed_out if late else [matches for _, _, matches in self.partitions]
        for (order, columns, _), matches in zip(self.partitions, every, strict=True):
            checkpoint()
            for row, made in output_rows(self._program, measures, shown, columns, len(order), matches):
                rows.append(order[row])
                values.append(made)
        return np.array(rows, np.int64), [[row[i] for row in values] for i in range(len(measures))]
