"""Sequences for languages without null: queries of SiddhiQL, and programs in Java for FlinkCEP."""

from __future__ import annotations

import json
import re
from typing import ClassVar

from cepkit.engines.sequence_measures import default_measures
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.printing import ITEM, UNARY, ExpressionPrinter
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.query_parts import Duration
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.branches import referenced_variables
from cepkit.language.sequences.checks import ONCE
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.language.siddhi.printing import SiddhiPrinter, siddhi_name
from cepkit.translation.calls import sequence_of_chain
from cepkit.translation.chains import (
    RowChain,
    check_portable,
    joined_with_and,
    refuse,
    refuse_functions,
    with_all_values,
    with_values,
)
from cepkit.translation.to_chains import conditions_of_events, single_events, steps_of, with_counts


class PortablePrinter(ExpressionPrinter):
    """Prints conditions on the event ``tested``, and refuses what the language lacks or reads otherwise."""

    # Missing values have other rules in these languages, so tests for them are refused.

    target: ClassVar[str]

    def __init__(self, tested: str):
        self.tested = tested

    def text(self, expression: ex.Expression) -> str:
        check_portable(self.target, "WHERE", expression)
        return super().text(expression)

    def node(self, expression: ex.Expression) -> tuple[str, int]:
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
        if (is_text(left) or is_text(right)) and sign not in ("==", "!="):
            condition = ex.Comparison(sign, left, right)
            refuse(self.target, f"WHERE {condition}", "texts and times have no such order there")
        return super().comparison(sign, left, right)

    def other(self, expression: ex.Expression) -> tuple[str, int]:
        refuse(self.target, f"WHERE {expression}", "it has no such test")


def is_text(side: ex.Expression) -> bool:
    """Return whether an operand is a constant text."""
    return isinstance(side, ex.Literal) and isinstance(side.value, str)


# Sequences as queries of SiddhiQL.
#
# ``every a=A[…] -> b=B[…]`` begins a match with each ``a``. An arrow takes the next event that fits, and the
# match then leaves that state, which is skip_till_next_match. In a sequence, written with commas, the next
# event of the stream must fit, which is strict contiguity.

SIDDHI = "siddhi"
STREAM = "Events"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def print_siddhi(query: SequenceQuery) -> str:
    """Return a sequence of single events under skip_till_next_match as a pattern of SiddhiQL."""
    single_events(SIDDHI, query)
    for step in steps_of(query)[1:]:
        if step != "next":
            refuse(
                SIDDHI, "skip_till_any_match" if step == "any" else f"{step} contiguity of events with types",
                "an arrow takes the next event that fits, and a comma breaks at events of these streams only",
            )  # fmt: skip
    return _text(query, " -> ")


def print_chain_for_siddhi(chain: RowChain) -> str:
    """Return a chain as a sequence of SiddhiQL over the single stream ``Events``."""
    if chain.advance != 1:
        refuse(SIDDHI, "matches that may not overlap", "with every, each event begins a match")
    return _text(sequence_of_chain(SIDDHI, chain), ", ")


def _text(query: SequenceQuery, sign: str) -> str:
    events, query = single_events(SIDDHI, query), with_counts(query)
    if query.after_match[0] not in ("none", "to_next"):
        refuse(SIDDHI, f"after_match={query.after_match[0]}", "with every, each event begins a match")
    for name, value in (("GAP", query.gap_within), ("strict_time", query.strict_time)):
        if value:
            refuse(SIDDHI, name, "it has no limit between two events")
    if query.within_events is not None:
        refuse(SIDDHI, f"WITHIN {query.within_events} EVENTS", "its windows are times")
    refuse_functions(SIDDHI, "WHERE", query)
    query = with_all_values(query, dict(query.params))
    if len({event.event_type is None for event in events}) > 1:
        refuse(SIDDHI, "events with and without a type", "an event there comes from one stream")
    parts = []
    for event, conditions in zip(
        events, conditions_of_events(SIDDHI, query, _without_types(events)), strict=True
    ):
        test = joined_with_and(conditions)
        filters = "" if test is None else f"[{SiddhiText(event.variable).text(test)}]"
        parts.append(f"{name_text(event.variable, 'variable')}={stream_of(event)}{filters}")
    lines = [f"from every {sign.join(parts)}"]
    if query.within is not None:
        lines[0] += f" within {_within(query)}"
    lines.append(f"select {', '.join(_selected(query))}")
    lines.append("insert into Matches;")
    if query.partition_by:
        key, *others = query.partition_by
        if others:
            refuse(SIDDHI, f"[{', '.join(query.partition_by)}]", "a partition has one key for a stream")
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
        refuse(SIDDHI, f"type {event.event_type}", "a stream has a name")
    return name_text(event.event_type, "type")


