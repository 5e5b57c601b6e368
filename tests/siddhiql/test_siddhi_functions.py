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
from cepkit.siddhiql.calls import FUNCTIONS, Scope, SlotOf
from cepkit.siddhiql.functions import BOOL, CONVERSIONS, DOUBLE, INT, LONG, SINGLE, STRING, TESTS, to_text
from cepkit.siddhiql.inputs import arrow_of_type
from cepkit.siddhiql.selecting import NAMES
from cepkit.siddhiql.values import compile_siddhi

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
        assert attribute in ("s", "b", "mixed_values(i)")


# --- values ------------------------------------------------------------------------------------------------

# The examples of the documentation of Siddhi's extensions, and results of Java.
EXAMPLES = [
    ("str:substr('AbCDefghiJ KLMN', 4)", "efghiJ KLMN"),
    ("str:substr('AbCDefghiJ KLMN', 2, 4)", "CDef"),
    ("str:substr('WSO2D efghiJ KLMN', '^WSO2(.*)')", "WSO2D efghiJ KLMN"),
    ("str:substr('WSO2 cep WSO2 XX E hi hA WSO2 heAllo', 'WSO2(.*)A(.*)', 2)", "llo"),
    ("str:substr('abc', 'x+')", ""),
    ("str:substr('abc', 3)", ""),
    ("str:substr('abc', 4)", None),
    ("str:substr('abc', 1, 3)", None),
    ("str:substr('abc', -1)", None),
    ("str:regexp('WSO2 abcdh', 'WSO(.*h)')", True),
    ("str:regexp('WSO2 abcdh', 'WSO')", False),
    (r"str:regexp('7\u00e9', '\\d\\w')", False),
    ("str:regexp('ab', '(?i)(?<all>A)B')", True),
    ("str:replaceAll('hello hi hello', 'hello', 'test')", "test hi test"),
    ("str:replaceAll('abxd', 'x*', '-')", "-a-b--d-"),
    ("str:replaceAll('a1b22', '([a-z])([0-9]+)', '$2$1')", "1a22b"),
    ("str:replaceAll('a1', '([a-z])', '$12')", "a21"),
    ("str:replaceAll('abcdefghij', '(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)', '$10$9')", "ji"),
    ("str:replaceAll('ab', '(a)(b)', '$2$1$20')", "bab0"),
    ("str:replaceAll('a1', '(?<let>[a-z])', '<${let}>')", "<a>1"),
    (r"str:replaceAll('5', '5', '\\$5')", "$5"),
    ("str:replaceFirst('hello WSO2 A hello', 'hello', 'XXXX')", "XXXX WSO2 A hello"),
    ("str:trim('  a b\t')", "a b"),
    ("str:trim('\u00a0a')", "\u00a0a"),
    ("str:concat('D533', '8JU^', 'XYZ')", "D5338JU^XYZ"),
    ("str:concat('a', 1, 2.5, true, 1e10)", "a12.5true1.0E10"),
    ("str:contains('21 products are produced by WSO2 currently', 'WSO2')", True),
    ("str:equalsIgnoreCase('WSO2', 'wso2')", True),
    ("str:equalsIgnoreCase('stra\u00dfe', 'strasse')", False),
    ("str:charAt('WSO2', 1)", "S"),
    ("str:charAt('WSO2', 4)", None),
    ("str:reverse('Hello')", "olleH"),
    ("str:strcmp('AbCDefghiJ KLMN', 'Hello')", -7),
    ("str:strcmp('abc', 'ab')", 1),
    ("str:split('WSO2,ABM,NSFT', ',', 0)", "WSO2"),
    ("str:split('a,b,,', ',', 2)", None),
    ("str:split(',a', ',', 0)", ""),
    ("str:split('abc', '', 1)", "b"),
    ("str:locate('@wso2.com', 'streamin@wso2.com')", 8),
    ("str:locate('a', 'banana', 2)", 3),
    ("str:coalesce(null, 'a', 'b')", "a"),
    ("math:log(34, 2f)", 5.08746284125034),
    ("math:log(34, 1)", None),
    ("math:log2(91d)", 6.507794640198696),
    ("math:log10(1000)", 3.0),
    ("math:ln(0)", -math.inf),
    ("math:power(5.6d, 3.0d)", 175.61599999999996),
    ("math:power(0, -1)", math.inf),
    ("math:sin(6d)", -0.27941549819892586),
    ("math:asin(0.5)", 0.5235987755982989),
    ("math:atan(1, 1)", math.pi / 4),
    ("math:cbrt(27)", 3.0),
    ("math:exp(1000)", math.inf),
    ("math:max(123.67d, 91)", 123.67),
    ("math:min(123.67d, 91)", 91.0),
    ("math:round(3252.353)", 3252),
    ("math:round(-2.5)", -2),
    ("math:round(0.49999999999999994)", 0),
    ("math:round(1e300)", 2**63 - 1),
    ("math:signum(-6.32d)", -1),
    ("math:copySign(5.6d, -3.0d)", -5.6),
    ("math:floor(10.23)", 10.0),
    ("math:ceil(423.187d)", 424.0),
    ("math:abs(-3)", 3.0),
    ("math:abs(-3) / 2", 1.5),
    ("math:sqrt(4d)", 2.0),
    ("math:toDegrees(math:pi())", 180.0),
    ("math:isInfinite(1 / math:max(0.5, 1))", False),
    ("math:parseInt('123')", 123),
    ("math:parseLong('12x')", None),
    ("math:parseDouble('1.5d')", 1.5),
    ("convert('abc', 'int')", None),
    ("convert(' 12', 'int')", None),
    ("convert('1_000', 'int')", None),
    ("convert('+12', 'int')", 12),
    ("convert('2147483648', 'int')", None),
    ("convert('2147483648', 'long')", 2**31),
    ("convert(' 2.5f ', 'double')", 2.5),
    ("convert(2.9, 'int')", 2),
    ("convert(-2.9, 'long')", -2),
    ("convert(1e10, 'int')", 2**31 - 1),
    ("convert(4294967297L, 'int')", 1),
    ("convert(true, 'int')", 1),
    ("convert(1, 'bool')", True),
    ("convert(2, 'bool')", False),
    ("convert('TRUE', 'bool')", True),
    ("convert(0.001, 'string')", "0.001"),
    ("convert(0.0001, 'String')", "1.0E-4"),
    ("convert(9999999.0, 'string')", "9999999.0"),
    ("convert(1.5e7, 'string')", "1.5E7"),
    ("ifThenElse(true, 1, 2L)", 1),
    ("ifThenElse(false, 'a', null)", None),
    ("coalesce(null, 76, 567)", 76),
    ("default(2.5f, 0.0)", 2.5),
]  # fmt: skip


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

