"""Sequence queries as Arrow tasks of Spark: a task matches its events and sends results."""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.sequences.program import SequenceProgram, compile_sequence
from cepkit.engines.after_match import report_matches
from cepkit.engines.aggregates import aggregate_matches
from cepkit.engines.measures.regex_measures import Measured, Picked
from cepkit.engines.measures.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.shared.sequence_set import EMPTY, MATCHES_PER_BLOCK, KnownMatches, MatchBlock, SequenceSet
from cepkit.errors import CepError, ResultTooLargeError
from cepkit.events import ColumnType, Events
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.frames.spark.slices import SLICE_COLUMNS, Slices, ticks
from cepkit.frames.spark.tasks import (
    EmptySource,
    as_text,
    check_total_order,
    key_columns,
    numbered_columns,
    received_table,
    result_types,
    sent_batches,
    too_many,
    use_kernel_cache,
)
from cepkit.language.sequences.query import SequenceQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Engine = Callable[[SequenceProgram, Events], SequenceSet]
Results = list[tuple[str, Measured]]

_MOST_NUMBERED = 2**53  # largest number of matches of a task; a job with more would never end
_DIGITS = 38  # digits of Spark's widest integer
_MATCHES_WITH_ROWS = 1 << 13  # matches per block when each has rows of its own


# --- on the driver


def run_tasks(
    frame: DataFrame, source: EmptySource, program: SequenceProgram, engine: Engine,
    columns: Sequence[str], tell: Tell, *, slices: Slices | None = None, limit: int | None = None,
) -> DataFrame:  # fmt: skip
    """Return the output of ``tell`` for the matches of every task, lazily, with columns ``c0``, ``c1``, ….

    All rows of a partition go to one task. Without ``partition_by`` a slice goes to one task, and without
    slices the whole frame does.
    """
    events = numbered_columns(frame, source, columns)
    if program.query.partition_by:
        shuffled = events.repartition(*key_columns(source, columns, program.query.partition_by))
    elif slices is None:
        shuffled = events.repartition(1)
    else:
        shuffled = send_slices(events, source, columns, slices)
    nothing = Searched(program, source, KnownMatches(build_events(source, program), EMPTY), columns)
    types, output = result_types(next(iter(tell(nothing))), source)
    task = SequenceTask(
        program.query, program.schema, engine, tuple(columns), tell, output, slices is not None, limit,
        os.environ.get("CEPKIT_CACHE"),
    )  # fmt: skip
    return shuffled.mapInArrow(task.run, types)


def send_slices(events: DataFrame, source: EmptySource, columns: Sequence[str], slices: Slices) -> DataFrame:
    """Return the events of each slice, with a task for every slice."""
    from pyspark.sql import functions as F

    clock_type = source.fields[source.names.index(slices.clock)].dataType
    copies = slices.copies(events, ticks(F.col(f"e{columns.index(slices.clock)}"), clock_type))
    return spread_slices(copies, slices)


def spread_slices(copies: DataFrame, slices: Slices) -> DataFrame:
    """Return the copies of `Slices.copies` with the slices spread over the tasks."""
    from pyspark.sql import functions as F

    if hasattr(copies, "repartitionById"):  # since Spark 4.1
        return copies.repartitionById(slices.n_tasks, F.col("slice") % slices.n_tasks)
    return copies.repartition(slices.n_tasks, "slice")


# --- in the workers


