"""Undo and redo of everything a user chose, past queries, and explorers in files."""

from __future__ import annotations

import json
import re
import threading
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.explorer.history import BURST_S, MOST_RUNS, BoardState, History, QueryLog
from tests.support.sizes import seeds
from tests.support.waiting import wait_until

TEXT = "up down\nup: x > 0.5\ndown: x <= 0.5"


def stream(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "t": np.arange(n),
            "key": rng.choice([f"k{i}" for i in range(5)], n),
            "kind": rng.choice(list("AB"), n),
            "x": rng.random(n),
            "y": rng.random(n),
        }
    )


FRAME = stream()


def opened(query=TEXT, frame=FRAME, **call):
    return frame.cep.explore(query, **{"order_by": "t", "partition_by": "key", **call}).wait(60)


def seen(explorer):
    """Return what a person sees of the choices and of the result."""
    board = explorer.wait(60).board
    fields = {one["name"]: one["chosen"] for one in board.bar.fields}
    sliders = [(one["id"], one["value"]) for one in board.sliders.sliders]
    matches = None if explorer.matches is None else explorer.matches.count()
    return (explorer.text, fields, sliders, matches, board.timeline.y_label)


def chosen_key(explorer):
    """Return the shown key if a person chose it; the query determines any other."""
    return explorer._present.keys.kept and explorer.board.bar.key["text"]


# --- the history of states


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_steps_are_a_list_with_a_place(seed):
    rng, states, place = Random(seed), [BoardState("")], 0
    history = History(states[0], lambda: 0.0)
    for n in range(200):
        what = rng.choice(["record", "undo", "redo"])
        if what == "record":
            states = [*states[: place + 1], BoardState(f"text {n}")]
            place += 1
            history.record(states[-1], f"change {n}")
        else:
            aim = place + (-1 if what == "undo" else 1)
            found = history.undo() if what == "undo" else history.redo()
            assert found == (states[aim] if 0 <= aim < len(states) else None)
            place = aim if found else place
        assert history.now.state == states[place]
        assert bool(history.undo_label) == (place > 0)
        assert bool(history.redo_label) == (place < len(states) - 1)


def test_a_burst_is_one_step():
    now = [0.0]
    history = History(BoardState("a"), lambda: now[0])
    for text, seconds in (("ab", 0.1), ("abc", 0.5), ("abcd", BURST_S + 0.1), ("abcde", 0.2)):
        now[0] += seconds
        history.record(BoardState(text), "text", "typing")
    assert [history.undo().text, history.undo().text, history.undo()] == ["abc", "a", None]
    history.record(BoardState("x"), "text", "typing")  # redoing ends
    assert history.redo() is None and history.undo().text == "a"


def test_a_drag_is_one_step_however_long_it_takes():
    now = [0.0]
    history = History(BoardState("1"), lambda: now[0])
    for text, drag in (("2", 1), ("3", 1), ("4", 1), ("5", 2)):
        now[0] += 60
        history.record(BoardState(text), "x > 1", ("slider", "c0", drag), is_held=True)
    assert [history.undo().text, history.undo().text] == ["4", "1"]


def test_a_burst_that_returns_is_no_step():
    history = History(BoardState("1"), lambda: 0.0)
    history.record(BoardState("2"), "x", "drag")
    history.record(BoardState("1"), "x", "drag")
    assert history.undo_label == "" and history.undo() is None and history.now.state.text == "1"


# --- undo and redo in the explorer


def test_every_choice_is_taken_back_and_made_again():
    explorer = opened()
    shots, keys = [seen(explorer)], [None]
    changes = [
        lambda: setattr(explorer, "text", TEXT.replace("up down", "up+ down")),
        lambda: explorer.move("c0", 0.7),
        lambda: explorer.choose(partition_by=["key", "kind"]),
        lambda: explorer.choose(order_by=["t", "y"]),
        lambda: explorer.choose(measures={"rows": "count()", "most": "max(x)"}),
        lambda: explorer.show_value("y"),
        lambda: explorer.show_key("k3, B"),
        lambda: explorer.show_key("k4, A"),
        lambda: explorer.choose(event_type="kind"),
        lambda: setattr(explorer, "text", "PATTERN SEQ(A a, B b) WHERE b.x > a.x + 0.5 WITHIN 4"),
        lambda: explorer.choose(strategy="next"),
        lambda: explorer.move("c0", 0.25),
        lambda: setattr(explorer, "text", "PATTERN SEQ(A a, B b) WHERE b.z > 2"),  # a mistake
    ]
    for change in changes:
        change()
        shots.append(seen(explorer))
        keys.append(chosen_key(explorer))
    assert explorer.status["state"] == "failed" and {"key = k3, kind = B", "key = k4, kind = A"} <= set(keys)
    for wanted, key in reversed([*zip(shots, keys, strict=True)][:-1]):
        explorer.undo()
        assert seen(explorer) == wanted and chosen_key(explorer) == (key or chosen_key(explorer))
    assert explorer.board.bar.steps == {"undo": "", "redo": "text"}
    explorer.undo()  # nothing is left
    assert seen(explorer) == shots[0]
    for wanted, key in [*zip(shots, keys, strict=True)][1:-1]:
        explorer.redo()
        assert seen(explorer) == wanted and chosen_key(explorer) == (key or chosen_key(explorer))
    explorer.redo()
    assert seen(explorer)[0] == shots[-1][0] and explorer.status["state"] == "failed"
    assert explorer.board.bar.steps == {"undo": "text", "redo": ""}


