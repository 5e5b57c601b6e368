"""A program on a cluster of two Spark executors. It kills them while they work, and compares the answers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa

import cepkit as cep
from cepkit.pipelines.spark_session import spark_session
from tests.support.killing import EXECUTOR, kill_one, parent_of
from tests.support.spark_cases import rows_of

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
    """Return events of 40 keys in order. The keys first come in their order, as Spark numbers matches."""
    rng = np.random.default_rng(seed)
    keys = [*range(40), *rng.integers(0, 40, n - 40)]
    return pd.DataFrame(
        {
            "k": keys, "n": np.arange(n), "kind": rng.choice(list("ABC"), n),
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


def ask_while_one_dies(ask: Callable, there, random: Random, within_s: float) -> tuple[list[tuple], str]:
    """Return the rows of an answer, and which process died while Spark computed it."""
    killed: list[str] = []
    done = threading.Event()

    def kill() -> None:
        while not done.wait(random.uniform(0, within_s)):
            if name := kill_one(random):
                killed.append(name)
                return

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        rows = sorted_rows(ask(there))
    finally:
        done.set()
        thread.join()
    return rows, killed[0] if killed else "nothing"


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
                pid = parent_of(pid)
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
    """Ask questions while processes die, until a number of them are dead."""
    warnings.simplefilter("ignore", cep.CepWarning)
    session = open_session(Path(folder))
    frame = events(int(seed))
    shuffled = frame.sample(frac=1, random_state=int(seed))
    there = session.createDataFrame(pa.Table.from_pandas(shuffled, preserve_index=False))
    check_task_that_dies(session, frame, there, Path(folder))
    random, deaths, seconds = Random(int(seed)), Counter(), dict.fromkeys(QUESTIONS, 0.0)
    wanted = {name: sorted_rows(ask(frame)) for name, ask in QUESTIONS.items()}
    for name in cycle(QUESTIONS):
        if deaths.total() >= int(n_kills):
            break
        begin = time.monotonic()
        rows, died = ask_while_one_dies(QUESTIONS[name], there, random, seconds[name] or 10)
        assert rows == wanted[name] and rows, f"{name}: {len(rows)} rows, {len(wanted[name])} wanted"
        seconds[name] = seconds[name] or time.monotonic() - begin
        deaths.update([died] if died != "nothing" else [])
        print(f"{name}: {died} died, {time.monotonic() - begin:.1f} s", flush=True)
    print(
        f"all answers are the same with {deaths.total()} kills, {deaths[EXECUTOR]} of executors", flush=True
    )
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
