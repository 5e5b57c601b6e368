"""What goes wrong on Spark: names that jobs use, skewed keys, small groups, time zones, dead workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.pipelines.spark_session import setting
from cepkit.results.spark_tasks import part_of
from tests.support.sizes import seeds
from tests.support.spark_cases import rows_of

pytest.importorskip("pyspark")

QUIET = pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")


def on_spark(session, frame: pd.DataFrame):
    """Return the rows on Spark in another order."""
    shuffled = frame.sample(frac=1, random_state=1)
    return from_arrow(session, pa.Table.from_pandas(shuffled, preserve_index=False))


def from_arrow(session, table: pa.Table):
    """Return a table on Spark; times without a zone get none."""
    with setting(session, "spark.sql.timestampType", "TIMESTAMP_NTZ"):
        return session.createDataFrame(table)


def same_rows(found, expected) -> None:
    """Fail unless two frames have the same columns and, in any order, the same rows."""
    (names, rows), (wanted_names, wanted) = rows_of(found), rows_of(expected)
    assert names == wanted_names
    assert sorted(rows, key=repr) == sorted(wanted, key=repr) and wanted


# --- names --------------------------------------------------------------------------------------------------

# Names that jobs give to their own columns, and names that are hard to write.
HOSTILE = [
    *("match", "variable", "position", "key", "partition", "slice", "low", "high", "tick", "number", "count"),
    *("bucket", "rows", "side", "c0", "c1", "e0", "e1", "r0", "r1", "f0", "k0", "l0", "m0", "late", "rank"),
    *("place", "time", "seq", "node", "items", "marks", "joins", "branch", "total", "n", "begins", "found"),
    *("least", "latest", "latest time", "index", "left", "right", "emitted", "drawn", "before_it", "matches"),
    *("run", "session", "condition", "any", "values", "is_late", "token", "content", "tie", "step", "limits"),
    *("items`", "a.b", "f(x)", "", "0", "x'y"),
]
ADDED = ["match", "variable", "run", "session", "emitted"]  # results have columns of these names


class Roles:
    """The columns of keys, order, event types and values; all others have numbers that mean nothing."""

    def __init__(self, key: str, order: str, kind: str, value: str):
        self.key, self.order, self.kind, self.value = key, order, kind, value
        self.x = f"`{value}`"

    def frame(self, n: int = 120) -> pd.DataFrame:
        rng = np.random.default_rng(7)
        frame = pd.DataFrame({name: rng.integers(0, 9, n) for name in HOSTILE})
        keys = [*range(4), *rng.integers(0, 4, n - 4)]  # in order at first, as Spark numbers the matches
        own = {self.key: keys, self.order: np.arange(n), self.value: rng.integers(0, 9, n)}
        return frame.assign(**own, **{self.kind: rng.choice(list("ABC"), n)})


ROLES = [
    Roles("key", "position", "slice", "number"),
    Roles("c0", "e1", "r0", "bucket"),
    Roles("partition", "tick", "low", "total"),
    Roles("rank", "latest time", "k0", "place"),
    Roles("before_it", "time", "node", "seq"),
]


def regex(frame, of: Roles):
    return frame.cep.match(
        ". up", define={"up": f"{of.x} > prev({of.x})"}, partition_by=of.key, order_by=of.order
    )


def sequence(frame, of: Roles):
    return frame.cep.match(
        "PATTERN SEQ(A a, B b) WITHIN 9", event_type=of.kind, partition_by=of.key, order_by=of.order,
        after_match="past_last",
    )  # fmt: skip


def sliced(frame, of: Roles):
    return frame.cep.match(
        "PATTERN SEQ(A a, B b) WHERE partition_contiguity WITHIN 9", event_type=of.kind, order_by=of.order
    )


def row_patterns(frame, of: Roles):
    value = f'"{of.value}"'
    return frame.cep.match(
        f"""MATCH_RECOGNIZE (PARTITION BY "{of.key}" ORDER BY "{of.order}" MEASURES LAST({value}) AS w0,
        CLASSIFIER() AS w1 PATTERN (S UP+) DEFINE UP AS {value} > PREV({value}))"""
    )


def in_a_window(frame, of: Roles):
    value = f'"{of.value}"'
    return frame.cep.match(
        f"""SELECT "{of.order}", "count", w0 OVER w AS w0 FROM t WINDOW w AS (PARTITION BY "{of.key}"
        ORDER BY "{of.order}" MEASURES MIN({value}) AS w0 ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING
        PATTERN (S UP+) DEFINE UP AS {value} > PREV({value})) ORDER BY "{of.order}" """
    ).to_frame()


def window(frame, of: Roles):
    return frame.cep.window({"w0": f"sum({of.x})"}, time=9, group_by=of.key, order_by=of.order)


def window_in_slices(frame, of: Roles):
    return frame.cep.window({"w0": f"sum({of.x})"}, time=9, order_by=of.order, emit="all")


def join(frame, of: Roles):
    return frame.cep.join(
        frame, left=cep.Window(time=9), right=cep.Window(time=9), on=of.key, order_by=of.order,
        where=f"left.{of.x} < right.{of.x}",
    )  # fmt: skip


def join_in_slices(frame, of: Roles):
    return frame.cep.join(
        frame, left=cep.Window(time=3), right=cep.Window(time=3), order_by=of.order,
        where=f"left.{of.x} < right.{of.x}",
    )  # fmt: skip


def runs(frame, of: Roles):
    return frame.cep.runs(f"{of.x} > prev({of.x})", partition_by=of.key, order_by=of.order, rows="all")


def sessions(frame, of: Roles):
    return frame.cep.sessions(gap=2, partition_by=of.key, order_by=of.order, measures={"w0": f"sum({of.x})"})


def funnel(frame, of: Roles):
    steps = ["A", "B", "C"]
    keywords = {"event_type": of.kind, "partition_by": of.key, "order_by": of.order, "mode": "any"}
    return frame.cep.funnel(steps, **keywords).to_frame()


MATCHES = [regex, sequence, sliced, row_patterns]
TABLES = [in_a_window, window, window_in_slices, join, join_in_slices, runs, sessions, funnel]
ROLES = [
    Roles("key", "position", "slice", "number"),
    Roles("c0", "e1", "r0", "bucket"),
    Roles("partition", "tick", "low", "total"),
    Roles("rank", "latest time", "k0", "place"),
    Roles("before_it", "time", "node", "seq"),
]


@QUIET
@pytest.mark.parametrize("seed", seeds(1, len(ROLES)))
@pytest.mark.parametrize("find", MATCHES)
def test_matches_with_hostile_names(session, find, seed, full):
    of = ROLES[seed]
    whole = of.frame()
    frame = whole.drop(columns=ADDED)
    here, there = find(frame, of), find(on_spark(session, frame), of)
    same_rows(there.to_frame(), here.to_frame())
    same_rows(there.tag(), here.tag())
    if full:
        names = ["match", "variable", of.order]
        same_rows(there.to_frame("all").select(*names), here.to_frame("all")[names])
        same_rows(there.lineage(1).select("match", "variable"), here.lineage(1)[["match", "variable"]])
    for found in (find(whole, of), find(on_spark(session, whole), of)):  # these calls add columns
        for call in (found.tag, lambda found=found: found.to_frame("all")):
            with pytest.raises(CepError, match="the frame has a column 'match' already; rename it"):
                call()


@QUIET
@pytest.mark.parametrize("seed", seeds(1, len(ROLES)))
@pytest.mark.parametrize("find", TABLES)
def test_tables_with_hostile_names(session, find, seed):
    of = ROLES[seed]
    frame = of.frame().drop(columns=ADDED)
    same_rows(find(on_spark(session, frame), of), find(frame, of))


@QUIET
@pytest.mark.parametrize("find", MATCHES)
def test_keys_with_the_names_of_added_columns(session, find):
    of = Roles("match", "run", "variable", "session")
    same_rows(find(on_spark(session, of.frame()), of).to_frame(), find(of.frame(), of).to_frame())


def test_a_part_of_a_frame_with_hostile_names(session, monkeypatch):
    of = Roles("items`", "a.b", "f(x)", "x'y")
    frame = on_spark(session, of.frame())
    keyed = part_of(frame, [of.key], [of.order], 80)
    assert "all rows of some keys of items`" in keyed[1] and set(keyed[0].columns) == set(HOSTILE)
    first, said = part_of(frame, [], [of.order], 5)
    assert "the first ones by a.b" in said and first[of.order].tolist() == [0, 1, 2, 3, 4]


def test_a_dealer_reads_columns_by_their_place():
    """The number of the bucket comes last, and a column of the stream may have its name, or none."""
    from cepkit.streaming.spark_tasks import Dealer, of_stream

    batch = pa.record_batch(
        [pa.array([7, 8, 9]), pa.array([1, 2, 3]), pa.array([1, 0, 1])], ["e0", "e1", "b"]
    )
    for names in (("bucket", ""), ("", "bucket"), ("rows", "b")):
        dealt, nothing = Dealer(names, (10, 11)).run(iter([batch]))
        assert dealt.column("bucket").to_pylist() == [10, 11]
        rows = [of_stream(content.as_py()) for content in dealt.column("rows")]
        assert [list(one.to_pydict().items()) for one in rows] == [
            [(names[0], [8]), (names[1], [2])], [(names[0], [7, 9]), (names[1], [1, 3])]
        ]  # fmt: skip
        assert nothing.column("bucket").to_pylist() == [10, 11]


# --- measures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["b", "b_n", "B_N", "a_n"])
def test_default_measures_make_way_for_a_key_of_a_sequence(session, key):
    frame = pd.DataFrame({"kind": list("ABABAB"), "n": range(6), key: [1, 1, 2, 2, 1, 1]})
    keywords = {"event_type": "kind", "order_by": "n"}
    query = f"PATTERN SEQ(A a, B b) WHERE [{key}]"
    here = frame.cep.match(query, **keywords).to_frame()
    names = [f"{name}_" if name == key.lower() else name for name in ("a_n", "b_n")]
    assert list(here.columns) == [key, *names] and here[key].tolist() == [1, 2, 1, 1]
    same_rows(on_spark(session, frame).cep.match(query, **keywords).to_frame(), here)
    with pytest.raises(CepError, match=f"the result already has column '{key}'"):
        frame.cep.match(query, **keywords, measures={key: "b.n"})


@pytest.mark.parametrize("key", ["count", "first_n"])
def test_default_measures_make_way_for_a_key_of_a_regex(session, key):
    frame = pd.DataFrame({"n": range(6), key: [1, 1, 2, 2, 1, 1]})
    keywords = {"define": {"up": "n > prev(n)"}, "partition_by": key, "order_by": "n"}
    here = frame.cep.match("up", **keywords).to_frame()
    names = [f"{name}_" if name == key else name for name in ("first_n", "last_n", "count")]
    assert list(here.columns) == [key, *names] and here[key].tolist() == [1, 2, 1, 1]
    same_rows(on_spark(session, frame).cep.match("up", **keywords).to_frame(), here)


def test_default_positions_make_way_for_a_key():
    """Without order columns the result has positions, and the key keeps its name and its values."""
    frame = pd.DataFrame({"kind": list("ABAB"), "b_position": [5, 5, 6, 6], "last_position": [5, 5, 6, 6]})
    found = frame.cep.match("PATTERN SEQ(A a, B b) WHERE [b_position]", event_type="kind").to_frame()
    assert found.to_dict("list") == {"b_position": [5, 6], "a_position": [0, 2], "b_position_": [1, 3]}
    found = frame.cep.match("b", define={"b": "kind == 'B'"}, partition_by="last_position").to_frame()
    assert found.drop(columns="count").to_dict("list") == {
        "last_position": [5, 6], "first_position": [1, 3], "last_position_": [1, 3]
    }  # fmt: skip


MEASURES = {
    "texts to numbers": "MAP_AGG(kind, n)",
    "numbers to texts": "MAP_AGG(n, kind)",
    "to times": "MAP_AGG(kind, ts)",
    "from times": "MAP_AGG(ts, x)",
    "to the labels": "MAP_AGG(n, CLASSIFIER())",
    "of computed values": "MAP_AGG(n + 1, x * 2)",
    "a value of a map": "ELEMENT_AT(MAP_AGG(kind, ts), 'A')",
    "an item of a list": "ELEMENT_AT(ARRAY_AGG(x), 1)",
    "a map or none": "CASE WHEN COUNT(*) > 1 THEN MAP_AGG(n, x) END",
    "a struct": "LAST(point)",
    "structs": "ARRAY_AGG(point)",
    "the greatest struct": "MAX_BY(point, x)",
    "bytes": "FIRST(raw)",
    "a map of the table": "LAST(tags)",
}


def test_measures_that_had_no_type(session):
    """One query has all of them, in memory and on Spark."""
    n = 40
    rng = np.random.default_rng(5)
    table = pa.table(
        {
            "k": rng.integers(0, 3, n), "n": np.arange(n), "kind": rng.choice(list("AB"), n),
            "x": pa.array(rng.random(n), mask=rng.random(n) < 0.2),
            "ts": pa.array([datetime(2026, 1, 1, 9, i) for i in range(n)], pa.timestamp("us")),
            "point": pa.array([{"x": i, "y": str(i)} if i % 5 else None for i in range(n)]),
            "raw": pa.array([b"%d" % i for i in range(n)]),
            "tags": pa.array([[("a", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
        }
    )  # fmt: skip
    shown = ", ".join(f"{text} AS m{i}" for i, text in enumerate(MEASURES.values()))
    text = f"""MATCH_RECOGNIZE (PARTITION BY k ORDER BY n MEASURES {shown}
        PATTERN (S R*) DEFINE R AS n % 5 <> 0)"""
    here = cep.match(table, text).to_frame()
    found = from_arrow(session, table).cep.match(text).to_frame()
    types = {field.name: field.type for field in here.schema}
    assert types["m0"].equals(pa.map_(pa.string(), pa.int64())) and types["m5"].key_type == pa.int64()
    assert types["m2"].item_type == pa.timestamp("us") and types["m6"] == pa.timestamp("us")
    arrow = found.toArrow()
    assert as_rows(arrow) == as_rows(here) and here.num_rows > 5
    for of in arrow.schema:
        assert of.type.id == types[of.name].id


def as_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_a_null_has_no_type(session):
    frame = on_spark(session, pd.DataFrame({"n": [1, 2], "k": [1, 1]}))
    clauses = "PARTITION BY k ORDER BY n MEASURES {} AS m PATTERN (A) DEFINE A AS n > 0"
    with pytest.raises(
        CepError, match=r"the column 'm' has no type before it runs.*CAST\(… AS BIGINT\) AS m"
    ):
        frame.cep.match(f"MATCH_RECOGNIZE ({clauses.format('NULL')})")
    found = frame.cep.match(f"MATCH_RECOGNIZE ({clauses.format('CAST(NULL AS BIGINT)')})")
    assert found.to_frame().schema["m"].dataType.simpleString() == "bigint"


# --- sizes of keys ------------------------------------------------------------------------------------------


def of_keys(keys: np.ndarray, seed: int) -> pd.DataFrame:
    """Return rows with these keys in order."""
    rng, n = np.random.default_rng(seed), len(keys)
    return pd.DataFrame(
        {"k": keys, "n": np.arange(n), "kind": rng.choice(list("ABC"), n), "x": rng.random(n)}
    )


SEQUENCE = {
    "query": "PATTERN SEQ(A a, B b) WHERE [k] AND b.x > a.x WITHIN 9",
    "event_type": "kind",
    "order_by": "n",
    "strategy": "next",
}
RISES = {"query": ". up{2}", "define": {"up": "x > prev(x)"}, "partition_by": "k", "order_by": "n"}
ROWS = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY n MEASURES FIRST(n) AS begins, LAST(x) AS top
    PATTERN (S UP UP) DEFINE UP AS x > PREV(x))"""


