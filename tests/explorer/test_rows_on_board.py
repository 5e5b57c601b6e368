"""The explorer with SQL's MATCH_RECOGNIZE: the editor recognises it, and every part of the board answers."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.explorer.constants import move_slider, sliders_of
from cepkit.explorer.text import read_text, text_and_call
from cepkit.results.rows_in_memory import RowsInMemory
from cepkit.widgets.panels import KEYWORDS, KEYWORDS_OF_SQL
from tests.oracle import match_recognize as oracle
from tests.oracle.generate_match_recognize import random_query, random_rows
from tests.support.row_patterns import oracle_query

TEXT = """SELECT bottom FROM walk MATCH_RECOGNIZE (
  PARTITION BY s ORDER BY t
  MEASURES LAST(down.price) AS bottom, COUNT(down.*) AS n
  PATTERN (strt down{2,} up?)
  DEFINE down AS price < PREV(price), up AS up.price > strt.price + 2 AND price > PREV(price))
WHERE bottom > 1"""
WALK = pd.DataFrame(
    {
        "t": pd.date_range("2026-01-01", periods=10, freq="s"),
        "s": list("aaaaabbbbb"),
        "price": [5, 3, 2, 4, 1, 6, 5, 4, 3, 9.0],
    }
)


@pytest.fixture(scope="module")
def board():
    explorer = WALK.cep.explore(TEXT).wait(60)
    assert explorer.status["state"] == "done", explorer.status
    return explorer


# --- the text


def test_a_text_is_recognised_by_itself():
    for text in (TEXT, "MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > 1)", "PATTERN (A) DEFINE A AS x > 1"):
        explorer = WALK.rename(columns={"price": "x"}).cep.explore(text.replace("price", "x")).wait(60)
        assert explorer.status["state"] == "done", explorer.status
        assert explorer.board.bar.language == "SQL"
        assert explorer.board.editor.keywords == list(KEYWORDS_OF_SQL)
    explorer.text = ". up\nup: x > 1"
    assert explorer.wait(60).board.bar.language == "regex"
    assert explorer.board.editor.keywords == list(KEYWORDS)
    explorer.text = "PATTERN SEQ(_ a, _ b)"
    assert explorer.wait(60).board.bar.language == "PATTERN"


@pytest.mark.parametrize(
    "text, wrong",
    [
        (TEXT.replace("PATTERN", "PATERN"), "PATERN"),
        (TEXT.replace("price < PREV", "prize < PREV"), "prize"),
        (TEXT.replace("{2,}", "{2"), ")"),
        (TEXT.replace("LAST(", "LASST("), "LASST"),
    ],
)
def test_a_mistake_has_its_place(text, wrong):
    explorer = WALK.cep.explore(text).wait(60)
    assert explorer.status["state"] == "failed"
    [error] = explorer.board.editor.errors
    assert text[error["start"] : error["end"]] in wrong or wrong in text[error["start"] : error["end"]], error
    explorer.text = TEXT
    assert explorer.wait(60).status["state"] == "done"


def test_other_choices_do_not_count():
    explorer = WALK.cep.explore(TEXT, order_by="price", partition_by="t").wait(60)
    assert explorer.status["state"] == "done"
    fields = {field["name"]: field for field in explorer.board.bar.fields}
    assert fields["partition_by"]["chosen"] == ["s"] and fields["order_by"]["chosen"] == ["t"]
    assert all(field["locked"] for name, field in fields.items() if name != "value")
    assert "order_by" not in explorer.code


def test_a_query_object_and_a_result_open_as_text():
    matches = cep.match(WALK, TEXT)
    explorer = cep.explore(WALK, matches.query).wait(60)
    assert explorer.query == matches.query
    text, call = text_and_call(read_text(TEXT, {"params": {"a": 1}}).query, {})
    assert read_text(text, call).query.whole == matches.query and call == {"params": {"a": 1}}


# --- the parts of the board


def test_the_table_has_the_matches_with_their_measures(board):
    table = board.board.table
    assert [column["name"] for column in table.columns] == ["s", "bottom", "n"]
    assert table.rows == [["a", "2", "2"], ["b", "3", "3"]] and table.total == "2"
    assert "the table has the matches before WHERE and LIMIT" in board.status["message"]
    assert board.matches.to_frame()["bottom"].tolist() == [2.0, 3.0]
    assert isinstance(board.matches._found, RowsInMemory)
    board.filters = {"n": "> 2"}
    assert board.wait(60).filtered["s"].tolist() == ["b"]
    board.filters = {}


def test_without_measures_the_table_has_the_first_and_the_last_row():
    explorer = WALK.cep.explore("MATCH_RECOGNIZE (ORDER BY t PATTERN (A B+) DEFINE B AS price < PREV(price))")
    table = explorer.wait(60).board.table
    assert [column["name"] for column in table.columns] == ["first_t", "last_t", "rows"]
    assert [row[-1] for row in table.rows] == ["3", "2", "4"]


def test_the_sentence_the_code_and_the_command(board):
    assert board.board.editor.sentence.startswith("any row STRT, then at least 2 rows DOWN, then optionally")
    space = {"df": WALK}
    exec(board.code, space)
    assert space["matches"].to_frame().equals(board.matches.to_frame())
    assert board.command.startswith("cepkit match df.parquet 'SELECT bottom FROM walk MATCH_RECOGNIZE (")


def test_the_funnel(board):
    stages = [(stage["label"], stage["n"]) for stage in board.board.funnel.stages]
    assert stages == [("STRT", "10"), ("DOWN{2,}", "3"), ("UP?", "3"), ("matches", "2")]


def test_the_automaton_and_a_selected_match():
    explorer = WALK.cep.explore(TEXT).wait(60)
    nfa, timeline = explorer.board.nfa, explorer.board.timeline
    assert len(nfa.states) == 5
    assert {"1: DOWN", "2: UP"} <= {way["label"] for way in nfa.transitions}
    assert "UP: UP.price > STRT.price + 2 AND price > PREV(price)\nchoice 2" in "".join(
        way["tooltip"] for way in nfa.transitions
    )
    explorer.select(1)
    explorer.wait(60)
    assert nfa.lit == [0, 1, 2, 3, 4]
    assert [point["label"] for point in timeline.points] == ["STRT", "DOWN", "DOWN", "DOWN", "UP"]
    explorer.select_state(3)
    assert explorer.wait(60).board.nfa.told == "2 events of 1 match on the timeline marked as DOWN"


def test_clicked_rows_are_explained():
    explorer = WALK.cep.explore(TEXT).wait(60)
    reasons = explorer.board.reasons
    explorer.why_not([1])
    explorer.wait(60)
    assert reasons.title == "in match 0, as DOWN: row 1"
    assert reasons.lines[0] == {"text": "DOWN holds: price < PREV(price)", "is_met": True}
    explorer.why_not([1, 3])
    explorer.wait(60)
    assert reasons.title == "no match: rows 1 to 3; row 3 cannot follow row 2"
    assert [line["text"] for line in reasons.lines] == [
        "row 3: DOWN fails: price < PREV(price) (price = 4, PREV(price) = 2)"
    ]
    explorer.show_key("a")
    explorer.wait(60)
    [*_, asked] = explorer.board.timeline.asked
    assert [bar["outcome"] for bar in asked["partials"]] == ["failed"]
    explorer.why_not([0, 2])
    explorer.wait(60)
    assert reasons.title.startswith("they match: rows 0 to 2 are match 1")
    explorer.why_not([6, 8])
    explorer.wait(60)
    assert "row 6 is inside match 1 by MATCH_NUMBER() (" in reasons.lines[0]["text"]


def test_sliders_move_the_constants():
    explorer = WALK.cep.explore(TEXT).wait(60)
    sliders = {slider.label: slider for slider in explorer.sliders}
    assert set(sliders) == {"UP: up.price > strt.price + 2", "down{2,}"}
    explorer.move(sliders["down{2,}"].id, 3)
    assert "down{3,}" in explorer.wait(60).text
    assert explorer.board.table.total == "1"
    explorer.undo()
    assert explorer.wait(60).board.table.total == "2"


def test_sliders_of_a_window_and_of_parameters():
    text = "MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) WITHIN INTERVAL '2' SECOND DEFINE A AS price > :least)"
    reading = read_text(text, {"params": {"least": 3.5}})
    by_label = {slider.label: slider for slider in sliders_of(reading)}
    assert by_label["within, second"].value == 2 and by_label[":least"].value == 3.5
    assert "INTERVAL '5' SECOND" in move_slider(text, by_label["within, second"], 5)
    explorer = WALK.cep.explore(text, params={"least": 3.5}).wait(60)
    explorer.move(":least", 5)
    assert explorer.wait(60).matches.count() == 1


def test_kept_cases_hold_or_not():
    explorer = WALK.cep.explore(TEXT).wait(60)
    explorer.keep(match=0)
    explorer.keep(False, rows=[6])
    assert explorer.wait(60).verdicts == (True, False)
    with pytest.raises(CepError, match="not for MATCH_RECOGNIZE"):
        explorer.write_test(0)


def test_a_board_is_saved_and_opened(tmp_path, board):
    board.save(tmp_path / "board.json")
    opened = cep.explore.load(tmp_path / "board.json", WALK).wait(60)
    assert opened.text == TEXT and opened.board.table.total == "2"


def test_a_page_to_take_away(tmp_path, board):
    page = board.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Any row STRT, then at least 2 rows DOWN" in page and "MATCH_RECOGNIZE" in page


def test_descending_orders_have_rows_as_their_axis():
    text = "MATCH_RECOGNIZE (ORDER BY t DESC MEASURES FIRST(t) AS begins PATTERN (A B) DEFINE B AS price > 4)"
    explorer = WALK.cep.explore(text).wait(60)
    assert explorer.board.timeline.x_label == "row"
    assert explorer.board.table.rows == [["2026-01-01 00:00:07"], ["2026-01-01 00:00:01"]]
    assert explorer.matches.to_frame()["begins"].dt.second.tolist() == [7, 1]


def test_empty_matches_are_told_and_not_shown():
    explorer = WALK.cep.explore("PATTERN (A*) DEFINE A AS price > 5").wait(60)
    assert explorer.board.table.total == "2"
    assert "8 matches without rows are not shown" in explorer.status["message"]


def test_another_engine_is_refused():
    explorer = WALK.cep.explore(TEXT, engine="ordered").wait(60)
    assert explorer.status["state"] == "failed"
    assert "MATCH_RECOGNIZE has an engine of its own" in explorer.status["message"]


def test_other_frames():
    explorer = pl.from_pandas(WALK).cep.explore(TEXT) if hasattr(pl.DataFrame, "cep") else None
    explorer = explorer or cep.explore(pl.from_pandas(WALK), TEXT)
    assert explorer.wait(60).board.table.total == "2"
    assert isinstance(explorer.matches.to_frame(), pl.DataFrame)


# --- against the oracle


@pytest.mark.parametrize("seed", range(6))
def test_table_timeline_and_steps_agree_with_the_definition(seed):
    random = Random(seed)
    for _ in range(3):
        query = random_query(random, depth=2)
        rows = [{**row, "number": i} for i, row in enumerate(random_rows(random, random.randint(2, 12)))]
        frame = pd.DataFrame(rows).astype({"x": "Int64", "y": "Int64"}).drop(columns="number")
        frame["t"] = frame["t"].astype("datetime64[s]")
        asked = oracle_query(query)
        try:
            found = [
                [part[k]["number"] for k in match.rows()]
                for part in oracle.partitions(asked, rows)
                for match in oracle.matches(asked, part)
                if match.labels
            ]
        except oracle.MatchError:
            continue
        explorer = frame.cep.explore(str(query)).wait(60)
        assert explorer.status["state"] == "done", f"{query}: {explorer.status}"
        result = explorer._present.shown.result
        events = result.events
        shown = [
            events.rows(np.array(result.choose(number).positions)).tolist() for number in range(len(found))
        ]
        assert sorted(shown) == sorted(found), str(query)
        assert explorer.board.table.total == f"{len(found):,}"
        completed = []
        for partition in range(events.n_partitions):
            stepping = result.stepping(partition)
            for n_read in range(1, stepping.n + 1):
                completed += [
                    [int(events.rows(np.array([stepping.position_of(k)]))[0]) for k in ends]
                    for ends in stepping.after(n_read).completed
                ]
        assert sorted(completed) == sorted([rows[0], rows[-1]] for rows in found), str(query)
