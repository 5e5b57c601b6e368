"""Text to trees and back, durations, and the checks of a regex query."""

from __future__ import annotations

import ast
import pickle
import re
from datetime import timedelta
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

import pytest

from cepkit.errors import CepError, CepWarning, PatternSyntaxError, PredicateError
from cepkit.language import row_patterns as pt
from cepkit.language.eql import EQL_WORDS
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import (
    NANOSECONDS,
    UNITS,
    duration_ticks,
    format_duration,
    parse_duration,
)
from cepkit.language.expressions.mistakes import (
    EVENT_EXPRESSION_WORDS,
    EXPRESSION_WORDS,
    LOOK_ALIKES,
    PATTERN_WORDS,
    SEQUENCE_WORDS,
)
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.printing import RESERVED, print_expression
from cepkit.language.match_recognize.clauses import ROW_PATTERN_WORDS, SQL_EXPRESSION_WORDS
from cepkit.language.regex import RegexQuery, parse_pattern, regex_query
from cepkit.language.row_patterns import first_names, is_nullable, print_pattern, reported_form
from cepkit.language.siddhi.printing import SIDDHI_WORDS
from cepkit.limits import DEPTH, TICKS
from tests.support.sizes import seeds
from tests.support.tables import cases

FIXTURES = Path(__file__).parents[1] / "fixtures"
READERS = {"expression": parse_expression, "pattern": parse_pattern, "duration": parse_duration}


def pairs(name):
    text = (FIXTURES / name).read_text(encoding="utf-8")
    return [line.split(" ; ") for line in text.splitlines() if line and not line.startswith("#")]


def error_cases():
    blocks = re.sub(r"(?m)^#.*\n", "", (FIXTURES / "errors.txt").read_text(encoding="utf-8")).strip()
    return [
        (*block.splitlines()[0].split(" ; ", 1), *block.split("\n", 1)[1:]) for block in blocks.split("\n\n")
    ]


def shape(node) -> str:
    """Return a tree as the fixtures write it."""
    match node:
        case ex.Literal(value=bool() | None as value):
            return {None: "null", True: "true", False: "false"}[value]
        case ex.Literal(value=str() as value):
            return "'" + value.replace("'", "''") + "'"
        case ex.Literal(value=value):
            return repr(value)
        case ex.Attribute(name=name):
            return print_expression(node)
        case ex.Parameter(name=name):
            return f":{name}"
        case ex.Previous(operand=operand, offset=offset):
            return f"(prev {shape(operand)} {offset})"
        case ex.Aggregate(function=function, operand=None):
            return f"({function})"
        case ex.Aggregate(function=function, operand=operand):
            return f"({function} {shape(operand)})"
        case ex.Call(function=function, arguments=inner):
            return f"({' '.join(['call', function, *map(shape, inner)])})"
        case ex.Subscript(operand=operand, index=index):
            return f"(item {shape(operand)} {index})"
        case (
            ex.Arithmetic(operator=sign, left=left, right=right)
            | ex.Comparison(operator=sign, left=left, right=right)
        ):
            return f"({sign} {shape(left)} {shape(right)})"
        case ex.Like(operand=operand, pattern=pattern):
            return f"(like {shape(operand)} {shape(ex.Literal(pattern))})"
        case pt.Variable(name=name):
            return name
        case pt.AnyEvent():
            return "."
        case pt.Empty():
            return "()"
        case pt.Repeat(body=body, low=low, high=high):
            return f"({shape(body)} {low} {'*' if high is None else high})"
        case pt.Sequence(parts=inner):
            return f"(seq {' '.join(map(shape, inner))})"
        case pt.Alternative(options=inner):
            return f"(or {' '.join(map(shape, inner))})"
    word_of = {ex.Negative: "neg", ex.And: "and", ex.Or: "or", ex.Not: "not", ex.In: "in", ex.IsNull: "null?"}
    return f"({' '.join([word_of[type(node)], *map(shape, node.children())])})"


@pytest.fixture
def registry(monkeypatch):
    """Give the test a registry of its own."""
    monkeypatch.setattr(fn, "_REGISTRY", {})


# --- text to trees -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", pairs("expressions.txt"), ids=lambda case: case[0])
def test_expression(case):
    text, tree, canonical = case if len(case) == 3 else [*case, case[0]]
    parsed = parse_expression(text)
    assert shape(parsed) == tree
    assert print_expression(parsed) == canonical


