"""Queries beyond a limit, or with numbers beyond 64 bits, are refused at once; long ones within it run."""

from __future__ import annotations

from random import Random

import pandas as pd
import pytest

import cepkit as cep
from cepkit import limits
from cepkit.compile.shared.terms import like_test
from cepkit.errors import LONGEST, QUOTED, CepError
from cepkit.language.expressions import trees as ex
from tests.support.sizes import seeds

FRAME = pd.DataFrame(
    {
        "kind": list("ABC") * 20,
        "ts": range(60),
        "x": [float(i % 7) for i in range(60)],
        "text": list("xyz") * 20,
        "when": pd.date_range("2026-03-29", periods=60, freq="min", tz="Europe/Berlin"),
    }
)
IS_GOOD = {"good": "x > 1"}


def match(query, **keywords):
    given = {"event_type": "kind", "order_by": "ts"} if query.startswith("PATTERN") else {"define": IS_GOOD}
    return cep.match(FRAME, query, **given | keywords)


def nested(n: int) -> str:
    text = "x > 1"
    for i in range(n):
        text = f"(({text}) = (x > {i}))"
    return text


def inside(one: str, n: int) -> str:
    """Return ``n`` expressions inside each other."""
    text = "x"
    for _ in range(n):
        text = one.format(text)
    return text


def joined(n: int, one: str = "b.x > a.x + {}") -> str:
    return " AND ".join(one.format(i) for i in range(n))


# Each was an endless compilation, or an error of Python, numba or Arrow.
BEYOND = {
    "rounds of nothing": ("(){1000000000} good", {}, "the limit is 1,000,000"),
    "rounds of an option": ("(()?){1,1000000000} good", {}, "the limit is 1,000,000"),
    "rounds of an event": ("PATTERN SEQ(A{1,1000000000000000000000000000000} a, B b)", {}, "rounds of a"),
    "rounds of a group": ("PATTERN (SEQ(A a, B b)){1000000}", {}, "events of the pattern: 2,000,000"),
    "alternatives": ("(" + "|".join(["good"] * 200_000) + ")", {}, "characters of the query: 1,000,001"),
    "events": (
        f"PATTERN SEQ({', '.join(f'A a{i}' for i in range(2000))})",
        {},
        "events of the pattern: 2,000",
    ),
    "conditions": (f"PATTERN SEQ(A a, B b) WHERE {joined(9000)}", {}, "characters of the query"),
    "options": ("good", {"define": {"good": " or ".join(["x = 1"] * 40_000)}}, "characters of the query"),
    "comparisons in a chain": (
        f"PATTERN SEQ(A a, !B b, C c) WHERE {'b.v = ' * 2501}b.v",
        {},
        "conditions of the query: 2,501; the limit is 2,500",
    ),
    "parts of OR": ("good", {"define": {"good": "x or " * 2500 + "x"}}, "conditions of the query: 2,501"),
    "window of digits": (f"PATTERN SEQ(A a, B b) WITHIN {'9' * 5000}", {}, "does not fit into 64 bits"),
    "window of events": (f"PATTERN SEQ(A a, B b) WITHIN {'9' * 30} EVENTS", {}, "does not fit into 64 bits"),
    "window as keyword": ("PATTERN SEQ(A a, B b)", {"within": 10**30}, "does not fit into 64 bits"),
    "rows back": ("good", {"define": {"good": "prev(x, 1000000000) > 1"}}, "at most 1,000,000 rows back"),
    "rows back, digits": ("good", {"define": {"good": f"prev(x, {'9' * 3999}) > 1"}}, "rows back"),
    "comparisons": ("good", {"define": {"good": nested(20)}}, "comparisons of conditions are nested"),
    "between": (
        "good",
        {"define": {"good": inside("abs({} between 1 and 2)", 40) + " > 0"}},
        "inside each other",
    ),
    "chains": ("good", {"define": {"good": inside("abs(1 < {} < 3)", 40) + " > 0"}}, "inside each other"),
    "levels": ("good", {"define": {"good": "not " * 5000 + "x > 1"}}, "more than 100 levels are nested"),
    "sums": ("good", {"define": {"good": "x+" * 40_000 + "x > 1"}}, "names, numbers and signs of the query"),
    "levels of sums": ("good", {"define": {"good": "x+" * 100 + "x > 1"}}, "100 levels are nested; simplify"),
    "brackets": ("(" * 101 + "good" + ")" * 101, {}, "more than 100 levels are nested"),
    "brackets of options": ("(good | " * 9000 + "good" + ")" * 9000, {}, "more than 100 levels are nested"),
    "positions": ("good{100}", {}, "has 100 positions"),
    "orders": ("PATTERN AND(A a, A b, A c, A d, A e, A f, A g)", {}, "more than 720 patterns"),
    "a measure": ("good", {"measures": {"v": "9223372036854775808"}}, "does not fit into 64 bits"),
    "a skipped hour": ("good", {"define": {"good": "when > '2026-03-29 02:30'"}}, "does not exist in Europe"),
    "a double hour": ("good", {"define": {"good": "when > '2026-10-25 02:30'"}}, "or exists twice"),
    "a number of digits": ("good", {"define": {"good": f"PREV(x {'9' * 90_000})"}}, "expected an operator"),
    "a name and NUL": ("good", {"define": {"good": f"{'a' * 90_000}\0"}}, "unexpected character"),
    "two texts": ("good", {"define": {"good": "'a' < 'b'"}}, "this compares two constants"),
}


