"""Event sequences: text to queries and back, the Python way to write them, and their checks."""

from __future__ import annotations

import pickle
import re
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from cepkit.errors import CepError, NoEventVariableError, PatternSyntaxError, PredicateError
from cepkit.language import row_patterns as pt
from cepkit.language.builder import QueryBuilder, all_of, any_of, event, param, seq
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.operands import Operand
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.printing import print_expression
from cepkit.language.regex import regex_query
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.checks import check_ready
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.parsing import is_sase, parse_sase, parse_sequence
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.language.sequences.printing import SASE_STRATEGIES, print_sequence, sase_text
from cepkit.limits import DEPTH
from tests.support.sizes import seeds
from tests.support.tables import cases

FIXTURES = Path(__file__).parents[1] / "fixtures"


def pairs(name):
    text = (FIXTURES / name).read_text(encoding="utf-8")
    return [line.split(" ; ") for line in text.splitlines() if line and not line.startswith("#")]


def error_cases():
    text = re.sub(r"(?m)^#.*\n", "", (FIXTURES / "sequence_errors.txt").read_text(encoding="utf-8"))
    return [block.split("\n", 1) for block in text.strip().split("\n\n")]


def shape(node) -> str:
    """Return a tree as the fixtures write it: the class and its fields."""
    if isinstance(node, tuple):
        return f"({' '.join(map(shape, node))})"
    if not is_dataclass(node):
        return str(node)
    values = (getattr(node, item.name) for item in fields(node) if item.name != "span")
    return f"{type(node).__name__}({' '.join(map(shape, values))})"


def condition(text):
    return parse_expression(text, references=True)


# --- values of events ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", pairs("references.txt"), ids=lambda case: case[0])
def test_expression(case):
    text, tree, canonical = case if len(case) == 3 else [*case, case[0]]
    parsed = condition(text)
    assert shape(parsed) == tree
    assert print_expression(parsed) == canonical
    assert parsed.span == (0, len(text))


@pytest.mark.parametrize("text", ["first(b[i].x) > 3", "b[..i-1] > 3", "not a.`x y`"])
def test_regex_predicates_have_no_events(text):
    for kind in (PatternSyntaxError, PredicateError, NoEventVariableError):
        with pytest.raises(
            kind, match=r"^predicate 'p': (rows of a regex query have no names|b\[.* names an event)"
        ):
            regex_query(". p", define={"p": text})
    with pytest.raises(PredicateError):
        regex_query(". p", define={"p": ex.Comparison(">", ex.Reference("a", "x", 1), ex.Literal(3))})


NAMES = ["x", "Größe", "unit price", "a.b", "in", "i", "LEN", "`", "1st"]
INDICES = [None, ex.CURRENT, ex.BEFORE, ex.LAST, ex.ALL_BEFORE, 1, 7]


def random_expression(rng: Random, depth: int, leaf) -> ex.Expression:
    def inner():
        return random_expression(rng, depth - 1, leaf)

    def some(least=2):
        return tuple(inner() for _ in range(rng.randint(least, 3)))

    if depth == 0 or rng.random() < 0.2:
        return leaf(rng)
    return rng.choice(
        [
            lambda: ex.And(some()),
            lambda: ex.Or(some()),
            lambda: ex.Not(inner()),
            lambda: ex.Negative(inner()),
            lambda: ex.In(inner(), some(least=1)),
            lambda: ex.IsNull(inner()),
            lambda: ex.Like(inner(), rng.choice(["a%", "it's", ""])),
            lambda: ex.Subscript(inner(), rng.randint(-2, 2)),
            lambda: ex.Arithmetic(rng.choice(["+", "-", "*", "/", "//", "%"]), inner(), inner()),
            lambda: ex.Comparison(rng.choice(["==", "!=", "<", "<=", ">", ">="]), inner(), inner()),
            lambda: ex.Call("greatest", some()),
        ]
    )()


def random_literal(rng):
    return ex.Literal(rng.choice([None, True, 0, 7, 2.5, 1e-7, "", "it's", "AND b.x", "5 min"]))


@pytest.mark.parametrize("seed", seeds(25, 250))
def test_an_expression_is_read_back_from_its_text(seed):
    def leaf(rng):
        one = ex.Reference(rng.choice("ab"), rng.choice(NAMES), rng.choice(INDICES))
        whole = ex.Reference("b", None, ex.ALL_BEFORE)
        kinds = [one, one, random_literal(rng), ex.Attribute(rng.choice(NAMES)), ex.Parameter("p")]
        return rng.choice([*kinds, ex.Aggregate("avg", one), ex.Aggregate("count", whole)])

    tree = random_expression(Random(seed), 4, leaf)
    text = print_expression(tree)
    assert condition(text) == tree
    assert str(condition(text)) == text


# --- text to queries -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", pairs("sequences.txt"), ids=lambda case: case[0])
def test_pattern(case):
    text, tree, canonical = case if len(case) == 3 else [*case, case[0]]
    parsed = parse_sequence(text)
    assert shape(parsed) == tree
    assert print_sequence(parsed) == canonical


def test_there_are_enough_mistakes():
    assert len(error_cases()) >= 100


@pytest.mark.parametrize(("text", "message"), error_cases())
def test_error(text, message):
    with pytest.raises(CepError) as caught:
        sequence_query(text)
    assert str(caught.value) == message


