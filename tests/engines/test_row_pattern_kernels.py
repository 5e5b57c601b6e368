"""The kernels of MATCH_RECOGNIZE give the matches and measures of the search in Python, and of the oracle."""

from __future__ import annotations

import math
import threading
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.match_recognize import set_tables as tables
from cepkit.engines.match_recognize import bound as row_match_set
from cepkit.engines.match_recognize import finding
from cepkit.engines.match_recognize.bound import bind_row_query
from cepkit.errors import CepError
from cepkit.frames import row_order
from cepkit.frames.pandas import PandasSource
from cepkit.frames.row_order import searched_rows
from cepkit.insight.row_pattern_why_not import count_row_funnel
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey
from cepkit.results import row_pattern_search
from tests.oracle.generate_match_recognize import random_query, random_rows
from tests.oracle.match_recognize import MatchError, result
from tests.support.row_patterns import oracle_query
from tests.support.sizes import seeds

PATTERNS = [
    "A B+ C", "A+ B*? C?", "(A | B)+ C", "^ A* B", "A B $", "PERMUTE(A, B)", "A {- B+ -} C", "(A+ B)+?",
    "A*", "(A? B?){2,3} C", "() | A B", "A (B | C){1,4}? A", "A{3} | B C",
]  # fmt: skip
CONDITIONS = [
    "price < PREV(price)", "price > PREV(price, 2)", "NEXT(price) IS NULL OR NEXT(price) > price", "flag",
    "NOT flag", "flag = PREV(flag)", "name = 'a'", "name LIKE '%b'", "LOWER(name) IN ('a', 'c')",
    "name = PREV(name)", "name || 'x' = 'ax'", "LENGTH(name) > 1 AND PREV(name) <> 'b'", "size / 2 > 1.5",
    "size % 3 = 1", "MOD(size, 2) = 0", "price * size - 1 > 2 * PREV(price)", "size IN (1, 2)",
    "t - PREV(t) > INTERVAL '1' SECOND", "t < TIMESTAMP '2024-01-01 00:00:20'", "size BETWEEN 1 AND 3",
    "COALESCE(size, 0) = 0", "CASE WHEN flag THEN size ELSE 7 END > 2", "ABS(price - PREV(price)) <= 1",
    "SQRT(price - 2) > 1", "LEAST(price, 2.0) = 2.0", "-price < -2", "size = 2.0",
    "PREV(size) * 1.5 > price", "CAST(size AS varchar) = '2'", "price // 1 = 2", "(price > 2) = flag",
    "name > PREV(name)", "PREV(price IS NULL)", "price > 1 AND (size = 1 OR flag OR name IS NULL)",
    "size - 9223372036854775000 < 0", "size * 4611686018427387904 > 5", "size / 0 IS NULL",
    "price IN (1, 2.5, 3)", "SIGN(price - 2) = -1", "(size - 3) % 2 = -1", "MOD(price - 3, 2) < 0",
    "t - TIMESTAMP '2024-01-01 00:00:00' > INTERVAL '9' SECOND", "t > PREV(t) + 2 * INTERVAL '0.5' SECOND",
    "COALESCE(gap, INTERVAL '1' SECOND) > INTERVAL '1' SECOND", "gap / INTERVAL '2' SECOND > 1",
    "gap % INTERVAL '2' SECOND = INTERVAL '0' SECOND", "LEAST(t, DATE '2024-01-02') = t",
    "CASE WHEN flag THEN t ELSE DATE '2024-01-02' END < TIMESTAMP '2024-01-01 00:00:09.5'",
]  # fmt: skip
STATES = [
    "price > FIRST(price)", "price < FIRST(A.price)", "price < LAST(A.price)", "price >= LAST(U.price, 1)",
    "price <> FIRST(B.price, 1)", "PREV(LAST(A.price)) < price", "NEXT(FIRST(A.price), 2) IS NULL",
    "A.size IS NULL OR size > A.size", "NOT (A.size > size)", "size = LAST(size, 1)", "name = LAST(A.name)",
    "name <> FIRST(U.name) OR flag", "LAST(A.name) = 'a'", "flag = FIRST(A.flag)", "NOT FIRST(flag)",
    "(LAST(A.price) > 2) IS NOT TRUE", "LAST(A.size) IS DISTINCT FROM size", "COUNT(*) < 4",
    "COUNT(U.*) < 3", "COUNT(A.size) >= 1", "COUNT(name) <= 3", "COUNT_IF(price > 2) < 2", "SUM(size) < 7",
    "SUM(U.price) <= 9", "SUM(A.size * 2 - 1) > 1", "MIN(price) = price", "MAX(A.price) > price",
    "MAX(DISTINCT size) - MIN(size) < 3", "AVG(price) <= 2.5", "AVG(U.size) > size",
    "MAX(t) - MIN(t) < INTERVAL '9' SECOND",
    "t - FIRST(t) < INTERVAL '8' SECOND", "LAST(A.t) < TIMESTAMP '2024-01-01 00:00:20'",
    "SUM(gap) < INTERVAL '15' SECOND",
    "CLASSIFIER() = 'B'", "PREV(CLASSIFIER()) = 'A'", "PREV(CLASSIFIER(), 2) <> 'A'", "CLASSIFIER(U) = 'A'",
    "FIRST(CLASSIFIER()) = 'B'", "MATCH_NUMBER() % 2 = 1", "price + LAST(A.price) < 2 * COUNT(*) + 3",
    "(price - FIRST(price)) / COUNT(*) < 1", "price / LAST(A.size) > 1", "ABS(price - LAST(A.price)) <= 1",
    "-LAST(A.size) < -1", "LAST(A.size) % 3 = 1", "LAST(A.size) // 2 = 1", "LAST(A.size) IN (1, 2, 3)",
    "FIRST(A.price) IN (1, 2.5)", "SUM(size * 1000000000000000000) > 5",
    "size * FIRST(size) * 1000000000000000000 > 5",
    "LAST(A.price) BETWEEN 2 AND price", "STDDEV(price) < 1", "COUNT(DISTINCT name) < 3",
    "LOWER(LAST(A.name)) = 'a'",
]  # fmt: skip
MEASURES = [
    "FIRST(price)", "LAST(A.price, 1)", "FIRST(U.name)", "LAST(t) - FIRST(t)", "LAST(flag)", "CLASSIFIER()",
    "PREV(CLASSIFIER())", "NEXT(LAST(A.price), 2)", "PREV(FIRST(B.t))", "MATCH_NUMBER() * 10",
    "CLASSIFIER(U)", "SUM(size)", "RUNNING SUM(A.size)", "FINAL SUM(price)", "AVG(price)", "AVG(B.size)",
    "MIN(t)", "MAX(U.price)", "MIN(size) + MAX(size)", "MAX(name)", "COUNT(*)", "COUNT(A.*)",
    "COUNT(B.price)", "FINAL COUNT(*)", "SUM(price * size)", "ARRAY_AGG(name)", "SUM(DISTINCT size)",
    "LOWER(LAST(name))", "AVG(size) > 2", "price > 2 AND flag",
    "CASE WHEN CLASSIFIER() = 'A' THEN 1 ELSE 2 END", "COALESCE(LAST(A.size), 0)",
    "FIRST(price) / LAST(size)", "FINAL LAST(size)", "FIRST(A.size, 2)", "SUM(size * 1000000000000000000)",
    "gap", "LAST(gap) * 2", "'x'", "1 + 1", "name || '!'", "AVG(t)", "SUM(gap)", "COUNT(CLASSIFIER())",
    "flag IS NULL", "SUM(CASE WHEN flag THEN 1 ELSE 0 END)", "MAX_BY(name, price)", "NEXT(price) - price",
    "LAST(B.flag)", "CAST(t AS varchar)", "LISTAGG(flag, ',')", "gap / 2", "ROUND(price - 2.5)",
    "MOD(size - 3, 2)", "LAST(t) - TIMESTAMP '2024-01-01 00:00:00'", "DATE '2024-02-28' + LAST(gap)",
    "INTERVAL '1' DAY / 2", "COALESCE(gap, INTERVAL '0.5' SECOND)", "ROUND(price / 3, 1)",
]  # fmt: skip


