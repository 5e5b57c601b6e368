"""Convert sequence patterns and queries to text, in one canonical spelling that parses back."""

from __future__ import annotations

import re
from datetime import timedelta

from cepkit.language.expressions.durations import duration_ticks, format_duration
from cepkit.language.expressions.printing import at_least_not, quoted_name, times_text
from cepkit.language.query_parts import listed
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.query import SequenceQuery
from cepkit.language.spelling import text_of

# Reserved words of sase.lark and of the clauses, in any case. They cannot name events; types need quotes.
RESERVED_IN_SEQUENCES = frozenset(
    {"seq", "and", "or", "not", "strict", "partition", "next", "any", "inner", "greedy", "reluctant", "until"}
    | {"if", "true", "false", "_", "pattern", "where", "within", "gap"}
)

# The SASE names of the strategies.
SASE_STRATEGIES = {
    "strict": "strict_contiguity",
    "partition": "partition_contiguity",
    "next": "skip_till_next_match",
    "any": "skip_till_any_match",
}

_NAME = re.compile(r"[^\W\d]\w*")


def print_sequence(pattern: sq.SequencePattern) -> str:
    """Return text that `parse_sequence` reads back as an equal pattern."""
    return _sequence(pattern)


def sase_text(query: SequenceQuery) -> str:
    """Return the part of a query that SASE can express: pattern, conditions, strategy, key and windows.

    `sequence_query` turns it into a query with the same ``pattern``, ``where``, ``strategy``,
    ``partition_by`` and windows; ``timedelta`` windows become text.
    """
    conditions = [SASE_STRATEGIES[query.strategy]]
    if query.partition_by:
        conditions.append(f"[{', '.join(map(quoted_name, query.partition_by))}]")
    conditions += map(at_least_not, query.where)
    lines = [f"PATTERN {query.pattern}", f"WHERE {' AND '.join(conditions)}"]
    exclusive = "" if query.within_closed else " EXCLUSIVE"
    if query.within is not None:
        lines.append(f"WITHIN {duration_text(query.within)}{exclusive}")
    if query.within_events is not None:
        lines.append(f"WITHIN {query.within_events} EVENTS")
    if query.gap_within is not None:
        lines.append(f"GAP {duration_text(query.gap_within)}{exclusive}")
    return "\n".join(lines)


def duration_text(duration: str | timedelta | int) -> str:
    """Return a window as text spells it; an integer (ticks) stays a number."""
    if not isinstance(duration, timedelta):
        return str(duration)
    return format_duration(duration_ticks(duration, "ns"), "ns")


def type_text(event_type: str | int | bool | None) -> str:
    """Return an event type as a pattern spells it."""
    if event_type is None:
        return "_"
    if not isinstance(event_type, str):
        return str(event_type).lower()
    plain = _NAME.fullmatch(event_type) and event_type.lower() not in RESERVED_IN_SEQUENCES
    return event_type if plain else "'" + event_type.replace("'", "''") + "'"


def _sequence(pattern: sq.SequencePattern) -> str:
    match pattern:
        case sq.EventPattern():
            return f"{type_text(pattern.event_type)} {pattern.variable}{_condition(pattern)}"
        case sq.Loop():
            return _loop(pattern)
        case sq.AbsentPattern(body=body):
            return f"!{_sequence(body)}"
        case sq.SequenceOf(parts=parts, steps=steps):
            words = ("" if step is None else f"{step.upper()} " for step in steps)
            said = (word + _sequence(part) for word, part in zip(words, parts, strict=True))
            return f"SEQ({', '.join(said)})"
        case sq.AllOf(parts=parts):
            return f"AND({', '.join(map(_sequence, parts))})"
        case sq.AnyOf(options=options):
            return f"OR({', '.join(map(_sequence, options))})"
    raise TypeError(f"no text for {type(pattern).__name__}")


def _loop(pattern: sq.Loop) -> str:
    body, times = pattern.body, times_text(pattern.low, pattern.high)
    if isinstance(body, sq.EventPattern):
        brackets = "" if pattern.high == 1 else "[]"
        text = f"{type_text(body.event_type)}{times} {body.variable}{brackets}{_condition(body)}"
    else:
        text = f"({_sequence(body)}){times}"
    text += "" if pattern.inner is None else f" INNER {pattern.inner.upper()}"
    text += "" if pattern.preference == "all" else f" {pattern.preference.upper()}"
    return text + ("" if pattern.until is None else f" UNTIL ({pattern.until})")


def _condition(event: sq.EventPattern) -> str:
    return f" IF ({' and '.join(map(at_least_not, event.conditions))})" if event.conditions else ""


@text_of.register
def query_text(query: SequenceQuery) -> str:
    """Return the text of a query: its SASE text, then one line for each keyword that SASE lacks."""
    lines = [sase_text(query)]
    lines += [f"event_type: {query.event_type}"] if query.event_type is not None else []
    lines += [f"order_by: {', '.join(query.order_by)}"] if query.order_by else []
    lines += [f"scope: {query.scope}"] if query.scope != "run" else []
    lines += ["strict_time: true"] if query.strict_time else []
    kind, variable = query.after_match
    lines += [f"after_match: {kind}{f'({variable})' if variable else ''}"] if kind != "none" else []
    lines += [f"evaluation_order: {', '.join(query.evaluation_order)}"] if query.evaluation_order else []
    lines += listed("measures", ": ", query.measures or ())
    lines += listed("params", " = ", ((name, repr(value)) for name, value in query.params))
    return "\n".join(lines)


text_of.register(sq.SequencePattern, print_sequence)
