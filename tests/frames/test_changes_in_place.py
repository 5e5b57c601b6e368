"""A frame that its user changes in place between two equal queries: the answer is always that of now."""

from __future__ import annotations

import warnings
from copy import deepcopy
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.frames import reuse
from tests.support.sizes import seeds

pytestmark = pytest.mark.filterwarnings("ignore::cepkit.CepWarning", "ignore:The inplace keyword")


@pytest.fixture(autouse=True)
def _small_frames_count(monkeypatch):
    """Keep what is prepared for frames of any size, and begin without any."""
    monkeypatch.setattr(reuse, "FEWEST_ROWS", 1)
    reuse.forget_all()


# --- columns

ARROW_DECIMAL, ARROW_TEXT = pd.ArrowDtype(pa.decimal128(12, 2)), pd.ArrowDtype(pa.string())
PRICES = [
    "objects",
    ARROW_DECIMAL,
    "float64",
    "int64",
    "Int64",
    "Float64",
    "int32",
    pd.ArrowDtype(pa.int64()),
]
TEXTS = [object, "str", ARROW_TEXT, "category", "string"]
TIMES = ["int64", "datetime64[s]", "datetime64[ns, UTC]", "float64", pd.ArrowDtype(pa.timestamp("s"))]
KEYS = [*TEXTS, "int64", "int8", "bool", "Int64"]
FLAGS = ["bool", "boolean", object, pd.ArrowDtype(pa.bool_())]


def some(rng, items):
    return items[int(rng.integers(len(items)))]


def prices(rng, n, dtype):
    cents = rng.integers(1, 9, n) * 25
    if dtype in ("objects", ARROW_DECIMAL):
        values = [Decimal(int(x)) / 100 for x in cents]
        return pd.Series(values, dtype=object if dtype == "objects" else dtype)
    whole = str(dtype).lower().startswith("int")
    return pd.Series(cents if whole else cents / 100).astype(dtype)


def texts(rng, n, dtype, choices=("A", "B", "C")):
    values = pd.Series([some(rng, choices) for _ in range(n)], dtype=object)
    if dtype == "category":
        return values.astype(pd.CategoricalDtype([*choices, "D"]))
    return values.astype(dtype)


def times(rng, n, dtype):
    ticks = pd.Series(np.cumsum(rng.integers(0, 3, n)) if rng.integers(2) else rng.integers(0, 2 * n, n))
    if dtype in ("int64", "float64"):
        return ticks.astype(dtype)
    moments = pd.to_datetime(ticks, unit="s")
    return moments.dt.tz_localize("UTC") if "UTC" in str(dtype) else moments.astype(dtype)


def keys(rng, n, dtype):
    if dtype in TEXTS:
        return texts(rng, n, dtype, ("x", "y", "z"))
    return pd.Series(rng.integers(0, 2 if dtype == "bool" else 3, n)).astype(dtype)


MAKERS = {
    "price": (prices, PRICES),
    "kind": (texts, TEXTS),
    "key": (keys, KEYS),
    "ts": (times, TIMES),
    "flag": (lambda rng, n, dtype: pd.Series(rng.integers(0, 2, n).astype(bool)).astype(dtype), FLAGS),
}


def column(rng, name, n):
    make, dtypes = MAKERS[name]
    return make(rng, n, some(rng, dtypes))


def random_frame(rng, n=24):
    frame = pd.DataFrame({name: column(rng, name, n) for name in MAKERS})
    if rng.integers(4) == 0:
        frame.index = pd.Index(rng.permutation(n), name="label")
    return frame


# --- changes


def other_value(rng, frame, name):
    """Return a value of a column, another one if there is one."""
    return frame[name].iloc[int(rng.integers(len(frame)))]


def by_loc(frame, rng, name):
    frame.loc[some(rng, frame.index), name] = other_value(rng, frame, name)


def by_iloc(frame, rng, name):
    frame.iloc[int(rng.integers(len(frame))), frame.columns.get_loc(name)] = other_value(rng, frame, name)


