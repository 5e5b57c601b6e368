"""The words of ``why_not`` for a sequence, with rows and values of the frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.functions import values_of
from cepkit.compile.shared.terms import Computed, Exact
from cepkit.engines.sequence_measures import value_on_path
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.sequence_set import SequenceSet
from cepkit.events import TIME, Events, Source
from cepkit.insight.funnels import conditions_alone
from cepkit.insight.partial_matches import Extender, Obstacle, Partial
from cepkit.insight.why_not import WhyNot, named_positions, reading_table, row_text
from cepkit.insight.why_not_sequences import MOST_FILLERS, EventReading, Outcome, outcome_of, read_events
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import format_duration
from cepkit.language.expressions.functions import VECTOR_FUNCTIONS
from cepkit.language.expressions.trees import with_parts
from cepkit.language.sequences.printing import duration_text, type_text
from cepkit.progress import checkpoint
from cepkit.values import dataclass

_SHOWN_FILLERS = 3


class Words:
    """Describes what stops a reading."""

    def __init__(
        self, program: SequenceProgram, source: Source, places: Places, reading: EventReading,
        variable_of: Mapping[int, str],
    ):  # fmt: skip
        self.program, self.query, self.source, self.places = program, program.query, source, places
        self.read, self.given = reading, variable_of
        self.bound = program.branches[reading.branch]
        self.components = self.bound.branch.components

    # --- rows and events

    def _rows(self, places: Sequence[int]) -> np.ndarray:
        return self.places.events.rows(self.places.position_of_place[list(places)])

    def row(self, place: int) -> str:
        """Return the label of an event in the frame: ``row 17``."""
        return row_text(self.source.index_labels(self._rows([place]))[0])

    def rows(self, places: Sequence[int]) -> str:
        return ", ".join(self.row(place) for place in places)

    def time(self, place: int) -> str:
        """Return the time of an event, without the date if all are on one day; empty without a clock."""
        clock = self.program.clock
        if clock is None:
            return ""
        value = self._value(clock, place)
        if not isinstance(value, datetime):
            return f"{clock} {_plain(value)}"
        days = {self._value(clock, end).date() for end in self._ends}
        text = str(value.time() if len(days) == 1 else value)
        return text.removesuffix(":00") if text.count(":") == 2 else text

    @property
    def _ends(self) -> tuple[int, int]:
        places = self.places.place_of_position
        return int(places[0]), int(places[-1])

    def row_at(self, place: int) -> str:
        """Return the label and the time of an event: ``row 17 (10:02)``."""
        time = self.time(place)
        return f"{self.row(place)} ({time})" if time else self.row(place)

    def _value(self, column: str, place: int) -> Any:
        """Return a value of an event as the user knows it."""
        derived = self.program.derived.get(column)
        if isinstance(derived, Computed):
            values = self.places.events.columns[column].take(self.places.position_of_place[[place]])
            [value] = values_of(values)
            is_time = values.type.kind == TIME and value is not None
            return pd.Timestamp(value, unit=values.type.unit) if is_time else value
        if isinstance(derived, Exact):
            column = derived.column
        elif derived is not None:
            items = self.source.arrow(derived.column, self._rows([place]))[0].as_py()
            within = items is not None and -len(items) <= derived.index < len(items)
            return items[derived.index] if within else None
        return self.source.arrow(column, self._rows([place])).to_pandas().iloc[0]

    def name(self, c: int) -> str:
        """Return the variable of a component, with its type if it has one: ``Cancel x``."""
        component = self.components[c]
        return _type_and_name(component.variable, component.event_type)

    def kind(self, c: int) -> str:
        """Return the type of a component, or its variable if it takes any type."""
        component = self.components[c]
        return component.variable if component.event_type is None else type_text(component.event_type)

    def moment(self, place: int) -> str:
        return self.time(place) or self.row(place)

    def within(self) -> str:
        return "" if self.query.within is None else f" within {duration_text(self.query.within)}"

    # --- the reading

    def reading(self) -> str:
        """Return the events of each variable: ``o = row 1, r = row 3``."""
        parts: dict[Any, list[str]] = {}
        for place, c in zip(self.read.places, self.read.components, strict=True):
            parts.setdefault(("?", place) if c is None else (self.components[c].variable, c), []).append(
                self.row(place)
            )
        return ", ".join(f"{name} = {', '.join(labels)}" for (name, _), labels in parts.items())

    def table(self, reasons: Sequence[str]) -> pd.DataFrame:
        """Return a row per event; the row of the stopped event, or the last row, has the reasons."""
        rows, column = self._rows(self.read.places), self.query.event_type
        names = [None if c is None else self.components[c].variable for c in self.read.components]
        table = reading_table(self.source.index_labels(rows), names, self.read.reached, reasons)
        if column is not None:
            table.insert(1, "event_type", self.source.arrow(column, rows).to_pandas().to_numpy(object))
        return table

    # --- what stops

    def reason(self, obstacle: Obstacle) -> str:
        return getattr(self, f"_{obstacle.kind}")(obstacle)

    def _type(self, o: Obstacle) -> str:
        """Return the text for an event of a wrong type."""
        [place] = o.places
        column = self.query.event_type
        shown = "null" if pd.isna(value := self._value(column, place)) else repr(_plain(value))
        head = f"{self.row(place)} is of type {shown}"
        absent = (a for bound in self.program.branches for a in bound.branch.absences)
        if any(absence.event_type == _plain(value) for absence in absent):
            head += ", which must be absent"
        if place in self.given and o.component is not None:
            return f"{head}, {self.given[place]} is of type {self.components[o.component].event_type!r}"
        types = dict.fromkeys(
            type_text(c.event_type) for bound in self.program.branches for c in bound.branch.components
        )
        return f"{head}, the pattern has {', '.join(types)}"

    def _variable(self, o: Obstacle) -> str:
        """Return the text for an event that is given as a variable of another branch."""
        [place] = o.places
        there = ", ".join(dict.fromkeys(c.variable for c in self.components))
        return (
            f"{self.row(place)} is given as {self.given[place]!r}, which no match has together with {there}"
        )

    def _alone(self, o: Obstacle) -> str:
        """Return why an event fails a condition on itself."""
        condition = conditions_alone(self.bound, o.component)[o.number]
        if condition.conjunct >= len(self.query.where):
            return self._undecided(o.places[0])
        return f"{self.row(o.places[0])}: {self._with_truth(condition.expression, o)}"

    def _condition(self, o: Obstacle) -> str:
        """Return why the events fail a condition on several of them."""
        condition = self.bound.conditions[o.number].condition
        if condition.conjunct >= len(self.query.where):
            return self._undecided(o.partial.path[0])
        return self._with_truth(condition.expression, o)

    def _undecided(self, place: int) -> str:
        """Return the text for a match that waits for the end of an absence."""
        absent = self.bound.branch.absences[-1].variable
        wait = f"{duration_text(self.query.within)} after {self.row(place)} ({self.time(place)})"
        return (
            f"whether {absent} is absent is decided {wait}, which is later than the data are complete; "
            "complete_until='end' says that no event follows"
        )

    def _partition(self, o: Obstacle) -> str:
        """Return the text for events of several partitions."""
        first, second = o.places
        start = self.places.start_of_partition
        n_others = sum(start[place] == start[second] for place in self.read.places)
        if 2 * n_others > len(self.read.places):
            key, others = (
                ", ".join(f"{name} {_plain(self._value(name, place))}" for name in self.query.partition_by)
                for place in (first, second)
            )
            return f"{self.row(first)} belongs to {key}, the others to {others}"
        first, second = sorted(o.places, key=self.read.places.index)
        keys = [
            f"{name} {_plain(self._value(name, first))} and {_plain(self._value(name, second))}"
            for name in self.query.partition_by
            if not _same(self._value(name, first), self._value(name, second))
        ]
        return f"{self.row(first)} and {self.row(second)} are of different partitions: {', '.join(keys)}"

    def _order(self, o: Obstacle) -> str:
        """Return the text for events in another order than the pattern."""
        early, late = o.places
        component = dict(zip(self.read.places, self.read.components, strict=True))
        names = [self.components[component[place]].variable for place in (early, late)]
        return (
            f"{names[0]} = {self.row_at(early)} comes before {names[1]} = {self.row_at(late)}, "
            f"but {names[1]} comes first in the pattern"
        )

    def _missing(self, o: Obstacle) -> str:
        return f"no event is given for {self.name(o.component)}"

    def _few(self, o: Obstacle) -> str:
        component = self.components[o.component]
        return f"{component.variable} needs at least {component.low} events, {_n_given(len(o.places))}"

    def _many(self, o: Obstacle) -> str:
        component = self.components[o.component]
        events = "1 event" if component.high == 1 else f"at most {component.high} events"
        return f"{component.variable} is {events}, {_n_given(len(o.places))}: {self.rows(o.places)}"

    def _window(self, o: Obstacle) -> str:
        return f"{self._lasts(*o.places)}, {self._limit(self.query.within)}"

    def _gap(self, o: Obstacle) -> str:
        return f"{self._lasts(*o.places)}, {self._limit(self.query.gap_within)} between successive events"

    def _lasts(self, one: int, other: int) -> str:
        """Return how long it is from one event to another, in words."""
        ticks = self.places.time[other] - self.places.time[one]
        unit = self.program.schema[self.program.clock].unit
        length = format_duration(int(ticks), unit) if unit else str(_plain(ticks))
        return f"the time from {self.row(one)} to {self.row(other)} is {length}"

    def _limit(self, duration: Any) -> str:
        text = duration_text(duration)
        return f"more than {text}" if self.query.within_closed else f"not less than {text}"

    def _events(self, o: Obstacle) -> str:
        """Return the text for more events than the window allows."""
        first, last = o.places
        where = " of the partition" if self.query.partition_by else ""
        n = last - first + 1
        most = self.query.within_events
        return f"from {self.row(first)} to {self.row(last)} there are {n:,} events{where}, more than {most:,}"

    def _strict_time(self, o: Obstacle) -> str:
        first, second = o.places
        return f"{self.row(first)} and {self.row(second)} happen at the same time ({self.time(first)})"

    def _skipped(self, o: Obstacle) -> str:
        """Return the text for an event between two others that the strategy may not skip."""
        first, second, between = o.places
        head = f"{self.row(between)} lies between {self.row(first)} and {self.row(second)}"
        if o.number is not None:
            return (
                f"{head} and could be {self.components[o.number].variable}: strategy 'next' may not skip it"
            )
        whole = self.places.start_of_partition[between] != self.places.start_of_partition[first]
        where = "stream" if whole or not self.query.partition_by else "partition"
        return f"{head}, and no event of the {where} may be skipped there"

    def _until(self, o: Obstacle) -> str:
        component = self.components[o.component]
        return f"{self.row(o.places[2])} ends the loop of {component.variable}: {component.until} is true"

    def _preference(self, o: Obstacle) -> str:
        """Return the text for an event that a greedy or reluctant loop takes otherwise."""
        name, other = self.components[o.component].variable, o.component + 1
        loop = self.components[o.component]
        if loop.preference == "greedy":
            return f"{self.row(o.places[0])} could be {name} too, and {name} is greedy"
        return (
            f"{self.row(o.places[0])} could be {self.components[other].variable} too, and {name} is reluctant"
        )

    def _absence(self, o: Obstacle) -> str:
        """Return the text for an event that must be absent."""
        absence = self.bound.branch.absences[o.number]
        name = _type_and_name(absence.variable, absence.event_type)
        head = f"{name}, which must be absent, is {self.row_at(o.places[0])}"
        n = len(self.components)
        if absence.after < 0:
            return f"{head} in the window before {self.components[0].variable}"
        if absence.before >= n:
            return f"{head} in the window after {self.components[-1].variable}"
        ends = [self.components[c].variable for c in (absence.after, absence.before)]
        return f"{head} between {ends[0]} and {ends[1]}"

    def fillers(self) -> Iterator[str]:
        """Yield the candidates for a missing event in words."""
        missing = next((o for o in self.read.obstacles if o.kind == "missing"), None)
        if missing is None:
            return
        component = self.components[missing.component]
        kind = "event" if component.event_type is None else f"{type_text(component.event_type)} event"
        fillers = self.read.fillers
        if not fillers:
            yield f"there is no {kind} where {component.variable} would be"
            return
        could = [place for place, obstacle in fillers if obstacle is None]
        if could:
            more = f" and {len(could) - _SHOWN_FILLERS:,} more" if len(could) > _SHOWN_FILLERS else ""
            yield f"{self.rows(could[:_SHOWN_FILLERS])}{more} could be {component.variable}"
        stopped = [(place, obstacle) for place, obstacle in fillers if obstacle is not None]
        for place, obstacle in stopped[:_SHOWN_FILLERS]:
            yield f"{self.row(place)} could not be {component.variable}: {self.reason(obstacle)}"
        if len(stopped) > _SHOWN_FILLERS:
            more = "at least " if self.read.more_fillers else ""
            yield f"nor could {more}{len(stopped) - _SHOWN_FILLERS:,} other {kind}s"

    # --- conditions with their values

    def _with_truth(self, expression: ex.Expression, o: Obstacle) -> str:
        """Return a condition with the values that it compared, and its truth."""
        truth = {True: "true", False: "false", None: "null"}[o.truth]
        path = self.places.position_of_place[list(o.partial.path)]
        place = self.program, self.places.events, self.read.branch, path, np.array(o.partial.components)

        def value(node: ex.Expression) -> ex.Expression:
            if isinstance(node, ex.Parameter):
                return _literal(dict(self.query.params)[node.name])
            is_vector = isinstance(node, ex.Call) and node.function in VECTOR_FUNCTIONS  # too long to show
            is_item = isinstance(node, ex.Subscript) and isinstance(node.operand, ex.Reference)
            if is_vector or is_item or isinstance(node, ex.Aggregate | ex.Reference):
                return _literal(value_on_path(*place, node, self.source))
            return node

        return f"{expression}: {_replace_parts(expression, value)} is {truth}"


def _replace_parts(
    expression: ex.Expression, change: Callable[[ex.Expression], ex.Expression]
) -> ex.Expression:
    """Return the expression with its outermost parts replaced by ``change``."""
    if (changed := change(expression)) is not expression or isinstance(expression, ex.Aggregate):
        return changed
    return with_parts(expression, ex.Expression, lambda part: _replace_parts(part, change))


def _literal(value: Any) -> ex.Expression:
    """Return the value as a literal of a predicate; times and durations as text."""
    value = _plain(value)
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return ex.Attribute(str(value))
    if value is None or isinstance(value, bool | int | float | str):
        return ex.Literal(value)
    if isinstance(value, pd.Timedelta):
        return ex.Literal(format_duration(value.value, "ns"))
    return ex.Literal(str(value))


def _plain(value: Any) -> Any:
    """Return a value of a frame as a Python value, with None for null."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, list | tuple | np.ndarray | dict) and pd.isna(value):
        return None
    return value


