"""MATCH_RECOGNIZE beside numpy with ``re``, the search in Python, and its kernels by hand in C.

python tests/benchmarks/row_pattern_table.py [--rows 1000000] [--repeat 5]

Times are the least CPU time of one thread. A frame is new for a first call, and known for the next ones.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

import cepkit as cep
from cepkit.compile.match_recognize.navigations import reach_of
from cepkit.compile.match_recognize.tables import set_tables
from cepkit.engines.match_recognize import finding
from cepkit.engines.match_recognize.preparing import prepare_rows
from cepkit.engines.match_recognize.row_input import RowInput
from cepkit.frames.pandas import PandasSource
from cepkit.frames.row_order import order_of_rows
from cepkit.kernels.row_patterns.codes import UNKNOWN
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery
from cepkit.results import row_pattern_search


@dataclass(frozen=True)
class Query:
    """A query with the same pattern as a regular expression over f (flat), d (drop) and u (rise)."""

    name: str
    pattern: str
    define: str
    measures: str
    regex: bytes

    def text(self) -> str:
        return f"""MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES {self.measures}
          PATTERN ({self.pattern}) DEFINE {self.define})"""


DROP, RISE = "price < PREV(price)", "price > PREV(price)"
QUERIES = [
    Query(
        "M shape", "A B{2,} C{2,} D{2,} E{2,}", f"B AS {DROP}, C AS {RISE}, D AS {DROP}, E AS {RISE}",
        "FIRST(A.ts) AS start, LAST(C.price) AS top, LAST(D.price) AS bottom, LAST(E.ts) AS stop",
        rb"[fdu]d{2,}u{2,}d{2,}u{2,}",
    ),
    Query(
        "M shape of single steps or more", "A B+ C+ D+ E+",
        f"B AS {DROP}, C AS {RISE}, D AS {DROP}, E AS {RISE}",
        "FIRST(A.ts) AS start, LAST(C.price) AS top, LAST(D.price) AS bottom, LAST(E.ts) AS stop",
        rb"[fdu]d+u+d+u+",
    ),
    Query(
        "A B+ C", "A B+ C", f"B AS {DROP}, C AS {RISE}",
        "A.price AS top, LAST(B.price) AS bottom, COUNT(B.price) AS n, C.ts AS stop", rb"[fdu]d+u",
    ),
]  # fmt: skip


def walk(n_rows: int, n_keys: int = 390, seed: int = 7) -> pd.DataFrame:
    """Return trades of a random walk per key; few keys have most of the rows."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_keys + 1)
    key = rng.choice(n_keys, n_rows, p=share / share.sum())
    order = np.argsort(key, kind="stable")
    step = np.empty(n_rows)
    step[order] = np.cumsum(rng.integers(-1, 2, n_rows))
    names = np.array([f"S{i:03}" for i in range(n_keys)])
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(rng.integers(1, 50, n_rows)), unit="ms")
    return pd.DataFrame({"symbol": names[key], "ts": times, "price": 1000 + step * 0.25})


def seconds(run: Callable[[], object], repeat: int) -> float:
    """Return the least CPU time of a call in this thread."""
    taken = []
    for _ in range(repeat):
        began = time.thread_time()
        run()
        taken.append(time.thread_time() - began)
    return min(taken)


