"""Operators and queries in a row, as chains; windows over the rows of one source, and what they emit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.reducing import one_chunk
from cepkit.errors import CepError
from cepkit.events import Frame, Source
from cepkit.frames.arrow import check_free, taken
from cepkit.frames.building import partition_codes, stream_order
from cepkit.frames.pandas import series_of_arrow
from cepkit.frames.sources import Wishes, with_types
from cepkit.language.expressions import trees as ex
from cepkit.planning.clocks import clock_values, duration_on_clock
from cepkit.planning.plans import check_columns
from cepkit.planning.queries import Arguments, as_query
from cepkit.values import dataclass, replace
from cepkit.windows.aggregating import RowEvaluator, WindowEvaluator
from cepkit.windows.ranges import Emitted, Size, emitted, limits_of
from cepkit.windows.values import ALL, EMITTED, SIDES, STATUS, Join, Operator, Window

# `Chain`: operators and queries. Each step reads the result of the step before.

_PER_PART = 1 << 18  # items whose aggregates are computed together
_OWN_SETTINGS = (
    "cep.Window and cep.Join contain their own settings; give order_by, where and measures there, not to "
    "the call"
)


@dataclass(frozen=True)
class Chain:
    """Operators in the order of the events: windows, queries, and a join only as the first."""

    steps: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise CepError("a chain needs one operator at least, as in [cep.Window(…), 'PATTERN SEQ(…)']")
        for number, step in enumerate(self.steps[1:], start=2):
            if isinstance(step, Join):
                raise CepError(
                    f"step {number} of the chain is a join, which reads two streams; only the first step can "
                    "be one"
                )

    @property
    def order_by(self) -> tuple[str, ...]:
        """The order columns of the first step."""
        return self.steps[0].order_by

    @property
    def partition_by(self) -> tuple[str, ...]:
        """No column: each step has its own keys."""
        return ()

    def trees(self) -> Iterator[tuple[str, Any]]:
        """Yield (role, tree) of every expression of every step."""
        for step in self.steps:
            yield from step.trees()

    def __str__(self) -> str:
        return " → ".join(said(step) for step in self.steps)


def said(step: Any) -> str:
    """Return an operator or a query in one line."""
    return repr(step) if isinstance(step, Operator) else str(getattr(step, "pattern", step))


def as_value(query: Any, given: Arguments) -> Any:
    """Return a query, an operator, or a list of them as a value; the keywords belong to the queries."""
    if isinstance(query, list | tuple):
        is_query = [not isinstance(step, Operator) for step in query]
        if not any(is_query) and given != Arguments():
            raise CepError(_OWN_SETTINGS)
        return Chain(
            tuple(
                as_value(step, given if takes_keywords else Arguments())
                for step, takes_keywords in zip(query, is_query, strict=True)
            )
        )
    if isinstance(query, Operator):
        if given != Arguments():
            raise CepError(_OWN_SETTINGS)
        return query
    return as_query(query, given)


# How windows, joins and chains are read, in words.

Lines = tuple[tuple[str, str], ...]
IN_MEMORY = "in memory, over the rows in order; engine=cep.ScatterGather(nodes=4) divides them among nodes"


@dataclass(frozen=True, repr=False)
class OperatorExplanation:
    """How a window, a join or a chain is read and how it runs; prints as text."""

    lines: Lines  # labels and texts

    def __str__(self) -> str:
        return "\n".join(f"{label:12} {text}" for label, text in self.lines)

    __repr__ = __str__


def lines_of(query: Any, *, is_stream: bool = False) -> Lines:
    """Return labels and texts that say how a window, a join or a chain is read."""
    # ``is_stream`` says that time is a watermark.
    if isinstance(query, Chain):
        steps = [(f"step {i}", said(step)) for i, step in enumerate(query.steps, start=1)]
        return (*steps, ("result", "the results of the last step; each step reads those of the step before"))
    if isinstance(query, Join):
        return _lines_of_join(query)
    return _lines_of_window(query, is_stream=is_stream)


def _lines_of_window(window: Window, *, is_stream: bool) -> Lines:
    """Return the lines of `explain` for a window."""
    rows = "a row for each row that arrives"
    if window.emit == ALL:
        rows += ", and one for each row that leaves"
        rows += ", when the watermark passes its time" if window.time is not None and is_stream else ""
    return ("window", repr(window)), ("holds", _held(window, window.order_by)), ("result", rows)


def _held(window: Window, order_by: tuple[str, ...]) -> str:
    """Return which rows a window holds."""
    of_group = " of its group" if window.group_by else ""
    where = "" if window.where is None else f" for which {window.where} is true"
    if window.time is None:
        n, of_all = window.length, ", of all groups together" if window.group_by else ""
        what = f"batches of {n:,} rows" if window.tumbling else f"the last {n:,} rows"
        return f"{what}{where}{of_all}" + (f"; an aggregate ranges over those{of_group}" if of_group else "")
    clock = order_by[0] if order_by else "the clock"
    if window.tumbling:
        return f"the rows{of_group}{where} in batches of {window.time}, which begin at multiples of it"
    return f"the rows{of_group}{where} with {clock} > now - {window.time}"


def _lines_of_join(join: Join) -> Lines:
    """Return the lines of `explain` for a join."""
    lines = [("join", repr(join))]
    for which, side in enumerate(SIDES):
        window = getattr(join, side)
        held = "no row waits; a row only meets rows that wait on the other side"
        if window is not None:
            held = _held(window, join.order_by[which : which + 1] or window.order_by)
        lines.append((side, held))
    pairs = (
        " and ".join(f"left.{left_key} = right.{right_key}" for left_key, right_key in join.on) or "all pairs"
    )
    if join.where is not None:
        pairs += f", where {join.where}"
    lines.append(("pairs", pairs))
    arrivals = {"both": "either side", "left": "the left side", "right": "the right side"}[join.trigger]
    alone = {"inner": "", "left": "of the left side ", "right": "of the right side ", "outer": ""}[join.how]
    rows = f"a row for each pair that a row of {arrivals} makes on arrival"
    if join.how != "inner":
        rows += f"; also a row for each arrival {alone}without a partner"
    lines.append(("result", rows))
    return tuple(lines)


# Windows over the rows of one source: which rows they emit, in which order, with which columns.

CURRENT, EXPIRED = "current", "expired"
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class WindowRows:
    """What a window emits over a source."""

    rows: np.ndarray  # int64, (n_emitted,): row numbers of the source
    columns: dict[str, pa.Array]  # those that the window adds
    # (n_emitted,): ticks of the clock at which a window of time emits; None if each row is emitted on arrival
    moment: np.ndarray | None = None


def check_window(window: Window, source: Source) -> Window:
    """Return a window with its clock, after every check that needs no rows."""
    window = with_clock(window, source)
    check_columns(source, "order_by", window.order_by)
    check_columns(source, "group_by", window.group_by)
    check_names(window, source)
    size_of(window, source)
    added = window.added_columns(is_timed=bool(window.order_by))
    if twice := sorted({name for name in added if added.count(name) > 1}):
        raise CepError(f"emit='all' adds the columns {twice}; give the aggregates other names")
    check_free(added, source.schema)
    return window


def with_types_of_window(window: Window, source: Source) -> Source:
    """Return the source; columns without values have the types that a window gives them."""
    trees = [tree for _, tree in window.trees()]
    conditions = [window.where] if window.where is not None else []
    is_timed = isinstance(window.time, str | timedelta) and window.order_by
    types = {window.order_by[0]: pa.timestamp("ns")} if is_timed else {}
    params = dict(window.params)
    return with_types(source, Wishes(window.group_by, window.order_by, trees, conditions, params, types))


def with_clock(window: Window, source: Source) -> Window:
    """Return a window that is ordered by the clock of the source if it names none."""
    if not window.order_by and source.clock is not None:
        return replace(window, order_by=(source.clock,))
    return window


def check_names(query: Operator, source: Source) -> None:
    """Raise for columns that several columns of the source are named."""
    for role, tree in query.trees():
        names = {node.name for node in tree.walk(literals=False) if isinstance(node, ex.Attribute)}
        check_columns(source, role, tuple(sorted(names & source.duplicates)))


def size_of(window: Window, source: Source) -> Size:
    """Return the size of a window in ticks of its clock, or in rows."""
    if window.time is None:
        return Size(False, int(window.length or 0), window.tumbling)
    what = "tumbling" if window.tumbling else "time"
    if not window.order_by:
        raise CepError(
            f"{what}={window.time!r} needs a clock: name a column of times or numbers, as in order_by='ts'; "
            "a window of rows, as length=10, needs none"
        )
    width = duration_on_clock(what, window.time, source, window.order_by[0])
    if width < 1:
        raise CepError(f"{what}={window.time!r}: a window of 0 holds no row; give a positive duration")
    return Size(True, width, window.tumbling)


def keys_of_window(window: Window) -> tuple[str, ...]:
    """Return the columns whose groups have windows of their own; a window of rows counts all groups."""
    return window.group_by if window.time is not None else ()


def kept_rows(query: Any, source: Source, order_by: tuple[str, ...]) -> np.ndarray:
    """Return the row numbers in stream order for which ``where`` of a window is true, int64."""
    order = stream_order(source, order_by)
    rows = np.arange(source.n_rows, dtype=np.int64) if order is None else order.astype(np.int64)
    if query is None or query.where is None:
        return rows
    return rows[RowEvaluator(query, source, rows).truths("where", query.where)]


def run_window(
    window: Window, source: Source, evaluator: Callable[..., WindowEvaluator] = WindowEvaluator
) -> WindowRows:
    """Return what a checked window emits over a source; ``evaluator`` computes its aggregates."""
    rows = kept_rows(window, source, window.order_by)
    size, is_all = size_of(window, source), window.emit == ALL
    is_whole = len(rows) == source.n_rows and bool((rows[1:] > rows[:-1]).all())
    at = slice(None) if is_whole else rows  # to copy nothing

    def emission() -> Emitted:  # whose other arrays do not live on
        time = clock_values(source, window.order_by[0], at) if size.is_time else None
        limits = limits_of(size, time, len(rows), with_leaving=is_all)
        group, n_groups = partition_codes(source, window.group_by)
        places = rows if is_whole else None
        return emitted(size, limits, group[at], n_groups, with_leaving=is_all, places=places)

    return emit_rows(window, source, rows, emission(), size, evaluator=evaluator)


def window_part(
    window: Window, source: Source, n_known: int, first_number: int = 0, *, is_last: bool = True,
    now: int | None = None,
) -> tuple[WindowRows, int]:  # fmt: skip
    """Return what a checked window emits after its first rows, and the number of rows that have left."""
    n = source.n_rows
    rows = np.arange(n, dtype=np.int64)
    size = size_of(window, source)
    time = clock_values(source, window.order_by[0], slice(None)) if size.is_time else None
    limits = limits_of(size, time, n, first_number)
    group, n_groups = partition_codes(source, window.group_by)
    emission = emitted(size, limits, group, n_groups, with_leaving=window.emit == ALL)
    n_gone = int(np.searchsorted(limits.gone, n))
    if time is not None and now is not None:
        n_gone = int(np.searchsorted(leaving_ticks(time, size), now, side="right"))
    end = n + n_gone if window.emit == ALL and not is_last else len(emission.row_of_item)
    return emit_rows(window, source, rows, emission, size, np.arange(n_known, end)), n_gone


def emit_rows(
    window: Window, source: Source, rows: np.ndarray, made: Emitted, size: Size,
    wanted: np.ndarray | None = None, evaluator: Callable[..., WindowEvaluator] = WindowEvaluator,
) -> WindowRows:  # fmt: skip
    """Return emitted rows with their columns; ``wanted`` limits them to some, as indices into the result."""
    if wanted is not None:
        made = made.only(wanted)
    chunks: dict[str, list[pa.Array]] = {name: [] for name, _ in window.aggregates}
    for part in made.parts(_PER_PART) if evaluator is WindowEvaluator else [made]:
        computed = evaluator(window, source, rows, part)
        for name, tree in window.aggregates:
            chunks[name].append(computed.values(f"aggregate {name!r}", tree))
    part = computed = None
    made, moment = made._replace(start=_NONE, stop=_NONE), None  # a result takes their place in memory
    columns = {name: _joined(chunks.pop(name)) for name, _ in window.aggregates}
    row_of_item = rows if made.row_of_item is rows else rows[made.row_of_item]  # all rows as they are
    if window.emit == ALL:
        has_left = np.arange(len(row_of_item)) >= made.n_arrivals
        if size.is_time:
            moment = _moments(source, window.order_by[0], row_of_item, has_left, size)
        columns[STATUS] = pa.array(np.where(has_left, EXPIRED, CURRENT).astype(object), pa.string())
        if moment is not None:
            columns[EMITTED] = _as_times(moment, source, window.order_by[0])
        elif window.order_by:
            assert made.moment_of_item is not None
            columns[EMITTED] = source.arrow(window.order_by[0], rows[made.moment_of_item])
    if (order := made.order) is not None:
        row_of_item = row_of_item[order]
        columns = {name: taken(values, order) for name, values in columns.items()}
        moment = None if moment is None else moment[order]
    return WindowRows(row_of_item, columns, moment)


def _joined(parts: list[pa.Array]) -> pa.Array:
    """Return arrays as one; a part of many numbers leaves the list, and memory, when it is copied."""
    is_plain = all(part.type in (pa.int64(), pa.float64()) and not part.null_count for part in parts)
    if len(parts) < 2 or not is_plain or len({part.type for part in parts}) > 1:
        return one_chunk(pa.chunked_array(parts))
    out, stop = np.empty(sum(map(len, parts)), parts[0].type.to_pandas_dtype()), 0
    while parts:
        part = parts.pop(0)
        stop += len(part)
        out[stop - len(part) : stop] = part.to_numpy()
    return pa.array(out)


def _moments(
    source: Source, clock: str, row_of_item: np.ndarray, has_left: np.ndarray, size: Size
) -> np.ndarray:
    """Return the ticks of the clock at which a window of time emits every item."""
    ticks = clock_values(source, clock, row_of_item)
    if not has_left.any():
        return ticks
    return np.where(has_left, leaving_ticks(ticks, size), ticks)


def leaving_ticks(ticks: np.ndarray, size: Size) -> np.ndarray:
    """Return the ticks of the clock at which rows leave a window of time, or the last tick of 64 bits."""
    begin = np.floor_divide(ticks, size.width) * size.width if size.tumbling else ticks
    end = begin + size.width
    return np.where(end < ticks, np.iinfo(np.int64).max, end) if end.dtype == np.int64 else end


def _as_times(ticks: np.ndarray, source: Source, clock: str) -> pa.Array:
    """Return ticks in the type of the clock of a frame."""
    clock_type = source.arrow(clock, np.empty(0, np.int64)).type
    if pa.types.is_dictionary(clock_type):
        clock_type = clock_type.value_type
    values = pa.array(ticks)
    if not pa.types.is_temporal(clock_type):
        return values
    unit = source.schema[clock].unit
    if pa.types.is_time(clock_type):
        return values.cast(pa.duration(unit))
    return values.cast(pa.timestamp(unit) if pa.types.is_date(clock_type) else clock_type)


def frame_with(source: Source, found: WindowRows, native: Callable[[Frame], Frame]) -> Frame:
    """Return the emitted rows as a frame of the kind of the source, with its index."""
    taken = source.rows(found.rows, {})
    if isinstance(taken, pd.DataFrame):
        for name, values in found.columns.items():
            # An array has no index to align; `insert` also suits the copies that pandas 2 warns of.
            taken.insert(taken.shape[1], name, series_of_arrow(values).array)
        return taken
    for name, values in found.columns.items():
        taken = taken.append_column(name, values)
    return native(taken)
