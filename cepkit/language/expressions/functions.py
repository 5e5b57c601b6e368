"""Functions that predicate text may call: built-in names, Python functions by name, functions of SQL."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, overload

from cepkit.errors import CepError, PredicateError, nearest
from cepkit.language.expressions.summaries import SUMMARY_SPELLINGS
from cepkit.language.expressions.trees import AGGREGATES

# Only names and numbers of arguments are defined here; the engines define what a function computes.


class Arity(NamedTuple):
    """Number of arguments of a function: at least ``least``, at most ``most`` (None: no limit)."""

    least: int
    most: int | None

    def accepts(self, n_arguments: int) -> bool:
        """Return whether the function can be called with ``n_arguments`` arguments."""
        return n_arguments >= self.least and (self.most is None or n_arguments <= self.most)

    def __str__(self) -> str:
        if self.least == self.most:
            return "no argument" if self.least == 0 else f"{self.least} argument{'s' * (self.least > 1)}"
        return (
            f"{self.least} or more arguments"
            if self.most is None
            else f"{self.least} to {self.most} arguments"
        )


ONE, TWO = Arity(1, 1), Arity(2, 2)

# Functions that compare two whole array columns.
VECTOR_FUNCTIONS = ("corr", "cosine", "l2")

# Case does not matter. ``log`` is the natural logarithm, next to log2 and log10. round, floor and ceil take
# no number of digits.
FUNCTIONS: dict[str, Arity] = {
    **dict.fromkeys(("abs", "sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "round", "sign"), ONE),
    **dict.fromkeys(("power", "bit_and", "bit_or", "bit_xor", "starts_with", "ends_with", "contains"), TWO),
    **dict.fromkeys(("least", "greatest"), Arity(2, None)),
    **dict.fromkeys(VECTOR_FUNCTIONS, TWO),
}

AGGREGATE_SPELLINGS = (
    {name: name for name in AGGREGATES} | SUMMARY_SPELLINGS | {"average": "avg", "mean": "avg"}
)

# Functions of other languages, and what to write instead.
_PREVIOUS = (
    "in a regex the value of the row before is prev(x), and prev(x, 2) is two rows back; in a sequence "
    "name the earlier event"
)
_NEXT = "the row after is not known yet; name it in the pattern"
_IS_NULL = "write x is null, or x is not null"
FOREIGN_FUNCTIONS = {
    **dict.fromkeys(("lag", "shift", "previous"), _PREVIOUS),
    **dict.fromkeys(("lead", "next_value"), _NEXT),
    **dict.fromkeys(("isnull", "isna", "notnull", "notna", "isnan"), _IS_NULL),
    **dict.fromkeys(("iif", "ifelse"), "join conditions with and, or, not"),
    **dict.fromkeys(
        ("first_value", "firstvalue", "first_val"), "the value of the match's first row is first(x)"
    ),
    **dict.fromkeys(("last_value", "lastvalue", "last_val"), "the value of the match's last row is last(x)"),
    **dict.fromkeys(("len", "length"), "the number of rows of the match is count()"),
    "diff": "write x - prev(x)",
    "startswith": "write starts_with(x, '…')",
    "endswith": "write ends_with(x, '…')",
    "pow": "write power(x, y)",
}

BUILT_IN_NAMES = frozenset(FUNCTIONS) | frozenset(AGGREGATE_SPELLINGS) | {"prev"}


@dataclass(frozen=True, slots=True)
class RegisteredFunction:
    """A Python function that predicate text may call.

    ``pure`` is the user's promise that equal arguments give equal results and nothing else happens.
    ``compiled`` says that the function is a numba dispatcher. ``arity`` counts positional arguments.

    """

    name: str
    call: Callable[..., Any]
    pure: bool
    compiled: bool
    arity: Arity

    @property
    def in_kernel(self) -> Callable[..., Any]:
        """The function as kernels call it. A result that is no number raises when it must become one."""
        return self.call if self.compiled else CallInKernel(self.name, self.call)


@dataclass(frozen=True)
class CallInKernel:
    """A Python function that a kernel calls."""

    name: str
    call: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        """Return the result if it is a number, else a `NoNumber`."""
        result = self.call(*arguments)
        is_number = hasattr(result, "__float__") and not hasattr(result, "__len__")
        return result if is_number else NoNumber(self.name, result)


@dataclass(frozen=True)
class NoNumber:
    """A result of a user's function that is no number, such as None or a text. It may be a truth value."""

    function: str
    value: Any

    def __float__(self) -> float:
        raise CepError(
            f"{self._returned()}; a condition compares numbers, so return a number or float('nan')"
        )

    def __bool__(self) -> bool:
        try:
            return bool(self.value)
        except (TypeError, ValueError) as error:
            raise CepError(f"{self._returned()}, which is neither true nor false; return a bool") from error

    def _returned(self) -> str:
        text = repr(self.value).encode("ascii", "backslashreplace").decode()[:60]
        return f"function {self.function!r} returned {text} of type {type(self.value).__name__}"