def test_query():
    query = sequence_query(
        """
        PATTERN SEQ(Order o, !Cancel x, Scan+ s[], Ready r)
        WHERE skip_till_any_match AND [item] AND s[i].weight >= s[i-1].weight AND r.weight > o.weight
        WITHIN 1 hour""",
        event_type="kind",
        order_by="ts",
    )
    assert query == SequenceQuery(
        pattern=sq.SequenceOf(
            (
                sq.EventPattern("o", "Order"),
                sq.AbsentPattern(sq.EventPattern("x", "Cancel")),
                sq.Loop(sq.EventPattern("s", "Scan"), 1, None),
                sq.EventPattern("r", "Ready"),
            ),
            (None,) * 4,
        ),
        where=(
            ex.Comparison(
                ">=", ex.Reference("s", "weight", ex.CURRENT), ex.Reference("s", "weight", ex.BEFORE)
            ),
            ex.Comparison(">", ex.Reference("r", "weight"), ex.Reference("o", "weight")),
        ),
        strategy="any",
        within="1 h",
        partition_by=("item",),
        order_by=("ts",),
        event_type="kind",
    )
    assert query.variables == ("o", "s", "r")
    check_ready(query)
    assert pickle.loads(pickle.dumps(query)) == query
    assert str(query) == "\n".join(
        [
            "PATTERN SEQ(Order o, !Cancel x, Scan+ s[], Ready r)",
            "WHERE skip_till_any_match AND [item] AND s[i].weight >= s[i-1].weight AND r.weight > o.weight",
            *("WITHIN 1 h", "event_type: kind", "order_by: ts"),
        ]
    )


def test_everything_is_shown():
    query = sequence_query(
        "pattern SEQ(A a, B+ b) where skip-till-next-match and b.x > :least within 5 min exclusive",
        order_by=["ts", "n"],
        event_type="kind",
        scope="edge",
        strict_time=True,
        after_match="skip to first b",
        measures={"n": "count(b)", "top": "max(price)"},
        params={"least": 3},
    )
    assert str(query).splitlines()[1:] == [
        "WHERE skip_till_next_match AND b.x > :least",
        *("WITHIN 5 min EXCLUSIVE", "event_type: kind", "order_by: ts, n", "scope: edge"),
        *("strict_time: true", "after_match: to_first(b)"),
        *("measures:", "  n: count(b)", "  top: max(price)", "params:", "  least = 3"),
    ]


@pytest.mark.parametrize("strategy", sq.STRATEGIES)
@pytest.mark.parametrize("spell", ["{}", "{} AND", "{} [k] AND", "[k] AND {} AND", "[k] {}", "{}\n[k]"])
def test_spellings_of_strategies(strategy, spell):
    name = SASE_STRATEGIES[strategy]
    for word in (name, name.replace("_", "-"), name.replace("_", " "), name.upper()):
        parts = parse_sase(f"PATTERN A a WHERE {spell.format(word)} a.x > 1 WITHIN 500")
        assert parts.strategy == strategy
        assert parts.where == condition("a.x > 1")
        assert parts.partition_by == (("k",) if "[k]" in spell else ())
        assert parts.within == 500
    assert sequence_query("PATTERN A a", strategy=name).strategy == strategy


@pytest.mark.parametrize(
    ("text", "where", "key"),
    cases("sequence_queries", "keys among conditions"),
)
def test_keys_among_conditions(text, where, key):
    whole = f"PATTERN A a WHERE {text} WITHIN 3 s"
    if key is None:
        with pytest.raises(PatternSyntaxError, match="put parentheses around what 'or' joins"):
            parse_sase(whole)
        return
    parts = parse_sase(whole)
    assert parts.where == (None if where is None else condition(where))
    assert parts.partition_by == key
    assert parts.within == "3 s"


def test_places_are_those_in_the_whole_text():
    text = "PATTERN SEQ(A a, B+ b[] UNTIL (x > 5))\nWHERE [k] AND b[i].price > a.price"
    query = sequence_query(text)
    (tree,) = query.where
    assert text[slice(*tree.span)] == "b[i].price > a.price"
    assert text[slice(*query.pattern.span)] == "SEQ(A a, B+ b[] UNTIL (x > 5))"
    until = query.pattern.parts[1].until
    assert text[slice(*until.left.span)] == "x"
    assert query.underlined("where", tree.right).endswith("\n" + " " * 29 + "^^^^^^^")
    assert query.underlined("pattern", until) == (
        "  PATTERN SEQ(A a, B+ b[] UNTIL (x > 5))\n" + " " * 33 + "^^^^^"
    )
    assert [role for role, _ in query.trees()] == ["where", "pattern"]


def test_the_error_shows_its_line_of_several():
    with pytest.raises(PredicateError) as caught:
        sequence_query("PATTERN SEQ(A a, B b)\nWHERE a.x > 3\n  AND c.x > 4\nWITHIN 3 s")
    assert str(caught.value).endswith("\n    AND c.x > 4\n        ^^^")


@pytest.mark.parametrize("text", ["pattern A a", "  PATTERN\nA a", "Pattern(A a)"])
def test_what_is_sase(text):
    assert is_sase(text)
    assert parse_sase(text).pattern == sq.EventPattern("a", "A")
    assert not is_sase("patterns rise+")
    assert not is_sase("rise PATTERN")


@pytest.mark.parametrize("word", ["gap", "order", "select", "from", "skip", "len", "i"])
def test_words_of_clauses_are_names_where_they_can_be(word):
    variable = word if word != "gap" else "g"
    parts = parse_sase(
        f"PATTERN SEQ({word.title()} {variable}, B b) WHERE {variable}.{word} > 3 AND b.{word} = 1"
    )
    assert parts.where == condition(f"{variable}.{word} > 3 and b.{word} = 1")


