"""Build the trees of MATCH_RECOGNIZE from the rules of its grammars during parsing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cepkit.errors import did_you_mean
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import (
    UNITS,
    counted,
    days_to_seconds,
    format_duration,
    parse_duration,
)
from cepkit.language.expressions.functions import SQL_FUNCTIONS as FOREIGN_FUNCTIONS
from cepkit.language.expressions.functions import registered_in_sql
from cepkit.language.expressions.parsing import (
    ExpressionBuilder,
    Refusal,
    call_of_value,
    like_of,
    span_of,
    unquoted,
)
from cepkit.language.expressions.vocabulary import FIELDS, VOCABULARY
from cepkit.language.match_recognize import query as rp
from cepkit.language.row_patterns import Anchor, Exclusion, PatternBuilder, Permutation

if TYPE_CHECKING:
    from lark import Token


# Build calls of functions, casts and tests that only SQL has, from the rules of its grammar.

_TRIMS = {"leading": "ltrim", "trailing": "rtrim", "both": "trim"}
_TYPES_OF_TWO_WORDS = ("double precision", "character varying", "char varying")


def checked_call(name: Token, arguments: tuple[Any, ...], span: tuple[int, int]) -> ex.Expression:
    """Return a call of a function. Raise for a wrong number, and for functions of other engines."""
    lower, upper = name.lower(), name.upper()
    if (registered := registered_in_sql(name)) is not None:
        if not registered.arity.accepts(len(arguments)):
            raise Refusal(f"{upper}() takes {registered.arity}; {len(arguments)} given", span)
        return rp.UserCall(registered, arguments, span=span)
    if lower in FOREIGN_FUNCTIONS:
        raise Refusal(f"{upper}() does not run here; {FOREIGN_FUNCTIONS[lower]}", span)
    if lower in VOCABULARY:
        return call_of_value(lower, upper, arguments, span)
    return ex.Call(lower, arguments, span=span)


def _check_escapes(pattern: str, sign: str, at: tuple[int, int], sign_at: tuple[int, int]) -> None:
    """Raise unless ESCAPE has one character, and it is only before characters that it may escape."""
    if len(sign) != 1:
        raise Refusal("ESCAPE takes one character", sign_at)
    place = pattern.find(sign)
    while place >= 0:
        if pattern[place + 1 : place + 2] not in ("%", "_", sign):
            raise Refusal(f"{sign!r} must be before %, _ or {sign!r}, because it is the escape character", at)
        place = pattern.find(sign, place + 2)


def _negated_if(test: ex.Expression, negation: Token | None) -> ex.Expression:
    return test if negation is None else ex.Not(test, span=test.span)


# Read and print the intervals of SQL, such as ``INTERVAL '1 02:30:00' DAY TO SECOND``.

_WORDS = {
    "w": "WEEK", "d": "DAY", "h": "HOUR", "min": "MINUTE", "s": "SECOND", "ms": "MILLISECOND",
    "us": "MICROSECOND", "ns": "NANOSECOND",
}  # fmt: skip
_UNEVEN = ("month", "months", "year", "years", "quarter", "quarters")
_FIELDS = ("d", "h", "min", "s")  # the fields of an interval, from long to short
_MOST = {"h": 24, "min": 60, "s": 60}  # every field after the first one is below this number
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]{0,9})?")


def read_interval(children: Sequence[Any]) -> ex.Expression:
    """Return the literal of the tokens of an interval; a negative interval is the opposite of one."""
    _, minus, text, first, *rest = children
    tokens = [child for child in children if child is not None]
    span = span_of(tokens)
    names = [child for child in rest if child is not None and getattr(child, "type", "") == "NAME"]
    unit, last = first.lower(), names[0].lower() if names else None
    if unit in _UNEVEN or last in _UNEVEN:
        raise Refusal(
            "months and years have no fixed length, and intervals of them are not supported; write days, as "
            "in INTERVAL '30' DAY",
            span,
        )
    if unit not in UNITS or (last is not None and last not in UNITS):
        raise Refusal("an interval has a unit, as in INTERVAL '5' MINUTE", span)
    written = unquoted(text).strip()
    is_negative = written.startswith("-")
    amount = written[1:].strip() if is_negative else written.removeprefix("+")
    if last is None and not _NUMBER.fullmatch(amount):
        raise Refusal("an interval has one number in quotes, as in INTERVAL '5' MINUTE", span)
    duration = (
        f"{amount} {UNITS[unit]}" if last is None else _duration(amount, UNITS[unit], UNITS[last], span)
    )
    literal = rp.IntervalLiteral(duration, span=span)
    return ex.Negative(literal, span=span) if is_negative is not (minus is not None) else literal


def _duration(amount: str, first: str, last: str, span: tuple[int, int]) -> str:
    """Return the duration of a text with several fields, such as ``1 02:30:00``."""
    fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1] if first in _FIELDS else ()
    if len(fields) < 2 or last not in _FIELDS:
        raise Refusal("an interval goes from a longer unit to a shorter one, as in DAY TO SECOND", span)
    numbers = amount.split(":")
    if first == "d":  # a blank or a colon follows the days
        days, *times = re.split(r"\s+|:", amount, maxsplit=1)
        numbers = [days, *times[0].split(":")] if times else [days]
    end_fits = _SECONDS.fullmatch(numbers[-1]) if last == "s" else numbers[-1].isdecimal()
    if len(numbers) != len(fields) or not end_fits or not all(number.isdecimal() for number in numbers[:-1]):
        shown = {"d": "1 ", "h": "02:", "min": "30:", "s": "00:"}
        example = "".join(shown[field] for field in fields).strip().rstrip(":")
        words = f"{_WORDS[first]} TO {_WORDS[last]}"
        raise Refusal(f"expected a text such as INTERVAL '{example}' {words}", span)
    for number, field in zip(numbers[1:], fields[1:], strict=True):
        if float(number) >= _MOST[field]:
            raise Refusal(
                f"{number} is too much for the field {_WORDS[field]}; it stays below {_MOST[field]}", span
            )
    parts = " ".join(f"{number} {field}" for number, field in zip(numbers, fields, strict=True))
    return format_duration(parse_duration(parts), "ns")


def print_interval(duration: str) -> str:
    parts = duration.split()
    if len(parts) == 2:
        return f"INTERVAL '{parts[0]}' {_WORDS[parts[1]]}"
    return f"INTERVAL '{days_to_seconds(parse_duration(duration))}' DAY TO SECOND"


_DAY = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")


def variable_name(token: str) -> str:
    """Return the name of a variable: upper case, but as it is between quotes."""
    return unquoted(token) if token[0] in '"`' else token.upper()


def column_name(token: str) -> str:
    """Return the name of a column, without its quotes."""
    return unquoted(token) if token[0] in '"`' else str(token)


class _RowPatternBuilder(PatternBuilder):
    """The callbacks of the rules and aliases that only ``row_pattern.lark`` has."""

    name = staticmethod(variable_name)

    def alternative(self, children):
        places = [child.span for child in children if child.span is not None]
        if len(places) < len(children) > 1:
            raise Refusal("a side of '|' is empty; write () for no row", places[0] if places else (0, 1))
        return super().alternative(children)

    def start_anchor(self, children):
        return Anchor(True, span=span_of(children))

    def end_anchor(self, children):
        return Anchor(False, span=span_of(children))

    def exclusion(self, children):
        return Exclusion(children[1], span=span_of(children))

    def permutation(self, children):
        parts = tuple(children[2:-1])
        if any(part.span is None for part in parts) or len(parts) < 2:
            raise Refusal("PERMUTE takes two patterns or more", span_of(children))
        if len(parts) > 8:
            raise Refusal("PERMUTE takes eight patterns at most", span_of(children))
        return Permutation(parts, span=span_of(children))


class _SqlExpressionBuilder(ExpressionBuilder):
    """The callbacks of the rules and aliases that only ``sql_expression.lark`` has."""

    def positive(self, children):
        return replace(children[1], span=span_of(children))

    def is_truth(self, children):
        """Return the node of `x IS [NOT] TRUE`, FALSE or UNKNOWN."""
        operand, negation, word = children
        span, lower = span_of(children), word.lower()
        if lower not in ("true", "false", "unknown"):
            message = f"expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM, found {str(word)!r}"
            raise Refusal(message, span_of([word]))
        unknown = ex.IsNull(operand, span=span)
        return _negated_if(
            unknown if lower == "unknown" else rp.IsTruth(operand, lower == "true", span=span), negation
        )

    def is_distinct(self, children):
        left, negation, _, right = children
        return _negated_if(ex.IsDistinct(left, right, span=span_of(children)), negation)

    def like(self, children):
        """Return the node of `x [NOT] LIKE pattern [ESCAPE sign]`, or of ILIKE, which ignores case."""
        operand, negation, word, pattern, escape = children
        span, written = span_of([operand, pattern if escape is None else escape]), unquoted(pattern)
        sign = None if escape is None else unquoted(escape)
        if sign is not None:
            _check_escapes(written, sign, span_of([pattern]), span_of([escape]))
        if sign is None or sign not in written:
            return _negated_if(like_of(operand, word, written, span), negation)
        if word.lower() == "ilike":
            operand, written = ex.Call("lower", (operand,), span=operand.span), written.lower()
        return _negated_if(rp.LikeWithEscape(operand, written, sign, span=span), negation)

    def between_symmetric(self, children):
        """Return the condition that x is between two limits in either order."""
        operand, negation, first_limit, second_limit = children
        span = span_of(children)
        for node in (node for part in (operand, first_limit, second_limit) for node in part.walk()):
            if isinstance(node, ex.Comparison | ex.Or):  # the text would grow with each level
                raise Refusal("BETWEEN SYMMETRIC takes values without conditions inside", node.span)
        ways = tuple(
            ex.And(
                (ex.Comparison(">=", operand, low, span=span), ex.Comparison("<=", operand, high, span=span)),
                span=span,
            )
            for low, high in ((first_limit, second_limit), (second_limit, first_limit))
        )
        return _negated_if(ex.Or(ways, span=span), negation)

    def call_from(self, children):
        """Return the call that SUBSTRING, TRIM or EXTRACT with the word FROM stands for."""
        name, _, item, start, length, _ = children
        span, lower = span_of([name, children[-1]]), name.lower()
        if lower in ("substring", "substr"):
            return checked_call(name, (item, start) if length is None else (item, start, length), span)
        if length is None and lower == "trim":
            return checked_call(name, (start, item), span)
        if length is None and lower == "extract":
            field = item.name.lower() if isinstance(item, ex.Attribute) else ""
            if field not in FIELDS:
                field_names = ", ".join(word.upper() for word in FIELDS if not word.startswith("day_"))
                hint = did_you_mean(field, FIELDS)
                raise Refusal(f"EXTRACT takes one of {field_names}{hint}", item.span)
            return ex.Call(FIELDS[field], (start,), span=span)
        raise Refusal(f"{name.upper()}() takes no FROM; write commas between its arguments", span)

    def trim(self, children):
        """Return the call for TRIM with LEADING, TRAILING or BOTH."""
        name, _, side, signs, text, _ = children
        span = span_of([name, children[-1]])
        if name.lower() != "trim":
            raise Refusal(f"{side.upper()} belongs to TRIM, as in TRIM({side.upper()} '0' FROM x)", span)
        return ex.Call(_TRIMS[side.lower()], (text,) if signs is None else (text, signs), span=span)

    def position(self, children):
        part, whole = [child for child in children if isinstance(child, ex.Expression)]
        return ex.Call("strpos", (whole, part), span=span_of([children[0], children[-1]]))

    def cast(self, children):
        """Return the node of CAST(x AS type), where a type has one or two words and may have a length."""
        _, _, operand, word, second_word, *length, _ = children
        kind = word.lower()
        if second_word is not None:
            kind = f"{kind} {second_word.lower()}"
            if kind not in _TYPES_OF_TWO_WORDS:
                raise Refusal(f"CAST: no type {kind.upper()}", span_of([word, second_word]))
        tokens = [token for token in length if token is not None]
        numbers = [str(token) for token in tokens if token.isdecimal()]
        if any(len(number) > 18 for number in numbers):
            raise Refusal("the length of the type has too many digits; it has 18 at most", span_of(tokens))
        if numbers:
            kind = f"{kind}({','.join(numbers)})"
        return rp.Cast(operand, kind, span=span_of([children[0], children[-1]]))

    def joined(self, children):
        return rp.Joined(*children, span=span_of(children))

    def name(self, children):
        return children[0]

    def attribute(self, children):
        return ex.Attribute(column_name(children[0]), span=span_of(children))

    def reference(self, children):
        variable, _, *fields = children
        column = ".".join(column_name(field) for field in fields[::2])  # and fields of a column of structs
        return ex.Reference(variable_name(variable), column, span=span_of(children))

    def typed_text(self, children):
        """Return the literal of TIMESTAMP or DATE with a text. Raise for TIME, or if a DATE is no day."""
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
        """Return CASE x WHEN value …: the same as CASE WHEN x = value …."""
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
        """Return the node of a call: an aggregate of rows, a navigation, or a function of one row."""
        semantics, name, _, distinct, *arguments, _ = children
        span = span_of([child for child in children if child is not None])
        lower = _SAME_AGGREGATES.get(name.lower(), name.lower())
        is_distinct = distinct is not None or name.lower() in _OF_DISTINCT
        final, arguments = _is_final(semantics), tuple(item for item in arguments if item is not None)
        if distinct is not None and lower not in (*rp.AGGREGATES_OF_ROWS, *_JOINED_LISTS):
            raise Refusal("DISTINCT belongs to an aggregate", span_of([distinct]))
        if lower in _JOINED_LISTS and len(arguments) in (1, 2):
            items = rp.RowAggregate("array_agg", arguments[:1], distinct=is_distinct, final=final, span=span)
            between = arguments[1] if len(arguments) == 2 else ex.Literal("")
            return ex.Call("array_join", (items, between), span=span)
        if lower in rp.AGGREGATES_OF_ROWS:
            n = 2 if lower in rp.OF_TWO_ARGUMENTS else 1
            if len(arguments) != n:
                raise Refusal(f"{name.upper()} takes {counted(n, 'argument')}, {len(arguments)} given", span)
            return rp.RowAggregate(lower, arguments, distinct=is_distinct, final=final, span=span)
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
# Aggregates in the words of other engines.
_SAME_AGGREGATES = {
    **dict.fromkeys(("approx_count_distinct", "approx_distinct", "count_distinct"), "count"),
    **dict.fromkeys(("collect_list", "collect_set"), "array_agg"), "countif": "count_if",
    **dict.fromkeys(("booland_agg", "logical_and"), "bool_and"),
    **dict.fromkeys(("boolor_agg", "logical_or"), "bool_or"),
    **{"arg_max": "max_by", "arg_min": "min_by", "argmax": "max_by", "argmin": "min_by"},
    **{"mean": "avg", "stdev": "stddev", "std": "stddev"},
    **{"variance_pop": "var_pop", "variance_samp": "var_samp"},
}  # fmt: skip
_OF_DISTINCT = ("approx_count_distinct", "approx_distinct", "count_distinct", "collect_set")
_OF_THE_MATCH = ("match_number", "match_rowtime", "match_sequence_number", "timed_out")


def _of_the_match(name: str, arguments: tuple, final: bool | None, span: tuple[int, int]) -> ex.Expression:
    """Return the node of a function of the whole match, such as MATCH_NUMBER()."""
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
    """Return the node of PREV, NEXT, FIRST or LAST; `final` is None without FINAL and RUNNING."""
    upper = name.upper()
    if len(arguments) not in (1, 2):
        raise Refusal(
            f"{upper} takes a value and, optionally, a number of rows; {len(arguments)} given", span
        )
    if final is not None and name in ("prev", "next"):
        raise Refusal(f"RUNNING and FINAL belong to the FIRST or LAST inside {upper}", span)
    offset = None
    if len(arguments) == 2:
        offset_node = arguments[1]
        offset = (
            offset_node.value
            if isinstance(offset_node, ex.Literal) and type(offset_node.value) is int
            else -1
        )
        if offset < 0:
            raise Refusal(f"{upper} counts rows with a whole number from 0", span_of([offset_node]))
    return rp.Navigation(name, arguments[0], offset, final, span=span)


ROW_PATTERN_BUILDER = _RowPatternBuilder()
SQL_EXPRESSION_BUILDER = _SqlExpressionBuilder()
