"""The rows for which a condition holds, in memory or in the tasks of Spark, and the results of idioms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex_program import Program
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.regex import match_regex
from cepkit.engines.regex_measures import Measured, Picked, measure
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError, warn
from cepkit.events import Events, Frame, Source
from cepkit.frames.building import build_events
from cepkit.frames.sources import is_on_spark, source_of_frame, with_types
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import registered_functions
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.query_parts import Duration
from cepkit.language.regex import RegexQuery
from cepkit.planning.clocks import clock_values, duration_on_clock, warn_of_numbers_as_text, warn_of_ties
from cepkit.planning.plans import Recent, Same, compile_checked, key_or_none, remembered
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from cepkit.frames.spark import Results
    from cepkit.results.spark_tasks import Searched, Tell


KERNELS = "cepkit.kernels.groups"
_LONGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Grouping:
    """How the rows of each partition are divided into groups of neighbours."""

    # The queries have a pattern of one row. ``query`` finds the members of groups; its measures are theirs.

    query: RegexQuery
    noun: str  # the column with the numbers of the groups
    takes_all: bool = False  # every row is a member, so that nobody needs to look for them
    begins: RegexQuery | None = None  # rows that begin a group
    ends: RegexQuery | None = None  # rows that end a group
    only_begun: bool = False  # a group whose first row is not in ``begins`` is left out
    gap: Duration | None = None  # longest time between two rows of a group
    span: Duration | None = None  # longest time from its first row to its last
    by: tuple[str, ...] = ()  # columns whose values the rows of a group share
    least: int = 1  # fewest rows of a group
    from_row_before: bool = False  # the row before a group belongs to it


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups in the order of their last row. They are numbered from 1 in every partition."""

    first: np.ndarray  # int64, (n_groups,): stream position of the first row
    last: np.ndarray  # int64, (n_groups,): stream position of the last row
    length: np.ndarray  # int64, (n_groups,)
    number: np.ndarray  # int64, (n_groups,)
    after: np.ndarray  # int64, (n_groups,): stream position of the next row of the partition, -1 for none
    is_closed: np.ndarray | None  # bool, (n_groups,): whether the last row is one of ``ends``
    number_of_event: np.ndarray | None  # int64, (n_events,), by stream position; 0 for rows without a group


def group_rows(
    grouping: Grouping, query: RegexQuery, source: Source, events: Events, is_member: np.ndarray | None, *,
    of_events: bool = False,
) -> Groups:  # fmt: skip
    """Return the longest groups; ``is_member`` says which rows ``grouping.query`` finds, None for all."""
    kernels, n, n_partitions = load_kernels(KERNELS), events.n_events, max(1, events.n_partitions)
    partition = events.partition_of_event if events.n_partitions > 1 else np.empty(0, np.int32)
    is_begin, is_end = _mask(grouping.begins, source), _mask(grouping.ends, source)
    begins = _all_begins(grouping, query, source, events, is_begin, is_end)
    groups = np.empty((n, 5), np.int64)  # memory that no group fills is not taken
    of_event = np.full(n if of_events else 0, -1)
    of_partition, later = np.full((2, n_partitions), -1)
    flags = np.empty(0, bool) if is_member is None else is_member
    begin = kernels.divide(partition, flags, begins, of_partition, later, groups, of_event)
    groups = groups[begin:]
    is_kept = np.ones(len(groups), bool)
    if grouping.least > 1:
        is_kept &= groups[:, 2] >= grouping.least
    if grouping.only_begun:
        is_kept &= is_begin[groups[:, 0]]
    if not is_kept.all():
        groups = groups[is_kept]
    first, last, length, before, after = (np.ascontiguousarray(column) for column in groups.T)
    number = np.empty(len(groups), np.int64)
    kernels.number_groups(partition, last, np.zeros(n_partitions, np.int64), number)
    number_of_event = None
    if of_events:
        number_of_group = np.zeros(len(is_kept) + 1, np.int64)  # the last one is for events without a group
        number_of_group[:-1][is_kept] = number
        number_of_event = number_of_group[np.where(of_event < 0, len(is_kept), of_event - begin)]
    if grouping.from_row_before:
        has_row = before >= 0
        first, length = np.where(has_row, before, first), length + has_row
        if number_of_event is not None:
            alone = has_row & (number_of_event[before] == 0)
            number_of_event[before[alone]] = number[alone]
    is_closed = None if grouping.ends is None else is_end[last]
    return Groups(first, last, length, number, after, is_closed, number_of_event)


