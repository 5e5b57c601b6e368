"""Batches of a stream as kernel inputs, with the same dtypes and codes in every batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.interpreted_columns import column_before_matching
from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.bound_query import BoundQuery, Inputs, used_tables
from cepkit.compile.shared.decimals import check_sizes, digits_of, is_exact, with_scale
from cepkit.compile.shared.terms import Exact, Later, Members
from cepkit.engines.reducing import one_chunk
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, Column, ColumnType, Events
from cepkit.frames.arrow import ArrowSource, FieldTypes, column_of_arrow, exact_decimals, type_of_arrow
from cepkit.frames.building import build_events, partition_codes
from cepkit.language.expressions.durations import duration_ticks
from cepkit.streaming.batches import stable_column
from cepkit.streaming.saved import Saved
from cepkit.streaming.values import TextCodes
from cepkit.values import cached_property, dataclass, replace


class CodeMarks:
    """Marks for codes of texts that are needed. Values that may be codes count as codes."""

    def __init__(self, n_codes: int):
        self.is_needed = np.zeros(n_codes, bool)
        self.n_seen = 0

    def add(self, values: np.ndarray) -> None:
        """Mark the codes among these values."""
        self.n_seen += values.size
        self.is_needed[values[(values >= 0) & (values < len(self.is_needed))]] = True


class BatchCoder:
    """Converts tables to columns and kernel inputs of a program; the codes of texts never change."""

    def __init__(self, program: Program):
        _refuse_later_rows(program)
        check_text_orders(program)
        self.codes_of_column = text_codes_of_columns(program)
        # This class codes the texts, so the program needs no common categories.
        self.program = replace(program, text_groups=(), ordered_text=frozenset())
        terms = [t for root in (*program.plan.terms(), *program.plan.slots) for t in root.walk()]
        self._numbers_of_constants = sorted({t.data for t in terms if t.op == "constant"})
        self._constants = [program.constants[i] for i in self._numbers_of_constants]
        self._n_rows = 0  # of decimals so far, which a sum may hold
        self._tables = [program.tables[i] for i in sorted(used_tables(terms))]
        self._inputs: Inputs | None = None
        exact = [derived for derived in program.derived.values() if isinstance(derived, Exact)]
        scales = [program.schema[derived.column].scale or 0 for derived in exact]
        self._scale = max([digits_of(program.constants), *scales])

    def columns(self, source: ArrowSource) -> dict[str, Column]:
        """Return the columns that predicates read, with the rows of ``source``."""
        columns, computed = {}, {}
        for name in self.program.columns:
            derived = self.program.derived.get(name)
            if isinstance(derived, Exact):  # all batches have the scale of the schema
                values = source.arrow(derived.column, np.arange(source.n_rows))
                scale = self.program.schema[derived.column].scale
                columns[name] = exact_decimals(values, derived.column, scale)
                continue
            column = column_before_matching(name, self.program.derived, source, computed)
            column_type = self.program.type_of(name)
            columns[name] = stable_column(column, column_type, name, self.codes_of_column.get(name))
        for name, codes in self.codes_of_column.items():  # a later column may have added texts
            columns[name] = replace(columns[name], categories=codes.texts)
        return with_scale(columns, self._scale)

    def inputs(self, columns: Mapping[str, Column]) -> Inputs:
        """Return the kernel inputs. Only codes whose texts changed since the last call are looked up."""
        if not self.program.compiled:
            return self.program.inputs(columns)
        if self._inputs is None or any(codes.has_changed for codes in self.codes_of_column.values()):
            self._inputs = self._look_up(columns, self._inputs)
        if any(map(is_exact, columns.values())):
            self._n_rows += max(len(column.values) for column in columns.values())
            constants = dict(zip(self._numbers_of_constants, self._inputs.constants, strict=True))
            check_sizes(self.program.terms(), columns, constants, self._n_rows)
        return self._inputs.with_columns(self.program.arrays(columns))

    @property
    def inputs_so_far(self) -> list | None:
        """The arguments of kernels after the columns; None if texts came that they do not know."""
        if self._inputs is None or any(codes.has_changed for codes in self.codes_of_column.values()):
            return None
        return [*self._inputs.constants, *self._inputs.tables, *self._inputs.texts]

    def _look_up(self, columns: Mapping[str, Column], before: Inputs | None) -> Inputs:
        """Return the inputs ``before`` with constants and tables that know the texts of all codes."""
        changed = {codes: codes.take_changed() for codes in self._every}
        news = {}
        for name, column in columns.items():
            news[name] = column.take(slice(0))
            if column.categories is not None:
                changed_codes = changed[self.codes_of_column[name]]
                news[name] = replace(news[name], categories=column.categories[changed_codes])
        inputs = self.program.inputs(news)
        constants = list(inputs.constants)
        for i, constant in enumerate(self._constants):
            if constant.text is not None:
                changed_codes, new = changed[self.codes_of_column[constant.column]], int(inputs.constants[i])
                constants[i] = int(changed_codes[new]) if new >= 0 else before.constants[i] if before else new
        tables = list(inputs.tables)
        for i, table in enumerate(self._tables):
            if not isinstance(table, Members):
                codes = self.codes_of_column[table.column]
                tables[i] = np.zeros(len(codes) + 1, np.uint8)
                if before is not None:
                    tables[i][: len(before.tables[i])] = before.tables[i]
                tables[i][changed[codes] + 1] = inputs.tables[i][1:]
        return replace(inputs, constants=tuple(constants), tables=tuple(tables))

    @property
    def _every(self) -> set[TextCodes]:
        """The codes of all columns; compared columns share theirs."""
        return set(self.codes_of_column.values())

    # --- forgetting

    @property
    def is_due(self) -> bool:
        """Whether a look for texts that nothing needs pays."""
        return any(codes.is_due for codes in self._every)

    def new_marks(self) -> CodeMarks:
        """Return marks for codes that are needed, with those of constants."""
        marks = CodeMarks(max((len(codes) for codes in self._every), default=0))
        for constant in self.program.constants:
            if constant.text is not None:
                code = self.codes_of_column[constant.column].code_of_text.get(constant.text)
                marks.add(np.array([] if code is None else [code], np.int64))
        return marks

    def forget(self, marks: CodeMarks) -> None:
        """Forget the texts of all codes without a mark."""
        for codes in self._every:
            codes.forget(marks.is_needed, marks.n_seen)

    # --- saving

    def pack(self) -> dict[str, pa.Table]:
        """Return the texts by code; one table per shared list, named after its first column."""
        packed = {}
        for name, codes in self.codes_of_column.items():
            if self._first_column(codes) == name:
                packed[name] = codes.pack()
        return packed

    def unpack(self, packed: Mapping[str, pa.Table]) -> None:
        for name, table in packed.items():
            self.codes_of_column[name].unpack(table)

    def _first_column(self, codes: TextCodes) -> str:
        return next(name for name, column_codes in self.codes_of_column.items() if column_codes is codes)


def _refuse_later_rows(program: BoundQuery) -> None:
    if later := next((name for name, derived in program.derived.items() if isinstance(derived, Later)), None):
        raise UnsupportedQueryError(
            f"{later} reads a row that a stream does not have yet. Add a name for that row to the pattern, "
            "and compare it with prev(x) there"
        )


def check_text_orders(program: BoundQuery) -> None:
    """Refuse a query that orders texts of columns without common ordered categories."""
    for group in program.text_groups:
        orders = {program.type_of(name).ordered for name in group}
        if group & program.ordered_text and (len(orders) > 1 or None in orders):
            names = sorted(group)
            raise UnsupportedQueryError(
                f"the query orders the texts of {names} (<, >, min or max of a text), but the order of texts "
                "is unknown while a stream is open; declare them in the schema as "
                "pandas.CategoricalDtype([…], ordered=True), all with the same categories, or compare numbers"
            )


def text_codes_of_columns(program: BoundQuery) -> dict[str, TextCodes]:
    """Return the codes of every text column that predicates read; compared columns share their codes."""
    groups = [group for group in program.text_groups if len(group) > 1]
    codes_of: dict[str, TextCodes] = {}
    for name in program.columns:
        column_type = program.type_of(name)
        if column_type.kind != TEXT or name in codes_of:
            continue
        group = sorted(next((g for g in groups if name in g), {name}))
        orders = {program.type_of(column).ordered for column in group}
        order = next(iter(orders)) if len(orders) == 1 else None
        codes = TextCodes(order or ())
        codes_of |= {column: codes for column in group if column in program.columns}
    return codes_of


# Rows that a stream keeps. Their columns are coded once, when a batch brings them.

_CODED = frozenset((INTEGER, FLOAT, TEXT, BOOLEAN, TIME, DURATION))
_MOST_PARTS = 16  # of a table with the rows of several batches
_MOST_UNUSED = 1 << 10  # rows of the table, and texts, beyond twice those that are used
_FEW_TEXTS = 64  # of a column; Arrow finds them in less time than it codes a batch


class CodedRows(ArrowSource):
    """Some rows of a table with the rows of batches; plain columns are coded."""

    owner, duplicates, _carried = None, frozenset(), {}

    def __init__(
        self, table: pa.Table, place: np.ndarray, coded: dict[str, Column], codes: dict[str, TextCodes]
    ):
        self.table, self.place, self.n_rows = table, place, len(place)
        self._coded, self._codes = coded, codes  # columns of the rows, and the codes of texts

    @classmethod
    def of(cls, table: pa.Table, names: Iterable[str]) -> CodedRows:
        """Return all rows of a table; columns ``names`` are coded if they are plain."""
        types = {field.name: type_of_arrow(field.type) for field in table.schema}
        rows = cls(table, np.arange(len(table)), {}, {})
        for name in names:
            if name in types and types[name].kind in _CODED and types[name].scale is None:
                rows._coded[name] = rows._coded_again(name)
        return rows

    @cached_property
    def schema(self) -> FieldTypes:  # pyright: ignore[reportIncompatibleVariableOverride]
        types = {name: column.type for name, column in self._coded.items()}
        for field in self.table.schema:
            nullable = field.nullable and self.table.column(field.name).null_count > 0
            types.setdefault(field.name, type_of_arrow(field.type, nullable=nullable))
        return FieldTypes(types, self.table.schema)

    @property
    def frame(self) -> pa.Table:
        """These rows as a table."""
        is_whole = len(self.table) == self.n_rows
        return (self.table if is_whole else self.table.take(pa.array(self.place))).combine_chunks()

    def _chunks(self, name: str) -> pa.ChunkedArray:
        chunks = super()._chunks(name)
        return chunks if len(chunks) == self.n_rows else chunks.take(pa.array(self.place))

    def column(self, name: str) -> Column:
        return self._coded[name] if name in self._coded else super().column(name)

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        column = self._coded.get(name)
        if column is not None and column.type.kind in (INTEGER, FLOAT):
            column_of_table, values = self.table.column(name), pa.array(column.values[rows])
            if not column_of_table.null_count and values.type == column_of_table.type:
                return values
        return ArrowSource(self.table, schema=self.schema).arrow(name, self.place[rows])

    def rows(self, rows: np.ndarray, columns: Mapping[str, np.ndarray]) -> pa.Table:
        return ArrowSource(self.table, schema=self.schema).rows(self.place[rows], columns)

    def events(self, program: SequenceProgram) -> Events:
        """Return these rows as `build_events` does."""
        columns = {name: self._coded.get(name) for name in program.columns_to_read}
        if program.derived or None in columns.values() or program.clock_of_waits is not None:
            return build_events(self, program, is_ordered=True)
        return Events(self.n_rows, columns, *self._partitions(program.query.partition_by))

    def _partitions(self, by: tuple[str, ...]) -> tuple[np.ndarray, int]:
        """Return the partition code of every row, int32, and a number above them; some may not occur."""
        column = self._coded.get(by[0]) if len(by) == 1 else None
        if column is not None and column.type.kind == INTEGER and self.n_rows:
            least = column.values.min()
            n_codes = int(column.values.max()) - int(least) + 1
            if n_codes <= 2 * self.n_rows:
                return np.subtract(column.values, least, dtype=np.int64).astype(np.int32), n_codes
        return partition_codes(self, by)

    def with_batch(self, batch: pa.Table) -> CodedRows:
        """Return these rows and those of a batch."""
        n = len(self.table)
        place = np.concatenate([self.place, np.arange(n, n + len(batch))])
        table = pa.concat_tables([self.table, batch]) if n else batch
        rows = CodedRows(table, place, {}, self._codes)
        for name, kept in self._coded.items():
            values = self._values(name, kept, batch.column(name))
            if values is None:
                rows._coded[name] = rows._coded_again(name)
            else:
                texts = None if kept.categories is None else self._codes[name].texts
                rows._coded[name] = Column(kept.type, np.concatenate([kept.values, values]), texts)
        types = [(column.type, self._coded[name].type) for name, column in rows._coded.items()]
        if len(types) == batch.num_columns and all(new is kept for new, kept in types):
            rows.schema = self.schema
        return rows

    def _values(self, name: str, kept: Column, array: pa.ChunkedArray) -> np.ndarray | None:
        """Return the values of a batch as those that are kept; None if a column must be coded again."""
        codes = self._codes.get(name)
        if codes is None:
            new = column_of_arrow(array, name)
            return new.values if new.type == kept.type and new.values.dtype == kept.values.dtype else None
        if len(codes) > 2 * self.n_rows + _MOST_UNUSED:
            return None
        if len(codes) <= _FEW_TEXTS and not array.null_count:
            code = pc.index_in(one_chunk(array), pa.array(codes.texts, array.type))
            if not code.null_count:
                return code.to_numpy()
        new = column_of_arrow(array, name)
        return codes.encode(new.values, new.texts)

    def _coded_again(self, name: str) -> Column:
        """Return a column that is coded without the codes so far."""
        column = super().column(name)
        if column.type.kind != TEXT:
            return column
        codes = TextCodes()
        self._codes = {**self._codes, name: codes}
        return Column(column.type, codes.encode(column.values, column.texts), codes.texts)

    def part(self, rows: np.ndarray | slice) -> CodedRows:
        """Return some of these rows, in their order."""
        place, table = self.place[rows], self.table
        if not len(place):
            table = table.schema.empty_table()
        elif len(table) > 2 * len(place) + _MOST_UNUSED or table.column(0).num_chunks > _MOST_PARTS:
            table, place = table.take(pa.array(place)).combine_chunks(), np.arange(len(place))
        elif place[0]:
            table, place = table.slice(place[0]), place - place[0]
        coded = {n: Column(c.type, c.values[rows], c.categories) for n, c in self._coded.items()}
        part = CodedRows(table, place, coded, self._codes)
        part.schema = self.schema  # a column without nulls counts as before
        return part


# Codes of keys. A key is forgotten after a pause.

Key = tuple[Hashable, ...]
NEVER = 2**63 - 1  # after every row


def keys_of_batch(source: ArrowSource, partition_by: tuple[str, ...]) -> tuple[np.ndarray, list[Key]]:
    """Return the index of each event's key, and the distinct keys of a batch; null equals NaN."""
    key_of_event, n_keys = partition_codes(source, partition_by)
    row = np.full(n_keys, -1, np.int64)
    row[key_of_event[::-1]] = np.arange(len(key_of_event))[::-1]
    occurs = row >= 0
    if not occurs.all():
        key_of_event, row = (np.cumsum(occurs) - 1)[key_of_event], row[occurs]
    values = []
    for name in partition_by:
        array = source.arrow(name, row)
        if pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        values.append(key_values(array))
    return key_of_event, list(zip(*values, strict=True)) if partition_by else [()] * len(row)


