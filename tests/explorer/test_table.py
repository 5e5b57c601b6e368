"""The table of matches without a browser: filters, orders, histograms, hidden columns, texts of cells."""

from __future__ import annotations

import threading
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.explorer.running import table as listing_module
from cepkit.explorer.running import table as pages_module
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.table import ListedColumn, Pages, head_of
from cepkit.explorer.running.texts import cells, columns_of, full_cells, quote_text, read_filter
from cepkit.progress import Cancellation, Cancelled, cancellable
from cepkit.widgets.scene_view import MatchTable
from tests.support.sizes import seeds
from tests.support.tables import cases
from tests.support.waiting import wait_until

QUERY = "up+ down\nup: x > 0.4\ndown: x <= 0.4"
PAIRS = "PATTERN SEQ(k0 a, k1 b) WHERE b.x > a.x + 0.4 WITHIN 20 min"
MEASURES = {
    "start": "first(t)", "lasts": "last(t) - first(t)", "n": "count()", "top": "max(x)",
    "note": "first(note)",
}  # fmt: skip


def stream(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    notes = np.array(["calm", "Storm", "a, b", 'say "no"', "=odd", "empty", None], object)
    return pd.DataFrame(
        {
            "t": pd.date_range("2026-03-01 09:30", periods=n, freq="20s").as_unit("us"),
            "key": rng.choice([f"k{i}" for i in range(6)], n),
            "x": rng.random(n).round(3),
            "note": rng.choice(notes, n),
        }
    )


FRAME = stream()


@pytest.fixture(scope="module")
def matches():
    call = {"order_by": "t", "partition_by": "key", "measures": MEASURES}
    return FRAME.cep.match("up+ down", define={"up": "x > 0.4", "down": "x <= 0.4"}, **call)


@pytest.fixture
def explorer():
    return FRAME.cep.explore(QUERY, order_by="t", partition_by="key", measures=MEASURES).wait(60)


def chosen(values, text):
    """Return the values that pass a filter."""
    series = pd.Series(values)
    return series[ListedColumn.of(series).choose(text)].tolist()


# --- filters


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("> 3", [4, 1200]), (">=3", [3, 4, 1200]), ("< 2", [-5, 1]), ("<= 1", [-5, 1]), ("3..4", [3, 4]),
        ("3..<4", [3]), ("3..", [3, 4, 1200]), ("..1", [-5, 1]), ("= 3", [3]), ("3", [3]), ("1,200", [1200]),
        ("1, 200", [1]), ("1, 3..4", [1, 3, 4]), ("!= 3", [-5, 1, 4, 1200]), ("> 1 and < 4", [3]),
        ("-5", [-5]), ("..-1", [-5]), ("1e3..", [1200]), ("empty", []), ("!empty", [-5, 1, 3, 4, 1200]),
        ("", [-5, 1, 3, 4, 1200]),
    ],
)  # fmt: skip
def test_filters_of_numbers(text, wanted):
    values = [-5, 1, 3, 4, 1200]
    assert (chosen(values, text) if text else values) == wanted
    floats = [*map(float, values), np.nan]
    if text and text not in ("empty", "!empty"):
        assert chosen(floats, text) == wanted  # a missing value passes no comparison


def test_a_missing_value_passes_only_empty():
    values = [1.5, np.nan, 3.0]
    assert len(chosen(values, "empty")) == 1 and chosen(values, "!= 3") == [1.5]
    assert chosen(values, "not empty") == [1.5, 3.0] and len(chosen(values, "empty, 3")) == 2


def test_a_number_equals_what_its_cell_shows():
    assert chosen([1 / 3, 0.4], "= 0.333333") == [1 / 3]
    assert chosen([0.1 + 0.2], "0.3") == [0.1 + 0.2] and chosen([2.6], "3") == []


