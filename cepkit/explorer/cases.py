"""Kept cases: rows that must match or must not match, and their check against the matches of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.errors import CepError
from cepkit.explorer.running.series import clock_of

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result

MATCH, RANGE, ROWS = "match", "range", "rows"
KINDS = (MATCH, RANGE, ROWS)
MOST_ROWS = 100_000  # rows of a case
MOST_TESTED = 200_000  # matches that are tested for a case; with more, its verdict is not known
_TOGETHER = 20_000  # matches that are built at once


@dataclass(frozen=True, slots=True)
class Case:
    """Rows that must match or must not match."""

    # How the rows and the matches are compared. - ``"match"``: a must-match case holds if a match has exactly
    # these rows. A must-not-match case holds if no match has exactly these rows. - ``"range"``: the rows are
    # all rows of a time range of a key. A must-match case holds if a match lies in the range: all its rows
    # are rows of the range. A must-not-match case holds if no match takes a row of the range, so a match that
    # begins before the range counts as well. - ``"rows"``: a must-match case holds if a match has all of
    # these rows, perhaps among others. A must-not-match case holds if no match has all of them.
    kind: str
    must: bool  # whether the rows must match
    rows: tuple[int, ...]  # numbers of the rows in the frame, from 0, rising
    label: str = ""  # the case in words, as the board shows it

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CepError(f"case: unknown kind {self.kind!r}; write one of {list(KINDS)}")
        rows = tuple(sorted({int(row) for row in self.rows}))
        if not rows:
            raise CepError("case: it has no rows")
        if rows[0] < 0:
            raise CepError(f"case: row {rows[0]} is negative; rows are numbered from 0")
        if len(rows) > MOST_ROWS:
            raise CepError(
                f"case: {len(rows):,} rows are too many, a case has at most {MOST_ROWS:,}. "
                "Zoom in to a shorter time"
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "must", bool(self.must))

    def to_dict(self) -> dict[str, Any]:
        """Return the case as a value for JSON. Its ``rows`` are pairs of a first and a last row."""
        runs: list[list[int]] = [[self.rows[0], self.rows[0]]]
        for before, row in pairwise(self.rows):
            if row == before + 1:
                runs[-1][1] = row
            else:
                runs.append([row, row])
        return {"kind": self.kind, "must": self.must, "rows": runs, "label": self.label}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Case:
        """Return a case from the result of `to_dict`."""
        try:
            runs = [(int(first), int(last)) for first, last in given["rows"]]
            kind, must, label = given["kind"], given["must"], given.get("label", "")
        except (KeyError, TypeError, ValueError) as error:
            raise CepError(f"case: cannot read {given!r}") from error
        if sum(max(0, last - first + 1) for first, last in runs) > MOST_ROWS:
            raise CepError(f"case: it has more than {MOST_ROWS:,} rows")
        return cls(kind, must, tuple(row for first, last in runs for row in range(first, last + 1)), label)

    @property
    def relation(self) -> str:
        """The name of the comparison with each match: see `FOUND_BY_RELATION`."""
        return "touches" if self.kind == RANGE and not self.must else self.kind


# A case compares its rows with each match by three numbers: the rows of the match that are rows of the case,
# the rows of the match, and the rows of the case.
FOUND_BY_RELATION = {
    MATCH: lambda n_common, n_match, n_case: (n_common == n_match) & (n_common == n_case),
    RANGE: lambda n_common, n_match, n_case: n_common == n_match,
    "touches": lambda n_common, n_match, n_case: n_common > 0,
    ROWS: lambda n_common, n_match, n_case: n_common == n_case,
}
_FOUND = {
    MATCH: ("A match has exactly these rows.", "No match has exactly these rows."),
    RANGE: ("A match lies in this range.", "No match lies in this range."),
    "touches": ("A match takes a row of this range.", "No match takes a row of this range."),
    ROWS: ("A match has all of these rows.", "No match has all of these rows."),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a case holds: True, False, or None if it is not known; and the reason in words."""

    holds: bool | None
    text: str


def holds(case: Case, matches: Iterable[Iterable[int]]) -> bool:
    """Return whether a case holds for matches that are few enough to list."""
    rows, is_found = set(case.rows), FOUND_BY_RELATION[case.relation]
    return case.must == any(is_found(len(rows & set(own)), len(set(own)), len(rows)) for own in matches)


