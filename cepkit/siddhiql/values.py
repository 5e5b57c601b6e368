"""Turn expressions of SiddhiQL into Python functions of the events that a query holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from cepkit.events import ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.vocabulary import remainder
from cepkit.language.siddhi.building import Milliseconds
from cepkit.language.siddhi.printing import print_condition
from cepkit.siddhiql.calls import Scope, Typed, Value, chain_index, checked, compile_call, picked
from cepkit.siddhiql.functions import BOOL, DOUBLE, INT, LONG, NUMBERS, OBJECT, STRING, Type
from cepkit.siddhiql.states import Slots


def compile_siddhi(tree: ex.Expression, scope: Scope) -> Typed:
    """Return an expression as a function of the events that a query holds."""
    # Conditions have two values: a comparison with a missing value is false.
    if scope.other is not None:
        typed = scope.other(tree)
        if typed is not None:
            return typed
    match tree:
        case ex.Literal(value=value):
            plain = int(value) if type(value) is Milliseconds else value
            return Typed(lambda slots: plain, _type_of(value))
        case ex.Attribute():
            return scope.attribute(tree)
        case ex.Reference():
            return scope.reference(tree)
        case ex.IsNull(operand=operand):
            return _is_null(operand, scope)
        case ex.And(operands=operands):
            calls = [compile_condition(operand, scope) for operand in operands]
            return Typed(all_hold(calls), BOOL)
        case ex.Or(operands=operands):
            calls = [compile_condition(operand, scope) for operand in operands]
            return Typed(lambda slots: any(call(slots) for call in calls), BOOL)
        case ex.Not(operand=operand):
            call = compile_condition(operand, scope)
            return Typed(lambda slots: not call(slots), BOOL)
        case ex.Comparison():
            return _comparison(tree, scope)
        case ex.Arithmetic():
            return _arithmetic(tree, scope)
        case ex.Negative(operand=operand):
            part = _number(operand, scope)
            return Typed(lambda slots: None if (v := part.call(slots)) is None else -v, part.type)
        case ex.Call(arguments=arguments):
            return compile_call(tree, [_single(argument, scope) for argument in arguments], scope)
    raise scope.error(tree, f"SiddhiQL has no {type(tree).__name__}")


def all_hold(conditions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], bool]:
    """Return the function that says whether all conditions hold."""

    def hold(slots: Any) -> bool:
        for condition in conditions:  # noqa: SIM110 - `all` of a generator takes longer
            if not condition(slots):
                return False
        return True

    return hold


def _type_of(value: Any) -> Type:
    """Return the type of a constant."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, Milliseconds):
        return LONG
    if isinstance(value, int):
        return INT if abs(value) < 2**31 else LONG
    return {float: DOUBLE, str: STRING}.get(type(value), OBJECT)


_TRUTHS = (ex.Comparison, ex.And, ex.Or, ex.Not, ex.IsNull)  # never missing


def compile_condition(tree: ex.Expression, scope: Scope) -> Value:
    """Return a condition as a function that gives true or false."""
    part = compile_siddhi(tree, scope)
    if part.type not in (BOOL, OBJECT) or part.is_list:
        raise scope.error(tree, f"{print_condition(tree)} is no condition; its type is {part.type}")
    call = part.call
    if isinstance(tree, _TRUTHS):
        return call
    return lambda slots: call(slots) is True


def _single(tree: ex.Expression, scope: Scope) -> Typed:
    """Return an expression with one value. Raise for a list."""
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
    return Typed(checked(tree, part, NUMBERS, scope), part.type)


def _is_null(operand: ex.Expression, scope: Scope) -> Typed:
    """Return the test whether a value, or a whole event, is missing."""
    event = _whole_event(operand, scope)
    if event is None:
        call = compile_siddhi(operand, scope).call
    else:
        slot = scope.slot(operand, event[0])
        call = picked(slot, 0, chain_index(event[1], in_filter=slot == scope.current))
    return Typed(lambda slots: call(slots) is None, BOOL)


def _whole_event(node: ex.Expression, scope: Scope) -> tuple[str, int | str | None] | None:
    """Return the name and the index of an event, as in ``e1 is null``; None for anything else."""
    if isinstance(node, ex.Reference) and node.name is None:
        return node.variable, node.index
    if isinstance(node, ex.Attribute):
        names = {name for slot in scope.slots for name in slot.names}
        event_attributes = scope.slots[scope.current].attributes if scope.current is not None else {}
        if node.name in names and node.name not in event_attributes:
            return node.name, 1
    return None


def _family(of: Type) -> object:
    return "number" if of in NUMBERS else of


def _comparison(tree: ex.Comparison, scope: Scope) -> Typed:
    """Return a comparison. Raise for types that do not go together."""
    left, right = _single(tree.left, scope), _single(tree.right, scope)
    kinds = {_family(left.type), _family(right.type)}
    if len(kinds) > 1 and OBJECT not in kinds:
        raise scope.error(tree, f"{print_condition(tree)} compares {left.type} with {right.type}")
    if tree.operator not in ("==", "!=") and kinds & {STRING, BOOL}:
        raise scope.error(
            tree, f"{print_condition(tree)}: values of type {left.type} have no order in Siddhi"
        )
    left_call, right_call, test = left.call, right.call, ex.COMPARE[tree.operator]
    with_null = tree.operator == "!="  # null differs from every value, also from null
    if OBJECT not in kinds and isinstance(tree.right, ex.Literal) and tree.right.value is not None:
        constant = tree.right.value
        return Typed(lambda slots: with_null if (a := left_call(slots)) is None else test(a, constant), BOOL)

    def holds(slots: Slots) -> bool:
        a, b = left_call(slots), right_call(slots)
        if a is None or b is None:
            return with_null
        try:
            return bool(test(a, b))
        except (TypeError, ValueError):  # of values whose types are not known before the query runs
            shown = " with ".join(f"{ascii(value)[:60]} of type {type(value).__name__}" for value in (a, b))
            message = f"{print_condition(tree)} compares {shown}, which have no common order"
            raise scope.error(tree, message) from None

    return Typed(holds, BOOL)


def _wider(left: Type, right: Type) -> Type:
    """Return the type that holds the numbers of two types."""
    if OBJECT in (left, right):
        return OBJECT
    if isinstance(left, ColumnType) or isinstance(right, ColumnType):
        return LONG
    return NUMBERS[max(NUMBERS.index(left), NUMBERS.index(right))]


def _whole_quotient(a: int, b: int) -> int:
    """Return the quotient rounded towards zero, as in Java."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _arithmetic(tree: ex.Arithmetic, scope: Scope) -> Typed:
    """Return a sum, difference, product, quotient or remainder with Java's rules."""
    left, right = _number(tree.left, scope), _number(tree.right, scope)
    kind, sign = _wider(left.type, right.type), tree.operator
    is_whole = kind in (INT, LONG)
    calculate: Callable[[Any, Any], Any]
    if sign == "/":
        calculate = _whole_quotient if is_whole else operator.truediv
    elif sign == "%":
        calculate = remainder
    else:
        calculate = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    left_call, right_call, divides = left.call, right.call, sign in "/%"

    def value(slots: Slots) -> Any:
        a, b = left_call(slots), right_call(slots)
        if a is None or b is None or (divides and b == 0):
            return None
        return calculate(a, b)

    return Typed(value, kind)
