"""Machine code of kernels without numba: images on disk, and bitcode that comes with the package."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import struct
import sys
import weakref
import zlib
from array import array
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.cache import keep, kept_path, numba_settings, read_kept
from cepkit.values import dataclass

# Machine code of kernels on disk, called without numba. Importing numba takes longer than most queries.
#
# numba compiles a kernel once and this module keeps the machine code as an *image*. Later processes load the
# image with LLVM alone. An image is only an addition: where one cannot be made or read, numba loads the
# kernel. A broken image would end the process, so `cepkit.cache` checks the hash of its content. The kernels
# that serve every query come with the package as bitcode of LLVM, see below.

_VERSION = 4  # of this form of images
_ENTRY = "cepkit_enter_"
_RESULTS = {"int64": "int", "float64": "float", "none": "none"}
_NO_ERROR = (0, -2)  # numba's status codes for a number and for None
_engines: list[Any] = []  # machine code lives as long as its engine


@dataclass(frozen=True, slots=True, eq=False)  # each call compares them with texts
class ArrayArgument:
    """An array that a kernel takes: C-contiguous, of this dtype and number of axes."""

    dtype: np.dtype
    n_axes: int
    is_read_only: bool

    def cells(self, given: Any) -> tuple[int, ...]:
        """Return what machine code reads of an array: no owner, size, width, address, shape, strides."""
        if not isinstance(given, np.ndarray) or given.dtype != self.dtype or given.ndim != self.n_axes:
            kind = f"{given.dtype} with {given.ndim} axes" if isinstance(given, np.ndarray) else type(given)
            raise TypeError(f"a kernel takes an array of {self.dtype} with {self.n_axes} axes, not {kind}")
        flags = given.flags
        if not flags.c_contiguous or not (self.is_read_only or flags.writeable):
            raise TypeError("a kernel takes contiguous arrays, and writes to some of them")
        return 0, 0, given.size, given.itemsize, _address(given), *given.shape, *given.strides


@dataclass(frozen=True, slots=True)
class PassedFunction:
    """A function in machine code that only kernels call, by its address."""

    address: int


def address_of(function: Any) -> Any:
    """Return the address by which kernels call a function that is passed to them; without numba, itself."""
    if isinstance(function, PassedFunction):
        return function.address
    if not hasattr(function, "overloads"):
        return function
    (compiled,) = function.overloads.values()
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


class MachineFunction:
    """A kernel in machine code; call it as the function that numba compiled."""

    py_func = None  # numba's functions have this name, too; functions in plain Python do not

    def __init__(self, address: int, arguments: tuple[ArrayArgument | str, ...], result: str):
        # ctypes releases the interpreter's lock during the call.
        self._enter = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self._arguments, self._result = arguments, result
        # The cells of the last arrays: most calls pass the same ones again.
        self._known: list[tuple[Any, tuple[int, ...]] | None] = [None] * len(arguments)

    def takes(self, given: list) -> bool:
        """Return whether the arguments have the types of this kernel."""
        for argument, value in zip(self._arguments, given, strict=True):
            if isinstance(argument, ArrayArgument):
                if getattr(value, "dtype", None) != argument.dtype or value.ndim != argument.n_axes:
                    return False
            elif argument == "int" and isinstance(value, float | np.floating):
                return False
        return True

    def __call__(self, *given: Any) -> int | float | None:
        """Run the kernel."""
        cells = [0]
        if len(given) != len(self._arguments):
            given = _parts(given)
        for i, (argument, value) in enumerate(zip(self._arguments, given, strict=True)):
            if type(argument) is ArrayArgument:
                kept = self._known[i]
                if kept is None or kept[0]() is not value:
                    argument_cells = argument.cells(value)
                    kept = self._known[i] = weakref.ref(value), argument_cells
                cells.extend(kept[1])
            elif argument == "int":
                number = int(value)
                cells.append(number if number < 2**63 else number - 2**64)
            else:
                cells.append(_bits(value))
        return self.run(array("q", cells))

    def bind(self, *given: np.ndarray | tuple[np.ndarray, ...]) -> BoundKernel:
        """Return the kernel for calls with these arrays, which look at no argument again."""
        arrays = _parts(given)
        pairs = zip(self._arguments, arrays, strict=True)
        cells = [0, *(cell for argument, values in pairs for cell in argument.cells(values))]
        return BoundKernel(self, array("q", cells), arrays)

    def run(self, memory: array) -> int | float | None:
        """Run the kernel on the cells of its arguments; the first one receives the result."""
        if (status := self._enter(memory.buffer_info()[0])) not in _NO_ERROR:
            raise RuntimeError(f"a kernel ended with status {status}")
        if self._result == "none":
            return None
        return memory[0] if self._result == "int" else struct.unpack("<d", struct.pack("<q", memory[0]))[0]


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """A kernel in machine code with its arrays."""

    kernel: MachineFunction
    memory: array
    given: list[np.ndarray]  # they live as long as this object

    def __call__(self) -> int | float | None:
        """Run the kernel. Its result goes to a copy of the cells, since other threads may run it, too."""
        return self.kernel.run(self.memory[:])


class KernelOfTypes:
    """A kernel in machine code for several types of arguments; a call takes the first that fits."""

    py_func = None

    def __init__(self, kernels: list[MachineFunction]):
        self._kernels = kernels

    def __call__(self, *given: Any) -> int | float | None:
        """Run the kernel for the types of ``given``."""
        given = _parts(given)
        for kernel in self._kernels:
            if kernel.takes(given):
                return kernel(*given)
        return self._kernels[0](*given)  # says what it takes


def read_image(name: str) -> SimpleNamespace | None:
    """Return the functions of the image ``name`` by their names, or None if this machine has no image."""
    # A broken image is removed, so that `write_image` makes it again.
    path = image_path(name)
    content = None if path is None else read_kept(path)
    return None if content is None else load_machine_code(content)


def load_machine_code(content: bytes) -> SimpleNamespace | None:
    """Return the functions in a description and machine code, or None if this process lacks a symbol."""
    binding = llvm()
    header, _, code = content.partition(b"\n")
    described = json.loads(header)
    # Before there is an engine, LLVM knows no symbol of the C library.
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), host_machine())
    if any(binding.address_of_symbol(symbol) is None for symbol in described["symbols"]):
        return None
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    functions = {}
    for name, variants in described["functions"].items():
        kernels = []
        for i, (arguments, result) in enumerate(variants):
            kinds = tuple(
                a if isinstance(a, str) else ArrayArgument(np.dtype(a[0]), a[1], a[2]) for a in arguments
            )
            kernels.append(MachineFunction(engine.get_function_address(f"{_ENTRY}{name}_{i}"), kinds, result))
        functions[name] = kernels[0] if len(kernels) == 1 else KernelOfTypes(kernels)
    for name in described.get("passed", ()):
        get_address = ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address(f"{_ENTRY}{name}"))
        functions[name] = PassedFunction(get_address())
    return SimpleNamespace(**functions)


def _parts(given: Iterable) -> list:
    """Return arguments, and the values in those that are tuples."""
    parts = [part for value in given for part in (value if isinstance(value, tuple) else (value,))]
    return _parts(parts) if any(isinstance(part, tuple) for part in parts) else parts


def hash_of(content: bytes) -> bytes:
    """Return what a file with bitcode says of its content before the content."""
    return hashlib.sha256(content).hexdigest().encode()


def write_image(name: str, module: ModuleType) -> bool:
    """Keep the machine code of the functions of ``module`` that numba has just compiled."""
    path = image_path(name)
    if path is None:
        return False
    if read_kept(path) is not None:  # a process with numba does not load it, but a damaged one must not stay
        return True
    linked = link_kernels(module)
    return linked is not None and keep_machine_code(name, machine_code(*linked))


def keep_machine_code(name: str, content: bytes) -> bool:
    """Write the image ``name`` for later processes, and return whether the folder could be written."""
    path = image_path(name)
    return path is not None and keep(path, content)


def machine_code(header: bytes, kernels: Any, effort: int = 3) -> bytes:
    """Return a description and the machine code of a module of LLVM for this machine."""
    return header + b"\n" + host_machine(effort).emit_object(kernels)


def link_kernels(module: ModuleType) -> tuple[bytes, Any] | None:
    """Return a description of the functions of ``module`` and one module of LLVM with all of them."""
    # None if a function takes or returns anything but arrays and numbers, or does not fix their types.
    described, texts, passed = {}, [], getattr(module, "PASSED", ())
    for key in passed:
        (compiled,) = vars(module)[key].overloads.values()
        text, name = _llvm_text(compiled), compiled.fndesc.llvm_func_name
        if text is None:
            return None
        texts.append(f'{text}\ndefine ptr @{_ENTRY}{key}() {{\n  ret ptr @"{name}"\n}}\n')
    for key, function in vars(module).items():
        overloads = getattr(function, "overloads", None)
        if not overloads or function.targetoptions.get("no_cpython_wrapper"):
            continue  # only other kernels call it, so their code contains it
        if len(overloads) > 1 and function._can_compile:
            return None
        described[key] = []
        for i, compiled in enumerate(overloads.values()):
            arguments = [_describe(numba_type) for numba_type in _leaves(compiled.signature.args)]
            result = _RESULTS.get(str(compiled.signature.return_type))
            if result is None or None in arguments:
                return None
            text = _llvm_text(compiled)
            if text is None:
                compiled = _compile_again(function, compiled)
                text = _llvm_text(compiled)
            described[key].append((arguments, result))
            texts.append(_with_entry(text, f"{key}_{i}", compiled.fndesc.llvm_func_name, arguments))
    return (
        _linked({"functions": described, **({"passed": passed} if passed else {})}, texts) if texts else None
    )


def _llvm_text(compiled: Any) -> str | None:
    """Return the LLVM text of a function that numba compiled, or None if numba read it from its cache."""
    text = str(getattr(compiled.library, "_final_module", ""))
    name = compiled.fndesc.llvm_func_name
    return text if any(line.startswith("define") and name in line for line in text.splitlines()) else None


def _compile_again(function: Any, compiled: Any) -> Any:
    """Return a function compiled from its Python text, as code from the cache has no text of LLVM."""
    import numba

    options = {name: value for name, value in function.targetoptions.items() if name != "nopython"}
    again = numba.njit([compiled.signature.args], **options)(function.py_func)
    (recompiled,) = again.overloads.values()
    return recompiled


def _linked(described: dict, texts: list[str]) -> tuple[bytes, Any]:
    """Link LLVM texts, drop what no kernel needs, and return a description and the module."""
    binding = llvm()
    whole = binding.parse_assembly(texts[0])
    for text in texts[1:]:
        whole.link_in(binding.parse_assembly(text))
    for symbol in (*whole.functions, *whole.global_variables):
        if not symbol.is_declaration and not symbol.name.startswith(_ENTRY):
            symbol.linkage = "internal"
    options = binding.newpassmanagers.PipelineTuningOptions()
    passes = binding.newpassmanagers.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_symbols_pass()
    passes.run(whole, binding.newpassmanagers.create_pass_builder(host_machine(), options))
    symbols = [f.name for f in whole.functions if f.is_declaration and not f.name.startswith("llvm.")]
    return json.dumps({**described, "symbols": symbols}).encode(), whole


def can_use_images() -> bool:
    """Return whether this system runs kernels as machine code without numba."""
    is_on = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
    return is_on and os.name == "posix" and sys.byteorder == "little"


def image_path(name: str) -> Path | None:
    """Return where the image ``name`` for this machine lies, or None without images or without a folder."""
    if not can_use_images():
        return None
    return kept_path(f"{name}.{_fingerprint()}.image")


def _leaves(types: Iterable) -> Iterator:
    """Yield numba types, and those in tuples: machine code takes the values in a tuple one by one."""
    for numba_type in types:
        if hasattr(numba_type, "types"):
            yield from _leaves(numba_type.types)
        else:
            yield numba_type


def _describe(of: Any) -> list | str | None:
    """Return an argument's numba type in the form of the header, or None if images cannot pass it."""
    if str(of) in ("int64", "uint64", "float64"):
        return "float" if str(of) == "float64" else "int"
    if type(of).__name__ != "Array" or of.layout != "C":
        return None
    return [str(of.dtype), of.ndim, not of.mutable]


