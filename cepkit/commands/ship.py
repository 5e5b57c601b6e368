"""Make the bitcode of the kernels that serve every query, with ``python -m cepkit.commands.ship``.

The files are part of the package. They do not depend on the machine that makes them, and are kept in the
repository with the kernels.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

from cepkit.commands.warmup import INTERPRETING
from cepkit.compile.shared.bitcode import FOLDER, write_bitcode
from cepkit.compile.shared.loading import image_name

# numba compiles for any x86-64, and uses no library of functions beside LLVM.
_SETTINGS = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1"}


def ship(folder: Path = FOLDER) -> list[Path]:
    """Compile the kernels that serve every query, write their files, and remove all other files of bitcode.

    Run this in a process of its own: numba reads its settings when it is imported.

    Parameters
    ----------
    folder : Path
        Where the files belong.

    Returns
    -------
    list of Path
        The files, in the order of ``INTERPRETING``.
    """
    if "numba" in sys.modules:
        raise RuntimeError("numba is imported already; run this in a process of its own")
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as own:
        os.environ.update(_SETTINGS, NUMBA_CACHE_DIR=own)
        made = [_write(folder, name) for name in INTERPRETING]
    for path in folder.glob("*.bitcode"):
        if path not in made:
            path.unlink()
    return made


def _write(folder: Path, name: str) -> Path:
    began = time.perf_counter()
    path = write_bitcode(folder, image_name(name), importlib.import_module(name))
    print(f"{path.stat().st_size:7,} bytes {time.perf_counter() - began:5.1f} s  {path.name}")
    return path


if __name__ == "__main__":
    ship()
