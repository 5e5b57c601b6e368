"""The files that come with the package, and the user's folders for files that are kept between processes.

Compiled kernels, parsers' tables and launchers are kept. A kept file begins with its name and a hash. A
damaged or foreign file is never used: it is removed and made again. A full or read-only disk costs time and
no answer. A warning reports each kind of trouble once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cepkit.errors import CepError, warn

_PACKAGE = Path(__file__).parent
KERNELS = "kernels"
_TITLE = b"cepkit keeps "
_OTHERS = "can be written by others"
_NO_FILE = "is not a file of cepkit"
_LARGEST = 1 << 30  # bytes of a kept file
# A file with one of these errors stays as it is. Others, such as too many open files, may pass.
_LASTING = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.EIO, errno.ENXIO)
_DAY_S = 86_400
_DAYS_UNUSED = 90  # a file without use for this time is forgotten
_reported: set[str] = set()  # kinds of trouble


class UnsafeFolderError(CepError, PermissionError):
    """A folder or file with code that runs belongs to another user, or others can write it."""


# --- folders ----------------------------------------------------------------------------------------------


def cache_path(name: str = KERNELS, environment: Mapping[str, str] | None = None) -> Path:
    """Return where a cache folder lies."""
    environment = os.environ if environment is None else environment
    named = environment.get("CEPKIT_CACHE")
    try:
        if named:
            folder = Path(named).expanduser()
            return folder if name == KERNELS else folder / name
        base = environment.get("XDG_CACHE_HOME")
        return (Path(base) if base else Path.home() / ".cache") / "cepkit" / name
    except RuntimeError as error:
        raise CepError(
            f"the cache has no folder, because the home folder is not known ({error}); "
            "set CEPKIT_CACHE to a folder of yours"
        ) from error


def cache_folder(name: str = KERNELS) -> Path:
    """Return a cache folder of the user, see `cache_path`; make it if there is none."""
    return private_folder(cache_path(name))


def private_folder(folder: Path) -> Path:
    """Return a folder that only the user can write; make it if there is none. Raises as `cache_folder`."""
    try:
        for own in (folder.parent, folder):
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CepError(
            f"the cache folder {folder} cannot be made ({_said(error)}); "
            "set CEPKIT_CACHE to a folder of yours"
        ) from error
    check_private(folder)
    return folder


def shared_path(name: str) -> Path | None:
    """Return where a file may lie in the folder of kernels that a team shares; None without such a folder."""
    # Users trust the owner of the folder that they name, and nobody else.
    named = os.environ.get("CEPKIT_SHARED_CACHE")
    return Path(named).expanduser() / name if named else None


def check_private(path: Path) -> None:
    """Raise UnsafeFolderError when a file or folder belongs to another user, or others can write it."""
    found = path.stat()
    reason = _reason_not_private(found)
    if reason == _OTHERS:
        raise UnsafeFolderError(
            f"{path} in the cache {reason}, and its files are run as code; its mode is {_mode(found)}. "
            f"Take that right away (chmod go-w {path}) or set CEPKIT_CACHE to a folder of yours"
        )
    if reason is not None:
        raise UnsafeFolderError(f"{path} in the cache {reason}; set CEPKIT_CACHE to a folder of yours")


def _reason_not_private(found: os.stat_result, owner: int | None = None) -> str | None:
    """Return why code in a file or folder must not run, or None if only its owner, the user, can write it."""
    if not hasattr(os, "getuid"):
        return None
    if found.st_uid != (os.getuid() if owner is None else owner):
        return "belongs to another user"
    return _OTHERS if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _mode(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):o}"


def lock_folder(folder: Path) -> int | None:
    """Lock a folder until no process has the returned file open, or return None where no locks exist."""
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = -1
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise BlockingIOError(error.errno, error.strerror) from None
        return None
    return descriptor


# --- kept files -------------------------------------------------------------------------------------------


def kept_path(name: str) -> Path | None:
    """Return where a file lies in the folder of kernels, or None without a folder, which is reported once."""
    try:
        return cache_folder() / name
    except UnsafeFolderError:
        raise
    except CepError as error:
        _report("no folder", f"{error}. Nothing is kept until then, so each process compiles its kernels.")
    return None


def read_kept(path: Path) -> bytes | None:
    """Return the content of a file that `keep` wrote, or None if there is none that can be trusted.

    A file is not used if it is damaged, if it was written under another name, if it belongs to another user,
    or if others can write it. Such a file is removed, and a warning says so once in a process. What the
    folder of the user lacks is read from the one that a team shares, by the same rules. Nothing is removed
    there.

    """
    content, trouble = _content(path, None)
    if trouble is not None:
        drop_kept(path, trouble)
    if content is None and (shared := shared_path(path.name)) is not None:
        content, trouble = _shared_content(shared)
        if trouble is not None:
            _report("shared", f"{shared} in the shared cache {trouble}. It is not used.")
    return content


def _shared_content(path: Path) -> tuple[bytes | None, str | None]:
    """Return the content of a file of the shared folder, or why it is not used. Both have one owner."""
    try:
        folder = path.parent.stat()
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"
    if _reason_not_private(folder, folder.st_uid) is not None:
        return None, f"lies in a folder that others can write (mode {_mode(folder)})"
    return _content(path, folder.st_uid)


def _content(path: Path, owner: int | None) -> tuple[bytes | None, str | None]:
    """Return the content of a kept file of an owner, by default the user, or why it is not used."""
    flags = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOCTTY"))
    try:
        number = os.open(path, os.O_RDONLY | sum(flags))  # a pipe must not make us wait
    except OSError as error:
        return None, f"cannot be read ({error.strerror})" if error.errno in _LASTING else None
    whole, changed = b"", 0.0
    try:
        found = os.fstat(number)
        changed = found.st_mtime
        is_file = stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST
        trouble = _reason_with_mode(found, owner) if is_file else _NO_FILE
        if trouble is None:
            with os.fdopen(os.dup(number), "rb") as file:
                whole = file.read()
    except OSError as error:
        if error.errno not in _LASTING:
            return None, None
        trouble = f"cannot be read ({error.strerror})"
    finally:
        os.close(number)
    if trouble is None:
        header, _, content = whole.partition(b"\n\n")
        name = header.removeprefix(_TITLE).partition(b"\n")[0].decode("utf-8", "replace")
        if header != _header(name, content):
            trouble = "is damaged: its hash does not fit its content"
        elif name != path.name:
            trouble = f"is foreign or outdated: it was written as {name}"
        else:
            if owner is None and time.time() - changed > _DAY_S:
                with suppress(OSError):
                    os.utime(path)  # it is in use
            return content, None
    return None, trouble


def reason_against(path: Path) -> str | None:
    """Return why code in a file must not run, or None: it is no file, or others can write it."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return _NO_FILE
    return _reason_with_mode(found)