def name_text(name: str, what: str) -> str:
    """Return a name, in backticks if it is a word of the language; raise if it is no name."""
    if not _NAME.fullmatch(name):
        refuse(SIDDHI, f"{what} {name!r}", "names there have letters, digits and underscores")
    return siddhi_name(name)


def _within(query: SequenceQuery) -> str:
    assert query.within is not None
    # The window includes its end.
    milliseconds = _milliseconds(SIDDHI, query.within) - (not query.within_closed)
    seconds, rest = divmod(milliseconds, 1000)
    return f"{milliseconds} milliseconds" if rest else f"{seconds} sec"


def _milliseconds(target: str, window: Duration) -> int:
    """Return the milliseconds of a window. Raise if it has no unit, or is no whole number of them."""
    if isinstance(window, int):
        refuse(target, f"WITHIN {window}", "a window there has a unit, as in '5 s'")
    microseconds = duration_ticks(window, "us")
    if microseconds % 1000:
        refuse(target, f"WITHIN {window}", "its clock counts milliseconds")
    return microseconds // 1000


def _selected(query: SequenceQuery) -> list[str]:
    measures = query.measures if query.measures is not None else default_measures(query)
    if not measures:
        refuse(SIDDHI, "a result without measures and order_by", "SELECT names columns; give order_by=")
    columns = []
    for name, tree in measures:
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate):
                refuse(SIDDHI, f"measure {name!r}: {node}", "aggregates there range over several matches")
        columns.append(f"{SiddhiText('').text(tree)} as {name_text(name, 'measure')}")
    return columns


class SiddhiText(PortablePrinter, SiddhiPrinter):
    """Conditions of one event in SiddhiQL; its columns have no prefix."""

    target = SIDDHI

    def reference(self, node: ex.Reference) -> str:
        name = name_text(node.name or "", "column")
        return name if node.variable == self.tested else f"{name_text(node.variable, 'variable')}.{name}"

    def quoted(self, value: str) -> str:
        """Return a text as a constant; Siddhi's grammar has no escapes."""
        if "'" in value or "\\" in value:
            refuse(SIDDHI, f"the text {value!r}", "its quotes have no escape")
        if "\n" in value:
            refuse(SIDDHI, f"the text {value!r}", "a text there has one line")
        return f"'{value}'"


# Sequences as patterns of FlinkCEP's Java library.
#
# The text is not run here. Contiguity has the same names in both: next, followedBy, followedByAny. Flink's
# window excludes its end and its times are whole milliseconds, so a window that includes its end is one
# longer.

FLINK = "flink_cep_java"
_STEPS = {"strict": "next", "partition": "next", "next": "followedBy", "any": "followedByAny"}
_SKIPS = {"none": "noSkip()", "past_last": "skipPastLastEvent()", "to_next": "skipToNext()"}
_SKIPS_TO = {"to_first": "skipToFirst", "to_last": "skipToLast"}