def random_frame(random: Random, n: int) -> pd.DataFrame:
    """Return rows of all types with some nulls, in no order."""
    rng = np.random.default_rng(random.randint(0, 2**32))
    frame = pd.DataFrame(
        {
            "k": rng.choice(np.array(["p", "q", "r", None], object), n, p=[0.5, 0.3, 0.1, 0.1]),
            "t": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n) * 2, unit="s"),
            "price": np.where(rng.random(n) < 0.1, np.nan, rng.integers(1, 5, n) / 1.0),
            "size": pd.array(rng.integers(0, 5, n), "Int64"),
            "name": rng.choice(np.array(["a", "b", "c", "ab"], object), n),
            "flag": pd.array(rng.random(n) < 0.5, "boolean"),
            "gap": pd.to_timedelta(rng.integers(0, 9, n), unit="s"),
        }
    )
    for name in ("size", "name", "flag", "gap"):
        frame.loc[rng.random(n) < 0.1, name] = None
    return frame


def random_text(random: Random, conditions: list[str] = CONDITIONS) -> str:
    """Return a query over the columns of `random_frame`."""
    measures = ", ".join(f"{text} AS m{i}" for i, text in enumerate(random.sample(MEASURES, 4)))
    chosen = zip("ABC", random.sample(conditions, 3), strict=True)
    defined = [f"{name} AS {condition}" for name, condition in chosen if random.random() < 0.8]
    pattern = random.choice([one for one in PATTERNS if "B" in one])
    if conditions is not CONDITIONS:
        pattern = random.choice([one for one in PATTERNS if "A" in one and "B" in one])
    subset = "SUBSET U = (A, B)"
    if "A" not in pattern:
        subset = "SUBSET U = (B)"
    named = [one for one in defined if one[0] in pattern] or ["A AS TRUE"]
    shown = ["ONE ROW", "ALL ROWS", "ALL ROWS", "ALL ROWS", "ALL ROWS"]
    more = ["", "", " SHOW EMPTY MATCHES", " OMIT EMPTY MATCHES", " WITH UNMATCHED ROWS"]
    rows = random.randrange(4 if "{-" in pattern else 5)
    skip = random.choice(["PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", "TO LAST B", "TO FIRST B", "TO U"])
    within = random.choice(["", "", " WITHIN INTERVAL '9' SECOND"])
    order = "t" if within else random.choice(["t", "t", "t DESC", "price NULLS FIRST, t", "name DESC, t"])
    return f"""MATCH_RECOGNIZE ({random.choice(["", "PARTITION BY k "])}ORDER BY {order} MEASURES {measures}
      {shown[rows]} PER MATCH{more[rows]} AFTER MATCH SKIP {skip} PATTERN ({pattern}){within}
      {subset} DEFINE {", ".join(named)})"""