def test_too_deep_patterns_are_an_error_not_a_crash():
    deep = "SEQ(" * 3000 + "A a" + ")" * 3000
    with pytest.raises(PatternSyntaxError, match=f"more than {DEPTH} levels"):
        parse_sequence(deep)
    assert parse_sequence("(" * DEPTH + "A a" + ")" * DEPTH) == sq.EventPattern("a", "A")
    with pytest.raises(PatternSyntaxError, match=f"more than {DEPTH} levels"):
        sequence_query(f"PATTERN A a WHERE {'-' * 3000}a.x > 3")


# --- queries back to text ------------------------------------------------------------------------

TYPES = [
    "A",
    "B",
    "Order",
    "New York",
    "any",
    "Seq",
    "it's",
    "",
    "_",
    "5",
    "where",
    5,
    -5,
    0,
    True,
    False,
    None,
]


class RandomPattern:
    """Draws patterns that the checks accept; every event has a name of its own."""

    def __init__(self, seed: int, *, with_conditions: bool = False):
        self.rng = Random(seed)
        self.with_conditions = with_conditions
        self.n = 0

    def event(self):
        self.n += 1
        conditions = ()
        if self.with_conditions and self.rng.random() < 0.4:
            trees = [self.own_condition() for _ in range(self.rng.randint(1, 2))]
            conditions = tuple(part for tree in trees for part in ex.conjuncts(tree))
        return sq.EventPattern(f"v{self.n}", self.rng.choice(TYPES), conditions)

    def own_condition(self):
        def leaf(rng):
            return rng.choice([ex.Attribute(rng.choice(NAMES)), random_literal(rng)])

        return random_expression(self.rng, 2, leaf)

    def pattern(self, depth):
        kinds = ["event", "loop", "sequence", "sequence", "sequence", "all", "any", "group"]
        kind = self.rng.choice(kinds if depth else kinds[:2])
        match kind:
            case "event":
                return self.event()
            case "loop":
                return self.loop(self.event())
            case "group":
                return self.loop(self.pattern(depth - 1))
            case "sequence":
                parts = [self.pattern(depth - 1)]
                steps = [None]
                for _ in range(self.rng.randint(0, 3)):
                    absent = self.rng.random() < 0.2
                    parts.append(sq.AbsentPattern(self.event()) if absent else self.pattern(depth - 1))
                    steps.append(None if absent else self.rng.choice([None, None, *sq.STRATEGIES]))
                return sq.SequenceOf(tuple(parts), tuple(steps))
        parts = tuple(self.pattern(depth - 1) for _ in range(self.rng.randint(2, 3)))
        if kind == "all" and self.rng.random() < 0.3:
            parts += (sq.AbsentPattern(self.event()),)
        return sq.AllOf(parts) if kind == "all" else sq.AnyOf(parts)

    def loop(self, body):
        low, high = self.rng.choice([(0, None), (1, None), (0, 1), (1, 1), (2, 2), (0, 3), (2, 5), (3, None)])
        if high == 1:
            return sq.Loop(body, low, high)
        inner = self.rng.choice([None, *sq.STRATEGIES])
        preference = self.rng.choice(sq.PREFERENCES) if inner not in (None, "any") else "all"
        until = self.own_condition() if self.rng.random() < 0.3 else None
        return sq.Loop(body, low, high, inner, preference, until)

    def where(self, query: SequenceQuery):
        """Return a conjunct over the events of ``query``."""
        absent = self.rng.choice([*query.absent_variables, None, None]) if query.absent_variables else None

        def value(rng):
            name = rng.choice([*query.variables, *([absent] if absent else [])])
            column = rng.choice(NAMES)
            if name in query.group_variables and name != absent and rng.random() < 0.7:
                index = rng.choice([i for i in INDICES if i != ex.ALL_BEFORE])
                every = ex.Reference(name, column, rng.choice([None, ex.ALL_BEFORE]))
                function = rng.choice(["sum", "avg", "min", "max", "first", "last", "delta", "count"])
                number = ex.Aggregate("count", ex.Reference(name, None, rng.choice([None, ex.ALL_BEFORE])))
                one = ex.Reference(name, column, index)
                return rng.choice([one, ex.Aggregate(function, every), number])
            return rng.choice([ex.Reference(name, column), random_literal(rng), ex.Reference(name, column)])

        return random_expression(self.rng, 3, value)

    def query(self):
        pattern = self.pattern(depth=3)
        made = sequence_query(pattern, within=5)
        where = [self.where(made) for _ in range(self.rng.randint(0, 3))]
        closed = self.rng.random() < 0.7
        return sequence_query(
            pattern,
            where=where or None,
            strategy=self.rng.choice([None, *sq.STRATEGIES]),
            within=self.rng.choice(["5 min", "1h30m", timedelta(seconds=3.5), 0, 500]),
            within_closed=closed,
            within_events=self.rng.choice([None, 1, 20]),
            gap_within=self.rng.choice([None, "10 s", 7]),
            partition_by=self.rng.choice([None, "item", ["item", "odd name", "in"], ["`"]]),
        )


@pytest.mark.parametrize("seed", seeds(25, 250))
def test_a_pattern_is_read_back_from_its_text(seed):
    tree = RandomPattern(seed, with_conditions=True).pattern(depth=4)
    text = str(tree)
    assert parse_sequence(text) == tree
    assert str(parse_sequence(text)) == text
    assert parse_sequence(re.sub(r"(?<=[(,]) | (?=[(!])", "", text)) == parse_sequence(text)


