"""The first matches that an explorer shows, against the definition; what it says before all are counted."""

from __future__ import annotations

import threading
from random import Random

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.searched_matches import SearchedMatches
from cepkit.errors import CepError
from cepkit.explorer.presenting.run_presenter import COUNTING, NOT_COUNTED
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.timeline import spans_of
from cepkit.insight import first_matches
from cepkit.insight.first_matches import FirstMatchFinder
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import as_matches, bound
from tests.support.sizes import seeds
from tests.support.waiting import wait_until

JIT = not numba.config.DISABLE_JIT
CALL = {"order_by": "t", "event_type": "kind"}
SEARCHED = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x + 0.2 AND c.x > min(b.x) WITHIN 20"
ORDERED = "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x + b.x + 0.1 WITHIN 60"
COUNTED = "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x + 0.3 AND c.x > b.x WITHIN 60"


def stream(n: int, n_keys: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(n)
    frame = pd.DataFrame(
        {"t": np.arange(n), "kind": rng.choice(list("ABCD"), n), "x": rng.random(n).round(2)}
    )
    return frame.assign(k=rng.integers(0, n_keys, n)) if n_keys else frame


# --- the first matches are the first of the definition


def check(seed: int, family: str, monkeypatch, **how) -> None:
    draw = Random(seed)
    case = gs.case(seed, None, family)
    program, events = bound(case)
    engine = how.get("engine", "search")
    if reason := engines()[engine].unsupported(program):
        pytest.skip(reason)
    wanted = sequence_matches(case.query, case.rows)
    monkeypatch.setattr(first_matches, "_FEWEST", draw.randint(1, 6))
    monkeypatch.setattr(first_matches, "_GROWTH", draw.randint(2, 4))
    monkeypatch.setattr(first_matches, "_SHORT", 0)
    monkeypatch.setattr(first_matches, "_MOST_MATCHES", draw.choice([1, 10, 10**6]))
    n = draw.randint(1, 12)
    opener = FirstMatchFinder(program, events, engine, how.get("is_cold", True))
    found = opener.first(n, 0)
    is_behind = any(
        absence.before >= len(one.branch.components)
        for one in program.branches
        for absence in one.branch.absences
    )
    assert (found is None) == is_behind
    if found is None:
        pytest.skip("an event must be absent after the last one: no match is known to be the first")
    made = as_matches(program, found.block)
    assert made == wanted[: len(made)] and len(made) <= n
    assert not found.is_all or len(made) == len(wanted)
    for partition in range(events.n_partitions):
        own = np.flatnonzero(events.partition_of_event == partition)
        since = draw.randrange(max(1, len(own)))
        part = opener.first_of(own, since, n)
        if part is None:
            assert not opener.is_local or not len(own)
            continue
        behind = [match for match in wanted if match.rows[-1] in own[since:]]
        made = as_matches(program, part.block)
        assert made == behind[: len(made)] and len(made) <= n
        assert not part.is_all or len(made) == len(behind)


@pytest.mark.parametrize("family", gs.FAMILIES)
@pytest.mark.parametrize("seed", seeds(2, 120))
def test_first_matches_are_those_of_the_definition(seed, family, monkeypatch):
    check(seed, family, monkeypatch)


@pytest.mark.parametrize("engine", ["search", "ordered", "chain"])
@pytest.mark.parametrize("family", ["any", "after_match", "window"])
@pytest.mark.parametrize("seed", seeds(2, 6))
def test_first_matches_of_a_compiled_engine(seed, family, engine, monkeypatch):
    check(seed, family, monkeypatch, engine=engine, is_cold=False)


@pytest.mark.parametrize(("engine", "least"), [("search", 28), ("ordered", 2), ("chain", 2)])
def test_most_random_cases_have_first_matches(engine, least):
    families = gs.FAMILIES if engine == "search" else ("any", "after_match", "window")
    programs = [bound(gs.case(seed, None, family))[0] for seed in range(2) for family in families]
    assert sum(engines()[engine].unsupported(program) is None for program in programs) >= least


def test_matches_with_neighbouring_numbers_are_made_together():
    frame = stream(600)
    found = cep.match(frame, SEARCHED, **CALL)._found.whole
    whole = found.ending(0, len(frame))
    program = cep.match(frame, SEARCHED, **CALL)._found.program
    again = search_sequence(program, found.events, most_known=1)
    assert isinstance(again, SearchedMatches) and len(whole) > 100
    calls, ending = [], again.ending
    again.ending = lambda low, high: calls.append((low, high)) or ending(low, high)
    for numbers in (range(60), [5, 3, 70, 4, 4, len(whole) - 1], range(len(whole))):
        made, wanted = again.take(list(numbers)), whole.take(np.array(numbers))
        assert all(np.array_equal(getattr(made, name), getattr(wanted, name)) for name in made.__slots__)
    assert len(calls) < 10


# --- what is shown before all are counted


class Closed:
    """Holds off the counting of matches, so that a test sees what there is before."""

    def __init__(self, monkeypatch):
        self.gate = threading.Event()
        self.gate.set()
        count = Result.count

        def counted(result):
            self.gate.wait()
            return count(result)

        monkeypatch.setattr(Result, "count", counted)
        monkeypatch.setattr(first_matches, "_SHORT", 0)
        monkeypatch.setattr(
            "cepkit.explorer.presenting.answer_presenter.funnels", lambda result: [([], True)]
        )  # compiles much


def shown(explorer):
    board = explorer.board
    spans, ids = np.frombuffer(board.timeline.spans).reshape(-1, 2), np.frombuffer(board.timeline.span_ids)
    return board.table.rows, board.table.numbers, spans, ids


@pytest.fixture
def closed(monkeypatch):
    made = Closed(monkeypatch)
    yield made
    made.gate.set()


@pytest.mark.parametrize("query", [SEARCHED, ORDERED, COUNTED])
def test_what_is_shown_first_is_part_of_what_is_shown_last(query, closed):
    """Rows, their numbers and the bands stay as they are when the matches are counted."""
    frame = stream(20_000)
    explorer = frame.cep.explore(order_by="t", event_type="kind")
    for text in (query, query.replace("x + 0.", "x + 0.1")):  # of a shape that is new, and one that is known
        if text != query and query == COUNTED:  # counted as soon as shown
            explorer.text = text
            matches = cep.match(frame, text, **CALL)
            board = explorer.wait(120).board
            wanted = Result(explorer._data, matches._found.program, lambda: matches, None)  # noqa: B023
            assert wanted.count() == matches.count() > 100
            traits = wanted.pages.traits(1)
            assert {name: getattr(board.table, name) for name in traits} == traits
            assert np.array_equal(
                np.frombuffer(board.timeline.spans).reshape(-1, 2), spans_of(wanted, None)[0]
            )
            assert np.frombuffer(board.timeline.span_ids).tolist() == spans_of(wanted, None)[1].tolist()
            return
        closed.gate.clear()
        explorer.text = text
        wait_until(lambda: explorer.board.table.total == COUNTING)
        wait_until(lambda: "counting all" in explorer.status["message"])
        rows, numbers, spans, ids = shown(explorer)
        assert explorer.status["state"] == "running" and explorer.board.table.sortable == []
        assert "not counted" in repr(explorer) and len(rows) == 15
        explorer.select(3)
        wait_until(lambda: explorer.selected == 3)
        closed.gate.set()
        explorer.wait(120, "matches")
        assert explorer.status["state"] == "done" and explorer.selected == 3
        later = shown(explorer)
        assert later[:2] == (rows, numbers)
        assert np.array_equal(later[2][: len(spans)], spans) and np.array_equal(later[3][: len(ids)], ids)
        matches = cep.match(frame, text, **CALL)
        assert explorer.board.table.total == f"{matches.count():,}"
        assert explorer.board.table.n_pages == str(-(-matches.count() // 15))
        first = matches.to_frame(limit=None).head(15)
        assert rows == [[str(value) for value in row] for row in first.itertuples(index=False)]


def test_bands_of_a_key_and_a_window_stay(closed):
    frame = stream(20_000, 4)
    call = {**CALL, "partition_by": "k"}
    explorer = frame.cep.explore(ORDERED, **call).wait(120)
    board = explorer.board
    for window in ([], [12_000.0, 16_000.0]):
        board.timeline.window = window
        explorer.wait(120)
        closed.gate.clear()
        explorer.move("c0", 0.15 if window else 0.05)
        wait_until(lambda: board.table.total == COUNTING)
        rows, numbers, spans, ids = shown(explorer)
        assert len(spans) and np.isnan(ids).all()
        closed.gate.set()
        later = shown(explorer.wait(120))
        assert (later[0], later[1]) == (rows, numbers) and not np.isnan(later[3]).any()
        assert np.array_equal(later[2][: len(spans)], spans) and list(board.timeline.window) == window


def test_cancelled_counting_keeps_the_first_matches(closed):
    frame = stream(20_000)
    explorer = frame.cep.explore(SEARCHED, **CALL).wait(120)
    closed.gate.clear()
    explorer.move("c0", 0.3)
    wait_until(lambda: explorer.board.table.total == COUNTING)
    kept = shown(explorer)
    explorer.cancel()
    assert explorer.status["state"] == "cancelled" and "not counted" in explorer.status["message"]
    assert explorer.board.table.total == NOT_COUNTED and shown(explorer)[:2] == kept[:2]
    closed.gate.set()
    explorer.wait(60)
    assert explorer.board.table.total == NOT_COUNTED
    explorer.text += " AND"  # wrong: what was found before stays
    assert explorer.status["state"] == "failed" and shown(explorer)[:2] == kept[:2]
    explorer.show_page(2)  # counts them after all
    table = explorer.wait(60).board.table
    wanted = cep.match(frame, SEARCHED.replace("0.2", "0.3"), **CALL).count()
    assert (table.page, table.total) == (2, f"{wanted:,}") and table.numbers[0] == "15"
    with pytest.raises(CepError, match="wait: unknown what='match'; write 'all' or 'matches'"):
        explorer.wait(60, "match")


def test_the_next_movement_ends_the_counting(closed):
    frame = stream(20_000)
    explorer = frame.cep.explore(SEARCHED, **CALL).wait(120)
    totals = []
    explorer.board.table.observe(lambda change: totals.append(change["new"]), "total")
    closed.gate.clear()
    for value in (0.25, 0.3, 0.35):
        explorer.move("c0", value)
        wait_until(lambda: explorer.board.table.total == COUNTING)
    closed.gate.set()
    wanted = cep.match(frame, SEARCHED.replace("0.2", "0.35"), **CALL)
    assert explorer.wait(120).board.table.total == f"{wanted.count():,}"
    assert set(totals) == {COUNTING, f"{wanted.count():,}"}  # of no value between
    assert explorer.matches.query == wanted.query


def test_a_new_shape_is_shown_before_anything_of_it_is_compiled(closed, monkeypatch):
    frame = stream(20_000)
    explorer = frame.cep.explore("a\na: x > 0.5", **CALL).wait(120)
    closed.gate.clear()
    monkeypatch.setattr("cepkit.engines.shared.kernels.load", lambda *_: 1 / 0)
    explorer.text = SEARCHED.replace("a.x + 0.2", "a.x + 0.2 * a.x")
    assert explorer.status["message"].startswith("compiling a pattern of a new shape")
    wait_until(lambda: explorer.board.table.total == COUNTING)
    assert len(explorer.board.table.rows) == 15
    explorer.cancel()


def test_few_and_no_matches_are_shown_when_all_are_counted():
    frame = stream(20_000).assign(x=lambda frame: np.where(frame["t"] < 19_900, 0.5, frame["x"]))
    for more in ("", " AND a.x > 2"):
        explorer = frame.cep.explore(SEARCHED.replace(" WITHIN", f"{more} WITHIN"), **CALL).wait(120)
        wanted = cep.match(frame, SEARCHED.replace(" WITHIN", f"{more} WITHIN"), **CALL).count()
        assert explorer.status["state"] == "done" and explorer.board.table.total == f"{wanted:,}"
        assert (wanted > 0) == (not more)
