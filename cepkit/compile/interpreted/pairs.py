"""Conditions between two events as tests: a number of one event lies in an interval that the other gives.

A test works on 64-bit numbers in the order of the values: integers as they are, and floats as their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from cepkit.compile.interpreted.columns import ColumnReader
from cepkit.compile.interpreted.reading import reading_unsupported
from cepkit.compile.shared.terms import Term, conjuncts_of
from cepkit.events import FLOAT, LIST

OPPOSITE = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
FLIP = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_HIGHEST, _ALL = np.iinfo(np.int64).max, np.uint64(2**64 - 1)
EITHER, VECTOR, SCALAR = "either", "vector", "scalar"


@dataclass(frozen=True, slots=True)
class PairTest:
    """``one sign other``, where ``one`` reads the event of the vector side and ``other`` the scalar side.

    Without ``other``, the truth ``one`` reads a single event, that of ``side``.

    """

    one: Term
    sign: str = ""
    other: Term | None = None
    side: str = VECTOR
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Tests:
    """Tests on numbers: row t reads ``numbers[t]`` of the vector side, and ``low[t]``, ``width[t]``.

    ``alive`` says for which events of the scalar side any event can pass; None for all.

    """

    numbers: list[np.ndarray]  # uint64, (n_vector,)
    low: list[np.ndarray]  # uint64, (n_scalar,)
    width: list[np.ndarray]
    alive: np.ndarray | None


def pair_tests_of(terms: Iterable[Term], is_vector: Callable[[Term], bool]) -> tuple[PairTest, ...] | str:
    """Return the tests of conditions, or why there are none, to complete "it …"."""
    tests = []
    for term in (conjunct for whole in terms for conjunct in conjuncts_of(whole)):
        if reason := reading_unsupported(term):
            return reason
        wanted = True
        while term.op == "not":
            term, wanted = term.args[0], not wanted
        side = _side(term, is_vector)
        if side is not None:
            tests.append(PairTest(term, side=SCALAR if side == EITHER else side, wanted=wanted))
            continue
        sides = [_side(arg, is_vector) for arg in term.args]
        if term.op != "compare" or None in sides:
            return "compares values that mix two events"
        left, right = term.args
        sign = term.data if wanted else FLIP[term.data]
        if sides[0] == SCALAR:
            left, right, sign = right, left, OPPOSITE[sign]
        tests.append(PairTest(left, sign, right))
    return tuple(tests)


def tests_by_side(
    terms: Iterable[Term], side_of: Callable[[Term], int]
) -> dict[tuple[int, int], tuple[PairTest, ...]] | str:
    """Return the tests between events of several sides, or why there are none, to complete "it …"."""
    found: dict[tuple[int, int], tuple[PairTest, ...]] = {}
    for term in (conjunct for whole in terms for conjunct in conjuncts_of(whole)):
        leaves = (leaf for leaf in term.walk() if leaf.op in ("element", "group"))
        sides = sorted({side_of(leaf) for leaf in leaves}) or [0]
        if len(sides) > 2:
            return "compares values of more than two events"
        tests = pair_tests_of([term], lambda leaf, vector=sides[-1]: side_of(leaf) == vector)
        if isinstance(tests, str):
            return tests
        key = sides[-1], sides[0]
        found[key] = found.get(key, ()) + tests
    return found


def _side(term: Term, is_vector: Callable[[Term], bool]) -> str | None:
    """Return the side that a term reads, or None if it reads both."""
    leaves = [leaf for leaf in term.walk() if leaf.op in ("element", "group")]
    if any(leaf.op == "group" or leaf.kind == LIST for leaf in leaves):
        return None
    sides = {VECTOR if is_vector(leaf) else SCALAR for leaf in leaves}
    return None if len(sides) > 1 else sides.pop() if sides else EITHER


def numbers_of(
    tests: Iterable[PairTest], vector: ColumnReader, scalar: ColumnReader, sizes: tuple[int, int]
) -> Tests:
    """Compute the numbers that tests compare; ``sizes`` are the numbers of events of the two sides."""
    made = Tests([], [], [], None)
    alive: list[np.ndarray] = []
    for test in tests:
        if test.other is None:
            reader, size = (vector, sizes[0]) if test.side == VECTOR else (scalar, sizes[1])
            holds = np.broadcast_to(reader.true(test.one) if test.wanted else reader.false(test.one), size)
            if test.side == SCALAR:
                alive.append(holds)
            elif not holds.all():
                _add(made, holds.astype(np.int64), np.full(sizes[1], 1), np.full(sizes[1], 1))
            continue
        as_floats = FLOAT in (test.one.kind, test.other.kind)
        one, known = ordered_numbers(vector, test.one, as_floats, sizes[0])
        other, other_known = ordered_numbers(scalar, test.other, as_floats, sizes[1])
        if not known.all():
            _add(made, known.astype(np.int64), np.full(sizes[1], 1), np.full(sizes[1], 1))
        low, high, possible = _interval(test.sign, other)
        alive += [part for part in (other_known, possible) if not part.all()]
        _add(made, one, low, high)
    return Tests(made.numbers, made.low, made.width, np.logical_and.reduce(alive) if alive else None)


def _add(tests: Tests, numbers: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Add the test that numbers lie from low to high; an interval may pass the highest number."""
    low, high = (
        low.astype(np.int64, copy=False).view(np.uint64),
        high.astype(np.int64, copy=False).view(np.uint64),
    )
    tests.numbers.append(np.ascontiguousarray(numbers, np.int64).view(np.uint64))
    tests.low.append(low)
    tests.width.append(high - low)


def _interval(sign: str, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the lowest and highest numbers x for which ``x sign y``, and where any exists."""
    lowest, highest = np.full(len(y), -_HIGHEST - 1), np.full(len(y), _HIGHEST)
    every = np.ones(len(y), np.bool_)
    if sign == "==":
        return y, y, every
    if sign == "!=":
        return y + 1, y - 1, every  # around the highest number
    if sign == "<":
        return lowest, y - 1, y != lowest
    if sign == "<=":
        return lowest, y, every
    if sign == ">":
        return y + 1, highest, y != highest
    return y, highest, every


def ordered_numbers(
    reader: ColumnReader, term: Term, as_floats: bool, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return values as 64-bit integers of the same order, and where they are known."""
    value = reader.value(term)
    known = np.broadcast_to(reader.all(reader.valid(term)), size)
    if not as_floats:
        return np.broadcast_to(value, size).astype(np.int64), known.astype(np.bool_)
    value = np.broadcast_to(value, size).astype(np.float64) + 0.0  # -0.0 becomes 0.0
    bits = value.view(np.int64)
    ordered = np.where(bits < 0, bits ^ _HIGHEST, bits)
    return ordered, known.astype(np.bool_) & (value == value)
