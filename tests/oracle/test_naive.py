"""The reference definition against worked examples and Python's ``re``; its random cases."""

import re
from random import Random

import pandas as pd
import pytest

from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from tests.oracle import generate, naive
from tests.support.sizes import seeds

NAN = float("nan")
A, B, C, D, ANY = pt.Variable("a"), pt.Variable("b"), pt.Variable("c"), pt.Variable("d"), pt.AnyEvent()


def value(thing):
    return thing if isinstance(thing, ex.Expression) else ex.Literal(thing)


def column(name):
    return ex.Attribute(name)


def compare(left, sign, right):
    return ex.Comparison(sign, value(left), value(right))


def aggregate(function, name=None):
    return ex.Aggregate(function, None if name is None else column(name))


def labelled(text):
    """Return rows with boolean columns a to d: ``"ab . b"`` is a and b, none, b."""
    return [{name: name in word for name in "abcd"} for word in text.split()]


# --- matches: worked examples ----------------------------------------------------------------------------

PRICE, FIRST_PRICE, LAST_PRICE = column("price"), aggregate("first", "price"), ex.Previous(column("price"))
M_SHAPE = pt.seq(
    ".", pt.var("rise").plus(), pt.var("drop").plus(), pt.var("rise").plus(), pt.var("drop").star(), "deep"
)
M_SHAPE_DEFINE = {
    "rise": ex.And((compare(PRICE, ">", FIRST_PRICE), compare(PRICE, ">=", LAST_PRICE))),
    "drop": ex.And((compare(PRICE, ">=", FIRST_PRICE), compare(PRICE, "<", LAST_PRICE))),
    "deep": ex.And((compare(PRICE, "<", FIRST_PRICE), compare(PRICE, "<", LAST_PRICE))),
}


def test_m_shape_and_a_second_one_that_does_not_overlap():
    # From the 9 that ends the first M another one would rise; it is used, so the second begins at the 10.
    rows = [{"price": price} for price in (10, 12, 13, 11, 14, 12, 9, 10, 12, 11, 13, 8)]
    assert naive.longest_matches(M_SHAPE, M_SHAPE_DEFINE, rows[:7]) == [(0, 6)]
    assert naive.longest_matches(M_SHAPE, M_SHAPE_DEFINE, rows[6:]) == [(0, 5)]
    assert naive.longest_matches(M_SHAPE, M_SHAPE_DEFINE, rows) == [(0, 6), (7, 11)]
    assert naive.evaluate_measure(aggregate("count"), rows, 0, 6) == 7
    assert naive.evaluate_measure(aggregate("max", "price"), rows, 0, 6) == 14


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (A.plus(), "a a a", [(0, 0), (1, 1), (2, 2)]),  # reported as soon as possible
        (pt.seq(A.plus(), B), ". a a b", [(1, 3)]),  # the longest at that end
        (pt.any_of_patterns(pt.seq(A, B, B), B), "a b b", [(1, 1), (2, 2)]),  # a leftmost engine: (0, 2)
        (pt.seq(A.plus(), B.optional()), "a b a", [(0, 0), (2, 2)]),  # what may be missing at the end is dead
        (A.star(), ". a", [(1, 1)]),  # no match without an event
        (pt.Empty(), "a", []),
        (pt.seq(A, A), "a a a a a", [(0, 1), (2, 3)]),  # a clean slate after each
        (pt.seq(A, ".", B), "a b b", [(0, 2)]),
        (pt.seq(A.times(2, 3), B), "a a a a b", [(1, 4)]),
        (pt.seq(A.at_least(2), B), "a b a a a b", [(2, 5)]),
        (pt.seq(A, pt.Repeat(B, 0, 2), C), "a b b b c a b c a c", [(5, 7), (8, 9)]),
        (pt.seq(A, (B.optional() | C).times(2), D), "a d a c d a c c c d", [(0, 1), (2, 4)]),  # empty rounds
        (pt.seq(pt.seq(A.star(), B.star()).star(), C), "a b a . b a c c", [(4, 6), (7, 7)]),
    ],
)
def test_worked_example(pattern, text, expected):
    assert naive.longest_matches(pattern, {}, labelled(text)) == expected


