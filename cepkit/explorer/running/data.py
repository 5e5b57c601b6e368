"""A frame that keeps its columns, keys and samples between runs, and what roles its columns seem to have."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cepkit.api.searching import match_events
from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.engines.match_recognize.bound import BoundRowQuery, SearchedRows, bind_row_query
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import (
    DURATION,
    FLOAT,
    INTEGER,
    NULL_INTEGER,
    NUMBERS,
    TEXT,
    TIME,
    Column,
    ColumnType,
    Events,
    Frame,
    Source,
    nulls,
)
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
from cepkit.values import dataclass

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
        kept = (starts[:, None] + np.arange(size)).ravel()  # stretches of equal length from all over the rows
        rows, begins = rows[kept], begins[kept]
        begins[::size] = True  # the row before is not in the sample
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
        """Return the place of each partition in the list of keys, or -1."""
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
    """Return how many keys there are, as a text."""
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


MOST_TYPES = 24  # a column of event types has at most this many values
_REPEATS = 1.5  # rows of a key, on average
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d|$)")

# Words of names, the most telling first.
_CLOCKS = [
    "ts", "timestamp", "datetime", "time", "date", "at", "when", "epoch", "created", "occurred",
    "logged", "t", "tick", "ms", "seconds", "minute", "step",
]  # fmt: skip
_TYPES = [
    "event", "action", "activity", "concept", "type", "kind", "status", "state", "level", "severity",
    "stage", "step", "outcome", "result", "operation", "op", "method", "command", "verb", "signal",
    "phase", "mode", "category",
]  # fmt: skip
_KEYS = [
    "symbol", "ticker", "instrument", "isin", "stock", "asset", "coin", "pair", "case", "order",
    "ticket", "incident", "trace", "job", "task", "claim", "shipment", "parcel", "trip", "flight",
    "user", "visitor", "customer", "account", "client", "member", "person", "patient", "player",
    "driver", "employee", "student", "uid", "cookie", "email", "card", "session", "device", "sensor",
    "machine", "host", "server", "vehicle", "car", "truck", "meter", "station", "node", "service",
    "container", "pod", "unit", "engine", "pump", "room", "zone", "site", "ip", "source", "item", "sku",
    "product", "store", "shop", "entity", "group", "key", "id",
]  # fmt: skip
_PERSONS = _KEYS[_KEYS.index("user") : _KEYS.index("session")]
_MEASURES = ["price", "close", "value", "amount"]
_IDS = {"id", "ids", "uuid", "guid"}
_OF_IDENTIFIERS = {*_IDS, "number", "no", "nr", "code", "name", "concept", "hash", "ref"}
_OF_NUMBERS = [
    "row", "index", "idx", "request", "transaction", "txn", "trade", "message", "msg", "record", "line",
    "seq", "sequence", "port", "zip",
]  # fmt: skip
_FREE_TEXTS = {"page", "url", "path", "message", "msg", "text", "comment", "description", "referrer", "agent"}


def _words(name: str) -> list[str]:
    """Return the words in the name of a column, in lower case."""
    words = [word.lower() for word in _WORD.findall(name)]
    joined = name.lower()
    if len(words) == 1 and joined.endswith("id") and joined[:-2] in {*_KEYS, *_OF_NUMBERS, *_TYPES}:
        return [joined[:-2], "id"]
    return words


def _rank(name: str, telling: list[str]) -> int | None:
    """Return the place of a name among telling words; None if it has none of them."""
    return min((telling.index(word) for word in _words(name) if word in telling), default=None)


def is_identifier(name: str) -> bool:
    """Return whether the name is one of an identifier or a code, whose size says nothing."""
    words = [word for word in _words(name) if not word.isdecimal()]
    known = {*_KEYS, *_OF_IDENTIFIERS, *_OF_NUMBERS, *_TYPES}
    return bool(words) and (words[-1] in _IDS or all(word in known for word in words))


def measures_first(names: Iterable[str]) -> list[str]:
    """Return columns of numbers, measures before identifiers, and prices first."""
    return sorted(names, key=lambda name: (is_identifier(name), _rank(name, _MEASURES) is None))


@dataclass(frozen=True, slots=True)
class Roles:
    """The guessed columns; None where nothing fits."""

    clock: str | None
    key: str | None
    event_type: str | None

    def call(self) -> dict[str, Any]:
        """Return the guess as keywords of `cepkit.match`."""
        key = None if self.key is None else [self.key]
        named = {"partition_by": key, "order_by": self.clock, "event_type": self.event_type}
        return {name: value for name, value in named.items() if value is not None}


def guess_roles(head: Source, source: Source, call: Mapping[str, Any]) -> Roles:
    """Return the roles of columns that ``call`` does not have; ``head`` has the first rows of ``source``."""
    usable = {name: dtype for name, dtype in head.schema.items() if name not in head.duplicates}
    taken = {name for role in call.values() for name in ([role] if isinstance(role, str) else role or ())}
    clock = None if "order_by" in call else _clock(head, usable)
    free = [name for name in usable if name not in taken and name != clock]
    n_values = {name: _n_values(head, name) for name in free if usable[name].kind in (TEXT, INTEGER)}
    has_measures = any(_measures(usable, {clock}))
    event_type = None if "event_type" in call else _event_type(usable, n_values, has_measures)
    n_values.pop(event_type, None)
    key = None if "partition_by" in call else _key(head, source, usable, n_values)
    if event_type is None and "event_type" not in call and not has_measures:
        few = [name for name, n in n_values.items() if usable[name].kind == TEXT and 2 <= n <= MOST_TYPES]
        event_type = next((name for name in few if name != key), None)
    return Roles(clock, key, event_type)


def _measures(usable: Mapping[str, ColumnType], taken: set[str | None]) -> Iterable[str]:
    """Return columns of numbers that measure something: no identifiers, whose size says nothing."""
    numbers = (name for name, dtype in usable.items() if dtype.kind in NUMBERS and name not in taken)
    return (name for name in numbers if not is_identifier(name))


def _n_values(source: Source, name: str) -> int:
    return len(np.unique(source.column(name).values))


# --- the clock: a column of times that rises


def _clock(head: Source, usable: Mapping[str, ColumnType]) -> str | None:
    """Return the column that is most likely the clock, or None."""
    times = [name for name, dtype in usable.items() if dtype.kind in (TIME, DURATION)]
    told = {name: _rises(head.column(name)) for name in times}
    whole = {name: rises for name, rises in told.items() if rises is not None}
    if not whole:
        numbers = [name for name, dtype in usable.items() if dtype.kind in (INTEGER, FLOAT)]
        named = {name: _rises(head.column(name)) for name in numbers if _rank(name, _CLOCKS) is not None}
        whole = {name: rises for name, rises in named.items() if rises is not None and rises[0] == 1.0}
    if not whole:
        texts = [name for name, dtype in usable.items() if dtype.kind == TEXT]
        return next((name for name in texts if _has_dates(head.column(name))), None)

    def order(name: str) -> tuple:
        rank, (share, strictly) = _rank(name, _CLOCKS), whole[name]
        return -(share == 1.0), len(_CLOCKS) if rank is None else rank, -share, -strictly

    return min(whole, key=order)


def _rises(column: Column) -> tuple[float, float] | None:
    """Return the share of steps without a fall, and the share of rises; None with missing values."""
    if nulls(column).any():
        return None
    steps = np.diff(column.values)
    return (float((steps >= 0).mean()), float((steps > 0).mean())) if len(steps) else (1.0, 1.0)


def _has_dates(column: Column) -> bool:
    texts = [str(text) for text in column.texts[:50]]
    return bool(texts) and all(_DATE.match(text) for text in texts)


# --- types of events: texts of few values; keys: identifiers that repeat


def _event_type(
    usable: Mapping[str, ColumnType], n_values: Mapping[str, int], has_measures: bool
) -> str | None:
    """Return the column that most likely holds the types of events, or None."""
    few = [name for name, n in n_values.items() if 2 <= n <= MOST_TYPES]
    few = [name for name in few if usable[name].kind == TEXT or not has_measures]
    named = [name for name in few if _rank(name, _TYPES) is not None and _words(name)[-1] not in _IDS]
    return min(named, key=lambda name: (usable[name].kind != TEXT, _rank(name, _TYPES)), default=None)


def _key(
    head: Source, source: Source, usable: Mapping[str, ColumnType], n_values: Mapping[str, int]
) -> str | None:
    """Return the column that is most likely the key, or None."""
    n_values = {name: n + int(nulls(head.column(name)).sum()) for name, n in n_values.items()}
    rank = {name: _rank(name, _KEYS) for name in n_values if is_identifier(name)}
    named = sorted((name for name in rank if rank[name] is not None), key=lambda name: rank[name] or 0)
    persons = [n_values[name] for name in named if n_values[name] > 1 and _rank(name, _PERSONS) is not None]
    n_most = 10 * min(persons, default=np.inf)  # most clicks belong to no order, but all to a person
    named.sort(key=lambda name: "order" in _words(name) and n_values[name] > n_most)
    for name in named:
        if n_values[name] < 2:
            continue
        if n_values[name] * _REPEATS <= head.n_rows:
            return name
        is_part = head.n_rows < source.n_rows and n_values[name] < head.n_rows
        if is_part and _n_values(source, name) * _REPEATS <= source.n_rows:
            return name
    texts = [name for name in n_values if usable[name].kind == TEXT and not _FREE_TEXTS & {*_words(name)}]
    return next((name for name in texts if 2 <= n_values[name] <= head.n_rows / 20), None)
