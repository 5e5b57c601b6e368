"""The meaning of a sequence query, executed literally on lists of dicts: every partial match, one by one.

It takes queries that have passed the checks, knows the trees of ``cepkit.language`` and nothing else of
cepkit, so that a bug of the package cannot hide from its own test. Windows are whole ticks here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle import naive
from tests.oracle.naive_lines import (
    Absent,
    Binding,
    Condition,
    Line,
    Row,
    Rows,
    Uses,
    conditions,
    lines,
    same_rounds,
    uses_of_variable,
)

Run = tuple[tuple[int, ...], ...]  # the rows of each component that has begun


# --- matches ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SequenceMatch:
    """What one match binds: the rows of each component, in order of time, and the options it took."""

    events: tuple[tuple[str, tuple[int, ...]], ...]
    options: tuple[int, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of the match, in order."""
        return tuple(row for _, rows in self.events for row in rows)

    def rows_of(self, variable: str) -> tuple[int, ...]:
        """Return the rows of all events of ``variable``, in order."""
        return tuple(row for name, rows in self.events if name == variable for row in rows)


def sequence_matches(query: SequenceQuery, rows: Rows) -> list[SequenceMatch]:
    """Return the matches of ``query`` in canonical order; ``rows`` are in stream order.

    The canonical order is by the last row, then backwards row by row, then by the ends of the groups, then
    by the options, then by the variables as the pattern names them.
    """
    found = {match for line in lines(query.pattern) for match in Search(query, line, rows).matches()}
    variables = query.variables
    ordered = sorted(found, key=lambda match: canonical(match, variables))
    if query.after_match[0] == "none":
        return ordered
    matches_of_key: dict[tuple, list[SequenceMatch]] = {}
    for match in ordered:
        matches_of_key.setdefault(key_of(query, rows[match.rows[0]]), []).append(match)
    kept = {match for matches in matches_of_key.values() for match in reported(matches, *query.after_match)}
    return [match for match in ordered if match in kept]


def canonical(match: SequenceMatch, variables: Sequence[str]) -> tuple:
    """Return what matches are ordered by; ``variables`` as the pattern names them."""
    ends = tuple(itertools.accumulate(len(rows) for _, rows in match.events))
    places = tuple(variables.index(variable) for variable, _ in match.events)
    return match.rows[::-1], ends, match.options, places


def reported(matches: Sequence[SequenceMatch], policy: str, variable: str | None) -> list[SequenceMatch]:
    """Return what ``after_match`` leaves of the matches of one partition, given in canonical order."""
    began = -1 if policy == "once_newest" else 1
    waiting = sorted(matches, key=lambda match: (match.rows[-1], began * match.rows[0]))
    kept = []
    while waiting:
        match, *waiting = waiting
        kept.append(match)
        first, last, own = match.rows[0], match.rows[-1], match.rows_of(variable)
        match policy:
            case "past_last":
                waiting = [other for other in waiting if other.rows[0] > last]
            case "once" | "once_newest":
                waiting = [other for other in waiting if not {*other.rows} & {*match.rows}]
            case "to_next":
                waiting = [other for other in waiting if other.rows[0] != first]
            case "to_first" | "to_last" if own:
                event = own[0] if policy == "to_first" else own[-1]
                waiting = [other for other in waiting if other.rows[0] >= event]
    return kept


def key_of(query: SequenceQuery, row: Row) -> tuple:
    """Return the partition of ``row``; null is a key like any other."""
    return tuple(naive.without_nan(row[name]) for name in query.partition_by)


