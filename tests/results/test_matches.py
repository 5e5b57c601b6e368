"""What users hold: matches to count, look at, sample and draw; what ``explain`` says; progress and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit import progress as progress_module
from cepkit.errors import CepError, ResultTooLargeError, UnsupportedQueryError
from cepkit.progress import Progress
from cepkit.results.explained_queries import say_threads

WALK = pd.DataFrame(
    {
        "symbol": ["a", "b"] * 8,
        "ts": pd.date_range("2024-01-01 09:30", periods=16, freq="min"),
        "price": [10, 5, 11, 6, 9, 7, 8, 6, 12, 8, 7, 9, 8, 3, 9, 4],
        "size": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
    },
    index=[f"row {n}" for n in range(16)],
)
PEAK = {
    "query": ". up+ down",
    "define": {"up": "price > prev(price)", "down": "price < prev(price)"},
    "partition_by": "symbol",
    "order_by": "ts",
    "measures": {"n": "count()", "top": "max(price)", "mean": "avg(price)", "start": "first(ts)"},
}


@pytest.fixture
def found():
    return WALK.cep.match(**PEAK)


# --- how many, and which ----------------------------------------------------------------------------------


def test_the_example(found):
    expected = pd.DataFrame({"symbol": ["a", "b", "a", "b"], "n": [3, 4, 3, 3], "top": [11, 7, 12, 9]})
    table = found.to_frame()
    pd.testing.assert_frame_equal(table[["symbol", "n", "top"]], expected, check_dtype=False)
    assert table["start"].tolist() == [WALK["ts"].iloc[i] for i in (0, 1, 6, 9)]
    assert table["mean"].tolist() == [10.0, 6.0, 9.0, 20 / 3]
    assert table["symbol"].dtype == WALK["symbol"].dtype


def test_how_many(found):
    assert found.count() == len(found) == 4
    assert type(found.count()) is int
    assert bool(found)
    assert not WALK.cep.match("p", define={"p": "price > 100"})
    assert found.query.measures[0][0] == "n"


def test_head(found):
    whole = found.to_frame()
    for n in (0, 1, 3, 4, 99):
        pd.testing.assert_frame_equal(found.head(n), whole.head(n))
    with pytest.raises(CepError, match="n=-2: expected a whole number, 0 or more"):
        found.head(-2)
    assert len(found.head()) == 4


@pytest.mark.parametrize("seed", range(5))
def test_samples(seed):
    found = WALK.cep.match(".", measures={"size": "first(size)"})
    for n in (0, 1, 7, 16, 99):
        sample = found.sample(n, seed)["size"].tolist()
        assert len(sample) == min(n, 16)
        assert sample == sorted(set(sample))
        assert sample == found.sample(n, seed)["size"].tolist()
    for n, message in ((-1, "n=-1: expected"), (2.5, "n=2.5: expected"), ("3", "n='3': expected")):
        with pytest.raises(CepError, match=message):
            found.sample(n)


def test_samples_are_uniform_and_differ():
    found = WALK.cep.match(".", measures={"size": "first(size)"})
    drawn = [tuple(found.sample(4, seed)["size"]) for seed in range(400)]
    assert len(set(drawn)) > 300
    times = np.bincount(np.concatenate(drawn), minlength=17)[1:]
    assert times.min() > 60  # 100 expected of each, five standard deviations below
    assert times.max() < 150


def test_one_match(found):
    match = found[1]
    assert match.number == 1
    assert match["n"] == 4
    assert match.measures == {
        "symbol": "b", "n": 4, "top": 7, "mean": 6.0, "start": pd.Timestamp("2024-01-01 09:31"),
    }  # fmt: skip
    assert isinstance(match["n"], int | np.integer)  # beside the floats of another measure
    assert match.rows.index.tolist() == ["row 1", "row 3", "row 5", "row 7"]
    assert match.rows["variable"].tolist() == [".", "up", "up", "down"]
    assert list(match.rows.columns) == ["variable", *WALK.columns]
    assert repr(match) == (
        "Match(1: symbol='b', n=4, top=7, mean=6.0, start=Timestamp('2024-01-01 09:31:00'); 4 rows)"
        if not repr(np.int64(1)).startswith("np.")
        else f"Match(1: symbol='b', n={match['n']!r}, top={match['top']!r}, mean={match['mean']!r}, "
        "start=Timestamp('2024-01-01 09:31:00'); 4 rows)"
    )


def test_large_integers_stay_exact():
    frame = pd.DataFrame({"x": [2**60 + 1], "y": [0.5]})
    [match] = frame.cep.match(".", measures={"x": "max(x)", "y": "max(y)"})
    assert match["x"] == 2**60 + 1


def test_numbers_of_matches(found):
    for number in range(4):
        assert found[number].number == found[number - 4].number == number
        assert found[np.int64(number)]["top"] == found[number]["top"]
    for number in (4, -5, 100):
        with pytest.raises(IndexError, match=f"no match has number {number}; there are 4"):
            found[number]
    for key in ("n", 1.0, None, (0, 1)):
        with pytest.raises(TypeError, match=r"matches are numbered, got .*to_frame\(\)"):
            found[key]


@pytest.mark.parametrize(
    "part",
    [slice(1, 3), slice(None), slice(-2, None), slice(5, 9), slice(None, None, 2), slice(None, None, -1)],
    ids=str,
)
def test_slices(found, part):
    some = found[part]
    whole = found.to_frame()
    pd.testing.assert_frame_equal(some.to_frame(), whole.iloc[part].reset_index(drop=True))
    assert len(some) == len(whole.iloc[part])
    of_whole = [match.rows for match in found][part]
    assert len(of_whole) == len(some)
    for match, rows in zip(some, of_whole, strict=True):
        pd.testing.assert_frame_equal(match.rows, rows)
    lineage = some.lineage()
    assert lineage["match"].unique().tolist() == list(range(len(some)))
    assert lineage["index"].tolist() == [label for rows in of_whole for label in rows.index]
    assert some.tag()["match"].count() == len(lineage)


def test_iteration_is_in_the_order_of_the_result():
    found = pd.DataFrame({"x": range(2500)}).cep.match(".", measures={"x": "first(x)"})
    assert [match["x"] for match in found] == list(range(2500))
    assert [match.number for match in found] == list(range(2500))


def test_slices_of_sequences_have_a_step_too():
    found = WALK.cep.match("PATTERN SEQ(_ a, _ b) WITHIN 3 events", measures={"a": "a.size", "b": "b.size"})
    whole = found.to_frame()
    for part in (slice(None, None, -1), slice(20, 3, -4), slice(None, None, 3), slice(9, 2)):
        expected = whole.iloc[part].reset_index(drop=True)
        pd.testing.assert_frame_equal(found[part].to_frame(), expected)
        assert [(match["a"], match["b"]) for match in found[part]] == list(
            zip(*expected.T.values, strict=True)
        )
        assert found[part].count_by_last()["count"].sum() == len(expected)


def test_parts(found):
    whole = found.to_frame()
    for numbers in ([0, 3], [3, 0, 1], [-1, 2], []):
        pd.testing.assert_frame_equal(found.take(numbers), whole.iloc[numbers].reset_index(drop=True))
    with pytest.raises(IndexError, match="no match has number 4; there are 4"):
        found.take([0, 4])
    with pytest.raises(TypeError):
        found.take([1.5])
    chunks = list(found.chunks(3))
    assert [len(chunk) for chunk in chunks] == [3, 1]
    pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), whole)
    ends = found.count_by_last()
    assert list(ends.columns) == ["index", "symbol", "ts", "count"]
    assert ends["index"].tolist() == [match.rows.index[-1] for match in found]
    assert ends["count"].tolist() == [1] * 4
    pd.testing.assert_frame_equal(
        found.lineage(-2), found.lineage().query("match == 2").reset_index(drop=True)
    )
    with pytest.raises(IndexError, match="no match has number 4; there are 4"):
        found.lineage(4)


@pytest.mark.parametrize("engine", ["auto", "search", "ordered"])
def test_parts_of_a_sequence(engine):
    matches = WALK.cep.match(
        "PATTERN SEQ(a p, b q) WHERE p.price > q.price", event_type="symbol", order_by="ts", engine=engine,
    )  # fmt: skip
    whole = matches.to_frame()
    chunks = list(matches.chunks(2))
    assert len(whole) > 4 and {len(chunk) for chunk in chunks[:-1]} == {2}
    pd.testing.assert_frame_equal(pd.concat(chunks, ignore_index=True), whole)


def test_measures_of_an_event_that_the_first_match_has_and_the_next_one_has_not():
    frame = pd.DataFrame({"kind": list("abac"), "ts": range(4), "x": [1, 2, 3, 4]})
    matches = frame.cep.match(
        "PATTERN SEQ(a p, OR(b q, c r)) WITHIN 1", event_type="kind", order_by="ts",
        measures={"b": "q.x", "c": "r.x"},
    )  # fmt: skip
    table = matches.to_frame()
    assert table["b"].fillna(-1).tolist() == [2, -1] and table["c"].fillna(-1).tolist() == [-1, 4]


def test_what_ran(found):
    assert found.engine.name == "regex" and found.run.threads == 1
    estimate = found.count("estimate")
    assert (estimate.value, estimate.low, estimate.high) == (4, 4, 4)
    with pytest.raises(CepError, match="a count is 'exact' or an 'estimate'"):
        found.count("rough")


# --- aggregates -------------------------------------------------------------------------------------------


def test_aggregates_range_over_the_matched_rows(found):
    rows = found.to_frame("all")
    ups = rows[rows["variable"] == "up"]
    made = found.aggregate(
        n="count()", rows="count(price)", ups="count(up)", ups_with_size="count(up.size)", top="max(price)",
        low="min(up.price)", total="sum(size)", total_up="sum(up.size)", mean="avg(up.size)",
    )  # fmt: skip
    assert made.to_dict() == {
        "n": 4, "rows": len(rows), "ups": len(ups), "ups_with_size": len(ups), "top": rows["price"].max(),
        "low": ups["price"].min(), "total": rows["size"].sum(), "total_up": ups["size"].sum(),
        "mean": ups["size"].mean(),
    }  # fmt: skip
    made = found.aggregate(
        middle="median(up.price)", std="std(price)", var="var(up.size)", symbols="nunique(symbol)",
        all="collect(up.size)",
    )  # fmt: skip
    assert made.to_dict() == {
        "middle": ups["price"].median(), "std": pytest.approx(rows["price"].std(ddof=0)),
        "var": pytest.approx(ups["size"].var(ddof=0)), "symbols": rows["symbol"].nunique(),
        "all": ups["size"].tolist(),
    }  # fmt: skip
    assert found[1:2].aggregate(rows="count(size)")["rows"] == 4
    nothing = found[:0].aggregate(
        n="count()", ups="count(up)", top="max(price)", mean="avg(price)", std="std(price)",
        k="distinct(symbol)",
    )  # fmt: skip
    assert nothing.to_dict() == {"n": 0, "ups": 0, "top": None, "mean": None, "std": None, "k": 0}


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("first(price)", TypeError, "aggregate 'm': expected count, sum, avg, min, max, collect, median"),
        ("price", TypeError, "aggregate 'm': expected count, sum, avg, min, max, collect, median"),
        ("sum(prise)", KeyError, "aggregate 'm': column 'prise' not found. Did you mean 'price'"),
        ("sum(up.prise)", KeyError, "aggregate 'm': column 'prise' not found. Did you mean 'price'"),
        ("sum(upp.price)", TypeError, "'upp' is no variable of the pattern. Did you mean 'up'"),
        ("sum(up)", TypeError, r"needs a column of 'up', as in sum\(up.x\)"),
        ("sum(symbol)", TypeError, "needs numbers, 'symbol' is of type"),
    ],
)
def test_aggregates_that_cannot_be(found, text, error, message):
    with pytest.raises(error, match=message):
        found.aggregate(m=text)
    with pytest.raises(error, match=message):
        found[:0].aggregate(m=text)


def test_aggregates_may_be_a_mapping(found):
    made = found.aggregate({"total price": "sum(price)", "n": "count(up)"}, n="count()")
    assert made.to_dict() == {"total price": found.to_frame("all")["price"].sum(), "n": 4}
    with pytest.raises(
        TypeError, match=r"aggregates by name, as n='count\(\)' or {'n': 'count\(\)'}, not 'count"
    ):
        found.aggregate("count()")
    with pytest.raises(TypeError, match="aggregate 'n'"):
        found.aggregate({"n": 3})


# --- frames -----------------------------------------------------------------------------------------------


def test_limits(found):
    assert len(found.to_frame(limit=4)) == 4
    for rows in ("one", "all"):
        with pytest.raises(ResultTooLargeError, match="there are 4 matches, more than limit=3; take a part"):
            found.to_frame(rows, limit=3)
    with pytest.raises(CepError, match="write 'one'"):
        found.to_frame("some")


def test_a_frame_has_the_matches_that_memory_can_bear(found, monkeypatch):
    monkeypatch.setattr("cepkit.results.in_memory.LIMIT", 3)
    for call in (found.to_frame, found.lineage, lambda: found.to_frame("all", limit="auto")):
        with pytest.raises(ResultTooLargeError, match="there are 4 matches, more than limit=3; take a part"):
            call()
    assert len(found.to_frame(limit=None)) == found.lineage(limit=None)["match"].nunique() == 4
    assert found.tag()["match"].nunique() == 4  # as long as the frame


def test_all_rows(found):
    rows = found.to_frame("all")
    assert list(rows.columns) == ["match", "variable", *WALK.columns]
    assert rows["match"].tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    pd.testing.assert_frame_equal(rows[WALK.columns], WALK.loc[rows.index])


def test_lineage(found):
    lineage = found.lineage()
    assert list(lineage.columns) == ["match", "variable", "position", "index"]
    assert (WALK.index[lineage["position"]] == lineage["index"]).all()


def test_tag(found):
    tagged = found.tag()
    pd.testing.assert_frame_equal(tagged[WALK.columns], WALK)
    assert tagged.groupby("match").size().to_dict() == {0: 3, 1: 4, 2: 3, 3: 3}
    assert tagged["match"].isna().sum() == 3
    assert tagged["variable"].isna().sum() == 3
    pd.testing.assert_frame_equal(cep.tag(WALK, **PEAK), tagged)
    pd.testing.assert_frame_equal(WALK.cep.tag(**PEAK), tagged)


def test_default_measures():
    assert WALK.cep.match(". .").to_frame().columns.tolist() == ["first_position", "last_position", "count"]
    ordered = WALK.cep.match(". .", order_by=["ts", "size"], partition_by=["symbol"]).to_frame()
    assert ordered.columns.tolist() == ["symbol", "first_ts", "last_ts", "first_size", "last_size", "count"]
    none = WALK.cep.match(". .", partition_by="symbol", measures={}).to_frame()
    assert none.columns.tolist() == ["symbol"]
    assert len(none) == 8


def test_matches_of_matches(found):
    higher = found.to_frame().cep.match(
        ". higher", define={"higher": "top > prev(top)"}, partition_by="symbol", order_by="start",
        measures={"rows": "sum(n)"},
    )  # fmt: skip
    assert higher.to_frame().to_dict("list") == {"symbol": ["a", "b"], "rows": [6, 7]}


# --- texts ------------------------------------------------------------------------------------------------

TEXT = """\
4 matches of '. up+ down' in 16 events, 2 partitions by symbol
  symbol  n  top       mean               start
