"""Read the clauses of MATCH_RECOGNIZE, of a WINDOW and of the SELECT around them as trees."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.errors import PatternSyntaxError, did_you_mean, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import counted, parse_duration
from cepkit.language.expressions.mistakes import Vocabulary
from cepkit.language.expressions.parsing import check_tree, make_parser, parse, parse_with_lists, shortened
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.building import (
    ROW_PATTERN_BUILDER,
    SQL_EXPRESSION_BUILDER,
    column_name,
    variable_name,
)
from cepkit.language.match_recognize.clauses import (
    NAME,
    OF_MATCH_RECOGNIZE,
    OF_SELECT,
    ROW_PATTERN_WORDS,
    SQL_EXPRESSION_WORDS,
    TOO_LARGE,
    Keyword,
    TextPart,
    check_qualifier,
    entries,
    number_of_rows,
    read_table,
    refuse_larger,
    split_clauses,
    split_name,
)
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.match_recognize.query import (
    ROWS_PER_MATCH,
    WITH_TIMED_OUT,
    RowPatternQuery,
    SelectedRows,
    SortKey,
)
from cepkit.language.row_patterns import Pattern

if TYPE_CHECKING:
    from lark import Lark


_ROWS = {words: key for key, words in ROWS_PER_MATCH.items()} | {
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES": "all"
}
_SKIPS = {"SKIP PAST LAST ROW": "past_last_row", "SKIP TO NEXT ROW": "to_next_row"}
_SKIP_TO = re.compile(r"SKIP TO (?P<end>FIRST |LAST )?(?P<variable>\w+|[\"`].+[\"`])", re.IGNORECASE)
_WITHIN = re.compile(
    r"(?:INTERVAL )?(?P<quote>['\"]?)(?P<amount>[0-9.]+) ?(?P<unit>[a-z]*)(?P=quote) ?(?P<after>[a-z]*)",
    re.IGNORECASE,
)
_SORT = re.compile(
    rf"(?:(?P<table>{NAME}) \. )?(?P<column>{NAME})(?: (?P<direction>ASC|DESC))?"
    r"(?: NULLS (?P<nulls>FIRST|LAST))?",
    re.IGNORECASE,
)


def split_and_check(
    inside: TextPart, keywords: tuple[Keyword, ...], where: str = "MATCH_RECOGNIZE"
) -> dict[str, TextPart]:
    """Return the part of each clause by its name. Raise if PATTERN or DEFINE is missing."""
    head, clauses = split_clauses(inside, keywords)
    names = [keyword.name for keyword in keywords]
    _check_rows_per_match(inside)
    if not head.is_blank():
        words = head.without_comments().split()
        hint = did_you_mean(" ".join(words[:2]), names) or did_you_mean(words[0], names)
        raise head.error(f"expected a clause of {where}, such as PATTERN or DEFINE{hint}")
    for name in ("PATTERN", "DEFINE"):
        if name not in clauses:
            raise _missing(name, inside, clauses)
    return clauses


def read_clauses(inside: TextPart, clauses: dict[str, TextPart]) -> RowPatternQuery:
    """Return the query that the clauses of MATCH_RECOGNIZE, or of a WINDOW (`inside`), describe."""
    pattern = _pattern(clauses["PATTERN"])
    skip, variable = _after_match(clauses.get("AFTER MATCH"))
    shown, timed_out = _rows_per_match(clauses.get("ROWS PER MATCH"))
    order_by = sort_keys(clauses.get("ORDER BY"))
    return RowPatternQuery(
        pattern=pattern, define=tuple(_named(clauses, "DEFINE")),
        measures=tuple((name, _with_clock(tree, order_by)) for name, tree in _named(clauses, "MEASURES")),
        subset=tuple(_subset(clauses.get("SUBSET"))),
        partition_by=tuple(_column(part, "PARTITION BY") for part in _listed(clauses.get("PARTITION BY"))),
        order_by=order_by, rows_per_match=shown, after_match=skip, after_match_variable=variable,
        within=_within(clauses.get("WITHIN")), timed_out=timed_out, source=inside.whole,
    )  # fmt: skip


def _check_rows_per_match(inside: TextPart) -> None:
    """Raise for words that are nearly those of ROWS PER MATCH, before they are read as names."""
    tokens = inside.outer()
    for i, token in enumerate(tokens):
        if token[0].upper() not in ("ONE", "ALL"):
            continue
        words = [word[0].upper() for word in tokens[i : i + 4]]
        is_near = len(words) == 4 and words[1] in ("ROW", "ROWS")
        if is_near and (words[2] == "PER" or words[3] == "MATCH") and " ".join(words) not in _ROWS:
            place = inside.between(token.start(), tokens[i + 3].end())
            hint = did_you_mean(" ".join(words), _ROWS)
            raise place.error(f"expected ONE ROW PER MATCH or ALL ROWS PER MATCH{hint}")


def _missing(name: str, inside: TextPart, clauses: dict[str, TextPart]) -> PatternSyntaxError:
    """Return the error for a missing clause, with the nearest word in its place."""
    if name == "PATTERN" and (error := _without_brackets(inside)):
        return error
    clause_words = {word for keyword in OF_MATCH_RECOGNIZE for word in keyword.name.split()}
    for token in inside.outer():
        is_free = token.lastgroup == "word" and token[0].upper() not in clause_words
        hint = nearest(token[0], [name]) if is_free else ""
        if hint:
            return inside.at(token).error(f"{name} is missing.{hint}")
    written = "PATTERN (A B+)" if name == "PATTERN" else "DEFINE B AS B.price > 5, after PATTERN"
    return PatternSyntaxError(f"{name} is missing; write {written}", inside.whole, inside.stop)


def _without_brackets(inside: TextPart) -> PatternSyntaxError | None:
    """Return the error for the word PATTERN without brackets after it; None if the word does not occur."""
    tokens = inside.outer()
    at = next((i for i, token in enumerate(tokens) if token[0].upper() == "PATTERN"), None)
    if at is None or (at and tokens[at - 1][0].upper() in (".", "AS")):
        return None
    after = itertools.takewhile(
        lambda token: token[0].upper() not in ("WITHIN", "SUBSET", "DEFINE"), tokens[at + 1 :]
    )
    stop = max([tokens[at].end(), *(token.end() for token in after)])
    written = " ".join(inside.whole[tokens[at].end() : stop].split()) or "A B+"
    return inside.between(tokens[at].start(), stop).error(
        f"PATTERN: the brackets are missing; write PATTERN ({written})"
    )


def _pattern(part: TextPart) -> Pattern:
    """Return the tree of the row pattern in the brackets after PATTERN."""
    tokens = part.outer()
    if len(tokens) > 2:
        more = part.between(tokens[2].start(), part.stop)
        clause_names = [keyword.name for keyword in OF_MATCH_RECOGNIZE[5:]]
        hint = did_you_mean(tokens[2][0], clause_names)
        raise more.error(f"expected WITHIN, SUBSET or DEFINE after the pattern{hint}")
    inside = part.between(tokens[0].end(), tokens[1].start())
    tree = _parsed(inside, _row_pattern_parser, ROW_PATTERN_WORDS, "PATTERN")
    check_tree(tree, Pattern.children, part.whole, "PATTERN")
    return tree


def _named(clauses: dict[str, TextPart], clause: str) -> Iterator[tuple[str, ex.Expression]]:
    """Yield the names and the expressions that DEFINE or MEASURES lists. Raise if a name comes twice."""
    part = clauses.get(clause)
    if part is None:
        return
    spelled = variable_name if clause == "DEFINE" else column_name
    seen: set[str] = set()
    for name, expression in entries(part, clause, clause == "DEFINE", clauses):
        meant = spelled(name.text)
        if meant in seen:
            raise name.error(f"{clause}: {meant!r} is defined twice")
        seen.add(meant)
        yield meant, sql_expression(expression, f"{clause} {meant}")


def _with_clock(tree: ex.Expression, order_by: tuple[SortKey, ...]) -> ex.Expression:
    """Return a measure in which MATCH_ROWTIME() has the first column of ORDER BY."""

    def with_column(node: ex.Expression) -> ex.Expression:
        if isinstance(node, rp.MatchRowtime) and node.operand is None and order_by:
            return replace(node, operand=ex.Attribute(order_by[0].column, span=node.span))
        return node

    asks_time = any(isinstance(node, rp.MatchRowtime) for node in tree.walk(literals=False))
    return rebuilt(tree, ex.Expression, with_column) if asks_time else tree


def sql_expression(part: TextPart, role: str) -> ex.Expression:
    """Return the tree of an expression; ``role`` says in errors what it is."""
    padded = _padded(part)
    short, items_at = shortened(padded, part.start)
    if not all(_is_sql(padded, items) for items in items_at.values()):
        short, items_at = padded, {}
    for token, after in itertools.pairwise(part.tokens()):
        if "(" not in (token[0], after[0]):
            continue
        place, words = part.between(token.start(), after.end()), (token[0] + after[0]).upper()
        if words in ("(SELECT", "EXISTS("):
            raise place.error(f"{role}: a sub-query does not run here; compute its value first")
        if words == "OVER(":
            raise place.error(f"{role}: a window function does not run here{TOO_LARGE}")
    tree = parse_with_lists(short, items_at, _sql_expression_parser)
    if tree is None:
        tree = _parsed(part, _sql_expression_parser, SQL_EXPRESSION_WORDS, role)
    check_tree(tree, ex.Expression.children, part.whole, role)
    return tree


def _parsed(part: TextPart, parser: Any, words: Vocabulary, role: str) -> Any:
    return parse(_padded(part), parser, words, role, part.whole, part.start)


def _is_sql(text: str, items: Sequence[ex.Expression]) -> bool:
    """Return whether a list is one of SQL: no double quotes, which are names, and no comma at its end."""
    after = text[items[-1].span[1] :].lstrip()
    return not after.startswith(",") and all(text[item.span[0]] != '"' for item in items)


def _padded(part: TextPart) -> str:
    """Return the text of a part after as many blanks as there are characters before it."""
    return _blanked(part.whole)[: part.start] + part.text


@lru_cache(maxsize=4)
def _blanked(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _subset(part: TextPart | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names that SUBSET defines, each with the variables it unites."""
    for entry in _listed(part):
        match = re.fullmatch(r"(\w+|[\"`].+?[\"`]) = \( (.+) \)", entry.without_comments())
        if match is None:
            raise entry.error("SUBSET: write an entry as in U = (A, B)")
        names = re.findall(r"\w+|\"(?:[^\"]|\"\")*\"|`[^`]*`", match[2])
        yield variable_name(match[1]), tuple(map(variable_name, names))


