"""The base class by which `Matches` reads the matches of any kind of query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import pandas as pd

from cepkit.engines.measures.regex_measures import Measured
from cepkit.events import Events, Source

if TYPE_CHECKING:
    from cepkit.engines.counting.estimate import CountEstimate

DRAWN = 200  # matches that a picture shows when they must be built first


class Items(Protocol):
    """The events of some matches: match m has the items from ``first_item_of_match[m]`` to ``[m + 1]``."""

    @property
    def event_of_item(self) -> np.ndarray:
        """Return the positions of the items in stream order."""
        ...

    @property
    def first_item_of_match(self) -> np.ndarray:
        """Return where the items of each match begin, int64, (n_matches + 1,)."""
        ...

    @property
    def match_of_item(self) -> np.ndarray:
        """Return the match of each item, int64, (n_items,)."""
        ...


class Part(Protocol):
    """Some matches as arrays: a `MatchSet` or a `MatchBlock`."""

    @property
    def first(self) -> np.ndarray:
        """Return the positions of the first events, int64, (n_matches,)."""
        ...

    @property
    def last(self) -> np.ndarray:
        """Return the positions of the last events, int64, (n_matches,)."""
        ...

    def __len__(self) -> int: ...

    def take(self, matches: np.ndarray | slice) -> Part:
        """Return these matches in the given order."""
        ...


AnyPart = TypeVar("AnyPart", bound=Part)


class FoundMatches(ABC, Generic[AnyPart]):
    """The matches of a program in some events, in canonical order, built on demand.

    What a kind of query does not define asks the engine's own object.

    """

    program: Any  # a `Program` or a `SequenceProgram`
    whole: Any  # the engine's own object: a `MatchSet` or a `SequenceSet`
    run: Any  # the engine's record of its run, or None
    hint: str  # the call that explains why nothing matches

    @property
    def events(self) -> Events:
        """Return the events that were searched."""
        return self.whole.events

    def count(self) -> int:
        """Return the exact number of matches."""
        return self.whole.count()

    def any(self) -> bool:
        """Return whether a match exists."""
        return self.whole.any()

    def at_least(self) -> tuple[int, bool]:
        """Return a lower bound of the number of matches that is cheap to find, and whether it is exact."""
        return self.whole.at_least()

    def at_most(self) -> int:
        """Return a number that the count does not exceed: the count unless another is quicker to find."""
        return self.count()

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""
        return self.whole.ends()

    def first(self, n: int) -> AnyPart:
        """Return the first ``n`` matches, or all when there are no more."""
        return self.whole.first(n)

    def glance(self, n: int) -> AnyPart:
        """Return up to ``n`` matches; the first ones if they are cheap to find."""
        return self.whole.glance(n)

    def sample(self, n: int, seed: int) -> AnyPart:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        return self.whole.sample(n, seed)

    def take(self, numbers: Sequence[int]) -> AnyPart:
        """Return the matches with these numbers, in this order."""
        return self.whole.take(list(numbers))

    def blocks(self, size: int) -> Iterator[AnyPart]:
        """Yield all matches in blocks of at most ``size``."""
        return self.whole.blocks(size)

    @abstractmethod
    def bytes_to_build(self, n: int) -> int:
        """Return the least memory in bytes that ``n`` matches take while they are built."""

    @property
    @abstractmethod
    def nothing(self) -> AnyPart:
        """Return no matches."""

    @abstractmethod
    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches."""

    @abstractmethod
    def for_picture(self) -> AnyPart:
        """Return the matches from which a picture selects."""

    @abstractmethod
    def all(self) -> AnyPart:
        """Return all matches."""

    @abstractmethod
    def narrow(self, numbers: range) -> FoundMatches[AnyPart]:
        """Return the matches with these numbers as a result of their own."""

    @abstractmethod
    def measure(self, part: AnyPart, source: Source) -> Mapping[str, Measured]:
        """Return the result columns of a part."""

    @abstractmethod
    def items(self, part: AnyPart) -> Items:
        """Return the events of a part."""

    @abstractmethod
    def variables(self, part: AnyPart) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""

    @abstractmethod
    def aggregate(self, source: Source, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""


class FoundInMemory(FoundMatches[AnyPart]):
    """Matches that are all in memory, in the order of their last rows."""

    def count(self) -> int:
        """Return the exact number of matches."""
        return len(self.whole)

    def any(self) -> bool:
        """Return whether a match exists."""
        return len(self.whole) > 0

    def at_least(self) -> tuple[int, bool]:
        """Return the number of matches, which is exact."""
        return len(self.whole), True

    def bytes_to_build(self, n: int) -> int:
        """Return 0: the matches are built."""
        return 0

    @property
    def nothing(self) -> AnyPart:
        """Return no matches."""
        return self.whole.take(slice(0, 0))

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return the exact number of matches as an estimate."""
        from cepkit.engines.counting.estimate import exactly

        return exactly(len(self.whole))

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""
        return np.unique(self.whole.last, return_counts=True)

    def first(self, n: int) -> AnyPart:
        """Return the first ``n`` matches, or all when there are no more."""
        return self.whole.take(slice(0, n))

    glance = first

    def for_picture(self) -> AnyPart:
        """Return all matches: a picture selects from them."""
        return self.whole

    def sample(self, n: int, seed: int) -> AnyPart:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        n_matches = len(self.whole)
        drawn = np.random.default_rng(seed).choice(n_matches, size=min(n, n_matches), replace=False)
        return self.whole.take(np.sort(drawn))

    def take(self, numbers: Sequence[int]) -> AnyPart:
        """Return the matches with these numbers, in this order."""
        return self.whole.take(np.asarray(numbers, np.int64))

    def blocks(self, size: int) -> Iterator[AnyPart]:
        """Yield all matches in blocks of at most ``size``."""
        for start in range(0, len(self.whole), size):
            yield self.whole.take(slice(start, start + size))

    def all(self) -> AnyPart:
        """Return all matches."""
        return self.whole
