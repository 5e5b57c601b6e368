"""The matches in a frame in memory: parts, counts, frames, files, pictures and texts of any kind of query."""

from __future__ import annotations

import html
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.regex_measures import Measured, Picked
from cepkit.errors import CepError, short_text
from cepkit.events import Events, Frame, Source
from cepkit.frames.arrow import check_free
from cepkit.frames.pandas import as_pandas
from cepkit.language.expressions.durations import count_text, counted
from cepkit.limits import MemoryLimit, bound_memory, check_memory, fits_memory
from cepkit.planning.planner import Engine
from cepkit.progress import checkpoint, show_progress
from cepkit.results.found import (
    LIMIT,
    PER_CELL,
    PER_NUMBER,
    SHOWN,
    FoundResult,
    Limit,
    Match,
    array_of_range,
    bounds_of,
    check_key,
    check_limit,
    check_rows,
    html_of_table,
    limit_of,
    most_needed,
    number_of,
    number_of_items,
    paragraphs,
    plain_value,
    text_of_table,
)
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.engines.counting.estimate import CountEstimate
    from cepkit.plots.timeline_axes import Totals

DRAWN = 200  # matches that a picture shows when they must be built first
TOGETHER = 1000  # matches that are built at once without a check of their memory
_MANY_COLUMNS = 1000  # few matches that fit with this many columns need no other check
_LISTED_AT_ONCE = 1 << 16  # matches that are listed without a count of them
_MOST_TAGGED = 50_000_000  # matches that are looked at for the first match of each row
SHARED_ROWS = (
    "matched rows belong to several matches, and a tagged row has one; overlap='first' takes the first match "
    "of each row, and to_frame(rows='all') has all"
)
Tags = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows of the frame, their matches, and their variables
_IN_GROUP = 1 << 18  # matches in a row group of a Parquet file
_NOT_SEEN = "none in the part that was searched so far; count() searches all of it"


class Items(Protocol):
    """The events of some matches: match m has the items from ``first_item_of_match[m]`` to ``[m + 1]``."""

    @property
    def event_of_item(self) -> np.ndarray: ...  # positions in stream order
    @property
    def first_item_of_match(self) -> np.ndarray: ...  # int64, (n_matches + 1,)
    @property
    def match_of_item(self) -> np.ndarray: ...  # int64, (n_items,)


class Part(Protocol):
    """Some matches as arrays: a `MatchSet` or a `MatchBlock`."""

    @property
    def first(self) -> np.ndarray: ...  # positions of the first events, int64, (n_matches,)
    @property
    def last(self) -> np.ndarray: ...  # positions of the last events, int64, (n_matches,)
    def __len__(self) -> int: ...
    def take(self, matches: np.ndarray | slice) -> Part: ...


AnyPart = TypeVar("AnyPart", bound=Part)