def _rows_per_match(part: TextPart | None) -> tuple[str, bool]:
    """Return a key of ``ROWS_PER_MATCH``, and whether partial matches that ran out of time have rows."""
    if part is None:
        return "one", False
    text = part.without_comments()
    if text.upper() == WITH_TIMED_OUT:
        return "one", True
    if text.upper() not in _ROWS:
        hint = did_you_mean(text, [*_ROWS, WITH_TIMED_OUT])
        raise part.error(f"expected ONE ROW PER MATCH or ALL ROWS PER MATCH{hint}")
    return _ROWS[text.upper()], False


def _after_match(part: TextPart | None) -> tuple[str, str | None]:
    """Return where the search continues after a match, and the variable of SKIP TO, if any."""
    if part is None:
        return "past_last_row", None
    text = part.without_comments()
    if text.upper() in _SKIPS:
        return _SKIPS[text.upper()], None
    match = _SKIP_TO.fullmatch(text)
    if match is None or match["variable"].upper() in ("NEXT", "PAST"):
        hint = did_you_mean(text, _SKIPS)
        raise part.error(
            "AFTER MATCH: expected SKIP PAST LAST ROW, SKIP TO NEXT ROW, SKIP TO FIRST A or SKIP TO LAST A"
            f"{hint}"
        )
    is_first = (match["end"] or "").strip().upper() == "FIRST"
    return "to_first" if is_first else "to_last", variable_name(match["variable"])


