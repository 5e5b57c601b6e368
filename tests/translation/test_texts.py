"""What the translations look like, and that the engines give equal results for both texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.translation.portable import name_text

DEFINE = {"low": "price < 3", "up": "price > prev(price)", "down": "price <= prev(price)"}
TYPED = {"event_type": "kind", "order_by": "ts"}


def test_a_chain_in_every_language():
    query = cep.regex_query(
        "low up", define={name: DEFINE[name] for name in ("low", "up")}, partition_by="sym", order_by="ts"
    )
    assert cep.translate(query, "sase") == (
        'df.cep.match(\n    """PATTERN SEQ(_ low, _ up)\n'
        'WHERE partition_contiguity AND [sym] AND low.price < 3 AND up.price > low.price""",\n'
        "    order_by='ts',\n    after_match='past_last',\n"
        "    measures={'first_ts': 'low.ts', 'last_ts': 'up.ts', 'count': 'count()'},\n)"
    )
    assert cep.translate(query, "match_recognize").splitlines() == [
        "MATCH_RECOGNIZE (",
        "  PARTITION BY sym",
        "  ORDER BY ts",
        "  MEASURES LOW.ts AS first_ts, UP.ts AS last_ts, COUNT(*) AS count",
        "  ONE ROW PER MATCH",
        "  AFTER MATCH SKIP PAST LAST ROW",
        "  PATTERN (LOW UP)",
        "  DEFINE LOW AS LOW.price < 3, UP AS UP.price > PREV(UP.price)",
        ")",
    ]
    assert cep.translate(query, "python") == (
        "pattern = cep.seq('low', 'up')\ndf.cep.match(\n    pattern,\n"
        "    define={'low': 'price < 3', 'up': 'price > prev(price)'},\n"
        "    partition_by='sym',\n    order_by='ts',\n)"
    )
    assert cep.translate(query, "flink_cep_java").splitlines() == [
        'Pattern<Event, ?> pattern = Pattern.<Event>begin("low", AfterMatchSkipStrategy.skipPastLastEvent())',
        "    .where(SimpleCondition.of(e -> e.getPrice() < 3))",
        '    .next("up")',
        "    .where(new IterativeCondition<Event>() {",
        "        @Override",
        "        public boolean filter(Event e, Context<Event> ctx) throws Exception {",
        '            Event low = ctx.getEventsForPattern("low").iterator().next();',
        "            return e.getPrice() > low.getPrice();",
        "        }",
        "    });",
        "PatternStream<Event> matches = CEP.pattern(stream.keyBy(e -> e.getSym()), pattern);",
        'DataStream<Row> rows = matches.select(m -> Row.of(m.get("low").get(0).getTs(), '
        'm.get("up").get(0).getTs(), 2));  // first_ts, last_ts, count',
    ]


def test_a_sequence_in_siddhi_and_in_python():
    text = "PATTERN SEQ(Order o, Ship s) WHERE skip_till_next_match AND s.item == o.item WITHIN 5 min"
    assert cep.translate(text, "siddhi", **TYPED).splitlines() == [
        "from every o=`Order` -> s=Ship[item == o.item] within 300 sec",
        "select o.ts as o_ts, s.ts as s_ts",
        "insert into Matches;",
    ]
    assert cep.translate(text, "python", **TYPED).splitlines() == [
        "o, s = cep.event('o', 'Order'), cep.event('s', 'Ship')",
        "query = cep.seq(o, s).where(s['item'] == o['item']).strategy('next').within('5 min')",
        "df.cep.match(query, event_type='kind', order_by='ts')",
    ]