def _same(left: Any, right: Any) -> bool:
    left, right = _plain(left), _plain(right)
    return left is right or left == right


def _type_and_name(variable: str, event_type: Any) -> str:
    return variable if event_type is None else f"{type_text(event_type)} {variable}"


def _n_given(n: int) -> str:
    return f"{n} is given" if n == 1 else f"{n} are given"


# --- rows that were expected to match


def explain_sequence_rows(
    program: SequenceProgram, source: Source, events: Events,
    run: Callable[[SequenceProgram, Events], SequenceSet], rows: Any,
) -> WhyNot:  # fmt: skip
    """Return why the rows are not a match of a sequence; ``rows`` and errors are as for `named_positions`."""
    query = program.query
    named = named_positions(source, events, rows, query.variables, query.absent_variables)
    places = Places(program, events)
    wanted = places.place_of_position[list(named)].tolist()
    pairs = zip(wanted, named.values(), strict=True)
    variable_of = {place: name for place, name in pairs if name is not None}
    reading = read_events(places, wanted, variable_of)
    if not reading.obstacles:
        outcome = outcome_of(program, run(program, events), reading, places, variable_of)
        return _matching(program, Words(program, source, places, outcome.reading, variable_of), outcome)
    words = Words(program, source, places, reading, variable_of)
    reasons = tuple(words.reason(obstacle) for obstacle in reading.obstacles)
    kinds = tuple(obstacle.kind for obstacle in reading.obstacles)
    head = f"no match: {words.reading()}"
    if reading.reached == len(wanted):
        head += "; a partial match"
    elif reading.reached:
        last, following = reading.places[reading.reached - 1 : reading.reached + 1]
        head += f"; {words.row(following)} cannot follow {words.row(last)}"
    return WhyNot(head, reasons, kinds, tuple(words.fillers()), False, None, words.table(reasons))