def rows(pattern: str, define: str = "A AS x > 1", clauses: str = "") -> str:
    return f"MATCH_RECOGNIZE (ORDER BY ts {clauses} PATTERN ({pattern}) DEFINE {define})"


def listed(n: int, one: str) -> str:
    return ", ".join(one.format(i) for i in range(n))


def in_a_row(n: int) -> str:
    return "".join(f"from {f'S{i}' if i else 'T'} select x insert into S{i + 1};" for i in range(n))


# The other languages: each was an endless search for transitions, a RecursionError, or quadratic.
BEYOND_ROWS = {
    "rounds of no row": (rows("(){1000000000} A"), "rounds of a repetition: 1,000,000,000"),
    "rounds": (rows("A{1,1000000000}"), "the limit is 1,000,000"),
    "rounds of digits": (rows(f"A{{{'9' * 3999}}}"), "a number of 3999 digits"),
    "nested rounds": (rows("(((A{100}){100}){100}){100}"), "bounds of the quantifiers are too large"),
    "options": (rows("(A?){3000}"), "bounds of the quantifiers are too large"),
    "nested options": (rows("(((A?){50})*){50}"), "bounds of the quantifiers are too large"),
    "orders": (rows(f"PERMUTE({listed(12, 'A{}')})"), "PERMUTE takes eight patterns at most"),
    "orders of orders": (rows("PERMUTE(A, A, A, A, A, A, A, A)"), "bounds of the quantifiers are too large"),
    "alternatives": (rows("|".join(["A"] * 500_000)), "characters of the query"),
    "parts": (rows(" ".join(["A"] * 21_000)), "numbers and signs of the query: 21,0"),
    "between": (
        rows("A", "A AS " + inside("CASE WHEN {} BETWEEN 1 AND 2 THEN 1 END", 40) + " > 0"),
        "BETWEEN or comparisons inside each other repeat more than 20,000 parts",
    ),
    "sums": (rows("A", f"A AS {'x+' * 40_000}x > 1"), "numbers and signs of the query: 80,0"),
    "levels of sums": (rows("A", f"A AS {'x+' * 4000}x > 1"), "more than 100 levels are nested"),
    "texts": (rows("A", f"A AS {'s || ' * 2000}s = 'x'"), "more than 100 levels are nested"),
    "items": (rows("A", f"A AS x IN ({'x, ' * 20_000}x)"), "the limit is 10,000. Give long lists"),
    "brackets": (rows("A", "A AS " + "NOT " * 5000 + "x > 1"), "more than 100 levels are nested"),
    "options of options": (rows("(A | " * 3000 + "A" + ")" * 3000), "more than 100 levels are nested"),
    "conditions": (rows("A", listed(1001, "A{} AS x > 1")), "entries of a list: 1,001"),
    "measures": (rows("A", clauses=f"MEASURES {listed(1001, 'A.x AS m{}')}"), "entries of a list: 1,001"),
    "keys": (rows("A").replace("ORDER BY ts", f"ORDER BY {listed(1001, 'x')}"), "the limit is 1,000"),
    "rows of LIMIT": (f"SELECT * FROM t {rows('A')} LIMIT {'9' * 5000}", "does not fit into 64 bits"),
    "length of a type": (rows("A", f"A AS CAST(x AS varchar({'9' * 5000})) = '1'"), "length of the type"),
}


