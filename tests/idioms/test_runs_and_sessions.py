"""Runs and sessions equal the oracle on random rows, on every kind of frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.compile import regex_program as program
from cepkit.errors import CepError, ColumnNotFoundError, OrderError, UnsupportedQueryError
from tests.oracle import idioms as oracle
from tests.support.spark_cases import plain, rows_of

# Conditions as text, and as functions of the rows of the partition and the place of the row.
CONDITIONS = {
    "price > prev(price)": lambda rows, i: _above(rows, i, 1),
    "price > prev(price, 2)": lambda rows, i: _above(rows, i, 2),
    "price > 2": lambda rows, i: None if rows[i]["price"] is None else rows[i]["price"] > 2,
    "price is null": lambda rows, i: rows[i]["price"] is None,
    "kind == 'a' or price < 1": lambda rows, i: _either(rows[i]),
}


def _above(rows, i, offset):
    if i < offset or rows[i]["price"] is None or rows[i - offset]["price"] is None:
        return None
    return rows[i]["price"] > rows[i - offset]["price"]


def _either(row):
    return row["kind"] == "a" or (row["price"] is not None and row["price"] < 1)


def random_frame(rng: np.random.Generator, n: int) -> pd.DataFrame:
    price = rng.integers(0, 5, n).astype(float)
    price[rng.random(n) < 0.15] = np.nan
    return pd.DataFrame(
        {
            "key": rng.choice(["x", "y", "z"], n),
            "kind": rng.choice(["a", "b"], n),
            "price": price,
            "ts": rng.permutation(3 * n)[:n] if n else np.empty(0, np.int64),
        },
        index=pd.Index(np.arange(n) * 10, name="label"),
    )


def as_rows(frame: pd.DataFrame) -> list[dict]:
    return [dict(zip(frame.columns, map(plain, row), strict=True)) for row in frame.itertuples(index=False)]


def expected(groups, rows, order, noun, key):
    """Return the rows of the result, in the order of the last rows of the groups."""
    stream = [i for own in oracle.partitions(rows, None, order).values() for i in own]
    place = {row: position for position, row in enumerate(stream)}
    made = []
    for group in sorted(groups, key=lambda group: place[group.rows[-1]]):
        ends = [group.rows[0], group.rows[-1]]
        start, end = (rows[i][order] if order else place[i] for i in ends)
        prices = [rows[i]["price"] for i in group.rows if rows[i]["price"] is not None]
        made.append(
            ((group.key,) if key else ())
            + (group.number, start, end, len(group.rows), max(prices, default=None))
        )
    names = [*([key] if key else []), noun, "start", "end", "length", "top"]
    return names, made


def frames_of(frame: pd.DataFrame):
    polars = pytest.importorskip("polars")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return [frame, table, polars.from_arrow(table)]


@pytest.mark.parametrize("seed", range(12))
def test_runs_and_sessions_equal_the_oracle(seed, full):
    for case in range(100 if full else 8):
        rng = np.random.default_rng([seed, case])
        frame = random_frame(rng, int(rng.integers(1, 14)))
        rows = as_rows(frame)
        key = "key" if rng.random() < 0.7 else None
        order = "ts" if rng.random() < 0.7 else None
        settings = {"partition_by": key, "order_by": order, "measures": {"top": "max(price)"}}
        text = str(rng.choice(list(CONDITIONS)))
        groups = oracle.runs(rows, CONDITIONS[text], key, order)
        kind = frames_of(frame)[int(rng.integers(3))]
        found = cep.runs(kind, text, **settings)
        assert type(found) is type(kind)
        assert rows_of(found) == expected(groups, rows, order, "run", key), (text, settings)
        tagged = cep.runs(kind, text, partition_by=key, order_by=order, rows="all")
        check_numbers(tagged, "run", groups, rows)
        gap = int(rng.integers(0, 6))
        groups = oracle.sessions(rows, gap, key, "ts")
        settings["order_by"] = "ts"
        found = cep.sessions(kind, gap=gap, **settings)
        assert rows_of(found) == expected(groups, rows, "ts", "session", key), (gap, settings)
        tagged = cep.sessions(kind, gap=gap, partition_by=key, order_by="ts", rows="all")
        check_numbers(tagged, "session", groups, rows)


def check_numbers(tagged, noun, groups, rows):
    """Compare the numbers of rows; everything else is the frame itself."""
    number = {i: group.number for group in groups for i in group.rows}
    names, found = rows_of(tagged)
    assert names == [*rows[0], noun]
    assert found == [(*row.values(), number.get(i)) for i, row in enumerate(rows)]


def test_runs_and_sessions_on_spark_equal_pandas(spark, full):
    rng = np.random.default_rng(5)
    cases = range(5000 if full else 40)
    frame = pd.concat([random_frame(rng, 12).assign(case=case) for case in cases], ignore_index=True)
    frame["ts"] = pd.Timestamp("2024-01-31") + pd.to_timedelta(frame["ts"], unit="min")
    shuffled = frame.iloc[rng.permutation(len(frame))].replace({np.nan: None})
    on_spark = spark.createDataFrame(shuffled.astype({"key": object, "kind": object}))
    settings = {"partition_by": ["case", "key"], "order_by": "ts"}
    measures = {"top": "max(price)"}
    for call in (
        lambda of, **more: cep.runs(of, "price > prev(price)", **settings, **more),
        lambda of, **more: cep.sessions(of, gap="5 min", **settings, **more),
    ):
        for more in ({"measures": measures}, {"rows": "all"}):
            lazy = call(on_spark, **more)
            assert type(lazy) is type(on_spark)
            names, found = rows_of(lazy)
            wanted_names, wanted = rows_of(call(frame, **more))
            assert names == wanted_names
            assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_runs_on_spark_need_an_order(spark):
    frame = spark.createDataFrame([("x", 1.0), ("x", 2.0)], "key string, price double")
    with pytest.raises(OrderError, match="order_by is missing"):
        cep.runs(frame, "price > 1", partition_by="key")


def test_pandas_own_idiom_for_runs_gives_the_same():
    frame = random_frame(np.random.default_rng(3), 50).sort_values("ts")
    holds = frame.price > frame.groupby("key").price.shift()
    number = (holds & ~holds.groupby(frame.key).shift(fill_value=False)).groupby(frame.key).cumsum()
    found = cep.runs(frame, "price > prev(price)", partition_by="key", order_by="ts", rows="all")
    assert found["run"].tolist() == number.where(holds).astype("Int64").tolist()


@pytest.mark.parametrize("seed", range(6))
def test_sessions_by_any_clock_equal_the_oracle(seed):
    """Clocks of whole numbers up to the borders of 64 bits, of floats with infinities, many partitions."""
    rng = np.random.default_rng([seed, 29])
    for _ in range(40):
        n = int(rng.integers(1, 40))
        if rng.random() < 0.5:
            border = int(rng.choice([20, 2**62, 2**63 - 3]))
            clock = rng.integers(-border, border, n)
            gap = int(rng.choice([0, 3, border // 2, border, 2**63 - 1]))
        else:
            clock = rng.choice([-1e300, -2.5, 0.0, 0.5, 1e-3, 7.25, 1e300], n) * rng.random(n).round(1)
            gap = int(rng.choice([0, 1, 3, 2**62]))
        frame = pd.DataFrame({"key": rng.integers(0, int(rng.choice([1, 3, 30])), n), "ts": clock})
        rows, key = as_rows(frame), "key" if rng.random() < 0.8 else None
        groups = oracle.sessions(rows, gap, key, "ts")
        found = cep.sessions(frame, gap=gap, partition_by=key, order_by="ts", rows="all")
        check_numbers(found, "session", groups, rows)
        found = cep.sessions(frame, gap=gap, partition_by=key, order_by="ts")
        assert found["length"].tolist() == [len(group.rows) for group in by_last_row(groups, rows, "ts")]


def by_last_row(groups, rows, order):
    place = {i: at for at, i in enumerate(sorted(range(len(rows)), key=lambda i: rows[i][order]))}
    return sorted(groups, key=lambda group: place[group.rows[-1]])


def test_times_on_the_index_are_the_clock():
    index = pd.to_datetime(["2024-01-31 09:00", "2024-01-31 09:29", "2024-01-31 10:00"])
    frame = pd.DataFrame({"page": list("abc")}, index=index)
    found = frame.cep.sessions(gap="30 min", measures={"last": "last(page)"})
    assert found.values.tolist() == [[1, index[0], index[1], 2, "b"], [2, index[2], index[2], 1, "c"]]


def test_a_run_may_take_a_function_and_parameters():
    frame = pd.DataFrame({"price": [1.0, 5.0, 6.0, 2.0]})
    assert frame.cep.runs("price > :least", params={"least": 4})["length"].tolist() == [2]
    assert cep.runs(frame, "price > :least", params={"least": 4}, measures={"n": "count()"})[
        "n"
    ].tolist() == [2]


def test_equal_calls_compile_once(monkeypatch):
    compiled, before = [], program.compile_regex
    monkeypatch.setattr(program, "compile_regex", lambda *given: compiled.append(given) or before(*given))
    for price in ([1.0, 7.5, 8.5], [9.5, 0.5, 0.5]):
        compiled.clear()  # an earlier test may have asked for the same
        frame = pd.DataFrame({"price": price, "ts": [1, 5, 50]})
        found = cep.runs(frame, "price > 7.25", order_by="ts")
        assert found["length"].tolist() == [2 if price[0] == 1 else 1]
        assert len(cep.sessions(frame, gap=11, order_by="ts")) == 2
        assert len(cep.sessions(frame, gap=3, order_by="ts")) == 3
    assert not compiled


@pytest.mark.parametrize("rows", ["one", "all"])
def test_frames_without_rows(rows):
    frame = pd.DataFrame({"user": [], "ts": [], "price": []})
    assert len(cep.runs(frame, "price > 1", partition_by="user", rows=rows)) == 0
    assert len(cep.sessions(frame, gap="30 min", partition_by="user", order_by="ts", rows=rows)) == 0


def test_mistakes_are_said_at_once():
    frame = pd.DataFrame({"user": ["a"], "ts": [1], "price": [1.0], "run": [0]})
    with pytest.raises(UnsupportedQueryError, match=r"max\(price\) ranges over the rows of a match"):
        cep.runs(frame, "price > max(price)")
    with pytest.raises(ColumnNotFoundError, match="Did you mean 'price'"):
        cep.runs(frame, "prise > 1")
    with pytest.raises(CepError, match="column 'run'"):
        cep.runs(frame, "price > 1", rows="all")
    with pytest.raises(CepError, match="column 'run' already; rename that key or measure"):
        cep.runs(frame, "price > 1", partition_by="run")
    with pytest.raises(CepError, match="rows='some': 'one' for one row each, or 'all'"):
        cep.runs(frame, "price > 1", rows="some")
    with pytest.raises(CepError, match="gap='30 min' needs a clock"):
        cep.sessions(frame, gap="30 min")
    with pytest.raises(CepError, match="write gap=1800 if it counts seconds"):
        cep.sessions(frame, gap="30 min", order_by="ts")
    with pytest.raises(
        CepError, match=r"column 'user' is text; make times of it first: df\['user'\] = pd.to_d"
    ):
        cep.sessions(frame, gap="30 min", order_by="user")
    with pytest.raises(CepError, match=r"runs: 'user' is a column, not a condition; .* write by='user'"):
        cep.runs(frame, "user")
    assert len(cep.runs(frame.assign(flag=True), "flag")) == 1
    with pytest.raises(TypeError, match=r"keyword argument 'group_by'\. Did you mean 'partition_by'"):
        cep.sessions(frame, gap=5, group_by="user")
    with pytest.raises(TypeError, match="Did you mean 'partition_by'"):
        cep.sessions(frame, gap=5, partition="user")


# --- groups with several rules


def _random_calls(rng: np.random.Generator):
    """Return a call, and the oracle's settings for it."""
    key, gap, span = "key" if rng.random() < 0.7 else None, int(rng.integers(0, 6)), int(rng.integers(0, 9))
    text, start, end = rng.choice(list(CONDITIONS), 3)
    settings, wanted = {"order_by": "ts"}, {}
    which = rng.choice(["runs", "by", "sessions", "transaction"])
    if which in ("runs", "by"):
        call = cep.runs
        if which == "by" or rng.random() < 0.3:
            by = [["kind"], ["price"], ["kind", "price"]][rng.integers(3)]
            settings["by"], wanted["by"] = by[0] if len(by) == 1 else by, by
        if which == "runs":
            settings["condition"], wanted["holds"] = text, CONDITIONS[text]
            if "by" not in settings and rng.random() < 0.5:
                settings["from_row_before"] = wanted["from_row_before"] = True
        if rng.random() < 0.3:
            settings["gap"] = wanted["gap"] = gap
        if rng.random() < 0.3:
            settings["min_length"] = wanted["least"] = int(rng.integers(1, 4))
    else:
        call = getattr(cep, which)
        names = {"gap": "gap", "span": "max_span", "begins": "new"}
        if which == "transaction":
            names = {"gap": "max_pause", "span": "max_span", "begins": "starts_with", "ends": "ends_with"}
            key = "key"
        chosen = [rule for rule in names if rng.random() < 0.5] or ["span"]
        values = {"gap": gap, "span": span, "begins": CONDITIONS[start], "ends": CONDITIONS[end]}
        texts = {"begins": start, "ends": end}
        for rule in chosen:
            wanted[rule] = values[rule]
            settings[names[rule]] = texts.get(rule, values[rule])
        wanted["only_begun"] = which == "transaction" and "begins" in chosen
    settings["by" if which == "transaction" else "partition_by"] = key
    return call, which, key, settings, wanted


