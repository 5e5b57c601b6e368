"""`cep.siddhi`: what the rules of Siddhi give on small frames, kinds of frames, clocks and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from tests.support.tables import cases

polars = pytest.importorskip("polars")


def frame_of(values, times=None, **columns):
    """Return a frame with the columns ts and x."""
    times = range(len(values)) if times is None else times
    return pd.DataFrame({"ts": list(times), "x": list(values), **columns})


def rows(text, *, stream=None, **options):
    """Return the rows of a result as tuples, with None for missing values."""
    options.setdefault("order_by", "ts")
    found = cep.siddhi(text, **options).to_frame(stream)
    values = found.astype(object).where(found.notna(), None)
    return [tuple(row) for row in values.itertuples(index=False)]


# --- rules of patterns


def test_without_every_there_is_one_match():
    text = "e1=A[x > 2] -> e2=A[x > e1.x] select e1.x, e2.x as y insert into B"
    values = frame_of([3, 1, 5, 4, 6])
    assert rows(f"from {text}", A=values) == [(3, 5)]
    assert rows(f"from every {text}", A=values) == [(3, 5), (5, 6), (4, 6)]


def test_every_around_a_chain_begins_after_its_end():
    chain = "e1=A[x > 2] -> e2=A[x > e1.x]"
    text = "select e1.x, e2.x as y insert into B"
    assert rows(f"from every ({chain}) {text}", A=frame_of([3, 1, 5, 4, 6])) == [(3, 5), (4, 6)]


def test_a_sequence_ends_with_an_event_that_does_not_fit():
    text = "from every e1=A[x == 1], e2=A[x == 2] select e1.ts, e2.ts as t insert into B"
    assert rows(text, A=frame_of([1, 2, 1, 0, 2, 1, 2])) == [(0, 1), (5, 6)]


def test_counts_take_events_until_the_next_state_has_one():
    columns = "e1[0].ts as a, e1[last].ts as b, e1[3].ts as c"
    text = f"from e1=A[x == 1]<2:3> -> e2=A[x == 2] select {columns} insert into B"
    assert rows(text, A=frame_of([1, 0, 1, 1, 1, 2, 2])) == [(0, 3, None)]


def test_a_counted_state_without_an_index_is_a_list():
    found = cep.siddhi(
        "from e1=A[x == 1]+, e2=A[x == 2] select e1.ts as all_times insert into B",
        A=frame_of([1, 1, 2]),
        order_by="ts",
    )
    assert found.to_frame()["all_times"].map(list).tolist() == [[0, 1]]


def test_logical_states():
    a, b = frame_of([1, 5], [0, 30]), frame_of([7], [10])
    assert rows("from every (e1=A and e2=B) select e1.x, e2.x as y insert into C", A=a, B=b) == [(1, 7)]
    text = "from every (e1=A[x > 2] or e2=B) select e1.x, e2.x as y insert into C"
    assert rows(text, A=a, B=b) == [(None, 7), (5, None)]


def test_within_is_inclusive():
    pattern = "every e1=A[x == 1] -> e2=A[x == 2] within 10 milliseconds"
    text = f"from {pattern} select e1.ts, e2.ts as t insert into B"
    assert rows(text, A=frame_of([1, 2, 1, 2], [0, 10, 20, 31])) == [(0, 10)]


# --- absent events and time


CALLS = frame_of(["ask", "answer", "ask", "ask"], [0, 900, 5000, 5500])
UNANSWERED = """from every e1=Calls[x == 'ask'] -> not Calls[x == 'answer'] for 2 sec
    select e1.ts as asked insert into Unanswered"""


def test_waits_end_when_time_passes():
    assert rows(UNANSWERED, Calls=CALLS) == []
    assert rows(UNANSWERED, Calls=CALLS, complete_until=7200) == [(5000,)]
    found = cep.siddhi(UNANSWERED, Calls=CALLS, order_by="ts", complete_until=60_000).to_frame(time="at")
    assert found.to_numpy().tolist() == [[7000, 5000], [7500, 5500]]


def test_a_wait_ends_before_an_event_of_the_same_time():
    calls = frame_of(["ask", "answer"], [0, 2000])
    assert rows(UNANSWERED, Calls=calls) == [(0,)]


def test_a_wait_at_the_start_begins_with_the_run():
    text = "from not A for 2 sec -> e1=B select e1.ts insert into C"
    a, b = frame_of([1], [100]), frame_of([1, 2], [1500, 4000])
    assert rows(text, A=a, B=b) == [(4000,)]
    assert rows("from not A[x > 5] for 2 sec -> e1=B select e1.ts insert into C", A=a, B=b, start=-1000) == [
        (1500,)
    ]


def test_clocks_may_be_times():
    times = pd.to_datetime([0, 900, 5000], unit="ms", origin="2026-01-01")
    calls = frame_of(["ask", "answer", "ask"], times)
    result = cep.siddhi(UNANSWERED, Calls=calls, order_by="ts", complete_until="2026-01-01 00:01")
    found = result.to_frame(time="at")
    assert found["at"].tolist() == [pd.Timestamp("2026-01-01 00:00:07")]
    assert found["asked"].tolist() == [times[2]]
    assert found["asked"].dtype == calls["ts"].dtype
    by_index = calls.set_index("ts")
    assert cep.siddhi(UNANSWERED, Calls=by_index, complete_until="2026-01-01 00:01").count() == 1


# --- queries, windows and joins


def test_queries_feed_each_other():
    text = """from A[x > 1] select x * 10 as y insert into B;
        from every e1=B -> e2=B[y > e1.y] select e1.y as low, e2.y as high insert into C"""
    found = cep.siddhi(text, A=frame_of([1, 2, 3, 2]), order_by="ts")
    assert found.streams == ("B", "C")
    assert (found.count("B"), found.count("C"), found.count()) == (3, 1, 1)
    assert found.to_frame("B")["y"].tolist() == [20, 30, 20]
    assert found.to_frame().to_numpy().tolist() == [[20, 30]]
    assert repr(found).startswith("B: 3 rows, C: 1 row\n")


def test_the_order_of_the_text_does_not_matter_for_streams():
    text = "from B[y > 20] select y insert into C; from A select x * 10 as y insert into B"
    assert rows(text, A=frame_of([1, 3]), stream="C") == [(30,)]


def test_a_partition_has_a_pattern_for_each_key():
    text = """partition with (k of A) begin
        from e1=A -> e2=A[x > e1.x] select e1.k, e1.x as low, e2.x as high insert into B; end"""
    values = frame_of([5, 1, 6, 2, 9], k=list("aabba"))
    assert rows(text, A=values) == [("a", 5, 9)]
    assert rows(text.replace("e1=A ->", "every e1=A ->"), A=values) == [("a", 5, 9), ("a", 1, 9)]


def test_ranges_are_keys_and_inner_streams_stay_inside():
    text = """partition with (x >= 10 as 'large' or x < 10 as 'small' of A) begin
        from A select x, count() as n insert into #I; from #I[n == 2] select x insert into B; end"""
    assert rows(text, A=frame_of([1, 20, 3, 40, 5])) == [(3,), (40,)]