OF_WINDOW = """PARTITION BY k ORDER BY n MEASURES FIRST(n) AS b ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING
    PATTERN (S UP) DEFINE UP AS x > PREV(x)"""


def check_sizes(session, frame: pd.DataFrame) -> None:
    """Compare three queries, a window and sessions over the same cached rows."""
    there = on_spark(session, frame).cache()
    try:
        for given in (SEQUENCE, RISES, {"query": ROWS}):
            same_rows(there.cep.match(**given).to_frame(), frame.cep.match(**given).to_frame())
        given = {"time": 20, "group_by": "k", "order_by": "n"}
        same_rows(there.cep.window({"s": "count()"}, **given), frame.cep.window({"s": "count()"}, **given))
        given = {"gap": 100, "partition_by": "k", "order_by": "n"}
        same_rows(there.cep.sessions(**given), frame.cep.sessions(**given))
    finally:
        there.unpersist()


def test_one_key_has_nearly_all_rows(session, monkeypatch):
    rng = np.random.default_rng(1)
    frame = of_keys(np.where(rng.random(20_000) < 0.99, 0, rng.integers(1, 50, 20_000)), 1)
    check_sizes(session, frame)
    there = on_spark(session, frame)
    assert there.cep.match(**RISES).count() == len(frame.cep.match(**RISES))  # too few rows for a warning
    monkeypatch.setattr("cepkit.results.spark_tasks.MANY_ROWS", 20_000)
    with pytest.warns(cep.CepWarning, match="spread_by='time' lets tasks share slices of time"):
        assert there.cep.match(**SEQUENCE).count() == there.cep.match(**SEQUENCE, spread_by="time").count()
    in_a_window = f"SELECT n, b OVER w FROM t WINDOW w AS ({OF_WINDOW})"
    for given in (RISES, {"query": ROWS}, {"query": in_a_window}):
        n = f"{(frame['k'] == 0).sum():,}"
        with pytest.warns(cep.CepWarning, match=f"the key k=0 has {n} of the 20,000 rows"):
            there.cep.match(**given).count()


