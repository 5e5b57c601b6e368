"""Parse MATCH_RECOGNIZE, alone, in a SELECT or in a WINDOW, and check what it names."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from cepkit.errors import PatternSyntaxError, WrongTypeError, did_you_mean, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import RegisteredFunction, registered_functions
from cepkit.language.expressions.parsing import check_text
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.building import column_name, variable_name
from cepkit.language.match_recognize.clauses import (
    OF_MATCH_RECOGNIZE,
    OF_WINDOW,
    OF_WINDOW_SELECT,
    TOO_LARGE,
    LexedText,
    TextPart,
    check_brackets,
    number_of_rows,
    read_table,
    refuse_larger,
    split_clauses,
)
from cepkit.language.match_recognize.query import WITH_TIMED_OUT, RowPatternQuery, SelectedRows, WindowedRows
from cepkit.language.match_recognize.reading import (
    check_begin,
    end_of_select,
    read_clauses,
    read_columns,
    read_select,
    split_and_check,
)
from cepkit.language.row_patterns import Anchor, Exclusion, variables

# Check a parsed MATCH_RECOGNIZE: names of variables, and what functions of rows may contain.

Span = tuple[int, int]


def check_query(query: RowPatternQuery) -> None:
    """Raise for names that do not exist, and for functions of rows in wrong places."""
    primary = [variable.name for variable in variables(query.pattern)]
    variable_names = [*dict.fromkeys([*primary, *(name for name, _ in query.subset)])]
    _check_subsets(query, primary)
    for name, _ in query.define:
        if name not in primary:
            hint = did_you_mean(name, primary)
            message = f"DEFINE: the pattern has no variable {name!r}{hint}"
            raise _error(query, message, _place(query, name, after=r"\s+AS\b"))
    target = query.after_match_variable
    if target is not None and target not in variable_names:
        hint = did_you_mean(target, variable_names)
        place = _place(query, target, before=r"\bSKIP\s+TO\s+(?:FIRST\s+|LAST\s+)?")
        raise _error(query, f"AFTER MATCH: no variable {target!r}{hint}", place)
    if query.rows_per_match == "all_with_unmatched":
        for node in query.pattern.walk():
            if isinstance(node, Exclusion):
                message = "PATTERN: WITH UNMATCHED ROWS does not go with an exclusion, {- … -}"
                raise _error(query, message, node.span)
    if query.timed_out and query.within is None:
        raise _error(
            query, "WITH TIMED OUT MATCHES needs WITHIN, as in WITHIN INTERVAL '1' HOUR", _shown(query)
        )
    for clause, trees in (("DEFINE", query.define), ("MEASURES", query.measures)):
        for name, tree in trees:
            _check_expression(query, f"{clause} {name}", tree, variable_names, in_define=clause == "DEFINE")


def _shown(query: RowPatternQuery) -> Span | None:
    """Return where the query asks for partial matches that ran out of time."""
    match = re.search(r"\bWITH\s+TIMED\s+OUT\s+MATCHES\b", query.source, re.IGNORECASE)
    return match.span() if match else None


def _check_subsets(query: RowPatternQuery, primary: list[str]) -> None:
    """Raise if a name of SUBSET is taken, or if a member is no variable of the pattern (`primary`)."""
    seen: list[str] = []
    for name, members in query.subset:
        if name in primary or name in seen:
            place = _place(query, name, after=r"\s*=\s*\(")
            raise _error(query, f"SUBSET: {name!r} is defined already", place)
        seen.append(name)
        for member in members:
            if member not in primary:
                hint = did_you_mean(member, primary)
                message = f"SUBSET: the pattern has no variable {member!r}{hint}"
                raise _error(query, message, _place(query, member, before=r"\bSUBSET\b[^)]*?"))


def _check_expression(
    query: RowPatternQuery, role: str, tree: ex.Expression, known: list[str], *, in_define: bool
) -> None:
    """Raise if an expression has unknown variables, or parts that its clause (`role`) cannot have."""
    for node in tree.walk(literals=False):
        variable = _variable_of(node)
        if variable is not None and variable not in known:
            hint = did_you_mean(variable, known)
            raise _error(query, f"{role}: no variable {variable!r}{hint}", node.span)
        if isinstance(node, rp.MatchRowtime | rp.TimedOut):
            _check_of_the_match(query, role, node, in_define)
        if isinstance(node, rp.OverWindow):
            raise _error(query, f"{role}: OVER belongs to the list after SELECT", node.span)
        if isinstance(node, rp.Navigation | rp.RowAggregate):
            if in_define and node.final:
                raise _error(query, f"{role}: FINAL is for MEASURES only", node.span)
            _check_arguments(query, role, node)


def _check_of_the_match(
    query: RowPatternQuery, role: str, node: rp.MatchRowtime | rp.TimedOut, in_define: bool
) -> None:
    """Raise for functions of the whole match where there is none, or no clock."""
    name = "TIMED_OUT()" if isinstance(node, rp.TimedOut) else "MATCH_ROWTIME()"
    if in_define:
        raise _error(query, f"{role}: {name} is for MEASURES only", node.span)
    if isinstance(node, rp.TimedOut) and not query.timed_out:
        raise _error(query, f"{role}: {name} needs {WITH_TIMED_OUT}", node.span)
    if isinstance(node, rp.MatchRowtime) and node.operand is None:
        raise _error(query, f"{role}: {name} needs ORDER BY; its first column is the time", node.span)


def _variable_of(node: ex.Expression) -> str | None:
    if isinstance(node, ex.Reference | rp.Classifier | rp.RowAggregate):
        return node.variable
    return None


def _check_arguments(query: RowPatternQuery, role: str, node: rp.Navigation | rp.RowAggregate) -> None:
    """Raise if an argument has functions of rows, or names several variables."""
    name = node.function.upper()
    arguments = (node.operand,) if isinstance(node, rp.Navigation) else node.arguments
    match node:
        case rp.Navigation(function="prev" | "next", operand=rp.Navigation(function="first" | "last")):
            return  # the walk checks the inner one
    named: dict[str | None, ex.Expression] = {}
    for argument in arguments:
        for part in argument.walk():
            if isinstance(part, rp.Navigation | rp.RowAggregate | rp.MatchRowtime | rp.TimedOut):
                if not isinstance(part, rp.Navigation | rp.RowAggregate):
                    raise _error(query, f"{role}: a function of the match cannot be inside {name}", part.span)
                message = f"{role}: {part.function.upper()} cannot be inside {name}"
                raise _error(query, message, part.span)
            if isinstance(part, ex.Attribute | ex.Reference | rp.Classifier):
                named[_variable_of(part)] = part
    if len(named) > 1:
        other = [*named.values()][-1]
        raise _error(query, f"{role}: one {name} takes columns of one variable", other.span)
    if isinstance(node, rp.Navigation) and not named:
        raise _error(query, f"{role}: {name} takes a column or CLASSIFIER()", node.span)


def _place(query: RowPatternQuery, name: str, before: str = "", after: str = "") -> Span | None:
    """Return where a name is between two regular expressions; None if it is nowhere."""
    spelled = rf"{before}(?P<name>[\"`]?(?<!\w){re.escape(name)}(?!\w)[\"`]?){after}"
    match = re.search(spelled, query.source, re.IGNORECASE)
    return match.span("name") if match else None


def _error(query: RowPatternQuery, message: str, span: Span | None) -> PatternSyntaxError:
    """Return the error at a span of the text, or at its start."""
    start, stop = span or (0, 1)
    return PatternSyntaxError(message, query.source, start, stop - start)


# Read a SELECT with a WINDOW that has a row pattern.

_FRAME = re.compile(
    r"ROWS (?:BETWEEN CURRENT ROW AND (?:(?P<all>UNBOUNDED FOLLOWING)|(?P<none>CURRENT ROW)"
    r"|(?P<n>[0-9]+|[^\W\d]\w*|\"(?:[^\"]|\"\")+\") FOLLOWING)|(?P<alone>CURRENT ROW))",
    re.IGNORECASE,
)


def is_window_select(whole: TextPart) -> bool:
    words = [token[0].upper() for token in whole.outer()]
    return words[:1] == ["SELECT"] and "MATCH_RECOGNIZE" not in words and "WINDOW" in words


def read_window_select(whole: TextPart) -> WindowedRows:
    """Return the query of a SELECT whose row pattern is in a WINDOW clause."""
    check_begin(whole)
    head, clauses = split_clauses(whole, OF_WINDOW_SELECT)
    for name in ("FROM", "WINDOW"):
        if name not in clauses:
            written = "FROM t" if name == "FROM" else "WINDOW w AS ( … PATTERN (A B+) … )"
            raise whole.error(f"{name} is missing; write {written}")
    table, qualifiers = read_table(clauses["FROM"])
    name, inside = _window(clauses["WINDOW"])
    parts = split_and_check(inside, OF_WINDOW, "a WINDOW")
    if "ROWS PER MATCH" in parts:
        raise parts["ROWS PER MATCH"].error("a WINDOW gives a row for each row of the table; leave this out")
    query = read_clauses(inside, parts)
    check_query(query)
    _check_pattern(query)
    alias = next((name for name in sorted(qualifiers) if name != variable_name(table)), None)
    first = whole.outer()[0]
    columns = read_columns(whole.between(first.end(), head.stop), qualifiers, name)
    _check_measures(whole, columns, query)
    return WindowedRows(
        table, query, columns, alias, **end_of_select(clauses, qualifiers, columns), name=name,
        frame_end=_frame_end(parts.get("ROWS BETWEEN"), inside),
        seek="INITIAL or SEEK" in parts and parts["INITIAL or SEEK"].text.strip().upper() == "SEEK",
    )  # fmt: skip


def _window(part: TextPart) -> tuple[str, TextPart]:
    """Return the name of the window and the text inside its brackets."""
    words = part.outer()
    if len(words) < 4 or words[2][0] != "(":
        raise part.error("WINDOW: write w AS ( … PATTERN (A B+) … )")
    if len(words) > 4:
        more = part.between(words[4].start(), part.stop)
        if words[4][0] == ",":
            raise more.error(f"one query has one WINDOW{TOO_LARGE}")
        refuse_larger(part, words[4:])
        clause_names = ["ORDER BY", "LIMIT"]
        hint = did_you_mean(words[4][0], clause_names)
        raise more.error(f"expected ORDER BY or LIMIT after the WINDOW{hint}{TOO_LARGE}")
    return variable_name(words[0][0]), part.between(words[2].end(), words[3].start())


def _frame_end(part: TextPart | None, inside: TextPart) -> int | str | None:
    """Return the last row of the frame: rows from the current one on, the column of them, or None for all."""
    if part is None:
        message = "the frame is missing; write ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
        raise inside.between(inside.start - 1, inside.start).error(message)
    match = _FRAME.fullmatch(part.without_comments())
    if match is None:
        raise part.error(
            "a row pattern needs ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING, or AND 5 FOLLOWING"
        )
    if match["n"]:
        is_number = match["n"].isdecimal()
        return number_of_rows(part, match["n"], "ROWS BETWEEN") if is_number else column_name(match["n"])
    return None if match["all"] else 0


def _check_pattern(query: RowPatternQuery) -> None:
    """Raise for what SQL does not allow in a WINDOW."""
    for node in query.pattern.walk():
        if isinstance(node, Anchor):
            raise _error(query, f"PATTERN: a WINDOW has no anchor {node}", node.span)
    for clause, trees in (("DEFINE", query.define), ("MEASURES", query.measures)):
        for name, tree in trees:
            for node in tree.walk():
                if isinstance(node, rp.MatchNumber):
                    raise _error(
                        query, f"{clause} {name}: the matches of a WINDOW have no numbers", node.span
                    )


def _check_measures(
    whole: TextPart, columns: tuple[tuple[str, ex.Expression], ...] | None, query: RowPatternQuery
) -> None:
    """Raise if a column OVER the window is not a measure."""
    names = [name for name, _ in query.measures]
    for _, tree in columns or ():
        for node in tree.walk():
            if isinstance(node, rp.OverWindow) and isinstance(node.operand, ex.Attribute):
                name = node.operand.name
                if not any(name.lower() == measure_name.lower() for measure_name in names):
                    hint = did_you_mean(name, names)
                    message = f"SELECT: the window has no measure {name!r}{hint}"
                    raise _error(query, message, node.span)


# Parse MATCH_RECOGNIZE, alone or in a SELECT, by ``row_pattern.lark`` and ``sql_expression.lark``.


def parse_match_recognize(text: str) -> RowPatternQuery | SelectedRows | WindowedRows:
    """Return the tree of a MATCH_RECOGNIZE clause, or of a SELECT around one, or with a WINDOW."""
    # Names without quotes are variables in upper case. ``PATTERN`` and ``DEFINE`` are required, and the
    # clauses have SQL's order. Flink's ``WITHIN`` follows the pattern.
    if not isinstance(text, str):
        raise WrongTypeError(f"MATCH_RECOGNIZE: expected text, got {type(text).__name__}")
    return _parse_once(text, registered_functions())


@lru_cache(maxsize=16)
def _parse_once(
    text: str, functions: tuple[RegisteredFunction, ...]
) -> RowPatternQuery | SelectedRows | WindowedRows:
    """Return the tree of a text; ``functions`` are part of the key, since a call holds its function."""
    check_text(text)
    lexed = LexedText(text)
    check_brackets(lexed)
    is_ended = bool(lexed.tokens) and lexed.tokens[-1][0] == ";"  # comments may follow it
    whole = lexed.part(0, lexed.tokens[-1].start() if is_ended else len(text.rstrip()))
    if is_window_select(whole):
        return read_window_select(whole)
    before, inside, after = _around_clause(whole)
    query = read_clauses(inside, split_and_check(inside, OF_MATCH_RECOGNIZE))
    check_query(query)
    if before is not None:
        return read_select(before, query, after)
    if after is not None:
        raise after.error("expected nothing after MATCH_RECOGNIZE ( … ); write SELECT * FROM t before it")
    return query


def _around_clause(whole: TextPart) -> tuple[TextPart | None, TextPart, TextPart | None]:
    """Return the parts before, inside and after the brackets of MATCH_RECOGNIZE; None for an empty one."""
    tokens = whole.outer()
    at = [i for i, token in enumerate(tokens) if token[0].upper() == "MATCH_RECOGNIZE"]
    if not at:
        inner = [token for token in whole.tokens() if token[0].upper() == "MATCH_RECOGNIZE"]
        if inner:
            raise whole.at(inner[0]).error(f"MATCH_RECOGNIZE in a sub-query does not run{TOO_LARGE}")
        _check_spelling(whole)
        if tokens and tokens[0][0].upper() == "SELECT":
            raise whole.error("a SELECT without MATCH_RECOGNIZE has no row pattern")
        return None, whole, None
    if len(at) > 1:
        raise whole.at(tokens[at[1]]).error(f"one query has one MATCH_RECOGNIZE{TOO_LARGE}")
    word, *rest = tokens[at[0] :]
    if not rest or rest[0][0] != "(":
        raise whole.at(word).error("expected '(' after MATCH_RECOGNIZE")
    before = whole.between(whole.start, word.start())
    inside = whole.between(rest[0].end(), rest[1].start())
    after = whole.between(rest[1].end(), whole.stop)
    return _or_none(before), inside, _or_none(after)


def _check_spelling(whole: TextPart) -> None:
    """Raise for a word before a bracket that is nearly MATCH_RECOGNIZE."""
    tokens = whole.outer()
    is_select = bool(tokens) and tokens[0][0].upper() == "SELECT"
    for i, (word, after) in enumerate(pairwise(tokens)):
        if after[0] != "(" or word.lastgroup != "word" or not (is_select or i < 2):
            continue
        first = tokens[i - 1] if i and tokens[i - 1][0].upper() == "MATCH" else word
        text = word[0] if first is word else f"{first[0]}_{word[0]}"
        if hint := nearest(text, ["MATCH_RECOGNIZE"]):
            place = whole.between(first.start(), word.end())
            raise place.error(f"{place.text} is no clause of SQL.{hint}")


def _or_none(part: TextPart) -> TextPart | None:
    return None if part.is_blank() else part
