"""What else one could do: the C twin, loops in Python, numpy with ``re``, queries in DuckDB and polars."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from cases import KEYED_WITHIN, LEAST_SIZE, NEXT_WITHIN, STEPS, WITHIN, Works

TWINS = ("finance0", "finance1")
Found = tuple[np.ndarray, np.ndarray]  # rows of the first and the last event of each match


@cache
def c_twin(source: str = "twin.c") -> ctypes.CDLL | None:
    """Compile and load a file in C; None without gcc. Its functions return integers."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "twin.so"
        file = Path(__file__).with_name(source)
        flags = "-O3", "-march=native", "-shared", "-fPIC"
        subprocess.run([compiler, *flags, file, "-o", library], check=True)
        return ctypes.CDLL(str(library))


def _twin(name: str, work: Callable[[Callable], object], label: str = "C twin") -> Works:
    """Return a work that calls a function in C, or none without gcc."""
    twin = c_twin("twin.c" if name in TWINS else "sequences.c")
    if twin is None:
        return {}
    function = getattr(twin, name)
    function.restype = ctypes.c_int64
    return {label: lambda: work(function)}


def call_twin(function: Callable, *arguments: np.ndarray | int | float) -> Found:
    """Call a function of the twin on arrays and numbers; the first array has the partitions."""
    n = len(arguments[0])
    first, last = np.empty(n, np.int64), np.empty(n, np.int64)
    native: list = [ctypes.c_int64(n)]
    for argument in (*arguments, first, last):
        if isinstance(argument, np.ndarray):
            native.append(argument.ctypes.data_as(ctypes.c_void_p))
        else:
            native.append(
                ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_int64(argument)
            )
    found = function(*native)
    if found < 0:
        raise RuntimeError("the twin's room for live starts is too small")
    return first[:found], last[:found]


def finance1_loop(frame: pd.DataFrame) -> Found:
    """The M-shape as a plain loop over rows: what one writes without a library, done right."""
    live_of: dict[object, list] = {}
    last_of: dict[object, int] = {}
    first, last = [], []
    # (state, next states by condition): 0 '.', 1 rise, 2 drop, 3 rise, 4 drop; deep ends the match
    for row, (symbol, price) in enumerate(
        zip(frame["symbol"].tolist(), frame["price"].tolist(), strict=True)
    ):
        before = last_of.get(symbol)
        last_of[symbol] = price
        live = live_of.get(symbol)
        if live is None:
            live_of[symbol] = [(row, price, {0})]
            continue
        rises, kept, end = price >= before, [], None
        for start, first_price, states in live:
            rise = rises and price > first_price
            drop = not rises and price >= first_price
            deep = not rises and price < first_price
            if deep and (3 in states or 4 in states):
                end = start
                break
            reached = set()
            if rise:
                if 0 in states or 1 in states:
                    reached.add(1)
                if 2 in states or 3 in states:
                    reached.add(3)
            if drop:
                if 1 in states or 2 in states:
                    reached.add(2)
                if 3 in states or 4 in states:
                    reached.add(4)
            if reached:
                kept.append((start, first_price, reached))
        if end is None:
            kept.append((row, price, {0}))
            live_of[symbol] = kept
        else:
            first.append(end)
            last.append(row)
            live_of[symbol] = []
    return np.array(first), np.array(last)


def finance0_numpy_re(frame: pd.DataFrame, least: int) -> Found:
    """Large trade, rises, drop: a letter per row with numpy, then ``re`` over the text of each symbol."""
    order = np.argsort(frame["symbol"].cat.codes.to_numpy(), kind="stable")
    codes = frame["symbol"].cat.codes.to_numpy()[order]
    price, size = frame["price"].to_numpy()[order], frame["size"].to_numpy()[order]
    step = np.diff(price, prepend=price[:1])
    new = np.concatenate([[True], codes[1:] != codes[:-1]])
    step[new] = 0
    letter = np.select([step > 0, step < 0], [1, 2], 0) + 3 * (size > least)
    text = np.frombuffer(b"frdFRD", np.uint8)[letter]
    cuts = np.append(np.flatnonzero(new), len(codes))
    first, last = [], []
    pattern = re.compile(b"[FRD][rR]+[dD]")  # leftmost, longest: not always the earliest end, but close
    for start, stop in pairwise(cuts):
        for found in pattern.finditer(text[start:stop].tobytes()):
            first.append(order[start + found.start()])
            last.append(order[start + found.end() - 1])
    by_end = np.argsort(last)
    return np.array(first)[by_end], np.array(last)[by_end]


