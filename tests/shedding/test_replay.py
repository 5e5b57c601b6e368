"""Replays in virtual time: reproducible, nothing is lost uncounted, and clear errors for bad input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.frames.sources import source_of_frame
from cepkit.planning.queries import Arguments, as_query
from cepkit.shedding.replay import common
from cepkit.shedding.scene import Scene, check_settings, make_scene
from cepkit.shedding.strategies.strategy import Shedder, Training, as_strategy, strategy_names
from tests.support.sizes import seeds

STRATEGIES = [name for name in strategy_names() if name != "none"]
QUERY = "PATTERN SEQ(a x, b y, c z) WHERE y.v > x.v WITHIN 30"
SETTINGS = {"event_type": "kind", "order_by": "ts"}


def frame_of(n: int, seed: int, types: str = "abcd") -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    ts = np.cumsum(generator.integers(0, 3, n))
    return pd.DataFrame({"kind": generator.choice(list(types), n), "ts": ts, "v": generator.random(n)})


def replay(frame, query=QUERY, **given):
    return cep.replay(frame, query, **{"latency_bound": 2e-4, **SETTINGS, **given})


def keys_of(result) -> set[tuple]:
    """Return the matches of a replay, or matches, as tuples of positions."""
    lineage = getattr(result, "matches", result).lineage()
    return set(lineage.groupby("match")["position"].agg(tuple))


def scene_of(frame: pd.DataFrame, query: str = QUERY, **given) -> Scene:
    settings = check_settings([as_query(query, Arguments(**SETTINGS))], **given)
    return make_scene(settings, source_of_frame(frame)[0])


# --- promises


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_seed_gives_the_same_bits(name):
    frame = frame_of(3000, 1)
    arrivals = cep.shedding.PeakArrivals(poisson=True)
    one, other = (replay(frame, shedding=name, arrivals=arrivals, seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)
    pd.testing.assert_frame_equal(one.series(), other.series(), check_exact=True)
    assert one.latencies.tobytes() == other.latencies.tobytes()
    assert one.run.dropped.tobytes() == other.run.dropped.tobytes()


@dataclass(frozen=True)
class AskedForNothing:
    """Drop nothing, but let the server ask about every event."""

    name: ClassVar[str] = "asked"

    def begin(self, training: Training) -> Shedder:
        return _Asked()


class _Asked(Shedder):
    def admit(self, event, load):
        return ()

    def before(self, event, load, machine):
        return True


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "PATTERN SEQ(a x, b+ y[], c z) WHERE y[i].v > x.v WITHIN 6",
        "PATTERN SEQ(a x, b y, !c z) WHERE z.v > x.v WITHIN 12",
        "PATTERN SEQ(a x, b y) WITHIN 9 EVENTS",
        "PATTERN OR(SEQ(a x, b y), SEQ(c z)) WITHIN 9",
    ],
)
def test_events_in_one_call_are_as_events_one_by_one(query, seed):
    """Where nothing is decided, the tree takes all events at once; every number stays the same."""
    frame = frame_of(900, seed)
    arrivals = ["peaks", "poisson", "overload", "constant"][seed]
    together, alone = (
        replay(frame, query, shedding=own, arrivals=arrivals) for own in ("none", AskedForNothing())
    )
    pd.testing.assert_frame_equal(together.series(), alone.series(), check_exact=True)
    assert together.latencies.tobytes() == alone.latencies.tobytes()
    assert keys_of(together) == keys_of(alone)
    for name in ("processed_of_type", "most_waiting", "most_alive", "peak_bytes", "seconds"):
        assert getattr(together.run, name) == getattr(alone.run, name), name
    assert together.to_frame().drop(columns="strategy").equals(alone.to_frame().drop(columns="strategy"))


def test_arrivals_do_not_depend_on_the_strategy():
    frame = frame_of(2000, 2)
    times = [replay(frame, shedding=name).run.arrival_of_event for name in strategy_names()]
    assert all(np.array_equal(times[0], own, equal_nan=True) for own in times)


@pytest.mark.parametrize("name", strategy_names())
def test_every_event_is_processed_dropped_or_waiting(name):
    result = replay(frame_of(3000, 3), shedding=name)
    run = result.run
    counts = np.array([run.processed_of_type, run.dropped_of_type, run.waiting_of_type])
    of_type = run.scene.type_of_event[run.scene.positions[run.scene.n_warm :]]
    assert counts.sum(axis=0).tolist() == np.bincount(of_type, minlength=counts.shape[1]).tolist()
    assert result.n_dropped == sum(result.dropped.values()) == len(set(run.dropped.tolist()))
    assert not run.waiting_of_type[0]
    assert (run.dropped >= run.scene.end_of_warm_up).all()


@pytest.mark.parametrize("seed", seeds(1, 16))
def test_shedding_without_negation_finds_no_other_matches(seed):
    numbers = range(60 * seed, 60 * seed + 24)
    n_lossy = dict.fromkeys(STRATEGIES, 0)
    for seed in numbers:
        query = QUERY if seed % 2 else "PATTERN SEQ(a x, b+ y[], c z) WHERE y[i].v > x.v WITHIN 6"
        bound = float(np.random.default_rng(seed).choice([2e-5, 5e-5, 2e-4]))
        scene = scene_of(frame_of(400, seed, "abc"), query, latency_bound=bound)
        for name in STRATEGIES:
            run = scene.run(as_strategy(name), seed)
            assert common(run.found[0].block, scene.truth[0]).all(), (name, seed)
            n_lossy[name] += len(run.found[0].block) < len(scene.truth[0])
    assert min(n_lossy.values()) > len(numbers) // 4, n_lossy


def test_matches_of_negation_are_compared_by_precision():
    frame = frame_of(3000, 5)
    query = "PATTERN SEQ(a x, !b y, c z) WHERE y.v > 0.5 WITHIN 30"
    result = replay(frame, query, shedding="random_input", latency_bound=5e-5)
    truth = set(cep.match(frame, query, **SETTINGS).lineage().groupby("match")["position"].agg(tuple))
    own, after = keys_of(result), result.run.scene.end_of_warm_up
    own = {match for match in own if match[-1] >= after}
    truth = {match for match in truth if match[-1] >= after}
    assert own - truth
    assert result.precision == len(own & truth) / len(own) < 1
    assert result.recall == len(own & truth) / len(truth)


@pytest.mark.parametrize(
    ("condition", "opposite"), [("y.v > 0.3", "y.v <= 0.3"), ("y.v > x.v", "y.v <= x.v")]
)
@pytest.mark.parametrize("absent_at", ["x, !b y, c", "x, c"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_both_readings_of_negation(condition, opposite, absent_at, seed):
    """An event that is allowed if a condition holds forbids a match if the opposite holds."""
    frame = frame_of(600, seed)
    end = "" if "!" in absent_at else ", !b y"
    text = f"PATTERN SEQ(a {absent_at} z{end}) WHERE {{}} WITHIN 12"
    query, other = text.format(condition), text.format(opposite)
    kills, allows = (replay(frame, query, negation=reading) for reading in ("kills_if", "allowed_if"))
    assert keys_of(kills) == keys_of(cep.match(frame, query, **SETTINGS))
    assert keys_of(allows) == keys_of(cep.match(frame, other, **SETTINGS)) != keys_of(kills)
    assert kills.recall == kills.precision == allows.recall == allows.precision == 1.0
    shed = replay(frame, query, negation="allowed_if", shedding="random_input", latency_bound=2e-5)
    assert shed.n_dropped and common(shed.run.found[0].block, allows.run.found[0].block).mean() > 0.3
    assert "unless it fulfils its conditions" in str(allows.explain())
    assert "unless it fulfils" not in str(kills.explain()) + str(
        replay(frame, negation="allowed_if").explain()
    )


def test_matches_equal_those_of_the_other_engines_when_nothing_is_dropped():
    frame = frame_of(2000, 4)
    result = replay(frame)
    found = cep.match(frame, QUERY, **SETTINGS)
    pd.testing.assert_frame_equal(result.matches.to_frame(), found.to_frame())
    assert result.recall == result.precision == 1.0


# --- a user's own strategy


@dataclass(frozen=True)
class DropCheap:
    """Drop the waiting event of least value when too many wait."""

    room: int = 20
    name: ClassVar[str] = "drop_cheap"

    def begin(self, training: Training) -> Shedder:
        return _Cheap(self.room, training.events.columns["v"].values)


class _Cheap(Shedder):
    def __init__(self, room, values):
        super().__init__()
        self.room, self.values, self.waiting = room, values, set()

    def admit(self, event, load):
        self.waiting.add(event.position)
        if len(self.waiting) <= self.room:
            return ()
        self.charged["sort"] += len(self.waiting)
        cheapest = min(self.waiting, key=lambda position: self.values[position])
        self.waiting.remove(cheapest)
        return (cheapest,)

    def before(self, event, load, machine):
        self.waiting.discard(event.position)
        return True


def test_a_strategy_of_the_user_runs():
    result = replay(frame_of(3000, 6), shedding=DropCheap())
    assert result.n_dropped > 500 and result.run.most_waiting <= 20
    assert result.run.shedding_seconds > 0
    assert result.to_frame()["strategy"].tolist() == ["drop_cheap"]


def test_work_without_a_price_is_an_error():
    class Odd(_Cheap):
        def admit(self, event, load):
            self.charged["sorting"] += 1
            return ()

    @dataclass(frozen=True)
    class OddStrategy(DropCheap):
        def begin(self, training):
            return Odd(1, training.events.columns["v"].values)

    with pytest.raises(CepError, match=r"no price of 'sorting'\. Did you mean 'sort'\?"):
        replay(frame_of(500, 7), shedding=OddStrategy())
    prices = cep.shedding.Prices(others={"sorting": 1e-6})
    assert replay(frame_of(500, 7), shedding=OddStrategy(), costs=prices).run.shedding_seconds > 0


# --- latency by hand


def test_latency_by_hand():
    # One second per condition, nothing else costs. Each b has the condition with each stored a.
    frame = pd.DataFrame({"kind": list("ababb"), "ts": range(5), "v": [1, 2, 0, 3, 4]})
    free = dict.fromkeys(cep.shedding.Prices().table(), 0.0)
    prices = cep.shedding.Prices(**{**free, "condition": 1.0})
    result = replay(
        frame, "PATTERN SEQ(a x, b y) WHERE y.v > x.v", arrivals=[0.0, 10.0, 20.0, 20.5, 20.5], costs=prices,
        warm_up=2, latency_bound=1.5,
    )  # fmt: skip
    # Event 1 is served at 10 s, and its match is found after one condition. Events 3 and 4 arrive at 20.5 s.
    # Each evaluates two conditions: event 3 until 22.5 s, event 4 until 24.5 s. The tree first combines an
    # event with all its partners, and then reports the matches.
    assert result.matches.lineage().groupby("match")["position"].agg(tuple).tolist() == [
        (0, 1), (0, 3), (2, 3), (0, 4), (2, 4),
    ]  # fmt: skip
    assert result.run.found[0].latency.tolist() == [1.0, 2.0, 2.0, 4.0, 4.0]
    assert result.latencies.tolist() == [2.0, 2.0, 4.0, 4.0]
    assert (result.mean_latency, result.max_latency, result.within_bound) == (3.0, 4.0, 0.0)
    assert result.series()["time"].tolist() == [20.0, 22.5, 24.5]


# --- several patterns


def test_several_patterns_share_one_buffer():
    frame = frame_of(3000, 8)
    queries = [QUERY, "PATTERN SEQ(d x, a y) WHERE y.v > x.v WITHIN 10"]
    alone = [replay(frame, query) for query in queries]
    both = replay(frame, queries, weights=[3, 1], shedding="random_input")
    assert [one.compared[2] > 0 for one in both.patterns] == [True, True]
    recall = [one.recall for one in both.patterns]
    truth = [one.compared[2] for one in both.patterns]
    assert both.recall == pytest.approx(np.average(recall, weights=np.multiply([3, 1], truth)))
    none = replay(frame, queries)
    for one, other in zip(none.patterns, alone, strict=True):
        pd.testing.assert_frame_equal(one.matches.to_frame(), other.matches.to_frame())
    assert set(both.dropped) == set("abcd")
    assert len(both.to_frame()) == 2
    with pytest.raises(CepError, match="2 patterns"):
        _ = both.matches


@pytest.mark.parametrize("name", strategy_names())
def test_every_strategy_serves_several_patterns(name):
    frame = frame_of(2000, 18)
    queries = [QUERY, "PATTERN SEQ(d x, a y) WHERE y.v > x.v WITHIN 10"]
    one, other = (replay(frame, queries, weights=[1, 2], shedding=name, seed=3) for _ in range(2))
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)
    assert all(pattern.precision == 1.0 for pattern in one.patterns)
    assert (one.recall < 1) == (name != "none")


# --- Spark


def test_spark_replays_each_key_as_a_task(spark):
    frame = pd.concat([frame_of(400, seed, "abc").assign(key=f"k{seed}") for seed in range(3)])
    frame = pd.concat([frame, frame[:3].assign(key="short")])
    settings = {"shedding": "random_input", "seed": 4, "partition_by": "key"}
    # Rows with equal times have no order on Spark.
    frame["ts"] = np.arange(len(frame))
    found = replay(spark.createDataFrame(frame), **settings).toPandas().set_index("key").sort_index()
    assert found.index.tolist() == ["k0", "k1", "k2", "short"]
    assert "the warm-up" in found.loc["short", "problem"] or "warm_up" in found.loc["short", "problem"]
    for key in found.index[:3]:
        alone = replay(frame[frame["key"] == key], **settings).to_frame().iloc[0]
        assert pd.isna(found.loc[key, "problem"])
        assert found.loc[key, alone.index].to_dict() == alone.to_dict()


def test_spark_replays_many_keys(spark):
    """Every key is a replay of its own; keys that differ in length and load do not disturb one another."""
    frame = pd.concat([frame_of(60 + 10 * seed, seed, "abc").assign(key=seed) for seed in range(40)])
    frame["ts"] = np.arange(len(frame))
    settings = {"shedding": "random_input", "latency_bound": 2e-5, "warm_up": 30, "partition_by": "key"}
    found = replay(spark.createDataFrame(frame).repartition(6), **settings).toPandas()
    assert sorted(found["key"]) == list(range(40))
    assert found["problem"].isna().all() and (found["events"] == 60 + 10 * found["key"]).all()
    assert (found["dropped_events"] > 0).sum() > 30
    for key in (0, 17, 39):
        alone = replay(frame[frame["key"] == key], **settings).to_frame().iloc[0]
        own = found[found["key"] == key].iloc[0]
        assert own[alone.index].to_dict() == alone.to_dict()


def test_spark_runs_a_study_over_settings(spark):
    """A study is one replay per setting; all of them see the same events, and become one table."""
    frame = pd.concat([frame_of(300, seed, "abc").assign(key=f"k{seed}") for seed in range(4)])
    frame["ts"] = np.arange(len(frame))
    there, parts = spark.createDataFrame(frame), []
    for name in ("none", "random", "random_input"):
        for seed in range(2):
            settings = {"shedding": name, "seed": seed, "latency_bound": 2e-5, "partition_by": "key"}
            parts.append(replay(there, **settings))
    study = parts[0]
    for part in parts[1:]:
        study = study.unionByName(part)
    table = study.toPandas()
    assert table.groupby(["strategy", "seed"]).size().tolist() == [4] * 6
    assert table.groupby("key")["matches_without_shedding"].nunique().eq(1).all()
    by = table.groupby("strategy")["recall"].mean()
    assert by["none"] == 1.0 and by["random_input"] < 1
    one = table[(table["key"] == "k2") & (table["strategy"] == "random_input") & (table["seed"] == 1)].iloc[0]
    alone = replay(frame[frame["key"] == "k2"], shedding="random_input", seed=1, latency_bound=2e-5)
    assert one["recall"] == alone.recall and one["dropped_events"] == alone.n_dropped


def test_spark_needs_keys(spark):
    frame = spark.createDataFrame(frame_of(10, 0))
    with pytest.raises(CepError, match="partition_by: on Spark all queries need the same keys"):
        replay(frame)
    with pytest.raises(CepError, match="latency_bound=0"):
        replay(frame, latency_bound=0, partition_by="kind")


# --- what results say


def test_results_say_what_was_dropped():
    result = replay(frame_of(3000, 9), shedding="random_input")
    said = f"{result.n_dropped:,} of {result.run.scene.positions.size:,} events were dropped"
    assert said in repr(result) and said in repr(result.matches) and said in str(result.explain())
    assert result.matches.to_frame().attrs["shedding"] == said
    assert result.matches.to_frame("all").attrs["shedding"] == said
    assert result.to_frame().attrs["shedding"] == said
    assert said in result.matches._repr_html_()
    late = replay(frame_of(3000, 9))
    assert "nothing was dropped" in repr(late) and not late.matches.to_frame().attrs


@pytest.mark.parametrize("convert", [pa.Table.from_pandas, lambda own: own.sample(frac=1, random_state=0)])
def test_other_frames_give_the_same_result(convert):
    frame = frame_of(2000, 10).assign(ts=range(2000))
    one, other = (replay(own, shedding="random") for own in (frame, convert(frame)))
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)


def test_arrivals_of_rows_are_taken_in_stream_order():
    frame = frame_of(1000, 11).assign(ts=range(1000))
    shuffled = frame.sample(frac=1, random_state=1)
    given = replay(shuffled, arrivals=shuffled["ts"].to_numpy() * 1e-5)
    column = replay(frame, arrivals=cep.shedding.ColumnArrivals("ts", speed=1e5))
    pd.testing.assert_frame_equal(given.series(), column.series())
    times = frame.assign(at=pd.Timestamp("2024-01-01") + pd.to_timedelta(frame["ts"], unit="s"))
    of_times = replay(times, arrivals=cep.shedding.ColumnArrivals("at", speed=1e5))
    pd.testing.assert_frame_equal(of_times.series(), column.series())


# --- bad input


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"latency_bound": 0}, "latency_bound=0: expected a duration above 0"),
        ({"latency_bound": -1.5}, "latency_bound=-1.5: expected a duration above 0"),
        ({"latency_bound": "0 s"}, "latency_bound='0 s': expected a duration above 0"),
        ({"latency_bound": "soon"}, "latency_bound='soon': expected a duration above 0, as in '1.5 s'; "),
        ({"latency_bound": True}, "latency_bound=True: expected a duration above 0"),
        ({"latency_bound": float("nan")}, "latency_bound=nan: expected"),
        ({"latency_bound": None, "shedding": "random"}, "shedding='random' needs a latency bound"),
        ({"shedding": "randm"}, "shedding='randm' is not known. Did you mean 'random'?"),
        ({"shedding": 3}, "shedding=3: give a name of"),
        ({"shedding": cep.shedding.Random}, "shedding=Random is a class"),
        ({"weights": [1, 2]}, "weights=[1, 2]: 2 weights for 1 pattern"),
        ({"weights": [-1]}, "weights: -1 of 0 is no weight"),
        ({"weights": [0]}, "weights: at least one pattern"),
        ({"weights": ["1"]}, "weights: '1' of 0 is no weight"),
        ({"weights": 2}, "weights=2: give one number per pattern"),
        ({"weights": {"e": 2}}, "weights: no pattern has the event type 'e'"),
        ({"warm_up": 0}, "warm_up=0: expected a whole number, 1 or more"),
        ({"warm_up": 2}, "the warm-up of 2 events has no event of type"),
        ({"warm_up": 10_000}, "warm_up=10,000: there are only"),
        ({"seed": -1}, "seed=-1: expected a whole number"),
        ({"costs": 3}, "costs=3: give cep.shedding.Prices(…), or 'measured'"),
        ({"arrivals": "poison"}, "arrivals='poison' is not known. Did you mean 'poisson'?"),
        ({"arrivals": [1.0, 2.0]}, "arrivals: 2 times for 1,000 rows"),
        ({"arrivals": np.arange(1000.0)[::-1]}, "arrivals: event 1 of the stream arrives at 998 s, before"),
        ({"arrivals": [None] * 1000}, "arrivals: 1,000 of 1,000 times are missing or infinite"),
        ({"arrivals": ["a"] * 1000}, "arrivals: expected numbers"),
        ({"arrivals": cep.shedding.ColumnArrivals("tss")}, "arrivals: column 'tss' not found. Did you mean"),
        ({"arrivals": cep.shedding.ColumnArrivals("kind")}, "arrivals: column 'kind' is of type text"),
        ({"arrivals": cep.shedding.PoissonArrivals}, "arrivals=PoissonArrivals is a class"),
        ({"negation": "forbids"}, "negation='forbids': expected one of 'kills_if', 'allowed_if'"),
        ({"query": []}, "the list of queries is empty"),
        ({"query": "PATTERN SEQ(a x, b y) WITHIN 9", "after_match": "past_last"}, "after_match removes"),
        ({"query": "PATTERN SEQ(a x, q y) WITHIN 9"}, "the warm-up of 100 events has no event of type 'q'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_error_before_work(given, said):
    frame = frame_of(1000, 12).assign(ts=range(1000))
    with pytest.raises(CepError) as caught:
        replay(frame, **{"warm_up": 100, **given})
    assert str(caught.value).startswith(said) or said in str(caught.value).splitlines()[0]


def test_a_query_that_the_tree_cannot_run_is_refused():
    frame = frame_of(500, 13)
    with pytest.raises(UnsupportedQueryError, match="event sequences only"):
        replay(frame, "x", define={"x": "v > 0"}, event_type=None)
    with pytest.raises(UnsupportedQueryError, match="skip-till-any-match only"):
        replay(frame, QUERY, strategy="next")


@pytest.mark.parametrize(
    "make",
    [
        lambda: cep.shedding.ConstantArrivals(load=0),
        lambda: cep.shedding.PeakArrivals(shares=((0.5, 0.6),)),
        lambda: cep.shedding.PeakArrivals(shares=((0.5, 0.2), (0.6, 0.1))),
        lambda: cep.shedding.OverloadArrivals(excess=-1),
        lambda: cep.shedding.Random(safety=0),
        lambda: cep.shedding.RandomInput(safety=1.5),
        lambda: cep.shedding.Prices(lookup=-1),
        lambda: cep.shedding.Prices(others={"own": "1"}),
    ],
)
def test_values_check_themselves(make):
    with pytest.raises(CepError, match=r"expected|are"):
        make()


def test_measured_prices_are_numbers_of_0_or_more():
    prices = scene_of(frame_of(2000, 14), costs="measured").prices.table()
    assert all(0 <= seconds < 1e-2 for seconds in prices.values())
    assert prices["lookup"] > 0 and sum(prices[name] for name in ("event", "condition", "create")) > 0
