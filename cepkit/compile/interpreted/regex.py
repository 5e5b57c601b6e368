"""A regex query as data: tables of its automaton, instructions, and what a partial match carries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from cepkit.compile.interpreted.instructions import (
    ALL_PRESENT,
    ROW,
    STORED,
    EventValue,
    InstructionWriter,
    NotInterpretedError,
    Register,
    reading_unsupported,
)
from cepkit.compile.regex.plan import SLOTS, Plan
from cepkit.compile.regex.program import Program
from cepkit.compile.shared.bound_query import START, Term
from cepkit.compile.shared.term_writing import StateArray, TermWriter
from cepkit.events import FLOAT, TEXT
from cepkit.kernels.opcodes import COUNT, KEEP, MAX, MIN, SUM

_ACTIONS = {"first": KEEP, "count": KEEP, "count_of": COUNT, "sum": SUM, "max": MAX, "min": MIN}


@dataclass(frozen=True)
class RegexCode:
    """A regex query to interpret."""

    program: Program  # the program. Queues are left out; their positions are ordinary ones.
    plan: Plan  # its plan without queues
    code: np.ndarray  # int64, (n_instructions, 4): the conditions that depend on the start of a match
    values: tuple[EventValue, ...]  # what instructions read of an event, floats first
    carried: np.ndarray  # int64, (n_carried, 7): see `cepkit.kernels.opcodes`
    # Per constant: its register, whether it is a float, its number in the query or None, its value.
    constants: tuple[tuple[int, bool, int | None, int], ...]
    n_registers: int  # number of registers

    @cached_property
    def masks(self) -> np.ndarray:
        """All positions, the first ones, the accepting ones, and the dominated ones, int64."""
        automaton = self.plan.automaton
        every = (1 << len(automaton.names)) - 1
        return np.array([every, automaton.first, automaton.accepting, self.plan.dominated], np.int64)

    @cached_property
    def follow(self) -> np.ndarray:
        """The successors of every byte of a mask, int64, (n_bytes, 256)."""
        follow = self.plan.automaton.follow
        table = np.zeros((-(-len(follow) // 8), 256), np.int64)
        byte = np.arange(256)
        for p, successors in enumerate(follow):
            table[p // 8] |= np.where(byte >> (p % 8) & 1, successors, 0)
        return table

    @cached_property
    def writer(self) -> TermWriter:
        """The writer of the generated kernel, which numbers constants, tables and earlier values."""
        return TermWriter(self.plan.terms(), {}, (), slots=self.plan.slots, python=False)

    def state_arrays(self) -> tuple[StateArray, ...]:
        """Return the layout of the state."""
        n_floats = int(self.carried[:, 1].sum())
        numbers = [a for a in self.writer.past_state() if a.name != "ordinal"]
        return (
            StateArray("ordinal", "int64", "partition"),
            *numbers,
            StateArray("live", "int64", "partition"),
            StateArray("list_start", "int64", "list"),
            StateArray("list_mask", "int64", "list"),
            StateArray("list_floats", "float64", "slots", width=n_floats),
            StateArray("list_integers", "int64", "slots", width=len(self.carried) - n_floats),
        )


def regex_code_of(program: Program) -> RegexCode | str:
    """Return ``program`` for interpretation, or why it cannot be interpreted, to complete "it …"."""
    return program.once("code", partial(_regex_code, program))


def _regex_code(program: Program) -> RegexCode | str:
    if not program.compiled or program.functions:
        return "calls functions of the user"
    for term in program.terms():
        if reason := reading_unsupported(term):
            return reason
    plan = without_queues(program.plan)
    carried = plan.slots
    writer = InstructionWriter(carried)
    try:
        for conjunct in plan.start_conjuncts:
            writer.require(conjunct.term, conjunct.mask)
        rows = [_carry(writer, slot) for slot in carried]
    except NotInterpretedError as error:
        return str(error)
    number = writer.numbers()
    table = [
        [value if not isinstance(value, Register) else number[value.kind, value.index] for value in row]
        for row in rows
    ]
    constants = [(number["constant", index], *constant) for constant, index in writer.constants.items()]
    values = sorted(writer.values, key=lambda value: not value.is_float)
    return RegexCode(
        program, plan, writer.code(), tuple(values), np.array(table, np.int64).reshape(-1, 7),
        tuple(constants), max(1, len(number)),
    )  # fmt: skip


def without_queues(plan: Plan) -> Plan:
    """Return the plan with ordinary positions in place of queues."""
    if not plan.queues:
        return plan
    automaton, dependent = plan.automaton, 0
    for conjunct in plan.start_conjuncts:
        dependent |= conjunct.mask
    dominated = sum(
        1 << p
        for p in range(len(automaton.names))
        if not automaton.reachable_from(1 << p) & dependent and not automaton.accepting >> p & 1
    )
    terms = [part for conjunct in plan.start_conjuncts for part in conjunct.term.walk()]
    slots = tuple(dict.fromkeys(part for part in terms if part.op in SLOTS))
    return replace(plan, queues=(), dominated=dominated, slots=slots)


def _carry(writer: InstructionWriter, slot: Term) -> list[Register | int]:
    """Return the row of a carried value."""
    is_float = slot.kind == FLOAT
    carried = writer.leaf(slot)
    if slot.op == "count":
        return [KEEP, 0, carried, writer.event(ROW, None), -1, 0, 0]
    (arg,) = slot.args
    assert arg.level < START
    present = writer.event(ALL_PRESENT, arg) if arg.nullable or arg.kind == FLOAT else -1
    value = writer.event(STORED, arg, is_float=is_float)
    if slot.op == "count_of":
        value = writer.number(1) if present == -1 else present
    return [
        _ACTIONS[slot.op], int(is_float), carried, value, present, int(slot.nullable),
        int(slot.kind == TEXT),
    ]  # fmt: skip