TIMES = [
    "2026-03-01 09:29:59.9", "2026-03-01 09:30:00", "2026-03-01 09:30:59.999", "2026-03-01 10:00:00",
    "2026-03-02 00:00:00", "2026-03-02 09:30:30", "2026-04-01 23:30:00",
]  # fmt: skip


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-03-01", [0, 1, 2, 3]), ("2026-03", [0, 1, 2, 3, 4, 5]), ("2026-03-01 09:30", [1, 2]),
        ("09:30", [1, 2, 5]), ("09:30..10:00", [1, 2, 3, 5]), ("09:30..<10:00", [1, 2, 5]),
        ("> 2026-03-01 09:30", [2, 3, 4, 5, 6]), (">= 2026-03-02", [4, 5, 6]), ("< 09:30", [0, 4]),
        ("<= 09:30", [0, 1, 2, 4, 5]), ("2026-03-01 09:30..10:00", [1, 2, 3]), ("23:00..01:00", [4, 6]),
        ("..2026-03-01", [0, 1, 2, 3]), ("..<2026-03-01", []), ("2026-03-02..", [4, 5, 6]),
        ("09:30:59.999", [2]), ("!= 09:30", [0, 3, 4, 6]), ("2026-03-02, 10:00", [3, 4, 5]),
        ("2026-03-01T09:30:00", [1]), ("empty", []),
    ],
)  # fmt: skip
def test_filters_of_times(unit, zone, text, wanted):
    times = pd.Series(pd.to_datetime(TIMES, format="ISO8601").as_unit(unit))
    times = times if zone is None else times.dt.tz_localize(zone)  # filters are of the local time
    column = ListedColumn.of(pd.concat([times, pd.Series([pd.NaT], dtype=times.dtype)], ignore_index=True))
    assert np.flatnonzero(column.choose(text)).tolist() == (wanted if text != "empty" else [len(TIMES)])


def test_filters_of_durations():
    values = pd.to_timedelta(["5s", "1min", "90s", "1h", "2D"]).as_unit("ms")
    wanted = {
        "> 1 min": [2, 3, 4], "10 s..2 min": [1, 2], "= 00:01:30": [2], "< 1 h": [0, 1, 2], "1 min": [1],
        "2 days": [4], "..00:01:00": [0, 1], "60 s, 1 h": [1, 3],
    }  # fmt: skip
    for text, places in wanted.items():
        assert np.flatnonzero(ListedColumn.of(pd.Series(values)).choose(text)).tolist() == places, text


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_filters_of_texts(dtype):
    values = pd.Series(["AAA", "aab", "B, C", "empty", None], dtype=dtype)
    column = ListedColumn.of(values)
    wanted = {
        "aa": [0, 1], "=AAA": [0], "=AAA, aab": [0, 1], "!aa": [2, 3, 4], "!=AAA": [1, 2, 3, 4],
        '="B, C"': [2], "aa, !=AAA": [1], "empty": [4], "!empty": [0, 1, 2, 3], '"empty"': [3], "B": [1, 2],
    }  # fmt: skip
    for text, places in wanted.items():
        assert np.flatnonzero(column.choose(text)).tolist() == places, text


@pytest.mark.parametrize("value", ["a", "a, b", 'say "no"', "=x", "!x", "empty", "", " x", "𝄞"])
def test_a_quoted_text_keeps_itself_alone(value):
    others = ["other", value, f"{value}y"]
    assert chosen(others, f"={quote_text(value)}") == [value]


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    cases("filters", "mistaken filters"),
)
def test_a_mistaken_filter_says_what_to_write(text, kind, said):
    with pytest.raises(CepError, match=said.replace(".", r"\.")) as raised:
        read_filter(text, kind)
    assert "Write" in str(raised.value)


# --- pages


