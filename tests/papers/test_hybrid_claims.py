"""The claims of the HYPERSONIC paper: true where the paper is right, false elsewhere, kept for ten seeds."""

from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.claims import examine
from papers.hybrid_parallel import drawings, results
from papers.hybrid_parallel.claims import CLAIMS
from papers.hybrid_parallel.figures import (
    COMPARED,
    COUNTED,
    FULL,
    ONE,
    OPEN_RIP,
    STATE,
    STATIC,
)
from tests.support.sizes import needs_kernels

KEPT = Path(__file__).resolve().parents[2] / "notebooks" / "results"
STREAMS = ("stocks, price change", "stocks, correlation", "sensors")
MEASURED = {
    "speedup", "speedup_not_scoped", "events_per_ms", "busiest_share", "matches", "mean_latency_us",
    "most_kb", "makespan_us", "events_per_ms_fused", "gain", "fused", "pairs_seen", "per_second",
}  # fmt: skip
WINDOWS = (5.0, 10.0, 15.0, 20.0)


def points():
    """Yield the points of the figures: windows with 24 cores, and cores and lengths at the third window."""
    for window in WINDOWS:
        yield {"window_min": window, "threads": 24, "length": 6}
    for threads in (10, 16):
        yield {"window_min": 15.0, "threads": threads, "length": 6}
    for length in (4, 5):
        yield {"window_min": 15.0, "threads": 24, "length": length}


def made_up(is_so: bool) -> pd.DataFrame:
    """Return results of one data set in which the paper is right at every point, or at none."""
    up = 2.0 if is_so else 0.5
    level = (
        {STATIC: 300.0, STATE: 400.0, FULL: 900.0, "RIP": 1.0}
        if is_so
        else dict(zip(COMPARED, (1, 2, 0.5, 9), strict=True))
    )
    speed, pace, fusion = [], [], []
    for stream, at, (system, base) in product(STREAMS, points(), level.items()):
        steps = at["window_min"] / 5 + at["length"] + {10: 0, 16: 1, 24: 2}[at["threads"]]
        hybrid = base * up**steps
        if is_so and at["threads"] == 24 and system != "RIP":  # flat from 16 cores; most gain with few
            hybrid *= 0.505 if system != FULL else 0.502
        rip = (1.0 if stream == "sensors" else 2.0) if is_so else (9.0 if stream == "sensors" else 2.0)
        own = {"data": "seed 0", "stream": stream, "pattern": "SEQ", **at, "system": system}
        value = rip if system == "RIP" else hybrid
        speed.append(own | {"speedup": value, "events_per_ms": value})
    for stream, at, system in product(STREAMS, points(), (*COMPARED, ONE)):
        value = {FULL: 1.0, STATE: 2.0}.get(system, 3.0)
        own = {"data": "seed 0", "stream": stream, "pattern": "SEQ", **at, "system": system, "load": 8.0}
        pace.append(
            own | {"mean_latency_us": value if is_so else 1 / value, "most_kb": value if is_so else 1 / value}
        )
    for stream, model in product(STREAMS[:2], ("paper", "measured")):
        for window, threads in ((5.0, 10), (10.0, 10), (15.0, 10), (20.0, 10), (15.0, 12), (15.0, 16)):
            gain = (0.5 if is_so else -0.5) * 10 / threads
            own = {"data": "seed 0", "stream": stream, "cost_model": model, "window_min": window}
            fusion.append(own | {"threads": threads, "fused": "b+c", "gain": gain})
    factors = (500.0, 2000.0) if is_so else (20.0, 10.0)
    unpruned = [
        {"data": "seed 0", "events": n, "baseline": "never pruned", "speedup": of}
        for n, of in zip((65_000, 130_000), factors, strict=True)
    ]
    found = {"measured": 1.0, "simplex": 1.0 if is_so else 2.0, "paper, one side": 1.0 if is_so else 2.0}
    model = [{"data": "seed 0", "agent": 2, "source": of, "per_second": n} for of, n in found.items()]
    tables = dict(speed=speed, pace=pace, fusion=fusion, never_pruned=unpruned, model=model)
    tables["regime"] = [
        row | {"system": COUNTED if row["system"] == STATE else row["system"], "matches": 1000}
        for row in [*speed, *pace]
        if row["system"] != STATIC and row["stream"] != "sensors"
    ]
    speed.append(speed[-1] | {"system": OPEN_RIP})
    return results.join_results({name: pd.DataFrame(rows) for name, rows in tables.items()})