@pytest.mark.slow
def test_many_small_groups(session):
    keys = np.random.default_rng(2).permutation(np.repeat(np.arange(100_000), 3))
    check_sizes(session, of_keys(keys, 2))


# --- time zones ---------------------------------------------------------------------------------------------

ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe"]  # the last one moves its clocks by half an hour
JUMPS = ["2026-03-08 06:30", "2026-11-01 05:00", "2026-10-03 14:00", "2026-04-04 14:00"]  # in UTC


def around_jumps(zone: str) -> pd.DataFrame:
    """Return times around the jumps of all zones, in one of them, and without a zone."""
    starts = [pd.Timestamp(text) for text in JUMPS]
    naive = pd.DatetimeIndex([start + pd.Timedelta(minutes=7 * i) for start in starts for i in range(30)])
    rng, n = np.random.default_rng(3), len(naive)
    return pd.DataFrame(
        {
            "ts": naive.tz_localize("UTC").tz_convert(zone).as_unit("us"), "local": naive.as_unit("us"),
            "day": naive.date, "n": np.arange(n), "k": rng.integers(0, 2, n), "x": rng.integers(0, 9, n),
            "kind": rng.choice(list("AB"), n),
        }
    )  # fmt: skip


def asked_of_times(frame, clock: str):
    """Yield the answers to questions about time."""
    by = {"partition_by": "k", "order_by": [clock, "n"]}
    told = {
        "first": f"first({clock})",
        "latest": f"max({clock})",
        "lasted": f"delta({clock})",
        "day": "max(day)",
    }
    after = "ts >= '2026-10-03 15:00:00+00:00'" if clock == "ts" else "local >= '2026-10-03 15:00:00'"
    up = {"up": f"x > prev(x) and {after}"}
    yield frame.cep.match(". up", define=up, within="15 min", measures=told, **by).to_frame()
    pairs = "PATTERN SEQ(A a, B b) WITHIN 30 min"
    yield frame.cep.match(pairs, event_type="kind", **by).to_frame()
    yield frame.cep.match(pairs, event_type="kind", order_by=[clock, "n"]).to_frame()  # in slices of time
    yield frame.cep.match(
        f"""MATCH_RECOGNIZE (PARTITION BY k ORDER BY {clock}, n MEASURES FIRST({clock}) AS f,
        MAP_AGG(n, {clock}) AS m, LAST({clock}) - FIRST({clock}) AS lasted PATTERN (A UP+)
        WITHIN INTERVAL '40' MINUTE DEFINE UP AS x > PREV(x))"""
    ).to_frame()
    yield frame.cep.window({"s": "sum(x)"}, time="1 hour", group_by="k", order_by=[clock, "n"])
    yield frame.cep.sessions(gap="10 min", **by)


