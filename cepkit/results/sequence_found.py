"""The matches of a sequence query, with the protocol `FoundMatches`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.aggregates import aggregate_matches
from cepkit.engines.counting.estimate import CountEstimate, estimate_count, exactly
from cepkit.engines.measures.regex_measures import Measured
from cepkit.engines.measures.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock, SequenceSet
from cepkit.errors import ResultTooLargeError
from cepkit.events import Events, Source
from cepkit.language.numbers import count_text
from cepkit.results.arguments import LIMIT
from cepkit.results.found import DRAWN


@dataclass(frozen=True, eq=False)
class SequenceFound:
    """Matches of an event sequence, built on demand. See `cepkit.results.found.FoundMatches`."""

    program: SequenceProgram
    whole: SequenceSet
    hint = "df.cep.why_not(…) says what stopped the matches you expected"

    @property
    def events(self) -> Events:
        """Return the events that were searched."""
        return self.whole.events

    @property
    def run(self) -> Any:
        """Return the engine's record of its run, or None."""
        return getattr(self.whole, "run", None)

    def count(self) -> int:
        """Return the exact number of matches."""
        return self.whole.count()

    def any(self) -> bool:
        """Return whether a match exists."""
        return self.whole.any()

    def at_least(self) -> tuple[int, bool]:
        """Return a lower bound of the number of matches that is cheap to find, and whether it is exact."""
        return self.whole.at_least()

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches; for a slice, the exact number."""
        if isinstance(self.whole, KnownMatches) and self.program.query.after_match[0] == "none":
            return exactly(self.whole.count())
        return estimate_count(self.program, self.events, samples=samples, seed=seed)

    def ends(self) -> tuple[np.ndarray, list[int] | np.ndarray]:
        """Return the rising positions where matches end, and the number of matches that end at each."""
        return self.whole.ends()

    def first(self, n: int) -> MatchBlock:
        """Return the first ``n`` matches, or all when there are no more."""
        return self.whole.first(n)

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` matches; the first ones if they are cheap to find."""
        return self.whole.glance(n)

    def for_picture(self) -> MatchBlock:
        """Return the matches from which a picture selects."""
        return self.whole.glance(DRAWN)

    def sample(self, n: int, seed: int) -> MatchBlock:
        """Return ``n`` matches drawn uniformly without replacement, in canonical order."""
        return self.whole.sample(n, seed)

    def take(self, numbers: Sequence[int]) -> MatchBlock:
        """Return the matches with these numbers, in this order."""
        return self.whole.take(list(numbers))

    def blocks(self, size: int) -> Iterator[MatchBlock]:
        """Yield all matches in blocks of at most ``size``."""
        return self.whole.blocks(size)

    def all(self) -> MatchBlock:
        """Return all matches."""
        whole = self.whole
        return whole.block if isinstance(whole, KnownMatches) else whole.ending(0, self.events.n_events)

    def narrow(self, numbers: range) -> SequenceFound:
        """Build the matches with these numbers as a result of their own, at most a million.

        Raises
        ------
        ResultTooLargeError
            For more matches.
        """
        n_wanted = max(0, -((numbers.start - numbers.stop) // numbers.step))  # len() ends at 2^63
        if n_wanted > LIMIT:
            raise ResultTooLargeError(
                f"the slice has {count_text(n_wanted)} matches, more than {LIMIT:,}; go through chunks()"
            )
        return SequenceFound(self.program, KnownMatches(self.events, self.whole.take(list(numbers))))

    def measure(self, part: MatchBlock, source: Source) -> dict[str, Measured]:
        """Return the result columns of a part."""
        return sequence_measures(self.program, self.events, part, source)

    def items(self, part: MatchBlock) -> MatchBlock:
        """Return the events of a part."""
        return part

    def variables(self, part: MatchBlock) -> np.ndarray:
        """Return the variable of each item of a part, as an array of objects."""
        names = np.array(self.program.query.variables, dtype=object)
        return names[variables_of_items(self.program, part)]

    def aggregate(self, source: Source, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches."""
        return aggregate_matches(self.program, self.whole, source, aggregates)
