"""Regex queries and sequences as tasks of Spark: a task matches its events and tells what a result needs."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
import pandas as pd
import pandas.util as pandas_util
import pyarrow as pa

from cepkit import errors
from cepkit.compile.regex_program import Program, compile_regex
from cepkit.compile.sequence_program import SequenceProgram, compile_sequence
from cepkit.engines.after_match import report_matches
from cepkit.engines.regex import Run, match_regex
from cepkit.engines.regex_measures import Picked
from cepkit.engines.shared.match_set import MatchSet
from cepkit.engines.shared.sequence_set import EMPTY, MATCHES_PER_BLOCK, KnownMatches, MatchBlock, SequenceSet
from cepkit.errors import CepError, ResultTooLargeError, warn
from cepkit.events import ColumnType, Events, Source
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events, key_column, partition_codes
from cepkit.frames.pandas import series_of_arrow
from cepkit.frames.spark import PartTask, Results, as_text, check_ordered, check_total_order, in_utc, too_many
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.progress import watch_spark
from cepkit.results.in_memory import FoundMatches
from cepkit.results.query_found import RegexFound, SequenceFound
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


Search = Callable[[SequenceProgram, Events], SequenceSet]

_MOST_NUMBERED = 2**53  # largest number of matches of a task; a job with more would never end
_DIGITS = 38  # digits of Spark's widest integer
MANY_ROWS = 100_000  # from which a key with most of them is worth a warning
_MATCHES_WITH_ROWS = 1 << 13  # matches per block when each has rows of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTask(PartTask):
    """A task that matches a regex or a sequence."""

    query: RegexQuery | SequenceQuery
    schema: Mapping[str, ColumnType]
    engine: Search | None  # of a sequence; regexes have their own
    tell: Tell
    limit: int | None
    complete_until: int | float | None = None  # of a sequence, in ticks: a task has a part of the rows

    def prepare(self) -> Program | SequenceProgram:
        """Return the compiled query, once for each worker."""
        if isinstance(self.query, RegexQuery):
            return compile_regex(self.query, self.schema)
        program = compile_sequence(self.query, self.schema)
        until = self.complete_until
        return program if until is None else replace(program, complete_until=until)

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Yield the rows of a task and what it reports of their matches."""
        source = ArrowSource(table)
        events = build_events(source, prepared)
        check_total_order(source, events, self.query)
        if isinstance(prepared, Program):
            # Spark already runs one task per core, and a kernel serves all of them.
            whole = match_regex(prepared, events, threads=1, tier="compiled")
        else:
            assert self.engine is not None
            whole = report_matches(prepared, self.engine(prepared, events))
            if self.in_slices:
                whole = EndingBetween(whole, *_positions(events, prepared.clock, low, high))
        found = found_in(prepared, source, whole)
        if self.limit is not None and found.count() > self.limit:
            raise ResultTooLargeError(too_many(self.limit))
        for results in self.tell(Searched(found, self.columns)):
            yield source, results


def found_in(program: Any, source: ArrowSource, whole: Any) -> FoundMatches[Any]:
    """Return matches of a program in the rows of a task; they know no engine."""
    place: dict[str, Any] = {"program": program, "whole": whole, "source": source, "engine": None}
    return RegexFound(run=Run(), **place) if isinstance(program, Program) else SequenceFound(**place)


def nothing_found(program: Any, source: ArrowSource, columns: Sequence[str]) -> Searched:
    """Return no matches in no rows, which give the types of results."""
    events, none = build_events(source, program), np.empty(0, np.int64)
    whole = MatchSet(events, none, none) if isinstance(program, Program) else KnownMatches(events, EMPTY)
    return Searched(found_in(program, source, whole), columns)


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
        positions, counts = self.whole.ends()
        inside = slice(*np.searchsorted(positions, [self.low, self.high]).tolist())
        return positions[inside], counts[inside]

    def ending(self, low: int, high: int) -> MatchBlock:
        low, high = max(low, self.low), min(high, self.high)
        return self.whole.ending(low, high) if low < high else EMPTY

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return matches by their numbers among those that end in the range."""
        positions, counts = self.whole.ends()
        n_before = sum(map(int, counts[: np.searchsorted(positions, self.low)]))
        return self.whole.take([n_before + number for number in numbers])

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield the matches that end from ``low`` to ``high``."""
        # ``whole`` also makes the matches that end before, because it bounds its own memory.
        for block in self.whole.blocks(size):
            begin, stop = np.searchsorted(block.last, [self.low, self.high]).tolist()
            if begin < stop:
                yield block.take(slice(begin, stop))
            if stop < len(block):
                return


