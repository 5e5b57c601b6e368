"""The rules of the simple strategies, schedules, prices and the server, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cepkit.errors import CepError
from cepkit.shedding.arrivals import (
    BOOST,
    ConstantArrivals,
    OverloadArrivals,
    PeakArrivals,
    PoissonArrivals,
    Prices,
    fit_prices,
    schedule,
)
from cepkit.shedding.server import Lane, Server, VirtualClock
from cepkit.shedding.strategies.strategy import (
    Load,
    ServiceLine,
    Shedder,
    fit_service,
    surplus,
)
from cepkit.shedding.tree_machine import NO_MATCHES
from tests.support.sizes import seeds

SEEDS = seeds(50, 200)
ARRIVALS = (
    ConstantArrivals(0.7),
    PoissonArrivals(1.2),
    PeakArrivals(),
    PeakArrivals(poisson=True),
    OverloadArrivals(),
)


# --- schedules


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=str)
def test_schedules_repeat_and_never_fall(arrivals):
    one, other, third = (schedule(arrivals, 100, 5000, 0.001, seed) for seed in (1, 1, 2))
    assert one.tobytes() == other.tobytes()
    assert len(one) == 5100 and (np.diff(one) >= 0).all()
    is_random = isinstance(arrivals, PoissonArrivals) or getattr(arrivals, "poisson", False)
    assert is_random == bool((one != third).any())


def test_peaks_have_the_shares_and_the_rate_of_the_authors():
    arrivals = PeakArrivals()
    gap = np.diff(arrivals.times(10_000, 0.001, 0), prepend=0.0)
    fast = np.isclose(gap, 0.002 / 1000)
    assert fast.sum() == 7000 and np.isclose(gap[~fast], 0.002).all()
    assert sum(share for _, share in BOOST) == pytest.approx(0.7)
    assert [start for start, _ in arrivals.peaks(10_000)] == [300, 4000, 6000, 9000]


def test_the_load_is_the_rate_over_the_capacity():
    for arrivals, load in (
        (ConstantArrivals(0.7), 0.7),
        (PoissonArrivals(1.2), 1.2),
        (OverloadArrivals(0.4), 1.4),
    ):
        seconds = arrivals.times(100_000, 0.001, 0)[-1]
        assert 100_000 * 0.001 / seconds == pytest.approx(load, rel=0.02)


# --- partial matches to drop


def load_of(**given) -> Load:
    known = {"clock": 0.0, "waiting": 0, "oldest_arrival": 0.0, "arrival_rate": 1.0, "service": 1.0}
    return Load(**{**known, "latency": 0.0, "alive": 0, **given})


def test_as_many_partial_matches_remain_as_the_bound_allows():
    line = ServiceLine(fixed=0.1, slope=0.01)
    free = surplus(load_of(alive=50), 0.4, 1.0, line, 0.0)
    assert free == 0  # 0.4 + 0.1 + 0.5 is the bound
    assert surplus(load_of(alive=60), 0.4, 1.0, line, 0.0) == 10
    assert surplus(load_of(alive=60), 0.4, 1.0, line, 0.002) == 22  # dropping takes 0.12
    assert surplus(load_of(alive=60), 2.0, 1.0, line, 0.0) == 60


def test_the_line_of_service_times_goes_through_exact_values():
    alive = np.arange(200)
    training = SimpleNamespace(alive_before=alive, service_of_event=0.5 + 0.25 * alive, service=1.0)
    line = fit_service(training)
    assert (line.fixed, line.slope) == (pytest.approx(0.5), pytest.approx(0.25))
    falling = SimpleNamespace(alive_before=alive, service_of_event=900.0 - alive, service=1.0)
    assert fit_service(falling).slope == 0.0
    none = SimpleNamespace(alive_before=[], service_of_event=[], service=3.0)
    assert fit_service(none) == ServiceLine(3.0, 0.0)


# --- prices


def test_prices_are_fitted_exactly_when_they_explain_the_times():
    generator = np.random.default_rng(0)
    counts = np.column_stack([np.ones(200), generator.integers(0, 50, (200, 3))])
    wanted = np.array([2e-6, 1e-7, 3e-7, 0.0])
    assert fit_prices(counts, counts @ wanted) == pytest.approx(wanted.tolist(), abs=1e-12)


# --- the server, event by event


class OneSecond:
    """A tree whose events cost one condition each."""

    n_alive = size_bytes = 0

    def __init__(self) -> None:
        self.fed = []

    def feed(self, position: int) -> SimpleNamespace:
        self.fed.append(position)
        return SimpleNamespace(evaluated=np.ones(1, np.int64), created=0, removed=0, found=NO_MATCHES)


class AnyTwo(Shedder):
    """Drops two random waiting events when more than three wait."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator, self.waiting = np.random.default_rng(seed), []

    def admit(self, event, load):
        assert load.waiting == len(self.waiting) + 1
        self.waiting.append(event.position)
        if load.waiting <= 3:
            return ()
        dropped = self.generator.choice(self.waiting, 2, replace=False).tolist()
        self.waiting = [position for position in self.waiting if position not in dropped]
        return dropped

    def before(self, event, load, machine):
        assert event.position == self.waiting.pop(0)
        return bool(self.generator.random() < 0.9)


def server_of(shedder: Shedder, n: int, **prices) -> Server:
    free = dict.fromkeys(Prices().table(), 0.0)
    lane = Lane(OneSecond(), [0] * n, shedder)
    free |= prices
    return Server(
        [lane], [i % 2 for i in range(n)], [float(i) for i in range(n)], 2, clock=VirtualClock(), service=1.0,
        prices=Prices(**free), arrival_rate=1.0, event_bytes=8,
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_the_server_counts_every_event_once_at_every_step(seed):
    generator = np.random.default_rng(seed)
    server = server_of(AnyTwo(seed), 300, condition=1.0)
    admitted = 0
    while admitted < 300 or server.n_waiting:
        if admitted < 300 and (not server.n_waiting or generator.random() < 0.6):
            server.admit(admitted)
            admitted += 1
        else:
            server.serve()
        assert server.n_processed + server.n_dropped + server.n_waiting == admitted
        of_type = (server.processed_of_type, server.dropped_of_type, server.waiting_of_type)
        assert [sum(own) for own in of_type] == [server.n_processed, server.n_dropped, server.n_waiting]
        assert server.n_waiting <= 3
    assert server.lanes[0].machine.fed == sorted(set(range(300)) - set(server.dropped))


def test_work_takes_time_and_is_paid_once():
    class Charges(Shedder):
        def admit(self, event, load):
            self.charged["lookup"] += 2
            return ()

        def after(self, event, load, outcome):
            self.charged["update"] += 1

    server = server_of(Charges(), 10, condition=1.0, event=0.5, admit=0.25, lookup=0.125, update=4.0)
    server.admit(0)
    assert server.clock.now == 0.25 + 2 * 0.125
    server.serve()
    assert server.clock.now == 0.5 + 0.5 + 1.0 + 4.0
    assert server.shedding_seconds == 4.25


def test_a_strategy_cannot_drop_what_does_not_wait():
    class Odd(Shedder):
        def admit(self, event, load):
            return [event.position + 1]

    with pytest.raises(CepError, match=r"Odd\.admit dropped event 1, which does not wait"):
        server_of(Odd(), 10).admit(0)