def test_loops_keep_their_pattern_where_the_ends_are_unique():
    define = DEFINE | {"low": "price > prev(price)"}
    made = cep.translate("low (up | low)+ down", "match_recognize", define=define, order_by="ts")
    assert "PATTERN (LOW (UP | LOW)+ DOWN)" in made
    text = """MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(ts) AS s, LAST(price) AS p
        PATTERN (A B*? C) DEFINE A AS price < 2, B AS price < 3, C AS price >= 3)"""
    assert cep.translate(text, "regex").splitlines()[1] == "    'a b* c',"


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize(
    ("query", "keywords", "targets"),
    [
        (
            "low up down",
            {"define": DEFINE, "partition_by": "sym", "order_by": "ts"},
            ("sase", "match_recognize"),
        ),
        (
            "up+ down",
            {"define": {n: DEFINE[n] for n in ("up", "down")}, "partition_by": "sym", "order_by": "ts",
             "measures": {"top": "max(price)", "low": "last(price)", "n": "count()", "fall": "delta(price)"}},
            ("match_recognize", "python"),
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE skip_till_next_match AND [sym] AND b.price > a.price WITHIN 6",
            {**TYPED, "measures": {"gain": "b.price - a.price", "at": "a.ts"}},
            ("match_recognize", "python"),
        ),
        (
            """MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts
            MEASURES A.ts AS s, LAST(C.price) - A.price AS gain, MAX(price) AS top
            AFTER MATCH SKIP TO NEXT ROW PATTERN (A B C) DEFINE B AS B.price > A.price)""",
            {},
            ("sase", "python"),
        ),
    ],
)  # fmt: skip
def test_the_engines_give_equal_results(query, keywords, targets):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "ts": np.arange(60), "sym": rng.choice(["p", "q"], 60), "kind": rng.choice(list("ABC"), 60),
            "price": rng.integers(0, 6, 60),
        }
    )  # fmt: skip
    wanted = frame.cep.match(query, **keywords).to_frame()
    assert len(wanted) > 3
    for target in targets:
        text = cep.translate(query, target, **keywords)
        if target == "match_recognize":
            found = frame.cep.match(text).to_frame()
        else:
            *before, call = text.split("df.cep.match(", 1)
            names = {"df": frame, "cep": cep}
            exec("".join(before), names)
            found = eval("df.cep.match(" + call, names).to_frame()
        order = list(wanted.columns)
        pd.testing.assert_frame_equal(
            found[order].sort_values(order, ignore_index=True),
            wanted.sort_values(order, ignore_index=True),
            check_dtype=False,
        )


@pytest.mark.parametrize("names", [("b", "x"), ("kind", "b"), ("ts", "TS"), ("x_row", "x")])
def test_events_with_names_of_columns_become_other_predicates(names):
    frame = pd.DataFrame({"ts": range(8), "kind": list("ABABBAAB"), "x": [1, 2, 5, 4, 7, 1, 2, 3], "b": 1})
    first, last = names
    query = f"PATTERN SEQ(A {first}, B {last}) WHERE {last}.x > {first}.x AND {first}.b = 1"
    keywords = {"event_type": "kind", "order_by": "ts", "strategy": "strict", "after_match": "past_last"}
    measures = {"low": f"{first}.x", "rise": f"{last}.x - {first}.x"}
    text = cep.translate(query, "regex", **keywords, measures=measures)
    found = eval(text, {"df": frame}).to_frame()
    pd.testing.assert_frame_equal(found, frame.cep.match(query, **keywords, measures=measures).to_frame())
    assert len(found)


def test_words_of_siddhi_are_written_in_backticks():
    words = [
        "stream", "define", "function", "trigger", "table", "app", "from", "partition", "window", "select",
        "group", "by", "order", "limit", "offset", "asc", "desc", "having", "insert", "delete", "update",
        "set", "return", "events", "into", "output", "expired", "current", "snapshot", "for", "raw", "of",
        "as", "or", "and", "in", "on", "is", "not", "within", "begin", "end", "null", "every", "last", "all",
        "first", "join", "inner", "outer", "right", "left", "full", "unidirectional", "false", "true", "per",
    ]  # fmt: skip
    assert [name_text(word, "type") for word in words] == [f"`{word}`" for word in words]
    assert name_text("DESC", "variable") == "`DESC`" and name_text("price", "variable") == "price"


def test_conditions_have_no_more_parentheses_than_the_language_needs():
    query = (
        "PATTERN SEQ(A a, B b) WHERE skip_till_next_match AND b.price > a.price + 1"
        " AND (b.size < 3 OR NOT b.size == a.size) AND b.side IN ('x', 'y') WITHIN 5 s"
    )
    siddhi = cep.translate(query, "siddhi", event_type="kind", order_by="ts")
    condition = "price > a.price + 1 and (size < 3 or not (size == a.size)) and (side == 'x' or side == 'y')"
    assert f"b=B[{condition}]" in siddhi
    java = cep.translate(query, "flink_cep_java", event_type="kind", order_by="ts")
    assert "e.getPrice() > a.getPrice() + 1" in java
    assert "e.getSize() < 3 || !Objects.equals(e.getSize(), a.getSize())" in java
    assert '"x".equals(e.getSide()) || "y".equals(e.getSide())' in java
