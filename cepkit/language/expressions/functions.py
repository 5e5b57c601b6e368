"""Functions that predicate text may call: built-in names, Python functions by name, functions of SQL."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, overload

from cepkit.errors import CepError, PredicateError, nearest, short_text
from cepkit.language.expressions.trees import AGGREGATES
from cepkit.language.expressions.vocabulary import SUMMARIES, VOCABULARY, say_arguments
from cepkit.values import dataclass, replace

# Only names and numbers of arguments are defined here; the engines define what a function computes.


class Arity(NamedTuple):
    """Number of arguments of a function: at least ``least``, at most ``most`` (None: no limit)."""

    least: int
    most: int | None

    def accepts(self, n_arguments: int) -> bool:
        """Return whether the function can be called with ``n_arguments`` arguments."""
        return n_arguments >= self.least and (self.most is None or n_arguments <= self.most)

    def __str__(self) -> str:
        return say_arguments(self.least, self.most)


ONE, TWO = Arity(1, 1), Arity(2, 2)

# Functions that compare two whole array columns.
VECTOR_FUNCTIONS = ("corr", "cosine", "l2")

# Functions that kernels compute, also of values of several events. Case does not matter. ``log`` is the
# natural logarithm, next to log2 and log10. The functions of `VOCABULARY` become columns before a search.
FUNCTIONS: dict[str, Arity] = {
    **dict.fromkeys(("abs", "sqrt", "exp", "log", "log2", "log10", "floor", "ceil", "round", "sign"), ONE),
    **dict.fromkeys(("power", "bit_and", "bit_or", "bit_xor", "starts_with", "ends_with", "contains"), TWO),
    **dict.fromkeys(("least", "greatest"), Arity(2, None)),
    **dict.fromkeys(VECTOR_FUNCTIONS, TWO),
}

AGGREGATE_SPELLINGS = (
    {name: name for name in (*AGGREGATES, *SUMMARIES)}
    | {"average": "avg", "mean": "avg"}
    | {spelling: name for name, summary in SUMMARIES.items() for spelling in summary.spellings}
)

# Functions of other languages, and what to write instead.
_PREVIOUS = (
    "in a regex the value of the row before is prev(x), and prev(x, 2) is two rows back; in a sequence "
    "name the earlier event"
)
_NEXT = (
    "in a regex the value of the row after is next(x), in finished data; in a sequence name the later event"
)
_NUMBER_OF = "write date_diff('{}', earlier, later) for the number between two times"
_IS_NULL = "write x is null, or x is not null"
FOREIGN_FUNCTIONS = {
    **dict.fromkeys(("lag", "shift", "previous"), _PREVIOUS),
    **dict.fromkeys(("lead", "next_value"), _NEXT),
    **dict.fromkeys(("isnull", "isna", "notnull", "notna", "isnan"), _IS_NULL),
    **dict.fromkeys(
        ("first_value", "firstvalue", "first_val"), "the value of the match's first row is first(x)"
    ),
    **dict.fromkeys(("last_value", "lastvalue", "last_val"), "the value of the match's last row is last(x)"),
    "diff": "write x - prev(x)",
    **dict.fromkeys(("seconds", "total_seconds", "seconds_between"), _NUMBER_OF.format("second")),
    **dict.fromkeys(("minutes", "total_minutes", "minutes_between"), _NUMBER_OF.format("minute")),
    **dict.fromkeys(("hours", "total_hours", "hours_between"), _NUMBER_OF.format("hour")),
    **dict.fromkeys(("days", "total_days", "days_between"), _NUMBER_OF.format("day")),
}

# Names of the language. The names of `VOCABULARY` come after those that a user registers.
FIXED_NAMES = frozenset(FUNCTIONS) | frozenset(AGGREGATE_SPELLINGS) | {"prev", "next"}
BUILT_IN_NAMES = FIXED_NAMES | frozenset(VOCABULARY)


# The forms of times that a function gets: integers, or pandas Timestamps and Timedeltas.
MICROSECONDS, DATETIME = "us", "datetime"


@dataclass(frozen=True, slots=True)
class RegisteredFunction:
    """A Python function that predicate text may call."""

    # ``pure`` is the user's promise that equal arguments give equal results and nothing else happens.
    # ``compiled`` says that the function is a numba dispatcher. ``arity`` counts positional arguments.
    # ``times`` is the form of times that the function gets.

    name: str
    call: Callable[..., Any]
    pure: bool
    compiled: bool
    arity: Arity
    times: str = MICROSECONDS

    @property
    def in_kernel(self) -> Callable[..., Any]:
        """The function as kernels call it. A result that is no number raises when it must become one."""
        return self.call if self.compiled else CallInKernel(self.name, self.call)


def note_call(error: Exception, name: str, arguments: Iterable[Any]) -> None:
    """Add to an error of a user's function what the function got, unless that is known."""
    if not hasattr(error, "__notes__"):
        shown = (short_text(repr(value) if isinstance(value, str) else str(value)) for value in arguments)
        error.add_note(f"function {name!r} got {', '.join(shown) or 'nothing'}")