@dataclass(frozen=True, slots=True)
class SequenceTask:
    """The work on the batches of one Spark partition."""

    query: SequenceQuery
    schema: Mapping[str, ColumnType]
    engine: Engine
    columns: tuple[str, ...]  # names of the batches' columns, before `SLICE_COLUMNS`
    tell: Tell
    output: pa.Schema
    in_slices: bool
    limit: int | None
    kernel_cache: str | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Match the rows, one slice after the other, and yield the output of ``tell``."""
        table = received_table(batches, (*self.columns, *(SLICE_COLUMNS if self.in_slices else ())))
        if table is None:
            return
        use_kernel_cache(self.kernel_cache)
        program = compile_sequence(self.query, self.schema)
        if not self.in_slices:
            yield from self._search(program, table, None, None)
            return
        events = table.select(range(len(self.columns)))
        slice_of_row, low, high = (table.column(len(self.columns) + i) for i in range(len(SLICE_COLUMNS)))
        slice_of_row = slice_of_row.to_numpy()
        del table
        for number in np.unique(slice_of_row):
            rows = np.flatnonzero(slice_of_row == number)
            slice_events = (
                events if len(rows) == len(slice_of_row) else events.take(pa.array(rows)).combine_chunks()
            )
            limits = (limit[int(rows[0])].as_py() for limit in (low, high))
            yield from self._search(program, slice_events, *limits)

    def _search(
        self, program: SequenceProgram, table: pa.Table, low: float | None, high: float | None
    ) -> Iterator[pa.RecordBatch]:
        source = ArrowSource(table)
        events = build_events(source, program)
        check_total_order(source, events, self.query)
        matches = report_matches(program, self.engine(program, events))
        if self.in_slices:
            matches = EndingBetween(matches, *_positions(events, program.clock, low, high))
        if self.limit is not None and matches.count() > self.limit:
            raise ResultTooLargeError(too_many(self.limit))
        for results in self.tell(Searched(program, source, matches, self.columns)):
            yield from sent_batches(results, source, self.output)


def _positions(events: Events, clock: str, low: float | None, high: float | None) -> tuple[int, int]:
    """Return the first positions at or after the times ``low`` and ``high``; None: no limit."""
    time = events.columns[clock].values
    begin = 0 if low is None else int(np.searchsorted(time, low))
    return begin, events.n_events if high is None else int(np.searchsorted(time, high))


class EndingBetween(SequenceSet):
    """The matches of ``whole`` whose last event has a position from ``low``, before ``high``."""

    def __init__(self, whole: SequenceSet, low: int, high: int):
        self.events, self.whole, self.low, self.high = whole.events, whole, low, high

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the positions where matches end, and the number of matches at each."""
        positions, counts = self.whole.ends()
        inside = slice(*np.searchsorted(positions, [self.low, self.high]).tolist())
        return positions[inside], counts[inside]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches that end at positions from ``low``, before ``high``."""
        low, high = max(low, self.low), min(high, self.high)
        return self.whole.ending(low, high) if low < high else EMPTY

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches with these numbers, in this order."""
        positions, counts = self.whole.ends()
        n_before = sum(map(int, counts[: np.searchsorted(positions, self.low)]))
        return self.whole.take([n_before + number for number in numbers])

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield all matches in blocks of at most ``size``.

        ``whole`` also makes the matches that end before, because it bounds its own memory.
        """
        for block in self.whole.blocks(size):
            begin, stop = np.searchsorted(block.last, [self.low, self.high]).tolist()
            if begin < stop:
                yield block.take(slice(begin, stop))
            if stop < len(block):
                return


@dataclass(frozen=True, slots=True)
class Searched:
    """The matches of one task or slice, with the program and the source that results need."""

    program: SequenceProgram
    source: ArrowSource
    matches: SequenceSet
    columns: Sequence[str]  # the frame's columns that the task got

    @property
    def query(self) -> SequenceQuery:
        """The query as a value."""
        return self.program.query

    @property
    def events(self) -> Events:
        """The searched events."""
        return self.matches.events

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[tuple[MatchBlock, np.ndarray]]:
        """Yield blocks, with the int64 rank of each match among the matches with the same last event.

        There is always a first block, which may be empty.
        """
        self.refuse_endless()
        yield EMPTY, np.empty(0, np.int64)
        ranks = Ranks()
        for block in self.matches.blocks(size):
            yield block, ranks.of(block.last)

    def refuse_endless(self) -> None:
        """Raise an error for more matches than any job can make."""
        if self.matches.count() > _MOST_NUMBERED:
            raise ResultTooLargeError(
                f"there are more than {_MOST_NUMBERED:,} matches in one task, too many to make each; take a "
                "part with head or sample, or use count(), count_by_last() or aggregate()"
            )

    def places(self, positions: np.ndarray) -> Results:
        """Return the order and partition columns at these positions, which begin the places of matches."""
        rows = self.events.rows(positions)
        return [(name, Picked(name, rows)) for name in (*self.query.order_by, *self.query.partition_by)]

    def measures(self, block: MatchBlock) -> Results:
        """Return the result columns of matches, with the order and partition columns of their last event."""
        columns = sequence_measures(self.program, self.events, block, self.source)
        return [*columns.items(), *self.places(block.last)]


class Ranks:
    """Ranks, from 0, of matches with the same last event; matches come in canonical order."""

    def __init__(self):
        self.last, self.n = -1, 0  # the latest last event, and the number of matches at it

    def of(self, last: np.ndarray) -> np.ndarray:
        """Return the rank of each of the next matches; ``last`` are the positions of their last events."""
        if not len(last):
            return np.empty(0, np.int64)
        begins = np.flatnonzero(np.concatenate([[True], last[1:] != last[:-1]]))
        sizes = np.diff(np.append(begins, len(last)))
        rank = np.arange(len(last)) - np.repeat(begins, sizes)
        if last[0] == self.last:
            rank[: sizes[0]] += self.n
        self.last, self.n = int(last[-1]), int(rank[-1]) + 1
        return rank


# --- the results of a task, in parts of bounded size


Tell = Callable[[Searched], Iterable[Results]]


def counted(searched: Searched) -> Iterator[Results]:
    """Yield the number of matches in hexadecimal digits, which Python converts at any length."""
    yield [("count", pa.array([hex(searched.matches.count())]))]


def found_any(searched: Searched) -> Iterator[Results]:
    """Yield a row when there is a match."""
    yield [("any", pa.array([True] * searched.matches.any(), pa.bool_()))]


def ended(searched: Searched) -> Iterator[Results]:
    """Yield the events where matches end, and the number of matches at each."""
    positions, counts = searched.matches.ends()
    if max(counts, default=0) >= 10**_DIGITS:
        raise ResultTooLargeError(
            f"more than 10^{_DIGITS} matches end at one event, too many for a column of Spark; "
            "count() is exact for any number"
        )
    number_type = pa.decimal128(_DIGITS, 0)
    numbers = (
        pa.array(counts).cast(number_type)
        if isinstance(counts, np.ndarray)
        else pa.array(counts, number_type)
    )
    yield [*searched.places(np.asarray(positions, np.int64)), ("count", numbers)]


def numbered_ends(searched: Searched) -> Iterator[Results]:
    """Yield the same as `ended`, in int64, for matches that are all made."""
    searched.refuse_endless()
    positions, counts = searched.matches.ends()
    numbers = pa.array([int(count) for count in counts], pa.int64())
    yield [*searched.places(np.asarray(positions, np.int64)), ("count", numbers)]


def measured(searched: Searched) -> Iterator[Results]:
    """Yield the result columns of every match, then its place."""
    for block, rank in searched.blocks():
        yield [*searched.measures(block), ("rank", pa.array(rank))]


def matched_rows(searched: Searched) -> Iterator[Results]:
    """Yield the rows of the matches: their variable, their columns, and the place of their match."""
    for block, rank in searched.blocks(_MATCHES_WITH_ROWS):
        yield _rows_of(searched, block, rank)


def tagged_rows(searched: Searched) -> Iterator[Results]:
    """Yield the same as `matched_rows`; a row in several matches of this task is an error."""
    is_matched = np.zeros(searched.events.n_events, bool)
    for block, rank in searched.blocks(_MATCHES_WITH_ROWS):
        repeated = is_matched[block.event_of_item]
        is_matched[block.event_of_item] = True
        if repeated.any() or len(np.unique(block.event_of_item)) < len(block.event_of_item):
            raise CepError(SHARED_ROW)
        yield _rows_of(searched, block, rank)


SHARED_ROW = (
    "a row belongs to several matches, and a tagged row has one; use after_match='past_last', or "
    "to_frame(rows='all')"
)


def _rows_of(searched: Searched, block: MatchBlock, rank: np.ndarray) -> Results:
    match = block.match_of_item
    names = np.array(searched.query.variables, dtype=object)
    rows = searched.events.rows(block.event_of_item)
    return [
        ("variable", pa.array(names[variables_of_items(searched.program, block)], pa.string())),
        *((name, Picked(name, rows)) for name in searched.columns),
        *searched.places(block.last[match]),
        ("rank", pa.array(rank[match])),
    ]


@dataclass(frozen=True, slots=True)
class SequenceTaskAggregates:
    """Tells aggregates over the events of all matches; ``texts`` as `aggregate_matches` reads them."""

    texts: tuple[str, ...]

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield the values of a task as one text (see `cepkit.frames.spark.tasks.from_text`)."""
        texts = {str(i): text for i, text in enumerate(self.texts)}
        values = aggregate_matches(searched.program, searched.matches, searched.source, texts)
        yield [("values", pa.array([as_text(values)]))]


