"""Definition of a format: names, types and order of its columns, and a function that reads its records."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cepkit.errors import CepError, nearest
from cepkit.pipelines import spark_functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Reason of lines that are no events, such as the header of a table. They are counted, not kept.
STRUCTURE = "(structure)"
EMPTY = "the line is empty"

_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_INTEGER = r"^[+-]?[0-9]{1,18}$"


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of a format: a line of explanation, and a function that reads its value, also from text."""

    description: str
    read: Callable[[object], object]


class UnknownFormatError(CepError, ValueError):
    """A format, an option of a format, or its value is unknown."""


class HeaderError(CepError, ValueError):
    """The first line of a table does not name its columns."""


@dataclass(frozen=True, slots=True)
class Format:
    """An original format that `ingest` reads."""

    name: str  # name in ``cepkit ingest NAME``
    description: str  # one line of explanation
    columns: Mapping[str, str]  # columns of an event with their Spark types; the clock is the first
    partition_by: str  # key column of the events
    order_by: tuple[str, ...]  # columns that order the events of a key; the clock comes first
    # ``parse(records, **options)`` takes the result of `read_records` and returns one or more rows per
    # record. A row has the record's columns, ``piece`` (0, 1, … within the record), the columns of
    # ``columns``, and ``reason``: NULL for an event, else why it is none (`STRUCTURE` for lines of the file's
    # structure).
    parse: Callable[..., DataFrame]
    # Keywords of ``parse`` and of ``finish``, each with a line of explanation.
    options: Mapping[str, Option] = field(default_factory=dict)
    newest_first: bool = False  # whether the lines of a file go back in time
    separator: str | None = None  # text that ends a record; None: the end of the line
    # ``finish(events, **options)`` adds columns that depend on all events; it returns the events, and notes
    # for the report
    finish: Callable[..., tuple[DataFrame, dict]] | None = None

    @property
    def clock(self) -> str:
        """The column that holds the time of an event."""
        return self.order_by[0]

    def read_options(self, options: Mapping[str, object]) -> dict[str, object]:
        """Return the options with their values read by the format; raise an error for an unknown one."""
        for name in options:
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise UnknownFormatError(
                    f"format {self.name!r} has no option {name!r}.{nearest(name, self.options)} "
                    f"Options: {known}"
                )
        return {name: self.options[name].read(value) for name, value in options.items()}


def first_reason(checks: Sequence[tuple[Column, str]]) -> Column:
    """Return the reason of `read_records`, or the text of the first check that is false or NULL, or NULL."""
    failed = [F.when(~F.coalesce(holds, F.lit(False)), reason) for holds, reason in checks]
    return F.coalesce(F.col("reason"), *failed)


def number(text: Column) -> Column:
    """Return text such as ``25.9900`` as a double, and NULL for others such as ``NaN``, ``1d``, ``1e999``."""
    value = F.when(text.rlike(_DECIMAL), text.try_cast("double"))
    return F.when(F.abs(value) < float("inf"), value)


def integer(text: Column) -> Column:
    """Return text of up to 18 digits as a bigint, and NULL for other text."""
    return F.when(text.rlike(_INTEGER), text.try_cast("bigint"))


def fields_as(columns: Mapping[str, str], place_of_column: Mapping[str, int]) -> dict[str, Column]:
    """Return columns from fields of the line, read by their types: text, double or bigint."""
    read = {"string": lambda text: text, "double": number, "bigint": integer}
    return {name: read[columns[name]](F.get("fields", place)) for name, place in place_of_column.items()}


def wall_clock(parts: Sequence[tuple[Column, str]]) -> Column:
    """Return a time without a zone, or NULL when a text does not fit its pattern.

    The patterns have groups for year, month, day, hour, minute and, optionally, seconds.

    """
    found = [
        F.regexp_extract(text, pattern, group + 1)
        for text, pattern in parts
        for group in range(re.compile(pattern).groups)
    ]
    seconds = found[5].try_cast("decimal(16,6)") if len(found) == 6 else F.lit(0).cast("decimal(16,6)")
    return F.try_make_timestamp_ntz(*(part.try_cast("int") for part in found[:5]), seconds)


def delimited(
    records: DataFrame, values: Mapping[str, Column], checks: Sequence[tuple[Column, str]], *,
    divided: Column | None = None, helpers: Mapping[str, Column] | None = None,
    header: Column | None = None,
) -> DataFrame:  # fmt: skip
    """Return the records with ``values`` as columns and the ``reason`` that follows from ``checks``.

    ``values`` are expressions of the array ``fields`` and the columns ``helpers``. The array is ``divided``
    or, by default, the trimmed texts between commas. The checks may use the new columns; the first check is
    that the line is not empty. Lines where ``header`` is true are structure.

    """
    if divided is None:
        divided = F.transform(F.split(F.col("text"), ",", -1), lambda text: F.trim(text))
    # Spark computes a column once, but an expression again for each use.
    records = records.withColumn("fields", divided)
    for name, helper in (helpers or {}).items():
        records = records.withColumn(name, helper)
    if header is not None:
        records = records.withColumn("reason", F.coalesce("reason", F.when(header, STRUCTURE)))
    piece = {} if "piece" in records.columns else {"piece": F.lit(0)}
    reason = first_reason([(F.trim("text") != "", EMPTY), *checks])
    return (
        records.withColumns({**values, **piece}).withColumn("reason", reason).drop("fields", *(helpers or ()))
    )


def day_of(text: str | datetime.date, option: str = "date") -> datetime.date:
    """Return the day that ``option`` names as ``yyyy-mm-dd``."""
    if isinstance(text, datetime.date):
        return text
    try:
        return datetime.date.fromisoformat(text)
    except (TypeError, ValueError):
        raise UnknownFormatError(f"option {option}: {text!r} is not a day; expected yyyy-mm-dd") from None
