"""Split a text with MATCH_RECOGNIZE into its clauses, and explain its mistakes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from cepkit.errors import PatternSyntaxError, did_you_mean
from cepkit.language.expressions.mistakes import Vocabulary, bracket_fault
from cepkit.language.expressions.parsing import end_of_constants
from cepkit.language.match_recognize.building import column_name, variable_name
from cepkit.language.match_recognize.query import AFTER_MATCH, ROWS_PER_MATCH
from cepkit.limits import ENTRIES, ROWS, refuse_beyond
from cepkit.values import dataclass

# Split a text with MATCH_RECOGNIZE into its clauses, by their words outside brackets and quotes.

# Quotes, comments, brackets, words, numbers, and every other character.
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)|(?P<comment>--[^\n]*|/\*.*?\*/)"""
    r"""|(?P<open>[(\[])|(?P<close>[)\]])|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<other>[^\s])""",
    re.DOTALL,
)


class LexedText:
    """A text with its tokens, which are read once; comments and the items of long lists are no tokens."""

    def __init__(self, text: str):
        self.text = text
        self.tokens: list[re.Match[str]] = []
        self.comments: list[re.Match[str]] = []
        self.depths: list[int] = []  # how many brackets are around each token, a bracket itself excluded
        self.lists: dict[int, str] = {}  # the items of a long list, by the place of their bracket
        depth, place = 0, 0
        while (token := _TOKEN.search(text, place)) is not None:
            kind, place = token.lastgroup, token.end()
            if kind == "comment":
                self.comments.append(token)
                continue
            if kind == "open" and self.tokens and self.tokens[-1][0].upper() == "IN":
                place = end_of_constants(text, place)
                self.lists[token.start()] = text[token.end() : place]
            depth -= kind == "close"
            self.tokens.append(token)
            self.depths.append(depth)
            depth += kind == "open"
        self.starts = [token.start() for token in self.tokens]

    def part(self, start: int = 0, stop: int | None = None) -> TextPart:
        """Return the part from ``start`` to ``stop``, or to the end. Neither place is inside a token."""
        return TextPart(self, start, len(self.text) if stop is None else stop)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text, from ``start`` to ``stop``."""

    lexed: LexedText
    start: int
    stop: int

    @property
    def whole(self) -> str:
        return self.lexed.text

    @property
    def text(self) -> str:
        return self.whole[self.start : self.stop]

    def between(self, start: int, stop: int) -> TextPart:
        """Return another part of the same text."""
        return TextPart(self.lexed, start, stop)

    def at(self, token: re.Match[str]) -> TextPart:
        """Return a token as a part."""
        return TextPart(self.lexed, token.start(), token.end())

    def error(self, message: str) -> PatternSyntaxError:
        start = self.start + len(self.text) - len(self.text.lstrip())
        return PatternSyntaxError(message, self.whole, start, len(self.text.strip()))

    def _places(self) -> slice:
        """Return where the tokens of the part are in the list of all tokens."""
        starts = self.lexed.starts
        return slice(bisect_left(starts, self.start), bisect_left(starts, self.stop))

    def tokens(self) -> list[re.Match[str]]:
        return self.lexed.tokens[self._places()]

    def outer(self) -> list[re.Match[str]]:
        """Return the tokens outside brackets; an opening bracket and its closing one are outside."""
        tokens, depths = self.tokens(), self.lexed.depths[self._places()]
        if not tokens:
            return []
        outside = depths[0] + (tokens[0].lastgroup == "close")
        return [token for token, depth in zip(tokens, depths, strict=True) if depth == outside]

    def split(self, what: str = "entries of a list") -> list[TextPart]:
        """Return the parts between the commas outside brackets; raise if they are too many."""
        cuts = [token.start() for token in self.outer() if token[0] == ","]
        refuse_beyond(ENTRIES, len(cuts) + 1, what, "Leave out some, or compute them in several queries")
        starts, stops = [self.start, *(cut + 1 for cut in cuts)], [*cuts, self.stop]
        return [self.between(start, stop) for start, stop in zip(starts, stops, strict=True)]

    def is_blank(self) -> bool:
        """Return whether nothing but comments is in the part."""
        return not self.tokens()

    def without_comments(self) -> str:
        """Return the part with single blanks in place of white space and comments."""
        lists = self.lexed.lists
        return " ".join(token[0] + lists.get(token.start(), "") for token in self.tokens())


@dataclass(frozen=True, slots=True)
class Keyword:
    """How a clause begins: its name, its words as a regular expression, and its place in the order."""

    name: str
    words: str
    place: int


def _rows_kept(place: int) -> tuple[Keyword, ...]:
    """Return the clauses at the end of a SELECT. They come in any order, as LIMIT and OFFSET do in SQL."""
    return (
        Keyword("LIMIT", r"LIMIT\b", place),
        Keyword("OFFSET", r"OFFSET(?= [0-9])", place),
        Keyword("FETCH", r"FETCH (?:FIRST|NEXT)\b", place),
    )


# The order of the clauses. ROWS PER MATCH and AFTER MATCH hold more words than those that begin them.
OF_MATCH_RECOGNIZE = (
    Keyword("PARTITION BY", r"PARTITION BY\b", 0), Keyword("ORDER BY", r"ORDER BY\b", 1),
    Keyword("MEASURES", r"MEASURES\b(?! *[.,<>=)])", 2),
    Keyword("ROWS PER MATCH", r"(?=(?:ONE ROW|ALL ROWS) PER MATCH\b)", 3),
    Keyword("AFTER MATCH", r"AFTER MATCH\b", 4), Keyword("PATTERN", r"PATTERN(?= *\()", 5),
    Keyword("WITHIN", r"WITHIN\b(?! *[.,<>=)])", 6), Keyword("SUBSET", r"SUBSET\b(?! *[.,<>=)])", 7),
    Keyword("DEFINE", r"DEFINE\b(?! *[.,<>=)])", 8),
)  # fmt: skip
OF_WINDOW = (
    *OF_MATCH_RECOGNIZE[:4],
    Keyword("ROWS BETWEEN", r"(?=(?:ROWS|RANGE|GROUPS) (?:BETWEEN|CURRENT)\b)", 4),
    Keyword("AFTER MATCH", r"AFTER MATCH\b", 5),
    Keyword("INITIAL or SEEK", r"(?=(?:INITIAL|SEEK) PATTERN\b)", 6),
    *(Keyword(keyword.name, keyword.words, keyword.place + 2) for keyword in OF_MATCH_RECOGNIZE[5:]),
)
OF_WINDOW_SELECT = (
    Keyword("FROM", r"FROM\b", 0), Keyword("WHERE", r"WHERE\b", 1),
    Keyword("WINDOW", r"WINDOW\b(?= [^\W\d]\w* AS\b)", 2), Keyword("ORDER BY", r"ORDER BY\b", 3),
    *_rows_kept(4),
)  # fmt: skip
OF_SELECT = (Keyword("WHERE", r"WHERE\b", 0), Keyword("ORDER BY", r"ORDER BY\b", 1), *_rows_kept(2))
# The first words of all clauses; most tokens begin none, and need no look at the clauses one by one.
_FIRST_WORD = re.compile(
    "PARTITION|ORDER|MEASURES|ONE|ALL|AFTER|PATTERN|WITHIN|SUBSET|DEFINE|ROWS|RANGE|GROUPS|INITIAL|SEEK|FROM|"
    "WHERE|WINDOW|LIMIT|OFFSET|FETCH",
    re.IGNORECASE,
)

# Words that cannot end an expression, and words that end one and name nothing.
_NO_ENDS = frozenset(
    [
        "AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "OVER", "CASE", "WHEN", "THEN", "ELSE", "DISTINCT",
        "AS",
    ]
)  # fmt: skip
_NO_NAMES = _NO_ENDS | {"END", "NULL", "TRUE", "FALSE"}
_CLAUSES = [
    *(keyword.name for keyword in OF_MATCH_RECOGNIZE), *ROWS_PER_MATCH.values(), *AFTER_MATCH.values(),
]  # fmt: skip


def split_clauses(part: TextPart, keywords: tuple[Keyword, ...]) -> tuple[TextPart, dict[str, TextPart]]:
    """Return the part before the first clause, and the part of each clause by its name, without its words."""
    keyword_spans: list[tuple[Keyword, int, int]] = []
    tokens = part.outer()
    for i, token in enumerate(tokens):
        if token.lastgroup != "word" or (i and tokens[i - 1][0] in ".,"):
            continue
        if i and tokens[i - 1][0].upper() in ("AS", "DISTINCT"):  # IS DISTINCT FROM
            continue
        if not _FIRST_WORD.fullmatch(token[0]):
            continue
        for keyword in keywords:
            n_words = _fits(keyword, tokens[i : i + 5])
            if n_words is not None:
                stop = tokens[i + n_words - 1].end() if n_words else token.start()
                keyword_spans.append((keyword, token.start(), stop))
    seen: set[str] = set()
    for (before, *_), (keyword, start, _) in pairwise(keyword_spans):
        seen.add(before.name)
        if keyword.place < before.place or keyword.name in seen:
            message = f"{keyword.name} comes before {before.name}"
            if keyword.name == before.name or keyword.place == before.place:
                message = f"{keyword.name} occurs twice"
            raise PatternSyntaxError(message, part.whole, start, len(keyword.name))
    head = part.between(part.start, keyword_spans[0][1] if keyword_spans else part.stop)
    ends = [*(start for _, start, _ in keyword_spans[1:]), part.stop][: len(keyword_spans)]
    return head, {
        keyword.name: part.between(stop, end)
        for (keyword, _, stop), end in zip(keyword_spans, ends, strict=True)
    }


def _fits(keyword: Keyword, tokens: list[re.Match[str]]) -> int | None:
    """Return the number of words with which a clause begins at these tokens; None if it does not."""
    fits = re.match(keyword.words, " ".join(token[0] for token in tokens), re.IGNORECASE)
    return None if fits is None else len(fits[0].split())


def check_brackets(lexed: LexedText) -> None:
    """Raise if a bracket has no partner, or a quote or comment is not closed."""
    text = lexed.text
    for token in lexed.tokens:
        if token.lastgroup != "other":
            continue
        if token[0] in ("'", '"', "`"):
            raise PatternSyntaxError("this quote is never closed", text, token.start())
        if text.startswith("/*", token.start()):
            raise PatternSyntaxError(
                "this comment is never closed; write */ at its end", text, token.start(), 2
            )
    fault = bracket_fault(_blank_comments(lexed), len(text), at_end=True)
    if fault is not None:
        message, start, length = _inner_fault(lexed, fault[1]) or fault
        raise PatternSyntaxError(message, text, start, length)


def _blank_comments(lexed: LexedText) -> str:
    """Return a text of the same length with blanks in place of its comments."""
    parts, end = [], 0
    for comment in lexed.comments:
        parts += [lexed.text[end : comment.start()], re.sub(r"\S", " ", comment[0])]
        end = comment.end()
    return "".join([*parts, lexed.text[end:]])


def _inner_fault(lexed: LexedText, at: int) -> tuple[str, int, int] | None:
    """Return message, position and length for the bracket that is open where the next clause begins."""
    # ``at`` is the place of a bracket without a partner. The ``)`` of MATCH_RECOGNIZE ( … ) closes a bracket
    # inside it if one is missing there, so ``at`` is that of MATCH_RECOGNIZE.
    if lexed.text[at] != "(":
        return None
    tokens = lexed.part(at).tokens()
    opened: list[re.Match[str]] = []
    closed, end = tokens[0], 0
    for i, token in enumerate(tokens):
        if token.lastgroup == "open":
            opened.append(token)
        elif token.lastgroup == "close" and opened:
            closed, end = opened.pop(), i
        elif len(opened) > 1 and (name := _begun(tokens[i : i + 5])) and tokens[i - 1][0] not in (".", ","):
            return f"'(' is never closed before {name}", opened[-1].start(), 1
    after = tokens[end + 1 :]
    is_end = bool(after) and after[0].lastgroup == "word" and after[0][0].upper() not in _NO_ENDS - {"AS"}
    if len(opened) != 1 or not is_end or any(_begun(after[i : i + 5]) for i in range(len(after))):
        return None
    return "a ')' is missing: the last one closes this '(', so an outer '(' stays open", closed.start(), 1


def _begun(tokens: list[re.Match[str]]) -> str:
    """Return the name of the clause from MEASURES on that begins with these tokens; empty for none."""
    if not _FIRST_WORD.fullmatch(tokens[0][0]):
        return ""
    return next(
        (keyword.name for keyword in OF_MATCH_RECOGNIZE[2:] if _fits(keyword, tokens) is not None), ""
    )


def number_of_rows(part: TextPart, digits: str, clause: str) -> int:
    """Return a number of rows; raise if it does not fit into 64 bits."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > len(str(ROWS)) or int(digits) > ROWS:
        raise part.error(f"{clause}: the number does not fit into 64 bits. The largest is {ROWS}")
    return int(digits)