def test_sliders_of_an_earlier_text_are_not_moved():
    explorer = opened()
    explorer.text = "up  \ndown >" + TEXT
    assert explorer.status["state"] == "failed" and explorer.board.sliders.locked
    with pytest.raises(CepError, match="mistakes"):
        explorer.move("c0", 0.7)
    assert explorer.text == "up  \ndown >" + TEXT
    explorer.undo()
    assert not explorer.board.sliders.locked
    explorer.move("c0", 0.7)
    assert explorer.wait(60).text == TEXT.replace("0.5\n", "0.7\n")
    explorer.text = ""
    assert explorer.sliders == () and explorer.board.sliders.sliders == []
    explorer.undo()
    assert len(explorer.wait(60).sliders) == 2


def test_a_parameter_is_taken_back():
    explorer = opened("up\nup: x > :least", params={"least": 0.5})
    before = seen(explorer)
    explorer.move(":least", 0.9)
    assert explorer.wait(60).matches.count() < before[3]
    explorer.undo()
    assert seen(explorer) == before


def test_browsers_ask_and_bursts_are_single_steps():
    explorer = opened()
    editor, sliders, bar = explorer.board.editor, explorer.board.sliders, explorer.board.bar
    for n, text in enumerate((TEXT + "5", TEXT + "55", TEXT + "556")):
        editor.set_state({"edited": n + 1, "text": text})
    for n, value in enumerate((0.6, 0.7, 0.8)):
        sliders.set_state({"gesture": 1, "moved": {"id": "c0", "value": value, "n": n + 1}})
    editor.set_state({"edited": 4, "text": TEXT, "wanted_step": {"what": "undo", "n": 1}})
    assert explorer.text == TEXT.replace("0.5\n", "0.8\n") + "556"  # the last edit alone
    sliders.set_state({"wanted_step": {"what": "undo", "n": 1}})
    assert explorer.text == TEXT + "556"
    bar.set_state({"wanted_step": {"what": "undo", "n": 1}})
    assert explorer.text == TEXT
    bar.set_state({"wanted_step": {"what": "redo", "n": 2}})
    assert explorer.wait(60).text == TEXT + "556"


def test_the_next_key_is_taken_back():
    explorer = opened()
    first = explorer.board.bar.key["text"]
    for n in (1, 2):
        explorer.board.bar.set_state({"wanted_key": {"step": 1, "n": n}})
        explorer.wait(60)
    assert explorer.board.bar.steps["undo"] == "key" and explorer.board.bar.key["text"] != first
    for _ in range(2):
        explorer.undo()
    assert explorer.wait(60).board.bar.key["text"] == first


def of_keys(explorer, *keys):
    """Return the number of the first match of each key."""
    lineage = explorer.matches.lineage()
    own = lineage.groupby("match")["index"].last().map(FRAME["key"])
    return [int(own.index[own == key][0]) for key in keys]


