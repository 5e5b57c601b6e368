"""Rules of the tests: no test module imports another, the oracle is independent, and no time is asserted."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "cepkit"
FILES = [path for path in sorted(TESTS.rglob("*.py")) if not {"benchmarks", "mutations"} & {*path.parts}]
# The folders beside those that are named like a room of the package.
OTHER_FOLDERS = {
    *("oracle", "support", "conformance", "fixtures", "benchmarks", "mutations", "security", "papers"),
    *("peers", "campaigns"),
}
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time", "time_ns", "perf_counter_ns"}
MOST_SLEEP_S = 0.5


def name_of(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> list[str]:
    """Return the dotted names of what a file imports."""
    names = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def is_clock(node: ast.AST) -> bool:
    """Return whether a node is a call such as ``time.monotonic()``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "time"
        and node.func.attr in CLOCKS
    )


def asserted_times(function: ast.AST) -> list[int]:
    """Return the lines of the asserts that compare a clock, or a value that was computed from one."""
    timed = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(map(is_clock, ast.walk(node.value)))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Assert)
        and any(
            is_clock(one) or (isinstance(one, ast.Name) and one.id in timed) for one in ast.walk(node.test)
        )
    ]


def test_every_folder_is_a_room():
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert folders <= rooms | OTHER_FOLDERS


def imports_a_test(path: Path) -> bool:
    """Return whether a file imports a test module, or gives another process code that does."""
    parts = {part for name in imported(path) for part in name.split(".")[:-1]}
    modules = parts | {name for name in imported(path) if "." not in name}
    names = {name.rpartition(".")[2] for name in imported(path) if name.startswith("tests.")}
    text = path.read_text(encoding="utf-8")
    return (
        any(name.startswith("test_") for name in modules)
        or bool(names & {other.stem for other in FILES if other.stem.startswith("test_")})
        or bool(re.search(r"^\s*(from|import)\s+\S*\btest_\w+", text, re.MULTILINE))
    )


def test_no_test_module_is_imported():
    assert [name_of(path) for path in FILES if imports_a_test(path)] == []


def test_the_oracle_knows_the_trees_of_the_languages_only():
    oracle = [path for path in FILES if path.parent.name == "oracle" and path.stem[:5] != "test_"]
    assert len(oracle) > 9
    for path in oracle:
        names = {name for name in imported(path) if name.split(".")[0] in ("cepkit", "tests")}
        others = {name for name in names if not name.startswith(("cepkit.language.", "tests.oracle."))}
        assert not others, name_of(path)


def test_no_time_is_asserted():
    for path in FILES:
        functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef)]
        assert not {line for function in functions for line in asserted_times(function)}, name_of(path)


def naps_of(tree: ast.AST) -> list[float]:
    """Return the seconds that a file sleeps at once."""
    return [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) == "time.sleep"
        and isinstance(node.args[0], ast.Constant)
    ]


def test_nothing_sleeps_long():
    """A test waits for what happens instead."""
    assert [name_of(path) for path in FILES if max(naps_of(tree_of(path)), default=0) > MOST_SLEEP_S] == []


def test_the_rules_find_something():
    body = "began = time.monotonic()\nassert time.monotonic() - began < 3"
    assert asserted_times(ast.parse(f"def f():\n    {body.replace(chr(10), chr(10) + '    ')}")) == [3]
    assert asserted_times(ast.parse("def f():\n    took = time.time() - 3\n    assert took < 4")) == [3]
    assert asserted_times(ast.parse("def f():\n    took = 3\n    assert took < 4")) == []
    assert naps_of(ast.parse("time.sleep(3)\nevent.wait(4)")) == [3]
