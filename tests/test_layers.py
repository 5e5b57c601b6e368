"""The floors of the house: a module imports its own room and floors below; importing the package is light."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "cepkit"

# Rooms by floor; those of one floor do not know each other. A room is a folder, or modules beside each other:
# what saves the state of a program belongs to the programs, and commands may warm up what experiments bundle.
FLOORS = (
    {
        "kernels": ["kernels"], "layout": ["layout"], "trace": ["trace", "trace_files"], "errors": ["errors"],
        "shipped": ["_shipped"], "datasets": ["datasets"], "progress": ["progress"],
        "cache": ["cache"], "counts": ["counts"],
    },
    {
        "language": ["language"], "events": ["events"],
        "cost": ["cost", "agent_rates", "agent_costs", "agent_threads"],
    },
    {"compile": ["compile", "state"], "matchset": ["matchset", "sequence_set"], "streams": ["streams"]},
    {"engines": ["engines"], "statistics": ["statistics"], "plots": ["plots"]},
    {"widgets": ["widgets"]},
    {"parallel": ["parallel"], "shedding": ["shedding"]},
    {"frames": ["frames"], "pipelines": ["pipelines"], "planner": ["planner", "evaluation_order"]},
    {"insight": ["insight"]},
    {
        "api": [
            "views", "api", "given", "checked", "matches", "sequence_matches", "sequence_explanation",
            "explanation", "spark_matches", "spark_sequences", "streaming",
            "regex_streaming", "sequence_streaming", "stream_files", "explorer",
        ],
    },
    {"experiments": ["experiments"]},
    {"commands": ["cli", "demo", "files", "warmup"]},
)  # fmt: skip
# errors and layout are words that every room uses, also on their own floor.
SHARED = {"errors", "shipped"}
PLACE = {
    module: (floor, room)
    for floor, rooms in enumerate(FLOORS, start=1)
    for room, modules in rooms.items()
    for module in modules
}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE)


def imported(path: Path) -> set[str]:
    """Return the dotted names that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            own = node.module == "cepkit"
            names |= {f"cepkit.{alias.name}" for alias in node.names} if own else {node.module}
    return names


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_look_down(path):
    floor, room = PLACE[module_of(path)]
    for name in imported(path):
        if not name.startswith("cepkit."):
            continue
        target = name.split(".")[1]
        if target == "__version__":
            continue
        assert target in PLACE, f"{name} is on no floor"
        other_floor, other_room = PLACE[target]
        assert other_floor < floor or other_room == room or other_room in SHARED, (
            f"{path.relative_to(PACKAGE)} on floor {floor} imports {name} of floor {other_floor}"
        )


def test_every_module_has_a_floor():
    found = {module_of(path) for path in FILES}
    assert found <= set(PLACE)
    assert {"kernels", "language", "compile", "engines", "frames", "api", "cli"} <= found


@pytest.mark.parametrize("path", sorted((PACKAGE / "kernels").glob("*.py")), ids=lambda path: path.name)
def test_kernels_import_numpy_and_numba_only(path):
    allowed = {"numpy", "numba", "math", "typing", "functools"}
    # Atomic steps are written in the compiler's own words, and for Python with a lock.
    allowed |= {"llvmlite", "sys", "threading", "time"} if path.name == "atomic.py" else set()
    names = imported(path) - {"cepkit.kernels.atomic", "cepkit.kernels"}
    assert {name.split(".")[0] for name in names} <= allowed


@pytest.mark.parametrize("path", sorted((PACKAGE / "language").glob("*.py")), ids=lambda path: path.name)
def test_the_language_needs_no_arrays(path):
    others = {name.split(".")[0] for name in imported(path)} - set(sys.stdlib_module_names)
    assert others <= {"cepkit", "lark"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "experiments").glob("*.py")), ids=lambda path: path.name)
def test_experiments_draw_nothing(path):
    assert not {name for name in imported(path) if name.startswith(("plotly", "cepkit.plots"))}


def test_frames_are_known_to_frames_and_pipelines_only():
    for path in FILES:
        if "pyspark" in {name.split(".")[0] for name in imported(path)}:
            assert module_of(path) in (
                "frames",
                "pipelines",
                "spark_matches",
                "spark_sequences",
                "api",
                "streaming",
                "cli",
                "files",
                "explorer",
            )


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_is_light():
    loaded = modules_after("import cepkit")
    assert "cepkit.api" in loaded
    assert not loaded & {
        "anywidget",
        "ipywidgets",
        "numba",
        "plotly",
        "matplotlib",
        "tqdm",
        "scipy",
    }


def test_explaining_and_checking_need_no_numba():
    loaded = modules_after(
        "import cepkit, pandas\nframe = pandas.DataFrame({'x': [1]})\n"
        "str(cepkit.explain(frame, '. a', define={'a': 'x > 1'}))"
    )
    assert "numba" not in loaded
