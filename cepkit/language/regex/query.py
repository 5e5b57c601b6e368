"""A regex query as a value: a pattern over predicates, with columns, window and measures; and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cepkit.errors import CepError, nearest
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import (
    join_words,
    say_condition,
    say_duration,
    say_times,
    with_article,
)
from cepkit.language.query_parts import Duration, Query, listed
from cepkit.language.regex import patterns as pt
from cepkit.language.regex.patterns import Pattern, variables


@dataclass(frozen=True, slots=True)
class RegexQuery(Query):
    """A regex over predicates with its columns, window and measures; made by `regex_query`.

    Parameters
    ----------
    pattern : Pattern
        Its names are in ``define``; the others are boolean columns (`undefined_variables`).
    define, measures : tuple of (str, Expression)
        Predicates and output columns by name; None for ``measures`` means the default measures.
    partition_by, order_by : tuple of str
        Columns.
    within : str or timedelta or int or None
        Longest duration of a match, as text or in ticks of the first column of ``order_by``.
    within_closed : bool
        Whether a match may last exactly ``within``.
    params : tuple of (str, value)
        The values of the parameters, ``:name`` in text.
    functions : tuple of (str, RegisteredFunction)
        The user functions that the predicates and measures call, if they were registered when the query
        was made. The query carries them to other processes, where nothing is registered.
    sources : tuple of (str, str)
        The texts of the trees by role (``"pattern"``, ``"predicate 'rise'"``, ``"measure 'top'"``), for
        error messages.

    Examples
    --------
    >>> import cepkit as cep
    >>> print(cep.regex_query("up+ down", define={"up": "price > 12", "down": "price <= 12"}))
    pattern: up+ down
    define:
      up: price > 12
      down: price <= 12
    """

    pattern: Pattern
    define: tuple[tuple[str, ex.Expression], ...] = ()
    measures: tuple[tuple[str, ex.Expression], ...] | None = None
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    within: Duration | None = None
    within_closed: bool = True
    params: tuple[tuple[str, Any], ...] = ()
    functions: tuple[tuple[str, fn.RegisteredFunction], ...] = ()
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def undefined_variables(self) -> tuple[str, ...]:
        """Return the names in the pattern that ``define`` does not define, in reading order."""
        defined = dict(self.define)
        return tuple(dict.fromkeys(v.name for v in variables(self.pattern) if v.name not in defined))

    def undefined_error(self, boolean_columns: Iterable[str] = ()) -> CepError:
        """Return the error to raise if an undefined name is not a boolean column either."""
        boolean_columns, defined = list(boolean_columns), list(dict(self.define))
        missing = [name for name in self.undefined_variables() if name not in boolean_columns]
        columns = f", and the boolean columns are {boolean_columns}" if boolean_columns else ""
        first = next(v for v in variables(self.pattern) if v.name == missing[0])
        word = " Alternatives are written with '|'." if first.name.lower() == "or" else ""
        return CepError(
            f"the pattern names {missing}, which define does not define; it defines {defined}{columns}."
            f"{nearest(missing[0], defined + boolean_columns)}{word}\n{self.underlined('pattern', first)}"
        )

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        """Yield (role, tree) of every predicate and measure."""
        yield from ((f"predicate {name!r}", tree) for name, tree in self.define)
        yield from ((f"measure {name!r}", tree) for name, tree in self.measures or ())

    def __str__(self) -> str:
        lines = [f"pattern: {self.pattern}", *listed("define", ": ", self.define)]
        lines += listed("measures", ": ", self.measures or ())
        lines += [f"partition_by: {', '.join(self.partition_by)}"] if self.partition_by else []
        lines += [f"order_by: {', '.join(self.order_by)}"] if self.order_by else []
        if self.within is not None:
            lines += [f"within: {self.within}{'' if self.within_closed else ', exclusive'}"]
        lines += listed("params", " = ", ((name, repr(value)) for name, value in self.params))
        return "\n".join(lines)


# Say a regex query in one plain sentence.

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
        case pt.Alternative(options=options) if all(isinstance(option, pt.Variable) for option in options):
            each = " or ".join(map(_say, options))
            return say_times(low, high, _say(body), lambda n: f"{n} rows in a row, each {each}")
    group = f"({_say(body)})"
    return say_times(low, high, group, lambda n: f"{group} {n} times in a row")


def _plural(noun: str) -> str:
    return f"{noun}{'es' if noun.endswith(('s', 'sh')) else 's'}"
