"""Queries as code of the Python builder."""

from __future__ import annotations

import keyword
from dataclasses import replace

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.regex import patterns as pt
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.printing import duration_text
from cepkit.language.sequences.query import SequenceQuery
from cepkit.translation.calls import call_text, print_sase, regex_keywords, sequence_keywords
from cepkit.translation.chains import with_values

_TAKEN = frozenset(["cep", "df", "query", "pattern"])
_FOLLOW = {
    "strict": "then({}, strict=True)", "partition": "then({})", "next": "followed_by({})",
    "any": "followed_by_any({})",
}  # fmt: skip


# --- sequences


def print_sequence_builder(query: SequenceQuery) -> str:
    """Return a sequence query as code: its events, the query, and the call.

    The builder has no step to an absent event, so such a pattern is a text in the call.

    """
    try:
        text = _pattern(query.pattern, query)
    except _TextError:
        return print_sase(query)
    events = {event.variable: event for event in sq.event_patterns(query.pattern)}
    calls = [f"cep.event({', '.join(map(repr, _event(event)))})" for event in events.values()]
    names = [python_name(variable) for variable in events]
    lines = [f"{', '.join(names)} = {', '.join(calls)}"]
    params = dict(query.params)
    conditions = [condition_text(with_values(tree, params)) for tree in query.where]
    if conditions:
        text += f".where({', '.join(conditions)})"
    if query.strategy != "any" or query.scope != "run":
        scope = "" if query.scope == "run" else f", scope={query.scope!r}"
        text += f".strategy({query.strategy!r}{scope})"
    closed = "" if query.within_closed else ", closed=False"
    if query.within is not None:
        text += f".within({_duration(query.within)}{closed})"
    if query.within_events is not None:
        text += f".within_events({query.within_events})"
    if query.gap_within is not None:
        text += f".gap_within({_duration(query.gap_within)}{closed})"
    if query.partition_by:
        text += f".partition_by({', '.join(map(repr, query.partition_by))})"
    lines.append(f"query = {text}")
    with_text = replace(
        query,
        measures=None if query.measures is None
        else tuple((name, with_values(tree, params)) for name, tree in query.measures),
    )  # fmt: skip
    keywords = sequence_keywords(with_text) | {"scope": None}
    used = {name: value for name, value in params.items() if f":{name}" in text + repr(keywords["measures"])}
    lines.append(call_text("query", keywords | {"params": used}))
    return "\n".join(lines)


def python_name(variable: str) -> str:
    """Return the name of a variable in Python code."""
    return variable + "_" if variable in _TAKEN or keyword.iskeyword(variable) else variable


def _event(event: sq.EventPattern) -> tuple:
    return (event.variable,) if event.event_type is None else (event.variable, event.event_type)


def _duration(window: object) -> str:
    return repr(window) if isinstance(window, int) else repr(duration_text(window))  # type: ignore[arg-type]


def _pattern(pattern: sq.SequencePattern, query: SequenceQuery) -> str:
    match pattern:
        case sq.EventPattern(variable=variable):
            return python_name(variable)
        case sq.AbsentPattern(body=body):
            return f"{_pattern(body, query)}.not_()"
        case sq.AllOf(parts=parts):
            return f"cep.all_of({', '.join(_pattern(part, query) for part in parts)})"
        case sq.AnyOf(options=options):
            return f"cep.any_of({', '.join(_pattern(part, query) for part in options)})"
        case sq.Loop():
            return _loop(pattern, query)
        case sq.SequenceOf(parts=parts, steps=steps):
            if not any(steps):
                return f"cep.seq({', '.join(_pattern(part, query) for part in parts)})"
            n = next(i for i, step in enumerate(steps) if step)  # the first step that the pattern names
            if any(isinstance(part, sq.AbsentPattern) for part in parts[n:]):
                raise _TextError  # a method for a step takes an event that occurs
            text = _pattern(parts[0], query)
            if n > 1 or isinstance(parts[0], sq.SequenceOf):
                text = f"cep.seq({', '.join(_pattern(part, query) for part in parts[:n])})"
            for part, step in zip(parts[n:], steps[n:], strict=True):
                text += "." + _FOLLOW[step or query.strategy].format(_pattern(part, query))
            return text
    raise TypeError(f"no code for {type(pattern).__name__}")


