"""Hostile texts: queries of every language, cut, spliced, nested, repeated, and with extreme numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
LONGEST_CASE = 300_000  # characters; the limit of a query's text is lower

NUMBERS = (
    "0", "00", "1", "2", "-1", "62", "200", "1000", "999999", "1000000", "1000000000", "2147483648",
    "4294967296", "9007199254740993", "9223372036854775806", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "18446744073709551616", "1" + "0" * 30, "9" * 400, "9" * 4000, "9" * 5000, "0.1",
    ".5", "1e308", "1e309", "1e-400", "1e", "0x10", "1_000", "NaN", "inf", "Infinity", "\u0663", "\u00b2",
    "\u0bf0", "1.7976931348623157e308", "0.0000000001", "1e999999999",
)  # fmt: skip
ODD = (
    "\0", "\x1b[31m", "\u202e", "\u200f", "\u2028", "\x85", "\ufeff", "\ud800", "\udfff", "\n", "\r", "\t",
    "'", '"', "`", "\\", "{{", "}}", "{", "}", "%", "%s", "${x}", ":", ";", "--", "/*", "*/", "#",
    "\U0001f600", "\u00df", "\u0130", "\ufb01", "e\u0301", '"><img onerror', "__import__('os')", "<script>",
    "\u00a0", "?", "!", "@", "~", "^", "$", "==", "=", "<>", "!=", "<", ">", "->", ",", ".", "..", "|", "||",
    "&", "&&", "*", "+", "-", "/", "**", "//", "[", "]", "(", ")", "()", "[]", "[i]", "[i-1]", "[..i-1]",
    "[LEN]", "<1:1000000000>", "{1000000000}", "{,5}",
)  # fmt: skip
_WORDS = """
    and or not in between is null like true false nan inf prev next first last sum avg min max count
    delta collect std distinct abs sqrt log exp power floor ceil round sin bit_and length lower upper
    concat substr coalesce if case when then else end cast as A B C D a b c x y s f k ts kind price size
    when d tags left right T O t PATTERN SEQ AND OR ANY WHERE WITHIN EVENTS GAP UNTIL IF RETURN
    skip_till_next_match skip_till_any_match strict_contiguity partition_contiguity LEN SELECT FROM
    MATCH_RECOGNIZE PARTITION ORDER BY MEASURES DEFINE SUBSET PERMUTE AFTER MATCH SKIP PAST TO ROW ROWS
    PER ONE ALL FINAL RUNNING CLASSIFIER MATCH_NUMBER LIMIT INTERVAL WINDOW OVER from every select
    insert into within for group having join on partition with begin define stream string long double
    bool #window.time #window.length #window.sort #window.externalTime e1 e2 e3 p q r s isnan corr l2
    cosine contains tag __class__ None True lambda
