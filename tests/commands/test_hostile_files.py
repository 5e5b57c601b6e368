"""Damaged files, odd names, full disks and closed streams: the command line ends with one message."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cepkit.commands.cli import main
from tests.support.invalid_texts import with_invalid_text

ALL = ["p", "--define", "p=x > 0", "--order-by", "ts", "--rows", "all"]
DATA = b"ts,k,x\n" + b"1,a,1\n" * 30_000
COMMAND = [sys.executable, "-m", "cepkit.commands.cli"]


@pytest.fixture
def run(capsys):
    """Run a command in this process; return its exit code, its output and its messages."""

    def run(*arguments):
        return main([str(argument) for argument in arguments]), *capsys.readouterr()

    return run


@pytest.fixture
def table(tmp_path):
    """Return the path of a CSV with three rows."""
    path = tmp_path / "table.csv"
    path.write_text("ts,k,x\n1,ä,1\n2,b,2\n3,😀,3\n", encoding="utf-8")
    return path


def started(arguments, **keywords):
    """Run the command in a process of its own; return what `subprocess.run` returns."""
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, timeout=120, **keywords)


def refused(code, err, *parts):
    """Assert that a command ended with one message that has these parts."""
    assert code == 2 and "Traceback" not in err, err
    assert all(part in err for part in parts), err


# --- what a written file may replace


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a socket", "a folder"])
def test_out_replaces_files_only(run, table, tmp_path, kind):
    out = tmp_path / "out.csv"
    if kind == "a pipe":
        os.mkfifo(out)
    elif kind == "a folder":
        out.mkdir()
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as own:
            own.bind(os.path.relpath(out))  # the name of a socket is short
    else:
        try:
            os.mknod(out, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
    before = os.lstat(out)
    code, _, err = run("match", table, *ALL, "--out", out)
    refused(code, err, f"is {kind}")
    assert os.lstat(out) == before
    link = tmp_path / "link.csv"
    link.symlink_to(out)
    code, _, err = run("match", table, *ALL, "--out", link)
    refused(code, err, f"is {kind}")
    assert os.lstat(out) == before and link.is_symlink()


def test_out_writes_through_symbolic_links(run, table, tmp_path):
    (tmp_path / "data").mkdir()
    for target in (tmp_path / "data" / "old.csv", tmp_path / "data" / "new.csv"):
        if target.stem == "old":
            target.write_text("keep")
        link = tmp_path / f"{target.stem}.csv"
        link.symlink_to(os.path.join("data", target.name))
        assert run("match", table, *ALL, "--out", link)[0] == 0
        assert link.is_symlink() and len(pd.read_csv(target)) == 3
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["new.csv", "old.csv"]


def test_out_takes_long_names_but_none_that_is_too_long(run, table, tmp_path):
    fits, too_long = tmp_path / f"{'a' * 251}.csv", tmp_path / f"{'a' * 252}.csv"
    assert run("match", table, *ALL, "--out", fits)[0] == 0 and len(pd.read_csv(fits)) == 3
    code, _, err = run("match", table, *ALL, "--out", too_long)
    refused(code, err, "cannot be written: File name too long")


# --- texts that are not valid


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "table"])
def test_an_invalid_text_of_a_file_is_named(run, tmp_path, kind):
    pq.write_table(with_invalid_text(), tmp_path / "bad.parquet")
    code, out, err = run("match", tmp_path / "bad.parquet", *ALL, "--format", kind)
    refused(code, err, "bad.parquet", r"column 'k' has a text that is not valid UTF-8 in row 1: b'\xff'")
    assert out == ""


@pytest.mark.parametrize("setting", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}])
def test_data_are_utf_8_whatever_the_terminal_shows(table, setting):
    environment = {**os.environ, **setting}
    for kind in ("csv", "json"):
        done = started(["match", table, *ALL, "--format", kind], env=environment)
        text = done.stdout.decode("utf-8")
        assert done.returncode == 0 and "ä" in text and "😀" in text
    done = started(["match", table, *ALL], env=environment)
    assert done.returncode == 0 and b"?" in done.stdout and "😀" not in done.stdout.decode("latin-1")


# --- damaged and odd inputs


def damaged_metadata(**changes):
    """Return metadata of pandas with other values."""
    frame = pd.DataFrame({"ts": [1, 2], "k": ["a", "b"], "x": [1, 2]})
    good = json.loads(pa.Table.from_pandas(frame).schema.metadata[b"pandas"])
    return json.dumps({**good, **changes}).encode()


DAMAGED = {
    "cut.csv.gz": lambda: gzip.compress(DATA)[:-30],
    "cut.csv.bz2": lambda: bz2.compress(DATA)[:-30],
    "cut.csv.xz": lambda: lzma.compress(DATA)[:-30],
    "turned.csv.xz": lambda: bytes(b ^ 255 if i == 60 else b for i, b in enumerate(lzma.compress(DATA))),
    "text.csv.xz": lambda: b"nope",
    "text.csv.zst": lambda: b"nope",
}
METADATA = {
    "no JSON": lambda: b"{not json",
    "no object": lambda: b"[]",
    "no keys": lambda: b"{}",
    "no text": lambda: b"\xff\xfe",
    "no such index": lambda: damaged_metadata(index_columns=["nope"]),
    "columns are a number": lambda: damaged_metadata(columns=5),
    "a range without a step": lambda: damaged_metadata(
        index_columns=[{"kind": "range", "name": None, "start": 0, "stop": 3, "step": 0}]
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named(run, tmp_path, name):
    (tmp_path / name).write_bytes(DAMAGED[name]())
    code, _, err = run("match", tmp_path / name, *ALL)
    refused(code, err, f"cannot read '{tmp_path / name}': ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("kind", METADATA)
def test_damaged_metadata_of_pandas_are_said(run, tmp_path, kind):
    table = pa.table({"ts": [1, 2], "k": ["a", "b"], "x": [1, 2]})
    path = tmp_path / "odd.parquet"
    pq.write_table(table.replace_schema_metadata({b"pandas": METADATA[kind]()}), path)
    code, _, err = run("match", path, *ALL)
    if code != 0:  # pandas ignores some damage
        refused(code, err, f"cannot read '{path}': ")
    assert code != 0 or kind not in ("no JSON", "no such index", "columns are a number")


def test_names_that_name_no_file(run, tmp_path):
    (tmp_path / "only_a").mkdir()
    (tmp_path / "only_b.csv").mkdir()
    for name, said in (
        ("", "an empty text names no file"),
        ("~nobody-has-this-name/x.csv", "the home folder of its user is not known"),
        (f"{'a' * 300}.csv", "File name too long"),
        (tmp_path / "only_*", "only folders such as"),
    ):
        for command in ("match", "explain"):
            code, _, err = run(command, name, *ALL)
            refused(code, err, said)


# --- streams and disks that take nothing


@pytest.fixture
def full(tmp_path):
    """Return the path of a device that is always full."""
    path = tmp_path / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        with open(path, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            file.write(b"x")
    except PermissionError:
        pytest.skip("only root makes devices")
    return path


def test_a_full_disk_at_stdout_is_one_message(table, full):
    for arguments in (
        ["match", table, *ALL, "--format", "csv"],
        ["match", table, *ALL, "--format", "parquet"],
        ["match", table, *ALL],
        ["explain", table, *ALL],
        ["examples"],
    ):
        with open(full, "wb") as stdout:
            done = subprocess.run(
                [*COMMAND, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, timeout=120
            )
        said = done.stderr.decode()
        refused(done.returncode, said, "the standard output cannot be written: No space left on device")
    with open(full, "wb") as stderr:  # the result counts
        done = subprocess.run(
            [*COMMAND, "match", str(table), *ALL, "--format", "csv"],
            stdout=subprocess.PIPE, stderr=stderr, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_file_over_the_limit_is_one_message(table, tmp_path, ending):
    out = tmp_path / "out" / f"found.{ending}"
    out.parent.mkdir()
    done = started(
        ["match", table, *ALL, "--out", out],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16)),
        env={**os.environ, "CEPKIT_BACKGROUND": "0"},
    )
    refused(done.returncode, done.stderr.decode(), f"{out} cannot be written: File too large")
    assert list(out.parent.iterdir()) == []


def test_a_deleted_working_folder_is_one_message(table, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    path = [os.path.abspath(one) for one in sys.path if one]
    done = started(
        ["match", table, *ALL, "--out", "x.csv"], cwd=gone, preexec_fn=lambda: shutil.rmtree(gone),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
    )  # fmt: skip
    refused(done.returncode, done.stderr.decode(), "x.csv", "No such file or directory")


def closed(*numbers):
    """Return a function that closes streams in a new process."""
    return lambda: [os.close(number) for number in numbers]


def test_closed_streams(table, tmp_path):
    query, out = ["match", table, *ALL], tmp_path / "out.csv"
    for kind in ("csv", "parquet"):
        done = started([*query, "--format", kind], preexec_fn=closed(1))
        refused(done.returncode, done.stderr.decode(), "the standard output is closed")
    done = started([*query, "--out", out], preexec_fn=closed(0, 1))
    assert done.returncode == 0 and len(pd.read_csv(out)) == 3 and "Traceback" not in done.stderr.decode()
    done = started([*query, "--format", "csv"], preexec_fn=closed(2))
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4  # no message is among the data
    done = started([*query, "--out", out], preexec_fn=closed(0, 1, 2))
    assert done.returncode == 0 and len(pd.read_csv(out)) == 3
    assert started(["match", "none.csv", "p"], preexec_fn=closed(0, 1, 2)).returncode == 2


def test_a_cache_that_is_a_file_is_said_once(table, tmp_path):
    done = started(["match", table, *ALL], env={**os.environ, "CEPKIT_CACHE": str(table)})
    said = done.stderr.decode()
    assert done.returncode == 0 and "Traceback" not in said
    assert said.count("the cache folder") == 1, said
    assert table.read_text("utf-8").startswith("ts,k,x")
