"""LinkedCEP and the run engines against the definition of skip-till-any-match, and against each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest

from cepkit.errors import CepError, ColumnNotFoundError, OrderError, ResultTooLargeError
from cepkit.kernels.wings import linked_layout as kernel
from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import (
    AbsentPattern,
    EventPattern,
    Loop,
    SequenceOf,
    SequencePattern,
    SequenceQuery,
)
from cepkit.linked import kernel_machine as plain_machine
from cepkit.linked.engine import LinkedCEP, SaseRuns, SiddhiLikeRuns
from cepkit.linked.patterns import (
    ABSENT,
    SIGNS,
    EventComparison,
    PlainAbsence,
    PlainEvents,
    PlainPattern,
)
from papers.linked_cep import figures as paper
from papers.linked_cep.counterexamples import COUNTEREXAMPLES, counterexamples
from tests.oracle.naive_lines import lines
from tests.oracle.naive_sequences import Search
from tests.support.sizes import JIT, seeds

SEEDS, FULL_SEEDS = (6, 60) if JIT else (3, 20)
STREAMS_PER_SEED = 80

DTYPE = {"x": np.int64, "y": np.float64}


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames and not metafunc.definition.get_closest_marker("parametrize"):
        metafunc.parametrize("seed", seeds(SEEDS, FULL_SEEDS))


# --- the definition ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A pattern on a stream, both as plain Python values."""

    pattern: PlainPattern
    time: list
    partition: list
    accepts: list  # per component a list of booleans
    absent: list  # per absence a list of booleans
    columns: dict

    def events(self, **changed) -> PlainEvents:
        values = {
            "time": np.array(self.time, np.int64),
            "accepts_of_component": np.array(self.accepts, np.uint8),
            "partition_of_event": np.array(self.partition, np.int32),
            "accepts_of_absence": np.array(self.absent, np.uint8).reshape(len(self.absent), len(self.time)),
            "columns": {name: np.array(values, DTYPE[name]) for name, values in self.columns.items()},
        }
        return PlainEvents(**{**values, **changed})


def query_of(case: Case) -> SequenceQuery:
    """Return the pattern as a query; columns of flags say what a component and an absent event accept."""
    pattern = case.pattern

    def reference(j: int, column: str, index: Any = None) -> ex.Reference:
        return ex.Reference(f"e{j}", column, index if j in pattern.kleene else None)

    def compared(condition: EventComparison, left: ex.Expression, right: ex.Expression) -> ex.Expression:
        scaled = right if condition.factor == 1 else ex.Arithmetic("*", ex.Literal(condition.factor), right)
        return ex.Comparison(condition.sign, left, scaled)

    parts: list[SequencePattern] = []
    where: list[ex.Expression] = []
    for j in range(pattern.n_components):
        event = EventPattern(f"e{j}")
        parts.append(Loop(event, 1, None) if j in pattern.kleene else event)
        where.append(reference(j, f"accepts{j}", ex.CURRENT))
        for a, absence in enumerate(pattern.absences):
            if absence.after == j:
                parts.append(AbsentPattern(EventPattern(f"n{a}")))
                where.append(ex.Reference(f"n{a}", f"absent{a}"))
    for condition in pattern.conditions:
        left, right = condition.left, condition.right
        if left == right:
            current = reference(left, condition.left_column, ex.CURRENT)
            where.append(compared(condition, current, reference(left, condition.right_column, ex.BEFORE)))
        else:
            sides = [
                reference(j, column, ex.CURRENT if j == max(left, right) else ex.LAST)
                for j, column in ((left, condition.left_column), (right, condition.right_column))
            ]
            where.append(compared(condition, *sides))
    for a, absence in enumerate(pattern.absences):
        for condition in absence.conditions:
            sides = [
                ex.Reference(f"n{a}" if j == ABSENT else f"e{j}", column)
                for j, column in (
                    (condition.left, condition.left_column), (condition.right, condition.right_column),
                )
            ]  # fmt: skip
            where.append(compared(condition, *sides))
    return SequenceQuery(
        SequenceOf(tuple(parts), (None,) * len(parts)), tuple(where), within=pattern.window_ticks,
        strict_time=pattern.strict_time, partition_by=("k",), order_by=("t",), event_type="kind",
    )  # fmt: skip


