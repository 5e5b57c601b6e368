"""Throughput of streams on Spark against a stateful operator that does nothing, and the state per key.

``python tests/benchmarks/run.py spark`` runs about 10 minutes on ``local[2]``. A folder of files is
read one file per micro-batch by a regex query, a sequence query, and operators that do nothing. Such an
operator reads and writes state of the same size as the query's, for the same buckets, and returns as many
rows with the same columns. One of them receives rows, as Spark gives them to any operator; the other one
receives rows that are dealt out as cepkit does. The streams take turns in several rounds. The median of all
batches counts; the first two batches of a stream start its workers. Then a longer stream shows its state
after every batch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StreamingQueryListener

from cepkit.pipelines.spark_session import spark_session
from cepkit.streaming import spark_tasks as tasks

N_KEYS = 200
SCHEMA = "ts timestamp, n bigint, kind string, k bigint, x bigint"
REGEX = {
    "query": ". up{2,6} down", "define": {"up": "x > prev(x)", "down": "x < prev(x)"}, "partition_by": "k",
    "measures": {"begin": "first(ts)", "rows": "count()", "top": "max(x)"}, "order_by": ["ts", "n"],
}  # fmt: skip
SEQUENCE = {
    "query": "PATTERN SEQ(A a, B b, !C c, D d) WHERE [k] AND b.x > a.x + 50 AND d.x > b.x WITHIN 10 seconds",
    "event_type": "kind", "order_by": ["ts", "n"],
}  # fmt: skip

QUERIES = {"regex": REGEX, "sequence": SEQUENCE}


def write_files(folder: Path, n_files: int, n_rows: int) -> None:
    """Write events of `N_KEYS` keys, a thousand per second, slightly shuffled."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for number in range(n_files):
        n = number * n_rows + rng.permutation(n_rows)
        table = {
            "ts": pa.array(1_700_000_000_000_000 + n * 1000, pa.timestamp("us", "UTC")),
            "n": n,
            "kind": rng.choice(list("ABCDEF"), n_rows),
            "k": rng.integers(0, N_KEYS, n_rows),
            "x": rng.integers(0, 100, n_rows),
        }
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table(table), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


class Nothing(StatefulProcessor):
    """Reads its rows and its state, writes the state again, and returns the same rows each time."""

    def __init__(self, n_bytes: int, made: pd.DataFrame):
        self._n_bytes, self._made = n_bytes, made

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("content", "content binary")
        self._content = b"\0" * self._n_bytes

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        assert sum(len(frame) for frame in rows)
        if self._state.exists():
            self._state.get()
        self._state.update((self._content,))
        yield self._made

    def close(self) -> None:
        pass