@pytest.mark.parametrize("seed", range(12))
def test_filters_orders_and_pages_work_together(matches, seed):
    draw = Random(seed)
    whole = matches.to_frame()
    tests = {
        "n": ("> 2", whole["n"] > 2), "top": ("0.8..0.95", whole["top"].between(0.8, 0.95)),
        "key": ("=k1, k3", whole["key"].isin(["k1", "k3"])),
        "start": ("10:00..14:00", whole["start"].dt.floor("min").dt.time.between(*_clock(10, 14))),
        "note": ("!calm", ~whole["note"].astype(object).eq("calm")),
        "lasts": ("> 2 min", whole["lasts"] > pd.Timedelta("2min")),
    }  # fmt: skip
    names = draw.sample(sorted(tests), draw.randrange(1, 4))
    kept = whole[np.logical_and.reduce([tests[name][1] for name in names])]
    filters = {name: tests[name][0] for name in names}
    column, direction = draw.choice(list(whole.columns)), draw.choice(["up", "down"])
    ordered = kept.sort_values(column, kind="stable", ascending=direction == "up", na_position="last")
    pages = Pages(matches, 7)
    for order, wanted in (
        ("canonical", kept.index), ("reverse", kept.index[::-1]), (f"{column} {direction}", ordered.index),
    ):  # fmt: skip
        traits = pages.traits(1, order, filters)
        n_pages = int(traits["n_pages"])
        found = [k for page in range(1, n_pages + 1) for k in pages.numbers(page, order, filters)]
        assert found == wanted.tolist(), (filters, order)
        assert traits["filtered"] == f"{len(kept):,} of {len(whole):,} matches"
        assert n_pages == max(1, -(-len(kept) // 7)) and traits["total"] == f"{len(whole):,}"
        for number in found[:10]:
            assert number in pages.numbers(pages.page_of(number, order, filters), order, filters)
    gone = next(iter(set(whole.index) - set(kept.index)), None)
    assert gone is None or pages.page_of(gone, "canonical", filters) is None


def _clock(*hours):
    return [pd.Timestamp(f"2026-01-01 {hour}:00").time() for hour in hours]


def test_a_mistaken_filter_does_not_count(matches):
    traits = Pages(matches).traits(1, "canonical", {"n": "> 2", "top": "high", "gone": "> 1"})
    assert list(traits["mistakes"]) == ["top"] and "is not a number" in traits["mistakes"]["top"]
    assert traits["filtered"] == Pages(matches).traits(1, "canonical", {"n": "> 2"})["filtered"]


def test_a_filter_of_a_part_of_the_matches_says_so(matches, monkeypatch):
    monkeypatch.setattr(listing_module, "LISTED", 100)
    monkeypatch.setattr(pages_module, "LISTED", 100)
    monkeypatch.setattr(listing_module, "_BLOCK", 16)
    n, whole = matches.count(), matches.to_frame()
    pages = Pages(matches)
    wanted = whole["n"].iloc[:100] > 2
    traits = pages.traits(1, "canonical", {"n": "> 2"})
    assert traits["filtered"] == f"{wanted.sum()} of the first 100 matches, {n} in all"
    assert pages.traits(1)["sortable"] == [] and "first 100 matches" in traits["limit_note"]
    assert traits["sortable"]  # the listed ones can be sorted
    assert pages.numbers(1, "top down", {"n": "> 2"}) == (
        whole.iloc[:100][wanted].sort_values("top", kind="stable", ascending=False).index[:15].tolist()
    )
    assert sum(bar["n"] for bar in pages.heads()["heads"]["n"]["bars"]) == 100


def test_a_cancelled_listing_begins_where_it_ended_or_again(matches, monkeypatch):
    monkeypatch.setattr(listing_module, "_BLOCK", 50)
    pages = Pages(matches)
    kind, n_calls, cancellation = type(pages.matches._found), [], Cancellation()
    measured = kind.frame_of

    def frame(found, part):
        n_calls.append(len(part))
        if len(n_calls) == 3:
            cancellation.cancel()
        return measured(found, part)

    monkeypatch.setattr(kind, "frame_of", frame)
    with cancellable(cancellation), pytest.raises(Cancelled):
        pages.heads()
    assert not pages.listing.is_built
    pd.testing.assert_frame_equal(pages.listing.frame, matches.to_frame(), check_index_type=False)


# --- histograms


def filters_of(head):
    """Return the filter and the count of every bar that can be clicked, as the browser writes them."""
    for bar in head["bars"]:
        low, high = bar["low"], bar["high"]
        if low == "empty" or (low and low == high):
            yield low, bar["n"]
        elif head["kind"] == "text":
            if low:
                yield f"={low}", bar["n"]
        elif low or high:
            yield f"{low}{head['between']}{high}" if high else f"{low}..", bar["n"]


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_a_bar_keeps_as_many_matches_as_it_counts(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 2, 40, 3000]))
    scale = 10.0 ** rng.integers(-6, 7)
    ticks = rng.integers(0, int(10 ** rng.integers(2, 12)), n)
    unit = rng.choice(["ms", "us", "ns"])
    times = pd.Series((1_700_000_000_000 + ticks).astype("M8[ms]").astype(f"M8[{unit}]"))
    texts = np.array(["a", "b, c", "=d", "empty", "e", "f"], object)
    columns = {
        "float": pd.Series(rng.standard_t(1, n) * scale), "int": pd.Series(rng.integers(-9, 9, n)),
        "large": pd.Series(rng.integers(-(10**15), 10**15, n)), "few": pd.Series(rng.integers(0, 3, n)),
        "time": times, "local": times.dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata"),
        "duration": pd.Series(ticks.astype("m8[ms]").astype(f"m8[{unit}]")),
        "text": pd.Series(rng.choice(texts, n), dtype=object),
        "each": pd.Series([f"user {k}" for k in range(n)], dtype=object),
        "same": pd.Series(np.full(n, 2.5)), "bool": pd.Series(rng.random(n) > 0.5),
    }  # fmt: skip
    for name, values in columns.items():
        if rng.random() < 0.4 and name not in ("int", "large", "few", "bool"):
            values = values.mask(rng.random(n) < 0.2)
        column = ListedColumn.of(values)
        head = head_of(column).trait(None)
        assert sum(bar["n"] for bar in head["bars"]) == n and len(head["bars"]) < 40, name
        for text, wanted in filters_of(head):
            assert column.choose(text).sum() == wanted, (name, text, head)


