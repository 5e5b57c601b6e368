"""numba's ``njit``, with machine code in the cache of cepkit."""

# numba's own cache unpickles files without a look at their content or their owner. It also fails where no
# folder can be written, and it misses changes of functions in other files. Here, `cepkit.cache` checks files.

from __future__ import annotations

import hashlib
import pickle
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import config, serialize, typeinfer, types
from numba.core.compiler import CompileResult
from numba.core.datamodel import models, register_default
from numba.core.typeconv import Conversion

from cepkit.cache import drop_kept, forget_unused, keep, kept_path, numba_settings, read_kept
from cepkit.progress import interrupts_wait

SUFFIX = ".kernel"


def njit(given: Any = None, *, cache: bool = False, **options: Any) -> Any:
    """Return numba's decorator ``njit``. With ``cache``, machine code is kept for later processes."""
    if getattr(config, "DISABLE_JIT", False):
        return numba.njit(**options) if given is None else numba.njit(given, **options)
    if not cache and given is None:
        return lambda function: _compiling_safely(numba.njit(**options)(function))
    if not cache:
        return numba.njit(given, **options)

    def compile_and_keep(function: Any) -> Any:
        dispatcher: Any = _compiling_safely(numba.njit(**options)(function))
        dispatcher._cache = KernelCache(function, options)
        if given is not None:
            # As numba does: the function may call itself, and no other types are compiled later.
            with typeinfer.register_dispatcher(dispatcher):
                for signature in given if isinstance(given, list) else [given]:
                    dispatcher.compile(signature)
                dispatcher.disable_compile()
        return dispatcher

    return compile_and_keep


def _compiling_safely(dispatcher: Any) -> Any:
    """Let a function compile once for all numbers, and let Ctrl-C wait meanwhile."""
    compile_types, compile_for = dispatcher.compile, dispatcher.get_call_template

    def compile_to_the_end(signature: Any) -> Any:
        # An interrupt could stop numba while it loads its rules of types. It would miss them for ever.
        with interrupts_wait():
            return compile_types(signature)

    def get_call_template(args: tuple, kws: dict) -> Any:
        # numba would compile the function for each literal argument again.
        kws = {name: types.unliteral(of) for name, of in kws.items()}
        return compile_for(tuple(map(types.unliteral, args)), kws)

    dispatcher.compile, dispatcher.get_call_template = compile_to_the_end, get_call_template
    return dispatcher


class Record(types.NamedTuple):
    """numba's type of a named tuple of arguments. Its fields take what arguments outside of it take."""

    # numba alone would refuse a writable array for a field that is only read, and fields that are all equal.

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """Return how numba converts ``other`` to this type, or None."""
        if getattr(other, "instance_class", None) is not self.instance_class:
            return None
        kinds = [typingctx.can_convert(*pair) for pair in zip(other.types, self.types, strict=True)]
        return None if None in kinds else max(Conversion.promote, *kinds)


register_default(Record)(models.TupleModel)


class KernelCache:
    """The machine code of one function on disk. numba's dispatcher asks it before it compiles."""

    def __init__(self, function: Any, options: dict[str, Any]):
        code = function.__code__
        self._name = f"cepkit_{function.__module__.rpartition('.')[2].removeprefix('cepkit_')}"
        self._function = "".join(one for one in function.__qualname__ if one not in "<>")
        self._parts = (_surroundings(), code.co_firstlineno, code.co_code, sorted(options.items()))
        self._is_closed = function.__closure__ is None

    @property
    def cache_path(self) -> None:
        """Return what numba shows in statistics."""
        return None

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what numba compiled for a signature in an earlier process, or None."""
        target_context.refresh()
        path = self._path(signature, target_context.codegen())
        content = None if path is None else read_kept(path)
        if path is None or content is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception as error:  # whatever is wrong with it, numba can compile again
            drop_kept(path, f"cannot be loaded ({type(error).__name__})")
            return None

    def save_overload(self, signature: Any, made: Any) -> None:
        """Keep what numba compiled for a signature."""
        if made.library.has_dynamic_globals or not all(one.can_cache for one in made.lifted):
            return
        path = self._path(signature, made.codegen)
        if path is not None and keep(path, serialize.dumps(made._reduce())):
            forget_unused(path.parent)

    def flush(self) -> None:
        """Do nothing: a name has the hash of all that its file depends on."""

    def _path(self, signature: Any, codegen: Any) -> Path | None:
        described = repr((signature, codegen.magic_tuple(), *self._parts))
        if not self._is_closed or " at 0x" in described:  # it differs in each process
            return None
        key = hashlib.sha256(described.encode()).hexdigest()[:24]
        return kept_path(f"{self._name}.{self._function}.{key}{SUFFIX}")


@lru_cache(maxsize=1)
def _surroundings() -> str:
    """Return a hash of what all kernels depend on: versions, settings, and the texts of this room."""
    # A kernel contains the functions that it calls, so the text of its own file is not enough.
    texts = (path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))
    versions = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag, sys.platform
    return hashlib.sha256(repr((versions, numba_settings())).encode() + b"\n".join(texts)).hexdigest()
