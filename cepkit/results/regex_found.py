"""The matches of a regex query, as `Matches` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.engines.measures.regex_measures import Measured, measure
from cepkit.engines.regex.matching import Run, label_rows
from cepkit.engines.shared.match_set import Lineage, MatchSet
from cepkit.events import Source
from cepkit.results.arguments import array_of_range
from cepkit.results.found import FoundInMemory


@dataclass(frozen=True, eq=False)
class RegexFound(FoundInMemory[MatchSet]):
    """Matches of contiguous rows, all of them in memory."""

    program: Program
    whole: MatchSet
    run: Run
    hint = "df.cep.explain(…) with the same arguments shows how the query was read"

    def narrow(self, numbers: range) -> RegexFound:
        """Return the matches with these numbers as a result of their own."""
        whole = self.whole.take(array_of_range(numbers))
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