def _within(part: TextPart | None) -> str | None:
    """Return the duration of WITHIN as text, such as "1 hour", or None without this clause."""
    if part is None:
        return None
    match = _WITHIN.fullmatch(part.without_comments())
    if match is None or not (match["unit"] or match["after"]):
        raise part.error("WITHIN: expected a duration, as in WITHIN INTERVAL '1' HOUR")
    duration = f"{match['amount']} {(match['unit'] or match['after']).lower()}"
    try:
        parse_duration(duration)
    except PatternSyntaxError as error:
        raise part.error(f"WITHIN: {error.message}") from None
    return duration


def _listed(part: TextPart | None) -> list[TextPart]:
    return [] if part is None else part.split("columns of a clause")


def _column(part: TextPart, clause: str) -> str:
    name = part.without_comments()
    if not re.fullmatch(r"[^\W\d]\w*|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`", name):
        raise part.error(f"{clause}: expected the name of a column")
    return column_name(name)


def is_column_key(entry: TextPart) -> bool:
    """Return whether an entry of ORDER BY is the name of a column, perhaps with DESC or NULLS FIRST."""
    return _SORT.fullmatch(entry.without_comments()) is not None


def sort_keys(part: TextPart | None, qualifiers: Collection[str] = ()) -> tuple[SortKey, ...]:
    """Return the keys of ORDER BY; a qualifier is a table or an alias."""
    keys = []
    for entry in _listed(part):
        match = _SORT.fullmatch(entry.without_comments())
        if match is None:
            raise entry.error("ORDER BY: write an entry as in ts, or ts DESC NULLS LAST")
        if match["table"] is not None:
            check_qualifier(entry, "ORDER BY", match["table"], qualifiers)
        keys.append(
            SortKey(
                column_name(match["column"]),
                (match["direction"] or "").upper() == "DESC",
                (match["nulls"] or "").upper() == "FIRST",
            )
        )
    return tuple(keys)


