"""Read a SELECT with a WINDOW that has a row pattern."""

from __future__ import annotations

import re

from cepkit.errors import nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.checks import check_query
from cepkit.language.match_recognize.clauses import (
    OF_WINDOW,
    OF_WINDOW_SELECT,
    TextPart,
    number_of_rows,
    split_clauses,
)
from cepkit.language.match_recognize.mistakes import TOO_LARGE
from cepkit.language.match_recognize.query import RowPatternQuery, WindowedRows
from cepkit.language.match_recognize.reading import read_clauses, split_and_check
from cepkit.language.match_recognize.selecting import (
    check_begin,
    outer_expression,
    read_columns,
    read_order,
    read_rows_kept,
)
from cepkit.language.match_recognize.sql.building import column_name, variable_name
from cepkit.language.match_recognize.tables import read_table, refuse_larger

_FRAME = re.compile(
    r"ROWS (?:BETWEEN CURRENT ROW AND (?:(?P<all>UNBOUNDED FOLLOWING)|(?P<none>CURRENT ROW)"
    r"|(?P<n>[0-9]+|[^\W\d]\w*|\"(?:[^\"]|\"\")+\") FOLLOWING)|(?P<alone>CURRENT ROW))",
    re.IGNORECASE,
)


def is_window_select(whole: TextPart) -> bool:
    """Return whether a text is a SELECT with a WINDOW."""
    words = [token[0].upper() for token in whole.outer()]
    return words[:1] == ["SELECT"] and "MATCH_RECOGNIZE" not in words and "WINDOW" in words


def read_window_select(whole: TextPart) -> WindowedRows:
    """Return the SELECT of a text."""
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
    where = clauses.get("WHERE")
    first = whole.outer()[0]
    columns = read_columns(TextPart(whole.whole, first.end(), head.stop), qualifiers, name)
    _check_measures(whole, columns, query)
    limit, offset = read_rows_kept(clauses)
    return WindowedRows(
        table=table,
        name=name,
        rows=query,
        columns=columns,
        frame_end=_frame_end(parts.get("ROWS BETWEEN"), inside),
        seek="INITIAL or SEEK" in parts and parts["INITIAL or SEEK"].text.strip().upper() == "SEEK",
        alias=alias,
        where=None if where is None else outer_expression(where, "WHERE", qualifiers),
        order_by=read_order(clauses.get("ORDER BY"), qualifiers, columns),
        limit=limit,
        offset=offset,
    )


def _window(part: TextPart) -> tuple[str, TextPart]:
    """Return the name of the window, and the part in its brackets."""
    words = part.outer()
    if len(words) < 4 or words[2][0] != "(":
        raise part.error("WINDOW: write w AS ( … PATTERN (A B+) … )")
    if len(words) > 4:
        more = TextPart(part.whole, words[4].start(), part.stop)
        if words[4][0] == ",":
            raise more.error(f"one query has one WINDOW{TOO_LARGE}")
        refuse_larger(part, words[4:])
        known = ["ORDER BY", "LIMIT"]
        hint = nearest(words[4][0], known)
        raise more.error(f"expected ORDER BY or LIMIT after the WINDOW{hint and '.' + hint}{TOO_LARGE}")
    return variable_name(words[0][0]), TextPart(part.whole, words[2].end(), words[3].start())


def _frame_end(part: TextPart | None, inside: TextPart) -> int | str | None:
    if part is None:
        message = "the frame is missing; write ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
        raise TextPart(inside.whole, inside.start - 1, inside.start).error(message)
    found = _FRAME.fullmatch(part.without_comments())
    if found is None:
        raise part.error(
            "a row pattern needs ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING, or AND 5 FOLLOWING"
        )
    if found["n"]:
        is_number = found["n"].isdecimal()
        return number_of_rows(part, found["n"], "ROWS BETWEEN") if is_number else column_name(found["n"])
    return None if found["all"] else 0


def _check_pattern(query: RowPatternQuery) -> None:
    """Raise for what SQL does not allow in a WINDOW."""
    waiting: list[rp.RowPattern] = [query.pattern]
    while waiting:
        node = waiting.pop()
        if isinstance(node, rp.Anchor):
            raise _at(query, node, f"PATTERN: a WINDOW has no anchor {'^' if node.at_start else '$'}")
        waiting.extend(node.children())
    for clause, trees in (("DEFINE", query.define), ("MEASURES", query.measures)):
        for name, tree in trees:
            for node in tree.walk():
                if isinstance(node, rp.MatchNumber):
                    raise _at(query, node, f"{clause} {name}: the matches of a WINDOW have no numbers")


def _check_measures(
    whole: TextPart, columns: tuple[tuple[str, ex.Expression], ...] | None, query: RowPatternQuery
) -> None:
    """Raise if a column OVER the window is not a measure."""
    names = [name for name, _ in query.measures]
    for _, tree in columns or ():
        for node in tree.walk():
            if isinstance(node, rp.OverWindow) and isinstance(node.operand, ex.Attribute):
                name = node.operand.name
                if not any(name.lower() == known.lower() for known in names):
                    hint = nearest(name, names)
                    message = f"SELECT: the window has no measure {name!r}{hint and '.' + hint}"
                    raise _at(query, node, message)


def _at(query: RowPatternQuery, node: rp.RowPattern | ex.Expression, message: str):
    start, stop = node.span or (0, 1)
    return TextPart(query.source, start, stop).error(message)
