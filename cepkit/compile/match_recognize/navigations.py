"""Navigations of MATCH_RECOGNIZE: the rows that FIRST, LAST, PREV and NEXT read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp


@dataclass(frozen=True, slots=True)
class ReadRow:
    """The row at which a navigation reads ``operand``: ``distance`` rows after a row of a variable.

    ``offset`` is the number of rows of the variable between that row and the first or the last one. With
    ``final`` the last row is that of the whole match.

    """

    operand: ex.Expression
    from_first: bool
    offset: int
    final: bool
    distance: int


def row_read_by(tree: rp.Navigation) -> ReadRow:
    """Return the row that a navigation reads."""
    inner: rp.Navigation | None = tree
    if tree.function in ("prev", "next"):
        inner = tree.operand if isinstance(tree.operand, rp.Navigation) else None
    if inner is None:
        return ReadRow(tree.operand, False, 0, False, distance_of(tree))
    from_first = inner.function == "first"
    return ReadRow(inner.operand, from_first, inner.offset or 0, bool(inner.final), distance_of(tree))


def distance_of(tree: rp.Navigation) -> int:
    """Return how many rows NEXT moves; PREV moves back, and FIRST and LAST do not move."""
    if tree.function not in ("prev", "next"):
        return 0
    distance = 1 if tree.offset is None else tree.offset
    return distance if tree.function == "next" else -distance


def reach_of(trees: Iterable[ex.Expression]) -> tuple[int, int]:
    """Return how many rows PREV looks back and NEXT looks ahead, at most."""
    moves = [distance_of(node) for tree in trees for node in tree.walk() if isinstance(node, rp.Navigation)]
    return -min([0, *moves]), max([0, *moves])
