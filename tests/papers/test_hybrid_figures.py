"""The experiments of hybrid agents: tidy tables, the same every time, and what they must show."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from cepkit.parallel.agents import Costs
from cepkit.parallel.divided import RIP
from cepkit.parallel.engines import Hybrid, Sequential
from papers.hybrid_parallel import details, figures, workloads
from tests.support.sizes import needs_kernels

POINT = ["stream", "pattern", "window_min", "threads", "length", "system"]
STREAM = workloads.poisson(duration_s=600.0, seed=1)


# --- data and queries -------------------------------------------------------------------------------------


def test_queries_say_what_neighbours_must_fulfil():
    one = replace(STREAM, condition="difference", slack=0.5)
    assert one.query(1, length=2) == "PATTERN SEQ('A' a, 'B' b) WHERE a.x - b.x < 0.5 WITHIN 60 s"
    loop = one.query(0.5, pattern="Kleene")
    assert "SEQ('A' a, 'B' b, 'C' c, 'D'+ d[])" in loop and "WITHIN 30 s" in loop
    assert "c.x - d[1].x < 0.5" in loop and "d[i-1].x - d[i].x < 0.5" in loop
    assert "(a.x + b.x) % 1000 < 300" in STREAM.query(1)
    assert "corr(a.history, b.history) > 0.5" in replace(one, condition="corr").query(1)
    for wrong in ({"length": 3, "pattern": "Kleene"}, {"length": 1}, {"length": 5}, {"pattern": "OR"}):
        with pytest.raises(CepError, match=r"workload 'Poisson': no pattern .* of \d components"):
            one.query(1, **wrong)


def test_workloads():
    stocks = workloads.stocks(n_symbols=12, n_days=1, seed=3)
    counts = stocks.frame["symbol"].value_counts()
    assert len(set(stocks.types)) == 6 and counts[list(stocks.types)].min() >= counts.iloc[5]
    home = workloads.sensors(n_days=2, seed=3)
    assert set(home.types) <= set(home.frame["activity"].cat.categories)


def test_recorded_data_is_taken_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("CEPKIT_DATA", str(tmp_path))
    assert workloads.recorded_workloads() == {}
    minutes = pd.date_range("2016-07-26 09:30", periods=30, freq="min")
    prices = pd.DataFrame({"ts": minutes.repeat(3), "symbol": list("cab") * 30})
    prices["close"] = [{"a": 1.0, "b": 4.0, "c": 8.0}[symbol] for symbol in prices["symbol"]]
    prices.loc[3:5, "close"] *= [1.0, 2.0, 0.5]
    prices.to_parquet(tmp_path / "nasdaq100_minute_close.parquet")
    (data,) = workloads.recorded_workloads()
    change, correlated = workloads.recorded_workloads()[data]
    assert data == "NASDAQ 100" and (change.name, correlated.name) == (
        "stocks, price change",
        "stocks, correlation",
    )
    found = change.frame
    assert found["symbol"].tolist()[:6] == list("abcabc") and found["ts"].is_unique
    seconds = (found["ts"] - found["ts"].iloc[0]).dt.total_seconds()
    assert seconds.tolist()[:6] == [0, 20, 40, 60, 80, 100]
    assert np.exp(found["log_return"].iloc[3:6]).tolist() == pytest.approx([2.0, 0.5, 1.0])
    assert found["log_return"].iloc[:3].isna().all()
    assert found["history"].iloc[59] is None and found["history"].iloc[60].tolist() == [1.0, 2.0, *[1.0] * 18]


def test_recorded_prices_get_the_histories_of_generated_ones():
    bars = workloads.stocks(n_symbols=5, n_days=1, seed=2).frame
    minutes = bars.assign(ts=bars["ts"].dt.floor("min"))[["ts", "symbol", "close"]]
    found = workloads.add_histories(minutes)
    assert (found["ts"] - bars["ts"]).abs().max() <= pd.Timedelta("1us")
    assert found["log_return"].to_numpy() == pytest.approx(bars["log_return"].to_numpy(), nan_ok=True)
    for mine, made in zip(found["history"], bars["history"], strict=True):
        assert (mine is None) == (made is None) and (mine is None or mine.tolist() == made.tolist())


def test_the_pattern_of_the_sensors_was_chosen_on_other_homes():
    """In most homes, a morning has the six activities in this order within an hour."""

    def has_morning(frame: pd.DataFrame) -> bool:
        kind, ts = frame["activity"].astype(str), frame["ts"]
        starts = ts[(kind == workloads.MORNING[0]) & (kind.shift(-1) != workloads.MORNING[0])]
        for start in starts:
            step = 1
            for of in kind[(ts > start) & (ts <= start + pd.Timedelta("1h"))]:
                step += of == workloads.MORNING[step]
                if step == len(workloads.MORNING):
                    return True
        return False

    assert all(has_morning(workloads.sensors(seed=seed).frame) for seed in range(20, 40))


def test_a_loop_may_be_another_component():
    assert "'Wake_Up'+ b[]" in workloads.sensors(n_days=1).query(30, pattern="Kleene")


# --- figures ----------------------------------------------------------------------------------------------


def test_systems_that_share_nothing_pay_no_locks():
    costs = Costs(lock=7.0)
    assert figures.costs_of(Hybrid(threads=2), costs).lock == 7.0
    assert figures.costs_of(RIP(threads=2), costs).lock == figures.costs_of(Sequential(), costs).lock == 0.0


def test_names_that_are_not_known():
    with pytest.raises(CepError, match=r"system 'RIPP' is not known.*'RIP'"):
        figures.system_of("RIPP")
    with pytest.raises(CepError, match=r"by='cores' is not known\. There are 'window'"):
        figures.speedup([STREAM], "cores", [2])


def test_what_is_wrong_with_a_sweep_is_said_before_it_runs(monkeypatch):
    monkeypatch.setattr(figures, "sweep", lambda *_, **__: pytest.fail("points have been run"))
    good = "hybrid, fully dynamic"
    for sweep_of in (figures.speedup, figures.paced):
        for given, said in (
            ({"systems": (good, "RIPP")}, r"^system 'RIPP' is not known"),
            ({"systems": good}, r"^systems='hybrid, fully dynamic' is a text. Give a list"),
            ({"by": "length", "values": [3, 9]}, r"^workload 'Poisson': no pattern 'SEQ' of 9 components"),
            ({"workloads": STREAM}, r"^workloads is a single workload, 'Poisson'. Give a list"),
        ):
            with pytest.raises(CepError, match=said):
                sweep_of(**{"workloads": [STREAM], "by": "window", "values": [1.0], "length": 3, **given})
    with pytest.raises(CepError, match=r"^workload 'Poisson': no pattern 'Klene'"):
        figures.speedup([STREAM], "window", [1.0], patterns=("SEQ", "Klene"), length=3)


@needs_kernels
def test_speedups_are_tidy_and_the_same_every_time():
    systems = [*figures.COMPARED, "sequential", "sequential, not scoped"]
    given = {"patterns": ("SEQ",), "systems": systems, "length": 4}
    table = figures.speedup([STREAM], "threads", [6, 12], **given)
    assert list(table)[:6] == POINT and len(table) == 2 * len(systems)
    assert table["same_matches"].all() and (table["matches"] > 100).all()
    pd.testing.assert_frame_equal(table, figures.speedup([STREAM], "threads", [6, 12], **given))
    of = table.set_index(["system", "threads"])["speedup"]
    assert of["sequential"].tolist() == [1.0, 1.0] and (of["sequential, not scoped"] < 1).all()
    assert (of[list(figures.COMPARED)].unstack()[12] > of[list(figures.COMPARED)].unstack()[6]).all()
    assert (table["speedup"] <= table["speedup_not_scoped"]).all()
    assert table["idle_share"].between(0, 1).all() and table["busiest_share"].between(0, 1).all()


@needs_kernels
def test_work_that_comes_in_bursts_is_left_to_one_thread_of_rip():
    """All matches lie in a tenth of the stream: RIP gives it to few threads, agents to all."""
    quiet = STREAM.frame[STREAM.frame["type"].isin(["A"])]
    rows = len(quiet)
    burst = STREAM.frame.iloc[: rows // 2]
    after = burst["ts"].iloc[-1] + pd.to_timedelta(np.arange(rows * 4) + 1, unit="s")
    frame = pd.concat([burst, pd.DataFrame({"ts": after, "type": "A", "x": 0, "key": 0})])
    frame["type"] = pd.Categorical(frame["type"], categories=list("ABCD"))
    bursty = replace(STREAM, frame=frame.reset_index(drop=True))
    shares = {}
    for workload in (STREAM, bursty):
        table = figures.speedup([workload], "window", [0.5], patterns=("SEQ",), threads=12, length=4)
        shares[workload is bursty] = table.set_index("system")["speedup"]
    assert shares[True]["RIP"] < 0.5 * shares[False]["RIP"]
    assert shares[True]["hybrid, fully dynamic"] > 2 * shares[True]["RIP"]


@needs_kernels
def test_latency_is_from_arrival_on():
    table = figures.paced([STREAM], "window", [5 / 60, 10 / 60], threads=8, length=4)
    assert list(table)[:7] == [*POINT, "load"] and len(table) == 2 * 2 * 5
    assert (table["mean_latency_us"] > 0).all()
    assert (table["greatest_latency_us"] >= table["mean_latency_us"]).all() and (table["most_kb"] > 0).all()
    late = table.set_index(["system", "window_min", "load"])["mean_latency_us"].unstack("load")
    assert (late[8.0]["sequential"] > 10 * late[0.8]["sequential"]).all()  # it cannot follow
    assert (late[8.0]["hybrid, fully dynamic"] < late[8.0]["sequential"]).all()
    assert (table.groupby("window_min")["matches"].nunique() == 1).all()


@needs_kernels
def test_buffers_that_are_never_emptied_cost_more_and_more():
    table = figures.never_pruned(STREAM, [500, 2000], threads=8)
    wide = table.pivot(index="baseline", columns="events", values="pairs_seen")
    assert wide.loc["never pruned", 2000] > 10 * wide.loc["never pruned", 500]
    assert wide.loc["scoped", 2000] < 6 * wide.loc["scoped", 500]
    assert (wide.loc["scoped"] < wide.loc["not scoped"]).all()
    assert (wide.loc["not scoped"] < wide.loc["never pruned"]).all()


# --- inside agents ----------------------------------------------------------------------------------------


@needs_kernels
def test_the_simplex_model_counts_pairs_and_the_paper_s_is_off_by_factorials():
    table = details.evaluations(workloads.poisson())
    wide = table.pivot(index="agent", columns="source", values="per_second")
    assert (wide["simplex"] / wide["measured"]).to_numpy() == pytest.approx(1, abs=0.15)
    off = wide["paper, one side"] / wide["measured"]
    assert off.to_numpy() == pytest.approx([1, 2, 6], rel=0.15)


@needs_kernels
def test_buffers_hold_a_window_and_what_is_removed_late():
    table = details.buffers(workloads.poisson(duration_s=1500.0))
    assert table["mean"].to_numpy() == pytest.approx(table["by_delay"].to_numpy(), rel=0.15)
    events = table[table["buffer"] == "events"].set_index(["removal", "agent"])
    more = events.loc["window", "mean"] - events.loc["watermark", "mean"]
    assert more.to_numpy() == pytest.approx(events.loc["window", "by_window"].to_numpy(), rel=0.2)
    assert (table["most"] >= table["mean"]).all()


@needs_kernels
def test_speed_ups_over_equal_work_stay_below_the_number_of_threads():
    table = details.ceilings(STREAM, (5.0, 500.0), threads=8)
    of = table.set_index(["comparison_ns", "locks", "baseline"])["speedup"]
    equal = of.xs("equal work", level="baseline")
    assert (equal <= 8).all() and (of.xs("looks at all", level="baseline") > equal).all()
    assert of[500.0, "locks", "equal work"] > of[5.0, "locks", "equal work"]
    assert (equal.xs("locks are free", level="locks") > equal.xs("locks", level="locks")).all()


@needs_kernels
def test_shuffled_events_spread_the_work():
    home = workloads.sensors(n_days=3)
    table = details.spread((0.0,), workload=home, threads=12)
    assert table["events"].unique().tolist() == ["as they come", "100% shuffled, equal distances"]
    rip = table[table["system"] == "RIP"].set_index("events")
    assert rip["busiest_share"].iloc[1] < rip["busiest_share"].iloc[0]
    assert rip["speedup"].iloc[1] > rip["speedup"].iloc[0]
    assert len(home.frame) == len(workloads.sensors(n_days=3).frame)  # the workload stays as it was


@needs_kernels
def test_real_threads_find_the_same():
    table = details.measured(STREAM, (1, 2), repetitions=1)
    assert table["same_matches"].all() and (table[["measured_ms", "simulated_ms"]] > 0).all(axis=None)
    assert table["threads"].tolist() == [1, 2, 1, 2]
