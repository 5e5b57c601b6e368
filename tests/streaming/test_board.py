"""The board of a stream: a widget that shows the status while events are pushed."""

import pandas as pd
import pytest

import cepkit as cep
from cepkit.streaming import search
from cepkit.widgets.scene_view import View

SCHEMA = {"t": "int64", "k": "string", "x": "int64"}
UPS = {"query": "up up", "define": {"up": "x > 1"}, "partition_by": "k", "order_by": "t"}


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the test moves, in seconds."""

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    moved = Clock()
    monkeypatch.setattr(search, "time", moved)
    return moved


def events(first: int, n: int, key: str = "a") -> pd.DataFrame:
    return pd.DataFrame({"t": range(first, first + n), "k": key, "x": 2})


def figures(board: View) -> dict[str, str]:
    return {figure["label"]: figure["now"] for figure in board.figures}


def test_it_follows_the_stream_once_a_second(clock):
    stream = cep.stream(UPS["query"], SCHEMA, **{name: UPS[name] for name in UPS if name != "query"})
    board = stream.board()
    heard = []
    board.observe(heard.append, "figures")
    for i in range(80):
        clock.now += 0.125
        stream.push(events(10 * i, 10))
    assert len(heard) == 10
    seen = figures(board)
    assert seen["events per second"] == "80" and seen["keys"] == "1"
    [events_per_second] = [f["course"] for f in board.figures if f["label"] == "events per second"]
    assert events_per_second == [0, 70, *[80] * 9]
    stream.push_row((5000, "b", 1))
    stream.close()
    assert figures(board)["keys"] == "2" and "801 events" in board.note
    assert repr(board) == "StreamBoard(up up)" and "memory" in board._still()


def test_a_course_has_the_last_minute(clock):
    stream = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"})
    board = stream.board()
    for _ in range(70):
        clock.now += 1.0
        stream.push([{"x": 0}])
    assert {len(figure["course"]) for figure in board.figures} == {60}


def test_streams_of_every_kind_have_a_board(clock):
    join = cep.stream(
        cep.Join(cep.Window(length=2), cep.Window(length=2), order_by="t"),
        {"left": {"t": "int64"}, "right": {"t": "int64"}},
    )
    late = cep.stream([cep.KSlack(5, order_by="t"), "up up"], SCHEMA, define=UPS["define"], partition_by="k")
    boards = [join.board(), late.board(), cep.stream(cep.Window({"n": "count()"}, length=2), SCHEMA).board()]
    late.push(events(100, 10))
    clock.now += 2.0
    late.push(events(1, 3))
    late.push(events(120, 3))
    clock.now += 2.0
    late.push(events(140, 1))
    assert "3 late rows dropped" in boards[1].note
    assert all(figures(board)["memory"] for board in boards)


def test_the_still_of_a_displayed_board_follows(clock, monkeypatch):
    stills = []

    def show(alive, draw, describe):
        stills.append(draw())
        return lambda: stills.append(draw())

    monkeypatch.setattr("cepkit.widgets.panels.show_with_still", show)
    stream = cep.stream("up", {"x": "int64"}, define={"up": "x > 1"})
    board = stream.board()
    board._ipython_display_()
    stream.push([{"x": 2}] * 7)
    stream.close()
    assert len(stills) == 2 and stills[0] != stills[1] == board._still()
