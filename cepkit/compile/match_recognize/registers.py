"""Conditions on the rows of a match so far as instructions on registers, for the kernel `search_rows`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.compiled import Compiled, ReadRow, all_of
from cepkit.compile.match_recognize.set_tables import Transitions
from cepkit.compile.match_recognize.vectors import (
    EXACT,
    LARGEST,
    NotVectorizedError,
    Vector,
    VectorReader,
    check_bound,
    vector_of_value,
)
from cepkit.compile.shared.row_automaton import RowAutomaton
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, NULL_INTEGER, TEXT, TIME, ColumnType
from cepkit.kernels import row_codes as op
from cepkit.kernels.row_codes import FIRST_LABEL, FIRST_PLACE, HERE, LAST_LABEL, LAST_PLACE, MATCH, RowMachine
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.printing import print_sql
from cepkit.values import dataclass, field

MOST_REGISTERS = 48
_SIGNS = ("==", "!=", "<", "<=", ">", ">=")
_OF_FLOATS = {"+": op.ADD_FLOATS, "-": op.SUBTRACT_FLOATS, "*": op.MULTIPLY_FLOATS, "/": op.DIVIDE_FLOATS,
              "%": op.REMAINDER_OF_FLOATS}  # fmt: skip
_OF_INTEGERS = {"+": op.ADD_INTEGERS, "-": op.SUBTRACT_INTEGERS, "*": op.MULTIPLY_INTEGERS,
                "//": op.DIVIDE_INTEGERS, "%": op.REMAINDER_OF_INTEGERS}  # fmt: skip
_TOTALS = {"sum": (op.SUM_INTEGERS, op.SUM_FLOATS), "min": (op.MIN_INTEGERS, op.MIN_FLOATS),
           "max": (op.MAX_INTEGERS, op.MAX_FLOATS)}  # fmt: skip
_MOST_FLOAT = 1e300  # sums and products up to here are numbers, neither infinite nor NaN
Members = Mapping[str, frozenset[str]]


class NoRegistersError(Exception):
    """A condition has no instructions; the message says what it does."""


def is_nearby(term: Compiled, name: str, members: Members) -> bool:
    """Return whether a part of the condition of a variable depends on nearby rows alone."""
    if term.op == "column":
        return term.data[1] is None or name in members[term.data[1]]
    if term.op in ("total", "label", "number", "timed out"):
        return False
    if term.op == "navigation" and (term.data[0].from_first or term.data[0].offset or term.data[0].final):
        return False
    return all(is_nearby(part, name, members) for part in term.parts)


def _key(term: Compiled) -> Any:
    """Return what is the same for conditions that are equal on nearby rows, whatever variables they name."""
    if term.op == "column":
        return term.data[0]
    if term.is_constant:
        return repr(term.call(None, -1)), term.type
    if not term.op:
        return repr(term.tree), tuple(map(_key, term.parts))
    data = {"navigation": lambda: term.data[0].distance, "call": lambda: term.data[0]}
    return term.op, data.get(term.op, lambda: repr(term.data))(), tuple(map(_key, term.parts))


class TypesOnly:
    """Reads no rows: the vectors have types and no values."""

    def value(self, term: Compiled, at: Any) -> Vector:
        """Return a constant, or no values of the type of an expression."""
        if term.is_constant:
            return Vector(term.call(None, -1), term.type)
        dtype = {FLOAT: np.float64, BOOLEAN: np.bool_}.get(term.type.kind, np.int64)
        return Vector(np.empty(0, dtype), term.type, texts=np.empty(0, object))

    def holds(self, term: Compiled, wanted: bool, at: Any) -> np.ndarray:
        return np.empty(0, bool)


@dataclass(frozen=True, slots=True)
class _Slot:
    """A number that an instruction reads or writes: its place, and a vector with its type and bound."""

    number: int
    vector: Vector

    @property
    def is_float(self) -> bool:
        return self.vector.type.kind == FLOAT


@dataclass(frozen=True, slots=True)
class _Register:
    """A value that the kernel keeps over the rows of a match, such as the last row of a variable."""

    rule: int
    argument: int  # the register before it, or -1; the number of a column for totals
    names: frozenset[str] | None  # the variables whose rows change it; None: all


@dataclass
class RegisterWriter:
    """Writes the conditions of a query as instructions, and collects what they read."""

    # ``nearby`` has the conditions on nearby rows whose bits the kernel reads, and the truth of each bit.

    members: Members
    names: tuple[str, ...]  # the variables
    rows: VectorReader | TypesOnly
    longest: int  # the most rows of a partition
    nearby: dict[Any, tuple[Compiled, bool]] = field(default_factory=dict)
    registers: dict[_Register, None] = field(default_factory=dict)
    floats: dict[Any, np.ndarray] = field(default_factory=dict)
    integers: dict[Any, np.ndarray] = field(default_factory=dict)
    constants: dict[int, int] = field(default_factory=dict)  # the bits of a slot
    _vectors: dict[Any, Vector] = field(default_factory=dict)
    _code: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    _slots: dict[tuple, int] = field(default_factory=dict)  # of equal instructions of a condition
    _n_slots: int = 0
    _variable: str = ""

    def __post_init__(self) -> None:
        self._labels = np.array(self.names, object)

    # --- conditions

    def condition(self, name: str, term: Compiled) -> tuple[int | None, list[tuple]]:
        """Return the number of the part of a condition on nearby rows, if any, and instructions."""
        parts = term.parts if term.op == "and" else [term]
        is_near = [is_nearby(part, name, self.members) for part in parts]
        near = [part for part, part_is_near in zip(parts, is_near, strict=True) if part_is_near]
        self._variable, self._code, self._slots = name, [], {}
        bit = None
        if near:
            bit = self._bit(near[0] if len(near) == 1 else all_of(near))
        for part, part_is_near in zip(parts, is_near, strict=True):
            if not part_is_near:
                self._require(part)
        return bit, self._code

    def _bit(self, term: Compiled, wanted: bool = True) -> int:
        """Return the number of the bit with the truth of a condition on nearby rows."""
        key = _key(term), wanted
        self.nearby.setdefault(key, (term, wanted))
        return [*self.nearby].index(key)

    def _require(self, term: Compiled) -> None:
        """Write the instructions that demand a condition to be true."""
        if term.op == "and":
            for part in term.parts:
                self._require(part)
            return
        slot = self._truth(term, True)
        if self._code and self._code[-1][op.SLOT] == slot:
            last = self._code.pop()
            self._code.append((last[0], op.REQUIRED, *last[2:]))
            self._slots = {key: number for key, number in self._slots.items() if number != slot}
        else:
            self._code.append((op.AND, op.REQUIRED, slot, slot, 0))

    def _truth(self, term: Compiled, wanted: bool) -> int:
        """Return the slot of whether a condition is ``wanted``, and not unknown."""
        if is_nearby(term, self._variable, self.members):
            return self._write(op.LOAD_BIT, self._bit(term, wanted), 0)
        parts = term.parts
        match term.op:
            case "and" | "or":
                join = op.AND if (term.op == "and") is wanted else op.OR
                return self._joined(join, [self._truth(part, wanted) for part in parts])
            case "not":
                return self._truth(parts[0], not wanted)
            case "is true":
                return self._unless(wanted, self._truth(parts[0], term.data))
            case "is null":
                return self._unless(wanted, self._is_null(self._value(parts[0])))
            case "compare":
                sign = term.data if wanted else ex.NEGATED[term.data]
                return self._compared(sign, self._value(parts[0]), self._value(parts[1]))
            case "is distinct":
                first, second = self._value(parts[0]), self._value(parts[1])
                nulls = [self._is_null(side) for side in (first, second)]
                differs = self._write(op.COMPARE_INTEGERS + 1, *nulls)
                either = self._joined(op.OR, [differs, self._compared("!=", first, second)])
                return self._unless(wanted, either)
            case "in" | "among":
                item, sign = self._value(parts[0]), "==" if wanted else "!="
                options = map(self._value, parts[1:])
                if term.op == "among":
                    options = (self._constant_slot(vector_of_value(value)) for value in term.data)
                truths = [self._compared(sign, item, option) for option in options]
                return self._joined(op.OR if wanted else op.AND, truths)
        value = self._value(term)
        if value.vector.type.kind != BOOLEAN:
            raise self._refused(term)
        return self._write(op.COMPARE_INTEGERS, value.number, self._constant(int(wanted)))

    def _joined(self, join: int, truths: Sequence[int]) -> int:
        """Return the slot of truths that instruction ``join``, AND or OR, puts together."""
        whole, *others = truths
        for other in others:
            whole = self._write(join, whole, other)
        return whole

    def _unless(self, wanted: bool, truth: int) -> int:
        """Return the slot of a truth, or of its opposite if it is not ``wanted``."""
        return truth if wanted else self._write(op.NOT, truth, truth)

    def _is_null(self, value: _Slot) -> int:
        """Return the slot of whether a value is null."""
        code = op.IS_NULL_FLOAT if value.is_float else op.IS_NULL_INTEGER
        return self._write(code, value.number, value.number)

    def _compared(self, sign: str, left: _Slot, right: _Slot) -> int:
        """Return the slot of whether a comparison holds."""
        kinds = {left.vector.type.kind, right.vector.type.kind}
        code = op.COMPARE_INTEGERS
        if TEXT in kinds or BOOLEAN in kinds:
            if len(kinds) > 1 or sign not in ("==", "!="):
                raise NotVectorizedError
            if TEXT in kinds:
                left, right = self._in_codes(left, right)
        elif FLOAT in kinds:
            left, right, code = self._as_float(left), self._as_float(right), op.COMPARE_FLOATS
        elif not (left.vector.is_whole and right.vector.is_whole):
            raise NotVectorizedError
        return self._write(code + _SIGNS.index(sign), left.number, right.number)

    def _in_codes(self, left: _Slot, right: _Slot) -> tuple[_Slot, _Slot]:
        """Return two texts as codes of the same texts; -2 is a text that is not among them."""
        if left.vector.is_one and not right.vector.is_one:
            right, left = self._in_codes(right, left)
            return left, right
        texts = left.vector.texts
        if left.vector.is_one or texts is None or len(set(texts)) < len(texts):
            raise NotVectorizedError
        if right.vector.is_one:
            code = [*texts].index(right.vector.values) if right.vector.values in set(texts) else -2
            return left, _Slot(self._constant(code), left.vector)
        if right.vector.texts is not texts:
            raise NotVectorizedError
        return left, right

    # --- values

    def _value(self, term: Compiled) -> _Slot:
        """Return the slot of the value of an expression."""
        if is_nearby(term, self._variable, self.members):
            return self._loaded(term, HERE, 0)
        parts = term.parts
        match term.op:
            case "column" | "label":
                variable = term.data[1] if term.op == "column" else term.data
                return self._navigated(term, term, ReadRow(False, 0, False, 0), variable)
            case "navigation":
                return self._navigated(term, parts[0], *term.data)
            case "total":
                return self._total(term)
            case "number":
                return self._read(
                    _Register(op.STAYS, op.NUMBER_AT, frozenset()), ColumnType(INTEGER), LARGEST
                )
            case "compute":
                return self._computed(term, self._value(parts[0]), self._value(parts[1]))
            case "negative":
                return self._of_sign(term, self._value(parts[0]), op.NEGATE_INTEGER, op.NEGATE_FLOAT)
            case "call" if term.data[0] == "abs":
                return self._of_sign(term, self._value(parts[0]), op.ABS_INTEGER, op.ABS_FLOAT)
        raise self._refused(term)

    def _refused(self, term: Compiled) -> Exception:
        """Return the error for an expression that instructions cannot compute."""
        if term.tree is None:  # such as a column in another unit
            return NotVectorizedError()
        return NoRegistersError(
            f"the kernels cannot compute {print_sql(term.tree)} over the rows of the match so far"
        )

    def _navigated(self, term: Compiled, operand: Compiled, read: ReadRow, variable: str | None) -> _Slot:
        """Return the slot of an expression at the row of a variable that ``read`` describes."""
        offset, first, distance = read.offset, read.from_first, read.distance
        if read.final or any(node.op in ("navigation", "total") for node in operand.walk()):
            raise self._refused(term)
        is_here = not first and (variable is None or self._variable in self.members[variable])
        if operand.op == "label":
            if distance:
                if distance > 0 or not is_here or (variable is not None and offset):
                    raise self._refused(term)
                variable, offset = None, offset - distance
            register = self._nth(FIRST_LABEL if first else LAST_LABEL, variable, offset)
            return self._read(register, ColumnType(TEXT), texts=self._labels)
        if any(node.op in ("label", "number") for node in operand.walk()):
            raise self._refused(term)
        register = HERE
        if not is_here or offset:
            register = self._number(self._nth(FIRST_PLACE if first else LAST_PLACE, variable, offset))
        slot = self._loaded(operand, register, distance)
        if slot.vector.is_one:
            raise self._refused(term)
        return slot

    def _nth(self, rule: int, variable: str | None, offset: int) -> _Register:
        """Return the register of a variable's first or last row, or of the row ``offset`` rows from there."""
        names = None if variable is None else self.members[variable]
        register = _Register(rule, -1, names)
        for _ in range(offset):
            register = _Register(rule, self._number(register), names)
        return register

    def _total(self, term: Compiled) -> _Slot:
        """Return the slot of an aggregate over the rows of the match so far."""
        tree, arguments, variable = term.data.tree, term.parts, term.data.variable
        function, names = tree.function, None if variable is None else self.members[variable]
        of_match = ("navigation", "total", "label", "number")
        is_single = len(arguments) < 2 and not any(
            node.op in of_match for part in arguments for node in part.walk()
        )
        if not is_single or (tree.distinct and function not in ("min", "max")) or tree.final:
            raise self._refused(term)
        if function == "count" and not arguments:
            return self._count(None, names)
        if function == "count_if":
            truths = self.rows.holds(arguments[0], True, 0)
            counted = Vector(np.where(truths, 1, 0), ColumnType(INTEGER), (~truths,))
            return self._count((("truth", _key(arguments[0])), counted), names)
        if function not in ("count", "avg", *_TOTALS):
            raise self._refused(term)
        key, vector = _key(arguments[0]), self._vector(arguments[0])
        if vector.is_one:
            raise self._refused(term)
        if function == "count":
            return self._count((key, vector) if vector.missing else None, names)
        if not vector.is_number or (function == "avg" and vector.type.kind in (TIME, DURATION)):
            raise self._refused(term)
        bound = _bound_of(vector) if function in ("sum", "avg") else 0
        if function in ("sum", "avg"):
            bound = bound * max(1, self.longest)
            check_bound(
                bound, _MOST_FLOAT if not vector.is_whole else EXACT if function == "avg" else LARGEST
            )
        rules = _TOTALS["sum" if function == "avg" else function]
        rule, column = rules[not vector.is_whole], self._column(key, vector)
        bound = bound if function in ("sum", "avg") else _bound_of(vector)
        total = self._read(_Register(rule, column, names), vector.type, bound)
        if function != "avg":
            return total
        count = self._count((key, vector), names)
        parts = (self._as_float(part).number for part in (total, count))
        return self._made(op.DIVIDE_FLOATS, *parts, ColumnType(FLOAT), bound)

    def _count(self, counted: tuple[Any, Vector] | None, names: frozenset[str] | None) -> _Slot:
        """Return the slot of the number of rows, or of the values of ``counted`` that are not null."""
        register = _Register(op.COUNT_ROWS, 0, names)
        if counted is not None:
            key, vector = counted
            rule = op.COUNT_FLOATS if vector.type.kind == FLOAT else op.COUNT_INTEGERS
            register = _Register(rule, self._column(key, vector), names)
        return self._read(register, ColumnType(INTEGER), max(1, self.longest))

    def _computed(self, term: Compiled, left: _Slot, right: _Slot) -> _Slot:
        """Return the slot of a sum, difference, product, quotient or remainder."""
        sign, kind = term.data, term.type
        if not (left.vector.is_number and right.vector.is_number):
            raise self._refused(term)
        is_whole, bounds = (
            left.vector.is_whole and right.vector.is_whole,
            [_bound_of(s.vector) for s in (left, right)],
        )
        first, second = bounds
        bound = {"+": first + second, "-": first + second, "*": first * second}.get(sign, first)
        if is_whole and sign != "/":
            check_bound(bound)
            if kind.kind == FLOAT:
                raise NotVectorizedError
            return self._made(_OF_INTEGERS[sign], left.number, right.number, kind, bound)
        if kind.kind != FLOAT or sign not in _OF_FLOATS:
            raise self._refused(term)
        left, right = self._as_float(left), self._as_float(right)
        check_bound(max(first, second, bound), _MOST_FLOAT)
        bound = np.inf if sign == "/" else bound
        return self._made(_OF_FLOATS[sign], left.number, right.number, kind, bound)

    def _of_sign(self, term: Compiled, value: _Slot, of_integers: int, of_floats: int) -> _Slot:
        """Return the slot of an operation on one number, by its codes for integers and for floats."""
        if not value.vector.is_number:
            raise self._refused(term)
        code = of_floats if value.is_float else of_integers
        bound = _bound_of(value.vector)
        return self._made(code, value.number, value.number, value.vector.type, bound)

    def _as_float(self, value: _Slot) -> _Slot:
        """Return the slot of a number as a float."""
        if value.is_float:
            return value
        check_bound(value.vector.bound(), EXACT)
        return self._made(op.TO_FLOAT, value.number, value.number, ColumnType(FLOAT), value.vector.bound())

    # --- what instructions read

    def _vector(self, term: Compiled) -> Vector:
        """Return the values of an expression at all rows, computed once."""
        key = _key(term)
        if key not in self._vectors:
            self._vectors[key] = self.rows.value(term, 0)
        return self._vectors[key]

    def _column(self, key: Any, vector: Vector) -> int:
        """Return the number of a column of floats or integers, in which null has its special value."""
        columns = self.floats if vector.type.kind == FLOAT else self.integers
        if key not in columns:
            values, n = vector.values, len(vector.values)
            if vector.type.kind != FLOAT:
                values = values.astype(np.int64, copy=False)
                if values.min(initial=0) == NULL_INTEGER and not vector.missing:  # a value for Python
                    raise NotVectorizedError
                columns[key] = np.where(vector.is_null(n), NULL_INTEGER, values) if vector.missing else values
            else:
                is_null = vector.is_null(n)
                if (np.isnan(values) & ~is_null).any():  # NaN is a value for Python
                    raise NotVectorizedError
                columns[key] = np.where(is_null, np.nan, values) if vector.missing else values
        return [*columns].index(key)

    def _loaded(self, term: Compiled, register: int, distance: int) -> _Slot:
        """Return the slot of an expression at a row, ``distance`` rows from the one in a register."""
        vector = self._vector(term)
        if vector.is_one:
            return self._constant_slot(vector)
        kinds = (INTEGER, FLOAT, TIME, DURATION, BOOLEAN, TEXT)
        if vector.type.kind not in kinds:
            raise self._refused(term)
        code = op.LOAD_FLOAT if vector.type.kind == FLOAT else op.LOAD_INTEGER
        return _Slot(self._write(code, register, self._column(_key(term), vector), distance), vector)

    def _read(self, register: _Register, kind: ColumnType, bound: float = 0, texts: Any = None) -> _Slot:
        """Return the slot of the value of a register."""
        number = self._write(op.LOAD_REGISTER, self._number(register), 0)
        return _Slot(number, Vector(_bounded(bound, kind), kind, texts=texts))

    def _number(self, register: _Register) -> int:
        """Return the number of a register."""
        self.registers.setdefault(register)
        if len(self.registers) > MOST_REGISTERS:
            raise NoRegistersError(f"conditions read more than {MOST_REGISTERS} rows and totals")
        return [*self.registers].index(register)

    def _constant_slot(self, vector: Vector) -> _Slot:
        """Return the slot of a constant."""
        value = vector.values
        if isinstance(value, str):
            return _Slot(-1, vector)  # it is compared by its code, see `_in_codes`
        if value is None or (not isinstance(value, float) and abs(int(value)) > LARGEST):
            raise NotVectorizedError
        bits = np.float64(value).view(np.int64) if vector.type.kind == FLOAT else value
        return _Slot(self._constant(int(bits)), vector)

    def _constant(self, bits: int) -> int:
        """Return the slot that holds the bits of a constant."""
        for slot, constant in self.constants.items():
            if constant == bits:
                return slot
        self._n_slots += 1
        self.constants[self._n_slots - 1] = bits
        return self._n_slots - 1

    def _made(self, code: int, left: int, right: int, kind: ColumnType, bound: float) -> _Slot:
        """Return the slot of the result of an instruction, with its type and bound."""
        return _Slot(self._write(code, left, right), Vector(_bounded(bound, kind), kind))

    def _write(self, code: int, left: int, right: int, more: int = 0) -> int:
        """Write an instruction unless an equal one is there; return the slot of its result."""
        key = code, left, right, more
        if key not in self._slots:
            self._slots[key] = self._n_slots
            self._code.append((code, self._n_slots, left, right, more))
            self._n_slots += 1
        return self._slots[key]