def key_values(array: pa.Array | pa.ChunkedArray) -> list:
    """Return the values of an array; a time that Python cannot hold is its number of ticks."""
    try:
        return array.to_pylist()
    except OverflowError:
        array = one_chunk(array)
        if len(array) == 1:
            return [array.view(pa.int64())[0].as_py()]
        return [value for i in range(len(array)) for value in key_values(array.slice(i, 1))]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partition codes of a batch, and the changes of the keys after the batch."""

    # A key that was idle for too long gets a new code. ``runs`` are new (key, code, clock of the last event);
    # the last run of a key wins. ``ended`` are codes that no event at the end of the batch or later has.

    codes: np.ndarray  # int32, (n_events,)
    runs: list[tuple[Key, int, float]]
    ended: list[int]
    taken: list[int]  # codes that were free before the batch


NOTHING_NEW = Assignment(np.empty(0, np.int32), [], [], [])


class KeyCodes:
    """Partition codes of keys; codes of forgotten keys are used again.

    A key is forgotten after a pause of more than ``idle_ticks``. If the pause also ``cuts`` the events of a
    key, the later ones get a new code, even in the same batch.
    """

    def __init__(self, idle_ticks: float | None = None, *, cuts: bool = True):
        self.idle_ticks, self._cuts = idle_ticks, cuts
        self.code_of_key: dict[Key, int] = {}
        self.key_of_code: list[Key | None] = []
        self.newest_of_code = np.empty(0)  # clock of the last event, int64 or float64; with idle_ticks
        self.free: list[int] = []

    def copy(self) -> KeyCodes:
        copied = KeyCodes(self.idle_ticks, cuts=self._cuts)
        copied.code_of_key, copied.newest_of_code = dict(self.code_of_key), self.newest_of_code.copy()
        copied.key_of_code, copied.free = [*self.key_of_code], [*self.free]
        return copied

    def __len__(self) -> int:
        return len(self.code_of_key)

    @property
    def n_codes(self) -> int:
        """The codes are below this number."""
        return len(self.key_of_code)

    def assign(self, own: np.ndarray, keys: list[Key], clock: np.ndarray | None) -> Assignment:
        """Choose the codes of a batch; call `commit` or `discard` next."""
        taken: list[int] = []
        codes = [self.code_of_key.get(key, -1) for key in keys]
        if self.idle_ticks is None or clock is None or not self._cuts:
            newest = np.zeros(len(keys), np.int64 if clock is None else clock.dtype)
            if clock is not None:
                newest[own] = clock  # the last event of a key stays
            runs = []
            changed = keys if clock is not None or -1 in codes else []
            for i, key in enumerate(changed):
                if is_new := codes[i] < 0:
                    codes[i] = self._take(key, taken)
                if is_new or clock is not None:
                    runs.append((key, codes[i], newest[i].item()))
            return Assignment(np.array(codes, np.int32)[own], runs, [], taken)
        return self._assign_runs(own, keys, clock, np.array(codes, dtype=np.int64), taken)

    def _assign_runs(self, own, keys, clock, known, taken) -> Assignment:
        """Cut each key's events into runs without a long pause; a run gets a new code unless it continues."""
        order = np.argsort(own, kind="stable")
        key_of_row, clock_of_row = own[order], clock[order]
        is_first = np.concatenate([[True], key_of_row[1:] != key_of_row[:-1]])
        before = np.roll(clock_of_row, 1)
        first_keys = key_of_row[is_first]
        continued = known[first_keys] >= 0
        before[is_first] = clock_of_row[is_first]
        before[np.flatnonzero(is_first)[continued]] = self.newest_of_code[known[first_keys[continued]]]
        is_new = is_first.copy()
        is_new[is_first] = ~continued
        is_new |= clock_of_row - before > self.idle_ticks
        begins = np.flatnonzero(is_first | is_new)
        stops = np.append(begins[1:], len(order))
        runs, ended = [], []
        for begin, stop in zip(begins, stops, strict=True):
            k = key_of_row[begin]
            code = self._take(keys[k], taken) if is_new[begin] else int(known[k])
            runs.append((keys[k], code, clock_of_row[stop - 1].item()))
            if is_first[begin] and is_new[begin] and known[k] >= 0:
                ended.append(int(known[k]))
        ended += [earlier_code for (key, earlier_code, _), (other, _, _) in pairwise(runs) if key == other]
        codes = np.empty(len(own), np.int32)
        codes[order] = np.repeat(np.array([code for _, code, _ in runs], np.int32), stops - begins)
        return Assignment(codes, runs, ended, taken)

    def _take(self, key: Key, taken: list[int]) -> int:
        if self.free:
            code = self.free.pop()
            self.key_of_code[code] = key
        else:
            code = len(self.key_of_code)
            self.key_of_code.append(key)
        taken.append(code)
        return code

    def ended_by(self, assignment: Assignment, now: float | None) -> list[int]:
        """Return the codes that no later event has, also of keys without an event for ``idle_ticks``."""
        if self.idle_ticks is None or now is None:
            return assignment.ended
        latest = {code: last for _, code, last in assignment.runs}
        idle = np.flatnonzero(now - self.newest_of_code[: self.n_codes] > self.idle_ticks).tolist()
        idle = {code for code in idle if self.key_of_code[code] is not None and code not in latest}
        idle |= {code for code, last in latest.items() if now - last > self.idle_ticks}
        return assignment.ended + sorted(idle.difference(assignment.ended))

    def commit(self, assignment: Assignment, ended: list[int]) -> None:
        """Apply an assignment, and let later keys use the codes that it ends."""
        for key, code, _ in assignment.runs:
            self.code_of_key[key] = code
        if self.idle_ticks is not None and assignment.runs:
            dtype = np.array([last for _, _, last in assignment.runs]).dtype
            if len(self.newest_of_code) < self.n_codes:
                grown = np.zeros(2 * self.n_codes, dtype)
                grown[: len(self.newest_of_code)] = self.newest_of_code
                self.newest_of_code = grown
            for _, code, last in assignment.runs:
                self.newest_of_code[code] = last
        for code in ended:
            key, self.key_of_code[code] = self.key_of_code[code], None
            if self.code_of_key.get(key) == code:
                del self.code_of_key[key]
        self.free += ended

    def discard(self, assignment: Assignment) -> None:
        """Undo `assign`."""
        for code in assignment.taken:
            self.key_of_code[code] = None
        self.free += assignment.taken

    def first_newest(self) -> float:
        """Return the clock of the last event of the key that waits longest."""
        is_live = np.array([key is not None for key in self.key_of_code])
        return self.newest_of_code[: self.n_codes][is_live].min().item()

    # --- saving

    def pack(self, fields: Sequence[pa.Field]) -> Saved:
        """Return the keys with their codes; ``fields`` are the columns of keys."""
        columns = {"code": pa.array(self.code_of_key.values(), pa.int64())}
        for i, field in enumerate(fields):
            columns[f"key{i}"] = pa.array([key[i] for key in self.code_of_key], field.type)
        newest = self.newest_of_code[: self.n_codes]
        arrays = {"keys/free": np.array(self.free, np.int64), "keys/newest": newest}
        return Saved({"n_codes": self.n_codes}, arrays, {"keys": pa.table(columns)})

    def unpack(self, saved: Saved) -> None:
        codes, *parts = map(key_values, saved.tables["keys"].columns)
        every = list(zip(*parts, strict=True)) if parts else [()] * len(codes)
        self.code_of_key = dict(zip(every, codes, strict=True))
        self.key_of_code = [None] * saved.counter("n_codes")
        for key, code in self.code_of_key.items():
            self.key_of_code[code] = key
        self.free, self.newest_of_code = saved.arrays["keys/free"].tolist(), saved.arrays["keys/newest"]