# The first matches, or a random sample, where no task knows the matches of the others.

_GOLDEN = 0x9E3779B97F4A7C15  # constant of splitmix64, as the two below
_MIX = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class First:
    """The first ``n`` matches of a task, and the others at the time of the last one."""

    n: int

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield the result columns and the places of these matches."""
        numbers, ranks = self._numbers(searched)
        yield [*searched.measures(searched.matches.take(numbers)), ("rank", pa.array(ranks, pa.int64()))]

    def _numbers(self, searched: Searched) -> tuple[list[int], list[int]]:
        positions, counts = searched.matches.ends()
        numbers: list[int] = []
        ranks: list[int] = []
        first, stop = 0, len(positions)
        for end in range(len(positions)):
            if end >= stop:
                break
            n_taken = min(int(counts[end]), self.n)
            numbers += range(first, first + n_taken)
            ranks += range(n_taken)
            first += int(counts[end])
            if len(numbers) >= self.n and stop == len(positions):
                # The task cannot decide which partition comes first at the same time.
                stop = self._end_of_time(searched, np.asarray(positions), end)
        return numbers, ranks

    def _end_of_time(self, searched: Searched, positions: np.ndarray, end: int) -> int:
        rows = searched.events.rows(positions[end:].astype(np.int64))
        is_same = np.ones(len(rows), bool)
        for name in searched.query.order_by:
            values = searched.source.column(name).values[rows]
            is_same &= values == values[0]
        return end + int(np.append(is_same, False).argmin())


@dataclass(frozen=True, slots=True)
class Drawn:
    """The matches of a task that may be in a uniform sample of ``n`` matches of all tasks.

    Every match has a random waiting time, exponential and independent of the others; the sample is the ``n``
    shortest times. Matches with the same last event need no separate times: the shortest of N waiting times
    is a single one divided by N, and the next ones follow in the same way.

    The sample depends on ``seed`` and the last events of the matches, not on the number of tasks.

    Source: Efraimidis, Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters
    97(5), 2006.
    """

    n: int
    seed: int

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield result columns, order and partition columns, place in the sample, and waiting time."""
        positions, counts = searched.matches.ends()
        rows = searched.events.rows(np.asarray(positions, np.int64))
        hashes = _hashes(searched, rows, self.seed)
        drawn = sorted(_shortest(counts, hashes, self.n))
        block = searched.matches.take([number for number, _ in drawn])
        times = np.array([time for _, time in drawn], np.float64)
        yield [
            *searched.measures(block),
            ("place", pa.array(np.arange(len(drawn)))),
            ("time", pa.array(times)),
        ]


