"""Files that are kept between processes: what is trusted, what is replaced, and what is said."""

from __future__ import annotations

import os
import pickle
import random
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

from cepkit import cache
from cepkit.cache import cache_path, forget_unused, keep, kept_path, read_kept
from cepkit.compile.shared import loading
from cepkit.compile.shared.loading import load
from cepkit.errors import CepError, CepWarning
from cepkit.language.expressions import parsing
from tests.support.cache_starts import DAMAGES
from tests.support.sizes import JIT

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX")
SAID = {
    "folder": "is not a file of cepkit",
    "pipe": "is not a file of cepkit",
    "link": "cannot be read",
    "mode 666": r"can be written by others \(mode 666\)",
    "mode 620": r"can be written by others \(mode 620\)",
    "other user": "belongs to another user|can be written by others",
    "foreign": "is foreign or outdated",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache in a process that has reported nothing yet."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("CEPKIT_CACHE", str(folder))
    monkeypatch.setattr(cache, "_reported", set())
    return folder


# --- one file ---------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("content", [b"", b"\n\n", b"content" * 9999], ids=["empty", "lines", "long"])
def test_what_is_kept_is_read_again(folder, content):
    path = kept_path("cepkit_a.image")
    assert read_kept(path) is None
    before = os.umask(0)
    try:
        assert keep(path, content)
    finally:
        os.umask(before)
    assert read_kept(path) == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in folder.iterdir()] == ["cepkit_a.image"]


@posix
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_a_damaged_file_is_removed_reported_once_and_made_again(kind, seed, folder):
    path, other = kept_path("cepkit_a.image"), kept_path("cepkit_b.image")
    keep(path, b"content" * 99), keep(other, b"other")
    DAMAGES[kind](path, random.Random(seed), [path, other])
    with pytest.warns(CepWarning, match=SAID.get(kind, "is damaged: its hash does not fit")) as caught:
        assert read_kept(path) is None
    assert "It was removed, and is made again" in str(caught[0].message)
    assert str(path) in str(caught[0].message)
    assert not os.path.lexists(path)
    assert keep(path, b"new") and read_kept(path) == b"new"
    DAMAGES[kind](path, random.Random(seed), [path, other])
    assert read_kept(path) is None  # without a second warning, which would be an error here
    assert read_kept(other) == b"other"


def test_a_file_that_cannot_be_removed_is_not_used(folder, monkeypatch):
    path = kept_path("cepkit_a.image")
    keep(path, b"content")
    path.write_bytes(path.read_bytes() + b"!")

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    with pytest.warns(CepWarning, match="It is not used. It cannot be removed; remove it yourself"):
        assert read_kept(path) is None
    assert read_kept(path) is None


@posix
def test_a_folder_in_the_place_of_a_file_is_replaced(folder):
    path = kept_path("cepkit_a.image")
    (path / "inside").mkdir(parents=True)
    assert keep(path, b"content") and read_kept(path) == b"content"


@pytest.mark.parametrize("number", [24, 12, 116])  # too many open files, no memory, a lost network disk
def test_a_file_stays_where_reading_fails_for_a_while(folder, monkeypatch, number):
    path = kept_path("cepkit_a.image")
    keep(path, b"content")
    with monkeypatch.context() as patch:

        def fail(*_):
            raise OSError(number, "later")

        patch.setattr(cache.os, "open", fail)
        assert read_kept(path) is None
    assert read_kept(path) == b"content"


def test_a_full_disk_is_reported_once_and_leaves_nothing(folder, monkeypatch):
    path = kept_path("cepkit_a.image")

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.warns(
        CepWarning, match=r"cannot be written \(No space left on device\); set CEPKIT_CACHE to"
    ):
        assert not keep(path, b"content")
    assert not keep(path, b"content")
    assert list(folder.iterdir()) == []


# --- folders ----------------------------------------------------------------------------------------------