def idle_ticks_of(idle_after: Any, by: Sequence[str], schema: Mapping[str, ColumnType]) -> float | None:
    """Return ``idle_after`` in ticks of the clock, the first column of ``by``."""
    if idle_after is None:
        return None
    clock_type = schema[by[0]] if by else None
    if clock_type is None or clock_type.kind not in (INTEGER, FLOAT, TIME, DURATION):
        raise CepError("idle_after needs a clock: give order_by, a column of times or numbers")
    is_plain = clock_type.unit is None and isinstance(idle_after, int | float)
    ticks = idle_after if is_plain else duration_ticks(idle_after, clock_type.unit)
    if not ticks > 0:
        raise CepError(f"idle_after={idle_after!r}: expected a positive duration")
    return ticks


@dataclass(frozen=True)
class Room:
    """The room for the rows of each key in a search that keeps rows; see ``max_live`` of `cepkit.stream`."""

    by: tuple[str, ...]  # the columns of the key
    most: int
    overflow: str

    def check(self, kept: ArrowSource) -> None:
        """Raise if a key has more rows than there is room for, and that is an error."""
        if self.overflow != "error" or kept.n_rows <= self.most:
            return
        key_of_row, keys = keys_of_batch(kept, self.by)
        counts = np.bincount(key_of_row)
        if (n := int(counts.max())) > self.most:
            raise CepError(
                f"{key_text(self.by, keys[counts.argmax()])} has {n:,} rows that wait, more than max_live="
                f"{self.most:,}; the batch is not applied. Narrow the window, or let overflow=… give up rows"
            )

    def ends(self, rows: ArrowSource, until: np.ndarray, time: np.ndarray, n_old: int) -> np.ndarray:
        """Return which row ends each row for want of room: itself if it is shed; `NEVER` for the others."""
        # ``rows`` wait until the last time in ``until``. The first ``n_old`` wait already.
        key_of_row = keys_of_batch(rows, self.by)[0].tolist()
        ends = np.full(len(key_of_row), NEVER)
        waiting_of_key: dict[int, deque[int]] = {}
        last, now = until.tolist(), time.tolist()
        for row, key in enumerate(key_of_row):
            waiting = waiting_of_key.setdefault(key, deque())
            while waiting and row >= n_old and last[waiting[0]] < now[row]:
                waiting.popleft()
            if len(waiting) < self.most:
                waiting.append(row)
            elif self.overflow == "shed":
                ends[row] = row
            else:
                ends[waiting.popleft()] = row
                waiting.append(row)
        return ends


def key_text(partition_by: Sequence[str], key: Key | None) -> str:
    """Return a partition in words."""
    shown = ", ".join(f"{name}={value!r}" for name, value in zip(partition_by, key or (), strict=True))
    return f"the partition {shown}" if shown else "the stream"
