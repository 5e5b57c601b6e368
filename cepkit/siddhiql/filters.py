"""The filters of the states of a pattern: their tests, and the equalities that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi import patterns as sp
from cepkit.siddhiql.functions.signatures import BOOL, STRING, WHOLE, Type
from cepkit.siddhiql.runs.keyed import Equality
from cepkit.siddhiql.scopes import Scope, SlotOf, Value
from cepkit.siddhiql.values import compile_condition

State = sp.EventState | sp.AbsentState


class AttributePlace(NamedTuple):
    """Where an attribute is: its slot, and its place and type in the events of the slot."""

    slot: int
    place: int
    type: Type


class FilterScope(Scope):
    """The names in the filter of a state. The name of its stream means the event at hand."""

    def __init__(self, state: State, place: int, slots: Sequence[SlotOf], source: str, per_ms: int):
        own = slots[place]
        every = [*slots]
        every[place] = SlotOf((*own.names, state.source.stream), own.attributes, own.is_counted)
        super().__init__(every, source, f"filter of {own.names[0]}", place, None, per_ms)
        self._place = place

    def slot(self, node: ex.Expression, name: str) -> int:
        """Return the slot of a reference or a stream."""
        if name in self.slots[self._place].names:
            exact = [i for i, slot in enumerate(self.slots) if slot.names[0] == name]
            return exact[0] if exact else self._place
        return super().slot(node, name)

    def place_of(self, node: ex.Expression) -> AttributePlace | None:
        """Return where an attribute is; None for an index and for all other expressions."""
        if isinstance(node, ex.Attribute):
            slot = self._place
        elif isinstance(node, ex.Reference) and node.name is not None and node.index is None:
            slot = self.slot(node, node.variable)
        else:
            return None
        return AttributePlace(slot, *self.slots[slot].attributes[node.name])

    def can_be_key(self, own: AttributePlace, other: AttributePlace) -> bool:
        """Return whether a filter may find earlier events by this value of the event at hand.

        The earlier state takes one event, and equal values have equal hashes.

        """
        before, kinds = self.slots[other.slot], {own.type, other.type}
        is_earlier = own.slot == self._place and other.slot < self._place
        has_one_event = not before.is_counted and not before.is_absent
        return is_earlier and has_one_event and (kinds <= {*WHOLE} or kinds in ({STRING}, {BOOL}))


def filter_test(state: State, scope: FilterScope) -> Value | None:
    """Return the conditions of a state as one function, or None without conditions."""
    calls = [compile_condition(condition, scope) for condition in state.source.conditions]
    if len(calls) < 2:
        return calls[0] if calls else None
    return lambda events: all(call(events) for call in calls)


def filter_keys(state: State, scope: FilterScope) -> tuple[Equality, ...]:
    """Return the equalities that the conditions of a state need, between its event and earlier ones.

    Call it after `filter_test`, which raises for names that do not exist.

    """
    found, waiting = [], [*state.source.conditions]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, ex.And):
            waiting += tree.operands
        if isinstance(tree, ex.Comparison) and tree.operator == "==":
            sides = [scope.place_of(node) for node in (tree.left, tree.right)]
            for own, other in (sides, sides[::-1]):
                if own is not None and other is not None and scope.can_be_key(own, other):
                    found.append(Equality(own.place, other.slot, other.place))
    return tuple(found)