def _with_entry(text: str, key: str, function: str, arguments: list) -> str:
    """Return LLVM text with a function that reads all arguments from one array; cell 0 gets the result."""
    loads, parameters, cell = [], ["ptr %cells", "ptr %error"], 1
    for argument in arguments:
        n_axes = 0 if isinstance(argument, str) else argument[1]
        kinds = {"int": ["i64"], "float": ["double"]}.get(argument) if isinstance(argument, str) else None
        for kind in kinds or ["ptr", "ptr", "i64", "i64", "ptr", *["i64"] * (2 * n_axes)]:
            loads.append(f"  %at{cell} = getelementptr i64, ptr %cells, i64 {cell}")
            loads.append(f"  %x{cell} = load {kind}, ptr %at{cell}")
            parameters.append(f"{kind} %x{cell}")
            cell += 1
    body = "\n".join(loads)
    return f"""{text}
define i32 @{_ENTRY}{key}(ptr %cells) {{
  %error = alloca ptr
{body}
  %status = call i32 @"{function}"({", ".join(parameters)})
  ret i32 %status
}}
"""


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Return a short name for everything that machine code depends on besides its source."""
    import llvmlite

    binding = llvm()
    numba = importlib.util.find_spec("numba")
    version = Path(numba.origin).with_name("_version.py").read_text()
    parts = [_VERSION, version, llvmlite.__version__, sys.platform, binding.get_host_cpu_name()]
    parts += [binding.get_host_cpu_features().flatten(), numba_settings()]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def llvm() -> Any:
    """Return llvmlite's binding of LLVM, ready for this machine. It needs no numba."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def host_machine(effort: int = 3) -> Any:
    """Return a target machine like the one that numba uses, which optimises with ``effort`` from 0 to 3."""
    # Each engine owns one.
    binding = llvm()
    triple = binding.get_process_triple()
    return binding.Target.from_triple(triple).create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=effort,
        reloc="static" if triple.startswith("x86") else "default", codemodel="jitdefault", jit=True,
    )  # fmt: skip


