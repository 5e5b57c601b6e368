"""The result of one run of an explorer, with its automaton, and partial matches as bars on the timeline."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from cepkit.api.matching import match
from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.row_automaton import ANY, States, states
from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.engines.sequence_measures import variables_of_items
from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.errors import CepError
from cepkit.events import Events, Source, sums_before
from cepkit.explorer.running.data import AnyProgram, SearchedFrame, count_by_partition
from cepkit.explorer.running.series import Ends, Series, clock_of, series_of
from cepkit.explorer.running.table import Pages
from cepkit.insight.moments import Stepping
from cepkit.insight.trace import names_of_mask
from cepkit.insight.why_not import cell, row_text
from cepkit.insight.why_not_regex import Fate
from cepkit.language.expressions.printing import times_text
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.sequences.branches import Branch, Component
from cepkit.language.sequences.printing import type_text
from cepkit.plots.automata import choices_of, edges, row_states, sequence_states, shown_name, shown_states
from cepkit.plots.layered import LINE_HEIGHT, automaton_traits
from cepkit.results.found import no_such_match
from cepkit.results.matches import Matches
from cepkit.values import dataclass, field

MOST_STATES = 120  # of a drawn automaton
MOST_BRANCHES = 12


@dataclass(frozen=True)
class Automaton:
    """The states of a query and the transitions between them."""

    # State 0 is the start. A sequence has a state per component; branches with the same beginning share
    # states.
    states: States
    labels: tuple[str, ...]  # labels of the states
    tooltips: dict[str, str] = field(default_factory=dict)  # explanations of the names of transitions
    # Only for a sequence: the state of every component of every drawn branch.
    state_of_component: tuple[tuple[int, ...], ...] = ()
    note: str = ""  # what is left out

    @property
    def masks(self) -> tuple[int, ...]:
        """Only for a regex: the positions of each state; 0 for the start."""
        return self.states.positions_of_state

    def names_of(self, state: int) -> list[str]:
        """Return the names of the events that lead to a state, as in the text of the query."""
        if not 0 <= state < len(self.labels):
            raise CepError(f"the automaton has no state {state}. States: 0 to {len(self.labels) - 1}")
        return ["." if name == "any" else name for name in self.labels[state].split(", ") if name]


NO_AUTOMATON = Automaton(States(1, (), (), (0,)), ("",))  # for too many states
NOTHING_DRAWN: dict[str, Any] = {"states": [], "transitions": [], "width": 0.0, "height": 0.0}


def automaton_of(program: Program | SequenceProgram | BoundRowQuery) -> Automaton:
    """Return the automaton of a query as the browser draws it."""
    if isinstance(program, SequenceProgram):
        return _of_sequence(program)
    if isinstance(program, BoundRowQuery):
        return _of_rows(program)
    drawn = states(program.automaton)
    names = program.automaton.names
    labels = [""] + [
        ", ".join(dict.fromkeys(shown_name(names[p]) for p in range(len(names)) if mask >> p & 1))
        for mask in drawn.positions_of_state[1:]
    ]
    tooltips = {name: f"{name}: {tree}" for name, tree in program.query.define}
    return Automaton(drawn, tuple(labels), {**tooltips, ANY: "any row"})


def _of_rows(bound: BoundRowQuery) -> Automaton:
    """Return the automaton of a MATCH_RECOGNIZE."""
    drawn = row_states(bound.program.automaton)
    names = [name for name, _ in choices_of(bound.program.automaton)]
    texts = {name: print_sql(tree) for name, tree in bound.query.define}
    tooltips = {}
    for _, label, target in drawn.transitions:
        variable, rank = names[target], label.rpartition(": ")[0]
        choice = f"\nchoice {rank}; 1 is preferred" if rank else ""
        tooltips[label] = f"{variable}: {texts.get(variable, 'any row')}{choice}"
    return Automaton(drawn, tuple(names), tooltips)


def _of_sequence(program: SequenceProgram) -> Automaton:
    """Return the automaton of a sequence."""
    drawn = [bound.branch for bound in program.branches[:MOST_BRANCHES]]
    states, state_of_component = sequence_states(drawn, _name, _loop_label)
    labels, tooltips = [""] * states.n_states, {}
    for branch, numbers in zip(drawn, state_of_component, strict=True):
        for c, state in enumerate(numbers):
            labels[state] = branch.components[c].variable
            tooltips[_name(branch, c)] = "\n".join([_name(branch, c), *_conditions(branch, c)])
    left = len(program.branches) - len(drawn)
    note = f"{left} more alternatives are not drawn" if left else ""
    return Automaton(states, tuple(labels), tooltips, state_of_component, note)


def _name(branch: Branch, c: int) -> str:
    """Return the label of the transition into a component: absent events before it, and its event."""
    component = branch.components[c]
    absent = [
        f"!{type_text(absence.event_type)} {absence.variable}"
        for absence in branch.absences
        if absence.before == c or (c == len(branch.components) - 1 and absence.before > c)
    ]
    return ", ".join([*absent, f"{type_text(component.event_type)} {component.variable}"])


def _loop_label(component: Component) -> str:
    times = times_text(component.low, component.high)
    return f"{type_text(component.event_type)}{times} {component.variable}"


def _conditions(branch: Branch, c: int) -> list[str]:
    """Return the texts of the conditions that are decided with the component at place ``c``."""
    decided = (test for test in branch.conditions if test.absence is None and test.decided_at == c)
    return [str(test.expression) for test in decided]


# --- drawing


def draw_automaton(automaton: Automaton) -> dict[str, Any]:
    """Return the traits of an automaton's widget: ``states``, ``transitions``, ``width``, ``height``."""
    states = automaton.states
    if states.n_states > MOST_STATES:
        raise CepError(f"the automaton has {states.n_states} states; at most {MOST_STATES} are drawn")
    traits = automaton_traits(states)
    for state, label in zip(traits["states"], automaton.labels, strict=True):
        state["tooltip"] = f"after {label}" if state["id"] else "before the first event"
    if automaton.tooltips:
        names_of = {(edge.source, edge.target): edge.names for edge in edges(states)}
        for transition in traits["transitions"]:
            names = names_of[transition["source"], transition["target"]]
            transition["tooltip"] = "\n".join(automaton.tooltips.get(name, name) for name in names)
    return traits | {"height": traits["height"] - LINE_HEIGHT}


