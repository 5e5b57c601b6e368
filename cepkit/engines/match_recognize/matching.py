"""Find the preferred matches of a row pattern in one partition, in Python."""

# From each row, a depth-first search tries the transitions in the order of preference. It never visits a
# state twice with the same history: what failed once fails again. Where conditions depend only on the row and
# on rows a fixed distance away, the history is empty and does not depend on the first row. Time is then
# linear in the rows. Otherwise it is bounded by the number of different histories, and a work budget stops
# the run.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from cepkit.compile.match_recognize.compiled import Compiled, RowTotal
from cepkit.compile.match_recognize.registers import is_nearby
from cepkit.compile.match_recognize.values import AGGREGATES
from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.compile.shared.row_automaton import RowAutomaton, fewest_rows
from cepkit.errors import CepError, PredicateError, UnsupportedQueryError
from cepkit.language.match_recognize.query import RowAggregate
from cepkit.limits import check_memory
from cepkit.values import dataclass

# What the conditions of a query need to know of a partial match before the current row.

LABELS = ("labels",)  # a part of the history: the variables of all rows


@dataclass(frozen=True)
class Needs:
    """The history that the conditions of a query need."""

    # ``parts`` has (``first`` or ``last``, variable, number of rows), (``total``, aggregate) and
    # ``("labels",)``. A condition depends on the row, on rows a fixed distance away, and on the parts. With
    # ``needs_start`` it depends on the first row as well. ``variables`` are those whose conditions need more
    # than rows a fixed distance away. ``totals`` has the aggregates.

    parts: tuple[tuple, ...]
    needs_start: bool
    variables: tuple[str, ...]
    totals: Mapping[RowAggregate, RowTotal]


def history_needs(conditions: Mapping[str, Compiled], members: Mapping[str, frozenset[str]]) -> Needs:
    """Return what the conditions need; ``members`` has the variables that a name stands for."""
    sizes: dict[tuple[str, str], int] = {}
    totals: dict[RowAggregate, RowTotal] = {}
    labels = needs_start = False
    for name, condition in conditions.items():
        for node, from_first, offset in _looks(condition):
            if node.op == "number":
                needs_start = True
            elif node.op == "total":
                totals[node.data.tree] = node.data
                needs_start |= any(part.op == "number" for part in node.walk())
            else:
                labels |= node.op == "label"
                variable = node.data if node.op == "label" else node.data[1]
                is_member = variable is None or name in members[variable]
                if is_member and not from_first and offset == 0:
                    continue  # the current row
                if variable is None:
                    needs_start = True
                    continue
                rows = offset if is_member and not from_first else offset + 1
                key = ("first" if from_first else "last", variable)
                sizes[key] = max(sizes.get(key, 0), rows)
    parts: list[tuple] = [(end, variable, rows) for (end, variable), rows in sizes.items()]
    parts += [("total", tree) for tree in totals]
    variables = tuple(name for name, term in conditions.items() if not is_nearby(term, name, members))
    return Needs((*parts, *([LABELS] if labels else ())), needs_start or labels, variables, totals)


def _looks(term: Compiled, from_first: bool = False, offset: int = 0) -> Iterator[tuple[Compiled, bool, int]]:
    """Yield columns, aggregates, labels and match numbers of a condition, each with the row it reads."""
    if term.op == "navigation":
        read, _ = term.data
        yield from _looks(term.parts[0], read.from_first, read.offset)
    elif term.op in ("column", "total", "label", "number"):
        yield term, from_first, offset
    else:
        for part in term.parts:
            yield from _looks(part, from_first, offset)