0      a  3   11  10.000000 2024-01-01 09:30:00
1      b  4    7   6.000000 2024-01-01 09:31:00
2      a  3   12   9.000000 2024-01-01 09:36:00
3      b  3    9   6.666667 2024-01-01 09:39:00"""


def test_text(found):
    assert repr(found) == str(found) == TEXT
    assert repr(WALK.cep.match(**PEAK)) == TEXT


def test_text_of_many_and_of_none():
    many = WALK.cep.match(".", measures={"size": "first(size)"})
    lines = repr(many).splitlines()
    assert lines[0] == "16 matches of '.' in 16 events"
    assert len(lines) == 1 + 1 + 10 + 1
    assert lines[-1] == "… 6 more"
    assert "to_frame() has them all" not in repr(many)
    assert "6 more; <code>to_frame()</code> has them all" in many._repr_html_()
    assert repr(many[:1]).splitlines()[0] == "1 match of '.' in 16 events"
    none = WALK.cep.match("p", define={"p": "price > 100"}, partition_by="symbol")
    assert repr(none) == (
        "no match of 'p' in 16 events, 2 partitions by symbol\n"
        "df.cep.explain(…) with the same arguments shows how the query was read"
    )
    assert none._repr_html_().startswith("<p><b>no match of")


def test_html_is_escaped_and_the_same_each_time(found):
    assert found._repr_html_() == WALK.cep.match(**PEAK)._repr_html_()
    frame = pd.DataFrame({"a<b": ["<script>", "x"], "<k>": ["&", "&"]})
    text = frame.cep.match(".", partition_by="<k>", measures={"m": "first(`a<b`)"})._repr_html_()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "by &lt;k&gt;" in text


def test_partitions_are_those_with_rows():
    frame = WALK.assign(symbol=pd.Categorical(WALK["symbol"], ["z", "b", "a", "y"]))
    assert repr(frame.cep.match(".", partition_by="symbol")).startswith(
        "16 matches of '.' in 16 events, 2 partitions by symbol"
    )


# --- explain ----------------------------------------------------------------------------------------------

EXPLANATIONS = [
    (
        {**PEAK, "within": "10 min"},
        """\