def _same(frame: Frame) -> Frame:
    return frame


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundMatches(FoundResult, Generic[AnyPart]):
    """The matches of a program in some events, in canonical order, built on demand as parts."""

    program: Any  # a `Program` or a `SequenceProgram`
    whole: Any  # a `WholePart` or a `SequenceSet`: it counts, lists, draws and takes matches
    source: Source  # the searched frame
    engine: Engine
    native: Callable[[Frame], Frame] = _same  # makes a frame of the kind that was searched
    memory_limit: MemoryLimit = "auto"
    note: str = ""  # what the text says after the number of matches
    hint = ""  # the call that explains why nothing matches

    @property
    def query(self) -> Any:
        return self.program.query

    @property
    def frame(self) -> Frame:
        return self.source.frame

    @property
    def events(self) -> Events:
        return self.whole.events

    # --- parts

    def any(self) -> bool:
        return self.whole.any()

    def first(self, n: int) -> AnyPart:
        """Return the first ``n`` matches, or all when there are no more."""
        return self.whole.first(n)

    def draw(self, n: int, seed: int) -> AnyPart:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        return self.whole.sample(n, seed)

    @abstractmethod
    def bytes_to_build(self, n: int) -> int:
        """Return the least memory in bytes that ``n`` matches take while they are built."""

    @property
    @abstractmethod
    def nothing(self) -> AnyPart:
        """Return no matches."""

    @abstractmethod
    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches."""

    @abstractmethod
    def for_picture(self) -> AnyPart:
        """Return the matches from which a picture selects."""

    @abstractmethod
    def all(self) -> AnyPart:
        """Return all matches."""

    @abstractmethod
    def among(self, numbers: range) -> Any:
        """Return the matches with these numbers, as an object that can be ``whole``."""

    @abstractmethod
    def measure(self, part: AnyPart) -> Mapping[str, Measured]:
        """Return the result columns of a part."""

    @abstractmethod
    def items(self, part: AnyPart) -> Items:
        """Return the events of a part."""

    @abstractmethod
    def variables(self, part: AnyPart) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""

    def frame_of(self, part: AnyPart) -> Frame:
        """Return a part as a frame of the kind that was searched, with a row for each match."""
        return self.native(self.source.result(self.measure(part)))

    # --- how many

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> Any:
        if not isinstance(method, str) or method not in ("exact", "estimate"):
            raise CepError(f"method={short_text(repr(method))}: a count is 'exact' or an 'estimate'")
        return self.whole.count() if method == "exact" else self.estimate(samples, seed)

    def count_by_last(self) -> pd.DataFrame:
        """Return how many matches end at each row, as a frame."""
        positions, counts = self.whole.ends()
        rows = self.events.rows(np.asarray(positions, np.int64))
        columns = {"index": self.source.index_labels(rows)}
        for name in dict.fromkeys((*self.query.partition_by, *self.query.order_by)):
            columns[name] = self.source.arrow(name, rows).to_pandas()
        columns["count"] = counts if isinstance(counts, np.ndarray) else np.array(counts, dtype=object)
        return pd.DataFrame(columns)

    # --- matches that are built within the limits of memory and of the number of matches

    def _all(self, limit: Limit, *, with_columns: bool = False) -> AnyPart:
        """Return all matches if there are at most ``limit``; their columns may need memory as well."""
        n_wanted = limit_of(limit, LIMIT)
        most = self.whole.at_most()
        are_few = most <= _LISTED_AT_ONCE and (n_wanted is None or most <= n_wanted)
        if are_few and fits_memory(self.bytes_to_build(most)):  # nobody need count them first
            part = self.all()
            self._check_frame(len(part), with_columns)
            return part
        n = self.whole.count()
        check_limit(n, n_wanted)
        self._check_frame(n, with_columns)
        return self.all()

    def _check_frame(self, n: int, with_columns: bool) -> None:
        """Raise if a frame of ``n`` matches does not fit into memory."""
        if n > TOGETHER or not fits_memory(self._bytes_of(n, _MANY_COLUMNS)):
            n_columns = len(self.measure(self.nothing)) if with_columns else 0
            check_memory(self._bytes_of(n, n_columns), f"{count_text(n)} matches")

    def _check_building(self, n: int, bytes_each: int = 0, *, is_asked: bool = False) -> None:
        """Raise if the frame of ``n`` matches, or of all if there are no more, takes too much memory."""
        # ``bytes_each`` is what each match takes besides. ``is_asked`` says that all ``n`` matches are built,
        # even if some of them are the same.
        if n <= TOGETHER:
            return
        n_columns = len(self.measure(self.nothing))
        needed = self._bytes_of(n, n_columns) + bytes_each * n
        if fits_memory(needed):
            return  # without counting the matches
        if not is_asked and (there := self.whole.count()) < n:
            n, needed = there, self._bytes_of(there, n_columns) + bytes_each * there
        check_memory(needed, f"{count_text(n)} matches")

    def _bytes_of(self, n: int, n_columns: int) -> int:
        return self.bytes_to_build(n) + PER_CELL * n * n_columns

    # --- some of them

    def head(self, n: int) -> Frame:
        self._check_building(n)
        return self.frame_of(self.first(n))

    def sample(self, n: int, seed: int) -> Frame:
        self._check_building(n, PER_NUMBER)
        return self.frame_of(self.draw(n, seed))

    def take(self, numbers: Sequence[int]) -> Frame:
        """Return the matches with these numbers as a frame."""
        check = partial(self._check_building, bytes_each=PER_NUMBER, is_asked=True)
        check(number_of_items("take: numbers", numbers))
        n, wanted = self.whole.count(), []
        for number in numbers:
            wanted.append(number_of(number, n))
            if len(wanted) % TOGETHER == 0:  # an iterator does not say how many numbers it has
                check(len(wanted))
        return self.frame_of(self.whole.take(wanted))

    def narrow(self, key: slice) -> FoundMatches[AnyPart]:
        most = most_needed(key)
        n = self.whole.count() if most is None else len(self.first(most))
        return replace(self, whole=self.among(range(*bounds_of(key, n))))

    def match(self, key: int) -> Match:
        """Return the match with a number, which may count from the end."""
        check_key(key)
        key = int(key)  # NumPy's integers overflow
        most = most_needed(slice(key + 1))
        if most is None:
            number = number_of(key, self.whole.count())
            part = self.whole.take([number])
        else:  # without a count of all
            part = self.first(most)
            number = number_of(key, len(part))
            part = part.take(slice(number, number + 1))
        return next(self._matches_of(part, number))

    def matches(self) -> Iterator[Match]:
        number = 0
        for part in self.whole.blocks(TOGETHER):
            yield from self._matches_of(part, number)
            number += len(part)

    def _matches_of(self, part: Any, first_number: int) -> Iterator[Match]:
        """Yield the matches of a part, each with its measures and rows."""
        table = as_pandas(self.source.result(self.measure(part)))
        variables, items = self.variables(part), self.items(part)
        row_of_item = self._rows_of(items)
        for i in range(len(part)):
            span = slice(items.first_item_of_match[i], items.first_item_of_match[i + 1])
            rows = self.source.rows(row_of_item[span], {"variable": variables[span]})
            # A row taken as one Series would have a single type.
            measures = {name: plain_value(table[name].iloc[i]) for name in table.columns}
            yield Match(first_number + i, measures, self.native(rows), next(iter(self.query.order_by), None))

    def _rows_of(self, items: Items) -> np.ndarray:
        return self.events.rows(items.event_of_item.astype(np.int64, copy=False))

    # --- frames

    def chunks(self, size: int) -> Iterator[Frame]:
        """Yield all matches as frames, each built within the limit of memory."""
        blocks = self.whole.blocks(size)
        while True:
            with show_progress("building matches"), bound_memory(self.memory_limit, self.cure):
                part = next(blocks, None)
                frame = None if part is None else self.frame_of(part)
            if part is None:
                return
            yield frame

    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> Frame:
        """Return a frame with a row for each match, or for each row of each match."""
        check_rows(rows)
        if rows == "one":
            return self.frame_of(self._all(limit, with_columns=True))
        part = self._all(limit)
        items = self.items(part)
        cells = len(items.event_of_item) * (2 + len(self.source.schema))
        check_memory(PER_CELL * cells, f"the rows of {len(part):,} matches")
        numbers = {"match": items.match_of_item, "variable": self.variables(part)}
        return self.native(self.source.rows(self._rows_of(items), numbers))

    def lineage(self, number: int | None, limit: Limit) -> pd.DataFrame:
        """Return the rows of all matches, or of one, with their variables."""
        first = 0 if number is None else number_of(number, self.whole.count())
        part = self._all(limit) if number is None else self.whole.take([first])
        items = self.items(part)
        check_memory(PER_CELL * 4 * len(items.event_of_item), f"the rows of {len(part):,} matches")
        match = items.match_of_item
        if first:
            match = (match if first < 2**62 else match.astype(object)) + first
        return pd.DataFrame(
            {
                "match": match,
                "variable": self.variables(part),
                "position": items.event_of_item.astype(np.int64, copy=False),
                "index": self.source.index_labels(self._rows_of(items)),
            }
        )

    def tag(self, overlap: str = "error") -> Frame:
        """Return the input frame with the match and the variable of each row."""
        n_events = self.events.n_events
        if overlap == "error":
            tags = tags_of_rows(n_events, self._tags([self._all(max(LIMIT, n_events))]), overlap)
        else:
            check_limit(self.whole.at_least()[0], _MOST_TAGGED)
            tags = tags_of_rows(n_events, self._tags(self.whole.blocks(_IN_GROUP)), overlap)
        return self.native(self.source.tagged(tags))

    def _tags(self, parts: Iterable[Any]) -> Iterator[Tags]:
        """Yield rows, numbers of matches and variables for parts of the matches."""
        number = 0
        for part in parts:
            checkpoint()
            items = self.items(part)
            yield self._rows_of(items), items.match_of_item + number, self.variables(part)
            number += len(part)

    def write_parquet(self, path: str | os.PathLike, rows: str, overwrite: bool) -> int:
        """Write all matches to a file, part by part, and return their number."""
        from cepkit.frames.writing import check_target, write_blocks

        check_rows(rows)
        target = check_target(path, overwrite=overwrite)
        with show_progress("counting matches"), bound_memory(self.memory_limit, self.cure):
            n = self.whole.count()
        empty = self._table(self.nothing, 0, rows)
        with (
            show_progress("matches", n, takes_checkpoints=False) as progress,
            bound_memory(self.memory_limit, self.cure),
        ):
            return write_blocks(target, empty, self.tables(rows, progress))

    def tables(self, rows: str, progress: Callable[[float], None] | None = None) -> Iterator[pa.Table]:
        """Yield all matches as Arrow tables."""
        number = 0
        for part in self.whole.blocks(_IN_GROUP):
            checkpoint()
            yield self._table(part, number, rows)
            number += len(part)
            if progress is not None:
                progress(len(part))

    def _table(self, part: Any, first_number: int, rows: str) -> pa.Table:
        """Return a part as an Arrow table with the columns of `to_frame`, without an index."""
        if rows == "one":
            return pa.table(
                {name: in_arrow(values, self.source) for name, values in self.measure(part).items()}
            )
        items = self.items(part)
        match = pa.array(items.match_of_item + first_number, pa.int64())
        return table_of_rows(self.source, self._rows_of(items), match, self.variables(part))

    # --- its picture and its text

    def drawn(self, what: str) -> FoundMatches[AnyPart]:
        return self

    def plot(self, value: str | None, partitions: int, max_events: int) -> go.Figure:
        """Return a figure of the matches over time."""
        from cepkit.plots.timeline import Marks, plot_matches

        part: Any = self.for_picture()

        def marks(numbers: np.ndarray) -> Marks:
            chosen = part.take(numbers)
            items = self.items(chosen)
            return Marks(numbers[items.match_of_item], self.variables(chosen), items.event_of_item)

        return plot_matches(
            self.query, self.source, self.events, self.program.columns,
            self.events.partition_of_event[part.last], marks, partial(self._totals, part),
            value=value, partitions=partitions, max_events=max_events,
        )  # fmt: skip

    def _totals(self, part: AnyPart, n_partitions: int) -> Totals:
        """Return the totals for a picture of ``part`` without building more matches."""
        from cepkit.plots.timeline_axes import Totals

        n, is_exact = self._at_least(len(part))
        n_partitions_matched = n_events_matched = None
        if is_exact:
            is_whole = n == len(part)
            ends = part.last if is_whole else np.asarray(self.whole.ends()[0], np.int64)
            n_partitions_matched = len(np.unique(self.events.partition_of_event[ends]))
            if is_whole:
                n_events_matched = len(np.unique(self.items(part).event_of_item))
        return Totals(self.events.n_events, n_partitions, n, is_exact, n_partitions_matched, n_events_matched)

    def _at_least(self, n_seen: int) -> tuple[int, bool]:
        """Return a cheap lower bound of the number of matches after ``n_seen`` were built; say if exact."""
        n, is_exact = self.whole.at_least()
        return max(n, n_seen), is_exact

    @cached_property
    def _shown(self) -> pd.DataFrame:
        return as_pandas(self.source.result(self.measure(self.whole.glance(SHOWN))))

    @cached_property
    def _around(self) -> tuple[str, str]:
        """What to say before the shown matches, and what after them."""
        n_shown = len(self._shown)
        more = self._how_many_more(n_shown)
        head = self._headline(n_shown)
        return f"{head}; {self.note}" if self.note else head, more if n_shown else more or self.hint

    def text(self) -> str:
        head, more = self._around
        return text_of_table(head, self._shown, more) if len(self._shown) else f"{head}\n{more}"

    def html(self) -> str:
        """Return what a notebook shows."""
        head, more = self._around
        head = f"<p><b>{html.escape(head)}</b></p>"
        if not len(self._shown):
            return head + paragraphs(more)
        return html_of_table(head, self._shown, f"{more}; {self._call_for_more()}" if more else "")

    def _headline(self, n_shown: int) -> str:
        """Return how many matches there are, and in what; ``n_shown`` of them are built."""
        query, events = self.query, self.events
        n, is_exact = self._at_least(n_shown)
        # A category without rows has a code but is no partition.
        n_partitions = int(np.count_nonzero(np.bincount(events.partition_of_event)))
        by = query.partition_by
        parts = f", {counted(n_partitions, 'partition')} by {', '.join(by)}" if by else ""
        if n == 0:
            count = "no match" if is_exact else "no match so far"
        else:
            count = "1 match" if n == 1 and is_exact else f"{count_text(n, exact=is_exact)} matches"
        return f"{count} of {short_text(str(query.pattern))!r} in {events.n_events:,} events{parts}"

    def _how_many_more(self, n_shown: int) -> str:
        """Return how many matches there are besides ``n_shown``; empty if there are no more."""
        n, is_exact = self._at_least(n_shown)
        more = n - n_shown
        if not is_exact:
            if not n:
                return _NOT_SEEN
            return f"… {count_text(more, exact=False)} more" if more > 0 else "… perhaps more"
        return f"… {count_text(more)} more" if more > 0 else ""

    def _call_for_more(self) -> str:
        """Return the call that shows more matches, as HTML."""
        n, is_exact = self.whole.at_least()
        if not is_exact:
            return "<code>count()</code> finds all of them"
        if n > LIMIT:
            return "<code>sample(…)</code> draws from all of them"
        return "<code>to_frame()</code> has them all"


class FoundInMemory(FoundMatches[AnyPart]):
    """Matches that are all in memory, in the order of their last rows: ``whole`` is a `WholePart`."""

    def bytes_to_build(self, n: int) -> int:
        return 0

    @property
    def nothing(self) -> AnyPart:
        return self.whole.glance(0)

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        from cepkit.engines.counting.estimate import exactly

        return exactly(len(self.whole))

    def first(self, n: int) -> AnyPart:
        return self.whole.glance(n)

    def for_picture(self) -> AnyPart:
        return self.whole

    def among(self, numbers: range) -> AnyPart:
        return self.whole.take(array_of_range(numbers))

    def all(self) -> AnyPart:
        return self.whole


# What results of all kinds make of the rows of a frame.


def in_arrow(values: Measured, source: Source) -> Any:
    return source.arrow(values.column, values.rows) if isinstance(values, Picked) else values


def table_of_rows(source: Source, rows: np.ndarray, match: Any, variable: np.ndarray) -> pa.Table:
    """Return rows of the frame as an Arrow table, after ``match`` and ``variable``, without an index."""
    data = {"match": match, "variable": pa.array(variable, pa.string())}
    check_free(data, source.schema)
    data |= {name: source.arrow(name, rows) for name in source.schema if name not in source.duplicates}
    return pa.table(data)


def tags_of_rows(n_rows: int, tags: Iterable[Tags], overlap: str, error: str = SHARED_ROWS) -> dict[str, Any]:
    """Return ``match`` and ``variable`` for all rows of a frame from those of the matched rows."""
    # Unmatched rows have nulls. The matches come in their order. ``error`` says of some rows that they belong
    # to several matches.
    match_of_row, variable_of_row = np.full(n_rows, -1, np.int64), np.full(n_rows, None, dtype=object)
    n_items = 0
    for rows, match, variable in tags:
        n_items += len(rows)
        items = np.flatnonzero(match_of_row[rows] < 0)[::-1]  # the first match is written last
        match_of_row[rows[items]], variable_of_row[rows[items]] = match[items], variable[items]
    shared = n_items - int(np.count_nonzero(match_of_row >= 0))
    if shared and overlap == "error":
        raise CepError(f"{shared:,} {error}")
    return {
        "match": pd.arrays.IntegerArray(match_of_row, match_of_row < 0),
        "variable": pd.array(variable_of_row, dtype="string"),
    }