def test_aggregates_of_windows():
    values = frame_of([1.0, 2.0, 4.0, 8.0], [0, 400, 1000, 1200])
    text = "from A#window.time(1 sec) select x, sum(x) as total, count() as n insert into B"
    assert rows(text, A=values) == [(1.0, 1.0, 1), (2.0, 3.0, 2), (4.0, 6.0, 2), (8.0, 14.0, 3)]
    text = "from A#window.lengthBatch(2) select sum(x) as total, max(x) as most insert into B"
    assert rows(text, A=values) == [(3.0, 2.0), (12.0, 8.0)]
    text = "from A#window.length(2) select x, avg(x) as mean group by x having mean > 3 insert into B"
    assert rows(text, A=values) == [(4.0, 4.0), (8.0, 8.0)]


def test_a_filter_after_a_window_takes_events_from_it():
    text = "from A#window.length(2)[x > 2] select x, sum(x) as total insert into B"
    assert rows(text, A=frame_of([3, 1, 5, 4])) == [(3, 3), (5, 5), (4, 9)]


def test_sliding_aggregates_equal_those_of_windows():
    values = frame_of([0.1, 0.2, 0.3, -0.6, 1e16, 1.0, -1e16], [0, 3, 5, 9, 11, 12, 20])
    text = "from A#window.time(10 milliseconds) select ts, sum(x) as total, stdDev(x) as spread insert into B"
    found = cep.siddhi(text, A=values, order_by="ts").to_frame()
    expected = cep.window(values, {"total": "sum(x)", "spread": "std(x)"}, time=10, order_by="ts")
    assert found["total"].tolist() == expected["total"].tolist()
    assert found["spread"].tolist() == pytest.approx(expected["spread"].tolist(), abs=1e-6)