# --- names of the entries of lists


def split_name(entry: TextPart) -> tuple[TextPart, TextPart] | None:
    """Return expression and name of ``expression AS name`` or ``expression name``; None without a name."""
    tokens = entry.outer()
    if len(tokens) < 2:
        return None
    name, before = tokens[-1], tokens[-2]
    if not _is_name(name):
        return None
    with_as = before.lastgroup == "word" and before[0].upper() == "AS" and len(tokens) > 2
    if not with_as and (name[0].upper() in _NO_NAMES or not _ends_expression(tokens[:-1], name)):
        return None
    stop = before.start() if with_as else name.start()
    return entry.between(entry.start, stop), entry.at(name)


def _is_name(token: re.Match[str]) -> bool:
    return token.lastgroup == "word" or (token.lastgroup == "quoted" and token[0][0] != "'")


def _ends_expression(tokens: list[re.Match[str]], name: re.Match[str]) -> bool:
    """Return whether an expression may end with these tokens, so that a name may follow."""
    last = tokens[-1]
    if last.lastgroup == "quoted" and last[0][0] == "'" and len(tokens) > 1:
        return tokens[-2][0].upper() != "INTERVAL"  # a unit follows
    if last.lastgroup == "number":
        return last.end() < name.start()  # 1e3 is one number
    return last.lastgroup in ("quoted", "close") or (
        last.lastgroup == "word" and last[0].upper() not in _NO_ENDS
    )


