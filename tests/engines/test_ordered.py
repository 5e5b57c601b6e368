"""The ordered engine in every order against the definition; what is measured, chosen, shown and refused."""

from __future__ import annotations

import itertools
from functools import cache
from math import comb
from random import Random
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines import ordered, search
from cepkit.engines.ordered import OrderedEvents, ordered_sequence
from cepkit.engines.search import FoundPart, gather_calls
from cepkit.engines.shared.sequence_set import CALLS_OF_A_LOOK, MatchBlock
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.language.sequences.construction import sequence_query
from cepkit.planning import evaluation_order
from cepkit.planning.evaluation_order import (
    MOST_PERMUTED,
    branch_orders,
    cheapest_order,
    measure_condition,
    measure_rates,
    nested_search_cost,
    partial_matches,
)
from cepkit.planning.planner import choose_engine
from cepkit.streaming.saved import query_as_json, query_of_json
from tests.oracle import generate_sequences as gs
from tests.support.ordered_cases import FAMILIES, check, drawn
from tests.support.sequence_runs import prepared
from tests.support.sizes import JIT, seeds

# --- any shape, interpreted ---


SEEDS = range(20)
FEW = seeds(1 if JIT else 5, 20)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_enough_random_cases_can_be_run_in_any_order():
    assert sum(drawn(seed, family)[1] is None for seed in SEEDS for family in FAMILIES) >= 25


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", FEW)
def test_every_order_is_the_definition(seed, family, tier, full, monkeypatch):
    """Some orders of a case; 24 without the JIT and with ``--full``. Interpreted queries are many."""
    if tier == "interpreted" and FAMILIES.index(family) % 2:
        monkeypatch.setattr(ordered, "_WORK_PER_CALL", 3)  # the kernel pauses after a few events
    n_run, n_orders = 0, 24 if full or not JIT else 2 if tier == "compiled" else 3
    for number in range(20 * seed, 20 * seed + 20) if tier == "interpreted" else [seed]:
        case, reason = drawn(number, family)
        if reason is None:
            n_run += 1
            try:
                check(case.query, case.rows, n_orders)
            except BaseException as error:
                error.add_note(f"drawn({number}, {family!r})")
                raise
    if not n_run:
        pytest.skip(reason)


# --- chosen shapes, many streams ---

SHAPES = {
    "conditions between non-neighbours": (
        "PATTERN SEQ(A a, B b, C c, A d) WHERE c.x >= a.x AND d.x + a.x <= b.x + c.x", {},
    ),
    "window of events, exclusive window, a key": (
        "PATTERN SEQ(A a, B b, C c) WHERE [k] AND c.y >= a.y",
        {"within": 12, "within_closed": False, "within_events": 8},
    ),
    "strict time, a gap and a key": (
        "PATTERN SEQ(A a, A b, _ c) WHERE [k] AND c.x != a.x", {"strict_time": True, "gap_within": 4},
    ),
    "absent in front": ("PATTERN SEQ(!D n, A a, B b, C c) WHERE c.x > a.x AND n.x < c.x", {"within": 7}),
    "absent behind": ("PATTERN SEQ(A a, B b, C c, !D n) WHERE c.x > a.x AND n.x >= b.x", {"within": 7}),
    "absent between, with both sides and alone": (
        "PATTERN SEQ(A a, !D n, B b, !D m, C c) WHERE n.x > a.x AND n.x < c.x AND c.x >= a.x", {},
    ),
    "repeated types, in any order": ("PATTERN SEQ(A a, AND(A b, B c)) WHERE a.x < b.x OR c.x = a.x", {}),
}  # fmt: skip
N_STREAMS, N_ORDERS = (30, 2) if JIT else (8, 24)


@pytest.mark.parametrize("name", SHAPES)
def test_orders_of_a_shape_are_the_definition(name, full):
    """Two orders of each shape with the JIT; up to 24 without it, and with ``--full``."""
    text, keywords = SHAPES[name]
    query = sequence_query(text, event_type="kind", order_by="t", **keywords)
    n_found = 0
    for seed in range(N_STREAMS):
        rng = Random(f"{name} {seed}")
        rows = gs.stream(rng, query, rng.randint(12, 17), 2 if query.partition_by else 1)
        n_found += check(query, rows, 24 if full else N_ORDERS)
    assert n_found >= N_STREAMS // 8


# --- sizes that need several calls and know no bound ---


