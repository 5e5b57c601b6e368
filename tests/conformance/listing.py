"""The list of conformance: what comes of each case of each suite, in each language that can ask it.

As a program it prints the list::

    python -m tests.conformance.listing
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from tests.conformance import regexes, sequences, siddhiql, sql, windows
from tests.conformance.cases import cases
from tests.conformance.verdicts import DIFFERS, EQUAL, OPEN, REFUSED, Verdict, verdict_of

SUITES = {
    "core_ceql": "CORE",
    "esper_rowrecog": "Esper",
    "flink_cep_event_time": "FlinkCEP, event time",
    "flink_cep_nfa": "FlinkCEP",
    "flink_sql_match_recognize": "Flink SQL",
    "opencep": "OpenCEP",
    "seed_matchregex": "MatchRegex paper",
    "siddhi_pattern_sequence": "Siddhi, patterns",
    "siddhi_windows_joins": "Siddhi, windows and joins",
    "trino_match_recognize": "Trino",
}


@dataclass(frozen=True)
class Entry:
    """The verdicts on the cases of a suite in one language. A case with several patterns has several."""

    suite: str
    language: str
    verdicts: Mapping[str, Verdict]

    def count(self, outcome: str) -> int:
        """Return how many cases have an outcome."""
        return sum(verdict.outcome == outcome for verdict in self.verdicts.values())

    def reasons(self, outcome: str) -> Counter[str]:
        """Return the reasons of an outcome, with the number of cases."""
        return Counter(own.reason for own in self.verdicts.values() if own.outcome == outcome)


def entries() -> list[Entry]:
    """Return the whole list. Every case is run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(_entries())


def _entries() -> Iterator[Entry]:
    for suite in sequences.N_CASES_OF_FILE:
        names = [name for name, case in sequences.CASES.items() if case.file == suite]
        yield Entry(suite, "sequences", {name: sequences.verdict(name) for name in names})
    of: list[tuple[str, str, Callable[[Any], Verdict]]] = [
        ("siddhi_pattern_sequence", "SiddhiQL", siddhiql.verdict_of_pattern),
        ("siddhi_windows_joins", "SiddhiQL", lambda case: verdict_of(lambda: siddhiql.check_window(case))),
        ("siddhi_windows_joins", "windows and joins", windows.verdict_of_case),
        ("trino_match_recognize", "MATCH_RECOGNIZE", sql.verdict_of_sql),
        ("flink_sql_match_recognize", "MATCH_RECOGNIZE", sql.verdict_of_sql),
        ("esper_rowrecog", "MATCH_RECOGNIZE", sql.verdict_of_esper),
        ("esper_rowrecog", "regex", regexes.verdict_of_esper),
        ("seed_matchregex", "regex", lambda case: verdict_of(lambda: regexes.check_paper(case))),
    ]
    for suite, language, verdict in of:
        yield Entry(suite, language, {case["id"]: verdict(case) for case in cases(f"{suite}.json")})


def open_cases(listed: list[Entry]) -> list[str]:
    """Return the cases without an answer, with the language and what is known."""
    return [
        f"{name} ({entry.language}): {verdict.reason}"
        for entry in listed
        for name, verdict in entry.verdicts.items()
        if verdict.outcome == OPEN
    ]


def table(listed: list[Entry]) -> str:
    """Return the list as text: a line for each suite and language, and its reasons with their numbers."""
    outcomes = (EQUAL, DIFFERS, REFUSED, OPEN)
    lines = [f"{'suite':<28}{'language':<20}{'cases':>7}" + "".join(f"{own:>20}" for own in outcomes)]
    totals: Counter[str] = Counter()
    for entry in sorted(listed, key=lambda entry: (entry.suite, entry.language)):
        counts = [entry.count(outcome) for outcome in outcomes]
        totals.update(dict(zip(outcomes, counts, strict=True)))
        head = f"{SUITES[entry.suite]:<28}{entry.language:<20}{len(entry.verdicts):>7}"
        lines.append(head + "".join(f"{n:>20}" for n in counts))
        for outcome in outcomes[1:]:
            for reason, n in entry.reasons(outcome).most_common():
                first, *rest = wrap(f"{n} {outcome}: {reason}", 100)
                lines += [f"    {first}", *(f"        {line}" for line in rest)]
    n_cases = sum(totals.values())
    lines.append(f"{'all':<48}{n_cases:>7}" + "".join(f"{totals[outcome]:>20}" for outcome in outcomes))
    return "\n".join(lines)


if __name__ == "__main__":
    found = entries()
    print(table(found))
    print("\n".join(open_cases(found)))