def with_key(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the frame with a key of another type."""
    if kind == "integer":
        return frame.assign(symbol=frame["symbol"].str[1:].astype(np.int64))
    return frame.astype({"symbol": "category"}) if kind == "categorical" else frame


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
    rows = order[np.array(first)]
    return pd.DataFrame({"symbol": frame["symbol"].take(rows), "top": frame["price"].take(rows)})


def parts(frame: pd.DataFrame, query: Query, repeat: int) -> Iterator[tuple[str, float]]:
    """Yield the times of the conditions and the kernels, and of the same kernels in C."""
    source, tree = PandasSource(frame), parse_match_recognize(query.text())
    assert isinstance(tree, RowPatternQuery)
    program, _ = prepare_rows(tree, source.schema)
    order = order_of_rows(source, tree.partition_by, tree.order_by)
    reach = reach_of([condition for _, condition in tree.define])
    given = RowInput(source.schema, source.column, lambda name: np.empty(0), order, reach)
    search = finding._KernelSearch(program, dict(tree.define), given)
    blocks = list(search.blocks(finding._ROWS_OF_BLOCK))
    yield (
        "order, known frame",
        seconds(lambda: order_of_rows(source, tree.partition_by, tree.order_by), repeat),
    )
    yield "conditions", seconds(lambda: [search.truths(*block) for block in blocks], repeat)
    tables = set_tables(search.transitions, len(search.conditions))
    assert tables is not None
    whole = seconds(lambda: search.by_sets(tables), repeat)
    yield "conditions and kernels", whole
    twin = c_twin()
    if twin is None:
        return
    found = search.by_sets(tables)
    symbol, bounds = (
        np.concatenate([search.truths(*block) for block in blocks]),
        order.first_place_of_partition,
    )
    symbol[bounds[1:] - 1] |= np.uint8(tables.last_place)
    following = np.where(tables.following == UNKNOWN, 0, tables.following).astype(np.uint16)
    mark, own_mark = np.empty(len(frame), np.uint16), np.empty(len(frame), np.uint16)
    start, end = np.empty(len(frame), np.int64), np.empty(len(frame), np.int64)
    states = np.empty(len(frame), np.int16)

    def run() -> int:
        n = len(bounds) - 1
        call(twin.mark_places, len(mark), symbol, tables.n_bits, following, mark)
        choices = tables.choice.shape[1], tables.choice, tables.first_choice
        return call(twin.find_matches, n, bounds, mark, *choices, start, end, states)

    steps = tables.steps()
    assert steps is not None

    def own() -> None:
        search.mark(symbol, tables, bounds, own_mark)
        own_mark[bounds[:-1]] |= 1
        _ = search.separate_matches(own_mark, steps).states

    n = run()
    assert n == found.n_matches and np.array_equal(start[:n], found.start_of_match), "the twin differs"
    assert np.array_equal(end[:n], found.end_of_match), "the twin differs"
    yield "kernels", seconds(own, repeat)
    yield "kernels by hand in C", seconds(run, repeat)


def c_twin() -> ctypes.CDLL | None:
    """Compile and load ``row_patterns.c``; None without gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp()) / "row_patterns.so"
    source = Path(__file__).with_name("row_patterns.c")
    subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    twin = ctypes.CDLL(str(library))
    twin.find_matches.restype = ctypes.c_int64
    twin.mark_places.restype = None
    return twin


def call(function: Callable, *given: np.ndarray | int) -> int:
    """Call a function of the twin."""
    return function(
        *(
            one.ctypes.data_as(ctypes.c_void_p) if isinstance(one, np.ndarray) else ctypes.c_int64(one)
            for one in given
        )
    )


def duckdb_answer(frame: pd.DataFrame, query: Query) -> str:
    """Return what DuckDB says to the query."""
    try:
        import duckdb
    except ImportError:
        return "DuckDB is not installed"
    try:
        duckdb.execute(f"SELECT * FROM frame {query.text()}").fetchall()
    except duckdb.Error as error:
        return f"DuckDB {duckdb.__version__}: {str(error).splitlines()[0]}"
    return f"DuckDB {duckdb.__version__} runs it"


def rows_of(query: Query, frame: pd.DataFrame, repeat: int) -> Iterator[tuple[str, int, float]]:
    """Yield what ran, the rows, and the seconds."""
    n, text = len(frame), query.text()
    for kind in ("integer", "categorical", "text"):
        own = with_key(frame, kind)
        cep.match(own, text).to_frame()  # loads the kernels, and lets the better machine code come
        time.sleep(2 if kind == "integer" else 0)
        news = iter([own.copy() for _ in range(repeat)])
        first = seconds(lambda news=news: cep.match(next(news), text).to_frame(), repeat)
        yield f"{kind} key, first call on a frame", n, first
        yield f"{kind} key, next call", n, seconds(lambda own=own: cep.match(own, text).to_frame(), repeat)
        yield (
            "  the matches, without their frame",
            n,
            seconds(lambda own=own: cep.match(own, text).count(), repeat),
        )
    for what, cost in parts(with_key(frame, "integer"), query, repeat):
        yield f"  {what}", n, cost
    found, expected = cep.match(frame, text).to_frame(), by_letters(frame, query.regex)
    assert len(found) == len(expected), "letters give other matches"
    yield "numpy and re", n, seconds(lambda: by_letters(frame, query.regex), min(repeat, 3))
    few = frame.head(n // 20)
    fewest = row_pattern_search.FEWEST_ROWS
    row_pattern_search.FEWEST_ROWS = n + 1
    yield "search in Python", len(few), seconds(lambda: cep.match(few, text).to_frame(), 1)
    row_pattern_search.FEWEST_ROWS = fewest


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    frame = walk(given.rows)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for query in QUERIES:
        print(f"\n{query.name}: {cep.match(frame, query.text()).count():,} matches in {len(frame):,} rows")
        for what, n, cost in rows_of(query, frame, given.repeat):
            print(f"  {what:<46} {cost * 1e3:>10.2f} ms {n / cost / 1e6:>9.2f} M rows/s", flush=True)
    print(duckdb_answer(frame.head(10), QUERIES[-1]))


if __name__ == "__main__":
    main()