def by_at(frame, rng, name):
    frame.at[some(rng, frame.index), name] = other_value(rng, frame, name)


def by_iat(frame, rng, name):
    frame.iat[int(rng.integers(len(frame))), frame.columns.get_loc(name)] = other_value(rng, frame, name)


def by_array(frame, rng, name):
    frame[name].array[int(rng.integers(len(frame)))] = other_value(rng, frame, name)


def by_values(frame, rng, name):
    values = frame[name].values
    if isinstance(values, np.ndarray):
        values.flags.writeable = True  # pandas 3 forbids it, but users can
    values[int(rng.integers(len(frame)))] = other_value(rng, frame, name)


def by_slice(frame, rng, name):
    values = frame[name].iloc[:5].array[::-1]
    frame.iloc[:5, frame.columns.get_loc(name)] = values


def by_mask(frame, rng, name):
    frame.loc[rng.integers(0, 2, len(frame)).astype(bool), name] = other_value(rng, frame, name)


def by_column(frame, rng, name):
    fresh = column(rng, name, len(frame))
    fresh.index = frame.index
    frame[name] = fresh


def by_reversal(frame, rng, name):
    frame[name] = frame[name].array[::-1]


def by_pop(frame, rng, name):
    values = frame.pop(name)
    frame.insert(int(rng.integers(len(frame.columns) + 1)), name, values.array[rng.permutation(len(frame))])


def by_missing(frame, rng, name):
    if name in ("price", "kind", "key") and frame[name].dtype.kind not in "iub":
        frame.loc[some(rng, frame.index), name] = None


def by_update(frame, rng, name):
    frame.update(frame[[name]].iloc[::-1].set_axis(frame.index).iloc[:4])


def by_replace(frame, rng, name):
    frame[name] = frame[name].replace(other_value(rng, frame, name), other_value(rng, frame, name))


def by_sort(frame, rng, name):
    frame.sort_values(name, inplace=True, kind="stable", ascending=bool(rng.integers(2)))


def by_drop(frame, rng, name):
    if len(frame) > 8:
        frame.drop(index=[some(rng, frame.index)], inplace=True)


def by_row(frame, rng, name):
    frame.loc[max(frame.index) + 1] = frame.iloc[int(rng.integers(len(frame)))]


def by_reset(frame, rng, name):
    frame.reset_index(drop=True, inplace=True)


def by_columns(frame, rng, name):
    frame.columns = [*frame.columns[::-1]]
    frame.columns = [*frame.columns[::-1]]
    order = [*frame.columns]
    other = frame[order].copy()
    for each in order:
        del frame[each]
    for each in order[::-1]:
        frame[each] = other[each]


def by_dtype(frame, rng, name):
    dtypes = {"kind": TEXTS, "key": TEXTS, "ts": ["float64"], "price": ["float64", object]}.get(name)
    if dtypes and (name != "ts" or frame[name].dtype.kind in "if"):
        frame[name] = frame[name].astype(some(rng, dtypes))


def by_categories(frame, rng, name):
    if isinstance(frame[name].dtype, pd.CategoricalDtype):
        categories = frame[name].cat.categories
        frame[name] = frame[name].cat.rename_categories([*categories[1:], categories[0]])


CHANGES = [
    by_loc, by_iloc, by_at, by_iat, by_array, by_values, by_slice, by_mask, by_column, by_reversal, by_pop,
    by_missing, by_update, by_replace, by_sort, by_drop, by_row, by_reset, by_columns, by_dtype,
    by_categories,
]  # fmt: skip
OF_ALL_COLUMNS = [by_drop, by_row, by_reset, by_columns]


# --- queries

REGEX = {"up": "price > prev(price)", "down": "price < prev(price)"}
ORDERED = {"order_by": "ts"}
ROWS = """MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts
    MEASURES FIRST(a.price) AS low, LAST(b.price) AS high, COUNT(*) AS n, LAST(b.kind) AS kind
    PATTERN (a b+) DEFINE b AS price > PREV(price))"""
