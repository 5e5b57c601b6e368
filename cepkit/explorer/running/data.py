"""A frame that keeps its columns and events between runs, so that a run reads nothing twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import numpy as np

from cepkit.api.searching import match_events
from cepkit.api.sources import source_of
from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.match_recognize.bound import BoundRowQuery, bind_row_query
from cepkit.engines.match_recognize.row_match_set import SearchedRows
from cepkit.errors import UnsupportedQueryError
from cepkit.events import TEXT, Column, ColumnType, Events, Frame, Source
from cepkit.explorer.query.thresholds import SampledRows
from cepkit.explorer.running.sampling import sample_rows
from cepkit.frames.building import build_events
from cepkit.frames.row_events import searched_rows
from cepkit.frames.wrapped import WrappedSource
from cepkit.language.match_recognize.asked import RowsQuery
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine, EngineValue, choose_engine
from cepkit.planning.validation import compile_checked
from cepkit.results.match_recognize.found import ROWS_ENGINE, find_rows
from cepkit.results.matches import Matches

AnyProgram = Program | SequenceProgram | BoundRowQuery

KEPT = 4  # event tables with different columns, keys or orders
SAMPLE = 20_000  # rows that say which values a column has
FEW_TEXTS = 12  # texts in the note on a column


class KeptColumns(WrappedSource):
    """A source of columns that reads each column once."""

    def __init__(self, source: Source):
        super().__init__(source)
        self._columns: dict[tuple, Column] = {}

    def column(self, name: str) -> Column:
        """Return a column by name."""
        if (name,) not in self._columns:
            self._columns[name,] = self._source.column(name)
        return self._columns[name,]

    def item(self, name: str, index: int) -> Column:
        """Return an item of a list column."""
        if (name, index) not in self._columns:
            self._columns[name, index] = self._source.item(name, index)
        return self._columns[name, index]


class SearchedFrame:
    """A pandas, polars or Arrow frame for many searches. Do not change the frame."""

    def __init__(self, frame: Frame):
        source, self.native = source_of(frame)
        self.frame, self.source = frame, KeptColumns(source)
        self._events: OrderedDict[tuple, Events] = OrderedDict()
        self._rows: tuple[tuple, SearchedRows] | None = None
        self._sampled: tuple[tuple, SampledRows] | None = None

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """The types of the columns."""
        return self.source.schema

    def compile(self, query: RegexQuery | SequenceQuery | RowsQuery) -> AnyProgram:
        """Return a query bound to the columns after every check that does not read rows."""
        if isinstance(query, RowsQuery):
            return bind_row_query(query.whole, self.schema, dict(query.params), self.source.clock)
        return compile_checked(query, self.source)

    def events(self, program: AnyProgram) -> Events:
        """Return the events for a program; programs that read the same columns share them."""
        if isinstance(program, BoundRowQuery):
            return self.searched(program).events
        query = program.query
        derived = tuple(sorted((name, repr(of)) for name, of in program.derived.items()))
        key = (query.partition_by, query.order_by, program.columns_to_read, derived)
        if key not in self._events:
            self._events[key] = build_events(self.source, program)
            while len(self._events) > KEPT:
                self._events.popitem(last=False)
        self._events.move_to_end(key)
        return self._events[key]

    def searched(self, bound: BoundRowQuery) -> SearchedRows:
        """Return the rows for a query of MATCH_RECOGNIZE; queries that read the same columns share them."""
        key = (bound.query.partition_by, bound.query.keys, bound.columns)
        if self._rows is None or self._rows[0] != key:
            self._rows = key, searched_rows(self.source, bound)
        elif self._rows[1].bound is not bound:
            self._rows = key, self._rows[1].asked(bound)
        return self._rows[1]

    def engine_for(self, program: AnyProgram, engine: str | EngineValue) -> Engine:
        """Return the engine that runs a program."""
        if not isinstance(program, BoundRowQuery):
            return choose_engine(program, engine)
        if engine != "auto":
            raise UnsupportedQueryError(f"engine={engine!r}: MATCH_RECOGNIZE has an engine of its own")
        return ROWS_ENGINE

    def run(
        self,
        program: AnyProgram,
        engine: str | EngineValue = "auto",
        progress: Callable[[int], None] | None = None,
    ) -> Matches:
        """Return the matches; a sequence finds them on demand."""
        chosen = self.engine_for(program, engine)
        if isinstance(program, BoundRowQuery):
            return Matches(find_rows(self.searched(program)), self.source, chosen, self.native)
        return match_events(program, self.source, self.events(program), self.native, chosen, progress)

    # --- columns and their values

    def sample_for(self, query: RegexQuery | SequenceQuery | RowsQuery) -> SampledRows:
        """Return some rows of the frame by the keys and the order of a query, for the ranges of sliders."""
        key = query.partition_by, query.order_by, getattr(query, "event_type", None)
        if self._sampled is None or self._sampled[0] != key:
            self._sampled = key, sample_rows(self.source, *key)
        return self._sampled[1]

    def sample(self, name: str) -> Column:
        """Return some thousand values of a column, evenly spaced over the frame."""
        step = max(1, self.source.n_rows // SAMPLE)
        return self.source.column(name).take(slice(None, None, step))

    def columns(self, has_notes: bool = True) -> list[dict[str, str]]:
        """Return the ``name``, the ``dtype`` and a ``note`` on the values of every column.

        Notes read the columns of texts; without them, the schema is enough.

        """
        described = []
        for name, of in self.schema.items():
            note = "several columns of this name" if name in self.source.duplicates else ""
            if of.kind == TEXT and has_notes and not note:
                texts = self.texts(name)
                more = f", … {len(texts):,} in all" if len(texts) > FEW_TEXTS else ""
                note = ", ".join(map(str, texts[:FEW_TEXTS])) + more
            described.append({"name": name, "dtype": str(of), "note": note})
        return described

    def texts(self, name: str) -> list[str]:
        """Return the sorted values of a text column; for a long column, the values of a sample."""
        column = self.sample(name)
        used = np.unique(column.values)
        return sorted(str(column.categories[code]) for code in used if code >= 0)