def test_partitions_are_told_apart_and_null_is_one_of_them():
    rows = [row | {"key": key} for row, key in zip(labelled("a a b b . a b"), "pqpqpqq", strict=True)]
    assert naive.matches(pt.seq(A, B), {}, rows, partition_by=["key"]) == [(0, 2), (1, 3), (5, 6)]
    assert naive.matches(pt.seq(A, B), {}, rows) == [(1, 2), (5, 6)]
    keys = [None, "p", NAN, "p", None, None, "p"]
    rows = [row | {"key": key} for row, key in zip(rows, keys, strict=True)]
    assert naive.matches(pt.seq(A, B), {}, rows, partition_by=["key"]) == [(0, 2), (1, 3)]
    assert naive.matches(pt.seq(A, "."), {}, rows, partition_by=["key"]) == [(0, 2), (1, 3)]


@pytest.mark.parametrize(
    ("fires_at", "expected"), [(5, [(0, 5), (6, 11), (12, 17)]), (4, [(0, 4), (5, 9), (10, 14), (15, 19)])]
)
def test_count_in_a_predicate_leaves_out_the_current_event(fires_at, expected):
    same = compare(column("tags"), "==", aggregate("first", "tags"))
    define = {"same": same, "nth": ex.And((compare(aggregate("count"), "==", fires_at), same))}
    pattern = pt.seq(".", pt.var("same").plus(), "nth")
    assert naive.longest_matches(pattern, define, [{"tags": "cep"}] * 20) == expected


@pytest.mark.parametrize(
    ("within", "closed", "first"),
    [(5, True, 0), (5, False, 1), (3, True, 1), (3, False, 2), (1, False, None)],
)
def test_window_limits_first_to_last(within, closed, first):
    rows = [row | {"t": t} for row, t in zip(labelled("a a a b"), (0, 2, 4, 5), strict=True)]
    found = naive.longest_matches(
        pt.seq(A.plus(), B), {}, rows, order_by="t", within=within, within_closed=closed
    )
    assert found == ([] if first is None else [(first, 3)])


# --- matches: as in Python ---------------------------------------------------------------------------------


def regex_text(pattern):
    match pattern:
        case pt.Empty():
            return "(?:)"
        case pt.AnyEvent():
            return "."
        case pt.Variable(name=name):
            return name
        case pt.Sequence(parts=parts):
            return "".join(map(regex_text, parts))
        case pt.Alternative(options=options):
            return f"(?:{'|'.join(map(regex_text, options))})"
        case pt.Repeat(body=body, low=low, high=high):
            return f"(?:{regex_text(body)}){{{low},{'' if high is None else high}}}"


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_words_are_those_of_python_re(seed):
    rng = Random(seed)
    pattern = generate.pattern(rng, "abc")
    word = "".join(rng.choice("abc") for _ in range(rng.randint(0, 8)))
    ends = naive.ends(pattern, 0, len(word), lambda name, i: word[i] == name)
    text = regex_text(pattern)
    assert ends == {end for end in range(len(word) + 1) if re.fullmatch(text, word[:end])}, (
        f"{text} on {word}"
    )