class Switch:
    """Runs queries by kernels or in Python, and counts what the kernels did."""

    def __init__(self, monkeypatch):
        self.monkeypatch, self.n_kernels, self.n_found, self.n_vectors = monkeypatch, 0, 0, 0
        find, arrow = row_pattern_search.find_in_partitions, row_pattern_search.arrow_of_vector

        def counted_find(*given):
            found = find(*given)
            self.n_found += found is not None
            return found

        def counted_arrow(*given):
            made = arrow(*given)
            self.n_vectors += 1
            return made

        monkeypatch.setattr(row_pattern_search, "find_in_partitions", counted_find)
        monkeypatch.setattr(row_pattern_search, "arrow_of_vector", counted_arrow)

    def answer(self, frame: pd.DataFrame, query, *, kernels: bool) -> pd.DataFrame | str:
        """Return the result, or the message of the error."""
        self.monkeypatch.setattr(row_pattern_search, "FEWEST_ROWS", 0 if kernels else 10**9)
        try:
            found = cep.match(frame, query)
            made = found.to_frame()
            assert found.count() >= 0
            assert isinstance(made, pd.DataFrame)
            return made
        except CepError as error:
            return str(error)


@pytest.fixture
def switch(monkeypatch):
    return Switch(monkeypatch)


def check_equal(switch: Switch, frame: pd.DataFrame, query: str) -> None:
    expected = switch.answer(frame, query, kernels=False)
    found = switch.answer(frame, query, kernels=True)
    if isinstance(expected, str) or isinstance(found, str):
        assert str(found) == str(expected), query
        return
    pd.testing.assert_frame_equal(found, expected, check_exact=True, obj=query)


def compare_typed(switch: Switch, seed: int, n_queries: int, conditions: list[str] = CONDITIONS) -> None:
    random = Random(seed)
    for _ in range(n_queries):
        check_equal(switch, random_frame(random, random.randint(1, 40)), random_text(random, conditions))


