"""Build the trees of MATCH_RECOGNIZE from the rules of its grammars during parsing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.building import (
    Refusal,
    span_of,
    unquoted,
    whole_number,
)
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.sql.calls import CallBuilder, checked_call
from cepkit.language.match_recognize.sql.intervals import read_interval

if TYPE_CHECKING:
    from lark import Token


_DAY = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")


def variable_name(token: str) -> str:
    """Return the name of a variable: upper case, but as it is between quotes."""
    return unquoted(token) if token[0] in '"`' else token.upper()


def column_name(token: str) -> str:
    """Return the name of a column, without its quotes."""
    return unquoted(token) if token[0] in '"`' else str(token)


class _RowPatternBuilder:
    """The parser's callbacks, one method for each rule and alias of ``row_pattern.lark``."""

    def start(self, children):
        return children[0]

    def alternation(self, children):
        if len(children) == 1:
            return children[0]
        places = [child.span for child in children if child.span is not None]
        if len(places) < len(children):
            at = places[0] if places else (0, 1)
            raise Refusal("a side of '|' is empty; write () for no row", at)
        flat = [
            option
            for child in children
            for option in (child.options if isinstance(child, rp.Alternation) else (child,))
        ]
        return rp.Alternation(tuple(flat), span=(places[0][0], places[-1][1]))

    def concatenation(self, children):
        if not children:
            return rp.NoRow()
        if len(children) == 1:
            return children[0]
        flat = [
            part
            for child in children
            for part in (child.parts if isinstance(child, rp.Concatenation) else (child,))
        ]
        return rp.Concatenation(tuple(flat), span=span_of(children))

    def variable(self, children):
        return rp.RowVariable(variable_name(children[0]), span=span_of(children))

    quoted_variable = variable

    def start_anchor(self, children):
        return rp.Anchor(True, span=span_of(children))

    def end_anchor(self, children):
        return rp.Anchor(False, span=span_of(children))

    def group(self, children):
        return replace(children[1], span=span_of(children))

    def exclusion(self, children):
        return rp.Exclusion(children[1], span=span_of(children))

    def permutation(self, children):
        parts = tuple(children[2:-1])
        if any(part.span is None for part in parts) or len(parts) < 2:
            raise Refusal("PERMUTE takes two patterns or more", span_of(children))
        if len(parts) > 8:
            raise Refusal("PERMUTE takes eight patterns at most", span_of(children))
        return rp.Permutation(parts, span=span_of(children))

    def star(self, children):
        return _quantified(children, 0, None)

    def plus(self, children):
        return _quantified(children, 1, None)

    def optional(self, children):
        return _quantified(children, 0, 1, n_signs=2)

    def exactly(self, children):
        times = whole_number(children[2])
        return _quantified(children, times, times)

    def at_least(self, children):
        return _quantified(children, whole_number(children[2]), None)

    def from_to(self, children):
        return _quantified(children, whole_number(children[2]), whole_number(children[3]))

    def at_most(self, children):
        return _quantified(children, 0, whole_number(children[2]))


def _quantified(children: list, low: int, high: int | None, n_signs: int = 1) -> rp.Quantified:
    marks = sum(child == "?" for child in children[1:] if isinstance(child, str))
    if high is not None and high < max(1, low):
        place = (children[1].start_pos, children[-1].end_pos)
        if high == 0:
            raise Refusal("a quantifier must allow one repetition or more; write () for no row", place)
        raise Refusal(f"the lower bound {low} is above the upper bound {high}", place)
    return rp.Quantified(children[0], low, high, marks < n_signs, span=span_of(children))