def _matching(program: SequenceProgram, words: Words, found: Outcome) -> WhyNot:
    """Return the answer for events that fulfil all conditions."""
    if found.taker is None:
        which = "a match" if found.number is None else f"match {found.number:,}"
        head = f"they match: {words.reading()} is {which}"
        return WhyNot(head, matches=True, number=found.number, table=words.table(()))
    policy, variable = program.query.after_match
    policy += f"({variable})" if variable else ""
    taker = words.rows(words.places.place_of_position[found.taker.event_of_item].tolist())
    reason = f"after_match={policy!r} leaves it out: the earlier match of {taker} is reported"
    if found.is_longer:
        reason = f"GREEDY leaves it out: the match of {taker} is longer"
    head = f"no match: {words.reading()} fulfils all conditions"
    return WhyNot(head, (reason,), ("after_match",), (), False, None, words.table((reason,)))


# --- one event, told as a colleague would


@dataclass(frozen=True, slots=True)
class EventStory:
    """What became of an event: the partial match that it belongs to, and why that one is no match."""

    text: str
    reached: tuple[tuple[int, str], ...]  # positions and variables of the partial match
    end: int  # the position of the event where it ended
    is_match: bool = False


def tell_event(program: SequenceProgram, source: Source, events: Events, position: int) -> EventStory | None:
    """Return the furthest partial match with an event in words; None if no component takes the event."""
    places = Places(program, events)
    j = int(places.place_of_position[position])
    best: tuple[int, Partial, Extender, int] | None = None
    for number, bound in enumerate(program.branches):
        extender = Extender(places, bound)
        for partial in _partials_with(extender, places, j):
            furthest = _extended(extender, places, partial)
            if best is None or len(furthest.path) > len(best[1].path):
                best = number, furthest, extender, j
    return _tell_first(program, source, places, j) if best is None else _tell(program, source, places, *best)


