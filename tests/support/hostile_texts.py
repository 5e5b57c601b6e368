"""Hostile texts: queries of every language, cut, spliced, nested, repeated, and with extreme numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
LONGEST_CASE = 300_000  # characters; the limit of a query's text is lower

# Valid texts over the columns of `cepkit` frames in `tests.support.hostile_runs`, so that many mutants run.
SEEDS = {
    "regex": """
        p
        p+ q
        . p* (q | r){2,3} s?
        (p q)+ r{2} ()
        p{1,5} (q (r | s)*){,3}
        .{2} p | q r+
    """,
    "expression": """
        x > 3 and y <= 0.5
        x in (1, 2, 5) or s like 'a%_b' or not f
        prev(x) < x and delta(ts) < 5
        size = 1
        x between 1 and 5 or x not in (3)
        abs(x - prev(x, 2)) / (y + 1) > power(x, 3) % 4
        s is not null and s != 'a''b'
        when > '2026-03-29 01:00' and delta(when) < '5 min'
        max(x) - min(x) >= :limit and count() > 1
        y is null or y > 1e3 or -x < 5
        `odd ``name` > 1 and first(x) == last(x)
        sqrt(x * x) + log(abs(y)) < 7 && !(f)
        (x < 3) = f
    """,
    "measure": """
        count()
        sum(x)
        first(ts)
        last(s)
        avg(y) / max(x)
        delta(when)
        collect(x)
        max(x) - min(x) + :limit
        first(x) > 2
        min(price) * 1.5
    """,
    "sequence": """
        PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10
        PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match AND b[i].x > b[i-1].x WITHIN 20 EVENTS
        PATTERN SEQ(A a, !B b, C c) WHERE b.x = a.x AND [k] WITHIN 15
        PATTERN AND(A a, B b) WITHIN 5
        PATTERN SEQ(A a, OR(B b, C c), D{2,3} d[]) WHERE sum(d.x) > 3 and a.s = 'x'
        PATTERN (SEQ(A a, B b)){2} WITHIN 12
        PATTERN SEQ(A a, _ c) WHERE strict_contiguity AND a.x in (1, 2, 3)
        PATTERN SEQ(A+ a[], B b) WHERE a[LEN].x < b.x and count(a.x) > 1 and partition_contiguity and [k, s]
        PATTERN SEQ('A' a, C+ c[] UNTIL (c.x > 3)) WITHIN 9
        PATTERN B b IF (b.x > 2)
    """,
    "where": """
        a.x < b[1].x and c.x > 3
        b[i].x > b[i-1].x and [k]
        sum(b.x) > c.x or avg(b.y) is null
        skip_till_any_match AND a.s = c.s
        b[LEN].x - b[1].x >= 2 and count(b.x) < 4
        a.when < c.when and delta(b.x) > 0
        abs(a.x - c.x) < 1e3 and a.f
    """,
    "sql": """
        SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(B.x) AS v, COUNT(*) AS n ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C?) DEFINE B AS x > PREV(x), C AS C.x < B.x) AS m WHERE m.v > 1 ORDER BY v LIMIT 5
        MATCH_RECOGNIZE (ORDER BY ts MEASURES CLASSIFIER() AS c, MATCH_NUMBER() AS m ALL ROWS PER MATCH PATTERN (A {- B*? -} C{2,3}) DEFINE A AS s = 'x', C AS x BETWEEN 1 AND 5)
        MATCH_RECOGNIZE (ORDER BY ts PATTERN (PERMUTE(A, B, C)) DEFINE A AS kind = 'A', B AS kind = 'B', C AS kind = 'C')
        MATCH_RECOGNIZE (ORDER BY ts MEASURES SUM(U.x) AS total, AVG(A.y) AS mean, ARRAY_AGG(x) AS items AFTER MATCH SKIP TO NEXT ROW PATTERN (^ (A | B)+ $) SUBSET U = (A, B) DEFINE A AS x > 2, B AS x <= 2)
        MATCH_RECOGNIZE (ORDER BY when ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN ((A B){2}) WITHIN INTERVAL '5' MINUTE DEFINE B AS CASE WHEN x > 1 THEN TRUE ELSE s LIKE 'a%' END)
        SELECT x, v OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY ts MEASURES SUM(x) AS v ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING PATTERN (A+) DEFINE A AS x > 1) ORDER BY x LIMIT 3
        MATCH_RECOGNIZE (ORDER BY ts MEASURES CAST(A.x AS varchar(3)) || '-' AS v, COALESCE(A.y, 0) AS z, ROUND(A.y, 2) AS r PATTERN (A) DEFINE A AS MOD(x, 2) = 0 AND UPPER(s) IN ('X', 'Y'))
    """,
    "siddhi": """
        from every e1=T[x > 2] -> e2=T[x > e1.x]<1:3> within 10 sec select e1.x as a, e2[0].x as b insert into O
        from T#window.length(5) select k, sum(x) as total, count() as n group by k having n > 1 order by total desc limit 3 insert into O
        from e1=T[kind == 'A'], e2=T[kind == 'B']+, e3=T select e1.x, e2[last].x as z insert into O
        from not T[x > 100] for 5 milliseconds and e2=T select e2.x insert into O
        from T#window.timeBatch(5) select avg(x) as m, max(y) as top insert all events into O
        from T as a join T#window.length(3) as b on a.k == b.k select a.x, b.x as y insert into O
        define stream T (kind string, x long, ts long); from T[x + 1 > 2 and not (kind is null)] select ifThenElse(x > 1, 'a', 'b') as c insert into O
        partition with (k of T) begin from T select k, sum(x) as t insert into O; end
        from every (e1=T[kind == 'A'] and e2=T[kind == 'C']) -> e3=T select e1.x, e3.x as y insert into O
    """,
    "aggregate": """
        sum(x)
        avg(y) - y
        count()
        max(price) / min(price)
        first(s)
        distinct(s)
        std(x) + delta(x)
        last(when)
    """,
    "pair": """
        left.x < right.x
        left.s = right.s and left.f
        abs(left.y - right.y) < 2
        left.when >= right.when
    """,
    "duration": """
        5 min
        1h30m
        2.5 s
        500ms
        10
    """,
}  # fmt: skip

NUMBERS = (
    "0", "00", "1", "2", "-1", "62", "200", "1000", "999999", "1000000", "1000000000", "2147483648", "4294967296",
    "9007199254740993", "9223372036854775806", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "18446744073709551616", "1" + "0" * 30, "9" * 400, "9" * 4000, "9" * 5000, "0.1", ".5",
    "1e308", "1e309", "1e-400", "1e", "0x10", "1_000", "NaN", "inf", "Infinity", "\u0663", "\u00b2", "\u0bf0", "1.7976931348623157e308",
    "0.0000000001", "1e999999999",
)  # fmt: skip
ODD = (
    "\0", "\x1b[31m", "\u202e", "\u200f", "\u2028", "\x85", "\ufeff", "\ud800", "\udfff", "\n", "\r", "\t", "'", '"', "`",
    "\\", "{{", "}}", "{", "}", "%", "%s", "${x}", ":", ";", "--", "/*", "*/", "#", "\U0001f600", "\u00df", "\u0130",
    "\ufb01", "e\u0301", '"><img onerror', "__import__('os')", "<script>", "\u00a0", "?", "!", "@", "~", "^", "$",
    "==", "=", "<>", "!=", "<", ">", "->", ",", ".", "..", "|", "||", "&", "&&", "*", "+", "-", "/", "**", "//",
    "[", "]", "(", ")", "()", "[]", "[i]", "[i-1]", "[..i-1]", "[LEN]", "<1:1000000000>", "{1000000000}", "{,5}",
)  # fmt: skip
WORDS = """
    and or not in between is null like true false nan inf prev next first last sum avg min max count delta collect
    std distinct abs sqrt log exp power floor ceil round sin bit_and length lower upper concat substr coalesce
    if case when then else end cast as A B C D a b c x y s f k ts kind price size when d tags left right T O t
    PATTERN SEQ AND OR ANY WHERE WITHIN EVENTS GAP UNTIL IF RETURN skip_till_next_match skip_till_any_match
    strict_contiguity partition_contiguity LEN SELECT FROM MATCH_RECOGNIZE PARTITION ORDER BY MEASURES DEFINE
    SUBSET PERMUTE AFTER MATCH SKIP PAST TO ROW ROWS PER ONE ALL FINAL RUNNING CLASSIFIER MATCH_NUMBER LIMIT
    INTERVAL WINDOW OVER from every select insert into within for group having join on partition with begin
    define stream string long double bool #window.time #window.length #window.sort #window.externalTime
    e1 e2 e3 p q r s isnan corr l2 cosine contains tag __class__ None True lambda
