"""Write a file completely or not at all, in the place that a path names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cepkit.errors import CepError, WrongTypeError, reason_of, short_text

_KINDS = (
    (stat.S_ISFIFO, "a pipe"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)  # fmt: skip


class UnwritableFileError(CepError, OSError):
    """The result cannot be written to this path."""


def file_of(what: str, path: str | os.PathLike) -> Path:
    """Return ``path``, the argument of the call ``what``, as the path of a file."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise WrongTypeError(f"{what}: path={short_text(repr(path))}: give the name of a file")
    target = Path(path)
    if not target.name or "\0" in str(target):
        raise CepError(f"{what}: path={short_text(repr(path))}: give the name of a file")
    if os.path.isdir(target):
        raise CepError(f"{what}: {target} is a folder; give the name of a file")
    return target


def file_to_write(path: str | os.PathLike, name: object = None) -> Path:
    """Return the file that a path names: the path itself, or the target of a symbolic link."""
    name = str(path) if name is None else name
    try:
        path = Path(path)
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UnwritableFileError(f"{name} cannot be written: {reason_of(error)}") from None
    if stat.S_ISDIR(mode):
        raise UnwritableFileError(f"{name} is a folder; give the name of a file")
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no file")
        raise UnwritableFileError(
            f"{name} is {kind}, and a written file would take its place. Give the name of a file, or write "
            f"to the standard output and redirect it: `cepkit match … --out - > {path}`"
        )
    return target


@contextmanager
def replace_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yield the path of a part to write. The part becomes the file when the block ends without an error.

    The part lies in the folder of the file. Nothing is left of it after an error.
    """
    target = file_to_write(path)
    if not os.path.isdir(target.parent):
        raise UnwritableFileError(
            f"{path} cannot be written: there is no folder {str(target.parent)!r}; make it first"
        )
    part = target.with_name(f".{os.urandom(8).hex()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except CepError:
        raise
    except OSError as error:
        raise UnwritableFileError(f"{path} cannot be written: {reason_of(error)}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