@pytest.fixture
def letters():
    rng = np.random.default_rng(4)
    n = 600
    kinds = rng.choice(list("ABC"), n, p=[0.5, 0.45, 0.05])
    return pd.DataFrame({"kind": kinds, "x": rng.integers(0, 50, n), "t": np.arange(n)})


@pytest.fixture
def some(letters):
    return letters if JIT else letters.head(150)


QUERY = "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x WITHIN 90"


def test_it_goes_on_where_it_stopped(some, monkeypatch):
    monkeypatch.setattr("cepkit.engines.ordered._MATCHES_PER_CALL", 7)
    monkeypatch.setattr("cepkit.engines.ordered._WORK_PER_CALL", 50)
    found = [
        cep.match(
            some, QUERY, event_type="kind", order_by="t", evaluation_order=order
        ).to_frame("all")
        for order in ([["c", "a", "b"]] if JIT else [["a", "b", "c"], ["c", "a", "b"], None])
    ]  # fmt: skip
    monkeypatch.undo()
    wanted = cep.match(some, QUERY, event_type="kind", order_by="t", engine="search").to_frame("all")
    assert len(wanted) > 100
    for frame in found:
        pd.testing.assert_frame_equal(frame, wanted)


def test_too_many_to_keep(some, monkeypatch):
    wanted = cep.match(some, QUERY, event_type="kind", order_by="t", engine="search")
    lines = wanted.lineage()
    monkeypatch.setattr(
        "cepkit.planning.evaluation_order.ordered_sequence",
        lambda own, orders, **limits: ordered_sequence(own, orders, **{**limits, "most_known": 10}),
    )
    found = cep.match(some, QUERY, event_type="kind", order_by="t")
    assert found.engine.name == "ordered"
    assert "≥" in repr(found)
    assert found.count() == wanted.count()
    pd.testing.assert_frame_equal(found.lineage(), lines)
    assert found.sample(5, seed=2).equals(wanted.sample(5, seed=2))


@pytest.mark.parametrize(
    ("most", "most_calls", "n_calls", "n_found", "is_whole"),
    [
        (None, None, 4, 8, True),
        (8, None, 4, 8, True),
        (None, 4, 4, 8, True),
        (None, 3, 3, 6, False),
        (7, None, 4, 8, False),
        (4, None, 3, 6, False),
        (2, 3, 2, 4, False),
    ],
)
def test_no_call_is_made_that_is_not_needed(most, most_calls, n_calls, n_found, is_whole):
    calls = []

    def found():
        for call in range(4):
            calls.append(call)
            yield FoundPart(2, lambda k, call=call: two(call).take(slice(0, k))), call == 3

    def two(call):
        return MatchBlock(np.array([call, call]), np.zeros(2, np.int16), np.arange(3), np.zeros(2, np.int16))

    gathered = gather_calls(found(), most, most_calls)
    assert (len(calls), gathered.n, gathered.is_whole) == (n_calls, n_found, is_whole)
    assert gathered.block.first.tolist() == [call for call in calls for _ in range(2)]


@pytest.mark.parametrize("engine", ["ordered", "search"])
def test_a_look_makes_as_many_calls_as_it_may(some, engine, monkeypatch):
    monkeypatch.setenv("CEPKIT_TIER", "compiled")  # an interpreting kernel is called by another name
    n_calls = 0

    def counted(search):
        def run(*inputs):
            nonlocal n_calls
            n_calls += 1
            return search(*inputs)

        return run

    def loaded(program, text, name, load=search.kernel):
        return counted(load(program, text, name)) if name == "search" else load(program, text, name)

    module = ordered if engine == "ordered" else search
    monkeypatch.setattr(module, "_WORK_PER_CALL_OF_A_LOOK", 50)
    monkeypatch.setattr(search, "kernel", loaded)
    kernels = ordered.load_kernels(ordered.KERNELS)
    counting = SimpleNamespace(search=counted(kernels.search))
    monkeypatch.setattr(ordered, "load_kernels", lambda name: counting)
    found = cep.match(some, QUERY, event_type="kind", order_by="t", engine=engine)
    n, is_exact = found._found.whole.at_least()
    assert not is_exact and n_calls == CALLS_OF_A_LOOK
    assert 0 <= n < found.count()


# --- what is measured, and chosen ---


