"""A join whose two streams come in one table: each row has the columns of both sides, and its side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cepkit.streaming.batches import StreamSchema
from cepkit.streaming.operators.join_search import JoinSearch
from cepkit.streaming.saved import Saved
from cepkit.streaming.search import Options, Ready, Search
from cepkit.windows.joining import plan_join
from cepkit.windows.values import EMITTED, SIDES, Join

SIDE = "side"  # the column with the number of the side: 0 is the left one


@dataclass(frozen=True)
class Sides:
    """A join with the schemas of its sides, as the query of rows that come in one table."""

    join: Join
    schemas: tuple[StreamSchema, StreamSchema]  # of the left and of the right side

    @property
    def order_by(self) -> tuple[str, ...]:
        """No column: the search sorts each side."""
        return ()

    @property
    def schema(self) -> StreamSchema:
        """The columns of the table."""
        fields = [
            pa.field(f"{side}_{field.name}", field.type)
            for side, schema in zip(SIDES, self.schemas, strict=True)
            for field in schema.arrow
        ]
        return StreamSchema(pa.schema([pa.field(SIDE, pa.int32(), False), *fields]))

    @property
    def clocks(self) -> tuple[str, str]:
        """The clock of each side."""
        return self._plan.clocks

    @property
    def keys(self) -> dict[str, str]:
        """Key columns of the left side, with those of the right side, that divide the rows; empty if none do.

        A window of rows counts the rows of all keys, and measures range over the pairs of all keys. Keys of
        different types have different hashes.

        """
        if not self.is_timed or self.join.measures:
            return {}
        types = [
            tuple(schema.arrow.field(name).type for schema, name in zip(self.schemas, pair, strict=True))
            for pair in self.join.on
        ]
        return dict(self.join.on) if all(one == other for one, other in types) else {}

    @property
    def is_timed(self) -> bool:
        """Whether no side has a window of rows."""
        return all(size is None or size.is_time for size in self._plan.sizes)

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the rows of one time matters to the result."""
        return not self.is_timed or bool(self.join.measures)

    @property
    def _plan(self):
        return plan_join(self.join, tuple(schema.source() for schema in self.schemas))

    def clock_of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the time of every row."""
        left, right = (rows.column(f"{side}_{name}") for side, name in zip(SIDES, self.clocks, strict=True))
        is_left = rows.column(SIDE).to_numpy() == 0
        place = np.where(is_left, 0, len(rows)) + np.arange(len(rows))
        return pa.chunked_array([*left.chunks, *right.chunks], left.type).take(pa.array(place))

    def tables(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the rows of each side with their own columns."""
        parts = []
        for which, (side, schema) in enumerate(zip(SIDES, self.schemas, strict=True)):
            own = rows.filter(pa.array(rows.column(SIDE).to_numpy() == which))
            names = schema.arrow.names
            own = own.select([f"{side}_{name}" for name in names]).rename_columns(names)
            parts.append(own.cast(schema.arrow))
        return parts[0], parts[1]

    def __str__(self) -> str:
        return repr(self.join)


class SidesSearch(Search):
    """A join of two streams whose rows come together, up to a time that both of them have passed."""

    def __init__(self, query: Sides, options: Options):
        self.query = query
        self._search = JoinSearch(query.join, query.schemas, options)
        self.empty, self.column_of_result = self._search.empty, self._search.column_of_result

    @property
    def n_keys(self) -> int:
        """No number: a join remembers rows, not keys."""
        return 0

    @property
    def n_retained(self) -> int:
        """Number of rows that wait for partners."""
        return self._search.n_retained

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Read the next rows of both sides, and return their pairs."""
        return self._search.advance(self.query.tables(table), are_certain=True)

    def pass_time(self, now: int) -> Ready:
        """Forget the rows that have left their windows."""
        self._search.forget(now)
        return self.release()

    @property
    def wakes_at(self) -> int | None:
        """When the last row leaves its window of time."""
        return self._search.ends_at

    def delay_of(self, column: str) -> int | None:
        """Return 0 for the time of the arrival."""
        return 0 if column == EMITTED else None

    def finish(self, n_events: int) -> Ready:
        """Return no pairs: all of them were returned when their rows came."""
        return self.release()

    def pack(self, n_events: int) -> Saved:
        """Return the content of the search for a file."""
        return self._search.pack()

    def unpack(self, saved: Saved) -> None:
        """Restore what `pack` returned; the search was opened with the same join and options."""
        self._search.unpack(saved)
