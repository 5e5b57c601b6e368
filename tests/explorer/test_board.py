"""The head of the board: choices of columns, the shown key, and the events before any result."""

from __future__ import annotations

import threading
from random import Random

import ipywidgets
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError
from cepkit.events import Events
from cepkit.explorer import board as board_module
from cepkit.explorer.board import Data, choose_measures
from cepkit.explorer.presented import TimelinePresenter
from cepkit.explorer.running.data import KEYS_PER_PAGE, Keys, SearchedFrame, count_by_partition
from cepkit.explorer.running.result import Result
from cepkit.explorer.text import settings_in
from tests.support.sizes import seeds
from tests.support.waiting import wait_until

REGEX = "up down\nup: x > 0.5\ndown: x <= 0.5"
SEQUENCE = "PATTERN SEQ(A a, B b) WITHIN 4"


def stream(n: int = 400, n_keys: int = 10, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "t": np.arange(n),
            "key": pd.Categorical(
                [f"k{i:03d}" for i in rng.integers(0, n_keys, n)], [f"k{i:03d}" for i in range(n_keys + 3)]
            ),
            "kind": rng.choice(list("AB"), n),
            "x": rng.random(n),
            "y": rng.integers(0, 9, n),
            "is_late": rng.random(n) > 0.5,
            "note": [[1, 2]] * n,
        }
    )


FRAME = stream()


def opened(query=REGEX, frame=FRAME, **call):
    return frame.cep.explore(query, **{"order_by": "t", "partition_by": "key", **call}).wait(60)


def field_of(explorer, name):
    return next(field for field in explorer.board.bar.fields if field["name"] == name)


def values(field):
    return [choice["value"] for choice in field["choices"]]


def wish(explorer, name, *chosen):
    bar = explorer.board.bar
    bar.chosen = {"name": name, "values": list(chosen), "n": bar.chosen.get("n", 0) + 1}
    return explorer.wait(60)


def count_of(explorer):
    """Return the number of matches that the copied cell finds."""
    space = {"df": FRAME}
    exec(explorer.code, space)
    return space["matches"].count()


# --- choices


def test_choices_are_the_columns_of_fitting_types():
    explorer = opened()
    assert values(field_of(explorer, "partition_by")) == ["key", "kind", "is_late", "t", "y"]
    assert values(field_of(explorer, "order_by")) == ["t", "y", "x", "key", "kind"]
    assert values(field_of(explorer, "event_type")) == ["key", "kind", "t", "y", "is_late"]
    assert values(field_of(explorer, "value")) == ["x", "y"]
    assert field_of(explorer, "partition_by")["chosen"] == ["key"]
    assert field_of(explorer, "measures")["chosen"] == ["first_t", "last_t", "count"]


def test_a_chosen_column_is_a_choice_whatever_its_type_is():
    explorer = opened(partition_by="x")
    assert "x" in values(field_of(explorer, "partition_by"))


def test_a_choice_runs_the_query_again_and_is_in_the_code():
    explorer = opened()
    for name, chosen in [
        ("partition_by", ["kind"]),
        ("partition_by", ["kind", "key"]),
        ("partition_by", []),
        ("order_by", ["y", "t"]),
        ("measures", ["count", "max_x"]),
    ]:
        wish(explorer, name, *chosen)
        assert explorer.status["state"] == "done"
        assert field_of(explorer, name)["chosen"] == chosen
        assert explorer.matches.count() == count_of(explorer)
    assert [column["name"] for column in explorer.board.table.columns] == ["count", "max_x"]
    assert 'order_by=["y", "t"]' in explorer.code and "partition_by" not in explorer.code


def test_the_language_is_recognised_and_locks_what_does_not_apply():
    explorer = opened()
    assert explorer.board.bar.language == "regex"
    assert field_of(explorer, "strategy")["locked"] == field_of(explorer, "event_type")["locked"] != ""
    explorer.text = SEQUENCE
    explorer.wait(60)
    assert explorer.board.bar.language == "PATTERN"
    assert field_of(explorer, "event_type")["needed"] and not field_of(explorer, "event_type")["locked"]
    assert "Choose the column" in explorer.board.bar.note and explorer.status["state"] == "failed"
    wish(explorer, "event_type", "kind")
    assert explorer.status["state"] == "done" and explorer.board.bar.note == ""
    assert not field_of(explorer, "event_type")["needed"]
    assert "A" in explorer.board.editor.names  # completions
    n = explorer.matches.count()
    wish(explorer, "strategy", "strict")
    assert explorer.matches.count() < n and 'strategy="strict"' in explorer.code
    assert field_of(explorer, "strategy")["chosen"] == ["strict"]