def test_bars_count_the_matches_that_pass():
    column = ListedColumn.of(pd.Series([1, 1, 2, 3]))
    head = head_of(column).trait(np.array([True, False, True, False]))
    assert [(bar["n"], bar["kept"]) for bar in head["bars"]] == [(2, 1), (1, 1), (1, 0)]


def test_an_outlier_leaves_the_bars_wide_enough():
    rng = np.random.default_rng(0)
    head = head_of(ListedColumn.of(pd.Series([*rng.random(1000), 1e9]))).trait(None)
    assert sum(bar["n"] > 20 for bar in head["bars"]) >= 8
    assert head["bars"][-1]["label"].endswith("1,000,000,000")


# --- texts


def test_cells_are_grouped_and_times_have_equal_digits():
    frame = pd.DataFrame(
        {
            "n": [1234567, -5], "x": [1234.56789, 0.1 + 0.2], "big": [1234567.25, 1e20],
            "t": pd.to_datetime(["2026-03-01 09:30:00.00", "2026-03-01 09:30:00.25"]).as_unit("us"),
            "day": pd.to_datetime(["2026-03-01", None]),
            "lasts": pd.to_timedelta(["80.5s", "2D"]), "missing": [None, 2.0],
        }
    )  # fmt: skip
    assert cells(frame) == [
        ["1,234,567", "1,234.57", "1,234,567", "2026-03-01 09:30:00.00", "2026-03-01", "00:01:20.5", ""],
        ["-5", "0.3", "1e+20", "2026-03-01 09:30:00.25", "", "2 days 00:00:00", "2"],
    ]
    full = full_cells(frame)
    assert full[0][:3] == ["1234567", "1234.56789", "1234567.25"] and full[1][1] == "0.30000000000000004"


def test_digits_of_identifiers_are_not_grouped():
    n = 1_234_567
    frame = pd.DataFrame(
        {"user_id": [n], "order_no": [float(n)], "band": [n], "visits": [n], "amount": [n / 2]}
    )
    assert cells(frame, ["band"]) == [["1234567", "1234567", "1234567", "1,234,567", "617,284"]]
    sides = [column["align"] for column in columns_of(frame, ["band"])]
    assert sides == ["left", "left", "left", "right", "right"]
    [head] = [head_of(ListedColumn.of(frame["user_id"])).trait(None)]
    assert head["says"] == "1234567" and head["bars"][0]["label"] == "1234567"


def test_the_table_begins_with_the_columns_that_differ():
    call = {"define": {"up": "x > 0.4"}, "order_by": "t", "partition_by": ["desk", "key"]}
    up = FRAME.assign(desk="NY").cep.match("up", **call)
    names = ["key", "first_t", "last_t", "desk", "count"]
    assert [column["name"] for column in Pages(up).traits(1)["columns"]] == names


def test_small_numbers_have_six_digits():
    small = [0.012345678, 0.00123456789, 0.0005, 1e-4, 0.000123456789, 9.9e-5, -2.5e-7, 0.0]
    assert [row[0] for row in cells(pd.DataFrame({"x": small}))] == [
        "0.0123457", "0.00123457", "0.0005", "0.0001", "0.000123457", "9.9e-05", "-2.5e-07", "0",
    ]  # fmt: skip