STEPS = ["kind == 'A'", "kind == 'B'", "price > 1"]
LAST = cep.Window(length=3)
MEASURES = {"low": "min(price)", "n": "count()", "last": "last(kind)"}


def events(frame, pattern, **keywords):
    return cep.match(frame, pattern, event_type="kind", **ORDERED, **keywords)


QUERIES = {
    "regex": lambda f: cep.match(
        f, ". up down", define=REGEX, partition_by="key", measures=MEASURES, **ORDERED
    ).to_frame(),
    "regex over all rows": lambda f: cep.match(f, "up+ down", define=REGEX, **ORDERED).to_frame(),
    "regex in the order of rows": lambda f: cep.match(
        f, "up+ low", define={**REGEX, "low": "price <= 0.75 and kind != 'A'"}
    ).to_frame(rows="all"),
    "regex of two keys": lambda f: cep.match(
        f, "on down", define={**REGEX, "on": "flag"}, partition_by=["key", "kind"], **ORDERED
    ).count(),
    "sequence": lambda f: events(f, "PATTERN SEQ(A a, B b, C c) WHERE [key] AND c.price > 1").to_frame(),
    "sequence of next events": lambda f: events(
        f, "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].price >= a.price", strategy="next"
    ).to_frame(rows="all"),
    "count of a sequence": lambda f: events(f, "PATTERN SEQ(A a, !B x, C c) WHERE [key]").count(),
    "rows of SQL": lambda f: cep.match(f, ROWS).to_frame(),
    "rows of SQL, latest first": lambda f: cep.match(
        f, ROWS.replace("ORDER BY ts", "ORDER BY ts DESC, kind")
    ).to_frame(),
    "tag": lambda f: cep.tag(f, "up down", define=REGEX, partition_by="key", **ORDERED),
    "window": lambda f: cep.window(
        f, {"total": "sum(price)", "n": "count()", "top": "max(price)"}, length=4, group_by="key", **ORDERED
    ),
    "join": lambda f: cep.join(f, f, left=LAST, right=LAST, on="key", **ORDERED),
    "runs": lambda f: cep.runs(f, "price > prev(price)", partition_by="key", **ORDERED),
    "runs by value": lambda f: cep.runs(f, by="kind", partition_by="key", **ORDERED),
    "sessions": lambda f: cep.sessions(
        f, gap="2 s" if "time" in str(getattr(f["ts"], "dtype", "")) else 2, partition_by="key", **ORDERED
    ),
    "funnel": lambda f: cep.funnel(f, STEPS, partition_by="key", **ORDERED).to_frame(),
}  # fmt: skip


def answer(query, frame):
    """Return the result of a query, or the text of its error."""
    try:
        return query(frame)
    except cep.CepError as error:
        return f"{type(error).__name__}: {error}"


def assert_same(answer, wanted):
    if isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(answer, wanted)
    else:
        assert answer == wanted


def fresh(frame):
    """Return the rows in columns of their own, so that nothing that is kept is theirs."""
    return pd.DataFrame(
        {name: pd.Series([*frame[name]], frame.index, frame[name].dtype) for name in frame}, frame.index
    )