@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_match_of_another_key_is_taken_back_with_its_key(is_chosen, monkeypatch):
    monkeypatch.setattr("cepkit.explorer.history.BURST_S", 0.0)
    explorer = opened()
    a, b, c = of_keys(explorer, "k1", "k2", "k3")

    def seen():
        explorer.wait(60)
        board = explorer.board
        assert board.table.selected == (None if explorer.selected is None else str(explorer.selected))
        assert board.timeline.selected == explorer.selected
        assert bool(board.timeline.points) == (explorer.selected is not None)
        return board.bar.key["text"], explorer.selected

    if is_chosen:
        explorer.show_key("k1")
        explorer.wait(60)
    explorer.select(a)
    states = [seen()]
    for number in (b, c):
        explorer.board.table.set_state({"selected": str(number)})
        states.append(seen())
    assert states == [("key = k1", a), ("key = k2", b), ("key = k3", c)]
    assert explorer.board.bar.steps["undo"] == "match"
    for wanted in states[1::-1]:
        explorer.undo()
        assert seen() == wanted
    for wanted in states[1:]:
        explorer.redo()
        assert seen() == wanted
    for _ in range(2):
        explorer.undo()
        explorer.wait(60)
    explorer.move("c0", 0.6)
    explorer.wait(60)
    explorer.undo()
    assert explorer.wait(60).text == TEXT and explorer.board.bar.key["text"] == "key = k1"


def test_a_match_is_unselected_with_the_key_that_the_undo_leaves():
    explorer = opened()
    first = explorer.board.bar.key["text"]
    other = "k3" if first != "key = k3" else "k4"
    [number] = of_keys(explorer, other)
    explorer.select(number)
    assert explorer.wait(60).board.bar.key["text"] == f"key = {other}"
    explorer.undo()
    assert explorer.wait(60).board.bar.key["text"] == first
    assert explorer.selected is explorer.board.table.selected is None and not explorer.board.timeline.points


# --- past queries


def test_queries_are_listed_with_their_counts_and_brought_back():
    explorer = opened()
    counts = {0.5: explorer.matches.count()}
    for value in (0.7, 0.9):
        explorer.move("c0", value)
        counts[value] = explorer.wait(60).matches.count()
    explorer.choose(partition_by=None)
    explorer.wait(60)
    explorer.text = "up down\nup: x >"  # does not run
    listed = explorer.wait(60).history
    assert list(listed.columns) == ["query", "choices", "matches", "seconds", "at"]
    assert listed["matches"].tolist()[1:] == [counts[0.9], counts[0.7], counts[0.5]]
    assert listed["choices"].tolist() == ["ordered by t", *["ordered by t; by key"] * 3]
    runs = explorer.board.bar.runs
    assert [run["text"] for run in runs] == listed["query"].tolist()
    explorer.board.bar.set_state({"wanted_run": {"number": runs[-1]["number"], "n": 1}})
    assert explorer.wait(60).text == TEXT and explorer.matches.count() == counts[0.5]
    assert explorer.history["query"].iloc[0] == TEXT and len(explorer.history) == 4
    explorer.undo()
    assert explorer.wait(60).text == "up down\nup: x >"
    with pytest.raises(CepError, match="there is no run 99"):
        explorer.bring_back(99)


def test_a_dragged_slider_leaves_one_entry():
    explorer = opened()
    for n, value in enumerate((0.6, 0.7, 0.8)):
        explorer.board.sliders.set_state({"gesture": 1, "moved": {"id": "c0", "value": value, "n": n + 1}})
        explorer.wait(60)
    assert [text.splitlines()[1] for text in explorer.history["query"]] == ["up: x > 0.8", "up: x > 0.5"]


def test_a_log_keeps_some_runs_of_any_size():
    log = QueryLog()
    for n in range(2 * MOST_RUNS):
        log.add(n, f"query {n}", {}, 10**30 + n, 1.5)
    assert len(log.runs) == MOST_RUNS and log.runs[0].trait()["took"] == "1.5 s"
    assert log.to_frame()["matches"].iloc[0] == 10**30 + 2 * MOST_RUNS - 1


def test_threads_add_runs():
    log = QueryLog()
    threads = [
        threading.Thread(target=lambda k=k: [log.add(100 * k + n, f"{k} {n}", {}, n, 0.0) for n in range(20)])
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [run.number for run in log.runs]
    assert len(set(numbers)) == MOST_RUNS and numbers == sorted(numbers, reverse=True)


# --- files


def test_a_saved_explorer_opens_with_everything(tmp_path):
    explorer = opened(params={"least": 0.25})
    explorer.text = "up down+\nup: x > :least\ndown: x <= 0.5\nwithin: 9"
    explorer.choose(measures={"rows": "count()"}, partition_by=["key", "kind"])
    explorer.wait(60)
    explorer.show_value("y")
    explorer.show_key("k2, B")
    explorer.wait(60).save(tmp_path / "saved.json")
    again = cep.explore.load(tmp_path / "saved.json", FRAME)
    assert seen(again) == seen(explorer) and again.code == explorer.code
    assert again.history["query"].tolist() == explorer.history["query"].tolist()
    assert again.board.bar.steps == {"undo": "", "redo": ""}
    again.save(tmp_path / "again.json")
    first, second = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("saved", "again"))
    assert {**first, "runs": []} == {**second, "runs": []}
    assert not list(tmp_path.glob("*.part"))


