"""Random queries whose conditions look at neighbours only, and their streams: matches are paths of states.

One generator draws the shape (components, structure of conditions, absent events), another one the values
(rows, constants, limits), as in `generate_sequences`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import AbsentPattern, EventPattern, Loop, SequenceOf, SequenceQuery
from tests.oracle.naive_sequences import SequenceMatch, sequence_matches

if TYPE_CHECKING:
    import pandas as pd

SIGNS = ["<", "<=", "!=", "==", ">"]
COLUMNS = ("x", "y", "s")


@dataclass
class Case:
    """Components (type or None, low, high), conditions between them, absent events, and limits."""

    components: list
    links: list  # (c, column, sign, shift): last event of c + shift, sign, first of c + 1; the shift may miss
    loops: list  # (c, column, sign): an event of c, sign, the one before it in c
    absences: list  # (c, type, side or None, column, sign): none between c and c + 1
    window: dict
    singles: list = field(default_factory=list)  # (c, sign, value): y of each event of c, sign, value

    def query(self) -> SequenceQuery:
        names = "abcde"
        parts, where = [], []
        for c, (kind, low, high) in enumerate(self.components):
            event = EventPattern(names[c], kind)
            parts.append(event if (low, high) == (1, 1) else Loop(event, low, high))
            for a, (_, kind, side, column, sign) in enumerate(one for one in self.absences if one[0] == c):
                absent = f"n{c}{'abc'[a]}"
                parts.append(AbsentPattern(EventPattern(absent, kind)))
                other = {"earlier": self._last(c, column), "later": self._first(c + 1, column)}.get(side)
                if other is not None:
                    where.append(ex.Comparison(sign, ex.Reference(absent, column), other))
                elif column is not None:
                    where.append(ex.Comparison(sign, ex.Reference(absent, "x"), ex.Literal(1)))
        for c, column, sign, *shift in self.links:
            last: ex.Expression = self._last(c, column)
            if any(shift):
                last = ex.Arithmetic("+", last, ex.Literal(*shift))
            where.append(ex.Comparison(sign, last, self._first(c + 1, column)))
        for c, sign, value in self.singles:
            where.append(ex.Comparison(sign, ex.Reference(names[c], "y"), ex.Literal(value)))
        for c, column, sign in self.loops:
            name = names[c]
            current, before = ex.Reference(name, column, "i"), ex.Reference(name, column, "i-1")
            where.append(ex.Comparison(sign, current, before))
        return SequenceQuery(
            SequenceOf(tuple(parts), (None,) * len(parts)), tuple(where), event_type="kind", order_by=("t",),
            **self.window,
        )  # fmt: skip

    def _last(self, c: int, column: str) -> ex.Reference:
        is_group = self.components[c][1:] != (1, 1)
        return ex.Reference("abcde"[c], column, ex.LAST if is_group else None)

    def _first(self, c: int, column: str) -> ex.Reference:
        is_group = self.components[c][1:] != (1, 1)
        return ex.Reference("abcde"[c], column, 1 if is_group else None)

    def matches(self, rows: list[dict]) -> list[SequenceMatch]:
        """Return all matches in canonical order; ``rows`` are in stream order."""
        return sequence_matches(self.query(), rows)


def drawn_case(rng: Random, values: Random) -> Case:
    kinds = rng.choice([[*"ABC"], [*"AB", None], [None], ["A", None]])
    quantities = [(1, 1)] * 3 + [(1, None), (1, None), (2, None), (1, 2), (2, 2), (1, 3), (2, 3)]
    if rng.random() < 0.3:
        quantities = [(1, 1), (1, 1), (2, 2)]
    n = rng.choice([1, 2, 2, 3, 3, 3, 4])
    components = [(rng.choice(kinds), *rng.choice(quantities)) for _ in range(n)]
    linked = [c for c in range(n - 1) if rng.random() < 0.4]
    links = [_link(rng, c) for c in linked for _ in range(rng.choice([1, 1, 1, 1, 1, 2]))]
    alone = [c for c in range(n) if rng.random() < 0.07]
    singles = [(c, rng.choice(["<", ">="]), values.choice([0.5, 1.0])) for c in alone]
    loops = [(c, *drawn_test(rng)) for c in range(n) if components[c][1:] != (1, 1) and rng.random() < 0.4]
    absences = []
    for c in range(n - 1):
        for _ in range(rng.choice([1, 1, 1, 2]) if rng.random() < 0.3 else 0):
            side = rng.choice([None, None, "earlier", "later"])
            column, sign = drawn_test(rng)
            kind = rng.choice([*"ABCDD", None])
            if side is None:
                column, sign = column if rng.random() < 0.5 else None, "=="
            absences.append((c, kind, side, column, sign))
    window = {}
    if rng.random() < 0.3:
        window["partition_by"] = ("k",)
    kind = rng.choice(["none", "within", "within", "within_events", "both"])
    if kind in ("within", "both"):
        window["within"] = values.choice([0, *range(3, 15)])
        window["within_closed"] = rng.random() < 0.7
    if kind in ("within_events", "both"):
        window["within_events"] = values.randint(4, 12)
    if rng.random() < 0.2:
        window["gap_within"] = values.randint(0, 6)
    if rng.random() < 0.15:
        window["strict_time"] = True
    return Case(components, links, loops, absences, window, singles)


def _link(rng: Random, c: int) -> tuple:
    column, sign = drawn_test(rng)
    return c, column, sign, 0 if column == "s" else rng.choice([0, 0, 1, -1])


def drawn_test(rng: Random) -> tuple[str, str]:
    column = rng.choice(COLUMNS)
    return column, rng.choice(["==", "!="] if column == "s" else [*SIGNS, "<=", "!=", "<="])


def drawn_rows(values: Random, n: int) -> list[dict]:
    t, rows = 0, []
    for _ in range(n):
        t += values.choice([0, 0, 1, 1, 2])
        rows.append({
            "t": t, "kind": values.choice("AABBCCD"), "k": values.choice("ppq"), "x": values.randint(0, 3),
            "y": values.choice([0.0, 0.5, 0.5, 1.0, float("nan")]), "s": values.choice(["u", "u", "v", None]),
        })  # fmt: skip
    return rows


def as_frame(rows: list[dict]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=["t", "kind", "k", "x", "y", "s"])
    types = {"t": "int64", "kind": "string", "k": "string", "x": "int64", "y": "float64", "s": "string"}
    return frame.astype(types)
