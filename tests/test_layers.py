"""The plan of the house: a module imports its own room and rooms below; importing the package is light."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import cepkit as cep

PACKAGE = Path(__file__).resolve().parents[1] / "cepkit"
PAPERS = PACKAGE.parent / "notebooks" / "papers"

# Rooms by floor, from the ground up. A room is a folder or a loose module; rooms of one floor do not know
# each other. The imports inside functions and under TYPE_CHECKING count as well.
FLOORS = (
    ("errors",),
    ("cache", "doors", "progress", "values"),
    ("events", "limits", "kernels", "datasets"),
    ("language",),
    ("compile",),
    ("engines", "plots"),
    ("planning", "widgets"),
    ("frames", "insight", "pipelines"),
    ("results",),
    ("windows",),
    ("streaming",),
    (
        "parallel",
        "linked",
        "shedding",
        "scaleout",
        "siddhiql",
        "idioms",
        "translation",
        "detection",
    ),
    ("api",),
    ("accessor",),
    ("explorer",),
    ("commands",),
)
# Sub-rooms by floor, within rooms that have them; a module that lies beside them may import them all.
SUB_FLOORS = {
    "language": (("expressions",), ("match_recognize", "siddhi"), ("sequences",)),
    "compile": (("shared",), ("match_recognize",)),
    "engines": (("shared",), ("match_recognize",), ("counting",)),
    "shedding": (("strategies",),),
}
MOST_ROOMS, MOST_LOOSE, MOST_FILES = 28, 9, 16
MOST_LINES_OF_PAPERS = 9_000
FLOOR_OF_ROOM = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def name_of(path: Path) -> str:
    """Return the dotted name of a module, below ``cepkit``; empty for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATH_OF_MODULE = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = [name for name in PATH_OF_MODULE if name]


@cache
def import_statements(module: str) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports of a module, wherever in it; expressions have none."""
    statements, waiting = [], [ast.parse(PATH_OF_MODULE[module].read_text(encoding="utf-8"))]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                statements.append(node)
            elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                waiting.append(node)
    return statements


@cache
def imports(module: str) -> frozenset[str]:
    """Return the modules of the package that a module imports, wherever in it."""
    found = set()
    for node in import_statements(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            known = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {
                name if name.removeprefix("cepkit.") in PATH_OF_MODULE else node.module for name in known
            }
    own = {name.removeprefix("cepkit").removeprefix(".") for name in found if name.split(".")[0] == "cepkit"}
    return frozenset(own & set(PATH_OF_MODULE))


def test_every_import_exists():
    for module in PATH_OF_MODULE:
        for node in import_statements(module):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "cepkit":
                known = node.module.removeprefix("cepkit").removeprefix(".")
                assert known in PATH_OF_MODULE, f"{module or 'cepkit'} imports {node.module}"


def outside(module: str) -> set[str]:
    """Return the packages outside cepkit that a module imports, wherever in it."""
    names = set()
    for node in import_statements(module):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    return names - {"cepkit"}


def arrows_up() -> list[tuple[str, str]]:
    """Return the imports that do not look down: (importing module, imported module)."""
    found = []
    for module in MODULES:
        room = module.split(".")[0]
        for target in imports(module):
            other = target.split(".")[0]
            if other and other != room and FLOOR_OF_ROOM[other] >= FLOOR_OF_ROOM[room]:
                found.append((module, target))
            # The package itself is for those who use it: examples, experiments and commands.
            if not other and room != "commands":
                found.append((module, "cepkit"))
    return found


def cycles() -> list[list[str]]:
    """Return the groups of modules that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in imports(module):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(group)

    for module in MODULES:
        if module not in index:
            visit(module)
    return found


def rooms() -> tuple[list[str], list[str]]:
    """Return the folders and the loose modules at the top of the package."""
    folders = [path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()]
    return sorted(folders), sorted(path.name for path in PACKAGE.glob("*.py"))


def test_every_room_is_in_the_plan():
    folders, loose = rooms()
    named = {name.removesuffix(".py") for name in loose} - {"__init__"}
    assert set(folders) | named == set(FLOOR_OF_ROOM)


def test_the_house_is_small(record_property, capsys):
    folders, loose = rooms()
    up, groups = arrows_up(), cycles()
    with capsys.disabled():
        print(
            f"\n{len(folders)} rooms, {len(loose)} loose modules at the top, {len(up)} imports upward, "
            f"{len(groups)} cycles"
        )
    assert len(folders) <= MOST_ROOMS
    assert len(loose) <= MOST_LOOSE
    assert not up
    assert not groups


@pytest.mark.parametrize("folder", sorted({path.parent for path in PATH_OF_MODULE.values()}), ids=str)
def test_a_room_is_finished_in_one_sitting(folder):
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES, (
        f"{folder.relative_to(PACKAGE)} has {len(files)} files; give it sub-rooms"
    )


