"""The meaning of runs, sessions and funnels, in plain Python. Nothing of the package is imported.

Rows are mappings. A partition is the list of its rows in stream order: sorted by the order column, rows with
equal values in the order of the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple


class Group(NamedTuple):
    """A run or a session: its key, its number in the partition, and the row numbers of its rows."""

    key: Any
    number: int
    rows: tuple[int, ...]


def partitions(rows: Sequence[dict], key: str | None, order: str | None) -> dict[Any, list[int]]:
    """Return the row numbers of every partition in stream order."""
    stream = list(range(len(rows)))
    if order is not None:
        stream.sort(key=lambda i: rows[i][order])  # stable
    found: dict[Any, list[int]] = {}
    for i in stream:
        found.setdefault(None if key is None else rows[i][key], []).append(i)
    return found


def runs(
    rows: Sequence[dict], holds: Callable[[list[dict], int], bool | None], key: str | None, order: str | None
) -> list[Group]:
    """Return the longest lists of neighbours of a partition for which the condition is true."""
    found = []
    for of, own in partitions(rows, key, order).items():
        true = [holds([rows[i] for i in own], place) is True for place in range(len(own))]
        number = 0
        for first in range(len(own)):
            for last in range(first, len(own)):
                is_run = all(true[first : last + 1])
                is_longest = (first == 0 or not true[first - 1]) and (
                    last + 1 == len(own) or not true[last + 1]
                )
                if is_run and is_longest:
                    number += 1
                    found.append(Group(of, number, tuple(own[first : last + 1])))
    return found


def sessions(rows: Sequence[dict], gap: float, key: str | None, order: str) -> list[Group]:
    """Return the rows of each partition, cut where a row comes more than ``gap`` after the row before it."""
    found = []
    for of, own in partitions(rows, key, order).items():
        cuts = [
            place for place in range(1, len(own))
            if rows[own[place]][order] - rows[own[place - 1]][order] > gap
        ]  # fmt: skip
        bounds = [0, *cuts, len(own)]
        for number, (first, end) in enumerate(pairwise(bounds), 1):
            found.append(Group(of, number, tuple(own[first:end])))
    return found


def levels(
    rows: Sequence[dict],
    steps: Sequence[Callable[[dict], bool | None]],
    key: str,
    order: str | None,
    mode: str,
    within: float | None,
    closed: bool,
) -> dict[Any, int]:
    """Return for each partition the number of steps that it reaches, by trying all choices of rows."""
    found = {}
    for of, own in partitions(rows, key, order).items():
        found[of] = 0
        for n in range(1, len(steps) + 1):
            if any(_is_chain(rows, chosen, own, steps, order, mode, within, closed)
                   for chosen in combinations(range(len(own)), n)):  # fmt: skip
                found[of] = n
    return found


def _is_chain(rows, chosen, own, steps, order, mode, within, closed) -> bool:
    taken = [rows[own[place]] for place in chosen]
    if any(step(row) is not True for step, row in zip(steps, taken, strict=False)):
        return False
    if mode == "strict" and any(b != a + 1 for a, b in pairwise(chosen)):
        return False
    if within is None:
        return True
    lasted = taken[-1][order] - taken[0][order]
    return lasted <= within if closed else lasted < within
