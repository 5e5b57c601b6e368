"""A regex query as a value, made from text or trees and checked as far as no schema is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cepkit.errors import CepError, PatternSyntaxError, PredicateError, nearest, underline
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import parse_duration
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.printing import print_expression
from cepkit.language.regex.checks import CHECKS
from cepkit.language.regex.parsing import parse_pattern
from cepkit.language.regex.patterns import Pattern, variables
from cepkit.language.regex.printing import print_pattern

Duration = str | timedelta | int

# What the first part of an argument's name means for a Python function that serves as a predicate.
_ARGUMENT_PREFIXES: dict[str, Callable[[ex.Attribute], ex.Expression]] = {
    "first_": lambda attribute: ex.Aggregate("first", attribute),
    "last_": lambda attribute: ex.Aggregate("last", attribute),
    "prev_": ex.Previous,
}


@dataclass(frozen=True, slots=True)
class RegexQuery:
    """A regex over predicates with all that belongs to it; made by `regex_query`.

    Parameters
    ----------
    pattern : Pattern
        Over names of ``define`` and, for the rest, boolean columns (`undefined_variables`).
    define, measures : tuple of (str, Expression)
        Predicates and output columns by name; ``measures`` None means the default measures.
    partition_by, order_by : tuple of str
        Columns.
    within : str or timedelta or int or None
        Longest duration of a match, in text, or in ticks of the first column of ``order_by``.
    within_closed : bool
        Whether a match that lasts exactly ``within`` is one.
    params : tuple of (str, value)
        The values of the parameters, ``:name`` in text.
    functions : tuple of (str, RegisteredFunction)
        The user functions that the predicates and measures call, as far as they were known when the query
        was made: the query carries them to other processes, where nothing is registered.
    sources : tuple of (str, str)
        The texts of the trees by role (``"pattern"``, ``"predicate 'rise'"``, ``"measure 'top'"``), for
        error messages.
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
        """Return the error to raise when an undefined name is no boolean column either."""
        boolean_columns, defined = list(boolean_columns), list(dict(self.define))
        missing = [name for name in self.undefined_variables() if name not in boolean_columns]
        columns = f", and the boolean columns are {boolean_columns}" if boolean_columns else ""
        first = next(v for v in variables(self.pattern) if v.name == missing[0])
        word = " Alternatives are written with '|'." if first.name.lower() == "or" else ""
        return CepError(
            f"the pattern names {missing}, which define does not define; it defines {defined}{columns}."
            f"{nearest(missing[0], defined + boolean_columns)}{word}\n{self.underlined('pattern', first)}"
        )

    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters that predicates and measures use, in reading order."""
        used = (
            node.name for _, tree in self.trees() for node in tree.walk() if isinstance(node, ex.Parameter)
        )
        return tuple(dict.fromkeys(used))

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        """Yield (role, tree) of every predicate and measure."""
        yield from ((f"predicate {name!r}", tree) for name, tree in self.define)
        yield from ((f"measure {name!r}", tree) for name, tree in self.measures or ())

    def underlined(self, role: str, node: ex.Expression | Pattern) -> str:
        """Return the text of ``role`` with carets under ``node``, a part of its tree."""
        text = dict(self.sources).get(role)
        if text is None or node.span is None:
            return underline(str(node), 0, len(str(node)))
        return underline(text, node.span[0], node.span[1] - node.span[0])

    def __str__(self) -> str:
        lines = [f"pattern: {self.pattern}", *_listed("define", ": ", self.define)]
        lines += _listed("measures", ": ", self.measures or ())
        lines += [f"partition_by: {', '.join(self.partition_by)}"] if self.partition_by else []
        lines += [f"order_by: {', '.join(self.order_by)}"] if self.order_by else []
        if self.within is not None:
            lines += [f"within: {self.within}{'' if self.within_closed else ', exclusive'}"]
        lines += _listed("params", " = ", ((name, repr(value)) for name, value in self.params))
        return "\n".join(lines)


def regex_query(
    pattern: str | Pattern,
    *,
    define: Mapping[str, str | ex.Expression | Callable] | None = None,
    measures: Mapping[str, str | ex.Expression] | None = None,
    partition_by: str | Iterable[str] | None = None,
    order_by: str | Iterable[str] | None = None,
    within: Duration | None = None,
    within_closed: bool = True,
    params: Mapping[str, Any] | None = None,
) -> RegexQuery:
    """Return the query of a regex over predicates, checked as far as no columns are needed.

    Parameters
    ----------
    pattern : str or Pattern
        Text of `parse_pattern`, or a tree.
    define : mapping of str to (str or Expression or callable), optional
        The predicates. A callable is called with the values its arguments are named for: ``price`` the
        current one, ``first_price``, ``last_price``, ``prev_price`` those of ``first(price)``,
        ``last(price)``, ``prev(price)``. For a column that is itself named so, register the function
        and call it in text: ``"f(last_price)"``.
    measures : mapping of str to (str or Expression), optional
        The output columns; None for the default ones.
    partition_by, order_by : str or iterable of str, optional
        Columns.
    within : str or timedelta or int, optional
        Longest duration of a match; needs ``order_by``.
    within_closed : bool
        Whether a match that lasts exactly ``within`` is one.
    params : mapping of str to value, optional
        The values of all parameters that are used, and of no others.

    Raises
    ------
    PatternSyntaxError
        When a text cannot be read.
    PredicateError
        When a predicate that can hold at the first event of a match uses an aggregate (nothing is
        matched yet), a predicate uses ``collect``, a measure uses a column outside an aggregate, or a
        parameter has no value.
    CepError
        When the pattern has no event, names clash, a parameter is not used, or an argument is of no use.

    Warns
    -----
    CepWarning
        When a predicate is not used, and when the end or the whole of the pattern may be empty: a match
        is reported with the first event that completes it.

    Notes
    -----
    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 3.3
    (safety checks). Time is linear in the size of the trees.

    Examples
    --------
    >>> query = regex_query(". rise+ drop", partition_by="symbol", params={"least": 5},
    ...                     define={"rise": "price >= prev(price)", "drop": "price < first(price) - :least"})
    >>> print(query)
    pattern: . rise+ drop
    define:
      rise: price >= prev(price)
      drop: price < first(price) - :least
    partition_by: symbol
    params:
      least = 5
    >>> regex_query("rise fall", define={"rise": "price > first(price)", "fall": "price < 1"})
    Traceback (most recent call last):
    cepkit.errors.PredicateError: predicate 'rise': first(price) ranges over the events matched before \
