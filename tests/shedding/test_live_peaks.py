"""A short form of ``tests/benchmarks/live_shedding.py``: a real stream with a producer too fast in peaks."""

from __future__ import annotations

from time import thread_time

import pytest

import cepkit as cep
from cepkit.shedding import live_learning as serving
from tests.benchmarks import live_shedding

SECONDS, BOUND = 5.0, 0.1


class OwnTime:
    """The seconds that this thread worked or slept. Other programs take none of them."""

    def __init__(self):
        self.slept = 0.0

    def now(self) -> float:
        return thread_time() + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


@pytest.mark.slow
def test_peaks_at_three_times_the_capacity(monkeypatch):
    """Nothing is dropped between peaks, and DARLING keeps more matches than random drops do."""
    time = OwnTime()
    monkeypatch.setattr(live_shedding, "BOUND", BOUND)
    monkeypatch.setattr(live_shedding, "sleep", time.sleep)
    for module in (live_shedding, serving):
        monkeypatch.setattr(module, "perf_counter", time.now)
    per_second = live_shedding.capacity(live_shedding.events(12_000), n=2000)
    offered = live_shedding.schedule(per_second, SECONDS)
    frame = live_shedding.events(len(offered) + 4 * live_shedding.N_WARM)
    strategies = {"darling": cep.Darling(split="rate", tie="position"), "random": "random_input"}
    found = {name: live_shedding.run(frame, own, offered, SECONDS) for name, own in strategies.items()}
    first = found["darling"]["first"]
    rows = frame.iloc[: first + len(offered)]
    whole = cep.match(rows, live_shedding.QUERY, measures=live_shedding.MEASURES, **live_shedding.SETTINGS)
    n = int((whole.to_frame(limit=10**8)["last"] >= first).sum())
    recall = {name: own["matches"] / n for name, own in found.items()}
    print(f"{per_second:,.0f} events per second, {len(offered):,} events, {n:,} matches, recall {recall}")
    assert found["darling"]["dropped"] > 0 and found["random"]["dropped"] > 0, found
    assert found["darling"]["dropped between peaks"] == 0, found
    assert 1 > recall["darling"] > recall["random"] > 0, recall