""".split()  # fmt: skip
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@cache
def corpus(kind: str) -> tuple[str, ...]:
    """Return the texts of a kind: those above and those of the fixtures."""
    own = [line.strip() for line in SEEDS[kind].splitlines() if line.strip()]
    return (*own, *dict.fromkeys(_of_fixtures(kind)))


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
    made[draw.choice(places)] = draw.choice(WORDS)
    return made


def _replace_number(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    places = [i for i, token in enumerate(tokens) if token.isdigit()]
    if not places:
        return _insert_odd(draw, tokens, other)
    made = list(tokens)
    made[draw.choice(places)] = draw.choice(NUMBERS)
    return made


def _insert_odd(draw: Random, tokens: list[str], other: list[str]) -> list[str]:
    at = draw.randrange(len(tokens) + 1)
    return [*tokens[:at], draw.choice(draw.choice((ODD, WORDS, NUMBERS))), *tokens[at:]]


_AROUND = (
    ("(", ")"), ("[", "]"), ("{", "}"), ("not ", ""), ("-", ""), ("abs(", ")"), ("(1 + ", ")"), ("prev(", ")"),
    ("SEQ(A q, ", ")"), ("(p | ", ")"), ("every ", ""), ("PERMUTE(A, ", ")"), ("(", ")+"), ("(", ")*?"), ("(", "){2}"),
    ("CASE WHEN x > 1 THEN ", " ELSE 0 END"), ("ifThenElse(true, ", ", 1)"), ("(SELECT ", ")"), ("!", ""), ("'", "'"),
    ("sum(", ")"), ("coalesce(", ", 1)"), ("(x > ", ")"), ("1 / (", ")"), ("(", ")?"), ("{- ", " -}"), ("`", "`"),
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
    (_delete, 5), (_duplicate, 3), (_swap, 4), (_splice, 3), (_insert_part, 4), (_replace_word, 6),
    (_replace_number, 5), (_insert_odd, 5), (_nest, 3), (_repeat, 1), (_lengthen, 1), (_change_case, 1),
)  # fmt: skip


def hostile_text(draw: Random, kind: str, also: Sequence[str] = ()) -> str:
    """Return a mutant of a text of this kind. ``also`` are kinds whose texts may be spliced in."""
    tokens = tokens_of(draw.choice(corpus(kind)))
    ways, weights = zip(*_MUTATIONS, strict=True)
    for _ in range(draw.choice((0, 1, 1, 1, 1, 1, 2, 2, 3, 5))):
        other = tokens_of(draw.choice(corpus(draw.choice((kind, kind, kind, *also)))))
        tokens = tokens_of("".join(draw.choices(ways, weights)[0](draw, tokens, other))[:LONGEST_CASE])
    return "".join(tokens)
