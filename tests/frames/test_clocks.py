"""The order of events: the index as clock, columns that are no clocks, and ties that no column decides."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.datasets import load_sample
from cepkit.errors import CepError, CepWarning, ColumnNotFoundError, OrderError, TieWarning
from cepkit.frames import reuse as rising
from cepkit.planning import clocks
from tests.support.sizes import seeds

N = 8
TIMES = pd.date_range("2024-01-31 09:30", periods=N, freq="s")
FRAME = pd.DataFrame({"symbol": list("aabbaabb"), "price": [1.0, 2, 3, 4, 3, 2, 5, 1]})
UP = {"up": "price > prev(price)"}
RISE = {"query": ". up", "define": UP, "after_match": "past_last"}


def quiet(frame, **query):
    """Return the matches of a query that must not be warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return cep.match(frame, **query)


# --- the index ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("within", [None, "1 h"])
def test_a_named_index_is_a_column(within):
    query = {**RISE, "order_by": "ts", "partition_by": "symbol", "within": within}
    wanted = quiet(FRAME.assign(ts=TIMES), **query).to_frame()
    pd.testing.assert_frame_equal(quiet(FRAME.set_index(TIMES.rename("ts")), **query).to_frame(), wanted)


def test_levels_of_an_index_are_columns():
    levels = FRAME.set_index([FRAME["symbol"].rename("key"), TIMES.rename("ts")])
    found = quiet(levels, **RISE, order_by="ts", partition_by="key", measures={"at": "last(ts)"})
    assert found.to_frame()["key"].tolist() == ["a", "b"]
    assert found.to_frame()["at"].tolist() == [TIMES[1], TIMES[3]]
    assert found.lineage()["index"].tolist() == [levels.index[i] for i in range(4)]


def test_a_misspelt_name_of_the_index_is_found():
    with pytest.raises(ColumnNotFoundError, match=r"'tss' not found. Did you mean 'ts'\?"):
        FRAME.set_index(TIMES.rename("ts")).cep.match(**RISE, order_by="tss")


def test_a_column_hides_a_level_of_the_same_name():
    hidden = FRAME.assign(ts=range(N)[::-1]).set_index(TIMES.rename("ts"))
    found = quiet(hidden, **RISE, order_by="ts")
    assert found.count() == quiet(hidden.reset_index(drop=True), **RISE, order_by="ts").count()
    assert list(quiet(hidden, **RISE).to_frame()) == ["first_position", "last_position", "count"]


@pytest.mark.parametrize("name", [None, "ts"])
@pytest.mark.parametrize("within", [None, "1 s"])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_datetime_index_is_the_clock(name, within, backwards):
    frame = FRAME.set_index(TIMES.rename(name))
    frame = frame.iloc[::-1] if backwards else frame
    plain = frame.rename_axis("time").reset_index()
    wanted = quiet(plain, **RISE, order_by="time", within=within)
    found = quiet(frame, **RISE, within=within)
    assert found.query.order_by == (name or "index",)
    pd.testing.assert_frame_equal(
        found.to_frame().set_axis(["a", "b", "n"], axis=1),
        wanted.to_frame().set_axis(["a", "b", "n"], axis=1),
    )
    assert str(frame.cep.explain(**RISE, within=within)).count(name or "index")


def test_a_datetime_index_is_the_clock_of_query_values_and_sequences():
    frame = FRAME.set_index(TIMES)
    query = cep.regex_query(". up", define=UP, after_match="past_last")
    assert quiet(frame, query=query).query.order_by == ("index",)
    plain = frame.rename_axis("ts").reset_index()
    for text in ("PATTERN SEQ(a x, b y) WITHIN 2 s", "PATTERN SEQ(a x, b y)"):
        wanted = quiet(plain, query=text, event_type="symbol", order_by="ts").count()
        assert quiet(frame, query=text, event_type="symbol").count() == wanted
    funnel = frame.cep.funnel("PATTERN SEQ(a x, b y) WITHIN 2 s", event_type="symbol")
    assert funnel.to_frame()["partial"].tolist()[0] == 4


