"""What an engine found, as `Matches` asks for it: one protocol for every kind of query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.engines.counting.estimate import CountEstimate
from cepkit.engines.measures.regex_measures import Measured
from cepkit.events import Events

DRAWN = 200  # matches of a picture, where they have to be made first


class Items(Protocol):
    """The events of some matches: match m has items ``first_item_of_match[m]`` to ``[m + 1]``."""

    event_of_item: np.ndarray  # positions in stream order
    first_item_of_match: np.ndarray  # int64, (n_matches + 1,)

    @property
    def match_of_item(self) -> np.ndarray:
        """Return the match of each item, int64, (n_items,)."""


class Part(Protocol):
    """Some matches, made as arrays: a `MatchSet` or a `MatchBlock`."""

    first: np.ndarray  # int64, (n_matches,): positions of the first events
    last: np.ndarray  # int64, (n_matches,): positions of the last events

    def __len__(self) -> int: ...

    def take(self, matches: np.ndarray | slice) -> Part:
        """Return these matches, in the order given."""


class FoundMatches(Protocol):
    """The matches of a program in some events, in canonical order, made when they are asked for."""

    program: BoundQuery
    whole: Any  # the engine's own object: a `MatchSet` or a `SequenceSet`
    hint: str  # what a user can ask when nothing matches

    @property
    def events(self) -> Events:
        """Return the events that were searched."""

    @property
    def run(self) -> Any:
        """Return what the engine tells of its run, or None."""

    def count(self) -> int:
        """Return the exact number of matches."""

    def any(self) -> bool:
        """Return whether there is a match."""

    def at_least(self) -> tuple[int, bool]:
        """Return a number of matches that is cheap to know, and whether it is the exact one."""

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches."""

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the positions where matches end, rising, and how many end at each."""

    def first(self, n: int) -> Part:
        """Return the first ``n`` matches, or all when there are no more."""

    def glance(self, n: int) -> Part:
        """Return up to ``n`` matches, the first ones where these are cheap to find."""

    def drawn(self) -> Part:
        """Return the matches from which a picture chooses."""

    def sample(self, n: int, seed: int) -> Part:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""

    def take(self, numbers: Sequence[int]) -> Part:
        """Return the matches of these numbers, in this order."""

    def blocks(self, size: int) -> Iterator[Part]:
        """Yield all matches in blocks of at most ``size``."""

    def all(self) -> Part:
        """Return all matches."""

    def narrowed(self, numbers: range) -> FoundMatches:
        """Return the matches of these numbers as a result of their own."""

    def measured(self, part: Part, source: Any) -> Mapping[str, Measured]:
        """Return the result columns of a part."""

    def items(self, part: Part) -> Items:
        """Return the events of a part."""

    def variables(self, part: Part) -> np.ndarray:
        """Return the name in the pattern that each item of a part stands for, objects."""

    def aggregate(self, source: Any, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""
