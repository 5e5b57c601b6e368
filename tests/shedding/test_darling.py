"""DARLING in replays: its bounds hold at every step, its model predicts what replays measure, restarts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.frames.pandas import PandasSource
from cepkit.planning.queries import Arguments, as_query
from cepkit.shedding.buffers import SPLITS, drain_time
from cepkit.shedding.model import (
    AS_KILLER,
    AS_PRINTED,
    DriftWatch,
    PatternUtilities,
    StreamColumns,
    samples_of_warm_up,
)
from cepkit.shedding.scene import Scene, _warm_up, check_settings, make_scene
from cepkit.shedding.strategies.darling import TIES, Darling, DarlingShedder
from cepkit.shedding.strategies.strategy import Event, Load
from cepkit.shedding.tree_program import TreeProgram
from tests.support.sizes import seeds

SETTINGS = {"event_type": "kind", "order_by": "ts"}
QUERY = "PATTERN SEQ(a x, b y, c z) WHERE y.v > x.v AND z.v > y.v * 1.2 WITHIN 40"
KLEENE = "PATTERN SEQ(a x, b+ y[], c z) WHERE y[i].v > x.v AND z.v > 0.3 WITHIN 8"
NEGATION = "PATTERN SEQ(a x, ~(b y), c z) WHERE y.v > 0.6 AND y.v > x.v AND z.v > x.v WITHIN 30"
UNORDERED = "PATTERN AND(a x, b y, c z) WHERE y.v > x.v AND z.v > y.v WITHIN 12"
UNTESTED = "PATTERN SEQ(a x, b y, c z) WITHIN 10"
QUERIES = {"sequence": QUERY, "kleene": KLEENE, "negation": NEGATION, "unordered": UNORDERED}
TYPES = "abc"
IDLE = Load(0.0, 1, 0.0, 100.0, 1e-4, 0.0, 0)


def frame_of(n: int, seed: int, types: str = "abcd") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ts = np.cumsum(rng.integers(0, 3, n))
    share = rng.dirichlet(np.full(len(types), 8.0))
    return pd.DataFrame({"kind": rng.choice(list(types), n, p=share), "ts": ts, "v": rng.random(n)})


def replay(frame, query=QUERY, **given):
    return cep.replay(frame, query, **{"latency_bound": 5e-3, **SETTINGS, **given})


def scene_of(frame, query=QUERY, **given) -> Scene:
    queries = query if isinstance(query, list) else [query]
    read = [as_query(one, Arguments(**SETTINGS)) for one in queries]
    given = {"latency_bound": 5e-3, "shedding": Darling(drift=False), **given}
    return make_scene(check_settings(read, **given), PandasSource(frame))


def training_of(frame, query=QUERY, **given):
    """Return the training of a warm-up over half of the events, with rates of 1,000 events per second."""
    scene = scene_of(frame, query, warm_up=len(frame) // 2, **given)
    trained = [_warm_up(scene, p, 0).training for p in range(len(scene.trees))]
    trained = [replace(one, rates=one.rates / one.rates.sum() * 1000) for one in trained]
    return replace(trained[0], others=tuple(trained[1:])), scene


# --- the conditions of a tree and their terms


@pytest.mark.parametrize("name", QUERIES)
def test_terms_read_the_leaves_of_their_conditions(name):
    (tree,) = scene_of(frame_of(400, 0, TYPES), QUERIES[name]).trees
    for condition in tree.conditions:
        assert {leaf for leaf, _ in condition.bound.roles} == set(condition.leaves)


def test_types_are_those_of_the_machine():
    scene = scene_of(frame_of(400, 0))
    stream = StreamColumns(scene.trees[0], scene.events[0])
    assert stream.type_of_event.tolist() == scene.own_types[0].tolist()


# --- the bound on waiting events, at every step


@dataclass(frozen=True)
class Watched(Darling):
    """Darling that checks the number of waiting events after every arrival."""

    def begin(self, training):
        return WatchedShedder(self, training)


class WatchedShedder(DarlingShedder):
    n_full = 0

    def admit(self, event, load):
        dropped = super().admit(event, load)
        waiting = load.waiting - len(dropped)
        assert waiting == sum(self._buffers.size(number) for number in range(len(self._types)))
        assert waiting <= self._settings.beta * self.n_in + len(self._types)
        assert waiting <= self.limit or waiting <= sum(self.limits.values())
        self.n_full += bool(dropped)
        return dropped

    def report(self):
        return {**super().report(), "n_full": self.n_full}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", seeds(3, 6))
def test_waiting_events_stay_within_the_bound_at_every_step(split, seed):
    name = list(QUERIES)[seed % len(QUERIES)]
    strategy = Watched(split=split, drift=bool(seed % 2), tie=TIES[seed % 3])
    factor = float(np.random.default_rng(seed).choice([3.0, 30.0, 1000.0]))
    arrivals = cep.shedding.PeakArrivals(factor=factor)
    frame = frame_of(1500, seed)
    result = replay(frame, QUERIES[name], shedding=strategy, arrivals=arrivals, latency_bound=3e-4)
    assert result.n_dropped > 0 and result.report()["n_full"] > 0


# --- draining


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(3))
def test_full_buffers_drain_in_the_time_of_the_formula(split, seed):
    # One millisecond per condition, and nothing else costs. A type has a cost of 1 or 3 conditions.
    frame = frame_of(3000, seed, "ab").assign(v=0.5)
    query = "PATTERN SEQ(a x, b y) WHERE x.v > 1 AND y.v < 1 AND y.v > 0 AND y.v > 2 WITHIN 10"
    prices = cep.shedding.Prices(**{**dict.fromkeys(cep.shedding.Prices().table(), 0.0), "condition": 1e-3})
    n_warm, burst = 1000, 100.0
    arrivals = np.where(np.arange(3000) < n_warm, np.arange(3000) * 0.01, burst)
    result = replay(
        frame, query, latency_bound=0.5, shedding=Darling(split=split, drift=False), costs=prices,
        arrivals=arrivals, warm_up=n_warm,
    )  # fmt: skip
    types = result.report()["types"]
    limits = {name: of["limit"] for name, of in types.items()}
    assert {name: of["cost"] for name, of in types.items()} == pytest.approx({"a": 1e-3, "b": 3e-3})
    # The first event is processed when it arrives, before the others of the burst.
    kept = {name: n - (name == frame["kind"][n_warm]) for name, n in result.kept.items()}
    drained = result.run.seconds - burst
    first = types[frame["kind"][n_warm]]["cost"]
    assert drained == pytest.approx(drain_time(kept, {"a": 1e-3, "b": 3e-3}) + first)
    if split != "darling":
        assert drained <= 0.8 * 0.5 + first + 4e-3
    assert abs(sum(kept.values()) - sum(limits.values())) <= 1
    assert drained == pytest.approx(drain_time(limits, {"a": 1e-3, "b": 3e-3}), abs=4e-3)


# --- nothing to do while nothing is full


@pytest.mark.parametrize("drift", [False, True])
def test_armed_and_idle_computes_no_utility(drift):
    frame = frame_of(3000, 4, TYPES)
    result = replay(frame, shedding=Darling(drift=drift), latency_bound=1.0)
    plain = replay(frame)
    assert (result.n_dropped, result.report()["utilities"]) == (0, 0)
    pd.testing.assert_frame_equal(result.matches.to_frame(), plain.matches.to_frame())
    assert result.run.shedding_seconds <= 0.05 * result.run.seconds
    if not drift:
        assert result.run.shedding_seconds == 0.0


# --- utilities


def utilities_of(frame, query, negation=AS_PRINTED, reading="kills_if"):
    scene = scene_of(frame, query)
    program = TreeProgram.of(scene.programs[0], negation=reading)
    stream = StreamColumns(program, scene.events[0])
    samples = samples_of_warm_up(stream, len(frame))
    made = PatternUtilities(program, samples, stream.known, negation=negation, size=1000)
    columns = stream.take(slice(None))

    def of(name):
        return made.of(program.types.index(name), columns, len(frame))

    return made, of, samples, program


@pytest.mark.parametrize("seed", range(3))
def test_utility_is_equation_11(seed):
    frame = frame_of(900, seed, TYPES)
    made, of, _, _ = utilities_of(frame, QUERY)
    first, second, third = (frame.v[frame.kind == name].to_numpy() for name in TYPES)
    shares = (
        lambda v: (second > v).mean(),
        lambda v: (first < v).mean() * (third > 1.2 * v).mean(),
        lambda v: (1.2 * second < v).mean(),
    )  # of the other events with which an event meets its conditions
    for name, share in zip(TYPES, shares, strict=True):
        expected = [share(v) for v in frame.v]
        assert of(name).tolist() == pytest.approx(expected, abs=0.01)  # 1,000 items stand for about 300
    assert [made.n_conditions(i) for i in range(3)] == [1, 2, 1]


def test_event_that_fails_alone_has_no_utility():
    frame = frame_of(600, 1, TYPES)
    _, of, _, _ = utilities_of(frame, "PATTERN SEQ(a x, b y) WHERE x.v > 0.5 AND x.v < y.v")
    assert ((of("a") == 0) == (frame.v <= 0.5)).all() or (of("a")[frame.v <= 0.5] == 0).all()
    assert (of("a")[frame.v.between(0.51, 0.9)] > 0).all()


def test_negated_events_in_both_readings():
    frame = frame_of(800, 3, TYPES)
    printed = utilities_of(frame, NEGATION)[1]("b")
    assert (printed[frame.v <= 0.6] == 0).all() and printed[frame.v > 0.9].min() > 0.7  # likely to kill
    same = utilities_of(frame, NEGATION, AS_KILLER)[1]("b")
    assert same.tolist() == printed.tolist()
    allowed = utilities_of(frame, NEGATION, AS_KILLER, "allowed_if")[1]("b")
    assert allowed.tolist() == pytest.approx((1 - printed).tolist())
    assert utilities_of(frame, NEGATION, AS_PRINTED, "allowed_if")[1]("b").tolist() == printed.tolist()


def test_events_of_a_closure_have_the_probability_of_each():
    frame = frame_of(800, 3, TYPES)
    _, of, _, _ = utilities_of(frame, KLEENE)
    x = np.sort(frame.v[frame.kind == "a"])
    assert of("b").tolist() == pytest.approx((np.searchsorted(x, frame.v) / len(x)).tolist(), abs=0.01)


# --- several patterns


def test_patterns_share_utilities_and_weights():
    frame = frame_of(2000, 5, "abcd")
    queries = [QUERY, "PATTERN SEQ(d x, b y) WHERE y.v < x.v WITHIN 10"]
    training, _ = training_of(frame, queries)
    positions = np.flatnonzero(frame.kind == "b")[:50].tolist()
    number = training.types.index("b")
    both = Darling(drift=False).begin(training).worth_of(number, np.array(positions))
    of_each = [
        Darling(drift=False).begin(one).worth_of(one.types.index("b"), np.array(positions))
        for one in (replace(training, others=()), training.others[0])
    ]
    assert both.tolist() == np.max(of_each, axis=0).tolist()
    heavy = replace(training, others=(replace(training.others[0], weight=5.0),))
    plain, weighted = (Darling(drift=False).begin(one).limits for one in (training, heavy))
    assert weighted["d"] > plain["d"] and weighted["a"] < plain["a"]
    by_type = Darling(drift=False).begin(replace(training, weight_of_type={"a": 9.0})).limits
    assert by_type["a"] > plain["a"]


def test_replay_of_several_patterns_keeps_the_bound():
    frame = frame_of(2000, 6, "abcd")
    queries = [QUERY, "PATTERN SEQ(d x, b y) WHERE y.v < x.v WITHIN 10"]
    result = replay(
        frame, queries, shedding=Watched(drift=False), latency_bound=5e-4,
        arrivals=cep.shedding.PeakArrivals(), weights=[1, 2],
    )  # fmt: skip
    assert result.n_dropped > 0 and result.precision == 1.0


# --- negation


@pytest.mark.parametrize("seed", range(3))
def test_precision_under_negation_is_reported(seed):
    frame = frame_of(3000, seed, TYPES)
    arrivals = cep.shedding.PeakArrivals(factor=20)
    result = replay(frame, NEGATION, shedding=Darling(drift=False), arrivals=arrivals, latency_bound=2e-3)
    assert result.n_dropped > 0
    assert 0 < result.precision < 1  # a negated event that is dropped makes false matches
    assert "precision" in repr(result)


# --- drift


def test_drift_makes_everything_new():
    frame = frame_of(12000, 7, TYPES)
    late = np.arange(12000) > 6000
    frame.loc[late, "v"] = frame.v[late] * 0.3
    training, scene = training_of(frame, latency_bound=1.0)
    training = replace(training, n_events=4000)
    shedder = Darling().begin(training)
    before = shedder._patterns[0].samples
    for at in range(4000, 12000):
        event = Event(at, int(scene.type_of_event[at]), at / 1000)
        shedder.admit(event, IDLE)
        shedder.before(event, IDLE, None)
        shedder.rest(1e-3)
    after = shedder._patterns[0].samples
    assert 1 <= shedder.n_recomputed <= 8
    assert before[0]["v"].mean() > 0.4 and after[0]["v"].mean() < 0.2
    assert shedder.report()["drift"]["recomputed"] == shedder.n_recomputed


def test_drift_of_rates_changes_the_limits():
    rng = np.random.default_rng(1)
    kinds = np.concatenate([rng.choice(list(TYPES), 6000), rng.choice(list(TYPES), 6000, p=[0.8, 0.1, 0.1])])
    frame = pd.DataFrame({"kind": kinds, "ts": np.arange(12000), "v": rng.random(12000)})
    training, scene = training_of(frame)
    training = replace(training, n_events=6000)
    shedder = Darling(split="rate").begin(training)
    before = dict(shedder.limits)
    for at in range(6000, 12000):
        event = Event(at, int(scene.type_of_event[at]), at / 1000)
        shedder.admit(event, IDLE)
        shedder.before(event, IDLE, None)
        shedder.rest(1e-3)
    assert shedder.n_recomputed >= 1
    assert shedder.limits["a"] / sum(shedder.limits.values()) == pytest.approx(0.8, abs=0.05)
    assert before["a"] / sum(before.values()) == pytest.approx(1 / 3, abs=0.05)


def test_everything_is_computed_again_in_idle_time_only():
    training, scene = training_of(frame_of(4000, 7, TYPES), latency_bound=2e-3)
    shedder = Darling().begin(training)
    shedder._watch.alarms["rate of type 0"] = 0.0
    for at in range(2000, 2400):
        event = Event(at, int(scene.type_of_event[at]), at / 1000)
        shedder.admit(event, IDLE)
        shedder.before(event, IDLE, None)
    needed = shedder._seconds_to_renew()
    shedder.rest(0.6 * needed)
    assert shedder.n_recomputed == 0
    charged = dict(shedder.charged)
    shedder.rest(0.6 * needed)
    assert shedder.n_recomputed == 1 and shedder.charged == charged


def noises(seeds: range, correlation: float) -> np.ndarray:
    """Return two series of noise for each seed, in which values follow each other by a correlation."""
    noise = np.stack([np.random.default_rng(seed).standard_normal((2, 24_000)) for seed in seeds])
    for at in range(1, noise.shape[2] if correlation else 0):
        noise[..., at] += correlation * noise[..., at - 1]
    return noise * np.sqrt(1 - correlation**2)


def watched(noise: np.ndarray, moved: float = 0.0) -> DriftWatch:
    """Return a detector after 20,000 events, whose gaps and values are those of two series of noise."""
    n = noise.shape[1]
    gaps, values = np.exp(0.7 * noise[0]), noise[1] + moved * (np.arange(n) > 12_000)
    watch = DriftWatch(
        {0: gaps[3000:4000]}, {0: {"v": values[:4000:4]}}, lambda number, rows: {"v": values[rows]}
    )
    times = np.cumsum(gaps)
    watch.see(0, list(range(4000, n)), times[4000:].tolist())
    assert watch.n_tests == 40
    return watch


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_false_alarms_are_rare(correlation):
    """At most one of 100 stationary streams, and of 100 whose events resemble those before, has an alarm."""
    assert sum(bool(watched(noise).alarms) for noise in noises(range(100), correlation)) <= 1


@pytest.mark.parametrize(("correlation", "moved"), [(0.0, 0.5), (0.9, 2.5)])
def test_drift_is_found(correlation, moved):
    assert all("v of type 0" in watched(noise, moved).alarms for noise in noises(range(10), correlation))


# --- ties


def test_ties_of_the_authors_keep_stretches_of_the_stream():
    """Early types lose the new event; late types lose the newest event that waited before it."""
    training, scene = training_of(frame_of(4000, 8, TYPES).assign(v=0.5), UNTESTED, latency_bound=1e-3)
    for tie in ("position", "authors"):
        shedder = Darling(tie=tie, drift=False, split="rate").begin(training)
        waiting: dict[int, list[int]] = {0: [], 1: [], 2: []}
        n_dropped = dict.fromkeys(range(3), 0)
        for at in range(2000, 4000):
            number = int(scene.type_of_event[at])
            waiting[number].append(at)
            dropped = shedder.admit(Event(at, number, at / 1000), IDLE)
            own = [gone for gone in dropped if scene.type_of_event[gone] == number]
            is_late = tie == "authors" and number == 2
            assert len(own) != 1 or own[0] == waiting[number][-2 if is_late else -1]
            n_dropped[number] += len(own)
            for gone in dropped:
                waiting[int(scene.type_of_event[gone])].remove(gone)
        assert all(n_dropped.values())


# --- restarts


def as_saved(value):
    """Return a saved state as after a file of JSON, with arrays as they are."""
    if isinstance(value, dict):
        return {json.loads(json.dumps(key)): as_saved(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [as_saved(own) for own in value]
    return value.copy() if isinstance(value, np.ndarray) else json.loads(json.dumps(value))


@pytest.mark.parametrize("tie", ["random", "authors"])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_restart_makes_the_same_decisions(seed, tie):
    frame = frame_of(8000, seed, TYPES)
    frame.loc[frame.index > 2100, "v"] *= 0.3
    training, scene = training_of(frame, latency_bound=2e-3)
    training = replace(training, n_events=2000)
    settings = Darling(tie=tie, sample=200)
    one = settings.begin(training)
    rng = np.random.default_rng(seed)
    waiting: list[Event] = []

    def step(shedder, event, served):
        dropped = list(shedder.admit(event, IDLE))
        for other in served:
            if other.position not in dropped:
                shedder.before(other, IDLE, None)
        if len(waiting) < 5:
            shedder.rest(1e-3)
        charged = dict(shedder.charged)
        shedder.charged.clear()
        return dropped, charged

    twin = None
    n_dropped = 0
    for at in range(2000, 8000):
        event = Event(at, int(scene.type_of_event[at]), at / 1000)
        waiting.append(event)
        served = waiting[: int(rng.integers(0, 2 if at % 1000 < 600 else 12))]
        dropped, charged = step(one, event, served)
        n_dropped += len(dropped)
        if twin is not None:
            assert step(twin, event, served) == (dropped, charged)
        gone = {*dropped, *(other.position for other in served)}
        waiting = [other for other in waiting if other.position not in gone]
        if at == 3700:
            twin = settings.begin(training)
            twin.restore(as_saved(one.save()))
    assert n_dropped > 100 and one.n_recomputed >= 1
    assert one.report() == twin.report()


def test_state_of_other_types_is_refused():
    training, _ = training_of(frame_of(400, 0, TYPES))
    other, _ = training_of(frame_of(400, 0, TYPES), "PATTERN SEQ(a x, b y) WITHIN 5")
    saved = Darling(drift=False).begin(training).save()
    with pytest.raises(CepError, match=r"the types \['a', 'b', 'c'\], and this one \['a', 'b'\]"):
        Darling(drift=False).begin(other).restore(saved)


def test_batches_of_a_stream_continue_its_positions():
    frame = frame_of(3000, 9, TYPES)
    whole, scene = training_of(frame)
    whole = replace(whole, n_events=1000)
    part = replace(whole, events=whole.events.between(0, 1500))
    one, other = (Darling(drift=False).begin(training) for training in (whole, part))
    other.extend([whole.events.between(1500, 2200)])
    other.extend([whole.events.between(2200, 3000)])
    numbers = scene.type_of_event
    for at in (1200, 1499, 1500, 2199, 2200, 2999):
        assert one._utility_of(int(numbers[at]), at) == other._utility_of(int(numbers[at]), at)


# --- settings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"split": "even"}, r"Darling\(split='even'\): expected 'darling' or 'rate'"),
        ({"beta": 0}, r"beta=0\): expected a share above 0 and at most 1"),
        ({"beta": True}, "beta=True"),
        ({"n_slots": 0}, "n_slots=0"),
        ({"tie": "oldest"}, "'random', 'position' or 'authors'"),
        ({"drift": "yes"}, "expected True or False"),
        ({"negation": "kill"}, "Did you mean 'kills'"),
    ],
)
def test_bad_settings_are_refused(given, message):
    with pytest.raises(CepError, match=message):
        Darling(**given)


def test_a_warm_up_is_needed():
    training, _ = training_of(frame_of(400, 0, TYPES))
    with pytest.raises(CepError, match="learns from a warm-up"):
        Darling().begin(replace(training, n_events=0))