@pytest.mark.parametrize("seed", seeds(30, 600))
def test_a_query_is_read_back_from_its_text(seed):
    query = RandomPattern(seed).query()
    text = sase_text(query)
    again = sequence_query(text)
    assert again == query
    assert str(again) == text
    assert text.startswith("PATTERN ")


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_conditions_of_events_move_into_where(seed):
    tree = RandomPattern(seed, with_conditions=True).pattern(depth=3)
    query = sequence_query(tree, within=5)
    own = [(item.variable, tree) for item in sq.event_patterns(tree) for tree in item.conditions]
    assert len(query.where) == len(own)
    for got, (variable, given) in zip(query.where, own, strict=True):
        wanted = {node.name for node in given.walk() if isinstance(node, ex.Attribute)}
        assert {(node.variable, node.name) for node in got.walk() if isinstance(node, ex.Reference)} == {
            (variable, name) for name in wanted
        }
        assert not any(isinstance(node, ex.Attribute) for node in got.walk())
    assert not any(item.conditions for item in sq.event_patterns(query.pattern))
    assert sequence_query(f"PATTERN {tree} WITHIN 5") == query
    assert sequence_query(sase_text(query)) == query


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_damaged_text_is_a_query_or_an_error_of_ours(seed):
    rng = Random(seed)
    text = sase_text(RandomPattern(seed).query())
    for _ in range(rng.randint(1, 2)):
        i = rng.randrange(len(text))
        j = min(len(text), i + rng.choice([0, 1, 1, 5]))
        text = (
            text[:i]
            + rng.choice(["", *"()[]{},!+*?'`.<=&| x1", " AND ", "WHERE", "UNTIL (", "b[i-1]"])
            + text[j:]
        )
    try:
        query = sequence_query(text)
    except CepError as error:
        if isinstance(error, PatternSyntaxError):
            assert 0 <= error.position <= len(text)
            assert error.text == text
    else:
        assert sequence_query(sase_text(query)) == query


# --- in Python -----------------------------------------------------------------------------------

