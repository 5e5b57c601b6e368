"""Compute the output rows of the matches of a partition: measures, and the rows of the input to show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cepkit.compile.match_recognize.aggregates import AGGREGATES
from cepkit.compile.match_recognize.compiled import Compiled, RowTotal
from cepkit.engines.match_recognize.history import next_total
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram


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
