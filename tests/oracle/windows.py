"""The meaning of windows and joins, word by word, in plain Python. Nothing of the package is imported.

Order: rows are sorted by the order column; rows with equal times keep their order. In a join, a row of the
left side comes before a row of the right side with the same time.

Window: a time window holds the rows with ``time > now - width``. A length window holds the last rows, of all
groups together. A tumbling window holds the rows of one batch. A row that leaves does so before the next row
arrives.

Aggregates: a missing value, or NaN, does not count. A sum of floats is exact and is rounded once. ``avg`` is
the rounded sum, divided by the count. ``std`` is the root of ``round(n * sum(x^2) - sum(x)^2) / n^2``.
"""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

CURRENT, EXPIRED = "current", "expired"


def is_missing(value) -> bool:
    return value is None or value != value


def rounded(exact: Fraction) -> float:
    """Return the float nearest to an exact number, ties to even."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def exact_sum(values) -> float | None:
    infinite = {value for value in values if math.isinf(value)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else None
    return rounded(sum(map(Fraction, values), Fraction(0)))


def reduce_values(function: str, values: list):
    """Return an aggregate of the values of a column in the rows of a window, the oldest first."""
    present = [value for value in values if not is_missing(value)]
    if function == "count":
        return len(present)
    if function == "first":
        return values[0] if values and not is_missing(values[0]) else None
    if function == "last":
        return values[-1] if values and not is_missing(values[-1]) else None
    if function == "distinct":
        return len(set(present))
    if not present:
        return None
    if function == "min":
        return min(present)
    if function == "max":
        return max(present)
    whole = all(isinstance(value, int) for value in present)
    total = sum(present) if whole else exact_sum(present)
    if function == "sum":
        return total
    if function == "avg":
        return None if total is None else float(total) / len(present)
    if function == "median":
        return float(statistics.median(present))
    if function == "std":
        spread = reduce_values("var", values)
        return None if spread is None else math.sqrt(spread)
    if function == "var":
        if any(math.isinf(value) for value in present):
            return None
        n = len(present)
        squares = sum((Fraction(value) ** 2 for value in present), Fraction(0))
        spread = rounded(n * squares - sum(map(Fraction, present), Fraction(0)) ** 2)
        return spread / (float(n) * float(n))
    raise ValueError(function)


def in_order(rows: list[dict], order_by: str | None) -> list[dict]:
    return rows if order_by is None else sorted(rows, key=lambda row: row[order_by])


def _aggregate(aggregates: dict, held: list[dict]) -> dict:
    """Return the aggregates of rows; ``count`` of no column is the number of rows."""
    found = {}
    for name, (function, column) in aggregates.items():
        if column is None:
            found[name] = len(held)
        else:
            found[name] = reduce_values(function, [row[column] for row in held])
    return found


def window_rows(
    rows: list[dict],
    aggregates: dict,
    *,
    order_by: str | None = None,
    time=None,
    length: int | None = None,
    batch_time=None,
    batch_length: int | None = None,
    group_by: str | None = None,
    where=None,
    emit: str = "arrival",
) -> list[dict]:
    """Return the rows that a window emits, with its aggregates, in their order.

    ``aggregates`` maps a name to (function, column). ``where`` is a function of a row. With ``emit="all"``
    every row says in ``status`` whether it arrived or left.
    """
    out: list[dict] = []
    held: list[dict] = []

    def emit_row(row: dict, status: str) -> None:
        own = [other for other in held if group_by is None or other[group_by] == row[group_by]]
        found = {**row, **_aggregate(aggregates, own)}
        if emit == "all":
            found["status"] = status
        if emit == "all" or status == CURRENT:
            out.append(found)

    def leave_one_by_one(n_rows: int) -> None:
        for _ in range(n_rows):
            emit_row(held.pop(0), EXPIRED)

    def leave_together() -> None:
        gone = held[:]
        held.clear()
        for row in gone:
            emit_row(row, EXPIRED)

    kept = [row for row in in_order(rows, order_by) if where is None or where(row)]
    for row in kept:
        if time is not None:
            leave_one_by_one(sum(other[order_by] <= row[order_by] - time for other in held))
        if length is not None and len(held) == length:
            leave_one_by_one(1)
        if batch_length is not None and len(held) == batch_length:
            leave_together()
        if batch_time is not None and held and held[0][order_by] // batch_time != row[order_by] // batch_time:
            leave_together()
        held.append(row)
        emit_row(row, CURRENT)
    if time is not None:
        leave_one_by_one(len(held))
    if batch_time is not None:
        leave_together()
    return out


def _leaves(side: dict, row: dict, position: int, events: list, n_before: int) -> int:
    """Return the position in ``events`` before which a row leaves its window; far away if it stays.

    ``n_before`` is the number of rows of the same side before this one.
    """
    if side.get("none"):
        return position + 1
    seen = n_before
    for later in range(position + 1, len(events)):
        which, _, now = events[later]
        own = which == side["which"]
        seen += own
        if "time" in side and now >= row["__time"] + side["time"]:
            return later
        if "batch_time" in side and now // side["batch_time"] != row["__time"] // side["batch_time"]:
            return later
        if "length" in side and own and seen - n_before >= side["length"]:
            return later
        if (
            "batch_length" in side
            and own
            and seen // side["batch_length"] != n_before // side["batch_length"]
        ):
            return later
    return len(events) + 1


def join_rows(
    left: list[dict],
    right: list[dict],
    windows: tuple[dict, dict],
    *,
    on,
    order_by: tuple[str, str],
    how: str = "inner",
    trigger: str = "both",
    aggregates: dict | None = None,
) -> list[tuple]:
    """Return (left row, right row, aggregates) of every pair that an arrival creates, in order.

    A window is a dict with one of ``time``, ``length``, ``batch_time``, ``batch_length`` or ``none`` (no row
    is kept), and ``where``, a function of a row. ``on`` is a function of two rows. A row without a partner
    has None. ``aggregates`` maps a name to (function, side, column), over the pairs that are alive after the
    arrival: both rows are in their windows.
    """
    sides = [dict(side, which=which) for which, side in enumerate(windows)]
    events = []
    for which, rows in enumerate((left, right)):
        where = sides[which].get("where")
        events += [(which, row, row[order_by[which]]) for row in rows if where is None or where(row)]
    events.sort(key=lambda event: (event[2], event[0]))
    gone, n_of = [], [0, 0]
    for position, (which, row, now) in enumerate(events):
        timed = dict(row, __time=now)
        gone.append(_leaves(sides[which], timed, position, events, n_of[which]))
        n_of[which] += 1
    triggers = {"both": (0, 1), "left": (0,), "right": (1,)}[trigger]
    padded = {"inner": (), "left": (0,), "right": (1,), "outer": (0, 1)}[how]
    pairs, out = [], []
    for position, (which, row, _) in enumerate(events):
        made = []
        if which in triggers:
            for earlier in range(position):
                other_which, other, _ = events[earlier]
                if other_which == which or gone[earlier] <= position:
                    continue
                pair = (row, other) if which == 0 else (other, row)
                if on(*pair):
                    made.append((*pair, min(gone[position], gone[earlier])))
        pairs += made
        alive = [pair for pair in pairs if pair[2] > position]
        found = {}
        for name, (function, side, column) in (aggregates or {}).items():
            found[name] = (
                len(alive) if column is None else reduce_values(function, [p[side][column] for p in alive])
            )
        out += [(one, other, found) for one, other, _ in made]
        if not made and which in triggers and which in padded:
            out.append((row, None, found) if which == 0 else (None, row, found))
    return out