A, B, C = event("a", "GOOG"), event("b", "AAPL"), event("c")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (A["x"] + 1 - A["y"], "a.x + 1 - a.y"),
        (2 * A["x"] / 3 // 4 % 5, "2 * a.x / 3 // 4 % 5"),
        (2 - A["x"], "2 - a.x"),
        ((1 + A["x"]) * (7 // A["x"]), "(1 + a.x) * (7 // a.x)"),
        ((1 / A["x"]) % (8 % A["x"]), "1 / a.x % (8 % a.x)"),
        (-A["x"] < -5, "-a.x < -5"),
        (A["x"] > 5, "a.x > 5"),
        (A["x"] != None, "a.x != null"),  # noqa: E711
        (A["x"] == "it's", "a.x == 'it''s'"),
        ((A["x"] >= 1) & (A["x"] <= 2.5) & A["flag"], "a.x >= 1 and a.x <= 2.5 and a.flag"),
        ((A["x"] > 1) | (A["x"] < 0) | ~A["flag"], "a.x > 1 or a.x < 0 or not a.flag"),
        ((A["x"] > 1) & ((A["x"] < 0) | A["flag"]), "a.x > 1 and (a.x < 0 or a.flag)"),
        (A["x"].isin([1, "b", None]), "a.x in (1, 'b', null)"),
        (A["x"].between(A["lo"], 5), "a.x between a.lo and 5"),
        (A["x"].is_null() | A["x"].not_null(), "a.x is null or a.x is not null"),
        (A["x"].like("a%"), "a.x like 'a%'"),
        (abs(A["x"]) > A["y"].abs(), "abs(a.x) > abs(a.y)"),
        (A["tags"].contains("new"), "contains(a.tags, 'new')"),
        (A["x"].apply("power", 2).apply("greatest", 3, B["x"]) > 1, "greatest(power(a.x, 2), 3, b.x) > 1"),
        (A["prices"][0] > A["prices"][-1], "a.prices[0] > a.prices[-1]"),
        (A["unit price"] > param("least"), "a.`unit price` > :least"),
        (A["gap"] < timedelta(minutes=5), "a.gap < '5 min'"),
        (A["t"] > datetime(2024, 1, 2, 3, 4), "a.t > '2024-01-02T03:04:00'"),
        (A["t"] > date(2024, 1, 2), "a.t > '2024-01-02'"),
        (B.current["x"] >= B.previous["x"], "b[i].x >= b[i-1].x"),
        (B.first["x"] < B.last["x"], "b[1].x < b[LEN].x"),
        (B[2]["x"] > B["x"], "b[2].x > b.x"),
        (B.count() > 2, "count(b) > 2"),
        (B.count("x") == B.sum("x"), "count(b.x) == sum(b.x)"),
        (
            B.avg("x") + B.min("x") + B.max("x") + B.delta("x") > 1,
            "avg(b.x) + min(b.x) + max(b.x) + delta(b.x) > 1",
        ),
        (B.sum(B["x"] * B["y"]) > 1, "sum(b.x * b.y) > 1"),
        (B["x"] > B.before.avg("x"), "b.x > avg(b[..i-1].x)"),
        (B.before.count() < 3, "count(b[..i-1]) < 3"),
        (B.before.sum(B["x"] * B["y"]) > 1, "sum(b[..i-1].x * b[..i-1].y) > 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operands(made, text):
    pattern, params = seq(A, B.plus()), {"least": 1} if ":least" in text else None
    query = sequence_query(pattern, where=made, params=params)
    assert query == sequence_query(pattern, where=text, params=params)
    assert query == sequence_query(pattern.where(made), params=params)
    assert query.where


def test_numbers_of_numpy_and_pandas():
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    assert str(A["x"] > np.float64(2.5)) == "a.x > 2.5"
    assert str(A["x"] > np.int32(-2)) == "a.x > -2"
    assert str(A["x"] == np.bool_(True)) == "a.x == true"
    assert str(A["x"] > pd.Timestamp("2024-01-02")) == "a.x > '2024-01-02T00:00:00'"
    assert event("a", np.int64(5)) == event("a", 5)
    with pytest.raises(PredicateError, match="datetime64 cannot be used in a condition"):
        bool(A["x"] > np.datetime64("2024-01-02"))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (seq(A, B.not_(), C), "SEQ(GOOG a, !AAPL b, _ c)"),
        (seq(A, B.plus(), C.optional()), "SEQ(GOOG a, AAPL+ b[], _? c)"),
        (seq(A.star(), B.times(2), C.times(2, 3)), "SEQ(GOOG* a[], AAPL{2} b[], _{2,3} c[])"),
        (seq(A.at_least(2)), "SEQ(GOOG{2,} a[])"),
        (seq(A, seq(B, C)), "SEQ(GOOG a, SEQ(AAPL b, _ c))"),
        (seq(A, B, C).times(1, 3), "(SEQ(GOOG a, AAPL b, _ c)){1,3}"),
        (seq(A, all_of(B, C)), "SEQ(GOOG a, AND(AAPL b, _ c))"),
        (seq(A, any_of(B, C).plus()), "SEQ(GOOG a, (OR(AAPL b, _ c))+)"),
        (A.then(B).followed_by(C), "SEQ(GOOG a, PARTITION AAPL b, NEXT _ c)"),
        (seq(A, B).followed_by_any(C), "SEQ(GOOG a, AAPL b, ANY _ c)"),
        (A.then(B, strict=True), "SEQ(GOOG a, STRICT AAPL b)"),
        (A.then(B.plus().then(C)), "SEQ(GOOG a, PARTITION SEQ(AAPL+ b[], PARTITION _ c))"),
        (
            seq(A, B.plus(inner="next", greedy=True), C),
            "SEQ(GOOG a, AAPL+ b[] INNER NEXT GREEDY, _ c)",
        ),
        (
            seq(A, B.star(inner="strict", reluctant=True, until="price > 5"), C),
            "SEQ(GOOG a, AAPL* b[] INNER STRICT RELUCTANT UNTIL (price > 5), _ c)",
        ),
        (seq(A, B.plus(until=B["price"] > 5)), "SEQ(GOOG a, AAPL+ b[] UNTIL (b.price > 5))"),
        (
            seq(A.where("price > 5 and lot", A["x"] < 3), B.where("y = 1").plus(), C),
            "SEQ(GOOG a IF (price > 5 and lot and a.x < 3), AAPL+ b[] IF (y == 1), _ c)",
        ),
        (seq(A, B.plus().where("y > a.y")), "SEQ(GOOG a, AAPL+ b[] IF (y > a.y))"),
        (seq(A, B.not_().where("y > a.y"), C), "SEQ(GOOG a, !AAPL b IF (y > a.y), _ c)"),
        (event("n", "New York"), "'New York' n"),
        (event("n", 5), "5 n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_patterns(made, text):
    assert str(made) == text.replace("b.price", str(B["price"]))
    assert sequence_query(made) == sequence_query(f"PATTERN {text}")


def test_until_is_about_the_event_itself():
    query = sequence_query(seq(A, B.plus(until=B["price"] > 5)))
    assert query.pattern.parts[1].until == condition("price > 5")


def test_a_misspelt_option_of_a_loop_gets_the_nearest_name():
    with pytest.raises(TypeError, match=r"no option 'gready'\. Did you mean 'greedy'\?"):
        B.times(2, gready=True)


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B+ b[] UNTIL (x > a.x))",
        "SEQ(A{2,} a[], B+ b[] UNTIL (x > avg(a.x) and y < a[LEN].y and count(a) > 2))",
        "SEQ(A a, OR(B b, C+ c[] UNTIL (x > a.x)))",
        "SEQ(AND(A a, B b), C+ c[] UNTIL (x > a.x + b.x))",
        "(SEQ(A a, B+ b[] UNTIL (x > a.x))){2}",
        "SEQ(A a, B+ b[] UNTIL (b > 5 and b[1] > 2))",  # a column named as an event is
    ],
)
def test_until_may_name_events_in_front_of_the_loop(pattern):
    query = sequence_query(f"PATTERN {pattern}")
    assert str(query.pattern) == pattern
    assert sequence_query(str(query)) == query


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A+ a[] UNTIL (x > b.x), B b)",
        "SEQ(A* a[], B+ b[] UNTIL (x > a.x))",
        "SEQ(OR(A a, C c), B+ b[] UNTIL (x > a.x))",
        "AND(A a, B+ b[] UNTIL (x > a.x))",
        "SEQ((SEQ(A a, C c)){2}, B+ b[] UNTIL (x > a.x))",
        "SEQ(A a, !C c, B+ b[] UNTIL (x > c.x))",
        "SEQ(A a, B+ b[] UNTIL (x > b[i-1].x))",
        "(SEQ(A a, B b)){2,3} UNTIL (a.x > 3)",
    ],
)
def test_until_names_no_other_events(pattern):
    with pytest.raises(PredicateError, match=r"^until: \S+ may be unknown here"):
        sequence_query(f"PATTERN {pattern}")


def test_the_query_of_the_readme():
    query = seq(A, B.plus(), C).where(B["volume"] > A["volume"] * 1.05).within("5 min")
    assert isinstance(query, QueryBuilder)
    text = "PATTERN SEQ(GOOG a, AAPL+ b[], _ c) WHERE b.volume > a.volume * 1.05 WITHIN 300 seconds"
    assert sequence_query(query, order_by="ts") == sequence_query(text, order_by="ts")
    assert query.query == sequence_query(text)
    assert str(query) == str(query.query)