def test_kept_cases_are_saved(tmp_path):
    explorer = opened()
    cases = (explorer.keep(match=0), explorer.keep(False, rows=[150, 151]))
    explorer.wait(60).save(tmp_path / "saved.json")
    again = cep.explore.load(tmp_path / "saved.json", FRAME).wait(60)
    assert again.cases == cases and again.verdicts == explorer.verdicts
    with pytest.warns(cep.CepWarning, match="1 of 2 kept cases are left out.*100 rows"):
        assert cep.explore.load(tmp_path / "saved.json", FRAME.head(100)).wait(60).cases == cases[:1]


def test_the_order_of_the_keys_stays(tmp_path):
    explorer = opened()
    bar = explorer.board.bar
    bar.set_state({"wanted_keys": {"search": "", "order": "most", "page": 1, "n": 1}})
    explorer.wait(60)
    counts = [int(row["matches"]) for row in bar.found["rows"]]
    assert counts == sorted(counts, reverse=True) and bar.found["order"] == "most"
    explorer.move("c0", 0.7)
    explorer.choose(partition_by="kind")
    assert explorer.wait(60).board.bar.found["order"] == "most"
    explorer.save(tmp_path / "saved.json")
    again = cep.Explorer.load(tmp_path / "saved.json", FRAME).wait(60)
    assert again.board.bar.found == {"order": "most"}
    content = json.loads((tmp_path / "saved.json").read_text())
    del content["key_order"]  # as an older version wrote it
    (tmp_path / "older.json").write_text(json.dumps(content))
    assert cep.Explorer.load(tmp_path / "older.json", FRAME).wait(60).board.bar.found == {"order": "name"}


def test_a_time_is_written_in_one_way():
    explorer = opened()
    said = explorer.status["message"].split("; ")[0]
    took = explorer.board.bar.runs[0]["took"]
    assert re.fullmatch(r"[0-9]+ ms|[0-9]+\.[0-9] s", took)
    assert said == f"{explorer.board.bar.runs[0]['matches']} in {took}"


def test_a_saved_explorer_shows_its_mistakes_and_its_keywords(tmp_path):
    explorer = opened("PATTERN SEQ(A a, B b) WHERE", event_type="kind", within=pd.Timedelta("4 ns"))
    explorer.save(tmp_path / "saved.json")
    again = cep.Explorer.load(tmp_path / "saved.json", FRAME).wait(60)
    assert again.status["state"] == "failed" and again.text == explorer.text
    assert again._reader.call["event_type"] == "kind" and again._reader.call["within"] == "4 ns"


def test_a_saved_explorer_takes_other_rows(tmp_path):
    opened().save(tmp_path / "saved.json")
    more = stream(500)
    again = cep.explore.load(tmp_path / "saved.json", more).wait(60)
    wanted = more.cep.match("up down", define={"up": "x > 0.5", "down": "x <= 0.5"}, order_by="t",
                            partition_by="key").count()  # fmt: skip
    assert again.matches.count() == wanted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no JSON", "is not a saved explorer"),
        ("[1, 2]", "is not a saved explorer"),
        ('{"format": "of another program"}', "is not a saved explorer"),
        ('{"format": "cepkit explorer", "version": 99}', "its format is 99, this version reads 1"),
        ('{"format": "cepkit explorer", "version": 1, "text": "a"}', "is damaged"),
        (b"\xff\xfe\x00", "is not a saved explorer"),
    ],
)
def test_a_wrong_file_gets_one_clear_error(tmp_path, content, message):
    path = tmp_path / "saved.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CepError, match=message):
        cep.explore.load(path, FRAME)


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_a_damaged_file_gets_one_clear_error_or_opens(tmp_path, seed):
    path, rng = tmp_path / "saved.json", Random(seed)
    explorer = opened()
    wait_until(lambda: len(explorer.history))
    explorer.save(path)
    content = json.loads(path.read_text())
    name = rng.choice(sorted(set(content) - {"format", "version"}))
    if rng.random() < 0.3:
        del content[name]
    else:
        content[name] = rng.choice([None, 3, "text", [1], {"a": 1}, [{"number": 1}], {"by": 3}])
    path.write_text(json.dumps(content))
    try:
        cep.explore.load(path, FRAME).wait(60)
    except CepError as error:
        assert len(str(error)) < 500


