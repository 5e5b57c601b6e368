"""Find the partial matches that ran out of time, for ONE ROW PER MATCH WITH TIMED OUT MATCHES."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, RowSearch, next_start


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
    made: list[RowMatch] = []
    start = n_found = 0
    while start < n_rows:
        match = match_at.get(start)
        if match is None:
            search.preferred(start, n_found + 1)
            if search.waiting and is_over(program, columns, start, now):
                made.append(RowMatch(0, start, search.waiting))
            start += 1
        else:
            made.append(match)
            n_found += 1
            start = next_start(program, match)
    return made


def is_over(program: RowProgram, columns: Mapping[str, Sequence[Any]], start: int, now: int | None) -> bool:
    """Return whether a match that begins at a row has no time left."""
    assert program.within is not None
    clock, bound = program.within
    begin = columns[clock][start]
    return begin is not None and now is not None and now - begin >= bound
