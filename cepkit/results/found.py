"""The protocol by which `Matches` reads the matches of any kind of query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from cepkit.compile.shared.bound_query import Bound
from cepkit.engines.counting.estimate import CountEstimate
from cepkit.engines.measures.regex_measures import Measured
from cepkit.events import Events

DRAWN = 200  # matches that a picture shows when they must be built first


class Items(Protocol):
    """The events of some matches: match m has the items from ``first_item_of_match[m]`` to ``[m + 1]``."""

    event_of_item: np.ndarray  # positions in stream order
    first_item_of_match: np.ndarray  # int64, (n_matches + 1,)

    @property
    def match_of_item(self) -> np.ndarray:
        """Return the match of each item, int64, (n_items,)."""


class Part(Protocol):
    """Some matches as arrays: a `MatchSet` or a `MatchBlock`."""

    first: np.ndarray  # int64, (n_matches,): positions of the first events
    last: np.ndarray  # int64, (n_matches,): positions of the last events

    def __len__(self) -> int: ...

    def take(self, matches: np.ndarray | slice) -> Part:
        """Return these matches in the given order."""


class FoundMatches(Protocol):
    """The matches of a program in some events, in canonical order, built on demand."""

    program: Bound
    whole: Any  # the engine's own object: a `MatchSet` or a `SequenceSet`
    hint: str  # the call that explains why nothing matches

    @property
    def events(self) -> Events:
        """Return the events that were searched."""

    @property
    def run(self) -> Any:
        """Return the engine's record of its run, or None."""

    def count(self) -> int:
        """Return the exact number of matches."""

    def any(self) -> bool:
        """Return whether a match exists."""

    def at_least(self) -> tuple[int, bool]:
        """Return a lower bound of the number of matches that is cheap to find, and whether it is exact."""

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches."""

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""

    def first(self, n: int) -> Part:
        """Return the first ``n`` matches, or all when there are no more."""

    def glance(self, n: int) -> Part:
        """Return up to ``n`` matches; the first ones if they are cheap to find."""

    def for_picture(self) -> Part:
        """Return the matches from which a picture selects."""

    def sample(self, n: int, seed: int) -> Part:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""

    def take(self, numbers: Sequence[int]) -> Part:
        """Return the matches with these numbers, in this order."""

    def blocks(self, size: int) -> Iterator[Part]:
        """Yield all matches in blocks of at most ``size``."""

    def all(self) -> Part:
        """Return all matches."""

    def narrow(self, numbers: range) -> FoundMatches:
        """Return the matches with these numbers as a result of their own."""

    def measure(self, part: Part, source: Any) -> Mapping[str, Measured]:
        """Return the result columns of a part."""

    def items(self, part: Part) -> Items:
        """Return the events of a part."""

    def variables(self, part: Part) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""

    def aggregate(self, source: Any, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""