@pytest.mark.parametrize("case", pairs("patterns.txt"), ids=lambda case: case[0])
def test_pattern(case):
    text, tree, canonical = case if len(case) == 3 else [*case, case[0]]
    parsed = parse_pattern(text)
    assert shape(parsed) == tree
    assert print_pattern(parsed) == canonical


@pytest.mark.parametrize(("kind", "text", "message"), error_cases())
def test_error(kind, text, message):
    with pytest.raises(PatternSyntaxError) as caught:
        READERS[kind](text)
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_text_is_an_error(kind, text):
    with pytest.raises(
        PatternSyntaxError, match=r"^(predicate: expected a value|expected a pred|a duration is)"
    ):
        READERS[kind](text)


@pytest.mark.parametrize("reader", READERS.values())
def test_what_is_no_text_is_an_error(reader):
    with pytest.raises(TypeError, match=r"text, (such as '5 min', )?got int"):
        reader(5)


def test_the_role_stands_in_front():
    with pytest.raises(PatternSyntaxError, match=r"^predicate 'rise': expected a value"):
        parse_expression("price >", role="predicate 'rise'")


def test_an_error_shows_its_line_of_several():
    with pytest.raises(PatternSyntaxError) as caught:
        parse_expression("price > 3\n  and size > > 4\n  and ask > 2")
    assert str(caught.value).endswith("(position 23)\n    and size > > 4\n               ^")


@pytest.mark.parametrize(
    "text",
    cases("regex_queries", "texts that would run as Python"),
)
def test_text_that_would_run_as_python_is_an_error(text):
    with pytest.raises(PatternSyntaxError):
        parse_expression(text)


def test_a_call_is_a_name_and_nothing_is_imported():
    assert parse_expression("__import__('os')") == ex.Call("__import__", (ex.Literal("os"),))


VOCABULARIES = {
    "regex": PATTERN_WORDS, "sequence": SEQUENCE_WORDS, "row pattern": ROW_PATTERN_WORDS,
    "condition": EXPRESSION_WORDS, "condition of events": EVENT_EXPRESSION_WORDS,
    "SQL": SQL_EXPRESSION_WORDS, "EQL": EQL_WORDS, "SiddhiQL": SIDDHI_WORDS,
}  # fmt: skip
MISTAKEN = [
    "column.shift(1)", "column.shift(-1)", "column.shift(3)", "column.diff()", "column.pct_change()",
    "column.isna()", "column.notnull()", "column.isin(", "column.between(1", "column.str.startswith('x')",
    "column.str.endswith('x')", "column.str.contains('x')", "column.max()", "column.rolling(3)",
    "column.other.method(", "column.other", "column[i + 1]", "column[i - 2]", "column[-1].x", "column[].x",
    "column[i]", "column[..i]", "column[name]", "column.x.y", "column: name", "column as name", "column-a b",
    "column + b", "column {2}", "1234 ms", "12.5 s", "12345name", "12,345,678", "lambda x: x", "count(*)",
]  # fmt: skip


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_mistake_begins_with_a_whole_word(name):
    # A search that begins at each letter takes quadratic time for a long word.
    for mistake, _ in VOCABULARIES[name].mistakes:
        for text in MISTAKEN:
            assert not re.compile(mistake, re.IGNORECASE).match(text, 1), (mistake, text)


def test_each_text_of_the_mistaken_is_a_mistake():
    listed = [re.compile(m, re.IGNORECASE) for words in VOCABULARIES.values() for m, _ in words.mistakes]
    assert [text for text in MISTAKEN if not any(mistake.match(text) for mistake in listed)] == []


@pytest.mark.parametrize("char", sorted(LOOK_ALIKES))
def test_look_alikes_are_named(char):
    with pytest.raises(PatternSyntaxError, match="write ") as caught:
        parse_expression(f"price {char} size")
    assert caught.value.position == 6


@pytest.mark.parametrize("word", ["l\u0131ke", "i\u017f", "\u017f", "İn", "\u212a"])
def test_letters_that_only_look_like_a_reserved_word_are_names(word):
    assert parse_expression(word) == ex.Attribute(word)


