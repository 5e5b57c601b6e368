"""Sequence queries as Arrow tasks of Spark: the events of a task matched, and what it tells of matches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
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
from cepkit.frames.spark import (
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
from cepkit.frames.spark_slices import SLICE_COLUMNS, Slices, ticks
from cepkit.language.sequences.query import SequenceQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Engine = Callable[[SequenceProgram, Events], SequenceSet]
Told = list[tuple[str, Measured]]

_MOST_NUMBERED = 2**53  # matches of a task that a frame can have; no job ends that makes more
_DIGITS = 38  # of Spark's widest integer
_MATCHES_WITH_ROWS = 1 << 13  # per block where each brings rows of its own


# --- on the driver


def run_tasks(
    frame: DataFrame,
    source: EmptySource,
    program: SequenceProgram,
    engine: Engine,
    columns: Sequence[str],
    tell: Tell,
    *,
    slices: Slices | None = None,
    limit: int | None = None,
) -> DataFrame:
    """Return what ``tell`` says of the matches of every task, lazily, with columns named ``c0``, ``c1``, ….

    All rows of a partition go to one task. Without ``partition_by`` every slice goes to one, and without
    slices the whole frame.

    Parameters
    ----------
    frame : DataFrame
        What is searched.
    source : EmptySource
        Of ``frame``.
    program : SequenceProgram
        The query compiled for ``source``; compiled again in the workers.
    engine : callable
        Returns all matches of a program in some events.
    columns : sequence of str
        What is handed to the tasks.
    tell : callable
        One of those below.
    slices : Slices, optional
        How a stream without partitions is cut.
    limit : int, optional
        A task with more matches raises an error.
    """
    events = numbered_columns(frame, source, columns)
    if program.query.partition_by:
        shuffled = events.repartition(*key_columns(source, columns, program.query.partition_by))
    elif slices is None:
        shuffled = events.repartition(1)
    else:
        shuffled = _in_slices(events, source, columns, slices)
    nothing = Searched(program, source, KnownMatches(build_events(source, program), EMPTY), columns)
    types, output = result_types(next(iter(tell(nothing))), source)
    task = SequenceTask(
        program.query, program.schema, engine, tuple(columns), tell, output, slices is not None, limit,
        os.environ.get("CEPKIT_CACHE"),
    )  # fmt: skip
    return shuffled.mapInArrow(task.run, types)


def _in_slices(events: DataFrame, source: EmptySource, columns: Sequence[str], slices: Slices) -> DataFrame:
    from pyspark.sql import functions as F

    of = source.fields[source.names.index(slices.clock)].dataType
    copies = slices.copies(events, ticks(F.col(f"e{columns.index(slices.clock)}"), of))
    if hasattr(copies, "repartitionById"):  # since Spark 4.1
        return copies.repartitionById(slices.n_tasks, F.col("slice") % slices.n_tasks)
    return copies.repartition(slices.n_tasks, "slice")


# --- in the workers


@dataclass(frozen=True, slots=True)
class SequenceTask:
    """What a worker does with the batches of one Spark partition."""

    query: SequenceQuery
    schema: Mapping[str, ColumnType]
    engine: Engine
    columns: tuple[str, ...]  # names of the batches' columns, in front of those of slices
    tell: Tell
    output: pa.Schema
    in_slices: bool
    limit: int | None
    kernel_cache: str | None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Match the rows and return what ``tell`` says of the matches; one slice after the other."""
        table = received_table(batches, (*self.columns, *(SLICE_COLUMNS if self.in_slices else ())))
        if table is None:
            return
        use_kernel_cache(self.kernel_cache)
        program = compile_sequence(self.query, self.schema)
        if not self.in_slices:
            yield from self._found_in(program, table, None, None)
            return
        events = table.select(range(len(self.columns)))
        slice_of_row, low, high = (table.column(len(self.columns) + i) for i in range(len(SLICE_COLUMNS)))
        slice_of_row = slice_of_row.to_numpy()
        del table
        for number in np.unique(slice_of_row):
            rows = np.flatnonzero(slice_of_row == number)
            own = events if len(rows) == len(slice_of_row) else events.take(pa.array(rows)).combine_chunks()
            limits = (limit[int(rows[0])].as_py() for limit in (low, high))
            yield from self._found_in(program, own, *limits)

    def _found_in(
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
        for told in self.tell(Searched(program, source, matches, self.columns)):
            yield from sent_batches(told, source, self.output)


def _positions(events: Events, clock: str, low: float | None, high: float | None) -> tuple[int, int]:
    """Return the first position from time ``low`` on, and the first from ``high`` on; None: no limit."""
    time = events.columns[clock].values
    begin = 0 if low is None else int(np.searchsorted(time, low))
    return begin, events.n_events if high is None else int(np.searchsorted(time, high))


class EndingBetween(SequenceSet):
    """Those matches of ``whole`` whose last event has a position from ``low`` to ``high``."""

    def __init__(self, whole: SequenceSet, low: int, high: int):
        self.events, self.whole, self.low, self.high = whole.events, whole, low, high

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the positions where matches end and how many end at each."""
        positions, counts = self.whole.ends()
        own = slice(*np.searchsorted(positions, [self.low, self.high]).tolist())
        return positions[own], counts[own]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches that end from ``low`` to ``high``."""
        low, high = max(low, self.low), min(high, self.high)
        return self.whole.ending(low, high) if low < high else EMPTY

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches of these numbers, in this order."""
        positions, counts = self.whole.ends()
        n_before = sum(map(int, counts[: np.searchsorted(positions, self.low)]))
        return self.whole.take([n_before + number for number in numbers])

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield all matches in blocks of at most ``size``.

        Notes
        -----
        The matches of ``whole`` that end before are made as well: it knows how to bound its memory.
        """
        for block in self.whole.blocks(size):
            begin, stop = np.searchsorted(block.last, [self.low, self.high]).tolist()
            if begin < stop:
                yield block.take(slice(begin, stop))
            if stop < len(block):
                return


@dataclass(frozen=True, slots=True)
class Searched:
    """The matches of one task or slice, with what is needed to tell of them."""

    program: SequenceProgram
    source: ArrowSource
    matches: SequenceSet
    columns: Sequence[str]  # those of the frame that the task was given

    @property
    def query(self) -> SequenceQuery:
        """The query as a value."""
        return self.program.query

    @property
    def events(self) -> Events:
        """What was searched."""
        return self.matches.events

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[tuple[MatchBlock, np.ndarray]]:
        """Yield blocks with the rank of each match among those with the same last event, int64.

        The first may be empty; there is always one.

        Raises
        ------
        ResultTooLargeError
            When there are more than any job can make.
        """
        self.refuse_endless()
        yield EMPTY, np.empty(0, np.int64)
        ranks = Ranks()
        for block in self.matches.blocks(size):
            yield block, ranks.of(block.last)

    def refuse_endless(self) -> None:
        """Raise the error for more matches than any job can make."""
        if self.matches.count() > _MOST_NUMBERED:
            raise ResultTooLargeError(
                f"there are more than {_MOST_NUMBERED:,} matches in one task, too many to make each; take a "
                "part with head or sample, or ask for count(), count_by_last() or aggregate()"
            )

    def places(self, positions: np.ndarray) -> Told:
        """Return what the places of matches in the order begin with: order and partition columns there."""
        rows = self.events.rows(positions)
        return [(name, Picked(name, rows)) for name in (*self.query.order_by, *self.query.partition_by)]

    def measures(self, block: MatchBlock) -> Told:
        """Return the result columns of matches, with the order and partition columns of their last event."""
        columns = sequence_measures(self.program, self.events, block, self.source)
        return [*columns.items(), *self.places(block.last)]


class Ranks:
    """Numbers matches with the same last event, which come in canonical order, from 0."""

    def __init__(self):
        self.last, self.n = -1, 0  # position of the last event seen, and how many matches end there

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


# --- what a task tells of its matches, in parts of bounded size


Tell = Callable[[Searched], Iterable[Told]]


def counted(searched: Searched) -> Iterator[Told]:
    """Yield the number of matches, of any size, in hexadecimal digits: they have no longest number."""
    yield [("count", pa.array([hex(searched.matches.count())]))]


def found_any(searched: Searched) -> Iterator[Told]:
    """Yield a row when there is a match."""
    yield [("any", pa.array([True] * searched.matches.any(), pa.bool_()))]


def ended(searched: Searched) -> Iterator[Told]:
    """Yield the events where matches end, and how many do."""
    positions, counts = searched.matches.ends()
    if max(counts, default=0) >= 10**_DIGITS:
        raise ResultTooLargeError(
            f"at one event end more than 10^{_DIGITS} matches, the most that a column of Spark can hold; "
            "count() is exact for any number"
        )
    of = pa.decimal128(_DIGITS, 0)
    numbers = pa.array(counts).cast(of) if isinstance(counts, np.ndarray) else pa.array(counts, of)
    yield [*searched.places(np.asarray(positions, np.int64)), ("count", numbers)]


def numbered_ends(searched: Searched) -> Iterator[Told]:
    """Yield as `ended`, for numbers of matches that each are made."""
    searched.refuse_endless()
    positions, counts = searched.matches.ends()
    numbers = pa.array([int(count) for count in counts], pa.int64())
    yield [*searched.places(np.asarray(positions, np.int64)), ("count", numbers)]


def measured(searched: Searched) -> Iterator[Told]:
    """Yield the result columns of every match, with its place behind."""
    for block, rank in searched.blocks():
        yield [*searched.measures(block), ("rank", pa.array(rank))]


def matched_rows(searched: Searched) -> Iterator[Told]:
    """Yield the rows of the matches with their variable in front and the place of their match behind."""
    for block, rank in searched.blocks(_MATCHES_WITH_ROWS):
        yield _rows_of(searched, block, rank)


def tagged_rows(searched: Searched) -> Iterator[Told]:
    """Yield as `matched_rows`; a row of several matches is an error, also where another slice has them."""
    is_matched = np.zeros(searched.events.n_events, bool)
    for block, rank in searched.blocks(_MATCHES_WITH_ROWS):
        again = is_matched[block.event_of_item]
        is_matched[block.event_of_item] = True
        if again.any() or len(np.unique(block.event_of_item)) < len(block.event_of_item):
            raise CepError(SHARED_ROW)
        yield _rows_of(searched, block, rank)


SHARED_ROW = (
    "a row belongs to several matches, and a tagged row has one; use after_match='past_last', or "
    "to_frame(rows='all')"
)


def _rows_of(searched: Searched, block: MatchBlock, rank: np.ndarray) -> Told:
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
class SequenceAggregates:
    """Tells aggregates over the events of all matches; ``texts`` as `aggregate_matches` reads them."""

    texts: tuple[str, ...]

    def __call__(self, searched: Searched) -> Iterator[Told]:
        """Yield the values of a task as one text, see `cepkit.frames.spark.from_text`."""
        asked = {str(i): text for i, text in enumerate(self.texts)}
        values = aggregate_matches(searched.program, searched.matches, searched.source, asked)
        yield [("values", pa.array([as_text(values)]))]
