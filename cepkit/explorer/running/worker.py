"""One thread that does the newest job of every kind; a job can be interrupted as Ctrl-C interrupts a run."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable

RETRY_S = 0.02  # between two looks whether a thread may be interrupted
# Interrupted in the middle, these lose the interrupt or stay broken: a compiler that calls back from C, an
# import. They end by themselves, up to seconds later; what waits for them in `load` cannot be interrupted.
_UNINTERRUPTED = ("numba.", "llvmlite.", "importlib.", "_frozen_importlib", "cepkit.compile.shared.loading")
IDLE_S = 20.0  # after which the thread ends, until there is something to do again
REPORT_S = 0.1  # least time between two reports of progress


class Superseded(KeyboardInterrupt):
    """A newer job of the kind has come, or the job was cancelled."""


class Turn:
    """A job's time on the thread: whether it is still wanted, how far it is, and what it hands over."""

    def __init__(self, worker: Worker, kind: str, report: Callable[[float], None] | None = None):
        self._worker, self.kind, self._report = worker, kind, report
        self.is_cancelled, self.may_interrupt = False, False
        self.ident, self.began = 0, 0.0  # of its thread; when it was its turn
        self._stop: Callable[[], object] | None = None
        self._done, self._total, self._reported = 0, 0, 0.0

    def expect(self, n_events: int) -> None:
        """Say how many events there are to read, for the progress."""
        self._done, self._total = 0, n_events

    def progress(self, n_events: int) -> None:
        """Count events that were read; called by engines from any of their threads.

        Raises
        ------
        Superseded
            When the job is not wanted any more: the engine ends all its threads then.
        """
        if self.is_cancelled:
            raise Superseded
        self._done += n_events
        now = time.monotonic()
        if self._report is not None and self._total and now - self._reported > REPORT_S:
            self._reported = now
            self._report(min(1.0, self._done / self._total))

    @property
    def is_newest(self) -> bool:
        """Whether no newer job of the kind waits."""
        return self.kind not in self._worker._waiting

    def stop_by(self, stop: Callable[[], object]) -> None:
        """Let ``stop()`` be called, in another thread, when the job is not wanted any more.

        Raises
        ------
        Superseded
            When it is not already.
        """
        with self._worker.lock:
            if self.is_cancelled:
                raise Superseded
            self._stop = stop

    def deliver(self, hand_over: Callable[[], None]) -> None:
        """Call ``hand_over``, whole, when the job is still wanted.

        Raises
        ------
        Superseded
            When it is not.
        """
        worker = self._worker
        with worker.lock:
            self.may_interrupt = False  # first of all: behind any call an interrupt could come
            _forget_interrupt()
            if self.is_cancelled:
                raise Superseded
            hand_over()
            self.may_interrupt = True
        if self.is_cancelled:
            raise Superseded


