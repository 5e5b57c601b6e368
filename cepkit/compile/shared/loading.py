"""Compile kernel source into functions, cached on disk for all processes of the user."""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from cepkit.cache import cache_folder
from cepkit.compile.shared.images import image_path, read_image, write_image
from cepkit.progress import checkpoint

_loading = threading.RLock()  # a module that another thread still compiles has no functions yet
_images: dict[str, SimpleNamespace] = {}  # functions in machine code by the name of their module
_LOOK_S = 0.05  # a thread that waits for the compilation of another one runs a checkpoint this often


def load(text: str, names: Mapping[str, Callable] | None = None) -> ModuleType:
    """Return the module made from kernel source, compiled now or loaded from the cache.

    Parameters
    ----------
    text : str
        Text of the module; its functions are compiled when it is imported.
    names : mapping of str to callable, optional
        User functions that the module calls. Such a module is compiled again in every process, because a
        cache does not notice when their helpers change.

    Returns
    -------
    module
        The same object for the same text and functions within a process.

    Notes
    -----
    A file is named by the hash of its text. It is written once and moved into place as a whole, so several
    processes can share the folder. The module is entered into ``sys.modules`` before it runs, because numba's
    cache finds functions by the name of their module.
    """
    checkpoint()
    while not _loading.acquire(timeout=_LOOK_S):
        checkpoint()
    try:
        return _load_once(text, names or {})
    finally:
        _loading.release()


def is_ready(text: str) -> bool:
    """Return whether the module made from kernel source is compiled already, now or by an earlier process."""
    name = f"cepkit_kernel_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if name in sys.modules or name in _images:
        return True
    path = image_path(name)
    return path.exists() if path is not None else (cache_folder() / f"{name}.py").exists()


@cache
def load_kernels(name: str) -> Any:
    """Return the functions of the module ``name`` with hand-written kernels, without numba if possible.

    Every kernel of the module has the types of its arguments in its decorator.
    """
    checkpoint()
    if image_path(name) is None:
        return importlib.import_module(name)
    path = Path(importlib.util.find_spec(name).origin)
    image = f"cepkit_{name.split('.')[-1]}_{hashlib.sha256(path.read_bytes()).hexdigest()[:24]}"
    with _loading:
        if (found := read_image(image)) is not None:
            return found
        module = importlib.import_module(name)
        write_image(image, module)
        return module


def _load_once(text: str, names: Mapping[str, Callable]) -> ModuleType:
    key = hashlib.sha256(text.encode()).hexdigest()[:24]
    own = "".join(f"_{id(function):x}" for function in names.values())
    name = f"cepkit_kernel_{key}{own}"
    if name in sys.modules:
        return sys.modules[name]
    if name in _images:
        return _images[name]
    if not names and "numba" not in sys.modules and (image := read_image(name)) is not None:
        _images[name] = image
        return image
    path = cache_folder() / f"cepkit_kernel_{key}.py"
    # numba recognises a stale cache by the file's time and size, so the file is never written again.
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text)
        os.replace(part, path)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(names)
    sys.modules[name] = module
    # The first kernel imports numba: a million permanent objects, which the garbage collector can skip.
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
    if not names:
        write_image(name, module)
    return module
