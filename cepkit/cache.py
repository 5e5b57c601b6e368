"""The user's own folder in which compiled kernels and parsers' tables are kept between processes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cepkit.errors import CepError


def cache_folder() -> Path:
    """Return the folder of compiled kernels and parsers' tables; create it if it is missing.

    The environment variable ``CEPKIT_CACHE`` sets it; the default is ``cepkit/kernels`` in the user's cache.

    Raises
    ------
    CepError
        If others than the user own the folder or may write to it, because its files are run as code.
    """
    named = os.environ.get("CEPKIT_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else home / "cepkit" / "kernels"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CepError(
            f"the kernel cache {folder} cannot be created ({error.strerror}); "
            "set CEPKIT_CACHE to a folder of yours"
        ) from error
    if hasattr(os, "getuid"):
        found = folder.stat()
        if found.st_uid != os.getuid():
            raise CepError(
                f"the kernel cache {folder} belongs to another user; set CEPKIT_CACHE to a folder of yours"
            )
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CepError(
                f"the kernel cache {folder} can be written by others, and its files are run as code; "
                f"remove that permission (chmod go-w {folder}) or set CEPKIT_CACHE to a folder of yours"
            )
    return folder