def test_too_deep_trees_are_an_error_not_a_crash():
    for text in ("-" * 2000 + "a", "first(" + "-" * 2000 + "a)", " + ".join("a" * 2000)):
        with pytest.raises(PatternSyntaxError, match=f"more than {DEPTH} levels"):
            parse_expression(text)
    with pytest.raises(PatternSyntaxError, match=f"more than {DEPTH} levels"):
        parse_pattern("(" * 2000 + "a" + ")+" * 2000)
    assert len(parse_expression(" or ".join("a" * 2000)).operands) == 2000
    assert parse_expression("(" * DEPTH + "a" + ")" * DEPTH) == ex.Attribute("a")
    with pytest.raises(PatternSyntaxError, match=f"more than {DEPTH} levels"):
        parse_expression("(" * 2000 + "a" + ")" * 2000)


def test_a_number_that_is_too_long_is_an_error():
    with pytest.raises(PatternSyntaxError, match="too long"):
        parse_expression("9" * 5000)


def test_spans():
    text = "rise and (price + 1) * 2 >= prev( size , 2 )"
    found = {
        text[node.span[0] : node.span[1]]
        for node in parse_expression(text).walk()
        if not isinstance(node, ex.Literal)
    }
    assert found == {
        *(text, "rise", "(price + 1) * 2 >= prev( size , 2 )", "(price + 1) * 2", "(price + 1)", "price"),
        *("prev( size , 2 )", "size"),
    }
    pattern = parse_pattern("a (b | c+){2} .")
    assert [pattern.span, *(part.span for part in pattern.parts)] == [(0, 15), (0, 1), (2, 13), (14, 15)]


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_precedence_is_that_of_python(seed):
    text = _infix(Random(seed), depth=2)
    assert shape(parse_expression(text)) == _shape_by_python(ast.parse(text, mode="eval").body), text


def _infix(rng, depth):
    def item():
        if depth and rng.random() < 0.3:
            return f"({_infix(rng, depth - 1)})"
        return rng.choice(["a", "b", "c", "1", "2.5"])

    def chain(part, signs, most):
        text = part()
        for _ in range(rng.randrange(most)):
            text += f" {rng.choice(signs)} {part()}"
        return text

    def sum_():
        return chain(lambda: "-" * rng.choice([0, 0, 0, 1, 2]) + item(), ["+", "-", "*", "/", "//", "%"], 4)

    def test():
        return "not " * rng.choice([0, 0, 1, 2]) + chain(sum_, ["==", "!=", "<", "<=", ">", ">="], 3)

    return chain(test, ["and", "or"], 4)


def _shape_by_python(node):
    sign_of = {
        **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"},
        **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
        **{ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "neg"},
    }
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value):
            return repr(value)
        case ast.BinOp(left=left, op=op, right=right):
            parts = [left, right]
        case ast.UnaryOp(op=op, operand=operand):
            parts = [operand]
        case ast.BoolOp(op=op, values=parts):
            pass
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_shape_by_python(value) for value in (left, *others)]
            links = [f"({sign_of[type(op)]} {values[i]} {values[i + 1]})" for i, op in enumerate(ops)]
            return links[0] if len(links) == 1 else f"(and {' '.join(links)})"
    return f"({' '.join([sign_of[type(op)], *map(_shape_by_python, parts)])})"


# --- trees to text -------------------------------------------------------------------------------

NAMES = [
    "price",
    "first",
    "Größe",
    "unit price",
    "a`b",
    "",
    "in",
    "NULL",
    "l\u0131ke",
    "1st",
    "a.b",
    "²",
    "x\ny",
]
TEXTS = ["", "it's", 'say "no"', "a\nb", "`", "5 min", "\\n", "''"]
NUMBERS = [0, 7, 10**30, 0.0, 0.1, 1e300, 5e-324, 1e16, 2.5e-7]