@dataclass
class Bench:
    """The streams over one folder of files."""

    spark: Any
    folder: Path
    n_runs: int = 0

    def stream(self) -> Any:
        """Return the rows, one file per micro-batch."""
        files = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return files.parquet(str(self.folder / "in")).withWatermark("ts", "5 seconds")

    def query(self, name: str) -> Any:
        """Return the matches of a query."""
        return self.stream().cep.match(**QUERIES[name])

    def nothing(self, found: Any, *, is_dealt: bool) -> Any:
        """Return what an operator makes that does nothing, in the size of a stream that has run."""
        sizes = found.progress
        n_bytes = int(sizes["state_bytes"].median()) // found.n_buckets
        n_found = int(sizes["matches"].median()) // found.n_buckets
        frame = found.to_frame()
        value_of_type = {"timestamp": pd.Timestamp("2024-01-01"), "string": "A"}
        values = {field.name: value_of_type.get(field.dataType.typeName(), 1) for field in frame.schema}
        made = pd.DataFrame([values] * n_found)
        labels = tasks.labels_of_buckets(found.n_buckets, 2)
        number = F.pmod(F.xxhash64("k"), F.lit(found.n_buckets)).cast("int")
        if is_dealt:
            rows = self.stream().withColumn("bucket", number)
            rows = rows.mapInArrow(tasks.Dealer(tuple(rows.columns[:-1]), labels).run, tasks.ROWS_IN_BUCKETS)
        else:  # the same keys, so that both of Spark's partitions have equally many buckets
            label = F.element_at(F.array(*map(F.lit, labels)), number + 1)
            rows = self.stream().withColumn("bucket", label)
        types = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)
        return rows.groupBy("bucket").transformWithStateInPandas(
            Nothing(n_bytes, made), types, "append", "EventTime"
        )

    def run(self, writer: Any) -> Seconds:
        """Run a stream, and return the seconds of its batches that had rows, without the first two."""
        self.n_runs += 1
        meter = CpuMeter()
        self.spark.streams.addListener(meter)
        writer = writer.format("noop").option("checkpointLocation", str(self.folder / f"run{self.n_runs}"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        reports = [report for report in query.recentProgress if report["numInputRows"]]
        while len(meter.cpu) < len(reports):
            time.sleep(0.05)
        self.spark.streams.removeListener(meter)
        wall = [report["durationMs"]["triggerExecution"] / 1000 for report in reports[2:]]
        return Seconds(wall, np.diff(meter.cpu)[1:].tolist())


@dataclass
class Seconds:
    """The seconds of batches, by the clock and of all processors."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, other: Seconds) -> None:
        """Append the batches of another run."""
        self.wall += other.wall
        self.cpu += other.cpu

    def __str__(self) -> str:
        low, middle, high = np.percentile(self.wall, [25, 50, 75])
        text = f"{middle:5.2f} s a batch (quartiles {low:.2f} to {high:.2f})"
        return f"{text}, {np.median(self.cpu):5.2f} s of processors"


class CpuMeter(StreamingQueryListener):
    """Notes the processor time of Spark and its Python workers after every batch that had rows."""

    def __init__(self) -> None:
        self.cpu: list[float] = []

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        if event.progress.numInputRows:
            self.cpu.append(cpu_of_children())

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass


def cpu_of_children() -> float:
    """Return the processor seconds of all processes below this one; Linux only."""
    parent, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = path.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        parent[int(path.parent.name)] = int(parts[1])
        ticks[int(path.parent.name)] = int(parts[11]) + int(parts[12])
    own = {os.getpid()}
    while more := {pid for pid, of in parent.items() if of in own and pid not in own}:
        own |= more
    return sum(ticks[pid] for pid in own - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


def run_in_turn(bench: Bench) -> Iterator[tuple[str, Seconds]]:
    """Run each query, and the operators that do nothing in its size; yield names and seconds."""
    for name in QUERIES:
        found = bench.query(name)
        yield name, bench.run(found.writeStream)
        for what, is_dealt in {"rows": False, "dealt rows": True}.items():
            made = bench.nothing(found, is_dealt=is_dealt)
            yield f"{name}: nothing, {what}", bench.run(made.writeStream)


def show_throughput(bench: Bench, n_rows: int, n_rounds: int) -> None:
    """Let the streams take turns, and print their medians."""
    took: dict[str, Seconds] = defaultdict(Seconds)
    for number in range(n_rounds):
        for name, seconds in run_in_turn(bench):
            took[name].add(seconds)
        print(f"after {number + 1} rounds")
        for name, seconds in took.items():
            print(f"{name:30} {seconds}  {n_rows / np.median(seconds.wall):9,.0f} rows/s", flush=True)
    for name in QUERIES:
        for what in ("rows", "dealt rows"):
            nothing = took[f"{name}: nothing, {what}"]
            wall = np.median(nothing.wall) / np.median(took[name].wall)
            cpu = np.median(nothing.cpu) / np.median(took[name].cpu)
            print(f"{name}: {wall:.2f} x nothing with {what} by the clock, {cpu:.2f} x by processor time")


def show_state(bench: Bench) -> None:
    """Print the state after every batch."""
    for name in QUERIES:
        found = bench.query(name)
        bench.run(found.writeStream)
        shown = found.progress
        shown["events"] = shown["rows"].cumsum()
        shown["bytes_per_key"] = (shown["state_bytes"] / N_KEYS).round()
        print(name, shown[["events", "matches", "held", "kept", "state_bytes", "bytes_per_key"]], sep="\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=150_000, help="of a file")
    parser.add_argument("--rounds", type=int, default=3, help="0: only the state")
    parser.add_argument("--events", type=int, default=1_000_000, help="of the longer stream; 0: none")
    parser.add_argument("--quick", action="store_true", help="with the quick compiler of Java, as tests")
    given = parser.parse_args()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
    spark = spark_session(memory="2g", quick=given.quick)
    with tempfile.TemporaryDirectory() as name:
        if given.rounds:
            write_files(Path(name) / "warm_up" / "in", 4, given.rows)  # Java compiles what runs often
            for what, _ in run_in_turn(Bench(spark, Path(name) / "warm_up")):
                print("warm-up:", what, flush=True)
            write_files(Path(name) / "short" / "in", given.files, given.rows)
            show_throughput(Bench(spark, Path(name) / "short"), given.rows, given.rounds)
        if given.events:
            write_files(Path(name) / "long" / "in", 10, given.events // 10)
            show_state(Bench(spark, Path(name) / "long"))
    spark.stop()


if __name__ == "__main__":
    main()