def rows_of(case: Case) -> list[dict]:
    columns = {"t": case.time, "k": case.partition, "zero": [0] * len(case.time), **case.columns}
    columns |= {f"accepts{j}": flags for j, flags in enumerate(case.accepts)}
    columns |= {f"absent{a}": flags for a, flags in enumerate(case.absent)}
    return [{name: values[i] for name, values in columns.items()} for i in range(len(case.time))]


def partial_matches(case: Case) -> tuple[list, list]:
    """Return the partial matches of a stream by the definition, and the matches in canonical order.

    Both as positions by component. An absent event ends a partial match when all events are there that its
    conditions look at; the definition asks for it at the end.
    """
    query = query_of(case)
    (line,) = lines(query.pattern)
    search = Search(query, line, rows_of(case))

    def is_excluded(run) -> bool:
        for absent, tests in search.absences:
            named = {place for test in tests for place in test.place_of.values()}
            is_decided = max([line.slots.index(absent.before), *named]) < len(run)
            if is_decided and search.occurs(run, absent, tests):
                return True
        return False

    def key(bound):
        items = [(x, j) for j, events in enumerate(bound) for x in events]
        return [x for x, _ in reversed(items)], [j for _, j in reversed(items)]

    runs = list(search.runs())
    return [run for run in runs if not is_excluded(run)], sorted(filter(search.is_complete, runs), key=key)


SHAPES = ("a b c", "a b", "a a b", "a a", "a b a b", "a", "a b c d", "a a a")


def random_case(rng: Random, *, kleene: bool = False, conditions: bool = True, absences: bool = True) -> Case:
    """Return a random pattern on a random stream of at most fourteen events."""
    shape = rng.choice(SHAPES).split()
    n = len(shape)
    closures = {j for j in range(n) if rng.random() < 0.5} if kleene else set()
    columns = {"x": "int", "y": "float"}

    def comparison(left, right):
        names = [rng.choice(list(columns)) for _ in range(2)]
        factor = rng.choice([1.0, 1.0, 1.0, 0.5, 2.0])
        return EventComparison(left, rng.choice(SIGNS), right, *names, factor)

    own = []
    if conditions and n > 1:
        for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
            own.append(comparison(*rng.sample(range(n), 2)))
    own += [comparison(j, j) for j in closures if rng.random() < 0.4]
    negated = []
    while absences and n > 1 and rng.random() < 0.35 and len(negated) < 2:
        after = rng.randrange(n - 1)
        singles = [j for j in range(n) if j not in closures]
        named = []
        for _ in range(rng.choice([0, 1, 1, 2]) if singles else 0):
            pair = rng.sample([ABSENT, rng.choice(singles)], 2)
            named.append(comparison(*pair))
        negated.append((after, tuple(named), rng.choice("abcdx")))
    alphabet = rng.choice(["".join(dict.fromkeys(shape))] * 3 + ["abcx", "aabbc", "abcdx"])
    n_events = rng.choice([0, 5, 7, 9] if kleene else [0, 8, 10, 12, 14])
    sticky = rng.choice([0.0, 0.4, 0.7])
    types, time, t = [], [], 0
    for _ in range(n_events):
        types.append(types[-1] if types and rng.random() < sticky else rng.choice(alphabet))
        t += rng.choice([0, 1, 1, 2])
        time.append(t)
    keys = rng.choice([(0,), (0,), (0, 1), (2, 0)])
    refuses = rng.choice([0.0, 0.0, 0.2])  # a condition on the event alone
    return Case(
        PlainPattern(
            n,
            rng.choice([None, None, 12, 8, 4, 0]),
            tuple(own),
            frozenset(closures),
            tuple(PlainAbsence(after, named) for after, named, _ in negated),
            strict_time=rng.random() < 0.2,
        ),
        time,
        [rng.choice(keys) for _ in range(n_events)],
        [[t == s and rng.random() >= refuses for t in types] for s in shape],
        [[t == kind for t in types] for _, _, kind in negated],
        {
            "x": [rng.randint(0, 4) for _ in range(n_events)],
            "y": [rng.choice([0.5, 1.0, 2.0, 3.0, float("nan")]) for _ in range(n_events)],
        },
    )


ENGINES = {"linked": LinkedCEP, "sase": SaseRuns, "siddhi": SiddhiLikeRuns}


