"""The oracle of MATCH_RECOGNIZE on rows that can be checked by eye."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.oracle.match_recognize import (
    Query,
    matches,
    result,
)

A, B, C = ({"var": name} for name in "ABC")


def seq(*parts):
    return {"seq": list(parts)}


def alt(*parts):
    return {"alt": list(parts)}


def times(body, least, most=None, *, greedy=True):
    return {"quant": body, "min": least, "max": most, "greedy": greedy}


def column(name, variable=None):
    return {"col": name} | ({"var": variable} if variable else {})


def equals(tree, constant):
    return {"op": "=", "args": [tree, {"lit": constant}]}


def rows_of(values):
    return [{"id": i, "value": value} for i, value in enumerate(values)]


def labels_of(pattern, values, **clauses):
    """Return the labels of the matches; excluded rows are in lower case."""
    found = matches(Query(pattern, **clauses), rows_of(values))
    return [
        "".join(label.lower() if excluded else label for label, excluded in match.labels) for match in found
    ]


IS = {name: equals(column("value"), name) for name in "ABC"}


def measured(measures, pattern, values, rows_per_match="all", **clauses):
    query = Query(pattern, measures=list(measures.items()), rows_per_match=rows_per_match, **clauses)
    return [[row.get("id"), *(row[name] for name in measures)] for row in result(query, rows_of(values))]


def test_arithmetic():
    def of(tree):
        [row] = result(Query({"var": "A"}, measures=[("m", tree)]), [{"x": 1}])
        return row["m"]

    def call(name, *values):
        return of({"fn": name, "args": [{"lit": one} for one in values]})

    assert [call("mod", one, 3) for one in (-7, 7, -7.5)] == [-1, 1, -1.5]
    assert of({"op": "%", "args": [{"lit": -7}, {"lit": -3}]}) == -1 and call("mod", 1, 0) is None
    assert [call("round", one) for one in (2.5, -2.5, 1.4)] == [3, -3, 1]
    assert call("log", 2, 8) == 3
    assert of({"cast": {"lit": True}, "type": "varchar"}) == "true"


def test_within_is_exclusive():
    assert labels_of(times(A, 1), [0, 3, 5, 9, 10], within=("value", 5)) == ["AA", "AA", "A"]


def test_partial_matches_that_ran_out_of_time():
    late = {"late": {"timed_out": True}, "n": {"agg": "count", "args": [], "star": True}}
    pattern = seq(A, {"var": "ANY"}, B)
    rows = [
        {"t": t, "value": value} for t, value in [(0, "A"), (1, "X"), (5, "A"), (6, "X"), (7, "B"), (8, "A")]
    ]
    query = Query(pattern, IS, list(late.items()), within=("t", 3), timed_out=True)
    # The last row still has time, as long as no row comes at 11 or later.
    expected = [{"late": True, "n": 2}, {"late": False, "n": 3}]
    assert result(query, rows) == expected
    other = {"t": 11, "value": None, "k": 1}
    by_key = replace(query, partition_by=["k"])
    rows = [{**row, "k": 0} for row in rows]
    assert result(by_key, [*rows, other]) == [{"k": 0, **row} for row in [*expected, {"late": True, "n": 1}]]


def test_one_partial_match_for_each_first_row():
    measures = [("labels", {"agg": "array_agg", "args": [{"classifier": None}]})]
    either = alt(seq(A, B), seq({"var": "ANY"}, {"var": "ANY"}))
    query = Query(seq(either, C), IS, measures, within=("t", 9), timed_out=True)
    rows = [{"t": t, "value": value} for t, value in [(0, "A"), (1, "B"), (9, "Z"), (30, "Z")]]
    assert [row["labels"] for row in result(query, rows)] == [["A", "B"], ["ANY", "ANY"], ["ANY"]]


def test_rowtime_is_the_time_of_the_last_row():
    measures = {"until": {"match_rowtime": "id"}}
    assert measured(measures, seq(A, B), "AB", define=IS) == [[0, 1], [1, 1]]
    assert measured(measures, times(A, 0), "B", define=IS) == [[0, None]]


def test_moments():
    names = ["stddev", "stddev_pop", "variance", "var_pop"]
    measures = {name: {"agg": name, "args": [column("value", "A")]} for name in names}
    [[_, *values]] = measured(measures, seq({"anchor": "start"}, times(A, 1)), [2, 4, 9], "one")
    assert values == pytest.approx([13**0.5, (26 / 3) ** 0.5, 13, 26 / 3])
    [[_, *values]] = measured(measures, seq({"anchor": "start"}, A), [2, 4, 9], "one")
    assert values == [None, 0, None, 0]
