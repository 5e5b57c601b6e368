"""``cepkit ingest``: original files to typed, time-ordered Parquet, with a quarantine and a report."""

from __future__ import annotations

import datetime
import inspect
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from cepkit.cache import lock_folder
from cepkit.errors import CepError, nearest, reason_of, short_text
from cepkit.pipelines.casas import CASAS, CASAS_FEATURES
from cepkit.pipelines.format import (
    STRUCTURE,
    F,
    Format,
    SourceNotFoundError,
    UnknownFormatError,
    count_records,
    read_records,
    source_files,
)
from cepkit.pipelines.spark_session import setting, spark_session
from cepkit.pipelines.stages import TWEETS, quoted
from cepkit.pipelines.tables import CITYBENCH, DEBS2013, EODDATA, INET, NASDAQ100, SIRI
from cepkit.progress import watch_spark
from cepkit.values import asdict, dataclass, field

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# The target folder of `ingest`: replaced as a whole or not at all, and only if it is an earlier result.

EVENTS, QUARANTINE, QUALITY = "events", "quarantine", "quality.json"
MADE_BY = "cepkit ingest"
MODES = ("replace", "error")


class TargetError(CepError, FileExistsError):
    """The target is not a result of `ingest`, or it must not be replaced."""


class UnwritableTargetError(CepError, OSError):
    """The target cannot be written: no permission, a full disk, or a name that no folder can have."""


def target_folder(target: str | PathLike, *, mode: str = "replace") -> Path:
    """Return the target as a path; raise an error unless a result may be written there."""
    if mode not in MODES:
        raise TargetError(f"mode {mode!r} is not one of {', '.join(map(repr, MODES))}")
    text = fspath(target)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        raise TargetError(
            f"target {text!r} is not on a file system of this machine, where a result can be replaced as a "
            "whole. Write to a folder, then copy it"
        )
    with said_of_target(text):
        return _checked(text, mode)


@contextmanager
def said_of_target(target: str | PathLike) -> Iterator[None]:
    """Raise UnwritableTargetError for errors of the operating system in the block."""
    try:
        yield
    except CepError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, or no such home folder
        shown = short_text(repr(fspath(target)))
        raise UnwritableTargetError(f"target {shown} cannot be written: {reason_of(error)}") from error


def _checked(text: str, mode: str) -> Path:
    """Return the folder of a target. Raise if it cannot be written."""
    folder = Path(text).expanduser().resolve()
    parent = next(ancestor for ancestor in [*folder.parents, folder] if ancestor.exists())
    if not parent.is_dir():
        raise TargetError(f"target {text!r} is inside {str(parent)!r}, which is a file; expected a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UnwritableTargetError(
            f"target {text!r} cannot be written: the folder {str(parent)!r} is not writable"
        )
    _restore(folder)
    _remove_left(folder)
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise TargetError(f"target {text!r} is a file; expected a folder")
    names = {entry.name for entry in folder.iterdir()}
    if not names:
        return folder
    strangers = sorted(names - {EVENTS, QUARANTINE, QUALITY})
    if strangers or not is_result(folder):
        contents = f"it has {', '.join(strangers[:3] or sorted(names)[:3])}"
        raise TargetError(
            f"target {text!r} is not a result of `cepkit ingest` ({contents}); it is not changed"
        )
    if mode == "error":
        raise TargetError(f"target {text!r} already has a result; mode='replace' replaces it")
    return folder