def _shortest(counts: np.ndarray | list[int], hashes: np.ndarray, n: int) -> list[tuple[int, float]]:
    """Return the numbers of the ``n`` matches with the shortest waiting times, and the times' logarithms."""
    if n < 1 or not len(counts):
        return []
    logs = np.array([math.log(int(count)) for count in counts])
    uniform = ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    first_time = np.log(-np.log1p(-uniform)) - logs
    ends = np.argsort(first_time, kind="stable")[:n]
    waiting = [(float(first_time[end]), int(end)) for end in ends]
    heapq.heapify(waiting)
    first_number = np.concatenate([[0], np.cumsum(np.array([int(count) for count in counts], dtype=object))])
    randoms = {int(end): Random(int(hashes[end])) for end in ends}
    taken: dict[int, set[int]] = {int(end): set() for end in ends}
    drawn: list[tuple[int, float]] = []
    while waiting and len(drawn) < n:
        time, end = heapq.heappop(waiting)
        count, taken_ranks, random = int(counts[end]), taken[end], randoms[end]
        rank = random.randrange(count)
        while rank in taken_ranks:
            rank = random.randrange(count)
        taken_ranks.add(rank)
        drawn.append((int(first_number[end]) + rank, time))
        if (n_left := count - len(taken_ranks)) > 0:
            step = math.log(random.expovariate(1.0) or 5e-324) - math.log(n_left)
            heapq.heappush(waiting, (float(np.logaddexp(time, step)), end))
    return drawn


def _hashes(searched: Searched, rows: np.ndarray, seed: int) -> np.ndarray:
    """Return a random uint64 per event that depends on ``seed`` and the event's key columns."""
    query = searched.query
    # As a text, a seed of any size works.
    mixed = np.full(len(rows), Random(f"cepkit {seed}").getrandbits(64), np.uint64)
    for name in (*query.order_by, *query.partition_by):
        array = searched.source.arrow(name, rows)
        mixed = _mix(mixed ^ pd.util.hash_array(_values(array), categorize=False).astype(np.uint64))
        mixed += array.is_valid().to_numpy(zero_copy_only=False)
    return mixed


def _values(array: pa.Array) -> np.ndarray:
    """Return the values in a type that does not depend on nulls; nulls get some value."""
    arrow_type = array.type
    if pa.types.is_integer(arrow_type) or pa.types.is_temporal(arrow_type):
        return (
            array.cast(pa.int32() if pa.types.is_date32(arrow_type) else pa.int64()).fill_null(0).to_numpy()
        )
    if pa.types.is_floating(arrow_type):
        return array.fill_null(0.0).to_numpy()
    return np.array([str(value) for value in array.to_pylist()], dtype=object)


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Return the numbers after splitmix64, a one-to-one mix of their bits."""
    numbers = numbers + np.uint64(_GOLDEN)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_MIX[0])
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(_MIX[1])
    return numbers ^ (numbers >> np.uint64(31))