def agrees(case: Case) -> None:
    """Check everything that is promised of one case."""
    partial, expected = partial_matches(case)
    counters = {}
    for name, engine in ENGINES.items():
        made = engine(case.pattern)
        found = made.push(case.events())
        assert found.bound() == expected, (name, case)
        assert found.n_matches == len(expected)
        counters[name] = made.counters
        counting = engine(case.pattern, output="count")
        assert counting.push(case.events()).n_matches == len(expected), (name, case)
        assert counting.counters.nodes == made.counters.nodes
    linked, runs = counters["linked"], counters["sase"]
    assert runs.nodes == counters["siddhi"].nodes == len(partial), case
    assert runs.copies == counters["siddhi"].copies
    assert runs.copies == len(partial) - sum(sum(map(len, bound)) == 1 for bound in partial)
    assert linked.nodes <= runs.nodes and linked.copies <= runs.copies, case
    assert linked.chains <= linked.nodes
    if not any(case.pattern.coverable):
        assert (linked.nodes, linked.copies, linked.chains) == (runs.nodes, runs.copies, runs.nodes)
    coverages_agree(case, expected)


def coverages_agree(case: Case, expected: list) -> None:
    """Check that coverages are matches and that every match has one, component by component no older."""
    engine = LinkedCEP(case.pattern, output="latest")
    engine.push(case.events())
    rows = engine.coverages.tolist()
    assert rows == sorted(rows, key=lambda row: row[::-1])
    latest = {tuple(events[-1] for events in bound) for bound in expected}
    assert {tuple(row) for row in rows} <= latest, case
    if not case.pattern.kleene:
        for match in latest:
            assert any(all(x <= y for x, y in zip(match, row, strict=True)) for row in rows), case


@pytest.fixture(autouse=True)
def room(request, monkeypatch):
    """Begin with next to no room in tests of an odd seed, so that everything must grow and be swept."""
    if getattr(request.node, "callspec", None) and request.node.callspec.params.get("seed", 0) % 2:
        for name in ("_FIRST_SLOTS", "_FIRST_MATCHES", "_FIRST_CANDIDATES", "_FIRST_LEVELS"):
            monkeypatch.setattr(plain_machine, name, 1)
        monkeypatch.setattr(plain_machine, "_MOST_ITEMS_AT_ONCE", 4)


def test_random_streams_without_kleene_closure(seed):
    rng = Random(seed)
    for _ in range(STREAMS_PER_SEED):
        agrees(random_case(rng))


