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


# A server on this machine with the settings of the session of the tests, and a session of its client.
# A line is a script, as Python writes a text.
_CONNECT = """
import os, socket, sys, traceback, warnings
import cepkit as cep, pyarrow as pa
from tests.support.spark_cases import JAVA, LEAN
from cepkit.pipelines.spark_session import find_java
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder

with socket.socket() as free:  # another run of the tests may have the port of Connect
    free.bind(("", 0))
    port = free.getsockname()[1]
DefaultChannelBuilder.default_port = staticmethod(lambda: port)
os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"] = str(find_java().home), sys.executable
settings = {
    "spark.driver.memory": "512m", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3",
    **LEAN, "spark.connect.grpc.binding.port": str(port),
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m {JAVA}",
}
session = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
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
def connect_process():
    """Start a process that runs scripts with a ``session`` of Connect, which takes seconds to begin."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CONNECT],
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