@pytest.mark.parametrize("name", BEYOND_ROWS)
def test_a_row_pattern_beyond_a_limit_is_refused(name):
    query, said = BEYOND_ROWS[name]
    with pytest.raises(CepError) as caught:
        cep.match(FRAME, query).to_frame()
    assert said in str(caught.value)
    assert max(map(len, str(caught.value).splitlines())) <= QUOTED + 100


def doubled(part, join, n: int = 60):
    """Return a tree whose parts are shared, so that its text has 2^n parts."""
    for _ in range(n):
        part = join(part, part)
    return part


A, B = cep.event("a", "A"), cep.event("b", "B")
BOOLEAN, NUMBER = ex.Attribute("good"), ex.Attribute("x")
EITHER = ex.Comparison(">", NUMBER, ex.Literal(1))
SUM, AND_OR = "equal parts repeat more than 20,000 times; compute them as columns", "limit is 2,500"


def plus(left, right):
    if isinstance(left, ex.Expression):
        return ex.Arithmetic("+", left, right)
    return left + right


def both(left, right):
    return ex.And((left, ex.Or((right, BOOLEAN))))


def one_of_two(left, right):
    return ((left & A["x"]) | (right & B["x"])) & B["good"]


# Each took more time and memory than there is: Python shares the parts, and a text cannot.
BEYOND_BUILT = {
    "and": (lambda: cep.match(FRAME, cep.seq(A, B).where(doubled(B["x"] > 1, lambda e, f: e & f))), AND_OR),
    "or": (lambda: cep.match(FRAME, cep.seq(A, B).where(doubled(B["x"] > 1, lambda e, f: e | f))), AND_OR),
    "and and or": (lambda: cep.match(FRAME, cep.seq(A, B).where(doubled(B["x"] > 1, one_of_two))), SUM),
    "sums": (
        lambda: cep.match(FRAME, cep.seq(A, B).where(doubled(B["x"], plus) > 1)),
        SUM,
    ),
    "of an event": (
        lambda: cep.match(FRAME, cep.seq(A, B.where(doubled(B["x"], lambda e, f: e * f) > 1))),
        SUM,
    ),
    "end of a loop": (lambda: A.plus(until=doubled(A["x"], plus) > 1), SUM),
    "keyword": (
        lambda: cep.sequence_query("PATTERN SEQ(A a, B b)", where=doubled(B["x"], plus) > 1),
        SUM,
    ),
    "measure": (
        lambda: cep.match(FRAME, "PATTERN SEQ(A a, B b)", measures={"m": doubled(B["x"], plus)}),
        SUM,
    ),
    "levels": (
        lambda: cep.match(FRAME, cep.seq(A, B).where(doubled(B["x"] > 1, lambda e, _: ~e, 5000))),
        "more than 100 levels are nested",
    ),
    "predicate": (lambda: cep.match(FRAME, "good", define={"good": doubled(EITHER, both)}), SUM),
    "measure of a regex": (
        lambda: cep.match(FRAME, "good", define=IS_GOOD, measures={"m": doubled(NUMBER, plus)}),
        SUM,
    ),
    "runs": (lambda: cep.runs(FRAME, doubled(EITHER, both), order_by="ts"), SUM),
    "window": (lambda: cep.Window({"m": ex.Aggregate("sum", doubled(NUMBER, plus))}, length=3), SUM),
    "sequence": (
        lambda: cep.match(FRAME, doubled("good", cep.seq), define=IS_GOOD),
        "parts of the pattern: 32,768; the limit is 20,000",
    ),
    "options": (lambda: doubled(cep.var("good"), lambda p, q: p | q), "parts of the pattern: 32,768"),
    "loops": (
        lambda: cep.match(
            FRAME, doubled(cep.var("good"), lambda p, q: cep.seq(p.plus(), q.plus())), define=IS_GOOD
        ),
        "pattern: equal parts repeat more than 20,000 times; write repetitions",
    ),
    "events": (
        lambda: cep.match(FRAME, doubled(A, cep.seq), event_type="kind"),
        "pattern: equal parts repeat more than 20,000 times; write repetitions",
    ),
    "events in any order": (
        lambda: doubled(A, cep.all_of).within(5),
        "pattern: equal parts repeat more than 20,000 times; write repetitions",
    ),
}


