"""Eight small streams on which the printed algorithms of the LinkedCEP paper lose or invent matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.linked.experiments.printed import PrintedQuery, combine_match, cover_match
from cepkit.linked.linked_cep import LinkedCEP
from cepkit.linked.patterns import (
    ABSENT,
    EventComparison,
    PlainAbsence,
    PlainEvents,
    PlainMatches,
    PlainPattern,
)
from cepkit.linked.runs import SaseRuns


@dataclass(frozen=True)
class Counterexample:
    """A stream and a query, for the engines and for the printed algorithm.

    ``stream`` holds events ``name@time=value``. The first letter of the name is the type. The value is ``x``,
    or the key in a query with keys. The default time is the number of the event, the default value 0.

    """

    name: str
    why: str
    query: str
    stream: str
    pattern: PlainPattern
    printed: PrintedQuery
    join: str = "head"

    def rows(self) -> list[dict]:
        """Return the events as the printed algorithm reads them."""
        made = []
        for number, text in enumerate(self.stream.split()):
            name, _, value = text.partition("=")
            name, _, ts = name.partition("@")
            at = int(ts) if ts else number
            made.append({"name": name, "type": name[0].upper(), "ts": at, "x": int(value or 0)})
        return made

    def events(self) -> PlainEvents:
        """Return the events as the engines read them; in a query with keys, ``x`` is the key."""
        rows = self.rows()
        kinds = [self.printed.type_of(j) for j in range(self.pattern.n_components)]
        absent = self.printed.absent
        values = np.array([row["x"] for row in rows])
        return PlainEvents(
            np.array([row["ts"] for row in rows]),
            np.array([[row["type"] == kind for row in rows] for kind in kinds]),
            values if "[key]" in self.query else None,
            np.array([[row["type"] == absent[1] for row in rows]]) if absent else None,
            {"x": values},
        )

    def shown(self, matches: list[tuple]) -> list[str]:
        """Return matches as the names of their events, a Kleene closure in braces."""
        names = [row["name"] for row in self.rows()]
        texts = []
        for match in matches:
            parts = [
                "{" + " ".join(names[x] for x in events) + "}"
                if j in self.pattern.kleene
                else names[events[0]]
                for j, events in enumerate(match)
            ]
            texts.append(" ".join(parts))
        return texts

    def found(self, engine: type) -> list[str]:
        """Return the matches that an engine finds."""
        matches: PlainMatches = engine(self.pattern).push(self.events())
        return self.shown(matches.bound())

    def found_as_printed(self) -> list[str]:
        """Return the matches that the printed algorithms find."""
        rows = self.rows()
        matches = combine_match(cover_match(rows, self.printed), self.printed, join=self.join)
        return self.shown(sorted(matches))


def _less(one: str, other: str):
    return (one, other), lambda bound: bound[one]["x"] < bound[other]["x"]


def _equal(one: str, other: str):
    return (one, other), lambda bound: bound[one]["x"] == bound[other]["x"]


_A_BELOW_B = EventComparison(0, "<", 1, "x", "x")
COUNTEREXAMPLES = (
    Counterexample(
        "X1",
        "a condition between events is tested on the chain's tail only",
        "SEQ(A a, B b) WHERE a.x < b.x",
        "a1=1 a2=9 b1=5",
        PlainPattern(2, conditions=(_A_BELOW_B,)),
        PrintedQuery(("a", "b"), (_less("a", "b"),)),
    ),
    Counterexample(
        "X2",
        "a condition that holds for the tail is assumed for the whole chain",
        "SEQ(A a, B b) WHERE a.x < b.x",
        "a1=9 a2=1 b1=5",
        PlainPattern(2, conditions=(_A_BELOW_B,)),
        PrintedQuery(("a", "b"), (_less("a", "b"),)),
    ),
    Counterexample(
        "X3",
        "the window is tested on the tail only",
        "SEQ(A a, B b) WITHIN 10",
        "a1@0 a2@5 b1@12",
        PlainPattern(2, window_ticks=10),
        PrintedQuery(("a", "b"), window=10),
    ),
    Counterexample(
        "X4",
        "an event fits two components: the head's predecessors are not the tail's",
        "SEQ(A a, A a2)",
        "a1 a2 a3",
        PlainPattern(2),
        PrintedQuery(("a", "a2")),
    ),
    Counterexample(
        "X4 tail",
        "the same, joined with the tail's predecessors instead",
        "SEQ(A a, A a2)",
        "a1 a2 a3",
        PlainPattern(2),
        PrintedQuery(("a", "a2")),
        join="tail",
    ),
    Counterexample(
        "X5",
        "events of different keys share a chain",
        "SEQ(A a, B b) WHERE [key]",
        "a1=1 a2=2 b1=1",
        PlainPattern(2),
        PrintedQuery(("a", "b"), (_equal("a", "b"),)),
    ),
    Counterexample(
        "X6",
        "successive events must differ in time, and only the tail has the time of the event",
        "SEQ(A a, B b), times strictly increasing",
        "a1@0 a2@1 b1@1",
        PlainPattern(2, strict_time=True),
        PrintedQuery(("a", "b"), strict_time=True),
    ),
    Counterexample(
        "X7",
        "a Kleene closure takes events of several chains",
        "SEQ(A a, B+ b[], C c)",
        "a1 b1 a2 b2 c1",
        PlainPattern(3, kleene={1}),
        PrintedQuery(("a", "b", "c"), kleene=frozenset("b")),
    ),
    Counterexample(
        "X8",
        "an absent event with a condition ends some partial matches of a chain and not others",
        "SEQ(A a, !B b, C c) WHERE b.x > a.x",
        "a1=1 a2=9 b1=5 c1",
        PlainPattern(2, absences=(PlainAbsence(0, (EventComparison(ABSENT, ">", 0, "x", "x"),)),)),
        PrintedQuery(("a", "c"), absent=(0, "B", lambda row, bound: row["x"] > bound["a"]["x"])),
    ),
)


def counterexamples() -> pd.DataFrame:
    """Compare the matches of the printed and the corrected algorithms on each counterexample."""
    rows = []
    for case in COUNTEREXAMPLES:
        right, corrected, printed = case.found(SaseRuns), case.found(LinkedCEP), case.found_as_printed()
        rows.append(
            {
                "case": case.name,
                "why": case.why,
                "query": case.query,
                "stream": case.stream,
                "by_runs": "; ".join(right),
                "corrected": "; ".join(corrected),
                "printed": "; ".join(printed),
                "lost": "; ".join(match for match in right if match not in printed),
                "invented": "; ".join(dict.fromkeys(match for match in printed if match not in right)),
            }
        )
    return pd.DataFrame(rows)
