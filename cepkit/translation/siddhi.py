"""Sequences as queries of SiddhiQL; conditions as text of languages without null."""

from __future__ import annotations

import re
from typing import ClassVar

from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.printing import ExpressionPrinter
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.query import SequenceQuery
from cepkit.language.siddhi.printing import SiddhiPrinter, siddhi_name
from cepkit.translation.calls import sequence_of_chain
from cepkit.translation.chains import RowChain, check_portable, joined_with_and, refuse, with_values
from cepkit.translation.to_chains import own_conditions, single_events, steps_of, with_counts


class PortablePrinter(ExpressionPrinter):
    """Prints conditions on the event ``tested``, and refuses what the language lacks or reads otherwise.

    Missing values have other rules in these languages, so tests for them are refused.

    """

    target: ClassVar[str]

    def __init__(self, tested: str):
        self.tested = tested

    def text(self, expression: ex.Expression) -> str:
        """Return the text of an expression."""
        check_portable(self.target, "WHERE", expression)
        return super().text(expression)

    def node(self, expression: ex.Expression) -> tuple[str, int]:
        """Return the text of a node and its binding strength."""
        match expression:
            case ex.Literal(value=None):
                refuse(self.target, "WHERE: null", "missing values have other rules there")
            case ex.In(operand=operand, options=options):
                tests = tuple(ex.Comparison("==", operand, option) for option in options)
                return self.node(ex.Or(tests) if len(tests) > 1 else tests[0])
            case ex.Not(operand=ex.In() as operand):
                text = self.node(operand)[0]
                return f"{self.not_}({text})", self.after_not
            case ex.Parameter(name=name):
                refuse(self.target, f"WHERE: :{name}", "its value has no text")
            case ex.Reference(name=str(), index=None | ex.CURRENT):
                pass
            case ex.Reference() | ex.Attribute() | ex.Previous() | ex.Aggregate() | ex.IsNull() | ex.Like():
                refuse(self.target, f"WHERE {expression}", "it has no such test")
        return super().node(expression)

    def comparison(self, sign: str, left: ex.Expression, right: ex.Expression) -> tuple[str, int]:
        """Return a comparison and its binding strength."""
        texts = [
            side for side in (left, right) if isinstance(side, ex.Literal) and isinstance(side.value, str)
        ]
        if texts and sign not in ("==", "!="):
            condition = ex.Comparison(sign, left, right)
            refuse(self.target, f"WHERE {condition}", "texts and times have no such order there")
        return super().comparison(sign, left, right)

    def other(self, expression: ex.Expression) -> tuple[str, int]:
        """Refuse a node that only other languages have."""
        refuse(self.target, f"WHERE {expression}", "it has no such test")


def is_text(side: ex.Expression) -> bool:
    """Return whether an operand is a constant text."""
    return isinstance(side, ex.Literal) and isinstance(side.value, str)


# Sequences as queries of SiddhiQL.
#
# ``every a=A[…] -> b=B[…]`` begins a match with each ``a``. An arrow takes the next event that fits, and the
# match then leaves that state, which is skip_till_next_match. In a sequence, written with commas, the next
# event of the stream must fit, which is strict contiguity.

TARGET = "siddhi"
STREAM = "Events"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    return siddhi_name(name)


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


class SiddhiText(PortablePrinter, SiddhiPrinter):
    """Conditions of one event in SiddhiQL; its columns have no prefix."""

    target = TARGET

    def reference(self, node: ex.Reference) -> str:
        """Return a column of an event."""
        name = name_text(node.name or "", "column")
        return name if node.variable == self.tested else f"{name_text(node.variable, 'variable')}.{name}"

    def quoted(self, value: str) -> str:
        """Return a text as a constant; Siddhi's grammar has no escapes."""
        if "'" in value or "\\" in value:
            refuse(TARGET, f"the text {value!r}", "its quotes have no escape")
        if "\n" in value:
            refuse(TARGET, f"the text {value!r}", "a text there has one line")
        return f"'{value}'"