@pytest.mark.parametrize("name", BEYOND_BUILT)
def test_a_query_of_python_with_too_many_shared_parts_is_refused(name):
    call, said = BEYOND_BUILT[name]
    with pytest.raises(CepError) as caught:
        call()
    assert said in str(caught.value)
    assert len(str(caught.value)) <= QUOTED + 100


def test_a_query_of_python_may_share_parts():
    condition = doubled(B["x"] >= 0, lambda e, f: e & f, 8)
    assert len(cep.match(FRAME, cep.seq(A, B).where(condition), event_type="kind", order_by="ts")) > 0
    assert len(cep.match(FRAME, doubled("good", cep.seq, 2), define=IS_GOOD)) > 0


BEYOND_SIDDHI = {
    "queries": ("".join(f"from T select x insert into S{i};" for i in range(501)), "queries of the app: 501"),
    "queries in a row": (in_a_row(51), "queries that read one another in a row: 51"),
    "states": (f"from {' -> '.join(f'e{i}=T' for i in range(201))} select e1.x insert into O", "states of"),
    "partial matches": (
        f"from {' -> '.join(f'every e{i}=T' for i in range(30))} select e1.x insert into O",
        "partial matches that wait at the same time",
    ),
    "digits of a count": (f"from e1=T<1:{'9' * 5000}> -> e2=T select e2.x insert into O", "too long"),
    "digits of a long": (f"from T[x > {'9' * 5000}L] select x insert into O", "the number is too long"),
    "levels": (f"from T[{'not ' * 5000}(x > 1)] select x insert into O", "more than 100 levels are nested"),
    "brackets": (f"from {'(e=T -> ' * 1000}e1=T{')' * 1000} select e1.x insert into O", "levels are nested"),
    "characters": (f"from T select '{'a' * 900_000}' as x insert into O", "characters of the query"),
    "updates": ("update " * 150_000, "characters of the query"),
}


@pytest.mark.parametrize("name", BEYOND_SIDDHI)
def test_an_app_of_siddhi_beyond_a_limit_is_refused(name):
    text, said = BEYOND_SIDDHI[name]
    with pytest.raises(CepError) as caught:
        cep.siddhi(text, T=FRAME, order_by="ts").to_frame()
    assert said in str(caught.value)
    assert max(map(len, str(caught.value).splitlines())) <= QUOTED + 100