def random_expression(rng: Random, depth: int, *, events_only: bool = False) -> ex.Expression:
    def some(least=2):
        return tuple(inner() for _ in range(rng.randint(least, least + 2)))

    def inner():
        return random_expression(rng, depth - 1, events_only=events_only)

    def of_event():
        return random_expression(rng, depth - 1, events_only=True)

    leaves = [
        lambda: ex.Attribute(rng.choice(NAMES)),
        lambda: ex.Parameter(rng.choice(["x", "least", "in"])),
        lambda: ex.Literal(rng.choice([None, True, False, *TEXTS])),
        lambda: ex.Literal(rng.choice([*NUMBERS, rng.random(), rng.randrange(1000)])),
    ]
    built_in = {"abs": 1, "power": 2, "greatest": 3, "contains": 2}
    nodes = [
        lambda: ex.And(some()),
        lambda: ex.Or(some()),
        lambda: ex.Not(inner()),
        lambda: ex.Negative(inner()),
        lambda: ex.In(inner(), some(least=1)),
        lambda: ex.IsNull(inner()),
        lambda: ex.Like(inner(), rng.choice(TEXTS)),
        lambda: ex.Subscript(inner(), rng.randint(-3, 3)),
        lambda: ex.Arithmetic(rng.choice(["+", "-", "*", "/", "//", "%"]), inner(), inner()),
        lambda: ex.Comparison(rng.choice(["==", "!=", "<", "<=", ">", ">="]), inner(), inner()),
        lambda: ex.Call("tags_of", some(least=0)),
        lambda: ex.Call(name := rng.choice(list(built_in)), tuple(inner() for _ in range(built_in[name]))),
    ]
    if not events_only:
        nodes += [
            lambda: ex.Aggregate(rng.choice(ex.AGGREGATES), of_event()),
            lambda: ex.Aggregate("count"),
            lambda: ex.Previous(of_event(), rng.randint(1, 3)),
        ]
    return rng.choice(nodes if depth and rng.random() < 0.85 else leaves)()


@pytest.mark.parametrize("seed", seeds(25, 250))
def test_an_expression_is_read_back_from_its_text(seed):
    tree = random_expression(Random(seed), depth=4)
    text = print_expression(tree)
    assert parse_expression(text) == tree
    assert str(parse_expression(text)) == text


@pytest.mark.parametrize("seed", seeds(15, 150))
def test_no_pair_of_parentheses_can_be_left_out(seed):
    tree = random_expression(Random(seed), depth=3)
    text = print_expression(tree)
    quoted = {i for m in re.finditer(r"'(?:[^']|'')*'|`(?:[^`]|``)*`", text) for i in range(*m.span())}
    opened = []
    for i, char in enumerate(text):
        if i in quoted or char not in "()":
            continue
        if char == "(":
            opened.append(i)
            continue
        start = opened.pop()
        # Not the brackets of a call, and not those of the list after 'in'.
        if text[:start].endswith(("in ",)) or (
            start and (text[start - 1].isalnum() or text[start - 1] == "_")
        ):
            continue
        without = text[:start] + " " + text[start + 1 : i] + " " + text[i + 1 :]
        try:
            changed = parse_expression(without) != tree
        except PatternSyntaxError:
            changed = True
        assert changed, f"{text!r} could be {without!r}"


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_need_backticks(word):
    for spelling in (word, word.upper(), word.capitalize()):
        assert print_expression(ex.Attribute(spelling)) == f"`{spelling}`"
        try:
            assert parse_expression(spelling) != ex.Attribute(spelling)
        except PatternSyntaxError as error:
            assert error.position in (0, len(word))


def test_a_negative_literal_is_printed_as_the_text_that_means_it():
    tree = ex.Arithmetic("*", ex.Attribute("a"), ex.Literal(-5))
    assert print_expression(tree) == "a * -5"
    assert parse_expression("a * -5") == ex.Arithmetic("*", ex.Attribute("a"), ex.Negative(ex.Literal(5)))
    assert print_expression(ex.Subscript(ex.Literal(-0.5), 0)) == "(-0.5)[0]"


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_no_text_stands_for_infinity(value):
    with pytest.raises(ValueError, match="use a parameter"):
        print_expression(ex.Literal(value))


def random_pattern(rng: Random, names: str, depth: int) -> pt.Pattern:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*map(pt.Variable, names * 2), pt.AnyEvent(), pt.Empty()])
    parts = [random_pattern(rng, names, depth - 1) for _ in range(rng.randint(2, 3))]
    low = rng.randint(0, 2)
    return rng.choice(
        [
            lambda: pt.seq(*parts),
            lambda: pt.any_of_patterns(*parts),
            lambda: pt.Repeat(parts[0], low, rng.choice([None, max(1, low), low + 1])),
        ]
    )()


@pytest.mark.parametrize("seed", seeds(25, 250))
def test_a_pattern_is_read_back_from_its_text(seed):
    tree = random_pattern(Random(seed), ["a", "rise", "Größe"], depth=4)
    text = print_pattern(tree)
    assert parse_pattern(text) == tree
    assert str(parse_pattern(text)) == text
    assert parse_pattern(re.sub(r"(?<=\W)\s|\s(?=[().|])", "", text)) == tree  # blanks only between names