@cache
def _row_pattern_parser() -> Lark:
    return make_parser(Path(__file__).with_name("row_pattern.lark"), ROW_PATTERN_BUILDER)


@cache
def _sql_expression_parser() -> Lark:
    return make_parser(Path(__file__).with_name("sql_expression.lark"), SQL_EXPRESSION_BUILDER)


# Read the SELECT around MATCH_RECOGNIZE.

# Functions OVER a window, beside aggregates. They read the rows of the match; ROW_NUMBER reads the partition.
WINDOW_FUNCTIONS = ("row_number", "first_value", "last_value", "nth_value")
Columns = tuple[tuple[str, ex.Expression], ...] | None
_OFFSET = re.compile(r"(?P<n>[0-9]+)(?: ROWS?)?", re.IGNORECASE)
_FETCH = re.compile(r"(?:(?P<n>[0-9]+) )?ROWS? ONLY", re.IGNORECASE)


def check_begin(before: TextPart) -> None:
    """Raise if a text does not begin with SELECT, or with SELECT DISTINCT."""
    words = before.outer()
    if words[0][0].upper() != "SELECT":
        is_with = words[0][0].upper() == "WITH"
        message = "WITH does not run here" if is_with else "expected SELECT or MATCH_RECOGNIZE"
        raise before.at(words[0]).error(message + TOO_LARGE)
    if len(words) > 1 and words[1][0].upper() in ("DISTINCT", "ALL"):
        raise before.at(words[1]).error(f"SELECT {words[1][0]} does not run here{TOO_LARGE}")


def read_select(before: TextPart, query: RowPatternQuery, after: TextPart | None) -> SelectedRows:
    """Return the whole query: the SELECT around MATCH_RECOGNIZE with its list, WHERE, ORDER BY and LIMIT."""
    check_begin(before)
    words = before.outer()
    upper = [word[0].upper() for word in words]
    at = [i for i, word in enumerate(upper) if word == "FROM" and upper[i - 1] != "DISTINCT"]
    if len(at) != 1:
        raise before.error("expected one FROM with a table before MATCH_RECOGNIZE")
    table, qualifiers = read_table(before.between(words[at[0]].end(), before.stop))
    head, clauses = split_clauses(after, OF_SELECT) if after else (None, {})
    alias = _alias(head)
    qualifiers |= {alias} if alias else set()
    listed = before.between(words[0].end(), words[at[0]].start())
    columns = read_columns(listed, qualifiers)
    return SelectedRows(table, query, columns, alias, **end_of_select(clauses, qualifiers, columns))


def end_of_select(clauses: Mapping[str, TextPart], qualifiers: set[str], columns: Columns) -> dict[str, Any]:
    """Return the clauses after FROM as fields of a SELECT."""
    limit, offset = _rows_kept(clauses)
    where = clauses.get("WHERE")
    return {
        "where": None if where is None else outer_expression(where, "WHERE", qualifiers),
        "order_by": _read_order(clauses.get("ORDER BY"), qualifiers, columns),
        "limit": limit,
        "offset": offset,
    }