_REGISTRY: dict[str, RegisteredFunction] = {}

_Call = TypeVar("_Call", bound=Callable[..., Any])


@overload
def pure(function: _Call, *, name: str | None = None) -> _Call: ...
@overload
def pure(function: None = None, *, name: str | None = None) -> Callable[[_Call], _Call]: ...
def pure(function: Callable | None = None, *, name: str | None = None) -> Callable:
    """Register a function for predicate text and declare that it is pure; usable as a decorator.

    Pure means: the result depends on the arguments alone, and the function changes nothing. Only then may
    an engine evaluate events in parallel, repeatedly, or not at all. A numba function (``@njit``) is called
    from the generated kernel; a plain Python function runs on a slow path.

    Parameters
    ----------
    function : callable, optional
        Takes positional arguments; omit it when you write the decorator with ``name=``.
    name : str, optional
        Name in predicate text; the default is ``function.__name__``. A registered name is replaced. SiddhiQL
        also calls names with a namespace, such as ``str:initials``.

    Returns
    -------
    callable
        ``function`` itself, unchanged.

    Raises
    ------
    PredicateError
        If the name is no identifier, with a namespace or without, or is the name of an aggregate or of a
        built-in function.

    Examples
    --------
    >>> @pure
    ... def near(x, y):
    ...     return abs(x - y) < 2
    >>> registered_function("near").pure, str(registered_function("near").arity)
    (True, '2 arguments')
    """
    return _register(function, name, is_pure=True)


@overload
def function(function: _Call, *, name: str | None = None) -> _Call: ...
@overload
def function(function: None = None, *, name: str | None = None) -> Callable[[_Call], _Call]: ...
def function(function: Callable | None = None, *, name: str | None = None) -> Callable:
    """Register a function for predicate text without declaring it pure; usable as a decorator.

    Parameters, result and errors are those of `pure`. Queries that call the function do not run in parallel.

    Examples
    --------
    >>> @function(name="noisy")
    ... def with_side_effect(x):
    ...     return x > 0
    >>> registered_function("noisy").pure
    False
    """
    return _register(function, name, is_pure=False)