def test_the_zone_of_times_is_named_once():
    times = pd.to_datetime(["2026-03-01 09:30"]).tz_localize("Europe/Berlin").as_unit("us")
    frame = pd.DataFrame({"t": times})
    assert columns_of(frame) == [{"name": "t", "align": "left", "kind": "time", "zone": "Europe/Berlin"}]
    assert cells(frame) == [["2026-03-01 09:30:00"]] and full_cells(frame) == [["2026-03-01 09:30:00+01:00"]]


# --- the explorer


def test_the_browser_filters_the_table(explorer):
    table, whole = explorer.board.table, explorer.matches.to_frame()
    assert table.can_filter and table.filtered == "" and not table.heads_busy
    assert list(table.heads) == [column["name"] for column in table.columns]
    table.set_state({"wanted_filters": {"n": "> 2", "key": "=k1"}})
    wanted = whole[(whole["n"] > 2) & (whole["key"] == "k1")]
    assert explorer.wait(60).filters == {"n": "> 2", "key": "=k1"}
    assert table.filtered == f"{len(wanted)} of {len(whole)} matches"
    assert table.numbers == [str(k) for k in wanted.index[:15]] and table.page == 1
    assert sum(bar["kept"] for bar in table.heads["n"]["bars"]) == len(wanted)
    pd.testing.assert_frame_equal(explorer.filtered, wanted.reset_index(drop=True), check_index_type=False)
    table.set_state({"wanted_order": "top down"})
    explorer.wait(60)
    assert table.numbers[0] == str(wanted.sort_values("top", ascending=False, kind="stable").index[0])
    table.set_state({"wanted_filters": {"n": "many", "key": "=k1"}})
    explorer.wait(60)
    assert list(table.mistakes) == ["n"] and table.filters["n"] == "many"
    table.set_state({"wanted_filters": {}})
    assert explorer.wait(60).filters == {} and table.filtered == "" and table.mistakes == {}
    assert len(explorer.filtered) == len(whole)


def test_filters_and_hidden_columns_stay_when_the_query_changes(explorer):
    explorer.filters, explorer.hidden = {"n": "> 2"}, ["lasts", "top"]
    explorer.wait(60)
    explorer.text = QUERY.replace("0.4", "0.6")
    explorer.wait(60)
    whole, table = explorer.matches.to_frame(), explorer.board.table
    assert table.filtered == f"{(whole['n'] > 2).sum()} of {len(whole)} matches"
    assert explorer.hidden == ("lasts", "top") == tuple(table.hidden)
    explorer.choose(measures={"start": "first(t)"})
    explorer.wait(60)
    assert table.filtered == "" and explorer.filters == {"n": "> 2"}  # no such column now
    explorer.choose(measures=MEASURES)
    assert explorer.wait(60).board.table.filtered and explorer.hidden == ("lasts", "top")
    assert "lasts" not in table._still()


def test_a_mistaken_filter_by_python_is_an_error(explorer):
    with pytest.raises(CepError, match=r"filters: 'n': 'many' is not a number\. Write"):
        explorer.filters = {"n": "many"}
    assert explorer.filters == {}


def test_a_selected_match_that_does_not_pass_leaves_the_page(explorer):
    whole = explorer.matches.to_frame()
    explorer.filters = {"n": "> 2"}
    page = explorer.wait(60).board.table.numbers
    gone, kept = int(whole.index[whole["n"] <= 2][0]), int(whole.index[whole["n"] > 2][-1])
    explorer.select(gone)
    assert explorer.wait(60).selected == gone and explorer.board.table.numbers == page
    explorer.select(kept)
    assert str(kept) in explorer.wait(60).board.table.numbers != page


def test_first_matches_of_a_sequence_are_filtered_when_all_are_counted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"t": range(4000), "kind": rng.choice(list("ABC"), 4000), "x": rng.random(4000)})
    explorer = cep.explore(frame, order_by="t", event_type="kind")
    explorer.filters = {"b_t": "> 2,000"}
    query = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9"
    for text in (query, query.replace("a.x", "a.x + 0.1")):
        explorer.text = text
        whole = explorer.wait(120).matches.to_frame()
        wanted = whole.index[whole["b_t"] > 2000]
        assert explorer.board.table.filtered == f"{len(wanted):,} of {len(whole):,} matches"
        assert explorer.board.table.numbers == [str(k) for k in wanted[:15]]
        assert explorer.board.table.can_filter