# --- partial matches -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """The matches of one line in a stream."""

    query: SequenceQuery
    line: Line
    rows: Rows

    @cached_property
    def key_of_row(self) -> list[tuple]:
        """The partition of each row."""
        return [key_of(self.query, row) for row in self.rows]

    @cached_property
    def rank_of_row(self) -> list[int]:
        """The position of each row in its partition."""
        return [self.key_of_row[:i].count(key) for i, key in enumerate(self.key_of_row)]

    @cached_property
    def params(self) -> dict[str, Any]:
        """The values of the named constants."""
        return dict(self.query.params)

    @cached_property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The registered functions."""
        return {name: function.call for name, function in self.query.functions}

    @cached_property
    def conditions(self) -> list[Condition]:
        """What the conjuncts that name no absent event ask of the line."""
        return [
            condition
            for conjunct in self.query.where
            for condition in conditions(self.query, self.line, conjunct)
        ]

    @cached_property
    def absences(self) -> list[tuple[Absent, list[Condition]]]:
        """The absent events of the line, each with what makes an event one of them."""
        return [
            (absent, [
                condition
                for conjunct in self.query.where
                if absent.event.variable in uses_of_variable(conjunct)
                for condition in conditions(self.query, self.line, conjunct, absent)
            ])
            for absent in self.line.absences
        ]  # fmt: skip

    def matches(self) -> Iterator[SequenceMatch]:
        """Yield the matches, in no particular order.

        If the last loop is greedy, a match that another one continues by more events of this loop is none.
        """
        whole = self.complete()
        is_greedy = bool(self.line.slots) and self.line.slots[-1].preference == "greedy"
        for run in whole:
            if not is_greedy or not any(
                other[:-1] == run[:-1] and other[-1][: len(run[-1])] == run[-1] and other != run
                for other in whole
            ):
                events = zip((slot.variable for slot in self.line.slots), run, strict=True)
                yield SequenceMatch(tuple(events), self.line.options)

    def complete(self) -> list[Run]:
        """Return the partial matches that are matches, or would be without a greedy end."""
        return [run for run in self.runs() if self.is_complete(run)]

    def runs(self) -> Iterator[Run]:
        """Yield every partial match and match, in no particular order."""
        slots = self.line.slots
        starts = range(len(self.rows)) if slots else ()
        waiting: list[Run] = [((row,),) for row in starts if self.begins(row) and self.in_window(row, row)]
        while waiting:
            run = waiting.pop()
            yield run
            if slots[len(run) - 1].high != 1:
                waiting += self.successors(run, "take", slots[len(run) - 1].inner)
            if len(run) < len(slots):
                waiting += self.successors(run, "begin", self.line.steps[len(run)])

    def begins(self, row: int) -> bool:
        """Return whether a match may begin with ``row``."""
        return self.accepts(0, row) and self.in_window(row, row) and self.holds(((row,),), each=True)

    def is_complete(self, run: Run) -> bool:
        """Return whether the partial match is a match."""
        return (
            len(run) == len(self.line.slots)
            and len(run[-1]) >= self.line.slots[-1].low
            and self.holds(run, each=False)
            and not any(self.occurs(run, absent, tests) for absent, tests in self.absences)
            and self.is_decided(run) != self.query.undecided
        )

    def is_decided(self, run: Run) -> bool:
        """Return whether the waits for events that are absent after the match end in complete data.

        The data are complete until ``complete_until``: by default until the last time of all rows.
        """
        query = self.query
        waits = any(absent.before is None and not absent.spanning for absent, _ in self.absences)
        if not waits or query.complete_until == "end":
            return True
        clock = query.order_by[0]
        until = query.complete_until
        if until is None:
            until = max(row[clock] for row in self.rows)
        return self.rows[run[0][0]][clock] + query.within <= until

    def successors(self, run: Run, kind: str, how: str | None) -> Iterator[Run]:
        """Yield the partial matches that ``run`` grows into by one event along one kind of edge."""
        how = how or self.query.strategy
        later = range(run[-1][-1] + 1, len(self.rows))
        if how == "partition":
            later = [row for row in later if self.key_of_row[row] == self.key_of_row[run[0][0]]]
        if how in ("strict", "partition"):
            later = later[:1]
        dropped = {"greedy": "begin", "reluctant": "take"}.get(self.line.slots[len(run) - 1].preference)
        for row in later:
            grown = self.edges(run, row)
            if kind in grown and not (len(grown) == 2 and kind == dropped):
                yield grown[kind]
            # An edge that a preference drops stays one that may not be skipped: preferences only prune.
            if how == "next" and (kind in grown or (self.query.scope == "run" and grown)):
                return

    def is_live(self, run: Run, read: int) -> bool:
        """Return whether a row after row ``read`` may be the next one of ``run``, whatever is in it.

        The windows must let the next row of its partition in. The pattern must have a place for it. The rows
        up to ``read`` must not end a loop that goes on, nor be ones that may not be skipped.
        """
        last, key = run[-1][-1], self.key_of_row[run[0][0]]
        following = next(
            (row for row in range(read + 1, len(self.rows)) if self.key_of_row[row] == key), None
        )
        if following is None or not self.fits_windows(run, following):
            return False
        between = [row for row in range(last + 1, read + 1)]
        in_partition = [row for row in between if self.key_of_row[row] == key]

        def may_skip(kind: str, how: str | None) -> bool:
            match how or self.query.strategy:
                case "any":
                    return True
                case "strict":
                    return not between
                case "partition":
                    return not in_partition
            grown = [self.edges(run, row) for row in in_partition]
            return not any(kind in made or (made and self.query.scope == "run") for made in grown)

        slot = self.line.slots[len(run) - 1]
        if slot.high is None or len(run[-1]) < slot.high:
            is_closed = any(self.is_closed(run, row) for row in in_partition)
            if not is_closed and may_skip("take", slot.inner):
                return True
        return len(run) < len(self.line.slots) and may_skip("begin", self.line.steps[len(run)])

    def is_broken(self, run: Run) -> bool:
        """Return whether an absent event occurs for good: what it looks at can change no more."""
        slots = self.line.slots
        for absent, tests in self.absences:
            if absent.spanning or None in (absent.after, absent.before):
                continue
            before = slots.index(absent.before)
            places = {place for test in tests for place in test.place_of.values()}
            is_decided = all(place < before or not slots[place].is_group for place in places)
            is_decided = is_decided and before < len(run) and max(places, default=0) <= before
            if is_decided and self.occurs(run, absent, tests):
                return True
        return False

    def edges(self, run: Run, row: int) -> dict[str, Run]:
        """Return the partial matches that ``row`` makes of ``run``, wherever it stands behind it."""
        grown: dict[str, Run] = {}
        if not self.may_follow(run, row):
            return grown
        last = len(run) - 1
        slot = self.line.slots[last]
        if (slot.high is None or len(run[-1]) < slot.high) and self.accepts(last, row):
            longer = (*run[:-1], (*run[-1], row))
            if not self.is_closed(run, row) and self.holds(longer, each=True):
                grown["take"] = longer
        if len(run) < len(self.line.slots) and len(run[-1]) >= slot.low and self.accepts(last + 1, row):
            longer = (*run, (row,))
            if self.holds(run, each=False) and self.holds(longer, each=True):
                grown["begin"] = longer
        return grown

    def accepts(self, place: int, row: int) -> bool:
        """Return whether the row has the type of component ``place``."""
        return self.has_type(self.line.slots[place].event_type, row)

    def has_type(self, event_type: Any, row: int) -> bool:
        """Return whether the row has that type; None: any."""
        return event_type is None or self.rows[row][self.query.event_type] == event_type

    def may_follow(self, run: Run, row: int) -> bool:
        """Return whether key, clock and windows let ``row`` be the next event of ``run``."""
        if self.query.strict_time and self.ticks(run[-1][-1], row) <= 0:
            return False
        return self.fits_windows(run, row)

    def fits_windows(self, run: Run, row: int) -> bool:
        """Return whether key and windows let ``row`` be the next event of ``run``."""
        query, first, last = self.query, run[0][0], run[-1][-1]
        if self.key_of_row[row] != self.key_of_row[first]:
            return False
        if query.within_events is not None:
            n_events = self.rank_of_row[row] - self.rank_of_row[first] + 1
            if n_events > query.within_events:
                return False
        if query.gap_within is not None and not self.lasts(last, row, query.gap_within):
            return False
        return self.in_window(first, row)

    def ticks(self, first: int, last: int) -> int:
        """Return the time from one row to another."""
        clock = self.query.order_by[0]
        return self.rows[last][clock] - self.rows[first][clock]

    def lasts(self, first: int, last: int, limit: int) -> bool:
        """Return whether it is at most ``limit`` ticks, less when windows are open, between two rows."""
        ticks = self.ticks(first, last)
        return ticks <= limit if self.query.within_closed else ticks < limit

    def in_window(self, first: int, last: int) -> bool:
        """Return whether two rows fit into one window."""
        return self.query.within is None or self.lasts(first, last, self.query.within)

    # Conditions of partial matches.

    def holds(self, run: Run, *, each: bool) -> bool:
        """Return whether all holds that is decided by the newest event of ``run``, or by its last group."""
        newest = len(run) - 1
        return all(
            self.is_true(condition, run)
            for condition in self.conditions
            if condition.decided_at == newest and condition.each == each
        )

    def is_true(self, condition: Condition, run: Run, absent: Mapping[str, int] | None = None) -> bool:
        """Return whether the condition is true for each event that it looks at.

        Of the component that decides it, while that takes events, only the newest; ``absent``: the row of an
        absent event, by its variable.
        """
        rows_of = {name: run[place] for name, place in condition.place_of.items()}
        rows_of |= {name: (row,) for name, row in (absent or {}).items()}
        deciding = [
            name
            for name, place in condition.place_of.items()
            if condition.each and not absent and place == condition.decided_at
        ]
        return self.is_true_of_each(condition.expression, condition.uses, rows_of, deciding)

    def is_true_of_each(
        self,
        expression: ex.Expression,
        uses: Mapping[str, Uses],
        rows_of: Mapping[str, tuple[int, ...]],
        deciding: Sequence[str] = (),
        at: int | None = None,
    ) -> bool:
        """Return whether ``expression`` is true with each event of the variables that it looks at.

        Of the variables ``deciding`` with the newest only. A bare column is that of row ``at``.
        """
        firsts = {name: 1 if uses[name].before else 0 for name in rows_of if uses[name].each}
        firsts |= {name: max(firsts[name], len(rows_of[name]) - 1) for name in deciding if name in firsts}
        currents = [range(first, len(rows_of[name])) for name, first in firsts.items()]
        place = Binding(
            [] if at is None else [self.rows[at]],
            0,
            range(0),
            self.params,
            self.functions,
            {name: [self.rows[row] for row in rows] for name, rows in rows_of.items()},
        )
        return all(
            replace(place, current_of=dict(zip(firsts, chosen, strict=True))).value(expression) is True
            for chosen in itertools.product(*currents)
        )

    def is_closed(self, run: Run, row: int) -> bool:
        """Return whether the loop that ``run`` is in has ended at ``row`` or before, by its ``until``."""
        slot = self.line.slots[len(run) - 1]
        if slot.until is None:
            return False
        uses = uses_of_variable(slot.until)
        rows_of: dict[str, tuple[int, ...]] = {}
        for earlier, rows in zip(self.line.slots, run[:-1], strict=False):
            if earlier.variable in uses and same_rounds([earlier.rounds, slot.rounds]):
                if earlier.variable in rows_of:
                    raise ValueError(f"until {slot.until} names several rounds of {earlier.variable!r}")
                rows_of[earlier.variable] = rows
        return any(
            self.key_of_row[between] == self.key_of_row[row]
            and self.is_true_of_each(slot.until, uses, rows_of, at=between)
            for between in range(run[-1][0] + 1, row + 1)
        )

    def occurs(self, run: Run, absent: Absent, tests: Sequence[Condition]) -> bool:
        """Return whether an event that must be absent occurs where it stands."""
        after = None if absent.after is None else run[self.line.slots.index(absent.after)]
        before = None if absent.before is None else run[self.line.slots.index(absent.before)]
        if absent.spanning:
            behind, end = after[0], before[-1]
        else:
            behind = -1 if after is None else after[-1]
            end = len(self.rows) if before is None else before[0]
        is_endless = after is None or (before is None and self.query.complete_until != "end")
        if is_endless and self.query.within is None:
            raise ValueError(
                f"'{absent.event.variable}' is absent before or behind all others: needs a window"
            )
        return any(
            self.key_of_row[row] == self.key_of_row[run[0][0]]
            and (after is not None or self.in_window(row, run[-1][-1]))
            and (before is not None or self.in_window(run[0][0], row))
            and self.has_type(absent.event.event_type, row)
            and all(self.is_true(test, run, {absent.event.variable: row}) for test in tests)
            for row in range(behind + 1, end)
        )