def _tell_first(program: SequenceProgram, source: Source, places: Places, j: int) -> EventStory | None:
    """Return the words for an event that a later component could take, without a beginning before it."""
    for number, bound in enumerate(program.branches):
        extender = Extender(places, bound)
        for c in range(1, extender.n):
            if extender.conditions.failing_alone(c, j) is None:
                words = Words(program, source, places, EventReading(number, (j,), (c,), 1, ()), {})
                head = f"{words.kind(c)} at {words.moment(j)}: no {words.kind(0)} before it{words.within()}."
                position = int(places.position_of_place[j])
                return EventStory(head, ((position, words.components[c].variable),), position)
    return None


def _partials_with(extender: Extender, places: Places, j: int) -> Iterator[Partial]:
    """Yield partial matches that end with event ``j``: it begins one, or the nearest events before it do."""
    if not extender.obstacles(Partial(), j, 0):
        yield Partial().with_event(j, 0)
    low = int(places.start_of_partition[j])
    for start in range(j - 1, max(low, j - MOST_FILLERS) - 1, -1):
        checkpoint()
        if extender.obstacles(Partial(), start, 0):
            continue
        partial = Partial().with_event(start, 0)
        for y in range(start + 1, j + 1):
            c = _next_component(extender, partial, y)
            if c is not None:
                partial = partial.with_event(y, c)
        if partial.path[-1] == j:
            yield partial
            return