# --- labels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (pt.seq(A.plus(), B.plus()), "ab ab ab", "a a b"),  # the left one takes as many rows as it can
        (pt.seq(A.star(), B), "ab ab", "a b"),
        (pt.seq(A, A.optional(), B.star(), C), "a ab b c", "a a b c"),
        (pt.any_of_patterns(pt.seq(B, A), pt.seq(A, B)), "ab ab", "b a"),  # the option that stands first
        (pt.seq(ANY.plus(), B), "ab b b", ". . b"),
        (pt.seq((A | B).plus(), B), "ab b ab", "a b b"),
        (pt.seq(A, B.plus()).plus(), "a ab ab b", "a b a b"),  # a new round has the smaller number
        (pt.Repeat(A | B, 2, 3), "ab ab ab", "a a a"),
        (pt.Repeat(pt.seq(A, B.optional()), 1, 3), "a ab b", "a a b"),
        (pt.Repeat(pt.seq(A, B.optional()), 1, 3), "a ab ab", "a b a"),
        (pt.seq(A, B.optional()).star(), "a ab", "a a"),
        (pt.seq(A, B.optional()).at_least(2), "a ab ab ab", "a b a a"),  # x{2,} is x x+
        (pt.seq(A, pt.Repeat(B | ANY, 0, 2), C), "a b a c", "a b . c"),
    ],
)
def test_labels(pattern, text, expected):
    rows = labelled(text)
    assert naive.labels(pattern, {}, rows, 0, len(rows) - 1) == expected.split()


def test_labels_of_rows_that_do_not_match():
    with pytest.raises(ValueError, match=r"rows 0\.\.1 spell no word"):
        naive.labels(A.plus(), {}, labelled("a b"), 0, 1)


# --- values ----------------------------------------------------------------------------------------------

ROWS = [
    {"x": 4, "g": None, "y": 0.5, "s": "ab", "f": True, "items": [7, None]},
    {"x": 2, "g": 3, "y": NAN, "s": None, "f": None, "items": None},
    {"x": 5, "g": 6, "y": 2.5, "s": "b", "f": False, "items": []},
    {"x": 3, "g": None, "y": 1.0, "s": "abc", "f": True, "items": [1, 2]},
]
X, G, Y, S, F, NULL = column("x"), column("g"), column("y"), column("s"), column("f"), ex.Literal(None)
TRUE, FALSE = ex.Literal(True), ex.Literal(False)


def at_last_row(expression, start=0):
    """Return the value in a predicate at row 3 of a match that began at ``start``."""
    return naive.evaluate(expression, ROWS, 3, start, {"limit": 3}, {"twice": lambda x: 2 * x})


TABLE = [  # left, right, and, or
    (True, True, True, True),
    (True, False, False, True),
    (True, None, None, True),
    (False, False, False, False),
    (False, None, False, None),
    (None, None, None, None),
]


