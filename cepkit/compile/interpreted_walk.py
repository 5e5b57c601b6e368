"""A branch of a sequence query as data for a walk: tables of components, conditions as instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from cepkit.compile.instructions import (
    ALL_PRESENT,
    ALL_VALID,
    AS_FLOAT,
    FALSE,
    STORED,
    TRUE,
    VALUE,
    EventValue,
    InstructionWriter,
    NotInterpretedError,
    Register,
    reading_unsupported,
)
from cepkit.compile.sequence_program import (
    EACH,
    EARLIER,
    LAST,
    PREVIOUS,
    BoundBranch,
    BoundCondition,
    SequenceProgram,
)
from cepkit.compile.sequence_source import MODES, NO_LIMIT, PREFERENCES, is_decided_at_begin, without_variable
from cepkit.compile.shared.terms import ALWAYS, Term, conjuncts_of
from cepkit.events import BOOLEAN, FLOAT, TEXT
from cepkit.kernels import records as opcodes
from cepkit.kernels.records import (
    AT_INNER_LOOP,
    AT_LAST,
    AT_LOOP,
    AT_OTHER,
    AT_TIME_LIMIT,
    NOWHERE,
    REQUIRE,
    BranchTables,
)
from cepkit.language.expressions.trees import MIRRORED, NEGATED
from cepkit.values import dataclass, replace

# A condition reads the events of a partial match, the *path*. The tables say where they are on the path.

_GROUPS = {
    "count": opcodes.NUMBER, "count_of": opcodes.NUMBER_KNOWN, "sum": opcodes.TOTAL, "min": opcodes.LOWEST,
    "max": opcodes.HIGHEST, "first": opcodes.FIRST, "last": opcodes.LAST,
}  # fmt: skip
THERE = "there"  # a leaf that is true where its event exists, else null
Depth = tuple[int, int]  # a base, and an offset from it


@dataclass(frozen=True)
class ConditionCode:
    """The values, constants and registers that interpreted conditions read."""

    # floats, integers: what conditions read of single events. Their terms name no variable.
    floats: tuple[EventValue, ...]
    integers: tuple[EventValue, ...]
    # Per constant: its register, whether it is a float, its number in the query or None, its value.
    constants: tuple[tuple[int, bool, int | None, int], ...]
    n_registers: int  # number of registers of each kind


@dataclass(frozen=True)
class WalkCode(ConditionCode):
    """A branch as tables: the kernel that interprets walks over its partial matches."""

    branch: BranchTables
    conditions: tuple[np.ndarray, ...]  # the first tables of `cepkit.kernels.records.Conditions`


def walk_code_of(program: SequenceProgram, bound: BoundBranch) -> WalkCode | str:
    """Return a branch for interpretation, or why it cannot be interpreted, to complete "it …"."""
    return program.once("walk", partial(_walk_code, program, bound), of=bound)


def _walk_code(program: SequenceProgram, bound: BoundBranch) -> WalkCode | str:
    """Return the instructions for a branch, or a text that says why it cannot be interpreted."""
    terms = [*(condition.term for condition in bound.conditions), *filter(None, bound.untils)]
    if reason := next(filter(None, map(reading_unsupported, terms)), None):
        return reason
    try:
        return BranchWriter(program, bound).write()
    except NotInterpretedError as error:
        return str(error)


class PathInstructions(InstructionWriter):
    """Writes the instructions of one condition. Parts that read one event come from columns."""

    # ``leaf_of_value`` has a leaf for each of these parts. ``carried`` are the leaves that the kernel
    # computes: aggregates, and values of events that may be missing.

    def __init__(self) -> None:
        super().__init__(())
        self.leaf_of_value: dict[int, Term] = {}

    def _of_event(self, what: str, term: Term, *, is_float: bool = False) -> Register | None:
        """Return the register of a value of an event, if all leaves read the same event and it exists."""
        leaves = [leaf for leaf in term.walk() if leaf.op in ("element", "column", "group")]
        events = {leaf.data[:2] if leaf.op == "element" else () for leaf in leaves}
        if len(events) != 1 or any(leaf.op == "group" or _may_miss(leaf) for leaf in leaves):
            return None
        register = self.event(what, term, is_float=is_float)
        self.leaf_of_value[register.index] = leaves[0]
        return register

    def value(self, term: Term) -> Register:
        register = self._of_event(VALUE, term, is_float=term.kind == FLOAT)
        return register or self._once(("value", term), lambda: self._value(term))

    def as_float(self, term: Term) -> Register:
        return self._of_event(AS_FLOAT, term, is_float=True) or super(InstructionWriter, self).as_float(term)

    def valid(self, term: Term) -> list[Register]:
        if term.kind == FLOAT or not term.nullable:
            return []
        if term.op == "element" and term.args:
            there = self.leaf(replace(term, op=THERE, args=(), kind=BOOLEAN))
            return [self.apply(">= integers", there, self.number(0))]
        register = self._of_event(ALL_VALID, term)
        return [register] if register else super(InstructionWriter, self).valid(term)

    def holds(self, term: Term, wanted: bool) -> Register:
        register = self._of_event(TRUE if wanted else FALSE, term)
        return register or super(InstructionWriter, self).holds(term, wanted)

    def leaf(self, term: Term) -> Register:
        if term not in self.carried:
            self.carried = (*self.carried, term)
        return super().leaf(term)

    def table(self, number: int, code: Register, wanted: bool) -> Register:
        raise NotInterpretedError("tests a text of an event that may be missing")

    def member(self, number: int, value: Register, wanted: bool) -> Register:
        raise NotInterpretedError("looks for a value of several events in a list")


def _may_miss(leaf: Term) -> bool:
    """Return whether the event of a leaf, such as ``b[3]``, may be missing because a loop is too short."""
    return leaf.op == "element" and isinstance(leaf.data[1], int)


class BranchWriter:
    """Writes the tables of a branch, as lists of rows. `condition` adds one condition by itself."""

    def __init__(self, program: SequenceProgram, bound: BoundBranch):
        self.program, self.bound, self.of = program, bound, bound.branch.components
        self.n = len(self.of)
        self.floats: dict[EventValue, int] = {}
        self.integers: dict[EventValue, int] = {}
        self.constants: list[tuple[int, bool, int | None, int]] = []
        self.n_registers = 0
        self.conditions, self.loops, self.loads, self.groups, self.code = ([] for _ in range(5))

    def write(self) -> WalkCode:
        """Return the tables of the branch."""
        listed: dict[tuple[str, int], list[int]] = {}
        for condition in self.bound.conditions:
            at, each = condition.condition.decided_at, condition.condition.each
            if condition.condition.absence is None:
                self.condition(
                    condition.term, condition.component_of_variable, at, taking=at if each else None
                )
                listed.setdefault(("admits" if each else "closes", at), []).append(len(self.conditions) - 1)
        for c, term in enumerate(self.bound.untils):
            if term is not None:
                names = {component.variable: i for i, component in enumerate(self.of[: c + 1])}
                self.condition(term, names, c)
                listed["ends", c] = [len(self.conditions) - 1]
        absences = []
        for a, absence in enumerate(self.bound.branch.absences):
            conditions = [c for c in self.bound.conditions if c.condition.absence == a]
            begun = is_decided_at_begin(self.bound, a)
            listed.setdefault(("free", absence.before if begun else self.n), []).append(a)
            absences.append(self._absence(a, conditions, absence.before if begun else self.n - 1))
        spans, numbers = [], []
        for kind in ("admits", "closes", "ends", "free"):
            for c in range(self.n + (kind == "free")):
                numbers_of_kind = listed.get((kind, c), [])
                spans.append([len(numbers), len(numbers) + len(numbers_of_kind)])
                numbers += numbers_of_kind
        components = [
            [c.low, NO_LIMIT if c.high is None else c.high, MODES[c.inner], MODES[c.step],
             PREFERENCES[c.preference]] for c in self.of
        ]  # fmt: skip
        branch = BranchTables(
            *np.array(components, np.int64).T.copy(), table_of_rows(spans, 2),
            table_of_rows([[i] for i in numbers], 1), table_of_rows(absences, 7),
        )  # fmt: skip
        return WalkCode(*self.values_read(), branch, self.tables_of_conditions())

    def values_read(self) -> tuple:
        """Return the fields of `ConditionCode`."""
        return tuple(self.floats), tuple(self.integers), tuple(self.constants), max(1, self.n_registers)

    def tables_of_conditions(self) -> tuple[np.ndarray, ...]:
        """Return the first tables of `cepkit.kernels.records.Conditions`."""
        widths = ((self.conditions, 9), (self.loops, 3), (self.loads, 7), (self.groups, 9), (self.code, 4))
        return tuple(table_of_rows(rows, width) for rows, width in widths)

    # --- conditions

    def condition(
        self, term: Term, component_of: Mapping[str, int], top: int, *, taking: int | None = None,
        beside: str | None = None,
    ) -> None:  # fmt: skip
        """Add a condition; for the parameters see `PathWriter.condition`. -1 for ``top`` is no component."""
        writer = PathInstructions()
        for conjunct in conjuncts_of(term):
            writer.require(conjunct, 1)
        leaves = [*writer.leaf_of_value.values(), *writer.carried]
        back = {_variable(leaf) for leaf in leaves if _reads_back(leaf)}
        at: dict[str, Depth] = {}
        first_loop, needs = len(self.loops), NOWHERE
        for leaf in leaves:
            variable = _variable(leaf)
            if variable in ("", beside) or variable in at or not _is_one_of_many(leaf):
                continue
            c = component_of[variable]
            if c == taking:
                at[variable] = AT_LAST, 0
                needs = c if variable in back else needs
            elif self.of[c].is_group:
                n_loops = len(self.loops) - first_loop
                if n_loops > 1:
                    raise NotInterpretedError("compares all events of three loops")
                at[variable] = (AT_LOOP, AT_INNER_LOOP)[n_loops], 0
                self.loops.append([c, int(variable in back), AT_LAST if c == top else c + 1])
            else:
                at[variable] = c, 0
        first_load, first_group, first_code = len(self.loads), len(self.groups), len(self.code)
        number = {key: self.n_registers + i for key, i in writer.numbers().items()}
        self.n_registers += len(number)

        def end(c: int) -> Depth:
            return (AT_LAST, 0) if c == top else (c + 1, -1)

        def depth(leaf: Term) -> tuple[Depth, int]:
            """Return where the event of a leaf is, and the base of the last event that exists."""
            if leaf.op == "column" or leaf.data[0] == beside:
                return (AT_OTHER, 0), NOWHERE
            variable, which, _ = leaf.data
            if which in (EACH, PREVIOUS):
                base, offset = at[variable]
                return (base, offset - (which == PREVIOUS)), NOWHERE
            c = component_of[variable]
            return (end(c), NOWHERE) if which == LAST else ((c, which - 1), end(c)[0])

        for value, index in writer.values.items():
            self._load(value, number["event", index], *depth(writer.leaf_of_value[index]), 0)
        for i, leaf in enumerate(writer.carried):
            if leaf.op in ("element", THERE):
                read = EventValue(VALUE, leaf, leaf.kind == FLOAT)
                if leaf.op == THERE:
                    read = EventValue(TRUE, ALWAYS, False)
                self._load(read, number["carried", i], *depth(leaf), int(leaf.kind in (TEXT, BOOLEAN)))
                continue
            _, variable, over = leaf.data
            c = component_of[variable]
            base, offset = end(c) if over != EARLIER else at[variable]
            self._group(leaf, number["carried", i], c, base, offset - (over == EARLIER))
        for (is_float, constant_number, value), index in writer.constants.items():
            self.constants.append((number["constant", index], is_float, constant_number, value))
        base = self.n_registers - len(number)
        for op, target, left, right in writer.code().tolist():
            self.code.append([op, target if op == REQUIRE else target + base, left + base, right + base])
        self.conditions.append(
            [first_loop, len(self.loops), first_load, len(self.loads), first_group, len(self.groups),
             first_code, len(self.code), needs]
        )  # fmt: skip

    def _row(self, value: EventValue) -> int:
        """Return the row of a value among the floats or the integers."""
        value = EventValue(value.what, without_variable(value.term), value.is_float)
        rows = self.floats if value.is_float else self.integers
        return rows.setdefault(value, len(rows))

    def _load(self, value: EventValue, register: int, at: Depth, limit: int, is_code: int) -> None:
        """Add the row that loads a value of the event at a depth into a register."""
        self.loads.append([int(value.is_float), self._row(value), register, *at, limit, is_code])

    def _group(self, leaf: Term, register: int, low: int, base: int, offset: int) -> None:
        """Add the row that computes an aggregate, from component ``low`` to a depth, into a register."""
        function = leaf.data[0]
        row = [_GROUPS[function], register, 0, 0, 0, low, base, offset, int(leaf.kind in (TEXT, BOOLEAN))]
        if leaf.args:
            (arg,) = leaf.args
            is_float = arg.kind == FLOAT
            what = STORED if function in ("first", "last") else VALUE
            row[2:4] = int(is_float), self._row(EventValue(what, arg, is_float))
            row[4] = self._row(EventValue(ALL_PRESENT, arg, False))
        self.groups.append(row)

    # --- absent events

    def _absence(self, a: int, conditions: list[BoundCondition], top: int) -> list[int]:
        """Add the conditions on an absent event; return the row of the absence, with the events around it."""
        absence, first = self.bound.branch.absences[a], len(self.conditions)
        for condition in conditions:
            self.condition(condition.term, condition.component_of_variable, top, beside=absence.variable)

        def end(c: int) -> Depth:
            return (AT_LAST, 0) if c == top else (c + 1, -1)

        time = AT_TIME_LIMIT, 0
        if absence.spanning:
            low, high = (absence.after, 0), end(absence.before)
        else:
            low = time if absence.after < 0 else end(absence.after)
            high = time if absence.before >= self.n else (absence.before, 0)
        return [a, *low, *high, first, len(self.conditions)]


def table_of_rows(rows: list, width: int) -> np.ndarray:
    """Return rows of integers as a table, also without any row."""
    return np.array(rows, np.int64).reshape(-1, width)


def _variable(leaf: Term) -> str:
    """Return the variable whose events a leaf reads; empty for a column of an event outside the path."""
    return "" if leaf.op == "column" else leaf.data[1] if leaf.op == "group" else leaf.data[0]


def _is_one_of_many(leaf: Term) -> bool:
    """Return whether a leaf means each event of a loop in turn, and not one certain event."""
    return leaf.data[2] == EARLIER if leaf.op == "group" else leaf.data[1] in (EACH, PREVIOUS)


def _reads_back(leaf: Term) -> bool:
    """Return whether a leaf reads events before the one that the loop is at."""
    if leaf.op == "group":
        return leaf.data[2] == EARLIER
    return leaf.op == "element" and leaf.data[1] == PREVIOUS


# Conditions on three or more single events as instructions on registers.


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
    # int64, (n_instructions, 4): the instructions; see `cepkit.kernels.records`. They require the condition,
    # or compute the result of the comparison.
    code: np.ndarray
    level: int  # the level that binds the last of the events
    # The condition, if it compares a value of the last event with a value of the events before.
    comparison: JointComparison | None


def joint_test_of(term: Term, level_of: Callable[[Term], int]) -> JointTest | str:
    """Return the test of a condition, or why there is none, to complete "it …"."""
    # ``level_of`` returns the level that binds the event of a leaf.
    if reason := reading_unsupported(term):
        return reason
    level = max(_levels([term], level_of))
    writer, compared = PathInstructions(), _compared(term, level, level_of)
    result = validity = None
    try:
        if compared is None:
            writer.require(term, 1)
        else:
            result, validity = _write_result(writer, *compared)
    except NotInterpretedError as error:
        return str(error)
    leaves = writer.leaf_of_value
    if writer.carried or any(leaf.op != "element" for leaf in leaves.values()):
        return "compares values of more than two events, and one event may be missing"
    number = writer.numbers()
    values = [(value, number["event", i], level_of(leaves[i])) for value, i in writer.values.items()]
    constants = [
        (number["constant", i], is_float, constant_number, value)
        for (is_float, constant_number, value), i in writer.constants.items()
    ]
    comparison = None
    if compared is not None:
        level_value, sign, other_value = compared
        registers = (number[register.kind, register.index] for register in (result, validity))
        comparison = JointComparison(level_value, sign, *registers, _as_floats(level_value, other_value))
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
    sign = term.data if wanted else NEGATED[term.data]
    if level in _levels([right], level_of):
        left, right, sign = right, left, MIRRORED[sign]
    if _levels([left], level_of) != {level} or level in _levels([right], level_of):
        return None
    return left, sign, right


def _as_floats(one: Term, other: Term) -> bool:
    return FLOAT in (one.kind, other.kind)


def _write_result(writer: PathInstructions, one: Term, sign: str, other: Term) -> tuple[Register, Register]:
    """Write the value of one side of a comparison, as a float if the other side is one."""
    value = writer.value(other)
    if _as_floats(one, other) and other.kind != FLOAT:
        value = writer.apply("to float", value)
    return value, writer.all(writer.valid(other))
