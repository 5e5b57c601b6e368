"""The matches of a sequence query: counted by their last event, and enumerated in blocks when needed."""

from __future__ import annotations

import functools
import inspect
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, groupby
from random import Random
from typing import Any, Self

import numpy as np

from cepkit.compile.shared.loading import load_kernels
from cepkit.events import Events, sums_before
from cepkit.limits import check_memory
from cepkit.progress import checkpoint, hold
from cepkit.values import cached_property, dataclass

MATCHES_PER_BLOCK = 1 << 16
_MATCHES_TOGETHER, _EVENTS_TOGETHER = 1 << 13, 1 << 12  # most that are enumerated at once for nearby numbers
CALLS_OF_A_LOOK = 8  # calls of a kernel for a first look, each of some hundredths of a second
FEW_MATCHES = 1 << 14  # up to this many first matches are found in the first events
_FIRST_EVENTS = 1 << 9
_PART_OF_ALL = 8  # then all events are searched
_FEW = 256  # up to this many matches are sorted without a kernel
_EVENTS_PER_MATCH = 32  # up to this many, matches are counted by their last events to sort them


ORDER = "cepkit.kernels.places"


@dataclass(frozen=True, slots=True)
class MatchBlock:
    """Some matches: the events of match m are ``event_of_item[first_item_of_match[m] : ...[m + 1]]``."""

    event_of_item: np.ndarray  # int64, (n_items,): positions in stream order, rising within a match
    component_of_item: np.ndarray  # int16, (n_items,): the component of its branch that each event stands for
    first_item_of_match: np.ndarray  # int64, (n_matches + 1,): offsets
    branch_of_match: np.ndarray  # int16, (n_matches,): number of the branch

    def __len__(self) -> int:
        return len(self.branch_of_match)

    @property
    def n_items(self) -> int:
        """The number of events of all matches."""
        return len(self.event_of_item)

    @property
    def match_of_item(self) -> np.ndarray:
        """Match of each item, int64, (n_items,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first_item_of_match))

    @property
    def first(self) -> np.ndarray:
        """Position of the first event of each match, int64, (n_matches,)."""
        return self.event_of_item[self.first_item_of_match[:-1]]

    @property
    def last(self) -> np.ndarray:
        """Position of the last event of each match, int64, (n_matches,)."""
        return self.event_of_item[self.first_item_of_match[1:] - 1]

    def take(self, matches: np.ndarray | slice) -> MatchBlock:
        """Return some of the matches, in the given order."""
        sizes = np.diff(self.first_item_of_match)
        if len(sizes) and sizes[0] * len(sizes) == self.n_items and (sizes == sizes[0]).all():
            event, component = (
                array.reshape(len(sizes), -1)[matches]
                for array in (self.event_of_item, self.component_of_item)
            )
            first_item = np.arange(0, event.size + 1, sizes[0])
            return MatchBlock(event.ravel(), component.ravel(), first_item, self.branch_of_match[matches])
        matches = np.arange(len(self))[matches]
        n_items = sizes[matches]
        first_item = sums_before(n_items)
        within = np.arange(first_item[-1]) - np.repeat(first_item[:-1], n_items)
        items = np.repeat(self.first_item_of_match[matches], n_items) + within
        return MatchBlock(
            self.event_of_item[items], self.component_of_item[items], first_item,
            self.branch_of_match[matches],
        )  # fmt: skip

    def with_events(self, event_of_item: np.ndarray) -> MatchBlock:
        """Return the matches with other positions in place of their events."""
        return MatchBlock(
            event_of_item, self.component_of_item, self.first_item_of_match, self.branch_of_match
        )

    def sorted(self) -> MatchBlock:
        """Return the matches in canonical order; see `order`."""
        return self if len(self) < 2 else self.take(self.order())

    def order(self) -> np.ndarray:
        """Return the numbers of the matches in canonical order, int64."""
        # They are ordered by their events from the last to the first, then by the ends of the components,
        # then by the branch. Equal matches keep their order.
        if len(self) <= _FEW:
            return np.array(sorted(range(len(self)), key=self._key), np.int64)
        last, kernels = np.ascontiguousarray(self.last, np.int64), load_kernels(ORDER)
        low, high = int(last.min()), int(last.max())
        if high - low < _EVENTS_PER_MATCH * len(self):
            order = np.empty(len(self), np.int64)
            kernels.order_by_last(last, low, np.zeros(high - low + 2, np.int64), order)
        else:
            order = np.argsort(last, kind="stable")
        kernels.order_matches(
            np.ascontiguousarray(self.event_of_item, np.int64),
            np.ascontiguousarray(self.component_of_item, np.int16),
            np.ascontiguousarray(self.first_item_of_match, np.int64),
            np.ascontiguousarray(self.branch_of_match, np.int16), order, np.empty(len(self), np.int64),
        )  # fmt: skip
        return order

    def _key(self, m: int) -> tuple:
        """Return the key by which match ``m`` is sorted."""
        items = slice(self.first_item_of_match[m], self.first_item_of_match[m + 1])
        components = (-self.component_of_item[items]).tolist()
        return (self.event_of_item[items][::-1].tolist(), components, int(self.branch_of_match[m]))


class LineBlock(MatchBlock):
    """Matches of a branch with the same components; other arrays are made when they are needed."""

    # ``events`` has a row for each event of a match. ``components`` are theirs, by default one of each.
    def __init__(self, events: np.ndarray, branch: int, components: np.ndarray | None = None):
        components = np.arange(len(events), dtype=np.int16) if components is None else components
        self.__dict__.update(events=events, branch=branch, components=components)

    def __reduce__(self) -> tuple:
        return LineBlock, (self.events, self.branch, self.components)

    def __len__(self) -> int:
        return self.events.shape[1]

    @cached_property
    def event_of_item(self) -> np.ndarray:
        return self.events.T.ravel()

    @cached_property
    def component_of_item(self) -> np.ndarray:
        return np.tile(self.components, len(self))

    @cached_property
    def first_item_of_match(self) -> np.ndarray:
        return np.arange(0, self.n_items + 1, len(self.events))

    @cached_property
    def branch_of_match(self) -> np.ndarray:
        return np.full(len(self), self.branch, np.int16)

    @property
    def n_items(self) -> int:
        return self.events.size

    @property
    def first(self) -> np.ndarray:
        return self.events[0]

    @property
    def last(self) -> np.ndarray:
        return self.events[-1]

    def take(self, matches: np.ndarray | slice) -> MatchBlock:
        return LineBlock(self.events[:, matches], self.branch, self.components)


EMPTY = MatchBlock(np.empty(0, np.int64), np.empty(0, np.int16), np.zeros(1, np.int64), np.empty(0, np.int16))


def block_of_sizes(events: np.ndarray, sizes: np.ndarray, branch: int) -> MatchBlock:
    """Return the matches with these events, one match after the other, by component."""
    # ``sizes``, (n_matches, n_components), has the number of events of each component.
    first_item = sums_before(sizes.sum(axis=1))
    components = np.tile(np.arange(sizes.shape[1], dtype=np.int16), len(sizes))
    if (sizes != 1).any():
        components = np.repeat(components, sizes.ravel())
    return MatchBlock(events, components, first_item, np.full(len(sizes), branch, np.int16))


def joined(blocks: list[MatchBlock]) -> MatchBlock:
    """Return the matches of several blocks, one block after the other."""
    blocks = [block for block in blocks if len(block)]
    if not blocks:
        return EMPTY
    if len(blocks) == 1:
        return blocks[0]
    sizes = np.concatenate([np.diff(block.first_item_of_match) for block in blocks])
    first_item = sums_before(sizes)
    return MatchBlock(
        np.concatenate([block.event_of_item for block in blocks]),
        np.concatenate([block.component_of_item for block in blocks]),
        first_item,
        np.concatenate([block.branch_of_match for block in blocks]),
    )


def bytes_to_collect(n_matches: int, n_items: int) -> int:
    """Return about how much memory the blocks of matches and one block of all of them take."""
    return 2 * (10 * n_items + 10 * n_matches)


def collect(blocks: Iterable[MatchBlock]) -> MatchBlock:
    """Return the matches of all blocks as one block, unless they take too much memory."""
    collected, n, n_items = [], 0, 0
    for block in blocks:
        collected.append(block)
        n, n_items = n + len(block), n_items + block.n_items
        check_memory(bytes_to_collect(n, n_items), f"the first {n:,} matches", is_held=True)
    return joined(collected)


@dataclass(frozen=True, slots=True)
class SearchRun:
    """How matches were searched."""

    # ``tier`` is ``"interpreted"``, ``"compiled"``, or ``"interpreted, then compiled"``.

    tier: str


def first_of_few_events(
    events: Events, n: int, growth: int, find: Callable[[Events, int], MatchBlock]
) -> MatchBlock | None:
    """Return the first ``n`` matches if they end at the first events, otherwise None."""
    # ``find`` returns the first matches of some events. Events after a match must not forbid it. The first
    # events grow by a factor, up to an eighth of all.
    n_events = _FIRST_EVENTS
    while 0 < n <= FEW_MATCHES and n_events * _PART_OF_ALL <= events.n_events:
        checkpoint()
        block = find(events.between(0, n_events), n)
        if len(block) >= n:
            return block
        n_events *= growth
    return None


class SetLock:
    """A lock of one object. Copies of the object in another process, or deep ones, get another lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple:
        return SetLock, ()


