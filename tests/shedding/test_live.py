"""Streams with a latency bound: equal to `match` while nothing is dropped, and honest when something is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.shedding.strategies.strategy import Shedder, Training
from tests.support.live_cases import (
    N_WARM,
    PEAKS,
    QUERY,
    SETTINGS,
    N,
    capacity,
    frame_of,
    joined,
    opened,
    overloaded,
)


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
    stream, driven, arrivals = overloaded(frame, cep.Darling(split="darling_scaled", drift=False))
    found = joined([*driven.results, stream.close()])
    report = stream.shedding
    assert report.n_dropped > 500
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
    assert other.shedding.n_dropped > 500
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
        most = max(most, stream.retained)
    assert most < 6000


def test_limits_follow_the_service_time():
    frame = frame_of(4000, 13)
    stream = opened(frame, shedding=cep.Darling(drift=False))
    stream.push(frame.iloc[:2000])
    stream.flush()
    before = stream.shedding.details["n_in"]
    shedder = stream._search.shedder
    assert shedder.adapt(10 * stream._search._service_of_limits) == []
    assert stream.shedding.details["n_in"] == pytest.approx(before / 10, rel=0.5)


@pytest.mark.parametrize("is_saved", [False, True])
def test_drift_keeps_the_service_time_of_the_stream(tmp_path, is_saved):
    """The server knows the time of the tree alone; the stream tells the time of all work for an event."""
    frame = frame_of(4000, 15)
    stream = opened(frame, shedding=cep.Darling())
    stream.push(frame.iloc[:2000])
    stream.flush()
    stream._search.shedder.adapt(10 * stream._search._service_of_limits)
    room = stream.shedding.details["n_in"]
    if is_saved:
        stream.save(tmp_path / "state")
        stream = cep.stream.load(tmp_path / "state", clock=cep.shedding.VirtualClock())
    stream._search._adapt = lambda: None
    stream.push(frame.iloc[2000:])
    stream._search.shedder._recompute()
    assert stream.shedding.details["n_in"] == room


@pytest.mark.parametrize("is_saved", [False, True])
def test_limits_remember_the_service_time_under_load(tmp_path, is_saved):
    """In a peak an event costs more than on average; the room for waiting events is that of the last peak."""
    n, peak = 4000, slice(2000, 3000)
    frame = frame_of(n, 16)
    gaps = np.random.default_rng(16).integers(0, 9, n)
    gaps[peak] //= 4  # the window has four times the events
    frame["ts"] = np.cumsum(gaps)
    bound = 300 * capacity(frame)
    stream = opened(frame, shedding=cep.Darling(drift=False), latency_bound=bound)
    for at in range(0, peak.start, 5):  # none waits for long
        stream.push(frame.iloc[at : at + 5])
        stream.flush()
    quiet, room = stream.shedding.service, stream.shedding.details["n_in"]
    stream.push(frame.iloc[peak])
    while stream.shedding.waiting:
        stream.pump()
    if is_saved:
        stream.save(tmp_path / "state")
        stream = cep.stream.load(tmp_path / "state", clock=cep.shedding.VirtualClock())
    for at in range(peak.stop, n, 5):
        stream.push(frame.iloc[at : at + 5])
        stream.flush()
    assert stream.shedding.service == pytest.approx(quiet, rel=0.5)
    assert stream.shedding.details["n_in"] < 0.6 * room


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
    stream = opened(frame, clock=None, warm_up=300, latency_bound="60 s")
    for at in range(0, len(frame), 100):
        stream.push(frame.iloc[at : at + 100])
    stream.close()
    report = stream.shedding
    assert report.n_dropped == 0
    assert 0 < report.mean_latency <= report.max_latency < 60
    assert report.drift is not None
