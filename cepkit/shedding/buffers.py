"""Buffers of waiting events, and arrays that find the event of least utility in constant time."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cepkit.errors import CepError, whole_number

RANDOM, OLDEST, NEWEST = "random", "oldest", "newest"
N_SLOTS = 100  # xi


def utility_slot(utility: float, n_slots: int) -> int:
    """Return the number of the array of a utility: ``n_slots`` is that of a utility of exactly 1."""
    return int(utility * n_slots)


class UtilityArrays:
    """Events in arrays by utility. The event to drop comes from the lowest array that is not empty.

    Source: DARLING, section 4.4.
    """

    def __init__(self, n_slots: int = N_SLOTS, *, tie: str = RANDOM, seed: int = 0):
        whole_number("n_slots", n_slots, 1)
        if tie not in (RANDOM, OLDEST, NEWEST):
            raise CepError(f"tie={tie!r}: expected 'random', 'oldest' or 'newest'")
        self.n_slots = n_slots
        self._tie = tie
        self._random = random.Random(seed)
        self._slots: list[_Bag | OrderedDict] = [
            _Bag() if tie == RANDOM else OrderedDict() for _ in range(n_slots + 1)
        ]
        self._slot_of: dict[Hashable, int] = {}
        self._lowest = 0

    def __len__(self) -> int:
        return len(self._slot_of)

    def add(self, event: Hashable, utility: float) -> None:
        """Add an event with a utility from 0 to 1."""
        if not 0 <= utility <= 1:
            raise CepError(f"utility={utility}: expected a number from 0 to 1")
        slot = utility_slot(utility, self.n_slots)
        self._slot_of[event] = slot
        self._slots[slot][event] = None
        self._lowest = min(self._lowest, slot)

    def remove(self, event: Hashable) -> None:
        """Remove an event that is there."""
        del self._slots[self._slot_of.pop(event)][event]

    def slot(self, event: Hashable) -> int:
        """Return the number of the array of an event."""
        return self._slot_of[event]

    def lowest(self) -> int:
        """Return the number of the lowest array that is not empty."""
        if not self._slot_of:
            raise CepError("there is no event to drop")
        while not self._slots[self._lowest]:
            self._lowest += 1
        return self._lowest

    def drop_lowest(self) -> Hashable:
        """Remove an event of the lowest array and return it."""
        slot = self._slots[self.lowest()]
        event = slot.draw(self._random) if self._tie == RANDOM else slot.popitem(last=self._tie == NEWEST)[0]
        del self._slot_of[event]
        return event

    def save(self) -> dict[str, Any]:
        """Return the state as numbers and lists."""
        slots = {str(i): list(slot) for i, slot in enumerate(self._slots) if len(slot)}
        return {"slots": slots, "random": list(self._random.getstate()[1])}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned, into empty arrays."""
        for number, events in saved["slots"].items():
            slot = self._slots[int(number)]
            for event in events:
                slot[event] = None
                self._slot_of[event] = int(number)
        self._random.setstate((3, tuple(int(word) for word in saved["random"]), None))


class _Bag:
    """Events without an order. Any one is removed in constant time: the last one takes its place."""

    def __init__(self) -> None:
        self._events: list[Hashable] = []
        self._place: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._events)

    def __setitem__(self, event: Hashable, _: None) -> None:
        self._place[event] = len(self._events)
        self._events.append(event)

    def __delitem__(self, event: Hashable) -> None:
        place, last = self._place.pop(event), self._events.pop()
        if last != event:
            self._events[place] = last
            self._place[last] = place

    def draw(self, generator: random.Random) -> Hashable:
        event = self._events[generator.randrange(len(self._events))]
        del self[event]
        return event


@dataclass(frozen=True, slots=True)
class BufferRule:
    """The limits of the buffers and the utilities of events."""

    limit: float  # events that may wait in all buffers before any is dropped: beta N_in
    limit_of_type: Mapping[Any, int]  # N_T. Any values can name the types.
    threshold_of_type: Mapping[Any, int]  # gamma_T: the size from which a buffer has utility arrays
    # Takes the type and the event, and returns a number from 0 to 1.
    utility: Callable[[Any, Hashable], float]
    # See `UtilityArrays`; missing types have ``"random"``.
    tie_of_type: Mapping[Any, str] = field(default_factory=dict)
    n_slots: int = N_SLOTS  # xi
    seed: int = 0