# --- what patterns report ------------------------------------------------------------------------

WORDS = ["".join(word) for n in range(5) for word in product("ab", repeat=n)]


@cache
def spelled(pattern: pt.Pattern, word: str, start: int = 0) -> set[int]:
    """Return where in ``word`` the pattern can end that begins at ``start``, by the definition."""
    match pattern:
        case pt.Variable(name=name):
            return {start + 1} if word[start : start + 1] == name else set()
        case pt.AnyEvent():
            return {start + 1} if start < len(word) else set()
        case pt.Empty():
            return {start}
        case pt.Alternative(options=options):
            return {end for option in options for end in spelled(option, word, start)}
        case pt.Sequence(parts=(first, *rest)):
            tail = pt.seq(*rest)
            return {end for middle in spelled(first, word, start) for end in spelled(tail, word, middle)}
        case pt.Repeat(body=body, low=low, high=high):
            ends, reached = set(), {start}
            for times in range(len(word) + low + 2 if high is None else high + 1):
                ends |= reached if times >= low else set()
                reached = {end for middle in reached for end in spelled(body, word, middle)}
            return ends
    raise AssertionError(pattern)


def words_of(pattern):
    return {word for word in WORDS if len(word) in spelled(pattern, word)}


def reported(words):
    return {word for word in words if word and not any(word[:i] in words for i in range(1, len(word)))}


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_a_pattern_means_what_it_means_to_re(seed):
    rng = Random(seed)
    text = _regex_text(rng, depth=2)  # on deeper ones re backtracks for long
    regex = re.compile(text.replace(" ", ""))
    assert words_of(parse_pattern(text)) == {word for word in WORDS if regex.fullmatch(word)}, text


def _regex_text(rng, depth):
    def item():
        body = f"({_regex_text(rng, depth - 1)})" if depth and rng.random() < 0.5 else rng.choice("aabb.")
        return body + rng.choice(["", "", "*", "+", "?", "{2}", "{1,}", "{1,2}", "{,2}"])

    return "|".join(" ".join(item() for _ in range(rng.randint(1, 3))) for _ in range(rng.choice([1, 1, 2])))


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_nullable_first_and_reported_form_agree_with_the_words(seed):
    pattern = random_pattern(Random(seed), "ab", depth=3)
    words, form = words_of(pattern), reported_form(pattern)
    assert is_nullable(pattern) == ("" in words)
    if form is None:
        assert not reported(words)
    else:
        assert not is_nullable(form)
        assert reported(words_of(form)) == reported(words), f"{pattern} is not {form}"
        assert words_of(form) <= words


@pytest.mark.parametrize(
    ("text", "names"),
    [("a* (b | . c) d", ("a", "b")), ("(a? | ()) b c", ("a", "b")), (". a", ()), ("(a b){2,3} c", ("a",))],
)
def test_first_names(text, names):
    assert first_names(parse_pattern(text)) == names


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_first_names_are_the_heads_of_words(seed):
    pattern = random_pattern(Random(seed), "abc", depth=4)
    assert {*first_names(pattern)} == heads(pattern) - {"", "."}
    assert is_nullable(pattern) == ("" in heads(pattern))


def heads(pattern: pt.Pattern) -> set[str]:
    """Return all words of the pattern, each cut after its first letter."""

    def joined(words, others):
        return {(word + other)[:1] for word in words for other in others}

    match pattern:
        case pt.Variable(name=name):
            return {name}
        case pt.AnyEvent():
            return {"."}
        case pt.Empty():
            return {""}
        case pt.Alternative(options=options):
            return set().union(*map(heads, options))
        case pt.Sequence(parts=parts):
            words = {""}
            for part in parts:
                words = joined(words, heads(part))
            return words
        case pt.Repeat(body=body, low=low):
            words = {""}
            for _ in range(low):
                words = joined(words, heads(body))
            return words | joined(words, heads(body))  # high is at least 1
    raise AssertionError(pattern)


