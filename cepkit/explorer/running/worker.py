"""Runs the jobs of an explorer in the background, one at a time; newer jobs cancel older ones."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from weakref import WeakSet

from cepkit.progress import Cancellation, Cancelled, cancellable, checkpoint

LEAVE_S = 0.1  # after this time, other jobs no longer wait for a cancelled job
CLOSE_S = 1.0  # the end of the process waits this long for cancelled jobs

Job = Callable[["Turn"], None]
_workers: WeakSet[Worker] = WeakSet()


class Turn(Cancellation):
    """The turn of a job: its cancellation, and the delivery of its result."""

    def __init__(self, worker: Worker, kind: str, job: Job):
        super().__init__()
        self._worker, self.kind, self.job, self.began = worker, kind, job, 0.0
        self.thread: threading.Thread | None = None  # runs the job
        self._stop: Callable[[], object] | None = None

    @property
    def is_newest(self) -> bool:
        """Whether no newer job of the kind waits."""
        return self.kind not in self._worker._waiting

    def stop_by(self, stop: Callable[[], object]) -> None:
        """Register ``stop()``, which another thread calls when the job is cancelled; it may call a server."""
        with self._worker.lock:
            checkpoint()
            self._stop = stop

    def cancel(self) -> None:
        """End the job at its next checkpoint, or by the function from `stop_by`."""
        super().cancel()
        if self._stop is not None:
            threading.Thread(target=self._stop, name="cepkit explorer stops", daemon=True).start()

    def pause(self) -> None:
        """Let the threads that send work, which need Python's lock, unless a newer job of the kind waits."""
        worker = self._worker
        with worker.lock:
            worker._changed.wait_for(lambda: self.is_cancelled or not self.is_newest, worker._pause_s)

    def deliver(self, hand_over: Callable[[], None]) -> None:
        """Call ``hand_over()``, or end the job if it is cancelled; nobody can cancel it during the call."""
        with self._worker.lock:
            checkpoint()
            hand_over()
        checkpoint()


class Worker:
    """Runs jobs in the background, one at a time, each in a thread of its own.

    * A new job replaces a waiting job of its kind and cancels a running one.
    * A job of the first kind cancels everything.
    * A modest job gives way to a more urgent one and starts again after it.
    * A late job starts ``pause_s`` seconds after the last other job. The results of that job then reach the
    page first: the late job would take the cores, and the lock of Python, from the threads that send them.

    A cancelled job ends at its next `checkpoint`; engines reach one every few hundredths of a second. A
    compiler has none, so its job ends later. Meanwhile new jobs run in parallel, except modest ones.
    """

    def __init__(
        self, kinds: tuple[str, ...], failed: Callable[[Turn, BaseException], None], n_modest: int = 1,
        n_late: int = 0, pause_s: float = 0.0,
    ):  # fmt: skip
        self.kinds, self._failed = kinds, failed
        self._urgent, self._modest = kinds[: len(kinds) - n_modest], kinds[len(kinds) - n_modest :]
        self._late, self._pause_s = kinds[len(kinds) - n_late :], pause_s
        self._begin_late = 0.0  # late jobs wait for this time
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._waiting: dict[str, Turn] = {}
        self._running: Turn | None = None
        self._left: set[Turn] = set()  # cancelled jobs that have not ended yet
        _workers.add(self)

    def submit(self, kind: str, job: Job, patience_s: float = 0.0) -> Turn:
        """Run ``job(turn)`` as soon as no more urgent job waits."""
        # A job of the first kind cancels a running one only after ``patience_s`` seconds, so that some of a
        # fast series finish. A job that submits another one is not cancelled by it.
        turn = Turn(self, kind, job)
        with self.lock:
            is_first, running = kind == self.kinds[0], self._running
            if is_first:
                self._cancel_waiting()
            is_next = running is not None and running.thread is threading.current_thread()
            if running is not None and not running.is_cancelled and not is_next:
                left_s = running.began + patience_s - time.monotonic()
                if is_first and running.kind == kind and left_s > 0:
                    call_later(left_s, self._lose_patience, running, turn)
                elif is_first or running.kind == kind:
                    self._cancel_running()
                elif running.kind in self._modest and self.kinds.index(kind) < self.kinds.index(running.kind):
                    self._waiting.setdefault(running.kind, Turn(self, running.kind, running.job))
                    self._cancel_running()
            if kind in self._waiting:
                self._waiting[kind].cancel()
            self._waiting[kind] = turn
            self._start_next()
        return turn

    def cancel(self) -> None:
        """Cancel the running job and all that wait."""
        with self.lock:
            self._cancel_waiting()
            self._cancel_running()
            self._changed.notify_all()

    def wait(self, timeout: float | None = None, kinds: tuple[str, ...] | None = None) -> bool:
        """Wait until no job (of these kinds) is left; return False after a timeout."""
        wanted = self.kinds if kinds is None else kinds

        def is_done() -> bool:
            running = [] if self._running is None else [self._running.kind]
            return not any(kind in wanted for kind in (*running, *self._waiting))

        with self.lock:
            return self._changed.wait_for(is_done, timeout)

    def _start_next(self) -> None:
        """Start the most urgent job that waits, unless another one runs."""
        with self.lock:
            kinds = self._urgent if self._left else self.kinds
            kind = next((kind for kind in kinds if kind in self._waiting), None)
            if kind in self._late and (left_s := self._begin_late - time.monotonic()) > 0:
                call_later(left_s, self._start_next)
                kind = None
            if self._running is None and kind is not None:
                turn = self._running = self._waiting.pop(kind)
                turn.began = time.monotonic()
                threading.Thread(target=self._run, args=(turn,), name="cepkit explorer", daemon=True).start()
            self._changed.notify_all()

    def _run(self, turn: Turn) -> None:
        """Run a job in this thread; it may be cancelled."""
        turn.thread = threading.current_thread()
        try:
            with cancellable(turn):
                checkpoint()
                turn.job(turn)
        except Cancelled:
            pass
        except BaseException as error:  # other jobs still run
            self._failed(turn, error)
        finally:
            with self.lock:
                if self._running is turn:
                    self._running = None
                self._left.discard(turn)
                if turn.kind not in self._late:
                    self._begin_late = time.monotonic() + self._pause_s
                self._start_next()

    def _cancel_waiting(self) -> None:
        for turn in self._waiting.values():
            turn.cancel()
        self._waiting.clear()

    def _cancel_running(self) -> None:
        """Cancel the running turn, and leave it to its thread if it does not end soon."""
        if self._running is not None and not self._running.is_cancelled:
            self._running.cancel()
            call_later(LEAVE_S, self._leave, self._running)

    def _lose_patience(self, turn: Turn, newer: Turn) -> None:
        """Cancel a turn that still runs while a newer one waits."""
        with self.lock:
            if self._running is turn and newer in self._waiting.values():
                self._cancel_running()

    def _leave(self, turn: Turn) -> None:
        """Let other jobs run in parallel to a cancelled job, which ends later."""
        with self.lock:
            if self._running is turn:
                self._left.add(turn)
                self._running = None
                self._start_next()


def call_later(seconds: float, function: Callable[..., None], *arguments: object) -> None:
    timer = threading.Timer(seconds, function, arguments)
    timer.daemon = True
    timer.start()


@atexit.register
def _end_all() -> None:
    """Cancel all jobs at the end of the process, when no threads can start."""
    for worker in _workers:
        with worker.lock:
            worker._waiting.clear()
            if worker._running is not None:
                Cancellation.cancel(worker._running)
    for worker in _workers:
        worker.wait(CLOSE_S)