def compare_with_oracle(switch: Switch, seed: int, n_queries: int) -> None:
    random = Random(seed)
    for _ in range(n_queries):
        query = random_query(random, depth=random.choice([2, 3]), row_local=True)
        rows = random_rows(random, random.randint(1, 12))
        random.shuffle(rows)
        frame = pd.DataFrame(rows).astype({"x": "Int64", "y": "Int64"})
        frame["t"] = frame["t"].astype("datetime64[s]")
        check_equal(switch, frame, str(query))
        try:
            expected = result(oracle_query(query), rows)
        except MatchError:
            continue
        found = switch.answer(frame, str(query), kernels=True)
        assert isinstance(found, pd.DataFrame), query
        assert [plain(row) for row in found.to_dict("records")] == [plain(row) for row in expected], query


def plain(row: dict) -> dict:
    """Return a row with lists for arrays, floats for numbers, and None for nulls."""
    cells = {}
    for name, cell in row.items():
        if isinstance(cell, dict):  # pandas has a map as a list of pairs
            cell = [*cell.items()]
        if isinstance(cell, list | tuple | np.ndarray):
            cells[name] = [*plain(dict(enumerate(cell))).values()]
        elif cell is None or cell is pd.NA or cell != cell:
            cells[name] = None
        elif isinstance(cell, pd.Timestamp):
            cells[name] = cell.timestamp()
        else:
            cells[name] = cell if isinstance(cell, str) else float(cell)
    return cells


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_random_queries_over_all_types(switch, seed):
    compare_typed(switch, seed, 40)
    assert switch.n_found > 20
    assert switch.n_vectors > 40


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_random_queries_on_the_match_so_far(switch, monkeypatch, seed):
    if seed % 2:  # keep all partial matches that fail, also those of little work
        monkeypatch.setattr(finding, "_PATIENCE", -(10**9))
    compare_typed(switch, 2000 + seed, 40, [*STATES, *random_conditions(seed)])
    assert switch.n_found > 20


def random_conditions(seed: int) -> list[str]:
    """Return conditions on the match so far that are joined with each other and with those on nearby rows."""
    random = Random(seed)
    joined = []
    for _ in range(len(STATES)):
        first, second = random.choice(STATES), random.choice([*CONDITIONS, *STATES])
        joined.append(random.choice(["{} AND {}", "{} OR {}", "NOT ({} OR {})"]).format(first, second))
    return joined


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_random_queries_on_nearby_rows(switch, seed):
    compare_with_oracle(switch, seed, 30)
    assert switch.n_found > 20


@pytest.mark.parametrize("seed", seeds(1, 50))
def test_thousands_of_random_queries(switch, seed, full):
    compare_typed(switch, 1000 + seed, 100 if full else 20)
    compare_with_oracle(switch, 1000 + seed, 100 if full else 20)
    compare_typed(switch, 1000 + seed, 100 if full else 20, [*STATES, *random_conditions(seed)])


# --- automata and data that are large ----------------------------------------------------------------------


def walk(n: int, seed: int = 0, n_keys: int = 3) -> pd.DataFrame:
    """Return random steps of several keys."""
    rng = np.random.default_rng(seed)
    price = np.cumsum(rng.integers(-1, 2, n))
    return pd.DataFrame({"k": rng.integers(0, n_keys, n), "t": np.arange(n), "price": price.astype(float)})


