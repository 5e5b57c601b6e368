"""Processes that a test has started, and their death as by a crash of the machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

# Words in the command lines of Spark.
EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "daemon pyspark.worker"


def parent_of(pid: int | str) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants() -> Iterator[tuple[int, str]]:
    """Yield the processes that this one has started, directly or not, with their command lines.

    The process that starts Spark's workers is left out: without it they have another parent, work on, and are
    never found again.
    """
    parents, commands = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parents[int(path.name)] = parent_of(path.name)
                commands[int(path.name)] = (path / "cmdline").read_text(errors="replace").replace("\0", " ")
            except (OSError, IndexError):  # it has ended meanwhile
                continue
    for pid in commands:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        starts_workers = WORKER in commands[pid] and WORKER not in commands.get(parents[pid], "")
        if above == os.getpid() != pid and not starts_workers:
            yield pid, commands[pid]


def kill_one(random: Random, names: Sequence[str] = (EXECUTOR, WORKER)) -> str | None:
    """Kill a random process with one of these names. Return the name, or None without such a process."""
    found = [(pid, name) for pid, command in descendants() for name in names if name in command]
    if not found:
        return None
    pid, name = random.choice(found)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return name
