"""What a differential campaign has compared, and the differences that it found.

A case is a query on a stream. The oracle answers it once, and each way to run the query is compared with that
answer: an engine in a tier, threads, a stream that takes the rows in batches.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from cepkit.compile.shared import loading

INTERPRETED, COMPILED, PYTHON, KERNELS = "interpreted", "compiled", "Python", "kernels"
_MOST_SHOWN = 4000  # characters of one answer in the text of a difference


class NeedsCompilationError(Exception):
    """The query cannot run without a kernel of its own."""


@dataclass
class Tally:
    """Counts of a campaign.

    ``cases`` has the pairs of query and stream by language, ``queries`` the queries. ``compared`` has the
    comparisons by language, way and tier. ``not_run`` has the queries that a way cannot run.
    """

    cases: Counter[str] = field(default_factory=Counter)
    queries: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    compared: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    not_run: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def add(self, language: str, answers: Sequence[Sequence[Any]]) -> None:
        """Count the cases of one query, given the answer for each stream."""
        self.queries[language] += 1
        self.cases[language] += len(answers)
        self.found[language] += sum(map(len, answers))

    def compare(
        self,
        language: str,
        way: str,
        tier: str,
        expected: Mapping[int, Sequence[Any]],
        found: Mapping[int, Sequence[Any]],
        say: Callable[[int], str],
        n_counted: int | None = None,
    ) -> None:
        """Compare the answers for each stream by its number; ``say`` describes the case of a stream.

        ``n_counted`` is the number of comparisons if it is not the number of streams.
        """
        self.compared[language, way, tier] += len(expected) if n_counted is None else n_counted
        wrong = [number for number, answer in expected.items() if list(found.get(number, ())) != list(answer)]
        wrong += [number for number in found if number not in expected]
        if wrong:
            number = wrong[0]
            self.differences.append(
                f"{language}, {way}, {tier}: {len(wrong)} of {len(expected)} streams differ\n{say(number)}\n"
                f"expected {str(expected.get(number))[:_MOST_SHOWN]}\n"
                f"found    {str(found.get(number))[:_MOST_SHOWN]}"
            )

    def fail(self, language: str, way: str, tier: str, text: str) -> None:
        """Count a comparison that ended with an error that no query should have."""
        self.compared[language, way, tier] += 1
        self.differences.append(f"{language}, {way}, {tier}: {text}")

    def update(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name in ("cases", "queries", "found", "compared", "not_run"):
            getattr(self, name).update(getattr(other, name))
        self.differences += other.differences

    def table(self) -> str:
        """Return the counts as text."""
        lines = [
            f"{'language':<16}{'way':<28}{'tier':<13}{'compared':>12}{'queries that it does not run':>31}"
        ]
        for key in sorted({*self.compared, *self.not_run}):
            language, way, tier = key
            lines.append(
                f"{language:<16}{way:<28}{tier:<13}{self.compared[key]:>12,}{self.not_run[key]:>31,}"
            )
        lines.append("")
        lines.append(f"{'language':<16}{'queries':>12}{'cases':>14}{'results':>14}{'compared':>14}")
        for language in sorted(self.cases):
            n_compared = sum(n for (of, _, _), n in self.compared.items() if of == language)
            own = (self.queries[language], self.cases[language], self.found[language], n_compared)
            lines.append(
                f"{language:<16}" + "".join(f"{n:>{w},}" for n, w in zip(own, (12, 14, 14, 14), strict=True))
            )
        counts = (self.queries, self.cases, self.found, self.compared)
        own = [sum(one.values()) for one in counts]
        lines.append(
            f"{'all':<16}" + "".join(f"{n:>{w},}" for n, w in zip(own, (12, 14, 14, 14), strict=True))
        )
        lines.append(f"{len(self.differences)} differences")
        return "\n".join(lines)


@contextmanager
def only_interpreted() -> Iterator[None]:
    """Let a query that needs a compiled kernel of its own raise `NeedsCompilationError`."""

    def refuse(*_: Any) -> Any:
        raise NeedsCompilationError

    before = os.environ.pop("CEPKIT_TIER", None)
    try:
        with patch.object(loading, "_load_once", refuse), patch.object(loading, "is_ready", lambda _: False):
            yield
    finally:
        if before is not None:
            os.environ["CEPKIT_TIER"] = before


@contextmanager
def only_compiled() -> Iterator[None]:
    """Let every query run with a compiled kernel of its own."""
    with patch.dict(os.environ, {"CEPKIT_TIER": "compiled"}):
        yield


def tier_of(compiled: bool) -> tuple[str, Any]:
    """Return the name of a tier, and what runs queries in it."""
    return (COMPILED, only_compiled()) if compiled else (INTERPRETED, only_interpreted())


def cuts_of(source: random.Random, n: int, most: int) -> list[tuple[int, int]]:
    """Return the bounds of random batches of n rows; some are empty, and some have one row."""
    places = sorted(source.randint(0, n) for _ in range(source.randint(1, most)))
    if places and source.random() < 0.5:
        places.append(min(places[-1] + 1, n))
    return list(zip([0, *places], [*places, n], strict=True))