FINANCE1_SQL = """
with recursive
numbered as (
    select row_number() over () - 1 as position, symbol, price from frame
), trades as (
    select position, symbol, price, row_number() over (partition by symbol order by position) as n,
           lag(price) over (partition by symbol order by position) as before
    from numbered
), live(symbol, start, first, n, position, state) as (
    select symbol, position, price, n, position, 0 from trades
    union
    select live.symbol, live.start, live.first, next.n, next.position, step.state
    from live
    join trades next on next.symbol = live.symbol and next.n = live.n + 1
    join (values (0, 1, 'rise'), (1, 1, 'rise'), (1, 2, 'drop'), (2, 2, 'drop'), (2, 3, 'rise'),
                 (3, 3, 'rise'), (3, 4, 'drop'), (4, 4, 'drop'), (3, 5, 'deep'),
                 (4, 5, 'deep')) step(before, state, name)
      on step.before = live.state and case step.name
            when 'rise' then next.price > live.first and next.price >= next.before
            when 'drop' then next.price >= live.first and next.price < next.before
            else next.price < live.first and next.price < next.before end
)
select symbol, start, min(position) as stop from live where state = 5 group by symbol, start
"""


def finance1_duckdb(frame: pd.DataFrame) -> Found:
    """The M-shape as a recursive query; Python then drops what a report would have ended."""
    import duckdb

    frame = frame[["symbol", "price"]]
    candidates = duckdb.sql(FINANCE1_SQL).df().sort_values(["stop", "start"])
    clean: dict[object, int] = {}
    first, last = [], []
    for symbol, start, stop in candidates[["symbol", "start", "stop"]].itertuples(index=False):
        if start > clean.get(symbol, -1):
            first.append(start)
            last.append(stop)
            clean[symbol] = stop
    return np.array(first), np.array(last)


# --- sequences: frames with t, kind, x, in the order of t, t whole numbers ----------------------------------


def as_polars(frame: pd.DataFrame):
    """Return the frame as polars has it. ``POLARS_MAX_THREADS`` must be set before polars is imported."""
    import polars as pl

    return pl.from_pandas(frame)


def rising_polars(frame, within: int):
    """SEQ(A, B, C) with rising x as polars' ``join_where``: the times of each match."""
    import polars as pl

    events = frame.lazy()

    def of(kind: str) -> pl.LazyFrame:
        own, name = events.filter(pl.col("kind") == kind), kind.lower()
        end = (pl.col("t") + within).alias(f"{name}_end")
        return own.select(pl.col("t").alias(f"{name}_t"), pl.col("x").alias(name), end)

    t, x = pl.col, pl.col
    pairs = of("A").join_where(of("B"), t("a_t") < t("b_t"), t("a_end") >= t("b_t"), x("a") < x("b"))
    found = pairs.join_where(of("C"), t("b_t") < t("c_t"), t("a_end") >= t("c_t"), x("b") < x("c"))
    return found.select("a_t", "b_t", "c_t").collect()


