"""Claims of papers, tried on many seeds. A verdict comes from all tries, and never from one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import pandas as pd

from cepkit.errors import CepError

LEAST_SEEDS = 10
LEAST_SHARE = 0.9
YES, ON_GENERATED, IN_PART, NO, UNTRIED = "yes", "on generated data", "in part", "no", "too few seeds"
IN_REGIME, CANNOT, UNSAID = "in the paper's regime", "cannot hold", "the paper does not say enough"
MARKS = {
    YES: "✓", ON_GENERATED: "○", IN_REGIME: "~", IN_PART: "±", NO: "–", CANNOT: "✗", UNSAID: "?", UNTRIED: "",
}  # fmt: skip
_SEED = re.compile(r"seed \d+")


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper, and the test that decides whether one data set agrees with it."""

    place: str  # where the paper says it, for example ``"figure 6d"``
    statement: str  # what the paper says
    measure: str  # what ``value`` of the test is, with its unit
    # Takes the results of one data set. It returns the measured value, and whether the statement holds there,
    # or None if these results do not say.
    test: Callable[[pd.DataFrame], tuple[float, bool] | None]
    printed: str = ""  # the value that the paper prints; empty if it prints none
    reason: str = ""  # why the statement holds or does not hold here. The reason must have been measured.
    # The same outside the paper's regime. A claim that holds inside only is `IN_REGIME`.
    outside: Callable[[pd.DataFrame], tuple[float, bool] | None] | None = None
    unsaid: str = ""  # what the paper does not say, if its words do not say what to measure
    # The test or proof that shows the cause, for a statement that does not hold.
    ablation: str = ""
    is_model: bool = False  # whether formulas decide it, so that seeds say nothing
    shown_by: str = ""  # the test that removes the named cause and sees that the effect goes
    is_real: bool = False  # whether runs of a real system decide it, in place of seeds


@dataclass(frozen=True, slots=True)
class Try:
    """A claim on one data set: the measured value, and whether the claim holds."""

    data: str
    value: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim with its tries: on generated data of several seeds, and on recorded data."""

    claim: Claim
    on_seeds: tuple[Try, ...]
    on_recorded: tuple[Try, ...]
    outside: tuple[Try, ...] = ()  # on seeds, outside the paper's regime

    @property
    def share(self) -> float:
        """Share of the seeds for which the claim holds; NaN without seeds."""
        return _share(self.on_seeds)

    @property
    def verdict(self) -> str:
        """The verdict of all tries."""
        # ``"yes"`` needs at least ten seeds, nine of ten where the claim holds, and no recorded data that
        # contradict it. Recorded data alone turn it into ``"on generated data"``. ``"no"`` means that at most
        # one seed of ten agrees. Everything between is ``"in part"``.
        if self.claim.unsaid:
            return UNSAID
        if self.claim.is_real and self.on_recorded:
            share = _share(self.on_recorded)
            return YES if share == 1 else IN_PART if share else NO
        if len(self.on_seeds) < LEAST_SEEDS:
            return UNTRIED
        if self.claim.ablation and self.share < LEAST_SHARE:
            return CANNOT
        if self.outside and self.share >= LEAST_SHARE:
            return YES if _share(self.outside) >= LEAST_SHARE else IN_REGIME
        if self.share >= LEAST_SHARE:
            return YES if all(one.holds for one in self.on_recorded) else ON_GENERATED
        return NO if self.share <= 1 - LEAST_SHARE + 1e-9 else IN_PART


def _share(tries: Sequence[Try]) -> float:
    return sum(one.holds for one in tries) / len(tries) if tries else float("nan")


def examine(claims: Iterable[Claim], results: pd.DataFrame) -> list[Finding]:
    """Try claims on every data set of a table of results."""
    if "data" not in results:
        raise CepError(f"results of claims need a column 'data'; there are {', '.join(map(str, results))}")
    groups = [(str(name), own) for name, own in results.groupby("data", sort=False)]
    findings = []
    for claim in claims:
        tries = _tries(claim.test, groups)
        seeds = tuple(one for one in tries if _SEED.fullmatch(one.data))
        recorded = tuple(one for one in tries if not _SEED.fullmatch(one.data))
        outside = () if claim.outside is None else _tries(claim.outside, groups)
        findings.append(
            Finding(claim, seeds, recorded, tuple(one for one in outside if _SEED.fullmatch(one.data)))
        )
    return findings


def _tries(test: Callable, groups: Sequence[tuple[str, pd.DataFrame]]) -> list[Try]:
    tries = ((name, test(own)) for name, own in groups)
    return [Try(name, float(of[0]), bool(of[1])) for name, of in tries if of is not None]


def marks_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """Return findings as a table for readers, one row per claim: a mark, the claim, and both numbers."""
    rows = []
    for finding in findings:
        claim, judged = finding.claim, finding.on_recorded if finding.claim.is_real else finding.on_seeds
        values = [one.value for one in judged]
        rows.append(
            {
                "": MARKS[finding.verdict],
                "claim": claim.statement,
                "place": claim.place,
                "measure": claim.measure,
                "paper": claim.printed,
                "here": _short(median(values)) if values else "",
                "seeds": "model" if claim.is_model else _held(finding.on_seeds),
                "outside": "model" if claim.is_model and finding.outside else _held(finding.outside),
                "recorded": _held(finding.on_recorded),
                "why": claim.unsaid or claim.reason,
                "shown by": claim.shown_by,
            }
        )
    table = pd.DataFrame(rows).set_index("")
    return table.drop(columns=[name for name in _OPTIONAL if not table[name].any()])


_OPTIONAL = ("paper", "seeds", "outside", "recorded", "shown by")


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"


def _held(tries: Sequence[Try]) -> str:
    return f"{sum(one.holds for one in tries)} of {len(tries)}" if tries else ""


def count_verdicts(findings: Sequence[Finding]) -> str:
    """Return in one phrase how many claims hold; the README has this phrase for each paper."""
    verdicts = [finding.verdict for finding in findings]
    others = [f"{verdicts.count(kind)} {words}" for kind, words in _COUNTED if kind in verdicts]
    return ", ".join([f"{verdicts.count(YES)} of {len(verdicts)} claims hold", *others])


_COUNTED = (
    (IN_REGIME, "in the paper's regime only"),
    (CANNOT, "cannot hold"),
    (UNSAID, "the paper does not define"),
    (ON_GENERATED, "on generated data only"),
    (IN_PART, "in part"),
    (NO, "not"),
    (UNTRIED, "on too few seeds"),
)


def rises(values: Iterable[float]) -> bool:
    """Return whether every value is greater than the one before. A claim of growth looks at every step."""
    own = list(values)
    return len(own) > 1 and all(a < b for a, b in pairwise(own))


def falls(values: Iterable[float]) -> bool:
    """Return whether every value is less than the one before."""
    return rises([-value for value in values])
