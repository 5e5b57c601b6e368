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


def groups(
    rows: Sequence[dict],
    key: str | None,
    order: str | None,
    *,
    holds: Callable[[list[dict], int], bool | None] = lambda rows, i: True,
    begins: Callable[[list[dict], int], bool | None] = lambda rows, i: False,
    ends: Callable[[list[dict], int], bool | None] = lambda rows, i: False,
    by: Sequence[str] = (),
    gap: float | None = None,
    span: float | None = None,
    least: int = 1,
    only_begun: bool = False,
    from_row_before: bool = False,
) -> list[Group]:
    """Return the groups of neighbours, by walking through each partition from its first row."""
    found = []
    for of, own in partitions(rows, key, order).items():
        stream, parts = [rows[i] for i in own], []
        for place, row in enumerate(stream):
            before = stream[place - 1] if place else None
            first = stream[parts[-1][0]] if parts else None
            goes_on = (
                before is not None
                and parts[-1][-1] == place - 1
                and begins(stream, place) is not True
                and ends(stream, place - 1) is not True
                and all(row[name] == before[name] for name in by)
                and (gap is None or row[order] - before[order] <= gap)
            )
            if goes_on and span is not None:
                goes_on = row[order] - first[order] <= span
            if holds(stream, place) is not True:
                parts.append([-2])  # no row follows this one
            elif goes_on:
                parts[-1].append(place)
            else:
                parts.append([place])
        kept = [
            part for part in parts
            if part != [-2] and len(part) >= least and (not only_begun or begins(stream, part[0]) is True)
        ]  # fmt: skip
        for number, part in enumerate(kept, 1):
            if from_row_before and part[0] > 0:
                part = [part[0] - 1, *part]
            found.append(Group(of, number, tuple(own[place] for place in part)))
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


def reached(
    rows: Sequence[dict],
    steps: Sequence[tuple[Callable[[dict], bool], bool, Sequence[Callable[[dict], bool]], float | None]],
    key: str,
    order: str,
    mode: str,
    within: float | None,
) -> list[int]:
    """Return how many partitions reach each step, by trying all choices of rows.

    A step is a condition, whether it is optional, what may not lie before it, and the longest time to it.
    """
    found = [0] * len(steps)
    for own in partitions(rows, key, order).values():
        levels = _steps_of([rows[i] for i in own], steps, order, mode, within)
        found = [n + is_reached for n, is_reached in zip(found, levels, strict=True)]
    return found


def conversions(rows, steps, key, order, mode, within, by) -> list[tuple[Any, list[tuple | None]]]:
    """Return for each user with the first step its group, and the times of each step that it reaches.

    The times are those since the first step and since the step before, of the attempts that reach the step
    at the earliest row; the least time of each kind counts.
    """
    users = []
    for own in partitions(rows, key, order).values():
        stream, times = [rows[i] for i in own], []
        first = steps if mode == "any order" else steps[:1]
        begin = next((row for row in stream if any(step[0](row) is True for step in first)), None)
        if begin is None:
            continue
        for i in range(len(steps)):
            ends = _attempts(stream, steps[: i + 1], order, mode, within) if mode != "any order" else set()
            at = min((place for _, _, place in ends), default=None)
            least = [
                stream[at][order] - max(stream[attempt[k]][order] for attempt in ends if attempt[2] == at)
                for k in range(2) if at is not None
            ]  # fmt: skip
            times.append(tuple(least) if least else None)
        if mode == "any order":
            is_reached = _steps_of(stream, steps, order, mode, within)
            times = [(0, 0) if reached else None for reached in is_reached]
        users.append((begin[by], times))
    return users


def _next_places(stream, step, order, mode, within, start, last) -> list[int]:
    """Return the places at which a step can follow the last one."""
    holds, _, excluded, limit = step
    return [
        place
        for place in range(last + 1, len(stream))
        if holds(stream[place]) is True
        and (mode != "strict" or place == last + 1)
        and not any(bad(stream[i]) is True for bad in excluded for i in range(last + 1, place))
        and (limit is None or stream[place][order] - stream[last][order] <= limit)
        and (within is None or stream[place][order] - stream[start][order] <= within)
    ]


def _attempts(stream, steps, order, mode, within) -> set[tuple[int, int, int]]:
    """Return the places of the first step, of the step before the last, and of the last, of all attempts."""
    ends = {(place, place, place) for place, row in enumerate(stream) if steps[0][0](row) is True}
    for number, step in enumerate(steps[1:], 1):
        after = {
            (start, last, place)
            for start, _, last in ends
            for place in _next_places(stream, step, order, mode, within, start, last)
        }
        ends = ends | after if step[1] and number < len(steps) - 1 else after
    return ends


def _steps_of(stream, steps, order, mode, within) -> list[bool]:
    if mode == "any order":
        best = 0
        for first in stream:
            inside = [
                row for row in stream[stream.index(first):]
                if within is None or row[order] - first[order] <= within
            ]  # fmt: skip
            best = max(best, sum(any(step[0](row) is True for row in inside) for step in steps))
        return [n < best for n in range(len(steps))]
    before = {(place, place) for place, row in enumerate(stream) if steps[0][0](row) is True}  # (start, last)
    levels = [bool(before)]
    for step in steps[1:]:
        after = {
            (start, place)
            for start, last in before
            for place in _next_places(stream, step, order, mode, within, start, last)
        }
        levels.append(bool(after))
        before = before | after if step[1] else after
    return levels


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
