"""Sequence queries as text: in a canonical spelling that parses back, and in plain words."""

from __future__ import annotations

import re
from datetime import timedelta

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import counted, duration_ticks, format_duration
from cepkit.language.expressions.printing import (
    at_least_not,
    join_words,
    quoted_name,
    say_condition,
    say_duration,
    say_times,
    times_text,
    with_article,
)
from cepkit.language.expressions.trees import text_of
from cepkit.language.query_parts import listed
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.patterns import SequenceQuery

# Reserved words of sase.lark and of the clauses, in any case. They cannot name events; types need quotes.
RESERVED_IN_SEQUENCES = frozenset(
    {"seq", "and", "or", "not", "strict", "partition", "next", "any", "inner", "greedy", "reluctant", "until"}
    | {"if", "true", "false", "_", "pattern", "where", "within", "gap"}
)

# The SASE names of the strategies.
SASE_STRATEGIES = {
    "strict": "strict_contiguity", "partition": "partition_contiguity", "next": "skip_till_next_match",
    "any": "skip_till_any_match",
}  # fmt: skip

_NAME = re.compile(r"[^\W\d]\w*")


def print_sequence(pattern: sq.SequencePattern) -> str:
    """Return text that `parse_sequence` reads back as an equal pattern."""
    return _sequence(pattern)


def sase_text(query: SequenceQuery) -> str:
    """Return the part of a query that SASE can express: pattern, conditions, strategy, key and windows."""
    # `sequence_query` turns it into a query with the same ``pattern``, ``where``, ``strategy``,
    # ``partition_by`` and windows; ``timedelta`` windows become text.
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
            part_texts = (word + _sequence(part) for word, part in zip(words, parts, strict=True))
            return f"SEQ({', '.join(part_texts)})"
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


# Say a sequence query in one plain sentence.

_BETWEEN = {
    "strict": "no event at all", "partition": "no event{of_key}",
    "next": "no event that could continue the match", "any": "any events",
}  # fmt: skip
_STRATEGIES = {
    "strict": "with no event at all between two events of a match",
    "partition": "with no event{of_key} between two events of a match",
    "next": "skipping only events that cannot continue the match",
    "any": "skipping any events between",
}
_PREFERENCES = {
    "greedy": "an event that fits here is never left for the next part",
    "reluctant": "an event that fits the next part ends the repetition",
}
_AFTER = {
    "past_last": "the next match begins after the last event of this one",
    "to_next": "the next match begins after the first event of this one",
    "to_first": "the next match begins no earlier than the first {of}",
    "to_last": "the next match begins no earlier than the last {of}",
    "once": "each event is used once, by the match that began first",
    "once_newest": "each event is used once, by the match that began last",
}


def say_sequence(query: SequenceQuery) -> str:
    """Return a sequence query in one plain sentence, without a full stop."""
    of_key = " of the same key" if query.partition_by else " at all"
    words = [_Words(of_key).say(query.pattern)]
    if query.within is not None:
        words.append(f"{'within' if query.within_closed else 'in less than'} {say_duration(query.within)}")
    if query.within_events is not None:
        words.append(f"within {counted(query.within_events, 'event')}")
    if query.gap_within is not None:
        limit = "at most" if query.within_closed else "less than"
        words.append(f"with {limit} {say_duration(query.gap_within)} between two successive events")
    if query.strict_time:
        words.append("with no two events at the same time")
    if query.partition_by:
        words.append(f"per {join_words(query.partition_by)}")
    if query.where:
        words.append(f"where {_conditions(query.where)}")
    sentence = [", ".join(words)]
    if _most_events(query.pattern) > 1:
        sentence.append(_STRATEGIES[query.strategy].format(of_key=of_key))
    if query.ends_greedily:
        sentence.append("only the longest of matches that continue each other remains")
    kind, variable = query.after_match
    if kind != "none":
        sentence.append(_AFTER[kind].format(of=f"{variable} of this one"))
    return "; ".join(sentence)


def _conditions(trees: tuple[ex.Expression, ...]) -> str:
    texts = (f"({say_condition(tree)})" if isinstance(tree, ex.Or) else say_condition(tree) for tree in trees)
    return join_words(texts)