pattern      . up+ down
in words     any row, then one or more up rows in a row, then a down row, within 10 minutes, per symbol; \
up means that price rises; down means that price falls
partitions   by symbol
order        by ts
window       10 min
predicate    .: any event  [looks at the event alone]
predicate    up: price > prev(price)  [looks at earlier rows]
predicate    down: price < prev(price)  [looks at earlier rows]
measure      n: count()
measure      top: max(price)
measure      mean: avg(price)
measure      start: first(ts)
automaton    4 states, 3 positions
engine       regex: generated kernel over contiguous rows of a partition
kernel       machine code, threads help with over 2,048 partitions or on three cores: dividing rows takes time
new query    is interpreted until its kernel is compiled
remembers    per partial match: start, positions, first(ts)
queue        partial matches wait at 'up' in order of their starts""",
    ),
    (
        {
            "query": ". calm* jump", "order_by": "ts", "measures": {},
            "define": {"calm": "delta(ts) < '5 min'", "jump": "price > first(price) * 1.05"},
        },
        """\
pattern      . calm* jump
in words     any row, then any number of calm rows in a row (or none), then a jump; calm means that \
delta(ts) is below '5 min'; jump means that price is above 1.05 times its first value
partitions   none: one stream
order        by ts
predicate    .: any event  [looks at the event alone]
predicate    calm: delta(ts) < '5 min'  [looks at the match so far]
predicate    jump: price > first(price) * 1.05  [looks at the match so far]
automaton    3 states, 3 positions
engine       regex: generated kernel over contiguous rows of a partition
kernel       machine code, one thread, since all rows are one stream
new query    is interpreted until its kernel is compiled
remembers    per partial match: start, positions, first(ts), first(price)
queue        partial matches wait at 'calm' in order of their starts""",
    ),
    (
        {"query": "up+ down", "define": {"up": "size > 3", "down": "price < 9"}},
        """\
