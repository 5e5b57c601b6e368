"""The claims of the DARLING paper: their tests on made results, and the causes of those that fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.shedding.arrivals import OverloadArrivals
from cepkit.shedding.buffers import buffer_limits, drain_time, queue_limit
from cepkit.shedding.strategies.darling import Darling
from cepkit.shedding.strategies.spice import ESpice
from papers.claims import CANNOT, IN_REGIME, UNTRIED, YES, examine
from papers.load_shedding.claims import CLAIMS, LEAST_MATCHES, compared, factors, full_buffers, wide_table
from papers.load_shedding.figures import (
    AXES,
    COMPARED,
    CONTINUOUS,
    IN_TIME,
    LATENCY,
    LONG,
    MEMORY,
    NO_DROPS,
    PANELS,
    PEAKS,
    RECALL,
    SHORT,
    Scale,
    Setting,
    setting_of,
)

N = 400
MEASURES = (RECALL, IN_TIME, LATENCY, MEMORY)


def made(
    values: dict[str, float], *, n_seeds: int = 10, matches: float = 5_000, **short: float
) -> pd.DataFrame:
    """Return results in which a strategy has one value of all measures; ``short`` for the short streams."""
    loads = [(LONG, PEAKS), (SHORT, PEAKS), (SHORT, CONTINUOUS)]
    rows = [
        {
            "data": f"seed {seed}", "n_events": scale.n_events, "work_s": scale.work_s, "stream": axis.data,
            "by": axis.by, "load": load, "x": str(x), "strategy": name, "matches": matches,
            **dict.fromkeys(MEASURES, short.get(name, value) if scale == SHORT else value),
        }
        for seed in range(n_seeds)
        for axis, load in dict.fromkeys((panel.axis, panel.load) for panel in PANELS)
        for scale in [scale for scale, of in loads if of == load]
        for x in axis.points_at(load)
        for name, value in values.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def verdicts(results: pd.DataFrame) -> dict[str, str]:
    return {finding.claim.place: finding.verdict for finding in examine(CLAIMS, results)}


FIRST = {name: 2.0 for name in COMPARED}


def test_there_are_at_most_twenty_claims_and_nine_are_panels_of_figure_6():
    assert len(CLAIMS) == 20
    panels = [claim.place.removeprefix("figure ") for claim in CLAIMS if "6" in claim.place]
    assert panels == [panel.name for panel in PANELS if panel.figure == 6]


def test_most_matches_on_long_streams_only_is_in_the_regime():
    found = verdicts(made(FIRST | {"darling": 3.0}, darling=1.0))
    assert found["figure 6a"] == found["figure 6i"] == IN_REGIME
    assert verdicts(made(FIRST | {"darling": 3.0}))["figure 6b"] == YES
    assert verdicts(made(FIRST | {"darling": 3.0}, n_seeds=9))["figure 6b"] == UNTRIED


def test_less_is_better_for_latency_memory_and_overhead():
    results = made(FIRST | {"darling": 1.0})
    found = {(f.claim.place, f.claim.statement[:10]): f for f in examine(CLAIMS, results)}
    assert found["figure 7", "the lowest"].verdict == YES
    assert found["figure 8", "in most ex"].verdict == YES
    assert found["figure 8 d, e, i", "higher mem"].on_seeds[0].value == 0.5
    assert found["figure 10", "the minima"].verdict == IN_REGIME  # computed, not from these results
    assert found["figure 9 b, d, f", "lower late"].on_seeds[0].value == 2.0
    assert found["section 4.2", "limits N_T"].verdict == CANNOT


def test_points_with_few_matches_are_not_judged():
    results = made(FIRST, matches=LEAST_MATCHES - 1)
    assert wide_table(results, RECALL, PEAKS, LONG).empty
    tried = {finding.claim.place for finding in examine(CLAIMS, results) if finding.on_seeds}
    assert tried == {"figure 10", "section 4.2"}  # these need no results


def test_factors_stand_beside_the_printed_ones():
    table = factors(made(FIRST | {"darling": 4.0})).set_index("panel")
    assert table.loc["6b", "paper"] == "4836" and table.loc["6b", "25,000 s"] == 2.0
    assert table.loc["7a", "25,000 s"] == 0.5 and table.loc["9b", "30 s"] == 0.5
    assert len(table) == 9 + 9 + 3
    both = compared(made(FIRST | {"darling": 4.0}), LONG, ("darling", "zhao"))
    assert both.shape == (9, 4) and (both["recall"]["darling"] == 4.0).all()


# --- the causes: without them, the effect goes ------------------------------------------------------------


def run_of(setting: Setting, strategy) -> dict:
    return setting.replay(strategy, 0).patterns[0].summary()


@pytest.mark.parametrize("rates", [(1.0, 1.0), (5.0, 1.0), (50.0, 3.0)])
def test_full_buffers_of_the_split_take_longer_than_the_bound_unless_all_costs_are_equal(rates):
    rate = dict(zip("ab", rates, strict=True))
    for costs, is_equal in (((0.001, 0.010), False), ((0.004, 0.004), True)):
        cost = dict(zip("ab", costs, strict=True))
        mean = sum(cost[of] * rate[of] for of in "ab") / sum(rates)
        room = buffer_limits(queue_limit(1e4, mean), cost, rate, safety=0.8)
        factor = full_buffers(np.array(costs), np.array(rates))
        assert drain_time(room, cost) / 1e4 == pytest.approx(0.8 * factor, rel=1e-3)
        assert (factor == pytest.approx(1.0)) is is_equal


def test_a_bound_of_many_events_is_kept_and_one_of_few_is_not():
    """Cause of figure 7 on long streams: with three events in the bound, one can take longer than it."""
    axis = AXES["soccer", "partial matches"]
    few, many = (setting_of(axis, axis.reference, PEAKS, 0, Scale(1_000, work)) for work in (500.0, 12.0))
    assert run_of(few, Darling())[LATENCY] > 1.5 > run_of(many, Darling())["max_latency"]


def test_spice_that_counts_waiting_events_is_not_as_late():
    """Cause of late matches of eSPICE as published: it skips by the rate of arrivals alone."""
    axis = AXES["stocks", "window"]
    setting = setting_of(axis, axis.reference, PEAKS, 0, Scale(2_500, 30.0))
    published, waiting = (run_of(setting, ESpice(backlog=backlog)) for backlog in (False, True))
    assert published[LATENCY] > 1.5 * waiting[LATENCY]


def lost(useless: float) -> float:
    """Return the share of recall that DARLING loses from 20 % overload to 140 %."""
    n, draws = 2_000, np.random.default_rng(0)
    kind, v = draws.choice(["a", "b"], n, p=[0.2, 0.8]), 0.1 + 0.9 * draws.random(n)
    v[kind == "a"] *= 0.1
    v[(kind == "b") & (draws.random(n) < useless)] = -1.0
    frame = pd.DataFrame({"kind": kind, "v": v, "ts": np.arange(n)})
    query = "PATTERN SEQ(a x, b y) WHERE y.v > x.v WITHIN 300"
    low, high = (
        cep.replay(
            frame, query, latency_bound="3 ms", arrivals=OverloadArrivals(rate), warm_up=400,
            shedding=Darling(split="rate", drift=False), event_type="kind", order_by="ts",
        ).recall
        for rate in (0.2, 1.4)
    )  # fmt: skip
    return 1 - high / low


def test_matches_fall_with_overload_since_most_work_is_useful():
    """Cause of the slope of figure 9: at 140 % overload, 58 % of the work is not done."""
    assert lost(0.0) > 0.4 and lost(0.9) < 0.6 * lost(0.0)


def test_a_strategy_whose_decisions_are_dear_holds_fewer_partial_matches():
    """The paper's cause of figure 8 on soccer: others shed more, as their decisions take long."""
    axis = AXES["soccer", "length"]
    plain = setting_of(axis, axis.reference, PEAKS, 0, Scale(2_500, 30.0))
    prices = plain.scene.prices
    dear = Setting(plain.source, replace(plain.scene, prices=replace(prices, draw=300 * prices.draw)))
    alive = {
        (name, words): run_of(setting, strategy)["max_partial_matches"]
        for words, setting in (("plain", plain), ("dear", dear))
        for name, strategy in (("darling", Darling()), ("random", cep.shedding.Random()))
    }
    assert alive["random", "plain"] > alive["darling", "plain"]
    assert alive["random", "dear"] < alive["darling", "dear"]


def test_without_drift_detection_the_overhead_is_zero():
    axis = AXES["soccer", "window"]
    setting = setting_of(axis, axis.reference, NO_DROPS, 0, Scale(N, 30.0))
    assert setting.replay(Darling(drift=False), 0).mean_latency == setting.latency_without
    assert setting.replay(Darling(), 0).mean_latency > setting.latency_without
