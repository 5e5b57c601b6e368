"""Operands next to each other: times and durations in one unit and one zone, and texts in their ticks."""

from __future__ import annotations

from dataclasses import replace

from cepkit.compile.match_recognize.times import TIMED, ticks_of
from cepkit.compile.match_recognize.vectors.vector import LARGEST, NotVectorizedError, Vector, check_bound
from cepkit.errors import PredicateError
from cepkit.events import TEXT, TIME, ColumnType
from cepkit.language.expressions.durations import NANOSECONDS


def converted(parts: list[Vector]) -> list[Vector]:
    """Return operands in the finest unit of the columns, with texts in ticks next to a time or a duration.

    Python converts times with and without zones, and constants between two ticks.

    """
    timed = [part for part in parts if part.type.kind in TIMED]
    if not timed:
        return parts
    of_columns = [part for part in timed if not part.is_one] or timed
    finest = min((part.type for part in of_columns), key=lambda of: NANOSECONDS[of.unit or "ns"])
    zones = {part.type.timezone is None for part in timed if part.type.kind == TIME and part.text is None}
    if len(zones) > 1:
        raise NotVectorizedError
    zone = next((of.type.timezone for of in of_columns if of.type.kind == TIME), None)
    return [_in_unit(part, finest, zone) for part in parts]


def _in_unit(part: Vector, finest: ColumnType, zone: str | None) -> Vector:
    """Return an operand in the unit of another type; a time that is written in the query takes the zone."""
    if part.type.kind == TEXT:
        return in_ticks(part, finest)
    if part.type.kind not in TIMED:
        return part
    kind = replace(part.type, unit=finest.unit)
    if part.text is not None:
        kind = replace(kind, timezone=zone)
        return replace(in_ticks(replace(part, values=part.text), kind), text=part.text)
    if part.type.unit == finest.unit:
        return part
    size, of = NANOSECONDS[part.type.unit or "ns"], NANOSECONDS[finest.unit or "ns"]
    if size < of:  # only a constant can be finer
        ticks, rest = divmod(part.values * size, of)
        if rest:
            raise NotVectorizedError
        return replace(part, values=ticks, type=kind)
    check_bound(part.bound() * (size // of))
    return replace(part, values=part.values * (size // of), type=kind)


def in_ticks(part: Vector, timed: ColumnType) -> Vector:
    """Return a constant text in the ticks of a time or a duration."""
    if not part.is_one:
        raise NotVectorizedError
    try:
        ticks = ticks_of(part.values, timed)
    except (ValueError, PredicateError):
        raise NotVectorizedError from None
    if not isinstance(ticks, int) or abs(ticks) > LARGEST:  # between two ticks, or beyond all of them
        raise NotVectorizedError
    return Vector(ticks, timed)
