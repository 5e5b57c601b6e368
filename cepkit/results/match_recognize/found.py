"""The matches of MATCH_RECOGNIZE, as `Matches` reads them: for pictures, tags and boards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.match_recognize.bound import BoundRowQuery, bind_row_query
from cepkit.engines.match_recognize.matching import RowMatch
from cepkit.engines.match_recognize.output import MatchPlace
from cepkit.engines.match_recognize.row_match_set import RowMatchSet, SearchedRows, all_row_matches
from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.engines.shared.match_set import Lineage
from cepkit.errors import UnsupportedQueryError
from cepkit.events import Events, Frame, Source
from cepkit.frames.row_events import searched_rows
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows
from cepkit.planning.planner import Engine
from cepkit.progress import checkpoint
from cepkit.results.arguments import array_of_range
from cepkit.results.found import FoundInMemory
from cepkit.results.match_recognize.columns import arrow_of
from cepkit.results.matches import Matches


@dataclass(frozen=True, eq=False)
class RowsFound(FoundInMemory[RowMatchSet]):
    """The matches with rows, all of them in memory. They are in the order of their last rows.

    ``n_empty`` is the number of empty matches, which no picture can show.

    """

    searched: SearchedRows
    whole: RowMatchSet
    n_empty: int = 0
    run: Any = None
    hint = "df.cep.explain(…) shows how the query was read, df.cep.funnel(…) where matches are lost"

    @property
    def program(self) -> BoundRowQuery:
        """The query, bound to the columns of the frame."""
        return self.searched.bound

    @property
    def events(self) -> Events:
        """The rows that were searched."""
        return self.searched.events

    def narrow(self, numbers: range) -> RowsFound:
        """Return the matches with these numbers as a result of their own."""
        whole = self.whole.take(array_of_range(numbers))
        return RowsFound(self.searched, whole)

    def measure(self, part: RowMatchSet, source: Source) -> dict[str, Measured]:
        """Return one row for each match: the partition columns and the measures at its last row.

        A query without measures has the order columns of the first and the last row, and the number of rows.

        """
        query, events = self.program.query, self.events
        first = events.rows(part.first)
        made: dict[str, Measured] = {name: Picked(name, first) for name in query.partition_by}
        names = [name for name, _ in query.rows.measures]
        if not names:
            last = events.rows(part.last)
            for key in query.keys:
                made[f"first_{key.column}"] = Picked(key.column, first)
                made[f"last_{key.column}"] = Picked(key.column, last)
            return made | {"rows": pa.array(np.diff(part.first_item_of_match))}
        values = self._values(part)
        for i, (name, measure) in enumerate(zip(names, self.program.measures, strict=True)):
            made[name] = arrow_of([row[i] for row in values], measure.type)
        return made

    def _values(self, part: RowMatchSet) -> list[list[Any]]:
        """Return the measures of each match at its last row."""
        program, values = self.program.program, [[]] * len(part)
        bounds, rank = part.first_item_of_match, self.events.rank_by_partition
        for m in np.argsort(part.partition, kind="stable").tolist():  # a partition is read once
            checkpoint()
            own = self.searched.partition(int(part.partition[m]))
            start = int(rank[part.first[m]] - rank[own.positions[0]])
            states = tuple(part.state_of_item[bounds[m] : bounds[m + 1]].tolist())
            match = RowMatch(int(part.number[m]), start, states)
            place = MatchPlace(program, own.columns, own.n_rows, match)
            values[m] = [measure.call(place, -1) for measure in self.program.measures]
        return values

    def items(self, part: RowMatchSet) -> Lineage:
        """Return the rows of a part."""
        return part.lineage

    def variables(self, part: RowMatchSet) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""
        names = np.array([*self.program.program.automaton.variable_of_state, ""], dtype=object)
        return names[part.state_of_item]

    def aggregate(self, source: Source, aggregates: Mapping[str, str]) -> pd.Series:
        """Raise: SQL has its own aggregates."""
        raise UnsupportedQueryError("aggregate: write the aggregates in MEASURES, or aggregate to_frame()")


def find_rows(searched: SearchedRows) -> RowsFound:
    """Search the rows and return the matches."""
    whole, n_matches = all_row_matches(searched)
    return RowsFound(searched, whole, n_matches - len(whole))


def _only_rows(program: Any) -> str | None:
    return None if isinstance(program, BoundRowQuery) else "it runs MATCH_RECOGNIZE only"


ROWS_ENGINE = Engine("preference", "finds the matches that SQL prefers, one partition at a time", _only_rows)


def matches_of_rows(
    query: RowPatternQuery | SelectedRows,
    source: Source,
    native: Callable[[Frame], Frame],
    params: Mapping[str, Any] | None = None,
) -> Matches:
    """Search a frame and return the matches with rows as pictures and boards read them."""
    bound = bind_row_query(query, source.schema, params, source.clock)
    return Matches(find_rows(searched_rows(source, bound)), source, ROWS_ENGINE, native)
