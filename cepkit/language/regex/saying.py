"""Say a regex query in one plain sentence."""

from __future__ import annotations

from cepkit.language.expressions.saying import (
    join_words,
    say_condition,
    say_duration,
    say_times,
    with_article,
)
from cepkit.language.regex import patterns as pt
from cepkit.language.regex.query import RegexQuery

# Names that take a plural. "at least 3 drops" reads well; other names need a noun: "at least 3 deep rows".
_NOUNS = frozenset(
    {"bounce", "change", "climb", "crash", "decline", "dip", "drop", "error", "event", "fall", "gain", "gap"}
    | {"increase", "jump", "loss", "order", "peak", "pulse", "rise", "scan", "spike", "start", "stop"}
    | {"sale", "surge", "top", "trade", "trough", "valley"}
)


def say_regex(query: RegexQuery) -> str:
    """Return a regex query in one plain sentence, without a full stop."""
    words = [_say(query.pattern)]
    if query.within is not None:
        words.append(f"{'within' if query.within_closed else 'in less than'} {say_duration(query.within)}")
    if query.partition_by:
        words.append(f"per {join_words(query.partition_by)}")
    return "; ".join([", ".join(words), *_meanings(query)])


def _meanings(query: RegexQuery) -> list[str]:
    """Return what each name of the pattern means."""
    defined = dict(query.define)
    names = dict.fromkeys(variable.name for variable in pt.variables(query.pattern))
    return [
        f"{name} means that {say_condition(defined[name])}"
        if name in defined
        else f"{name} means that the column {name} is true"
        for name in names
    ]


def _say(pattern: pt.Pattern) -> str:
    match pattern:
        case pt.Variable(name=name):
            return with_article(name if name.lower() in _NOUNS else f"{name} row")
        case pt.AnyEvent():
            return "any row"
        case pt.Empty():
            return "nothing"
        case pt.Sequence(parts=parts):
            return ", then ".join(_say(part) for part in parts)
        case pt.Alternative(options=options):
            return "either " + " or ".join(map(_say_bracketed, options))
        case pt.Repeat(body=body, low=low, high=high):
            return _say_repeat(body, low, high)
    raise TypeError(f"no words for {type(pattern).__name__}")


def _say_bracketed(pattern: pt.Pattern) -> str:
    is_single = isinstance(pattern, pt.Variable | pt.AnyEvent | pt.Empty)
    is_row = isinstance(pattern, pt.Repeat) and isinstance(pattern.body, pt.Variable | pt.AnyEvent)
    return _say(pattern) if is_single or is_row else f"({_say(pattern)})"


def _say_repeat(body: pt.Pattern, low: int, high: int | None) -> str:
    match body:
        case pt.Variable(name=name):
            rows = _plural(name) if name.lower() in _NOUNS else f"{name} rows"
            return say_times(low, high, _say(body), lambda n: f"{n} {rows} in a row")
        case pt.AnyEvent():
            return say_times(low, high, _say(body), lambda n: f"{n} rows")
        case pt.Alternative(options=options) if all(isinstance(one, pt.Variable) for one in options):
            each = " or ".join(map(_say, options))
            return say_times(low, high, _say(body), lambda n: f"{n} rows in a row, each {each}")
    group = f"({_say(body)})"
    return say_times(low, high, group, lambda n: f"{group} {n} times in a row")


def _plural(noun: str) -> str:
    return f"{noun}{'es' if noun.endswith(('s', 'sh')) else 's'}"
