"""Large results refuse with the figure before they die, and all of them can be written in constant memory."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cepkit as cep
from cepkit import limits
from cepkit.engines.counting import counts
from cepkit.errors import CepError, ResultTooLargeError, UnsupportedQueryError
from cepkit.progress import Cancellation, Cancelled, cancellable
from cepkit.results import in_memory as writing
from tests.support.sizes import seeds

PAIRS = "PATTERN SEQ(a x, b y)"
OPTIONS = {"event_type": "kind", "order_by": "ts"}


def pairs_frame(n: int) -> pd.DataFrame:
    """Return a frame with n² pairs. All of them end after the first half."""
    return pd.DataFrame({"kind": ["a"] * n + ["b"] * n, "ts": np.arange(2 * n), "v": np.arange(2 * n) % 7})


# --- sizes


def test_sizes_are_read_and_said():
    assert [limits.memory_limit_of(given) for given in ("2 GB", "1.5MiB", 10, None)] == [
        2 * 10**9, 3 << 19, 10, None
    ]  # fmt: skip
    assert limits.size_text(10**12) == "1.0 TB" and limits.size_text(10**40) == "10^28 TB"
    for wrong in ("2 apples", "GB", -1, 0, 2.5, True, "-1 GB"):
        with pytest.raises(CepError, match="give a size such as '2 GB'"):
            cep.match(pairs_frame(2), PAIRS, memory_limit=wrong, **OPTIONS)


def test_free_memory_is_that_of_the_smallest_bound(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   4000000 kB\n",
        "/proc/self/cgroup": "0::/jobs/one\n",
        "/sys/fs/cgroup/jobs/memory.max": "max\n",
        "/sys/fs/cgroup/jobs/memory.current": "77\n",
        "/sys/fs/cgroup/jobs/one/memory.max": "3000000000\n",
        "/sys/fs/cgroup/jobs/one/memory.current": "1000000000\n",
        "/sys/fs/cgroup/jobs/one/memory.stat": "anon 5\ninactive_file 500000000\n",
    }
    monkeypatch.setattr(limits, "_read", lambda path: files.get(path, ""))
    assert limits.free_memory() == 2_500_000_000
    files["/sys/fs/cgroup/jobs/one/memory.max"] = "max"
    assert limits.free_memory() == 4_096_000_000


# --- results that are refused


def test_a_frame_of_too_many_matches_is_refused_with_the_figure():
    matches = cep.match(pairs_frame(70_000), PAIRS, **OPTIONS)
    with pytest.raises(
        ResultTooLargeError, match=r"4,900,000,000 matches would take about 6\d\d GB; .*half"
    ) as error:
        matches.to_frame(limit=None)
    assert "write_parquet()" in str(error.value)
    with pytest.raises(ResultTooLargeError, match="write all of them with write_parquet"):
        matches.to_frame()


@pytest.mark.parametrize(
    ("call", "query"),
    [
        (lambda m: m.to_frame(limit=None), PAIRS),
        (lambda m: m.to_frame("all", limit=None), PAIRS),
        (lambda m: m.lineage(limit=None), PAIRS),
        (lambda m: m[:2500].to_frame("all"), PAIRS),
        # Conditions on events that are not neighbours are searched, and a loop has any number of events.
        (lambda m: m.to_frame(limit=None), "PATTERN SEQ(a x, a y, b z) WHERE x.v + y.v = z.v"),
        (
            lambda m: m.to_frame(limit=None),
            "PATTERN SEQ(a x, a+ y[], b z) WHERE y[i].v > y[i-1].v AND x.v < 1 WITHIN 24",
        ),
    ],
)
def test_a_result_keeps_the_limit_of_its_call(call, query):
    frame = pairs_frame(60).assign(kind=list("ab") * 60)
    matches = cep.match(frame, query, memory_limit="150 kB", **OPTIONS)
    assert matches.count() > 1500
    assert len(matches.head(3)) == 3
    with pytest.raises(ResultTooLargeError, match=r"memory_limit is 150 kB\. Take a part"):
        call(matches)
    assert len(call(cep.match(frame, query, memory_limit=None, **OPTIONS))) > 1500


def test_a_search_stops_while_it_collects(monkeypatch):
    """The figure is not known before: a loop has any number of events."""
    looked_at = []
    monkeypatch.setattr(limits.MemoryBudget, "check", lambda *given, **more: looked_at.append(given[1]))
    monkeypatch.setattr("cepkit.engines.counting.walking.MATCHES_PER_BLOCK", 16)
    matches = cep.match(pairs_frame(10), "PATTERN SEQ(a+ x[], b y) WHERE x[i].v > x[i-1].v", **OPTIONS)
    matches.to_frame(limit=None)
    assert len(looked_at) > 3 and looked_at[1:] == sorted(looked_at[1:])


def test_policies_and_row_patterns_and_joins_have_limits():
    frame = pairs_frame(40)
    with pytest.raises(ResultTooLargeError, match="Narrow the window"):
        # A short search would keep a few matches without compiling a walk.
        cep.match(pairs_frame(400), PAIRS, after_match="past_last", memory_limit="1 MB", **OPTIONS)
    text = """MATCH_RECOGNIZE (ORDER BY ts ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A{1,5})
        DEFINE A AS v >= 0)"""
    many = pd.concat([frame] * 30, ignore_index=True).assign(ts=range(2400))  # few rows are matched by Python
    with pytest.raises(ResultTooLargeError, match="SKIP PAST LAST ROW"):
        cep.match(many, text, memory_limit="20 kB")
    measures = ", ".join(f"A.v AS v{i}" for i in range(20))
    wide_text = text.replace("ALL ROWS", f"MEASURES {measures} ALL ROWS")
    rows = cep.match(many, wide_text, memory_limit="1.5 MB")
    with pytest.raises(ResultTooLargeError, match="SKIP PAST LAST ROW"):
        rows.to_frame()
    wide = cep.Window(length=80)
    with pytest.raises(
        ResultTooLargeError, match=r"[\d,]+ pairs would take about .* kB; .*Make the windows shorter"
    ):
        cep.join(frame, frame, left=wide, right=wide, order_by="ts", memory_limit="100 kB")


LABELLED = """MATCH_RECOGNIZE (ORDER BY ts {rows} AFTER MATCH SKIP TO NEXT ROW PATTERN (A+)
    DEFINE A AS v >= 0 AND STDDEV_POP(A.v) >= 0)"""


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
def test_matches_that_python_searches_have_a_limit(rows):
    frame, text = pairs_frame(150), LABELLED.format(rows=rows)
    with pytest.raises(
        ResultTooLargeError, match=r"the matches.* already take about 10\d kB; memory_limit is 100 kB"
    ):
        cep.match(frame, text, memory_limit="100 kB")
    with pytest.raises(ResultTooLargeError, match="SKIP PAST LAST ROW"):
        cep.sql(f"SELECT * FROM t {text}", t=frame, memory_limit="100 kB")
    assert cep.sql(f"SELECT * FROM t {text}", t=frame, memory_limit="100 MB").count() == 300


def test_matches_of_several_partitions_count_together():
    frame = pairs_frame(150).assign(key=np.arange(300) % 10)
    text = LABELLED.format(rows="ONE ROW PER MATCH").replace("ORDER BY", "PARTITION BY key ORDER BY")
    assert cep.match(frame, text, memory_limit="100 kB").count() == 300
    with pytest.raises(ResultTooLargeError, match="the matches already take"):
        cep.match(frame, text, memory_limit="60 kB")


def test_a_window_of_row_patterns_has_a_limit():
    text = """SELECT COUNT(*) OVER w AS n FROM t WINDOW w AS (ORDER BY ts
        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING AFTER MATCH SKIP TO NEXT ROW PATTERN (A+)
        DEFINE A AS v >= 0)"""
    assert cep.sql(text, t=pairs_frame(150)).count() == 300
    with pytest.raises(ResultTooLargeError, match="Narrow the frame of the WINDOW"):
        cep.sql(text, t=pairs_frame(150), memory_limit="100 kB")


def test_siddhi_has_a_limit():
    text = "from every a=T[kind == 'a'] -> every b=T[kind == 'b'] select a.ts as a, b.ts as b insert into Out"
    n = cep.siddhi(text, T=pairs_frame(40), order_by="ts").count()
    with pytest.raises(ResultTooLargeError, match=r"the rows of the results already take .*Narrow the cond"):
        cep.siddhi(text, T=pairs_frame(40), order_by="ts", memory_limit=n * 100)


@pytest.mark.parametrize("call", [cep.sql, cep.siddhi])
def test_wrong_limits_are_refused_first(call):
    text = "from T select v insert into B" if call is cep.siddhi else "SELECT * FROM T " + LABELLED
    with pytest.raises(CepError, match="give a size such as '2 GB'"):
        call(text.format(rows=""), T=pairs_frame(2), memory_limit="2 apples")


@pytest.mark.parametrize("rows", ["one", "all"])
@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_rows_of_match_recognize_are_written(rows, kind, tmp_path):
    frame = pairs_frame(4).assign(
        day=pd.Timestamp("2026-01-01", tz="Europe/Berlin"), maybe=pd.array([1, None] * 4)
    )
    frame = pa.Table.from_pandas(frame, preserve_index=False) if kind == "arrow" else frame
    found = cep.match(frame, """MATCH_RECOGNIZE (PARTITION BY kind ORDER BY ts MEASURES FIRST(A.day) AS day,
        LAST(A.maybe) AS maybe, A.kind AS label PATTERN (A B) DEFINE B AS v > A.v)""")  # fmt: skip
    path = tmp_path / "rows.parquet"
    wanted = found.to_frame(rows)
    wanted = pa.Table.from_pandas(wanted, preserve_index=False) if kind == "pandas" else wanted
    assert found.write_parquet(path, rows) == len(wanted) > 1
    assert pq.read_table(path).to_pylist() == wanted.to_pylist()
    assert pq.read_schema(path).names == wanted.schema.names
    with pytest.raises(CepError, match="exists already"):
        found.write_parquet(path)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]


# --- numbers of a million bits


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize(
    "query",
    [
        "PATTERN SEQ(a+ x[])",
        "PATTERN SEQ(a x, b+ y[], a z)",
        "PATTERN SEQ(a+ x[], b+ y[]) WITHIN 9",
        "PATTERN SEQ(a x, b+ y[]) WHERE y[i].v > y[i-1].v",
        "PATTERN SEQ(a+ x[], b y) WITHIN 12 EVENTS",
    ],
)
def test_totals_of_long_numbers_equal_the_sum_of_all_numbers(query, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n = 150
    frame = pd.DataFrame({"kind": rng.choice(["a", "b"], n), "ts": np.arange(n), "v": rng.permutation(n)})
    wanted = cep.match(frame, query, **OPTIONS).count()
    monkeypatch.setattr(counts, "_MUCH", 0)
    matches = cep.match(frame, query, **OPTIONS)
    assert matches.count() == wanted
    assert bool(matches) == (wanted > 0)
    first = cep.match(frame, query, memory_limit=None, **OPTIONS).head(5)
    pd.testing.assert_frame_equal(matches.head(5), first)
    assert sum(map(int, matches.count_by_last()["count"])) == wanted


def test_the_count_of_many_independent_events_takes_little_memory(monkeypatch):
    monkeypatch.setattr(counts, "_MUCH", 1 << 20)
    n = 30_000
    matches = cep.match(
        pd.DataFrame({"kind": ["a"] * n}), "PATTERN SEQ(a+ x[])", event_type="kind", memory_limit=10**7
    )
    total = matches.count()  # the numbers of all events have 56 MB
    assert total == 2**n - 1
    assert len(matches.head(4)) == 4
    assert "matches of" in repr(matches)
    for call in (matches.count_by_last, lambda: matches.sample(3)):
        with pytest.raises(
            ResultTooLargeError, match="exact numbers of matches by their last events would take"
        ):
            call()


# --- files


@pytest.mark.parametrize("rows", ["one", "all"])
@pytest.mark.parametrize("kind", ["pandas", "arrow"])
@pytest.mark.parametrize(
    "query", [PAIRS, "PATTERN SEQ(a x, a y, b z) WHERE x.v + y.v = z.v", "PATTERN SEQ(a x, b+ y[])", "."]
)
def test_a_file_has_the_rows_of_the_frame(query, kind, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_IN_GROUP", 7)
    frame = pairs_frame(6).assign(
        text=[None, "x"] * 6, day=pd.date_range("2024-01-01", periods=12, tz="Europe/Berlin"),
        of=pd.Categorical(list("uvw") * 4), maybe=pd.array([1, None, 3] * 4, "Int64"),
    )  # fmt: skip
    given = {
        **OPTIONS,
        "measures": {"text": "first(text)", "day": "last(day)", "of": "last(of)", "n": "count()"},
    }
    if query.startswith("PATTERN"):
        given["measures"] = {
            "text": "first(x.text)",
            "day": "first(x.day)",
            "of": "first(x.of)",
            "m": "max(x.maybe)",
        }
    else:
        given = {"order_by": "ts", "measures": given["measures"]}
    frame = pa.Table.from_pandas(frame, preserve_index=False) if kind == "arrow" else frame
    matches = cep.match(frame, query, **given)
    path = tmp_path / "matches.parquet"
    wanted = matches.to_frame(rows)
    wanted = wanted.to_pandas() if kind == "arrow" else wanted.reset_index(drop=True)
    assert matches.write_parquet(path, rows) == len(wanted)
    found = pq.read_table(path).to_pandas()
    assert list(found.columns) == list(wanted.columns)
    for name in wanted:
        own, other = found[name].astype(object), wanted[name].astype(object)
        assert [None if x is None or x != x or x is pd.NA else x for x in own] == [
            None if x is None or x is pd.NA or x != x else x for x in other
        ], name
    assert pq.ParquetFile(path).num_row_groups > 1 or len(wanted) <= 12
    assert [file.name for file in tmp_path.iterdir()] == ["matches.parquet"]


def test_a_file_without_matches_has_columns(tmp_path):
    matches = cep.match(pairs_frame(2), "PATTERN SEQ(b x, a y)", **OPTIONS)
    assert matches.write_parquet(tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").schema.names == ["x_ts", "y_ts"]


def test_a_file_is_replaced_only_on_request_and_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_IN_GROUP", 5)
    matches, path = cep.match(pairs_frame(5), PAIRS, **OPTIONS), tmp_path / "matches.parquet"
    path.write_text("mine")
    with pytest.raises(CepError, match="exists already; give another name, or overwrite=True"):
        matches.write_parquet(path)
    with pytest.raises(CepError, match="is a folder; give the name of a file"):
        matches.write_parquet(tmp_path)
    with pytest.raises(CepError, match="the folder does not exist"):
        matches.write_parquet(tmp_path / "no" / "matches.parquet")
    work, whole = Cancellation(), type(matches._found.whole)
    blocks = whole.blocks

    def cancelled(self, size):
        for number, block in enumerate(blocks(self, size)):
            if number == 2:
                work.cancel()
            yield block

    with monkeypatch.context() as patch, pytest.raises(Cancelled), cancellable(work):
        patch.setattr(whole, "blocks", cancelled)
        matches.write_parquet(path, overwrite=True)
    assert path.read_text() == "mine" and [file.name for file in tmp_path.iterdir()] == ["matches.parquet"]
    assert matches.write_parquet(path, overwrite=True) == 25
    assert len(pq.read_table(path)) == 25


@pytest.mark.parametrize("query", [PAIRS, "PATTERN SEQ(a x, b+ y[])", ". high"])
def test_blocks_leave_nothing_for_the_collector_of_garbage(query, monkeypatch):
    """A cycle of references keeps a block in memory until Python looks for garbage, perhaps much later."""
    options = {"order_by": "ts", "define": {"high": "v > 2"}, "measures": {"n": "count()", "top": "max(v)"}}
    if query.startswith("PATTERN"):
        options = {**OPTIONS, "measures": {"n": "count(y)", "top": "max(y.v)", "first": "first(x.v)"}}
    monkeypatch.setattr(writing, "_IN_GROUP", 1)
    matches = cep.match(pairs_frame(9), query, **options)
    tables = matches._found.tables("one")
    next(tables), next(tables)
    gc.collect()
    gc.freeze()  # nobody looks at older objects again, which takes long
    gc.disable()
    try:
        next(tables), next(tables)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_very_many_matches_are_written_in_constant_memory(tmp_path):
    """The memory of Arrow and of numpy together, for a million and for ten million matches."""
    import tracemalloc

    peaks = []
    for n in (1000, 3200):
        matches = cep.match(pairs_frame(n), PAIRS, **OPTIONS)
        matches.count()
        path = tmp_path / f"{n}.parquet"
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        assert matches.write_parquet(path) == n * n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert pa.total_allocated_bytes() - before < 32 << 20
        assert pq.ParquetFile(path).metadata.num_rows == n * n
    assert peaks[1] < 1.2 * peaks[0] + (8 << 20), peaks


@pytest.mark.spark
def test_spark_writes_by_its_tasks(spark, tmp_path):
    frame = spark.createDataFrame(pairs_frame(2))
    matches = cep.match(frame, f"{PAIRS} WITHIN 9", **OPTIONS)
    with pytest.raises(UnsupportedQueryError, match=r"matches\.to_frame\(\)\.write\.parquet\(path\)"):
        matches.write_parquet(tmp_path / "x")
    with pytest.raises(UnsupportedQueryError, match=r"spark\.executor\.memory"):
        cep.match(frame, PAIRS, memory_limit="1 GB", **OPTIONS)


# --- parts of a result

HUGE = "PATTERN SEQ(a x, b+ y[], c z)"  # 2^80 - 1 matches in the frame below, none of them built


def huge(limit: str) -> cep.Matches:
    frame = pd.DataFrame({"kind": list("a" + "b" * 80 + "c"), "ts": range(82)})
    return cep.match(frame, HUGE, memory_limit=limit, **OPTIONS)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.head(10**9),
        lambda m: m.head(10**30),
        lambda m: m.sample(10**9),
        lambda m: m.sample(10**30),
        lambda m: m.take(range(10**9)),
        lambda m: m.take(range(10**20)),
        lambda m: m.take(np.zeros(10**7, np.int8)),  # the same match many times
        lambda m: m.take(iter(range(10**9))),
    ],
)
def test_a_part_keeps_the_limit_before_it_is_built(call, monkeypatch):
    monkeypatch.setattr("cepkit.engines.counting.walking.PathWalk.take", None)
    monkeypatch.setattr("cepkit.engines.counting.walking.PathWalk.blocks", None)
    with pytest.raises(ResultTooLargeError, match=r"would take about .*; memory_limit is 100 MB\. Take"):
        call(huge("100 MB"))


def test_a_part_of_a_small_result_is_all_of_it():
    matches = cep.match(pairs_frame(3), PAIRS, memory_limit="100 kB", **OPTIONS)
    assert len(matches.head(10**30)) == len(matches.sample(10**9)) == 9
    assert len(matches.take(iter([0, -1]))) == 2


@pytest.mark.parametrize(
    "call", [lambda m: m.head(10_000), lambda m: m.take(range(10_000)), lambda m: m.sample(10_000)]
)
def test_long_matches_are_refused_while_they_are_collected(call, monkeypatch):
    """A match has three events at least, and some forty here: the figure before is too low."""
    monkeypatch.setattr("cepkit.results.in_memory.FoundMatches._check_building", lambda *given, **more: None)
    with pytest.raises(ResultTooLargeError, match="already take about"):
        call(huge("1 MB"))