def test_values_that_leave_a_join_without_having_entered_have_no_deviation():
    frames = {"A": frame_of([3, 1], [600, 2900]), "B": frame_of([0, 2, 0], [300, 700, 1800])}
    join = "A#window.time(1 sec) full outer join B#window.length(1)"
    found = rows(f"from {join} select stdDev(B.x) as spread insert into C", **frames)
    assert found == [(0.0,), (0.0,), (1.0,), (0.0,), (None,)]  # the last one was an error of math.sqrt


def test_joins():
    a, b = frame_of([1, 2, 1], [0, 20, 40]), frame_of([1, 1], [10, 30])
    join = "A#window.length(1) as a {} B#window.length(1) as b on a.x == b.x"
    text = f"from {join} select a.ts, b.ts as t insert into C"
    assert rows(text.format("join"), A=a, B=b) == [(0, 10), (40, 30)]
    assert rows(text.format("left outer join"), A=a, B=b) == [(0, None), (0, 10), (20, None), (40, 30)]
    assert rows(text.format("unidirectional join"), A=a, B=b) == [(40, 30)]


def test_the_rest_of_siddhi_functions():
    text = """from A select ifThenElse(x > 1, 'big', 'small') as size, coalesce(y, -1) as y, x / 2 as half,
        x / 2.0 as exact, -x % 2 as rest, convert(x, 'string') as t, str:concat('n', x) as name,
        maximum(x, 2) as most, eventTimestamp() as at, y is null as missing insert into B"""
    values = frame_of([1, 3], [5, 7], y=pd.array([None, 4], "Int64"))
    assert rows(text, A=values) == [
        ("small", -1, 0, 0.5, -1, "1", "n1", 2, 5, True),
        ("big", 4, 1, 1.5, -1, "3", "n3", 3, 7, False),
    ]


def test_missing_values_make_comparisons_false():
    values = frame_of([1, 2], y=pd.array([None, 2], "Int64"))
    assert rows("from A[y > 0] select x insert into B", A=values) == [(2,)]
    assert rows("from A[not (y > 0)] select x insert into B", A=values) == [(1,)]


def test_registered_functions_run():
    @cep.pure(name="twice_of_siddhi")
    def twice(x):
        return 2 * x

    assert rows("from A select twice_of_siddhi(x) as y insert into B", A=frame_of([1, 3])) == [(2,), (6,)]


# --- frames


def test_kinds_of_frames():
    text = "from every e1=A -> e2=A[x > e1.x] select e1.x, e2.x as y insert into B"
    values = frame_of([1, 3, 2])
    expected = cep.siddhi(text, A=values, order_by="ts").to_frame()
    table = cep.siddhi(text, A=pa.Table.from_pandas(values), order_by="ts").to_frame()
    assert isinstance(table, pa.Table)
    assert table.to_pandas().equals(expected)
    frame = cep.siddhi(text, {"A": polars.from_pandas(values)}, order_by="ts").to_frame()
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_pandas().equals(expected)


def test_empty_frames():
    found = cep.siddhi("from A[x > 1] select x insert into B", A=frame_of([]).astype("int64"), order_by="ts")
    assert (found.count(), list(found.to_frame())) == (0, ["x"])
    text = "define stream A (x int, ts long); from every e1=A -> e2=A select e2.x insert into B"
    assert cep.siddhi(text, A=frame_of([]), order_by="ts").count() == 0


def test_rows_come_in_the_order_of_the_clock():
    values = frame_of([3, 1, 2], [30, 10, 20])
    assert rows("from A select x insert into B", A=values) == [(1,), (2,), (3,)]
    assert rows("from A select x insert into B", A=values, order_by=None) == [(3,), (1,), (2,)]


def test_streams_may_have_different_clocks():
    a, b = frame_of([1]), frame_of([2]).rename(columns={"ts": "when"}).assign(when=5)
    text = "from e1=A -> e2=B select e1.x, e2.x as y insert into C"
    assert rows(text, A=a, B=b, order_by={"A": "ts", "B": ["when"]}) == [(1, 2)]