def _alias(head: TextPart | None) -> str | None:
    """Return the name that the rows of MATCH_RECOGNIZE get, as in `) AS m`, or None."""
    if head is None or head.is_blank():
        return None
    words = [token for token in head.outer() if token[0].upper() != "AS"]
    if len(words) != 1 or words[0].lastgroup not in ("word", "quoted"):
        refuse_larger(head, words)
        at = words[1] if len(words) > 1 else head.outer()[0]
        clause_names = [keyword.name for keyword in OF_SELECT]
        hint = did_you_mean(at[0], clause_names)
        raise head.at(at).error(f"expected WHERE, ORDER BY or LIMIT{hint}{TOO_LARGE}")
    return variable_name(words[0][0])


def read_columns(
    part: TextPart, qualifiers: set[str], window: str | None = None
) -> tuple[tuple[str, ex.Expression], ...] | None:
    """Return the columns after SELECT; None for ``*`` alone. ``window`` is as in `outer_expression`."""
    if part.without_comments() == "*":
        return None
    columns = []
    for entry in part.split():
        tokens = [token[0] for token in entry.outer()]
        if tokens == ["*"] or (len(tokens) == 3 and tokens[1:] == [".", "*"]):
            if len(tokens) == 3:
                check_qualifier(entry, "SELECT", tokens[0], qualifiers)
            columns.append(("*", rp.EveryColumn()))
            continue
        split = split_name(entry)
        tree = outer_expression(entry if split is None else split[0], "SELECT", qualifiers, window)
        columns.append((_name_of(tree) if split is None else column_name(split[1].text), tree))
    return None if columns == [("*", rp.EveryColumn())] else tuple(columns)


def _name_of(tree: ex.Expression) -> str:
    """Return the name of an entry without a name: that of its column or measure, else its text."""
    if isinstance(tree, rp.OverWindow):
        tree = tree.operand if isinstance(tree.operand, ex.Attribute) else tree
    return tree.name if isinstance(tree, ex.Attribute) else print_sql(tree)


def outer_expression(
    part: TextPart, role: str, qualifiers: set[str], window: str | None = None
) -> ex.Expression:
    """Return an expression over the result, in which the alias or the table may qualify a column."""
    # ``window`` is the name that may follow OVER; None if there is no WINDOW.
    tree = sql_expression(part, role)
    inside = {
        id(node)
        for over in tree.walk()
        if isinstance(over, rp.OverWindow)
        for node in over.operand.walk()
        if isinstance(over.operand, rp.RowAggregate | ex.Call)
    }
    # Children are rebuilt before their parents, so what is wrong is found in the tree as it was parsed.
    for node in tree.walk():
        if isinstance(node, rp.OverWindow):
            _check_over(part, role, node, window)
        elif isinstance(node, rp.RowAggregate) and id(node) in inside:
            continue
        elif isinstance(node, _OF_A_MATCH):
            name = type(node).__name__
            message = f"{role}: {name} belongs inside {'MATCH_RECOGNIZE' if window is None else 'the WINDOW'}"
            if isinstance(node, rp.RowAggregate) and window is not None:
                message = (
                    f"{role}: write OVER {window} after the aggregate, or compute it by DuckDB or Spark SQL"
                )
            elif isinstance(node, rp.RowAggregate):
                message = f"{role}: an aggregate of the result does not run here{TOO_LARGE}"
            raise _node_part(part, node).error(message)

    def unqualified(node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.Reference) or node.name is None:
            return node
        if node.variable not in qualifiers:
            hint = did_you_mean(node.variable, qualifiers)
            raise _node_part(part, node).error(f"{role}: no table {node.variable!r}{hint}")
        return ex.Attribute(node.name, span=node.span)

    has_qualified = any(isinstance(node, ex.Reference) for node in tree.walk(literals=False))
    return rebuilt(tree, ex.Expression, unqualified) if has_qualified else tree


_OF_A_MATCH = (
    rp.Navigation, rp.RowAggregate, rp.Classifier, rp.MatchNumber, rp.MatchRowtime, rp.TimedOut,
)  # fmt: skip


def _check_over(part: TextPart, role: str, node: rp.OverWindow, window: str | None) -> None:
    """Raise if an expression has OVER, and `window` is not the window it names or cannot compute it."""
    place = _node_part(part, node)
    if window is None:
        raise place.error(f"{role}: a window function does not run here{TOO_LARGE}")
    if node.window != window:
        hint = did_you_mean(node.window, [window])
        raise place.error(f"{role}: no window {node.window!r}{hint}")
    if isinstance(node.operand, ex.Call) and node.operand.function not in WINDOW_FUNCTIONS:
        function_names = ", ".join(name.upper() for name in WINDOW_FUNCTIONS)
        raise place.error(
            f"{role}: {node.operand.function.upper()} OVER a row pattern does not run; {function_names} do"
        )
    if isinstance(node.operand, rp.RowAggregate) and node.operand.final is not None:
        raise place.error(f"{role}: RUNNING and FINAL belong inside the WINDOW")