the current one, and 'rise' can be the first of a match; put '.' in front: '. rise fall'
      price > first(price)
              ^^^^^^^^^^^^
    """
    sources: dict[str, str] = {}
    called: dict[str, fn.RegisteredFunction] = {}
    query = RegexQuery(
        pattern=_pattern(pattern, sources),
        define=_trees("define", "predicate", define, sources, called),
        measures=None if measures is None else _trees("measures", "measure", measures, sources, called),
        partition_by=_columns("partition_by", partition_by),
        order_by=_columns("order_by", order_by),
        within=_duration(within),
        within_closed=within_closed,
        params=tuple(dict(params or {}).items()),
        functions=tuple(called.items()),
        sources=tuple(sources.items()),
    )
    for check in CHECKS:
        check(query)
    return query


# What was given, made into trees.


def _pattern(pattern: str | Pattern, sources: dict[str, str]) -> Pattern:
    if not isinstance(pattern, str | Pattern):
        raise CepError(f"pattern: expected text or a pattern, got {type(pattern).__name__}")
    # A tree is read back from its text: the same checks, and places in errors, as for text.
    sources["pattern"] = pattern if isinstance(pattern, str) else print_pattern(pattern)
    return parse_pattern(sources["pattern"])


def _trees(argument, noun, given, sources, called) -> tuple[tuple[str, ex.Expression], ...]:
    if given is not None and not isinstance(given, Mapping):
        raise CepError(f"{argument}: expected a mapping of names to expressions, got {type(given).__name__}")
    trees: dict[str, ex.Expression] = {}
    spelling_of: dict[str, str] = {}
    for name, value in (given or {}).items():
        if not isinstance(name, str) or not name or (noun == "predicate" and not name.isidentifier()):
            wanted = "an identifier" if noun == "predicate" else "text"
            raise CepError(f"{argument}: the name of a {noun} is {wanted}, got {name!r}")
        twin = spelling_of.setdefault(name.lower(), name)
        if twin != name:
            raise CepError(f"{argument}: {twin!r} and {name!r} differ only in case; rename one")
        role = f"{noun} {name!r}"
        if callable(value) and noun == "predicate":
            trees[name] = _call(value, name, called)
            sources[role] = print_expression(trees[name])
        else:
            sources[role] = _text(value, role)
            trees[name] = parse_expression(sources[role], role=role)
        for node in trees[name].walk():
            if isinstance(node, ex.Call) and node.function not in called and fn.is_registered(node.function):
                called[node.function] = fn.registered_function(node.function)
    return tuple(trees.items())


def _text(value: str | ex.Expression, role: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, ex.Expression):
        wanted = (
            "text, an expression or a function" if role.startswith("predicate") else "text or an expression"
        )
        raise PredicateError(f"{role}: expected {wanted}, got {type(value).__name__}")
    try:
        return print_expression(value)
    except ValueError as error:
        raise PredicateError(f"{role}: {error}") from None


def _call(function: Callable, predicate: str, called: dict[str, fn.RegisteredFunction]) -> ex.Call:
    """Return the call of a Python function whose arguments' names say which values it takes."""
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not tell
        message = f"predicate {predicate!r}: the function's arguments have no names that could mean columns"
        raise PredicateError(f"{message}; register it and call it in text") from None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise PredicateError(
                f"predicate {predicate!r}: argument {str(parameter)!r} of the function names no column; "
                "use plain arguments, named for columns"
            )
    described = fn.describe_function(function, _function_name(function, predicate, called))
    called[described.name] = described
    return ex.Call(described.name, tuple(_argument(p.name) for p in parameters if p.default is p.empty))


