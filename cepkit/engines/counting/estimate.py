"""Estimated numbers of matches: an exact count without some conditions, which a sample then tests."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from cepkit.compile.sequence_program import BoundBranch, SequenceProgram
from cepkit.compile.state_graph import Dropped, relax
from cepkit.engines.counting.engine import CountedMatches, counting_unsupported
from cepkit.engines.shared.places import Places, accepted
from cepkit.engines.shared.python_kernels import holding
from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.errors import UnsupportedQueryError, whole_number
from cepkit.events import Events
from cepkit.language.expressions.durations import count_text, rough_text
from cepkit.values import dataclass

CONFIDENCE = 0.95
_LEAST_SHARE = 10  # a branch gets at least a tenth of an even share of the samples
_FEWEST_TO_DRAW_FROM = 1 << 22  # matches of a relaxed query; fewer are searched
_DRAWN = 10_000, 200_000  # matches of a relaxed query that are drawn, and then drawn again


@dataclass(frozen=True, slots=True)
class CountEstimate:
    """An estimated number of matches with its confidence limits. Prints as text.

    Parameters
    ----------
    value : int
        The estimate.
    low, high : int
        Limits between which the number lies with probability ``confidence``; equal if the value is exact.
    confidence : float
        0.95.
    samples : int
        Number of matches of the relaxed query that were drawn and tested; 0 if the matches were counted.
    relaxed_count : int
        The exact number of matches of the query without ``dropped``.
    dropped : tuple of str
        The conditions and absences that were tested on the sample.

    Examples
    --------
    >>> CountEstimate(1_230_000_000, 1_140_000_000, 1_320_000_000, 0.95, 10_000, 41_000_000_000)
    about 1.23e9 (95 % between 1.14e9 and 1.32e9; 10,000 samples of 4.10e10)
    >>> CountEstimate(4, 4, 4, 0.95, 0, 4)
    4 (exact)
    """

    value: int
    low: int
    high: int
    confidence: float
    samples: int
    relaxed_count: int
    dropped: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether ``value`` is the exact number.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.match(pd.DataFrame({"x": [1, 2]}), "PATTERN SEQ(_ a, _ b)").count("estimate").is_exact
        True
        """
        return self.low == self.high

    def __int__(self) -> int:
        return self.value

    def __str__(self) -> str:
        if self.is_exact:
            return f"{count_text(self.value)} (exact)"
        return (
            f"about {rough_text(self.value)} ({100 * self.confidence:g} % between {rough_text(self.low)} and "
            f"{rough_text(self.high)}; {self.samples:,} samples of {rough_text(self.relaxed_count)})"
        )

    __repr__ = __str__


def exactly(count: int) -> CountEstimate:
    """Return the estimate for a number that was counted."""
    return CountEstimate(count, count, count, CONFIDENCE, 0, count)


def estimate_count(
    program: SequenceProgram, events: Events, *, samples: int = 10_000, seed: int = 0
) -> CountEstimate:
    """Return an estimate of the number of matches."""
    # The matches of the relaxed query are counted exactly and drawn uniformly without replacement. The
    # estimate is this count times the share of drawn matches that fulfil the other conditions. Branches are
    # strata with samples in proportion to their relaxed counts; a branch that needs no relaxation is counted.
    # Clopper and Pearson's limits of each stratum hold with at least the given confidence for any share; the
    # limits of the sum are computed from them.
    # Source: Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    # binomial", Biometrika 26, 1934; Zou, Donner, "Construction of confidence limits about effect measures: a
    # general approach", Statistics in Medicine 27, 2008 (sums of independent estimates).
    samples, seed = whole_number("samples", samples, 1), whole_number("seed", seed)
    relaxed = relax(program)
    if isinstance(relaxed, str):
        raise UnsupportedQueryError(
            f"count(method='estimate') leaves out conditions until the rest can be counted without "
            f"enumeration; this query cannot, it {_as_reason(relaxed)}. count() is exact"
        )
    if not events.n_events or program.window.is_empty:
        return exactly(0)
    if any(relaxed.dropped) and counting_unsupported(program) is None:
        n, is_exact = CountedMatches(program, events).at_least()
        if is_exact:  # conditions on the first event need no sample, and quick counts are exact
            return exactly(n)
    relaxed_matches = CountedMatches(relaxed.program, events)
    counts = relaxed_matches.counts_of_branches()
    if not any(relaxed.dropped):
        return exactly(sum(counts))
    open_counts = [n if dropped else 0 for n, dropped in zip(counts, relaxed.dropped, strict=True)]
    n_drawn = _divide_samples(samples, open_counts)
    tests, strata = _Tests(program, events, relaxed.dropped), []
    for b, (count, n) in enumerate(zip(counts, n_drawn, strict=True)):
        hits = int(tests.holds(relaxed_matches.sample_of_branch(b, n, seed)).sum()) if n else n
        strata.append((count, n, hits))
    value, low, high = _sum_strata(strata, [bool(n) for n in open_counts])
    return CountEstimate(
        value, low, high, CONFIDENCE, sum(n_drawn), sum(counts), _names(program, relaxed.dropped)
    )


def _as_reason(reason: str) -> str:
    return reason if reason.startswith(("reports", "may", "cannot")) else f"has no such part: {reason}"


