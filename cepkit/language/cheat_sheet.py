"""The cheat sheet of the query languages, with every construct and function; and queries in one sentence."""

from __future__ import annotations

from cepkit.language.expressions.vocabulary import FUNCTIONS_OF_VALUES, SUMMARIES
from cepkit.language.match_recognize.printing import say_rows
from cepkit.language.match_recognize.query import RowPatternQuery, RowsQuery, SelectedRows
from cepkit.language.regex import RegexQuery, say_regex
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.language.sequences.printing import say_sequence
from cepkit.values import dataclass

# The cheat sheet of the query languages: one entry for every construct and every built-in function.
#
# The entries are examples over the columns ``x``, ``y`` (numbers), ``name`` (text), ``ts`` (clock), ``flag``
# (boolean) and ``v``, ``w`` (arrays), and over the event types ``A``, ``B`` and ``C``.

REGEX, LINE, EVENTS, CLAUSE, CONDITION, MEASURE = "regex", "line", "events", "clause", "condition", "measure"
ROWS, SQL_CLAUSE, SQL_VALUE = "rows", "sql clause", "sql value"


@dataclass(frozen=True, slots=True)
class SheetEntry:
    """A construct on the cheat sheet."""

    text: str  # an example, which is also the text to insert
    meaning: str  # the meaning in one line
    # Where the text belongs: ``regex``, a part of a regex pattern; ``line``, a line below it; ``events``, a
    # part of ``SEQ``; ``clause``, a clause after the pattern; ``condition`` or ``measure``, an expression.
    # The texts of MATCH_RECOGNIZE have kinds of their own: ``rows``, a part of its pattern; ``sql clause``;
    # ``sql value``, an expression.
    kind: str


def _entries(kind: str, rows: tuple[tuple[str, str], ...]) -> tuple[SheetEntry, ...]:
    return tuple(SheetEntry(text, meaning, kind) for text, meaning in rows)


_REGEX = _entries(
    REGEX,
    (
        ("up", "one row for which the condition named up holds"),
        (".", "any row"),
        ("up down", "an up row, then a down row directly after it"),
        ("up+", "one or more up rows in a row"),
        ("up*", "any number of up rows, or none"),
        ("up?", "an up row or none"),
        ("up{3}", "exactly 3 up rows"),
        ("up{3,}", "at least 3 up rows"),
        ("up{3,5}", "3 to 5 up rows"),
        ("up{,5}", "at most 5 up rows"),
        ("up | down", "an up row or a down row"),
        ("(up down)+", "a group, here repeated as a whole"),
        ("()", "nothing; useful in a choice, as in (up | ())"),
    ),
) + _entries(
    LINE,
    (
        ("up: x > prev(x)", "what the name up means: a condition on a row"),
        ("within: 2 min", "longest time from the first to the last row"),
        ("within: 2 min, exclusive", "less than this time"),
    ),
)

_EVENTS = _entries(
    EVENTS,
    (
        ("SEQ(A a, B b)", "an event of type A, named a, and later one of type B"),
        ("AND(A a, B b)", "both, in any order"),
        ("OR(A a, B b)", "one of them"),
        ("A a", "one event of type A, named a"),
        ("_ a", "one event of any type"),
        ("'New York' a", "quotes around a type that is not a plain name"),
        ("5 a", "types can be whole numbers"),
        ("-5 a", "also negative ones"),
        ("TRUE a", "the type of a boolean column"),
        ("FALSE a", "the other type of a boolean column"),
        ("!B b", "no such event here; also NOT B b or ~B b"),
        ("A a IF (x > 5)", "with a condition on its own columns"),
        ("B+ b[]", "one or more events"),
        ("B* b[]", "any number of events, or none"),
        ("B? b", "one event or none"),
        ("B{3} b[]", "exactly 3 events"),
        ("B{3,} b[]", "at least 3 events"),
        ("B{3,5} b[]", "3 to 5 events"),
        ("B{,5} b[]", "at most 5 events"),
        ("(SEQ(B b, C c)){1,3}", "a group, repeated as a whole"),
        ("STRICT B b", "with no event at all before it"),
        ("PARTITION B b", "with no event of the same key before it"),
        ("NEXT B b", "with no event before it that could continue the match"),
        ("ANY B b", "with any events before it"),
        ("B+ b[] INNER NEXT", "what may be skipped between two of the events"),
        ("B+ b[] UNTIL (x > 5)", "the repetition ends before the first such event"),
        ("B+ b[] GREEDY", "an event that fits continues the repetition, and the longest match remains"),
        ("B+ b[] RELUCTANT", "an event that fits the next part ends the repetition"),
    ),
) + _entries(
    CLAUSE,
    (
        ("PATTERN SEQ(A a, B b)", "begins a query of events"),
        ("WHERE b.x > a.x", "conditions that must all hold, joined by AND"),
        ("WHERE [name]", "the same value in all events: the key"),
        ("WHERE skip_till_any_match", "any events may be skipped (the default)"),
        ("WHERE skip_till_next_match", "skips only events that cannot continue the match"),
        ("WHERE partition_contiguity", "skips no event of the same key"),
        ("WHERE strict_contiguity", "skips no event at all"),
        ("WITHIN 5 min", "longest time from the first to the last event"),
        ("WITHIN 20 EVENTS", "largest number of events from the first to the last"),
        ("GAP 10 s", "longest time between two successive events"),
        ("WITHIN 5 min EXCLUSIVE", "less than this time"),
    ),
)