def test_a_setting_in_the_text_is_shown_and_locked():
    text = "PATTERN SEQ(A a, B b) WHERE strict_contiguity AND [key]"
    chosen = {"partition_by": "kind", "strategy": "any"}  # the text wins
    explorer = FRAME.cep.explore(text, order_by="t", event_type="kind", **chosen).wait(60)
    assert explorer.status["state"] == "done"
    assert field_of(explorer, "strategy")["chosen"] == ["strict"]
    assert field_of(explorer, "partition_by")["chosen"] == ["key"]
    assert field_of(explorer, "strategy")["locked"] and field_of(explorer, "partition_by")["locked"]
    assert explorer.board.bar.key["text"].startswith("key = ") and "partition_by" not in explorer.code
    assert settings_in("PATTERN SEQ(").strategy is None


def test_measures_of_a_sequence_are_of_its_variables():
    explorer = opened("PATTERN SEQ(A a, B+ b[], A c) WITHIN 6", event_type="kind")
    offered = values(field_of(explorer, "measures"))
    assert {"a_x", "c_x", "b_count", "b_max_x"} <= set(offered)
    wish(explorer, "measures", "a_x", "b_max_x", "b_count")
    names = [column["name"] for column in explorer.board.table.columns]
    assert explorer.status["state"] == "done" and names == ["key", "a_x", "b_max_x", "b_count"]


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_every_offered_measure_runs(seed):
    draw = Random(seed)
    query = draw.choice([REGEX, SEQUENCE, "PATTERN SEQ(A a, B+ b[], A c) WITHIN 6"])
    explorer = opened(query, event_type="kind")
    offered = values(field_of(explorer, "measures"))
    chosen = draw.sample(offered, min(4, len(offered)))
    wish(explorer, "measures", *chosen)
    assert explorer.status["state"] == "done", (chosen, explorer.status)
    names = [column["name"] for column in explorer.board.table.columns]
    assert names[-len(chosen) :] == chosen


def test_a_measure_of_ones_own_may_have_the_name_of_a_default_one():
    query = cep.regex_query("up", define={"up": "x > 1"})
    own = {"count": "max(x)"}
    assert choose_measures(Data({}), {}, query, ["count"]) is None
    assert choose_measures(Data({}), {}, query, ["count = max(x)"]) == own
    assert choose_measures(Data({}), {"measures": own}, query, ["count"]) == own


def test_a_measure_of_ones_own_is_checked():
    explorer = opened()
    wish(explorer, "measures", "count", "span = last(t) - first(t)")
    assert field_of(explorer, "measures")["chosen"] == ["count", "span"]
    assert {"value": "span", "note": "last(t) - first(t)"} in field_of(explorer, "measures")["choices"]
    wish(explorer, "measures", "count", "x y = count()")
    assert "is no name" in explorer.board.bar.note
    wish(explorer, "measures", "count", "z = last(")
    assert explorer.board.bar.note and field_of(explorer, "measures")["chosen"] == ["count", "span"]
    wish(explorer, "measures")  # none: the default ones
    assert explorer.board.bar.note == "" and "measures" not in explorer.code
    with pytest.raises(CepError, match="not known"):
        choose_measures(Data({}), {}, None, ["nothing"])


def test_choices_by_python_are_checked():
    explorer = opened()
    with pytest.raises(ColumnNotFoundError, match="partition_by"):
        explorer.choose(partition_by="kez")
    with pytest.raises(TypeError, match="Did you mean 'order_by'"):
        explorer.choose(ordr_by="t")
    explorer.choose(partition_by=None, strategy=None)
    assert explorer.wait(60).board.bar.key == {}


def test_the_drawn_column_is_chosen_in_the_head():
    explorer = opened()
    wish(explorer, "value", "y")
    assert field_of(explorer, "value")["chosen"] == ["y"] and explorer.board.timeline.y_label == "y"


# --- keys


