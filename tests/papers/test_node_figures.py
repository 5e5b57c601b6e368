"""The figures of the thesis from simulated nodes: kept for ten seeds, claimed with reasons, and drawn."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.claims import CANNOT, IN_REGIME, NO, YES, examine
from papers.real_nodes import measuring
from papers.recorded import RecordedDataError
from papers.scatter_gather import figures, results
from papers.scatter_gather.claims import CLAIMS, gain_over_nodes, line_of, linear_fit, power_of_nodes
from papers.scatter_gather.drawings import FIGURES, PRINTED, draw_figures
from papers.scatter_gather.figures import beside_paper, paper_numbers
from papers.scatter_gather.formulas import ExampleLoad, formula_table

KEPT = Path(__file__).resolve().parents[2] / "notebooks" / "results"
PART_OF_FIGURES = {
    "by_interval": ("5.1", "5.2", "5.3"),
    "longest_windows": ("5.4", "5.5", "5.6", "5.7", "5.8", "5.9"),
    "patterns": ("5.10", "5.11", "5.11, memory", "5.12", "5.13"),
    "joins": ("5.14", "5.15", "5.16", "5.17"),
    "latencies": ("5.18", "5.19", "5.20"),
    "accuracies": ("table 5.1", "table 5.2"),
}
SEEDS_OF_PARTS = {"by_interval": 1, "patterns": 2, "joins": 3, "latencies": 4, "accuracies": 5}


@pytest.fixture(scope="module")
def kept():
    return results.kept_results(KEPT)


def test_kept_results_have_ten_seeds_and_all_figures(kept):
    assert {f"seed {seed}" for seed in range(10)} <= set(kept["data"])
    assert set(FIGURES) | {"table 5.1", "table 5.2"} <= set(kept["figure"])
    assert kept.groupby(["data"])["value"].count().drop("Coinbase trades", errors="ignore").nunique() == 1
    assert kept["value"].notna().all()


@pytest.mark.parametrize("seed", range(10))
def test_capacities_are_those_that_the_formulas_give(kept, seed):
    """The capacities that the issue asks for, at each seed."""
    own = kept[kept["data"] == f"seed {seed}"]
    for series in (figures.NO_GARBAGE, figures.WITH_GARBAGE):
        assert linear_fit(line_of(own, "5.9", series)) > 0.98
    assert linear_fit(line_of(own, "5.14")) > 0.98
    assert power_of_nodes(line_of(own, "5.16", figures.MEMORY_BOUND)) == pytest.approx(0.5, abs=0.01)
    plain, garbage = (line_of(own, "5.4", name) for name in (figures.NO_GARBAGE, figures.WITH_GARBAGE))
    assert linear_fit(plain) > 0.98 and np.allclose(gain_over_nodes(plain), 1, atol=0.02)
    gain = gain_over_nodes(garbage)
    assert (gain.diff().dropna() > 0).all() and gain.iloc[-1] > 1.2


def test_every_claim_has_a_reason_and_a_verdict(kept):
    for finding in examine(CLAIMS, kept):
        assert finding.claim.reason and finding.claim.measure, finding.claim.statement
        assert not finding.claim.reason.endswith(".")
        assert len(finding.on_seeds) == 10, finding.claim.statement
        assert finding.verdict in (YES, NO, IN_REGIME, CANNOT), finding.claim.statement


def test_claims_say_nothing_about_data_without_their_figures():
    empty = pd.DataFrame(columns=["data", *figures.COLUMNS])
    assert [claim.statement for claim in CLAIMS if claim.test(empty) is not None] == []


def test_claims_see_the_contrary(kept):
    """With the reciprocal of each value, lines that rise fall, and K-Slack makes everything worse."""
    own = kept[kept["data"] == "seed 0"]
    contrary = own.assign(value=1 / own["value"].replace(0.0, 1e-12))
    right, wrong = (
        {(of.claim.place, of.claim.statement): of.on_seeds[0].holds for of in examine(CLAIMS, frame)}
        for frame in (own, contrary)
    )
    changing = [
        key for key in right if any(w in key[1] for w in ("falls", "rises", "grow", "lowers", "longer"))
    ]
    held = [key for key in changing if right[key]]
    assert len(held) >= 7
    assert [key for key in held if wrong[key]] == []


def test_fits_and_powers():
    nodes = pd.Index([1, 3, 5, 9, 17])
    assert power_of_nodes(pd.Series([1.0, 2, 4, 8, 16], nodes)) == pytest.approx(1)
    assert gain_over_nodes(pd.Series([2.0, 6, 12, 24, 48], nodes)).tolist() == [1, 1.5, 1.5, 1.5, 1.5]
    assert linear_fit(pd.Series([1.0, 4, 9, 16], [1, 2, 3, 4])) < 0.99


@pytest.mark.parametrize("part", SEEDS_OF_PARTS)
def test_kept_results_are_those_of_a_new_run(part, kept):
    check_part(part, SEEDS_OF_PARTS[part], kept)


@pytest.mark.slow
def test_kept_windows_are_those_of_a_new_run(kept):
    check_part("longest_windows", 6, kept)


def check_part(part: str, seed: int, kept: pd.DataFrame) -> None:
    new = pd.DataFrame(list(getattr(figures, part)(seed, figures.FULL)), columns=list(figures.COLUMNS))
    own = kept[(kept["data"] == f"seed {seed}") & kept["figure"].isin(PART_OF_FIGURES[part])]
    pd.testing.assert_frame_equal(
        new.reset_index(drop=True),
        own[list(figures.COLUMNS)].reset_index(drop=True),
        rtol=1e-4,
        check_dtype=False,
    )


def test_small_sizes_have_the_same_columns():
    part = partial(figures.by_interval, 0, figures.FigureSizes((1, 2), 1.0, (5, 35), (1,), 10.0))
    made = pd.DataFrame(part(), columns=list(figures.COLUMNS))
    dead = made[(made["series"] == "1 node") & (made["x"] == 35)]
    assert dead["value"].tolist() == [0.0] and set(made["figure"]) == {"5.1", "5.2", "5.3"}
    assert [figures.with_gather(n) for n in (1, 2, 9)] == [1, 3, 10]


def test_recorded_trades_are_late_and_k_slack_orders_them(reference, monkeypatch):
    monkeypatch.setenv("CEPKIT_DATA", str(reference / "data"))
    new = figures.recorded_order().set_index(["measure", "series"])["value"]
    assert new["out_of_order, recorded", "5 nodes"] == pytest.approx(0.0313, abs=1e-4)
    assert new["most_delay_ms, recorded", "5 nodes"] == pytest.approx(14.8, abs=0.1)
    assert new["out_of_order, recorded", "5 nodes, K-Slack"] < 0.001
    kept = results.kept_results(KEPT).query("data == 'Coinbase trades'")
    assert np.allclose(kept["value"], new.to_numpy(), rtol=1e-5)
    monkeypatch.delenv("CEPKIT_DATA")
    with pytest.raises(RecordedDataError, match="set CEPKIT_DATA"):
        figures.recorded_order()


def test_tables_stand_beside_those_of_the_paper(kept):
    printed = {  # out of order, %; greatest delay; mean latency; error, %
        "table 5.1": [[0, 0.58, 0.07], [0, 92, 30], [0.243, 0.349, 55.6], [0, 0.08, 0.03]],
        "table 5.2": [[0, 3.4, 0.05], [0, 33, 202], [0.366, 0.504, 261], [0, 6.6, 1]],
    }
    real = results.kept_results(KEPT, measuring.FILE)
    for name in printed:
        table = beside_paper(kept, real, name)
        assert np.allclose(table.xs("thesis", level="source"), printed[name])
        assert set(table.index.get_level_values("source")) >= {"thesis", "real", "simulated"}
        errors = table.loc["error, %"].index.tolist()
        kinds = [
            f"{source}, {kind} weights" for source in ("real", "simulated") for kind in ("equal", "random")
        ]
        assert errors == ["thesis", *kinds, *(["simulated, 50 symbols"] if name == "table 5.1" else [])]


def test_every_figure_is_drawn(kept):
    drawn = draw_figures(kept, list(FIGURES), printed=paper_numbers(), columns=4, title="All of them")
    titles = [annotation.text for annotation in drawn.layout.annotations]
    assert titles == [looks.title for looks in FIGURES.values()]
    printed = [trace for trace in drawn.data if trace.name == PRINTED]
    assert sorted(len(trace.x) for trace in printed) == [2, 2]
    assert drawn.layout.title.text.startswith("All of them")
    with pytest.raises(CepError, match=r"no figure '5\.21'"):
        draw_figures(kept, ["5.21"])


def test_tables_have_both_forms_of_each_formula():
    table = formula_table(ExampleLoad(n_nodes=9))
    assert table.notna().all(axis=None) and set(table["table"]) == {"2.2", "2.4", "3.1", "3.1.1", "3.1.2"}
    wrong = table[table["verdict"] == "wrong"]
    assert (wrong["printed_value"] != wrong["corrected_value"]).all() and len(wrong) >= 6