class MatchHistory:
    """What conditions must know of a partial match: a tuple with an entry for each part, from row to row."""

    def __init__(self, needs: Needs, members: Mapping[str, frozenset[str]]):
        self.parts, self.members, self.totals = needs.parts, members, needs.totals
        self.start: tuple = tuple(
            (AGGREGATES[part[1].function].start, frozenset()) if part[0] == "total" else ()
            for part in needs.parts
        )
        self.place_of = {part[:2]: i for i, part in enumerate(needs.parts)}

    def step(self, state: tuple, trial: Trial) -> tuple:
        """Return the history after the row of a trial."""
        return tuple(map(lambda part, entry: self._grown(part, entry, trial), self.parts, state))

    def _grown(self, part: tuple, entry: tuple, trial: Trial) -> tuple:
        """Return one entry of a history after the row of a trial."""
        kind = part[0]
        if kind == "labels":
            return (*entry, trial.variable)
        if kind == "total":
            return self.grown_total(self.totals[part[1]], entry, trial)
        _, variable, n_rows = part
        if trial.variable not in self.members[variable] or (kind == "first" and len(entry) == n_rows):
            return entry
        return (*entry, trial.row)[-n_rows:]

    def grown_total(self, total: RowTotal, entry: tuple, trial: Trial) -> tuple:
        """Return state and distinct values of an aggregate after the row of a trial."""
        if total.variable is not None and trial.variable not in self.members[total.variable]:
            return entry
        value, seen = entry
        if total.tree.distinct:
            more = set(seen)
            value = next_total(total, trial, trial.row, value, more)
            return value, frozenset(more)
        return next_total(total, trial, trial.row, value, set()), seen


class Trial:
    """A partial match and the row that it may take next, as conditions see it."""

    def __init__(self, history: MatchHistory, columns: Mapping[str, Sequence[Any]], n_rows: int):
        self.history, self.columns, self.n_rows = history, columns, n_rows
        self.start = self.row = self.number = self.low = 0
        self.variable = ""
        self.state: tuple = ()

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        """Return a row of a variable from its first or last one, the current row included; -1 if none."""
        if variable is None:
            row = self.start + offset if from_first else self.row - offset
            return row if self.start <= row <= self.row else -1
        is_member = self.variable in self.history.members[variable]
        if is_member and not from_first:
            if offset == 0:
                return self.row
            offset -= 1
        rows = self.state[self.history.place_of["first" if from_first else "last", variable]]
        if offset < len(rows):
            return rows[offset if from_first else -1 - offset]
        return self.row if is_member and from_first and offset == len(rows) else -1

    def label(self, row: int) -> str | None:
        """Return the variable that a row of the partial match is of; None for other rows."""
        if row == self.row:
            return self.variable
        labels = self.state[self.history.place_of[LABELS]]
        return labels[row - self.start] if self.start <= row < self.row else None

    def total(self, aggregate: RowTotal) -> Any:
        """Return an aggregate over the rows of the partial match, with the current row."""
        entry = self.state[self.history.place_of["total", aggregate.tree]]
        value, _ = self.history.grown_total(aggregate, entry, self)
        return AGGREGATES[aggregate.function].result(value)


def next_total(aggregate: RowTotal, place: Any, row: int, state: Any, seen: set) -> Any:
    """Return the state of an aggregate after one more row; ``seen`` has the values of DISTINCT."""
    if not aggregate.arguments:
        return state + 1  # COUNT(*)
    values = [argument(place, row) for argument in aggregate.arguments]
    item = values[0] if len(values) == 1 else tuple(values)
    if item is None and aggregate.function != "array_agg":
        return state
    try:
        if aggregate.tree.distinct:
            if item in seen:
                return state
            seen.add(item)
        return AGGREGATES[aggregate.function].add(state, item)
    except TypeError:  # objects, whose type is not known before
        name, kind = aggregate.function.upper(), type(item).__name__
        raise PredicateError(f"{name}() is not defined for values of type {kind}") from None


# Partial matches that one partition may try. Those with all labels as their history are hardly ever equal.
BUDGET, BUDGET_WITH_LABELS = 10_000_000, 1_000_000