def rising_polars_buckets(frame, within: int):
    """The same as joins on stretches of time as long as the window, later events also in the one before."""
    import polars as pl

    events = frame.lazy().with_columns(g=pl.col("t") // max(1, within))

    def of(kind: str) -> pl.LazyFrame:
        name = kind.lower()
        own = events.filter(pl.col("kind") == kind)
        return own.select("g", pl.col("t").alias(f"{name}_t"), pl.col("x").alias(name))

    def later(kind: str) -> pl.LazyFrame:
        own = of(kind)
        return pl.concat([own, own.with_columns(pl.col("g") - 1)])

    t, x = pl.col, pl.col
    pairs = of("A").join(later("B"), on="g")
    pairs = pairs.filter(t("a_t") < t("b_t"), t("b_t") <= t("a_t") + within, x("a") < x("b"))
    found = pairs.join(later("C"), on="g")
    found = found.filter(t("b_t") < t("c_t"), t("c_t") <= t("a_t") + within, x("b") < x("c"))
    return found.select("a_t", "b_t", "c_t").collect()


_NO_B = """
select count(*) from e a, e c where a.kind = 'A' and c.kind = 'C' and c.t > a.t and c.t <= a.t + {within}
 and not exists (select 1 from e b where b.kind = 'B' and b.t > a.t and b.t < c.t and a.x < b.x)
"""
# Stretches of time as long as the window, so that joins have an equality.
_STRETCHES = """
with s as (select kind, t, x, t // {within} g from e),
a as (select t, x, g from s where kind = 'A'),
b as (select t, x, g from s where kind = 'B' union all select t, x, g - 1 from s where kind = 'B'),
c as (select t, g from s where kind = 'C' union all select t, g - 1 from s where kind = 'C')
"""
NEGATIONS = {
    "NOT EXISTS": _NO_B,
    "NOT EXISTS, by stretches": _STRETCHES
    + """select count(*) from a join c on a.g = c.g and c.t > a.t and c.t <= a.t + {within}
where not exists (select 1 from b where b.g = a.g and b.t > a.t and b.t < c.t and a.x < b.x)""",
    "next B, by stretches": _STRETCHES
    + """, n as (select a.t, a.g, min(b.t) next from a left join b on b.g = a.g and b.t > a.t and a.x < b.x
group by a.t, a.g)
select count(*) from n join c on n.g = c.g and c.t > n.t and c.t <= n.t + {within}
where next is null or c.t < next""",
}


def rising_loop(frame: pd.DataFrame, within: int, key: str | None) -> list[tuple]:
    """SEQ(A, B, C) with rising x as a loop over rows: the times of each match."""
    keys = [0] * len(frame) if key is None else frame[key].tolist()
    starts, pairs, found = defaultdict(deque), defaultdict(deque), []
    columns = (frame[name].tolist() for name in ("kind", "t", "x"))
    for k, kind, t, x in zip(keys, *columns, strict=True):
        if kind == "A":
            starts[k].append((t, x))
        elif kind == "B":
            live = starts[k]
            while live and live[0][0] < t - within:
                live.popleft()
            pairs[k].extend((a, t, x) for a, y in live if y < x)
        elif kind == "C":
            pairs[k] = deque(pair for pair in pairs[k] if pair[0] >= t - within)
            found.extend((a, b, t) for a, b, y in pairs[k] if y < x)
    return found


def absent_loop(frame: pd.DataFrame, within: int) -> list[tuple]:
    """SEQ(A, !B, C), no B with a greater x than A, as a loop over rows."""
    live, found = deque(), []
    for kind, t, x in zip(*(frame[name].tolist() for name in ("kind", "t", "x")), strict=True):
        if kind == "A":
            live.append((t, x))
        elif kind == "B":
            live = deque(start for start in live if start[1] >= x)
        elif kind == "C":
            while live and live[0][0] < t - within:
                live.popleft()
            found.extend((a, t) for a, _ in live)
    return found


def next_loop(frame: pd.DataFrame, within: int) -> list[tuple]:
    """SEQ(A, B, C) with rising x of one key, skip till next, as a loop over rows."""
    starts, pairs, found = defaultdict(list), defaultdict(list), []
    columns = (frame[name].tolist() for name in ("key", "kind", "t", "x"))
    for k, kind, t, x in zip(*columns, strict=True):
        if kind == "A":
            starts[k].append((t, x))
        elif kind == "B":
            live = [start for start in starts[k] if start[0] >= t - within]
            pairs[k].extend((a, t, x) for a, y in live if y < x)
            starts[k] = [start for start in live if start[1] >= x]
        elif kind == "C":
            live = [pair for pair in pairs[k] if pair[0] >= t - within]
            found.extend((a, b, t) for a, b, y in live if y < x)
            pairs[k] = [pair for pair in live if pair[2] >= x]
    return found


def _duckdb_of(frame: pd.DataFrame):
    """Return a connection of one thread with the frame as the table e."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.register("frame", frame)
    connection.execute("create table e as select t, kind::varchar kind, x, key from frame")
    return connection


def _n_rows(connection, query: str) -> int:
    """Run a query and return how many rows it has, all of them as arrays of numpy."""
    return len(next(iter(connection.execute(query).fetchnumpy().values())))


KEYED_SQL = """
select a.t a_t, b.t b_t, c.t c_t from e a
join e b on a.key = b.key and b.t > a.t and b.t <= a.t + {within} and a.x < b.x
join e c on c.key = a.key and c.t > b.t and c.t <= a.t + {within} and b.x < c.x
where a.kind = 'A' and b.kind = 'B' and c.kind = 'C'
"""


def keyed_polars(frame, within: int):
    """SEQ(A, B, C) with rising x of one key as polars' joins: the times of each match."""
    import polars as pl

    def of(kind: str):
        name = kind.lower()
        rows = frame.lazy().filter(pl.col("kind") == kind)
        return rows.select("key", pl.col("t").alias(f"{name}_t"), pl.col("x").alias(name))

    t = x = pl.col
    pairs = of("A").join(of("B"), on="key")
    pairs = pairs.filter(t("a_t") < t("b_t"), t("b_t") <= t("a_t") + within, x("a") < x("b"))
    found = pairs.join(of("C"), on="key")
    found = found.filter(t("b_t") < t("c_t"), t("c_t") <= t("a_t") + within, x("b") < x("c"))
    return found.select("a_t", "b_t", "c_t").collect()


def by_letters(frame: pd.DataFrame, regex: bytes) -> pd.DataFrame:
    """Return the matches by a letter for each row, and ``re`` over the letters of each key."""
    codes = pd.factorize(frame["symbol"])[0]
    order = np.argsort(codes, kind="stable")
    price, new = frame["price"].to_numpy()[order], np.diff(codes[order], prepend=-1) != 0
    step = np.diff(price, prepend=price[:1])
    step[new] = 0
    text = np.frombuffer(b"fdu", np.uint8)[np.select([step < 0, step > 0], [1, 2], 0)]
    first, last, pattern = [], [], re.compile(regex)
    for start, stop in pairwise(np.append(np.flatnonzero(new), len(order))):
        for found in pattern.finditer(text[start:stop].tobytes()):
            first.append(start + found.start())
            last.append(start + found.end() - 1)
    rows = order[np.array(first, np.int64)]
    return pd.DataFrame({"symbol": frame["symbol"].take(rows), "top": frame["price"].take(rows)})


def runs_of_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of rising prices by shift, cumsum and groupby."""
    holds = frame["price"] > frame.groupby("user")["price"].shift()
    begins = holds & ~holds.groupby(frame["user"]).shift(fill_value=False)
    number = begins.groupby(frame["user"]).cumsum()
    inside = frame[holds].groupby(["user", number[holds].rename("run")], sort=False)
    return inside["ts"].agg(["first", "last", "size"]).reset_index()


def sessions_of_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the sessions by diff, cumsum and groupby."""
    begins = frame.groupby("user")["ts"].diff() > pd.Timedelta("30 min")
    number = begins.groupby(frame["user"]).cumsum().rename("session")
    return frame.groupby(["user", number], sort=False)["ts"].agg(["first", "last", "size"]).reset_index()


def funnel_of_pandas(frame: pd.DataFrame) -> list[int]:
    """Return the users who reach each step within a day, step by step with merge_asof."""
    found = frame.loc[frame["kind"] == STEPS[0], ["ts", "user"]].assign(start=lambda rows: rows["ts"])
    reached = [found["user"].nunique()]
    for step in STEPS[1:]:
        rows = frame.loc[frame["kind"] == step, ["ts", "user"]]
        found = pd.merge_asof(rows, found, on="ts", by="user", allow_exact_matches=False)
        found = found[found["ts"] - found["start"] <= pd.Timedelta("1 day")]
        reached.append(found["user"].nunique())
    return reached


# --- the peers of the cases: names and what they do on a prepared frame -------------------------------------


def m_shapes(frame: pd.DataFrame) -> Works:
    """W1."""
    codes, n = frame["symbol"].cat.codes.to_numpy().astype(np.int32), len(frame["symbol"].cat.categories)
    price = frame["price"].to_numpy()
    return {
        **_twin("finance1", lambda f: len(call_twin(f, codes, n, price)[0])),
        "Python loop": lambda: len(finance1_loop(frame)[0]),
        "DuckDB": lambda: len(finance1_duckdb(frame)[0]),
    }


def large_trades(frame: pd.DataFrame) -> Works:
    """W2."""
    codes, n = frame["symbol"].cat.codes.to_numpy().astype(np.int32), len(frame["symbol"].cat.categories)
    price, size = frame["price"].to_numpy(), frame["size"].to_numpy()
    return {
        **_twin("finance0", lambda f: len(call_twin(f, codes, n, price, size, LEAST_SIZE)[0])),
        "numpy and re": lambda: len(finance0_numpy_re(frame, LEAST_SIZE)[0]),
    }


def _columns(frame: pd.DataFrame) -> tuple[np.ndarray, ...]:
    types = frame["kind"].cat.codes.to_numpy().astype(np.int8)
    return types, frame["t"].to_numpy(), frame["x"].to_numpy(), frame["key"].to_numpy().astype(np.int32)


def _listed(function: Callable, n_columns: int, *arguments: np.ndarray | int) -> int:
    """Call a function that counts without arrays for the matches, and lists with them; return the number."""
    none = (ctypes.c_void_p(),) * n_columns
    n = _called(function, *arguments, *none)
    rows = [np.empty(n, np.int64) for _ in range(n_columns)]
    return _called(function, *arguments, *rows)


def _called(function: Callable, *arguments) -> int:
    native = (
        one.ctypes.data_as(ctypes.c_void_p) if isinstance(one, np.ndarray)
        else ctypes.c_int64(one) if isinstance(one, int) else one
        for one in arguments
    )  # fmt: skip
    return function(*native)


def rising(frame: pd.DataFrame) -> Works:
    """W3."""
    types, t, x, _ = _columns(frame)
    other = as_polars(frame)
    none = np.zeros(len(frame), np.int32)
    return {
        **_twin("keyed_rising", lambda f: _listed(f, 3, len(t), none, 1, types, t, x, WITHIN)),
        "polars join_where": lambda: len(rising_polars(other, WITHIN)),
        "polars stretches": lambda: len(rising_polars_buckets(other, WITHIN)),
        "Python loop": lambda: len(rising_loop(frame, WITHIN, None)),
    }


def absent(frame: pd.DataFrame) -> Works:
    """W4."""
    types, t, x, _ = _columns(frame)
    connection = _duckdb_of(frame)
    of = lambda name: lambda: connection.execute(NEGATIONS[name].format(within=WITHIN)).fetchone()[0]  # noqa: E731
    return {
        **_twin("absent_of_columns", lambda f: _listed(f, 2, len(t), types, t, x, WITHIN)),
        "DuckDB not exists": of("NOT EXISTS"),
        "DuckDB stretches": of("next B, by stretches"),
        "Python loop": lambda: len(absent_loop(frame, WITHIN)),
    }


def keyed(frame: pd.DataFrame) -> Works:
    """W5."""
    types, t, x, key = _columns(frame)
    n_keys = int(key.max(initial=0)) + 1
    connection, other = _duckdb_of(frame), as_polars(frame)
    return {
        **_twin("keyed_rising", lambda f: _listed(f, 3, len(t), key, n_keys, types, t, x, KEYED_WITHIN)),
        "DuckDB": lambda: _n_rows(connection, KEYED_SQL.format(within=KEYED_WITHIN)),
        "polars": lambda: len(keyed_polars(other, KEYED_WITHIN)),
        "Python loop": lambda: len(rising_loop(frame, KEYED_WITHIN, "key")),
    }


def keyed_next(frame: pd.DataFrame) -> Works:
    """The same, skip till next."""
    types, t, x, key = _columns(frame)
    n_keys = int(key.max(initial=0)) + 1
    place = np.empty((3, len(frame)), np.int64)
    arguments = len(t), key, n_keys, types, t, x, NEXT_WITHIN
    none = (ctypes.c_void_p(),) * 3
    return {
        **_twin("keyed_next", lambda f: _called(f, *arguments, *none), "C twin, count"),
        **_twin("keyed_next", lambda f: _called(f, *arguments, *place), "C twin, frame"),
        "Python loop": lambda: len(next_loop(frame, NEXT_WITHIN)),
    }


def letters(frame: pd.DataFrame) -> Works:
    """MATCH_RECOGNIZE."""
    return {"numpy and re": lambda: len(by_letters(frame, rb"[fdu]d+u+d+u+"))}


def runs(frame: pd.DataFrame) -> Works:
    """Runs."""
    return {"pandas": lambda: runs_of_pandas(frame)}


def sessions(frame: pd.DataFrame) -> Works:
    """Sessions."""
    return {"pandas": lambda: sessions_of_pandas(frame)}


def funnel(frame: pd.DataFrame) -> Works:
    """A funnel."""
    return {"pandas": lambda: funnel_of_pandas(frame)}


def rolling(frame: pd.DataFrame) -> Works:
    """Windows."""
    price = frame.set_index("ts")["price"]
    last = lambda: price.rolling("15s")  # noqa: E731
    return {"pandas": lambda: pd.DataFrame({"mean": last().mean(), "n": last().count()})}


def _shifts(frame: pd.DataFrame, name: str) -> Works:
    return {"pandas shift": lambda: int((frame["x"] > frame.groupby(name, observed=True)["x"].shift()).sum())}


def shifts_object(frame: pd.DataFrame) -> Works:
    """Many keys."""
    return _shifts(frame, "object")


def shifts_arrow(frame: pd.DataFrame) -> Works:
    """Many keys."""
    return _shifts(frame, "arrow")


def shifts_category(frame: pd.DataFrame) -> Works:
    """Many keys."""
    return _shifts(frame, "category")