@dataclass(frozen=True, slots=True)
class Searched:
    """The matches of one task or slice."""

    found: FoundMatches[Any]
    columns: Sequence[str]  # the frame's columns that the task got

    @property
    def query(self) -> RegexQuery | SequenceQuery:
        return self.found.query

    @property
    def source(self) -> Any:
        return self.found.source

    @property
    def events(self) -> Events:
        return self.found.events

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield blocks, with the int64 rank of each match among the matches with the same last event."""
        # There is always a first block, which may be empty.
        self.refuse_endless()
        yield self.found.nothing, np.empty(0, np.int64)
        ranks = Ranks()
        for block in self.found.whole.blocks(size):
            yield block, ranks.of(block.last)

    def refuse_endless(self) -> None:
        """Raise an error for more matches than any job can make."""
        if self.found.count() > _MOST_NUMBERED:
            raise ResultTooLargeError(
                f"there are more than {_MOST_NUMBERED:,} matches in one task, too many to make each; take a "
                "part with head or sample, or use count(), count_by_last() or aggregate()"
            )

    def places(self, positions: np.ndarray) -> Results:
        """Return the order and partition columns at these positions, which begin the places of matches."""
        rows = self.events.rows(positions)
        return [(name, Picked(name, rows)) for name in (*self.query.order_by, *self.query.partition_by)]

    def measures(self, block: Any) -> Results:
        """Return the result columns of matches, with the order and partition columns of their last event."""
        return [*self.found.measure(block).items(), *self.places(block.last)]


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
        rank = np.arange(len(last)) - np.repeat(begins, sizes)  # 0, 1, … among matches with one last event
        if last[0] == self.last:
            rank[: sizes[0]] += self.n  # they continue those of the call before
        self.last, self.n = int(last[-1]), int(rank[-1]) + 1
        return rank


# --- the results of a task, in parts of bounded size


Tell = Callable[[Searched], Iterable[Results]]


def counted(searched: Searched) -> Iterator[Results]:
    """Yield the number of matches in hexadecimal digits, as Python converts any length, and `largest_key`."""
    of_keys = largest_key(searched.source, searched.query.partition_by)
    yield [("count", pa.array([hex(searched.found.count())])), *of_keys]


def largest_key(source: Source, names: tuple[str, ...]) -> Results:
    """Return the number of rows, and the largest key with the number of its rows."""
    codes, _ = partition_codes(source, names)
    sizes = np.bincount(codes, minlength=1)
    row = np.flatnonzero(codes == sizes.argmax())[:1]
    shown = ", ".join(f"{name}={value}" for name in names for value in source.arrow(name, row))
    numbers = [("rows", pa.array([len(codes)])), ("most", pa.array([int(sizes.max()) if names else 0]))]
    return [*numbers, ("key", pa.array([shown]))]


def warn_of_key(rows: Sequence[Any], cure: str = "add a column to the keys that divides it") -> None:
    """Warn if most rows have one key; each row ends with what `largest_key` returned for a task."""
    total = sum(row[-3] for row in rows)
    most, key = max(((row[-2], row[-1]) for row in rows), default=(0, ""))
    if total >= MANY_ROWS and 2 * most > total:
        warn(
            f"the key {key} has {most:,} of the {total:,} rows, and one Spark task does all of its work; "
            f"{cure}"
        )


def found_any(searched: Searched) -> Iterator[Results]:
    """Yield a row when there is a match."""
    yield [("any", pa.array([True] * searched.found.any(), pa.bool_()))]


def ended(searched: Searched) -> Iterator[Results]:
    """Yield the events where matches end, and the number of matches at each."""
    positions, counts = searched.found.whole.ends()
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


def measured(searched: Searched) -> Iterator[Results]:
    """Yield the result columns of every match, then its place."""
    for block, rank in searched.blocks():
        yield [*searched.measures(block), ("rank", pa.array(rank))]


def matched_rows(searched: Searched) -> Iterator[Results]:
    """Yield the rows of the matches: their variable, their columns, and the place of their match."""
    for block, rank in searched.blocks(_MATCHES_WITH_ROWS):
        yield _rows_of(searched, block, rank)


@dataclass(frozen=True, slots=True)
class TaggedRows:
    """Tells the same as `matched_rows`, each row with its first match; another one may be an error."""

    # A match that is the first of no row has a row without a variable, so that all matches have a number.

    overlap: str

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield the rows of the matches, each row once in a task."""
        is_matched = np.zeros(searched.events.n_events, bool)
        for block, rank in searched.blocks(_MATCHES_WITH_ROWS):
            items = searched.found.items(block)
            events = items.event_of_item
            first = np.unique(events, return_index=True)[1]
            first = np.sort(first[~is_matched[events[first]]])  # items of rows that no match has yet
            if self.overlap == "error" and len(first) < len(events):
                raise CepError(SHARED_ROW)
            is_matched[events] = True
            with_rows, first_item = np.unique(items.match_of_item, return_index=True)
            without = first_item[~np.isin(with_rows, items.match_of_item[first])]
            yield _rows_of(searched, block, rank, first)
            yield _rows_of(searched, block, rank, without, is_shown=False)