def entries(
    part: TextPart, clause: str, names_first: bool, clauses: Mapping[str, TextPart]
) -> Iterator[tuple[TextPart, TextPart]]:
    """Yield name and expression of each entry of a list."""
    # An entry is ``name AS expression`` with ``names_first``, else ``expression AS name``, also without AS.
    for entry in part.split():
        tokens = entry.outer()
        at = [i for i, token in enumerate(tokens) if token[0].upper() == "AS" and token.lastgroup == "word"]
        form = "A AS price > 5" if names_first else "price AS name"
        if entry.is_blank():
            raise part.between(max(entry.start - 1, 0), entry.stop).error(
                f"{clause}: an entry of the list is empty; write one as in {form}"
            )
        if names_first:
            name, expression = _defined(entry, clause, form, clauses, tokens[at[0]] if at else None)
        else:
            if at:
                _check_after_name(entry, clause, tokens[at[0] + 1 :])
            split = split_name(entry)
            if split is None:
                raise _nameless(entry, clause, form, clauses)
            expression, name = split
        if expression.is_blank():
            raise entry.error(f"{clause}: an entry of the list has no expression; write it as in {form}")
        yield name, expression


def _defined(
    entry: TextPart, clause: str, form: str, clauses: Mapping[str, TextPart], cut: re.Match[str] | None
) -> tuple[TextPart, TextPart]:
    """Return name and expression of an entry of DEFINE; ``cut`` is its AS."""
    if cut is None:
        raise _nameless(entry, clause, form, clauses)
    name = entry.between(entry.start, cut.start())
    words = name.outer()
    if len(words) != 1 or not _is_name(words[0]):
        raise name.error(f"{clause}: expected one name; write an entry as in {form}")
    return entry.at(words[0]), entry.between(cut.end(), entry.stop)


