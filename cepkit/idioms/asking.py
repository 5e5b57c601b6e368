"""The rows for which a condition holds, in memory or in the tasks of Spark, and the results of idioms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex.program import Program
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.measures.regex_measures import Measured, Picked, measure
from cepkit.engines.regex import match_regex
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError, warn
from cepkit.events import Events, Frame, Source
from cepkit.frames.building import build_events
from cepkit.frames.empty import with_types
from cepkit.language.expressions.functions import registered_functions
from cepkit.language.query_parts import Duration
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.clocks import warn_of_numbers_as_text, warn_of_ties
from cepkit.planning.plans import Recent, Same, compile_checked, key_or_none, remembered
from cepkit.results.doors import open_door

if TYPE_CHECKING:
    from cepkit.frames.spark.tasks import Results
    from cepkit.results.spark.tasks import Searched, Tell


# Groups of neighbouring rows of a partition, as numpy arrays: their ends, their numbers, and the rows.

KERNELS = "cepkit.kernels.groups"
_LONGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups in the order of their last row, and the number of the group that each row belongs to.

    Groups are numbered from 1 in every partition.

    """

    first: np.ndarray  # int64, (n_groups,): stream position of the first row
    last: np.ndarray  # int64, (n_groups,): stream position of the last row
    length: np.ndarray  # int64, (n_groups,)
    number: np.ndarray  # int64, (n_groups,)
    number_of_event: np.ndarray | None  # int64, (n_events,), by stream position; 0 for rows without a group


def group_rows(
    events: Events,
    is_member: np.ndarray | None,
    ticks: np.ndarray | None = None,
    longest: float = 0,
    *,
    of_events: bool = False,
) -> Groups:
    """Return the longest groups of neighbouring rows of a partition that are all members."""
    kernels, n = load_kernels(KERNELS), events.n_events
    partition = events.partition_of_event if events.n_partitions > 1 else np.empty(0, np.int32)
    if ticks is None:
        ticks = np.empty(0, np.int64)
    if ticks.dtype.kind != "f":
        longest = int(min(longest, _LONGEST))
    of_partition = np.full(max(1, events.n_partitions), -1)
    groups = np.empty((n, 3), np.int64)  # memory that no group fills is not taken
    of_event = np.full(n if of_events else 0, -1)
    flags = np.empty(0, bool) if is_member is None else is_member
    with np.errstate(over="ignore", invalid="ignore"):  # kernels that run as Python warn
        begin = kernels.divide(
            partition, flags, ticks, longest, of_partition, np.zeros(len(of_partition), ticks.dtype), groups,
            of_event,
        )  # fmt: skip
    first, last, length, number = (np.empty(n - begin, np.int64) for _ in range(4))
    of_partition[:] = 0
    kernels.write_numbers(partition, groups, begin, of_partition, first, last, length, number, of_event)
    return Groups(first, last, length, number, of_event if of_events else None)


ONE, ALL = "one", "all"
_queries = Recent(128)


class Idiom(Protocol):
    """Divides the rows of each partition into groups. Its query finds the rows that can be in one."""

    @property
    def query(self) -> RegexQuery:
        """A pattern of one row."""
        ...

    @property
    def noun(self) -> str:
        """The name of the column with the numbers of the groups."""
        ...

    @property
    def gap(self) -> Duration | None:
        """Longest time between two rows of a group; None if time does not matter."""
        ...

    @property
    def takes_all(self) -> bool:
        """Whether every row is in a group, so that its query need not look for rows."""
        ...

    def group(
        self, query: RegexQuery, source: Source, events: Events, is_member: np.ndarray | None, of_events: bool
    ) -> Groups:
        """Return the groups; ``is_member`` says which rows the query finds, ``query`` has its clock."""
        ...