def is_result(folder: Path) -> bool:
    """Return whether a folder is a result of `ingest`."""
    try:
        report = json.loads((folder / QUALITY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # too many brackets
        return False
    return isinstance(report, dict) and report.get("made_by") == MADE_BY


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces ``folder`` at the end, or is removed after an error."""
    # An earlier ``folder`` stays until then. If the program dies, the next `target_folder` removes the
    # unfinished folder, and it restores the earlier one where the program died between the two renames.
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
    unfinished = folder.with_name(f".{folder.name}{_UNFINISHED}{mark}")
    earlier = folder.with_name(f".{folder.name}{_EARLIER}{mark}")
    with said_of_target(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
    lock = lock_folder(unfinished)
    try:
        yield unfinished
        with said_of_target(folder):
            if folder.exists():
                folder.rename(earlier)
            unfinished.rename(folder)
    except BaseException:
        with suppress(OSError):
            _restore(folder)
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)
    shutil.rmtree(earlier, ignore_errors=True)


_UNFINISHED, _EARLIER = ".unfinished-", ".earlier-"


def _remove_left(folder: Path) -> None:
    """Remove the unfinished folders of runs that were killed, but not that of a run that still works."""
    if not folder.parent.is_dir():
        return
    kinds = [f".{folder.name}{_UNFINISHED}"]
    if folder.exists():  # otherwise an earlier result may still be restored
        kinds.append(f".{folder.name}{_EARLIER}")
    for left in [entry for entry in folder.parent.iterdir() if entry.name.startswith(tuple(kinds))]:
        with suppress(BlockingIOError):
            lock = lock_folder(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)


def _restore(folder: Path) -> None:
    """Restore the earlier folder when a replacement stopped between its two renames."""
    if folder.exists() or not folder.parent.is_dir():
        return
    earlier = [p for p in folder.parent.iterdir() if p.name.startswith(f".{folder.name}{_EARLIER}")]
    if earlier:
        max(earlier, key=lambda path: path.stat().st_mtime_ns).rename(folder)


# The report of an ingestion as numbers and as a table.


class AccountingError(CepError, RuntimeError):
    """The numbers of rows differ: rows were lost or added on the way."""


class ReportNotFoundError(CepError, FileNotFoundError):
    """A folder has no result of `ingest`."""


@dataclass(frozen=True, slots=True)
class QualityReport:
    """The numbers of rows that `ingest` read, wrote and left out.

    ``n_rows == n_events + n_quarantined + n_duplicates`` always holds.
    """

    format: str
    source: tuple[str, ...]  # source as given by the user
    target: str
    n_files: int  # number of files
    n_records: int  # number of records: lines, or entries of XML
    # Number of parts of the files that are no rows: the header of a table, the feed around entries.
    n_structure: int
    n_rows: int  # number of rows: one per record, or one per cell of a wide table
    n_events: int  # rows written to ``TARGET/events``
    n_quarantined: int  # rows written to ``TARGET/quarantine``
    n_duplicates: int  # rows left out because all their values equal those of an earlier row
    # Events older than an event before them in their file; they are kept. In formats that begin with the
    # newest row, "before" means further down.
    n_late: int
    # Written events that are equal to another one in the key and all order columns. If it is not 0, the order
    # needs more columns; ``source_file`` and ``source_line`` always complete it.
    n_ties: int
    n_keys: int  # distinct values of ``partition_by``
    # first, last: time of the first and the last event, ISO 8601, with ``Z`` for instants
    first: str | None
    last: str | None
    reasons: Mapping[str, int]  # rows in quarantine by reason, most frequent first
    partition_by: str  # the key of the events, as for ``df.cep.match``
    order_by: tuple[str, ...]  # columns that order the events of a key, as for ``df.cep.match``
    columns: Mapping[str, str]  # columns of the events with their Spark types
    period: str  # column of the folders of files: ``day``, ``month`` or ``year``, each by its first day
    n_folders: int
    n_data_files: int
    options: Mapping[str, str] = field(default_factory=dict)  # options given by the user
    notes: Mapping[str, object] = field(default_factory=dict)  # further numbers and texts of the format

    def __str__(self) -> str:
        return quality_report_text(self)

    __repr__ = __str__


def write_report(report: QualityReport, path: Path) -> None:
    path.write_text(
        json.dumps({"made_by": MADE_BY, **asdict(report)}, indent=2, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )


def read_report(target: str | PathLike) -> QualityReport:
    """Return the report of the result in a folder."""
    path = Path(target).expanduser() / QUALITY
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("made_by") != MADE_BY:
            raise KeyError("made_by")
        return QualityReport(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ReportNotFoundError(
            f"{str(target)!r} has no result of `cepkit ingest` (no readable {QUALITY})"
        ) from error


def quality_report_text(report: QualityReport) -> str:
    """Return the report as the table that ``cepkit ingest`` prints."""

    def line(label: str, count: int | None, remark: str = "", of: int | None = None) -> str:
        number = "" if count is None else f"{count:,}"
        share = "" if of is None else f"{100 * count / of if of else 0:.2f} %"
        return f"  {label:<15}{number:>10}{share:>10}   {remark}".rstrip()

    n_rows, n_events, key, order = report.n_rows, report.n_events, report.partition_by, list(report.order_by)
    lines = [
        f"{report.format}: {_shown(report.source)} -> {report.target}", line("files read", report.n_files),
        line("records", report.n_records),
        *([line("no rows", report.n_structure, "headers and the like")] if report.n_structure else []),
        line("rows", n_rows), line("  events", n_events, str(Path(report.target) / EVENTS), n_rows),
        line("  quarantined", report.n_quarantined, str(Path(report.target) / QUARANTINE), n_rows),
        *(f"{count:>15,}  {reason}" for reason, count in report.reasons.items()),
        line("  duplicates", report.n_duplicates, "equal in every value, left out", n_rows),
        line("late events", report.n_late, "older than one before them in their file, kept", n_rows),
        line("ties", report.n_ties, f"partition_by={key!r}, order_by={order}", n_events),
        line("keys", report.n_keys, key),
        line("time", None, f"{report.first} to {report.last}" if report.first else "no events"),
        line("files written", report.n_data_files, f"by {report.period}, folders: {report.n_folders:,}"),
        line("columns", None, ", ".join(f"{name} {kind}" for name, kind in report.columns.items())),
        *(f"  option {name}: {value}" for name, value in report.options.items()),
        *(f"  {name}: {_shown(value)}" for name, value in report.notes.items()),
    ]  # fmt: skip
    return "\n".join(lines)


def _shown(value: object) -> str:
    """Return a value as a short text, with the first items of a list and their number."""
    if not isinstance(value, list | tuple):
        return f"{value:,}" if isinstance(value, int) else str(value)
    first = ", ".join(str(item) for item in value[:5])
    return first if len(value) <= 5 else f"{first}, … ({len(value)} in all)"


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        INET, EODDATA, NASDAQ100, TWEETS, CITYBENCH, CASAS, CASAS_FEATURES, DEBS2013, SIRI,
    )
}  # fmt: skip

PERIODS = ("day", "month", "year")
ROWS_PER_FILE = 2_000_000  # limit, so that one task can sort a file in memory
ROWS_PER_FOLDER = 50_000  # least average; with fewer rows, folders are for longer periods

PROVENANCE = {"source_file": "string", "source_line": "bigint"}
QUARANTINE_COLUMNS = {**PROVENANCE, "text": "string", "reason": "string"}

log = logging.getLogger("cepkit")


def ingest(
    format: str, source: str | PathLike | Iterable[str | PathLike], target: str | PathLike, *,
    spark: SparkSession | None = None, mode: str = "replace", period: str | None = None,
    **options: object,
) -> QualityReport:  # fmt: skip
    """Read original files, write their events as Parquet, and return a report.

    No row is lost: each becomes an event, goes to the quarantine with a reason, or counts as a duplicate.
    The target appears whole at the end; when the run fails, an earlier result stays.

    About eight Spark jobs. The rows are cached between them and pass through two shuffles (duplicates,
    order). The target must be on a file system that this Python and Spark share.
    """
    chosen = _find_format(format)
    values = chosen.read_options(options)
    if period is not None and period not in PERIODS:
        raise UnknownFormatError(f"period {period!r} is not one of {', '.join(PERIODS)}")
    files = source_files(source)
    folder = target_folder(target, mode=mode)
    inside = [file for file in files if Path(file).is_relative_to(folder)]
    if inside:
        raise SourceNotFoundError(f"source {inside[0]!r} is inside the target, which the run would replace")
    arguments = {
        "source": _names(source),
        "target": fspath(target),
        "options": {name: str(value) for name, value in options.items()},
    }
    spark = spark_session() if spark is None else spark
    with watch_spark("Spark tasks"), setting(spark, *_INTEGER_INSTANTS), replacing(folder) as unfinished:
        report = _ingest(spark, chosen, files, values, unfinished, period, arguments)
        with said_of_target(folder):
            write_report(report, unfinished / QUALITY)
    log.info("%s", report)
    return report


def read_events(target: str | PathLike, *, spark: SparkSession | None = None) -> DataFrame:
    """Return the events of a result as a Spark frame with the types in the report."""
    report = read_report(target)
    return _read(spark, Path(target) / EVENTS, {**report.columns, report.period: "date"})


def read_quarantine(target: str | PathLike, *, spark: SparkSession | None = None) -> DataFrame:
    """Return the rows that `ingest` could not read: source_file, source_line, text, reason."""
    read_report(target)  # raises unless `ingest` wrote the folder
    return _read(spark, Path(target) / QUARANTINE, QUARANTINE_COLUMNS)


def _ingest(
    spark: SparkSession, format: Format, files: list[str], options: dict[str, object], folder: Path,
    period: str | None, arguments: dict[str, object],
) -> QualityReport:  # fmt: skip
    """Read raw files, write the table and its quarantine, and return the report."""
    records = read_records(spark, files, separator=format.separator)
    rows = format.parse(records, **_pick_options(format.parse, options)).persist()
    good = rows.where(F.col("reason").isNull())
    kept = _drop_duplicates(good, format).persist()
    try:
        n_records = count_records(spark, files, separator=format.separator)
        rows_of_reason, n_records_seen = _reasons(rows)
        n_good, n_structure = rows_of_reason.pop(None, 0), rows_of_reason.pop(STRUCTURE, 0)
        n_quarantined = sum(rows_of_reason.values())
        n_late, n_of_period = _late_and_periods(good, format)
        period = period or _period(n_good, n_of_period)
        n_kept, n_copies = kept.agg(F.count("*"), F.coalesce(F.sum("n_copies"), F.lit(0))).first()
        _must_equal("records read and records parsed", n_records, n_records_seen)
        _must_equal("rows parsed and events with their duplicates", n_good, n_kept + n_copies)
        events, notes = kept, {}
        if format.finish:
            events, notes = format.finish(kept, **_pick_options(format.finish, options))
        columns = {**format.columns, **PROVENANCE}
        _write_events(events.select(*columns), format, period, n_kept, folder / EVENTS)
        _write_quarantine(rows, n_quarantined, folder / QUARANTINE)
    finally:
        kept.unpersist()
        rows.unpersist()
    written = _check_events(spark, format, {**columns, period: "date"}, folder / EVENTS)
    n_in_quarantine = _read(spark, folder / QUARANTINE, QUARANTINE_COLUMNS).count()
    _must_equal("events found and events written", n_kept, written["n_events"])
    _must_equal("rows without an event and rows in quarantine", n_quarantined, n_in_quarantine)
    return QualityReport(
        format=format.name, n_files=len(files), n_records=n_records, n_structure=n_structure,
        n_rows=n_good + n_quarantined, n_quarantined=n_in_quarantine, n_duplicates=n_copies,
        n_late=n_late, reasons=rows_of_reason, partition_by=format.partition_by, order_by=format.order_by,
        columns=columns, period=period, n_folders=len(list((folder / EVENTS).glob(f"{period}=*"))),
        n_data_files=len(list((folder / EVENTS).rglob("*.parquet"))), notes=notes, **written, **arguments,
    )  # fmt: skip


def _reasons(rows: DataFrame) -> tuple[dict[str | None, int], int]:
    """Return the number of rows by reason, most frequent first, and the number of records they come from."""
    n_records = F.count_if(F.col("piece") == 0).alias("n_records")
    counts = rows.groupBy("reason").agg(F.count("*").alias("n"), n_records)
    reasons = sorted(counts.collect(), key=lambda row: (-row.n, row.reason or ""))
    return {row.reason: row.n for row in reasons}, sum(row.n_records for row in reasons)


def _late_and_periods(good: DataFrame, format: Format) -> tuple[int, dict[str, int]]:
    """Return the number of rows older than one before them in their file, and of days, months and years."""
    # Several tasks read a file in pieces, so the newest earlier row may be in an earlier piece.
    from pyspark.sql.window import Window

    def in_reading_order(*columns: str) -> list[Column]:
        return [F.desc(c) if format.newest_first else F.asc(c) for c in columns]

    before = (Window.unboundedPreceding, -1)
    rows_before = (
        Window.partitionBy("source_file", "split")
        .orderBy(*in_reading_order("row", "piece"))
        .rowsBetween(*before)
    )
    pieces_before = Window.partitionBy("source_file").orderBy(*in_reading_order("split")).rowsBetween(*before)
    newest_of_piece = good.groupBy("source_file", "split").agg(F.max(format.clock).alias("newest"))
    newest_before_piece = newest_of_piece.select(
        "source_file", "split", F.max("newest").over(pieces_before).alias("newest_before_piece")
    )
    newest_before = F.greatest(F.max(format.clock).over(rows_before), "newest_before_piece")
    compared = good.join(F.broadcast(newest_before_piece), ["source_file", "split"]).select(
        (F.col(format.clock) < newest_before).alias("late"), _date(format).alias("day")
    )
    counts = compared.agg(
        F.count_if("late").alias("late"),
        *(F.count_distinct(F.trunc("day", period)).alias(period) for period in PERIODS[1:]),
        F.count_distinct("day").alias("day"),
    ).first()
    return counts.late, {period: counts[period] for period in PERIODS}


def _period(n_rows: int, n_of_period: Mapping[str, int]) -> str:
    """Return the shortest period with enough rows per folder, or the longest."""
    enough = (period for period in PERIODS if n_rows >= ROWS_PER_FOLDER * n_of_period[period])
    return next(enough, PERIODS[-1]) if n_rows else PERIODS[-1]


def _drop_duplicates(good: DataFrame, format: Format) -> DataFrame:
    """Return the first of all rows with equal values, with the number of its copies."""
    values = [name for name in format.columns if name in good.columns]
    first = F.min(F.struct("source_file", "source_line", "row", "piece"))
    return (
        good.groupBy(*values)
        .agg(first.alias("place"), (F.count("*") - 1).alias("n_copies"))
        .select(*values, "place.source_file", "place.source_line", "n_copies")
    )


def _write_events(events: DataFrame, format: Format, period: str, n_events: int, path: Path) -> None:
    """Write the events, in files by period."""
    order = [*format.order_by, *(c for c in (format.partition_by, *PROVENANCE) if c not in format.order_by)]
    first_day = _date(format) if period == "day" else F.trunc(_date(format), period)
    (
        events.withColumn(period, first_day)
        .repartitionByRange(_n_files(n_events), *order)
        .sortWithinPartitions(period, *order)
        .write.partitionBy(period)
        .option("compression", "zstd")
        .parquet(path.as_uri())
    )


def _write_quarantine(rows: DataFrame, n_rows: int, path: Path) -> None:
    """Write the records that are no events, with the reasons."""
    (
        rows.where(F.col("reason") != STRUCTURE)  # also drops rows without a reason, since NULL is not true
        .select(*(F.col(name).cast(kind).alias(name) for name, kind in QUARANTINE_COLUMNS.items()))
        .repartitionByRange(_n_files(n_rows), "source_file", "source_line")
        .sortWithinPartitions("source_file", "source_line")
        .write.option("compression", "zstd")
        .parquet(path.as_uri())
    )


def _n_files(n_rows: int) -> int:
    return max(1, -(-n_rows // ROWS_PER_FILE))


def _check_events(
    spark: SparkSession, format: Format, columns: Mapping[str, str], path: Path
) -> dict[str, object]:
    """Return the numbers of events, ties and keys, and the first and last time, from the written files."""
    if next(path.rglob("*.parquet"), None):
        dtypes = dict(spark.read.parquet(path.as_uri()).dtypes)
        _must_equal("column types promised and written", dict(columns), dtypes)
    of_place = _read(spark, path, columns).groupBy(format.partition_by, *format.order_by).count()
    is_instant = format.columns[format.clock] == "timestamp"
    clock = F.unix_micros(format.clock) if is_instant else F.col(format.clock).cast("string")
    totals = of_place.agg(
        F.coalesce(F.sum("count"), F.lit(0)),
        F.coalesce(F.sum(F.when(F.col("count") > 1, F.col("count"))), F.lit(0)),
        F.count_distinct(format.partition_by), F.min(clock), F.max(clock),
    ).first()  # fmt: skip
    first, last = (_instant(time) if is_instant and time is not None else time for time in totals[3:])
    return {"n_events": totals[0], "n_ties": totals[1], "n_keys": totals[2], "first": first, "last": last}


def _instant(microseconds: int) -> str:
    """Return microseconds since 1970 as ``2020-12-12 11:55:28.221000Z``."""
    time = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    return f"{time.isoformat(sep=' ')}Z"


def _date(format: Format) -> Column:
    """Return the day of an event by the wall clock or UTC, never by the session's time zone."""
    if format.columns[format.clock] == "timestamp_ntz":
        return F.to_date(format.clock)
    microseconds = F.unix_micros(format.clock)
    days = (microseconds - F.pmod(microseconds, F.lit(_DAY_US))) / _DAY_US
    return F.date_from_unix_date(days.cast("int"))


_DAY_US = 86_400_000_000
# Spark's default, INT96, has no statistics, so a filter would read everything.
_INTEGER_INSTANTS = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def _read(spark: SparkSession | None, path: Path, columns: Mapping[str, str]) -> DataFrame:
    """Return a table that was written, with its types."""
    spark = spark_session() if spark is None else spark
    # "timestamp" alone depends on the session's settings; here it always is an instant.
    instant = {"timestamp": "timestamp_ltz"}
    schema = ", ".join(f"{quoted(name)} {instant.get(kind, kind)}" for name, kind in columns.items())
    return spark.read.schema(schema).parquet(path.expanduser().resolve().as_uri())


def _must_equal(what: str, expected: object, found: object) -> None:
    """Raise if two counts of the same records differ."""
    if expected != found:
        raise AccountingError(
            f"{what} differ: {expected} and {found}. Did a file change while it was read? "
            "The target is unchanged"
        )


def _find_format(name: str) -> Format:
    if name not in FORMATS:
        advice = f"{nearest(str(name), FORMATS)} Formats: {', '.join(FORMATS)}"
        raise UnknownFormatError(f"unknown format {name!r}.{advice}")
    return FORMATS[name]


def _pick_options(function: Callable, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are parameters of ``function``."""
    return {name: value for name, value in options.items() if name in inspect.signature(function).parameters}


def _names(source: str | PathLike | Iterable[str | PathLike]) -> tuple[str, ...]:
    return (fspath(source),) if isinstance(source, str | PathLike) else tuple(fspath(part) for part in source)