def state_of_events(
    automaton: Automaton, variables: Sequence[str], components: Sequence[int] | None = None, branch: int = 0
) -> list[int]:
    """Return the state that each event of a match leads to; empty if the branch is not drawn."""
    if components is not None:
        if branch >= len(automaton.state_of_component):
            return []
        states = automaton.state_of_component[branch]
        return [states[c] for c in components]
    if not automaton.states.transitions:
        return []
    follow = {(state, name): target for state, name, target in automaton.states.transitions}
    state, reached = 0, []
    for variable in variables:
        state = follow[state, variable]
        reached.append(state)
    return reached


MOST_BARS = 3
MOST_ROWS_NAMED = 3
FAILED, MATCHED, REPLACED, OPEN = "failed", "matched", "replaced", "open"


@dataclass(frozen=True)
class PartialBar:
    """A partial match on the timeline."""

    # Positions of its known events in the stream, rising, each with a label that may be empty.
    events: tuple[tuple[int, str], ...]
    end: int  # position of the event where it ended
    outcome: str  # ``failed``, ``matched``, ``replaced`` by a match, or ``open``
    text: tuple[str, ...] = ()  # the failed conditions with their values, or the outcome in words


@dataclass(frozen=True)
class FateGroup:
    """Partial matches of a regex that end in the same way."""

    fate: Fate  # the fate of the one that began first
    starts: tuple[int, ...]  # the events where they begin, rising

    @property
    def outcome(self) -> str:
        """How they end."""
        if self.fate.is_match:
            return MATCHED
        if self.fate.wanted is not None:
            return FAILED
        return OPEN if self.fate.rival is None else REPLACED