def print_flink(query: SequenceQuery) -> str:
    """Return a sequence as the Java text of a pattern over events with getters."""
    _check_clauses(query)
    query = with_counts(query)
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, sq.SequenceOf) else (pattern,)
    steps = pattern.steps if isinstance(pattern, sq.SequenceOf) else (None,)
    events = [_event_of(part) for part in parts]
    tests = _conditions(query, parts, events)
    text, after_absent = "", False
    for place, (part, step) in enumerate(zip(parts, steps, strict=True)):
        how = step or query.strategy
        if isinstance(part, sq.AbsentPattern):
            _check_absent(parts, place)
            text += f"\n    .notFollowedBy({json.dumps(events[place].variable)})"
        elif place == 0:
            text += f"Pattern.<Event>begin({json.dumps(events[0].variable)}, {_skip(query)})"
        else:
            if how == "strict" and query.partition_by:
                refuse(FLINK, "strict_contiguity with a key", "next looks at the events of the key only")
            if after_absent and how in ("strict", "partition"):
                refuse(FLINK, f"{parts[place - 1]} before a neighbour", "no event is between neighbours")
            text += f"\n    .{_STEPS[how]}({json.dumps(events[place].variable)})"
        text += "".join(f"\n    .where({test})" for test in tests[place])
        if isinstance(part, sq.Loop):
            text += _quantifier(query, part, [step, steps[place + 1] if place + 1 < len(steps) else None])
        after_absent = isinstance(part, sq.AbsentPattern)
    text += _windows(query)
    if len(query.partition_by) > 1:
        refuse(FLINK, f"[{', '.join(query.partition_by)}]", "make one column of the keys first")
    stream = "stream"
    for key in query.partition_by:
        stream = f"stream.keyBy(e -> e.{getter(key)})"
    lines = [
        f"Pattern<Event, ?> pattern = {text};",
        f"PatternStream<Event> matches = CEP.pattern({stream}, pattern);",
    ]
    if query.measures is not None:
        lines.append(_rows(query, {event.variable for event in events}))
    return "\n".join(lines)


def _rows(query: SequenceQuery, variables: set[str]) -> str:
    """Return the statement that makes a row of the measures for each match."""
    single = variables - query.group_variables - query.absent_variables
    params, cells = dict(query.params), []
    for name, tree in query.measures or ():
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate) or (
                isinstance(node, ex.Reference) and (node.index is not None or node.variable not in single)
            ):
                refuse(FLINK, f"measure {name!r}: {node}", "only values of single events are translated")
        cells.append(SelectText("").text(with_values(tree, params)))
    names = ", ".join(name for name, _ in query.measures or ())
    return f"DataStream<Row> rows = matches.select(m -> Row.of({', '.join(cells)}));  // {names}"


def _check_clauses(query: SequenceQuery) -> None:
    """Raise if FlinkCEP has no answer to a clause of the query."""
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, sq.SequenceOf) else (pattern,)
    has_choice = "any" in steps_of(query)[1:] or not all(isinstance(part, sq.EventPattern) for part in parts)
    if query.ends_greedily:
        refuse(FLINK, "GREEDY at the end", "its greedy loops need a step after them")
    if query.after_match[0] != "none" and has_choice:
        refuse(
            FLINK, f"after_match={query.after_match[0]!r} where a start has several matches",
            "Flink skips in the order in which it finds them",
        )  # fmt: skip
    if query.strict_time:
        refuse(FLINK, "strict_time", "events with equal times may follow each other there")
    if query.within_events is not None:
        refuse(FLINK, f"WITHIN {query.within_events} EVENTS", "its windows are times")
    refuse_functions(FLINK, "WHERE", query)


def _event_of(part: sq.SequencePattern) -> sq.EventPattern:
    """Return the event of a part, or that of its loop or its absent event. Raise for groups."""
    body = part.body if isinstance(part, sq.Loop | sq.AbsentPattern) else part
    if not isinstance(body, sq.EventPattern):
        what = {sq.AllOf: "events in any order", sq.AnyOf: "alternatives"}.get(type(body), "groups")
        refuse(FLINK, f"{part}", f"{what} are not translated")
    return body


