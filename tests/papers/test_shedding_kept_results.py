"""The kept tables of the load-shedding notebook, and the studies that explain its panels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.claims import UNTRIED, examine
from papers.load_shedding import directions, figures, results, studies
from papers.load_shedding.claims import CLAIMS, wide_table
from papers.load_shedding.figures import (
    AXES,
    COMPARED,
    DRAWN,
    PANELS,
    PEAKS,
    SEEDS,
    find_panels,
    panel_table,
    setting_of,
)

KEPT = Path(__file__).resolve().parents[2] / "notebooks" / "results"
N = 400


@pytest.fixture(scope="module")
def kept():
    return results.kept_results(KEPT)


@pytest.fixture(scope="module")
def generated(kept):
    return kept[kept["data"].str.startswith("seed")]


def test_every_seed_and_strategy_has_every_point(generated):
    assert set(generated["data"]) == {f"seed {seed}" for seed in SEEDS}
    runs = figures.runs_of(PANELS, DRAWN, SEEDS, results.N_EVENTS)
    keys = ["data", "stream", "by", "load", "x", "strategy"]
    expected = {(f"seed {run['seed']}", *(run[name] for name in keys[1:])) for run in runs}
    found = generated[keys].astype(str)
    assert set(found.itertuples(index=False, name=None)) == expected and len(generated) == len(runs)
    assert results.file_of(KEPT, "figures").stat().st_size < 600_000


def test_every_panel_has_a_verdict_and_a_direction(kept, generated):
    findings = examine(CLAIMS, kept)
    assert all(finding.verdict != UNTRIED for finding in findings)
    table = directions.directions(generated)
    assert table["panel"].tolist() == [panel.name for panel in PANELS]
    assert (table["best at"] <= table["points"]).all()
    assert table.set_index("panel").loc["6b", "paper"] == 4836


def test_claims_count_the_strategies_of_the_paper_only(generated):
    for panel in PANELS:
        wide = wide_table(generated, panel)
        assert wide is not None and set(wide.columns) == set(COMPARED)


def test_the_mark_of_the_paper_is_its_factor_times_the_best_other(generated):
    (panel,) = find_panels("7a")
    table = directions.with_printed(panel_table(generated, panel), generated, panel)
    mark = table[table["strategy"] == directions.PRINTED_MARK]
    assert len(mark) == 1 and table.attrs["measure"] == panel.measure
    wide = wide_table(generated, panel)
    assert mark["value"].item() == pytest.approx(wide.drop(columns="darling").iloc[-1].min() / 21)
    assert mark["x"].item() == table["x"].max()
    (panel,) = find_panels("6b")
    table = directions.with_printed(panel_table(generated, panel), generated, panel)
    assert table.loc[table["strategy"] == directions.PRINTED_MARK, "value"].item() == 1.0
    (panel,) = find_panels("10a")
    table = directions.with_printed(panel_table(generated, panel), generated, panel)
    assert directions.PRINTED_MARK not in set(table["strategy"])


def test_rooms_are_compared_with_the_best_other():
    rows = [
        {"room": room, "stream": "stocks", "by": "window", "strategy": name, "recall": recall}
        for room, own in ((0.02, 0.2), (0.1, 0.6))
        for name, recall in (("darling", own), ("zhao", 0.4), ("random", 0.1), ("random_input", 0.9))
    ]
    table = directions.verdicts_by_room(pd.DataFrame(rows))
    assert table.loc[("stocks", "window")].tolist() == pytest.approx([0.5, 1.5])
    assert len(directions.verdicts_by_room(results.kept(KEPT, "rooms"))) == len(AXES)


def test_first_come_drops_the_newest_and_variants_exchange_one_part():
    setting = setting_of(AXES["stocks", "overload"], 1.4, figures.CONTINUOUS, 0, N)
    rows = {row["variant"]: row for row in studies.explain_point(setting, 0)}
    assert set(rows) == {
        "darling",
        "equal utilities",
        "split by rate",
        "first come",
        "room by own service time",
    }
    assert all(0 < row["kept"] < 1 and 0 <= row["recall"] <= 1 for row in rows.values())
    plain = setting.replay(studies.Darling(), 0)
    assert rows["darling"]["recall"] == plain.recall and rows["darling"]["max_latency"] == plain.max_latency
    axis = AXES["stocks", "length"]
    peaks = setting_of(axis, 3, PEAKS, 0, N)
    first = peaks.replay(studies.FirstCome(), 0)
    own = first.run.dropped
    assert len(own) and (np.diff(own) > 0).all(), "each event is dropped when it arrives"


def test_a_larger_room_means_cheaper_work():
    axis = AXES["stocks", "window"]
    small, large = (axis.prices(N, room=room).condition for room in (0.05, 0.1))
    assert small == pytest.approx(2 * large)


def test_precision_of_small_streams():
    precision = studies.negations(n_events=N, strategies=("none", "random_input"))
    none = precision[precision["strategy"] == "none"]
    assert (none[["recall", "precision"]].dropna() == 1.0).all(axis=None) and len(none) == 6


def test_names_of_tables_are_checked(tmp_path):
    with pytest.raises(CepError, match=r"results 'room' do not exist. Did you mean 'rooms'\?"):
        results.keep_results(tmp_path, ["room"])
    results.keep(pd.DataFrame({"recall": [0.5]}), tmp_path, "rooms")
    assert results.kept(tmp_path, "rooms")["recall"].tolist() == [0.5]


def test_recorded_streams_that_are_too_short_are_left_out(monkeypatch):
    def few(data, types, n_events):
        if data == "buses":
            raise figures.CepError("no data")
        return figures.generated_stream(data, types, n_events)

    monkeypatch.setattr(figures, "recorded_stream", few)
    monkeypatch.setattr(figures, "FEWEST", N)
    figures.recorded_setting_of.cache_clear()
    figures.recorded_service_us.cache_clear()
    made = figures.recorded_sweep(["6a", "6f"], strategies=["random"], n_events=N)
    figures.recorded_setting_of.cache_clear()
    figures.recorded_service_us.cache_clear()
    assert made["x"].tolist() == list(AXES["stocks", "window"].points)
    assert set(made["data"]) == {"NASDAQ bars"} and (made["n_events"] == N).all()