def error_of_call(error: Exception) -> str:
    """Return an error of a user's function in one line, with what the function got."""
    notes = getattr(error, "__notes__", [])
    return (
        f"{notes[0]} and raised {type(error).__name__}: {error}".replace("\n", " ") if notes else str(error)
    )


@dataclass(frozen=True)
class CallInKernel:
    """A Python function that a kernel calls."""

    name: str
    call: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        """Return the result if it is a number, else a `NoNumber`."""
        try:
            result = self.call(*arguments)
        except Exception as error:
            note_call(error, self.name, arguments)
            raise
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


LIST_OF_FUNCTIONS = " cep.vocabulary() lists the functions"

_REGISTRY: dict[str, RegisteredFunction] = {}

_Call = TypeVar("_Call", bound=Callable[..., Any])


@overload
def pure(function: _Call, *, name: str | None = None, times: str = MICROSECONDS) -> _Call: ...
@overload
def pure(
    function: None = None, *, name: str | None = None, times: str = MICROSECONDS
) -> Callable[[_Call], _Call]: ...
def pure(function: Callable | None = None, *, name: str | None = None, times: str = MICROSECONDS) -> Callable:
    """Register a function for predicate text and declare that it is pure; usable as a decorator.

    Pure means: the result depends on the arguments alone, and the function changes nothing. Only then may
    an engine evaluate events in parallel, repeatedly, or not at all. A numba function (``@njit``) is called
    from the generated kernel; a plain Python function, and any function of texts, runs on a slow path.

    A function gets numbers, texts as ``str``, truth values as ``bool``, and times as ``times`` says. It is
    not called where an argument is missing: the result is missing, too. Every language can call it.

    Parameters
    ----------
    function : callable, optional
        Takes positional arguments; omit it when you write the decorator with ``name=``.
    name : str, optional
        Name in predicate text; the default is ``function.__name__``. A registered name is replaced. SiddhiQL
        also calls names with a namespace, such as ``str:initials``.
    times : str
        What the function gets for times: ``"us"`` for the microseconds since 1970 in UTC as an integer,
        whatever the unit of the column is, or ``"datetime"`` for a pandas Timestamp with the time zone of the
        column. Durations are microseconds or a pandas Timedelta. A function of datetimes runs in Python.

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
    return _register(function, name, times, is_pure=True)


@overload
def function(function: _Call, *, name: str | None = None, times: str = MICROSECONDS) -> _Call: ...
@overload
def function(
    function: None = None, *, name: str | None = None, times: str = MICROSECONDS
) -> Callable[[_Call], _Call]: ...
def function(
    function: Callable | None = None, *, name: str | None = None, times: str = MICROSECONDS
) -> Callable:
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
    return _register(function, name, times, is_pure=False)


def registered_function(name: str) -> RegisteredFunction:
    """Return the function registered under ``name`` (case matters)."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    hint = nearest(name, [*_REGISTRY, *BUILT_IN_NAMES])
    hint = f".{hint}" if hint else "."
    raise PredicateError(
        f"function {name!r} is not known; register it with @cep.pure{hint}{LIST_OF_FUNCTIONS}"
    )


