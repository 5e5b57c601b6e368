"""The words of ``why_not`` for a sequence, with rows and values of the frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.sequences.program import ALL, EACH, EARLIER, LAST, PREVIOUS, SequenceProgram
from cepkit.compile.shared.bound_query import Derived, Prepared, Term
from cepkit.engines.measures.reducing import similarity
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import Seen
from cepkit.engines.shared.sequence_set import SequenceSet
from cepkit.events import (
    BOOLEAN,
    DURATION,
    NULL_CODE,
    NULL_INTEGER,
    TEXT,
    TIME,
    Events,
    Source,
    shared_categories,
)
from cepkit.insight.funnels import conditions_alone
from cepkit.insight.partial_matches import Obstacle
from cepkit.insight.why_not import WhyNot, named_positions, reading_table, row_text
from cepkit.insight.why_not_sequences import (
    EventReading,
    Outcome,
    outcome_of,
    read_events,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import format_duration
from cepkit.language.expressions.functions import VECTOR_FUNCTIONS
from cepkit.language.expressions.trees import with_parts
from cepkit.language.sequences.printing import duration_text, type_text

_SHOWN_FILLERS = 3
_INDEX = {None: EACH, ex.CURRENT: EACH, ex.BEFORE: PREVIOUS, ex.LAST: LAST}


class Words:
    """Describes what stops a reading."""

    def __init__(
        self,
        program: SequenceProgram,
        source: Source,
        places: Places,
        reading: EventReading,
        variable_of: Mapping[int, str],
    ):
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
        """Return the labels of several events."""
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
        if derived := self.program.derived.get(column):
            items = self.source.arrow(derived.column, self._rows([place]))[0].as_py()
            within = items is not None and -len(items) <= derived.index < len(items)
            return items[derived.index] if within else None
        return self.source.arrow(column, self._rows([place])).to_pandas().iloc[0]

    def name(self, c: int) -> str:
        """Return the variable of a component, with its type if it has one: ``Cancel x``."""
        component = self.components[c]
        return _type_and_name(component.variable, component.event_type)

    # --- the reading

    def reading(self) -> str:
        """Return the events of each variable: ``o = row 1, r = row 3``."""
        parts: dict[Any, list[str]] = {}
        for place, c in zip(self.read.places, self.read.components, strict=True):
            parts.setdefault((c,) if c is not None else (None, place), []).append(self.row(place))
        phrases = []
        for key, labels in parts.items():
            name = "?" if key[0] is None else self.components[key[0]].variable
            phrases.append(f"{name} = {', '.join(labels)}")
        return ", ".join(phrases)

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
        """Return an obstacle in words."""
        return getattr(self, f"_{obstacle.kind}")(obstacle)

    def _type(self, o: Obstacle) -> str:
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
        [place] = o.places
        there = ", ".join(dict.fromkeys(c.variable for c in self.components))
        return (
            f"{self.row(place)} is given as {self.given[place]!r}, which no match has together with {there}"
        )

    def _alone(self, o: Obstacle) -> str:
        condition = conditions_alone(self.bound, o.component)[o.number]
        return f"{self.row(o.places[0])}: {self._with_truth(condition.expression, o.seen)}"

    def _condition(self, o: Obstacle) -> str:
        return self._with_truth(self.bound.conditions[o.number].condition.expression, o.seen)

    def _partition(self, o: Obstacle) -> str:
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
        ticks = self.places.time[other] - self.places.time[one]
        unit = self.program.schema[self.program.clock].unit
        length = format_duration(int(ticks), unit) if unit else str(_plain(ticks))
        return f"the time from {self.row(one)} to {self.row(other)} is {length}"

    def _limit(self, duration: Any) -> str:
        text = duration_text(duration)
        return f"more than {text}" if self.query.within_closed else f"not less than {text}"

    def _events(self, o: Obstacle) -> str:
        first, last = o.places
        where = " of the partition" if self.query.partition_by else ""
        n = last - first + 1
        most = self.query.within_events
        return f"from {self.row(first)} to {self.row(last)} there are {n:,} events{where}, more than {most:,}"

    def _strict_time(self, o: Obstacle) -> str:
        first, second = o.places
        return f"{self.row(first)} and {self.row(second)} happen at the same time ({self.time(first)})"

    def _skipped(self, o: Obstacle) -> str:
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
        name, other = self.components[o.component].variable, o.component + 1
        loop = self.components[o.component]
        if loop.preference == "greedy":
            return f"{self.row(o.places[0])} could be {name} too, and {name} is greedy"
        return (
            f"{self.row(o.places[0])} could be {self.components[other].variable} too, and {name} is reluctant"
        )

    def _absence(self, o: Obstacle) -> str:
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

    def _with_truth(self, expression: ex.Expression, seen: Seen) -> str:
        values = str(self._with_values(expression, seen))
        truth = {True: "true", False: "false", None: "null"}[seen.truth]
        return f"{expression}: {values} is {truth}"

    def _with_values(self, expression: ex.Expression, seen: Seen) -> ex.Expression:
        params = dict(self.query.params)

        def value(node: ex.Expression) -> ex.Expression:
            match node:
                case ex.Aggregate():
                    return self._aggregate(node, seen)
                case ex.Parameter(name=name):
                    return _literal(params[name])
                case ex.Call(function=name) if name in VECTOR_FUNCTIONS:
                    return self._similarity(node, seen)
                case ex.Subscript(operand=ex.Reference() as reference, index=index):
                    return self._element(node, reference, seen, index)
                case ex.Reference(name=str()):
                    return self._element(node, node, seen)
            return node

        return _replace_parts(expression, value)

    def _element(self, node, reference: ex.Reference, seen: Seen, item: int | None = None) -> ex.Expression:
        which = self._which(reference)
        for leaf in seen.place_of:
            column = leaf.data[2]
            derived = self.program.derived.get(column)
            name = (derived.column, derived.index) if isinstance(derived, Derived) else (column, None)
            if leaf.data[:2] == (reference.variable, which) and name == (reference.name, item):
                return _literal(self._value(column, seen.place_of[leaf]))
        return ex.Literal(None) if isinstance(which, int) else node

    def _which(self, reference: ex.Reference) -> Any:
        """Return which event of its variable a reference means, in the words of the program's terms."""
        which = _INDEX.get(reference.index, reference.index)
        is_single = reference.variable not in self.query.group_variables
        return EACH if is_single and (which == LAST or which == 1) else which

    def _similarity(self, e: ex.Call, seen: Seen) -> ex.Expression:
        """Return the value of a function of two arrays, since arrays are too long to show."""
        sides = []
        for argument in e.arguments:
            wanted = (argument.variable, self._which(argument))
            prepared = Prepared(argument.name, e.function)
            leaves = (leaf for leaf in seen.place_of if leaf.data[:2] == wanted)
            leaf = next(
                (
                    candidate
                    for candidate in leaves
                    if self.program.derived.get(candidate.data[2]) == prepared
                ),
                None,
            )
            if leaf is None:
                return ex.Literal(None) if isinstance(wanted[1], int) else e
            sides.append(self.places.inputs.columns[leaf.data[2]][[seen.place_of[leaf]]])
        return _literal(similarity(e.function, *sides)[0])

    def _aggregate(self, e: ex.Aggregate, seen: Seen) -> ex.Expression:
        names = {"avg": ("sum", "count_of"), "delta": ("last", "first"), "count": ("count_of",)}
        wanted = names.get(e.function, (e.function,))
        if e.function == "avg" and self._group(e, "high", seen) is not None:
            wanted = ("high", "low", "count_of")  # the halves of a sum of integers
        if isinstance(e.operand, ex.Reference) and e.operand.name is None:
            wanted = ("count",)
        leaves = [self._group(e, name, seen) for name in wanted]
        if None in leaves:
            return e
        values = [self._group_value(leaf, seen.value_of[leaf]) for leaf in leaves]
        if None in values or (e.function == "avg" and values[-1] == 0):
            return ex.Literal(None)
        if e.function == "avg":
            total = values[0] if len(values) == 2 else values[0] * 2**32 + values[1]
            return _literal(total / values[-1])
        return _literal(values[0] - values[1] if e.function == "delta" else values[0])

    def _group(self, e: ex.Aggregate, name: str, seen: Seen) -> Term | None:
        """Return the only aggregate that the expression can mean, or None if there are several."""
        inside = [node for node in e.walk() if isinstance(node, ex.Reference)]
        over = EARLIER if any(node.index == ex.ALL_BEFORE for node in inside) else ALL
        columns = {node.name for node in inside} - {None}
        half = name if name in ("high", "low") else None
        name = "sum" if half else name
        leaves = [
            leaf
            for leaf in seen.value_of
            if leaf.data == (name, inside[0].variable, over)
            and _half(leaf) == half
            and {part.data[2] for part in leaf.walk() if part.op == "element"} == columns
        ]
        return leaves[0] if len(leaves) == 1 else None

    def _group_value(self, leaf: Term, value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if leaf.kind in (TEXT, BOOLEAN):
            if value == NULL_CODE:
                return None
            return bool(value) if leaf.kind == BOOLEAN else self._text(leaf, value)
        if value == NULL_INTEGER or value != value:
            return None
        if leaf.kind == TIME:
            return pd.Timestamp(value, unit=leaf.unit or "ns")
        if leaf.kind == DURATION:
            return pd.Timedelta(value, unit=leaf.unit or "ns")
        return value

    def _text(self, leaf: Term, code: int) -> str:
        column = next(part.data[2] for part in leaf.walk() if part.op == "element")
        columns = self.places.events.columns
        for group in self.program.text_groups:
            if column in group:
                names = sorted(group)
                shared = shared_categories(
                    [columns[name] for name in names], bool(group & self.program.ordered_text)
                )
                return shared[names.index(column)].categories[code]
        return columns[column].categories[code]


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
    program: SequenceProgram,
    source: Source,
    events: Events,
    run: Callable[[SequenceProgram, Events], SequenceSet],
    rows: Any,
) -> WhyNot:
    """Return why the rows are not a match of a sequence; ``rows`` and errors are as for `named_positions`.

    ``run`` is the function of an engine that finds the matches.

    """
    query = program.query
    named = named_positions(source, events, rows, query.variables, query.absent_variables)
    places = Places(program, events)
    wanted = places.place_of_position[list(named)].tolist()
    variable_of = {
        place: name for place, name in zip(wanted, named.values(), strict=True) if name is not None
    }
    reading = read_events(places, wanted, variable_of)
    words = Words(program, source, places, reading, variable_of)
    if not reading.obstacles:
        outcome = outcome_of(program, run(program, events), reading, places)
        return _matching(program, words, outcome)
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
    if found.taker is None:
        which = "a match" if found.number is None else f"match {found.number:,}"
        head = f"they match: {words.reading()} is {which}"
        return WhyNot(head, matches=True, number=found.number, table=words.table(()))
    policy, variable = program.query.after_match
    policy += f"({variable})" if variable else ""
    taker = words.rows(words.places.place_of_position[found.taker.event_of_item].tolist())
    reason = f"after_match={policy!r} leaves it out: the earlier match of {taker} is reported"
    head = f"no match: {words.reading()} fulfils all conditions"
    return WhyNot(head, (reason,), ("after_match",), (), False, None, words.table((reason,)))


def _half(leaf: Term) -> str | None:
    """Return which half of its values an aggregate adds, or None if it adds whole values."""
    return leaf.args[0].op if leaf.args and leaf.args[0].op in ("high", "low") else None
