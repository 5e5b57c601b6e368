"""The families of random queries, and the run of a query on its streams."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import cepkit as cep
from tests.campaigns import regexes, row_patterns, sequences, siddhi, windows
from tests.campaigns.streams import Answer
from tests.support.hostile_runs import NeedsKernel, without_kernels


@dataclass(frozen=True, slots=True)
class Family:
    """How a seed is compared, and on how many streams."""

    compare: Callable[[int, int], Answer]
    n_streams: int


FAMILIES = {
    "regexes": Family(regexes.answer, 150),
    "regexes in turn": Family(regexes.answer_in_turn, 150),
    "sequences": Family(sequences.answer, 120),
    "row patterns": Family(row_patterns.answer, 150),
    "row windows": Family(row_patterns.answer_windows, 150),
    "siddhi": Family(siddhi.answer, 150),
    "windows": Family(windows.answer, 10),
    "joins": Family(windows.answer_joins, 10),
}
COMPILED = 10  # of the queries that need a kernel, one in ten gets it: compilation takes a second or two


@dataclass
class Counts:
    """What a campaign has compared. A case is a query on a stream."""

    n_queries: int = 0
    n_compiled: int = 0
    n_cases: int = 0
    n_with_match: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    n_different: int = 0

    def __str__(self) -> str:
        left_out = ", ".join(f"{n} {reason}" for reason, n in self.left_out.most_common())
        return (
            f"{self.n_queries} queries ({self.n_compiled} compiled), {self.n_cases} cases, "
            f"{self.n_with_match} with a match, {self.n_different} differences; left out: {left_out or 0}"
        )


def compare(name: str, seed: int, counts: Counts, n_streams: int | None = None) -> str | None:
    """Compare the query of a seed, add it to the counts, and return what differs."""
    family = FAMILIES[name]
    n_streams = n_streams or family.n_streams
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cep.CepWarning)
            try:
                with without_kernels():
                    answer = family.compare(seed, n_streams)
            except NeedsKernel:
                if seed % COMPILED:
                    counts.left_out["need a kernel"] += 1
                    return None
                answer = family.compare(seed, 5 * n_streams)
                counts.n_compiled += 1
    except cep.CepError as error:
        counts.left_out[f"refused: {type(error).__name__}"] += 1
        return None
    except Exception as error:
        counts.n_different += 1
        return f"{name}, seed {seed}: {type(error).__name__}: {error}"
    counts.n_queries += 1
    counts.n_cases += answer.n_streams
    counts.n_with_match += answer.n_with_match
    return None