def test_a_definition_converts_numbers_and_hides_columns():
    found = cep.siddhi(
        "define stream A (x double); from A select * insert into B", A=frame_of([1, 2]), order_by="ts"
    )
    assert found.to_frame().to_dict("list") == {"x": [1.0, 2.0]}


def test_a_defined_stream_may_only_move_the_clock():
    text = "define stream Tick (x int); from not A for 1 sec select 1 as one insert into B"
    assert rows(text, A=frame_of([1], [100]), Tick=frame_of([0], [9000])) == [(1,)]


# --- errors


ERRORS = cases("siddhi_calls", "errors before any work")


@pytest.mark.parametrize(("text", "names", "message"), ERRORS)
def test_errors_come_before_any_work(text, names, message):
    frames = {name: frame_of([1, 2], k=["a", "b"]) for name in names}
    with pytest.raises(cep.CepError, match=f"(?s){message}"):
        cep.siddhi(text, frames, order_by="ts" if frames else None)


def test_time_needs_a_clock():
    for clause in (
        "e1=A -> e2=A within 1 sec select e1.x",
        "e1=A -> not A for 1 sec select e1.x",
        "A#window.time(1 sec) select x",
    ):
        with pytest.raises(cep.CepError, match="needs a clock; name a column of times"):
            cep.siddhi(f"from {clause} insert into B", A=frame_of([1]))
    with pytest.raises(cep.CepError, match="several streams need a common order"):
        cep.siddhi("from e1=A -> e2=B select e1.x insert into C", A=frame_of([1]), B=frame_of([1]))


def test_the_clock_is_checked():
    text = "from A select x insert into B"
    with pytest.raises(cep.ColumnNotFoundError, match="A has no column 'tss'"):
        cep.siddhi(text, A=frame_of([1]), order_by="tss")
    with pytest.raises(cep.CepError, match="the first column must be a time"):
        cep.siddhi(text, A=frame_of(["a"]), order_by="x")
    with pytest.raises(cep.OrderError, match="has 1 missing values of 2"):
        cep.siddhi(text, A=frame_of([1, 2], [0.0, None]), order_by="ts")
    with pytest.raises(cep.CepError, match="complete_until=1 is before the last event"):
        cep.siddhi(text, A=frame_of([1, 2, 3]), order_by="ts", complete_until=1)
    with pytest.raises(cep.CepError, match="start=5 is after the first event"):
        cep.siddhi(text, A=frame_of([1]), order_by="ts", start=5)
    with pytest.raises(cep.CepError, match="the clock has numbers, so give a number"):
        cep.siddhi(text, A=frame_of([1]), order_by="ts", complete_until="2026-01-01")
    with pytest.raises(cep.CepError, match="order_by: no stream 'B' is given"):
        cep.siddhi(text, A=frame_of([1]), order_by={"B": "ts"})


def test_equal_times_of_streams_that_meet_are_an_accident():
    a, b = frame_of([1], [5], n=[1]), frame_of([2], [5], n=[0])
    text = "from e1=A -> e2=B select e1.x insert into C"
    with pytest.raises(cep.OrderError, match="depends on the order of its threads"):
        cep.siddhi(text, A=a, B=b, order_by="ts")
    assert rows(text, A=a, B=b, order_by=["ts", "n"]) == []
    alone = "from A select x insert into C; from B select x insert into D"
    assert rows(alone, A=a, B=b, stream="D") == [(2,)]
    derived = "from B select x insert into D; from e1=A -> e2=D select e1.x insert into C"
    with pytest.raises(cep.OrderError, match="an event of A and one of B are equal"):
        cep.siddhi(derived, A=a, B=b, order_by="ts")


def test_two_waits_that_end_together_are_an_accident():
    text = "from every (not A for 2 sec or not B for 2 sec) -> e3=C select e3.x insert into D"
    empty = frame_of([]).astype("int64")
    with pytest.raises(cep.UnsupportedQueryError, match="depends on the order of its threads"):
        cep.siddhi(text, A=empty, B=empty, C=frame_of([1], [5000]), order_by="ts", start=0)


def test_an_event_that_ends_a_match_may_start_the_next_one():
    values, text = frame_of([20, 22, 30]), "select e1.x, e2.x as y insert into B"
    assert rows(f"from every e1=A, e2=A[x > e1.x] {text}", A=values) == [(20, 22), (22, 30)]
    assert rows(f"from every e1=A -> e2=A[x > e1.x] {text}", A=values) == [(20, 22), (22, 30)]
    assert rows(f"from every (e1=A -> e2=A[x > e1.x]) {text}", A=values) == [(20, 22)]


