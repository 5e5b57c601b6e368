"""Conditions on three or more single events as instructions on registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from cepkit.compile.interpreted.instructions import EventValue, NotInterpretedError, Register
from cepkit.compile.interpreted.pairs import FLIP, OPPOSITE
from cepkit.compile.interpreted.reading import reading_unsupported
from cepkit.compile.interpreted.walk import PathInstructions
from cepkit.compile.shared.terms import Term
from cepkit.events import FLOAT


@dataclass(frozen=True, slots=True)
class JointComparison:
    """``one sign result``: a value of the event that is bound last, and a register of the other events."""

    one: Term  # the value
    sign: str  # the comparison
    # result, known: the registers of the value that it is compared with, and of the truth that this is not
    # null
    result: int
    known: int
    as_floats: bool  # whether floats are compared


@dataclass(frozen=True, slots=True)
class JointTest:
    """A condition on several events."""

    # Per value of an event: the value, its register, and the level of the event.
    values: tuple[tuple[EventValue, int, int], ...]
    # Per constant: its register, whether it is a float, its number in the query or None, its value.
    constants: tuple[tuple[int, bool, int | None, int], ...]
    n_registers: int  # number of registers
    # int64, (n_instructions, 4): the instructions; see `cepkit.kernels.opcodes`. They require the condition,
    # or compute the result of the comparison.
    code: np.ndarray
    level: int  # the level that binds the last of the events
    # The condition, if it compares a value of the last event with a value of the events before.
    comparison: JointComparison | None


def joint_test_of(term: Term, level_of: Callable[[Term], int]) -> JointTest | str:
    """Return the test of a condition, or why there is none, to complete "it …".

    ``level_of`` returns the level that binds the event of a leaf.

    """
    if reason := reading_unsupported(term):
        return reason
    level = max(_levels([term], level_of))
    writer, compared = PathInstructions(), _compared(term, level, level_of)
    result = known = None
    try:
        if compared is None:
            writer.require(term, 1)
        else:
            result, known = _write_result(writer, *compared)
    except NotInterpretedError as error:
        return str(error)
    leaves = writer.leaf_of_value
    if writer.carried or any(leaf.op != "element" for leaf in leaves.values()):
        return "compares values of more than two events, and one event may be missing"
    number = writer.numbers()
    values = [(value, number["event", i], level_of(leaves[i])) for value, i in writer.values.items()]
    constants = [
        (number["constant", i], is_float, of, value) for (is_float, of, value), i in writer.constants.items()
    ]
    comparison = None
    if compared is not None:
        one, sign, other = compared
        registers = (number[register.kind, register.index] for register in (result, known))
        comparison = JointComparison(one, sign, *registers, _as_floats(one, other))
    return JointTest(tuple(values), tuple(constants), len(number), writer.code(), level, comparison)


def _levels(terms: Iterable[Term], level_of: Callable[[Term], int]) -> set[int]:
    return {level_of(leaf) for term in terms for leaf in term.walk() if leaf.op in ("element", "group")}


def _compared(term: Term, level: int, level_of: Callable[[Term], int]) -> tuple[Term, str, Term] | None:
    """Return ``one sign other``, where only ``one`` reads the event of this level; None for other terms."""
    wanted = True
    while term.op == "not":
        term, wanted = term.args[0], not wanted
    if term.op != "compare":
        return None
    left, right = term.args
    sign = term.data if wanted else FLIP[term.data]
    if level in _levels([right], level_of):
        left, right, sign = right, left, OPPOSITE[sign]
    if _levels([left], level_of) != {level} or level in _levels([right], level_of):
        return None
    return left, sign, right


def _as_floats(one: Term, other: Term) -> bool:
    return FLOAT in (one.kind, other.kind)


def _write_result(writer: PathInstructions, one: Term, sign: str, other: Term) -> tuple[Register, Register]:
    """Write the instructions for a value, and return the registers of it and of whether it is known."""
    value = writer.value(other)
    if _as_floats(one, other) and other.kind != FLOAT:
        value = writer.apply("to float", value)
    return value, writer.all(writer.valid(other))
