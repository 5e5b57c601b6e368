"""Rates and bytes of Spark jobs on one, two and four workers: ``python tests/benchmarks/run.py scale``.

Each cluster is a local one with workers of one core. All queries read the same file with even keys. The
figures are of several jobs of a kind: rows per second by the clock of the fastest one after the first, bytes
that a shuffle writes, and the most memory that a Python worker has taken by then. The job "nothing" deals the
rows by key and returns them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from children import without_settings

N_KEYS = 10_000
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
RISES = {"down": "x < prev(x)", "up": "x > prev(x)"}
EVENTS = {"partition_by": "k", "event_type": "kind", "order_by": "ts", "within": 100 * N_KEYS}
ROWS = """
    SELECT * FROM rows MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS begins, MAX(UP.x) AS top
        PATTERN (DOWN UP{3} LOW) DEFINE DOWN AS x < PREV(x), UP AS x > PREV(x), LOW AS x < FIRST(UP.x))
"""


def write_rows(path: Path, n_rows: int) -> None:
    """Write a file with a row for each moment: a key, a kind and a value."""
    rng = np.random.default_rng(1)
    columns = {
        "ts": np.arange(n_rows), "k": rng.integers(0, N_KEYS, n_rows), "x": rng.integers(0, 1000, n_rows),
        "kind": pa.array(rng.choice(list("ABCDEFGH"), n_rows)),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path, row_group_size=-(-n_rows // 16))


def jobs(frame: Any) -> dict[str, Callable[[], Any]]:
    """Return lazy frames of each kind of query."""
    import cepkit as cep
    from cepkit.frames.spark import EmptySource, rows_by_key

    def dealt() -> Any:
        source = EmptySource(frame)
        rows = rows_by_key(frame, source, source.names, ["k"])
        return rows.mapInArrow(lambda batches: batches, rows.schema)

    def found(query: str, **keywords: Any) -> Any:
        return frame.cep.match(query, **keywords).to_frame(order=False)

    of_time = {"group_by": "k", "time": 100 * N_KEYS, "order_by": "ts"}
    return {
        "regex": lambda: found("down up{3} down", define=RISES, partition_by="k", order_by="ts"),
        "next": lambda: found("PATTERN SEQ(A a, B b, C c)", strategy="next", **EVENTS),
        "any": lambda: found("PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x > b.x", **EVENTS),
        "MATCH_RECOGNIZE": lambda: cep.sql(ROWS, rows=frame).to_frame(order=False),
        "window": lambda: frame.cep.window({"n": "count()", "total": "sum(x)"}, **of_time),
        "nothing": dealt,
    }


def shuffled(spark: Any) -> int:
    """Return the bytes that the shuffles of the last job wrote."""
    store = spark._jsparkSession.sharedState().statusStore()
    last = store.executionsList().last().executionId()
    values, nodes, total = store.executionMetrics(last), store.planGraph(last).allNodes(), 0.0
    for i in range(nodes.size()):
        metrics = nodes.apply(i).metrics()
        for j in range(metrics.size()):
            metric = metrics.apply(j)
            if metric.name() == "shuffle bytes written":
                text = values.get(metric.accumulatorId())
                number = re.search(r"([0-9.,]+) ([KMG]?i?B)", text.get() if text.isDefined() else "0 B")
                total += float(number[1].replace(",", "")) * _UNITS[number[2]]
    return int(total)


def workers_memory() -> int:
    """Return the most bytes that a Python worker of Spark has taken since it began, on Linux."""
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if b"pyspark" in (status.parent / "cmdline").read_bytes():
                peaks.append(int(re.search(r"VmHWM:\s+([0-9]+) kB", status.read_text())[1]) << 10)
        except (OSError, TypeError):  # the process is gone
            continue
    return max(peaks)


def measure(path: str, n_workers: int, repeats: int) -> None:
    """Print the figures of a cluster as lines of JSON."""
    from cepkit.pipelines.spark_session import spark_session

    spark = spark_session(
        conf={
            "spark.master": f"local-cluster[{n_workers},1,1536]", "spark.executor.memory": "1g",
            "spark.sql.shuffle.partitions": 8, "spark.ui.showConsoleProgress": "false",
        }
    )  # fmt: skip
    frame = spark.read.parquet(path)
    n_rows = frame.count()
    for name, job in jobs(frame).items():
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            job().write.format("noop").mode("overwrite").save()
            seconds.append(time.perf_counter() - began)
        figures = {
            "query": name, "workers": n_workers, "rows/s": n_rows / min(seconds[1:]),
            "shuffled bytes/row": shuffled(spark) / n_rows, "MB of a worker": workers_memory() / 1e6,
        }  # fmt: skip
        print(json.dumps(figures), flush=True)
    spark.stop()


def lines_of(path: Path, n_workers: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of a cluster, which a process of its own measures."""
    command = [sys.executable, __file__, "--file", str(path), "--workers", str(n_workers)]
    command += ["--repeats", str(repeats)]
    done = subprocess.run(command, env=without_settings(os.environ), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    yield from (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=3, help="jobs of each kind, the first included")
    parser.add_argument("--file", help=argparse.SUPPRESS)  # a process of one cluster reads it
    given = parser.parse_args()
    if given.file:
        measure(given.file, given.workers[0], given.repeats)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, given.rows)
        for n_workers in given.workers:
            for figures in lines_of(path, n_workers, given.repeats):
                name, workers = figures.pop("query"), figures.pop("workers")
                shown = "  ".join(f"{what} {value:,.0f}" for what, value in figures.items())
                print(f"{name:<16} {workers} workers  {shown}", flush=True)
    print(f"{given.rows:,} rows, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
