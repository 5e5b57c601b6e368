"""Mistakes are told before any work starts: one error, its place, and what to do instead."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit import errors
from cepkit.api import questions, searching
from cepkit.engines.regex import usable_threads
from cepkit.errors import CepError, ColumnNotFoundError, PatternSyntaxError, PredicateError

FRAME = pd.DataFrame(
    {
        "symbol": ["a", "b"],
        "price": [1.0, 2.0],
        "ts": pd.to_datetime(["2024-01-01 09:30", "2024-01-01 09:31"]),
        "up": [True, False],
    }
)
RISE = {"rise": "price > prev(price)"}

# name: (query, keywords, error, parts of the message)
MISTAKES = {
    "misspelt column in partition_by": (
        "rise", {"define": RISE, "partition_by": "symbl"}, ColumnNotFoundError,
        ["partition_by: column 'symbl' not found. Did you mean 'symbol'?", "Columns: ['symbol', 'price', "],
    ),
    "misspelt column in a predicate": (
        "rise", {"define": {"rise": "prise > 3"}}, ColumnNotFoundError,
        ["predicate 'rise': column 'prise' not found. Did you mean 'price'?", "  prise > 3\n  ^^^^^"],
    ),
    "misspelt column in a measure": (
        "rise", {"define": RISE, "measures": {"top": "max(prize)"}}, ColumnNotFoundError,
        ["measure 'top': column 'prize' not found. Did you mean 'price'?", "  max(prize)\n      ^^^^^"],
    ),
    "aggregate in the first predicate": (
        "rise+ fall", {"define": {"rise": "price > first(price)", "fall": "price < 1"}}, CepError,
        ["rise", "first", "  price > first(price)\n          ^^^^^^^^^^^^"],
    ),
    "unbalanced bracket in the pattern": (
        "(rise fall", {"define": {**RISE, "fall": "price < 1"}}, PatternSyntaxError, ["(rise fall\n", "^"],
    ),
    "unbalanced bracket in a predicate": (
        "rise", {"define": {"rise": "(price > 1"}}, PatternSyntaxError, ["rise", "(price > 1\n", "^"],
    ),
    "wrong type": (
        "rise", {"define": {"rise": "symbol > 3"}}, PredicateError,
        ["symbol is a text, 3 is a number: they cannot be compared", "  symbol > 3\n  ^^^^^^^^^^"],
    ),
    "duration without unit": (
        ". rise", {"define": {"rise": "delta(ts) < 5"}}, PredicateError,
        ["a duration needs a unit: write '5 s'", "  delta(ts) < 5\n  ^^^^^^^^^^^^^"],
    ),
    "window without unit": (
        ". rise", {"define": RISE, "order_by": "ts", "within": "5"}, CepError, ["within", "5"],
    ),
    "window without clock": (
        ". rise", {"define": RISE, "within": "5 s"}, CepError, ["order_by"],
    ),
    "undefined predicate": (
        "rise fal", {"define": {**RISE, "fall": "price < 1"}}, CepError, ["fal", "Did you mean 'fall'?"],
    ),
    "predicate named like a column": (
        "price", {"define": {"price": "price > 1"}}, CepError,
        ["'price' is both a predicate of define and a column; rename the predicate"],
    ),
    "column that is no predicate": (
        "price", {}, CepError, ["'price', which is a column of type float, not a predicate"],
    ),
    "missing parameter": (
        "rise", {"define": {"rise": "price > :limit"}}, CepError,
        [":limit", "  price > :limit\n          ^^^^^^"],
    ),
    "unknown function": (
        "rise", {"define": {"rise": "sqr(price) > 2"}}, CepError, ["sqr", "sqrt", "^"],
    ),
    "Python instead of a predicate": (
        "rise", {"define": {"rise": "__import__('os').system('true')"}}, CepError, ["^"],
    ),
    "attribute access": ("rise", {"define": {"rise": "price.real > 1"}}, CepError, ["^"]),
    "two measures of one name": (
        "rise", {"define": RISE, "partition_by": "symbol", "measures": {"symbol": "count()"}},
        CepError,
        ["measures: the result already has column 'symbol' (partition_by); rename 'symbol'"],
    ),
    "a measure that is no value of a match": (
        "rise", {"define": RISE, "measures": {"p": "price"}}, CepError, ["p", "first(price)", "^"],
    ),
    "sum of texts in a measure": (
        "rise", {"define": RISE, "measures": {"p": "sum(symbol)"}}, CepError, ["sum() needs numbers", "^"],
    ),
    "least of texts in a measure": (
        "rise", {"define": RISE, "measures": {"p": "least(first(symbol), 'M')"}},
        CepError,
        ["measure 'p': least() needs numbers or times, not texts", "^"],
    ),
    "unknown keyword value": (
        "rise", {"define": RISE, "engine": "spark"}, CepError, ["engine 'spark' is not known"],
    ),
    "a function of rows": (
        "rise", {"define": {"rise": lambda r: r.prize > 3}}, PredicateError,
        ["predicate 'rise': the function of the frame failed with AttributeError", "Its argument is"],
    ),
    "names without conditions": (
        "rise fall", {}, CepError,
        ["define={'rise': 'price > 10'}, or event_type= and the column with", "  rise fall\n  ^^^^"],
    ),
    "a text without quotes": (
        "rise", {"define": {"rise": "symbol == b"}}, ColumnNotFoundError,
        ["column 'b' not found.", "A text has quotes: 'b'", "  symbol == b\n            ^"],
    ),
    "a missing value of pandas": (
        "rise", {"define": {"rise": "price == nan"}}, ColumnNotFoundError, ["found with: x is null"],
    ),
    "a text without quotes in a list": (
        "rise", {"define": {"rise": "symbol in (a, b)"}}, ColumnNotFoundError, ["A text has quotes: 'a'"],
    ),
    "a text without quotes in a sequence": (
        "PATTERN SEQ(a x, b y) WHERE x.symbol == a", {"event_type": "symbol"}, PredicateError,
        ["a does not name its event; write x.a, or 'a' with quotes if it is a text"],
    ),
    "a key with a blank": (
        "PATTERN SEQ(a x, b y) WHERE [the user]", {"event_type": "symbol"}, PatternSyntaxError,
        ["a name with blanks has backticks: [`the user`]", "^"],
    ),
    "an aggregate without brackets": (
        "rise", {"define": RISE, "measures": {"n": "count"}}, CepError, ["write count() for the aggregate"],
    ),
    "a list of measures": (
        "rise", {"define": RISE, "measures": ["count()"]}, CepError,
        ["as in measures={'rows': 'count()'}, got list"],
    ),
    "the minutes of a duration": (
        "rise", {"define": RISE, "measures": {"took": "minutes(delta(ts))"}}, CepError,
        ["no function 'minutes'; write date_diff('minute', earlier, later)", "^"],
    ),
    "a duration divided by a number": (
        "rise", {"define": RISE, "measures": {"took": "delta(ts) / 60"}}, CepError,
        ["'/' is not defined for durations and numbers; date_diff('minute', earlier, later)", "^"],
    ),
    "a sum of two texts": (
        "rise", {"define": RISE, "measures": {"both": "first(symbol) + last(symbol)"}}, CepError,
        ["'+' adds numbers; write concat(first(symbol), last(symbol)) to join texts", "^"],
    ),
    "PATTERN misspelt": (
        "PATERN SEQ(A a, B b)", {"event_type": "symbol"}, PatternSyntaxError,
        ["begins with PATTERN, not 'PATERN'. Did you mean 'PATTERN'?", "  PATERN SEQ(A a, B b)\n  ^^^^^^"],
    ),
    "no query at all": (3, {}, CepError, ["a query is text, a pattern or a query object; got int"]),
}  # fmt: skip


@pytest.fixture(params=["pandas", "arrow", "accessor", "explain"])
def call(request, monkeypatch):
    """Call match (or explain) on the frame; building events, which begins the work, fails the test."""

    def no_work(*_):
        raise AssertionError("work has started")

    for module in (searching, questions):
        monkeypatch.setattr(module, "build_events", no_work)
    frame = pa.Table.from_pandas(FRAME) if request.param == "arrow" else FRAME
    return {
        "pandas": lambda query, **keywords: cep.match(frame, query, **keywords),
        "arrow": lambda query, **keywords: cep.match(frame, query, **keywords),
        "accessor": lambda query, **keywords: frame.cep.tag(query, **keywords),
        "explain": lambda query, **keywords: cep.explain(frame, query, **keywords),
    }[request.param]


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.filterwarnings("ignore:define. the pattern.*does not use")
def test_mistakes(call, name):
    query, keywords, error, parts = MISTAKES[name]
    with pytest.raises(error) as caught:
        call(query, **keywords)
    assert isinstance(caught.value, CepError)
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    assert len(message.splitlines()) <= 4


@pytest.mark.parametrize("function", [cep.replay, cep.simulate])
def test_what_does_not_run_match_recognize_says_what_to_write(function):
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts PATTERN (A B+) "
        "DEFINE B AS B.price > PREV(B.price))"
    )
    with pytest.raises(CepError) as caught:
        function(FRAME, text)
    message = str(caught.value)
    assert "this is MATCH_RECOGNIZE of SQL" in message
    assert 'df.cep.match(". B+", define={"B": "price > PREV(price)"}, ' in message


@pytest.mark.parametrize("function", [cep.explain, cep.funnel, cep.why_not])
def test_questions_take_no_window(function):
    text = """SELECT price OVER w FROM t WINDOW w AS (ORDER BY ts MEASURES price AS price
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A) DEFINE A AS price > 3)"""
    with pytest.raises(cep.UnsupportedQueryError, match=r"the pattern is in a WINDOW clause"):
        function(FRAME, text)


def test_match_recognize_takes_no_other_keywords():
    text = "MATCH_RECOGNIZE (PATTERN (A B+) DEFINE B AS price > 3)"
    for keywords in [{"define": RISE}, {"engine": "any"}, {"order_by": "ts"}, {"within": 3}]:
        with pytest.raises(CepError, match="MATCH_RECOGNIZE has clauses for its options"):
            cep.match(FRAME, text, **keywords)


def test_the_same_call_without_mistake_does_work(call, request):
    if "explain" in request.node.name:
        assert "rise" in str(call(". rise", define=RISE))
    else:
        with pytest.raises(AssertionError, match="work has started"):
            call(". rise", define=RISE, measures={"top": "max(price)"})


def test_errors_are_those_that_python_has():
    """Who catches KeyError, TypeError or ValueError catches the errors of this package too."""
    for query, keywords, builtin in [
        ("rise", {"define": RISE, "partition_by": "symbl"}, KeyError),
        ("rise", {"define": {"rise": "symbol > 3"}}, TypeError),
        ("(rise", {"define": RISE}, ValueError),
    ]:
        with pytest.raises(builtin):
            cep.match(FRAME, query, **keywords)


def test_orders_with_gaps_are_counted_before_matching():
    frame = FRAME.assign(ts=[pd.NaT, pd.Timestamp("2024-01-01")])
    with pytest.raises(CepError, match=r"'ts' has 1 missing values of 2; .* drop these rows or fill them"):
        cep.match(frame, ". .", order_by="ts")


def test_query_values_are_not_contradicted():
    query = cep.regex_query("rise", define=RISE, order_by="ts")
    with pytest.raises(
        CepError, match=r"\['define', 'order_by'\] is given both in the query and as a keyword"
    ):
        cep.match(FRAME, query, define=RISE, order_by="price")


def test_number_of_threads_that_is_none(monkeypatch):
    monkeypatch.setenv("CEPKIT_THREADS", "two")
    with pytest.raises(CepError, match="CEPKIT_THREADS='two': expected a whole number of threads"):
        usable_threads()


# --- odd arguments of results and engines

EVENTS = pd.DataFrame({"kind": list("aabbab"), "ts": range(6), "x": [float(i % 5) for i in range(6)]})
PAIRS = {"query": "PATTERN SEQ(a p, b q) WITHIN 5", "event_type": "kind", "order_by": "ts"}
ROWS = "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS x PATTERN (A) DEFINE A AS x > 1)"
SIDDHI = "from T[x > 1] select kind, x insert into O"

ODD_ARGUMENTS = {
    "count by an array": (lambda m: m.count(np.array(["exact", "x"])), "a count is 'exact' or an 'estimate'"),
    "take a number": (lambda m: m.take(5), "take: numbers=5: expected the numbers of matches in a list"),
    "take a text": (lambda m: m.take("ab"), "take: numbers='ab': expected the numbers"),
    "take a mask": (lambda m: m.take([True, False]), "matches are numbered from 0; True is no number"),
    "take a mask of numpy": (lambda m: m.take(np.array([True])), "True is no number"),
    "take a fraction": (lambda m: m.take([0.5]), r"0\.5 is no number"),
    "take lists": (lambda m: m.take([[0]]), r"\[0\] is no number"),
    "slice of texts": (lambda m: m["a":"b"], r"the slice slice\('a', 'b', None\) has other bounds"),
    "lineage of a text": (lambda m: m.lineage("x"), "'x' is no number"),
    "plot of a number": (lambda m: m.plot(5), "value: column 5 not found. Columns:"),
    "plot of a list": (lambda m: m.plot([]), r"value: column \[\] not found"),
    "write to nothing": (
        lambda m: m.write_parquet(None),
        "write_parquet: path=None: give the name of a file",
    ),
    "write to a zero": (lambda m: m.write_parquet("a\0b"), "give the name of a file"),
}
OF_ROWS = ("lineage of a text", "plot of a number", "plot of a list", "write to nothing", "write to a zero")


@pytest.mark.parametrize("name", list(ODD_ARGUMENTS))
def test_odd_arguments_of_matches(name):
    call, said = ODD_ARGUMENTS[name]
    with pytest.raises(CepError, match=said):
        call(cep.match(EVENTS, **PAIRS))
    if name in OF_ROWS:
        with pytest.raises(CepError, match=said):
            call(cep.match(EVENTS, ROWS))


def test_a_slice_without_a_step_is_refused_as_by_lists():
    with pytest.raises(ValueError, match="step cannot be zero"):
        cep.match(EVENTS, **PAIRS)[::0]


@pytest.mark.parametrize("step", [10**30, -(10**30), 2**63])
@pytest.mark.parametrize("call", [PAIRS, {"query": "a", "define": {"a": "x > 1"}, "order_by": "ts"}])
def test_a_slice_takes_steps_of_any_size(call, step):
    matches = cep.match(EVENTS, **call)
    assert matches[::step].count() == 1
    assert matches[::step].to_frame().equals(matches.take([0 if step > 0 else -1]))


@pytest.mark.parametrize("odd", [5, -1, [], [1], {}, b"O", float("nan")])
def test_odd_names_of_streams(odd):
    found = cep.siddhi(SIDDHI, T=EVENTS, order_by="ts")
    for call in (found.count, found.to_frame):
        with pytest.raises(CepError, match=r"no query writes .*; streams: O"):
            call(odd)
    with pytest.raises(CepError, match="give the name of the new column"):
        found.to_frame(time=odd)


@pytest.mark.parametrize("odd", [np.array(["any", "strict"]), [], {}, 5])
def test_odd_modes_of_a_funnel(odd):
    with pytest.raises(CepError, match="mode="):
        cep.funnel(EVENTS, "p q", define={"p": "x > 1", "q": "x > 2"}, mode=odd)


@pytest.mark.parametrize("limit", ["9" * 400 + " GB", "9" * 5000 + " B", "1." + "9" * 400 + " GB", "١ GB"])
def test_memory_limits_that_no_machine_has(limit):
    with pytest.raises(CepError, match="give a size such as '2 GB'") as error:
        cep.match(EVENTS, **PAIRS, memory_limit=limit)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("engine", [cep.RIP(chunk=2**40), cep.RIP(multiple=2**40), cep.Hybrid(batch=2**40)])
def test_the_largest_numbers_of_engines_run(engine):
    assert cep.match(EVENTS, **PAIRS, engine=engine).count() == cep.match(EVENTS, **PAIRS).count() == 7


@pytest.mark.parametrize("costs", [np.zeros(3), np.arange(3), np.array([])])
def test_costs_are_no_arrays(costs):
    with pytest.raises(CepError, match=r"give cep\.shedding\.Prices"):
        cep.replay(EVENTS, **PAIRS, latency_bound=0.1, costs=costs)
    with pytest.raises(CepError, match=r"give cep\.Costs"):
        cep.simulate(EVENTS, **PAIRS, engine=cep.Hybrid(2), costs=costs)


def test_what_cannot_be_pickled_says_what_to_save():
    rows = cep.match(EVENTS, ROWS)
    with pytest.raises(CepError, match=r"Pickle the frame that to_frame\(\) returns"):
        pickle.dumps(rows)
    assert copy.copy(rows).to_frame().equals(rows.to_frame())
    assert copy.deepcopy(rows).to_frame().equals(rows.to_frame())


PICKLED = [
    ("a (", {}),
    ("PATTERN SEQ(a a, b b", {}),
    ("PATTERN SEQ(a a, b b) WHERE a.nope > 1", {"event_type": "kind"}),
    ("a", {"define": {"a": "x >"}}),
    ("a", {"define": {"a": "b.x > 1"}}),
    ("MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE B AS nope(B.x))", {}),
]


@pytest.mark.parametrize(("query", "keywords"), PICKLED)
def test_errors_come_whole_from_another_process(query, keywords):
    """A pool of processes pickles the error, and breaks where it cannot be made again."""
    with pytest.raises(CepError) as raised:
        cep.match(EVENTS, query, **keywords)
    for again in (pickle.loads(pickle.dumps(raised.value)), copy.copy(raised.value)):
        assert type(again) is type(raised.value)
        assert str(again) == str(raised.value) and vars(again) == vars(raised.value)


@pytest.mark.parametrize(
    "query", [ROWS, ROWS.replace("MATCH_RECOGNIZE", "SELECT * FROM EVENTS MATCH_RECOGNIZE")]
)
def test_an_explanation_of_rows_can_be_pickled(query):
    explanation = cep.explain(EVENTS, query)
    again = pickle.loads(pickle.dumps(explanation))
    assert str(again) == str(explanation)
    assert str(again.graph()) == str(explanation.graph())


def test_a_replay_can_be_pickled():
    replay = cep.replay(EVENTS, **PAIRS, latency_bound=0.1, warm_up=4)
    again = pickle.loads(pickle.dumps(replay))
    assert again.matches.to_frame().equals(replay.matches.to_frame()) and again.matches.count() == 7


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (errors.underline("large + rise", 6), "  large + rise\n        ^"),
        (len(errors.short_text("a" * 10**6)), 200),
        ((errors.is_text("ä"), errors.is_text("\ud800")), (True, False)),
        (
            errors.reason_of(FileNotFoundError(2, "No such file or directory", "x")),
            "No such file or directory",
        ),
        (errors.nearest("SYMBL", iter(["symbol", "price"])), " Did you mean 'symbol'?"),
        (errors.nearest("q", ["symbol", "price"]), ""),
        ([errors.is_number(x) for x in (2.5, "2.5", np.timedelta64(5, "s"))], [True, False, False]),
        (
            str(errors.column_not_found("partition_by", "symbl", ["symbol", "price"])),
            "partition_by: column 'symbl' not found. Did you mean 'symbol'? Columns: ['symbol', 'price']",
        ),
    ],
)
def test_the_words_of_errors(said, expected):
    assert said == expected


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: errors.whole_number("n", 2.5), "n=2.5: expected a whole number"),
        (lambda: errors.truth("scoped", "no"), "scoped='no': expected True or False"),
    ],
)
def test_values_of_a_wrong_kind(check, message):
    with pytest.raises(CepError, match=f"^{message}$"):
        check()
