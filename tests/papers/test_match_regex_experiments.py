"""The experiments of "Partition and Compose": that they show what they say; never how fast."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cepkit.engines.regex import match_regex
from cepkit.errors import CepError
from papers.match_regex import benchmark_runs as paper
from papers.match_regex import scaling, topologies
from papers.match_regex.aggregates import incremental_against_recomputed
from tests.support.sizes import needs_kernels

# Hundreds of thousands of events: without compiled kernels that takes an hour, and shows nothing of its own.
pytestmark = needs_kernels

KEYS = ["benchmark", "width"]
WITH_PATTERN = [name for name, benchmark in paper.BENCHMARKS.items() if benchmark.pattern]


# --- tables -----------------------------------------------------------------------------------------------


def test_all_nine_benchmarks_select_what_the_paper_reports():
    table = paper.table5(paper.benchmarks_prepared(20))
    assert list(table.index) == list(paper.BENCHMARKS) and len(table) == 9
    assert table["ratio"].between(0.8, 1.2).all(), table["ratio"]


@pytest.mark.slow
def test_all_nine_benchmarks_select_what_the_paper_reports_at_its_size():
    table = paper.table5(paper.benchmarks_prepared(paper.PAPER_REPETITIONS))
    print(table[["events", "matches", "selectivity_pct", "paper_pct", "ratio"]].to_string())
    assert table["events"].unique().tolist() == [10_000_000, 200_000]
    assert table["ratio"].between(0.8, 1.2).all(), table["ratio"]


@pytest.mark.parametrize("name", ["finance0", "finance2", "finance3", "finance5"])
def test_calibration_finds_the_parameter_from_anywhere(name):
    benchmark = paper.BENCHMARKS[name]
    data = paper.benchmark_data(benchmark, 20)
    found = paper.calibrate(benchmark, data)
    selectivity = paper.count_matches(found, found.prepared(data)) / len(data)
    assert selectivity == pytest.approx(benchmark.paper_selectivity, rel=0.1)
    assert found.params.keys() == benchmark.params.keys()


def test_calibration_needs_something_free():
    with pytest.raises(CepError, match="'finance1' has no free parameter"):
        paper.calibrate(paper.BENCHMARKS["finance1"], pd.DataFrame())


def test_twitter1_ends_at_the_sixth_tweet_as_printed():
    """20 tweets of an author who never changes tags are 3 matches of 6, or 4 of 5 with Count() == 4."""
    tweets = pd.DataFrame(
        {"ts": pd.date_range("2012-01-01", periods=20, freq="min"), "author": "ann", "tag_code": 1}
    )
    printed, five = paper.BENCHMARKS["twitter1"], paper.VARIANTS["twitter1_five"]
    tweets["content"] = "#news"
    assert paper.count_matches(printed, tweets) == 3
    assert paper.count_matches(five, tweets) == 4
    assert tweets.cep.match(printed.query()).to_frame()["count"].tolist() == [6, 6, 6]


@pytest.mark.parametrize("name", ["twitter1", "twitter2"])
def test_numbers_instead_of_texts_find_the_same_tweets(name):
    data = paper.benchmark_data(paper.BENCHMARKS[name], 2).iloc[:12_000]
    fast, slow = paper.BENCHMARKS[name], paper.VARIANTS[f"{name}_texts"]
    found = [match_regex(*paper.compile_benchmark(b, b.prepared(data))) for b in (fast, slow)]
    assert len(found[0]) > 50
    assert found[0].first.tolist() == found[1].first.tolist()
    assert found[0].last.tolist() == found[1].last.tolist()
    explained = slow.prepared(data.iloc[:10]).cep.explain(slow.query())
    assert "runs as Python" in str(explained)


def test_parsing_gives_back_what_the_entries_were_made_of():
    data = paper.benchmark_data(paper.BENCHMARKS["twitter0"], 1).iloc[:500]
    parsed = paper.BENCHMARKS["twitter0"].prepared(data[["xml"]])
    for name in ("id", "ts", "author", "content"):
        assert parsed[name].astype(data[name].dtype).tolist() == data[name].tolist()


def test_finance4_matches_windows_of_two_trades():
    trades = pd.DataFrame(
        {
            "ts": pd.date_range("2012-01-01", periods=6, freq="s"),
            "symbol": "A",
            "price": [10, 11, 11, 13, 12, 14],
            "size": 1,
        }
    )
    benchmark = paper.BENCHMARKS["finance4"]
    assert benchmark.prepared(trades)[["mn", "mx"]].to_numpy().tolist() == [[10, 11], [11, 13], [12, 14]]
    assert (
        paper.count_matches(benchmark, benchmark.prepared(trades)) == 1
    )  # 12 is above 11, with a gap between


def test_table6_has_both_speeds():
    table = paper.table6(1, repeats=1, names=["finance0", "twitter0"])
    assert table["events"].tolist() == [10_000, 10_000]
    assert table["paper_relative"].tolist() == pytest.approx([1, 6_488 / 778_584])
    assert (table[["events_per_s", "relative", "cpu_s"]] > 0).all(axis=None)
    with pytest.raises(CepError, match=r"benchmark 'finance6' not found\. Did you mean 'finance"):
        paper.table6(1, names=["finance6"])


def test_short_cuts_leave_the_matches_and_save_looks():
    live = paper.live_starts(paper.benchmarks_prepared({"trades": 3, "tweets": 1}))
    assert list(live.index) == WITH_PATTERN
    assert live.loc["finance5", "looked_at"] < live.loc["finance5", "mean_live"] / 5
    assert live.loc["finance3", "most_live"] == 0  # a pattern of one event
    assert live["mean_live"].idxmax() in ("finance5", "twitter2")


# --- aggregates -------------------------------------------------------------------------------------------


def test_both_ways_of_aggregation_find_the_same():
    table = incremental_against_recomputed((2, 8, 64), n_events=20_000, repeats=1)
    assert table["matches"].tolist()[0] > table["matches"].tolist()[1] > 100
    assert table["incremental_bytes"].nunique() == 1
    assert table["recomputed_bytes"].tolist() == [32, 80, 528]
    with pytest.raises(CepError, match="lengths are at least 2"):
        incremental_against_recomputed((1,))


# --- topologies -------------------------------------------------------------------------------------------


def test_replicas_find_what_one_finds_in_its_order():
    table = topologies.topologies((1, 3), repetitions=1)
    assert len(table) == 4 and (table["matches"] > 10).all()
    assert table["same_order"].all()
    assert (table["longest_wait"] <= table["bound"]).all()


@pytest.mark.parametrize("fails", ["parsing", "matching"])
def test_an_error_in_a_replica_ends_the_run(fails):
    def broken(frame):
        if fails == "parsing":
            raise KeyError("no tweet")
        return frame.drop(columns="ts")

    benchmark = topologies.twitter1_hashed()
    data = paper.benchmark_data(benchmark, 2)
    benchmark = replace(benchmark, stages=(*benchmark.stages, broken))
    with pytest.raises(KeyError, match="no tweet" if fails == "parsing" else "order_by: column 'ts'"):
        topologies.shuffle_and_merge(benchmark, data, 2)


def test_keys_go_to_the_same_replica_everywhere():
    assert topologies.replica_of_key(["A", "B", "C", "D"], 4).tolist() == [1, 3, 2, 1]


# --- scaling ----------------------------------------------------------------------------------------------


def test_costs_are_those_of_all_replicas():
    benchmark = paper.BENCHMARKS["finance5"]
    costs = scaling.measured_costs(benchmark, paper.benchmark_data(benchmark, 2), (1, 3), repeats=1)
    assert {width: len(load) for width, load in costs.of_replica.items()} == {1: 1, 3: 3}
    assert all((load > 0).all() for load in costs.of_replica.values())
    assert set(costs.split) == {1, 3} and costs.merge > 0


def test_parsing_is_measured_for_each_replica():
    benchmark = scaling.SCALED["twitter0"]
    costs = scaling.measured_costs(benchmark, paper.benchmark_data(benchmark, 1), (1, 2), repeats=1)
    assert {width: len(load) for width, load in costs.of_replica.items()} == {1: 1, 2: 2}
    assert (costs.of_replica[2] > 0).all() and costs.merge == 0


def test_long_matching_is_measured_by_key(monkeypatch):
    monkeypatch.setattr(scaling, "LONG_S", 0.0)
    benchmark = scaling.SCALED["twitter2"]
    data = paper.benchmark_data(benchmark, 1).iloc[:1_000]
    costs = scaling.measured_costs(benchmark, data, (1, 2), repeats=1)
    assert {width: len(load) for width, load in costs.of_replica.items()} == {1: 1, 2: 2}
    assert (costs.of_replica[2] > 0).all() and set(costs.split) == {1, 2}


def test_simulated_speedup_begins_at_one_and_is_less_with_split_and_merge():
    little = {"trades": 2, "tweets": 1}
    table = scaling.speedup_simulated(
        (1, 2, 8), repetitions=little, names=["finance0", "twitter0"], repeats=1
    )
    assert table["replicas_alone"].xs(1, level="width").tolist() == pytest.approx([1, 1])
    assert (table["speedup"] <= table["replicas_alone"] + 1e-9).all()
    assert table["events"].unique().tolist() == [20_000, 10_000]


def test_nothing_is_concluded_when_the_control_does_not_gain():
    index = pd.MultiIndex.from_tuples([("finance0", 2), ("twitter0", 2)], names=["benchmark", "width"])
    measured = pd.DataFrame({"speedup": [1.0, 1.7]}, index=index)
    assert "nothing can be concluded" in scaling.conclude(scaling.LEAST_CONTROL - 0.01, measured)
    assert "twitter0 gains" in scaling.conclude(scaling.LEAST_CONTROL, measured)
    assert scaling.speedup_of_control(1, seconds=0.01) > 0


def test_the_printed_numbers_are_those_of_the_text():
    gains = scaling.PAPER_FIGURES.groupby("figure")["speedup"].apply(list).to_dict()
    assert gains == {"figure 10": [14.3, 11.0, 7.5, 0.6], "figure 9": [6.5, 4.2, 3.8, 2.9, 2.1, 0.9]}


def test_measured_speedup_is_relative_to_one_replica():
    repetitions = {"trades": 2, "tweets": 1}
    table = scaling.speedup_measured(
        (1, 2), repetitions=repetitions, repeats=1, names=["finance0", "twitter1"]
    )
    assert table["speedup"].xs(1, level="width").tolist() == [1, 1]
    seconds = table["seconds"].unstack()
    np.testing.assert_allclose(table["speedup"].unstack()[2], seconds[1] / seconds[2])


def test_parsing_in_parts_gives_the_same_frame():
    data = paper.benchmark_data(paper.BENCHMARKS["twitter0"], 1).iloc[:300]
    with scaling._parsers(2) as parse:
        parts = parse(data)
    whole = paper.BENCHMARKS["twitter0"].prepared(data)
    assert parts.astype({"author": str}).equals(whole.astype({"author": str}))
