"""Other engines answer random queries as we do, where they are installed."""

from __future__ import annotations

import pytest

from tests.peers.comparing import ENGINES, compare
from tests.support.peers import class_path
from tests.support.sizes import seeds

SIZE = 140


@pytest.mark.parametrize("turn", seeds(1, 40))
@pytest.mark.parametrize("name", ENGINES)
def test_answers_are_those_of_the_engine(name, turn):
    if ENGINES[name].PROGRAM is not None and class_path(name) is None:
        pytest.skip(f"{name} needs Java and Maven, and Maven a way to its jars")
    verdicts = list(compare(name, range(SIZE * turn, SIZE * (turn + 1))))
    assert not [str(verdict) for verdict in verdicts if verdict.kind == "differs"]
    assert any(verdict.theirs for verdict in verdicts if verdict.kind == "same")
