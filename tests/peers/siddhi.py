"""Random texts of SiddhiQL over two or three streams, answered by siddhi-core and by `cepkit.siddhi`."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import cepkit as cep
from tests.oracle import generate_siddhi
from tests.support.peers import Case, Event

PROGRAM = Path(__file__).with_name("Siddhi.java")
TYPES = {"int": pa.int64(), "string": pa.string(), "double": pa.float64()}
ATTRIBUTES = "k string, x int, d double"
RULES_OF_TEXTS = {  # the table in 6.3 of the language reference has these rules
    "partition with.*timeBatch": "keys of a partition share batches",
    "(maximum|minimum)\\(": "maximum of nulls",
    "join.*stdDev": "stdDev in a join",
    "every .*for . sec, ": "every before a sequence with a wait",
}
RULES_OF_ERRORS = {
    "may be empty": "a wait after states that may be empty",
    "the order of its threads": "two waits that end together",
}
FAMILIES = ("pattern", "selection", "window", "join", "texts", "keyed", "chain")


class _Texts:
    """Texts of queries over the streams A and B with the attributes k, x and d."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def number(self, side: str = "", depth: int = 1) -> str:
        """Return a number of an event, or computed from it."""
        if depth and self.chance(0.3):
            left, right = self.number(side, 0), self.number(side, 0)
            return self.pick(
                f"{left} + {right}", f"{left} - {right}", f"{left} * 2", f"maximum({left}, {left})",
                f"ifThenElse({left} > 2, {left}, {left})", f"coalesce({side}x, 7)",
            )  # fmt: skip
        return side + self.pick("x", "x", "d")

    def condition(self, side: str = "", others: tuple[str, ...] = (), depth: int = 2) -> str:
        """Return a condition on an event, and on events before it."""
        choice = self.random.random()
        if depth and choice < 0.3:
            left, right = self.condition(side, others, depth - 1), self.condition(side, others, depth - 1)
            return self.pick(f"({left} and {right})", f"({left} or {right})", f"not ({left})")
        other = self.pick(*others) if others and self.chance(0.7) else None
        if choice < 0.55:
            constant = "'" + self.pick("a", "b", "c") + "'"
            return f"{side}k {self.pick('==', '!=', '!=')} {f'{other}k' if other else constant}"
        if choice < 0.65:
            return f"{side}{self.pick('k', 'x', 'd')} is null"
        right = f"{other}{self.pick('x', 'd')}" if other else self.pick("1", "2", "3", "1.5")
        return f"{self.number(side, 1)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {right}"

    def filter(self, share: float, others: tuple[str, ...] = ()) -> str:
        return f"[{self.condition('', others)}]" if self.chance(share) else ""

    def window(self) -> str:
        n, seconds, order = self.pick(1, 2, 3), self.pick(1, 2, 3), self.pick("", ", 'asc'", ", 'desc'")
        return "#window." + self.pick(
            f"length({n})", f"time({seconds} sec)", f"lengthBatch({n})", f"timeBatch({seconds} sec)",
            f"timeLength({seconds} sec, {n})", f"sort({n}, {self.pick('x', 'd')}{order})",
        )  # fmt: skip

    def aggregate(self, side: str = "") -> str:
        name = self.pick(
            "sum", "avg", "min", "max", "minForever", "maxForever", "count", "distinctCount", "stdDev"
        )
        if name == "count":
            return "count()"
        return f"{name}({side}{self.pick('x', 'd') if name != 'distinctCount' else 'k'})"

    def columns(self, sides: tuple[str, ...] = ("",), grouped: str | None = None) -> str:
        """Return what a query with aggregates selects, with its groups and its having."""
        aggregates = [f"{self.aggregate(self.pick(*sides))} as v{i}" for i in range(self.pick(1, 1, 2))]
        side = self.pick(*sides)
        first = f"{grouped or side + 'k'} as c, " if grouped or self.chance(0.5) else ""
        groups = f" group by {grouped}" if grouped else ""
        having = f" having v0 {self.pick('>', '<=', '!=')} {self.pick(1, 2, 3)}" if self.chance(0.25) else ""
        return f"select {first}{', '.join(aggregates)}{groups}{having}"

    def into(self, target: str = "Out") -> str:
        return f" insert {self.pick('', '', '', 'expired events ', 'all events ')}into {target};"

    def selection(self, source: str = "A", target: str = "Out") -> str:
        plain = self.pick(
            "k, x, d", "k, x + 1 as x, d * 2 as d", "k, coalesce(x, 3) as x, ifThenElse(x > 2, d, 0.5) as d"
        )
        having = f" having {self.condition()}" if self.chance(0.4) else ""
        return f"from {source}{self.filter(0.7)} select {plain}{having} insert into {target};"

    def windowed(self, source: str = "A", target: str = "Out") -> str:
        head = f"from {source}{self.filter(0.3)}{self.window() if self.chance(0.9) else ''} "
        if self.chance(0.2):
            return head + "select k, x, d" + self.into(target)
        return head + self.columns(grouped=self.pick("k", None)) + self.into(target)

    def join(self) -> str:
        kind = self.pick("join", "join", "left outer join", "right outer join", "full outer join")
        n, m = self.pick(1, 2, 3), self.pick(1, 2)
        windows = (f"#window.length({n})", f"#window.time({m} sec)")
        left, right = self.pick(*windows), self.pick(*windows)
        sides = self.pick(("", ""), ("", ""), (" unidirectional", ""), ("", " unidirectional"))
        on = (
            f" on {self.pick('A.k == B.k', 'A.k != B.k', 'A.x > B.x', 'A.k == B.k and A.d < B.d')}"
            if self.chance(0.8)
            else ""
        )
        text = f"from A{self.filter(0.2)}{left}{sides[0]} {kind} B{self.filter(0.2)}{right}{sides[1]}{on} "
        if self.chance(0.6):
            return text + "select A.k as ak, A.x as ax, B.k as bk, B.d as bd" + self.into()
        return text + self.columns(("A.", "B."), self.pick("A.k", None)) + self.into()

    def texts(self, source: str = "") -> str:
        """Return a pattern or a sequence whose conditions compare texts and numbers."""
        sign = self.pick(" -> ", " -> ", ", ")
        names: list[str] = []
        parts = []
        for i in range(self.pick(2, 2, 3)):
            others, name = tuple(f"{name}." for name in names), f"e{i + 1}"
            part = f"{name}={self.pick('A', 'B')}{self.filter(0.7, others)}"
            choice = self.random.random()
            if choice < 0.15:
                part = (
                    f"({part} {self.pick('and', 'or')} o{i}={self.pick('A', 'B')}{self.filter(0.5, others)})"
                )
            elif choice < 0.3:
                part += self.pick("<1:2>", "<2>", "+" if sign == ", " else "<1:>")
            elif choice < 0.4 and i:
                part = f"(not {self.pick('A', 'B')}{self.filter(0.5, others)} and {part})"
            elif choice < 0.5 and i:
                parts.append(f"not {self.pick('A', 'B')}{self.filter(0.5, others)} for {self.pick(1, 2)} sec")
                continue
            parts.append(part)
            names.append(name)
        if self.chance(0.75):
            parts[0] = f"every {parts[0]}"
        within = f" within {self.pick(2, 3, 5)} sec" if self.chance(0.3) else ""
        shown = ", ".join(f"{name}.{of} as {name}{of}" for name in names for of in ("k", "x"))
        return f"from {sign.join(parts)}{within} select {shown} insert into Out;"

    def keyed(self) -> str:
        inner = self.pick(self.texts, self.windowed, self.join, self.texts)()
        streams = ", ".join(f"k of {name}" for name in ("A", "B") if re.search(rf"\b{name}\b", inner))
        return f"partition with ({streams}) begin {inner} end;"

    def chain(self) -> str:
        first = self.selection("A", "Mid")
        return first + " " + self.pick(self.windowed, self.selection)("Mid")