def test_random_streams_with_kleene_closure(seed):
    rng = Random(1000 + seed)
    for _ in range(STREAMS_PER_SEED // 2):
        agrees(random_case(rng, kleene=True))


# --- copies -----------------------------------------------------------------------------------------------

COPYINGS = (
    {"copies": "references"},
    {"copies": "deep"},
    {"copies": "deep", "payload": 3},
    {"copies": "deep", "payload": 0},
)


def copies_are_right(machine) -> int:
    """Check every copy in memory against the pointers and the events; return how many there are."""
    store, slots = machine._store, machine.slots
    n_attributes = machine.copying.n_attributes
    window, now = machine.pattern.window_ticks, machine._events.time.max(initial=0)
    # What has left the window may point to slots that are used again.
    oldest = now - window if window is not None else kernel.NO_TIME
    live = np.flatnonzero((slots[:, kernel.TAIL] >= 0) & (slots[:, kernel.FIRST_TIME] >= oldest)).tolist()
    for slot in live:
        chain, tail, walked = slot, slots[slot, kernel.TAIL], []
        while chain >= 0:
            walked.insert(0, int(tail))
            chain, tail = slots[chain, kernel.PRED], slots[chain, kernel.PRED_TAIL]
        n = len(walked)
        assert store.positions[slot, : n + 1].tolist() == [n, *walked]
        payload = store.payload[slot, : n * n_attributes].reshape(n, n_attributes)
        assert (payload == machine._events.payload[walked]).all()
    return len(live)


def test_ways_of_copying_find_the_same_matches(seed):
    rng = Random(7000 + seed)
    n_copies = 0
    for _ in range(STREAMS_PER_SEED // 4):
        case = random_case(rng, kleene=rng.random() < 0.4)
        partial, expected = partial_matches(case)
        items = sum(sum(map(len, bound)) for bound in partial)
        for name, engine in ENGINES.items():
            pointer = engine(case.pattern)
            pointer.push(case.events())
            for copying in COPYINGS:
                outputs = ("all", "count", "latest") if engine is LinkedCEP else ("all", "count")
                made = {output: engine(case.pattern, output=output, **copying) for output in outputs}
                found = {output: machine.push(case.events()) for output, machine in made.items()}
                assert found["all"].bound() == expected, (name, copying, case)
                assert found["count"].n_matches == len(expected), (name, copying, case)
                for machine in made.values():
                    n_copies += copies_are_right(machine)
                    own, other = machine.counters, pointer.counters
                    assert own.nodes_of_component.tolist() == other.nodes_of_component.tolist()
                    assert (own.copies, own.chains) == (other.copies, other.chains), (name, copying, case)
                    if engine is not LinkedCEP:
                        n_attributes = machine.copying.n_attributes
                        assert own.copied_bytes == 8 * (len(partial) + items * (1 + n_attributes))
    assert n_copies > STREAMS_PER_SEED


def test_matches_in_the_order_of_the_engine(seed):
    rng = Random(8000 + seed)
    for _ in range(STREAMS_PER_SEED // 4):
        case = random_case(rng, kleene=rng.random() < 0.4)
        _, expected = partial_matches(case)
        for engine in ENGINES.values():
            machine = engine(case.pattern, ordered=False, **rng.choice([{}, *COPYINGS]))
            found = machine.push(case.events()).bound()
            assert sorted(found) == sorted(expected), case
            assert [max(map(max, bound)) for bound in found] == [max(map(max, bound)) for bound in expected]


def test_a_copy_writes_what_it_says():
    events = example("aabbabcc", "abc", columns={"x": np.array([1.5, *range(7)])})
    sizes = {}
    for name, engine in ENGINES.items():
        for copies in ("pointer", "references", "deep"):
            made = engine(PlainPattern(3), copies=copies)
            made.push(events)
            sizes[name, copies] = made.counters.copied_bytes
    # 3, 7 and 14 runs of one, two and three events; 3, 4 and 6 partial matches in chains
    assert sizes["sase", "references"] == sizes["siddhi", "references"] == 8 * (3 * 2 + 7 * 3 + 14 * 4)
    assert sizes["linked", "references"] == 8 * (3 * 2 + 4 * 3 + 6 * 4)
    assert sizes["linked", "deep"] == 8 * (3 * 6 + 4 * 11 + 6 * 16)
    assert sizes["linked", "pointer"] == sizes["sase", "pointer"] == 0


def test_a_deep_copy_has_the_values_of_the_stream():
    pattern = PlainPattern(2, conditions=(EventComparison(0, "<", 1, "x", "x"),))
    machine = SaseRuns(pattern, output="count", copies="deep", payload=4)
    machine.push(example("aab", "ab", columns={"x": np.array([1, 2, 5])}))
    assert machine._events.payload[:3].tolist() == [[0, 0, 1, 1], [1, 0, 2, 1], [2, 0, 5, 2]]
    assert copies_are_right(machine) == 2


# --- pushes -----------------------------------------------------------------------------------------------


def concatenated(parts):
    return [match for part in parts for match in part.bound()]


def test_any_cutting_into_pushes_gives_the_same(seed):
    rng = Random(4000 + seed)
    for _ in range(STREAMS_PER_SEED // 4):
        case = random_case(rng, kleene=rng.random() < 0.3)
        n_events = len(case.time)
        cuts = sorted(rng.randint(0, n_events) for _ in range(rng.randint(0, 4)))
        slices = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, n_events], strict=True)]
        for name, engine in ENGINES.items():
            whole, cut = engine(case.pattern), engine(case.pattern)
            expected = whole.push(case.events())
            parts = [cut.push(case.events().take(rows)) for rows in slices]
            assert concatenated(parts) == expected.bound(), (name, case, cuts)
            one, other = whole.counters, cut.counters
            assert one.nodes_of_component.tolist() == other.nodes_of_component.tolist()
            assert (one.copies, one.chains) == (other.copies, other.chains)
            counting = engine(case.pattern, output="count")
            counts = [counting.push(case.events().take(rows)).n_matches for rows in slices]
            assert counts == [part.n_matches for part in parts]
        latest = [LinkedCEP(case.pattern, output="latest") for _ in range(2)]
        latest[0].push(case.events())
        for rows in slices:
            latest[1].push(case.events().take(rows))
        assert latest[0].coverages.tolist() == latest[1].coverages.tolist()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_longer_stream_of_many_partitions(seed):
    """All engines agree where chains expire, partitions fall silent and slots are used anew."""
    rng = np.random.default_rng(seed)
    n = 4000 if JIT else 400
    stream = paper.abc_events(n, stay=0.7, gap_s=4.0, seed=seed)
    for window_ms, kleene, absent in ((60_000, False, False), (200_000, False, True), (40_000, True, False)):
        conditions = (EventComparison(0, "<", 2, "x", "x"),) if seed else ()
        absences = (PlainAbsence(0, (EventComparison(ABSENT, ">", 0, "x", "x"),)),) if absent else ()
        pattern = PlainPattern(3, window_ms, conditions, {1} if kleene else (), absences)
        partition = np.sort(rng.integers(0, 20, n)) + rng.integers(0, 2, n)
        events = PlainEvents(
            stream.time_ms,
            np.array([stream.type == j for j in range(3)]),
            partition,
            np.array([(stream.type == 1) & (rng.random(n) < 0.3)]) if absent else None,
            {"x": stream.x},
        )
        made = {name: engine(pattern) for name, engine in ENGINES.items()}
        found = {name: engine.push(events) for name, engine in made.items()}
        assert found["sase"].n_matches > (100 if JIT else 10)
        for name in ("linked", "siddhi"):
            assert found[name].event_of_item.tolist() == found["sase"].event_of_item.tolist(), name
            assert found[name].first_item_of_match.tolist() == found["sase"].first_item_of_match.tolist()
        nodes = made["linked"].counters.nodes, made["sase"].counters.nodes
        assert nodes[0] < nodes[1] if any(pattern.coverable) else nodes[0] == nodes[1]


@pytest.mark.parametrize("seed", [0, 1])
def test_products_of_long_chains_come_in_canonical_order(seed):
    """The rows of one product come in order, those of several must be merged: more of them than products."""
    rng = Random(seed)
    for _ in range(20):
        letters = "".join(letter * rng.randint(1, 4) for letter in "abababcbcdacd")
        linked, runs = LinkedCEP(PlainPattern(4)), SaseRuns(PlainPattern(4))
        found = linked.push(example(letters, "abcd")).positions
        assert found.tolist() == runs.push(example(letters, "abcd")).positions.tolist()
        assert linked.counters.chains < linked.counters.nodes


def test_slots_do_not_grow_with_the_stream():
    stream = paper.abc_events(30_000 if JIT else 2000, stay=0.5, gap_s=4.0)
    query = paper.StreamQuery("", (0, 1, 2), comparisons=((0, "<", 1),))
    # A partition that falls silent keeps its chains until there is need.
    for partition in (None, np.arange(len(stream.x)) // 50):
        events = replace(query.events(stream), partition_of_event=partition)
        for engine in (LinkedCEP, SaseRuns, SiddhiLikeRuns):
            made = engine(query.pattern(50))
            assert made.push(events).n_matches > 0
            assert len(made._store.free) <= 1024


def test_chains_of_the_last_component_are_let_go():
    engine = LinkedCEP(PlainPattern(2))
    engine.push(example("ab" * 50, "ab"))
    assert engine.counters.chains == 50 + 50 * 51 // 2
    assert engine.counters.peak_live <= 100


# --- what is counted --------------------------------------------------------------------------------------


def example(stream: str, kinds: str, **changed) -> PlainEvents:
    accepts = np.array([[letter == kind for letter in stream] for kind in kinds])
    return PlainEvents(np.arange(len(stream)), accepts, **changed)


def test_the_worked_example_of_the_paper():
    table = paper.worked_example().set_index("system")
    for name in ("SASE", "CoverMatch", "LinkedCEP"):
        row = table.loc[name]
        printed = row[["paper_partial_matches", "paper_copies", "paper_results"]].tolist()
        assert row[["partial_matches", "copies", "results"]].tolist() == printed
    assert table.loc["SASE", ["partial_matches", "copies", "results"]].tolist() == [24, 21, 14]
    assert table.loc["LinkedCEP", ["partial_matches", "copies", "results"]].tolist() == [13, 10, 14]
    assert table.loc["SASE", ["intermediate", "complete"]].tolist() == [10, 14]
    engine = LinkedCEP(PlainPattern(3), output="latest")
    engine.push(example("aabbabcc", "abc"))
    # <a2, b2, c2>, <a2, b3, c2> and <a3, b3, c2>
    assert engine.coverages.tolist() == [[1, 3, 7], [1, 5, 7], [4, 5, 7]]


def test_counters_by_component_of_the_worked_example():
    linked, runs = LinkedCEP(PlainPattern(3)), SaseRuns(PlainPattern(3))
    for engine in (linked, runs):
        engine.push(example("aabbabcc", "abc"))
    assert linked.counters.nodes_of_component.tolist() == [3, 4, 6]
    assert runs.counters.nodes_of_component.tolist() == [3, 7, 14]
    assert (linked.counters.chains, runs.counters.chains) == (2 + 3 + 3, 24)
    assert linked.counters.mean_chain_length == 13 / 8
    assert np.isnan(LinkedCEP(PlainPattern(3)).counters.mean_chain_length)


def test_numbers_of_matches_beyond_any_integer():
    """Six components, 4,000 events each: 4000^6 = 4.1e21 matches, more than 2^63."""
    width = 4000 if JIT else 30
    for _ in range(2):
        engine = LinkedCEP(PlainPattern(6), output="count")
        accepts = np.repeat(np.eye(6, dtype=np.uint8), width, axis=1)
        total = 0
        for rows in (slice(0, 5 * width + 7), slice(5 * width + 7, None)):
            total += engine.push(PlainEvents(np.arange(6 * width), accepts).take(rows)).n_matches
        assert total == width**6
        assert engine.counters.nodes == 6 * width
        width //= 8  # now every event alone fits an integer


def test_a_count_that_overflows_only_in_sum():
    """3,000 events end 1,500^6 = 1.1e19 matches each, just above what an event may count in one integer."""
    width = 1200 if JIT else 20
    accepts = np.repeat(np.eye(7, dtype=np.uint8), width, axis=1)
    engine = LinkedCEP(PlainPattern(7), output="count")
    assert engine.push(PlainEvents(np.arange(7 * width), accepts)).n_matches == width**7


def test_matches_that_cannot_be_listed_are_refused():
    accepts = np.repeat(np.eye(4, dtype=np.uint8), 3000, axis=1)
    with pytest.raises(ResultTooLargeError, match=r"event 9000 alone .* output='count'"):
        LinkedCEP(PlainPattern(4)).push(PlainEvents(np.arange(12_000), accepts))


def test_bundles_of_one_event_gain_nothing():
    events = example("abcabcabcacb", "abc")
    linked, runs = LinkedCEP(PlainPattern(3)), SaseRuns(PlainPattern(3))
    assert linked.push(events).bound() == runs.push(events).bound()
    for name in ("nodes", "copies", "chains", "intermediate", "complete"):
        assert getattr(linked.counters, name) == getattr(runs.counters, name)


def test_an_irrelevant_event_does_not_end_a_chain():
    with_others, without = (LinkedCEP(PlainPattern(2)) for _ in range(2))
    with_others.push(example("axaxxab", "ab"))
    without.push(example("aaab", "ab"))
    assert with_others.counters.nodes == without.counters.nodes == 4
    assert with_others.counters.chains == 2


@pytest.mark.skipif(not JIT, reason="too many events without compiled kernels")
def test_chains_gain_where_types_come_again():
    table = paper.gain_by_stay((0.0, 0.5, 0.8), n_events=5000).set_index("stay")
    ratio = table["node_ratio"]
    assert ratio[0.0] > 1.3 and ratio[0.5] > 1.3 * ratio[0.0] and ratio[0.8] > ratio[0.5]
    assert table["mean_chain_length"].is_monotonic_increasing


@pytest.mark.parametrize("seed", range(3))
def test_the_gain_on_short_streams(seed):
    """Three types, a window of 12, 30 events: the ratio of partial matches rises with the length of runs."""
    rng = Random(seed)

    def ratio(stay):
        nodes = [0, 0]
        for _ in range(60):
            letters = []
            for _ in range(30):
                letters.append(letters[-1] if letters and rng.random() < stay else rng.choice("abc"))
            for i, engine in enumerate((SaseRuns, LinkedCEP)):
                made = engine(PlainPattern(3, 12))
                made.push(example("".join(letters), "abc"))
                nodes[i] += made.counters.nodes
        return nodes[0] / nodes[1]

    none, half = ratio(0.0), ratio(0.5)
    assert none > 1.2 and half > 1.3 * none


# --- where the printed algorithm fails --------------------------------------------------------------------


@pytest.mark.parametrize("case", COUNTEREXAMPLES, ids=lambda case: case.name)
def test_a_counterexample(case):
    right = case.found(SaseRuns)
    assert right and case.found(LinkedCEP) == right
    assert case.found_as_printed() != right


def test_the_table_of_counterexamples():
    table = counterexamples().set_index("case")
    assert [name for name in table.index if " " not in name] == [f"X{i}" for i in range(1, 9)]
    assert table.loc["X1", ["by_runs", "printed", "lost"]].tolist() == ["a1 b1", "", "a1 b1"]
    assert table.loc["X3", "invented"] == "a1 b1"
    assert table.loc["X4", "lost"] == "a2 a3" and table.loc["X4 tail", "invented"] == "a2 a2"
    assert table.loc["X7", "lost"] == "a1 {b1 b2} c1"
    assert table.loc["X8", "invented"] == "a1 c1"
    assert (table["corrected"] == table["by_runs"]).all()


def test_the_printed_algorithm_finds_its_own_example():
    from papers.linked_cep.counterexamples import PrintedQuery, combine_match, cover_match

    rows = [{"type": letter.upper(), "ts": i} for i, letter in enumerate("aabbabcc")]
    query = PrintedQuery(("a", "b", "c"))
    coverages = cover_match(rows, query)
    assert sorted(node.positions() for node in coverages) == [(1, 3, 7), (1, 5, 7), (4, 5, 7)]
    matches = sorted(combine_match(coverages, query))
    assert matches == sorted(SaseRuns(PlainPattern(3)).push(example("aabbabcc", "abc")).bound())


# --- queries ----------------------------------------------------------------------------------------------


def test_coverable_components():
    ends = (EventComparison(0, "<", 2, "x", "x"),)
    assert PlainPattern(3, conditions=ends).coverable == (False, True, False)
    assert PlainPattern(3).coverable == (True, True, True)
    assert PlainPattern(3, conditions=ends, kleene={1}).coverable == (False, False, False)
    absence = PlainAbsence(0, (EventComparison(ABSENT, "<", 1, "x", "x"),))
    assert PlainPattern(3, absences=(absence,)).coverable == (True, False, True)
    assert PlainPattern(2, conditions=(EventComparison(0, "<", 1, "x", "x"),)).coverable == (False, False)
    assert PlainPattern(2, kleene={1}).coverable == (True, False)


# --- mistakes, types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: PlainPattern(0), "from 1 to 62"),
        (lambda: PlainPattern(2, -1), "window_ticks is -1"),
        (lambda: PlainPattern(2, kleene={2}), "component 2 does not exist. Components: 0 to 1"),
        (lambda: PlainPattern(2, conditions=(EventComparison(0, "=", 1, "x", "x"),)), "'=' is no comparison"),
        (
            lambda: PlainPattern(2, conditions=(EventComparison(1, "<", 1, "x", "x"),)),
            "names component 1 twice",
        ),
        (
            lambda: PlainPattern(2, conditions=(EventComparison(ABSENT, "<", 1, "x", "x"),)),
            "must name the absent event",
        ),
        (
            lambda: PlainPattern(
                3, kleene={0}, absences=(PlainAbsence(1, (EventComparison(ABSENT, "<", 0, "x", "x"),)),)
            ),
            "a condition of an absence must not name a Kleene closure",
        ),
        (lambda: PlainPattern(2, absences=(PlainAbsence(1),)), "an absence is after component 1 of 2"),
        (lambda: LinkedCEP(PlainPattern(1), output="some"), "output 'some' is not known"),
        (lambda: SaseRuns(PlainPattern(1), output="latest"), "output 'latest' is not known"),
        (lambda: LinkedCEP(PlainPattern(1), kleene="sets"), "kleene 'sets' is not known"),
        (lambda: LinkedCEP(PlainPattern(1)).coverages, "keeps no coverages"),
        (
            lambda: LinkedCEP(PlainPattern(1), copies="depe"),
            "copies='depe' is not known. Did you mean 'deep'",
        ),
        (lambda: SaseRuns(PlainPattern(1), copies=None), "copies=None is not known. Ways: .*'pointer'"),
        (lambda: SaseRuns(PlainPattern(1), copies="deep", payload=-1), "payload=-1: expected a whole number"),
        (lambda: LinkedCEP(PlainPattern(1), copies="deep", payload=0.5), "payload=0.5: expected a whole"),
        (lambda: LinkedCEP(PlainPattern(1), payload=4), "payload=4 with copies='pointer': only deep copies"),
        (lambda: SaseRuns(PlainPattern(1), ordered=1), "ordered=1"),
        (lambda: LinkedCEP(PlainPattern(2)).push(example("ab", "a")), r"shape \(1, 2\). It must be \(2, 2\)"),
    ],
)
def test_mistakes_are_told(make, message):
    with pytest.raises(CepError, match=message):
        make()