SHARED_ROW = (
    "a row belongs to several matches, and a tagged row has one; overlap='first' takes the first match of "
    "each row, and to_frame(rows='all') has all"
)


def _rows_of(
    searched: Searched, block: Any, rank: np.ndarray, chosen: np.ndarray | slice = slice(None), *,
    is_shown: bool = True,
) -> Results:  # fmt: skip
    """Return a row for each event of some matches, as tasks send them to the driver."""
    items = searched.found.items(block)
    match, event = items.match_of_item[chosen], items.event_of_item[chosen]
    rows = searched.events.rows(event.astype(np.int64, copy=False))
    variables = searched.found.variables(block)[chosen] if is_shown else [None] * len(rows)
    return [
        ("variable", pa.array(variables, pa.string())),
        *((name, Picked(name, rows)) for name in searched.columns),
        *searched.places(block.last[match]),
        ("rank", pa.array(rank[match])),
    ]


@dataclass(frozen=True, slots=True)
class TaskAggregates:
    """Tells aggregates over the events of all matches."""

    texts: tuple[str, ...]

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield the values of a task as one text (see `cepkit.frames.spark.from_text`)."""
        texts = {str(i): text for i, text in enumerate(self.texts)}
        values = searched.found.aggregate(texts)
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
        yield [*searched.measures(searched.found.whole.take(numbers)), ("rank", pa.array(ranks, pa.int64()))]

    def _numbers(self, searched: Searched) -> tuple[list[int], list[int]]:
        """Return the numbers of the first matches of each end, and their ranks among those of the end."""
        positions, counts = searched.found.whole.ends()
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
        """Return the first end after those at the same time as number ``end``."""
        rows = searched.events.rows(positions[end:].astype(np.int64))
        is_same = np.ones(len(rows), bool)
        for name in searched.query.order_by:
            values = key_column(searched.source, name).values[rows]
            is_same &= values == values[0]
        return end + int(np.append(is_same, False).argmin())


@dataclass(frozen=True, slots=True)
class Drawn:
    """The matches of a task that may be in a uniform sample of ``n`` matches of all tasks."""

    # Every match has a random waiting time, exponential and independent of the others; the sample is the
    # ``n`` shortest times. Matches with the same last event need no separate times: the shortest of N waiting
    # times is a single one divided by N, and the next ones follow in the same way. The sample depends on
    # ``seed`` and the last events of the matches, not on the number of tasks.
    # Source: Efraimidis, Spirakis, "Weighted random sampling with a reservoir", Information Processing
    # Letters 97(5), 2006.

    n: int
    seed: int

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield result columns, order and partition columns, place in the sample, and waiting time."""
        positions, counts = searched.found.whole.ends()
        rows = searched.events.rows(np.asarray(positions, np.int64))
        hashes = _hashes(searched, rows, self.seed)
        drawn = sorted(_shortest(counts, hashes, self.n))
        block = searched.found.whole.take([number for number, _ in drawn])
        times = np.array([time for _, time in drawn], np.float64)
        yield [
            *searched.measures(block), ("place", pa.array(np.arange(len(drawn)))), ("time", pa.array(times)),
        ]  # fmt: skip


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
        hashes = pandas_util.hash_array(_values(array), categorize=False)  # pyright: ignore[reportCallIssue]
        mixed = _mix(mixed ^ hashes.astype(np.uint64))
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


# Spark jobs of results: rows become pandas frames, errors become cepkit's, and parts fit into memory.

T = TypeVar("T")
_DEAD_WORKER = "Python worker exited unexpectedly"  # in Spark's message
_WORKER_DIED = (
    "a Python worker of Spark died in the middle of a task; often the system kills it when memory runs out. "
    "Divide the rows among more tasks (partition_by, spark.sql.shuffle.partitions), or give each one more "
    "memory. In local mode Spark never repeats a task; the master 'local[2,4]' tries each one four times"
)


def collect(frame: DataFrame, read: Callable[[pa.Table], pa.Table] = pa.Table.combine_chunks) -> pd.DataFrame:
    """Return a Spark frame as pandas; integers and booleans with nulls keep their types."""
    table = read(run_job(frame.toArrow))
    columns = map(series_of_arrow, table.columns)
    return pd.DataFrame(dict(zip(table.column_names, columns, strict=True)), columns=table.column_names)


