"""The names that expressions of a SiddhiQL query can use, and where their values are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepkit.errors import CepError, ColumnNotFoundError, PredicateError, nearest, underline
from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi.printing import print_condition
from cepkit.siddhiql.functions.signatures import Type
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
        return Typed(picked(slot, place, pick), kind)


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


def picked(slot: int, place: int, pick: int) -> Value:
    """Return the value at a place of one event of a slot; null if the slot has no such event."""

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