def registered_function(name: str) -> RegisteredFunction:
    """Return the function registered under ``name`` (case matters)."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    hint = nearest(name, [*_REGISTRY, *BUILT_IN_NAMES])
    raise PredicateError(f"function {name!r} is not known; register it with @cep.pure{hint and '.' + hint}")


def is_registered(name: str) -> bool:
    """Return whether a function is registered under ``name``."""
    return name in _REGISTRY


def registered_names() -> frozenset[str]:
    """Return the names of all registered functions."""
    return frozenset(_REGISTRY)


def registered_functions() -> tuple[RegisteredFunction, ...]:
    """Return all registered functions."""
    return tuple(_REGISTRY.values())


def describe_function(call: Callable, name: str) -> RegisteredFunction:
    """Return ``call`` as a registered function named ``name``; it is pure if ``call`` was declared pure."""
    declared = any(registered.call is call and registered.pure for registered in _REGISTRY.values())
    return RegisteredFunction(name, call, declared, hasattr(call, "py_func"), _arity(call))


def misspelt_built_in(name: str) -> str | None:
    """Return the built-in name that ``name`` very probably misspells, else None.

    Stricter than `cepkit.errors.nearest`, because it turns an unknown function into an error at once.
    A slight resemblance must not reject a function that the user registers later.
    """
    matches = difflib.get_close_matches(name.lower(), sorted(BUILT_IN_NAMES), n=1, cutoff=0.8)
    return matches[0] if matches else None


def _register(call: Callable | None, name: str | None, *, is_pure: bool) -> Callable:
    if call is None:
        return lambda late: _register(late, name, is_pure=is_pure)
    if not callable(call):
        raise CepError(f"expected a function to register, got {type(call).__name__}; pass a name as name='…'")
    name = str(getattr(call, "__name__", "")) if name is None else name
    space, colon, plain = name.rpartition(":")
    if not plain.isidentifier() or (colon and not space.isidentifier()):
        raise PredicateError(
            f"a function needs an identifier as its name, {name!r} is not one; give one: name='…'"
        )
    if name.lower() in BUILT_IN_NAMES:
        raise PredicateError(f"{name!r} is built in and cannot be registered; give another name: name='…'")
    _REGISTRY[name] = RegisteredFunction(name, call, is_pure, hasattr(call, "py_func"), _arity(call))
    return call


def _arity(call: Callable) -> Arity:
    # A numba dispatcher has the signature of the Python function that it compiles.
    try:
        parameters = inspect.signature(getattr(call, "py_func", call)).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return Arity(0, None)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    return Arity(least, None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional))


# What the functions of single values take in MATCH_RECOGNIZE: the number of arguments, and their types.

# The types of arguments are those of `cepkit.events`, "number" for integers and floats, and "any".
ANY = "any"
UNITS_OF_TIME = ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
# Functions whose first argument is a unit of time, with the arguments after it.
WITH_UNIT = {
    "date_trunc": ("ts",),
    "date_diff": ("first", "last"),
    "datediff": ("first", "last"),
    "timestampdiff": ("first", "last"),
}
# The fields of EXTRACT, with the function that means the same.
FIELDS = {
    **{name: name for name in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")},
    **{
        "dow": "day_of_week",
        "day_of_week": "day_of_week",
        "doy": "day_of_year",
        "day_of_year": "day_of_year",
    },
    **{"epoch": "epoch"},
}


@dataclass(frozen=True, slots=True)
class Signature:
    """The types that each argument may have."""

    # The types of each argument. Those of the last one serve all further ones if ``is_open``.
    takes: tuple[tuple[str, ...], ...]
    n_required: int  # how many arguments a call needs
    is_open: bool = False  # whether any number of further arguments may follow

    def types_of(self, place: int) -> tuple[str, ...]:
        """Return the types that the argument at a place may have, counted from 0."""
        return self.takes[min(place, len(self.takes) - 1)]

    def accepts(self, n: int) -> bool:
        """Return whether a call may have ``n`` arguments."""
        return self.n_required <= n and (self.is_open or n <= len(self.takes))

    def __str__(self) -> str:
        most = len(self.takes)
        if self.is_open:
            return f"{self.n_required} arguments or more"
        if self.n_required == most:
            return f"{most} argument{'s' * (most != 1)}"
        joined = "or" if most == self.n_required + 1 else "to"
        return f"{self.n_required} {joined} {most} arguments"


def _signature(words: str) -> Signature:
    """Return a signature: ``|`` is between types, ``?`` after optional and ``+`` after repeated ones."""
    parts = words.split()
    takes = tuple(tuple(part.rstrip("?+").split("|")) for part in parts)
    return Signature(takes, sum(not part.endswith("?") for part in parts), words.endswith("+"))


_TAKES = {
    "abs sign": "number|duration",
    "sqrt exp ln log2 log10 floor ceil ceiling": "number",
    "power pow": "number number",
    "trunc truncate": "number integer?",
    "least greatest": "any any+",
    "nullif": "any any",
    "coalesce nvl ifnull": "any+",
    "lower upper reverse char_length character_length": "text",
    "length": "text|list",
    "starts_with ends_with strpos": "text text",
    "substring substr": "text integer integer?",
    "trim ltrim rtrim": "text text?",
    "replace": "text text text?",
    "lpad rpad": "text integer text?",
    "split_part": "text text integer",
    "year quarter month week week_of_year day day_of_month hour minute second": "time",
    "day_of_week dow day_of_year doy": "time",
    "epoch": "time|duration",
    "date_trunc": "text time",
    "date_diff datediff timestampdiff": "text time time",
}
SIGNATURES = {name: _signature(takes) for names, takes in _TAKES.items() for name in names.split()}

# Functions of other engines, with what to write instead.
_TIME_OF_TEXT = (
    "write a constant as TIMESTAMP '2024-01-31 09:30:00' or DATE '2024-01-31', and convert a column of "
    "texts before the query"
)
_MOVED = "write ts + INTERVAL '5' MINUTE"
SQL_FUNCTIONS = {
    **dict.fromkeys(
        ("to_date", "to_timestamp", "date_parse", "parse_datetime", "str_to_date"), _TIME_OF_TEXT
    ),
    **dict.fromkeys(("date_add", "dateadd", "timestampadd", "date_sub"), _MOVED),
    **dict.fromkeys(("now", "getdate", "sysdate"), "give the time as a parameter, :now"),
    **dict.fromkeys(("dayofweek", "weekday"), "write DAY_OF_WEEK(ts), where Monday is 1 and Sunday is 7"),
    **dict.fromkeys(("instr", "charindex", "locate"), "write STRPOS(text, part)"),
    "dayofyear": "write DAY_OF_YEAR(ts)",
    "dayofmonth": "write DAY(ts)",
    "left": "write SUBSTRING(text, 1, n)",
    "right": "write SUBSTRING(text, -n)",
}
