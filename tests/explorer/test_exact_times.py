"""Clocks that a float64 cannot hold: labels, windows and clicks stay exact."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

START = 10_634_999_812_345_679  # picoseconds, above 2**53
QUERY = dict(order_by="t", define={"up": "x > prev(x)"})


def explored(t, **more):
    frame = pd.DataFrame({"t": t, "x": np.arange(len(t)) % 7})
    explorer = frame.cep.explore("up{2,}", **QUERY, **more)
    explorer.wait(60)
    return explorer


def ticks_of(timeline):
    return np.frombuffer(timeline.ticks, np.int64)


@pytest.mark.parametrize("step", [1, 3, 10**13])
def test_ticks_and_clicks_are_exact(step):
    t = START + step * np.arange(400)
    explorer = explored(t)
    timeline = explorer.board.timeline
    assert ticks_of(timeline).tolist() == t.tolist()
    x = np.frombuffer(timeline.x) + 0.0
    assert int(timeline.origin) + x[0] == START or step > 1
    if step < 10**12:
        assert (int(timeline.origin) + x.astype(np.int64)).tolist() == t.tolist()
    for place in (0, 17, 18, 399):
        timeline.clicked = str(t[place])
        explorer.wait(60)
        assert f"row {place}" in explorer.board.reasons.title, explorer.board.reasons.title
        timeline.clicked = None


def test_windows_are_exact():
    t = START + np.arange(3000) * 2
    explorer = explored(t)
    timeline = explorer.board.timeline
    explorer.zoom([int(t[100]), int(t[103])])  # the method has the numbers of the frame
    explorer.wait(60)
    assert ticks_of(timeline).tolist() == t[99:105].tolist()  # one more at either side
    low, high = timeline.view
    assert [int(timeline.origin) + int(bound) for bound in (low, high)] == [t[0], t[-1]]
    spans = np.frombuffer(timeline.spans).astype(np.int64) + int(timeline.origin)
    matched = explorer.matches.to_frame()
    assert set(spans.tolist()) <= set(matched[["first_t", "last_t"]].to_numpy().ravel().tolist())
    assert "10,634,999," in timeline._still()


def test_nanoseconds_have_ticks_and_other_clocks_have_none():
    times = pd.Timestamp("2026-01-05 09:30").value + np.arange(50)
    explorer = explored(times.view("datetime64[ns]"))
    timeline = explorer.board.timeline
    assert ticks_of(timeline).tolist() == times.tolist() and timeline.origin == "0"
    timeline.clicked = str(times[31])
    explorer.wait(60)
    assert "row 31" in explorer.board.reasons.title
    assert not explored(np.arange(50)).board.timeline.ticks
    assert not explored((times // 1000).view("datetime64[us]")).board.timeline.ticks
    assert not explored(np.arange(50) * 1.5).board.timeline.ticks


def test_keys_share_the_origin():
    n = 600
    frame = pd.DataFrame(
        {"t": START + np.arange(n), "x": np.arange(n) % 5, "k": np.repeat(["a", "b"], n // 2)}
    )
    explorer = frame.cep.explore("up{2,}", partition_by="k", **QUERY).wait(60)
    origins = set()
    for key in "ab":
        explorer.show_key(key)
        explorer.wait(60)
        timeline = explorer.board.timeline
        origins.add(timeline.origin)
        assert ticks_of(timeline).tolist() == frame["t"][frame["k"] == key].tolist()
    assert len(origins) == 1