def group_fates(fates: Sequence[Fate]) -> list[FateGroup]:
    """Return the fates with those together that differ only in their first event, in the given order."""
    groups: dict[tuple, list[Fate]] = {}
    for fate in fates:
        key = fate.end, fate.taken, fate.wanted, fate.rival, fate.is_match
        groups.setdefault(key, []).append(fate)
    return [
        FateGroup(min(members, key=lambda fate: fate.start), tuple(sorted(fate.start for fate in members)))
        for members in groups.values()
    ]


def describe_group(
    names: tuple[str, ...], group: FateGroup, k: int, row: Callable[[int], str], at: Callable[[int], str],
    late: str = "",
) -> str:  # fmt: skip
    """Return what happened to partial matches, in one or two sentences."""
    fate, n = group.fate, len(group.starts)
    is_one = n == 1
    if is_one:
        who = f"The {'match' if fate.is_match else 'partial match'} from {at(fate.start)}"
    else:
        shown = [row(start).removeprefix("row ") for start in group.starts[:MOST_ROWS_NAMED]]
        shown += [f"{n - len(shown):,} more"] if n > len(shown) else []
        who = f"{n:,} partial matches (from rows {', '.join(shown[:-1])} and {shown[-1]})"

    def verb(one: str, many: str) -> str:
        return one if is_one else many

    takes = f"{verb('takes', 'take')} this row as {names_of_mask(names, fate.taken)}" if fate.taken else ""
    if group.outcome == OPEN:
        return f"{who} {takes or verb('passes', 'pass') + ' this row'} and {verb('stays', 'stay')} open."
    there = "here" if fate.end == k else f"at {at(fate.end)}"
    if group.outcome == MATCHED:
        return f"{who} {takes + ' and ' if takes else ''}is completed {there}."
    subject = who if not takes else f"{who} {takes}. {verb('It', 'They')}"
    if group.outcome == REPLACED:
        rival = f"the match from {row(fate.rival)} is complete"
        return f"{subject} {verb('ends', 'end')} {there}, because {rival}."
    if late:
        return f"{subject} {verb('ends', 'end')} {there}: the window of {late} is over."
    needed = names_of_mask(names, fate.wanted)
    where = "this row" if fate.end == k else "that row"
    return f"{subject} {verb('ends', 'end')} {there}: {where} is not {needed}."


def as_traits(bars: Sequence[PartialBar], places: Callable[[Sequence[int]], Any]) -> list[dict[str, Any]]:
    """Return bars for the timeline widget; ``places`` returns times and values of events."""
    traits = []
    for bar in bars:
        at = places([*(position for position, _ in bar.events), bar.end])[:, 0].tolist()
        events = [{"x": x, "label": label} for x, (_, label) in zip(at, bar.events, strict=False)]
        traits.append({"events": events, "end": at[-1], "outcome": bar.outcome, "text": list(bar.text)})
    return traits