@pytest.mark.parametrize("seed", range(16))
def test_groups_by_any_rules_equal_the_oracle(seed, full):
    for case in range(320 if full else 20):
        rng = np.random.default_rng([seed, case, 31])
        frame = random_frame(rng, int(rng.integers(1, 14)))
        rows = as_rows(frame)
        call, which, key, settings, rules = _random_calls(rng)
        groups = oracle.groups(rows, key, "ts", **rules)
        kind = frames_of(frame)[int(rng.integers(3))]
        names, found = rows_of(call(kind, **settings))
        noun = {"sessions": "session", "transaction": "transaction"}.get(which, "run")
        columns = [*([key] if key else []), *rules.get("by", ()), noun, "start", "end", "length"]
        partitions = oracle.partitions(rows, key, "ts")
        after = {
            i: later for own in partitions.values() for i, later in zip(own, [*own[1:], None], strict=True)
        }
        wanted = []
        for group in groups:
            first, last = rows[group.rows[0]], rows[group.rows[-1]]
            row = [*([group.key] if key else []), *(last[name] for name in rules.get("by", ()))]
            row += [group.number, first["ts"], last["ts"], len(group.rows)]
            if "by" in rules:
                later = after[group.rows[-1]]
                row += [last["ts"] if later is None else rows[later]["ts"], later is None]
            if "ends" in rules:
                own = [rows[i] for i in partitions[group.key]]
                row.append(rules["ends"](own, partitions[group.key].index(group.rows[-1])) is True)
            wanted.append((last["ts"], tuple(row)))
        columns += ["until", "open"] if "by" in rules else []
        columns += ["closed"] if "ends" in rules else []
        assert names == columns
        assert found == [row for _, row in sorted(wanted, key=lambda pair: pair[0])], (which, settings)
        if not rules.get("from_row_before"):
            check_numbers(call(kind, rows="all", **settings), noun, groups, rows)