def _most_events(pattern: sq.SequencePattern) -> int:
    """Return the largest number of events of a match; 2 stands for any larger number."""
    match pattern:
        case sq.EventPattern():
            return 1
        case sq.AbsentPattern():
            return 0
        case sq.Loop(body=body, high=high):
            return min(2, _most_events(body) * (2 if high is None else high))
        case sq.AnyOf(options=options):
            return max(map(_most_events, options))
    return min(2, sum(map(_most_events, pattern.children())))


class _Words:
    """The words of the parts of a pattern; ``of_key`` says which events contiguity is about."""

    def __init__(self, of_key: str):
        self._of_key = of_key

    def say(self, pattern: sq.SequencePattern) -> str:
        """Return a pattern in English words."""
        match pattern:
            case sq.EventPattern():
                return _article(pattern) + _own(pattern)
            case sq.AbsentPattern(body=body):
                return f"no {_noun(body)} {body.variable}{_own(body)}"
            case sq.Loop():
                return self._loop(pattern)
            case sq.SequenceOf():
                return self._sequence(pattern)
            case sq.AllOf(parts=parts):
                return self._all_of(parts)
            case sq.AnyOf(options=options):
                return "either " + " or ".join(map(self._bracketed, options))
        raise TypeError(f"no words for {type(pattern).__name__}")

    def _bracketed(self, pattern: sq.SequencePattern) -> str:
        return self.say(pattern) if _is_single(pattern) else f"({self.say(pattern)})"

    def _sequence(self, pattern: sq.SequenceOf) -> str:
        """Return a sequence of parts in words, with what may not come between two of them."""
        text, absent = "", []
        for part, step in zip(pattern.parts, pattern.steps, strict=True):
            if isinstance(part, sq.AbsentPattern):
                absent.append(self.say(part))
                continue
            between = [] if step is None or not text else [_BETWEEN[step].format(of_key=self._of_key)]
            with_ = join_words([*between, *absent]) if between or absent else ""
            if text:
                text += f", then, with {with_} between, " if with_ else ", then "
            elif with_:
                text = f"with {with_} before, "
            text += self._bracketed(part) if isinstance(part, sq.SequenceOf | sq.AllOf) else self.say(part)
            absent = []
        if absent:
            text = f"{text}, with {join_words(absent)} after" if text else join_words(absent)
        return text

    def _all_of(self, parts: tuple[sq.SequencePattern, ...]) -> str:
        """Return events in any order in words."""
        present = [self._bracketed(part) for part in parts if not isinstance(part, sq.AbsentPattern)]
        absent = [self.say(part) for part in parts if isinstance(part, sq.AbsentPattern)]
        text = f"{join_words(present)} in any order" if len(present) > 1 else "".join(present)
        if not absent:
            return text
        return f"{text}, with {join_words(absent)} among them" if text else join_words(absent)

    def _loop(self, loop: sq.Loop) -> str:
        """Return a loop in words, with how many events it takes and which it prefers."""
        body = loop.body
        if isinstance(body, sq.EventPattern):
            events = f"{_noun(body)}s {body.variable}{_own(body)}"
            text = say_times(loop.low, loop.high, self.say(body), lambda n: f"{n} {events}")
        else:
            group = f"({self.say(body)})"
            text = say_times(loop.low, loop.high, group, lambda n: f"{group} {n} times")
        options = []
        if loop.inner is not None:
            options.append(f"with {_BETWEEN[loop.inner].format(of_key=self._of_key)} between two of them")
        if loop.preference != "all":
            options.append(_PREFERENCES[loop.preference])
        if loop.until is not None:
            options.append(f"until the first event for which {say_condition(loop.until)}")
        return f"{text} ({'; '.join(options)})" if options else text


def _is_single(pattern: sq.SequencePattern) -> bool:
    is_row = isinstance(pattern, sq.Loop) and isinstance(pattern.body, sq.EventPattern)
    return is_row or isinstance(pattern, sq.EventPattern | sq.AbsentPattern)


def _noun(event: sq.EventPattern) -> str:
    return "event" if event.event_type is None else f"{_type(event)} event"


def _article(event: sq.EventPattern) -> str:
    text = f"any event {event.variable}"
    return text if event.event_type is None else f"{with_article(_noun(event))} {event.variable}"


def _type(event: sq.EventPattern) -> str:
    return str(event.event_type).lower() if isinstance(event.event_type, bool) else str(event.event_type)


def _own(event: sq.EventPattern) -> str:
    """Return the conditions of an event in brackets."""
    return f" ({_conditions(event.conditions)})" if event.conditions else ""
