"""The folder that `ingest` fills: replaced as a whole or not at all, and never one that is not its own."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path

from cepkit.errors import CepError

EVENTS, QUARANTINE, QUALITY = "events", "quarantine", "quality.json"
MADE_BY = "cepkit ingest"
MODES = ("replace", "error")


class TargetError(CepError, FileExistsError):
    """The target cannot be written: it is something else, or it exists and must not be replaced."""


def target_folder(target: str | PathLike, *, mode: str = "replace") -> Path:
    """Return the target as a path, after checking that a result may be put there.

    Parameters
    ----------
    target : str or path
        A folder on a file system of this machine that is absent, empty, or an earlier result of `ingest`.
    mode : {"replace", "error"}
        What happens to an earlier result.

    Raises
    ------
    TargetError
        When it is something else; nothing in it is touched.
    """
    if mode not in MODES:
        raise TargetError(f"mode {mode!r} is not one of {', '.join(map(repr, MODES))}")
    text = fspath(target)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        raise TargetError(
            f"target {text!r} is not on a file system of this machine, where a result can be replaced as a "
            "whole. Write to a folder, then copy it"
        )
    folder = Path(text).expanduser().resolve()
    _put_back(folder)
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise TargetError(f"target {text!r} is a file; expected a folder")
    names = {entry.name for entry in folder.iterdir()}
    if not names:
        return folder
    strangers = sorted(names - {EVENTS, QUARANTINE, QUALITY})
    if strangers or not is_result(folder):
        found = f"it holds {', '.join(strangers[:3] or sorted(names)[:3])}"
        raise TargetError(
            f"target {text!r} is not a result of `cepkit ingest` ({found}), and is left as it is"
        )
    if mode == "error":
        raise TargetError(f"target {text!r} holds a result already; mode='replace' replaces it")
    return folder


def is_result(folder: Path) -> bool:
    """Tell whether a folder is the result of `ingest`."""
    try:
        report = json.loads((folder / QUALITY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(report, dict) and report.get("made_by") == MADE_BY


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give an empty folder beside ``folder`` to fill; at the end put it in its place, on an error remove it.

    An earlier ``folder`` stays until then. If the program dies between taking it away and putting the new one
    in its place, the next `target_folder` puts the earlier one back.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
    unfinished = folder.with_name(f".{folder.name}.unfinished-{mark}")
    earlier = folder.with_name(f".{folder.name}.earlier-{mark}")
    unfinished.mkdir()
    try:
        yield unfinished
        if folder.exists():
            folder.rename(earlier)
        unfinished.rename(folder)
    except BaseException:
        _put_back(folder)
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    shutil.rmtree(earlier, ignore_errors=True)


def _put_back(folder: Path) -> None:
    """Undo a replacement that was cut off after the earlier folder was taken away."""
    if folder.exists() or not folder.parent.is_dir():
        return
    earlier = [p for p in folder.parent.iterdir() if p.name.startswith(f".{folder.name}.earlier-")]
    if earlier:
        max(earlier, key=lambda path: path.stat().st_mtime_ns).rename(folder)
