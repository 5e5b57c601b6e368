"""Make the bitcode of the kernels that serve every query, and the tables of the parsers.

The command is ``python -m cepkit.commands.ship``. It keeps the files of kernels whose text did not change:
remove them to make them again. The files are part of the package, and are kept in the
repository. They do not depend on the machine that makes them. The tables depend on the version of lark: with
another version, the first query of an installation makes them.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from pathlib import Path

from cepkit.commands.warmup import INTERPRETING
from cepkit.compile.counting.ranking import WRITERS, text_of
from cepkit.compile.shared.images import FOLDER, bitcode_path, write_bitcode
from cepkit.compile.shared.loading import general_name, image_name, load
from cepkit.language.expressions.parsing import FOLDER as FOLDER_OF_TABLES
from cepkit.language.expressions.parsing import GRAMMARS, write_tables

# numba compiles for any x86-64, and uses no library of functions beside LLVM.
_SETTINGS = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1"}


def ship(folder: Path = FOLDER) -> list[Path]:
    """Compile the kernels that serve every query, write their files, and remove all other files of bitcode.

    Run this in a process of its own: numba reads its settings when it is imported.
    """
    if "numba" in sys.modules:
        raise RuntimeError("numba is imported already; run this in a process of its own")
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(_SETTINGS, CEPKIT_CACHE=cache)
        files = [_write(folder, name) for name in INTERPRETING]
        files += [_write_text(folder, text_of(write)) for write in WRITERS]
    _remove_others(folder.glob("*.bitcode"), files)
    return files


def _write(folder: Path, name: str) -> Path:
    def write() -> None:
        write_bitcode(folder, image_name(name), importlib.import_module(name))

    return _make(bitcode_path(image_name(name), folder), write)


def _write_text(folder: Path, text: str) -> Path:
    def write() -> None:
        write_bitcode(folder, general_name(text), load(text))

    return _make(bitcode_path(general_name(text), folder), write)


def _make(path: Path, write: Callable[[], None]) -> Path:
    """Make a missing file in a process of its own: numba numbers functions, so the order would change it."""
    if not path.exists():
        began = time.perf_counter()
        process = get_context("fork").Process(target=write)
        process.start()
        process.join()
        if process.exitcode:
            raise RuntimeError(f"{path.name} was not made")
        print(f"{path.stat().st_size:7,} bytes {time.perf_counter() - began:5.1f} s  {path.name}")
    return path


def ship_tables(folder: Path = FOLDER_OF_TABLES) -> list[Path]:
    """Write the tables of the parsers, remove all others, and return the files as ``GRAMMARS`` has them."""
    folder.mkdir(exist_ok=True)
    files = [write_tables(folder, grammar) for grammar in GRAMMARS]
    _remove_others(folder.glob("*.tables"), files)
    return files


def _remove_others(paths: Iterable[Path], made: list[Path]) -> None:
    for path in paths:
        if path not in made:
            path.unlink()


if __name__ == "__main__":
    ship()
    ship_tables()
