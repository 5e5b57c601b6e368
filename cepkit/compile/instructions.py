"""Terms as instructions on registers, and a regex query as data."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from cepkit.compile.regex_plan import SLOTS, Plan, tables_of
from cepkit.compile.regex_program import Program
from cepkit.compile.shared.loading import are_kernels_ready
from cepkit.compile.shared.term_writing import StateArray, TermWriter
from cepkit.compile.shared.terms import LEAVES, START, Reader, Term
from cepkit.events import FLOAT, TEXT
from cepkit.kernels.records import CODES, COUNT, KEEP, MAX, MIN, OF_FLOATS, REQUIRE, SUM
from cepkit.values import dataclass, field, replace

# Functions that numpy rounds differently from compiled code. Kernels compute them, in this order.
ROUNDED = ("exp", "log", "log2", "log10", "power")
ELEMENTARY = "cepkit.kernels.interpreting"
_EXACT = (
    "abs", "sign", "least", "greatest", "sqrt", "floor", "ceil", "round", "bit_and", "bit_or", "bit_xor"
)  # fmt: skip
_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "negative", "elapsed", "high", "low", "joined")
_TRUTHS = ("not", "and", "or", "never", "always", "truth", "is_null", "compare", "table", "member")


def reading_unsupported(term: Term) -> str | None:
    """Return why a term has no interpretation, to complete "it …", or None."""
    for part in term.walk():
        if part.op == "call":
            return f"calls {part.data}(), a function of the user"
        if part.op in ROUNDED and not are_kernels_ready(ELEMENTARY):
            return f"computes {part.op}(), and the kernels for this are not compiled yet"
        if part.op not in (*LEAVES, *_EXACT, *ROUNDED, *_ARITHMETIC, *_TRUTHS, "constant", "count"):
            return f"uses {part.op!r}"
    return None


# Terms that compare an event with the start of a match, as instructions on registers.

# What an event's value in a register is: a reader's method, and its result as a float or an integer.
VALUE, AS_FLOAT, STORED, TRUE, FALSE, ALL_VALID, ALL_PRESENT, ROW = (
    "value", "as_float", "stored", "true", "false", "all_valid", "all_present", "row"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Register:
    """A register of the kernel that interprets. Its final number is known once all values of events are."""

    kind: str  # "event", "carried", "constant" or "made"
    index: int
    is_float: bool


@dataclass(frozen=True, slots=True)
class EventValue:
    """A value that numpy computes for every event and instructions read."""

    what: str
    term: Term | None
    is_float: bool


class NotInterpretedError(Exception):
    """A term has no instructions; the message completes "it …"."""


@dataclass
class InstructionWriter(Reader):
    """Writes instructions. Values are registers; parts that depend on the event alone come from columns."""

    carried: tuple[Term, ...]  # the values that partial matches carry
    values: dict[EventValue, int] = field(default_factory=dict)
    constants: dict[tuple, int] = field(default_factory=dict)  # (is_float, number or None, value)
    made: int = 0
    lines: list[tuple[int, Register | int, Register, Register]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    # --- values

    def event(self, what: str, term: Term | None, *, is_float: bool = False) -> Register:
        """Return the register of a value that numpy computes for each event."""
        value = EventValue(what, term, is_float)
        return Register("event", self.values.setdefault(value, len(self.values)), is_float)

    def value(self, term: Term) -> Register:
        if term.op == "constant":
            return self.constant(term)
        if term.level < START:
            return self.event(VALUE, term, is_float=term.kind == FLOAT)
        return super().value(term)

    def as_float(self, term: Term) -> Register:
        if term.level < START:
            return self.event(AS_FLOAT, term, is_float=True)
        return super().as_float(term)

    def valid(self, term: Term) -> list[Register]:
        if term.level < START and term.nullable and term.kind != FLOAT and term.op != "constant":
            return [self.event(ALL_VALID, term)]
        return [] if term.level < START else super().valid(term)

    def holds(self, term: Term, wanted: bool) -> Register:
        if term.level < START:
            return self.event(TRUE if wanted else FALSE, term)
        return super().holds(term, wanted)

    def leaf(self, term: Term) -> Register:
        return Register("carried", self.carried.index(term), term.kind == FLOAT)

    def number_of_row(self) -> Register:
        return self.event(ROW, None)

    def constant(self, term: Term) -> Register:
        return self._constant(term.kind == FLOAT, term.data, 0)

    def number(self, value: int) -> Register:
        return self._constant(False, None, value)

    def _constant(self, is_float: bool, number: int | None, value: int) -> Register:
        """Return the register of a constant: of constant ``number`` of the query, or of ``value`` itself."""
        key = is_float, number, value
        return Register("constant", self.constants.setdefault(key, len(self.constants)), is_float)

    def table(self, number: int, code: Register, wanted: bool) -> Register:
        """Raise, because instructions have no tables."""
        raise NotInterpretedError("tests a text that the match began with")

    def member(self, number: int, value: Register, wanted: bool) -> Register:
        """Raise, because instructions have no lists."""
        raise NotInterpretedError("looks for a value of the match in a list")

    # --- instructions

    def apply(self, operation: str, *values: Register) -> Register:
        return self._once(("apply", operation, values), lambda: self._write(operation, values))

    def _write(self, operation: str, values: tuple[Register, ...]) -> Register:
        """Add an instruction, and return the register of its result."""
        if operation not in CODES:
            raise NotInterpretedError(f"computes {operation.split()[0]!r} with values of several events")
        code = CODES[operation]
        target = Register("made", self.made, code in OF_FLOATS)
        self.made += 1
        self.lines.append((code, target, values[0], values[-1]))
        return target

    def require(self, term: Term, mask: int) -> None:
        """Add the instruction that the positions of ``mask`` need a term to be true."""
        held = self.true(term)
        self.lines.append((REQUIRE, mask, held, held))

    # --- the result

    def numbers(self) -> dict[tuple[str, int], int]:
        """Return the number of every register: floats of the event, its integers, then all others."""
        by_kind = sorted(self.values.items(), key=lambda item: not item[0].is_float)
        keys = [("event", index) for _, index in by_kind]
        keys += [("carried", i) for i in range(len(self.carried))]
        keys += [("constant", i) for i in range(len(self.constants))]
        keys += [("made", i) for i in range(self.made)]
        return {key: number for number, key in enumerate(keys)}

    def code(self) -> np.ndarray:
        """Return the instructions, int64, (n_instructions, 4)."""
        number = self.numbers()
        rows = [
            [code, target if isinstance(target, int) else number[target.kind, target.index],
             number[left.kind, left.index], number[right.kind, right.index]]
            for code, target, left, right in self.lines
        ]  # fmt: skip
        return np.array(rows, np.int64).reshape(-1, 4)


# A regex query as data: tables of its automaton, instructions, and what a partial match carries.

_ACTIONS = {"first": KEEP, "count": KEEP, "count_of": COUNT, "sum": SUM, "max": MAX, "min": MIN}


@dataclass(frozen=True)
class RegexCode:
    """A regex query to interpret."""

    program: Program  # the program. Queues are left out; their positions are ordinary ones.
    plan: Plan  # its plan without queues
    code: np.ndarray  # int64, (n_instructions, 4): the conditions that depend on the start of a match
    values: tuple[EventValue, ...]  # what instructions read of an event, floats first
    carried: np.ndarray  # int64, (n_carried, 7): see `cepkit.kernels.records`
    # Per constant: its register, whether it is a float, its number in the query or None, its value.
    constants: tuple[tuple[int, bool, int | None, int], ...]
    n_registers: int  # number of registers

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """The automaton as the kernels read it; see `tables_of`."""
        return tables_of(self.plan)

    @cached_property
    def writer(self) -> TermWriter:
        """The writer of the generated kernel, which numbers constants, tables and earlier values."""
        return TermWriter(self.plan.terms(), {}, (), slots=self.plan.slots, python=False)

    def state_arrays(self) -> tuple[StateArray, ...]:
        """Return the arrays of the state: earlier values, the starts that wait, and what they carry."""
        n_floats = int(self.carried[:, 1].sum())
        numbers = [a for a in self.writer.past_state() if a.name != "ordinal"]
        return (
            StateArray("ordinal", "int64", "partition"), *numbers, StateArray("live", "int64", "partition"),
            StateArray("list_place", "int64", "place", width=2), StateArray("list_start", "int64", "list"),
            StateArray("list_mask", "int64", "list"),
            StateArray("list_floats", "float64", "slots", width=n_floats),
            StateArray("list_integers", "int64", "slots", width=len(self.carried) - n_floats),
        )  # fmt: skip


def regex_code_of(program: Program) -> RegexCode | str:
    """Return ``program`` for interpretation, or why it cannot be interpreted, to complete "it …"."""
    return program.once("code", partial(_regex_code, program))


def _regex_code(program: Program) -> RegexCode | str:
    """Return a program as tables and instructions, or why it cannot be interpreted."""
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
        dependent |= conjunct.mask  # the positions with a test of the match so far
    dominated = sum(
        1 << p
        for p in range(len(automaton.names))
        if not automaton.reachable_from(1 << p) & dependent and not automaton.accepting >> p & 1
    )
    terms = [part for conjunct in plan.start_conjuncts for part in conjunct.term.walk()]
    slots = tuple(dict.fromkeys(part for part in terms if part.op in SLOTS))
    return replace(plan, queues=(), dominated=dominated, slots=slots)


def _carry(writer: InstructionWriter, slot: Term) -> list[Register | int]:
    """Return the row that says how a carried value begins and changes with each event."""
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