def _argument(name: str) -> ex.Expression:
    for prefix, wrap in _ARGUMENT_PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return wrap(ex.Attribute(name.removeprefix(prefix)))
    return ex.Attribute(name)


def _function_name(function: Callable, predicate: str, called: dict[str, fn.RegisteredFunction]) -> str:
    """Return the function's own name when no other function has it, else that of the predicate."""
    for name in (getattr(function, "__name__", ""), predicate):
        known = [fn.registered_function(name)] if fn.is_registered(name) else []
        known += [called[name]] if name in called else []
        is_free = all(other.call is function for other in known)
        if is_free and name.isidentifier() and name.lower() not in fn.BUILT_IN_NAMES:
            return name
    raise PredicateError(
        f"predicate {predicate!r}: give its function a name of its own, {predicate!r} is taken"
    )


def _columns(argument: str, given: str | Iterable[str] | None) -> tuple[str, ...]:
    columns = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    for column in columns:
        if not isinstance(column, str):
            raise CepError(f"{argument}: expected names of columns as text, got {column!r}")
        if columns.count(column) > 1:
            raise CepError(f"{argument}: column {column!r} is named twice")
    return columns


def _duration(within: Duration | None) -> Duration | None:
    if within is None:
        return None
    try:
        amount = parse_duration(within) if isinstance(within, str) else within
        is_positive = amount > timedelta(0) if isinstance(amount, timedelta) else amount > 0
    except PatternSyntaxError as error:
        raise PatternSyntaxError(
            f"within: {error.message}", error.text, error.position, error.length
        ) from None
    except TypeError:
        raise CepError(
            f"within: expected text, timedelta or an integer, got {type(within).__name__}"
        ) from None
    if not is_positive or isinstance(within, bool | float):
        raise CepError(f"within: expected a positive duration (text, timedelta, whole ticks), got {within!r}")
    return within


def _listed(title: str, sign: str, entries: Iterable[tuple[str, object]]) -> list[str]:
    lines = [f"  {name}{sign}{entry}" for name, entry in entries]
    return [f"{title}:", *lines] if lines else []
