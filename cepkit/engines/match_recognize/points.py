"""The places at which the measures of a query are computed: one for each row of its result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cepkit.engines.match_recognize.found_rows import FoundRows


@dataclass(frozen=True)
class Points:
    """The rows of a result that belong to matches, match by match."""

    match_of_point: np.ndarray  # int64, (n_points,)
    # int64, (n_points,): the last row that RUNNING measures see; the place before the match if they see none
    last_of_point: np.ndarray
    place_of_point: np.ndarray  # int64, (n_points,): the row of the input that the result shows
    see_whole_matches: bool = False  # whether every match has one point, which sees all of its rows

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.match_of_point)

    def first_point_of_match(self, n_matches: int) -> np.ndarray:
        """Return the first point of each match, int64, (n_matches + 1,)."""
        if self.see_whole_matches:
            return np.arange(n_matches + 1)
        first = np.zeros(n_matches + 1, np.int64)
        np.cumsum(np.bincount(self.match_of_point, minlength=n_matches), out=first[1:])
        return first


def points_of(found: FoundRows, rows_per_match: str, excluded: np.ndarray) -> Points:
    """Return the points of a result. ``excluded`` says which states take rows that it does not show."""
    if rows_per_match == "one":
        return Points(np.arange(found.n_matches), found.end_of_match - 1, found.start_of_match, True)
    every = rows_of_matches(found)
    kept = ~excluded[found.states]
    match, last = every.match_of_point[kept], every.last_of_point[kept]
    shown = Points(match, last, last)
    is_empty = found.start_of_match == found.end_of_match
    if rows_per_match == "all_omit_empty" or not is_empty.any():
        return shown
    empty = np.flatnonzero(is_empty)
    at = np.searchsorted(shown.match_of_point, empty)
    place = found.start_of_match[empty]
    return Points(
        np.insert(shown.match_of_point, at, empty),
        np.insert(shown.last_of_point, at, place - 1),
        np.insert(shown.place_of_point, at, place),
    )


def rows_of_matches(found: FoundRows) -> Points:
    """Return a point for each row of each match."""
    sizes = found.end_of_match - found.start_of_match
    match = np.repeat(np.arange(found.n_matches), sizes)
    place = np.arange(len(match)) + (found.start_of_match - found.first_state_of_match[:-1])[match]
    return Points(match, place, place)


def unmatched_places(found: FoundRows, n_places: int) -> np.ndarray:
    """Return the places that belong to no match. An empty match has its first place."""
    if found.n_matches == 0:
        return np.arange(n_places)
    change = np.zeros(n_places + 1, np.int64)
    np.add.at(change, found.start_of_match, 1)
    np.add.at(change, np.maximum(found.end_of_match, found.start_of_match + 1), -1)
    return np.flatnonzero(np.cumsum(change[:-1]) == 0)
