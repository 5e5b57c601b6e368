"""The content of an explorer for one result: pages, bands, the states of a match, steps."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.counting.engine import CountedMatches
from cepkit.engines.measures.sequence_measures import variables_of_items
from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock
from cepkit.events import Events, Source
from cepkit.explorer.automaton import Automaton, states_of_match
from cepkit.explorer.partial_bars import PartialBar
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.density import (
    MOST_BANDS,
    Ends,
    crowd_traits,
    ends_of_matches,
    ends_of_partition,
    strip_traits,
)
from cepkit.explorer.running.keys import count_by_partition
from cepkit.explorer.running.pages import CANONICAL, PAGE, Pages
from cepkit.explorer.running.series import Series, clock_of, describe, drawable, series_of
from cepkit.explorer.table.texts import columns_and_rows
from cepkit.insight.first_matches import FirstMatches, FirstMatchFinder, matches_of_first_ends
from cepkit.insight.stepping import Stepping
from cepkit.insight.value_text import cell, row_text
from cepkit.language.numbers import count_text
from cepkit.planning.planner import Engine
from cepkit.results.arguments import no_such_match
from cepkit.results.matches import Matches, as_pandas
from cepkit.results.sequence_found import SequenceFound
from cepkit.widgets.base import counted

SHOWN_VALUES = 14  # columns of the event in the stepper
COUNTING, NOT_COUNTED = "counting …", "not counted"  # in place of a total
_LARGEST = 2**63


@dataclass(frozen=True)
class Chosen:
    """A selected match: the positions of its events in the stream, their variables, and its states."""

    number: int
    positions: tuple[int, ...]
    variables: tuple[str, ...]
    states: tuple[int, ...]
    partition: int


class RowNames:
    """The names of events, as everywhere in the board.

    It does not know a result. A result that referred to itself would keep its memory until the garbage
    collection.
    """

    def __init__(self, source: Source, events: Events):
        self.source, self.events = source, events

    @cached_property
    def has_labels(self) -> bool:
        """Whether the frame has an index that names every row; otherwise rows have numbers."""
        frame = getattr(self.source, "frame", None)
        return isinstance(frame, pd.DataFrame) and frame.index.is_unique

    def label_of(self, position: int) -> Any:
        """Return the index label of an event, or the number of its row."""
        row = self.events.rows(np.array([position]))
        return self.source.index_labels(row)[0] if self.has_labels else int(row[0])

    def row_of(self, position: int) -> str:
        """Return an event in words: ``row 17``."""
        return row_text(self.label_of(position))


class Result:
    """A result of one run and everything that the explorer shows of it; ``find`` returns its matches."""

    def __init__(
        self,
        data: SearchedFrame,
        program: Program | SequenceProgram,
        find: Callable[[], Matches],
        automaton: Automaton,
    ):
        self.data, self.program, self._find = data, program, find
        self.events = data.events(program)
        self.names = RowNames(data.source, self.events)
        self.automaton = automaton
        self.is_sequence = isinstance(program, SequenceProgram)
        self._chosen: OrderedDict[int, Chosen] = OrderedDict()
        self._steppings: dict[tuple[int | None, bool], Stepping] = {}
        self.value: str | None = None  # the column of the timeline; None: see `series_of`
        self._drawn: OrderedDict[tuple, Series] = OrderedDict()
        self._ends_of_key: dict[int | None, Ends] = {}
        self._bands_kept: dict[int | None, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        # The event of the newest reasons, and the bars of its partial matches.
        self.bars: tuple[int, Sequence[PartialBar]] = (-1, ())
        self.is_counted = False
        self.took_s = 0.0  # to count the matches
        self.opening: FirstMatches | None = None
        self._opener: FirstMatchFinder | None = None

    @cached_property
    def matches(self) -> Matches:
        """The matches, as ``df.cep.match`` returns them."""
        return self._find()

    def count(self) -> int:
        """Return the number of matches, and remember where they end."""
        began = time.perf_counter()
        n = self.matches.count()
        _ = self.ends
        if not self.is_counted:
            self.took_s = time.perf_counter() - began
        self.is_counted = True
        return n

    def open(self, engine: Engine, before: Result | None) -> bool:
        """Find the first matches of a sequence if that is cheap; return whether they are enough to show.

        ``before`` is a counted result of the same shape. Without one, nothing is compiled yet.
        """
        if not self.is_sequence:
            return False
        opener = before and before._opener
        orders = opener and opener.orders
        self._opener = FirstMatchFinder(self.program, self.events, engine.name, before is None, orders)
        self.opening = self._opener.first(MOST_BANDS, PAGE)
        if self.opening is None:
            return False
        known = KnownMatches(self.events, self.opening.block)
        found = SequenceFound(self.program, known)
        self._opened = Matches(found, self.data.source, engine, self.data.native)
        return True

    def warm_up(self, engine: Engine) -> None:
        """Compile the kernels for the next result of this shape and its pages."""
        FirstMatchFinder(self.program, self.events, engine.name, False).first(MOST_BANDS, PAGE)
        self.pages.frame(range(min(PAGE, self.count())))

    # --- the table

    @cached_property
    def pages(self) -> Pages:
        """The pages of the table; all matches are counted."""
        return Pages(self.matches)

    def first_page(self) -> dict[str, Any]:
        """Return the traits of the table for the first page, before the matches are counted."""
        traits = Pages(self._opened).traits(1, CANONICAL)
        if self.opening.is_all:
            return traits
        note = "the first matches; other pages, orders and filters follow when all are counted"
        return {**traits, "total": COUNTING, "n_pages": "…", "sortable": [], "limit_note": note}

    def filtered(self, filters: Mapping[str, str]) -> Any:
        """Return the matches that pass filters as a frame; without filters, all of them."""
        numbers = self.pages.listing.keep(filters).numbers
        return self.matches.to_frame() if numbers is None else self.matches.take(numbers.tolist())

    def totals(self) -> dict[str, Any]:
        """Return the traits of the table that depend on the number of matches, without the rows."""
        pages, names = self.pages, Pages(self._opened).frame([]).columns
        return {
            "total": f"{pages.n:,}", "n_pages": str(pages.n_pages), "limit_note": pages.limit_note,
            "sortable": [str(name) for name in names] if pages.is_sortable and pages.n > 1 else [],
        }  # fmt: skip

    def first_look(self) -> dict[str, Any] | None:
        """Return a table of matches that are cheap to find, or None if these are all matches."""
        if not self.is_sequence:
            return None
        found = self.matches._found.whole
        n, is_exact = found.at_least()
        if is_exact:
            return None
        frame = as_pandas(self.matches._frame(found.glance(PAGE)))
        return {
            **columns_and_rows(frame), "numbers": [""] * len(frame), "page": 1, "n_pages": "1",
            "can_filter": True, "filtered": "",
            "total": f"≥ {max(n, len(frame)):,}", "order": "canonical", "sortable": [], "busy": True,
            "limit_note": "some matches; numbers and order follow when all are counted",
        }  # fmt: skip

    def first_rows(self) -> dict[str, Any] | None:
        """Return the first page of counted matches without compiling anything, or None if that is costly."""
        if not self.is_sequence or self.program.query.after_match[0] != "none":
            return None
        if not isinstance(self.matches._found.whole, CountedMatches):
            return None
        n_rows = min(PAGE, self.matches.count())
        block = matches_of_first_ends(self.program, self.events, self.ends, self._ends[1], n_rows)
        if block is None:
            return None
        frame = as_pandas(self.matches._frame(block))
        table = self.pages.describe(frame, list(range(n_rows)), 1, CANONICAL)
        return {**table, "busy": True}

    # --- positions and partitions

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return self.events.n_partitions

    @cached_property
    def ends(self) -> np.ndarray:
        """Positions where matches end, rising, int64."""
        if not self.is_sequence:
            return self.matches._found.whole.last
        return np.asarray(self._ends[0], np.int64)

    @cached_property
    def _ends(self) -> tuple[np.ndarray, Any]:
        return self.matches._found.whole.ends()

    @cached_property
    def _first_number(self) -> Any:
        """Number of the first match that ends at each of `ends`, and the total."""
        counts = self._ends[1]
        if self.matches.count() < _LARGEST:
            return np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])
        return [0, *accumulate(int(count) for count in counts)]

    @cached_property
    def counts_by_partition(self) -> np.ndarray:
        """The number of matches of every partition; all matches are counted."""
        counts = None
        if self.is_sequence:
            counts = self._ends[1]
            counts = list(counts) if self.matches.count() >= _LARGEST else np.asarray(counts, np.int64)
        return count_by_partition(self.events.partition_of_event[self.ends], counts, self.n_partitions)

    def partition_of_first(self) -> int | None:
        """Return the partition of the first match, or of the first event; None for a single partition."""
        if self.n_partitions < 2:
            return None
        ends = self.ends if self.is_counted else self.opening.block.last
        position = int(ends[0]) if len(ends) else 0
        return int(self.events.partition_of_event[position]) if self.events.n_events else None

    # --- one match

    def choose(self, number: int) -> Chosen:
        """Return a match by number, negative numbers from the end; raise IndexError for other numbers."""
        number = int(number)
        if not self.is_opened(number):
            n = self.count()
            if not -n <= number < n:
                raise no_such_match(number, n)
            number %= n
        if number not in self._chosen:
            self._chosen[number] = self._look_up(number)
            while len(self._chosen) > 64:
                self._chosen.popitem(last=False)
        return self._chosen[number]

    def is_opened(self, number: int) -> bool:
        """Return whether a match is known before all are counted."""
        return self.opening is not None and 0 <= number < len(self.opening.block)

    def block_of(self, numbers: list[int]) -> MatchBlock:
        """Return matches of a sequence by rising numbers; they must be counted or known before."""
        is_opened = self.is_opened(numbers[0]) and self.is_opened(numbers[-1])
        return (self._opened if is_opened else self.matches)._found.whole.take(numbers)

    def _look_up(self, number: int) -> Chosen:
        if self.is_sequence:
            block = self.block_of([number])
            names = np.array(self.program.query.variables, dtype=object)
            own = names[variables_of_items(self.program, block)]
            positions, branch = block.event_of_item, int(block.branch_of_match[0])
            passed = states_of_match(self.automaton, own, block.component_of_item.tolist(), branch)
        else:
            part = self.matches._found.whole.take(np.array([number]))
            positions, own = part.lineage.event_of_item.astype(np.int64), self.matches._found.variables(part)
            passed = states_of_match(self.automaton, own)
        partition = int(self.events.partition_of_event[positions[-1]])
        return Chosen(number, tuple(positions.tolist()), tuple(own), tuple(passed), partition)

    # --- the timeline

    def series(self, partition: int | None) -> Series:
        """Return the events of a partition for a timeline."""
        key = partition, self.value
        if key not in self._drawn:
            made = series_of(self.program, self.data.source, self.events, partition, self.value)
            self._drawn[key] = made
            while len(self._drawn) > 3:
                self._drawn.popitem(last=False)
        return self._drawn[key]

    def take_series(self, other: Result) -> None:
        """Reuse the series of another result on the same events."""
        if other.events is self.events and other.series_key == self.series_key:
            self._drawn = other._drawn

    @property
    def series_key(self) -> tuple:
        """The parts of the program that determine a timeline."""
        query = self.program.query
        types = str(query.pattern) if self.is_sequence else ""
        return self.program.columns, getattr(query, "event_type", None), types

    def timeline(self, partition: int | None, window: list[float] | None = None) -> dict[str, Any]:
        """Return the traits of the timeline widget for a partition and a window of time."""
        series = self.series(partition)
        spans, ids, note = self.spans(partition, window)
        drawn = describe(series, window)
        choices = drawable(self.program, self.data.source)
        bands = {"spans": spans, "span_ids": ids, "span_note": note}
        counts = {**self.strip(partition), **self.crowd(partition, window)}
        value = series.y_label if choices else ""
        return {**drawn, **bands, **counts, "choices": choices, "value": value}

    @cached_property
    def all_ends(self) -> Ends:
        """The ends of all matches; they are counted."""
        before = self._first_number if self.is_sequence else None
        return ends_of_matches(self.program, self.data.source, self.events, self.ends, before)

    def ends_of(self, partition: int | None) -> Ends:
        """Return the ends of the matches of a partition; of all for None. All matches are counted."""
        if partition not in self._ends_of_key:
            self._ends_of_key = {partition: ends_of_partition(self.all_ends, self.events, partition)}
        return self._ends_of_key[partition]

    def strip(self, partition: int | None) -> dict[str, Any]:
        """Return the traits of the strip: the numbers of the matches of all keys and of a key over time."""
        ends = np.array([0, -1] if self.events.n_events else [], np.int64) % max(1, self.events.n_events)
        whole = clock_of(self.program, self.data.source, self.events, ends)
        is_one = partition is None or self.n_partitions < 2
        own = None if is_one or not self.is_counted else self.ends_of(partition)
        return strip_traits(whole, self.all_ends if self.is_counted else None, own)

    def crowd(self, partition: int | None, window: Sequence[float] | None) -> dict[str, Any]:
        """Return the traits that replace the bands of a key in a window, if there are too many."""
        own = self.ends_of(partition) if self.is_counted else None
        return crowd_traits(own, self.series(partition), window)

    def spans(
        self, partition: int | None, window: list[float] | None = None
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Return (first and last time, number) of the first matches in a window, and a note on the others."""
        series = self.series(partition)
        low, high = self._events_in(series, window)
        if not len(series) or high < low:
            return np.empty((0, 2)), np.empty(0), ""
        low = min(low, len(series) - 1)
        if not self.is_counted:
            return self._opened_spans(series, low, partition)
        stop = series.position_of(max(low, high - 1))
        first, last, ids, n_there = self._bands(series.position_of(low), stop, partition)
        spans = self._drawn_bands(series, first, last)
        total = self.matches.count()
        where = " here" if window else ""
        key = " of this key" if partition is not None and self.n_partitions > 1 else ""
        note = counted(n_there, "match")
        if n_there > len(first):
            note = f"{count_text(n_there)} matches{key}{where}: zoom in to see each of them"
        elif n_there < total:
            note = f"{counted(n_there, 'match')}{key}{where}, {count_text(total)} in all"
        return spans, ids, note

    @staticmethod
    def _events_in(series: Series, window: Sequence[float] | None) -> tuple[int, int]:
        """Return the first and the last (exclusive) event of a series in a window."""
        if not window:
            return 0, len(series)
        first, last = (bound / series.per_tick for bound in window)
        low = int(np.searchsorted(series.time, first, "left"))
        return low, int(np.searchsorted(series.time, last, "right"))

    def _drawn_bands(self, series: Series, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        x = series.x(series.index_of(np.concatenate([first, last])))
        return np.column_stack([x[: len(first)], x[len(first) :]])

    def _opened_spans(
        self, series: Series, low: int, partition: int | None
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Return `spans` before the matches are counted; unknown numbers are NaN."""
        is_one = partition is None or self.n_partitions < 2
        if is_one and not low:
            found, ids = self.opening, np.arange(len(self.opening.block), dtype=np.float64)
        else:
            positions = np.arange(self.events.n_events) if series.positions is None else series.positions
            found = self._opener.first_of(positions, low, MOST_BANDS)
            ids = np.full(0 if found is None else len(found.block), np.nan)
        if found is None or not (len(found.block) or found.is_all):
            return np.empty((0, 2)), np.empty(0), "the matches appear when all are counted"
        where = " from here on" if low else ""
        key = "" if is_one else " of this key"
        note = "" if found.is_all else f"first {len(found.block):,} matches{key}{where}"
        return self._drawn_bands(series, found.block.first, found.block.last), ids, note

    def _bands(
        self, begin: int, stop: int, partition: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Return first, last and number of the matches from ``begin`` to ``stop``, and their total.

        A match may begin before or end after them. At most ``MOST_BANDS`` are returned. If a sequence has
        more, its total leaves out those that end after ``stop``.
        """
        own = self.ends_of(partition)
        low, high = np.searchsorted(own.position, [begin, stop + 1]).tolist()
        if not self.is_sequence:
            found = self.matches._found.whole
            high += int(np.searchsorted(found.first[own.index[high:]], stop, "right"))  # they do not overlap
            kept = own.index[low : min(high, low + MOST_BANDS)]
            return found.first[kept], found.last[kept], kept.astype(np.float64), high - low
        if own.count(0, len(own.index)) <= MOST_BANDS:
            first, last, numbers = self._bands_of_key(partition)
            here = (last >= begin) & (first <= stop)
            return first[here], last[here], numbers[here], int(np.count_nonzero(here))
        first, last, numbers = self._bands_from(own.index[low : low + MOST_BANDS])
        here = first <= stop
        n_there = max(own.count(low, high), int(np.count_nonzero(here)))
        return first[here], last[here], numbers[here], n_there

    def _bands_of_key(self, partition: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return first, last and number of all matches of a key that are few; the last key is kept."""
        if partition not in self._bands_kept:
            self._bands_kept = {partition: self._bands_from(self.ends_of(partition).index)}
        return self._bands_kept[partition]

    def _bands_from(self, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return first, last and number of the first matches of a sequence that end at these `ends`."""
        numbers: list[int] = []
        for end in ends.tolist():
            room = MOST_BANDS - len(numbers)
            if room <= 0:
                break
            number = int(self._first_number[end])
            numbers += range(number, min(number + room, int(self._first_number[end + 1])))
        if not numbers:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        block = self.block_of(numbers)
        return block.first, block.last, np.array(numbers, np.float64)

    def points(self, chosen: Chosen, partition: int | None) -> list[dict[str, Any]]:
        """Return ``x``, ``y`` and ``label`` of a match's events on the timeline of a partition."""
        at = self.places(chosen.positions, partition).tolist()
        return [{"x": x, "y": y, "label": label} for (x, y), label in zip(at, chosen.variables, strict=True)]

    def places(self, positions: Sequence[int] | np.ndarray, partition: int | None) -> np.ndarray:
        """Return the coordinates (time, value) of events on the timeline of a partition, shape (n, 2)."""
        series = self.series(partition)
        index = series.index_of(np.asarray(positions, np.int64))
        return np.column_stack([series.x(index), np.asarray(series.value[index], np.float64)])

    # --- steps

    def stepping(self, partition: int | None) -> Stepping:
        """Return the `Stepping` through the events of a partition."""
        key = partition, self.is_counted
        if key not in self._steppings:
            ends = self.ends if self.is_counted else None
            made = Stepping(self.program, self.events, partition, self.automaton, ends, self.names.row_of)
            self._steppings = {key: made}
        return self._steppings[key]

    def label_of(self, position: int) -> Any:
        """Return the index label of an event, or the number of its row."""
        return self.names.label_of(position)

    def row_of(self, position: int) -> str:
        """Return an event in words, as everywhere in the board: ``row 17``."""
        return self.names.row_of(position)

    def event(self, position: int) -> list[list[str]]:
        """Return names and values of an event; the columns of the query come first."""
        row = self.events.rows(np.array([position]))
        query, source = self.program.query, self.data.source
        looked_at = (name for name in self.program.columns if name in source.schema)
        of_type = [query.event_type] if self.is_sequence and query.event_type else []
        names = dict.fromkeys((*query.order_by, *query.partition_by, *of_type, *looked_at, *source.schema))
        names = [name for name in names if name not in source.duplicates][:SHOWN_VALUES]
        values = [[name, cell(source.arrow(name, row).to_pylist()[0])] for name in names]
        return [["row", cell(self.label_of(position))], *values]
