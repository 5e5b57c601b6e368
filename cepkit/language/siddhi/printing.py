"""Convert the trees of SiddhiQL to text, in one canonical spelling."""

from __future__ import annotations

import re
from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import ITEM, SUM, UNARY, ExpressionPrinter
from cepkit.language.expressions.trees import text_of
from cepkit.language.siddhi import query as sp
from cepkit.language.siddhi.building import Milliseconds
from cepkit.language.siddhi.query import (
    DefinedStream,
    JoinInput,
    JoinSide,
    PartitionKey,
    PatternInput,
    SiddhiApp,
    SiddhiPartition,
    SiddhiQuery,
    StreamInput,
)

# Words that a name without backticks cannot be, or should not be.
_RESERVED = frozenset(
    [
        "stream", "define", "function", "trigger", "table", "app", "from", "partition", "window",
        "select", "group", "by", "order", "limit", "offset", "asc", "desc", "having", "insert", "delete",
        "update", "set", "return", "events", "into", "output", "expired", "current", "snapshot", "for",
        "raw", "of", "as", "at", "or", "and", "in", "on", "is", "not", "within", "with", "begin", "end",
        "null", "every", "last", "all", "first", "join", "inner", "outer", "right", "left", "full",
        "unidirectional", "false", "true", "per"
    ]
)  # fmt: skip
_NAME = re.compile(r"[^\W\d]\w*")
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("sec", 1_000))


def siddhi_name(name: str) -> str:
    """Return a name as SiddhiQL spells it, in backticks where it needs them."""
    if name.startswith("#"):
        return "#" + siddhi_name(name[1:])
    plain = _NAME.fullmatch(name) and name.lower() not in _RESERVED
    return name if plain else f"`{name}`"


def siddhi_time(milliseconds: int) -> str:
    """Return a duration as SiddhiQL spells it."""
    for unit, size in _UNITS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} milliseconds"


# --- apps --------------------------------------------------------------------------------------------------


def print_siddhi(app: SiddhiApp) -> str:
    """Return an app as text that parses to an equal tree."""
    return "\n".join(f"{print_element(element)};" for element in (*app.streams, *app.elements))


def print_element(element: DefinedStream | SiddhiQuery | SiddhiPartition) -> str:
    """Return a statement as text, without the ``;`` after it."""
    match element:
        case DefinedStream(name=name, attributes=attributes):
            listed = ", ".join(f"{siddhi_name(attribute)} {kind}" for attribute, kind in attributes)
            return f"define stream {siddhi_name(name)} ({listed})"
        case SiddhiPartition(keys=keys, queries=queries):
            inside = "\n".join(f"{print_element(query)};" for query in queries)
            return f"partition with ({', '.join(map(_key, keys))})\nbegin\n{inside}\nend"
    return _query(element)


def _key(key: PartitionKey) -> str:
    if key.value is not None:
        return f"{print_condition(key.value)} of {siddhi_name(key.stream)}"
    ranges = " or ".join(f"{print_condition(condition)} as {_text(name)}" for condition, name in key.ranges)
    return f"{ranges} of {siddhi_name(key.stream)}"


def _query(query: SiddhiQuery) -> str:
    lines = [f"@info(name={_text(query.name)})"] if query.name is not None else []
    lines.append(f"from {_input(query.input)}")
    columns = [
        print_condition(column.value) + (f" as {siddhi_name(column.name)}" if column.name is not None else "")
        for column in query.select
    ]
    lines.append(f"select {', '.join(columns) or '*'}")
    if query.group_by:
        lines.append(f"group by {', '.join(map(print_condition, query.group_by))}")
    if query.having is not None:
        lines.append(f"having {print_condition(query.having)}")
    if query.order_by:
        keys = [print_condition(key.value) + " desc" * key.descending for key in query.order_by]
        lines.append(f"order by {', '.join(keys)}")
    lines += [f"limit {query.limit}"] * (query.limit is not None)
    lines += [f"offset {query.offset}"] * (query.offset is not None)
    if query.target is None:
        lines.append("return")
    else:
        events = "" if query.events == "current" else f"{query.events} events "
        lines.append(f"insert {events}into {siddhi_name(query.target)}")
    return "\n".join(lines)