def is_registered(name: str) -> bool:
    """Return whether a function is registered under ``name``."""
    return name in _REGISTRY


def registered_in_sql(name: str) -> RegisteredFunction | None:
    """Return the function registered under ``name``, where case does not matter; None if there is none."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    return next((function for key, function in _REGISTRY.items() if key.lower() == name.lower()), None)


def registered_names() -> frozenset[str]:
    return frozenset(_REGISTRY)


def registered_functions() -> tuple[RegisteredFunction, ...]:
    return tuple(_REGISTRY.values())


def keep_registered(functions: Iterable[RegisteredFunction]) -> None:
    """Register functions of another process again."""
    _REGISTRY.update((function.name, function) for function in functions)


def describe_function(call: Callable, name: str) -> RegisteredFunction:
    """Return ``call`` as a registered function named ``name``; it is pure if ``call`` was declared pure."""
    for registered in _REGISTRY.values():
        if registered.call is call:
            return replace(registered, name=name)
    return RegisteredFunction(name, call, False, hasattr(call, "py_func"), _arity(call))


def misspelt_built_in(name: str) -> str | None:
    """Return the built-in name that ``name`` very probably misspells, else None."""
    # Stricter than `cepkit.errors.nearest`, because it turns an unknown function into an error at once.
    # A slight resemblance must not reject a function that the user registers later.
    matches = difflib.get_close_matches(name.lower(), sorted(FIXED_NAMES), n=1, cutoff=0.8)
    return matches[0] if matches else None


def _register(call: Callable | None, name: str | None, times: str, *, is_pure: bool) -> Callable:
    """Register a function under a name and return it. Without a function, return a decorator."""
    if times not in (MICROSECONDS, DATETIME):
        raise CepError(f"times={times!r}: write 'us' for integers, or 'datetime' for pandas Timestamps")
    if call is None:
        return lambda late: _register(late, name, times, is_pure=is_pure)
    if not callable(call):
        raise CepError(f"expected a function to register, got {type(call).__name__}; pass a name as name='…'")
    name = str(getattr(call, "__name__", "")) if name is None else name
    space, colon, plain = name.rpartition(":")
    if not plain.isidentifier() or (colon and not space.isidentifier()):
        raise PredicateError(
            f"a function needs an identifier as its name, {name!r} is not one; give one: name='…'"
        )
    if name.lower() in FIXED_NAMES:
        raise PredicateError(f"{name!r} is built in and cannot be registered; give another name: name='…'")
    is_compiled = hasattr(call, "py_func") and times == MICROSECONDS
    _REGISTRY[name] = RegisteredFunction(name, call, is_pure, is_compiled, _arity(call), times)
    return call


def _arity(call: Callable) -> Arity:
    """Return how many arguments a Python function takes, at least and at most."""
    # A numba dispatcher has the signature of the Python function that it compiles.
    try:
        parameters = inspect.signature(getattr(call, "py_func", call)).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return Arity(0, None)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    return Arity(least, None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional))


# Functions that MATCH_RECOGNIZE does not have, with what to write instead.

SQL_FUNCTIONS = {
    **dict.fromkeys(
        ("now", "getdate", "sysdate", "current_timestamp", "current_date"),
        "give the time as a parameter, :now",
    ),
    "dayofweek": "its first day differs between engines; write DAY_OF_WEEK(ts), where Monday is 1, or "
    "WEEKDAY(ts), where it is 0",
}