@dataclass(frozen=True, slots=True)
class RowMatch:
    """A match in a partition, or a partial match that ran out of time."""

    # ``states`` has the state of the automaton that took each row, from row ``start`` on. Matches have
    # numbers from 1, and partial matches have 0.

    number: int
    start: int
    states: tuple[int, ...]

    def rows(self) -> range:
        """Return the rows of the match."""
        return range(self.start, self.start + len(self.states))

    @property
    def n_bytes(self) -> int:
        """About how much memory the match takes."""
        return 128 + 8 * len(self.states)


@dataclass(frozen=True)
class RowProgram:
    """A row pattern that is ready to run."""

    # ``conditions`` has the condition of each variable with a definition. ``members`` has the variables that
    # each name stands for. ``after_match`` and ``after_match_variable`` are as in `RowPatternQuery`.
    # ``within`` has the column of the clock and the number of ticks. ``timed_out`` says whether partial
    # matches that ran out of time have rows. Conditions look at most ``rows_before`` rows back and
    # ``rows_after`` rows ahead of the rows of a match. ``columns`` are those that conditions and measures
    # read, in this order, and then the clock. ``reason`` says why no kernel tests the conditions.

    automaton: RowAutomaton
    conditions: Mapping[str, Compiled]
    members: Mapping[str, frozenset[str]]
    needs: Needs
    after_match: str = "past_last_row"
    after_match_variable: str | None = None
    within: tuple[str, int] | None = None
    timed_out: bool = False
    rows_before: int = 0
    rows_after: int = 0
    columns: tuple[str, ...] = ()
    reason: str | None = None

    @cached_property
    def fewest_rows(self) -> int:
        """The fewest rows that a match has, whatever the conditions say."""
        return fewest_rows(self.automaton)


def find_row_matches(
    program: RowProgram, columns: Mapping[str, Sequence[Any]], n_rows: int, *, budget: int | None = None
) -> list[RowMatch]:
    """Return the matches of a partition, in order."""
    stop = n_rows - max(program.fewest_rows - 1, 0)  # no match begins here or later
    if stop <= 0:
        return []
    search = RowSearch(program, columns, n_rows, budget)
    matches: list[RowMatch] = []
    start = n_bytes = 0
    while start < stop:
        states = search.preferred(start, len(matches) + 1)
        if states is None:
            start += 1
        else:
            matches.append(RowMatch(len(matches) + 1, start, states))
            n_bytes += matches[-1].n_bytes
            check_memory(n_bytes, "the matches of a partition", is_held=True)
            start = next_start(program, matches[-1])
    return matches


def next_start(program: RowProgram, match: RowMatch) -> int:
    """Return the row at which the search continues after a match."""
    if not match.states or program.after_match == "to_next_row":
        return match.start + 1
    if program.after_match == "past_last_row":
        return match.start + len(match.states)
    name = program.after_match_variable or ""
    labels = [program.automaton.variable_of_state[state] for state in match.states]
    rows = [row for row, label in zip(match.rows(), labels, strict=True) if label in program.members[name]]
    if not rows:
        raise target_error(name, match.number, None)
    target = rows[0] if program.after_match == "to_first" else rows[-1]
    if target == match.start:
        raise target_error(name, match.number, target)
    return target


def target_error(name: str, number: int, target: int | None) -> CepError:
    """Return the error of a match after which the search cannot continue at a row of a variable."""
    # ``target`` is the row in its partition, or None if the variable has none.
    if target is None:
        return CepError(f"AFTER MATCH SKIP TO {name}: match {number} has no row of {name}")
    message = f"row {target} is the first row of match {number}, which would be found again"
    return CepError(f"AFTER MATCH SKIP TO {name}: {message}")


def work_error(program: RowProgram, start: int) -> CepError:
    """Return the error of a partition that takes too much work, the last of it from row ``start``."""
    names = ", ".join(program.needs.variables)
    reason = f" The conditions of {names} depend on the rows of the match so far." if names else ""
    return UnsupportedQueryError(
        f"MATCH_RECOGNIZE: too many partial matches, the last of them from row {start} of a "
        f"partition.{reason} Compare with the row before, by PREV, or partition the rows"
    )


