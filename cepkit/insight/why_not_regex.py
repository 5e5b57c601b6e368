"""Why rows are not a match of a regex: how far they match, and where partial matches end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.regex.automaton import ANY
from cepkit.compile.regex.program import Program, compile_regex
from cepkit.engines.regex import label_rows
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError
from cepkit.events import Events, Source
from cepkit.insight.funnels import looks_at_match, row_query
from cepkit.insight.moments import names_of_mask
from cepkit.insight.partial_matches import RegexPartials, rows_looked_back
from cepkit.insight.stepping import RegexWalk, Stepping
from cepkit.insight.why_not import MOST_ROWS, WhyNot, cell, named_positions, reading_table, row_text
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.construction import parse_pattern
from cepkit.language.regex.patterns import Variable, variables
from cepkit.language.sequences.printing import duration_text

# The conditions that fail when a partial match of a regex reads a row, and the values they compare.


def failing_conditions(
    program: Program, source: Source, stepping: Stepping, names: tuple[str, ...], start: int, k: int
) -> list[tuple[str, str]]:
    """Return the conditions that row ``k`` fails as the next row of a partial match: (predicate, condition).

    The partial match has the rows from ``start`` to ``k - 1`` of the partition in ``stepping``, and may take
    one of the predicates ``names`` next. Each condition runs as a query of its own on these rows, in time
    O(conditions x (k - start)).

    """
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
    low = max(0, start - rows_looked_back(query))
    try:
        partials = RegexPartials(compile_regex(query, program.schema), stepping.part(low, k + 1), start - low)
    except (CepError, KeyError):  # a condition that cannot run alone is assumed to hold
        return True
    _, last = partials.read(start - low, k + 1 - low)
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


@dataclass
class RowReading:
    """Rows of one partition, read as the beginning of a match."""

    # low, high: the first and the last row, numbered within their partition
    low: int
    high: int
    # The possible positions in the automaton of each row that was reached.
    masks: list[int] = field(default_factory=list)
    # kinds, reasons: what stops the reading; empty for rows that fulfil the pattern
    kinds: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def reached(self) -> int:
        """Number of rows that form a partial match."""
        return len(self.masks)

    def stop(self, kind: str, reason: str) -> None:
        """Add a reason that stops the reading."""
        self.kinds.append(kind)
        self.reasons.append(reason)


def explain_regex_rows(
    program: Program, source: Source, events: Events, find: Callable[[], MatchSet], rows: Any
) -> WhyNot:
    """Return why the rows are not a match of a regex; ``rows`` and errors are as for `named_positions`.

    ``find`` returns the matches of the program in the events. The kernel runs once over the rows as Python,
    in time O(rows squared). Each condition that may have failed runs as a query of its own.

    """
    names = tuple(dict.fromkeys(variable.name for variable in variables(program.query.pattern)))
    named = named_positions(source, events, rows, names)
    return _Explainer(program, source, events, find, dict(sorted(named.items()))).explain()


class _Explainer:
    """Explains some rows; ``named`` maps their positions in the stream to a variable or None."""

    def __init__(self, program, source, events: Events, find, named: dict[int, str | None]):
        self.program, self.source, self.events, self.find, self.named = program, source, events, find, named
        self.names = program.automaton.names
        self.positions = list(named)

    def row(self, position: int) -> str:
        """Return the row's label in words: ``row 17``."""
        return row_text(self.source.index_labels(self.events.rows(np.array([position])))[0])

    def rows(self, low: int, high: int) -> str:
        """Return a range of rows of the partition in words: ``rows 3 to 7``."""
        first, last = (self.row(self.stepping.position_of(k)) for k in (low, high))
        return first if low == high else f"rows {first.removeprefix('row ')} to {last.removeprefix('row ')}"

    def _verb(self, one: str, many: str) -> str:
        return one if len(self.positions) == 1 else many

    def explain(self) -> WhyNot:
        """Return the explanation."""
        if strays := self._strays():
            return strays
        partition = int(self.events.partition_of_event[self.positions[0]])
        self.stepping = Stepping(self.program, self.events, partition)
        indices = [self.stepping.index_of(position) for position in self.positions]
        reading = RowReading(indices[0], indices[-1])
        if len(indices) <= indices[-1] - indices[0]:
            return self._with_gap(reading, indices)
        self._read(reading)
        span = self.rows(reading.low, reading.high)
        if not reading.kinds:
            return self._explain_match(reading, span)
        head, more = f"no match: {span}", []
        if reading.reached > reading.high - reading.low:
            head += "; a partial match" if reading.kinds == ["missing"] else ""
        elif reading.reached:
            last, following = (self._row_at(reading.low + reading.reached + d) for d in (-1, 0))
            head += f"; {following} cannot follow {last}"
        else:
            head += f"; {self._row_at(reading.low)} cannot be the first row of a match"
        if len(indices) == 1:
            more = self._met(indices[0])
        return self._answer(head, reading, more)

    def _row_at(self, k: int) -> str:
        return self.row(self.stepping.position_of(k))

    def _answer(self, head: str, reading: RowReading, more: Sequence[str] = ()) -> WhyNot:
        return WhyNot(
            head, tuple(reading.reasons), tuple(reading.kinds), tuple(more), False, None, self._table(reading)
        )

    def _table(self, reading: RowReading, spelled: Sequence[str] | None = None) -> pd.DataFrame:
        n = len(self.positions)
        if spelled is None:
            spelled = [names_of_mask(self.names, mask) for mask in reading.masks]
        labels = self.source.index_labels(self.events.rows(np.array(self.positions, np.int64)))
        return reading_table(labels, [*spelled, *[None] * n][:n], reading.reached, reading.reasons)

    # --- rows that cannot be read together

    def _strays(self) -> WhyNot | None:
        """Return the explanation for rows of several partitions, or None for one partition."""
        codes = self.events.partition_of_event[self.positions]
        distinct_codes, counts = np.unique(codes, return_counts=True)
        if len(distinct_codes) < 2:
            return None
        most = distinct_codes[int(np.argmax(counts))]
        other = self._key(self.positions[int(np.argmax(codes == most))])
        reading = RowReading(0, len(self.positions) - 1)
        for position, code in zip(self.positions, codes, strict=True):
            if code != most:
                key = self._key(position)
                reading.stop("partition", f"{self.row(position)} belongs to {key}, the others to {other}")
        return self._answer("no match: the rows are of several partitions", reading)

    def _key(self, position: int) -> str:
        row, by = self.events.rows(np.array([position])), self.program.query.partition_by
        return ", ".join(f"{name} {cell(self.source.arrow(name, row).to_pylist()[0])}" for name in by)

    def _with_gap(self, reading: RowReading, own: list[int]) -> WhyNot:
        """Return the explanation for rows with unnamed rows of the partition between them."""
        between = sorted(set(range(own[0], own[-1])) - set(own))
        n_more = len(between) - 1
        others = f" and {n_more:,} other {'row' if n_more == 1 else 'rows'}" if n_more else ""
        reading.stop(
            "skipped",
            f"{self._row_at(between[0])}{others} {'are' if n_more else 'is'} not named, but a match of a "
            "regex has every row of its partition from its first to its last",
        )
        more = []
        if own[-1] - own[0] < MOST_ROWS:
            named = {self.stepping.position_of(k): None for k in range(own[0], own[-1] + 1)} | self.named
            whole = _Explainer(self.program, self.source, self.events, self.find, dict(sorted(named.items())))
            with_all = whole.explain()
            more = [f"with every row between: {with_all.headline}", *with_all.reasons]
        return self._answer(f"no match: {', '.join(map(self.row, self.positions))}", reading, more)

    # --- reading the rows

    def _read(self, reading: RowReading) -> None:
        """Read the rows as a match that begins with the first of them, independent of other matches."""
        low, automaton = reading.low, self.program.automaton
        front = max(0, low - rows_looked_back(self.program.query))
        part = self.stepping.part(front, reading.high + 1)
        partials = RegexPartials(self.program, part, low - front, reports=False)
        wanted = automaton.first
        for k in range(low, reading.high + 1):
            partials.read(k - front)
            starts, masks = partials.live()
            reached = int(masks[0]) if len(starts) and starts[0] == low - front else 0
            name = self.named[self.stepping.position_of(k)]
            meant = automaton.mask_of_name(name) if name is not None else -1
            mask = wanted & reached & meant
            if not mask:
                self._stop_at(reading, k, wanted, meant)
                return
            reading.masks.append(mask)
            if reached & automaton.accepting and k < reading.high:
                done = self.rows(low, k)
                reading.stop(
                    "earliest_end",
                    f"{done} {'is' if k == low else 'are'} the whole pattern already, and a match ends with "
                    "the first row that completes the pattern",
                )
                return
            wanted = automaton.follow_of_mask(mask)
        if not mask & automaton.accepting:
            needed = names_of_mask(self.names, wanted)
            reading.stop("missing", f"after {self._row_at(reading.high)} the pattern still needs {needed}")

    def _stop_at(self, reading: RowReading, k: int, wanted: int, meant: int) -> None:
        """Add the reasons why row ``k`` is at none of the wanted positions of the pattern."""
        row, needed = self._row_at(k), names_of_mask(self.names, wanted)
        if not wanted & meant:
            name = self.named[self.stepping.position_of(k)]
            where = "the first row" if k == reading.low else f"after {self._row_at(k - 1)} the next one"
            reading.stop("variable", f"{row} is given as {name!r}, and {where} must be {needed}")
            return
        possible = names_in(self.names, wanted & meant)
        failing = failing_conditions(self.program, self.source, self.stepping, possible, reading.low, k)
        for name, text in failing:
            reading.stop("condition", f"{row}: {name} fails: {text}")
        within = self.program.query.within
        if set(possible) <= {name for name, _ in failing}:
            return
        if within is not None:
            reading.stop(
                "window",
                f"{row} is outside the window of {duration_text(within)} from {self._row_at(reading.low)}",
            )
        elif not failing:
            reading.stop("condition", f"{row} is not {names_of_mask(self.names, wanted & meant)}")

    # --- rows that fulfil the pattern

    def _explain_match(self, reading: RowReading, span: str) -> WhyNot:
        """Return the explanation for rows that fulfil the pattern: their match, or its rival."""
        matches, stepping = self.find(), self.stepping
        first, last = (stepping.position_of(k) for k in (reading.low, reading.high))
        is_in_partition = matches.partition == self.events.partition_of_event[last]
        taker = int(np.flatnonzero(is_in_partition & (matches.last >= first))[0])
        if (int(matches.first[taker]), int(matches.last[taker])) != (first, last):
            taken = self.rows(
                stepping.index_of(int(matches.first[taker])), stepping.index_of(int(matches.last[taker]))
            )
            why = (
                "it ends with the same row and begins before"
                if matches.last[taker] == last
                else "it ends before, and the search continues after its last row"
            )
            reading.stop("after_match", f"the match of {taken} is reported instead: {why}")
            return self._answer(f"no match: {span} {self._verb('fulfils', 'fulfil')} all conditions", reading)
        spelled = self._spelled(matches, taker)
        for position, is_read in zip(self.positions, spelled, strict=True):
            name = self.named[position]
            if name is not None and name != is_read:
                text = f"{self.row(position)} is {is_read}, not {name}: each variable takes as many"
                reading.stop("variable", f"{text} rows as it can, from left to right")
        if reading.kinds:
            return self._answer(
                f"no match: {span} {self._verb('is', 'are')} match {taker:,}, with other variables", reading
            )
        named_rows = ", ".join(
            f"{name} = {self.row(position).removeprefix('row ')}"
            for position, name in zip(self.positions[:8], spelled, strict=False)
        )
        more = ", …" if len(spelled) > 8 else ""
        table = self._table(reading, spelled)
        head = f"they match: {span} {self._verb('is', 'are')} match {taker:,} ({named_rows}{more})"
        return WhyNot(head, matches=True, number=taker, table=table)

    def _spelled(self, found: MatchSet, number: int) -> list[str]:
        """Return the variable of every row of a match."""
        positions = label_rows(self.program, found.take(np.array([number])))
        return ["any" if self.names[p] == ANY else self.names[p] for p in positions.tolist()]

    # --- one row alone

    def _met(self, k: int) -> list[str]:
        """Return lines on the match of a single row, or on the partial matches before it."""
        matches, position = self.find(), self.stepping.position_of(k)
        is_in_partition = matches.partition == self.events.partition_of_event[position]
        there = np.flatnonzero(is_in_partition & (matches.first <= position) & (matches.last >= position))
        if len(there):
            number = int(there[0])
            low, high = (self.stepping.index_of(int(ends[number])) for ends in (matches.first, matches.last))
            return [f"{self._row_at(k)} is in match {number:,}: {self.rows(low, high)}"]
        partition = int(self.events.partition_of_event[position])
        ends = matches.last[matches.partition == partition]
        fates, _ = fates_at(Stepping(self.program, self.events, partition, ends=ends), k)
        lines = [
            f"the partial match from {self._row_at(fate.start)} "
            f"{fate_text(self.names, fate, k, self._row_at, self._row_at)}"
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
        """Whether it becomes a match."""
        return self.rival == self.start


def fates_at(stepping: Stepping, k: int) -> tuple[list[Fate], bool]:
    """Return the fates of the partial matches that are live before event ``k``."""
    walk, follow = stepping.walk_to(k), stepping.program.automaton.follow_of_mask
    for passed in range(walk.begin, k):
        walk.after(passed)
    before = _partials(walk)
    waiting, taken, fates = list(before), dict.fromkeys(before, 0), []
    for j in range(k, walk.stop):
        completed = walk.after(j).completed
        after = _partials(walk)
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


def _partials(walk: RegexWalk) -> dict[int, int]:
    """Return the position masks of the live partial matches by their starts."""
    return dict(zip(*(array.tolist() for array in walk.partials()), strict=True))


def fate_text(
    names: tuple[str, ...],
    fate: Fate,
    k: int,
    name: Callable[[int], str],
    name_with_time: Callable[[int], str],
) -> str:
    """Return the fate of a partial match in words: ``needs up or top here, and ends``.

    ``names`` are the predicates of the automaton's positions. Event ``k`` is called "here"; ``name`` and
    ``name_with_time`` return the names of other events.

    """
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
        low = max(0, k - rows_looked_back(query))
        partials = RegexPartials(compile_regex(query, program.schema), stepping.part(low, k + 1), k - low)
        _, last = partials.read(k - low)
        predicates.append((name, str(defined.get(name, f"column {name}")), bool(len(last))))
    return predicates