def test_other_orders_win_over_the_index():
    frame = FRAME.assign(seq=range(N)[::-1]).set_index(TIMES)
    assert quiet(frame, **RISE, order_by="seq").query.order_by == ("seq",)
    query = cep.regex_query(". up", define=UP, order_by="seq", after_match="past_last")
    assert quiet(frame, query=query).query.order_by == ("seq",)
    assert quiet(FRAME, **RISE).query.order_by == ()


# --- frames and objects that are no frames ------------------------------------------------------------------


def test_names_that_a_query_cannot_write():
    pairs = pd.DataFrame({("Close", "A"): [1.0, 2.0], ("Close", "B"): [2.0, 1.0]})
    with pytest.raises(CepError, match=r"each column has 2 names, as \('Close', 'A'\).*Flatten them"):
        pairs.cep.match(**RISE)
    with pytest.raises(
        CepError, match="no column has a text as its name, the first one is 0; give them names"
    ):
        pd.DataFrame(np.ones((2, 2))).cep.match(**RISE)


NO_FRAMES = {
    "path": ("trades.parquet", "pd.read_parquet('trades.parquet').cep.match(…)"),
    "path of a CSV": (Path("x") / "trades.csv.gz", f"pd.read_csv('x{os.sep}trades.csv.gz').cep.match(…)"),
    "list of dicts": ([{"price": 1}], "pd.DataFrame(events).cep.match(…)"),
    "dict of lists": ({"price": [1]}, "pd.DataFrame(columns).cep.match(…)"),
    "Series": (FRAME["price"], "call to_frame('value') first"),
    "GroupBy": (FRAME.groupby("symbol"), "df.cep.match(…, partition_by='symbol')"),
    "GroupBy of several": (FRAME.groupby(["symbol", "price"]), "partition_by=['symbol', 'price'])"),
    "GroupBy of a column": (FRAME.groupby("symbol")["price"], "df.cep.match(…, partition_by='symbol')"),
    "anything else": (3, "cannot search a builtins.int"),
}


@pytest.mark.parametrize("name", NO_FRAMES)
def test_objects_that_are_no_frames(name):
    given, wanted = NO_FRAMES[name]
    with pytest.raises(CepError, match=re.escape(wanted)):
        cep.match(given, ". up", define=UP)
    if hasattr(given, "cep"):
        assert wanted in repr(given.cep) and not hasattr(given.cep, "_private")
        for method in ("match", "tag", "explore"):
            with pytest.raises(CepError, match=re.escape(wanted)):
                getattr(given.cep, method)(". up", define=UP)


def test_a_misspelt_keyword():
    with pytest.raises(TypeError, match=r"'partitionby'. Did you mean 'partition_by'\?"):
        FRAME.cep.match(**RISE, partitionby="symbol")


# --- columns that are no clocks -----------------------------------------------------------------------------

