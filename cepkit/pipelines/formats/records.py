"""Text files as one row per record, with its file and line. This module knows no format."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from cepkit.errors import CepError, nearest, reason_of, short_text
from cepkit.pipelines import spark_functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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
    """Return one row per record of text files.

    Spark does not number lines. Its row ids rise within a task, and a task reads a piece of a file from the
    beginning to the end. So the line is the place of the row in its piece, plus the lines of the pieces
    before, which one extra pass counts.
    """
    from pyspark.sql.window import Window

    scanned = _scan(spark, files, separator)
    n_lines = F.lit(1) if separator is None else _n_newlines(F.concat("value", F.lit(separator)))
    rows = scanned.select(
        F.col("_metadata.file_path").alias("url"),
        F.col("_metadata.file_block_start").alias("split"),
        F.monotonically_increasing_id().alias("row"),
        n_lines.cast("long").alias("n_lines"),
        F.col("value").alias("text"),
    )
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
        _path_of(F.col("url")).alias("source_file"),
        line.alias("source_line"),
        "split",
        "row",
        F.when(line == 1, F.ltrim(text, F.lit(_BYTE_ORDER_MARK))).otherwise(text).alias("text"),
        F.when(~F.is_valid_utf8("text"), NOT_UTF8).alias("reason"),
    )


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
    if _URL.match(part):
        return [part]
    try:
        found = [file.resolve() for file in _found(part)]
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, or no such home folder
        if isinstance(error, CepError):
            raise
        raise SourceNotFoundError(f"source: no file {short_text(repr(part))}: {reason_of(error)}") from None
    hidden = [str(file) for file in found if file.name[0] in "._"]
    if hidden:
        raise SourceNotFoundError(
            f"source: Spark does not read files whose names begin with '.' or '_': {', '.join(hidden)}. "
            "Rename them."
        )
    if refused := _shown([file for file in found if ":" in str(file)]):
        raise SourceNotFoundError(
            f"source: Spark does not read files with ':' in their path, as it takes what is before the colon "
            f"for the name of a file system: {refused}. Rename them"
        )
    if secret := _shown([file for file in found if not os.access(file, os.R_OK)]):
        raise SourceNotFoundError(f"source: no permission to read {secret}")
    return [str(file) for file in found]


def _found(part: str) -> list[Path]:
    path = Path(part).expanduser()
    if "\0" in part:  # `is_file` says no, in silence
        raise ValueError("a name cannot have the character NUL")
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
        if not found:
            raise SourceNotFoundError(f"source: folder {part!r} has no files{_subfolders(path)}")
    elif path.is_file():
        found = [path]
    else:
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
        if not found:
            beside = [f.name for f in path.parent.iterdir()] if path.parent.is_dir() else []
            raise SourceNotFoundError(f"source: no file {part!r}.{nearest(path.name, beside)}")
    return found


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
