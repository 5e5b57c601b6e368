"""What tests of regex and of sequence queries on Spark share."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest


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
_CONNECT = """
import os, sys, warnings
import cepkit as cep, pyarrow as pa
from cepkit.pipelines.java import find_java
from pyspark.sql import SparkSession

os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"] = str(find_java().home), sys.executable
settings = {
    "spark.driver.memory": "512m", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
}
session = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
warnings.simplefilter("ignore", cep.CepWarning)
"""


def check_over_connect(script: str, folder) -> None:
    """Run a script that prints "the same over Connect" when all is right, in a process of its own.

    It finds a ``session`` of Connect.
    """
    pytest.importorskip("grpc")
    path = folder / "connect.py"
    path.write_text(_CONNECT + textwrap.dedent(script))
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert "the same over Connect" in run.stdout, run.stderr[-4000:]