def _check_after_name(entry: TextPart, clause: str, after: list[re.Match[str]]) -> None:
    """Raise unless one name follows AS in an entry."""
    if not after or not _is_name(after[0]):
        form = "expected one name; write an entry as in price AS name"
        at = entry.at(after[0]) if after else entry
        raise at.error(f"{clause}: {form}")
    if len(after) > 1:
        more = entry.between(after[1].start(), entry.stop)
        hint = did_you_mean(more.without_comments(), _CLAUSES) or did_you_mean(after[1][0], _CLAUSES)
        message = f"expected a comma or the next clause after the name {after[0][0]}"
        raise more.error(f"{clause}: {message}{hint}")


def _nameless(entry: TextPart, clause: str, form: str, clauses: Mapping[str, TextPart]) -> PatternSyntaxError:
    """Return the error for an entry of a list that has no name; `form` shows how one is written."""
    unused_names = [keyword.name for keyword in OF_MATCH_RECOGNIZE if keyword.name not in clauses]
    words = [token[0].upper() for token in entry.outer() if token.lastgroup == "word"]
    hint = next((text for word in words if (text := did_you_mean(word, unused_names))), "")
    return entry.error(f"{clause}: an entry of the list has no name; write it as in {form}{hint}")


# The words for syntax errors in the texts of MATCH_RECOGNIZE.

