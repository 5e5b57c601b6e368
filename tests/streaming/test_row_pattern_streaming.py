"""MATCH_RECOGNIZE in open streams: any cut into batches gives the answer for the whole frame."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, OrderError, UnsupportedQueryError
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.query import RowPatternQuery, RowsQuery, SortKey
from cepkit.streaming.batches import schema_of
from cepkit.streaming.chains import open_search
from cepkit.streaming.row_patterns import rows_of_stream
from cepkit.streaming.search import Options
from tests.oracle.generate_match_recognize import has_anchor, random_late_query, random_query, random_rows
from tests.support.sizes import seeds
from tests.support.spark_cases import rows_of
from tests.support.stream_cases import (
    END,
    MS,
    orders,
    received_in_buckets,
    run_stream,
    stream_of_files,
    write_files,
)

SCHEMA = pa.schema(
    [("k", pa.string()), ("t", pa.timestamp("s")), ("x", pa.int64()), ("y", pa.int64()), ("i", pa.int64())]
)
SIMPLE = {"k": "string", "t": "int64", "x": "int64"}


def plain(table: pa.Table) -> list[str]:
    return [repr(row) for row in table.to_pylist()]


def streamed(text: str, table: pa.Table, cuts: list[int], path=None, **options) -> list[str]:
    """Return the rows that a stream gives for the parts of a table, in their order."""
    stream = cep.stream(text, table.schema, **options)
    found: list[str] = []
    for start, stop in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        found += plain(stream.push(table.slice(start, stop - start)))
        if path is not None:
            stream.save(path)
            stream = cep.stream.load(path)
    return found + plain(stream.close())


def random_stream_query(random: Random) -> RowPatternQuery:
    """Return a random query that a stream runs."""
    while True:
        query = random_late_query(random) if random.random() < 0.3 else random_query(random, depth=2)
        query, rows = replace(query, order_by=(SortKey("t"),)), query.rows_per_match
        if query.within is None and random.random() < 0.5:
            late = rows == "one"
            query = replace(query, within=f"{random.randint(1, 5)} s", timed_out=late)
            if late:
                query = replace(query, measures=(*query.measures, ("late", rp.TimedOut())))
        if not (has_anchor(query.pattern) and "$" in str(query.pattern)):
            return query


def compare(seed: int, n_queries: int, tmp_path) -> int:
    random = Random(seed)
    n_found = 0
    for _ in range(n_queries):
        query = random_stream_query(random)
        rows = random_rows(random, random.randint(1, 14))
        for i, row in enumerate(rows):  # times of several keys repeat
            row["t"] = i * 2 // 3
        rows = [{**row, "i": i} for i, row in enumerate(rows)]
        text, table = str(query), pa.Table.from_pylist(rows, SCHEMA)
        n = table.num_rows
        every = list(range(1, n))
        cuts = [every, [], sorted(random.sample(every, random.randint(0, len(every))))]
        try:
            expected = plain(cep.match(table, text).to_frame())
        except CepError:
            for cut in cuts:
                with pytest.raises(CepError, match="AFTER MATCH SKIP TO"):
                    streamed(text, table, cut)
            continue
        first, *others = [streamed(text, table, cut) for cut in cuts]
        assert sorted(first) == sorted(expected), f"{query}\n{rows}"
        for other in others:
            assert other == first, f"{query}\n{rows}"
        if random.random() < 0.1:
            assert streamed(text, table, cuts[-1], tmp_path / "state") == first, f"{query}\n{rows}"
        n_found += len(first)
    return n_found


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_any_cut_gives_the_answer_of_the_frame(seed, tmp_path):
    assert compare(seed, 25, tmp_path) > 10


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_a_pause_ends_a_key_as_the_end_of_its_partition(seed, tmp_path):
    random = Random(f"pauses {seed}")
    for number in range(15):
        query, idle = random_stream_query(random), random.randint(1, 4)
        rows = random_rows(random, random.randint(1, 20))
        newest, t = {}, 0
        for i, row in enumerate(rows):
            t += random.choice([0, 0, 1, 1, 2, 5])
            before, run = newest.get(row["k"], (t, 0))
            row["run"] = run + (t - before > idle)
            newest[row["k"]] = t, row["run"]
            row["t"], row["i"] = t, i
        query = replace(query, partition_by=("k",), timed_out=False)
        query = replace(query, measures=tuple(m for m in query.measures if m[0] != "late"))
        text, table = str(query), pa.Table.from_pylist(rows, SCHEMA)
        whole = table.append_column("run", pa.array([row["run"] for row in rows], pa.int64()))
        try:
            by_run = str(replace(query, partition_by=("k", "run")))
            expected = cep.match(whole, by_run).to_frame().drop_columns(["run"])
        except CepError:
            continue  # AFTER MATCH SKIP TO a row that a match lacks
        every = list(range(1, len(rows)))
        cuts = [every, [], sorted(random.sample(every, random.randint(0, len(every))))]
        first, *others = [streamed(text, table, cut, idle_after=f"{idle} s") for cut in cuts]
        assert sorted(first) == sorted(plain(expected)), f"{query}\n{rows}"
        if number == 0:
            others.append(streamed(text, table, cuts[-1], tmp_path / "state", idle_after=f"{idle} s"))
        for other in others:
            assert other == first, f"{query}\n{rows}"


def test_idle_keys_are_counted_and_their_matches_come_out():
    clauses = "PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n PATTERN (A B*) DEFINE B AS x > PREV(x)"
    stream = opened(clauses, idle_after=10)
    assert stream.push([{"k": "a", "t": 0, "x": 1}, {"k": "a", "t": 1, "x": 2}]) == []
    assert stream.push([{"k": "b", "t": 11, "x": 1}]) == [] and stream.status().keys == 2
    assert stream.push([{"k": "b", "t": 12, "x": 0}]) == [{"k": "a", "n": 2}, {"k": "b", "n": 1}]
    status = stream.status()
    assert (status.keys, status.forgotten, status.ended, status.rows, status.live) == (1, 1, 0, 2, 1)
    assert repr(status) == (
        f"4 events, 2 matches\nholds 1 key, 1 partial match, 2 rows kept, {status.state_bytes} bytes\n"
        "newest event at 12; oldest open event at 12, 1 event back\n"
        "1 idle key forgotten with 0 partial matches"
    )
    ends = opened("PARTITION BY k ORDER BY t PATTERN (A B) DEFINE A AS x = 1, B AS x = 2", idle_after=10)
    ends.push([{"k": "a", "t": 0, "x": 1}, {"k": "b", "t": 0, "x": 3}, {"k": "c", "t": 11, "x": 3}])
    status = ends.status()
    assert (status.keys, status.forgotten, status.ended, status.rows) == (1, 2, 1, 0)
    assert "2 idle keys forgotten with 1 partial match" in repr(ends)


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("MEASURES COUNT(*) AS n PATTERN (A B) DEFINE A AS x = 1, B AS x = 2", {}),
        ("PATTERN (A B C) WITHIN INTERVAL '9' SECOND DEFINE A AS x = 1, B AS x = 2, C AS x > 0", {}),
        ("MEASURES MATCH_NUMBER() AS n PATTERN (A B) DEFINE B AS x > PREV(x)", {"idle_after": "9 s"}),
        ("PATTERN (^ A B+) DEFINE B AS x > A.x", {"idle_after": "9 s"}),
    ],
    ids=["closed rows", "within", "idle, number", "idle, anchor"],
)
def test_keys_that_come_and_go_leave_nothing(pattern, options):
    stream = opened(f"PARTITION BY k ORDER BY t {pattern}", {**SIMPLE, "t": "timestamp[s]"}, **options)
    sizes = []
    for t in range(0, 900, 3):
        stream.push([{"k": f"{t // 9}", "t": t, "x": 1 + t // 3 % 3}])
        search = stream._search
        sizes.append(
            (stream.status().keys, stream.status().rows, len(search._deadlines), search._keys.n_codes)
        )
    assert max(sizes) <= (4, 12, 12, 5), max(sizes)


@pytest.mark.parametrize(
    "clauses",
    [
        "MEASURES MATCH_NUMBER() AS n PATTERN (A) DEFINE A AS x > 0",
        "PATTERN (^ A) DEFINE A AS x > 0",
        "PATTERN (A) DEFINE A AS x > PREV(x)",
    ],
)
def test_what_later_rows_need_of_a_key_stays(clauses):
    stream = opened(f"PARTITION BY k ORDER BY t {clauses}")
    for t in range(6):
        stream.push([{"k": "ab"[t % 2], "t": t, "x": t}])
    assert stream.status().keys == 2


def test_rows_of_open_matches_beyond_max_live_are_refused_and_change_nothing():
    clauses = "PARTITION BY k ORDER BY t PATTERN (A B+ C) DEFINE B AS x >= A.x, C AS x < A.x"
    stream = opened(clauses, max_live=3)
    pushed(stream, 1, 2, 3)
    with pytest.raises(
        CepError, match="the partition k='a' has 4 rows of open matches, more than max_live=3"
    ):
        pushed(stream, 4)
    assert (stream.events, stream.status().rows) == (3, 3)
    assert len(pushed(stream, 0)) == 1 and stream.status().rows == 0


def opened(clauses: str, schema=SIMPLE, **options):
    return cep.stream(f"MATCH_RECOGNIZE ({clauses})", schema, **options)


def pushed(stream, *values: int, key: str = "a") -> list[dict]:
    return stream.push([{"k": key, "t": t, "x": x} for t, x in enumerate(values, start=stream.events)])


def test_a_match_comes_with_the_row_that_decides_it():
    exact = opened("ORDER BY t MEASURES COUNT(*) AS n PATTERN (A B) DEFINE B AS x > PREV(x)")
    assert pushed(exact, 1) == [] and pushed(exact, 2) == [{"n": 2}]
    greedy = opened("ORDER BY t MEASURES COUNT(*) AS n PATTERN (A B*) DEFINE B AS x > PREV(x)")
    assert pushed(greedy, 1, 2, 3) == [] and pushed(greedy, 0) == [{"n": 3}]
    assert greedy.close() == [{"n": 1}]
    ahead = opened("ORDER BY t MEASURES A.x AS x PATTERN (A) DEFINE A AS x < NEXT(x)")
    assert pushed(ahead, 1) == [] and pushed(ahead, 2) == [{"x": 1}]


def test_events_of_other_keys_say_that_time_has_passed():
    clauses = """PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n, TIMED_OUT() AS late
      ONE ROW PER MATCH WITH TIMED OUT MATCHES PATTERN (A B* C) WITHIN INTERVAL '5' SECOND
      DEFINE A AS x = 1, B AS x = 2, C AS x = 3"""
    stream = opened(clauses, {**SIMPLE, "t": "timestamp[s]"})
    rows = [{"k": "a", "t": t, "x": x} for t, x in enumerate([1, 2, 2])]
    assert stream.push(rows) == []
    assert stream.push([{"k": "b", "t": 4, "x": 9}]) == []
    assert stream.push([{"k": "b", "t": 5, "x": 9}]) == [{"k": "a", "n": 3, "late": True}]
    assert stream.status().rows == 0 and stream.status().keys == 0


def test_the_state_is_bounded_by_the_open_match():
    stream = opened("PARTITION BY k ORDER BY t PATTERN (A B+ C) DEFINE B AS x > PREV(x, 2), C AS x < PREV(x)")
    most = 0
    for _ in range(60):
        pushed(stream, 1, 2, 3, 1)
        most = max(most, stream.status().rows)
    assert stream.matches > 30 and most <= 8


def test_rows_without_a_match():
    stream = opened(
        "ORDER BY t MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B) "
        "DEFINE A AS x = 1, B AS x = 2"
    )
    made = [
        (row["x"], row["c"]) for row in [*pushed(stream, 5, 1), *pushed(stream, 2, 1), *pushed(stream, 7)]
    ]
    assert made == [(5, None), (1, "A"), (2, "B"), (1, None), (7, None)]
    assert stream.status().rows == 0


def test_an_error_leaves_the_stream_as_it_was():
    clauses = (
        "ORDER BY t MEASURES COUNT(*) AS n AFTER MATCH SKIP TO LAST B PATTERN (A B? C) DEFINE A AS x = 1,"
    )
    stream = opened(clauses + "B AS x = 2, C AS x = 3")
    pushed(stream, 1, 2)
    with pytest.raises(CepError, match="match 2 has no row of B"):
        pushed(stream, 3, 1, 3)
    assert (stream.events, stream.status().rows) == (2, 2)
    assert pushed(stream, 3) == [{"n": 3}]


def test_select():
    text = """SELECT k, n * 2 AS twice, lasts FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
      MEASURES COUNT(*) AS n, LAST(t) - FIRST(t) AS lasts PATTERN (A B) DEFINE B AS x > PREV(x))
      WHERE n > 1"""
    stream = cep.stream(text, SIMPLE)
    assert stream.result_schema.names == ["k", "twice", "lasts"]
    assert stream.push([{"k": "a", "t": 1, "x": 1}, {"k": "a", "t": 4, "x": 2}]) == [
        {"k": "a", "twice": 4, "lasts": 3}
    ]
    assert "1 match" in repr(stream) and "'A B'" in repr(stream)


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        (
            "ORDER BY t DESC PATTERN (A) DEFINE A AS true",
            "ORDER BY t DESC: the rows of a stream come in ascending",
        ),
        ("PATTERN (A $) DEFINE A AS true", r"\$ is the end of the partition"),
        ("MEASURES NULL AS m PATTERN (A) DEFINE A AS true", "no type before the first row"),
    ],
)
def test_what_needs_the_whole_frame_is_refused(clauses, reason):
    with pytest.raises(UnsupportedQueryError, match=reason):
        opened(clauses)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS true) LIMIT 3",
            "LIMIT: it needs all matches",
        ),
        (
            "SELECT * FROM s WINDOW w AS (ROWS CURRENT ROW PATTERN (A) DEFINE A AS true)",
            "WINDOW W: the measures of a row depend on all rows of its frame",
        ),
    ],
)
def test_selects_that_need_the_whole_frame_are_refused(text, reason):
    with pytest.raises(UnsupportedQueryError, match=reason):
        cep.stream(text, SIMPLE)


@pytest.mark.parametrize("rows", ["ONE ROW", "ALL ROWS"])
@pytest.mark.parametrize(
    ("select", "where", "said"),
    [
        ("mm", "TRUE", "SELECT: column 'mm' not found. Did you mean 'm'?"),
        ("m", "nope > 1", "WHERE: column 'nope' not found. Columns: ['k', "),
        ("m", "m > 'a'", "WHERE: m > 'a' compares numbers with texts"),
        ("m", "m", "WHERE: a condition is true or false, and m is an integer; write m <> 0"),
        ("FOO(m) AS u", "TRUE", "SELECT: no function 'FOO' in foo(m)"),
        ("m, k AS m", "TRUE", "SELECT: two columns have the name 'm'"),
    ],
)
def test_a_wrong_select_is_refused_before_the_first_event_as_for_a_frame(select, where, said, rows):
    text = f"""SELECT {select} FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES LAST(x) AS m
      {rows} PER MATCH PATTERN (A) DEFINE A AS x > 0) WHERE {where}"""
    table = pa.table({"k": ["a"], "t": [1], "x": [2]})
    with pytest.raises(CepError) as of_frame:
        cep.match(table, text)
    with pytest.raises(CepError) as of_stream:
        cep.stream(text, table.schema)
    assert str(of_frame.value).startswith(said)
    assert (type(of_stream.value), str(of_stream.value)) == (type(of_frame.value), str(of_frame.value))


def test_options_of_other_streams():
    clauses = "PATTERN (A) DEFINE A AS true"
    with pytest.raises(UnsupportedQueryError, match="MATCH_RECOGNIZE does not take it"):
        opened(clauses, threads=2)
    with pytest.raises(CepError, match="has clauses for its options"):
        opened(clauses, order_by="t")
    with pytest.raises(UnsupportedQueryError, match="MATCH_RECOGNIZE keeps all of them"):
        opened(clauses, latency_bound="1 s")


# --- buckets of Spark streams -------------------------------------------------------------------------------


def bucket_case(seed: int) -> tuple[RowsQuery, pd.DataFrame]:
    """Return a random query, and rows in time with numbers that tell ties apart."""
    random = Random(f"bucket {seed}")
    query = random_stream_query(random)
    query = replace(query, order_by=(SortKey("t"), SortKey("n")), partition_by=random.choice([(), ("k",)]))
    if query.within is not None:
        query = replace(query, within=f"{random.randint(1, 6)} ms")
    rows = random_rows(random, random.randint(1, 30))
    for i, row in enumerate(rows):
        row["t"], row["n"] = (10 + i * 2 // 3) * MS, i
    frame = pd.DataFrame(rows).astype({"x": "Int64", "y": "Int64", "t": "datetime64[us]"})
    return rows_of_stream(str(query), schema_of(frame).columns), frame


@pytest.mark.parametrize("seed", seeds(5, 40))
def test_micro_batches_of_spark_do_not_matter(seed):
    query, frame = bucket_case(seed)
    schema = schema_of(frame)
    n_buckets = 3 if query.partition_by else 1
    for cut in range(2):
        try:
            found, accepted, _ = received_in_buckets(query, frame, 1000 * seed + cut, n_buckets)
        except CepError as error:
            assert "AFTER MATCH SKIP TO" in str(error)
            continue
        table = pa.Table.from_pandas(accepted.sort_values("n"), schema=schema.arrow, preserve_index=False)
        search = open_search(query, schema, Options())
        parts = [search.advance(table, None, 0)[0]] if len(accepted) else []
        wanted = pa.concat_tables([search.empty, *parts, search.pass_time(END)[0]])
        assert Counter(map(repr, found)) == Counter(repr(tuple(row.values())) for row in wanted.to_pylist())


def test_a_spark_stream(spark, tmp_path):
    frame = orders(200, 1)
    write_files(frame, tmp_path / "in", 2, 1, most_late=5)
    text = """SELECT k, n, late, "to" FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, n
      MEASURES COUNT(*) AS rows_, FIRST(n) AS n, TIMED_OUT() AS late, MATCH_ROWTIME() AS "to"
      ONE ROW PER MATCH WITH TIMED OUT MATCHES PATTERN (A B+? C) WITHIN INTERVAL '40' SECOND
      DEFINE A AS x < 50, B AS x > PREV(x), C AS x < PREV(x)) WHERE rows_ > 1"""
    stream = stream_of_files(spark, tmp_path / "in", "10 seconds")
    found = stream.cep.match(text)
    assert repr(found).startswith(
        "matches of 'A B+? C' in a streaming Spark frame, partitioned by k: k: string"
    )
    assert "buckets      4 by a hash of k" in str(found.explain())
    run_stream(found.configure(buckets=2), tmp_path)
    written = spark.read.parquet(str(tmp_path / "out"))
    end = frame.tail(1).assign(ts=frame["ts"].max() + pd.Timedelta("1D"), kind="Z", k="end", n=-1)
    wanted = cep.match(pd.concat([frame, end]), text).to_frame()
    assert Counter(rows_of(written)[1]) == Counter(rows_of(wanted)[1])
    assert wanted["late"].any() and not wanted["late"].all()
    with pytest.raises(OrderError, match="ORDER BY is missing"):
        stream.cep.match("MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x > 3)")
    with pytest.raises(OrderError, match="the watermark is on 'ts'"):
        stream.cep.match("MATCH_RECOGNIZE (ORDER BY n PATTERN (A) DEFINE A AS x > 3)")
    with pytest.raises(UnsupportedQueryError, match=r"\$ is the end of the partition"):
        clauses = "ORDER BY ts PATTERN (A $) DEFINE A AS x > 3"
        stream.cep.match(f"MATCH_RECOGNIZE ({clauses})")
