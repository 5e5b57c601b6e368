"""The target folder of `ingest`, replaced as a whole or not at all, and the report of an ingestion."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from pathlib import Path

from cepkit.cache import lock_folder
from cepkit.errors import CepError, reason_of, short_text

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
    """Yield an empty folder that replaces ``folder`` at the end, or is removed after an error.

    An earlier ``folder`` stays until then. If the program dies, the next `target_folder` removes the
    unfinished folder, and it restores the earlier one where the program died between the two renames.
    """
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
    """Write the report as JSON."""
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
        f"{report.format}: {_shown(report.source)} -> {report.target}",
        line("files read", report.n_files),
        line("records", report.n_records),
        *([line("no rows", report.n_structure, "headers and the like")] if report.n_structure else []),
        line("rows", n_rows),
        line("  events", n_events, str(Path(report.target) / EVENTS), n_rows),
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
    ]
    return "\n".join(lines)


def _shown(value: object) -> str:
    """Return a value as a short text, with the first items of a list and their number."""
    if not isinstance(value, list | tuple):
        return f"{value:,}" if isinstance(value, int) else str(value)
    first = ", ".join(str(item) for item in value[:5])
    return first if len(value) <= 5 else f"{first}, … ({len(value)} in all)"
