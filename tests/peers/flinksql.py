"""Random queries of MATCH_RECOGNIZE in the part of SQL that Flink has, answered by Flink and by us.

Flink's automaton gives no row of a greedy loop back. So most queries with loops or options are exclusive:
at most one of their conditions holds. Fixed queries have a number of rows. Loose ones may differ by a rule.
A match also waits in Flink for partial matches that began earlier, so the last row belongs to no match.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

import cepkit as cep
from tests.peers.siddhi import counted_rows
from tests.support.peers import Case

PROGRAM = Path(__file__).with_name("FlinkSql.java")
AT_ONCE = 1200  # cases of one job
SHARED, QUERIES = 600, 10  # so many seeds in a row share so many queries: Flink takes half a second for each
SIGNS = ("<", "<=", ">", ">=", "=", "<>")
TYPES = {"k": "string", "x": "Int64", "y": "Float64", "i": "int64"}


class _Query:
    """The text of a random query."""

    def __init__(self, number: int):
        self.random = random.Random(f"flink sql {number}")
        self.kind = self.random.choices(("fixed", "exclusive", "loose"), (30, 55, 15))[0]
        self.is_fixed = self.kind == "fixed"
        self.names = "ABCD"[: self.random.choice((1, 2, 2, 3, 3, 4) if self.is_fixed else (2, 2, 3, 3, 4))]
        self.sure = self.random.choice(self.names)
        self.quantifiers: dict[str, str] = {}
        for name in self.names:
            self.quantifiers[name] = self.quantifier(name)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def quantifier(self, name: str) -> str:
        """Return how often a variable comes. The last one is not greedy."""
        if self.is_fixed:
            return self.pick("", "", "", "{2}", "{3}")
        if name == self.names[-1]:
            return self.pick("", "", "{2}", "+?", "{2,}?", "{1,2}?")
        if name == self.sure:
            return self.pick("", "", "+", "+", "+?", "{2}", "{2,}", "{1,2}", "{2,3}?")
        before = [*self.quantifiers.values()][-1:]
        if before and before[0].endswith(("?", "*", "+", "}")) and before[0] not in ("{2}", "+?", "{2,3}?"):
            return self.pick("", "+", "+?", "{2}", "{2,}", "{1,3}")  # Flink has no option after a greedy loop
        return self.pick("", "?", "+", "*", "*?", "+?", "{2}", "{2,}", "{0,2}", "{1,3}", "{0,2}?")

    def is_certain(self, name: str) -> bool:
        """Return whether each match has rows of a variable."""
        return not self.quantifiers[name].startswith(("?", "*", "{0"))

    def number(self, name: str, others: str) -> str:
        """Return a number that the condition of a variable compares with."""
        other = self.pick(*others)
        choice = self.random.random()
        if choice < 0.3 or (not others and choice < 0.5):
            return str(self.random.randint(0, 5))
        if choice < 0.5:
            return self.pick(f"LAST({name}.x, 1)", f"FIRST({name}.x)", f"LAST({name}.x, 2)")
        return self.pick(
            f"{other}.x", f"LAST({other}.x)", f"FIRST({other}.x)", f"LAST({other}.x, 1)", f"SUM({other}.x)",
            f"COUNT({other}.x)", f"MIN({other}.x)", f"MAX({other}.x)", f"AVG({other}.y)", f"SUM({other}.y)",
            f"LAST({other}.x) + 1", f"{other}.x - LAST({name}.x, 1)", f"SUM({other}.x + 1)",
        )  # fmt: skip

    def test(self, name: str) -> str:
        """Return a test of the row of a variable."""
        others = self.names[: self.names.index(name) + 1] if self.chance(0.9) else self.names
        choice = self.random.random()
        if choice < 0.15:
            of, limit = self.pick("SUM", "COUNT", "MAX"), self.random.randint(1, 8)
            return f"{of}({name}.x) {self.pick(*SIGNS)} {limit}"
        left = f"{name}.{self.pick('x', 'x', 'x', 'y')}"
        if choice < 0.3:
            return f"(LAST({name}.x, 1) IS NULL OR {left} {self.pick(*SIGNS)} LAST({name}.x, 1))"
        if choice < 0.37:
            return f"{left} IS {self.pick('', 'NOT ')}NULL"
        if choice < 0.45:
            return f"NOT ({left} {self.pick(*SIGNS)} {self.number(name, others)})"
        if choice < 0.55:
            low = self.random.randint(0, 3)
            return self.pick(f"{left} IN ({low}, {low + 2})", f"{left} BETWEEN {low} AND {low + 2}")
        return f"{left} {self.pick(*SIGNS)} {self.number(name, others)}"

    def condition(self, name: str) -> str:
        tests = [self.test(name) for _ in range(self.random.choice((0, 0, 1, 1, 2)))]
        word = self.pick(" AND ", " AND ", " OR ")
        joined = f"({word.join(tests)})" if tests else ""
        if self.kind == "exclusive":
            kind = f"{name}.k = '{name.lower()}'"
            return f"{kind} AND {joined}" if joined else kind
        return f"{name}.k <> 'z' AND {joined}" if joined else f"{name}.k IN ('a', '{name.lower()}')"

    def measure(self) -> str:
        name, other = self.pick(*self.names), self.pick(*self.names)
        return self.pick(
            f"{name}.x", f"LAST({name}.x)", f"FIRST({name}.y)", f"FIRST({name}.x, 1)", f"LAST({name}.x, 1)",
            f"SUM({name}.x)", f"MIN({name}.x)", f"MAX({name}.y)", f"AVG({name}.y)", f"COUNT({name}.x)",
            f"LAST({name}.x) - FIRST({other}.x)", f"SUM({name}.x * 2)", f"MAX({name}.x) + COUNT({other}.x)",
        )  # fmt: skip

    def skip(self) -> str:
        """Return where the search goes on: never at the first row of the match, which is an error."""
        certain = [name for name in self.names if self.is_certain(name)][1:]
        choice = self.pick("PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST")
        if not choice.endswith(("FIRST", "LAST")):
            return choice
        return f"{choice} {self.pick(*certain)}" if certain else "TO NEXT ROW"

    def text(self) -> str:
        rows = [
            f"{of}({name}.i) AS {of.lower()}_{name.lower()}"
            for name in self.names
            for of in ("FIRST", "LAST")
        ]
        rows += [f"COUNT({name}.i) AS n_{name.lower()}" for name in self.names]
        rows += [f"{self.measure()} AS m{i}" for i in range(self.random.choice((0, 1, 2, 3)))]
        pattern = " ".join(f"{name}{self.quantifiers[name]}" for name in self.names)
        within = f" WITHIN INTERVAL '{self.random.randint(1, 9)}' SECOND" if self.chance(0.35) else ""
        define = ", ".join(f"{name} AS {self.condition(name)}" for name in self.names)
        return (
            f"MATCH_RECOGNIZE (ORDER BY t MEASURES {', '.join(rows)} ONE ROW PER MATCH AFTER MATCH SKIP "
            f"{self.skip()} PATTERN ({pattern}){within} DEFINE {define})"
        )


def random_case(seed: int) -> Case:
    """Return the text of a query and the events; the last one is in no match."""
    query, source = _Query(seed // SHARED * QUERIES + seed % QUERIES), random.Random(seed)
    time, events = 0, []
    letters = query.names.lower()
    for i in range(source.randint(1, 16)):
        time += source.choice((1, 1, 1, 2, 3))
        x = None if source.random() < 0.1 else source.randint(0, 5)
        y = None if source.random() < 0.1 else source.randint(0, 20) / 4
        k = source.choice(letters)
        if events and not query.is_fixed and source.random() < 0.85:  # the variables mostly follow each other
            before = letters.index(events[-1][2])
            k = letters[(before + source.choice((0, 0, 1, 1, 1, 2))) % len(letters)]
        events.append(("S", 1000 * time, k, x, y, i))
    return query.text(), [*events, ("S", 1000 * time + 1000, "z", None, None, len(events))]


def ours(seed: int, case: Case) -> Counter:
    """Return the rows of `cepkit.match`."""
    text, events = case
    frame = pd.DataFrame([event[1:] for event in events], columns=["t", *TYPES]).astype(TYPES)
    frame["t"] = pd.to_datetime(frame["t"], unit="ms")
    table = cep.match(frame, text).to_frame()
    return counted(case, table.astype(object).where(table.notna(), None).itertuples(index=False))


def counted(case: Case, rows: Iterable[Iterable]) -> Counter:
    """Return how often each row occurs."""
    return counted_rows(rows)


def rule(text: str, error: cep.CepError | None, missing: Counter) -> str | None:
    """Return the named rule by which the answers may differ."""
    if error is not None or ".k = '" in text:
        return None
    pattern = text.partition("PATTERN")[2].partition("DEFINE")[0]
    if re.search(r"[A-D]([+*?]|\{\d,\d?\})(?!\?)", pattern):
        return "a greedy loop gives no row back"
    return "of reluctant loops, the match that ends first" if re.search(r"[+*}]\?", pattern) else None
