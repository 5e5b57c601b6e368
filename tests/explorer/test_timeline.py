"""The timeline of an explorer: the strip of all matches, bands that can be seen, zones, partial matches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.explorer.running import series as density
from cepkit.explorer.running import timeline as timeline_module
from cepkit.explorer.running.result import describe_group, group_fates
from cepkit.explorer.running.series import BINS, Clock, Series, draw_series, offsets_of
from cepkit.insight.why_not_regex import Fate

WALK = {"up": "x > prev(x)", "down": "x < prev(x)"}
PAIRS = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 40"


def stream(n, n_keys=3, seed=0, n_hours=0):
    """Return a stream; without hours, its clock are whole numbers with ties."""
    rng = np.random.default_rng(seed)
    clock = np.sort(rng.integers(0, 3 * n, n))
    begin = pd.Timestamp("2026-03-28", tz="Europe/Berlin")
    return pd.DataFrame(
        {
            "t": begin + pd.to_timedelta(clock * n_hours * 3600 / (3 * n), unit="s") if n_hours else clock,
            "k": rng.choice([f"key {k}" for k in range(n_keys)], n),
            "kind": rng.choice(["A", "B", "C"], n),
            "x": rng.integers(0, 50, n),
        }
    )


def floats(sent, width=1):
    found = np.frombuffer(sent)
    return found if width == 1 else found.reshape(-1, width)


def ends_of_matches(explorer, by="k"):
    """Return the time and the key of the last event of every match."""
    lineage = explorer.matches.lineage()
    last = lineage.groupby("match")["index"].last()
    frame = explorer._data.source.frame
    return frame["t"].loc[last].to_numpy(), frame[by].loc[last].to_numpy()


def opened(frame, query, **call):
    kind = {"event_type": "kind"} if query.startswith("PATTERN") else {"define": WALK}
    return frame.cep.explore(query, order_by="t", **kind, **call).wait(120)


# --- the strip


@pytest.mark.parametrize("query", ["up down", PAIRS])
@pytest.mark.parametrize("seed", range(4))
def test_the_strip_counts_every_match_where_it_ends(query, seed):
    frame = stream(600, 1 + seed % 3, seed)
    keys = {"partition_by": "k"} if seed != 3 else {}
    explorer = opened(frame, query, **keys)
    timeline = explorer.board.timeline
    low, high = frame["t"].iloc[0], frame["t"].iloc[-1]
    assert timeline.strip_view == [low, high]
    ends, key = ends_of_matches(explorer)
    every, own = floats(timeline.strip_all), floats(timeline.strip_key)
    assert len(every) == BINS <= 400 and every.sum() == explorer.matches.count() > 20
    edges = np.linspace(low, high, BINS + 1)
    place = np.clip(np.searchsorted(edges, ends, "right") - 1, 0, BINS - 1)
    assert every.tolist() == np.bincount(place, minlength=BINS).tolist()
    if not keys or seed == 0:  # one key only
        assert len(own) == 0
        return
    shown = frame["k"][frame["t"].isin(floats(timeline.x))].mode()[0]
    counts = [np.bincount(place[key == one], minlength=BINS).tolist() for one in frame["k"].unique()]
    assert own.tolist() in counts and own.sum() == (key == explorer_key(explorer)).sum() > 0, shown


def explorer_key(explorer):
    """Return the shown key."""
    partition = explorer._present.shown.partition
    events = explorer._present.shown.result.events
    first = int(np.flatnonzero(events.partition_of_event == partition)[0])
    return explorer._data.source.frame["k"].iloc[int(events.rows(np.array([first]))[0])]


def test_the_strip_counts_more_matches_than_an_integer_holds():
    n = 4000
    frame = pd.DataFrame(
        {"t": np.arange(n), "kind": ["A", "B"] * (n // 2), "k": ["p", "p", "q", "q"] * (n // 4)}
    )
    many = ", ".join(f"{kind} {kind.lower()}{k}" for k in range(4) for kind in "AB")
    explorer = cep.explore(
        frame, f"PATTERN SEQ({many})", event_type="kind", order_by="t", partition_by="k"
    ).wait(120)
    total = explorer.matches.count()
    assert total > 2**63
    timeline = explorer.board.timeline
    assert floats(timeline.strip_all).sum() == pytest.approx(total)
    assert floats(timeline.strip_key).sum() == pytest.approx(total / 2, rel=0.01)
    assert floats(timeline.crowd).sum() == pytest.approx(floats(timeline.strip_key).sum())


def test_a_strip_without_time_has_one_bin():
    frame = pd.DataFrame({"t": [5] * 4, "kind": list("ABAB"), "k": "p", "x": range(4)})
    explorer = opened(frame, PAIRS)
    assert floats(explorer.board.timeline.strip_all).tolist() == [3.0]


# --- bands where they can be seen


@pytest.mark.parametrize("query", [". up+ down", PAIRS])
@pytest.mark.parametrize("seed", range(3))
def test_bands_are_those_of_the_visible_window(query, seed):
    frame = stream(500, 2, seed)
    explorer = opened(frame, query, partition_by="k")
    timeline, found = explorer.board.timeline, explorer._present.shown.result
    lineage = explorer.matches.lineage()
    first, last = (lineage.groupby("match")["index"].agg(which) for which in ("first", "last"))
    own = frame["k"].loc[last].to_numpy() == explorer_key(explorer)
    begin, end = frame["t"].loc[first].to_numpy()[own], frame["t"].loc[last].to_numpy()[own]
    numbers = last.index.to_numpy()[own]
    for low, high in ((200.0, 400.0), (0.0, 1500.0), (700.0, 701.0), (1490.0, 1500.0)):
        timeline.window = [low, high]
        explorer.wait(120)
        # The events of the window decide, so that a match around all of them is drawn as well.
        inside = frame["t"][(frame["k"] == explorer_key(explorer)) & frame["t"].between(low, high)]
        bounds = (inside.min(), inside.max()) if len(inside) else (low, low - 1)
        wanted = numbers[(end >= bounds[0]) & (begin <= bounds[1])] if len(inside) else numbers[:0]
        if len(inside):
            assert sorted(floats(timeline.span_ids).astype(int)) == sorted(wanted)
            assert len(timeline.crowd) == 0 and f"{len(wanted)} match" in timeline.span_note
    assert found.bars == (-1, ())


@pytest.mark.parametrize("query", ["up down", PAIRS])
def test_too_many_bands_become_numbers_per_part(query, monkeypatch):
    monkeypatch.setattr(density, "MOST_BANDS", 30)
    monkeypatch.setattr(timeline_module, "MOST_BANDS", 30)
    frame = stream(900, 1)
    explorer = opened(frame, query)
    timeline = explorer.board.timeline
    n = explorer.matches.count()
    assert floats(timeline.crowd).sum() == n > 100 and timeline.crowd_view == timeline.view
    assert "zoom in to see each" in timeline.span_note and len(floats(timeline.span_ids)) == 30
    ends, _ = ends_of_matches(explorer)
    low, high = (float(bound) for bound in np.quantile(ends, [0.4, 0.42]))
    timeline.window = [low, high]
    explorer.wait(120)
    assert len(timeline.crowd) == 0 and timeline.crowd_view == []
    assert len(timeline.spans) and (floats(timeline.spans, 2)[:, 0] <= high).all()
    assert (floats(timeline.spans, 2)[:, 1] >= low).all() and " here" in timeline.span_note
    assert floats(timeline.strip_all).sum() == n  # the strip still has all


@pytest.mark.parametrize("seed", range(6))
def test_no_part_of_a_line_is_left_out(seed):
    rng = np.random.default_rng(seed)
    n, buckets = int(rng.integers(500, 3000)), int(rng.integers(10, 40))
    series = Series(None, Clock(np.arange(n)), rng.normal(size=n), "line")
    drawn = draw_series(series, None, buckets)["x"]
    if len(drawn) < n:
        assert np.diff(drawn).max() < 2 * -(-n // buckets)


# --- zones


def local_time(offsets: tuple[tuple[float, float], ...], time: float) -> float:
    """Return a time in milliseconds since 1970 as the clocks of the zone show it, as the browser does."""
    own = [offset for since, offset in offsets if since <= time] or [offset for _, offset in offsets[:1]]
    return time + (own[-1] if own else 0.0)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30", "UTC", ""])
@pytest.mark.parametrize("days", [1, 500, 9000])
def test_local_time_is_that_of_the_zone(zone, days):
    begin = pd.Timestamp("2024-01-01", tz="UTC")
    moments = begin + pd.to_timedelta(np.linspace(0, days, 500), unit="D").round("s")
    ms = moments.as_unit("ms").asi8.astype(float)
    offsets = offsets_of(zone, float(ms[0]), float(ms[-1]))
    local = moments.tz_convert(zone).tz_localize(None) if zone else moments.tz_localize(None)
    assert [local_time(offsets, time) for time in ms] == local.as_unit("ms").asi8.tolist()


def test_axis_table_and_reasons_have_one_zone():
    frame = stream(400, 1, n_hours=48)  # the clocks change in it
    explorer = opened(frame, "up down")
    timeline = explorer.board.timeline
    assert timeline.x_label == "t (Europe/Berlin)"
    offsets = tuple(map(tuple, floats(timeline.zone_offsets, 2).tolist()))
    assert [offset / 3.6e6 for _, offset in offsets] == [1.0, 2.0]
    place = [column["name"] for column in explorer.board.table.columns].index("first_t")
    for row, (first, _) in zip(explorer.board.table.rows, floats(timeline.spans, 2), strict=False):
        shown = pd.Timestamp(local_time(offsets, first), unit="ms")
        assert abs(pd.Timestamp(row[place]).tz_localize(None) - shown) < pd.Timedelta("1 ms")
    assert offsets_of("Mars/Base", 0.0, 1e9) == ()


# --- partial matches


BARS = pd.DataFrame(
    {
        "t": pd.date_range("2026-01-01", periods=10, freq="min"),
        "x": [10, 11, 12, 13, 13, 14, 12, 12, 13, 11],
    },
    index=[f"r{k}" for k in range(10)],
)


def why_not(explorer, *positions):
    explorer.why_not(positions)
    explorer.wait(60)
    board = explorer.board
    partials = [bar for one in board.timeline.asked for bar in one["partials"]]
    return [line["text"] for line in board.reasons.lines], partials


def minute(k):
    return pd.Timestamp("2026-01-01").value / 1e6 + 60_000.0 * k


def test_a_partial_match_is_a_bar_up_to_where_it_ended():
    explorer = BARS.cep.explore("up{3,} down", define=WALK, order_by="t").wait(60)
    assert explorer.matches.count() == 0
    lines, partials = why_not(explorer, 4)
    assert "The partial match from row 'r1' (00:01:00) ends here: this row is not up or down." in lines
    [longest, *_] = partials
    assert (longest["outcome"], longest["end"]) == ("failed", minute(4))
    assert [event["x"] for event in longest["events"]] == [minute(1)]
    assert longest["text"][0] == "up fails: x > prev(x) (x = 13, prev(x) = 13)"
    assert all(text in lines for text in longest["text"]) and len(lines) == len(set(lines))
    assert explorer.board.reasons.title == "in no match: row 'r4' (2026-01-01 00:04:00)"


def test_a_partial_match_that_is_completed_or_stays_open():
    explorer = BARS.cep.explore("up up+ down", define=WALK, order_by="t").wait(60)
    assert explorer.matches.count() == 0
    explorer.text = ". up down\nup: x > prev(x)\ndown: x < prev(x)"
    explorer.wait(60)
    assert explorer.matches.count() == 2
    lines, partials = why_not(explorer, 5)
    assert (
        "The match from row 'r4' (00:04:00) takes this row as up and is completed at row 'r6' (00:06:00)."
        in lines
    )
    assert (partials[0]["outcome"], partials[0]["end"]) == ("matched", minute(6))
    explorer.text = ". up* down{9}\nup: x > prev(x)\ndown: x < prev(x)"
    explorer.wait(60)
    lines, partials = why_not(explorer, 9)
    assert partials and {bar["outcome"] for bar in partials} <= {"failed", "open"}


def test_partial_matches_with_the_same_end_are_one_line():
    fates = [Fate(start, 9, 2, 4) for start in (5, 3, 1, 7)] + [Fate(0, 9, 0, 4), Fate(2, 8, 2, None, 2)]
    groups = group_fates(fates)
    assert [group.starts for group in groups] == [(1, 3, 5, 7), (0,), (2,)]

    def words(group, k=6):
        return describe_group(("a", "b", "c"), group, k, lambda i: f"row {i}", lambda i: f"row {i} (0:0{i})")

    assert words(groups[0]) == (
        "4 partial matches (from rows 1, 3, 5 and 1 more) take this row as b. "
        "They end at row 9 (0:09): that row is not c."
    )
    [pair] = group_fates(fates[:2])
    assert words(pair).startswith("2 partial matches (from rows 3 and 5) take this row as b.")
    assert words(groups[1], 9) == "The partial match from row 0 (0:00) ends here: this row is not c."
    assert words(groups[2]) == (
        "The match from row 2 (0:02) takes this row as b and is completed at row 8 (0:08)."
    )
    assert words(group_fates(fates[:1])[0]).endswith("It ends at row 9 (0:09): that row is not c.")
    [rival], [still] = group_fates([Fate(3, 8, 1, None, 2)]), group_fates([Fate(3, 20, 1)])
    assert words(rival) == (
        "The partial match from row 3 (0:03) takes this row as a. "
        "It ends at row 8 (0:08), because the match from row 2 is complete."
    )
    assert words(still) == "The partial match from row 3 (0:03) takes this row as a and stays open."


@pytest.mark.parametrize("zone", [None, "America/New_York"])
@pytest.mark.parametrize("clock", ["times", "numbers"])
def test_a_partial_match_whose_window_is_over_says_so(clock, zone):
    times = pd.Series(pd.date_range("2026-01-01", periods=9, freq="1min", tz=zone)).dt.as_unit("us")
    numbers = pd.Series(range(9))
    frame = pd.DataFrame({"t": times if clock == "times" else numbers, "x": range(9)})
    within = "3 min" if clock == "times" else 3
    define = {"far": "x >= first(x) + 5"}
    explorer = cep.explore(frame, ". .* far", define=define, order_by="t", within=within).wait(60)
    lines, partials = why_not(explorer, 2)
    [told] = [line for line in lines if "begins" in line or "from row 0" in line or "rows 0" in line]
    window = "3 min" if clock == "times" else "3"
    assert told.endswith(f": the window of {window} is over.") and "is not" not in told
    assert [bar["text"] for bar in partials] == [
        [f"the window of {window} is over"],
        *[[]] * (len(partials) - 1),
    ]
    at = "2026-01-01 00:02:00" if clock == "times" else "2"
    assert explorer.board.reasons.title == f"in no match: row 2 ({at})"  # the zone is named at the axis


def test_another_key_has_no_reasons_of_the_key_before():
    frame = pd.DataFrame({"k": list("aabb"), "t": [1, 2, 3, 4], "x": [1, 0, 3, 4]})
    explorer = cep.explore(frame, ". up", define={"up": "x > prev(x)"}, partition_by="k", order_by="t").wait(
        60
    )
    explorer.show_key("a")
    explorer.wait(60).why_not([1])
    assert explorer.wait(60).board.reasons.title and explorer.board.timeline.asked
    explorer.show_key("b")
    explorer.wait(60)
    assert explorer.board.reasons.title == "" and explorer.board.timeline.asked == []
    explorer.show_key("a")
    explorer.wait(60).why_not([1])
    explorer.wait(60).select(0)
    assert explorer.wait(60).board.reasons.title == ""


def test_a_partial_match_of_a_sequence_has_its_events():
    frame = pd.DataFrame({"t": [1, 2, 3, 9], "kind": list("ABCB"), "x": [5, 7, 6, 3]}, index=list("pqrs"))
    query = "PATTERN SEQ(A a, B b, C c) WHERE c.x > b.x WITHIN 5"
    explorer = cep.explore(frame, query, event_type="kind", order_by="t").wait(60)
    lines, [bar] = why_not(explorer, 0, 1, 2)
    assert bar["outcome"] == "failed" and bar["end"] == 3.0
    assert bar["events"] == [{"x": 1.0, "label": "a"}, {"x": 2.0, "label": "b"}]
    assert bar["text"] == lines == ["c.x > b.x: 6 > 7 is false"]
    assert "row 'r' cannot follow row 'q'" in explorer.board.reasons.title
    explorer.text = query.replace(">", "<")
    explorer.wait(60)
    _, [bar] = why_not(explorer, 0, 1, 2)
    assert (bar["outcome"], [event["label"] for event in bar["events"]]) == ("matched", ["a", "b", "c"])


def test_bars_are_of_the_shown_key_only():
    frame = stream(200, 2)
    explorer = opened(frame, ". up+ down", partition_by="k")
    own = explorer._present.shown.partition
    events = explorer._present.shown.result.events
    positions = np.flatnonzero(events.partition_of_event == own)[20:22].tolist()
    assert any(why_not(explorer, position)[1] for position in positions)  # a match may end before one of them
    matches = explorer.matches.lineage()
    other = next(
        number for number, part in matches.groupby("match")
        if frame["k"].loc[part["index"].iloc[0]] != explorer_key(explorer)
    )  # fmt: skip
    explorer.select(other)
    explorer.wait(60)
    assert explorer.board.timeline.asked == []


# --- one numbering


@pytest.mark.parametrize("is_unique", [True, False])
def test_rows_have_one_name_everywhere(is_unique):
    frame = BARS if is_unique else BARS.set_axis(["twice"] * len(BARS))
    explorer = frame.cep.explore(". up down", define=WALK, order_by="t").wait(60)
    explorer.step_to(7)
    explorer.wait(60)
    board, name = explorer.board, "row 'r{}'" if is_unique else "row {}"
    assert board.stepper.event[0] == ["row", "r6" if is_unique else "6"]
    assert board.stepper.completed == [f"{name.format(4)}, {name.format(6)}"]
    explorer.step_to(3)
    explorer.wait(60)
    examples = [text for state in board.stepper.live for text in state["examples"]]
    assert f"from {name.format(1)}, 2 events" in examples
    explorer.why_not([6])
    explorer.wait(60)
    assert f"down: {name.format(6)} (2026" in board.reasons.title
    shown = " ".join([*examples, *board.stepper.completed, *(line["text"] for line in board.reasons.lines)])
    assert "event 1" not in shown and "event 5" not in shown