pattern      up+ down
in words     one or more up rows in a row, then a down row; up means that size is above 3; down means \
that price is below 9
partitions   none: one stream
order        of the rows
predicate    up: size > 3  [looks at the event alone]
predicate    down: price < 9  [looks at the event alone]
measure      count: count()
automaton    3 states, 2 positions
engine       regex: generated kernel over contiguous rows of a partition
kernel       machine code, one thread, since all rows are one stream
new query    is interpreted until its kernel is compiled
remembers    per partial match: start, positions
dominance    at up only the earliest start is kept""",
    ),
    (
        {"query": ".+ apart", "define": {"apart": "bit_and(size, first(size)) == 0"}, "measures": {}},
        """\
pattern      .+ apart
in words     one or more rows, then an apart row; apart means that bit_and(size, first(size)) is 0
partitions   none: one stream
order        of the rows
predicate    .: any event  [looks at the event alone]
predicate    apart: bit_and(size, first(size)) == 0  [looks at the match so far]
automaton    3 states, 2 positions
engine       regex: generated kernel over contiguous rows of a partition
kernel       machine code, one thread, since all rows are one stream
new query    is compiled first, since it computes 'bit_and' with values of several events
remembers    per partial match: start, positions, first(size)
queue        partial matches wait at '.' in order of their starts
warning      a partial match may wait forever: nothing bounds the loop; consider within=…""",
    ),
]  # fmt: skip


SEARCHED = "one thread, since a single search goes through all partitions"
THREADS = [
    ("[k] AND a.x < b.x", "chain", "threads sort, test and count from two million events on; "
     "one thread makes the list of matches"),
    ("a.x < b.x", "chain", "threads test from two million events on; one thread does the rest, "
     "since all rows are one stream"),
    ("[k] AND a.x < c.x", "ordered", SEARCHED),
    ("[k] AND a.x < c.x", "search", SEARCHED),
    ("a.x < c.x", "search", "one thread, since all rows are one stream"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "engine", "threads"), THREADS)
def test_explain_says_whether_a_sequence_uses_threads(where, engine, threads):
    frame = pd.DataFrame({"kind": list("ABC"), "t": range(3), "k": 1, "x": [1, 2, 3]})
    text = f"PATTERN SEQ(A a, B b, C c) WHERE {where}"
    said = frame.cep.explain(text, event_type="kind", order_by="t", engine=engine)
    assert f"threads      {threads}" in str(said).splitlines()


def test_functions_that_are_not_pure_have_one_thread():
    said = {say_threads(name, is_one_stream=False, is_pure=False) for name in ("regex", "chain", "search")}
    assert said == {"one thread, since a function is not declared pure"}


@pytest.mark.parametrize(
    ("keywords", "text"), EXPLANATIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_explain(keywords, text, monkeypatch):
    explanation = WALK.cep.explain(**keywords)
    assert str(explanation) == repr(explanation) == text
    assert explanation.graph().source.startswith("digraph")
    outputs = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: outputs.append(data))
    explanation._ipython_display_()
    assert outputs[0] == {"text/plain": text} and [*outputs[1]] == ["image/png"]
    assert explanation.svg().startswith("<svg")
    assert cep.explain(WALK, **keywords).states == explanation.states


def test_explain_names_slow_paths():
    @cep.function(name="noisy_in_explain")
    def noisy(x):
        return x > 1

    with pytest.warns(cep.CepWarning, match="noisy_in_explain.* is not declared pure"):
        explanation = WALK.cep.explain("a", define={"a": "noisy_in_explain(price)"})
    assert "a: noisy_in_explain(price)  [Python function, slow path]" in str(explanation)
    assert "kernel       runs as Python, since noisy_in_explain is a plain Python function" in str(
        explanation
    )


def test_engines_are_named():
    assert WALK.cep.match(**PEAK, engine="regex").count() == 4
    with pytest.raises(CepError, match=r"engine 'regx' is not known\. Did you mean 'regex'"):
        WALK.cep.match(**PEAK, engine="regx")
    for keyword in ({"strategy": "any"}, {"strict_time": True}):
        with pytest.raises(UnsupportedQueryError, match=f"{next(iter(keyword))}.*belong to event sequences"):
            WALK.cep.match(**PEAK, **keyword)
    with pytest.raises(UnsupportedQueryError, match=r"engine 'chain' cannot .* can: \['regex'\]"):
        WALK.cep.match(**PEAK, engine="chain")
    with pytest.raises(
        UnsupportedQueryError, match=r"'regex' cannot .* can: \['chain', 'ordered', 'search', 'linked'"
    ):
        WALK.cep.match("PATTERN SEQ(_ a, _ b)", engine="regex")


# --- pictures ---------------------------------------------------------------------------------------------


def test_plot(found):
    figure = found.plot()
    lines = [trace for trace in figure.data if trace.type == "scatter" and trace.name == "price"]
    assert len(lines) == 2  # one per symbol
    drawn = sorted(value for trace in lines for value in trace.y if value is not None)
    assert drawn == sorted(WALK["price"])
    names = {trace.name for trace in figure.data}
    assert {"up", "down"} <= names
    assert ". up+ down" in figure.layout.title.text
    assert figure.to_json() == WALK.cep.match(**PEAK).plot().to_json()
    sizes = found.plot("size", partitions=1)
    assert {trace.name for trace in sizes.data} >= {"size"}
    assert WALK.cep.match("p", define={"p": "price > 100"}).plot().data is not None


# --- progress and Ctrl-C ----------------------------------------------------------------------------------


def test_progress_is_silent_for_a_second(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress_module, "SILENT_S", 1.0)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    with Progress(100) as progress:
        for second in (0.25, 0.5, 0.99):
            now[0] = second
            progress(10)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_what_is_done_after_a_second(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress_module, "SILENT_S", 1.0)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    with Progress(100) as progress:
        progress(30)
        now[0] = 1.0
        progress(20)
        assert progress._bar.n == 50
        now[0] = 1.2
        progress(25)
        assert progress._bar.n == 75
        assert progress._bar.total == 100
    assert "events" in capsys.readouterr().err


def test_matching_is_silent(capsys, found):
    found.to_frame()
    assert capsys.readouterr() == ("", "")


LONG_RUN = """
import itertools, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
import numpy as np, pandas as pd, cepkit
from cepkit.progress import Cancellation, cancellable
frame = pd.DataFrame({"k": np.arange(1_500_000) % 2, "x": 1})
define = {"e": "sum(x) < :n", "full": "sum(x) >= :n"}
def run(frame):
    return cepkit.match(frame, ". e* full", define=define, params={"n": 2**60}, partition_by="k")