TOO_LARGE = "; cep.sql runs it around MATCH_RECOGNIZE, by DuckDB or Spark SQL"


_AFTER_A_FACTOR = frozenset({"STAR", "PLUS", "QUESTION", "LBRACE", "_BAR"})
_PRIMARIES = frozenset({"QUOTED", "PERMUTE", "CARET", "DOLLAR", "LPAR", "LEXCLUDE"})

ROW_PATTERN_WORDS = Vocabulary(
    expected=(
        ("NAME", _PRIMARIES | _AFTER_A_FACTOR | {"$END"}, ("a variable", "'('")),
        ("INT", frozenset({"_COMMA"}), ("a number",)), ("_COMMA", frozenset({"RBRACE"}), ("','", "'}'")),
        ("RBRACE", frozenset(), ("'}'",)), ("REXCLUDE", frozenset(), ("'-}'",)),
        ("RPAR", frozenset(), ("')'",)),
    ),
    mistakes=(
        (r"-+>|=>|\u2192|,|;", "write the variables one after the other, with blanks: A B"),
        (r"\|\|", "write one '|' between alternatives"),
        (r"&&?", "a row has one variable: put both conditions into its definition"),
        (r"[<>=]=?", "a pattern holds variables; put their conditions into DEFINE"),
        (r"[!~]", "a pattern has no negation: define a variable with the opposite condition"),
        (r"'(\w*)'?", r"write a variable without quotes: \1"),
        (r"\[", "write alternatives with '|': (A | B)"),
        (r"(?<=[*+?}])\s*[*+{]", "two quantifiers in a row; write a group: (A+)*"),
        (r"\.", "a pattern names variables; a variable without a definition takes any row"),
        (r"\b[0-9]+\w+", "a name begins with a letter or '_'"),
    ),
)  # fmt: skip

_OPERATORS = frozenset(
    {
        "_AND", "_OR", "NOT", "_IN", "_BETWEEN", "_IS", "LIKE", "COMPARISON", "MULTIPLY", "PLUS", "MINUS",
        "_JOIN",
    }
    | {"LPAR", "DOT", "_OVER", "_FROM", "_FOR", "_ESCAPE"}
)  # fmt: skip
_OPERANDS = frozenset(
    {"QUOTED", "PARAMETER", "INT", "FLOAT", "STRING", "TYPED", "INTERVAL", "TRUE", "FALSE", "NULL", "LPAR"}
    | {"MINUS", "NOT", "CAST", "CASE", "ARRAY", "SEMANTICS", "DISTINCT", "MULTIPLY", "CLASSIFIER"}
    | {"PLUS", "POSITION", "TRIM_SIDE", "_SYMMETRIC"}
)

_AFTER_IS = ("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM")

SQL_EXPRESSION_WORDS = Vocabulary(
    expected=(
        ("INT", _OPERANDS | {"NAME"}, ("a value", "a column", "'('")),
        ("DISTINCT", frozenset({"NULL", "NOT", "TRUE", "FALSE", "NAME"}), _AFTER_IS),
        ("NAME", _OPERANDS, ("a name",)), ("COMPARISON", _OPERATORS, ("an operator",)),
        ("_OR", _OPERATORS, ("an operator",)),
        ("MULTIPLY", _OPERATORS - {"_AND"}, ("an arithmetic operator",)),
        ("_AND", frozenset(), ("AND with the upper bound",)), ("_IN", _OPERATORS, ("IN", "BETWEEN", "LIKE")),
        ("NULL", frozenset({"NOT"}), ("NULL", "NOT NULL")), ("STRING", frozenset(), ("a text in quotes",)),
        ("_FROM", frozenset(), ("FROM",)), ("LPAR", frozenset(), ("'('",)), ("DOT", frozenset(), ("'.'",)),
        ("LSQB", frozenset(), ("'['",)), ("RSQB", frozenset(), ("']'",)), ("_AS", frozenset(), ("AS",)),
        ("_WHEN", frozenset({"_ELSE", "END"}), ("WHEN", "ELSE", "END")), ("_THEN", frozenset(), ("THEN",)),
        ("END", frozenset(), ("END",)), ("COMMA", frozenset(), ("','",)), ("RPAR", frozenset(), ("')'",)),
        ("$END", frozenset(), ("the end of the expression",)),
    ),
    mistakes=(
        (r"===?", "write '='"), (r"!==", "write '<>'"), (r"=>", "write '>='"), (r"=<", "write '<='"),
        (r"\*\*|\^", "this operator does not exist; write POWER(x, y)"), (r"&&", "write AND"),
        (r"\w\s*\[[^\]]*\]?", "write A[0].x as FIRST(A.x), and A[1].x as FIRST(A.x, 1)"),
        (r"[$@]([^\W\d]\w*)|\?", r"write a parameter as :name"),
    ),
    reserved='; write a column of this name as "{}"',
)  # fmt: skip