class Worker:
    """Does jobs in the background, one at a time.

    A job of a kind takes the place of one of the same kind that still waits, and interrupts one that runs; a
    job of the first kind interrupts and clears whatever is there. Modest jobs make room for more urgent ones
    and begin again behind them.

    Parameters
    ----------
    kinds : tuple of str
        Those of jobs, the most urgent first.
    failed : callable
        Called in the thread with the turn and the exception of a job that ends with one.
    n_modest : int
        So many of the last kinds are modest.

    Notes
    -----
    A running job gets a KeyboardInterrupt between two steps of Python, as Ctrl-C gives one to the main
    thread: kernels return to Python within some hundredths of a second. A job that compiles is left alone, to
    be interrupted behind it: meanwhile another thread does what is new, but nothing modest.
    """

    def __init__(
        self, kinds: tuple[str, ...], failed: Callable[[Turn, BaseException], None], n_modest: int = 1
    ):
        self.kinds, self._failed = kinds, failed
        self._modest = kinds[len(kinds) - n_modest :]
        # Entered as such, not through the condition: an interrupt must not come between taking and noting it.
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._waiting: dict[str, tuple[Turn, Callable[[Turn], None]]] = {}
        self._turn: Turn | None = None
        self._again: tuple[Turn, Callable[[Turn], None]] | None = None  # what runs, should it make room
        self._thread: threading.Thread | None = None
        self._left: Turn | None = None  # what is left alone, in a thread before this one

    def submit(
        self,
        kind: str,
        job: Callable[[Turn], None],
        report: Callable[[float], None] | None = None,
        patience_s: float = 0.0,
    ) -> Turn:
        """Let the thread do ``job(turn)`` as soon as nothing more urgent waits.

        A job of the first kind may take ``patience_s`` seconds before another one interrupts it: of many that
        come fast some are done.
        """
        turn = Turn(self, kind, report)
        with self.lock:
            patience_s = self._patience_left(patience_s) if kind == self.kinds[0] else 0.0
            if patience_s > 0:
                self._drop_waiting()
                timer = threading.Timer(patience_s, self._lose_patience, (self._turn, turn))
                timer.daemon = True
                timer.start()
            elif kind == self.kinds[0]:
                self._drop_all()
            elif self._turn is not None and self._turn.kind == kind:
                self._interrupt()
            elif self._turn is not None and self._turn.kind in self._modest:
                self._make_room(kind)
            if kind in self._waiting:
                self._waiting[kind][0].is_cancelled = True
            self._waiting[kind] = (turn, job)
            self._start()
            self._changed.notify_all()
        return turn

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="cepkit explorer", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """Interrupt what runs and drop what waits."""
        with self.lock:
            self._drop_all()
            self._changed.notify_all()

    def wait(self, timeout: float | None = None, kinds: tuple[str, ...] | None = None) -> bool:
        """Wait until there is nothing to do, or nothing of some kinds; return whether that is so."""
        kinds = self.kinds if kinds is None else kinds

        def is_done() -> bool:
            turns = [*(turn for turn, _ in self._waiting.values()), *([self._turn] if self._turn else [])]
            return not any(turn.kind in kinds for turn in turns)

        with self.lock:
            return self._changed.wait_for(is_done, timeout)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do."""
        with self.lock:
            return self._turn is not None or bool(self._waiting)

    # --- what the thread does

    def _work(self) -> None:
        own = threading.current_thread()
        while True:
            with self.lock:
                is_next = self._changed.wait_for(lambda: self._thread is not own or self._next(), IDLE_S)
                if self._thread is not own:
                    return
                if not is_next:
                    if not self._waiting:
                        self._thread = None
                        return
                    continue
                kind = self._next()
                turn, job = self._waiting.pop(kind)
                turn.ident, turn.began = own.ident, time.monotonic()
                self._turn, self._again = turn, (Turn(self, kind, turn._report), job)
            try:
                self._do(turn, job)
            finally:
                with self.lock:
                    if self._turn is turn:
                        self._turn = None
                    if self._left is turn:
                        self._left = None
                    self._changed.notify_all()

    def _next(self) -> str | None:
        """Return the kind of the job that comes next, None for none."""
        kinds = (
            self.kinds if self._left is None else [kind for kind in self.kinds if kind not in self._modest]
        )
        return next((kind for kind in kinds if kind in self._waiting), None)

    def _do(self, turn: Turn, job: Callable[[Turn], None]) -> None:
        try:
            try:
                # Interrupted while it is imported, numba would stay broken.
                import numba  # noqa: F401

                self._begin(turn)
                job(turn)
            finally:
                try:
                    self._end(turn)
                except Superseded:
                    self._end(turn)  # a turn gets one interrupt at most: this was it
        except BaseException as error:  # whatever ends a job, the thread goes on
            _release_leaked(self.lock)
            if not isinstance(error, Superseded):
                self._failed(turn, error)

    def _begin(self, turn: Turn) -> None:
        with self.lock:
            if turn.is_cancelled:
                raise Superseded
            turn.may_interrupt = True

    def _end(self, turn: Turn) -> None:
        with self.lock:
            turn.may_interrupt = False
            _forget_interrupt()

    # --- what others do to it, holding the condition

    def _drop_all(self) -> None:
        self._drop_waiting()
        self._interrupt()

    def _drop_waiting(self) -> None:
        for turn, _ in self._waiting.values():
            turn.is_cancelled = True
        self._waiting.clear()

    def _patience_left(self, patience_s: float) -> float:
        turn = self._turn
        if turn is None or turn.kind != self.kinds[0] or turn.is_cancelled:
            return 0.0
        return turn.began + patience_s - time.monotonic()

    def _lose_patience(self, turn: Turn, newer: Turn) -> None:
        with self.lock:
            if self._turn is turn and any(newer is waiting for waiting, _ in self._waiting.values()):
                self._interrupt()

    def _make_room(self, kind: str) -> None:
        own = self._turn.kind
        if self._turn.is_cancelled or self.kinds.index(kind) > self.kinds.index(own):
            return
        self._waiting.setdefault(own, self._again)
        self._interrupt()

    def _interrupt(self) -> None:
        turn = self._turn
        if turn is not None and not turn.is_cancelled:
            turn.is_cancelled = True
            if turn._stop is not None:  # it may have to ask a server
                threading.Thread(target=turn._stop, name="cepkit explorer stops", daemon=True).start()
            self._send(turn)

    def _send(self, turn: Turn) -> None:
        """Send the one interrupt of a turn as soon as the thread is where it may come."""
        with self.lock:
            if not turn.may_interrupt:
                return
            if _is_uninterrupted(turn.ident):
                self._leave(turn)
                timer = threading.Timer(RETRY_S, self._send, (turn,))
                timer.daemon = True
                timer.start()
                return
            ident, error = ctypes.c_ulong(turn.ident), ctypes.py_object(Superseded)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)

    def _leave(self, turn: Turn) -> None:
        """Leave a turn to its thread, and let another one do what waits."""
        if self._turn is turn and self._left is None:
            self._left, self._turn, self._thread = turn, None, None
            if self._waiting:
                self._start()
            self._changed.notify_all()


def _is_uninterrupted(ident: int) -> bool:
    """Whether a thread is in the middle of what an interrupt would break."""
    frame = sys._current_frames().get(ident)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_UNINTERRUPTED):
            return True
        frame = frame.f_back
    return False


def _forget_interrupt() -> None:
    """Let an interrupt that was sent to this thread and has not come yet not come any more."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)


def _release_leaked(own: threading.RLock) -> None:
    """Release locks where an interrupt came between taking them and noting that they were taken."""
    module = sys.modules.get("numba.core.compiler_lock")
    compiling = getattr(getattr(module, "global_compiler_lock", None), "_lock", None)
    for lock in (own, compiling):
        while lock is not None and lock._is_owned():
            lock.release()
