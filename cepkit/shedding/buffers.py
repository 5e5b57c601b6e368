"""Buffers of a live stream: bounded queues of events, and the limits of their lengths."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np

from cepkit.errors import CepError, whole_number
from cepkit.values import dataclass, field

# How many events buffers may hold, so that the last one still meets the latency bound.

DARLING, BY_RATE = "darling", "rate"
SPLITS = (DARLING, BY_RATE)


def queue_limit(latency_bound_s: float, mean_service_s: float) -> float:
    """Return N_in: how many events may wait so that the last one is processed within the bound."""
    # Source: DARLING, section 4.2.1.
    _positive("latency_bound_s", latency_bound_s)
    _positive("mean_service_s", mean_service_s)
    return latency_bound_s / mean_service_s


def buffer_limits(
    n_in: float, event_cost_s: Mapping[str, float], rate_hz: Mapping[str, float], *, safety: float = 0.8,
    split: str = DARLING, weights: Mapping[str, float] | None = None,
) -> dict[str, int]:  # fmt: skip
    """Return N_T: how many events of each type may wait."""
    # Source: DARLING, section 4.2.2. Differs: the paper says that the limits add up to N_in. With its factor
    # beta they add up to beta N_in. Full buffers of the paper's split can take longer than the bound; see
    # `drain_time`.
    _positive("n_in", n_in)
    if not 0 < safety <= 1:
        raise CepError(f"safety={safety}: expected a share above 0 and at most 1")
    if split not in SPLITS:
        raise CepError(f"split={split!r}: expected one of {', '.join(map(repr, SPLITS))}")
    if set(event_cost_s) != set(rate_hz):
        differ = sorted(map(str, set(event_cost_s) ^ set(rate_hz)))
        raise CepError(f"costs and rates need the same types; only one of them has {', '.join(differ)}")
    weights = weights or {}
    if unknown := sorted(map(str, set(weights) - set(rate_hz))):
        raise CepError(
            f"weights: no rate is given for type {', '.join(unknown)}; the types are "
            f"{', '.join(map(str, rate_hz))}"
        )
    shares = {}
    for name, rate in rate_hz.items():
        cost, weight = event_cost_s[name], weights.get(name, 1.0)
        for what, value in (("cost", cost), ("rate", rate), ("weight", weight)):
            if not 0 <= value < inf:
                raise CepError(f"{what} {value} of type {name!r}: expected a number that is not negative")
        shares[name] = rate * weight * (1.0 if split == BY_RATE else cost)
    total = sum(shares.values())
    if total == 0:
        raise CepError("no type has a rate, a cost and a weight above 0, so nothing can be divided")
    return {name: max(1, ceil(round(n_in * safety * share / total, 9))) for name, share in shares.items()}


def drain_time(limits: Mapping[str, int], event_cost_s: Mapping[str, float]) -> float:
    """Return the seconds to process full buffers. Above the bound, the last events come too late."""
    return sum(limit * event_cost_s[name] for name, limit in limits.items())


def array_threshold(limit: int, n_conditions: int, evaluate_s: float, event_cost_s: float) -> int:
    """Return gamma_T: the size of a buffer at which its utility arrays are built."""
    # Building takes the time of ceil(N_T alpha_T / Z(T)) events, and it must be ready when the buffer is
    # full.
    # Source: DARLING, section 4.4. Differs: never below 0.
    _positive("event_cost_s", event_cost_s)
    return max(0, limit - ceil(round(limit * n_conditions * evaluate_s / event_cost_s, 9)))


def _positive(name: str, value: float) -> None:
    if not 0 < value < inf:
        raise CepError(f"{name}={value}: expected a number above 0")


# Buffers of waiting events, and arrays that find the event of least utility in constant time.

# Which event of the lowest array goes first. "newest_waiting": the newest that arrived before the new one.
RANDOM, NEWEST, NEWEST_WAITING = "random", "newest", "newest_waiting"
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
        if tie not in (RANDOM, NEWEST, NEWEST_WAITING):
            raise CepError(f"tie={tie!r}: expected 'random', 'newest' or 'newest_waiting'")
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
        del self._slots[self._slot_of.pop(event)][event]

    def slot(self, event: Hashable) -> int:
        return self._slot_of[event]

    def lowest(self) -> int:
        """Return the number of the lowest array that is not empty."""
        if not self._slot_of:
            raise CepError("there is no event to drop")
        while not self._slots[self._lowest]:
            self._lowest += 1
        return self._lowest

    def drop_lowest(self, new: Hashable = None) -> Hashable:
        """Remove an event of the lowest array and return it; ``new`` is the event that arrives."""
        slot = self._slots[self.lowest()]
        if isinstance(slot, _Bag):
            event = slot.draw(self._random)
        else:
            event, _ = slot.popitem()
            if self._tie == NEWEST_WAITING and event == new and slot:
                event, _ = slot.popitem()
                slot[new] = None
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
        return len(self._waiting[event_type])

    def arrays(self, event_type: Any) -> UtilityArrays | None:
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
        return [gone for name in self._waiting for gone in self._drop_surplus(name, event)]

    def _drop_surplus(self, event_type: Any, arriving: Hashable) -> list[Hashable]:
        """Drop the events of a type above its limit, those of least utility first."""
        # ``arriving`` is the event whose arrival made the surplus; some rules for ties spare it.
        surplus = len(self._waiting[event_type]) - self.rule.limit_of_type[event_type]
        return [self._drop(event_type, arriving) for _ in range(surplus)]

    def _drop(self, event_type: Any, arriving: Hashable) -> Hashable:
        arrays = self._arrays.get(event_type) or self._build(event_type)
        event = arrays.drop_lowest(arriving)
        del self._waiting[event_type][event]
        self._n_waiting -= 1
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


# The waiting events of a live stream, with the seconds of work that they bring.


class WaitingEvents:
    """Events that wait, in the order of their positions, as arrays. They leave in any order.

    Adding, dropping and serving take O(events that wait) at most, and no work in Python for each event.
    """

    def __init__(self, **types: type):
        self._types = types
        self._columns = {"position": np.zeros(0, np.int64)}
        self._columns.update({name: np.zeros(0, of_column) for name, of_column in types.items()})
        self._waits = np.zeros(0, bool)
        self._first = self._end = self._n = 0  # rows before the first have left

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a column; `rows` says which of its rows wait."""
        return self._columns[name]

    def add(self, **columns: Any) -> None:
        """Add events after all others."""
        n, waits = len(columns["position"]), self._waits
        if self._end + n > len(waits):
            kept = np.flatnonzero(waits[self._first : self._end]) + self._first
            room = max(1024, 2 * (len(kept) + n))
            for name, column in self._columns.items():
                self._columns[name] = np.zeros(room, column.dtype)
                self._columns[name][: len(kept)] = column[kept]
            self._waits = np.zeros(room, bool)
            self._waits[: len(kept)] = True
            self._first, self._end = 0, len(kept)
        rows = slice(self._end, self._end + n)
        for name, values in columns.items():
            self._columns[name][rows] = values
        self._waits[rows] = True
        self._end += n
        self._n += n

    def rows(self, n: int | None = None) -> np.ndarray:
        """Return the rows of the oldest ``n`` events, or of all."""
        stop = self._end
        if n is not None:
            stop = self._first + n
            while stop < self._end and np.count_nonzero(self._waits[self._first : stop]) < n:
                stop = min(self._end, self._first + 2 * (stop - self._first))
        return np.flatnonzero(self._waits[self._first : min(stop, self._end)])[:n] + self._first

    def oldest(self, name: str) -> Any:
        """Return the value of the oldest event in a column; None without events."""
        return self._columns[name][self._first].item() if self._n else None

    def pop(self) -> tuple[Any, ...]:
        """Let the oldest event leave, and return its position and its values of the other columns."""
        values = tuple(column[self._first].item() for column in self._columns.values())
        self.remove(np.array([self._first]))
        return values

    def rows_of(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows of some events; -1 for those that do not wait."""
        if self._first == self._end:
            return np.full(len(positions), -1)
        place = self._columns["position"]
        rows = np.searchsorted(place[self._first : self._end], positions) + self._first
        rows = np.minimum(rows, self._end - 1)
        return np.where(self._waits[rows] & (place[rows] == positions), rows, -1)

    def remove(self, rows: np.ndarray) -> None:
        """Let events leave."""
        self._waits[rows] = False
        self._n -= len(rows)
        waits = self._waits[self._first : self._end]
        self._first += int(np.argmax(waits)) if self._n else len(waits)

    def save(self) -> dict[str, np.ndarray]:
        """Return the columns of the events that wait."""
        rows = self.rows()
        return {name: column[rows] for name, column in self._columns.items()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self.__init__(**self._types)
        self.add(**{name: np.array(saved[name]) for name in self._columns})


UNKNOWN = -1  # step of utility of an event that was not computed


class Gone(NamedTuple):
    """Events that are dropped, with their types and steps of utility."""

    position: np.ndarray
    type: np.ndarray
    step: np.ndarray


class WorkBuffers:
    """The waiting events of a live stream by type. Full buffers drop the events of least utility.

    Nothing is dropped up to ``most`` seconds of work. Above, events are dropped until the work is within
    ``limit``. Then the buffers keep to ``limit`` until they are half empty.

    Source: DARLING, section 4.2. Differs: the work is counted in seconds and not in events, and batches of
    events arrive together. The types that have most events for their limits drop first.
    """

    def __init__(self, most: float, limit: float, ties: Sequence[str], seed: int = 0):
        self.most, self.limit, self._ties = most, limit, tuple(ties)
        self.seconds_of_type = np.zeros(len(ties))
        self.limit_of_type = np.ones(len(ties))  # N_T
        self.waiting = WaitingEvents(type=np.int64, step=np.int64)
        self.n_of_type = np.zeros(len(ties), np.int64)
        self.is_full = False
        self._random = np.random.default_rng(seed)

    @property
    def seconds(self) -> float:
        """The work that waits."""
        return float(self.seconds_of_type @ self.n_of_type)

    def add(self, types: np.ndarray, events: np.ndarray) -> None:
        """Add events that arrive."""
        self.waiting.add(position=events, type=types, step=UNKNOWN)
        self.n_of_type += np.bincount(types, minlength=len(self.n_of_type))

    def remove(self, events: np.ndarray) -> None:
        """Remove processed events; those that do not wait here are ignored."""
        rows = self.waiting.rows_of(events)
        self._take(rows[rows >= 0])

    def _take(self, rows: np.ndarray) -> Gone:
        gone = Gone(*(self.waiting[name][rows] for name in Gone._fields))
        self.waiting.remove(rows)
        self.n_of_type -= np.bincount(gone.type, minlength=len(self.n_of_type))
        return gone

    def push(self, types: np.ndarray, events: np.ndarray, waited: np.ndarray, steps: StepsOf) -> Gone:
        """Add events that were offered some seconds ago, and return those that are dropped."""
        ahead = self.seconds + np.cumsum(self.seconds_of_type[types])
        self.add(types, events)
        if float((ahead + waited).max(initial=0.0)) <= (self.limit if self.is_full else self.most):
            self.is_full = self.is_full and 2.0 * self.seconds > self.limit
            return self._take(np.empty(0, np.int64))
        self.is_full = True
        is_late = 2.0 * waited > self.limit  # others need not go for an event that comes late anyway
        late = self._take(self.waiting.rows_of(events[is_late]))
        ahead = self.seconds - np.cumsum(self.seconds_of_type[types[~is_late]][::-1])[::-1]
        surplus = float((ahead + self.seconds_of_type[types[~is_late]] + waited[~is_late]).max(initial=0.0))
        more = self._drop(surplus - self.limit, steps)
        return Gone(*map(np.concatenate, zip(late, more, strict=True)))

    def drop_surplus(self, steps: StepsOf) -> Gone:
        """Drop events when the work has grown above the limits, and return them."""
        surplus = self.seconds - self.limit
        if self.seconds <= (self.limit if self.is_full else self.most):
            surplus = 0.0
        else:
            self.is_full = True
        return self._drop(surplus, steps)

    def _drop(self, seconds: float, steps: StepsOf) -> Gone:
        """Drop events with some seconds of work: those above a common share of the types' limits."""
        n = self.n_of_type.astype(np.float64)
        low, high = 0.0, float((n / self.limit_of_type).max(initial=0.0))
        for _ in range(30):
            share = (low + high) / 2.0
            gone = self.seconds_of_type @ np.maximum(0.0, n - share * self.limit_of_type)
            low, high = (share, high) if gone >= seconds else (low, share)
        surplus = np.ceil(np.maximum(0.0, n - low * self.limit_of_type) - 1e-6).astype(np.int64)
        if seconds <= 0.0 or not surplus.any():
            return self._take(np.empty(0, np.int64))
        rows = self.waiting.rows()
        types = self.waiting["type"][rows]
        least = [self._least(rows[types == number], number, int(surplus[number]), steps)
                 for number in np.flatnonzero(surplus).tolist()]  # fmt: skip
        return self._take(np.concatenate(least))

    def _least(self, rows: np.ndarray, number: int, n: int, steps: StepsOf) -> np.ndarray:
        """Return the rows of the events of least utility among those of a type."""
        events, step = self.waiting["position"][rows], self.waiting["step"]
        unknown = step[rows] == UNKNOWN
        if unknown.any():
            step[rows[unknown]] = steps(number, events[unknown])
        rank = -events  # the newest one first
        if self._ties[number] == RANDOM:
            rank = self._random.permutation(len(events))
        elif self._ties[number] == NEWEST_WAITING:
            rank[-1] = 1
        return rows[np.lexsort((rank, step[rows]))[:n]]

    def save(self) -> dict[str, Any]:
        """Return the waiting events as arrays."""
        return {
            "waiting": self.waiting.save(), "is_full": self.is_full, "limits": [self.most, self.limit],
            "random": self._random.bit_generator.state,
        }  # fmt: skip

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self.waiting.restore(saved["waiting"])
        self.n_of_type = np.bincount(self.waiting["type"][self.waiting.rows()], minlength=len(self.n_of_type))
        self.is_full, self._random.bit_generator.state = saved["is_full"], saved["random"]
        self.most, self.limit = saved["limits"]


StepsOf = Callable[[int, np.ndarray], np.ndarray]  # steps of utility of some events of a type
