"""Build the trees of SiddhiQL from the rules of ``siddhi.lark`` during parsing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cepkit.errors import did_you_mean
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import (
    LONGEST_NUMBER,
    TOO_LONG,
    ExpressionBuilder,
    Refusal,
    span_of,
    whole_number,
)
from cepkit.language.siddhi import query as sp
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from lark import Token


# Milliseconds of a unit. Siddhi's month has 30 days and its year 365.
_UNITS = {
    "millisecond": 1, "milliseconds": 1, "millisec": 1, "ms": 1,
    "sec": 1_000, "second": 1_000, "seconds": 1_000,
    "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "hour": 3_600_000, "hours": 3_600_000,
    "day": 86_400_000, "days": 86_400_000,
    "week": 604_800_000, "weeks": 604_800_000,
    "month": 2_592_000_000, "months": 2_592_000_000,
    "year": 31_536_000_000, "years": 31_536_000_000,
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class NamePart(NamedTuple):
    """A name and where it is."""

    text: str
    span: tuple[int, int]


class Milliseconds(int):
    """A duration, with its place in the text."""

    span: tuple[int, int]

    def __new__(cls, value: int, span: tuple[int, int] = (0, 0)):
        number = super().__new__(cls, value)
        number.span = span
        return number


def text_of_token(token: Token) -> str:
    """Return the characters between the quotes of a SiddhiQL text."""
    size = 3 if token.startswith('"""') else 1
    inside = str(token)[size:-size]
    if size == 3:
        return inside
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), inside)


class SiddhiExpressionBuilder(ExpressionBuilder):
    """The parser's callbacks for expressions. Most of them are those of predicates."""

    def time(self, children):
        """Return the milliseconds of a time such as `1 hour 30 min`."""
        total, start = 0, children[0].start_pos
        for number, unit in zip(children[::2], children[1::2], strict=True):
            if unit.lower() not in _UNITS:
                hint = did_you_mean(unit, _UNITS)
                raise Refusal(
                    f"no unit of time {str(unit)!r}; write milliseconds, sec, min, hours or days{hint}",
                    (unit.start_pos, unit.end_pos),
                )
            total += whole_number(number) * _UNITS[unit.lower()]
        return Milliseconds(total, (start, children[-1].end_pos))

    def name(self, children):
        token = children[0]
        text = str(token)[1:-1] if token.startswith("`") else str(token)
        return NamePart(text, (token.start_pos, token.end_pos))

    def is_missing(self, children):
        return ex.IsNull(children[0], span=span_of([children[0], children[-1]]))

    def in_table(self, children):
        word = children[1]
        raise Refusal("'in' looks into a table, and tables do not run", (word.start_pos, word.end_pos))

    def attribute(self, children):
        name, span = children[0]
        return ex.Attribute(name, span=span)

    def reference(self, children):
        variable, _, name = children
        return ex.Reference(variable.text, name.text, span=(variable.span[0], name.span[1]))

    def indexed_reference(self, children):
        variable, _, index, _, _, name = children
        return ex.Reference(variable.text, name.text, index, span=(variable.span[0], name.span[1]))

    def indexed_event(self, children):
        variable, _, index, last = children
        return ex.Reference(variable.text, None, index, span=(variable.span[0], last.end_pos))

    def index(self, children):
        """Return the index of e1[0], counted from 1, or the text of e1[last] or e1[last-1]."""
        first, minus, *rest = [*children, None, None][:3]
        if first.isdecimal():
            return whole_number(first) + 1
        if first.lower() != "last":
            raise Refusal(
                f"an index is a number from 0, last, or last-1; found {str(first)!r}",
                (first.start_pos, first.end_pos),
            )
        return ex.LAST if minus is None else f"{ex.LAST}-{whole_number(rest[0])}"

    def call(self, children):
        name, _, *arguments, _ = children
        return ex.Call(str(name), _values(arguments), span=span_of(children))

    def call_of_all(self, children):
        name, _, sign, _ = children
        if sign != "*" or name.lower() != "count":
            raise Refusal(f"write {name}(attribute)", span_of(children))
        return ex.Call(str(name), (), span=span_of(children))

    def call_of_namespace(self, children):
        space, name, _, *arguments, _ = children
        return ex.Call(f"{space}:{name}", _values(arguments), span=span_of(children))

    def long(self, children):
        return ex.Literal(whole_number(children[0], children[0][:-1]), span=span_of(children))

    def decimal(self, children):
        value = float(children[0].rstrip("fFdD"))
        if value == float("inf"):
            raise Refusal("the number is too large for a double", span_of(children))
        return ex.Literal(value, span=span_of(children))

    def text(self, children):
        return ex.Literal(text_of_token(children[0]), span=span_of(children))

    def duration(self, children):
        return ex.Literal(children[0], span=children[0].span)