def _check_absent(parts: tuple[sq.SequencePattern, ...], place: int) -> None:
    """Raise if FlinkCEP cannot express the absent event at a place of the sequence."""
    if place in (0, len(parts) - 1):
        refuse(
            FLINK, f"{parts[place]}",
            "an absent event at an end of the pattern is decided by the window, and Flink's excludes its end",
        )  # fmt: skip
    if isinstance(parts[place + 1], sq.AbsentPattern) or isinstance(parts[place - 1], sq.AbsentPattern):
        refuse(FLINK, f"{parts[place]}", "two absent events between the same neighbours")
    if isinstance(parts[place - 1], sq.Loop) or isinstance(parts[place + 1], sq.Loop):
        refuse(FLINK, f"{parts[place]}", "an absent event beside a loop")


def _conditions(
    query: SequenceQuery, parts: tuple[sq.SequencePattern, ...], events: list[sq.EventPattern]
) -> list[list[str]]:
    """Return the Java conditions of each event."""
    place = {event.variable: i for i, event in enumerate(events)}
    query = with_all_values(query, dict(query.params))
    trees_of_event = conditions_of_events(FLINK, query, tuple(events))
    for event, trees in zip(events, trees_of_event, strict=True):
        for tree in trees:
            for name in referenced_variables(tree):
                earlier = parts[place[name]]
                if name != event.variable and isinstance(earlier, sq.AbsentPattern):
                    refuse(FLINK, f"WHERE {tree}", "an absent event does not know later events")
                if name != event.variable and isinstance(earlier, sq.Loop):
                    refuse(FLINK, f"WHERE {tree}", "conditions on several events of one variable")
    return [
        [_condition(event.variable, tree) for tree in trees]
        for event, trees in zip(events, trees_of_event, strict=True)
    ]


def _condition(own: str, tree: ex.Expression) -> str:
    """Return a condition of one event as a Java object."""
    text = JavaText(own).text(tree)
    others = dict.fromkeys(
        node.variable
        for node in tree.walk(literals=False)
        if isinstance(node, ex.Reference) and node.variable != own
    )
    if not others:
        return f"SimpleCondition.of(e -> {text})"
    lines = [
        f"            Event {_java_name(name)} = "
        f"ctx.getEventsForPattern({json.dumps(name)}).iterator().next();\n"
        for name in others
    ]
    return (
        "new IterativeCondition<Event>() {\n"
        "        @Override\n"
        "        public boolean filter(Event e, Context<Event> ctx) throws Exception {\n"
        f"{''.join(lines)}            return {text};\n"
        "        }\n"
        "    }"
    )


def _quantifier(query: SequenceQuery, loop: sq.Loop, steps: list[str | None]) -> str:
    """Return the Java calls that make a pattern of FlinkCEP a loop."""
    inner = loop.inner or query.strategy
    is_single = loop.high == 1
    used = [step or query.strategy for step in steps]
    if not is_single:
        used.append(inner)
    if query.scope == "run" and "next" in used:
        refuse(
            FLINK, f"{loop} under scope='run'",
            "relaxed contiguity skips no event that continues in the same way, which is scope='edge'",
        )  # fmt: skip
    if inner == "strict" and query.partition_by:
        refuse(FLINK, f"{loop}", "consecutive() looks at the events of the key only")
    after = steps[1] or query.strategy
    if loop.preference == "greedy" and not is_single and _STEPS[after] != _STEPS[inner]:
        refuse(
            FLINK, f"{loop}",
            "a greedy loop that skips other events between its rounds than before the next step",
        )  # fmt: skip
    if loop.preference == "reluctant":
        refuse(FLINK, f"{loop}", "it has no reluctant loops")
    text = ""
    match loop.low, loop.high:
        case 0, 1:
            return "\n    .optional()"
        case low, None:
            text += "\n    .oneOrMore()" if low <= 1 else f"\n    .timesOrMore({low})"
        case low, high if low == high:
            text += f"\n    .times({low})"
        case low, high:
            text += f"\n    .times({max(1, low)}, {high})"
    if loop.preference == "greedy":
        text += ".greedy()"
    if inner in ("strict", "partition"):
        text += ".consecutive()"
    if inner == "any":
        text += ".allowCombinations()"
    if loop.until is not None:
        if loop.high is not None:
            refuse(FLINK, f"{loop}", "until() belongs to loops without a limit")
        event = _event_of(loop).variable
        if any(isinstance(node, ex.Reference) for node in loop.until.walk(literals=False)):
            refuse(FLINK, f"UNTIL ({loop.until})", "it reads the tested event only")
        tree = _with_variable(with_values(loop.until, dict(query.params)), event)
        text += f"\n    .until({_condition(event, tree)})"
    return text + (".optional()" if loop.low == 0 else "")


