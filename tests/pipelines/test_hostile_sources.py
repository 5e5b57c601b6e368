"""Odd names of files, folders of killed runs, and XML that defines entities."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from cepkit.errors import CepError
from cepkit.pipelines.format import SourceNotFoundError, source_files
from cepkit.pipelines.ingest import TargetError, UnwritableTargetError, replacing, target_folder
from papers.match_regex.benchmarks import parse_tweets

ENTRY = (
    "<entry><id>7</id><published>2012-07-16T10:00:00.000000Z</published>"
    "<author><name>ann</name></author><content>{}</content></entry>"
)


@pytest.mark.parametrize("name", ["a:b.txt", "c:/x.txt", "day 10:30/x.txt"])
def test_a_colon_in_a_path_is_refused_before_spark_sees_it(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    with pytest.raises(SourceNotFoundError, match=r"with ':' in their path.*Rename them"):
        source_files(path)


@pytest.mark.parametrize("name", ["x" * 300, "x/" + "y/" * 3000, "no\0name", "~no_such_user/x"])
def test_a_name_that_no_file_can_have_is_one_error(name):
    with pytest.raises(SourceNotFoundError, match=r"^source: no file '"):
        source_files(name)
    with pytest.raises(UnwritableTargetError, match=r"^target '.*' cannot be written: "):
        target_folder(name)


def test_sources_without_permission_are_named(tmp_path, monkeypatch):
    (tmp_path / "x.txt").write_text("x")
    monkeypatch.setattr(os, "access", lambda path, mode: not (Path(path).name == "x.txt" and mode == os.R_OK))
    with pytest.raises(SourceNotFoundError, match=r"source: no permission to read '.*x\.txt'"):
        source_files(tmp_path)
    monkeypatch.undo()

    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SourceNotFoundError, match=r"source: no file '.*': Permission denied$"):
        source_files(tmp_path)
    with pytest.raises(UnwritableTargetError, match=r"target '.*out' cannot be written: Permission denied$"):
        target_folder(tmp_path / "out")


def test_a_target_is_checked_before_spark_starts(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    inside = tmp_path / "notes.txt" / "new" / "out"
    with pytest.raises(TargetError, match=r"target '.*out' is inside '.*notes.txt', which is a file"):
        target_folder(inside)
    assert target_folder(tmp_path / "new" / "out") == tmp_path / "new" / "out"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UnwritableTargetError, match=r"written: the folder '.*' is not writable"):
        target_folder(tmp_path / "new" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("step", ["mkdir", "rename"])
def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path, monkeypatch, step):
    def full(self, *arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "out"
    with pytest.raises(UnwritableTargetError, match=r"'.*out' cannot be written: No space left"):  # noqa: SIM117
        with monkeypatch.context() as patched:
            patched.setattr(Path, step, full)
            with replacing(target):
                pass
    assert list(tmp_path.iterdir()) == []


def test_errors_of_spark_stay_as_they_are(tmp_path):
    with pytest.raises(ConnectionRefusedError), replacing(tmp_path / "out"):
        raise ConnectionRefusedError("the JVM is gone")


DYING = """
import os, signal, sys
from pathlib import Path
from cepkit.pipelines.ingest import replacing
with replacing(Path(sys.argv[1])) as folder:
    (folder / "events").mkdir()
    (folder / "events" / "part").write_text("half")
    print(folder, flush=True)
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def begin_run(target: Path, fate: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", DYING, str(target), fate],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL") or os.name != "posix", reason="needs signals of POSIX")
def test_folders_of_killed_runs_are_removed_and_those_of_running_ones_stay(tmp_path):
    target = tmp_path / "out"
    for _ in range(2):
        killed = begin_run(target, "die")
        left = Path(killed.communicate()[0].strip())
        assert killed.returncode == -signal.SIGKILL
        assert (left / "events" / "part").is_file()
    running = begin_run(target, "wait")
    busy = Path(running.stdout.readline().strip())
    neighbour = tmp_path / ".other.unfinished-1-00"
    neighbour.mkdir()
    earlier = tmp_path / ".out.earlier-1-00"  # of a run that died after its second rename
    earlier.mkdir()
    with replacing(target) as folder:
        (folder / "quality.json").write_text('{"made_by": "cepkit ingest"}')
    try:
        assert target_folder(target) == target
        assert {path.name for path in tmp_path.iterdir()} == {"out", busy.name, neighbour.name}
    finally:
        running.communicate("")
    assert running.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"out", neighbour.name}


BOMB = "<!DOCTYPE e [" + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' if i else '<!ENTITY b "lol">' for i in range(9)
) + "]>"  # fmt: skip


@pytest.mark.parametrize(
    "head", [BOMB, '<!DOCTYPE e [<!ENTITY j SYSTEM "file:///etc/hostname">]>', "<!DOCTYPE entry>"]
)
def test_xml_with_a_document_type_is_refused(head):
    with pytest.raises(CepError, match="leave out <!DOCTYPE"):
        parse_tweets(pd.DataFrame({"xml": [head + ENTRY.format("&j;")]}))


def test_letters_of_a_document_type_may_be_in_the_text():
    text = "<![CDATA[<!DOCTYPE &x;]]> &lt;b&gt; &#233;"
    [content] = parse_tweets(pd.DataFrame({"xml": [ENTRY.format(text)]}))["content"]
    assert content == "<!DOCTYPE &x; <b> é"


@pytest.mark.spark
def test_spark_refuses_entities_of_a_document(spark):
    from cepkit.pipelines import parse_tweets

    texts = [BOMB + ENTRY.format("&j;"), ENTRY.format("&j;"), ENTRY.format("fine &amp; well")]
    made = parse_tweets(spark.createDataFrame([(text,) for text in texts], "xml string"))
    found = {row.content: row.reason for row in made.collect()}
    assert found == {None: "the entry is not well-formed XML", "fine & well": None}