@pytest.mark.parametrize("room", SUB_FLOORS)
def test_sub_rooms_look_down(room):
    floor_of = {name: floor for floor, names in enumerate(SUB_FLOORS[room]) for name in names}
    folders = {path.name for path in (PACKAGE / room).iterdir() if (path / "__init__.py").is_file()}
    assert folders == set(floor_of)
    for module in MODULES:
        parts = module.split(".")
        if parts[0] != room or len(parts) < 3:
            continue
        for target in imports(module):
            other = target.split(".")
            if other[0] != room or len(other) < 3 or other[1] == parts[1]:
                continue
            assert floor_of[other[1]] < floor_of[parts[1]], f"{module} imports {target}"


def test_kernels_import_numpy_and_numba_only():
    for module in MODULES:
        if module.startswith("kernels."):
            allowed = {"__future__", "numpy", "numba", "math", "typing", "functools"}
            # Atomic steps are written in the compiler's own words, and for Python with a lock.
            allowed |= {"llvmlite", "sys", "threading", "time"} if module == "kernels.wings.atomic" else set()
            # One module keeps their machine code.
            allowed |= (
                {"hashlib", "llvmlite", "pathlib", "pickle", "sys"} if module == "kernels.jit" else set()
            )
            below = ("kernels", "cache", "progress") if module == "kernels.jit" else ("kernels",)
            assert outside(module) <= allowed, module
            assert all(target.startswith(below) for target in imports(module)), module


def test_the_language_needs_no_arrays():
    for module in MODULES:
        if module.startswith("language"):
            assert outside(module) - set(sys.stdlib_module_names) <= {"lark"}, module


def test_the_package_knows_no_papers():
    assert [module for module in MODULES if outside(module) & {"papers", "notebooks", "tests"}] == []


@pytest.mark.parametrize("path", sorted(PAPERS.rglob("*.py")), ids=lambda path: path.stem)
def test_a_paper_draws_in_one_module_and_knows_no_other_paper(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if path.stem != "drawings":
        assert not {name for name in names if {"plotly", "plots"} & set(name.split("."))}
    folders = {name.split(".")[1] for name in names if name.startswith("papers.")}
    assert folders <= {other.stem for other in PAPERS.glob("*.py")} | {path.parent.name} - {PAPERS.name}


def test_papers_stay_small():
    lines = [path.read_text(encoding="utf-8").count("\n") for path in PAPERS.rglob("*.py")]
    assert sum(lines) <= MOST_LINES_OF_PAPERS


def test_pyspark_is_known_where_frames_are():
    allowed = (
        "frames",
        "pipelines",
        "results",
        "windows",
        "streaming",
        "siddhiql",
        "accessor",
        "api",
        "explorer",
        "commands",
    )
    for module in MODULES:
        if "pyspark" in outside(module):
            assert module.split(".")[0] in allowed, module


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_the_accessor_only():
    loaded = modules_after("import pandas\nbefore = set(sys.modules)\nimport cepkit")
    own = {name for name in loaded if name.split(".")[0] == "cepkit"}
    assert own <= {
        "cepkit",
        "cepkit.accessor",
        "cepkit.commands",
        "cepkit.errors",
        "cepkit.planning",
        "cepkit.planning.queries",
        "cepkit.doors",
    }
    heavy = {"anywidget", "ipywidgets", "numba", "plotly", "matplotlib", "tqdm", "scipy", "lark", "pyspark"}
    assert not loaded & heavy


def test_spark_frames_get_the_accessor_when_pyspark_is_imported():
    pytest.importorskip("pyspark")
    for statement in ("import cepkit\nimport pyspark.sql", "import pyspark.sql\nimport cepkit"):
        modules_after(f"{statement}\nassert isinstance(pyspark.sql.DataFrame.cep, property)")


def test_explaining_and_checking_need_no_numba():
    loaded = modules_after(
        "import cepkit, pandas\nframe = pandas.DataFrame({'x': [1]})\n"
        "str(cepkit.explain(frame, '. a', define={'a': 'x > 1'}))"
    )
    assert "numba" not in loaded


def test_the_tour_names_files_that_exist():
    files = {
        path.name for folder in (PACKAGE, PAPERS, PACKAGE.parent / "tests") for path in folder.rglob("*.py")
    }
    named = set(
        re.findall(r"`(?:[a-z_]+/)*([a-z_]+\.py)`", (PACKAGE / "README.md").read_text(encoding="utf-8"))
    )
    assert len(named) > 50 and named <= files, sorted(named - files)


def _is_there(name: str) -> bool:
    """Return whether a dotted name of the package is a module or a part of one."""
    parts = name.split(".")
    value: object = cep
    for n, part in enumerate(parts[1:], 2):
        if not hasattr(value, part) and importlib.util.find_spec(".".join(parts[:n])) is None:
            return False
        value = getattr(value, part, None) or importlib.import_module(".".join(parts[:n]))
    return True


def test_comments_name_what_exists():
    missing = [
        f"{path.relative_to(PACKAGE.parent)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in re.findall(r"`(cepkit(?:\.\w+)+)`", path.read_text(encoding="utf-8"))
        if not _is_there(name)
    ]
    assert not missing
