"""What else one could do: the C twin, loops in Python, numpy with ``re``, queries in DuckDB and polars."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

TWINS = ("finance0", "finance1", "finance2")
Found = tuple[np.ndarray, np.ndarray]  # rows of the first and the last event of each match


def c_twin() -> ctypes.CDLL | None:
    """Compile and load ``twin.c``; None without gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp()) / "twin.so"
    source = Path(__file__).with_name("twin.c")
    subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    twin = ctypes.CDLL(str(library))
    for name in TWINS:
        getattr(twin, name).restype = ctypes.c_int64
    return twin


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


# --- sequences: frames with t, kind, x, in the order of t, t whole numbers ---------------------------------


def as_polars(frame: pd.DataFrame):
    """Return the frame as polars has it; the first call tells polars to use one thread."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl

    if pl.thread_pool_size() != 1:
        raise RuntimeError("polars was imported before and uses several threads")
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


def no_b_duckdb(frame: pd.DataFrame, within: int, formulation: str) -> tuple[float, int]:
    """SEQ(A, !B, C), no B with a greater x than A: CPU seconds of the query on one thread, and the count."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.register("frame", frame)
    connection.execute("create table e as select t, kind::varchar kind, x from frame")
    began = time.process_time()
    (n,) = connection.execute(NEGATIONS[formulation].format(within=within)).fetchone()
    return time.process_time() - began, n
