"""Mutated queries and odd values: each call answers, or refuses with an error of cepkit, in bounded time."""

from __future__ import annotations

import pytest

import cepkit as cep
from cepkit.language.siddhi.printing import early_within
from tests.support.hostile_runs import frame, in_time, run_cases
from tests.support.sizes import seeds


@pytest.mark.parametrize("seed", seeds(8, 24))
def test_a_hostile_text_is_answered_or_refused(seed, full):
    n = 5_000 if full else 40
    outcomes = run_cases(range(seed * n, (seed + 1) * n))
    print(outcomes)
    assert outcomes.faults == []
    assert sum(outcomes.n_of.values()) == n


BETWEEN = (" ", "\n", "11 ", "1 sec ", "/* ", '""" ', *"'\"`", "( ", "[ ", ". ", "a ", *"-!", "within 1 sec ")
CALLS = {
    "sequence": lambda text: cep.match(frame(), text, event_type="kind", order_by="ts"),
    "SQL": lambda text: cep.match(frame(), text),
    "SiddhiQL": lambda text: cep.siddhi(text, T=frame(), order_by="ts"),
}
PLACES = {
    "sequence": "PATTERN SEQ(A a, B b) WHERE strict_contiguity{}",
    "SQL": "MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 1{}",
    "SiddhiQL": "from e1=T[x > 1]{} -> e2=T within 11 11{} select e1.x insert into O",
}


@pytest.mark.parametrize("sign", BETWEEN)
@pytest.mark.parametrize("language", list(CALLS))
def test_many_equal_signs_are_read_in_linear_time(language, sign):
    """A regular expression takes quadratic or exponential time where a text fits it in many ways."""
    text = PLACES[language].replace("{}", sign * (45_000 // len(sign)))
    try:
        with in_time():
            CALLS[language](text)
    except cep.CepError as error:
        assert len(str(error)) < 4_200


def test_the_amounts_of_within_are_read_in_one_way():
    with in_time():
        assert early_within("within " + "11 " * 40 + "!") is None
    assert early_within("within 1 min 30 sec ") is not None


@pytest.mark.parametrize(
    ("language", "text", "n"),
    [
        ("SQL", "MATCH_RECOGNIZE (ORDER BY ts PATTERN (A{20000} B) DEFINE A AS x > 1)", 0),
        ("SQL", "MATCH_RECOGNIZE (ORDER BY ts PATTERN (A{20000} B{20000}) DEFINE A AS x > 1)", 0),
        ("sequence", f"PATTERN SEQ({', '.join(f'A a{i}' for i in range(200))}) WITHIN 5", 0),
    ],
)
def test_long_patterns_are_answered_or_refused_in_time(language, text, n):
    try:
        with in_time():
            assert CALLS[language](text).count() == n
    except cep.CepError as error:
        assert len(str(error)) < 4_200


PARTS = ".".join("ax" * 10_000)
MANY_PARTS = {
    "condition": lambda: CALLS["sequence"](f"PATTERN SEQ(A a, B b) WHERE {PARTS} > 1"),
    "key": lambda: CALLS["sequence"](f"PATTERN SEQ(A a, B b) WHERE [{PARTS}]"),
    "predicate": lambda: cep.match(frame(), ". p", define={"p": f"{PARTS} > 1"}),
    "clock": lambda: cep.match(frame(), ". p", define={"p": "x > 1"}, order_by=PARTS),
    "SQL": lambda: CALLS["SQL"](f"MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS {PARTS} > 1)"),
    "window": lambda: cep.window(frame(), {"v": f"sum({PARTS})"}, length=3),
    "EQL": lambda: cep.eql(f"sequence [kind where {PARTS} > 1] [any where true]", frame(), order_by="ts"),
}


@pytest.mark.parametrize("name", MANY_PARTS)
def test_a_name_of_very_many_parts_is_refused_in_time(name):
    """Each of its beginnings may be a column with structs in it, and was looked up."""
    with in_time(), pytest.raises(cep.CepError) as refused:
        MANY_PARTS[name]()
    assert len(str(refused.value)) < 4_200


@pytest.mark.parametrize("n", [101, 45_000])
def test_a_text_that_nests_deeply_never_reaches_duckdb(n):
    """DuckDB takes 12 GB to read 45,000 brackets."""
    text = f"SELECT x FROM {'(' * n}t{')' * n} MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 1)"
    with in_time(), pytest.raises(cep.CepError, match="more than 100 levels are nested"):
        cep.sql(text, t=frame())


def test_half_a_surrogate_pair_never_reaches_duckdb():
    rows = "(SELECT * FROM t WHERE s = '\ud800')"
    text = f"SELECT x FROM {rows} MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 1)"
    with pytest.raises(cep.CepError, match="half of a surrogate pair"):
        cep.sql(text, t=frame())
