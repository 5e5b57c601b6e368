"""Kernel source → compiled functions, kept on disk where every process of the user finds them again."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from cepkit.errors import CepError


def cache_folder() -> Path:
    """Return the folder of the compiled kernels, made if need be.

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


def load(text: str, names: Mapping[str, Callable] | None = None) -> ModuleType:
    """Return the module made from kernel source, compiled at once or loaded from the cache.

    Parameters
    ----------
    text : str
        The module; its functions are compiled when it is imported.
    names : mapping of str to callable, optional
        User functions that the module calls; such a module is compiled anew in every process, since nothing
        tells a cache when their helpers change.

    Returns
    -------
    module
        The same object for the same text and functions within a process.

    Notes
    -----
    A file is written once under the hash of its text and moved into place whole, so that several processes
    can share the folder. The module is entered into ``sys.modules`` before it runs: numba's cache finds
    functions by the name of their module.
    """
    names = names or {}
    key = hashlib.sha256(text.encode()).hexdigest()[:24]
    own = "".join(f"_{id(function):x}" for function in names.values())
    name = f"cepkit_kernel_{key}{own}"
    if name in sys.modules:
        return sys.modules[name]
    path = cache_folder() / f"cepkit_kernel_{key}.py"
    # numba tells a stale cache by the time and size of the file, so it is never written again.
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text)
        os.replace(part, path)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(names)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
