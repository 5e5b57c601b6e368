"""New processes on a damaged cache: right answers, sound files afterwards, one warning for each trouble."""

from __future__ import annotations

import os
import random
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import numba
import pytest

from tests.support.cache_starts import Starter, damage, small_disk, start_alone, unsound_files
from tests.support.sizes import seeds

pytestmark = pytest.mark.skipif(
    numba.config.DISABLE_JIT or os.name != "posix", reason="files of the cache hold machine code"
)
KINDS = ("plain", "numba")
N_AT_ONCE, N_SEEDS = 16, 70


@pytest.fixture(scope="module")
def starters(tmp_path_factory):
    """Starters of processes without and with numba."""
    made = {kind: Starter(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}
    yield made
    for starter in made.values():
        starter.stop()


@pytest.fixture(scope="module")
def warm(starters, tmp_path_factory):
    """A cache after a first process of each kind, and the answers of later ones."""
    folder = tmp_path_factory.mktemp("warm") / "kernels"
    answers = {}
    for kind in reversed(KINDS):
        for waits in ("waits", ""):
            [start] = starters[kind].start(folder, waits=waits)
            answers[kind] = answers_of(start)
            assert start.said == []
    assert answers["numba"] == [2, answers["plain"][1], 9, 42, 2.5, [1, 2]]
    assert not start.needs_numba and len(answers["plain"]) == 3
    assert {path.suffix for path in folder.iterdir()} >= {".image", ".kernel", ".tables"}
    assert unsound_files(folder) == []
    return folder, answers


def answers_of(start):
    """Return the answers of a process that ended well, and only gave warnings of cepkit."""
    assert start.code == 0, start.errors
    assert {category for category, _ in start.said} <= {"CepWarning"}, start.said
    return start.answers


@pytest.mark.parametrize("seed", seeds(2, N_SEEDS))
def test_a_damaged_cache_heals(seed, starters, warm, tmp_path):
    base, answers = warm
    kind, rng = KINDS[seed % 2], random.Random(seed)
    folder = tmp_path / "kernels"
    shutil.copytree(base, folder)
    done = damage(folder, rng, kind)
    [start] = starters[kind].start(folder)
    assert answers_of(start) == answers[kind], done
    assert len(start.said) == 1, (start.said, done)
    text = start.said[0][1]
    assert " in the cache " in text and "It was removed, and is made again" in text
    assert not set(unsound_files(folder)) & set(done), done
    [start] = starters[kind].start(folder)
    assert (answers_of(start), start.said, start.needs_numba) == (answers[kind], [], kind == "numba"), done


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_of_its_own_heals_a_cache(kind, warm, tmp_path):
    base, answers = warm
    folder = tmp_path / "kernels"
    shutil.copytree(base, folder)
    damage(folder, random.Random(kind), kind)
    for n in (1, 0):
        start = start_alone(folder, kind)
        assert (answers_of(start), len(start.said)) == (answers[kind], n)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("disk", ["full", "read-only"])
@pytest.mark.parametrize("how", ["damaged", "empty"])
def test_a_disk_that_cannot_be_written_costs_time_only(disk, how, kind, starters, warm, tmp_path):
    base, answers = warm
    rng = random.Random(f"{disk} {how}")

    def prepare(folder):
        with suppress(OSError):  # the full disk has less room than the files and their damages need
            for path in base.iterdir() if how == "damaged" else ():
                if disk == "read-only" or path.stat().st_size < 20_000:
                    shutil.copy2(path, folder)
            if how == "damaged":
                damage(folder, rng, kind)

    with small_disk(tmp_path / "kernels", disk, prepare) as imitated:
        [start] = starters[kind].start(tmp_path / "kernels", imitated)
    assert answers_of(start) == answers[kind]
    texts = [text for _, text in start.said]
    assert sum("cannot be written" in text for text in texts) == 1, texts
    assert len(texts) <= 2, texts


@pytest.mark.parametrize("how", ["empty", "damaged"])
def test_many_processes_at_once(how, starters, warm, tmp_path, full):
    """They compile the same shapes, and replace the same damaged files."""
    base, answers = warm
    folder = tmp_path / "kernels"
    if how == "damaged":
        shutil.copytree(base, folder)
        damage(folder, random.Random(7), "numba")
    with ThreadPoolExecutor() as threads:
        begin = partial(Starter.start, cache=folder, n=N_AT_ONCE // 2 if full else 1)
        begun = dict(zip(KINDS, threads.map(begin, map(starters.get, KINDS)), strict=True))
    for kind, starts in begun.items():
        for start in starts:
            assert answers_of(start) == answers[kind]
            assert len(start.said) <= 1
    assert not list(folder.glob("*.part"))
    for kind in KINDS:
        [start] = starters[kind].start(folder)
        assert (answers_of(start), start.said, start.needs_numba) == (answers[kind], [], kind == "numba")


@pytest.mark.parametrize("seed", seeds(1, N_SEEDS))
def test_processes_that_are_killed_leave_a_sound_cache(seed, starters, warm, tmp_path, full):
    """They begin on an empty cache. Nobody waits for what a dead process was compiling."""
    _, answers = warm
    folder, kind, rng = tmp_path / "kernels", KINDS[seed % 2], random.Random(f"killed {seed}")
    n = 8 if full else 3
    killed_after = sorted(rng.uniform(0, 0.4 * n) for _ in range(n - 1))
    for start in starters[kind].start(folder, n=n, killed_after=killed_after):
        assert start.code == -signal.SIGKILL or answers_of(start) == answers[kind]
        assert start.said == []
    assert start.code == 0  # the last one lives on
    [start] = starters[kind].start(folder)
    assert (answers_of(start), start.said) == (answers[kind], [])
    assert unsound_files(folder) == []