def _next_component(extender: Extender, partial: Partial, y: int) -> int | None:
    """Return the component that an event can be next, or None."""
    last = partial.components[-1]
    candidates = [last + 1] if last + 1 < extender.n else []
    if extender.components[last].high != 1 and not extender.is_full(partial, last):
        candidates.append(last)
    return next((c for c in candidates if not extender.obstacles(partial, y, c)), None)


def _extended(extender: Extender, places: Places, partial: Partial) -> Partial:
    """Return the partial match with the next events that can continue it."""
    end = int(places.time_end[partial.path[0]])
    for y in range(partial.path[-1] + 1, min(end, partial.path[-1] + MOST_FILLERS)):
        checkpoint()
        if partial.components[-1] == extender.n - 1 and not extender.at_end(partial):
            break
        c = _next_component(extender, partial, y)
        partial = partial if c is None else partial.with_event(y, c)
    return partial


def _tell(
    program: SequenceProgram, source: Source, places: Places, number: int, partial: Partial,
    extender: Extender, j: int,
) -> EventStory:  # fmt: skip
    """Return the story of a partial match up to event ``j``."""
    reading = EventReading(number, partial.path, partial.components, len(partial.path), ())
    words, query, last = Words(program, source, places, reading, {}), program.query, partial.components[-1]
    position = places.position_of_place

    kind, at = words.kind, words.moment
    steps = [f"{kind(c)} at {at(y)}" for y, c in zip(partial.path, partial.components, strict=True)]
    text = steps[0] + "".join(f", {step} followed" for step in steps[1:])
    names = (words.components[c].variable for c in partial.components)
    reached = tuple(zip(position[list(partial.path)].tolist(), names, strict=True))
    obstacles = extender.at_end(partial)
    if not obstacles:
        return EventStory(f"{text}: all conditions hold.", reached, int(position[partial.path[-1]]), True)
    start, stop = partial.path[-1] + 1, len(position)
    missing = min(last + 1, extender.n - 1)
    if last == extender.n - 1 and not any(o.kind == "few" for o in obstacles):
        return EventStory(f"{text}; {words.reason(obstacles[0])}.", reached, int(position[partial.path[-1]]))
    key = places.start_of_partition[partial.path[0]]
    end = int(position[partial.path[-1]])
    for y in range(start, min(stop, start + 50 * MOST_FILLERS)):
        if places.start_of_partition[y] != key:
            break
        failing = extender.conditions.failing_alone(missing, y)
        if failing is not None and (failing == 0 or words.components[missing].event_type is None):
            continue  # of another type
        why, end = extender.obstacles(partial, y, missing), int(position[y])
        if y >= places.time_end[partial.path[0]] and query.within is not None:
            over = f"no {kind(missing)} until {at(y)}, when the {duration_text(query.within)} was over"
            return EventStory(f"{text}; {over}.", reached, end)
        if why:
            text += f"; {kind(missing)} at {at(y)} cannot follow: {words.reason(why[0])}."
            return EventStory(text, reached, end)
    return EventStory(f"{text}; no {kind(missing)} followed{words.within()}.", reached, end)