def count_by(rows: DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the sum of the column ``n`` for each key."""
    return collect(rows.groupBy(*keys).agg({"n": "sum"}).withColumnRenamed("sum(n)", "n"))


def quantiles_by(
    rows: DataFrame, keys: Sequence[str], names: Sequence[str], shares: Sequence[float]
) -> pd.DataFrame:
    """Return quantiles of columns, a row for each key and share; null if a column has no values there."""
    from pyspark.sql import functions as F

    array = F.array(*map(F.lit, map(float, shares)))
    table = collect(rows.groupBy(*keys).agg(*(F.percentile(name, array).alias(name) for name in names)))
    none = [float("nan")] * len(shares)
    for name in names:
        table[name] = [none if of_key is None else list(of_key) for of_key in table[name]]
    table["quantile"] = [list(shares)] * len(table)
    return table.explode(["quantile", *names], ignore_index=True)


def run_job(job: Callable[[], T]) -> T:
    """Run a job; if a task raised an error of cepkit, raise that error without Spark's wrapping."""
    try:
        with watch_spark("Spark tasks"):
            return job()
    except Exception as error:  # Spark does not translate each of Java's errors to its own
        if _DEAD_WORKER in str(error):
            raise errors.CepError(_WORKER_DIED) from error
        task_error = error_of_task(error)
        if task_error is None:
            raise
        raise task_error from None


def error_of_task(error: Exception) -> errors.CepError | None:
    """Return the error of cepkit that made a job fail; None if something else did."""
    matched = re.search(r"cepkit\.errors\.(\w+): (.*)", str(error))
    # Spark gives Java's error as it is where several stages fail at once.
    if matched is None or not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    return getattr(errors, matched[1])(matched[2].strip())


def refuse(frame: DataFrame, problem: Column, error: type[errors.CepError], message: str) -> DataFrame:
    """Return a frame with a column ``number``; its job raises an error when a row has the problem."""
    from pyspark.sql import functions as F

    failure = F.raise_error(F.lit(f"cepkit.errors.{error.__name__}: {message}")).cast("bigint")
    checked = frame.withColumn("number", F.when(problem, failure).otherwise(F.col("number")))
    return checked.where("number >= 0")  # prevents Spark from pruning the column


# A part of a Spark frame that fits into memory, and jobs on the whole frame that can be cancelled.

MOST_ROWS = 100_000  # of the part
_CELLS = 1 << 20  # of the hash that chooses keys
_ATTEMPTS = 4


def part_of(
    frame: Any, partition_by: Sequence[str], order_by: Sequence[str], most: int = MOST_ROWS
) -> tuple[pd.DataFrame, str]:
    """Return a part of a Spark frame as a pandas frame, and a description; empty for the whole frame."""
    # With ``partition_by`` the part has all rows of some keys, which a hash chooses. Otherwise, or if a
    # single key has more than ``most`` rows, it has the first ``most`` rows in time.
    #
    # One job counts and one collects; up to four collect when keys differ in size.
    from pyspark.sql import functions as F

    names = frame.columns
    # Numbered columns, since names may have dots and backticks, or differ only in case.
    plain = frame.toDF(*(f"c{i}" for i in range(len(names))))

    def keyed(columns: Sequence[str]) -> list[Any]:
        return [F.col(f"c{names.index(name)}") for name in columns]

    check_ordered(order_by)
    n = frame.count()
    if n <= most:
        return _sort_rows(collect(frame, in_utc), order_by), ""
    if partition_by:
        cell = F.pmod(F.xxhash64(*keyed(partition_by)), F.lit(_CELLS))
        share = 0.8 * most / n
        for _ in range(_ATTEMPTS):
            chosen = plain.where(cell < F.lit(int(share * _CELLS))).limit(most + 1)
            part = collect(chosen.toDF(*names), in_utc)
            if 0 < len(part) <= most:
                keys = f"all rows of some keys of {', '.join(partition_by)}"
                return _sort_rows(part, order_by), f"a sample of {len(part):,} of {n:,} rows: {keys}"
            share = share / 2 if len(part) else share * 4
    part = collect(plain.orderBy(*keyed(order_by)).limit(most).toDF(*names), in_utc)
    return part, f"a sample of {len(part):,} of {n:,} rows: the first ones by {', '.join(order_by)}"


@contextmanager
def stoppable(session: Any) -> Iterator[Callable[[], Any]]:
    """Yield a function that cancels the jobs this thread starts meanwhile; any thread may call it."""
    from pyspark.sql.utils import is_remote

    name = f"cepkit explorer {uuid4().hex}"
    if is_remote():
        session.addTag(name)
        try:
            yield lambda: session.interruptTag(name)
        finally:
            session.removeTag(name)
        return
    context = session.sparkContext  # only the thread that set a tag may cancel its jobs
    context.setJobGroup(name, "the explorer's query on all rows", interruptOnCancel=True)
    try:
        yield lambda: context.cancelJobGroup(name)
    finally:
        for of_group in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(of_group, None)


def _sort_rows(part: pd.DataFrame, order_by: Sequence[str]) -> pd.DataFrame:
    return part.sort_values(list(order_by), kind="stable", ignore_index=True)
