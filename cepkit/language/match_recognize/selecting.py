"""Read the SELECT around MATCH_RECOGNIZE."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cepkit.errors import nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.building import column_name, variable_name
from cepkit.language.match_recognize.clauses import (
    OF_SELECT,
    TOO_LARGE,
    TextPart,
    check_qualifier,
    number_of_rows,
    read_table,
    refuse_larger,
    split_clauses,
    split_name,
)
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, SortKey
from cepkit.language.match_recognize.reading import is_column_key, sort_keys, sql_expression

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
    columns = read_columns(listed, qualifiers)
    limit, offset = read_rows_kept(clauses)
    return SelectedRows(
        table=table,
        rows=query,
        columns=columns,
        alias=alias,
        where=None if where is None else outer_expression(where, "WHERE", qualifiers),
        order_by=read_order(clauses.get("ORDER BY"), qualifiers, columns),
        limit=limit,
        offset=offset,
    )


def _alias(head: TextPart | None) -> str | None:
    if head is None or head.is_blank():
        return None
    words = [token for token in head.outer() if token[0].upper() != "AS"]
    if len(words) != 1 or words[0].lastgroup not in ("word", "quoted"):
        refuse_larger(head, words)
        at = words[1] if len(words) > 1 else head.outer()[0]
        clause_names = [keyword.name for keyword in OF_SELECT]
        hint = nearest(at[0], clause_names)
        place = TextPart(head.whole, at.start(), at.end())
        raise place.error(f"expected WHERE, ORDER BY or LIMIT{hint and '.' + hint}{TOO_LARGE}")
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
        function_names = ", ".join(name.upper() for name in WINDOW_FUNCTIONS)
        raise place.error(
            f"{role}: {node.operand.function.upper()} OVER a row pattern does not run; {function_names} do"
        )
    if isinstance(node.operand, rp.RowAggregate) and node.operand.final is not None:
        raise place.error(f"{role}: RUNNING and FINAL belong inside the WINDOW")


def _node_part(part: TextPart, node: ex.Expression) -> TextPart:
    start, stop = node.span or (part.start, part.stop)
    return TextPart(part.whole, start, stop)


# --- the end of a SELECT


def read_order(part: TextPart | None, qualifiers: set[str], columns: Columns) -> tuple[SortKey, ...]:
    """Return the keys of the ORDER BY of a result: columns, expressions, and places in the list of SELECT.

    A column of the list comes before one of the clause with the same name.

    """
    keys: list[SortKey] = []
    for entry in [] if part is None else part.split("columns of a clause"):
        if is_column_key(entry):
            keys += sort_keys(entry, qualifiers)
            continue
        stop, descending, nulls_first = _direction(entry)
        value = TextPart(entry.whole, entry.start, stop)
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
        raise part.error(f"ORDER BY: the result has {n} column{'s' * (n != 1)}, and no number {place}")
    return ex.Attribute(columns[place - 1][0], span=tree.span)


def read_rows_kept(clauses: Mapping[str, TextPart]) -> tuple[int | None, int]:
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
