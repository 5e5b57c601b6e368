"""Compile kernel source into functions, cached on disk for all processes, also in the background."""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import json
import linecache
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from cepkit.cache import cache_path, keep, kept_path, lock_folder, read_kept, shared_path
from cepkit.compile.shared.images import (
    can_use_images,
    drop_image,
    has_bitcode,
    image_path,
    load_bitcode,
    quick_name,
    read_image,
    write_image,
)
from cepkit.errors import CepError
from cepkit.progress import collect_later, free_after_fork, hold, interrupts_wait, say_step

# Compile kernels in a process of its own, so that the next run finds them. It has the lowest priority.
#
# A thread would not do: numba holds the interpreter's lock while it compiles, and loads into this process.
# ``CEPKIT_BACKGROUND=0`` switches this off.

# Linux shares the processor among sessions first. Within its own session a niceness has no effect.
_PROGRAM = """
import contextlib, json, os, sys
sys.path[:], what, name = json.loads(sys.argv[1])
if hasattr(os, "nice"):
    os.nice(10)
with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as niceness:
    niceness.write("19")
from cepkit.compile.shared import loading
if what == "kernels":
    loading.load_kernels(name, quick=False)
else:
    loading.load_requests(name)
"""
_running: list[subprocess.Popen] = []
_begun: set[str] = set()


@atexit.register
def _let_go() -> None:
    """Forget the process: it continues after this one and ends by itself. Popen would warn of it."""
    for process in _running:
        process.returncode = 0


def compile_in_background(what: str, name: str) -> bool:
    """Begin to compile a module of kernels, and return whether this began now."""
    # At most one such process works for a cache folder, whichever process began it: it inherits a lock of the
    # folder, which ends with it. A module whose turn does not come is compiled after a later run.
    is_begun = what == "kernels" and name in _begun  # in vain
    if os.environ.get("CEPKIT_BACKGROUND", "1") == "0" or not sys.executable or is_begun:
        return False
    _running[:] = [process for process in _running if process.poll() is None]
    if _running:
        return False
    lock = None
    try:
        lock = lock_folder(Path(name) if what == "texts" else cache_path())
        _begun.add(name)
        _running.append(_begin(what, name, () if lock is None else (lock,)))
    except (CepError, OSError):  # no home folder, another process works, or none can begin
        return False
    finally:
        if lock is not None:
            os.close(lock)
    return True


def _begin(what: str, name: str, open_files: tuple[int, ...]) -> subprocess.Popen:
    """Begin the process, which inherits open files."""
    paths = [str(Path(path).resolve()) for path in sys.path]
    none = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, json.dumps([paths, what, name])],
        env={**os.environ, "CEPKIT_BACKGROUND": "0"}, stdin=none, stdout=none, stderr=none,
        start_new_session=True, pass_fds=open_files,
    )  # fmt: skip


# Work that can wait: it runs in a thread of its own, after the user has the first answers.

_DELAY_S = 1.0
_waiting: list[Callable[[], object]] = []
_ending = threading.Event()
_thread: threading.Thread | None = None
_lock = threading.Lock()
_working = threading.Lock()  # LLVM has locks of its own, so a process must not fork while work runs
free_after_fork(_lock)
free_after_fork(_working)


def run_later(work: Callable[[], object]) -> None:
    """Call ``work`` in about a second, if the process lives that long. Works are called one by one."""
    global _thread
    with _lock:
        _waiting.append(work)
        if _thread is None or not _thread.is_alive():  # a forked process has no thread
            _thread = threading.Thread(target=_run, name="cepkit-later", daemon=True)
            _thread.start()


def _run() -> None:
    while not _ending.wait(_DELAY_S):
        if not _call_all():
            return


def _call_all() -> bool:
    """Call what waits, until the process ends; return whether anything waited."""
    n = 0
    while not _ending.is_set():
        with _lock:
            if not _waiting:
                break
            work = _waiting.pop(0)
        with _working:
            work()
        n += 1
    return n > 0


@atexit.register
def _end() -> None:
    """Wait for the work that runs now. Machine code in the making must not outlive the interpreter."""
    _ending.set()
    if _thread is not None and _thread.is_alive():
        _thread.join()


_loading = threading.RLock()  # a module that another thread still compiles has no functions yet
free_after_fork(_loading)
_kernels: dict[str, Any] = {}  # modules of the package by their names
_images: dict[str, SimpleNamespace] = {}  # functions in machine code by the name of their module
_asked: set[str] = set()  # names of modules to compile in the background, each once
_asked_at: dict[str, float] = {}  # when this process last looked whether their turn came
_spent: dict[str, float] = {}  # seconds of interpretation by the name of the module that was not compiled
_listings: dict[Path, tuple[float, frozenset[str]]] = {}  # when a folder was read, and the modules in it
_absent: dict[tuple, float] = {}  # when a module was looked for in a cache and was not there
_LOOK_AGAIN_S, _ASK_AGAIN_S, _MOST_ABSENT = 0.02, 0.1, 1000
_EVENTS_THAT_PAY = 200_000  # a query over fewer events is quick to interpret again
_REQUEST = ".text"  # suffix of a file with the text of a module to compile
_MOST_LINES = 600  # of a text; a longer one takes a minute and a gigabyte and more to compile
_SECONDS_THAT_PAY = 0.02  # of interpretation in this process; then a query runs often or long
_READ_AGAIN_S = 0.2  # a large folder that changes all the time is not read for each query
_FOR_ONE, _FOR_ALL = "compiling the kernel of the query", "compiling the kernels of all queries"
_CLOCK_S = 2.0  # within this time, a folder may change again without a new time of change


