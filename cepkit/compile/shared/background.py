"""Compile kernels in a process of its own, so that the next run finds them. It has the lowest priority.

A thread would not do: numba holds the interpreter's lock while it compiles, and loads into this process.
``CEPKIT_BACKGROUND=0`` switches this off.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from pathlib import Path

from cepkit.cache import cache_path, lock_folder
from cepkit.errors import CepError

# Linux shares the processor among sessions first. Within its own session a niceness has no effect.
_PROGRAM = """
import contextlib, json, os, sys
sys.path[:], what, name = json.loads(sys.argv[1])
if hasattr(os, "nice"):
    os.nice(10)
with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as niceness:
    niceness.write("19")
from cepkit.compile.shared import loading
if what == "kernels":
    loading.load_kernels(name, quick=False)
else:
    loading.load_requests(name)
"""
_running: list[subprocess.Popen] = []
_begun: set[str] = set()


@atexit.register
def _let_go() -> None:
    """Forget the process: it continues after this one and ends by itself. Popen would warn of it."""
    for process in _running:
        process.returncode = 0


def compile_in_background(what: str, name: str) -> bool:
    """Begin to compile a module of kernels, and return whether this began now.

    At most one such process works for a cache folder, whichever process began it: it inherits a lock of the
    folder, which ends with it. A module whose turn does not come is compiled after a later run.
    """
    is_begun = what == "kernels" and name in _begun  # in vain
    if os.environ.get("CEPKIT_BACKGROUND", "1") == "0" or not sys.executable or is_begun:
        return False
    _running[:] = [process for process in _running if process.poll() is None]
    if _running:
        return False
    lock = None
    try:
        lock = lock_folder(Path(name) if what == "texts" else cache_path())
        _begun.add(name)
        _running.append(_begin(what, name, () if lock is None else (lock,)))
    except (CepError, OSError):  # no home folder, another process works, or none can begin
        return False
    finally:
        if lock is not None:
            os.close(lock)
    return True


def _begin(what: str, name: str, open_files: tuple[int, ...]) -> subprocess.Popen:
    """Begin the process, which inherits open files."""
    paths = [str(Path(path).resolve()) for path in sys.path]
    none = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, json.dumps([paths, what, name])],
        env={**os.environ, "CEPKIT_BACKGROUND": "0"}, stdin=none, stdout=none, stderr=none,
        start_new_session=True, pass_fds=open_files,
    )  # fmt: skip
