"""The faults that ``tests/mutations/run.py`` applies fit the source, and cover all rooms of the package."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("cepkit_faults", ROOT / "tests" / "mutations" / "faults.py")
assert spec is not None and spec.loader is not None
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
ROOMS, FAULTS = module.read_faults()


def test_there_are_enough_faults_in_all_rooms():
    folders = {path.name for path in (ROOT / "cepkit").iterdir() if (path / "__init__.py").exists()}
    assert len(FAULTS) >= 60
    assert folders - {fault.room for fault in FAULTS} == set()
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)


def test_faults_fit_the_source():
    """Each fault changes one line, and leaves valid Python. After a change of the line, change its fault."""
    for fault in FAULTS:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        changed = fault.applied(text)
        assert changed != text and fault.before.strip("\n").count("\n") == 0, fault.id
        ast.parse(changed)


@pytest.mark.parametrize("room", ROOMS)
def test_tests_of_a_room_exist(room):
    assert all((ROOT / path).exists() for path in ROOMS[room])
    for fault in FAULTS:
        if fault.room == room:
            assert fault.id.startswith(f"{room}/") and fault.seen_by
            for test in fault.seen_by:
                path, _, function = test.partition("::")
                assert any(Path(path).is_relative_to(own) for own in ROOMS[room]), f"{fault.id}: {test}"
                assert f"def {function}" in (ROOT / path).read_text(encoding="utf-8"), f"{fault.id}: {test}"
