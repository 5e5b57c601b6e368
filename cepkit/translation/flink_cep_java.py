"""Sequences as patterns of FlinkCEP's Java library.

The text is not run here. Contiguity has the same names in both: next, followedBy, followedByAny. Flink's
window excludes its end and its times are whole milliseconds, so a window that includes its end is one longer.
"""

from __future__ import annotations

import json
import re

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.expressions.printing import ITEM, UNARY
from cepkit.language.query_parts import Duration
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.query import SequenceQuery
from cepkit.translation.chains import refuse, with_values
from cepkit.translation.siddhi import PortablePrinter, is_text
from cepkit.translation.to_chains import steps_of, with_counts

TARGET = "flink_cep_java"
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
                refuse(TARGET, "strict_contiguity with a key", "next looks at the events of the key only")
            if after_absent and how in ("strict", "partition"):
                refuse(TARGET, f"{parts[place - 1]} before a neighbour", "no event is between neighbours")
            text += f"\n    .{_STEPS[how]}({json.dumps(events[place].variable)})"
        text += "".join(f"\n    .where({test})" for test in tests[place])
        if isinstance(part, sq.Loop):
            text += _quantifier(query, part, [step, steps[place + 1] if place + 1 < len(steps) else None])
        after_absent = isinstance(part, sq.AbsentPattern)
    text += _windows(query)
    stream = "stream"
    if query.partition_by:
        key, *others = query.partition_by
        if others:
            refuse(TARGET, f"[{', '.join(query.partition_by)}]", "make one column of the keys first")
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
                refuse(TARGET, f"measure {name!r}: {node}", "only values of single events are translated")
        cells.append(SelectText("").text(with_values(tree, params)))
    names = ", ".join(name for name, _ in query.measures or ())
    return f"DataStream<Row> rows = matches.select(m -> Row.of({', '.join(cells)}));  // {names}"


def _check_clauses(query: SequenceQuery) -> None:
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, sq.SequenceOf) else (pattern,)
    has_choice = "any" in steps_of(query)[1:] or not all(isinstance(part, sq.EventPattern) for part in parts)
    if query.after_match[0] != "none" and has_choice:
        refuse(
            TARGET, f"after_match={query.after_match[0]!r} where a start has several matches",
            "Flink skips in the order in which it finds them",
        )  # fmt: skip
    if query.strict_time:
        refuse(TARGET, "strict_time", "events with equal times may follow each other there")
    if query.within_events is not None:
        refuse(TARGET, f"WITHIN {query.within_events} EVENTS", "its windows are times")
    for name, _ in query.functions:
        refuse(TARGET, f"WHERE: {name}()", "a function of Python has no text")


def _event_of(part: sq.SequencePattern) -> sq.EventPattern:
    body = part.body if isinstance(part, sq.Loop | sq.AbsentPattern) else part
    if not isinstance(body, sq.EventPattern):
        what = {sq.AllOf: "events in any order", sq.AnyOf: "alternatives"}.get(type(body), "groups")
        refuse(TARGET, f"{part}", f"{what} are not translated")
    return body


def _check_absent(parts: tuple[sq.SequencePattern, ...], place: int) -> None:
    if place in (0, len(parts) - 1):
        refuse(
            TARGET, f"{parts[place]}",
            "an absent event at an end of the pattern is decided by the window, and Flink's excludes its end",
        )  # fmt: skip
    if isinstance(parts[place + 1], sq.AbsentPattern) or isinstance(parts[place - 1], sq.AbsentPattern):
        refuse(TARGET, f"{parts[place]}", "two absent events between the same neighbours")
    if isinstance(parts[place - 1], sq.Loop) or isinstance(parts[place + 1], sq.Loop):
        refuse(TARGET, f"{parts[place]}", "an absent event beside a loop")


def _conditions(
    query: SequenceQuery, parts: tuple[sq.SequencePattern, ...], events: list[sq.EventPattern]
) -> list[list[str]]:
    """Return the texts of the conditions of each event."""
    place = {event.variable: i for i, event in enumerate(events)}
    params = dict(query.params)
    trees_of_event: list[list[ex.Expression]] = [[] for _ in events]
    for i, event in enumerate(events):
        if event.event_type is not None:
            if query.event_type is None:
                refuse(TARGET, f"the type {event.event_type}", "name the column of types with event_type=")
            type_reference = ex.Reference(event.variable, query.event_type)
            trees_of_event[i].append(ex.Comparison("==", type_reference, ex.Literal(event.event_type)))
    for condition in query.where:
        for part in ex.conjuncts(with_values(condition, params)):
            named = []
            for node in part.walk(literals=False):
                if isinstance(node, ex.Aggregate) or (
                    isinstance(node, ex.Reference) and (node.name is None or node.index not in (None, "i"))
                ):
                    refuse(TARGET, f"WHERE {part}", "conditions on several events of one variable")
                if isinstance(node, ex.Reference):
                    named.append(place[node.variable])
            last = max(named, default=0)
            absent = [i for i in named if isinstance(parts[i], sq.AbsentPattern)]
            if absent and last != absent[0]:
                refuse(TARGET, f"WHERE {part}", "an absent event does not know later events")
            for i in named:
                if i != last and isinstance(parts[i], sq.Loop):
                    refuse(TARGET, f"WHERE {part}", "conditions on several events of one variable")
            trees_of_event[last].append(part)
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
    inner = loop.inner or query.strategy
    is_single = loop.high == 1
    used = [step or query.strategy for step in steps] + ([] if is_single else [inner])
    if query.scope == "run" and "next" in used:
        refuse(
            TARGET, f"{loop} under scope='run'",
            "relaxed contiguity skips no event that continues in the same way, which is scope='edge'",
        )  # fmt: skip
    if inner == "strict" and query.partition_by:
        refuse(TARGET, f"{loop}", "consecutive() looks at the events of the key only")
    after = steps[1] or query.strategy
    if loop.preference == "greedy" and not is_single and _STEPS[after] != _STEPS[inner]:
        refuse(
            TARGET, f"{loop}",
            "a greedy loop that skips other events between its rounds than before the next step",
        )  # fmt: skip
    if loop.preference == "reluctant":
        refuse(TARGET, f"{loop}", "it has no reluctant loops")
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
    text += {"strict": ".consecutive()", "partition": ".consecutive()", "any": ".allowCombinations()"}.get(
        inner, ""
    )
    if loop.until is not None:
        if loop.high is not None:
            refuse(TARGET, f"{loop}", "until() belongs to loops without a limit")
        event = _event_of(loop).variable
        if any(isinstance(node, ex.Reference) for node in loop.until.walk(literals=False)):
            refuse(TARGET, f"UNTIL ({loop.until})", "it reads the tested event only")
        tree = _as_own(with_values(loop.until, dict(query.params)), event)
        text += f"\n    .until({_condition(event, tree)})"
    return text + (".optional()" if loop.low == 0 else "")