def test_groups_on_spark_equal_pandas(spark, full):
    rng = np.random.default_rng(6)
    cases = range(5000 if full else 30)
    frame = pd.concat([random_frame(rng, 12).assign(case=case) for case in cases], ignore_index=True)
    shuffled = frame.iloc[rng.permutation(len(frame))].replace({np.nan: None})
    on_spark = spark.createDataFrame(shuffled.astype({"key": object, "kind": object}))
    keys = {"partition_by": ["case", "key"], "order_by": "ts"}
    for call, settings in (
        (cep.runs, {"by": "kind", "min_length": 2, **keys}),
        (cep.sessions, {"max_span": 4, "new": "price > 3", "rows": "all", **keys}),
        (
            cep.transaction,
            {"by": ["case", "key"], "starts_with": "kind == 'a'", "ends_with": "price > :top",
             "params": {"top": 3}, "measures": {"low": "min(price)"}, "order_by": "ts"},
        ),
    ):  # fmt: skip
        names, found = rows_of(call(on_spark, **settings))
        wanted_names, wanted = rows_of(call(frame, **settings))
        assert names == wanted_names
        assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_runs_of_equal_values():
    frame = pd.DataFrame({"v": [2.0, 1, 1, 3, 3, 3, 4, 4, 4, 2, 3, 3, 1]})
    found = frame.cep.runs(by="v", min_length=2)
    assert found[["v", "start", "end", "length"]].values.tolist() == [
        [1, 1, 2, 2], [3, 3, 5, 3], [4, 6, 8, 3], [3, 10, 11, 2],
    ]  # fmt: skip
    assert frame.cep.runs("v = prev(v)", from_row_before=True, order_by=None)["length"].tolist() == [
        2,
        3,
        3,
        2,
    ]