def test_sequences_that_siddhi_never_completes_warn():
    with pytest.warns(cep.CepWarning, match="completes no sequence that ends"):
        assert rows("from e1=A, e2=A+ select e1.x insert into B", A=frame_of([1, 2])) == []
    with pytest.warns(cep.CepWarning, match=r"never passes the first state of 'every \(e1=A, e2=A\)'"):
        assert rows("from every (e1=A, e2=A), e3=A select e1.x insert into B", A=frame_of([1, 2, 3, 4])) == []


def test_other_objects_are_no_frames():
    with pytest.raises(cep.CepError, match="A: cannot search"):
        cep.siddhi("from A select x insert into B", A=5)
    with pytest.warns(cep.CepWarning, match="LazyFrame is collected"):
        cep.siddhi("from A select x insert into B", A=polars.LazyFrame({"x": [1]}))


@pytest.mark.parametrize("kind", [lambda frame: frame, pa.Table.from_pandas, polars.from_pandas])
def test_results_show_their_first_rows(kind):
    found = cep.siddhi("from A[x > 2] select x insert into B", A=kind(frame_of(range(20))), order_by="ts")
    assert repr(found).splitlines()[0] == "B: 17 rows" and repr(found).endswith("9  12\n… 7 more rows")
    assert found._repr_html_().startswith("<p>B: 17 rows</p><table")
    assert found._repr_html_().endswith("<p>… 7 more rows; <code>to_frame()</code> has them all</p>")
    nothing = cep.siddhi("from A[x > 99] select x insert into B", A=frame_of([1]), order_by="ts")
    assert (repr(nothing), nothing._repr_html_()) == ("B: 0 rows", "<p>B: 0 rows</p>")


def test_results_know_their_streams():
    found = cep.siddhi("from A select x insert into B", A=frame_of([1]), order_by="ts")
    with pytest.raises(cep.CepError, match="no query writes 'b'; streams: B"):
        found.count("b")
    with pytest.raises(cep.CepError, match="has this column already"):
        found.to_frame(time="x")


def test_no_warning_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows("from every e1=A, e2=A[x > e1.x] select e1.x insert into B", A=frame_of([1, 2]))


# --- translated queries


@pytest.mark.parametrize("seed", range(5))
def test_translated_queries_have_the_matches_of_match(seed):
    source = np.random.default_rng(seed)
    n = 200
    events = pd.DataFrame(
        {
            "ts": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.cumsum(source.integers(1, 4, n)), unit="s"),
            "kind": source.choice(["A", "B", "C"], n),
            "x": source.integers(0, 9, n),
        }
    )
    query = "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x != b.x WITHIN 20 s"
    keywords = {"event_type": "kind", "strategy": "next", "order_by": "ts"}
    text = cep.translate(query, "siddhi", **keywords)
    found = cep.siddhi(text, dict(list(events.groupby("kind"))), order_by="ts").to_frame()
    expected = cep.match(events, query, **keywords).to_frame()
    assert len(found) > 5
    assert found.sort_values(list(found)).to_numpy().tolist() == (
        expected[list(found)].sort_values(list(found)).to_numpy().tolist()
    )


@pytest.mark.parametrize("kind", ["int", "long"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_an_infinite_number_is_no_integer(kind, value):
    text = f"define stream S (x {kind}); from S select x insert into Out;"
    frame = pd.DataFrame({"x": [1.0, value]})
    with pytest.raises(
        cep.CepError, match=f"stream S: 'x' is defined as {kind}, and its column holds an inf"
    ):
        cep.siddhi(text, S=frame).to_frame()
    numbers = cep.siddhi(text.replace(f"x {kind}", "x double"), S=frame).to_frame()
    assert numbers["x"].tolist() == [1.0, value]


def test_a_sum_beyond_the_greatest_float_is_infinite():
    text = "define stream S (x double); from S#window.length(2) select sum(x) as s insert into Out;"
    frame = pd.DataFrame({"x": [1e308, 1e308, 1.0], "t": [1, 2, 3]})
    found = cep.siddhi(text, {"S": frame}, order_by="t")
    assert list(found.to_frame("Out")["s"]) == [1e308, float("inf"), 1e308]
