"""The rows of a result: those of matches, of partial matches that ran out of time, and of a WINDOW."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cepkit.compile.match_recognize.compiled import Compiled, RowTotal
from cepkit.compile.match_recognize.values import AGGREGATES
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, RowSearch, next_start, next_total
from cepkit.limits import check_memory

# Compute the output rows of the matches of a partition: measures, and the rows of the input to show.


class MatchPlace:
    """A match as measures see it at one of its rows. It keeps running totals."""

    def __init__(
        self, program: RowProgram, columns: Mapping[str, Sequence[Any]], n_rows: int, match: RowMatch
    ):
        self.columns, self.n_rows, self.number = columns, n_rows, match.number or None
        self.low = 0
        self.labels = [program.automaton.variable_of_state[state] for state in match.states]
        self.members, self.start, self.end = program.members, match.start, match.rows().stop
        self.row = self.end - 1
        self._rows_of: dict[str, list[int]] = {}
        self._totals: dict[RowTotal, tuple[list[Any], set]] = {}

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        """Return a row of a variable from its first or last one, up to the current row unless final."""
        last = self.end - 1 if final else self.row
        if variable is None:
            row = self.start + offset if from_first else last - offset
            return row if self.start <= row <= last else -1
        rows = self._rows(variable)
        n = bisect_right(rows, last)
        if offset >= n:
            return -1
        return rows[offset] if from_first else rows[n - 1 - offset]

    def label(self, row: int) -> str | None:
        """Return the variable of a row of the match."""
        return self.labels[row - self.start] if self.start <= row < self.end else None

    def total(self, aggregate: RowTotal) -> Any:
        """Return an aggregate over the rows up to the current one, or over all."""
        last = self.end - 1 if aggregate.tree.final else self.row
        rows: Sequence[int] = range(self.start, self.end)
        if aggregate.variable is not None:
            rows = self._rows(aggregate.variable)
        n = bisect_right(rows, last)
        steps = AGGREGATES[aggregate.function]
        states, seen = self._totals.setdefault(aggregate, ([steps.start], set()))
        while len(states) <= n:
            states.append(next_total(aggregate, self, rows[len(states) - 1], states[-1], seen))
        return steps.result(states[n])

    def _rows(self, variable: str) -> list[int]:
        if variable not in self._rows_of:
            members = self.members[variable]
            self._rows_of[variable] = [
                row for row, label in enumerate(self.labels, self.start) if label in members
            ]
        return self._rows_of[variable]


def output_rows(
    program: RowProgram,
    measures: Sequence[Compiled],
    rows_per_match: str,
    columns: Mapping[str, Sequence[Any]],
    n_rows: int,
    matches: Sequence[RowMatch],
) -> Iterator[tuple[int, list[Any]]]:
    """Yield the output rows of one partition: the position of a row of the input, and the measures.

    For one row per match, the position is the first row of the match.

    """
    unmatched = rows_per_match == "all_with_unmatched"
    rows: list[tuple[int, int, list[Any]]] = []
    for match in matches:
        place = MatchPlace(program, columns, n_rows, match)
        if rows_per_match == "one":
            yield match.start, [measure.call(place, -1) for measure in measures]
            continue
        if not match.states and rows_per_match != "all_omit_empty":
            rows.append((match.start, match.number, [measure.call(place, -1) for measure in measures]))
        for state, row in zip(match.states, match.rows(), strict=True):
            if not program.automaton.excluded[state]:
                place.row = row
                rows.append((row, match.number, [measure.call(place, -1) for measure in measures]))
        if not unmatched:
            yield from ((row, values) for row, _, values in rows)
            rows = []
    if unmatched:
        matched = {row for match in matches for row in (match.start, *match.rows())}
        nothing = [None] * len(measures)
        rows += [(row, 0, nothing) for row in range(n_rows) if row not in matched]
        rows.sort(key=lambda item: item[:2])
        yield from ((row, values) for row, _, values in rows)


# Find the partial matches that ran out of time, for ONE ROW PER MATCH WITH TIMED OUT MATCHES.


def latest_time(clock: Iterable[int | None]) -> int | None:
    """Return the latest time of a column in ticks; None if there is none."""
    return max((ticks for ticks in clock if ticks is not None), default=None)


def with_timed_out(
    program: RowProgram,
    columns: Mapping[str, Sequence[Any]],
    n_rows: int,
    matches: Sequence[RowMatch],
    now: int | None,
) -> list[RowMatch]:
    """Return the matches of a partition and the partial matches that ran out of time, by their first rows.

    A row that begins no match, and that no match skips, begins at most one partial match. It satisfies a
    beginning of the pattern with all rows that are in time, and would need another one. If several do, the
    first in the order of preference counts. It ran out of time if ``now`` is not in time any more.
    """
    assert program.within is not None
    match_at = {match.start: match for match in matches}
    search = RowSearch(program, columns, n_rows)
    reported: list[RowMatch] = []
    start = n_found = 0
    while start < n_rows:
        match = match_at.get(start)
        if match is None:
            search.preferred(start, n_found + 1)
            if search.waiting and is_over(program, columns, start, now):
                reported.append(RowMatch(0, start, search.waiting))
            start += 1
        else:
            reported.append(match)
            n_found += 1
            start = next_start(program, match)
    return reported


def is_over(program: RowProgram, columns: Mapping[str, Sequence[Any]], start: int, now: int | None) -> bool:
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
    for start in starts:
        states = search.preferred(start, 1)
        if states is not None:
            return RowMatch(1, start, states)
    return None


def window_values(
    program: RowProgram,
    measures: Sequence[Compiled],
    columns: Mapping[str, Sequence[Any]],
    ends: Sequence[int],
    found: Sequence[RowMatch | None],
    empty: Sequence[Any],
) -> list[list[Any]]:
    """Return the measures of each row of a partition, at the last row of its match.

    ``empty`` has their values for a row without a match.

    """
    values = []
    for current, (end, match) in enumerate(zip(ends, found, strict=True)):
        if match is None:
            values.append(list(empty))
            continue
        place = MatchPlace(program, columns, end, match)
        place.low = current
        values.append([measure.call(place, -1) for measure in measures])
    return values
