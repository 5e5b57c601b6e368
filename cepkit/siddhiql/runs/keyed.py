"""States of patterns that ask only partial matches with the key of an event: ``e2=B[k == e1.k]`` is one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from cepkit.siddhiql.runs.states import Event, PartialState, WaitingState


@dataclass(frozen=True, slots=True)
class Equality:
    """A filter needs a value of its event to equal one of an earlier event: their places, and its slot."""

    place: int
    slot: int
    other_place: int


class KeyedState(WaitingState):
    """A state of a pattern that takes one event whose key is that of the partial match.

    An event with another key changes nothing here, so the state does not offer it. The key of a partial match
    stays the same: its events come from states that it has passed, and that take one event.

    """

    def __init__(self, slot: int, n_slots: int, equalities: tuple[Equality, ...], **keywords: bool):
        super().__init__(slot, n_slots, **keywords)
        self._equalities, self._numbers = equalities, count()
        self._waiting: dict[int, PartialState] = {}  # by number, in the order of arrival
        self._of_key: defaultdict[tuple, dict[int, PartialState]] = defaultdict(dict)

    @property
    def n_waiting(self) -> int:
        """The number of partial matches, with the fresh ones."""
        return len(self._waiting) + len(self.fresh)

    def keep(self, arrived: list[PartialState]) -> None:
        """Let partial matches take events."""
        for number, partial in zip(self._numbers, arrived, strict=False):
            self._waiting[number] = partial
            if (key := self._key(partial)) is not None:
                self._of_key[key][number] = partial

    def oldest(self) -> Iterator[PartialState]:
        """Yield the partial matches that take events, the oldest first."""
        yield from self._waiting.values()

    def forget_oldest(self, n: int) -> None:
        """Forget the oldest partial matches."""
        for number in [*islice(self._waiting, n)]:
            key = self._key(self._waiting.pop(number))
            if key is not None:
                self._forget(key, number)

    def take(self, event: Event) -> list[PartialState]:
        """Offer an event to the partial matches with its key, and return those that are complete."""
        made: list[PartialState] = []
        key = tuple(event[equality.place] for equality in self._equalities)
        for number, partial in [*self._of_key.get(key, {}).items()]:
            partial.slots[self.slot] = [event]
            self.check(partial)
            if self.completed.is_complete:
                self.completed.is_complete = False
                made.append(partial)
            if self.is_changed:
                del self._waiting[number]
                self._forget(key, number)
            else:
                partial.slots[self.slot] = None
        return made

    def _forget(self, key: tuple, number: int) -> None:
        del self._of_key[key][number]
        if not self._of_key[key]:
            del self._of_key[key]

    def _key(self, partial: PartialState) -> tuple[Any, ...] | None:
        """Return the values that an event must have; None if one is missing, which equals nothing."""
        key = []
        for equality in self._equalities:
            taken = partial.slots[equality.slot]
            if taken is None or taken[-1][equality.other_place] is None:
                return None
            key.append(taken[-1][equality.other_place])
        return tuple(key)
