"""Calls on the matches of sequences with what users give by mistake, and what they are warned of."""

import itertools
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, ColumnNotFoundError, PatternSyntaxError, PredicateError

EVENTS = pd.DataFrame(
    {
        "ts": pd.date_range("2026-01-01", periods=6, freq="s").astype("datetime64[us]"),
        "kind": ["check", "pay"] * 3,
        "amount": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "code": [1, 2] * 3,
    }
)
PAIR = "PATTERN SEQ(check a, pay b)"


def match(query=PAIR, frame=EVENTS, **keywords):
    return frame.cep.match(query, **{"event_type": "kind", "order_by": "ts", **keywords})


@pytest.fixture(scope="module")
def found():
    return match()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.sample(2.5), "n=2.5: expected a whole number"),
        (lambda m: m.sample(10.0), "n=10.0: expected a whole number"),
        (lambda m: m.sample("3"), "n='3': expected a whole number"),
        (lambda m: m.sample(True), "n=True: expected a whole number"),
        (lambda m: m.sample(-1), "n=-1: expected a whole number, 0 or more"),
        (lambda m: m.sample(3, seed=1.5), "seed=1.5: expected a whole number"),
        (lambda m: m.head("3"), "n='3': expected a whole number"),
        (lambda m: m.chunks(0), "size=0: expected a whole number, 1 or more"),
        (lambda m: m.chunks(2.5), "size=2.5: expected a whole number"),
        (lambda m: m.to_frame(limit="all"), "limit='all': expected a whole number"),
        (lambda m: m.plot(partitions=0), "partitions=0: expected a whole number, 1 or more"),
    ],
)
def test_arguments_that_are_no_whole_number(found, call, message):
    with pytest.raises(CepError, match=message):
        call(found)


def test_names_that_are_not_there(found):
    with pytest.raises(ColumnNotFoundError, match=r"value: column 'amout' not found\. Did you mean 'amount'"):
        found.plot("amout")
    with pytest.raises(ColumnNotFoundError, match="match 0: column 'a' not found"):
        found[0]["a"]


@pytest.mark.filterwarnings("error")
def test_numbers_that_no_match_has(found):
    greatest = np.int64(2**63 - 1)
    for call in (lambda: found[6], lambda: found[-7], lambda: found.lineage(6), lambda: found[greatest]):
        with pytest.raises(IndexError, match="there are 6, numbered from 0"):
            call()
    with pytest.raises(IndexError, match="no match has number 0; there are no matches"):
        match(PAIR + " WHERE b.amount < 0")[0]


def test_no_limit(found):
    assert len(found.to_frame(limit=None)) == 6


def test_measures_of_a_match_are_python_values():
    values = match(measures={"n": "count(a)", "x": "b.amount"})[0].measures.values()
    assert [type(value) for value in values] == [int, float]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SEQ(check a, pay b)", PatternSyntaxError, "begins with PATTERN"),
        ("", CepError, "the query is empty"),
        (None, CepError, "a query is text, a pattern or a query object; got NoneType"),
        (5, CepError, "got int"),
        ("PATTERN SEQ(card-check a, pay b)", PatternSyntaxError, "in single quotes: 'card-check'"),
        ("PATTERN SEQ(card check a, pay b)", PatternSyntaxError, "in single quotes: 'card check'"),
        (PAIR + " GAP -1 min", PatternSyntaxError, "expected a number, found '-'"),
        (
            PAIR + " WHERE b.sum_\u20ac > 5",
            PatternSyntaxError,
            "write a name with such characters in backticks",
        ),
        (PAIR + " WHERE b.amount > :least", PredicateError, r"give params=\{'least': …\}"),
    ],
)
def test_queries_that_cannot_be_read(query, error, message):
    with pytest.raises(error, match=message):
        match(query)


def test_column_of_several_types():
    mixed = EVENTS.assign(amount=[1, "x", 2, 3, 4, 5])
    with pytest.raises(PredicateError, match=r"the values of b\.amount are of several types"):
        match(PAIR + " WHERE b.amount > 5", mixed)


