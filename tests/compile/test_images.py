"""Images: machine code on disk that runs without numba and gives the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from textwrap import dedent
from types import SimpleNamespace
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import types as T

from cepkit import cache
from cepkit.compile.shared import loading as background
from cepkit.compile.shared.images import image_path, read_image, write_image
from cepkit.errors import CepWarning
from cepkit.kernels.jit import Record

pytestmark = pytest.mark.skipif(
    numba.config.DISABLE_JIT or os.name != "posix", reason="images hold machine code"
)
_F1, _READ = T.Array(T.float64, 1, "C"), T.Array(T.int32, 2, "C", readonly=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(cache, "_reported", set())
    return tmp_path / "kernels"


def scaled(values, table, factor, shift, out):
    for i in range(len(out)):
        out[i] = values[i] * factor + table[i, 0] + shift + np.floor(np.sin(values[i]))
    return len(out) + shift


def first_plus(values, more):
    return values[0] + more


def half(x):
    return x / 2


def module():
    return SimpleNamespace(
        scaled=numba.njit([(_F1, _READ, T.float64, T.int64, _F1)], nogil=True)(scaled),
        half=numba.njit([(T.float64,)])(half),
        np=np,
    )


def test_an_image_gives_the_same_results(folder):
    assert read_image("m") is None
    assert write_image("m", module())
    found = read_image("m")
    values, table = np.linspace(-3, 3, 50), np.arange(100, dtype=np.int32).reshape(50, 2)
    table.flags.writeable = False
    expected, out = np.empty(50), np.empty(50)
    n = scaled(values, table, 1.5, -7, expected)
    assert found.scaled(values, table, 1.5, -7, out) == n
    np.testing.assert_array_equal(out, expected)
    assert found.half(-5.0) == -2.5
    assert vars(found).keys() == {"scaled", "half"}


class Scale(NamedTuple):
    factor: float
    shift: int
    table: np.ndarray


class Pair(NamedTuple):
    first: int
    last: int


def rescaled(values, pair, scale, out):
    for i in range(pair.first, pair.last):
        out[i] = values[i] * scale.factor + scale.table[i, 0] + scale.shift
    return pair.last - pair.first


@pytest.mark.parametrize("readonly", [False, True])
def test_kernels_take_named_tuples_of_arrays_and_numbers(folder, readonly):
    pair, scale = Record([T.int64, T.int64], Pair), Record([T.float64, T.int64, _READ], Scale)
    compiled = numba.njit([(_F1, pair, scale, _F1)])(rescaled)
    compiled.disable_compile()
    assert write_image("m", SimpleNamespace(rescaled=compiled))
    values, table = np.linspace(-3, 3, 50), np.arange(100, dtype=np.int32).reshape(50, 2)
    table.flags.writeable = not readonly
    expected = np.where(np.arange(50) < 7, 0, values * 1.5 + table[:, 0] - 7)
    image = read_image("m").rescaled
    for run in (compiled, image, lambda *given: rescaled(*given)):
        out = np.zeros(50)
        assert run(values, Pair(7, 50), Scale(1.5, -7, table), out) == 43
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(TypeError, match="takes an array of int32"):
        image(values, Pair(7, 50), Scale(1.5, -7, values), expected)


def test_a_bound_kernel_takes_named_tuples_of_arrays(folder):
    columns = Record([_F1, _READ], Columns)
    write_image("m", SimpleNamespace(joined=numba.njit([(columns, _F1)])(joined)))
    given = Columns(np.arange(3.0), np.ones((3, 1), np.int32))
    out = np.zeros(3)
    run = read_image("m").joined.bind(given, out)
    assert run() == 3
    given.values[0] = 8
    run()
    np.testing.assert_array_equal(out, [9, 2, 3])


class Columns(NamedTuple):
    values: np.ndarray
    table: np.ndarray


def joined(columns, out):
    for i in range(len(out)):
        out[i] = columns.values[i] + columns.table[i, 0]
    return len(out)


def test_an_image_checks_its_arguments(folder):
    write_image("m", module())
    run = read_image("m").scaled
    values, table = np.zeros(4), np.zeros((4, 1), np.int32)
    frozen = values.copy()
    frozen.flags.writeable = False
    for wrong in (
        (values.astype(np.float32), table, 1.0, 0, values), (values[::2], table, 1.0, 0, values),
        (values, table[:, 0], 1.0, 0, values), (values, table, 1.0, 0, frozen),
        ([1.0], table, 1.0, 0, values),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="a kernel takes"):
            run(*wrong)
    with pytest.raises(ValueError, match="argument"):
        run(values, table)


def test_an_image_chooses_among_types(folder):
    sums = [(_F1, T.int64), (_F1, T.float64), (T.Array(T.int64, 1, "C", readonly=True), T.int64)]
    assert write_image("t", SimpleNamespace(add=numba.njit(sums)(first_plus)))
    run = read_image("t").add
    floats, whole = np.array([0.5, 2.0]), np.array([2**60 + 1])
    whole.flags.writeable = False
    assert run(floats, 2) == 2.5
    assert run(floats, 2.25) == 2.75
    assert run(whole, 1) == 2**60 + 2
    with pytest.raises(TypeError, match="a kernel takes"):
        run(floats.astype(np.float32), 1)
    with pytest.raises(TypeError, match="a kernel takes"):
        run(whole, 1.5)


def test_a_function_that_may_get_more_types_has_no_image(folder):
    free = numba.njit(first_plus)
    free(np.array([0.5]), 1), free(np.array([0.5]), 1.5)
    assert not write_image("f", SimpleNamespace(free=free))


def test_what_cannot_be_an_image_has_none(folder):
    text = numba.njit([(T.boolean,)])(lambda x: x)
    assert not write_image("b", SimpleNamespace(text=text))
    assert read_image("b") is None


@pytest.mark.parametrize("damage", ["other", "empty", "short", "zeros", "flipped", "header"])
def test_a_broken_image_is_made_again(folder, damage):
    write_image("m", module())
    path = image_path("m")
    whole = path.read_bytes()
    middle = len(whole) // 2
    broken = {
        "other": b"something else",
        "empty": b"",
        "short": whole[:middle],
        "zeros": bytes(len(whole)),
        "flipped": whole[:middle]
        + bytes(255 - one for one in whole[middle : middle + 9])
        + whole[middle + 9 :],
        "header": whole.replace(b"half", b"halb"),
    }
    path.write_bytes(broken[damage])
    with pytest.warns(CepWarning, match="is damaged: its hash does not fit its content"):
        assert read_image("m") is None
    assert not path.exists()
    assert write_image("m", module())
    assert read_image("m").half(-5.0) == -2.5


def test_a_full_disk_leaves_no_image(folder, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.warns(CepWarning, match="cannot be written"):
        assert not write_image("m", module())
    assert list(folder.iterdir()) == []


_QUERY = """
import sys
import pandas as pd
import cepkit as cep
frame = pd.DataFrame({"x": [1, 2, 3, 1, 2, 5, 1]})
found = cep.match(frame, "up+ down", define={"up": "x > prev(x)", "down": "x < prev(x) - %s"})
print(found.count(), "numba" in sys.modules, found.run.tier)
"""


def answer(how_much: str, **environment: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", _QUERY % how_much], env={**os.environ, **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout.split()


def test_kernels_that_call_the_c_library_may_be_the_first_of_a_process(folder):
    """The kernels of agents read the clock of the system."""
    script = """
        import sys
        from cepkit.compile.shared.loading import load_kernels
        load_kernels("cepkit.kernels.wings.agent_steps")
        print("numba" in sys.modules)
    """
    run = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_a_second_process_needs_no_numba(folder):
    assert answer("1", CEPKIT_TIER="compiled") == ["2", "True", "compiled"]
    assert answer("1") == ["2", "False", "compiled"]
    assert answer("1", NUMBA_DISABLE_JIT="1") == ["2", "True", "compiled"]


def test_a_process_ends_silently_while_kernels_compile(folder):
    begin = (
        "from cepkit.compile.shared.loading import compile_in_background\n"
        "print(compile_in_background('texts', '/missing'))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", begin], check=True, text=True,
        capture_output=True, env={**os.environ, "CEPKIT_BACKGROUND": "1"},
    )  # fmt: skip
    assert run.stdout.split() == ["True"]
    assert "ResourceWarning" not in run.stderr


@pytest.mark.skipif(os.name != "posix", reason="other systems have no locks of folders")
@pytest.mark.parametrize("way", ["terminate", "wait"])
def test_one_process_works_for_a_cache_in_the_background(folder, way, monkeypatch):
    """Whoever began it. The next one may begin when it ended, or was killed."""
    folder.mkdir()
    monkeypatch.setattr(background, "_running", [])
    monkeypatch.setattr(background, "_begun", set())
    monkeypatch.setenv("CEPKIT_BACKGROUND", "1")
    monkeypatch.setattr(background, "_PROGRAM", f"import time; time.sleep({1 if way == 'wait' else 60})")
    assert background.compile_in_background("texts", str(folder))
    first = background._running.pop()  # as if another process had begun it
    try:
        assert not background.compile_in_background("texts", str(folder))
        assert not background.compile_in_background("kernels", "a module")  # it lies in the same folder
        getattr(first, way)()
        first.wait()
        assert background.compile_in_background("kernels", "a module")
        assert not background.compile_in_background("texts", str(folder))
    finally:
        for process in (first, *background._running):
            process.kill()
            process.wait()


def test_processes_begin_where_no_folder_can_be_locked(folder, monkeypatch):
    folder.mkdir()
    monkeypatch.setattr(background, "_running", [])
    monkeypatch.setattr(background, "_begun", set())
    monkeypatch.setenv("CEPKIT_BACKGROUND", "1")
    monkeypatch.setattr(background, "_PROGRAM", "import time; time.sleep(60)")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    try:
        assert background.compile_in_background("texts", str(folder))
        (process,) = background._running
        assert not background.compile_in_background("texts", str(folder))  # one of this process
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(not os.path.exists("/proc/self/autogroup"), reason="sessions have no shares here")
def test_compilation_in_the_background_leaves_the_processor_to_others():
    """Each session has an equal share of the processor, whatever the niceness of its processes."""
    begin = background._PROGRAM.partition("from cepkit")[0] + "print(open('/proc/self/autogroup').read())"
    run = subprocess.run(
        [sys.executable, "-c", begin, json.dumps([[], "texts", ""])], check=True, text=True,
        capture_output=True, start_new_session=True,
    )  # fmt: skip
    assert run.stdout.split()[-2:] == ["nice", "19"]


def test_a_new_query_needs_no_numba_after_warmup(folder):
    warm = "from itertools import islice; from cepkit.commands.ship import warmup; list(islice(warmup(), 1))"
    subprocess.run([sys.executable, "-c", warm], check=True)
    assert answer("1") == ["2", "False", "interpreted"]