def judge(case: Case, result: Result, position_of_row: np.ndarray) -> Verdict:
    """Return whether a case holds for the counted matches of a result.

    Only matches that can decide the case are built: those of its keys that end late enough, and, with a
    window, early enough.
    """
    if case.rows[-1] >= len(position_of_row):
        return Verdict(None, "The frame does not have all rows of this case.")
    positions = np.sort(position_of_row[np.array(case.rows, np.int64)])
    if positions[0] < 0:
        return Verdict(None, "Some rows of this case are no events of this query.")
    is_found = FOUND_BY_RELATION[case.relation]
    yes, no = _FOUND[case.relation]
    n_tested = 0
    for numbers in _candidates(case, result, positions):
        if n_tested + len(numbers) > MOST_TESTED:
            return Verdict(None, f"It is not known: more than {MOST_TESTED:,} matches may decide it.")
        n_tested += len(numbers)
        first_item, event_of_item = _items(result, numbers)
        n_before = np.concatenate([[0], np.cumsum(_is_in(positions, event_of_item))])
        n_common = n_before[first_item[1:]] - n_before[first_item[:-1]]
        if is_found(n_common, np.diff(first_item), len(positions)).any():
            return Verdict(case.must, yes)
    return Verdict(not case.must, no)


def _is_in(positions: np.ndarray, events: np.ndarray) -> np.ndarray:
    place = np.minimum(np.searchsorted(positions, events), len(positions) - 1)
    return positions[place] == events


def _items(result: Result, numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the first items of matches, with one more at the end, and the events of items."""
    if result.is_sequence:
        block = result.block_of(numbers)
        return block.first_item_of_match, block.event_of_item
    part = result.matches._found.whole.take(np.array(numbers, np.int64))
    return part.lineage.first_item_of_match, part.lineage.event_of_item


def _candidates(case: Case, result: Result, positions: np.ndarray) -> Iterator[list[int]]:
    """Yield the numbers of the matches that can decide a case, in groups that fit into memory."""
    events, ends = result.events, result.ends
    keys = np.unique(events.partition_of_event[positions])
    if len(keys) > 1 and case.relation in (MATCH, ROWS):
        return  # no match has rows of several keys
    low = 0 if case.relation in (RANGE, "touches") else len(positions) - 1
    is_last_known = case.relation in (MATCH, RANGE)
    start = int(np.searchsorted(ends, positions[low], "left"))
    stop = int(np.searchsorted(ends, positions[-1], "right")) if is_last_known else len(ends)
    chosen = start + np.flatnonzero(np.isin(events.partition_of_event[ends[start:stop]], keys))
    if not result.is_sequence:  # a match for each end
        chosen = chosen[result.matches._found.whole.first[chosen] <= positions[-1]]
        for i in range(0, len(chosen), _TOGETHER):
            yield chosen[i : i + _TOGETHER].tolist()
        return
    within = result.program.window.within
    if not is_last_known and within is not None:
        latest = _time_of(result, positions).max() + within
        chosen = chosen[_time_of(result, ends[chosen]) <= latest]
    group: list[int] = []
    for end in chosen.tolist():
        first, last = int(result.first_number[end]), int(result.first_number[end + 1])
        for number in range(first, last, _TOGETHER):
            group += range(number, min(number + _TOGETHER, last))
            if len(group) >= _TOGETHER:
                yield group
                group = []
    if group:
        yield group


def _time_of(result: Result, positions: np.ndarray) -> np.ndarray:
    return clock_of(result.program, result.data.source, result.events, positions).time


def positions_of_rows(result: Result) -> np.ndarray:
    """Return the position in the stream of every row of the frame; -1 for rows that are no events."""
    position = np.full(result.data.source.n_rows, -1, np.int64)
    every = np.arange(result.events.n_events)
    position[result.events.rows(every)] = every
    return position


def rows_text(rows: Sequence[int]) -> str:
    """Return row numbers in words."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    if len(rows) <= 3:
        return f"rows {', '.join(map(str, rows))}"
    if rows[-1] - rows[0] == len(rows) - 1:
        return f"rows {rows[0]} to {rows[-1]}"
    return f"{len(rows):,} rows from {rows[0]} to {rows[-1]}"
