"""The figures of the DARLING paper: panels as values, a tiny sweep, its tables, pictures and claims."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from cepkit.errors import CepError
from cepkit.frames.pandas import PandasSource
from cepkit.shedding.scene import check_settings, make_scene
from cepkit.shedding.strategies.strategy import strategy_names
from papers.claims import UNTRIED, examine
from papers.load_shedding import figures
from papers.load_shedding.claims import CLAIMS
from papers.load_shedding.drawings import panels_figure, references_figure
from papers.load_shedding.figures import (
    AXES,
    CONTINUOUS,
    DRAWN,
    LATENCY,
    LATENCY_BOUND,
    LONG,
    MEMORY,
    NO_DROPS,
    OVERHEAD,
    PANELS,
    PEAKS,
    RECALL,
    WITH_DRIFT,
    Scale,
    find_panels,
    panel_table,
    runs_of,
    strategy_of,
    sweep,
)
from papers.load_shedding.queries import find_query, generated_stream
from papers.tables import keep_table, kept_table

N = 400
TINY = Scale(N, 30.0)


def test_there_are_the_42_panels_of_the_paper():
    assert len(PANELS) == len({panel.name for panel in PANELS}) == 42
    measures = {6: {RECALL}, 7: {LATENCY}, 8: {MEMORY}, 9: {RECALL, LATENCY}, 10: {OVERHEAD}}
    loads = {6: PEAKS, 7: PEAKS, 8: PEAKS, 9: CONTINUOUS, 10: NO_DROPS}
    for panel in PANELS:
        assert panel.measure in measures[panel.figure] and panel.load == loads[panel.figure]
    for figure, n in ((6, 9), (7, 9), (8, 9), (9, 6), (10, 9)):
        own = find_panels(str(figure))
        assert len(own) == n and len({(panel.axis, panel.measure) for panel in own}) == n
    for figure in (6, 7, 8, 10):
        shown = {panel.letter: (panel.axis.data, panel.axis.by) for panel in find_panels(str(figure))}
        # What the text of the paper says.
        assert shown["b"] == ("buses", "length") and shown["g"] == ("stocks", "length")
        assert [shown[letter][0] for letter in "dei"] == ["soccer"] * 3
        assert {shown[letter][1] for letter in "adf"} == {"window"}
        assert {shown[letter][1] for letter in "chi"} == {"partial matches"}
    with pytest.raises(CepError, match="there is no panel '6z'"):
        find_panels(["6a", "6z"])


@pytest.mark.parametrize("axis", AXES.values(), ids=lambda axis: f"{axis.data}, {axis.by}")
def test_the_query_of_every_point_binds_to_its_stream(axis):
    seen = set()
    for point in axis.points:
        types = find_query(axis.query).first_types(axis.length_at(point))
        source = PandasSource(generated_stream(axis.data, types, N, seed=0))
        settings = check_settings([axis.query_at(point)], costs=axis.prices(TINY))
        scene = make_scene(settings, source)
        assert len(scene.positions) == N and set(map(str, types)) == set(scene.types)
        seen.add(str(axis.query_at(point)))
    assert len(seen) == (1 if axis.by == "overload" else len(axis.points))


def test_one_factor_makes_all_prices_dearer():
    axis = AXES["stocks", "window"]
    prices, plain = axis.prices(TINY).table(), figures.Prices().table()
    (factor,) = {round(prices[name] / plain[name], 9) for name in plain}
    assert factor * axis.service_us * 1e-6 * N == pytest.approx(TINY.work_s)
    assert axis.prices(Scale(2 * N, 30.0)).condition == pytest.approx(prices["condition"] / 2)


def test_the_middle_of_the_points_is_the_reference_of_the_prices():
    assert AXES["soccer", "window"].reference == AXES["soccer", "overload"].window == "50 ms"
    assert AXES["stocks", "window"].points_at(PEAKS) == ("30 min",)
    assert AXES["stocks", "window"].points_at(NO_DROPS) == ("5 min", "30 min")
    assert AXES["stocks", "overload"].points_at(CONTINUOUS) == figures.RATES


def test_figures_share_their_replays():
    one = runs_of(find_panels("6"), ["random"], [0], TINY)
    assert one == runs_of(find_panels(["6", "7", "8"]), ["random"], [0], TINY)
    assert len(runs_of(find_panels(["9a", "9b"]), ["random", "none"], [0, 1], TINY)) == 3 * 2 * 2
    keys = [tuple(point.values()) for point in runs_of(PANELS, ["none"], [0], TINY)]
    assert len(set(keys)) == len(keys)


@pytest.fixture(scope="module")
def small():
    settings = {"strategies": ["none", "random"], "seeds": [0, 1], "scale": TINY}
    return sweep(["6d", "7d", "9f"], progress=False, **settings)


def test_a_sweep_has_a_row_for_each_replay(small):
    assert len(small) == 2 * 2 * (1 + 3) and set(small["data"]) == {"seed 0", "seed 1"}
    assert (small["n_events"] == N).all() and (small["work_s"] == 30).all()


def test_the_numbers_are_those_of_replays(small):
    made = small
    none = made[made["strategy"] == "none"]
    assert (none["recall"].dropna() == 1.0).all()
    assert (made["recall_in_time"].dropna() <= made["recall"].dropna()).all()
    assert (made["window_events"] >= 1).all()
    again = figures.measure(AXES["soccer", "window"], "50 ms", PEAKS, "random", 1, TINY)
    at = (made["x"] == "50 ms") & (made["strategy"] == "random") & (made["data"] == "seed 1")
    (row,) = made[at & (made["load"] == PEAKS)].to_dict("records")
    assert {name: row[name] for name in again} == pytest.approx(again, nan_ok=True)


def test_the_bound_holds_for_the_matches_that_count_as_in_time():
    row = figures.measure(AXES["soccer", "window"], "50 ms", PEAKS, "espice", 0, TINY)
    assert row["recall_in_time"] == pytest.approx(row["within_bound"] * row["recall"])
    long = figures.measure(AXES["soccer", "window"], "50 ms", PEAKS, "none", 0, Scale(N, 20_000.0))
    assert long["recall"] < 1.0 and long["mean_latency"] > 1_800


def test_tables_of_panels_are_drawn_and_kept(small, tmp_path):
    made = small
    tables = [panel_table(made, panel) for panel in find_panels(["6d", "7d", "9f"])]
    window, _, overload = tables
    assert set(window["point"]) == {"50 ms"}
    assert overload["x"].unique().tolist() == [20, 80, 140]
    figure = panels_figure(tables, latency_bound=LATENCY_BOUND, title="some panels")
    names = {trace.name for trace in figure.data if trace.name}
    assert names == {"none", "random"} and "6d soccer, window" in figure.to_json()
    assert figure.svg().startswith("<svg")
    keep_table(made, tmp_path / "kept.csv", "sweep(['6d', '7d', '9f'])")
    kept = kept_table(tmp_path / "kept.csv")
    assert len(kept) == len(made) and kept.attrs["made_by"].startswith("sweep(")
    for one, other in zip(examine(CLAIMS, made), examine(CLAIMS, kept), strict=True):
        assert one.verdict == other.verdict == UNTRIED  # without DARLING, claims say nothing


def test_all_panels_of_a_figure_are_in_one_picture():
    rows = [
        {"data": f"seed {seed}", "work_s": LONG.work_s, "stream": panel.axis.data, "by": panel.axis.by,
         "load": PEAKS, "strategy": name, RECALL: 0.1 * (seed + k + 1), LATENCY: 10.0 ** k}
        for seed in (0, 1) for panel in find_panels("6") for k, name in enumerate((*DRAWN, "none"))
    ]  # fmt: skip
    drawn = references_figure(pd.DataFrame(rows))
    points = {trace.name: len(trace.x) for trace in drawn.data if trace.name}
    assert points == dict.fromkeys((*DRAWN, "none"), 9)
    assert [text.partition("<br>")[0] for text in drawn.layout.xaxis.ticktext][:2] == ["6a", "6b"]
    late = references_figure(pd.DataFrame(rows), LATENCY, latency_bound=1.5)
    assert late.layout.yaxis.type == "log" and late.layout.xaxis.ticktext[0].startswith("7a")


def test_without_drops_a_strategy_pays_for_its_work():
    for name in strategy_names():
        strategy = strategy_of(name, NO_DROPS)
        assert strategy.name == name
        assert getattr(strategy, "always", True) is True
    assert strategy_of(WITH_DRIFT, NO_DROPS).drift and not strategy_of("darling", NO_DROPS).drift
    assert not strategy_of("espice", PEAKS).backlog
    axis = AXES["soccer", "window"]
    row = figures.measure(axis, "15 ms", NO_DROPS, "random", 0, TINY)
    assert row["recall"] == 1.0 and 0 <= row[OVERHEAD] < LATENCY_BOUND
    assert figures.measure(axis, "15 ms", NO_DROPS, "darling", 0, TINY)[OVERHEAD] == 0


def test_names_are_checked_before_work_starts():
    with pytest.raises(CepError, match=re.escape("shedding='randon' is not known. Did you mean 'random'?")):
        sweep(["6a"], strategies=["randon"])
    with pytest.raises(CepError, match="no point '1 day'"):
        figures.point_of(AXES["stocks", "window"], "1 day")
