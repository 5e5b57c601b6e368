"""Parallel engines as users call them: match, simulate, explain, traces, Spark, errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import cepkit as cep
from cepkit.parallel.agent_run import AgentRun
from cepkit.parallel.agents import Agents, Crew, RunSettings
from cepkit.parallel.engines import ParallelMatches
from tests.support import agent_cases as ac

QUERY = "PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].x > b[i-1].x AND c.x > a.x WITHIN 12"
CALL = {"event_type": "kind", "order_by": "t"}
ENGINES = [
    cep.Sequential(), cep.Sequential(scoped=False), cep.StateParallel(), cep.DataParallel(threads=2),
    cep.RIP(threads=2), cep.RIP(threads=2, chunk=5), cep.RIP(threads=2, multiple=2, start_filter=False),
    cep.Hybrid(threads=2), cep.Hybrid(threads=4, allocation="static"),
    cep.Hybrid(threads=4, allocation="state_dynamic", cost_model="paper", removal="window"),
    cep.Hybrid(threads=2, allocation="state_dynamic", fuse="auto"),
    cep.Hybrid(threads=3, fuse=[("b", "c")], cost_model="measured"),
]  # fmt: skip


def as_text(engine) -> str:
    return str(engine)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 150
    return pd.DataFrame(
        {
            "t": np.sort(rng.integers(0, 120, n)),
            "kind": rng.choice(list("ABBC"), n),
            "k": rng.choice(list("xy"), n),
            "x": rng.integers(0, 30, n),
        },
        index=np.arange(n) * 10,
    )


@pytest.fixture(scope="module")
def wanted(frame) -> pd.DataFrame:
    return frame.cep.match(QUERY, engine="search", **CALL).to_frame()


@pytest.mark.parametrize("engine", ENGINES, ids=as_text)
def test_match(frame, wanted, engine):
    found = frame.cep.match(QUERY, engine=engine, **CALL)
    assert found.count() == len(wanted) > 20
    pd.testing.assert_frame_equal(found.to_frame(), wanted)
    assert found.run.n_matches == len(wanted) and found.run.engine == str(engine)
    assert repr(engine) in repr(found.run)


@pytest.mark.parametrize("engine", ENGINES, ids=as_text)
def test_simulate(frame, wanted, engine):
    runs = [frame.cep.simulate(QUERY, engine=engine, keep=keep, **CALL) for keep in (True, False)]
    assert [run.n_matches for run in runs] == [len(wanted)] * 2
    assert [len(run.block) for run in runs] == [len(wanted), 0]
    assert runs[0].makespan == runs[1].makespan >= runs[0].busy.max() > 0
    assert not runs[0].measured and runs[0].mean_latency > 0


@pytest.mark.parametrize("engine", ENGINES, ids=as_text)
def test_traces(frame, wanted, engine):
    run = frame.cep.match(QUERY, engine=engine, trace=True, **CALL).run
    drops = isinstance(engine, cep.RIP) and not engine.start_filter  # matches of other chunks
    for made in (run, frame.cep.simulate(QUERY, engine=engine, trace=True, **CALL)):
        assert made.trace.measured == made.measured and made.trace.n_threads == made.n_threads
        done = made.trace.done
        assert done.n_matches.sum() == len(wanted) or (drops and done.n_matches.sum() > len(wanted))
        assert done.compared.sum() == made.compared.sum() and done.looped.sum() == made.looped.sum()
        assert set(done.thread) <= {-1, *range(made.n_threads)} and done.start.min() >= 0
        lengths = made.trace.lengths()
        assert (lengths.iloc[:, 2:] >= 0).all(axis=None) and lengths.iloc[:, 2:].max().max() > 0
        assert not lengths.groupby("agent", observed=True).last().iloc[:, 1:].any(axis=None)
        if not made.measured:
            busy = np.bincount(np.maximum(done.thread, 0), done.end - done.start, minlength=made.n_threads)
            assert np.allclose(busy, made.busy) and made.trace.makespan <= made.makespan * (1 + 1e-9)
        for what in ("threads", "busy", "lengths"):
            assert isinstance(made.plot(what), go.Figure)


def test_evaluation_order(frame):
    query = "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x > a.x WITHIN 12"
    wanted = frame.cep.match(query, **CALL).to_frame()
    for order in (["c", "a", "b"], ["b", "c", "a"]):
        for engine in (cep.Hybrid(threads=2), *DIVIDED):
            check_in_order(frame, query, wanted, engine, order)
        assert f"agents       {order[1]}, {order[2]}" in str(
            frame.cep.explain(query, engine=cep.Hybrid(), evaluation_order=order, **CALL)
        )


@pytest.mark.parametrize("pattern", ["AND(A a, B b, C c)", "SEQ(!C n, A a, B b, !A l, C c)"])
@pytest.mark.parametrize("order", ["bac", "cba", "abc"])
def test_evaluation_order_of_divided_streams(frame, pattern, order):
    query = f"PATTERN {pattern} WHERE [k] AND b.x > a.x WITHIN 12"
    wanted = frame.cep.match(query, engine="search", **CALL).to_frame()
    for engine in (*DIVIDED, cep.DataParallel(2)):
        check_in_order(frame, query, wanted, engine, list(order))


# A chunk's own matches are those whose first event in time is its own, whatever is joined first.
DIVIDED = (cep.RIP(2, chunk=7), cep.RIP(3), cep.RIP(2, multiple=2))


def check_in_order(frame, query, wanted, engine, order):
    given = {"engine": engine, "evaluation_order": order, **CALL}
    pd.testing.assert_frame_equal(frame.cep.match(query, **given).to_frame(), wanted)
    runs = [frame.cep.simulate(query, keep=keep, **given) for keep in (True, False)]
    assert [run.n_matches for run in runs] == [len(wanted)] * 2 and len(wanted) > 4
    assert [len(run.block) for run in runs] == [len(wanted), 0]


@pytest.mark.parametrize("engine", [cep.RIP(threads=2, chunk=1), cep.RIP(threads=2, multiple=1)], ids=as_text)
def test_chunks_see_what_must_be_absent_before_them(engine):
    """The agents of a chunk read these events from the whole stream."""
    events = pd.DataFrame({"kind": list("xxxxNABxxxxxAB"), "t": range(14)})
    found = cep.match(events, "PATTERN SEQ(!N n, A a, B b) WITHIN 5", engine=engine, **CALL)
    assert found.lineage()["index"].tolist() == [12, 13]


def test_arrival_is_given_by_row(frame):
    mixed = frame.sample(frac=1, random_state=1)
    arrival = mixed["t"].to_numpy() * 1e6
    one = mixed.cep.simulate(QUERY, engine=cep.Hybrid(4), arrival=arrival, **CALL)
    assert one.makespan >= arrival.max()
    fast = mixed.cep.simulate(QUERY, engine=cep.Hybrid(4), **CALL)
    assert fast.makespan < arrival.max() and fast.n_matches == one.n_matches


def test_costs_are_what_time_is_made_of(frame):
    one, two = (
        frame.cep.simulate(QUERY, engine=cep.Sequential(), costs=costs, **CALL)
        for costs in (cep.Costs(), cep.Costs(item=200, look=4, comparison=10, lock=100, send=100))
    )
    assert two.makespan == pytest.approx(2 * one.makespan)


def test_costs_of_this_machine(frame):
    run = frame.cep.simulate(QUERY, engine=cep.Hybrid(3), costs="measured", **CALL)
    assert run.n_matches == frame.cep.match(QUERY, **CALL).count() and run.makespan > 0
    with pytest.raises(cep.CepError, match=r"costs='cheap': give cep\.Costs"):
        frame.cep.simulate(QUERY, costs="cheap", **CALL)


def test_after_match(frame):
    def match(engine):
        return frame.cep.match(QUERY, engine=engine, after_match="past_last", **CALL).to_frame()

    pd.testing.assert_frame_equal(match(cep.Hybrid(2)), match("auto"))


def test_a_look_does_not_run_the_engine(frame):
    found = frame.cep.match(QUERY, engine=cep.Hybrid(2), **CALL)
    assert isinstance(found._found.whole, ParallelMatches)
    repr(found)
    found.head(3)
    assert "run" not in found._found.whole.__dict__


def test_too_many_matches_are_counted_only(frame, monkeypatch):
    monkeypatch.setattr("cepkit.parallel.engines.MOST_KEPT", 10)
    found = frame.cep.match(QUERY, engine=cep.Hybrid(2), **CALL)
    assert found.count() > 10
    with pytest.raises(
        cep.CepError, match=r"makes all matches at once, and \d+ are too many. Use count\(\), or"
    ):
        found.to_frame()


def test_empty_frames(frame):
    for engine in ENGINES:
        assert frame[:0].cep.match(QUERY, engine=engine, **CALL).count() == 0
        assert frame[:0].cep.simulate(QUERY, engine=engine, **CALL).makespan == 0
        at_once = frame.groupby("kind").head(3).assign(t=5)
        assert (
            at_once.cep.match(QUERY, engine=engine, **CALL).count()
            == at_once.cep.match(QUERY, **CALL).count()
        )


ERRORS = {
    "no key": (
        {"query": "PATTERN SEQ(A a, B b)", "engine": cep.DataParallel(2)},
        "DataParallel(threads=2) cannot run this query: it has no key that all events of a match share",
    ),
    "contiguous": (
        {"query": "PATTERN SEQ(A a, B b) WHERE strict_contiguity", "engine": cep.Hybrid(2)},
        "engine Hybrid(threads=2) cannot run this query: it may not skip everything before 'b'",
    ),
    "no time": (
        {"query": "PATTERN SEQ(A a, B b) WITHIN 5 events", "engine": cep.RIP(2, multiple=2)},
        "it has no window in time above 0, which multiple counts",
    ),
    "nothing between": (
        {"query": "PATTERN SEQ(A a, B b) WHERE skip_till_next_match", "engine": cep.RIP(2)},
        "it may not skip everything before 'b'",
    ),
    "a function of Python": (
        {"query": "PATTERN SEQ(A a, B b) WHERE close_to(a.t, b.t)", "engine": cep.Hybrid(2)},
        "it cannot call close_to, a plain Python function",
    ),
    "two branches": (
        {"query": "PATTERN OR(SEQ(A a, B b), SEQ(C c, A d))", "engine": cep.Hybrid(8, fuse=[("0:b", "1:d")])},
        "not neighbours",
    ),
    "two pairs": (
        {
            "query": "PATTERN SEQ(A a, B b, C c, A d) WITHIN 5",
            "engine": cep.Hybrid(12, fuse=[("b", "c"), ("c", "d")]),
        },
        "fuse=('c', 'd'): an agent is in another pair already",
    ),
    "no neighbours of three": (
        {"query": "PATTERN SEQ(A a, B b, C c, A d)", "engine": cep.Hybrid(12, fuse=[("b", "d")])},
        "fuse=('b', 'd'): not neighbours. The agents are ['b', 'c', 'd']",
    ),
    "threads and pairs": (
        {"query": "PATTERN SEQ(A a, B b, C c, A d)", "engine": cep.Hybrid(3, "static", fuse=[("b", "c")])},
        "2 agents need at least 4 threads",
    ),
    "regex": (
        {"query": "up", "define": {"up": "x > 3"}, "event_type": None, "engine": cep.Hybrid(2)},
        "engine Hybrid(threads=2) cannot run this query: it runs event sequences only",
    ),
    "no engine": ({"engine": 5}, "engine=5: give a name of ['auto'"),
    "a class": ({"engine": cep.Hybrid}, "engine=cep.Hybrid is a class. Give a value: cep.Hybrid(threads=4)"),
    "a class without threads": ({"engine": cep.Sequential}, "is a class. Give a value: cep.Sequential()"),
    "a text": (
        {"engine": "hybrid"},
        "'hybrid' is not known. Parallel engines are values: engine=cep.Hybrid(",
    ),
    "a name misspelt": (
        {"engine": "hybird"},
        "'hybird' is not known. Parallel engines are values: engine=cep.Hybrid(",
    ),
    "a call as text": ({"engine": "cep.RIP(2)"}, "Parallel engines are values: engine=cep.RIP(threads=4)."),
    "threads": (
        {"engine": cep.Hybrid(3, "static")},
        "2 agents need at least 4 threads. Let neighbours share them (fuse='auto')",
    ),
    "threads of pairs": (
        {"engine": cep.Hybrid(1, "static", fuse="auto")},
        "threads=1: 2 agents need at least 2 with neighbours fused. allocation='fully_dynamic' takes any",
    ),
    "threads and a pair": (
        {"engine": cep.Hybrid(1, "state_dynamic", [("b", "c")])},
        "need at least 2 threads",
    ),
    "no such agent": (
        {"engine": cep.Hybrid(2, fuse=[("a", "b")])},
        "fuse=('a', 'b') is not a pair of agents. The agents are ['b', 'c'] (the first variable has none)",
    ),
    "no neighbours": (
        {"engine": cep.Hybrid(2, fuse=[("b", "b")])},
        "not neighbours. The agents are ['b', 'c']",
    ),
    "trace as text": (
        {"trace": "yes", "engine": cep.Hybrid(2)},
        "match: trace='yes': expected True or False",
    ),
    "trace": (
        {"trace": True},
        "trace=True: engine 'auto' writes no trace. Parallel engines do: cep.Hybrid(), cep.RIP()",
    ),
}


NOT_OF_SIMULATE = (
    "regex",
    "no engine",
    "a text",
    "a name misspelt",
    "a call as text",
    "trace",
    "trace as text",
)


@cep.pure(name="close_to")
def close_to(x, y):
    return abs(x - y) < 3


@pytest.mark.parametrize("case", ERRORS)
def test_errors_come_before_work(frame, case, monkeypatch):
    """What `match` says of engines, explain and simulate say, too."""

    def no_work(*_):
        raise AssertionError("work has started")

    for module in ("searching", "questions"):
        monkeypatch.setattr(f"cepkit.api.{module}.build_events", no_work)
    given, said = ERRORS[case]
    calls = [frame.cep.match, *([] if "trace" in given else [frame.cep.explain])]
    for call in [*calls, *([] if case in NOT_OF_SIMULATE else [frame.cep.simulate])]:
        with pytest.raises(cep.CepError) as caught:
            call(**{"query": QUERY, **CALL, **given})
        assert said in str(caught.value), call


WRONG_VALUES = [
    (lambda: cep.Hybrid(0), "Hybrid: threads=0"),
    (lambda: cep.Hybrid("four"), "Hybrid: threads='four': expected a whole number"),
    (lambda: cep.Hybrid(2.5), "Hybrid: threads=2.5: expected a whole number"),
    (lambda: cep.Hybrid(10**9), "Hybrid: threads=1000000000: expected a whole number, 512 at most"),
    (lambda: cep.Hybrid(2**70), "512 at most"),
    (lambda: cep.Hybrid(batch=0), "Hybrid: batch=0"),
    (lambda: cep.Hybrid(batch=2**41), "Hybrid: batch=2199023255552: expected"),
    (lambda: cep.Hybrid(2, "fully-dynamic"), "Did you mean 'fully_dynamic'?"),
    (lambda: cep.Hybrid(2, "dynamic"), "allocation 'dynamic' is not known. Did you mean 'state_dynamic'?"),
    (lambda: cep.Hybrid(removal="windw"), "removal 'windw' is not known. Did you mean 'window'?"),
    (
        lambda: cep.Hybrid(cost_model="x"),
        "Hybrid: cost_model 'x' is not known. There are ['paper', 'simplex'",
    ),
    *(
        (partial(cep.Hybrid, fuse=fuse), f"Hybrid: fuse={fuse!r}. Give 'auto', or pairs of variables")
        for fuse in (5, True, "all", ["b", "c"], ("b", "c"), [("b", "c", "d")], [(0, 1)], [5])
    ),
    (lambda: cep.RIP(0), "RIP: threads=0"),
    (lambda: cep.RIP(513), "RIP: threads=513"),
    (lambda: cep.RIP(2, chunk=0), "RIP: chunk=0"),
    (lambda: cep.RIP(chunk=2**41), "RIP: chunk=2199023255552: expected"),
    (lambda: cep.RIP(2, chunk=4, multiple=2), "chunk and multiple both set the chunk size. Give only one"),
    (lambda: cep.RIP(start_filter=False), "RIP: start_filter=False needs multiple. Give multiple as well"),
    (lambda: cep.RIP(multiple=2, start_filter=0), "RIP: start_filter=0: expected True or False"),
    (lambda: cep.RIP(multiple=2**41), "at most"),
    *(
        (partial(cep.RIP, multiple=multiple), f"RIP: multiple={multiple!r}. Give a number of windows, 1")
        for multiple in (0, 0.5, -2, "2", float("nan"), float("inf"), np.timedelta64(5, "s"))
    ),
    (lambda: cep.DataParallel(0), "DataParallel: threads=0"),
    (lambda: cep.DataParallel(513), "DataParallel: threads=513"),
    (lambda: cep.DataParallel(2, how="x"), "how='x' is not known. There are ['least_loaded', 'hash']"),
    (lambda: cep.StateParallel(batch=0), "StateParallel: batch=0"),
    (lambda: cep.StateParallel(batch=2**70), "at most"),
    (lambda: cep.Sequential(scoped="no"), "Sequential: scoped='no': expected True or False"),
    *(
        (partial(cep.Costs, item=item), f"Costs: item={item!r}. Give nanoseconds, 0 or more")
        for item in (
            -5,
            "2",
            None,
            float("nan"),
            np.timedelta64(5, "s"),
        )  # for Python, durations are integers
    ),
    (lambda: cep.Costs(comparison=[1, "2"]), "Costs: comparison=(1, '2')"),
]


@pytest.mark.parametrize(("make", "said"), WRONG_VALUES)
def test_errors_of_values(make, said):
    with pytest.raises(cep.CepError) as caught:
        make()
    assert said in str(caught.value)


def test_crews_that_do_not_fit():
    agents = Agents(*ac.sequences(ac.in_row("ABCD"), "PATTERN SEQ(A a, B b, C c, D d)", within=9))
    for crew, settings, said in (
        (Crew("fair", 6), {}, "allocation 'fair' is not known"),
        (Crew("static", 5), {}, "threads=5: 3 agents, static, need at least 6 threads"),
        (Crew("sequential", 2), {}, "threads=2: 3 agents, sequential, need 1 thread"),
        (Crew("static", 6, (2, 4)), {}, r"threads by agent \[2, 4\] do not fit 3 agents and 6 threads"),
        (Crew("static", 6, (1, 3, 2)), {}, "no thread for its events or for its partial matches"),
        (Crew("static", 6, (2, 2, 2), (0, 1, 1)), {}, "no thread for its events or for its partial matches"),
        (Crew("state_dynamic", 3, (2, 1, 0)), {}, "no thread for its events or for its partial matches"),
        (Crew("static", 6, fused=((0, 2),)), {}, "not neighbours"),
        (Crew("static", 6, fused=((0, 1), (1, 2))), {}, "an agent is in another pair already"),
        (Crew("static", 6), {"removal": "often"}, "removal 'often' is not known"),
    ):
        with pytest.raises(cep.CepError, match=said):
            AgentRun(agents, crew, RunSettings(**settings))


def test_pairs_may_be_none_at_all(frame, wanted):
    assert frame.cep.match(QUERY, engine=cep.Hybrid(2, fuse=[]), **CALL).count() == len(wanted)


def test_keywords_that_there_are_not(frame):
    for call in (frame.cep.simulate, frame.cep.explain, frame.cep.funnel):
        with pytest.raises(TypeError, match=r"\(\) got an unexpected keyword argument 'witin'. Did you mean"):
            call(QUERY, witin=3)


def test_errors_of_simulate(frame):
    for given, said in (
        ({"engine": "auto"}, "simulate: engine='auto' has no threads"),
        ({"engine": cep.RIP}, "engine=cep.RIP is a class"),
        ({"arrival": [1.0]}, "arrival: shape (1,) for 150 rows"),
        ({"arrival": "now"}, "arrival: expected numbers, the nanoseconds of each row"),
        ({"arrival": np.full(150, -5.0)}, "at least 0, and must not fall in stream order"),
        (
            {"costs": cep.Costs(comparison=(1.0,))},
            "Costs: comparison has 1 values for 2 agents, ['b+', 'c']. Give one per agent, or one for all",
        ),
        (
            {"arrival": -np.arange(150.0)},
            "arrival: times must be finite, at least 0, and must not fall in stream order",
        ),
    ):
        with pytest.raises(cep.CepError) as caught:
            frame.cep.simulate(QUERY, **CALL, **given)
        assert said in str(caught.value)
    with pytest.raises(cep.CepError, match="this run has no trace"):
        frame.cep.simulate(QUERY, **CALL).plot()


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        pytest.param(QUERY, id="keys"),
        pytest.param(QUERY.replace("[k] AND ", ""), id="time slices"),
    ],
)
def test_spark(spark, frame, query, full):
    unique = frame.assign(t=np.arange(len(frame)))
    rows = spark.createDataFrame(unique)
    for engine in (cep.Hybrid(2), *([cep.RIP(2, chunk=7)] if full else [])):
        found = rows.cep.match(query, engine=engine, **CALL)
        wanted = unique.cep.match(query, **CALL)
        assert found.count() == wanted.count() > 20
        assert sorted(map(tuple, found.to_frame().collect())) == sorted(
            map(tuple, wanted.to_frame().itertuples(index=False))
        )
    with pytest.raises(cep.CepError, match="trace=True: tasks of a Spark frame send back matches only"):
        rows.cep.match(query, engine=cep.Hybrid(2), trace=True, **CALL)
