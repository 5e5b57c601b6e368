"""Cancellation, threads and progress bars for long work. This module knows no events, queries or engines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

SILENT_S = 2.0  # before the bar appears, so that short runs stay silent
REPORT_S = 0.1  # least time between two reports
_LOOK_S = 0.05  # a thread that waits for others runs a checkpoint this often
_END_S = 0.001  # the same after the threads were cancelled
T = TypeVar("T")


class Cancelled(BaseException):
    """The work was cancelled. Not an `Exception`, so that code that handles errors lets it pass."""


class Cancellation:
    """A switch with which any thread can cancel some work.

    Parameters
    ----------
    outer : Cancellation, optional
        Cancelling ``outer`` cancels this one, too.
    """

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


def checkpoint() -> None:
    """Raise `Cancelled` if the work of this thread was cancelled.

    Loops call this between two calls of a kernel. It takes about 0.1 µs.

    Raises
    ------
    Cancelled
        When the `Cancellation` of the surrounding `cancellable` block is cancelled.
    """
    current = _current.get()
    if current is not None and current.is_cancelled:
        raise Cancelled


@contextmanager
def cancellable(cancellation: Cancellation) -> Iterator[None]:
    """Let every `checkpoint` in this block obey ``cancellation``.

    Examples
    --------
    >>> work = Cancellation()
    >>> with cancellable(work):
    ...     checkpoint()
    ...     work.cancel()
    ...     checkpoint()
    Traceback (most recent call last):
    cepkit.progress.Cancelled
    """
    before = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(before)


def run_on_threads(
    work: Callable[[int], T],
    n: int,
    threads: int,
    *,
    on_wait: Callable[[], None] | None = None,
    stop: Callable[[], None] | None = None,
) -> list[T]:
    """Return ``[work(0), …, work(n - 1)]``, computed on threads.

    Cancelling the caller's work cancels the work of all threads.

    Parameters
    ----------
    work : callable
        Takes a number.
    n : int
        Number of calls.
    threads : int
        Number of threads. Each takes the next number when it is done with one.
    on_wait : callable, optional
        The caller's thread calls it about 20 times a second while it waits. An exception ends all threads.
    stop : callable, optional
        Ends a ``work`` that has no checkpoints. It is called again and again until all threads have ended.

    Raises
    ------
    BaseException
        The first exception of a thread or of ``on_wait``, or Ctrl-C. All threads have ended by then.
    """
    own = Cancellation(_current.get())
    found: list = [None] * n
    numbers, errors = iter(range(n)), []
    running: set[int] = set()
    ended = threading.Semaphore(0)

    def loop(r: int) -> None:
        running.add(r)
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
        for thread in made:
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
    """Counts events, and reports the finished share of the work about ten times a second.

    Call it with the number of events done since the last call, from any thread.
    """

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
    """Counts events, and shows a progress bar when a run takes more than two seconds.

    Use it as a context manager and call it with the number of events done since the last call.
    """

    def __init__(self, n_events: int, what: str = "events"):
        self._n_events, self._what = n_events, what
        self._done, self._began, self._bar = 0, None, None

    def __call__(self, n_events: int) -> None:
        """Count ``n_events`` more."""
        self._done += n_events
        if self._began is None:  # the time before the first call was compilation
            self._began = time.monotonic()
        if self._bar is not None:
            self._bar.update(n_events)
        elif time.monotonic() - self._began > SILENT_S:
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=self._n_events, initial=self._done, unit=f" {self._what}", unit_scale=True, leave=False
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