"""
WORDS = _WORDS.split()
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@cache
def corpus(kind: str) -> tuple[str, ...]:
    """Return the texts of a kind: valid ones over the columns of the frame, and those of other fixtures."""
    lines = (FIXTURES / "hostile_seeds.txt").read_text("utf-8").splitlines()
    own = [line.split(" ; ", 1)[1] for line in lines if line.startswith(f"{kind} ; ")]
    return (*own, *dict.fromkeys(_of_fixtures(kind)))


def n_valid(kind: str) -> int:
    """Return the number of valid texts, with which `corpus` begins."""
    return len(corpus(kind)) - len(dict.fromkeys(_of_fixtures(kind)))


@cache
def _of_fixtures(kind: str) -> list[str]:
    names = {
        "regex": ("patterns", "automata", "plans"),
        "expression": ("expressions",),
        "where": ("references",),
        "sequence": ("sequences", "sequence_errors"),
        "sql": ("match_recognize_errors",),
        "siddhi": ("siddhi_errors", "siddhi_print"),
    }
    found = []
    for name in names.get(kind, ()):
        for line in (FIXTURES / f"{name}.txt").read_text("utf-8").splitlines():
            if name.startswith(("sequence_e", "match_")):
                is_text = line.startswith(("PATTERN ", "SELECT", "MATCH_REC"))
                found += [line] * is_text
                continue
            text = re.split(r" ;;? ", line)[0].strip()
            if text and not text.startswith("#"):
                found.append(f"PATTERN {text}" if kind == "sequence" else text)
    return found


def tokens_of(text: str) -> list[str]:
    return _TOKEN.findall(text)


# --- mutations: tokens in, tokens out


def _span(draw: Random, tokens: list[str], most: int = 6) -> tuple[int, int]:
    start = draw.randrange(len(tokens) + 1)
    return start, min(len(tokens), start + draw.randrange(1, most + 1))


def _delete(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    start, stop = _span(draw, tokens)
    return tokens[:start] + tokens[stop:]


def _duplicate(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    start, stop = _span(draw, tokens, 12)
    return tokens[:stop] + tokens[start:stop] + tokens[stop:]


def _swap(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    if len(tokens) < 2:
        return tokens
    one, two = draw.randrange(len(tokens)), draw.randrange(len(tokens))
    made = list(tokens)
    made[one], made[two] = made[two], made[one]
    return made


def _splice(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    return tokens[: draw.randrange(len(tokens) + 1)] + other[draw.randrange(len(other) + 1) :]


def _insert_part(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    at = draw.randrange(len(tokens) + 1)
    start, stop = _span(draw, other, 10)
    return [*tokens[:at], " ", *other[start:stop], " ", *tokens[at:]]


def _replace_word(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    places = [i for i, token in enumerate(tokens) if token[0].isalnum()]
    if not places:
        return [draw.choice(WORDS)]
    made = list(tokens)
    theirs = [token for token in other if token[0].isalnum()]
    made[draw.choice(places)] = draw.choice(theirs if theirs and draw.random() < 0.7 else WORDS)
    return made


def _replace_number(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    places = [i for i, token in enumerate(tokens) if token.isdigit()]
    if not places:
        return _insert_odd(draw, tokens, other)
    made = list(tokens)
    made[draw.choice(places)] = draw.choice(NUMBERS) if draw.random() < 0.6 else str(draw.randrange(9))
    return made


def _insert_odd(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    at = draw.randrange(len(tokens) + 1)
    return [*tokens[:at], draw.choice(draw.choice((ODD, WORDS, NUMBERS))), *tokens[at:]]


_AROUND = (
    ("(", ")"), ("[", "]"), ("{", "}"), ("not ", ""), ("-", ""), ("abs(", ")"), ("(1 + ", ")"),
    ("prev(", ")"), ("SEQ(A q, ", ")"), ("(p | ", ")"), ("every ", ""), ("PERMUTE(A, ", ")"), ("(", ")+"),
    ("(", ")*?"), ("(", "){2}"), ("CASE WHEN x > 1 THEN ", " ELSE 0 END"), ("ifThenElse(true, ", ", 1)"),
    ("(SELECT ", ")"), ("!", ""), ("'", "'"), ("sum(", ")"), ("coalesce(", ", 1)"), ("(x > ", ")"),
    ("1 / (", ")"), ("(", ")?"), ("{- ", " -}"), ("`", "`"),
)  # fmt: skip


def _nest(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    start, stop = _span(draw, tokens, 8)
    before, after = draw.choice(_AROUND)
    n = draw.choice((1, 1, 1, 2, 3, 5, 20, 60, 199, 201, 1000, 20_000))
    return [*tokens[:start], before * n, *tokens[start:stop], after * n, *tokens[stop:]]


def _repeat(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    start, stop = _span(draw, tokens, 8)
    part = "".join(tokens[start:stop]) or " "
    joint = draw.choice(("", " ", ", ", " | ", " and ", " or ", " + ", "; ", " -> ", "."))
    n = draw.choice((2, 2, 3, 5, 10, 30, 100, 1000, 20_000))
    n = min(n, LONGEST_CASE // (len(part) + len(joint)) + 1)
    return [*tokens[:start], joint.join([part] * n), *tokens[stop:]]


def _lengthen(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    at = draw.randrange(len(tokens) + 1)
    return [
        *tokens[:at],
        draw.choice("ab\u00dfx '\n\u202e9") * draw.choice((50, 1000, 100_000)),
        *tokens[at:],
    ]


def _change_case(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    made = list(tokens)
    if made:
        at = draw.randrange(len(made))
        made[at] = draw.choice((str.upper, str.lower, str.swapcase, str.title))(made[at])
    return made


Mutation = Callable[[Random, list[str], list[str]], list[str]]
_MUTATIONS: Sequence[tuple[Mutation, int]] = (
    (_delete, 4), (_duplicate, 3), (_swap, 3), (_splice, 3), (_insert_part, 4), (_replace_word, 9),
    (_replace_number, 9), (_insert_odd, 4), (_nest, 3), (_repeat, 1), (_lengthen, 1), (_change_case, 1),
)  # fmt: skip


def hostile_text(draw: Random, kind: str, also: Sequence[str] = ()) -> str:
    """Return a mutant of a text of this kind. ``also`` are kinds whose texts may be spliced in."""
    valid = n_valid(kind)  # most mutants of a refused text are refused, too
    texts = corpus(kind) if draw.random() < 0.2 else corpus(kind)[:valid]
    tokens = tokens_of(draw.choice(texts))
    ways, weights = zip(*_MUTATIONS, strict=True)
    for _ in range(draw.choice((0, 1, 1, 1, 1, 1, 1, 2, 3, 5))):
        other = tokens_of(draw.choice(corpus(draw.choice((kind, kind, kind, *also)))))
        tokens = tokens_of("".join(draw.choices(ways, weights)[0](draw, tokens, other))[:LONGEST_CASE])
    return "".join(tokens)
