"""Terms that compare an event with the start of a match, as instructions on registers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cepkit.compile.interpreted.reading import Reader
from cepkit.compile.shared.terms import START, Term
from cepkit.events import FLOAT
from cepkit.kernels.opcodes import CODES, OF_FLOATS, REQUIRE

# What an event's value in a register is: a reader's method, and its result as a float or an integer.
VALUE, AS_FLOAT, STORED, TRUE, FALSE, ALL_VALID, ALL_PRESENT, ROW = (
    "value", "as_float", "stored", "true", "false", "all_valid", "all_present", "row"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Register:
    """A place for one number. ``number`` is final once all values of events are known."""

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
        """Return the register of a value of the event."""
        value = EventValue(what, term, is_float)
        return Register("event", self.values.setdefault(value, len(self.values)), is_float)

    def value(self, term: Term) -> Register:
        """Return the register of a term's value."""
        if term.op == "constant":
            return self.constant(term)
        if term.level < START:
            return self.event(VALUE, term, is_float=term.kind == FLOAT)
        return super().value(term)

    def as_float(self, term: Term) -> Register:
        """Return the register of a term's value as a float."""
        if term.level < START:
            return self.event(AS_FLOAT, term, is_float=True)
        return super().as_float(term)

    def valid(self, term: Term) -> list[Register]:
        """Return the registers of truths that must hold for a value not to be null."""
        if term.level < START and term.nullable and term.kind != FLOAT and term.op != "constant":
            return [self.event(ALL_VALID, term)]
        return [] if term.level < START else super().valid(term)

    def holds(self, term: Term, wanted: bool) -> Register:
        """Return the register of a truth."""
        if term.level < START:
            return self.event(TRUE if wanted else FALSE, term)
        return super().holds(term, wanted)

    def leaf(self, term: Term) -> Register:
        """Return the register of a value that the partial match carries."""
        return Register("carried", self.carried.index(term), term.kind == FLOAT)

    def number_of_row(self) -> Register:
        """Return the register of the event's number in its partition."""
        return self.event(ROW, None)

    def constant(self, term: Term) -> Register:
        """Return the register of a constant of the query."""
        return self._constant(term.kind == FLOAT, term.data, 0)

    def number(self, value: int) -> Register:
        """Return the register of an integer."""
        return self._constant(False, None, value)

    def _constant(self, is_float: bool, number: int | None, value: int) -> Register:
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
        """Write an instruction and return the register of its result."""
        return self._once(("apply", operation, values), lambda: self._write(operation, values))

    def _write(self, operation: str, values: tuple[Register, ...]) -> Register:
        if operation not in CODES:
            raise NotInterpretedError(f"computes {operation.split()[0]!r} with values of several events")
        code = CODES[operation]
        target = Register("made", self.made, code in OF_FLOATS)
        self.made += 1
        self.lines.append((code, target, values[0], values[-1]))
        return target

    def require(self, term: Term, mask: int) -> None:
        """Write that the positions of ``mask`` need a term to be true."""
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
