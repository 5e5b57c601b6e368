"""Terms as instructions on registers, whose meaning a `Reader` tells once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cepkit.compile.shared.bound_query import START, Term
from cepkit.compile.shared.loading import are_kernels_ready
from cepkit.compile.shared.term_writing import may_precede_all
from cepkit.events import BOOLEAN, DURATION, FLOAT, NULL_INTEGER, OTHER, TEXT, TIME
from cepkit.kernels.opcodes import CODES, OF_FLOATS, REQUIRE

# The meaning of terms for interpretation, told once: a `Reader` asks its subclass for every operation.
#
# The same terms become columns (`columns.py`) or instructions (`instructions.py`). Both follow the generated
# code of `cepkit.compile.shared.term_writing`, which has the same structure.

LEAVES = ("column", "previous", "first", "count_of", "sum", "max", "min", "element", "group")
_FLIP = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
# Functions that numpy rounds differently from compiled code. Kernels compute them, in this order.
ROUNDED = ("exp", "log", "log2", "log10", "power")
ELEMENTARY = "cepkit.kernels.elementary"
_EXACT = (
    "abs",
    "sign",
    "least",
    "greatest",
    "sqrt",
    "floor",
    "ceil",
    "round",
    "bit_and",
    "bit_or",
    "bit_xor",
)
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


class Reader(ABC):
    """Reads values and truths of terms. What a value is, depends on the subclass."""

    def __init__(self) -> None:
        self._known: dict[tuple, Any] = {}

    @abstractmethod
    def leaf(self, term: Term) -> Any:
        """Return the value of a leaf; null is its special value."""

    @abstractmethod
    def constant(self, term: Term) -> Any:
        """Return the value of a constant of the query."""

    @abstractmethod
    def number(self, value: int) -> Any:
        """Return an integer of the reader, or a truth as 0 or 1."""

    @abstractmethod
    def table(self, number: int, code: Any, wanted: bool) -> Any:
        """Return whether the entry of a code in a table is ``wanted``."""

    @abstractmethod
    def member(self, number: int, value: Any, wanted: bool) -> Any:
        """Return whether a value is in a sorted table, or is known and not in it. NaN is neither."""

    @abstractmethod
    def apply(self, operation: str, *values: Any) -> Any:
        """Return the result of an operation, such as ``+ floats``, ``< integers`` or ``and``."""

    # --- values

    def value(self, term: Term) -> Any:
        """Return the value of a term; it means nothing where `valid` does not hold."""
        return self._once(("value", term), lambda: self._value(term))

    def as_float(self, term: Term) -> Any:
        """Return the value as a float; null is NaN."""
        if term.kind == FLOAT:
            return self.value(term)
        value, truths = self.apply("to float", self.value(term)), self.valid(term)
        return self.apply("float or nan", value, self.all(truths)) if truths else value

    def stored(self, term: Term) -> Any:
        """Return the value; null is its special value."""
        value, truths = self.value(term), self.valid(term)
        if term.kind == FLOAT or term.op in ("column", "previous", "first", "min", "max") or not truths:
            return value
        if term.kind in (TEXT, BOOLEAN):
            return value  # a code below zero is null already
        return self.apply("integer or null", value, self.all(truths))

    def _once(self, key: tuple, make) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _value(self, term: Term) -> Any:
        op, args, kind = term.op, term.args, "floats" if term.kind == FLOAT else "integers"
        if op in LEAVES:
            return self.leaf(term)
        if op == "constant":
            return self.constant(term)
        if op == "truth":
            return self.number(term.data)
        if op == "count":
            return self.apply("- integers", self.number_of_row(), self.leaf(term))
        if term.kind == BOOLEAN:
            return self.apply("truth code", self.true(term), self.false(term))
        parts = [self.as_float(arg) if term.kind == FLOAT else self.value(arg) for arg in args]
        if op == "joined":
            high = self.apply("* floats", parts[0], self.apply("to float", self.number(2**32)))
            return self.apply("+ floats", high, parts[1])
        if op in ("+", "-", "elapsed") and term.kind in (TIME, DURATION):
            op, kind = "+" if op == "+" else "-", "times"
        whole = parts[0]
        if len(parts) == 1:
            return self.apply(f"{op} {kind}", whole)
        for part in parts[1:]:
            whole = self.apply(f"{op} {kind}", whole, part)
        return whole

    def number_of_row(self) -> Any:
        """Return the number of the event in its partition."""
        raise TypeError("this reader has no numbers of rows")

    # --- null

    def valid(self, term: Term) -> list[Any]:
        """Return the truths that must hold for a value not to be null; none for floats."""
        if term.kind == FLOAT or not term.nullable or term.op in ("constant", "truth", "count", "count_of"):
            return []
        if term.kind in (TEXT, BOOLEAN, OTHER):
            return [self.apply(">= integers", self.value(term), self.number(0))]
        if may_precede_all(term):
            return [self.apply(">= integers", self.number_of_row(), self.number(term.data))]
        if term.op in LEAVES:
            return [self.apply("!= integers", self.value(term), self.number(NULL_INTEGER))]
        truths = [truth for arg in term.args for truth in self.valid(arg)]
        if term.op in ("//", "%"):
            truths.append(self.apply("!= integers", self.value(term.args[1]), self.number(0)))
        return truths

    def present(self, term: Term) -> list[Any]:
        """Return the truths that must hold for a value not to be missing; NaN is missing, too."""
        x = self.value(term)
        return [*self.valid(term), *([self.apply("== floats", x, x)] if term.kind == FLOAT else [])]

    def all(self, truths: Iterable[Any]) -> Any:
        """Return the conjunction of truths."""
        whole = None
        for truth in truths:
            whole = truth if whole is None else self.apply("and", whole, truth)
        return self.number(1) if whole is None else whole

    # --- truth

    def true(self, term: Term) -> Any:
        """Return where a term is true."""
        return self._once(("true", term), lambda: self.holds(term, True))

    def false(self, term: Term) -> Any:
        """Return where a term is false, and not null."""
        return self._once(("false", term), lambda: self.holds(term, False))

    def holds(self, term: Term, wanted: bool) -> Any:
        """Return where a term is true, or where it is false."""
        op, args = term.op, term.args
        if op == "not":
            return self.holds(args[0], not wanted)
        if op in ("and", "or"):
            parts = [self.true(arg) if wanted else self.false(arg) for arg in args]
            whole = parts[0]
            for part in parts[1:]:
                whole = self.apply("and" if (op == "and") == wanted else "or", whole, part)
            return whole
        if op in ("never", "always"):
            return self.number(int((op == "always") == wanted and op != "never"))
        if op == "truth":
            return self.number(int(bool(term.data) == wanted))
        if op == "is_null":
            present = self.all(self.present(args[0]))
            return self.apply("== integers", present, self.number(int(not wanted)))
        if op == "compare":
            return self._compare(term, wanted)
        if op == "table":
            held = self.table(term.data, self.value(args[0]), wanted)
            return self.all([*self.valid(args[0]), held])
        if op == "member":
            held = self.member(term.data, self.value(args[0]), wanted)
            return self.all([*self.valid(args[0]), held])
        return self.apply("== integers", self.value(term), self.number(int(wanted)))

    def _compare(self, term: Term, wanted: bool) -> Any:
        left, right = term.args
        sign = term.data if wanted else _FLIP[term.data]
        left_value, right_value = self.value(left), self.value(right)
        kinds = {left.kind, right.kind}
        if FLOAT in kinds and len(kinds) == 2:
            left_value = self.apply("to float", left_value) if left.kind != FLOAT else left_value
            right_value = self.apply("to float", right_value) if right.kind != FLOAT else right_value
        held = self.apply(f"{sign} {'floats' if FLOAT in kinds else 'integers'}", left_value, right_value)
        return self.all([*self.valid(left), *self.valid(right), held])


# Terms that compare an event with the start of a match, as instructions on registers.

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
