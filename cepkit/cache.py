"""The user's own folders for what is kept between processes: compiled kernels, parsers' tables, launchers."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cepkit.errors import CepError

KERNELS = "kernels"


class UnsafeFolderError(CepError, PermissionError):
    """A folder or file with code that runs belongs to another user, or others can write it."""


def cache_path(name: str = KERNELS, environment: Mapping[str, str] | None = None) -> Path:
    """Return where a cache folder lies.

    Parameters
    ----------
    name : str
        ``kernels`` for compiled kernels and parsers' tables. Other folders lie beside the kernels.
    environment : mapping of str to str, optional
        The environment to look at; None: that of the process. ``CEPKIT_CACHE`` names the folder of kernels;
        without it, all folders lie in ``cepkit`` in the user's cache folder.

    Examples
    --------
    >>> cache_path("java-21", {"CEPKIT_CACHE": "/own"}).as_posix(), cache_path("java-21", {}).parts[-2:]
    ('/own/java-21', ('cepkit', 'java-21'))
    """
    environment = os.environ if environment is None else environment
    named = environment.get("CEPKIT_CACHE")
    if named:
        folder = Path(named).expanduser()
        return folder if name == KERNELS else folder / name
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "cepkit" / name


def cache_folder(name: str = KERNELS) -> Path:
    """Return a cache folder of the user, see `cache_path`; make it if there is none.

    Raises
    ------
    CepError
        When it cannot be made.
    UnsafeFolderError
        When it belongs to another user, or others can write it: its files are code that runs.
    """
    return private_folder(cache_path(name))


def private_folder(folder: Path) -> Path:
    """Return a folder that only the user can write; make it if there is none. Raises as `cache_folder`."""
    try:
        for own in (folder.parent, folder):
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CepError(
            f"the cache folder {folder} cannot be made ({error.strerror}); "
            "set CEPKIT_CACHE to a folder of yours"
        ) from error
    check_private(folder)
    return folder


def write_whole(path: Path, content: bytes) -> None:
    """Write a file of a cache. Other processes never see a part of it, and several may write it at once.

    Raises
    ------
    CepError
        When the folder cannot be written, or the disk is full.
    """
    part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CepError(
            f"the cache folder {path.parent} cannot be written ({error.strerror}); "
            "set CEPKIT_CACHE to a folder of yours"
        ) from error


def check_private(path: Path) -> None:
    """Raise UnsafeFolderError when a file or folder belongs to another user, or others can write it."""
    if not hasattr(os, "getuid"):
        return
    found = path.stat()
    if found.st_uid != os.getuid():
        raise UnsafeFolderError(
            f"{path} in the cache belongs to another user; set CEPKIT_CACHE to a folder of yours"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFolderError(
            f"{path} in the cache can be written by others, and its files are run as code; "
            f"take that right away (chmod go-w {path}) or set CEPKIT_CACHE to a folder of yours"
        )
