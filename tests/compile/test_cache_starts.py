"""New processes on a damaged cache: right answers, sound files afterwards, one warning for each trouble."""

from __future__ import annotations

import os
import random
import shutil

import numba
import pytest

from tests.support.cache_starts import begin, damage, end, small_disk, unsound_files
from tests.support.sizes import cases

pytestmark = pytest.mark.skipif(
    numba.config.DISABLE_JIT or os.name != "posix", reason="files of the cache hold machine code"
)
N_AT_ONCE = 16
N_SEEDS = 86


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    """A cache after a first process, and the answers of the second one."""
    folder = tmp_path_factory.mktemp("warm") / "kernels"
    for waits in ("waits", ""):
        start = end(begin(folder, waits=waits))
        assert (start.code, start.said) == (0, []), start.errors
    assert {path.suffix for path in folder.iterdir()} >= {".image", ".kernel", ".tables"}
    assert unsound_files(folder) == []
    *counts, with_numba = start.answers[:4]
    assert (counts[0], with_numba) == (2, False)  # the second process compiled nothing
    return folder, start.answers


def answers_of(start):
    """Return the answers, but for whether the process needed numba."""
    assert start.code == 0, start.errors
    assert {category for category, _ in start.said} <= {"CepWarning"}, start.said
    return start.answers[:3] + start.answers[4:]


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", cases(metafunc.config, range(2), range(N_SEEDS)))


def test_a_damaged_cache_heals(seed, warm, tmp_path):
    rng = random.Random(seed)
    base, expected = warm
    folder = tmp_path / "kernels"
    shutil.copytree(base, folder)
    done = damage(folder, rng)
    start = end(begin(folder))
    assert answers_of(start) == expected[:3] + expected[4:], done
    assert (len(start.said) == 1) == bool(done), (start.said, done)
    assert all(" in the cache " in text and "is made again" in text for _, text in start.said)
    assert [name for name in unsound_files(folder) if name in done] == [], done
    start = end(begin(folder))
    assert answers_of(start) == expected[:3] + expected[4:], done
    assert start.said == [], done


@pytest.mark.slow
@pytest.mark.parametrize("disk", ["full", "read-only"])
@pytest.mark.parametrize("how", ["damaged", "empty"])
def test_a_disk_that_cannot_be_written_costs_time_only(disk, how, warm, tmp_path):
    base, expected = warm
    rng = random.Random(f"{disk} {how}")

    def prepare(folder):
        if how == "damaged":
            for path in base.iterdir():
                if disk == "read-only" or path.stat().st_size < 20_000:
                    shutil.copy2(path, folder)
            damage(folder, rng)

    with small_disk(tmp_path / "kernels", disk, prepare) as imitated:
        start = end(begin(tmp_path / "kernels", imitated))
    assert answers_of(start) == expected[:3] + expected[4:]
    texts = [text for _, text in start.said]
    assert sum("cannot be written" in text for text in texts) == 1
    assert len(texts) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["empty", "damaged"])
def test_many_processes_at_once(how, warm, tmp_path, whole):
    """They compile the same shapes, and replace the same damaged files."""
    base, expected = warm
    folder = tmp_path / "kernels"
    if how == "damaged":
        shutil.copytree(base, folder)
        damage(folder, random.Random(7))
    for start in map(end, [begin(folder) for _ in range(N_AT_ONCE if whole else 4)]):
        assert answers_of(start) == expected[:3] + expected[4:]
        assert len(start.said) <= 1
    assert unsound_files(folder) == []
    assert not list(folder.glob("*.part"))
    start = end(begin(folder))
    assert (answers_of(start), start.said) == (expected[:3] + expected[4:], [])
