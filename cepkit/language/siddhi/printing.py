"""Convert the trees of SiddhiQL to text, in one canonical spelling."""

from __future__ import annotations

import math
import re

from cepkit.language.expressions import trees as ex
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
        "from", "select", "every", "not", "for", "within", "and", "or", "is", "in", "null", "true", "false",
        "as", "on", "of", "having", "begin", "end", "define", "partition", "insert", "return", "output",
        "group", "order", "limit", "offset", "join", "left", "right", "full", "inner", "unidirectional",
        "asc", "desc",
    ]
)  # fmt: skip
_NAME = re.compile(r"[^\W\d]\w*")
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("sec", 1_000))

# Binding strength of expressions.
_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _UNARY, _ITEM = range(8)


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


def print_condition(expression: ex.Expression) -> str:
    """Return an expression as SiddhiQL."""
    return _expression(expression)[0]


def _expression(expression: ex.Expression) -> tuple[str, int]:
    """Return the text of a node and its binding strength."""
    match expression:
        case ex.Literal(value=value):
            return _literal(value)
        case ex.Attribute(name=name):
            return siddhi_name(name), _ITEM
        case ex.Reference(variable=variable, name=name, index=index):
            if isinstance(index, int):
                place = f"[{index - 1}]"
            else:
                place = "" if index is None else f"[{index.replace(ex.LAST, 'last')}]"
            return f"{siddhi_name(variable)}{place}{'' if name is None else '.' + siddhi_name(name)}", _ITEM
        case ex.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(print_condition, arguments))})", _ITEM
        case ex.Negative(operand=operand):
            return f"-{_at_least(_UNARY, operand)}", _UNARY
        case ex.Arithmetic(operator=sign, left=left, right=right):
            strength = _SUM if sign in "+-" else _PRODUCT
            return f"{_at_least(strength, left)} {sign} {_at_least(strength + 1, right)}", strength
        case ex.Comparison(operator=sign, left=left, right=right):
            return f"{_at_least(_SUM, left)} {sign} {_at_least(_SUM, right)}", _TEST
        case ex.And(operands=operands):
            return " and ".join(_at_least(_NOT, operand) for operand in operands), _AND
        case ex.Or(operands=operands):
            return " or ".join(_at_least(_AND, operand) for operand in operands), _OR
        case ex.Not(operand=operand):
            return f"not {_at_least(_NOT, operand)}", _NOT
        case ex.IsNull(operand=operand):
            return f"{_at_least(_SUM, operand)} is null", _TEST
    raise TypeError(f"SiddhiQL has no text for {type(expression).__name__}")


def _literal(value: bool | int | float | str | None) -> tuple[str, int]:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value], _ITEM
    if isinstance(value, str):
        return _text(value), _ITEM
    if isinstance(value, Milliseconds):
        return siddhi_time(value), _ITEM
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"SiddhiQL cannot spell the number {value}")
        return float.__repr__(value), _ITEM if math.copysign(1, value) > 0 else _UNARY
    return str(value), _ITEM if value >= 0 else _UNARY


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _at_least(tightness: int, expression: ex.Expression) -> str:
    text, strength = _expression(expression)
    return text if strength >= tightness else f"({text})"


for _kind in (DefinedStream, SiddhiQuery, SiddhiPartition):
    text_of.register(_kind, print_element)
text_of.register(SiddhiApp, print_siddhi)
text_of.register(sp.StatePattern, print_states)
