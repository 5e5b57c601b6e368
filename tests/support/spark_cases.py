"""What tests of regex and of sequence queries on Spark share."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile

import numpy as np
import pandas as pd
import pyarrow as pa

# A session for a few rows: Java compiles no classes for queries and trusts those of Spark, and the threads of
# a collector cost more than they save. Python's workers have imported much.
JAVA = (
    "-XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
LEAN = {
    "spark.driver.extraJavaOptions": JAVA, "spark.python.daemon.module": "tests.support.spark_daemon",
    "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.connect.grpc.binding.port": "0",  # a free one
}  # fmt: skip


def plain(value):
    """Return a value as plain Python with one null and times without a zone."""
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, datetime):
        value = pd.Timestamp(value)
        return value.tz_convert("UTC").tz_localize(None) if value.tzinfo else value
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(map(plain, value))
    return value.item() if isinstance(value, np.generic) else value


def rows_of(frame):
    """Return the names of the columns and the rows of any frame."""
    if hasattr(frame, "toArrow"):
        frame = frame.toArrow()
    if isinstance(frame, pa.Table):
        columns = {name: frame.column(name).to_pylist() for name in frame.column_names}
    else:
        columns = {name: list(frame[name]) for name in frame.columns}
    return list(columns), [tuple(map(plain, row)) for row in zip(*columns.values(), strict=True)]


# A client of Connect with a session that has several tasks. A line is a script, as Python writes a text.
_CONNECT = """
import sys, traceback, warnings
import cepkit as cep, pyarrow as pa
from pyspark.sql import SparkSession

session = SparkSession.builder.remote(sys.argv[1]).create()
session.conf.set("spark.sql.shuffle.partitions", "3")
warnings.simplefilter("ignore", cep.CepWarning)
for line in sys.stdin:
    try:
        exec(eval(line), {"cep": cep, "pa": pa, "session": session})
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    print("the end of the script", flush=True)
session.stop()
"""


@contextmanager
def connect_process(spark):
    """Start a process that runs scripts with a ``session`` of Connect; the JVM of ``spark`` serves it."""
    service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    service = getattr(service, "MODULE$")
    service.start(spark.sparkContext._jsc.sc())
    process = subprocess.Popen(
        [sys.executable, "-c", _CONNECT, f"sc://127.0.0.1:{service.server().getPort()}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


def check_over_connect(process: subprocess.Popen, script: str) -> None:
    """Run a script that prints "the same over Connect" when all is right."""
    assert process.stdin is not None and process.stdout is not None
    late = threading.Timer(300, process.kill)
    late.start()
    try:
        process.stdin.write(f"{textwrap.dedent(script)!r}\n")
        process.stdin.flush()
        lines = list(takewhile(lambda line: line != "the end of the script\n", process.stdout))
    finally:
        late.cancel()
    assert "the same over Connect\n" in lines, "".join(lines)[-4000:]