def _input(given: StreamInput | JoinInput | PatternInput) -> str:
    match given:
        case StreamInput(source=source):
            return _source(source)
        case JoinInput(left=left, right=right, how=how, on=on):
            word = "join" if how == "inner" else f"{how} outer join"
            alone = left.is_trigger != right.is_trigger
            condition = "" if on is None else f" on {print_condition(on)}"
            return f"{_side(left, alone)} {word} {_side(right, alone)}{condition}"
        case PatternInput(pattern=pattern, is_sequence=is_sequence, within_ms=within):
            text = print_states(pattern, is_sequence=is_sequence)
            return text if within is None else f"{text} within {siddhi_time(within)}"
    raise TypeError(f"no text for {type(given).__name__}")


def _side(side: JoinSide, alone: bool) -> str:
    name = "" if side.reference is None else f" as {siddhi_name(side.reference)}"
    return f"{_source(side.source)}{name}{' unidirectional' * (alone and side.is_trigger)}"


def _source(source: sp.StreamSource) -> str:
    handlers = []
    for handler in source.handlers:
        if isinstance(handler, sp.FilterHandler):
            handlers.append(f"[{print_condition(handler.condition)}]")
        else:
            handlers.append(f"#window.{handler.name}({', '.join(map(print_condition, handler.arguments))})")
    return siddhi_name(source.stream) + "".join(handlers)


# --- patterns ----------------------------------------------------------------------------------------------


def print_states(pattern: sp.StatePattern, *, is_sequence: bool = False) -> str:
    """Return a pattern or a sequence as text."""
    match pattern:
        case sp.StateChain(parts=parts):
            sign = ", " if is_sequence else " -> "
            return sign.join(_grouped(part, sp.StateChain, is_sequence) for part in parts)
        case sp.EveryState(body=body):
            return f"every {_grouped(body, sp.StateChain | sp.LogicalState | sp.EveryState, is_sequence)}"
        case sp.LogicalState(operator=operator, left=left, right=right):
            return f"{print_states(left)} {operator} {print_states(right)}"
        case sp.AbsentState(source=source, wait_ms=wait):
            return f"not {_source(source)}{'' if wait is None else f' for {siddhi_time(wait)}'}"
        case sp.CountedState(body=body, low=low, high=high):
            bounds = f"{low}" if low == high else f"{low}:{'' if high is None else high}"
            return f"{print_states(body)}<{bounds}>"
        case sp.EventState(source=source, reference=reference):
            return f"{'' if reference is None else siddhi_name(reference) + '='}{_source(source)}"
    raise TypeError(f"no text for {type(pattern).__name__}")


def _grouped(part: sp.StatePattern, kinds, is_sequence: bool) -> str:
    text = print_states(part, is_sequence=is_sequence)
    return f"({text})" if isinstance(part, kinds) else text


# --- expressions -------------------------------------------------------------------------------------------


class SiddhiPrinter(ExpressionPrinter):
    """Prints expressions as SiddhiQL."""

    after_not = UNARY  # Siddhi's `not` binds like a sign

    def name(self, name: str) -> str:
        """Return the name of an attribute."""
        return siddhi_name(name)

    def reference(self, node: ex.Reference) -> str:
        """Return an attribute of an event; Siddhi counts events from 0."""
        if isinstance(node.index, int):
            place = f"[{node.index - 1}]"
        else:
            place = "" if node.index is None else f"[{node.index.replace(ex.LAST, 'last')}]"
        return (
            f"{siddhi_name(node.variable)}{place}{'' if node.name is None else '.' + siddhi_name(node.name)}"
        )

    def literal(self, value: bool | int | float | str | None) -> tuple[str, int]:
        """Return a constant and its binding strength."""
        if isinstance(value, Milliseconds):
            return siddhi_time(value), ITEM
        return super().literal(value)

    def quoted(self, value: str) -> str:
        """Return a text as a constant."""
        return _text(value)

    def test(self, expression: Any, negation: str) -> str:
        """Return a test of a missing value, the only test that Siddhi spells so."""
        if isinstance(expression, ex.IsNull):
            return f"{negation}{self.at_least(SUM, expression.operand)} is null"
        raise TypeError(f"SiddhiQL has no text for {type(expression).__name__}")


_PRINTER = SiddhiPrinter()
print_condition = _PRINTER.text


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


for _kind in (DefinedStream, SiddhiQuery, SiddhiPartition):
    text_of.register(_kind, print_element)
text_of.register(SiddhiApp, print_siddhi)
text_of.register(sp.StatePattern, print_states)
