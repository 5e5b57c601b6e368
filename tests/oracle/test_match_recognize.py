"""The oracle of MATCH_RECOGNIZE on rows that can be checked by eye."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.oracle.match_recognize import (
    SKIP_TO_FIRST_ROW,
    SKIP_TO_MISSING_VARIABLE,
    MatchError,
    Query,
    matches,
    result,
    result_of_window,
)

A, B, C = ({"var": name} for name in "ABC")
EMPTY = {"empty": True}


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


@pytest.mark.parametrize(
    ("pattern", "values", "expected"),
    [
        (seq(A, B), "ABAB", ["AB", "AB"]),
        (alt(A, seq(A, B)), "AB", ["A"]),  # the left option wins, although the right one is longer
        (times(A, 1), "AAAB", ["AAA"]),
        (times(A, 1, greedy=False), "AAB", ["A", "A"]),
        (seq(times(A, 0, greedy=False), B), "AAB", ["AAB"]),
        (times(A, 2, 3), "AAAAA", ["AAA", "AA"]),
        (times(A, 2, 3, greedy=False), "AAAAA", ["AA", "AA"]),
        (times(A, 0), "AB", ["A", ""]),
        (EMPTY, "A", [""]),
        ({"permute": [A, B, C]}, "CABBCA", ["CAB", "BCA"]),
        (seq(A, {"exclude": times(B, 1)}, C), "ABBC", ["AbbC"]),
        (seq({"anchor": "start"}, A), "AA", ["A"]),
        (seq(A, {"anchor": "end"}), "AA", ["A"]),
    ],
)
def test_preference(pattern, values, expected):
    assert labels_of(pattern, values, define=IS) == expected


def test_a_repetition_that_takes_no_row_is_the_last():
    maybe = alt(EMPTY, A, C)  # prefers no row
    assert labels_of(times(maybe, 0), "AAA") == ["", "", ""]
    # A first repetition must take a row here, and the second then takes none.
    assert labels_of(seq(times(maybe, 0), times(B, 1, 2), {"anchor": "end"}), "XXX") == ["ABB"]


def test_a_variable_without_definition_takes_every_row():
    assert labels_of(seq(A, {"var": "ANY"}), "AZ", define=IS) == ["AANY"]


def test_a_definition_sees_the_row_that_it_decides_on():
    three = {"op": "<=", "args": [{"agg": "sum", "args": [column("value", "A")]}, {"lit": 3}]}
    assert labels_of(times(A, 1), [1, 2, 3, 4, 1], define={"A": three}) == ["AA", "A", "A"]


@pytest.mark.parametrize(
    ("skip", "variable", "expected"),
    [
        ("past_last_row", None, ["ABB", "ABB"]),
        ("to_next_row", None, ["ABB", "ABB"]),
        ("to_first", "B", ["ABB", "ABB"]),
        ("to_last", "U", ["ABB", "ABB"]),
    ],
)
def test_skips(skip, variable, expected):
    clauses = {"define": IS, "subset": {"U": ["A", "B"]}, "skip": skip, "skip_variable": variable}
    assert labels_of(seq(A, times(B, 1)), "ABBABB", **clauses) == expected


def test_overlaps():
    pattern = seq(A, A)
    assert labels_of(pattern, "AAA", define=IS, skip="to_next_row") == ["AA", "AA"]
    assert labels_of(pattern, "AAA", define=IS, skip="to_last", skip_variable="A") == ["AA", "AA"]


@pytest.mark.parametrize(
    ("skip", "variable", "error"),
    [("to_first", "A", SKIP_TO_FIRST_ROW), ("to_last", "C", SKIP_TO_MISSING_VARIABLE)],
)
def test_errors_of_skips(skip, variable, error):
    with pytest.raises(MatchError, match=error):
        labels_of(seq(A, B), "AB", define=IS, skip=skip, skip_variable=variable)


def test_an_empty_match_skips_to_the_next_row():
    assert labels_of(times(A, 0), "B", define=IS, skip="to_first", skip_variable="A") == [""]


def measured(measures, pattern, values, rows_per_match="all", **clauses):
    query = Query(pattern, measures=list(measures.items()), rows_per_match=rows_per_match, **clauses)
    return [[row.get("id"), *(row[name] for name in measures)] for row in result(query, rows_of(values))]


def test_running_and_final():
    last = {"nav": "last", "arg": column("id", "A")}
    measures = {"running": last, "final": {**last, "sem": "final"}}
    assert measured(measures, seq(times(A, 2), B), "AAB", define=IS) == [[0, 0, 1], [1, 1, 1], [2, 1, 1]]
    assert measured(measures, seq(times(A, 2), B), "AAB", "one", define=IS) == [[None, 1, 1]]


def test_navigation():
    first = {"nav": "first", "arg": column("id", "A"), "offset": 1}
    measures = {
        "second": first,
        "after": {"nav": "next", "arg": first, "offset": 2},
        "before": {"nav": "prev", "arg": column("id", "B"), "offset": 9},
        "label": {"nav": "prev", "arg": {"classifier": None}},
    }
    pattern = seq(times(A, 1), B)
    assert measured(measures, pattern, "ZAABZ", "one", define=IS) == [[None, 2, 4, None, "A"]]


def test_empty_and_unmatched_rows():
    number = {"number": {"match_number": True}, "n": {"agg": "count", "args": [], "star": True}}
    star, plus = times(A, 0), times(A, 1)
    assert measured(number, star, "AB", define=IS) == [[0, 1, 1], [1, 2, 0]]
    assert measured(number, star, "AB", "all_omit_empty", define=IS) == [[0, 1, 1]]
    assert measured(number, star, "AB", "one", define=IS) == [[None, 1, 1], [None, 2, 0]]
    assert measured(number, plus, "BAB", "all_with_unmatched", define=IS) == [
        [0, None, None], [1, 1, 1], [2, None, None]
    ]  # fmt: skip


def test_excluded_rows_count_and_are_not_shown():
    count = {"n": {"agg": "count", "args": [column("id")]}}
    pattern = seq(A, {"exclude": B}, C)
    assert measured(count, pattern, "ABC", define=IS) == [[0, 1], [2, 3]]


def test_aggregates():
    def over(name, *arguments, **more):
        return {"agg": name, "args": list(arguments), **more}

    measures = {
        "of_subset": over("count", column("id", "U")),
        "distinct": over("count", column("value"), distinct=True),
        "labels": over("array_agg", {"classifier": None}),
        "numbers": over("sum", {"match_number": True}),
        "rows": {"agg": "count", "args": [], "star": True, "var": "B"},
        "none": over("sum", column("id", "C")),
    }
    pattern = seq(times(A, 1), times(B, 1), times(C, 0))
    subset = {"U": ["B", "C"]}
    assert measured(measures, pattern, "AABBB", "one", define=IS, subset=subset) == [
        [None, 3, 2, list("AABBB"), 5, 3, None]
    ]


def test_null_is_neither_true_nor_false():
    never = {"op": "not", "args": [equals(column("value"), 1)]}
    assert labels_of(A, [None, 1, 2], define={"A": never}) == ["A"]


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


def test_order_and_partitions():
    rows = [{"k": k, "t": t} for k, t in [("x", 1), (None, 5), ("x", None), ("x", 3), (None, 7)]]
    query = Query(
        times(A, 1),
        measures=[("all", {"agg": "array_agg", "args": [column("t")]})],
        partition_by=["k"],
        order_by=[("t", True, True)],
    )
    assert result(query, rows) == [{"k": "x", "all": [None, 3, 1]}, {"k": None, "all": [7, 5]}]


def test_within_is_exclusive():
    assert labels_of(times(A, 1), [0, 3, 5, 9, 10], within=("value", 5)) == ["AA", "AA", "A"]


def test_window():
    measures = [("n", {"agg": "count", "args": [], "star": True})]
    query = Query(seq(A, times(B, 1)), define=IS, measures=measures)
    rows = rows_of("ABBXAB")
    assert [row["n"] for row in result_of_window(query, rows, [6] * 6)] == [3, None, None, None, 2, None]
    assert [row["n"] for row in result_of_window(query, rows, [2, 3, 4, 5, 6, 6])] == [2] + [None] * 3 + [
        2,
        None,
    ]
    found = result_of_window(query, rows[3:], [3, 3, 3], seek=True)
    assert [row["n"] for row in found] == [2, None, None]


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
