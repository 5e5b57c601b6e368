"""The machine of the tree: its counted work, dropping and skipping, batches, saving, learning."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, ResultTooLargeError
from cepkit.events import TEXT, Events
from cepkit.kernels.wings import tree_layout as kernel
from cepkit.language.sequences.construction import sequence_query
from cepkit.shedding import tree_machine
from cepkit.shedding.tree_machine import TreeMachine
from cepkit.shedding.tree_program import TreeProgram
from tests.support.plain_tree import PlainPart, PlainTree
from tests.support.sequence_runs import bound, prepared
from tests.support.sizes import JIT, seeds
from tests.support.tree_cases import FAMILIES, tree_case

SEEDS, FULL_SEEDS = (15, 600) if JIT else (15, 300)


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds(SEEDS, FULL_SEEDS))


def made(frame: pd.DataFrame, text: str, **how) -> tuple[TreeProgram, Events]:
    """Return a query as a tree, and the events of a frame."""
    own = {name: how.pop(name) for name in ("negation", "order") if name in how}
    query = sequence_query(text, event_type="kind", order_by=["t"], **how)
    program, events = prepared(query, frame)
    tree = TreeProgram.of(program, **own)
    assert isinstance(tree, TreeProgram), tree
    return tree, events


# --- counted work -----------------------------------------------------------------------------------------


def counted_case(seed: int) -> tuple[list[PlainPart], list, list[str], str, pd.DataFrame, int, str]:
    """Return a sequence with conditions, twice: for the plain tree and as text."""
    rng = Random(f"counted {seed}")
    n = rng.choice([1, 2, 3, 3, 4])
    parts: list[PlainPart] = []
    tests, where, pattern = [], [], []
    group = rng.choice(range(n)) if rng.random() < 0.5 else -1
    for i, name in enumerate("abcd"[:n]):
        if i and rng.random() < 0.25:
            parts.append(PlainPart(f"n{i}", "N", is_absent=True))
            pattern.append(f"!N n{i}")
        kind = "A" if rng.random() < 0.15 else name.upper()
        parts.append(PlainPart(name, kind, is_group=i == group))
        pattern.append(f"{kind}+ {name}[]" if i == group else f"{kind} {name}")

    def add(part: int, of: str, text: str, test) -> None:
        where.append(text)
        tests.append(test)
        parts[part] = replace(parts[part], **{of: (*getattr(parts[part], of), len(tests) - 1)})

    def value(name: str, is_group: bool):
        return (lambda b: b[name][-1]["x"]) if is_group else (lambda b: b[name]["x"])

    for i, part in enumerate(list(parts)):
        one = part.name + ("[i]" if part.is_group else "")
        if rng.random() < 0.4:
            limit = rng.randint(-1, 1)
            own = value(part.name, part.is_group)
            add(i, "unary", f"{one}.x > {limit}", lambda b, own=own, limit=limit: own(b) > limit)
        if part.is_group and rng.random() < 0.6:
            name = part.name
            test = lambda b, name=name: b[name][-1]["x"] >= b[name][-2]["x"]  # noqa: E731
            add(i, "taken", f"{name}[i].x >= {name}[i-1].x", test)
        earlier = [other for other in parts[:i] if not other.is_absent]
        while earlier and rng.random() < 0.6:
            other = rng.choice(earlier)
            shift = rng.randint(-1, 2)
            text = f"{other.name}{'[i]' if other.is_group else ''}.x <= {one}.x + {shift}"

            def test(b, part=part, other=other, shift=shift):
                left = b[other.name] if other.is_group else [b[other.name]]
                right = b[part.name] if part.is_group else [b[part.name]]
                return all(x["x"] <= y["x"] + shift for x in left for y in right)

            add(i, "joined", text, test)
    n_events = rng.randint(5, 30)
    frame = pd.DataFrame(
        {
            "kind": [rng.choice(["N", *"ABCDN"[: n + 1]]) for _ in range(n_events)],
            "t": np.cumsum([rng.choice([0, 1, 1, 2]) for _ in range(n_events)]),
            "x": [rng.randint(-2, 4) for _ in range(n_events)],
        }
    )
    text = f"PATTERN SEQ({', '.join(pattern)}) WHERE {' AND '.join(['skip_till_any_match', *where])}"
    return (
        parts,
        tests,
        where,
        text,
        frame,
        rng.randint(2, 12),
        rng.choice(["kills_if", "kills_if", "allowed_if"]),
    )


def test_work_is_that_of_the_plain_tree(seed):
    """Events, partial matches and conditions; some events, partial matches and pairs are dropped."""
    parts, tests, where, text, frame, within, negation = counted_case(seed)
    rng = np.random.default_rng(seed)
    tree, events = made(frame, text, within=within, negation=negation)
    n_bins, bin_size = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    machine = TreeMachine(tree, events, n_bins=n_bins, bin_size=bin_size)
    assert machine.considered.shape[0] == len(tree.types)
    rows = frame.to_dict("records")
    plain = PlainTree(parts, tests, rows, within, negation == "kills_if", bin_size=bin_size)
    numbers: dict[str, list[int]] = {}
    for i, condition in enumerate(tree.conditions):
        numbers.setdefault(condition.text, []).append(i)
    shown = [str(condition) for condition in tree.program.query.where]
    at = [numbers[shown[i]].pop(0) for i in range(len(where))]
    positive = [part.name for part in parts if not part.is_absent]
    name_of_node = [leaf.variable for leaf in tree.leaves] + [f"join {k + 1}" for k in range(len(tree.nodes))]
    if seed % 3 == 1:
        plain.skip = machine.skip = rng.random(machine.considered.shape) < 0.2
    for p in range(len(frame)):
        if rng.random() < 0.1:
            continue  # a dropped event
        outcome = machine.feed(p)
        evaluated, created, removed, found = plain.feed(p)
        assert [int(outcome.evaluated[i]) for i in at] == evaluated
        assert (outcome.created, outcome.removed) == (created, removed)
        assert sorted(outcome.matches) == sorted(found)
        assert all(
            0 <= done <= outcome.evaluated.sum() and 0 < n <= created
            for done, n in outcome.found.before.tolist()
        )
        alive = machine.partial()
        nodes = [name_of_node[node] for node in alive.node]
        columns = (alive.first_position, alive.last_position, alive.length)
        keys = list(zip(nodes, *(column.tolist() for column in columns), strict=True))
        wanted = sorted((m.key[0].lstrip("!?"), *m.key[1:]) for m in plain.alive)
        assert sorted(keys) == wanted and machine.n_alive == len(wanted) == len(alive)
        assert machine.size_bytes == sum(64 + 8 * key[-1] for key in wanted)
        assert np.array_equal(alive.first_time, frame["t"].to_numpy()[alive.first_position])
        if rng.random() < 0.15:  # drop some

            def chosen(key: tuple) -> bool:
                return sum(key[1:]) % 3 == 0

            ids = alive.id[np.array([chosen(key) for key in keys], np.bool_)]
            before = len(plain.alive)
            plain.alive = [m for m in plain.alive if not chosen(m.key)]
            assert machine.drop(ids) == before - len(plain.alive)
    assert len(positive) == tree.n_states


def test_counted_cases_reach_everything():
    seen = [counted_case(seed) for seed in range(60)]
    assert sum(any(part.is_group for part in one[0]) for one in seen) > 10
    assert sum(any(part.is_absent for part in one[0]) for one in seen) > 10
    assert sum(any(part.joined for part in one[0] if part.is_absent) for one in seen) > 5
    n_matches = 0
    for one in seen:
        tree, events = made(one[4], one[3], within=one[5])
        n_matches += len(matches_of_run(TreeMachine(tree, events), 0, events.n_events)) > 0
    assert n_matches > 20


def matches_of_run(machine: TreeMachine, first: int, stop: int) -> list:
    """Return the matches that a machine finds in a run over some positions, as tuples."""
    return [match for _, matches in machine.run(first, stop) for match in machine._as_matches(matches)]


# --- batches, saving --------------------------------------------------------------------------------------


def recoded(events: Events, rng: Random) -> Events:
    """Return events whose text columns have codes of their own."""
    columns = {}
    for name, column in events.columns.items():
        if column.type.kind == TEXT:
            used = sorted({code for code in column.values.tolist() if code >= 0})
            rng.shuffle(used)
            recode = np.full(len(column.texts) + 1, -1, np.int64)
            recode[used] = np.arange(len(used))
            column = replace(column, values=recode[column.values], categories=column.texts[used])
        columns[name] = column
    return replace(events, columns=columns)


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_and_saved_states_change_nothing(seed, family):
    case = tree_case(seed, 0, family)
    program, events = bound(case)
    tree, rng, n = TreeProgram.of(program), Random(f"batches {seed}"), events.n_events
    whole = TreeMachine(tree, events)
    wanted = [whole.feed(p) for p in range(n)]
    last = whole.finish()
    cuts = sorted({0, n, *(rng.randint(0, n) for _ in range(rng.choice([0, 1, 4])))})
    own = recoded if not program.ordered_text else lambda events, rng: events
    machine, at = TreeMachine(tree, own(events.between(0, cuts[0]), rng)), 0
    machine.learning = True
    for low, high in pairwise(cuts):
        machine.extend(own(events.between(low, high), rng))
        for p in range(low, high):
            if rng.random() < 0.3:
                machine = TreeMachine.load(tree, pickle.loads(pickle.dumps(machine.save())))
            outcome = machine.feed(p)
            assert outcome.evaluated.tolist() == wanted[p].evaluated.tolist()
            assert outcome.passed.tolist() == wanted[p].passed.tolist()
            assert (outcome.created, outcome.removed) == (wanted[p].created, wanted[p].removed)
            assert outcome.matches == wanted[p].matches
            assert outcome.found.before.tolist() == wanted[p].found.before.tolist()
            at += 1
    assert machine.finish().positions.tolist() == last.positions.tolist()
    assert at == n and machine.n_alive == whole.n_alive
    found = [match for outcome in wanted for match in outcome.matches]
    assert matches_of_run(TreeMachine(tree, events), 0, n) == found
    none = np.zeros((0, kernel.N_COUNTS + 2 * len(tree.conditions)), np.int64)
    counts = np.concatenate([none, *(counts for counts, _ in TreeMachine(tree, events).run(0, n))])
    of_conditions = counts[:, kernel.N_COUNTS : kernel.N_COUNTS + len(tree.conditions)]
    assert of_conditions.tolist() == [outcome.evaluated.tolist() for outcome in wanted]
    assert counts[:, kernel.FOUND].tolist() == [len(outcome.matches) for outcome in wanted]


def test_a_long_stream_keeps_only_its_window(seed=0):
    rng = np.random.default_rng(seed)
    n, step = 12_000 if JIT else 6_000, 500
    frame = pd.DataFrame({"kind": rng.choice(list("ABX"), n), "t": np.arange(n), "x": rng.normal(size=n)})
    tree, events = made(frame, "PATTERN SEQ(A a, B b) WHERE skip_till_any_match AND a.x < b.x", within=5)
    machine, found = TreeMachine(tree, events.between(0, 0)), []
    for low in range(0, n, step):
        machine.extend(events.between(low, min(low + step, n)))
        found += matches_of_run(machine, low, min(low + step, n))
    assert found == matches_of_run(TreeMachine(tree, events), 0, n)
    assert machine.n_events == n and len(machine.types_of_events()) < 3_000


# --- learning ---------------------------------------------------------------------------------------------


def test_what_a_machine_learns(seed):
    parts, _, _, text, frame, within, negation = counted_case(seed)
    tree, events = made(frame, text, within=within, negation=negation)
    machine = TreeMachine(tree, events, n_bins=3, bin_size=4)
    machine.learning = True
    outcomes = [machine.feed(p) for p in range(events.n_events)]
    known = machine.ancestry
    assert known.base == 0 and len(known.left) == sum(outcome.created for outcome in outcomes) + sum(
        len(tree.leaves) == 1 and parts[0].is_group for outcome in outcomes for _ in outcome.matches
    )
    own = np.array([condition.node >= 0 for condition in tree.conditions], np.bool_)
    assert known.cost.sum() <= sum(outcome.evaluated[own].sum() for outcome in outcomes)
    assert (machine.contributed <= machine.considered).all()
    assert machine.contributed.sum() == sum(outcome.created for outcome in outcomes)
    ids = [id for outcome in outcomes for id in outcome.found.ids.tolist()]
    assert np.flatnonzero(known.is_match).tolist() == sorted(ids)
    for outcome in outcomes:
        for id, match in zip(outcome.found.ids.tolist(), outcome.matches, strict=True):
            waiting, positions = [id], set()
            while waiting:
                row = waiting.pop()
                if row >= 0:
                    waiting += [known.left[row], known.right[row]]
                    if known.node[row] < tree.n_leaves:
                        positions.add(int(known.position[row]))
            assert {p for own in match for p in own} == positions
    assert machine.learning and not TreeMachine(tree, events).learning


# --- orders, AND, errors ----------------------------------------------------------------------------------

FRAME = pd.DataFrame({"kind": list("ABCABC"), "t": range(6), "x": [1, 2, 3, 4, 5, 6]})


def test_all_of_single_events_is_one_tree():
    tree, events = made(FRAME, "PATTERN AND(A a, B b, C c) WHERE skip_till_any_match AND a.x < b.x", within=9)
    assert len(tree.nodes) == 2 and tree.types == ("A", "B", "C")
    found = matches_of_run(TreeMachine(tree, events), 0, 6)
    assert sorted(found) == sorted(((a,), (b,), (c,)) for a, b, c in product([0, 3], [1, 4], [2, 5]) if a < b)


def test_the_tree_of_a_query():
    tree, _ = made(
        FRAME,
        "PATTERN SEQ(A a, !B n, C+ c[], B b) WHERE skip_till_any_match AND a.x > 0 AND a.x < c[i].x "
        "AND count(c) > 1 AND n.x > a.x AND b.x > a.x",
        within=9,
    )
    assert tree.types == ("A", "C", "B")
    assert [leaf.variable for leaf in tree.leaves] == ["a", "c", "b", "n"]
    assert [(one.leaves, one.node) for one in tree.conditions] == [
        ((0,), 0), ((0, 1), 4), ((1,), 1), ((0, 3), 3), ((0, 2), 5),
    ]  # fmt: skip
    assert [(node.left, node.right) for node in tree.nodes] == [(0, 1), (4, 2)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PATTERN SEQ(A a, B b) WHERE skip_till_next_match", "by skip-till-any-match only"),
        (
            "PATTERN SEQ(A a, B b) WHERE sqrt(a.x + b.x) > 1 AND skip_till_any_match",
            "computes 'sqrt' with values",
        ),
    ],
)
def test_reasons(text, reason):
    with pytest.raises(cep.errors.UnsupportedQueryError, match=reason):
        cep.match(FRAME, text, event_type="kind", order_by="t", engine="tree")


def test_auto_never_takes_the_tree():
    from cepkit.planning.planner import engines

    assert not engines()["tree"].automatic


def test_too_many_partial_matches(monkeypatch):
    monkeypatch.setattr(tree_machine, "MOST_PARTIAL_MATCHES", 500)
    frame = pd.DataFrame({"kind": ["A"] * 30, "t": range(30), "x": 1})
    tree, events = made(frame, "PATTERN SEQ(A+ a[]) WHERE skip_till_any_match", within=100)
    with pytest.raises(ResultTooLargeError, match="more than 500 partial matches"):
        matches_of_run(TreeMachine(tree, events), 0, 30)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda tree, events: TreeMachine(tree, events, n_bins=0), "expected at least 1"),
        (
            lambda tree, events: setattr(TreeMachine(tree, events), "skip", np.zeros((1, 2))),
            "expected .3, 1, 4.",
        ),
        (lambda tree, events: TreeMachine(tree, events).feed(6), "expected positions from 0 to 5, ascending"),
        (lambda tree, events: TreeProgram.of(tree.program, negation="no"), "'kills_if', 'allowed_if'"),
        (
            lambda tree, events: TreeProgram.of(tree.program, order=["a"]),
            "expected every variable once: a, b, c",
        ),
        (
            lambda tree, events: TreeMachine.load(tree, {**TreeMachine(tree, events).save(), "query": ["x"]}),
            "belongs to another query",
        ),
    ],
)
def test_errors(work, message):
    tree, events = made(FRAME, "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match", within=9)
    with pytest.raises(CepError, match=message):
        work(tree, events)