def _bound_of(vector: Vector) -> float:
    """Return the largest absolute value of numbers."""
    if vector.type.kind != FLOAT:
        return vector.bound()
    return float(np.nanmax(np.abs(vector.values), initial=0.0)) if np.size(vector.values) else 0.0


def _bounded(bound: float, kind: ColumnType) -> np.ndarray:
    """Return an array that stands for numbers up to a bound."""
    return np.array([bound], np.float64 if kind.kind == FLOAT else object)


@dataclass(frozen=True)
class WrittenRows:
    """The conditions of a query for `search_rows`, and the vectors and conditions that they read."""

    machine: RowMachine
    transitions: Transitions
    nearby: tuple[tuple[Compiled, bool], ...]  # conditions on nearby rows, by their bits
    floats: np.ndarray
    integers: np.ndarray
    slots: np.ndarray
    number_at: int
    start_at: int


def reason_without_registers(
    automaton: RowAutomaton, conditions: Mapping[str, Compiled], members: Members
) -> str | None:
    """Return why the kernels cannot test the conditions of a query, or None."""
    try:
        write_rows(automaton, conditions, members, TypesOnly())
    except NoRegistersError as error:
        return str(error)
    except NotVectorizedError:
        return "conditions compare values of different columns or units"
    return None


def write_rows(
    automaton: RowAutomaton, conditions: Mapping[str, Compiled], members: Members,
    rows: VectorReader | TypesOnly, longest: int = 0, *, needs_start: bool = False,
    targets: Iterable[str] = (),
) -> WrittenRows:  # fmt: skip
    """Return the conditions of a query as a machine."""
    # ``longest`` is the most rows of a partition. With ``needs_start``, partial matches with different first
    # rows never have the same future. ``targets`` are the variables to which AFTER MATCH skips.
    writer = RegisterWriter(members, tuple(dict.fromkeys(automaton.variable_of_state)), rows, longest)
    code: list[tuple] = []
    bits: dict[str, int] = {}
    spans: dict[str, tuple[int, int]] = {}
    for name in writer.names:
        spans[name] = len(code), len(code)
        if name in conditions:
            bit, lines = writer.condition(name, conditions[name])
            bits |= {} if bit is None else {name: bit}
            code += lines
            spans[name] = spans[name][0], len(code)
    if needs_start:
        writer.registers[_Register(op.STAYS, op.START_AT, frozenset())] = None
    registers, names = [*writer.registers], automaton.variable_of_state
    transitions = Transitions(automaton, tuple(bits.get(name, op.NO_CONDITION) for name in names))
    states = np.zeros((len(names) + 3, op.LIVE + 1), np.int64)
    states[:, op.FIRST_FOLLOWER] = transitions.first_follower
    states[len(names) : -1, op.CAN_END] = [MATCH in followers for followers in transitions.lists[-2:]]
    reads = {name: _reads(code[slice(*spans[name])]) for name in spans}
    takes = [
        sum(1 << r for r, reg in enumerate(registers) if reg.names is None or n in reg.names) for n in names
    ]
    if names:
        inner = states[: len(names)]
        inner[:, op.CAN_END], inner[:, op.CONDITION] = transitions.can_end, transitions.conditions
        inner[:, op.CODE : op.CODE_END + 1] = [spans[name] for name in names]
        inner[:, op.LABEL] = [writer.names.index(name) for name in names]
        inner[:, op.IS_TARGET] = [name in targets for name in names]
        inner[:, op.TAKES] = takes
        inner[:, op.IS_LOOP] = [
            transitions.lists[s][:1] == (s,) and _is_loop(registers, takes[s], reads[name])
            for s, name in enumerate(names)
        ]
        inner[:, op.LIVE] = _live(transitions, registers, takes, [reads[name] for name in names])
    slots = np.zeros(writer._n_slots + 1, np.int64)
    for slot, constant in writer.constants.items():
        slots[slot] = constant
    rules = np.array([(register.rule, register.argument) for register in registers], np.int64).reshape(-1, 2)
    start = [_start_value(register.rule) for register in registers]
    machine = RowMachine(
        states, transitions.followers, np.array(code, np.int64).reshape(-1, 5), rules,
        np.array(start, np.int64),
    )  # fmt: skip
    stays = {r.argument: i for i, r in enumerate(registers) if r.rule == op.STAYS}
    return WrittenRows(
        machine, transitions, tuple(writer.nearby.values()), _stacked(writer.floats, np.float64),
        _stacked(writer.integers, np.int64), slots, stays.get(op.NUMBER_AT, -1), stays.get(op.START_AT, -1),
    )  # fmt: skip