def test_the_shown_key_is_named_and_changed():
    explorer = opened()
    bar = explorer.board.bar
    assert bar.key["n"] == FRAME["key"].nunique() == 10  # three categories have no events
    explorer.show_key("k007")
    explorer.wait(60)
    own = FRAME[FRAME["key"] == "k007"]
    assert bar.key_text == "key = k007, 8 of 10 keys"
    assert np.frombuffer(explorer.board.timeline.x).tolist() == own["t"].tolist()
    define = {"up": "x > 0.5", "down": "x <= 0.5"}
    assert bar.key["matches"] == f"{own.cep.match('up down', define=define, order_by='t').count()} matches"
    bar.wanted_key = {"step": 1, "n": 1}
    assert explorer.wait(60).board.bar.key["text"] == "key = k008"
    bar.wanted_key = {"step": -1, "n": 2}
    assert explorer.wait(60).board.bar.key["text"] == "key = k007"
    explorer.show_key("k099")
    explorer.wait(60)
    assert "there is no key 'k099'" in explorer.board.reasons.title and bar.key["text"] == "key = k007"


def test_a_key_without_matches_stays_while_the_query_changes():
    frame = FRAME.assign(x=np.where(FRAME["key"] == "k003", 0.0, FRAME["x"]))
    explorer = opened(frame=frame)
    assert explorer.board.bar.key["text"] != "key = k003" or explorer.board.bar.key["place"] == 4
    explorer.show_key("k003")
    explorer.wait(60)
    assert explorer.board.bar.key["matches"] == "0 matches" and len(explorer.board.timeline.x) > 0
    explorer.text = REGEX.replace("0.5", "0.75") + "\nwithin: 300"
    explorer.wait(60)
    assert explorer.status["state"] == "done" and explorer.board.bar.key["text"] == "key = k003"
    explorer.board.timeline.clicked = explorer.board.timeline.view[0]
    explorer.wait(60)
    assert explorer.board.reasons.lines  # why not, of a key without matches
    explorer.select(0)
    explorer.wait(60)
    assert explorer.board.bar.key["text"] != "key = k003"


def test_another_key_takes_the_selection_away():
    explorer = opened()
    explorer.select(0)
    assert explorer.wait(60).selected == 0 and explorer.board.timeline.points
    explorer.board.bar.wanted_key = {"step": 1, "n": 1}
    explorer.wait(60)
    assert explorer.selected is None and not explorer.board.timeline.points


def test_keys_are_searched_by_page():
    explorer = opened(frame=stream(3000, 40))
    bar = explorer.board.bar
    bar.wanted_keys = {"search": "", "order": "name", "page": 1, "n": 1}
    found = explorer.wait(60).board.bar.found
    assert [row["text"] for row in found["rows"]] == [f"k{i:03d}" for i in range(KEYS_PER_PAGE)]
    assert found["n_pages"] == 4 and found["told"].startswith("40 keys, ")
    bar.wanted_keys = {"search": "K01", "order": "most", "page": 1, "n": 2}
    found = explorer.wait(60).board.bar.found
    counts = [int(row["matches"]) for row in found["rows"]]
    assert len(counts) == 10 and counts == sorted(counts, reverse=True) and found["told"] == "10 of 40 keys"
    bar.wanted_keys = {"search": "none", "order": "most", "page": 7, "n": 3}
    assert explorer.wait(60).board.bar.found["rows"] == []


def keys_of(frame, by):
    data = SearchedFrame(frame)
    query = cep.regex_query("a", define={"a": "x > 2"}, partition_by=by, order_by="t")
    events = data.events(data.compile(query))
    return Keys(data.source, events, query.partition_by), events


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_keys_are_those_of_the_frame(seed):
    draw, rng = Random(seed), np.random.default_rng(seed)
    n = draw.choice([1, 7, 60])
    texts = pd.Series(rng.choice(["b", "a", "Ä", None], n), dtype=draw.choice([object, "str", "category"]))
    frame = pd.DataFrame({"t": rng.permutation(n), "s": texts, "i": rng.integers(-3, 9, n), "x": 0.0})
    by = draw.choice([["s"], ["i"], ["s", "i"], ["i", "s"]])
    keys, events = keys_of(frame, by)
    ordered = frame.sort_values("t", kind="stable")
    wanted = frame[by].astype(object).where(frame[by].notna(), None).drop_duplicates()
    names = {
        ", ".join("null" if one is None else str(one) for one in row)
        for row in wanted.itertuples(index=False)
    }
    assert set(keys.names) == names and len(keys) == len(names)
    for partition, name in zip(keys.partitions.tolist(), keys.names, strict=True):
        own = ordered[events.partition_of_event == partition][by].drop_duplicates()
        assert len(own) == 1
        row = ["null" if pd.isna(one) else str(one) for one in own.iloc[0]]
        assert ", ".join(row) == name and keys.partition_of(name) == partition
        assert keys.text_of(partition) == ", ".join(f"{b} = {v}" for b, v in zip(by, row, strict=True))
    first = int(keys.partitions[0])
    assert keys.neighbour(keys.neighbour(first, -1), 1) == first