M_SHAPE = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
  MEASURES FIRST(a.t) AS start, LAST(c.price) AS top, COUNT(*) AS n, CLASSIFIER() AS variable
  AFTER MATCH {skip} PATTERN (a b+ c+ d+ e+)
  DEFINE b AS price < PREV(price), c AS price > PREV(price), d AS price < PREV(price),
  e AS price > PREV(price))"""
SKIPS = ["SKIP PAST LAST ROW", "SKIP TO NEXT ROW", "SKIP TO c"]


@pytest.fixture
def small_steps(monkeypatch):
    """Blocks, calls and buffers that are much smaller than usual."""
    monkeypatch.setattr(finding, "_ROWS_OF_BLOCK", 7)
    monkeypatch.setattr(finding, "_PLACES_PER_CALL", 5)


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("n_keys", [1, 30])
@pytest.mark.parametrize("more", ["", " AND price < FIRST(b.price)"])
def test_work_goes_on_where_it_stopped(switch, small_steps, skip, n_keys, more):
    check_equal(switch, walk(150, n_keys=n_keys), M_SHAPE.format(skip=skip).replace("))", f"){more})"))
    assert switch.n_found == 1


LOOPS = [
    ("a b+ c", "b AS price > a.price, c AS price < LAST(b.price) AND price < a.price"),
    ("a b* c", "c AS price < a.price - 2"),
    ("a b* c d?", "b AS price <= a.price * 2, c AS price > FIRST(b.price) + 3 AND price > a.price"),
    ("a+ b+ c", "a AS price < 4, b AS size >= FIRST(a.size), c AS size < LAST(a.size) AND COUNT(b.*) > 2"),
    ("a (b | c)+ d", "b AS price < a.price, c AS price >= a.price, d AS price = a.price + 3"),
    ("a b+? c", "b AS price <> a.price, c AS NOT price <= a.price"),
    ("a b* c", "b AS t - a.t < 90, c AS price IS NULL OR price > a.price + 2"),
]  # fmt: skip


@pytest.mark.parametrize("seed", seeds(3, 6))
@pytest.mark.parametrize(("pattern", "define"), LOOPS)
def test_loops_go_over_blocks_of_rows(switch, monkeypatch, pattern, define, seed):
    monkeypatch.setattr(finding, "_PLACES_PER_CALL", 200)  # blocks are made after the first call
    monkeypatch.setattr(finding, "_PATIENCE", [-(10**9), 1000][seed // 2 % 2])
    frame = walk(220, seed, n_keys=1 + seed % 2)
    frame["size"] = frame["price"].cumsum() // 4
    frame["size"] = frame["size"].astype(int)
    if seed % 3 == 0:
        frame.loc[frame["t"] % 41 == 0, "price"] = np.nan
    skip = ["PAST LAST ROW", "TO NEXT ROW"][seed % 2]
    text = f"""MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES FIRST(t) AS start, COUNT(*) AS n,
      LAST(b.t) AS last AFTER MATCH SKIP {skip} PATTERN ({pattern}) DEFINE {define})"""
    check_equal(switch, frame, text)
    assert switch.n_found == 1


def test_overlapping_matches_may_have_more_rows_than_the_frame(switch):
    text = """MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n, LAST(a.t) AS last
      AFTER MATCH SKIP TO NEXT ROW PATTERN (a+) DEFINE a AS t >= 0)"""
    check_equal(switch, walk(60), text)
    assert switch.n_found == 1


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("cells", [3, 10])
def test_too_many_sets_for_tables(switch, monkeypatch, small_steps, skip, cells):
    monkeypatch.setattr(tables, "MOST_CELLS", cells)
    tables.set_tables.cache_clear()
    check_equal(switch, walk(120), M_SHAPE.format(skip=skip))
    assert switch.n_found == 1
    tables.set_tables.cache_clear()


@pytest.mark.parametrize(
    "clauses",
    [
        "PATTERN (a{1,90} b) DEFINE b AS price > PREV(price)",
        "PATTERN ((a | b){2,40} c $) DEFINE a AS price > PREV(price), b AS price < PREV(price)",
        "PATTERN ((a|b|c|d|e|f|g|h|i|j)+? k) DEFINE "
        + ", ".join(f"{name} AS price % 11 = {i}" for i, name in enumerate("abcdefghijk")),
        "PATTERN ((" + "|".join(f"v{i}" for i in range(70)) + ")+) DEFINE "
        + ", ".join(f"v{i} AS price = {i}" for i in range(70)),
    ],
    ids=["repeated", "states", "conditions", "bits"],
)  # fmt: skip
def test_automata_that_are_too_large_for_tables(switch, clauses):
    text = f"MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n, FIRST(t) AS start {clauses})"
    check_equal(switch, walk(200), text)
    assert switch.n_found == (0 if "v69" in clauses else 1)


def test_a_set_of_many_states_takes_linear_time(switch):
    frame = pd.DataFrame({"t": np.arange(5000), "x": 1})
    for pattern in ("A+ B+", "(A+)+ B", "(A | C)* (A* C*)* B"):
        text = f"MATCH_RECOGNIZE (ORDER BY t PATTERN ({pattern}) DEFINE A AS x = 1, B AS x > 5)"
        switch.monkeypatch.setattr(row_pattern_search, "FEWEST_ROWS", 0)
        assert cep.match(frame, text).count() == 0
    assert switch.n_found == 3


def test_threads_share_tables(switch):
    """Threads that begin together find the same matches, whoever computes a cell of the tables."""
    frame = walk(400)
    query = M_SHAPE.format(skip=SKIPS[0])
    expected = switch.answer(frame, query, kernels=False)
    switch.monkeypatch.setattr(row_pattern_search, "FEWEST_ROWS", 0)
    tables.set_tables.cache_clear()
    found: list[pd.DataFrame] = []
    threads = [
        threading.Thread(target=lambda: found.append(cep.match(frame, query).to_frame())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for one in found:
        pd.testing.assert_frame_equal(one, expected)


def test_a_condition_without_a_value_is_an_error_only_where_a_match_needs_it(switch):
    """The search in Python does not look at the second condition before the first one holds."""
    frame = pd.DataFrame({"t": [1, 2], "name": ["a", "b"], "x": [1, 1]})
    text = "MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) DEFINE A AS x = {value}, B AS name > 3)"
    check_equal(switch, frame, text.format(value=5))
    check_equal(switch, frame, text.format(value=1))
    assert switch.n_found == 0


@pytest.mark.parametrize("measure", ["A.x IN (1, 2)", "A.y NOT IN (0.5, 2)", "PREV(A.x) IN (1, 2)"])
@pytest.mark.parametrize("n_matches", [0, 1, 2])
def test_a_measure_with_in_has_a_value_for_each_match(switch, measure, n_matches):
    frame = pd.DataFrame({"t": [1, 2, 3], "x": [1, 2, 7], "y": [0.5, 1.5, 2.0]})
    text = f"MATCH_RECOGNIZE (ORDER BY t MEASURES {measure} AS v PATTERN (A) DEFINE A AS t > {3 - n_matches})"
    values = {
        "A.x IN (1, 2)": [True, False],
        "A.y NOT IN (0.5, 2)": [True, False],
        "PREV(A.x) IN (1, 2)": [True, True],
    }[measure]
    for kernels in (False, True):
        found = switch.answer(frame, text, kernels=kernels)["v"]
        assert found.tolist() == values[2 - n_matches :]
        assert found.dtype == bool


def test_integers_beyond_64_bits_are_an_error(switch):
    frame = pd.DataFrame({"x": [2**62] * 3})
    text = "MATCH_RECOGNIZE (MEASURES SUM(x) AS total PATTERN (A+) DEFINE A AS x > 0)"
    for kernels in (False, True):
        assert "integers beyond 64 bits" in str(switch.answer(frame, text, kernels=kernels))


def test_other_queries_run_in_python(switch):
    for condition in ("STDDEV(price) < 3", "COUNT(DISTINCT price) < 3", "NEXT(CLASSIFIER()) = 'B'"):
        text = f"MATCH_RECOGNIZE (ORDER BY t PATTERN (A B+) DEFINE B AS {condition})"
        check_equal(switch, walk(30), text)
    assert switch.n_found == 0


# --- the order of the rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(3, 20))
@pytest.mark.parametrize("fewest", [0, 10**9])
def test_the_order_of_rows(monkeypatch, seed, fewest):
    monkeypatch.setattr(row_order, "FEWEST_ROWS", fewest)
    random = Random(seed)
    frame = random_frame(random, random.randint(1, 30))
    if random.random() < 0.3:
        frame = frame.sort_values("t", ignore_index=True)
    by = random.choice([(), ("k",), ("size",), ("k", "flag")])
    names = random.sample(["t", "price", "size", "name", "flag", "gap"], random.randint(0, 2))
    keys = [SortKey(name, random.random() < 0.4, random.random() < 0.4) for name in names]
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")

    def place(number: int) -> tuple:
        return tuple(rank(rows[number][key.column], key) for key in keys)

    groups: dict[tuple, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(tuple(row[name] for name in by), []).append(number)
    expected = [sorted(group, key=place) for group in groups.values()]
    found = row_order.order_of_rows(PandasSource(frame), by, keys).partitions()
    assert [part.tolist() for part in found] == expected


def rank(value: object, key: SortKey) -> tuple:
    if value is None:
        return (0 if key.nulls_first else 2,)
    return 1, Reversed(value) if key.descending else value


class Reversed:
    """A value that sorts before smaller ones."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return other.value < self.value

    def __eq__(self, other):
        return other.value == self.value