def load(text: str, names: Mapping[str, Callable] | None = None) -> ModuleType:
    """Return the module made from kernel source, compiled now or loaded from the cache."""
    # A module is named by the hash of its text. Nothing runs but the text itself: files hold machine code
    # only. Each is moved into place as a whole, so several processes can share the folder. The module is
    # entered into ``sys.modules`` before it runs, because numba finds functions from a cache by the name of
    # their module.
    if not names and (image := _images.get(_name_of(text))) is not None:
        return cast(ModuleType, image)
    with hold(_loading):
        return _load_once(text, names or {})


def reason_to_compile(text: str, kernels: str) -> str | None:
    """Return why a generated kernel runs, or None if the query is new and ``kernels`` may interpret it."""
    if _name_of(text) not in _images and (reason := reason_not_to_interpret()):
        return reason
    if is_ready(text):
        return "its kernel is compiled already"
    return None if are_kernels_ready(kernels) else "the kernels that interpret queries are not compiled yet"


def reason_not_to_interpret() -> str | None:
    """Return why no query is interpreted in this process, or None. ``CEPKIT_TIER=compiled`` is one reason."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return "numba is switched off"
    return "CEPKIT_TIER says so" if os.environ.get("CEPKIT_TIER") == "compiled" else None


def compile_if_it_pays(text: str, n_events: int, seconds: float = 0.0) -> None:
    """Compile the kernel of an interpreted query in the background if the query runs over many events."""
    # It also pays after ``seconds`` of interpretation, added to those of earlier calls. A later `load` finds
    # the kernel. Nothing begins if the cache cannot be written.
    name, now = _name_of(text), time.monotonic()
    spent = _spent[name] = _spent.get(name, 0.0) + seconds
    if n_events < _EVENTS_THAT_PAY and spent < _SECONDS_THAT_PAY:
        return
    if now - _asked_at.get(name, -_ASK_AGAIN_S) >= _ASK_AGAIN_S and not is_ready(text):
        _asked_at[name] = now
        if text.count("\n") > _MOST_LINES:
            return
        with suppress(CepError):
            path = kept_path(f"{name}{_REQUEST}")
            if path is None or (name not in _asked and not keep(path, text.encode())):
                return
            _asked.add(name)
            if path.exists():  # its turn did not come yet
                compile_in_background("texts", str(path.parent))


def interpreting(text: str, run: Callable, n_events: int = 0) -> Callable:
    """Return ``run``, which interprets the query of ``text``. The text is compiled if that pays."""
    compile_if_it_pays(text, n_events)

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        result = run(*arguments)
        compile_if_it_pays(text, 0, time.perf_counter() - began)
        return result

    return timed


def load_requests(folder: str) -> None:
    """Compile the texts that processes asked for in `compile_if_it_pays`, and remove their files."""
    while path := next(Path(folder).glob(f"cepkit_kernel_*{_REQUEST}"), None):
        try:
            if (content := read_kept(path)) is not None:
                load(content.decode())
        finally:
            path.unlink(missing_ok=True)


def is_ready(text: str) -> bool:
    """Return whether the module made from kernel source is compiled already, now or by an earlier process."""
    name, now = _name_of(text), time.monotonic()
    if name in sys.modules or name in _images:
        return True
    absent = name, os.environ.get("CEPKIT_CACHE")
    if now - _absent.get(absent, -1.0) < _LOOK_AGAIN_S:
        return False
    if _is_image_kept(name):
        return True
    try:
        if name in _names_in(cache_path()):
            return True
    except CepError:  # there is no home folder
        return False
    if len(_absent) > _MOST_ABSENT:
        _absent.clear()
    _absent[absent] = now
    return False


def _is_image_kept(name: str) -> bool:
    path = image_path(name)
    if path is None:
        return False
    shared = shared_path(path.name)
    return path.exists() or (shared is not None and shared.exists())


def _names_in(folder: Path) -> frozenset[str]:
    """Return the modules with kept functions of numba; the folder is read again only after it changed."""
    try:
        changed = folder.stat().st_mtime
        read, names = _listings.get(folder, (0.0, frozenset()))
        now = time.time()
        if read - changed < _CLOCK_S and not 0 <= now - read < _READ_AGAIN_S:
            read, files = now, os.listdir(folder)
            kept, asked = (
                {name.partition(".")[0] for name in files if name.endswith(end)}
                for end in (".kernel", _REQUEST)
            )
            names = frozenset(kept - asked)  # another process still compiles these
            _listings[folder] = read, names
    except OSError:  # there is no folder yet, or it is no folder
        return frozenset()
    return names


def are_kernels_ready(name: str) -> bool:
    """Return whether `load_kernels` is quick. If not, begin to compile the module in the background."""
    if name in _kernels or not can_use_images() or _is_shipped(image_name(name)):
        return True
    compile_in_background("kernels", name)
    return False


def is_general_ready(text: str) -> bool:
    """Return whether `load_general` is quick."""
    name = general_name(text)
    return name in _kernels or not can_use_images() or _is_shipped(name)


def _is_shipped(image: str) -> bool:
    return _is_image_kept(image) or has_bitcode(image)


def load_kernels(name: str, *, quick: bool = True) -> Any:
    """Return the functions of the module ``name`` with hand-written kernels, without numba if possible."""
    # Every kernel of the module has the types of its arguments in its decorator. With ``quick``, the first
    # machine code of an installation is made quickly, and better code takes its place about a second later.
    return _load_shipped(name, partial(image_name, name), partial(importlib.import_module, name), quick)


def is_loaded(name: str) -> bool:
    """Return whether `load_kernels` has loaded the machine code of a module."""
    return isinstance(_kernels.get(name), SimpleNamespace)


def load_general(text: str, *, quick: bool = True) -> Any:
    """Return the functions of a generated text that serves every query; otherwise as `load_kernels`."""
    name = general_name(text)
    return _load_shipped(name, lambda: name, partial(_run_text, name, text, {}), quick)


@lru_cache
def general_name(text: str) -> str:
    """Return the name of the image of a generated text that serves every query."""
    return f"cepkit_general_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _load_shipped(key: str, image_of: Callable[[], str], make: Callable[[], Any], quick: bool) -> Any:
    """Return kernels that come with the package, loaded once for all threads."""
    if key not in _kernels:
        with hold(_loading), interrupts_wait():
            if key not in _kernels:
                _kernels[key] = _load_kernels(key, image_of, make, quick)
    return _kernels[key]


def _load_kernels(key: str, image_of: Callable[[], str], make: Callable[[], Any], quick: bool) -> Any:
    """Return kernels: from machine code on disk, from shipped bitcode, or compiled now and then kept."""
    if not can_use_images():
        with say_step(_FOR_ALL):
            return make()
    image = image_of()
    if (kernels := read_image(image)) is not None:
        return kernels
    kernels = read_image(quick_name(image)) if quick else None
    if kernels is None:
        kernels = load_bitcode(image, quick=quick)
    if kernels is not None:
        if quick:
            run_later(partial(_improve, key, image))
        return kernels
    with say_step(_FOR_ALL):
        module = make()
    write_image(image, module)
    return module


def _improve(key: str, image: str) -> None:
    """Let better machine code take the place of the first one, and keep it for later processes."""
    if (better := load_bitcode(image)) is not None:
        _kernels[key] = better
        drop_image(quick_name(image))


@cache
def image_name(name: str) -> str:
    """Return the name of the image of a module of the package, which changes with the texts that it uses."""
    path = Path(importlib.util.find_spec(name).origin)
    shared = ["records", "interpreting"]
    pattern = r"^(?:from|import) cepkit\.kernels(?:\.| import )([\w.]+)"
    named = set(re.findall(pattern, path.read_text("utf-8"), re.MULTILINE))
    shared += sorted(named - {*shared, "jit"})  # keeping machine code does not change it
    folder = Path(importlib.util.find_spec("cepkit.kernels").origin).parent
    files = [path, *(folder.joinpath(*module_name.split(".")).with_suffix(".py") for module_name in shared)]
    texts = b"".join(file.read_bytes() for file in files)
    return f"cepkit_{path.stem}_{hashlib.sha256(texts).hexdigest()[:24]}"


def _load_once(text: str, names: Mapping[str, Callable]) -> ModuleType:
    """Return the module of a generated text, loaded or compiled once."""
    function_ids = "".join(f"_{id(function):x}" for function in names.values())
    name = f"{_name_of(text)}{function_ids}"
    if name in sys.modules:
        return sys.modules[name]
    if name in _images:
        return _images[name]
    with interrupts_wait():
        if not names and "numba" not in sys.modules and (image := read_image(name)) is not None:
            _images[name] = image
            return image
        module = _run_text(name, text, names)
        if not names:
            write_image(name, module)
        return module


def _run_text(name: str, text: str, names: Mapping[str, Callable]) -> ModuleType:
    """Run a text as the module ``name`` with further names; this compiles its functions."""
    module, file = ModuleType(name), f"<{name}>"
    module.__dict__.update(names)
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # for tracebacks
    sys.modules[name] = module
    try:
        with say_step(_FOR_ONE), collect_later():  # the first kernel imports numba: a million objects
            exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@lru_cache(maxsize=1024)
def _name_of(text: str) -> str:
    return f"cepkit_kernel_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
