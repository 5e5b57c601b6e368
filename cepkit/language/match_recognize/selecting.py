"""Read the SELECT around MATCH_RECOGNIZE."""

from __future__ import annotations

import re

from cepkit.errors import nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import rebuilt
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.building import column_name, variable_name
from cepkit.language.match_recognize.clauses import OF_SELECT, TextPart, number_of_rows, split_clauses
from cepkit.language.match_recognize.mistakes import TOO_LARGE
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows
from cepkit.language.match_recognize.reading import sort_keys, sql_expression
from cepkit.language.match_recognize.tables import check_qualifier, read_table, refuse_larger

# Functions OVER a window, beside aggregates. They read the rows of the match; ROW_NUMBER reads the partition.
WINDOW_FUNCTIONS = ("row_number", "first_value", "last_value", "nth_value")
_LIMIT = re.compile(r"(?P<limit>[0-9]+)|FETCH (?:FIRST|NEXT) (?P<fetch>[0-9]+) ROWS? ONLY", re.IGNORECASE)


def check_begin(before: TextPart) -> None:
    """Raise if a text does not begin with SELECT, or with SELECT DISTINCT."""
    words = before.outer()
    if words[0][0].upper() != "SELECT":
        is_with = words[0][0].upper() == "WITH"
        message = "WITH does not run here" if is_with else "expected SELECT or MATCH_RECOGNIZE"
        raise TextPart(before.whole, words[0].start(), words[0].end()).error(message + TOO_LARGE)
    if len(words) > 1 and words[1][0].upper() in ("DISTINCT", "ALL"):
        raise TextPart(before.whole, words[1].start(), words[1].end()).error(
            f"SELECT {words[1][0]} does not run here{TOO_LARGE}"
        )


def read_select(before: TextPart, query: RowPatternQuery, after: TextPart | None) -> SelectedRows:
    """Return the SELECT of the parts before and after MATCH_RECOGNIZE ( … )."""
    check_begin(before)
    words = before.outer()
    upper = [word[0].upper() for word in words]
    at = [i for i, word in enumerate(upper) if word == "FROM" and upper[i - 1] != "DISTINCT"]
    if len(at) != 1:
        raise before.error("expected one FROM with a table before MATCH_RECOGNIZE")
    table, qualifiers = read_table(TextPart(before.whole, words[at[0]].end(), before.stop))
    head, clauses = split_clauses(after, OF_SELECT) if after else (None, {})
    alias = _alias(head)
    qualifiers |= {alias} if alias else set()
    listed = TextPart(before.whole, words[0].end(), words[at[0]].start())
    where = clauses.get("WHERE")
    return SelectedRows(
        table=table,
        rows=query,
        columns=read_columns(listed, qualifiers),
        alias=alias,
        where=None if where is None else outer_expression(where, "WHERE", qualifiers),
        order_by=sort_keys(clauses.get("ORDER BY"), qualifiers),
        limit=read_limit(clauses.get("LIMIT")),
    )


def _alias(head: TextPart | None) -> str | None:
    if head is None or head.is_blank():
        return None
    words = [token for token in head.outer() if token[0].upper() != "AS"]
    if len(words) != 1 or words[0].lastgroup not in ("word", "quoted"):
        refuse_larger(head, words)
        at = words[1] if len(words) > 1 else head.outer()[0]
        known = [keyword.name for keyword in OF_SELECT]
        hint = nearest(at[0], known)
        place = TextPart(head.whole, at.start(), at.end())
        raise place.error(f"expected WHERE, ORDER BY or LIMIT{hint and '.' + hint}{TOO_LARGE}")
    return variable_name(words[0][0])


def read_columns(
    part: TextPart, qualifiers: set[str], window: str | None = None
) -> tuple[tuple[str, ex.Expression], ...] | None:
    """Return the columns after SELECT; None for ``*``. ``window`` is as in `outer_expression`."""
    if part.without_comments() == "*":
        return None
    columns = []
    for entry in part.split():
        tokens = entry.outer()
        if len(tokens) == 3 and tokens[1][0] == "." and tokens[2][0] == "*":
            check_qualifier(entry, "SELECT", tokens[0][0], qualifiers)
            if len(part.split()) == 1:
                return None
            raise entry.error("SELECT: write * alone, or name the columns")
        named = len(tokens) > 2 and tokens[-2][0].upper() == "AS"
        stop = tokens[-2].start() if named else entry.stop
        tree = outer_expression(TextPart(entry.whole, entry.start, stop), "SELECT", qualifiers, window)
        if named:
            name = column_name(tokens[-1][0])
        elif isinstance(tree, ex.Attribute):
            name = tree.name
        elif isinstance(tree, rp.OverWindow) and isinstance(tree.operand, ex.Attribute):
            name = tree.operand.name
        else:
            raise entry.error("SELECT: a computed column needs a name; write it as in price * 2 AS twice")
        columns.append((name, tree))
    return tuple(columns)


def outer_expression(
    part: TextPart, role: str, qualifiers: set[str], window: str | None = None
) -> ex.Expression:
    """Return an expression over the result, in which the alias or the table may qualify a column.

    ``window`` is the name that may follow OVER; None if there is no WINDOW.
    """
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
            hint = nearest(node.variable, qualifiers)
            raise _node_part(part, node).error(f"{role}: no table {node.variable!r}{hint and '.' + hint}")
        return ex.Attribute(node.name, span=node.span)

    return rebuilt(tree, ex.Expression, unqualified)


_OF_A_MATCH = (
    rp.Navigation, rp.RowAggregate, rp.Classifier, rp.MatchNumber, rp.MatchRowtime, rp.TimedOut,
)  # fmt: skip


def _check_over(part: TextPart, role: str, node: rp.OverWindow, window: str | None) -> None:
    place = _node_part(part, node)
    if window is None:
        raise place.error(f"{role}: a window function does not run here{TOO_LARGE}")
    if node.window != window:
        hint = nearest(node.window, [window])
        raise place.error(f"{role}: no window {node.window!r}{hint and '.' + hint}")
    if isinstance(node.operand, ex.Call) and node.operand.function not in WINDOW_FUNCTIONS:
        known = ", ".join(name.upper() for name in WINDOW_FUNCTIONS)
        raise place.error(
            f"{role}: {node.operand.function.upper()} OVER a row pattern does not run; {known} do"
        )
    if isinstance(node.operand, rp.RowAggregate) and node.operand.final is not None:
        raise place.error(f"{role}: RUNNING and FINAL belong inside the WINDOW")


def _node_part(part: TextPart, node: ex.Expression) -> TextPart:
    start, stop = node.span or (part.start, part.stop)
    return TextPart(part.whole, start, stop)


def read_limit(part: TextPart | None) -> int | None:
    """Return the number of rows of LIMIT or FETCH."""
    if part is None:
        return None
    found = _LIMIT.fullmatch(part.without_comments())
    if found is None:
        raise part.error("LIMIT: expected a number of rows")
    return number_of_rows(part, found["limit"] or found["fetch"], "LIMIT")