def _reason_with_mode(found: os.stat_result, owner: int | None = None) -> str | None:
    reason = _reason_not_private(found, owner)
    return f"{reason} (mode {_mode(found)})" if reason == _OTHERS else reason


def drop_kept(path: Path, trouble: str) -> None:
    """Remove a kept file that cannot be used, and report it once in a process."""
    is_gone = _remove(path)
    _report(
        "file",
        f"{path} in the cache {trouble}. It is not used. "
        + ("It was removed, and is made again." if is_gone else "It cannot be removed; remove it yourself."),
    )


def keep(path: Path, content: bytes) -> bool:
    """Write a file for later processes, which `read_kept` reads; return whether the folder could be written.

    A folder that cannot be written, or a full disk, is reported once in a process.

    """
    try:
        write_whole(path, _header(path.name, content) + b"\n\n" + content)
    except CepError as error:
        _report("folder", f"{error}. Results are right, but each process compiles its kernels.")
        return False
    return True


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file of a cache. Other processes never see a part of it, and several may write it at once."""
    part = path.with_suffix(f".{os.urandom(8).hex()}.part")
    try:
        part.touch(mode=mode, exist_ok=False)
        part.write_bytes(content)
        try:
            os.replace(part, path)
        except OSError:
            if not path.is_dir() or not _remove(path):
                raise
            os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CepError(
            f"the cache folder {path.parent} cannot be written ({_said(error)}); "
            "set CEPKIT_CACHE to a folder of yours"
        ) from error


def forget_unused(folder: Path) -> int:
    """Remove kept files that no process has used for 90 days, and unfinished parts of killed processes."""
    now, mark, n_removed = time.time(), folder / "cepkit_swept", 0
    try:
        if mark.exists() and now - mark.stat().st_mtime < 7 * _DAY_S:
            return 0
        mark.touch(mode=0o600)
        for path in (*folder.iterdir(), *folder.glob("__pycache__/*")):  # earlier versions used both
            days = _DAYS_UNUSED if path.name.startswith("cepkit_") else None
            days = 1 if path.suffix == ".part" else days
            if days is None or not stat.S_ISREG((found := path.lstat()).st_mode):
                continue
            if now - found.st_mtime > days * _DAY_S:
                n_removed += _remove(path)
    except OSError:
        pass  # another process removes files at the same time, or the folder is read-only
    return n_removed


def numba_settings() -> str:
    """Return the user's settings of numba, which change machine code."""
    return "\n".join(
        f"{name}={value}" for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR"
    )  # fmt: skip


def _header(name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(name.encode("utf-8", "replace") + b"\n" + content).hexdigest()
    return _TITLE + name.encode("utf-8", "replace") + b"\n" + digest.encode()


def _remove(path: Path) -> bool:
    """Remove a file, or a folder in its place; return whether nothing is there now."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _report(kind: str, message: str) -> None:
    if kind not in _reported:
        _reported.add(kind)
        warn(message)


def _said(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def shipped(folder: str, name: str) -> Path:
    """Return the path of ``<folder>/<name>``: in ``cepkit/_data`` of a wheel, at the root of a checkout."""
    # `_data` first: next to an installed package, the second place is someone else's `site-packages/widgets`.
    candidates = [_PACKAGE / "_data" / folder / name, _PACKAGE.parent / folder / name]
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"cepkit file {folder}/{name} is missing; looked at " + " and ".join(str(path) for path in candidates)
    )
