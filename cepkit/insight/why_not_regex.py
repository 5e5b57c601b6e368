"""Why rows are not a match of a regex: how far they match, and where partial matches end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cepkit.compile.regex_program import Program, compile_regex
from cepkit.compile.shared.row_automaton import ANY
from cepkit.engines.regex import label_rows
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError
from cepkit.events import Events, Source
from cepkit.insight.funnels import looks_at_match, row_query
from cepkit.insight.moments import Stepping, Walk
from cepkit.insight.trace import RegexTrace, names_of_mask, rows_looked_back
from cepkit.insight.why_not import RowsExplainer, RowsRead, WhyNot, cell, named_positions
from cepkit.language.expressions import trees as ex
from cepkit.language.regex import RegexQuery, parse_pattern
from cepkit.language.row_patterns import Variable, variables
from cepkit.language.sequences.printing import duration_text
from cepkit.values import dataclass, replace


def failing_conditions(
    program: Program, source: Source, stepping: Stepping, names: tuple[str, ...], start: int, k: int
) -> list[tuple[str, str]]:
    """Return the conditions that row ``k`` fails as the next row of a partial match from ``start``."""
    defined = dict(program.query.define)
    failing = []
    for name in dict.fromkeys(names):
        if name == ANY:
            continue
        if name not in defined:
            failing.append((name, f"column {name} is not true"))
            continue
        for condition in ex.conjuncts(defined[name]):
            if not _holds(program, stepping, name, condition, start, k):
                values = ", ".join(_values(source, stepping, condition, start, k))
                failing.append((name, f"{condition}{values and f' ({values})'}"))
    return failing


def _holds(
    program: Program, stepping: Stepping, name: str, condition: ex.Expression, start: int, k: int
) -> bool:
    """Return whether a condition holds at row ``k`` of a match of the rows ``start`` to ``k``."""
    n_before = ex.Comparison("==", ex.Aggregate("count"), ex.Literal(k - start))
    pattern = parse_pattern(f". .* {name}") if k > start else Variable(name)
    define = ((name, ex.And((condition, n_before)) if k > start else condition),)
    query = replace(program.query, pattern=pattern, define=define, measures=None, within=None, sources=())
    try:
        return _matches(program, query, stepping, start, k)
    except (CepError, KeyError):  # a condition that cannot run alone is assumed to hold
        return True


def _matches(program: Program, query: RegexQuery, stepping: Stepping, start: int, k: int) -> bool:
    """Return whether a match of a query with the same columns begins at ``start`` and ends at ``k``."""
    low = max(0, start - rows_looked_back(query))  # a short part of the rows is enough
    trace = RegexTrace(compile_regex(query, program.schema), stepping.part(low, k + 1), start - low)
    _, last = trace.advance(start - low, k + 1 - low)
    return bool(len(last)) and int(last[-1]) == k - low


def _values(
    source: Source, stepping: Stepping, condition: ex.Expression, start: int, k: int
) -> Iterator[str]:
    """Yield ``close = 23.4`` for every distinct term that the condition compares."""
    seen: set[ex.Expression] = set()
    for term in _terms(condition):
        if term not in seen:
            seen.add(term)
            value = _value(source, stepping, term, start, k)
            if value is not None:
                yield f"{term} = {value or 'null'}"


def _terms(tree: ex.Expression) -> Iterator[ex.Expression]:
    """Yield the attributes of a condition; ``prev`` and aggregates count as single terms."""
    match tree:
        case ex.Attribute() | ex.Previous() | ex.Aggregate():
            yield tree
        case _:
            for child in tree.children():
                yield from _terms(child)


def _value(source: Source, stepping: Stepping, term: ex.Expression, start: int, k: int) -> str | None:
    """Return the value of a simple term as text, or None if the term is more than a column's value."""

    def column(name: str, low: int, high: int) -> list[Any]:
        positions = np.array([stepping.position_of(i) for i in range(low, high)], np.int64)
        return source.arrow(name, stepping.events.rows(positions)).to_pylist()

    match term:
        case ex.Attribute(name=name) if name in source.schema:
            return cell(column(name, k, k + 1)[0])
        case ex.Previous(operand=ex.Attribute(name=name), offset=offset) if name in source.schema:
            return cell(column(name, k - offset, k - offset + 1)[0]) if k >= offset else ""
        case ex.Aggregate(function="count", operand=None):
            return str(k - start)
        case ex.Aggregate(function="first" | "last" | "min" | "max" as function, operand=operand):
            if not (isinstance(operand, ex.Attribute) and operand.name in source.schema) or k <= start:
                return None
            values = column(operand.name, start, k)
            if function in ("first", "last"):
                return cell(values[0 if function == "first" else -1])
            present = [value for value in values if value is not None and value == value]
            return cell({"min": min, "max": max}[function](present)) if present else ""
    return None


