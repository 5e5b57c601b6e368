"""Fresh Python processes that time calls on request, and the clock that they use."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
_PATIENCE_S = 300  # how long the next process waits for kernels that are compiled in the background


@dataclass(frozen=True)
class Taken:
    """What a call took in seconds: CPU time, that of the thread for work that can wait, time on the wall."""

    cpu: float
    later: float
    wall: float
    answer: Any  # how many rows the result has, or another value to compare


def _later_cpu(known: dict[int, float]) -> float:
    """Return the CPU time of the threads that do what can wait; ``known`` keeps that of ended threads."""
    for thread in threading.enumerate():
        if thread.name == "cepkit-later" and thread.ident is not None:
            with suppress(OSError):
                known[thread.ident] = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return sum(known.values())


_known: dict[int, float] = {}


def timed(work: Callable[[], object]) -> Taken:
    """Call a work and return what it took. Its result is measured when the clocks have stopped."""
    later, cpu, wall = _later_cpu(_known), time.process_time(), time.perf_counter()
    result = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    later = _later_cpu(_known) - later
    return Taken(max(0.0, cpu - later), later, wall, answer_of(result))


def answer_of(result: object) -> Any:
    """Return a number or text that two results with the same meaning share."""
    if isinstance(result, int | str | list):
        return result
    try:
        return len(result)  # type: ignore[arg-type]
    except TypeError:
        return type(result).__name__


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a user, who sets nothing."""
    ours = "CEPKIT_", "NUMBA_", "PYTHONDONTWRITEBYTECODE"
    return {name: value for name, value in environment.items() if not name.startswith(ours)}


class Child:
    """A process that has a case and its frame, and times one of its works whenever it is asked.

    It has no setting of ours in its environment except those that are named.
    """

    def __init__(self, case: str, frames: Path, **environment: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, str(FOLDER / "child.py"), case, str(frames)],
            env={**without_settings(os.environ), **environment}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def call(self, work: str) -> Taken:
        """Return what a work of the case takes now."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            print(work, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"the process of the benchmark ended:\n{self._errors.read()}")
        return Taken(**json.loads(line))

    def works(self) -> list[str]:
        """Return the names of the works of the case."""
        return self.call("?").answer

    def end(self) -> None:
        """Let the process end, and wait for it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


@contextmanager
def children(*arguments: tuple[str, Path, Mapping[str, str]]) -> Iterator[list[Child]]:
    """Start processes, and end them all."""
    started: list[Child] = []
    try:
        for case, frames, environment in arguments:
            started.append(Child(case, frames, **environment))
        yield started
    finally:
        for child in started:
            child.end()


@contextmanager
def empty_cache() -> Iterator[Path]:
    """Yield a folder for kernels, and remove it when no background process writes there any more."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o700)
        yield Path(folder)
        settle(Path(folder))


def settle(cache: Path) -> None:
    """Wait until no process compiles kernels for a folder any more. Only Linux tells."""
    named = f"CEPKIT_CACHE={cache}".encode()
    ends = time.monotonic() + _PATIENCE_S
    while any(_has_variable(process, named) for process in Path("/proc").glob("[0-9]*")):
        if time.monotonic() > ends:
            return
        time.sleep(0.2)


def _has_variable(process: Path, named: bytes) -> bool:
    if int(process.name) == os.getpid():
        return False
    try:
        return named in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def turns(rounds: int, *works: tuple[Child, str]) -> list[list[Taken]]:
    """Return what each work takes, round by round, after one round that warms up."""
    taken: list[list[Taken]] = [[] for _ in works]
    for i in range(rounds + 1):
        for (child, work), row in zip(works, taken, strict=True):
            one = child.call(work)
            if i:
                row.append(one)
    return taken


def middle(taken: list[Taken], clock: str = "cpu") -> float:
    """Return the median time."""
    return statistics.median(getattr(one, clock) for one in taken)
