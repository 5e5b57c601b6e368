"""The figures of the DARLING paper: panels as values, a tiny sweep, its tables, pictures and claims."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from cepkit.frames.pandas import PandasSource
from cepkit.shedding.simulation.scene import check_settings, make_scene
from cepkit.shedding.strategies.strategy import strategy_names
from papers.claims import UNTRIED, YES, examine
from papers.load_shedding import figures
from papers.load_shedding.claims import CLAIMS
from papers.load_shedding.drawings import panels_figure
from papers.load_shedding.figures import (
    AXES,
    CONTINUOUS,
    LATENCY,
    LATENCY_BOUND,
    MEMORY,
    NO_DROPS,
    OVERHEAD,
    PANELS,
    PEAKS,
    RECALL,
    PaidDarling,
    find_panels,
    panel_table,
    runs_of,
    setting_of,
    strategy_of,
    sweep,
)
from papers.load_shedding.queries import find_query, generated_stream
from papers.tables import keep_table, kept_table

N = 400


def letters_of(claim) -> list[str]:
    return claim.place.split(maxsplit=2)[2].split(", ")


def test_there_are_the_42_panels_of_the_paper():
    assert len(PANELS) == len({panel.name for panel in PANELS}) == 42
    judged = [f"{claim.place.split()[1]}{letter}" for claim in CLAIMS for letter in letters_of(claim)]
    assert sorted(judged) == sorted(panel.name for panel in PANELS)
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
        settings = check_settings([axis.query_at(point)], costs=axis.prices(N))
        scene = make_scene(settings, source)
        assert len(scene.positions) == N and set(map(str, types)) == set(scene.types)
        seen.add(str(axis.query_at(point)))
    assert len(seen) == (1 if axis.by == "overload" else len(axis.points))


def test_one_factor_makes_all_prices_dearer():
    axis = AXES["stocks", "window"]
    prices, plain = axis.prices(5_000).table(), figures.Prices().table()
    (factor,) = {round(prices[name] / plain[name], 9) for name in plain}
    room = LATENCY_BOUND / (factor * axis.service_us * 1e-6)
    assert room == pytest.approx(figures.ROOM * 5_000)


def test_figures_share_their_replays():
    one = runs_of(find_panels("6"), ["random"], [0], N)
    assert one == runs_of(find_panels(["6", "7", "8"]), ["random"], [0], N)
    assert len(runs_of(find_panels(["9a", "9b"]), ["random", "none"], [0, 1], N)) == 7 * 2 * 2
    keys = [tuple(point.values()) for point in runs_of(PANELS, ["none"], [0], N)]
    assert len(set(keys)) == len(keys)


@pytest.fixture(scope="module")
def small():
    settings = {"strategies": ["none", "random"], "seeds": [0, 1], "n_events": N}
    return sweep(["6d", "7d", "9f"], progress=False, **settings)


def test_a_sweep_has_a_row_for_each_replay(small):
    assert len(small) == 2 * 2 * (5 + 7) and set(small["data"]) == {"seed 0", "seed 1"}


def test_the_numbers_are_those_of_replays(small):
    made = small
    none = made[made["strategy"] == "none"]
    assert (none["recall"].dropna() == 1.0).all() and (none["dropped_events"] == 0).all()
    assert (made["matches"] <= made["matches_without_shedding"]).all()
    assert (made["window_events"] >= 1).all() and (made["cpu_s"] >= 0).all()
    again = figures.measure(AXES["soccer", "window"], "50 ms", PEAKS, "random", 1, N)
    at = (made["x"] == "50 ms") & (made["strategy"] == "random") & (made["data"] == "seed 1")
    (row,) = made[at & (made["load"] == PEAKS)].to_dict("records")
    assert {name: row[name] for name in again if name != "cpu_s"} == pytest.approx(
        {name: value for name, value in again.items() if name != "cpu_s"}, nan_ok=True
    )


def test_tables_of_panels_are_drawn_and_kept(small, tmp_path):
    made = small
    tables = [panel_table(made, panel) for panel in find_panels(["6d", "7d", "9f"])]
    window, _, overload = tables
    assert list(dict.fromkeys(window["point"])) == list(AXES["soccer", "window"].points)
    # The two longest windows are longer than the warm-up of this tiny stream, so they look equal.
    assert window["x"].is_monotonic_increasing and window["x"].nunique() == 4
    assert overload["x"].unique().tolist() == [20, 40, 60, 80, 100, 120, 140]
    figure = panels_figure(tables, latency_bound=LATENCY_BOUND, title="some panels")
    names = {trace.name for trace in figure.data if trace.name}
    assert names == {"none", "random"} and "6d soccer, window" in figure.to_json()
    assert figure.svg().startswith("<svg")
    keep_table(made, tmp_path / "kept.csv", "sweep(['6d', '7d', '9f'])")
    kept = kept_table(tmp_path / "kept.csv")
    assert len(kept) == len(made) and kept.attrs["made_by"].startswith("sweep(")
    for one, other in zip(examine(CLAIMS, made), examine(CLAIMS, kept), strict=True):
        assert one.verdict == other.verdict == UNTRIED  # without DARLING, claims say nothing


def results(values: dict[str, list[float]], panel, n_seeds: int = 10) -> pd.DataFrame:
    """Return results of a panel with these values by strategy, one per point."""
    axis = panel.axis
    return pd.DataFrame(
        [
            {
                "data": f"seed {seed}", "stream": axis.data, "by": axis.by, "load": panel.load, "x": str(x),
                "strategy": name, "window_events": k + 1.0, "partial_matches_per_window": k + 1.0,
                panel.measure: of[min(k, len(of) - 1)],
            }
            for seed in range(n_seeds)
            for name, of in values.items()
            for k, x in enumerate(axis.points)
        ]
    )  # fmt: skip


CASES = [
    ("6a", {"darling": [0.9], "random": [0.5], "zhao": [0.1]}, True, 1.8),
    ("6a", {"darling": [0.9, 0.9, 0.4], "random": [0.5]}, False, 0.8),
    ("6a", {"darling": [1.0], "random": [1.0]}, True, 1.0),
    ("7a", {"darling": [0.4], "random": [3.0], "zhao": [np.nan]}, True, 0.4),
    ("7a", {"darling": [1.6], "random": [3.0]}, False, 1.6),
    ("7a", {"darling": [0.4], "random": [0.2]}, False, 0.4),
    ("8a", {"darling": [5, 5, 5, 5, 50], "random": [9]}, True, 0.8),
    ("8a", {"darling": [50, 50, 50, 5, 5], "random": [9]}, False, 0.4),
    ("8d", {"darling": [50], "random": [9], "zhao": [60], "espice": [8]}, True, 1.0),
    ("8d", {"darling": [5], "random": [9]}, False, 0.0),
    ("10a", {"darling": [1e-6], "hspice": [1, 2, 3, 4, 5], "random": [0]}, True, 0.0),
    ("10a", {"darling": [1e-6, 1], "hspice": [1, 2, 3, 4, 5]}, False, 0.25),
]


@pytest.mark.parametrize(("name", "values", "holds", "value"), CASES)
def test_claims_read_the_direction_of_a_panel(name, values, holds, value):
    (panel,) = find_panels(name)
    [claim] = [
        claim
        for claim in CLAIMS
        if claim.place.startswith(f"figure {panel.figure} ") and panel.letter in letters_of(claim)
    ]
    (finding,) = examine([claim], results(values, panel))
    assert (finding.verdict == YES) is holds and len(finding.on_seeds) == 10
    assert finding.on_seeds[0].value == pytest.approx(value, rel=1e-4)
    (few,) = examine([claim], results(values, panel, 2))
    assert few.verdict == UNTRIED


def test_without_drops_a_strategy_pays_for_its_work():
    for name in strategy_names():
        strategy = strategy_of(name, NO_DROPS)
        assert strategy.name == name
        assert getattr(strategy, "always", True) is True
    axis = AXES["soccer", "window"]
    setting = setting_of(axis, "15 ms", NO_DROPS, 0, N)
    run = setting.scene.run(PaidDarling(), 0)
    assert not len(run.dropped) and run.shedding_seconds > 0
    row = figures.measure(axis, "15 ms", NO_DROPS, "random", 0, N)
    assert row["recall"] == 1.0 and 0 <= row[OVERHEAD] < LATENCY_BOUND
    paid = figures.measure(axis, "15 ms", NO_DROPS, "darling", 0, N)
    assert paid["recall"] == 1.0 and paid[OVERHEAD] > 0


def test_names_are_checked_before_work_starts():
    with pytest.raises(CepError, match=re.escape("shedding='randon' is not known. Did you mean 'random'?")):
        sweep(["6a"], strategies=["randon"])
    with pytest.raises(CepError, match="n_events"):
        sweep(["6a"], strategies=["random"], n_events=5)
