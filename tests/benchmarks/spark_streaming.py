"""Throughput of streams on Spark against a stateful operator that does nothing, and the state per key.

``python tests/benchmarks/spark_streaming.py`` runs about 5 minutes on ``local[2]``. A folder of files is read
one file per micro-batch, by four streams: a regex query, a sequence query, and two operators that read and
write state of the same size as the sequence query's and do nothing else. One of them receives rows, as Spark
gives them to any operator; the other one receives rows that are dealt out as cepkit does. The median batch
counts; the first two batches of a stream start its workers. Then the state is shown after every batch.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from cepkit.pipelines.spark_session import spark_session
from cepkit.streaming.spark import tasks

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


def write_files(folder: Path, n_files: int, n_rows: int) -> None:
    """Write events of `N_KEYS` keys, a thousand per second, slightly shuffled."""
    rng = np.random.default_rng(0)
    folder.mkdir()
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
    """Reads its rows and its state, and writes the state again."""

    def __init__(self, n_bytes: int):
        self._content = b"\0" * n_bytes

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("content", "content binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n_rows = sum(len(frame) for frame in rows)
        if self._state.exists():
            self._state.get()
        self._state.update((self._content,))
        yield pd.DataFrame({"bucket": [key[0]], "n_rows": [n_rows]})

    def close(self) -> None:
        pass


def seconds(query: Any) -> list[float]:
    """Return the seconds of the batches of a finished stream that had rows, without the first two."""
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]]
    return took[2:]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=200_000, help="of a file")
    given = parser.parse_args()
    spark = spark_session(memory="2g")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder / "in", given.files, given.rows)

        def stream() -> Any:
            files = (
                spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
            )
            return files.withWatermark("ts", "5 seconds")

        def run(writer: Any, name: str) -> Any:
            writer = writer.format("noop").option("checkpointLocation", str(folder / name))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            took = np.median(seconds(query))
            print(f"{name:22} {took:6.2f} s a batch  {given.rows / took:10,.0f} rows/s", flush=True)
            return took

        took, found = {}, {}
        for name, query in {"regex": REGEX, "sequence": SEQUENCE}.items():
            found[name] = stream().cep.match(**query)
            took[name] = run(found[name].writeStream, name)
        n_buckets, progress = found["sequence"].n_buckets, found["sequence"].progress
        n_bytes = int(progress["state_bytes"].max()) // n_buckets
        hashed = F.pmod(F.xxhash64("k"), F.lit(n_buckets)).cast("int")
        rows = stream().withColumn("bucket", hashed)
        names = ("ts", "n", "kind", "k", "x")
        dealer = tasks.Dealer(names, tasks.labels_of_buckets(n_buckets, 2))
        dealt = rows.select(*names, "bucket").mapInArrow(dealer.run, tasks.ROWS_IN_BUCKETS)
        for name, frame in {"nothing, rows": rows, "nothing, dealt rows": dealt}.items():
            made = frame.groupBy("bucket").transformWithStateInPandas(
                Nothing(n_bytes), "bucket int, n_rows bigint", "append", "EventTime"
            )
            took[name] = run(made.writeStream, name)
        for name in ("regex", "sequence"):
            shares = [took[other] / took[name] for other in ("nothing, rows", "nothing, dealt rows")]
            print(f"{name}: {shares[0]:.2f} x nothing with rows, {shares[1]:.2f} x nothing with dealt rows")
        for name, one in found.items():
            shown = one.progress
            shown["events"] = shown["rows"].cumsum()
            shown["bytes_per_key"] = (shown["state_bytes"] / N_KEYS).round()
            print(
                name, shown[["events", "matches", "held", "kept", "state_bytes", "bytes_per_key"]], sep="\n"
            )
    spark.stop()


if __name__ == "__main__":
    main()