def test_a_query_grows_step_by_step():
    first = seq(A, B.plus(greedy=True), C.not_()).where("b.x > a.x")  # greedy and absent: judged at the end
    second = first.where(B["y"].isin([1]), "count(b) > 2").within(timedelta(minutes=1), closed=False)
    third = second.strategy("next", scope="edge").partition_by("k", "j").gap_within("3 s").within_events(7)
    assert first.query.where == (condition("b.x > a.x"),)
    assert sequence_query(third) == sequence_query(
        """PATTERN SEQ(GOOG a, AAPL+ b[] GREEDY, !_ c)
        WHERE skip_till_next_match AND [k, j] AND b.x > a.x AND b.y in (1) AND count(b) > 2
        WITHIN 1 min EXCLUSIVE WITHIN 7 EVENTS GAP 3 s""",
        scope="edge",
    )
    with pytest.raises(CepError, match="GREEDY chooses"):
        sequence_query(second)
    with pytest.raises(CepError, match="needs a limit on the wait"):
        sequence_query(first, strategy="next")
    assert sequence_query(first, strategy="next", within=3).within == 3


def test_each_method_of_a_pattern_begins_a_query():
    for made, text in [
        (A.within("1 s"), "PATTERN GOOG a WITHIN 1 s"),
        (seq(A, B).within_events(3), "PATTERN SEQ(GOOG a, AAPL b) WITHIN 3 EVENTS"),
        (any_of(A, B).gap_within(3), "PATTERN OR(GOOG a, AAPL b) GAP 3"),
        (all_of(A, B).strategy("skip-till-next-match"), "PATTERN AND(GOOG a, AAPL b) WHERE skip_till_next"),
        (seq(A, B).plus().partition_by("k"), "PATTERN (SEQ(GOOG a, AAPL b))+ WHERE [k]"),
        (seq(A, B).times(2).where("b.x > a.x"), "PATTERN (SEQ(GOOG a, AAPL b)){2} WHERE b.x > a.x"),
    ]:
        assert sequence_query(made) == sequence_query(text)


def test_seq_and_any_of_make_regex_patterns_of_names():
    assert seq("large", pt.var("rise").plus()) == pt.seq("large", pt.var("rise").plus())
    assert seq() == pt.Empty()
    assert any_of("rise", "fall") == pt.any_of_patterns("rise", "fall")


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: bool(A["x"] > 1), TypeError, "combine conditions with & | ~"),
        (lambda: A["x"] > 1 and A["y"] > 2, TypeError, "combine conditions with & | ~"),
        (lambda: 1 < A["x"] < 3, TypeError, "(a < b) & (b < c)"),
        (lambda: 3 in A["x"], TypeError, "isin"),
        (lambda: list(A["x"]), TypeError, "not iterable"),
        (lambda: list(A), TypeError, "not iterable"),
        (lambda: {A["x"]}, TypeError, "unhashable"),
        (lambda: bool(seq(A, B).within(3)), TypeError, "a query has no truth value"),
        (lambda: A["x"] > 1 | A["y"] < 2, TypeError, "put parentheses around comparisons"),
        (
            lambda: A["x"] > B,
            PredicateError,
            "EventPattern cannot be used in a condition; its columns are b['x']",
        ),
        (lambda: A["x"] > [1], PredicateError, "list cannot be used in a condition; pass it as a parameter"),
        (lambda: A["x"].isin([]), PredicateError, "isin: expected one value or more"),
        (lambda: A["x"].isin("abc"), PredicateError, "isin: expected a list of values, got str"),
        (lambda: A["x"].apply("wobble"), PredicateError, "function 'wobble' is not known"),
        (lambda: A["x"].apply("abs", 2), PredicateError, "abs takes 1 argument, 2 given"),
        (lambda: A[0], CepError, "a[0]: events count from 1; the last is a.last"),
        (lambda: A[None], CepError, "a[…]: expected the name of a column as text, got NoneType"),
        (lambda: seq(A, "fall"), CepError, "events and names of predicates cannot be mixed; 'fall'"),
        (
            lambda: any_of(A, pt.var("fall")),
            CepError,
            "any_of: events and names of predicates cannot be mixed",
        ),
        (lambda: all_of("rise", "fall"), CepError, "all_of: its parts must be events"),
        (lambda: all_of(A), CepError, "all_of: expected at least two parts, got 1"),
        (lambda: seq(A, 5), CepError, "seq: expected events or predicate names, got int 5"),
        (lambda: seq(A, seq(B, C).within(3)), CepError, "a query cannot be part of a pattern"),
        (lambda: A.then("B"), CepError, "expected an event or a pattern of events, got str 'B'"),
        (lambda: event("next"), CepError, "an event cannot be named 'next'"),
        (lambda: event("Or"), CepError, "an event cannot be named 'Or'"),
        (lambda: event("a b"), CepError, "the name of an event must be an identifier"),
        (lambda: event("a", 2.5), CepError, "the type of event 'a' must be text, an integer or a bool"),
        (lambda: param("a b"), CepError, "the name of a parameter must be an identifier"),
        (lambda: B.plus().not_(), CepError, "'AAPL+ b[]' cannot be absent"),
        (lambda: seq(A, B).not_(), CepError, "'SEQ(GOOG a, AAPL b)' cannot be absent"),
        (lambda: B.plus(greedy=True, reluctant=True), CepError, "either greedy or reluctant"),
        (lambda: B.plus(inner="nex"), CepError, "inner: unknown strategy 'nex'"),
        (lambda: B.times(2.5), CepError, "expected whole numbers, got 2.5"),
        (
            lambda: B.times(3, 2),
            CepError,
            "repetition {3,2} of AAPL b: it needs 0 <= low <= high and high >= 1",
        ),
        (lambda: B.plus()["x"], CepError, "as in b['x'] with b = event"),
        (lambda: B.amount > 3, AttributeError, "the value of a column is b['amount']"),
        (lambda: B.plus(until="price >"), PatternSyntaxError, "until: expected a value"),
        (lambda: B.where("price >"), PatternSyntaxError, "where of 'b': expected a value"),
        (lambda: seq(A, B).where(B == 5), PredicateError, "got bool; columns of events are b['x']"),
        (
            lambda: seq(A, B).where(None),
            PredicateError,
            "where: expected text or an expression, got NoneType",
        ),
        (lambda: seq(A, B).where("x > 5"), PredicateError, "x does not name its event; write a.x"),
        (lambda: seq(A, A), CepError, "two events are named 'a'"),
        (lambda: seq(A, B).where(A["x"] > float("inf")), PredicateError, "text cannot spell the number inf"),
        (lambda: seq(A, B).where(B.avg(B.max("x")) > 1), PatternSyntaxError, "max inside avg"),
        (lambda: seq(A, B).within(-1), CepError, "within: duration '-1' is negative"),
        (
            lambda: seq(A, B).within(True),
            CepError,
            "within: expected text, timedelta or an integer, got bool",
        ),
        (lambda: seq(A, B).within("5"), PatternSyntaxError, "within: a duration needs a unit"),
        (lambda: seq(A, B).gap_within(2.5), CepError, "gap_within: expected text, timedelta or an integer"),
        (
            lambda: seq(A, B).within_events(0),
            CepError,
            "within_events: expected a number of events from 1, got 0",
        ),
        (lambda: seq(A, B).strategy("nxt"), CepError, "strategy: 'nxt' is not known"),
        (lambda: seq(A, B).strategy("next", scope="edges"), CepError, "scope: 'edges' is not known"),
        (lambda: seq(A, B).partition_by(5), CepError, "partition_by: expected names of columns"),
    ],
)
def test_python_error(make, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        made = make()
        if isinstance(made, sq.SequencePattern):
            sequence_query(made)


def test_an_event_pattern_stays_a_value():
    assert event("a", "A") == sq.EventPattern("a", "A")
    assert len({event("a", "A"), sq.EventPattern("a", "A"), event("a")}) == 2
    assert isinstance(A["x"], Operand)
    assert repr(A["x"]) == "<a.x>"
    assert repr(A.plus()) == "<pattern GOOG+ a[]>"
    assert repr(A.plus().within("5 min")) == f"<query {A.plus().within('5 min')}>"


# --- what is said beside the pattern -------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meaning"),
    cases("sequence_queries", "after match"),
)
def test_after_match(given, meaning):
    query = sequence_query("PATTERN SEQ(A a, B B_1)", strategy="next", after_match=given)
    assert query.after_match == meaning


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases("sequence_queries", "keywords"),
)
def test_keyword_error(arguments, message):
    with pytest.raises(CepError, match=re.escape(message)):
        sequence_query("PATTERN SEQ(A a, !X x, B+ b[])", **{"strategy": "next", **arguments})


