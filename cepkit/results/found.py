"""The protocol by which `Matches` reads the matches of any kind of query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.counting.estimate import CountEstimate
from cepkit.engines.measures.regex_measures import Measured
from cepkit.events import Events, Source

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


class FoundMatches(Protocol[AnyPart]):
    """The matches of a program in some events, in canonical order, built on demand."""

    @property
    def program(self) -> Program | SequenceProgram:
        """Return the program of these matches."""
        ...

    @property
    def whole(self) -> Any:
        """Return the engine's own object: a `MatchSet` or a `SequenceSet`."""
        ...

    @property
    def hint(self) -> str:
        """Return the call that explains why nothing matches."""
        ...

    @property
    def events(self) -> Events:
        """Return the events that were searched."""
        ...

    @property
    def run(self) -> Any:
        """Return the engine's record of its run, or None."""
        ...

    def count(self) -> int:
        """Return the exact number of matches."""
        ...

    def any(self) -> bool:
        """Return whether a match exists."""
        ...

    def at_least(self) -> tuple[int, bool]:
        """Return a lower bound of the number of matches that is cheap to find, and whether it is exact."""
        ...

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches."""
        ...

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""
        ...

    def first(self, n: int) -> AnyPart:
        """Return the first ``n`` matches, or all when there are no more."""
        ...

    def glance(self, n: int) -> AnyPart:
        """Return up to ``n`` matches; the first ones if they are cheap to find."""
        ...

    def for_picture(self) -> AnyPart:
        """Return the matches from which a picture selects."""
        ...

    def sample(self, n: int, seed: int) -> AnyPart:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        ...

    def take(self, numbers: Sequence[int]) -> AnyPart:
        """Return the matches with these numbers, in this order."""
        ...

    def blocks(self, size: int) -> Iterator[AnyPart]:
        """Yield all matches in blocks of at most ``size``."""
        ...

    def all(self) -> AnyPart:
        """Return all matches."""
        ...

    def narrow(self, numbers: range) -> FoundMatches[AnyPart]:
        """Return the matches with these numbers as a result of their own."""
        ...

    def measure(self, part: AnyPart, source: Source) -> Mapping[str, Measured]:
        """Return the result columns of a part."""
        ...

    def items(self, part: AnyPart) -> Items:
        """Return the events of a part."""
        ...

    def variables(self, part: AnyPart) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""
        ...

    def aggregate(self, source: Source, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""
        ...
