"""Starts of new processes on a cache that is damaged, full, read-only or used by many processes at once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cepkit.cache import read_kept

# A plain start answers queries from images and tables of parsers. A start with numba reads what it compiled
# before. A disk that is full or read-only is imitated where it cannot be had.
PROGRAM = """
import errno, json, os, pathlib, sys, warnings
disk, waits, kind = sys.argv[1:]
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
    if kind == "numba":
        import numba
    import cepkit as cep
    from cepkit.compile.shared import loading as later
    from cepkit.compile.shared.loading import load
    from cepkit.language.expressions import parsing as parsers
    parsers.FOLDER = pathlib.Path("/missing")
    if waits != "waits":
        later._DELAY_S = 60.0  # a second thread could warn while this one ignores warnings
    frame = pd.DataFrame({"x": [1, 2, 3, 1, 2, 5, 1, 4, 4, 0], "kind": list("ABACBACBBC"), "t": range(10)})
    found = cep.match(frame, "up+ down", define={"up": "x > prev(x)", "down": "x < prev(x) - 1"})
    answers = [found.count(), found.lineage().to_numpy().tolist()]
    found = cep.match(
        frame, "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 10", event_type="kind", order_by="t"
    )
    answers.append(found.count())
    needs_numba = "numba" in sys.modules
    if kind == "numba":
        from cepkit.kernels.matches import count_events
        n_events = np.zeros(2, np.int64)
        count_events(np.array([0, 1, 1], np.int32), 0, np.array([0, 1], np.int32), n_events)
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
    "answers": answers, "needs_numba": needs_numba,
    "said": [[one.category.__name__, str(one.message)] for one in caught],
}))
"""
# Imports of other packages are most of the time of a start. A server has them, and each start is its child.
_SERVER = """
import atexit, json, os, sys, traceback
import lark, llvmlite.binding, numpy, pandas, pyarrow
program, kind = sys.argv[1:]
if kind == "numba":
    import numba
for line in sys.stdin:
    asked = json.loads(line)
    if "end" in asked:
        print(os.waitstatus_to_exitcode(os.waitpid(asked["end"], 0)[1]), flush=True)
        continue
    child = os.fork()
    if child == 0:
        code = 1
        for number, path in ((1, asked["out"]), (2, asked["errors"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
        try:
            os.environ["CEPKIT_CACHE"] = asked["folder"]
            sys.argv = ["start", asked["disk"], asked["waits"], kind]
            exec(compile(program, "<start>", "exec"), {"__name__": "__main__"})
            atexit._run_exitfuncs()
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Start:
    """What a process answered, which warnings it gave, how it ended, and what it printed otherwise."""

    answers: list
    said: list[tuple[str, str]]
    needs_numba: bool
    code: int
    errors: str


def _start_of(code: int, out: str, errors: str) -> Start:
    found = json.loads(out) if code == 0 else {"answers": [], "said": [], "needs_numba": False}
    return Start(found["answers"], [tuple(one) for one in found["said"]], found["needs_numba"], code, errors)


def _environment(**own: str) -> dict[str, str]:
    return {**os.environ, "CEPKIT_TIER": "compiled", "CEPKIT_BACKGROUND": "0", **own}


def start_alone(folder: Path, kind: str, disk: str = "", waits: str = "") -> Start:
    """Run a process of its own on a cache; it has imported nothing before."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, disk, waits, kind], env=_environment(CEPKIT_CACHE=str(folder)),
        text=True, capture_output=True, timeout=600,
    )  # fmt: skip
    return _start_of(done.returncode, done.stdout, done.stderr)


class Starter:
    """Starts processes that find the packages cepkit uses imported, but neither cepkit nor its files.

    Parameters
    ----------
    kind : str
        ``"plain"``, or ``"numba"`` for processes that have numba, too.
    folder : Path
        For what they print.
    """

    def __init__(self, kind: str, folder: Path):
        self.kind, self._folder, self._n = kind, folder, 0
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, PROGRAM, kind], env=_environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def _ask(self, **asked: object) -> int:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def start(
        self, cache: Path, disk: str = "", waits: str = "", *, n: int = 1, killed_after: Sequence[float] = ()
    ) -> list[Start]:
        """Run ``n`` processes at once on a cache, and kill the first ones after these seconds, ascending."""
        begun = []
        for _ in range(n):
            self._n += 1
            files = {name: self._folder / f"{self.kind}-{self._n}.{name}" for name in ("out", "errors")}
            texts = {name: str(path) for name, path in files.items()}
            begun.append((self._ask(folder=str(cache), disk=disk, waits=waits, **texts), files))
        since = time.monotonic()
        for (child, _), seconds in zip(begun, killed_after, strict=False):
            time.sleep(max(0.0, since + seconds - time.monotonic()))
            os.kill(
                child, signal.SIGKILL
            )  # one that has ended waits for its parent, so the number is its own
        done = [(self._ask(end=child), files) for child, files in begun]
        return [_start_of(code, *(path.read_text() for path in files.values())) for code, files in done]

    def stop(self) -> None:
        """End the server."""
        self._server.communicate(timeout=60)


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


def damage(folder: Path, rng: random.Random, kind: str) -> dict[str, str]:
    """Damage some files of a cache; return the damage by the names of the files that a start reads."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != "")
    known = _read_by_a_start(files, kind)
    done = {}
    chosen = set(rng.sample(files, rng.choice((1, 1, 2, 3, len(files)))))
    chosen.add(next(path for path in rng.sample(files, len(files)) if path.name in known))
    for path in sorted(chosen):
        how = rng.choice(sorted(DAMAGES))
        DAMAGES[how](path, rng, [one for one in files if one not in chosen] or [Path(__file__)])
        done[path.name] = how
    return {name: how for name, how in done.items() if name in known}


def _read_by_a_start(files: list[Path], kind: str) -> set[str]:
    """Return the names of tables, and of what numba compiled or of the images that serve the queries."""
    kernels = {path.name for path in files if path.suffix == ".kernel"}
    tables = {path.name for path in files if path.suffix == ".tables"}
    if kind == "numba":
        return kernels | tables
    others = {name.partition(".")[0] for name in kernels if ".twice." in name}
    images = {path.name for path in files if path.suffix == ".image"}
    return tables | {name for name in images if name.partition(".")[0] not in others}


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
