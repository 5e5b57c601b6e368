"""Random patterns and row patterns, in Esper's language and in ours; some seeds share a query."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

import cepkit as cep
from tests.support.peers import Case, Event

PROGRAM = Path(__file__).with_name("Esper.java")
SHARED = 20  # seeds with one query
KINDS = ("A", "B", "C")
SIGNS = ("<", "<=", ">", ">=", "=", "!=")


class _Pattern:
    """A pattern of events: its text for Esper, and as a sequence of ours with its keywords."""

    def __init__(self, source: random.Random):
        self.random = source
        self.names: list[str] = []
        self.where: list[str] = []
        every = source.choice(("", "every "))  # of the states after the first one
        self.parts: list[str] = []
        first, *steps = [self.step(every if i else "every ") for i in range(source.choice((2, 3, 3)))]
        rest = " -> ".join(steps)
        self.keywords: dict[str, Any] = {"strategy": "any" if every else "next"}
        if source.random() < 0.5:
            width = source.choice((300, 700, 1500))
            # A guard of Esper ends before the last instant of a window.
            rest, self.keywords["within"] = f"(({rest}) where timer:within({width + 1} msec))", width
        columns = ", ".join(f"{name}.t as {name}_t" for name in self.names)
        self.theirs = f"select {columns} from pattern [{first} -> {rest}]"
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        self.ours = f"PATTERN SEQ({', '.join(self.parts)}){where}"

    def event(self, name: str, but: str = "") -> tuple[str, str]:
        """Return an event of a kind with conditions, for both sides."""
        kind, conditions = self.random.choice([kind for kind in KINDS if kind != but]), []
        if self.names and self.random.random() < 0.5:
            other = self.random.choice(self.names)
            conditions.append(("x", self.random.choice(SIGNS), f"{other}.x"))
            if self.random.random() < 0.5:
                conditions.append(("k", "=", f"{other}.k"))
        elif self.random.random() < 0.5:
            conditions.append(("x", self.random.choice(SIGNS), str(self.random.randint(0, 4))))
        self.where += [f"{name}.{left} {sign} {right}" for left, sign, right in conditions]
        filters = [f"kind = '{kind}'", *map(" ".join, conditions)]
        return f"Event({', '.join(filters)})", kind

    def step(self, every: str) -> str:
        """Return a state for Esper, and add it to ours."""
        name = "abcdef"[len(self.names)]
        choice = self.random.random()
        text, kind = self.event(name)
        if choice < 0.25 and self.names:
            # In Esper an event that fits `not` is not b, in ours it may be: here they have two kinds.
            absent, other = self.event(f"n{name}", but=kind)
            self.parts.append(f"!{other} n{name}")
            text = f"({every}{name}={text} and not {absent})"
        elif choice < 0.4 and self.names and not every:
            self.names.append(name)
            # In Esper one event may be both halves of `and`, in ours two events: here they have two kinds.
            second, other = "abcdef"[len(self.names)], self.random.choice([of for of in KINDS if of != kind])
            self.parts.append(f"AND({kind} {name}, {other} {second})")
            self.names.append(second)
            return f"({name}={text} and {second}=Event(kind = '{other}'))"
        else:
            text = f"{every}{name}={text}"
        self.parts.append(f"{kind} {name}")
        self.names.append(name)
        return text

    def answer(self, events: list[Event]) -> Counter:
        result = cep.match(_frame(events), self.ours, event_type="kind", order_by="t", **self.keywords)
        frame = result.to_frame()
        return Counter(zip(*(frame[f"{name}_t"].tolist() for name in self.names), strict=True))


class _Rows:
    """A pattern of rows: its text for Esper's match_recognize, and as a regex of ours."""

    def __init__(self, source: random.Random):
        self.random = source
        self.names = "ABCD"[: source.choice((2, 3, 3, 4))]
        signs = ["", *(source.choice(("", "", "+", "*", "?")) for _ in self.names[1:])]
        parts = [name + sign for name, sign in zip(self.names, signs, strict=True)]
        many = {part[0] for part in parts if part[-1] in "+*"}
        if len(parts) > 2 and source.random() < 0.3:
            loop = source.choice(("", "+"))
            many |= {*self.names[-2:]} if loop else set()
            parts[-2:] = [f"({parts[-2]} | {parts[-1]}){loop}"]
        pattern = " ".join(parts)
        conditions = {name: self.condition(name) for name in self.names if source.random() < 0.85}
        conditions = conditions or {"A": ("A.x > 1", "x > 1")}
        measures = ", ".join(
            f"{of}({name}.t) as {name}{of}" if name in many else f"{name}.t as {name}{of}"
            for name in self.names
            for of in ("first", "last")
        )
        define = ", ".join(f"{name} as {theirs}" for name, (theirs, _) in conditions.items())
        self.theirs = (
            f"select * from Event match_recognize (partition by k measures {measures} "
            f"pattern ({pattern}) define {define})"
        )
        self.define = {name.lower(): ours for name, (_, ours) in conditions.items()}
        self.ours = "".join(
            "." if sign.isalpha() and sign not in conditions else sign.lower() for sign in pattern
        )

    def condition(self, name: str) -> tuple[str, str]:
        """Return a condition on a row for both sides."""
        sign, n = self.random.choice(SIGNS), self.random.randint(0, 4)
        choices = [
            (f"{name}.x {sign} {n}", f"x {sign} {n}"),
            (f"{name}.x {sign} prev({name}.x)", f"x {sign} prev(x)"),
        ]
        if name != "A":
            choices.append((f"{name}.x {sign} A.x", f"x {sign} first(x)"))
        chosen = self.random.sample(choices, self.random.choice((1, 1, 2)))
        return tuple(" and ".join(texts) for texts in zip(*chosen, strict=True))

    def answer(self, events: list[Event]) -> Counter:
        measures = {"first": "first(t)", "last": "last(t)"}
        keywords = {"define": self.define, "partition_by": "k", "order_by": "t", "measures": measures}
        frame = cep.match(_frame(events), self.ours, **keywords).to_frame()
        return Counter(zip(frame["first"].tolist(), frame["last"].tolist(), strict=True))