def test_rates_are_those_of_the_windows(letters):
    program, events = bound_to(letters)
    own = OrderedEvents(program, events)
    members = own.members_of(program.branches[0])
    n_events, in_window = measure_rates(members, own.limit("later"), own.limit("window_end"))
    kind = letters["kind"]
    assert n_events == tuple(int((kind == k).sum()) for k in "ABC")
    wanted = [
        np.mean([(kind[i + 1 : i + 91] == k).sum() for i in range(len(letters))]) for k in "ABC"
    ]  # fmt: skip
    assert in_window == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(3))
def test_selectivity_is_the_share_of_pairs_in_the_window(letters, seed):
    program, events = bound_to(letters)
    own = OrderedEvents(program, events)
    members = own.members_of(program.branches[0])
    x, kind = letters["x"].to_numpy(), letters["kind"].to_numpy()
    pairs = [
        x[c] > x[a]
        for c in np.flatnonzero(kind == "C")
        for a in np.flatnonzero(kind == "A")
        if a < c <= a + 90
    ]
    made = measure_condition(
        "c.x > a.x", frozenset({0, 2}), lambda places: x[places[:, 2]] > x[places[:, 0]], members,
        own.limit("later"), own.limit("window_end"), seed,
    )  # fmt: skip
    assert made.n_tested == min(len(pairs), 2000)
    if len(pairs) <= 2000:
        assert made.n_held == sum(pairs)
    assert made.selectivity == pytest.approx(np.mean(pairs), abs=0.05)


def bound_to(frame, query=QUERY):
    return prepared(sequence_query(query, event_type="kind", order_by="t"), frame)


def test_expected_partial_matches_are_those_there_are(monkeypatch):
    monkeypatch.setattr(evaluation_order, "_NOT_WORTH", 0)
    rng = np.random.default_rng(0)
    n = 4000
    t = np.sort(rng.random(n) * 4000).round().astype(int)
    frame = pd.DataFrame({"kind": rng.choice(list("ABC"), n), "x": rng.random(n), "t": t})
    program, events = bound_to(frame, "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x + 0.5 WITHIN 60")
    (made,) = branch_orders(program, events)
    assert made.order in {(0, 2, 1), (2, 0, 1)}  # the condition first
    (one,) = made.statistics.conditions
    assert (one.n_tested, one.components) == (2000, {0, 2})
    assert one.selectivity == pytest.approx(1 / 8, abs=0.03)
    pairs = cep.match(frame, "PATTERN SEQ(A a, C c) WHERE c.x > a.x + 0.5 WITHIN 60", event_type="kind",
                      order_by="t").count()  # fmt: skip
    assert made.partial_matches[1] == pytest.approx(pairs, rel=0.25)
    assert made.forward_cost > 3 * sum(made.partial_matches[:2])


