"""The engines of MATCH_RECOGNIZE equal the oracle, and are never exponential."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest

from cepkit.compile.shared.row_automaton import build_row_automaton, fewest_rows
from cepkit.engines.match_recognize import finding
from cepkit.engines.match_recognize.bound import prepare_rows
from cepkit.engines.match_recognize.matching import find_row_matches
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.events import INTEGER, TEXT, TIME, ColumnType
from cepkit.language.match_recognize.parsing import parse_match_recognize
from tests.oracle.generate_match_recognize import (
    random_late_query,
    random_query,
    random_rows,
    random_window,
)
from tests.oracle.match_recognize import MatchError, partitions, result_of_partition, result_of_window
from tests.support.row_patterns import engine_result, kernel_result, oracle_query, window_result
from tests.support.sizes import seeds

SCHEMA = {name: ColumnType(INTEGER, nullable=True) for name in "xy"}
SCHEMA |= {"k": ColumnType(TEXT), "t": ColumnType(TIME, "s")}


def answered(query, rows):
    """Return the rows by the search in Python, and check that kernels give the same."""
    by_kernels: object
    patience = -(10**9) if len(rows) % 2 else 1000  # whether all partial matches that fail are kept
    try:
        with patch.object(finding, "_PATIENCE", patience):
            by_kernels = kernel_result(query, rows, SCHEMA)
    except CepError as error:
        by_kernels = str(error)
    try:
        by_python = engine_result(query, rows, SCHEMA)
    except CepError as error:
        assert by_kernels == str(error)
        raise
    assert by_kernels == by_python, f"{query}\n{rows}"
    return by_python


def compare(seed: int, n_queries: int, make=random_query, **options) -> None:
    random = Random(seed)
    for _ in range(n_queries):
        query = make(random, **options)
        asked = oracle_query(query)
        for partition in partitions(asked, random_rows(random, random.randint(0, 7))):
            try:
                expected = result_of_partition(asked, partition)
            except MatchError:
                with pytest.raises(CepError, match="AFTER MATCH SKIP TO"):
                    answered(query, partition)
                continue
            assert answered(query, partition) == expected, f"{query}\n{partition}"


@pytest.mark.parametrize("seed", seeds(5, 200))
def test_random_queries(seed):
    compare(seed, 40, depth=2)


@pytest.mark.parametrize("seed", seeds(5, 100))
def test_random_deep_patterns(seed):
    compare(1000 + seed, 15, depth=3)


@pytest.mark.parametrize("seed", seeds(5, 100))
def test_random_conditions_on_earlier_labels(seed):
    compare(2000 + seed, 30, random_late_query)


def test_partial_matches_with_other_earlier_labels_are_not_the_same():
    compare(2067, 30, random_late_query)  # seed 67 has some that meet in one state


def compare_windows(seed: int, n_queries: int) -> None:
    random = Random(seed)
    for _ in range(n_queries):
        query = random_window(random)
        asked = oracle_query(query.rows)
        for partition in partitions(asked, random_rows(random, random.randint(0, 9))):
            after = len(partition) if query.frame_end is None else query.frame_end
            ends = [min(len(partition), i + 1 + after) for i in range(len(partition))]
            try:
                expected = result_of_window(asked, partition, ends, seek=query.seek)
            except MatchError:
                with pytest.raises(CepError, match="AFTER MATCH SKIP TO"):
                    window_result(query, partition, ends, SCHEMA)
                continue
            assert window_result(query, partition, ends, SCHEMA) == expected, f"{query}\n{partition}"


@pytest.mark.parametrize("seed", seeds(5, 100))
def test_random_windows(seed):
    compare_windows(seed, 40)


def count_of(text: str, values: list[int], **options) -> int:
    program, _ = prepare_rows(parse_match_recognize(text), {"x": ColumnType(INTEGER)})
    return len(find_row_matches(program, {"x": values}, len(values), **options))


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN (A+ B+) DEFINE B AS x > 5",
        "PATTERN ((A+)+ B) DEFINE A AS x = 1, B AS x = 2",
        "PATTERN ((A | B)* (A* B*)* C) DEFINE C AS x < PREV(x)",
    ],
)
def test_local_conditions_take_linear_time(text):
    assert count_of(text, [1] * 5000) == 0


def test_equal_histories_are_followed_once():
    assert count_of("PATTERN ((A | B)+ C) DEFINE C AS LAST(A.x) > 5", [1] * 60) == 0
    assert count_of("PATTERN ((A | B)+ C) DEFINE C AS SUM(A.x) > 500", [1] * 60) == 0


def test_a_budget_stops_the_rest():
    text = "PATTERN ((A | B)+ C) DEFINE C AS FIRST(CLASSIFIER()) = 'X'"
    with pytest.raises(UnsupportedQueryError, match=r"too many partial matches.*conditions of C depend"):
        count_of(text, [1] * 30, budget=10_000)


def test_long_bounds_are_refused():
    with pytest.raises(UnsupportedQueryError, match="bounds of the quantifiers are too large"):
        count_of("PATTERN ((A{1000} B){1000}) DEFINE B AS x > 5", [1])
    assert count_of("PATTERN (A{100,200}) DEFINE A AS x = 1", [1] * 500) == 3


def test_within_is_a_limit_of_the_search():
    text = "ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+ B) WITHIN INTERVAL '5' SECOND DEFINE B AS x > 2"
    query = parse_match_recognize(text)
    rows = [{"k": "p", "t": 2 * t, "x": t % 4, "y": 0} for t in range(12)]
    [partition] = partitions(oracle_query(query), rows)
    expected = result_of_partition(oracle_query(query), partition)
    assert answered(query, partition) == expected
    assert [row["n"] for row in expected] == [3, 3, 3]


@pytest.mark.parametrize(
    ("pattern", "fewest"),
    [
        ("A", 1),
        ("A B+ C", 3),
        ("A? B", 1),
        ("A* B*", 0),
        ("A{2,3} (B | C C)", 3),
        ("PERMUTE(A, B)", 2),
        ("A{0,2}", 0),
    ],
)  # fmt: skip
def test_the_fewest_rows_of_a_match(pattern, fewest):
    clause = parse_match_recognize(f"ORDER BY t PATTERN ({pattern}) DEFINE A AS x > 0")
    assert fewest_rows(build_row_automaton(clause.pattern)) == fewest
