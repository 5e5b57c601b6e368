"""A query and its translation match the same rows, for random queries in every pair of languages.

Whatever `translate` prints is run by the oracle of its language. What it refuses is counted: each family of
queries below must be translated often enough that the comparison means something.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

import cepkit as cep
from cepkit.errors import UnsupportedQueryError
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.printing import print_match_recognize
from tests.oracle import generate, generate_match_recognize, generate_sequences
from tests.support.sizes import seeds
from tests.support.translations import query_of_code, run_query, run_text

TARGETS = ("sase", "regex", "match_recognize", "siddhi", "flink_cep_java", "python")


def random_rows(random: Random, n: int, *, nulls: bool) -> list[dict]:
    t, rows = 0, []
    for _ in range(n):
        t += random.randint(1, 3)
        row = {
            "kind": random.choice("ABBC"), "k": random.choice("pq"), "t": t, "x": random.randint(0, 4),
            "y": random.randint(0, 2),
        }  # fmt: skip
        if nulls and random.random() < 0.15:
            row[random.choice("xy")] = None
        rows.append(row)
    return rows


def check(source, query, random: Random, counts: Counter, *, n_streams: int = 3) -> None:
    """Translate a query to every language, and compare the matched rows on random rows."""
    for target in TARGETS:
        try:
            text = cep.translate(source, target)
        except UnsupportedQueryError:
            counts[target, "refused"] += 1
            continue
        counts[target, "translated"] += 1
        for _ in range(n_streams):
            nulls = target not in ("siddhi", "flink_cep_java")
            rows = random_rows(random, random.randint(1, 14), nulls=nulls)
            wanted = run_query(query, rows)
            counts[target, "matches"] += len(wanted)
            assert run_text(target, text, rows) == wanted, f"{query}\n\n{target}:\n{text}\n\n{rows}"


def require(counts: Counter, targets: tuple[str, ...], least: int) -> None:
    """Require that the queries were translated to these languages often enough, with matches."""
    for target in targets:
        assert counts[target, "translated"] >= least, counts
        assert counts[target, "matches"] > 0, counts


# --- regexes

ROW_TESTS = (
    "x > prev(x)",
    "x <= prev(x)",
    "x >= 2",
    "y == 1",
    "x > prev(x, 2)",
    "y in (0, 2)",
    "not (x < y)",
)
MATCH_TESTS = ("x > first(x)", "y != last(y)", "x >= count()", "x < first(y) + 2")


def random_chain(random: Random) -> cep.RegexQuery:
    """Return a regex with a fixed number of rows up to its earliest end."""
    define = {
        name: " and ".join(random.sample(ROW_TESTS + MATCH_TESTS, random.choice([1, 1, 2]))) for name in "bcd"
    }
    define["a"] = random.choice(ROW_TESTS)
    parts = [random.choice(["a", "."])]
    for _ in range(random.randint(0, 3)):
        parts.append(random.choice(["b", "c", "d", "b{2}", "(c | d)", "(b c){2}", "."]))
    parts += random.choice([[], [], ["d+"], ["c{2,}"], ["b*"]])
    pattern = " ".join(parts)
    used = {name: text for name, text in define.items() if name in pattern}
    within = random.choice([None, None, None, random.randint(2, 9), f"{random.randint(2, 9)} s"])
    return cep.regex_query(
        pattern, define=used or None, order_by="t", partition_by=random.choice([None, "k"]), within=within,
        within_closed=random.random() < 0.5,
    )  # fmt: skip


def random_loops(random: Random) -> cep.RegexQuery:
    """Return a regex with loops, whose ends are often unique."""
    end, other = random.choice(
        [
            ("x >= 3", "x < 3"),
            ("x < prev(x)", "x >= prev(x)"),
            ("y == 1", "y in (0, 2)"),
            ("x > 2", "x <= 2.5"),
        ]
    )
    names = "abc"[: random.randint(1, 3)]
    define = {
        name: random.choice([other, f"{other} and {random.choice(ROW_TESTS)}", random.choice(ROW_TESTS)])
        if random.random() < 0.2 else f"{other} and {random.choice(ROW_TESTS)}"
        for name in names
    }  # fmt: skip
    parts = [
        random.choice(["{}", "{}+", "{}*", "{}?", "{}{{2,3}}", "({} | a)+", "({} a*)+"]).format(
            random.choice(names)
        )
        for _ in range(random.randint(1, 3))
    ]
    pattern = " ".join([*parts, "z"])
    define |= {"z": end}
    return cep.regex_query(
        pattern, define={name: text for name, text in define.items() if name in pattern}, order_by="t",
        partition_by=random.choice([None, "k"]), within_closed=False,
        within=random.choice([None, None, f"{random.randint(2, 9)} s"]),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_regexes_of_a_fixed_length(seed, full):
    random, counts = Random(seed), Counter()
    n = 200 if full else 24
    for _ in range(n):
        query = random_chain(random)
        check(query, query, random, counts)
    require(counts, ("sase", "regex", "match_recognize", "python", "flink_cep_java"), n // 10)


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_regexes_with_loops(seed, full):
    random, counts = Random(seed), Counter()
    n = 200 if full else 12
    for _ in range(n):
        query = random_loops(random)
        check(query, query, random, counts)
    require(counts, ("match_recognize", "regex", "python"), n // 4)


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_any_regex_that_is_translated(seed, full):
    """Regexes that nobody made for translation: most are refused, the others mean the same."""
    for i in range(150 if full else 6):
        case = generate.case(1000 * seed + i)
        query = cep.regex_query(case.pattern, define=case.define, **case.keywords())
        for target in ("regex", "python"):
            again = query_of_code(cep.translate(query, target))
            assert again == cep.regex_query(
                case.pattern, define={n: query_define(query, n) for n in case.define}, **_without_params(case)
            )
        for target in ("match_recognize", "sase"):
            try:
                text = cep.translate(query, target)
            except UnsupportedQueryError:
                continue
            assert run_text(target, text, case.rows) == run_query(query, case.rows), f"{query}\n{text}"


def query_define(query, name):
    """Return a predicate with the values of its parameters."""
    from cepkit.translation.chains import with_values

    return with_values(dict(query.define)[name], dict(query.params))


def _without_params(case) -> dict:
    return {name: value for name, value in case.keywords().items() if name != "params"}


# --- MATCH_RECOGNIZE


def random_clause(random: Random) -> str:
    """Return a clause whose rows are often a fixed number."""
    names = "ABC"[: random.randint(1, 3)]
    tests = {
        "A": ["A.x > 1", "A.x > PREV(A.x)", "y = 1 OR x IS NULL", "A.y <> 2"],
        "B": ["B.x > A.x", "B.x > PREV(B.x) AND B.y < 2", "x >= FIRST(x)", "B.x > LAST(A.x) - 1"],
        "C": ["C.x <> LAST(C.x, 1) OR LAST(C.x, 1) IS NULL", "C.x > PREV(x, 2)", "COUNT(*) > x", "C.y = A.y"],
    }
    parts = [random.choice(["{}", "{}", "{}{{2}}"]).format(name) for name in names]
    if random.random() < 0.3:
        parts.append(random.choice(names))
    if random.random() < 0.15:
        parts.insert(
            random.randrange(len(parts) + 1), random.choice(["A?", "(A | B)", "^", "B+", "PERMUTE(A, B)"])
        )
    skip = random.choice(
        ["PAST LAST ROW", "TO NEXT ROW", f"TO FIRST {names[-1]}", f"TO LAST {random.choice(names)}"]
    )
    define = ", ".join(f"{name} AS {random.choice(tests[name])}" for name in names)
    within = random.choice(["", "", f"WITHIN INTERVAL '{random.randint(2, 9)}' SECOND"])
    return f"""MATCH_RECOGNIZE (
        {random.choice(["", "PARTITION BY k"])} ORDER BY t MEASURES FIRST(t) AS s, LAST(t) AS e, COUNT(*) AS n
        AFTER MATCH SKIP {skip} PATTERN ({" ".join(parts)}) {within} DEFINE {define})"""


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_clauses_of_match_recognize(seed, full):
    random, counts = Random(seed), Counter()
    n = 200 if full else 30
    for _ in range(n):
        text = random_clause(random)
        try:
            query = parse_match_recognize(text)
        except cep.CepError:
            continue  # such as a condition on a variable that the pattern lacks
        try:
            check(text, query, random, counts)
        except Exception as error:
            if type(error).__name__ != "MatchError":  # SQL's error for a skip to the first row
                raise
    require(counts, ("sase", "match_recognize", "python"), n // 5)
    require(counts, ("regex",), n // 30)


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_any_clause_that_is_translated(seed, full):
    """Clauses that nobody made for translation: most are refused, the others mean the same."""
    random = Random(seed)
    for _ in range(250 if full else 15):
        query = generate_match_recognize.random_query(random, depth=2, row_local=random.random() < 0.7)
        query = replace(query, rows_per_match="one")
        text = print_match_recognize(query)
        assert parse_match_recognize(cep.translate(text, "match_recognize")) == parse_match_recognize(text)
        for target in ("regex", "sase"):
            try:
                made = cep.translate(text, target)
            except UnsupportedQueryError:
                continue
            names = [key.column for key in query.order_by] or ["t"]
            rows = generate_match_recognize.random_rows(random, 8)
            rows = [row for row in rows if all(row[name] is not None for name in names)]
            rows.sort(key=lambda row, names=names: [row[name] for name in names])  # the order of the stream
            try:
                wanted = run_query(query, rows)
            except Exception as error:
                assert type(error).__name__ == "MatchError"
                continue
            assert run_text(target, made, rows) == wanted, f"{text}\n{made}\n{rows}"


# --- sequences

EVENT_TESTS = (
    "b.x > a.x",
    "b.y == a.y",
    "c.x >= b.x",
    "c.x > a.x + 1",
    "a.x > 1",
    "b.x in (1, 2, 3)",
    "not (c.x < b.y)",
)


def random_sequence(random: Random) -> cep.SequenceQuery:
    """Return a sequence of single events."""
    n = random.randint(1, 3)
    typed = random.random() < 0.6
    events = ", ".join(f"{random.choice('ABC') if typed else '_'} {name}" for name in "abc"[:n])
    strategy = random.choice(
        ["skip_till_next_match", "skip_till_any_match", "partition_contiguity", "strict_contiguity"]
    )
    conditions = [strategy] + ["[k]"] * (random.random() < 0.4)
    known = [text for text in EVENT_TESTS if all(f"{name}." not in text for name in "abc"[n:])]
    conditions += random.sample(known, min(len(known), random.choice([0, 1, 2])))
    text = f"PATTERN SEQ({events}) WHERE {' AND '.join(conditions)}"
    within = random.choice([None, None, random.randint(1, 9), f"{random.randint(1, 9)} s"])
    after = random.choice([None, None, "past_last", "to_next"])
    return cep.sequence_query(
        text, order_by="t", event_type="kind" if typed else None, within=within,
        within_closed=random.random() < 0.5,
        after_match=None if strategy == "skip_till_any_match" and after == "to_next" else after,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_sequences_of_single_events(seed, full):
    random, counts = Random(seed), Counter()
    n = 250 if full else 20
    for _ in range(n):
        query = random_sequence(random)
        check(query, query, random, counts)
    require(counts, ("sase", "python"), n)
    require(counts, ("match_recognize", "flink_cep_java"), n // 8)
    require(counts, ("regex", "siddhi"), n // 40)


def random_flink_sequence(random: Random) -> cep.SequenceQuery:
    """Return a sequence with loops, options and absent events, as Flink has them."""
    steps = ["", "", "PARTITION ", "NEXT ", "ANY "]
    parts = ["A a"]
    middle = random.choice(["B{} b[]", "B? b", "!B x", "B b", "C{} b[]"])
    inner = random.choice(["", "", " INNER PARTITION", " INNER NEXT", " INNER ANY"])
    if "{}" in middle:
        middle = middle.format(random.choice(["+", "*", "{2}", "{1,2}", "{2,}"])) + inner
        if "ANY" not in inner and random.random() < 0.3:
            middle += " GREEDY"
    parts.append(("" if middle.startswith("!") else random.choice(steps)) + middle)
    parts.append(random.choice(steps[:2] + steps[3:] if middle.startswith("!") else steps) + "C c")
    variable = middle.split()[1].removesuffix("[]")
    conditions = [random.choice(["skip_till_next_match", "skip_till_any_match", "partition_contiguity"])]
    conditions += [f"{variable}.x > a.x"] * (random.random() < 0.4) + ["c.x >= a.x"] * (random.random() < 0.4)
    text = f"PATTERN SEQ({', '.join(parts)}) WHERE {' AND '.join(conditions)}"
    within = random.choice([None, f"{random.randint(4, 15)} s"])
    return cep.sequence_query(
        text, order_by="t", event_type="kind", within=within,
        scope="edge" if "next" in conditions[0] else "run",
        partition_by=random.choice([None, "k"]), within_closed=random.random() < 0.5,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_sequences_with_loops_in_flink(seed, full):
    random, counts = Random(seed), Counter()
    n = 250 if full else 20
    for _ in range(n):
        try:
            query = random_flink_sequence(random)
        except cep.CepError:
            continue  # a preference where none is
        check(query, query, random, counts)
    require(counts, ("sase", "python"), n // 2)
    require(counts, ("flink_cep_java",), n // 5)


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_round_trips_of_any_sequence(seed, full):
    """Every sequence comes back from its text in SASE's language and from its Python code."""
    for i in range(150 if full else 6):
        case = generate_sequences.case(1000 * seed + i)
        query = cep.sequence_query(case.query)
        for target in ("sase", "python"):
            text = cep.translate(query, target)
            assert run_query(query_of_code(text), case.rows) == run_query(query, case.rows), text
