"""The matches of a parallel engine, found at first use, and the run that counted them."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Protocol

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.search.search import search_sequence
from cepkit.engines.shared.sequence_set import FoundLater, KnownMatches, MatchBlock, SequenceSet
from cepkit.errors import ResultTooLargeError
from cepkit.events import Events
from cepkit.language.numbers import count_text
from cepkit.parallel.agents.outcome import ParallelRun

MOST_KEPT = 1 << 26  # matches, since agents make all of them at once


class Runner(Protocol):
    """The methods of a parallel engine that its matches need."""

    def check(self, program: SequenceProgram) -> None:
        """Raise UnsupportedQueryError when the engine cannot run a program."""
        ...

    def run(
        self, program: SequenceProgram, events: Events, *, keep: bool = True, trace: bool = False
    ) -> ParallelRun:
        """Find the matches on real threads."""
        ...


class ParallelMatches(SequenceSet):
    """The matches of a program in events by a parallel engine, found at first use.

    Counting keeps no match. The first access to a match makes all matches. A bounded first look, such as a
    ``repr``, uses the search engine.
    """

    def __init__(self, program: SequenceProgram, events: Events, engine: Runner, trace: bool):
        self.program, self.events, self.engine, self.trace = program, events, engine, trace
        self._look = FoundLater(
            events, partial(search_sequence, program), is_final=not program.can_be_forbidden_later
        )

    @cached_property
    def run(self) -> ParallelRun:
        """The run that counted the matches."""
        return self._run_engine(keep=False)

    def _run_engine(self, keep: bool) -> ParallelRun:
        self.engine.check(self.program)
        return self.engine.run(self.program, self.events, keep=keep, trace=self.trace)

    @cached_property
    def _known(self) -> KnownMatches:
        if self.count() > MOST_KEPT:
            raise ResultTooLargeError(
                f"{self.engine} makes all matches at once, and {count_text(self.count())} are too many. "
                "Use count(), or engine='auto', which makes only the matches you look at"
            )
        return KnownMatches(self.events, self._run_engine(keep=True).block.sorted())

    def count(self) -> int:
        """Return the exact number of matches."""
        return self.run.n_matches

    def at_least(self) -> tuple[int, bool]:
        """Return a lower bound of the number of matches that is cheap to find, and whether it is exact."""
        return (self.count(), True) if "run" in self.__dict__ else self._look.at_least()

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` matches, the first ones if these are cheap to find."""
        return self._known.glance(n) if "_known" in self.__dict__ else self._look.glance(n)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end, and how many end at each."""
        return self._known.ends()

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches that end from ``low`` to ``high``."""
        return self._known.ending(low, high)

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches with these numbers, in this order."""
        return self._known.take(numbers)