def random_case(seed: int) -> Case:
    """Return the text of an app and its events; the last one only ends it."""
    family = FAMILIES[seed % len(FAMILIES)]
    if family == "pattern":
        events = [(e.stream, e.time + 100, *e.values.values()) for e in generate_siddhi.random_events(seed)]
        defined = "".join(f"define stream {name} (x int); " for name in generate_siddhi.STREAMS)
        return defined + generate_siddhi.random_query(seed) + ";", [*events, _end(events)]
    texts = _Texts(seed)
    write = {"selection": texts.selection, "window": texts.windowed, "join": texts.join, "texts": texts.texts,
             "keyed": texts.keyed, "chain": texts.chain}[family]  # fmt: skip
    text, time, events = write(), 0, []
    for _ in range(texts.random.randint(1, 12)):
        time += texts.pick(100, 300, 700, 1000, 1000, 1700, 2500)
        k = texts.pick("a", "a", "b", "b", "c", None if texts.chance(0.5) else "a")
        x = None if texts.chance(0.1) else texts.random.randint(0, 4)
        d = None if texts.chance(0.1) else texts.random.randint(0, 12) / 4
        events.append((texts.pick("A", "A", "B") if family != "chain" else "A", time, k, x, d))
    return "".join(f"define stream {name} ({ATTRIBUTES}); " for name in "AB") + text, [*events, _end(events)]