@pytest.mark.parametrize(
    ("keyword", "value", "text"),
    [
        ("where", "a.x > 1", "WHERE a.x > 2"),
        ("strategy", "any", "WHERE skip_till_any_match"),
        ("partition_by", "k", "WHERE [k]"),
        ("within", "5 s", "WITHIN 5 s"),
        ("within_closed", False, "WITHIN 5 s EXCLUSIVE"),
        ("within_events", 5, "WITHIN 5 EVENTS"),
        ("gap_within", 5, "GAP 5"),
    ],
)
def test_a_value_is_given_once(keyword, value, text):
    with pytest.raises(CepError, match=f"{keyword}.*: given both in the query and as a keyword"):
        sequence_query(f"PATTERN SEQ(A a, B b) {text}", **{keyword: value})
    assert sequence_query("PATTERN SEQ(A a, B b)", **{keyword: value})


def test_a_query_takes_what_it_does_not_say():
    text = "PATTERN SEQ(A a, B b) WHERE b.x > :least * a.x"
    query = sequence_query(text, params={"least": 2})
    full = sequence_query(query, order_by="ts", within="5 s", measures={"n": "count()"}, params={"least": 3})
    assert full == sequence_query(
        text, order_by="ts", within="5 s", measures={"n": "count()"}, params={"least": 3}
    )
    assert dict(full.sources)["where"] == text
    for keyword, value in [
        ("order_by", "ts"),
        ("within", 5),
        ("measures", {"n": "count()"}),
        ("where", "a.x"),
    ]:
        with pytest.raises(CepError, match=f"^{keyword}: given both"):
            sequence_query(full, **{keyword: value})
    assert sequence_query(full) == full
    with pytest.raises(
        CepError, match="expected text that begins with PATTERN, a pattern of events or a query"
    ):
        sequence_query(pt.var("rise"))
    with pytest.raises(PatternSyntaxError, match="begins with PATTERN"):
        sequence_query("SEQ(A a)")


@pytest.mark.parametrize(
    "measures",
    [
        {
            "top": "max(price)",
            "n": "count()",
            "start": "first(ts)",
            "all": "collect(price)",
            "d": "delta(ts)",
        },
        {"first": "a.price", "n": "count(b)", "mean": "avg(b.price)", "paid": "sum(b.price * b.lot)"},
        {"low": "b[1].price", "high": "b[LEN].price", "second": "b[2].price", "key": "item"},
        {"gain": "last(b.price) - a.price", "share": "count(b) / count()", "list": "collect(b.price)"},
        {"gain": B.max("price") - A["price"], "n": B.count()},
        {"least": "a.price * :factor"},
    ],
)
def test_measures(measures):
    params = {"factor": 2} if "least" in measures else None
    query = sequence_query("PATTERN SEQ(A a, B+ b) WHERE [item]", measures=measures, params=params)
    assert [name for name, _ in query.measures] == list(measures)
    assert (
        sequence_query("PATTERN SEQ(A a, B+ b) WHERE [item]", measures=dict(query.measures), params=params)
        == query
    )
    assert [role for role, _ in query.trees()] == [f"measure {name!r}" for name in measures]