class _SqlExpressionBuilder(CallBuilder):
    """The callbacks of the rules and aliases that only ``sql_expression.lark`` has."""

    def joined(self, children):
        return rp.Joined(*children, span=span_of(children))

    def name(self, children):
        return children[0]

    def attribute(self, children):
        return ex.Attribute(column_name(children[0]), span=span_of(children))

    def reference(self, children):
        variable, _, column = children
        return ex.Reference(variable_name(variable), column_name(column), span=span_of(children))

    def typed_text(self, children):
        word, text = children[0].upper(), unquoted(children[1])
        if word == "TIME":
            raise Refusal("there is no type of times of day; write TIMESTAMP with the day", span_of(children))
        if word == "DATE" and not _DAY.fullmatch(text.strip()):
            raise Refusal(
                "a DATE is a day, as in DATE '2024-01-31'; write TIMESTAMP for a time of day",
                span_of(children),
            )
        return rp.TimeLiteral(text, span=span_of(children))

    def interval(self, children):
        return read_interval(children)

    def array(self, children):
        items = tuple(child for child in children if isinstance(child, ex.Expression))
        return rp.ArrayOf(items, span=span_of(children))

    def branch(self, children):
        return children

    def case(self, children):
        _, *branches, default, _ = children
        flat = tuple(part for branch in branches for part in branch)
        return rp.CaseWhen(flat, default, span=span_of(children))

    def case_of(self, children):
        _, item, *branches, default, _ = children
        flat = tuple(
            part
            for value, then in branches
            for part in (ex.Comparison("==", item, value, span=value.span), then)
        )
        return rp.CaseWhen(flat, default, span=span_of(children))

    def over(self, children):
        operand, window = children
        if not isinstance(operand, ex.Attribute | ex.Call | rp.RowAggregate):
            raise Refusal("OVER follows a measure of the window, or a function", span_of(children))
        return rp.OverWindow(operand, variable_name(window), span=span_of(children))

    def count_rows(self, children):
        semantics, name, _, sign, _ = children
        return self._count(name, sign, semantics, None, children)

    def count_rows_of(self, children):
        semantics, name, _, variable, _, sign, _ = children
        return self._count(name, sign, semantics, variable_name(variable), children)

    def _count(self, name, sign, semantics, variable, children):
        present = [child for child in children if child is not None]
        if sign != "*" or name.lower() != "count":
            raise Refusal("only COUNT takes all rows, as in COUNT(*) and COUNT(A.*)", span_of(present))
        return rp.RowAggregate("count", variable=variable, final=_is_final(semantics), span=span_of(present))

    def classifier(self, children):
        name = children[2]
        return rp.Classifier(None if name is None else variable_name(name), span=span_of(children))

    def call(self, children) -> Any:
        semantics, name, _, distinct, *arguments, _ = children
        span = span_of([child for child in children if child is not None])
        lower = name.lower()
        final, arguments = _is_final(semantics), tuple(item for item in arguments if item is not None)
        if distinct is not None and lower not in (*rp.AGGREGATES_OF_ROWS, *_JOINED_LISTS):
            raise Refusal("DISTINCT belongs to an aggregate", span_of([distinct]))
        if lower in _JOINED_LISTS and len(arguments) in (1, 2):
            items = rp.RowAggregate(
                "array_agg", arguments[:1], distinct=distinct is not None, final=final, span=span
            )
            between = arguments[1] if len(arguments) == 2 else ex.Literal("")
            return ex.Call("array_join", (items, between), span=span)
        if lower in rp.AGGREGATES_OF_ROWS:
            n = 2 if lower in rp.OF_TWO_ARGUMENTS else 1
            if len(arguments) != n:
                raise Refusal(
                    f"{name.upper()} takes {n} argument{'s' * (n > 1)}, {len(arguments)} given", span
                )
            return rp.RowAggregate(lower, arguments, distinct=distinct is not None, final=final, span=span)
        if lower in rp.NAVIGATIONS:
            return _navigation(lower, arguments, final, span)
        if lower in _SAME_NAVIGATION:
            return _navigation(_SAME_NAVIGATION[lower], arguments, final, span)
        if lower in _OF_THE_MATCH:
            return _of_the_match(lower, arguments, final, span)
        if final is not None:
            raise Refusal(
                f"{semantics.upper()} belongs to FIRST, LAST and aggregates", span_of([semantics, name])
            )
        return checked_call(name, arguments, span)


# Functions of rows in other words: those of Snowflake.
_JOINED_LISTS = ("listagg", "string_agg")  # the items of a list, one after the other
_SAME_NAVIGATION = {"lag": "prev", "lead": "next"}
_OF_THE_MATCH = ("match_number", "match_rowtime", "match_sequence_number", "timed_out")


def _of_the_match(name: str, arguments: tuple, final: bool | None, span: tuple[int, int]) -> ex.Expression:
    if final is not None:
        raise Refusal(f"RUNNING and FINAL do not belong to {name.upper()}()", span)
    if name == "match_rowtime" and len(arguments) == 1 and isinstance(arguments[0], ex.Attribute):
        return rp.MatchRowtime(arguments[0], span=span)
    if arguments:
        takes = "takes one column, or nothing" if name == "match_rowtime" else "takes no argument"
        raise Refusal(f"{name.upper()}() {takes}", span)
    if name == "match_sequence_number":  # the number of the row in its match
        return rp.RowAggregate("count", final=False, span=span)
    kinds = {"match_number": rp.MatchNumber, "match_rowtime": rp.MatchRowtime, "timed_out": rp.TimedOut}
    return kinds[name](span=span)


def _is_final(semantics: Token | None) -> bool | None:
    return None if semantics is None else semantics.lower() == "final"


def _navigation(name: str, arguments: tuple, final: bool | None, span: tuple[int, int]) -> rp.Navigation:
    upper = name.upper()
    if len(arguments) not in (1, 2):
        raise Refusal(
            f"{upper} takes a value and, optionally, a number of rows; {len(arguments)} given", span
        )
    if final is not None and name in ("prev", "next"):
        raise Refusal(f"RUNNING and FINAL belong to the FIRST or LAST inside {upper}", span)
    offset = None
    if len(arguments) == 2:
        given = arguments[1]
        offset = given.value if isinstance(given, ex.Literal) and type(given.value) is int else -1
        if offset < 0:
            raise Refusal(f"{upper} counts rows with a whole number from 0", span_of([given]))
    return rp.Navigation(name, arguments[0], offset, final, span=span)


ROW_PATTERN_BUILDER = _RowPatternBuilder()
SQL_EXPRESSION_BUILDER = _SqlExpressionBuilder()
