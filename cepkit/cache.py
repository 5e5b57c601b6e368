"""The folder of the user's own where compiled kernels and parsers' tables are kept between processes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cepkit.errors import CepError


def cache_folder() -> Path:
    """Return the folder of compiled kernels and parsers' tables, made if need be.

    ``CEPKIT_CACHE`` names it, else it is ``cepkit/kernels`` in the user's cache folder.

    Raises
    ------
    CepError
        When others than the user own it or may write to it: its files are code that runs.
    """
    named = os.environ.get("CEPKIT_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else home / "cepkit" / "kernels"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CepError(
            f"the kernel cache {folder} cannot be made ({error.strerror}); "
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
                f"take that right away (chmod go-w {folder}) or set CEPKIT_CACHE to a folder of yours"
            )
    return folder
