"""Prepare kernels before their first use: for the package, and for the machine of a user.

``python -m cepkit.commands.ship`` makes the bitcode of the kernels that serve every query, and the tables of
the parsers. It keeps the files of kernels whose text did not change: remove them to make them again. The
files are part of the package, and are kept in the repository. They do not depend on the machine that makes
them. The tables depend on the version of lark: with another version, the first query of an installation
makes them.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

from cepkit.api.matching import match
from cepkit.commands.demo import m_shape
from cepkit.compile.counting_ranking import WRITERS, text_of
from cepkit.compile.shared.images import FOLDER, bitcode_path, write_bitcode
from cepkit.compile.shared.loading import general_name, image_name, load, load_kernels
from cepkit.datasets import load_sample
from cepkit.errors import TieWarning
from cepkit.language.expressions.parsing import FOLDER as FOLDER_OF_TABLES
from cepkit.language.expressions.parsing import GRAMMARS, write_tables
from cepkit.language.regex import RegexQuery

# Modules of kernels that serve every query.
INTERPRETING = tuple(
    f"cepkit.kernels.{name}"
    for name in (
        "interpreting", "interpreted_counting", "interpreted_anchored", "interpreted_ordered",
        "interpreted_walk", "places", "matches", "wings.tree", "row_finding", "row_searching",
        "groups", "windows", "wings.agent_steps", "wings.agent_joins", "wings.linked", "next_event",
        "next_chain",
    )
)  # fmt: skip


def warmup() -> Iterator[tuple[str, float]]:
    """Make machine code of the shipped kernels, compile bundled queries; yield names and seconds."""
    # `cepkit.compile.shared.loading.load` keeps the kernels on disk for all processes of the user. A kernel
    # from disk loads in some hundredths of a second. The kernels that serve every query come with the
    # package: they take tenths of a second here, or in a first query without `warmup`.
    for name in INTERPRETING:
        began = time.perf_counter()
        load_kernels(name, quick=False)
        yield name.rsplit(".", 1)[-1], time.perf_counter() - began
    for name, query, frame in bundled_queries():
        began = time.perf_counter()
        with _compile_all(), warnings.catch_warnings():
            warnings.simplefilter("ignore", TieWarning)  # nobody looks at these matches
            match(frame, query).lineage()  # the labels of the rows have their own kernel
        yield name, time.perf_counter() - began


@contextmanager
def _compile_all() -> Iterator[None]:
    """Compile the kernels of new queries, which are interpreted otherwise."""
    before = os.environ.get("CEPKIT_TIER")
    os.environ["CEPKIT_TIER"] = "compiled"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CEPKIT_TIER"]
        else:
            os.environ["CEPKIT_TIER"] = before


def count_steps() -> int:
    """Return how many steps `warmup` has."""
    return len(INTERPRETING) + 2  # peaks, trades


def bundled_queries() -> Iterator[tuple[str, RegexQuery, pd.DataFrame]]:
    """Yield the query of the demo, over each bundled sample of prices, with the name of the sample."""
    yield "peaks", m_shape(), load_sample("peaks")
    yield "trades", m_shape(), load_sample("trades")


# numba compiles for any x86-64, and uses no library of functions beside LLVM.
_SETTINGS = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1"}


def ship(folder: Path = FOLDER) -> list[Path]:
    """Compile the kernels that serve every query, write their files, and remove other files of bitcode."""
    # Run this in a process of its own: numba reads its settings when it is imported.
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