def _in_turn(method: Callable) -> Callable:
    """Return a method that waits until no other thread runs a method of the same set."""

    @functools.wraps(method)
    def call(self: SequenceSet, *given: Any, **keywords: Any) -> Any:
        with hold(self._turn.lock):
            result = method(self, *given, **keywords)
        return _step_in_turn(self, result) if isinstance(result, Iterator) else result

    return call


def _step_in_turn(found: SequenceSet, steps: Iterator[MatchBlock]) -> Iterator[MatchBlock]:
    """Yield the blocks of a set; other threads wait while one is computed."""
    while True:
        with hold(found._turn.lock):
            block = next(steps, None)
        if block is None:
            return
        yield block


class SequenceSet(ABC):
    """The matches of a program in canonical order."""

    # Engines define `ends` and `ending`. Everything else follows; an engine may override it to be faster. One
    # thread at a time runs a public method: what they build is built once, and their arrays have one user.

    events: Events
    accepts: np.ndarray | None = None  # which events fulfil a condition on single events; None: not known

    def __new__(cls, *_: Any, **__: Any) -> Self:
        instance = super().__new__(cls)
        instance._turn = SetLock()
        return instance

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Let the public methods of an engine wait for their turn."""
        super().__init_subclass__(**keywords)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _in_turn(method))

    @abstractmethod
    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the positions where matches end, rising, and how many end at each."""

    @abstractmethod
    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches whose last event has a position from ``low`` to ``high``, in canonical order."""

    def count(self) -> int:
        """Return the exact number of matches."""
        return self._first_number[-1]

    def any(self) -> bool:
        """Return whether there is a match."""
        return self.count() > 0

    def at_least(self) -> tuple[int, bool]:
        """Return a number of matches that is quick to find, and whether it is the exact count."""
        return self.count(), True

    def at_most(self) -> int:
        """Return an upper bound of the count: the count itself unless a bound is quicker to find."""
        return self.count()

    def first(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches in canonical order."""
        return self.glance(n)

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` matches that are quick to find, if possible the first ones."""
        return self.take(list(range(min(n, self.count()))))

    @cached_property
    def _ends(self) -> tuple[np.ndarray, list[int]]:
        """The positions where matches end, and how many end at each, as a list."""
        positions, counts = self.ends()
        return positions, [int(count) for count in counts]

    @cached_property
    def _first_number(self) -> list[int]:
        """The number of the first match that ends at each position, and the total at the end."""
        return [0, *accumulate(self._ends[1])]

    def whole_blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield all matches in blocks of about ``size``; matches with the same last event stay together."""
        positions, first = self._ends[0], self._first_number
        begin = 0
        while begin < len(positions):
            stop = max(begin + 1, bisect_right(first, first[begin] + size) - 1)
            yield self.ending(int(positions[begin]), int(positions[stop - 1]) + 1)
            begin = stop

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        """Yield all matches in blocks of at most ``size``."""
        for block in self.whole_blocks(size):
            for start in range(0, len(block), size):
                yield block.take(slice(start, start + size)) if len(block) > size else block

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches with these numbers in canonical order, in the given order."""
        positions, first = self._ends[0], self._first_number
        end_of_wanted = [bisect_right(first, number) - 1 for number in numbers]
        # Matches with ends near each other are enumerated together, while few are enumerated in vain.
        low_of_end, high_of_low, low = {}, {}, -1
        for end in sorted(set(end_of_wanted)):
            if (
                low < 0
                or positions[end] - positions[low] > _EVENTS_TOGETHER
                or first[end + 1] - first[low] > _MATCHES_TOGETHER
            ):
                low = end
            low_of_end[end], high_of_low[low] = low, end
        blocks = []
        lows = [low_of_end[end] for end in end_of_wanted]
        for low, group in groupby(zip(lows, numbers, strict=True), key=lambda pair: pair[0]):
            block = self.ending(int(positions[low]), int(positions[high_of_low[low]]) + 1)
            blocks.append(block.take(np.array([number - first[low] for _, number in group])))
        return joined(blocks)

    def sample(self, n: int, seed: int = 0) -> MatchBlock:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        return self.take(draw_numbers(self.count(), n, seed))


def draw_numbers(count: int, n: int, seed: int) -> list[int]:
    """Draw ``n`` different numbers below ``count``, or all if there are no more; ascending."""
    if n >= count:
        return list(range(count))
    rng = Random(seed)
    if count < 2**31:
        return sorted(rng.sample(range(count), n))
    drawn: set[int] = set()
    while len(drawn) < n:
        drawn.add(rng.randrange(count))
    return sorted(drawn)


class KnownMatches(SequenceSet):
    """Matches that are all in memory."""

    def __init__(self, events: Events, block: MatchBlock, run: SearchRun | None = None):
        self.events, self.block, self.run = events, block, run

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(self.block.last, return_counts=True)

    def ending(self, low: int, high: int) -> MatchBlock:
        if low <= 0 and high >= self.events.n_events:
            return self.block
        last = self.block.last
        return self.block.take(slice(*np.searchsorted(last, [low, high])))

    def blocks(self, size: int = MATCHES_PER_BLOCK) -> Iterator[MatchBlock]:
        for start in range(0, len(self.block), size):
            yield self.block.take(slice(start, start + size)) if len(self.block) > size else self.block

    def count(self) -> int:
        return len(self.block)

    def take(self, numbers: list[int]) -> MatchBlock:
        return self.block.take(np.asarray(numbers, np.int64))


def _asked(name: str) -> Callable[..., Any]:
    """Return a method that passes its call on to the set ``_found``."""

    def ask(self: FoundElsewhere, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self._found, name)(*arguments, **keywords)

    return ask


class FoundElsewhere(SequenceSet):
    """The matches that another set has, ``_found``."""

    _found: SequenceSet

    ends, ending, count, any, at_least, at_most, first, glance, whole_blocks, blocks, take, sample = map(
        _asked,
        ("ends", "ending", "count", "any", "at_least", "at_most", "first", "glance", "whole_blocks", "blocks",
         "take", "sample"),
    )  # fmt: skip


class FoundLater(FoundElsewhere):
    """Matches that ``find`` finds in events when they are first needed."""

    # Methods that must be quick first look for them within limits: ``find(events, most_calls=…)``.
    # ``is_final`` says that no event after a match forbids it.

    def __init__(self, events: Events, find: Callable[..., SequenceSet], *, is_final: bool):
        self.events, self._find, self._is_final = events, find, is_final

    @cached_property
    def _looked(self) -> SequenceSet:
        """What a search within limits found."""
        return self._find(self.events, most_calls=CALLS_OF_A_LOOK)

    @cached_property
    def _found(self) -> SequenceSet:
        """What the whole search found."""
        return self._looked if self._has_looked_at_all else self._find(self.events)

    @property
    def run(self) -> Any:
        """How the matches are searched, after a first look for them."""
        return getattr(self._quick(), "run", None)

    def _quick(self) -> SequenceSet:
        """Return all matches if they are found already, otherwise those of a search within limits."""
        return self._found if "_found" in self.__dict__ else self._looked

    def at_least(self) -> tuple[int, bool]:
        return self._quick().at_least()

    def first(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches; if possible, only the first events are searched."""
        block = None
        if self._has_looked_at_all:
            return self._looked.first(n)
        if self._is_final and "_found" not in self.__dict__:
            # The work of a search may rise with a power of the events, so they only double.
            block = first_of_few_events(self.events, n, 2, lambda few, n: self._find(few).first(n))
        return self._found.first(n) if block is None else block

    @property
    def _has_looked_at_all(self) -> bool:
        """Whether the search within limits found all matches."""
        return isinstance(self.__dict__.get("_looked"), KnownMatches)

    def glance(self, n: int) -> MatchBlock:
        return self._quick().glance(n)