def test_a_change_of_the_frame_changes_the_order():
    frame = walk(30_000, n_keys=5)
    text = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS t >= 0)"
    assert cep.match(frame, text).to_frame()["t"].iloc[0] == 0
    frame["t"] = -frame["t"]
    frame.loc[0, "t"] = 1
    found = cep.match(frame, text).to_frame()
    assert found["t"].tolist() == [1]
    assert cep.match(frame, text.replace("t >= 0", "t < 0")).count() == len(frame) - 1


@pytest.mark.parametrize("seed", seeds(10, 400))
def test_pictures_and_funnels_by_kernels_equal_those_by_python(seed, monkeypatch):
    """Plots, boards and funnels read the matches in stream order, with the states of their rows."""
    random = Random(seed)
    frame = random_frame(random, random.choice([1, 5, 30, 120]))
    text = random_text(random).replace("price // 1", "price")  # SQL has no such sign
    source, query = PandasSource(frame), parse_match_recognize(text)
    assert isinstance(query, RowPatternQuery)
    made = []
    for fewest in (0, 10**9):
        monkeypatch.setattr(row_match_set, "FEWEST_ROWS", fewest)
        searched = searched_rows(source, bind_row_query(query, source.schema).ordered_by(source.clock))
        made.append([])
        try:
            found, n_matches = row_match_set.all_row_matches(searched)
            chosen = found.take(np.arange(len(found))[::-2])
            parts = [(one.first, one.last, one.number, one.state_of_item) for one in (found, chosen)]
            made[-1].append((n_matches, [values.tolist() for part in parts for values in part]))
        except CepError as error:
            made[-1].append(str(error))
        try:
            made[-1].append(count_row_funnel(searched))
        except CepError as error:
            made[-1].append(str(error))
    assert made[0] == made[1]