REFUSED = [
    ("default(d, 0)", "default: arguments 1 and 2 must have one type, but d is of type double and 0 of "
     "type int; write 0.0 or convert(0, 'double')"),
    ("coalesce(i, d)", "i of type int; write convert(i, 'double')"),
    ("ifThenElse(d > 1, d, 0)", "arguments 2 and 3 must have one type"),
    ("ifThenElse(b, 'a', 0)", "'a' is of type string and 0 of type int; write convert(0, 'string')"),
    ("ifThenElse(b, 1, 'a')", "write convert(1, 'string')"),
    ("ifThenElse(i, 'a', 'b')", "ifThenElse: argument 1 is i, of type int; it must be a bool"),
    ("minimum(i, d)", "minimum: arguments 1 and 2 must have one type"),
    ("maximum(s)", "maximum: argument 1 is s, of type string; it must be a number"),
    ("math:abs(s)", "argument 1 is s, of type string; it must be a number; write convert(s, 'double')"),
    ("str:length(i)", "argument 1 is i, of type int; it must be a text; write convert(i, 'string')"),
    ("str:substr(s, 1.5)", "it must be a whole number or a text"),
    ("str:substr(s)", "str:substr takes 2 or 3 arguments, 1 given"),
    ("math:pi(1)", "math:pi takes no argument, 1 given"),
    ("coalesce()", "coalesce takes 1 or more arguments, 0 given"),
    ("str:regexp(s, '(')", "str:regexp: '(' is no regular expression that runs here"),
    (r"str:regexp(s, '\\p{Alpha}')", r"'\\p' in the regular expression"),
    ("str:regexp(s, '[a-z&&[^b]]')", "in the regular expression '[a-z&&[^b]]' does not run"),
    ("str:replaceAll(s, 'a', '$1')", "'$1' in the replacement '$1' names no group"),
    ("convert(d, 'integer')", "convert: no type 'integer'; types: string, int, long, float, double, bool. "
     "Did you mean 'int'?"),
    ("convert(d, s)", "convert: write the name of a type in quotes"),
    ("convert(d)", "convert takes a value and the name of a type, 1 given"),
    ("cast(i, 'double')", "cast changes no value, and i is of type int; write convert(i, 'double')"),
    ("math:rand()", "math:rand() gives another value in each run"),
    ("time:extract('hour', ts)", "time:extract reads the clock or the time zone of the machine"),
    ("math:mod(d)", "no function 'math:mod'; register your own with @cep.pure(name='math:mod')"),
    ("str:uper(s)", "Did you mean 'str:upper'?"),
    ("upper(s)", "Did you mean 'str:upper'?"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "message"), REFUSED)
