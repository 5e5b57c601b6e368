"""A program with one Spark stream, which a test kills: it matches files and writes Parquet."""

from __future__ import annotations

import sys
from pathlib import Path

from cepkit.pipelines.spark_session import spark_session
from tests.support.spark_cases import LEAN
from tests.support.stream_cases import REGEX, SEQUENCE, stream_of_files


def main(kind: str, folder: str, sink: str) -> None:
    """Run the stream until all files are read."""
    spark = spark_session(cores=2, quick=True, memory="512m", conf=LEAN)  # as in tests
    frame = stream_of_files(spark, Path(folder) / "in", "10 seconds")
    found = frame.cep.match(**{"regex": REGEX, "sequence": SEQUENCE}[kind])
    writer = found.writeStream.option("checkpointLocation", f"{folder}/state").trigger(availableNow=True)
    if sink == "by batch":
        query = writer.foreachBatch(found.parquet_by_batch(f"{folder}/out")).start()
    else:
        query = writer.start(f"{folder}/out")
    print("the stream has started", flush=True)
    query.awaitTermination()
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
