"""A frame that keeps its columns, events, keys and samples between runs, so that nothing is read twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cepkit.api.searching import match_events
from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.engines.match_recognize.bound import BoundRowQuery, SearchedRows, bind_row_query
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import FLOAT, INTEGER, NULL_INTEGER, TEXT, Column, ColumnType, Events, Frame, Source
from cepkit.explorer.ranges import SampledRows
from cepkit.frames.building import build_events, partition_codes
from cepkit.frames.row_order import searched_rows
from cepkit.frames.sources import WrappedSource, source_of_frame
from cepkit.insight.why_not import cell
from cepkit.language.expressions.durations import counted
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import EngineValue, choose_engine
from cepkit.planning.plans import compile_checked
from cepkit.results.matches import Matches
from cepkit.results.rows_in_memory import find_rows

MOST_ROWS = 10_000  # of a sample
_MOST_READ = 100_000  # about this many rows of some keys are sorted
_WINDOWS = 100  # a longer sample is cut into this many parts
_FEWEST_KEYS, _MOST_KEYS = 16, 2000


def sample_rows(
    source: Source, keys: tuple[str, ...], clocks: tuple[str, ...], event_type: str | None = None
) -> SampledRows:
    """Return a sample of rows of some keys, in the order of the clocks within each key."""
    rows, key = _rows_of_some_keys(source, keys)
    rows, key = _in_order(source, rows, key, clocks)
    begins = np.append(True, key[1:] != key[:-1]) if len(key) else np.empty(0, bool)
    if len(rows) > MOST_ROWS:
        size = MOST_ROWS // _WINDOWS
        starts = np.linspace(0, len(rows) - size, _WINDOWS).astype(np.int64)
        kept = (starts[:, None] + np.arange(size)).ravel()
        rows, begins = rows[kept], begins[kept]
        begins[::size] = True
    read: dict[str, np.ndarray | None] = {}

    def values(name: str) -> np.ndarray | None:
        if name not in read:
            read[name] = _numbers(source, name, rows)
        return read[name]

    return SampledRows(begins, values, _types(source, event_type, rows))


def _rows_of_some_keys(source: Source, keys: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of some keys, key by key, and the key of each row."""
    n = source.n_rows
    try:
        code_of_row, n_codes = partition_codes(source, keys)
    except CepError:  # values that cannot be keys: the editor says it
        code_of_row, n_codes = np.zeros(n, np.int32), 1
    if n_codes < 2:
        return np.arange(n), code_of_row
    n_keys = min(max(_MOST_READ * n_codes // n, _FEWEST_KEYS), _MOST_KEYS)
    if n_keys >= n_codes:
        chosen = np.arange(n_codes)
    else:
        chosen = np.unique(code_of_row[np.random.default_rng(0).integers(0, n, n_keys)])
    # Small integers are sorted fastest.
    key_of_code = np.zeros(n_codes, np.uint16 if len(chosen) < 2**16 else np.int64)
    key_of_code[chosen] = np.arange(1, len(chosen) + 1)
    key = key_of_code[code_of_row]
    rows = np.flatnonzero(key)
    key = key[rows]
    order = np.argsort(key, kind="stable")
    return rows[order], key[order]


def _in_order(
    source: Source, rows: np.ndarray, key: np.ndarray, clocks: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of every key in the order of the clocks."""
    kept = [name for name in clocks if name in source.schema and source.schema[name].kind != TEXT]
    times = [np.asarray(source.column(name).values)[rows] for name in kept]
    if not times or len(rows) < 2:
        return rows, key
    is_after, is_tie = key[1:] > key[:-1], key[1:] == key[:-1]
    for time in times:
        is_after |= is_tie & (time[1:] > time[:-1])
        is_tie &= time[1:] == time[:-1]
    if bool((is_after | is_tie).all()):
        return rows, key
    order = np.lexsort([*times[::-1], key])
    return rows[order], key[order]


def _numbers(source: Source, name: str, rows: np.ndarray) -> np.ndarray | None:
    """Return the numbers of a column at some rows; NaN for missing ones."""
    column_type = source.schema.get(name)
    if column_type is None or column_type.kind not in (INTEGER, FLOAT) or name in source.duplicates:
        return None
    stored = source.column(name).values[rows]
    values = stored.astype(np.float64)
    if column_type.kind == INTEGER and column_type.nullable:
        values[stored == NULL_INTEGER] = np.nan
    return values


def _types(source: Source, name: str | None, rows: np.ndarray) -> np.ndarray | None:
    """Return the event types of some rows as texts or numbers."""
    if name is None or name not in source.schema or name in source.duplicates:
        return None
    column: Column = source.column(name)
    values = column.values[rows]
    if column.type.kind != TEXT:
        return values
    texts = np.append(np.asarray(column.texts, object), None)
    return texts[values]


# A frame that keeps its columns and events between runs, so that a run reads nothing twice.

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
        if (name,) not in self._columns:
            self._columns[name,] = self._source.column(name)
        return self._columns[name,]

    def item(self, name: str, index: int) -> Column:
        if (name, index) not in self._columns:
            self._columns[name, index] = self._source.item(name, index)
        return self._columns[name, index]


class SearchedFrame:
    """A pandas, polars or Arrow frame for many searches. Do not change the frame."""

    def __init__(self, frame: Frame):
        source, self.native = source_of_frame(frame)
        self.frame, self.source = frame, KeptColumns(source)
        self._events: OrderedDict[tuple, Events] = OrderedDict()
        self._rows: tuple[tuple, SearchedRows] | None = None
        self._sampled: tuple[tuple, SampledRows] | None = None
        self.places_of_columns: dict[tuple, list[int]] = {}  # of tables of matches, see `Pages`

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        return self.source.schema

    def compile(self, query: RegexQuery | SequenceQuery | RowsQuery) -> AnyProgram:
        """Return a query bound to the columns after every check that does not read rows."""
        if isinstance(query, RowsQuery):
            return bind_row_query(query.whole, self.schema, dict(query.params)).ordered_by(self.source.clock)
        return compile_checked(query, self.source)

    def events(self, program: AnyProgram) -> Events:
        """Return the events for a program; programs that read the same columns share them."""
        if isinstance(program, BoundRowQuery):
            return self.searched(program).events
        query = program.query
        derived = tuple(sorted((name, repr(derivation)) for name, derivation in program.derived.items()))
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

    def run(
        self, program: AnyProgram, engine: str | EngineValue = "auto",
        progress: Callable[[int], None] | None = None,
    ) -> Matches:  # fmt: skip
        """Return the matches; a sequence finds them on demand."""
        if isinstance(program, BoundRowQuery):
            if engine != "auto":
                raise UnsupportedQueryError(f"engine={engine!r}: MATCH_RECOGNIZE has an engine of its own")
            return Matches(find_rows(self.searched(program), self.source, self.native))
        chosen = choose_engine(program, engine)
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
        """Return the ``name``, the ``dtype`` and a ``note`` on the values of every column."""
        described = []
        for name, column_type in self.schema.items():
            note = "several columns of this name" if name in self.source.duplicates else ""
            if column_type.kind == TEXT and has_notes and not note:
                texts = self.texts(name)
                more = f", … {len(texts):,} in all" if len(texts) > FEW_TEXTS else ""
                note = ", ".join(map(str, texts[:FEW_TEXTS])) + more
            described.append({"name": name, "dtype": str(column_type), "note": note})
        return described

    def texts(self, name: str) -> list[str]:
        """Return the sorted values of a text column; for a long column, the values of a sample."""
        column = self.sample(name)
        used = np.unique(column.values)
        return sorted(str(column.categories[code]) for code in used if code >= 0)


# The keys of a frame: their names, their order, and a search among them.

KEYS_PER_PAGE = 12
BY_NAME, MOST, FEWEST = "name", "most", "fewest"


class Keys:
    """The keys of a frame that have events, sorted by values; a key has the number of its partition."""

    def __init__(self, source: Source, events: Events, by: tuple[str, ...]):
        self.by, self._source = by, source
        position = np.full(events.n_partitions, -1, np.int64)
        # The first event of a key is written last.
        position[events.partition_of_event[::-1]] = np.arange(events.n_events - 1, -1, -1)
        partitions = np.flatnonzero(position >= 0)
        self._row_of_partition = np.full(events.n_partitions, -1, np.int64)
        self._row_of_partition[partitions] = events.rows(position[partitions])
        self._own = partitions

    def __len__(self) -> int:
        return len(self._own)

    @cached_property
    def partitions(self) -> np.ndarray:
        """The numbers of the keys, sorted by the values of the keys; nulls come last."""
        rows = self._row_of_partition[self._own]
        frame = pd.DataFrame(
            {i: self._source.arrow(name, rows).to_pandas() for i, name in enumerate(self.by)}
        )
        try:
            order = frame.sort_values(list(frame.columns), kind="stable").index
        except TypeError:  # values without an order
            order = frame.astype(str).sort_values(list(frame.columns), kind="stable").index
        return self._own[order.to_numpy()]

    @cached_property
    def _place_of_partition(self) -> np.ndarray:
        place = np.full(len(self._row_of_partition), -1, np.int64)
        place[self.partitions] = np.arange(len(self))
        return place

    @cached_property
    def names(self) -> list[str]:
        """The values of every key in the order of `partitions`, as text."""
        return [", ".join(values) for values in self._values_of(self.partitions)]

    @cached_property
    def _folded(self) -> list[str]:
        return [name.casefold() for name in self.names]

    def text_of(self, partition: int) -> str:
        """Return a key in words, such as ``symbol = AAA``."""
        [values] = self._values_of([partition])
        return ", ".join(f"{name} = {value}" for name, value in zip(self.by, values, strict=True))

    def describe(self, partition: int, counts: np.ndarray | None = None) -> dict[str, Any]:
        """Return the trait of the shown key; ``counts`` has the number of matches of every partition."""
        return {
            "text": self.text_of(partition), "place": int(self._place_of_partition[partition]) + 1,
            "n": len(self), "matches": "" if counts is None else counted(int(counts[partition]), "match"),
        }  # fmt: skip

    def name_of(self, partition: int) -> str:
        """Return the values of a key as text, as in `names`."""
        return ", ".join(next(self._values_of([partition])))

    def _values_of(self, partitions: Any) -> Iterator[tuple[str, ...]]:
        rows = self._row_of_partition[partitions]
        columns = (self._source.arrow(name, rows).to_pylist() for name in self.by)
        return zip(*([cell(value) or "null" for value in column] for column in columns), strict=True)

    def neighbour(self, partition: int | None, step: int) -> int:
        """Return the key before (-1) or after (1) a key; the last key comes before the first one."""
        place = 0 if partition is None else int(self._place_of_partition[partition])
        return int(self.partitions[(place + step) % len(self)])

    def partition_of(self, name: str) -> int | None:
        """Return the number of a key by its values as text, or None."""
        return self._partition_of_name.get(name)

    @cached_property
    def _partition_of_name(self) -> dict[str, int]:
        return dict(reversed(list(zip(self.names, self.partitions.tolist(), strict=True))))

    def find(
        self, search: str, order: str, page: int, shown: int | None, counts: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Return the trait of a page of the keys that contain a text."""
        text = search.strip().casefold()
        places = np.arange(len(self))
        if text:
            places = np.array([i for i, name in enumerate(self._folded) if text in name], np.int64)
        if counts is not None and order in (MOST, FEWEST):
            place_counts = counts[self.partitions[places]]
            places = places[np.argsort(place_counts if order == FEWEST else -place_counts, kind="stable")]
        n_pages = max(1, -(-len(places) // KEYS_PER_PAGE))
        page = min(max(page, 1), n_pages)
        here = places[(page - 1) * KEYS_PER_PAGE : page * KEYS_PER_PAGE]
        partitions = self.partitions[here].tolist()
        rows = [
            {
                "id": partition, "text": self.names[place],
                "matches": "" if counts is None else f"{int(counts[partition]):,}",
            }
            for partition, place in zip(partitions, here.tolist(), strict=True)
        ]  # fmt: skip
        return {
            "search": search, "order": order, "page": page, "n_pages": n_pages, "rows": rows, "shown": shown,
            "told": _count_of_keys(len(places), len(self), bool(text), counts),
        }  # fmt: skip


def _count_of_keys(n: int, n_keys: int, is_search: bool, counts: np.ndarray | None) -> str:
    keys = counted(n_keys, "key")
    if is_search:
        return f"{n:,} of {keys}" if n else f"none of {keys} contains this text"
    if counts is None:
        return f"{keys}"
    n_with = int((counts > 0).sum())
    return f"{keys}, {n_with:,} with matches, {n_keys - n_with:,} without"


def count_by_partition(partition_of_end: np.ndarray, counts: Any, n_partitions: int) -> np.ndarray:
    """Return the number of matches of every partition, as int64 or as Python's integers."""
    if counts is None:
        return np.bincount(partition_of_end, minlength=n_partitions)
    total = np.zeros(n_partitions, object if isinstance(counts, list) else np.int64)
    np.add.at(total, partition_of_end, np.asarray(counts, total.dtype))
    return total
