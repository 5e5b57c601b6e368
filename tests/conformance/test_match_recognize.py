"""The oracle of MATCH_RECOGNIZE gives the answers of Trino, Flink and Esper to the trees of their cases."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from cepkit.errors import CepError, PatternSyntaxError
from cepkit.events import FLOAT, INTEGER, OTHER, TEXT, TIME, ColumnType
from cepkit.language.match_recognize.parsing import parse_match_recognize
from tests.conformance.sql import check_window
from tests.oracle.match_recognize import MatchError, Query, partitions, result, result_of_window
from tests.support.row_pattern_cases import (
    FOLDER,
    bag,
    cases,
    of_sql,
    repeated,
    select_of_window,
    text_of_case,
)
from tests.support.row_patterns import engine_result, expression_tree, flat, kernel_result, pattern_tree

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout")

# Cases of Esper that ask what SQL has no words for.
EXPIRES = "a data window takes rows out of the stream while it runs"
INTERVAL = "an interval delays the report of a match by the clock"
SOME_ROWS = "the case says that there are rows, and not which"


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


@pytest.mark.parametrize(
    "case", cases("trino_match_recognize.json") + cases("flink_sql_match_recognize.json")
)
def test_answers_of_sql_engines(case):
    if case["expected_error"]:
        with pytest.raises(MatchError, match=case["expected_error"]):
            answered(case)
        return
    assert bag(answered(case)) == bag(case["expected_rows"])


# --- Esper -------------------------------------------------------------------------------------------------


def reason_against(case: dict[str, Any]) -> str | None:
    """Return why a case asks for more than SQL says; None when it asks what SQL answers."""
    if case["data_window"]["kind"] not in ("none", "keepall"):
        return EXPIRES
    if case["interval"] is not None:
        return INTERVAL
    return None if case["batch_expected"] or last_look(case) else SOME_ROWS


def last_look(case: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields and rows of the last look at everything visible."""
    looks = [step for step in case["steps"] if step.get("expect_all")]
    return {"fields": looks[-1]["fields"], "rows": looks[-1]["expect_all"]} if looks else None


@pytest.mark.parametrize("case", cases("esper_rowrecog.json"))
def test_answers_of_esper(case):
    reason = reason_against(case)
    if reason is not None:
        pytest.skip(reason)
    many = repeated(case["pattern_ast"])
    query = query_of({**case, "order_by": []})
    query = replace(
        query,
        define={name: of_sql(tree, many) for name, tree in query.define.items()},
        measures=[(name, of_sql(tree, many)) for name, tree in query.measures],
    )
    rows = [{**dict.fromkeys(case["columns"]), **row, "event": i} for i, row in enumerate(case["events"])]
    expected = case["batch_expected"] or last_look(case)
    found = [[row[name] for name in expected["fields"]] for row in result(query, rows)]
    assert bag(found) == bag(expected["rows"])


def test_only_cases_beyond_sql_are_left_out():
    reasons = [reason_against(parameter.values[0]) for parameter in cases("esper_rowrecog.json")]
    assert {reason: reasons.count(reason) for reason in set(reasons)} == {
        None: 31, EXPIRES: 3, INTERVAL: 5, SOME_ROWS: 1
    }  # fmt: skip


# --- texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", cases("trino_match_recognize.json") + cases("flink_sql_match_recognize.json")
)
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


# --- the engine --------------------------------------------------------------------------------------------


def column_type(values: list[Any]) -> ColumnType:
    kinds = {type(value) for value in values if value is not None}
    kind = (
        TEXT if kinds == {str} else INTEGER if kinds == {int} else FLOAT if kinds <= {int, float} else OTHER
    )
    return ColumnType(kind, nullable=True)


def test_windows_with_sub_queries_are_refused_with_the_reason():
    refused = 0
    for parameter in cases("trino_match_recognize.json"):
        case = parameter.values[0]
        if case["surface"] != "from_clause" and "subquery" in json.dumps([case["measures"], case["define"]]):
            with pytest.raises(PatternSyntaxError, match="a sub-query does not run here"):
                parse_match_recognize(select_of_window(case))
            refused += 1
    assert refused == 4


@pytest.mark.parametrize(
    "case", cases("trino_match_recognize.json") + cases("flink_sql_match_recognize.json")
)
@pytest.mark.parametrize("answer", [engine_result, kernel_result])
def test_the_engine_gives_the_answers(case, answer):
    if "subquery" in json.dumps([case["measures"], case["define"]]):
        pytest.skip("the language refuses sub-queries")
    if case["surface"] != "from_clause":
        check_window(case)
        return
    words = {"all": "ALL ROWS PER MATCH", "all_omit_empty": "ALL ROWS PER MATCH OMIT EMPTY MATCHES"}
    text = text_of_case(case).replace("\nAFTER", f"\n{words.get(case['rows_per_match'], '')}\nAFTER")
    within = case.get("within")
    if within:
        text = text.replace("\nDEFINE", f"\nWITHIN INTERVAL '{within['seconds']:.0f}' SECOND\nDEFINE")
    query = parse_match_recognize(text)
    rows = [dict(zip(case["columns"], row, strict=True)) for row in case["rows"]]
    schema = {name: column_type([row[name] for row in rows]) for name in case["columns"]}
    if within:
        schema[within["column"]] = ColumnType(TIME, "s")

    def found() -> list[list[Any]]:
        names = [re.sub(r"CAST\((\w+) AS \w+\)", r"\1", entry["expr"]) for entry in case["output"] or ()]
        parts = partitions(query_of(case), rows)
        outputs = [output for part in parts for output in answer(query, part, schema)]
        return [[output[name] for name in names] for output in outputs]

    if case["expected_error"]:
        with pytest.raises(CepError, match="has no row of"):
            found()
    else:
        assert bag(found()) == bag(case["expected_rows"])
