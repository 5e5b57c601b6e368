"""The texts of MATCH_RECOGNIZE: trees, errors with carets, and printing that parses to the same tree."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from cepkit.errors import PatternSyntaxError
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, SortKey, WindowedRows
from tests.oracle.generate_match_recognize import random_query
from tests.oracle.match_recognize import matches
from tests.support.row_patterns import oracle_query
from tests.support.tables import cases

ERRORS = Path(__file__).resolve().parents[1] / "fixtures" / "match_recognize_errors.txt"

V = """
SELECT m.symbol, bottom * 2 AS twice, "max price"
FROM trades MATCH_RECOGNIZE (
  PARTITION BY symbol, "stock exchange"
  ORDER BY ts DESC NULLS FIRST, id
  MEASURES
    last(down.price) AS bottom, -- a comment, with a comma
    COUNT(u.*) AS n, SUM(DISTINCT up.price) AS s, FINAL LAST(CLASSIFIER(u)) AS "max price"
  ALL ROWS PER MATCH WITH UNMATCHED ROWS
  AFTER MATCH SKIP TO up
  PATTERN (^ start_ down+? (up | "x y"){,3} PERMUTE(start_, down up) $)
  WITHIN INTERVAL '1' HOUR
  SUBSET u = (up, down)
  DEFINE
    down AS price < PREV(down.price, 2) AND /* , DEFINE */ x BETWEEN 3 AND 4,
    up AS NOT up.price <= -PREV(LAST(up.price)) OR name NOT LIKE 'a%'
) AS m
WHERE m.bottom > 3 ORDER BY twice DESC LIMIT 5;
"""


def test_every_clause():
    query = parse_match_recognize(V)
    assert isinstance(query, SelectedRows)
    assert (query.table, query.alias, query.limit) == ("trades", "M", 5)
    assert [name for name, _ in query.columns] == ["symbol", "twice", "max price"]
    assert query.where == ex.Comparison(">", ex.Attribute("bottom"), ex.Literal(3))
    assert query.order_by == (SortKey("twice", descending=True),)
    rows = query.rows
    assert rows.partition_by == ("symbol", "stock exchange")
    assert rows.order_by == (SortKey("ts", True, True), SortKey("id"))
    assert rows.rows_per_match == "all_with_unmatched"
    assert (rows.after_match, rows.after_match_variable) == ("to_last", "UP")
    assert rows.within == "1 hour"
    assert rows.subset == (("U", ("UP", "DOWN")),)
    assert str(rows.pattern) == '^ START_ DOWN+? (UP | "x y"){,3} PERMUTE(START_, DOWN UP) $'
    assert dict(rows.measures)["n"] == rp.RowAggregate("count", variable="U")
    assert dict(rows.measures)["s"] == rp.RowAggregate("sum", (ex.Reference("UP", "price"),), distinct=True)
    label = rp.Navigation("last", rp.Classifier("U"), final=True)
    assert dict(rows.measures)["max price"] == label
    assert [name for name, _ in rows.define] == ["DOWN", "UP"]
    assert parse_match_recognize(str(query)) == query


@pytest.mark.parametrize(
    ("clause", "field", "value"),
    [
        ("ONE ROW PER MATCH", "rows_per_match", "one"),
        ("ALL ROWS PER MATCH", "rows_per_match", "all"),
        ("all rows per match show empty matches", "rows_per_match", "all"),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", "rows_per_match", "all_omit_empty"),
        ("AFTER MATCH SKIP PAST LAST ROW", "after_match", "past_last_row"),
        ("AFTER MATCH SKIP TO NEXT ROW", "after_match", "to_next_row"),
        ("AFTER MATCH SKIP TO FIRST a", "after_match", "to_first"),
        ("AFTER MATCH SKIP TO LAST a", "after_match", "to_last"),
        ("MEASURES measures.x AS y", "measures", (("y", ex.Reference("MEASURES", "x")),)),
    ],
)
def test_one_clause(clause, field, value):
    query = parse_match_recognize(f"{clause} PATTERN (a measures) DEFINE a AS x > 3")
    assert getattr(query, field) == value


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x = 1", ex.Comparison("==", ex.Attribute("x"), ex.Literal(1))),
        ("a.x <> 'it''s'", ex.Comparison("!=", ex.Reference("A", "x"), ex.Literal("it's"))),
        ('"a"."Unit Price"', None),
        ("ts > TIMESTAMP '2020-01-01'", ex.Comparison(">", ex.Attribute("ts"), rp.TimeLiteral("2020-01-01"))),
        ("INTERVAL '5' MINUTE", rp.IntervalLiteral("5 min")),
        ("INTERVAL '-5' MINUTE", ex.Negative(rp.IntervalLiteral("5 min"))),
        ("INTERVAL -'5' MINUTES", ex.Negative(rp.IntervalLiteral("5 min"))),
        ("INTERVAL '100' DAY(3)", rp.IntervalLiteral("100 d")),
        ("INTERVAL '10.5' SECOND(4, 1)", rp.IntervalLiteral("10.5 s")),
        ("INTERVAL '1 02:00:00' DAY TO SECOND", rp.IntervalLiteral("1 d 2 h")),
        ("INTERVAL '26:30' HOUR TO MINUTE", rp.IntervalLiteral("1 d 2 h 30 min")),
        ("INTERVAL '1:02.25' MINUTE TO SECOND(2)", rp.IntervalLiteral("1 min 2 s 250 ms")),
        ("INTERVAL '1 06' DAY TO HOUR", rp.IntervalLiteral("1 d 6 h")),
        ("DATE '2020-01-01'", rp.TimeLiteral("2020-01-01")),
        ("to", ex.Attribute("to")),
        ("x || 'a'", rp.Joined(ex.Attribute("x"), ex.Literal("a"))),
        ("cast(x AS decimal(10, 2))", rp.Cast(ex.Attribute("x"), "decimal(10,2)")),
        ("cast", ex.Attribute("cast")),
        ("running", ex.Attribute("running")),
        ("final sum(x)", rp.RowAggregate("sum", (ex.Attribute("x"),), final=True)),
        ("abs(-x)", ex.Call("abs", (ex.Negative(ex.Attribute("x")),))),
        ("x IS NOT NULL", ex.Not(ex.IsNull(ex.Attribute("x")))),
        ("ARRAY[]", rp.ArrayOf(())),
        ("match_number() * 2", ex.Arithmetic("*", rp.MatchNumber(), ex.Literal(2))),
        (
            "CASE WHEN x > 1 THEN 2 ELSE 3 END",
            rp.CaseWhen((ex.Comparison(">", ex.Attribute("x"), ex.Literal(1)), ex.Literal(2)), ex.Literal(3)),
        ),
        ("x - -1", ex.Arithmetic("-", ex.Attribute("x"), ex.Negative(ex.Literal(1)))),
    ],
)
def test_expressions(text, tree):
    pattern = 'A "a"'
    query = parse_match_recognize(f"MEASURES {text} AS m PATTERN ({pattern}) DEFINE A AS true")
    [(_, found)] = query.measures
    assert tree is None or found == tree
    assert parse_match_recognize(str(query)) == query


WINDOW = """
SELECT t.id, val OVER w, max(value) OVER w - value AS rest, row_number() OVER w AS n
FROM trades AS t WHERE value > 3
WINDOW w AS (
  PARTITION BY symbol ORDER BY ts DESC
  MEASURES last(down.price) AS val, classifier(u) AS label
  ROWS BETWEEN CURRENT ROW AND 12 FOLLOWING
  AFTER MATCH SKIP TO LAST down
  SEEK PATTERN (start_ down+? | up)
  SUBSET u = (up, down)
  DEFINE down AS price < PREV(down.price)
) ORDER BY rest, id DESC LIMIT 25
"""


def test_windows():
    query = parse_match_recognize(WINDOW)
    assert isinstance(query, WindowedRows)
    assert (query.table, query.alias, query.name, query.limit) == ("trades", "T", "W", 25)
    assert (query.frame_end, query.seek) == (12, True)
    assert (query.rows.after_match, query.rows.partition_by) == ("to_last", ("symbol",))
    assert query.where == ex.Comparison(">", ex.Attribute("value"), ex.Literal(3))
    columns = dict(query.columns)
    assert list(columns) == ["id", "val", "rest", "n"]
    assert columns["val"] == rp.OverWindow(ex.Attribute("val"), "W")
    most = rp.OverWindow(rp.RowAggregate("max", (ex.Attribute("value"),)), "W")
    assert columns["rest"] == ex.Arithmetic("-", most, ex.Attribute("value"))
    assert parse_match_recognize(str(query)) == query


@pytest.mark.parametrize(
    ("frame", "end"),
    [
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", None),
        ("ROWS BETWEEN CURRENT ROW AND CURRENT ROW", 0),
        ("ROWS CURRENT ROW", 0),
        ("rows between current row and rows following", "rows"),
        ('ROWS BETWEEN CURRENT ROW AND "Number" FOLLOWING', "Number"),
    ],
)
def test_frames(frame, end):
    query = parse_match_recognize(
        f"SELECT * FROM t WINDOW w AS (ORDER BY x {frame} PATTERN (A) DEFINE A AS x > 3)"
    )
    assert query.frame_end == end and query.columns is None and not query.seek
    assert parse_match_recognize(str(query)) == query


def test_what_engines_added():
    query = parse_match_recognize(
        """ORDER BY ts
        MEASURES MATCH_ROWTIME() AS until, MATCH_ROWTIME(ts) AS until2, TIMED_OUT() AS late,
          MATCH_SEQUENCE_NUMBER() AS i, COUNT_IF(x > 3) AS n, CASE x WHEN 1 THEN 2 END AS c
        ONE ROW PER MATCH WITH TIMED OUT MATCHES
        PATTERN (a b) WITHIN 10 MINUTES DEFINE a AS x > LAG(x, 2) AND x < LEAD(x)"""
    )
    measures = dict(query.measures)
    assert measures["until"] == measures["until2"] == rp.MatchRowtime(ex.Attribute("ts"))
    assert measures["i"] == rp.RowAggregate("count", final=False)
    assert query.timed_out and query.rows_per_match == "one" and query.within == "10 minutes"
    assert print_sql(query.define[0][1]) == "x > PREV(x, 2) AND x < NEXT(x)"
    assert parse_match_recognize(str(query)) == query


PLAIN = "FROM t MATCH_RECOGNIZE (MEASURES A.x AS a, A.y AS b PATTERN (A) DEFINE A AS x > 3) m"


@pytest.mark.parametrize(
    ("listed", "names"),
    cases("selected_columns", "names of selected columns"),
)  # fmt: skip
def test_names_of_selected_columns(listed, names):
    query = parse_match_recognize(f"SELECT {listed} {PLAIN}")
    assert [name for name, _ in query.columns] == names
    assert parse_match_recognize(str(query)) == query


def test_a_star_alone_is_no_list():
    assert parse_match_recognize(f"SELECT m.* {PLAIN}").columns is None
    assert parse_match_recognize(f"SELECT * {PLAIN}").columns is None


def test_measures_without_as():
    text = 'MEASURES MATCH_NUMBER() session_id, A.x "low", A.x + 1 AS b PATTERN (A) DEFINE A AS x > 3'
    query = parse_match_recognize(text)
    assert [name for name, _ in query.measures] == ["session_id", "low", "b"]
    assert dict(query.measures)["low"] == ex.Reference("A", "x")


@pytest.mark.parametrize(
    ("end", "limit", "offset"),
    [
        ("LIMIT 2 OFFSET 1", 2, 1),
        ("OFFSET 1 ROW", None, 1),
        ("OFFSET 12 ROWS LIMIT 2", 2, 12),
        ("offset 1 rows fetch next 2 rows only", 2, 1),
        ("FETCH FIRST ROW ONLY", 1, 0),
        ("FETCH NEXT 3 ROWS ONLY OFFSET 4", 3, 4),
        ("LIMIT ALL", None, 0),
        ("", None, 0),
    ],
)
def test_rows_that_are_kept(end, limit, offset):
    query = parse_match_recognize(f"SELECT a {PLAIN} {end}")
    assert (query.limit, query.offset) == (limit, offset)
    assert parse_match_recognize(str(query)) == query


def test_keys_of_the_result():
    a, b = ex.Attribute("a"), ex.Attribute("b")
    keys = "2 DESC, m.y NULLS FIRST, 1, -m.a ASC, a + b DESC NULLS LAST, offset"
    query = parse_match_recognize(f"SELECT a + b, b AS y {PLAIN} ORDER BY {keys}")
    assert query.order_by == (
        SortKey("y", True), SortKey("y", False, True), SortKey("a + b"),
        SortKey("-a", value=ex.Negative(a)),
        SortKey("a + b", True, value=ex.Arithmetic("+", a, b)), SortKey("offset"),
    )  # fmt: skip
    assert parse_match_recognize(str(query)) == query
    query = parse_match_recognize(f"SELECT *, b AS y {PLAIN} ORDER BY 2 DESC")
    assert query.order_by == (SortKey("2", True, value=ex.Literal(2)),)
    assert parse_match_recognize(str(query)) == query


def test_numbers_have_several_digits():
    text = "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (a{10,12}) DEFINE a AS x > 1.25) LIMIT 100"
    query = parse_match_recognize(text)
    assert query.limit == 100 and str(query.rows.pattern) == "A{10,12}"


def test_spans_are_places_in_the_whole_text():
    text = "MATCH_RECOGNIZE (MEASURES last(A.x) AS y PATTERN (A B+) DEFINE B AS x > 3)"
    query = parse_match_recognize(text)
    start, stop = query.measures[0][1].span
    assert text[start:stop] == "last(A.x)"
    start, stop = query.pattern.parts[1].span
    assert text[start:stop] == "B+"


def error_cases():
    lines = [line for line in ERRORS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    blocks = "\n".join(lines).strip().split("\n\n")
    return [block.strip("\n").split("\n", 1) for block in blocks]


@pytest.mark.parametrize(("text", "message"), error_cases())
def test_errors(text, message):
    with pytest.raises(PatternSyntaxError) as caught:
        parse_match_recognize(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("seed", range(3))
def test_random_texts_raise_no_other_error(seed):
    random = Random(seed)
    for _ in range(60):
        text = list(str(random_query(random)))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(text))
            text[at : at + random.randint(0, 2)] = random.choice(
                ["", "(", ")", "'", '"', ",", " AS ", "{", "x"]
            )
        try:
            parse_match_recognize("".join(text))
        except PatternSyntaxError as error:
            assert "\n" in str(error)


def test_the_oracle_runs_parsed_queries():
    query = parse_match_recognize(
        "ORDER BY t PATTERN (a+ b) WITHIN INTERVAL '1' MINUTE DEFINE a AS x > 1, b AS x < prev(x)"
    )
    assert isinstance(query, RowPatternQuery)
    rows = [{"t": 10 * t, "x": x} for t, x in enumerate([0, 2, 3, 1, 5])]
    assert [len(match.labels) for match in matches(oracle_query(query), rows)] == [3]