def test_a_hundred_thousand_keys_are_searched():
    n = 100_000
    frame = pd.DataFrame({"t": np.arange(n), "key": [f"user {i * 7919 % n}" for i in range(n)], "x": 0.0})
    keys, _ = keys_of(frame, ["key"])
    counts = np.arange(keys.partitions.max() + 1)
    found = keys.find("USER 9999", "most", 1, None, counts)
    assert len(found["rows"]) == 11 and found["told"] == "11 of 100,000 keys"
    last = keys.find("", "name", 10**9, None)
    assert last["page"] == last["n_pages"] == -(-n // KEYS_PER_PAGE)


def test_matches_are_counted_by_key_beyond_any_machine_word():
    of_end = np.array([0, 2, 0])
    assert count_by_partition(of_end, None, 3).tolist() == [2, 0, 1]
    assert count_by_partition(of_end, np.array([5, 1, 2]), 3).tolist() == [7, 0, 1]
    assert count_by_partition(of_end, [10**30, 1, 2], 3).tolist() == [10**30 + 2, 0, 1]


# --- the first picture


class Gate:
    """Holds back the counting of matches."""

    def __init__(self, monkeypatch):
        self.gate = threading.Event()
        count = Result.count
        monkeypatch.setattr(Result, "count", lambda result: (self.gate.wait(60), count(result))[1])


def test_the_events_are_there_before_anything_is_compiled(monkeypatch):
    gate = Gate(monkeypatch)
    explorer = FRAME.cep.explore(REGEX, order_by="t", partition_by="key")
    timeline = explorer.board.timeline
    wait_until(lambda: len(timeline.x) and not timeline.busy)
    own = FRAME[FRAME["key"] == "k000"]
    assert explorer.status["state"] == "running"
    assert explorer.status["message"] == "searching"
    assert np.frombuffer(timeline.x).tolist() == own["t"].tolist()
    assert explorer.board.bar.key_text == "key = k000, 1 of 10 keys"
    explorer.show_key("k004")  # also while the query runs
    explorer.cancel()
    gate.gate.set()
    explorer.wait(60)
    assert len(timeline.x) and explorer.status["message"] == "cancelled; no match is shown yet"


def test_a_run_that_is_cancelled_at_once_leaves_the_events(monkeypatch):
    gate = threading.Event()
    events = SearchedFrame.events
    monkeypatch.setattr(SearchedFrame, "events", lambda *call: (gate.wait(60), events(*call))[1])
    explorer = FRAME.cep.explore(REGEX, order_by="t", partition_by="key")
    assert explorer.board.timeline.busy and not explorer.board.timeline.x  # the events are being read
    explorer.cancel()
    gate.set()
    explorer.wait(60)
    wait_until(lambda: len(explorer.board.timeline.x))
    assert not explorer.board.timeline.busy


def test_the_timeline_follows_the_table_when_an_edit_stops_a_run(monkeypatch):
    explorer = opened(partition_by=None)
    before, gate, draw = explorer.matches.count(), threading.Event(), TimelinePresenter.draw
    monkeypatch.setattr(TimelinePresenter, "draw", lambda *call: (gate.wait(60), draw(*call))[1])
    explorer.text = REGEX.replace("> 0.5", "> 0.8")
    wait_until(lambda: explorer.board.table.total != str(before))
    explorer.text = "up ("
    gate.set()
    assert explorer.wait(60).status["state"] == "failed"
    n = explorer.matches.count()
    assert 0 < n < before and len(explorer.board.timeline.spans) == 16 * n
    assert not explorer.board.timeline.busy and explorer.board.funnel.stages[-1]["n"] == str(n)


def test_events_that_cannot_be_drawn_say_why():
    frame = FRAME.assign(t=FRAME["t"].astype("Int64").where(FRAME["t"] > 3))
    explorer = frame.cep.explore(REGEX, order_by="t").wait(60)
    assert "missing values" in explorer.board.timeline.sampled and not explorer.board.timeline.busy
    explorer.choose(order_by=None)
    assert explorer.wait(60).status["state"] == "done" and len(explorer.board.timeline.x)


def test_a_choice_changes_the_events_before_a_query():
    explorer = FRAME.cep.explore("", order_by="t").wait(60)
    n = len(explorer.board.timeline.x)
    wish(explorer, "partition_by", "key")
    assert 0 < len(explorer.board.timeline.x) < n and explorer.board.bar.key["n"] == 10
    explorer.show_key("k002")
    assert explorer.wait(60).board.bar.key["text"] == "key = k002"
    explorer.text = REGEX
    assert explorer.wait(60).board.bar.key["text"] == "key = k002"


def test_a_frame_without_events_has_no_key():
    explorer = FRAME.iloc[:0].cep.explore(REGEX, order_by="t", partition_by="key").wait(60)
    assert explorer.board.bar.key == {} and explorer.status["state"] == "done"
    assert isinstance(explorer._present.shown.result.events, Events)


def test_python_answers_an_action_of_the_user():
    explorer = opened()
    explorer.board.bar.asked = 3
    assert explorer.board.bar.answered == 3


# --- messages


@pytest.fixture
def messages(monkeypatch):
    """The messages to the browser, each with its widget."""
    sent = []

    def note(widget, message, buffers=None):
        sent.append((widget, message))

    monkeypatch.setattr(ipywidgets.Widget, "_send", note)
    return sent


def updates_in(messages):
    return [(widget, set(message["state"])) for widget, message in messages if message["method"] == "update"]


def test_what_a_slider_changes_leaves_together_and_the_table_first(messages, monkeypatch):
    monkeypatch.setattr(board_module, "HELD_S", 20)
    explorer = opened()
    board = explorer.board
    messages.clear()
    board.sliders.set_state({"moved": {"id": "c0", "value": 0.9, "n": 1}})
    explorer.wait(60)
    updates = updates_in(messages)
    assert updates[0][0] is board.table and {"rows", "total"} <= updates[0][1]
    assert next(names for widget, names in updates if widget is board.editor) >= {"text", "sentence"}
    assert sum("sliders" in names for widget, names in updates if widget is board.sliders) == 1


def test_changes_do_not_wait_for_a_long_run(messages, monkeypatch):
    explorer, go_on, count = opened(), threading.Event(), Result.count
    monkeypatch.setattr(Result, "count", lambda result: (go_on.wait(60), count(result))[1])
    messages.clear()
    explorer.board.sliders.set_state({"moved": {"id": "c0", "value": 0.9, "n": 1}})
    sent = lambda: [names for widget, names in updates_in(messages) if widget is explorer.board.editor]  # noqa: E731
    wait_until(lambda: any({"text", "status"} <= names for names in sent()))
    assert explorer.status["state"] == "running"
    go_on.set()
    assert explorer.wait(60).status["state"] == "done"


def test_a_wish_without_a_run_is_answered_at_once(messages, monkeypatch):
    monkeypatch.setattr(board_module, "HELD_S", 20)
    explorer = opened()
    messages.clear()
    explorer.board.table.set_state({"wanted_page": "1000"})
    assert any(widget is explorer.board.table and "busy" in names for widget, names in updates_in(messages))
    explorer.wait(60)


def test_the_columns_of_the_table_keep_their_places_while_a_slider_moves():
    explorer = opened(frame=pd.DataFrame({"t": range(6), "key": "k", "x": [0.6, 0.2, 0.95, 0.2, 0.7, 0.2]}))
    names = [column["name"] for column in explorer.board.table.columns]
    explorer.move("c0", 0.9)  # a single match is left: no column has several values
    assert explorer.wait(60).board.table.total == "1"
    assert (
        names[:2] == ["first_t", "last_t"]
        and [column["name"] for column in explorer.board.table.columns] == names
    )