@pytest.mark.parametrize("how", ["sorted", "filtered", "both"])
@pytest.mark.parametrize("query", [QUERY, PAIRS])
def test_the_first_page_of_a_moved_slider_does_not_wait_for_the_list(how, query, monkeypatch):
    monkeypatch.setattr(pages_module, "FEW", 10)
    call = {"partition_by": "key", "measures": MEASURES}
    if query is PAIRS:
        call = {"event_type": "key", "measures": {"up": "b.x - a.x"}}
    explorer = cep.explore(FRAME, query, order_by="t", **call).wait(60)
    column = str(explorer.matches.to_frame().select_dtypes(["int64", "float64"]).columns[0])
    if how != "filtered":
        explorer.show_page(1, f"{column} down")
    if how != "sorted":
        explorer.filters = {column: f"> {explorer.matches.to_frame()[column].median():.3f}"}
    explorer.wait(60)
    gate, build = threading.Event(), listing_module.Listing._build
    monkeypatch.setattr(listing_module.Listing, "_build", lambda own: (gate.wait(60), build(own))[1])
    table = explorer.board.table
    explorer.move("c0", 0.3)
    program = explorer._reader.bound
    wait_until(lambda: explorer._present.shown.result.program is program and explorer.matches.count())
    wait_until(lambda: explorer.status["state"] == "done")
    whole = explorer.matches.to_frame()
    passing = whole
    if how != "sorted":
        passing = whole[whole[column] > float(explorer.filters[column].removeprefix("> "))]
    assert table.total == f"{len(whole):,}" and table.busy and table.order == "canonical"
    assert table.numbers == [str(k) for k in passing.index[:15]] and table.filtered == ""
    gate.set()
    explorer.wait(60)
    wanted = passing
    if how != "filtered":
        wanted = passing.sort_values(column, ascending=False, kind="stable")
        assert table.order == f"{column} down"
    assert table.numbers == [str(k) for k in wanted.index[:15]] and not table.busy
    assert bool(table.filtered) == (how != "sorted")


def test_a_mistake_does_not_keep_the_first_page(monkeypatch):
    monkeypatch.setattr(pages_module, "FEW", 10)
    explorer = cep.explore(FRAME, QUERY, order_by="t", partition_by="key", measures=MEASURES).wait(60)
    explorer.show_page(1, "n down")
    explorer.wait(60)
    gate, build = threading.Event(), listing_module.Listing._build
    monkeypatch.setattr(listing_module.Listing, "_build", lambda own: (gate.wait(60), build(own))[1])
    explorer.move("c0", 0.3)
    wait_until(lambda: explorer.status["state"] == "done")
    explorer.text += " ("
    gate.set()
    assert explorer.wait(60).status["state"] == "failed"
    wanted = explorer.matches.to_frame().sort_values("n", ascending=False, kind="stable").index[:15]
    assert explorer.board.table.numbers == [str(k) for k in wanted]
    assert explorer.board.table.order == "n down"


def test_a_filter_typed_during_a_run_holds_for_its_result(explorer, monkeypatch):
    gate, count = threading.Event(), Result.count
    monkeypatch.setattr(Result, "count", lambda result: (gate.wait(60), count(result))[1])
    explorer.text = QUERY.replace("0.4", "0.6")
    explorer.board.table.set_state({"wanted_filters": {"n": "> 2"}})
    gate.set()
    whole = explorer.wait(60).matches.to_frame()
    wanted = whole.index[whole["n"] > 2]
    assert explorer.board.table.filtered == f"{len(wanted)} of {len(whole)} matches"
    assert explorer.board.table.numbers == [str(k) for k in wanted[:15]]
    assert explorer.board.table.filters == {"n": "> 2"}


def test_wishes_follow_the_filters():
    table = MatchTable()
    table.filters = {"n": "> 2"}
    assert table.wanted_filters == {"n": "> 2"}


def test_other_frames_are_filtered_too():
    pl = pytest.importorskip("polars")
    frame = pl.from_pandas(FRAME)
    explorer = cep.explore(frame, QUERY, order_by="t", partition_by="key", measures=MEASURES).wait(60)
    explorer.filters = {"n": "> 2"}
    assert isinstance(explorer.wait(60).filtered, pl.DataFrame)
    assert (explorer.filtered["n"] > 2).all() and explorer.board.table.filtered