@cache
def costs(n: int) -> dict:
    rng = np.random.default_rng(n)
    args = rng.integers(1, 500, n).tolist(), rng.random(n).round(3).tolist(), [
        (frozenset(rng.choice(n, 2, replace=False).tolist()), float(rng.random())) for _ in range(n * (n > 1))
    ]  # fmt: skip
    return {order: nested_search_cost(order, *args) for order in itertools.permutations(range(n))}, args


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, MOST_PERMUTED, MOST_PERMUTED + 1])
def test_cheapest_order(n):
    cost_of_order, args = costs(n)
    chosen = cheapest_order(*args)
    assert sorted(chosen) == list(range(n))
    if n <= MOST_PERMUTED:
        assert cost_of_order[chosen] == pytest.approx(min(cost_of_order.values()))
    else:
        ordered = sorted(cost_of_order.values())
        assert cost_of_order[chosen] <= ordered[len(ordered) // 4]


def test_equal_costs_keep_the_order_of_the_pattern():
    assert cheapest_order([10] * 5, [3.3] * 5, []) == (0, 1, 2, 3, 4)


def test_partial_matches_of_equally_spaced_events():
    # 1000 events, each of all three components, windows of 10 behind each: C(10, 2) pairs behind an event.
    made = partial_matches((0, 1, 2), [1000] * 3, [10] * 3, [])
    assert made == (1000, 10_000, 50_000)
    assert made[2] == pytest.approx(1000 * comb(10, 2), rel=0.12)


def test_rare_events_come_first_and_measuring_is_left_out_where_it_does_not_pay(letters):
    program, events = bound_to(letters)
    (made,) = branch_orders(program, events)
    assert made.order[0] == 2
    assert made.statistics.conditions == ()
    assert not made.is_given


def test_no_events():
    frame = pd.DataFrame({"kind": pd.Series([], dtype="str"), "x": [], "t": pd.Series([], dtype="int64")})
    matches = cep.match(frame, QUERY, event_type="kind", order_by="t")
    assert matches.engine.name == "ordered" and matches.count() == 0
    assert "evaluation   a, b, c" in str(cep.explain(frame, QUERY, event_type="kind", order_by="t"))


# --- what users see ---


def test_explain_shows_the_order(letters, monkeypatch):
    monkeypatch.setattr(evaluation_order, "_NOT_WORTH", 0)
    shown = str(cep.explain(letters, QUERY, event_type="kind", order_by="t"))
    assert "engine       ordered: " in shown
    assert "evaluation   c, a, b  [least cost: " in shown
    assert "\n             selectivity of c.x > a.x: 0." in shown
    n = int((letters["kind"] == "C").sum())
    assert f"\n             c: {n} events, " in shown
    given = str(
        cep.explain(letters, QUERY, event_type="kind", order_by="t", evaluation_order=["b", "c", "a"])
    )
    assert "evaluation   b, c, a  [as given: " in given
    assert "not          search: evaluation_order is given" in given


def test_the_order_is_part_of_the_query():
    a, b, c = cep.event("a", "A"), cep.event("b", "B"), cep.event("c", "C")
    query = sequence_query(cep.seq(a, b, c).where("c.x > a.x").evaluation_order("c", "a", "b"))
    assert query.evaluation_order == ("c", "a", "b")
    assert "\nevaluation_order: c, a, b" in str(query)
    assert query_of_json(query_as_json(query)).evaluation_order == ("c", "a", "b")
    with pytest.raises(CepError, match="evaluation_order: given both"):
        sequence_query(query, evaluation_order=["a", "b", "c"])


def test_options_and_orders_take_their_part_of_the_order(letters):
    query = "PATTERN SEQ(A a, OR(B b, C c), B? d, A e) WHERE a.x < e.x AND b.x > e.x WITHIN 9"
    keywords = {"event_type": "kind", "order_by": "t"}
    found = cep.match(letters, query, **keywords, evaluation_order=["e", "d", "c", "b", "a"])
    wanted = cep.match(letters, query, **keywords, engine="search")
    assert found.engine.name == "ordered"
    pd.testing.assert_frame_equal(found.lineage(), wanted.lineage())


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["c", "a", "bb"], r"no event of the pattern is named 'bb'; there are \['a', 'b', 'c'\]"),
        (["c", "a"], r"\['b'\] are missing"),
        (["c", "a", "a", "b"], "'a' occurs twice"),
        (["n", "a", "b", "c"], "'n' must not occur"),
        ([1, 2], "expected names of events"),
        (7, "expected names of events"),
    ],
)
def test_wrong_orders(letters, order, message):
    query = "PATTERN SEQ(A a, B b, !D n, C c) WHERE c.x > a.x"
    with pytest.raises(CepError, match=f"evaluation_order: {message}"):
        cep.match(letters, query, event_type="kind", evaluation_order=order)


def test_where_an_order_has_no_place(letters):
    order = ["c", "b", "a"]
    with pytest.raises(CepError, match="evaluation_order: 'b' can name several events"):
        cep.match(letters, "PATTERN SEQ(A a, B+ b[], C c)", event_type="kind", evaluation_order=order)
    with pytest.raises(UnsupportedQueryError, match=r"evaluation_order.*belong to event sequences"):
        cep.match(letters, "a b", define={"a": "x > 1", "b": "x < 2"}, evaluation_order=["a", "b"])
    plain = "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x"
    for engine in ("search", "chain"):
        with pytest.raises(UnsupportedQueryError, match=r"Engines that can: \['ordered', 'tree'\]"):
            cep.match(letters, plain, event_type="kind", evaluation_order=order, engine=engine)
    with pytest.raises(
        UnsupportedQueryError, match=r"evaluation_order: engine 'ordered'.*strategy 'any' may"
    ):
        cep.match(letters, plain, event_type="kind", evaluation_order=order, strategy="next")


def test_auto_takes_it_between_chain_and_search(letters):
    def chosen(query):
        return choose_engine(bound_to(letters, query)[0]).name

    assert chosen("PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x") == "chain"
    assert chosen("PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x") == "ordered"
    assert chosen("PATTERN SEQ(A a, B+ b[], C c) WHERE c.x > a.x") == "chain"
    assert chosen("PATTERN SEQ(A a, B+ b[], C c) WHERE avg(b.x) > a.x") == "search"
    assert chosen("PATTERN SEQ(A a, NEXT B b, C c) WHERE c.x > a.x") == "search"