_CONDITIONS = _entries(
    CONDITION,
    (
        ("x > 5", "more than"),
        ("x < 5", "less than"),
        ("x >= 5", "at least"),
        ("x <= 5", "at most"),
        ("x = 5", "equal; also =="),
        ("x != 5", "not equal; also <>"),
        ("5 < x < 9", "two comparisons in one"),
        ("x between 5 and 9", "5 and 9 included; also not between"),
        ("name in ('up', 'down')", "one of these values; also not in, and square brackets"),
        ("name like 'u%'", "% is any text, _ is one character; also not like"),
        ("name ilike 'U%'", "the same in upper or lower case"),
        ("x is distinct from y", "both differ, or one is missing; also is not distinct from"),
        ("x is null", "the value is missing"),
        ("x is not null", "the value is not missing"),
        ("flag", "a boolean column is true"),
        ("not flag", "the opposite; also ! or ~"),
        ("x > 5 and y < 3", "both hold; also && or &"),
        ("x > 5 or y < 3", "at least one holds; also || or |"),
        ("(x > 5 or y < 3) and flag", "brackets group conditions"),
        ("null = x", "the constant null; use is null to test for it"),
        ("flag = true", "the constant true"),
        ("flag = false", "the constant false"),
        ("x + y - 1 > 0", "sum and difference"),
        ("-x > 0.5", "the negative value, and a decimal number"),
        ("x * y / 2 > 1", "product and quotient"),
        ("x // 10 = 3", "quotient, rounded down"),
        ("x % 10 = 3", "remainder"),
        ("`unit price` > 5", "backticks around a column that is not a plain name"),
        ("v[0] > 1", "an item of an array column, from 0; -1 is the last"),
        ("x > :limit", "a constant that params= gives"),
        ("b.x > a.x", "values of two events of a PATTERN"),
        ("b[i].x > b[i-1].x", "each event of a repetition and the one before it"),
        ("b[1].x > a.x", "the first event of a repetition"),
        ("b[LEN].x > a.x", "the last event of a repetition"),
        ("b[i].x > avg(b[..i-1].x)", "all events of the repetition before this one"),
        ("count(b) > 3", "the number of events of a repetition"),
        ("a.`unit price` > 5", "backticks also after the name of an event"),
    ),
)


_FUNCTIONS = _entries(
    CONDITION,
    (
        ("x > prev(x)", "the value of the previous row"),
        ("x > prev(x, 2)", "the value 2 rows earlier"),
        ("x > next(x)", "the value of the next row, in finished data"),
        ("x > first(x)", "the value at the first row of the match"),
        ("x > last(x)", "the value at the last row so far, the previous one"),
        ("x > max(x)", "the largest value of the match so far"),
        ("x < min(x)", "the smallest value of the match so far"),
        ("sum(x) > 100", "the sum over the match so far"),
        ("x > avg(x)", "the mean over the match so far"),
        ("x > average(x)", "the same as avg"),
        ("x > mean(x)", "the same as avg"),
        ("count() >= 3", "the number of rows so far"),
        ("count(x) >= 3", "the number of rows so far where x is known"),
        ("delta(ts) < '5 min'", "the last value minus the first one, of the match so far"),
        ("bit_and(x, 4) = 4", "bits that both numbers have"),
        ("bit_or(x, 4) = 5", "bits that at least one number has"),
        ("bit_xor(x, 4) = 1", "bits that exactly one number has"),
        ("corr(v, w) > 0.9", "correlation of two arrays"),
        ("cosine(v, w) > 0.9", "cosine similarity of two arrays"),
        ("l2(v, w) < 1", "Euclidean distance of two arrays"),
        *((function.example, function.meaning) for function in FUNCTIONS_OF_VALUES),
    ),
) + _entries(
    MEASURE,
    (
        ("collect(x)", "a list of the values; only in measures="),
        *((f"{name}({summary.shown})", summary.meaning) for name, summary in SUMMARIES.items()),
        *(
            (f"{spelling}({summary.shown})", f"the same as {name}")
            for name, summary in SUMMARIES.items()
            for spelling in summary.spellings
        ),
    ),
)