# --- durations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("5 min", 300 * 10**9),
        ("1 hour", 3600 * 10**9),
        ("500ms", 500 * 10**6),
        ("2.5 s", 2_500_000_000),
        ("1h30m", 5400 * 10**9),
        (" 1 Day 2 HOURS 3 minutes 4.000000005 seconds ", 93_784_000_000_005),
        (".25us", 250),
        ("7 \u00b5s", 7000),
        ("7 \u03bcs", 7000),
        ("1 week", 604_800 * 10**9),
        ("0 s", 0),
        ("0.000000001 s", 1),
        ("123456789012345678901 ns", 123456789012345678901),
    ],
)
def test_duration(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_in_both_cases(unit):
    # The upper case of the micro sign is the capital Greek letter, which is no sign for micro.
    spellings = [unit] if unit == "m" or not unit.isascii() else [unit, unit.upper()]
    assert {parse_duration(f"3{spelling}") for spelling in spellings} == {3 * NANOSECONDS[UNITS[unit]]}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("seed", seeds(6, 20))
def test_a_duration_is_read_back_from_its_text(seed, unit):
    ticks = Random(seed).randrange(10 ** Random(seed).randint(1, 18))
    assert duration_ticks(format_duration(ticks, unit), unit) == ticks


@pytest.mark.parametrize(
    ("duration", "unit", "ticks"),
    [
        ("5 min", "s", 300),
        ("5 min", "ns", 300 * 10**9),
        ("2.5 s", "ms", 2500),
        (timedelta(days=1, microseconds=7), "us", 86_400_000_007),
        (17, "ms", 17),
        (17, None, 17),
        (TICKS, "ns", TICKS),
    ],
)
def test_duration_ticks(duration, unit, ticks):
    assert duration_ticks(duration, unit) == ticks


@pytest.mark.parametrize(
    ("duration", "unit", "message"),
    [
        *cases("regex_queries", "durations"),
        (timedelta(microseconds=1), "ms", "not a whole number of ticks"),
        (timedelta(seconds=-1), "s", "is negative"),
    ],
)
def test_duration_ticks_error(duration, unit, message):
    with pytest.raises((CepError, TypeError), match=re.escape(message)):
        duration_ticks(duration, unit)


def test_durations_of_pandas_and_numpy():
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    assert duration_ticks(pd.Timedelta("1s 1ns"), "ns") == 1_000_000_001
    assert duration_ticks(np.int64(5), "s") == 5
    with pytest.raises(TypeError, match="got timedelta64"):
        duration_ticks(np.timedelta64(5, "s"), "s")


def test_format_duration():
    assert [format_duration(ticks, "ms") for ticks in (0, 1, 90_061_001, -1500)] == [
        *("0 ms", "1 ms", "1 d 1 h 1 min 1 s 1 ms", "-1 s 500 ms")
    ]


# --- functions -----------------------------------------------------------------------------------


def test_registered_functions(registry):
    @fn.pure
    def near(x, y, limit=2):
        return abs(x - y) < limit

    @fn.function(name="noisy")
    def with_side_effect(*values):
        return bool(values)

    assert near(1, 2)
    known = fn.registered_function("near")
    assert (known.call, known.pure, known.compiled, known.arity) == (near, True, False, fn.Arity(2, 3))
    assert [known.arity.accepts(n) for n in (1, 2, 3, 4)] == [False, True, True, False]
    noisy = fn.registered_function("noisy")
    assert (noisy.call, noisy.pure, str(noisy.arity)) == (with_side_effect, False, "0 or more arguments")
    with pytest.raises(PredicateError, match=r"'nearr' is not known.*Did you mean 'near'"):
        fn.registered_function("nearr")

    replacement = fn.pure(lambda x: x, name="near")
    assert fn.registered_function("near").call is replacement


def test_a_dispatcher_is_known_by_its_python_function(registry):
    class Dispatcher:
        __name__ = "same_tags"

        def __call__(self, *arguments):
            raise AssertionError("not called")

        @staticmethod
        def py_func(x, y):
            return x == y

    same_tags = fn.pure(Dispatcher())
    known = fn.registered_function("same_tags")
    assert (known.call, known.compiled, known.arity) == (same_tags, True, fn.Arity(2, 2))


@pytest.mark.parametrize("name", ["max", "MAX", "Average", "prev", "abs"])
def test_built_in_names_cannot_be_registered(registry, name):
    with pytest.raises(PredicateError, match=f"'{name}' is built in"):
        fn.pure(lambda x: x, name=name)


def test_a_lambda_needs_a_name(registry):
    with pytest.raises(PredicateError, match="'<lambda>' is not one"):
        fn.pure(lambda x: x)
    with pytest.raises(CepError, match="got str"):
        fn.pure("near")


def test_a_registered_name_is_no_misspelling(registry):
    with pytest.raises(PatternSyntaxError, match="Did you mean 'sum'"):
        parse_expression("sums(price) > 3")
    fn.pure(lambda x: x, name="sums")
    assert parse_expression("sums(price)") == ex.Call("sums", (ex.Attribute("price"),))


# --- queries -------------------------------------------------------------------------------------

M_SHAPE = {
    "rise": "price > first(price) and price >= prev(price)",
    "drop": "price >= first(price) and price < prev(price)",
    "deep": "price < first(price) and price < prev(price)",
}


def test_query():
    query = regex_query(
        ". rise+ drop+ rise+ drop* deep",
        define=M_SHAPE,
        measures={"start": "first(ts)", "length": "count()", "where": "symbol"},
        partition_by="symbol",
        order_by=["ts", "seq"],
        within="5 min",
        within_closed=False,
    )
    assert query.partition_by == ("symbol",)
    assert query.order_by == ("ts", "seq")
    assert query.undefined_variables() == query.parameters() == query.functions == ()
    assert dict(query.define)["deep"] == parse_expression(M_SHAPE["deep"])
    assert str(query) == "\n".join(
        [
            "pattern: . rise+ drop+ rise+ drop* deep",
            "define:",
            *(f"  {name}: {text}" for name, text in M_SHAPE.items()),
            *("measures:", "  start: first(ts)", "  length: count()", "  where: symbol"),
            *("partition_by: symbol", "order_by: ts, seq", "within: 5 min, exclusive"),
        ]
    )
    assert pickle.loads(pickle.dumps(query)) == query


def test_a_query_of_trees_equals_one_of_text():
    pattern = pt.seq(".", pt.var("rise").plus(), "drop")
    define = {name: parse_expression(M_SHAPE[name]) for name in ("rise", "drop")}
    query = regex_query(pattern, define=define, measures={"n": ex.Aggregate("count")})
    texts = {name: M_SHAPE[name] for name in define}
    assert query == regex_query(". rise+ drop", define=texts, measures={"n": "COUNT()"})
    assert isinstance(query, RegexQuery)
    assert query.measures == (("n", ex.Aggregate("count")),)
    assert regex_query(".").measures is None


def test_trees_are_checked_like_text():
    nested = ex.Aggregate("max", ex.Aggregate("first", ex.Attribute("price")))
    with pytest.raises(PatternSyntaxError, match=r"^predicate 'a': first inside max"):
        regex_query(". a", define={"a": ex.Comparison(">", nested, ex.Literal(1))})
    with pytest.raises(PredicateError, match="predicate 'a': text cannot spell the number inf"):
        regex_query("a", define={"a": ex.Comparison(">", ex.Attribute("x"), ex.Literal(float("inf")))})


def test_undefined_names_are_left_to_binding():
    query = regex_query("rise flag fal+ flag or", define={"rise": "price > 3"})
    assert query.undefined_variables() == ("flag", "fal", "or")
    assert str(query.undefined_error(["flag", "fall"])) == (
        "the pattern names ['fal', 'or'], which define does not define; it defines ['rise'], "
        "and the boolean columns are ['flag', 'fall']. Did you mean 'fall'?\n"
        "  rise flag fal+ flag or\n            ^^^"
    )
    only_or = regex_query("rise or rise", define={"rise": "price > 3"})
    assert "Alternatives are written with '|'" in str(only_or.undefined_error())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        *cases("regex_queries", "queries"),
        (
            {"pattern": "rise+ drop", "define": {"rise": "price > first(price)", "drop": "price < 1"}},
            PredicateError,
            "predicate 'rise': first(price) ranges over the events matched before the current one, "
            "and 'rise' can be the first of a match; put '.' first: '. rise+ drop'\n"
            "  price > first(price)\n          ^^^^^^^^^^^^",
        ),
        (
            {"pattern": "a? rise | a", "define": {"a": "x > 1", "rise": "price > last(price)"}},
            PredicateError,
            "put '.' first: '. (a? rise | a)', or use prev(price)\n  price > last(price)",
        ),
        (
            {"pattern": ". a", "define": {"a": "x > 1 and collect(y)[0] = 2"}},
            PredicateError,
            "predicate 'a': collect(y) makes a list, which only measures can have\n"
            "  x > 1 and collect(y)[0] = 2\n            ^^^^^^^^^^",
        ),
        (
            {"pattern": "a", "define": {"a": "x"}, "measures": {"top": "max(x) - price"}},
            PredicateError,
            "measure 'top': column 'price' has one value for each event of a match; "
            "write first(price) or last(price)\n  max(x) - price\n           ^^^^^",
        ),
        (
            {"pattern": ".", "measures": {"top": len}},
            PredicateError,
            "measure 'top': expected text or an expression",
        ),
        (
            {"pattern": "a", "define": {"a": "x > :limt"}, "params": {"limit": 3}},
            PredicateError,
            "predicate 'a': params gives no value for :limt; it gives ['limit']. Did you mean 'limit'?\n"
            "  x > :limt\n      ^^^^^",
        ),
        ({"pattern": ".", "within": timedelta(0), "order_by": "t"}, CepError, "expected a positive duration"),
    ],
)
def test_query_error(arguments, error, message):
    arguments = dict(arguments)
    with pytest.raises(error, match=re.escape(message)) as caught:
        regex_query(arguments.pop("pattern"), **arguments)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a+ b?", "the end of pattern 'a+ b?' has no effect.*equals 'a'$"),
        ("b a{2,}", r"equals 'b a\{2\}'$"),
        ("a*", "pattern 'a*' can match without any event.*equals 'a'$"),
        ("b", r"define: the pattern 'b' does not use \['a'\]"),
    ],
)
def test_query_warning(pattern, message):
    define = {"a": "x > 1"} | ({"b": "x < 1"} if "b" in pattern else {})
    with pytest.warns(
        CepWarning, match=message.replace("a*'", r"a\*'").replace("a+ b?", r"a\+ b\?")
    ) as caught:
        regex_query(pattern, define=define)
    assert [Path(warning.filename).name for warning in caught] == ["test_language.py"]


