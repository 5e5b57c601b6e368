"""Checks of the order of events: a clock that measures time, and an order that decides between all events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.shared.terms import Table
from cepkit.errors import CepError, TieWarning, is_number, warn
from cepkit.events import (
    DURATION,
    EVENTS_PER_COUNT,
    FLOAT,
    INTEGER,
    OTHER,
    TEXT,
    TIME,
    Column,
    ColumnType,
    Events,
    Source,
)
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.expressions.trees import Aggregate, Previous
from cepkit.language.regex import RegexQuery
from cepkit.language.row_patterns import AnyEvent, Variable

if TYPE_CHECKING:
    from cepkit.compile.regex_program import Program
    from cepkit.compile.sequence_program import SequenceProgram
    from cepkit.language.query_parts import Duration
    from cepkit.language.sequences.patterns import SequenceQuery

CLOCKS = (INTEGER, FLOAT, TIME, DURATION)
_CONTIGUOUS = ("strict", "partition")  # strategies under which events between two events of a match count
_MOST_PAIRS = 1 << 14  # neighbours with equal times that are all looked at; more of them are sampled
_SAMPLES, _PAIRS_PER_SAMPLE = 8, 1 << 9
_Neighbours = Callable[[slice], np.ndarray]


# --- the clock


def check_clock(value: RegexQuery | SequenceQuery, source: Source) -> None:
    """Raise if a window needs a clock and the first column of ``order_by`` does not measure time."""
    needs = [
        name
        for name in ("within", "gap_within", "strict_time")
        if getattr(value, name, None) not in (None, False)
    ]
    clock_type = source.schema.get(value.order_by[0]) if value.order_by else None
    if not needs or clock_type is None:
        return
    name = value.order_by[0]
    if clock_type.kind == DURATION and pa.types.is_time(source.arrow(name, np.empty(0, np.int64)).type):
        raise CepError(f"{needs[0]} needs a clock, and column {name!r} {_times_of_day(source, name)}")
    if clock_type.kind not in CLOCKS:
        raise no_clock(needs[0], source, name)


def no_clock(what: str, source: Source, name: str) -> CepError:
    """Return the error for a column that is no clock; ``what`` needs one."""
    clock_type = source.schema[name]
    if clock_type.kind == TEXT:
        return CepError(f"{what} needs a clock, and column {name!r} is text; {_times_of_text(source, name)}")
    return CepError(
        f"{what} needs a clock, a column of times or numbers; column {name!r} is of type {clock_type}"
        f"{order_advice(source, name)}"
    )


def warn_of_bare_duration(role: str, duration: Duration | None, clock: ColumnType, name: str) -> None:
    """Warn of a window without a unit on a clock with a unit: on another clock it lasts another time."""
    if clock.unit is not None and is_number(duration):
        warn(
            f"{role}={duration} is read as {duration} {clock.unit}, the unit of column {name!r}; write "
            f"'{duration} {clock.unit}', or the unit that you mean"
        )


def duration_on_clock(role: str, duration: Duration, source: Source, name: str) -> int:
    """Return a duration in ticks of a clock; raise for a column that is none, and for a missing unit."""
    clock_type = source.schema[name]
    if clock_type.kind not in CLOCKS:
        raise no_clock(f"{role}={duration!r}", source, name)
    warn_of_bare_duration(role, duration, clock_type, name)
    if clock_type.kind in (INTEGER, FLOAT) and isinstance(duration, str | timedelta):
        raise unit_missing(role, duration, name)
    return duration_ticks(duration, clock_type.unit if clock_type.kind in (TIME, DURATION) else None)


def clock_values(source: Source, name: str, rows: np.ndarray | slice) -> np.ndarray:
    """Return the ticks of a clock at these rows, int64 or float64."""
    values = source.column(name).values[rows]
    return np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)


def order_advice(source: Source, name: str) -> str:
    """Return how to order a column of Python objects, to end an error message; no text for other columns."""
    if source.schema[name].kind != OTHER:
        return ""
    first = next((value for value in source.column(name).values if value is not None), None)
    if first is None:
        return ""
    column, times = _spelled(source, name)
    cures = {"Period": f"it holds Periods, so take their times: {column} = {times}.to_timestamp()"}
    return f"; {cures.get(type(first).__name__, f'it holds values such as {first!r}')}"


def _times_of_day(source: Source, name: str) -> str:
    """Return what to do with a clock that holds times of a day."""
    column, _ = _spelled(source, name)
    return (
        "holds times of a day; add the date: "
        f"pd.to_datetime(df['date'].astype(str) + ' ' + {column}.astype(str))"
    )


def _times_of_text(source: Source, name: str) -> str:
    """Return what to do with a clock that holds texts."""
    column, _ = _spelled(source, name)
    is_pandas = isinstance(source.frame, pd.DataFrame)
    if are_numbers(source.column(name)):
        return "make numbers of it first" + (f": {column} = pd.to_numeric({column})" if is_pandas else "")
    if not is_pandas:
        return (
            f"make times of it first: to_timestamp({name!r}) on Spark, pl.col({name!r}).str.to_datetime() in "
            "polars"
        )
    return f"make times of it first: {column} = pd.to_datetime({column})"


def _spelled(source: Source, name: str) -> tuple[str, str]:
    """Return the code of a column, and of its times; the index of a pandas frame is one, too."""
    frame = source.frame
    is_index = isinstance(frame, pd.DataFrame) and name not in frame.columns and frame.index.nlevels == 1
    return ("df.index", "df.index") if is_index else (f"df[{name!r}]", f"df[{name!r}].dt")


# --- numbers as text

_MOST_TEXTS = 1000  # texts of a column that are looked at


def are_numbers(column: Column) -> bool:
    """Return whether all texts of a column look like numbers."""
    texts = column.texts[:_MOST_TEXTS]
    try:
        return len(texts) > 0 and bool(np.isfinite([float(text) for text in texts]).all())
    except ValueError:
        return False


def warn_of_numbers_as_text(program: Program | SequenceProgram, events: Events) -> None:
    """Warn of a text column that a condition sorts and whose texts are all numbers: '10' is before '9'."""
    tables = [table for table in program.tables if isinstance(table, Table)]
    compared = {table.column for table in tables if table.test in ("<", "<=", ">", ">=")}
    for name in sorted(program.ordered_text | compared):
        column = events.columns.get(name)
        if column is None or column.categories is None or column.type.ordered:
            continue
        # Numbers of equal length, such as 0017, have the same order as texts.
        texts = column.texts[:_MOST_TEXTS]
        is_even = len({len(text) for text in texts}) < 2 and all(text.isdigit() for text in texts)
        if not is_even and are_numbers(column):
            warn(
                f"column {name!r} is text and its texts are numbers; texts compare letter by letter, so '10' "
                f"is less than '9'. Make numbers of it first: df[{name!r}] = pd.to_numeric(df[{name!r}])"
            )


# --- ties


class Ties(NamedTuple):
    """Events that share partition and order columns with another event."""

    share: float  # of all events
    is_exact: bool  # False: estimated from a part of the events
    positions: np.ndarray  # the events looked at, int64
    group_of_position: np.ndarray  # int64: equal for events that share partition and order columns


def find_ties(events: Events, equal: _Neighbours, columns: tuple[str, ...]) -> Ties | None:
    """Return the ties that differ in a column of ``columns``, or None without ties."""
    pairs, n_pairs = _some_of(equal, events)  # positions of events whose next has the same time
    if not n_pairs:
        return None
    # Sorting is quicker than np.unique, which hashes.
    both = np.sort(np.concatenate([pairs, pairs + 1]), kind="stable")
    positions = both[np.append(True, both[1:] > both[:-1])]
    is_new = np.ones(len(positions), bool)
    is_new[1 + np.searchsorted(positions, pairs)] = False  # the second event of each pair
    group = np.cumsum(is_new) * events.n_partitions + events.partition_of_event[positions]
    order = np.argsort(group, kind="stable")
    positions, group = positions[order], group[order]
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    differ = np.zeros(len(group), bool)  # from the event before, of the same group
    same = group[1:] == group[:-1]
    for name in columns:
        values = events.columns[name].values[positions]
        unlike = (values[1:] != values[:-1]) & ~((values[1:] != values[1:]) & (values[:-1] != values[:-1]))
        differ[1:] |= same & (unlike if unlike.ndim == 1 else unlike.any(axis=1))
    matters = np.repeat(np.logical_or.reduceat(differ, begins), np.diff(begins, append=len(group)))
    if not matters.any():
        return None
    share = matters.sum() / events.n_events * (n_pairs / len(pairs))
    return Ties(min(1.0, share), n_pairs == len(pairs), positions[matters], group[matters])


def _some_of(equal: _Neighbours, events: Events) -> tuple[np.ndarray, int]:
    """Return the positions where ``equal`` holds, a sample of them if they are many, and their number."""
    n, step = events.n_events - 1, EVENTS_PER_COUNT

    def tied(first_block: int, end_block: int) -> np.ndarray:
        low = first_block * step
        return low + np.flatnonzero(equal(slice(low, min(end_block * step, n))))

    counts = events.n_tied
    if counts is None:
        blocks = [slice(low, min(low + step, n)) for low in range(0, n, step)]
        counts = np.array([np.count_nonzero(equal(block)) for block in blocks])
    ends = np.cumsum(counts)
    n_pairs = int(ends[-1])
    if n_pairs <= _MOST_PAIRS:
        return np.concatenate([ends[:0], *(tied(i, i + 1) for i in np.flatnonzero(counts).tolist())]), n_pairs
    samples = []
    for begin in np.linspace(0, n_pairs - _PAIRS_PER_SAMPLE, _SAMPLES).astype(np.int64):
        # Only the blocks with these pairs are searched. The samples do not overlap.
        low = int(np.searchsorted(ends, begin, "right"))
        high = int(np.searchsorted(ends, begin + _PAIRS_PER_SAMPLE, "left")) + 1
        skipped = int(begin - (ends[low] - counts[low]))
        samples.append(tied(low, high)[skipped : skipped + _PAIRS_PER_SAMPLE])
    return np.concatenate(samples), n_pairs


def warn_of_ties(program: Program | SequenceProgram, source: Source, events: Events) -> None:
    """Warn of events that ``order_by`` leaves in any order, if the matches may depend on their order."""
    message = ties_in_words(program, source, events)
    if message:
        warn(message, TieWarning)


def ties_in_words(program: Program | SequenceProgram, source: Source, events: Events) -> str:
    """Return a sentence on ties in ``order_by``, or "" if the matches do not depend on their order."""
    query = program.query
    if events.n_events < 2 or not depends_on_ties(query):
        return ""
    is_tied = events.is_tied
    equal = _equal_neighbours(query.order_by, source, events) if is_tied is None else is_tied.__getitem__
    read = tuple(name for name in program.columns_to_read if name in events.columns)
    ties = find_ties(events, equal, read)
    if ties is None:
        return ""
    names = " and ".join(repr(name) for name in (*query.partition_by, *query.order_by))
    share = f"{100 * ties.share:.0f} %" if ties.share >= 0.01 else f"{100 * ties.share:.2g} %"
    wider = _completing_column(source, events, ties, {*query.partition_by, *query.order_by})
    cure = (
        f"Write order_by={[*query.order_by, wider]} to decide it"
        if wider
        else "No column of integers or times decides it; add one to order_by: df['seq'] = range(len(df))"
    )
    return (
        f"order_by={list(query.order_by)}: {'' if ties.is_exact else 'about '}{share} of the events share "
        f"{names} with another event. They keep the order of the rows, and the matches may depend on it. "
        f"{cure}"
    )


def _equal_neighbours(order_by: tuple[str, ...], source: Source, events: Events) -> _Neighbours:
    """Return a function that says which events of a range are at the time of the event after them."""
    keys = []
    for name in order_by:
        values = (events.columns[name] if name in events.columns else source.column(name)).values
        if name not in events.columns and events.row_of_event is not None:
            values = values[events.row_of_event]
        keys.append(values)

    def equal(rows: slice) -> np.ndarray:
        after = slice(rows.start + 1, rows.stop + 1)
        return np.logical_and.reduce([key[after] == key[rows] for key in keys])

    return equal


def depends_on_ties(query: object) -> bool:
    """Return whether the matches of a query may depend on an order that ``order_by`` leaves open."""
    # Those of a regex and of a contiguous sequence do, unless the regex is a single row without ``prev``. SQL
    # leaves the order of ties to the engine, so MATCH_RECOGNIZE has no warning.
    if not getattr(query, "order_by", ()):
        return False
    if not isinstance(query, RegexQuery):
        return getattr(query, "strategy", None) in _CONTIGUOUS
    if not isinstance(query.pattern, Variable | AnyEvent):
        return True
    return any(isinstance(node, Previous | Aggregate) for _, tree in query.define for node in tree.walk())


def _completing_column(source: Source, events: Events, ties: Ties, taken: set[str]) -> str | None:
    """Return a column of integers or times that orders all ties, if possible one without equal values."""
    names = (
        name
        for kind in (INTEGER, TIME)
        for name, column_type in source.schema.items()
        if column_type.kind == kind
    )
    rows, group, candidates = events.rows(ties.positions), ties.group_of_position, []
    for name in names:
        if name in taken or name in source.duplicates:
            continue
        values = source.column(name).values[rows]
        if _has_equals(group, values):
            continue
        ascending = values if (values[1:] > values[:-1]).all() else np.sort(values)
        if (ascending[1:] > ascending[:-1]).all():
            return name
        order = np.lexsort((values, group))
        if not _has_equals(group[order], values[order]):
            candidates.append(name)
    return candidates[0] if candidates else None


def _has_equals(group: np.ndarray, values: np.ndarray) -> bool:
    """Return whether two neighbours of a group have equal values."""
    return bool(((group[1:] == group[:-1]) & (values[1:] == values[:-1])).any())