# The result of one run of an explorer: its matches, their events, and the values kept of them.

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
    """The names of events, as everywhere in the board."""

    # It holds no result: a result holds it, and the memory of a circle stays until the garbage collection.

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
        self, data: SearchedFrame, program: AnyProgram, find: Callable[[], Matches], automaton: Automaton
    ):
        self.data, self._find = data, find
        self.program: Any = program
        self.events = data.events(program)
        self.names = names = RowNames(data.source, self.events)
        self.label_of, self.row_of = names.label_of, names.row_of
        self.automaton = automaton
        self.is_sequence = isinstance(program, SequenceProgram)
        self.is_rows = isinstance(program, BoundRowQuery)  # a query of MATCH_RECOGNIZE
        self._chosen: OrderedDict[int, Chosen] = OrderedDict()
        self._steppings: dict[int | None, Stepping] = {}
        self.value: str | None = None  # the column of the timeline; None: see `series_of`
        self._drawn: OrderedDict[tuple, Series] = OrderedDict()
        self._ends_of_key: dict[int | None, Ends] = {}
        # The bands of the newest key with few matches; the module `timeline` fills it.
        self.kept_bands: dict[int | None, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        # The event of the newest reasons, and the bars of its partial matches.
        self.bars: tuple[int, Sequence[PartialBar]] = (-1, ())

    @cached_property
    def user_matches(self) -> Any:
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
        """Return the number of matches."""
        return self.matches.count()

    # --- the table

    @cached_property
    def pages(self) -> Pages:
        return Pages(self.matches, known=self.data.places_of_columns)

    def filtered(self, filters: Mapping[str, str]) -> Any:
        """Return the matches that pass filters as a frame; without filters, all of them."""
        numbers = self.pages.listing.keep(filters).numbers
        return self.matches.to_frame() if numbers is None else self.matches.take(numbers.tolist())

    # --- positions and partitions

    @property
    def n_partitions(self) -> int:
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
            return sums_before(np.asarray(counts, np.int64))
        return [0, *accumulate(int(count) for count in counts)]

    @cached_property
    def counts_by_partition(self) -> np.ndarray:
        """Return the number of matches in each partition."""
        counts = None
        if self.is_sequence:
            counts = self.counts_of_ends
            counts = list(counts) if self.matches.count() >= _LARGEST else np.asarray(counts, np.int64)
        return count_by_partition(self.events.partition_of_event[self.ends], counts, self.n_partitions)

    def partition_of_first(self) -> int | None:
        """Return the partition of the first match, or of the first event; None for a single partition."""
        if self.n_partitions < 2:
            return None
        position = int(self.ends[0]) if len(self.ends) else 0
        return int(self.events.partition_of_event[position]) if self.events.n_events else None

    # --- one match

    def choose(self, number: int) -> Chosen:
        """Return a match by number, negative numbers from the end; raise IndexError for other numbers."""
        number, n = int(number), self.count()
        if not -n <= number < n:
            raise no_such_match(number, n)
        number %= n
        if number not in self._chosen:
            self._chosen[number] = self._look_up(number)
            while len(self._chosen) > 64:
                self._chosen.popitem(last=False)
        return self._chosen[number]

    def block_of(self, numbers: list[int]) -> MatchBlock:
        """Return matches of a sequence by rising numbers."""
        return self.matches._found.whole.take(numbers)

    def _look_up(self, number: int) -> Chosen:
        """Return the match with a number: its rows, variables and states."""
        if self.is_sequence:
            block = self.block_of([number])
            names = np.array(self.program.query.variables, dtype=object)
            variables = names[variables_of_items(self.program, block)]
            positions, branch = block.event_of_item, int(block.branch_of_match[0])
            reached = state_of_events(self.automaton, variables, block.component_of_item.tolist(), branch)
        else:
            part = self.matches._found.whole.take(np.array([number]))
            positions = part.lineage.event_of_item.astype(np.int64)
            variables = self.matches._found.variables(part)
            if self.is_rows:
                reached = self.drawn_states(part.state_of_item)
            else:
                reached = state_of_events(self.automaton, variables)
        partition = int(self.events.partition_of_event[positions[-1]])
        passed = tuple(dict.fromkeys([0, *reached])) if reached else ()
        return Chosen(number, tuple(positions.tolist()), tuple(variables), passed, partition)

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
        """Return what the timeline draws for a partition; the last ones are kept."""
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
        before = self.first_number if self.is_sequence else None
        time = clock_of(self.program, self.data.source, self.events, self.ends).time
        return Ends(np.arange(len(self.ends)), self.ends, time, before)

    def ends_of(self, partition: int | None) -> Ends:
        """Return the ends of the matches of a partition; of all for None."""
        if partition not in self._ends_of_key:
            ends = self.all_ends
            if partition is not None and self.n_partitions > 1:
                ends = ends.of(np.flatnonzero(self.events.partition_of_event[ends.position] == partition))
            self._ends_of_key = {partition: ends}
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

    def stepping(self, partition: int | None) -> Stepping:
        """Return the walk over the moments of a partition; the last one is kept."""
        if partition not in self._steppings:
            program, states = self.program, self.automaton
            if isinstance(program, BoundRowQuery):
                program, states = self.data.searched(program), self._shown_states
            name = self.names.row_of
            self._steppings = {partition: Stepping(program, self.events, partition, states, self.ends, name)}
        return self._steppings[partition]

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