def _node_part(part: TextPart, node: ex.Expression) -> TextPart:
    start, stop = node.span or (part.start, part.stop)
    return part.between(start, stop)


# --- the end of a SELECT


def _read_order(part: TextPart | None, qualifiers: set[str], columns: Columns) -> tuple[SortKey, ...]:
    """Return the keys of the ORDER BY of a result: columns, expressions, and places in the list of SELECT."""
    # A column of the list comes before one of the clause with the same name.
    keys: list[SortKey] = []
    for entry in [] if part is None else part.split("columns of a clause"):
        if is_column_key(entry):
            keys += sort_keys(entry, qualifiers)
            continue
        stop, descending, nulls_first = _direction(entry)
        value = entry.between(entry.start, stop)
        tree = outer_expression(value, "ORDER BY", qualifiers)
        if isinstance(tree, ex.Literal) and type(tree.value) is int:
            tree = _at_place(value, tree, columns)
        is_column = isinstance(tree, ex.Attribute)
        name = tree.name if is_column else print_sql(tree)
        keys.append(SortKey(name, descending, nulls_first, None if is_column else tree))
    return tuple(keys)


def _direction(entry: TextPart) -> tuple[int, bool, bool]:
    """Return where the expression of a key ends, whether it is descending, and whether nulls are first."""
    tokens = entry.outer()
    words = [token[0].upper() for token in tokens]
    descending = nulls_first = False
    stop = entry.stop
    if words[-2:-1] == ["NULLS"] and words[-1] in ("FIRST", "LAST"):
        nulls_first, stop = words[-1] == "FIRST", tokens[-2].start()
        words = words[:-2]
    if words[-1:] in (["ASC"], ["DESC"]) and len(words) > 1:
        descending, stop = words[-1] == "DESC", tokens[len(words) - 1].start()
    return stop, descending, nulls_first


def _at_place(part: TextPart, tree: ex.Literal, columns: Columns) -> ex.Expression:
    """Return the column at a place of the list. With ``*`` the place is known only for a frame."""
    place = tree.value
    if place < 1:
        raise part.error("ORDER BY: the first column of the result has number 1")
    if columns is None or any(isinstance(column_tree, rp.EveryColumn) for _, column_tree in columns):
        return tree
    if place > len(columns):
        n = len(columns)
        raise part.error(f"ORDER BY: the result has {counted(n, 'column')}, and no number {place}")
    return ex.Attribute(columns[place - 1][0], span=tree.span)


def _rows_kept(clauses: Mapping[str, TextPart]) -> tuple[int | None, int]:
    """Return the number of rows of LIMIT or FETCH, None for all, and the number of OFFSET."""
    limit, fetch, offset = (clauses.get(name) for name in ("LIMIT", "FETCH", "OFFSET"))
    if limit is not None and fetch is not None:
        raise fetch.error("write LIMIT or FETCH, and not both")
    n_offset = 0
    if offset is not None:
        match = _OFFSET.fullmatch(offset.without_comments())
        if match is None:
            raise offset.error("OFFSET: expected a number of rows, as in OFFSET 10 ROWS")
        n_offset = number_of_rows(offset, match["n"], "OFFSET")
    if fetch is not None:
        text = fetch.without_comments()
        match = _FETCH.fullmatch(text)
        if match is None:
            for words in ("WITH TIES", "PERCENT"):
                if words in text.upper():
                    raise fetch.error(f"FETCH: {words} does not run here{TOO_LARGE}")
            raise fetch.error("FETCH: expected a number of rows, as in FETCH FIRST 10 ROWS ONLY")
        return number_of_rows(fetch, match["n"] or "1", "FETCH"), n_offset
    if limit is None or limit.text.strip().upper() == "ALL":
        return None, n_offset
    text = limit.without_comments()
    if not re.fullmatch("[0-9]+", text):
        raise limit.error("LIMIT: expected a number of rows")
    return number_of_rows(limit, text, "LIMIT"), n_offset
