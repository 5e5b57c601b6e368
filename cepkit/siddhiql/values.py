"""Turn expressions of SiddhiQL into Python functions of the events that a query holds."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepkit.errors import CepError, ColumnNotFoundError, PredicateError, nearest, underline
from cepkit.events import ColumnType
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi.printing import print_condition
from cepkit.siddhiql.functions import (
    BOOL,
    CALLS,
    CASTS,
    CLOCKS,
    DOUBLE,
    INT,
    LONG,
    NUMBERS,
    OBJECT,
    STRING,
    TESTS,
    Type,
)
from cepkit.siddhiql.runs.states import Slots

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
    """The names that expressions of a query can use.

    ``current`` is the slot whose attributes need no prefix; without it, a name must belong to one slot only.
    ``other`` compiles what only some clauses know: aggregates, and columns of the result.
    """

    def __init__(
        self,
        slots: Sequence[SlotOf],
        source: str,
        where: str,
        current: int | None = None,
        other: Other | None = None,
        ticks_per_ms: int = 1,
    ):
        self.slots, self.source, self.where, self.current = slots, source, where, current
        self.other, self.ticks_per_ms = other, ticks_per_ms

    def error(self, node: ex.Expression, message: str, kind: type[CepError] = PredicateError) -> CepError:
        """Return an error that shows the place of a node."""
        text = f"{self.where}: {message}"
        if node.span is not None and node.span[1] <= len(self.source):
            text += f"\n{underline(self.source, node.span[0], node.span[1] - node.span[0])}"
        return kind(text)

    # --- attributes

    def attribute(self, node: ex.Attribute) -> Typed:
        """Compile an attribute without a prefix."""
        name = node.name
        if self.current is not None:
            return self._value(node, self.current, name, None)
        found = [i for i, slot in enumerate(self.slots) if name in slot.attributes]
        if len(found) > 1:
            owners = " and ".join(self.slots[i].names[0] for i in found[:2])
            raise self.error(
                node, f"{owners} both have {name!r}; write {self.slots[found[0]].names[0]}.{name}"
            )
        if not found:
            known = {attribute for slot in self.slots for attribute in slot.attributes}
            raise self._unknown(node, f"no attribute {name!r}", name, known)
        return self._value(node, found[0], name, None)

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
        known = {one for slot in self.slots for one in slot.names}
        raise self._unknown(node, f"nothing in this query is named {name!r}", name, known)

    def _unknown(self, node: ex.Expression, message: str, name: str, known: set[str]) -> CepError:
        hint = nearest(name, sorted(known))
        listed = f" Known: {', '.join(sorted(known))}." if not hint and known else hint
        return self.error(node, f"{message}.{listed}", ColumnNotFoundError)

    def _value(self, node: ex.Expression, slot: int, name: str, index: int | str | None) -> Typed:
        of = self.slots[slot]
        if name not in of.attributes:
            owner = of.names[0]
            raise self._unknown(node, f"{owner} has no attribute {name!r}", name, set(of.attributes))
        place, kind = of.attributes[name]
        pick = chain_index(index, own=slot == self.current)
        if index is None and of.is_counted and self.current is None:
            return Typed(_listed(slot, place), kind, is_list=True)
        if pick == -1 and not of.is_counted:
            return Typed(_first(slot, place), kind)
        return Typed(_picked(slot, place, pick), kind)


def chain_index(index: int | str | None, *, own: bool) -> int:
    """Return a place in the events of a state, as Python counts.

    In the filter of the state itself, ``last`` is the event before the one that the filter looks at.
    """
    if index is None:
        return -1
    if isinstance(index, int):
        return index - 1
    back = int(index.partition("-")[2] or 0)
    return -1 - back - own


def _first(slot: int, place: int) -> Value:
    def value(slots: Slots) -> Any:
        taken = slots[slot]
        return None if taken is None else taken[-1][place]

    return value


def _picked(slot: int, place: int, pick: int) -> Value:
    def value(slots: Slots) -> Any:
        taken = slots[slot]
        if taken is None or not -len(taken) <= pick < len(taken):
            return None
        return taken[pick][place]

    return value


def _listed(slot: int, place: int) -> Value:
    def value(slots: Slots) -> Any:
        return [event[place] for event in slots[slot] or ()]

    return value


# --- expressions


def compile_siddhi(tree: ex.Expression, scope: Scope) -> Typed:
    """Return an expression as a function of the events that a query holds.

    Conditions have two values: a comparison with a missing value is false.

    Raises
    ------
    ColumnNotFoundError
        For an attribute or a reference that does not exist.
    PredicateError
        For a function that does not exist, and for types that do not fit.
    """
    if scope.other is not None:
        made = scope.other(tree)
        if made is not None:
            return made
    match tree:
        case ex.Literal(value=value):
            return Typed(lambda slots: value, _type_of(value))
        case ex.Attribute():
            return scope.attribute(tree)
        case ex.Reference():
            return scope.reference(tree)
        case ex.IsNull(operand=operand):
            return _is_null(operand, scope)
        case ex.And(operands=operands):
            calls = [_condition(operand, scope) for operand in operands]
            return Typed(lambda slots: all(call(slots) for call in calls), BOOL)
        case ex.Or(operands=operands):
            calls = [_condition(operand, scope) for operand in operands]
            return Typed(lambda slots: any(call(slots) for call in calls), BOOL)
        case ex.Not(operand=operand):
            call = _condition(operand, scope)
            return Typed(lambda slots: not call(slots), BOOL)
        case ex.Comparison():
            return _comparison(tree, scope)
        case ex.Arithmetic():
            return _arithmetic(tree, scope)
        case ex.Negative(operand=operand):
            part = _number(operand, scope)
            return Typed(lambda slots: None if (v := part.call(slots)) is None else -v, part.type)
        case ex.Call():
            return _call(tree, scope)
    raise scope.error(tree, f"SiddhiQL has no {type(tree).__name__}")


def _type_of(value: Any) -> Type:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT if abs(value) < 2**31 else LONG
    return {float: DOUBLE, str: STRING}.get(type(value), OBJECT)


def compile_condition(tree: ex.Expression, scope: Scope) -> Value:
    """Return a condition as a function that gives true or false."""
    return _condition(tree, scope)


_TRUTHS = (ex.Comparison, ex.And, ex.Or, ex.Not, ex.IsNull)  # never missing


def _condition(tree: ex.Expression, scope: Scope) -> Value:
    part = compile_siddhi(tree, scope)
    if part.type not in (BOOL, OBJECT) or part.is_list:
        raise scope.error(tree, f"{print_condition(tree)} is no condition; its type is {part.type}")
    call = part.call
    if isinstance(tree, _TRUTHS):
        return call
    return lambda slots: call(slots) is True


def _single(tree: ex.Expression, scope: Scope) -> Typed:
    part = compile_siddhi(tree, scope)
    if part.is_list:
        text = print_condition(tree)
        name, _, attribute = text.partition(".")
        raise scope.error(
            tree, f"{text} is a list, one value for each event; write {name}[0].{attribute} or {name}[last]…"
        )
    return part


def _number(tree: ex.Expression, scope: Scope) -> Typed:
    part = _single(tree, scope)
    if part.type not in (*NUMBERS, OBJECT) and not isinstance(part.type, ColumnType):
        raise scope.error(tree, f"{print_condition(tree)} is no number; its type is {part.type}")
    return part


def _is_null(operand: ex.Expression, scope: Scope) -> Typed:
    event = _whole_event(operand, scope)
    if event is None:
        call = compile_siddhi(operand, scope).call
    else:
        slot = scope.slot(operand, event[0])
        call = _picked(slot, 0, chain_index(event[1], own=slot == scope.current))
    return Typed(lambda slots: call(slots) is None, BOOL)


def _whole_event(node: ex.Expression, scope: Scope) -> tuple[str, int | str | None] | None:
    """Return the name and the index of an event, as in ``e1 is null``; None for anything else."""
    if isinstance(node, ex.Reference) and node.name is None:
        return node.variable, node.index
    if isinstance(node, ex.Attribute):
        names = {name for slot in scope.slots for name in slot.names}
        own = scope.slots[scope.current].attributes if scope.current is not None else {}
        if node.name in names and node.name not in own:
            return node.name, 1
    return None


_COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def _family(of: Type) -> object:
    return "number" if of in NUMBERS else of


def _comparison(tree: ex.Comparison, scope: Scope) -> Typed:
    left, right = _single(tree.left, scope), _single(tree.right, scope)
    kinds = {_family(left.type), _family(right.type)}
    if len(kinds) > 1 and OBJECT not in kinds:
        raise scope.error(tree, f"{print_condition(tree)} compares {left.type} with {right.type}")
    if tree.operator not in ("==", "!=") and kinds & {STRING, BOOL}:
        raise scope.error(
            tree, f"{print_condition(tree)}: values of type {left.type} have no order in Siddhi"
        )
    one, other, test = left.call, right.call, _COMPARE[tree.operator]
    if OBJECT in kinds:
        test = _compared_objects(test, print_condition(tree))
    if isinstance(tree.right, ex.Literal) and tree.right.value is not None:
        constant = tree.right.value
        return Typed(lambda slots: (a := one(slots)) is not None and test(a, constant), BOOL)

    def holds(slots: Slots) -> bool:
        a, b = one(slots), other(slots)
        return a is not None and b is not None and test(a, b)

    return Typed(holds, BOOL)


def _compared_objects(test: Callable[[Any, Any], Any], condition: str) -> Callable[[Any, Any], bool]:
    """Return a comparison of objects, such as results of functions, that names values that do not compare."""

    def compared(a: Any, b: Any) -> bool:
        try:
            return bool(test(a, b))
        except (TypeError, ValueError) as error:
            shown = " with ".join(f"{ascii(value)[:60]} of type {type(value).__name__}" for value in (a, b))
            raise CepError(f"{condition} compares {shown}, which have no common order") from error

    return compared


def _wider(left: Type, right: Type) -> Type:
    if OBJECT in (left, right):
        return OBJECT
    if isinstance(left, ColumnType) or isinstance(right, ColumnType):
        return LONG
    return NUMBERS[max(NUMBERS.index(left), NUMBERS.index(right))]


def _whole_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _whole_rest(a: int, b: int) -> int:
    return a - b * _whole_quotient(a, b)


def _arithmetic(tree: ex.Arithmetic, scope: Scope) -> Typed:
    left, right = _number(tree.left, scope), _number(tree.right, scope)
    kind, sign = _wider(left.type, right.type), tree.operator
    is_whole = kind in (INT, LONG)
    calculate: Callable[[Any, Any], Any]
    if sign == "/":
        calculate = _whole_quotient if is_whole else operator.truediv
    elif sign == "%":
        calculate = _whole_rest if is_whole else math.fmod
    else:
        calculate = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    one, other, divides = left.call, right.call, sign in "/%"

    def value(slots: Slots) -> Any:
        a, b = one(slots), other(slots)
        if a is None or b is None or (divides and b == 0):
            return None
        return calculate(a, b)

    return Typed(value, kind)


# --- functions -------------------------------------------------------------------------------------------


def _call(tree: ex.Call, scope: Scope) -> Typed:
    name, arguments = tree.function.lower(), tree.arguments
    if name == "eventtimestamp" and not arguments:
        slot, per_ms = scope.current or 0, scope.ticks_per_ms
        time = _picked(slot, 0, -1)
        return Typed(lambda slots: None if (t := time(slots)) is None else t // per_ms, LONG)
    if name in CLOCKS:
        raise scope.error(tree, f"{tree.function}() gives another value in each run; leave it out")
    parts = [_single(argument, scope) for argument in arguments]
    if name in TESTS and len(parts) == 1:
        fits, call = parts[0].type in TESTS[name], parts[0].call
        return Typed(lambda slots: fits and call(slots) is not None, BOOL)
    if name in ("convert", "cast") and len(parts) == 2 and isinstance(arguments[1], ex.Literal):
        wanted = str(arguments[1].value)
        if wanted in CASTS:
            cast, call = CASTS[wanted], parts[0].call
            return Typed(lambda slots: None if (v := call(slots)) is None else cast(v), wanted)
    if name in CALLS:
        least, most, kind, function = CALLS[name]
        if not least <= len(parts) <= most:
            counts = (
                str(least) if least == most else f"{least} or more" if most == 99 else f"{least} to {most}"
            )
            raise scope.error(tree, f"{tree.function} takes {counts} arguments, {len(parts)} given")
        return Typed(_applied(function, parts), parts[-1].type if kind is None else kind)
    if fn.is_registered(tree.function):
        return Typed(_applied(fn.registered_function(tree.function).call, parts), OBJECT)
    known = ["ifThenElse", "coalesce", "default", "maximum", "minimum", "convert", "cast", "eventTimestamp"]
    known += [*CALLS, "instanceOfFloat", "instanceOfString", "sum", "avg", "count", "min", "max", "stdDev"]
    hint = nearest(tree.function, known)
    own = "register your own with @cep.pure"
    raise scope.error(tree, f"no function {tree.function!r}; {own}{hint and '.' + hint}")


def _applied(function: Callable, parts: Sequence[Typed]) -> Value:
    calls = [part.call for part in parts]
    return lambda slots: function(*(call(slots) for call in calls))