# Names of tables in the SELECT around MATCH_RECOGNIZE, and the clauses of larger queries.

NAME = r"[^\W\d]\w*|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`"
TABLE = re.compile(rf"(?:(?:{NAME}) \. )*(?P<table>{NAME})(?: (?:AS )?(?P<alias>{NAME}))?", re.IGNORECASE)
# What may follow the clause in SQL and does not run here, by its first word.
_LARGER = {
    "GROUP": "GROUP BY", "HAVING": "HAVING", "JOIN": "JOIN", "INNER": "JOIN", "LEFT": "JOIN", "RIGHT": "JOIN",
    "FULL": "JOIN", "CROSS": "JOIN", "NATURAL": "JOIN", "UNION": "UNION", "INTERSECT": "INTERSECT",
    "EXCEPT": "EXCEPT", "MINUS": "MINUS", "QUALIFY": "QUALIFY", "PIVOT": "PIVOT",
    "LATERAL": "LATERAL",
}  # fmt: skip


def read_table(part: TextPart) -> tuple[str, set[str]]:
    """Return the name of the table after FROM without its schema, and the names that may qualify columns."""
    match = TABLE.fullmatch(part.without_comments())
    if match is None:
        raise part.error(f"FROM: expected the name of one table{TOO_LARGE}")
    names = [name for name in (match["table"], match["alias"]) if name]
    return column_name(match["table"]), set(map(variable_name, names))


def refuse_larger(part: TextPart, words: Sequence[re.Match[str]]) -> None:
    """Raise for the first of these words that begins a clause of a larger query."""
    for word in words:
        clause = _LARGER.get(word[0].upper())
        if clause is not None:
            raise part.at(word).error(f"{clause} does not run here{TOO_LARGE}")


def check_qualifier(entry: TextPart, clause: str, name: str, qualifiers: Collection[str]) -> None:
    if variable_name(name) not in qualifiers:
        hint = did_you_mean(variable_name(name), qualifiers)
        raise entry.error(f"{clause}: no table {name!r} here{hint}")


# Find MATCH_RECOGNIZE in a larger query: its table, its text, and the entries of WITH that it sees.

_AFTER_A_TABLE = re.compile(
    "ON|USING|WHERE|GROUP|HAVING|ORDER|LIMIT|OFFSET|FETCH|JOIN|INNER|LEFT|RIGHT|FULL|CROSS|NATURAL|UNION|"
    "INTERSECT|EXCEPT|MINUS|QUALIFY|WINDOW|PIVOT|UNPIVOT|LATERAL|TABLESAMPLE|ASOF|SEMI|ANTI|POSITIONAL",
    re.IGNORECASE,
)