def is_spark(frame: Frame) -> bool:
    """Return whether a frame is one of Spark. Never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and isinstance(frame, sql.DataFrame)


def source_and_native(frame: Frame) -> tuple[Source, Callable[[Frame], Frame]]:
    """Return a frame in memory as a source, and the function that converts results to its kind."""
    return open_door("source of a frame")(frame)


def find_hits(source: Source, query: RegexQuery) -> tuple[RegexQuery, MatchSet]:
    """Return the query as bound to the source, and the rows that its pattern of one row finds."""
    program, events = _bind(source, query)
    return program.query, match_regex(program, events)


def _bind(source: Source, query: RegexQuery) -> tuple[Program, Events]:
    """Return the program of a query and the events of a source, with all warnings."""
    program = compile_checked(query, source)
    assert isinstance(program, Program)
    events = build_events(source, program)
    warn_of_numbers_as_text(program, events)
    warn_of_ties(program, source, events)
    return program, events


def mask_of(hits: MatchSet) -> np.ndarray:
    """Return by stream position whether a row is among the matches of one row."""
    mask = np.zeros(hits.events.n_events, bool)
    mask[hits.last] = True
    return mask


def check_rows(rows: str) -> None:
    """Raise unless ``rows`` is one of its two values."""
    if rows not in (ONE, ALL):
        raise CepError(f"rows={rows!r}: 'one' for one row each, or 'all' for the rows of the frame")


def answer(frame: Frame, idiom: Idiom, rows: str) -> Frame:
    """Return one row per group, or all rows of the frame with the number of their group."""
    check_rows(rows)
    if is_spark(frame):
        return _answer_on_spark(frame, idiom, rows)
    source, native = source_and_native(frame)
    source = with_types(source, _timed(idiom))
    program, events = _bind(source, idiom.query)
    is_member = None if idiom.takes_all else mask_of(match_regex(program, events))
    groups = idiom.group(program.query, source, events, is_member, rows == ALL)
    if rows == ALL:
        number = _numbers(groups, events)
        is_none = number == 0
        numbers = pd.arrays.IntegerArray(number, is_none) if is_none.any() else number
        return native(source.tagged({idiom.noun: numbers}))
    return native(source.result(_columns(idiom, program.query, source, events, groups)))


def _timed(idiom: Idiom) -> RegexQuery:
    """Return the query with the gap as a window, from which the type of an empty clock follows."""
    query, gap = idiom.query, idiom.gap
    if gap is None:
        return query
    return remembered(_queries, key_or_none(Same(query), gap), partial(replace, query, within=gap))


def _numbers(groups: Groups, events: Events) -> np.ndarray:
    """Return the number of the group of each row of the frame; 0 for rows without one."""
    numbers = groups.number_of_event
    assert numbers is not None, "numbers of rows that nobody asked for"
    if events.row_of_event is None:
        return numbers
    number = np.empty(events.n_events, np.int64)
    number[events.row_of_event] = numbers
    return number


def _columns(
    idiom: Idiom, query: RegexQuery, source: Source, events: Events, groups: Groups
) -> dict[str, Measured]:
    matches = MatchSet(events, groups.first, groups.last)
    last_rows = events.rows(groups.last)
    columns: dict[str, Measured] = {name: Picked(name, last_rows) for name in query.partition_by}
    group_columns: dict[str, Measured] = {idiom.noun: pa.array(groups.number)}
    for name, ends in (("start", groups.first), ("end", groups.last)):
        group_columns[name] = (
            Picked(query.order_by[0], events.rows(ends)) if query.order_by else pa.array(ends)
        )
    group_columns["length"] = pa.array(groups.length)
    measured = {} if query.measures is None else measure(query, matches, source)
    wanted = {name: values for name, values in measured.items() if name not in query.partition_by}
    if twice := sorted({*group_columns} & {*columns, *wanted}):
        raise CepError(f"the result has a column {twice[0]!r} already; rename that key or measure")
    return columns | group_columns | wanted


# --- Spark


@dataclass(frozen=True, slots=True)
class AnswerOfTask:
    """Computes the result columns of an idiom for the rows of one Spark task."""

    idiom: Any  # Idiom
    rows: str

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield the columns of the result."""
        query, events, source = searched.query, searched.events, searched.source
        is_member = None if self.idiom.takes_all else mask_of(searched.found.whole)
        groups = self.idiom.group(query, source, events, is_member, self.rows == ALL)
        if self.rows == ALL:
            number = _numbers(groups, events)
            columns = [(name, Picked(name, np.arange(source.n_rows))) for name in searched.columns]
            yield [*columns, (self.idiom.noun, pa.array(number, mask=number == 0))]
        else:
            yield list(_columns(self.idiom, query, source, events, groups).items())


def _answer_on_spark(frame: Frame, idiom: Idiom, rows: str) -> Frame:
    from cepkit.frames.arrow import check_free

    program, source, needed = bind_on_spark(frame, idiom.query)
    columns = source.names if rows == ALL else needed
    if rows == ALL:
        check_free([idiom.noun], source.names)
    names, output = run_on_spark(frame, source, program, columns, AnswerOfTask(idiom, rows))
    return output.toDF(*names)


def bind_on_spark(frame: Frame, query: RegexQuery) -> tuple[Program, Any, list[str]]:
    """Return a query bound to a Spark frame, the frame's columns, and the names of the columns it reads."""
    from cepkit.frames.spark.tasks import needed_columns
    from cepkit.results.spark.binding import bind

    program, source = bind(frame, query)
    assert isinstance(program, Program)
    if not query.partition_by:
        warn(
            "without partition_by all rows are one stream, which a single Spark task must hold; with "
            "partition_by the tasks share the work"
        )
    return program, source, needed_columns(program, source)


def run_on_spark(
    frame: Frame, source: Any, program: Program, columns: Sequence[str], tell: Tell
) -> tuple[list[str], Any]:
    """Return the names and the rows, lazily, that ``tell`` yields for every task."""
    from cepkit.frames.spark.tasks import check_convertible, rows_by_key, run_tasks
    from cepkit.pipelines.spark_session import worker_python
    from cepkit.results.spark.tasks import QueryTask, nothing_found

    check_convertible(source, columns)
    nothing = next(iter(tell(nothing_found(program, source, columns))))
    output = run_tasks(
        rows_by_key(frame, source, columns, program.query.partition_by), source, nothing, QueryTask,
        columns=tuple(columns), query=program.query, schema=program.schema, engine=None, tell=tell,
        limit=None,
    )  # fmt: skip
    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python
    return [name for name, _ in nothing], output


def free_name(name: str, frame: Frame) -> str:
    """Return a name that no column of the frame has, for a predicate."""
    taken = {str(column).lower() for column in _names(frame)}
    while name in taken:
        name += "_"
    return name


def _names(frame: Frame) -> Sequence[Any]:
    if isinstance(frame, pd.DataFrame):
        return [*frame.columns, *frame.index.names]
    return list(getattr(frame, "columns", ())) if not isinstance(frame, pa.Table) else frame.column_names


def kept_query(make: Callable[..., RegexQuery], *given: Any, **keywords: Any) -> RegexQuery:
    """Return what ``make`` returns; equal arguments return the same value, a key of the plan cache."""
    key = key_or_none(Same(make), given, keywords, registered_functions())
    return remembered(_queries, key, partial(make, *given, **keywords))


def as_measures(measures: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the keyword for `regex_query`; no measures are no keyword."""
    return {"measures": dict(measures)} if measures else {}