def _end(events: list[Event]) -> Event:
    end = events[-1][1] + 4000
    return ("Clock", end, end)


def frames_of(text: str, events: list[Event]) -> dict[str, pa.Table]:
    """Return a frame for each stream; ``at`` (milliseconds) and ``place`` order the events of all."""
    frames = {}
    for name, columns in re.findall(r"define stream (\w+) \(([^)]*)\)", text):
        rows = [(t, i, *values) for i, (stream, t, *values) in enumerate(events) if stream == name]
        types = dict(column.split() for column in columns.split(","))
        schema = [
            ("at", pa.int64()),
            ("place", pa.int64()),
            *((name, TYPES[of]) for name, of in types.items()),
        ]
        lists = zip(*rows, strict=True) if rows else [[]] * len(schema)
        frames[name] = pa.table(list(map(list, lists)), schema=pa.schema(schema))
    return frames


def _cell(value: Any) -> Any:
    """Return a value of either side in one form: numbers with nine digits, and texts."""
    if value is None or value == "\\N":
        return None
    if isinstance(value, list):
        return f"[{', '.join('null' if item is None else str(item) for item in value)}]"
    try:
        number = float(value)
    except ValueError:
        return value
    return 0.0 if number != number or abs(number) < 1e-7 else float(f"{number:.9g}")


def ours(seed: int, case: Case) -> Counter:
    """Return the rows of `cepkit.siddhi`, with their times."""
    text, (*events, (_, end, _)) = case
    result = cep.siddhi(text, frames_of(text, events), order_by=["at", "place"], start=0, complete_until=end)
    table = result.to_frame("Out", time="time of row")
    return counted(case, zip(*(column.to_pylist() for column in table.columns), strict=True))


def counted(case: Case, rows: Iterable[Iterable]) -> Counter:
    """Return how often each row occurs."""
    return counted_rows(rows)


def counted_rows(rows: Iterable[Iterable]) -> Counter:
    """Return how often each row occurs, with its values in the form of both sides."""
    return Counter(tuple(map(_cell, row)) for row in rows)


def rule(text: str, error: cep.CepError | None, missing: Counter) -> str | None:
    """Return the named rule by which the answers may differ."""
    if error is not None:
        return next((of for part, of in RULES_OF_ERRORS.items() if part in str(error)), None)
    return next((of for part, of in RULES_OF_TEXTS.items() if re.search(part, text)), None)