POWERS = [
    "EXP(x)", "LN(x)", "LOG10(x)", "LOG2(n)", "LOG(x)", "LOG(2, n)", "LOG(n, x)", "POWER(x, 2)", "POW(2, n)",
    "POWER(x, n)", "POWER(n, -x)", "POWER(n, 0.5)", "EXP(x - x)", "LN(ABS(x) + 1)", "EXP(PREV(x))",
]  # fmt: skip
ODD_NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.0,
    709.0,
    710.0,
    -800.0,
    1e-320,
    1e308,
    float("inf"),
    -float("inf"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", POWERS)
def test_powers_and_logarithms_are_vectors_with_the_values_of_python(switch, text, seed):
    random = Random(seed)
    xs = [random.choice([None, random.gauss(0, 20), random.gauss(0, 1), *ODD_NUMBERS]) for _ in range(200)]
    ns = [random.choice([None, 0, 1, 2, 2**53 + 1, 2**62, -(2**62), *range(-5, 20)]) for _ in range(200)]
    frame = pd.DataFrame({"t": range(200), "x": xs, "n": pd.array(ns, dtype="Int64")})
    rows = "ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS"
    check_equal(switch, frame, f"MATCH_RECOGNIZE (ORDER BY t MEASURES {text} AS m {rows} TRUE)")
    assert switch.n_vectors == 1
    test = f"CASE WHEN {text} IS NULL THEN 1 WHEN {text} > 1 THEN 2 ELSE 3 END"
    check_equal(switch, frame, f"MATCH_RECOGNIZE (ORDER BY t MEASURES {test} AS m {rows} TRUE)")
    assert switch.n_vectors == 2
    check_equal(switch, frame, f"MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS m {rows} {text} > 1)")


def test_powers_have_the_results_of_sql(switch):
    frame = pd.DataFrame({"t": range(5), "x": [2.0, 0.0, -8.0, None, 1000.0]})
    measures = "POWER(x, 3) AS p, EXP(x) AS e, LN(x) AS l, LOG10(x) AS d"
    query = (
        f"MATCH_RECOGNIZE (ORDER BY t MEASURES {measures} ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS TRUE)"
    )
    found = switch.answer(frame, query, kernels=True)[list("peld")]
    assert switch.n_vectors == 4
    missing = float("nan")
    expected = pd.DataFrame(
        {
            "p": [8.0, 0.0, -512.0, missing, 1e9],
            "e": [math.exp(2), 1.0, math.exp(-8), missing, missing],
            "l": [math.log(2), missing, missing, missing, math.log(1000)],
            "d": [math.log10(2), missing, missing, missing, 3.0],
        }
    )
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
