"""Definition of a format: its columns and its reader; text files as rows with their file and line."""

from __future__ import annotations

import datetime
import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.errors import CepError, nearest, reason_of, short_text
from cepkit.values import dataclass, field

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class _SparkFunctions:
    """Spark's SQL functions. The first use imports them, since these modules also load without Spark."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("pyspark.sql.functions"), name)


F = _SparkFunctions()

# Definition of a format: names, types and order of its columns, and a function that reads its records.

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
                names = ", ".join(self.options) or "none"
                raise UnknownFormatError(
                    f"format {self.name!r} has no option {name!r}.{nearest(name, self.options)} "
                    f"Options: {names}"
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
    """Return a time without a zone, or NULL when a text does not fit its pattern."""
    # The patterns have groups for year, month, day, hour, minute and, optionally, seconds.
    fields = [
        F.regexp_extract(text, pattern, group + 1)
        for text, pattern in parts
        for group in range(re.compile(pattern).groups)
    ]
    seconds = fields[5].try_cast("decimal(16,6)") if len(fields) == 6 else F.lit(0).cast("decimal(16,6)")
    return F.try_make_timestamp_ntz(*(part.try_cast("int") for part in fields[:5]), seconds)


def trimmed_cells() -> Column:
    """Return the trimmed texts between the commas of a line."""
    return F.transform(F.split(F.col("text"), ",", -1), lambda text: F.trim(text))


def delimited(
    records: DataFrame, values: Mapping[str, Column], checks: Sequence[tuple[Column, str]], *,
    divided: Column | None = None, helpers: Mapping[str, Column] | None = None,
    header: Column | None = None,
) -> DataFrame:  # fmt: skip
    """Return the records with ``values`` as columns and the ``reason`` that follows from ``checks``."""
    # ``values`` are expressions of the array ``fields`` and the columns ``helpers``. The array is ``divided``
    # or, by default, the trimmed texts between commas. The checks may use the new columns; the first check is
    # that the line is not empty. Lines where ``header`` is true are structure.
    if divided is None:
        divided = trimmed_cells()
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


# Text files as one row per record, with its file and line.

PLACE = ("source_file", "source_line", "split", "row")
NOT_UTF8 = "the text is not UTF-8"

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_BYTE_ORDER_MARK = "\ufeff"


class SourceNotFoundError(CepError, FileNotFoundError):
    """The source has no file, or only files that Spark does not read."""


def source_files(source: str | PathLike | Iterable[str | PathLike]) -> list[str]:
    """Return the files of a source, each once, in the order of their names."""
    parts = [source] if isinstance(source, str | PathLike) else list(source)
    if not parts:
        raise SourceNotFoundError("the source is an empty list; expected files, folders or patterns")
    files = {file for part in parts for file in _files_of(fspath(part))}
    return sorted(files)


def read_records(spark: SparkSession, files: Sequence[str], *, separator: str | None = None) -> DataFrame:
    """Return one row per record of text files."""
    # Spark does not number lines. Its row ids rise within a task, and a task reads a piece of a file from the
    # beginning to the end. So the line is the place of the row in its piece, plus the lines of the pieces
    # before, which one extra pass counts.
    from pyspark.sql.window import Window

    scanned = _scan(spark, files, separator)
    n_lines = F.lit(1) if separator is None else _n_newlines(F.concat("value", F.lit(separator)))
    rows = scanned.select(
        F.col("_metadata.file_path").alias("url"), F.col("_metadata.file_block_start").alias("split"),
        F.monotonically_increasing_id().alias("row"), n_lines.cast("long").alias("n_lines"),
        F.col("value").alias("text"),
    )  # fmt: skip
    totals = F.sum("n_lines").alias("n_lines"), F.min("row").alias("first_row")
    of_piece = rows.groupBy("url", "split").agg(*totals)
    earlier_pieces = Window.partitionBy("url").orderBy("split").rowsBetween(Window.unboundedPreceding, -1)
    pieces = of_piece.select(
        "url", "split", "first_row", _or_zero(F.sum("n_lines").over(earlier_pieces)).alias("lines_before")
    )
    if separator is None:
        lines_before_in_piece = F.col("row") - F.col("first_row")
    else:
        piece = Window.partitionBy("url", "split").orderBy("row")
        earlier_rows = piece.rowsBetween(Window.unboundedPreceding, -1)
        lines_before_in_piece = _or_zero(F.sum("n_lines").over(earlier_rows))
    line = F.col("lines_before") + lines_before_in_piece + 1
    text = F.make_valid_utf8("text")
    return rows.join(F.broadcast(pieces), ["url", "split"]).select(
        _path_of(F.col("url")).alias("source_file"), line.alias("source_line"), "split", "row",
        F.when(line == 1, F.ltrim(text, F.lit(_BYTE_ORDER_MARK))).otherwise(text).alias("text"),
        F.when(~F.is_valid_utf8("text"), NOT_UTF8).alias("reason"),
    )  # fmt: skip


def count_records(spark: SparkSession, files: Sequence[str], *, separator: str | None = None) -> int:
    """Return the number of records in text files, as an independent check of the report."""
    return _scan(spark, files, separator).count()


def _scan(spark: SparkSession, files: Sequence[str], separator: str | None) -> DataFrame:
    options = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
    if separator is not None:
        options["lineSep"] = separator
    return spark.read.options(**options).text([_for_spark(file) for file in files])


def _n_newlines(text: Column) -> Column:
    return F.length(text) - F.length(F.replace(text, F.lit("\n"), F.lit("")))


def _or_zero(column: Column) -> Column:
    return F.coalesce(column, F.lit(0))


def _files_of(part: str) -> list[str]:
    """Return the files that a part of a source means. Raise if there is none."""
    if _URL.match(part):
        return [part]
    try:
        files = [file.resolve() for file in _found(part)]
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, or no such home folder
        if isinstance(error, CepError):
            raise
        raise SourceNotFoundError(f"source: no file {short_text(repr(part))}: {reason_of(error)}") from None
    hidden = [str(file) for file in files if file.name[0] in "._"]
    if hidden:
        raise SourceNotFoundError(
            f"source: Spark does not read files whose names begin with '.' or '_': {', '.join(hidden)}. "
            "Rename them."
        )
    if refused := _shown([file for file in files if ":" in str(file)]):
        raise SourceNotFoundError(
            f"source: Spark does not read files with ':' in their path, as it takes what is before the colon "
            f"for the name of a file system: {refused}. Rename them"
        )
    if secret := _shown([file for file in files if not os.access(file, os.R_OK)]):
        raise SourceNotFoundError(f"source: no permission to read {secret}")
    return [str(file) for file in files]


def _found(part: str) -> list[Path]:
    """Return the files of a folder, of a path or of a pattern."""
    path = Path(part).expanduser()
    if "\0" in part:  # `is_file` says no, in silence
        raise ValueError("a name cannot have the character NUL")
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
        if not files:
            raise SourceNotFoundError(f"source: folder {part!r} has no files{_subfolders(path)}")
    elif path.is_file():
        files = [path]
    else:
        files = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
        if not files:
            beside = [f.name for f in path.parent.iterdir()] if path.parent.is_dir() else []
            raise SourceNotFoundError(f"source: no file {part!r}.{nearest(path.name, beside)}")
    return files


def _shown(files: list[Path]) -> str:
    return ", ".join(repr(str(file)) for file in files[:3]) + ", …" * (len(files) > 3)


def _subfolders(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    if not names:
        return ""
    return f". It has folders: {', '.join(names[:5])}. Name one, or use {str(folder / '**' / '*')!r}"


def _for_spark(file: str) -> str:
    """Return a path in which the special characters of Spark's patterns are escaped."""
    return file if _URL.match(file) else re.sub(r"([\\*?\[\]{}])", r"\\\1", file)


def _path_of(url: Column) -> Column:
    """Return the path in a URL of Spark, such as ``/a b+c.txt`` for ``file:/a%20b+c.txt``."""
    path = F.regexp_replace(url, r"^file:/+", "/")
    return F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