# The kinds of reasons. ``skipped``: a row between the others is not named. ``missing``: the pattern is not
# complete. ``earliest_end``: it is complete before the last row. ``after_match``: another match is reported.
KINDS = (
    "partition", "skipped", "condition", "window", "variable", "missing", "earliest_end", "after_match",
)  # fmt: skip
MOST_PARTIALS = 4  # partial matches that are described for a row


# --- rows that were expected to match


def explain_regex_rows(
    program: Program, source: Source, events: Events, find: Callable[[], MatchSet], rows: Any
) -> WhyNot:
    """Return why the rows are not a match of a regex; ``rows`` and errors are as for `named_positions`."""
    # The kernel runs once over the rows as Python; each condition that may have failed is a query of its own.
    program.query.refuse_skips("why_not")
    names = tuple(dict.fromkeys(variable.name for variable in variables(program.query.pattern)))
    named = named_positions(source, events, rows, names)
    return _Explainer(program, source, events, find, named).explain()


class _Explainer(RowsExplainer):
    """Explains some rows as a match of a regex."""

    a_match = "a match of a regex"

    def __init__(self, program: Program, source: Source, events: Events, find: Callable[[], MatchSet], named):
        super().__init__(source, events, program.query.partition_by, named)
        self.program, self.find, self.names = program, find, program.automaton.names

    def again(self, named: Mapping[int, str | None]) -> _Explainer:
        return _Explainer(self.program, self.source, self.events, self.find, named)

    def enter(self, partition: int) -> np.ndarray:
        self.stepping = Stepping(self.program, self.events, partition)
        return np.flatnonzero(self.events.partition_of_event == partition)

    def names_of_taken(self, read: RowsRead) -> list[str]:
        """Return the possible variables of each row that was reached."""
        return [names_of_mask(self.names, mask) for mask in read.taken]

    def _verb(self, one: str, many: str) -> str:
        return one if len(self.positions) == 1 else many

    def answer(self, read: RowsRead) -> WhyNot:
        self._read(read)
        if not read.kinds:
            return self._explain_match(read, self.rows(read.low, read.high))
        return self.stopped(read, self._met(read.low) if len(self.positions) == 1 else ())

    # --- reading the rows

    def _read(self, read: RowsRead) -> None:
        """Read the rows as a match that begins with the first of them, independent of other matches."""
        low, automaton = read.low, self.program.automaton
        front = max(0, low - rows_looked_back(self.program.query))
        part = self.stepping.part(front, read.high + 1)
        trace = RegexTrace(self.program, part, low - front, reports=False)
        wanted = automaton.first
        for k in range(low, read.high + 1):
            trace.advance(k - front, k - front + 1)
            reached = next((span.where for span in trace.live() if span.first == low - front), 0)
            name = self.named[int(self.of_partition[k])]
            meant = automaton.mask_of_name(name) if name is not None else -1
            mask = wanted & reached & meant
            if not mask:
                self._stop_at(read, k, wanted, meant)
                return
            read.taken.append(mask)
            if reached & automaton.accepting and k < read.high:
                done = self.rows(low, k)
                read.stop(
                    "earliest_end",
                    f"{done} {'is' if k == low else 'are'} the whole pattern already, and a match ends with "
                    "the first row that completes the pattern",
                )
                return
            wanted = automaton.follow_of_mask(mask)
        if not mask & automaton.accepting:
            needed = names_of_mask(self.names, wanted)
            read.stop("missing", f"after {self.row(read.high)} the pattern still needs {needed}")

    def _stop_at(self, read: RowsRead, k: int, wanted: int, meant: int) -> None:
        """Add the reasons why row ``k`` is at none of the wanted positions of the pattern."""
        row, needed = self.row(k), names_of_mask(self.names, wanted)
        if not wanted & meant:
            name = self.named[int(self.of_partition[k])]
            where = "the first row" if k == read.low else f"after {self.row(k - 1)} the next one"
            read.stop("variable", f"{row} is given as {name!r}, and {where} must be {needed}")
            return
        possible = names_in(self.names, wanted & meant)
        failing = failing_conditions(self.program, self.source, self.stepping, possible, read.low, k)
        for name, text in failing:
            read.stop("condition", f"{row}: {name} fails: {text}")
        within = self.program.query.within
        if set(possible) <= {name for name, _ in failing}:
            return
        if within is not None:
            read.stop(
                "window", f"{row} is outside the window of {duration_text(within)} from {self.row(read.low)}"
            )
        elif not failing:
            read.stop("condition", f"{row} is not {names_of_mask(self.names, wanted & meant)}")

    # --- rows that fulfil the pattern

    def _explain_match(self, read: RowsRead, span: str) -> WhyNot:
        """Return the explanation for rows that fulfil the pattern: their match, or its rival."""
        matches, place_of = self.find(), self._place_of
        first, last = (int(self.of_partition[k]) for k in (read.low, read.high))
        is_in_partition = matches.partition == self.events.partition_of_event[last]
        taker = int(np.flatnonzero(is_in_partition & (matches.last >= first))[0])
        if (int(matches.first[taker]), int(matches.last[taker])) != (first, last):
            taken = self.rows(place_of(matches.first[taker]), place_of(matches.last[taker]))
            why = (
                "it ends with the same row and begins before"
                if matches.last[taker] == last
                else "it ends before, and the search continues after its last row"
            )
            read.stop("after_match", f"the match of {taken} is reported instead: {why}")
            return self.refusal(f"no match: {span} {self._verb('fulfils', 'fulfil')} all conditions", read)
        spelled = self._spelled(matches, taker)
        for position, is_read in zip(self.positions, spelled, strict=True):
            name = self.named[position]
            if name is not None and name != is_read:
                text = f"{self.label(position)} is {is_read}, not {name}: each variable takes as many"
                read.stop("variable", f"{text} rows as it can, from left to right")
        if read.kinds:
            return self.refusal(
                f"no match: {span} {self._verb('is', 'are')} match {taker:,}, with other variables", read
            )
        named_rows = ", ".join(
            f"{name} = {self.label(position).removeprefix('row ')}"
            for position, name in zip(self.positions[:8], spelled, strict=False)
        )
        more = ", …" if len(spelled) > 8 else ""
        table = self.table(spelled, read.reached, read.reasons)
        head = f"they match: {span} {self._verb('is', 'are')} match {taker:,} ({named_rows}{more})"
        return WhyNot(head, matches=True, number=taker, table=table)

    def _place_of(self, position: int) -> int:
        return int(np.searchsorted(self.of_partition, position))

    def _spelled(self, found: MatchSet, number: int) -> list[str]:
        positions = label_rows(self.program, found.take(np.array([number])))
        return ["any" if self.names[p] == ANY else self.names[p] for p in positions.tolist()]

    # --- one row alone

    def _met(self, k: int) -> list[str]:
        """Return lines on the match of a single row, or on the partial matches before it."""
        matches, position = self.find(), int(self.of_partition[k])
        is_in_partition = matches.partition == self.events.partition_of_event[position]
        there = np.flatnonzero(is_in_partition & (matches.first <= position) & (matches.last >= position))
        if len(there):
            number = int(there[0])
            low, high = (self._place_of(ends[number]) for ends in (matches.first, matches.last))
            return [f"{self.row(k)} is in match {number:,}: {self.rows(low, high)}"]
        partition = int(self.events.partition_of_event[position])
        ends = matches.last[matches.partition == partition]
        fates, _ = fates_at(Stepping(self.program, self.events, partition, ends=ends), k)
        lines = [
            f"the partial match from {self.row(fate.start)} "
            f"{fate_text(self.names, fate, k, self.row, self.row)}"
            for fate in fates[:MOST_PARTIALS]
        ]
        if len(fates) > MOST_PARTIALS:
            lines.append(f"{len(fates) - MOST_PARTIALS:,} more partial matches were live")
        return lines or ["no partial match was live before this row"]


