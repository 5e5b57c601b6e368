"""The kept tables of the load-shedding notebook: complete, and what the code of today computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.claims import UNTRIED, examine
from papers.load_shedding import figures, results, studies
from papers.load_shedding.claims import CLAIMS, factors
from papers.load_shedding.figures import AXES, LONG, PEAKS, SHORT, Scale, find_panels, setting_of
from papers.recorded import has_recorded

KEPT = Path(__file__).resolve().parents[2] / "notebooks" / "results"
N = 400
TINY = Scale(N, 30.0)
KEYS = ["data", "work_s", "stream", "by", "load", "x", "strategy"]


@pytest.fixture(scope="module")
def kept():
    return results.kept_results(KEPT)


def test_every_seed_and_strategy_has_every_point(kept):
    expected = {
        (f"seed {run['seed']}", scale.work_s, *(run[name] for name in KEYS[2:]))
        for panels, scale, strategies, seeds in results.SWEEPS
        for run in figures.runs_of(find_panels(panels), strategies, seeds, scale)
    }
    found = kept[KEYS].assign(x=kept["x"].astype(str))
    assert set(found.itertuples(index=False, name=None)) == expected and len(kept) == len(expected)
    assert results.file_of(KEPT, "figures").stat().st_size < 600_000


def test_claims_on_long_streams_are_tried_on_all_seeds(kept):
    untried = {finding.claim.place for finding in examine(CLAIMS, kept) if finding.verdict == UNTRIED}
    assert untried <= {"figure 9 a, c, e", "figure 9 b, d, f"}  # these need short streams
    assert len(factors(kept)) == 21


def test_within_the_bound_darling_finds_most_under_continuous_overload(kept):
    """Cause of figure 9 on short streams: what others find more, they find late."""
    own = kept[kept["load"] == figures.CONTINUOUS]
    in_time, all_found = (
        own.pivot_table(value, ["stream", "strategy"])[value].unstack()
        for value in ("recall_in_time", "recall")
    )
    others = ["espice", "hspice", "zhao"]
    assert (in_time["darling"] > in_time[others].max(axis=1)).all()
    assert (all_found["darling"] < all_found[others].max(axis=1)).any()


def cells(name: str, at: dict[str, object]) -> list[dict]:
    """Return rows of a kept table, one for each strategy or variant."""
    table = results.kept(KEPT, name)
    for column, value in at.items():
        table = table[table[column].astype(type(value)) == value]
    assert len(table)
    return table.to_dict("records")


def computed_again(row: dict) -> dict[str, object]:
    """Return the measures of a row of a kept table, computed by the code of now."""
    axis = AXES[row["stream"], row["by"]]
    scale, x = Scale(int(row["n_events"]), float(row["work_s"])), figures.point_of(axis, str(row["x"]))
    is_recorded = row["data"] in figures.RECORDED.values()
    seed = 0 if is_recorded else int(str(row["data"]).removeprefix("seed "))
    measures = figures.measure(axis, x, row["load"], row["strategy"], seed, scale, recorded=is_recorded)
    return results.rounded(pd.DataFrame([measures])).iloc[0].to_dict()


def check(row: dict) -> None:
    again = computed_again(row)
    assert {name: row[name] for name in again} == again or all(
        row[name] == value or (np.isnan(row[name]) and np.isnan(value)) for name, value in again.items()
    ), row


CHEAP = {"data": "seed 0", "stream": "soccer", "work_s": SHORT.work_s}


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("figures", CHEAP | {"by": "window", "load": PEAKS}),
        ("figures", CHEAP | {"by": "overload", "x": "1.4"}),
    ],
    ids=["peaks", "overload"],
)
def test_the_code_of_today_computes_what_is_kept(name, at):
    for row in cells(name, at):
        check(row)


@pytest.mark.slow
def test_the_code_of_today_computes_the_long_streams():
    for row in cells(
        "figures", {"data": "seed 0", "stream": "soccer", "by": "length", "work_s": LONG.work_s}
    ):
        check(row)


@pytest.mark.skipif(not has_recorded("soccer"), reason="no recorded data")
def test_the_code_of_today_computes_the_recorded_streams():
    for row in cells("recorded", {"data": "DEBS 2013", "by": "window"}):
        check(row)


def test_first_come_drops_the_newest_and_variants_exchange_one_part():
    setting = setting_of(AXES["stocks", "overload"], 1.4, figures.CONTINUOUS, 0, TINY)
    rows = {row["variant"]: row for row in studies.explain_point(setting, 0)}
    assert set(rows) == {"darling", "equal utilities", "first come"}
    assert all(0 < row["kept"] < 1 and 0 <= row["recall"] <= 1 for row in rows.values())
    plain = setting.replay(studies.Darling(), 0)
    assert rows["darling"]["recall"] == plain.recall
    peaks = setting_of(AXES["stocks", "length"], 3, PEAKS, 0, TINY)
    own = peaks.replay(studies.FirstCome(), 0).run.dropped
    assert len(own) and (np.diff(own) > 0).all(), "each event is dropped when it arrives"
    assert len(studies.explanations(0, TINY)) == 3 * 3


def test_precision_of_small_streams():
    precision = studies.negations(n_events=N, strategies=("none", "random_input"))
    none = precision[precision["strategy"] == "none"]
    assert (none[["recall", "precision"]].dropna() == 1.0).all(axis=None) and len(none) == 6


def test_names_of_tables_are_checked(tmp_path):
    with pytest.raises(CepError, match=r"results 'figure' do not exist. Did you mean 'figures'\?"):
        results.keep_results(tmp_path, ["figure"])
    results.keep(pd.DataFrame({"recall": [0.5]}), tmp_path, "recorded")
    table = results.kept(tmp_path, "recorded")
    assert table["recall"].tolist() == [0.5] and "# cepkit " in table.attrs["made_by"]


def test_recorded_streams_that_are_too_short_are_left_out(monkeypatch):
    def few(data, types, n_events):
        if data == "buses":
            raise figures.CepError("no data")
        return figures.generated_stream(data, types, n_events)

    monkeypatch.setattr(figures, "recorded_stream", few)
    monkeypatch.setattr(figures, "FEWEST", N)
    figures.recorded_setting_of.cache_clear()
    figures.recorded_service_us.cache_clear()
    made = figures.recorded_sweep(["6a", "6f"], strategies=["random"], scale=TINY)
    figures.recorded_setting_of.cache_clear()
    figures.recorded_service_us.cache_clear()
    assert made["x"].tolist() == ["30 min"]
    assert set(made["data"]) == {"NASDAQ bars"} and (made["n_events"] == N).all()