def _values(arguments: list) -> tuple[ex.Expression, ...]:
    return tuple(argument for argument in arguments if argument is not None)


MIXED_SIGNS = "a pattern has '->' between its states, and a sequence ','; use one"
_COUNT = re.compile(r"<\s*(?P<low>[0-9]*)\s*(?P<colon>:?)\s*(?P<high>[0-9]*)\s*>")


class _Named(NamedTuple):
    """A part of a query with the name of its clause."""

    clause: str
    value: Any


@dataclass(frozen=True, slots=True)
class _SignedChain(sp.StateChain):
    """A chain with the sign between its states, while the whole pattern is not known."""

    sign: str = ""


class _Part(NamedTuple):
    """A value without a span of its own, and where it is."""

    value: Any
    span: tuple[int, int]


class _SiddhiBuilder(SiddhiExpressionBuilder):
    """The parser's callbacks, one method for each rule and alias of ``siddhi.lark``."""

    # --- apps

    def start(self, children):
        elements = [element for element in children if element is not None]
        streams = tuple(element for element in elements if isinstance(element, sp.DefinedStream))
        return sp.SiddhiApp(
            streams, tuple(element for element in elements if not isinstance(element, sp.DefinedStream))
        )

    def statement(self, children):
        *annotations, element = children
        return _annotated(element, annotations)

    def inner_query(self, children):
        return self.statement(children)

    def annotation(self, children):
        at, first, second, *rest = children
        items = [item for item in rest if isinstance(item, tuple) and not isinstance(item, NamePart)]
        name = str(first if second is None else f"{first}:{second}").lower()
        return _Part((name, items), (at.start_pos, at.end_pos + len(first)))

    def annotation_item(self, children):
        if isinstance(children[0], _Part):
            return children[0].value
        spelled = [str(getattr(child, "text", child)) for child in children if child is not None]
        if "=" in spelled:
            return "".join(spelled[: spelled.index("=")]).lower(), _constant(children[-1])
        return "", _constant(children[-1])

    def definition(self, children):
        """Return the stream that `define stream` describes. Raise if it has an attribute twice."""
        _, (name, span), _, *attributes, _ = children
        seen: set[str] = set()
        for attribute, _kind, place in attributes:
            if attribute in seen:
                raise Refusal(f"stream {name!r} defines {attribute!r} twice", place)
            seen.add(attribute)
        return sp.DefinedStream(
            name, tuple((attribute_name, kind) for attribute_name, kind, _ in attributes), span=span
        )

    def attribute_type(self, children):
        """Return the name, the type and the place of an attribute. Raise if the type is unknown."""
        name, kind = children
        lower = kind.lower()
        if lower not in sp.TYPES:
            hint, types = did_you_mean(kind, sp.TYPES), ", ".join(sp.TYPES)
            raise Refusal(
                f"{name.text!r} has the type {str(kind)!r}; types: {types}{hint}",
                (kind.start_pos, kind.end_pos),
            )
        return name.text, lower, name.span

    def partition(self, children):
        keys = [child for child in children if isinstance(child, sp.PartitionKey)]
        queries = [child for child in children if isinstance(child, sp.SiddhiQuery)]
        return sp.SiddhiPartition(tuple(keys), tuple(queries))

    def value_key(self, children):
        value, (stream, _) = children
        return sp.PartitionKey(stream, value)

    def range_key(self, children):
        *ranges, (stream, _) = children
        return sp.PartitionKey(stream, None, tuple(ranges))

    def key_range(self, children):
        condition, label = children
        return condition, text_of_token(label)

    # --- queries

    def query(self, children):
        """Return a query of its input, its clauses and its output. Raise for a limit of the output rate."""
        start, query_input, *parts = children
        named = {part.clause: part.value for part in parts if isinstance(part, _Named)}
        if (rate := named.get("rate")) is not None:
            words = " ".join(str(rate).split())
            raise Refusal(
                f"{words!r} limits the rate of the output, and does not run; take rows of the result instead",
                (rate.start_pos, rate.end_pos),
            )
        target, events, span = named["output"]
        return sp.SiddhiQuery(
            query_input, named.get("select", ()), named.get("group_by", ()), named.get("having"),
            named.get("order_by", ()), named.get("limit"), named.get("offset"), target, events,
            span=(start.start_pos, span[1]),
        )  # fmt: skip

    def select_all(self, children):
        return _Named("select", ())

    def select(self, children):
        return _Named("select", tuple(children))

    def column(self, children):
        value, name = children
        return sp.OutputColumn(value, None if name is None else name.text)

    def group_by(self, children):
        return _Named("group_by", tuple(children))

    def having(self, children):
        return _Named("having", children[0])

    def order_by(self, children):
        return _Named("order_by", tuple(children))

    def sort_column(self, children):
        value, direction = children
        return sp.SortColumn(value, direction is not None and direction.lower() == "desc")

    def limit(self, children):
        return _Named("limit", whole_number(children[0]))

    def offset(self, children):
        return _Named("offset", whole_number(children[0]))

    def rate(self, children):
        return _Named("rate", children[0])

    def output(self, children):
        """Return the target of `insert into`, and which events go there: current, expired or all."""
        word = children[0]
        span = (word.start_pos, word.end_pos)
        if len(children) == 1:
            return _Named("output", (None, "current", span))
        words = word.lower().split()
        if words[-1] != "into":
            raise Refusal(f"write {word!s} into {children[1][0]}", span)
        return _Named("output", (children[1][0], words[1] if len(words) > 2 else "current", children[1][1]))

    # --- inputs

    def join(self, children):
        """Return the join of two streams; both sides trigger it unless one is marked unidirectional."""
        left, kind, right, condition, within = children
        if within is not None:
            raise Refusal("'within' of a join belongs to aggregations; give the streams windows", within.span)
        words = kind.lower().split()
        how = words[0] if len(words) == 3 else "inner"
        sides, triggers = [], [side for side, is_single in (left, right) if is_single]
        for side, _ in (left, right):
            sides.append(replace(side, is_trigger=not triggers or side in triggers))
        return sp.JoinInput(sides[0], sides[1], how, condition)

    def joined_source(self, children):
        source, name, single = children
        return sp.JoinSide(source, None if name is None else name.text), single is not None

    def on(self, children):
        return children[0]

    def joined_within(self, children):
        return _Part(None, span_of(children[:1]))

    def pattern(self, children):
        """Return the input of a pattern (signs ->) or a sequence (signs ,). Raise if the signs are mixed."""
        pattern, within = children
        if isinstance(pattern, sp.EventState) and pattern.reference is None and within is None:
            return sp.StreamInput(pattern.source)
        kinds = {node.sign for node in pattern.walk() if isinstance(node, _SignedChain)}
        pattern = _plain(pattern)
        if len(kinds) > 1:
            raise Refusal(MIXED_SIGNS, pattern.span or (0, 1))
        return sp.PatternInput(pattern, "," in kinds, within)

    def within(self, children):
        return children[1]

    def pattern_chain(self, children):
        return self._chain(children[::2], "->")

    def sequence_chain(self, children):
        return self._chain(children, ",")

    def _chain(self, parts, sign):
        start, stop = parts[0].span[0], parts[-1].span[1]
        return _SignedChain(tuple(parts), sign, span=(start, stop))

    def every(self, children):
        if isinstance(children[1], sp.EveryState):
            raise Refusal("'every every' says it twice; write it once", span_of(children[:1]))
        return sp.EveryState(children[1], span=(children[0].start_pos, children[1].span[1]))

    def state_group(self, children):
        _, chain, within, last = children
        if within is not None:
            raise Refusal(
                "'within' in brackets is not part of Siddhi 5; write it once, after the whole pattern",
                (last.start_pos, last.end_pos),
            )
        return chain

    def both(self, children):
        return self._logical("and", children)

    def either(self, children):
        return self._logical("or", children)

    def _logical(self, operator, children):
        """Return the state of two sides joined by `and` or `or`. Raise for sides that cannot be joined."""
        for state in children:
            if isinstance(state, sp.CountedState):
                raise Refusal(
                    f"'{operator}' takes single events; a count cannot be a side of it", state.span or (0, 1)
                )
        absent = [state for state in children if isinstance(state, sp.AbsentState)]
        endless = [state for state in absent if state.wait_ms is None]
        if operator == "or" and endless:
            raise Refusal(
                "'not' beside 'or' needs a time: write not A for 1 sec or e2=B", endless[0].span or (0, 1)
            )
        if len(absent) == 2 and endless:
            raise Refusal(
                "'not' beside 'not' needs a time: write not A for 1 sec and …", endless[0].span or (0, 1)
            )
        span = (children[0].span[0], children[1].span[1])
        first, second = (*absent, *(state for state in children if state not in absent))  # Siddhi's order
        return sp.LogicalState(operator, first, second, span=span)

    def absent(self, children):
        word, source, wait = children
        if wait == 0:
            raise Refusal("'not … for' needs a time above 0", (word.start_pos, source.span[1]))
        return sp.AbsentState(source, wait, span=(word.start_pos, source.span[1]))

    def event(self, children):
        """Return the state of one event, with its name and its count, if any."""
        name, _, source, times = children
        start = source.span[0] if name is None else name.span[0]
        state = sp.EventState(source, None if name is None else name.text, span=(start, source.span[1]))
        if times is None:
            return state
        low, high = times
        return sp.CountedState(state, low, high, span=state.span)

    def times(self, children):
        """Return how many events a count such as <2:5> or + takes, at least and at most."""
        token = children[0]
        place = (token.start_pos, token.end_pos)
        if token in ("+", "*", "?"):
            return {"+": (1, None), "*": (0, None), "?": (0, 1)}[str(token)]
        match = _COUNT.fullmatch(token)
        if match is None:
            raise Refusal(f"{str(token)!r} is no count; write <2:5>, <2:>, <:5>, <3>, + * or ?", place)
        if len(token) > LONGEST_NUMBER:
            raise Refusal(TOO_LONG, place)
        low = int(match["low"] or 0)
        high = (int(match["high"]) if match["high"] else None) if match["colon"] else low
        if high is not None and high < max(low, 1):
            raise Refusal(f"the upper bound {high} must be 1 or more, and not below the lower one", place)
        return low, high

    def source(self, children):
        (name, span), *handlers = children
        windows = [handler for handler in handlers if isinstance(handler, sp.WindowHandler)]
        if len(windows) > 1:
            raise Refusal("a stream has one window", windows[1].span or span)
        return sp.StreamSource(name, tuple(handlers), span=span)

    def stream_name(self, children):
        return children[0]

    def inner_stream(self, children):
        sign, name = children
        return NamePart("#" + name.text, (sign.start_pos, name.span[1]))

    def filter(self, children):
        return sp.FilterHandler(children[1])

    def hash_filter(self, children):
        return sp.FilterHandler(children[2])

    def window(self, children):
        sign, name, *rest = children
        arguments = [argument for argument in rest if isinstance(argument, ex.Expression)]
        return sp.WindowHandler(str(name), tuple(arguments), span=(sign.start_pos, name.end_pos))

    def stream_function(self, children):
        names = [str(name_part) for name_part in children[1:3] if name_part is not None]
        name = ":".join(names)
        place = (children[0].start_pos, children[1].end_pos)
        raise Refusal(f"the stream function #{name}(…) does not run; compute its values before", place)


