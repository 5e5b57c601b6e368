"""Choose the partitions, matches and events that a picture has room for; matches one below the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

# Choose the partitions, matches and events that a picture has room for.

FAR = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, slots=True)
class Panel:
    """The drawn part of one partition. Arrays of events are in time order."""

    name: object  # the partition's value; None when the stream has no partitions
    events: np.ndarray  # int64, (n_drawn,): row numbers of the events
    places: np.ndarray  # int64, (n_drawn,): their ranks in time, 1 apart when no event is between them
    marks: pd.DataFrame  # match, variable, row: the drawn rows of `rows`


@dataclass(frozen=True, slots=True)
class Selection:
    """The panels, with the total and the drawn numbers of events and matches."""

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
        """Return the row numbers of all marks; a row in two matches occurs twice."""
        marked = [panel.marks["row"].to_numpy() for panel in self.panels]
        return np.concatenate(marked or [np.zeros(0, np.int64)])


@dataclass(frozen=True, slots=True)
class Totals:
    """The numbers for the whole result, when a picture has only a part of it; None: not known."""

    n_events: int
    n_partitions: int
    n_matches: int
    is_exact: bool  # False: there are at least ``n_matches``
    n_partitions_matched: int | None
    n_events_matched: int | None


def totals_of(chosen: Selection, partition_of_event: pd.Series | None, rows: pd.DataFrame) -> Totals:
    """Return the totals of a picture that has the whole result."""
    matched = rows["row"].unique()
    n_partitions_matched = min(1, len(matched))
    if partition_of_event is not None:
        n_partitions_matched = partition_of_event.iloc[matched].nunique(dropna=False)
    n_partitions, n_matches = chosen.n_partitions, chosen.n_matches
    return Totals(chosen.n_events, n_partitions, n_matches, True, n_partitions_matched, len(matched))


def select(
    ticks: np.ndarray, partition_of_event: pd.Series | None, rows: pd.DataFrame, *, max_events: int,
    max_panels: int,
) -> Selection:  # fmt: skip
    """Choose what is drawn: whole matches in their order, then the nearest events."""
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
    """Return a mask of the rows of the first matches, as many as have at most ``max_rows`` rows together."""
    number, _ = pd.factorize(match_of_row)  # by first appearance
    n_rows_until = np.cumsum(np.bincount(number)) if len(number) else np.zeros(0, np.int64)
    n_matches = max(1, int(np.searchsorted(n_rows_until, max_rows, side="right")))
    keep = number < n_matches
    return keep & (np.cumsum(keep) <= max_rows)  # cuts only a first match that is too long


def _distance_to_match(matched: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the distance, in events, of each event to the nearest matched one of its partition.

    Without a matched event it is the distance to the partition's first event. Both arrays are sorted by
    partition and time.

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
