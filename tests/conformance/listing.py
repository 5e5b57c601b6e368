"""The list of conformance: what comes of each case of each suite, in each language that can ask it.

As a program it prints the list::

    python -m tests.conformance.listing
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from typing import Any

from tests.conformance import eql, regexes, sequences, siddhiql, sql, windows
from tests.conformance.cases import cases
from tests.conformance.verdicts import DIFFERS, EQUAL, OPEN, REFUSED, Verdict, verdict_of

SUITES = {
    "core_ceql": "CORE",
    "eql": "EQL of Endgame",
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


# The languages that can ask the cases of a suite, beside those of sequences, and what comes of a case.
ASKED_IN: list[tuple[str, str, Callable[[Any], Verdict]]] = [
    ("siddhi_pattern_sequence", "SiddhiQL", siddhiql.verdict_of_pattern),
    ("siddhi_windows_joins", "SiddhiQL", lambda case: verdict_of(lambda: siddhiql.check_window(case))),
    ("siddhi_windows_joins", "windows and joins", windows.verdict_of_case),
    ("trino_match_recognize", "MATCH_RECOGNIZE", sql.verdict_of_sql),
    ("flink_sql_match_recognize", "MATCH_RECOGNIZE", sql.verdict_of_sql),
    ("esper_rowrecog", "MATCH_RECOGNIZE", sql.verdict_of_esper),
    ("esper_rowrecog", "regex", regexes.verdict_of_esper),
    ("eql", "EQL", eql.verdict_of_eql),
    ("seed_matchregex", "regex", lambda case: verdict_of(lambda: regexes.check_paper(case))),
]


def questions() -> dict[tuple[str, str, str], Callable[[], Verdict]]:
    """Return what tells the verdict on each case, by suite, language and name."""
    asked: dict[tuple[str, str, str], Callable[[], Verdict]] = {}
    for name, case in sequences.CASES.items():
        asked[case.file, "sequences", name] = partial(sequences.verdict, name)
    for suite, language, verdict in ASKED_IN:
        for tree in cases(f"{suite}.json"):
            asked[suite, language, tree["id"]] = partial(verdict, tree)
    return asked


def entries(verdicts: Mapping[tuple[str, str, str], Verdict]) -> list[Entry]:
    """Return the list of verdicts that are known."""
    listed: dict[tuple[str, str], dict[str, Verdict]] = {}
    for (suite, language, name), verdict in verdicts.items():
        listed.setdefault((suite, language), {})[name] = verdict
    return [Entry(suite, language, own) for (suite, language), own in listed.items()]


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = entries({key: ask() for key, ask in questions().items()})
    print(table(found))
    print("\n".join(open_cases(found)))
