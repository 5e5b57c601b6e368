"""Work that can wait: it runs in a thread of its own, after the user has the first answers."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

from cepkit.progress import free_after_fork

_DELAY_S = 1.0
_waiting: list[Callable[[], object]] = []
_ending = threading.Event()
_thread: threading.Thread | None = None
_lock = threading.Lock()
_working = threading.Lock()  # LLVM has locks of its own, so a process must not fork while work runs
free_after_fork(_lock)
free_after_fork(_working)


def run_later(work: Callable[[], object]) -> None:
    """Call ``work`` in about a second, if the process lives that long. Works are called one by one."""
    global _thread
    with _lock:
        _waiting.append(work)
        if _thread is None or not _thread.is_alive():  # a forked process has no thread
            _thread = threading.Thread(target=_run, name="cepkit-later", daemon=True)
            _thread.start()


def _run() -> None:
    while not _ending.wait(_DELAY_S):
        if not _call_all():
            return


def _call_all() -> bool:
    """Call what waits, until the process ends; return whether anything waited."""
    n = 0
    while not _ending.is_set():
        with _lock:
            if not _waiting:
                break
            work = _waiting.pop(0)
        with _working:
            work()
        n += 1
    return n > 0


@atexit.register
def _end() -> None:
    """Wait for the work that runs now. Machine code in the making must not outlive the interpreter."""
    _ending.set()
    if _thread is not None and _thread.is_alive():
        _thread.join()