# --- the fates of partial matches at a row


@dataclass(frozen=True)
class Fate:
    """How a partial match that is live before a row continues and ends."""

    # start, end: the event where it begins and the event where it ends; ``end`` is after the walk if it stays
    # live
    start: int
    end: int
    taken: int  # positions of the automaton at which it takes the row; 0 if it ends there
    wanted: int | None = None  # positions that it needs at its end; None if it does not fail
    rival: int | None = None  # the first event of the match that is complete at its end

    @property
    def is_match(self) -> bool:
        return self.rival == self.start


def fates_at(stepping: Stepping, k: int) -> tuple[list[Fate], bool]:
    """Return the fates of the partial matches that are live before event ``k``."""
    walk, follow = stepping.walk_to(k), stepping.program.automaton.follow_of_mask
    for passed in range(walk.begin, k):
        walk.after(passed)
    before = _masks(walk)
    waiting, taken, fates = list(before), dict.fromkeys(before, 0), []
    for j in range(k, walk.stop):
        completed = walk.after(j).completed
        after = _masks(walk)
        if j == k:
            taken |= {start: after.get(start, 0) for start in waiting}
        for start in waiting:
            if completed:
                fates.append(Fate(start, j, taken[start], None, completed[0][0]))
            elif start not in after:
                fates.append(Fate(start, j, taken[start], follow(before[start])))
        waiting = [start for start in waiting if start in after and not completed]
        before = after
        if not waiting:
            break
    fates += [Fate(start, walk.stop, taken[start]) for start in waiting]
    fates.sort(
        key=lambda fate: (not fate.is_match, fate.wanted is None, fate.rival is None, -fate.end, fate.start)
    )
    return fates, walk.is_whole