def _loop(loop: sq.Loop, query: SequenceQuery) -> str:
    options = [] if loop.inner is None else [f"inner={loop.inner!r}"]
    options += [] if loop.preference == "all" else [f"{loop.preference}=True"]
    if loop.until is not None:
        options.append(f"until={print_expression(with_values(loop.until, dict(query.params)))!r}")
    match loop.low, loop.high:
        case 1, None:
            method, bounds = "plus", []
        case 0, None:
            method, bounds = "star", []
        case 0, 1 if not options:
            method, bounds = "optional", []
        case low, None:
            method, bounds = "at_least", [str(low)]
        case low, high:
            method, bounds = "times", [str(low)] if low == high else [str(low), str(high)]
    return f"{_pattern(loop.body, query)}.{method}({', '.join([*bounds, *options])})"


def condition_text(tree: ex.Expression) -> str:
    """Return a condition as Python code of operands, or as the text of a condition where that is shorter."""
    try:
        return _operand(tree, is_top=True)
    except _TextError:
        return repr(print_expression(tree))


class _TextError(Exception):
    """Raised for an expression that text says better."""


_INDEXED = {ex.CURRENT: "current", ex.BEFORE: "previous", ex.LAST: "last", 1: "first"}


def _operand(tree: ex.Expression, *, is_top: bool = False) -> str:
    match tree:
        case ex.Reference(variable=variable, name=str(name), index=None):
            return f"{python_name(variable)}[{name!r}]"
        case ex.Reference(variable=variable, name=str(name), index=index) if index in _INDEXED:
            return f"{python_name(variable)}.{_INDEXED[index]}[{name!r}]"
        case ex.Literal(value=bool() | int() | float() | str() as value):
            return repr(value)
        case ex.Arithmetic(operator=sign, left=left, right=right) if _has_column(left):
            return f"({_operand(left)} {sign} {_operand(right)})"
        case ex.Comparison(operator=sign, left=left, right=right) if _has_column(left):
            text = f"{_operand(left)} {sign} {_operand(right)}"
            return text if is_top else f"({text})"
        case ex.Or(operands=operands):
            return " | ".join(_operand(operand) for operand in operands)
        case ex.Not(operand=ex.Comparison() as operand):
            return f"~{_operand(operand)}"
    raise _TextError


def _has_column(tree: ex.Expression) -> bool:
    return any(isinstance(node, ex.Reference) for node in tree.walk(literals=False))


# --- regexes


def print_regex_builder(query: RegexQuery) -> str:
    """Return a regex query as code: its pattern, and the call."""
    text = _regex(query.pattern)
    if isinstance(query.pattern, pt.Variable):
        text = f"cep.var({query.pattern.name!r})"
    elif isinstance(query.pattern, pt.AnyEvent):
        text = "cep.seq('.')"
    return call_text("pattern", regex_keywords(query), before=f"pattern = {text}\n")


def _regex(pattern: pt.Pattern) -> str:
    """Return a part of a pattern; a name is its text."""
    match pattern:
        case pt.Variable(name=name):
            return repr(name)
        case pt.AnyEvent():
            return "'.'"
        case pt.Empty():
            return "cep.seq()"
        case pt.Sequence(parts=parts):
            return f"cep.seq({', '.join(map(_regex, parts))})"
        case pt.Alternative(options=options):
            return f"cep.any_of({', '.join(map(_regex, options))})"
        case pt.Repeat(body=body, low=low, high=high):
            code = _regex(body)
            if isinstance(body, pt.Variable):
                code = f"cep.var({code})"
            elif isinstance(body, pt.AnyEvent):
                code = "cep.seq('.')"
            match low, high:
                case 1, None:
                    return f"{code}.plus()"
                case 0, None:
                    return f"{code}.star()"
                case 0, 1:
                    return f"{code}.optional()"
                case _, None:
                    return f"{code}.at_least({low})"
            return f"{code}.times({low})" if low == high else f"{code}.times({low}, {high})"
    raise TypeError(f"no code for {type(pattern).__name__}")
