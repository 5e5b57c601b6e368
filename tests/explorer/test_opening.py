"""What an explorer shows before all matches are counted."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.search import SearchedMatches, search_sequence
from cepkit.errors import CepError
from cepkit.explorer.running.result import Result
from tests.support.outputs import Outputs
from tests.support.waiting import wait_until

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


@pytest.fixture
def gate(monkeypatch):
    """Holds off the counting of matches, so that a test sees what there is before."""
    opened, count = threading.Event(), Result.count
    opened.set()
    monkeypatch.setattr(Result, "count", lambda result: (opened.wait(60), count(result))[1])
    yield opened
    opened.set()


@pytest.mark.parametrize("query", [SEARCHED, ORDERED, COUNTED])
def test_some_of_many_matches_are_shown_before_all_are_counted(query, gate, monkeypatch):
    frame = stream(20_000)
    every = cep.match(frame, query, **CALL)
    monkeypatch.setattr(type(every._found.whole), "at_least", lambda whole: (20, False))
    explorer = frame.cep.explore("", **CALL)  # "": the matches of an example would be shown before
    gate.clear()
    explorer.text = query
    table = explorer.board.table
    wait_until(lambda: table.total == "≥ 20" and "finding all of them" in explorer.status["message"])
    whole = [[str(value) for value in row] for row in every.to_frame(limit=None).itertuples(index=False)]
    assert len(table.rows) == 15 and table.numbers == [""] * 15 and table.sortable == []
    assert all(row in whole for row in table.rows)
    assert explorer.status["state"] == "running" and "no result yet" in repr(explorer)
    gate.set()
    assert explorer.wait(120, "matches").status["state"] == "done"
    assert table.rows == whole[:15] and table.total == f"{every.count():,}" and table.numbers[14] == "14"
    with pytest.raises(CepError, match="wait: unknown what='match'; write 'all' or 'matches'"):
        explorer.wait(60, "match")


def test_the_next_movement_ends_the_counting(gate, monkeypatch):
    monkeypatch.setattr("cepkit.explorer.presenter.PATIENCE_S", 0.0)
    frame = stream(20_000)
    explorer = frame.cep.explore(SEARCHED, **CALL).wait(120)
    totals = []
    explorer.board.table.observe(lambda change: totals.append(change["new"]), "total")
    gate.clear()
    for value in (0.25, 0.3, 0.35):
        explorer.move("c0", value)
        wait_until(lambda: explorer.status["state"] == "running")
    gate.set()
    wanted = cep.match(frame, SEARCHED.replace("0.2", "0.35"), **CALL)
    assert explorer.wait(120).board.table.total == f"{wanted.count():,}"
    assert set(totals) == {f"{wanted.count():,}"}  # of no value between
    assert explorer.matches.query == wanted.query


def test_a_saved_board_shows_what_it_showed_and_why_a_table_is_empty(gate, monkeypatch):
    outputs = Outputs()
    monkeypatch.setattr("IPython.display.display", outputs.display)
    monkeypatch.setattr("cepkit.explorer.explorer.RUN_S", 0.01)
    monkeypatch.setattr("cepkit.widgets.scene_view.still_bundle", lambda svg, text: ({"text/plain": svg}, {}))
    explorer = stream(400).cep.explore("", **CALL).wait(60)
    explorer._ipython_display_()

    def shown():
        return outputs.kept[1]["text/plain"]

    assert "Not run yet." in shown()
    gate.clear()
    explorer.text = ORDERED
    wait_until(lambda: explorer.status["state"] == "running")
    assert "Running …" in explorer.board.still()
    gate.set()
    explorer.wait(60)
    assert f"{explorer.matches.count():,} matches, page 1" in shown()  # no cell ran again
    explorer.select(3)
    explorer.wait(60)
    assert "match 3" in shown()
    explorer.text = ORDERED.replace("0.1", "5")
    assert explorer.wait(60).matches.count() == 0 and "No match." in shown()


def test_few_and_no_matches_are_shown_when_all_are_counted():
    frame = stream(20_000).assign(x=lambda frame: np.where(frame["t"] < 19_900, 0.5, frame["x"]))
    for more in ("", " AND a.x > 2"):
        explorer = frame.cep.explore(SEARCHED.replace(" WITHIN", f"{more} WITHIN"), **CALL).wait(120)
        wanted = cep.match(frame, SEARCHED.replace(" WITHIN", f"{more} WITHIN"), **CALL).count()
        assert explorer.status["state"] == "done" and explorer.board.table.total == f"{wanted:,}"
        assert (wanted > 0) == (not more)
