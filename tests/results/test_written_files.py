"""Written files: what a path may name, what they replace, and what an error says."""

from __future__ import annotations

import os
import stat

import pandas as pd
import pytest

import cepkit as cep

FRAME = pd.DataFrame({"x": [1, 2, 3], "ts": [1, 2, 3]})
ROWS = "MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(x) AS m PATTERN (A) DEFINE A AS x > 0)"


def write_matches(path):
    cep.match(FRAME, "p", define={"p": "x > 0"}, order_by="ts").write_parquet(path, overwrite=True)


def write_rows(path):
    cep.match(FRAME, ROWS).write_parquet(path, overwrite=True)


def save_stream(path):
    cep.stream("p", FRAME, define={"p": "x > 0"}, order_by="ts").save(path)


def save_explorer(path):
    cep.explore(FRAME, "p", define={"p": "x > 0"}, order_by="ts").save(path)


WRITERS = (write_matches, write_rows, save_stream, save_explorer)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_pipes_and_devices_stay(tmp_path, write, kind):
    path = tmp_path / "own"
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
    before = os.lstat(path)
    with pytest.raises(cep.CepError, match=f"own is {kind}, and a written file would take its place"):
        write(path)
    assert os.lstat(path) == before and os.listdir(tmp_path) == ["own"]


@pytest.mark.parametrize("write", WRITERS)
def test_symbolic_links_stay(tmp_path, write):
    write(tmp_path / "wanted")
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("made")
    for link, target in (("link", "target"), ("dangling", "made")):
        write(tmp_path / link)
        assert (tmp_path / link).is_symlink() and not (tmp_path / target).is_symlink()
        assert (tmp_path / target).stat().st_size == (tmp_path / "wanted").stat().st_size
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(cep.CepError, match="round cannot be written: Too many levels of symbolic links"):
        write(tmp_path / "round")
    assert (tmp_path / "round").is_symlink()


@pytest.mark.parametrize("write", WRITERS)
def test_errors_name_the_file_of_the_user(tmp_path, write):
    (tmp_path / "folder").mkdir()
    for name, said in (
        ("a\0b", "give the name of a file"),
        ("a" * 300, "cannot be written: File name too long"),
        ("folder", "folder is a folder; give the name of a file"),
        (os.path.join("none", "own"), "the folder does not exist|own cannot be written: there is no folder"),
    ):
        with pytest.raises(cep.CepError, match=said) as found:
            write(str(tmp_path / name))
        assert ".part" not in str(found.value)
    assert os.listdir(tmp_path) == ["folder"]


def test_a_new_file_is_no_replacement(tmp_path):
    path = tmp_path / "own"
    path.write_text("old")
    (tmp_path / "link").symlink_to("own")
    matches = cep.match(FRAME, "p", define={"p": "x > 0"}, order_by="ts")
    with pytest.raises(cep.CepError, match="link exists already"):
        matches.write_parquet(tmp_path / "link")
    assert path.read_text() == "old"