class InnerClause(NamedTuple):
    """A MATCH_RECOGNIZE with its table, inside a query."""

    table: TextPart  # what follows FROM, such as a name or a query in brackets
    body: TextPart
    entries: tuple[TextPart, ...]  # of WITH, before the clause
    name: str | None  # of the table, without its schema; None if it is no name
    alias: str  # by which the query may call the rows; empty if an alias follows the clause

    def has_in_brackets(self, place: int) -> bool:
        """Return whether a place of the text comes after the word MATCH_RECOGNIZE, in its brackets."""
        return self.body.start + len("MATCH_RECOGNIZE") <= place < self.body.stop

    @property
    def entry_names(self) -> set[str]:
        """The names of the entries of WITH, in lower case."""
        texts = (re.sub(r"(?i)^RECURSIVE (?!AS )", "", entry.without_comments()) for entry in self.entries)
        return {column_name(text.partition(" ")[0]).lower() for text in texts}

    @property
    def query_of_table(self) -> str:
        """The query whose rows the clause reads."""
        entries = ", ".join(entry.text for entry in self.entries)
        return f"{entries and f'WITH {entries} '}SELECT * FROM {self.table.text}"

    def replaced_by(self, name: str) -> str:
        """Return the whole text with a table in the place of the clause and its table."""
        whole, alias = self.table.whole, self.alias and f" AS {self.alias}"
        return f"{whole[: self.table.start]}{name}{alias}{whole[self.body.stop :]}"


def first_clause(text: str) -> InnerClause | None:
    """Return the first MATCH_RECOGNIZE of a text, whose table can hold no other; None if there is none."""
    lexed = LexedText(text)
    word = next((token for token in lexed.tokens if token[0].upper() == "MATCH_RECOGNIZE"), None)
    if word is None:
        return None
    levels = list(_levels(lexed, word.start()))
    words = levels[-1].outer()
    at = next(i for i, token in enumerate(words) if token.start() == word.start())
    begins = [i for i, token in enumerate(words[:at]) if token[0].upper() in ("FROM", "JOIN", ",")]
    if not begins or begins[-1] + 1 == at or words[at + 1 : at + 2] == [] or words[at + 1][0] != "(":
        raise levels[-1].at(word).error("expected a table and a clause: FROM t MATCH_RECOGNIZE ( … )")
    of_table = words[begins[-1] + 1 : at]
    table = lexed.part(of_table[0].start(), of_table[-1].end())
    if any(token[0].upper() in ("ON", "USING") for token in of_table):
        raise table.error("put the join into brackets: FROM (SELECT … JOIN …) MATCH_RECOGNIZE")
    body = lexed.part(word.start(), words[at + 2].end())
    named = TABLE.fullmatch(table.without_comments())
    name, alias = (
        (None, "") if named is None else (column_name(named["table"]), named["alias"] or named["table"])
    )
    for token in words[at + 3 : at + 4]:
        if token.lastgroup in ("word", "quoted") and not _AFTER_A_TABLE.fullmatch(token[0]):
            alias = ""  # the query gives the rows another
    return InnerClause(table, body, tuple(_entries(levels, word.start())), name, alias)


def _levels(lexed: LexedText, place: int) -> Iterator[TextPart]:
    """Yield the text and the insides of the brackets around a place, from the outside to the inside."""
    starts = [0]
    for token in lexed.part(0, place).tokens():
        if token.lastgroup == "open":
            starts.append(token.end())
        elif token.lastgroup == "close":
            starts.pop()
    i = bisect_left(lexed.starts, place)
    for depth, start in enumerate(starts):
        after = zip(lexed.tokens[i:], lexed.depths[i:], strict=True)
        yield lexed.part(start, next((token.start() for token, outside in after if outside < depth), None))


def _entries(levels: list[TextPart], place: int) -> Iterator[TextPart]:
    """Yield the entries of WITH that end before a place, with RECURSIVE before the first one."""
    for level in levels:
        words = level.outer()
        upper = [token[0].upper() for token in words]
        first = 1
        while first and upper[:1] == ["WITH"] and "AS" in upper[first:]:
            stop = upper.index(")", upper.index("AS", first))
            if words[stop].end() > place:
                break
            yield level.between(words[first].start(), words[stop].end())
            first = stop + 2 if upper[stop + 1 : stop + 2] == [","] else 0


def with_parameters(
    text: str, params: Mapping[str, Any], write: Callable[[str], str]
) -> tuple[str, dict[str, Any]]:
    """Return a text with ``write(name)`` for each parameter ``:name``, and the values of these parameters."""
    used: dict[str, Any] = {}
    parts, end = [], 0
    tokens = LexedText(text).tokens
    for i, (colon, name) in enumerate(pairwise(tokens)):
        is_cast = i > 0 and tokens[i - 1][0] == ":"
        if colon[0] == ":" and not is_cast and colon.end() == name.start() and name[0] in params:
            used[name[0]] = params[name[0]]
            parts += [text[end : colon.start()], write(name[0])]
            end = name.end()
    return "".join([*parts, text[end:]]), used