def test_only_first_positions_refuse_aggregates():
    # 'rise' also stands first elsewhere in other patterns; here it never does.
    for pattern in (". rise+ drop", "drop rise", "drop (rise | drop) drop"):
        regex_query(pattern, define={"rise": "x > first(x)", "drop": "x < prev(x)"})
    regex_query(
        "drop rise", define={"rise": "x > first(x)", "drop": "x < prev(x)"}, measures={"all": "collect(x)"}
    )


def test_a_python_function_as_predicate(registry):
    @fn.pure
    def rise(price, first_price, prev_price, last_, step=1):
        return price > max(first_price, prev_price) + step

    def low(price):
        return price < 3

    arguments = ("price", "first(price)", "prev(price)", "last_")
    query = regex_query(
        "low rise flat", define={"rise": rise, "low": low, "flat": lambda last_size: last_size == 0}
    )
    assert str(dict(query.define)["rise"]) == f"rise({', '.join(arguments)})"
    assert str(dict(query.define)["flat"]) == "flat(last(size))"
    known = dict(query.functions)
    assert (known["rise"].call, known["rise"].pure) == (rise, True)
    assert (known["low"].call, known["low"].pure) == (low, False)
    with pytest.raises(PredicateError, match=r"first\(price\) ranges over"):
        regex_query("rise", define={"rise": rise})


def test_functions_in_text_travel_with_the_query(registry):
    same = fn.pure(lambda x, y: x == y, name="same")
    query = regex_query(". a", define={"a": "same(x, prev(x)) and unknown(y)"})
    assert [(name, known.call) for name, known in query.functions] == [("same", same)]

    def other(x):
        return x > 0

    other.__name__ = "same"  # taken: the predicate's name serves
    query = regex_query("b", define={"b": other})
    assert dict(query.define) == {"b": ex.Call("b", (ex.Attribute("x"),))}
    other.__name__ = "abs"
    with pytest.raises(PredicateError, match="give its function a name of its own, 'max' is taken"):
        regex_query("max", define={"max": other})


@pytest.mark.parametrize("function", [lambda *x: True, lambda *, x: True, lambda **x: True, max])
def test_a_function_whose_arguments_name_no_columns(registry, function):
    with pytest.raises(PredicateError, match=r"names no column|have no names"):
        regex_query("a", define={"a": function})