def test_mistakes_in_events_leave_the_engine_as_it_was():
    pattern = PlainPattern(2, conditions=(EventComparison(0, "<", 1, "x", "x"),))
    engine = LinkedCEP(pattern)
    values = {"x": np.array([1, 2])}
    assert engine.push(example("ab", "ab", columns=values)).n_matches == 1
    with pytest.raises(OrderError, match="begin at 0, before 1"):
        engine.push(example("ab", "ab", columns=values))
    later = replace(example("ab", "ab", columns=values), time=np.array([5, 6]))
    with pytest.raises(ColumnNotFoundError, match="'x' not found"):
        engine.push(replace(later, columns={}))
    with pytest.raises(OrderError, match="time falls at event 1"):
        engine.push(replace(later, time=np.array([6, 5])))
    with pytest.raises(CepError, match="whole ticks"):
        engine.push(replace(later, time=np.array([5.0, 6.0])))
    with pytest.raises(CepError, match="between integers and floats"):
        engine.push(replace(later, columns={"x": np.array([1.0, 2.0])}))
    with pytest.raises(CepError, match="code of at least 0"):
        engine.push(replace(later, partition_of_event=np.array([0, -1])))
    with pytest.raises(CepError, match="accepts_of_component"):
        engine.push(replace(later, accepts_of_component=np.ones((3, 2), bool)))
    assert engine.push(later).n_matches == 2