def _address(values: np.ndarray) -> int:
    if values.dtype.kind in "iufb":
        return pa.py_buffer(values).address  # in a fifth of the time
    return values.__array_interface__["data"][0]


def _bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


# Kernels that come with the package as bitcode of LLVM, so that a first query waits for no compiler.
#
# numba needs seconds to compile the kernels that serve every query. Their bitcode becomes machine code for
# this machine in a tenth of a second, without numba, and `images` keeps it. The name of a file has the hash
# of the kernels' text, so a changed kernel never runs as it was before. Where bitcode cannot be used, numba
# compiles.

FOLDER = Path(__file__).resolve().parents[2] / "kernels" / "bitcode"
COMMAND = "python -m cepkit.commands.ship"
_TITLE = f"Kernels of cepkit as bitcode of LLVM. {COMMAND} makes all such files again.\n".encode()
# The user asks numba for other machine code.
_SWITCHES = ("BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "DEBUGINFO", "OPT")


def has_bitcode(name: str) -> bool:
    """Return whether `load_bitcode` finds the kernels ``name``."""
    return can_use_images() and _is_known_to_work() and _read(bitcode_path(name)) is not None


def load_bitcode(name: str, *, quick: bool = False) -> SimpleNamespace | None:
    """Return the functions of shipped kernels by their names, and keep their image for later processes."""
    # With ``quick``, the machine code is made in a tenth of the time, takes up to twice as long to run, and
    # later processes find it under `quick_name` until there is better code. Returns None if the kernels do
    # not come with the package, or their bitcode cannot be used here.
    if not has_bitcode(name):
        return None
    header, bitcode = _read(bitcode_path(name))
    try:
        kernels = llvm().parse_bitcode(bitcode)
    except RuntimeError:
        return None
    content = machine_code(header, kernels, effort=0 if quick else 3)
    keep_machine_code(quick_name(name) if quick else name, content)
    return load_machine_code(content)


def quick_name(name: str) -> str:
    """Return the name of the image with the machine code that was made quickly."""
    return f"{name}_quick"


def drop_image(name: str) -> None:
    """Remove an image that no process needs any more."""
    if (path := image_path(name)) is not None:
        path.unlink(missing_ok=True)


def write_bitcode(folder: Path, name: str, module: ModuleType) -> Path:
    """Write the kernels of a module that numba has compiled for any x86-64; return the path of the file."""
    # The types of all arguments are in the decorators.
    from importlib.metadata import version

    header, kernels = link_kernels(module)
    versions = {package: version(package) for package in ("numba", "llvmlite")} | {
        "llvm": llvm().llvm_version_info
    }
    described = {**json.loads(header), "made": versions, "layout": str(host_machine().target_data)}
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