def test_missing_files_frames_and_columns(tmp_path):
    path = tmp_path / "saved.json"
    with pytest.raises(FileNotFoundError):
        cep.explore.load(path, FRAME)
    opened().save(path)
    with pytest.raises(CepError, match=r"does not contain the data.*\['key', 't', 'x'\]"):
        cep.explore.load(path)
    with pytest.raises(CepError, match=r"lacks the columns \['x'\]"):
        cep.explore.load(path, FRAME.drop(columns="x"))


def test_a_python_function_cannot_be_saved(tmp_path):
    explorer = opened("up", define={"up": lambda x: x > 0.5})
    with pytest.raises(CepError, match=r"define 'up' is a Python function.*@cep\.pure"):
        explorer.save(tmp_path / "saved.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [-1, 1.5, [1], {"a": 1}, True])
@pytest.mark.parametrize("role", ["partition_by", "order_by", "event_type", "strategy", "measures"])
def test_a_saved_choice_of_a_wrong_type_gets_one_clear_error(tmp_path, role, wrong):
    path = tmp_path / "saved.json"
    opened().save(path)
    content = json.loads(path.read_text())
    content["call"][role] = wrong
    path.write_text(json.dumps(content))
    with pytest.raises(CepError, match=r"partition_by|order_by|event_type|strategy|measures"):
        cep.explore.load(path, FRAME).wait(60)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_a_saved_run_took_some_seconds(tmp_path, seconds):
    path = tmp_path / "saved.json"
    explorer = opened()
    wait_until(lambda: len(explorer.history))
    explorer.save(path)
    content = json.loads(path.read_text())
    content["runs"][0]["seconds"] = seconds
    path.write_text(json.dumps(content))
    with pytest.raises(CepError, match="is damaged: ValueError: a run of"):
        cep.explore.load(path, FRAME)


ODD_VALUES = (1.5, float("nan"), b"x", object(), [[]], np.timedelta64(5, "s"))
ODD_CALLS = {
    "save": lambda e, odd: e.save(odd),
    "load": lambda e, odd: type(e).load(odd, FRAME),
    "select": lambda e, odd: e.select(odd),
    "page": lambda e, odd: e.show_page(odd),
    "order": lambda e, odd: e.show_page(1, odd),
    "value": lambda e, odd: e.show_value(odd),
    "state": lambda e, odd: e.select_state(odd),
    "zoom": lambda e, odd: e.zoom(odd),
    "zoom to one": lambda e, odd: e.zoom([odd, 1]),
    "step": lambda e, odd: e.step_to(odd),
    "why not": lambda e, odd: e.why_not(odd),
    "why not one": lambda e, odd: e.why_not([odd]),
    "drop": lambda e, odd: e.drop_case(odd),
    "show": lambda e, odd: e.show_case(odd),
    "test": lambda e, odd: e.write_test(odd),
    "html": lambda e, odd: e.to_html(odd),
    "text": lambda e, odd: setattr(e, "text", odd),
    "filters": lambda e, odd: setattr(e, "filters", odd),
    "hidden": lambda e, odd: setattr(e, "hidden", odd),
    "cases": lambda e, odd: setattr(e, "cases", odd),
    "case of nothing": lambda e, odd: setattr(e, "cases", (None, odd)),
    "partition": lambda e, odd: e.choose(partition_by=odd),
    "type": lambda e, odd: e.choose(event_type=odd),
    "strategy": lambda e, odd: e.choose(strategy=odd),
    "measures": lambda e, odd: e.choose(measures=odd),
}


def test_odd_arguments_of_an_explorer_get_one_clear_error():
    explorer = opened()
    explorer.wait(60)
    wrong = []
    for name, call in ODD_CALLS.items():
        for odd in (*ODD_VALUES, {"a": 1}, np.array([1, 2])):
            if name == "filters" and isinstance(odd, dict):
                continue  # a filter of a column that the table lacks does not count
            if name == "why not" and isinstance(odd, np.ndarray):
                continue  # rows by their positions
            try:
                call(explorer, odd)
                wrong.append(f"{name} takes {odd!r}")
            except CepError:
                pass
            except Exception as error:
                wrong.append(f"{name} of {odd!r}: {type(error).__name__}: {error}")
    assert wrong == []


@pytest.mark.parametrize("position", [-1, 10**9])
def test_positions_of_no_event_have_no_reasons(position):
    explorer = opened()
    explorer.wait(60)
    with pytest.raises(CepError, match=f"no event has the position {position:,}"):
        explorer.why_not([0, position])