@pytest.mark.parametrize(("left", "right", "both", "either"), TABLE)
def test_three_valued_logic(left, right, both, either):
    for one, other in ((left, right), (right, left)):
        operands = (ex.Literal(one), ex.Literal(other))
        assert at_last_row(ex.And(operands)) is both
        assert at_last_row(ex.Or(operands)) is either
    assert at_last_row(ex.Not(ex.Literal(left))) is (None if left is None else not left)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (compare(G, ">", 10), None),
        (ex.Not(compare(G, ">", 10)), None),
        (compare(G, "==", NULL), None),
        (compare(NAN, "!=", 1.0), None),  # NaN is missing
        (ex.IsNull(G), True),
        (ex.IsNull(ex.Literal(NAN)), True),
        (ex.IsNull(X), False),
        (ex.IsNull(compare(G, ">", 10)), True),
        (compare(2**53 + 1, ">", float(2**53)), True),  # exact, not as floats
        (compare(S, "<", "abd"), True),
        (compare(S, "<", "B"), False),  # by code point
        (compare(F, "==", TRUE), True),
        (ex.In(X, (ex.Literal(1), ex.Literal(3))), True),
        (ex.In(X, (ex.Literal(1), NULL, ex.Literal(3))), True),
        (ex.In(X, (ex.Literal(1), G)), None),
        (ex.Not(ex.In(X, (ex.Literal(1), G))), None),
        (ex.In(X, (ex.Literal(1), ex.Literal(2))), False),
        (ex.In(G, (ex.Literal(1), ex.Literal(2))), None),
        (ex.Like(S, "a%"), True),
        (ex.Like(S, "a_"), False),
        (ex.Like(S, "%b_"), True),
        (ex.Like(S, "%"), True),
        (ex.Like(S, ""), False),
        (ex.Like(ex.Previous(S, 2), "%"), None),
        (ex.Arithmetic("+", X, ex.Literal(2**60)), 2**60 + 3),
        (ex.Arithmetic("/", X, ex.Literal(2)), 1.5),
        (ex.Arithmetic("//", ex.Negative(X), ex.Literal(2)), -2),
        (ex.Arithmetic("%", ex.Negative(X), ex.Literal(2)), 1),
        (ex.Arithmetic("/", X, ex.Literal(0)), None),
        (ex.Arithmetic("//", X, ex.Literal(0.0)), None),
        (ex.Arithmetic("%", X, ex.Literal(0)), None),
        (ex.Arithmetic("+", X, G), None),
        (ex.Negative(G), None),
        (ex.Parameter("limit"), 3),
        (ex.Subscript(column("items"), -1), 2),
        (ex.Subscript(column("items"), 2), None),
        (ex.Subscript(column("items"), -3), None),
        (ex.Subscript(ex.Previous(column("items"), 2), 0), None),
        (ex.Previous(X), 5),
        (ex.Previous(X, 3), 4),
        (ex.Previous(X, 4), None),
        (ex.Previous(ex.Arithmetic("*", X, G), 2), 6),
        (ex.Call("twice", (X,)), 6),
        (ex.Call("twice", (G,)), None),
    ],
)
def test_value(expression, expected):
    assert (found := at_last_row(expression)) == expected
    assert type(found) is type(expected)


def test_prev_reaches_before_the_start_of_the_match():
    assert at_last_row(ex.Previous(X, 2), start=3) == 2


# Function, column, in a predicate at row 3 from row 1, in a measure of rows 0 to 3, of rows 0 to 0.
AGGREGATES = [
    ("count", None, 2, 4, 1),
    ("count", "g", 2, 2, 0),
    ("count", "y", 1, 3, 1),
    ("first", "x", 2, 4, 4),
    ("first", "y", None, 0.5, 0.5),
    ("last", "x", 5, 3, 4),
    ("last", "g", 6, None, None),
    ("max", "x", 5, 5, 4),
    ("max", "s", "b", "b", "ab"),
    ("min", "y", 2.5, 0.5, 0.5),
    ("sum", "x", 7, 14, 4),
    ("sum", "g", 9, 9, None),
    ("sum", "y", 2.5, 4.0, 0.5),
    ("avg", "x", 3.5, 3.5, 4.0),
    ("avg", "g", 4.5, 4.5, None),
    ("delta", "x", 1, -1, 0),
    ("delta", "y", None, 0.5, 0.0),
    ("collect", "g", [3, 6], [None, 3, 6, None], [None]),
]


@pytest.mark.parametrize(("function", "name", "in_predicate", "in_measure", "of_one_row"), AGGREGATES)
def test_aggregates(function, name, in_predicate, in_measure, of_one_row):
    expression = aggregate(function, name)
    assert at_last_row(expression, start=1) == in_predicate
    assert naive.evaluate_measure(expression, ROWS, 0, 3) == in_measure
    assert naive.evaluate_measure(expression, ROWS, 0, 0) == of_one_row


@pytest.mark.parametrize("function", ex.AGGREGATES)
def test_aggregates_before_the_first_event_are_null(function):
    nothing = {"count": 0, "collect": []}.get(function)
    assert naive.evaluate(aggregate(function, "x"), ROWS, 3, 3) == nothing


