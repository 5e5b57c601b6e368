"""Find a match for each row of a partition, in the frame of the row: the clause in a WINDOW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.engines.match_recognize.matching import RowMatch, RowProgram, RowSearch, next_start
from cepkit.engines.match_recognize.output import MatchPlace
from cepkit.limits import check_memory


def find_window_matches(
    program: RowProgram, columns: Mapping[str, Sequence[Any]], ends: Sequence[int], *, seek: bool = False
) -> list[RowMatch | None]:
    """Return the match of each row of a partition; None for no match, an empty one, or a skipped row."""
    search = RowSearch(program, columns, len(ends))
    found: list[RowMatch | None] = []
    resume = n_bytes = 0
    for current, end in enumerate(ends):
        match = None
        if current >= resume:
            search.see_frame(current, end)
            match = _first_match(search, range(current, end if seek else min(current + 1, end)))
        if match is None or not match.states:
            found.append(None)
            continue
        found.append(match)
        n_bytes += match.n_bytes
        check_memory(n_bytes, "the matches of a partition", is_held=True)
        resume = current + 1 if program.after_match == "to_next_row" else next_start(program, match)
    return found


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