def apply(change, frame, rng, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas warns of many ways
        change(frame, rng, name)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_each_column_changes_the_answers(change):
    rng = np.random.default_rng(0)
    queries = [QUERIES[name] for name in ("regex", "sequence", "rows of SQL")]
    for name, decimals in [*((name, "objects") for name in MAKERS), ("price", ARROW_DECIMAL)]:
        if change in OF_ALL_COLUMNS and name != "price":
            continue
        frame = random_frame(rng)
        frame["price"] = prices(rng, len(frame), decimals).set_axis(frame.index)
        changed = fresh(frame)
        apply(change, changed, deepcopy(rng), name)
        if changed.equals(frame):
            continue  # such as a change of categories in a column without any
        for query in queries:
            answer(query, frame)
        apply(change, frame, rng, name)
        copy = fresh(frame)
        for query in queries:
            assert_same(answer(query, frame), answer(query, copy))


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_a_changed_frame_gets_the_answer_of_now(seed):
    rng = np.random.default_rng(seed)
    frame = random_frame(rng)
    for _ in range(4):
        names = rng.permutation([*QUERIES])[:4]
        answers = [answer(QUERIES[name], frame) for name in names]
        for name, before in zip(names, answers, strict=True):
            assert_same(answer(QUERIES[name], frame), before)
        for _ in range(int(rng.integers(1, 4))):
            apply(some(rng, CHANGES), frame, rng, some(rng, [*MAKERS]))
        again = [answer(QUERIES[name], frame) for name in names]
        copy = fresh(frame)
        for name, now in zip(names, again, strict=True):
            assert_same(now, answer(QUERIES[name], copy))


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_index_gets_the_answer_of_now(seed):
    rng = np.random.default_rng(seed)
    frame = random_frame(rng)
    frame.index = pd.DatetimeIndex(times(rng, len(frame), "datetime64[s]"), name=some(rng, ["ts", "when"]))
    frame = frame.drop(columns="ts").rename_axis("ts")
    for _ in range(6):
        names = rng.permutation([name for name in QUERIES if name not in ("sessions", "join")])[:4]
        for name in names:
            answer(QUERIES[name], frame)
        match int(rng.integers(4)):
            case 0:
                frame.index = frame.index[rng.permutation(len(frame))]
            case 1:
                frame.index = frame.index + pd.Timedelta(seconds=int(rng.integers(1, 5)))
            case 2:
                apply(lambda frame, *_: frame.sort_index(inplace=True, kind="stable"), frame, rng, "ts")
            case 3:
                frame.index.name = some(rng, ["ts", "when"])
        for name in names:
            assert_same(answer(QUERIES[name], frame), answer(QUERIES[name], fresh(frame)))


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_polars_frame_gets_the_answer_of_now(seed):
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(seed)
    frame = polars.from_pandas(
        pd.DataFrame({
            "price": prices(rng, 24, some(rng, [ARROW_DECIMAL, "float64", "int64"])),
            "kind": texts(rng, 24, some(rng, ["str", "category"])),
            "key": keys(rng, 24, some(rng, ["str", "int64"])), "ts": times(rng, 24, "int64"),
            "flag": rng.integers(0, 2, 24).astype(bool),
        })
    )  # fmt: skip
    for _ in range(6):
        names = rng.permutation([*QUERIES])[:4]
        for name in names:
            answer(QUERIES[name], frame)
        name, i, k = some(rng, frame.columns), int(rng.integers(24)), int(rng.integers(24))
        match int(rng.integers(4)):
            case 0:
                frame[i, name] = frame[k, name]
            case 1:
                frame.replace_column(frame.columns.index(name), frame[name].reverse())
            case 2:
                frame.insert_column(int(rng.integers(5)), frame.drop_in_place(name).shuffle(seed=seed))
            case 3:
                frame.extend(frame[i : i + 1])
        for name in names:
            rows = polars.DataFrame(frame.to_dicts(), frame.schema)
            now, wanted = answer(QUERIES[name], frame), answer(QUERIES[name], rows)
            if isinstance(now, polars.DataFrame):
                now, wanted = now.to_dicts(), wanted.to_dicts()
            assert_same(now, wanted)


def test_a_changed_table_of_duckdb_gets_the_answer_of_now():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE events AS SELECT * FROM (VALUES (1.0, 'A', 'x', 0, true), "
        "(2, 'B', 'x', 1, true), (1, 'A', 'x', 2, true), (3, 'B', 'y', 3, true), (1, 'A', 'y', 4, true)) "
        "rows(price, kind, key, ts, flag)"
    )
    relation = connection.table("events")
    for change in ("kind = 'B' WHERE ts = 0", "price = price + ts", "key = 'x'", "ts = 9 - ts"):
        connection.execute(f"UPDATE events SET {change}")
        for query in QUERIES.values():
            now = answer(query, relation)
            wanted = answer(query, connection.sql("SELECT * FROM events").to_arrow_table())
            assert str(now) == str(wanted)