def test_large_integers_are_compared_exactly_and_missing_values_never():
    large = 2**53
    columns = {"x": np.array([large, large + 1]), "y": np.array([np.iinfo(np.int64).min, 3])}
    for name, sign, expected in (("x", "<", 1), ("x", "==", 0), ("y", "<", 0), ("y", "!=", 0)):
        pattern = PlainPattern(2, conditions=(EventComparison(0, sign, 1, name, name),))
        for engine in (LinkedCEP, SaseRuns):
            assert engine(pattern).push(example("ab", "ab", columns=columns)).n_matches == expected


def test_frozen_arrays_of_any_type_are_taken():
    columns = {"x": np.array([1, 2], np.int8), "y": np.array([0.5, 2.5], np.float32)}
    pattern = PlainPattern(2, 5, (EventComparison(0, "<", 1, "x", "y", 2.0),))
    events = example("ab", "ab", columns=columns, partition_of_event=np.array([3, 3], np.int8))
    for array in (events.time, events.accepts_of_component, *columns.values()):
        array.flags.writeable = False
    assert LinkedCEP(pattern).push(events).positions.tolist() == [[0, 1]]


# --- experiments ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def streams():
    n = 3000 if JIT else 300
    return [paper.abc_events(n), paper.abc_events(n, stay=0.8), paper.traffic_events(n)]


