"""Checks of the arguments of an explorer, and the explored part of a Spark frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepkit.errors import CepError
from cepkit.events import NUMBERS, Frame, Source
from cepkit.explorer.query.text import read_text
from cepkit.planning.validation import check_columns
from cepkit.results.spark.part import part_of


def check_call(source: Source, call: Mapping[str, Any]) -> None:
    """Raise `CepError` if a keyword names a column that the frame lacks."""
    for role in ("partition_by", "order_by", "event_type"):
        check_columns(source, role, _names(call.get(role)))


def check_value(source: Source, value: str | None, event_type: str | None) -> None:
    """Raise `CepError` for a column that a timeline cannot show."""
    if value is None or value == event_type:
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
        return _names(call.get(role)) or (getattr(query, role) if query is not None else ())

    return part_of(frame, columns("partition_by"), columns("order_by"))


def _names(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())
