"""The matches of a regex query, as `Matches` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.engines.measures.regex_measures import Measured, measure
from cepkit.engines.regex.matching import Run, label_rows
from cepkit.engines.shared.match_set import Lineage, MatchSet
from cepkit.events import Source
from cepkit.results.found import FoundMatches

if TYPE_CHECKING:
    from cepkit.engines.counting.estimate import CountEstimate


@dataclass(frozen=True, eq=False)
class RegexFound(FoundMatches[MatchSet]):
    """Matches of contiguous rows, all of them in memory."""

    program: Program
    whole: MatchSet
    run: Run
    hint = "df.cep.explain(…) with the same arguments shows how the query was read"

    def count(self) -> int:
        """Return the exact number of matches."""
        return len(self.whole)

    def any(self) -> bool:
        """Return whether a match exists."""
        return len(self.whole) > 0

    def at_least(self) -> tuple[int, bool]:
        """Return the number of matches, which is exact."""
        return len(self.whole), True

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return the exact number of matches as an estimate."""
        from cepkit.engines.counting.estimate import exactly

        return exactly(len(self.whole))

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""
        return np.unique(self.whole.last, return_counts=True)

    def first(self, n: int) -> MatchSet:
        """Return the first ``n`` matches, or all when there are no more."""
        return self.whole.take(slice(0, n))

    glance = first

    def for_picture(self) -> MatchSet:
        """Return all matches: a picture selects from them."""
        return self.whole

    def sample(self, n: int, seed: int) -> MatchSet:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        n_matches = len(self.whole)
        drawn = np.random.default_rng(seed).choice(n_matches, size=min(n, n_matches), replace=False)
        return self.whole.take(np.sort(drawn))

    def take(self, numbers: Sequence[int]) -> MatchSet:
        """Return the matches with these numbers, in this order."""
        return self.whole.take(np.asarray(numbers, np.int64))

    def blocks(self, size: int) -> Iterator[MatchSet]:
        """Yield all matches in blocks of at most ``size``."""
        for start in range(0, len(self.whole), size):
            yield self.whole.take(slice(start, start + size))

    def all(self) -> MatchSet:
        """Return all matches."""
        return self.whole

    def narrow(self, numbers: range) -> RegexFound:
        """Return the matches with these numbers as a result of their own."""
        whole = self.whole.take(np.arange(numbers.start, numbers.stop, numbers.step))
        return RegexFound(self.program, whole, self.run)

    def measure(self, part: MatchSet, source: Source) -> dict[str, Measured]:
        """Return the result columns of a part."""
        return measure(self.program.query, part, source)

    def items(self, part: MatchSet) -> Lineage:
        """Return the events of a part."""
        return part.lineage

    def variables(self, part: MatchSet) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""
        return np.array(self.program.automaton.names, dtype=object)[label_rows(self.program, part)]

    def aggregate(self, source: Source, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""
        from cepkit.engines.regex_aggregates import aggregate_regex

        return aggregate_regex(self.program, self.whole, source, aggregates)