@pytest.mark.parametrize(
    ("query", "keywords", "message"),
    [
        (PAIR + " WITHIN 3", {}, "within=3 is read as 3 us, the unit of column 'ts'; write '3 us'"),
        (PAIR, {"within": 3}, "within=3 is read as 3 us"),
        (PAIR + " GAP 3", {}, "gap_within=3 is read as 3 us"),
        (PAIR + " WHERE b.amount = NULL", {}, "is never true.* write 'b.amount is null'"),
        (PAIR + " WHERE b.amount != NULL", {}, "write 'b.amount is not null'"),
        (
            "PATTERN SEQ(1 a, 7 b)",
            {"event_type": "code"},
            r"the column of event types, 'code', never has 7\. It has \[1, 2\]",
        ),
    ],
)
def test_warnings_of_what_is_hardly_meant(query, keywords, message):
    with pytest.warns(CepWarning, match=message):
        assert match(query, **keywords).count() == 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("fial{2,} ok", r"'outcome', never has 'fial'\. Did you mean 'fail'\? It has \['fail', 'ok'\]"),
        ("fail{2,} (okay | done)", r"never has 'okay', 'done'\."),
        ("fail{2,} ok", None),
    ],
)
def test_names_of_a_regex_that_no_row_has(query, message):
    frame = pd.DataFrame({"outcome": ["fail", "fail", "ok"]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        n_matches = frame.cep.match(query, event_type="outcome").count()
    assert n_matches == (message is None) and len(caught) == 1 - n_matches
    assert message is None or re.search(message, str(caught[0].message))


@pytest.mark.parametrize(("codes", "has"), [([1, None, 2], r"\[1, 2\]"), ([None] * 3, "no values")])
def test_the_known_types_have_no_null(codes, has):
    frame = pd.DataFrame({"ts": range(3), "code": pd.array(codes, "Int64")})
    with pytest.warns(CepWarning, match=f"never has 7, 8. It has {has}$"):
        assert frame.cep.match("PATTERN SEQ(7 a, 8 b)", event_type="code", order_by="ts").count() == 0


@pytest.mark.parametrize("values", [[1, 2], [1.5, None], [float("nan")] * 2])
def test_types_that_are_texts_in_a_column_of_numbers(values):
    frame = pd.DataFrame({"ts": range(2), "code": values})
    with pytest.raises(
        PredicateError, match=r"event_type='code': the column has numbers, or no values, .* 'A'"
    ):
        frame.cep.match("PATTERN SEQ(A a, B b)", event_type="code", order_by="ts")


SHORT = {"event_type": "kind", "order_by": "ts", "within": 3}  # microseconds
TIES = {"order_by": "ts", "define": {"a": "amount > 1", "b": "amount < 1"}}


@pytest.mark.parametrize(
    "call",
    [
        lambda: cep.match(EVENTS, PAIR, **SHORT),
        lambda: cep.tag(EVENTS, PAIR, **SHORT),
        lambda: cep.explain(EVENTS, PAIR, **SHORT),
        lambda: cep.funnel(EVENTS, PAIR, **SHORT),
        lambda: cep.why_not(EVENTS, PAIR, **SHORT),
        lambda: cep.stream(PAIR, EVENTS, **SHORT),
        lambda: EVENTS.cep.match(PAIR, **SHORT),
        lambda: EVENTS.cep.tag(PAIR, **SHORT),
        lambda: EVENTS.cep.explain(PAIR, **SHORT),
        lambda: EVENTS.cep.funnel(PAIR, **SHORT),
        lambda: EVENTS.cep.why_not(PAIR, **SHORT),
        lambda: EVENTS.cep.match("PATTERN SEQ(chek a, pay b)", event_type="kind"),
        lambda: EVENTS.cep.match(f"{PAIR} WHERE b.amount = NULL", event_type="kind"),
        lambda: cep.stream(PAIR, EVENTS, event_type="kind", order_by="ts"),
        lambda: EVENTS.cep.match("a+ b?", **TIES),
        lambda: cep.explain(EVENTS, "a", **TIES),
        lambda: cep.stream("a+ b?", EVENTS, **TIES),
        lambda: cep.regex_query("a", define=TIES["define"]),
    ],
)
def test_warnings_point_at_the_line_that_was_written(call):
    with pytest.warns(CepWarning) as caught:
        call()
    lines = {(one.filename, one.lineno) for one in caught}
    assert lines == {(__file__, call.__code__.co_firstlineno)}


def test_no_warning_of_windows_in_the_unit_of_plain_numbers():
    frame = EVENTS.assign(ts=np.arange(6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert match(PAIR + " WITHIN 1", frame).count() == 3


def test_mean_over_more_matches_than_a_float_can_count():
    frame = pd.DataFrame({"ts": range(1100), "kind": "a", "x": 1.0})
    found = match("PATTERN SEQ(a+ p[])", frame)
    assert found.count() == 2**1100 - 1
    assert found.aggregate(mean="avg(p.x)")["mean"] == 1.0


MISSING = (
    None, float("nan"), np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NA, pd.NaT,
    np.datetime64("NaT"), np.timedelta64("NaT"),
)  # fmt: skip


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_a_parameter_that_is_missing_compares_with_nothing(value):
    frame = pd.DataFrame({"t": range(4), "kind": list("ABAB"), "x": [1, 2, 3, 4], "y": [0.5, 1, 2, 3]})
    for column, sign in itertools.product("xy", ("=", "!=", "<", "<=", ">", ">=")):
        for condition in (f"{column} {sign} :v", f"not ({column} {sign} :v)"):
            assert cep.match(frame, "p", define={"p": condition}, params={"v": value}).count() == 0
        text = f"PATTERN SEQ(A a, B b) WHERE b.{column} {sign} :v"
        assert cep.match(frame, text, params={"v": value}, event_type="kind", order_by="t").count() == 0
        text = f"MATCH_RECOGNIZE (ORDER BY t PATTERN (A) DEFINE A AS {column} {sign} :v)"
        assert cep.match(frame, text, params={"v": value}).count() == 0


def test_what_a_notebook_shows_of_an_error():
    with pytest.raises(CepError) as caught:
        match(PAIR, event_type="kid")
    *lines, last = caught.value._render_traceback_()
    assert last.startswith("ColumnNotFoundError: event_type: column 'kid' not found. Did you mean 'kind'?")
    assert any("test_sequence_calls.py" in line for line in lines)
    assert not any("cepkit/api/" in line for line in lines)


def test_reprs_are_short():
    a, b = cep.event("a", "check"), cep.event("b", "pay")
    assert repr(cep.seq(a, b)) == "<pattern SEQ(check a, pay b)>"
    assert repr(b["amount"] > 3) == "<b.amount > 3>"
    long = "PATTERN SEQ(" + ", ".join(f"A name_of_event_{i}" for i in range(30)) + ") WITHIN 100"
    call = {"event_type": "kind", "order_by": "t"}
    frame = pd.DataFrame({"t": range(120), "kind": "A"})
    head = repr(cep.match(frame.head(31), long, **call)).splitlines()[0]
    assert len(head) < 300 and " … " in head


@pytest.mark.parametrize("least", [0, 25, 10**9])
def test_a_look_at_what_takes_forever_to_search(least):
    """No engine counts a condition on a whole loop without making every match: here 2^100 of them."""
    frame = pd.DataFrame({"ts": range(100), "kind": "a", "x": np.arange(100) % 7 + 1.0})
    found = match(f"PATTERN SEQ(a+ p[]) WHERE sum(p.x) > {least}", frame)
    text = repr(found)
    if least == 10**9:
        assert text.startswith("no match so far of") and "none in the part that was searched so far" in text
    else:
        assert text.startswith("≥ ") and "sample" not in found._repr_html_()
        shown = [line.split()[-1] for line in text.splitlines()[2:-1]]
        assert len(shown) == 10 and shown == sorted(shown, key=int)
        assert found.head(3).equals(found.head(10).head(3))
        assert bool(found)
    assert found.plot().layout.title.text


def test_explain_says_that_a_loop_may_have_no_events():
    frame = pd.DataFrame({"kind": list("abd"), "t": [1, 2, 3], "x": [1, 2, 3]})
    query = "PATTERN SEQ(a p, b q, d{0,3} r[]) WHERE sum(r.x) > 3"
    said = str(cep.explain(frame, query, event_type="kind", order_by="t"))
    assert "on a loop without events, or on a whole loop" in said


def test_explain_lists_the_branches_with_loops_and_absent_events():
    frame = pd.DataFrame({"kind": list("abcab"), "ts": range(5)})
    said = cep.explain(
        frame, "PATTERN SEQ(a x, b{2,3} y[], !c w, b? v, a+ z[]) WITHIN 5", event_type="kind", order_by="ts"
    )
    lines = [line.strip() for line in str(said).splitlines()]
    assert {"x y{2,3} !w v z{1,}", "x y{2,3} !w z{1,}"} <= set(lines)