@pytest.mark.parametrize(
    "call",
    [
        lambda: cep.siddhi(
            "from e1=T<1:1000000000> -> e2=T select e2.x insert into O", T=FRAME, order_by="ts"
        ),
        lambda: cep.siddhi(in_a_row(50), T=FRAME, order_by="ts"),
        lambda: cep.match(FRAME, rows("A{1,1000} B", "A AS x > 1")),
        lambda: cep.match(FRAME, rows("(A?){300}")),
        lambda: cep.match(FRAME, rows("A", listed(1, "A AS x > 1"), f"MEASURES {listed(900, 'A.x AS m{}')}")),
        lambda: cep.match(FRAME, rows("((){1000000}){1000000} A")),
        lambda: cep.join(
            FRAME, FRAME, left=cep.Window(length=2**62), right=cep.Window(length=2**62), order_by="ts"
        ),
    ],
)
def test_what_is_within_the_limits_runs(call):
    assert call() is not None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: cep.window(FRAME, {"v": "sum(x)"}, length=10**30), "length=1000"),
        (lambda: cep.window(FRAME, {"v": "sum(x)"}, time=10**30, order_by="ts"), "does not fit into 64 bits"),
        (lambda: cep.window(FRAME, {f"v{i}": "sum(x)" for i in range(1001)}, length=3), "aggregates: 1,001"),
        (
            lambda: cep.window(FRAME, {"v": "delta(text)"}, length=3),
            "delta() needs numbers or times",
        ),
        (lambda: cep.siddhi("from not T for 0 sec and e=T select e.x insert into O", T=FRAME), "above 0"),
        (lambda: cep.event("a", "A").times(None), "expected a whole number"),
        (lambda: cep.var("a").times(None), "expected a whole number"),
        (lambda: cep.window(FRAME, {"v": "std()"}, length=3), "std takes exactly one argument, 0 given"),
        (lambda: cep.window(FRAME, {"v": "+".join(["sum(x)"] * 300)}, length=3), "more than 100 levels"),
        (lambda: cep.sessions(FRAME, gap=10**30, order_by="ts"), "does not fit into 64 bits"),
        (lambda: cep.sessions(FRAME, gap="9" * 5000 + " s", order_by="when"), "the number is too long"),
        (lambda: cep.runs(FRAME, "not " * 5000 + "x = 1", order_by="ts"), "more than 100 levels are nested"),
        (lambda: cep.translate(rows("A{1000000000}"), "regex"), "the limit is 1,000,000"),
    ],
)
def test_windows_and_idioms_beyond_a_limit_are_refused(call, said):
    with pytest.raises(CepError) as caught:
        call()
    assert said in str(caught.value)


@pytest.mark.parametrize("name", BEYOND)
def test_a_query_beyond_a_limit_is_refused(name):
    query, keywords, said = BEYOND[name]
    with pytest.raises(CepError) as caught:
        match(query, **keywords)
    message = str(caught.value)
    assert said in message, message[:500]
    assert max(map(len, message.splitlines())) <= QUOTED + 100
    assert len(message) <= LONGEST


TEXTS = ", ".join(f"'t{i}'" for i in range(3000)) + ", 'x'"
WITHIN = {
    "a list of numbers": ("good", {"define": {"good": f"x in ({', '.join(map(str, range(100_000)))})"}}, 60),
    "a list of texts": ("good", {"define": {"good": f"text in ({TEXTS})"}}, 20),
    "comparisons": ("good", {"define": {"good": nested(limits.NESTED_COMPARISONS)}}, None),
    "orders": ("PATTERN AND(A a, B b, C c, A d, B e) WITHIN 10", {}, None),
    "like": ("good", {"define": {"good": "text like '%x%x%x%x%x%x%x%y'"}}, 0),
    "conditions in texts": ("good", {"define": {"good": f"text != '{'= and ' * 9000}'"}}, None),
    "brackets": ("(" * 100 + "good" + ")" * 100, {}, None),
    "a window of all events": (f"PATTERN SEQ(A a, B b) WITHIN {2**63 - 1} EVENTS", {}, 210),
}


@pytest.mark.parametrize("name", WITHIN)
def test_a_long_query_within_the_limits_runs(name):
    query, keywords, expected = WITHIN[name]
    found = match(query, **keywords).count()
    assert expected is None or found == expected


def test_an_error_shows_the_text_around_its_place():
    text = "x > 1 or " * 1000 + "y > 2" + " or x > 3" * 1000
    with pytest.raises(cep.ColumnNotFoundError) as caught:
        match("good", define={"good": text})
    said, line, carets = str(caught.value).splitlines()
    assert "'y'" in said
    assert line.count("…") == 2 and len(line) <= QUOTED + 4
    assert line[carets.index("^") :].startswith("y > 2")


def naive_like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(naive_like(pattern[1:], text[i:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and naive_like(pattern[1:], text[1:])


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_like_equals_its_definition(seed):
    draw = Random(seed)
    pattern = "".join(draw.choice("ab%_") for _ in range(draw.randrange(8)))
    for _ in range(20):
        text = "".join(draw.choice("ab") for _ in range(draw.randrange(9)))
        assert like_test(pattern)(text) == naive_like(pattern, text), (pattern, text)


def test_like_takes_no_exponential_time():
    assert not like_test("%a%a%a%a%a%a%a%a%a%b")("a" * 20_000)
