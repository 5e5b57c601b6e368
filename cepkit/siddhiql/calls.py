"""Calls of functions in SiddhiQL: which function a name means, and whether the types of its arguments fit.

Differs: int and long are one type here, and so are float and double, since the values are the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from cepkit.errors import CepError
from cepkit.events import ColumnType
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi.printing import print_condition
from cepkit.siddhiql.functions.conversions import CONVERSIONS
from cepkit.siddhiql.functions.java_regex import java_pattern
from cepkit.siddhiql.functions.numbers import NUMBER_FUNCTIONS
from cepkit.siddhiql.functions.signatures import (
    BOOL,
    CORE_FUNCTIONS,
    DOUBLE,
    LONG,
    NUMBERS,
    OBJECT,
    SINGLE,
    STRING,
    TESTS,
    WHOLE,
    Function,
    Type,
    common_type,
)
from cepkit.siddhiql.functions.texts import TEXT_FUNCTIONS
from cepkit.siddhiql.runs.states import Slots
from cepkit.siddhiql.scopes import Scope, Typed, Value, picked

FUNCTIONS: dict[str, Function] = {**CORE_FUNCTIONS, **NUMBER_FUNCTIONS, **TEXT_FUNCTIONS}
_SPELLED = {name.lower(): name for name in (*FUNCTIONS, *TESTS)}
_OTHERS = (
    "convert",
    "cast",
    "eventTimestamp",
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "stdDev",
    "distinctCount",
)
_CLOCKS = (
    "currenttimemillis",
    "uuid",
    "time:currenttimestamp",
    "time:currentdate",
    "time:currenttime",
    "math:rand",
)


def compile_call(tree: ex.Call, parts: Sequence[Typed], scope: Scope) -> Typed:
    """Return a call as a function of the events that a query holds; ``parts`` are its arguments.

    A function that the user registers wins over one of Siddhi with the same name.
    """
    name = tree.function.lower()
    if fn.is_registered(tree.function):
        return _registered(tree, parts, scope)
    if name == "eventtimestamp" and not parts:
        slot, per_ms = scope.current or 0, scope.ticks_per_ms
        time = picked(slot, 0, -1)
        return Typed(lambda slots: None if (t := time(slots)) is None else t // per_ms, LONG)
    if name in _CLOCKS:
        raise scope.error(tree, f"{tree.function}() gives another value in each run; leave the call out")
    if name in ("convert", "cast"):
        return _conversion(tree, parts, scope)
    spelled = _SPELLED.get(name)
    if spelled is None:
        raise _unknown(tree, scope)
    if spelled in TESTS:
        _check_number(tree, Function(((),), BOOL, bool), parts, scope)
        fits, call = parts[0].type in TESTS[spelled], parts[0].call
        return Typed(lambda slots: fits and call(slots) is not None, BOOL)
    return _built_in(tree, FUNCTIONS[spelled], parts, scope)


def checked(tree: ex.Expression, part: Typed, kinds: Sequence[Type], scope: Scope, where: str = "") -> Value:
    """Return a value whose type is not known before the query runs, with a check of each value."""
    call = part.call
    if part.type != OBJECT or not kinds:
        return call

    def value(slots: Slots) -> Any:
        found = call(slots)
        if found is None or any(_is_of(found, kind) for kind in kinds):
            return found
        raise scope.error(
            tree, f"{where}{print_condition(tree)} has the value {found!r}; it must be {_listed(kinds)}"
        )

    return value


def single_value(tree: ex.Expression, part: Typed, scope: Scope) -> Value:
    """Return a value that keeps events apart, with a check that it is no list or mapping."""
    call = part.call
    if part.type != OBJECT:
        return call

    def value(slots: Slots) -> Any:
        found = call(slots)
        try:
            hash(found)
        except TypeError:
            raise scope.error(
                tree, f"{print_condition(tree)} has the value {found!r}; it must be a single value"
            ) from None
        return found

    return value


def _is_of(value: Any, kind: Type) -> bool:
    if kind == STRING:
        return isinstance(value, str)
    if kind == BOOL:
        return isinstance(value, bool | np.bool_)
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, Integral if kind in WHOLE else Real)


def _listed(kinds: Sequence[Type]) -> str:
    left = list(kinds)
    said = []
    for types, words in ((NUMBERS, "a number"), (WHOLE, "a whole number")):
        if all(kind in left for kind in types):
            said.append(words)
            left = [kind for kind in left if kind not in types]
    words_of = {STRING: "a text", BOOL: "a bool"}
    return " or ".join([*said, *(words_of.get(str(kind), str(kind)) for kind in left)])


# --- Siddhi's functions ------------------------------------------------------------------------------------


def _built_in(tree: ex.Call, function: Function, parts: Sequence[Typed], scope: Scope) -> Typed:
    _check_number(tree, function, parts, scope)
    calls = []
    for place, (argument, part) in enumerate(zip(tree.arguments, parts, strict=True)):
        kinds = function.types_of(place)
        _check_type(tree, function, place, part, scope)
        calls.append(checked(argument, part, kinds, scope, f"{tree.function}: "))
    _check_regex(tree, function, scope)
    kind = function.result
    if kind is None:
        kind = _one_type(tree, function.first_alike, parts, scope)
    call = function.call
    if not calls:
        return Typed(lambda slots: call(), kind)
    return Typed(lambda slots: call(*(one(slots) for one in calls)), kind)


def _check_number(tree: ex.Call, function: Function, parts: Sequence[Typed], scope: Scope) -> None:
    if not function.accepts(len(parts)):
        raise scope.error(tree, f"{tree.function} takes {function.counts()}, {len(parts)} given")


def _check_type(tree: ex.Call, function: Function, place: int, part: Typed, scope: Scope) -> None:
    kinds, kind = function.types_of(place), part.type
    if not kinds or kind in kinds or kind == OBJECT:
        return
    if isinstance(kind, ColumnType) and kinds == NUMBERS and function.result is None:
        return
    argument = tree.arguments[place]
    text = print_condition(argument)
    hint = ""
    if kinds == (BOOL,):
        hint = "; write a condition, such as x > 0"
    elif isinstance(kind, ColumnType):
        hint = f"; write convert({text}, 'long')" if LONG in kinds else ""
    elif kind != BOOL or STRING in kinds:
        wanted = STRING if STRING in kinds else DOUBLE if DOUBLE in kinds else "int"
        hint = f"; write convert({text}, '{wanted}')"
    raise scope.error(
        argument,
        f"{tree.function}: argument {place + 1} is {text}, of type {kind}; it must be {_listed(kinds)}{hint}",
    )


def _check_regex(tree: ex.Call, function: Function, scope: Scope) -> None:
    place = function.regex_at
    if place is None:
        return
    given = tree.arguments[place]
    if isinstance(given, ex.Literal) and isinstance(given.value, str):
        try:
            java_pattern(given.value)
        except CepError as error:
            raise scope.error(given, f"{tree.function}: {error}") from None


def _one_type(tree: ex.Call, first: int, parts: Sequence[Typed], scope: Scope) -> Type:
    """Return the type that some arguments have in common; null fits every type."""
    given = [
        (argument, part.type)
        for argument, part in list(zip(tree.arguments, parts, strict=True))[first:]
        if not (isinstance(argument, ex.Literal) and argument.value is None)
    ]
    if not given:
        return OBJECT
    types = [kind for _, kind in given]
    kind = common_type(types)
    if kind is not None:
        return kind
    if all(one in NUMBERS for one in types):
        wanted: Type = DOUBLE if DOUBLE in types else SINGLE
    elif STRING in types:
        wanted = STRING
    else:
        wanted = LONG if isinstance(types[0], ColumnType) else types[0]
    odd, own = next((one, of) for one, of in given if common_type([wanted, of]) is None)
    other, kept = next((one, of) for one, of in given if common_type([own, of]) is None)
    text = print_condition(odd)
    cure = f"convert({text}, '{wanted}')"
    if isinstance(odd, ex.Literal) and wanted in NUMBERS[2:] and isinstance(odd.value, int):
        cure = f"{float(odd.value)} or {cure}"
    last = len(parts)
    places = f"{first + 1} and {last}" if last - first == 2 else f"{first + 1} to {last}"
    raise scope.error(
        odd,
        f"{tree.function}: arguments {places} must have one type, but {print_condition(other)} is of type "
        f"{kept} and {text} of type {own}; write {cure}",
    )


def _conversion(tree: ex.Call, parts: Sequence[Typed], scope: Scope) -> Typed:
    types = ", ".join(CONVERSIONS)
    if len(parts) != 2:
        raise scope.error(tree, f"{tree.function} takes a value and the name of a type, {len(parts)} given")
    named, own = tree.arguments[1], parts[0].type
    if not isinstance(named, ex.Literal) or not isinstance(named.value, str):
        raise scope.error(named, f"{tree.function}: write the name of a type in quotes; types: {types}")
    wanted = named.value.lower()
    if wanted not in CONVERSIONS:
        near = difflib.get_close_matches(wanted, ["integer", "boolean", "text", *CONVERSIONS], 1, 0.6)
        meant = {"integer": "int", "boolean": BOOL, "text": STRING}
        hint = f". Did you mean '{meant.get(near[0], near[0])}'?" if near else ""
        raise scope.error(named, f"{tree.function}: no type {named.value!r}; types: {types}{hint}")
    held: Type = LONG if isinstance(own, ColumnType) else own
    if tree.function.lower() == "cast" and common_type([held, wanted]) is None:
        text = print_condition(tree.arguments[0])
        raise scope.error(
            tree,
            f"cast changes no value, and {text} is of type {own}; write convert({text}, '{wanted}')",
        )
    call, convert = parts[0].call, CONVERSIONS[wanted]
    return Typed(lambda slots: None if (v := call(slots)) is None else convert(v), wanted)


# --- other functions ---------------------------------------------------------------------------------------


def _registered(tree: ex.Call, parts: Sequence[Typed], scope: Scope) -> Typed:
    function = fn.registered_function(tree.function)
    if not function.arity.accepts(len(parts)):
        raise scope.error(tree, f"{tree.function} takes {function.arity}, {len(parts)} given")
    calls, call = [part.call for part in parts], function.call
    return Typed(lambda slots: call(*(one(slots) for one in calls)), OBJECT)


def _unknown(tree: ex.Call, scope: Scope) -> CepError:
    name = tree.function
    own = (
        f"register your own with @cep.pure(name={name!r})"
        if ":" in name
        else "register your own with @cep.pure"
    )
    if name.lower().startswith("time:"):
        return scope.error(
            tree,
            f"{name} reads the clock or the time zone of the machine, and does not run; compute its values "
            f"before the query, or {own}",
        )
    hint = _near(name)
    return scope.error(tree, f"no function {name!r}; {own}{hint and '.' + hint}")


def _near(name: str) -> str:
    """Return a hint at a function with nearly this name, also in another namespace."""
    space, _, plain = name.lower().rpartition(":")
    known: dict[str, str] = {}
    for one in (*_SPELLED.values(), *_OTHERS):
        of, _, local = one.lower().rpartition(":")
        if of == space or local == plain:
            known.setdefault(local, one)
    found = difflib.get_close_matches(plain, known, 1, 0.75)
    return f" Did you mean {known[found[0]]!r}?" if found else ""