def test_a_run_may_begin_with_the_last_row_of_another():
    frame = pd.DataFrame({"t": [0, 1, 9, 10], "x": [0, 1, 2, 3]})
    call = {"order_by": "t", "gap": 5, "from_row_before": True}
    found = cep.runs(frame, "x > prev(x)", **call)
    assert found[["start", "end", "length"]].values.tolist() == [[0, 1, 2], [1, 10, 3]]
    assert cep.runs(frame, "x > prev(x)", rows="all", **call)["run"].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda frame: cep.runs(frame), "give a condition on rows"),
        (lambda frame: cep.runs(frame, by="stat"), "by: column 'stat' not found. Did you mean 'state'"),
        (lambda frame: cep.runs(frame, by="state", from_row_before=True), "another value. Leave it out"),
        (lambda frame: cep.runs(frame, by="state", min_length=0), "min_length=0: expected a whole number"),
        (lambda frame: cep.runs(frame, by="state", gap="5 min", order_by="t"), "gap='5 min'"),
        (lambda frame: cep.sessions(frame, order_by="t"), "say where a session ends"),
        (lambda frame: cep.transaction(frame, by="state", order_by="t"), "say where one begins or ends"),
        (lambda frame: cep.sessions(frame, max_span=3), "max_span=3 needs a clock"),
        (
            lambda frame: cep.transaction(frame, ends_with="t > :a", params={"a": 1, "b": 2}),
            "'b' is used by no condition",
        ),
    ],
)
def test_rules_of_groups_that_do_not_fit(call, message):
    with pytest.raises(CepError, match=message):
        call(pd.DataFrame({"t": [1, 2], "state": ["a", "b"]}))