class EventBuffers:
    """A buffer of waiting events for each type. Full buffers drop the events of least utility.

    As long as all buffers together are within the limit, nothing is dropped. Above it, every type with more
    events than its own limit drops events down to this limit.

    The waiting events never exceed ``limit`` or the sum of the types' limits, whichever is more.

    Source: DARLING, sections 4.2 and 4.4. Differs: a type drops down to its limit, not one event per arrival.
    All types drop, not only the type that arrives. Otherwise a type that filled the buffers alone would keep
    its events, and the others would come on top of them. The arrays go when the buffer has less than half of
    their threshold.
    """

    def __init__(self, rule: BufferRule):
        self.rule = rule
        self._waiting: dict[Any, OrderedDict[Hashable, None]] = {t: OrderedDict() for t in rule.limit_of_type}
        self._arrays: dict[Any, UtilityArrays] = {}
        self._n_waiting = 0

    def __len__(self) -> int:
        return self._n_waiting

    def size(self, event_type: Any) -> int:
        """Return how many events of a type wait."""
        return len(self._waiting[event_type])

    def arrays(self, event_type: Any) -> UtilityArrays | None:
        """Return the utility arrays of a type, or None while there are none."""
        return self._arrays.get(event_type)

    def push(self, event_type: Any, event: Hashable) -> list[Hashable]:
        """Add an event that arrives, and return the events that are dropped for it; it may be one of them."""
        waiting, arrays = self._waiting[event_type], self._arrays.get(event_type)
        waiting[event] = None
        self._n_waiting += 1
        if arrays is not None:
            arrays.add(event, self.rule.utility(event_type, event))
        elif len(waiting) >= max(1, self.rule.threshold_of_type[event_type]):
            self._build(event_type)
        if self._n_waiting <= self.rule.limit:
            return []
        return self.drop_surplus()

    def drop_surplus(self) -> list[Hashable]:
        """Drop events of all types above their limits if the buffers together are full, and return them."""
        if self._n_waiting <= self.rule.limit:
            return []
        return [event for name in self._waiting for event in self._drop_surplus(name)]

    def _drop_surplus(self, event_type: Any) -> list[Hashable]:
        """Drop the events of a type above its limit, those of least utility first."""
        waiting, limit = self._waiting[event_type], self.rule.limit_of_type[event_type]
        dropped = []
        while len(waiting) > limit:
            arrays = self._arrays.get(event_type) or self._build(event_type)
            dropped.append(arrays.drop_lowest())
            del waiting[dropped[-1]]
            self._n_waiting -= 1
        return dropped

    def pop(self, event_type: Any) -> Hashable:
        """Remove and return the oldest event of a type."""
        event = next(iter(self._waiting[event_type]))
        self.remove(event_type, event)
        return event

    def remove(self, event_type: Any, event: Hashable) -> bool:
        """Remove an event that leaves its buffer to be processed; return whether it was in an array."""
        del self._waiting[event_type][event]
        self._n_waiting -= 1
        if (arrays := self._arrays.get(event_type)) is None:
            return False
        arrays.remove(event)
        if 2 * len(arrays) < self.rule.threshold_of_type[event_type] or not len(arrays):
            del self._arrays[event_type]
        return True

    def events(self, event_type: Any) -> Iterator[Hashable]:
        """Iterate over the waiting events of a type, oldest first."""
        return iter(self._waiting[event_type])

    def waits(self, event_type: Any, event: Hashable) -> bool:
        """Return whether an event waits."""
        return event in self._waiting[event_type]

    def change(self, rule: BufferRule) -> None:
        """Set new limits and utilities for the same types. Arrays are built again with the new utilities."""
        self.rule = rule
        built, self._arrays = list(self._arrays), {}
        for event_type in built:
            if len(self._waiting[event_type]) >= max(1, rule.threshold_of_type[event_type]):
                self._build(event_type)

    def save(self) -> dict[str, Any]:
        """Return the waiting events and the arrays as lists in the order of the types of the rule."""
        arrays = [self._arrays.get(event_type) for event_type in self._waiting]
        return {
            "waiting": [list(events) for events in self._waiting.values()],
            "arrays": [None if array is None else array.save() for array in arrays],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned, with a rule for the same types."""
        for event_type, events, of_type in zip(
            list(self._waiting), saved["waiting"], saved["arrays"], strict=True
        ):
            self._waiting[event_type] = OrderedDict.fromkeys(events)
            self._arrays.pop(event_type, None)
            if of_type is not None:
                self._arrays[event_type] = self._empty(event_type)
                self._arrays[event_type].restore(of_type)
        self._n_waiting = sum(map(len, self._waiting.values()))

    def oldest(self, event_type: Any) -> Hashable | None:
        """Return the oldest event of a type, or None."""
        return next(iter(self._waiting[event_type]), None)

    def _build(self, event_type: Any) -> UtilityArrays:
        arrays = self._empty(event_type)
        for event in self._waiting[event_type]:
            arrays.add(event, self.rule.utility(event_type, event))
        self._arrays[event_type] = arrays
        return arrays

    def _empty(self, event_type: Any) -> UtilityArrays:
        rule = self.rule
        return UtilityArrays(rule.n_slots, tie=rule.tie_of_type.get(event_type, RANDOM), seed=rule.seed)