def test_without_a_home_folder_nothing_is_kept(folder, monkeypatch):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("CEPKIT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(CepError, match=r"the home folder is not known.*set CEPKIT_CACHE to a folder"):
        cache_path()
    with pytest.warns(CepWarning, match="Nothing is kept until then, so each process compiles its kernels"):
        assert kept_path("cepkit_a.image") is None
    assert kept_path("cepkit_a.image") is None
    assert not loading.is_ready("answer = 1  # nobody has compiled it\n")
    assert load("answer = 46\n").answer == 46


def test_a_folder_that_cannot_be_made_keeps_nothing(folder, monkeypatch):
    folder.write_text("")
    with pytest.warns(CepWarning, match=r"cannot be made \(File exists\)"):
        assert kept_path("cepkit_a.image") is None
    assert load("answer = 47\n").answer == 47


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_refused_and_its_mode_is_said(mode, folder):
    kept_path("cepkit_a.image")
    folder.chmod(mode)
    with pytest.raises(CepError, match=rf"its files are run as code; its mode is {mode:o}"):
        kept_path("cepkit_a.image")


@pytest.fixture
def shared(folder, tmp_path, monkeypatch):
    """A file in a folder that a team shares, beside the empty folder of the user."""
    shared = tmp_path / "shared"
    monkeypatch.setenv("CEPKIT_CACHE", str(shared))
    path = kept_path("cepkit_a.image")
    keep(path, b"content" * 99)
    shared.chmod(0o755), path.chmod(0o644)
    monkeypatch.setenv("CEPKIT_CACHE", str(folder))
    monkeypatch.setenv("CEPKIT_SHARED_CACHE", str(shared))
    return path


@posix
def test_a_shared_folder_is_read_and_never_written(shared, folder):
    assert read_kept(kept_path(shared.name)) == b"content" * 99
    if os.getuid() == 0:  # whoever owns the folder
        os.chown(shared, 12345, 12345), os.chown(shared.parent, 12345, 12345)
        assert read_kept(kept_path(shared.name)) == b"content" * 99
    assert not [*folder.iterdir()]
    keep(kept_path(shared.name), b"mine")
    assert read_kept(kept_path(shared.name)) == b"mine"
    assert read_kept(kept_path("cepkit_b.image")) is None


@posix
@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_a_damaged_file_of_a_shared_folder_is_not_used_and_stays(kind, shared):
    keep(other := shared.with_name("cepkit_b.image"), b"other")
    DAMAGES[kind](shared, random.Random(0), [shared, other])
    with pytest.warns(CepWarning, match="in the shared cache .* It is not used"):
        assert read_kept(kept_path(shared.name)) is None
    assert os.path.lexists(shared)


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_shared_folder_that_others_can_write_is_not_used(mode, shared):
    shared.parent.chmod(mode)
    with pytest.warns(CepWarning, match=rf"lies in a folder that others can write \(mode {mode:o}\)"):
        assert read_kept(kept_path(shared.name)) is None


@posix
@pytest.mark.skipif(not JIT, reason="no image is kept without the JIT")
def test_kernels_of_a_shared_folder_are_not_compiled_again(folder, tmp_path, monkeypatch):
    text = "from cepkit.kernels.jit import njit\n\n\n@njit([], nogil=True)\ndef f():\n    pass\n"
    shared, name = tmp_path / "shared", loading._name_of(text)
    monkeypatch.setenv("CEPKIT_SHARED_CACHE", str(shared))
    assert not loading.is_ready(text)
    loading._absent.clear()
    monkeypatch.setenv("CEPKIT_CACHE", str(shared))
    keep(loading.image_path(name), b"code")
    monkeypatch.setenv("CEPKIT_CACHE", str(folder))
    assert loading.is_ready(text)


def test_files_without_use_are_forgotten(folder):
    keep(kept_path("cepkit_new.image"), b"new"), keep(kept_path("cepkit_old.image"), b"old")
    keep(kept_path("cepkit_used.image"), b"used")
    for name, days in {
        "cepkit_old.image": 91,
        "cepkit_used.image": 91,
        "cepkit_x.part": 2,
        "mine": 999,
    }.items():
        (folder / name).touch()
        os.utime(folder / name, (time.time() - days * 86_400,) * 2)
    (folder / "cepkit_y.part").touch()
    assert read_kept(folder / "cepkit_used.image") == b"used"  # now it is in use
    assert forget_unused(folder) == 2
    assert {"cepkit_new.image", "cepkit_used.image", "cepkit_y.part", "mine"} <= set(os.listdir(folder))
    keep(kept_path("cepkit_z.image"), b"")
    os.utime(folder / "cepkit_z.image", (0, 0))
    assert forget_unused(folder) == 0  # it looks once in seven days


# --- kernels of numba -------------------------------------------------------------------------------------

_KERNEL = """
import numba
from cepkit.kernels.jit import njit
@njit([(numba.int64,), (numba.float64,)], cache=True)
def twice(x):
    return 2 * x
"""
jit = pytest.mark.skipif(not JIT, reason="nothing is compiled")


@jit
@posix
@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_broken_kernels_are_made_again(folder, kind):
    text = f"{_KERNEL}# {kind} of this test\n"
    name = load(text).__name__
    files = sorted(folder.glob("*.kernel"))
    assert len(files) == 2 and {path.name.split(".")[0] for path in files} == {name}
    DAMAGES[kind](files[0], random.Random(1), files)
    del sys.modules[name]
    with pytest.warns(CepWarning, match=SAID.get(kind, "is damaged: its hash does not fit")):
        again = load(text)
    assert (again.twice(21), again.twice(1.25)) == (42, 2.5)
    assert sum(again.twice.stats.cache_hits.values()) == 1
    del sys.modules[name]
    again = load(text)
    assert (again.twice(21), again.twice(1.25)) == (42, 2.5)
    assert sum(again.twice.stats.cache_hits.values()) == 2
    del sys.modules[name]


@jit
@posix
@pytest.mark.parametrize("kind", ["cut", "folder", "mode 666"])
def test_a_process_with_numba_replaces_a_damaged_image(folder, kind):
    """It does not load images. Otherwise each later process would find and replace one of them."""
    text = f"{_KERNEL}# {kind} image\n"
    name = load(text).__name__
    [image] = folder.glob("*.image")
    DAMAGES[kind](image, random.Random(1), [])
    del sys.modules[name]
    with pytest.warns(CepWarning, match=SAID.get(kind, "is damaged: its hash does not fit")):
        assert load(text).twice(21) == 42
    del sys.modules[name]
    assert read_kept(image) is not None


@jit
def test_a_kernel_that_numba_cannot_load_is_made_again(folder):
    text = f"{_KERNEL}# with a payload of another numba\n"
    name = load(text).__name__
    for path in folder.glob("*.kernel"):
        keep(path, pickle.dumps(("too", "few")))
    del sys.modules[name]
    with pytest.warns(CepWarning, match=r"cannot be loaded \(TypeError\)"):
        assert load(text).twice(21) == 42
    del sys.modules[name]


@jit
def test_another_numba_python_or_setting_has_files_of_its_own(folder, monkeypatch):
    from cepkit.kernels import jit as own

    for what in ("numba.__version__", "llvmlite.__version__", "sys.implementation", "NUMBA_OPT", "text"):
        own._surroundings.cache_clear()
        with monkeypatch.context() as patch:
            if what == "NUMBA_OPT":
                patch.setenv(what, "2")
            elif what == "text":
                patch.setattr(own, "__file__", str(Path(loading.__file__)))
            else:
                module, _, name = what.partition(".")
                other = "0.1" if name == "__version__" else SimpleNamespace(cache_tag="other")
                patch.setattr(getattr(own, module), name, other)
            changed = own._surroundings()
        own._surroundings.cache_clear()
        assert changed != own._surroundings(), what


@jit
def test_a_kernel_that_depends_on_the_process_is_not_kept(folder):
    from cepkit.kernels.jit import njit

    factor = 3
    assert njit([(numba.int64,)], cache=True)(lambda x: factor * x)(14) == 42
    assert not folder.exists() or list(folder.glob("*.kernel")) == []


# --- nothing runs that is not verified --------------------------------------------------------------------


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@posix
@pytest.mark.parametrize("how", ["no header", "wrong hash", "mode 666", "another name"])
def test_nothing_is_unpickled_that_was_not_verified(how, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(parsing, "FOLDER", tmp_path)
    grammar = parsing.GRAMMARS[0]
    parsing.make_parser(grammar, parsing.EXPRESSION_BUILDER)
    files = list(folder.glob("*.tables"))
    if JIT:
        text = f"{_KERNEL}# {how}\n"
        name = load(text).__name__
        files += folder.glob("*.kernel")
        del sys.modules[name]
    bomb = pickle.dumps(Bomb(tmp_path / "ran"))
    for path in files:
        if how == "another name":
            keep(path.with_name("cepkit_other.kernel"), bomb)
            os.replace(path.with_name("cepkit_other.kernel"), path)
            continue
        keep(path, bomb)
        if how == "no header":
            path.write_bytes(bomb)
        if how == "wrong hash":
            path.write_bytes(path.read_bytes().replace(b"\n\n", b"0\n\n", 1))
        if how == "mode 666":
            path.chmod(0o666)
    with pytest.warns(CepWarning):
        parser = parsing.make_parser(grammar, parsing.EXPRESSION_BUILDER)
    assert str(parser.parse("x > 1")) == "x > 1"
    if JIT:
        assert load(text).twice(21) == 42
        del sys.modules[name]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("where", ["py", "__pycache__"])
def test_no_python_file_of_the_folder_runs(where, folder, tmp_path):
    """Earlier versions wrote the text of a kernel to a file, and Python kept its bytecode beside it."""
    text = f"answer = 48  # {where}\n"
    name = loading._name_of(text)
    folder.mkdir(mode=0o700)
    place = folder if where == "py" else folder / "__pycache__"
    place.mkdir(mode=0o777, exist_ok=True)
    (place / f"{name}.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\nanswer = 1\n")
    assert load(text).answer == 48
    assert not (tmp_path / "ran").exists()


# --- requests ---------------------------------------------------------------------------------------------


@posix
def test_a_request_is_compiled_and_removed(folder):
    text = "answer = 49\n"
    path = kept_path(f"{loading._name_of(text)}.text")
    keep(path, text.encode())
    loading.load_requests(str(path.parent))
    assert sys.modules.pop(loading._name_of(text)).answer == 49
    assert not path.exists()
    keep(path, text.encode())
    path.chmod(0o666)
    with pytest.warns(CepWarning, match="can be written by others"):
        loading.load_requests(str(path.parent))
    assert loading._name_of(text) not in sys.modules
