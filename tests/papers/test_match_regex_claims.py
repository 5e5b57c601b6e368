"""The claims of the MatchRegex paper: their tests, the kept tables, and a sweep that evaluates some again."""

from pathlib import Path

import pandas as pd
import pytest

from papers.claims import LEAST_SEEDS, UNTRIED, examine
from papers.match_regex import over_seeds, scaling
from papers.match_regex.benchmarks import BENCHMARKS, RECORDED, recorded_data
from papers.match_regex.claims import CLAIMS
from papers.match_regex.drawings import points_figure, speedups_figure
from papers.match_regex.scaling import PAPER_FIGURES
from papers.recorded import has_recorded
from tests.support.sizes import needs_kernels, seeds

RESULTS = Path(__file__).resolve().parents[2] / "notebooks" / "results"


@pytest.fixture(scope="module")
def kept():
    return over_seeds.kept_results(RESULTS)


def test_every_claim_was_tried_on_ten_seeds_and_has_a_reason(kept):
    findings = examine(CLAIMS, kept)
    assert all(len(finding.on_seeds) >= LEAST_SEEDS and finding.verdict != UNTRIED for finding in findings)
    assert all(claim.reason.endswith(".") for claim in CLAIMS)
    assert len({(claim.place, claim.statement) for claim in CLAIMS}) == len(CLAIMS)


def test_kept_tables_have_no_data_but_results(kept):
    for name in over_seeds.SWEEPS:
        table = over_seeds.kept_table(over_seeds.results_file(RESULTS, name))
        assert table.attrs["made_by"] == f"python -m {over_seeds.MODULE} {name}"
        assert len(table) < 2_000
    assert RECORDED in set(kept["data"])


def test_figures_have_a_row_for_recorded_data_and_the_numbers_of_the_paper(kept):
    of_widths = kept[kept["sweep"] == "scaling"]
    figure = speedups_figure(
        of_widths, PAPER_FIGURES[PAPER_FIGURES["figure"] == "figure 9"], title="", most=8
    )
    assert [note.text for note in figure.layout.annotations] == ["generated data, 10 seeds", "recorded data"]
    stars = [float(y) for trace in figure.data if trace.mode == "markers+text" for y in trace.y]
    assert sorted(stars) == sorted([6.5, 4.2, 3.8, 2.9, 2.1, 0.9] * 2)
    own = kept[kept["sweep"] == "selectivities"]
    paper = {name: BENCHMARKS[name].paper_selectivity for name in over_seeds.WITH_PATTERN}
    figure = points_figure(own, "ratio", paper, title="", y_title="")
    assert [trace.name for trace in figure.data] == ["cepkit", "paper"] * 2
    assert len(points_figure(own[own["data"] != RECORDED], "ratio", paper, title="", y_title="").data) == 2


@needs_kernels
def test_sweeps_give_the_tables_that_claims_read(monkeypatch):
    monkeypatch.setattr(scaling, "EVENTS_OF_BLOCK", 500)  # of a block whose parsing is measured at each width
    little = {"trades": 1, "tweets": 1, "texts": 1}
    results = over_seeds.kept_of(
        selectivities=over_seeds.selectivities(["seed 3"], blocks=1),
        speeds=over_seeds.speeds(["seed 3"], blocks=little, repeats=1),
        speeds_as_in_paper=over_seeds.speeds_as_in_paper(["seed 3"], blocks=1, repeats=1),
        scaling=over_seeds.scaling(["seed 3"], blocks=little, repeats=1),
        orders=over_seeds.orders(["seed 3"]),
        aggregates=over_seeds.aggregates(["seed 3"], n_events=5_000),
    )
    findings = examine(CLAIMS, results)
    assert all(len(finding.on_seeds) == 1 and finding.verdict == UNTRIED for finding in findings)


@needs_kernels
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_selectivities_are_those_of_the_kept_table(seed, kept):
    name = f"seed {seed}"
    again = over_seeds.selectivities([name]).set_index("benchmark")
    before = kept[(kept["sweep"] == "selectivities") & (kept["data"] == name)].set_index("benchmark")
    assert again["matches"].tolist() == before["matches"].tolist()
    columns = ["ratio", "fitted_ratio", "mean_live", "looked_at"]
    pd.testing.assert_frame_equal(again[columns], before[columns], rtol=1e-4, check_names=False)


@needs_kernels
@pytest.mark.slow
def test_claims_have_the_same_verdicts_again(kept):
    """Two seeds of ten, measured again, agree with the kept table on claims that all or no seeds agree on.

    Times depend on the machine and its load, so a claim may differ at one of the two seeds.
    """
    names = ["seed 2", "seed 8"]
    again = over_seeds.kept_of(
        selectivities=over_seeds.selectivities(names),
        speeds=over_seeds.speeds(names),
        speeds_as_in_paper=over_seeds.speeds_as_in_paper(names),
        scaling=over_seeds.scaling(names),
        orders=over_seeds.orders(names),
        aggregates=over_seeds.aggregates(names),
    )
    for now, before in zip(examine(CLAIMS, again), examine(CLAIMS, kept), strict=True):
        assert len(now.on_seeds) == len(names)
        if before.share in (0, 1):
            assert any(one.holds == bool(before.share) for one in now.on_seeds), now.claim.statement


@pytest.mark.skipif(not has_recorded("trades"), reason="recorded data is not on this machine")
@pytest.mark.parametrize("name", ["finance0", "twitter0"])
def test_recorded_data_has_the_shape_of_the_generated(name):
    benchmark = BENCHMARKS[name]
    frame = recorded_data(benchmark, 2)
    assert frame["ts"].is_monotonic_increasing and not frame.isna().any(axis=None)
    length_s = (frame["ts"].iloc[-1] - frame["ts"].iloc[0]).total_seconds()
    if benchmark.data == "trades":
        assert len(frame) == 20_000 and frame["price"].dtype == "int64"
        assert length_s == pytest.approx(20_000 / 1378, rel=0.01)
    else:
        assert len(frame) == 2 * 9_214 and frame["id"].is_unique
        assert length_s == pytest.approx(2 * 6_600, rel=0.01)
