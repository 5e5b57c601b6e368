"""Functions on vectors of times and durations."""

from __future__ import annotations

from cepkit.compile.match_recognize.functions.times import function_of_times
from cepkit.compile.match_recognize.vectors.units import converted
from cepkit.compile.match_recognize.vectors.vector import (
    EXACT,
    LARGEST,
    NotVectorizedError,
    Vector,
    check_bound,
    join_missing,
)
from cepkit.events import DURATION, TIME
from cepkit.language.expressions.durations import NANOSECONDS


def call_time_function(function: str, unit: str | None, parts: list[Vector]) -> Vector:
    """Return a function of times and durations; ``unit`` is its first argument if that is a unit."""
    parts = converted(parts)
    of = parts[0].type
    are_times = all(part.type.kind in (TIME, DURATION) for part in parts)
    if not are_times or all(part.is_one for part in parts):
        raise NotVectorizedError
    per_second = NANOSECONDS["s"] // NANOSECONDS[of.unit or "ns"]
    year = 366 * 86_400 * per_second  # a unit begins earlier than a time by a year at most
    most = EXACT if function == "epoch" else LARGEST
    check_bound(sum(part.bound() for part in parts) + year, most)
    if unit == "millisecond" and per_second < 1000:
        raise NotVectorizedError
    made, kind = function_of_times(function, unit, of)
    try:
        values = made(*(part.values for part in parts))
    except ValueError:  # outside of the calendar
        raise NotVectorizedError from None
    return Vector(values, kind, join_missing(*(part.missing for part in parts)))
