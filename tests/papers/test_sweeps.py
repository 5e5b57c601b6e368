"""Sweeps: every point once, whatever interrupts them, and no results of another sweep among them."""

import itertools
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.sweeps import PointError, SweepMismatchError, sweep

GRID = {"window": [5, 10], "engine": ["hybrid", "RIP"], "cores": [1, 2]}


class Runs:
    """A run that notes its calls, and raises at some."""

    __name__ = "speedup"

    def __init__(self, stop_at: dict[int, BaseException] | None = None):
        self.calls, self.stop_at = [], stop_at or {}

    def __call__(self, **point):
        self.calls.append(point)
        if len(self.calls) in self.stop_at:
            raise self.stop_at[len(self.calls)]
        return {
            "speedup": point["cores"] / point["window"],
            "n_matches": np.int64(point["window"]),
            "reason": None if point["engine"] == "RIP" else "none",
            "busy": [0.5, 1.0],
        }


EXPECTED = sweep(Runs(), GRID)


def test_all_combinations_the_last_changing_fastest():
    wanted = [dict(zip(GRID, row, strict=True)) for row in itertools.product(*GRID.values())]
    assert EXPECTED[list(GRID)].to_dict("records") == wanted
    assert list(EXPECTED) == [*GRID, "speedup", "n_matches", "reason", "busy"]
    assert EXPECTED["n_matches"].dtype == np.int64 and EXPECTED["speedup"].tolist()[:2] == [0.2, 0.4]


def test_points_given_one_by_one():
    points = [{"cores": 4, "window": 1, "engine": "RIP"}, {"window": 2, "engine": "RIP", "cores": 1}]
    assert sweep(Runs(), points)["speedup"].tolist() == [4.0, 0.5]
    assert sweep(Runs(), []).empty


@pytest.mark.parametrize("seed", range(12))
def test_an_interrupted_sweep_goes_on_where_it_was(seed, tmp_path):
    draw, n_calls = random.Random(seed), 0
    while True:
        stop_at = draw.choice([1, 2, 3, 100])
        runs = Runs({stop_at: KeyboardInterrupt()})
        try:
            found = sweep(runs, GRID, tmp_path / "speedup", version="1")
        except KeyboardInterrupt:
            n_calls += len(runs.calls) - 1
            continue
        break
    assert n_calls + len(runs.calls) == 8  # no point was run twice to its end
    pd.testing.assert_frame_equal(found, EXPECTED)
    again = Runs()
    pd.testing.assert_frame_equal(sweep(again, GRID, tmp_path / "speedup", version="1"), EXPECTED)
    assert again.calls == []


def test_points_run_at_once():
    meet = threading.Barrier(3)

    def run(x):
        if x < 3:
            meet.wait(20)  # nobody goes on before three are here
        if x % 7 == 4:
            raise ValueError(x)
        return {"y": 2 * x}

    found = sweep(run, {"x": [0, 1, 2, 3, 5, 6]}, workers=3)
    assert found.to_dict("list") == {"x": [0, 1, 2, 3, 5, 6], "y": [0, 2, 4, 6, 10, 12]}
    with pytest.raises(PointError, match=r"\(x=4\) raised ValueError: 4 \(and 1 more: \(x=11\)\)") as caught:
        sweep(run, {"x": range(12)}, workers=3)
    assert caught.value.done["x"].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("last", range(8, 13))
def test_an_interrupt_waits_for_points_under_way(last, tmp_path):
    ended, calls = [], []

    def run(x):
        calls.append(x)
        if x == last:
            raise KeyboardInterrupt
        time.sleep(0.05 if x > 20 and last is not None else 0.001)  # long enough to be given up
        ended.append(x)
        return {"y": 2 * x}

    with pytest.raises(KeyboardInterrupt):
        sweep(run, {"x": range(400)}, tmp_path / "s", workers=3)
    assert len(calls) == len(ended) + 1 < 400  # those that had not begun were given up
    last = None
    found = sweep(run, {"x": range(400)}, tmp_path / "s", workers=3)
    assert found["y"].tolist() == [2 * x for x in range(400)]
    assert sorted(ended) == list(range(400))  # each to its end once: those under way were kept