class RowSearch:
    """The search in a partition. It remembers which states cannot lead to a match from which rows."""

    def __init__(
        self, program: RowProgram, columns: Mapping[str, Sequence[Any]], n_rows: int,
        budget: int | None = None, *, first: int = 0,
    ):  # fmt: skip
        if budget is None:
            budget = BUDGET_WITH_LABELS if LABELS in program.needs.parts else BUDGET
        self.program, self.n_rows, self.budget = program, n_rows, max(budget, 50 * n_rows)
        self.first = first  # how many rows of the partition come before those that are given
        self.waiting: tuple[int, ...] | None = None
        self.hit_end, self.ran_out, self.deepest = False, False, -1
        self.history = MatchHistory(program.needs, program.members)
        self.trial = Trial(self.history, columns, n_rows)
        calls = {name: condition.call for name, condition in program.conditions.items()}
        self.conditions = [calls.get(name) for name in program.automaton.variable_of_state]
        # What failed from a row on fails for every first row, if no condition knows the first row.
        self.is_shared = not program.needs.needs_start and program.within is None
        self.is_local = self.is_shared and not program.needs.parts
        self.n_states = len(self.conditions)
        self.clock = None if program.within is None else columns[program.within[0]]
        self.failed = bytearray(n_rows * self.n_states if self.is_local else 0)
        self.seen: set[tuple[int, tuple]] = set()

    def preferred(self, start: int, number: int) -> tuple[int, ...] | None:
        """Return the states of the preferred match from a row, or None."""
        follow, n_rows, n_states = self.program.automaton.follow, self.n_rows, self.n_states
        self.trial.start, self.trial.number = start, number
        self.waiting, self.hit_end, self.ran_out = None, False, False
        seen = self.seen if self.is_shared else set()
        choices = [iter(follow[n_states][self._side(start)])]
        histories, taken = [self.history.start], []
        while choices:
            state = next(choices[-1], None)
            if state is None:
                choices.pop()
                histories.pop()
                if taken:
                    taken.pop()
                continue
            if state == MATCH:
                for row, passed in enumerate(taken, start):  # these states led to a match
                    if self.is_local:
                        self.failed[row * n_states + passed] = 0
                    else:
                        seen.discard((row * n_states + passed, histories[row - start]))
                return tuple(taken)
            row = start + len(taken)
            if row >= n_rows:
                self.hit_end = True
                self._wait(taken)
                continue
            if self.clock is not None and not self._in_time(start, row):
                self.ran_out = True
                self._wait(taken)
                continue
            self.deepest = max(self.deepest, row)
            place, history = row * n_states + state, histories[-1]
            if self.is_local:
                if self.failed[place]:
                    continue
                self.failed[place] = 1
            else:
                if (place, history) in seen:
                    continue
                seen.add((place, history))
            if not self.is_local:
                self._pay(start)
            self._look_at(state, row, history)
            condition = self.conditions[state]
            if condition is not None and condition(self.trial, -1) is not True:
                continue
            choices.append(iter(follow[state][self._side(row + 1)]))
            histories.append(self.history.step(history, self.trial) if history else history)
            taken.append(state)
        return None

    def _side(self, row: int) -> int:
        """Return 1 at the first row of the partition, plus 2 after its last row."""
        return (row + self.first == 0) + 2 * (row == self.n_rows)

    def _look_at(self, state: int, row: int, history: tuple) -> None:
        """Let conditions see a row as one that a state takes."""
        self.trial.row, self.trial.state = row, history
        self.trial.variable = self.program.automaton.variable_of_state[state]

    def see_frame(self, low: int, end: int) -> None:
        """Let later searches see the rows from ``low``, which only increases, to ``end``."""
        self.seen.clear()
        if self.is_local:  # what fails near the begin of one frame can hold in another
            stop = min(low + self.program.rows_before, end) if end == self.n_rows else end
            n_places = max(stop - low, 0) * self.n_states
            self.failed[low * self.n_states : low * self.n_states + n_places] = bytes(n_places)
        self.trial.low, self.trial.n_rows, self.n_rows = low, end, end

    def _wait(self, taken: list[int]) -> None:
        """Keep the first partial match that waits for rows that are not there."""
        if self.waiting is None:
            self.waiting = tuple(taken)

    def _in_time(self, start: int, row: int) -> bool:
        """Return whether a row is within the time of a match that begins at ``start``."""
        assert self.clock is not None and self.program.within is not None
        first, last = self.clock[start], self.clock[row]
        return first is not None and last is not None and last - first < self.program.within[1]

    def _pay(self, start: int) -> None:
        """Count one more partial match. Raise if they are too many."""
        self.budget -= 1
        if self.budget < 0:
            raise work_error(self.program, start)


