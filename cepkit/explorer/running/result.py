"""The result of one run of an explorer: its matches, their events, and the values kept of them."""

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

from cepkit.api.matching import match
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.engines.measures.sequence_measures import variables_of_items
from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock
from cepkit.events import Events, Source
from cepkit.explorer.automaton import Automaton, states_of_match
from cepkit.explorer.bars import PartialBar, RowStepping
from cepkit.explorer.running.data import AnyProgram, SearchedFrame, count_by_partition
from cepkit.explorer.running.pages import PAGE, Pages
from cepkit.explorer.running.series import (
    MOST_BANDS,
    Ends,
    Series,
    ends_of_matches,
    ends_of_partition,
    series_of,
)
from cepkit.insight.first_matches import FirstMatches, FirstMatchFinder
from cepkit.insight.stepping import Stepping
from cepkit.insight.why_not import cell, row_text
from cepkit.planning.planner import Engine
from cepkit.plots.automata.automaton import shown_states
from cepkit.results.found import no_such_match
from cepkit.results.matches import Matches
from cepkit.results.query_found import SequenceFound

SHOWN_VALUES = 14  # columns of the event in the stepper
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
        program: AnyProgram,
        find: Callable[[], Matches],
        automaton: Automaton,
    ):
        self.data, self._find = data, find
        self.program: Any = program
        self.events = data.events(program)
        self.names = RowNames(data.source, self.events)
        self.automaton = automaton
        self.is_sequence = isinstance(program, SequenceProgram)
        self.is_rows = isinstance(program, BoundRowQuery)  # a query of MATCH_RECOGNIZE
        self._chosen: OrderedDict[int, Chosen] = OrderedDict()
        self._steppings: dict[tuple[int | None, bool], Stepping | RowStepping] = {}
        self.value: str | None = None  # the column of the timeline; None: see `series_of`
        self._drawn: OrderedDict[tuple, Series] = OrderedDict()
        self._ends_of_key: dict[int | None, Ends] = {}
        # The bands of the newest key with few matches; the module `timeline` fills it.
        self.kept_bands: dict[int | None, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        # The event of the newest reasons, and the bars of its partial matches.
        self.bars: tuple[int, Sequence[PartialBar]] = (-1, ())
        self.is_counted = False
        self.took_s = 0.0  # to count the matches
        self.opening: FirstMatches | None = None
        self.opener: FirstMatchFinder | None = None

    @cached_property
    def told_matches(self) -> Any:
        """The matches as ``df.cep.match`` returns them; those of MATCH_RECOGNIZE have the columns of SQL."""
        if not self.is_rows:
            return self.matches
        query = self.program.query
        return match(self.data.frame, str(query), params=dict(query.params) or None)

    @property
    def takes_several(self) -> bool:
        """Whether several clicked events are explained together, as one match."""
        return self.is_sequence or self.is_rows

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
        opener = before and before.opener
        orders = opener and opener.orders
        self.opener = FirstMatchFinder(self.program, self.events, engine.name, before is None, orders)
        self.opening = self.opener.first(MOST_BANDS, PAGE)
        if self.opening is None:
            return False
        first_matches = KnownMatches(self.events, self.opening.block)
        place = {"source": self.data.source, "engine": engine, "native": self.data.native}
        self.opened = Matches(SequenceFound(program=self.program, whole=first_matches, **place))
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

    def filtered(self, filters: Mapping[str, str]) -> Any:
        """Return the matches that pass filters as a frame; without filters, all of them."""
        numbers = self.pages.listing.keep(filters).numbers
        return self.matches.to_frame() if numbers is None else self.matches.take(numbers.tolist())

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

    @property
    def counts_of_ends(self) -> Any:
        """The number of matches of a sequence that end at each of `ends`."""
        return self._ends[1]

    @cached_property
    def first_number(self) -> Any:
        """Number of the first match that ends at each of `ends`, and the total."""
        counts = self.counts_of_ends
        if self.matches.count() < _LARGEST:
            return np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])
        return [0, *accumulate(int(count) for count in counts)]

    @cached_property
    def counts_by_partition(self) -> np.ndarray:
        """The number of matches of every partition; all matches are counted."""
        counts = None
        if self.is_sequence:
            counts = self.counts_of_ends
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
        return (self.opened if is_opened else self.matches)._found.whole.take(numbers)

    def _look_up(self, number: int) -> Chosen:
        if self.is_sequence:
            block = self.block_of([number])
            names = np.array(self.program.query.variables, dtype=object)
            variables = names[variables_of_items(self.program, block)]
            positions, branch = block.event_of_item, int(block.branch_of_match[0])
            passed = states_of_match(self.automaton, variables, block.component_of_item.tolist(), branch)
        else:
            part = self.matches._found.whole.take(np.array([number]))
            positions = part.lineage.event_of_item.astype(np.int64)
            variables = self.matches._found.variables(part)
            passed = states_of_match(self.automaton, variables) if not self.is_rows else []
            if self.is_rows and (reached := self.drawn_states(part.state_of_item)):
                passed = list(dict.fromkeys([0, *reached]))
        partition = int(self.events.partition_of_event[positions[-1]])
        return Chosen(number, tuple(positions.tolist()), tuple(variables), tuple(passed), partition)

    def drawn_states(self, states: np.ndarray) -> list[int]:
        """Return the drawn state of each state of a query of MATCH_RECOGNIZE; none if nothing is drawn."""
        if not self.automaton.states.transitions:
            return []
        return np.array(self._shown_states)[states].tolist()

    @cached_property
    def _shown_states(self) -> tuple[int, ...]:
        return shown_states(self.program.program.automaton)

    # --- the timeline

    def series(self, partition: int | None) -> Series:
        """Return the events of a partition for a timeline."""
        key = partition, self.value
        if key not in self._drawn:
            series = series_of(self.program, self.data.source, self.events, partition, self.value)
            self._drawn[key] = series
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

    @cached_property
    def all_ends(self) -> Ends:
        """The ends of all matches; they are counted."""
        before = self.first_number if self.is_sequence else None
        return ends_of_matches(self.program, self.data.source, self.events, self.ends, before)

    def ends_of(self, partition: int | None) -> Ends:
        """Return the ends of the matches of a partition; of all for None. All matches are counted."""
        if partition not in self._ends_of_key:
            self._ends_of_key = {partition: ends_of_partition(self.all_ends, self.events, partition)}
        return self._ends_of_key[partition]

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

    def stepping(self, partition: int | None) -> Stepping | RowStepping:
        """Return the stepping through the events of a partition."""
        key = partition, self.is_counted
        if key not in self._steppings:
            ends = self.ends if self.is_counted else None
            stepping: Stepping | RowStepping
            if isinstance(self.program, BoundRowQuery):
                stepping = RowStepping(
                    self.data.searched(self.program), partition, self._shown_states, ends, self.names.row_of
                )
            else:
                name = self.names.row_of
                stepping = Stepping(self.program, self.events, partition, self.automaton, ends, name)
            self._steppings = {key: stepping}
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
