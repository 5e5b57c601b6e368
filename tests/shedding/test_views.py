"""The views of a replay: latency, backlog and drops by time or by arrivals, and utilities with drops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.shedding.plots import ROWS, load_in_bins, utilities
from cepkit.shedding.views import LoadView, UtilityView, history_of, reported_utilities
from tests.support.view_cases import replayed


@pytest.mark.parametrize("by", ["time", "arrivals"])
def test_the_history_has_every_event_match_and_drop(by):
    result = replayed()
    history = history_of(result, by)
    scene = result.run.scene
    n = len(scene.positions) - scene.n_warm
    assert sum(map(len, history.arrived.values())) == n
    assert {name: len(at) for name, at in history.dropped.items()} == result.dropped
    assert sorted(history.values["latency"]) == sorted(result.latencies)
    assert len(history.at["waiting"]) == len(result.series())
    low, high = history.extent
    for at in (*history.at.values(), *history.arrived.values(), *history.dropped.values()):
        assert (np.diff(at) >= 0).all() and (at >= low).all() and (at <= high + 1e-6).all()
    assert len(history.peaks) == 4 and all(low <= start <= stop <= high for start, stop in history.peaks)
    share = sum(stop - start for start, stop in history.peaks) / (high - low)
    assert share > 0.6 if by == "arrivals" else share < 0.1
    if by == "time":
        assert np.array(history.peaks) / 1e9 == pytest.approx(np.array(result.peaks()))


@pytest.mark.parametrize("seed", range(5))
def test_bins_keep_counts_and_greatest_values(seed):
    rng = np.random.default_rng(seed)
    history = history_of(replayed(), ["time", "arrivals"][seed % 2])
    n_bins = int(rng.integers(1, 300))
    made = load_in_bins(history, n_bins=n_bins)
    assert made.arrived.sum(axis=1).tolist() == [len(at) for at in history.arrived.values()]
    assert made.dropped.sum(axis=1).tolist() == [len(at) for at in history.dropped.values()]
    assert (made.dropped <= made.arrived).all()
    for r, name in enumerate(ROWS):
        assert np.nanmax(made.greatest[r]) == history.values[name].max()
        assert (np.isnan(made.mean[r]) | (made.mean[r] <= made.greatest[r] + 1e-12)).all()
    low, high = sorted(rng.uniform(*history.extent, 2))
    part = load_in_bins(history, low, high, n_bins)
    for k, at in enumerate(history.arrived.values()):
        assert part.arrived[k].sum() == ((at >= low) & (at <= high)).sum()


def test_the_load_view_has_a_still_a_figure_and_a_frame():
    result = replayed()
    view = cep.view(result)
    assert isinstance(view, LoadView) and repr(view).startswith("LoadView(640 events, ")
    assert view.title.startswith("random_input: ") and "of 800 events were dropped" in view.title
    still = view._still()
    assert still.startswith("<svg") and "bound" in still and "peak of arrivals" in still
    assert all(len(panel.items[0].x) == 4 for panel in view._shown.panels)  # the peaks
    for label in ROWS.values():
        assert label in still
    assert len(view.figure().data) == 3 * len(ROWS) + 1 + 2 + 5 and view.figure().svg().startswith("<svg")
    pd.testing.assert_frame_equal(view.to_frame(), result.series())
    other = cep.view(result, "load", by="arrivals", title="another")
    assert other._shown.panels[0].x.label == "events that have arrived" and other.title == "another"
    before = view.scene
    view.window = [view.extent[0], (view.extent[0] + view.extent[1]) / 2]
    assert view.scene != before and view._shown.panels[0].x.high == view.window[1]
    with pytest.raises(CepError, match=r"by='clock' is not known\. There are 'time' and 'arrivals'"):
        cep.view(result, by="clock")
    with pytest.raises(CepError, match=r"unknown view 'loads' of the result of replay"):
        cep.view(result, "loads")
    with pytest.raises(CepError, match="expected the result of replay, got int"):
        LoadView(3)


def test_without_a_bound_the_view_has_no_line():
    frame = pd.DataFrame({"kind": list("ab") * 100, "ts": range(200)})
    result = cep.replay(frame, "PATTERN SEQ(a x, b y) WITHIN 20", event_type="kind", order_by="ts")
    view = cep.view(result)
    assert "bound" not in view.svg() and len(view._shown.panels[0].items) == 3


def test_the_utilities_of_darling_are_those_of_its_report():
    result = replayed("darling")
    view = cep.view(result, "utility")
    of_type = result.report()["types"]
    assert isinstance(view, UtilityView) and view.title == "darling"
    seen = sum(np.maximum(one["seen"], one["dropped"]).sum() for one in of_type.values())
    assert repr(view).endswith(f"{seen:,} seen)")
    dropped = next(item for item in view._shown.panels[1].items if item.look.name == "dropped")
    assert dropped.y1.sum() == sum(np.sum(one["dropped"]) for one in of_type.values()) > 0
    assert view.threshold is not None and 0 <= view.threshold <= 1
    assert "dropped" in view.svg() and "dropped" in {trace.name for trace in view.figure().data}


def test_a_strategy_without_utilities_has_no_such_view():
    with pytest.raises(CepError, match="strategy 'random_input' reports no utilities"):
        cep.view(replayed(), "utility")
    with pytest.raises(CepError, match="pattern=1: the replay has 1 patterns, from 0"):
        cep.view(replayed(), "utility", pattern=1)


@pytest.mark.parametrize("name", ["espice", "hspice"])
def test_the_utilities_of_tables_have_positions(name):
    result = replayed(name)
    view = cep.view(result, "utility")
    assert (
        view._table.has_position and view.title == name and view.to_frame()["utility"].between(0, 100).all()
    )
    assert {row["event_type"] for row in view._table.rows} <= {"a", "b"}
    assert ("state" in view._table.rows[0]) is (name == "hspice")
    last = max(result.report()["last_thresholds"])
    assert view.threshold == (last if last >= 0 else None) and view._still().startswith("<svg")


def test_reported_tables_become_frames():
    utility, expected = np.arange(8).reshape(2, 2, 2), np.ones((2, 2, 2))
    expected[0, 0, 0] = 0.0
    report = {"table": {"utility": utility, "expected": expected}, "last_thresholds": [-1, 3]}
    frame, threshold = reported_utilities(report, ("a", "b"))
    assert threshold == 3 and len(frame) == 7 and set(frame) >= {"event_type", "state", "position", "n"}
    assert frame["utility"].tolist() == list(range(1, 8))
    assert utilities(frame).n_total == 7
    assert reported_utilities({}, ()) == (None, None)


def test_more_drops_than_events_are_an_error():
    frame = pd.DataFrame({"state": [1, 2], "utility": [0.5, 1], "n": [3, 4], "dropped": [3, 5]})
    with pytest.raises(CepError, match="dropped in row 1 is 5, more than n, 4"):
        utilities(frame)
    made = utilities(frame.assign(dropped=[3, 0]))
    assert made.n_dropped.sum() == 3 and (made.n_dropped <= made.n_of_utility).all()
