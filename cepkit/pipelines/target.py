"""The target folder of `ingest`: replaced as a whole or not at all, and only if it is an earlier result."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path

from cepkit.cache import lock_folder
from cepkit.errors import CepError, reason_of, short_text

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
    parent = next(one for one in [*folder.parents, folder] if one.exists())
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
        found = f"it has {', '.join(strangers[:3] or sorted(names)[:3])}"
        raise TargetError(f"target {text!r} is not a result of `cepkit ingest` ({found}); it is not changed")
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
    for left in [one for one in folder.parent.iterdir() if one.name.startswith(tuple(kinds))]:
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