@pytest.mark.parametrize(
    ("measure", "message"),
    cases("sequence_queries", "measures"),
)
def test_measure_error(measure, message):
    text = "PATTERN SEQ(A a, !X x, B+ b) WHERE [item]"
    with pytest.raises(
        (PredicateError, PatternSyntaxError), match="^measure 'm': .*" + re.escape(message)
    ) as caught:
        sequence_query(text, measures={"m": measure})
    assert not isinstance(measure, str) or f"\n  {measure}\n" in str(caught.value)


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ({"Item": "a.x"}, "the result already has column 'item' (partition_by); rename 'Item'"),
        ({"n": "count()", "N": "count(b)"}, "'n' and 'N' differ only in case"),
        ({"": "count()"}, "the name of a measure must be text, got ''"),
        ({5: "count()"}, "the name of a measure must be text, got 5"),
    ],
)
def test_names_of_measures(measures, message):
    with pytest.raises(CepError, match=re.escape(message)):
        sequence_query("PATTERN SEQ(A a, B+ b) WHERE [item]", measures=measures)


def test_absent_events_at_the_edge_need_a_window():
    open_ends = [
        "SEQ(A a, !X x)",
        "SEQ(!X x, A a)",
        "SEQ(A a, B* b, SEQ(!X x, B? c))",
        "SEQ(A? a, !X x, B b)",
        "OR(SEQ(A a, !X x), B b)",
        "SEQ(A a, OR(!X x, B b))",
        "(SEQ(A a, !X x)){2}",
        "AND(SEQ(!X x, A a), B b)",
    ]
    for pattern in open_ends:
        with pytest.raises(CepError, match="needs a limit on the wait"):
            sequence_query(f"PATTERN {pattern}")
        assert sequence_query(f"PATTERN {pattern} WITHIN 5 s")
        with pytest.raises(CepError, match="needs a limit on the wait"):
            sequence_query(f"PATTERN {pattern} WITHIN 5 EVENTS")
    for pattern in ("SEQ(A a, !X x, B b)", "AND(A a, !X x, B b)", "SEQ(A a, SEQ(!X x, B b))"):
        assert sequence_query(f"PATTERN {pattern}")


def test_what_only_the_frame_can_give():
    query = sequence_query("PATTERN SEQ(A a, 'New York' b) WITHIN 5 s")
    with pytest.raises(CepError) as caught:
        check_ready(query)
    assert str(caught.value) == (
        "event_type: the pattern has events of type A, 'New York'; name the column of the types, "
        "as in event_type='kind'\n  PATTERN SEQ(A a, 'New York' b) WITHIN 5 s\n              ^^^"
    )
    with pytest.raises(CepError, match="within: a duration needs a clock"):
        check_ready(replace(query, event_type="kind"))
    check_ready(replace(query, event_type="kind", order_by=("ts",)))
    check_ready(sequence_query("PATTERN SEQ(_ a, _ b)"))
    with pytest.raises(CepError, match="gap_within: a duration needs a clock"):
        check_ready(sequence_query("PATTERN SEQ(_ a, _ b) GAP 3"))
    with pytest.raises(CepError, match="strict_time: it needs a clock"):
        check_ready(sequence_query("PATTERN SEQ(_ a, _ b)", strict_time=True))


def test_functions_are_carried_along(monkeypatch):
    monkeypatch.setattr(fn, "_REGISTRY", {})
    near = fn.pure(lambda x, y: abs(x - y) < 2, name="near")
    query = sequence_query("PATTERN SEQ(A a, B b) WHERE near(a.x, b.x)")
    assert [(name, known.call) for name, known in query.functions] == [("near", near)]
    assert sequence_query("PATTERN SEQ(A a, B b)").functions == ()


FRAUD = """
PATTERN SEQ(check{2} refused[], check accepted, payment small, payment large)
WHERE skip_till_next_match AND [card]
  AND refused.result = 'refused' AND accepted.result = 'accepted'
  AND small.amount < 5 AND large.amount >= 10 * small.amount
WITHIN 5 minutes
"""


def test_fraud_in_text_and_in_python():
    refused, accepted = event("refused", "check"), event("accepted", "check")
    small, large = event("small", "payment"), event("large", "payment")
    query = (
        seq(
            refused.where("result = 'refused'").times(2),
            accepted.where(accepted["result"] == "accepted"),
            small.where("amount < 5"),
            large,
        )
        .where(large["amount"] >= 10 * small["amount"])
        .strategy("next")
        .partition_by("card")
        .within("5 min")
    )
    frame = {
        "event_type": "kind",
        "order_by": "ts",
        "measures": {"paid": "large.amount", "tries": "count(refused)"},
    }
    made = sequence_query(query, **frame)
    assert made == sequence_query(FRAUD, **frame)
    assert made.group_variables == {"refused"}
    check_ready(made)
    assert sase_text(made) == "\n".join(
        [
            "PATTERN SEQ(check{2} refused[], check accepted, payment small, payment large)",
            "WHERE skip_till_next_match AND [card] AND refused.result == 'refused' AND accepted.result == "
            "'accepted' AND small.amount < 5 AND large.amount >= 10 * small.amount",
            "WITHIN 5 min",
        ]
    )
