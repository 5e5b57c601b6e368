"""Starts of new processes on a cache that is damaged, full, read-only or used by many processes at once."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cepkit.cache import read_kept

# Queries read an image and tables of parsers; the kernels after them are those of numba. A disk that is full
# or read-only is imitated where it cannot be had.
PROGRAM = """
import errno, json, os, pathlib, sys, warnings
disk, waits = sys.argv[1:]
def refuse(*_, **__):
    number = errno.ENOSPC if disk == "full" else errno.EROFS
    raise OSError(number, os.strerror(number))
if disk in ("full", "read-only"):
    pathlib.Path.touch = pathlib.Path.write_bytes = refuse
if disk == "read-only":
    pathlib.Path.unlink = pathlib.Path.mkdir = refuse
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    import pandas as pd
    import cepkit as cep
    from cepkit.compile.shared import later
    from cepkit.compile.shared.loading import load
    from cepkit.language.expressions import parsers
    parsers.FOLDER = pathlib.Path("/missing")
    frame = pd.DataFrame({"x": [1, 2, 3, 1, 2, 5, 1, 4, 4, 0], "kind": list("ABACBACBBC"), "t": range(10)})
    found = cep.match(frame, "up+ down", define={"up": "x > prev(x)", "down": "x < prev(x) - 1"})
    answers = [found.count(), found.lineage().to_numpy().tolist()]
    found = cep.match(
        frame, "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 10", event_type="kind", order_by="t"
    )
    answers += [found.count(), "numba" in sys.modules]
    from cepkit.kernels.blocks import count_events
    n_events = np.zeros(2, np.int64)
    count_events(np.array([0, 1, 1]), 0, np.array([0, 1]), n_events)
    text = '''from numba import types as T
from cepkit.kernels.jit import njit
@njit([(T.int64,), (T.float64,)], nogil=True, cache=True)
def twice(x):
    return 2 * x
'''
    twice = load(text).twice
    answers += [twice(21), twice(1.25), n_events.tolist()]
    if waits == "waits" and later._thread is not None:
        later._thread.join()
    later._ending.set()
print(json.dumps({
    "answers": answers,
    "said": [[one.category.__name__, str(one.message)] for one in caught],
}))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """What a process answered, which warnings it gave, how it ended, and what it printed otherwise."""

    answers: list
    said: list[tuple[str, str]]
    code: int
    errors: str


def begin(folder: Path, disk: str = "", waits: str = "") -> subprocess.Popen:
    """Start a process on a cache."""
    environment = {**os.environ, "CEPKIT_CACHE": str(folder), "CEPKIT_TIER": "compiled"}
    environment |= {"CEPKIT_BACKGROUND": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, disk, waits], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def end(process: subprocess.Popen) -> Start:
    """Wait for a process, and return what it said."""
    out, errors = process.communicate(timeout=300)
    found = json.loads(out) if process.returncode == 0 else {"answers": [], "said": []}
    return Start(found["answers"], [tuple(one) for one in found["said"]], process.returncode, errors)


# --- damages ----------------------------------------------------------------------------------------------


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)  # the mode stays


def _cut(path: Path, rng: random.Random, others: list[Path]) -> None:
    whole = path.read_bytes()
    _write(path, whole[: rng.randrange(1, len(whole))])


def _flip(path: Path, rng: random.Random, others: list[Path]) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 9))):
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    _write(path, bytes(whole) if bytes(whole) != path.read_bytes() else b"?" + bytes(whole))


def _replace_by_folder(path: Path, rng: random.Random, others: list[Path]) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)
    (path / "inside" / "file").write_text("something")


def _replace_by_pipe(path: Path, rng: random.Random, others: list[Path]) -> None:
    path.unlink()
    os.mkfifo(path)


def _replace_by_link(path: Path, rng: random.Random, others: list[Path]) -> None:
    path.unlink()
    path.symlink_to(path)


def _give_away(path: Path, rng: random.Random, others: list[Path]) -> None:
    if os.getuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        path.chmod(0o666)


def _take_another(path: Path, rng: random.Random, others: list[Path]) -> None:
    _write(path, rng.choice([one for one in others if one != path]).read_bytes())


DAMAGES: dict[str, Callable[[Path, random.Random, list[Path]], None]] = {
    "cut": _cut,
    "flipped": _flip,
    "empty": lambda path, rng, others: _write(path, b""),
    "zeroed": lambda path, rng, others: _write(path, bytes(path.stat().st_size)),
    "random": lambda path, rng, others: _write(path, rng.randbytes(rng.choice((3, 999, 70_000)))),
    "longer": lambda path, rng, others: _write(path, path.read_bytes() + rng.randbytes(rng.choice((1, 99)))),
    "folder": _replace_by_folder,
    "pipe": _replace_by_pipe,
    "link": _replace_by_link,
    "mode 666": lambda path, rng, others: path.chmod(0o666),
    "mode 620": lambda path, rng, others: path.chmod(0o620),
    "other user": _give_away,
    "foreign": _take_another,
}


def damage(folder: Path, rng: random.Random) -> dict[str, str]:
    """Damage some files of a cache; return the kinds of damage by the names of files that a start reads."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != "")
    done = {}
    chosen = rng.sample(files, rng.choice((1, 1, 2, 3, len(files))))
    for path in chosen:
        kind = rng.choice(sorted(DAMAGES))
        DAMAGES[kind](path, rng, [one for one in files if one not in chosen] or [Path(__file__)])
        done[path.name] = kind
    return {name: kind for name, kind in done.items() if name in _read_by_a_start(files)}


def _read_by_a_start(files: list[Path]) -> set[str]:
    """Return the images that queries read before numba is loaded, then the kernels of numba, and all tables."""
    kernels = {path.name for path in files if ".twice." in path.name or "_blocks." in path.name}
    later = {name.partition(".")[0] for name in kernels}
    images = {path.name for path in files if path.suffix == ".image"}
    tables = {path.name for path in files if path.suffix == ".tables"}
    return kernels | tables | {name for name in images if name.partition(".")[0] not in later}


def unsound_files(folder: Path) -> list[str]:
    """Return the kept files of a cache that cannot be trusted."""
    names = [path.name for path in folder.iterdir() if path.suffix in (".image", ".kernel", ".tables")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [name for name in names if read_kept(folder / name) is None]


@contextmanager
def small_disk(
    folder: Path, disk: str, prepare: Callable[[Path], object] = lambda folder: None
) -> Iterator[str]:
    """Mount a disk that is ``full`` after 64 KiB, or becomes ``read-only``; give "" or how to imitate it."""
    folder.mkdir(mode=0o700)
    size = "64k" if disk == "full" else "64m"
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    can = os.geteuid() == 0 and shutil.which("mount") is not None
    if not can or subprocess.run(mount, capture_output=True).returncode != 0:
        prepare(folder)
        yield disk
        return
    try:
        prepare(folder)
        if disk == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield ""
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