def _divide_samples(samples: int, counts: list[int]) -> list[int]:
    """Return the number of samples of each stratum: in proportion to the counts, but at least a few."""
    total, n_open = sum(counts), sum(count > 0 for count in counts)
    if total <= samples:
        return counts
    least = -(-samples // (_LEAST_SHARE * n_open))  # rounded up, as below
    return [min(count, max(least, -(-samples * count // total))) if count else 0 for count in counts]


class _Tests:
    """What a relaxed program leaves out, to test its matches."""

    def __init__(self, program: SequenceProgram, events: Events, dropped: tuple[Dropped, ...]):
        self._branches, self._dropped, self._places = program.branches, dropped, Places(program, events)

    @cached_property
    def _accept(self) -> np.ndarray | None:
        """Return which places each test accepts, or None if no absent event is dropped."""
        if not any(dropped.absences for dropped in self._dropped):
            return None
        return accepted(self._places)

    def holds(self, block: MatchBlock) -> np.ndarray:
        """Return which matches fulfil what was left out, bool, (n_matches,)."""
        holds = np.ones(len(block), np.bool_)
        for number, (bound, dropped) in enumerate(zip(self._branches, self._dropped, strict=True)):
            numbers = np.flatnonzero(block.branch_of_match == number)
            if dropped and len(numbers):
                holds[numbers] = self._of_branch(bound, dropped, block.take(numbers))
        return holds

    def _of_branch(self, bound: BoundBranch, dropped: Dropped, block: MatchBlock) -> np.ndarray:
        """Return, for each match of a branch, whether it passes the conditions that were dropped."""
        size = np.zeros((len(block), len(bound.accepts)), np.int64)
        np.add.at(size, (block.match_of_item, block.component_of_item), 1)
        item = self._places.place_of_position[block.event_of_item]
        tested = dropped.conditions, dropped.absences
        holds = holding(self._places, self._accept, bound, item, size, *tested)
        return np.logical_and.reduce(holds, axis=1)


def draw_matches(program: SequenceProgram, events: Events, n: int, seed: int) -> MatchBlock | None:
    """Return ``n`` matches drawn uniformly without a search for all, or None if that is of no use."""
    # Matches of the relaxed query are drawn until ``n`` of them fulfil the other conditions. Each match has
    # the same chance. None if the relaxed query has few matches, or if too few of them are matches.
    relaxed = relax(program)
    is_of_use = n and events.n_events and not program.window.is_empty
    if isinstance(relaxed, str) or not any(relaxed.dropped) or not is_of_use:
        return None
    relaxed_matches, tests = CountedMatches(relaxed.program, events), _Tests(program, events, relaxed.dropped)
    if relaxed_matches.count() <= _FEWEST_TO_DRAW_FROM:
        return None
    for n_drawn in _DRAWN:
        block = relaxed_matches.sample(n_drawn, seed)
        numbers = np.flatnonzero(tests.holds(block))
        if len(numbers) >= n:
            chosen = np.random.default_rng(seed).choice(numbers, n, replace=False)
            return block.take(np.sort(chosen))
    return None


def _sum_strata(strata: list[tuple[int, int, int]], is_open: list[bool]) -> tuple[int, int, int]:
    """Return the estimate for the sum of strata (count, samples, hits), and its limits."""
    value = sure = possible = 0
    below, above = Fraction(0), Fraction(0)
    for (count, n, hits), drawn in zip(strata, is_open, strict=True):
        if not drawn or n == count:
            exact = hits if drawn else count
            value, sure, possible = value + exact, sure + exact, possible + exact
            continue
        share, (low, high) = Fraction(hits, n), map(Fraction, proportion_limits(hits, n, CONFIDENCE))
        value += round(count * share)
        below += (count * (share - low)) ** 2
        above += (count * (high - share)) ** 2
        # The drawn matches are known: the hits count for sure, the others surely do not.
        sure, possible = sure + hits, possible + count - (n - hits)
    low, high = value - _ceil_of_root(below), value + _ceil_of_root(above)
    return value, min(value, max(low, sure)), max(value, min(high, possible))


def _ceil_of_root(square: Fraction) -> int:
    whole = math.ceil(square)
    root = math.isqrt(whole)
    return root if root * root == whole else root + 1


def _names(program: SequenceProgram, dropped: tuple[Dropped, ...]) -> tuple[str, ...]:
    """Return the texts of the conditions and of the absent events that were dropped."""
    names = []
    for bound, left_out in zip(program.branches, dropped, strict=True):
        conditions = [bound.conditions[i].condition for i in left_out.conditions]
        names += [str(c.expression) for c in conditions if c.conjunct < len(program.query.where)]
        names += [f"!{bound.branch.absences[a].variable}" for a in left_out.absences]
    return tuple(dict.fromkeys(names))


def proportion_limits(hits: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the confidence limits of a proportion after ``hits`` in ``n`` independent draws."""
    # The upper limit is the largest proportion at which ``hits`` or fewer have probability (1 - confidence) /
    # 2; the lower limit is the smallest for ``hits`` or more.
    # Source: Clopper, Pearson, Biometrika 26, 1934.
    tail = (1 - confidence) / 2
    k = np.arange(1, n + 1)
    log_ways = np.concatenate([[0.0], np.cumsum(np.log(n + 1 - k) - np.log(k))])

    def at_most(most: int, p: float) -> float:
        """Return the probability of at most ``most`` hits."""
        seen = np.arange(most + 1)
        logs = log_ways[: most + 1] + seen * math.log(p) + (n - seen) * math.log1p(-p)
        return float(np.exp(logs).sum())

    def crossing(most: int, target: float) -> float:
        """Return the proportion at which at most ``most`` hits have the probability ``target``."""
        low, high = 0.0, 1.0
        for _ in range(60):
            p = (low + high) / 2
            low, high = (p, high) if at_most(most, p) > target else (low, p)
        return (low + high) / 2

    return crossing(hits - 1, 1 - tail) if hits else 0.0, crossing(hits, tail) if hits < n else 1.0