def _with_variable(tree: ex.Expression, variable: str) -> ex.Expression:
    def put(node: ex.Expression) -> ex.Expression:
        return ex.Reference(variable, node.name) if isinstance(node, ex.Attribute) else node

    return rebuilt(tree, ex.Expression, put)


def _skip(query: SequenceQuery) -> str:
    """Return the skip strategy of FlinkCEP for `after_match`."""
    kind, variable = query.after_match
    if kind in ONCE:
        refuse(FLINK, f"after_match={kind!r}", "it has no strategy that uses each event once")
    if kind in _SKIPS_TO:
        return f"AfterMatchSkipStrategy.{_SKIPS_TO[kind]}({json.dumps(variable)})"
    return f"AfterMatchSkipStrategy.{_SKIPS[kind]}"


def _windows(query: SequenceQuery) -> str:
    """Return the Java call that sets the window, or an empty text if the query has none."""
    if query.within is not None and query.gap_within is not None:
        refuse(FLINK, "WITHIN and GAP together", "a pattern has one window")
    window, kind = query.within, ""
    if window is None:
        window, kind = query.gap_within, ", WithinType.PREVIOUS_AND_CURRENT"
    if window is None:
        return ""
    return f"\n    .within(Duration.ofMillis({_milliseconds(FLINK, window) + query.within_closed}){kind})"


def getter(column: str) -> str:
    words = re.split(r"[^A-Za-z0-9]+", column)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    if not re.fullmatch(r"[A-Za-z0-9]+", name):
        refuse(FLINK, f"column {column!r}", "no getter can have this name")
    return f"get{name}()"


def _java_name(variable: str) -> str:
    return variable + "_" if variable in ("e", "ctx") else variable


class JavaText(PortablePrinter):
    """Conditions of one event in Java, which is named ``e``."""

    target = FLINK
    and_, or_, not_ = " && ", " || ", "!"
    after_not = UNARY

    def reference(self, node: ex.Reference) -> str:
        event = "e" if node.variable == self.tested else _java_name(node.variable)
        return f"{event}.{getter(node.name or '')}"

    def literal(self, value: bool | int | float | str | None) -> tuple[str, int]:
        text, strength = super().literal(value)
        is_long = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**31
        return text + "L" * is_long, strength

    def quoted(self, value: str) -> str:
        return json.dumps(value)

    def comparison(self, sign: str, left: ex.Expression, right: ex.Expression) -> tuple[str, int]:
        """Return a comparison and its binding strength; texts are equal as objects."""
        columns = [side for side in (left, right) if isinstance(side, ex.Reference)]
        texts = [side for side in (left, right) if is_text(side)]
        if sign not in ("==", "!=") or not (texts or len(columns) == 2):
            return super().comparison(sign, left, right)
        if texts:
            if len(columns) != 1:
                refuse(FLINK, f"WHERE {left} {sign} {right}", "a text is compared with a column there")
            text = f"{self.text(texts[0])}.equals({self.text(columns[0])})"
        else:
            if columns[0].name != columns[1].name:
                refuse(FLINK, f"WHERE {left} {sign} {right}", "the types of the two columns may differ")
            text = f"Objects.equals({self.text(columns[0])}, {self.text(columns[1])})"
        return (f"!{text}", UNARY) if sign == "!=" else (text, ITEM)


class SelectText(JavaText):
    """Values of the events of a match in Java, which is the map ``m``."""

    def reference(self, node: ex.Reference) -> str:
        """Return the getter of a column at the event of a variable."""
        return f"m.get({json.dumps(node.variable)}).get(0).{getter(node.name or '')}"
