"""Cancellation, threads and progress bars for long work. This module knows no events, queries or engines."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, TypeVar

SILENT_S = 1.0  # before the bar appears, so that short runs stay silent
REPORT_S = 0.1  # least time between two reports
_WAIT_S = 0.005  # between two looks at a lock
_LOOK_S = 0.05  # a thread that waits for others runs a checkpoint this often
_END_S = 0.001  # the same after the threads were cancelled
_IMPORT_S = 30.0  # most that a fork waits for the imports of other threads
_BEGIN_S = 1.0  # most that a thread takes from its start to its first line
T = TypeVar("T")


class Cancelled(BaseException):
    """The work was cancelled. Not an `Exception`, so that code that handles errors lets it pass."""


class Cancellation:
    """A switch with which any thread can cancel some work."""

    def __init__(self, outer: Cancellation | None = None):
        self._outer, self._is_cancelled = outer, False

    def cancel(self) -> None:
        """End the work at its next `checkpoint`."""
        self._is_cancelled = True

    @property
    def is_cancelled(self) -> bool:
        """Whether this or ``outer`` was cancelled."""
        return self._is_cancelled or (self._outer is not None and self._outer.is_cancelled)


_current: ContextVar[Cancellation | None] = ContextVar("cepkit cancellation", default=None)


def checkpoint(share: float | None = None) -> None:
    """Raise `Cancelled` if the work of this thread was cancelled; otherwise keep its progress bar up to date.

    Loops call this between two calls of a kernel. It takes about 0.1 µs.
    """
    current = _current.get()
    if current is not None and current.is_cancelled:
        raise Cancelled
    shown = _shown.get()
    if shown is not None and shown.takes_checkpoints:
        shown.reach(share)


@contextmanager
def cancellable(cancellation: Cancellation) -> Iterator[None]:
    """Let every `checkpoint` in this block obey ``cancellation``."""
    before = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(before)


@contextmanager
def collect_later() -> Iterator[None]:
    """Let the garbage collector wait while a block loads modules: objects that stay, many of them."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def hold(lock: Any) -> Any:
    """Return a lock of `threading` for a ``with`` block. A thread that waits for it runs checkpoints."""
    # Ctrl-C may arrive when any call has returned, also that of ``lock.acquire``. Only a ``with`` block takes
    # the lock and begins in one step, so the lock is never taken here.
    checkpoint()
    while _is_held_elsewhere(lock):
        time.sleep(_WAIT_S)
        checkpoint()
    return lock


def free_after_fork(lock: Any) -> None:
    """Let ``os.fork`` wait until no other thread holds a lock, so that the lock is free in the new process.

    The new process has no other threads: a lock that one of them held would be held for ever.
    """
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _wait_for_imports() -> None:
    """Wait until no other thread imports a module, which would be unfinished in a forked process for ever."""
    latest, own = time.monotonic() + _IMPORT_S, threading.get_ident()
    locks = getattr(importlib._bootstrap, "_module_locks", {})  # type: ignore[attr-defined]
    while time.monotonic() < latest:
        found = [lock() for lock in tuple(locks.values())]
        owners = {getattr(lock, "owner", None) for lock in found}
        if owners <= {None, own} and not any(getattr(lock, "waiters", None) for lock in found):
            return
        time.sleep(_WAIT_S)


def _free_cached_properties() -> None:
    """Make new locks for the package's cached properties. Until Python 3.11 one lock serves all instances."""
    for name, module in tuple(sys.modules.items()):
        if not name.startswith("cepkit"):
            continue
        for value in tuple(vars(module).values()):
            if isinstance(value, type):
                for own in vars(value).values():
                    if isinstance(own, cached_property):
                        own.lock = threading.RLock()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports)
    if sys.version_info < (3, 12):
        os.register_at_fork(after_in_child=_free_cached_properties)


def _is_held_elsewhere(lock: Any) -> bool:
    """Return whether another part of the program holds a lock that this thread would wait for."""
    is_owned = getattr(lock, "_is_owned", None)
    if is_owned is not None and is_owned():
        return False
    is_locked = getattr(lock, "locked", None)  # an RLock has it since Python 3.14
    return is_locked() if is_locked is not None else repr(lock).startswith("<locked")


