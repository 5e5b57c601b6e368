"""Checks of the arguments of an explorer, and the explored part of a Spark frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from cepkit.errors import CepError, is_number, short_text
from cepkit.events import NUMBERS, Frame, Source
from cepkit.explorer.query.text import read_text
from cepkit.language.expressions.trees import Expression
from cepkit.planning.validation import check_columns
from cepkit.results.spark.part import part_of


def check_call(source: Source, call: Mapping[str, Any]) -> None:
    """Raise `CepError` if a keyword names a column that the frame lacks, or has a wrong type."""
    for role in ("partition_by", "order_by", "event_type"):
        check_columns(source, role, _names(role, call.get(role)))
    for role, of in (("event_type", str), ("strategy", str), ("measures", Mapping)):
        given = call.get(role)
        if given is not None and not isinstance(given, of):
            expected = "a text" if of is str else "a dict of names and expressions"
            raise CepError(f"{role}={short_text(repr(given))}: expected {expected}")
    for name, measure in (call.get("measures") or {}).items():
        if not isinstance(name, str) or not isinstance(measure, str | Expression):
            raise CepError(f"measures: {name!r}: expected a text, got {short_text(repr(measure))}")


def check_value(source: Source, value: str | None, event_type: str | None) -> None:
    """Raise `CepError` for a column that a timeline cannot show."""
    if value is None or (isinstance(value, str) and value == event_type):
        return
    check_columns(source, "value", (value,))
    numbers = [name for name, of in source.schema.items() if of.kind in NUMBERS]
    if value not in numbers:
        raise CepError(
            f"value: column {value!r} cannot be drawn, its type is {source.schema[value]}. "
            f"Columns of numbers: {numbers}"
        )


def explored_part(frame: Frame, text: str, call: Mapping[str, Any]) -> tuple[Frame, str]:
    """Return the explored part of a Spark frame, by the keys and the order of the query, and its words."""
    query = read_text(text, call).query if text.strip() else None

    def columns(role: str) -> tuple[str, ...]:
        return _names(role, call.get(role)) or (getattr(query, role) if query is not None else ())

    return part_of(frame, columns("partition_by"), columns("order_by"))


def _names(role: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    names = (given,) if isinstance(given, str) or not _is_iterable(given) else tuple(given)
    if not all(isinstance(name, str) for name in names):
        raise CepError(f"{role}={short_text(repr(given))}: give the names of columns")
    return names


def _is_iterable(given: Any) -> bool:
    return isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0  # `iter` refuses an array of no axis


def check_texts(what: str, given: Any) -> list[str]:
    """Return a text or texts as a list without repetitions; raise `CepError` for anything else."""
    if isinstance(given, str):
        return [given]
    texts = list(given) if _is_iterable(given) and not isinstance(given, Mapping) else [given]
    if not all(isinstance(name, str) for name in texts):
        raise CepError(f"{what}={short_text(repr(given))}: give the names of columns")
    return list(dict.fromkeys(texts))


def check_extent(window: Any) -> list[float]:
    """Return the two bounds of a window, or nothing for an empty one; raise `CepError` for anything else."""
    is_list = isinstance(window, Sequence) and not isinstance(window, str | bytes)
    bounds = list(window) if is_list else [None]
    if (
        len(bounds) not in (0, 2)
        or not all(is_number(one) and isfinite(one) for one in bounds)
        or (bounds and bounds[0] > bounds[1])
    ):
        raise CepError(f"zoom: window={short_text(repr(window))}: give [first, last], or [] for all")
    return bounds