def _all_begins(
    grouping: Grouping, query: RegexQuery, source: Source, events: Events, is_begin: np.ndarray,
    is_end: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return which events begin a group: those in ``is_begin``, after an end, a pause or the longest time."""
    limits = [
        -1 if limit is None else min(gap_ticks(limit, query.order_by, source, role), _LONGEST)
        for role, limit in (("gap", grouping.gap), ("max_span", grouping.span))
    ]
    if max(limits) < 0 and not len(is_end):
        return is_begin
    ticks = np.empty(0, np.int64)
    if max(limits) >= 0:
        ticks = clock_values(source, query.order_by[0], slice(None))
        ticks = ticks if events.row_of_event is None else ticks[events.row_of_event]
    if ticks.dtype.kind != "f":
        limits = [int(limit) for limit in limits]
    begins = is_begin.copy() if len(is_begin) else np.zeros(events.n_events, bool)
    n_partitions = max(1, events.n_partitions)
    partition = events.partition_of_event if events.n_partitions > 1 else np.empty(0, np.int32)
    state, (first_tick, last_tick) = (
        np.zeros(n_partitions, np.int64),
        np.zeros((2, n_partitions), ticks.dtype),
    )
    with np.errstate(over="ignore", invalid="ignore"):  # kernels that run as Python warn
        load_kernels(KERNELS).mark_begins(
            partition, ticks, *limits, is_end, state, first_tick, last_tick, begins
        )
    return begins


def _mask(query: RegexQuery | None, source: Source) -> np.ndarray:
    """Return which rows a query finds; empty without a query."""
    return np.empty(0, bool) if query is None else mask_of(find_hits(source, query)[1])


def gap_ticks(gap: Duration, order_by: tuple[str, ...], source: Source, role: str = "gap") -> int:
    """Return a duration in ticks of the clock, the first column of ``order_by``."""
    if not order_by:
        raise CepError(
            f"{role}={gap!r} needs a clock: name a column of times or numbers, as in order_by='ts'"
        )
    return duration_on_clock(role, gap, source, order_by[0])


ONE, ALL = "one", "all"
_queries = Recent(128)


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
    if rows not in (ONE, ALL):
        raise CepError(f"rows={rows!r}: 'one' for one row each, or 'all' for the rows of the frame")


def answer(frame: Frame, grouping: Grouping, rows: str) -> Frame:
    """Return one row per group, or all rows of the frame with the number of their group."""
    check_rows(rows)
    if is_on_spark(frame):
        return _answer_on_spark(frame, grouping, rows)
    source, native = source_of_frame(frame)
    source = with_types(source, _timed(grouping))
    program, events = _bind(source, grouping.query)
    is_member = None if grouping.takes_all else mask_of(match_regex(program, events))
    groups = group_rows(grouping, program.query, source, events, is_member, of_events=rows == ALL)
    if rows == ALL:
        number = _group_of_row(groups, events)
        is_none = number == 0
        numbers = pd.arrays.IntegerArray(number, is_none) if is_none.any() else number
        return native(source.tagged({grouping.noun: numbers}))
    return native(source.result(_columns(grouping, program.query, source, events, groups)))


def _timed(grouping: Grouping) -> RegexQuery:
    """Return the query with the gap as a window, from which the type of an empty clock follows."""
    query, gap = grouping.query, grouping.gap if grouping.gap is not None else grouping.span
    if gap is None:
        return query
    return remembered(_queries, key_or_none(Same(query), gap), partial(replace, query, within=gap))


def _group_of_row(groups: Groups, events: Events) -> np.ndarray:
    """Return the group number of each row of the frame; 0 for rows in no group."""
    group_of_event = groups.number_of_event
    assert group_of_event is not None, "numbers of rows that nobody asked for"
    if events.row_of_event is None:
        return group_of_event
    group_of_row = np.empty(events.n_events, np.int64)  # every row is that of an event
    group_of_row[events.row_of_event] = group_of_event
    return group_of_row


def _columns(
    grouping: Grouping, query: RegexQuery, source: Source, events: Events, groups: Groups
) -> dict[str, Measured]:
    matches = MatchSet(events, groups.first, groups.last)
    last_rows = events.rows(groups.last)
    columns: dict[str, Measured] = {name: Picked(name, last_rows) for name in query.partition_by}

    def place(positions: np.ndarray) -> Measured:
        return Picked(query.order_by[0], events.rows(positions)) if query.order_by else pa.array(positions)

    columns |= {name: Picked(name, last_rows) for name in grouping.by}
    group_columns: dict[str, Measured] = {grouping.noun: pa.array(groups.number)}
    group_columns |= {"start": place(groups.first), "end": place(groups.last)}
    group_columns["length"] = pa.array(groups.length)
    if grouping.by:
        is_open = groups.after < 0
        group_columns["until"] = place(np.where(is_open, groups.last, groups.after))
        group_columns["open"] = pa.array(is_open)
    if groups.is_closed is not None:
        group_columns["closed"] = pa.array(groups.is_closed)
    measured = {} if query.measures is None else measure(query, matches, source)
    wanted = {name: values for name, values in measured.items() if name not in query.partition_by}
    if twice := sorted({*group_columns} & {*columns, *wanted} | {*grouping.by} & {*wanted}):
        raise CepError(f"the result has a column {twice[0]!r} already; rename that key or measure")
    return columns | group_columns | wanted


# --- Spark


@dataclass(frozen=True, slots=True)
class AnswerOfTask:
    """Computes the result columns of groups for the rows of one Spark task."""

    grouping: Grouping
    rows: str

    def __call__(self, searched: Searched) -> Iterator[Results]:
        query, events, source = searched.query, searched.events, searched.source
        is_member = None if self.grouping.takes_all else mask_of(searched.found.whole)
        groups = group_rows(self.grouping, query, source, events, is_member, of_events=self.rows == ALL)
        if self.rows == ALL:
            number = _group_of_row(groups, events)
            columns = [(name, Picked(name, np.arange(source.n_rows))) for name in searched.columns]
            yield [*columns, (self.grouping.noun, pa.array(number, mask=number == 0))]
        else:
            yield list(_columns(self.grouping, query, source, events, groups).items())


def _answer_on_spark(frame: Frame, grouping: Grouping, rows: str) -> Frame:
    from cepkit.frames.arrow import check_free

    program, source, needed = bind_on_spark(frame, grouping.query)
    for query in (grouping.begins, grouping.ends):
        needed += [] if query is None else _bind_on_spark(frame, query)[2]
    columns = [name for name in source.names if rows == ALL or name in {*needed, *grouping.by}]
    if rows == ALL:
        check_free([grouping.noun], source.names)
    names, output = run_on_spark(frame, source, program, columns, AnswerOfTask(grouping, rows))
    return output.toDF(*names)


def bind_on_spark(frame: Frame, query: RegexQuery) -> tuple[Program, Any, list[str]]:
    """Return a query bound to a Spark frame, the frame's columns, and the names of the columns it reads."""
    bound = _bind_on_spark(frame, query)
    if not query.partition_by:
        warn(
            "without partition_by all rows are one stream, which a single Spark task must hold; with "
            "partition_by the tasks share the work"
        )
    return bound


def _bind_on_spark(frame: Frame, query: RegexQuery) -> tuple[Program, Any, list[str]]:
    from cepkit.frames.spark import needed_columns
    from cepkit.results.spark_binding import bind

    program, source = bind(frame, query)
    assert isinstance(program, Program)
    return program, source, needed_columns(program, source)


def run_on_spark(
    frame: Frame, source: Any, program: Program, columns: Sequence[str], tell: Tell
) -> tuple[list[str], Any]:
    """Return the names and the rows, lazily, that ``tell`` yields for every task."""
    from cepkit.frames.spark import check_convertible, rows_by_key, run_tasks
    from cepkit.pipelines.spark_session import worker_python
    from cepkit.results.spark_tasks import QueryTask, nothing_found

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
    taken = {str(column).lower() for column in column_names(frame)}
    while name in taken:
        name += "_"
    return name


def column_names(frame: Frame) -> Sequence[Any]:
    """Return the names of the columns of a frame of any kind, and of its index."""
    if isinstance(frame, pd.DataFrame):
        return [*frame.columns, *frame.index.names]
    if isinstance(frame, pa.Table):
        return frame.column_names
    return list(getattr(frame, "columns", ()))


def kept_query(make: Callable[..., RegexQuery], *given: Any, **keywords: Any) -> RegexQuery:
    """Return what ``make`` returns; equal arguments return the same value, a key of the plan cache."""
    key = key_or_none(Same(make), given, keywords, registered_functions())
    return remembered(_queries, key, partial(make, *given, **keywords))


def parameters_of(*conditions: Any) -> set[str] | None:
    """Return the names of the ``:parameters`` in conditions; None if one is a function, which hides them."""
    names: set[str] = set()
    for condition in conditions:
        tree = parse_expression(condition, role="condition") if isinstance(condition, str) else condition
        if callable(tree) and not isinstance(tree, ex.Expression):
            return None
        if isinstance(tree, ex.Expression):
            names |= {node.name for node in tree.walk(literals=False) if isinstance(node, ex.Parameter)}
    return names


def as_measures(measures: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the keyword for `regex_query`; no measures are no keyword."""
    return {"measures": dict(measures)} if measures else {}