def _constant(token: Token) -> str:
    return text_of_token(token) if token.type == "STRING" else str(token)


def _plain(pattern: sp.StatePattern) -> sp.StatePattern:
    """Return a pattern whose chains lie in their brackets' chains no longer, with spans of two numbers."""
    match pattern:
        case sp.StateChain(parts=parts, span=span):
            flat: list[sp.StatePattern] = []
            for part in map(_plain, parts):
                flat.extend(part.parts if isinstance(part, sp.StateChain) else (part,))
            return sp.StateChain(tuple(flat), span=span)
        case sp.EveryState(body=body):
            return replace(pattern, body=_plain(body))
        case sp.AbsentState(wait_ms=None):
            raise Refusal("'not' needs a time here: write not A for 1 sec", pattern.span or (0, 1))
        case sp.LogicalState():
            return pattern
    return pattern


def _annotated(element: Any, annotations: list[_Part]) -> Any:
    """Return a query with the name that its annotation @info gives. Raise for @async."""
    for (name, items), span in annotations:
        if name == "async":
            raise Refusal(
                "@async hands events to threads, so Siddhi's answer depends on their order; leave it out",
                span,
            )
        if name == "info" and isinstance(element, sp.SiddhiQuery):
            element = replace(element, name=dict(items).get("name"))
    return element


SIDDHI_BUILDER = _SiddhiBuilder()
