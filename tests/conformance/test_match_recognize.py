"""The oracle of MATCH_RECOGNIZE gives the answers of Trino and Flink to the trees of their cases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from cepkit.errors import PatternSyntaxError
from cepkit.language.match_recognize.parsing import parse_match_recognize
from tests.oracle.match_recognize import MatchError, Query, partitions, result, result_of_window
from tests.support.row_pattern_cases import (
    FOLDER,
    bag,
    cases,
    text_of_case,
)
from tests.support.row_patterns import expression_tree, flat, pattern_tree

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout")

OF_SQL = cases("trino_match_recognize.json") + cases("flink_sql_match_recognize.json")


def without_queries(tree: Any) -> Any:
    """Return a tree with the constants of its sub-queries in their places."""
    if isinstance(tree, list):
        return [without_queries(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if "scalar_subquery" in tree:
        return tree["scalar_subquery"]
    if "exists_subquery" in tree:
        return {"lit": True}
    if tree.get("op") == "in" and "subquery" in tree:
        return {"op": "in", "args": [*map(without_queries, tree["args"]), tree["subquery"]["select"]]}
    return {name: without_queries(part) for name, part in tree.items()}


def query_of(case: dict[str, Any]) -> Query:
    within = case.get("within")
    return Query(
        pattern=case["pattern_ast"],
        define={name: without_queries(entry["ast"]) for name, entry in case["define"].items()},
        measures=[(entry["name"], without_queries(entry["ast"])) for entry in case["measures"]],
        subset=case.get("subset", {}),
        rows_per_match=case.get("rows_per_match") or "one",
        skip=case["after_match_skip"]["mode"],
        skip_variable=case["after_match_skip"].get("var"),
        partition_by=case["partition_by"],
        order_by=[
            (entry["expr"], entry["dir"] == "desc", False)
            for entry in case["order_by"]
            if isinstance(entry, dict)
        ],
        within=within and (within["column"], within["seconds"]),
    )


# --- Trino and Flink ---------------------------------------------------------------------------------------


def answered(case: dict[str, Any]) -> list[list[Any]]:
    """Return the output columns of a case."""
    query = query_of(case)
    rows = [dict(zip(case["columns"], row, strict=True)) for row in case["rows"]]
    if case["surface"] == "from_clause":
        found = result(query, rows)
    else:
        found = [row for partition in partitions(query, rows) for row in windowed(case, query, partition)]
    names = [re.sub(r"CAST\((\w+) AS \w+\)", r"\1", entry["expr"]) for entry in case["output"] or ()]
    return [[row[name] for name in names] for row in found]


def windowed(case: dict[str, Any], query: Query, rows: list[Any]) -> list[dict[str, Any]]:
    """Return the rows of one partition, each with the measures, and with aggregates over its match."""
    ends = [frame_end(case["frame"], row, i, len(rows)) for i, row in enumerate(rows)]
    over = [entry["expr"] for entry in case["output"] or () if entry.get("over_window")]
    if over:
        [function, column] = over[0].rstrip(")").split("(")
        measure = (over[0], {"agg": function, "args": [{"col": column}]})
        query = replace(query, measures=[*query.measures, measure])
    return result_of_window(query, rows, ends, seek=case["search_mode"] == "seek")


def frame_end(frame: dict[str, str], row: Any, i: int, n_rows: int) -> int:
    if frame["end"] == "unbounded_following":
        return n_rows
    n = frame.get("n", "0") if frame["end"] == "following" else "0"
    return min(n_rows, i + 1 + int(row.get(n, n)))


@pytest.mark.parametrize("case", OF_SQL)
def test_answers_of_sql_engines(case):
    if case["expected_error"]:
        with pytest.raises(MatchError, match=case["expected_error"]):
            answered(case)
        return
    assert bag(answered(case)) == bag(case["expected_rows"])


# --- texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", OF_SQL)
def test_texts_make_the_trees_of_the_cases(case):
    text = text_of_case(case)
    trees = [entry["ast"] for entry in [*case["measures"], *case["define"].values()]]
    if "subquery" in json.dumps(trees):
        with pytest.raises(PatternSyntaxError, match="a sub-query does not run here"):
            parse_match_recognize(text)
        return
    query = parse_match_recognize(text)
    assert flat(pattern_tree(query.pattern)) == flat(case["pattern_ast"])
    assert [flat(expression_tree(tree)) for _, tree in query.define] == [
        flat(entry["ast"]) for entry in case["define"].values()
    ]
    assert [flat(expression_tree(tree)) for _, tree in query.measures] == [
        flat(entry["ast"]) for entry in case["measures"]
    ]
    assert parse_match_recognize(str(query)) == query
