"""The matches that a parallel engine finds, when they are asked for, and what it did."""

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

MOST_KEPT = 1 << 26  # matches; agents make all of them at once


class Runner(Protocol):
    """A parallel engine, as far as its matches need it."""

    def check(self, program: SequenceProgram) -> None:
        """Raise UnsupportedQueryError when the engine cannot run a program."""
        ...

    def run(
        self, program: SequenceProgram, events: Events, *, keep: bool = True, trace: bool = False
    ) -> ParallelRun:
        """Find the matches on real threads."""
        ...


def parallel_sequence(
    program: SequenceProgram, events: Events, *, engine: Runner, trace: bool = False
) -> SequenceSet:
    """Return the matches of ``program`` in ``events`` by a parallel engine.

    Parameters
    ----------
    program : SequenceProgram
        One that the engine has nothing against.
    events : Events
        With the program's columns.
    engine : Runner
        Which.
    trace : bool
        Whether it writes down every step.

    Notes
    -----
    They are counted without being kept; when they are looked at all of them are made. A first look, as of a
    ``repr``, is bounded: the search engine takes it.
    """
    return ParallelMatches(program, events, engine, trace)


class ParallelMatches(SequenceSet):
    """The matches that a parallel engine finds when they are asked for."""

    def __init__(self, program: SequenceProgram, events: Events, engine: Runner, trace: bool):
        self.program, self.events, self.engine, self.trace = program, events, engine, trace
        self._look = FoundLater(events, partial(search_sequence, program, events))

    @cached_property
    def run(self) -> ParallelRun:
        """What the engine did to count the matches."""
        return self._ran(keep=False)

    def _ran(self, keep: bool) -> ParallelRun:
        self.engine.check(self.program)
        return self.engine.run(self.program, self.events, keep=keep, trace=self.trace)

    @cached_property
    def _known(self) -> KnownMatches:
        if self.count() > MOST_KEPT:
            raise ResultTooLargeError(
                f"{self.engine} makes all matches at once, and {count_text(self.count())} are too many. "
                "count() works; engine='auto' makes those that are looked at"
            )
        return KnownMatches(self.events, self._ran(keep=True).block.sorted())

    def count(self) -> int:
        """Return the exact number of matches."""
        return self.run.n_matches

    def at_least(self) -> tuple[int, bool]:
        """Return a number of matches that is cheap to know, and whether it is the exact one."""
        return (self.count(), True) if "run" in self.__dict__ else self._look.at_least()

    def glance(self, n: int) -> MatchBlock:
        """Return up to ``n`` matches, the first ones where these are cheap to find."""
        return self._known.glance(n) if "_known" in self.__dict__ else self._look.glance(n)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions where matches end and how many end at each."""
        return self._known.ends()

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches that end from ``low`` to ``high``."""
        return self._known.ending(low, high)

    def take(self, numbers: list[int]) -> MatchBlock:
        """Return the matches of these numbers, in this order."""
        return self._known.take(numbers)