_SQL = (
    _entries(
        SQL_CLAUSE,
        (
            ("SELECT * FROM t", "before MATCH_RECOGNIZE ( … ); the name of the table does not matter"),
            ("PARTITION BY name", "searches the rows of each value separately"),
            ("ORDER BY ts", "the order of the rows; also DESC, NULLS FIRST and NULLS LAST"),
            ("MEASURES LAST(B.x) AS low", "result columns"),
            ("ONE ROW PER MATCH", "one row with the keys and the measures (the default)"),
            ("ALL ROWS PER MATCH", "each row of a match; also WITH UNMATCHED ROWS, OMIT EMPTY MATCHES"),
            ("AFTER MATCH SKIP PAST LAST ROW", "where the search continues (the default)"),
            ("AFTER MATCH SKIP TO NEXT ROW", "matches may overlap"),
            ("AFTER MATCH SKIP TO LAST B", "it continues at the last row of B; also TO FIRST B"),
            ("PATTERN (A B+)", "the rows of a match, in their order"),
            ("WITHIN INTERVAL '2' HOUR", "the last row is earlier than the first row plus this time"),
            ("SUBSET U = (A, B)", "a name for the rows of several variables"),
            ("DEFINE B AS B.x > 5", "the conditions of the variables; others take any row"),
        ),
    )
    + _entries(
        ROWS,
        (
            ("A B", "a row A, then a row B directly after it"),
            ("A | B", "A, or else B: the left one is preferred"),
            ("A+", "one or more rows, as many as possible; also *, ? and {3,5}"),
            ("A+?", "one or more rows, as few as possible"),
            ("PERMUTE(A, B)", "A and B in any order"),
            ("{- A -}", "rows that ALL ROWS PER MATCH does not show"),
            ("^ A", "A is the first row of its partition"),
            ("A $", "A is the last row of its partition"),
        ),
    )
    + _entries(
        SQL_VALUE,
        (
            ("B.x > PREV(B.x)", "the row before; NEXT is the row after, PREV(B.x, 2) is two before"),
            ("B.x > LAST(A.x)", "the last row of A so far; FIRST is its first row"),
            ("B.x > AVG(A.x)", "over the rows of A so far; also SUM, MIN, MAX, COUNT, ARRAY_AGG"),
            ("COUNT(A.*) > 3", "the number of rows of A so far"),
            ("CLASSIFIER() = 'A'", "the variable of the row"),
            ("MATCH_NUMBER() = 1", "the number of the match in its partition"),
            ("FINAL LAST(x) > 5", "of the whole match, in MEASURES; RUNNING is up to the row"),
            ("CASE WHEN x > 5 THEN 1 END", "a value that depends on a condition"),
            ("CAST(x AS VARCHAR) = '5'", "the value as another type"),
            ("LOWER(name) = 'up'", "all functions of conditions: cep.vocabulary() lists them"),
        ),
    )
)

# The groups of the sheet by title, in reading order.
CHEAT_SHEET: dict[str, tuple[SheetEntry, ...]] = {
    "Rows in a row: regex": _REGEX, "Events with gaps: PATTERN": _EVENTS, "Conditions": _CONDITIONS,
    "Functions": _FUNCTIONS, "SQL: MATCH_RECOGNIZE": _SQL,
}  # fmt: skip


# Say a query of any language in one plain sentence.


def say_query(query: RegexQuery | SequenceQuery | RowPatternQuery | SelectedRows | RowsQuery) -> str:
    """Return a query in one plain sentence, without a full stop. The sentence names every variable."""
    if isinstance(query, RowPatternQuery | SelectedRows | RowsQuery):
        return say_rows(query if isinstance(query, RowPatternQuery) else query.rows)
    return say_regex(query) if isinstance(query, RegexQuery) else say_sequence(query)
