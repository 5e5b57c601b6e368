"""MATCH_RECOGNIZE as text: SQL in a canonical spelling, and a plain sentence."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import (
    ITEM,
    PRODUCT,
    SUM,
    UNARY,
    ExpressionPrinter,
    join_words,
    quoted_text,
    say_condition,
    say_duration,
)
from cepkit.language.expressions.trees import rebuilt, text_of
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.building import print_interval
from cepkit.language.match_recognize.query import (
    AFTER_MATCH,
    ROWS_PER_MATCH,
    WITH_TIMED_OUT,
    RowPatternQuery,
    SelectedRows,
    SortKey,
    WindowedRows,
)
from cepkit.language.row_patterns import Pattern, PatternWords, print_pattern, say_pattern, variables

# Words that a name without quotes cannot be, in expressions, in patterns or as names of clauses.
_RESERVED = frozenset(
    [
        "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE", "AS", "DISTINCT",
        "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "RUNNING", "FINAL", "INTERVAL", "TIMESTAMP", "DATE",
        "TIME", "CLASSIFIER", "ARRAY", "PERMUTE", "PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER",
        "PATTERN", "WITHIN", "SUBSET", "DEFINE", "SELECT", "FROM", "FOR", "WHERE", "LIMIT", "FETCH",
        "MATCH_RECOGNIZE", "FIRST", "LAST", "NEXT", "PAST", "ASC", "DESC", "NULLS", "OVER", "WINDOW",
        "INITIAL", "SEEK", "ROWS", "OFFSET",
    ]
)  # fmt: skip
_NAME = re.compile(r"[^\W\d]\w*")


def sql_column(name: str) -> str:
    """Return the name of a column, in double quotes where it needs them."""
    plain = _NAME.fullmatch(name) and name.upper() not in _RESERVED
    return name if plain else _quoted(name)


def sql_variable(name: str) -> str:
    """Return the name of a variable, in double quotes if it is not in upper case."""
    return sql_column(name) if name == name.upper() else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- patterns ----------------------------------------------------------------------------------------------


def print_row_pattern(pattern: Pattern) -> str:
    return print_pattern(pattern, sql_variable)


# --- expressions -------------------------------------------------------------------------------------------


class SqlPrinter(ExpressionPrinter):
    and_, or_, not_ = " AND ", " OR ", "NOT "
    word = staticmethod(str.upper)
    constants: ClassVar[dict[bool | None, str]] = {None: "NULL", True: "TRUE", False: "FALSE"}
    signs: ClassVar[dict[str, str]] = {"==": "=", "!=": "<>"}
    tests: ClassVar[tuple[type, ...]] = (*ExpressionPrinter.tests, rp.IsTruth, rp.LikeWithEscape)

    def name(self, name: str) -> str:
        return sql_column(name)

    def reference(self, node: ex.Reference) -> str:
        return f"{sql_variable(node.variable)}.{sql_column(node.name or '')}"

    def literal(self, value: bool | int | float | str | None) -> tuple[str, int]:
        if isinstance(value, float) and not math.isfinite(value):
            return repr(value), UNARY if value < 0 else ITEM
        return super().literal(value)

    def after_sign(self, text: str) -> str:
        """Return the text in parentheses if it begins with a minus, because two of them begin a comment."""
        return f"({text})" if text.startswith("-") else text

    def test(self, expression: Any, negation: str) -> str:
        """Return a test; ``negation`` is NOT with a blank, or nothing."""
        match expression:
            case rp.IsTruth(operand=operand, truth=truth):
                return f"{self.at_least(SUM, operand)} IS {negation}{self.constants[truth]}"
            case rp.LikeWithEscape(operand=operand, pattern=pattern, escape=escape):
                text = f"{self.at_least(SUM, operand)} {negation}LIKE"
                return f"{text} {quoted_text(pattern)} ESCAPE {quoted_text(escape)}"
        return super().test(expression, negation)

    def node(self, expression: ex.Expression) -> tuple[str, int]:
        """Return the text of a node and its binding strength; times are Literals with a word before them."""
        match expression:
            case rp.TimeLiteral(value=text):
                return f"TIMESTAMP {quoted_text(text)}", ITEM
            case rp.IntervalLiteral(value=text):
                return print_interval(text), ITEM
        return super().node(expression)

    def other(self, expression: ex.Expression) -> tuple[str, int]:
        """Return the text of a node that only MATCH_RECOGNIZE has, and the rank of its operator."""
        match expression:
            case rp.Joined(left=left, right=right):
                return f"{self.at_least(SUM, left)} || {self.at_least(PRODUCT, right)}", SUM
            case rp.OverWindow(operand=operand, window=window):
                return f"{self.at_least(ITEM, operand)} OVER {sql_variable(window)}", ITEM
            case rp.Navigation(function=function, operand=operand, offset=offset, final=final):
                rows = "" if offset is None else f", {offset}"
                return f"{_semantics(final)}{function.upper()}({self.text(operand)}{rows})", ITEM
            case rp.RowAggregate():
                return self.aggregate(expression), ITEM
            case rp.Classifier(variable=variable):
                return f"CLASSIFIER({'' if variable is None else sql_variable(variable)})", ITEM
            case rp.MatchNumber():
                return "MATCH_NUMBER()", ITEM
            case rp.MatchRowtime(operand=operand):
                return f"MATCH_ROWTIME({'' if operand is None else self.text(operand)})", ITEM
            case rp.TimedOut():
                return "TIMED_OUT()", ITEM
            case rp.EveryColumn():
                return "*", ITEM
            case rp.UserCall(registered=registered, arguments=arguments):
                return f"{registered.name.upper()}({self.listed(arguments)})", ITEM
            case rp.Cast(operand=operand, kind=kind):
                return f"CAST({self.text(operand)} AS {kind})", ITEM
            case rp.ArrayOf(items=items):
                return f"ARRAY[{self.listed(items)}]", ITEM
            case rp.CaseWhen(branches=branches, default=default):
                pairs = zip(branches[::2], branches[1::2], strict=True)
                whens = "".join(f" WHEN {self.text(if_)} THEN {self.text(then)}" for if_, then in pairs)
                rest = "" if default is None else f" ELSE {self.text(default)}"
                return f"CASE{whens}{rest} END", ITEM
        raise TypeError(f"no SQL text for {type(expression).__name__}")

    def aggregate(self, node: rp.RowAggregate) -> str:
        """Return the text of an aggregate of rows, such as RUNNING SUM(DISTINCT A.x)."""
        inside = self.listed(node.arguments)
        if not node.arguments:
            inside = "*" if node.variable is None else f"{sql_variable(node.variable)}.*"
        distinct = "DISTINCT " if node.distinct else ""
        return f"{_semantics(node.final)}{node.function.upper()}({distinct}{inside})"


_PRINTER = SqlPrinter()


def print_sql(expression: ex.Expression) -> str:
    """Return an expression as SQL text that parses to an equal tree."""
    return _PRINTER.text(expression)


rp.SqlExpression.in_sql = print_sql  # for texts of conditions, whose room is below this one


def _semantics(final: bool | None) -> str:
    return "" if final is None else "FINAL " if final else "RUNNING "


# --- queries -----------------------------------------------------------------------------------------------


def print_match_recognize(query: RowPatternQuery) -> str:
    """Return the clause as text that parses to an equal query, with one line for each SQL clause."""
    shown = WITH_TIMED_OUT if query.timed_out else ROWS_PER_MATCH[query.rows_per_match]
    return _bracketed("MATCH_RECOGNIZE", [*_lines_of_rows(query), shown, *_lines_of_pattern(query)])


def _bracketed(words: str, lines: list[str]) -> str:
    return "\n".join([f"{words} (", *(f"  {line}" for line in lines), ")"])


def _lines_of_rows(query: RowPatternQuery) -> list[str]:
    """Return the clauses before those that say what the rows of the result are."""
    lines = []
    if query.partition_by:
        lines.append(f"PARTITION BY {', '.join(map(sql_column, query.partition_by))}")
    if query.order_by:
        lines.append(f"ORDER BY {_order(query.order_by)}")
    if query.measures:
        measures = (f"{print_sql(tree)} AS {sql_column(name)}" for name, tree in query.measures)
        lines.append(f"MEASURES {', '.join(measures)}")
    return lines


def _lines_of_pattern(query: RowPatternQuery, search: str = "") -> list[str]:
    """Return the clauses from AFTER MATCH on; ``search`` comes before the pattern."""
    lines = []
    target = query.after_match_variable
    lines.append(AFTER_MATCH[query.after_match] + (f" {sql_variable(target)}" if target else ""))
    lines.append(f"{search}PATTERN ({print_row_pattern(query.pattern)})")
    if query.within is not None:
        amount, unit = query.within.split()
        lines.append(f"WITHIN INTERVAL '{amount}' {unit.upper()}")
    if query.subset:
        subsets = (
            f"{sql_variable(name)} = ({', '.join(map(sql_variable, members))})"
            for name, members in query.subset
        )
        lines.append(f"SUBSET {', '.join(subsets)}")
    define = (f"{sql_variable(name)} AS {print_sql(tree)}" for name, tree in query.define)
    lines.append(f"DEFINE {', '.join(define)}")
    return lines


def print_select(query: SelectedRows) -> str:
    return _select(query, f" {print_match_recognize(query.rows)}") + _end_of_select(query)


def print_window_select(query: WindowedRows) -> str:
    """Return the SQL text of a query whose row pattern is in a WINDOW clause."""
    ends = {None: "UNBOUNDED FOLLOWING", 0: "CURRENT ROW"}
    end = query.frame_end
    if end not in ends:
        ends[end] = f"{sql_column(end) if isinstance(end, str) else end} FOLLOWING"
    lines = [
        *_lines_of_rows(query.rows),
        f"ROWS BETWEEN CURRENT ROW AND {ends[end]}",
        *_lines_of_pattern(query.rows, "SEEK " if query.seek else "INITIAL "),
    ]
    window = _bracketed(f"WINDOW {sql_variable(query.name)} AS", lines)
    return f"{_select(query)}\n{window}{_end_of_select(query)}"


def _select(query: SelectedRows | WindowedRows, clause: str = "") -> str:
    """Return a SELECT up to WHERE; ``clause`` is MATCH_RECOGNIZE ( … ) after the table."""
    columns = "*"
    if query.columns is not None:
        columns = ", ".join(_selected(name, tree) for name, tree in query.columns)
    text = f"SELECT {columns}\nFROM {sql_column(query.table)}{clause}"
    text += f" AS {sql_variable(query.alias)}" if query.alias else ""
    return text + (f"\nWHERE {print_sql(query.where)}" if query.where is not None else "")


def _end_of_select(query: SelectedRows | WindowedRows) -> str:
    text = f"\nORDER BY {_order(query.order_by)}" if query.order_by else ""
    text += f"\nLIMIT {query.limit}" if query.limit is not None else ""
    return text + (f"\nOFFSET {query.offset}" if query.offset else "")


def _selected(name: str, tree: ex.Expression) -> str:
    text = print_sql(tree)
    same = tree == ex.Attribute(name) or isinstance(tree, rp.EveryColumn)
    same |= isinstance(tree, rp.OverWindow) and tree.operand == ex.Attribute(name)
    return text if same else f"{text} AS {sql_column(name)}"


def _order(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(
        sql_key(key) + " DESC" * key.descending + " NULLS FIRST" * key.nulls_first for key in keys
    )


def sql_key(key: SortKey) -> str:
    return sql_column(key.column) if key.value is None else print_sql(key.value)


for _kind in (rp.SqlExpression, rp.TimeLiteral, rp.IntervalLiteral):
    text_of.register(_kind, print_sql)
text_of.register(RowPatternQuery, print_match_recognize)
text_of.register(SelectedRows, print_select)
text_of.register(WindowedRows, print_window_select)


# Say a query of MATCH_RECOGNIZE in one plain sentence.

_SKIPS = {
    "past_last_row": "the search continues after the last row",
    "to_next_row": "the search continues at the next row",
    "to_first": "the search continues at the first row of",
    "to_last": "the search continues at the last row of",
}
_ROWS = {
    "one": "one row per match",
    "all": "all rows of each match",
    "all_omit_empty": "all rows of each match, without empty ones",
    "all_with_unmatched": "all rows, also those without a match",
}
_SIMPLE = (
    ex.And, ex.Or, ex.Not, ex.Comparison, ex.In, ex.IsNull, ex.Like, ex.Attribute, ex.Literal, ex.Arithmetic,
    ex.Negative, ex.Parameter, ex.Previous,
)  # fmt: skip


def say_rows(query: RowPatternQuery) -> str:
    """Return a query of MATCH_RECOGNIZE in one plain sentence, without a full stop."""
    defined = dict(query.define)

    def row(name: str) -> str:
        return f"a row {name}" if name in defined else f"any row {name}"

    spoken = PatternWords(row, lambda name: f"rows {name}", " or else ", "times")
    words = [say_pattern(query.pattern, spoken)]
    if query.within is not None:
        words.append(f"in less than {say_duration(query.within)}")
    if query.partition_by:
        words.append(f"per {join_words(query.partition_by)}")
    names = dict.fromkeys(variable.name for variable in variables(query.pattern))
    meanings = [f"{name} means that {_condition(name, defined[name])}" for name in names if name in defined]
    subsets = [f"{name} is {join_words(members)} together" for name, members in query.subset]
    skip = _SKIPS[query.after_match]
    if query.after_match_variable is not None:
        skip += f" {query.after_match_variable}"
    return "; ".join([", ".join(words), *meanings, *subsets, _ROWS[query.rows_per_match], skip])


def _condition(variable: str, tree: ex.Expression) -> str:
    """Return a condition in words if it is simple, else its text."""

    def plain(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Reference) and node.variable == variable and node.name is not None:
            return ex.Attribute(node.name)
        if isinstance(node, rp.Navigation) and node.function == "prev" and node.offset != 0:
            is_column = isinstance(node.operand, ex.Attribute)
            return ex.Previous(node.operand, node.offset or 1) if is_column else node
        return node

    simple = rebuilt(tree, ex.Expression, plain)
    if all(isinstance(node, _SIMPLE) for node in simple.walk()):
        return say_condition(simple)
    return print_sql(tree)