def run_on_threads(
    work: Callable[[int], T], n: int, threads: int, *, on_wait: Callable[[], None] | None = None,
    stop: Callable[[], None] | None = None,
) -> list[T]:  # fmt: skip
    """Return ``[work(0), …, work(n - 1)]``, computed on threads."""
    # Cancelling the caller's work cancels the work of all threads.
    own = Cancellation(_current.get())
    found: list = [None] * n
    numbers, errors = iter(range(n)), []
    started: list[int] = []
    begun: set[int] = set()
    running: set[int] = set()
    ended = threading.Semaphore(0)

    def loop(r: int) -> None:
        """Work on numbers until none is left; after an error, stop the other threads, too."""
        running.add(r)
        begun.add(r)
        try:
            with cancellable(own):
                checkpoint()
                for i in numbers:
                    found[i] = work(i)
                    checkpoint()
        except BaseException as error:  # the caller raises it
            errors.append(error)
            own.cancel()
        finally:
            running.discard(r)
            ended.release()

    made = [
        threading.Thread(target=loop, args=(r,), name=f"cepkit worker {r}", daemon=True)
        for r in range(min(threads, n))
    ]
    try:
        for r, thread in enumerate(made):
            started.append(r)
            thread.start()
        # No Thread.join here: Ctrl-C in it marks a running thread as stopped, up to Python 3.12.
        for _ in made:
            while not ended.acquire(timeout=_LOOK_S):
                checkpoint()
                if on_wait is not None:
                    on_wait()
                if errors and stop is not None:
                    stop()
    except BaseException:
        own.cancel()
        # Ctrl-C in Thread.start leaves a thread that begins a moment later.
        latest = time.monotonic() + _BEGIN_S
        while len(begun) < len(started) and time.monotonic() < latest:
            time.sleep(_END_S)
        while running:
            if stop is not None:
                stop()
            time.sleep(_END_S)
        raise
    finally:
        for thread in made:
            if thread.is_alive():
                thread.join()
    if errors:
        raise errors[0]
    return found


class ShareDone:
    """Counts events, and reports the finished share of the work about ten times a second."""

    # Call it with the number of events done since the last call, from any thread.

    def __init__(self, n_events: int, report: Callable[[float], None]):
        self._n_events, self._report = n_events, report
        self._done, self._reported = 0, 0.0

    def __call__(self, n_events: int) -> None:
        """Count ``n_events`` more."""
        self._done += n_events
        now = time.monotonic()
        if self._n_events and now - self._reported > REPORT_S:
            self._reported = now
            self._report(min(1.0, self._done / self._n_events))


