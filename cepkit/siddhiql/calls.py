"""The names that expressions of SiddhiQL can use, and calls of functions: what they mean, their types."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from cepkit.compile.shared.computing import plain_result, typed_call
from cepkit.errors import CepError, ColumnNotFoundError, PredicateError, nearest, underline
from cepkit.events import OTHER, ColumnType
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.vocabulary import SUMMARIES
from cepkit.language.siddhi.printing import print_condition
from cepkit.siddhiql.functions import (
    BOOL,
    CONVERSIONS,
    CORE_FUNCTIONS,
    DOUBLE,
    LONG,
    NUMBER_FUNCTIONS,
    NUMBERS,
    OBJECT,
    SINGLE,
    STRING,
    TESTS,
    TEXT_FUNCTIONS,
    WHOLE,
    Function,
    Type,
    common_type,
    java_pattern,
)
from cepkit.siddhiql.states import Slots
from cepkit.values import dataclass

# The names that expressions of a SiddhiQL query can use, and where their values are.

Value = Callable[[Slots], Any]


@dataclass(frozen=True)
class SlotOf:
    """The events of one state or one side: its names, and the places and types of its attributes."""

    names: tuple[str, ...]
    attributes: Mapping[str, tuple[int, Type]]
    is_counted: bool = False
    is_absent: bool = False


@dataclass(frozen=True)
class Typed:
    """An expression as a function, with the type of its values."""

    call: Value
    type: Type
    is_list: bool = False


Other = Callable[[ex.Expression], Typed | None]


class Scope:
    """The names that expressions of a query can use."""

    # ``current`` is the slot whose attributes need no prefix; without it, a name must belong to one slot
    # only. ``other`` compiles what only some clauses know: aggregates, and columns of the result.

    def __init__(
        self, slots: Sequence[SlotOf], source: str, where: str, current: int | None = None,
        other: Other | None = None, ticks_per_ms: int = 1,
    ):  # fmt: skip
        self.slots, self.source, self.where, self.current = slots, source, where, current
        self.other, self.ticks_per_ms = other, ticks_per_ms

    def error(self, node: ex.Expression, message: str, kind: type[CepError] = PredicateError) -> CepError:
        """Return an error that shows the place of a node."""
        text = f"{self.where}: {message}" if self.where else message
        if node.span is not None and node.span[1] <= len(self.source):
            text += f"\n{underline(self.source, node.span[0], node.span[1] - node.span[0])}"
        return kind(text)

    # --- attributes

    def attribute(self, node: ex.Attribute) -> Typed:
        """Compile an attribute without a prefix."""
        name = node.name
        if self.current is not None:
            return self._value(node, self.current, name, None)
        holders = [i for i, slot in enumerate(self.slots) if name in slot.attributes]
        if len(holders) > 1:
            owners = " and ".join(self.slots[i].names[0] for i in holders[:2])
            raise self.error(
                node, f"{owners} both have {name!r}; write {self.slots[holders[0]].names[0]}.{name}"
            )
        if not holders:
            attributes = {attribute for slot in self.slots for attribute in slot.attributes}
            raise self._unknown(node, f"no attribute {name!r}", name, attributes)
        return self._value(node, holders[0], name, None)

    def reference(self, node: ex.Reference) -> Typed:
        """Compile an attribute of a named state, ``e1.price`` or ``e1[0].price``."""
        slot = self.slot(node, node.variable)
        if node.name is None:
            raise self.error(node, f"{print_condition(node)} is a whole event; name an attribute of it")
        return self._value(node, slot, node.name, node.index)

    def slot(self, node: ex.Expression, name: str) -> int:
        """Return the slot of a reference or a stream."""
        for i, slot in enumerate(self.slots):
            if name in slot.names:
                return i
        slot_names = {slot_name for slot in self.slots for slot_name in slot.names}
        raise self._unknown(node, f"nothing in this query is named {name!r}", name, slot_names)

    def _unknown(self, node: ex.Expression, message: str, name: str, known: set[str]) -> CepError:
        hint = nearest(name, sorted(known))
        listed = f" Known: {', '.join(sorted(known))}." if not hint and known else hint
        return self.error(node, f"{message}.{listed}", ColumnNotFoundError)

    def _value(self, node: ex.Expression, slot: int, name: str, index: int | str | None) -> Typed:
        """Return the value of an attribute of the event in a slot."""
        event_slot = self.slots[slot]
        if name not in event_slot.attributes:
            owner = event_slot.names[0]
            raise self._unknown(node, f"{owner} has no attribute {name!r}", name, set(event_slot.attributes))
        place, kind = event_slot.attributes[name]
        pick = chain_index(index, in_filter=slot == self.current)
        if index is None and event_slot.is_counted and self.current is None:
            return Typed(_listed_names(slot, place), kind, is_list=True)
        if pick == -1 and not event_slot.is_counted:
            return Typed(_first(slot, place), kind)
        return Typed(picked(slot, place, pick), kind)


def chain_index(index: int | str | None, *, in_filter: bool) -> int:
    """Return a place in the events of a state, as Python counts; ``in_filter``: of the state itself."""
    # In the filter of the state itself, ``last`` is the event before the one that the filter looks at.
    if index is None:
        return -1
    if isinstance(index, int):
        return index - 1
    n_back = int(index.partition("-")[2] or 0)
    return -2 - n_back if in_filter else -1 - n_back


def _first(slot: int, place: int) -> Value:
    """Return the function that reads an attribute of the only event in a slot."""

    def value(slots: Slots) -> Any:
        taken = slots[slot]
        return None if taken is None else taken[-1][place]

    return value


def picked(slot: int, place: int, pick: int) -> Value:
    """Return the value at a place of one event of a slot; null if the slot has no such event."""

    def value(slots: Slots) -> Any:
        taken = slots[slot]
        if taken is None or not -len(taken) <= pick < len(taken):
            return None
        return taken[pick][place]

    return value


def _listed_names(slot: int, place: int) -> Value:
    def value(slots: Slots) -> Any:
        return [event[place] for event in slots[slot] or ()]

    return value


# Calls of functions in SiddhiQL: which function a name means, and whether the types of its arguments fit.
#
# Differs: int and long are one type here, and so are float and double, since the values are the same.

FUNCTIONS: dict[str, Function] = {**CORE_FUNCTIONS, **NUMBER_FUNCTIONS, **TEXT_FUNCTIONS}
_SPELLED = {name.lower(): name for name in (*FUNCTIONS, *TESTS)}
_OTHERS = (
    "convert", "cast", "eventTimestamp", "sum", "avg", "count", "min", "max", "stdDev", "distinctCount",
    *SUMMARIES,
)  # fmt: skip
_CLOCKS = (
    "currenttimemillis", "uuid", "time:currenttimestamp", "time:currentdate", "time:currenttime", "math:rand",
)  # fmt: skip


def compile_call(tree: ex.Call, parts: Sequence[Typed], scope: Scope) -> Typed:
    """Return a call as a function of the events that a query holds; ``parts`` are its arguments."""
    # A function that the user registers wins over one of Siddhi with the same name.
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
        result = call(slots)
        if result is None or any(_is_of(result, kind) for kind in kinds):
            return result
        raise scope.error(
            tree, f"{where}{print_condition(tree)} has the value {result!r}; it must be {_listed(kinds)}"
        )

    return value


def single_value(tree: ex.Expression, part: Typed, scope: Scope) -> Value:
    """Return a value that keeps events apart, with a check that it is no list or mapping."""
    call = part.call
    if part.type != OBJECT:
        return call

    def value(slots: Slots) -> Any:
        result = call(slots)
        try:
            hash(result)
        except TypeError:
            raise scope.error(
                tree, f"{print_condition(tree)} has the value {result!r}; it must be a single value"
            ) from None
        return result

    return value


def _is_of(value: Any, kind: Type) -> bool:
    """Return whether a value is of a type of Siddhi."""
    if kind == STRING:
        return isinstance(value, str)
    if kind == BOOL:
        return isinstance(value, bool | np.bool_)
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, Integral if kind in WHOLE else Real)


def _listed(kinds: Sequence[Type]) -> str:
    """Return types in words, such as "a number or a text"."""
    left = list(kinds)
    phrases = []
    for types, words in ((NUMBERS, "a number"), (WHOLE, "a whole number")):
        if all(kind in left for kind in types):
            phrases.append(words)
            left = [kind for kind in left if kind not in types]
    words_of = {STRING: "a text", BOOL: "a bool"}
    return " or ".join([*phrases, *(words_of.get(str(kind), str(kind)) for kind in left)])


# --- Siddhi's functions ------------------------------------------------------------------------------------


def _built_in(tree: ex.Call, function: Function, parts: Sequence[Typed], scope: Scope) -> Typed:
    """Return the call of a function of Siddhi."""
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
    return Typed(lambda slots: call(*(compute(slots) for compute in calls)), kind)


def _check_number(tree: ex.Call, function: Function, parts: Sequence[Typed], scope: Scope) -> None:
    if not function.accepts(len(parts)):
        raise scope.error(tree, f"{tree.function} takes {function.counts()}, {len(parts)} given")


def _check_type(tree: ex.Call, function: Function, place: int, part: Typed, scope: Scope) -> None:
    """Raise if an argument is of a type that the function does not take."""
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
    """Raise if a regular expression that is written in the query is wrong."""
    place = function.regex_at
    if place is None:
        return
    regex = tree.arguments[place]
    if isinstance(regex, ex.Literal) and isinstance(regex.value, str):
        try:
            java_pattern(regex.value)
        except CepError as error:
            raise scope.error(regex, f"{tree.function}: {error}") from None


def _one_type(tree: ex.Call, first: int, parts: Sequence[Typed], scope: Scope) -> Type:
    """Return the type that some arguments have in common; null fits every type."""
    typed_nodes = [
        (argument, part.type)
        for argument, part in list(zip(tree.arguments, parts, strict=True))[first:]
        if not (isinstance(argument, ex.Literal) and argument.value is None)
    ]
    if not typed_nodes:
        return OBJECT
    types = [kind for _, kind in typed_nodes]
    kind = common_type(types)
    if kind is not None:
        return kind
    last = len(parts)
    places = f"{first + 1} and {last}" if last - first == 2 else f"{first + 1} to {last}"
    raise _types_differ(f"{tree.function}: arguments {places}", typed_nodes, scope)


def _types_differ(what: str, typed_nodes: Sequence[tuple[ex.Expression, Type]], scope: Scope) -> CepError:
    """Return the error for arguments without a common type. It says how to convert the first odd one."""
    types = [kind for _, kind in typed_nodes]
    if all(kind in NUMBERS for kind in types):
        wanted: Type = DOUBLE if DOUBLE in types else SINGLE
    elif STRING in types:
        wanted = STRING
    else:
        wanted = LONG if isinstance(types[0], ColumnType) else types[0]
    odd, odd_type = next(pair for pair in typed_nodes if common_type([wanted, pair[1]]) is None)
    other, other_type = next(pair for pair in typed_nodes if common_type([odd_type, pair[1]]) is None)
    text = print_condition(odd)
    cure = f"convert({text}, '{wanted}')"
    if isinstance(odd, ex.Literal) and wanted in NUMBERS[2:] and isinstance(odd.value, int):
        cure = f"{float(odd.value)} or {cure}"
    return scope.error(
        odd,
        f"{what} must have one type, but {print_condition(other)} is of type {other_type} and {text} of type "
        f"{odd_type}; write {cure}",
    )


def _conversion(tree: ex.Call, parts: Sequence[Typed], scope: Scope) -> Typed:
    """Return the call of ``convert`` or ``cast``."""
    types = ", ".join(CONVERSIONS)
    if len(parts) != 2:
        raise scope.error(tree, f"{tree.function} takes a value and the name of a type, {len(parts)} given")
    named, value_type = tree.arguments[1], parts[0].type
    if not isinstance(named, ex.Literal) or not isinstance(named.value, str):
        raise scope.error(named, f"{tree.function}: write the name of a type in quotes; types: {types}")
    wanted = named.value.lower()
    if wanted not in CONVERSIONS:
        near = difflib.get_close_matches(wanted, ["integer", "boolean", "text", *CONVERSIONS], 1, 0.6)
        meant = {"integer": "int", "boolean": BOOL, "text": STRING}
        hint = f". Did you mean '{meant.get(near[0], near[0])}'?" if near else ""
        raise scope.error(named, f"{tree.function}: no type {named.value!r}; types: {types}{hint}")
    held: Type = LONG if isinstance(value_type, ColumnType) else value_type
    if tree.function.lower() == "cast" and common_type([held, wanted]) is None:
        text = print_condition(tree.arguments[0])
        raise scope.error(
            tree,
            f"cast changes no value, and {text} is of type {value_type}; write convert({text}, '{wanted}')",
        )
    call, convert = parts[0].call, CONVERSIONS[wanted]
    return Typed(lambda slots: None if (v := call(slots)) is None else convert(v), wanted)


# --- other functions ---------------------------------------------------------------------------------------


def _registered(tree: ex.Call, parts: Sequence[Typed], scope: Scope) -> Typed:
    """Return the call of a function that the user registered."""
    function = fn.registered_function(tree.function)
    if not function.arity.accepts(len(parts)):
        raise scope.error(tree, f"{tree.function} takes {function.arity}, {len(parts)} given")
    calls = [part.call for part in parts]
    types = [part.type if isinstance(part.type, ColumnType) else ColumnType(OTHER) for part in parts]
    call = typed_call(function, types)

    def value(slots: Slots) -> Any:
        arguments = [compute(slots) for compute in calls]
        return None if any(argument is None for argument in arguments) else plain_result(call(*arguments))

    return Typed(value, OBJECT)


def _unknown(tree: ex.Call, scope: Scope) -> CepError:
    name = tree.function
    advice = (
        f"register your own with @cep.pure(name={name!r})"
        if ":" in name
        else "register your own with @cep.pure"
    )
    if name.lower().startswith("time:"):
        return scope.error(
            tree,
            f"{name} reads the clock or the time zone of the machine, and does not run; compute its values "
            f"before the query, or {advice}",
        )
    return scope.error(tree, f"no function {name!r}; {advice}{_near(name)}")


def _near(name: str) -> str:
    """Return a last sentence that names a function with nearly this name, also in another namespace."""
    space, _, plain = name.lower().rpartition(":")
    spellings: dict[str, str] = {}
    for function_name in (*_SPELLED.values(), *_OTHERS):
        namespace, _, local = function_name.lower().rpartition(":")
        if namespace == space or local == plain:
            spellings.setdefault(local, function_name)
    near = difflib.get_close_matches(plain, spellings, 1, 0.75)
    return f". Did you mean {spellings[near[0]]!r}?" if near else ""