def _stacked(columns: Mapping[str, np.ndarray], dtype: type) -> np.ndarray:
    """Return columns as the rows of one array."""
    arrays = [*columns.values()]
    if len(arrays) == 1:
        return np.ascontiguousarray(arrays[0], dtype).reshape(1, -1)
    return np.stack(arrays).astype(dtype, copy=False) if arrays else np.empty((0, 0), dtype)


def _start_value(rule: int) -> int:
    """Return the value of a register before the first row: 0 for counts, else null."""
    if rule in (op.COUNT_ROWS, op.COUNT_INTEGERS, op.COUNT_FLOATS):
        return 0
    return int(np.float64(np.nan).view(np.int64)) if rule > op.COUNT_FLOATS else NULL_INTEGER


def _reads(code: Sequence[tuple]) -> int:
    """Return the registers that instructions read, as bits."""
    kinds = (op.LOAD_FLOAT, op.LOAD_INTEGER, op.LOAD_REGISTER)
    return sum({1 << line[op.LEFT] for line in code if line[0] in kinds and line[op.LEFT] != HERE})


def _is_loop(registers: Sequence[_Register], takes: int, reads: int) -> bool:
    """Return whether more rows of a state change its registers by their number alone, and no condition."""
    taken = [(r, register) for r, register in enumerate(registers) if takes >> r & 1]
    is_simple = all(
        register.rule == op.COUNT_ROWS or (register.rule <= LAST_LABEL and register.argument < 0)
        for _, register in taken
    )
    changed = sum(1 << r for r, register in taken if register.rule in (LAST_PLACE, op.COUNT_ROWS))
    return is_simple and not changed & reads