def test_a_killed_process_loses_one_point_at_most(tmp_path):
    code = (
        "import os, sys\n"
        "from papers.sweeps import sweep\n"
        "def run(x):\n"
        "    if x == 3: os._exit(9)\n"
        "    return {'y': 2 * x}\n"
        "sweep(run, {'x': range(6)}, sys.argv[1])\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], env=environment, check=False)
    assert done.returncode == 9
    calls = []

    def run(x):
        calls.append(x)
        return {"y": 2 * x}

    assert sweep(run, {"x": range(6)}, tmp_path / "s")["y"].tolist() == [0, 2, 4, 6, 8, 10]
    assert calls == [3, 4, 5]


def test_a_point_that_raises_costs_no_other(tmp_path):
    runs = Runs({2: ValueError("no such window"), 5: ZeroDivisionError("x")})
    with pytest.raises(PointError) as caught:
        sweep(runs, GRID, tmp_path / "s")
    assert len(runs.calls) == 8
    text = str(caught.value)
    assert "point (window=5, engine='hybrid', cores=2) raised ValueError: no such window" in text
    assert (
        "(and 1 more: (window=10, engine='hybrid', cores=1))" in text and "6 of 8 points are kept in" in text
    )
    assert isinstance(caught.value.__cause__, ValueError)
    pd.testing.assert_frame_equal(caught.value.done, EXPECTED.drop([1, 4]).reset_index(drop=True))
    again = Runs()
    pd.testing.assert_frame_equal(sweep(again, GRID, tmp_path / "s"), EXPECTED)
    assert [tuple(point.values()) for point in again.calls] == [(5, "hybrid", 2), (10, "hybrid", 1)]


def test_without_a_folder_the_error_has_the_others():
    with pytest.raises(PointError, match="7 of 8 points are in the error's `done`") as caught:
        sweep(Runs({3: OSError("gone")}), GRID)
    assert len(caught.value.done) == 7


def test_more_points_are_added_to_those_that_are_there(tmp_path):
    sweep(Runs(), GRID, tmp_path / "s")
    runs = Runs()
    # The order of parameters, and 5.0 for 5, make no other point.
    wider = {"cores": [2, 4], "engine": ["RIP"], "window": [5.0, 10]}
    assert sweep(runs, wider, tmp_path / "s")["speedup"].tolist() == [0.4, 0.2, 0.8, 0.4]
    assert [point["cores"] for point in runs.calls] == [4, 4]


@pytest.mark.parametrize(
    ("settings", "grid", "message"),
    [
        ({"version": "2"}, GRID, "version '1', not '2'"),
        ({"name": "other"}, GRID, "sweep 'speedup', not 'other'"),
        ({}, {"cores": [1]}, r"parameters \['cores', 'engine', 'window'\], not \['cores'\]"),
    ],
)
def test_results_of_another_sweep_are_not_mixed_in(settings, grid, message, tmp_path):
    sweep(Runs(), GRID, tmp_path / "s", version="1")
    runs = Runs()
    with pytest.raises(SweepMismatchError, match=f"holds results of another sweep: {message}"):
        sweep(runs, grid, tmp_path / "s", **({"version": "1"} | settings))
    assert runs.calls == []


def test_folders_of_others_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(SweepMismatchError, match="exists and holds no sweep"):
            sweep(Runs(), GRID, path)
    (tmp_path / "empty").mkdir()
    assert len(sweep(Runs(), GRID, tmp_path / "empty")) == 8


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"cores": 3}, "parameter 'cores' of the grid is 3; a list of its values is needed"),
        ({"engine": "RIP"}, "parameter 'engine' of the grid is 'RIP'"),
        ({"x": [object()]}, "parameter 'x' is a object"),
        ("abc", "neither a dict of lists nor a list of dicts"),
        ([{"x": 1}, {"y": 1}], r"point \(y=1\) has other parameters than the first, \['x'\]"),
        ({"x": [1, 2, 1.0]}, r"point \(x=1\.0\) is in the grid twice"),
    ],
)
def test_grids_that_are_none(grid, message):
    with pytest.raises(CepError, match=message):
        sweep(Runs(), grid)


@pytest.mark.parametrize("grid", [5, None, "xy"])
def test_what_is_no_grid_at_all(grid):
    with pytest.raises(CepError, match="the grid is neither a dict of lists nor a list of dicts"):
        sweep(Runs(), grid)


def test_points_may_come_one_by_one():
    assert sweep(lambda x: {"y": -x}, ({"x": x} for x in (1, 2)))["y"].tolist() == [-1, -2]


def test_runs_and_folders_that_are_none():
    with pytest.raises(CepError, match="sweep: run is a int; a function of a point's parameters is needed"):
        sweep(5, {"x": [1]})
    with pytest.raises(CepError, match="sweep: path is a int; a folder's name is needed"):
        sweep(Runs(), {"x": [1]}, 5)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (3, "the result is a int; a dict is needed"),
        ({"x": 3}, "the result has 'x', which is a parameter"),
        ({"y": {}}, "'y' is a dict"),
        ({"y": 2**70}, "'y' cannot be kept"),
        ({"y": [1, "a"]}, "'y' cannot be kept"),
    ],
)
def test_results_that_cannot_be_kept(result, message, tmp_path):
    with pytest.raises(PointError, match=rf"point \(x=1\) raised CepError: sweep: {message}"):
        sweep(lambda x: result, {"x": [1]}, tmp_path / "s")


def test_true_is_not_one():
    assert sweep(lambda fused: {"y": 1}, {"fused": [1, True]})["fused"].tolist() == [1, True]


def test_values_come_back_as_they_were(tmp_path):
    values = {
        "a": 1,
        "b": 0.1,
        "c": float("nan"),
        "d": True,
        "e": None,
        "f": "é",
        "g": (1, 2),
        "h": [],
        "i": 2**62,
    }
    first = sweep(lambda x: values, {"x": [1]}, tmp_path / "s", name="s")
    second = sweep(lambda x: {}, {"x": [1]}, tmp_path / "s", name="s")
    pd.testing.assert_frame_equal(first, second)
    assert first["i"][0] == 2**62 and first["g"][0] == [1, 2] and first["d"].dtype == bool


def test_a_bar_of_points(capsys, monkeypatch):
    monkeypatch.setattr("cepkit.progress.SILENT_S", -1.0)
    sweep(Runs(), GRID)
    assert "points" in capsys.readouterr().err
    sweep(Runs(), GRID, progress=False)
    assert capsys.readouterr().err == ""