NO_CLOCKS = {
    "text": (TIMES.astype(str), "'ts' is text; make times of it first: df['ts'] = pd.to_datetime(df['ts'])"),
    "numbers as text": (
        [str(i) for i in range(N)],
        "make numbers of it first: df['ts'] = pd.to_numeric(df['ts'])",
    ),
    "periods": (
        pd.period_range("2024", periods=N, freq="D"),
        "it holds Periods, so take their times: df['ts'] = df['ts'].dt.to_timestamp()",
    ),
    "times of a day": (TIMES.time, "pd.to_datetime(df['date'].astype(str) + ' ' + df['ts'].astype(str))"),
    "truth values": ([True, False] * (N // 2), "column 'ts' is of type boolean"),
    "several types": ([1, "a"] * (N // 2), "it holds values such as 1"),
    "float seconds": (
        np.arange(N) + 0.5,
        "within='5 s': column 'ts' is a plain number without unit; write within=5 if it counts seconds, or "
        "make times of it first: df['ts'] = pd.to_datetime(df['ts'], unit='s')",
    ),
}


@pytest.mark.parametrize("kind", NO_CLOCKS)
@pytest.mark.parametrize("is_sequence", [False, True])
def test_a_window_needs_a_clock(kind, is_sequence):
    values, wanted = NO_CLOCKS[kind]
    frame = FRAME.assign(ts=values)
    with pytest.raises(CepError, match=re.escape(wanted)):
        if is_sequence:
            frame.cep.match("PATTERN SEQ(a x, b y) WITHIN 5 s", event_type="symbol", order_by="ts")
        else:
            frame.cep.match(**RISE, order_by="ts", within="5 s")


def test_texts_of_other_frames_become_times_in_their_way():
    table = pa.table({"ts": ["2024-01-01", "2024-01-02"]})
    with pytest.raises(CepError, match=re.escape("on Spark, pl.col('ts').str.to_datetime() in polars")):
        cep.sessions(table, gap="5 s", order_by="ts")


@pytest.mark.parametrize("call", [
    lambda frame: frame.cep.sessions(gap=30, order_by="ts"),
    lambda frame: frame.cep.window({"n": "count()"}, time=30, order_by="ts"),
    lambda df: df.cep.funnel(["price < 3", "price > 3"], partition_by="symbol", order_by="ts", within=30),
    lambda frame: frame.cep.runs(by="symbol", gap=30, order_by="ts"),
    lambda frame: frame.cep.match(**RISE, order_by="ts", within=30),
])  # fmt: skip
def test_a_number_without_unit_on_a_clock_of_times_is_hardly_meant(call):
    with pytest.warns(
        CepWarning, match=r"=30 is read as 30 ([mun]?s), the unit of column 'ts'; write '30 \1'"
    ):
        call(FRAME.assign(ts=TIMES))


def test_clocks_that_do():
    for values, within in (
        (np.arange(N) + 0.5, 5),
        (np.arange(N), 5),
        (TIMES, "5 s"),
        (TIMES.tz_localize("UTC"), "5 s"),
    ):
        assert quiet(FRAME.assign(ts=values), **RISE, order_by="ts", within=within).count() == 3
    with pytest.raises(CepError) as caught:
        FRAME.assign(ts=np.arange(N)).cep.match(**RISE, order_by="ts", within="5 ms")
    assert "write within=" not in str(caught.value)  # no whole number of seconds


def test_an_index_that_is_no_clock():
    periods = FRAME.set_index(pd.period_range("2024", periods=N, freq="D", name="ts"))
    with pytest.raises(CepError, match=re.escape("df.index = df.index.to_timestamp()")):
        periods.cep.match(**RISE, order_by="ts", within="5 s")
    with pytest.raises(OrderError, match="which has no order; it holds Periods"):
        FRAME.assign(ts=periods.index).cep.match(**RISE, order_by="ts")
    assert quiet(periods, **RISE).query.order_by == ()


def test_literals_with_an_offset_keep_it_and_others_are_in_the_zone_of_the_column():
    times = pd.date_range("2026-03-01 06:00", periods=6, freq="h", tz="Europe/Berlin")
    frame = pd.DataFrame({"ts": times, "n": range(6)})
    for text, after in [("09:00", 3), ("09:00+01:00", 3), ("09:00Z", 4), ("02:00-05:00", 2)]:
        found = cep.match(frame, "late", define={"late": f"ts >= '2026-03-01 {text}'"}, order_by="ts")
        assert found.to_frame()["first_ts"].tolist() == times[after:].tolist(), text


# --- numbers as text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["price > prev(price)", "price >= '9'", "first(price) < price"])
@pytest.mark.parametrize("as_arrow", [False, True])
def test_numbers_as_text_are_warned_of(condition, as_arrow):
    frame = FRAME.assign(price=["9", "10", "8.5", "-7", "6e3", None, "4", "3"])
    frame = pa.Table.from_pandas(frame) if as_arrow else frame
    with pytest.warns(cep.CepWarning, match=r"'price' is text and its texts are numbers.*pd.to_numeric"):
        cep.match(frame, ". up", define={"up": condition})


@pytest.mark.parametrize(
    ("texts", "condition"),
    [
        (["09", "10", "08", "07", "06", "05", "04", "03"], "price > prev(price)"),  # sorted as numbers are
        (["9", "10", "8", "7", "x", "5", "4", "3"], "price > prev(price)"),
        (["9", "10", "8", "7", "6", "5", "4", "3"], "price != prev(price)"),
        (["9", "10", "8", "7", "6", "5", "4", "3"], "price == '9'"),
        ([None] * N, "price > prev(price)"),
    ],
)
def test_texts_that_are_right(texts, condition):
    quiet(FRAME.assign(price=pd.array(texts, "str")), **(RISE | {"define": {"up": condition}}))


def test_ordered_categories_are_right():
    sizes = pd.Categorical(["9", "10"] * (N // 2), ["9", "10"], ordered=True)
    quiet(FRAME.assign(price=sizes), **RISE)


# --- ties ---------------------------------------------------------------------------------------------------

TIED = FRAME.assign(ts=np.arange(N) // 4, seq=range(N))


def test_ties_are_warned_of_with_their_share_and_a_column_that_decides():
    with pytest.warns(TieWarning) as caught:
        TIED.cep.match(**RISE, order_by="ts", partition_by="symbol")
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
    assert str(caught[0].message) == (
        "order_by=['ts']: 100 % of the events share 'symbol' and 'ts' with another event. They keep the "
        "order of the rows, and the matches may depend on it. Write order_by=['ts', 'seq'] to decide it"
    )
    with pytest.warns(TieWarning, match="No column of integers or times decides it; add one to order_by"):
        TIED.drop(columns="seq").cep.match(**RISE, order_by="ts", partition_by="symbol")
    assert issubclass(cep.TieWarning, cep.CepWarning)


def test_explain_and_the_explorer_say_ties_too():
    said = "100 % of the events share 'symbol' and 'ts' with another event"
    call = {**RISE, "order_by": "ts", "partition_by": "symbol"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [line] = [one for one in str(TIED.cep.explain(**call)).splitlines() if one.startswith("ties")]
        assert said in line and "Write order_by=['ts', 'seq'] to decide it" in line
        explorer = TIED.cep.explore(**call).wait(60)
        assert said in explorer.status["message"] and explorer.status["state"] == "done"
        explorer.choose(order_by=["ts", "seq"])
        assert "share" not in explorer.wait(60).status["message"]
        assert "ties" not in str(TIED.cep.explain(**{**call, "order_by": ["ts", "seq"]}))
        alone = TIED.cep.explain("up", define={"up": "price > 3"}, order_by="ts")  # looks at one row
        assert "ties" not in str(alone)


def test_the_share_is_that_of_the_events_that_could_change_places():
    rows = TIED.assign(ts=[0, 0, 2, 3, 4, 5, 6, 7])
    with pytest.warns(TieWarning, match="25 % of the events share 'ts'"):
        rows.cep.match(**RISE, order_by="ts")
    quiet(rows, **RISE, order_by="ts", partition_by=["symbol", "seq"])
    apart = TIED.assign(ts=[0, 1, 0, 1, 2, 3, 2, 3])  # ties of different partitions
    quiet(apart, **RISE, order_by="ts", partition_by="symbol")


@pytest.mark.parametrize(
    "query",
    [
        {**RISE, "order_by": ["ts", "seq"]},
        {**RISE},
        {"query": "up", "define": {"up": "price > 2"}, "order_by": "ts"},  # single rows
        {"query": "PATTERN SEQ(a x, b y)", "event_type": "symbol", "order_by": "ts"},
        {"query": "PATTERN SEQ(a x, b y)", "event_type": "symbol", "order_by": "ts", "strategy": "next"},
    ],
)
def test_no_warning_when_the_order_decides_or_does_not_matter(query):
    quiet(TIED, **query)
    quiet(
        TIED.assign(price=1.0), **(RISE | {"order_by": "ts", "partition_by": "symbol"})
    )  # equal in all columns


@pytest.mark.parametrize("strategy", ["strict", "partition"])
def test_contiguous_sequences_depend_on_the_order_of_ties(strategy):
    query = {"query": "PATTERN SEQ(a x, b y)", "event_type": "symbol", "strategy": strategy}
    with pytest.warns(TieWarning):
        cep.match(TIED, **query, order_by="ts")
    quiet(TIED, **query, order_by=["ts", "seq"])


def test_a_sample_of_many_ties_gives_the_share():
    n = 400_000
    many = pd.DataFrame({"ts": np.arange(n) // 4 * 4, "price": np.arange(n) % 7, "seq": np.arange(n)})
    many.loc[many.index % 4 == 0, "ts"] -= 1
    with pytest.warns(TieWarning, match=r"about 75 % of the events share 'ts'.*order_by=\['ts', 'seq'\]"):
        many.cep.match("up", define={"up": "price > prev(price) + 100"}, order_by="ts")


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_the_share_of_ties_is_counted_exactly_if_they_are_few(seed, monkeypatch):
    for module in (clocks, rising):
        monkeypatch.setattr(module, "EVENTS_PER_COUNT", 16)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    ts = rng.integers(0, 3 * n, n)
    rows = pd.DataFrame({"ts": np.sort(ts) if seed % 2 else ts, "other": 0, "price": rng.integers(0, 3, n)})
    rows["symbol"] = rng.choice([*"ab"], n)
    groups = rows.groupby(["ts", "symbol"])["price"]
    tied = (groups.transform("nunique") > 1).sum()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows.cep.match(**RISE, order_by=["ts", "other"][: 1 + seed // 2 % 2], partition_by="symbol")
    share = 100 * tied / n
    said = f"{share:.0f} %" if share >= 1 else f"{share:.2g} %"
    assert [f": {said} of the events" in str(one.message) for one in caught] == [True] * int(tied > 0)


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_rows_rise_if_sorting_leaves_them_where_they_are(seed, monkeypatch):
    monkeypatch.setattr(rising, "EVENTS_PER_COUNT", 4)
    rng = np.random.default_rng(seed)
    answers = set()
    for _ in range(100):
        n, n_keys = int(rng.integers(0, 14)), int(rng.integers(1, 4))
        keys = [np.sort(rng.integers(0, 5, n))] + [rng.integers(0, 3, n) for _ in range(n_keys - 1)]
        if rng.integers(2):
            keys = [key[np.lexsort(keys[::-1])] for key in keys]
        rows = list(zip(*keys, strict=True))
        assert rising.is_rising(*keys) == (rows == sorted(rows))
        n_equal = rising.equals_by_step(*keys)
        assert n_equal is None or n_equal.sum() == len(rows) - len(set(rows))
        answers.add((rising.is_rising(*keys), n_keys))
    assert len(answers) >= 5


def test_the_readme_and_the_samples_are_in_a_total_order():
    trades = load_sample("trades")
    query = {**RISE, "partition_by": "symbol"}
    quiet(trades, **query, order_by=["ts", "seq"])
    quiet(load_sample("peaks"), **query, order_by="ts")
    with pytest.warns(TieWarning, match=r"order_by=\['ts', 'seq'\]"):
        trades.sample(frac=1, random_state=1).cep.match(**query, order_by="ts")