class Progress:
    """A progress bar with an estimate of the time that is left. It appears when the work takes over a second.

    Use it as a context manager; see `show_progress` for work that calls `checkpoint`.
    """

    def __init__(
        self, total: float, what: str = "events", *, has_unit: bool = True, takes_checkpoints: bool = False
    ):
        self.takes_checkpoints = takes_checkpoints
        self._total, self._what, self._has_unit = total, what, has_unit
        self._done, self._began, self._bar, self._output = 0.0, time.monotonic(), None, None
        self._share = 0.0  # of this pass
        self._step = ""  # a step that cannot tell its share, such as compiling
        self._next = self._began + SILENT_S
        self._lock = threading.Lock()  # threads count, too

    def __call__(self, amount: float) -> None:
        """Count ``amount`` more."""
        with self._lock:
            self._done += amount
            self._draw_if_due()

    def reach(self, share: float | None) -> None:
        """Set the finished share; None only shows that time passes. A smaller share begins a new pass.

        A pass fills what the bar has left, so that the bar never goes back.
        """
        with self._lock:
            if share is not None:
                before = 0.0 if share < self._share else self._share
                if before < 1.0:
                    gain = max(0.0, share - before) / (1.0 - before)
                    self._done = min(self._total, self._done + (self._total - self._done) * gain)
                self._share = share
            self._draw_if_due()

    def tick(self, step: str) -> None:
        """Show which step runs now and cannot tell its share; "" shows the work itself again."""
        with self._lock:
            self._step = step
            self._draw_if_due()

    def _draw_if_due(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + REPORT_S
        if self._bar is None:
            self._bar = self._make_bar(now - self._began)
        self._bar.n = round(self._done) if self._has_unit else self._done
        if self._has_unit:  # which names the work
            description = f"{self._step}: " if self._step else ""
        else:
            description = ", ".join(filter(None, (self._what, self._step)))
        self._bar.set_description_str(description, refresh=False)
        self._bar.refresh()

    def _make_bar(self, elapsed_s: float) -> Any:
        from tqdm.auto import tqdm as auto

        class tqdm(auto):
            monitor_interval = 0  # no thread that watches the bar and outlives it

        shown: dict[str, Any] = (
            {"unit": f" {self._what}", "unit_scale": True}
            if self._has_unit
            else {"desc": self._what, "bar_format": "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"}
        )
        is_off = bool(os.environ.get("TQDM_DISABLE"))  # tqdm itself ignores the variable in notebooks
        notebook = sys.modules.get("tqdm.notebook")
        is_widget = notebook is not None and issubclass(tqdm, notebook.tqdm_notebook) and not is_off
        if is_widget:
            shown["display"] = False
        bar: Any = tqdm(total=self._total, leave=False, smoothing=0, disable=is_off, **shown)
        bar.start_t = getattr(bar, "start_t", 0.0) - elapsed_s  # a disabled bar has no start
        if is_widget:
            from IPython.display import display

            self._output = display(bar.container, display_id=True)
        return bar

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._output is not None:  # a saved notebook must not name a widget that is gone
            self._output.update({"text/html": ""}, raw=True)


_shown: ContextVar[Progress | None] = ContextVar("cepkit progress", default=None)


@contextmanager
def show_progress(
    what: str, total: float | None = None, *, takes_checkpoints: bool = True
) -> Iterator[Progress | None]:
    """Show a progress bar for a block that takes over a second, and fold the traceback of Ctrl-C to one line.

    It serves as a decorator, too. Only the outermost block of the main thread has a bar: the explorer and
    streams work in threads of their own and stay silent.
    """
    if _shown.get() is not None or threading.current_thread() is not threading.main_thread():
        yield None
        return
    began = time.monotonic()
    with Progress(
        total or 1.0, what, has_unit=total is not None, takes_checkpoints=takes_checkpoints
    ) as progress:
        before = _shown.set(progress)
        try:
            yield progress
        except KeyboardInterrupt as interrupt:
            # A notebook shows these lines instead of the traceback.
            lines = [f"KeyboardInterrupt: stopped after {time.monotonic() - began:.1f} s"]
            interrupt.__dict__["_render_traceback_"] = lambda: lines
            raise
        finally:
            _shown.reset(before)


@contextmanager
def say_step(step: str) -> Iterator[None]:
    """Say in the progress bar of the surrounding block which step runs now, and for how long."""
    progress = _shown.get()
    if progress is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def tick(is_over: threading.Event) -> None:
        while not is_over.wait(_LOOK_S):
            progress.tick(step)

    try:
        with _beside(tick, "cepkit step"):
            yield
    finally:
        progress.tick("")


@contextmanager
def _beside(watch: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run ``watch`` in a thread while a block runs. Its argument is set when the block has ended."""
    is_over = threading.Event()
    watcher = threading.Thread(target=watch, args=(is_over,), name=name, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait until the block has ended, such as a compilation."""
    # Ctrl-C would stop numba and LLVM at any line. Then numba stays half imported, the interrupt is lost, or
    # the process crashes.
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    waiting: list[int] = []
    try:
        signal.signal(signal.SIGINT, lambda number, frame: waiting.append(number))
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def watch_spark(what: str) -> Iterator[None]:
    """Show a progress bar for the Spark jobs of a block: the share of their tasks that are finished."""
    # Spark's status tracker counts the tasks of all running jobs. Spark Connect has none, so there is no bar.
    with show_progress(what, takes_checkpoints=False) as progress:
        context = getattr(
            getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None
        )
        if progress is None or context is None:
            yield
            return
        with _beside(partial(_watch_jobs, progress, context.statusTracker()), "cepkit Spark"):
            yield


def _watch_jobs(progress: Progress, tracker: Any, is_over: threading.Event) -> None:
    """Move the bar until ``is_over`` is set; stages that are done stay counted."""
    tasks_of_stage: dict[int, tuple[int, int]] = {}
    wait_s = min(SILENT_S, 1.0) / 2
    while not is_over.wait(wait_s):
        try:
            for job in tracker.getActiveJobsIds():
                found = tracker.getJobInfo(job)
                for stage in found.stageIds if found is not None else ():
                    tasks = tracker.getStageInfo(stage)
                    if tasks is not None and tasks.numTasks:
                        tasks_of_stage[stage] = tasks.numCompletedTasks, tasks.numTasks
        except Exception:  # Spark was stopped, or forgot the job: the work itself says what is wrong
            return
        done, total = (
            (sum(numbers) for numbers in zip(*tasks_of_stage.values(), strict=True))
            if tasks_of_stage
            else (0, 1)
        )
        progress.reach(done / total)
        wait_s = 2 * REPORT_S
