"""Random queries whose conditions also read the first event, and their streams; see `generate_paths`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle.generate_paths import COLUMNS, SIGNS, Case, drawn_test

NAMES = "abcde"
WHICH = ["each", "each", "each", "first", "last", "previous", "pair", "neighbour"]


@dataclass
class AnchoredCase(Case):
    """A case with conditions (c, which of its events, column, sign, shift): first event + shift, sign, these.

    ``pair`` reads two successive events of a loop, and ``neighbour`` the last event of the component before.
    """

    anchored: list = field(default_factory=list)

    def query(self) -> SequenceQuery:
        """Return the query."""
        query = super().query()
        return replace(query, where=(*query.where, *map(self._condition, self.anchored)))

    def _condition(self, one: tuple) -> ex.Expression:
        c, which, column, sign, shift = one
        name, is_group = NAMES[c], self.components[c][1:] != (1, 1)
        index = {"each": "i", "pair": "i", "previous": "i-1", "first": 1, "neighbour": 1, "last": ex.LAST}
        own = ex.Reference(name, column, index[which] if is_group else None)
        first: ex.Expression = ex.Reference("a", column)
        if shift:
            first = ex.Arithmetic("+", first, ex.Literal(shift))
        if which == "pair" and is_group and column != "s":
            own = ex.Arithmetic("-", own, ex.Reference(name, column, "i-1"))
        if which == "neighbour" and c > 1 and column != "s":
            own = ex.Arithmetic("-", own, self._last(c - 1, column))
        return ex.Comparison(sign, first, own)


def drawn_anchored(rng: Random, values: Random) -> AnchoredCase:
    """Return a case; the shape depends on ``rng`` alone."""
    n = rng.choice([2, 3, 3, 3, 4])
    quantities = [(1, 1), (1, 1), (1, None), (1, None), (2, None), (1, 2), (2, 2), (1, 3)]
    drawn = [(1, 1), *(rng.choice(quantities) for _ in range(n - 1))]
    if all(one == (1, 1) for one in drawn):
        drawn[rng.randrange(1, n)] = (1, None)
    loops = [c for c, (low, high) in enumerate(drawn) if low != high]
    if len(loops) > 1:
        kinds = rng.sample("ABCD", n)
    else:
        kinds = [rng.choice(rng.choice([[*"ABC"], [*"AB", None], [None]])) for _ in range(n)]
    components = [(kind, *own) for kind, own in zip(kinds, drawn, strict=True)]
    anchored = []
    for _ in range(rng.choice([1, 1, 1, 1, 2])):
        c = rng.randrange(1, n)
        which = rng.choice(WHICH)
        if which == "last" and c == n - 1:
            which = "each"
        column = rng.choice(COLUMNS)
        sign = rng.choice(["==", "!=", "!="] if column == "s" else [*SIGNS, "<=", "<=", "!=", "!=", "<="])
        anchored.append((c, which, column, sign, 0 if column == "s" else rng.choice([0, 0, 1, -1, -1])))
    links = [(c, *drawn_test(rng)) for c in range(n - 1) if rng.random() < 0.2]
    rises = [(c, *drawn_test(rng)) for c in range(1, n) if drawn[c] != (1, 1) and rng.random() < 0.3]
    window = {}
    if rng.random() < 0.3:
        window["partition_by"] = ("k",)
    kind = rng.choice(["none", "none", "within", "within", "within_events", "both"])
    if kind in ("within", "both"):
        window["within"] = values.choice([0, *range(5, 18)])
        window["within_closed"] = rng.random() < 0.7
    if kind in ("within_events", "both"):
        window["within_events"] = values.randint(6, 14)
    if rng.random() < 0.15:
        window["gap_within"] = values.randint(2, 7)
    if rng.random() < 0.15:
        window["strict_time"] = True
    return AnchoredCase(components, links, rises, [], window, anchored=anchored)