def _live(
    transitions: Transitions, registers: Sequence[_Register], takes: Sequence[int], reads: Sequence[int]
) -> list[int]:
    """Return for each state, as bits, the registers that matter after its row: later conditions read them."""
    n_states = len(takes)
    always = sum(
        1 << r for r, reg in enumerate(registers) if (reg.rule, reg.argument) == (op.STAYS, op.START_AT)
    )
    after = [[t for t in states if t != MATCH] for states in transitions.lists[:n_states]]
    before_states: list[list[int]] = [[] for _ in range(n_states)]
    for state, targets in enumerate(after):
        for target in targets:
            before_states[target].append(state)
    live = [always] * n_states
    waiting = [*range(n_states)]
    while waiting:
        state = waiting.pop()
        wanted = reads[state] | live[state]
        needed = _sources(registers, takes[state], wanted)
        for other in before_states[state]:
            if needed & ~live[other]:
                live[other] |= needed
                waiting.append(other)
    return live


def _sources(registers: Sequence[_Register], takes: int, wanted: int) -> int:
    """Return, as bits, the registers before a row that decide the registers in ``wanted`` after it."""
    sources = 0
    for r, register in enumerate(registers):
        if not wanted >> r & 1:
            continue
        is_last = register.rule in (LAST_PLACE, LAST_LABEL)
        if not takes >> r & 1 or not is_last:
            sources |= 1 << r
        if takes >> r & 1 and register.rule <= LAST_LABEL and register.rule and register.argument >= 0:
            sources |= 1 << register.argument
    return sources