def _frame(events: list[Event]) -> pd.DataFrame:
    frame = pd.DataFrame([event[1:] for event in events], columns=["t", "kind", "k", "x"])
    return frame.astype({"t": "int64", "kind": "string", "k": "string", "x": "Int64"})


def _query(seed: int) -> _Pattern | _Rows:
    source = random.Random(f"query {seed // SHARED}")
    return (_Pattern, _Rows)[seed // SHARED % 2](source)


def random_case(seed: int) -> Case:
    """Return the text of a query and its events."""
    source, time, events = random.Random(seed), 0, []
    is_rows = seed // SHARED % 2 == 1
    for _ in range(source.randint(2, 16)):
        time += 100 if is_rows else source.choice((0, 100, 100, 200, 300, 500))
        # Where an earlier event has a null, Esper's patterns lose their timers.
        x = None if is_rows and source.random() < 0.1 else source.randint(0, 4)
        events.append(("Event", time, source.choice("AABBC"), source.choice("pppq"), x))
    return _query(seed).theirs, events


def ours(seed: int, case: Case) -> Counter:
    """Return the matches of `cepkit.match`."""
    return _query(seed).answer(case[1])


def counted(case: Case, rows: Iterable[tuple[str, ...]]) -> Counter:
    """Return how often each match occurs: its events, or its first and its last row."""
    matches = [[int(cell) for cell in row if cell != "\\N"] for row in rows]
    if "match_recognize" in case[0]:
        return Counter((min(times), max(times)) for times in matches)
    return Counter(map(tuple, matches))


def rule(text: str, error: cep.CepError | None, missing: Counter) -> str | None:
    """Return the named rule by which the answers may differ."""
    # Under `next`, AND has a match for each order of its events that comes true; Esper has the first one.
    return "AND has a match for each order" if not missing and re.search(r"\) and \w=", text) else None
