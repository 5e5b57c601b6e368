"""Streams with a latency bound: equal to `match` while nothing is dropped, and honest when something is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.shedding.live_learning import CallCosts
from cepkit.shedding.strategies.strategy import Shedder, Training
from tests.support.live_cases import (
    N_WARM,
    PEAKS,
    QUERY,
    SETTINGS,
    N,
    arrivals_of,
    capacity,
    frame_of,
    joined,
    opened,
    overloaded,
)
from tests.support.sizes import seeds


@pytest.mark.parametrize("rows", ["one", "all"])
@pytest.mark.parametrize("keys", [{}, {"partition_by": "k"}])
@pytest.mark.parametrize("shedding", ["none", "random", cep.Darling()])
def test_a_stream_that_drops_nothing_finds_the_matches_of_a_frame(rows, keys, shedding):
    frame = frame_of(1500, 1)
    stream = opened(frame, **keys, rows=rows, shedding=shedding)
    generator = np.random.default_rng(2)
    results, at = [], 0
    while at < len(frame):
        n = int(generator.integers(1, 200))
        results.append(stream.push(frame.iloc[at : at + n]))
        at += n
    results.append(stream.close())
    expected = cep.match(frame, QUERY, **SETTINGS, **keys).to_frame(rows=rows)
    assert len(expected) > 100
    pd.testing.assert_frame_equal(joined(results), expected.reset_index(drop=True), check_dtype=False)
    assert not joined(results).attrs
    assert repr(stream).endswith("; nothing was dropped")


@pytest.mark.parametrize(
    "query",
    [
        "PATTERN SEQ(a x, b+ y[], c z) WHERE y[i].v > y[i-1].v WITHIN 25",
        "PATTERN SEQ(a x, !b y, c z) WHERE y.v > x.v WITHIN 40",
        "PATTERN SEQ(a x, c z, !b y) WHERE y.v > x.v WITHIN 12",
        "PATTERN SEQ(a x, b y) WHERE x.v < y.v WITHIN 20 events",
    ],
)
def test_other_patterns_find_the_same_matches(query):
    frame = frame_of(700, 3)
    stream = opened(frame, query, warm_up=200)
    results = [stream.push(frame.iloc[at : at + 53]) for at in range(0, len(frame), 53)]
    results.append(stream.close())
    expected = cep.match(frame, query, **SETTINGS).to_frame()
    assert len(expected)
    order = list(expected.columns)
    found = joined(results)
    pd.testing.assert_frame_equal(
        found.sort_values(order, ignore_index=True),
        expected.sort_values(order, ignore_index=True), check_dtype=False,
    )  # fmt: skip


def test_texts_keep_their_codes_from_batch_to_batch():
    frame = frame_of(900, 4)
    generator = np.random.default_rng(4)
    frame["place"] = [f"p{i}" for i in generator.integers(0, 1 + np.arange(len(frame)) // 30)]
    query = "PATTERN SEQ(a x, b y) WHERE x.place = y.place WITHIN 60"
    stream = opened(frame, query, warm_up=300)
    results = [stream.push(frame.iloc[at : at + 70]) for at in range(0, len(frame), 70)]
    found = joined([*results, stream.close()])
    expected = cep.match(frame, query, **SETTINGS).to_frame().reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_without_a_bound_the_stream_is_the_usual_one():
    stream = cep.stream(QUERY, frame_of(10, 5), **SETTINGS)
    assert type(stream) is cep.Stream
    assert not hasattr(stream, "shedding")


# --- under overload


def test_darling_keeps_the_bound_and_finds_more_than_random_drops():
    frame = frame_of(N, 6).assign(ts=2 * np.arange(N))  # without ties, times name the matches
    stream, driven, arrivals = overloaded(frame, cep.Darling(split="rate", drift=False))
    found = joined([*driven.results, stream.close()])
    report = stream.shedding
    assert report.n_dropped > 300
    assert report.within_bound >= 0.99
    assert report.max_latency <= 1.2 * report.latency_bound
    truth = cep.match(frame, QUERY, **SETTINGS).to_frame()
    keys = [tuple(row) for row in found.itertuples(index=False)]
    known = {tuple(row) for row in truth.itertuples(index=False)}
    assert len(set(keys)) == len(keys)
    assert set(keys) <= known
    after = truth[truth["z_ts"] > frame["ts"].iloc[N_WARM]]
    lost = len(truth) - len(found)
    assert report.recall == pytest.approx(1 - lost / len(after), abs=0.15)

    other, of_random, _ = overloaded(frame, "random_input")
    at_random = joined([*of_random.results, other.close()])
    assert other.shedding.n_dropped > 300
    assert len(found) > len(at_random)

    bounds = [(arrivals[int(a * N)], arrivals[int(b * N) - 1]) for a, b in PEAKS]
    slack = 2 * report.latency_bound
    assert all(any(a <= time <= b + slack for a, b in bounds) for time, _ in driven.drops)


def test_every_event_is_counted_once():
    frame = frame_of(N, 7)
    stream, driven, _ = overloaded(frame, "random_input")
    report = stream.shedding
    total = np.sum(
        [list(of.values()) for of in (report.kept, report.dropped, report.waiting_of_type)], axis=0
    )
    assert dict(zip(report.kept, total.tolist(), strict=True)) == {
        name: int((frame["kind"] == name).sum()) for name in "abc"
    }
    assert report.other_events == (frame["kind"] == "d").sum()
    table = report.to_frame()
    assert table["dropped"].sum() == report.n_dropped == sum(n for _, n in driven.drops)
    assert table["share_dropped"].between(0, 1).all()


def test_nothing_is_dropped_in_the_warm_up():
    frame = frame_of(3000, 8)
    stream = opened(frame, shedding="random_input", latency_bound=1e-5, warm_up=5000)
    stream.push(frame)
    stream.flush()
    report = stream.shedding
    assert report.n_dropped == 0
    assert report.warm_up_left == 5000 - (frame["kind"] != "d").sum()
    assert "nothing is dropped before" in repr(report)


def test_the_warm_up_waits_for_every_type():
    frame = frame_of(1200, 9)
    frame.loc[:600, "kind"] = frame.loc[:600, "kind"].replace("c", "a")
    stream = opened(frame, warm_up=200)
    stream.push(frame.iloc[:600])
    assert stream.shedding.warm_up_left == 1
    stream.push(frame.iloc[600:])
    assert stream.shedding.warm_up_left == 0


def test_results_say_what_was_dropped():
    frame = frame_of(N, 10)
    stream, driven, _ = overloaded(frame, "random_input")
    said = stream.shedding.losses
    assert "events were dropped" in said
    assert driven.results[0].attrs == {}
    assert repr(stream).endswith(said)
    assert said in str(stream.explain())
    assert said in repr(stream.shedding)
    assert stream.push(pa.Table.from_pandas(frame.iloc[:0])).schema.metadata[b"shedding"].decode() == said
    stream.push(frame.iloc[:0])
    assert stream.close().attrs["shedding"] == said


def test_push_works_for_its_slice_only_and_pump_goes_on():
    frame = frame_of(2000, 11)
    z = capacity(frame)
    stream = opened(frame, shedding="none", latency_bound=1000 * z, time_slice=100 * z)
    stream.push(frame)
    waiting = stream.shedding.waiting
    assert 1000 < waiting < 2000
    assert stream.shedding.backlog_seconds > 0
    stream.pump(50 * z)
    assert 0 < stream.shedding.waiting < waiting
    before = stream.matches
    assert len(stream.flush()) == stream.matches - before
    assert stream.shedding.waiting == 0
    assert stream.matches == cep.match(frame, QUERY, **SETTINGS).count()


def test_positions_are_those_of_the_stream():
    stream = cep.stream(
        "PATTERN SEQ(a x) WITHIN 1 events", {"kind": "string"}, event_type="kind", latency_bound=9
    )
    batch = [{"kind": "b"}, {"kind": "a"}]
    assert [stream.push(batch) for _ in range(3)] == [[{"x_position": at}] for at in (1, 3, 5)]


def test_rows_that_no_match_needs_are_forgotten():
    frame = frame_of(20_000, 12)
    stream = opened(frame, shedding=cep.Darling(drift=False))
    most = 0
    for at in range(0, len(frame), 100):
        stream.push(frame.iloc[at : at + 100])
        most = max(most, stream._search.n_retained)
    assert most < 6000


def test_limits_follow_the_seconds_of_events():
    frame = frame_of(4000, 13)
    stream = opened(frame, shedding=cep.Darling(drift=False))
    stream.push(frame.iloc[:2000])
    stream.flush()
    before = stream.shedding.details["n_in"]
    search = stream._search
    assert not len(search.shedder.adapt([10 * seconds for seconds in search._told], 0.0))
    assert stream.shedding.details["n_in"] == pytest.approx(before / 10, rel=0.5)


@pytest.mark.parametrize("n", [1, 10, 100, 1000])
def test_the_fixed_cost_of_a_call_is_not_the_cost_of_its_events(n):
    costs = CallCosts([1e-4])
    for k in range(40):
        costs.call(n + k % 3, k % 5, 0.002 + 2e-5 * (n + k % 3), 0.01 + 0.001 * (k % 5), 0.001)
    (seconds,) = costs.passing(0.03, 0.0)
    assert seconds == pytest.approx(1.1e-4, rel=0.02)
    costs.call(n, 3, 1.0, 0.02, 1.0)  # a pause of the machine
    assert costs.passing(0.03, 0.0) == pytest.approx([seconds], rel=0.02)


def test_calls_take_the_time_to_read_what_arrives_and_to_return_what_they_find():
    costs = CallCosts([1e-4])
    for k in range(40):
        serving, n_found = 0.01 + 0.001 * (k % 5), 1000 * (10 + k % 5)
        costs.call(100 * (k % 7), n_found, 0.002 + 1e-5 * 100 * (k % 7), serving, 0.001 + 5e-7 * n_found)
    whole, after = costs.of_slice(0.02, 50_000.0)
    assert after == pytest.approx(0.001 + 5e-7 * 1e6 * 0.02)
    assert whole == pytest.approx((0.002 + 0.02 + after) / (1.0 - 0.5))
    assert costs.passing(0.02, 50_000.0) == pytest.approx([1e-4 * whole / 0.02])


def busy(frame, shedding, n_push: int, fixed: float, bound: float, factor: float = 6.0):
    """Drive a stream whose calls take some time beside their events, by a producer that pushes in turn."""
    stream = opened(frame, shedding=shedding, latency_bound=bound, warm_up=N_WARM)
    clock, z = stream._clock, capacity(frame)
    arrivals = arrivals_of(len(frame), 2 * (z + fixed / n_push), factor)
    results, at = [], 0
    while at < len(frame) or stream.shedding.waiting:
        due = int(np.searchsorted(arrivals, clock.now, side="right"))
        if due > at:
            search = stream._search
            advance = search.advance

            def slow(*given, advance=advance):
                clock.spend(fixed)
                return advance(*given)

            search.advance = slow
            results.append(stream.push(frame.iloc[at:due]))
            search.advance, at = advance, due
        elif stream.shedding.waiting:
            results.append(stream.pump())
        else:
            clock.wait_until(arrivals[at])
    results.append(stream.close())
    return stream, joined(results)


@pytest.mark.parametrize(("n_push", "seed"), [(10, 0), (100, 1)])
def test_nothing_is_dropped_where_not_shedding_meets_the_bound(n_push, seed):
    """Each call has a fixed cost. Small batches make it large for each of their events."""
    frame = frame_of(2500, 20 + seed)
    fixed = 30 * capacity(frame)
    plain, every = busy(frame, "none", n_push, fixed, 1000.0)
    bound = plain.shedding.max_latency
    while plain.shedding.max_latency > 0.85 * bound:  # the slices of a stream grow with its bound
        bound *= 1.3
        plain, every = busy(frame, "none", n_push, fixed, bound)
    stream, found = busy(frame, None, n_push, fixed, bound)
    assert stream.shedding.n_dropped == 0 and len(found) == len(every)
    stream, _ = busy(frame, None, n_push, fixed, 0.4 * bound)
    assert stream.shedding.n_dropped > 0


def test_latency_counts_from_the_offer_of_an_event():
    """While a call takes its time, the producer waits with the next events."""
    frame = frame_of(3000, 21)
    stream = opened(frame, shedding="none", latency_bound=100.0, time_slice=100.0)
    stream.push(frame.iloc[:2000])
    search = stream._search
    took = search._called_until - search._called_at
    stream.push(frame.iloc[2000:2004])
    offers = search._kept.offer_of(np.arange(2000, 2004))
    assert took > 0 and np.diff(offers).tolist() == pytest.approx([took / 4] * 3)
    assert offers[-1] == pytest.approx(search._called_at)
    stream._clock.wait_until(stream._clock.now + 10 * took)
    stream.push(frame.iloc[2004:2008])
    assert search._kept.offer_of(np.arange(2004, 2008)).tolist() == [search._called_at] * 4


def test_a_bound_below_the_time_of_an_event_is_named():
    frame = frame_of(2000, 22)
    with pytest.warns(UserWarning, match=r"an event takes up to .* more than latency_bound"):
        stream = opened(frame, latency_bound=capacity(frame) / 10)
        stream.push(frame)
        stream.flush()


@pytest.mark.parametrize("shedding", ["random_input", None, cep.Darling(tie="authors", drift=False)])
def test_estimated_recall_is_near_the_true_one(shedding):
    frame = frame_of(N, 30)
    stream, driven, _ = overloaded(frame, shedding)
    found = joined([*driven.results, stream.close()])
    truth = cep.match(frame, QUERY, **SETTINGS).to_frame()
    report = stream.shedding
    lost = len(truth) - len(found)
    recall = report.matches / (report.matches + lost)
    assert report.n_dropped > 300 and 0.1 < recall < 0.98
    assert report.recall == pytest.approx(recall, rel=0.2)


# --- a strategy of one's own, and mistakes


@dataclass(frozen=True)
class KeepHalf:
    """Drops every second event of a long queue."""

    name: ClassVar[str] = "keep_half"

    def begin(self, training: Training) -> Shedder:
        return _KeepHalf()


class _KeepHalf(Shedder):
    def admit(self, event, load):
        return [event.position] if load.waiting > 100 and event.position % 2 else []


def test_a_strategy_of_ones_own_runs_and_is_given_again_after_a_restart(tmp_path):
    frame = frame_of(N, 14)
    stream, _, _ = overloaded(frame, KeepHalf())
    assert stream.shedding.n_dropped
    stream.save(tmp_path / "state")
    with pytest.raises(CepError, match=r"shedding=KeepHalf\(…\)"):
        cep.stream.load(tmp_path / "state")
    again = cep.stream.load(tmp_path / "state", shedding=KeepHalf(), clock=cep.shedding.VirtualClock())
    assert again.shedding.dropped == stream.shedding.dropped


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"latency_bound": 0}, "latency_bound=0: expected a duration above 0"),
        ({"latency_bound": "1 parsec"}, "latency_bound='1 parsec'"),
        (
            {"latency_bound": None, "shedding": "random", "warm_up": None, "clock": None},
            "needs a latency bound",
        ),
        ({"shedding": "randon"}, "Did you mean 'random'"),
        ({"shedding": cep.Darling}, "is a class"),
        ({"warm_up": 0}, "warm_up"),
        ({"weights": {"a": -1}}, "weights: -1 of 'a' is no weight"),
        ({"weights": {"q": 1}}, "no pattern has the event type 'q'"),
        ({"weights": [1.0]}, "a stream has one query"),
        ({"time_slice": "20 s"}, "longer than the latency bound"),
        ({"seed": -1}, "seed"),
        ({"clock": 3}, "clock=3"),
    ],
)
def test_mistakes_raise_before_work_starts(given, message):
    with pytest.raises(CepError, match=message.replace("(", r"\(")):
        opened(frame_of(10, 15), **given)


def test_other_queries_are_refused():
    with pytest.raises(UnsupportedQueryError, match="event sequences only"):
        cep.stream("up", {"x": "int64"}, define={"up": "x > 1"}, latency_bound="1 s")
    with pytest.raises(UnsupportedQueryError, match="after_match"):
        opened(frame_of(10, 16), after_match="past_last")
    with pytest.raises(UnsupportedQueryError, match="threads"):
        opened(frame_of(10, 16), threads=2)


def test_the_clock_of_the_machine_measures_latencies():
    frame = frame_of(1500, 17)
    stream = opened(frame, clock=None, warm_up=300, latency_bound="60 s", shedding=cep.Darling())
    for at in range(0, len(frame), 100):
        stream.push(frame.iloc[at : at + 100])
    stream.close()
    report = stream.shedding
    assert report.n_dropped == 0
    assert 0 < report.mean_latency <= report.max_latency < 60
    assert report.drift is not None


# --- blocks of events by the clock of the machine


class DropsSome(Shedder):
    """Drops a third of the events when they arrive, and a fifth of the others when they leave the buffers."""

    def __init__(self):
        super().__init__()
        self.gone: list[int] = []

    def admit_many(self, types, positions, arrivals, load):
        gone = positions[positions % 3 == 0]
        self.gone += gone.tolist()
        return gone

    def before_many(self, types, positions, arrivals, load, machine):
        self.gone += positions[positions % 5 == 1].tolist()
        return positions % 5 != 1


@dataclass(frozen=True)
class DropSome:
    """A strategy that decides for blocks of events."""

    name: ClassVar[str] = "drop_some"

    def begin(self, training: Training) -> Shedder:
        """Return a shedder."""
        return DropsSome()


BLOCK_QUERIES = (
    QUERY,
    "PATTERN SEQ(a x, b+ y[], c z) WHERE y[i].v > y[i-1].v + 0.3 WITHIN 25",
    "PATTERN SEQ(a x, c z) WHERE x.v < z.v WITHIN 20 events",
    "PATTERN AND(a x, b y) WHERE x.v < y.v WITHIN 10",
)


@pytest.mark.parametrize("query", BLOCK_QUERIES)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_blocks_of_events_find_the_matches_of_the_kept_events(seed, query):
    frame = frame_of(2500, 100 + seed)
    stream = opened(frame, query, clock=None, warm_up=300, latency_bound=3600.0, shedding=DropSome())
    generator, results, at = np.random.default_rng(seed), [], 0
    while at < len(frame):
        n = int(generator.integers(1, 700))
        results.append(stream.push(frame.iloc[at : at + n]))
        at += n
    results.append(stream.close())
    kinds = frame["kind"].to_numpy(object)
    kinds[stream._search.shedder.gone] = "d"
    expected = cep.match(frame.assign(kind=kinds), query, **SETTINGS).to_frame()
    order, found = list(expected.columns), joined(results)
    assert len(expected) and stream.shedding.n_dropped > 100
    pd.testing.assert_frame_equal(
        found.sort_values(order, ignore_index=True), expected.sort_values(order, ignore_index=True),
        check_dtype=False,
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [lambda positions: positions[[0, 0]], lambda positions: positions[-1:] + 1])
def test_a_live_strategy_drops_each_event_that_waits_once(wrong):
    class Odd(Shedder):
        def admit_many(self, types, positions, arrivals, load):
            return wrong(positions)

    @dataclass(frozen=True)
    class Named:
        name: ClassVar[str] = "odd"

        def begin(self, training):
            return Odd()

    frame = frame_of(1500, 40)
    stream = opened(frame, clock=None, warm_up=300, shedding=Named())
    with pytest.raises(CepError, match=r"Odd\.admit dropped event \d+, which does not wait"):
        stream.push(frame)
        stream.push(frame.iloc[-1:])


def test_events_that_are_late_after_a_pause_stay_when_they_are_soon_served():
    frame = frame_of(2500, 41)
    stream = opened(frame, clock=None, warm_up=300, latency_bound=0.1)
    stream.push(frame)
    stream.flush()
    shedder, positions = stream._search.shedder, np.arange(2500, 2600)
    shedder.adapt([1e-4] * 3, 0.0)
    for n_waiting, n_late in ((700, 0), (900, 80)):
        load = replace(stream._search._server.load, clock=10.0, waiting=n_waiting)
        waited = np.where(np.arange(100) < 80, 0.2, 0.001)
        late = shedder.late(np.zeros(100, np.int64), positions, 10.0 - waited, load)
        assert late.tolist() == positions[:n_late].tolist()
