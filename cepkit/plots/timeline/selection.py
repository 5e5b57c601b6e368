"""Which partitions, matches and events a picture has room for; numbers only, nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

FAR = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, slots=True)
class Panel:
    """What is drawn of one partition. Arrays of events are in time order."""

    name: object  # the partition's value; None when the stream has no partitions
    events: np.ndarray  # int64, (n_drawn,): row numbers of the events
    places: np.ndarray  # int64, (n_drawn,): their ranks in time; events with nothing between them differ by 1
    marks: pd.DataFrame  # match, variable, row: the rows of `rows` to be drawn, unchanged


@dataclass(frozen=True, slots=True)
class Selection:
    """The panels, with what they show and what there is."""

    panels: tuple[Panel, ...]
    n_partitions: int
    n_events: int
    n_events_drawn: int
    n_matches: int
    n_matches_drawn: int

    def drawn_rows(self) -> np.ndarray:
        """Return the row numbers of all drawn events."""
        return np.concatenate([panel.events for panel in self.panels] or [np.zeros(0, np.int64)])

    def marked_rows(self) -> np.ndarray:
        """Return the row numbers of all marks; a row in two matches stands twice."""
        return np.concatenate(
            [panel.marks["row"].to_numpy() for panel in self.panels] or [np.zeros(0, np.int64)]
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """What there is in all, where a picture is given a part of it; None: not known."""

    n_events: int
    n_partitions: int
    n_matches: int
    is_exact: bool  # False: there are at least ``n_matches``
    n_partitions_matched: int | None
    n_events_matched: int | None


def totals_of(chosen: Selection, partition_of_event: pd.Series | None, rows: pd.DataFrame) -> Totals:
    """Return the totals of a picture that is given everything there is."""
    matched = rows["row"].unique()
    n_matched = len(matched)
    if partition_of_event is None:
        n_partitions_matched = min(1, n_matched)
    else:
        n_partitions_matched = partition_of_event.iloc[matched].nunique(dropna=False)
    n_partitions, n_matches = chosen.n_partitions, chosen.n_matches
    return Totals(chosen.n_events, n_partitions, n_matches, True, n_partitions_matched, n_matched)


def select(
    ticks: np.ndarray,
    partition_of_event: pd.Series | None,
    rows: pd.DataFrame,
    *,
    max_events: int,
    max_panels: int,
) -> Selection:
    """Choose what to draw: whole matches in their order, then the events nearest to them.

    Parameters
    ----------
    ticks : numpy.ndarray
        Shape (n_events,); any order, comparable, no nulls. Ties keep the order of the rows.
    partition_of_event : pandas.Series, optional
        Shape (n_events,); null is a partition like any other. None: there are no partitions.
    rows : pandas.DataFrame
        Columns ``match``, ``variable``, ``row``.
    max_events, max_panels : int
        Partitions with matches come first, in the order of their matches, then the others in the order of
        their events. Of a match with more than ``max_events`` rows, the first ones are kept.

    Returns
    -------
    Selection

    Notes
    -----
    Time O(n log n) in events and rows.

    Examples
    --------
    >>> rows = pd.DataFrame({"match": [0, 0], "variable": ["a", "b"], "row": [5, 6]})
    >>> chosen = select(np.arange(10), None, rows, max_events=4, max_panels=12)
    >>> chosen.panels[0].events
    array([4, 5, 6, 7])
    """
    n_events = len(ticks)
    if partition_of_event is None:
        codes, names = np.zeros(n_events, np.int64), [None]
    else:
        codes, uniques = pd.factorize(partition_of_event, use_na_sentinel=False)
        names = list(uniques)
    code_of_row = codes[rows["row"].to_numpy(np.int64)]
    shown = list(dict.fromkeys([*code_of_row.tolist(), *range(len(names))]))[:max_panels]
    kept = rows[np.isin(code_of_row, shown)]
    kept = kept[_whole_matches(kept["match"].to_numpy(), max_events)]
    kept_code = codes[kept["row"].to_numpy(np.int64)]

    order = np.lexsort((ticks, codes))  # stable: ties keep the order of the rows
    order = order[np.isin(codes[order], shown)]
    matched = np.zeros(n_events, bool)
    matched[kept["row"].to_numpy(np.int64)] = True
    distances = _distance_to_match(matched[order], codes[order])
    nearest = np.sort(np.argsort(distances, kind="stable")[:max_events])
    drawn, drawn_code = order[nearest], codes[order[nearest]]

    panels = []
    for code in shown:
        mine = drawn_code == code
        panels.append(Panel(names[code], drawn[mine], nearest[mine], kept[kept_code == code]))
    return Selection(
        tuple(panels), len(names), n_events, len(drawn), rows["match"].nunique(), kept["match"].nunique()
    )


def _whole_matches(match_of_row: np.ndarray, max_rows: int) -> np.ndarray:
    """Return the mask of the rows of the first matches that have at most ``max_rows`` rows together."""
    number, _ = pd.factorize(match_of_row)  # by first appearance
    n_rows_until = np.cumsum(np.bincount(number)) if len(number) else np.zeros(0, np.int64)
    n_matches = max(1, int(np.searchsorted(n_rows_until, max_rows, side="right")))
    keep = number < n_matches
    return keep & (np.cumsum(keep) <= max_rows)  # cuts only a first match that is too long by itself


def _distance_to_match(matched: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return for each event how many events lie to the nearest matched one of its partition.

    In a partition without any, the events count from its first. Both arrays are sorted by partition and time.
    """
    place = np.arange(len(codes))
    first_of_event = np.searchsorted(codes, codes, side="left")
    last_of_event = np.searchsorted(codes, codes, side="right") - 1
    before = np.maximum.accumulate(np.where(matched, place, -FAR))
    after = np.minimum.accumulate(np.where(matched, place, FAR)[::-1])[::-1]
    to_before = np.where(before >= first_of_event, place - before, FAR)
    to_after = np.where(after <= last_of_event, after - place, FAR)
    distance = np.minimum(to_before, to_after)
    return np.where(distance == FAR, place - first_of_event, distance)