@QUIET
@pytest.mark.parametrize("seed", seeds(1, 9))
@pytest.mark.parametrize("clock", ["ts", "local"])
def test_zones_of_the_frame_and_of_the_session_differ(session, seed, clock):
    zone, of_session = ZONES[seed // 3], ZONES[seed % 3]
    frame = around_jumps(zone)
    with setting(session, "spark.sql.session.timeZone", of_session):
        there = on_spark(session, frame)
        for found, wanted in zip(asked_of_times(there, clock), asked_of_times(frame, clock), strict=True):
            same_rows(found, wanted)
            of_type = dict(getattr(found, "dtypes", {})).get("latest", "")
            assert not of_type or of_type == {"ts": "timestamp", "local": "timestamp_ntz"}[clock]


def asked_of_clocks(frame):
    """Yield the answers to questions whose meaning depends on the zone of a clock."""
    late = {"late": "ts >= '2026-11-01 05:30' and hour(ts) < 8"}
    measures = {"day": "date(max(ts))", "hour": "hour(first(ts))"}
    yield frame.cep.match("late+", define=late, order_by="n", measures=measures).to_frame()
    pair = "PATTERN SEQ(A a, B b) WHERE b.ts >= '2026-11-01 05:30' AND hour(a.ts) < 8 WITHIN 30 min"
    yield frame.cep.match(pair, event_type="kind", partition_by="k", order_by=["ts", "n"]).to_frame()
    text = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, n MEASURES HOUR(ts) AS h,
        CAST(ts AS VARCHAR) AS shown PATTERN (A)
        DEFINE A AS ts >= TIMESTAMP '2026-11-01 05:30:00' AND ts < '2026-11-01 07:00')"""
    yield frame.cep.match(text).to_frame()
    early = {"time": "1 hour", "where": "hour(ts) < 6", "order_by": ["ts", "n"]}
    yield frame.cep.window({"total": "sum(x)"}, **early)
    yield frame.cep.runs("ts < '2026-11-01 05:30'", partition_by="k", order_by=["ts", "n"])


@QUIET
def test_the_zone_of_the_session_decides_no_answer(session):
    """A time without an offset is in the zone of its column, and times of Spark are in UTC."""
    frame = around_jumps("UTC")
    with setting(session, "spark.sql.session.timeZone", "America/New_York"):
        there = on_spark(session, frame)
        for found, wanted in zip(asked_of_clocks(there), asked_of_clocks(frame), strict=True):
            same_rows(found, wanted)
        part, _ = part_of(there, [], ["n"])
        assert str(part["ts"].dt.tz) == "UTC"


# --- decimals -----------------------------------------------------------------------------------------------


def asked_of_decimals(frame):
    """Yield the answers to questions about keys and clocks that are equal as floats."""
    yield frame.cep.match(
        "a b", define={"a": "x < 9", "b": "x > prev(x)"}, partition_by="d", order_by="n"
    ).to_frame()
    yield frame.cep.match(
        "PATTERN SEQ(A a, B b)", event_type="kind", partition_by="k", order_by="d2"
    ).to_frame()
    yield frame.cep.match(
        """MATCH_RECOGNIZE (PARTITION BY k ORDER BY d2 DESC MEASURES FIRST(n) AS f, LAST(n) AS l
        PATTERN (A B) DEFINE B AS x > PREV(x))"""
    ).to_frame()
    yield frame.cep.window({"total": "sum(x)"}, time=1, group_by="d", order_by="n")


@QUIET
def test_decimals_are_keys_and_clocks_exactly(session):
    rng, n = np.random.default_rng(4), 40
    columns = {"n": np.arange(n), "k": rng.integers(0, 2, n), "x": rng.integers(0, 9, n)}
    columns["kind"] = rng.choice(list("AB"), n)
    digits = {"d": [int(i) % 3 for i in range(n)], "d2": rng.permutation(n).tolist()}
    as_floats, exact = pd.DataFrame(columns | digits), pa.table(columns)
    for name, numbers in digits.items():
        values = [Decimal("12000000000000000000") + Decimal(i) / 10_000 for i in numbers]
        exact = exact.append_column(name, pa.array(values, pa.decimal128(38, 4)))
    in_memory = exact.to_pandas(types_mapper=pd.ArrowDtype)
    frames = (as_floats, in_memory, from_arrow(session, exact))
    for wanted, here, there in zip(*map(asked_of_decimals, frames), strict=True):
        same_rows(there, here)
        shown = [name for name in here.columns if name not in ("d", "first_d2", "a_d2", "b_d2", "d2")]
        same_rows(here[shown], wanted[shown])


# --- dead workers and executors -----------------------------------------------------------------------------


def test_a_dead_worker_is_said_in_local_mode(session):
    @cep.pure(name="dies_on_spark")
    def dies(x):
        os.kill(os.getpid(), signal.SIGKILL)

    frame = on_spark(session, of_keys(np.zeros(50, int), 1))
    found = frame.cep.match("dead", define={"dead": "dies_on_spark(x)"}, partition_by="k", order_by="n")
    with pytest.raises(CepError, match="a Python worker of Spark died in the middle of a task"):
        found.count()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(2))
def test_executors_die_while_they_work(seed, tmp_path, full):
    """A cluster of two executors: dead workers and executors change no answer."""
    root = Path(__file__).resolve().parents[2]
    command = [
        sys.executable,
        "-m",
        "tests.support.cluster_job",
        str(tmp_path),
        str(seed),
        "25" if full else "3",
    ]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=1500)
    print(run.stdout)
    assert "the same with a dead worker and a dead executor" in run.stdout, run.stderr[-4000:]
    assert "all answers are the same with" in run.stdout, run.stdout + run.stderr[-4000:]
