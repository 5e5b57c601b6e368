"""A program on a cluster of two Spark executors. It kills them while they work, and compares the answers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa

import cepkit as cep
from cepkit.pipelines.spark_session import spark_session
from tests.support.spark_cases import rows_of

EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.daemon"
SEQUENCE = {
    "query": "PATTERN SEQ(A a, B b, !C c) WHERE [k] AND b.x > a.x WITHIN 40",
    "event_type": "kind",
    "order_by": "n",
}
SLICED = {**SEQUENCE, "query": "PATTERN SEQ(A a, B b) WHERE b.x > a.x + 60 WITHIN 9"}
REGEX = {"query": ". up{1,3} down", "partition_by": "k", "order_by": "n"}
ROWS = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY n MEASURES FIRST(n) AS begins, LAST(x) AS top,
    MAP_AGG(n, CLASSIFIER()) AS rows PATTERN (S UP{2,}) DEFINE UP AS x > PREV(x))"""
UPS = {"up": "x > prev(x)", "down": "x < prev(x)"}
WINDOW = {"time": 50, "group_by": "k", "order_by": "n"}


def linked_home(folder: Path) -> Path:
    """Return a SPARK_HOME with links to the installed Spark, so that its workers write into the folder."""
    import pyspark

    home = folder / "spark"
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    return home


def open_session(folder: Path):
    """Return a session on two executors with one core each."""
    os.environ["SPARK_HOME"] = str(linked_home(folder))
    conf = {
        "spark.master": "local-cluster[2,1,768]", "spark.executor.memory": "512m",
        "spark.deploy.maxExecutorRetries": "-1", "spark.task.maxFailures": "100",
        "spark.stage.maxConsecutiveAttempts": "100", "spark.sql.shuffle.partitions": "4",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }  # fmt: skip
    return spark_session(memory="512m", quick=True, conf=conf)


def events(seed: int, n: int = 20_000) -> pd.DataFrame:
    """Return events of 40 keys in order."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "k": rng.integers(0, 40, n), "n": np.arange(n), "kind": rng.choice(list("ABC"), n),
            "x": rng.integers(0, 100, n),
        }
    )  # fmt: skip


QUESTIONS: dict[str, Callable] = {
    "regex": lambda frame: frame.cep.match(**REGEX, define=UPS).to_frame(),
    "sequence": lambda frame: frame.cep.match(**SEQUENCE).to_frame(),
    "slices": lambda frame: frame.cep.match(**SLICED).to_frame(),
    "row patterns": lambda frame: frame.cep.match(ROWS).to_frame(),
    "rows of matches": lambda frame: frame.cep.match(ROWS).tag(),
    "window": lambda frame: frame.cep.window({"s": "sum(x)"}, **WINDOW),
}


def sorted_rows(frame) -> list[tuple]:
    """Return the rows of any frame in one order."""
    return sorted(rows_of(frame)[1], key=repr)


# --- kills --------------------------------------------------------------------------------------------------


def descendants() -> Iterator[tuple[int, str]]:
    """Yield the processes that this one has started, directly or not, with their command lines."""
    parents, commands = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_text()
                commands[int(path.name)] = (path / "cmdline").read_text(errors="replace").replace("\0", " ")
            except OSError:
                continue
            parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
    for pid in commands:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() != pid:
            yield pid, commands[pid]


def kill_one(random: Random) -> str | None:
    """Kill an executor, or the Python workers of one; return which, and None if there is none."""
    found = [(pid, name) for pid, command in descendants() for name in (EXECUTOR, WORKER) if name in command]
    if not found:
        return None
    pid, name = random.choice(found)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return name


class Killer(threading.Thread):
    """Kills at random times until it is stopped."""

    def __init__(self, seed: int, longest_s: float):
        super().__init__(daemon=True)
        self.random, self.longest_s = Random(seed), longest_s
        self.kills: list[str] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        """Kill a process after each random pause."""
        while not self.stopped.wait(self.random.uniform(0.5, self.longest_s)):
            if killed := kill_one(self.random):
                self.kills.append(killed)


def deadly(folder: str) -> Callable:
    """Return a function of events that kills its worker when it is first called, and then its executor."""

    def call(x):
        for name, levels in (("worker", 0), ("executor", 2)):
            try:
                os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            pid = os.getpid()
            for _ in range(levels):  # the worker is a child of the daemon, and that one of the executor
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(pid, signal.SIGKILL)
            os._exit(1)
        return x > 50

    return call


def check_task_that_dies(session, frame: pd.DataFrame, there, folder: Path) -> None:
    """Compare a query whose tasks kill a worker and an executor in the middle of their work."""
    marks = folder / "marks"
    marks.mkdir()
    cep.pure(deadly(str(marks)), name="deadly_on_spark")
    found = there.cep.match(
        "PATTERN SEQ(A a, B b) WHERE [k] AND deadly_on_spark(b.x) WITHIN 40", event_type="kind", order_by="n"
    )
    rows = sorted_rows(found.to_frame())
    assert sorted(path.name for path in marks.iterdir()) == ["executor", "worker"], "nothing was killed"
    here = frame.cep.match(
        "PATTERN SEQ(A a, B b) WHERE [k] AND b.x > 50 WITHIN 40", event_type="kind", order_by="n"
    )
    assert rows == sorted_rows(here.to_frame()) and rows
    print("the same with a dead worker and a dead executor", flush=True)


def main(folder: str, seed: str, n_kills: str) -> None:
    """Ask all questions again and again until so many processes are dead."""
    warnings.simplefilter("ignore", cep.CepWarning)
    session = open_session(Path(folder))
    frame = events(int(seed))
    shuffled = frame.sample(frac=1, random_state=int(seed))
    there = session.createDataFrame(pa.Table.from_pandas(shuffled, preserve_index=False))
    check_task_that_dies(session, frame, there, Path(folder))
    wanted = {name: sorted_rows(ask(frame)) for name, ask in QUESTIONS.items()}
    killer = Killer(int(seed), longest_s=8)
    killer.start()
    n_answers = 0
    while len(killer.kills) < int(n_kills) or n_answers < len(QUESTIONS):
        for name, ask in QUESTIONS.items():
            begin, n_before = time.monotonic(), len(killer.kills)
            rows = sorted_rows(ask(there))
            assert rows == wanted[name] and rows, f"{name}: {len(rows)} rows, {len(wanted[name])} wanted"
            n_answers += 1
            print(
                f"{name}: {len(killer.kills) - n_before} kills, {time.monotonic() - begin:.1f} s", flush=True
            )
    killer.stopped.set()
    n_executors = killer.kills.count(EXECUTOR)
    print(
        f"{n_answers} answers are the same with {len(killer.kills)} kills, {n_executors} of executors",
        flush=True,
    )
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
