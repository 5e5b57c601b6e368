"""Sweeps: a row for each point, in the order of the points, and an error that names its point."""

import threading

import pytest

from cepkit.errors import CepError
from papers.tables import sweep


def test_a_row_has_a_point_and_its_result():
    points = [{"cores": 4, "window": 1}, {"window": 2, "cores": 1}]
    found = sweep(lambda cores, window: {"speedup": cores / window}, iter(points))
    assert found.to_dict("list") == {"cores": [4, 1], "window": [1, 2], "speedup": [4.0, 0.5]}
    assert sweep(lambda: {}, []).empty


def test_points_run_at_once_and_keep_their_order():
    meet = threading.Barrier(3)

    def run(x):
        if x < 3:
            meet.wait(20)  # nobody continues before three are here
        return {"y": 2 * x}

    found = sweep(run, [{"x": x} for x in range(7)], workers=3)
    assert found.to_dict("list") == {"x": [*range(7)], "y": [*range(0, 14, 2)]}


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_names_its_point_and_ends_the_sweep(workers):
    calls = []

    def run(x):
        calls.append(x)
        if x == 2:
            raise ValueError("no such window")
        return {"y": x}

    with pytest.raises(ValueError, match="no such window") as caught:
        sweep(run, [{"x": x} for x in range(40_000)], workers=workers)
    assert caught.value.__notes__ == ["at the point {'x': 2}"]
    assert workers > 1 or calls == [0, 1, 2]
    assert len(calls) < 40_000


def test_workers_are_a_whole_number():
    with pytest.raises(CepError, match="sweep: workers=0"):
        sweep(lambda x: {}, [{"x": 1}], workers=0)


def test_a_bar_of_points(capsys, monkeypatch):
    monkeypatch.setattr("cepkit.progress.SILENT_S", -1.0)
    points = [{"x": x} for x in range(5)]
    sweep(lambda x: {"y": x}, points, progress=True)
    assert "points" in capsys.readouterr().err
    sweep(lambda x: {"y": x}, points)
    assert capsys.readouterr().err == ""
