"""Sequences as queries of SiddhiQL; conditions as text of languages without null."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.query import SequenceQuery
from cepkit.translation.calls import sequence_of_chain
from cepkit.translation.chains import RowChain, check_portable, joined_with_and, refuse, with_values
from cepkit.translation.to_chains import own_conditions, single_events, steps_of, with_counts


class Infix(ABC):
    """Prints conditions on events; ``own`` is the variable of the event that is tested.

    Missing values have other rules in these languages, so tests for them are refused.

    """

    target: ClassVar[str]
    words: ClassVar[dict[str, str]]

    def __init__(self, own: str):
        self.own = own

    @abstractmethod
    def column(self, node: ex.Reference) -> str:
        """Return a column of an event."""

    @abstractmethod
    def literal(self, value: object) -> str:
        """Return a constant."""

    @abstractmethod
    def equality(self, sign: str, left: ex.Expression, right: ex.Expression) -> str:
        """Return a test with ``==`` or ``!=``."""

    def item(self, tree: ex.Expression) -> str:
        """Return an expression, in parentheses unless it is a value."""
        text = self.text(tree)
        is_value = isinstance(tree, ex.Reference | ex.Literal | ex.Attribute)
        return text if is_value else f"({text})"

    def text(self, tree: ex.Expression) -> str:
        """Return an expression; raise for parts that the language lacks or understands in another way."""
        check_portable(self.target, "WHERE", tree)
        match tree:
            case ex.Literal(value=None):
                refuse(self.target, "WHERE: null", "missing values have other rules there")
            case ex.Literal(value=value):
                return self.literal(value)
            case ex.Reference(name=str(), index=None | ex.CURRENT):
                return self.column(tree)
            case ex.Negative(operand=operand):
                return f"-{self.item(operand)}" if not _is_number(operand) else f"-{self.text(operand)}"
            case ex.Arithmetic(operator=sign, left=left, right=right):
                return f"{self.item(left)} {sign} {self.item(right)}"
            case ex.Comparison(operator="==" | "!=" as sign, left=left, right=right):
                return self.equality(sign, left, right)
            case ex.Comparison(operator=sign, left=left, right=right):
                for side in (left, right):
                    if isinstance(side, ex.Literal) and isinstance(side.value, str):
                        refuse(self.target, f"WHERE {tree}", "texts and times have no such order there")
                return f"{self.item(left)} {sign} {self.item(right)}"
            case ex.And(operands=operands):
                return self.words["and"].join(map(self.item, operands))
            case ex.Or(operands=operands):
                return self.words["or"].join(map(self.item, operands))
            case ex.Not(operand=operand):
                return f"{self.words['not']}({self.text(operand)})"
            case ex.In(operand=operand, options=options):
                tests = [self.text(ex.Comparison("==", operand, option)) for option in options]
                return tests[0] if len(tests) == 1 else self.words["or"].join(f"({test})" for test in tests)
            case ex.Parameter(name=name):
                refuse(self.target, f"WHERE: :{name}", "its value has no text")
        refuse(self.target, f"WHERE {tree}", "it has no such test")


def _is_number(tree: ex.Expression) -> bool:
    return isinstance(tree, ex.Literal) and isinstance(tree.value, int | float) and tree.value >= 0


# Sequences as queries of SiddhiQL.
#
# ``every a=A[…] -> b=B[…]`` begins a match with each ``a``. An arrow takes the next event that fits, and the
# match then leaves that state, which is skip_till_next_match. In a sequence, written with commas, the next
# event of the stream must fit, which is strict contiguity.

TARGET = "siddhi"
STREAM = "Events"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    [
        "stream",
        "define",
        "function",
        "trigger",
        "table",
        "app",
        "from",
        "partition",
        "window",
        "select",
        "group",
        "by",
        "order",
        "limit",
        "offset",
        "asc",
        "desc",
        "having",
        "insert",
        "delete",
        "update",
        "set",
        "return",
        "events",
        "into",
        "output",
        "expired",
        "current",
        "snapshot",
        "for",
        "raw",
        "of",
        "as",
        "at",
        "or",
        "and",
        "in",
        "on",
        "is",
        "not",
        "within",
        "with",
        "begin",
        "end",
        "null",
        "every",
        "last",
        "all",
        "first",
        "join",
        "inner",
        "outer",
        "right",
        "left",
        "full",
        "unidirectional",
        "false",
        "true",
        "per",
    ]
)


def print_siddhi(query: SequenceQuery) -> str:
    """Return a sequence of single events under skip_till_next_match as a pattern of SiddhiQL."""
    single_events(TARGET, query)
    for step in steps_of(query)[1:]:
        if step != "next":
            refuse(
                TARGET, "skip_till_any_match" if step == "any" else f"{step} contiguity of events with types",
                "an arrow takes the next event that fits, and a comma breaks at events of these streams only",
            )  # fmt: skip
    return _text(query, " -> ")


def print_chain_for_siddhi(chain: RowChain) -> str:
    """Return a chain as a sequence of SiddhiQL over the single stream ``Events``."""
    if chain.advance != 1:
        refuse(TARGET, "matches that may not overlap", "with every, each event begins a match")
    return _text(sequence_of_chain(TARGET, chain), ", ")


def _text(query: SequenceQuery, sign: str) -> str:
    events, query = single_events(TARGET, query), with_counts(query)
    if query.after_match[0] not in ("none", "to_next"):
        refuse(TARGET, f"after_match={query.after_match[0]}", "with every, each event begins a match")
    for name, value in (("GAP", query.gap_within), ("strict_time", query.strict_time)):
        if value:
            refuse(TARGET, name, "it has no limit between two events")
    if query.within_events is not None:
        refuse(TARGET, f"WITHIN {query.within_events} EVENTS", "its windows are times")
    for name, _ in query.functions:
        refuse(TARGET, f"WHERE: {name}()", "a function of Python has no text")
    params = dict(query.params)
    if len({event.event_type is None for event in events}) > 1:
        refuse(TARGET, "events with and without a type", "an event there comes from one stream")
    parts = []
    for event, conditions in zip(events, own_conditions(TARGET, query, _without_types(events)), strict=True):
        tests = [with_values(tree, params) for tree in conditions]
        test = joined_with_and(tests)
        filters = "" if test is None else f"[{SiddhiText(event.variable).text(test)}]"
        parts.append(f"{name_text(event.variable, 'variable')}={stream_of(event)}{filters}")
    lines = [f"from every {sign.join(parts)}"]
    if query.within is not None:
        lines[0] += f" within {_within(query)}"
    lines.append(f"select {', '.join(_selected(query, params))}")
    lines.append("insert into Matches;")
    if query.partition_by:
        key, *others = query.partition_by
        if others:
            refuse(TARGET, f"[{', '.join(query.partition_by)}]", "a partition has one key for a stream")
        streams = dict.fromkeys(map(stream_of, events))
        keys = ", ".join(f"{name_text(key, 'column')} of {stream}" for stream in streams)
        return "\n".join([f"partition with ({keys})", "begin", *(f"  {line}" for line in lines), "end;"])
    return "\n".join(lines)


def _without_types(events: tuple[sq.EventPattern, ...]) -> tuple[sq.EventPattern, ...]:
    return tuple(sq.EventPattern(event.variable) for event in events)


def stream_of(event: sq.EventPattern) -> str:
    """Return the stream of an event: its type, or ``Events`` for an event of any type."""
    if event.event_type is None:
        return STREAM
    if not isinstance(event.event_type, str):
        refuse(TARGET, f"type {event.event_type}", "a stream has a name")
    return name_text(event.event_type, "type")


def name_text(name: str, what: str) -> str:
    """Return a name, in backticks if it is a word of the language; raise if it is no name."""
    if not _NAME.fullmatch(name):
        refuse(TARGET, f"{what} {name!r}", "names there have letters, digits and underscores")
    return f"`{name}`" if name.lower() in _RESERVED else name


def _within(query: SequenceQuery) -> str:
    if isinstance(query.within, int):
        refuse(TARGET, f"WITHIN {query.within}", "a window there has a unit, as in '5 s'")
    assert query.within is not None
    microseconds = duration_ticks(query.within, "us")
    if microseconds % 1000:
        refuse(TARGET, f"WITHIN {query.within}", "its clock counts milliseconds")
    milliseconds = microseconds // 1000 - (not query.within_closed)  # the window includes its end
    seconds, rest = divmod(milliseconds, 1000)
    return f"{milliseconds} milliseconds" if rest else f"{seconds} sec"


def _selected(query: SequenceQuery, params: dict) -> list[str]:
    measures = query.measures if query.measures is not None else default_measures(query)
    if not measures:
        refuse(TARGET, "a result without measures and order_by", "SELECT names columns; give order_by=")
    columns = []
    for name, tree in measures:
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate):
                refuse(TARGET, f"measure {name!r}: {node}", "aggregates there range over several matches")
        columns.append(f"{SiddhiText('').text(with_values(tree, params))} as {name_text(name, 'measure')}")
    return columns


class SiddhiText(Infix):
    """Conditions of one event in SiddhiQL; its own columns have no prefix."""

    target = TARGET
    words: ClassVar[dict[str, str]] = {"and": " and ", "or": " or ", "not": "not "}

    def column(self, node: ex.Reference) -> str:
        """Return a column of an event."""
        name = name_text(node.name or "", "column")
        return name if node.variable == self.own else f"{name_text(node.variable, 'variable')}.{name}"

    def literal(self, value: object) -> str:
        """Return a constant."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            if "'" in value or "\\" in value:
                refuse(TARGET, f"the text {value!r}", "its quotes have no escape")
            if "\n" in value:
                refuse(TARGET, f"the text {value!r}", "a text there has one line")
            return f"'{value}'"
        return repr(value)

    def equality(self, sign: str, left: ex.Expression, right: ex.Expression) -> str:
        """Return an equality test."""
        return f"{self.item(left)} {sign} {self.item(right)}"