def test_figures_6_and_7(streams):
    table = paper.matching_time(streams, per_group=2)
    assert len(table) == 3 * 3 * 5 * 4 and table["same_matches"].all()
    assert table["system"].unique().tolist() == list(paper.SYSTEMS)
    assert table["copying"].unique().tolist() == ["pointer", "references", "deep"]
    share = table.groupby("group")["coverable_share"].first()
    assert (
        share["Q1"] == share["Q2"] == share["Q5"] == 1 and 0 < share["Q3"] < 1 and share["Q4"] < share["Q3"]
    )
    wide = table.pivot(index=["stream", "copying", "group"], columns="system", values="intermediate")
    assert (wide["LinkedCEP"] <= wide["SASE"]).all() and (wide["SASE"] == wide["Siddhi-like"]).all()
    assert (table["matches"] > 0).mean() > (0.7 if JIT else 0.5)
    written = table.pivot(index=["stream", "group", "system"], columns="copying", values="copied_bytes")
    assert (written["pointer"] == 0).all() and (written["references"] > 0).mean() > 0.8
    assert (written["deep"] >= 2 * written["references"]).all()


def test_the_numbers_of_the_paper():
    table = paper.paper_numbers()
    assert table.loc[table["figure"] == "6", "value"].tolist() == [385, 290, 220]


def test_an_unknown_system_is_named():
    with pytest.raises(CepError, match="'Esper' is not known"):
        paper.run_query("Esper", paper.StreamQuery("", (0, 1, 2)), paper.abc_events(5))


def test_a_query_reads_as_text():
    query = paper.StreamQuery("Q4", (0, 2, 1), (5, 0, 3), ((0, "<", 1), (1, ">", 2)), same_key=True)
    assert str(query) == (
        "SEQ(A a, C c, B b) WHERE a.x >= 5 AND c.x >= 0 AND b.x >= 3 AND a.x < c.x AND c.x > b.x AND [key]"
    )
