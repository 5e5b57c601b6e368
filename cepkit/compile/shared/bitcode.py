"""Kernels that come with the package as bitcode of LLVM, so that a first query waits for no compiler.

numba needs seconds to compile the kernels that serve every query. Their bitcode becomes machine code for this
machine in a tenth of a second, without numba, and `images` keeps it. The name of a file has the hash of the
kernels' text, so a changed kernel never runs as it was before. Where bitcode cannot be used, numba compiles.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

from cepkit.compile.shared.images import (
    can_use_images,
    hash_of,
    host_machine,
    keep_machine_code,
    link_kernels,
    llvm,
    load_machine_code,
    machine_code,
)

FOLDER = Path(__file__).resolve().parents[2] / "kernels" / "bitcode"
COMMAND = "python -m cepkit.commands.ship"
_TITLE = f"Kernels of cepkit as bitcode of LLVM. {COMMAND} makes all such files again.\n".encode()
# The user asks numba for other machine code.
_SWITCHES = ("BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "DEBUGINFO", "OPT")


def has_bitcode(name: str) -> bool:
    """Return whether `load_bitcode` finds the kernels ``name``."""
    return can_use_images() and _is_known_to_work() and _read(bitcode_path(name)) is not None


def load_bitcode(name: str, *, quick: bool = False) -> SimpleNamespace | None:
    """Return the functions of shipped kernels by their names, and keep their image for later processes.

    With ``quick``, the machine code is made in a tenth of the time, takes up to twice as long to run, and is
    not kept. Returns None if the kernels do not come with the package, or their bitcode cannot be used here.

    """
    if not has_bitcode(name):
        return None
    header, bitcode = _read(bitcode_path(name))
    try:
        kernels = llvm().parse_bitcode(bitcode)
    except RuntimeError:
        return None
    content = machine_code(header, kernels, effort=0 if quick else 3)
    if not quick:
        keep_machine_code(name, content)
    return load_machine_code(content)


def write_bitcode(folder: Path, name: str, module: ModuleType) -> Path:
    """Write the kernels of a module that numba has compiled for any x86-64, and return the path of the file.

    The types of all arguments are in the decorators.

    """
    from importlib.metadata import version

    header, kernels = link_kernels(module)
    made = {one: version(one) for one in ("numba", "llvmlite")} | {"llvm": llvm().llvm_version_info}
    described = {**json.loads(header), "made": made, "layout": str(host_machine().target_data)}
    content = json.dumps(described).encode() + b"\n" + zlib.compress(kernels.as_bitcode(), 9)
    path = bitcode_path(name, folder)
    path.write_bytes(_TITLE + hash_of(content) + b"\n" + content)
    return path


def bitcode_path(name: str, folder: Path | None = None) -> Path:
    """Return where the file with the bitcode of the kernels ``name`` lies, or would lie."""
    return (folder or FOLDER) / f"{name}.bitcode"


def _is_known_to_work() -> bool:
    is_x86 = sys.platform == "linux" and os.uname().machine == "x86_64" and sys.maxsize > 2**32
    return is_x86 and not any(f"NUMBA_{switch}" in os.environ for switch in _SWITCHES)


@cache
def _read(path: Path) -> tuple[bytes, bytes] | None:
    """Return the description and the bitcode in a file, or None if it is missing, broken or too new."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, _, content = content.removeprefix(_TITLE).partition(b"\n")
    if digest != hash_of(content):
        return None
    header, _, bitcode = content.partition(b"\n")
    described = json.loads(header)
    is_too_new = tuple(described["made"]["llvm"]) > tuple(llvm().llvm_version_info)
    if is_too_new or described["layout"] != str(host_machine().target_data):
        return None
    return header, zlib.decompress(bitcode)