def test_refusals_say_what_to_write(expression, message):
    said = refusal(expression)
    assert message in said
    assert "select: " in said or "replacement" in said


def test_only_near_names_are_proposed():
    for name in ("math:mod", "str:startsWith", "createSet", "math:percentile"):
        assert "Did you mean" not in refusal(f"{name}(i)")


WINDOWS = [
    ("length(3 sec)", "#window.length takes a number of events here, not the time 3 sec"),
    ("length(2.5)", "#window.length takes a number of events here, not 2.5"),
    ("length(-1)", "#window.length takes a number of events here, not -1"),
    ("length(0)", "#window.length takes a number of events of 1 or more here, not 0"),
    ("length('3')", "not '3'"),
    ("length(true)", "not true"),
    ("lengthBatch(2 min)", "#window.lengthBatch takes a number of events here, not the time 2 min"),
    ("lengthBatch(2, 3)", "#window.lengthBatch takes true or false here, not 3"),
    ("time('3 sec')", "#window.time takes a time such as 5 sec here, not '3 sec'"),
    ("time(2.5)", "#window.time takes a time such as 5 sec here, not 2.5"),
    ("time(true)", "#window.time takes a time such as 5 sec here, not true"),
    ("time(0 sec)", "#window.time takes a time above 0 here"),
    ("timeLength(2 sec, 3 sec)", "#window.timeLength takes a number of events here, not the time 3 sec"),
    ("timeLength(2, 3 sec)", "#window.timeLength takes a number of events here, not the time 3 sec"),
    ("timeBatch(d)", "#window.timeBatch takes a time such as 5 sec here, not d"),
    ("timeBatch(1 sec, 'a')", "#window.timeBatch takes a time or true or false here, not 'a'"),
    ("sort(2 sec, d)", "#window.sort takes a number of events here, not the time 2 sec"),
    ("sort(2, d, 'up')", "#window.sort takes attributes, each with 'asc' or 'desc' here, not 'up'"),
    ("sort(2, y)", "#window.sort: T has no attribute 'y'"),
    ("externalTime(d, 1 sec)", "#window.externalTime takes an attribute of type long here, not d"),
    ("externalTime(ts, 'a')", "#window.externalTime takes a time such as 5 sec here, not 'a'"),
    ("externalTimeBatch(ts, 1.5)", "#window.externalTimeBatch takes a time such as 5 sec here, not 1.5"),
    ("externalTimeBatch(ts, 1 sec, 'a')", "#window.externalTimeBatch takes a time or true or false here"),
]  # fmt: skip


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
    assert column("convert(text_or_number(i), 'int')") == [None, 1, 1]


LISTS = pd.DataFrame({"ts": range(2), "l": [[1], [2]], "m": [{"a": 1}, {"a": 2}]})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("from T select count() as n group by l insert into O", "group by: l has the value"),
        ("from T select distinctCount(m) as n insert into O", "select: m has the value"),
        (
            "from T#window.lengthBatch(2) select m order by m insert into O",
            "order by: the values have no order",
        ),
        (
            "partition with (l of T) begin from T select ts insert into O; end",
            "partition with: l has the value",
        ),
        ("from T select math:abs(l) as x insert into O", "math:abs: l has the value"),
        (
            "from T select ts * ts * 9000000000 * 9000000000 as x insert into O",
            r"column 'x' holds 81\d+ of type int, which a result cannot hold",
        ),
    ],
)
def test_lists_and_numbers_beyond_long_are_one_error(query, message):
    with pytest.raises(cep.CepError, match=message):
        cep.siddhi(query, T=LISTS, order_by="ts").to_frame()