def _masks(walk: Walk) -> dict[int, int]:
    return {events[0]: span.where for events, span in zip(walk.partials(), walk.trace.live(), strict=True)}


def fate_text(
    names: tuple[str, ...], fate: Fate, k: int, name: Callable[[int], str],
    name_with_time: Callable[[int], str],
) -> str:  # fmt: skip
    """Return the fate of a partial match in words, seen from event ``k``: ``needs up here, and ends``."""
    takes = f"takes it as {names_of_mask(names, fate.taken)}" if fate.taken else ""
    if fate.wanted is None and fate.rival is None:
        return f"{takes}, and continues"
    there = "here" if fate.end == k else f"at {name_with_time(fate.end)}"
    if fate.is_match:
        return f"{takes}, and is completed {there}" if takes else "is completed"
    if fate.rival is not None:
        rival = f"the match from {name(fate.rival)} is reported"
        return f"{takes}, and ends {there}: {rival}" if takes else f"ends: {rival}"
    wanted = names_of_mask(names, fate.wanted)
    return (
        f"{takes}, and ends {there}, where it needs {wanted}" if takes else f"needs {wanted} here, and ends"
    )


def names_in(names: tuple[str, ...], mask: int) -> tuple[str, ...]:
    """Return the predicates of the positions in a mask."""
    return tuple(name for p, name in enumerate(names) if mask >> p & 1)


def predicates_at(program: Program, stepping: Stepping, k: int) -> list[tuple[str, str, bool]]:
    """Return (name, text, truth at row ``k``) of the predicates that do not read rows matched earlier."""
    defined, predicates = dict(program.query.define), []
    for name in dict.fromkeys(program.automaton.names):
        if name == ANY or (name in defined and looks_at_match(defined[name])):
            continue
        query = row_query(program.query, name, defined.get(name))
        is_met = _matches(program, query, stepping, k, k)
        predicates.append((name, str(defined.get(name, f"column {name}")), is_met))
    return predicates