# Find the partial matches that ran out of time, for ONE ROW PER MATCH WITH TIMED OUT MATCHES.


def latest_time(clock: Iterable[int | None]) -> int | None:
    """Return the latest time, without nulls; None if there is none."""
    return max((ticks for ticks in clock if ticks is not None), default=None)


def with_timed_out(
    program: RowProgram, columns: Mapping[str, Sequence[Any]], n_rows: int, matches: Sequence[RowMatch],
    now: int | float | None, *, undecided: bool = False,
) -> list[RowMatch]:  # fmt: skip
    """Return the matches of a partition and the partial matches that ran out of time, by their first rows."""
    # ``undecided``: only the partial matches that did not run out of time.
    # A row that begins no match, and that no match skips, begins at most one partial match. It satisfies a
    # beginning of the pattern with all rows that are in time, and would need another one. If several do, the
    # first in the order of preference counts. It ran out of time if ``now`` is not in time any more.
    assert program.within is not None
    match_at = {match.start: match for match in matches}
    search = RowSearch(program, columns, n_rows)
    reported: list[RowMatch] = []
    start = n_found = 0
    while start < n_rows:
        match = match_at.get(start)
        if match is None:
            search.preferred(start, n_found + 1)
            if search.waiting and is_over(program, columns, start, now) != undecided:
                reported.append(RowMatch(0, start, search.waiting))
            start += 1
        else:
            reported += [] if undecided else [match]
            n_found += 1
            start = next_start(program, match)
    return reported


def is_over(
    program: RowProgram, columns: Mapping[str, Sequence[Any]], start: int, now: int | float | None
) -> bool:
    """Return whether a match that begins at a row has no time left."""
    assert program.within is not None
    clock, bound = program.within
    begin = columns[clock][start]
    return begin is not None and now is not None and now - begin >= bound


# Find a match for each row of a partition, in the frame of the row: the clause in a WINDOW.


def find_window_matches(
    program: RowProgram, columns: Mapping[str, Sequence[Any]], ends: Sequence[int], *, seek: bool = False
) -> list[RowMatch | None]:
    """Return the match of each row of a partition; None for no match, an empty one, or a skipped row."""
    search = RowSearch(program, columns, len(ends))
    matches: list[RowMatch | None] = []
    resume = n_bytes = 0
    for current, end in enumerate(ends):
        match = None
        if current >= resume:
            search.see_frame(current, end)
            match = _first_match(search, range(current, end if seek else min(current + 1, end)))
        if match is None or not match.states:
            matches.append(None)
            continue
        matches.append(match)
        n_bytes += match.n_bytes
        check_memory(n_bytes, "the matches of a partition", is_held=True)
        resume = current + 1 if program.after_match == "to_next_row" else next_start(program, match)
    return matches


def _first_match(search: RowSearch, starts: range) -> RowMatch | None:
    """Return the match of the first row of ``starts`` that begins one, or None."""
    for start in starts:
        states = search.preferred(start, 1)
        if states is not None:
            return RowMatch(1, start, states)
    return None