@pytest.mark.parametrize("is_so", [True, False])
def test_claims_are_read_off_the_tables(is_so):
    findings = examine(CLAIMS, made_up(is_so))
    # Cores: a made-up line that is flat from 16 on and rises at every step has no place for both.
    for of in findings:
        if "16 cores" in of.claim.statement or "fewest cores" in of.claim.statement:
            continue
        tries = [
            *of.on_seeds,
            *(of.outside if of.claim.outside and "orders" not in of.claim.statement else ()),
        ]
        assert tries and {one.holds for one in tries} == {is_so}, of.claim.statement


def test_points_of_the_regime_with_few_matches_are_not_judged():
    few = made_up(True).assign(matches=lambda rows: rows["matches"].where(rows["table"] != "regime", 999))
    in_regime = [
        of for of in examine(CLAIMS, few) if of.claim.place in ("figure 6a", "figure 6b", "figure 7")
    ]
    assert in_regime and not any(of.on_seeds for of in in_regime) and all(of.outside for of in in_regime)


def test_every_claim_has_a_reason():
    for claim in CLAIMS:
        assert claim.reason and claim.measure and not claim.reason.endswith("."), claim.statement


def test_lines_along_a_parameter_keep_the_usual_values():
    one = made_up(True)
    speed = one[(one["table"] == "speed") & (one["system"] == FULL) & (one["stream"] == "sensors")]
    assert results.along(speed, "window_min")["window_min"].tolist() == list(WINDOWS)
    assert results.along(speed, "threads")["threads"].tolist() == [10, 16, 24]
    assert results.along(speed, "length")["length"].tolist() == [4, 5, 6]
    fusion = one[(one["table"] == "fusion") & (one["stream"] == STREAMS[0]) & (one["cost_model"] == "paper")]
    assert results.along(fusion, "threads")["threads"].tolist() == [10, 12, 16]
    assert results.along(fusion, "window_min")["threads"].unique().tolist() == [10]


def test_panels_have_the_letters_of_the_paper():
    one = made_up(True)
    regime = one[one["table"] == "regime"]
    drawn = drawings.panels_of(regime, "speedup", ("window_min", "threads"))
    assert [panel.title[0] for panel in drawn] == list("ababde")
    assert [panel.title[3:] for panel in drawn[::2]] == list(STREAMS)
    assert all(len(panel.rows) and panel.spread for panel in drawn[:4])
    assert {"fully dynamic", "by counts", "RIP"} <= set(drawn[0].rows["system"])
    few = drawings.panels_of(regime.assign(matches=999), "speedup", ("window_min",))
    assert not any(len(panel.rows) for panel in few)


def test_results_that_do_not_exist():
    with pytest.raises(CepError, match=r"results 'speeds' do not exist\. Did you mean 'speed'\? There are"):
        results.compute_results("speeds")


def test_kept_results_have_ten_seeds_and_recorded_data():
    kept = results.kept_results(KEPT)
    for table, own in kept.groupby("table"):
        assert {f"seed {seed}" for seed in range(10)} <= set(own["data"]), table
    recorded = kept.loc[kept["table"] == "speed", "data"]
    assert {"NASDAQ 100", "NASDAQ bars", "CASAS home"} <= set(recorded)


@needs_kernels
@pytest.mark.parametrize(
    ("table", "seed"),
    [
        pytest.param("speed", 3, marks=pytest.mark.slow),
        pytest.param("pace", 4, marks=pytest.mark.slow),
        pytest.param("regime", 6, marks=pytest.mark.slow),
        ("fusion", 5),
        ("model", 7),
        ("limits", 8),
    ],
)
def test_kept_results_are_those_of_a_new_run(table, seed, monkeypatch):
    """A claim depends on the tables alone, so equal tables give equal claims."""
    monkeypatch.delenv("CEPKIT_DATA", raising=False)
    new = results.compute_results(table, [seed])
    kept = results.kept_results(KEPT)
    kept = kept[kept["data"] == f"seed {seed}"]
    own = kept.loc[kept["table"] == table, list(new)]
    keys = [name for name in new if name not in MEASURED]
    pd.testing.assert_frame_equal(
        new.sort_values(keys, ignore_index=True),
        own.sort_values(keys, ignore_index=True),
        rtol=1e-5,
        check_dtype=False,
    )


@pytest.mark.slow
@needs_kernels
def test_a_baseline_that_never_prunes_is_a_thousand_times_slower():
    stream = results.stocks(n_days=32, seed=0)
    (found,) = results.never_pruned(stream, [130_000]).query("baseline == 'never pruned'")["speedup"]
    kept = results.kept_table(results.file_of(KEPT, "never_pruned"))
    kept = kept.query("data == 'seed 0' and events == 130_000 and baseline == 'never pruned'")["speedup"]
    assert found == pytest.approx(kept.iloc[0], rel=1e-5) and found > 1000