run(frame.head(10))
class Watched(Cancellation):
    looks = itertools.count()
    @property
    def is_cancelled(self):
        if next(self.looks) == 20:
            print("ready", flush=True)
        return super().is_cancelled
try:
    with cancellable(Watched()):
        run(frame)
except KeyboardInterrupt:
    names = [thread.name for thread in threading.enumerate()]
    print("interrupted", sum(name.startswith("cepkit") for name in names), flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_match(threads):
    """The run would take many minutes; Ctrl-C ends it, and no thread runs after the error."""
    root = Path(cep.__file__).resolve().parents[1]
    environment = {
        **os.environ, "CEPKIT_THREADS": str(threads), "NUMBA_DISABLE_JIT": "0", "PYTHONPATH": str(root),
    }  # fmt: skip
    child = subprocess.Popen(
        [sys.executable, "-c", LONG_RUN], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "ready\n"
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert out == "interrupted 0\n", err
    assert child.returncode == 0


# --- the frame changes after the call ---------------------------------------------------------------------

_PANDAS = int(pd.__version__.split(".")[0])
STEPS = {"ts": range(6), "price": [1.0, 2, 3, 1, 2, 0], "kind": list("aabbab")}
ON_STEPS = {
    "regex": lambda frame: cep.match(
        frame,
        "up+ dn",
        define={"up": "price > prev(price)", "dn": "price < prev(price)"},
        order_by="ts",
        measures={"top": "max(price)"},
    ),
    "sequence": lambda frame: cep.match(
        frame, "PATTERN SEQ(a x, b y) WHERE y.price > x.price", event_type="kind", order_by="ts",
        measures={"top": "y.price"},
    ),
    "rows": lambda frame: cep.match(
        frame,
        """MATCH_RECOGNIZE (ORDER BY ts MEASURES MAX(price) AS top PATTERN (U+ D)
        DEFINE U AS price > PREV(price), D AS price < PREV(price))""",
    ),
}  # fmt: skip


def _replace(frame: pd.DataFrame) -> None:
    frame["price"] = 0.0


def _write(frame: pd.DataFrame) -> None:
    frame.loc[:, "price"] = 7.0


def _write_cell(frame: pd.DataFrame) -> None:
    frame.loc[2, "price"] = 9.0


def _delete(frame: pd.DataFrame) -> None:
    del frame["price"]


def _sort(frame: pd.DataFrame) -> None:
    frame.sort_values("price", inplace=True)


def _drop(frame: pd.DataFrame) -> None:
    frame.drop(index=[0, 1, 2], inplace=True)


def _rename(frame: pd.DataFrame) -> None:
    frame.columns, frame.index = list("abc"), list("uvwxyz")


@pytest.mark.skipif(_PANDAS < 3, reason="never: pandas 2 writes into the values that a copy shares")
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("change", [_replace, _write, _write_cell, _delete, _sort, _drop, _rename])
@pytest.mark.parametrize("kind", list(ON_STEPS))
def test_matches_are_of_the_frame_as_it_was_at_the_call(kind, change):
    frame, same = pd.DataFrame(STEPS), pd.DataFrame(STEPS)
    found, wanted = ON_STEPS[kind](frame), ON_STEPS[kind](same)
    change(frame)
    for rows in ("one", "all"):
        pd.testing.assert_frame_equal(found.to_frame(rows), wanted.to_frame(rows))
    assert repr(found) == repr(wanted) and len(wanted.to_frame())
    pd.testing.assert_frame_equal(found.lineage(), wanted.lineage())


@pytest.mark.skipif(_PANDAS < 3, reason="never: pandas 2 copies no columns on write")
def test_the_explorer_of_matches_searches_what_they_searched():
    frame = pd.DataFrame(STEPS)
    found = ON_STEPS["regex"](frame)
    _replace(frame)
    assert found.explore().wait(60).matches.to_frame()["top"].tolist() == [3.0, 2.0]


def test_what_is_kept_for_a_frame_is_kept_for_the_frame_of_the_user():

    frame = pd.DataFrame(STEPS)
    from cepkit.frames.sources import source_of_frame

    assert source_of_frame(frame)[0].owner is frame