def _as_own(tree: ex.Expression, variable: str) -> ex.Expression:
    from cepkit.language.expressions.trees import rebuilt

    def put(node: ex.Expression) -> ex.Expression:
        return ex.Reference(variable, node.name) if isinstance(node, ex.Attribute) else node

    return rebuilt(tree, ex.Expression, put)


def _skip(query: SequenceQuery) -> str:
    kind, variable = query.after_match
    if kind in _SKIPS_TO:
        return f"AfterMatchSkipStrategy.{_SKIPS_TO[kind]}({json.dumps(variable)})"
    return f"AfterMatchSkipStrategy.{_SKIPS[kind]}"


def _windows(query: SequenceQuery) -> str:
    if query.within is not None and query.gap_within is not None:
        refuse(TARGET, "WITHIN and GAP together", "a pattern has one window")
    if query.within is not None:
        return f"\n    .within(Duration.ofMillis({_milliseconds(query.within, query)}))"
    if query.gap_within is not None:
        limit = _milliseconds(query.gap_within, query)
        return f"\n    .within(Duration.ofMillis({limit}), WithinType.PREVIOUS_AND_CURRENT)"
    return ""


def _milliseconds(window: Duration, query: SequenceQuery) -> int:
    if isinstance(window, int):
        refuse(TARGET, f"WITHIN {window}", "a window there has a unit, as in '5 s'")
    microseconds = duration_ticks(window, "us")
    if microseconds % 1000:
        refuse(TARGET, f"WITHIN {window}", "its clock counts milliseconds")
    return microseconds // 1000 + query.within_closed


def getter(column: str) -> str:
    """Return the call of the getter of a column."""
    words = re.split(r"[^A-Za-z0-9]+", column)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    if not re.fullmatch(r"[A-Za-z0-9]+", name):
        refuse(TARGET, f"column {column!r}", "no getter can have this name")
    return f"get{name}()"


def _java_name(variable: str) -> str:
    return variable + "_" if variable in ("e", "ctx") else variable


class JavaText(PortablePrinter):
    """Conditions of one event in Java, which is named ``e``."""

    target = TARGET
    and_, or_, not_ = " && ", " || ", "!"
    after_not = UNARY

    def reference(self, node: ex.Reference) -> str:
        """Return the getter of a column."""
        event = "e" if node.variable == self.tested else _java_name(node.variable)
        return f"{event}.{getter(node.name or '')}"

    def literal(self, value: bool | int | float | str | None) -> tuple[str, int]:
        """Return a constant and its binding strength."""
        text, strength = super().literal(value)
        is_long = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**31
        return text + "L" * is_long, strength

    def quoted(self, value: str) -> str:
        """Return a text as a constant."""
        return json.dumps(value)

    def comparison(self, sign: str, left: ex.Expression, right: ex.Expression) -> tuple[str, int]:
        """Return a comparison and its binding strength; texts are equal as objects."""
        columns = [side for side in (left, right) if isinstance(side, ex.Reference)]
        texts = [side for side in (left, right) if is_text(side)]
        if sign not in ("==", "!=") or not (texts or len(columns) == 2):
            return super().comparison(sign, left, right)
        if texts:
            if len(columns) != 1:
                refuse(TARGET, f"WHERE {left} {sign} {right}", "a text is compared with a column there")
            text = f"{self.text(texts[0])}.equals({self.text(columns[0])})"
        else:
            if columns[0].name != columns[1].name:
                refuse(TARGET, f"WHERE {left} {sign} {right}", "the types of the two columns may differ")
            text = f"Objects.equals({self.text(columns[0])}, {self.text(columns[1])})"
        return (f"!{text}", UNARY) if sign == "!=" else (text, ITEM)


class SelectText(JavaText):
    """Values of the events of a match in Java, which is the map ``m``."""

    def reference(self, node: ex.Reference) -> str:
        """Return the getter of a column at the event of a variable."""
        return f"m.get({json.dumps(node.variable)}).get(0).{getter(node.name or '')}"