def test_bare_attribute_of_a_measure_is_that_of_the_last_row():
    assert naive.evaluate_measure(X, ROWS, 0, 2) == 5
    assert naive.evaluate_measure(ex.Previous(X), ROWS, 2, 2) == 2
    assert naive.evaluate_measure(aggregate("first", "s"), ROWS, 1, 2) is None


FUNCTION_VALUES = [
    ("abs", (-2,), 2),
    ("sqrt", (2.25,), 1.5),
    ("sqrt", (-1,), None),
    ("exp", (0,), 1.0),
    ("exp", (1000.0,), float("inf")),
    ("log", (1,), 0.0),
    ("log", (0,), None),
    ("log2", (8,), 3.0),
    ("log10", (0.01,), -2.0),
    ("floor", (-1.5,), -2.0),
    ("floor", (7,), 7),
    ("ceil", (1.25,), 2.0),
    ("round", (2.5,), 2.0),
    ("round", (3.5,), 4.0),
    ("sign", (-0.5,), -1),
    ("power", (-2, 3), -8.0),
    ("power", (0, -1), None),
    ("power", (-8, 0.5), None),
    ("least", (3, 1.5, 2), 1.5),
    ("greatest", (3, None), None),
    ("bit_and", (6, 3), 2),
    ("bit_or", (6, 3), 7),
    ("bit_xor", (6, 3), 5),
    ("starts_with", ("abc", "ab"), True),
    ("ends_with", ("abc", "ab"), False),
    ("contains", ("abc", "b"), True),
    ("contains", (None, "b"), None),
]


@pytest.mark.parametrize(("function", "arguments", "expected"), FUNCTION_VALUES)
def test_functions(function, arguments, expected):
    assert at_last_row(ex.Call(function, tuple(map(ex.Literal, arguments)))) == expected


def test_every_function_is_tested():
    assert {function for function, _, _ in FUNCTION_VALUES} == set(naive.FUNCTIONS)


# --- generated cases -------------------------------------------------------------------------------------


def kinds(case):
    """Return the names of all nodes, aggregates and functions in the case."""
    nodes = [node for tree in case.define.values() for node in tree.walk()]
    return {type(node).__name__ for node in nodes} | {
        node.function for node in nodes if hasattr(node, "function")
    }


def repeats(pattern):
    """Return the (low, high) of all repetitions in the pattern."""
    match pattern:
        case pt.Sequence(parts=parts) | pt.Alternative(options=parts):
            return set().union(*map(repeats, parts))
        case pt.Repeat(body=body, low=low, high=high):
            return {(low, high)} | repeats(body)
    return set()


def test_cases_are_not_degenerate():
    found = [
        naive.matches(case.pattern, case.define, case.rows, **case.keywords())
        for case in map(generate.case, range(300))
    ]
    assert sum(bool(matches) for matches in found) > 0.4 * len(found)
    assert sum(any(len(match) > 1 for match in matches) for matches in found) > 0.25 * len(found)
    assert any(len(match) > 4 for matches in found for match in matches)


def test_cases_cover_the_language():
    cases = list(map(generate.case, range(400)))
    kinds_of_node = (node for node in ex.Expression.__subclasses__() if node.__module__ == ex.__name__)
    expected = {node.__name__ for node in kinds_of_node} - {"Subscript", "Reference", "IsDistinct"}
    expected |= set(ex.AGGREGATES) - {"collect"} | set(naive.FUNCTIONS)
    assert set().union(*map(kinds, cases)) == expected
    bounds = {(0, None), (1, None), (2, None), (0, 1), (0, 2), (1, 2), (2, 2), (2, 3)}
    assert set().union(*(repeats(case.pattern) for case in cases)) == bounds
    assert {case.partition_by for case in cases} == {(), ("k",), ("k", "f")}
    assert {case.within_closed for case in cases if case.within is not None} == {True, False}
    values = [row for case in cases for row in case.rows]
    assert all(any(pd.isna(row[name]) for row in values) for name in "ysfgk")
