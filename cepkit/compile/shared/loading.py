"""Kernel source → compiled functions, kept on disk where every process of the user finds them again."""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType

from cepkit.cache import cache_folder
from cepkit.progress import checkpoint

_loading = threading.RLock()  # a module that another thread still compiles has no functions yet
_LOOK_S = 0.05  # a thread that waits for the compilation of another one runs a checkpoint this often


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
    checkpoint()
    while not _loading.acquire(timeout=_LOOK_S):
        checkpoint()
    try:
        return _loaded(text, names or {})
    finally:
        _loading.release()


def _loaded(text: str, names: Mapping[str, Callable]) -> ModuleType:
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
    # The first kernel imports numba: a million objects that stay, which the collector would visit in vain.
    collecting = gc.isenabled()
    gc.disable()
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        if collecting:
            gc.enable()
    return module
