"""The matches of regex and sequence queries, as `Matches` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.after_match import report_matches
from cepkit.engines.aggregates import aggregate_matches, aggregate_regex
from cepkit.engines.counting.estimate import CountEstimate, draw_matches, estimate_count, exactly
from cepkit.engines.measures.regex_measures import Measured, measure
from cepkit.engines.measures.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.regex import Run, label_rows
from cepkit.engines.shared.match_set import Lineage, MatchSet
from cepkit.engines.shared.sequence_set import EMPTY, KnownMatches, MatchBlock, SequenceSet, bytes_to_collect
from cepkit.errors import ResultTooLargeError
from cepkit.events import Frame
from cepkit.frames.building import build_events
from cepkit.language.expressions.durations import count_text
from cepkit.planning.plans import compile_checked
from cepkit.results.found import LIMIT
from cepkit.results.in_memory import DRAWN, FoundInMemory, FoundMatches


@dataclass(frozen=True, eq=False, kw_only=True)
class RegexFound(FoundInMemory[MatchSet]):
    """Matches of contiguous rows, all of them in memory."""

    program: Program
    whole: MatchSet
    run: Run
    refusals: ClassVar = {"undecided": "undecided: a regex matches rows, and no event of it may be absent"}
    hint = "df.cep.explain(…) with the same arguments shows how the query was read"

    def measure(self, part: MatchSet) -> dict[str, Measured]:
        return measure(self.program.query, part, self.source, self.variables)

    def items(self, part: MatchSet) -> Lineage:
        return part.lineage

    def variables(self, part: MatchSet) -> np.ndarray:
        return np.array(self.program.automaton.names, dtype=object)[label_rows(self.program, part)]

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        return aggregate_regex(self.program, self.whole, self.source, aggregates)


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceFound(FoundMatches[MatchBlock]):
    """Matches of an event sequence, built on demand."""

    program: SequenceProgram
    whole: SequenceSet
    hint = "df.cep.why_not(…) says what stopped the matches you expected"

    @property
    def run(self) -> Any:
        """Return the engine's record of its run, or None."""
        return getattr(self.whole, "run", None)

    def undecided(self) -> Frame:
        program = compile_checked(replace(self.query, undecided=True), self.source)
        assert isinstance(program, SequenceProgram)
        events = build_events(self.source, program)
        whole = report_matches(program, self.engine.of_sequences(program, events))
        return replace(self, program=program, whole=whole).to_frame()

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches; for a slice, the exact number."""
        if isinstance(self.whole, KnownMatches) and not self.program.query.selects:
            return exactly(self.whole.count())
        return estimate_count(self.program, self.events, samples=samples, seed=seed)

    def bytes_to_build(self, n: int) -> int:
        if isinstance(self.whole, KnownMatches):
            return 0
        lengths = [
            sum(component.low for component in bound.branch.components) for bound in self.program.branches
        ]
        return bytes_to_collect(n, n * min(lengths, default=1))

    @property
    def nothing(self) -> MatchBlock:
        return EMPTY

    def for_picture(self) -> MatchBlock:
        return self.whole.glance(DRAWN)

    def all(self) -> MatchBlock:
        whole = self.whole
        return whole.block if isinstance(whole, KnownMatches) else whole.ending(0, self.events.n_events)

    def draw(self, n: int, seed: int) -> MatchBlock:
        block = None
        if not isinstance(self.whole, KnownMatches) and not self.program.query.selects:
            block = draw_matches(self.program, self.events, n, seed)
        return self.whole.sample(n, seed) if block is None else block

    def among(self, numbers: range) -> KnownMatches:
        """Build the matches with these numbers, at most a million."""
        n_wanted = max(0, -((numbers.start - numbers.stop) // numbers.step))  # len() ends at 2^63
        if n_wanted > LIMIT:
            raise ResultTooLargeError(
                f"the slice has {count_text(n_wanted)} matches, more than {LIMIT:,}; go through chunks()"
            )
        return KnownMatches(self.events, self.whole.take(list(numbers)))

    def measure(self, part: MatchBlock) -> dict[str, Measured]:
        return sequence_measures(self.program, self.events, part, self.source)

    def items(self, part: MatchBlock) -> MatchBlock:
        return part

    def variables(self, part: MatchBlock) -> np.ndarray:
        names = np.array(self.program.query.variables, dtype=object)
        return names[variables_of_items(self.program, part)]

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        return aggregate_matches(self.program, self.whole, self.source, aggregates)
