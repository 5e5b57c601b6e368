"""Functions of SiddhiQL: values by the rules of Siddhi and Java, and types that do not fit."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.events import TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.siddhiql.binding import arrow_of_type
from cepkit.siddhiql.calls import FUNCTIONS, Scope, SlotOf
from cepkit.siddhiql.functions import BOOL, CONVERSIONS, DOUBLE, INT, LONG, SINGLE, STRING, TESTS, to_text
from cepkit.siddhiql.selecting import NAMES
from cepkit.siddhiql.values import compile_siddhi
from tests.support.tables import cases

FRAME = pd.DataFrame(
    {
        "ts": range(3),
        "i": pd.array([7, -7, None], "Int64"),
        "d": [2.5, -2.5, None],
        "s": ["abc", "Hello World", None],
        "b": pd.array([True, False, None], "boolean"),
    }
)
DEFINED = "define stream T (ts long, i int, d double, s string, b bool); "


def column(expression, clause="from T", tail=""):
    """Return the values of an expression for the three events; None is missing."""
    text = f"{DEFINED}{clause} select {expression} as x {tail} insert into O"
    found = cep.siddhi(text, T=FRAME, order_by="ts")
    values = found.to_frame()["x"].astype(object)
    return values.where(values.notna(), None).tolist()


def refusal(expression, clause="from T", tail=""):
    """Return the message of the error of an expression."""
    with pytest.raises(cep.CepError) as caught:
        column(expression, clause, tail)
    return str(caught.value)


# --- every function with every type ------------------------------------------------------------------------

TIMES = ColumnType(TIME, unit="us")
VALUES = {
    "i": (INT, [3, -2, 0, 2**31 - 1, None]),
    "l": (LONG, [2**63 - 1, -(2**63), 1, None, 5]),
    "f": (SINGLE, [0.5, -1.5, 1e30, None, 3.0]),
    "d": (DOUBLE, [math.nan, math.inf, -0.0, 1e300, None]),
    "s": (STRING, ["abc", "(", " 1.5f ", "", None]),
    "b": (BOOL, [True, False, None, True, False]),
    "t": (TIMES, [0, 1_700_000_000_000_000, None, 5, 6]),
    "o": ("object", ["a", 3, 2.5, True, [1]]),
    "n": ("object", [None] * 5),
}
PYTHON = {INT: int, LONG: int, SINGLE: float, DOUBLE: float, STRING: str, BOOL: bool}


def check_all(name, n_arguments, more=()):
    """Compile and run a function with all combinations of types; return how many have an answer."""
    attributes = {one: (place, kind) for place, (one, (kind, _)) in enumerate(VALUES.items(), 1)}
    scope = Scope([SlotOf(("T",), attributes)], "", "select", 0)
    events = [(i, *(values[i] for _, values in VALUES.values())) for i in range(5)]
    n_answers = 0
    for names in product(VALUES, repeat=n_arguments):
        tree = ex.Call(name, (*map(ex.Attribute, names), *map(ex.Literal, more)))
        try:
            made = compile_siddhi(tree, scope)
        except cep.CepError:
            continue
        found = []
        for event in events:
            try:
                found.append(made.call([[event]]))
            except cep.CepError:
                found.append(None)
        n_answers += 1
        wanted = PYTHON.get(made.type)
        if wanted is not None:
            assert {type(value) for value in found} <= {wanted, type(None)}, (tree, found)
        try:
            arrow_of_type(found, made.type)
        except cep.CepError:
            assert made.type == "object", (tree, made.type, found)
    return n_answers


@pytest.mark.parametrize("name", [*FUNCTIONS, *TESTS])
def test_every_function_answers_or_refuses_every_type(name):
    assert sum(check_all(name, n) for n in range(4)) > 0


@pytest.mark.parametrize("name", ["convert", "cast"])
@pytest.mark.parametrize("wanted", [*CONVERSIONS, "integer", "object"])
def test_every_type_converts_or_is_refused(name, wanted):
    assert (check_all(name, 1, [wanted]) > 0) == (wanted in CONVERSIONS)


@pytest.mark.parametrize("name", [*NAMES, "-"])
@pytest.mark.parametrize("attribute", ["i", "d", "s", "b", "ts", "mixed_values(i)"])
def test_every_aggregate_answers_or_refuses_every_type(name, attribute):
    cep.pure(lambda i: "a" if i == 7 else 2.5, name="mixed_values")
    try:
        column(f"{name}({attribute})")
    except cep.CepError:
        assert attribute in ("s", "b", "mixed_values(i)") or name in ("count_if", "share")


# --- values ------------------------------------------------------------------------------------------------

# The examples of the documentation of Siddhi's extensions, and results of Java.
EXAMPLES = cases("siddhi_functions", "examples of the documentation of extensions, and results of Java")


@pytest.mark.parametrize(("expression", "expected"), EXAMPLES)
def test_examples_of_the_documentation(expression, expected):
    found = column(expression)
    assert found == [expected] * 3
    assert type(found[0]) is type(expected)


def test_missing_values():
    assert column("str:concat(s, 'x')") == ["abcx", "Hello Worldx", "x"]
    assert column("str:contains(s, 'a')") == [True, False, False]
    assert column("str:upper(s)") == ["ABC", "HELLO WORLD", None]
    assert column("str:equalsIgnoreCase('a', s)") == [False, False, False]
    assert column("math:max(i, 3)") == [7.0, 3.0, None]
    assert column("maximum(i, 3)") == [7, 3, 3]
    assert column("ifThenElse(b, 1, 0)") == [1, 0, 0]
    assert column("default(d, 0.0)") == [2.5, -2.5, 0.0]
    assert column("instanceOfInteger(i)") == [True, True, False]


@pytest.mark.parametrize("seed", range(3))
def test_numbers_agree_with_exact_arithmetic(seed):
    source = np.random.default_rng(seed)
    numbers = [float(x) for x in np.round(source.normal(0, 40, 60), int(source.integers(0, 3)))]
    frame = pd.DataFrame({"ts": range(60), "x": numbers, "n": source.integers(-(2**62), 2**62, 60)})
    text = (
        "from T select math:round(x) as r, convert(n, 'int') as low, convert(x, 'string') as t insert into O"
    )
    found = cep.siddhi(text, T=frame, order_by="ts").to_frame()
    assert found["r"].tolist() == [math.floor(Fraction(x) + Fraction(1, 2)) for x in numbers]
    assert found["low"].tolist() == frame["n"].to_numpy().astype("int32").tolist()
    assert found["t"].astype(float).tolist() == numbers


@pytest.mark.parametrize("seed", range(3))
def test_texts_agree_with_plain_loops(seed):
    source = np.random.default_rng(seed)
    texts = ["".join(source.choice(list("ab,"), source.integers(0, 7))) for _ in range(60)]
    frame = pd.DataFrame({"ts": range(60), "s": texts, "p": source.integers(-1, 6, 60)})
    text = """from T select str:split(s, ',', p) as part, str:substr(s, p, 2) as cut,
        str:strcmp(s, 'ab') as c, str:locate('b', s) as at, str:replaceAll(s, 'a+', 'x') as r insert into O"""
    found = cep.siddhi(text, T=frame, order_by="ts").to_frame()
    found = found.astype(object).where(found.notna(), None)
    for (s, p), row in zip(zip(texts, frame["p"], strict=True), found.itertuples(index=False), strict=True):
        parts = s.split(",")
        while parts and not parts[-1] and s:
            parts.pop()
        assert row.part == (parts[p] if 0 <= p < len(parts) else None)
        assert row.cut == (s[p] + s[p + 1] if p >= 0 and p + 2 <= len(s) else None)
        assert (row.c > 0, row.c == 0) == (s > "ab", s == "ab")
        assert row.at == next((k for k, sign in enumerate(s) if sign == "b"), -1)
        kept = [sign for k, sign in enumerate(s) if sign != "a" or s[k - 1 : k] != "a"]
        assert row.r == "".join("x" if sign == "a" else sign for sign in kept)


@pytest.mark.parametrize(
    "value", [1e-320, 5e-324, 1.7976931348623157e308, 123456.789, 1e7, 0.00123, -1e-3, 1e21]
)
def test_texts_of_doubles_have_their_value_and_one_digit_before_an_exponent(value):
    text = to_text(value)
    assert float(text) == value
    assert "." in text
    if "E" in text:
        assert len(text.lstrip("-").split(".")[0]) == 1
        assert not 1e-3 <= abs(value) < 1e7


# --- refusals ----------------------------------------------------------------------------------------------

REFUSED = cases("siddhi_functions", "refused")


@pytest.mark.parametrize(("expression", "message"), REFUSED)
def test_refusals_say_what_to_write(expression, message):
    said = refusal(expression)
    assert message in said
    assert "select: " in said or "replacement" in said


def test_only_near_names_are_proposed():
    for name in ("math:mod", "str:startsWith", "createSet", "math:percentile"):
        assert "Did you mean" not in refusal(f"{name}(i)")


WINDOWS = cases("siddhi_functions", "parameters of windows")


@pytest.mark.parametrize(("window", "message"), WINDOWS)
def test_parameters_of_windows_have_a_kind(window, message):
    said = refusal("d", f"from T#window.{window}")
    assert message in said
    assert "filter:" not in said


def test_times_of_windows_may_be_plain_milliseconds():
    assert column("sum(i)", "from T#window.time(1)") == column("sum(i)", "from T#window.time(1 milliseconds)")
    assert column("5 sec") == [5000] * 3


def test_registered_functions_may_have_a_namespace():
    @cep.pure(name="str:initials")
    def initials(text):
        return None if text is None else "".join(word[0] for word in text.split())

    assert column("str:initials(s)") == ["a", "HW", None]
    assert "str:initials takes 1 argument, 2 given" in refusal("str:initials(s, 1)")
    with pytest.raises(cep.PredicateError, match="needs an identifier"):
        cep.pure(len, name="a:b:c")


def test_values_of_unknown_type_are_checked_when_they_come():
    @cep.pure
    def text_or_number(i):
        return "a" if i == 7 else 1

    assert "math:abs: text_or_number(i) has the value 'a'; it must be a number" in refusal(
        "math:abs(text_or_number(i))"
    )
    assert "text_or_number(i) has the value 'a'" in refusal("text_or_number(i) * 2")
    assert "compares 'a' of type str with 3 of type int" in refusal("text_or_number(i) > 3")
    assert "sum: text_or_number(i) has the value 'a'" in refusal("sum(text_or_number(i))")
    assert "x: the values have the types str, int; write convert" in refusal("text_or_number(i)")
    assert "order by: the values have no order" in refusal(
        "text_or_number(i)", "from T#window.lengthBatch(2)", "order by x"
    )
    assert column("convert(text_or_number(i), 'int')") == [None, 1, None]  # i is missing


LISTS = pd.DataFrame({"ts": range(2), "l": [[1], [2]], "m": [{"a": 1}, {"a": 2}]})


@pytest.mark.parametrize(
    ("query", "message"),
    cases("siddhi_functions", "lists and large numbers"),
)
def test_lists_and_numbers_beyond_long_are_one_error(query, message):
    with pytest.raises(cep.CepError, match=message):
        cep.siddhi(query, T=LISTS, order_by="ts").to_frame()
